//! What is known of an application that is carried out, whoever carries its messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_hardware::{STAGES, Stage};
use viaduct_operations::{
    After, Dependencies, Graph, Kind, Matching, Misfits, NAMES_MAX, Operation, OperationId, Stalled,
};

use super::account::Rank;
use super::causes::{Activity, Causes, Leg, Timed};
use super::{Part, Role, Way};
use crate::accounting::AROUND;
use crate::config::ClusterConfig;
use crate::why::{MessageName, Record, Requests};
use crate::workload::{Application, MessageOperation, Places};

/// The moments of a message between endpoints, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// The processor begins to post it.
    pub post: Time,
    /// It has been posted.
    pub posted: Time,
    /// It is in the queue of its receiver.
    pub came: Time,
    /// The processor begins to take it.
    pub take: Time,
    /// It has been taken.
    pub taken: Time,
}

impl Moments {
    /// Picoseconds in each stage of a message that was wanted at `begin`.
    pub(crate) fn stages(&self, begin: Time) -> [u64; STAGES] {
        Self::between(
            begin,
            [
                (Stage::SenderProcessor, self.post),
                (Stage::Post, self.posted),
                (Stage::Network, self.came),
                (Stage::ReceiverProcessor, self.take),
                (Stage::Reap, self.taken),
            ],
        )
    }

    /// Picoseconds in each stage, of which each ends at a time, the first begins at one, and the
    /// others where that before them ends.
    pub(crate) fn between<const N: usize>(begin: Time, ends: [(Stage, Time); N]) -> [u64; STAGES] {
        let mut stages = [0; STAGES];
        let mut reached = begin;
        for (stage, end) in ends {
            stages[stage as usize] = end.saturating_sub(reached).picoseconds();
            reached = reached.max(end);
        }
        stages
    }
}

/// How far an application is: what is free, what matches what, and where the time of ranks went.
#[derive(Debug)]
pub struct Operations {
    pub(super) application: Arc<Application>,
    pub(crate) places: Places,
    pub(super) dependencies: Dependencies,
    pub(super) matching: Matching,
    /// By the number of a message.
    pub(super) parts: Vec<Part>,
    /// What is free and has not begun.
    pub(super) free: Vec<(u32, Kind, OperationId)>,
    pub(super) is_beginning: bool,
    /// The receive of each rendezvous whose bytes are to come.
    pub(super) cleared: BTreeMap<OperationId, OperationId>,
    /// Pieces that are still to come, and to leave, of messages of several.
    pub(super) to_come: BTreeMap<OperationId, u32>,
    pub(super) to_leave: BTreeMap<OperationId, u32>,
    /// When processors that handle no messages have done what they were given: by process and
    /// processor. Empty if there are none.
    pub(super) processors: Vec<Time>,
    pub(super) ranks: Vec<Rank>,
    /// What is still to happen, beside messages on their way.
    pub(super) going: u64,
    pub(super) ended: u64,
    pub(super) local_messages: u64,
    /// Whether something was not begun, since no traffic is posted any more.
    pub(super) is_cut: bool,
    pub(super) misfits: Misfits,
    /// Messages that were lost, and the first sends that they are of.
    pub(super) lost: (u64, Vec<OperationId>),
    /// What is kept for the critical path; only where that is asked for.
    pub(crate) causes: Option<Causes>,
    /// What is kept of single requests of interfaces; only where that is asked for.
    pub(crate) requests: Option<Box<Requests>>,
}

impl Operations {
    /// Of what a configuration has hosts do, if that is a graph.
    #[must_use]
    pub fn of(config: &ClusterConfig) -> Option<Box<Self>> {
        let application = Arc::clone(config.traffic.application()?);
        let graph = application.graph();
        let places = Places::new(&application, &config.topology, config.run.seed);
        let has_several = graph.processors() > 1 || config.hosts.processes > 1;
        let processors = match has_several && config.hosts.processors.is_none() {
            true => places.process_count() * graph.processors() as usize,
            false => 0,
        };
        Some(Box::new(Self {
            dependencies: Dependencies::new(graph),
            matching: Matching::of(graph),
            parts: Vec::new(),
            free: Vec::new(),
            is_beginning: false,
            cleared: BTreeMap::new(),
            to_come: BTreeMap::new(),
            to_leave: BTreeMap::new(),
            processors: vec![Time::ZERO; processors],
            ranks: vec![Rank::of_processors(graph.processors()); graph.ranks() as usize],
            going: 0,
            ended: 0,
            local_messages: 0,
            is_cut: false,
            misfits: Misfits::default(),
            lost: (0, Vec::new()),
            causes: None,
            requests: None,
            places,
            application,
        }))
    }

