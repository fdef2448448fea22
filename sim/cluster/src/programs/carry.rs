//! What is of programs' own on a message's way: it starts when the semantics lets it, its bytes are
//! taken then, and its receiver is told what has come.
//!
//! ```text
//!  posted -> in its VI's line -> start, at its turn -> the way of all messages -> arrived
//!                                                       |  sent                    |  acknowledged
//! ```
//!
//! A send that fails its checks, or that goes with its connection, never starts: it is among those
//! that wait in the line, and leaves it when the line is next looked at.

use viaduct_core::{
    Operation, Queue, ReceiveOutcome, ReceiveVerdict, SendOutcome, StartedSend, ViId,
};
use viaduct_engine::Time;
use viaduct_hardware::mechanism::{Mover, PlanId, Request};
use viaduct_hardware::{Stage, Step};
use viaduct_network::{Moved, Next};

use super::guest::Met;
use super::pairs::OF_PAIR;
use super::{OF_PROGRAM, Programs};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::faults::Fate;
use crate::host::BlockedPost;
use crate::message::{Ends, MessageId};
use crate::receive::drop_cause;
use crate::why::Work;
use crate::workload::MessageOperation;

impl<P: Programs> Cluster<P> {
    /// Sends of a VI that have not started: to be asked before a post, for [`Cluster::posted`].
    #[inline]
    #[must_use]
    pub fn unstarted(&self, host: u32, vi: ViId) -> u32 {
        self.programs.nic(host).unstarted(vi, Queue::Send)
    }

    /// A program has posted a send, on which its processor worked from one time to another, to a
    /// VI of which so many had not started. It may not be there: what cannot be sent is complete.
    #[inline]
    pub fn posted(&mut self, host: u32, vi: ViId, before: u32, (begin, end): (Time, Time)) {
        let nic = self.programs.nic(host);
        if nic.unstarted(vi, Queue::Send) <= before {
            return;
        }
        let (Some(peer), Some(newest)) = (nic.peer(vi), nic.newest_send(vi)) else {
            return;
        };
        let operation = MessageOperation::of(newest.operation, newest.immediate.is_some());
        let bytes = newest.length;
        let segments = newest.segments.as_slice().len() as u32;
        let place = vi.index();
        self.guests.hosts[host as usize].line(place).connection.vi = vi;
        self.note_poster(host, vi);
        self.bury(host, place, before);
        let number = self.number_of_post();
        let wish = BlockedPost {
            number,
            process: host,
            target: self.host_at(peer.host).unwrap_or(host),
            bytes,
            operation,
            wanted: begin,
        };
        let ends = Ends {
            place: place | OF_PROGRAM,
            source_vi: vi,
            target_vi: peer.vi,
            has_late_heads: false,
        };
        let id = self.messages.post(&wish, ends);
        self.guests.make(id, segments);
        self.open_account(id);
        self.follow_post_of_program(id);
        self.follow_processor(host, id, Work::Post, begin, end);
        let message = self.messages.get_mut(id);
        message.references = 2;
        message.spend(Stage::Post, end);
        match self.hardware.of(host).doorbell {
            Some(doorbell) => {
                // What is too long is never carried.
                let can_start = bytes <= self.config.host.of(host).transfer_max_bytes;
                if self.adapters.is_empty() && can_start {
                    self.plan(host, id);
                    self.work_before(host, id);
                }
                let write = self.short_transaction(host, doorbell.bus, 0);
                let message = self.messages.get_mut(id);
                message.engine_from = message.mark + write + doorbell.own;
                message.spend(Stage::Doorbell, message.engine_from);
                self.guests.hosts[host as usize].at(place).waiting += 1;
                self.ring(host, host, place | OF_PROGRAM, id);
            }
            None => {
                let line = self.guests.hosts[host as usize].at(place);
                line.waiting += 1;
                self.messages.line_up(&mut line.connection, id);
                self.start_by_processors(host, place);
            }
        }
    }

