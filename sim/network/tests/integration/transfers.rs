//! What a network answers: sums where messages are stored, order, and ways that are kept.

use crate::common;
use proptest::prelude::*;
use viaduct_engine::{EventQueue, Time};
use viaduct_network::hops::End;
use viaduct_network::{Frame, Network, Rate, Sharing, Switching, Transfer};

use crate::common::{BYTE, Event, NO_BUSES, PROPAGATION, SWITCH, carry, transfer};

/// A chain of switches with a host each.
fn network(switches: u32, links: Switching, ends: End, keeps_ways: bool) -> Network {
    common::network(Sharing::MaxMin, switches, links, ends, keeps_ways)
}

#[test]
fn a_stored_message_takes_the_sum_of_its_hops() {
    // Four links, three switches between them.
    let ways = 4 * PROPAGATION + 3 * SWITCH;
    let both = [
        (Switching::CutThrough, 1000 * BYTE + ways),
        (Switching::StoreAndForward, 4 * 1000 * BYTE + ways),
    ];
    for (switching, expected) in both {
        let mut network = network(3, switching, NO_BUSES, false);
        let there = carry(&mut network, &[(0, transfer((0, 2), 1000, 0))]);
        assert_eq!(
            there[0].0,
            Time::from_picoseconds(expected),
            "{switching:?}"
        );
    }
}

#[test]
fn an_adapter_that_stores_pays_its_bus_by_itself() {
    let ends = End {
        bus_rate: Rate::from_bits_per_second(4e9),
        forwarding: Switching::StoreAndForward,
        write: Time::ZERO,
    };
    let mut network = network(2, Switching::CutThrough, ends, false);
    let there = carry(&mut network, &[(0, transfer((0, 1), 1000, 0))]);
    // The bus at each end, and three links at once.
    let expected = 2 * 2 * 1000 * BYTE + 1000 * BYTE + 3 * PROPAGATION + 2 * SWITCH;
    assert_eq!(there[0].0, Time::from_picoseconds(expected));
}

#[test]
fn messages_of_one_flow_do_not_overtake_at_a_switch() {
    let mut network = network(3, Switching::StoreAndForward, NO_BUSES, false);
    let long_and_short = [
        (0, transfer((0, 2), 10_000, 0)),
        // It begins when the first has left the sender, as one after another on a VI does.
        (10_000 * BYTE, transfer((0, 2), 10, 1)),
        (10_000 * BYTE + 20 * BYTE, transfer((0, 2), 10, 2)),
    ];
    let there = carry(&mut network, &long_and_short);
    assert!(there.is_sorted(), "{there:?}");
    assert!(there.iter().all(|(tail, _)| *tail < Time::MAX), "{there:?}");
    // The short one passes each switch right behind the long one.
    assert_eq!(there[1].0 - there[0].0, Time::from_picoseconds(10 * BYTE));
}

#[test]
fn a_short_message_overtakes_those_of_other_flows() {
    let mut network = network(3, Switching::StoreAndForward, NO_BUSES, false);
    let mut other = transfer((0, 2), 10, 1);
    other.flow = 1;
    let both = [(0, transfer((0, 2), 10_000, 0)), (10_000 * BYTE, other)];
    let there = carry(&mut network, &both);
    assert!(there[1].0 < there[0].0, "{there:?}");
}

fn any_transfers() -> impl Strategy<Value = Vec<(u64, Transfer)>> {
    let one = (
        0..20_000_000_u64,
        0..4_u32,
        0..4_u32,
        1..5_u32,
        any::<bool>(),
    );
    prop::collection::vec(one, 1..12).prop_map(|all| {
        let made = all.into_iter().enumerate();
        made.map(|(tag, (time, from, to, kilobytes, uses_buses))| {
            let mut transfer = transfer((from, to), kilobytes * 1000, tag);
            if !uses_buses {
                transfer.demand.scale = f64::INFINITY;
            }
            (time, transfer)
        })
        .collect()
    })
}

fn any_switching() -> impl Strategy<Value = Switching> {
    prop_oneof![
        Just(Switching::CutThrough),
        Just(Switching::StoreAndForward)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn keeping_ways_changes_nothing(
        transfers in any_transfers(), links in any_switching(), forwarding in any_switching(),
    ) {
        let bus_rate = Rate::from_bits_per_second(6e9);
        let ends = End {
            bus_rate,
            forwarding,
            write: Time::ZERO,
        };
        let [mut kept, mut not_kept] = [true, false].map(|keeps| network(4, links, ends, keeps));
        let there = carry(&mut kept, &transfers);
        prop_assert_eq!(&there, &carry(&mut not_kept, &transfers));
        // All arrive, no byte before the first.
        for (tail, head) in there {
            prop_assert!(tail < Time::MAX && (head <= tail || head == Time::MAX));
        }
    }

    #[test]
    fn a_lone_message_takes_what_is_told_of_it(
        bytes in 1..5_000_u32, from in 0..4_u32, to in 0..4_u32,
        links in any_switching(), forwarding in any_switching(),
    ) {
        let ends = End {
            bus_rate: Rate::from_bits_per_second(6e9),
            forwarding,
            write: Time::ZERO,
        };
        let mut network = network(4, links, ends, false);
        let transfer = transfer((from, to), bytes, 0);
        let alone = network.begin(&mut EventQueue::<Event>::new(), &transfer).alone;
        let mut again = self::network(4, links, ends, false);
        let there = carry(&mut again, &[(0, transfer)]);
        prop_assert_eq!(there[0].0, alone.moving + alone.delay);
    }
}

#[test]
fn what_crosses_no_bus_does_not_overtake_what_does_in_its_flow() {
    // The target's bus takes twice as long as the link.
    let ends = End {
        bus_rate: Rate::from_bits_per_second(4e9),
        ..NO_BUSES
    };
    let frame = Frame {
        payload_bytes: 100,
        header_bytes: 0,
    };
    let written = |tag, flow| {
        let mut transfer = transfer((0, 2), 10, tag);
        transfer.demand.scale = f64::INFINITY;
        transfer.flow = flow;
        transfer
    };
    let apart = [Sharing::Queues, Sharing::Packets, Sharing::Credits];
    let both = [Switching::CutThrough, Switching::StoreAndForward];
    for sharing in apart.into_iter().chain([Sharing::Fluid, Sharing::MaxMin]) {
        // Of flows that share links a message leaves its sender before it is there if it is stored.
        for switching in both
            .into_iter()
            .skip(usize::from(!apart.contains(&sharing)))
        {
            let mut network = common::framed(sharing, 3, switching, ends, frame);
            let messages = [
                (0, transfer((0, 2), 1000, 0)),
                (1500 * BYTE, written(1, 0)),
                (1900 * BYTE, written(2, 1)),
                (1950 * BYTE, transfer((0, 2), 10, 3)),
            ];
            let there = carry(&mut network, &messages);
            let tails = [0, 1, 3, 2].map(|it: usize| there[it].0);
            assert_eq!(tails[1], tails[0], "{sharing:?}, {switching:?}");
            // Of another flow it does.
            assert!(tails[3] < tails[0], "{sharing:?}, {switching:?}: {there:?}");
            assert!(
                tails[2] >= tails[1],
                "{sharing:?}, {switching:?}: {there:?}"
            );
        }
    }
}
