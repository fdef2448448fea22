//! Packets that hold their way: schedules computed by hand, and what holds on any network with any
//! faults.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use viaduct_engine::Time;
use viaduct_network::outages::Links;
use viaduct_network::{Packet, PacketNetwork, Wormhole, WormholeConfig};
use viaduct_topology::{HostId, Node, Ports, SwitchId, Topology, TreeShape, parse_edge_list};

const fn us(microseconds: u64) -> Time {
    Time::from_microseconds(microseconds)
}

/// A byte takes 1 ns, a switch 1 us.
const CONFIG: WormholeConfig = WormholeConfig {
    host_bytes_s: 1e9,
    switch_bytes_s: 1e9,
    propagation: Time::ZERO,
    host_propagation: Time::ZERO,
    switch: us(1),
    receive_buffers: 2,
    ways_max: 4,
};

/// Two switches with hosts `n0` to `n2` and `n3` to `n5`, joined over `a` and over `b`.
fn diamond() -> Arc<Topology> {
    let text = "hosts n*\nn0 s0\nn1 s0\nn2 s0\nn3 s1\nn4 s1\nn5 s1\ns0 a\ns0 b\na s1\nb s1\n";
    Arc::new(parse_edge_list(text).unwrap())
}

fn of(topology: &Arc<Topology>, config: WormholeConfig) -> Wormhole<Packet<u32>> {
    let mut network = Wormhole::new(topology, config);
    for host in 0..topology.host_count() {
        assert_eq!(network.join(HostId(host)), host);
    }
    network
}

fn packet(from: u32, to: u32, content: u32) -> Packet<u32> {
    Packet {
        from,
        to,
        bytes: 10_000,
        route: 0,
        content,
    }
}

#[test]
fn a_packet_alone_takes_its_switches_and_its_bytes() {
    let mut network = of(&diamond(), CONFIG);
    assert_eq!(network.send(packet(0, 1, 0), us(5)), Some(us(5 + 1 + 10)));
    assert_eq!(network.send(packet(2, 3, 0), us(5)), Some(us(5 + 3 + 10)));
    let mut with_cables = of(
        &diamond(),
        WormholeConfig {
            propagation: us(2),
            host_propagation: us(3),
            switch_bytes_s: 5e8,
            ..CONFIG
        },
    );
    assert_eq!(
        with_cables.send(packet(0, 1, 0), us(5)),
        Some(us(5 + 1 + 2 * 3 + 10))
    );
    // The slowest link of the way sets the pace.
    assert_eq!(
        with_cables.send(packet(2, 3, 0), us(5)),
        Some(us(5 + 3 + 2 * 3 + 2 * 2 + 20))
    );
}

#[test]
fn links_with_rates_and_latencies_of_their_own_keep_them() {
    let text = "hosts n*\nn0 s0\ns0 s1 rate=\"2 Gbit/s\" latency=\"7 us\"\ns1 n1\nn2 s1\n";
    let topology = Arc::new(parse_edge_list(text).unwrap());
    let mut network = of(&topology, CONFIG);
    // A quarter of the rate of the others, over the one link in the middle.
    assert_eq!(network.send(packet(0, 1, 0), us(0)), Some(us(2 + 7 + 40)));
    assert_eq!(
        network.send(packet(2, 1, 0), us(100)),
        Some(us(100 + 1 + 10))
    );
}

#[test]
fn packets_queue_at_the_last_link_and_hold_their_senders_until_their_tails_have_left() {
    let mut network = of(&diamond(), CONFIG);
    assert_eq!(network.send(packet(0, 5, 0), us(0)), Some(us(13)));
    // Its head is there at 3 and waits for the link until 13.
    assert_eq!(network.send(packet(1, 5, 1), us(0)), Some(us(23)));
    // Its sender's engine is held until the tail leaves, 3 before it arrives.
    assert_eq!(network.send(packet(1, 2, 2), us(0)), Some(us(20 + 1 + 10)));
    // The other sender's was held for as long as its packet took.
    assert_eq!(network.send(packet(0, 4, 3), us(0)), Some(us(10 + 3 + 10)));
}

#[test]
fn a_receiver_without_a_buffer_stops_its_link_and_what_is_behind() {
    let mut network = of(&diamond(), CONFIG);
    assert_eq!(network.send(packet(0, 5, 0), us(0)), Some(us(13)));
    assert_eq!(network.send(packet(1, 5, 1), us(0)), Some(us(23)));
    assert_eq!(network.send(packet(2, 5, 2), us(0)), None);
    // For another host, but behind the one that is stopped.
    assert_eq!(network.send(packet(2, 4, 3), us(0)), None);
    assert_eq!(network.counts().stops, 1);
    assert!(network.release(5));
    let mut arrivals = VecDeque::new();
    network.take_up(5, us(50), &mut arrivals);
    let arrived: Vec<_> = arrivals.iter().map(|(at, it)| (*at, it.content)).collect();
    // The second leaves when the tail of the first has: at 60.
    assert_eq!(arrived, [(us(63), 2), (us(73), 3)]);
    assert!(!network.release(5));
}

