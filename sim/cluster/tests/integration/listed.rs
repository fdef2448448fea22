//! Traffic given message by message.

use std::sync::Arc;

use viaduct_cluster::RunError;
use viaduct_cluster::bounds::load_bounds;
use viaduct_cluster::config::{ClusterConfig, TrafficConfig};
use viaduct_cluster::workload::{
    ListedMessage, MessageList, MessageOperation, Pattern, SizeDistribution,
};
use viaduct_engine::Time;
use viaduct_hardware::HostModel;
use viaduct_topology::{Ports, Topology};

use crate::common::{costly_host, ideal_host, run, scenario};

fn torus() -> Topology {
    Topology::torus(&[4, 4], 2, Ports(8)).unwrap()
}

fn list(messages: &[ListedMessage], hosts: u32, processes: u32) -> Arc<MessageList> {
    Arc::new(MessageList::new(messages, hosts, processes).unwrap())
}

fn drawn(host: HostModel) -> ClusterConfig {
    let mut config = scenario(torus(), host, Pattern::Uniform);
    config.traffic.size = SizeDistribution::uniform(0, 9_000).unwrap();
    config.traffic.start = Time::from_microseconds(300);
    config.traffic.stop = Time::from_milliseconds(20);
    config.run.warmup = Time::from_milliseconds(1);
    config.run.message_rows_max = 100_000;
    config
}

#[test]
fn a_list_of_what_a_rate_posted_gives_the_same_run() {
    for host in [ideal_host(), costly_host()] {
        let mut config = drawn(host);
        let by_rate = run(&config);
        // The table of messages counts from the warm-up on: all are in it without one.
        config.run.warmup = Time::ZERO;
        let rows = run(&config).message_rows;
        assert!(rows.len() > 500, "{}", rows.len());
        let start = config.traffic.start;
        // Out of order: each process's own order is by time.
        let messages: Vec<ListedMessage> = rows
            .iter()
            .rev()
            .map(|row| ListedMessage {
                time: row.posted - start,
                source: row.source,
                target: row.target,
                bytes: row.bytes,
                operation: MessageOperation::Send,
            })
            .collect();
        config.run.warmup = Time::from_milliseconds(1);
        let traffic = &config.traffic;
        config.traffic = TrafficConfig::listed(list(&messages, 32, 1), traffic.start, traffic.stop);
        let by_list = run(&config);
        assert_eq!(by_list.digest, by_rate.digest);
        assert_eq!(by_list.message_rows, by_rate.message_rows);
        assert_eq!(by_list.messages, by_rate.messages);
    }
}

#[test]
fn messages_of_one_time_are_posted_in_the_order_given_until_the_stop() {
    let message = |microseconds, target, bytes| ListedMessage {
        time: Time::from_microseconds(microseconds),
        source: 0,
        target,
        bytes,
        operation: MessageOperation::Send,
    };
    let given = [
        message(30, 1, 6),
        message(10, 9, 3),
        message(10, 4, 1),
        message(10, 9, 2),
        message(0, 2, 8),
        message(20, 5, 7),
    ];
    let mut config = scenario(torus(), costly_host(), Pattern::Uniform);
    // 15 us after the start nothing is posted any more.
    let (start, stop) = (Time::from_microseconds(5), Time::from_microseconds(25));
    config.traffic = TrafficConfig::listed(list(&given, 32, 1), start, stop);
    let mut rows = run(&config).message_rows;
    rows.sort_by_key(|row| row.message);
    let posted: Vec<_> = rows
        .iter()
        .map(|row| (row.posted.picoseconds(), row.target, row.bytes))
        .collect();
    let at = |microseconds: u64| microseconds * 1_000_000;
    let expected = [
        (at(5), 2, 8),
        (at(15), 9, 3),
        (at(15), 4, 1),
        (at(15), 9, 2),
    ];
    assert_eq!(posted, expected);
}

#[test]
fn processes_of_one_host_send_each_their_own() {
    let message = |source, target| ListedMessage {
        time: Time::ZERO,
        source,
        target,
        bytes: 10,
        operation: MessageOperation::Send,
    };
    let mut config = scenario(torus(), ideal_host(), Pattern::Uniform);
    config.hosts.processes = 2;
    let given = [message(0, 3), message(1, 62), message(63, 0)];
    let traffic = TrafficConfig::listed(list(&given, 32, 2), Time::ZERO, config.traffic.stop);
    config.traffic = traffic;
    let rows = run(&config).message_rows;
    let ends: Vec<_> = rows.iter().map(|row| (row.source, row.target)).collect();
    assert_eq!(ends.len(), 3);
    for pair in [(0, 1), (0, 31), (31, 0)] {
        assert!(ends.contains(&pair), "{ends:?}");
    }
}

#[test]
fn a_list_for_another_cluster_is_refused() {
    let message = ListedMessage {
        time: Time::ZERO,
        source: 0,
        target: 1,
        bytes: 10,
        operation: MessageOperation::Send,
    };
    let mut config = scenario(torus(), ideal_host(), Pattern::Uniform);
    let stop = config.traffic.stop;
    let refused = |config: &ClusterConfig| {
        viaduct_cluster::run(config, &mut |_| std::ops::ControlFlow::Continue(())).unwrap_err()
    };
    config.traffic = TrafficConfig::listed(list(&[message], 31, 1), Time::ZERO, stop);
    assert!(matches!(
        refused(&config),
        RunError::ListedForOthers {
            list: (31, 1),
            cluster: (32, 1)
        }
    ));
    config.traffic = TrafficConfig::listed(list(&[message], 32, 1), Time::ZERO, stop);
    config.traffic.size = SizeDistribution::constant(9);
    assert!(matches!(
        refused(&config),
        RunError::ListedSizes {
            list: (10, 10),
            sizes: (9, 9)
        }
    ));
}

#[test]
fn the_bounds_of_a_list_are_what_its_run_reports() {
    // Ten messages in 9 ms, or all at once, in a run that might take ten times as long.
    for gap_us in [1000, 0] {
        let messages: Vec<ListedMessage> = (0..10)
            .map(|index| ListedMessage {
                time: Time::from_microseconds(gap_us * index),
                source: 1 + index as u32,
                target: 0,
                bytes: 60_000,
                operation: MessageOperation::Send,
            })
            .collect();
        let mut config = scenario(torus(), ideal_host(), Pattern::Uniform);
        config.run.until = Time::from_milliseconds(100);
        config.run.warmup = Time::ZERO;
        let given = list(&messages, 32, 1);
        config.traffic = TrafficConfig::listed(given, Time::ZERO, Time::MAX);
        let bounds = load_bounds(&config).unwrap().unwrap();
        let result = run(&config);
        for class in &bounds.classes {
            let mut links = result.links.iter();
            let links = links.find(|row| row.class == class.class).unwrap();
            for (measured, expected) in [
                (links.usage.utilisation_max, class.load.max),
                (links.usage.utilisation_mean, class.load.mean),
            ] {
                let difference = measured / expected - 1.0;
                assert!(
                    difference.abs() < 0.01,
                    "{gap_us}: {class:?}, not {links:?}"
                );
            }
        }
    }
}
