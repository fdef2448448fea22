//! Two VIs of one process, through the very path that two processes use.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use viaduct_core::{Address, MemoryAttributes, MemoryHandle, ReliabilityLevel, ViAttributes};
use viaduct_provider::{Descriptor, Done, NicHandle, Provider, Segment, ViHandle, control};
use viaduct_shm::Shm;

struct Arena {
    base: NonNull<u8>,
    handle: MemoryHandle,
}

struct End {
    nic: NicHandle,
    vi: ViHandle,
    arena: Arena,
}

const ARENA_BYTES: usize = 8 << 20;

fn end(level: ReliabilityLevel, shared: bool) -> End {
    let shm = Shm::global();
    let nic = shm.open_nic("viaduct0").unwrap();
    let tag = shm.create_protection_tag(nic).unwrap();
    let base = if shared {
        shm.allocate_shared(nic, ARENA_BYTES).unwrap()
    } else {
        NonNull::from(Box::leak(vec![0_u128; ARENA_BYTES / 16].into_boxed_slice())).cast()
    };
    let attributes = MemoryAttributes {
        tag,
        rdma_write: true,
        rdma_read: true,
    };
    // SAFETY: the arena is never freed.
    let handle =
        unsafe { shm.register_memory(nic, base.as_ptr(), ARENA_BYTES, &attributes) }.unwrap();
    let attributes = ViAttributes {
        reliability: level,
        rdma_write: true,
        rdma_read: true,
        ..ViAttributes::unreliable(tag, 4 << 20)
    };
    let attributes = if level == ReliabilityLevel::Unreliable {
        ViAttributes {
            rdma_read: false,
            ..attributes
        }
    } else {
        attributes
    };
    let vi = shm.create_vi(nic, &attributes, None, None).unwrap();
    End {
        nic,
        vi,
        arena: Arena { base, handle },
    }
}

impl End {
    fn descriptor(&self, number: usize, offset: usize, length: usize) -> *mut Descriptor {
        let start =
            self.arena.base.as_ptr().addr().next_multiple_of(64) - self.arena.base.as_ptr().addr();
        // SAFETY: inside the arena.
        let descriptor =
            unsafe { self.arena.base.as_ptr().add(start + 64 * number) }.cast::<Descriptor>();
        // SAFETY: inside the arena, aligned, not posted.
        unsafe {
            descriptor.write(Descriptor::default());
            (*descriptor).control.segment_count = 1;
            (*descriptor).control.length = length as u32;
            (*descriptor).segments[0] = Segment {
                address: self.data(offset).addr() as u64,
                handle: self.arena.handle.bits(),
                length: length as u32,
            };
        }
        descriptor
    }

    fn data(&self, offset: usize) -> *mut u8 {
        // SAFETY: inside the arena.
        unsafe { self.arena.base.as_ptr().add((1 << 20) + offset) }
    }

    fn fill(&self, offset: usize, length: usize, seed: u8) {
        for index in 0..length {
            // SAFETY: inside the arena.
            unsafe {
                self.data(offset + index)
                    .write((index as u8).wrapping_mul(31).wrapping_add(seed))
            };
        }
    }

    fn check(&self, offset: usize, length: usize, seed: u8) {
        for index in 0..length {
            // SAFETY: inside the arena.
            let byte = unsafe { self.data(offset + index).read_volatile() };
            assert_eq!(
                byte,
                (index as u8).wrapping_mul(31).wrapping_add(seed),
                "byte {index} of {length}"
            );
        }
    }

    fn post_send(&self, descriptor: *mut Descriptor) {
        // SAFETY: descriptor and data lie in the arena.
        unsafe { Shm::global().post_send(self.vi, descriptor, self.arena.handle) }.unwrap();
    }

    fn post_receive(&self, descriptor: *mut Descriptor) {
        // SAFETY: as above.
        unsafe { Shm::global().post_receive(self.vi, descriptor, self.arena.handle) }.unwrap();
    }
}

fn pair(level: ReliabilityLevel, shared: bool, name: &[u8]) -> (End, End) {
    let shm = Shm::global();
    let (client, server) = (end(level, shared), end(level, shared));
    let (_, host) = shm.query_nic(server.nic).unwrap();
    let address = Address::new(host, name);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let request = shm
                .connect_wait(server.nic, &address, Some(Duration::from_secs(5)))
                .unwrap();
            shm.connect_accept(request.connection, server.vi).unwrap();
        });
        let local = Address::new(host, b"client");
        let start = Instant::now();
        loop {
            match shm.connect_request(client.vi, &local, &address, Some(Duration::from_secs(5))) {
                Ok(_) => break,
                Err(error) if start.elapsed() > Duration::from_secs(5) => panic!("{error}"),
                Err(_) => std::thread::yield_now(),
            }
        }
    });
    (client, server)
}

