//! An adapter with all its objects: told what programs ask and what came over the network, it
//! answers what to do. It moves no bytes but through [`Memory`], and has no clock: whoever carries
//! its packets says what time it is.
//!
//! ```text
//!  program                                      carrier
//!  post       -> is ready: poll_ready           begin: the next Packet and its bytes
//!                                               left: its last byte has left
//!                                               take: what came; an Answer goes back
//!  take       <- completions                    hear: the Answer is back
//!  next_completion_event, next_async_event      due, expire: a pause or a timeout is over
//! ```
//!
//! A message is one [`Packet`] here, however many frames it takes on its way. Objects, and how what
//! is posted on them ends, are those of every carrier ([`Objects`]); the rules are those of
//! [`check`](super::check), [`requester`](super::requester), [`responder`](super::responder) and
//! [`transition`](super::transition).

mod receiving;
mod sending;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use super::carrier::{Carrier, Signal};
use super::responder::Incident;
use super::{
    AddressAttributes, Completion, CompletionStatus, Destination, Elements, Key, Objects, Pair,
    Result, SendOpcode, SendRequest,
};

/// The objects of an adapter.
pub type Adapter = Objects<Packets>;

/// Carries messages as whole packets, which somebody takes to their targets.
#[derive(Debug)]
pub struct Packets {
    gid: [u8; 16],
    /// Nanoseconds; see [`Adapter::set_time`].
    now: u64,
    /// Places of queue pairs whose sends may go on.
    ready: VecDeque<u32>,
    /// Whether something was told, or written into memory, since it was last asked.
    has_news: bool,
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
    /// This number is missing, which the target expects, and all before it is carried out.
    Missing {
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

/// What becomes of a packet at its target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Its bytes are placed, or those are taken that it asks for.
    Placed,
    /// The same, and a receive completes.
    Received,
    /// There is no receive for it.
    NoReceive,
    /// It is not carried out.
    Refused(Incident),
    /// Nothing: nobody here is for it, it was carried out before, or one before it is missing.
    Ignored,
}

/// What a target has done with a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Taken {
    /// What its sender hears of it.
    pub answer: Option<Answer>,
    /// What becomes of it.
    pub outcome: Outcome,
}

impl Taken {
    /// Nobody here is for it.
    pub const IGNORED: Self = Self {
        answer: None,
        outcome: Outcome::Ignored,
    };
    const ANSWERED: Self = Self {
        answer: Some(Answer::Bytes),
        outcome: Outcome::Placed,
    };
}

/// Memory of the programs of a host.
pub trait Memory {
    /// Adds the bytes at an address to others.
    fn read(&self, address: u64, length: usize, into: &mut Vec<u8>);

    /// Writes bytes at an address.
    fn write(&mut self, address: u64, bytes: &[u8]);
}

/// Where a send's bytes are, or where those come that it asks for.
#[derive(Debug)]
enum Payload {
    Inline(Vec<u8>),
    Elements(Elements),
}

/// What a send has of its own.
#[derive(Debug)]
pub struct OfSend {
    payload: Payload,
    /// Where a datagram goes.
    destination: Option<Box<Destination>>,
    /// Whether its last byte has left.
    has_left: bool,
}

/// What a queue pair has of its own.
#[derive(Debug, Default)]
pub struct OfPair {
    /// Reads and atomics that have begun and are not complete: more than wait for their answers,
    /// where one was lost and those of later ones have come. The peer remembers no more than may be
    /// under way.
    asking: usize,
    /// What the last atomics from the peer found, by their numbers.
    found: VecDeque<(u32, u64)>,
    /// Whether the peer was told of the number that is missing.
    is_gap_told: bool,
    /// Whether it is on the list of those whose sends may go on.
    is_ready: bool,
}

impl Packets {
    /// Between adapters of which this one has such an address, at index 0 of its GIDs.
    #[must_use]
    pub const fn from(gid: [u8; 16]) -> Self {
        Self {
            gid,
            now: 0,
            ready: VecDeque::new(),
            has_news: false,
        }
    }

    /// The address of the adapter.
    #[must_use]
    pub const fn gid(&self) -> [u8; 16] {
        self.gid
    }
}

impl Carrier for Packets {
    type Device = ();
    type Signal = Option<Box<dyn Signal + Send>>;
    type Pair = OfPair;
    type Send = OfSend;

    fn now(&self) -> u64 {
        self.now
    }

    fn completes(&mut self, _completion: &Completion) {
        self.has_news = true;
    }

    fn has_news(&mut self) {
        self.has_news = true;
    }

    /// It is ready if sends of it wait that may begin by now.
    fn puts_pair(&mut self, pair: &mut Pair<Self>) {
        if pair.sends.has_more() && !pair.own.is_ready {
            pair.own.is_ready = true;
            self.ready.push_back(pair.key.index());
        }
    }

    fn resets(own: &mut OfPair) {
        own.found.clear();
        own.is_gap_told = false;
    }

    /// Those in front of what begins again are as they were.
    fn rewinds(pair: &mut Pair<Self>) {
        let begun = pair.sends.started();
        if begun == 0 {
            pair.sends.heard_at = 0;
        }
        let asking = pair.sends.begun().filter(|send| send.opcode.is_answered());
        pair.own.asking = asking.count();
        for send in pair.sends.iter_mut().skip(begun) {
            send.own.has_left = false;
        }
    }

    fn has_left(own: &OfSend) -> bool {
        own.has_left
    }

    fn retires(&self, pair: &mut Pair<Self>, opcode: SendOpcode) {
        let asking = &mut pair.own.asking;
        *asking -= usize::from(opcode.is_answered()).min(*asking);
        if pair.sends.first().is_some_and(|send| send.own.has_left) {
            pair.sends.heard_at = self.now;
        }
    }
}

impl Adapter {
    /// What time it is, in nanoseconds, never 0 and never less than before.
    pub const fn set_time(&mut self, now: u64) {
        self.notices.carrier.now = now;
    }

    /// The next queue pair whose sends may go on, by its place.
    pub fn poll_ready(&mut self) -> Option<u32> {
        loop {
            let place = self.notices.carrier.ready.pop_front()?;
            if let Some(Some(pair)) = self.pairs.at_mut(place) {
                pair.own.is_ready = false;
                return Some(place);
            }
        }
    }

    /// Whether completions, events or bytes of a peer have come since this was last asked.
    pub const fn takes_news(&mut self) -> bool {
        mem::replace(&mut self.notices.carrier.has_news, false)
    }

    /// The place of a queue pair's number, if there is one.
    #[must_use]
    pub fn place_of(&self, number: u32) -> Option<u32> {
        let place = number.checked_sub(self.limits().first_number)?;
        self.pairs.at(place)?.as_ref().map(|_| place)
    }

    /// Posts pieces of work, as [`Objects::post_sends`]. Inline bytes are taken from memory now.
    ///
    /// # Errors
    ///
    /// As [`Objects::post_sends`].
    pub fn post<A: Copy + Into<Key>>(
        &mut self,
        key: Key,
        requests: &[SendRequest<'_, A>],
        memory: &impl Memory,
    ) -> Result<()> {
        self.post_sends(key, requests, |elements, is_inline, destination| {
            let payload = if is_inline {
                let mut bytes = Vec::new();
                for element in elements {
                    memory.read(element.address, element.length as usize, &mut bytes);
                }
                Payload::Inline(bytes)
            } else {
                Payload::Elements(Elements::new(elements))
            };
            OfSend {
                payload,
                destination,
                has_left: false,
            }
        })
    }
}
