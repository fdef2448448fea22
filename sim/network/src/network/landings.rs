//! Messages of one flow of which some cross the bus of their target and others do not, or whose
//! packets take different ways.
//!
//! A sender sends the next one when the last has left it, which is before that is there where
//! messages are stored or wait in queues. What crosses no bus at its end may then be there while
//! what was sent before it still waits for the bus; an adapter that takes one message after another
//! from its link would not hand it over. So the messages of an ordered flow are told to be there in
//! the order in which they began.
//!
//! So are those of all flows whose packets overtake each other. Of a message that others overtook
//! that began before it the head is told when they are there.

use std::collections::{BTreeMap, VecDeque};

use viaduct_engine::{EventQueue, Time};

use super::{Begun, Landing, Moved, Next};
use crate::fluid::FlowId;
use crate::queues::FlowKey;

/// The event that tells of the next message whose turn has come: no message has this number.
pub(super) const LANDED: FlowId = FlowId(u32::MAX - 2);

/// The messages on their way, by flow, in the order of their sending.
#[derive(Debug)]
pub(super) struct Landings {
    /// Whether the packets of a flow overtake each other.
    take_ways: bool,
    lines: BTreeMap<FlowKey, VecDeque<Standing>>,
    /// The flow of each message, by its tag.
    flows: BTreeMap<u32, FlowKey>,
    /// Those whose turn has come, and how many of them have an event.
    landed: VecDeque<Moved>,
    scheduled: usize,
}

/// A message that has not been told to be there.
#[derive(Debug)]
struct Standing {
    tag: u32,
    /// Whether it waits for those before it.
    waits: bool,
    /// How long after [`Moved::at`] it is there.
    delay: Time,
    /// What is to be told when its turn comes: of its head, and of the whole.
    head: Option<Moved>,
    moved: Option<Moved>,
}

impl Landings {
    pub(super) fn new(take_ways: bool) -> Self {
        Self {
            take_ways,
            lines: BTreeMap::new(),
            flows: BTreeMap::new(),
            landed: VecDeque::new(),
            scheduled: 0,
        }
    }

    /// Whether the messages of all flows land in order.
    pub(super) const fn are_for_all(&self) -> bool {
        self.take_ways
    }

    /// A message of an ordered flow has begun.
    pub(super) fn begin(&mut self, flow: FlowKey, begun: &Begun, landing: Landing) {
        self.flows.insert(begun.tag, flow);
        self.lines.entry(flow).or_default().push_back(Standing {
            tag: begun.tag,
            waits: self.take_ways || landing == Landing::InOrder,
            delay: begun.delay,
            head: None,
            moved: None,
        });
    }

    /// A message goes on over its next hop.
    pub(super) fn go_on(&mut self, begun: &Begun) {
        if let Some((_, standing)) = self.standing(begun.tag) {
            standing.delay = begun.delay;
        }
    }

    /// The head of a message is there: what is told of that now.
    pub(super) fn meet(&mut self, moved: Moved) -> Option<Moved> {
        if self.take_ways
            && let Some((1.., standing)) = self.standing(moved.tag)
        {
            standing.head = Some(moved);
            return None;
        }
        Some(moved)
    }

    /// All of a message is there: what is told of that now.
    pub(super) fn land(&mut self, moved: Moved) -> Option<Moved> {
        let Some((place, standing)) = self.standing(moved.tag) else {
            return Some(moved);
        };
        if place == 0 || !standing.waits {
            let there = moved.at + standing.delay;
            self.leave(moved.tag, there);
            return Some(moved);
        }
        let onward = Moved {
            next: Next::Onward,
            loss: None,
            ..moved.clone()
        };
        standing.moved = Some(Moved {
            is_gone: false,
            behind: None,
            ..moved
        });
        (onward.is_gone || onward.behind.is_some()).then_some(onward)
    }

    /// A message goes no further.
    pub(super) fn give_up(&mut self, tag: u32) {
        self.leave(tag, Time::ZERO);
    }

    /// A message and its place in its flow.
    fn standing(&mut self, tag: u32) -> Option<(usize, &mut Standing)> {
        let line = self.lines.get_mut(self.flows.get(&tag)?)?;
        line.iter_mut().enumerate().find(|(_, it)| it.tag == tag)
    }

    /// A message leaves the line of its flow. Those that are first then and have come are there,
    /// though not before a time.
    fn leave(&mut self, tag: u32, mut not_before: Time) {
        let Some(flow) = self.flows.remove(&tag) else {
            return;
        };
        let Some(line) = self.lines.get_mut(&flow) else {
            return;
        };
        line.retain(|it| it.tag != tag);
        while let Some(first) = line.front_mut() {
            if let Some(mut head) = first.head.take() {
                if let Next::Head(begun) = &mut head.next {
                    *begun = (*begun).max(not_before.saturating_sub(first.delay));
                }
                self.landed.push_back(head);
            }
            let Some(mut moved) = first.moved.take() else {
                break;
            };
            self.flows.remove(&moved.tag);
            not_before = not_before.max(moved.at + first.delay);
            moved.at = not_before.saturating_sub(first.delay);
            self.landed.push_back(moved);
            line.pop_front();
        }
        if line.is_empty() {
            self.lines.remove(&flow);
        }
    }

    /// Those whose turn has come have events.
    pub(super) fn schedule<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        while self.scheduled < self.landed.len() {
            queue.schedule(queue.now(), E::from(LANDED));
            self.scheduled += 1;
        }
    }

    /// The event of the next one.
    pub(super) fn next(&mut self) -> Option<Moved> {
        self.scheduled -= 1;
        self.landed.pop_front()
    }
}
