//! Frames that a switch trims: their headers go on, and their receivers ask for them again.
//!
//! A frame that finds no room is cut to its header. That goes on at priority, and tells the
//! receiver which frame is missing. The receiver asks the sender's adapter for it, which sends it
//! before what it has not sent yet of the same flow. So nothing is lost, but frames of a flow come
//! in another order than they were sent in.
//!
//! The receiver's adapter hands the messages of a flow over in the order of their sending. So a
//! message ends when all of it is with its host and the one before it has ended, whichever is
//! later. Its end is told when it is, and never ahead, as those of other messages are that cross a
//! bus: all that are told have ended, and what is told of one flow is in order. Only of the first
//! message of a flow that has not ended is anything looked for. When its end is told, the next one
//! is the first. A head is told when no frame is missing of what is before it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use super::Frames;
use super::calendar::Kind;
use super::nscc::Heard;
use crate::adapter::NEVER;
use crate::links::Buffers;
use crate::queues::FlowKey;

/// The messages of flows in the order of their sending.
#[derive(Debug)]
pub(super) struct Trims {
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

impl Trims {
    /// None if nothing is trimmed.
    pub(super) fn of(buffers: &Buffers) -> Option<Box<Self>> {
        buffers.may_trim().then(|| {
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
    /// The header of a frame is all there, at the frame's receiver, which asks for it again.
    pub(super) fn ask_again(&mut self, id: u32, kind: Kind, time: u64) {
        self.tell_sender(id, time);
        self.reply(id, kind, time, Heard::Missing);
    }

    /// An adapter hears that it is asked for a frame: its message stands in front of its flow, if
    /// all of it had been sent.
    pub(super) fn is_wanted(&mut self, host: u32, id: u32, kind: Kind, now: u64) {
        let passage = &mut self.passages[id as usize];
        passage.parts.asked.add(kind);
        if passage.parts.is_lined {
            return;
        }
        passage.parts.is_lined = true;
        let flow = passage.parts.flow;
        let slowed_until = self.may_send_from(flow);
        let passage = &mut self.passages[id as usize];
        passage.next_start = now.max(passage.next_start).max(slowed_until);
        let out = &mut self.adapters[host as usize].out;
        out.return_to(&mut self.passages, id, flow, now);
    }

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
        let line = match (&mut self.trims, flow) {
            (Some(trims), Some(flow)) => trims.flows.get_mut(&flow),
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
        let line = match (&mut self.trims, flow) {
            (Some(trims), Some(flow)) => trims.flows.entry(flow),
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
        let line = self.trims.as_mut()?.flows.get_mut(&flow)?;
        line.iter_mut().enumerate().find(|(_, it)| it.id == id)
    }
}

#[cfg(test)]
mod tests {
    use crate::adapter::Adapter;
    use crate::frames::parts::Passages;
    use crate::passage::NOBODY;

    use super::*;

    #[test]
    fn a_message_that_returns_alone_has_nothing_behind_it() {
        let mut passages = Passages::new();
        let (first, second) = (passages.take(), passages.take());
        let key = Some(FlowKey::new(((0, 1), 0), 0, 0));
        let mut out = Adapter::<Kind>::new().out;
        out.join(&mut passages, first, key, 0);
        out.join(&mut passages, second, key, 0);
        // Nothing is left of either: they leave.
        out.rotate(&passages, 0);
        assert_eq!(out.first_of(key), Some(second));
        out.rotate(&passages, 0);
        assert_eq!(out.first_of(key), None);
        out.return_to(&mut passages, first, key, 0);
        assert_eq!(passages[first as usize].behind, NOBODY);
        // In front of another of its flow it stands with that behind it.
        out.return_to(&mut passages, second, key, 0);
        assert_eq!(out.first_of(key), Some(second));
        assert_eq!(passages[second as usize].behind, first);
    }
}
