//! Programs on hosts of several adapters: each is a NIC of its own, and the processor is one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::faults::Fault;
use viaduct_engine::Time;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::verbs::{QueuePairType, SendOpcode};
use viaduct_programs::{Process, SimulatedFabric, Simulation, breakdown};
use viaduct_provider::{Buffer, Memory, ReturnCode};
use viaduct_scenario::load_programs;
use viaduct_topology::{RailShape, Topology};

use crate::queue_pairs::End;

type Nic = viaduct_provider::Nic<SimulatedFabric>;
type Vi = viaduct_provider::Vi<SimulatedFabric>;

const BYTES: usize = 32 << 10;
const MODELS: [&str; 4] = ["giganet-clan-linux", "m-via", "bvia-myrinet", "rnic-gen4"];
/// When messages are posted: all have connected.
const BEGIN: Time = Time::from_picoseconds(20_000_000_000);

/// Two hosts of a preset on one switch, with so many adapters each.
fn two_hosts(model: &str, adapters: u32) -> SimulationConfig {
    SimulationConfig {
        adapters: Adapters {
            count: adapters,
            has_own_bus: true,
            ..Adapters::ONE
        },
        ..load_programs(model, None, 2 * adapters).unwrap()
    }
}

fn open(process: &Process, adapter: u32) -> (Process, Nic) {
    let process = process.at_adapter(adapter).unwrap();
    let nic = Nic::open(process.fabric(), &format!("sim{adapter}")).unwrap();
    (process, nic)
}

fn service(adapter: u32) -> [u8; 1] {
    [adapter as u8]
}

/// A VI of an adapter to which somebody has connected, with receives posted.
fn accept(process: &Process, adapter: u32, receives: usize) -> Vi {
    let (_, nic) = open(process, adapter);
    let mut vi = nic.vi().receive_depth(256).build().unwrap();
    for _ in 0..receives {
        let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
        vi.post_receive(buffer).unwrap();
    }
    nic.listen(&service(adapter)).accept(&mut vi, None).unwrap();
    vi
}

/// A VI of an adapter that is connected to that of the same number at another host.
fn connect(process: &Process, host: &str, adapter: u32) -> (Nic, Vi) {
    let (process, nic) = open(process, adapter);
    let mut vi = nic.vi().send_depth(256).build().unwrap();
    let address = nic.resolve_at(host, adapter, &service(adapter)).unwrap();
    while let Err(error) = vi.connect(&address, None) {
        assert!(process.time() < BEGIN, "{error}");
        process.sleep(Duration::from_micros(100));
    }
    (nic, vi)
}

fn post(nic: &Nic, vi: &mut Vi) {
    let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
    vi.post_send(buffer, BYTES).unwrap();
}

/// A buffer for each message, registered with the adapter that it takes. They are made before the
/// first post, since registering memory takes longer than posting.
fn buffers(ends: &[(u32, (Nic, Vi))], by: &[u32]) -> Vec<Buffer> {
    let nic = |adapter: u32| {
        ends.iter()
            .find(|(it, _)| *it == adapter)
            .map(|(_, (nic, _))| nic)
    };
    let buffers = by.iter().filter_map(|adapter| nic(*adapter));
    buffers
        .map(|nic| nic.buffer(BYTES, Memory::Private).unwrap())
        .collect()
}

/// How long messages take that host 0 posts one after the other, each by one of its adapters, until
/// programs of host 1 have all of them.
fn time_of(config: SimulationConfig, by: &[u32]) -> Time {
    let mut simulation = Simulation::new(config);
    let ends = Arc::new(Mutex::new(Vec::new()));
    let mut used = by.to_vec();
    used.sort_unstable();
    used.dedup();
    for &adapter in &used {
        let count = by.iter().filter(|it| **it == adapter).count();
        let ends = Arc::clone(&ends);
        simulation.spawn(1, move |process| {
            let mut vi = accept(&process, adapter, count);
            for _ in 0..count {
                vi.receive(None).unwrap();
            }
            ends.lock().unwrap().push(process.time());
        });
    }
    let by = by.to_vec();
    simulation.spawn(0, move |process| {
        let mut ends: Vec<_> = used
            .iter()
            .map(|adapter| (*adapter, connect(&process, "host1", *adapter)))
            .collect();
        let buffers = buffers(&ends, &by);
        process.sleep_until(BEGIN);
        for (adapter, buffer) in by.into_iter().zip(buffers) {
            let (_, (_, vi)) = ends.iter_mut().find(|(it, _)| *it == adapter).unwrap();
            vi.post_send(buffer, BYTES).unwrap();
        }
        process.sleep(Duration::from_millis(50));
    });
    simulation.run().unwrap();
    let last = *ends.lock().unwrap().iter().max().unwrap();
    last - BEGIN
}

