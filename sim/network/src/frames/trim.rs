//! Frames that a switch trims: their headers go on, and their receivers ask for them again.
//!
//! A frame that finds no room is cut to its header. That goes on at priority, and tells the
//! receiver which frame is missing. The receiver asks the sender's adapter for it, which sends it
//! before what it has not sent yet of the same flow. So nothing is lost, but frames of a flow come
//! in another order than they were sent in; the receiver's adapter hands its messages over in that
//! of their sending.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::Frames;
use super::calendar::Kind;
use crate::adapter::NEVER;
use crate::links::Buffers;
use crate::queues::FlowKey;

/// What receivers ask their senders for, and the messages of flows in the order of their sending.
#[derive(Debug)]
pub(super) struct Trims {
    hosts: Vec<BinaryHeap<Reverse<Wanted>>>,
    flows: BTreeMap<FlowKey, VecDeque<Standing>>,
}

/// A frame that a host's adapter is asked for: when, of which flow and message, and which.
type Wanted = (u64, Option<FlowKey>, u32, Kind);

/// A message that is on its way, as its receiver sees it. Times are `NEVER` if not known yet.
#[derive(Clone, Copy, Debug)]
struct Standing {
    id: u32,
    /// When its first byte has come, until that is told.
    head: u64,
    /// When the last of its frames has come, and is with its host.
    there: u64,
    end: u64,
}

impl Trims {
    /// Of so many hosts; none if nothing is trimmed.
    pub(super) fn of(buffers: &Buffers, hosts: u32) -> Option<Box<Self>> {
        buffers.may_trim().then(|| {
            Box::new(Self {
                hosts: (0..hosts).map(|_| BinaryHeap::new()).collect(),
                flows: BTreeMap::new(),
            })
        })
    }

    /// When a host's adapter is asked for something next.
    pub(super) fn next(&self, host: u32) -> u64 {
        let next = self.hosts[host as usize].peek();
        next.map_or(NEVER, |Reverse((time, ..))| *time)
    }

    /// A message of a flow begins.
    pub(super) fn begin(&mut self, flow: FlowKey, id: u32) {
        let line = self.flows.entry(flow).or_default();
        line.push_back(Standing {
            id,
            head: NEVER,
            there: NEVER,
            end: NEVER,
        });
    }

    pub(super) fn state_bytes(&self) -> usize {
        let wanted: usize = self.hosts.iter().map(BinaryHeap::capacity).sum();
        let lines: usize = self.flows.values().map(VecDeque::capacity).sum();
        wanted * size_of::<Wanted>()
            + lines * size_of::<Standing>()
            + self.flows.len() * size_of::<(FlowKey, VecDeque<Standing>)>()
    }
}

impl Frames {
    /// The header of a frame is all there, at the frame's receiver, which asks for it again.
    pub(super) fn ask_again(&mut self, id: u32, kind: Kind, time: u64) {
        self.tell_sender(id, time);
        let asked = time + self.time_back(id);
        let parts = &self.passages[id as usize].parts;
        let (host, flow) = (parts.source, parts.flow);
        let Some(trims) = &mut self.trims else {
            return;
        };
        let whole = Kind::new(kind.is_first(), kind.is_last());
        trims.hosts[host as usize].push(Reverse((asked, flow, id, whole)));
        if asked < self.active_from[host as usize] {
            self.activate(host, asked);
        }
    }

    /// An adapter hears that it is asked for a frame: its message stands in front of its flow, if
    /// all of it had been sent.
    pub(super) fn hear(&mut self, host: u32) {
        let wanted = self.trims.as_mut();
        let wanted = wanted.and_then(|trims| trims.hosts[host as usize].pop());
        let Some(Reverse((now, _, id, kind))) = wanted else {
            return;
        };
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

    /// When an adapter has something to do: it sends, or is asked to.
    pub(super) fn wake_of(&self, host: u32) -> u64 {
        let asked = self.trims.as_ref().map_or(NEVER, |it| it.next(host));
        self.adapters[host as usize].out.wake.min(asked)
    }

    /// The first byte of a message has come: it is told when no frame is missing before it.
    pub(super) fn head_comes(&mut self, id: u32, head: u64) {
        let passage = &mut self.passages[id as usize];
        let line = match (&mut self.trims, passage.parts.flow) {
            (Some(trims), Some(flow)) => trims.flows.get_mut(&flow),
            _ => None,
        };
        let Some(line) = line else {
            passage.head = head;
            if passage.owes_head {
                self.notices.push((head, id));
            }
            return;
        };
        if let Some(standing) = line.iter_mut().find(|it| it.id == id) {
            standing.head = head;
        }
        self.tell_heads(id);
    }

    /// All frames of a message have come.
    pub(super) fn all_come(&mut self, id: u32, time: u64) {
        if let (Some(trims), Some(flow)) = (&mut self.trims, self.passages[id as usize].parts.flow)
            && let Some(line) = trims.flows.get_mut(&flow)
            && let Some(standing) = line.iter_mut().find(|it| it.id == id)
        {
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

    /// All of a message is with its host, at a time: that is its end, unless the host waits for
    /// one before it. Whether it is.
    pub(super) fn is_handed_over(&mut self, id: u32, end: u64) -> bool {
        let passage = &mut self.passages[id as usize];
        if let (Some(trims), Some(flow)) = (&mut self.trims, passage.parts.flow)
            && let Some(line) = trims.flows.get_mut(&flow)
            && let Some(place) = line.iter().position(|it| it.id == id)
        {
            line[place].end = end;
            if line.range(..place).any(|it| it.end == NEVER) {
                passage.parts.end_look = NEVER;
                return false;
            }
        }
        passage.end = end;
        true
    }

    /// A message of a flow has ended, at a time: its host may have waited for that with the next.
    pub(super) fn hand_over_next(&mut self, flow: Option<FlowKey>, id: u32, end: u64) {
        let (Some(trims), Some(flow)) = (&mut self.trims, flow) else {
            return;
        };
        let Some(line) = trims.flows.get_mut(&flow) else {
            return;
        };
        let place = line.iter().position(|it| it.id == id).unwrap_or(0);
        line.remove(place);
        let Some(next) = line.get(place).copied() else {
            if line.is_empty() {
                trims.flows.remove(&flow);
            }
            return;
        };
        let passage = &mut self.passages[next.id as usize];
        if next.end != NEVER && passage.end == NEVER {
            passage.end = next.end.max(end);
            passage.parts.end_look = passage.end;
            self.notices.push((passage.end, next.id));
        }
    }
}
