//! Peers that are killed: at random moments, and at every store that they share.
//!
//! After each death the survivor's descriptors are complete with the right errors, the VI is in
//! the error state, the loss was told once, and the next peer connects. In the end nothing of the
//! dead is left in the survivor.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use viaduct_core::ViState;
use viaduct_provider::{CompletionQueueHandle, Provider, ReturnCode};

use super::end::Station;
use super::process::{Other, run_survivor, say, wait_until};
use super::traffic::{LEVELS, Traffic, Way};
use super::{KILL_AT, POINTS, Random, number};
use crate::Shm;

/// Kills in one run; `SHM_KILLS=10000` for the long one.
const KILLS: &str = "SHM_KILLS";
/// Kills of one survivor by a way of the bytes, and its seed.
const COUNT: &str = "VIADUCT_CHAOS_KILLS";
const SEED: &str = "SHM_SEED";
/// Where the survivor and its peers meet, and what the peer does there.
const MEET: &str = "VIADUCT_CHAOS_MEET";
const ROUND: &str = "VIADUCT_CHAOS_ROUND";
const AT: &str = "VIADUCT_CHAOS_AT";
/// Only every so many points are tried; `SHM_POINT_STRIDE=1` for all.
const STRIDE: &str = "SHM_POINT_STRIDE";

/// From the kill to the last completion, at most. The goal is 10 ms on processors that nobody
/// else uses; tests share theirs.
const NOTICED: Duration = Duration::from_secs(1);

#[test]
fn a_peer_killed_at_any_moment_breaks_its_own_connection_and_leaves_nothing() {
    let kills = number(KILLS, 200);
    let seed = number(SEED, 1);
    // Each a survivor with its own way of moving bytes, both ends alike.
    let ways = ["auto", "pool", "copy", "direct"];
    for (index, transfer) in ways.into_iter().enumerate() {
        let count = (kills / 4).to_string();
        let seed = (seed + index as u64).to_string();
        let environment = [
            ("VIADUCT_TRANSFER", transfer),
            (COUNT, &count),
            (SEED, &seed),
        ];
        run_survivor("kills", &environment, Duration::from_secs(30 + kills / 4));
    }
}

#[test]
fn a_peer_killed_in_protected_mode_breaks_its_own_connection() {
    let kills = (number(KILLS, 200) / 8).to_string();
    let environment = [("VIADUCT_PROTECTED", "1"), (COUNT, &kills)];
    run_survivor("kills", &environment, Duration::from_secs(600));
}

#[test]
fn a_peer_killed_at_each_store_it_shares_breaks_its_own_connection() {
    let seed = number(SEED, 1).to_string();
    let stride = number(STRIDE, 0).to_string();
    let environment = [(SEED, seed.as_str()), (STRIDE, stride.as_str())];
    run_survivor("points", &environment, Duration::from_secs(1800));
}

/// What this process holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Holdings {
    descriptors: usize,
    mappings: usize,
    threads: usize,
    sockets: usize,
    shared_files: usize,
}

impl Holdings {
    fn now() -> Self {
        let entries = |path| std::fs::read_dir(path).map_or(0, Iterator::count);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        Self {
            descriptors: entries("/proc/self/fd"),
            mappings: maps.lines().filter(|l| l.contains("viaduct")).count(),
            threads: entries("/proc/self/task"),
            // Those that wait for clients of this survivor.
            sockets: sockets.lines().filter(|l| l.contains(&meet())).count(),
            shared_files: entries("/dev/shm"),
        }
    }
}

fn meet() -> String {
    format!("chaos {}", std::process::id())
}

/// What a round came to.
struct Seen {
    is_connected: bool,
    noticed: Duration,
}

/// When the peer of a round dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// So long after its start, connected or not.
    Anywhere(Duration),
    /// So long after the connection.
    Connected(Duration),
    /// At this point.
    At(u64),
}

