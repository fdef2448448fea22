//! What a process keeps of queue pairs, their requests and receives, and memory.

use std::collections::VecDeque;

use viaduct_core::verbs::{
    AddressAttributes, Elements, PostedSend, QueuePairAttributes, QueuePairState, Receive,
    ScatterGatherElement, SendQueue, bytes_of,
};
use viaduct_processes::copy::copy;

use crate::faults::Struck;
use crate::packet::Remote;
use crate::pair::QueuePairOptions;
use viaduct_core::verbs::Key;

/// Bytes that a send brought, without memory of their own while they are few.
#[derive(Clone, Debug)]
pub(crate) enum Inline {
    Few([u8; INLINE_FEW], u8),
    Many(Box<[u8]>),
}

/// Bytes that need no memory of their own.
pub(crate) const INLINE_FEW: usize = 38;

impl Inline {
    /// # Safety
    ///
    /// The elements' bytes can be read.
    #[inline(always)]
    pub(crate) unsafe fn new(elements: &[ScatterGatherElement]) -> Self {
        let mut few = [0; INLINE_FEW];
        if let [one] = elements
            && one.length as usize <= INLINE_FEW
        {
            let length = one.length as usize;
            // SAFETY: as promised by the caller; the array has room.
            unsafe { copy(few.as_mut_ptr(), one.address as *const u8, length) };
            return Self::Few(few, length as u8);
        }
        let mut many = Vec::with_capacity(bytes_of(elements) as usize);
        for element in elements.iter().filter(|element| element.length > 0) {
            // SAFETY: as promised by the caller.
            many.extend_from_slice(unsafe {
                std::slice::from_raw_parts(element.address as *const u8, element.length as usize)
            });
        }
        match few.get_mut(..many.len()) {
            Some(place) => {
                place.copy_from_slice(&many);
                Self::Few(few, many.len() as u8)
            }
            None => Self::Many(many.into_boxed_slice()),
        }
    }
}

/// Where a send's bytes are, or where those come that it asks for.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Inline(Inline),
    Elements(Elements),
}

impl Payload {
    /// # Safety
    ///
    /// If they are inline, the elements' bytes can be read.
    #[inline(always)]
    pub(crate) unsafe fn new(elements: &[ScatterGatherElement], is_inline: bool) -> Self {
        if is_inline {
            // SAFETY: as promised by the caller.
            Self::Inline(unsafe { Inline::new(elements) })
        } else {
            Self::Elements(Elements::new(elements))
        }
    }

    /// Elements in registered memory: none of what is inline.
    pub(crate) fn elements(&self) -> &[ScatterGatherElement] {
        match self {
            Self::Inline(_) => &[],
            Self::Elements(elements) => elements.as_slice(),
        }
    }
}

/// A send.
pub(crate) type Send = PostedSend<OnRing>;

/// What a send has of its own, on its way through a ring.
#[derive(Debug)]
pub(crate) struct OnRing {
    pub(crate) payload: Payload,
    /// Where a datagram goes: attributes of the way, number, Q_Key.
    pub(crate) destination: Option<Box<(AddressAttributes, u32, u32)>>,
    /// Where its last packet ends in the ring; 0: it was lost on the way.
    pub(crate) end: u64,
    /// Whether its bytes were written before its packets.
    pub(crate) is_placed: bool,
    /// What faults on request did to it.
    pub(crate) struck: Struck,
}

/// A message that is coming in.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) receive: Option<Receive>,
    /// Where a remote write goes, and how many bytes it has, as its first part said.
    pub(crate) remote: Option<Remote>,
    pub(crate) total: u64,
    pub(crate) offset: u64,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) key: Key,
    pub(crate) number: u32,
    pub(crate) context: Key,
    pub(crate) domain: Key,
    pub(crate) options: QueuePairOptions,
    pub(crate) state: QueuePairState,
    pub(crate) attributes: QueuePairAttributes,
    pub(crate) sends: SendQueue<OnRing>,
    pub(crate) receives: VecDeque<Receive>,
    pub(crate) link: Option<usize>,
    /// Whether it is on the list of those with sends.
    pub(crate) is_active: bool,
    /// Not before this, since the peer was not ready.
    pub(crate) wait_until: u64,
    /// At which of the engine's looks the peer's table is looked at, if no message says before what
    /// the peer has: a look at what it writes would delay its answer.
    pub(crate) table_at: u64,
    pub(crate) expected: u32,
    pub(crate) incoming: Option<Incoming>,
    pub(crate) is_established: bool,
    pub(crate) drain_wanted: bool,
    pub(crate) async_unacknowledged: u32,
    /// Sends that have come to their turn, and messages that found a receive: counted for faults
    /// on request alone.
    pub(crate) begun_count: u32,
    pub(crate) heard_count: u32,
    /// Whether a fault lost a send that others may follow.
    pub(crate) has_gap: bool,
}

impl Pair {
    /// Whether its receives come from a shared receive queue.
    pub(crate) fn has_shared_queue(&self) -> bool {
        self.options.shared_receive_queue.is_some()
    }
}

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) context: Key,
    pub(crate) domain: Key,
    pub(crate) cookie: u64,
    pub(crate) max_requests: u32,
    pub(crate) max_elements: u32,
    pub(crate) limit: u32,
    pub(crate) receives: VecDeque<Receive>,
    pub(crate) users: u32,
    pub(crate) async_unacknowledged: u32,
}

/// A protection domain.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) context: Key,
    /// Objects made in it.
    pub(crate) users: u32,
}

/// An address handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) context: Key,
    pub(crate) domain: Key,
    pub(crate) attributes: AddressAttributes,
}
