//! The packets of queue pairs: a way of the same messages, with what verbs says of their ends.
//!
//! ```text
//!  posted -> in its pair's line -> begins, at its turn -> the way of all messages -> taken
//!                                   |  left                                          |
//!                                   heard  <- an answer: a frame without bytes, or bytes
//! ```
//!
//! An acknowledgement, or another answer without bytes, is a message of its own, which goes as the
//! answer of a read does: what it answers may still wait for its program.
//!
//! Who waits in the line of a queue pair has no name until its turn comes: what goes then is the
//! pair's next send, which may have gone before. An adapter that sends again takes no doorbell.

use core::mem;

use viaduct_core::ViId;
use viaduct_core::verbs::{Answer, Outcome, Packet, SendOpcode, Taken};
use viaduct_engine::Time;
use viaduct_hardware::Stage;
use viaduct_hardware::mechanism::PlanId;

use super::{OF_PROGRAM, Programs};
use crate::cluster::Cluster;
use crate::faults::Fate;
use crate::host::BlockedPost;
use crate::message::{Ends, MessageId};
use crate::workload::MessageOperation;

/// Marks the lines of queue pairs, apart from those of VIs.
pub(crate) const OF_PAIR: u32 = 1 << 30;

/// What of a queue pair's packet its carrier keeps.
#[derive(Debug)]
pub(crate) struct Carried {
    packet: Packet,
    /// What its target has said of it.
    answer: Option<Answer>,
}

/// Where a packet goes, which a host's adapter has just begun with.
#[derive(Debug)]
pub struct Outgoing {
    /// What is around its bytes.
    pub packet: Packet,
    /// The host that its target is on, if one is.
    pub target: Option<u32>,
}

/// What carries a packet with this operation. An atomic goes the way of a read.
#[must_use]
pub const fn operation_of(opcode: SendOpcode) -> MessageOperation {
    match opcode {
        SendOpcode::Send | SendOpcode::SendWithImmediate => MessageOperation::Send,
        SendOpcode::RdmaWrite => MessageOperation::Write,
        SendOpcode::RdmaWriteWithImmediate => MessageOperation::WriteWithImmediate,
        SendOpcode::RdmaRead | SendOpcode::AtomicCompareAndSwap | SendOpcode::AtomicFetchAndAdd => {
            MessageOperation::Read
        }
    }
}

impl<P: Programs> Cluster<P> {
    /// Whether a message is a packet of a queue pair.
    #[inline(always)]
    pub(crate) fn is_of_pair(&self, id: MessageId) -> bool {
        let message = self.messages.get(id);
        message.is_of::<P>() && message.connection & OF_PAIR != 0
    }

    /// A program has posted sends to a queue pair, on which its processor worked from one time to
    /// another.
    pub fn posted_to_pair(&mut self, host: u32, pair: u32, (begin, end): (Time, Time)) {
        let Some(doorbell) = self.hardware.of(host).doorbell else {
            return;
        };
        let write = self.short_transaction(host, doorbell.bus, 0);
        let reached = end + write + doorbell.own;
        self.rung_for_posts((host, pair), end, reached);
        self.line_up_of_pair(host, pair, (begin, end, reached));
    }

    /// Sends of a queue pair may be able to go, some of them once more.
    pub fn kick_pair(&mut self, host: u32, pair: u32) {
        let now = self.queue.now();
        self.line_up_of_pair(host, pair, (now, now, now));
    }

    /// As many wait in a queue pair's line as it has sends that have not begun; its turn comes.
    fn line_up_of_pair(&mut self, host: u32, pair: u32, times: (Time, Time, Time)) {
        let (begin, posted, reached) = times;
        let place = pair | OF_PAIR;
        let unstarted = self.programs.unstarted_of_pair(host, pair);
        while self.guests.hosts[host as usize].line(place).waiting < unstarted {
            let wish = BlockedPost {
                // Which post it will carry nobody knows before its turn.
                number: u64::MAX,
                process: host,
                target: host,
                bytes: 0,
                operation: MessageOperation::Send,
                wanted: begin,
            };
            let ends = Ends {
                place: place | OF_PROGRAM,
                source_vi: ViId::NONE,
                target_vi: ViId::NONE,
                has_late_heads: false,
            };
            let id = self.messages.post(&wish, ends);
            self.guests.make(id, 1);
            self.guests.sent(id).is_open = false;
            let message = self.messages.get_mut(id);
            message.references = 2;
            message.spend(Stage::Post, posted);
            message.engine_from = reached;
            message.spend(Stage::Doorbell, reached);
            let line = self.guests.hosts[host as usize].at(place);
            line.waiting += 1;
            self.messages.line_up(&mut line.connection, id);
            self.queue_at_adapter(host);
        }
        self.bury(host, place, unstarted);
        self.take_turn(host, host, place | OF_PROGRAM);
        self.serve(host);
    }