    /// A program has posted a receive, on which its processor works from a time on: it rings the
    /// doorbell of the VI's receive queue, as a study's process does.
    #[inline]
    pub fn posted_receive(&mut self, host: u32, vi: ViId, begin: Time) {
        self.note_poster(host, vi);
        let doorbell = self.hardware.of(host).doorbell.unwrap_or(Step::ZERO);
        if doorbell.bus > Time::ZERO && self.network.has_buses() {
            self.queue.schedule(begin, Event::Rings(host));
        }
    }

    /// The program that runs has posted to a VI: its processor works for its messages from now on.
    #[inline]
    fn note_poster(&mut self, host: u32, vi: ViId) {
        if self.numbering.has_processors() {
            let processor = self.programs.running(self.first_place(host));
            let line = self.guests.hosts[host as usize].line(vi.index());
            line.processor = processor;
        }
    }

    pub(crate) fn handle_ring(&mut self, host: u32) {
        let doorbell = self.hardware.of(host).doorbell.unwrap_or(Step::ZERO);
        self.short_transaction(host, doorbell.bus, 0);
    }

    /// Sends of a VI that wait may be able to start.
    #[inline]
    pub fn kick(&mut self, host: u32, vi: ViId) {
        let place = vi.index();
        if self.unstarted(host, vi) == 0 {
            return;
        }
        if self.hardware.of(host).doorbell.is_some() {
            self.take_turn(host, host, place | OF_PROGRAM);
            self.serve(host);
        } else {
            self.start_by_processors(host, place);
        }
    }

    /// Without a doorbell the processor starts what can start.
    fn start_by_processors(&mut self, host: u32, place: u32) {
        while let Some(id) = self.start_of_program(host, place) {
            let now = self.queue.now();
            self.messages.get_mut(id).spend(Stage::SendQueue, now);
            self.work_before(host, id);
            self.start_by_processor(host, id);
        }
    }

    /// Takes those out of a line that will never start: all but so many.
    pub(super) fn bury(&mut self, host: u32, place: u32, left: u32) {
        while self.guests.hosts[host as usize].at(place).waiting > left {
            let id = self.leave_line(host, place);
            if self.hardware.of(host).doorbell.is_some() {
                self.engines[host as usize].queued -= 1;
            }
            self.messages.get_mut(id).references = 1;
            self.remove_message(id);
        }
    }

    pub(super) fn leave_line(&mut self, host: u32, place: u32) -> MessageId {
        let line = self.guests.hosts[host as usize].at(place);
        line.waiting -= 1;
        let id = line.connection.first_waiting;
        line.connection.first_waiting = self.messages.get(id).next_on_vi;
        id
    }

    /// Starts a VI's next send, if one can start.
    pub(crate) fn start_of_program(&mut self, host: u32, place: u32) -> Option<MessageId> {
        if place & OF_PAIR != 0 {
            return self.start_of_pair(host, place);
        }
        let vi = self.guests.hosts[host as usize].at(place).connection.vi;
        loop {
            let nic = self.programs.nic_mut(host);
            let started = nic.start_send(vi);
            let left = nic.unstarted(vi, Queue::Send);
            self.bury(host, place, left + u32::from(started.is_some()));
            let Some(send) = started else {
                // Sends that failed their checks are complete.
                if self.programs.nic(host).has_completions(vi) {
                    P::settle(self, host, vi);
                }
                return None;
            };
            let id = self.leave_line(host, place);
            let Some(target) = self.host_at(send.peer.host) else {
                self.messages.get_mut(id).references = 1;
                self.remove_message(id);
                let nic = self.programs.nic_mut(host);
                nic.handle_host_unreachable(send.peer.host);
                continue;
            };
            self.admit(host, id, &send, target);
            return Some(id);
        }
    }

    /// A message has started.
    fn admit(&mut self, host: u32, id: MessageId, send: &StartedSend, target: u32) {
        let message = self.messages.get_mut(id);
        message.target = target;
        message.target_vi = send.peer.vi;
        message.send_work = Some(send.work);
        message.header = Some(send.header);
        let vi = message.source_vi;
        self.guests.going += 1;
        let sent = self.guests.sent(id);
        sent.is_going = true;
        sent.peer = Some(send.peer);
        if send.header.operation != Operation::SendReceive {
            sent.remote = self.programs.nic(host).send_remote(vi, send.work);
        }
        if message.plan == PlanId::NONE {
            self.plan(host, id);
        }
        self.guests.hosts[host as usize].stream(target).messages += 1;
        let message = self.messages.get(id);
        let tally = &self.plans.get(message.plan).tally;
        self.programs.counted(host, tally, message.carried_bytes());
        if message.operation != MessageOperation::Read {
            let payload = &mut self.guests.sent[id.0 as usize].payload;
            let (vi, work) = (message.source_vi, send.work);
            self.programs.gather(host, vi, work, payload);
        }
        if self.failures.is_some() {
            self.number(id);
        }
    }

