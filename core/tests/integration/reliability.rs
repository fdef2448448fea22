//! What happens at each reliability level: one test for each incident, at all three levels.

use crate::common::*;
use ReliabilityLevel::{ReliableDelivery, ReliableReception, Unreliable};
use viaduct_core::*;

const LEVELS: [ReliabilityLevel; 3] = [Unreliable, ReliableDelivery, ReliableReception];

const FLUSHED_SEND: u32 = 0x0000_0021;
const FLUSHED_RECEIVE: u32 = 0x0001_0021;

/// What a test expects of an incident.
struct Expected {
    /// The sender's descriptor at each level.
    sender: [u32; 3],
    /// The receive descriptor that the message takes, the same at each level, if it takes one.
    receive: Option<u32>,
    /// The event at the target, the same at each level.
    event: Option<ErrorCode>,
    reason: Option<DropReason>,
}

/// Posts what `receive` makes at the target (and one good receive behind it, if any), then what
/// `send` makes at the sender and a good send behind it; delivers, and compares.
fn incident(
    expected: &Expected,
    receive: impl Fn(&mut Pair) -> Option<Descriptor>,
    send: impl Fn(&mut Pair) -> Descriptor,
) {
    for (level, sender) in LEVELS.into_iter().zip(expected.sender) {
        let mut pair = Pair::connected_at(level);
        let breaks = level.is_reliable();
        let mut later = Vec::new();
        if let Some(descriptor) = receive(&mut pair) {
            let descriptor = Descriptor {
                cookie: 1,
                ..descriptor
            };
            let vi = pair.vis[1];
            pair.hosts[1].nic.post_receive(vi, descriptor).unwrap();
            let buffer = pair.hosts[1].one(0, 100);
            pair.post_receive(1, buffer, 2);
            later.push(2);
        }
        let descriptor = Descriptor {
            cookie: 3,
            ..send(&mut pair)
        };
        let vi = pair.vis[0];
        pair.hosts[0].nic.post_send(vi, descriptor).unwrap();
        let message = pair.hosts[0].one(0, 7);
        pair.post_send(0, message, 4);
        // A receive of the sender, and a send of the target, that have nothing to do with it.
        let buffer = pair.hosts[0].one(0, 100);
        pair.post_receive(0, buffer, 5);

        let drops = pair.deliver(0);
        assert_eq!(drops.first(), expected.reason.as_ref(), "{level:?}");

        let after = if breaks { FLUSHED_SEND } else { 0x0000_0001 };
        let [sends, receives] = pair.drain(0);
        assert_eq!(sends, [(3, sender), (4, after)], "{level:?}");
        let own = if breaks {
            vec![(5, FLUSHED_RECEIVE)]
        } else {
            vec![]
        };
        assert_eq!(receives, own, "{level:?}");

        let mut taken: Vec<_> = expected.receive.iter().map(|status| (1, *status)).collect();
        taken.extend(
            later
                .iter()
                .map(|cookie| (*cookie, if breaks { FLUSHED_RECEIVE } else { 0x0001_0001 })),
        );
        if expected.receive.is_none() && !later.is_empty() {
            // Untouched by the incident: the good message behind it took it, or it was flushed.
            taken.insert(0, (1, taken[0].1));
            if !breaks {
                taken.truncate(1);
            }
        }
        assert_eq!(pair.drain(1)[1], taken, "{level:?}");

        let state = if breaks {
            ViState::Error
        } else {
            ViState::Connected
        };
        assert_eq!(pair.states(), [state; 2], "{level:?}");
        let lost = |vi| Event::ConnectionLost { vi };
        let events = pair.hosts[0].events();
        assert_eq!(events, if breaks { vec![lost(vi)] } else { vec![] });
        let codes: Vec<_> = pair.hosts[1].events();
        let codes: Vec<_> = codes.iter().map(|e| e.error_code().unwrap()).collect();
        let mut told: Vec<_> = expected.event.into_iter().collect();
        if breaks {
            told.push(ErrorCode::ConnectionLost);
        }
        assert_eq!(codes, told, "{level:?}");

        // Each end is told once, whatever else is done.
        for side in 0..2 {
            pair.hosts[side].nic.disconnect(pair.vis[side]).unwrap();
            pair.carry();
            assert_eq!(pair.send_done(side), Done::Empty);
        }
        if breaks {
            assert_eq!(
                (pair.hosts[0].events(), pair.hosts[1].events()),
                (vec![], vec![])
            );
            pair.connect();
        }
    }
}

