//! How soon a killed peer is noticed, with processors free and with every one taken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use viaduct_core::ReliabilityLevel;
use viaduct_provider::{Done, Provider, ReturnCode, ViHandle};

use super::end::Station;
use super::process::{Other, run_survivor, say, wait_until};
use super::{Random, number};
use crate::Shm;

/// Kills of each kind; `SHM_NOTICES=1000` for a distribution.
const NOTICES: &str = "SHM_NOTICES";
const HOW: &str = "VIADUCT_CHAOS_HOW";
const MEET: &str = "VIADUCT_CHAOS_MEET";
const LEVEL: ReliabilityLevel = ReliabilityLevel::ReliableDelivery;
const SOON: Duration = Duration::from_secs(10);

/// Half of the kills are noticed sooner. The goal is 10 ms for all, on processors that nobody else
/// uses; tests share theirs.
const NOTICED: Duration = Duration::from_millis(200);

#[test]
fn a_killed_peer_is_noticed_soon_however_busy_the_processors_are() {
    let kills = number(NOTICES, 10);
    for how in ["sleeping", "polling", "computing"] {
        let limit = Duration::from_secs(30 + kills);
        run_survivor(
            "noticing",
            &[(NOTICES, &kills.to_string()), (HOW, how)],
            limit,
        );
    }
}

/// The survivor: sleeps, or polls beside other threads that do, or sleeps while others compute.
pub(super) fn survive() {
    let how = std::env::var(HOW).unwrap();
    let station = Station::open();
    let meet = format!("noticed {}", std::process::id());
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let (polls, others) = match how.as_str() {
        "sleeping" => (false, 0),
        "polling" => (true, processors - 1),
        _ => (false, processors),
    };
    let mut random = Random(1);
    let (mut noticed, mut ended): (Vec<_>, Vec<_>) = (0..number(NOTICES, 10))
        .map(|_| {
            let after = Duration::from_micros(1000 + random.below(4000));
            let idle = station.vi(LEVEL, None);
            let vi = station.vi(LEVEL, None);
            station.shared.post_receive(vi, 0).unwrap();
            station.shared.post_receive(idle, 1).unwrap();
            let victim = Other::start("polled", &[(MEET, &meet)]);
            assert!(wait_until(SOON, || station.ask(vi, &meet, SOON).is_ok()));
            let time = one_death(&station, (vi, polls), (idle, others, polls), &victim, after);
            Shm::global().disconnect(vi).unwrap();
            for vi in [vi, idle] {
                Shm::global().destroy_vi(vi).unwrap();
            }
            time
        })
        .unzip();
    let late = |times: &[Duration]| {
        let late = times.iter().filter(|t| **t > Duration::from_millis(10));
        late.count()
    };
    for (what, times) in [
        ("from the kill to its notice", &mut noticed),
        ("from the end of the process", &mut ended),
    ] {
        times.sort_unstable();
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        say(&format!(
            "{} kills, {what}: {:?} (median), {:?} (99 %), {:?} (most); {} above 10 ms",
            times.len(),
            at(50),
            at(99),
            at(100),
            late(times),
        ));
        assert!(at(50) < NOTICED, "{:?}", at(50));
    }
    say("survived");
}

/// From the kill of a peer to the end of the receive that waits for it, while other threads poll
/// an idle VI or compute; and from when the system had ended the process, as a thread was told that
/// comes before all others where this test may have one.
fn one_death(
    station: &Station,
    (vi, polls): (ViHandle, bool),
    (idle, others, they_poll): (ViHandle, usize, bool),
    victim: &Other,
    after: Duration,
) -> (Duration, Duration) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..others {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if they_poll {
                        let done = Shm::global().receive_done(idle).unwrap();
                        assert_eq!(done, Done::NotDone);
                    } else {
                        std::hint::spin_loop();
                    }
                }
            });
        }
        let killer = scope.spawn(|| {
            let pid = rustix::process::Pid::from_raw(victim.pid()).unwrap();
            let flags = rustix::process::PidfdFlags::empty();
            let process = rustix::process::pidfd_open(pid, flags).unwrap();
            let first = libc::sched_param { sched_priority: 1 };
            // SAFETY: of this thread; the system reads the value.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) };
            thread::sleep(after);
            let killed = Instant::now();
            victim.signal(libc::SIGKILL);
            let mut end = [PollFd::new(&process, PollFlags::IN)];
            rustix::event::poll(&mut end, None).unwrap();
            (killed, Instant::now())
        });
        let done = loop {
            let done = match polls {
                true => Shm::global().receive_done(vi),
                false => Shm::global().receive_wait(vi, Some(Duration::from_secs(5))),
            };
            match done {
                Ok(Done::NotDone) => {}
                Ok(done) => break done,
                Err(error) => assert_eq!(error.code(), ReturnCode::Timeout, "{error}"),
            }
        };
        let noticed = Instant::now();
        is_over.store(true, Ordering::Relaxed);
        let (_, _, _, status) = station.shared.taken(done.descriptor().unwrap());
        assert!(status & 0x1fe != 0, "{status:#x}");
        let (killed, ended) = killer.join().unwrap();
        (
            noticed.saturating_duration_since(killed),
            noticed.saturating_duration_since(ended),
        )
    })
}

/// The peer: serves one connection and polls.
pub(super) fn run_polled() {
    let station = Station::open();
    let meet = std::env::var(MEET).unwrap();
    let vi = station.vi(LEVEL, None);
    station.private.post_receive(vi, 0).unwrap();
    station.serve(vi, &meet, SOON).unwrap();
    let started = Instant::now();
    while Shm::global().receive_done(vi).unwrap() == Done::NotDone {
        assert!(started.elapsed() < SOON, "nobody killed it");
    }
}
