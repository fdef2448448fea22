//! Queue pairs and what is posted on them.

use viaduct_core::verbs::{
    Capabilities, QueuePairAttributes, QueuePairState, QueuePairType, ScatterGatherElement,
    SendOpcode,
};

use crate::engine::{self, Key};
use crate::error::Result;
use crate::notices::Owner;
use crate::queues::{CompletionQueue, SharedReceiveQueue};
use crate::region::AddressHandle;

/// What a queue pair is made with (`struct ibv_qp_init_attr`).
#[derive(Clone, Copy, Debug)]
pub struct QueuePairOptions {
    /// RC, UC or UD.
    pub kind: QueuePairType,
    /// Sizes that are wanted; what it got is told by [`QueuePair::query`].
    pub capabilities: Capabilities,
    /// Where sends complete.
    pub send_queue: CompletionQueue,
    /// Where receives complete.
    pub receive_queue: CompletionQueue,
    /// Where receives come from, unless the queue pair has its own.
    pub shared_receive_queue: Option<SharedReceiveQueue>,
    /// Whether every send completes visibly.
    pub is_every_send_signaled: bool,
    /// Names it in asynchronous events.
    pub cookie: u64,
}

/// A piece of work for the send queue (`struct ibv_send_wr`).
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// The program's word for it.
    pub request: u64,
    /// What to do.
    pub opcode: SendOpcode,
    /// Bits of [`send`](viaduct_core::verbs::flags::send).
    pub flags: u32,
    /// Where the bytes are, or where those of a read or an atomic come.
    pub elements: &'a [ScatterGatherElement],
    /// Immediate data, carried as they are.
    pub immediate: u32,
    /// Where in the peer's memory.
    pub remote_address: u64,
    /// The key of that.
    pub remote_key: u32,
    /// What to compare with, or to add.
    pub compare_add: u64,
    /// What to store if equal.
    pub swap: u64,
    /// Where a datagram goes.
    pub datagram: Option<DatagramDestination>,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub struct DatagramDestination {
    /// The way.
    pub address: AddressHandle,
    /// The queue pair.
    pub queue_pair: u32,
    /// Its Q_Key; with the highest bit set, the sender's own.
    pub queue_key: u32,
}

impl<'a> SendRequest<'a> {
    /// A request without anything.
    #[must_use]
    pub const fn new(request: u64, opcode: SendOpcode) -> Self {
        Self {
            request,
            opcode,
            flags: 0,
            elements: &[],
            immediate: 0,
            remote_address: 0,
            remote_key: 0,
            compare_add: 0,
            swap: 0,
            datagram: None,
        }
    }

    /// With these bytes.
    #[must_use]
    pub const fn with_elements(mut self, elements: &'a [ScatterGatherElement]) -> Self {
        self.elements = elements;
        self
    }

    /// With these flags.
    #[must_use]
    pub const fn with_flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    /// With this remote memory.
    #[must_use]
    pub const fn with_remote(mut self, address: u64, key: u32) -> Self {
        self.remote_address = address;
        self.remote_key = key;
        self
    }
}

/// A place for what comes (`struct ibv_recv_wr`).
#[derive(Clone, Copy, Debug)]
pub struct ReceiveRequest<'a> {
    /// The program's word for it.
    pub request: u64,
    /// Where the bytes shall lie.
    pub elements: &'a [ScatterGatherElement],
}

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
        engine::queue_pair_state(self.key)
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
        let mut from = QueuePairState::Reset;
        for state in [
            QueuePairState::Init,
            QueuePairState::ReadyToReceive,
            QueuePairState::ReadyToSend,
        ] {
            let step = QueuePairAttributes {
                state,
                ..*attributes
            };
            let mask = QueuePairAttributes::required(kind, from, state).unwrap_or_default();
            self.modify(&step, mask)?;
            from = state;
        }
        Ok(())
    }

    /// All that was set, and what it was made with (with the sizes that it got).
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn query(&self) -> Result<(QueuePairAttributes, QueuePairOptions)> {
        engine::query_queue_pair(self.key)
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
    pub fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<()> {
        engine::post_receive(self.key, request)
    }

    /// Says that asynchronous events about it have been dealt with.
    pub fn acknowledge_async_events(&self, count: u32) {
        engine::acknowledge_async_events(Owner::Pair(self.key), count);
    }

    /// Destroys it: what is posted is gone without completions, and so are those of its completions
    /// that wait in a queue. Waits until every asynchronous event that was handed out is
    /// acknowledged.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn destroy(&self) -> Result<()> {
        engine::destroy_queue_pair(self.key)
    }
}
