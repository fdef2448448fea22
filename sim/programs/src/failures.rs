//! What follows from a fault: who notices it when, and what the semantics is told.
//!
//! ```text
//!  a message:   FlowEnds: its fate -> Arrives: withheld -> GiveUp, at the reliable levels
//!  a host:      Dies -> DeathNoticed: unreachable, for whoever had to do with it
//!  a link:      CutNoticed: unreachable, for the hosts at both ends of each way over it
//!  a control message that does not get through: LostTouch: unreachable, at both its ends
//! ```
//!
//! Nothing here is reached in a simulation without faults.

use std::collections::BTreeSet;

use viaduct_engine::Time;
use viaduct_network::outages::parts;
use viaduct_network::{Moved, Next};
use viaduct_provider::via::{Operation, ReceiveOutcome, SendOutcome, ViId};
use viaduct_topology::LinkId;

use crate::cluster::Cluster;
use crate::event::Event;
use crate::host::{Host, address_of};
use crate::message::{Matched, Message, MessageId};
use viaduct_cluster::faults::{Death, Fate, Faults, Slowing, Timetable};

/// Something that follows from a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Consequence {
    /// A host or its NIC dies.
    HostDies(u32),
    NicDies(u32),
    /// The agents of other hosts have missed one for long enough.
    DeathNoticed(u32),
    /// A link has been down for long enough.
    CutNoticed(LinkId),
    /// What the agent of one host says to another's has not got through for long enough.
    LostTouch(u32, u32),
    /// The sender of a message that was lost has waited for long enough.
    GiveUp(MessageId),
    /// The sender of a VI goes back to what was lost, if it has not since.
    Again(u32, ViId, u32),
    /// The answer of a remote read goes once more.
    AnswerAgain(MessageId),
}

/// What is expected to follow, by number; free numbers are used again.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    slots: Vec<Option<Consequence>>,
    free: Vec<u32>,
}

impl Expected {
    fn insert(&mut self, consequence: Consequence) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[number as usize] = Some(consequence);
        number
    }

    fn take(&mut self, number: u32) -> Option<Consequence> {
        let taken = self.slots.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(taken)
    }
}

impl Cluster {
    /// Puts the faults of the configuration where they will strike.
    pub(crate) fn expect_faults(&mut self) {
        if self.config.faults.is_empty() {
            return;
        }
        let config = &self.config;
        let made = Faults::new(
            &config.faults,
            &config.topology,
            config.detection,
            config.seed,
        );
        let (faults, Timetable { deaths, slowings }) = match made {
            Ok(made) => made,
            Err(error) => panic!("{error}"),
        };
        let notice = faults.detection.host_timeout;
        for (link, from) in faults.outages.lasting(notice) {
            let noticed = Consequence::CutNoticed(LinkId(link));
            self.follows_at(from.saturating_add(notice), noticed);
        }
        for Death { host, is_host, at } in deaths {
            self.follows_at(
                at,
                if is_host {
                    Consequence::HostDies(host)
                } else {
                    Consequence::NicDies(host)
                },
            );
        }
        for (host, slowing) in slowings {
            self.host(host).slowings.push(slowing);
        }
        self.faults = Some(Box::new(faults));
    }

    /// Lets something follow at a time.
    pub(crate) fn follows_at(&mut self, time: Time, consequence: Consequence) {
        let number = self.expected.insert(consequence);
        self.queue.schedule(time, Event::Follows(number).into());
    }

    pub(crate) fn handle_consequence(&mut self, number: u32) {
        let Some(consequence) = self.expected.take(number) else {
            return;
        };
        match consequence {
            Consequence::HostDies(host) => self.kill(host, true),
            Consequence::NicDies(host) => self.kill(host, false),
            Consequence::DeathNoticed(host) => self.handle_death_noticed(host),
            Consequence::CutNoticed(link) => self.handle_cut_noticed(link),
            Consequence::LostTouch(from, to) => self.lose_touch(from, to),
            Consequence::GiveUp(message) => self.give_up(message),
            Consequence::Again(host, vi, epoch) => self.send_again(host, vi, epoch),
            Consequence::AnswerAgain(message) => self.begin(message),
        }
    }

