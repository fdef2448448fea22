//! The receiving side: takes what comes, places it, and says what its sender hears of it.

use alloc::vec::Vec;

use super::sending::place;
use super::{Adapter, Answer, Datagram, Memory, Packet, Pair};
use crate::verbs::flags::completion;
use crate::verbs::responder::{self, Incident};
use crate::verbs::{Completion, QueuePairType, Receive, SendOpcode, check, regions, requester};

impl Adapter {
    /// Takes what has come for a queue pair of this host, and says what its sender hears of it; of
    /// what was asked for the bytes replace the packet's. What nobody here is for is dropped.
    pub fn take(
        &mut self,
        packet: &Packet,
        bytes: &mut Vec<u8>,
        memory: &mut impl Memory,
    ) -> Option<Answer> {
        let place = self.place_of(packet.target)?;
        let mut pair = self.take_pair(place)?;
        let answer = self.take_of(&mut pair, packet, bytes, memory);
        self.put_pair(pair);
        answer
    }

    fn take_of(
        &mut self,
        pair: &mut Pair,
        packet: &Packet,
        bytes: &mut Vec<u8>,
        memory: &mut impl Memory,
    ) -> Option<Answer> {
        if !check::hears(pair.state) {
            return None;
        }
        let kind = pair.options.kind;
        if let Some(datagram) = &packet.datagram {
            if kind == QueuePairType::Ud {
                self.take_datagram(pair, packet, datagram, bytes, memory);
            }
            return None;
        }
        if pair.attributes.destination != packet.source {
            return None;
        }
        let is_message = !packet.opcode.is_answered();
        if responder::takes_request(kind, is_message, packet.sequence, pair.expected) {
            self.establish(pair);
            return match packet.opcode {
                SendOpcode::RdmaRead => self.take_read(pair, packet, bytes, memory),
                SendOpcode::AtomicCompareAndSwap | SendOpcode::AtomicFetchAndAdd => {
                    self.take_atomic(pair, packet, bytes, memory)
                }
                _ => self.take_message(pair, packet, bytes, memory),
            };
        }
        let is_repeated =
            kind == QueuePairType::Rc && requester::is_acknowledged(packet.sequence, pair.expected);
        if is_repeated {
            return self.repeat(pair, packet, bytes, memory);
        }
        None
    }

    /// What was carried out before, whose answer was lost: it is not carried out again, but for
    /// reads, which change nothing.
    fn repeat(
        &mut self,
        pair: &mut Pair,
        packet: &Packet,
        bytes: &mut Vec<u8>,
        memory: &impl Memory,
    ) -> Option<Answer> {
        if packet.opcode == SendOpcode::RdmaRead {
            let found = self.find_remote(pair, packet);
            bytes.clear();
            if responder::checks_key(packet.length) {
                memory.read(found?, packet.length as usize, bytes);
            }
            return Some(Answer::Bytes);
        }
        if packet.opcode.is_atomic() {
            let mut found = pair.found.iter();
            let (_, before) = found.find(|(sequence, _)| *sequence == packet.sequence)?;
            bytes.clear();
            bytes.extend_from_slice(&before.to_ne_bytes());
            return Some(Answer::Bytes);
        }
        let expected = pair.expected;
        Some(Answer::Acknowledged { expected })
    }

    fn establish(&mut self, pair: &mut Pair) {
        if let Some(event) = responder::event_at_first_request(pair.state, pair.is_established) {
            pair.is_established = true;
            self.tell_pair(pair, event);
        }
    }

    fn next_receive(&mut self, pair: &mut Pair) -> Option<Receive> {
        let Some(shared) = pair.options.shared_receive_queue else {
            return pair.receives.pop_front();
        };
        let receive = self.shared.get_mut(shared)?.receives.pop_front();
        self.check_limit(shared);
        receive
    }

    fn give_back(&mut self, pair: &mut Pair, receive: Receive) {
        match pair.options.shared_receive_queue {
            None => pair.receives.push_front(receive),
            Some(shared) => {
                if let Some(shared) = self.shared.get_mut(shared) {
                    shared.receives.push_front(receive);
                }
            }
        }
    }

    /// A request is not carried out.
    fn fail_request(
        &mut self,
        pair: &mut Pair,
        incident: Incident,
        receive: Option<Receive>,
    ) -> Option<Answer> {
        let failure = responder::failure(pair.options.kind, incident);
        match (receive, failure.receive) {
            (Some(receive), Some(status)) => {
                self.complete_receive_error(pair, receive.request, status);
            }
            (Some(receive), None) => self.give_back(pair, receive),
            (None, _) => {}
        }
        if let Some(event) = failure.event {
            self.tell_pair(pair, event);
        }
        if failure.fails {
            self.fail(pair);
        }
        failure.sender.map(|status| Answer::Refused { status })
    }

    /// Where a remote request's bytes lie, if the queue pair and the region let it through.
    fn find_remote(&self, pair: &Pair, packet: &Packet) -> Option<u64> {
        let needed = check::remote_right(packet.opcode);
        if !check::lets_peer(pair.attributes.access_flags, needed) {
            return None;
        }
        let (key, domain) = (packet.remote_key, pair.domain.index());
        let (address, length) = (packet.remote_address, packet.length);
        regions::find(&self.regions, key, domain, needed, address, length)
    }

