//! Conformance cases of the C interface that concern VIs and completion queues.

use crate::common::*;
use std::sync::Arc;
use viaduct_core::*;

fn host(attributes: NicAttributes) -> Host {
    Host::new(&Arc::new(attributes))
}

#[test]
fn a_new_vi_is_idle_and_empty_and_has_the_attributes_it_was_given() {
    // Case 5.
    let mut host = host(NicAttributes::default());
    let attributes = ViAttributes {
        rdma_write: true,
        ..host.attributes()
    };
    let vi = host.nic.create_vi(attributes, None, None).unwrap();
    let information = ViInformation {
        state: ViState::Idle,
        attributes,
        send_queue_empty: true,
        receive_queue_empty: true,
    };
    assert_eq!(host.nic.query_vi(vi), Ok(information));
    let buffer = host.one(0, 1);
    host.nic
        .post_receive(vi, Descriptor::receive(buffer, 0))
        .unwrap();
    let information = ViInformation {
        receive_queue_empty: false,
        ..information
    };
    assert_eq!(host.nic.query_vi(vi), Ok(information));
    assert_eq!(host.nic.queue_depth(vi, Queue::Receive), 1);
}

#[test]
fn attributes_that_the_nic_does_not_support_are_refused() {
    // Cases 6, 7, 8, 9; the same for a change of attributes.
    let level = ReliabilityLevel::ReliableDelivery;
    let others = ReliabilityLevels::UNRELIABLE.with(ReliabilityLevel::ReliableReception);
    let mut host = host(NicAttributes {
        max_transfer_bytes: TRANSFER_BYTES_MAX,
        reliability_levels: others,
        rdma_read_levels: ReliabilityLevels::ALL,
        qualities_of_service: 2,
        ..NicAttributes::default()
    });
    let good = ViAttributes {
        quality_of_service: 1,
        ..host.attributes()
    };
    let dead = host.nic.create_protection_tag().unwrap();
    host.nic.destroy_protection_tag(dead).unwrap();
    let refused = [
        (
            ViAttributes {
                reliability: level,
                ..good
            },
            ViError::InvalidReliabilityLevel { level },
        ),
        (
            ViAttributes {
                max_transfer_bytes: TRANSFER_BYTES_MAX + 1,
                ..good
            },
            ViError::InvalidMaxTransfer {
                limit_bytes: TRANSFER_BYTES_MAX,
            },
        ),
        (
            ViAttributes {
                quality_of_service: 2,
                ..good
            },
            ViError::InvalidQualityOfService { count: 2 },
        ),
        (ViAttributes { tag: dead, ..good }, ViError::InvalidTag),
        (
            ViAttributes {
                tag: ProtectionTag::from_bits(0),
                ..good
            },
            ViError::InvalidTag,
        ),
        (
            ViAttributes {
                rdma_read: true,
                ..good
            },
            ViError::InvalidRdmaRead,
        ),
    ];
    let vi = host.nic.create_vi(good, None, None).unwrap();
    for (attributes, error) in refused {
        assert_eq!(host.nic.create_vi(attributes, None, None), Err(error));
        assert_eq!(host.nic.set_vi_attributes(vi, attributes), Err(error));
        assert_eq!(host.nic.query_vi(vi).unwrap().attributes, good);
    }
}

#[test]
fn a_nic_without_a_level_refuses_it() {
    let attributes = NicAttributes {
        reliability_levels: ReliabilityLevels::NONE,
        ..NicAttributes::default()
    };
    let mut host = host(attributes);
    let level = ReliabilityLevel::Unreliable;
    let refused = host.nic.create_vi(host.attributes(), None, None);
    assert_eq!(refused, Err(ViError::InvalidReliabilityLevel { level }));
}

#[test]
fn a_vi_holds_and_moves_its_tag() {
    // Case 12.
    let mut host = host(NicAttributes::default());
    let other = host.nic.create_protection_tag().unwrap();
    let vi = host.nic.create_vi(
        ViAttributes {
            tag: other,
            ..host.attributes()
        },
        None,
        None,
    );
    let vi = vi.unwrap();
    assert_eq!(
        host.nic.destroy_protection_tag(other),
        Err(TagError::InUse { users: 1 })
    );
    let attributes = host.attributes();
    host.nic.set_vi_attributes(vi, attributes).unwrap();
    assert_eq!(host.nic.destroy_protection_tag(other), Ok(()));
    let in_use = host.nic.destroy_protection_tag(host.tag);
    assert_eq!(
        in_use,
        Err(TagError::InUse { users: 3 }),
        "the VI and both regions"
    );
    host.nic.destroy_vi(vi).unwrap();
    host.nic.deregister_memory(BASE, host.handle).unwrap();
    host.nic.deregister_memory(BASE, host.shared).unwrap();
    assert_eq!(host.nic.destroy_protection_tag(host.tag), Ok(()));
}

