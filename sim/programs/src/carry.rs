//! A message's way: from a started send to a completed receive, as its plan says.
//!
//! ```text
//!  a doorbell:    Doorbell -> engine -> Fetched -> flow ... FlowEnds -> Arrives
//!  a processor:                         Begins  -> flow ... FlowEnds -> Arrives
//!                                                             |           |
//!                                                            Sent    Acknowledged
//! ```
//!
//! A receive is matched when the message's first byte is there, where the adapter does that
//! (`Heads`), and else when its last byte is. Until that has come the bytes are the network's: they
//! were taken from the sender's memory when the message started, and are put into the receiver's
//! after the checks of the semantics, under one lock.

use viaduct_agent::{copy, gather};
use viaduct_engine::Time;
use viaduct_hardware::mechanism::{Mover, Plan, Request, Step};
use viaduct_network::fluid::{FlowDemand, FlowId};
use viaduct_network::{Begun, JourneyId, Moved, Next, Transfer};
use viaduct_provider::via::{
    DataSegment, Operation, Queue, ReceiveOutcome, ReceiveVerdict, RemoteVerdict, SendOutcome,
    StartedSend, ViId,
};

use crate::cluster::Cluster;
use crate::counts;
use crate::event::Event;
use crate::host::{DEVICE, Turn, host_at};
use crate::message::{Matched, Message, MessageId, WHOLE_WAY};
use crate::raw::raw_of_tag;
use crate::traffic::TAG;
use viaduct_cluster::faults::Fate;

impl Cluster {
    /// A VI may have sends that can start.
    #[inline]
    pub(crate) fn kick(&mut self, host: u32, vi: ViId) {
        if self.host(host).nic().unstarted(vi, Queue::Send) > 0 {
            self.start_sends(host, vi);
        }
    }

    /// A VI has sends that can start, as far as it knows itself.
    pub(crate) fn start_sends(&mut self, host: u32, vi: ViId) {
        let state = &mut self.hosts[host as usize];
        let local = state.processor_free.max(self.queue.now());
        let doorbell = self.config.host.mechanism.doorbell(&self.config.host.bus);
        match doorbell.map(Step::alone) {
            Some(delay) => {
                if !core::mem::replace(&mut state.line(vi).has_turn, true) {
                    let event = Event::Doorbell(host, vi);
                    if local + delay > self.queue.now() {
                        self.queue.schedule(local + delay, event.into());
                    } else {
                        self.handle_doorbell(host, vi);
                    }
                }
            }
            None => {
                while let Some((message, is_followed)) = self.start(host, vi) {
                    self.start_by_processor(host, vi, message);
                    if !is_followed {
                        break;
                    }
                }
            }
        }
    }

    pub(crate) fn handle_doorbell(&mut self, host: u32, vi: ViId) {
        self.host(host).engine.turns.push_back(Turn::Vi(vi));
        self.serve(host);
    }

    /// Starts a VI's next send, if it has one; also says whether others wait behind it.
    fn start(&mut self, host: u32, vi: ViId) -> Option<(MessageId, bool)> {
        let count = self.hosts.len();
        let state = self.host(host);
        loop {
            let Some(send) = state.nic().start_send(vi) else {
                // Sends that failed their checks are complete.
                if let Some(handle) = state.agent.handle_of(DEVICE, vi) {
                    state.agent.settle(handle);
                }
                return None;
            };
            let Some(target) = host_at(send.peer.host, count) else {
                state.nic().handle_host_unreachable(send.peer.host);
                continue;
            };
            return Some((self.admit(host, vi, &send, target), send.is_followed));
        }
    }

