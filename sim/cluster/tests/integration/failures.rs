//! What goes wrong in a study's own traffic: what is lost, what breaks, and what it costs.

use std::sync::Arc;

use crate::common::{costly_host, ideal_host, nanoseconds, nic, run, scenario, set_propagation};
use viaduct_cluster::background::Background;
use viaduct_cluster::config::{Arrivals, ClusterConfig, TrafficConfig, UNLIMITED};
use viaduct_cluster::faults::{Fault, Links, Slowness};
use viaduct_cluster::result::RunResult;
use viaduct_cluster::workload::{
    Interval, ListedMessage, MessageList, MessageOperation, Pattern, SizeDistribution,
};
use viaduct_core::ReliabilityLevel;
use viaduct_engine::Time;
use viaduct_hardware::HostModel;
use viaduct_topology::{LinkId, Ports, Topology};

const LEVELS: [ReliabilityLevel; 3] = [
    ReliabilityLevel::Unreliable,
    ReliabilityLevel::ReliableDelivery,
    ReliabilityLevel::ReliableReception,
];

const fn us(microseconds: u64) -> Time {
    Time::from_microseconds(microseconds)
}

/// Host 0 sends messages of 1,000 bytes to host 1 at these times, over one switch: a message takes
/// some tens of microseconds.
fn listed(host: HostModel, times: &[Time]) -> ClusterConfig {
    let topology = Topology::single_switch(2, Ports(2)).expect("a switch");
    let mut config = scenario(topology, host, Pattern::Pairs(vec![(0, 1)]));
    let message = |&time: &Time| ListedMessage {
        time,
        source: 0,
        target: 1,
        bytes: 1_000,
        operation: MessageOperation::Send,
    };
    let messages: Vec<ListedMessage> = times.iter().map(message).collect();
    let list = MessageList::new(&messages, 2, 1).expect("a list");
    config.run.until = us(1_000_000);
    config.traffic = TrafficConfig::listed(Arc::new(list), Time::ZERO, config.run.until);
    config
}

fn every(period: Time, count: u64) -> Vec<Time> {
    let at = |number| Time::from_picoseconds(period.picoseconds() * number);
    (0..count).map(at).collect()
}

fn dropped(result: &RunResult, cause: &str) -> u64 {
    let of_cause = result.drops.iter().filter(|drops| drops.cause == cause);
    of_cause.map(|drops| drops.count).sum()
}

#[test]
fn as_many_messages_are_lost_as_the_rate_of_each_link_says() {
    for host in [ideal_host(), costly_host()] {
        let mut config = listed(host, &every(us(100), 5_000));
        let rate = 0.1;
        config.faults = vec![Fault::Loss {
            links: Links::All,
            rate,
        }];
        let result = run(&config);
        // Two links, and one frame: a message gets through both.
        let expected = 1.0 - (1.0 - rate) * (1.0 - rate);
        let share = result.messages.dropped as f64 / 5_000.0;
        let deviation = (expected * (1.0 - expected) / 5_000.0_f64).sqrt();
        assert!((share - expected).abs() < 4.0 * deviation, "{share}");
        assert_eq!(dropped(&result, "lost"), result.messages.dropped);
        // Another seed loses others.
        config.run.seed += 1;
        assert_ne!(run(&config).digest, result.digest);
    }
}

#[test]
fn what_moves_while_a_link_is_down_is_lost_and_no_more() {
    for host in [ideal_host(), costly_host()] {
        for level in LEVELS {
            let mut config = listed(host.clone(), &every(us(100), 100));
            config.traffic.reliability = level;
            config.faults = vec![Fault::LinkDown {
                links: Links::One(LinkId(0)),
                from: us(1_050),
                until: Some(us(1_450)),
            }];
            let result = run(&config);
            // Those posted at 1.1, 1.2, 1.3 and 1.4 ms. On a reliable connection what follows is
            // not taken either, until the sender has waited for 1 ms and the connection is new.
            let behind = result.messages.dropped - 4;
            assert_eq!(dropped(&result, "lost"), 4, "{level:?}: {:?}", result.drops);
            if level.is_reliable() {
                assert!((5..=8).contains(&behind), "{level:?}: {behind}");
                assert_eq!(dropped(&result, "no_connection"), behind);
            } else {
                assert_eq!(behind, 0);
            }
        }
    }
}

#[test]
fn a_link_that_stays_down_breaks_connections_and_those_that_come_back_are_used() {
    let mut config = listed(costly_host(), &every(us(1_000), 100));
    config.faults = vec![Fault::LinkDown {
        links: Links::One(LinkId(0)),
        from: us(20_500),
        until: Some(us(50_500)),
    }];
    let result = run(&config);
    // Noticed after 10 ms: before, messages are lost; after, none is sent until the link is back.
    assert_eq!(dropped(&result, "lost"), 10);
    assert_eq!(dropped(&result, "no_connection"), 20);
    assert_eq!(result.messages.delivered, 70);
}

