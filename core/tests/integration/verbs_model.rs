//! Random sequences of operations on the queue pairs of two adapters against an obvious reference:
//! lists of what was posted, and memory as a list of bytes.
//!
//! Each adapter has up to three queue pairs, each of its type, with one of the peer. They share the
//! adapter's completion queues, its memory and maybe a receive queue. Packets and answers of two
//! queue pairs are carried in order and lost at random, and time passes. Whatever the order, the
//! reference says of each packet what its target does with it, and of each call how it ends; each
//! request completes once, in the order of posts, with a status that has its reason; a reliable
//! request is carried out once; inline bytes are those of the post; nothing fenced passes a read or
//! an atomic; a completion queue that overruns keeps what it had and ends; what is used is not
//! destroyed, and nothing twice.
//!
//! `VIADUCT_SEQUENCES=1000000` runs so many, `VIADUCT_SEQUENCE=N`, which a failure prints, one.

use std::collections::VecDeque;

use viaduct_core::verbs::flags::{access, attribute, completion, send};
use viaduct_core::verbs::notices::{Destruction, Owner};
use viaduct_core::verbs::responder::Incident;
use viaduct_core::verbs::{
    Adapter, AddressAttributes, Answer, AsyncElement, AsyncEventType, Capabilities, Completion,
    CompletionQueueOptions, CompletionStatus, DatagramDestination, Key, Limits, Memory, Mtu,
    Outcome, Packet, Packets, QueuePairAttributes, QueuePairOptions, QueuePairState, QueuePairType,
    ReceiveRequest, Result, ScatterGatherElement, SendOpcode, SendRequest, SharedReceiveAttributes,
    Taken, errno,
};

const LIMITS: Limits = Limits {
    first_number: 0x4000,
    max_queue_pairs: 4,
    max_regions: 4,
    max_address_handles: 1,
    max_objects: 4,
    max_requests: 8,
    max_elements: 1,
    max_inline_bytes: 64,
    min_inline_bytes: 0,
    max_completion_entries: 64,
    max_read_atomic: 2,
    max_message_bytes: 1 << 20,
    max_region_bytes: 1 << 20,
    mtu: Mtu::Bytes4096,
    gids: 1,
    needs_route: true,
};
const SENDS: usize = 6;
const RECEIVES: usize = 4;
/// Reads and atomics under way, which is how many atomics a target remembers.
const READS: usize = 2;
/// Queue pairs of a side.
const ENDS: usize = 3;
/// Bytes that a send may bring with it.
const INLINE_BYTES: usize = 24;
/// What a datagram names besides the number of its queue pair.
const QUEUE_KEY: u32 = 9;
/// The address of an adapter.
const GID: [u8; 16] = [7; 16];
/// Entries of a receive completion queue that is to overrun.
const FEW: usize = 3;
/// Entries of any other: more than there are requests at once.
const MANY: usize = 64;
/// The number of the first request: numbers grow past the last of 24 bits.
const FIRST: u32 = 0xff_fffe;

/// What of a memory is sent, where bytes come that were asked for or received, and what a peer may
/// reach.
const SOURCE: usize = 0;
const SINK: usize = 64;
const OFFERED: usize = 128;
const BYTES: usize = 256;
const ALL: u32 =
    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

struct Bytes {
    base: u64,
    bytes: Vec<u8>,
}