#[test]
fn a_cut_takes_what_crosses_it_in_its_direction_on_its_route() {
    let topology = diamond();
    let switch = |number| Node::Switch(SwitchId(number));
    let number = |name: &str| {
        let found = (0..4).find(|it| topology.node_name(switch(*it)) == name);
        switch(found.unwrap())
    };
    let down = |links| {
        let mut network = of(&topology, CONFIG);
        network.take_down(links, us(10), Some(us(20))).unwrap();
        network
    };
    let arrives = |links, (from, to), route, at| {
        let packet = Packet {
            route,
            ..packet(from, to, 0)
        };
        down(links).send(packet, at).is_some()
    };
    let (s0, s1, a) = (number("s0"), number("s1"), number("a"));
    let host = Node::Host(HostId(3));
    for (links, ends, route, is_cut) in [
        (Links::Between(host, s1), (0, 3), 0, true),
        (Links::Between(host, s1), (3, 0), 1, true),
        (Links::Between(host, s1), (0, 4), 0, false),
        (Links::OneWay(host, s1), (0, 3), 0, false),
        (Links::OneWay(host, s1), (3, 4), 0, true),
        (Links::Of(s1), (0, 3), 1, true),
        (Links::Of(s1), (3, 4), 0, true),
        (Links::Of(s1), (0, 1), 0, false),
        (Links::Of(a), (0, 3), 0, true),
        (Links::Of(a), (0, 3), 1, false),
        // Routes are counted modulo the ways.
        (Links::Of(a), (0, 3), 2, true),
        (Links::OneWay(s0, a), (0, 3), 0, true),
        (Links::OneWay(a, s0), (0, 3), 0, false),
    ] {
        let arrives = |at| arrives(links, ends, route, at);
        assert_eq!(arrives(us(12)), !is_cut, "{links:?} {ends:?} by {route}");
        // Hit by a part of the time, and not at all once all is up.
        assert_eq!(arrives(us(9)), !is_cut, "{links:?} {ends:?} by {route}");
        assert!(arrives(us(20)), "{links:?} {ends:?} by {route}");
    }
    let mut none = of(&topology, CONFIG);
    assert!(none.take_down(Links::Between(s0, s1), us(0), None).is_err());
}

/// The engine of a packet that is cut is free when the packet has left it, and buffers are not
/// taken.
#[test]
fn the_sender_of_a_packet_that_is_cut_does_not_know() {
    let mut network = of(&diamond(), CONFIG);
    network.cut_off(5, us(0), us(5));
    assert_eq!(network.send(packet(0, 5, 0), us(0)), None);
    assert_eq!(network.send(packet(0, 5, 1), us(0)), Some(us(10 + 3 + 10)));
    assert_eq!(network.send(packet(1, 5, 2), us(6)), Some(us(33)));
    assert_eq!((network.counts().cut, network.counts().stops), (1, 0));
}

#[test]
fn a_buffer_that_a_lost_packet_leaves_free_is_for_the_next_that_waits() {
    let mut network = of(&diamond(), CONFIG);
    assert_eq!(network.send(packet(0, 5, 0), us(0)), Some(us(13)));
    assert_eq!(network.send(packet(1, 5, 1), us(0)), Some(us(23)));
    assert_eq!(network.send(packet(2, 5, 2), us(0)), None);
    assert_eq!(network.send(packet(3, 5, 3), us(0)), None);
    let (host, switch) = (Node::Host(HostId(2)), Node::Switch(SwitchId(0)));
    let down = Links::OneWay(host, switch);
    network.take_down(down, us(40), Some(us(60))).unwrap();
    assert!(network.release(5));
    let mut arrivals = VecDeque::new();
    network.take_up(5, us(50), &mut arrivals);
    let arrived: Vec<_> = arrivals.iter().map(|(at, it)| (*at, it.content)).collect();
    assert_eq!(arrived, [(us(61), 3)]);
    assert_eq!(network.counts().cut, 1);
}

/// One of the networks that are drawn.
fn network(kind: u8) -> Arc<Topology> {
    Arc::new(match kind {
        0 => Topology::torus(&[3, 3], 2, Ports(8)).unwrap(),
        1 => {
            let shape = TreeShape {
                arity: 2,
                levels: 3,
            };
            Topology::fat_tree(shape, Ports(4)).unwrap()
        }
        2 => Topology::single_switch(5, Ports(5)).unwrap(),
        _ => return diamond(),
    })
}