/// The survivor of random kills.
pub(super) fn survive() {
    let (kills, seed) = (number(COUNT, 0), number(SEED, 1));
    let station = Station::open();
    let queue = Shm::global()
        .create_completion_queue(station.nic, 1024)
        .unwrap();
    let mut random = Random(seed);
    let (mut noticed, mut connected) = (Vec::new(), 0);
    let mut before = None;
    for round in 0..kills + 10 {
        if round == 10 {
            before = Some(settled(None));
        }
        let round_seed = random.next() >> 1;
        let death = if random.one_in(4) {
            Death::Anywhere(Duration::from_micros(random.below(40_000)))
        } else {
            // Short times more often: each halving is as likely as the one before.
            let microseconds = random.below(8000) >> random.below(10);
            Death::Connected(Duration::from_micros(microseconds))
        };
        let seen = one_round(&station, queue, round_seed, death);
        connected += u32::from(seen.is_connected);
        if seen.is_connected {
            noticed.push(seen.noticed);
        }
    }
    let before = before.unwrap();
    let after = settled(Some(before));
    assert_eq!(before, after, "something of the dead is left");
    noticed.sort_unstable();
    let at = |share: usize| noticed[(noticed.len() - 1) * share / 100];
    say(&format!(
        "{kills} kills, {connected} of them connected; all was over after {:?} (median), {:?} \
         (99 %), {:?} (most)",
        at(50),
        at(99),
        at(100)
    ));
    assert!(at(100) < NOTICED, "{:?}", at(100));
    say("survived");
}

/// What this process holds when nothing changes any more.
fn settled(expected: Option<Holdings>) -> Holdings {
    let mut now = Holdings::now();
    wait_until(Duration::from_secs(5), || {
        thread::sleep(Duration::from_millis(50));
        let before = std::mem::replace(&mut now, Holdings::now());
        expected.map_or(before == now, |expected| expected == now)
    });
    now
}

/// The survivor of kills at every point.
pub(super) fn survive_points() {
    let station = Station::open();
    let queue = Shm::global()
        .create_completion_queue(station.nic, 1024)
        .unwrap();
    let mut random = Random(number(SEED, 1));
    let (mut worst, mut tried, mut connected) = (Duration::ZERO, 0_u64, 0_u64);
    // A few ways, each to the end of its script.
    for way in 0..6 {
        let round_seed = loop {
            let seed = random.next() >> 1;
            let candidate = Way::of(seed);
            if candidate.peer_serves == (way % 2 == 0)
                && candidate.level == LEVELS[way % 3]
                && candidate.reconnects == (way == 5)
            {
                break seed;
            }
        };
        let mut points = 0;
        let stride = match number(STRIDE, 0) {
            0 => 61,
            stride => stride,
        };
        let mut at = 1 + random.below(stride);
        loop {
            let seen = one_round(&station, queue, round_seed, Death::At(at));
            tried += 1;
            connected += u64::from(seen.is_connected);
            worst = worst.max(seen.noticed);
            if LAST_LIVED.swap(0, Ordering::Relaxed) != 0 {
                break;
            }
            points = at;
            at += stride;
            if points > 50_000 {
                break;
            }
        }
        say(&format!(
            "{:?}: killed at every {stride}. of {points} points",
            Way::of(round_seed)
        ));
    }
    say(&format!(
        "{tried} kills at points, {connected} connected, all was over after {worst:?} at most"
    ));
    assert!(worst < NOTICED, "{worst:?}");
    say("survived");
}

