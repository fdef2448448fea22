//! The sending side: begins sends, hears how each ended, completes them in order.

use std::sync::atomic::Ordering;

use viaduct_core::verbs::check;
use viaduct_core::verbs::flags::{access, send};
use viaduct_core::verbs::requester::{self, Turn};
use viaduct_core::verbs::{CompletionStatus, Phase, QueuePairType, SendOpcode};

use crate::carrier::now;
use crate::counters::live;
use crate::engine::Engine;
use crate::limits::QUEUE_PAIR_BITS;
use crate::link::Link;
use crate::memory::{self, Piece};
use crate::packet::{
    ATOMIC, ATOMIC_BYTES, DATAGRAM, DATAGRAM_BYTES, FIRST, IMMEDIATE, LAST, MESSAGE, PLACED, PULL,
    READ, REMOTE_BYTES, Remote, SOLICITED, WRITE, acknowledged, acknowledging,
};
use crate::ring::Header;
use crate::service::TICK;
use crate::state::{Inline, Pair, Payload};

/// From here on the receiver copies a message from the sender's memory.
const PULL_BYTES_MIN: u64 = 8192;
/// Elements of such a message: they must find room in one packet.
const PULL_ELEMENTS_MAX: usize = 32;
/// Bytes that one packet of a message carries.
const PART_BYTES_MAX: u64 = 16 * 1024;
/// Looks at a packet that is not taken, after which the peer's service thread is woken.
const LOOKS_A_KICK: u32 = 2048;
/// Looks before the table of a peer that answers: longer than an answer takes on its way.
const LOOKS_BEFORE_TABLE: u64 = 64;
/// The same as [`LOOKS_A_KICK`] for requests that the peer's program may never look for.
const LOOKS_AN_ASSISTED_KICK: u32 = 96;

impl Engine {
    /// Takes what came, and goes on with sends. Tells how many packets came.
    pub(crate) fn progress(&mut self) -> usize {
        let count = self.hear_all();
        self.advance_all(false);
        count
    }

    /// Takes what came.
    pub(crate) fn hear_all(&mut self) -> usize {
        let mut count = 0;
        for index in 0..self.links.len() {
            if self.links[index].as_mut().is_some_and(Link::has_news) {
                count += self.hear(index);
            }
        }
        count
    }

    /// Goes on with sends. Who is patient, since it will look again, leaves a peer's table alone
    /// for a while if the peer's answers say the same.
    pub(crate) fn advance_all(&mut self, is_patient: bool) {
        let mut at = 0;
        let mut next = u64::MAX;
        while let Some(&index) = self.objects.notices.carrier.active.get(at) {
            let Some(mut pair) = self.objects.take_pair(index) else {
                self.objects.notices.carrier.active.swap_remove(at);
                continue;
            };
            if !is_patient || self.looks >= pair.own.table_at {
                self.hear_acknowledgements(&mut pair);
            }
            self.advance(&mut pair);
            if pair.sends.is_empty() {
                pair.own.is_active = false;
                self.objects.notices.carrier.active.swap_remove(at);
            } else {
                next = next.min(if pair.sends.has_more() {
                    0
                } else {
                    pair.own.table_at
                });
                at += 1;
            }
            self.objects.put_pair(pair);
        }
        self.advance_at = next;
    }

    /// Completes what is done, and begins what can be begun.
    fn advance(&mut self, pair: &mut Pair) {
        if pair.sends.is_waiting() {
            self.objects.retire(pair);
        }
        if pair.sends.has_more() {
            self.transmit(pair);
        }
        if let Some(link) = pair.own.link.and_then(|link| self.links[link].as_mut())
            && !pair.sends.is_empty()
        {
            let tail = link.outgoing.tail();
            if link.kicked_at >= tail {
                return;
            }
            link.vain_looks += 1;
            let looks = if link.assist_at > link.kicked_at {
                LOOKS_AN_ASSISTED_KICK
            } else {
                LOOKS_A_KICK
            };
            if link.vain_looks >= looks {
                link.vain_looks = 0;
                // Only now: the receiver's line is seldom at hand.
                if !link.outgoing.is_taken(tail) {
                    link.kick();
                    live().kicks.add(1);
                }
            }
        }
    }

