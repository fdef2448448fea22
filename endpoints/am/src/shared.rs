//! Endpoints that several threads use.

use std::fmt;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use crate::carrier::{Carrier, Watch};
use crate::endpoint::{Endpoint, events};
use crate::error::{RequestError, WaitError};
use crate::events::EventMask;
use crate::message::{Body, HandlerId};
use crate::name::Name;

/// An endpoint behind a lock: any thread may use it. A handler runs with the lock held, and must
/// not use the same endpoint; nobody sleeps with it.
pub struct SharedEndpoint<C: Carrier, S> {
    endpoint: Mutex<Endpoint<C, S>>,
    carrier: C,
    name: Name,
}

impl<C: Carrier, S> SharedEndpoint<C, S> {
    /// Shares an endpoint.
    pub fn new(endpoint: Endpoint<C, S>) -> Self {
        Self {
            carrier: endpoint.carrier().clone(),
            name: endpoint.name(),
            endpoint: Mutex::new(endpoint),
        }
    }

    /// The endpoint without its lock, for one thread.
    #[must_use]
    pub fn into_exclusive(self) -> Endpoint<C, S> {
        let inner = self.endpoint.into_inner();
        inner.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> Name {
        self.name
    }

    /// Does something with it alone. The closure must not wait.
    pub fn with<T>(&self, closure: impl FnOnce(&mut Endpoint<C, S>) -> T) -> T {
        closure(&mut self.lock())
    }

    /// As [`Endpoint::poll`].
    pub fn poll(&self) -> usize {
        self.lock().poll()
    }

    /// As [`Endpoint::request_with`].
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::request_with`].
    pub fn request_with(
        &self,
        index: usize,
        handler: HandlerId,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<(), RequestError> {
        loop {
            let mut endpoint = self.lock();
            match endpoint.try_request(index, handler, words, body) {
                Err(error) if error.is_back_pressure() => {
                    let handled = endpoint.poll();
                    drop(endpoint);
                    if handled == 0 {
                        // Another thread may take what this one sleeps for: looked at in between.
                        let _ = self.wait(EventMask::ALL, Some(LOOK_AGAIN));
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// As [`Endpoint::wait`]. Several threads that wait may all wake for one event.
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::wait`].
    pub fn wait(&self, mask: EventMask, limit: Option<Duration>) -> Result<EventMask, WaitError> {
        if mask.is_empty() {
            return Err(WaitError::EmptyMask);
        }
        let (slot, (credits, is_refused)) = self.with(|it| (it.slot(), it.send_state()));
        let is_over = |found| events(credits, is_refused, found).intersects(mask);
        match self.carrier.wait(Watch::Endpoint(slot), &is_over, limit) {
            Ok(()) => Ok(self.with(|endpoint| endpoint.events()) & mask),
            Err(_) => Err(WaitError::TimedOut),
        }
    }

    /// A thread that has to wait gives way to others: simulated ones run on one thread of the
    /// system, which must not sleep in a lock.
    fn lock(&self) -> MutexGuard<'_, Endpoint<C, S>> {
        loop {
            match self.endpoint.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => self.carrier.relax(),
            }
        }
    }
}

impl<C: Carrier, S> fmt::Debug for SharedEndpoint<C, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SharedEndpoint")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// How long a thread sleeps at most for room that others may have taken up and given back.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
