//! What follows for programs from a fault: who notices it when, and what the semantics is told.
//!
//! ```text
//!  a message:   FlowEnds: its fate -> TailArrives: withheld -> GivesUp, at the reliable levels
//!  a host:      Dies -> DeathNoticed: unreachable, for whoever had to do with it
//!  a link:      CutNoticed: unreachable, for the hosts at both ends of each way over it
//!  a control message that does not get through: LostTouch: unreachable, at both its ends
//! ```

use std::collections::BTreeSet;

use viaduct_core::{ReceiveOutcome, ViId};
use viaduct_engine::Time;
use viaduct_network::{Moved, Next};
use viaduct_topology::LinkId;

use super::Programs;
use super::guest::Met;
use crate::cluster::Cluster;
use crate::event::Event;
use crate::failures::cause;
use crate::faults::Fate;
use crate::message::MessageId;
use crate::workload::MessageOperation;

impl<P: Programs> Cluster<P> {
    /// Those who had to do with a dead host give their connections to it up.
    pub(crate) fn notice_death(&mut self, dead: u32) {
        let own = &self.guests.hosts[dead as usize].streams;
        let own: BTreeSet<u32> = own.iter().map(|stream| stream.peer).collect();
        for host in 0..self.engines.len() as u32 {
            if own.contains(&host) || self.guests.hosts[host as usize].knows(dead) {
                let broken = self.lose(host, dead);
                self.guests.counts.connections_broken += broken;
            }
        }
    }

    /// A link has been down for long enough.
    pub(crate) fn notice_cut(&mut self, link: LinkId) {
        // Whoever has a connection to another has said something to it.
        let mut pairs = BTreeSet::new();
        for (host, guest) in (0..).zip(&self.guests.hosts) {
            let peers = guest.streams.iter();
            pairs.extend(peers.map(|stream| (host.min(stream.peer), host.max(stream.peer))));
        }
        for (one, other) in pairs {
            let mut crosses = |from, to| {
                let way = self.network.way((from, to), 0);
                way.contains(&link)
            };
            if crosses(one, other) || crosses(other, one) {
                self.lose_touch(one, other);
            }
        }
    }

    /// Two hosts no longer hear of each other.
    pub(crate) fn lose_touch(&mut self, one: u32, other: u32) {
        // What is up at one end only was broken, and counted, when the other noticed.
        let (here, there) = (self.lose(one, other), self.lose(other, one));
        self.guests.counts.connections_broken += here.min(there);
    }

    /// A host no longer hears of another; how many connections that broke.
    fn lose(&mut self, host: u32, missed: u32) -> u64 {
        if self.is_host_dead(host) {
            return 0;
        }
        let missed = Self::address_of(missed);
        let broken = self.programs.nic_mut(host).handle_host_unreachable(missed);
        P::follow(self, host);
        broken as u64
    }

    /// Whether a message's first byte, that would be there now, is not: it was lost before, or
    /// nobody sends or receives it.
    pub(crate) fn is_hidden(&mut self, id: MessageId) -> bool {
        if self.is_repeatable(id) && self.is_out_of_order(id) {
            return true;
        }
        let message = self.messages.get(id);
        let fate = message.fate;
        let is_silent = self.is_silent(id);
        fate == Fate::Lost || is_silent || self.has_gap(id) || self.cut_since_begun(id).is_some()
    }

    /// Whether a message before this one was lost on its reliable connection.
    fn has_gap(&self, id: MessageId) -> bool {
        let message = self.messages.get(id);
        let connection = message.header.map(|header| header.connection);
        let is_of_program = message.is_of::<P>();
        let target = self.host_of_end(message, message.target);
        let faults = self.faults().zip(connection);
        faults
            .is_some_and(|(faults, connection)| faults.has_gap((target, is_of_program, connection)))
    }

