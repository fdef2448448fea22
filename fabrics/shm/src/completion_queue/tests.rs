//! What a look costs with many VIs.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use viaduct_core::{Address, MemoryAttributes, MemoryHandle, ViAttributes};
use viaduct_provider::{Descriptor, NicHandle, Provider, Segment};

use super::sources::{SCANNED_AT_ONCE, SCANNED_MAX, counts};
use super::*;
use crate::Shm;

const PATIENCE: Duration = Duration::from_secs(60);
/// After which a client asks again.
const ATTEMPT: Duration = Duration::from_secs(2);

struct Ends {
    nic: NicHandle,
    memory: MemoryHandle,
    base: NonNull<u8>,
    clients: Vec<viaduct_provider::ViHandle>,
    servers: Vec<viaduct_provider::ViHandle>,
}

/// Descriptors of an end: its data follow.
const END_BYTES: usize = 256;

impl Ends {
    /// So many pairs in this process, the servers' receives bound to a queue.
    fn new(count: usize, name: &[u8], queue: impl Fn(NicHandle) -> CompletionQueueHandle) -> Self {
        let shm = Shm::global();
        let nic = shm.open_nic("viaduct0").expect("the NIC opens");
        let tag = shm.create_protection_tag(nic).expect("there are tags");
        let bytes = 2 * count * END_BYTES + 64;
        let memory = Box::leak(vec![0_u128; bytes / 16].into_boxed_slice());
        let base = NonNull::from(memory).cast::<u8>();
        let attributes = MemoryAttributes {
            tag,
            rdma_write: false,
            rdma_read: false,
        };
        // SAFETY: never freed.
        let memory = unsafe { shm.register_memory(nic, base.as_ptr(), bytes, &attributes) }
            .expect("there is room for a region");
        let queue = queue(nic);
        let attributes = ViAttributes::unreliable(tag, 4096);
        let mut ends = Self {
            nic,
            memory,
            base,
            clients: Vec::new(),
            servers: Vec::new(),
        };
        let (_, host) = shm.query_nic(nic).expect("the NIC is open");
        let address = Address::new(host, name);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let accept = |_| {
                    let vi = shm
                        .create_vi(nic, &attributes, None, Some(queue))
                        .expect("there is room for a VI");
                    loop {
                        let request = shm
                            .connect_wait(nic, &address, Some(PATIENCE))
                            .expect("a client comes");
                        // The client may have given this attempt up.
                        if shm.connect_accept(request.connection, vi).is_ok() {
                            return vi;
                        }
                    }
                };
                (0..count).map(accept).collect::<Vec<_>>()
            });
            for _ in 0..count {
                let vi = shm
                    .create_vi(nic, &attributes, None, None)
                    .expect("there is room for a VI");
                let local = Address::new(host, b"client");
                let start = Instant::now();
                while let Err(error) = shm.connect_request(vi, &local, &address, Some(ATTEMPT)) {
                    assert!(start.elapsed() < PATIENCE, "{error}");
                    std::thread::yield_now();
                }
                ends.clients.push(vi);
            }
            ends.servers = server.join().expect("the server does not panic");
        });
        for number in 0..count {
            ends.post_receive(number);
        }
        ends
    }

    fn descriptor(&self, number: usize) -> *mut Descriptor {
        let start = self.base.as_ptr().addr().next_multiple_of(64) - self.base.as_ptr().addr();
        // SAFETY: inside the memory, aligned, not posted.
        unsafe {
            let descriptor = self.base.as_ptr().add(start + number * END_BYTES);
            let descriptor = descriptor.cast::<Descriptor>();
            descriptor.write(Descriptor::default());
            (*descriptor).control.segment_count = 1;
            (*descriptor).control.length = 8;
            (*descriptor).segments[0] = Segment {
                address: descriptor.addr() as u64 + 128,
                handle: self.memory.bits(),
                length: 8,
            };
            descriptor
        }
    }

    fn post_receive(&self, number: usize) {
        let descriptor = self.descriptor(2 * number);
        // SAFETY: it lies in registered memory, as its data.
        unsafe { Shm::global().post_receive(self.servers[number], descriptor, self.memory) }
            .expect("the VI lives");
    }

    fn send(&self, number: usize) {
        let descriptor = self.descriptor(2 * number + 1);
        let shm = Shm::global();
        // SAFETY: as above.
        unsafe { shm.post_send(self.clients[number], descriptor, self.memory) }
            .expect("the VI lives");
        let start = Instant::now();
        while shm
            .send_done(self.clients[number])
            .expect("the VI lives")
            .descriptor()
            .is_none()
        {
            assert!(start.elapsed() < PATIENCE);
        }
    }

    fn close(self) {
        let shm = Shm::global();
        for vi in self.clients.into_iter().chain(self.servers) {
            let _ = shm.disconnect(vi);
            let _ = shm.destroy_vi(vi);
        }
        let _ = shm.close_nic(self.nic);
    }
}

fn next(queue: CompletionQueueHandle) -> viaduct_provider::ViHandle {
    let start = Instant::now();
    loop {
        if let Some(entry) = done(queue).expect("the queue lives") {
            let received = Shm::global().receive_done(entry.vi);
            assert!(received.expect("the VI lives").descriptor().is_some());
            return entry.vi;
        }
        assert!(start.elapsed() < PATIENCE, "no entry");
    }
}

