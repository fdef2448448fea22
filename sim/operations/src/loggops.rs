//! A graph carried out without a network: the LogGOPS model.
//!
//! A message costs its sender's processor o and a gap O for each byte after the first, its adapter
//! g and G alike; its first byte arrives L later, and the receiving host spends the same again.
//! A send of more than S bytes ends when it is matched (rendezvous); a shorter one at once (eager).
//! Nothing is shared between hosts: no link, no switch.
//!
//! The rules, the order of what happens at one moment included, are those of LogGOPSim (Hoefler,
//! Schneider, Lumsdaine, HPDC 2010), so that files of one processor and adapter a host end at the
//! same nanosecond. Where LogGOPSim loses a dependency from one processor to another, it holds
//! here.
//!
//! - What is ready but finds its processor or adapter busy tries again when that is free, in the
//!   order in which it tried before.
//! - What is freed at a moment enters the queue at its end, ranks in order, and of a rank sends
//!   first, then receives, then computations.
//! - A receive takes no time where its message is there already.
//! - A message of no bytes costs what one of one byte does.
//!
//! # What tries again
//!
//! A rank with a thousand sends that are ready would have each of them try again whenever one is
//! done. What tries again at a host at one moment is kept as a list with one event, in the order in
//! which it tried before, so that the cost follows the messages and not how long they wait.
//!
//! Where lists of several hosts try at one moment, the host whose list began first has its whole
//! turn before the next one. In LogGOPSim what is further back in the lists is interleaved. That
//! can be told apart only where messages of two hosts then reach a third at the same picosecond,
//! or a message is matched just when its sender goes on.

use thiserror::Error;
use viaduct_engine::{EventQueue, Lane, PENDING_MAX, Time, prefetch};

use crate::dependencies::Dependencies;
use crate::graph::{After, Graph, Kind, Operation, OperationId};
use crate::matching::Matching;
use crate::misfits::Misfits;
use crate::stalled::Stalled;

/// The parameters of the model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Parameters {
    /// L: from the end of a send's overhead to the message's being there.
    pub latency: Time,
    /// o: what a message costs the processor at either end.
    pub overhead: Time,
    /// g: between two messages of an adapter.
    pub gap: Time,
    /// G: the same for each byte after the first.
    pub gap_per_byte: Time,
    /// O: what each byte after the first costs the processor.
    pub overhead_per_byte: Time,
    /// S: the longest message that is sent eagerly.
    pub eager_bytes: u64,
}

impl Default for Parameters {
    /// Those of LogGOPSim.
    fn default() -> Self {
        Self {
            latency: Time::from_nanoseconds(2500),
            overhead: Time::from_nanoseconds(1500),
            gap: Time::from_nanoseconds(1000),
            gap_per_byte: Time::from_nanoseconds(6),
            overhead_per_byte: Time::ZERO,
            eager_bytes: 65_535,
        }
    }
}

impl Parameters {
    /// What a message costs the sending processor, and the adapter.
    fn costs(&self, bytes: u64) -> (Time, Time) {
        let further = bytes.saturating_sub(1);
        (
            times(self.overhead, self.overhead_per_byte, further),
            times(self.gap, self.gap_per_byte, further),
        )
    }

    /// What it costs the receiving processor.
    fn receiving(&self, bytes: u64) -> Time {
        let further = bytes.saturating_sub(1);
        let per_byte = self.overhead_per_byte.max(self.gap_per_byte);
        times(self.overhead, per_byte, further)
    }
}

fn times(first: Time, each: Time, further: u64) -> Time {
    first.saturating_add(each.saturating_mul(further))
}

/// Why a graph cannot be carried out to its end.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ReplayError {
    /// It takes longer than time is counted.
    #[error("it takes longer than 53 days, which is as far as time is counted")]
    TooLong,
    /// More wait at once than are kept in order.
    #[error("more than {PENDING_MAX} messages and operations wait at once")]
    TooMany,
}

/// No operation begins later.
const TIME_MAX: Time = Time::from_picoseconds(1 << 62);

/// What came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When the processors of each rank have done their work.
    pub ends: Vec<Time>,
    /// Messages that were sent.
    pub messages: u64,
    /// Events that were handled.
    pub events: u64,
    /// What did not end, if anything.
    pub stalled: Option<Stalled>,
    /// Sends and receives that matched and whose sizes do not fit.
    pub misfits: Misfits,
    /// Memory of the simulation beside the graph, bytes.
    pub state_bytes: usize,
}