impl Memory for Bytes {
    fn read(&self, address: u64, length: usize, into: &mut Vec<u8>) {
        let at = (address - self.base) as usize;
        into.extend_from_slice(&self.bytes[at..at + length]);
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - self.base) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wrong {
    /// Its own key.
    OwnKey,
    /// The key of the peer's memory.
    RemoteKey,
    /// It ends behind the peer's memory.
    Range,
    /// An atomic's address.
    Alignment,
    /// A datagram's Q_Key.
    QueueKey,
}

/// A request that was posted to a send queue: it has the number of its place among them.
#[derive(Debug)]
struct Posted {
    opcode: SendOpcode,
    length: usize,
    /// Where in the peer's memory.
    remote: usize,
    is_signaled: bool,
    is_fenced: bool,
    /// Its bytes, if they were taken when it was posted.
    inline: Option<Vec<u8>>,
    wrong: Option<Wrong>,
    /// Whether a packet of it has begun.
    is_begun: bool,
    /// Whether the peer has carried it out, and if it asks for bytes, those are back.
    is_applied: bool,
    is_answered: bool,
    /// What the peer has refused it with, once the sender has heard.
    refused: Option<CompletionStatus>,
}

/// A queue pair, whose peer is that of the same place at the other side.
struct End {
    kind: QueuePairType,
    pair: Key,
    number: u32,
    state: QueuePairState,
    posted: Vec<Posted>,
    /// The oldest request whose completion was neither taken nor passed over.
    oldest: usize,
    /// Its own receives.
    receives: VecDeque<(u64, usize)>,
    /// The peer's request that is expected, whether it was told to be missing, and what the last
    /// atomics found.
    expected: usize,
    is_gap_told: bool,
    found: VecDeque<(usize, u64)>,
    /// What is on its way to the peer.
    packets: VecDeque<(Packet, Vec<u8>)>,
    answers: VecDeque<(u32, Answer, Vec<u8>)>,
    /// How often it may have tried again.
    tries: usize,
    has_told_error: bool,
}

struct Side {
    adapter: Adapter,
    context: Key,
    domain: Key,
    send_queue: Key,
    receive_queue: Key,
    address: Key,
    region: Key,
    memory_key: u32,
    memory: Bytes,
    /// What the memory is to be.
    reference: Vec<u8>,
    ends: Vec<End>,
    /// A receive queue of all, and what is posted there.
    shared: Option<Key>,
    shared_receives: VecDeque<(u64, usize)>,
    /// Completions of receives that are to come: of which queue pair, which, how, and with how many
    /// bytes.
    received: VecDeque<(usize, u64, CompletionStatus, usize)>,
    /// For how many of them there is room, and whether there was none.
    room: usize,
    has_overrun: bool,
    next_receive: u64,
}

fn attributes_of(peer: u32) -> QueuePairAttributes {
    QueuePairAttributes {
        access_flags: ALL,
        send_packet_number: FIRST,
        receive_packet_number: FIRST,
        timeout: 1,
        min_receiver_not_ready_timer: 1,
        queue_key: QUEUE_KEY,
        max_read_atomic: READS as u8,
        max_destination_read_atomic: READS as u8,
        address: AddressAttributes {
            is_global: true,
            port: 1,
            ..AddressAttributes::default()
        },
        ..QueuePairAttributes::connection(peer)
    }
}

/// What the atomic of a number compares or adds, and stores.
const fn atomic(number: usize) -> (u64, u64) {
    (number as u64 % 3, number as u64 + 1)
}

fn errno_of<T>(result: Result<T>) -> Option<i32> {
    result.err().map(|error| error.errno())
}

impl End {
    fn new(kind: QueuePairType, (pair, number): (Key, u32)) -> Self {
        Self {
            kind,
            pair,
            number,
            state: QueuePairState::Reset,
            posted: Vec::new(),
            oldest: 0,
            receives: VecDeque::new(),
            expected: 0,
            is_gap_told: false,
            found: VecDeque::new(),
            packets: VecDeque::new(),
            answers: VecDeque::new(),
            tries: 0,
            has_told_error: false,
        }
    }

    const fn place(&self) -> u32 {
        self.pair.index()
    }

    const fn hears(&self) -> bool {
        use QueuePairState::{ReadyToReceive, ReadyToSend, SendDrained, SendError};
        matches!(
            self.state,
            ReadyToReceive | ReadyToSend | SendDrained | SendError
        )
    }

    fn may_succeed(&self, number: usize) -> bool {
        let posted = &self.posted[number];
        match self.kind {
            QueuePairType::Rc if posted.opcode.is_answered() => posted.is_answered,
            QueuePairType::Rc => posted.is_applied,
            _ => posted.is_begun,
        }
    }
}

impl Side {
    fn new(base: u64, kinds: &[QueuePairType], random: &mut Random) -> Self {
        let is_shared = random.one_in(3);
        let room = if random.one_in(8) { FEW } else { MANY };
        let mut adapter = Adapter::new(LIMITS, 1, Packets::from(GID));
        adapter.set_time(1);
        let context = adapter.notices.open((), None).unwrap();
        let domain = adapter.allocate_domain(context).unwrap();
        let mut queue = |entries: usize| {
            let options = CompletionQueueOptions {
                entries: entries as u32,
                ..CompletionQueueOptions::default()
            };
            adapter.create_completion_queue(context, &options).unwrap()
        };
        let (send_queue, receive_queue) = (queue(MANY), queue(room));
        let attributes = SharedReceiveAttributes {
            max_requests: RECEIVES as u32,
            max_elements: 1,
            limit: 0,
        };
        let shared = is_shared.then(|| adapter.create_shared(domain, &attributes, 0).unwrap());
        let ends = kinds.iter().zip(0..).map(|(&kind, cookie)| {
            let options = QueuePairOptions {
                kind,
                capabilities: Capabilities {
                    max_send_requests: SENDS as u32,
                    max_receive_requests: RECEIVES as u32,
                    max_send_elements: 1,
                    max_receive_elements: 1,
                    max_inline_bytes: INLINE_BYTES as u32,
                },
                send_queue,
                receive_queue,
                shared_receive_queue: shared,
                is_every_send_signaled: false,
                cookie,
            };
            End::new(kind, adapter.create_pair(domain, &options).unwrap())
        });
        let ends: Vec<End> = ends.collect();
        for (number, end) in (LIMITS.first_number..).zip(&ends) {
            assert_eq!(end.number, number);
        }
        let way = attributes_of(0).address;
        let address = adapter.create_address(domain, &way).unwrap();
        let length = BYTES as u64;
        let (region, memory_key) = adapter
            .register_memory(domain, base, length, base, ALL)
            .unwrap();
        let bytes: Vec<u8> = (0..BYTES).map(|_| random.next() as u8).collect();
        Self {
            adapter,
            context,
            domain,
            send_queue,
            receive_queue,
            address,
            region,
            memory_key,
            reference: bytes.clone(),
            memory: Bytes { base, bytes },
            ends,
            shared,
            shared_receives: VecDeque::new(),
            received: VecDeque::new(),
            room,
            has_overrun: false,
            next_receive: 0,
        }
    }