/// Set when a victim came to the end of its script.
static LAST_LIVED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Starts a peer, works with it, has it die, and checks what is left.
fn one_round(station: &Station, queue: CompletionQueueHandle, seed: u64, death: Death) -> Seen {
    let way = Way::of(seed);
    let (meet, text) = (meet(), seed.to_string());
    let at = match death {
        Death::At(point) => point,
        _ => 0,
    };
    let at = at.to_string();
    let environment = [(MEET, meet.as_str()), (ROUND, &text), (AT, &at)];
    let mut victim = Other::start("victim", &environment);
    let killer = |victim: &Other, after: Duration| {
        let pid = victim.pid();
        thread::spawn(move || {
            thread::sleep(after);
            let now = Instant::now();
            // SAFETY: the process is not waited for before this thread has ended.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            now
        })
    };
    let mut kill = match death {
        Death::Anywhere(after) => Some(killer(&victim, after)),
        _ => None,
    };
    let mut traffic = Traffic::new(station, way, way.has_queue.then_some(queue), seed ^ 1);
    let mut seen = Seen {
        is_connected: false,
        noticed: Duration::ZERO,
    };
    let mut last_look = Instant::now();
    loop {
        let is_kill_over = kill.as_ref().is_none_or(thread::JoinHandle::is_finished);
        let has_ended = is_kill_over && victim.has_ended();
        let started = Instant::now();
        let is_connected = connect(station, &traffic, way);
        let took = started.elapsed();
        assert!(
            took < Duration::from_millis(1900),
            "connecting hung for {took:?}: {way:?}, {death:?}, seed {seed}, killed: {:?}, ended: {}, \
             connected before: {}",
            kill.as_ref().map(thread::JoinHandle::is_finished),
            victim.has_ended(),
            seen.is_connected,
        );
        if !is_connected {
            if has_ended {
                traffic.leave();
                break;
            }
            continue;
        }
        seen.is_connected = true;
        if let Death::Connected(after) = death {
            kill.get_or_insert_with(|| killer(&victim, after));
        }
        while traffic.step().is_ok() {
            last_look = Instant::now();
        }
        let ended = Instant::now();
        let killed = kill.as_ref().is_some_and(thread::JoinHandle::is_finished);
        traffic.finish(!way.reconnects && !matches!(death, Death::At(_)));
        if matches!(death, Death::At(_)) {
            // When it died nobody noted: at the earliest after the last step that went well.
            seen.noticed = ended.elapsed().max(ended - last_look);
        } else if killed {
            seen.noticed = Duration::ZERO;
        }
        if !way.reconnects {
            break;
        }
        traffic = Traffic::new(station, way, way.has_queue.then_some(queue), seed ^ 1);
    }
    let over = Instant::now();
    if let Some(kill) = kill {
        let killed = kill.join().unwrap();
        if !way.reconnects {
            seen.noticed = over.saturating_duration_since(killed);
        }
    }
    let status = victim.process.wait().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    if signal.is_none() {
        assert!(
            status.success(),
            "the victim failed by itself: {status}, {way:?}, seed {seed}"
        );
        assert!(
            matches!(death, Death::At(_)),
            "the victim left: {way:?}, seed {seed}"
        );
        LAST_LIVED.store(1, Ordering::Relaxed);
    } else {
        assert_eq!(
            signal,
            Some(libc::SIGKILL),
            "{way:?}, seed {seed}, {death:?}"
        );
    }
    station.forget_lost();
    seen
}

/// Tries to connect for a moment.
fn connect(station: &Station, traffic: &Traffic<'_>, way: Way) -> bool {
    let (meet, limit) = (meet(), Duration::from_millis(20));
    let result = if way.peer_serves {
        station.ask(traffic.vi, &meet, Duration::from_secs(2))
    } else {
        station.serve(traffic.vi, &meet, limit)
    };
    match result {
        Ok(()) => true,
        Err(error) => {
            let is_expected = matches!(
                error.code(),
                ReturnCode::Timeout | ReturnCode::NoMatch | ReturnCode::Reject
            );
            assert!(is_expected, "{error}");
            let state = Shm::global().query_vi(traffic.vi).unwrap().state;
            assert_eq!(state, ViState::Idle);
            false
        }
    }
}

/// The peer that is killed.
pub(super) fn run_victim() {
    let seed = number(ROUND, 0);
    let way = Way::of(seed);
    let meet = std::env::var(MEET).unwrap();
    let station = Station::open();
    let queue = Shm::global()
        .create_completion_queue(station.nic, 1024)
        .unwrap();
    let queue = way.has_queue.then_some(queue);
    // Nothing is shared before: opening a NIC only measures.
    KILL_AT.store(number(AT, 0), Ordering::Relaxed);
    let has_script = KILL_AT.load(Ordering::Relaxed) != 0;
    let mut connections = 0_u32;
    let started = Instant::now();
    loop {
        // If the survivor is gone, nobody kills this process.
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "nobody killed it"
        );
        let mut traffic = Traffic::new(&station, way, queue, seed ^ 2);
        let limit = Duration::from_secs(5);
        let result = if way.peer_serves {
            station.serve(traffic.vi, &meet, limit)
        } else {
            station.ask(traffic.vi, &meet, limit)
        };
        if result.is_err() {
            traffic.leave();
            continue;
        }
        connections += 1;
        let messages = match (has_script, way.reconnects) {
            (true, _) => 30,
            (false, true) => 100,
            (false, false) => u32::MAX,
        };
        let mut is_open = true;
        while is_open && traffic.received < messages {
            is_open = traffic.step().is_ok();
        }
        match is_open {
            true => traffic.leave(),
            false => traffic.finish(false),
        }
        if has_script && (!way.reconnects || connections == 2) {
            assert!(POINTS.load(Ordering::Relaxed) > 0);
            return;
        }
    }
}
