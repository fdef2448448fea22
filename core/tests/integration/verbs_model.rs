//! Random sequences of operations on the queue pairs of two adapters against an obvious reference:
//! lists of what was posted, and memory as a list of bytes.
//!
//! Packets and answers are carried in order and lost at random, and time passes. Whatever the
//! order, the reference says of each packet what its target does with it, and of each call how it
//! ends; each request completes once, in the order of posts, with a status that has its reason; a
//! reliable request is carried out once; what is used is not destroyed, and nothing twice.
//!
//! `VIADUCT_SEQUENCES=1000000` runs so many, `VIADUCT_SEQUENCE=N`, which a failure prints, one.

use std::collections::VecDeque;

use viaduct_core::verbs::flags::{access, attribute, send};
use viaduct_core::verbs::notices::Destruction;
use viaduct_core::verbs::responder::Incident;
use viaduct_core::verbs::{
    Adapter, AddressAttributes, Answer, Capabilities, Completion, CompletionQueueOptions,
    CompletionStatus, Key, Limits, Memory, Mtu, Outcome, Packet, Packets, QueuePairAttributes,
    QueuePairOptions, QueuePairState, QueuePairType, ReceiveRequest, Result, ScatterGatherElement,
    SendOpcode, SendRequest, SharedReceiveAttributes, Taken, errno,
};

const LIMITS: Limits = Limits {
    first_number: 0x4000,
    max_queue_pairs: 2,
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
}

/// A request that was posted to a send queue: it has the number of its place among them.
#[derive(Debug)]
struct Posted {
    opcode: SendOpcode,
    length: usize,
    /// Where in the peer's memory.
    remote: usize,
    is_signaled: bool,
    wrong: Option<Wrong>,
    /// Whether a packet of it has begun.
    is_begun: bool,
    /// Whether the peer has carried it out, and if it asks for bytes, those are back.
    is_applied: bool,
    is_answered: bool,
    /// What the peer has refused it with, once the sender has heard.
    refused: Option<CompletionStatus>,
}

