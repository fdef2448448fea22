//! Hosts and NICs that die, by a fault or by their programs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::faults::Fault;
use viaduct_programs::{Process, Simulation, die};
use viaduct_provider::via::ViState;
use viaduct_provider::{ErrorCode, Memory, Nic, Provider, ReturnCode};

use super::two::{
    End, Ended, FLUSHED, RD, RR, STRIKE, TRANSPORT, Told, UD, at, breaks, expect, run_two, until,
    with,
};
use crate::models;

fn send_when_it_strikes(end: &mut End) -> Vec<Ended> {
    until(&end.process, STRIKE + 10);
    end.post();
    let mut ended = end.sent(1);
    // Its own receives are given back too.
    ended.extend(end.received(1));
    ended
}

fn wait(end: &mut End) -> Vec<Ended> {
    end.received(1)
}

fn survivor(level: viaduct_provider::via::ReliabilityLevel) -> Told {
    breaks(&match level {
        UD | RD => [Ended::Well, FLUSHED],
        RR => [TRANSPORT, FLUSHED],
    })
}

#[test]
fn a_dead_host_is_noticed_at_every_level() {
    let dies = Fault::HostDies {
        host: 1,
        at: at(STRIKE),
    };
    expect(&[dies], [send_when_it_strikes, wait], |level| {
        [Some(survivor(level)), None]
    });
}

#[test]
fn a_program_that_dies_ends_at_once() {
    for model in models::all() {
        for level in [UD, RD, RR] {
            let (outcome, told) = run_two(
                with(&model, &[]),
                level,
                [send_when_it_strikes, |end| {
                    until(&end.process, STRIKE);
                    die();
                    panic!("it lives on")
                }],
            );
            assert!(outcome.is_ok(), "{outcome:?}");
            assert_eq!(told, [Some(survivor(level)), None]);
        }
    }
}

#[test]
fn programs_of_a_dead_nic_go_on() {
    let dies = Fault::NicDies {
        host: 1,
        at: at(STRIKE),
    };
    expect(&[dies], [send_when_it_strikes, wait], |level| {
        let mut own = breaks(&[FLUSHED]);
        own.errors.insert(0, ErrorCode::Catastrophic);
        [Some(survivor(level)), Some(own)]
    });
}

#[test]
fn what_a_host_has_sent_when_it_dies_does_not_arrive() {
    for model in models::all() {
        for level in [UD, RD, RR] {
            let (outcome, told) = run_two(
                with(&model, &[]),
                level,
                [
                    |end| {
                        (0..4).for_each(|_| end.post());
                        end.process.die();
                        Vec::new()
                    },
                    |end| end.received(4),
                ],
            );
            assert!(outcome.is_ok(), "{outcome:?}");
            let told = told[1].clone().unwrap();
            assert_eq!(told.state, ViState::Error);
            // The first ones may have been there when the last was posted.
            assert_eq!(told.ended[3], FLUSHED, "{level:?} on {}", model.name);
        }
    }
}

/// Asks for everything when it is dropped.
struct Last {
    process: Process,
    nic: Nic<viaduct_programs::SimulatedFabric>,
    refusals: Arc<Mutex<Vec<ReturnCode>>>,
}

impl Drop for Last {
    fn drop(&mut self) {
        self.process.sleep(Duration::from_secs(1));
        self.process.compute(Duration::from_secs(1));
        self.process.relax();
        self.process
            .spawn(|_| panic!("no program starts on a dead host"));
        let listener = self.nic.listen(b"late");
        let vi = self.nic.vi().build().map(drop);
        let heard = listener.request(None).map(drop);
        let buffer = self.nic.buffer(64, Memory::Private).map(drop);
        let refused = [vi, heard, buffer].map(|result| result.unwrap_err().code());
        self.refusals.lock().unwrap().extend(refused);
        self.process.die();
    }
}