fn good_receive(pair: &mut Pair) -> Option<Descriptor> {
    Some(Descriptor::receive(pair.hosts[1].one(0, 100), 0))
}

fn good_send(pair: &mut Pair) -> Descriptor {
    Descriptor::send(pair.hosts[0].one(0, 10), 0)
}

const REFUSED: [u32; 3] = [0x0000_0001, 0x0000_0001, 0x0000_0101];

#[test]
fn no_receive_is_posted() {
    // Cases 39 to 42. The second message finds none either, where it is sent.
    let expected = Expected {
        sender: REFUSED,
        receive: None,
        event: Some(ErrorCode::ReceiveQueueEmpty),
        reason: Some(DropReason::NoDescriptor),
    };
    incident(&expected, |_| None, good_send);
}

#[test]
fn the_message_is_longer_than_its_receive() {
    // Cases 43 to 45.
    let expected = Expected {
        sender: REFUSED,
        receive: Some(0x0001_0009),
        event: None,
        reason: Some(DropReason::TooLong),
    };
    let short = |pair: &mut Pair| Some(Descriptor::receive(pair.hosts[1].one(0, 9), 0));
    incident(&expected, short, good_send);
}

#[test]
fn the_receive_fails_its_protection_check() {
    let expected = Expected {
        sender: REFUSED,
        receive: Some(0x0001_0005),
        event: None,
        reason: Some(DropReason::Protection),
    };
    // The message's last byte lies outside.
    let outside = |pair: &mut Pair| {
        Some(Descriptor::receive(
            pair.hosts[1].one(MEMORY_BYTES - 9, 100),
            0,
        ))
    };
    incident(&expected, outside, good_send);
}

#[test]
fn the_receive_is_malformed() {
    let expected = Expected {
        sender: REFUSED,
        receive: Some(0x0001_0003),
        event: None,
        reason: Some(DropReason::Format),
    };
    let malformed = |pair: &mut Pair| {
        good_receive(pair).map(|descriptor| Descriptor {
            operation: Operation::RdmaRead,
            ..descriptor
        })
    };
    incident(&expected, malformed, good_send);
}

#[test]
fn the_send_has_a_local_error() {
    // Cases 46, 47: nothing arrives, at every level the sender is told.
    type Change = fn(&mut Descriptor);
    let changes: [(u32, Change); 3] = [
        (0x0000_0003, |send| send.operation = Operation::Illegal),
        (0x0000_0009, |send| send.length += 1),
        (0x0000_0005, |send| {
            let outside = DataSegment {
                address: 0,
                ..send.segments.as_slice()[0]
            };
            send.segments = Segments::one(outside);
        }),
    ];
    for (status, change) in changes {
        let expected = Expected {
            sender: [status; 3],
            receive: None,
            event: None,
            reason: None,
        };
        incident(&expected, good_receive, |pair| {
            let mut send = good_send(pair);
            change(&mut send);
            send
        });
    }
}

fn remote_write(pair: &mut Pair, offset: u64, length: u32) -> Descriptor {
    let remote = pair.hosts[1].remote(offset);
    Descriptor::rdma_write(remote, &[pair.hosts[0].data(0, length)], 0)
}

#[test]
fn a_remote_write_is_refused() {
    // Case 64, past the end of the region.
    let expected = Expected {
        sender: [0x0002_0001, 0x0002_0001, 0x0002_0081],
        receive: None,
        event: Some(ErrorCode::RdmaWriteProtection),
        reason: Some(DropReason::RemoteProtection),
    };
    incident(&expected, good_receive, |pair| {
        remote_write(pair, MEMORY_BYTES - 9, 10)
    });
}

