//! Virtual channels and credits: against a second implementation that goes cycle by cycle, closed
//! forms, bounds of theory, figures of BookSim2, and rings that stand still.

mod detours;
mod reference;

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof, proptest,
};
use viaduct_engine::{EventQueue, Stream, StreamKey, Time};
use viaduct_network::hops::End;
use viaduct_network::{
    Arbitration, Arrival, Buffers, CreditLinks, FlowControl, Frame, LinkConfig, Network, Next,
    Rate, Sharing, SwitchModel, Switching, Transfer,
};
use viaduct_topology::{ChainHosts, DragonflyShape, Ports, Topology};

use self::reference::{Message, Rules};
use crate::common::{Event, NO_BUSES, carry, transfer};

/// A flit, and how long it takes: a cycle.
const FLIT: u32 = 8;
const CYCLE: u64 = 8_000;

fn network_of(topology: &Arc<Topology>, rules: Rules) -> Network {
    let cycles = |count: u64| Time::from_picoseconds(count * CYCLE);
    let rate = Rate::from_bits_per_second(8e9);
    let links = LinkConfig {
        sharing: Sharing::Credits,
        arrival: Arrival::default(),
        switching: if rules.stores {
            Switching::StoreAndForward
        } else {
            Switching::CutThrough
        },
        rate,
        host_rate: rate,
        propagation: cycles(rules.propagation),
        host_propagation: cycles(rules.propagation),
        frame: Frame {
            payload_bytes: rules.packet * FLIT,
            header_bytes: 0,
        },
        buffers: Buffers::default(),
        credits: CreditLinks {
            flow_control: rules.flow_control,
            flit_bytes: FLIT,
            channels: rules.channels,
            classes: rules.classes,
            buffer_bytes: Some(u64::from(rules.buffer * FLIT)),
            credit_delay: cycles(rules.credit),
            traversal: cycles(rules.traversal),
            speedup: rules.speedup,
            arbitration: rules.arbitration,
        },
    };
    let switch = SwitchModel {
        delay: cycles(rules.switch),
        cut_through_bytes: FLIT,
    };
    Network::new(topology, &links, switch, NO_BUSES, false)
}

fn topologies() -> impl Strategy<Value = (Topology, u32)> {
    let torus = |sizes: &[u32]| Topology::torus(sizes, 1, Ports(64)).unwrap();
    prop_oneof![
        Just((Topology::single_switch(5, Ports(64)).unwrap(), 1)),
        Just((
            Topology::chain(4, ChainHosts::EverySwitch(2), Ports(64)).unwrap(),
            1
        )),
        Just((
            Topology::chain(3, ChainHosts::EverySwitch(1), Ports(64)).unwrap(),
            3
        )),
        Just((Topology::mesh(&[3, 3], 1, Ports(64)).unwrap(), 1)),
        Just((torus(&[4, 3]), 2)),
        Just((torus(&[5]), 2)),
        // It may stand still, and the two must agree on what comes through before.
        Just((torus(&[5]), 1)),
        Just((torus(&[4, 4]), 1)),
    ]
}

fn rules(classes: u32) -> impl Strategy<Value = Rules> {
    let flow_control = prop_oneof![
        Just(FlowControl::VirtualCutThrough),
        Just(FlowControl::Wormhole)
    ];
    let times = (0_u64..5, 0_u64..4, 0_u64..3, 0_u64..3);
    (flow_control, 1_u32..8, 1_u32..6, times, any::<bool>()).prop_map(
        move |(flow_control, buffer, packet, times, stores)| Rules {
            flow_control,
            channels: classes,
            classes,
            buffer,
            packet,
            propagation: times.0,
            switch: times.1,
            traversal: times.2,
            credit: times.3,
            stores: stores && flow_control == FlowControl::VirtualCutThrough,
            speedup: 1,
            arbitration: Arbitration::RoundRobin,
        },
    )
}