#[test]
fn what_a_dead_program_holds_is_dropped_with_the_simulation_and_refused_all() {
    let refusals: Arc<Mutex<Vec<ReturnCode>>> = Arc::default();
    let mut simulation = Simulation::new(with(&models::native(), &[]));
    let told = refusals.clone();
    simulation.spawn(1, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().build().unwrap();
        vi.post_receive(nic.buffer(64, Memory::Private).unwrap())
            .unwrap();
        let _last = Last {
            process: process.clone(),
            nic,
            refusals: told,
        };
        process.sleep(Duration::from_millis(1));
        die();
    });
    simulation.run().unwrap();
    assert!(!simulation.is_alive(1) && simulation.is_alive(0));
    assert_eq!(*refusals.lock().unwrap(), []);
    drop(simulation);
    assert_eq!(*refusals.lock().unwrap(), [ReturnCode::InvalidState; 3]);
}

#[test]
fn every_program_of_a_dead_host_stops_and_none_of_another() {
    let turns: [Arc<AtomicU32>; 2] = Default::default();
    let dies = Fault::HostDies {
        host: 1,
        at: at(1050),
    };
    let mut simulation = Simulation::new(with(&models::ideal(), &[dies]));
    for host in [0, 1] {
        let (counted, asynchronous) = (turns[host].clone(), turns[host].clone());
        simulation.spawn(host as u32, move |process| {
            for _ in 0..20 {
                process.sleep(Duration::from_micros(100));
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        simulation.spawn_async(host as u32, |process| async move {
            for _ in 0..20 {
                process.sleep_async(Duration::from_micros(100)).await;
                asynchronous.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let outcome = simulation.run().unwrap();
    let counts = turns.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts, [40, 20]);
    assert_eq!(outcome.end, at(2000));
}

#[test]
fn an_asynchronous_program_that_dies_is_refused_and_runs_no_more() {
    let told: Arc<Mutex<Vec<&str>>> = Arc::default();
    let say = told.clone();
    let mut simulation = Simulation::new(with(&models::ideal(), &[]));
    simulation.spawn_async(0, |process| async move {
        process.sleep_async(Duration::from_micros(1)).await;
        die();
        let opened = Nic::open(process.fabric(), "sim0");
        say.lock().unwrap().push(match opened {
            Ok(_) => "opened",
            Err(_) => "refused",
        });
        process.sleep_async(Duration::from_micros(1)).await;
        say.lock().unwrap().push("lives");
    });
    simulation.run().unwrap();
    assert_eq!(*told.lock().unwrap(), ["refused"]);
}

#[test]
fn handlers_of_the_dead_are_not_called_and_others_are() {
    // Host 1's handler has run before, so that what calls handlers last worked for that host.
    fn send(end: &mut End) -> Vec<Ended> {
        (0..6).for_each(|_| end.post());
        let sent = end.sent(6);
        until(&end.process, STRIKE + 10);
        sent
    }
    fn overrun(end: &mut End) -> Vec<Ended> {
        end.received(4)
    }
    let dies = Fault::HostDies {
        host: 1,
        at: at(STRIKE + 40_000),
    };
    for model in models::all() {
        let (outcome, told) = run_two(with(&model, &[dies]), UD, [send, overrun]);
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(told, [Some(breaks(&[Ended::Well; 6])), None]);
    }
}

#[test]
fn a_handler_may_die() {
    let calls = Arc::new(AtomicU32::new(0));
    let heard = calls.clone();
    let mut simulation = Simulation::new(with(&models::native(), &[]));
    simulation.spawn(0, |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().build().unwrap();
        let address = nic.resolve("host1", b"there").unwrap();
        while vi.connect(&address, None).is_err() {
            process.relax();
        }
        // No receive is posted: this breaks the connection, which the other's handler hears.
        vi.post_send(nic.buffer(8, Memory::Private).unwrap(), 8)
            .unwrap();
        process.sleep(Duration::from_millis(20));
        assert_eq!(vi.query().unwrap().state, ViState::Error);
    });
    simulation.spawn(1, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let handler = Arc::new(move |_: &viaduct_provider::AsynchronousError| {
            heard.fetch_add(1, Ordering::Relaxed);
            die();
        });
        nic.set_error_handler(Some(handler)).unwrap();
        let mut vi = nic.vi().build().unwrap();
        nic.listen(b"there").accept(&mut vi, None).unwrap();
        process.sleep(Duration::from_secs(1));
        panic!("it lives on")
    });
    simulation.run().unwrap();
    assert!(!simulation.is_alive(1));
    // Two errors wait for it: it has heard of one.
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    drop(simulation);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_program_that_panics_leaves_the_others_to_be_dropped() {
    let mut simulation = Simulation::new(with(&models::native(), &[]));
    simulation.spawn(0, |process| {
        process.sleep(Duration::from_micros(1));
        panic!("as it should");
    });
    let told: Arc<Mutex<Vec<ReturnCode>>> = Arc::default();
    let refusals = told.clone();
    simulation.spawn(1, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let _last = Last {
            process: process.clone(),
            nic,
            refusals,
        };
        process.sleep(Duration::from_secs(1));
    });
    let ended = catch_unwind(AssertUnwindSafe(|| simulation.run()));
    assert!(ended.is_err());
    simulation.process(1).die();
    drop(simulation);
    assert_eq!(*told.lock().unwrap(), [ReturnCode::InvalidState; 3]);
}

#[test]
fn who_was_about_to_run_on_a_dead_host_does_not() {
    let turns = Arc::new(AtomicU32::new(0));
    let mut simulation = Simulation::new(with(&models::ideal(), &[]));
    for _ in 0..3 {
        let turns = turns.clone();
        simulation.spawn(0, move |_| {
            turns.fetch_add(1, Ordering::Relaxed);
            die();
        });
    }
    simulation.run().unwrap();
    assert_eq!(turns.load(Ordering::Relaxed), 1);
}

#[test]
fn an_asynchronous_program_that_ends_dead_is_counted_once() {
    let turns = Arc::new(AtomicU32::new(0));
    let counted = turns.clone();
    let mut simulation = Simulation::new(with(&models::ideal(), &[]));
    simulation.spawn_async(1, |_| async { die() });
    let dead = simulation.process(1);
    simulation.spawn(0, move |process| {
        for _ in 0..5 {
            process.sleep(Duration::from_micros(1));
            dead.spawn(|_| panic!("no program starts on a dead host"));
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    simulation.run().unwrap();
    assert_eq!(turns.load(Ordering::Relaxed), 5);
}

#[test]
fn what_the_dead_said_of_a_connection_does_not_arrive() {
    fn leave(end: &mut End) -> Vec<Ended> {
        until(&end.process, STRIKE);
        end.vi.disconnect().unwrap();
        die();
        Vec::new()
    }
    // Connected until the host is missed.
    fn look(end: &mut End) -> Vec<Ended> {
        until(&end.process, STRIKE + 9500);
        let state = end.vi.query().unwrap().state;
        assert_eq!(state, ViState::Connected);
        until(&end.process, STRIKE + 10_500);
        let state = end.vi.query().unwrap().state;
        assert_eq!(state, ViState::Error);
        Vec::new()
    }
    for model in models::all() {
        let (outcome, told) = run_two(with(&model, &[]), RD, [look, leave]);
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(told, [Some(breaks(&[])), None]);
    }
}

#[test]
fn a_handler_of_a_dead_host_is_neither_begun_nor_ended() {
    for (dies, expected) in [(1, [0, 0]), (500, [1, 0]), (5000, [1, 1])] {
        let calls: [Arc<AtomicU32>; 2] = Default::default();
        let [begun, ended] = calls.clone();
        let mut simulation = Simulation::new(with(&models::ideal(), &[]));
        simulation.spawn(0, move |process| {
            let (fabric, own) = (process.fabric(), process.clone());
            let nic = Nic::open(fabric.clone(), "sim0").unwrap();
            let mut vi = nic.vi().build().unwrap();
            // Without a connection the send is given back at once, and the handler called.
            let handler = Box::new(move |_, _, _| {
                begun.fetch_add(1, Ordering::Relaxed);
                own.sleep(Duration::from_millis(1));
                ended.fetch_add(1, Ordering::Relaxed);
            });
            fabric.send_notify(vi.handle(), handler).unwrap();
            let buffer = nic.buffer(8, Memory::Private).unwrap();
            vi.post_send(buffer, 8).unwrap();
            if dies > 1 {
                process.sleep(Duration::from_micros(dies));
            }
            die();
        });
        // Somebody for whom the simulation goes on.
        simulation.spawn(1, |process| process.sleep(Duration::from_millis(50)));
        simulation.run().unwrap();
        let calls = calls.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(calls, expected, "dies after {dies} us");
    }
}

#[test]
fn dying_means_nothing_outside_of_a_simulation() {
    die();
}
