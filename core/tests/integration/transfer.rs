//! Conformance cases of the C interface that concern transfers, at this level: unreliable delivery.
//! Each test names the cases it covers.

use crate::common::*;
use viaduct_core::*;

const SENT: u32 = 0x0000_0001;
const RECEIVED: u32 = 0x0001_0001;
const RECEIVED_IMMEDIATE: u32 = 0x0009_0001;

#[test]
fn receives_posted_while_idle_take_messages_in_post_order() {
    // Case 23.
    let mut pair = Pair::unconnected();
    for cookie in 0..8 {
        let buffer = pair.hosts[1].one(cookie * 100, 100);
        pair.post_receive(1, buffer, cookie);
    }
    pair.connect();
    for cookie in 0..8 {
        pair.hosts[0].memory[cookie as usize] = 10 + cookie as u8;
        let message = pair.hosts[0].one(cookie, 1);
        pair.post_send(0, message, cookie);
    }
    assert_eq!(pair.deliver(0), []);
    let [_, receives] = pair.drain(1);
    let expected: Vec<_> = (0..8).map(|cookie| (cookie, RECEIVED)).collect();
    assert_eq!(receives, expected);
    for cookie in 0..8 {
        assert_eq!(pair.hosts[1].memory[cookie * 100], 10 + cookie as u8);
    }
}

#[test]
fn messages_of_every_length_arrive_whole() {
    // Case 24.
    let mut pair = Pair::connected();
    let pattern: Vec<u8> = (0..MEMORY_BYTES).map(|i| (i * 31 % 251) as u8).collect();
    pair.hosts[0].memory.copy_from_slice(&pattern);
    for length in [0, 1, 63, 64, 4095, 4096, 32_768, TRANSFER_BYTES_MAX] {
        let buffer = pair.hosts[1].one(0, TRANSFER_BYTES_MAX);
        pair.post_receive(1, buffer, 1);
        let message = pair.hosts[0].one(7, length);
        pair.post_send(0, message, 2);
        assert_eq!(pair.deliver(0), []);
        let sent = pair.send_done(0).completion().unwrap();
        assert_eq!((sent.cookie, sent.status.bits()), (2, SENT));
        assert_eq!((sent.length, sent.immediate), (length, None));
        let received = pair.receive_done(1).completion().unwrap();
        assert_eq!((received.cookie, received.status.bits()), (1, RECEIVED));
        assert_eq!((received.length, received.immediate), (length, None));
        let length = length as usize;
        assert_eq!(pair.hosts[1].memory[..length], pattern[7..7 + length]);
    }
}

#[test]
fn a_message_without_segments_is_a_signal() {
    let mut pair = Pair::connected();
    pair.post_receive(1, Segments::none(), 1);
    pair.post_receive(1, Segments::none(), 2);
    let signal = Descriptor::send(Segments::none(), 3);
    pair.hosts[0]
        .nic
        .post_send(pair.vis[0], signal.clone())
        .unwrap();
    pair.hosts[0]
        .nic
        .post_send(pair.vis[0], signal.with_immediate(9))
        .unwrap();
    assert_eq!(pair.deliver(0), []);
    assert_eq!(pair.drain(0)[0], [(3, SENT), (3, SENT)]);
    assert_eq!(pair.drain(1)[1], [(1, RECEIVED), (2, RECEIVED_IMMEDIATE)]);
}

#[test]
fn immediate_data_arrives_only_with_the_message_that_has_it() {
    // Cases 25, 26: what the receive descriptor held before does not show.
    let mut pair = Pair::connected();
    for cookie in 0..2 {
        let receive = Descriptor::receive(pair.hosts[1].one(0, 8), cookie).with_immediate(77);
        pair.hosts[1]
            .nic
            .post_receive(pair.vis[1], receive)
            .unwrap();
    }
    let message = Descriptor::send(pair.hosts[0].one(0, 8), 0);
    pair.hosts[0]
        .nic
        .post_send(pair.vis[0], message.clone().with_immediate(0))
        .unwrap();
    pair.hosts[0].nic.post_send(pair.vis[0], message).unwrap();
    pair.deliver(0);
    let first = pair.receive_done(1).completion().unwrap();
    assert_eq!(
        (first.status.bits(), first.immediate),
        (RECEIVED_IMMEDIATE, Some(0))
    );
    let second = pair.receive_done(1).completion().unwrap();
    assert_eq!((second.status.bits(), second.immediate), (RECEIVED, None));
}

