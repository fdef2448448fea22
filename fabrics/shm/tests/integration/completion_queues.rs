//! Completion queues with many VIs, in one process, through the very path that two processes use.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use viaduct_core::{
    Address, MemoryAttributes, MemoryHandle, Queue, ReliabilityLevel, ViAttributes,
};
use viaduct_provider::{
    CompletionQueueHandle, Descriptor, NicHandle, Provider, ReturnCode, Segment, ViHandle,
};
use viaduct_shm::Shm;

const PATIENCE: Duration = Duration::from_secs(60);
/// After which a client asks again.
const ATTEMPT: Duration = Duration::from_secs(2);
/// A descriptor and its data.
const PLACE_BYTES: usize = 256;

/// Memory for descriptors by number.
struct Arena {
    nic: NicHandle,
    attributes: ViAttributes,
    base: NonNull<u8>,
    handle: MemoryHandle,
}

// SAFETY: threads use different descriptors.
unsafe impl Sync for Arena {}

impl Arena {
    fn new(places: usize, level: ReliabilityLevel) -> Self {
        let shm = Shm::global();
        let nic = shm.open_nic("viaduct0").unwrap();
        let tag = shm.create_protection_tag(nic).unwrap();
        let bytes = places * PLACE_BYTES + 64;
        let base = NonNull::from(Box::leak(vec![0_u128; bytes / 16].into_boxed_slice())).cast();
        let attributes = MemoryAttributes {
            tag,
            rdma_write: false,
            rdma_read: false,
        };
        // SAFETY: the arena is never freed.
        let handle = unsafe { shm.register_memory(nic, base.as_ptr(), bytes, &attributes) };
        Self {
            nic,
            attributes: ViAttributes {
                reliability: level,
                ..ViAttributes::unreliable(tag, 4096)
            },
            base,
            handle: handle.unwrap(),
        }
    }

    fn queue(&self) -> CompletionQueueHandle {
        Shm::global()
            .create_completion_queue(self.nic, 10_000)
            .unwrap()
    }

    /// A connected pair: client and server, whose queues are bound.
    fn pair(
        &self,
        name: &[u8],
        client: [Option<CompletionQueueHandle>; 2],
        server: [Option<CompletionQueueHandle>; 2],
    ) -> (ViHandle, ViHandle) {
        let shm = Shm::global();
        let vi = |queues: [Option<CompletionQueueHandle>; 2]| {
            shm.create_vi(self.nic, &self.attributes, queues[0], queues[1])
                .unwrap()
        };
        let (client, server) = (vi(client), vi(server));
        let (_, host) = shm.query_nic(self.nic).unwrap();
        let address = Address::new(host, name);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let request = shm.connect_wait(self.nic, &address, Some(PATIENCE));
                    // The client may have given this attempt up.
                    let connection = request.unwrap().connection;
                    if shm.connect_accept(connection, server).is_ok() {
                        return;
                    }
                }
            });
            let local = Address::new(host, b"client");
            let start = Instant::now();
            while let Err(error) = shm.connect_request(client, &local, &address, Some(ATTEMPT)) {
                assert!(start.elapsed() < PATIENCE, "{error}");
                std::thread::yield_now();
            }
        });
        (client, server)
    }

    fn descriptor(&self, place: usize) -> *mut Descriptor {
        let start = self.base.as_ptr().addr().next_multiple_of(64) - self.base.as_ptr().addr();
        // SAFETY: inside the arena, aligned, not posted.
        unsafe {
            let descriptor = self.base.as_ptr().add(start + PLACE_BYTES * place);
            let descriptor = descriptor.cast::<Descriptor>();
            descriptor.write(Descriptor::default());
            (*descriptor).control.segment_count = 1;
            (*descriptor).control.length = 8;
            (*descriptor).segments[0] = Segment {
                address: descriptor.addr() as u64 + 128,
                handle: self.handle.bits(),
                length: 8,
            };
            descriptor
        }
    }

    fn post_receive(&self, vi: ViHandle, place: usize) {
        let descriptor = self.descriptor(place);
        // SAFETY: descriptor and data lie in the arena.
        unsafe { Shm::global().post_receive(vi, descriptor, self.handle) }.unwrap();
    }

    fn post_send(&self, vi: ViHandle, place: usize) {
        let descriptor = self.descriptor(place);
        // SAFETY: as above.
        unsafe { Shm::global().post_send(vi, descriptor, self.handle) }.unwrap();
    }

    fn close(&self, vis: &[ViHandle], queues: &[CompletionQueueHandle]) {
        let shm = Shm::global();
        for vi in vis {
            let _ = shm.disconnect(*vi);
            shm.destroy_vi(*vi).unwrap();
        }
        for queue in queues {
            shm.destroy_completion_queue(*queue).unwrap();
        }
    }
}

