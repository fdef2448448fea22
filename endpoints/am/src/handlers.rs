//! Handlers, and what they are given.

use std::fmt;
use std::ops::Range;

use crate::carrier::{Carrier, Content, ContentBody, HandlerSet, Phase, Slot};
use crate::message::{Body, HANDLERS_MAX, HandlerId, Invalid, Message, Words};

type RequestHandler<C, S> = Box<dyn Fn(&mut S, Request<'_, C>) + Send + Sync>;
type ReplyHandler<S> = Box<dyn Fn(&mut S, Reply<'_>) + Send + Sync>;
type ReturnedHandler<S> = Box<dyn Fn(&mut S, Returned<'_>) + Send + Sync>;

/// The handlers of endpoints with a state of type `S`; many endpoints can share them.
///
/// A handler of requests gets a token and may reply once; a handler of replies, and that of what
/// came back, gets nothing that it could send by. Handlers run inside [`crate::Endpoint::poll`] and
/// should be short: the endpoint takes nothing else meanwhile.
pub struct Handlers<C: Carrier, S> {
    requests: [Option<RequestHandler<C, S>>; HANDLERS_MAX],
    replies: [Option<ReplyHandler<S>>; HANDLERS_MAX],
    returned: ReturnedHandler<S>,
}

impl<C: Carrier, S> Handlers<C, S> {
    /// No handlers but that of messages which could not be delivered: nothing is lost in silence.
    pub fn new(undeliverable: impl Fn(&mut S, Returned<'_>) + Send + Sync + 'static) -> Self {
        Self {
            requests: std::array::from_fn(|_| None),
            replies: std::array::from_fn(|_| None),
            returned: Box::new(undeliverable),
        }
    }

    /// Sets a handler of requests.
    #[must_use]
    pub fn on_request(
        mut self,
        number: HandlerId,
        handler: impl Fn(&mut S, Request<'_, C>) + Send + Sync + 'static,
    ) -> Self {
        self.requests[usize::from(number.number())] = Some(Box::new(handler));
        self
    }

    /// Sets a handler of replies; its numbers are others than those of requests.
    #[must_use]
    pub fn on_reply(
        mut self,
        number: HandlerId,
        handler: impl Fn(&mut S, Reply<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.replies[usize::from(number.number())] = Some(Box::new(handler));
        self
    }

    pub(crate) fn request_set(&self) -> HandlerSet {
        set_of(&self.requests)
    }

    pub(crate) fn reply_set(&self) -> HandlerSet {
        set_of(&self.replies)
    }

    #[inline]
    pub(crate) fn run_request(&self, state: &mut S, request: Request<'_, C>) {
        let number = usize::from(request.content.handler.number());
        // The carrier has asked the set; a token that is dropped replies.
        if let Some(handler) = &self.requests[number] {
            handler(state, request);
        }
    }

    #[inline]
    pub(crate) fn run_reply(&self, state: &mut S, reply: Reply<'_>) {
        let number = usize::from(reply.handler.number());
        if let Some(handler) = &self.replies[number] {
            handler(state, reply);
        }
    }

    pub(crate) fn run_returned(&self, state: &mut S, returned: Returned<'_>) {
        (self.returned)(state, returned);
    }
}

fn set_of<H>(handlers: &[Option<H>]) -> HandlerSet {
    let mut set = HandlerSet::default();
    for (handler, number) in handlers.iter().zip(0..) {
        if handler.is_some()
            && let Some(number) = HandlerId::new(number)
        {
            set.insert(number);
        }
    }
    set
}

impl<C: Carrier, S> fmt::Debug for Handlers<C, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handlers")
            .field("requests", &self.request_set())
            .field("replies", &self.reply_set())
            .finish_non_exhaustive()
    }
}

/// The body of a message, for its handler.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum View<'a> {
    /// Nothing.
    Short,
    /// Bytes, to be used while the handler runs.
    Medium(&'a [u8]),
    /// Bytes that stand in the segment.
    Bulk(Range<usize>),
}

/// A request, for its handler: to read, and to reply to once.
///
/// A token that is dropped without a reply gives the sender its credit back; no handler runs there.
#[derive(Debug)]
pub struct Request<'a, C: Carrier> {
    carrier: &'a C,
    slot: Slot,
    /// Taken by the reply.
    path: Option<C::ReturnPath>,
    content: &'a Content<C::Payload>,
    segment: &'a mut [u8],
}

impl<'a, C: Carrier> Request<'a, C> {
    #[inline]
    pub(crate) fn new(
        carrier: &'a C,
        slot: Slot,
        path: C::ReturnPath,
        content: &'a Content<C::Payload>,
        segment: &'a mut [u8],
    ) -> Self {
        Self {
            carrier,
            slot,
            path: Some(path),
            content,
            segment,
        }
    }

    /// Its words.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.content.words.as_slice()
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> View<'_> {
        view(&self.content.body)
    }

    /// The bytes of its body, wherever they are.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        payload(&self.content.body, self.segment)
    }

    /// The endpoint's segment.
    pub fn segment(&mut self) -> &mut [u8] {
        self.segment
    }

    /// Replies with words.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for too many words; the reply without a handler has been sent then.
    #[inline]
    pub fn reply(self, handler: HandlerId, words: &[u64]) -> Result<(), Invalid> {
        self.reply_with(handler, words, Body::Short)
    }

    /// Replies with words and a body.
    ///
    /// # Errors
    ///
    /// As [`Request::reply`], and for too many bytes.
    #[inline]
    pub fn reply_with(
        mut self,
        handler: HandlerId,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<(), Invalid> {
        let message = Message::new(handler, words, body)?;
        if let Some(path) = self.path.take() {
            self.carrier.reply(self.slot, path, Some(&message));
        }
        Ok(())
    }

    /// Replies with the request's own body and other words.
    ///
    /// # Errors
    ///
    /// As [`Request::reply`].
    pub fn echo(mut self, handler: HandlerId, words: &[u64]) -> Result<(), Invalid> {
        let body = match &self.content.body {
            ContentBody::Short => Body::Short,
            ContentBody::Medium(bytes) => Body::Medium(bytes.as_ref()),
            ContentBody::Bulk { offset, bytes } => Body::Bulk {
                offset: *offset,
                bytes: bytes.as_ref(),
            },
        };
        let message = Message::new(handler, words, body)?;
        if let Some(path) = self.path.take() {
            self.carrier.reply(self.slot, path, Some(&message));
        }
        Ok(())
    }
}

impl<C: Carrier> Drop for Request<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            self.carrier.reply(self.slot, path, None);
        }
    }
}

