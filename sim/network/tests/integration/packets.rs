//! Frames through queues, against closed forms and cases that are worked out by hand.
//!
//! Between hosts i and j of the chain a message crosses its host's link, the links between their
//! switches, and the other host's link: each hop costs 7 ns of cable and 50 ns of switch before a
//! frame is in the next queue. A byte takes 1 ns.

use viaduct_engine::{EventQueue, Stream, StreamKey, Time};
use viaduct_network::hops::End;
use viaduct_network::{
    Buffers, Frame, Network, Rate, SharedMemory, Sharing, Switching, Transfer, WhenFull,
};

use crate::common::{
    BYTE, NO_BUSES, PROPAGATION, SWITCH, carry, carry_with, framed, limited, transfer,
};

const HOP: u64 = PROPAGATION + SWITCH;

fn network(links: Switching, ends: End, payload: u32, header: u32) -> Network {
    let frame = Frame {
        payload_bytes: payload,
        header_bytes: header,
    };
    framed(Sharing::Packets, 4, links, ends, frame)
}

/// When the last byte of each is there, and when its first.
fn there(network: &mut Network, transfers: &[(u64, Transfer)]) -> Vec<(u64, u64)> {
    let both = |(tail, head): (Time, Time)| (tail.picoseconds(), head.picoseconds());
    carry(network, transfers).into_iter().map(both).collect()
}

#[test]
fn a_message_alone_takes_the_closed_form_to_the_picosecond() {
    for (payload, header) in [(1_500, 42), (4_086, 64), (64, 8)] {
        for bytes in [1, 63, 64, 1_500, 1_501, 20_000] {
            for hops in 1..4 {
                let frame = Frame {
                    payload_bytes: payload,
                    header_bytes: header,
                };
                let frames = frame.count(bytes);
                let last = bytes - (frames - 1) * u64::from(payload) + u64::from(header);
                let full = u64::from(payload + header);
                let links = u64::from(hops) + 2;
                let cables = links * PROPAGATION + (links - 1) * SWITCH;
                let wire = frame.wire_bytes(bytes);
                let one = [(0, transfer((0, hops), wire as u32, 0))];
                // Stored: each switch pays a frame, a full one if there is one.
                let stored = if frames == 1 { last } else { full };
                let by_hand = (wire + (links - 1) * stored) * BYTE + cables;
                let mut slow = network(Switching::StoreAndForward, NO_BUSES, payload, header);
                assert_eq!(there(&mut slow, &one)[0].0, by_hand, "{bytes} in {payload}");
                // Forwarded as they come: all bytes are paid once, as a fluid's.
                let by_hand = wire * BYTE + cables;
                let mut fast = network(Switching::CutThrough, NO_BUSES, payload, header);
                assert_eq!(there(&mut fast, &one)[0], (by_hand, cables));
            }
        }
    }
}

#[test]
fn a_frame_waits_for_those_that_came_before() {
    // They meet on the link between switches 1 and 2: the first one's frames come every 100 ns,
    // and the other's single one stands behind the second of them.
    let both = [
        (0, transfer((0, 3), 300, 0)),
        (HOP + 150 * BYTE, transfer((1, 2), 100, 1)),
    ];
    let mut network = network(Switching::CutThrough, NO_BUSES, 100, 0);
    let there = there(&mut network, &both);
    let to_2 = 2 * HOP;
    assert_eq!(
        there[1].0,
        to_2 + 200 * BYTE + 100 * BYTE + HOP + PROPAGATION
    );
    // The third frame comes when the other's one has the link, and ends when that is gone.
    assert_eq!(there[0].0, to_2 + 400 * BYTE + 2 * HOP + PROPAGATION);
}

#[test]
fn an_adapter_sends_a_frame_of_each_flow_in_turn() {
    // The long message began first, and the short one of another flow is not behind all of it.
    let mut short = transfer((0, 1), 100, 1);
    short.flow = 1;
    let both = [(0, transfer((0, 1), 1_000, 0)), (0, short)];
    let fresh = || network(Switching::CutThrough, NO_BUSES, 100, 0);
    let there_both = there(&mut fresh(), &both);
    let way = 2 * HOP + PROPAGATION;
    assert_eq!(there_both[1].0, 200 * BYTE + way);
    assert_eq!(there_both[0].0, 1_100 * BYTE + way);
    // Of one flow it is.
    let both = [
        (0, transfer((0, 1), 1_000, 0)),
        (0, transfer((0, 1), 100, 1)),
    ];
    assert_eq!(there(&mut fresh(), &both)[1].0, 1_100 * BYTE + way);
}