#[test]
fn the_limits_of_the_nic_hold_at_and_one_past() {
    let mut host = host(NicAttributes {
        max_vis: 2,
        max_completion_queues: 1,
        max_completion_queue_entries: 8,
        ..NicAttributes::default()
    });
    let first = host.vi();
    host.vi();
    let attributes = host.attributes();
    let third = host.nic.create_vi(attributes, None, None);
    assert_eq!(third, Err(ViError::LimitReached { limit: 2 }));
    host.nic.destroy_vi(first).unwrap();
    assert_ne!(host.vi(), first, "the same slot, another VI");
    let nic = &mut host.nic;
    let too_many = CompletionQueueError::TooManyEntries { limit: 8 };
    assert_eq!(nic.create_completion_queue(9), Err(too_many));
    assert_eq!(
        nic.create_completion_queue(0),
        Err(CompletionQueueError::NoEntries)
    );
    let queue = nic.create_completion_queue(8).unwrap();
    let one_more = nic.create_completion_queue(1);
    assert_eq!(
        one_more,
        Err(CompletionQueueError::LimitReached { limit: 1 })
    );
    assert_eq!(nic.resize_completion_queue(queue, 9), Err(too_many));
    assert_eq!(
        nic.resize_completion_queue(queue, 0),
        Err(CompletionQueueError::NoEntries)
    );
}

#[test]
fn names_of_what_is_gone_are_refused_everywhere() {
    // Case 80.
    let mut pair = Pair::unconnected();
    let host = &mut pair.hosts[0];
    let vi = host.vi();
    host.nic.destroy_vi(vi).unwrap();
    let buffer = host.one(0, 1);
    let queue = host.nic.create_completion_queue(1).unwrap();
    host.nic.destroy_completion_queue(queue).unwrap();
    let attributes = host.attributes();
    let nic = &mut host.nic;
    assert_eq!(nic.destroy_vi(vi), Err(ViError::Unknown));
    assert_eq!(nic.query_vi(vi), Err(ViError::Unknown));
    assert_eq!(nic.vi_state(vi), None);
    assert_eq!(nic.peer(vi), None);
    assert_eq!(nic.set_vi_attributes(vi, attributes), Err(ViError::Unknown));
    let descriptor = Descriptor::send(buffer, 0);
    assert_eq!(
        nic.post_send(vi, descriptor.clone()),
        Err(PostError::UnknownVi)
    );
    assert_eq!(nic.post_receive(vi, descriptor), Err(PostError::UnknownVi));
    assert_eq!(nic.send_done(vi), Done::Empty);
    assert_eq!(nic.receive_done(vi), Done::Empty);
    assert_eq!(nic.start_send(vi), None);
    assert_eq!(nic.disconnect(vi), Err(ConnectError::UnknownVi));
    let remote = address(1, "server");
    let request = nic.connect_request(vi, address(0, ""), remote, Timestamp::ZERO, SOON);
    assert_eq!(request, Err(ConnectError::UnknownVi));
    let unknown = CompletionQueueError::Unknown;
    assert_eq!(nic.destroy_completion_queue(queue), Err(unknown));
    assert_eq!(nic.resize_completion_queue(queue, 4), Err(unknown));
    assert_eq!(nic.query_completion_queue(queue), Err(unknown));
    assert_eq!(nic.completion_queue_done(queue), None);
    let bound = nic.create_vi(attributes, None, Some(queue));
    assert_eq!(bound, Err(ViError::UnknownCompletionQueue));

    pair.connect();
    let message = pair.hosts[0].one(0, 1);
    pair.post_send(0, message, 0);
    let send = pair.hosts[0].nic.start_send(pair.vis[0]).unwrap();
    let nic = &mut pair.hosts[0].nic;
    assert!(!nic.finish_send(vi, send.work, SendOutcome::Sent));
    assert!(!nic.finish_receive(vi, send.work, ReceiveOutcome::Placed));
    assert!(nic.send_segments(vi, send.work).is_empty());
    assert!(nic.receive_segments(pair.vis[0], send.work).is_empty());
    let verdict = nic.start_receive(vi, &send.header);
    assert_eq!(verdict, ReceiveVerdict::Drop(DropReason::NotConnected));
    let client = pair.hosts[0].vi();
    let request = pair.request(client, "other").expect("offered");
    pair.hosts[1].nic.reject(request).unwrap();
    assert_eq!(
        pair.hosts[1].nic.reject(request),
        Err(ConnectError::UnknownRequest)
    );
    let accepted = pair.hosts[1].nic.accept(request, pair.vis[1]);
    assert_eq!(accepted, Err(ConnectError::UnknownRequest));
}