#[test]
fn a_message_takes_as_long_by_each_adapter_as_by_the_only_one() {
    for model in MODELS {
        let only = time_of(two_hosts(model, 1), &[0]);
        for adapter in 0..3 {
            let by_it = time_of(two_hosts(model, 3), &[adapter]);
            assert_eq!(by_it, only, "{model}, adapter {adapter}");
        }
    }
}

#[test]
fn the_breakdown_is_of_the_first_adapters() {
    let shape = RailShape {
        rails: 2,
        servers: 2,
        servers_per_unit: 2,
        spines: 1,
    };
    // By the first adapters there is one switch between the two, by others three.
    let rails = SimulationConfig {
        topology: Arc::new(Topology::rail(shape).unwrap()),
        ..two_hosts("giganet-clan-linux", 2)
    };
    let bytes = BYTES as u32;
    let only = breakdown(&two_hosts("giganet-clan-linux", 1), bytes);
    assert_eq!(breakdown(&rails, bytes), only);
}

#[test]
fn two_adapters_carry_twice_as_much() {
    const COUNT: usize = 100;
    let one = time_of(two_hosts("rnic-gen4", 2), &[0; COUNT]);
    let in_turn: Vec<u32> = (0..2 * COUNT as u32).map(|number| number % 2).collect();
    let both = time_of(two_hosts("rnic-gen4", 2), &in_turn);
    let twice = time_of(two_hosts("rnic-gen4", 2), &[1; 2 * COUNT]);
    assert!(
        both.saturating_mul(10) < one.saturating_mul(11),
        "{both} for both, {one} for one"
    );
    assert!(
        twice.saturating_mul(10) > both.saturating_mul(19),
        "{twice} for one, {both} for both"
    );
}

#[test]
fn the_processor_is_the_hosts() {
    let arrival = |computing: Duration| {
        let mut simulation = Simulation::new(two_hosts("giganet-clan-linux", 2));
        let end = Arc::new(Mutex::new(Time::ZERO));
        let its = Arc::clone(&end);
        simulation.spawn(1, move |process| {
            let mut vi = accept(&process, 0, 1);
            vi.receive(None).unwrap();
            *its.lock().unwrap() = process.time();
        });
        simulation
            .process(1)
            .at_adapter(1)
            .unwrap()
            .spawn(move |process| {
                process.sleep_until(BEGIN);
                process.compute(computing);
            });
        simulation.spawn(0, |process| {
            let (nic, mut vi) = connect(&process, "host1", 0);
            process.sleep_until(BEGIN);
            post(&nic, &mut vi);
        });
        simulation.run().unwrap();
        *end.lock().unwrap() - BEGIN
    };
    assert!(arrival(Duration::ZERO) < Time::from_milliseconds(1));
    let busy = arrival(Duration::from_millis(3));
    assert!(busy >= Time::from_milliseconds(3), "{busy}");
}

#[test]
fn each_adapter_has_a_name_and_an_address() {
    let mut simulation = Simulation::new(two_hosts("giganet-clan-linux", 2));
    assert_eq!(simulation.hosts(), 2);
    simulation.spawn(1, |process| {
        assert_eq!(
            (process.host(), process.adapters(), process.adapter()),
            (1, 2, 0)
        );
        assert!(process.at_adapter(2).is_none());
        let (second, nic) = open(&process, 1);
        assert_eq!((second.host(), second.adapter()), (1, 1));
        let resolve = |index| nic.resolve_at("host1", index, b"");
        let (one, other) = (resolve(0).unwrap(), resolve(1).unwrap());
        assert_ne!(one, other);
        assert_eq!(nic.resolve("host1", b"").unwrap(), one);
        assert_eq!(nic.address(b""), other);
        let error = resolve(2).unwrap_err();
        assert_eq!(error.code(), ReturnCode::NameService);
        assert!(error.to_string().contains("2 addresses"), "{error}");
        let error = nic.resolve("host2", b"").unwrap_err();
        assert!(error.to_string().contains("host0 to host1"), "{error}");
    });
    simulation.run().unwrap();
}