    /// Begins the next send of a queue pair, if one may.
    pub(crate) fn start_of_pair(&mut self, host: u32, place: u32) -> Option<MessageId> {
        let pair = place & !OF_PAIR;
        loop {
            let mut bytes = mem::take(&mut self.guests.bytes);
            let begun = P::begin_of_pair(self, host, pair, &mut bytes);
            let left = self.programs.unstarted_of_pair(host, pair);
            self.bury(host, place, left + u32::from(begun.is_some()));
            let Some(Outgoing { packet, target }) = begun else {
                self.guests.bytes = bytes;
                return None;
            };
            let id = self.leave_line(host, place);
            if let Some(target) = target {
                mem::swap(&mut self.guests.sent(id).payload, &mut bytes);
                self.guests.bytes = bytes;
                self.admit_of_pair(host, id, packet, target);
                return Some(id);
            }
            // Nobody has the number: it goes, and nobody hears it.
            self.guests.bytes = bytes;
            self.engines[host as usize].queued -= 1;
            self.messages.get_mut(id).references = 1;
            self.remove_message(id);
            P::left_of_pair(self, host, pair, packet.sequence);
        }
    }

    /// A packet has begun its way.
    fn admit_of_pair(&mut self, host: u32, id: MessageId, packet: Packet, target: u32) {
        let message = self.messages.get_mut(id);
        message.target = target;
        message.bytes = packet.length as u32;
        message.operation = operation_of(packet.opcode);
        message.is_awaited = message.operation == MessageOperation::Read;
        let pair = message.connection & !(OF_PROGRAM | OF_PAIR);
        self.guests.going += 1;
        let sent = self.guests.sent(id);
        sent.is_going = true;
        sent.segments = packet.elements;
        let answer = None;
        sent.packet = Some(Box::new(Carried { packet, answer }));
        self.packet_begins(host, pair, id);
        debug_assert_eq!(self.messages.get(id).plan, PlanId::NONE);
        self.plan(host, id);
        self.guests.hosts[host as usize].stream(target).messages += 1;
        let message = self.messages.get(id);
        let tally = &self.plans.get(message.plan).tally;
        self.programs.counted(host, tally, message.carried_bytes());
    }

    /// The packet of a message, while something is done with it.
    fn take_packet(&mut self, id: MessageId) -> Option<Box<Carried>> {
        self.guests.sent(id).packet.take()
    }

    /// What its target has said of a packet.
    pub(super) fn answer_of(&self, id: MessageId) -> Option<Answer> {
        let carried = self.guests.sent[id.0 as usize].packet.as_deref();
        carried.and_then(|carried| carried.answer)
    }

    /// Whether the adapter is told that it has a packet's bytes already, and to what the state of
    /// its connection belongs.
    pub(crate) fn hints_of_pair(&self, id: MessageId) -> Option<(bool, u32)> {
        let carried = self.guests.sent[id.0 as usize].packet.as_deref()?;
        Some((carried.packet.is_inline, carried.packet.target | OF_PAIR))
    }

    /// The last byte of a packet has left.
    pub(crate) fn left_of_pair(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let connection = message.connection & !(OF_PROGRAM | OF_PAIR);
        // Of an answer source and target have changed places.
        let host = message.ends_as_posted().0;
        let carried = self.guests.sent[id.0 as usize].packet.as_deref();
        if let Some(sequence) = carried.map(|carried| carried.packet.sequence) {
            P::left_of_pair(self, host, connection, sequence);
        }
        self.remove_message(id);
    }

