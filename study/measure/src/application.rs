//! A graph of operations carried out by programs over endpoints, each rank by one of its own.
//!
//! ```text
//!  eager       its bytes in requests of at most MTU_BYTES
//!  rendezvous  a request -> clearance: the reply, if a receive waits, or else a request when it is
//!              posted -> the bytes, as those of an eager one
//!  receive     ends when all bytes have been taken, and copied if it was not there by then
//! ```
//!
//! A send ends when its last request is posted: an endpoint copies what it is given. Messages of
//! virtual networks may overtake each other, so that those of a pair of ranks carry numbers, and
//! [`Matching`] is asked in that order.
//!
//! A rank begins what is free in the order sends, receives, computations, and takes messages, one
//! after the other, when nothing is; while it computes they wait in its endpoint. Before its time
//! runs, each rank has asked once whom it will send to: connections are made then, and endpoints
//! come into frames.
//!
//! Programs share an [`Application`], whose lock no call of a carrier or a host is made under.

mod report;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use viaduct_am::{
    Body, Carrier, Endpoint, HandlerId, Handlers, Key, MTU_BYTES, Name, Options, Reason,
};
use viaduct_operations::{
    After, Dependencies, Graph, Kind, Matching, Misfits, Operation, OperationId, Stalled,
};

pub use self::report::{ApplicationReport, ApplicationRow, RankTimes};
use crate::error::{MeasureError, Result};
use crate::host::Host;

/// The programs know each other.
const KEY: Key = Key(1);

/// Bytes of an eager message.
const EAGER: HandlerId = HandlerId::of(0);
/// Whether the receiver of a rendezvous is there.
const REQUEST: HandlerId = HandlerId::of(1);
/// That it is, and was not when it was asked.
const CLEARANCE: HandlerId = HandlerId::of(2);
/// Bytes of a rendezvous.
const DATA: HandlerId = HandlerId::of(3);
/// The first request from one rank to another, before any time counts.
const OPENING: HandlerId = HandlerId::of(4);
/// The reply to a request whose receiver is there.
const CLEARED: HandlerId = HandlerId::of(0);

/// Between two looks at whether the others are there.
const PAUSE: Duration = Duration::from_micros(10);

/// From when the last rank is there until all begin, so that each has heard of it.
const NOTICE_NS: u64 = 100_000;

/// How ranks talk to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Messaging {
    /// The longest message that is sent before its receiver has asked for it.
    pub eager_bytes: u64,
    /// Bytes a second that a receive copies, of an eager message that was there before it; infinite
    /// if that takes no time.
    pub copy_bytes_s: f64,
}

/// A graph that programs carry out together.
#[derive(Debug)]
pub struct Application {
    graph: Arc<Graph>,
    /// Of each rank, whom it will ask: whom it sends to, and whose rendezvous it answers.
    peers: Vec<Vec<u32>>,
    messaging: Messaging,
    progress: Mutex<Progress>,
}

/// What the programs have done.
#[derive(Debug)]
struct Progress {
    dependencies: Dependencies,
    matching: Matching,
    misfits: Misfits,
    /// By rank.
    names: Vec<Option<Name>>,
    /// Ranks that have asked all whom they send to.
    ready: u32,
    begin_ns: Option<u64>,
    /// Operations that have not ended.
    left: u64,
    /// Requests of ranks that wait which have not been answered; none of others.
    waiting: Vec<Option<u32>>,
    /// Nothing is left to do, or can be done.
    is_over: bool,
    has_failed: bool,
    stalled: Option<Stalled>,
    times: Vec<RankTimes>,
}

