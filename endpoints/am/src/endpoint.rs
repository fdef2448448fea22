//! Endpoints.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::carrier::{
    Admission, Arrival, ArrivalOf, Carrier, CarrierError, Content, ContentBody, Phase, Readiness,
    Refusal, Slot, Watch,
};
use crate::error::{RequestError, WaitError};
use crate::events::EventMask;
use crate::handlers::{Handlers, Reason, Reply, Request, Returned};
use crate::message::{Body, CREDITS_DEFAULT, HandlerId, Message, REQUEST_QUEUE_ENTRIES};
use crate::name::{Key, Name};
use crate::table::{TABLE_ENTRIES_MAX, Table};

/// What an endpoint is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The key that a request to it has to carry.
    pub key: Key,
    /// Requests that may wait for their replies; [`CREDITS_DEFAULT`] if not said, at least 1.
    pub credits: u32,
    /// Requests that may wait to be polled; [`REQUEST_QUEUE_ENTRIES`] if not said, at least 1.
    pub request_entries: u32,
    /// Bytes of the segment that bulk messages are written to.
    pub segment_bytes: usize,
}

impl Options {
    /// With this key, and without a segment.
    #[must_use]
    pub const fn new(key: Key) -> Self {
        Self {
            key,
            credits: CREDITS_DEFAULT,
            request_entries: REQUEST_QUEUE_ENTRIES,
            segment_bytes: 0,
        }
    }
}

/// An endpoint that one owner uses: no lock, and no second thread at the same time, since what
/// changes it needs it alone. [`crate::SharedEndpoint`] is for several.
///
/// Messages are handled inside [`Endpoint::poll`], and inside calls that wait for room to send.
pub struct Endpoint<C: Carrier, S> {
    carrier: C,
    slot: Slot,
    name: Name,
    handlers: Arc<Handlers<C, S>>,
    state: S,
    segment: Box<[u8]>,
    table: Table<C::Route>,
    credits: u32,
    credits_max: u32,
    /// Whether the last offer found no room.
    is_refused: bool,
}

impl<C: Carrier, S> Endpoint<C, S> {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// [`CarrierError`] when the carrier has no room for one more, or for options of 0.
    pub fn new(
        carrier: &C,
        handlers: &Arc<Handlers<C, S>>,
        state: S,
        options: Options,
    ) -> Result<Self, CarrierError> {
        if options.credits == 0 || options.request_entries == 0 {
            let text =
                "an endpoint needs 1 credit and 1 entry of its request queue; 0 is asked for";
            return Err(CarrierError::new(text));
        }
        let (slot, name) = carrier.create(Admission {
            key: options.key,
            request_handlers: handlers.request_set(),
            reply_handlers: handlers.reply_set(),
            request_entries: options.request_entries,
            credits: options.credits,
            segment_bytes: options.segment_bytes as u64,
        })?;
        Ok(Self {
            carrier: carrier.clone(),
            slot,
            name,
            handlers: Arc::clone(handlers),
            state,
            segment: vec![0; options.segment_bytes].into_boxed_slice(),
            table: Table::new(),
            credits: options.credits,
            credits_max: options.credits,
            is_refused: false,
        })
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> Name {
        self.name
    }

    /// Its carrier.
    #[must_use]
    pub const fn carrier(&self) -> &C {
        &self.carrier
    }

    pub(crate) const fn slot(&self) -> Slot {
        self.slot
    }

    /// What its handlers work on.
    #[must_use]
    pub const fn state(&self) -> &S {
        &self.state
    }

    /// As [`Endpoint::state`], to change it.
    pub const fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }

    /// What bulk messages are written to.
    #[must_use]
    pub fn segment(&self) -> &[u8] {
        &self.segment
    }

    /// As [`Endpoint::segment`], to change it.
    pub fn segment_mut(&mut self) -> &mut [u8] {
        &mut self.segment
    }

    /// How many requests it may send before a reply comes.
    #[must_use]
    pub const fn credits(&self) -> u32 {
        self.credits
    }

    /// Requests that wait for their replies.
    #[must_use]
    pub const fn outstanding(&self) -> u32 {
        self.credits_max - self.credits
    }