    /// All of a packet is there, or of the bytes that it asked for.
    pub(crate) fn arrive_of_pair(&mut self, id: MessageId) {
        self.come_to_pair(id);
        let message = self.messages.get(id);
        let (source, target, is_answer) = (message.source, message.target, message.is_answer);
        let is_acknowledgement = message.is_acknowledgement();
        if !is_answer {
            self.leave_stream(source, target);
        }
        if self.failures.is_some() {
            // What is corrupt is dropped as what is lost is: a checksum says so.
            if self.is_silent(id) || self.messages.get(id).fate != Fate::Whole {
                self.guests.counts.lost += 1;
                self.packet_is_lost(id);
                return self.remove_message(id);
            }
            if !is_acknowledgement {
                self.suffer_slowness(target as usize);
            }
        }
        self.guests.counts.messages += u64::from(!is_acknowledgement);
        if is_answer {
            return self.hear_of_pair(id);
        }
        let Some(mut carried) = self.take_packet(id) else {
            return self.remove_message(id);
        };
        let mut bytes = mem::take(&mut self.guests.sent(id).payload);
        let Taken { answer, outcome } = P::take_at_pair(self, target, &carried.packet, &mut bytes);
        if matches!(outcome, Outcome::Placed | Outcome::Received) {
            self.programs.received(target);
        }
        if answer != Some(Answer::Bytes) {
            let place = self.programs.place_of_pair(target, carried.packet.target);
            self.packet_arrives(id, outcome, place);
        }
        carried.answer = answer;
        let sent = self.guests.sent(id);
        (sent.payload, sent.packet) = (bytes, Some(carried));
        match answer {
            None => self.remove_message(id),
            Some(Answer::Bytes) => self.turn_back(id),
            Some(
                Answer::Acknowledged { .. }
                | Answer::Missing { .. }
                | Answer::Refused { .. }
                | Answer::NotReady { .. },
            ) => {
                self.answer_of_pair(id);
            }
        }
    }

    /// What a target says of a packet goes back, in a frame without bytes: its adapter sends that
    /// by itself, as it answers a read.
    fn answer_of_pair(&mut self, id: MessageId) {
        let packet = self.take_packet(id);
        let message = self.messages.get(id);
        let wish = BlockedPost {
            number: message.number,
            process: message.target,
            target: message.source,
            bytes: 0,
            operation: MessageOperation::Send,
            wanted: self.queue.now(),
        };
        let ends = Ends {
            place: message.connection,
            source_vi: ViId::NONE,
            target_vi: ViId::NONE,
            has_late_heads: false,
        };
        self.remove_message(id);
        let hosts = (wish.process, wish.target);
        let groups = [hosts.0, hosts.1].map(|host| self.config.host.group(host));
        let mut known = self.guests.acknowledgement_plans.iter();
        let plan = match known.find(|(of, _)| *of == groups) {
            Some((_, plan)) => *plan,
            None => {
                let plan = self.config.plan_alone(0, hosts).of_answer();
                let plan = self.plans.add(plan);
                self.guests.acknowledgement_plans.push((groups, plan));
                plan
            }
        };
        self.plans.hold(plan);
        let id = self.messages.post(&wish, ends);
        self.guests.make(id, 0);
        self.guests.going += 1;
        let sent = self.guests.sent(id);
        (sent.is_open, sent.is_going) = (false, true);
        sent.packet = packet;
        let message = self.messages.get_mut(id);
        (message.is_answer, message.plan) = (true, plan);
        self.begin_transfer(id);
    }

    /// What a target has said of a packet is at its source.
    pub(crate) fn hear_of_pair(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let host = message.ends_as_posted().0;
        let pair = message.connection & !(OF_PROGRAM | OF_PAIR);
        if let Some(carried) = self.take_packet(id)
            && let Some(answer) = carried.answer
        {
            let bytes = mem::take(&mut self.guests.sent(id).payload);
            if P::hear_at_pair(self, host, pair, carried.packet.sequence, answer, &bytes) {
                self.packet_arrives(id, Outcome::Placed, None);
            }
            self.guests.sent(id).payload = bytes;
            self.guests.sent(id).packet = Some(carried);
        }
        self.remove_message(id);
    }
}
