//! Stations in processes of their own, over shared memory: this executable runs itself again with
//! the part that the other plays in the environment. The other stays until its standard input ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::*;
use viaduct_am::{Body, EventMask, Key, Reason};
use viaduct_shm::Shm;
use viaduct_vi_carrier::{Identity, Options, Station};

const PART: &str = "VIADUCT_ENDPOINTS_PART";

fn station(frames: u32) -> Station<Shm> {
    let options = Options {
        frames,
        ..Options::default()
    };
    let identity = Identity::random().unwrap();
    Station::start(Shm::global(), "shm", identity, options).unwrap()
}

/// Another process. Killed when dropped.
struct Other {
    process: Child,
    says: BufReader<ChildStdout>,
    hears: Option<ChildStdin>,
}

impl Other {
    fn start(part: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::child", "--nocapture"])
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        let hears = process.stdin.take();
        Self {
            process,
            says,
            hears,
        }
    }

    /// Its next line, without what the test harness says.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.says.read_line(&mut line).unwrap() > 0, "it ended");
            if let Some((_, said)) = line.trim().split_once("> ") {
                return said.to_owned();
            }
        }
    }

    fn tell(&mut self, line: &str) {
        let hears = self.hears.as_mut().unwrap();
        writeln!(hears, "{line}").unwrap();
        hears.flush().unwrap();
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Whether it ended well, after it was let go.
    fn ends_well(mut self) -> bool {
        drop(self.hears.take());
        self.process.wait().unwrap().success()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn say(line: impl std::fmt::Display) {
    println!("> {line}");
    std::io::stdout().flush().unwrap();
}

/// What the other process does; nothing when the tests run as tests.
#[test]
fn child() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    match part.as_str() {
        "serve" => serve(false),
        "sleep" => serve(true),
        "deaf" => deaf(),
        "mesh" => mesh(),
        _ => panic!("no part `{part}`"),
    }
}

/// Answers until its input ends; or takes in and answers nothing.
fn serve(is_asleep: bool) {
    let station = station(64);
    let mut end = endpoint(&station);
    // Takes in for the other one, which nobody polls.
    let mut beside = endpoint(&station);
    say(end.name());
    let is_over = leash();
    while !is_over.load(Ordering::Acquire) {
        let _ = beside.wait(EventMask::MESSAGE, Some(Duration::from_millis(1)));
        beside.poll();
        if !is_asleep {
            end.poll();
        }
    }
}

/// Takes nothing in: its acceptor alone answers.
fn deaf() {
    let end = endpoint(&station(64));
    say(end.name());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Becomes true when the input ends.
fn leash() -> &'static AtomicBool {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        IS_OVER.store(true, Ordering::Release);
    });
    &IS_OVER
}

const MESH: usize = 5;
const MESH_REQUESTS: u64 = 60;

/// Talks to all of a mesh over two frames, and says how it went.
fn mesh() {
    let station = station(2);
    let mut end = endpoint(&station);
    say(end.name());
    let mut names = String::new();
    std::io::stdin().read_line(&mut names).unwrap();
    for (index, name) in names.split_whitespace().enumerate() {
        end.map(index, &name.parse().unwrap(), KEY).unwrap();
    }
    let is_over = leash();
    let mut draws = Draws(u64::from(std::process::id()));
    let payload = [7; 700];
    for word in 0..MESH_REQUESTS {
        let body = match draws.next(2) {
            0 => Body::Short,
            _ => Body::Medium(&payload),
        };
        let target = draws.next(MESH as u64) as usize;
        end.request_with(target, ECHO, &[word], body).unwrap();
        end.poll();
    }
    let mut has_said = false;
    while !is_over.load(Ordering::Acquire) {
        let _ = end.wait(EventMask::MESSAGE, Some(Duration::from_millis(1)));
        end.poll();
        if end.outstanding() == 0 && !has_said {
            has_said = true;
            let mut replies = end.state().replies.clone();
            replies.sort_unstable();
            assert_eq!(end.state().returned, []);
            assert_eq!(replies, (0..MESH_REQUESTS).collect::<Vec<_>>());
            say("all answered");
        }
    }
    let statistics = station.statistics();
    eprintln!("{statistics:?}");
    say(format!(
        "{} {}",
        end.state().requests.len(),
        statistics.evictions
    ));
}

