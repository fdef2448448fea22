//! Queue pairs and what is posted on them.

pub use viaduct_core::verbs::ReceiveRequest;
use viaduct_core::verbs::error::gone;
use viaduct_core::verbs::notices::Owner;
use viaduct_core::verbs::{self, QueuePairAttributes, QueuePairState, Result};

use crate::engine::{self, Key, engine, own_engine};
use crate::queues::{CompletionQueue, SharedReceiveQueue};
use crate::region::AddressHandle;

/// What a queue pair is made with.
pub type QueuePairOptions = verbs::QueuePairOptions<CompletionQueue, SharedReceiveQueue>;
/// A piece of work for the send queue.
pub type SendRequest<'a> = verbs::SendRequest<'a, AddressHandle>;
/// Where a datagram goes.
pub type DatagramDestination = verbs::DatagramDestination<AddressHandle>;

/// A queue pair.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct QueuePair {
    pub(crate) key: Key,
    pub(crate) number: u32,
}

impl QueuePair {
    /// Its number, 24 bits, by which its peer names it.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Its state.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn state(&self) -> Result<QueuePairState> {
        Ok(engine()?.objects.pair(self.key)?.state)
    }

    /// Changes what `mask` (bits of [`attribute`](viaduct_core::verbs::flags::attribute)) names.
    ///
    /// # Errors
    ///
    /// EINVAL for a transition that does not exist, an attribute that is missing, one that has no
    /// place in it, or a value past the device's; EOPNOTSUPP for second paths and rates.
    pub fn modify(&self, attributes: &QueuePairAttributes, mask: u32) -> Result<()> {
        engine::modify_queue_pair(self.key, attributes, mask)
    }

    /// Takes a new one up to RTS: through INIT and RTR, with the attributes that each step must
    /// name.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::modify`].
    pub fn raise(&self, attributes: &QueuePairAttributes) -> Result<()> {
        let kind = self.query()?.1.kind;
        for (step, mask) in attributes.steps_up(kind) {
            self.modify(&step, mask)?;
        }
        Ok(())
    }

    /// All that was set, and what it was made with (with the sizes that it got).
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn query(&self) -> Result<(QueuePairAttributes, QueuePairOptions)> {
        let (attributes, options) = engine()?.objects.query(self.key)?;
        let options = options.map(
            |&key| CompletionQueue { key },
            |&key| SharedReceiveQueue { key },
        );
        Ok((attributes, options))
    }

    /// Posts a piece of work.
    ///
    /// # Errors
    ///
    /// EINVAL in a state without sends, for an opcode that the type has not, too many elements or
    /// too many inline bytes; ENOMEM when the queue is full.
    ///
    /// # Safety
    ///
    /// With the flag `INLINE` the elements' bytes can be read now.
    pub unsafe fn post_send(&self, request: &SendRequest<'_>) -> Result<()> {
        // SAFETY: as promised by the caller.
        unsafe { engine::post_sends(self.key, std::slice::from_ref(request)) }
    }

    /// Posts several pieces of work: all of them, or none.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::post_send`].
    ///
    /// # Safety
    ///
    /// As [`QueuePair::post_send`].
    pub unsafe fn post_sends(&self, requests: &[SendRequest<'_>]) -> Result<()> {
        // SAFETY: as promised by the caller.
        unsafe { engine::post_sends(self.key, requests) }
    }

    /// Posts a receive.
    ///
    /// # Errors
    ///
    /// EINVAL in the state RESET, with a shared receive queue, or for too many elements; ENOMEM
    /// when the queue is full.
    #[inline]
    pub fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<()> {
        match own_engine() {
            Some(mut own) => (own.get().ok_or_else(gone)?.objects).post_receive(self.key, request),
            None => engine()?.objects.post_receive(self.key, request),
        }
    }

    /// Says that asynchronous events about it have been dealt with.
    pub fn acknowledge_async_events(&self, count: u32) {
        engine::acknowledge_async(Owner::Pair(self.key), count);
    }

    /// Destroys it: what is posted is gone without completions, and so are those of its completions
    /// that wait in a queue. Waits until every asynchronous event that was handed out is
    /// acknowledged.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn destroy(&self) -> Result<()> {
        engine()?.count_direct();
        engine::destroy(|objects| objects.destroy_pair(self.key))
    }
}
