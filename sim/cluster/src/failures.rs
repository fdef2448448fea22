//! What follows where something may fail: links that lose or damage messages, hosts that die,
//! connections that break.
//!
//! ```text
//!  a message:  begins to move: its fate is drawn -> its flow ends: was a link cut meanwhile?
//!              -> HeadArrives, TailArrives: withheld from its receiver -> GivesUp, if reliable
//!  a host:     Dies -> DeathNoticed: its connections break
//!  a link:     CutNoticed: connections over it break
//! ```
//!
//! A message that its receiver does not get is *dropped*, with its cause. A connection that broke
//! is set up again when a message needs it; a message that needs one that cannot be set up is
//! dropped when it is posted.
//!
//! A frame that a switch has no room for is a loss as one that a link loses is, but nobody knows of
//! it before: a message hears of it when its first byte should be there, or its last
//! ([`Cluster::note_queue_loss`]).
//!
//! Nothing here is reached in a run whose delivery is unreliable and in which nothing goes wrong.

use std::collections::BTreeSet;

use viaduct_core::{ConnectionNumber, ReceiveOutcome, ReliabilityLevel, SendOutcome, ViId, WorkId};
use viaduct_engine::Time;
use viaduct_network::outages::parts;
use viaduct_network::{JourneyId, Moved, Next, QueueLoss};
use viaduct_topology::LinkId;

use crate::adapters::Numbering;
use crate::cluster::Cluster;
use crate::config::{Arrivals, ClusterConfig};
use crate::connect::drawn_address;
use crate::connections::Connection;
use crate::error::RunError;
use crate::event::Event;
use crate::faults::{Death, Fate, Faults, Timetable};
use crate::host::{BlockedPost, Processor};
use crate::message::{Ends, MessageId};
use crate::programs::Programs;
use crate::programs::guest::Slots;
use crate::result::Warning;
use crate::retransmission::{Direction, Retransmission};
use crate::workload::MessageOperation;

/// Causes of drops, beside those that the semantics names.
pub(crate) mod cause {
    /// A link lost the message, or was cut, or one of its hosts was dead.
    pub(crate) const LOST: &str = "lost";
    /// The queue of a link was full when one of its frames came there.
    pub(crate) const QUEUE_FULL: &str = "queue_full";
    /// A link damaged it.
    pub(crate) const CORRUPTED: &str = "corrupted";
    /// Its connection was broken and could not be set up, or broke before it was sent.
    pub(crate) const NO_CONNECTION: &str = "no_connection";
}

/// What may fail in a run, and what did.
#[derive(Debug)]
pub(crate) struct Failures {
    pub(crate) faults: Faults,
    deaths: Vec<Death>,
    /// Connections that broke.
    pub(crate) connections_broken: u64,
    pub(crate) retransmission: Retransmission,
    /// What is expected to follow.
    expected: Slots<Consequence>,
}

/// Something that follows from a fault, and names more than an event can.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Consequence {
    /// What the agent of one host says to another's has not got through for long enough.
    LostTouch(u32, u32),
    /// A sender goes back to what was lost, if it has not since.
    Again(Direction, u32),
    /// The answer of a remote read goes once more.
    AnswerAgain(MessageId),
}

impl Consequence {
    /// Whether programs may hear of it.
    const fn is_of_programs(self) -> bool {
        match self {
            Self::LostTouch(..) | Self::AnswerAgain(_) => true,
            Self::Again(of, _) => of.is_of_program(),
        }
    }
}

