//! A peer that lies: it says and writes what no peer does. Memory that is not open to it stays what
//! it was, and others go on.
//!
//! `VIADUCT_RDMA_SEEDS=1000` takes so many seeds, `VIADUCT_RDMA_SEED=N` one.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use viaduct_core::verbs::flags::access;
use viaduct_core::verbs::{
    Capabilities, Completion, CompletionStatus, QueuePairAttributes, QueuePairState, QueuePairType,
    ScatterGatherElement, SendOpcode,
};

use super::*;
use crate::engine::PATIENCE;
use crate::packet::{ATOMIC, DATAGRAM, FIRST, LAST, MESSAGE, READ, WRITE};
use crate::ring::{Header, PAYLOAD_BYTES_MAX};
use crate::shared::Pages;
use crate::{
    CompletionQueue, CompletionQueueOptions, ProtectionDomain, QueuePair, QueuePairOptions,
    ReceiveRequest, SendRequest, devices, engine,
};

/// Rounds of one seed, and how many of them are run by default.
const ROUNDS: u32 = 400;
const SEEDS: u64 = 12;
/// The block of numbers of the liar, which no process has.
const BLOCK: u32 = 1023;
const NUMBER: u32 = BLOCK << 14 | 5;
/// Bytes of memory, of which the middle is open to peers.
const BYTES: usize = 48 * 1024;
const OPEN: std::ops::Range<usize> = 16 * 1024..24 * 1024;
const CANARY: u8 = 0xa5;

struct Random(u64);

impl Random {
    fn next(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.next(of.len() as u64) as usize]
    }
}

struct World {
    domain: ProtectionDomain,
    queue: CompletionQueue,
    memory: Vec<u8>,
    key: u32,
}

impl World {
    fn new() -> Self {
        let context = devices()[0].open().unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let options = CompletionQueueOptions {
            entries: 4096,
            ignores_overrun: true,
            ..CompletionQueueOptions::default()
        };
        let queue = context.create_completion_queue(&options).unwrap();
        let memory = vec![CANARY; BYTES];
        let start = memory.as_ptr() as u64 + OPEN.start as u64;
        let rights = access::LOCAL_WRITE
            | access::REMOTE_WRITE
            | access::REMOTE_READ
            | access::REMOTE_ATOMIC;
        // SAFETY: the memory lives as long as the test.
        let region = unsafe { domain.register_memory(start, OPEN.len() as u64, start, rights) };
        Self {
            domain,
            queue,
            key: region.unwrap().memory_key(),
            memory,
        }
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr() as u64 + OPEN.start as u64
    }

    fn element(&self, length: u32) -> ScatterGatherElement {
        ScatterGatherElement {
            address: self.address(),
            length,
            local_key: self.key,
        }
    }

    fn pair(&self, kind: QueuePairType) -> QueuePair {
        let options = QueuePairOptions {
            kind,
            capabilities: Capabilities {
                max_send_requests: 16,
                max_receive_requests: 64,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: 0,
            },
            send_queue: self.queue,
            receive_queue: self.queue,
            shared_receive_queue: None,
            is_every_send_signaled: true,
            cookie: 0,
        };
        self.domain.create_queue_pair(&options).unwrap()
    }

    fn connect(pair: &QueuePair, destination: u32) {
        let attributes = QueuePairAttributes {
            access_flags: access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC,
            timeout: 10,
            retry_count: 1,
            min_receiver_not_ready_timer: 1,
            max_read_atomic: 4,
            max_destination_read_atomic: 4,
            ..QueuePairAttributes::connection(destination)
        };
        pair.raise(&attributes).unwrap();
    }

    /// A queue pair whose peer is the liar, with receives.
    fn victim(&self, kind: QueuePairType) -> QueuePair {
        let pair = self.pair(kind);
        Self::connect(&pair, NUMBER);
        for request in 0..32 {
            let elements = [self.element([64, 8192][request as usize % 2])];
            let receive = ReceiveRequest {
                request,
                elements: &elements,
            };
            pair.post_receive(&receive).unwrap();
        }
        pair
    }

