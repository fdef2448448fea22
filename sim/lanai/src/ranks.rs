//! Ranks of an application as processes of hosts: a graph of operations over endpoints.
//!
//! ```text
//!  eager       its bytes in requests of at most a piece each
//!  rendezvous  a request -> clearance: the reply, if a receive waits, or else a request when it is
//!              posted -> the bytes, as those of an eager one
//!  receive     ends when all bytes have been taken, and copied if it was not there by then
//! ```
//!
//! Each rank has an endpoint of its own, and every request is answered by a reply, with as many
//! outstanding as a queue holds. A send ends when its last request is posted: an endpoint copies
//! what it is given. Messages of virtual networks may overtake each other, so that those of a pair
//! of ranks carry numbers, and what matches what is asked in that order.
//!
//! A rank answers, then posts, then begins what is free in the order sends, receives,
//! computations, and takes a message when none of that is to be done; while it computes, messages
//! wait in its endpoint. Computations of processors beyond the first are done by those, those of
//! ranks that share a host by processors of their own unless they share its one, and messages to
//! ranks of the same host go by a link of the sender, all beside the processor.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::interfaces::MessageTimes;
use viaduct_cluster::operations::{Activity, Moments, Operations, Part, Role, Way};
use viaduct_engine::Time;
use viaduct_frames::Endpoint;
use viaduct_operations::{After, Graph, Kind, Operation, OperationId};

use crate::cluster::{EndpointState, Entry, Message};
use crate::config::{Config, Host};
use crate::faults::Pace;
use crate::journeys::Journeys;
use crate::process::Act;
use crate::program::half;
use crate::work::Work;

/// Bytes of a request that says who and which, and of one or a reply that says which.
const REQUEST_BYTES: u32 = 16;
const CLEARANCE_BYTES: u32 = 8;

/// Marks the moment when a message within a host comes, not when an operation ends.
const COMES: u32 = 1 << 31;

/// What the processor does for a rank's messages until a slice of it ends.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// It works, then something goes on.
    Work(OperationId, Activity),
    /// It hands a piece of a send to the interface; whether that was the last one.
    Post(OperationId, bool),
    /// It hands over an answer, a request of a rendezvous or its clearance.
    Control,
    /// It takes a message: when that came, and when this began.
    Take(Entry, Time, Time),
}

/// What a rank's processor has to do, in this order.
#[derive(Clone, Copy, Debug)]
enum Todo {
    Work(OperationId, Activity, Time),
    /// Pieces of a send, of which so many have been posted.
    Pieces(OperationId, Role, u32),
    /// A request of a rendezvous, or its clearance.
    Control(OperationId, Role),
}

/// A computation that the processor has begun.
#[derive(Clone, Copy, Debug)]
struct Computing {
    id: OperationId,
    left: Time,
}

#[derive(Clone, Debug)]
struct Rank {
    /// The place of its host, and its number.
    host: u32,
    number: u32,
    endpoint: Endpoint,
    /// What is free and has not begun, in the order in which it begins.
    free: BTreeSet<(Kind, u64, OperationId)>,
    freed: u64,
    todo: VecDeque<Todo>,
    /// Replies that it owes.
    answers: VecDeque<(Entry, Part)>,
    computing: Option<Computing>,
    doing: Option<Doing>,
    /// Messages in its queue that it can see, by when they came.
    arrived: VecDeque<Time>,
    /// Requests that have not been answered.
    open: u32,
    /// Operations that have not ended.
    left: usize,
    /// The number of the next message to a rank, and from one.
    next_to: BTreeMap<u32, u32>,
    next_from: BTreeMap<u32, u32>,
    /// What came before others of its sender that went first.
    ahead: BTreeMap<(u32, u32), OperationId>,
    /// When its link to ranks of the same host has sent all that it was given.
    local_free: Time,
    /// When its processors beyond the first have done what they were given.
    processors: Vec<Time>,
}