#[test]
fn frames_cross_both_buses_while_others_are_on_the_links() {
    // The buses are half as fast as the links; the message pays its bytes there, and the last bus
    // begins with a frame when its second half is all that the link still has of it.
    let ends = End {
        bus_rate: Rate::from_bits_per_second(4e9),
        forwarding: Switching::CutThrough,
        write: Time::ZERO,
    };
    let mut network = network(Switching::CutThrough, ends, 100, 0);
    let alone = there(&mut network, &[(0, transfer((0, 1), 1_000, 0))]);
    // 10 frames of 200 ns on a bus. The first leaves on the link when half of it is there.
    let way = 2 * HOP + PROPAGATION;
    assert_eq!(
        alone[0],
        (100 * BYTE + way + 2_000 * BYTE, 100 * BYTE + way)
    );
}

/// How long one-frame messages of 1 us wait that leave host 0 at random intervals for another host.
fn waits(to: u32) -> Vec<u64> {
    let mut network = network(Switching::CutThrough, NO_BUSES, 1_000, 0);
    let mut stream = Stream::new(StreamKey {
        seed: 7,
        purpose: 99,
        entity: 0,
    });
    let mut now = 0;
    let transfers: Vec<(u64, Transfer)> = (0..20_000)
        .map(|tag| {
            // 80 % of what a link carries.
            now += stream.below(2_500 * BYTE);
            (now, transfer((0, to), 1_000, tag))
        })
        .collect();
    let links = u64::from(to) + 2;
    let alone = 1_000 * BYTE + links * PROPAGATION + (links - 1) * SWITCH;
    let there = there(&mut network, &transfers);
    let of_each = transfers.iter().zip(&there);
    of_each
        .map(|((at, _), (tail, _))| tail - at - alone)
        .collect()
}

#[test]
fn links_behind_the_first_one_that_it_alone_feeds_add_no_waiting() {
    // Each waits for those before it on the first link, and for nobody after that.
    let one = waits(1);
    assert!(one.iter().filter(|wait| **wait > 0).count() > 5_000);
    assert_eq!(waits(3), one);
}

#[test]
fn windows_without_events_of_their_own_change_nothing() {
    let mut stream = Stream::new(StreamKey {
        seed: 3,
        purpose: 99,
        entity: 0,
    });
    let mut now = 0;
    let transfers: Vec<(u64, Transfer)> = (0..2_000)
        .map(|tag| {
            let ends = [(0, 3), (1, 3), (3, 0), (2, 1)][stream.below(4) as usize];
            let bytes = 1 + stream.below(6_000) as u32;
            now += stream.below(4_000) * BYTE;
            (now, transfer(ends, bytes, tag))
        })
        .collect();
    let holds = |full| Buffers {
        bytes_max: Some(20_000),
        full,
        ..Buffers::default()
    };
    let shared = Buffers {
        shared: Some(SharedMemory {
            bytes: 30_000,
            alpha: 1.0,
        }),
        ..Buffers::default()
    };
    let pause = WhenFull::Pause {
        headroom_bytes: None,
    };
    type Build<'a> = (&'a str, Box<dyn Fn() -> Network>);
    let networks: [Build<'_>; 4] = [
        (
            "framed",
            Box::new(|| network(Switching::CutThrough, NO_BUSES, 1_000, 40)),
        ),
        (
            "lost",
            Box::new(move || limited(4, holds(WhenFull::Drop), 1)),
        ),
        ("shared", Box::new(move || limited(4, shared, 1))),
        ("paused", Box::new(move || limited(4, holds(pause), 1))),
    ];
    for (name, build) in networks {
        let [all, spared] = [0, u64::MAX].map(|events| {
            let mut queue = EventQueue::new();
            queue.allow_spare(Time::MAX, events);
            let told = carry_with(&mut queue, &mut build(), &transfers);
            (told, queue.fired(), queue.pending_max())
        });
        assert!(all == spared, "{name}");
    }
}
