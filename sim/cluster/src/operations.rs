//! An application carried out: a graph of operations, by hosts through their adapters.
//!
//! ```text
//!  Arrival:  the first operations of a rank are free
//!  compute:  a processor is busy -> Operation
//!  send:     eager: its bytes are posted, and it ends when the processor has done that
//!            rendezvous: request -> clearance -> its bytes, and it ends when they have left
//!  receive:  waits for a message or request, or finds it; ends when all bytes are taken, and
//!            copied if an eager message was there before it
//!  Reaped:   a message has come: it takes a receive, or waits for one
//! ```
//!
//! Requests and clearances are messages of no bytes, on the connection that the bytes take, too. A
//! message of more bytes than one descriptor takes goes in pieces, all posted at once.
//!
//! What is free at one moment begins in the order sends, receives, computations, so that a message
//! does not wait for a computation that does not need it. A host's messages are handled by its one
//! processor. Computations of processor 0 are done by it, too; those of other processors, and of
//! ranks that share a host, by processors of their own.
//!
//! A message between ranks of one host goes to no adapter: a rank's local link takes one after the
//! other, and no processor has any work with it.
//!
//! At the end of a run [`Stalled`] says what has not ended, and who waits for whom.

mod account;
mod busy;
mod causes;
mod state;

use viaduct_engine::Time;
use viaduct_operations::{After, Kind, NAMES_MAX, Operation, OperationId, Stalled};

pub use self::causes::Activity;
pub(crate) use self::causes::{Causes, Leg, Links, Timed};
pub use self::state::{Moments, Operations};
use crate::adapters::AdapterChoice;
use crate::cluster::Cluster;
use crate::event::Event;
use crate::host::{BlockedPost, Drawn};
use crate::message::MessageId;
use crate::programs::Programs;
use crate::trace::Span;
use crate::why::Record;
use crate::workload::MessageOperation;

/// What a message is to the operation that it belongs to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// Bytes of an eager send, or a piece of them.
    Eager = 0,
    /// Of a rendezvous: whether the receiver is there.
    Request = 1,
    /// That it is.
    Clearance = 2,
    /// Bytes of a rendezvous, or a piece of them.
    Data = 3,
}

impl Role {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Request => "request",
            Self::Clearance => "clearance",
            Self::Data => "data",
        }
    }
}

/// How a send is carried out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// By the local link, to a rank of the same host.
    Local,
    /// Its bytes are posted at once.
    Eager,
    /// Its receiver is asked for, first.
    Rendezvous,
}

/// An operation and the role of a message in it: the latter in the two highest bits.
#[derive(Clone, Copy, Debug)]
pub struct Part(u32);

const ROLE_SHIFT: u32 = 30;

impl Part {
    /// Of a send and a role.
    #[must_use]
    pub const fn new(send: OperationId, role: Role) -> Self {
        Self(send | (role as u32) << ROLE_SHIFT)
    }

    /// What [`Part::word`] gave.
    #[must_use]
    pub const fn of_word(word: u32) -> Self {
        Self(word)
    }

    /// Both in a word.
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// The send.
    #[must_use]
    pub const fn send(self) -> OperationId {
        self.0 & ((1 << ROLE_SHIFT) - 1)
    }

    /// The role.
    #[must_use]
    pub const fn role(self) -> Role {
        match self.0 >> ROLE_SHIFT {
            0 => Role::Eager,
            1 => Role::Request,
            2 => Role::Clearance,
            _ => Role::Data,
        }
    }
}

/// Marks the event of a message within a host that comes, not of an operation that ends.
const COMES: u32 = 1 << 31;
/// Marks the event of a rendezvous one of whose ends has registered its bytes: its sender, or with
/// [`COMES`] its receiver.
const REGISTERED: u32 = 1 << 30;

impl<P: Programs> Cluster<P> {
    /// Schedules the beginning of each rank.
    pub(crate) fn schedule_ranks(&mut self, start: Time) {
        let Some(operations) = &mut self.operations else {
            return;
        };
        for rank in 0..operations.graph().ranks() {
            if !operations.graph().of_rank(rank).is_empty() {
                operations.going += 1;
                let process = operations.places.process_of(rank);
                self.queue.schedule(start, Event::Arrival(process));
            }
        }
    }

