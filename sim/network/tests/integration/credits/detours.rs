//! Packets that each choose a way at links with credits: what detours carry of traffic that wants
//! one link, and what they cost traffic that is even.

use std::collections::BTreeMap;
use std::sync::Arc;

use viaduct_engine::{Stream, Time};
use viaduct_network::{FlowControl, Transfer};
use viaduct_topology::{Detours, DragonflyShape, EqualPaths, Ports, Topology, Waiting};

use super::{CYCLE, FLIT, Flits, Measured, ROOMY, Rules, any_other, network_of};
use crate::common::{carry, transfer};

/// BookSim2's: p = 2, a = 4, h = 2, g = 9.
fn dragonfly(detours: Detours) -> Topology {
    let shape = DragonflyShape {
        hosts_per_switch: 2,
        switches_per_group: 4,
        global_links: 2,
        groups: 9,
    };
    routed(Topology::dragonfly(shape).unwrap(), detours)
}

/// Detours of each packet, where not of each flow.
fn routed(topology: Topology, detours: Detours) -> Topology {
    let equal_paths = match detours {
        Detours::Always => EqualPaths::Spray,
        _ => topology.equal_paths(),
    };
    topology.with_detours(detours).with_equal_paths(equal_paths)
}

/// As many classes as let no channels wait in a ring.
fn rules(topology: &Topology) -> Rules {
    let mut classes = 1..=8;
    let classes = classes.find(|classes| topology.waiting(*classes) == Waiting::Never);
    Rules {
        channels: classes.unwrap(),
        classes: classes.unwrap(),
        buffer: 64,
        speedup: 2,
        propagation: 8,
        ..ROOMY
    }
}

fn measure(topology: Topology, rate: f64, target: impl Fn(u32, &mut Stream) -> u32) -> Measured {
    let rules = rules(&topology);
    let mut flits = Flits::new(topology, rules);
    let measured = flits.run(rate, (3_000, 8_000), target);
    assert!(flits.network.deadlock().is_none());
    measured
}

fn next_group(host: u32, random: &mut Stream) -> u32 {
    (host / 8 + 1) % 9 * 8 + random.below(8) as u32
}

#[test]
fn traffic_that_all_wants_one_link_goes_around_it() {
    let carried = |detours, rate| measure(dragonfly(detours), rate, next_group).accepted;
    // By the shortest ways eight hosts of a group share one link.
    let shortest = carried(Detours::Never, 0.5);
    assert!((shortest / 0.125 - 1.0).abs() < 0.01, "{shortest}");
    // Over two links between groups in place of one each finds half the rate at most.
    let most = carried(Detours::Always, 0.7);
    assert!(most <= 0.5 && most > 0.4, "{most}");
    // Before that all comes through.
    for (detours, rate) in [
        (Detours::Always, 0.35),
        (Detours::ByLocalQueues, 0.25),
        (Detours::ByAllQueues, 0.15),
    ] {
        let all = carried(detours, rate);
        assert!((all / rate - 1.0).abs() < 0.01, "{detours:?}: {all}");
    }
}

#[test]
fn traffic_that_is_even_takes_few_detours() {
    let mean = |detours| measure(dragonfly(detours), 0.3, any_other(72)).latency;
    let shortest = mean(Detours::Never);
    for detours in [Detours::ByLocalQueues, Detours::ByAllQueues] {
        let latency = mean(detours);
        assert!(
            latency < 1.03 * shortest,
            "{detours:?}: {latency}, {shortest}"
        );
    }
    assert!(mean(Detours::Always) > 1.4 * shortest);
}

#[test]
fn half_way_round_a_ring_more_comes_through_by_both_ways() {
    let torus = |detours| routed(Topology::torus(&[8, 8], 1, Ports(64)).unwrap(), detours);
    let tornado = |host: u32, _: &mut Stream| host / 8 * 8 + (host + 3) % 8;
    let carried = |detours| measure(torus(detours), 0.45, tornado).accepted;
    // All go the same way round by the shortest ways, on three links each.
    let (shortest, by_queues) = (carried(Detours::Never), carried(Detours::ByLocalQueues));
    assert!(
        shortest <= 1.0 / 3.0 && by_queues > 1.2 * shortest,
        "{shortest}, {by_queues}"
    );
}

#[test]
fn packets_that_overtake_make_whole_messages_in_order() {
    let by_queue = |topology: Topology| topology.with_equal_paths(EqualPaths::LeastQueued);
    let tree = by_queue(Topology::leaf_spine(80, 8, 4).unwrap());
    for (flow_control, topology) in [
        (FlowControl::Wormhole, dragonfly(Detours::Always)),
        (FlowControl::Wormhole, dragonfly(Detours::ByLocalQueues)),
        (FlowControl::Wormhole, by_queue(dragonfly(Detours::Always))),
        (FlowControl::Wormhole, tree.clone()),
        (FlowControl::VirtualCutThrough, dragonfly(Detours::Always)),
        (
            FlowControl::VirtualCutThrough,
            dragonfly(Detours::ByAllQueues),
        ),
        (
            FlowControl::VirtualCutThrough,
            by_queue(dragonfly(Detours::ByAllQueues)),
        ),
        (FlowControl::VirtualCutThrough, tree),
    ] {
        let (detours, equal_paths) = (topology.detours(), topology.equal_paths());
        let topology = Arc::new(topology);
        let rules = Rules {
            flow_control,
            packet: 4,
            buffer: 8,
            ..rules(&topology)
        };
        // Each host sends messages of some packets to hosts of the next group, turn by turn.
        let transfers: Vec<(u64, Transfer)> = (0..72 * 24)
            .map(|number: u32| {
                let (host, round) = (number % 72, number / 72);
                let target = (host / 8 + 1) % 9 * 8 + (host + round % 3) % 8;
                let bytes = FLIT * (1 + number * 7 % 30);
                let at = u64::from(round) * 40 * CYCLE;
                (at, transfer((host, target), bytes, number as usize))
            })
            .collect();
        let mut network = network_of(&topology, rules);
        network.set_seed(3);
        let there = carry(&mut network, &transfers);
        let mut last = BTreeMap::new();
        for ((tail, head), (_, transfer)) in there.iter().zip(&transfers) {
            assert!(*tail < Time::MAX && *head <= *tail, "{head:?}, {tail:?}");
            let before = last.insert(transfer.ends, (*head, *tail));
            let (head_before, tail_before) = before.unwrap_or_default();
            assert!(
                *tail >= tail_before && *head >= head_before,
                "{flow_control:?}, {detours:?}, {equal_paths:?}"
            );
        }
        assert!(network.deadlock().is_none());
    }
}