    /// Receives that a queue pair takes from.
    fn receives(&mut self, at: usize) -> &mut VecDeque<(u64, usize)> {
        match self.shared {
            Some(_) => &mut self.shared_receives,
            None => &mut self.ends[at].receives,
        }
    }

    /// A receive completes, if there is room for that.
    fn complete(&mut self, at: usize, request: u64, status: CompletionStatus, length: usize) {
        self.has_overrun |= self.received.len() == self.room;
        if !self.has_overrun {
            self.received.push_back((at, request, status, length));
        }
    }

    fn element(&self, at: usize, length: usize, key: u32) -> ScatterGatherElement {
        ScatterGatherElement {
            address: self.memory.base + at as u64,
            length: length as u32,
            local_key: key,
        }
    }

    /// Goes up by a step, or as far as it goes.
    fn raise(&mut self, at: usize, count: usize) {
        let end = &mut self.ends[at];
        for (step, mask) in attributes_of(end.number).steps_up(end.kind).take(count) {
            self.adapter.modify(end.pair, &step, mask).unwrap();
            end.state = step.state;
        }
    }

    fn goes_to(&mut self, at: usize, state: QueuePairState) -> Result<()> {
        let wanted = QueuePairAttributes {
            state,
            ..QueuePairAttributes::default()
        };
        let pair = self.ends[at].pair;
        self.adapter.modify(pair, &wanted, attribute::STATE)
    }

    /// Its receives are flushed, if it has any of its own.
    fn fail(&mut self, at: usize) {
        self.ends[at].state = QueuePairState::Error;
        for (request, _) in core::mem::take(&mut self.ends[at].receives) {
            self.complete(at, request, CompletionStatus::FlushError, 0);
        }
    }

    /// It may have failed by itself, which a completion will tell.
    fn look_at_state(&mut self, at: usize) {
        let end = &mut self.ends[at];
        let state = self.adapter.pair(end.pair).unwrap().state;
        if state == end.state {
            return;
        }
        match end.kind {
            QueuePairType::Rc => {
                assert_eq!(state, QueuePairState::Error);
                self.fail(at);
            }
            _ => {
                assert_eq!(state, QueuePairState::SendError);
                end.state = state;
            }
        }
        // Why, is seen when the completion is taken.
        assert!(self.adapter.incomplete(self.ends[at].place()) == Some(0));
    }

    fn post_receive(&mut self, at: usize, length: usize) {
        let elements = [self.element(SINK, length, self.memory_key)];
        let request = ReceiveRequest {
            request: self.next_receive,
            elements: if length == 0 { &[] } else { &elements },
        };
        let state = self.ends[at].state;
        let posted = match self.shared {
            Some(shared) => self.adapter.post_shared_receive(shared, &request),
            None => self.adapter.post_receive(self.ends[at].pair, &request),
        };
        let expected = if self.shared.is_none() && state == QueuePairState::Reset {
            Some(errno::EINVAL)
        } else if self.receives(at).len() == RECEIVES {
            Some(errno::ENOMEM)
        } else {
            None
        };
        assert_eq!(errno_of(posted), expected, "a receive is posted");
        if expected.is_none() {
            let receive = (self.next_receive, length);
            self.receives(at).push_back(receive);
            self.next_receive += 1;
            if state == QueuePairState::Error {
                self.fail(at);
            }
        }
    }

    /// The program writes into what it sends.
    fn change(&mut self, random: &mut Random) {
        let (place, byte) = (SOURCE + random.below(64), random.next() as u8);
        self.memory.bytes[place] = byte;
        self.reference[place] = byte;
    }

