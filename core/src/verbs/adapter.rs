//! An adapter with all its objects: told what programs ask and what came over the network, it
//! answers what to do. It moves no bytes but through [`Memory`], and has no clock: whoever carries
//! its packets says what time it is.
//!
//! ```text
//!  program                                      carrier
//!  post_send  -> is ready: poll_ready           begin: the next Packet and its bytes
//!                                               left: its last byte has left
//!                                               take: what came; an Answer goes back
//!  poll       <- completions                    hear: the Answer is back
//!  next_completion_event, next_async_event      due, expire: a pause or a timeout is over
//! ```
//!
//! A message is one [`Packet`] here, however many frames it takes on its way. The rules are those
//! of [`check`](super::check), [`requester`](super::requester), [`responder`](super::responder)
//! and [`transition`](super::transition).

mod objects;
mod pairs;
mod receiving;
mod sending;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::regions::Regions;
use super::{
    AddressAttributes, AsyncElement, AsyncEvent, AsyncEventType, Completion, CompletionStatus,
    Completions, Key, Mtu, QueuePairAttributes, QueuePairOptions, QueuePairState, Receive,
    SendOpcode, SendQueue, Table,
};

/// What an adapter has at most, and what its port is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AdapterAttributes {
    /// The number of its first queue pair; those of its others follow.
    pub first_number: u32,
    /// Queue pairs at once.
    pub max_queue_pairs: u32,
    /// Requests on a queue.
    pub max_requests: u32,
    /// Elements of a request.
    pub max_elements: u32,
    /// Bytes that a send may bring with it.
    pub max_inline_bytes: u32,
    /// Entries of a completion queue.
    pub max_completion_entries: u32,
    /// Reads and atomics under way at either end of a queue pair.
    pub max_read_atomic: u8,
    /// Bytes of a message.
    pub max_message_bytes: u64,
    /// Bytes of a region.
    pub max_region_bytes: u64,
    /// The longest packet of its port.
    pub mtu: Mtu,
    /// Its address, at index 0 of its GIDs.
    pub gid: [u8; 16],
}

/// What a queue pair sends, as its carrier sees it: what is around a message's bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Packet {
    /// The number of the queue pair that sends.
    pub source: u32,
    /// The number of the queue pair that it is for.
    pub target: u32,
    /// Its number on its connection.
    pub sequence: u32,
    /// What to do.
    pub opcode: SendOpcode,
    /// Whether its receive is solicited.
    pub is_solicited: bool,
    /// Immediate data.
    pub immediate: u32,
    /// Bytes of the message, or of what is asked for.
    pub length: u64,
    /// Where in the target's memory.
    pub remote_address: u64,
    /// The key of that.
    pub remote_key: u32,
    /// What to compare with, or to add.
    pub compare_add: u64,
    /// What to store if equal.
    pub swap: u64,
    /// What only a datagram has.
    pub datagram: Option<Box<Datagram>>,
    /// Elements at the sender.
    pub elements: u32,
    /// Whether its bytes were taken when it was posted.
    pub is_inline: bool,
}

/// What only a datagram has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Datagram {
    /// Its Q_Key.
    pub queue_key: u32,
    /// The way that it was sent on.
    pub address: AddressAttributes,
    /// The header that stands before it in its receive.
    pub route: [u8; 40],
}

/// What the target of a packet says of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// All before this number is carried out.
    Acknowledged {
        /// The number that is expected.
        expected: u32,
    },
    /// It is refused.
    Refused {
        /// How it completes.
        status: CompletionStatus,
    },
    /// There is no receive for it.
    NotReady {
        /// How long to wait, by the table of the timer.
        timer: u8,
    },
    /// What was asked for comes with this.
    Bytes,
}

/// Memory of the programs of a host.
pub trait Memory {
    /// Adds the bytes at an address to others.
    fn read(&self, address: u64, length: usize, into: &mut Vec<u8>);

    /// Writes bytes at an address.
    fn write(&mut self, address: u64, bytes: &[u8]);
}

/// Which object an event is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Owner {
    Queue(Key),
    Pair(Key),
    Shared(Key),
}

/// An opened device.
#[derive(Debug)]
struct ContextState {
    events: VecDeque<(AsyncEvent, Owner)>,
}

/// A completion channel.
#[derive(Debug)]
struct Channel {
    context: Key,
    events: VecDeque<(Key, u64)>,
    queues: u32,
}

/// A completion queue.
#[derive(Debug)]
struct Queue {
    context: Key,
    completions: Completions,
    channel: Option<Key>,
    cookie: u64,
    has_timestamps: bool,
    users: u32,
}

/// A protection domain.
#[derive(Debug)]
struct Domain {
    context: Key,
    users: u32,
}

/// A shared receive queue.
#[derive(Debug)]
struct Shared {
    context: Key,
    domain: Key,
    cookie: u64,
    max_requests: u32,
    max_elements: u32,
    limit: u32,
    receives: VecDeque<Receive>,
    users: u32,
}

/// An address handle.
#[derive(Clone, Copy, Debug)]
struct Address {
    context: Key,
    domain: Key,
    attributes: AddressAttributes,
}

/// Where a send's bytes are, or where those come that it asks for.
#[derive(Debug)]
enum Payload {
    Inline(Vec<u8>),
    Elements(super::Elements),
}

/// What a send has of its own.
#[derive(Debug)]
struct OwnOfSend {
    payload: Payload,
    /// Where a datagram goes: the way, the queue pair's number, its Q_Key.
    destination: Option<Box<(AddressAttributes, u32, u32)>>,
    /// Whether its last byte has left.
    has_left: bool,
}