impl Failures {
    /// Of a configuration; none if nothing may fail in it. Processors that are slow are told so.
    pub(crate) fn new(
        config: &ClusterConfig,
        processors: &mut [Processor],
    ) -> Result<Option<Box<Self>>, RunError> {
        if !config.may_fail() {
            return Ok(None);
        }
        let (topology, seed) = (&*config.topology, config.run.seed);
        let (mut faults, timetable) =
            Faults::new(&config.faults, topology, config.detection, seed)?;
        if config.links.buffers.may_lose() {
            faults.expect_losses();
        }
        let Timetable { deaths, slowings } = timetable;
        let numbering = Numbering::of(config);
        for (place, slowing) in slowings {
            for processor in &mut processors[numbering.processors_of(place)] {
                let slowings = processor.slowings.get_or_insert_default();
                slowings.push(slowing);
            }
        }
        Ok(Some(Box::new(Self {
            deaths,
            ..Self::none(faults)
        })))
    }

    /// Nothing is wrong yet.
    fn none(faults: Faults) -> Self {
        Self {
            faults,
            deaths: Vec::new(),
            connections_broken: 0,
            retransmission: Retransmission::default(),
            expected: Slots::default(),
        }
    }

    /// Whether hosts or their adapters die.
    pub(crate) fn has_deaths(&self) -> bool {
        !self.deaths.is_empty()
    }
}

/// The links of what crosses its way at once.
const WHOLE_WAY: (u16, u16) = (0, u16::MAX);

impl ClusterConfig {
    /// Whether a message may end in another way than to be delivered, or dropped by a receiver that
    /// has no descriptor for it.
    pub(crate) fn may_fail(&self) -> bool {
        !self.faults.is_empty()
            || self.traffic.reliability.is_reliable()
            || self.links.buffers.may_lose()
    }
}

impl<P: Programs> Cluster<P> {
    /// Schedules what goes wrong at a time that is known.
    pub(crate) fn expect_failures(&mut self) {
        let Some(failures) = &self.failures else {
            return;
        };
        let notice = failures.faults.detection.host_timeout;
        let deaths = failures.deaths.iter().zip(0..);
        let deaths = deaths.map(|(death, place)| (death.at, Event::Dies(place)));
        let cuts = failures.faults.outages.lasting(notice);
        let cuts = cuts.map(|(link, from)| (from.saturating_add(notice), Event::CutNoticed(link)));
        let expected: Vec<_> = deaths.chain(cuts).collect();
        for (time, event) in expected {
            self.guests.going += 1;
            self.expect(time, event);
        }
    }

    /// Lets something follow at a time.
    pub(crate) fn follows_at(&mut self, time: Time, consequence: Consequence) {
        if let Some(failures) = &mut self.failures {
            self.guests.going += u32::from(consequence.is_of_programs());
            let number = failures.expected.insert(consequence);
            self.queue.schedule(time, Event::Follows(number));
        }
    }

    pub(crate) fn handle_consequence(&mut self, number: u32) {
        let failures = self.failures.as_mut();
        let consequence = failures.and_then(|failures| failures.expected.take(number));
        let is_of_programs = consequence.is_some_and(Consequence::is_of_programs);
        self.guests.going -= u32::from(is_of_programs);
        match consequence {
            None => {}
            Some(Consequence::LostTouch(from, to)) => self.lose_touch(from, to),
            Some(Consequence::Again(of, epoch)) => self.send_once_more(&of, epoch),
            Some(Consequence::AnswerAgain(message)) => self.begin_transfer(message),
        }
    }

    /// Schedules what no message waits for: a run may end before.
    pub(crate) fn expect(&mut self, time: Time, event: Event<P::Event>) {
        self.queue.schedule(time, event);
        self.idle_events += 1;
    }

    pub(crate) fn faults(&self) -> Option<&Faults> {
        self.failures.as_ref().map(|failures| &failures.faults)
    }

    /// Whether the adapter of a host is dead.
    pub(crate) fn is_nic_dead(&self, host: u32) -> bool {
        self.faults().is_some_and(|faults| faults.is_nic_dead(host))
    }

    /// Whether a host is dead: its processes post nothing.
    pub(crate) fn is_dead(&self, process: u32) -> bool {
        self.is_host_dead(self.host_of(process))
    }

