//! The receiving side: takes packets, places what they bring, answers.

use std::sync::atomic::{AtomicU64, Ordering};

use viaduct_core::verbs::check;
use viaduct_core::verbs::flags::access;
use viaduct_core::verbs::notices::Looker;
use viaduct_core::verbs::requester;
use viaduct_core::verbs::responder::{self, Incident};
use viaduct_core::verbs::{Completion, CompletionStatus, QueuePairType, Receive, SendOpcode};
use viaduct_processes::cma;

use crate::counters::live;
use crate::engine::Engine;
use crate::limits::QUEUE_PAIR_BITS;
use crate::link::{Answer, Response};
use crate::memory;
use crate::packet::{
    ATOMIC, DATAGRAM, DATAGRAM_BYTES, FIRST, IMMEDIATE, LAST, MESSAGE, NOT_READY, PLACED, PULL,
    READ, REFUSED, REMOTE_BYTES, RESPONSE, Remote, SOLICITED, WRITE,
};
use crate::ring::{Consumer, Header, PAYLOAD_BYTES_MAX};
use crate::state::{Incoming, Pair};

/// Packets taken at once, before others have their turn.
const PACKETS_A_TURN: usize = 256;
/// Glances at rings of a look that follows one in vain. A message that comes waits for the next
/// glance: half a round of 8 bytes takes 196 ns with one glance a look at each of two rings, 178
/// with four, 171 with eight, 168 with sixteen. To reckon how many they are takes some 7 ns.
const GLANCES_A_LOOK: usize = 16;
/// Packets after which the sender is told how far this end is.
const PACKETS_A_TELL: usize = 64;
/// Answers that wait for room; with more nothing further is heard.
const RESPONSES_MAX: usize = 256;
/// Bytes of one packet of an answer.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

impl Engine {
    /// Takes what came, as [`Engine::hear_all`]. Who has waited for a packet takes that alone, and
    /// at once: a look for the next would be one at a line that the peer has just written, and has
    /// nothing in it, as a rule. The look after it is at all links. Who looks is handed what comes.
    #[inline(always)]
    pub(crate) fn hear_news(&mut self, looker: &mut impl Looker) -> usize {
        if !self.is_waiting {
            return self.hear_all();
        }
        let links = self.links.len();
        // First where the last message came from.
        let mut index = self.near;
        for _ in 0..GLANCES_A_LOOK.max(links) {
            if index >= links {
                index = 0;
            }
            let count = self.hear_one(index, looker);
            if count > 0 {
                return count;
            }
            index += 1;
        }
        0
    }

    /// Takes what came over a link, if it is a short message; if not, as [`Engine::hear`].
    #[inline(always)]
    fn hear_one(&mut self, index: usize, looker: &mut impl Looker) -> usize {
        let Some(link) = self.links.get_mut(index).and_then(Option::as_mut) else {
            return 0;
        };
        if !link.has_news() {
            return 0;
        }
        if link.responses.is_empty()
            && let Ok(Some(header)) = link.incoming.peek()
        {
            let (consumer, block) = (link.incoming, link.block);
            if self.take_short(block, &header, &consumer, looker) {
                self.near = index;
                if let Some(link) = &mut self.links[index] {
                    link.incoming.advance(&header);
                    link.heard();
                }
                return 1;
            }
        }
        self.hear(index)
    }

    /// Takes what came over a link, and tells how many packets that were.
    #[inline(never)]
    pub(crate) fn hear(&mut self, index: usize) -> usize {
        let mut count = 0;
        loop {
            let Some(link) = &mut self.links[index] else {
                return count;
            };
            if count == PACKETS_A_TURN || link.responses.len() > RESPONSES_MAX {
                break;
            }
            let header = match link.incoming.peek() {
                Ok(None) => break,
                Ok(Some(header)) => header,
                Err(_) => {
                    self.misbehaved(index);
                    return count;
                }
            };
            let consumer = link.incoming;
            let block = link.block;
            if !self.take_short(block, &header, &consumer, &mut ()) {
                self.take(index, block, &header, &consumer);
            }
            let Some(link) = &mut self.links[index] else {
                return count;
            };
            link.incoming.advance(&header);
            count += 1;
            if count % PACKETS_A_TELL == 0 {
                link.incoming.tell();
            }
        }
        let Some(link) = &mut self.links[index] else {
            return count;
        };
        // Told when there is nothing else to do.
        if count == 0 {
            link.incoming.tell();
        }
        if !link.responses.is_empty() {
            count += self.answer(index);
        }
        if count > 0
            && let Some(link) = &mut self.links[index]
        {
            link.heard();
        }
        count
    }