impl Application {
    /// Nothing of a graph has been carried out.
    ///
    /// # Errors
    ///
    /// For what programs over endpoints cannot do: a message of a rank to itself, and a second
    /// processor.
    pub fn new(graph: Arc<Graph>, messaging: Messaging) -> Result<Self> {
        let ranks = graph.ranks();
        let mut peers = vec![BTreeSet::new(); ranks as usize];
        for rank in 0..ranks {
            for id in graph.of_rank(rank) {
                let operation = graph.operation(id);
                let what = match operation.kind {
                    Kind::Compute if operation.processor > 0 && operation.amount > 0 => {
                        "programs over endpoints have one processor, number 0"
                    }
                    Kind::Send if operation.peer == rank => {
                        "a rank's interface has no way to the rank itself"
                    }
                    Kind::Send => {
                        peers[rank as usize].insert(operation.peer);
                        if operation.amount > messaging.eager_bytes {
                            peers[operation.peer as usize].insert(rank);
                        }
                        continue;
                    }
                    Kind::Receive | Kind::Compute => continue,
                };
                return Err(impossible(format!("{}: {what}", graph.name(id))));
            }
        }
        let peers = peers
            .into_iter()
            .map(|of_rank| of_rank.into_iter().collect());
        let times = (0..ranks).map(RankTimes::of);
        let progress = Progress {
            dependencies: Dependencies::new(&graph),
            matching: Matching::of(&graph),
            misfits: Misfits::default(),
            names: vec![None; ranks as usize],
            ready: 0,
            begin_ns: None,
            left: graph.len() as u64,
            waiting: vec![None; ranks as usize],
            is_over: false,
            has_failed: false,
            stalled: None,
            times: times.collect(),
        };
        Ok(Self {
            graph,
            peers: peers.collect(),
            messaging,
            progress: Mutex::new(progress),
        })
    }

    /// The program of a rank. It ends when all have nothing left to do. Where hosts wait until
    /// something comes it may then wait for ever: [`Self::is_over`] says whether they have.
    ///
    /// # Errors
    ///
    /// Why it ended before.
    pub fn carry_out<C: Carrier, H: Host>(&self, rank: u32, carrier: &C, host: &H) -> Result<()> {
        let ended = Program::start(self, rank, carrier, host).and_then(|mut program| program.run());
        self.lock().has_failed |= ended.is_err();
        ended
    }

    /// Whether nothing is left that the ranks can do.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// What has come of it.
    #[must_use]
    pub fn row(&self) -> ApplicationRow {
        let progress = self.lock();
        let mut row = ApplicationRow::of(&self.graph, &progress.times);
        row.ended = row.operations - progress.left;
        row.stalled = progress.stalled.clone();
        row.misfits = progress.misfits.clone();
        row
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    const fn is_eager(&self, bytes: u64) -> bool {
        bytes <= self.messaging.eager_bytes
    }
}

/// Requests that the bytes of a message take.
const fn pieces(bytes: u64) -> u64 {
    match bytes.div_ceil(MTU_BYTES as u64) {
        0 => 1,
        pieces => pieces,
    }
}

/// How far a rank is: what handlers work on.
struct Rank<'a, H> {
    application: &'a Application,
    host: &'a H,
    number: u32,
    /// What is free and has not begun, in the order in which it begins.
    free: BTreeSet<(Kind, u64, OperationId)>,
    freed: u64,
    /// The number of the next message to a rank, and from one.
    next_to: BTreeMap<u32, u64>,
    next_from: BTreeMap<u32, u64>,
    /// What came before others of its sender that went first.
    ahead: BTreeMap<(u32, u64), OperationId>,
    /// Pieces that are still to come, of messages of several.
    to_come: BTreeMap<OperationId, u64>,
    /// The receive of each rendezvous whose bytes are to come.
    cleared: BTreeMap<OperationId, OperationId>,
    /// Rendezvous whose senders are to be told, and those whose receivers are there.
    to_clear: VecDeque<OperationId>,
    to_send: VecDeque<OperationId>,
    /// Operations that have not ended.
    left: usize,
    returned: Option<Reason>,
    begin_ps: u64,
    waited_ps: u64,
    times: RankTimes,
}