    /// Whether a host is dead: its programs neither run nor are told anything.
    #[inline]
    #[must_use]
    pub fn is_host_dead(&self, host: u32) -> bool {
        self.faults()
            .is_some_and(|faults| faults.is_host_dead(host))
    }

    /// Whether a wish can be posted, on a connection that is up or that is set up again; if not, it
    /// is dropped.
    pub(crate) fn may_post(&mut self, wish: &BlockedPost) -> bool {
        let (host, target_host) = (self.host_of(wish.process), self.host_of(wish.target));
        let connections = &self.processes[wish.process as usize].connections;
        let place = connections.place_of(wish.target);
        let is_up = place.is_some_and(|place| {
            let vi = connections.get(place).vi;
            self.drawn(host).peer(vi).is_some()
        });
        if is_up {
            return true;
        }
        let can_connect = !self.is_nic_dead(host)
            && !self.is_nic_dead(target_host)
            && !self.is_cut(wish.process, wish.target);
        if can_connect && place.is_none_or(|place| self.connect_again(wish, place)) {
            return true;
        }
        let id = self.messages.post(wish, Ends::NONE);
        self.drop_message(id, cause::NO_CONNECTION);
        if self.operations.is_some() {
            self.note_left(wish.number, self.queue.now());
        }
        self.messages.remove(id);
        if matches!(self.config.traffic.arrivals, Arrivals::Window(_)) {
            // It tries again when the hosts would have noticed.
            let later = self.queue.now() + self.config.detection.host_timeout;
            self.expect(later, Event::Refused(wish.process));
        }
        false
    }

    /// A process that keeps a window full may post again what could not be sent.
    pub(crate) fn handle_refused(&mut self, process: u32) {
        self.idle_events -= 1;
        let process = self.home_port(process);
        self.processes[process as usize].outstanding -= 1;
        self.post_window(process);
    }

    /// Whether a link of the way from one process to another is down now.
    fn is_cut(&mut self, process: u32, peer: u32) -> bool {
        let now = self.queue.now();
        let (ends, flow) = self.config.flow_of(process, peer);
        let way = self.network.way(ends, flow);
        let faults = self.failures.as_ref().map(|failures| &failures.faults);
        faults.is_some_and(|faults| faults.outages.up_again(parts(way), now) > now)
    }

    /// Puts new VIs in the place of those of a connection that broke.
    fn connect_again(&mut self, wish: &BlockedPost, place: u32) -> bool {
        let (process, peer) = (wish.process, wish.target);
        let (vi, peer_vi) = match self.new_vis(process, peer) {
            Ok(vis) => vis,
            Err(error) => {
                self.refuse(process, peer, &error);
                return false;
            }
        };
        let connection = self.processes[process as usize].connections.at(place);
        (connection.vi, connection.peer_vi) = (vi, peer_vi);
        connection.is_peer_ready = false;
        let connections = &mut self.processes[peer as usize].connections;
        let back = connections.place_of(process);
        let back =
            back.unwrap_or_else(|| connections.insert(process, Connection::new(peer_vi, vi)));
        let connection = connections.at(back);
        (connection.vi, connection.peer_vi) = (peer_vi, vi);
        connection.is_peer_ready = false;
        true
    }

    /// A message's bytes begin to move: what its links do to it. Bytes on the wire, if not all of
    /// it moves.
    pub(crate) fn draw_fate(&mut self, id: MessageId) -> Option<f64> {
        if self.is_repeatable(id) {
            return self.draw_part(id);
        }
        let (ends, flow) = self.ends_of(self.messages.get(id));
        let message = self.messages.get_mut(id);
        let frames = self
            .config
            .links
            .frame
            .count(message.carried_bytes().into());
        let way = self.network.way(ends, flow);
        if let Some(failures) = &mut self.failures {
            (message.fate, _) = failures.faults.draw(way, frames);
        }
        None
    }

    /// A message begins to cross its way, or its next hop.
    pub(crate) fn note_crossing(&mut self, id: MessageId, journey: JourneyId) {
        let links = self.links_crossed(journey);
        let message = self.messages.get_mut(id);
        message.begun = self.queue.now();
        message.links = links;
    }