#[test]
fn requests_between_processes_come_back_answered() {
    let mut other = Other::start("serve");
    let station = station(64);
    let mut end = endpoint(&station);
    end.map(0, &other.line().parse().unwrap(), KEY).unwrap();
    end.map(1, &end.name(), KEY).unwrap();
    let bytes: Vec<u8> = (0..8192).map(|index| index as u8).collect();
    let mut sum_expected = 0;
    for word in 0..500_u64 {
        let length = (word as usize * 97) % 8193;
        let bulk = Body::Bulk {
            offset: word,
            bytes: &bytes[..length],
        };
        let body = [Body::Short, Body::Medium(&bytes[..length]), bulk][word as usize % 3];
        if body != Body::Short {
            sum_expected += sum(&bytes[..length]);
        }
        end.request_with(0, MIRROR, &[word], body).unwrap();
    }
    while end.outstanding() > 0 {
        end.wait(EventMask::MESSAGE, None).unwrap();
        end.poll();
    }
    assert_eq!(end.state().replies, (0..500).collect::<Vec<_>>());
    assert_eq!(end.state().payload_sum, sum_expected);
    assert!(other.ends_well());
}

#[test]
fn a_wrong_key_comes_back_from_another_process() {
    let mut other = Other::start("serve");
    let station = station(64);
    let mut end = endpoint(&station);
    end.map(0, &other.line().parse().unwrap(), Key(1)).unwrap();
    end.request_with(0, ECHO, &[9], Body::Medium(&[5])).unwrap();
    while end.outstanding() > 0 {
        end.wait(EventMask::RETURNED, None).unwrap();
        end.poll();
    }
    assert_eq!(end.state().returned, [(Some(9), Reason::WrongKey)]);
    assert_eq!(end.state().payload_sum, 5);
}

/// Every request has exactly one end, with its words unless it had been delivered; a name of the
/// dead reaches nobody.
#[test]
fn what_a_killed_process_had_not_answered_comes_back() {
    for round in 0..8_u64 {
        let mut other = Other::start("serve");
        let station = station(64);
        let mut end = endpoint(&station);
        end.map(0, &other.line().parse().unwrap(), KEY).unwrap();
        let mut sent = 0;
        while end.state().replies.len() < 200 * round as usize {
            if end.try_request(0, ECHO, &[sent], Body::Short).is_ok() {
                sent += 1;
            }
            end.poll();
        }
        other.kill();
        // More go before it is known.
        while end.try_request(0, ECHO, &[sent], Body::Short).is_ok() {
            sent += 1;
        }
        while end.outstanding() > 0 {
            end.wait(EventMask::MESSAGE | EventMask::RETURNED, None)
                .unwrap();
            end.poll();
        }
        let mut seen = end.state().replies.clone();
        let mut unanswered = 0;
        for (word, reason) in &end.state().returned {
            match (word, reason) {
                (Some(word), Reason::ConnectionLost | Reason::ProcessDied) => seen.push(*word),
                (None, Reason::Unanswered) => unanswered += 1,
                other => panic!("round {round}: {other:?}"),
            }
        }
        seen.sort_unstable();
        let before = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), before, "round {round}: one ended twice");
        assert_eq!(before + unanswered, sent as usize, "round {round}");
        // Again, to a name that is nobody's any more.
        end.request(0, ECHO, &[1_000_000]).unwrap();
        while end.outstanding() > 0 {
            end.wait(EventMask::RETURNED, None).unwrap();
            end.poll();
        }
        let last = end.state().returned.last();
        assert_eq!(last, Some(&(Some(1_000_000), Reason::ProcessDied)));
    }
}