impl<H: Host> Rank<'_, H> {
    fn operation(&self, id: OperationId) -> Operation {
        self.application.graph.operation(id)
    }

    /// Something of an operation has happened: what waits for it alone is free.
    fn happened(&mut self, id: OperationId, what: After) {
        let graph = &*self.application.graph;
        let (free, freed) = (&mut self.free, &mut self.freed);
        let mut progress = self.application.lock();
        progress.dependencies.happened(graph, id, what, |waiter| {
            *freed += 1;
            free.insert((graph.operation(waiter).kind, *freed, waiter));
        });
    }

    fn end(&mut self, id: OperationId) {
        self.happened(id, After::End);
        self.left -= 1;
        self.times.span_ps = self.host.now_ps() - self.begin_ps;
        self.times.waiting_ps = self.waited_ps;
        self.application.lock().left -= 1;
    }

    fn compute(&mut self, time_ns: u64) {
        if time_ns > 0 {
            self.times.computing_ps += self.host.compute(time_ns);
        }
    }

    /// The send that the first word of a message names.
    fn send_of(&self, words: &[u64]) -> Option<OperationId> {
        let send = OperationId::try_from(*words.first()?).ok()?;
        let is_it = (send as usize) < self.application.graph.len();
        is_it.then_some(send)
    }

    /// The same of a request, which ends a wait: whoever made it knows that when it is answered.
    fn hear(&mut self, words: &[u64]) -> Option<OperationId> {
        self.application.lock().waiting[self.number as usize] = None;
        self.send_of(words)
    }

    /// Whether a piece of a message was its last one.
    fn is_whole(&mut self, send: OperationId) -> bool {
        let all = pieces(self.operation(send).amount);
        let left = self.to_come.entry(send).or_insert(all);
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.to_come.remove(&send);
        }
        is_last
    }

    /// An eager message or a request of a rendezvous has come, with its number: it takes a receive,
    /// or waits for one, when those before it have.
    fn come(&mut self, send: OperationId, words: &[u64]) {
        let source = self.application.graph.rank_of(send);
        let number = words.get(1).copied().unwrap_or_default();
        self.ahead.insert((source, number), send);
        loop {
            let next = self.next_from.entry(source).or_default();
            let Some(send) = self.ahead.remove(&(source, *next)) else {
                return;
            };
            *next += 1;
            let tag = self.operation(send).tag;
            let matched = {
                let mut progress = self.application.lock();
                progress.matching.arrive(self.number, source, tag, send)
            };
            if let Some(receive) = matched {
                self.meet(send, receive, true);
            }
        }
    }

    /// A receive takes a message that has come now, or before it, or lets it come.
    fn meet(&mut self, send: OperationId, receive: OperationId, has_come_now: bool) {
        let graph = &*self.application.graph;
        (self.application.lock().misfits).look_at(graph, send, receive);
        let bytes = self.operation(send).amount;
        if !self.application.is_eager(bytes) {
            self.cleared.insert(send, receive);
            self.to_clear.push_back(send);
            return;
        }
        if !has_come_now {
            let seconds = bytes as f64 / self.application.messaging.copy_bytes_s;
            self.compute((seconds * 1e9).round() as u64);
        }
        self.end(receive);
    }
}

fn handlers<'a, C: Carrier, H: Host>() -> Arc<Handlers<C, Rank<'a, H>>> {
    let handlers = Handlers::new(|rank: &mut Rank<'a, H>, returned| {
        rank.returned = Some(returned.reason);
    })
    .on_request(EAGER, |rank, request| {
        if let Some(send) = rank.hear(request.words())
            && rank.is_whole(send)
        {
            rank.come(send, request.words());
        }
    })
    .on_request(REQUEST, |rank, request| {
        let Some(send) = rank.hear(request.words()) else {
            return;
        };
        rank.come(send, request.words());
        if let Some(place) = rank.to_clear.iter().position(|it| *it == send) {
            rank.to_clear.remove(place);
            // One word is not too many.
            let _ = request.reply(CLEARED, &[send.into()]);
        }
    })
    .on_request(CLEARANCE, |rank, request| {
        let send = rank.hear(request.words());
        rank.to_send.extend(send);
    })
    .on_request(DATA, |rank, request| {
        if let Some(send) = rank.hear(request.words())
            && rank.is_whole(send)
            && let Some(receive) = rank.cleared.remove(&send)
        {
            rank.end(receive);
        }
    })
    .on_request(OPENING, |_, _| {})
    .on_reply(CLEARED, |rank, reply| {
        let send = rank.send_of(reply.words());
        rank.to_send.extend(send);
    });
    Arc::new(handlers)
}