    /// Which links of its way a transfer crosses at once.
    pub(crate) fn links_crossed(&self, journey: JourneyId) -> (u16, u16) {
        if journey == JourneyId::NONE {
            return WHOLE_WAY;
        }
        let links = self.network.links_crossed(journey);
        links.map_or(WHOLE_WAY, |it| (it.start as u16, it.end as u16))
    }

    /// When a link that a message crosses went down, since its bytes began to move there.
    pub(crate) fn cut_since_begun(&mut self, id: MessageId) -> Option<Time> {
        let message = self.messages.get(id);
        let (begun, links) = (message.begun, message.links);
        let (ends, flow) = self.ends_of(message);
        self.cut_since(begun, ends, flow, links)
    }

    /// When one of these links of a way went down first since some time.
    pub(crate) fn cut_since(
        &mut self,
        begun: Time,
        ends: (u32, u32),
        flow: u32,
        (first, end): (u16, u16),
    ) -> Option<Time> {
        let now = self.queue.now();
        let way = self.network.way(ends, flow);
        let end = usize::from(end).min(way.len());
        let crossed = &way[usize::from(first).min(end)..end];
        self.failures.as_ref()?.faults.cut(crossed, begun, now)
    }

    fn was_cut(&mut self, id: MessageId) -> bool {
        self.cut_since_begun(id).is_some()
    }

    /// Notes that a program's message to a host was lost on a reliable connection.
    pub(crate) fn open_gap(&mut self, host: u32, connection: ConnectionNumber) {
        if let Some(failures) = &mut self.failures {
            failures.faults.open_gap((host, true, connection));
        }
    }

    /// A message has moved over its way, or a hop of it. Whether it goes no further: it is lost,
    /// and was to be stored at a switch.
    pub(crate) fn ends_there(&mut self, id: MessageId, moved: &Moved) -> bool {
        if self.was_cut(id) {
            self.messages.get_mut(id).fate = Fate::Lost;
        }
        let message = self.messages.get(id);
        if message.fate != Fate::Lost {
            return false;
        }
        if let Next::AtSwitch(journey, after) = moved.next {
            self.network.give_up(journey);
            self.drop_message(id, self.loss_of(id));
            let there = self.queue.now() + after;
            self.after(self.lanes.tail, there, Event::TailArrives(id));
            return true;
        }
        // What its first byte has met is told when the last byte should be there.
        if message.receive_delay.is_some() && !message.is_dropped {
            self.drop_message(id, self.loss_of(id));
        }
        false
    }

    /// Whether the adapter of one of a message's hosts is dead.
    pub(crate) fn is_silent(&self, id: MessageId) -> bool {
        let message = self.messages.get(id);
        let ends = [message.source, message.target];
        ends.into_iter()
            .any(|end| self.is_nic_dead(self.host_of_end(message, end)))
    }

    /// Keeps a message that is there from its receiver, if it was lost, or one of its hosts is
    /// dead, or a message before it was lost on its reliable connection; it is dropped then.
    pub(crate) fn withhold(&mut self, id: MessageId) -> bool {
        let message = self.messages.get(id);
        if message.is_dropped {
            return true;
        }
        let target_host = self.host_of(message.target);
        let connection = message.header.map(|header| header.connection);
        let is_moving = message.tail_arrives == Time::MAX;
        let is_answer = message.is_answer;
        // A request has no bytes but its header, of which nothing can be believed.
        let is_request = message.operation == MessageOperation::Read && !is_answer;
        let is_lost = message.fate == Fate::Lost
            || is_request && message.fate == Fate::Corrupt
            || self.is_silent(id)
            || is_moving && self.was_cut(id);
        let Some(failures) = &mut self.failures else {
            return false;
        };
        let is_reliable = self.config.traffic.reliability.is_reliable();
        let Some(connection) = connection.filter(|_| is_reliable && !is_answer) else {
            if is_lost {
                self.messages.get_mut(id).fate = Fate::Lost;
                self.drop_message(id, self.loss_of(id));
            }
            return is_lost;
        };
        if is_lost {
            failures.faults.open_gap((target_host, false, connection));
            self.messages.get_mut(id).fate = Fate::Lost;
            self.drop_message(id, self.loss_of(id));
        } else if failures.faults.has_gap((target_host, false, connection)) {
            self.drop_message(id, cause::NO_CONNECTION);
        } else {
            return false;
        }
        true
    }