    /// A rank begins with what waits for nothing.
    pub(crate) fn begin_rank(&mut self, process: u32) {
        let Some(operations) = &mut self.operations else {
            return;
        };
        operations.going -= 1;
        if let Some(rank) = operations.places.rank_of(process) {
            operations.begin(rank);
        }
        self.begin_free();
    }

    /// Begins what is free, and what becomes free by that.
    fn begin_free(&mut self) {
        let Some(operations) = &mut self.operations else {
            return;
        };
        if core::mem::replace(&mut operations.is_beginning, true) {
            return;
        }
        let mut begun = Vec::new();
        while let Some(operations) = &mut self.operations
            && !operations.free.is_empty()
        {
            core::mem::swap(&mut begun, &mut operations.free);
            begun.sort_by_key(|(_, kind, _)| *kind);
            for (rank, _, id) in begun.drain(..) {
                self.begin_operation(rank, id);
            }
        }
        if let Some(operations) = &mut self.operations {
            operations.is_beginning = false;
            if operations.free.capacity() < begun.capacity() {
                operations.free = begun;
            }
        }
    }

    fn begin_operation(&mut self, rank: u32, id: OperationId) {
        let now = self.queue.now();
        let (stop, has_failures) = (self.config.traffic.stop, self.failures.is_some());
        let Some(operations) = &mut self.operations else {
            return;
        };
        if now >= stop {
            operations.is_cut = true;
            return;
        }
        let process = operations.places.process_of(rank);
        let operation = operations.graph().operation(id);
        if has_failures && self.is_dead(process) {
            return;
        }
        if let Some(operations) = &mut self.operations {
            operations.happened(rank, id, After::Start);
        }
        match operation.kind {
            Kind::Compute => self.compute(rank, id, operation),
            Kind::Send => self.send(rank, id, operation),
            Kind::Receive => {
                let Some(operations) = &mut self.operations else {
                    return;
                };
                if let Some(send) = operations.post_receive(rank, id) {
                    self.take(send, (rank, id), false);
                }
            }
        }
    }

    /// An operation ends now; `peer` is the rank that it was with, if it could not end without it.
    fn end_operation(&mut self, rank: u32, id: OperationId, peer: Option<u32>) {
        let now = self.queue.now();
        self.note_idle(rank, peer);
        if let Some(operations) = &mut self.operations {
            operations.end(rank, id, now);
        }
    }

    /// An operation ends at a time, which may be now.
    fn end_at(&mut self, rank: u32, id: OperationId, time: Time) {
        let now = self.queue.now();
        let Some(operations) = &mut self.operations else {
            return;
        };
        if time > now {
            operations.going += 1;
            self.queue.schedule(time, Event::Operation(id));
        } else {
            self.end_operation(rank, id, None);
        }
    }

    /// An operation ends, or a message within a host comes.
    pub(crate) fn handle_operation(&mut self, place: u32) {
        let has_failures = self.failures.is_some();
        let Some(operations) = &mut self.operations else {
            return;
        };
        operations.going -= 1;
        let id = place & !(COMES | REGISTERED);
        let graph = operations.graph();
        let rank = match place & (COMES | REGISTERED) == COMES | REGISTERED {
            true => graph.operation(id).peer,
            false => graph.rank_of(id),
        };
        // Only of a rendezvous does a send wait for its peer.
        let Operation { kind, peer, .. } = operations.graph().operation(id);
        let is_met = kind == Kind::Send && operations.way(id) == Way::Rendezvous;
        let peer = is_met.then_some(peer);
        // Nothing within a host goes on when that is dead.
        let process = operations.places.process_of(rank);
        if has_failures && self.is_dead(process) {
            return;
        }
        if place & REGISTERED != 0 {
            self.note_registered(rank, id);
        } else if place & COMES != 0 {
            self.note_come(id);
        } else {
            self.end_operation(rank, id, peer);
        }
        self.begin_free();
    }

    /// A message within a host has come.
    fn note_come(&mut self, send: OperationId) {
        let now = self.queue.now();
        if let Some(operations) = &mut self.operations
            && let Some(timed) = operations.timed(send, Activity::LocalMessage)
        {
            timed.end = now;
        }
        self.offer(send);
    }

