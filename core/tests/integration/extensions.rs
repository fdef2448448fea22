//! What goes beyond the VI Architecture: flow control and request splitting, off by default.

use ReliabilityLevel::{ReliableDelivery, ReliableReception, Unreliable};
use std::collections::VecDeque;

use crate::common::*;
use proptest::prelude::*;
use viaduct_core::*;

const LEVELS: [ReliabilityLevel; 3] = [Unreliable, ReliableDelivery, ReliableReception];

fn pair(level: ReliabilityLevel, flow_control: bool, request_splitting: bool) -> Pair {
    Pair::connected_with(|attributes| {
        attributes.reliability = level;
        attributes.rdma_write = true;
        attributes.extensions = Extensions {
            flow_control,
            request_splitting,
        };
    })
}

fn send(pair: &mut Pair, length: u32, cookie: u64) {
    let message = pair.hosts[0].one(0, length);
    pair.post_send(0, message, cookie);
}

fn receive(pair: &mut Pair, offset: u64, capacity: u32, cookie: u64) {
    let buffer = pair.hosts[1].one(offset, capacity);
    pair.post_receive(1, buffer, cookie);
}

fn ready(pair: &mut Pair) -> Vec<ViId> {
    std::iter::from_fn(|| pair.hosts[0].nic.poll_ready()).collect()
}

#[test]
fn a_send_waits_until_the_peer_has_posted_a_receive() {
    for level in LEVELS {
        let mut pair = pair(level, true, false);
        let vi = pair.vis[0];
        for cookie in 0..3 {
            send(&mut pair, 10, cookie);
        }
        assert_eq!(pair.deliver(0), []);
        assert_eq!(pair.send_done(0), Done::NotDone);
        assert_eq!(ready(&mut pair), []);
        receive(&mut pair, 0, 10, 0);
        receive(&mut pair, 0, 10, 1);
        pair.carry();
        assert_eq!(ready(&mut pair), [vi]);
        assert_eq!(pair.deliver(0), []);
        assert_eq!(pair.drain(0)[0], [(0, 1), (1, 1)]);
        assert_eq!(pair.drain(1)[1], [(0, 0x0001_0001), (1, 0x0001_0001)]);
        receive(&mut pair, 0, 10, 2);
        pair.carry();
        assert_eq!(ready(&mut pair), [vi], "named again");
        assert_eq!(pair.deliver(0), []);
        assert_eq!(pair.drain(0)[0], [(2, 1)]);
        assert_eq!(pair.hosts[1].events(), []);
    }
}

#[test]
fn receives_posted_before_the_connection_count() {
    let mut pair = Pair::unconnected();
    pair.change_attributes(|attributes| attributes.extensions.flow_control = true);
    for side in 0..2 {
        let buffer = pair.hosts[side].one(0, 10);
        pair.post_receive(side, buffer, 0);
    }
    pair.connect();
    for side in 0..2 {
        for cookie in 0..2 {
            let message = pair.hosts[side].one(0, 10);
            pair.post_send(side, message, cookie);
        }
        assert_eq!(pair.deliver(side), []);
        assert_eq!(pair.drain(side)[0], [(0, 1)], "one receive, one message");
    }
}

#[test]
fn a_write_without_immediate_data_needs_no_receive() {
    let mut pair = pair(Unreliable, true, false);
    let write = Descriptor::rdma_write(pair.hosts[1].remote(0), &[], 1);
    let (nic, vi) = (&mut pair.hosts[0].nic, pair.vis[0]);
    nic.post_send(vi, write.clone()).unwrap();
    nic.post_send(vi, write.with_immediate(5)).unwrap();
    assert_eq!(pair.deliver(0), []);
    assert_eq!(pair.drain(0)[0].len(), 1);
    receive(&mut pair, 0, 0, 0);
    pair.carry();
    assert_eq!(pair.deliver(0), []);
    assert_eq!(pair.drain(0)[0].len(), 1);
}

#[test]
fn a_send_that_waits_is_flushed_with_its_connection() {
    let mut pair = pair(ReliableDelivery, true, false);
    send(&mut pair, 10, 7);
    assert_eq!(pair.deliver(0), []);
    pair.hosts[1].nic.disconnect(pair.vis[1]).unwrap();
    pair.carry();
    assert_eq!(pair.drain(0)[0], [(7, 0x21)]);
    // What was told of an earlier connection counts no more.
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    pair.connect();
    send(&mut pair, 10, 8);
    assert_eq!(pair.deliver(0), []);
    assert_eq!(pair.send_done(0), Done::NotDone);
}