fn finish_send(vi: ViHandle) {
    let start = Instant::now();
    while Shm::global().send_done(vi).unwrap().descriptor().is_none() {
        assert!(start.elapsed() < PATIENCE, "the send does not complete");
    }
}

fn take_received(vi: ViHandle) {
    let received = Shm::global().receive_done(vi).unwrap();
    assert!(received.descriptor().is_some(), "an entry has a receive");
}

#[test]
fn a_sleeper_with_a_thousand_vis_is_woken_by_any() {
    const COUNT: usize = 1000;
    let shm = Shm::global();
    let arena = Arena::new(2 * COUNT, ReliabilityLevel::ReliableDelivery);
    let queue = arena.queue();
    let pairs: Vec<_> = (0..COUNT)
        .map(|_| arena.pair(b"thousand", [None; 2], [None, Some(queue)]))
        .collect();
    for (number, (_, server)) in pairs.iter().enumerate() {
        arena.post_receive(*server, number);
    }
    let rounds = 60;
    let asleep = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                while asleep.load(Ordering::Acquire) <= round {
                    std::thread::yield_now();
                }
                // By then it sleeps, as a rule; sometimes it is caught on its way.
                std::thread::sleep(Duration::from_micros((round as u64 % 7) * 500));
                let number = round * 379 % COUNT;
                arena.post_send(pairs[number].0, COUNT + number);
                finish_send(pairs[number].0);
            }
        });
        for round in 0..rounds {
            asleep.store(round + 1, Ordering::Release);
            let start = Instant::now();
            let entry = shm.completion_wait(queue, Some(PATIENCE)).unwrap();
            // A lost wake-up would be made up for after a second.
            assert!(
                start.elapsed() < Duration::from_millis(900),
                "round {round}"
            );
            let number = round * 379 % COUNT;
            assert_eq!(entry.vi, pairs[number].1);
            take_received(entry.vi);
            arena.post_receive(entry.vi, number);
        }
    });
    let error = shm.completion_wait(queue, Some(Duration::from_millis(5)));
    assert_eq!(error.unwrap_err().code(), ReturnCode::Timeout);
    let vis: Vec<_> = pairs.into_iter().flat_map(|(a, b)| [a, b]).collect();
    arena.close(&vis, &[queue]);
}

#[test]
fn two_queues_on_one_link_hear_of_their_own() {
    const COUNT: usize = 200;
    let shm = Shm::global();
    let arena = Arena::new(2 * COUNT, ReliabilityLevel::ReliableDelivery);
    let queues = [arena.queue(), arena.queue()];
    let pairs: Vec<_> = (0..COUNT)
        .map(|number| arena.pair(b"two", [None; 2], [None, Some(queues[number % 2])]))
        .collect();
    for (number, (_, server)) in pairs.iter().enumerate() {
        arena.post_receive(*server, number);
    }
    let rounds = 2000;
    let credits: Vec<_> = (0..COUNT).map(|_| AtomicUsize::new(1)).collect();
    std::thread::scope(|scope| {
        for (side, queue) in queues.into_iter().enumerate() {
            let (arena, pairs, credits) = (&arena, &pairs, &credits);
            scope.spawn(move || {
                for round in 0..rounds {
                    let entry = if round % 3 == 0 {
                        shm.completion_wait(queue, Some(PATIENCE)).unwrap()
                    } else {
                        let start = Instant::now();
                        loop {
                            if let Some(entry) = shm.completion_done(queue).unwrap() {
                                break entry;
                            }
                            assert!(start.elapsed() < PATIENCE, "no entry");
                        }
                    };
                    let number = pairs.iter().position(|pair| pair.1 == entry.vi).unwrap();
                    assert_eq!(number % 2, side);
                    take_received(entry.vi);
                    arena.post_receive(entry.vi, number);
                    credits[number].fetch_add(1, Ordering::Release);
                }
            });
        }
        let mut sent = [0; 2];
        let mut turn = 0;
        while sent != [rounds; 2] {
            turn += 1;
            let number = turn * 37 % COUNT;
            if sent[number % 2] == rounds || credits[number].load(Ordering::Acquire) == 0 {
                continue;
            }
            credits[number].fetch_sub(1, Ordering::Relaxed);
            sent[number % 2] += 1;
            arena.post_send(pairs[number].0, COUNT + number);
            finish_send(pairs[number].0);
        }
    });
    let vis: Vec<_> = pairs.into_iter().flat_map(|(a, b)| [a, b]).collect();
    arena.close(&vis, &queues);
}