impl Outcome {
    /// When all is done.
    #[must_use]
    pub fn end(&self) -> Time {
        self.ends.iter().copied().max().unwrap_or(Time::ZERO)
    }
}

/// Marks an event as that of messages that have come, not of operations.
const MESSAGE: u32 = 1 << 31;

/// Operations of one class, one behind the other, that try at one moment.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The first; marked if they are messages.
    head: u32,
    tail: u32,
    /// Whose operations they are; of messages, who sent them: [`SEVERAL`] if not one rank.
    rank: u32,
    /// What tries after them at the same host and moment, or the next free place.
    next: u32,
}

/// Messages of several ranks.
const SEVERAL: u32 = u32::MAX;

/// No run.
const NONE: u32 = u32::MAX;

/// Runs of one host that try at one moment, one behind the other, with one event for all.
#[derive(Clone, Copy, Debug)]
struct Chain {
    time: Time,
    host: u32,
    first: u32,
    last: u32,
}

/// What must be free for an operation: those of one class wait for the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Class {
    /// Whose processor: of a message the receiver's.
    host: u32,
    is_message: bool,
    kind: Kind,
    processor: u8,
    adapter: u8,
}

/// Until when the parts of the hosts are busy.
#[derive(Debug)]
struct Hosts {
    /// By host and processor.
    processors: Vec<Time>,
    /// By host and adapter, sending and receiving.
    adapters: Vec<[Time; 2]>,
    per_host: (usize, usize),
}

impl Hosts {
    fn processor(&mut self, host: u32, processor: u8) -> &mut Time {
        &mut self.processors[host as usize * self.per_host.0 + usize::from(processor)]
    }

    fn adapter(&mut self, host: u32, adapter: u8) -> &mut [Time; 2] {
        &mut self.adapters[host as usize * self.per_host.1 + usize::from(adapter)]
    }

    /// Asks for what must be free for a class.
    fn prefetch(&self, class: Class) {
        let host = class.host as usize;
        prefetch(&raw const self.processors[host * self.per_host.0]);
        prefetch(&raw const self.adapters[host * self.per_host.1]);
    }

    /// When an operation of a class can begin.
    fn free(&mut self, class: Class) -> Time {
        let processor = *self.processor(class.host, class.processor);
        let adapter = match (class.is_message, class.kind) {
            (true, _) => self.adapter(class.host, class.adapter)[1],
            (false, Kind::Send) => self.adapter(class.host, class.adapter)[0],
            (false, _) => Time::ZERO,
        };
        processor.max(adapter)
    }
}

/// Lanes of the queue: what is put there for one reason mostly comes in the order of its times.
#[derive(Clone, Copy, Debug)]
struct Lanes {
    messages: Lane,
    freed: Lane,
    again: Lane,
}

/// How many events before its turn memory is asked for: of a run, of its operation, and of what
/// that names.
const AHEAD: [usize; 3] = [12, 8, 4];

struct Replay<'a> {
    graph: &'a Graph,
    parameters: Parameters,
    /// The first run of each chain.
    queue: EventQueue<u32>,
    lanes: Lanes,
    runs: Vec<Run>,
    free_run: u32,
    /// The chain that was put into the queue last, while it is there: what follows directly joins
    /// it.
    newest: Option<Chain>,
    /// By host: chains of what tries again.
    again: Vec<Vec<Chain>>,
    hosts: Hosts,
    dependencies: Dependencies,
    matching: Matching,
    /// Those that were freed at this moment, with their ranks.
    freed: Vec<(u32, Kind, OperationId)>,
    /// Not before: of graphs in which hosts have several processors.
    earliest: Vec<Time>,
    ended: u64,
    messages: u64,
    events: u64,
    misfits: Misfits,
    /// Whether something found no place in the queue.
    is_full: bool,
}