#[test]
fn a_program_hears_of_each_adapter_of_its_host() {
    let mut simulation = Simulation::new(two_hosts("giganet-clan-linux", 2));
    simulation.spawn(1, |process| {
        let mut vis = [0, 1].map(|adapter| accept(&process, adapter, 1));
        // In vain at one, and then there is something at the other.
        vis[0].receive(Some(Duration::from_micros(10))).unwrap_err();
        vis[1].receive(None).unwrap();
        assert!(process.time() > BEGIN);
        vis[0].receive(None).unwrap();
    });
    simulation.spawn(0, |process| {
        let mut ends = [0, 1].map(|adapter| connect(&process, "host1", adapter));
        process.sleep_until(BEGIN);
        for (nic, vi) in ends.iter_mut().rev() {
            post(nic, vi);
            process.sleep(Duration::from_millis(1));
        }
    });
    simulation.run().unwrap();
}

/// What a program of host 0 is told at the end of its connections by two adapters, the second of
/// which somebody at host 1 has.
fn ended(fault: Option<Fault>, has_died: bool) -> [bool; 2] {
    let mut config = two_hosts("giganet-clan-linux", 2);
    config.faults.extend(fault);
    let mut simulation = Simulation::new(config);
    for adapter in [0, 1] {
        simulation.spawn(1, move |process| {
            let _vi = accept(&process, adapter, 1);
            process.sleep_until(BEGIN);
            if has_died && adapter == 1 {
                process.at_adapter(1).unwrap().die();
            }
            process.sleep(Duration::from_secs(1));
            assert!(!has_died, "it lives on");
        });
    }
    let told = Arc::new(Mutex::new([false; 2]));
    let its = Arc::clone(&told);
    simulation.spawn(0, move |process| {
        let mut ends = [0, 1].map(|adapter| connect(&process, "host1", adapter));
        process.sleep(Duration::from_millis(500));
        *its.lock().unwrap() = ends.each_mut().map(|(nic, vi)| {
            let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
            vi.post_send(buffer, BYTES)
                .is_ok_and(|()| vi.sent(None).is_ok())
        });
    });
    simulation.run().unwrap();
    *told.lock().unwrap()
}

#[test]
fn a_host_dies_with_all_its_adapters_and_an_adapter_alone() {
    let at = Time::from_milliseconds(30);
    assert_eq!(ended(None, false), [true, true]);
    assert_eq!(ended(None, true), [false, false]);
    // Places are counted: 2 and 3 are host 1.
    assert_eq!(
        ended(Some(Fault::NicDies { host: 3, at }), false),
        [true, false]
    );
}

#[test]
fn queue_pairs_of_each_adapter_reach_each_other_alike() {
    let time_by = |adapters: u32, adapter: u32| {
        let mut simulation = Simulation::new(two_hosts("rnic-gen4", adapters));
        let numbers: Arc<Mutex<[Option<u32>; 2]>> = Arc::default();
        let end = Arc::new(Mutex::new(Time::ZERO));
        for host in [0, 1] {
            let (numbers, end) = (Arc::clone(&numbers), Arc::clone(&end));
            simulation.spawn(host, move |process| {
                let second = process.at_adapter(adapter).unwrap();
                let device = second.rdma().unwrap();
                assert_eq!(device.name(), format!("sim{adapter}"));
                let own = End::new(&second, QueuePairType::Rc);
                numbers.lock().unwrap()[host as usize] = Some(own.pair.number());
                process.sleep(Duration::from_millis(1));
                let peer = numbers.lock().unwrap()[1 - host as usize].unwrap();
                own.raise(peer, 14, 7);
                if host == 1 {
                    own.receive(1);
                    own.done();
                    *end.lock().unwrap() = process.time();
                } else {
                    process.sleep_until(BEGIN);
                    own.post(SendOpcode::Send, 0, 64, (0, 0), 0);
                    own.done();
                }
            });
        }
        simulation.run().unwrap();
        let took = *end.lock().unwrap() - BEGIN;
        assert!(took > Time::ZERO);
        took
    };
    let only = time_by(1, 0);
    assert_eq!(time_by(2, 0), only);
    assert_eq!(time_by(2, 1), only);
}