fn finish(look: impl Fn() -> Done) -> *mut Descriptor {
    let start = Instant::now();
    loop {
        match look() {
            Done::NotDone => assert!(start.elapsed() < Duration::from_secs(5), "no completion"),
            done => return done.descriptor().unwrap().as_ptr(),
        }
    }
}

const LEVELS: [ReliabilityLevel; 3] = [
    ReliabilityLevel::Unreliable,
    ReliabilityLevel::ReliableDelivery,
    ReliabilityLevel::ReliableReception,
];

#[test]
fn messages_of_every_size_arrive_whole_at_every_level() {
    let shm = Shm::global();
    for (number, level) in LEVELS.into_iter().enumerate() {
        for shared in [false, true] {
            let name = [b's', number as u8, u8::from(shared)];
            let (client, server) = pair(level, shared, &name);
            let sizes = [
                0,
                1,
                8,
                47,
                48,
                49,
                63,
                64,
                65,
                216,
                217,
                1000,
                4095,
                4096,
                4097,
                65_536,
                100_000,
                1 << 20,
                4 << 20,
            ];
            for round in 0..3_u8 {
                for size in sizes {
                    let size = size.min(ARENA_BYTES - (2 << 20));
                    server.post_receive(server.descriptor(0, 0, size));
                    client.fill(0, size, round);
                    client.post_send(client.descriptor(0, 0, size));
                    let received = finish(|| shm.receive_done(server.vi).unwrap());
                    // SAFETY: handed back.
                    unsafe {
                        assert_eq!((*received).control.status, 0x0001_0001, "{level:?} {size}");
                        assert_eq!((*received).control.length, size as u32);
                    }
                    server.check(0, size, round);
                    let sent = finish(|| shm.send_done(client.vi).unwrap());
                    // SAFETY: handed back.
                    unsafe { assert_eq!((*sent).control.status, 1, "{level:?} {size}") };
                }
            }
            shm.disconnect(client.vi).unwrap();
        }
    }
}

#[test]
fn many_messages_wrap_every_ring() {
    let shm = Shm::global();
    let (client, server) = pair(ReliabilityLevel::ReliableDelivery, true, b"wrap");
    for number in 0..64 {
        server.post_receive(server.descriptor(number, number * 4096, 4096));
    }
    let mut received = 0_u32;
    let mut sent = 0_u32;
    let mut done = 0_u32;
    while done < 20_000 {
        if sent < 20_000 && sent - received < 64 {
            let size = (sent as usize * 37) % 3000;
            let place = sent as usize % 64;
            client.fill(place * 4096, size, sent as u8);
            let descriptor = client.descriptor(place, place * 4096, size);
            // SAFETY: not posted.
            unsafe {
                (*descriptor).control.control = control::IMMEDIATE;
                (*descriptor).control.immediate = sent;
            }
            client.post_send(descriptor);
            sent += 1;
        }
        if let Some(descriptor) = shm.receive_done(server.vi).unwrap().descriptor() {
            let place = received as usize % 64;
            let size = (received as usize * 37) % 3000;
            // SAFETY: handed back.
            unsafe {
                assert_eq!((*descriptor.as_ptr()).control.immediate, received);
                assert_eq!((*descriptor.as_ptr()).control.length, size as u32);
            }
            server.check(place * 4096, size, received as u8);
            server.post_receive(server.descriptor(place, place * 4096, 4096));
            received += 1;
        }
        if shm.send_done(client.vi).unwrap().descriptor().is_some() {
            done += 1;
        }
    }
    assert_eq!(received, 20_000);
}

