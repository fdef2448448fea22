//! What an endpoint needs of whatever moves its messages.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::handlers::Reason;
use crate::message::{HandlerId, Message, Words};
use crate::name::{Key, Name};

/// An endpoint, as its carrier numbers it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Slot(pub u32);

/// A set of endpoints that are polled together, as their carrier numbers it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Group(pub u32);

/// What is waited for: an endpoint, or any of a group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Watch {
    /// One endpoint.
    Endpoint(Slot),
    /// Any of these.
    Group(Group),
}

/// A set of handler numbers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HandlerSet(u64);

impl HandlerSet {
    /// Puts one in.
    pub fn insert(&mut self, handler: HandlerId) {
        self.0 |= 1 << handler.number();
    }

    /// Whether it is in.
    #[must_use]
    pub const fn contains(self, handler: HandlerId) -> bool {
        self.0 >> handler.number() & 1 != 0
    }
}

/// What an endpoint lets in; what does not fit goes back to its sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Admission {
    /// The key that a request has to carry.
    pub key: Key,
    /// Handlers of requests.
    pub request_handlers: HandlerSet,
    /// Handlers of replies.
    pub reply_handlers: HandlerSet,
    /// Requests that can wait to be taken, at least 1.
    pub request_entries: u32,
    /// Requests that this endpoint will have outstanding, at most: their replies have room.
    pub credits: u32,
    /// Bytes of the segment that bulk messages are written to.
    pub segment_bytes: u64,
}

/// The body of a message that arrived.
#[derive(Clone, Debug)]
pub enum ContentBody<P> {
    /// Nothing.
    Short,
    /// Bytes for the handler.
    Medium(P),
    /// Bytes for the segment; the carrier has checked that they fit.
    Bulk {
        /// Where in the segment.
        offset: u64,
        /// The bytes.
        bytes: P,
    },
}

/// A message that arrived.
#[derive(Clone, Debug)]
pub struct Content<P> {
    /// Which handler.
    pub handler: HandlerId,
    /// Its words.
    pub words: Words,
    /// Its body.
    pub body: ContentBody<P>,
}

/// Which of the two halves of an exchange a message is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// The first.
    Request,
    /// The answer.
    Reply,
}

/// What an endpoint takes from its carrier.
#[derive(Debug)]
pub enum Arrival<P, R> {
    /// A request; whoever takes it gives the path back by [`Carrier::reply`].
    Request {
        /// The way of the reply.
        path: R,
        /// The message.
        content: Content<P>,
    },
    /// The reply to a request that was offered with this context.
    Reply {
        /// As offered.
        context: u32,
        /// The message; none if the handler there did not answer.
        content: Option<Content<P>>,
    },
    /// A message of this endpoint that could not be delivered.
    Returned {
        /// Of a request: as offered. Of a reply: 0.
        context: u32,
        /// Which half of an exchange it was.
        phase: Phase,
        /// Why.
        reason: Reason,
        /// The message, if it is still known.
        content: Option<Content<P>>,
    },
}

/// What a look at an endpoint found.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Readiness {
    /// A request waits.
    pub request: bool,
    /// A reply waits.
    pub reply: bool,
    /// A returned message waits.
    pub returned: bool,
    /// The next offer to whoever was last refused is likely to be taken.
    pub room: bool,
}

/// Why a carrier did not take a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// There is no room now: poll, or wait for [`Readiness::room`], then offer it again.
    Full,
    /// The endpoint is not there any more: its carrier has closed.
    Closed,
}

/// The time limit of a wait passed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimedOut;

/// What a carrier cannot do, for a person: what was wrong, and what to do instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CarrierError(String);