/// A queue pair.
#[derive(Debug)]
struct Pair {
    key: Key,
    number: u32,
    context: Key,
    domain: Key,
    options: QueuePairOptions,
    state: QueuePairState,
    attributes: QueuePairAttributes,
    sends: SendQueue<OwnOfSend>,
    receives: VecDeque<Receive>,
    /// Not before this, since the peer was not ready, in nanoseconds; 0: at once.
    wait_until: u64,
    /// The number of the request that is expected.
    expected: u32,
    /// Reads and atomics that have begun and are not complete: more than wait for their answers,
    /// where one was lost and those of later ones have come. The peer remembers no more than may be
    /// under way.
    asking: usize,
    /// What the last atomics from the peer found, by their numbers.
    found: VecDeque<(u32, u64)>,
    is_established: bool,
    drain_wanted: bool,
    /// Whether it is on the list of those whose sends may go on.
    is_ready: bool,
}

/// An adapter.
#[derive(Debug)]
pub struct Adapter {
    attributes: AdapterAttributes,
    /// Nanoseconds; see [`Adapter::set_time`].
    now: u64,
    contexts: Table<ContextState>,
    channels: Table<Channel>,
    queues: Table<Queue>,
    domains: Table<Domain>,
    regions: Regions,
    shared: Table<Shared>,
    pairs: Table<Option<Box<Pair>>>,
    addresses: Table<Address>,
    /// Places of queue pairs whose sends may go on.
    ready: VecDeque<u32>,
    /// Whether something was told, or written into memory, since it was last asked.
    has_news: bool,
    key_variant: u32,
}

/// Objects of a kind.
const OBJECTS_MAX: u32 = 65_536;

impl Adapter {
    /// Has nothing yet.
    #[must_use]
    pub const fn new(attributes: AdapterAttributes) -> Self {
        Self {
            attributes,
            now: 0,
            contexts: Table::new(OBJECTS_MAX, 1),
            channels: Table::new(OBJECTS_MAX, 1),
            queues: Table::new(OBJECTS_MAX, 1),
            domains: Table::new(OBJECTS_MAX, 1),
            regions: Table::new(OBJECTS_MAX, 1),
            shared: Table::new(OBJECTS_MAX, 1),
            pairs: Table::new(attributes.max_queue_pairs, 1),
            addresses: Table::new(OBJECTS_MAX, 1),
            ready: VecDeque::new(),
            has_news: false,
            key_variant: 1,
        }
    }

    /// What it has at most.
    #[must_use]
    pub const fn attributes(&self) -> &AdapterAttributes {
        &self.attributes
    }

    /// What time it is, in nanoseconds, never 0 and never less than before.
    pub const fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    /// The next queue pair whose sends may go on, by its place.
    pub fn poll_ready(&mut self) -> Option<u32> {
        loop {
            let place = self.ready.pop_front()?;
            if let Some(Some(pair)) = self.pairs.at_mut(place) {
                pair.is_ready = false;
                return Some(place);
            }
        }
    }

    /// Whether completions, events or bytes of a peer have come since this was last asked.
    pub const fn takes_news(&mut self) -> bool {
        core::mem::replace(&mut self.has_news, false)
    }

    /// The place of a queue pair's number, if there is one.
    #[must_use]
    pub fn place_of(&self, number: u32) -> Option<u32> {
        let place = number.checked_sub(self.attributes.first_number)?;
        self.pairs.at(place)?.as_ref().map(|_| place)
    }

    /// A queue pair that lives, with the rest at hand. It must be put back.
    fn take_pair(&mut self, place: u32) -> Option<Box<Pair>> {
        self.pairs.at_mut(place)?.take()
    }

    /// Puts it back; it is ready if sends of it wait that may begin by now.
    fn put_pair(&mut self, pair: Box<Pair>) {
        let place = pair.key.index();
        if let Some(slot) = self.pairs.get_mut(pair.key) {
            *slot = Some(pair);
        }
        self.make_ready(place);
    }

    /// What has not begun is looked at.
    fn make_ready(&mut self, place: u32) {
        if let Some(Some(pair)) = self.pairs.at_mut(place)
            && pair.sends.has_more()
            && !pair.is_ready
        {
            pair.is_ready = true;
            self.ready.push_back(place);
        }
    }

    /// Puts a completion into its queue.
    fn complete(&mut self, key: Key, mut completion: Completion, is_solicited: bool) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        self.has_news = true;
        if queue.has_timestamps {
            completion.timestamp = self.now;
        }
        let (channel, context, cookie) = (queue.channel, queue.context, queue.cookie);
        match queue.completions.put(completion, is_solicited) {
            super::Arrival::Quiet => {}
            super::Arrival::Tells => {
                if let Some(channel) = channel.and_then(|channel| self.channels.get_mut(channel)) {
                    channel.events.push_back((key, cookie));
                }
            }
            super::Arrival::Overruns => {
                let element = AsyncElement::CompletionQueue(cookie);
                let kind = AsyncEventType::CompletionQueueError;
                self.tell(context, kind, element, Owner::Queue(key));
            }
        }
    }

    /// Tells an asynchronous event.
    fn tell(&mut self, context: Key, kind: AsyncEventType, element: AsyncElement, owner: Owner) {
        if let Some(context) = self.contexts.get_mut(context) {
            self.has_news = true;
            let event = AsyncEvent { kind, element };
            context.events.push_back((event, owner));
        }
    }

    fn tell_pair(&mut self, pair: &Pair, kind: AsyncEventType) {
        let element = AsyncElement::QueuePair(pair.options.cookie);
        self.tell(pair.context, kind, element, Owner::Pair(pair.key));
    }
}