    /// The number that the peer expects, by its table; none that another connection left there.
    fn expected_by_peer(&self, pair: &Pair) -> Option<u32> {
        let link = self.links[pair.own.link?].as_ref()?;
        let destination = pair.attributes.destination;
        let entry = link.tables.as_ref()?.pairs.at(destination & INDEX_MASK);
        let expected = entry.expected.load(Ordering::Acquire);
        let is_ours = entry.peer.load(Ordering::Relaxed) == pair.number
            && requester::may_expect(expected, pair.sends.furthest_sequence());
        is_ours.then_some(expected)
    }

    /// Looks in the peer's table how far it came.
    pub(crate) fn hear_acknowledgements(&self, pair: &mut Pair) {
        if pair.sends.is_waiting()
            && let Some(expected) = self.expected_by_peer(pair)
        {
            pair.sends.acknowledge(expected);
        }
    }

    /// The peer says in a message how far it came.
    pub(crate) fn hear_answer(&mut self, pair: &mut Pair, code: u16) {
        if pair.sends.is_waiting() {
            let expected = acknowledged(code, pair.sends.next_sequence());
            pair.sends.acknowledge(expected);
            self.objects.retire(pair);
            pair.own.table_at = table_at(pair, self.looks);
        }
    }

    /// Begins sends, in order, as far as they can be.
    pub(crate) fn transmit(&mut self, pair: &mut Pair) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut is_flushed = false;
        while let Some(send) = pair.sends.next() {
            match requester::turn(pair.state, send.offset > 0) {
                Turn::Begins if self.begin(pair, &mut pieces.0) => {}
                Turn::Begins | Turn::Waits => break,
                Turn::IsFlushed => {
                    is_flushed = true;
                    break;
                }
            }
        }
        self.pieces = pieces;
        if is_flushed {
            return self.objects.flush(pair);
        }
        if let Some(link) = pair.own.link.and_then(|link| self.links[link].as_mut())
            && link.outgoing.takes_attention()
        {
            link.kick();
            live().kicks.add(1);
            if link.socket.is_none() {
                self.poke();
            }
        }
        if pair.drain_wanted {
            self.objects.retire(pair);
        }
        if !pair.sends.is_empty() && !pair.own.is_active {
            pair.own.is_active = true;
            self.objects.notices.carrier.active.push(pair.key.index());
        }
        self.advance_at = 0;
    }

    /// All of the next send has been handed over.
    fn hand_over(&mut self, pair: &mut Pair) -> bool {
        let phase = pair.sends.hand_over(pair.options.kind);
        if pair.sends.started() == 1 && matches!(phase, Some(Phase::Done(_))) {
            self.objects.retire(pair);
        }
        true
    }

    /// The next send is done as soon as it begins.
    fn end_next(&mut self, pair: &mut Pair) -> bool {
        pair.sends.end_next(CompletionStatus::Success);
        if pair.sends.started() == 1 {
            self.objects.retire(pair);
        }
        true
    }

    /// Begins the next send, or goes on with it; false: not now.
    fn begin(&mut self, pair: &mut Pair, pieces: &mut Vec<Piece>) -> bool {
        let answers = pair.sends.asked();
        if !self.objects.may_begin(pair, answers) {
            return false;
        }
        let Some(send) = pair.sends.next() else {
            return false;
        };
        let opcode = send.opcode;
        // What lies in the send itself moves with it.
        let few;
        match &send.own.payload {
            Payload::Inline(inline) => {
                let bytes = match inline {
                    Inline::Few(bytes, length) => {
                        few = *bytes;
                        few.get(..usize::from(*length)).unwrap_or_default()
                    }
                    Inline::Many(bytes) => bytes,
                };
                pieces.clear();
                pieces.push((bytes.as_ptr().cast_mut(), bytes.len()));
            }
            Payload::Elements(elements) => {
                let needed = if opcode.is_answered() {
                    access::LOCAL_WRITE
                } else {
                    0
                };
                let elements = elements.as_slice();
                let domain = pair.domain.index();
                if !memory::pieces(&self.objects.regions, elements, domain, needed, pieces) {
                    let status = CompletionStatus::LocalProtectionError;
                    self.objects.refuse(pair, status);
                    return false;
                }
            }
        }
        if self.faults.is_some()
            && let Some(goes_on) = self.strike_send(pair)
        {
            return goes_on;
        }
        if pair.options.kind == QueuePairType::Ud {
            return self.begin_datagram(pair, pieces);
        }
        let Some(index) = pair.own.link else {
            return self.lose(pair);
        };
        let Some(send) = pair.sends.next() else {
            return false;
        };
        let is_new = send.length > 0 && !send.own.is_placed && send.offset == 0;
        if is_new && self.may_be_direct(index, opcode) {
            // What was sent before must have arrived.
            if pair.sends.is_waiting() {
                return false;
            }
            if self.carry_out(pair, index, pieces) {
                if opcode != SendOpcode::RdmaWriteWithImmediate {
                    return self.end_next(pair);
                }
                if let Some(send) = pair.sends.next_mut() {
                    send.own.is_placed = true;
                }
            }
        }
        if opcode.is_answered() {
            self.ask(pair, index)
        } else {
            self.send_parts(pair, index, pieces)
        }
    }

    /// Counts the next send as begun, though nobody will hear of it.
    pub(crate) fn lose(&mut self, pair: &mut Pair) -> bool {
        let Some(send) = pair.sends.next_mut() else {
            return false;
        };
        send.own.end = 0;
        match Phase::handed_over(pair.options.kind, send.opcode) {
            Phase::Done(_) => self.end_next(pair),
            _ => self.hand_over(pair),
        }
    }

    /// Sends the request of a read or an atomic.
    fn ask(&mut self, pair: &mut Pair, index: usize) -> bool {
        let sequence = pair.sends.next_sequence();
        let (Some(link), Some(send)) = (&mut self.links[index], pair.sends.next_mut()) else {
            return false;
        };
        let mut payload = [0_u8; ATOMIC_BYTES];
        let remote = Remote {
            address: send.remote_address,
            key: send.remote_key,
        };
        payload[..REMOTE_BYTES].copy_from_slice(&remote.encode());
        payload[REMOTE_BYTES..REMOTE_BYTES + 8].copy_from_slice(&send.compare_add.to_le_bytes());
        payload[REMOTE_BYTES + 8..].copy_from_slice(&send.swap.to_le_bytes());
        let length = if send.opcode.is_atomic() {
            ATOMIC_BYTES
        } else {
            REMOTE_BYTES
        };
        if !link.outgoing.has_room(length) {
            return false;
        }
        let header = Header {
            kind: if send.opcode.is_atomic() {
                ATOMIC
            } else {
                READ
            },
            code: u16::from(send.opcode == SendOpcode::AtomicCompareAndSwap),
            target: pair.attributes.destination,
            source: pair.number,
            sequence,
            length: length as u32,
            total: send.length as u32,
            ..Header::default()
        };
        // SAFETY: the array has the bytes, and there is room.
        unsafe { link.outgoing.write(0, payload.as_ptr(), length) };
        link.outgoing.publish(&header);
        live().packets.add(1);
        send.offset = 0;
        send.own.end = link.outgoing.tail();
        link.assist_at = send.own.end;
        self.hand_over(pair)
    }

    /// Sends a message, or a remote write that the peer places, in as many packets as it takes.
    fn send_parts(&mut self, pair: &mut Pair, index: usize, pieces: &[Piece]) -> bool {
        let is_reliable = pair.options.kind == QueuePairType::Rc;
        let sequence = pair.sends.next_sequence();
        let (Some(link), Some(send)) = (&mut self.links[index], pair.sends.next_mut()) else {
            return false;
        };
        let writes = send.opcode.is_write();
        let mut flags = 0;
        if writes {
            flags |= WRITE;
        }
        if send.own.is_placed {
            flags |= PLACED;
        }
        if send.opcode.has_immediate() {
            flags |= IMMEDIATE;
        }
        if send.flags & send::SOLICITED != 0 {
            flags |= SOLICITED;
        }
        // Not a message of which a part went through the ring already.
        let pulls = is_reliable
            && !writes
            && send.offset == 0
            && matches!(send.own.payload, Payload::Elements(_))
            && link.peer_copies
            && send.length >= PULL_BYTES_MIN
            && pieces.len() <= PULL_ELEMENTS_MAX;
        send.sequence = sequence;
        loop {
            let is_first = send.offset == 0;
            let mut header = Header {
                kind: MESSAGE,
                flags,
                target: pair.attributes.destination,
                source: pair.number,
                sequence,
                immediate: send.immediate,
                total: send.length as u32,
                code: acknowledging(pair.expected),
                ..Header::default()
            };
            if is_first {
                header.flags |= FIRST;
            }
            let mut head = 0;
            let mut part = (send.length - send.offset).min(PART_BYTES_MAX);
            if send.own.is_placed {
                part = 0;
            }
            if writes && is_first {
                head = REMOTE_BYTES;
            }
            if pulls {
                head = pieces.len() * 16;
                header.flags |= PULL;
            }
            let carried = if pulls { 0 } else { part as usize };
            header.length = (head + carried) as u32;
            if !link.outgoing.has_room(head + carried) {
                return false;
            }
            let is_last = pulls || send.own.is_placed || send.offset + part == send.length;
            if is_last {
                header.flags |= LAST;
            }
            // SAFETY: what is written are arrays of this function, registered memory, or inline
            // bytes; there is room.
            unsafe {
                if pulls {
                    for (at, (address, length)) in pieces.iter().enumerate() {
                        let place = [address.addr() as u64, *length as u64].map(u64::to_le);
                        link.outgoing.write(at * 16, place.as_ptr().cast(), 16);
                    }
                } else if head > 0 {
                    let remote = Remote {
                        address: send.remote_address,
                        key: send.remote_key,
                    };
                    link.outgoing.write(0, remote.encode().as_ptr(), head);
                }
                let mut to = head;
                memory::for_range(pieces, send.offset as usize, carried, |address, length| {
                    link.outgoing.write(to, address, length);
                    to += length;
                });
            }
            link.outgoing.publish(&header);
            live().packets.add(1);
            send.offset += part;
            if is_last {
                break;
            }
        }
        send.own.end = link.outgoing.tail();
        if writes {
            link.assist_at = send.own.end;
        }
        self.hand_over(pair)
    }

    /// Sends a datagram to whoever is there.
    fn begin_datagram(&mut self, pair: &mut Pair, pieces: &[Piece]) -> bool {
        let send = pair.sends.next();
        let Some(destination) = send.and_then(|send| send.own.destination.as_deref()) else {
            return self.end_next(pair);
        };
        let (number, address) = (destination.number, destination.address);
        let key = check::queue_key_sent(pair.attributes.queue_key, destination.queue_key);
        let Some(index) = self.link_to(number) else {
            return self.end_next(pair);
        };
        let context = self.objects.notices.contexts.get(pair.context);
        let gids = context.map(|context| context.device.gids());
        let source = usize::from(address.route.source_gid_index);
        let source = gids.and_then(|gids| Some(gids.get(source)?.gid));
        let route = address.route.header(&source.unwrap_or_default());
        let (Some(link), Some(send)) = (&mut self.links[index], pair.sends.next()) else {
            return self.end_next(pair);
        };
        let length = send.length as usize;
        if !link.outgoing.has_room(DATAGRAM_BYTES + length) {
            link.vain_looks += 1;
            if link.vain_looks >= LOOKS_A_KICK {
                link.vain_looks = 0;
                link.kick();
                live().kicks.add(1);
            }
            return false;
        }
        let mut head = [0_u8; DATAGRAM_BYTES];
        head[..4].copy_from_slice(&key.to_le_bytes());
        head[4] = u8::from(address.is_global);
        head[5] = address.service_level;
        head[8..].copy_from_slice(&route);
        let mut flags = FIRST | LAST;
        if send.opcode.has_immediate() {
            flags |= IMMEDIATE;
        }
        if send.flags & send::SOLICITED != 0 {
            flags |= SOLICITED;
        }
        let header = Header {
            kind: DATAGRAM,
            flags,
            target: number,
            source: pair.number,
            immediate: send.immediate,
            length: (DATAGRAM_BYTES + length) as u32,
            total: length as u32,
            ..Header::default()
        };
        // SAFETY: the array, and registered memory or inline bytes; there is room.
        unsafe {
            link.outgoing.write(0, head.as_ptr(), DATAGRAM_BYTES);
            let mut to = DATAGRAM_BYTES;
            memory::for_range(pieces, 0, length, |address, length| {
                link.outgoing.write(to, address, length);
                to += length;
            });
        }
        link.outgoing.publish(&header);
        live().packets.add(1);
        if link.outgoing.takes_attention() {
            link.kick();
            live().kicks.add(1);
            if link.socket.is_none() {
                self.poke();
            }
        }
        self.end_next(pair)
    }

    /// What the service thread does now and then: timeouts, and kicks for peers that do not look.
    pub(crate) fn tick(&mut self) {
        for link in self.links.iter_mut().flatten() {
            if link.wants_help() && !link.outgoing.is_taken(link.assist_at) {
                link.kick();
                live().kicks.add(1);
            }
        }
        for index in self.objects.notices.carrier.active.clone() {
            let Some(mut pair) = self.objects.take_pair(index) else {
                continue;
            };
            self.tick_pair(&mut pair);
            self.objects.put_pair(pair);
        }
    }

    fn tick_pair(&mut self, pair: &mut Pair) {
        if pair.options.kind != QueuePairType::Rc || !pair.sends.is_waiting() {
            return;
        }
        let Some(first) = pair.sends.first() else {
            return;
        };
        if matches!(first.phase, Phase::Done(_)) {
            return;
        }
        let time = now();
        if pair.sends.heard_at == 0 {
            pair.sends.heard_at = time;
            return;
        }
        let (end, number) = (first.own.end, first.sequence);
        let expected = self.expected_by_peer(pair);
        let is_heard =
            expected.is_some_and(|expected| requester::is_acknowledged(number, expected));
        if let Some(link) = pair.own.link.and_then(|link| self.links[link].as_mut()) {
            // What was taken and not carried out was dropped.
            let is_lost = end == 0 || link.outgoing.is_taken(end) && !is_heard;
            if !is_lost {
                // The peer lives, and has not looked, or has not answered.
                if time - pair.sends.heard_at < TICK.as_nanos() as u64 {
                    return;
                }
                pair.sends.heard_at = time;
                if !link.outgoing.is_taken(end) {
                    link.kick();
                    live().kicks.add(1);
                    if link.socket.is_none() {
                        self.poke();
                    }
                }
                return;
            }
        }
        let Some(patience) = check::timeout_nanoseconds(pair.attributes.timeout) else {
            return;
        };
        if time - pair.sends.heard_at < patience {
            return;
        }
        pair.sends.heard_at = time;
        if !self.objects.hear_nothing(pair) {
            return;
        }
        live().retries.add(1);
        if pair.own.link.is_none() {
            pair.own.link = self.link_to(pair.attributes.destination);
        }
        self.transmit(pair);
    }
}

/// At which look the table is looked at of a peer that has answered by now.
#[inline]
pub(crate) fn table_at(pair: &Pair, looks: u64) -> u64 {
    if pair.sends.is_waiting() {
        0
    } else {
        looks + LOOKS_BEFORE_TABLE
    }
}

/// The low bits of a number, which count within its process.
pub(crate) const INDEX_MASK: u32 = (1 << QUEUE_PAIR_BITS) - 1;
