//! Threads of other processes, as the system shows them.

use std::fs;
use std::time::{Duration, Instant};

/// Calls of the system in which programs wait.
const CALLS: &[(libc::c_long, &str)] = &[
    (libc::SYS_read, "read"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_write, "write"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_recvmmsg, "recvmmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_poll, "poll"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_select, "select"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_epoll_wait, "epoll_wait"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_epoll_pwait2, "epoll_pwait2"),
    (libc::SYS_futex, "futex"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_pause, "pause"),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend"),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_semop, "semop"),
    (libc::SYS_semtimedop, "semtimedop"),
    (libc::SYS_msgsnd, "msgsnd"),
    (libc::SYS_msgrcv, "msgrcv"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
];

/// What the system says of a thread.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Status {
    /// As `/proc/PID/status` has it: `R` runs, `D` waits for a disk, `S` sleeps.
    state: char,
    /// How often it has slept, and how often it was interrupted.
    switches: (String, String),
}

impl Status {
    /// None: there is no such thread.
    pub(super) fn of(process: i32, task: i32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/task/{task}/status")).ok()?;
        let field = |name| field(&text, name).to_owned();
        Some(Self {
            state: field("State:").chars().next()?,
            switches: (
                field("voluntary_ctxt_switches:"),
                field("nonvoluntary_ctxt_switches:"),
            ),
        })
    }

    /// Whether it has something to do, and does it or will.
    pub(super) const fn is_busy(&self) -> bool {
        matches!(self.state, 'R' | 'D')
    }
}

/// What stands behind a name at the beginning of a line.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.map_or("", str::trim)
}

/// The call of the system that a thread is in, if the system says so.
pub(super) fn call_of(process: i32, task: i32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{task}/syscall")).ok()?;
    let number: libc::c_long = text.split(' ').next()?.trim().parse().ok()?;
    let known = CALLS.iter().find(|(call, _)| *call == number);
    Some(known.map_or_else(
        || format!("call {number} of the system"),
        |(_, name)| (*name).to_owned(),
    ))
}

/// One sleep of a thread, looked at now and then.
#[derive(Debug, Default)]
pub(super) struct Sleep(Option<(Status, Instant)>);

impl Sleep {
    /// Whether the thread has slept for so long, looked at now and at least once before, and has
    /// not woken between.
    pub(super) fn lasts(&mut self, process: i32, task: i32, long: Duration) -> bool {
        let status = Status::of(process, task).filter(|status| status.state == 'S');
        let Some(status) = status else {
            self.0 = None;
            return false;
        };
        match &self.0 {
            Some((before, since)) if *before == status => since.elapsed() >= long,
            _ => {
                self.0 = Some((status, Instant::now()));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_whole_names() {
        let status = "Name:\tx\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t5\n\
                      nonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(field(status, "State:"), "S (sleeping)");
        assert_eq!(field(status, "voluntary_ctxt_switches:"), "5");
        assert_eq!(field(status, "nonvoluntary_ctxt_switches:"), "7");
        assert_eq!(field(status, "Threads:"), "");
    }

    #[test]
    fn who_runs_does_not_sleep() {
        let process = std::process::id() as i32;
        let task = rustix::thread::gettid().as_raw_nonzero().get();
        let mut sleep = Sleep::default();
        for _ in 0..2 {
            assert!(!sleep.lasts(process, task, Duration::ZERO));
        }
        assert!(Status::of(process, task).unwrap().is_busy());
        assert!(Status::of(process, 0).is_none());
    }
}
