//! The host's end of a network of channels: what its adapter sends in turn, and its bus.
//!
//! The adapter sends a packet of each flow in turn, and the messages of a flow one after another. A
//! flow whose channel has no room lets others pass. It reads a unit over the bus when that before
//! it begins on the link. The bus carries units of both directions, and those of other devices,
//! first come first served; what has come keeps its buffer until it is over the bus.

use std::collections::VecDeque;

use super::passage::{NEVER, Passage};
use super::units::Kind;
use crate::queues::FlowKey;

/// A unit that has come to its target and is to cross the bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbound {
    pub(super) ready: u64,
    pub(super) passage: u32,
    pub(super) kind: Kind,
    /// The channel whose buffer it is in, and the credits it takes there.
    pub(super) channel: u32,
    pub(super) credits: u32,
}

/// A flow whose messages are sent in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    key: Option<FlowKey>,
    pub(super) first: u32,
    last: u32,
}

/// Flows that take turns.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) flows: VecDeque<Flow>,
    /// When the next one may be served, as far as that is known.
    pub(super) wake: u64,
    /// Since when anything may be.
    pub(super) free_at: u64,
}

impl Line {
    const fn new() -> Self {
        Self {
            flows: VecDeque::new(),
            wake: NEVER,
            free_at: 0,
        }
    }

    /// A message joins: behind those of its flow, if there are any.
    pub(super) fn join(
        &mut self,
        passages: &mut [Passage],
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
        });
        self.look_at(now);
    }

    /// Something may be served from a time on.
    pub(super) fn look_at(&mut self, time: u64) {
        self.wake = self.wake.min(time.max(self.free_at));
    }

    /// The place of the first flow that may be served at a time, else when one may.
    pub(super) fn turn(&self, passages: &[Passage], now: u64) -> Result<usize, u64> {
        let mut next = NEVER;
        for (place, flow) in self.flows.iter().enumerate() {
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
    pub(super) fn rotate(&mut self, passages: &[Passage], place: usize) {
        let Some(mut flow) = self.flows.remove(place) else {
            return;
        };
        let passage = &passages[flow.first as usize];
        if passage.left.packets == 0 {
            if flow.first == flow.last {
                return;
            }
            flow.first = passage.behind;
        }
        self.flows.push_back(flow);
    }

    /// The line may be served again from a time on.
    pub(super) fn rest_until(&mut self, time: u64) {
        self.free_at = time;
        self.wake = if self.flows.is_empty() { NEVER } else { time };
    }
}

/// A host's adapter and bus.
#[derive(Debug)]
pub(super) struct Adapter {
    /// When all that has come to the bus is gone, and the bytes of that.
    pub(super) bus_free: u64,
    pub(super) bus_bytes: f64,
    pub(super) inbox: VecDeque<Inbound>,
    pub(super) inbox_max: u32,
    /// What leaves over the link, and what crosses the bus alone.
    pub(super) out: Line,
    pub(super) inside: Line,
}

impl Adapter {
    pub(super) const fn new() -> Self {
        Self {
            bus_free: 0,
            bus_bytes: 0.0,
            inbox: VecDeque::new(),
            inbox_max: 0,
            out: Line::new(),
            inside: Line::new(),
        }
    }

    /// A unit takes the bus: when it begins there.
    #[inline]
    pub(super) fn take_bus(&mut self, time: u64, span: u64, bytes: f64) -> u64 {
        let begin = time.max(self.bus_free);
        self.bus_free = begin + span;
        self.bus_bytes += bytes;
        begin
    }

    /// When it has something to do.
    pub(super) fn wake(&self) -> u64 {
        let ready = self.inbox.front().map_or(NEVER, |it| it.ready);
        ready.min(self.out.wake).min(self.inside.wake)
    }

    pub(super) fn state_bytes(&self) -> usize {
        let flows = self.out.flows.capacity() + self.inside.flows.capacity();
        flows * size_of::<Flow>() + self.inbox.capacity() * size_of::<Inbound>()
    }
}
