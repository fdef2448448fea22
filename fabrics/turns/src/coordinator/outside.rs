//! Processes that take no part in the simulation and that clients talk with: whoever starts them,
//! such as `mpiexec`. What they do takes real time and no simulated time: time stands until they
//! rest.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::loopback::Loopback;
use super::tasks::Status;

/// How long they may have something to do.
const LIMIT: Duration = Duration::from_secs(5);
/// So often they only have the processor given to them before they are slept for.
const YIELDS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(200);

#[derive(Debug)]
pub(super) struct Outside {
    roots: Vec<i32>,
    limit: Duration,
}

/// A thread that sleeps: its number, and what is known of it.
type Sleeper = (i32, Status);

impl Outside {
    pub(super) const fn new(roots: Vec<i32>) -> Self {
        Self {
            roots,
            limit: LIMIT,
        }
    }

    pub(super) fn is_nobody(&self) -> bool {
        self.roots.is_empty()
    }

    /// Returns when all of them sleep, and all that they have started and that are no clients, and
    /// what they have sent and were sent has come; false: they did not within some seconds.
    pub(super) fn await_rest(&self, loopback: &Loopback, is_client: impl Fn(i32) -> bool) -> bool {
        let end = Instant::now() + self.limit;
        let mut before = None;
        let mut looks = 0;
        loop {
            loopback.settle();
            let sleepers = self.sleepers(&is_client);
            // One may have woken another between two looks, but has not slept again as often.
            if sleepers.is_some() && sleepers == before {
                return true;
            }
            let is_first = before.is_none();
            before = sleepers;
            if before.is_some() && is_first {
                continue;
            }
            looks += 1;
            if looks <= YIELDS {
                thread::yield_now();
            } else if Instant::now() < end {
                thread::sleep(PAUSE);
            } else {
                return false;
            }
        }
    }

    /// All of their threads; none: one of them runs.
    fn sleepers(&self, is_client: &impl Fn(i32) -> bool) -> Option<Vec<Sleeper>> {
        let mut sleepers = Vec::new();
        let mut to_look: Vec<i32> = self.roots.clone();
        while let Some(process) = to_look.pop() {
            if is_client(process) {
                continue;
            }
            // One that has ended has none.
            let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
                continue;
            };
            for thread in threads.flatten() {
                let Some(thread) = number(thread.file_name().to_str()) else {
                    continue;
                };
                let Some(status) = Status::of(process, thread) else {
                    continue;
                };
                if status.is_busy() {
                    return None;
                }
                sleepers.push((thread, status));
                let children = format!("/proc/{process}/task/{thread}/children");
                let children = fs::read_to_string(children);
                let children = children.unwrap_or_default();
                to_look.extend(children.split_whitespace().map(Some).filter_map(number));
            }
        }
        Some(sleepers)
    }
}

fn number(text: Option<&str>) -> Option<i32> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_computes_is_waited_for_and_who_sleeps_is_not() {
        // It says so when it has computed for a while, and then waits to be told to end.
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; echo done; read line";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let outside = Outside::new(vec![child.id() as i32]);
        assert!(outside.sleepers(&|_| false).is_none());
        // A client is not waited for.
        let own = child.id() as i32;
        assert_eq!(
            outside.sleepers(&|process| process == own),
            Some(Vec::new())
        );
        assert!(outside.await_rest(&Loopback::new(), |_| false));
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
        assert_eq!(outside.sleepers(&|_| false).map(|all| all.len()), Some(1));
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        child.wait().unwrap();
        assert_eq!(outside.sleepers(&|_| false), Some(Vec::new()));
    }

    #[test]
    fn who_never_sleeps_is_not_waited_for_forever() {
        let script = "while true; do :; done";
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let outside = Outside {
            roots: vec![child.id() as i32],
            limit: Duration::from_millis(20),
        };
        let has_rested = outside.await_rest(&Loopback::new(), |_| false);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!has_rested);
    }
}