/// A rank's program.
struct Program<'a, C: Carrier, H> {
    endpoint: Endpoint<C, Rank<'a, H>>,
}

impl<'a, C: Carrier, H: Host> Program<'a, C, H> {
    /// A rank that knows whom it sends to, at the moment when all begin.
    fn start(application: &'a Application, number: u32, carrier: &C, host: &'a H) -> Result<Self> {
        let graph = &*application.graph;
        let rank = Rank {
            application,
            host,
            number,
            free: BTreeSet::new(),
            freed: 0,
            next_to: BTreeMap::new(),
            next_from: BTreeMap::new(),
            ahead: BTreeMap::new(),
            to_come: BTreeMap::new(),
            cleared: BTreeMap::new(),
            to_clear: VecDeque::new(),
            to_send: VecDeque::new(),
            left: graph.of_rank(number).len(),
            returned: None,
            begin_ps: 0,
            waited_ps: 0,
            times: RankTimes::of(number),
        };
        let made = Endpoint::new(carrier, &handlers(), rank, Options::new(KEY));
        let mut program = Self {
            endpoint: made.map_err(impossible)?,
        };
        application.lock().names[number as usize] = Some(program.endpoint.name());
        while application.lock().names.iter().any(Option::is_none) {
            program.pause()?;
        }
        for peer in &application.peers[number as usize] {
            let name = application.lock().names[*peer as usize];
            let name = name.ok_or_else(|| impossible("a rank has no endpoint"))?;
            let mapped = program.endpoint.map(*peer as usize, &name, KEY);
            mapped.map_err(impossible)?;
            program.request(*peer, OPENING, &[], 0)?;
        }
        program.answered()?;
        {
            let mut progress = application.lock();
            progress.ready += 1;
            if progress.ready == graph.ranks() {
                progress.begin_ns = Some(host.now_ns() + NOTICE_NS);
            }
        }
        let begin_ns = loop {
            let begin_ns = application.lock().begin_ns;
            match begin_ns {
                Some(begin_ns) => break begin_ns,
                None if program.endpoint.poll() > 0 => {}
                None => program.pause()?,
            }
        };
        host.sleep(Duration::from_nanos(begin_ns.saturating_sub(host.now_ns())));
        let rank = program.endpoint.state_mut();
        (rank.begin_ps, rank.waited_ps) = (host.now_ps(), 0);
        Ok(program)
    }