    /// Makes a message of a started send.
    fn admit(&mut self, host: u32, vi: ViId, send: &StartedSend, target: u32) -> MessageId {
        let state = &mut self.hosts[host as usize];
        let is_read = send.header.operation == Operation::RdmaRead;
        let is_behind = state.line(vi).queued > 0;
        let remote = match send.header.operation {
            Operation::SendReceive => None,
            _ => state.nic().send_remote(vi, send.work),
        };
        let buffer = remote.map_or(0, |remote| u64::from(remote.handle.bits()));
        let request = Request {
            bytes: if is_read { 0 } else { send.header.length },
            segments: send.segment_count,
            target: (target, buffer << 32 | u64::from(send.peer.vi.index())),
            is_behind,
            place_in_batch: state.engine.in_batch,
        };
        state.engine.in_batch = state.engine.in_batch.wrapping_add(1);
        let (hardware, link) = (self.config.hardware(), self.config.host_link());
        let last = &mut self.last_plan;
        let plan = state.mechanism.plan(hardware, link, &request, last);
        counts::add(&mut state.counts, &plan.tally, request.bytes);
        state.stream(target).messages += 1;
        let plan = self.messages.hold_plan(last);
        let id = self.messages.insert(|| Message {
            host,
            vi,
            work: send.work,
            header: send.header,
            remote,
            peer: send.peer,
            target,
            plan,
            begun: Time::ZERO,
            head: Time::ZERO,
            links: WHOLE_WAY,
            is_answer: false,
            matched: Matched::Not,
            sequence: 0,
            epoch: 0,
            goes: 0,
            fate: Fate::Whole,
            references: 2,
        });
        if !is_read {
            let nic = &self.hosts[host as usize].agent.devices[DEVICE].nic;
            let (segments, length) = (nic.send_segments(vi, send.work), send.header.length);
            // SAFETY: `start_send` has just checked that the segments lie in registered memory,
            // under this lock.
            unsafe { gather(segments, self.messages.payload(id), length as usize) };
        }
        if self.faults.is_some() {
            self.number(id);
        }
        id
    }

    /// The processor starts a message: it writes the bytes, or asks the engine to.
    fn start_by_processor(&mut self, host: u32, vi: ViId, message: MessageId) {
        let Some((_, plan)) = self.messages.with_plan(message) else {
            return;
        };
        let (processor, beside, mover) = (plan.processor, plan.beside, plan.mover);
        let now = self.now();
        let state = self.host(host);
        let begins = state.work(now, processor);
        match mover {
            Mover::Processor(writing) => {
                state.work(begins, writing);
                if begins > now {
                    self.queue.schedule(begins, Event::Begins(message).into());
                } else {
                    self.move_in_order(message);
                }
            }
            Mover::Engine | Mover::HeldEngine => {
                state.line(vi).queued += 1;
                state.engine.turns.push_back(Turn::Message(message));
                self.serve(host);
                self.host(host).work(now, beside);
            }
        }
    }

    /// Lets something happen at a time; at once if that is now.
    #[inline(always)]
    fn at(&mut self, time: Time, event: Event) {
        if time > self.now() {
            self.queue.schedule(time, event.into());
        } else {
            self.handle(event);
        }
    }

    /// The sending engine takes its next turn, if it is free.
    pub(crate) fn serve(&mut self, host: u32) {
        while !self.host(host).engine.is_busy {
            let Some(turn) = self.host(host).engine.turns.pop_front() else {
                self.host(host).engine.in_batch = 0;
                return;
            };
            let message = match turn {
                Turn::Raw(write) => {
                    self.serve_raw(host, write);
                    return;
                }
                Turn::Message(message) => Some(message),
                Turn::Vi(vi) => {
                    let started = self.start(host, vi);
                    let state = self.host(host);
                    let has_more = started.is_some_and(|(_, is_followed)| is_followed);
                    state.line(vi).has_turn = has_more;
                    if has_more {
                        state.engine.turns.push_back(turn);
                    }
                    started.map(|(message, _)| message)
                }
            };
            let Some(message) = message else { continue };
            let Some((_, plan)) = self.messages.with_plan(message) else {
                continue;
            };
            let (service, is_one_engine) = (plan.service.alone(), plan.is_one_engine);
            let processor = plan.processor;
            let now = self.now();
            let state = self.host(host);
            state.engine.is_busy = true;
            // A request is there when the processor has written it.
            let mut from = match turn {
                Turn::Message(_) | Turn::Raw(_) => state.processor_free.max(now),
                Turn::Vi(_) if processor > Time::ZERO => state.work(now, processor),
                Turn::Vi(_) => now,
            };
            if is_one_engine {
                from = from.max(state.match_free);
                state.match_free = from + service;
            }
            self.at(from + service, Event::Fetched(message));
        }
    }

    pub(crate) fn handle_fetched(&mut self, id: MessageId) {
        let Some((message, plan)) = self.messages.with_plan(id) else {
            return;
        };
        let (host, vi) = (message.host, message.vi);
        let (mover, fetch) = (plan.mover, plan.fetch);
        if mover != Mover::HeldEngine {
            self.host(host).engine.is_busy = false;
        }
        let line = self.hosts[host as usize].line(vi);
        line.last_begin = line.last_begin.max(self.queue.now() + fetch);
        let begins = line.last_begin;
        self.at(begins, Event::Begins(id));
        self.serve(host);
    }