#[test]
fn bytes_are_gathered_and_scattered_in_order_and_nothing_else_changes() {
    // Cases 27, 28.
    let mut pair = Pair::connected();
    let pattern: Vec<u8> = (0..=255).cycle().take(MEMORY_BYTES as usize).collect();
    pair.hosts[0].memory.copy_from_slice(&pattern);
    pair.hosts[1].memory.fill(0xEE);
    let source = &pair.hosts[0];
    let message = [
        source.data(500, 30),
        source.data(0, 0),
        source.data(10, 7),
        source.data(200, 25),
    ];
    let target = &pair.hosts[1];
    let pieces = [
        target.data(1000, 5),
        target.data(2000, 0),
        target.data(3000, 50),
    ];
    let mut expected = vec![0xEE; MEMORY_BYTES as usize];
    let bytes: Vec<u8> = [&pattern[500..530], &pattern[10..17], &pattern[200..225]].concat();
    let last = target.data(4000, 20);
    expected[1000..1005].copy_from_slice(&bytes[..5]);
    expected[3000..3050].copy_from_slice(&bytes[5..55]);
    expected[4000..4007].copy_from_slice(&bytes[55..]);
    pair.post_receive(
        1,
        Segments::from_slice(&[pieces[0], pieces[1], pieces[2], last]),
        0,
    );
    pair.post_send(0, Segments::from_slice(&message), 0);
    assert_eq!(pair.deliver(0), []);
    assert_eq!(pair.receive_done(1).completion().unwrap().length, 62);
    assert!(pair.hosts[1].memory == expected);
}

#[test]
fn an_empty_queue_is_told_from_a_pending_one() {
    // Cases 29, 30, 33: a descriptor posted again is pending again.
    let mut pair = Pair::connected();
    assert_eq!(pair.receive_done(1), Done::Empty);
    assert_eq!(pair.send_done(1), Done::Empty);
    for _ in 0..2 {
        let buffer = pair.hosts[1].one(0, 8);
        pair.post_receive(1, buffer, 4);
        assert_eq!(pair.receive_done(1), Done::NotDone);
        let message = pair.hosts[0].one(0, 8);
        pair.post_send(0, message, 5);
        assert_eq!(pair.send_done(0), Done::NotDone);
        pair.deliver(0);
        assert_eq!(pair.drain(0)[0], [(5, SENT)]);
        assert_eq!(pair.drain(1)[1], [(4, RECEIVED)]);
        assert_eq!(pair.receive_done(1), Done::Empty);
    }
}

#[test]
fn a_hundred_sends_complete_in_post_order_though_finished_backwards() {
    // Case 35.
    let mut pair = Pair::connected();
    for cookie in 0..100 {
        let message = pair.hosts[0].one(cookie, 1);
        pair.post_send(0, message, cookie);
    }
    let (nic, vi) = (&mut pair.hosts[0].nic, pair.vis[0]);
    let mut works: Vec<_> = std::iter::from_fn(|| nic.start_send(vi))
        .map(|send| send.work)
        .collect();
    assert_eq!(works.len(), 100);
    while let Some(work) = works.pop() {
        assert_eq!(nic.send_done(vi), Done::NotDone);
        assert!(nic.finish_send(vi, work, SendOutcome::Sent));
        assert!(!nic.finish_send(vi, work, SendOutcome::Sent), "once only");
    }
    let expected: Vec<_> = (0..100).map(|cookie| (cookie, SENT)).collect();
    assert_eq!(pair.drain(0)[0], expected);
}

