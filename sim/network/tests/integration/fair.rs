//! Flows that take turns at output queues, against what each is due and the published rule.

use std::sync::Arc;

use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_network::{
    Arrival, Buffers, CreditLinks, Frame, LinkConfig, Network, Queueing, Rate, Sharing,
    SwitchModel, Switching, Transfer,
};
use viaduct_topology::{ChainHosts, Ports, Topology};

use crate::common::{BYTE, NO_BUSES, PROPAGATION, SWITCH, carry, transfer};

/// The level, whether its queues serve what has not come, and which frame goes first.
type Rule = (Sharing, Arrival, Queueing);

/// A link between switches takes 1 ns for a byte; those of hosts are so many times as fast.
fn network(
    topology: &Arc<Topology>,
    (sharing, arrival, queueing): Rule,
    host_speed: f64,
    frame_bytes: u32,
) -> Network {
    let links = LinkConfig {
        sharing,
        arrival,
        switching: Switching::CutThrough,
        rate: Rate::from_bits_per_second(8e9),
        host_rate: Rate::from_bits_per_second(8e9 * host_speed),
        propagation: Time::from_picoseconds(PROPAGATION),
        host_propagation: Time::from_picoseconds(PROPAGATION),
        frame: Frame {
            payload_bytes: frame_bytes,
            header_bytes: 0,
        },
        credits: CreditLinks::default(),
        buffers: Buffers {
            queueing,
            ..Buffers::default()
        },
    };
    let switch = SwitchModel {
        delay: Time::from_picoseconds(SWITCH),
        cut_through_bytes: 0,
    };
    Network::new(topology, &links, switch, NO_BUSES, false)
}

fn chain(switches: u32, hosts: u32) -> Arc<Topology> {
    let hosts = ChainHosts::EverySwitch(hosts);
    Arc::new(Topology::chain(switches, hosts, Ports(64)).unwrap())
}

const FAIR: Rule = (Sharing::Packets, Arrival::Free, Queueing::Fair);
const FIFO: Rule = (Sharing::Packets, Arrival::Free, Queueing::FirstCome);
const PUBLISHED: Rule = (Sharing::Queues, Arrival::Free, Queueing::FirstCome);
const ARRIVED: Rule = (Sharing::Queues, Arrival::Limits, Queueing::FirstCome);

#[test]
fn flows_have_equal_shares_of_a_link_whichever_way_they_come() {
    // Hosts 0, 1 and 2 send as much to host 3. First come first served, the link that brings what
    // comes from 0 and 1 counts as one, and host 2 has half of the last link.
    let (frame, frames) = (1_000, 400);
    let topology = chain(4, 1);
    let transfers: Vec<_> = (0..3)
        .map(|host| (0, transfer((host, 3), frames * frame, host as usize)))
        .collect();
    let in_frames = |rule| {
        let there = carry(&mut network(&topology, rule, 1.0, frame), &transfers);
        there.into_iter().map(move |(tail, _)| {
            tail.picoseconds() as f64 / f64::from(frame) / BYTE as f64 / f64::from(frames)
        })
    };
    for share in in_frames(FAIR) {
        assert!((share - 3.0).abs() < 0.02, "{share}");
    }
    let unfair: Vec<f64> = in_frames(FIFO).collect();
    assert!((unfair[2] - 2.0).abs() < 0.02, "{unfair:?}");
}

#[test]
fn short_frames_and_long_ones_have_as_many_bytes() {
    // What host 0 sends is all there before the first frame of host 1 comes; these are 60 bytes
    // long, and those 100.
    let topology = chain(2, 2);
    let mut transfers = vec![(0, transfer((0, 2), 3_000, 0))];
    for number in 1..=50 {
        transfers.push((BYTE * 50, transfer((1, 3), 60, number)));
    }
    let there = |rule| -> Vec<u64> {
        let there = carry(&mut network(&topology, rule, 1_000.0, 100), &transfers);
        there.iter().map(|(tail, _)| tail.picoseconds()).collect()
    };
    let fair = there(FAIR);
    // Credits are 40, 80 and 20 bytes after one, three and five of them, and so on from the
    // beginning. The one on the link when the first of host 1 comes is in nobody's turn.
    let begun = 50 * BYTE;
    let sent = |others: u64, own: u64| (others * 100 + own * 60) * BYTE;
    let first = fair[1];
    assert!(first < begun + sent(3, 1) + 200_000, "{first}");
    for (place, rounds) in [(1, 1), (3, 2), (5, 3), (6, 4), (8, 5), (10, 6)] {
        let spent = fair[place] - first;
        assert_eq!(spent, sent(rounds - 1, place as u64 - 1), "{place}");
    }
    // The last bytes of both go within three frames: what a flow is ahead of another at most.
    assert!(fair[0].abs_diff(fair[50]) <= 300 * BYTE);
    let fifo = there(FIFO);
    assert!(fifo[1] > fifo[0]);
}