    fn compute(&mut self, rank: u32, id: OperationId, operation: Operation) {
        let now = self.queue.now();
        let span = Time::from_nanoseconds(operation.amount);
        let Some(operations) = &mut self.operations else {
            return;
        };
        let process = operations.places.process_of(rank);
        let processor = usize::from(operation.processor);
        let (begin, end) = match self
            .numbering
            .computing(process, operation.processor.into())
        {
            Some(shared) => self.processors[shared].work(now, span),
            None => {
                let of_host = self
                    .numbering
                    .processors_of(process / self.processes_per_host);
                let each = operations.graph().processors() as usize;
                let free = &mut operations.processors[process as usize * each + processor];
                let begin = now.max(*free);
                *free = begin + self.processors[of_host.start].stretched(begin, span);
                (begin, *free)
            }
        };
        let account = &mut operations.ranks[rank as usize];
        account.computes(now, (begin, end), processor);
        if let Some(timed) = operations.timed(id, Activity::Compute) {
            (timed.begin, timed.waited) = (now, begin - now);
        }
        self.end_at(rank, id, end);
    }

    fn send(&mut self, rank: u32, id: OperationId, operation: Operation) {
        let Some(operations) = &self.operations else {
            return;
        };
        match operations.way(id) {
            Way::Local => self.send_locally(rank, id, operation),
            Way::Eager => self.post_bytes(id, Role::Eager),
            Way::Rendezvous => self.register(rank, id),
        }
    }

    /// One end of a rendezvous registers its bytes, if that is to be done and takes time, and goes
    /// on.
    fn register(&mut self, rank: u32, send: OperationId) {
        let Some(operations) = &self.operations else {
            return;
        };
        let protocol = operations.application.protocol();
        let (sender, bytes) = {
            let graph = operations.graph();
            (graph.rank_of(send), graph.operation(send).amount)
        };
        let memory = self.config.host.of(operations.host_of(rank)).memory;
        let span = match protocol.handling.registers {
            true => memory.registration(bytes),
            false => Time::ZERO,
        };
        if span == Time::ZERO {
            return self.post_answer(rank, send);
        }
        let (activity, mark) = match rank == sender {
            true => (Activity::RegisterSent, REGISTERED),
            false => (Activity::RegisterReceived, REGISTERED | COMES),
        };
        let done = self.work_for(rank, (send, activity), span);
        if let Some(operations) = &mut self.operations {
            operations.going += 1;
            self.queue.schedule(done, Event::Operation(send | mark));
        }
    }

    /// One end of a rendezvous has registered its bytes.
    fn note_registered(&mut self, rank: u32, send: OperationId) {
        let now = self.queue.now();
        if let Some(operations) = &mut self.operations {
            let activity = match rank == operations.graph().rank_of(send) {
                true => Activity::RegisterSent,
                false => Activity::RegisterReceived,
            };
            if let Some(timed) = operations.timed(send, activity) {
                timed.end = now;
            }
        }
        self.post_answer(rank, send);
    }

    /// The sender of a rendezvous asks for its receiver, or that answers.
    fn post_answer(&mut self, rank: u32, send: OperationId) {
        let Some(operations) = &self.operations else {
            return;
        };
        let graph = operations.graph();
        let (sender, receiver) = (graph.rank_of(send), graph.operation(send).peer);
        let (to, role) = match rank == sender {
            true => (receiver, Role::Request),
            false => (sender, Role::Clearance),
        };
        self.post_part((rank, to), 0, Part::new(send, role), None);
    }

    /// The processor that handles a rank's messages works for one of them: when it is done.
    fn work_for(
        &mut self,
        rank: u32,
        (operation, activity): (OperationId, Activity),
        span: Time,
    ) -> Time {
        let now = self.queue.now();
        let Some(operations) = &mut self.operations else {
            return now;
        };
        operations.begins(operation, activity, now);
        let process = operations.places.process_of(rank);
        let processor = self.processor_of(self.host_of(process), process);
        let (begin, end) = self.processors[processor].work(now, span);
        self.note_messaging(process, Span { begin, end });
        end
    }