#[test]
fn messages_that_arrive_together_complete_in_the_order_of_their_receives() {
    let mut pair = Pair::connected();
    for cookie in 0..2 {
        let buffer = pair.hosts[1].one(0, 8);
        pair.post_receive(1, buffer, cookie);
        let message = pair.hosts[0].one(0, 8);
        pair.post_send(0, message, cookie);
    }
    let (sender, receiver) = (pair.vis[0], pair.vis[1]);
    let mut works = Vec::new();
    while let Some(send) = pair.hosts[0].nic.start_send(sender) {
        match pair.hosts[1].nic.start_receive(receiver, &send.header) {
            ReceiveVerdict::Place(receive) => works.push(receive.work),
            ReceiveVerdict::Drop(reason) => panic!("dropped: {reason:?}"),
        }
    }
    let nic = &mut pair.hosts[1].nic;
    assert!(nic.finish_receive(receiver, works[1], ReceiveOutcome::Placed));
    assert_eq!(nic.receive_done(receiver), Done::NotDone);
    assert!(nic.finish_receive(receiver, works[0], ReceiveOutcome::Placed));
    assert!(!nic.finish_receive(receiver, works[0], ReceiveOutcome::Placed));
    assert_eq!(pair.drain(1)[1], [(0, RECEIVED), (1, RECEIVED)]);
}

/// Posts a bad send and a good one; the status of the bad one. Nothing of it may arrive.
fn bad_then_good(pair: &mut Pair, bad: Descriptor) -> u32 {
    let buffer = pair.hosts[1].one(0, TRANSFER_BYTES_MAX);
    pair.post_receive(1, buffer, 1);
    let bad = Descriptor { cookie: 2, ..bad };
    pair.hosts[0].nic.post_send(pair.vis[0], bad).unwrap();
    let good = pair.hosts[0].one(0, 5);
    pair.post_send(0, good, 3);
    assert_eq!(pair.deliver(0), []);
    let received = pair.receive_done(1).completion().unwrap();
    assert_eq!(
        (received.cookie, received.status.bits(), received.length),
        (1, RECEIVED, 5)
    );
    assert_eq!(pair.states(), [ViState::Connected; 2]);
    let [sends, _] = pair.drain(0);
    assert_eq!(sends[1], (3, SENT));
    assert_eq!((sends.len(), sends[0].0), (2, 2));
    sends[0].1
}

#[test]
fn a_send_of_the_wrong_length_completes_in_error_and_the_next_goes_on() {
    // Cases 36, 46.
    let mut pair = Pair::connected();
    let message = Descriptor::send(pair.hosts[0].one(0, 10), 0);
    for length in [0, 9, 11] {
        let bad = Descriptor {
            length,
            ..message.clone()
        };
        assert_eq!(bad_then_good(&mut pair, bad), 0x0000_0009);
    }
    let long = Descriptor::send(pair.hosts[0].one(0, TRANSFER_BYTES_MAX + 1), 0);
    assert_eq!(bad_then_good(&mut pair, long), 0x0000_0009);
    let data = pair.hosts[0].data(0, MEMORY_BYTES as u32);
    let segments = Segments::from_slice(&[data; 200]);
    assert_eq!(
        bad_then_good(&mut pair, Descriptor::send(segments, 0)),
        0x0000_0009
    );
}

#[test]
fn a_malformed_send_completes_in_error_and_the_next_goes_on() {
    // Cases 37, 46.
    let mut pair = Pair::connected();
    let message = Descriptor::send(pair.hosts[0].one(0, 10), 0);
    for (operation, status) in [
        (Operation::Illegal, 0x0000_0003),
        (Operation::RdmaWrite, 0x0002_0003),
        (Operation::RdmaRead, 0x0004_0003),
    ] {
        let bad = Descriptor {
            operation,
            ..message.clone()
        };
        assert_eq!(bad_then_good(&mut pair, bad), status);
    }
    let limit = pair.hosts[0].nic.attributes().max_segments_per_descriptor as usize;
    let segment = pair.hosts[0].data(0, 1);
    let past = Descriptor::send(Segments::from_slice(&vec![segment; limit + 1]), 0);
    assert_eq!(bad_then_good(&mut pair, past), 0x0000_0003);
    let buffer = pair.hosts[1].one(0, 1000);
    pair.post_receive(1, buffer, 0);
    pair.post_send(0, Segments::from_slice(&vec![segment; limit]), 0);
    assert_eq!(pair.deliver(0), [], "as many segments as allowed");
    assert_eq!(
        pair.receive_done(1).completion().unwrap().length as usize,
        limit
    );
}

