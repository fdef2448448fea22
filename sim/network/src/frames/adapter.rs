//! The host's end of a network of frames: what its adapter sends in turn, and its bus.
//!
//! The adapter sends a frame of each flow in turn, and the messages of a flow one after another.
//! It reads a frame over the bus when that before it begins on the link. The bus carries frames of
//! both directions, and those of other devices, first come first served.

use std::collections::VecDeque;

use super::calendar::Kind;
use super::passage::Passage;
use crate::queues::FlowKey;

/// No time.
pub(super) const NEVER: u64 = u64::MAX;

/// A frame that has come to its target and is to cross the bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbound {
    pub(super) ready: u64,
    pub(super) passage: u32,
    pub(super) kind: Kind,
}

/// A flow whose messages are sent in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    key: Option<FlowKey>,
    pub(super) first: u32,
    last: u32,
}

/// Flows that take turns, and when the next one is served.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) flows: VecDeque<Flow>,
    pub(super) wake: u64,
    /// Since when none of them may be served that is there, where one that joins may.
    pub(super) idle_from: u64,
}

impl Line {
    const fn new() -> Self {
        Self {
            flows: VecDeque::new(),
            wake: NEVER,
            idle_from: NEVER,
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
        if self.flows.is_empty() {
            self.wake = now;
        }
        self.wake = self.wake.min(now.max(self.idle_from));
        self.flows.push_back(Flow {
            key,
            first: id,
            last: id,
        });
    }

    /// The message of a flow that is sent first.
    pub(super) fn first_of(&self, key: Option<FlowKey>) -> Option<u32> {
        let same = self.flows.iter().find(|flow| flow.key == key);
        same.filter(|_| key.is_some()).map(|flow| flow.first)
    }

    /// Whose turn it is at a time: the flow's place.
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
    /// has no frame left, or leaves.
    pub(super) fn rotate(&mut self, passages: &[Passage], place: usize) {
        let Some(mut flow) = self.flows.remove(place) else {
            return;
        };
        let passage = &passages[flow.first as usize];
        if passage.left == 0 {
            if flow.first == flow.last {
                return;
            }
            flow.first = passage.behind;
        }
        self.flows.push_back(flow);
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
    pub(super) is_active: bool,
    /// When it has something to send, as far as those know that look for it.
    pub(super) active_from: u64,
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
            is_active: false,
            active_from: NEVER,
        }
    }

    /// A frame takes the bus: when it begins there.
    #[inline]
    pub(super) fn take_bus(&mut self, time: u64, span: u64, bytes: f64) -> u64 {
        let begin = time.max(self.bus_free);
        self.bus_free = begin + span;
        self.bus_bytes += bytes;
        begin
    }

    pub(super) fn state_bytes(&self) -> usize {
        let flows = self.out.flows.capacity() + self.inside.flows.capacity();
        flows * size_of::<Flow>() + self.inbox.capacity() * size_of::<Inbound>()
    }
}
