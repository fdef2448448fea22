//! The receiving side: takes what comes, places it, and says what its sender hears of it.

use alloc::vec::Vec;

use super::sending::place;
use super::{Adapter, Answer, Datagram, Memory, Outcome, Packet, Packets, Taken};
use crate::verbs::responder::{self, Incident};
use crate::verbs::{Completion, Pair, QueuePairType, Receive, SendOpcode, check, requester};

impl Adapter {
    /// Takes what has come for a queue pair of this host: what becomes of it, and what its sender
    /// hears of it. Of what was asked for the bytes replace the packet's. What nobody here is for
    /// is dropped.
    pub fn take(
        &mut self,
        packet: &Packet,
        bytes: &mut Vec<u8>,
        memory: &mut impl Memory,
    ) -> Taken {
        let place = self.place_of(packet.target);
        let Some(mut pair) = place.and_then(|place| self.take_pair(place)) else {
            return Taken::IGNORED;
        };
        let taken = self.take_of(&mut pair, packet, bytes, memory);
        self.put_pair(pair);
        taken
    }

    fn take_of(
        &mut self,
        pair: &mut Pair<Packets>,
        packet: &Packet,
        bytes: &mut Vec<u8>,
        memory: &mut impl Memory,
    ) -> Taken {
        if !check::hears(pair.state) {
            return Taken::IGNORED;
        }
        let kind = pair.options.kind;
        if let Some(datagram) = &packet.datagram {
            let outcome = if kind == QueuePairType::Ud {
                self.take_datagram(pair, packet, datagram, bytes, memory)
            } else {
                Outcome::Ignored
            };
            let answer = None;
            return Taken { answer, outcome };
        }
        if pair.attributes.destination != packet.source {
            return Taken::IGNORED;
        }
        let is_message = !packet.opcode.is_answered();
        if responder::takes_request(kind, is_message, packet.sequence, pair.expected) {
            self.establish(pair);
            pair.own.is_gap_told = false;
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
            let answer = self.repeat(pair, packet, bytes, memory);
            let outcome = Outcome::Ignored;
            return Taken { answer, outcome };
        }
        let (number, expected) = (packet.sequence, pair.expected);
        if responder::tells_missing(kind, number, expected, pair.own.is_gap_told) {
            pair.own.is_gap_told = true;
            return Taken {
                answer: Some(Answer::Missing { expected }),
                outcome: Outcome::Ignored,
            };
        }
        Taken::IGNORED
    }

    /// What was carried out before, whose answer was lost: it is not carried out again, but for
    /// reads, which change nothing.
    fn repeat(
        &mut self,
        pair: &mut Pair<Packets>,
        packet: &Packet,
        bytes: &mut Vec<u8>,
        memory: &impl Memory,
    ) -> Option<Answer> {
        if packet.opcode == SendOpcode::RdmaRead {
            let found = self.find(pair, packet).ok()?;
            bytes.clear();
            if let Some(address) = found {
                memory.read(address, packet.length as usize, bytes);
            }
            return Some(Answer::Bytes);
        }
        if packet.opcode.is_atomic() {
            let mut found = pair.own.found.iter();
            let (_, before) = found.find(|(sequence, _)| *sequence == packet.sequence)?;
            bytes.clear();
            bytes.extend_from_slice(&before.to_ne_bytes());
            return Some(Answer::Bytes);
        }
        let expected = pair.expected;
        Some(Answer::Acknowledged { expected })
    }

    /// A request is not carried out.
    fn refuse_request(
        &mut self,
        pair: &mut Pair<Packets>,
        incident: Incident,
        receive: Option<Receive>,
    ) -> Taken {
        let status = self.fail_request(pair, incident, receive);
        Taken {
            answer: status.map(|status| Answer::Refused { status }),
            outcome: Outcome::Refused(incident),
        }
    }

    /// Where the bytes of a write or read lie, if there are some.
    fn find(&self, pair: &Pair<Packets>, packet: &Packet) -> Result<Option<u64>, Incident> {
        let range = (packet.remote_address, packet.length);
        self.find_remote(pair, packet.opcode, packet.remote_key, range)
    }