/// Faults that are drawn: a link, when it goes down, for how long.
type Cuts = Vec<(u32, u64, u64)>;

/// Packets that are drawn: ends, bytes, route, time since the one before.
type Sent = Vec<(u32, u32, u32, u16, u64)>;

/// Runs packets through a network whose hosts keep each for a while, and gives what arrived: when
/// it was sent, when its tail was there, and what it was.
fn run(
    topology: &Arc<Topology>,
    sent: &Sent,
    cuts: &Cuts,
    hold: Time,
) -> (Vec<(Time, Time, Packet<u32>)>, u64) {
    let mut network = of(topology, CONFIG);
    for (link, from, span) in cuts {
        let link = viaduct_topology::LinkId(link % topology.link_count());
        let until = us(from + span);
        network
            .take_down(Links::One(link), us(*from), Some(until))
            .unwrap();
    }
    let hosts = topology.host_count();
    let mut releases: BTreeMap<(Time, usize), u32> = BTreeMap::new();
    let (mut arrived, mut times) = (Vec::new(), Vec::new());
    let mut now = Time::ZERO;
    let settle = |releases: &mut BTreeMap<(Time, usize), u32>,
                  arrived: &mut Vec<(Time, Time, Packet<u32>)>,
                  times: &[Time],
                  at: Time,
                  packet: Packet<u32>| {
        releases.insert((at + hold, arrived.len()), packet.to);
        arrived.push((times[packet.content as usize], at, packet));
    };
    let mut later = sent.iter().enumerate();
    let mut next = later.next();
    loop {
        let send_at = next.map(|(_, its)| now + us(its.4));
        let release = releases.keys().next().copied();
        match (send_at, release) {
            (Some(at), release) if release.is_none_or(|(first, _)| at <= first) => {
                let (number, &(from, to, bytes, route, _)) = next.unwrap();
                now = at;
                times.push(at);
                let packet = Packet {
                    from: from % hosts,
                    to: to % hosts,
                    bytes,
                    route,
                    content: number as u32,
                };
                if let Some(tail) = network.send(packet, at) {
                    settle(&mut releases, &mut arrived, &times, tail, packet);
                }
                next = later.next();
            }
            (_, Some(key)) => {
                let host = releases.remove(&key).unwrap();
                // Time since the packet before is counted from here.
                now = now.max(key.0);
                if network.release(host) {
                    let mut arrivals = VecDeque::new();
                    network.take_up(host, key.0, &mut arrivals);
                    for (tail, packet) in arrivals {
                        settle(&mut releases, &mut arrived, &times, tail, packet);
                    }
                }
            }
            _ => break,
        }
    }
    assert_eq!(network.counts().packets, sent.len() as u64);
    (arrived, network.counts().cut)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn packets_are_conserved_repeat_and_are_never_early(
        kind in 0u8..4,
        sent in prop::collection::vec(
            (0u32..18, 0u32..18, 1u32..20_000, 0u16..6, 0u64..15), 1..120),
        cuts in prop::collection::vec((0u32..200, 0u64..600, 1u64..200), 0..6),
        hold in 1u64..40,
    ) {
        let topology = network(kind);
        let (arrived, cut) = run(&topology, &sent, &cuts, us(hold));
        // Each packet arrives once or is cut: none stays on its way.
        let mut seen: Vec<u32> = arrived.iter().map(|(_, _, packet)| packet.content).collect();
        seen.sort_unstable();
        prop_assert!(seen.windows(2).all(|two| two[0] < two[1]));
        prop_assert_eq!(seen.len() as u64 + cut, sent.len() as u64);
        prop_assert!(cut == 0 || !cuts.is_empty());
        let mut free_at = BTreeMap::new();
        let mut last = BTreeMap::new();
        for (sent_at, tail, packet) in &arrived {
            let ends = (HostId(packet.from), HostId(packet.to));
            let switches = match packet.from == packet.to {
                true => 0,
                false => topology.path_length(ends.0, ends.1).unwrap() - 1,
            };
            let span = Time::from_nanoseconds(packet.bytes.into());
            let floor = us(switches.into()) + span;
            prop_assert!(*tail >= *sent_at + floor);
            // A link to a host carries one packet at a time, in order.
            let free: &mut Time = free_at.entry(packet.to).or_default();
            prop_assert!(*tail >= *free + span);
            *free = *tail;
            // What goes between two hosts stays in order.
            let number = last.insert((packet.from, packet.to), packet.content);
            prop_assert!(number.is_none_or(|number| number < packet.content));
        }
        prop_assert_eq!(run(&topology, &sent, &cuts, us(hold)), (arrived, cut));
    }
}