/// A reply, for its handler.
#[derive(Debug)]
pub struct Reply<'a> {
    handler: HandlerId,
    words: &'a Words,
    body: View<'a>,
    segment: &'a mut [u8],
}

impl<'a> Reply<'a> {
    #[inline]
    pub(crate) fn new<P: AsRef<[u8]>>(content: &'a Content<P>, segment: &'a mut [u8]) -> Self {
        Self {
            handler: content.handler,
            words: &content.words,
            body: view(&content.body),
            segment,
        }
    }

    /// Its words.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.words.as_slice()
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> &View<'a> {
        &self.body
    }

    /// The bytes of its body, wherever they are.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        match &self.body {
            View::Short => &[],
            View::Medium(bytes) => bytes,
            View::Bulk(range) => self.segment.get(range.clone()).unwrap_or(&[]),
        }
    }

    /// The endpoint's segment.
    pub fn segment(&mut self) -> &mut [u8] {
        self.segment
    }
}

/// A message that could not be delivered, for the undeliverable handler.
#[derive(Debug)]
pub struct Returned<'a> {
    /// Why.
    pub reason: Reason,
    /// Of a request, the index in the translation table that it was sent to; `None` for a reply.
    pub destination: Option<usize>,
    /// Which half of an exchange it was.
    pub phase: Phase,
    /// The handler it was meant for; `None` with [`Reason::Unanswered`], whose message is gone.
    pub handler: Option<HandlerId>,
    /// Its words.
    pub words: &'a [u64],
    /// Its payload, if it had any.
    pub payload: &'a [u8],
    /// Where a bulk message was to be written.
    pub offset: Option<u64>,
}