/// What a rank sees of its host when it is asked what it does.
pub(crate) struct View<'a> {
    pub(crate) endpoint: &'a mut EndpointState,
    pub(crate) entries: usize,
    pub(crate) now: Time,
    pub(crate) costs: &'a Host,
    pub(crate) pace: Pace,
    pub(crate) is_in_frame: bool,
    /// Whether it has looked in vain before.
    pub(crate) has_looked: bool,
}

/// All ranks of an application.
#[derive(Debug)]
pub(crate) struct Ranks {
    pub(crate) operations: Box<Operations>,
    ranks: Vec<Rank>,
    /// The numbers of messages that have not come, among those of a pair of ranks.
    orders: BTreeMap<OperationId, u32>,
    /// Pieces that are still to come, of messages of several.
    to_come: BTreeMap<OperationId, u32>,
    /// The receive of each rendezvous whose bytes are to come.
    cleared: BTreeMap<OperationId, OperationId>,
    /// When operations became free, if the critical path is asked for.
    freed_at: Vec<Time>,
    /// When something happens beside processors and interfaces: see [`Ranks::due`].
    pub(crate) timers: Vec<(Time, u32)>,
    credits: u32,
    /// Interfaces and hosts.
    config: Config,
    start: Time,
    /// No operation begins then or later.
    stop: Time,
    /// From which processor of a rank on computations are done by it, and not by that of the host.
    first_own: u8,
    /// The cluster that they are in the place of.
    cluster: ClusterConfig,
    /// Requests that were posted, taken and given back.
    pub(crate) posted: u64,
    pub(crate) taken: u64,
    lost: u64,
    /// Requests that came back and may have arrived all the same.
    in_doubt: u64,
    /// How long requests took.
    pub(crate) times: MessageTimes,
    pub(crate) taken_bytes: u64,
    pub(crate) digest: u64,
    /// Of requests that somebody asks for.
    pub(crate) journeys: Journeys,
    /// Until when any rank has done anything, or will.
    pub(crate) acted_at: Time,
}

impl Ranks {
    /// Of operations of which nothing has happened, on hosts of a cluster; no rank has an endpoint.
    pub(crate) fn new(
        operations: Box<Operations>,
        cluster: &ClusterConfig,
        config: &Config,
    ) -> Self {
        let has_causes = operations.has_causes();
        let operation_count = operations.graph().len();
        Self {
            operations,
            ranks: Vec::new(),
            orders: BTreeMap::new(),
            to_come: BTreeMap::new(),
            cleared: BTreeMap::new(),
            freed_at: match has_causes {
                true => vec![cluster.traffic.start; operation_count],
                false => Vec::new(),
            },
            timers: Vec::new(),
            credits: config.queue_entries,
            config: config.clone(),
            start: cluster.traffic.start,
            stop: cluster.traffic.stop,
            first_own: match (cluster.hosts.processors, cluster.hosts.processes) {
                (Some(_), _) => u8::MAX,
                (None, 1) => 1,
                (None, _) => 0,
            },
            cluster: cluster.clone(),
            posted: 0,
            taken: 0,
            lost: 0,
            in_doubt: 0,
            times: MessageTimes::new(cluster.run.warmup),
            taken_bytes: 0,
            digest: 0,
            journeys: Journeys::default(),
            acted_at: Time::ZERO,
        }
    }

    /// The next rank has an endpoint at a host, of which this is the place and the number.
    pub(crate) fn add(&mut self, (host, number): (u32, u32), endpoint: Endpoint) {
        let rank = self.ranks.len() as u32;
        let processors = self.graph().processors() as usize;
        self.ranks.push(Rank {
            host,
            number,
            endpoint,
            free: BTreeSet::new(),
            freed: 0,
            todo: VecDeque::new(),
            answers: VecDeque::new(),
            computing: None,
            doing: None,
            arrived: VecDeque::new(),
            open: 0,
            left: self.graph().of_rank(rank).len(),
            next_to: BTreeMap::new(),
            next_from: BTreeMap::new(),
            ahead: BTreeMap::new(),
            local_free: Time::ZERO,
            processors: vec![Time::ZERO; processors],
        });
    }

