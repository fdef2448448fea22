//! Programs that run elsewhere, as what stands here for them does their calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_engine::Time;
use viaduct_programs::Process;
use viaduct_programs::outside::Owner;
use viaduct_programs::verbs::{Completion, QueuePairType, SendOpcode};

use crate::queue_pairs::{hosts, two};

/// When a program finds each of some messages, which come while others come to another queue of its
/// host, where a program that computes now and then uses the processor, too.
fn found(polls: u64, pauses: &'static [u64], is_shared: bool) -> Vec<Time> {
    let (mut simulation, near, far) = two(hosts("rnic-gen5"), QueuePairType::Rc, 14);
    let times = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&times);
    let (target, queue) = (far.memory(), far.queue.clone());
    for number in 0..pauses.len() {
        far.receive(number as u64);
    }
    simulation.spawn(0, move |process| {
        for (number, pause) in pauses.iter().enumerate() {
            process.sleep(Duration::from_nanos(*pause));
            // What the far program looks for is among remote writes, of which it hears nothing.
            near.post(SendOpcode::RdmaWrite, 0, 8, target, 0);
            near.post(SendOpcode::Send, 0, 64 + number as u32, (0, 0), 0);
        }
        // Its memory stays until all of it is there.
        process.sleep(Duration::from_micros(100));
        drop(near);
    });
    if is_shared {
        simulation.spawn(1, |process| {
            for _ in 0..20 {
                process.sleep(Duration::from_nanos(1300));
                process.compute(Duration::from_nanos(700));
            }
        });
    }
    simulation.spawn(1, move |process: Process| {
        let mut places = [Completion::default(); 4];
        let mut left = pauses.len();
        while left > 0 {
            let taken = queue.poll_often(&mut places, polls).unwrap();
            for _ in 0..taken {
                told.lock().unwrap().push(process.time());
            }
            left -= taken;
        }
    });
    simulation.run().unwrap();
    let times = times.lock().unwrap();
    times.clone()
}

/// Pauses of the sender in nanoseconds: within a look, at its edges, and past many.
const PAUSES: &[u64] = &[
    0, 3, 7, 20, 25, 49, 50, 51, 75, 99, 100, 333, 1000, 1024, 2047, 4999, 10_001, 65_537,
];

#[test]
fn polls_of_one_call_find_what_they_find_one_by_one() {
    for is_shared in [false, true] {
        let one_by_one = found(1, PAUSES, is_shared);
        assert_eq!(one_by_one.len(), PAUSES.len());
        for polls in [2, 3, 64, 4096] {
            assert_eq!(found(polls, PAUSES, is_shared), one_by_one, "{polls} polls");
        }
    }
}

#[test]
fn an_address_says_whose_it_is_and_each_owner_has_all_addresses() {
    for number in [0, 1, Owner::MAX - 1] {
        let owner = Owner::new(number);
        assert_eq!(owner.number(), number);
        let named = owner.name(0x7fff_ffff_f000);
        assert_eq!(named & ((1 << 48) - 1), 0x7fff_ffff_f000);
        assert!(named.checked_add(1 << 46).is_some());
        assert_ne!(named >> 48, 0);
    }
}