/// Carries a graph out: rank r runs on host r.
///
/// # Errors
///
/// [`ReplayError`] if it takes too long, or more wait at once than are kept in order.
pub fn replay(graph: &Graph, parameters: &Parameters) -> Result<Outcome, ReplayError> {
    let ranks = graph.ranks();
    let per_host = (graph.processors() as usize, graph.adapters() as usize);
    let has_several = per_host.0 > 1;
    let mut queue = EventQueue::new();
    let lanes = Lanes {
        messages: queue.add_lane(),
        freed: queue.add_lane(),
        again: queue.add_lane(),
    };
    let mut replay = Replay {
        graph,
        parameters: *parameters,
        queue,
        lanes,
        runs: Vec::new(),
        free_run: NONE,
        newest: None,
        again: vec![Vec::new(); ranks as usize],
        hosts: Hosts {
            processors: vec![Time::ZERO; ranks as usize * per_host.0],
            adapters: vec![[Time::ZERO; 2]; ranks as usize * per_host.1],
            per_host,
        },
        dependencies: Dependencies::new(graph),
        matching: Matching::of(graph),
        freed: Vec::new(),
        earliest: vec![Time::ZERO; if has_several { graph.len() } else { 0 }],
        ended: 0,
        messages: 0,
        events: 0,
        misfits: Misfits::default(),
        is_full: false,
    };
    for rank in 0..ranks {
        let free = graph.of_rank(rank);
        let free = free.filter(|id| replay.dependencies.is_free(*id));
        let first = replay.freed.len();
        replay
            .freed
            .extend(free.map(|id| (rank, graph.operation(id).kind, id)));
        replay.freed[first..].sort_by_key(|(_, kind, _)| *kind);
    }
    replay.enter();
    while let Some((now, first)) = replay.queue.pop() {
        if now > TIME_MAX {
            return Err(ReplayError::TooLong);
        }
        replay.look_ahead();
        replay.turn(now, first);
        if replay.is_full {
            return Err(ReplayError::TooMany);
        }
        if !replay.freed.is_empty() && replay.queue.next_time().is_none_or(|next| next > now) {
            replay.freed.sort_by_key(|(rank, kind, _)| (*rank, *kind));
            replay.enter();
        }
    }
    Ok(replay.outcome())
}