#[test]
fn one_completion_queue_tells_of_many_work_queues_in_their_order() {
    // Cases 54, 57: two VIs, all four queues on one completion queue; an entry is never early.
    let mut pair = Pair::unconnected();
    let queue = pair.hosts[1].nic.create_completion_queue(64).unwrap();
    let attributes = pair.hosts[1].attributes();
    let mut servers = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let bound = pair.hosts[1]
            .nic
            .create_vi(attributes, Some(queue), Some(queue));
        servers.push(bound.unwrap());
        clients.push(pair.hosts[0].vi());
    }
    for which in 0..2 {
        for cookie in 0..3 {
            let buffer = pair.hosts[1].one(0, 10);
            let receive = Descriptor::receive(buffer, cookie);
            pair.hosts[1]
                .nic
                .post_receive(servers[which], receive)
                .unwrap();
        }
        pair.connect_vis(clients[which], servers[which]);
    }
    for round in 0..3 {
        for which in [1, 0] {
            let message = Descriptor::send(pair.hosts[0].one(0, 4), round);
            pair.hosts[0]
                .nic
                .post_send(clients[which], message)
                .unwrap();
            assert_eq!(pair.deliver_from(0, clients[which]), []);
            let answer = Descriptor::send(pair.hosts[1].one(0, 4), 10 + round);
            pair.hosts[1].nic.post_send(servers[which], answer).unwrap();
            assert_eq!(
                pair.deliver_from(1, servers[which]),
                [DropReason::NoDescriptor]
            );
        }
    }
    let nic = &mut pair.hosts[1].nic;
    for round in 0..3 {
        for which in [1, 0] {
            let vi = servers[which];
            let entry = nic.completion_queue_done(queue);
            assert_eq!(
                entry,
                Some(CompletionEntry {
                    vi,
                    queue: Queue::Receive
                })
            );
            assert_eq!(nic.receive_done(vi).completion().unwrap().cookie, round);
            let entry = nic.completion_queue_done(queue);
            assert_eq!(
                entry,
                Some(CompletionEntry {
                    vi,
                    queue: Queue::Send
                })
            );
            assert_eq!(nic.send_done(vi).completion().unwrap().cookie, 10 + round);
        }
    }
    // Case 56.
    assert_eq!(nic.completion_queue_done(queue), None);
}

#[test]
fn a_completion_queue_of_receives_hears_nothing_of_sends() {
    // Case 55.
    let mut pair = Pair::unconnected();
    let queue = pair.hosts[1].nic.create_completion_queue(4).unwrap();
    let attributes = pair.hosts[1].attributes();
    pair.vis[1] = pair.hosts[1]
        .nic
        .create_vi(attributes, None, Some(queue))
        .unwrap();
    pair.connect();
    let buffer = pair.hosts[1].one(0, 10);
    pair.post_receive(1, buffer.clone(), 0);
    pair.post_send(1, buffer, 1);
    pair.deliver(1);
    assert_eq!(pair.hosts[1].nic.completion_queue_done(queue), None);
    assert!(pair.send_done(1).completion().is_some());
    let message = pair.hosts[0].one(0, 10);
    pair.post_send(0, message, 2);
    pair.deliver(0);
    let entry = CompletionEntry {
        vi: pair.vis[1],
        queue: Queue::Receive,
    };
    assert_eq!(pair.hosts[1].nic.completion_queue_done(queue), Some(entry));
}

