//! A slow receiver: nothing is lost, everything takes longer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::faults::{Fault, Slowness};
use viaduct_programs::Simulation;
use viaduct_provider::Memory;

use super::two::{BYTES, End, Ended, RD, RR, UD, at, expect, run_two, stays, with};
use crate::models;

const ROUNDS: u32 = 100;

/// Microseconds that so many messages there and back take.
fn ping_pong(faults: &[Fault]) -> u32 {
    fn ping(end: &mut End) -> Vec<Ended> {
        let start = end.process.now();
        for _ in 0..ROUNDS {
            end.post();
            let back = end.vi.receive(None).unwrap();
            end.vi.post_receive(back.buffer).unwrap();
            end.vi.sent(None).unwrap();
        }
        let took = end.process.now() - start;
        vec![Ended::Failed(took.as_micros() as u32)]
    }
    fn pong(end: &mut End) -> Vec<Ended> {
        for _ in 0..ROUNDS {
            let there = end.vi.receive(None).unwrap();
            end.vi.post_receive(there.buffer).unwrap();
            end.post();
            end.vi.sent(None).unwrap();
        }
        Vec::new()
    }
    let (outcome, told) = run_two(with(&models::native(), faults), RD, [ping, pong]);
    assert!(outcome.is_ok(), "{outcome:?}");
    match told[0].clone().unwrap().ended[..] {
        [Ended::Failed(took)] => took,
        ref other => panic!("{other:?}"),
    }
}

const fn slow(by: Slowness) -> Fault {
    Fault::SlowHost {
        host: 1,
        from: at(0),
        by,
    }
}

#[test]
fn each_message_costs_a_slow_receiver_its_time() {
    let (usual, late) = (ping_pong(&[]), slow(Slowness::PerMessage(at(20))));
    let took = ping_pong(&[late]);
    // A part of it passes while the processor would have waited.
    let more = f64::from(took - usual) / f64::from(ROUNDS);
    assert!((15.0..=20.5).contains(&more), "{more} us a message");
    // With a factor the extra time is longer too.
    let twice = ping_pong(&[late, slow(Slowness::Factor(2.0))]);
    let more = f64::from(twice - usual) / f64::from(ROUNDS);
    assert!(more > 36.0, "{more} us a message");
}

#[test]
fn computing_takes_longer_by_the_factor_from_its_time_on() {
    let slow = Fault::SlowHost {
        host: 1,
        from: at(100),
        by: Slowness::Factor(2.5),
    };
    let spans: Arc<Mutex<[Vec<u128>; 2]>> = Arc::default();
    let mut simulation = Simulation::new(with(&models::ideal(), &[slow]));
    for host in 0..2 {
        let spans = spans.clone();
        simulation.spawn(host, move |process| {
            for _ in 0..3 {
                let start = process.now();
                process.compute(Duration::from_micros(60));
                let took = (process.now() - start).as_micros();
                spans.lock().unwrap()[host as usize].push(took);
            }
        });
    }
    simulation.run().unwrap();
    // Work that has begun is not made longer.
    let expected = [vec![60, 60, 60], vec![60, 60, 150]];
    assert_eq!(*spans.lock().unwrap(), expected);
}

#[test]
fn nothing_is_lost_to_a_slow_receiver() {
    fn send(end: &mut End) -> Vec<Ended> {
        (0..4).for_each(|_| end.post());
        end.sent(4)
    }
    fn receive(end: &mut End) -> Vec<Ended> {
        end.received(4)
    }
    // Three milliseconds for each: longer than the transport waits.
    expect(
        &[slow(Slowness::PerMessage(at(3000)))],
        [send, receive],
        |level| match level {
            UD | RD | RR => [
                Some(stays(&[Ended::Well; 4])),
                Some(stays(&[Ended::Well; 4])),
            ],
        },
    );
}

#[test]
fn a_receiver_too_slow_to_post_overruns() {
    // A program that posts a receive for each it takes, and a sender that does not wait: at
    // unreliable delivery what finds no receive is dropped, as the semantics say.
    fn send(end: &mut End) -> Vec<Ended> {
        (0..60).for_each(|_| end.post());
        end.sent(60)
    }
    fn receive(end: &mut End) -> Vec<Ended> {
        let mut well = 0;
        while let Ok(received) = end.vi.receive(Some(Duration::from_millis(20))) {
            well += 1;
            let _ = end.vi.post_receive(received.buffer);
        }
        let _ = end.nic.buffer(BYTES, Memory::Private);
        vec![Ended::Failed(well)]
    }
    let well = |faults: &[Fault]| {
        let (_, told) = run_two(with(&models::native(), faults), UD, [send, receive]);
        match told[1].clone().unwrap().ended[..] {
            [Ended::Failed(well)] => well,
            ref other => panic!("{other:?}"),
        }
    };
    assert_eq!(well(&[]), 60);
    assert!(well(&[slow(Slowness::PerMessage(at(100)))]) < 30);
}