#[test]
fn a_remote_write_with_immediate_data_is_refused() {
    let expected = Expected {
        sender: [0x0002_0001, 0x0002_0001, 0x0002_0081],
        receive: Some(0x0003_0081),
        event: None,
        reason: Some(DropReason::RemoteProtection),
    };
    incident(&expected, good_receive, |pair| {
        remote_write(pair, MEMORY_BYTES - 9, 10).with_immediate(1)
    });
}

#[test]
fn a_remote_write_with_immediate_data_finds_no_receive() {
    let expected = Expected {
        sender: [0x0002_0001, 0x0002_0001, 0x0002_0101],
        receive: None,
        event: Some(ErrorCode::ReceiveQueueEmpty),
        reason: Some(DropReason::NoDescriptor),
    };
    incident(
        &expected,
        |_| None,
        |pair| remote_write(pair, 0, 10).with_immediate(1),
    );
}

#[test]
fn a_remote_read_is_refused() {
    // Not offered at unreliable delivery, where it is malformed.
    let read = |pair: &mut Pair, offset| {
        let remote = pair.hosts[1].remote(offset);
        Descriptor::rdma_read(remote, &[pair.hosts[0].data(0, 10)], 0)
    };
    let mut pair = Pair::connected_at(Unreliable);
    let descriptor = read(&mut pair, 0);
    pair.hosts[0]
        .nic
        .post_send(pair.vis[0], descriptor)
        .unwrap();
    assert_eq!(pair.deliver(0), []);
    assert_eq!(pair.drain(0)[0], [(0, 0x0004_0003)]);
    for level in [ReliableDelivery, ReliableReception] {
        let mut pair = Pair::connected_at(level);
        let descriptor = read(&mut pair, MEMORY_BYTES - 9);
        pair.hosts[0]
            .nic
            .post_send(pair.vis[0], descriptor)
            .unwrap();
        assert_eq!(pair.deliver(0), [DropReason::RemoteProtection]);
        assert_eq!(pair.drain(0)[0], [(0, 0x0004_0081)]);
        assert_eq!(pair.states(), [ViState::Error; 2]);
        let vi = pair.vis[1];
        assert_eq!(
            pair.hosts[1].events(),
            [
                Event::RdmaReadProtection { vi },
                Event::ConnectionLost { vi }
            ]
        );
    }
}