#[test]
fn descriptors_in_error_and_flushed_have_their_entries_too() {
    let mut pair = Pair::unconnected();
    let queue = pair.hosts[0].nic.create_completion_queue(1).unwrap();
    let attributes = pair.hosts[0].attributes();
    pair.vis[0] = pair.hosts[0]
        .nic
        .create_vi(attributes, Some(queue), Some(queue))
        .unwrap();
    pair.post_send(0, Segments::none(), 0);
    pair.connect();
    let bad = Descriptor {
        length: 1,
        ..Descriptor::send(Segments::none(), 1)
    };
    pair.hosts[0].nic.post_send(pair.vis[0], bad).unwrap();
    pair.deliver(0);
    pair.post_send(0, Segments::none(), 2);
    pair.post_receive(0, Segments::none(), 3);
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    // Four entries in a queue made for one: none is lost, and the query says so.
    let information = pair.hosts[0].nic.query_completion_queue(queue).unwrap();
    assert_eq!((information.entries, information.entries_waiting), (1, 4));
    assert_eq!(information.entries_waiting_max, 4);
    let entries: Vec<_> =
        std::iter::from_fn(|| pair.hosts[0].nic.completion_queue_done(queue)).collect();
    let entry = |queue| CompletionEntry {
        vi: pair.vis[0],
        queue,
    };
    let [send, receive] = [entry(Queue::Send), entry(Queue::Receive)];
    assert_eq!(entries, [send, send, send, receive]);
    let drained = pair.drain(0);
    assert_eq!(
        drained,
        [
            vec![(0, 0x21), (1, 0x09), (2, 0x21)],
            vec![(3, 0x0001_0021)]
        ]
    );
}

#[test]
fn a_bound_completion_queue_is_not_destroyed_and_leftovers_do_not_matter() {
    // Case 58.
    let mut host = host(NicAttributes::default());
    let queue = host.nic.create_completion_queue(4).unwrap();
    let attributes = host.attributes();
    let both = host
        .nic
        .create_vi(attributes, Some(queue), Some(queue))
        .unwrap();
    let other = host.nic.create_vi(attributes, Some(queue), None).unwrap();
    for vi in [both, other, both] {
        host.nic
            .post_send(vi, Descriptor::send(Segments::none(), 0))
            .unwrap();
    }
    let in_use = CompletionQueueError::InUse { work_queues: 3 };
    assert_eq!(host.nic.destroy_completion_queue(queue), Err(in_use));
    host.nic.destroy_vi(both).unwrap();
    assert_eq!(
        host.nic
            .query_completion_queue(queue)
            .unwrap()
            .entries_waiting,
        1
    );
    host.nic.destroy_vi(other).unwrap();
    assert_eq!(host.nic.destroy_completion_queue(queue), Ok(()));
}

#[test]
fn resizing_keeps_every_entry() {
    // Case 59.
    let mut host = host(NicAttributes::default());
    let queue = host.nic.create_completion_queue(2).unwrap();
    let attributes = host.attributes();
    let vi = host.nic.create_vi(attributes, Some(queue), None).unwrap();
    for cookie in 0..3 {
        host.nic
            .post_send(vi, Descriptor::send(Segments::none(), cookie))
            .unwrap();
    }
    let nic = &mut host.nic;
    assert_eq!(nic.resize_completion_queue(queue, 100), Ok(()));
    let waiting = CompletionQueueError::EntriesWaiting { waiting: 3 };
    assert_eq!(nic.resize_completion_queue(queue, 2), Err(waiting));
    assert_eq!(nic.resize_completion_queue(queue, 3), Ok(()));
    assert_eq!(nic.query_completion_queue(queue).unwrap().entries, 3);
    let entries = std::iter::from_fn(|| nic.completion_queue_done(queue)).count();
    assert_eq!(entries, 3);
}

#[test]
fn a_descriptor_taken_without_its_entry_leaves_the_entry() {
    let mut host = host(NicAttributes::default());
    let queue = host.nic.create_completion_queue(2).unwrap();
    let attributes = host.attributes();
    let vi = host.nic.create_vi(attributes, Some(queue), None).unwrap();
    host.nic
        .post_send(vi, Descriptor::send(Segments::none(), 0))
        .unwrap();
    assert!(host.nic.send_done(vi).completion().is_some());
    assert!(host.nic.completion_queue_done(queue).is_some());
    assert_eq!(host.nic.send_done(vi), Done::Empty);
}

#[test]
fn ids_survive_being_numbers() {
    let mut host = host(NicAttributes::default());
    let (vi, queue) = (host.vi(), host.nic.create_completion_queue(1).unwrap());
    assert_ne!(vi.to_bits(), 0);
    assert_eq!(ViId::from_bits(vi.to_bits()), Some(vi));
    assert_eq!(ViId::from_bits(0), None);
    assert_eq!(CompletionQueueId::from_bits(queue.to_bits()), Some(queue));
    assert_eq!(host.nic.vis().collect::<Vec<_>>(), [vi]);
    assert_eq!(vi.index(), 0);
}