    /// All ranks begin.
    pub(crate) fn begin(&mut self, now: Time) {
        for rank in 0..self.ranks.len() as u32 {
            self.operations.begin(rank);
        }
        self.sort_free(now);
    }

    fn graph(&self) -> &Graph {
        self.operations.graph()
    }

    /// Whether all operations have ended, and all requests have.
    pub(crate) fn are_over(&self) -> bool {
        let all = self.graph().len() as u64;
        self.operations.ended() == all && self.posted == self.taken + self.dropped()
    }

    /// Requests that nobody took and nobody will: of those in doubt as many as are missing.
    pub(crate) fn dropped(&self) -> u64 {
        let missing = self.posted - self.taken - self.lost;
        self.lost + self.in_doubt.min(missing)
    }

    /// The place of a rank's host.
    pub(crate) fn host_of(&self, rank: u32) -> u32 {
        self.ranks[rank as usize].host
    }

    /// The rank whose host has something to do at a moment of [`Ranks::timers`].
    pub(crate) fn rank_of(&self, word: u32) -> u32 {
        let id = word & !COMES;
        match word & COMES == 0 {
            true => self.graph().rank_of(id),
            false => self.graph().operation(id).peer,
        }
    }

    /// A moment of [`Ranks::timers`] has come.
    pub(crate) fn due(&mut self, word: u32, now: Time) {
        self.acts_until(now);
        let id = word & !COMES;
        if word & COMES == 0 {
            self.end(self.graph().rank_of(id), id, None, now);
        } else {
            self.operations.ends(id, Activity::LocalMessage, now);
            self.come(id, now);
        }
        self.sort_free(now);
    }

    /// A message is in the queue of a rank.
    pub(crate) fn message_came(&mut self, rank: u32, now: Time) {
        self.ranks[rank as usize].arrived.push_back(now);
    }

    /// A message of a rank came back: it is lost, if it is not in doubt.
    pub(crate) fn message_returned(&mut self, entry: &Entry, may_have_arrived: bool, now: Time) {
        self.tell_returned(entry, now);
        match (entry.is_reply, may_have_arrived) {
            (true, _) => {}
            (false, true) => self.in_doubt += 1,
            (false, false) => self.lost += 1,
        }
    }

    /// The processor has computed for a rank up to now, for a span.
    pub(crate) fn computed(&mut self, rank: u32, span: Time, now: Time) {
        self.acts_until(now);
        let computing = &mut self.ranks[rank as usize].computing;
        let Some(Computing { id, left }) = computing else {
            return;
        };
        *left = left.saturating_sub(span);
        let (id, is_over) = (*id, *left == Time::ZERO);
        if is_over {
            *computing = None;
        }
        if self.graph().processors() == 1 {
            let from = now.saturating_sub(span);
            self.operations.computes(rank, now, (from, now), 0);
        }
        if is_over {
            self.end(rank, id, None, now);
            self.sort_free(now);
        }
    }

    /// Whether a rank has anything to do but wait; `has_room` says of its send queue.
    pub(crate) fn can_act(&self, rank: u32, has_room: bool) -> bool {
        let it = &self.ranks[rank as usize];
        it.computing.is_some()
            || !it.arrived.is_empty()
            || has_room && !it.answers.is_empty()
            || match it.todo.front() {
                Some(Todo::Work(..)) => true,
                Some(Todo::Pieces(..) | Todo::Control(..)) => has_room && it.open < self.credits,
                None => !it.free.is_empty() || it.left == 0,
            }
    }

    /// What a rank does next.
    pub(crate) fn act(&mut self, rank: u32, view: View<'_>) -> Act {
        self.choose(rank, view)
    }