#[test]
fn bytes_come_to_harm_on_their_way() {
    // A message, and a remote write with and without immediate data, cut short or corrupt.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Kind {
        Message,
        Write,
        WriteImmediate,
    }
    let damages = [
        (ReceiveOutcome::CutShort { placed_bytes: 4 }, 0x10, 4),
        (ReceiveOutcome::Corrupt, 0x40, 0),
    ];
    for level in LEVELS {
        for (damage, error, placed) in damages {
            for kind in [Kind::Message, Kind::Write, Kind::WriteImmediate] {
                let mut pair = Pair::connected_at(level);
                let [sender, target] = pair.vis;
                let receive = good_receive(&mut pair).unwrap();
                pair.hosts[1].nic.post_receive(target, receive).unwrap();
                let send = match kind {
                    Kind::Message => good_send(&mut pair).with_immediate(1),
                    Kind::Write => remote_write(&mut pair, 0, 10),
                    Kind::WriteImmediate => remote_write(&mut pair, 0, 10).with_immediate(1),
                };
                pair.hosts[0].nic.post_send(sender, send).unwrap();
                let send = pair.hosts[0].nic.start_send(sender).unwrap();
                let remote = pair.hosts[0].nic.send_remote(sender, send.work);
                let nic = &mut pair.hosts[1].nic;
                if kind == Kind::Message {
                    let ReceiveVerdict::Place(started) = nic.start_receive(target, &send.header)
                    else {
                        panic!("refused")
                    };
                    assert!(nic.finish_receive(target, started.work, damage));
                } else {
                    let RemoteVerdict::Access(started) =
                        nic.start_remote_write(target, &send.header, remote.unwrap())
                    else {
                        panic!("refused")
                    };
                    assert!(nic.finish_remote_write(target, started, damage));
                }
                // The network had taken the whole message at the sender's side.
                pair.hosts[0]
                    .nic
                    .finish_send(sender, send.work, SendOutcome::Sent);
                pair.carry();

                let breaks = level.is_reliable();
                let receives = pair.drain(1)[1].clone();
                let operation = if kind == Kind::Message {
                    0x0001_0001
                } else {
                    0x0003_0001
                };
                match kind {
                    Kind::Write if breaks => assert_eq!(receives, [(0, FLUSHED_RECEIVE)]),
                    Kind::Write => assert_eq!(receives, []),
                    _ => assert_eq!(receives, [(0, operation | error)], "{level:?} {placed}"),
                }
                let operation = if kind == Kind::Message {
                    1
                } else {
                    0x0002_0001
                };
                let status = match level {
                    ReliableReception => operation | 0x40,
                    _ => operation,
                };
                assert_eq!(pair.drain(0)[0], [(0, status)], "{level:?} {kind:?}");
                let mut codes = Vec::new();
                if kind == Kind::Write {
                    codes.push(match damage {
                        ReceiveOutcome::Corrupt => ErrorCode::RdmaWriteData,
                        _ => ErrorCode::RdmaWriteAbort,
                    });
                }
                if breaks {
                    codes.push(ErrorCode::ConnectionLost);
                }
                let told: Vec<_> = pair.hosts[1].events();
                let told: Vec<_> = told.iter().map(|e| e.error_code().unwrap()).collect();
                assert_eq!(told, codes, "{level:?} {kind:?}");
            }
        }
    }
}

/// One send under way and one not started, one receive under way and one not started, at each end
/// of the pair: what a break does to them.
fn busy(level: ReliabilityLevel) -> Pair {
    let mut pair = Pair::connected_at(level);
    for side in 0..2 {
        for cookie in 0..2 {
            let buffer = pair.hosts[side].one(0, 10);
            pair.post_receive(side, buffer.clone(), 10 + cookie);
            pair.post_send(side, buffer, cookie);
        }
    }
    for side in 0..2 {
        let vi = pair.vis[side];
        let send = pair.hosts[side].nic.start_send(vi).unwrap();
        let verdict = pair.hosts[1 - side]
            .nic
            .start_receive(send.peer.vi, &send.header);
        assert!(matches!(verdict, ReceiveVerdict::Place(_)));
    }
    pair
}

fn assert_all_ended(pair: &mut Pair, side: usize, under_way: u32) {
    let [sends, receives] = pair.drain(side);
    assert_eq!(sends, [(0, 1 | under_way), (1, FLUSHED_SEND)]);
    assert_eq!(
        receives,
        [(10, 0x0001_0001 | under_way), (11, FLUSHED_RECEIVE)]
    );
    assert_eq!(pair.states()[side], ViState::Error);
    let vi = pair.vis[side];
    assert_eq!(pair.hosts[side].events(), [Event::ConnectionLost { vi }]);
}

#[test]
fn the_transport_fails() {
    // Case 51: the link of one connection, or the whole host.
    for level in LEVELS {
        let under_way = if level.is_reliable() { 0x40 } else { 0x20 };
        let mut pair = busy(level);
        let vi = pair.vis[0];
        assert!(pair.hosts[0].nic.handle_transport_failure(vi));
        assert!(!pair.hosts[0].nic.handle_transport_failure(vi), "once");
        pair.carry();
        assert_all_ended(&mut pair, 0, under_way);
        assert_all_ended(&mut pair, 1, under_way);

        let mut pair = busy(level);
        pair.hosts[0]
            .nic
            .handle_host_unreachable(HostAddress::new(1));
        assert_eq!(pair.hosts[0].nic.poll_transmit(), None);
        assert_all_ended(&mut pair, 0, under_way);
        assert_eq!(
            pair.states()[1],
            ViState::Connected,
            "it has not noticed yet"
        );
        pair.hosts[1]
            .nic
            .handle_host_unreachable(HostAddress::new(0));
        assert_all_ended(&mut pair, 1, under_way);
    }
}

