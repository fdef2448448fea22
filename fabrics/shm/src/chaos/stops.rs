//! Peers that are stopped: nobody waits longer than it said, nobody spins, and all goes on.

use std::time::{Duration, Instant};

use viaduct_core::ReliabilityLevel;
use viaduct_provider::{Provider, ReturnCode, control};

use super::end::{BUFFER_BYTES, Station, fill, says};
use super::process::{Other, run_survivor, say, wait_until};
use crate::Shm;

const MEET: &str = "VIADUCT_CHAOS_MEET";
const LEVEL: ReliabilityLevel = ReliabilityLevel::ReliableReception;
const SOON: Duration = Duration::from_secs(10);
const ROUNDS: u32 = 6;

#[test]
fn a_stopped_peer_keeps_nobody_waiting_and_goes_on_when_it_may() {
    for transfer in ["pool", "copy", "direct"] {
        run_survivor(
            "stops",
            &[("VIADUCT_TRANSFER", transfer)],
            Duration::from_secs(60),
        );
    }
}

/// Processor time that this process has used.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub(super) fn survive() {
    let shm = Shm::global();
    let station = Station::open();
    let meet = format!("stops {}", std::process::id());
    let peer = Other::start("stopped", &[(MEET, &meet)]);
    let arena = station.shared;
    let vi = station.vi(LEVEL, None);
    arena.post_receive(vi, 0).unwrap();
    assert!(wait_until(SOON, || station.ask(vi, &meet, SOON).is_ok()));
    // Where the peer's window is.
    let done = shm.receive_wait(vi, Some(SOON)).unwrap();
    arena.taken(done.descriptor().unwrap());
    // SAFETY: handed back.
    let window = unsafe {
        let data = arena.receive_buffer(0);
        (
            data.cast::<u64>().read(),
            data.add(8).cast::<u64>().read() as u32,
        )
    };
    for round in 0..ROUNDS {
        arena.post_receive(vi, 0).unwrap();
        peer.signal(libc::SIGSTOP);
        let pid = rustix::process::Pid::from_raw(peer.pid());
        let stopped = rustix::process::waitpid(pid, rustix::process::WaitOptions::UNTRACED);
        assert!(stopped.unwrap().unwrap().1.stopped());

        // Posting returns at once, whatever there is room for.
        let started = Instant::now();
        for number in 0..4 {
            let data = arena.send_buffer(number);
            fill(data, BUFFER_BYTES, round);
            let post = |length, operation, immediate| {
                arena.post_send(vi, number, length, operation, immediate, window)
            };
            match number {
                0 => post(8, control::SEND_RECEIVE, Some(round)),
                1 => post(BUFFER_BYTES, control::SEND_RECEIVE, Some(round)),
                2 => post(BUFFER_BYTES, control::RDMA_WRITE, None),
                _ => post(4096, control::RDMA_READ, None),
            }
            .unwrap();
        }
        let posting = started.elapsed();
        assert!(
            posting < Duration::from_millis(100),
            "posting took {posting:?}"
        );

        // Waits end when they said, and cost next to nothing.
        let limit = Duration::from_millis(200);
        let (started, before) = (Instant::now(), used());
        let late = shm.receive_wait(vi, Some(limit)).unwrap_err();
        assert_eq!(late.code(), ReturnCode::Timeout);
        if round % 2 == 0 {
            let mut taken = 0;
            // Remote operations may be complete without the peer, but the first send is not.
            while let Ok(done) = shm.send_wait(vi, Some(limit)) {
                taken += usize::from(done.descriptor().is_some());
            }
            assert_eq!(taken, 0);
        }
        let (waited, cost) = (started.elapsed(), used() - before);
        assert!(waited >= limit && waited < 5 * limit, "waited {waited:?}");
        assert!(
            cost < waited / 4,
            "{cost:?} of {waited:?} were spent on waiting"
        );
        let other = station.vi(LEVEL, None);
        let started = Instant::now();
        let late = station
            .ask(other, &meet, Duration::from_millis(50))
            .unwrap_err();
        assert!(matches!(
            late.code(),
            ReturnCode::Timeout | ReturnCode::NoMatch
        ));
        assert!(started.elapsed() < Duration::from_millis(500));
        shm.destroy_vi(other).unwrap();

        peer.signal(libc::SIGCONT);
        let started = Instant::now();
        for number in 0..4 {
            let done = shm.send_wait(vi, Some(SOON)).unwrap();
            let (taken, _, _, status) = arena.taken(done.descriptor().unwrap());
            assert_eq!((taken, status & 0x1fe), (number, 0), "{status:#x}");
        }
        let done = shm.receive_wait(vi, Some(SOON)).unwrap();
        let (_, length, immediate, status) = arena.taken(done.descriptor().unwrap());
        assert_eq!((length, immediate, status & 0x1fe), (4096, round, 0));
        assert!(says(arena.receive_buffer(0), 4096, round));
        // What was read is what was written before it.
        assert!(says(arena.send_buffer(3), 4096, round));
        say(&format!(
            "a wait for {limit:?} took {waited:?} and {cost:?} of processor; all was over {:?} \
             after the peer went on",
            started.elapsed()
        ));
    }
    say("survived");
}

/// The peer that is stopped: takes two messages and answers with one.
pub(super) fn run_stopped() {
    let shm = Shm::global();
    let station = Station::open();
    let meet = std::env::var(MEET).unwrap();
    let arena = station.private;
    let vi = station.vi(LEVEL, None);
    for number in 0..4 {
        arena.post_receive(vi, number).unwrap();
    }
    station.serve(vi, &meet, SOON).unwrap();
    let data = arena.send_buffer(0);
    // SAFETY: not posted, aligned, large enough.
    unsafe {
        data.cast::<u64>().write(arena.window().addr() as u64);
        data.add(8).cast::<u64>().write(arena.handle.bits().into());
    }
    arena
        .post_send(vi, 0, 16, control::SEND_RECEIVE, None, (0, 0))
        .unwrap();
    shm.send_wait(vi, Some(SOON)).unwrap();
    loop {
        for length in [8, BUFFER_BYTES] {
            let Ok(done) = shm.receive_wait(vi, Some(SOON)) else {
                return;
            };
            let descriptor = done.descriptor().unwrap();
            if matches!(done, viaduct_provider::Done::Failed(_)) {
                return;
            }
            let (number, taken, round, _) = arena.taken(descriptor);
            assert_eq!(taken as usize, length);
            assert!(says(arena.receive_buffer(number), length, round));
            arena.post_receive(vi, number).unwrap();
            if length == BUFFER_BYTES {
                let data = arena.send_buffer(0);
                fill(data, 4096, round);
                arena
                    .post_send(vi, 0, 4096, control::SEND_RECEIVE, Some(round), (0, 0))
                    .unwrap();
                shm.send_wait(vi, Some(SOON)).unwrap();
            }
        }
    }
}