    fn rank(&self) -> &Rank<'a, H> {
        self.endpoint.state()
    }

    /// Whether it is to go on.
    fn check(&self) -> Result<()> {
        let rank = self.rank();
        if let Some(reason) = rank.returned {
            return Err(MeasureError::Returned { reason });
        }
        if let Some(reason) = rank.host.stop_reason() {
            return Err(MeasureError::Stopped { reason });
        }
        if rank.application.lock().has_failed {
            let reason = "the program of another rank has failed".to_owned();
            return Err(MeasureError::Stopped { reason });
        }
        Ok(())
    }

    fn pause(&self) -> Result<()> {
        self.check()?;
        self.rank().host.sleep(PAUSE);
        Ok(())
    }

    /// Handles a message, or waits until it is worth to look again.
    fn take(&mut self) -> Result<()> {
        if self.endpoint.poll_at_most(1) == 0 {
            self.check()?;
            let host = self.rank().host;
            let from_ps = host.now_ps();
            host.relax();
            let waited_ps = host.now_ps() - from_ps;
            self.endpoint.state_mut().waited_ps += waited_ps;
        }
        Ok(())
    }

    /// Posts a request with so many bytes; takes messages while there is no room.
    fn request(&mut self, peer: u32, handler: HandlerId, words: &[u64], bytes: u64) -> Result<()> {
        // What is sent says nothing.
        static BYTES: [u8; MTU_BYTES] = [0; MTU_BYTES];
        let bytes = usize::try_from(bytes).unwrap_or(MTU_BYTES).min(MTU_BYTES);
        let body = match bytes {
            0 => Body::Short,
            bytes => Body::Medium(&BYTES[..bytes]),
        };
        loop {
            let tried = (self.endpoint).try_request(peer as usize, handler, words, body);
            match tried {
                Ok(()) => return Ok(()),
                Err(error) if error.is_back_pressure() => self.take()?,
                Err(error) => return Err(impossible(format!("cannot send: {error}"))),
            }
        }
    }

    /// Waits until all requests are answered.
    fn answered(&mut self) -> Result<()> {
        while self.endpoint.outstanding() > 0 {
            self.take()?;
        }
        Ok(())
    }

    /// Posts all bytes of a message, which ends its send.
    fn post_bytes(&mut self, send: OperationId, handler: HandlerId, number: u64) -> Result<()> {
        let Operation { amount, peer, .. } = self.rank().operation(send);
        let mut left = amount;
        for _ in 0..pieces(amount) {
            let bytes = left.min(MTU_BYTES as u64);
            self.request(peer, handler, &[send.into(), number], bytes)?;
            left -= bytes;
        }
        self.endpoint.state_mut().times.sent_bytes += amount;
        self.endpoint.state_mut().end(send);
        Ok(())
    }

    fn send(&mut self, send: OperationId) -> Result<()> {
        let Operation { amount, peer, .. } = self.rank().operation(send);
        let next = self.endpoint.state_mut().next_to.entry(peer).or_default();
        let number = *next;
        *next += 1;
        self.endpoint.state_mut().times.messages += 1;
        match self.rank().application.is_eager(amount) {
            true => self.post_bytes(send, EAGER, number),
            false => self.request(peer, REQUEST, &[send.into(), number], 0),
        }
    }

    fn begin(&mut self, id: OperationId) -> Result<()> {
        let rank = self.endpoint.state_mut();
        rank.happened(id, After::Start);
        let operation = rank.operation(id);
        match operation.kind {
            Kind::Send => return self.send(id),
            Kind::Receive => {
                let (number, source, tag) = (rank.number, operation.peer, operation.tag);
                let matched = (rank.application.lock().matching).post(number, source, tag, id);
                if let Some(send) = matched {
                    rank.meet(send, id, false);
                }
            }
            Kind::Compute => {
                rank.compute(operation.amount);
                rank.end(id);
            }
        }
        Ok(())
    }

    /// Carries out all operations of the rank, or as many as it comes to.
    fn run(&mut self) -> Result<()> {
        let rank = self.endpoint.state_mut();
        let graph = &*rank.application.graph;
        {
            let dependencies = &rank.application.lock().dependencies;
            let free = graph.of_rank(rank.number);
            let free = free.filter(|id| dependencies.is_free(*id));
            rank.free
                .extend(free.map(|id| (graph.operation(id).kind, 0, id)));
        }
        while !self.is_over() {
            let rank = self.endpoint.state_mut();
            if let Some(send) = rank.to_clear.pop_front() {
                let sender = graph.rank_of(send);
                self.request(sender, CLEARANCE, &[send.into()], 0)?;
            } else if let Some(send) = rank.to_send.pop_front() {
                self.post_bytes(send, DATA, 0)?;
            } else if let Some((_, _, id)) = rank.free.pop_first() {
                self.begin(id)?;
                self.check()?;
            } else {
                self.take()?;
            }
        }
        Ok(())
    }

    /// Whether nobody has anything more to do.
    fn is_over(&self) -> bool {
        let rank = self.rank();
        let has_work =
            !(rank.free.is_empty() && rank.to_clear.is_empty() && rank.to_send.is_empty());
        let outstanding = self.endpoint.outstanding();
        let mut progress = rank.application.lock();
        progress.waiting[rank.number as usize] = (!has_work).then_some(outstanding);
        if has_work {
            return false;
        }
        progress.times[rank.number as usize] = rank.times;
        // All wait, and no request is on its way that could end that.
        if progress
            .waiting
            .iter()
            .all(|outstanding| *outstanding == Some(0))
        {
            let graph = &*rank.application.graph;
            progress.stalled = Stalled::of(graph, &progress.matching, progress.left);
            progress.is_over = true;
        }
        progress.is_over
    }
}

fn impossible(reason: impl fmt::Display) -> MeasureError {
    MeasureError::Impossible {
        reason: reason.to_string(),
    }
}
