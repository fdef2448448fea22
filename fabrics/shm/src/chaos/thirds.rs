//! A third process that writes over all that it has mapped of another, while two others use shared
//! memory of that one.

use std::time::Duration;

use viaduct_core::ReliabilityLevel;
use viaduct_provider::{Done, Provider, ViHandle, control};

use super::end::{ARENA_BYTES, Arena, BUFFERS, Station, fill, says};
use super::number;
use super::process::{Other, run_survivor, say, wait_until};
use crate::Shm;
use crate::link::SEGMENTS_MAX;
use crate::vi;

const MEET: &str = "VIADUCT_CHAOS_MEET";
/// Messages between the two; `SHM_THIRDS=1000000` for a long run.
const MESSAGES: &str = "SHM_THIRDS";
const SOON: Duration = Duration::from_secs(10);
const LEVEL: ReliabilityLevel = ReliabilityLevel::ReliableDelivery;
const BYTES: usize = 4096;

#[test]
fn shared_memory_of_two_processes_is_out_of_reach_for_a_third() {
    let messages = number(MESSAGES, 3000);
    let environment = [
        ("VIADUCT_TRANSFER", "direct"),
        (MESSAGES, &messages.to_string()),
    ];
    let limit = Duration::from_secs(60 + messages / 1000);
    run_survivor("besought", &environment, limit);
}

/// Trusts both others, and gives each memory of its own; then the third some of the first one's.
pub(super) fn survive() {
    let (ours, theirs) = (Station::open(), Station::open());
    let meet = |part: &str| format!("{part} {}", std::process::id());
    let peer = |part| Other::start(part, &[(MEET, &meet(part))]);
    let (_sender, mut third) = (peer("flooding"), peer("scribbling"));
    let (vi, third_vi) = (ours.vi(LEVEL, None), theirs.vi(LEVEL, None));
    for index in 0..BUFFERS {
        ours.shared.post_receive(vi, index).unwrap();
    }
    theirs.shared.post_receive(third_vi, 0).unwrap();
    for (station, vi, part) in [(&theirs, third_vi, "scribbling"), (&ours, vi, "flooding")] {
        assert!(wait_until(SOON, || station
            .ask(vi, &meet(part), SOON)
            .is_ok()));
    }
    let allocation = ARENA_BYTES.next_multiple_of(rustix::param::page_size());
    assert_eq!(third.line().unwrap(), allocation.to_string());
    for sequence in 0..number(MESSAGES, 3000) as u32 {
        take(&ours.shared, vi, sequence);
    }
    assert_eq!(ours.times_lost(vi), 0);
    // What is registered for the third as well it reaches as well.
    let shared = ours.shared.registered_by(&theirs);
    shared.post_receive(third_vi, BUFFERS - 1).unwrap();
    assert_eq!(third.line().unwrap(), (2 * allocation).to_string());
    say("survived");
}

fn take(arena: &Arena, vi: ViHandle, sequence: u32) {
    let Done::Complete(descriptor) = Shm::global().receive_wait(vi, Some(SOON)).unwrap() else {
        panic!("message {sequence} did not arrive");
    };
    let (index, length, ..) = arena.taken(descriptor);
    let is_whole = says(arena.receive_buffer(index), length as usize, sequence);
    assert!(
        is_whole,
        "message {sequence} was changed by a third process"
    );
    arena.post_receive(vi, index).unwrap();
}

/// Sends without end.
pub(super) fn flood() {
    let station = Station::open();
    let vi = station.vi(LEVEL, None);
    station
        .serve(vi, &std::env::var(MEET).unwrap(), SOON)
        .unwrap();
    let arena = &station.shared;
    for sequence in 0.. {
        fill(arena.send_buffer(0), BYTES, sequence);
        let send = control::SEND_RECEIVE;
        arena.post_send(vi, 0, BYTES, send, None, (0, 0)).unwrap();
        let Ok(Done::Complete(_)) = Shm::global().send_wait(vi, Some(SOON)) else {
            return;
        };
    }
}

/// Writes over every byte of its peer that it has mapped, and says how many there are.
pub(super) fn scribble() {
    let station = Station::open();
    let vi = station.vi(LEVEL, None);
    station
        .serve(vi, &std::env::var(MEET).unwrap(), SOON)
        .unwrap();
    let (link, ..) = vi::shared(vi).unwrap();
    let mut last = 0;
    while link.is_alive() {
        let mut mapped = 0;
        for (base, length) in (1..SEGMENTS_MAX as u32).filter_map(|id| link.peer_segment(id)) {
            mapped += length;
            for line in (0..length).step_by(64) {
                // SAFETY: inside the mapping, of which no reference is formed.
                unsafe { base.add(line).write_volatile(0xee) };
            }
        }
        if mapped != last {
            say(&mapped.to_string());
            last = mapped;
        }
    }
}