    fn post_send(&mut self, at: usize, peer: (u64, u32), random: &mut Random) {
        use SendOpcode::{
            AtomicCompareAndSwap, AtomicFetchAndAdd, RdmaRead, RdmaWrite, RdmaWriteWithImmediate,
            Send, SendWithImmediate,
        };
        let opcodes = [
            Send,
            Send,
            SendWithImmediate,
            RdmaWrite,
            RdmaWriteWithImmediate,
            RdmaRead,
            AtomicFetchAndAdd,
            AtomicCompareAndSwap,
        ];
        let opcode = opcodes[random.below(opcodes.len())];
        let length = if opcode.is_atomic() {
            8
        } else {
            [0, 1, 8, 24, 64][random.below(5)]
        };
        let is_remote = opcode.is_write() || opcode.is_answered();
        let (kind, state) = (self.ends[at].kind, self.ends[at].state);
        let is_datagram = kind == QueuePairType::Ud;
        let is_inline = random.one_in(4);
        let wrong = match random.below(60) {
            // Nobody looks at the key of what is taken at once.
            0 if is_inline => None,
            0 if length > 0 => Some(Wrong::OwnKey),
            1 if is_remote && length > 0 => Some(Wrong::RemoteKey),
            2 if is_remote && length > 0 => Some(Wrong::Range),
            3 if opcode.is_atomic() => Some(Wrong::Alignment),
            4..8 if is_datagram => Some(Wrong::QueueKey),
            _ => None,
        };
        let remote = match wrong {
            Some(Wrong::Range) => BYTES - length + 8,
            Some(Wrong::Alignment) => OFFERED + 4,
            _ => OFFERED + 8 * random.below((BYTES - OFFERED - 64) / 8),
        };
        let is_signaled = !random.one_in(4);
        let key = match wrong {
            Some(Wrong::OwnKey) => self.memory_key ^ 0x100,
            _ => self.memory_key,
        };
        let is_fenced = random.one_in(4);
        let place = if opcode.is_answered() { SINK } else { SOURCE };
        let elements = [self.element(place, length, key)];
        let number = self.ends[at].posted.len();
        let remote_key = match wrong {
            Some(Wrong::RemoteKey) => peer.1 ^ 0x100,
            _ => peer.1,
        };
        let mut request = SendRequest::<Key>::new(number as u64, opcode)
            .with_remote(peer.0 + remote as u64, remote_key)
            .with_flags(
                [
                    (is_signaled, send::SIGNALED),
                    (is_inline, send::INLINE),
                    (is_fenced, send::FENCE),
                ]
                .iter()
                .map(|(is_given, flag)| u32::from(*is_given) * flag)
                .sum(),
            );
        if length > 0 {
            request = request.with_elements(&elements);
        }
        request.immediate = number as u32;
        (request.compare_add, request.swap) = atomic(number);
        let has_address = !random.one_in(16);
        if is_datagram && has_address {
            request.datagram = Some(DatagramDestination {
                address: self.address,
                queue_pair: self.ends[at].number,
                queue_key: QUEUE_KEY ^ u32::from(wrong == Some(Wrong::QueueKey)),
            });
        }
        let end = &mut self.ends[at];
        let is_full = self.adapter.incomplete(end.place()) == Some(SENDS as u32);
        let posted = self.adapter.post(end.pair, &[request], &self.memory);
        let has_operation = match kind {
            QueuePairType::Rc => true,
            QueuePairType::Uc => !opcode.is_answered(),
            QueuePairType::Ud => !is_remote && has_address,
        };
        let is_too_long = is_inline && (opcode.is_answered() || length > INLINE_BYTES);
        let expected = if state != QueuePairState::ReadyToSend
            && state != QueuePairState::SendDrained
            && state != QueuePairState::SendError
            && state != QueuePairState::Error
        {
            Some(errno::EINVAL)
        } else if is_full {
            Some(errno::ENOMEM)
        } else if !has_operation || is_too_long {
            Some(errno::EINVAL)
        } else {
            None
        };
        assert_eq!(errno_of(posted), expected, "{opcode:?} in {state:?}");
        if expected.is_none() {
            let bytes = &self.reference[SOURCE..SOURCE + length];
            end.posted.push(Posted {
                opcode,
                length,
                remote,
                is_signaled,
                is_fenced,
                inline: is_inline.then(|| bytes.to_vec()),
                wrong,
                is_begun: false,
                is_applied: false,
                is_answered: false,
                refused: None,
            });
        }
    }

    fn begin(&mut self, at: usize) -> bool {
        let mut bytes = Vec::new();
        let place = self.ends[at].place();
        let begun = self.adapter.begin(place, &self.memory, &mut bytes);
        self.look_at_state(at);
        let Some(packet) = begun else { return false };
        let end = &mut self.ends[at];
        assert_eq!(end.state, QueuePairState::ReadyToSend);
        assert_eq!((packet.source, packet.target), (end.number, end.number));
        let number = packet.immediate as usize;
        // What failed at its own side before it has no number on the connection.
        let sequence = FIRST.wrapping_add(number as u32);
        assert!(end.kind != QueuePairType::Rc || packet.sequence == sequence);
        let asked = end.posted[..number]
            .iter()
            .filter(|it| it.opcode.is_answered() && !it.is_answered);
        let asked = asked.count();
        let posted = &mut end.posted[number];
        assert!(asked < READS || !posted.opcode.is_answered());
        assert!(asked == 0 || !posted.is_fenced);
        assert_eq!(
            (packet.opcode, packet.length),
            (posted.opcode, posted.length as u64)
        );
        assert_ne!(posted.wrong, Some(Wrong::OwnKey));
        if !posted.opcode.is_answered() {
            let now = &self.reference[SOURCE..SOURCE + posted.length];
            assert_eq!(bytes, posted.inline.as_deref().unwrap_or(now));
        }
        posted.is_begun = true;
        self.adapter.left(place, packet.sequence);
        end.packets.push_back((packet, bytes));
        true
    }