    fn choose(&mut self, rank: u32, view: View<'_>) -> Act {
        let View { now, pace, .. } = view;
        loop {
            let has_room = view.endpoint.send_queue.len() < view.entries;
            let it = &mut self.ranks[rank as usize];
            if let Some(computing) = it.computing {
                self.acts_until(now.saturating_add(computing.left));
                if self.graph().processors() > 1 {
                    let end = now.saturating_add(computing.left);
                    self.operations.computes(rank, now, (now, end), 0);
                }
                return Act::Compute(computing.left);
            }
            if has_room && let Some((request, part)) = it.answers.pop_front() {
                it.doing = Some(Doing::Control);
                let bytes = match part.role() {
                    Role::Clearance => CLEARANCE_BYTES,
                    _ => 0,
                };
                let to = (request.from, request.from_endpoint);
                let message = message(it, to, (bytes, true), (part, request.request), now);
                let span = pace.stretch(view.costs.send_of(bytes));
                return self.works(rank, now, span, Some(message));
            }
            match it.todo.front().copied() {
                Some(Todo::Work(id, activity, span)) => {
                    it.todo.pop_front();
                    it.doing = Some(Doing::Work(id, activity));
                    return self.works(rank, now, pace.stretch(span), None);
                }
                Some(todo) if has_room && it.open < self.credits => {
                    return self.post(rank, todo, &view);
                }
                Some(_) => {}
                None => {
                    if let Some((_, _, id)) = it.free.pop_first() {
                        self.begin_operation(rank, id, now);
                        continue;
                    }
                }
            }
            let it = &mut self.ranks[rank as usize];
            if !it.arrived.is_empty()
                && let Some(entry) = view.endpoint.receive_queue.pop_front()
            {
                let came = it.arrived.pop_front().unwrap_or(now);
                it.doing = Some(Doing::Take(entry, came, now));
                view.endpoint.requests -= u32::from(!entry.is_reply);
                let mut span = view.costs.receive_of(entry.bytes, view.is_in_frame);
                if view.has_looked {
                    span += half(view.costs.look_of(view.is_in_frame));
                }
                let span = pace.stretch(span + pace.per_message());
                return self.works(rank, now, span, None);
            }
            let is_over = it.left == 0 && it.todo.is_empty() && it.answers.is_empty();
            return if is_over { Act::Over } else { Act::Wait };
        }
    }

    /// The processor works for a rank's messages, and posts one at the end.
    fn works(&mut self, rank: u32, now: Time, span: Time, posts: Option<Message>) -> Act {
        self.acts_until(now);
        self.operations
            .works(rank, now, (now, now.saturating_add(span)));
        Act::Message(span, posts)
    }

    /// Posts the next request that a rank has to make.
    fn post(&mut self, rank: u32, todo: Todo, view: &View<'_>) -> Act {
        let now = view.now;
        let (send, role) = match todo {
            Todo::Pieces(send, role, _) | Todo::Control(send, role) => (send, role),
            Todo::Work(..) => return Act::Wait,
        };
        let application = self.operations.application();
        let Operation { amount, peer, .. } = application.graph().operation(send);
        let (pieces, last) = application.pieces(amount);
        let each = application.piece_bytes(amount);
        let taker = match role {
            Role::Clearance => application.graph().rank_of(send),
            _ => peer,
        };
        let to = &self.ranks[taker as usize];
        let to = (to.host, to.endpoint);
        let it = &mut self.ranks[rank as usize];
        let (bytes, doing) = match todo {
            Todo::Pieces(_, _, piece) if piece + 1 < pieces => {
                it.todo[0] = Todo::Pieces(send, role, piece + 1);
                (each, Doing::Post(send, false))
            }
            Todo::Pieces(..) => {
                it.todo.pop_front();
                (
                    last.max(if amount == 0 { REQUEST_BYTES } else { 0 }),
                    Doing::Post(send, true),
                )
            }
            _ => {
                it.todo.pop_front();
                let bytes = match role {
                    Role::Clearance => CLEARANCE_BYTES,
                    _ => REQUEST_BYTES,
                };
                (bytes, Doing::Control)
            }
        };
        it.doing = Some(doing);
        it.open += 1;
        let numbered = (Part::new(send, role), self.posted as u32);
        self.posted += 1;
        let message = message(it, to, (bytes, false), numbered, now);
        self.tell_posted((rank, taker), &message.entry);
        let span = view.pace.stretch(view.costs.send_of(bytes));
        self.works(rank, now, span, Some(message))
    }