    /// A peer wrote what no peer writes: the link ends.
    fn misbehaved(&mut self, index: usize) {
        if let Some(link) = &mut self.links[index] {
            link.is_dead = true;
            if let Some(line) = &link.socket {
                let _ = rustix::net::shutdown(&**line, rustix::net::Shutdown::Both);
            }
        }
    }

    fn take(&mut self, link: usize, block: u32, header: &Header, consumer: &Consumer) {
        // A peer speaks for its own queue pairs, to ours.
        if header.source >> QUEUE_PAIR_BITS != block
            || header.target >> QUEUE_PAIR_BITS != self.block
        {
            return;
        }
        let index = header.target & ((1 << QUEUE_PAIR_BITS) - 1);
        let Some(mut pair) = self.objects.take_pair(index) else {
            return;
        };
        // What comes may let a send go on.
        self.advance_at = 0;
        let is_peer = pair.attributes.destination == header.source;
        let kind = pair.options.kind;
        let is_reliable = kind == QueuePairType::Rc;
        let is_struck = self.faults.is_some() && self.strike_packet(&mut pair, header);
        if check::hears(pair.state) && !is_struck {
            let is_message = header.kind == MESSAGE;
            let mut is_next = is_peer
                && responder::takes_request(kind, is_message, header.sequence, pair.expected);
            if is_next && is_message && is_reliable {
                self.hear_answer(&mut pair, header.code);
                // One of the sends that are done by now may have failed.
                is_next = check::hears(pair.state);
            }
            match header.kind {
                DATAGRAM => self.take_datagram(&mut pair, link, header, consumer),
                MESSAGE if is_next => self.take_message(&mut pair, link, header, consumer),
                READ if is_next => self.take_read(&mut pair, link, header, consumer),
                ATOMIC if is_next => self.take_atomic(&mut pair, link, header, consumer),
                RESPONSE if is_peer && is_reliable => {
                    self.take_response(&mut pair, header, consumer);
                }
                REFUSED if is_peer && is_reliable => self.take_refusal(&mut pair, header),
                _ => {}
            }
        }
        self.objects.put_pair(pair);
    }

    /// The request is done: the next one is expected.
    fn acknowledge(&mut self, pair: &mut Pair, sequence: u32) {
        pair.expected = sequence.wrapping_add(1);
        let entry = self
            .objects
            .notices
            .carrier
            .tables
            .pairs
            .at(pair.key.index());
        entry.expected.store(pair.expected, Ordering::Release);
    }

    fn respond(&mut self, link: usize, pair: &Pair, sequence: u32, answer: Answer) {
        if let Some(link) = &mut self.links[link] {
            link.responses.push_back(Response {
                target: pair.attributes.destination,
                source: pair.number,
                sequence,
                answer,
            });
        }
    }

    /// A request is not carried out.
    fn fail_request(
        &mut self,
        pair: &mut Pair,
        link: usize,
        sequence: u32,
        incident: Incident,
        receive: Option<Receive>,
    ) {
        if let Some(status) = self.objects.fail_request(pair, incident, receive) {
            let code = status.number() as u16;
            self.respond(link, pair, sequence, Answer::Refused { code, timer: 0 });
        }
    }