    /// Takes a completion of its send queue, if there is one.
    fn take_sent(&mut self) -> bool {
        let Some(done) = self.adapter.notices.poll(self.send_queue).unwrap() else {
            return false;
        };
        let at = (done.queue_pair - LIMITS.first_number) as usize;
        let end = &mut self.ends[at];
        loop {
            let posted = &end.posted[end.oldest];
            if end.oldest as u64 == done.request {
                break;
            }
            assert!(
                !posted.is_signaled,
                "{} is passed over: {done:?}",
                end.oldest
            );
            assert!(end.may_succeed(end.oldest), "{} by {done:?}", end.oldest);
            end.oldest += 1;
        }
        let posted = &end.posted[end.oldest];
        let is_right = match done.status {
            CompletionStatus::Success => posted.is_signaled && end.may_succeed(end.oldest),
            CompletionStatus::FlushError => {
                end.has_told_error || end.state == QueuePairState::Error
            }
            CompletionStatus::LocalProtectionError => posted.wrong == Some(Wrong::OwnKey),
            CompletionStatus::RetryExceededError => end.kind == QueuePairType::Rc && end.tries > 7,
            status => posted.refused == Some(status),
        };
        assert!(is_right, "{done:?} of {posted:?}, {:?}", end.state);
        if done.status != CompletionStatus::Success {
            end.has_told_error = true;
        }
        end.oldest += 1;
        true
    }

    /// Takes a completion of its receive queue, if there is to be one.
    fn take_received(&mut self) -> bool {
        let polled = self.adapter.notices.poll(self.receive_queue);
        let expected = self.received.pop_front();
        if expected.is_none() && self.has_overrun {
            assert_eq!(errno_of(polled), Some(errno::EIO));
            return false;
        }
        let done: Option<Completion> = polled.unwrap();
        let told = done.map(|done| {
            let at = (done.queue_pair - LIMITS.first_number) as usize;
            let length = match done.status {
                CompletionStatus::Success => done.byte_length as usize,
                _ => 0,
            };
            let has_header = done.flags & completion::GLOBAL_ROUTING_HEADER != 0;
            let is_datagram = self.ends[at].kind == QueuePairType::Ud && length > 0;
            let is_from_peer = done.source_queue_pair == done.queue_pair;
            assert_eq!(has_header, is_datagram, "{done:?}");
            assert!(!is_datagram || is_from_peer, "{done:?}");
            (at, done.request, done.status, length)
        });
        assert_eq!(told, expected);
        told.is_some()
    }

    /// Asynchronous events say once that a completion queue has overrun, and only if it has.
    fn look_at_events(&mut self) {
        let mut overruns = 0;
        while let Some(event) = self.adapter.next_async_event(self.context).unwrap() {
            overruns += u32::from(event.kind == AsyncEventType::CompletionQueueError);
            let owner = match event.element {
                AsyncElement::CompletionQueue(_) => Owner::Queue(self.receive_queue),
                AsyncElement::QueuePair(cookie) => Owner::Pair(self.ends[cookie as usize].pair),
                element => panic!("{element:?} has no events here"),
            };
            self.adapter.acknowledge_async(owner, 1);
        }
        assert_eq!(overruns, u32::from(self.has_overrun));
    }
}

/// Two sides.
struct World {
    sides: [Side; 2],
    now: u64,
}

impl World {
    fn new(random: &mut Random) -> Self {
        use QueuePairType::{Rc, Uc, Ud};
        let kinds: Vec<_> = (0..1 + random.below(ENDS))
            .map(|_| [Rc, Rc, Rc, Uc, Ud][random.below(5)])
            .collect();
        let sides = [0x1_0000, 0x2_0000].map(|base| Side::new(base, &kinds, random));
        Self { sides, now: 1 }
    }

    fn ends(&self) -> usize {
        self.sides[0].ends.len()
    }

    fn post(&mut self, from: usize, at: usize, random: &mut Random) {
        let peer = &self.sides[1 - from];
        let peer = (peer.memory.base, peer.memory_key);
        self.sides[from].post_send(at, peer, random);
    }