    /// Whether the receiver's adapter takes nothing for the first byte of a message, which would be
    /// there now. If its adapter does not send it again, it is dropped then.
    pub(crate) fn withholds_head(&mut self, id: MessageId) -> bool {
        if !self.is_to_come_again(id) {
            return self.withhold(id);
        }
        self.messages.get(id).receive_work.is_some() || self.is_hidden(id)
    }

    /// Whether a message is of those that are not dropped when they are lost.
    pub(crate) fn is_to_come_again(&mut self, id: MessageId) -> bool {
        !self.messages.get(id).is_dropped && self.is_repeatable(id)
    }

    /// Whether nothing follows from the last byte of a message, which would be there now, since it
    /// is to be sent again. One that is lost is dropped.
    pub(crate) fn withholds_tail(&mut self, id: MessageId) -> bool {
        if self.is_silent(id) || !self.is_to_come_again(id) {
            self.withhold(id);
            return false;
        }
        self.withholds_repeatable(id)
    }

    /// A message has started: its adapter numbers it, and its sender may await that it is heard of.
    pub(crate) fn prepare_for_failures(&mut self, id: MessageId) {
        let level = self.config.traffic.reliability;
        let message = self.messages.get_mut(id);
        message.is_awaited |= level == ReliabilityLevel::ReliableReception;
        self.number(id);
    }

    /// Frames of a message were lost in queues: of those that were to be there by now its first,
    /// or any of them.
    pub(crate) fn note_queue_loss(&mut self, id: MessageId, moved: &Moved, loss: QueueLoss) {
        let is_first = matches!(moved.next, Next::Head(_));
        if self.is_repeatable(id) {
            return self.note_frames_lost(id, is_first, loss);
        }
        let message = self.messages.get_mut(id);
        message.fate = Fate::Lost;
        message.met_full_queue = true;
        let message = self.messages.get(id);
        let connection = message.header.map(|header| header.connection);
        let is_reliable = self.config.traffic.reliability.is_reliable();
        if !message.is_of::<P>()
            && !message.is_answer
            && is_reliable
            && let (Some(connection), Some(failures)) = (connection, &mut self.failures)
        {
            // Nothing behind it is taken on its connection.
            let host = message.target / self.processes_per_host;
            failures.faults.open_gap((host, false, connection));
        }
    }

