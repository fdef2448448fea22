//! This executable, started again to play a part.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{departures, forks, hostile, kills, noticed, stops, strangers, thirds};

const PART: &str = "VIADUCT_CHAOS_PART";

/// Not a test of its own: what the other processes do.
#[test]
fn child() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    strangers::become_other();
    match part.as_str() {
        "departures" => departures::survive(),
        "sending" => departures::run_sending(),
        "left behind" => departures::survive_senders(),
        "sending once" => departures::run_sending_once(),
        "besought" => thirds::survive(),
        "flooding" => thirds::flood(),
        "scribbling" => thirds::scribble(),
        "kills" => kills::survive(),
        "points" => kills::survive_points(),
        "victim" => kills::run_victim(),
        "stops" => stops::survive(),
        "stopped" => stops::run_stopped(),
        "noticing" => noticed::survive(),
        "polled" => noticed::run_polled(),
        "strangers" => strangers::survive(),
        "forks" => forks::survive(),
        "besieged" => hostile::survive(),
        "honest" => hostile::echo(),
        part => panic!("no part is called {part}"),
    }
}

/// Says something to the process that started this one.
pub(super) fn say(line: &str) {
    println!("> {line}");
    let _ = std::io::stdout().flush();
}

/// Another process. Killed when dropped.
pub(super) struct Other {
    pub(super) process: Child,
    says: BufReader<ChildStdout>,
}

impl Other {
    pub(super) fn start(part: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_as(part, environment, |_| ())
    }

    /// The same, with something more to be done to the command.
    pub(super) fn start_as(
        part: &str,
        environment: &[(&str, &str)],
        prepare: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "chaos::process::child", "--nocapture", "-q"])
            .env(PART, part)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        prepare(&mut command);
        let mut process = command.spawn().unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        Self { process, says }
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    /// Its next line of its own; `None` when it has ended.
    pub(super) fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.says.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            // The test harness leaves its line open before the first of ours.
            if let Some((_, said)) = line.trim().split_once("> ") {
                return Some(said.to_owned());
            }
        }
    }

    /// Signals it.
    pub(super) fn signal(&self, signal: i32) {
        // SAFETY: the process is our child and not waited for, so the number is still its own.
        unsafe { libc::kill(self.pid(), signal) };
    }

    /// Whether it has ended by itself, or been killed.
    pub(super) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One survivor at a time: their time limits suppose a processor.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a survivor to its end and relays what it says. One that takes longer than `limit` hangs.
pub(super) fn run_survivor(part: &str, environment: &[(&str, &str)], limit: Duration) {
    let _alone = alone();
    let mut survivor = Other::start(part, environment);
    let pid = survivor.pid();
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        let hangs = is_over.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        if hangs {
            // SAFETY: as in `signal`: it is waited for after this thread.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        hangs
    });
    let mut last = String::new();
    while let Some(line) = survivor.line() {
        println!("{part} {environment:?}: {line}");
        last = line;
    }
    // What the harness says after a failure.
    let mut rest = String::new();
    let _ = survivor.says.read_to_string(&mut rest);
    drop(over);
    let hangs = watchdog.join().unwrap();
    let status = survivor.process.wait().unwrap();
    assert!(
        !hangs,
        "the survivor hung after {limit:?}; it said last: {last}"
    );
    assert!(
        status.success(),
        "the survivor failed: {status}; it said last: {last}"
    );
    assert_eq!(last, "survived");
}

/// Looks again until it is so; whether it came about in time.
pub(super) fn wait_until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > limit {
            return false;
        }
        thread::yield_now();
    }
    true
}