#[test]
fn a_remote_write_lands_and_a_remote_read_fetches() {
    let shm = Shm::global();
    for shared in [false, true] {
        for level in [
            ReliabilityLevel::ReliableDelivery,
            ReliabilityLevel::ReliableReception,
        ] {
            let name = [b'r', level as u8, u8::from(shared)];
            let (client, server) = pair(level, shared, &name);
            for size in [1, 8, 9, 4096, 300_000] {
                client.fill(0, size, 7);
                let descriptor = client.descriptor(0, 0, size);
                let rdma = |operation| {
                    // SAFETY: not posted; two segments fit.
                    unsafe {
                        (*descriptor).control.status = 0;
                        (*descriptor).control.control = operation;
                        (*descriptor).control.segment_count = 2;
                        (*descriptor).control.length = size as u32;
                        (*descriptor).segments[0] = Segment {
                            address: server.data(64).addr() as u64,
                            handle: server.arena.handle.bits(),
                            length: 0,
                        };
                        (*descriptor).segments[1] = Segment {
                            address: client.data(0).addr() as u64,
                            handle: client.arena.handle.bits(),
                            length: size as u32,
                        };
                    }
                    client.post_send(descriptor);
                    finish(|| shm.send_done(client.vi).unwrap())
                };
                // SAFETY: handed back.
                unsafe { assert_eq!((*rdma(control::RDMA_WRITE)).control.status, 0x0002_0001) };
                let start = Instant::now();
                // SAFETY: in the arena.
                while unsafe { server.data(64 + size - 1).read_volatile() }
                    != ((size - 1) as u8).wrapping_mul(31).wrapping_add(7)
                {
                    assert!(start.elapsed() < Duration::from_secs(5));
                }
                server.check(64, size, 7);
                server.fill(64, size, 99);
                // SAFETY: handed back.
                unsafe { assert_eq!((*rdma(control::RDMA_READ)).control.status, 0x0004_0001) };
                client.check(0, size, 99);
            }
        }
    }
}

#[test]
fn what_a_vi_counted_stays_counted_when_it_is_gone() {
    let shm = Shm::global();
    // Untouched by others of this process: counts are a NIC's own.
    let (client, server) = pair(ReliabilityLevel::ReliableReception, true, b"counts");
    let mut expected = 0;
    for size in [100, 300_000] {
        // A receive of two segments is told by no cookie: what does not go inline takes the pool.
        let descriptor = server.descriptor(0, 0, size);
        // SAFETY: not posted; two segments fit.
        unsafe {
            (*descriptor).control.segment_count = 2;
            (*descriptor).segments[1] = (*descriptor).segments[0];
            (*descriptor).segments[0].length = 0;
        }
        server.post_receive(descriptor);
        client.post_send(client.descriptor(0, 0, size));
        finish(|| shm.receive_done(server.vi).unwrap());
        finish(|| shm.send_done(client.vi).unwrap());
        expected += size as u64;
    }
    let sent = shm.counts(client.nic).unwrap();
    assert_eq!((sent.inline, sent.pooled, sent.messages()), (1, 1, 2));
    assert_eq!(
        (sent.bytes, sent.direct, sent.data_writes),
        (expected, 0, 0)
    );
    // 100 bytes take two slots; pieces of up to 64 KiB an entry of the transfer queue each.
    assert_eq!((sent.chunks, sent.transfers, sent.slots), (5, 6, 7));
    let received = shm.counts(server.nic).unwrap();
    assert_eq!((received.received, received.messages()), (2, 0));
    assert_eq!((received.indexes, received.cookies), (2, 0));
    // The sender waits for each message, and for each piece to get its chunk back.
    assert_eq!(received.returns, 6);
    for end in [&client, &server] {
        let before = shm.counts(end.nic).unwrap();
        shm.disconnect(end.vi).unwrap();
        shm.destroy_vi(end.vi).unwrap();
        assert_eq!(shm.counts(end.nic).unwrap().messages(), before.messages());
        assert_eq!(shm.counts(end.nic).unwrap().received, before.received);
        shm.close_nic(end.nic).unwrap();
        assert!(shm.counts(end.nic).is_err());
    }
}

#[test]
fn shared_memory_outlives_the_nic_it_was_allocated_on_until_another_frees_it() {
    let shm = Shm::global();
    let nic = shm.open_nic("viaduct0").unwrap();
    let memory = shm.allocate_shared(nic, 4096).unwrap();
    let tag = shm.create_protection_tag(nic).unwrap();
    let attributes = MemoryAttributes {
        tag,
        rdma_write: false,
        rdma_read: false,
    };
    // SAFETY: the memory is freed at the end, when the registration has gone with its NIC.
    unsafe { shm.register_memory(nic, memory.as_ptr(), 4096, &attributes) }.unwrap();
    shm.close_nic(nic).unwrap();
    // SAFETY: it is still there.
    unsafe {
        memory.write_volatile(7);
        assert_eq!(memory.read_volatile(), 7);
    }
    let other = shm.open_nic("viaduct0").unwrap();
    // SAFETY: nothing uses it any more.
    unsafe { shm.free_shared(other, memory) }.unwrap();
    // SAFETY: it is refused.
    assert!(unsafe { shm.free_shared(other, memory) }.is_err());
    shm.close_nic(other).unwrap();
}