#[test]
fn a_dead_host_neither_sends_nor_receives() {
    for level in LEVELS {
        for (fault, posted) in [
            // The first message of the pair is posted at 0.
            (
                Fault::HostDies {
                    host: 0,
                    at: us(50_500),
                },
                51,
            ),
            (
                Fault::HostDies {
                    host: 1,
                    at: us(50_500),
                },
                100,
            ),
            (
                Fault::NicDies {
                    host: 0,
                    at: us(50_500),
                },
                100,
            ),
            (
                Fault::NicDies {
                    host: 1,
                    at: us(50_500),
                },
                100,
            ),
        ] {
            let mut config = listed(costly_host(), &every(us(1_000), 100));
            config.traffic.reliability = level;
            config.faults = vec![fault];
            let result = run(&config);
            assert_eq!(result.messages.posted, posted, "{level:?} {fault:?}");
            assert_eq!(result.messages.delivered, 51, "{level:?} {fault:?}");
            assert_eq!(result.messages.in_flight, 0, "{level:?} {fault:?}");
        }
    }
}

#[test]
fn damage_is_told_to_the_receiver_and_breaks_a_reliable_connection() {
    for level in LEVELS {
        let mut config = listed(costly_host(), &every(us(1_000), 1_000));
        config.traffic.reliability = level;
        config.faults = vec![Fault::Corruption {
            links: Links::One(LinkId(0)),
            rate: 0.05,
        }];
        let result = run(&config);
        let corrupted = dropped(&result, "corrupted");
        assert!((20..100).contains(&corrupted), "{level:?}: {corrupted}");
        // A millisecond is enough to set each connection up again.
        assert_eq!(result.messages.delivered, 1_000 - corrupted);
        let broke = |text: &str| text.contains("ends of connections broke");
        let has_broken = result.warnings.iter().any(|warning| broke(&warning.text));
        assert_eq!(has_broken, level.is_reliable(), "{:?}", result.warnings);
    }
}

#[test]
fn a_message_without_a_receive_breaks_a_reliable_connection() {
    let mut config = listed(costly_host(), &[Time::ZERO; 20]);
    config.host.common_mut().processor.reap = us(500);
    config.hosts.prepost = 4;
    let unreliable = run(&config);
    assert!(unreliable.messages.dropped > 0);
    assert_eq!(
        dropped(&unreliable, "no_descriptor"),
        unreliable.messages.dropped
    );
    config.traffic.reliability = ReliabilityLevel::ReliableDelivery;
    let reliable = run(&config);
    assert!(dropped(&reliable, "no_descriptor") > 0);
    assert!(dropped(&reliable, "no_connection") > 0);
}

#[test]
fn a_slow_processor_takes_so_many_times_as_long() {
    let mut config = listed(costly_host(), &every(us(1_000), 10));
    let alone = run(&config);
    config.faults = vec![
        Fault::SlowHost {
            host: 0,
            from: Time::ZERO,
            by: Slowness::Factor(3.0),
        },
        Fault::SlowHost {
            host: 1,
            from: Time::ZERO,
            by: Slowness::PerMessage(us(7)),
        },
    ];
    let slow = run(&config);
    let mean = |result: &RunResult| result.latency.as_ref().expect("messages").mean_us.mean;
    // A post takes 1 us; the other host's processor begins 7 us later with the interrupt.
    let added = mean(&slow) - mean(&alone);
    assert!((added - (2.0 + 7.0)).abs() < 1e-6, "{added}");
}

#[test]
fn a_window_of_one_waits_for_what_completes_its_send() {
    let rate_of = |level| {
        let topology = Topology::single_switch(2, Ports(2)).expect("a switch");
        let mut config = scenario(topology, costly_host(), Pattern::Pairs(vec![(0, 1)]));
        config.traffic.arrivals = Arrivals::Window(1);
        config.traffic.reliability = level;
        config.hosts.prepost = UNLIMITED;
        set_propagation(&mut config, us(40));
        run(&config)
    };
    let [unreliable, delivery, reception] = LEVELS.map(rate_of);
    assert_eq!(unreliable.digest, delivery.digest);
    // A send ends when the acknowledgement is back: it leaves when the message is placed, 7.7 us
    // before its receiver has taken it, and crosses two cables of 40 us as 16 bytes at 1 Gbit/s.
    // Then it is written over a bus, and the sender is interrupted.
    let rows = &reception.message_rows;
    let latency = rows[0].latency.expect("delivered").microseconds_f64();
    let period = (rows[1].posted - rows[0].posted).microseconds_f64();
    let expected = latency - 7.7 + 80.0 + 0.128 + 0.2 + 7.0;
    assert!((period - expected).abs() < 1e-6, "{period} {expected}");
}

#[test]
fn others_traffic_takes_its_share_and_is_no_message() {
    let mut config = listed(costly_host(), &every(us(100), 200));
    let alone = run(&config);
    config.background = vec![Background {
        source: 0,
        target: Some(1),
        interval: Interval::constant(40e6).expect("a mean"),
        size: SizeDistribution::constant(3_000),
        from: Time::ZERO,
        until: None,
    }];
    let beside = run(&config);
    assert_eq!(beside.messages, alone.messages);
    let mean = |result: &RunResult| result.latency.as_ref().expect("messages").mean_us.mean;
    assert!(mean(&beside) > mean(&alone) + 1.0);
    // Where hosts cost nothing, and where links store, too.
    let mut config = config.clone();
    config.host = ideal_host().into();
    nic(config.host.common_mut()).receive_match = nanoseconds(0);
    config.links.switching = viaduct_hardware::Switching::StoreAndForward;
    assert_eq!(run(&config).messages, alone.messages);
}
