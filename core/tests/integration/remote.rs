//! Remote memory access: writes, reads, fences, and what its target protects.

use crate::common::*;
use ReliabilityLevel::{ReliableDelivery, ReliableReception, Unreliable};
use viaduct_core::*;

const LEVELS: [ReliabilityLevel; 3] = [Unreliable, ReliableDelivery, ReliableReception];

fn post(pair: &mut Pair, descriptor: Descriptor) {
    pair.hosts[0]
        .nic
        .post_send(pair.vis[0], descriptor)
        .unwrap();
}

fn pattern(pair: &mut Pair, side: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..MEMORY_BYTES).map(|i| (i * 7 % 253) as u8).collect();
    pair.hosts[side].memory.copy_from_slice(&bytes);
    bytes
}

#[test]
fn a_write_gathers_and_leaves_no_trace_but_the_bytes() {
    // Case 61.
    for level in LEVELS {
        let mut pair = Pair::connected_at(level);
        let source = pattern(&mut pair, 0);
        let buffer = pair.hosts[1].one(0, 8);
        pair.post_receive(1, buffer, 0);
        let host = &pair.hosts[0];
        let data = [host.data(500, 30), host.data(0, 0), host.data(10, 7)];
        let remote = pair.hosts[1].remote(1000);
        post(&mut pair, Descriptor::rdma_write(remote, &data, 3));
        assert_eq!(pair.deliver(0), []);
        assert_eq!(pair.drain(0)[0], [(3, 0x0002_0001)]);
        let mut expected = vec![0; MEMORY_BYTES as usize];
        expected[1000..1030].copy_from_slice(&source[500..530]);
        expected[1030..1037].copy_from_slice(&source[10..17]);
        assert!(pair.hosts[1].memory == expected, "{level:?}");
        assert_eq!(pair.receive_done(1), Done::NotDone);
        assert_eq!(pair.hosts[1].events(), []);
    }
}

#[test]
fn a_write_with_immediate_data_consumes_a_receive_and_touches_its_buffers_not() {
    // Case 62.
    for level in LEVELS {
        let mut pair = Pair::connected_at(level);
        // Its buffer could not be touched: outside the region.
        let buffer = pair.hosts[1].one(MEMORY_BYTES, 8);
        pair.post_receive(1, buffer, 9);
        pair.hosts[0].memory[..4].fill(0xAB);
        let remote = pair.hosts[1].remote(100);
        let data = [pair.hosts[0].data(0, 4)];
        let write = Descriptor::rdma_write(remote, &data, 3);
        post(&mut pair, write.with_immediate(77));
        assert_eq!(pair.deliver(0), []);
        assert_eq!(pair.drain(0)[0], [(3, 0x0002_0001)]);
        let completion = pair.receive_done(1).completion().unwrap();
        assert_eq!(
            (completion.cookie, completion.status.bits()),
            (9, 0x000B_0001)
        );
        assert_eq!((completion.length, completion.immediate), (4, Some(77)));
        assert_eq!(
            pair.hosts[1].memory[99..105],
            [0, 0xAB, 0xAB, 0xAB, 0xAB, 0]
        );
    }
}

#[test]
fn a_read_scatters_at_its_initiator_and_leaves_no_trace_at_its_target() {
    // Case 65.
    for level in [ReliableDelivery, ReliableReception] {
        let mut pair = Pair::connected_at(level);
        let source = pattern(&mut pair, 1);
        let host = &pair.hosts[0];
        let data = [host.data(50, 10), host.data(0, 20)];
        let remote = pair.hosts[1].remote(1000);
        post(&mut pair, Descriptor::rdma_read(remote, &data, 3));
        assert_eq!(pair.deliver(0), []);
        let completion = pair.send_done(0).completion().unwrap();
        assert_eq!(completion.status.bits(), 0x0004_0001);
        assert_eq!(completion.length, 30);
        assert_eq!(pair.hosts[0].memory[50..60], source[1000..1010]);
        assert_eq!(pair.hosts[0].memory[..20], source[1010..1030]);
        assert_eq!(pair.receive_done(1), Done::Empty);
        assert_eq!(pair.hosts[1].events(), []);
    }
}