    fn begin_operation(&mut self, rank: u32, id: OperationId, now: Time) {
        if now >= self.stop {
            self.operations.cut();
            return;
        }
        let operation = self.graph().operation(id);
        let freed_at = self.freed_at.get(id as usize).copied().unwrap_or(now);
        for activity in [
            Activity::Compute,
            Activity::Post,
            Activity::Message(Role::Eager),
            Activity::Message(Role::Request),
            Activity::RegisterSent,
            Activity::LocalSend,
            Activity::LocalMessage,
            Activity::Copy,
        ] {
            self.operations.begins(id, activity, freed_at);
        }
        self.operations.happened(rank, id, After::Start);
        // What starts with it waits for the processor from when it did.
        self.note_freed(freed_at);
        self.sort_free(now);
        match operation.kind {
            Kind::Compute => {
                self.operations
                    .note_waited(id, now.saturating_sub(freed_at));
                let span = Time::from_nanoseconds(operation.amount);
                let span = self.pace(rank, now).stretch(span);
                self.compute(rank, (id, operation.processor), span, now);
            }
            Kind::Send => self.send(rank, id, operation, now),
            Kind::Receive => {
                if let Some(send) = self.operations.post_receive(rank, id) {
                    self.operations
                        .begins(send, Activity::RegisterReceived, freed_at);
                    self.operations
                        .begins(send, Activity::Message(Role::Clearance), freed_at);
                    self.take(send, (rank, id), false, now);
                }
            }
        }
    }

    fn compute(&mut self, rank: u32, (id, processor): (OperationId, u8), span: Time, now: Time) {
        if span == Time::ZERO {
            return self.end(rank, id, None, now);
        }
        let it = &mut self.ranks[rank as usize];
        if processor < self.first_own {
            it.computing = Some(Computing { id, left: span });
            return;
        }
        let free = &mut it.processors[usize::from(processor)];
        let begin = now.max(*free);
        *free = begin.saturating_add(span);
        let span = (begin, *free);
        self.timers.push((span.1, id));
        self.acts_until(span.1);
        self.operations.note_waited(id, begin.saturating_sub(now));
        self.operations.computes(rank, now, span, processor.into());
    }

    fn send(&mut self, rank: u32, send: OperationId, operation: Operation, now: Time) {
        let way = self.operations.way(send);
        if way == Way::Local {
            let Some(link) = self.operations.application().protocol().local else {
                return;
            };
            let bytes = operation.amount as f64;
            let span = (bytes / link.rate.bytes_per_picosecond() + 0.5) as u64;
            let it = &mut self.ranks[rank as usize];
            it.local_free = it.local_free.max(now) + Time::from_picoseconds(span);
            let sent = it.local_free;
            self.operations.count_local();
            let comes = sent.saturating_add(link.latency);
            self.timers.push((sent, send));
            self.timers.push((comes, send | COMES));
            return;
        }
        let it = &mut self.ranks[rank as usize];
        let next = it.next_to.entry(operation.peer).or_default();
        self.orders.insert(send, *next);
        *next += 1;
        if way == Way::Eager {
            it.todo.push_back(Todo::Pieces(send, Role::Eager, 0));
            return;
        }
        match self.registration(rank, operation.amount) {
            Some(span) => self.ranks[rank as usize].todo.push_back(Todo::Work(
                send,
                Activity::RegisterSent,
                span,
            )),
            None => self.ask(rank, send),
        }
    }

    /// The sender of a rendezvous asks for its receiver.
    fn ask(&mut self, rank: u32, send: OperationId) {
        let todo = Todo::Control(send, Role::Request);
        self.ranks[rank as usize].todo.push_back(todo);
    }