struct Side {
    adapter: Adapter,
    context: Key,
    domain: Key,
    send_queue: Key,
    receive_queue: Key,
    shared: Option<Key>,
    pair: Key,
    region: Key,
    memory_key: u32,
    memory: Bytes,
    /// What the memory is to be.
    reference: Vec<u8>,
    state: QueuePairState,
    posted: Vec<Posted>,
    /// The oldest request whose completion was neither taken nor passed over.
    oldest: usize,
    /// Receives that are posted, with their sizes, and completions that are to come of others.
    receives: VecDeque<(u64, usize)>,
    received: VecDeque<(u64, CompletionStatus, usize)>,
    next_receive: u64,
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

fn attributes_of(peer: u32) -> QueuePairAttributes {
    QueuePairAttributes {
        access_flags: ALL,
        send_packet_number: FIRST,
        receive_packet_number: FIRST,
        timeout: 1,
        min_receiver_not_ready_timer: 1,
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

fn errno_of<T>(result: Result<T>) -> Option<i32> {
    result.err().map(|error| error.errno())
}

impl Side {
    fn new(base: u64, kind: QueuePairType, is_shared: bool, random: &mut Random) -> Self {
        let mut adapter = Adapter::new(LIMITS, 1, Packets::from([7; 16]));
        adapter.set_time(1);
        let context = adapter.notices.open((), ()).unwrap();
        let domain = adapter.allocate_domain(context).unwrap();
        let mut queue = || {
            let options = CompletionQueueOptions {
                entries: 64,
                ..CompletionQueueOptions::default()
            };
            adapter.create_completion_queue(context, &options).unwrap()
        };
        let (send_queue, receive_queue) = (queue(), queue());
        let attributes = SharedReceiveAttributes {
            max_requests: RECEIVES as u32,
            max_elements: 1,
            limit: 0,
        };
        let shared = is_shared.then(|| adapter.create_shared(domain, &attributes, 0).unwrap());
        let options = QueuePairOptions {
            kind,
            capabilities: Capabilities {
                max_send_requests: SENDS as u32,
                max_receive_requests: RECEIVES as u32,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: 0,
            },
            send_queue,
            receive_queue,
            shared_receive_queue: shared,
            is_every_send_signaled: false,
            cookie: 0,
        };
        let (pair, number) = adapter.create_pair(domain, &options).unwrap();
        assert_eq!(number, LIMITS.first_number);
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
            shared,
            pair,
            region,
            memory_key,
            reference: bytes.clone(),
            memory: Bytes { base, bytes },
            state: QueuePairState::Reset,
            posted: Vec::new(),
            oldest: 0,
            receives: VecDeque::new(),
            received: VecDeque::new(),
            next_receive: 0,
            expected: 0,
            is_gap_told: false,
            found: VecDeque::new(),
            packets: VecDeque::new(),
            answers: VecDeque::new(),
            tries: 0,
            has_told_error: false,
        }
    }

    fn place(&self) -> u32 {
        self.pair.index()
    }

    fn element(&self, at: usize, length: usize, key: u32) -> ScatterGatherElement {
        ScatterGatherElement {
            address: self.memory.base + at as u64,
            length: length as u32,
            local_key: key,
        }
    }

    const fn hears(&self) -> bool {
        use QueuePairState::{ReadyToReceive, ReadyToSend, SendDrained, SendError};
        matches!(
            self.state,
            ReadyToReceive | ReadyToSend | SendDrained | SendError
        )
    }

    /// Goes up by a step, or as far as it goes.
    fn raise(&mut self, kind: QueuePairType, count: usize) {
        for (step, mask) in attributes_of(LIMITS.first_number)
            .steps_up(kind)
            .take(count)
        {
            self.adapter.modify(self.pair, &step, mask).unwrap();
            self.state = step.state;
        }
    }

    fn goes_to(&mut self, state: QueuePairState) -> Result<()> {
        let wanted = QueuePairAttributes {
            state,
            ..QueuePairAttributes::default()
        };
        self.adapter.modify(self.pair, &wanted, attribute::STATE)
    }

    /// Its receives are flushed, if it has any of its own.
    fn fail(&mut self) {
        self.state = QueuePairState::Error;
        if self.shared.is_none() {
            for (request, _) in self.receives.drain(..) {
                let flushed = (request, CompletionStatus::FlushError, 0);
                self.received.push_back(flushed);
            }
        }
    }

    /// It may have failed by itself, which a completion will tell.
    fn look_at_state(&mut self, kind: QueuePairType) {
        let state = self.adapter.pair(self.pair).unwrap().state;
        if state == self.state {
            return;
        }
        match kind {
            QueuePairType::Rc => {
                assert_eq!(state, QueuePairState::Error);
                self.fail();
            }
            _ => {
                assert_eq!(state, QueuePairState::SendError);
                self.state = state;
            }
        }
        // Why, is seen when the completion is taken.
        assert!(self.adapter.incomplete(self.place()) == Some(0));
    }

    fn post_receive(&mut self, length: usize) {
        let elements = [self.element(SINK, length, self.memory_key)];
        let request = ReceiveRequest {
            request: self.next_receive,
            elements: if length == 0 { &[] } else { &elements },
        };
        let posted = match self.shared {
            Some(shared) => self.adapter.post_shared_receive(shared, &request),
            None => self.adapter.post_receive(self.pair, &request),
        };
        let expected = if self.shared.is_none() && self.state == QueuePairState::Reset {
            Some(errno::EINVAL)
        } else if self.receives.len() == RECEIVES {
            Some(errno::ENOMEM)
        } else {
            None
        };
        assert_eq!(errno_of(posted), expected, "a receive is posted");
        if expected.is_none() {
            self.receives.push_back((self.next_receive, length));
            self.next_receive += 1;
            if self.state == QueuePairState::Error {
                self.fail();
            }
        }
    }

    fn post_send(&mut self, peer: (u64, u32), kind: QueuePairType, random: &mut Random) {
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
        let wrong = match random.below(60) {
            0 if length > 0 => Some(Wrong::OwnKey),
            1 if is_remote && length > 0 => Some(Wrong::RemoteKey),
            2 if is_remote && length > 0 => Some(Wrong::Range),
            3 if opcode.is_atomic() => Some(Wrong::Alignment),
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
        let at = if opcode.is_answered() { SINK } else { SOURCE };
        let elements = [self.element(at, length, key)];
        let number = self.posted.len();
        let remote_key = match wrong {
            Some(Wrong::RemoteKey) => peer.1 ^ 0x100,
            _ => peer.1,
        };
        let mut request = SendRequest::<Key>::new(number as u64, opcode)
            .with_remote(peer.0 + remote as u64, remote_key)
            .with_flags(if is_signaled { send::SIGNALED } else { 0 });
        if length > 0 {
            request = request.with_elements(&elements);
        }
        request.immediate = number as u32;
        (request.compare_add, request.swap) = self.atomic(number);
        let is_full = self.adapter.incomplete(self.place()) == Some(SENDS as u32);
        let posted = self.adapter.post(self.pair, &[request], &self.memory);
        let expected = if self.state != QueuePairState::ReadyToSend
            && self.state != QueuePairState::SendDrained
            && self.state != QueuePairState::SendError
            && self.state != QueuePairState::Error
        {
            Some(errno::EINVAL)
        } else if is_full {
            Some(errno::ENOMEM)
        } else if kind == QueuePairType::Uc && opcode.is_answered() {
            Some(errno::EINVAL)
        } else {
            None
        };
        assert_eq!(errno_of(posted), expected, "{opcode:?} in {:?}", self.state);
        if expected.is_none() {
            self.posted.push(Posted {
                opcode,
                length,
                remote,
                is_signaled,
                wrong,
                is_begun: false,
                is_applied: false,
                is_answered: false,
                refused: None,
            });
        }
    }

    /// What the atomic of a number compares or adds, and stores.
    const fn atomic(&self, number: usize) -> (u64, u64) {
        (number as u64 % 3, number as u64 + 1)
    }

    fn begin(&mut self, kind: QueuePairType) -> bool {
        let mut bytes = Vec::new();
        let begun = self.adapter.begin(self.place(), &self.memory, &mut bytes);
        self.look_at_state(kind);
        let Some(packet) = begun else { return false };
        assert_eq!(self.state, QueuePairState::ReadyToSend);
        let number = packet.immediate as usize;
        // What failed at its own side before it has no number on the connection.
        let sequence = FIRST.wrapping_add(number as u32);
        assert!(kind == QueuePairType::Uc || packet.sequence == sequence);
        let asked = self.posted[..number]
            .iter()
            .filter(|it| it.opcode.is_answered() && !it.is_answered);
        let asked = asked.count();
        let posted = &mut self.posted[number];
        assert!(asked < READS || !posted.opcode.is_answered());
        assert_eq!(
            (packet.opcode, packet.length),
            (posted.opcode, posted.length as u64)
        );
        assert_ne!(posted.wrong, Some(Wrong::OwnKey));
        if !posted.opcode.is_answered() {
            assert_eq!(bytes, self.reference[SOURCE..SOURCE + posted.length]);
        }
        posted.is_begun = true;
        self.adapter.left(self.place(), packet.sequence);
        self.packets.push_back((packet, bytes));
        true
    }

    /// Takes a completion of its send queue, if there is one.
    fn take_sent(&mut self, kind: QueuePairType) -> bool {
        let Some(done) = self.adapter.notices.poll(self.send_queue).unwrap() else {
            return false;
        };
        loop {
            let posted = &self.posted[self.oldest];
            if self.oldest as u64 == done.request {
                break;
            }
            assert!(
                !posted.is_signaled,
                "{} is passed over: {done:?}",
                self.oldest
            );
            assert!(
                self.may_succeed(self.oldest, kind),
                "{} by {done:?}",
                self.oldest
            );
            self.oldest += 1;
        }
        let posted = &self.posted[self.oldest];
        let is_right = match done.status {
            CompletionStatus::Success => posted.is_signaled && self.may_succeed(self.oldest, kind),
            CompletionStatus::FlushError => {
                self.has_told_error || self.state == QueuePairState::Error
            }
            CompletionStatus::LocalProtectionError => posted.wrong == Some(Wrong::OwnKey),
            CompletionStatus::RetryExceededError => kind == QueuePairType::Rc && self.tries > 7,
            status => posted.refused == Some(status),
        };
        assert!(is_right, "{done:?} of {posted:?}, {:?}", self.state);
        if done.status != CompletionStatus::Success {
            self.has_told_error = true;
        }
        self.oldest += 1;
        true
    }

    fn may_succeed(&self, number: usize, kind: QueuePairType) -> bool {
        let posted = &self.posted[number];
        match kind {
            QueuePairType::Rc if posted.opcode.is_answered() => posted.is_answered,
            QueuePairType::Rc => posted.is_applied,
            _ => posted.is_begun,
        }
    }

    /// Takes a completion of its receive queue, if there is to be one.
    fn take_received(&mut self) -> bool {
        let done: Option<Completion> = self.adapter.notices.poll(self.receive_queue).unwrap();
        let told = done.map(|done| {
            let length = match done.status {
                CompletionStatus::Success => done.byte_length as usize,
                _ => 0,
            };
            (done.request, done.status, length)
        });
        assert_eq!(told, self.received.pop_front());
        told.is_some()
    }
}

/// Two sides, and which type their queue pairs have.
struct World {
    sides: [Side; 2],
    kind: QueuePairType,
    now: u64,
}

impl World {
    fn new(random: &mut Random) -> Self {
        let kind = if random.one_in(4) {
            QueuePairType::Uc
        } else {
            QueuePairType::Rc
        };
        let sides = [0x1_0000, 0x2_0000].map(|base| {
            let is_shared = random.one_in(3);
            Side::new(base, kind, is_shared, random)
        });
        Self {
            sides,
            kind,
            now: 1,
        }
    }

    fn post(&mut self, at: usize, random: &mut Random) {
        let peer = (
            self.sides[1 - at].memory.base,
            self.sides[1 - at].memory_key,
        );
        self.sides[at].post_send(peer, self.kind, random);
    }

    /// What a side is to do with a packet, and does to its reference; bytes that it answers.
    fn judge(&mut self, at: usize, packet: &Packet) -> (Taken, Vec<u8>) {
        let kind = self.kind;
        let [one, other] = &mut self.sides;
        let (target, source) = if at == 0 { (one, other) } else { (other, one) };
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
                let bytes = &target.reference[posted.remote..posted.remote + posted.length];
                return (ignored(Some(Answer::Bytes)), bytes.to_vec());
            }
            return (ignored(Some(acknowledged(target.expected))), Vec::new());
        }
        target.is_gap_told = false;
        let atomic = source.atomic(number);
        let posted = &mut source.posted[number];
        let (opcode, length, remote) = (posted.opcode, posted.length, posted.remote);
        let is_remote = opcode.is_write() || opcode.is_answered();
        let refuse = |target: &mut Side, incident, status| {
            if is_reliable {
                target.fail();
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
                return refuse(target, Incident::Misaligned, status);
            }
            Some(Wrong::RemoteKey | Wrong::Range) => {
                let status = CompletionStatus::RemoteAccessError;
                return refuse(target, Incident::AccessRefused, status);
            }
            Some(Wrong::OwnKey) | None => {}
        }
        let mut bytes = Vec::new();
        let range = remote..remote + length;
        if opcode == SendOpcode::RdmaRead {
            bytes = target.reference[range].to_vec();
        } else if opcode.is_atomic() {
            bytes = target.reference[range.clone()].to_vec();
            let before = u64::from_ne_bytes(bytes.as_slice().try_into().unwrap());
            target.found.push_front((number, before));
            target.found.truncate(READS);
            let after = match opcode {
                SendOpcode::AtomicFetchAndAdd => before.wrapping_add(atomic.0),
                _ if before == atomic.0 => atomic.1,
                _ => before,
            };
            target.reference[range].copy_from_slice(&after.to_ne_bytes());
        } else {
            let mut at = remote;
            let mut outcome = Outcome::Placed;
            if !is_remote || opcode.has_immediate() {
                let Some(&(request, room)) = target.receives.front() else {
                    let timer = 1;
                    let taken = Taken {
                        answer: is_reliable.then_some(Answer::NotReady { timer }),
                        outcome: Outcome::NoReceive,
                    };
                    return (taken, bytes);
                };
                if !is_remote && length > room {
                    if is_reliable {
                        target.receives.pop_front();
                        let too_long = CompletionStatus::LocalLengthError;
                        target.received.push_back((request, too_long, 0));
                    }
                    let status = CompletionStatus::RemoteInvalidRequestError;
                    return refuse(target, Incident::TooLong, status);
                }
                target.receives.pop_front();
                let done = (request, CompletionStatus::Success, length);
                target.received.push_back(done);
                outcome = Outcome::Received;
            }
            if !is_remote {
                at = SINK;
            }
            let from = &source.reference[SOURCE..SOURCE + length];
            target.reference[at..at + length].copy_from_slice(from);
            posted.is_applied = true;
            target.expected = number + 1;
            let taken = Taken {
                answer: is_reliable.then(|| acknowledged(number + 1)),
                outcome,
            };
            return (taken, from.to_vec());
        }
        posted.is_applied = true;
        target.expected = number + 1;
        let taken = Taken {
            answer: Some(Answer::Bytes),
            outcome: Outcome::Placed,
        };
        (taken, bytes)
    }

    /// The oldest packet of a side comes to its peer, or is lost.
    fn deliver(&mut self, from: usize, is_lost: bool) -> bool {
        let Some((packet, mut bytes)) = self.sides[from].packets.pop_front() else {
            return false;
        };
        if is_lost {
            return true;
        }
        let (expected, answered) = self.judge(1 - from, &packet);
        let target = &mut self.sides[1 - from];
        let taken = target.adapter.take(&packet, &mut bytes, &mut target.memory);
        assert_eq!(taken, expected, "{packet:?}");
        if let Some(answer) = taken.answer {
            if answer == Answer::Bytes {
                assert_eq!(bytes, answered, "{packet:?}");
            }
            target.answers.push_back((packet.sequence, answer, bytes));
        }
        true
    }

    /// The oldest answer of a side comes to its peer, or is lost.
    fn answer(&mut self, from: usize, is_lost: bool) -> bool {
        let Some((sequence, answer, bytes)) = self.sides[from].answers.pop_front() else {
            return false;
        };
        if is_lost {
            return true;
        }
        let kind = self.kind;
        let side = &mut self.sides[1 - from];
        let place = side.place();
        let number = sequence.wrapping_sub(FIRST) as usize;
        match answer {
            Answer::Refused { status } => side.posted[number].refused = Some(status),
            Answer::Missing { .. } => side.tries += 1,
            _ => {}
        }
        let was_hearing = side.hears();
        let is_placed = side
            .adapter
            .hear(place, sequence, answer, &bytes, &mut side.memory);
        if is_placed {
            // A read that was answered goes again behind another request that was lost.
            assert!(was_hearing && answer == Answer::Bytes);
            side.posted[number].is_answered = true;
            side.reference[SINK..SINK + bytes.len()].copy_from_slice(&bytes);
        }
        side.look_at_state(kind);
        true
    }

    /// Time passes, more than any wait lasts.
    fn wait(&mut self) {
        self.now += 20_000;
        for side in &mut self.sides {
            side.adapter.set_time(self.now);
            side.tries += 1;
            side.adapter.expire(side.pair.index());
            side.look_at_state(self.kind);
        }
    }

    fn step(&mut self, random: &mut Random) {
        let at = random.below(2);
        let is_lost = random.one_in(8);
        match random.below(20) {
            0..4 => self.post(at, random),
            4..6 => {
                let length = [0, 24, 64, 64][random.below(4)];
                self.sides[at].post_receive(length);
            }
            6..9 => {
                self.sides[at].begin(self.kind);
            }
            9..12 => {
                self.deliver(at, is_lost);
            }
            12..15 => {
                self.answer(at, is_lost);
            }
            15 => {
                self.sides[at].take_sent(self.kind);
            }
            16 => {
                self.sides[at].take_received();
            }
            17 if random.one_in(4) => self.wait(),
            18 if random.one_in(4) => self.turn(at, random),
            _ => {}
        }
    }

    /// A program changes the state of its queue pair, or tries what cannot be.
    fn turn(&mut self, at: usize, random: &mut Random) {
        use QueuePairState::{Error, Init, ReadyToReceive, ReadyToSend, SendDrained, SendError};
        let side = &mut self.sides[at];
        let states = [ReadyToSend, SendDrained, ReadyToSend, SendDrained, Error];
        let mut to = states[random.below(states.len())];
        if random.one_in(4) {
            to = [Init, ReadyToReceive, SendError][random.below(3)];
        }
        let can_go = matches!(
            (side.state, to),
            (_, Error)
                | (ReadyToSend | SendDrained, ReadyToSend | SendDrained)
                | (SendError, ReadyToSend)
        );
        let went = side.goes_to(to);
        let expected = (!can_go).then_some(errno::EINVAL);
        assert_eq!(errno_of(went), expected, "{:?} -> {to:?}", side.state);
        if can_go && to == Error {
            if side.state != Error {
                side.fail();
            }
        } else if can_go {
            side.state = to;
        }
    }

    fn compare(&self) {
        for side in &self.sides {
            assert_eq!(side.memory.bytes, side.reference);
        }
    }

    /// Nothing is lost any more, and there are receives: everything ends.
    fn finish(&mut self) {
        let is_over = |side: &Side| side.adapter.incomplete(side.place()) == Some(0);
        for _ in 0..100 {
            for at in 0..2 {
                let side = &mut self.sides[at];
                if side.state == QueuePairState::SendDrained {
                    side.goes_to(QueuePairState::ReadyToSend).unwrap();
                    side.state = QueuePairState::ReadyToSend;
                }
                while side.receives.len() < RECEIVES && side.state != QueuePairState::Error {
                    side.post_receive(64);
                }
                while self.sides[at].begin(self.kind) {}
                while self.deliver(at, false) {}
                while self.answer(1 - at, false) {}
                while self.sides[at].take_sent(self.kind) {}
                while self.sides[at].take_received() {}
                while self.sides[1 - at].take_received() {}
            }
            if self.sides.iter().all(is_over) {
                break;
            }
            self.wait();
        }
        for side in &mut self.sides {
            while side.take_sent(self.kind) {}
            while side.take_received() {}
            let state = side.state;
            assert_eq!(side.adapter.incomplete(side.place()), Some(0), "{state:?}");
            for number in side.oldest..side.posted.len() {
                let posted = &side.posted[number];
                assert!(!posted.is_signaled, "{number} did not complete: {posted:?}");
                assert!(side.may_succeed(number, self.kind), "{posted:?}");
            }
        }
        self.compare();
    }

    /// Objects are destroyed in any order.
    fn destroy(mut self, random: &mut Random) {
        for side in &mut self.sides {
            let mut lives = [true, side.shared.is_some(), true, true, true, true];
            for _ in 0..24 {
                let object = random.below(lives.len());
                let [pair, shared, sends, receives, region, domain] = lives;
                let is_used = match object {
                    1..=3 => pair,
                    5 => pair || shared || region,
                    _ => false,
                };
                let _ = (sends, receives, domain);
                let done = |destruction| assert_eq!(destruction, Destruction::Done);
                let adapter = &mut side.adapter;
                let gone = match (object, side.shared) {
                    (0, _) => adapter.destroy_pair(side.pair).map(done),
                    (1, None) => continue,
                    (1, Some(shared)) => adapter.destroy_shared(shared).map(done),
                    (2, _) => adapter.notices.destroy_queue(side.send_queue).map(done),
                    (3, _) => adapter.notices.destroy_queue(side.receive_queue).map(done),
                    (4, _) => adapter.deregister_memory(side.region),
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
    for side in 0..2 {
        // Some do what is too early.
        let kind = world.kind;
        let early = random.below(8);
        if early < 2 {
            world.sides[side].raise(kind, early);
            world.post(side, &mut random);
            world.sides[side].post_receive(24);
            world.sides[side].goes_to(QueuePairState::Reset).unwrap();
            if world.sides[side].shared.is_none() {
                world.sides[side].receives.clear();
            }
        }
        world.sides[side].raise(kind, 3);
    }
    for _ in 0..40 + random.below(160) {
        world.step(&mut random);
    }
    world.compare();
    if random.one_in(4) {
        // Of a queue pair that is as new nothing completes.
        let side = &mut world.sides[0];
        side.goes_to(QueuePairState::Reset).unwrap();
        assert_eq!(side.adapter.incomplete(side.place()), None);
        for queue in [side.send_queue, side.receive_queue] {
            assert_eq!(side.adapter.notices.poll(queue).unwrap(), None);
        }
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
