//! A host's end of a network where frames or packets move by themselves: what its adapter sends in
//! turn, and its bus.
//!
//! The adapter sends a piece of each flow in turn, and the messages of a flow one after another. It
//! reads a piece over the bus when that before it begins on the link. The bus carries pieces of
//! both directions, and those of other devices, first come first served.

use std::collections::VecDeque;

use viaduct_engine::prefetch;

use crate::passage::{NOBODY, Parts, Passage};
use crate::queues::FlowKey;

/// No time.
pub(crate) const NEVER: u64 = u64::MAX;

/// A piece of a message that has come to its target and is to cross the bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inbound<I> {
    pub(crate) ready: u64,
    pub(crate) passage: u32,
    pub(crate) what: I,
}

/// A flow whose messages are sent in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    key: Option<FlowKey>,
    pub(crate) first: u32,
    last: u32,
    /// Whether it may send nothing for now.
    is_held: bool,
}

/// Flows that take turns.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) flows: VecDeque<Flow>,
    /// When the next one may be served, as far as that is known.
    pub(crate) wake: u64,
    /// Since when one that joins may be.
    pub(crate) open_from: u64,
}

impl Line {
    const fn new() -> Self {
        Self {
            flows: VecDeque::new(),
            wake: NEVER,
            open_from: 0,
        }
    }

    /// A message joins: behind those of its flow, if there are any.
    pub(crate) fn join<P: Parts, const KINDS: usize>(
        &mut self,
        passages: &mut [Passage<P, KINDS>],
        id: u32,
        key: Option<FlowKey>,
        now: u64,
    ) {
        let same = key.and_then(|key| self.flows.iter_mut().find(|flow| flow.key == Some(key)));
        if let Some(flow) = same {
            passages[flow.last as usize].behind = id;
            flow.last = id;
            return;
        }
        self.flows.push_back(Flow {
            key,
            first: id,
            last: id,
            is_held: false,
        });
        self.look_at(now);
    }

    /// Whether a flow may send nothing for now.
    pub(crate) fn hold(&mut self, key: FlowKey, is_held: bool) {
        let same = self.flows.iter_mut().find(|flow| flow.key == Some(key));
        if let Some(flow) = same {
            flow.is_held = is_held;
        }
    }

    /// A message returns that had left: in front of those of its flow, if there are any.
    pub(crate) fn return_to<P: Parts, const KINDS: usize>(
        &mut self,
        passages: &mut [Passage<P, KINDS>],
        id: u32,
        key: Option<FlowKey>,
        now: u64,
    ) {
        let same = key.and_then(|key| self.flows.iter_mut().find(|flow| flow.key == Some(key)));
        match same {
            Some(flow) => {
                passages[id as usize].behind = flow.first;
                flow.first = id;
            }
            None => {
                // What was behind it has gone.
                passages[id as usize].behind = NOBODY;
                self.flows.push_back(Flow {
                    key,
                    first: id,
                    last: id,
                    is_held: false,
                });
            }
        }
        self.look_at(now);
    }

    /// Something may be served from a time on.
    pub(crate) fn look_at(&mut self, time: u64) {
        self.wake = self.wake.min(time.max(self.open_from));
    }

    /// The message of a flow that is sent first.
    pub(crate) fn first_of(&self, key: Option<FlowKey>) -> Option<u32> {
        let same = self.flows.iter().find(|flow| flow.key == key);
        same.filter(|_| key.is_some()).map(|flow| flow.first)
    }

    /// The place of the first flow that may be served at a time, else when one may.
    pub(crate) fn turn<P: Parts, const KINDS: usize>(
        &self,
        passages: &[Passage<P, KINDS>],
        now: u64,
    ) -> Result<usize, u64> {
        let mut next = NEVER;
        for (place, flow) in self.flows.iter().enumerate() {
            if flow.is_held {
                continue;
            }
            let begins = passages[flow.first as usize].next_start;
            if begins <= now {
                return Ok(place);
            }
            next = next.min(begins);
        }
        Err(next)
    }

    /// A flow has had its turn: it stands behind the others, with its next message if the first one
    /// has nothing left, or leaves.
    pub(crate) fn rotate<P: Parts, const KINDS: usize>(
        &mut self,
        passages: &[Passage<P, KINDS>],
        place: usize,
    ) {
        let Some(flow) = self.flows.get_mut(place) else {
            return;
        };
        let passage = &passages[flow.first as usize];
        if passage.parts.are_sent() {
            if flow.first == flow.last {
                self.flows.remove(place);
                return;
            }
            flow.first = passage.behind;
        }
        let is_last = place + 1 == self.flows.len();
        if !is_last && let Some(flow) = self.flows.remove(place) {
            self.flows.push_back(flow);
        }
    }