/// When the last byte of each message is there, in picoseconds; none if it never is.
fn arrivals(topology: Topology, rules: Rules, messages: &[Message]) -> (Vec<Option<u64>>, Network) {
    let mut network = network_of(&Arc::new(topology), rules);
    let transfers: Vec<(u64, Transfer)> = messages
        .iter()
        .enumerate()
        .map(|(place, it)| (it.cycle * CYCLE, transfer(it.ends, it.flits * FLIT, place)))
        .collect();
    let there = carry(&mut network, &transfers);
    let time = |(end, _): (Time, Time)| (end < Time::MAX).then(|| end.picoseconds());
    (there.into_iter().map(time).collect(), network)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Each message of drawn networks arrives in the cycle in which it does in a simulation that
    /// goes cycle by cycle, and one stands still where the other does.
    #[test]
    fn a_simulation_by_cycles_tells_the_same(
        ((topology, _), rules) in topologies().prop_flat_map(|it| {
            let classes = it.1;
            (Just(it), rules(classes))
        }),
        drawn in proptest::collection::vec((0_u64..60, any::<u32>(), any::<u32>(), 1_u32..20), 1..60),
    ) {
        let hosts = topology.host_count();
        let messages: Vec<Message> = drawn
            .iter()
            .map(|&(cycle, source, other, flits)| {
                let source = source % hosts;
                let target = (source + 1 + other % (hosts - 1)) % hosts;
                Message { cycle, ends: (source, target), flits }
            })
            .collect();
        let expected = reference::arrivals(&topology, rules, &messages);
        let stands_still = expected.contains(&None);
        let expected: Vec<Option<u64>> =
            expected.into_iter().map(|it| it.map(|cycle| cycle * CYCLE)).collect();
        let (found, network) = arrivals(topology, rules, &messages);
        prop_assert_eq!(found, expected);
        prop_assert_eq!(network.deadlock().is_some(), stands_still);
    }
}

/// Most flits that a channel carries in a cycle: one, or as many as it has room for while the
/// credit of the first goes round.
fn of_loop(rules: Rules) -> f64 {
    let around = 2 * rules.propagation + rules.traversal + rules.switch + rules.credit + 1;
    let units = match rules.flow_control {
        FlowControl::Wormhole => rules.buffer,
        FlowControl::VirtualCutThrough => rules.buffer / rules.packet,
    };
    let flits = match rules.flow_control {
        FlowControl::Wormhole => 1,
        FlowControl::VirtualCutThrough => rules.packet,
    };
    // The last byte leaves the buffer when all of the unit has been sent on.
    (f64::from(units * flits) / (around + u64::from(flits)) as f64).min(1.0)
}

const ROOMY: Rules = Rules {
    flow_control: FlowControl::Wormhole,
    channels: 1,
    classes: 1,
    buffer: 64,
    packet: 1,
    propagation: 1,
    switch: 2,
    traversal: 0,
    credit: 0,
    stores: false,
    speedup: 1,
    arbitration: Arbitration::RoundRobin,
};

#[test]
fn a_channel_carries_its_buffer_in_a_credit_round_trip() {
    let flow_controls = [FlowControl::Wormhole, FlowControl::VirtualCutThrough];
    for flow_control in flow_controls {
        for (buffer, packet, propagation) in [
            (1, 1, 0),
            (4, 1, 20),
            (8, 4, 20),
            (16, 4, 3),
            (30, 3, 50),
            (64, 4, 100),
        ] {
            for (switch, traversal, credit) in [(0, 0, 0), (3, 1, 2)] {
                let rules = Rules {
                    flow_control,
                    buffer,
                    packet,
                    propagation,
                    switch,
                    traversal,
                    credit,
                    ..ROOMY
                };
                let flits = 30_000;
                let chain = Topology::chain(3, ChainHosts::EverySwitch(1), Ports(64)).unwrap();
                let message = [Message {
                    cycle: 0,
                    ends: (0, 2),
                    flits,
                }];
                let (there, _) = arrivals(chain, rules, &message);
                let cycles = there[0].unwrap() as f64 / CYCLE as f64;
                let (found, expected) = (f64::from(flits) / cycles, of_loop(rules));
                assert!(
                    (found / expected - 1.0).abs() < 0.01,
                    "{rules:?}: {found} flits a cycle, {expected} by the loop"
                );
            }
        }
    }
}

