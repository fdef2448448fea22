//! Runs with a client on each host, and how they end.

use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use viaduct_turns::{Coordinator, Ended, HOST_VARIABLE, RunError, SOCKET_VARIABLE};

use crate::world::Clock;

/// Runs that must be equal.
pub(crate) const RUNS: u32 = 20;

pub(crate) fn itself(role: &str, words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--client").arg(role).args(words);
    command
}

/// What the world wrote down, how the run ended, and each client's exit code and complaint.
pub(crate) type Finished = (Clock, Result<Ended, RunError>, Vec<(Option<i32>, String)>);

/// One run with a client on each host.
pub(crate) struct Run {
    folder: tempfile::TempDir,
    pub(crate) coordinator: Coordinator,
    children: Vec<Child>,
}

impl Run {
    pub(crate) fn new(clients: &[(&str, &[&str])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let hosts = u32::try_from(clients.len()).unwrap();
        let mut coordinator = Coordinator::bind(&path, hosts).unwrap();
        let mut children = Vec::new();
        // The last is started first: the order of hosts is not that of starting.
        for (host, (role, words)) in clients.iter().enumerate().rev() {
            let mut command = itself(role, words);
            command
                .env(SOCKET_VARIABLE, &path)
                .env(HOST_VARIABLE, host.to_string());
            command.stderr(Stdio::piped());
            // SAFETY: the calls are allowed there.
            unsafe {
                command.pre_exec(|| {
                    viaduct_turns::pin_to_one_core()?;
                    Ok(())
                });
            }
            let child = command.spawn().unwrap();
            coordinator.expect_process(child.id());
            children.insert(0, child);
        }
        Self {
            folder,
            coordinator,
            children,
        }
    }

    /// Runs, and says how each client ended and what it complained of.
    pub(crate) fn result(self) -> Finished {
        self.result_with(Clock::default())
    }

    /// The same in a world in which something happens.
    pub(crate) fn result_with(self, mut clock: Clock) -> Finished {
        let result = self.coordinator.run(&mut clock);
        let ended = self.children.into_iter().map(|mut child| {
            if result.is_err() {
                has_been_killed(&mut child);
            }
            let mut text = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            (child.wait().unwrap().code(), text)
        });
        let ended = ended.collect();
        drop(self.folder);
        (clock, result, ended)
    }
}

/// A run that ends early ends its clients.
pub(crate) fn has_been_killed(child: &mut Child) {
    for _ in 0..1000 {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    panic!("a client is left");
}

/// Runs clients that all end well.
pub(crate) fn well(clients: &[(&str, &[&str])]) -> (Vec<String>, Ended) {
    let (clock, result, ended) = Run::new(clients).result();
    for (code, text) in ended {
        assert!(code == Some(0), "{code:?}: {text}\n{result:?}");
    }
    let ended = result.unwrap();
    assert_eq!(ended.notices, Vec::<String>::new());
    (clock.lines, ended)
}

/// The same, many times with one result, which is returned.
pub(crate) fn well_each_time(
    clients: impl Fn() -> Vec<(&'static str, Vec<String>)>,
) -> (Vec<String>, Ended) {
    let mut first = None;
    for run in 0..RUNS {
        let clients = clients();
        let words: Vec<Vec<&str>> = clients
            .iter()
            .map(|(_, words)| words.iter().map(String::as_str).collect())
            .collect();
        let roles = clients.iter().zip(&words);
        let roles: Vec<(&str, &[&str])> = roles
            .map(|((role, _), words)| (*role, words.as_slice()))
            .collect();
        let result = well(&roles);
        let first = first.get_or_insert_with(|| result.clone());
        assert_eq!(*first, result, "run {run}");
    }
    first.unwrap()
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A pipe whose ends children inherit; nobody waits in a read.
pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: two numbers have room, and the descriptors are ours.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

pub(crate) fn times(lines: &[String]) -> Vec<u64> {
    let first = |line: &String| line.split(' ').next().unwrap().parse().unwrap();
    lines.iter().map(first).collect()
}

/// The number of a descriptor that stays open here, for clients to inherit.
pub(crate) fn inherited(descriptor: OwnedFd) -> String {
    let number = descriptor.as_raw_fd().to_string();
    std::mem::forget(descriptor);
    number
}