    /// What registering so many bytes takes a rank, if that is to be done and takes time.
    fn registration(&self, rank: u32, bytes: u64) -> Option<Time> {
        let protocol = self.operations.application().protocol();
        let memory = self.cluster.host.of(self.operations.host_of(rank)).memory;
        let registers = protocol.handling.registers;
        let span = registers.then(|| memory.registration(bytes));
        span.filter(|span| *span > Time::ZERO)
    }

    /// A message, or the request of one, has come: it takes a receive, or waits for one.
    fn come(&mut self, send: OperationId, now: Time) {
        if let Some(receive) = self.operations.arrive(send) {
            self.operations
                .begins(send, Activity::RegisterReceived, now);
            self.operations
                .begins(send, Activity::Message(Role::Clearance), now);
            let rank = self.graph().operation(send).peer;
            self.take(send, (rank, receive), true, now);
        }
    }

    /// A receive of a rank takes a message that has come now, or before it, or lets it come.
    fn take(
        &mut self,
        send: OperationId,
        (rank, receive): (u32, OperationId),
        has_come_now: bool,
        now: Time,
    ) {
        self.operations.look_at(send, receive);
        let amount = self.graph().operation(send).amount;
        let source = self.graph().rank_of(send);
        let way = self.operations.way(send);
        if way == Way::Rendezvous {
            self.cleared.insert(send, receive);
            let todo = match self.registration(rank, amount) {
                Some(span) => Todo::Work(send, Activity::RegisterReceived, span),
                None => Todo::Control(send, Role::Clearance),
            };
            self.ranks[rank as usize].todo.push_back(todo);
            return;
        }
        let copy_rate = self.operations.application().protocol().handling.copy_rate;
        if way == Way::Eager && !has_come_now && amount > 0 {
            let span = copy_rate.time_for(amount as f64);
            if span > Time::ZERO {
                let todo = Todo::Work(receive, Activity::Copy, span);
                self.ranks[rank as usize].todo.push_back(todo);
                return;
            }
        }
        self.end(rank, receive, Some(source), now);
    }

    /// What is free became so at a time.
    fn note_freed(&mut self, at: Time) {
        for (_, _, waiter) in self.operations.free() {
            if let Some(freed_at) = self.freed_at.get_mut(*waiter as usize) {
                *freed_at = at;
            }
        }
    }

    /// An operation of a rank ends; `peer` is the rank that it was with, if it could not end
    /// without it.
    fn end(&mut self, rank: u32, id: OperationId, peer: Option<u32>, now: Time) {
        self.ranks[rank as usize].left -= 1;
        let elapsed = now.saturating_sub(self.start);
        self.operations
            .note_idle(rank, peer, (now, elapsed, Time::ZERO));
        self.operations.end(rank, id, now);
        self.note_freed(now);
        self.sort_free(now);
    }

    /// What the processor did for a rank's messages is over.
    pub(crate) fn done(&mut self, rank: u32, now: Time) {
        self.acts_until(now);
        match self.ranks[rank as usize].doing.take() {
            None | Some(Doing::Control | Doing::Post(_, false)) => {}
            Some(Doing::Post(send, true)) => {
                let is_met = self.operations.way(send) == Way::Rendezvous;
                let peer = self.graph().operation(send).peer;
                self.end(rank, send, is_met.then_some(peer), now);
            }
            Some(Doing::Work(id, activity)) => match activity {
                Activity::RegisterSent => {
                    self.operations.ends(id, activity, now);
                    self.operations
                        .begins(id, Activity::Message(Role::Request), now);
                    self.ask(rank, id);
                }
                Activity::RegisterReceived => {
                    self.operations.ends(id, activity, now);
                    self.operations
                        .begins(id, Activity::Message(Role::Clearance), now);
                    let todo = Todo::Control(id, Role::Clearance);
                    self.ranks[rank as usize].todo.push_back(todo);
                }
                _ => self.end(rank, id, None, now),
            },
            Some(Doing::Take(entry, came, take)) => {
                let posted = entry.posted_at.saturating_add(self.posting(&entry));
                let moments = Moments {
                    post: entry.posted_at,
                    posted,
                    came,
                    take,
                    taken: now,
                };
                self.taken(rank, entry, moments);
            }
        }
        self.sort_free(now);
    }