#[test]
fn a_send_comes_to_harm_at_its_sender() {
    for level in LEVELS {
        for (outcome, unreliable) in [
            (SendOutcome::CutShort, 0x0000_0011),
            (SendOutcome::TransportFailed, 0x0000_0041),
        ] {
            let mut pair = Pair::connected_at(level);
            let vi = pair.vis[0];
            for cookie in 0..3 {
                let message = pair.hosts[0].one(0, 10);
                pair.post_send(0, message, cookie);
            }
            let nic = &mut pair.hosts[0].nic;
            let _first = nic.start_send(vi).unwrap();
            let second = nic.start_send(vi).unwrap();
            assert!(nic.finish_send(vi, second.work, outcome));
            pair.carry();
            let sends = pair.drain(0)[0].clone();
            if level.is_reliable() {
                assert_eq!(sends, [(0, 0x41), (1, 0x41), (2, FLUSHED_SEND)]);
                assert_eq!(pair.states(), [ViState::Error; 2]);
            } else {
                assert_eq!(sends, [], "in post order: the first is still under way");
                let first = _first.work;
                pair.hosts[0].nic.finish_send(vi, first, SendOutcome::Sent);
                assert_eq!(pair.drain(0)[0], [(0, 1), (1, unreliable)]);
                assert_eq!(pair.states(), [ViState::Connected; 2]);
            }
        }
    }
}

#[test]
fn a_transport_that_fails_under_a_remote_operation_is_told() {
    for level in LEVELS {
        let mut pair = Pair::connected_at(level);
        let vi = pair.vis[0];
        let write = remote_write(&mut pair, 0, 10);
        pair.hosts[0].nic.post_send(vi, write).unwrap();
        assert!(pair.hosts[0].nic.start_send(vi).is_some());
        pair.hosts[0]
            .nic
            .handle_host_unreachable(HostAddress::new(1));
        let mut events = vec![Event::ConnectionLost { vi }];
        if level.is_reliable() {
            events.insert(0, Event::RdmaTransport { vi });
        }
        assert_eq!(pair.hosts[0].events(), events);
    }
}

#[test]
fn the_peer_disconnects() {
    // Cases 49, 50: the same at every level.
    for level in LEVELS {
        let mut pair = busy(level);
        pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
        pair.carry();
        let flushed = [(0, FLUSHED_SEND), (1, FLUSHED_SEND)];
        assert_eq!(pair.drain(0)[0], flushed);
        assert_eq!(pair.states(), [ViState::Idle, ViState::Error]);
        assert_eq!(pair.hosts[0].events(), []);
        assert_all_ended(&mut pair, 1, 0x20);
    }
}

#[test]
fn both_ends_may_break_at_once_and_each_is_told_once() {
    for level in [ReliableDelivery, ReliableReception] {
        let mut pair = busy(level);
        for side in 0..2 {
            let vi = pair.vis[side];
            assert!(pair.hosts[side].nic.handle_transport_failure(vi));
        }
        pair.carry();
        assert_all_ended(&mut pair, 0, 0x40);
        assert_all_ended(&mut pair, 1, 0x40);
    }
}

#[test]
fn at_reliable_reception_a_send_completes_when_it_is_placed() {
    // Case 48; in post order though acknowledged backwards.
    let mut pair = Pair::connected_at(ReliableReception);
    let vi = pair.vis[0];
    for cookie in 0..2 {
        let buffer = pair.hosts[0].one(0, 10);
        pair.post_receive(1, buffer.clone(), cookie);
        pair.post_send(0, buffer, cookie);
    }
    let nic = &mut pair.hosts[0].nic;
    let works = [(); 2].map(|()| nic.start_send(vi).unwrap().work);
    for work in works {
        assert!(nic.finish_send(vi, work, SendOutcome::Sent));
        assert_eq!(nic.send_done(vi), Done::NotDone);
    }
    assert!(nic.handle_acknowledgement(vi, works[1]));
    assert_eq!(nic.send_done(vi), Done::NotDone);
    assert!(nic.handle_acknowledgement(vi, works[0]));
    assert!(!nic.handle_acknowledgement(vi, works[0]), "once");
    assert!(!nic.finish_send(vi, works[0], SendOutcome::Sent));
    assert_eq!(pair.drain(0)[0], [(0, 1), (1, 1)]);
}

