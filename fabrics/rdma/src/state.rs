//! What a process keeps of queue pairs and their sends on their way through rings.

use viaduct_core::verbs::check::SendLimits;
use viaduct_core::verbs::regions::Regions;
use viaduct_core::verbs::requester::{self, Begin, Request, Turn};
use viaduct_core::verbs::{
    self, Destination, Elements, PostedSend, QueuePairType, Receive, ScatterGatherElement,
    bytes_of, check, responder,
};
use viaduct_processes::copy::copy;

use crate::carrier::Rings;
use crate::faults::Struck;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::memory;
use crate::packet::Remote;
use crate::pair::SendRequest;
use crate::ring::Header;

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
    /// Where a datagram goes.
    pub(crate) destination: Option<Box<Destination>>,
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
pub(crate) type Pair = verbs::Pair<Rings>;

/// What the short way does not ask anew for each message: it is made from the rules whenever a
/// queue pair was worked on. A new one has nothing go the short way.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Short {
    /// Whether a message that is posted begins, if no other has to before.
    pub(crate) sends: bool,
    /// The ends ([`Header::ends`]) of messages that are taken; 0: none is.
    pub(crate) hears: u64,
}

impl Short {
    pub(crate) fn of(pair: &Pair) -> Self {
        let kind = pair.options.kind;
        let is_connected = match kind {
            QueuePairType::Rc | QueuePairType::Uc => true,
            QueuePairType::Ud => false,
        };
        let sends = is_connected
            && pair.wait_until == 0
            && check::takes_sends(pair.state)
            && requester::turn(pair.state, false) == Turn::Begins;
        let event = responder::event_at_first_request(pair.state, pair.is_established);
        let hears = is_connected
            && pair.own.incoming.is_none()
            && !pair.drain_wanted
            && !pair.has_shared_queue()
            && check::hears(pair.state)
            && event.is_none();
        let ends = Header {
            target: pair.number,
            source: pair.attributes.destination,
            ..Header::default()
        };
        Self {
            sends,
            hears: if hears { ends.ends() } else { 0 },
        }
    }
}

/// Whether a request may be posted, and begins at once, whoever carries it out.
#[inline(always)]
pub(crate) fn begins_at_once(pair: &Pair, request: &SendRequest<'_>, length: u64) -> bool {
    let (kind, opcode, flags) = (pair.options.kind, request.opcode, request.flags);
    let sizes = &pair.options.capabilities;
    let limits = SendLimits {
        elements: sizes.max_send_elements,
        inline_bytes: sizes.max_inline_bytes,
    };
    let asked = Request {
        kind,
        opcode,
        flags,
        length,
    };
    let (answers, max_read_atomic) = (pair.sends.asked(), pair.attributes.max_read_atomic);
    let bytes_max = u64::from(MESSAGE_BYTES_MAX);
    pair.own.short.sends
        && !pair.sends.has_more()
        && pair.sends.len() < sizes.max_send_requests as usize
        && check::send(kind, opcode, flags, request.elements.len(), length, limits).is_ok()
        && requester::begin(&asked, answers, max_read_atomic, bytes_max) == Begin::Now
}

/// Where the bytes of an element lie that is sent, if its key lets them through.
#[inline(always)]
pub(crate) fn source_of(
    regions: &Regions,
    domain: u32,
    element: &ScatterGatherElement,
    is_inline: bool,
) -> Option<u64> {
    let (key, bytes) = (element.local_key, u64::from(element.length));
    if is_inline || bytes == 0 {
        return Some(element.address);
    }
    memory::find(regions, key, domain, 0, element.address, bytes)
}

/// What a queue pair has of its own.
#[derive(Debug, Default)]
pub(crate) struct OfPair {
    pub(crate) short: Short,
    pub(crate) link: Option<usize>,
    /// Whether it is on the list of those with sends.
    pub(crate) is_active: bool,
    /// At which of the engine's looks the peer's table is looked at, if no message says before what
    /// the peer has: a look at what it writes would delay its answer.
    pub(crate) table_at: u64,
    pub(crate) incoming: Option<Incoming>,
    /// Sends that have come to their turn, and messages that found a receive: counted for faults
    /// on request alone.
    pub(crate) begun_count: u32,
    pub(crate) heard_count: u32,
    /// Whether a fault lost a send that others may follow.
    pub(crate) has_gap: bool,
}