    /// A host dies, or its NIC alone.
    pub(crate) fn kill(&mut self, host: u32, is_host: bool) {
        let detection = self.config.detection;
        let config = &self.config;
        let none = || Box::new(Faults::none(&config.topology, detection, config.seed));
        let faults = self.faults.get_or_insert_with(none);
        let had_nic = !faults.is_nic_dead(host);
        if !faults.bury(host, is_host) {
            return;
        }
        if had_nic {
            // What is queued there is never started; the program of a dead host sees nothing of it.
            self.host(host).nic().handle_catastrophe();
            let noticed = self.now() + detection.host_timeout;
            self.follows_at(noticed, Consequence::DeathNoticed(host));
        }
        if is_host {
            let handler = self.host(host).handler;
            self.tasks.bury(host, handler);
        } else {
            self.follow(host, None);
        }
    }

    /// Whether a host is dead: its programs neither run nor are told anything.
    #[inline]
    pub(crate) fn is_dead(&self, host: u32) -> bool {
        self.faults
            .as_ref()
            .is_some_and(|faults| faults.is_host_dead(host))
    }

    /// Whether a host's NIC is dead, or all of it.
    fn is_silent(&self, host: u32) -> bool {
        self.faults
            .as_ref()
            .is_some_and(|faults| faults.is_nic_dead(host))
    }

    fn handle_death_noticed(&mut self, dead: u32) {
        let own: BTreeSet<u32> = self.host(dead).streams.iter().map(|s| s.peer).collect();
        for host in 0..self.hosts.len() as u32 {
            let streams = &self.hosts[host as usize].streams;
            if own.contains(&host) || streams.iter().any(|stream| stream.peer == dead) {
                let broken = self.miss(host, dead);
                self.counts.connections_broken += broken;
            }
        }
    }

