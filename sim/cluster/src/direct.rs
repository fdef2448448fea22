//! Hosts and adapters that cost nothing: what takes no time happens at once.
//!
//! `send.rs` and `receive.rs` go stage by stage, since a message may have to wait before each.
//! Where no stage of host and adapter takes time, nobody waits for one, and all the steps between
//! two events are one. The NICs get the same calls in the same order, so the result is the same
//! to the last bit; a test holds the two ways together.
//!
//! Three events a message: `Arrival`, `FlowEnds`, `TailArrives`. The head needs one only if no
//! receive descriptor is free when the flow begins. If one is, then the message will find one when
//! its head arrives, and the same one: only heads take descriptors, and those of one VI arrive in
//! the order in which their flows began.

use viaduct_core::{MessageHeader, ReceiveOutcome, ReceiveVerdict, SendOutcome};
use viaduct_engine::Time;

use crate::cluster::Cluster;
use crate::config::{Arrivals, ClusterConfig};
use crate::event::Event;
use crate::host::{BlockedPost, Drawn};
use crate::message::MessageId;
use crate::programs::Programs;
use crate::receive::drop_cause;
use crate::trace::Span;
use viaduct_hardware::HostModel;
use viaduct_network::Sharing;
use viaduct_network::fluid::FlowDemand;

impl ClusterConfig {
    /// Whether no stage of a host or its adapter takes time, and messages are all sends, and
    /// neither stored nor in queues that know nothing of each other, whole or frame by frame.
    pub(crate) fn is_direct(&self) -> bool {
        self.host.values().all(HostModel::is_free)
            && self.is_all_cut_through()
            && matches!(self.links.sharing, Sharing::Fluid | Sharing::MaxMin)
            && !self.may_fail()
            && self.traffic.has_sends_alone()
            && self.background.is_empty()
    }

    /// Whether messages over one path have one head delay: they are alike, or none is smaller than
    /// what a switch waits for, and no link catches up with more of one than of another.
    pub(crate) fn are_heads_in_order(&self) -> bool {
        let (size, links) = (&self.traffic.size, &self.links);
        let wire_bytes_min = links.frame.wire_bytes(u64::from(size.min_bytes()));
        let have_one_rate = links.host_rate == links.rate && self.topology.are_links_alike();
        size.min_bytes() == size.max_bytes()
            || have_one_rate && wire_bytes_min >= u64::from(self.switch.cut_through_bytes)
    }
}

impl<P: Programs> Cluster<P> {
    /// A message from its post to the start of its flow.
    pub(crate) fn post_directly(&mut self, wish: &BlockedPost) {
        let BlockedPost {
            process, target, ..
        } = *wish;
        let now = self.queue.now();
        let (host, target_host) = (self.host_of(process), self.host_of(target));
        let Some(ends) = self.ends(wish) else {
            return;
        };
        // What the NICs will read is asked for, and the flow begins meanwhile.
        self.look_at_vi(process, ends.source_vi);
        self.look_at_nic(target_host);
        let first = self.numbering.first_place(host);
        self.buffers[first as usize].free -= 1;
        if self.queue_depth_max.0 == 0 {
            self.queue_depth_max = (1, host);
        }
        let hosts = (host, target_host);
        let demand = self.demand_alone(wish.bytes, hosts);
        let (id, message) = self.messages.post_directly(wish, ends);
        message.mark = now;
        self.look_at_vi(target, ends.target_vi);
        let demand = FlowDemand {
            tag: id.0,
            ..demand
        };
        let transfer = self.config.transfer(process, target, demand);
        let begun = self.network.begin(&mut self.queue, &transfer);
        self.look_at_send(process, ends.source_vi);
        self.look_at_receive(target, ends.target_vi);
        let floor = match self.known_floor(wish.bytes, begun.alone) {
            Some(floor) => floor,
            None => {
                let plan = self.config.plan_alone(wish.bytes, hosts);
                self.another_floor(wish.bytes, begun.alone, plan, hosts)
            }
        };
        let message = self.messages.get_mut(id);
        message.floor = floor;
        message.head_delay = begun.delay;
        message.unshared = begun.unshared;

        // The application polls its send queue when it has posted.
        let nic = &mut self.nics[host as usize];
        while nic.send_done(ends.source_vi).completion().is_some() {}
        self.post_descriptor(host, ends, wish);
        let started = self.drawn_mut(host).start_send(ends.source_vi);
        if started.is_none() {
            self.violations
                .push(format!("host {host}: a posted send did not start"));
        }
        self.messages.get_mut(id).send_work = started.as_ref().map(|started| started.work);
        let header = started.as_ref().map(|started| &started.header);

        let head = now + begun.delay;
        // A flow that may end before its head arrives has its tail scheduled by the head: the
        // order of events at one time hangs on it.
        let ends_after_head = begun.delay < begun.unshared;
        if let Some(header) = header
            && ends_after_head
            && !ends.has_late_heads
            && self.match_early(id, target_host, header, head)
        {
            self.heads_matched += u64::from(head > now);
            return;
        }
        self.messages.get_mut(id).header = header.copied();
        let connection = self.processes[process as usize].connections.at(ends.place);
        connection.has_late_heads = true;
        self.after(self.lanes.head, head, Event::HeadArrives(id));
    }