#[test]
fn an_acknowledgement_means_nothing_at_the_other_levels() {
    for level in [Unreliable, ReliableDelivery] {
        let mut pair = Pair::connected_at(level);
        let vi = pair.vis[0];
        assert!(!pair.hosts[0].nic.acknowledges(vi));
        let message = pair.hosts[0].one(0, 10);
        pair.post_send(0, message, 0);
        let nic = &mut pair.hosts[0].nic;
        let work = nic.start_send(vi).unwrap().work;
        assert!(!nic.handle_acknowledgement(vi, work));
        assert_eq!(nic.send_done(vi), Done::NotDone);
        assert!(nic.finish_send(vi, work, SendOutcome::Sent));
        assert!(nic.send_done(vi).completion().is_some());
    }
}

#[test]
fn a_bad_send_breaks_after_those_before_it_have_ended() {
    for level in [ReliableDelivery, ReliableReception] {
        let mut pair = Pair::connected_at(level);
        let vi = pair.vis[0];
        let buffer = pair.hosts[1].one(0, 10);
        pair.post_receive(1, buffer, 0);
        let good = good_send(&mut pair);
        let bad = Descriptor {
            length: 11,
            cookie: 1,
            ..good.clone()
        };
        let nic = &mut pair.hosts[0].nic;
        nic.post_send(vi, good).unwrap();
        nic.post_send(vi, bad).unwrap();
        let first = nic.start_send(vi).unwrap();
        assert_eq!(nic.start_send(vi), None, "the first is under way");
        assert_eq!(pair.states(), [ViState::Connected; 2]);
        assert_eq!(pair.deliver_one(0, vi, first), None);
        assert_eq!(pair.deliver(0), []);
        assert_eq!(pair.drain(0)[0], [(0, 1), (1, 0x9)]);
        assert_eq!(pair.drain(1)[1], [(0, 0x0001_0001)]);
        assert_eq!(pair.states(), [ViState::Error; 2]);
    }
}

#[test]
fn the_message_that_was_refused_is_the_one_that_is_told() {
    // Of three sends under way the second is refused: the first was acknowledged, the third never
    // arrives. The refusal names a message, not a descriptor, also on a second connection.
    for level in [ReliableDelivery, ReliableReception] {
        let mut pair = Pair::connected_at(level);
        for round in 0..2 {
            let vi = pair.vis[0];
            for (cookie, capacity) in [(0, 10), (1, 9), (2, 10)] {
                let buffer = pair.hosts[1].one(0, capacity);
                pair.post_receive(1, buffer, cookie);
                let message = pair.hosts[0].one(0, 10);
                pair.post_send(0, message, cookie);
            }
            let nic = &mut pair.hosts[0].nic;
            let sends = [(); 3].map(|()| nic.start_send(vi).unwrap());
            let drops = sends.map(|send| {
                if level == ReliableReception {
                    pair.hosts[0]
                        .nic
                        .finish_send(vi, send.work, SendOutcome::Sent);
                }
                let arrived = pair.arrive(send.peer, &send.header, &[0; 10]);
                if arrived.is_ok() && level == ReliableReception {
                    pair.hosts[0].nic.handle_acknowledgement(vi, send.work);
                }
                arrived.err()
            });
            let expected = [
                None,
                Some(DropReason::TooLong),
                Some(DropReason::NotConnected),
            ];
            assert_eq!(drops, expected);
            pair.carry();
            let sends = pair.drain(0)[0].clone();
            let expected = if level == ReliableReception {
                [(0, 1), (1, 0x101), (2, 0x21)]
            } else {
                // Not handed over yet: nothing is known of them.
                [(0, 0x21), (1, 0x21), (2, 0x21)]
            };
            assert_eq!(sends, expected, "round {round}");
            assert_eq!(
                pair.drain(1)[1],
                [(0, 0x0001_0001), (1, 0x0001_0009), (2, FLUSHED_RECEIVE)]
            );
            for side in 0..2 {
                pair.hosts[side].nic.disconnect(pair.vis[side]).unwrap();
                pair.hosts[side].events();
            }
            pair.connect();
        }
    }
}