    /// Why a message is lost.
    pub(crate) fn loss_of(&self, id: MessageId) -> &'static str {
        match self.messages.get(id).met_full_queue {
            true => cause::QUEUE_FULL,
            false => cause::LOST,
        }
    }

    /// Counts a message as dropped.
    pub(crate) fn drop_message(&mut self, id: MessageId, cause: &'static str) {
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        message.is_dropped = true;
        let message = self.messages.get(id);
        let (source, target) = message.ends_as_posted();
        let hosts = (self.host_of(source), self.host_of(target));
        let queued = message.queued();
        self.accounting.dropped(message, hosts, cause, queued, now);
        if let Some(operations) = &mut self.operations {
            operations.note_lost(message.number);
        }
    }

    /// A message that was posted is not sent: its connection broke before.
    pub(crate) fn end_unsent(&mut self, id: MessageId) {
        self.drop_message(id, cause::NO_CONNECTION);
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        message.is_awaited = false;
        let process = message.source;
        let host = self.host_of(process);
        self.send_again(process, id, now);
        self.remove_message(id);
        self.free_buffer(host);
    }

    /// How a message that is placed now ends at its receiver.
    pub(crate) fn outcome(&mut self, id: MessageId) -> ReceiveOutcome {
        let message = self.messages.get(id);
        if message.is_dropped {
            return ReceiveOutcome::CutShort { placed_bytes: 0 };
        }
        if message.fate == Fate::Corrupt {
            self.drop_message(id, cause::CORRUPTED);
            return ReceiveOutcome::Corrupt;
        }
        ReceiveOutcome::Placed
    }

    /// The process that would take a message now is dead.
    #[cold]
    pub(crate) fn miss_message(&mut self, id: MessageId) {
        if !self.messages.get(id).is_dropped {
            self.drop_message(id, cause::LOST);
        }
        self.remove_message(id);
    }

    /// A receive has ended, unless its connection broke before: its sender may hear of it, and its
    /// host's processor pays for it.
    pub(crate) fn placed(&mut self, id: MessageId, host: u32, is_placed: bool) {
        if !is_placed && !self.messages.get(id).is_dropped {
            self.drop_message(id, cause::NO_CONNECTION);
        }
        self.suffer_slowness(self.target_processor(host, id));
        let message = self.messages.get_mut(id);
        if !message.is_dropped && message.is_awaited {
            message.references += 1;
            self.acknowledge(id);
        }
        self.carry_breaks(host);
    }

    /// A processor's host has a message for it, which takes it longer if it is slow.
    pub(crate) fn suffer_slowness(&mut self, processor: usize) {
        let now = self.queue.now();
        let processor = &mut self.processors[processor];
        if let Some(slowings) = &processor.slowings {
            let spans = slowings.iter().map(|slowing| slowing.per_message(now));
            let span = spans.fold(Time::ZERO, |sum, span| sum + span);
            if span > Time::ZERO {
                processor.work(now, span);
            }
        }
    }

    pub(crate) fn handle_acknowledgement(&mut self, id: MessageId) {
        if self.messages.get(id).is_of::<P>() {
            return self.acknowledged_of_program(id);
        }
        let message = self.messages.get_mut(id);
        message.is_awaited = false;
        let (process, vi, work) = (message.source, message.source_vi, message.send_work);
        let host = self.host_of(process);
        if let Some(work) = work {
            self.drawn_mut(host).handle_acknowledgement(vi, work);
        }
        self.hear(id);
        self.remove_message(id);
    }

    /// The sender of a message that it awaited hears of it: its buffer is free.
    pub(crate) fn hear(&mut self, id: MessageId) {
        let (process, _) = self.messages.get(id).ends_as_posted();
        self.follow_buffer(id);
        self.send_again(process, id, self.queue.now());
        self.free_buffer(self.host_of(process));
    }

    /// A message that is dropped has ended at its receiver: the sender of one that was lost on a
    /// reliable connection waits for what does not come.
    pub(crate) fn await_in_vain(&mut self, id: MessageId) {
        let is_reliable = self.config.traffic.reliability.is_reliable();
        let message = self.messages.get_mut(id);
        if is_reliable && message.fate == Fate::Lost {
            message.references += 1;
            let timeout = self.config.detection.transport_timeout;
            let time = self.queue.now().saturating_add(timeout);
            self.queue.schedule(time, Event::GivesUp(id));
        }
    }

    /// The adapter that sent a message gives it up, which breaks its connection.
    pub(crate) fn give_up(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (work, is_of_program) = (message.send_work, message.is_of::<P>());
        let (host, vi) = self.poster(id);
        let is_up = self.is_up_still(id, host, vi);
        // It may have broken in another way meanwhile, and the VI be on another connection.
        if is_up {
            let nic = self.nic_mut(host, is_of_program);
            let failed = SendOutcome::TransportFailed;
            // What had left was complete at reliable delivery: the connection breaks all the same.
            if !work.is_some_and(|work| nic.finish_send(vi, work, failed)) {
                nic.handle_transport_failure(vi);
            }
            if is_of_program {
                P::settle(self, host, vi);
            } else {
                self.carry_breaks(host);
            }
        }
        self.remove_message(id);
    }

    /// Whether the connection that a message took is up at its sender.
    pub(crate) fn is_up_still(&self, id: MessageId, host: u32, vi: ViId) -> bool {
        let message = self.messages.get(id);
        let peer = self.nic(host, message.is_of::<P>()).peer(vi);
        if message.is_of::<P>() {
            return peer.is_some() && peer == self.guests.sent[id.0 as usize].peer;
        }
        let connection = message.header.map(|header| header.connection);
        peer.map(|peer| peer.connection) == connection
    }

    /// Names of a message that are gone; whether there are others.
    pub(crate) fn is_named_still(&mut self, id: MessageId) -> bool {
        let message = self.messages.get_mut(id);
        message.references -= 1;
        if message.references > 0 {
            return true;
        }
        if message.is_awaited {
            // Nobody will tell its sender.
            message.is_awaited = false;
            self.hear(id);
        }
        false
    }

    /// Tells the other ends of drawn traffic's connections of a host that they broke, in no time.
    pub(crate) fn carry_breaks(&mut self, host: u32) {
        if self.drawn(host).is_silent() {
            return;
        }
        let (now, from) = (self.timestamp(), drawn_address(host));
        let mut told = 0;
        while let Some(transmit) = self.drawn_mut(host).poll_transmit() {
            told += 1;
            let to = transmit.to.get() as u32;
            if !self.is_nic_dead(to) {
                let nic = &mut self.nics[to as usize];
                nic.handle_connection_message(from, transmit.message, now);
                while nic.poll_event().is_some() {}
            }
        }
        let nic = &mut self.nics[host as usize];
        while nic.poll_event().is_some() {}
        if let Some(failures) = &mut self.failures {
            failures.connections_broken += told;
        }
        self.release_overtakers();
    }

    /// Messages that have overtaken others whose connection broke wait for them no longer.
    fn release_overtakers(&mut self) {
        let is_broken = |(host, vi, _): &(u32, ViId, WorkId)| {
            let nic = self.drawn(*host);
            nic.peer(*vi).is_none()
        };
        let broken = self.overtakers.keys().find(|place| is_broken(place));
        let Some(id) = broken
            .copied()
            .and_then(|place| self.overtakers.remove(&place))
        else {
            return;
        };
        self.handle_tail(id);
        self.release_overtakers();
    }

    /// A host or its NIC dies, as was to be expected.
    pub(crate) fn handle_death(&mut self, place: u32) {
        self.idle_events -= 1;
        self.guests.going -= 1;
        if let Some(failures) = &self.failures {
            let Death { host, is_host, .. } = failures.deaths[place as usize];
            self.kill(host, is_host);
        }
    }

    /// A host dies, with all its NICs, or one NIC alone.
    pub fn kill(&mut self, host: u32, is_host: bool) {
        let places = match is_host {
            true => self.places_with(host),
            false => host..host + 1,
        };
        for place in places {
            self.kill_at(place, is_host);
        }
    }

    /// A host dies as far as one of its places is concerned, or the NIC there alone.
    fn kill_at(&mut self, host: u32, is_host: bool) {
        let (detection, seed) = (self.config.detection, self.config.run.seed);
        let topology = &self.config.topology;
        let none = || Box::new(Failures::none(Faults::none(topology, detection, seed)));
        let faults = &mut self.failures.get_or_insert_with(none).faults;
        let had_nic = !faults.is_nic_dead(host);
        if !faults.bury(host, is_host) {
            return;
        }
        if had_nic {
            // What is queued there is never started; the programs of a dead host see nothing of it.
            if P::EXIST {
                self.programs.nic_mut(host).handle_catastrophe();
            }
            if let Some(nic) = self.nics.get_mut(host as usize) {
                nic.handle_catastrophe();
                while nic.poll_event().is_some() {}
            }
            let noticed = self.queue.now() + detection.host_timeout;
            self.guests.going += 1;
            self.expect(noticed, Event::DeathNoticed(host));
            self.release_overtakers();
        }
        P::died(self, host, is_host);
    }

    /// The other hosts give their connections to a dead one up.
    pub(crate) fn handle_death_noticed(&mut self, dead: u32) {
        self.idle_events -= 1;
        self.guests.going -= 1;
        if P::EXIST {
            self.notice_death(dead);
        }
        let hosts = self.nics.len() as u32;
        for host in (0..hosts).filter(|host| *host != dead) {
            self.miss(host, dead);
        }
    }

    /// A link has been down for long enough: connections over it are given up at both ends.
    pub(crate) fn handle_cut_noticed(&mut self, link: LinkId) {
        self.idle_events -= 1;
        self.guests.going -= 1;
        if P::EXIST {
            self.notice_cut(link);
        }
        let mut pairs = BTreeSet::new();
        for process in 0..self.processes.len() as u32 {
            let one = self.host_of(process);
            let peers: Vec<u32> = self.processes[process as usize]
                .connections
                .peers()
                .collect();
            for other in peers.into_iter().map(|peer| self.host_of(peer)) {
                pairs.insert((one.min(other), one.max(other)));
            }
        }
        for (one, other) in pairs {
            let mut crosses = |ends| self.network.way(ends, 0).contains(&link);
            if crosses((one, other)) || crosses((other, one)) {
                self.miss(one, other);
                self.miss(other, one);
            }
        }
    }

    /// A host no longer hears of another: those of drawn traffic break at its end.
    fn miss(&mut self, host: u32, missed: u32) {
        if self.is_nic_dead(host) {
            return;
        }
        let nic = &mut self.nics[host as usize];
        let broken = nic.handle_host_unreachable(drawn_address(missed));
        while nic.poll_event().is_some() {}
        if let Some(failures) = &mut self.failures {
            failures.connections_broken += broken as u64;
        }
        self.release_overtakers();
    }

    /// What the user should know of what failed.
    pub(crate) fn failure_warnings(&self) -> Vec<Warning> {
        let Some(failures) = &self.failures else {
            return Vec::new();
        };
        let texts = [
            (
                cause::LOST,
                "were lost on a link that loses or was down, or with a host that died",
            ),
            (
                cause::QUEUE_FULL,
                "were lost since the queue of a link was full (links.buffer)",
            ),
            (
                cause::CORRUPTED,
                "arrived damaged: their receives completed in error",
            ),
            (
                cause::NO_CONNECTION,
                "had no connection: it was broken, or could not be set up",
            ),
        ];
        let drops = self.accounting.drops();
        let mut warnings = Vec::new();
        for (cause, text) in texts {
            let of_cause = drops.iter().filter(|drops| drops.cause == cause);
            let (count, first) = of_cause.fold((0, Time::MAX), |(count, first), drops| {
                (count + drops.count, first.min(drops.first))
            });
            if count > 0 {
                warnings.push(Warning {
                    text: format!("{count} messages {text}, the first at {first}"),
                    help: None,
                });
            }
        }
        let resent = failures.retransmission.resent;
        if resent > 0 {
            warnings.push(Warning {
                text: format!("{resent} messages, or what was left of them, were sent again"),
                help: None,
            });
        }
        if failures.connections_broken > 0 {
            warnings.push(Warning {
                text: format!(
                    "{} ends of connections broke; each connection was set up again, in no time, \
                     for the next message that needed it",
                    failures.connections_broken
                ),
                help: None,
            });
        }
        warnings
    }

    /// Whether a VI may be given a receive: it is connected.
    pub(crate) fn takes_receives(&self, host: u32, vi: ViId) -> bool {
        self.failures.is_none() || self.drawn(host).peer(vi).is_some()
    }
}