    /// A send to a rank of the same host: the rank's local link takes it when it has sent all
    /// before.
    fn send_locally(&mut self, rank: u32, id: OperationId, operation: Operation) {
        let now = self.queue.now();
        let Some(operations) = &mut self.operations else {
            return;
        };
        let Some(link) = operations.application.protocol().local else {
            return;
        };
        let bytes = operation.amount as f64;
        let span = (bytes / link.rate.bytes_per_picosecond() + 0.5) as u64;
        let account = &mut operations.ranks[rank as usize];
        let sent = account.local_free.max(now) + Time::from_picoseconds(span);
        account.local_free = sent;
        operations.local_messages += 1;
        operations.begins(id, Activity::LocalSend, now);
        operations.begins(id, Activity::LocalMessage, now);
        operations.going += 1;
        let comes = sent.saturating_add(link.latency);
        self.queue.schedule(comes, Event::Operation(id | COMES));
        self.end_at(rank, id, sent);
    }

    /// Posts the bytes of a send, in as many pieces as it takes.
    fn post_bytes(&mut self, send: OperationId, role: Role) {
        let now = self.queue.now();
        let Some(operations) = &mut self.operations else {
            return;
        };
        let rank = operations.graph().rank_of(send);
        let Operation { amount, peer, .. } = operations.graph().operation(send);
        let (pieces, last) = operations.application.pieces(amount);
        let each = operations.application.piece_bytes(amount);
        let adapters = operations.application.protocol().adapters;
        if role == Role::Data {
            operations.going += u64::from(pieces);
            operations.begins(send, Activity::Leave, now);
        } else {
            operations.begins(send, Activity::Post, now);
        }
        let part = Part::new(send, role);
        let is_striped = role == Role::Data && adapters.choice == AdapterChoice::Stripe;
        let stripe = |piece: u32| is_striped.then_some((piece % adapters.count) as u8);
        for piece in 0..pieces {
            let bytes = if piece + 1 < pieces { each } else { last };
            self.post_part((rank, peer), bytes, part, stripe(piece));
        }
    }

    /// Posts a message from one rank to another, as a stripe of one if it is such.
    fn post_part(&mut self, (from, to): (u32, u32), bytes: u32, part: Part, stripe: Option<u8>) {
        let now = self.queue.now();
        let Some(operations) = &mut self.operations else {
            return;
        };
        operations.begins(part.send(), Activity::Message(part.role()), now);
        operations.parts.push(part);
        let places = &operations.places;
        let (source, target) = (places.process_of(from), places.process_of(to));
        let named = match operations.application.protocol().adapters.choice {
            AdapterChoice::Operation => Some(operations.graph().operation(part.send()).adapter),
            _ => stripe,
        };
        let drawn = Drawn {
            target,
            bytes,
            operation: MessageOperation::Send,
        };
        self.want_to_send(source, drawn, named);
    }

    /// A message was posted, or could not be: an eager send ends when the processor is done with
    /// all of its pieces.
    pub(crate) fn note_posted(&mut self, wish: &BlockedPost) {
        let processor = self.processor_of(self.host_of(wish.process), wish.process);
        let worked = self.processors[processor].free;
        let process = self.home_port(wish.process);
        let Some(operations) = &mut self.operations else {
            return;
        };
        let Some(part) = operations.part(wish.number) else {
            return;
        };
        if part.role() != Role::Eager {
            return;
        }
        let send = part.send();
        let amount = operations.graph().operation(send).amount;
        let (pieces, _) = operations.application.pieces(amount);
        if Operations::passes(&mut operations.to_leave, send, pieces)
            && let Some(rank) = operations.places.rank_of(process)
        {
            self.end_at(rank, send, worked);
            self.begin_free();
        }
    }

    /// The sender of a message learns at a time that it has left: a rendezvous ends with its last
    /// piece.
    pub(crate) fn note_left(&mut self, number: u64, told: Time) {
        let Some(operations) = &mut self.operations else {
            return;
        };
        let Some(part) = operations.part(number) else {
            return;
        };
        if part.role() != Role::Data {
            return;
        }
        operations.going -= 1;
        let send = part.send();
        let amount = operations.graph().operation(send).amount;
        let (pieces, _) = operations.application.pieces(amount);
        if Operations::passes(&mut operations.to_leave, send, pieces) {
            // In an event of its own: the sender may be in the midst of something.
            operations.going += 1;
            self.queue.schedule(told, Event::Operation(send));
        }
    }

