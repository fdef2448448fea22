//! Links that pause, against closed forms and cases worked out by hand.

use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_network::fluid::ResourceId;
use viaduct_network::{
    Arrival, Buffers, Frame, LinkConfig, Network, QueueCounts, Rate, Sharing, SwitchModel,
    Switching, WhenFull,
};
use viaduct_topology::{ChainHosts, HostId, LinkId, Ports, Topology};

use crate::common::{BYTE, NO_BUSES, PROPAGATION, SWITCH, carry, carry_or_lose, transfer};

/// Bytes of a frame.
const FRAME: u64 = 1_000;

/// A link between switches takes 1 ns for a byte; those of hosts are so many times as fast.
fn network(topology: &Arc<Topology>, host_speed: f64, buffers: Buffers) -> Network {
    let links = LinkConfig {
        sharing: Sharing::Packets,
        arrival: Arrival::default(),
        switching: Switching::StoreAndForward,
        rate: Rate::from_bits_per_second(8e9),
        host_rate: Rate::from_bits_per_second(8e9 * host_speed),
        propagation: Time::from_picoseconds(PROPAGATION),
        host_propagation: Time::from_picoseconds(PROPAGATION),
        frame: Frame {
            payload_bytes: FRAME as u32,
            header_bytes: 0,
        },
        credits: viaduct_network::CreditLinks::default(),
        buffers,
    };
    let switch = SwitchModel {
        delay: Time::from_picoseconds(SWITCH),
        cut_through_bytes: 0,
    };
    Network::new(topology, &links, switch, NO_BUSES, false)
}

fn pauses(room: u64, headroom: Option<u64>) -> Buffers {
    Buffers {
        bytes_max: Some(room),
        full: WhenFull::Pause {
            headroom_bytes: headroom,
        },
        ..Buffers::default()
    }
}

fn counts(network: &Network, link: LinkId) -> QueueCounts {
    network.queue_counts(ResourceId(link.0), Time::MAX)
}

fn first_link(topology: &Topology, ends: (u32, u32)) -> LinkId {
    let mut way: Vec<LinkId> = Vec::new();
    topology.route(HostId(ends.0), HostId(ends.1), &mut way);
    way[0]
}

#[test]
fn the_headroom_is_what_comes_until_the_pause_is_there_and_a_tenth_less_is_too_little() {
    // A host's link is a thousand times as fast as the one behind it. Until the host hears come
    // 65,064 bytes: 1 ns for a frame to be stored, cables of 7 ns twice, a switch of 50 ns, and
    // 64 bytes; and two frames.
    let needed = 67_064;
    let topology = Arc::new(Topology::chain(2, ChainHosts::EverySwitch(1), Ports(64)).unwrap());
    let lost = |headroom: Option<u64>, xoff: u64| {
        let room = xoff + headroom.unwrap_or(needed);
        let mut network = network(&topology, 1_000.0, pauses(room, headroom));
        let transfers = [(0, transfer((0, 1), 400 * FRAME as u32, 0))];
        let (there, losses) = carry_or_lose(&mut network, &transfers);
        assert_ne!(there[0].0, Time::MAX);
        let up = counts(&network, first_link(&topology, (0, 1)));
        assert!(up.pauses > 0 && up.paused > Time::ZERO);
        let lost: u64 = (0..topology.link_count())
            .map(|link| counts(&network, LinkId(link)).lost)
            .sum();
        assert_eq!(losses[0].is_some(), lost > 0);
        lost
    };
    for xoff in (2_000..4_000).step_by(250) {
        assert_eq!(lost(None, xoff), 0);
        assert_eq!(lost(Some(needed), xoff), 0);
        assert!(lost(Some(needed * 9 / 10), xoff) > 0);
    }
}

#[test]
fn a_link_that_an_incast_has_paused_holds_up_what_goes_elsewhere() {
    // Hosts 0 and 1 are at the first switch; 0 sends to 2 at the second, as do hosts there; 1 sends
    // to a host to which nobody else does. The link to host 2 is shared by the links that bring
    // frames for it; what goes over the link between the switches takes turns there. So the
    // victim moves at the rate of one of them, and without pauses at half the link's rate.
    let attached = 6;
    let hosts = ChainHosts::EverySwitch(attached);
    let topology = Arc::new(Topology::chain(2, hosts, Ports(64)).unwrap());
    let target = attached;
    let victim = (1, attached + 1);
    let share = |senders: u32, buffers: Buffers| {
        let mut network = network(&topology, 1.0, buffers);
        let bytes = 4_000 * FRAME as u32;
        let mut transfers = vec![(0, transfer(victim, bytes / 4, 0))];
        transfers.push((0, transfer((0, target), bytes, 1)));
        for sender in 1..senders {
            let from = attached + 1 + sender;
            transfers.push((0, transfer((from, target), bytes, 1 + sender as usize)));
        }
        let (there, losses) = carry_or_lose(&mut network, &transfers);
        assert!(losses.iter().all(Option::is_none));
        f64::from(bytes / 4) * BYTE as f64 / there[0].0.picoseconds() as f64
    };
    for senders in [2, 3, 4] {
        let paused = share(senders, pauses(30_000, None));
        let expected = 1.0 / f64::from(senders);
        assert!(
            (paused / expected - 1.0).abs() < 0.05,
            "{senders}: {paused}"
        );
        let unlimited = share(senders, Buffers::default());
        assert!(
            (unlimited / 0.5 - 1.0).abs() < 0.02,
            "{senders}: {unlimited}"
        );
    }
}

#[test]
fn a_ring_whose_links_all_pause_stands_still_and_its_circle_is_known() {
    let topology = Arc::new(Topology::torus(&[5], 1, Ports(64)).unwrap());
    let transfers: Vec<_> = (0..5)
        .map(|host| (0, transfer((host, (host + 2) % 5), 400_000, host as usize)))
        .collect();
    let mut stuck = network(&topology, 1.0, pauses(8_000, None));
    let there = carry(&mut stuck, &transfers);
    assert!(there.iter().all(|it| it.0 == Time::MAX));
    let stuck_channels = &stuck.deadlock().unwrap().channels;
    let circle: Vec<_> = stuck_channels.iter().map(|it| it.link).collect();
    assert_eq!(circle.len(), 5);
    for (place, link) in circle.iter().enumerate() {
        let next = circle[(place + 1) % 5];
        assert_eq!(topology.link_ends(*link).1, topology.link_ends(next).0);
        assert!(counts(&stuck, *link).paused > Time::ZERO);
    }
    // With room for all of it no link pauses, and nothing stands still.
    let mut roomy = network(&topology, 1.0, pauses(500_000, None));
    let there = carry(&mut roomy, &transfers);
    assert!(there.iter().all(|it| it.0 != Time::MAX));
    assert!(roomy.deadlock().is_none());
}
