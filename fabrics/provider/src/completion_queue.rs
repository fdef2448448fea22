//! Completion queues: one place to look for the completions of many VIs.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::{Error, Result, ReturnCode};
use crate::mailbox::{Courier, Delivery, Mailbox};
use crate::nic::NicShared;
use crate::provider::{CompletionEntry, CompletionQueueHandle, Provider, ViHandle, Watched};

/// Tells which VI has a completion to take.
///
/// ```text
/// entry = queue.wait(..)                         which VI, which of its queues
/// vis[&entry.vi].try_receive() or .try_sent()    the completion itself
/// ```
///
/// [`ViMap`] finds a VI by the handle in an entry.
pub struct CompletionQueue<P: Provider> {
    shared: Arc<CompletionQueueShared<P>>,
    /// Whether a notify handler is out: it takes the next entry.
    is_awaited: bool,
    mailbox: Option<Arc<Mailbox<CompletionEntry>>>,
}

pub(crate) struct CompletionQueueShared<P: Provider> {
    nic: Arc<NicShared<P>>,
    pub(crate) handle: CompletionQueueHandle,
}

impl<P: Provider> CompletionQueue<P> {
    pub(crate) fn new(nic: &Arc<NicShared<P>>, entries: u32) -> Result<Self> {
        let handle = nic.fabric.create_completion_queue(nic.handle, entries)?;
        Ok(Self {
            shared: Arc::new(CompletionQueueShared {
                nic: Arc::clone(nic),
                handle,
            }),
            is_awaited: false,
            mailbox: None,
        })
    }

    pub(crate) fn share(&self) -> Arc<CompletionQueueShared<P>> {
        Arc::clone(&self.shared)
    }

    /// Its handle, for the operations of [`Provider`] that have no safe form, and for waiting while
    /// another owner takes entries.
    #[must_use]
    pub fn handle(&self) -> CompletionQueueHandle {
        self.shared.handle
    }

    /// Takes the oldest entry, if there is one.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::InvalidParameter`] if the NIC was closed under it.
    #[inline]
    pub fn try_next(&mut self) -> Result<Option<CompletionEntry>> {
        if self.is_awaited {
            let delivery = self.mailbox.as_ref().and_then(|mailbox| mailbox.take());
            return self.open(delivery);
        }
        self.shared.nic.fabric.completion_done(self.shared.handle)
    }

    /// Waits for an entry; `None` waits for ever.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::Timeout`].
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<CompletionEntry> {
        if self.is_awaited {
            let delivery = self
                .mailbox
                .as_ref()
                .and_then(|mailbox| mailbox.wait(limit));
            return self.open(delivery)?.ok_or_else(|| {
                let reason = "no completion within the time limit";
                Error::new(ReturnCode::Timeout, reason)
            });
        }
        self.shared
            .nic
            .fabric
            .completion_wait(self.shared.handle, limit)
    }

    /// As [`CompletionQueue::next_async`], for futures written by hand.
    ///
    /// # Errors
    ///
    /// Those of [`CompletionQueue::next_async`].
    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Result<CompletionEntry>> {
        if !self.is_awaited {
            if let Some(result) = self.try_next().transpose() {
                return Poll::Ready(result);
            }
            let watched = Watched::Entries(self.shared.handle);
            if self.shared.nic.fabric.watch(watched, context.waker())? {
                return Poll::Pending;
            }
        }
        let mailbox = Arc::clone(self.mailbox.get_or_insert_with(Mailbox::new));
        if !self.is_awaited {
            let courier = Courier::to(&mailbox);
            self.is_awaited = true;
            let handler = Box::new(move |_nic, entry| courier.deliver(entry));
            let fabric = &self.shared.nic.fabric;
            if let Err(error) = fabric.completion_notify(self.shared.handle, handler) {
                self.is_awaited = false;
                // The handler was dropped, and said so.
                let _ = mailbox.take();
                return Poll::Ready(Err(error));
            }
        }
        match mailbox.poll(context) {
            Poll::Ready(delivery) => {
                let entry = self.open(Some(delivery));
                Poll::Ready(entry.and_then(|entry| entry.ok_or_else(abandoned)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Waits for an entry without a thread. It is not lost when the future is dropped: whoever
    /// looks next finds it.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::try_next`].
    pub async fn next_async(&mut self) -> Result<CompletionEntry> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Changes how many entries it has room for.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::Resource`] when more wait than would fit.
    pub fn resize(&mut self, entries: u32) -> Result<()> {
        self.shared
            .nic
            .fabric
            .resize_completion_queue(self.shared.handle, entries)
    }

    fn open(
        &mut self,
        delivery: Option<Delivery<CompletionEntry>>,
    ) -> Result<Option<CompletionEntry>> {
        let Some(delivery) = delivery else {
            return Ok(None);
        };
        self.is_awaited = false;
        match delivery {
            Delivery::Arrived(entry) => Ok(Some(entry)),
            Delivery::Abandoned => Err(abandoned()),
        }
    }
}

#[cold]
fn abandoned() -> Error {
    let reason = "the fabric dropped a notify handler without calling it: the NIC was closed";
    Error::new(ReturnCode::Resource, reason)
}

impl<P: Provider> Drop for CompletionQueueShared<P> {
    fn drop(&mut self) {
        // VIs that are bound to it keep it: none is left.
        let _ = self.nic.fabric.destroy_completion_queue(self.handle);
    }
}

impl<P: Provider> fmt::Debug for CompletionQueueShared<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CompletionQueueShared")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl<P: Provider> fmt::Debug for CompletionQueue<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CompletionQueue")
            .field("handle", &self.shared.handle)
            .finish_non_exhaustive()
    }
}

/// A map from VIs to whatever a program has for each, quick enough for every message.
pub type ViMap<T> = HashMap<ViHandle, T, BuildHasherDefault<ViHasher>>;

/// Hashes a [`ViHandle`]: the handles are the fabric's own, so nobody can choose them to collide.
#[derive(Clone, Copy, Debug, Default)]
pub struct ViHasher(u64);

impl Hasher for ViHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, bits: u64) {
        // An odd number near 2^64 / golden ratio; the map looks at the top and the bottom bits.
        let mixed = (self.0 ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vi_map_finds_what_was_put_there() {
        let mut map = ViMap::default();
        let handles = |step: u64| (1..2000).map(move |index| index * step);
        for bits in handles(1).chain(handles(1 << 32)) {
            map.insert(ViHandle::from_bits(bits).unwrap(), bits);
        }
        for (bits, found) in handles(1 << 32).map(|bits| (bits, ViHandle::from_bits(bits).unwrap()))
        {
            assert_eq!(map.get(&found), Some(&bits));
        }
    }

    #[test]
    fn handles_that_differ_in_few_bits_spread() {
        let top = |bits: u64| {
            let mut hasher = ViHasher::default();
            hasher.write_u64(bits);
            hasher.finish() >> 57
        };
        let mut seen = [0_u32; 128];
        (0..1024_u64).for_each(|index| seen[top(index << 32) as usize] += 1);
        assert!(seen.iter().all(|count| *count < 40), "{seen:?}");
    }
}