    pub(crate) fn handle_engine_free(&mut self, host: u32) {
        self.host(host).engine.is_busy = false;
        self.serve(host);
    }

    /// Moves a message's bytes when those before it have gone.
    pub(crate) fn move_in_order(&mut self, id: MessageId) {
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (host, vi) = (message.host, message.vi);
        let line = self.host(host).line(vi);
        if line.is_moving {
            line.wait(id);
        } else {
            line.is_moving = true;
            self.begin(id);
        }
    }

    pub(crate) fn begin(&mut self, id: MessageId) {
        let now = self.now();
        let Some((message, plan)) = self.messages.with_plan(id) else {
            return;
        };
        message.begun = now;
        let ends = if message.is_answer {
            (message.target, message.host)
        } else {
            (message.host, message.target)
        };
        let mut demand = FlowDemand {
            wire_bytes: plan.wire_bytes,
            scale: plan.scale,
            rate_max: plan.rate_max,
            tag: id.0,
        };
        let flow = message.vi.index();
        if self.faults.is_some()
            && let Some(part_bytes) = self.draw_fate(id, ends)
        {
            demand.wire_bytes = part_bytes;
        }
        let transfer = Transfer {
            ends,
            flow,
            is_ordered: true,
            demand,
        };
        let begun = self.network.begin(&mut self.queue, &transfer);
        self.note_begun(id, &begun);
    }

    /// A message has begun to move, over its whole way or the next hop of it.
    fn note_begun(&mut self, id: MessageId, begun: &Begun) {
        let (now, links) = (self.now(), self.links_crossed(begun.journey));
        let Some((message, plan)) = self.messages.with_plan(id) else {
            return;
        };
        message.begun = now;
        message.head = begun.delay;
        message.links = links;
        if begun.has_head {
            let heads = now + begun.delay + plan.adapters;
            self.expect_head(id, heads);
        }
    }

    /// Which links of its way a message crosses at once.
    #[inline]
    pub(crate) fn links_crossed(&self, journey: JourneyId) -> (u16, u16) {
        if journey == JourneyId::NONE {
            return WHOLE_WAY;
        }
        let links = self.network.links_crossed(journey);
        links.map_or(WHOLE_WAY, |it| (it.start as u16, it.end as u16))
    }

    /// The first byte of a message will be at the receiver, which may match it then.
    fn expect_head(&mut self, id: MessageId, heads: Time) {
        let Some((message, plan)) = self.messages.with_plan(id) else {
            return;
        };
        let meets = message.header.operation == Operation::SendReceive
            && matches!(message.matched, Matched::Not);
        if !plan.matches_first || !meets {
            return;
        }
        message.references += 1;
        let (host, vi, target) = (message.host, message.vi, message.target);
        let last_control = self.host(host).stream(target).last_control;
        // What came before on the VI ends well, whatever this meets.
        let last = self.host(host).line(vi).last_arrival.max(last_control);
        self.queue
            .schedule(heads.max(last), Event::Heads(id).into());
    }

    /// What was stored on its way goes on.
    pub(crate) fn handle_forwarded(&mut self, journey: JourneyId) {
        let Some(begun) = self.network.forward(&mut self.queue, journey) else {
            return;
        };
        if begun.tag == TAG {
            return;
        }
        match raw_of_tag(begun.tag) {
            Some(write) => self.raw_begun(write, &begun),
            None => self.note_begun(MessageId(begun.tag), &begun),
        }
    }

    /// A message's first byte is there: it takes a receive, or will be dropped.
    pub(crate) fn handle_head(&mut self, id: MessageId) {
        if self.faults.is_some() && self.is_hidden(id) {
            self.messages.release(id);
            return;
        }
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (peer, target) = (message.peer.vi, message.target);
        let nic = self.hosts[target as usize].nic();
        message.matched = match nic.start_receive(peer, &message.header) {
            ReceiveVerdict::Place(receive) => Matched::Receive(receive),
            ReceiveVerdict::Drop(_) => Matched::Dropped,
        };
        if matches!(message.matched, Matched::Dropped) {
            self.settle(target, peer);
        }
        self.messages.release(id);
    }