    fn is_whole(&self) -> bool {
        let outside = self.memory[..OPEN.start].iter();
        let mut outside = outside.chain(&self.memory[OPEN.end..]);
        outside.all(|byte| *byte == CANARY)
    }

    /// Two queue pairs that have nothing to do with the liar exchange a message.
    fn others_go_on(&self) {
        let kind = QueuePairType::Rc;
        let [one, two] = [(); 2].map(|()| self.pair(kind));
        Self::connect(&one, two.number());
        Self::connect(&two, one.number());
        let elements = [self.element(16)];
        let receive = ReceiveRequest {
            request: 1,
            elements: &elements,
        };
        two.post_receive(&receive).unwrap();
        let request = SendRequest::new(2, SendOpcode::Send).with_elements(&elements);
        // SAFETY: nothing is inline.
        unsafe { one.post_send(&request) }.unwrap();
        let mut left = 2;
        while left > 0 {
            let mut done = [Completion::default()];
            if self.queue.poll(&mut done).unwrap() == 1
                && [one.number(), two.number()].contains(&done[0].queue_pair)
            {
                assert_eq!(done[0].status, CompletionStatus::Success);
                left -= 1;
            }
        }
        one.destroy().unwrap();
        two.destroy().unwrap();
    }
}

/// A link to this process as from another, that has been let in.
fn liar() -> Link {
    let (place, block) = {
        let engine = engine::engine().unwrap();
        (engine.place.clone(), engine.block)
    };
    let tables = OwnTables {
        pairs: Arc::new(PairTable::create().unwrap()),
        regions: Arc::new(RegionTable::create().unwrap()),
        store: None,
    };
    let link = Link::connect(&place, block, BLOCK, &tables);
    let link = link.unwrap().expect("the service thread listens");
    while !is_in() {
        std::thread::yield_now();
    }
    link
}

fn is_in() -> bool {
    let engine = engine::engine().unwrap();
    engine.links_by_block.contains_key(&BLOCK)
}

/// The end of the liar is heard before the next one comes.
fn leave(link: Link) {
    drop(link);
    while is_in() {
        std::thread::yield_now();
    }
}

fn tell(link: &mut Link, header: &Header, payload: &[u8]) {
    if link.outgoing.has_room(payload.len()) {
        // SAFETY: the bytes of the slice; there is room.
        unsafe { link.outgoing.write(0, payload.as_ptr(), payload.len()) };
        link.outgoing.publish(header);
    }
    engine::engine().unwrap().progress();
    // So that answers find room.
    while let Ok(Some(header)) = link.incoming.peek() {
        link.incoming.advance(&header);
    }
    link.incoming.tell();
}

fn expected(pair: &QueuePair) -> u32 {
    let engine = engine::engine().unwrap();
    engine
        .objects
        .pair(pair.key)
        .map_or(0, |pair| pair.expected)
}

/// A write of many parts whose later parts say that it is longer than the first one said.
fn grows(world: &World) {
    let mut link = liar();
    let victim = world.victim(QueuePairType::Rc);
    let remote = Remote {
        address: world.address() + OPEN.len() as u64 - 8,
        key: world.key,
    };
    let mut header = Header {
        kind: MESSAGE,
        flags: WRITE | FIRST,
        target: victim.number(),
        source: NUMBER,
        sequence: expected(&victim),
        length: 16,
        total: 8,
        ..Header::default()
    };
    tell(&mut link, &header, &remote.encode());
    header.flags = WRITE | LAST;
    header.length = 4096;
    header.total = 1 << 20;
    tell(&mut link, &header, &[0x77; 4096]);
    assert!(world.is_whole());
    assert_eq!(victim.state().unwrap(), QueuePairState::Error);
    leave(link);
    victim.destroy().unwrap();
}