#[test]
fn a_message_alone_takes_the_closed_form_to_the_picosecond() {
    // Off the grid: links of two rates, odd sizes, a bus at each end or none.
    let mut random = Stream::new(StreamKey {
        seed: 3,
        purpose: 7,
        entity: 0,
    });
    for number in 0..4_000 {
        let mut below = |bound: u64| random.below(bound);
        let buses = End {
            bus_rate: match below(3) {
                0 => Rate::INFINITE,
                _ => Rate::from_bits_per_second(1e8 + below(4_000_000_000) as f64),
            },
            forwarding: Switching::CutThrough,
            write: Time::ZERO,
        };
        let links = LinkConfig {
            sharing: Sharing::Credits,
            arrival: Arrival::default(),
            switching: match below(3) {
                0 => Switching::StoreAndForward,
                _ => Switching::CutThrough,
            },
            rate: Rate::from_bits_per_second(1e8 + below(4_000_000_000) as f64),
            host_rate: Rate::from_bits_per_second(1e8 + below(4_000_000_000) as f64),
            propagation: Time::from_picoseconds(below(40_000)),
            host_propagation: Time::from_picoseconds(below(40_000)),
            frame: Frame {
                payload_bytes: 1 + below(1_500) as u32,
                header_bytes: below(60) as u32,
            },
            buffers: Buffers::default(),
            credits: CreditLinks {
                flow_control: match below(2) {
                    0 => FlowControl::Wormhole,
                    _ => FlowControl::VirtualCutThrough,
                },
                flit_bytes: 8 + below(100) as u32,
                // All of it.
                buffer_bytes: Some(1 << 30),
                credit_delay: Time::from_picoseconds(below(10_000)),
                traversal: Time::from_picoseconds(below(10_000)),
                ..CreditLinks::default()
            },
        };
        let switch = SwitchModel {
            delay: Time::from_picoseconds(below(90_000)),
            cut_through_bytes: below(80) as u32,
        };
        let chain = Topology::chain(5, ChainHosts::EverySwitch(1), Ports(64)).unwrap();
        let mut network = Network::new(&Arc::new(chain), &links, switch, buses, false);
        let ends = (0, 1 + below(4) as u32);
        let bytes = links.frame.wire_bytes(below(20_000)) as u32;
        let mut message = transfer(ends, bytes, 0);
        if below(2) == 0 {
            message.demand.rate_max = 1e-4 + below(1_000) as f64 * 1e-6;
        }
        let mut queue = EventQueue::<Event>::new();
        let alone = network.begin(&mut queue, &message).alone;
        let mut network = Network::new(
            &Arc::new(Topology::chain(5, ChainHosts::EverySwitch(1), Ports(64)).unwrap()),
            &links,
            switch,
            buses,
            false,
        );
        let there = carry(&mut network, &[(0, message)]);
        assert_eq!(
            there[0].0,
            alone.delay + alone.moving,
            "number {number}: {bytes} bytes, {links:?}, {switch:?}, {buses:?}"
        );
    }
}

#[test]
fn the_closed_form_is_what_a_hand_computes() {
    // 10 flits in packets of 4 over 4 links: each switch stores a flit, so the last one comes 9
    // cycles after the first, which pays a flit on each link, and cables and pipelines.
    let chain = || Topology::chain(3, ChainHosts::EverySwitch(1), Ports(64)).unwrap();
    let rules = Rules {
        packet: 4,
        propagation: 2,
        switch: 3,
        traversal: 5,
        ..ROOMY
    };
    let message = [Message {
        cycle: 0,
        ends: (0, 2),
        flits: 10,
    }];
    let wormhole = 9 + 4 + 4 * 2 + 3 * (3 + 5);
    assert_eq!(
        arrivals(chain(), rules, &message).0,
        [Some(wormhole * CYCLE)]
    );
    // The same where whole packets move, and go on when their first flit is there.
    let rules = Rules {
        flow_control: FlowControl::VirtualCutThrough,
        ..rules
    };
    assert_eq!(
        arrivals(chain(), rules, &message).0,
        [Some(wormhole * CYCLE)]
    );
    // Stored, a packet of 4 is paid at each of 3 switches, and 2 at the end are behind it.
    let rules = Rules {
        stores: true,
        ..rules
    };
    let stored = 10 + 3 * 4 + 4 * 2 + 3 * (3 + 5);
    assert_eq!(arrivals(chain(), rules, &message).0, [Some(stored * CYCLE)]);
}

