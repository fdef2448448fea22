//! Receivers that look at nothing, leave, and then take what they have: whatever its sender was
//! told has arrived is there.

use std::thread;
use std::time::Duration;

use viaduct_fabric::{Done, Provider, control};
use viaduct_via::ReliabilityLevel;

use super::end::{Station, fill, says};
use super::process::{Other, run_survivor, say, wait_until};
use super::{Random, number};
use crate::Shm;

const MEET: &str = "VIADUCT_CHAOS_MEET";
/// Departures of each way; `SHM_DEPARTURES=10000` for a long run.
const DEPARTURES: &str = "SHM_DEPARTURES";
const SEED: &str = "SHM_SEED";
const SOON: Duration = Duration::from_secs(10);
const MESSAGES: usize = 3;
/// The same for every message: from one cache line to parts in the pool.
const LENGTHS: [usize; 5] = [8, 200, 3000, 40_000, 100_000];

#[test]
fn what_was_reported_as_arrived_outlives_a_disconnect_of_its_receiver() {
    let departures = number(DEPARTURES, 45);
    for mode in [
        ("VIADUCT_TRANSFER", "auto"),
        ("VIADUCT_TRANSFER", "pool"),
        ("VIADUCT_TRANSFER", "copy"),
        ("VIADUCT_TRANSFER", "direct"),
        ("VIADUCT_PROTECTED", "1"),
    ] {
        let departures = departures.to_string();
        let limit = Duration::from_secs(60 + number(DEPARTURES, 45) / 2);
        run_survivor("departures", &[mode, (DEPARTURES, &departures)], limit);
    }
}

/// What both sides do in a round.
fn plan(round: u64) -> (ReliabilityLevel, usize) {
    let level = match round % 3 {
        0 => ReliabilityLevel::Unreliable,
        1 => ReliabilityLevel::ReliableDelivery,
        _ => ReliabilityLevel::ReliableReception,
    };
    (level, LENGTHS[(round / 3) as usize % LENGTHS.len()])
}

const fn sequence(round: u64, index: usize) -> u32 {
    (round as u32) * MESSAGES as u32 + index as u32
}

/// The receiver. At reliable reception it leaves in the middle of what goes on: the sender's
/// completions say what has arrived. At the other levels a message has arrived with its completion.
pub(super) fn survive() {
    let shm = Shm::global();
    let station = Station::open();
    let meet = format!("departures {}", std::process::id());
    let mut peer = Other::start("sending", &[(MEET, &meet)]);
    let seed = number(SEED, u64::from(std::process::id()));
    let mut random = Random(seed);
    for round in 0..number(DEPARTURES, 45) {
        let (level, length) = plan(round);
        let arena = match random.one_in(2) {
            true => &station.shared,
            false => &station.private,
        };
        let queue = random
            .one_in(2)
            .then(|| shm.create_completion_queue(station.nic, 16).unwrap());
        let vi = station.vi(level, queue);
        for index in 0..=MESSAGES {
            arena.post_receive(vi, index).unwrap();
        }
        assert!(wait_until(SOON, || station.ask(vi, &meet, SOON).is_ok()));
        let reports = level == ReliabilityLevel::ReliableReception;
        let mut told = (!reports).then(|| peer.line().unwrap());
        let microseconds = random.pick(&[0, 20, 100, 500, 2000]);
        let microseconds = if random.one_in(16) {
            50_000
        } else {
            microseconds
        };
        thread::sleep(Duration::from_micros(microseconds));
        shm.disconnect(vi).unwrap();
        let mut arrived = 0;
        loop {
            let done = match shm.receive_done(vi).unwrap() {
                Done::Empty => break,
                Done::NotDone => panic!("SHM_SEED={seed}: round {round} left a receive pending"),
                done => done,
            };
            let (index, bytes, _, status) = arena.taken(done.descriptor().unwrap());
            if status & 0x1fe == 0 {
                let data = arena.receive_buffer(index);
                assert!(
                    index == arrived && bytes as usize == length,
                    "SHM_SEED={seed}: round {round}: receive {index} of {bytes} bytes"
                );
                assert!(
                    says(data, length, sequence(round, index)),
                    "SHM_SEED={seed}: round {round}: receive {index} has other bytes"
                );
                arrived += 1;
            }
        }
        let told = told.take().unwrap_or_else(|| peer.line().unwrap());
        let reported: usize = told.parse().unwrap();
        assert!(
            arrived >= reported,
            "SHM_SEED={seed}: round {round} at {level:?}: {reported} messages of {length} bytes \
             were reported, {arrived} are there {microseconds} us later"
        );
        shm.destroy_vi(vi).unwrap();
        if let Some(queue) = queue {
            shm.destroy_completion_queue(queue).unwrap();
        }
    }
    drop(peer);
    say("survived");
}

/// The sender: says of each connection how many of its sends completed well.
pub(super) fn run_sending() {
    let shm = Shm::global();
    let station = Station::open();
    let meet = std::env::var(MEET).unwrap();
    for round in 0.. {
        let (level, length) = plan(round);
        let vi = station.vi(level, None);
        station.serve(vi, &meet, 6 * SOON).unwrap();
        for index in 0..MESSAGES {
            let arena = &station.shared;
            fill(arena.send_buffer(index), length, sequence(round, index));
            let send = control::SEND_RECEIVE;
            arena
                .post_send(vi, index, length, send, None, (0, 0))
                .unwrap();
        }
        let mut reported = 0;
        for _ in 0..MESSAGES {
            let done = shm.send_wait(vi, Some(SOON)).unwrap();
            reported += usize::from(matches!(done, Done::Complete(_)));
        }
        say(&reported.to_string());
        shm.disconnect(vi).unwrap();
        shm.destroy_vi(vi).unwrap();
    }
}