#[test]
fn one_end_may_have_flow_control_alone() {
    let mut pair = Pair::unconnected();
    let attributes = ViAttributes {
        extensions: Extensions {
            flow_control: true,
            ..Extensions::NONE
        },
        ..pair.hosts[0].attributes()
    };
    let nic = &mut pair.hosts[0].nic;
    nic.set_vi_attributes(pair.vis[0], attributes).unwrap();
    pair.connect();
    send(&mut pair, 1, 0);
    assert_eq!(pair.deliver(0), []);
    assert_eq!(pair.send_done(0), Done::NotDone);
    let message = pair.hosts[1].one(0, 1);
    pair.post_send(1, message, 0);
    assert_eq!(pair.deliver(1), [DropReason::NoDescriptor]);
}

#[test]
fn a_long_message_goes_on_in_the_following_receives() {
    for level in LEVELS {
        for flow_control in [false, true] {
            let mut pair = pair(level, flow_control, true);
            for offset in 0..25 {
                pair.hosts[0].memory[offset] = offset as u8 + 1;
            }
            for (offset, capacity, cookie) in [(100, 10, 0), (200, 0, 1), (300, 20, 2)] {
                receive(&mut pair, offset, capacity, cookie);
            }
            receive(&mut pair, 400, 25, 3);
            pair.carry();
            let message = Descriptor::send(pair.hosts[0].one(0, 25), 0).with_immediate(9);
            pair.hosts[0].nic.post_send(pair.vis[0], message).unwrap();
            send(&mut pair, 25, 1);
            assert_eq!(pair.deliver(0), []);
            assert_eq!(pair.drain(0)[0], [(0, 1), (1, 1)]);
            let completions: Vec<_> =
                std::iter::from_fn(|| pair.receive_done(1).completion()).collect();
            let parts: Vec<_> = completions
                .iter()
                .map(|c| (c.cookie, c.status.bits(), c.length, c.immediate))
                .collect();
            assert_eq!(
                parts,
                [
                    (0, 0x0011_0001, 10, None),
                    (1, 0x0011_0001, 0, None),
                    (2, 0x0009_0001, 15, Some(9)),
                    (3, 0x0001_0001, 25, None),
                ]
            );
            let memory = &pair.hosts[1].memory;
            let bytes: Vec<u8> = (1..=25).collect();
            assert_eq!(memory[100..111], [&bytes[..10], &[0]].concat());
            assert_eq!(memory[300..316], [&bytes[10..], &[0]].concat());
            assert_eq!(memory[400..425], bytes);
        }
    }
}

#[test]
fn a_message_longer_than_all_receives_is_too_long_for_the_first() {
    for level in LEVELS {
        let mut pair = pair(level, false, true);
        receive(&mut pair, 0, 10, 0);
        receive(&mut pair, 0, 10, 1);
        send(&mut pair, 21, 0);
        assert_eq!(pair.deliver(0), [DropReason::TooLong]);
        let receives = pair.drain(1)[1].clone();
        assert_eq!(receives[0], (0, 0x0001_0009));
        let breaks = level.is_reliable();
        assert_eq!(receives.len(), if breaks { 2 } else { 1 });
        let told = level == ReliableReception;
        assert_eq!(pair.drain(0)[0], [(0, if told { 0x101 } else { 1 })]);
    }
}

#[test]
fn with_flow_control_a_split_message_waits_for_all_its_receives() {
    let mut pair = pair(ReliableReception, true, true);
    send(&mut pair, 21, 0);
    for cookie in 0..3 {
        assert_eq!(pair.deliver(0), []);
        assert_eq!(pair.send_done(0), Done::NotDone);
        receive(&mut pair, 0, 10, cookie);
        pair.carry();
    }
    assert_eq!(pair.deliver(0), []);
    assert_eq!(pair.drain(0)[0], [(0, 1)]);
    assert_eq!(
        pair.drain(1)[1],
        [(0, 0x0011_0001), (1, 0x0011_0001), (2, 0x0001_0001)]
    );
}

#[test]
fn a_bad_receive_spoils_the_message_that_takes_it() {
    // Those beside it are taken too, since the sender counts on it.
    let mut pair = pair(Unreliable, true, true);
    receive(&mut pair, 0, 10, 0);
    receive(&mut pair, MEMORY_BYTES - 5, 10, 1);
    receive(&mut pair, 0, 10, 2);
    receive(&mut pair, 0, 10, 3);
    pair.carry();
    send(&mut pair, 30, 0);
    send(&mut pair, 10, 1);
    send(&mut pair, 10, 2);
    assert_eq!(pair.deliver(0), [DropReason::Protection]);
    assert_eq!(
        pair.drain(1)[1],
        [
            (0, 0x0001_0011),
            (1, 0x0001_0005),
            (2, 0x0001_0011),
            (3, 0x0001_0001)
        ]
    );
    assert_eq!(pair.drain(0)[0], [(0, 1), (1, 1)], "the third waits");
    assert!(pair.hosts[1].memory.iter().all(|byte| *byte == 0));
}