/// A message acknowledges what its sender says that it has, and nothing that was not sent.
fn acknowledges(world: &World) {
    let mut link = liar();
    let victim = world.victim(QueuePairType::Rc);
    let elements = [world.element(8)];
    let request = SendRequest::new(77, SendOpcode::Send).with_elements(&elements);
    // SAFETY: nothing is inline.
    unsafe { victim.post_send(&request) }.unwrap();
    let mut is_done_after = |code, sequence| {
        let header = Header {
            kind: MESSAGE,
            flags: FIRST | LAST,
            code,
            target: victim.number(),
            source: NUMBER,
            sequence,
            length: 8,
            total: 8,
            ..Header::default()
        };
        tell(&mut link, &header, &[0; 8]);
        let mut found = [Completion::default(); 4];
        let count = world.queue.poll(&mut found).unwrap();
        found[..count].iter().any(|done| done.request == 77)
    };
    let first = expected(&victim);
    assert!(!is_done_after(0, first));
    assert!(
        !is_done_after(2, first + 1),
        "one was sent, and two acknowledged"
    );
    assert!(
        !is_done_after(1, first + 5),
        "the message is not the next one"
    );
    assert!(is_done_after(1, first + 2));
    leave(link);
    victim.destroy().unwrap();
}

/// A peer that sends without end holds up no other, though nobody looks for what it sends.
fn floods(world: &World) {
    let mut link = liar();
    let victim = world.victim(QueuePairType::Rc);
    let first = expected(&victim);
    let apart = World::new();
    let [one, two] = [(); 2].map(|()| apart.pair(QueuePairType::Rc));
    World::connect(&one, two.number());
    World::connect(&two, one.number());
    let elements = [apart.element(16)];
    let receive = ReceiveRequest {
        request: 1,
        elements: &elements,
    };
    two.post_receive(&receive).unwrap();
    {
        let mut engine = engine::engine().unwrap();
        engine.near = engine.links_by_block[&BLOCK];
        engine.is_waiting = true;
    }
    let request = SendRequest::new(2, SendOpcode::Send).with_elements(&elements);
    // SAFETY: nothing is inline.
    unsafe { one.post_send(&request) }.unwrap();
    let is_heard = (0..8).any(|count| {
        link.outgoing.publish(&Header {
            kind: MESSAGE,
            flags: FIRST | LAST,
            target: victim.number(),
            source: NUMBER,
            sequence: first + count,
            length: 8,
            total: 8,
            ..Header::default()
        });
        apart.queue.poll(&mut [Completion::default()]).unwrap() > 0
    });
    assert!(is_heard);
    leave(link);
    for pair in [one, two, victim] {
        pair.destroy().unwrap();
    }
}

/// A region that goes waits for a peer that is about to leave its memory, and not for one that
/// stays there.
fn stays(world: &World) {
    let pages = match Pages::new() {
        Ok(pages) => pages,
        Err(error) => return println!("not tried: {error}"),
    };
    let shares = |key| {
        let engine = engine::engine().unwrap();
        engine.pages.as_ref().is_some_and(|pages| pages.shares(key))
    };
    let regions = {
        let mut engine = engine::engine().unwrap();
        engine.pages = Some(Box::new(pages));
        engine.objects.notices.carrier.tables.regions.clone()
    };
    let mut link = liar();
    let domain = world.domain.key.index();
    for leaves in [true, false] {
        let rights = access::LOCAL_WRITE | access::REMOTE_WRITE;
        let memory = world.domain.allocate(16 * 1024, rights).unwrap();
        let (key, address) = (memory.memory_key(), memory.address());
        assert!(shares(key));
        link.outgoing.begin_direct();
        let has_left = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (link, regions, has_left) = (&mut link, &regions, &has_left);
            scope.spawn(move || {
                while regions.find(key, domain, rights, address, 8).is_some() {
                    std::thread::yield_now();
                }
                if leaves {
                    // Longer than it takes to move pages.
                    std::thread::sleep(PATIENCE / 4);
                    has_left.store(true, Ordering::Release);
                    link.outgoing.end_direct();
                }
            });
            let begun = Instant::now();
            drop(memory);
            assert!(has_left.load(Ordering::Acquire) || begun.elapsed() >= PATIENCE);
        });
        assert!(!shares(key));
    }
    leave(link);
    engine::engine().unwrap().pages = None;
}