    /// The application has a message.
    pub(crate) fn note_taken(&mut self, id: MessageId) {
        let number = self.messages.get(id).number;
        let Some(operations) = &mut self.operations else {
            return;
        };
        let Some(part) = operations.part(number) else {
            return;
        };
        let (send, role) = (part.send(), part.role());
        if let Role::Eager | Role::Data = role {
            let amount = operations.graph().operation(send).amount;
            let (pieces, _) = operations.application.pieces(amount);
            if !Operations::passes(&mut operations.to_come, send, pieces) {
                return;
            }
        }
        if operations.timed(send, Activity::Message(role)).is_some() {
            self.time_message(id, Activity::Message(role), send);
        }
        match role {
            Role::Eager | Role::Request => self.offer(send),
            Role::Clearance => self.post_bytes(send, Role::Data),
            Role::Data => self.end_receive(send),
        }
        self.begin_free();
    }

    /// The bytes of a rendezvous are there.
    fn end_receive(&mut self, send: OperationId) {
        if let Some(operations) = &mut self.operations
            && let Some(receive) = operations.cleared.remove(&send)
        {
            let graph = operations.graph();
            let (rank, source) = (graph.operation(send).peer, graph.rank_of(send));
            self.end_operation(rank, receive, Some(source));
        }
    }

    /// A message of the critical path was taken now.
    #[cold]
    fn time_message(&mut self, id: MessageId, activity: Activity, send: OperationId) {
        let now = self.queue.now();
        let record = self.record_of(id);
        if let Some(operations) = &mut self.operations
            && let Some(timed) = operations.timed(send, activity)
        {
            (timed.end, timed.message) = (now, Some(record));
        }
    }

    /// A message that its receiver has now.
    fn record_of(&self, id: MessageId) -> Record {
        let now = self.queue.now();
        let message = self.messages.get(id);
        let mut stages = message.stages;
        if self.is_direct {
            for (stage, span) in message.spans_directly(now) {
                stages[stage as usize] = span.picoseconds();
            }
        }
        Record {
            message: message.name(self.processes_per_host),
            posted: message.posted,
            latency: now - message.posted,
            floor: message.floor,
            stages,
        }
    }

    /// A message or the request of one has come: it takes a receive, or waits for one.
    fn offer(&mut self, send: OperationId) {
        let Some(operations) = &mut self.operations else {
            return;
        };
        let peer = operations.graph().operation(send).peer;
        if let Some(receive) = operations.arrive(send) {
            self.take(send, (peer, receive), true);
        }
    }

    /// A receive of a rank takes a message that has come now, or before it, or lets it come.
    fn take(&mut self, send: OperationId, (rank, receive): (u32, OperationId), has_come_now: bool) {
        let now = self.queue.now();
        let Some(operations) = &mut self.operations else {
            return;
        };
        let graph = operations.application.graph();
        let source = graph.rank_of(send);
        let adapter = graph.operation(send).adapter;
        let way = operations.way(send);
        if adapter != graph.operation(receive).adapter
            && way != Way::Local
            && self.violations.len() < NAMES_MAX
        {
            let (send, receive) = (graph.name(send), graph.name(receive));
            let shown = operations.application.shown();
            self.violations.push(format!(
                "{shown}: a message comes by the adapter of its send, and its receive names \
                 another: {send}, {receive}"
            ));
        }
        operations.misfits.look_at(graph, send, receive);
        if way == Way::Rendezvous {
            operations.cleared.insert(send, receive);
            return self.register(rank, send);
        }
        let copy_rate = operations.application.protocol().handling.copy_rate;
        let copied = match way == Way::Eager && !has_come_now {
            true => copy_rate.time_for(graph.operation(send).amount as f64),
            false => Time::ZERO,
        };
        if copied == Time::ZERO {
            operations.begins(receive, Activity::Copy, now);
            return self.end_operation(rank, receive, Some(source));
        }
        let done = self.work_for(rank, (receive, Activity::Copy), copied);
        self.end_at(rank, receive, done);
    }

    /// Whether an application has ended, or nothing that it waits for can happen any more.
    #[inline]
    pub(crate) fn is_application_over(&self) -> bool {
        let counts = &self.accounting.counts;
        let is_idle = |operations: &Operations| operations.going == 0;
        self.operations.as_deref().is_some_and(is_idle)
            && counts.posted == counts.delivered + counts.dropped
    }

    /// What has not ended although nothing can happen any more, if anything.
    pub(crate) fn stalled(&self) -> Option<Stalled> {
        let is_over = self.is_application_over();
        self.operations.as_deref().filter(|_| is_over)?.stalled()
    }
}
