//! Opened devices, and the objects that are made from them.

use std::os::fd::RawFd;
use std::time::Duration;

use viaduct_core::verbs::Result;
pub use viaduct_core::verbs::{AsyncElement, AsyncEvent};

use crate::carrier::Counter;
use crate::device::Device;
use crate::engine::{self, Key, engine};
use crate::queues::{CompletionChannel, CompletionQueue, CompletionQueueOptions};
use crate::region::ProtectionDomain;

/// An opened device. Every opening is one of its own: objects of one are not those of another.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Context {
    pub(crate) key: Key,
    device: Device,
}

impl Context {
    pub(crate) fn open(device: Device) -> Result<Self> {
        let key = engine::open_context(device)?;
        Ok(Self { key, device })
    }

    /// What was opened.
    #[must_use]
    pub const fn device(&self) -> Device {
        self.device
    }

    /// A descriptor that is readable while an asynchronous event waits. It may be polled, and set
    /// to `O_NONBLOCK`; it is closed with the context.
    #[must_use]
    pub fn async_fd(&self) -> RawFd {
        engine().map_or(-1, |engine| {
            let context = engine.objects.notices.contexts.get(self.key);
            context.map_or(-1, |context| context.events.signal.fd())
        })
    }

    /// The next asynchronous event. Waits for one, for so long at most, unless the descriptor is
    /// `O_NONBLOCK`.
    ///
    /// # Errors
    ///
    /// EAGAIN when the time is over, or there is no event and the descriptor does not block; EINTR
    /// after a signal.
    pub fn next_async_event(&self, limit: Option<Duration>) -> Result<AsyncEvent> {
        engine::await_event(|| self.async_fd(), limit, || self.try_next_async_event())
    }

    /// The same, without waiting, whatever the descriptor is set to.
    ///
    /// # Errors
    ///
    /// EAGAIN when there is no event.
    pub fn try_next_async_event(&self) -> Result<AsyncEvent> {
        let event = engine()?.objects.next_async_event(self.key)?;
        event.ok_or_else(engine::nothing_yet)
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    ///
    /// ENOMEM when there are too many.
    pub fn allocate_protection_domain(&self) -> Result<ProtectionDomain> {
        Ok(ProtectionDomain {
            key: engine()?.objects.allocate_domain(self.key)?,
        })
    }

    /// Makes a completion channel.
    ///
    /// # Errors
    ///
    /// What the system says when it has no descriptors left.
    pub fn create_completion_channel(&self) -> Result<CompletionChannel> {
        let mut engine = engine()?;
        let notices = &mut engine.objects.notices;
        let key = notices.create_channel(self.key, Counter::new()?)?;
        Ok(CompletionChannel { key })
    }

    /// Makes a completion queue.
    ///
    /// # Errors
    ///
    /// EINVAL for no entries, too many, an unknown vector, or a channel of another context.
    pub fn create_completion_queue(
        &self,
        options: &CompletionQueueOptions,
    ) -> Result<CompletionQueue> {
        let options = options.map(|channel| channel.key);
        let key = engine()?
            .objects
            .create_completion_queue(self.key, &options)?;
        Ok(CompletionQueue { key })
    }

    /// Closes the device. What is left of its objects goes with it.
    ///
    /// # Errors
    ///
    /// EINVAL when it is closed already.
    pub fn close(&self) -> Result<()> {
        let mut engine = engine()?;
        engine.count_direct();
        let closed = engine.objects.close(self.key);
        engine.leave_pages_of_the_gone();
        closed
    }
}
