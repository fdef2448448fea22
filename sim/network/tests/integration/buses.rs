//! Several hosts of a network on one bus, as adapters of one machine are, where frames or packets
//! cross it one by one.

use std::sync::Arc;

use proptest::prelude::*;
use viaduct_engine::Time;
use viaduct_network::hops::End;
use viaduct_network::{FlowControl, Frame, Network, Rate, Sharing, Switching, Transfer};
use viaduct_topology::{Ports, Topology};

use crate::common::{BYTE, CUT_THROUGH, NO_BUSES, PROPAGATION, SWITCH, carry, links_of, transfer};

/// A level of the network; at credits whether whole frames find room, or their flits.
type Level = (Sharing, FlowControl);

const PACKETS: Level = (Sharing::Packets, FlowControl::VirtualCutThrough);
const CREDITS: Level = (Sharing::Credits, FlowControl::VirtualCutThrough);
const FLITS: Level = (Sharing::Credits, FlowControl::Wormhole);
const MAX_MIN: Level = (Sharing::MaxMin, FlowControl::VirtualCutThrough);

const FRAME_BYTES: u32 = 1_000;

/// The way of a first byte over the two links between hosts.
const WAY: u64 = 2 * PROPAGATION + SWITCH;

/// Hosts at one switch, so many of which are on a bus. A byte takes 1 ns on a link.
fn network(
    (sharing, flow_control): Level,
    (hosts, per_bus): (u32, u32),
    bus_bits_per_second: f64,
) -> Network {
    let frame = Frame {
        payload_bytes: FRAME_BYTES,
        header_bytes: 0,
    };
    let mut links = links_of(sharing, Switching::CutThrough, frame);
    links.credits.flow_control = flow_control;
    // Buses alone hold anybody up.
    links.credits.buffer_bytes = Some(1 << 20);
    let topology = Arc::new(Topology::single_switch(hosts, Ports(64)).unwrap());
    let ends = End {
        bus_rate: Rate::from_bits_per_second(bus_bits_per_second),
        ..NO_BUSES
    };
    let mut network = Network::new(&topology, &links, CUT_THROUGH, ends, false);
    network.share_buses(per_bus);
    network
}

/// When the last bytes of some transfers are there, picoseconds.
fn there(network: &mut Network, transfers: &[(u64, Transfer)]) -> Vec<u64> {
    let there = carry(network, transfers);
    there.iter().map(|(tail, _)| tail.picoseconds()).collect()
}

#[test]
fn frames_cross_a_bus_as_they_come_to_it_whichever_adapter_they_are_of() {
    // A byte takes twice as long on a bus as on a link: a frame is read in 2,000 ns, is on its link
    // in the last 1,000 of these, and is written in 2,000 from its first byte on.
    let alone = 3_000 * BYTE + WAY;
    let frame = |tag, ends| transfer(ends, FRAME_BYTES, tag);
    for level in [PACKETS, CREDITS] {
        let times = |sent: &[(u64, Transfer)]| there(&mut network(level, (6, 2), 4e9), sent);
        // Both are read at once, for targets on two buses, or on one.
        for to in [2, 4] {
            let both = [(0, frame(0, (0, 3))), (0, frame(1, (1, to)))];
            assert_eq!(times(&both), [alone, alone + 2_000 * BYTE], "{level:?}");
        }
        // What one adapter would read waits for what the other one writes, from 1,000 ns on.
        let both = [
            (0, frame(0, (2, 1))),
            (1_500 * BYTE + WAY, frame(1, (0, 4))),
        ];
        assert_eq!(times(&both), [alone, alone + alone], "{level:?}");
        // And the other way round: it is read until 2,500 ns.
        let both = [(0, frame(0, (2, 1))), (500 * BYTE + WAY, frame(1, (0, 4)))];
        let read = 500 * BYTE + WAY;
        let expected = [read + 4_000 * BYTE, read + alone];
        assert_eq!(times(&both), expected, "{level:?}");
    }
}

#[test]
fn adapters_that_send_or_receive_have_equal_parts_of_a_bus_as_flows_do() {
    let bytes = 500_000;
    // On buses that are slower than a link, and slower than all of them.
    for (adapters, gigabits) in [(2, 12.0), (2, 6.0), (3, 16.0), (4, 10.0)] {
        let hosts = adapters * (adapters + 1);
        // Each of one bus sends to another machine, or receives of one.
        let one_bus = |adapter| (adapter, adapters * (adapter + 1));
        let ends = [0, 1].map(|receives| {
            let ends = (0..adapters).map(one_bus);
            let turned = move |(one, other)| [(one, other), (other, one)][receives];
            ends.map(turned).collect::<Vec<_>>()
        });
        for ends in ends {
            let all = ends.iter().enumerate();
            let sent: Vec<_> = all
                .map(|(tag, &ends)| (0, transfer(ends, bytes, tag)))
                .collect();
            let times = |level| {
                there(
                    &mut network(level, (hosts, adapters), gigabits * 1e9),
                    &sent,
                )
            };
            let fluid = times(MAX_MIN)[0] as f64;
            let picoseconds = 8e3 / gigabits;
            let all = f64::from(adapters * bytes) * picoseconds;
            assert!((fluid - all - WAY as f64).abs() < 10.0);
            for level in [PACKETS, CREDITS, FLITS] {
                // The bus is never idle, and each has had its part when the last one has, but for a
                // frame of each other one.
                let frame = f64::from(FRAME_BYTES) * picoseconds;
                // A bus that is faster than the links may have read a frame ahead.
                let ahead = if gigabits > 8.0 { 2 } else { 1 };
                for time in times(level) {
                    let late = (time as f64 - fluid) / frame;
                    let expected = -f64::from((adapters - 1) * ahead) - 0.01..1.01;
                    assert!(
                        expected.contains(&late),
                        "{ends:?} at {gigabits}, {level:?}: {late} frames"
                    );
                }
            }
        }
    }
}