    pub(crate) fn handle_flow_end(&mut self, flow: FlowId) {
        let moved = self.network.end(&mut self.queue, flow);
        if moved.tag == TAG {
            self.transfer_moved(&moved);
        } else if let Some(write) = raw_of_tag(moved.tag) {
            self.raw_moved(write, &moved);
        } else {
            self.message_moved(MessageId(moved.tag), &moved);
        }
        if let Some(behind) = moved.behind {
            self.handle_forwarded(behind);
        }
    }

    /// What is stored at a switch, or in the receiving adapter, goes on after some time.
    pub(crate) fn forward_after(&mut self, journey: JourneyId, after: Time) {
        self.at(self.now() + after, Event::Forwarded(journey));
    }

    /// A message's bytes have moved over its whole way, or over a hop of it.
    fn message_moved(&mut self, id: MessageId, moved: &Moved) {
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let is_answer = message.is_answer;
        let is_held = self.faults.is_some() && self.decide_fate(id, moved);
        let arrives = match moved.next {
            Next::There => self.arrival(id),
            Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after) => {
                self.store(id, moved.next, journey, after)
            }
        };
        let next = if moved.is_gone && !is_answer {
            self.leave_sender(id, is_held)
        } else {
            None
        };
        if let Some(arrives) = arrives {
            self.at(arrives, Event::Arrives(id));
        }
        if let Some(next) = next {
            self.begin(next);
        }
    }

    /// When a message lies at the receiver whose last byte is on its way there.
    fn arrival(&mut self, id: MessageId) -> Option<Time> {
        let now = self.now();
        let (message, plan) = self.messages.with_plan(id)?;
        let (host, vi, target) = (message.host, message.vi, message.target);
        let (begun, is_answer) = (message.begun, message.is_answer);
        let head = message.head + plan.adapters;
        let (match_service, completion) = (plan.match_service.alone(), plan.completion.alone());
        let (receive_processor, receive_last) = (plan.receive_processor, plan.receive_last);
        // The receiving engine looks where the bytes go when the first is there; then they go on
        // as they came.
        let receiver = self.host(if is_answer { host } else { target });
        receiver.match_free = receiver.match_free.max(begun + head) + match_service;
        let mut there = receiver.match_free + (now - begun);
        if receive_processor > Time::ZERO {
            let work = receiver.work(begun + head, receive_processor);
            there = work.max(there + receive_last);
        }
        there += completion;
        if is_answer {
            return Some(there);
        }
        Some(self.in_order(host, vi, target, there))
    }

    /// When what would be at the receiver at some time is there: not before what was sent earlier.
    fn in_order(&mut self, host: u32, vi: ViId, target: u32, there: Time) -> Time {
        let state = self.host(host);
        let last_control = state.stream(target).last_control;
        let line = state.line(vi);
        line.last_arrival = there.max(line.last_arrival).max(last_control);
        line.last_arrival
    }

    /// A message is stored on its way and will go on; one that is lost goes no further, and would
    /// have been there at the time that is returned.
    #[cold]
    fn store(
        &mut self,
        id: MessageId,
        next: Next,
        journey: JourneyId,
        after: Time,
    ) -> Option<Time> {
        let there = self.now() + after;
        let (message, plan) = self.messages.with_plan(id)?;
        let (host, vi, target) = (message.host, message.vi, message.target);
        if message.fate == Fate::Lost {
            let is_answer = message.is_answer;
            self.network.give_up(journey);
            return Some(if is_answer {
                there
            } else {
                self.in_order(host, vi, target, there)
            });
        }
        if matches!(next, Next::AtAdapter(..)) {
            let heads = there + plan.adapters;
            self.expect_head(id, heads);
        }
        self.forward_after(journey, after);
        None
    }

    /// A message's last byte has left the adapter that sends it; the message of its VI that moves
    /// next.
    fn leave_sender(&mut self, id: MessageId, is_held: bool) -> Option<MessageId> {
        let now = self.now();
        let (message, plan) = self.messages.with_plan(id)?;
        let (host, vi) = (message.host, message.vi);
        let (mut sent, mover, interrupt) = (now + plan.sent, plan.mover, plan.sent_interrupt);
        let state = self.host(host);
        let line = state.line(vi);
        let next = if is_held { None } else { line.next_waiting() };
        line.is_moving = is_held || next.is_some();
        if mover == Mover::HeldEngine {
            line.queued -= 1;
            sent = state.work(now, interrupt);
            self.at(sent, Event::EngineFree(host));
        }
        if sent > now {
            self.queue.schedule(sent, Event::Sent(id).into());
        } else {
            self.handle_sent(id);
        }
        next
    }

    pub(crate) fn handle_sent(&mut self, id: MessageId) {
        let Some((message, plan)) = self.messages.with_plan(id) else {
            return;
        };
        let (host, vi, work) = (message.host, message.vi, message.work);
        let is_read = message.header.operation == Operation::RdmaRead;
        if plan.mover == Mover::HeldEngine {
            self.end_request(host, vi);
        }
        if !is_read {
            self.host(host)
                .nic()
                .finish_send(vi, work, SendOutcome::Sent);
            self.finish_at_sender(host, vi);
        }
        self.messages.release(id);
    }

    /// A send of a VI may be complete, and the next one able to start.
    fn finish_at_sender(&mut self, host: u32, vi: ViId) {
        self.kick(host, vi);
        self.settle(host, vi);
    }

    pub(crate) fn handle_arrival(&mut self, id: MessageId) {
        if self.faults.is_some() && self.withholds(id) {
            return;
        }
        self.counts.messages += 1;
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (host, target) = (message.host, message.target);
        if message.is_answer {
            self.finish_read(id);
            return;
        }
        match message.header.operation {
            Operation::RdmaRead => self.answer_read(id),
            Operation::RdmaWrite => self.place_remote(id),
            _ => self.place(id),
        }
        self.leave_stream(host, target);
    }

    /// A message meets its receive.
    fn place(&mut self, id: MessageId) {
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (peer, target) = (message.peer.vi, message.target);
        let nic = self.hosts[target as usize].nic();
        let mut is_placed = false;
        let is_early = !matches!(message.matched, Matched::Not);
        let receive = match message.matched {
            Matched::Not => match nic.start_receive(peer, &message.header) {
                ReceiveVerdict::Place(receive) => Some(receive),
                ReceiveVerdict::Drop(_) => None,
            },
            Matched::Receive(receive) => Some(receive),
            Matched::Dropped => None,
        };
        if let Some(receive) = receive {
            let mut outcome = message.outcome();
            let agent = &self.hosts[target as usize].agent;
            let nic = &agent.devices[DEVICE].nic;
            let first = nic.receive_segments(peer, receive.work);
            let several: Vec<DataSegment>;
            let segments = if receive.receives == 1 {
                first
            } else {
                several = (0..u64::from(receive.receives))
                    .flat_map(|place| nic.receive_segments(peer, receive.work.following(place)))
                    .copied()
                    .collect();
                &several
            };
            // What was registered when the first byte came may not be any more.
            let handle = agent.handle_of(DEVICE, peer);
            let payload = self.messages.payload(id);
            let may_place = |handle| agent.may_place(handle, segments, payload.len() as u64);
            if !is_early || handle.is_some_and(may_place) {
                // SAFETY: `start_receive` has just checked that what the message fills of the
                // segments lies in registered memory, and that they hold it, or did so before and
                // that is still so; under this lock.
                unsafe { place(payload, segments) };
            } else {
                outcome = ReceiveOutcome::Refused;
            }
            let nic = self.hosts[target as usize].nic();
            is_placed = nic.finish_receive(peer, receive.work, outcome)
                && outcome == ReceiveOutcome::Placed;
        }
        self.hosts[target as usize].counts.received += u64::from(is_placed);
        self.placed(id, is_placed);
    }

    /// A remote write meets its region.
    fn place_remote(&mut self, id: MessageId) {
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let Some(remote) = message.remote else {
            self.placed(id, false);
            return;
        };
        let (peer, target, outcome) = (message.peer.vi, message.target, message.outcome());
        let (header, length) = (message.header, message.header.length);
        let nic = self.hosts[target as usize].nic();
        let mut is_placed = false;
        let verdict = nic.start_remote_write(peer, &header, remote);
        if let RemoteVerdict::Access(started) = verdict {
            let range = [DataSegment {
                address: remote.address,
                handle: remote.handle,
                length,
            }];
            // SAFETY: `start_remote_write` has just checked the range, under this lock.
            unsafe { place(self.messages.payload(id), &range) };
            is_placed = nic.finish_remote_write(peer, started, outcome)
                && outcome == ReceiveOutcome::Placed;
        }
        self.placed(id, is_placed);
    }

    /// What follows at the target, and what the sender hears of it.
    fn placed(&mut self, id: MessageId, is_placed: bool) {
        let Some((message, plan)) = self.messages.with_plan(id) else {
            return;
        };
        let (target, peer) = (message.target, message.peer.vi);
        let slots = plan.tally.slots;
        let is_told =
            message.header.operation != Operation::RdmaWrite || message.header.immediate.is_some();
        if is_told {
            self.fire(target, peer, Queue::Receive);
        }
        let acknowledges = is_placed && self.host(target).nic().acknowledges(peer);
        self.tell_read(target, peer, slots, acknowledges);
        self.settle(target, peer);
        if acknowledges {
            self.acknowledge(id);
        } else {
            self.messages.release(id);
        }
    }

    /// Tells a message's sender that it was placed.
    pub(crate) fn acknowledge(&mut self, id: MessageId) {
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (ends, flow) = ((message.target, message.host), message.vi.index());
        let time = self.now() + self.control_delay(ends, flow);
        if self.faults.is_some() && self.acknowledgement_is_lost(id, time) {
            return;
        }
        self.queue.schedule(time, Event::Acknowledged(id).into());
    }

    pub(crate) fn handle_acknowledgement(&mut self, id: MessageId) {
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (host, vi, work) = (message.host, message.vi, message.work);
        self.fire(host, vi, Queue::Send);
        self.host(host).nic().handle_acknowledgement(vi, work);
        self.finish_at_sender(host, vi);
        self.messages.release(id);
    }

    /// A remote read reaches its target: the answer goes back.
    fn answer_read(&mut self, id: MessageId) {
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (host, target, peer) = (message.host, message.target, message.peer.vi);
        let Some(remote) = message.remote else {
            self.messages.release(id);
            return;
        };
        let nic = self.hosts[target as usize].nic();
        let verdict = nic.start_remote_read(peer, &message.header, remote);
        if !matches!(verdict, RemoteVerdict::Access(_)) {
            // The refusal breaks the connection, with what the read gets.
            self.settle(target, peer);
            self.messages.release(id);
            return;
        }
        let length = message.header.length;
        let range = [DataSegment {
            address: remote.address,
            handle: remote.handle,
            length,
        }];
        // SAFETY: `start_remote_read` has just checked the range, under this lock.
        unsafe { gather(&range, self.messages.payload(id), length as usize) };
        let request = Request {
            bytes: length,
            segments: 1,
            target: (host, 0),
            is_behind: false,
            place_in_batch: 0,
        };
        let state = &mut self.hosts[target as usize];
        let (hardware, link) = (self.config.hardware(), self.config.host_link());
        let last = &mut self.last_plan;
        let plan = state.mechanism.plan(hardware, link, &request, last);
        counts::add(&mut state.counts, &plan.tally, length);
        let plan = Plan {
            processor: Time::ZERO,
            ..*plan
        };
        self.messages.change_plan(id, plan);
        if let Some(message) = self.messages.get(id) {
            message.is_answer = true;
            message.epoch = 0;
        }
        self.begin(id);
    }

    /// The answer of a remote read is there.
    fn finish_read(&mut self, id: MessageId) {
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (host, vi, work) = (message.host, message.vi, message.work);
        let state = &mut self.hosts[host as usize];
        let segments = state.nic().send_segments(vi, work).to_vec();
        let handle = state.agent.handle_of(DEVICE, vi);
        let is_whole = message.fate == Fate::Whole;
        if is_whole && handle.is_some_and(|handle| state.agent.may_touch(handle, &segments)) {
            // SAFETY: the segments lie in memory that is registered now, under this lock.
            unsafe { place(self.messages.payload(id), &segments) };
            state.nic().finish_send(vi, work, SendOutcome::Sent);
        } else {
            let failed = SendOutcome::TransportFailed;
            state.nic().finish_send(vi, work, failed);
        }
        self.finish_at_sender(host, vi);
        self.messages.release(id);
    }
}

/// Puts a message's bytes where they belong.
///
/// # Safety
///
/// The segments hold so many bytes, in memory that is registered for this access.
unsafe fn place(payload: &[u8], into: &[DataSegment]) {
    let from = [DataSegment {
        address: payload.as_ptr().expose_provenance() as u64,
        handle: viaduct_provider::via::MemoryHandle::from_bits(0),
        length: payload.len() as u32,
    }];
    // SAFETY: the payload is ours; the segments by the caller's promise.
    unsafe { copy(&from, into, payload.len()) };
}