impl Replay<'_> {
    fn class(&self, rank: u32, id: u32) -> Class {
        let is_message = id & MESSAGE != 0;
        let operation = self.graph.operation(id & !MESSAGE);
        Class {
            host: if is_message { operation.peer } else { rank },
            is_message,
            kind: operation.kind,
            processor: operation.processor,
            adapter: operation.adapter,
        }
    }

    /// Asks for the memory of what comes soon.
    fn look_ahead(&self) {
        let [run, operation, named] = AHEAD;
        if let Some(place) = self.queue.upcoming(run) {
            prefetch(&raw const self.runs[place as usize]);
        }
        if let Some(place) = self.queue.upcoming(operation) {
            let id = self.runs[place as usize].head & !MESSAGE;
            self.graph.prefetch(id);
            self.dependencies.prefetch(id);
        }
        if let Some(place) = self.queue.upcoming(named) {
            let Run { head, rank, .. } = self.runs[place as usize];
            let class = self.class(rank, head);
            let id = head & !MESSAGE;
            let Operation { peer, tag, .. } = self.graph.operation(id);
            self.hosts.prefetch(class);
            prefetch(&raw const self.again[class.host as usize]);
            self.graph.prefetch_waiters(id);
            match class.kind {
                _ if class.is_message => self.matching.prefetch(class.host, rank, tag),
                Kind::Receive => self.matching.prefetch(rank, peer, tag),
                _ => {}
            }
        }
    }

    /// The turn of a host: all that tries at one moment.
    fn turn(&mut self, now: Time, first: u32) {
        if self.newest.is_some_and(|chain| chain.first == first) {
            self.newest = None;
        }
        let Run { head, rank, .. } = self.runs[first as usize];
        let host = self.class(rank, head).host;
        self.again[host as usize].retain(|chain| chain.first != first);
        let mut place = first;
        while place != NONE {
            let run = self.runs[place as usize];
            self.runs[place as usize].next = self.free_run;
            self.free_run = place;
            self.attempt(now, run);
            place = run.next;
        }
    }

    /// Puts a run into the queue: it tries behind whatever tries at that moment.
    fn put(&mut self, time: Time, run: Run, class: Class, lane: Lane) {
        let host = class.host;
        let is_there = |chain: &Chain| (chain.time, chain.host) == (time, host);
        let again = &mut self.again[host as usize];
        // What comes to a host behind what tries again there then is behind it in the list, too.
        let known = again.iter().position(is_there);
        if let Some(mut chain) = known.map(|at| again[at]).or(self.newest.filter(is_there)) {
            let last = &mut self.runs[chain.last as usize];
            let (head, rank) = (last.head, last.rank);
            if self.class(rank, head) == class {
                let last = &mut self.runs[chain.last as usize];
                *self.dependencies.word(last.tail) = run.head & !MESSAGE;
                last.tail = run.tail;
                if last.rank != run.rank {
                    last.rank = SEVERAL;
                }
            } else {
                let place = self.add(run);
                self.runs[chain.last as usize].next = place;
                chain.last = place;
            }
            if let Some(newest) = self.newest.as_mut().filter(|it| it.first == chain.first) {
                *newest = chain;
            }
            let again = &mut self.again[host as usize];
            match known {
                Some(at) => again[at] = chain,
                None if lane == self.lanes.again => again.push(chain),
                None => {}
            }
            return;
        }
        if self.queue.pending() >= PENDING_MAX {
            self.is_full = true;
            return;
        }
        let place = self.add(run);
        self.queue.schedule_in_lane(lane, time, place);
        let chain = Chain {
            time,
            host,
            first: place,
            last: place,
        };
        self.newest = Some(chain);
        if lane == self.lanes.again {
            self.again[host as usize].push(chain);
        }
    }

    fn add(&mut self, run: Run) -> u32 {
        if self.free_run == NONE {
            self.runs.push(run);
            return self.runs.len() as u32 - 1;
        }
        let place = self.free_run;
        let kept = &mut self.runs[place as usize];
        self.free_run = kept.next;
        *kept = run;
        place
    }

    /// What was freed enters the queue.
    fn enter(&mut self) {
        let mut freed = core::mem::take(&mut self.freed);
        let [_, operation, named] = AHEAD;
        for (place, (rank, _, id)) in freed.iter().copied().enumerate() {
            if let Some((_, _, id)) = freed.get(place + operation) {
                self.graph.prefetch(*id);
            }
            if let Some((rank, _, id)) = freed.get(place + named) {
                let class = self.class(*rank, *id);
                self.hosts.prefetch(class);
                prefetch(&raw const self.again[class.host as usize]);
            }
            let class = self.class(rank, id);
            let earliest = self.earliest.get(id as usize);
            let earliest = earliest.copied().unwrap_or(Time::ZERO);
            let time = self.hosts.free(class).max(earliest);
            let run = Run {
                head: id,
                tail: id,
                rank,
                next: NONE,
            };
            self.put(time, run, class, self.lanes.freed);
        }
        freed.clear();
        self.freed = freed;
    }

    /// The operations of a run begin, up to the first that finds its host busy.
    fn attempt(&mut self, now: Time, run: Run) {
        let mark = run.head & MESSAGE;
        let class = self.class(run.rank, run.head);
        let mut id = run.head & !MESSAGE;
        loop {
            self.events += 1;
            let free = self.hosts.free(class);
            if free > now && (class.is_message || class.kind != Kind::Receive) {
                let rest = Run {
                    head: id | mark,
                    next: NONE,
                    ..run
                };
                self.put(free, rest, class, self.lanes.again);
                return;
            }
            let next = *self.dependencies.word(id);
            if class.is_message {
                let sender = match run.rank {
                    SEVERAL => self.graph.rank_of(id),
                    rank => rank,
                };
                self.message(now, sender, id);
            } else {
                match class.kind {
                    Kind::Compute => self.compute(now, run.rank, id),
                    Kind::Send => self.send(now, run.rank, id),
                    Kind::Receive => self.receive(now, run.rank, id),
                }
            }
            if id == run.tail {
                return;
            }
            id = next;
        }
    }

    fn compute(&mut self, now: Time, rank: u32, id: OperationId) {
        let operation = self.graph.operation(id);
        let length = Time::from_picoseconds(operation.amount.saturating_mul(1000));
        let end = now.saturating_add(length);
        *self.hosts.processor(rank, operation.processor) = end;
        self.happened(rank, id, After::Start, now);
        self.end(rank, id, end);
    }

    fn send(&mut self, now: Time, rank: u32, id: OperationId) {
        let operation = self.graph.operation(id);
        let (processor, adapter) = self.parameters.costs(operation.amount);
        self.happened(rank, id, After::Start, now);
        let free = now.saturating_add(processor);
        *self.hosts.processor(rank, operation.processor) = free;
        self.hosts.adapter(rank, operation.adapter)[0] = now.saturating_add(adapter);
        self.messages += 1;
        let head = times(self.parameters.overhead, self.parameters.latency, 1);
        let arrives = now.saturating_add(head);
        let run = Run {
            head: id | MESSAGE,
            tail: id,
            rank,
            next: NONE,
        };
        let class = self.class(rank, run.head);
        self.put(arrives, run, class, self.lanes.messages);
        if operation.amount <= self.parameters.eager_bytes {
            self.end(rank, id, free);
        }
    }

    fn receive(&mut self, now: Time, rank: u32, id: OperationId) {
        let operation = self.graph.operation(id);
        self.happened(rank, id, After::Start, now);
        let message = self.matching.post(rank, operation.peer, operation.tag, id);
        if let Some(send) = message {
            self.matched(now, send, id);
            let free = *self.hosts.processor(rank, operation.processor);
            self.end(rank, id, free.max(now));
        }
    }

    /// A message is there, and its receiver's processor is free.
    fn message(&mut self, now: Time, source: u32, send: OperationId) {
        let operation = self.graph.operation(send);
        let rank = operation.peer;
        let (_, adapter) = self.parameters.costs(operation.amount);
        let free = now.saturating_add(self.parameters.receiving(operation.amount));
        *self.hosts.processor(rank, operation.processor) = free;
        self.hosts.adapter(rank, operation.adapter)[1] = now.saturating_add(adapter);
        if let Some(receive) = self.matching.arrive(rank, source, operation.tag, send) {
            self.matched(now, send, receive);
            self.end(rank, receive, free);
        }
    }

    /// A receive takes a message: a sender that waited for it goes on.
    fn matched(&mut self, now: Time, send: OperationId, receive: OperationId) {
        self.misfits.look_at(self.graph, send, receive);
        let operation = self.graph.operation(send);
        if operation.amount > self.parameters.eager_bytes {
            let sender = self.graph.rank_of(send);
            let processor = self.hosts.processor(sender, operation.processor);
            *processor = now.max(*processor);
            let adapter = &mut self.hosts.adapter(sender, operation.adapter)[0];
            *adapter = now.max(*adapter);
            self.end(sender, send, now);
        }
    }

    fn end(&mut self, rank: u32, id: OperationId, time: Time) {
        self.ended += 1;
        self.happened(rank, id, After::End, time);
    }

    fn happened(&mut self, rank: u32, id: OperationId, what: After, time: Time) {
        let graph = self.graph;
        if !self.earliest.is_empty() {
            for (waiter, after) in graph.waiters(id) {
                let earliest = &mut self.earliest[waiter as usize];
                if after == what {
                    *earliest = time.max(*earliest);
                }
            }
        }
        let freed = &mut self.freed;
        self.dependencies.happened(graph, id, what, |waiter| {
            freed.push((rank, graph.operation(waiter).kind, waiter));
        });
    }

    fn outcome(self) -> Outcome {
        let graph = self.graph;
        let ends = self.hosts.processors.chunks(self.hosts.per_host.0);
        let ends = ends.map(|of_host| of_host.iter().copied().max().unwrap_or(Time::ZERO));
        let left = graph.len() as u64 - self.ended;
        let again = self.again.iter().map(|of_host| of_host.capacity());
        let again = again.sum::<usize>() * size_of::<Chain>();
        let times = self.hosts.processors.capacity()
            + self.hosts.adapters.capacity() * 2
            + self.earliest.capacity();
        Outcome {
            ends: ends.collect(),
            messages: self.messages,
            events: self.events,
            stalled: Stalled::of(graph, &self.matching, left),
            misfits: self.misfits,
            state_bytes: self.queue.state_bytes()
                + self.matching.state_bytes()
                + self.dependencies.state_bytes()
                + self.runs.capacity() * size_of::<Run>()
                + self.again.capacity() * size_of::<Vec<Chain>>()
                + again
                + times * size_of::<Time>(),
        }
    }
}