    /// Has an index of the translation table lead to an endpoint, by its name and its key.
    ///
    /// # Errors
    ///
    /// [`CarrierError`] for a name that is none, or an index past
    /// [`crate::TABLE_ENTRIES_MAX`].
    pub fn map(&mut self, index: usize, name: &Name, key: Key) -> Result<(), CarrierError> {
        if index >= TABLE_ENTRIES_MAX {
            let error = RequestError::IndexTooLarge { index };
            return Err(CarrierError::new(error.to_string()));
        }
        let route = self.carrier.resolve(name)?;
        if let Some(before) = self.table.set(index, route, key) {
            self.carrier.release(before);
        }
        Ok(())
    }

    /// Takes an entry out of the translation table; whether there was one.
    pub fn unmap(&mut self, index: usize) -> bool {
        let before = self.table.clear(index);
        if let Some(before) = before {
            self.carrier.release(before);
        }
        before.is_some()
    }

    /// Sends a request to what `index` is mapped to, without waiting.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; with [`RequestError::is_back_pressure`] the same may succeed later.
    #[inline]
    pub fn try_request(
        &mut self,
        index: usize,
        handler: HandlerId,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<(), RequestError> {
        let message = Message::new(handler, words, body)?;
        let (route, key) = self
            .table
            .find(index)
            .ok_or(RequestError::NotMapped { index })?;
        if self.credits == 0 {
            let credits = self.credits_max;
            return Err(RequestError::NoCredit { credits });
        }
        // A table has at most 2^20 entries.
        let context = index as u32;
        match self.carrier.offer(self.slot, route, key, context, &message) {
            Ok(()) => {
                self.is_refused = false;
                self.credits -= 1;
                Ok(())
            }
            Err(Refusal::Full) => {
                self.is_refused = true;
                Err(RequestError::Full)
            }
            Err(Refusal::Closed) => Err(RequestError::Closed),
        }
    }

    /// Sends a short request; handles messages while there is no room.
    ///
    /// # Errors
    ///
    /// [`RequestError`], none of back pressure.
    #[inline]
    pub fn request(
        &mut self,
        index: usize,
        handler: HandlerId,
        words: &[u64],
    ) -> Result<(), RequestError> {
        self.request_with(index, handler, words, Body::Short)
    }

    /// Sends a request with a body; handles messages while there is no room.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::request`].
    #[inline]
    pub fn request_with(
        &mut self,
        index: usize,
        handler: HandlerId,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<(), RequestError> {
        loop {
            match self.try_request(index, handler, words, body) {
                Err(error) if error.is_back_pressure() => {
                    if self.poll() == 0 {
                        let _ = self.wait(EventMask::ALL, None);
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// As [`Endpoint::request_with`], without a thread.
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::request_with`].
    pub async fn request_async(
        &mut self,
        index: usize,
        handler: HandlerId,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<(), RequestError> {
        loop {
            match self.try_request(index, handler, words, body) {
                Err(error) if error.is_back_pressure() => {
                    if self.poll() == 0 {
                        let _ = self.wait_async(EventMask::ALL).await;
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Handles what has arrived; how many messages that were. Bounded: at most one queue of
    /// requests and one of replies.
    #[inline]
    pub fn poll(&mut self) -> usize {
        let limit = (REQUEST_QUEUE_ENTRIES + CREDITS_DEFAULT) as usize;
        self.poll_at_most(limit)
    }

    /// Handles at most `limit` messages.
    #[inline]
    pub fn poll_at_most(&mut self, limit: usize) -> usize {
        for handled in 0..limit {
            let Some(taken) = self.carrier.take(self.slot) else {
                return handled;
            };
            let has_more = taken.has_more;
            self.handle(taken.arrival);
            if !has_more {
                // Another look costs, and the caller looks again.
                return handled + 1;
            }
        }
        limit
    }

    /// Runs the handler of an arrival.
    #[inline]
    pub(crate) fn handle(&mut self, arrival: ArrivalOf<C>) {
        match arrival {
            Arrival::Request { path, content } => {
                place(&content, &mut self.segment);
                let segment = &mut self.segment;
                let request = Request::new(&self.carrier, self.slot, path, &content, segment);
                self.handlers.run_request(&mut self.state, request);
            }
            Arrival::Reply { content, .. } => {
                self.regain();
                if let Some(content) = content {
                    place(&content, &mut self.segment);
                    let reply = Reply::new(&content, &mut self.segment);
                    self.handlers.run_reply(&mut self.state, reply);
                }
            }
            Arrival::Returned {
                context,
                phase,
                reason,
                content,
            } => {
                let is_request = phase == Phase::Request;
                if is_request {
                    self.regain();
                }
                let destination = is_request.then_some(context as usize);
                self.handle_returned(phase, destination, reason, content.as_ref());
            }
        }
    }

    #[cold]
    fn handle_returned(
        &mut self,
        phase: Phase,
        destination: Option<usize>,
        reason: Reason,
        content: Option<&Content<C::Payload>>,
    ) {
        let (payload, offset) = match content.map(|content| &content.body) {
            Some(ContentBody::Medium(bytes)) => (bytes.as_ref(), None),
            Some(ContentBody::Bulk { offset, bytes }) => (bytes.as_ref(), Some(*offset)),
            Some(ContentBody::Short) | None => (&[][..], None),
        };
        let returned = Returned {
            reason,
            destination,
            phase,
            handler: content.map(|content| content.handler),
            words: content.map_or(&[], |content| content.words.as_slice()),
            payload,
            offset,
        };
        self.handlers.run_returned(&mut self.state, returned);
    }

    fn regain(&mut self) {
        // Once for each request: the carrier's promise. More credits than the peer's queues have
        // room for would break others, so a carrier that breaks it is not followed.
        debug_assert!(
            self.credits < self.credits_max,
            "a reply without its request"
        );
        self.credits = (self.credits + 1).min(self.credits_max);
    }

    /// What a thread that waits would find.
    #[must_use]
    pub fn events(&self) -> EventMask {
        events(self.credits, self.is_refused, self.carrier.look(self.slot))
    }

    /// Sleeps until one of these events is there; `None` waits for ever. Handles nothing.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    pub fn wait(
        &mut self,
        mask: EventMask,
        limit: Option<Duration>,
    ) -> Result<EventMask, WaitError> {
        if mask.is_empty() {
            return Err(WaitError::EmptyMask);
        }
        let (credits, is_refused) = (self.credits, self.is_refused);
        let waited = self.carrier.wait(
            Watch::Endpoint(self.slot),
            &|found| events(credits, is_refused, found).intersects(mask),
            limit,
        );
        match waited {
            Ok(()) => Ok(self.events() & mask),
            Err(_) => Err(WaitError::TimedOut),
        }
    }

    /// As [`Endpoint::wait`], without a thread and for ever.
    ///
    /// # Errors
    ///
    /// [`WaitError::EmptyMask`].
    pub async fn wait_async(&mut self, mask: EventMask) -> Result<EventMask, WaitError> {
        if mask.is_empty() {
            return Err(WaitError::EmptyMask);
        }
        let (credits, is_refused) = (self.credits, self.is_refused);
        let watch = Watch::Endpoint(self.slot);
        let is_over = |found| events(credits, is_refused, found).intersects(mask);
        poll_fn(
            |context| match self.carrier.poll_wait(watch, &is_over, context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => Poll::Pending,
            },
        )
        .await;
        Ok(self.events() & mask)
    }

    /// What a waiter of `mask` needs to know, for locks outside.
    pub(crate) const fn send_state(&self) -> (u32, bool) {
        (self.credits, self.is_refused)
    }
}

/// The events of an endpoint with these credits.
pub(crate) fn events(credits: u32, is_refused: bool, found: Readiness) -> EventMask {
    let has_credit = credits > 0 || found.reply || found.returned;
    let has_room = !is_refused || found.room;
    EventMask::MESSAGE.when(found.request || found.reply)
        | EventMask::RETURNED.when(found.returned)
        | EventMask::SPACE.when(has_credit && has_room)
}

/// Writes a bulk message into the segment.
#[inline]
fn place<P: AsRef<[u8]>>(content: &Content<P>, segment: &mut [u8]) {
    if let ContentBody::Bulk { offset, bytes } = &content.body {
        let bytes = bytes.as_ref();
        let first = usize::try_from(*offset).unwrap_or(usize::MAX);
        let range = first..first.saturating_add(bytes.len());
        // The carrier let in only what fits.
        if let Some(target) = segment.get_mut(range) {
            target.copy_from_slice(bytes);
        }
    }
}

impl<C: Carrier, S> Drop for Endpoint<C, S> {
    fn drop(&mut self) {
        self.carrier.destroy(self.slot);
        for route in self.table.routes() {
            self.carrier.release(route);
        }
    }
}

impl<C: Carrier, S> fmt::Debug for Endpoint<C, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Endpoint")
            .field("slot", &self.slot)
            .field("name", &self.name)
            .field("credits", &self.credits)
            .finish_non_exhaustive()
    }
}