    /// What a side is to do with a packet, and does to its reference; bytes that it answers.
    fn judge(&mut self, to: usize, at: usize, packet: &Packet, from: &[u8]) -> (Taken, Vec<u8>) {
        let [one, other] = &mut self.sides;
        let (side, peer) = if to == 0 { (one, other) } else { (other, one) };
        let (target, source) = (&mut side.ends[at], &mut peer.ends[at]);
        let kind = target.kind;
        let number = packet.immediate as usize;
        if !target.hears() {
            return (Taken::IGNORED, Vec::new());
        }
        let acknowledged = |expected: usize| Answer::Acknowledged {
            expected: FIRST.wrapping_add(expected as u32),
        };
        let is_reliable = kind == QueuePairType::Rc;
        if is_reliable && number != target.expected {
            let ignored = |answer| Taken {
                answer,
                outcome: Outcome::Ignored,
            };
            if number > target.expected {
                let expected = FIRST.wrapping_add(target.expected as u32);
                let is_told = core::mem::replace(&mut target.is_gap_told, true);
                let answer = (!is_told).then_some(Answer::Missing { expected });
                return (ignored(answer), Vec::new());
            }
            let posted = &source.posted[number];
            if posted.opcode.is_atomic() {
                let found = target.found.iter().find(|(of, _)| *of == number);
                return found.map_or((Taken::IGNORED, Vec::new()), |(_, before)| {
                    (ignored(Some(Answer::Bytes)), before.to_ne_bytes().to_vec())
                });
            }
            if posted.opcode.is_answered() {
                let bytes = &side.reference[posted.remote..posted.remote + posted.length];
                return (ignored(Some(Answer::Bytes)), bytes.to_vec());
            }
            return (ignored(Some(acknowledged(target.expected))), Vec::new());
        }
        target.is_gap_told = false;
        let atomic = atomic(number);
        let posted = &mut source.posted[number];
        let (opcode, length, remote) = (posted.opcode, posted.length, posted.remote);
        let is_remote = opcode.is_write() || opcode.is_answered();
        let refuse = |side: &mut Side, incident, status| {
            if is_reliable {
                side.fail(at);
            }
            let taken = Taken {
                answer: is_reliable.then_some(Answer::Refused { status }),
                outcome: Outcome::Refused(incident),
            };
            (taken, Vec::new())
        };
        match posted.wrong {
            Some(Wrong::Alignment) => {
                let status = CompletionStatus::RemoteInvalidRequestError;
                return refuse(side, Incident::Misaligned, status);
            }
            Some(Wrong::RemoteKey | Wrong::Range) => {
                let status = CompletionStatus::RemoteAccessError;
                return refuse(side, Incident::AccessRefused, status);
            }
            Some(Wrong::QueueKey) => return (Taken::IGNORED, Vec::new()),
            Some(Wrong::OwnKey) | None => {}
        }
        let mut bytes = Vec::new();
        let range = remote..remote + length;
        if opcode == SendOpcode::RdmaRead {
            bytes = side.reference[range].to_vec();
        } else if opcode.is_atomic() {
            bytes = side.reference[range.clone()].to_vec();
            let before = u64::from_ne_bytes(bytes.as_slice().try_into().unwrap());
            target.found.push_front((number, before));
            target.found.truncate(READS);
            let after = match opcode {
                SendOpcode::AtomicFetchAndAdd => before.wrapping_add(atomic.0),
                _ if before == atomic.0 => atomic.1,
                _ => before,
            };
            side.reference[range].copy_from_slice(&after.to_ne_bytes());
        } else {
            let header: &[u8] = match kind {
                QueuePairType::Ud => &attributes_of(0).address.route.header(&GID),
                _ => &[],
            };
            let length = header.len() + length;
            let mut place = remote;
            let mut outcome = Outcome::Placed;
            if !is_remote || opcode.has_immediate() {
                let Some(&(request, room)) = side.receives(at).front() else {
                    let timer = 1;
                    let taken = Taken {
                        answer: is_reliable.then_some(Answer::NotReady { timer }),
                        outcome: Outcome::NoReceive,
                    };
                    return (taken, bytes);
                };
                if !is_remote && length > room {
                    if is_reliable {
                        side.receives(at).pop_front();
                        side.complete(at, request, CompletionStatus::LocalLengthError, 0);
                    }
                    let status = CompletionStatus::RemoteInvalidRequestError;
                    return refuse(side, Incident::TooLong, status);
                }
                side.receives(at).pop_front();
                side.complete(at, request, CompletionStatus::Success, length);
                outcome = Outcome::Received;
            }
            if !is_remote {
                place = SINK;
            }
            let came = [header, from].concat();
            side.reference[place..place + length].copy_from_slice(&came);
            posted.is_applied = true;
            side.ends[at].expected = number + 1;
            let taken = Taken {
                answer: is_reliable.then(|| acknowledged(number + 1)),
                outcome,
            };
            return (taken, from.to_vec());
        }
        posted.is_applied = true;
        side.ends[at].expected = number + 1;
        let taken = Taken {
            answer: Some(Answer::Bytes),
            outcome: Outcome::Placed,
        };
        (taken, bytes)
    }

