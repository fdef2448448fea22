//! Programs that run elsewhere, as what stands here for them does their calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_engine::Time;
use viaduct_programs::Process;
use viaduct_programs::outside::Owner;
use viaduct_programs::verbs::{Completion, CompletionQueueOptions, QueuePairType, SendOpcode};

use crate::queue_pairs::{hosts, two};

/// When a program finds each of some messages, which come while others come to another queue of its
/// host, where a program that computes now and then uses the processor, too.
/// With `is_in_turn` it polls a queue in which nothing comes as often.
fn found(polls: u64, pauses: &'static [u64], is_shared: bool, is_in_turn: bool) -> Vec<Time> {
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
        let context = process.rdma().unwrap().open().unwrap();
        let options = CompletionQueueOptions {
            entries: 16,
            ..CompletionQueueOptions::default()
        };
        let other = context.create_completion_queue(&options).unwrap();
        let key = [other.key()];
        let beside: &[_] = if is_in_turn { &key } else { &[] };
        while left > 0 {
            let taken = queue.poll_often(&mut places, polls, beside).unwrap();
            if is_in_turn && taken == 0 {
                assert_eq!(other.poll(&mut places).unwrap(), 0);
            }
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
        let one_by_one = found(1, PAUSES, is_shared, false);
        assert_eq!(one_by_one.len(), PAUSES.len());
        for polls in [2, 3, 64, 4096] {
            let together = found(polls, PAUSES, is_shared, false);
            assert_eq!(together, one_by_one, "{polls} polls");
        }
    }
}

#[test]
fn polls_of_two_queues_in_turn_find_what_they_find_one_by_one() {
    let one_by_one = found(1, PAUSES, false, true);
    assert_eq!(one_by_one.len(), PAUSES.len());
    assert_ne!(one_by_one, found(1, PAUSES, false, false));
    for polls in [2, 3, 64, 4096] {
        let together = found(polls, PAUSES, false, true);
        assert_eq!(together, one_by_one, "{polls} polls");
    }
}

#[test]
fn polls_of_one_call_end_when_a_queue_beside_has_something() {
    let (mut simulation, near, far) = two(hosts("rnic-gen5"), QueuePairType::Rc, 14);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let (told, sent) = (Arc::clone(&ended), Arc::clone(&ended));
    let queue = far.queue.clone();
    far.receive(1);
    simulation.spawn(0, move |process| {
        process.sleep(Duration::from_micros(200));
        sent.lock().unwrap().push(process.time());
        near.post(SendOpcode::Send, 0, 64, (0, 0), 0);
        process.sleep(Duration::from_micros(100));
        drop(near);
    });
    simulation.spawn(1, move |process: Process| {
        let mut places = [Completion::default(); 4];
        let context = process.rdma().unwrap().open().unwrap();
        let options = CompletionQueueOptions {
            entries: 16,
            ..CompletionQueueOptions::default()
        };
        let other = context.create_completion_queue(&options).unwrap();
        // Far more looks than that takes, then one, since it is there.
        for polls in [1 << 20, 1 << 20] {
            let taken = other.poll_often(&mut places, polls, &[queue.key()]);
            assert_eq!(taken.unwrap(), 0);
            told.lock().unwrap().push(process.time());
        }
        assert_eq!(queue.poll(&mut places).unwrap(), 1);
        drop(far);
    });
    simulation.run().unwrap();
    let ended = ended.lock().unwrap();
    let ns = |at: usize| (ended[at] - ended[at - 1]).picoseconds() / 1000;
    assert!((500..3000).contains(&ns(1)), "{ended:?}");
    assert!((1..=50).contains(&ns(2)), "{ended:?}");
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