    /// What an adapter is asked of a program's message.
    pub(crate) fn request_of_program(&mut self, id: MessageId, place_in_batch: u32) -> Request {
        let message = self.messages.get(id);
        let sent = &self.guests.sent[id.0 as usize];
        let guest = &mut self.guests.hosts[message.source as usize];
        let is_behind = guest.at(message.connection & !OF_PROGRAM).connection.held > 0;
        if let Some((is_inline, connection)) = self.hints_of_pair(id) {
            return Request {
                bytes: message.carried_bytes(),
                segments: sent.segments,
                place_in_batch,
                target: (message.target, u64::from(connection)),
                is_behind: false,
                is_inline: Some(is_inline),
            };
        }
        let sent = &self.guests.sent[id.0 as usize];
        let buffer = sent
            .remote
            .map_or(0, |remote| u64::from(remote.handle.bits()));
        Request {
            bytes: message.carried_bytes(),
            segments: sent.segments,
            place_in_batch,
            target: (
                message.target,
                buffer << 32 | u64::from(message.target_vi.index()),
            ),
            is_behind,
            is_inline: None,
        }
    }

    /// The first byte of a program's message is there: it takes a receive now, or when what came
    /// before on its VI has ended, whatever this meets.
    pub(crate) fn head_of_program(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let is_of_pair = message.connection & OF_PAIR != 0;
        if is_of_pair || !self.matches_first || message.operation != MessageOperation::Send {
            return;
        }
        let (host, target, place) = (message.source, message.target, message.connection);
        let guest = &mut self.guests.hosts[host as usize];
        let last = guest.stream(target).last_control;
        let last = last.max(guest.at(place & !OF_PROGRAM).last_tail);
        if last > self.queue.now() {
            self.messages.get_mut(id).references += 1;
            self.queue.schedule(last, Event::Meets(id));
        } else {
            self.meet(id);
        }
    }

    /// A message takes its receive, or will be dropped, before all of it is there.
    fn meet(&mut self, id: MessageId) {
        if self.failures.is_some() && self.is_hidden(id) {
            return;
        }
        let message = self.messages.get(id);
        let (host, vi) = (message.target, message.target_vi);
        let Some(header) = message.header else { return };
        let met = &mut self.guests.sent(id).met;
        if !matches!(met, Met::Nothing) {
            return;
        }
        *met = match self.programs.nic_mut(host).start_receive(vi, &header) {
            ReceiveVerdict::Place(receive) => Met::Receive(receive),
            ReceiveVerdict::Drop(reason) => Met::Refusal(drop_cause(reason)),
        };
        if matches!(met, Met::Refusal(_)) {
            P::settle(self, host, vi);
        }
    }

    /// It is time for [`Cluster::head_of_program`] to go on.
    pub(crate) fn handle_meeting(&mut self, id: MessageId) {
        self.meet(id);
        self.remove_message(id);
    }

    /// When a message of a program is there that would be at some time: not before what was sent
    /// earlier.
    pub(crate) fn in_order(&mut self, id: MessageId, there: Time) -> Time {
        let message = self.messages.get(id);
        if message.is_answer || !message.is_of::<P>() {
            return there;
        }
        let guest = &mut self.guests.hosts[message.source as usize];
        let last_control = guest.stream(message.target).last_control;
        let line = guest.at(message.connection & !OF_PROGRAM);
        line.last_tail = there.max(line.last_tail).max(last_control);
        line.last_tail
    }

