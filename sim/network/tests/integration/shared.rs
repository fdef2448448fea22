//! Packets over links that share their rate: schedules computed by hand, and what holds whatever is
//! sent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_network::outages::Links;
use viaduct_network::{
    Arrival, Frame, LinkConfig, Packet, PacketNetwork, Rate, SharedLinks, Sharing, SwitchModel,
    Switching,
};
use viaduct_topology::{HostId, LinkId, Node, SwitchId, Topology, parse_edge_list};

const fn us(microseconds: u64) -> Time {
    Time::from_microseconds(microseconds)
}

/// Two switches with hosts `n0` to `n2` and `n3` to `n5`, joined over `a` and over `b`.
fn diamond() -> Arc<Topology> {
    let text = "hosts n*\nn0 s0\nn1 s0\nn2 s0\nn3 s1\nn4 s1\nn5 s1\ns0 a\ns0 b\na s1\nb s1\n";
    Arc::new(parse_edge_list(text).unwrap())
}

/// A byte takes 1 ns, a switch 1 us; two buffers.
fn of(
    topology: &Arc<Topology>,
    sharing: Sharing,
    switching: Switching,
) -> SharedLinks<Packet<u32>> {
    let rate = Rate::from_bits_per_second(8e9);
    let links = LinkConfig {
        sharing,
        arrival: Arrival::default(),
        switching,
        rate,
        host_rate: rate,
        propagation: Time::ZERO,
        host_propagation: Time::ZERO,
        frame: Frame {
            payload_bytes: 0,
            header_bytes: 0,
        },
        buffers: viaduct_network::Buffers::default(),
        credits: viaduct_network::CreditLinks::default(),
    };
    let switch = SwitchModel {
        delay: us(1),
        cut_through_bytes: 0,
    };
    let mut network = SharedLinks::new(topology, &links, switch, 2, 4);
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

/// Lets everything happen; hosts keep each packet for `hold`, if they ever give a buffer back.
fn run(network: &mut SharedLinks<Packet<u32>>, hold: Option<Time>) -> Vec<(Time, Packet<u32>)> {
    run_with(network, Vec::new(), hold)
}

/// The same, with packets that are sent at their times, the first of which is the last here.
fn run_with(
    network: &mut SharedLinks<Packet<u32>>,
    mut later: Vec<(Time, Packet<u32>)>,
    hold: Option<Time>,
) -> Vec<(Time, Packet<u32>)> {
    let mut arrived = Vec::new();
    let mut releases: BTreeMap<(Time, usize), u32> = BTreeMap::new();
    let mut arrivals = VecDeque::new();
    loop {
        let next = network.next();
        let send_at = later.last().map_or(Time::MAX, |(at, _)| *at);
        let release = releases.first_key_value().map(|(key, host)| (*key, *host));
        match release {
            Some((key, host)) if key.0 < next.min(send_at) => {
                releases.remove(&key);
                if network.release(host) {
                    network.take_up(host, key.0, &mut arrivals);
                }
            }
            _ if send_at < next => {
                let sent = later.pop().map(|(at, packet)| network.send(packet, at));
                assert_eq!(sent.flatten(), None, "an arrival has to be asked for");
            }
            _ if next < Time::MAX => network.proceed(next, &mut arrivals),
            _ => return arrived,
        }
        while let Some((at, packet)) = arrivals.pop_front() {
            if let Some(hold) = hold {
                releases.insert((at + hold, arrived.len()), packet.to);
            }
            arrived.push((at, packet));
        }
    }
}

/// Times in microseconds and contents.
fn told(arrived: &[(Time, Packet<u32>)]) -> Vec<(u64, u32)> {
    let each = arrived.iter();
    each.map(|(at, packet)| (at.picoseconds() / 1_000_000, packet.content))
        .collect()
}

#[test]
fn a_packet_alone_takes_its_switches_and_its_bytes_once_or_at_each_hop() {
    for (switching, near, far) in [
        (Switching::CutThrough, 1 + 10, 3 + 10),
        (Switching::StoreAndForward, 1 + 20, 3 + 40),
    ] {
        let mut network = of(&diamond(), Sharing::MaxMin, switching);
        // An arrival has to be asked for.
        assert_eq!(network.send(packet(0, 1, 0), us(5)), None);
        assert_eq!(network.send(packet(2, 3, 1), us(5)), None);
        let arrived = run(&mut network, None);
        assert_eq!(told(&arrived), [(5 + near, 0), (5 + far, 1)]);
    }
}

#[test]
fn packets_share_the_links_that_they_have_in_common_on_the_ways_that_their_senders_chose() {
    let both = |routes: [u16; 2]| {
        let mut network = of(&diamond(), Sharing::MaxMin, Switching::CutThrough);
        for (from, route) in (0..).zip(routes) {
            let packet = Packet {
                route,
                ..packet(from, 3 + from, from)
            };
            network.send(packet, us(0));
        }
        told(&run(&mut network, None))
    };
    assert_eq!(both([0, 0]), [(20 + 3, 0), (20 + 3, 1)]);
    assert_eq!(both([0, 1]), [(10 + 3, 0), (10 + 3, 1)]);
}

#[test]
fn an_engine_sends_one_packet_at_a_time() {
    let mut network = of(&diamond(), Sharing::MaxMin, Switching::CutThrough);
    network.send(packet(0, 3, 0), us(0));
    network.send(packet(0, 4, 1), us(0));
    assert_eq!(told(&run(&mut network, None)), [(13, 0), (23, 1)]);
    // Stored at a switch, a packet has left its sender when it has crossed the first link.
    let mut network = of(&diamond(), Sharing::MaxMin, Switching::StoreAndForward);
    network.send(packet(0, 3, 0), us(0));
    network.send(packet(0, 1, 1), us(0));
    assert_eq!(told(&run(&mut network, None)), [(10 + 21, 1), (43, 0)]);
}

#[test]
fn a_receiver_without_a_buffer_stops_its_link_and_what_is_behind() {
    let mut network = of(&diamond(), Sharing::MaxMin, Switching::CutThrough);
    network.send(packet(3, 5, 0), us(0));
    network.send(packet(4, 5, 1), us(0));
    network.send(packet(0, 5, 2), us(0));
    // For another host, but behind the one that is stopped.
    network.send(packet(0, 1, 3), us(0));
    assert_eq!(network.counts().stops, 1);
    // Two share the last link until 20; each is kept for 50.
    let arrived = run(&mut network, Some(us(50)));
    let expected = [(21, 0), (21, 1), (71 + 10 + 3, 2), (71 + 10 + 11, 3)];
    assert_eq!(told(&arrived), expected);
}

#[test]
fn what_is_down_while_a_packet_is_on_its_way_loses_it_and_its_buffer_is_for_the_next() {
    let topology = diamond();
    let mut network = of(&topology, Sharing::MaxMin, Switching::CutThrough);
    let (host, switch) = (Node::Host(HostId(3)), Node::Switch(SwitchId(1)));
    assert_eq!(topology.node_name(switch), "s1");
    let down = Links::OneWay(host, switch);
    network.take_down(down, us(8), Some(us(9))).unwrap();
    network.send(packet(3, 5, 0), us(0));
    network.send(packet(4, 5, 1), us(0));
    network.send(packet(0, 5, 2), us(0));
    let arrived = run(&mut network, None);
    // The third goes on when the first is known not to come.
    assert_eq!(told(&arrived), [(21, 1), (21 + 13, 2)]);
    assert_eq!((network.counts().cut, network.counts().packets), (1, 3));
    assert!(
        network
            .take_down(Links::Between(host, host), us(0), None)
            .is_err()
    );
}

#[test]
fn a_host_that_begins_anew_has_nothing_of_before() {
    let mut network = of(&diamond(), Sharing::MaxMin, Switching::CutThrough);
    network.send(packet(0, 5, 0), us(0));
    network.send(packet(0, 5, 1), us(0));
    network.send(packet(3, 5, 2), us(0));
    network.send(packet(4, 5, 3), us(0));
    let mut arrivals = VecDeque::new();
    network.proceed(us(4), &mut arrivals);
    network.cut_off(0, us(5), us(6));
    network.reset(0, us(5), &mut arrivals);
    // What was behind the engine is gone too; the next life sends at once.
    network.send(packet(0, 1, 4), us(6));
    let arrived = run(&mut network, Some(us(1)));
    // Bytes of the packet that was cut share links until 20; it is known at 23 not to come, and
    // the buffer that is free at 22 is taken by the packet that waits.
    assert_eq!(told(&arrived), [(21, 2), (24, 4), (33, 3)]);
    assert_eq!(network.counts().cut, 1);
}

#[test]
fn links_say_what_they_carried_once_they_are_watched() {
    let topology = diamond();
    let mut network = of(&topology, Sharing::MaxMin, Switching::CutThrough);
    network.send(packet(0, 3, 0), us(0));
    run(&mut network, None);
    assert!(network.link_use().is_empty());
    network.watch_links();
    network.send(packet(0, 3, 1), us(100));
    network.send(packet(1, 4, 2), us(100));
    run(&mut network, None);
    let use_of = |name: &str| {
        let found = network.link_use().iter();
        let mut found = found.filter(|(link, _)| topology.link_name(**link) == name);
        found
            .next()
            .map(|(_, its)| (its.packets, its.bytes, its.busy))
    };
    assert_eq!(use_of("n0 -> s0"), Some((1, 10_000, us(10))));
    assert_eq!(use_of("s0 -> a"), Some((2, 20_000, us(20))));
    assert_eq!(use_of("s0 -> b"), None);
    assert_eq!(use_of("s1 -> n4"), Some((1, 10_000, us(10))));
}

#[test]
fn links_and_adapters_lose_the_part_that_they_are_told_to() {
    let topology = diamond();
    let lost = |prepare: &dyn Fn(&mut SharedLinks<Packet<u32>>)| {
        let mut network = of(&topology, Sharing::MaxMin, Switching::CutThrough);
        prepare(&mut network);
        for number in 0..2_000 {
            network.send(packet(0, 3, number), us(0));
        }
        let arrived = run(&mut network, Some(us(0)));
        assert_eq!(arrived.len() as u64 + network.counts().lost, 2_000);
        network.counts().lost
    };
    assert_eq!(lost(&|_| {}), 0);
    let key = StreamKey {
        seed: 1,
        purpose: 1,
        entity: 1,
    };
    let leaving = lost(&|network| network.lose(250_000, Stream::new(key)));
    assert!((400..600).contains(&leaving), "{leaving}");
    let up = Links::One(LinkId(0));
    let on_link = lost(&|network| network.lose_on(up, 0.25, 1).unwrap());
    assert!((400..600).contains(&on_link), "{on_link}");
    let elsewhere = Links::One(LinkId(1));
    assert_eq!(
        lost(&|network| network.lose_on(elsewhere, 1.0, 1).unwrap()),
        0
    );
}

/// Packets that are drawn: ends, bytes, route, when.
type Sent = Vec<(u32, u32, u32, u16, u64)>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn packets_are_conserved_repeat_and_are_never_early(
        sent in prop::collection::vec(
            (0u32..6, 0u32..6, 1u32..20_000, 0u16..3, 0u64..400), 1..80),
        cuts in prop::collection::vec((0u32..20, 0u64..600, 1u64..200), 0..4),
        hold in 1u64..40,
        is_fluid: bool,
        is_stored: bool,
    ) {
        let sharing = if is_fluid { Sharing::Fluid } else { Sharing::MaxMin };
        let switching =
            if is_stored { Switching::StoreAndForward } else { Switching::CutThrough };
        let topology = diamond();
        let mut sent: Sent = sent.into_iter().filter(|its| its.0 != its.1).collect();
        sent.sort_unstable_by_key(|its| its.4);
        let once = || {
            let mut network = of(&topology, sharing, switching);
            for (link, from, span) in &cuts {
                let link = Links::One(LinkId(link % topology.link_count()));
                network.take_down(link, us(*from), Some(us(from + span))).unwrap();
            }
            let mut later: Vec<(Time, Packet<u32>)> = Vec::new();
            for (number, (from, to, bytes, route, at)) in (0..).zip(&sent) {
                let packet = Packet {
                    from: *from,
                    to: *to,
                    bytes: *bytes,
                    route: *route,
                    content: number,
                };
                later.push((us(*at), packet));
            }
            later.reverse();
            let arrived = run_with(&mut network, later, Some(us(hold)));
            (arrived, network.counts())
        };
        let (arrived, counts) = once();
        let mut seen: Vec<u32> = arrived.iter().map(|(_, its)| its.content).collect();
        seen.sort_unstable();
        prop_assert!(seen.windows(2).all(|two| two[0] < two[1]));
        prop_assert_eq!(seen.len() as u64 + counts.cut, sent.len() as u64);
        for (at, its) in &arrived {
            let links = topology.path_length(HostId(its.from), HostId(its.to)).unwrap();
            let hops = if is_stored { links } else { 1 };
            let span = Time::from_nanoseconds(u64::from(its.bytes * hops));
            let floor = us(sent[its.content as usize].4) + us((links - 1).into()) + span;
            // Shares are kept in doubles.
            prop_assert!(*at + Time::from_picoseconds(1_000) >= floor, "{at} before {floor}");
        }
        prop_assert_eq!(once(), (arrived, counts));
    }
}