    /// Where the bytes of a write or read lie, if there are some.
    fn find_remote(
        &self,
        pair: &Pair,
        opcode: SendOpcode,
        remote: Remote,
        length: u64,
    ) -> Result<Option<u64>, Incident> {
        let range = (remote.address, length);
        self.objects.find_remote(pair, opcode, remote.key, range)
    }

    fn take_message(&mut self, pair: &mut Pair, link: usize, header: &Header, consumer: &Consumer) {
        let has = |flag| header.flags & flag != 0;
        let kind = pair.options.kind;
        let mut head = 0;
        let mut incoming = if has(FIRST) {
            self.objects.establish(pair);
            // The rest of an earlier message of an unreliable connection was lost.
            if let Some(receive) = pair.own.incoming.take().and_then(|earlier| earlier.receive) {
                self.objects.give_back(pair, receive);
            }
            let mut incoming = Incoming {
                receive: None,
                remote: None,
                total: u64::from(header.total),
                offset: 0,
            };
            if has(WRITE) {
                head = REMOTE_BYTES;
                let remote = Remote::decode(&consumer.array(0));
                let length = u64::from(header.total);
                match self.find_remote(pair, SendOpcode::RdmaWrite, remote, length) {
                    Ok(found) => incoming.remote = found.map(|_| remote),
                    Err(incident) => {
                        return self.fail_request(pair, link, header.sequence, incident, None);
                    }
                }
            }
            if responder::takes_receive(has(WRITE), has(IMMEDIATE)) {
                let is_struck = self.faults.is_some() && self.strike_receive(pair);
                if !is_struck {
                    incoming.receive = self.objects.next_receive(pair);
                }
                if incoming.receive.is_none() {
                    if responder::tells_not_ready(kind) {
                        let answer = Answer::Refused {
                            code: NOT_READY,
                            timer: pair.attributes.min_receiver_not_ready_timer,
                        };
                        self.respond(link, pair, header.sequence, answer);
                    }
                    return;
                }
            }
            pair.expected = header.sequence;
            incoming
        } else if header.sequence != pair.expected {
            return;
        } else if let Some(incoming) = pair.own.incoming.take() {
            incoming
        } else {
            return;
        };
        let length = (header.length as usize).saturating_sub(head);
        let placed = if has(WRITE) {
            let length = if has(PLACED) { 0 } else { length };
            self.place_write(pair, &mut incoming, head, length, consumer)
        } else {
            self.place(pair, link, &mut incoming, header, consumer)
        };
        match placed {
            Ok(()) if has(LAST) => {
                self.acknowledge(pair, header.sequence);
                if has(WRITE) && !has(PLACED) {
                    live().peer_writes.add(1);
                    live().peer_write_bytes.add(incoming.total);
                }
                if let Some(receive) = incoming.receive {
                    let is_write = has(WRITE);
                    let bytes = if is_write {
                        incoming.total
                    } else {
                        incoming.offset
                    };
                    live().receives.add(1);
                    live().receive_bytes.add(bytes);
                    let immediate = has(IMMEDIATE).then_some(header.immediate);
                    let ends = (pair.number, header.source);
                    let request = receive.request;
                    let done =
                        Completion::received(request, is_write, bytes as u32, immediate, ends);
                    let queue = pair.options.receive_queue;
                    self.objects.notices.complete(queue, done, has(SOLICITED));
                }
            }
            Ok(()) => pair.own.incoming = Some(incoming),
            Err(incident) => {
                let receive = incoming.receive;
                self.fail_request(pair, link, header.sequence, incident, receive);
            }
        }
    }

    /// Places a part of a remote write. Whether it may is asked for each part: only the peer says
    /// that parts belong together, and the region may be gone by now.
    fn place_write(
        &self,
        pair: &Pair,
        incoming: &mut Incoming,
        from: usize,
        length: usize,
        consumer: &Consumer,
    ) -> Result<(), Incident> {
        if length == 0 {
            return Ok(());
        }
        let end = incoming.offset + length as u64;
        let remote = incoming.remote.filter(|_| end <= incoming.total);
        let Some(mut remote) = remote else {
            return Err(Incident::TooLong);
        };
        remote.address = remote.address.wrapping_add(incoming.offset);
        let found = self.find_remote(pair, SendOpcode::RdmaWrite, remote, length as u64)?;
        let to = found.ok_or(Incident::AccessRefused)? as *mut u8;
        // SAFETY: registered memory of this program, open to its peer's writes.
        unsafe { consumer.read(from, to, length) };
        incoming.offset = end;
        Ok(())
    }