    /// The oldest packet of a queue pair comes to its peer, or is lost.
    fn deliver(&mut self, from: usize, at: usize, is_lost: bool) -> bool {
        let Some((packet, mut bytes)) = self.sides[from].ends[at].packets.pop_front() else {
            return false;
        };
        if is_lost {
            return true;
        }
        let (expected, answered) = self.judge(1 - from, at, &packet, &bytes);
        let target = &mut self.sides[1 - from];
        let taken = target.adapter.take(&packet, &mut bytes, &mut target.memory);
        assert_eq!(taken, expected, "{packet:?}");
        if let Some(answer) = taken.answer {
            if answer == Answer::Bytes {
                assert_eq!(bytes, answered, "{packet:?}");
            }
            let answer = (packet.sequence, answer, bytes);
            target.ends[at].answers.push_back(answer);
        }
        true
    }

    /// The oldest answer of a queue pair comes to its peer, or is lost.
    fn answer(&mut self, from: usize, at: usize, is_lost: bool) -> bool {
        let Some((sequence, answer, bytes)) = self.sides[from].ends[at].answers.pop_front() else {
            return false;
        };
        if is_lost {
            return true;
        }
        let side = &mut self.sides[1 - from];
        let end = &mut side.ends[at];
        let number = sequence.wrapping_sub(FIRST) as usize;
        match answer {
            Answer::Refused { status } => end.posted[number].refused = Some(status),
            Answer::Missing { .. } => end.tries += 1,
            _ => {}
        }
        let was_hearing = end.hears();
        let place = end.place();
        let is_placed = side
            .adapter
            .hear(place, sequence, answer, &bytes, &mut side.memory);
        if is_placed {
            // A read that was answered goes again behind another request that was lost.
            assert!(was_hearing && answer == Answer::Bytes);
            side.ends[at].posted[number].is_answered = true;
            side.reference[SINK..SINK + bytes.len()].copy_from_slice(&bytes);
        }
        side.look_at_state(at);
        true
    }

    /// Time passes, more than any wait lasts.
    fn wait(&mut self) {
        self.now += 20_000;
        for side in &mut self.sides {
            side.adapter.set_time(self.now);
            for at in 0..side.ends.len() {
                side.ends[at].tries += 1;
                side.adapter.expire(side.ends[at].place());
                side.look_at_state(at);
            }
        }
    }

    fn step(&mut self, random: &mut Random) {
        let (from, at) = (random.below(2), random.below(self.ends()));
        let is_lost = random.one_in(8);
        match random.below(20) {
            0..4 => self.post(from, at, random),
            4..6 => {
                let length = [0, 24, 64, 64][random.below(4)];
                self.sides[from].post_receive(at, length);
            }
            6..9 => {
                self.sides[from].begin(at);
            }
            9..12 => {
                self.deliver(from, at, is_lost);
            }
            12..15 => {
                self.answer(from, at, is_lost);
            }
            15 => {
                self.sides[from].take_sent();
            }
            16 => {
                self.sides[from].take_received();
            }
            17 if random.one_in(4) => self.wait(),
            18 if random.one_in(4) => self.turn(from, at, random),
            19 => self.sides[from].change(random),
            _ => {}
        }
    }

    /// A program changes the state of its queue pair, or tries what cannot be.
    fn turn(&mut self, from: usize, at: usize, random: &mut Random) {
        use QueuePairState::{Error, Init, ReadyToReceive, ReadyToSend, SendDrained, SendError};
        let side = &mut self.sides[from];
        let state = side.ends[at].state;
        let states = [ReadyToSend, SendDrained, ReadyToSend, SendDrained, Error];
        let mut to = states[random.below(states.len())];
        if random.one_in(4) {
            to = [Init, ReadyToReceive, SendError][random.below(3)];
        }
        let can_go = matches!(
            (state, to),
            (_, Error)
                | (ReadyToSend | SendDrained, ReadyToSend | SendDrained)
                | (SendError, ReadyToSend)
        );
        let went = side.goes_to(at, to);
        let expected = (!can_go).then_some(errno::EINVAL);
        assert_eq!(errno_of(went), expected, "{state:?} -> {to:?}");
        if can_go && to == Error {
            if state != Error {
                side.fail(at);
            }
        } else if can_go {
            side.ends[at].state = to;
        }
    }

    fn compare(&self) {
        for side in &self.sides {
            assert_eq!(side.memory.bytes, side.reference);
        }
    }