    fn take_message(
        &mut self,
        pair: &mut Pair,
        packet: &Packet,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) -> Option<Answer> {
        let (is_write, has_immediate) = (packet.opcode.is_write(), packet.opcode.has_immediate());
        let mut remote = None;
        if is_write && responder::checks_key(packet.length) {
            remote = self.find_remote(pair, packet);
            if remote.is_none() {
                return self.fail_request(pair, Incident::AccessRefused, None);
            }
        }
        let mut receive = None;
        if responder::takes_receive(is_write, has_immediate) {
            receive = self.next_receive(pair);
            if receive.is_none() {
                let timer = pair.attributes.min_receiver_not_ready_timer;
                let is_told = responder::tells_not_ready(pair.options.kind);
                return is_told.then_some(Answer::NotReady { timer });
            }
        }
        if let Some(address) = remote {
            memory.write(address, bytes);
            self.has_news = true;
        } else if !is_write && let Some(taken) = &receive {
            let elements = taken.elements.as_slice();
            let needed = responder::receive_bytes(pair.options.kind, packet.length);
            if needed > taken.elements.bytes() {
                return self.fail_request(pair, Incident::TooLong, receive);
            }
            if !place(self, elements, pair.domain.index(), 0, bytes, memory) {
                return self.fail_request(pair, Incident::ReceiveClosed, receive);
            }
        }
        pair.expected = packet.sequence.wrapping_add(1);
        if let Some(receive) = receive {
            let immediate = if has_immediate { packet.immediate } else { 0 };
            let flags = u32::from(has_immediate) * completion::WITH_IMMEDIATE;
            let done = Completion {
                request: receive.request,
                opcode: responder::completed(is_write),
                byte_length: packet.length as u32,
                immediate,
                queue_pair: pair.number,
                source_queue_pair: packet.source,
                flags,
                ..Completion::default()
            };
            self.complete(pair.options.receive_queue, done, packet.is_solicited);
        }
        let expected = pair.expected;
        let is_acknowledged = pair.options.kind == QueuePairType::Rc;
        is_acknowledged.then_some(Answer::Acknowledged { expected })
    }

    fn take_datagram(
        &mut self,
        pair: &mut Pair,
        packet: &Packet,
        datagram: &Datagram,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) {
        if !check::is_queue_key_right(pair.attributes.queue_key, datagram.queue_key) {
            return;
        }
        let Some(receive) = self.next_receive(pair) else {
            return;
        };
        let needed = responder::receive_bytes(pair.options.kind, packet.length);
        if needed > receive.elements.bytes() {
            self.fail_request(pair, Incident::TooLong, Some(receive));
            return;
        }
        let (elements, domain) = (receive.elements.as_slice(), pair.domain.index());
        let header = check::GLOBAL_ROUTING_HEADER_BYTES as usize;
        let route: &[u8] = if datagram.address.is_global {
            &datagram.route
        } else {
            &[]
        };
        if !place(self, elements, domain, 0, route, memory)
            || !place(self, elements, domain, header, bytes, memory)
        {
            self.fail_request(pair, Incident::ReceiveClosed, Some(receive));
            return;
        }
        let mut flags = 0;
        if datagram.address.is_global {
            flags |= completion::GLOBAL_ROUTING_HEADER;
        }
        if packet.opcode.has_immediate() {
            flags |= completion::WITH_IMMEDIATE;
        }
        let done = Completion {
            request: receive.request,
            opcode: responder::completed(false),
            byte_length: needed as u32,
            immediate: if packet.opcode.has_immediate() {
                packet.immediate
            } else {
                0
            },
            queue_pair: pair.number,
            source_queue_pair: packet.source,
            service_level: datagram.address.service_level,
            flags,
            ..Completion::default()
        };
        self.complete(pair.options.receive_queue, done, packet.is_solicited);
    }

    fn take_read(
        &mut self,
        pair: &mut Pair,
        packet: &Packet,
        bytes: &mut Vec<u8>,
        memory: &impl Memory,
    ) -> Option<Answer> {
        bytes.clear();
        if responder::checks_key(packet.length) {
            let Some(address) = self.find_remote(pair, packet) else {
                return self.fail_request(pair, Incident::AccessRefused, None);
            };
            memory.read(address, packet.length as usize, bytes);
        }
        pair.expected = packet.sequence.wrapping_add(1);
        Some(Answer::Bytes)
    }

    fn take_atomic(
        &mut self,
        pair: &mut Pair,
        packet: &Packet,
        bytes: &mut Vec<u8>,
        memory: &mut impl Memory,
    ) -> Option<Answer> {
        if !check::is_atomic_address(packet.remote_address) {
            return self.fail_request(pair, Incident::Misaligned, None);
        }
        let found = self.find_remote(pair, packet);
        let Some(address) = found.filter(|address| address.is_multiple_of(8)) else {
            return self.fail_request(pair, Incident::AccessRefused, None);
        };
        bytes.clear();
        memory.read(address, 8, bytes);
        let before = bytes.as_slice().try_into().map_or(0, u64::from_ne_bytes);
        let after = match packet.opcode {
            SendOpcode::AtomicFetchAndAdd => Some(before.wrapping_add(packet.compare_add)),
            _ => (before == packet.compare_add).then_some(packet.swap),
        };
        if let Some(after) = after {
            self.has_news = true;
            memory.write(address, &after.to_ne_bytes());
        }
        // As many as may be under way may have to be told once more.
        let kept = usize::from(pair.attributes.max_destination_read_atomic).max(1);
        pair.found.truncate(kept - 1);
        pair.found.push_front((packet.sequence, before));
        pair.expected = packet.sequence.wrapping_add(1);
        Some(Answer::Bytes)
    }
}