    /// A message that is lost goes no further if it is stored on its way: it would have been there
    /// in some time. So it is with those of programs, and with those that are sent again.
    pub(crate) fn ends_on_its_way(&mut self, id: MessageId, moved: &Moved) -> bool {
        if self.messages.get(id).fate != Fate::Lost {
            return false;
        }
        // Of one that is sent again the frames before the lost one come, unless the link was cut.
        if self.is_repeatable(id) && self.cut_since_begun(id).is_none() {
            return false;
        }
        let (Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after)) = moved.next else {
            return false;
        };
        self.network.give_up(journey);
        self.messages.get_mut(id).journey = viaduct_network::JourneyId::NONE;
        let there = self.in_order(id, self.queue.now() + after);
        self.after(self.lanes.tail, there, Event::TailArrives(id));
        true
    }

    /// The sender may learn that its message has left.
    pub(crate) fn handle_sent(&mut self, id: MessageId) {
        if self.is_of_pair(id) {
            return self.left_of_pair(id);
        }
        let message = self.messages.get(id);
        let (host, vi) = self.poster(id);
        let is_read = message.operation == MessageOperation::Read;
        if self.plans.get(message.plan).mover == Mover::HeldEngine {
            P::request_ended(self, host, vi);
        }
        if let Some(work) = self.messages.get(id).send_work
            && !is_read
        {
            let nic = self.programs.nic_mut(host);
            nic.finish_send(vi, work, SendOutcome::Sent);
            self.finish_at_sender(host, vi);
        }
        self.remove_message(id);
    }

    /// A send of a VI may be complete, and the next one able to start.
    fn finish_at_sender(&mut self, host: u32, vi: ViId) {
        self.kick(host, vi);
        P::settle(self, host, vi);
    }

    /// The host that posted a message, and the VI: of the answer to a read, who reads.
    pub(crate) fn poster(&self, id: MessageId) -> (u32, ViId) {
        let message = self.messages.get(id);
        let (poster, vi) = if message.is_answer {
            (message.target, message.target_vi)
        } else {
            (message.source, message.source_vi)
        };
        (self.host_of_end(message, poster), vi)
    }

    /// All of a program's message is there.
    pub(crate) fn arrive_of_program(&mut self, id: MessageId) {
        if self.is_of_pair(id) {
            return self.arrive_of_pair(id);
        }
        if self.failures.is_some() && self.withholds(id) {
            return;
        }
        self.guests.counts.messages += 1;
        let message = self.messages.get(id);
        let (host, target) = (message.source, message.target);
        if message.is_answer {
            self.finish_read_of_program(id);
            return;
        }
        match message.operation {
            MessageOperation::Read => self.answer_read_of_program(id),
            MessageOperation::Write | MessageOperation::WriteWithImmediate => {
                self.place_remote(id);
            }
            MessageOperation::Send => self.place(id),
        }
        self.leave_stream(host, target);
    }

    /// A message meets its receive.
    fn place(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (target, vi, outcome) = (message.target, message.target_vi, outcome(message.fate));
        let Some(header) = message.header else { return };
        let sent = self.guests.sent(id);
        let is_early = !matches!(sent.met, Met::Nothing);
        let receive = match sent.met {
            Met::Nothing => match self.programs.nic_mut(target).start_receive(vi, &header) {
                ReceiveVerdict::Place(receive) => Ok(receive),
                ReceiveVerdict::Drop(reason) => Err(drop_cause(reason)),
            },
            Met::Receive(receive) => Ok(receive),
            Met::Refusal(cause) => Err(cause),
        };
        let mut is_placed = false;
        if let Ok(receive) = receive {
            // What was registered when the first byte came may not be any more.
            let payload = &self.guests.sent[id.0 as usize].payload;
            let can = self.programs.place(target, vi, &receive, is_early, payload);
            let outcome = if can {
                outcome
            } else {
                ReceiveOutcome::Refused
            };
            let nic = self.programs.nic_mut(target);
            is_placed =
                nic.finish_receive(vi, receive.work, outcome) && outcome == ReceiveOutcome::Placed;
            if is_placed {
                let more = receive.receives.saturating_sub(1);
                self.placed_in_account(id, Some(receive.work.following(more.into())));
            } else if !can {
                self.drop_of_program(id, REFUSED);
            }
        }
        if let Err(cause) = receive {
            self.drop_of_program(id, cause);
        }
        if is_placed {
            self.programs.received(target);
        }
        self.placed_of_program(id, is_placed);
    }

    /// A remote write meets its region.
    fn place_remote(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (target, vi, outcome) = (message.target, message.target_vi, outcome(message.fate));
        let sent = &self.guests.sent[id.0 as usize];
        let mut written = None;
        if let (Some(header), Some(remote)) = (message.header, sent.remote) {
            let bytes = &sent.payload;
            let programs = &mut self.programs;
            written = programs.write_remote((target, vi), &header, remote, bytes, outcome);
        }
        if let Some(written) = written {
            self.placed_in_account(id, written.receive);
        } else if outcome == ReceiveOutcome::Placed {
            self.drop_of_program(id, REFUSED);
        }
        self.placed_of_program(id, written.is_some());
    }

    /// What follows at the target, and what the sender hears of it.
    fn placed_of_program(&mut self, id: MessageId, is_placed: bool) {
        let message = self.messages.get(id);
        let (target, vi) = (message.target, message.target_vi);
        let slots = self.plans.get(message.plan).tally.slots;
        if message.operation.is_heard() {
            P::written(self, target, vi, Queue::Receive);
        }
        let acknowledges = is_placed && self.programs.nic(target).acknowledges(vi);
        P::read(self, target, vi, slots, acknowledges);
        P::settle(self, target, vi);
        if acknowledges {
            self.acknowledge(id);
        } else {
            self.remove_message(id);
        }
    }

    /// Tells a message's sender that it was placed.
    pub(crate) fn acknowledge(&mut self, id: MessageId) {
        let (ends, flow) = self.way_back(self.messages.get(id));
        let time = self.queue.now() + self.network.control_delay(ends, flow);
        if self.failures.is_some() && self.acknowledgement_is_lost(id, time) {
            return;
        }
        self.queue.schedule(time, Event::Acknowledged(id));
    }

    /// A program's send was acknowledged.
    pub(crate) fn acknowledged_of_program(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (host, vi, work) = (message.source, message.source_vi, message.send_work);
        P::written(self, host, vi, Queue::Send);
        if let Some(work) = work {
            self.programs.nic_mut(host).handle_acknowledgement(vi, work);
        }
        self.finish_at_sender(host, vi);
        self.remove_message(id);
    }

    /// A remote read reaches its target: the answer goes back.
    fn answer_read_of_program(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (target, vi) = (message.target, message.target_vi);
        let sent = &mut self.guests.sent[id.0 as usize];
        let (Some(header), Some(remote)) = (message.header, sent.remote) else {
            return self.remove_message(id);
        };
        let payload = &mut sent.payload;
        if !self
            .programs
            .read_remote((target, vi), &header, remote, payload)
        {
            // The refusal breaks the connection, with what the read gets.
            P::settle(self, target, vi);
            self.drop_of_program(id, REFUSED);
            self.remove_message(id);
            return;
        }
        self.turn_back(id);
    }

    /// The answer of a remote read is there.
    fn finish_read_of_program(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (host, vi, is_whole) = (
            message.target,
            message.target_vi,
            message.fate == Fate::Whole,
        );
        if let Some(work) = message.send_work {
            let payload = &self.guests.sent[id.0 as usize].payload;
            let is_there = is_whole && self.programs.place_read(host, vi, work, payload);
            let outcome = if is_there {
                SendOutcome::Sent
            } else {
                SendOutcome::TransportFailed
            };
            self.programs.nic_mut(host).finish_send(vi, work, outcome);
            if is_there {
                self.placed_in_account(id, None);
            } else if is_whole {
                self.drop_of_program(id, REFUSED);
            }
        }
        self.finish_at_sender(host, vi);
        self.remove_message(id);
    }
}

/// Why a message is dropped that its target does not let write or read there.
const REFUSED: &str = "protection";

/// What the receive of a message is told.
const fn outcome(fate: Fate) -> ReceiveOutcome {
    match fate {
        Fate::Corrupt => ReceiveOutcome::Corrupt,
        Fate::Whole | Fate::Lost | Fate::Gap => ReceiveOutcome::Placed,
    }
}
