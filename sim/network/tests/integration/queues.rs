//! Output queues, each by itself, against cases that are worked out by hand.
//!
//! Between hosts i and j of the chain a message crosses its host's link, the links between their
//! switches, and the other host's link: each hop costs 7 ns of cable and 50 ns of switch before its
//! head is in the next queue. A byte takes 1 ns.

use crate::common;
use viaduct_engine::Time;
use viaduct_network::hops::End;
use viaduct_network::windows::LinkWindows;
use viaduct_network::{Arrival, Network, Rate, Sharing, Switching, Transfer};

use crate::common::{BYTE, NO_BUSES, PROPAGATION, SWITCH, carry, transfer};

const HOP: u64 = PROPAGATION + SWITCH;

fn network(links: Switching, ends: End) -> Network {
    common::network(Sharing::Queues, 4, links, ends, false)
}

/// When the last byte of each is there, and when its first.
fn there(links: Switching, ends: End, transfers: &[(u64, Transfer)]) -> Vec<(u64, u64)> {
    let there = carry(&mut network(links, ends), transfers);
    let picoseconds = |time: Time| time.picoseconds();
    let both = |(tail, head)| (picoseconds(tail), picoseconds(head));
    there.into_iter().map(both).collect()
}

fn cut_through(transfers: &[(u64, Transfer)]) -> Vec<(u64, u64)> {
    there(Switching::CutThrough, NO_BUSES, transfers)
}

#[test]
fn a_lone_message_pays_its_bytes_once_and_each_hop_its_delay() {
    for hops in 1..4 {
        let alone = cut_through(&[(0, transfer((0, hops), 1000, 0))]);
        let head = u64::from(hops + 2) * PROPAGATION + u64::from(hops + 1) * SWITCH;
        assert_eq!(alone, [(1000 * BYTE + head, head)], "{hops} hops");
    }
}

#[test]
fn two_messages_to_one_host_get_half_of_its_link_while_both_are_there() {
    // The nearer one enters the last queue two hops earlier.
    let both = [
        (0, transfer((0, 3), 1000, 0)),
        (0, transfer((2, 3), 1000, 1)),
    ];
    let there = cut_through(&both);
    // Alone for 2 HOP, then half: the nearer one has 1000 - 114 bytes left when the other comes.
    let near = 2 * HOP + 2 * HOP + 2 * (1000 * BYTE - 2 * HOP);
    // The other has as many bytes served then, and 114 left, alone again.
    let far = near + 2 * HOP;
    assert_eq!(there[1].0, near + PROPAGATION);
    assert_eq!(there[0].0, far + PROPAGATION);
}

#[test]
fn a_queue_shares_whatever_others_do_with_the_same_message() {
    // The long way meets one message on the second of its links and another on the last two, one
    // after the other. Each queue serves it within 3000 byte times, and none knows of the others.
    // A flow that crossed its way at once would take 4000.
    let three = [
        (0, transfer((0, 3), 2000, 0)),
        (HOP, transfer((1, 2), 1000, 1)),
        (2 * HOP + 1000 * BYTE, transfer((2, 3), 1000, 2)),
    ];
    let there = cut_through(&three);
    let head = 5 * PROPAGATION + 4 * SWITCH;
    assert_eq!(there[0].0, 3000 * BYTE + head);
    let head = 3 * PROPAGATION + 2 * SWITCH;
    assert_eq!(there[1].0, HOP + 2000 * BYTE + head);
    assert_eq!(there[2].0, 2 * HOP + 3000 * BYTE + head);
}

#[test]
fn a_queue_in_the_middle_holds_a_message_until_it_has_served_it() {
    // They meet between switches 1 and 2 alone, and come there at one time.
    let both = [
        (0, transfer((0, 2), 1000, 0)),
        (HOP, transfer((1, 3), 1000, 1)),
    ];
    let there = cut_through(&both);
    let to_2 = 4 * PROPAGATION + 3 * SWITCH;
    assert_eq!(there[0].0, 2000 * BYTE + to_2);
    assert_eq!(there[1].0, HOP + 2000 * BYTE + to_2);
}

#[test]
fn a_subqueue_is_first_in_first_out_and_one_share() {
    // Two messages of one flow, and one of another to the same host.
    let three = [
        (0, transfer((0, 1), 1000, 0)),
        (0, transfer((0, 1), 500, 1)),
        (0, transfer((2, 1), 1000, 2)),
    ];
    let there = cut_through(&three);
    // The two subqueues of the last queue get halves until the first has given 1000 bytes; then
    // the second message is served alone, whose head has waited there.
    let last = 2 * HOP;
    assert_eq!(there[0].0, last + 2000 * BYTE + PROPAGATION);
    assert_eq!(there[2].0, last + 2000 * BYTE + PROPAGATION);
    assert_eq!(there[1].0, last + 2500 * BYTE + PROPAGATION);
    assert_eq!(there[1].1, last + 2000 * BYTE + PROPAGATION);
}

