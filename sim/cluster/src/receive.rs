//! The receiving side: from the first byte at the NIC to the application's having the message.

use viaduct_core::{DropReason, MessageHeader, ReceiveOutcome, ReceiveVerdict};
use viaduct_engine::Time;

use crate::cluster::Cluster;
use crate::config::Arrivals;
use crate::connect::RECEIVES_AT_FIRST;
use crate::connections::connection;
use crate::event::Event;
use crate::host::Drawn;
use crate::message::{Message, MessageId};
use crate::programs::Programs;
use crate::why::Work;
use crate::workload::MessageOperation;
use viaduct_hardware::mechanism::PlanId;
use viaduct_hardware::{Stage, Step};

impl<P: Programs> Cluster<P> {
    /// The receiving NIC sees a message's head: it takes the VI's next receive descriptor.
    pub(crate) fn handle_head(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let host = self.host_of_end(message, message.target);
        if message.is_of::<P>() {
            self.head_of_program(id);
            self.receive_data(id, host);
            if self.is_stored_at_receiver(id) {
                self.move_stored(id);
            } else {
                self.schedule_tail(id);
            }
            return;
        }
        // A send that its own NIC refused never comes here.
        let Some(header) = message.header else { return };
        let is_withheld = self.failures.is_some() && self.withholds_head(id);
        let message = self.messages.get(id);
        // A remote write takes its receive, if any, when all of it is there.
        let is_matched = self.matches_first && message.operation == MessageOperation::Send;
        let is_placed = !is_withheld && (!is_matched || self.match_receive(id, host, &header));
        let is_placed = is_placed || self.failures.is_some() && self.is_to_come_again(id);
        if is_placed && !self.is_direct {
            self.receive_data(id, host);
        }
        if self.is_direct {
            self.schedule_tail_directly(id);
        } else if self.is_stored_at_receiver(id) {
            self.move_stored(id);
        } else {
            self.schedule_tail(id);
        }
    }

    /// A message takes its VI's next receive descriptor, or is dropped; whether it has one.
    #[inline]
    pub(crate) fn match_receive(
        &mut self,
        id: MessageId,
        host: u32,
        header: &MessageHeader,
    ) -> bool {
        let now = self.queue.now();
        let message = self.messages.get(id);
        let (target, target_vi) = (message.target, message.target_vi);
        let is_send = message.operation == MessageOperation::Send;
        if self.config.hosts.prepost > RECEIVES_AT_FIRST {
            self.has_receive(target, host, target_vi);
        }
        let nic = &mut self.nics[host as usize];
        let matched = match is_send {
            true => match nic.start_receive(target_vi, header) {
                ReceiveVerdict::Place(started) => Ok(started.work),
                ReceiveVerdict::Drop(reason) => Err(reason),
            },
            false => self.match_immediate(target, header, target_vi),
        };
        match matched {
            Ok(work) => {
                self.messages.get_mut(id).receive_work = Some(work);
                true
            }
            Err(reason) => {
                let message = self.messages.get(id);
                let hosts = (self.host_of(message.source), host);
                let queued = if !self.is_direct {
                    message.queued()
                } else if message.tail_arrives == Time::MAX {
                    Time::ZERO
                } else {
                    message.queued_directly()
                };
                self.accounting
                    .dropped(message, hosts, drop_cause(reason), queued, now);
                if let Some(operations) = &mut self.operations {
                    operations.note_lost(message.number);
                }
                self.messages.get_mut(id).is_dropped = true;
                if self.failures.is_some() {
                    self.carry_breaks(host);
                }
                false
            }
        }
    }

    /// The receiving engine begins with a message, and where the kernel receives the processor, as
    /// far as it is idle (`schedule_tail`).
    #[inline(always)]
    fn receive_data(&mut self, id: MessageId, host: u32) {
        let now = self.queue.now();
        let message = self.messages.get(id);
        let plan = self.plans.get(message.plan);
        let step = plan.match_service;
        let is_one_engine = plan.is_one_engine;
        // The message's own data waits for its descriptor.
        let is_moving = message.tail_arrives == Time::MAX && !self.is_stored_at_receiver(id);
        let span = self.short_transaction(host, step.bus, is_moving.into()) + step.own;
        let engines = &mut self.engines[host as usize];
        let begin = now.max(engines.receive_free);
        engines.receive_free = begin + span;
        if is_one_engine {
            self.follow_engine(host, id, begin, begin + span);
        }
        let idle = self.processors[self.target_processor(host, id)].idle(now);
        let message = self.messages.get_mut(id);
        message.receive_delay = Some(begin + span - now);
        message.idle_at_head = idle;
    }