/// Packets at random, most of them nearly right.
fn writes_at_random(world: &World, seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut link = liar();
    let kinds = [QueuePairType::Rc, QueuePairType::Uc, QueuePairType::Ud];
    let make = |random: &mut Random| {
        let kind = random.one(&kinds);
        world.victim(kind)
    };
    let mut victim = make(&mut random);
    let mut payload = vec![0_u8; PAYLOAD_BYTES_MAX];
    for _ in 0..ROUNDS {
        for byte in &mut payload[..64] {
            *byte = random.next(256) as u8;
        }
        if random.next(2) == 0 {
            let remote = Remote {
                address: world.address() + random.one(&[0, 8, 4096, 8184, 8192, 1 << 40]),
                key: world.key,
            };
            payload[..16].copy_from_slice(&remote.encode());
        }
        let length = random.one(&[0, 8, 16, 32, 40, 48, 56, 100, 4096, 8192, 32_768]);
        let kind = random.one(&[
            MESSAGE, MESSAGE, MESSAGE, DATAGRAM, READ, ATOMIC, 5, 6, 0, 9,
        ]);
        let any = random.next(u64::from(u32::MAX)) as u32;
        let header = Header {
            kind,
            flags: random.next(128) as u8,
            code: random.one(&[0, 1, 5, 0x100, 0x7fff, 0xffff]),
            target: random.one(&[victim.number(), victim.number(), victim.number(), any]),
            source: random.one(&[NUMBER, NUMBER, NUMBER, any]),
            sequence: random.one(&[expected(&victim), expected(&victim), any]),
            immediate: any,
            length: length as u32,
            total: random.one(&[0, 8, 64, 4096, 8192, any, u32::MAX]),
        };
        if random.next(4) == 0 {
            // What the liar may acknowledge.
            let elements = [world.element(8)];
            let request = SendRequest::new(1, SendOpcode::Send).with_elements(&elements);
            // SAFETY: nothing is inline. Refused when the queue is full, or without an address.
            let _ = unsafe { victim.post_send(&request) };
        }
        tell(&mut link, &header, &payload[..length]);
        if random.next(40) == 0 {
            // What no ring has in it.
            let at = random.next(RING_BYTES as u64) as usize & !7;
            // SAFETY: a word of the ring that the liar writes.
            unsafe {
                let word = link._memory.base().as_ptr().add(at);
                AtomicU64::from_ptr(word.cast()).store(u64::from(any), Ordering::Relaxed);
            }
            engine::engine().unwrap().progress();
        }
        assert!(world.is_whole(), "seed {seed}");
        let is_lost = !is_in();
        if is_lost || random.next(12) == 0 {
            victim.destroy().unwrap();
            if is_lost {
                drop(link);
                link = liar();
            }
            victim = make(&mut random);
        }
    }
    leave(link);
    victim.destroy().unwrap();
    world.others_go_on();
}

/// Greetings at random: bytes, and none at all.
fn greets_at_random(world: &World, seed: u64) {
    let mut random = Random(seed | 1);
    let (place, block) = {
        let engine = engine::engine().unwrap();
        (engine.place.clone(), engine.block)
    };
    for _ in 0..20 {
        let wait = Deadline::after(Some(Duration::from_secs(10)));
        let line = rendezvous::connect(&place, name(block), wait, || false);
        let Ok(Some(line)) = line else { continue };
        let length = random.next(40) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next(256) as u8).collect();
        if random.next(2) == 0 {
            // A right greeting without what belongs beside it, or cut short.
            bytes = Message::Hello(Greeting::own(BLOCK)).encode();
            bytes.truncate(random.one(&[1, 24, 25, 25]));
        }
        let mut line = UnixStream::from(line);
        let _ = line.write(&bytes);
    }
    world.others_go_on();
}

#[test]
fn a_liar_harms_nobody_else() {
    let world = World::new();
    grows(&world);
    acknowledges(&world);
    floods(&world);
    stays(&world);
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match number("VIADUCT_RDMA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("VIADUCT_RDMA_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        println!("VIADUCT_RDMA_SEED={seed} runs what follows alone");
        writes_at_random(&world, seed);
        greets_at_random(&world, seed);
    }
}
