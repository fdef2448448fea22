//! Senders that keep windows (NSCC), over one switch and a tree, with frames that are trimmed.

use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_network::fluid::ResourceId;
use viaduct_network::{
    Arrival, Buffers, CongestionControl, CreditLinks, Frame, LinkConfig, Marking, Network, Rate,
    Sharing, SwitchModel, Switching, WhenFull,
};
use viaduct_topology::{ClosShape, HostId, LinkId, Ports, Topology};

use crate::common::{NO_BUSES, carry_or_lose, transfer};

const FRAME: Frame = Frame {
    payload_bytes: 4_086,
    header_bytes: 64,
};
/// Picoseconds of a full frame on a link of 100 Gbit/s.
const SERVICE: u64 = 332_000;
const PAYLOAD: u64 = 2_000_000;

/// Links of 100 Gbit/s and 1 us, and queues as htsim has them for an unloaded round trip of so many
/// bytes: they hold these, and mark between a fifth and four fifths.
fn network(topology: &Arc<Topology>, bytes: u64, control: CongestionControl) -> Network {
    let rate = Rate::from_bits_per_second(100e9);
    let links = LinkConfig {
        sharing: Sharing::Packets,
        arrival: Arrival::default(),
        switching: Switching::StoreAndForward,
        rate,
        host_rate: rate,
        propagation: Time::from_nanoseconds(1_000),
        host_propagation: Time::from_nanoseconds(1_000),
        frame: FRAME,
        buffers: Buffers {
            bytes_max: Some(bytes),
            full: WhenFull::Trim,
            marking: Some(Marking {
                low_bytes: bytes / 5,
                high_bytes: bytes * 4 / 5,
                probability: 1.0,
                control,
            }),
            ..Buffers::default()
        },
        credits: CreditLinks::default(),
    };
    let switch = SwitchModel {
        delay: Time::ZERO,
        cut_through_bytes: 0,
    };
    let mut network = Network::new(topology, &links, switch, NO_BUSES, false);
    network.set_seed(1);
    network
}

/// When messages of 2 MB are there that begin at once, and how many frames were trimmed.
fn run(
    topology: &Arc<Topology>,
    bytes: u64,
    control: CongestionControl,
    ends: &[(u32, u32)],
) -> (Vec<u64>, u64) {
    let mut network = network(topology, bytes, control);
    let wire = FRAME.wire_bytes(PAYLOAD) as u32;
    let sends = ends.iter().enumerate();
    let sends: Vec<_> = sends
        .map(|(tag, ends)| (0, transfer(*ends, wire, tag)))
        .collect();
    let (there, losses) = carry_or_lose(&mut network, &sends);
    assert!(losses.iter().all(Option::is_none));
    let links = 0..topology.link_count();
    let counts = links.map(|link| network.queue_counts(ResourceId(link), Time::ZERO).trimmed);
    (
        there.iter().map(|it| it.0.picoseconds()).collect(),
        counts.sum(),
    )
}

#[test]
fn a_flow_alone_is_as_fast_as_without_a_window() {
    let topology = Arc::new(Topology::single_switch(2, Ports(64)).unwrap());
    let of = |control| run(&topology, 60_000, control, &[(0, 1)]).0[0];
    assert_eq!(of(CongestionControl::Nscc), of(CongestionControl::None));
}

#[test]
fn an_incast_takes_little_more_than_its_frames() {
    // A round trip is four cables, two frames and 64 bytes: 58 KB at this rate.
    let bytes = 58_000;
    for senders in [2_u32, 8, 32] {
        let topology = Arc::new(Topology::single_switch(senders + 1, Ports(64)).unwrap());
        let ends: Vec<_> = (1..=senders).map(|host| (host, 0)).collect();
        let (there, trimmed) = run(&topology, bytes, CongestionControl::Nscc, &ends);
        let (_, without) = run(&topology, bytes, CongestionControl::None, &ends);
        let frames = FRAME.count(PAYLOAD) * u64::from(senders);
        let bound = (frames + 1) * SERVICE + 2_000_000;
        let last = *there.iter().max().unwrap();
        assert!(last as f64 <= 1.05 * bound as f64);
        assert!(trimmed * 4 < without);
    }
}

/// How many of some flows cross the link that most of them cross.
fn most_on_a_link(topology: &Topology, ends: &[(u32, u32)]) -> u64 {
    let mut flows = vec![0; topology.link_count() as usize];
    let mut way: Vec<LinkId> = Vec::new();
    for &(source, target) in ends {
        way.clear();
        topology.route(HostId(source), HostId(target), &mut way);
        way.iter().for_each(|link| flows[link.0 as usize] += 1);
    }
    flows.into_iter().max().unwrap()
}

#[test]
fn in_a_permutation_over_a_tree_flows_wait_for_those_on_their_links_alone() {
    let shape = ClosShape {
        radix: 8,
        tiers: 3,
        oversubscription: 1,
        pods: None,
    };
    let topology = Arc::new(Topology::clos(shape).unwrap());
    let hosts = topology.host_count();
    // Twelve cables, six frames and 64 bytes.
    let bytes = 175_000;
    let alone = run(&topology, bytes, CongestionControl::Nscc, &[(0, hosts / 2)]).0[0];
    // Host by host to the other half of the tree, and in another order, where some share links.
    for factor in [1, 5] {
        let ends: Vec<_> = (0..hosts)
            .map(|host| (host, (host * factor + hosts / 2) % hosts))
            .filter(|(source, target)| source != target)
            .collect();
        let most = most_on_a_link(&topology, &ends);
        let (there, trimmed) = run(&topology, bytes, CongestionControl::Nscc, &ends);
        let last = *there.iter().max().unwrap();
        let bound = alone + (most - 1) * FRAME.count(PAYLOAD) * SERVICE;
        // The busiest link is never idle for long, and nobody waits much longer than for it.
        assert!(last >= most * FRAME.count(PAYLOAD) * SERVICE - SERVICE);
        assert!(
            last as f64 <= 1.05 * bound as f64,
            "{factor}: {last} of {bound}"
        );
        assert!(trimmed > 0);
    }
}
