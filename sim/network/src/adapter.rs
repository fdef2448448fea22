//! A host's end of a network where frames or packets move by themselves: what its adapter sends in
//! turn, and its bus.
//!
//! The adapter sends a piece of each flow in turn, and the messages of a flow one after another. It
//! reads a piece over the bus when that before it begins on the link. The bus carries pieces of
//! both directions, and those of other devices, first come first served. Several adapters may be on
//! one bus: then it carries those of all of them so, and at one time those of the adapter with the
//! smaller number first.

use core::ops::{Index, IndexMut, Range};
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

/// A bus: it serves pieces in the order in which they come.
#[derive(Debug)]
pub(crate) struct Bus {
    /// When all that has come to it is gone, and the bytes of that.
    pub(crate) free: u64,
    bytes: f64,
    /// Most pieces that had come by links and were not yet written, at once.
    pub(crate) waiting_max: u32,
}

impl Bus {
    /// A piece takes the bus: when it begins there.
    #[inline]
    fn take(&mut self, time: u64, span: u64, bytes: f64) -> u64 {
        let begin = time.max(self.free);
        self.free = begin + span;
        self.bytes += bytes;
        begin
    }

    /// An adapter begins with a piece of a message that it sends, of a kind and so many bytes on
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
            true => self.take(now, own.bus, bytes / passage.scale),
            false => now,
        };
        passage.next_start = begin + own.pace;
        begin
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
        let begin = self.take(begin, own.bus, bytes / passage.scale);
        passage.next_taken = begin + own.pace;
        begin + own.span()
    }

    /// So many pieces have come by links and are not yet written.
    #[inline]
    fn count(&mut self, waiting: usize) {
        self.waiting_max = self.waiting_max.max(waiting as u32);
    }

    /// Bytes that it has carried by a time, at a rate.
    fn carried_by(&self, now: u64, bytes_per_picosecond: f64) -> f64 {
        let ahead = self.free.saturating_sub(now) as f64;
        if ahead > 0.0 {
            (self.bytes - ahead * bytes_per_picosecond).max(0.0)
        } else {
            self.bytes
        }
    }
}

/// A host's adapter and bus.
#[derive(Debug)]
pub(crate) struct Adapter<I> {
    /// Of those that are on one bus, that of the first.
    bus: Bus,
    pub(crate) inbox: VecDeque<Inbound<I>>,
    /// What leaves over the link, and what crosses the bus alone.
    pub(crate) out: Line,
    pub(crate) inside: Line,
}

impl<I> Adapter<I> {
    pub(crate) const fn new() -> Self {
        Self {
            bus: Bus {
                free: 0,
                bytes: 0.0,
                waiting_max: 0,
            },
            inbox: VecDeque::new(),
            out: Line::new(),
            inside: Line::new(),
        }
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

    /// When the first piece that has come may be written.
    #[inline]
    pub(crate) fn ready(&self) -> u64 {
        self.inbox.front().map_or(NEVER, |it| it.ready)
    }

    /// When it has something to do.
    pub(crate) fn wake(&self) -> u64 {
        self.ready().min(self.out.wake).min(self.inside.wake)
    }
}

/// Those of all hosts, by number.
#[derive(Debug)]
pub(crate) struct Adapters<I> {
    all: Vec<Adapter<I>>,
    /// So many, one after the other, are on one bus.
    per_bus: u32,
}

impl<I> Index<u32> for Adapters<I> {
    type Output = Adapter<I>;

    #[inline]
    fn index(&self, host: u32) -> &Adapter<I> {
        &self.all[host as usize]
    }
}

impl<I> IndexMut<u32> for Adapters<I> {
    #[inline]
    fn index_mut(&mut self, host: u32) -> &mut Adapter<I> {
        &mut self.all[host as usize]
    }
}

impl<I> Adapters<I> {
    /// Each on a bus of its own.
    pub(crate) fn new(hosts: u32) -> Self {
        Self {
            all: (0..hosts).map(|_| Adapter::new()).collect(),
            per_bus: 1,
        }
    }

    /// Puts each so many, one after the other, on one bus.
    pub(crate) fn share_buses(&mut self, hosts: u32) {
        self.per_bus = hosts.max(1);
    }

    /// Whether each is on a bus of its own.
    #[inline]
    pub(crate) const fn have_own_buses(&self) -> bool {
        self.per_bus == 1
    }

    /// The first of those that are on the bus of one.
    #[inline]
    pub(crate) const fn first_with(&self, host: u32) -> u32 {
        match self.per_bus {
            1 => host,
            hosts => host - host % hosts,
        }
    }

    /// All that are on the bus of one.
    pub(crate) fn all_with(&self, host: u32) -> Range<u32> {
        let first = self.first_with(host);
        first..(first + self.per_bus).min(self.all.len() as u32)
    }

    /// The bus that one is on.
    #[inline]
    pub(crate) fn bus(&self, host: u32) -> &Bus {
        &self[self.first_with(host)].bus
    }

    /// See [`Adapters::bus`].
    #[inline]
    pub(crate) fn bus_mut(&mut self, host: u32) -> &mut Bus {
        let first = self.first_with(host);
        &mut self[first].bus
    }

    /// A piece has come to one and is to be written.
    #[inline]
    pub(crate) fn expect(&mut self, host: u32, inbound: Inbound<I>) {
        let adapter = &mut self.all[host as usize];
        adapter.inbox.push_back(inbound);
        match self.per_bus {
            1 => adapter.bus.count(adapter.inbox.len()),
            _ => self.count_all_with(host),
        }
    }

    #[inline(never)]
    fn count_all_with(&mut self, host: u32) {
        let waiting = self.all_with(host).map(|it| self[it].inbox.len()).sum();
        self.bus_mut(host).count(waiting);
    }

    /// Bytes that each bus has carried by a time; there is one for each adapter, and nothing
    /// crosses those of any that is not the first on its bus.
    pub(crate) fn carried_by(
        &self,
        now: u64,
        bytes_per_picosecond: impl Fn(u32) -> f64,
    ) -> impl Iterator<Item = f64> {
        let buses = (0..).zip(&self.all);
        buses.map(move |(host, it)| it.bus.carried_by(now, bytes_per_picosecond(host)))
    }

    pub(crate) fn state_bytes(&self) -> usize {
        let of_one = |it: &Adapter<I>| {
            let flows = it.out.flows.capacity() + it.inside.flows.capacity();
            flows * size_of::<Flow>() + it.inbox.capacity() * size_of::<Inbound<I>>()
        };
        let adapters: usize = self.all.iter().map(of_one).sum();
        self.all.capacity() * size_of::<Adapter<I>>() + adapters
    }
}