/// Single flits, each a message: hosts draw whether one comes, and keep those that must wait.
struct Flits {
    network: Network,
    queue: EventQueue<Event>,
    hosts: u32,
    random: Stream,
    delays: Vec<Time>,
}

/// What single flits did in the cycles that were measured.
struct Measured {
    /// Flits that arrived, for each cycle and host.
    accepted: f64,
    /// Mean time from their begin to the arrival, cycles.
    latency: f64,
}

impl Flits {
    fn new(topology: Topology, rules: Rules) -> Self {
        let topology = Arc::new(topology);
        Self {
            network: network_of(&topology, rules),
            queue: EventQueue::new(),
            hosts: topology.host_count(),
            random: Stream::new(StreamKey {
                seed: 1,
                purpose: 1,
                entity: 1,
            }),
            delays: Vec::new(),
        }
    }

    /// In each cycle each host has a flit with some probability, to a target that is drawn. Those
    /// behind one that has not left are one queue, in order.
    fn run(
        &mut self,
        rate: f64,
        cycles: (u64, u64),
        target: impl Fn(u32, &mut Stream) -> u32,
    ) -> Measured {
        let mut waiting: Vec<VecDeque<(u64, u32)>> = vec![VecDeque::new(); self.hosts as usize];
        let mut is_busy = vec![false; self.hosts as usize];
        let mut of_tag: Vec<(u32, u64)> = Vec::new();
        let (mut arrived, mut latency, mut counted) = (0_u64, 0_u64, 0_u64);
        let chance = (rate * f64::from(1_u32 << 30)) as u64;
        for cycle in 0..cycles.1 {
            let now = Time::from_picoseconds(cycle * CYCLE);
            for host in 0..self.hosts {
                // At most so many wait, beyond saturation.
                if self.random.below(1 << 30) < chance && waiting[host as usize].len() < 64 {
                    let to = target(host, &mut self.random);
                    waiting[host as usize].push_back((cycle, to));
                }
            }
            self.queue.schedule(now, Event::Begins(0));
            self.network.settle(&mut self.queue);
            while let Some((_, event)) = self.queue.pop_until(now) {
                self.network.settle(&mut self.queue);
                let Event::FlowEnds(flow) = event else {
                    continue;
                };
                let Some(moved) = self.network.end(&mut self.queue, flow) else {
                    continue;
                };
                let (host, came) = of_tag[moved.tag as usize];
                match moved.next {
                    Next::Onward => is_busy[host as usize] = false,
                    Next::There if cycle >= cycles.0 => {
                        arrived += 1;
                        let delay = self.delays[moved.tag as usize];
                        let there = (moved.at + delay).picoseconds();
                        if came >= cycles.0 {
                            latency += there - came * CYCLE;
                            counted += 1;
                        }
                    }
                    _ => {}
                }
            }
            for host in 0..self.hosts {
                if is_busy[host as usize] {
                    continue;
                }
                let Some((came, to)) = waiting[host as usize].pop_front() else {
                    continue;
                };
                is_busy[host as usize] = true;
                let tag = of_tag.len();
                of_tag.push((host, came));
                let begun = self
                    .network
                    .begin(&mut self.queue, &transfer((host, to), FLIT, tag));
                self.delays.push(begun.delay);
            }
        }
        let span = (cycles.1 - cycles.0) * u64::from(self.hosts);
        Measured {
            accepted: arrived as f64 / span as f64,
            latency: latency as f64 / (counted * CYCLE) as f64,
        }
    }
}

/// Any but oneself.
fn any_other(hosts: u32) -> impl Fn(u32, &mut Stream) -> u32 {
    move |host, random| (host + 1 + random.below(u64::from(hosts - 1)) as u32) % hosts
}

#[test]
fn one_queue_an_input_is_blocked_by_its_head() {
    // Karol, Hluchyj and Morgan, 1987: 0.6018 of full load with 16 ports. BookSim2 has 0.6016.
    let switch = Topology::single_switch(16, Ports(64)).unwrap();
    let mut flits = Flits::new(
        switch,
        Rules {
            propagation: 0,
            switch: 0,
            ..ROOMY
        },
    );
    let measured = flits.run(1.0, (2_000, 42_000), any_other(16));
    assert!(
        (measured.accepted / 0.6018 - 1.0).abs() < 0.01,
        "{} flits a cycle and host",
        measured.accepted
    );
}

