//! Receivers that look at nothing, leave, and then take what they have: whatever its sender was
//! told has arrived is there.

use std::thread;
use std::time::Duration;

use viaduct_core::{ReliabilityLevel, ViState};
use viaduct_provider::{Done, Provider, ViHandle, control};

use super::end::{Arena, Station, fill, says};
use super::process::{Other, run_survivor, say, wait_until};
use super::{Random, number};
use crate::Shm;

const MEET: &str = "VIADUCT_CHAOS_MEET";
const ROUND: &str = "VIADUCT_CHAOS_ROUND";
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

#[test]
fn what_a_killed_sender_was_told_is_with_its_receiver() {
    for mode in [("VIADUCT_PROTECTED", "0"), ("VIADUCT_PROTECTED", "1")] {
        run_survivor("left behind", &[mode], Duration::from_secs(60));
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
        let arrived = count_arrived(vi, arena, round, seed);
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

/// Takes all that a VI has whose connection is over: how many messages, all whole and in order.
fn count_arrived(vi: ViHandle, arena: &Arena, round: u64, seed: u64) -> usize {
    let (_, length) = plan(round);
    let mut arrived = 0;
    loop {
        let done = match Shm::global().receive_done(vi).unwrap() {
            Done::Empty => return arrived,
            Done::NotDone => panic!("SHM_SEED={seed}: round {round} left a receive pending"),
            done => done,
        };
        let (index, bytes, _, status) = arena.taken(done.descriptor().unwrap());
        if status & 0x1fe != 0 {
            continue;
        }
        assert!(
            index == arrived && bytes as usize == length,
            "SHM_SEED={seed}: round {round}: receive {index} of {bytes} bytes"
        );
        assert!(
            says(arena.receive_buffer(index), length, sequence(round, index)),
            "SHM_SEED={seed}: round {round}: receive {index} has other bytes"
        );
        arrived += 1;
    }
}

/// Sends the messages of a round: how many completed well.
fn send_all(station: &Station, vi: ViHandle, round: u64) -> usize {
    let (arena, (_, length)) = (&station.shared, plan(round));
    for index in 0..MESSAGES {
        fill(arena.send_buffer(index), length, sequence(round, index));
        arena
            .post_send(vi, index, length, control::SEND_RECEIVE, None, (0, 0))
            .unwrap();
    }
    let sent = |_: &usize| {
        let done = Shm::global().send_wait(vi, Some(SOON)).unwrap();
        matches!(done, Done::Complete(_))
    };
    (0..MESSAGES).filter(sent).count()
}

/// The sender: says of each connection how many of its sends completed well.
pub(super) fn run_sending() {
    let shm = Shm::global();
    let station = Station::open();
    let meet = std::env::var(MEET).unwrap();
    for round in 0.. {
        let vi = station.vi(plan(round).0, None);
        station.serve(vi, &meet, 6 * SOON).unwrap();
        let reported = send_all(&station, vi, round);
        say(&reported.to_string());
        shm.disconnect(vi).unwrap();
        shm.destroy_vi(vi).unwrap();
    }
}

/// The receiver of senders that are killed when they have said how many of their messages arrived:
/// it disconnects before it hears of that, when it has, or meanwhile.
pub(super) fn survive_senders() {
    let shm = Shm::global();
    let station = Station::open();
    let meet = format!("left behind {}", std::process::id());
    let seed = number(SEED, u64::from(std::process::id()));
    let mut random = Random(seed);
    // Prime to the levels and lengths of a round.
    for round in (0..12).map(|number| number * 7) {
        let arena = &station.private;
        let vi = station.vi(plan(round).0, None);
        for index in 0..=MESSAGES {
            arena.post_receive(vi, index).unwrap();
        }
        let own = [(MEET, meet.as_str()), (ROUND, &round.to_string())];
        let mut peer = Other::start("sending once", &own);
        assert!(wait_until(SOON, || station.ask(vi, &meet, SOON).is_ok()));
        let reported: usize = peer.line().unwrap().parse().unwrap();
        assert_eq!(reported, MESSAGES);
        peer.signal(libc::SIGKILL);
        match random.below(3) {
            0 => {}
            1 => thread::sleep(Duration::from_micros(random.below(3000))),
            _ => assert!(wait_until(SOON, || {
                shm.query_vi(vi).unwrap().state == ViState::Error
            })),
        }
        shm.disconnect(vi).unwrap();
        assert_eq!(
            count_arrived(vi, arena, round, seed),
            MESSAGES,
            "SHM_SEED={seed}: round {round}"
        );
        shm.destroy_vi(vi).unwrap();
    }
    say("survived");
}

/// A sender to be killed.
pub(super) fn run_sending_once() {
    let station = Station::open();
    let round = number(ROUND, 0);
    let vi = station.vi(plan(round).0, None);
    let meet = std::env::var(MEET).unwrap();
    station.serve(vi, &meet, SOON).unwrap();
    say(&send_all(&station, vi, round).to_string());
    thread::sleep(6 * SOON);
}
