//! Remote writes and reads as a study's own traffic: what they take, how long they last, and what
//! is told of them.

use std::ops::ControlFlow;

use crate::common::{costly_host, run, scenario};
use viaduct_cluster::bounds::load_bounds;
use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_cluster::faults::{Fault, Links};
use viaduct_cluster::why::{Account, Choice, Fate, Place, explain};
use viaduct_cluster::workload::MessageOperation::{self, Read, Send, Write, WriteWithImmediate};
use viaduct_cluster::workload::{Interval, Pattern};
use viaduct_cluster::{RunError, floor_latency};
use viaduct_core::ReliabilityLevel;
use viaduct_engine::Time;
use viaduct_hardware::{Stage, Switching};
use viaduct_network::Sharing;
use viaduct_topology::{HostId, Ports, Topology};

/// Uniform traffic on a torus of messages of 1,000 bytes.
fn uniform(operation: MessageOperation) -> ClusterConfig {
    let torus = Topology::torus(&[3, 3], 1, Ports(8)).expect("a torus");
    let mut config = scenario(torus, costly_host(), Pattern::Uniform);
    config.traffic.arrivals = Arrivals::Open(Interval::exponential(60e6).expect("a mean"));
    config.traffic.operation = operation;
    config.traffic.reliability = ReliabilityLevel::ReliableDelivery;
    config.hosts.prepost = 100;
    config.run.until = Time::from_milliseconds(20);
    config.traffic.stop = config.run.until;
    config
}

fn account(config: &ClusterConfig, choice: Choice) -> Account {
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let explanation = explain(config, choice, go_on).expect("explained");
    assert_eq!(explanation.violations, Vec::<String>::new());
    assert_eq!(explanation.digest, run(config).digest);
    match explanation.fate {
        Fate::Delivered(account) => *account,
        fate => panic!("{fate:?}"),
    }
}

#[test]
fn the_time_of_a_read_is_accounted_for_there_and_back() {
    for switching in [Switching::CutThrough, Switching::StoreAndForward] {
        for sharing in [Sharing::Fluid, Sharing::MaxMin, Sharing::Queues] {
            for operation in MessageOperation::ALL {
                let mut config = uniform(operation);
                (config.links.switching, config.links.sharing) = (switching, sharing);
                let account = account(&config, Choice::Slowest);
                let sum = |times: &mut dyn Iterator<Item = Time>| {
                    times.fold(Time::ZERO, |sum, time| sum + time)
                };
                let spent = sum(&mut account.stages.iter().map(|it| it.time));
                let alone = sum(&mut account.stages.iter().map(|it| it.alone));
                assert_eq!(spent, account.latency, "{operation:?}");
                assert_eq!(alone, account.floor, "{operation:?}");
                assert!(account.latency > account.floor, "{operation:?}");
                // From bus to bus, and of a read back to the first.
                let places: Vec<Place> = account.way.places.iter().map(|it| it.place).collect();
                let is_bus = |place: &&Place| matches!(place, Place::Bus(_));
                let buses: Vec<&Place> = places.iter().filter(is_bus).collect();
                let ends = (places.first(), places.last());
                if operation == Read {
                    // Its request has no bytes for a bus.
                    assert_eq!(buses.len(), 2, "{places:?}");
                    assert!(matches!(ends.0, Some(Place::Link(_))), "{places:?}");
                } else {
                    assert_eq!(buses.len(), 2, "{places:?}");
                    assert!(matches!(ends.0, Some(Place::Bus(_))), "{places:?}");
                }
                let heard = account.stages.iter().filter(|it| it.stage == Stage::Reap);
                let is_heard = sum(&mut heard.map(|it| it.time)) > Time::ZERO;
                assert_eq!(is_heard, operation.is_heard());
            }
        }
    }
}

#[test]
fn a_remote_write_takes_no_receive() {
    for (operation, is_dropped) in [(Send, true), (WriteWithImmediate, true), (Write, false)] {
        let mut config = uniform(operation);
        config.traffic.reliability = ReliabilityLevel::Unreliable;
        config.traffic.arrivals = Arrivals::Open(Interval::exponential(20e6).expect("a mean"));
        config.hosts.prepost = 1;
        let result = run(&config);
        assert_eq!(result.messages.dropped > 0, is_dropped, "{operation:?}");
        let causes: Vec<&str> = result.drops.iter().map(|drops| drops.cause).collect();
        assert!(causes.iter().all(|it| *it == "no_descriptor"), "{causes:?}");
    }
}

#[test]
fn whoever_reads_keeps_its_buffer_until_the_bytes_are_there() {
    for faults in [
        vec![],
        vec![Fault::Loss {
            links: Links::All,
            rate: 0.02,
        }],
    ] {
        let mut config = uniform(Read);
        config.hosts.send_buffers = 1;
        config.faults = faults;
        config.run.until = Time::from_milliseconds(200);
        config.traffic.stop = config.run.until;
        config.traffic.arrivals = Arrivals::Window(3);
        let result = run(&config);
        assert_eq!(result.messages.in_flight, 0);
        // One at a time, each of which lasts no less than there and back.
        let least = floor_latency(&config, HostId(0), HostId(1), 1_000, Read);
        let most = 9 * (config.run.until.picoseconds() / least.picoseconds() + 1);
        let posted = result.messages.posted;
        assert!(posted > most / 20 && posted <= most, "{posted} of {most}");
    }
}

#[test]
fn expected_loads_are_those_of_the_run() {
    for operation in MessageOperation::ALL {
        let mut config = uniform(operation);
        config.run.until = Time::from_milliseconds(400);
        config.traffic.stop = config.run.until;
        let bounds = load_bounds(&config).expect("a pattern").expect("open");
        let result = run(&config);
        let rate = result.messages.posted as f64 / (9.0 * 0.4) * 60e-6;
        for class in &bounds.classes {
            let measured = result.links.iter().find(|it| it.class == class.class);
            let measured = measured.expect("links of it").usage.utilisation_mean;
            let expected = class.load.mean * rate;
            let is_near = (measured - expected).abs() < 0.02 * expected;
            assert!(
                is_near,
                "{operation:?}, {:?}: {measured}, {expected}",
                class.class
            );
        }
        // The run counts data, and not what crosses a bus beside it.
        let (measured, expected) = (result.buses.utilisation_mean, bounds.bus.mean * rate);
        let is_near = (0.75 * expected..expected).contains(&measured);
        assert!(is_near, "{operation:?}, buses: {measured}, {expected}");
    }
}

#[test]
fn what_via_cannot_do_is_refused() {
    let refused = |config: &ClusterConfig| {
        viaduct_cluster::run(config, &mut |_| ControlFlow::Continue(())).expect_err("refused")
    };
    let mut config = uniform(Read);
    config.traffic.reliability = ReliabilityLevel::Unreliable;
    assert!(matches!(refused(&config), RunError::UnreliableReads));
    for operation in [Read, Write] {
        let mut config = uniform(operation);
        config.traffic.arrivals = Arrivals::PingPong;
        assert!(matches!(refused(&config), RunError::NoAnswers));
    }
}