/// Nothing was acknowledged: all of it is still known here.
#[test]
fn what_a_killed_process_had_not_acknowledged_comes_back_whole() {
    let mut other = Other::start("deaf");
    let station = station(64);
    let mut end = endpoint(&station);
    end.map(0, &other.line().parse().unwrap(), KEY).unwrap();
    for word in 0..10 {
        let body = Body::Medium(&[1; 1000]);
        end.request_with(0, ECHO, &[word], body).unwrap();
    }
    assert!(!station.flush(Duration::from_millis(20)));
    other.kill();
    while end.outstanding() > 0 {
        end.wait(EventMask::RETURNED, None).unwrap();
        end.poll();
    }
    let lost = |word| (Some(word), Reason::ConnectionLost);
    assert_eq!(end.state().returned, (0..10).map(lost).collect::<Vec<_>>());
    assert_eq!(end.state().payload_sum, 10_000);
}

/// A queue of 32 stays full: what waits for room here comes back too.
#[test]
fn what_waits_for_a_process_that_is_killed_comes_back() {
    let mut other = Other::start("sleep");
    let name = other.line().parse().unwrap();
    let station = station(64);
    let mut ends: Vec<_> = (0..3).map(|_| endpoint(&station)).collect();
    for end in &mut ends {
        end.map(0, &name, KEY).unwrap();
        (0..32).for_each(|word| end.request(0, ECHO, &[word]).unwrap());
    }
    station.flush(Duration::from_millis(100));
    other.kill();
    let mut lost = 0;
    let mut unanswered = 0;
    for end in &mut ends {
        while end.outstanding() > 0 {
            end.wait(EventMask::RETURNED, None).unwrap();
            end.poll();
        }
        assert_eq!(end.state().returned.len(), 32);
        for (_, reason) in &end.state().returned {
            match reason {
                Reason::Unanswered => unanswered += 1,
                _ => lost += 1,
            }
        }
    }
    // Its queue's 32 were delivered; of these some may have had no acknowledgement.
    assert!(unanswered <= 32 && lost >= 64, "{unanswered} and {lost}");
}

#[test]
fn more_processes_than_frames_lose_and_double_nothing() {
    let mut others: Vec<_> = (0..MESH).map(|_| Other::start("mesh")).collect();
    let names: Vec<_> = others.iter_mut().map(Other::line).collect();
    let names = names.join(" ");
    others.iter_mut().for_each(|other| other.tell(&names));
    for other in &mut others {
        assert_eq!(other.line(), "all answered");
    }
    let (mut requests, mut evictions) = (0, 0);
    for other in &mut others {
        drop(other.hears.take());
        let line = other.line();
        let (handled, evicted) = line.split_once(' ').unwrap();
        requests += handled.parse::<u64>().unwrap();
        evictions += evicted.parse::<u64>().unwrap();
    }
    assert_eq!(requests, MESH as u64 * MESH_REQUESTS);
    assert!(evictions > 0);
    assert!(others.into_iter().all(Other::ends_well));
}

/// Idle ones cost memory and nothing else.
#[test]
fn a_hundred_thousand_endpoints_are_fine() {
    let mut other = Other::start("serve");
    let station = station(64);
    let all = handlers();
    let idle: Vec<_> = (0..100_000)
        .map(|_| {
            let options = viaduct_am::Options::new(KEY);
            viaduct_am::Endpoint::new(&station, &all, Seen::default(), options)
        })
        .collect::<Result<Vec<_>, _>>()
        .unwrap_or_default();
    assert_eq!(idle.len(), 100_000);
    let mut end = endpoint(&station);
    end.map(0, &other.line().parse().unwrap(), KEY).unwrap();
    end.request(0, ECHO, &[1]).unwrap();
    end.wait(EventMask::MESSAGE, None).unwrap();
    assert_eq!(end.poll(), 1);
}