#[test]
fn a_malformed_receive_completes_in_error_and_the_next_goes_on() {
    // Case 37.
    let mut pair = Pair::connected();
    let buffer = pair.hosts[1].one(0, 10);
    for operation in [
        Operation::RdmaWrite,
        Operation::RdmaRead,
        Operation::Illegal,
    ] {
        let bad = Descriptor {
            operation,
            ..Descriptor::receive(buffer.clone(), 1)
        };
        pair.hosts[1].nic.post_receive(pair.vis[1], bad).unwrap();
        pair.post_receive(1, buffer.clone(), 2);
        for cookie in 0..2 {
            let message = pair.hosts[0].one(0, 10);
            pair.post_send(0, message, cookie);
        }
        assert_eq!(pair.deliver(0), [DropReason::Format]);
        assert_eq!(pair.drain(0)[0], [(0, SENT), (1, SENT)]);
        assert_eq!(pair.drain(1)[1], [(1, 0x0001_0003), (2, RECEIVED)]);
    }
    assert_eq!(pair.states(), [ViState::Connected; 2]);
}

#[test]
fn a_send_outside_its_registration_completes_in_error() {
    // Case 38: past the region, dead handle, another tag; also beside a good segment.
    let mut pair = Pair::connected();
    let host = &mut pair.hosts[0];
    let dead = host
        .nic
        .register_memory(0, 64, MemoryAttributes::local(host.tag))
        .unwrap();
    host.nic.deregister_memory(0, dead).unwrap();
    let other = host.nic.create_protection_tag().unwrap();
    let foreign = host
        .nic
        .register_memory(BASE, 64, MemoryAttributes::local(other))
        .unwrap();
    let good = host.data(0, 10);
    let bad = [
        DataSegment {
            address: BASE - 1,
            ..good
        },
        DataSegment {
            address: BASE + MEMORY_BYTES - 9,
            ..good
        },
        DataSegment {
            handle: dead,
            address: 0,
            ..good
        },
        DataSegment {
            handle: foreign,
            ..good
        },
        DataSegment {
            handle: MemoryHandle::from_bits(0),
            ..good
        },
        DataSegment {
            handle: MemoryHandle::from_bits(u32::MAX),
            ..good
        },
    ];
    for bad in bad {
        for segments in [vec![bad], vec![good, bad]] {
            let bad = Descriptor::send(Segments::from_slice(&segments), 0);
            assert_eq!(bad_then_good(&mut pair, bad), 0x0000_0005);
        }
    }
}

#[test]
fn a_receive_outside_its_registration_completes_in_error_and_stays_connected() {
    let mut pair = Pair::connected();
    let good = pair.hosts[1].data(0, 10);
    let past = DataSegment {
        address: BASE + MEMORY_BYTES - 9,
        ..good
    };
    pair.post_receive(1, Segments::one(past), 1);
    pair.post_receive(1, Segments::one(good), 2);
    for cookie in 0..2 {
        let message = pair.hosts[0].one(0, 10);
        pair.post_send(0, message, cookie);
    }
    assert_eq!(pair.deliver(0), [DropReason::Protection]);
    assert_eq!(pair.drain(1)[1], [(1, 0x0001_0005), (2, RECEIVED)]);
    assert_eq!(pair.states(), [ViState::Connected; 2]);
}

#[test]
fn memory_deregistered_after_the_post_fails_its_check() {
    let mut pair = Pair::connected();
    let message = pair.hosts[0].one(0, 10);
    pair.post_send(0, message, 1);
    let handle = pair.hosts[0].handle;
    pair.hosts[0].nic.deregister_memory(BASE, handle).unwrap();
    assert_eq!(pair.deliver(0), []);
    assert_eq!(pair.drain(0)[0], [(1, 0x0000_0005)]);
}