    fn handle_cut_noticed(&mut self, link: LinkId) {
        // Whoever has a connection to another has said something to it.
        let mut pairs = BTreeSet::new();
        for host in 0..self.hosts.len() as u32 {
            let peers = self.hosts[host as usize].streams.iter();
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
    fn lose_touch(&mut self, one: u32, other: u32) {
        // What is up at one end only was broken, and counted, when the other noticed.
        let (here, there) = (self.miss(one, other), self.miss(other, one));
        self.counts.connections_broken += here.min(there);
    }

    /// A host no longer hears of another; how many connections that broke.
    fn miss(&mut self, host: u32, missed: u32) -> u64 {
        if self.is_dead(host) {
            return 0;
        }
        let missed = address_of(missed);
        let broken = self.host(host).nic().handle_host_unreachable(missed);
        self.follow(host, None);
        broken as u64
    }

    /// When a message about connections can leave that is sent now; `None` if it never gets
    /// through, which both ends will notice.
    pub(crate) fn control_leaves(&mut self, from: u32, to: u32) -> Option<Time> {
        let now = self.now();
        let way = self.network.way((from, to), 0);
        let Some(faults) = &self.faults else {
            return Some(now);
        };
        let limit = now.saturating_add(faults.detection.host_timeout);
        let leaves = faults.outages.up_again(parts(way), now);
        if faults.is_nic_dead(from) || faults.is_nic_dead(to) || leaves >= limit {
            self.follows_at(limit, Consequence::LostTouch(from, to));
            return None;
        }
        Some(leaves)
    }

    /// Whether a message about connections that is there now is lost: one of its ends died.
    pub(crate) fn control_is_lost(&self, from: u32, to: u32) -> bool {
        self.is_silent(from) || self.is_silent(to)
    }

    /// A message's bytes begin to move: whether its links lose or corrupt it. Bytes on the wire if
    /// they are a part of it.
    pub(crate) fn draw_fate(&mut self, id: MessageId, (from, to): (u32, u32)) -> Option<f64> {
        if self.is_repeatable(id) {
            return self.draw_part(id, (from, to));
        }
        let flow = self.messages.flow(id);
        let way = self.network.way((from, to), flow);
        if let Some(faults) = &mut self.faults
            && let Some(message) = self.messages.get(id)
        {
            let frames = self.config.links.frame.count(message.moving_bytes());
            (message.fate, _) = faults.draw(way, frames);
        }
        None
    }

    /// Whether a message's first byte, that would be there now, is not: it was lost before, or
    /// nobody sends or receives it.
    pub(crate) fn is_hidden(&mut self, id: MessageId) -> bool {
        if self.is_repeatable(id) && self.is_out_of_order(id) {
            return true;
        }
        let Some(message) = self.messages.get(id) else {
            return true;
        };
        let (host, target, begun) = (message.host, message.target, message.begun);
        let (connection, fate) = (message.peer.connection, message.fate);
        let is_cut = self.cut_since(id, begun).is_some();
        let faults = self.faults.as_ref();
        fate == Fate::Lost
            || faults.is_some_and(|faults| {
                is_cut
                    || faults.is_nic_dead(host)
                    || faults.is_nic_dead(target)
                    || faults.has_gap(target, connection)
            })
    }

    /// A message's bytes have moved over its way, or a hop of it: what happened to it there.
    /// Whether nothing of its VI moves until the sender has gone back.
    pub(crate) fn decide_fate(&mut self, id: MessageId, moved: &Moved) -> bool {
        let now = self.now();
        let Some(message) = self.messages.get(id) else {
            return false;
        };
        let begun = message.begun;
        // What is sent again is sent as it was.
        let is_repeatable = self.is_repeatable(id);
        let is_there = moved.next == Next::There;
        if let Some(cut) = self.cut_since(id, begun)
            && let Some(message) = self.messages.get(id)
        {
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
        if let Some(message) = self.messages.get(id)
            && message.fate == Fate::Corrupt
            && is_there
            && !is_repeatable
        {
            // Whoever does not look at the status sees it.
            let first = self.messages.payload(id).first_mut();
            first.into_iter().for_each(|byte| *byte ^= 1);
        }
        is_repeatable && moved.is_gone && self.holds_line(id)
    }

    /// When a link that a message crosses now went down, since its bytes began to move there.
    fn cut_since(&mut self, id: MessageId, begun: Time) -> Option<Time> {
        let now = self.now();
        let message = self.messages.get(id)?;
        let ends = if message.is_answer {
            (message.target, message.host)
        } else {
            (message.host, message.target)
        };
        let (links, flow) = (message.links, message.vi.index());
        let way = crossed(self.network.way(ends, flow), links);
        self.faults.as_ref()?.cut(way, begun, now)
    }

    /// Keeps a message that is there now from its receiver, if it was lost or that is dead.
    pub(crate) fn withholds(&mut self, id: MessageId) -> bool {
        let Some(message) = self.messages.get(id) else {
            return false;
        };
        let (host, target, is_answer) = (message.host, message.target, message.is_answer);
        let (peer, fate) = (message.peer, message.fate);
        let is_request = message.header.operation == Operation::RdmaRead && !is_answer;
        let receiver = if is_answer { host } else { target };
        let (is_silent, now) = (self.is_silent(host) || self.is_silent(target), self.now());
        if !is_silent && self.is_repeatable(id) && self.withholds_repeatable(id) {
            return true;
        }
        // A request has no bytes but its header, of which nothing can be believed.
        let is_lost = is_silent
            || matches!(fate, Fate::Lost | Fate::Gap)
            || is_request && fate == Fate::Corrupt;
        let Some(faults) = &mut self.faults else {
            return false;
        };
        let is_behind = !is_answer && faults.has_gap(target, peer.connection);
        if !is_lost && !is_behind {
            self.counts.corrupted += u64::from(fate == Fate::Corrupt);
            let state = self.host(receiver);
            let slowings = state.slowings.iter();
            let spans = slowings.map(|slowing| slowing.per_message(now));
            let span = spans.fold(Time::ZERO, |sum, span| sum + span);
            if span > Time::ZERO {
                state.work(now, span);
            }
            return false;
        }
        self.counts.lost += 1;
        self.cut_short(id);
        let is_reliable = self
            .host(target)
            .nic()
            .query_vi(peer.vi)
            .is_ok_and(|vi| vi.attributes.reliability.is_reliable());
        if is_reliable
            && !is_answer
            && let Some(faults) = &mut self.faults
        {
            faults.open_gap(target, peer.connection);
        }
        self.wait_in_vain(id, now);
        if !is_answer {
            self.leave_stream(host, target);
        }
        true
    }

    /// What a message has taken that is lost behind its first byte ends as the message does.
    fn cut_short(&mut self, id: MessageId) {
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (target, peer) = (message.target, message.peer.vi);
        let Matched::Receive(receive) = message.matched else {
            return;
        };
        message.matched = Matched::Dropped;
        if !self.is_silent(target) {
            let outcome = ReceiveOutcome::CutShort { placed_bytes: 0 };
            let nic = self.host(target).nic();
            nic.finish_receive(peer, receive.work, outcome);
            self.settle(target, peer);
        }
    }

    /// The acknowledgement of a message, that would be there at a time, is lost on its way.
    pub(crate) fn acknowledgement_is_lost(&mut self, id: MessageId, there: Time) -> bool {
        let now = self.now();
        let Some(message) = self.messages.get(id) else {
            return false;
        };
        let (host, target) = (message.host, message.target);
        let flow = message.vi.index();
        let way = self.network.way((target, host), flow);
        let Some(faults) = &mut self.faults else {
            return false;
        };
        let is_lost = faults.fate(way, 1, now, there) != Fate::Whole;
        if is_lost {
            self.counts.lost += 1;
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
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (host, vi, peer) = (message.host, message.vi, message.peer);
        let nic = self.host(host).nic();
        let waits = nic.peer(vi) == Some(peer)
            && nic
                .query_vi(vi)
                .is_ok_and(|vi| vi.attributes.reliability.is_reliable());
        if waits {
            self.follows_at(from.saturating_add(timeout), Consequence::GiveUp(id));
        } else {
            self.messages.release(id);
        }
    }

    /// The sender's NIC gives a message up, which breaks its connection.
    pub(crate) fn give_up(&mut self, id: MessageId) {
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (host, vi, work, peer) = (message.host, message.vi, message.work, message.peer);
        let nic = self.host(host).nic();
        // It may have ended otherwise meanwhile, and the VI be on another connection.
        if nic.peer(vi) == Some(peer) {
            let failed = SendOutcome::TransportFailed;
            // What had left was complete at reliable delivery: the connection breaks all the same.
            if !nic.finish_send(vi, work, failed) {
                nic.handle_transport_failure(vi);
            }
            self.settle(host, vi);
        }
        self.messages.release(id);
    }
}

/// Those links of a way that a message crosses at once.
pub(crate) fn crossed(way: &[LinkId], (first, end): (u16, u16)) -> &[LinkId] {
    let end = usize::from(end).min(way.len());
    &way[usize::from(first).min(end)..end]
}

impl Message {
    /// What its receive is told.
    pub(crate) const fn outcome(&self) -> ReceiveOutcome {
        match self.fate {
            Fate::Corrupt => ReceiveOutcome::Corrupt,
            Fate::Whole | Fate::Lost | Fate::Gap => ReceiveOutcome::Placed,
        }
    }

    /// Bytes that it moves now: a read's request has none.
    pub(crate) fn moving_bytes(&self) -> u64 {
        if self.header.operation == Operation::RdmaRead && !self.is_answer {
            return 0;
        }
        self.header.length.into()
    }
}

impl Host {
    /// How long work takes that begins at some time.
    #[inline]
    pub(crate) fn stretched(&self, begins: Time, span: Time) -> Time {
        let stretch = |span, slowing: &Slowing| slowing.stretch(begins, span);
        self.slowings.iter().fold(span, stretch)
    }
}
