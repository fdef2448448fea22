//! The same carrier on simulated hosts, in virtual time: programs that block, and tasks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use viaduct_am::{Body, EventMask, Key, Name, Reason};
use viaduct_programs::{Process, SimulatedFabric, Simulation};
use viaduct_scenario::load_programs;
use viaduct_vi_carrier::{Identity, Options, Station};

/// Exchanged by any means: here, one simulation's programs share a table.
type Names = Arc<Mutex<Vec<Option<Name>>>>;

fn station(process: &Process, frames: u32) -> Station<SimulatedFabric> {
    let options = Options {
        frames,
        ..Options::default()
    };
    let identity = Identity::new(u128::from(process.host()) + 1);
    let (station, acceptor) = Station::open(process.fabric(), "sim0", identity, options).unwrap();
    process.spawn(move |_| acceptor.run());
    station
}

fn publish(process: &Process, names: &Names, name: Name) {
    names.lock().unwrap()[process.host() as usize] = Some(name);
}

fn name_of(process: &Process, names: &Names, host: usize) -> Name {
    loop {
        if let Some(name) = names.lock().unwrap()[host] {
            return name;
        }
        process.sleep(Duration::from_micros(10));
    }
}

/// Every host talks to every other, over so many frames; the digest of all that was seen, and when
/// the simulation ended.
fn mesh(model: &str, hosts: u32, frames: u32, requests: u64) -> (Vec<Vec<u64>>, String) {
    let mut simulation = Simulation::new(load_programs(model, None, hosts).unwrap());
    let names: Names = Arc::new(Mutex::new(vec![None; hosts as usize]));
    let done = Arc::new(Mutex::new(0));
    let seen = Arc::new(Mutex::new(vec![Vec::new(); hosts as usize]));
    for host in 0..hosts {
        let (names, done, seen) = (Arc::clone(&names), Arc::clone(&done), Arc::clone(&seen));
        simulation.spawn(host, move |process| {
            let station = station(&process, frames);
            let mut end = endpoint(&station);
            publish(&process, &names, end.name());
            for other in 0..hosts as usize {
                end.map(other, &name_of(&process, &names, other), KEY)
                    .unwrap();
            }
            let mut draws = Draws(u64::from(host));
            let payload = [3; 2000];
            for word in 0..requests {
                let body = match draws.next(3) {
                    0 => Body::Medium(&payload),
                    _ => Body::Short,
                };
                let target = draws.next(u64::from(hosts)) as usize;
                end.request_with(target, ECHO, &[word], body).unwrap();
                end.poll();
            }
            let mut has_counted = false;
            loop {
                let _ = end.wait(EventMask::MESSAGE, Some(Duration::from_micros(50)));
                end.poll();
                if end.outstanding() == 0 && !has_counted {
                    has_counted = true;
                    *done.lock().unwrap() += 1;
                }
                if *done.lock().unwrap() == hosts {
                    break;
                }
            }
            assert_eq!(end.state().returned, []);
            seen.lock().unwrap()[host as usize] = end.state().replies.clone();
        });
    }
    let outcome = simulation.run().unwrap();
    let seen = seen.lock().unwrap().clone();
    for replies in &seen {
        let mut replies = replies.clone();
        replies.sort_unstable();
        assert_eq!(replies, (0..requests).collect::<Vec<_>>());
    }
    (seen, format!("{outcome:?}"))
}

#[test]
fn simulated_hosts_exchange_requests() {
    mesh("clan-pio", 3, 64, 40);
}

#[test]
fn more_simulated_hosts_than_frames_lose_and_double_nothing() {
    mesh("clan-pio", 5, 2, 30);
}

#[test]
fn equal_inputs_are_equal_runs() {
    assert_eq!(mesh("clan-pio", 4, 2, 20), mesh("clan-pio", 4, 2, 20));
}

/// Requests to a process that is gone come back: the first after 200 ms of asking, the next after
/// 20, 10, 5, 2, and those after them after one that nobody answers.
#[test]
fn who_sends_on_to_a_dead_process_does_not_wait_every_time() {
    let mut simulation = Simulation::new(load_programs("clan-pio", None, 2).unwrap());
    let names: Names = Arc::new(Mutex::new(vec![None; 2]));
    let its = Arc::clone(&names);
    simulation.spawn(1, move |process| {
        let station = station(&process, 64);
        publish(&process, &its, endpoint(&station).name());
        // And ends: nobody answers for it.
    });
    simulation.spawn(0, move |process| {
        let station = station(&process, 64);
        let mut end = endpoint(&station);
        let dead = name_of(&process, &names, 1);
        process.sleep(Duration::from_millis(10));
        end.map(0, &dead, KEY).unwrap();
        let mut ask = |count: u64| {
            let begin = process.now();
            for word in 0..count {
                end.request(0, ECHO, &[word]).unwrap();
                while end.outstanding() > 0 {
                    end.wait(EventMask::RETURNED, None).unwrap();
                    end.poll();
                }
            }
            process.now() - begin
        };
        let first = ask(1);
        assert!(first > Duration::from_millis(190), "{first:?}");
        let others = ask(500);
        assert!(others < Duration::from_millis(120), "{others:?}");
        let died = |returned: &(Option<u64>, Reason)| returned.1 == Reason::ProcessDied;
        assert!(end.state().returned.len() == 501 && end.state().returned.iter().all(died));
    });
    simulation.run().unwrap();
}

#[test]
fn a_wrong_key_comes_back_across_a_simulated_network() {
    let mut simulation = Simulation::new(load_programs("clan-pio", None, 2).unwrap());
    let names: Names = Arc::new(Mutex::new(vec![None; 2]));
    for host in 0..2 {
        let names = Arc::clone(&names);
        simulation.spawn(host, move |process| {
            let station = station(&process, 64);
            let mut end = endpoint(&station);
            publish(&process, &names, end.name());
            if host == 0 {
                let other = name_of(&process, &names, 1);
                end.map(0, &other, Key(3)).unwrap();
                end.request(0, ECHO, &[1]).unwrap();
                while end.outstanding() > 0 {
                    end.wait(EventMask::RETURNED, None).unwrap();
                    end.poll();
                }
                assert_eq!(end.state().returned, [(Some(1), Reason::WrongKey)]);
                publish(&process, &names, other);
            } else {
                while names.lock().unwrap()[0] != Some(end.name()) {
                    let _ = end.wait(EventMask::MESSAGE, Some(Duration::from_micros(100)));
                    end.poll();
                }
            }
        });
    }
    simulation.run().unwrap();
}