    /// Whether the receiving NIC holds the whole message, its bus still to be crossed.
    #[inline]
    fn is_stored_at_receiver(&self, id: MessageId) -> bool {
        !self.network.is_cut_through() && self.network.is_at_adapter(self.messages.get(id).journey)
    }

    /// A NIC that stores whole messages moves them to memory only after the check.
    fn move_stored(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        if message.is_dropped {
            self.network.give_up(message.journey);
            if self.failures.is_some() {
                self.await_in_vain(id);
            }
            self.remove_message(id);
            return;
        }
        message.spend(Stage::Network, now);
        let delay = message
            .receive_delay
            .replace(Time::ZERO)
            .unwrap_or_default();
        message.spend(Stage::Receive, now + delay);
        self.after(self.lanes.fetched, now + delay, Event::Forwarded(id));
    }

    /// Schedules the end of a message once both its head's check and its last byte's way are known.
    pub(crate) fn schedule_tail(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let arrives = message.tail_arrives;
        if arrives == Time::MAX {
            return;
        }
        if message.is_dropped {
            self.after(self.lanes.tail, arrives, Event::TailArrives(id));
            return;
        }
        let Some(delay) = message.receive_delay else {
            return;
        };
        let host = self.host_of_end(message, message.target);
        let plan = self.plans.get(message.plan);
        let (step, last) = (plan.completion, plan.receive_last);
        let is_of_program = message.is_of::<P>();
        let (idle, mut worked) = (message.idle_at_head, Time::ZERO);
        if plan.receive_processor > Time::ZERO {
            // The kernel took frame after frame, and applications ran in between.
            let span = plan.receive_processor;
            let now = self.queue.now();
            let processor = self.target_processor(host, id);
            let processor = &mut self.processors[processor];
            let (begin, end) = processor.work_since(idle, now, span);
            self.follow_processor(host, id, Work::Take, begin, end);
            worked = end;
        }
        let message = self.messages.get(id);
        let mut there = (arrives + delay + last).max(worked);
        let keeps_order = self.keeps_order(message);
        if (keeps_order || is_of_program) && !message.is_answer {
            // None of a VI's messages overtakes another.
            let (process, place) = (message.source, message.connection);
            let connection = connection!(self, process, place);
            let done = there + step.own;
            there += connection.last_arrival.saturating_sub(done);
            connection.last_arrival = there + step.own;
        }
        let write = self.short_transaction(host, step.bus, 0);
        let message = self.messages.get_mut(id);
        message.spend(Stage::Network, arrives);
        message.spend(Stage::Receive, there);
        let mut written = there + step.own + write;
        if is_of_program {
            written = self.in_order(id, written);
        } else if keeps_order {
            written = self.behind_the_last(id, written);
        }
        let message = self.messages.get_mut(id);
        message.spend(Stage::Completion, written);
        self.after(self.lanes.tail, written, Event::TailArrives(id));
    }

    /// Whether a message is placed behind what its VI sent earlier.
    #[inline]
    fn keeps_order(&self, message: &Message) -> bool {
        match self.order {
            Some(keeps_order) => keeps_order,
            None => self.hardware.of(self.host_of(message.source)).moving_per_vi == 1,
        }
    }

    /// When a message of drawn traffic is placed that would be at some time: not before what its VI
    /// sent earlier.
    #[inline]
    fn behind_the_last(&mut self, id: MessageId, there: Time) -> Time {
        let message = self.messages.get(id);
        if message.is_answer {
            return there;
        }
        let (process, place) = (message.source, message.connection);
        let connection = connection!(self, process, place);
        connection.last_placed = connection.last_placed.max(there);
        connection.last_placed
    }

    /// A message's last byte is there, and what else its arrival asks. Messages of one VI are
    /// completed in the order of their posts: one that overtook another on the links waits for it.
    pub(crate) fn arrive(&mut self, id: MessageId) {
        if self.messages.get(id).is_of::<P>() {
            return self.arrive_of_program(id);
        }
        match self.messages.get(id).operation {
            MessageOperation::Send => {}
            MessageOperation::WriteWithImmediate => self.match_before_order(id),
            MessageOperation::Write | MessageOperation::Read => return self.arrive_unheard(id),
        }
        if !self.may_overtake {
            return self.complete(id);
        }
        let message = self.messages.get(id);
        let (vi, host) = (message.target_vi, self.host_of(message.target));
        let Some(work) = message.receive_work else {
            return self.complete(id);
        };
        if self.failures.is_some() && self.drawn(host).peer(vi).is_none() {
            // What is in front of it went with the connection.
            return self.complete(id);
        }
        if !self.drawn_mut(host).is_oldest_receive(vi, work) {
            self.overtakers.insert((host, vi, work), id);
            return;
        }
        self.complete(id);
        let mut next = work.following(1);
        while let Some(id) = self.overtakers.remove(&(host, vi, next)) {
            let now = self.queue.now();
            if !self.is_direct {
                self.messages.get_mut(id).spend(Stage::Network, now);
            }
            self.complete(id);
            next = next.following(1);
        }
    }