#[test]
fn a_fenced_send_waits_for_all_earlier_reads_and_for_nothing_else() {
    for level in [ReliableDelivery, ReliableReception] {
        let mut pair = Pair::connected_at(level);
        let vi = pair.vis[0];
        let data = [pair.hosts[0].data(0, 4)];
        let remote = pair.hosts[1].remote(0);
        let message = Descriptor::send(Segments::none(), 9);
        let read = Descriptor::rdma_read(remote, &data, 1);
        post(&mut pair, message.clone().with_queue_fence());
        post(&mut pair, read.clone());
        post(&mut pair, read.clone());
        post(&mut pair, message.clone());
        post(&mut pair, message.with_queue_fence());
        post(&mut pair, read);
        let nic = &mut pair.hosts[0].nic;
        let mut start = || nic.start_send(vi);
        assert!(start().is_some(), "no read before it");
        let reads = [start().unwrap(), start().unwrap()];
        assert!(start().is_some(), "not fenced");
        assert_eq!(start(), None);
        assert!(nic.finish_send(vi, reads[1].work, SendOutcome::Sent));
        assert_eq!(nic.start_send(vi), None, "one read is still under way");
        assert!(nic.finish_send(vi, reads[0].work, SendOutcome::Sent));
        assert!(nic.start_send(vi).is_some());
        let last = nic.start_send(vi).unwrap();
        assert_eq!(last.header.operation, Operation::RdmaRead);
    }
}

#[test]
fn a_fence_of_an_earlier_connection_is_forgotten() {
    let mut pair = Pair::connected_at(ReliableDelivery);
    let vi = pair.vis[0];
    let read = Descriptor::rdma_read(pair.hosts[1].remote(0), &[], 1);
    post(&mut pair, read);
    assert!(pair.hosts[0].nic.start_send(vi).is_some());
    for side in 0..2 {
        pair.hosts[side].nic.disconnect(pair.vis[side]).unwrap();
    }
    pair.carry();
    pair.hosts[1].nic.disconnect(pair.vis[1]).unwrap();
    pair.connect();
    post(
        &mut pair,
        Descriptor::send(Segments::none(), 2).with_queue_fence(),
    );
    assert!(pair.hosts[0].nic.start_send(vi).is_some());
}

#[test]
fn the_target_protects_what_it_does_not_offer() {
    // Case 64: each of the conditions, for writes and reads; no byte changes.
    for operation in [Operation::RdmaWrite, Operation::RdmaRead] {
        let mut pair = Pair::unconnected();
        let host = &mut pair.hosts[1];
        let other = host.nic.create_protection_tag().unwrap();
        let open = MemoryAttributes {
            rdma_write: true,
            rdma_read: true,
            ..MemoryAttributes::local(host.tag)
        };
        let closed = MemoryAttributes {
            rdma_write: operation != Operation::RdmaWrite,
            rdma_read: operation != Operation::RdmaRead,
            ..open
        };
        let foreign = MemoryAttributes { tag: other, ..open };
        let [closed, foreign, dead] =
            [closed, foreign, open].map(|a| host.nic.register_memory(BASE, 100, a).unwrap());
        host.nic.deregister_memory(BASE, dead).unwrap();
        let good = host.remote(0);
        let bad = [
            RemoteSegment {
                handle: closed,
                ..good
            },
            RemoteSegment {
                handle: foreign,
                ..good
            },
            RemoteSegment {
                handle: dead,
                ..good
            },
            RemoteSegment {
                handle: MemoryHandle::from_bits(0),
                ..good
            },
            RemoteSegment {
                address: BASE - 1,
                ..good
            },
            RemoteSegment {
                address: BASE + MEMORY_BYTES - 9,
                ..good
            },
            RemoteSegment {
                address: u64::MAX - 3,
                ..good
            },
        ];
        let mut attempt = |remote, is_enabled: bool| {
            pair.change_attributes(|attributes| {
                attributes.reliability = ReliableReception;
                attributes.rdma_write = is_enabled || operation != Operation::RdmaWrite;
                attributes.rdma_read = is_enabled || operation != Operation::RdmaRead;
            });
            pair.connect();
            pair.hosts[0].memory.fill(1);
            pair.hosts[1].memory.fill(2);
            let data = [pair.hosts[0].data(0, 10)];
            let descriptor = Descriptor {
                operation,
                ..Descriptor::rdma_write(remote, &data, 3)
            };
            post(&mut pair, descriptor);
            let dropped = !pair.deliver(0).is_empty();
            let sends = pair.drain(0)[0].clone();
            if dropped {
                assert!(pair.hosts[0].memory.iter().all(|byte| *byte == 1));
                assert!(pair.hosts[1].memory.iter().all(|byte| *byte == 2));
                let vi = pair.vis[1];
                let told = match operation {
                    Operation::RdmaWrite => Event::RdmaWriteProtection { vi },
                    _ => Event::RdmaReadProtection { vi },
                };
                assert_eq!(pair.hosts[1].events()[0], told);
            }
            for side in 0..2 {
                pair.hosts[side].nic.disconnect(pair.vis[side]).unwrap();
            }
            pair.carry();
            for side in 0..2 {
                pair.hosts[side].nic.disconnect(pair.vis[side]).unwrap();
                pair.hosts[side].events();
            }
            sends[0].1 & Status::ERROR_MASK.bits()
        };
        assert_eq!(attempt(good, true), 0);
        assert_eq!(attempt(good, false), 0x80, "the VI");
        for remote in bad {
            assert_eq!(attempt(remote, true), 0x80, "{remote:?}");
        }
    }
}