/// Messages of many frames, each a flow, at random times between hosts: for each of some links that
/// they take evenly, so much of what it carries.
fn drawn(
    hosts: u32,
    (links, load): (u32, f64),
    choose: impl Fn(u32, u32) -> bool,
) -> Vec<(u64, Transfer)> {
    let mut stream = Stream::new(StreamKey {
        seed: 3,
        purpose: 98,
        entity: 0,
    });
    let interval = (2.0 * 3_000.0 * BYTE as f64 / f64::from(links) / load) as u64;
    let mut now = 0;
    (0..8_000)
        .map(|tag| {
            now += stream.below(interval);
            let (mut source, mut target) = (0, 0);
            while !choose(source, target) {
                source = stream.below(hosts.into()) as u32;
                target = stream.below(hosts.into()) as u32;
            }
            let bytes = 600 + stream.below(4_800) as u32;
            let mut it = transfer((source, target), bytes, tag);
            it.flow = tag as u32;
            (now, it)
        })
        .collect()
}

/// By how much the mean time of messages is above that of the published rule.
fn above_published(
    topology: &Arc<Topology>,
    host_speed: f64,
    transfers: &[(u64, Transfer)],
    (rule, frame): (Rule, u32),
) -> f64 {
    let mean = |rule, frame| {
        let there = carry(&mut network(topology, rule, host_speed, frame), transfers);
        let spans = transfers.iter().zip(&there);
        let spans = spans.map(|((at, _), (tail, _))| (tail.picoseconds() - at) as f64);
        spans.sum::<f64>() / transfers.len() as f64
    };
    mean(rule, frame) / mean(PUBLISHED, 0) - 1.0
}

#[test]
fn with_small_frames_one_link_is_the_published_rule() {
    let topology = chain(2, 4);
    for load in [0.5, 0.7, 0.8] {
        let transfers = drawn(8, (1, load), |source, target| source < 4 && target >= 4);
        let above = |rule| above_published(&topology, 1_000.0, &transfers, rule);
        let fair = above((FAIR, 20));
        assert!(fair.abs() < 0.02, "{load}: {fair}");
        // The drawn sizes vary little, so first come first served has the shorter mean.
        let fifo = above((FIFO, 20));
        assert!(fifo < -0.1, "{load}: {fifo}");
    }
}

#[test]
fn over_several_busy_links_frames_come_later_since_they_serve_only_what_is_there() {
    let topology = chain(1, 8);
    let transfers = drawn(8, (8, 0.5), |source, target| source != target);
    let above = |rule| above_published(&topology, 1.0, &transfers, rule);
    let fair = above((FAIR, 20));
    assert!(fair > 0.02 && fair < 0.1, "{fair}");
    // Queues that do the same are as late.
    let arrived = above((ARRIVED, 0));
    assert!((arrived - fair).abs() < 0.005, "{arrived}, {fair}");
}

#[test]
fn queues_that_serve_what_has_come_are_small_frames_that_take_turns_over_any_way() {
    let line = chain(4, 4);
    // On the line more than a quarter of all crosses the link in the middle.
    for (topology, links, load) in [(&chain(1, 8), 8, 0.7), (&line, 16, 0.1), (&line, 16, 0.17)] {
        let hosts = topology.host_count();
        let transfers = drawn(hosts, (links, load), |source, target| source != target);
        let above = |rule| above_published(topology, 1.0, &transfers, rule);
        let (fair, arrived) = (above((FAIR, 20)), above((ARRIVED, 0)));
        assert!((arrived - fair).abs() < 0.005, "{load}: {arrived}, {fair}");
    }
}