#[test]
fn a_shared_bus_is_one_bus_in_all_accounts() {
    for level in [PACKETS, CREDITS, FLITS] {
        let mut network = network(level, (6, 2), 4e9);
        let sent = [(0, 2), (1, 4), (5, 0)].map(|ends| (0, transfer(ends, 10_000, 0)));
        let sent: Vec<_> = (0..)
            .zip(sent)
            .map(|(tag, (time, mut transfer))| {
                transfer.demand.tag = tag;
                (time, transfer)
            })
            .collect();
        carry(&mut network, &sent);
        network.credit_all(Time::MAX);
        let carried = |host| {
            let bus = network.bus(host);
            (network.carried(bus), network.flows_max(bus))
        };
        let (bytes, waiting_max) = carried(0);
        assert!((bytes - 30_000.0).abs() < 1e-6, "{level:?}: {bytes}");
        assert!(waiting_max > 0, "{level:?}");
        assert_eq!(carried(0), carried(1));
        for host in [3, 5] {
            let (bytes, _) = carried(host);
            let expected = if host == 3 { 10_000.0 } else { 20_000.0 };
            assert!((bytes - expected).abs() < 1e-6, "{level:?}: {bytes}");
        }
    }
}

/// Transfers at some times between machines of three adapters, of which each uses one.
fn by_one_adapter() -> impl Strategy<Value = (Vec<(u64, Transfer)>, f64)> {
    let one = (
        0..30_u64,
        (0..4_u32, 1..4_u32),
        0..2_u32,
        1..6_000_u32,
        any::<bool>(),
    );
    let all = prop::collection::vec(one, 1..30);
    let uses = prop::array::uniform4(0..3_u32);
    let buses = prop::sample::select(vec![4e9, 6e9, 8e9, 12e9, 20e9]);
    (all, uses, buses).prop_map(|(all, uses, bus)| {
        let place = |machine: u32| 3 * machine + uses[machine as usize];
        let made =
            all.into_iter()
                .enumerate()
                .map(|(tag, (at, (from, to), flow, bytes, uses_buses))| {
                    let ends = (place(from), place((from + to) % 4));
                    let mut transfer = transfer(ends, bytes, tag);
                    transfer.flow = flow;
                    if !uses_buses {
                        transfer.demand.scale = f64::INFINITY;
                    }
                    (at * 500 * BYTE, transfer)
                });
        (made.collect(), bus)
    })
}

/// Transfers between machines of so many adapters, each of which sends one and receives one, or
/// none.
fn by_all_adapters() -> impl Strategy<Value = (Vec<(u64, Transfer)>, u32, f64)> {
    let one = (0..30_u64, prop_oneof![Just(0_u32), 1..30_000_u32]);
    let all = prop::collection::vec(one, 12);
    let targets = Just((0..12_u32).collect::<Vec<_>>()).prop_shuffle();
    let buses = prop::sample::select(vec![4e9, 6e9, 8e9, 12e9, 20e9]);
    (all, targets, 2..5_u32, buses).prop_map(|(all, targets, adapters, bus)| {
        let ends = (0..12).zip(targets);
        let all = ends
            .zip(all)
            .filter(|((from, to), (_, bytes))| from != to && *bytes > 0);
        let made = all
            .enumerate()
            .map(|(tag, (ends, (at, bytes)))| (at * 500 * BYTE, transfer(ends, bytes, tag)));
        (made.collect(), adapters, bus)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn packets_and_credits_share_a_bus_alike((transfers, adapters, bus) in by_all_adapters()) {
        let [packets, credits] = [PACKETS, CREDITS].map(|level| {
            carry(&mut network(level, (12, adapters), bus), &transfers)
        });
        prop_assert_eq!(packets, credits);
    }

    #[test]
    fn who_is_alone_on_a_bus_gets_the_times_of_its_own((transfers, bus) in by_one_adapter()) {
        for level in [PACKETS, CREDITS, FLITS] {
            let [own, shared] = [1, 3].map(|per_bus| {
                carry(&mut network(level, (12, per_bus), bus), &transfers)
            });
            prop_assert_eq!(own, shared, "{:?}", level);
        }
    }
}