#[test]
fn a_peer_cannot_say_that_a_refused_send_went_well() {
    let mut pair = Pair::connected_at(ReliableReception);
    let vi = pair.vis[0];
    let message = pair.hosts[0].one(0, 10);
    pair.post_send(0, message, 0);
    let nic = &mut pair.hosts[0].nic;
    let send = nic.start_send(vi).unwrap();
    let mine = pair.hosts[1].nic.peer(pair.vis[1]).unwrap();
    let broken = |message, error| ConnectionMessage::Broken {
        vi,
        connection: mine.connection,
        reason: BreakReason::Refused { message, error },
    };
    let nic = &mut pair.hosts[0].nic;
    let stranger = HostAddress::new(7);
    nic.handle_connection_message(stranger, broken(0, Status::PENDING), pair.now);
    assert_eq!(nic.vi_state(vi), Some(ViState::Connected));
    let peer = send.peer.host;
    nic.handle_connection_message(peer, broken(0, Status::PENDING), pair.now);
    nic.handle_connection_message(peer, broken(u64::MAX, Status::PENDING), pair.now);
    assert_eq!(pair.drain(0)[0], [(0, 0x101)]);
    assert_eq!(pair.hosts[0].events(), [Event::ConnectionLost { vi }]);
}

#[test]
fn every_asynchronous_error_has_an_event() {
    let mut pair = Pair::connected();
    let vi = pair.vis[0];
    let nic = &mut pair.hosts[0].nic;
    nic.report_invalid_descriptor(vi, Queue::Send, 5);
    nic.report_invalid_descriptor(vi, Queue::Send, 6);
    nic.report_completion_protection(vi, Queue::Receive, 7);
    nic.handle_catastrophe();
    let events = pair.hosts[0].events();
    assert_eq!(
        events,
        [
            Event::InvalidDescriptor {
                vi,
                queue: Queue::Send,
                cookie: 5
            },
            Event::CompletionProtection {
                vi,
                queue: Queue::Receive,
                cookie: 7
            },
            Event::Catastrophic,
            Event::ConnectionLost { vi },
        ]
    );
    let queue = Queue::Send;
    let all = [
        Event::InvalidDescriptor {
            vi,
            queue,
            cookie: 0,
        },
        Event::ConnectionLost { vi },
        Event::ReceiveQueueEmpty { vi, dropped: 1 },
        Event::ViOverrun { vi, queue },
        Event::RdmaWriteProtection { vi },
        Event::RdmaWriteData { vi },
        Event::RdmaWriteAbort { vi },
        Event::RdmaReadProtection { vi },
        Event::CompletionProtection {
            vi,
            queue,
            cookie: 0,
        },
        Event::RdmaTransport { vi },
        Event::Catastrophic,
    ];
    assert_eq!(all.map(|event| event.error_code().unwrap()), ErrorCode::ALL);
}

#[test]
fn refused_writes_that_are_not_polled_are_told_once() {
    let mut pair = Pair::connected_at(Unreliable);
    let (sender, vi) = (pair.vis[0], pair.vis[1]);
    for _ in 0..2 {
        for _ in 0..3 {
            let write = remote_write(&mut pair, MEMORY_BYTES, 1);
            pair.hosts[0].nic.post_send(sender, write).unwrap();
        }
        assert_eq!(pair.deliver(0), [DropReason::RemoteProtection; 3]);
        assert_eq!(pair.hosts[1].events(), [Event::RdmaWriteProtection { vi }]);
    }
}