#[test]
fn a_router_of_four_cycles_has_the_zero_load_of_booksim2() {
    // Its figures are of uniform traffic with oneself, who is one router away: 27 cycles in a mesh
    // of 8x8, 22 in a torus, which is 4 cycles a router and 2 more.
    for (topology, expected) in [
        (Topology::mesh(&[8, 8], 1, Ports(64)).unwrap(), 27),
        (Topology::torus(&[8, 8], 1, Ports(64)).unwrap(), 22),
    ] {
        let topology = Arc::new(topology);
        let mut all = 64 * 6;
        for (from, to) in (0..64).flat_map(|from| (0..64).map(move |to| (from, to))) {
            if from != to {
                let mut network = network_of(&topology, ROOMY);
                let there = carry(&mut network, &[(0, transfer((from, to), FLIT, 0))]);
                all += there[0].0.picoseconds() / CYCLE;
            }
        }
        assert_eq!(all, expected * 64 * 64);
    }
}

#[test]
fn a_dragonfly_carries_what_its_one_link_to_the_next_group_does() {
    let dragonfly = || {
        Topology::dragonfly(DragonflyShape {
            hosts_per_switch: 2,
            switches_per_group: 4,
            global_links: 2,
            groups: 9,
        })
        .unwrap()
    };
    // All to the next group: 8 hosts share one link. BookSim2 has 0.1250 and, where 64 flits of
    // buffer go round in 200 cycles, 0.0400.
    let next_group =
        |host: u32, random: &mut Stream| (host / 8 + 1) % 9 * 8 + random.below(8) as u32;
    for (buffer, propagation, expected) in [(256, 98, 0.125), (64, 98, 0.04)] {
        let rules = Rules {
            channels: 2,
            classes: 2,
            buffer,
            propagation,
            speedup: 2,
            ..ROOMY
        };
        let mut flits = Flits::new(dragonfly(), rules);
        let measured = flits.run(0.5, (8_000, 16_000), next_group);
        assert!(
            (measured.accepted / expected - 1.0).abs() < 0.005,
            "{buffer} flits: {}",
            measured.accepted
        );
    }
    // Below that all comes through.
    let rules = Rules {
        channels: 2,
        classes: 2,
        buffer: 256,
        propagation: 98,
        ..ROOMY
    };
    let measured = Flits::new(dragonfly(), rules).run(0.1, (4_000, 12_000), next_group);
    assert!(
        (measured.accepted / 0.1 - 1.0).abs() < 0.01,
        "{}",
        measured.accepted
    );
}

#[test]
fn no_traffic_exceeds_what_its_busiest_channel_carries() {
    let mesh = || Topology::mesh(&[8, 8], 1, Ports(64)).unwrap();
    let torus = || Topology::torus(&[8, 8], 1, Ports(64)).unwrap();
    let ring = || Topology::torus(&[8], 1, Ports(64)).unwrap();
    // Uniform traffic without oneself loads links by 64/63 of what it does with it (Dally and
    // Towles, 2004, chapter 3): 4/k and 8/k flits a cycle and host.
    let others = 63.0 / 64.0;
    let tornado = |host: u32, _: &mut Stream| (host + 3) % 8;
    let classes = |classes: u32| Rules {
        channels: classes,
        classes,
        buffer: 16,
        ..ROOMY
    };
    let mesh = Flits::new(mesh(), classes(1))
        .run(1.0, (2_000, 6_000), any_other(64))
        .accepted;
    assert!(mesh <= 0.5 * others && mesh > 0.25, "{mesh}");
    let torus = Flits::new(torus(), classes(2))
        .run(1.0, (2_000, 6_000), any_other(64))
        .accepted;
    assert!(torus <= others && torus > 0.4, "{torus}");
    // Three links of a ring each, in one direction. Turns among inputs are no turns among flows, so
    // it is far from that before: those who come far have half of each link with those who begin.
    let below = Flits::new(ring(), classes(2))
        .run(0.15, (2_000, 20_000), tornado)
        .accepted;
    assert!((below / 0.15 - 1.0).abs() < 0.02, "{below}");
    let beyond = Flits::new(ring(), classes(2))
        .run(0.9, (2_000, 20_000), tornado)
        .accepted;
    assert!(beyond <= 1.0 / 3.0 && beyond > 0.15, "{beyond}");
    // Where the oldest goes first, those who come far are not behind at each switch.
    let by_age = Rules {
        arbitration: Arbitration::Age,
        ..classes(2)
    };
    let by_age = Flits::new(ring(), by_age)
        .run(0.9, (2_000, 20_000), tornado)
        .accepted;
    assert!(
        by_age <= 1.0 / 3.0 && by_age > 1.3 * beyond,
        "{by_age}, {beyond}"
    );
}