    /// The line may be served again from a time on.
    pub(crate) fn rest_until(&mut self, time: u64) {
        self.open_from = time;
        self.wake = if self.flows.is_empty() { NEVER } else { time };
    }

    /// So may the flows that are there; one that joins is served behind them, or if there are none
    /// at once.
    pub(crate) fn rest_in_turn_until(&mut self, time: u64) {
        (self.open_from, self.wake) = match self.flows.is_empty() {
            true => (0, NEVER),
            false => (NEVER, time),
        };
    }
}

/// A host's adapter and bus.
#[derive(Debug)]
pub(crate) struct Adapter<I> {
    /// When all that has come to the bus is gone, and the bytes of that.
    pub(crate) bus_free: u64,
    bus_bytes: f64,
    pub(crate) inbox: VecDeque<Inbound<I>>,
    pub(crate) inbox_max: u32,
    /// What leaves over the link, and what crosses the bus alone.
    pub(crate) out: Line,
    pub(crate) inside: Line,
}

impl<I> Adapter<I> {
    pub(crate) const fn new() -> Self {
        Self {
            bus_free: 0,
            bus_bytes: 0.0,
            inbox: VecDeque::new(),
            inbox_max: 0,
            out: Line::new(),
            inside: Line::new(),
        }
    }

    /// A piece takes the bus: when it begins there.
    #[inline]
    fn take_bus(&mut self, time: u64, span: u64, bytes: f64) -> u64 {
        let begin = time.max(self.bus_free);
        self.bus_free = begin + span;
        self.bus_bytes += bytes;
        begin
    }

    /// The adapter begins with a piece of a message that it sends, of a kind and so many bytes on
    /// the link: when it does.
    #[inline]
    pub(crate) fn read<P: Parts, const KINDS: usize>(
        &mut self,
        passage: &mut Passage<P, KINDS>,
        now: u64,
        (kind, bytes): (usize, f64),
    ) -> u64 {
        let own = passage.own[kind];
        let begin = match passage.has_first_bus {
            true => self.take_bus(now, own.bus, bytes / passage.scale),
            false => now,
        };
        passage.next_start = begin + own.pace;
        begin
    }

    /// A piece has come and is to be written.
    #[inline]
    pub(crate) fn expect(&mut self, inbound: Inbound<I>) {
        self.inbox.push_back(inbound);
        self.inbox_max = self.inbox_max.max(self.inbox.len() as u32);
    }

    /// A piece that has come crosses the bus: when its last byte is there.
    #[inline]
    pub(crate) fn write<P: Parts, const KINDS: usize>(
        &mut self,
        passage: &mut Passage<P, KINDS>,
        ready: u64,
        (kind, bytes): (usize, f64),
    ) -> u64 {
        let own = passage.taken[kind];
        let begin = ready.max(passage.next_taken);
        let begin = self.take_bus(begin, own.bus, bytes / passage.scale);
        passage.next_taken = begin + own.pace;
        begin + own.span()
    }

    /// Asks for what it works on next.
    pub(crate) fn prefetch(&self) {
        if let Some(flow) = self.out.flows.front() {
            prefetch(core::ptr::from_ref(flow));
        }
        if let Some(inbound) = self.inbox.front() {
            prefetch(core::ptr::from_ref(inbound));
        }
    }

    /// When it has something to do.
    pub(crate) fn wake(&self) -> u64 {
        let ready = self.inbox.front().map_or(NEVER, |it| it.ready);
        ready.min(self.out.wake).min(self.inside.wake)
    }

    /// Bytes that its bus has carried by a time, at a rate.
    pub(crate) fn carried_by(&self, now: u64, bytes_per_picosecond: f64) -> f64 {
        let ahead = self.bus_free.saturating_sub(now) as f64;
        if ahead > 0.0 {
            (self.bus_bytes - ahead * bytes_per_picosecond).max(0.0)
        } else {
            self.bus_bytes
        }
    }

    pub(crate) fn state_bytes(&self) -> usize {
        let flows = self.out.flows.capacity() + self.inside.flows.capacity();
        flows * size_of::<Flow>() + self.inbox.capacity() * size_of::<Inbound<I>>()
    }
}