    fn take_message(
        &mut self,
        pair: &mut Pair<Packets>,
        packet: &Packet,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) -> Taken {
        let (is_write, has_immediate) = (packet.opcode.is_write(), packet.opcode.has_immediate());
        let mut remote = None;
        if is_write {
            match self.find(pair, packet) {
                Ok(found) => remote = found,
                Err(incident) => return self.refuse_request(pair, incident, None),
            }
        }
        let mut receive = None;
        if responder::takes_receive(is_write, has_immediate) {
            receive = self.next_receive(pair);
            if receive.is_none() {
                let timer = pair.attributes.min_receiver_not_ready_timer;
                let is_told = responder::tells_not_ready(pair.options.kind);
                return Taken {
                    answer: is_told.then_some(Answer::NotReady { timer }),
                    outcome: Outcome::NoReceive,
                };
            }
        }
        if let Some(address) = remote {
            memory.write(address, bytes);
            self.notices.carrier.has_news = true;
        } else if !is_write && let Some(taken) = &receive {
            let elements = taken.elements.as_slice();
            let needed = responder::receive_bytes(pair.options.kind, packet.length);
            if needed > taken.elements.bytes() {
                return self.refuse_request(pair, Incident::TooLong, receive);
            }
            if !place(self, elements, pair.domain.index(), 0, bytes, memory) {
                return self.refuse_request(pair, Incident::ReceiveClosed, receive);
            }
        }
        pair.expected = packet.sequence.wrapping_add(1);
        let mut outcome = Outcome::Placed;
        if let Some(receive) = receive {
            outcome = Outcome::Received;
            let (request, length) = (receive.request, packet.length as u32);
            let immediate = has_immediate.then_some(packet.immediate);
            let ends = (pair.number, packet.source);
            let done = Completion::received(request, is_write, length, immediate, ends);
            let queue = pair.options.receive_queue;
            self.notices.complete(queue, done, packet.is_solicited);
        }
        let expected = pair.expected;
        let is_acknowledged = pair.options.kind == QueuePairType::Rc;
        Taken {
            answer: is_acknowledged.then_some(Answer::Acknowledged { expected }),
            outcome,
        }
    }

    fn take_datagram(
        &mut self,
        pair: &mut Pair<Packets>,
        packet: &Packet,
        datagram: &Datagram,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) -> Outcome {
        if !check::is_queue_key_right(pair.attributes.queue_key, datagram.queue_key) {
            return Outcome::Ignored;
        }
        let Some(receive) = self.next_receive(pair) else {
            return Outcome::NoReceive;
        };
        let needed = responder::receive_bytes(pair.options.kind, packet.length);
        if needed > receive.elements.bytes() {
            let refused = self.refuse_request(pair, Incident::TooLong, Some(receive));
            return refused.outcome;
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
            let refused = self.refuse_request(pair, Incident::ReceiveClosed, Some(receive));
            return refused.outcome;
        }
        let has_immediate = packet.opcode.has_immediate();
        let immediate = has_immediate.then_some(packet.immediate);
        let ends = (pair.number, packet.source);
        let done = Completion::received(receive.request, false, needed as u32, immediate, ends);
        let done = done.of_datagram(datagram.address.is_global, datagram.address.service_level);
        let queue = pair.options.receive_queue;
        self.notices.complete(queue, done, packet.is_solicited);
        Outcome::Received
    }

    fn take_read(
        &mut self,
        pair: &mut Pair<Packets>,
        packet: &Packet,
        bytes: &mut Vec<u8>,
        memory: &impl Memory,
    ) -> Taken {
        bytes.clear();
        match self.find(pair, packet) {
            Ok(Some(address)) => memory.read(address, packet.length as usize, bytes),
            Ok(None) => {}
            Err(incident) => return self.refuse_request(pair, incident, None),
        }
        pair.expected = packet.sequence.wrapping_add(1);
        Taken::ANSWERED
    }

    fn take_atomic(
        &mut self,
        pair: &mut Pair<Packets>,
        packet: &Packet,
        bytes: &mut Vec<u8>,
        memory: &mut impl Memory,
    ) -> Taken {
        let (key, address) = (packet.remote_key, packet.remote_address);
        let address = match self.find_atomic(pair, packet.opcode, key, address) {
            Ok(address) => address,
            Err(incident) => return self.refuse_request(pair, incident, None),
        };
        bytes.clear();
        memory.read(address, 8, bytes);
        let before = bytes.as_slice().try_into().map_or(0, u64::from_ne_bytes);
        let after = match packet.opcode {
            SendOpcode::AtomicFetchAndAdd => Some(before.wrapping_add(packet.compare_add)),
            _ => (before == packet.compare_add).then_some(packet.swap),
        };
        if let Some(after) = after {
            self.notices.carrier.has_news = true;
            memory.write(address, &after.to_ne_bytes());
        }
        // As many as may be under way may have to be told once more.
        let kept = usize::from(pair.attributes.max_destination_read_atomic).max(1);
        pair.own.found.truncate(kept - 1);
        pair.own.found.push_front((packet.sequence, before));
        pair.expected = packet.sequence.wrapping_add(1);
        Taken::ANSWERED
    }
}