#[test]
fn sends_complete_on_a_queue_of_their_own() {
    const COUNT: usize = 100;
    let shm = Shm::global();
    let arena = Arena::new(2 * COUNT, ReliabilityLevel::ReliableReception);
    let (sends, receives) = (arena.queue(), arena.queue());
    let pairs: Vec<_> = (0..COUNT)
        .map(|_| arena.pair(b"own", [Some(sends), None], [None, Some(receives)]))
        .collect();
    for round in 0..60 {
        for (number, (client, server)) in pairs.iter().enumerate() {
            arena.post_receive(*server, number);
            arena.post_send(*client, COUNT + number);
        }
        for (queue, kind) in [(receives, Queue::Receive), (sends, Queue::Send)] {
            for _ in 0..COUNT {
                let start = Instant::now();
                let entry = if round % 2 == 0 {
                    shm.completion_wait(queue, Some(PATIENCE)).unwrap()
                } else {
                    loop {
                        if let Some(entry) = shm.completion_done(queue).unwrap() {
                            break entry;
                        }
                        assert!(start.elapsed() < PATIENCE, "no entry of {kind:?}");
                    }
                };
                assert_eq!(entry.queue, kind);
                match kind {
                    Queue::Receive => take_received(entry.vi),
                    Queue::Send => finish_send(entry.vi),
                }
            }
        }
    }
    let vis: Vec<_> = pairs.into_iter().flat_map(|(a, b)| [a, b]).collect();
    arena.close(&vis, &[sends, receives]);
}

#[test]
fn handlers_are_called_for_vis_with_tripwires() {
    const COUNT: usize = 100;
    let shm = Shm::global();
    let arena = Arena::new(2 * COUNT, ReliabilityLevel::ReliableDelivery);
    let queue = arena.queue();
    let pairs: Vec<_> = (0..COUNT)
        .map(|_| arena.pair(b"armed", [None; 2], [None, Some(queue)]))
        .collect();
    let (told, heard) = std::sync::mpsc::channel();
    for round in 0..10 {
        for (number, (_, server)) in pairs.iter().enumerate() {
            arena.post_receive(*server, number);
        }
        for _ in 0..COUNT {
            let told = told.clone();
            let handler = Box::new(move |_, entry: viaduct_provider::CompletionEntry| {
                take_received(entry.vi);
                let _ = told.send(entry.vi);
            });
            shm.completion_notify(queue, handler).unwrap();
        }
        for (number, (client, _)) in pairs.iter().enumerate() {
            arena.post_send(*client, COUNT + number);
            finish_send(*client);
            if number % 8 == round % 8 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let mut all: Vec<_> = (0..COUNT)
            .map(|_| heard.recv_timeout(PATIENCE).unwrap())
            .collect();
        all.sort_unstable_by_key(|vi| vi.bits());
        all.dedup();
        assert_eq!(all.len(), COUNT, "each once");
    }
    let vis: Vec<_> = pairs.into_iter().flat_map(|(a, b)| [a, b]).collect();
    arena.close(&vis, &[queue]);
}

#[test]
fn vis_come_and_go_while_others_are_polled() {
    const COUNT: usize = 90;
    let shm = Shm::global();
    let arena = Arena::new(2 * COUNT + 2, ReliabilityLevel::ReliableDelivery);
    let queue = arena.queue();
    let pairs: Vec<_> = (0..COUNT)
        .map(|_| arena.pair(b"stay", [None; 2], [None, Some(queue)]))
        .collect();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..60 {
                let (client, server) = arena.pair(b"go", [None; 2], [None, Some(queue)]);
                arena.post_receive(server, 2 * COUNT);
                arena.post_send(client, 2 * COUNT + 1);
                finish_send(client);
                // Either side first: the flushed or filled receive is an entry or gone.
                arena.close(&[client, server], &[]);
            }
            stop.store(true, Ordering::Release);
        });
        let mut round = 0;
        while !stop.load(Ordering::Acquire) {
            for (number, (client, server)) in pairs.iter().enumerate() {
                arena.post_receive(*server, number);
                arena.post_send(*client, COUNT + number);
                finish_send(*client);
            }
            let mut left = COUNT;
            let start = Instant::now();
            while left > 0 {
                assert!(start.elapsed() < PATIENCE, "round {round}: {left} are lost");
                let Some(entry) = shm.completion_done(queue).unwrap() else {
                    continue;
                };
                if pairs.iter().any(|pair| pair.1 == entry.vi) {
                    take_received(entry.vi);
                    left -= 1;
                }
            }
            round += 1;
        }
    });
    let vis: Vec<_> = pairs.into_iter().flat_map(|(a, b)| [a, b]).collect();
    arena.close(&vis, &[queue]);
}