impl CarrierError {
    /// From a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for CarrierError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for CarrierError {}

/// What an endpoint takes from a carrier.
pub type ArrivalOf<C> = Arrival<<C as Carrier>::Payload, <C as Carrier>::ReturnPath>;

/// What a carrier gave: an arrival, and whether the next look finds another at once.
#[derive(Debug)]
pub struct Taken<C: Carrier> {
    /// Of a group: which member it is for. Else 0.
    pub member: u32,
    /// What arrived.
    pub arrival: ArrivalOf<C>,
    /// Whether more waits already.
    pub has_more: bool,
}

/// Moves messages between endpoints.
///
/// A carrier promises:
///
/// * **Keys.** A request is delivered only to the endpoint that its name says, in that life of it,
///   and only if it carries that endpoint's key, a handler that it has, and a bulk body that fits
///   its segment.
/// * **Exactly once.** What [`Carrier::offer`] took leads to exactly one [`Arrival::Reply`] or
///   [`Arrival::Returned`] with its context, unless the endpoint is destroyed before.
/// * **Room for replies.** [`Carrier::reply`] takes every reply; it may keep it.
/// * **Progress** is made inside its calls: a program that calls none receives nothing.
///
/// A clone is another handle to the same carrier. No method calls a handler.
pub trait Carrier: Clone {
    /// A name, resolved.
    type Route: Copy + fmt::Debug + Send;
    /// Bytes that arrived.
    type Payload: AsRef<[u8]> + fmt::Debug + Send;
    /// The way back of a request.
    type ReturnPath: fmt::Debug + Send;

    /// Makes an endpoint.
    ///
    /// # Errors
    ///
    /// When there is no room for one more.
    fn create(&self, admission: Admission) -> Result<(Slot, Name), CarrierError>;
    /// Destroys it. Requests that wait in it go back to their senders.
    fn destroy(&self, slot: Slot);
    /// Finds where a name leads; whether somebody lives there shows when a message is sent.
    ///
    /// # Errors
    ///
    /// For bytes that are no name of this carrier.
    fn resolve(&self, name: &Name) -> Result<Self::Route, CarrierError>;
    /// Takes back what [`Carrier::resolve`] gave: nothing is offered by it any more. Once for each
    /// time that it was given, so that a carrier need not keep names that nobody uses.
    fn release(&self, _route: Self::Route) {}

    /// Offers a request.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; the message has not been taken then.
    fn offer(
        &self,
        slot: Slot,
        route: Self::Route,
        key: Key,
        context: u32,
        message: &Message<'_>,
    ) -> Result<(), Refusal>;
    /// Sends the reply of a request; `None` gives the sender its credit back and runs no handler.
    fn reply(&self, slot: Slot, path: Self::ReturnPath, message: Option<&Message<'_>>);
    /// Takes the next arrival, replies before requests.
    fn take(&self, slot: Slot) -> Option<Taken<Self>>;
    /// Looks at an endpoint, without taking anything.
    fn look(&self, slot: Slot) -> Readiness;

    /// Makes a group.
    fn create_group(&self) -> Group;
    /// Ends it; its members go on alone.
    fn destroy_group(&self, group: Group);
    /// Puts an endpoint into a group, by a number of the caller's.
    fn join(&self, slot: Slot, group: Group, member: u32);
    /// Takes it out again.
    fn leave(&self, slot: Slot);
    /// Takes the next arrival of any member, the members in turn; what it costs does not depend on
    /// how many members have none.
    fn take_any(&self, group: Group) -> Option<Taken<Self>>;

    /// Sleeps until `is_over` holds for what a look at the endpoint finds (of a group: at any
    /// member with something to take); `None` waits for ever.
    ///
    /// # Errors
    ///
    /// [`TimedOut`].
    fn wait(
        &self,
        watch: Watch,
        is_over: &dyn Fn(Readiness) -> bool,
        limit: Option<Duration>,
    ) -> Result<(), TimedOut>;
    /// As [`Carrier::wait`], without a thread: pending, the waker is called when it is worth to
    /// look again.
    fn poll_wait(
        &self,
        watch: Watch,
        is_over: &dyn Fn(Readiness) -> bool,
        context: &mut Context<'_>,
    ) -> Poll<()>;
    /// Whether both are handles to one carrier.
    fn is_same(&self, other: &Self) -> bool;
    /// Lets others run, who hold a lock that the caller wants.
    fn relax(&self);
}