#[test]
fn a_message_that_finds_no_receive_is_dropped_and_told() {
    // Cases 39, 40.
    let mut pair = Pair::connected();
    for round in 1..3 {
        for cookie in 0..3 {
            let message = pair.hosts[0].one(0, 10);
            pair.post_send(0, message, cookie);
        }
        assert_eq!(pair.deliver(0), [DropReason::NoDescriptor; 3]);
        assert_eq!(pair.drain(0)[0], [(0, SENT), (1, SENT), (2, SENT)]);
        let vi = pair.vis[1];
        assert_eq!(
            pair.hosts[1].events(),
            [Event::ReceiveQueueEmpty { vi, dropped: 3 }]
        );
        assert_eq!(pair.states(), [ViState::Connected; 2]);
        let buffer = pair.hosts[1].one(0, 10);
        pair.post_receive(1, buffer, round);
        let message = pair.hosts[0].one(0, 10);
        pair.post_send(0, message, round);
        assert_eq!(pair.deliver(0), []);
        assert_eq!(pair.drain(0)[0], [(round, SENT)]);
        assert_eq!(pair.drain(1)[1], [(round, RECEIVED)]);
        assert_eq!(pair.hosts[1].events(), []);
    }
}

#[test]
fn a_message_longer_than_its_receive_consumes_it_in_error() {
    // Case 43, at the limit and one past it.
    let mut pair = Pair::connected();
    for (cookie, length) in [(0, 64), (1, 65), (2, 64)] {
        let buffer = [pair.hosts[1].data(0, 60), pair.hosts[1].data(100, 4)];
        pair.post_receive(1, Segments::from_slice(&buffer), cookie);
        let message = Descriptor::send(pair.hosts[0].one(0, length), cookie).with_immediate(1);
        pair.hosts[0].nic.post_send(pair.vis[0], message).unwrap();
    }
    assert_eq!(pair.deliver(0), [DropReason::TooLong]);
    assert_eq!(pair.states(), [ViState::Connected; 2]);
    let completions: Vec<_> = (0..3)
        .map(|_| pair.receive_done(1).completion().unwrap())
        .collect();
    let statuses: Vec<_> = completions
        .iter()
        .map(|c| (c.status.bits(), c.length))
        .collect();
    assert_eq!(
        statuses,
        [
            (RECEIVED_IMMEDIATE, 64),
            (0x0001_0009, 0),
            (RECEIVED_IMMEDIATE, 64)
        ]
    );
    assert_eq!(completions[1].immediate, None);
}

#[test]
fn a_message_cut_short_or_corrupt_shows_in_its_receive() {
    let mut pair = Pair::connected();
    let (sender, receiver) = (pair.vis[0], pair.vis[1]);
    let outcomes = [
        (ReceiveOutcome::CutShort { placed_bytes: 3 }, 0x0001_0011, 3),
        (
            ReceiveOutcome::CutShort { placed_bytes: 99 },
            0x0001_0011,
            10,
        ),
        (ReceiveOutcome::Corrupt, 0x0001_0041, 0),
        (
            ReceiveOutcome::Refused,
            0x0001_0001 | Status::PROTECTION_ERROR.bits(),
            0,
        ),
    ];
    for (outcome, status, length) in outcomes {
        let buffer = pair.hosts[1].one(0, 10);
        pair.post_receive(1, buffer, 0);
        let message = Descriptor::send(pair.hosts[0].one(0, 10), 0).with_immediate(1);
        pair.hosts[0].nic.post_send(sender, message).unwrap();
        let send = pair.hosts[0].nic.start_send(sender).unwrap();
        pair.hosts[0]
            .nic
            .finish_send(sender, send.work, SendOutcome::Sent);
        let nic = &mut pair.hosts[1].nic;
        let ReceiveVerdict::Place(receive) = nic.start_receive(receiver, &send.header) else {
            panic!("there is a receive")
        };
        nic.finish_receive(receiver, receive.work, outcome);
        let completion = pair.receive_done(1).completion().unwrap();
        assert_eq!(
            (completion.status.bits(), completion.length),
            (status, length)
        );
        assert_eq!(completion.immediate, None);
    }
    assert_eq!(pair.states(), [ViState::Connected; 2]);
}