#[test]
fn flows_of_other_numbers_or_classes_have_subqueues_of_their_own() {
    let mut number = transfer((0, 1), 1000, 1);
    number.flow = 1;
    let mut class = transfer((0, 1), 1000, 1);
    class.class = 1;
    for other in [number, class] {
        let there = cut_through(&[(0, transfer((0, 1), 1000, 0)), (0, other)]);
        let both = 2000 * BYTE + 2 * HOP + PROPAGATION;
        assert_eq!([there[0].0, there[1].0], [both; 2]);
    }
}

/// As an adapter sends bytes that the processor has written to it.
fn without_bus(mut transfer: Transfer) -> Transfer {
    transfer.demand.scale = f64::INFINITY;
    transfer
}

#[test]
fn what_does_not_cross_the_bus_is_in_a_subqueue_of_its_own_whoever_else_sends() {
    let ends = End {
        bus_rate: Rate::from_bits_per_second(8e9),
        ..NO_BUSES
    };
    let flow = [
        (0, transfer((0, 1), 1000, 0)),
        (10 * BYTE, without_bus(transfer((0, 1), 500, 1))),
    ];
    let alone = there(Switching::CutThrough, ends, &flow);
    // These have nothing to be served, and are on their way as long.
    let others = [
        (0, transfer((0, 3), 0, 2)),
        (0, without_bus(transfer((0, 2), 0, 3))),
    ];
    let all = [others, flow].concat();
    let beside = there(Switching::CutThrough, ends, &all);
    assert_eq!(beside[..2], alone);
}

#[test]
fn what_is_stored_enters_a_queue_with_its_last_byte() {
    // The second has been stored at switch 1 when half of the first has crossed the link behind it:
    // halves until the first has gone, and the second has 500 bytes left.
    let both = [
        (500 * BYTE, transfer((0, 2), 1000, 0)),
        (HOP + 2000 * BYTE, transfer((1, 3), 1000, 1)),
    ];
    let there = there(Switching::StoreAndForward, NO_BUSES, &both);
    assert_eq!(there[0].0, 3 * HOP + 5000 * BYTE + PROPAGATION);
    assert_eq!(there[1].0, 4 * HOP + 6500 * BYTE + PROPAGATION);
}

#[test]
fn no_message_is_faster_than_its_slowest_queue() {
    // A bus of a quarter of the links' rate, before them and behind them.
    let ends = End {
        bus_rate: Rate::from_bits_per_second(2e9),
        forwarding: Switching::CutThrough,
        write: Time::ZERO,
    };
    let alone = there(
        Switching::CutThrough,
        ends,
        &[(0, transfer((0, 1), 1000, 0))],
    );
    assert_eq!(alone[0].0, 4000 * BYTE + 3 * PROPAGATION + 2 * SWITCH);
    // And no faster than its adapters.
    let mut slow = transfer((0, 1), 1000, 0);
    slow.demand.rate_max = 1e-4;
    let alone = cut_through(&[(0, slow)]);
    assert_eq!(alone[0].0, 10_000 * BYTE + 3 * PROPAGATION + 2 * SWITCH);
}

#[test]
fn windows_have_what_a_link_had_left_to_serve_while_messages_met() {
    // They meet between switches 2 and 3, and on the last link. The one that is two hops nearer has
    // got 114 bytes when the other comes, if its bytes need not have come. If they must, half of
    // what comes waits from then on at the first of the two, and the second passes on what comes.
    let both = [
        (0, transfer((0, 3), 1000, 0)),
        (0, transfer((2, 3), 1000, 1)),
    ];
    let apart = 2 * HOP / BYTE;
    for (arrival, most, links) in [
        (Arrival::Free, 2000 - apart, 2),
        (Arrival::Limits, 1000 - apart, 1),
    ] {
        let mut network = common::queues(arrival, 4);
        let topology = common::chain(4);
        let end = Time::from_nanoseconds(10_000);
        let mut windows = LinkWindows::new(&network, &topology, end);
        carry(&mut network, &both);
        windows.close(&mut network, end);
        // What nobody has met leaves no trace.
        windows.close(&mut network, end + end);
        let shared = network.way((2, 3), 0)[1..][..links].to_vec();
        let mut expected: Vec<_> = shared.iter().map(|link| (link.0, end, most)).collect();
        expected.sort_unstable();
        let rows = windows.take_queues();
        let of_link = rows.iter().map(|row| (row.link, row.end, row.bytes_max));
        assert_eq!(of_link.collect::<Vec<_>>(), expected, "{arrival:?}");
        for link in shared {
            assert_eq!(network.queue_max_bytes(link.into()), most, "{arrival:?}");
        }
    }
}