    /// Nothing is lost any more, and there are receives: everything ends.
    fn finish(&mut self) {
        let is_over = |side: &Side| {
            let mut left = side
                .ends
                .iter()
                .map(|end| side.adapter.incomplete(end.place()));
            left.all(|left| left == Some(0))
        };
        for _ in 0..100 {
            for (from, at) in (0..2 * self.ends()).map(|place| (place % 2, place / 2)) {
                let side = &mut self.sides[from];
                if side.ends[at].state == QueuePairState::SendDrained {
                    side.goes_to(at, QueuePairState::ReadyToSend).unwrap();
                    side.ends[at].state = QueuePairState::ReadyToSend;
                }
                while side.receives(at).len() < RECEIVES
                    && side.ends[at].state != QueuePairState::Error
                {
                    side.post_receive(at, 64);
                }
                while self.sides[from].begin(at) {}
                while self.deliver(from, at, false) {}
                while self.answer(1 - from, at, false) {}
                while self.sides[from].take_sent() {}
                while self.sides[from].take_received() {}
                while self.sides[1 - from].take_received() {}
            }
            if self.sides.iter().all(is_over) {
                break;
            }
            self.wait();
        }
        for side in &mut self.sides {
            while side.take_sent() {}
            while side.take_received() {}
            for end in &side.ends {
                let left = side.adapter.incomplete(end.place());
                assert_eq!(left, Some(0), "{:?}", end.state);
                for number in end.oldest..end.posted.len() {
                    let posted = &end.posted[number];
                    assert!(!posted.is_signaled, "{number} did not complete: {posted:?}");
                    assert!(end.may_succeed(number), "{posted:?}");
                }
            }
        }
        self.compare();
    }

    /// A queue pair is as new: nothing of it completes any more, and everything of the others.
    fn reset(&mut self) {
        let side = &mut self.sides[0];
        side.goes_to(0, QueuePairState::Reset).unwrap();
        side.ends[0].state = QueuePairState::Reset;
        assert_eq!(side.adapter.incomplete(side.ends[0].place()), None);
        side.received.retain(|(at, ..)| *at != 0);
        side.ends[0].oldest = usize::MAX;
        while side.take_sent() {}
        while side.take_received() {}
    }

    /// Objects are destroyed in any order.
    fn destroy(mut self, random: &mut Random) {
        for side in &mut self.sides {
            side.look_at_events();
            // The queue pairs come first, and behind them what they use.
            let ends = side.ends.len();
            let mut lives = vec![true; ends + 6];
            lives[ends] = side.shared.is_some();
            for _ in 0..24 + 4 * ends {
                let object = random.below(lives.len());
                let has_pair = lives[..ends].contains(&true);
                let [shared, _, _, region, address, _] = lives[ends..] else {
                    unreachable!("as many as there are kinds of objects");
                };
                let is_used = match object.checked_sub(ends) {
                    Some(0..=2) => has_pair,
                    Some(5) => has_pair || shared || region || address,
                    _ => false,
                };
                let done = |destruction| assert_eq!(destruction, Destruction::Done);
                let adapter = &mut side.adapter;
                let gone = match (object.checked_sub(ends), side.shared) {
                    (None, _) => adapter.destroy_pair(side.ends[object].pair).map(done),
                    (Some(0), None) => continue,
                    (Some(0), Some(shared)) => adapter.destroy_shared(shared).map(done),
                    (Some(1), _) => adapter.notices.destroy_queue(side.send_queue).map(done),
                    (Some(2), _) => adapter.notices.destroy_queue(side.receive_queue).map(done),
                    (Some(3), _) => adapter.deregister_memory(side.region),
                    (Some(4), _) => adapter.destroy_address(side.address),
                    _ => adapter.deallocate_domain(side.domain),
                };
                let expected = match (lives[object], is_used) {
                    (false, _) => Some(errno::EINVAL),
                    (true, true) => Some(errno::EBUSY),
                    (true, false) => None,
                };
                assert_eq!(errno_of(gone), expected, "object {object} of {lives:?}");
                lives[object] &= expected.is_some();
            }
            side.adapter.close(side.context).unwrap();
        }
    }
}

fn sequence(seed: u64) {
    let mut random = Random(seed);
    let mut world = World::new(&mut random);
    for (from, at) in (0..2 * world.ends()).map(|place| (place % 2, place / 2)) {
        // Some do what is too early.
        let early = random.below(8);
        if early < 2 {
            world.sides[from].raise(at, early);
            world.post(from, at, &mut random);
            world.sides[from].post_receive(at, 24);
            world.sides[from]
                .goes_to(at, QueuePairState::Reset)
                .unwrap();
            world.sides[from].ends[at].receives.clear();
        }
        world.sides[from].raise(at, 3);
    }
    let steps = 40 + random.below(160);
    for _ in 0..steps * world.ends() {
        world.step(&mut random);
    }
    world.compare();
    if random.one_in(4) {
        world.reset();
    } else {
        world.finish();
    }
    world.destroy(&mut random);
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a test runs is its caller's choice"
)]
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect(name))
}

/// Says how to run a sequence again when it panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        let number = self.0;
        println!("again: VIADUCT_SEQUENCE={number} cargo test -p viaduct-core verbs_model");
    }
}

#[test]
fn whatever_is_done_queue_pairs_do_what_the_reference_says() {
    if let Some(seed) = number("VIADUCT_SEQUENCE") {
        return sequence(seed);
    }
    for seed in 0..number("VIADUCT_SEQUENCES").unwrap_or(20_000) {
        let guard = Replay(seed);
        sequence(seed);
        core::mem::forget(guard);
    }
}
