//! Receive descriptors: how many there are, what they cost, and in which order they complete.

use std::sync::Arc;

use crate::common::{costly_host, ideal_host, nic, run, scenario};
use viaduct_cluster::config::{ClusterConfig, TrafficConfig, UNLIMITED};
use viaduct_cluster::result::RunResult;
use viaduct_cluster::workload::{ListedMessage, MessageList, MessageOperation, Pattern};
use viaduct_engine::Time;
use viaduct_hardware::HostModel;
use viaduct_topology::{Ports, Topology};

/// Messages of these sizes from host 0 to host 1, all posted at one moment.
fn at_once(host: HostModel, sizes: &[u32]) -> ClusterConfig {
    let topology = Topology::single_switch(2, Ports(2)).expect("a switch");
    let mut config = scenario(topology, host, Pattern::Pairs(vec![(0, 1)]));
    let listed = |&bytes: &u32| ListedMessage {
        time: Time::from_microseconds(1),
        source: 0,
        target: 1,
        bytes,
        operation: MessageOperation::Send,
    };
    let messages: Vec<ListedMessage> = sizes.iter().map(listed).collect();
    let list = MessageList::new(&messages, 2, 1).expect("a list");
    config.run.until = Time::from_microseconds(100_000);
    config.traffic = TrafficConfig::listed(Arc::new(list), Time::ZERO, config.run.until);
    config
}

fn dropped(prepost: u32, is_chosen: bool) -> RunResult {
    let mut config = at_once(ideal_host(), &[1_000; 20]);
    config.hosts.prepost = prepost;
    config.hosts.is_prepost_chosen = is_chosen;
    run(&config)
}

#[test]
fn what_exceeds_the_receives_is_dropped_and_no_more() {
    for (prepost, lost) in [
        (1, 19),
        (8, 12),
        (9, 11),
        (16, 4),
        (20, 0),
        (1 << 20, 0),
        (UNLIMITED, 0),
    ] {
        assert_eq!(
            dropped(prepost, true).messages.dropped,
            lost,
            "{prepost} receives"
        );
    }
    // The same where hosts cost something, and receives come back in between.
    for (prepost, is_lossy) in [(8, true), (20, false), (UNLIMITED, false)] {
        let mut config = at_once(costly_host(), &[1; 20]);
        config.host.common_mut().processor.reap = Time::from_microseconds(100);
        config.hosts.prepost = prepost;
        let messages = run(&config).messages;
        assert_eq!(
            messages.dropped > 0,
            is_lossy,
            "{prepost} receives: {messages:?}"
        );
    }
}

#[test]
fn receives_that_are_never_needed_change_nothing() {
    let (some, many) = (dropped(20, true), dropped(1 << 20, true));
    assert_eq!((some.digest, some.events), (many.digest, many.events));
}

#[test]
fn losses_that_nobody_asked_for_come_first_among_the_warnings() {
    let result = dropped(8, false);
    assert!(result.has_unasked_drops);
    let text = &result.warnings[0].text;
    assert!(text.starts_with("12 of 20 messages were lost"), "{text}");
    let result = dropped(8, true);
    assert!(!result.has_unasked_drops);
    assert!(!result.warnings[0].text.contains("nothing in the study"));
    assert!(!dropped(20, false).has_unasked_drops);
}

#[test]
fn messages_of_one_vi_arrive_in_the_order_of_their_posts() {
    let mut several = costly_host();
    nic(&mut several).moving_per_vi = 4;
    for host in [ideal_host(), several] {
        let mut config = at_once(host, &[100_000, 500, 50_000, 1]);
        config.hosts.prepost = 8;
        let mut rows = run(&config).message_rows;
        rows.sort_by_key(|row| row.message);
        let arrivals: Vec<Time> = rows
            .iter()
            .map(|row| row.posted + row.latency.expect("delivered"))
            .collect();
        assert_eq!(arrivals.len(), 4);
        assert!(arrivals.is_sorted(), "{arrivals:?}");
    }
}