#[test]
fn an_access_to_no_byte_needs_the_vi_alone() {
    let nowhere = RemoteSegment {
        address: 0,
        handle: MemoryHandle::from_bits(0),
    };
    for is_enabled in [true, false] {
        let mut pair = Pair::connected_with(|attributes| attributes.rdma_write = is_enabled);
        post(&mut pair, Descriptor::rdma_write(nowhere, &[], 3));
        assert_eq!(pair.deliver(0).is_empty(), is_enabled);
        assert_eq!(pair.drain(0)[0], [(3, 0x0002_0001)]);
    }
}

#[test]
fn remote_operations_have_their_own_format() {
    // Case 37: no remote segment, immediate data with a read, too many segments.
    let mut pair = Pair::connected_at(Unreliable);
    let limit = pair.hosts[0].nic.attributes().max_segments_per_descriptor as usize;
    let remote = pair.hosts[1].remote(0);
    let data = pair.hosts[0].data(0, 1);
    post(
        &mut pair,
        Descriptor::rdma_write(remote, &vec![data; limit - 1], 0),
    );
    post(
        &mut pair,
        Descriptor::rdma_write(remote, &vec![data; limit], 1),
    );
    let bare = Descriptor {
        operation: Operation::RdmaWrite,
        ..Descriptor::send(Segments::one(data), 2)
    };
    post(&mut pair, bare);
    assert_eq!(pair.deliver(0), []);
    assert_eq!(
        pair.drain(0)[0],
        [(0, 0x0002_0001), (1, 0x0002_0003), (2, 0x0002_0003)]
    );
    let mut pair = Pair::connected_at(ReliableDelivery);
    let remote = pair.hosts[1].remote(0);
    post(
        &mut pair,
        Descriptor::rdma_read(remote, &[], 0).with_immediate(1),
    );
    assert_eq!(pair.deliver(0), []);
    assert_eq!(pair.drain(0)[0], [(0, 0x0004_0003)]);
    assert_eq!(pair.states(), [ViState::Error; 2]);
}

#[test]
fn a_remote_access_of_an_earlier_connection_touches_nothing() {
    let mut pair = Pair::connected_at(Unreliable);
    let (vi, target) = (pair.vis[0], pair.vis[1]);
    let remote = pair.hosts[1].remote(0);
    post(&mut pair, Descriptor::rdma_write(remote, &[], 0));
    let send = pair.hosts[0].nic.start_send(vi).unwrap();
    let nic = &mut pair.hosts[1].nic;
    let RemoteVerdict::Access(started) = nic.start_remote_write(target, &send.header, remote)
    else {
        panic!("refused")
    };
    nic.disconnect(target).unwrap();
    let verdict = nic.start_remote_write(target, &send.header, remote);
    let gone = RemoteVerdict::Drop(DropReason::NotConnected);
    assert_eq!(verdict, gone);
    assert!(!nic.finish_remote_write(target, started, ReceiveOutcome::Corrupt));
    pair.carry();
    assert_eq!(pair.hosts[1].events(), []);
}