    /// A message's bytes have moved over its way, or a hop of it: what happened to it there.
    /// Whether nothing of its VI moves until the sender has gone back.
    pub(crate) fn decide_fate(&mut self, id: MessageId, moved: &Moved) -> bool {
        let now = self.queue.now();
        let begun = self.messages.get(id).begun;
        // What is sent again is sent as it was.
        let is_repeatable = self.is_repeatable(id);
        let is_there = moved.next == Next::There;
        if let Some(cut) = self.cut_since_begun(id) {
            let message = self.messages.get_mut(id);
            let was_whole = message.fate == Fate::Whole;
            message.fate = Fate::Lost;
            if is_repeatable && was_whole {
                // Of what is stored on its way nothing has come before it crosses its last hop.
                let part = if is_there {
                    (cut - begun).picoseconds() as f64 / (now - begun).picoseconds().max(1) as f64
                } else {
                    0.0
                };
                self.note_cut(id, part);
            }
        }
        let message = self.messages.get(id);
        let is_corrupt = message.fate == Fate::Corrupt && message.is_of::<P>();
        if is_corrupt && is_there && !is_repeatable {
            // Whoever does not look at the status sees it.
            let first = self.guests.sent(id).payload.first_mut();
            first.into_iter().for_each(|byte| *byte ^= 1);
        }
        is_repeatable && moved.is_gone && self.holds_line(id)
    }

    /// Keeps a message that is there now from its receiver, if it was lost or that is dead.
    pub(crate) fn withholds(&mut self, id: MessageId) -> bool {
        let message = self.messages.get(id);
        let (host, receiver, is_answer) = (message.source, message.target, message.is_answer);
        let Some(header) = message.header else {
            return true;
        };
        let (vi, fate) = (message.target_vi, message.fate);
        let is_request = message.operation == MessageOperation::Read && !is_answer;
        let is_silent = self.is_silent(id);
        if !is_silent && self.is_repeatable(id) && self.withholds_repeatable(id) {
            return true;
        }
        // A request has no bytes but its header, of which nothing can be believed.
        let is_lost = is_silent
            || matches!(fate, Fate::Lost | Fate::Gap)
            || is_request && fate == Fate::Corrupt;
        if !is_lost && (is_answer || !self.has_gap(id)) {
            self.guests.counts.corrupted += u64::from(fate == Fate::Corrupt);
            self.suffer_slowness(receiver as usize);
            return false;
        }
        self.guests.counts.lost += 1;
        let cause = if is_lost {
            self.loss_of(id)
        } else {
            cause::NO_CONNECTION
        };
        self.drop_of_program(id, cause);
        self.cut_short(id);
        if !is_answer && self.is_reliable(receiver, vi, true) {
            self.open_gap(receiver, header.connection);
        }
        self.wait_in_vain(id, self.queue.now());
        if !is_answer {
            self.leave_stream(host, receiver);
        }
        true
    }

    pub(crate) fn is_reliable(&self, host: u32, vi: ViId, is_of_program: bool) -> bool {
        let vi = self.nic(host, is_of_program).query_vi(vi);
        vi.is_ok_and(|vi| vi.attributes.reliability.is_reliable())
    }

    /// What a message has taken that is lost behind its first byte ends as the message does.
    fn cut_short(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (target, vi) = (message.target, message.target_vi);
        let Met::Receive(receive) = self.guests.sent(id).met else {
            return;
        };
        self.guests.sent(id).met = Met::Refusal(self.loss_of(id));
        if !self.is_nic_dead(target) {
            let outcome = ReceiveOutcome::CutShort { placed_bytes: 0 };
            let nic = self.programs.nic_mut(target);
            nic.finish_receive(vi, receive.work, outcome);
            P::settle(self, target, vi);
        }
    }

    /// The acknowledgement of a message, that would be there at a time, is lost on its way.
    pub(crate) fn acknowledgement_is_lost(&mut self, id: MessageId, there: Time) -> bool {
        let now = self.queue.now();
        let message = self.messages.get(id);
        let is_of_program = message.is_of::<P>();
        let (ends, flow) = self.way_back(message);
        let way = self.network.way(ends, flow);
        let Some(failures) = &mut self.failures else {
            return false;
        };
        let is_lost = failures.faults.fate(way, 1, now, there) != Fate::Whole;
        if is_lost {
            self.guests.counts.lost += u64::from(is_of_program);
            if self.is_repeatable(id) {
                self.lose_acknowledgement(id);
            } else {
                self.wait_in_vain(id, there);
            }
        }
        is_lost
    }

    /// The sender of a message waits, from some time on, for what does not come.
    fn wait_in_vain(&mut self, id: MessageId, from: Time) {
        let timeout = self.config.detection.transport_timeout;
        let (host, vi) = self.poster(id);
        let is_of_program = self.messages.get(id).is_of::<P>();
        if self.is_up_still(id, host, vi) && self.is_reliable(host, vi, is_of_program) {
            let time = from.saturating_add(timeout);
            self.queue.schedule(time, Event::GivesUp(id));
        } else {
            self.remove_message(id);
        }
    }
}