    /// What a message puts on the links whose adapter costs nothing.
    #[inline]
    fn demand_alone(&self, bytes: u32, hosts: (u32, u32)) -> FlowDemand {
        match &self.last_priced {
            Some(last) if last.bytes == bytes && self.are_plans_alike => last.demand,
            _ => self.config.plan_alone(bytes, hosts).demand(0),
        }
    }

    /// Gives a message that begins the receive descriptor that it will find when its head arrives;
    /// says whether that is known.
    fn match_early(
        &mut self,
        id: MessageId,
        host: u32,
        header: &MessageHeader,
        head: Time,
    ) -> bool {
        let message = self.messages.get(id);
        let (target, target_vi) = (message.target, message.target_vi);
        if !self.are_heads_in_order || !self.has_receive(target, host, target_vi) {
            return false;
        }
        let message = self.messages.get_mut(id);
        let nic = &mut self.nics[host as usize];
        match nic.start_receive(target_vi, header) {
            ReceiveVerdict::Place(started) => {
                message.receive_work = Some(started.work);
            }
            ReceiveVerdict::Drop(reason) => {
                message.is_dropped = true;
                let message = self.messages.get(id);
                let hosts = (self.host_of(message.source), host);
                self.accounting
                    .dropped(message, hosts, drop_cause(reason), Time::ZERO, head);
                if let Some(operations) = &mut self.operations {
                    operations.note_lost(message.number);
                }
            }
        }
        true
    }

    /// A message has moved all its bytes: the links and the sender are done with it.
    pub(crate) fn end_directly(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        message.tail_arrives = now + message.head_delay;
        let (process, target, target_vi) = (message.source, message.target, message.target_vi);
        let host = match self.config.hosts.processes {
            1 => process,
            processes => process / processes,
        };
        if let Some(work) = message.send_work {
            self.nics[host as usize].finish_send(message.source_vi, work, SendOutcome::Sent);
        }
        // The tail is two or three events ahead.
        self.look_at_vi(target, target_vi);
        let begun = self.messages.get(id).mark;
        let span = Span {
            begin: begun,
            end: now,
        };
        self.follow_move(id, 0..usize::MAX, span);
        self.follow_buffer(id);
        self.send_again(process, id, now);
        self.free_buffer(host);
        self.schedule_tail_directly(id);
    }

    /// Schedules the end of a message, once both its head was matched and its last byte is on its
    /// way.
    pub(crate) fn schedule_tail_directly(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let is_matched = message.receive_work.is_some() || message.is_dropped;
        let arrives = message.tail_arrives;
        if is_matched && arrives < Time::MAX {
            self.after(self.lanes.tail, arrives, Event::TailArrives(id));
        }
    }

    /// A message's last byte is there: from its completion to the next use of its descriptor.
    pub(crate) fn take_directly(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get(id);
        if message.is_dropped {
            self.messages.remove(id);
            return;
        }
        let (source, target, bytes) = (message.source, message.target, message.bytes);
        let operation = message.operation;
        let hosts = (self.host_of(source), self.host_of(target));
        if let Some(work) = message.receive_work {
            let nic = &mut self.nics[hosts.1 as usize];
            nic.finish_receive(message.target_vi, work, ReceiveOutcome::Placed);
        }
        self.accounting.delivered_directly(message, hosts, now);
        let repost = self.take_completions(target);
        if self.operations.is_some() {
            self.note_taken(id);
        }
        if matches!(self.config.traffic.arrivals, Arrivals::PingPong) {
            let is_open = now < self.config.traffic.stop && now <= self.config.run.until;
            if is_open {
                let answer = Drawn {
                    target: source,
                    bytes,
                    operation,
                };
                self.want_to_post(target, answer);
            }
        }
        self.messages.remove(id);
        if let Some(repost) = repost {
            self.post_receive(target, repost);
        }
    }
}