#[test]
fn idle_vis_cost_nothing() {
    let made = std::cell::Cell::new(None);
    let ends = Ends::new(1000, b"idle", |nic| {
        let queue = Shm::global()
            .create_completion_queue(nic, 4000)
            .expect("there is room for a queue");
        made.set(Some(queue));
        queue
    });
    let queue = made.get().expect("it was made");
    while done(queue).expect("the queue lives").is_some() {}
    let slot = find(queue).expect("the queue lives");
    assert_eq!(slot.object.sources.lock().scanned_sources(), 0);

    let (looks, scans) = (counts::LOOKS.get(), counts::SCANS.get());
    let start = Instant::now();
    let polls = 200_000;
    for _ in 0..polls {
        assert_eq!(done(queue).expect("the queue lives"), None);
    }
    let elapsed = start.elapsed().as_millis() as u64;
    assert_eq!(counts::LOOKS.get() - looks, 0, "nobody sent");
    assert!(counts::SCANS.get() - scans <= elapsed + 1);

    let looks = counts::LOOKS.get();
    let rounds = 490;
    for round in 0..rounds {
        let active = [3, 500, 999 - round];
        let mut told: Vec<_> = active.iter().map(|number| ends.servers[*number]).collect();
        for number in &active {
            ends.send(*number);
        }
        while !told.is_empty() {
            let vi = next(queue);
            let place = told.iter().position(|sender| *sender == vi);
            told.swap_remove(place.expect("it sent"));
        }
        for number in &active {
            ends.post_receive(*number);
        }
    }
    let looks = counts::LOOKS.get() - looks;
    // A bit that is set again while its VI is looked at costs one look more.
    assert!(looks <= 2 * 3 * rounds as u64, "{looks} looks");
    ends.close();
}

#[test]
fn sources_move_when_others_leave() {
    let made = std::cell::Cell::new(None);
    let count = 3 * SCANNED_MAX;
    let mut ends = Ends::new(count, b"leave", |nic| {
        let queue = Shm::global()
            .create_completion_queue(nic, 1000)
            .expect("there is room for a queue");
        made.set(Some(queue));
        queue
    });
    let queue = made.get().expect("it was made");
    let shm = Shm::global();
    // From the front, so that the last moves each time, and down to fewer than are scanned.
    while ends.servers.len() > 2 {
        for number in 0..ends.servers.len() {
            ends.send(number);
        }
        let mut told: Vec<_> = ends.servers.clone();
        while !told.is_empty() {
            let vi = next(queue);
            let place = told.iter().position(|sender| *sender == vi);
            told.swap_remove(place.expect("it sent"));
        }
        for number in 0..ends.servers.len() {
            ends.post_receive(number);
        }
        for _ in 0..2 {
            let (client, server) = (ends.clients.remove(0), ends.servers.remove(0));
            // Sometimes with a message that is told but not looked at.
            shm.disconnect(server).expect("the VI lives");
            shm.destroy_vi(server).expect("it is idle");
            shm.disconnect(client).expect("the VI lives");
        }
        // The flushed receives of those that left were entries.
        while done(queue).expect("the queue lives").is_some() {}
    }
    ends.close();
}

#[test]
fn bits_that_a_peer_sets_at_will_cost_one_look_each() {
    let made = std::cell::Cell::new(None);
    let count = 2 * SCANNED_MAX;
    let ends = Ends::new(count, b"hostile", |nic| {
        let queue = Shm::global()
            .create_completion_queue(nic, 1000)
            .expect("there is room for a queue");
        made.set(Some(queue));
        queue
    });
    let queue = made.get().expect("it was made");
    while done(queue).expect("the queue lives").is_some() {}
    let groups = find(queue)
        .expect("the queue lives")
        .object
        .sources
        .lock()
        .own_groups();
    assert!(!groups.is_empty());
    for _ in 0..10 {
        for (link, group) in &groups {
            for channel in 0..crate::notice::CHANNELS {
                link.incoming_notices().post(*group, channel);
            }
        }
        let looks = counts::LOOKS.get();
        assert_eq!(done(queue).expect("the queue lives"), None);
        assert!(counts::LOOKS.get() - looks <= count as u64);
    }
    // And one that never sets any is found out by the scan.
    ends.send(0);
    for (link, group) in &groups {
        link.incoming_notices()
            .take(*group, [1 << 15; 2], false, |_| {});
    }
    assert_eq!(next(queue), ends.servers[0]);
    drop(groups);
    ends.close();
}

#[test]
fn of_more_vis_than_are_peeked_at_once_each_has_its_turn() {
    let made = std::cell::Cell::new(None);
    let count = SCANNED_AT_ONCE + 64;
    let ends = Ends::new(count, b"turns", |nic| {
        let queue = Shm::global()
            .create_completion_queue(nic, 2 * count as u32)
            .expect("there is room for a queue");
        made.set(Some(queue));
        queue
    });
    let queue = made.get().expect("it was made");
    while done(queue).expect("the queue lives").is_some() {}
    let slot = find(queue).expect("the queue lives");
    let groups = slot.object.sources.lock().own_groups();
    for number in [count - 1, 0] {
        {
            // Others that poll would see it told.
            let mut sources = slot.object.sources.lock();
            ends.send(number);
            for (link, group) in &groups {
                link.incoming_notices()
                    .take(*group, [1 << 15; 2], false, |_| {});
            }
            assert!(sources.is_quiet());
            for _ in 0..count.div_ceil(SCANNED_AT_ONCE) {
                sources.scan();
            }
            assert!(!sources.is_quiet(), "VI {number} had no turn");
        }
        assert_eq!(next(queue), ends.servers[number]);
    }
    drop(groups);
    ends.close();
}