#[test]
fn a_split_message_cut_short_shows_where() {
    let cases = [
        (
            ReceiveOutcome::CutShort { placed_bytes: 14 },
            [(0x0011_0001, 10), (0x0001_0011, 4), (0x0001_0011, 0)],
        ),
        (
            ReceiveOutcome::CutShort { placed_bytes: 10 },
            [(0x0011_0001, 10), (0x0001_0011, 0), (0x0001_0011, 0)],
        ),
        (
            ReceiveOutcome::Corrupt,
            [(0x0001_0041, 0), (0x0001_0041, 0), (0x0001_0041, 0)],
        ),
    ];
    for (outcome, expected) in cases {
        let mut pair = pair(Unreliable, false, true);
        let (sender, target) = (pair.vis[0], pair.vis[1]);
        for cookie in 0..3 {
            receive(&mut pair, 0, 10, cookie);
        }
        send(&mut pair, 25, 0);
        let started = pair.hosts[0].nic.start_send(sender).unwrap();
        let nic = &mut pair.hosts[1].nic;
        let ReceiveVerdict::Place(receive) = nic.start_receive(target, &started.header) else {
            panic!("refused")
        };
        assert_eq!(receive.receives, 3);
        assert!(nic.finish_receive(target, receive.work, outcome));
        assert!(!nic.finish_receive(target, receive.work, outcome));
        let parts: Vec<_> = std::iter::from_fn(|| nic.receive_done(target).completion())
            .map(|c| (c.status.bits(), c.length))
            .collect();
        assert_eq!(parts, expected);
    }
}

#[test]
fn a_split_message_under_way_is_flushed_whole() {
    let mut pair = pair(Unreliable, false, true);
    let (sender, target) = (pair.vis[0], pair.vis[1]);
    for cookie in 0..3 {
        receive(&mut pair, 0, 10, cookie);
    }
    send(&mut pair, 25, 0);
    let started = pair.hosts[0].nic.start_send(sender).unwrap();
    let nic = &mut pair.hosts[1].nic;
    assert!(matches!(
        nic.start_receive(target, &started.header),
        ReceiveVerdict::Place(_)
    ));
    nic.disconnect(target).unwrap();
    assert_eq!(
        pair.drain(1)[1],
        [(0, 0x0001_0021), (1, 0x0001_0021), (2, 0x0001_0021)]
    );
}

proptest! {
    #[test]
    fn with_both_nothing_is_lost_and_nothing_waits_without_need(
        // Sends of so many bytes, receives of so many.
        steps in prop::collection::vec((any::<bool>(), 0_u32..40), 1..60)
    ) {
        let mut pair = pair(ReliableDelivery, true, true);
        for (index, byte) in pair.hosts[0].memory.iter_mut().enumerate() {
            *byte = (index % 251) as u8;
        }
        let mut waiting = VecDeque::new();
        let mut free = VecDeque::new();
        // What the receives must hold in the end: cookie, continues, bytes.
        let mut expected = Vec::new();
        for (cookie, (is_send, bytes)) in (0_u64..).zip(steps) {
            if is_send {
                send(&mut pair, bytes, cookie);
                waiting.push_back(bytes);
            } else {
                receive(&mut pair, cookie * 64, bytes, cookie);
                free.push_back((cookie, bytes));
            }
            pair.carry();
            prop_assert_eq!(pair.deliver(0), []);
            while let Some(&length) = waiting.front() {
                let room: u32 = free.iter().map(|(_, capacity)| capacity).sum();
                if free.is_empty() || room < length {
                    break;
                }
                waiting.pop_front();
                let mut rest = length;
                loop {
                    let (cookie, capacity) = free.pop_front().unwrap();
                    let part = rest.min(capacity);
                    rest -= part;
                    expected.push((cookie, rest > 0, part));
                    if rest == 0 {
                        break;
                    }
                }
            }
        }
        let received: Vec<_> = std::iter::from_fn(|| pair.receive_done(1).completion())
            .map(|c| (c.cookie, c.status.contains(Status::CONTINUES), c.length))
            .collect();
        prop_assert_eq!(&received, &expected);
        let mut offset = 0;
        for (cookie, continues, length) in received {
            let (start, length) = (cookie as usize * 64, length as usize);
            let sent = &pair.hosts[0].memory[offset..offset + length];
            prop_assert_eq!(&pair.hosts[1].memory[start..start + length], sent);
            // Every message begins at the start of the sender's memory.
            offset = if continues { offset + length } else { 0 };
        }
        prop_assert_eq!(pair.states(), [ViState::Connected; 2]);
        prop_assert_eq!(pair.hosts[1].events(), []);
    }
}