    /// Places a part of a message into its receive.
    fn place(
        &mut self,
        pair: &Pair,
        link: usize,
        incoming: &mut Incoming,
        header: &Header,
        consumer: &Consumer,
    ) -> Result<(), Incident> {
        let Some(receive) = &incoming.receive else {
            return Err(Incident::ReceiveClosed);
        };
        let pulls = header.flags & PULL != 0;
        let length = if pulls { header.total } else { header.length };
        let end = incoming.offset + u64::from(length);
        if responder::receive_bytes(pair.options.kind, end) > receive.elements.bytes() {
            return Err(Incident::TooLong);
        }
        let elements = receive.elements.as_slice();
        let domain = pair.domain.index();
        let needed = access::LOCAL_WRITE;
        if let ([element], false) = (elements, pulls || length == 0) {
            let (key, bytes) = (element.local_key, u64::from(element.length));
            let found = memory::find(
                &self.objects.regions,
                key,
                domain,
                needed,
                element.address,
                bytes,
            );
            let start = found.ok_or(Incident::ReceiveClosed)? as *mut u8;
            let start = start.wrapping_add(incoming.offset as usize);
            // SAFETY: registered memory of this program, open to local writes; the end of the part
            // is inside, as was checked.
            unsafe { consumer.read(0, start, length as usize) };
            incoming.offset = end;
            return Ok(());
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut placed = if memory::pieces(
            &self.objects.regions,
            elements,
            domain,
            needed,
            &mut pieces.0,
        ) {
            Ok(())
        } else {
            Err(Incident::ReceiveClosed)
        };
        if placed.is_ok() && pulls {
            placed = self.pull(link, &pieces.0, header, consumer);
        } else if placed.is_ok() {
            let mut from = 0;
            let start = incoming.offset as usize;
            memory::for_range(&pieces.0, start, length as usize, |address, part| {
                // SAFETY: registered memory of this program, open to local writes.
                unsafe { consumer.read(from, address, part) };
                from += part;
            });
        }
        self.pieces = pieces;
        incoming.offset = end;
        placed
    }

    /// Copies a message from the sender's memory.
    fn pull(
        &mut self,
        link: usize,
        pieces: &[memory::Piece],
        header: &Header,
        consumer: &Consumer,
    ) -> Result<(), Incident> {
        let failed = Incident::ReceiveClosed;
        let link = self.links[link].as_ref().ok_or(failed)?;
        if !link.copies {
            return Err(failed);
        }
        let mut remote = Vec::with_capacity(header.length as usize / 16);
        for at in (0..header.length as usize).step_by(16) {
            let [low, high] = [0, 8].map(|offset| u64::from_le_bytes(consumer.array(at + offset)));
            remote.push((low, high));
        }
        let mut left = header.total as usize;
        let local: Vec<memory::Piece> = pieces
            .iter()
            .map(|&(address, length)| {
                let part = length.min(left);
                left -= part;
                (address, part)
            })
            .collect();
        live().kernel_copies.add(1);
        // SAFETY: registered memory of this program, open to local writes.
        unsafe { cma::read(link.pid, &local, &remote) }
            .map(drop)
            .map_err(|_| failed)
    }

    fn take_datagram(
        &mut self,
        pair: &mut Pair,
        link: usize,
        header: &Header,
        consumer: &Consumer,
    ) {
        let Some(length) = (header.length as usize).checked_sub(DATAGRAM_BYTES) else {
            return;
        };
        if pair.options.kind != QueuePairType::Ud {
            return;
        }
        let head: [u8; DATAGRAM_BYTES] = consumer.array(0);
        let [a, b, c, d, is_global, service_level, ..] = head;
        let key = u32::from_le_bytes([a, b, c, d]);
        if !check::is_queue_key_right(pair.attributes.queue_key, key) {
            return;
        }
        let Some(receive) = self.objects.next_receive(pair) else {
            return;
        };
        let route = check::GLOBAL_ROUTING_HEADER_BYTES as usize;
        let needed_bytes = responder::receive_bytes(pair.options.kind, length as u64);
        if needed_bytes > receive.elements.bytes() {
            return self.fail_request(pair, link, 0, Incident::TooLong, Some(receive));
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        let elements = receive.elements.as_slice();
        let domain = pair.domain.index();
        let needed = access::LOCAL_WRITE;
        let is_open = memory::pieces(
            &self.objects.regions,
            elements,
            domain,
            needed,
            &mut pieces.0,
        );
        if is_open {
            // The header's bytes and the datagram's follow each other in the packet, too.
            let mut from = DATAGRAM_BYTES - route;
            memory::for_range(&pieces.0, 0, route + length, |address, part| {
                // SAFETY: registered memory of this program, open to local writes.
                unsafe { consumer.read(from, address, part) };
                from += part;
            });
        }
        self.pieces = pieces;
        if !is_open {
            return self.fail_request(pair, link, 0, Incident::ReceiveClosed, Some(receive));
        }
        live().receives.add(1);
        live().receive_bytes.add(length as u64);
        let immediate = (header.flags & IMMEDIATE != 0).then_some(header.immediate);
        let (request, bytes) = (receive.request, needed_bytes as u32);
        let ends = (pair.number, header.source);
        let done = Completion::received(request, false, bytes, immediate, ends);
        let done = done.of_datagram(is_global != 0, service_level);
        let queue = pair.options.receive_queue;
        self.objects
            .notices
            .complete(queue, done, header.flags & SOLICITED != 0);
    }

    fn take_read(&mut self, pair: &mut Pair, link: usize, header: &Header, consumer: &Consumer) {
        self.objects.establish(pair);
        let remote = Remote::decode(&consumer.array(0));
        let length = u64::from(header.total);
        if let Err(incident) = self.find_remote(pair, SendOpcode::RdmaRead, remote, length) {
            return self.fail_request(pair, link, header.sequence, incident, None);
        }
        self.acknowledge(pair, header.sequence);
        live().peer_reads.add(1);
        live().peer_read_bytes.add(length);
        let answer = Answer::Bytes {
            remote,
            domain: pair.domain.index(),
            left: length,
        };
        self.respond(link, pair, header.sequence, answer);
    }

    fn take_atomic(&mut self, pair: &mut Pair, link: usize, header: &Header, consumer: &Consumer) {
        self.objects.establish(pair);
        let remote = Remote::decode(&consumer.array(0));
        let opcode = if header.code == 1 {
            SendOpcode::AtomicCompareAndSwap
        } else {
            SendOpcode::AtomicFetchAndAdd
        };
        let found = self
            .objects
            .find_atomic(pair, opcode, remote.key, remote.address);
        let address = match found {
            Ok(address) => address,
            Err(incident) => {
                return self.fail_request(pair, link, header.sequence, incident, None);
            }
        };
        // SAFETY: registered memory of this program, open to its peer's atomics, and aligned.
        let word = unsafe { AtomicU64::from_ptr(address as *mut u64) };
        let first = u64::from_le_bytes(consumer.array(REMOTE_BYTES));
        let swap = u64::from_le_bytes(consumer.array(REMOTE_BYTES + 8));
        let before = memory::atomic(word, opcode, first, swap);
        self.acknowledge(pair, header.sequence);
        live().peer_atomics.add(1);
        self.respond(link, pair, header.sequence, Answer::Value(before));
    }

    /// Sends the answers that are owed, as far as there is room.
    /// Tells how many packets that were.
    pub(crate) fn answer(&mut self, index: usize) -> usize {
        let Some(link) = &mut self.links[index] else {
            return 0;
        };
        let mut sent = 0;
        while let Some(response) = link.responses.front_mut() {
            let mut header = Header {
                target: response.target,
                source: response.source,
                sequence: response.sequence,
                ..Header::default()
            };
            let mut is_done = true;
            match &mut response.answer {
                Answer::Refused { code, timer } => {
                    if !link.outgoing.has_room(0) {
                        break;
                    }
                    header.kind = REFUSED;
                    header.code = *code;
                    header.immediate = u32::from(*timer);
                    link.outgoing.publish(&header);
                }
                Answer::Value(value) => {
                    if !link.outgoing.has_room(8) {
                        break;
                    }
                    header.kind = RESPONSE;
                    header.flags = LAST;
                    header.length = 8;
                    // SAFETY: the value has the bytes, and there is room.
                    unsafe { link.outgoing.write(0, (&raw const *value).cast(), 8) };
                    link.outgoing.publish(&header);
                }
                Answer::Bytes {
                    remote,
                    domain,
                    left,
                } => {
                    let part = (*left).min(ANSWER_BYTES_MAX);
                    if !link.outgoing.has_room(part as usize) {
                        break;
                    }
                    // The region may be gone by now: the peer decides when there is room.
                    let address = if part == 0 {
                        Some(0)
                    } else {
                        let right = access::REMOTE_READ;
                        let at = remote.address;
                        memory::find(&self.objects.regions, remote.key, *domain, right, at, part)
                    };
                    let Some(address) = address else {
                        let code = CompletionStatus::RemoteAccessError.number() as u16;
                        response.answer = Answer::Refused { code, timer: 0 };
                        continue;
                    };
                    is_done = part == *left;
                    header.kind = RESPONSE;
                    header.flags = if is_done { LAST } else { 0 };
                    header.length = part as u32;
                    // SAFETY: registered memory of this program, open to its peer's reads.
                    unsafe { link.outgoing.write(0, address as *const u8, part as usize) };
                    link.outgoing.publish(&header);
                    remote.address = remote.address.wrapping_add(part);
                    *left -= part;
                }
            }
            sent += 1;
            if is_done {
                link.responses.pop_front();
            }
        }
        live().packets.add(sent);
        sent as usize
    }

    /// Bytes that were asked for.
    fn take_response(&mut self, pair: &mut Pair, header: &Header, consumer: &Consumer) {
        let Some(send) = pair.sends.find_asked(header.sequence) else {
            return;
        };
        let end = send.offset + u64::from(header.length);
        let is_last = header.flags & LAST != 0;
        let mut status = requester::answered(send.length, end, is_last);
        if status == CompletionStatus::Success {
            let mut pieces = std::mem::take(&mut self.pieces);
            let elements = send.own.payload.elements();
            let domain = pair.domain.index();
            let needed = access::LOCAL_WRITE;
            if memory::pieces(
                &self.objects.regions,
                elements,
                domain,
                needed,
                &mut pieces.0,
            ) {
                let mut from = 0;
                let length = header.length as usize;
                memory::for_range(&pieces.0, send.offset as usize, length, |address, part| {
                    // SAFETY: registered memory of this program, open to local writes.
                    unsafe { consumer.read(from, address, part) };
                    from += part;
                });
            } else {
                status = CompletionStatus::LocalProtectionError;
            }
            self.pieces = pieces;
        }
        pair.sends.answer(header.sequence, end, is_last, status);
    }

    /// The peer refuses a request.
    fn take_refusal(&mut self, pair: &mut Pair, header: &Header) {
        if header.code != NOT_READY {
            let status = u32::from(header.code);
            self.objects.hear_refusal(pair, header.sequence, status);
        } else if self
            .objects
            .hear_not_ready(pair, header.sequence, header.immediate as u8)
        {
            live().not_ready_retries.add(1);
        }
    }
}

const _: () = assert!(ANSWER_BYTES_MAX as usize <= PAYLOAD_BYTES_MAX);
