//! Frames that overtake each other: those that are sent again where switches trim, and those that
//! take different ways.
//!
//! The receiver's adapter puts each frame where it belongs, and hands the messages of a flow over
//! in the order of their sending. So a message ends when all of it is with its host and the one
//! before it has ended, whichever is later. Its end is told when it is, and never ahead, as those
//! of other messages are that cross a bus: all that are told have ended, and what is told of one
//! flow is in order. Only of the first message of a flow that has not ended is anything looked for.
//! When its end is told, the next one is the first. A head is told when no frame is missing of what
//! is before it. A frame that a queue lost counts as come when its gap has: nothing waits for it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use super::Frames;
use super::calendar::Kind;
use crate::adapter::{Inbound, NEVER};
use crate::links::Buffers;
use crate::queues::FlowKey;

/// The messages of flows in the order of their sending.
#[derive(Debug)]
pub(super) struct Overtaking {
    flows: BTreeMap<FlowKey, VecDeque<Standing>>,
}

/// A message that has not ended, as its receiver sees it. Times are `NEVER` if not known yet.
#[derive(Clone, Copy, Debug)]
struct Standing {
    id: u32,
    /// When its first byte has come, until that is told.
    head: u64,
    /// When the last of its frames has come; when that may be over the host's bus at the earliest;
    /// when it is with the host.
    there: u64,
    look: u64,
    end: u64,
    /// When the one before it ended.
    not_before: u64,
}

impl Overtaking {
    /// None if no frame overtakes another of its flow.
    pub(super) fn of(buffers: &Buffers, takes_ways: bool) -> Option<Box<Self>> {
        (takes_ways || buffers.may_trim()).then(|| {
            Box::new(Self {
                flows: BTreeMap::new(),
            })
        })
    }

    /// A message of a flow begins.
    pub(super) fn begin(&mut self, flow: FlowKey, id: u32) {
        let line = self.flows.entry(flow).or_default();
        line.push_back(Standing {
            id,
            head: NEVER,
            there: NEVER,
            look: NEVER,
            end: NEVER,
            not_before: 0,
        });
    }

    pub(super) fn state_bytes(&self) -> usize {
        let lines: usize = self.flows.values().map(VecDeque::capacity).sum();
        lines * size_of::<Standing>()
            + self.flows.len() * size_of::<(FlowKey, VecDeque<Standing>)>()
    }
}

impl Frames {
    /// The first byte of a message has come: it is told when no frame is missing before it.
    pub(super) fn head_comes(&mut self, id: u32, head: u64) {
        if let Some((_, standing)) = self.standing(id) {
            standing.head = head;
            return self.tell_heads(id);
        }
        let passage = &mut self.passages[id as usize];
        passage.head = head;
        if passage.owes_head {
            self.notices.push((head, id));
        }
    }

    /// The gap of a frame that a queue has lost comes to the target of its message.
    pub(super) fn gap_comes(&mut self, id: u32, kind: Kind, time: u64) {
        let parts = &mut self.passages[id as usize].parts;
        parts.lose(kind);
        if kind.is_first() {
            self.head_comes(id, time);
        }
        let passage = &self.passages[id as usize];
        if !passage.parts.have_all_come() {
            return;
        }
        self.all_come(id, time);
        let passage = &self.passages[id as usize];
        if !passage.has_last_bus {
            let end = time.max(passage.next_taken);
            self.is_with_host(id, end);
            return self.look_from(id, end);
        }
        let target = passage.target;
        self.look_from(id, time + 1);
        self.adapters[target].inbox.push_back(Inbound {
            ready: time,
            passage: id,
            what: kind,
        });
    }

    /// All frames of a message have come.
    pub(super) fn all_come(&mut self, id: u32, time: u64) {
        if let Some((_, standing)) = self.standing(id) {
            standing.there = time;
            self.tell_heads(id);
        }
    }

    /// Tells of the first bytes that have come, in the flow of a message, with nothing missing
    /// before them.
    fn tell_heads(&mut self, id: u32) {
        let flow = self.passages[id as usize].parts.flow;
        let line = match (&mut self.overtaking, flow) {
            (Some(overtaking), Some(flow)) => overtaking.flows.get_mut(&flow),
            _ => None,
        };
        let mut before = 0;
        for standing in line.into_iter().flatten() {
            if standing.head != NEVER {
                let passage = &mut self.passages[standing.id as usize];
                passage.head = standing.head.max(before);
                standing.head = NEVER;
                if passage.owes_head {
                    self.notices.push((passage.head, standing.id));
                }
            }
            if standing.there == NEVER {
                return;
            }
            before = before.max(standing.there);
        }
    }

    /// Somebody looks at a time whether all of a message is with its host: of one that is not the
    /// first of its flow, when it is that.
    pub(super) fn look_from(&mut self, id: u32, time: u64) {
        if let Some((place, standing)) = self.standing(id) {
            standing.look = time;
            if place > 0 {
                return;
            }
        }
        self.look_at(id, time);
    }

    /// All of a message is with its host, at a time: that is its end, if it is the first of its
    /// flow.
    pub(super) fn is_with_host(&mut self, id: u32, mut end: u64) {
        let passage = &self.passages[id as usize];
        if passage.parts.missing > 0 && passage.gone != NEVER {
            // Its sender may still be busy with the bytes of a frame that a switch has lost.
            end = end.max(passage.gone);
        }
        if let Some((place, standing)) = self.standing(id) {
            standing.end = end;
            if place > 0 {
                return;
            }
            end = end.max(standing.not_before);
        }
        self.passages[id as usize].end = end;
    }

    /// A message has ended, at a time, and that is told: the next one is the first of its flow.
    pub(super) fn hand_over_next(&mut self, id: u32, end: u64) {
        let flow = self.passages[id as usize].parts.flow;
        let line = match (&mut self.overtaking, flow) {
            (Some(overtaking), Some(flow)) => overtaking.flows.entry(flow),
            _ => return,
        };
        let Entry::Occupied(mut line) = line else {
            return;
        };
        if line.get().front().is_none_or(|first| first.id != id) {
            return;
        }
        line.get_mut().pop_front();
        let Some(next) = line.get_mut().front_mut() else {
            line.remove();
            return;
        };
        next.not_before = end;
        let Standing { id, look, .. } = *next;
        if next.end != NEVER {
            let end = end.max(next.end);
            self.passages[id as usize].end = end;
            self.look_at(id, end);
        } else if look != NEVER {
            self.look_at(id, end.max(look));
        }
    }

    /// Somebody looks at a time whether a message has ended.
    fn look_at(&mut self, id: u32, time: u64) {
        self.passages[id as usize].parts.end_look = time;
        self.notices.push((time, id));
    }

    /// A message and its place in its flow, if its host keeps an order.
    fn standing(&mut self, id: u32) -> Option<(usize, &mut Standing)> {
        let flow = self.passages[id as usize].parts.flow?;
        let line = self.overtaking.as_mut()?.flows.get_mut(&flow)?;
        line.iter_mut().enumerate().find(|(_, it)| it.id == id)
    }
}