    /// What posting a message took its sender; the end of a slice that others cut is later.
    fn posting(&self, entry: &Entry) -> Time {
        let part = Part::of_word(entry.number);
        let sender = match part.role() {
            Role::Clearance => self.graph().operation(part.send()).peer,
            _ => self.graph().rank_of(part.send()),
        };
        let span = self.config.host.send_of(entry.bytes);
        self.pace(sender, entry.posted_at).stretch(span)
    }

    /// What a request takes its two processors that nothing makes slower; the second one where the
    /// endpoint is in a frame, and where it is in none, without the look that finds it.
    pub(crate) fn processors_alone(&self, bytes: u32) -> (Time, [Time; 2]) {
        let host = &self.config.host;
        let taking = [true, false].map(|is_in_frame| host.receive_of(bytes, is_in_frame));
        (host.send_of(bytes), taking)
    }

    /// The look that finds a request in a frame, of a rank that waits for it.
    pub(crate) fn look_alone(&self) -> Time {
        half(self.config.host.look_of(true))
    }

    /// What a request takes at least: both processors and both interfaces.
    fn floor(&self, bytes: u32) -> Time {
        let firmware = &self.config.firmware;
        let works = [Work::Send { bytes }, Work::Take, Work::Write { bytes }];
        let cycles: u32 = works.map(|work| firmware.steps.of(work)).iter().sum();
        let (post, reap) = self.processors_alone(bytes);
        let seconds = f64::from(cycles) / firmware.clock_hz;
        post + Time::from_seconds_f64(seconds) + reap[0].min(reap[1])
    }

    /// A rank has taken a message out of its queue.
    fn taken(&mut self, rank: u32, entry: Entry, moments: Moments) {
        let now = moments.taken;
        let part = Part::of_word(entry.number);
        let (send, role) = (part.send(), part.role());
        for word in [u64::from(entry.number), now.picoseconds()] {
            let mixed = (self.digest.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.digest = mixed ^ (mixed >> 29);
        }
        let numbered = (u64::from(entry.request), entry.bytes);
        if entry.is_reply {
            self.ranks[rank as usize].open -= 1;
            if role == Role::Clearance {
                self.operations
                    .message_taken((send, role), numbered, moments);
                self.clear(rank, send, now);
            }
            return;
        }
        self.tell_taken(rank, &entry, &moments);
        self.taken += 1;
        self.times.record(&moments, self.floor(entry.bytes));
        let is_whole = match role {
            Role::Eager | Role::Data => {
                if self.graph().operation(send).amount > 0 {
                    self.taken_bytes += u64::from(entry.bytes);
                }
                self.is_whole(send)
            }
            Role::Request | Role::Clearance => true,
        };
        let mut answer = Part::new(send, Role::Eager);
        if is_whole {
            self.operations
                .message_taken((send, role), numbered, moments);
            match role {
                Role::Eager | Role::Request => {
                    self.come_in_order(rank, send, now);
                    let todo = &mut self.ranks[rank as usize].todo;
                    let is_it =
                        |it: &Todo| matches!(it, Todo::Control(id, Role::Clearance) if *id == send);
                    if let Some(place) = todo.iter().position(is_it) {
                        todo.remove(place);
                        answer = Part::new(send, Role::Clearance);
                    }
                }
                Role::Clearance => self.clear(rank, send, now),
                Role::Data => {
                    if let Some(receive) = self.cleared.remove(&send) {
                        let source = self.graph().rank_of(send);
                        self.end(rank, receive, Some(source), now);
                    }
                }
            }
        }
        self.ranks[rank as usize].answers.push_back((entry, answer));
    }

    /// Nothing happens any more: messages that are in queues of hosts wait for receives.
    pub(crate) fn leave<'a>(&mut self, hosts: impl Iterator<Item = &'a [EndpointState]>) {
        let queues = hosts.flatten().map(|endpoint| &endpoint.receive_queue);
        for entry in queues.flatten().filter(|entry| !entry.is_reply) {
            let part = Part::of_word(entry.number);
            if matches!(part.role(), Role::Eager | Role::Request) && self.is_whole(part.send()) {
                // Nobody takes it: receives of its rank have ended.
                let _ = self.operations.arrive(part.send());
            }
        }
    }

