//! Completion channels, completion queues and shared receive queues.

use std::os::fd::RawFd;
use std::time::Duration;

use viaduct_core::verbs::notices::Owner;
use viaduct_core::verbs::{self, Completion, Result, SharedReceiveAttributes};

use crate::engine::{self, Key, engine, tell_acknowledged};
use crate::pair::ReceiveRequest;

/// Where completion queues tell that something is in them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CompletionChannel {
    pub(crate) key: Key,
}

impl CompletionChannel {
    /// A descriptor that is readable while an event waits. It may be polled, and set to
    /// `O_NONBLOCK`; it is closed with the channel.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        engine().map_or(-1, |engine| {
            let channel = engine.objects.notices.channels.get(self.key);
            channel.map_or(-1, |channel| channel.events.signal.fd())
        })
    }

    /// The next event: the cookie of a completion queue. Waits for one, for so long at most, unless
    /// the descriptor is `O_NONBLOCK`. Each must be acknowledged by
    /// [`CompletionQueue::acknowledge_events`].
    ///
    /// # Errors
    ///
    /// EAGAIN when the time is over, or there is no event and the descriptor does not block; EINTR
    /// after a signal.
    pub fn next_event(&self, limit: Option<Duration>) -> Result<u64> {
        engine::await_event(|| self.fd(), limit, || self.try_next_event())
    }

    /// The same, without waiting, whatever the descriptor is set to: for whoever waits at the
    /// descriptor by other means.
    ///
    /// # Errors
    ///
    /// EAGAIN when there is no event.
    pub fn try_next_event(&self) -> Result<u64> {
        let event = engine()?.objects.notices.next_completion_event(self.key)?;
        event.ok_or_else(engine::nothing_yet)
    }

    /// Closes it.
    ///
    /// # Errors
    ///
    /// EBUSY while a completion queue uses it.
    pub fn destroy(&self) -> Result<()> {
        engine()?.objects.notices.destroy_channel(self.key)
    }
}

/// What a completion queue is made with.
pub type CompletionQueueOptions = verbs::CompletionQueueOptions<CompletionChannel>;

/// Where completions are found.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CompletionQueue {
    pub(crate) key: Key,
}

impl CompletionQueue {
    /// Takes completions, oldest first, and says how many.
    ///
    /// # Errors
    ///
    /// EIO when it overran; EINVAL when it is gone.
    pub fn poll(&self, completions: &mut [Completion]) -> Result<usize> {
        let mut places = completions.iter_mut();
        self.poll_each(places.len(), |completion| {
            if let Some(place) = places.next() {
                *place = *completion;
            }
        })
    }

    /// Shows at most so many completions, oldest first, and says how many.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`].
    ///
    /// # Panics
    ///
    /// When `visit` makes a call of this crate.
    #[inline]
    pub fn poll_each(&self, most: usize, visit: impl FnMut(&Completion)) -> Result<usize> {
        engine::poll_completions(self.key, most, visit)
    }

    /// Has the next completion (the next solicited one, or one with an error) tell the channel.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn arm(&self, is_solicited_only: bool) -> Result<()> {
        engine::arm(self.key, is_solicited_only)
    }

    /// Completions that find room: at least as many as were asked for.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn entries(&self) -> Result<u32> {
        engine()?.objects.notices.entries(self.key)
    }

    /// Changes its size, and tells the new one.
    ///
    /// # Errors
    ///
    /// EINVAL for no entries, too many, or fewer than are in it.
    pub fn resize(&self, entries: u32) -> Result<u32> {
        engine()?.objects.resize(self.key, entries)
    }

    /// Says that events of its channel have been dealt with.
    pub fn acknowledge_events(&self, count: u32) {
        if let Ok(mut engine) = engine() {
            engine.objects.notices.acknowledge(self.key, count);
            tell_acknowledged(&engine);
        }
    }

    /// Says that asynchronous events about it have been dealt with.
    pub fn acknowledge_async_events(&self, count: u32) {
        engine::acknowledge_async(Owner::Queue(self.key), count);
    }

    /// Destroys it. Waits until every event that was handed out is acknowledged.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it.
    pub fn destroy(&self) -> Result<()> {
        engine::destroy(|objects| objects.notices.destroy_queue(self.key))
    }
}

/// Receives of many queue pairs.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SharedReceiveQueue {
    pub(crate) key: Key,
}

impl SharedReceiveQueue {
    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.key.index()
    }

    /// Posts a receive.
    ///
    /// # Errors
    ///
    /// ENOMEM when it is full, EINVAL for too many elements.
    pub fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<()> {
        engine()?.objects.post_shared_receive(self.key, request)
    }

    /// Changes what `mask` (bits of
    /// [`shared_receive`](viaduct_core::verbs::flags::shared_receive)) names.
    ///
    /// # Errors
    ///
    /// EINVAL for a limit past its size, EOPNOTSUPP for another size.
    pub fn modify(&self, attributes: &SharedReceiveAttributes, mask: u32) -> Result<()> {
        engine()?.objects.modify_shared(self.key, attributes, mask)
    }

    /// Sizes, and the limit if it has not been told of.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn query(&self) -> Result<SharedReceiveAttributes> {
        engine()?.objects.query_shared(self.key)
    }

    /// Says that asynchronous events about it have been dealt with.
    pub fn acknowledge_async_events(&self, count: u32) {
        engine::acknowledge_async(Owner::Shared(self.key), count);
    }

    /// Destroys it. Waits until every event that was handed out is acknowledged.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it.
    pub fn destroy(&self) -> Result<()> {
        engine::destroy(|objects| objects.destroy_shared(self.key))
    }
}