    fn complete(&mut self, id: MessageId) {
        if self.is_direct {
            self.take_directly(id);
        } else {
            self.handle_tail(id);
        }
    }

    /// The completion is in memory: the host is told.
    pub(crate) fn handle_tail(&mut self, id: MessageId) {
        if self.failures.is_some() && self.withholds_tail(id) {
            return;
        }
        let message = self.messages.get(id);
        let host = self.host_of(message.target);
        // Where something may fail, its head may have come before what is in front of it.
        if message.receive_work.is_none()
            && !message.is_dropped
            && let Some(header) = message.header
        {
            self.match_receive(id, host, &header);
        }
        let message = self.messages.get(id);
        let (vi, work) = (message.target_vi, message.receive_work);
        if message.is_dropped && work.is_none() {
            if self.failures.is_some() {
                self.await_in_vain(id);
            }
            self.remove_message(id);
            return;
        }
        let outcome = match &self.failures {
            None => ReceiveOutcome::Placed,
            Some(_) => self.outcome(id),
        };
        if let Some(work) = work {
            let nic = &mut self.nics[host as usize];
            let is_placed = nic.finish_receive(vi, work, outcome);
            if self.failures.is_some() {
                self.placed(id, host, is_placed);
            }
        }
        self.be_heard_of(id);
    }

    /// The application takes the message, answers if it is a ping-pong, and posts the descriptor
    /// again.
    pub(crate) fn handle_reaped(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get(id);
        let (source, target) = (message.source, message.target);
        let answer = Drawn {
            target: source,
            bytes: message.bytes,
            operation: message.operation,
        };
        let host = self.host_of(target);
        let hosts = (self.host_of(source), host);
        let is_dropped = message.is_dropped;
        if self.failures.is_some() && self.is_dead(target) {
            self.posted_again(id, host);
            return self.miss_message(id);
        }
        if !is_dropped {
            self.accounting.delivered(message, hosts);
        }
        self.messages.get_mut(id).repost = self.take_completions(target);
        if self.operations.is_some() && !is_dropped {
            self.note_taken(id);
        }
        let is_open = now < self.config.traffic.stop && now <= self.config.run.until;
        let is_answered = matches!(self.config.traffic.arrivals, Arrivals::PingPong);
        if is_answered && is_open && !is_dropped {
            self.want_to_post(target, answer);
        }
        let end = self.posted_again(id, host);
        let doorbell = self.hardware.of(host).doorbell.unwrap_or(Step::ZERO);
        let write = self.short_transaction(host, doorbell.bus, 0);
        let posted = end + write + doorbell.own;
        self.after(self.lanes.reposted, posted, Event::Reposted(id));
    }

    /// The receiving NIC can use the descriptor again.
    pub(crate) fn handle_reposted(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (process, repost) = (message.target, message.repost);
        self.remove_message(id);
        if let Some(repost) = repost {
            self.post_receive(process, repost);
        }
    }
}

impl<P: Programs> Cluster<P> {
    /// A message is over.
    pub(crate) fn remove_message(&mut self, id: MessageId) {
        if self.messages.get(id).is_of::<P>() {
            let message = self.messages.get_mut(id);
            message.references -= 1;
            let left = message.references;
            let sent = self.guests.sent(id);
            if sent.is_going && left <= u8::from(sent.is_untaken) {
                sent.is_going = false;
                self.guests.going -= 1;
            }
            if left > 0 {
                return;
            }
            if self.guests.sent(id).is_open {
                self.close_account(id);
            }
            self.packet_ends(id);
            self.guests.forget(id);
        } else if self.failures.is_some() && self.is_named_still(id) {
            return;
        }
        let plan = self.messages.get(id).plan;
        if plan != PlanId::NONE {
            self.plans.release(plan);
        }
        self.messages.remove(id);
    }
}

pub(crate) fn drop_cause(reason: DropReason) -> &'static str {
    match reason {
        DropReason::NoDescriptor => "no_descriptor",
        DropReason::TooLong => "too_long",
        DropReason::Protection => "protection",
        DropReason::Format => "format",
        DropReason::NotConnected => "not_connected",
        _ => "refused",
    }
}