    /// Whether a piece of a message was its last one.
    fn is_whole(&mut self, send: OperationId) -> bool {
        let application = self.operations.application();
        let (pieces, _) = application.pieces(application.graph().operation(send).amount);
        if pieces == 1 {
            return true;
        }
        let left = self.to_come.entry(send).or_insert(pieces);
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.to_come.remove(&send);
        }
        is_last
    }

    /// A message, or the request of one, is there: it comes when those before it have.
    fn come_in_order(&mut self, rank: u32, send: OperationId, now: Time) {
        let source = self.graph().rank_of(send);
        let number = self.orders.remove(&send).unwrap_or_default();
        let it = &mut self.ranks[rank as usize];
        it.ahead.insert((source, number), send);
        loop {
            let it = &mut self.ranks[rank as usize];
            let next = it.next_from.entry(source).or_default();
            let Some(send) = it.ahead.remove(&(source, *next)) else {
                return;
            };
            *next += 1;
            let amount = self.graph().operation(send).amount;
            let role = match self.operations.application().is_eager(amount) {
                true => Role::Eager,
                false => Role::Request,
            };
            self.operations.message_comes(send, role, now);
            self.come(send, now);
        }
    }

    /// The sender of a rendezvous knows that its receiver is there.
    fn clear(&mut self, rank: u32, send: OperationId, now: Time) {
        self.operations.begins(send, Activity::Leave, now);
        self.operations
            .begins(send, Activity::Message(Role::Data), now);
        let todo = Todo::Pieces(send, Role::Data, 0);
        self.ranks[rank as usize].todo.push_back(todo);
    }

    /// Some rank does something until then.
    fn acts_until(&mut self, at: Time) {
        self.acted_at = self.acted_at.max(at);
    }

    /// Gives each rank what has become free by now; processors of its own begin at once.
    fn sort_free(&mut self, now: Time) {
        while !self.operations.free().is_empty() {
            for (rank, kind, id) in self.operations.take_free() {
                let processor = self.graph().operation(id).processor;
                if kind == Kind::Compute && processor >= self.first_own {
                    self.begin_operation(rank, id, now);
                    continue;
                }
                let it = &mut self.ranks[rank as usize];
                it.freed += 1;
                it.free.insert((kind, it.freed, id));
            }
        }
    }

    /// How fast the processors of a rank's host are.
    fn pace(&self, rank: u32, now: Time) -> Pace {
        Pace::of(&self.config.faults, self.ranks[rank as usize].number, now)
    }

    pub(crate) fn state_bytes(&self) -> usize {
        let of_rank = |it: &Rank| {
            size_of::<Rank>()
                + it.free.len() * size_of::<(Kind, u64, OperationId)>()
                + it.todo.capacity() * size_of::<Todo>()
        };
        self.ranks.iter().map(of_rank).sum::<usize>() + self.freed_at.capacity() * size_of::<Time>()
    }
}

/// A message of a rank.
fn message(
    rank: &Rank,
    (to, to_endpoint): (u32, Endpoint),
    (bytes, is_reply): (u32, bool),
    (part, request): (Part, u32),
    now: Time,
) -> Message {
    // No host of theirs reboots.
    const KEY: u8 = 1;

    Message {
        entry: Entry {
            from: rank.host,
            from_endpoint: rank.endpoint,
            bytes,
            is_reply,
            key: KEY,
            number: part.word(),
            request,
            posted_at: now,
        },
        to,
        to_endpoint,
        to_key: KEY,
        name: None,
        place: 0,
    }
}