/// Why a message came back.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It carried another key than the endpoint's.
    WrongKey,
    /// Its name was never that of an endpoint.
    NoSuchEndpoint,
    /// The endpoint it was for has been freed.
    EndpointFreed,
    /// The endpoint has no handler of that number.
    NoSuchHandler,
    /// A bulk message does not fit the endpoint's segment.
    OutsideSegment,
    /// The host does not answer.
    HostUnreachable,
    /// The process that its name says is not there: it never ran, has closed or died.
    ProcessDied,
    /// The other process died, or broke the connection, before it had acknowledged the message:
    /// whether its endpoint got it cannot be known.
    ConnectionLost,
    /// It was delivered, and the other process died or broke the connection before its reply
    /// came. The message is not kept so long: words and payload are empty.
    Unanswered,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::WrongKey,
        Self::NoSuchEndpoint,
        Self::EndpointFreed,
        Self::NoSuchHandler,
        Self::OutsideSegment,
        Self::HostUnreachable,
        Self::ProcessDied,
        Self::ConnectionLost,
        Self::Unanswered,
    ];

    /// Its number, for carriers; from 1.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }
}

impl TryFrom<u8> for Reason {
    type Error = ParseReasonError;

    fn try_from(number: u8) -> Result<Self, ParseReasonError> {
        let index = usize::from(number).wrapping_sub(1);
        let reason = Self::ALL.get(index).copied();
        reason.ok_or(ParseReasonError { number })
    }
}

/// A number that no [`Reason`] has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParseReasonError {
    /// The number.
    pub number: u8,
}

impl fmt::Display for ParseReasonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = Reason::ALL.len();
        write!(
            formatter,
            "{} is no reason; they go from 1 to {last}",
            self.number
        )
    }
}

impl std::error::Error for ParseReasonError {}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::WrongKey => "wrong key",
            Self::NoSuchEndpoint => "no such endpoint",
            Self::EndpointFreed => "endpoint freed",
            Self::NoSuchHandler => "no such handler",
            Self::OutsideSegment => "outside the segment",
            Self::HostUnreachable => "host unreachable",
            Self::ProcessDied => "process died",
            Self::ConnectionLost => "connection lost",
            Self::Unanswered => "delivered, never answered",
        })
    }
}

fn view<P: AsRef<[u8]>>(body: &ContentBody<P>) -> View<'_> {
    match body {
        ContentBody::Short => View::Short,
        ContentBody::Medium(bytes) => View::Medium(bytes.as_ref()),
        ContentBody::Bulk { offset, bytes } => {
            let first = usize::try_from(*offset).unwrap_or(usize::MAX);
            View::Bulk(first..first.saturating_add(bytes.as_ref().len()))
        }
    }
}

fn payload<'a, P: AsRef<[u8]>>(body: &'a ContentBody<P>, segment: &'a [u8]) -> &'a [u8] {
    match view(body) {
        View::Short => &[],
        View::Medium(bytes) => bytes,
        View::Bulk(range) => segment.get(range).unwrap_or(&[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_their_numbers_are_inverses() {
        for reason in Reason::ALL {
            assert_eq!(Reason::try_from(reason.number()), Ok(reason));
        }
        assert_eq!(Reason::try_from(0), Err(ParseReasonError { number: 0 }));
        assert_eq!(Reason::try_from(10), Err(ParseReasonError { number: 10 }));
    }
}