    /// What is carried out.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        self.application.graph()
    }

    /// The same with how ranks talk to each other.
    #[must_use]
    pub fn application(&self) -> &Arc<Application> {
        &self.application
    }

    /// A message was lost.
    #[cold]
    pub(crate) fn note_lost(&mut self, number: u64) {
        let Some(part) = self.part(number).filter(|_| number & AROUND == 0) else {
            return;
        };
        let (count, first) = &mut self.lost;
        *count += 1;
        if first.len() < NAMES_MAX && !first.contains(&part.send()) {
            first.push(part.send());
        }
    }

    pub(super) fn part(&self, number: u64) -> Option<Part> {
        self.parts.get((number & !AROUND) as usize).copied()
    }

    /// What a rank begins with: it waits for nothing.
    pub fn begin(&mut self, rank: u32) {
        let graph = Arc::clone(self.graph());
        let free = graph.of_rank(rank);
        let free = free.filter(|id| self.dependencies.is_free(*id));
        let free = free.map(|id| (rank, graph.operation(id).kind, id));
        self.free.extend(free);
    }

    /// What has become free since this was asked last, of all ranks.
    pub fn take_free(&mut self) -> Vec<(u32, Kind, OperationId)> {
        core::mem::take(&mut self.free)
    }

    /// The same, which stays there.
    #[must_use]
    pub fn free(&self) -> &[(u32, Kind, OperationId)] {
        &self.free
    }

    /// Something of an operation has happened: what waits for it alone is free.
    pub fn happened(&mut self, rank: u32, id: OperationId, what: After) {
        let graph = self.application.graph();
        let (free, causes) = (&mut self.free, &mut self.causes);
        self.dependencies.happened(graph, id, what, |waiter| {
            if let Some(causes) = causes {
                causes.freed(waiter, id, what);
            }
            free.push((rank, graph.operation(waiter).kind, waiter));
        });
    }

    /// An operation has ended.
    pub fn end(&mut self, rank: u32, id: OperationId, now: Time) {
        self.ended += 1;
        self.ranks[rank as usize].end = now;
        if let Some(causes) = &mut self.causes {
            causes.ended(id, now);
        }
        self.happened(rank, id, After::End);
    }

    /// How a send is carried out.
    #[must_use]
    pub fn way(&self, send: OperationId) -> Way {
        let graph = self.graph();
        let operation = graph.operation(send);
        match self.places.is_local(graph.rank_of(send), operation.peer) {
            true => Way::Local,
            false if self.application.is_eager(operation.amount) => Way::Eager,
            false => Way::Rendezvous,
        }
    }

    /// The host of a rank.
    #[must_use]
    pub fn host_of(&self, rank: u32) -> u32 {
        self.places.host_of(rank)
    }

    /// Operations that have ended.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.ended
    }

    /// Posts a receive of a rank: the send whose message it takes, if that is there.
    pub fn post_receive(&mut self, rank: u32, receive: OperationId) -> Option<OperationId> {
        let Operation { peer, tag, .. } = self.graph().operation(receive);
        let send = self.matching.post(rank, peer, tag, receive)?;
        self.matched(send, receive, false);
        Some(send)
    }

    /// A message, or the request of one, has come: the receive that takes it, if that is posted.
    pub fn arrive(&mut self, send: OperationId) -> Option<OperationId> {
        let source = self.graph().rank_of(send);
        let Operation { peer, tag, .. } = self.graph().operation(send);
        let receive = self.matching.arrive(peer, source, tag, send)?;
        self.matched(send, receive, true);
        Some(receive)
    }

    /// A receive takes a send: whether their sizes fit is kept.
    pub fn look_at(&mut self, send: OperationId, receive: OperationId) {
        (self.misfits).look_at(self.application.graph(), send, receive);
    }

    /// A message within a host is sent.
    pub const fn count_local(&mut self) {
        self.local_messages += 1;
    }

    /// No traffic is posted any more, and something was left.
    pub const fn cut(&mut self) {
        self.is_cut = true;
    }

    /// The critical path, if who freed whom was kept.
    pub(crate) fn critical_path(&self) -> Option<Vec<Leg>> {
        match &self.causes {
            Some(Causes::Links(links)) => Some(links.path(self.graph(), |send| self.way(send))),
            _ => None,
        }
    }

    /// A send and a receive match, at the moment of the one or the other.
    pub(super) fn matched(&mut self, send: OperationId, receive: OperationId, is_by_message: bool) {
        if let Some(causes) = &mut self.causes {
            causes.matched(send, receive, is_by_message);
        }
    }

    /// An activity begins, which the critical path may be made of.
    pub fn begins(&mut self, operation: OperationId, activity: Activity, now: Time) {
        if let Some(timed) = self.timed(operation, activity) {
            timed.begin = now;
        }
    }

    /// It has ended; those that last until their operation ends need not be told.
    pub fn ends(&mut self, operation: OperationId, activity: Activity, now: Time) {
        if let Some(timed) = self.timed(operation, activity) {
            timed.end = now;
        }
    }

    /// A message of a send was taken: the number of its last piece in order of posting, of a reply
    /// that of what it answers, and bytes and moments of that piece.
    pub fn message_taken(
        &mut self,
        (send, role): (OperationId, Role),
        (number, bytes): (u64, u32),
        moments: Moments,
    ) {
        if self.causes.is_none() {
            return;
        }
        let (from, to) = {
            let graph = self.graph();
            (graph.rank_of(send), graph.operation(send).peer)
        };
        let (source, target) = match role {
            Role::Clearance => (to, from),
            _ => (from, to),
        };
        let (source, target) = (
            self.places.process_of(source),
            self.places.process_of(target),
        );
        if let Some(timed) = self.timed(send, Activity::Message(role)) {
            let stages = moments.stages(timed.begin);
            timed.end = moments.taken;
            timed.message = Some(Record {
                message: MessageName {
                    number,
                    is_around: false,
                    source,
                    target,
                    bytes,
                    operation: MessageOperation::Send,
                },
                posted: timed.begin,
                latency: moments.taken.saturating_sub(timed.begin),
                floor: Time::MAX,
                stages,
            });
        }
    }

    /// A message that was taken comes now: it waited for one before it.
    pub fn message_comes(&mut self, send: OperationId, role: Role, now: Time) {
        if let Some(timed) = self.timed(send, Activity::Message(role))
            && let Some(record) = &mut timed.message
        {
            let waited = now.saturating_sub(timed.end);
            record.stages[Stage::Reap as usize] += waited.picoseconds();
            record.latency = record.latency.saturating_add(waited);
            timed.end = now;
        }
    }

    /// A computation has waited for its processor.
    pub fn note_waited(&mut self, operation: OperationId, waited: Time) {
        if let Some(timed) = self.timed(operation, Activity::Compute) {
            timed.waited = waited;
        }
    }

    /// Whether anybody asks for the critical path.
    #[must_use]
    pub const fn has_causes(&self) -> bool {
        self.causes.is_some()
    }

    pub(super) fn timed(
        &mut self,
        operation: OperationId,
        activity: Activity,
    ) -> Option<&mut Timed> {
        self.causes.as_mut()?.timed(operation, activity)
    }

    /// One of several pieces has passed; whether it was the last. Counts are made of the number of
    /// all pieces when the first passes.
    pub(super) fn passes(
        waiting: &mut BTreeMap<OperationId, u32>,
        send: OperationId,
        pieces: u32,
    ) -> bool {
        if pieces == 1 {
            return true;
        }
        let left = waiting.entry(send).or_insert(pieces);
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            waiting.remove(&send);
        }
        is_last
    }

    /// What has not ended, where nothing can happen any more, if anything.
    pub(crate) fn stalled(&self) -> Option<Stalled> {
        let graph = self.graph();
        let left = graph.len() as u64 - self.ended;
        let stalled = Stalled::of(graph, &self.matching, left).filter(|_| !self.is_cut)?;
        let (count, first) = &self.lost;
        Some(stalled.with_lost(graph, *count, first))
    }

    /// Memory that it holds, bytes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let graph = self.graph();
        graph.state_bytes()
            + self.dependencies.state_bytes()
            + self.matching.state_bytes()
            + self.parts.capacity() * size_of::<Part>()
            + self.ranks.iter().map(Rank::state_bytes).sum::<usize>()
            + self.processors.capacity() * size_of::<Time>()
    }
}