#[test]
fn little_traffic_hardly_waits() {
    // Zero load is 27 cycles with oneself, and 27 1/3 without.
    let mesh = Topology::mesh(&[8, 8], 1, Ports(64)).unwrap();
    let measured = Flits::new(mesh, ROOMY).run(0.02, (2_000, 12_000), any_other(64));
    let zero = (27.0 * 64.0 - 6.0) / 63.0;
    assert!(
        (measured.latency / zero - 1.0).abs() < 0.01,
        "{}",
        measured.latency
    );
}

/// Four switches in a ring whose hosts send to the one opposite, all clockwise: the buffers hold a
/// packet.
fn ring(classes: u32, flow_control: FlowControl) -> (Vec<Option<u64>>, Network) {
    let rules = Rules {
        flow_control,
        channels: classes,
        classes,
        buffer: 4,
        packet: 4,
        ..ROOMY
    };
    let messages: Vec<Message> = (0..4)
        .map(|host| Message {
            cycle: 0,
            ends: (host, (host + 2) % 4),
            flits: 400,
        })
        .collect();
    let topology = Topology::torus(&[4], 1, Ports(64)).unwrap();
    arrivals(topology, rules, &messages)
}

#[test]
fn a_ring_stands_still_and_says_so_and_a_dateline_ends_that() {
    for flow_control in [FlowControl::VirtualCutThrough, FlowControl::Wormhole] {
        let (there, network) = ring(1, flow_control);
        assert_eq!(there, [None; 4]);
        let deadlock = network.deadlock().unwrap();
        let topology = Topology::torus(&[4], 1, Ports(64)).unwrap();
        // The ring that all routes have is the one in which they wait.
        let viaduct_topology::Waiting::Ring(predicted) = topology.waiting(1) else {
            panic!("a ring is expected");
        };
        let mut found = deadlock.channels.clone();
        let at = found.iter().position(|it| *it == predicted[0]);
        found.rotate_left(at.unwrap_or(0));
        assert_eq!(found, predicted);
        let (there, network) = ring(2, flow_control);
        assert!(
            !there.contains(&None) && network.deadlock().is_none(),
            "{there:?}"
        );
        assert_eq!(topology.waiting(2), viaduct_topology::Waiting::Never);
    }
}

#[test]
fn a_ring_that_stands_still_is_found_among_others_that_move() {
    // Messages over a fifth switch go on for ever.
    let rules = Rules {
        buffer: 4,
        packet: 4,
        flow_control: FlowControl::VirtualCutThrough,
        ..ROOMY
    };
    let topology = Topology::torus(&[4], 2, Ports(64)).unwrap();
    let still = (0..4).map(|switch| (2 * switch, (2 * switch + 4) % 8));
    let moving = (0..4).map(|switch| (2 * switch + 1, 2 * switch));
    let mut messages: Vec<Message> = still
        .map(|ends| Message {
            cycle: 0,
            ends,
            flits: 400,
        })
        .collect();
    messages.extend(moving.map(|ends| Message {
        cycle: 0,
        ends,
        flits: 1_000_000,
    }));
    let (_, network) = arrivals(topology, rules, &messages);
    let deadlock = network.deadlock().unwrap();
    assert_eq!(deadlock.channels.len(), 4);
    // Before these have ended.
    assert!(
        deadlock.at.picoseconds() < 1_000_000 * CYCLE,
        "{}",
        deadlock.at.picoseconds()
    );
}
