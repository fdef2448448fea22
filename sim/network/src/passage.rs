//! A message on its way through a network where frames or packets move by themselves.

use core::ops::{Deref, DerefMut};

use crate::adapter::NEVER;
use crate::by_host::ByHost;
use crate::fluid::{FlowDemand, FlowId};
use crate::frames::alone::{Own, Span};
use crate::queues::FlowKey;
use crate::rate::{Rate, Switching};

/// No message.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What a message is cut into, and what else a kind of network knows of it.
pub(crate) trait Parts {
    /// Of no message.
    const NONE: Self;

    /// Whether the adapter has sent all of them.
    fn are_sent(&self) -> bool;
}

/// A message, over what it crosses at once. Its pieces are of some kinds, by their sizes. Times are
/// picoseconds; `NEVER` if not known yet.
#[derive(Debug)]
pub(crate) struct Passage<P, const KINDS: usize> {
    pub(crate) tag: u32,
    pub(crate) is_active: bool,
    /// The host that it goes to.
    pub(crate) target: u32,
    /// What it crosses, by number, and whether it crosses the buses before and behind that.
    pub(crate) way: Vec<u32>,
    pub(crate) has_first_bus: bool,
    pub(crate) has_last_bus: bool,
    /// Bytes on the link for each byte on a bus.
    pub(crate) scale: f64,
    /// By kind of piece: with the sender's adapter, and with the target's.
    pub(crate) own: [Own; KINDS],
    pub(crate) taken: [Own; KINDS],
    /// When the sender's adapter may begin with the next piece, and the target's.
    pub(crate) next_start: u64,
    pub(crate) next_taken: u64,
    /// What is behind it in its flow.
    pub(crate) behind: u32,
    /// How long its first byte takes, nobody else there.
    pub(crate) lead: u64,
    /// Whether it is to be told that its head is there, and that its sender is done.
    pub(crate) owes_head: bool,
    pub(crate) owes_gone: bool,
    /// When its head is there; when its last byte has left the sender; when that is there.
    pub(crate) head: u64,
    pub(crate) gone: u64,
    pub(crate) end: u64,
    pub(crate) parts: P,
}

impl<P: Parts, const KINDS: usize> Passage<P, KINDS> {
    pub(crate) const EMPTY: Self = Self {
        tag: 0,
        is_active: false,
        target: 0,
        way: Vec::new(),
        has_first_bus: false,
        has_last_bus: false,
        scale: 1.0,
        own: [Own::NOTHING; KINDS],
        taken: [Own::NOTHING; KINDS],
        next_start: 0,
        next_taken: 0,
        behind: NOBODY,
        lead: 0,
        owes_head: false,
        owes_gone: false,
        head: NEVER,
        gone: NEVER,
        end: NEVER,
        parts: P::NONE,
    };

    /// Begins anew with a message whose pieces have some sizes; its way is laid by others.
    pub(crate) fn begin(
        &mut self,
        crossing: &Crossing<'_>,
        demand: &FlowDemand,
        (parts, bytes): (P, [f64; KINDS]),
        alone: Span,
        (bus_rates, switching): (&ByHost<Rate>, Switching),
    ) {
        let (source, target) = crossing.hosts;
        let rate = |has_bus: bool, host| has_bus.then(|| *bus_rates.of(host));
        let (first, last) = (
            rate(crossing.has_first_bus, source),
            rate(crossing.has_last_bus, target),
        );
        let own = |bytes| Own::of(bytes, demand, first);
        let taken = |bytes| Own::taken(bytes, demand, last, switching);
        let is_sent = !crossing.way.is_empty();
        let mut way = core::mem::take(&mut self.way);
        way.clear();
        *self = Self {
            tag: demand.tag,
            is_active: true,
            target: crossing.hosts.1,
            way,
            has_first_bus: crossing.has_first_bus,
            has_last_bus: crossing.has_last_bus,
            scale: demand.scale,
            own: bytes.map(own),
            taken: bytes.map(taken),
            lead: alone.head,
            owes_head: is_sent && crossing.brings_head,
            owes_gone: is_sent,
            parts,
            ..Self::EMPTY
        };
    }

    /// The target's adapter takes a piece for some time, and no bus: when its last byte is there.
    #[inline]
    pub(crate) fn take(&mut self, ready: u64, span: u64) -> u64 {
        self.next_taken = ready.max(self.next_taken) + span;
        self.next_taken
    }
}

/// What is to go through such a network at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing<'way> {
    /// The host whose adapter or bus it begins with, and the one behind its links.
    pub(crate) hosts: (u32, u32),
    /// Its links.
    pub(crate) way: &'way [u32],
    pub(crate) has_first_bus: bool,
    pub(crate) has_last_bus: bool,
    /// The flow it belongs to; none if it is alone in its own.
    pub(crate) flow: Option<FlowKey>,
    /// Whether its head is to be told of.
    pub(crate) brings_head: bool,
    /// Whether its pieces may take other ways that are as good, where pieces do.
    pub(crate) may_spread: bool,
}

/// The messages on their way, by number.
#[derive(Debug)]
pub(crate) struct Passages<P, const KINDS: usize> {
    all: Vec<Passage<P, KINDS>>,
    free: Vec<u32>,
}

impl<P: Parts, const KINDS: usize> Passages<P, KINDS> {
    pub(crate) const fn new() -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
        }
    }

    /// A number that no message has.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Passage::EMPTY);
            self.all.len() as u32 - 1
        })
    }

    /// A message is over.
    pub(crate) fn give_back(&mut self, id: u32) {
        self.all[id as usize].is_active = false;
        self.free.push(id);
    }

    /// What a number belongs to.
    pub(crate) fn tag(&self, id: FlowId) -> u32 {
        self.all.get(id.0 as usize).map_or(NOBODY, |it| it.tag)
    }

    /// What the messages on their way belong to.
    pub(crate) fn active_tags(&self) -> impl Iterator<Item = u32> {
        let active = self.all.iter().filter(|passage| passage.is_active);
        active.map(|passage| passage.tag)
    }

    pub(crate) fn state_bytes(&self) -> usize {
        let ways: usize = self.all.iter().map(|it| it.way.capacity()).sum();
        self.all.capacity() * size_of::<Passage<P, KINDS>>() + ways * size_of::<u32>()
    }
}

impl<P, const KINDS: usize> Deref for Passages<P, KINDS> {
    type Target = [Passage<P, KINDS>];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl<P, const KINDS: usize> DerefMut for Passages<P, KINDS> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.all
    }
}