#[test]
fn a_failed_transport_shows_in_the_send() {
    let mut pair = Pair::connected();
    let vi = pair.vis[0];
    let outcomes = [
        (SendOutcome::CutShort, 0x0000_0011),
        (SendOutcome::TransportFailed, 0x0000_0041),
    ];
    for (outcome, status) in outcomes {
        let message = pair.hosts[0].one(0, 10);
        pair.post_send(0, message, 6);
        let send = pair.hosts[0].nic.start_send(vi).unwrap();
        assert!(pair.hosts[0].nic.finish_send(vi, send.work, outcome));
        assert_eq!(pair.drain(0)[0], [(6, status)]);
    }
    assert_eq!(pair.states(), [ViState::Connected; 2]);
}

#[test]
fn a_full_queue_refuses_one_more_and_keeps_what_it_has() {
    // Case 67.
    let attributes = NicAttributes {
        max_descriptors_per_queue: 4,
        ..NicAttributes::default()
    };
    let mut pair = Pair::unconnected_with(attributes);
    pair.connect();
    let vi = pair.vis[0];
    for cookie in 0..4 {
        let buffer = pair.hosts[0].one(0, 10);
        pair.post_send(0, buffer.clone(), cookie);
        pair.post_receive(0, buffer, cookie);
    }
    let buffer = pair.hosts[0].one(0, 10);
    let full = Err(PostError::QueueFull { limit: 4 });
    for _ in 0..3 {
        let nic = &mut pair.hosts[0].nic;
        assert_eq!(nic.post_send(vi, Descriptor::send(buffer.clone(), 9)), full);
        assert_eq!(
            nic.post_receive(vi, Descriptor::receive(buffer.clone(), 9)),
            full
        );
    }
    let overrun = |queue| Event::ViOverrun { vi, queue };
    assert_eq!(
        pair.hosts[0].events(),
        [overrun(Queue::Send), overrun(Queue::Receive)]
    );
    assert_eq!(
        pair.hosts[0].nic.post_send(vi, Descriptor::send(buffer, 9)),
        full
    );
    assert_eq!(pair.hosts[0].events(), [overrun(Queue::Send)], "told again");
    pair.deliver(0);
    let message = pair.hosts[0].one(0, 10);
    let still = pair.hosts[0]
        .nic
        .post_send(vi, Descriptor::send(message.clone(), 4));
    assert_eq!(
        still, full,
        "a completion that was not taken holds its place"
    );
    assert!(pair.send_done(0).completion().is_some());
    pair.post_send(0, message, 4);
    pair.deliver(0);
    let cookies: Vec<_> = pair.drain(0)[0].iter().map(|(cookie, _)| *cookie).collect();
    assert_eq!(cookies, [1, 2, 3, 4]);
}

#[test]
fn the_header_of_an_unknown_operation_consumes_nothing() {
    let mut pair = Pair::connected();
    let buffer = pair.hosts[1].one(0, 10);
    pair.post_receive(1, buffer, 0);
    let message = pair.hosts[0].one(0, 10);
    pair.post_send(0, message, 0);
    let send = pair.hosts[0].nic.start_send(pair.vis[0]).unwrap();
    let header = MessageHeader {
        operation: Operation::RdmaWrite,
        ..send.header
    };
    let verdict = pair.hosts[1].nic.start_receive(pair.vis[1], &header);
    assert_eq!(verdict, ReceiveVerdict::Drop(DropReason::NotSupported));
    assert_eq!(pair.receive_done(1), Done::NotDone);
    assert_eq!(pair.hosts[1].nic.unstarted(pair.vis[1], Queue::Receive), 1);
}
