//! Event queues that the engine's own is measured against. Each keeps the order (time, sequence).

mod calendar;
mod four_ary;
mod moving;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use viaduct_engine::{EventQueue, Lane, Time};

pub(crate) use calendar::Calendar;
pub(crate) use four_ary::FourAryHeap;
pub(crate) use moving::{EngineMoving, IndexedHeap, LazyHeap, MovingRival};

/// A pending event. Its key is the time above the sequence: two words that compare as one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Entry {
    key: u128,
    event: u64,
}

impl Entry {
    fn new(time: u64, sequence: u64, event: u64) -> Self {
        Self {
            key: u128::from(time) << 64 | u128::from(sequence),
            event,
        }
    }

    fn time(&self) -> u64 {
        (self.key >> 64) as u64
    }
}

/// What a queue must do to be measured.
pub(crate) trait Rival {
    /// Adds `event` at `time` picoseconds.
    fn push(&mut self, time: u64, event: u64);

    /// Takes the first event with its time.
    fn pop(&mut self) -> Option<(u64, u64)>;
}

/// The standard library's binary heap, over (time, sequence, event): the faster layout for it.
#[derive(Debug, Default)]
pub(crate) struct StandardHeap {
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    sequence: u64,
}

impl Rival for StandardHeap {
    fn push(&mut self, time: u64, event: u64) {
        self.sequence += 1;
        self.heap.push(Reverse((time, self.sequence, event)));
    }

    fn pop(&mut self) -> Option<(u64, u64)> {
        self.heap
            .pop()
            .map(|Reverse((time, _, event))| (time, event))
    }
}

impl Rival for EventQueue<u64> {
    fn push(&mut self, time: u64, event: u64) {
        self.schedule(Time::from_picoseconds(time), event);
    }

    fn pop(&mut self) -> Option<(u64, u64)> {
        Self::pop(self).map(|(time, event)| (time.picoseconds(), event))
    }
}

/// The engine's queue when events come at a few constant delays, each with a lane of its own.
#[derive(Debug)]
pub(crate) struct EngineLanes {
    queue: EventQueue<u64>,
    lanes: [Lane; LANES],
}

/// Lanes in use. A delay belongs to the lane of its remainder: a model knows its lane, and the
/// search for it is not what is measured.
pub(crate) const LANES: usize = 8;

impl Default for EngineLanes {
    fn default() -> Self {
        let mut queue = EventQueue::new();
        let lanes = std::array::from_fn(|_| queue.add_lane());
        Self { queue, lanes }
    }
}

impl Rival for EngineLanes {
    fn push(&mut self, time: u64, event: u64) {
        let delay = time - self.queue.now().picoseconds();
        let lane = self.lanes[delay as usize % LANES];
        self.queue
            .schedule_in_lane(lane, Time::from_picoseconds(time), event);
    }

    fn pop(&mut self) -> Option<(u64, u64)> {
        Rival::pop(&mut self.queue)
    }
}

#[cfg(test)]
mod tests {
    use viaduct_engine::{Stream, StreamKey};

    use super::*;

    /// Goal: a rival that is fast by being wrong would be found. Each must give what a sorted list
    /// of (time, sequence) gives, through growth, holds at several scales of time, and shrinking.
    fn agrees_with_a_sorted_list(mut queue: impl Rival) {
        let mut random = Stream::new(StreamKey {
            seed: 3,
            purpose: 0,
            entity: 0,
        });
        let mut list: Vec<Entry> = Vec::new();
        let mut now = 0;
        let mut sequence = 0;
        for step in 0..30_000_u64 {
            let push_first = match step {
                0..5_000 => 4,
                5_000..20_000 => 2,
                _ => 1,
            };
            if random.below(4) < push_first {
                let scale = random.below(30);
                let delay = random.below(1 << scale);
                sequence += 1;
                let entry = Entry::new(now + delay, sequence, step);
                queue.push(entry.time(), entry.event);
                let place = list.partition_point(|other| *other > entry);
                list.insert(place, entry);
            } else {
                let expected = list.pop().map(|entry| (entry.time(), entry.event));
                assert_eq!(queue.pop(), expected, "step {step}");
                now = expected.map_or(now, |(time, _)| time);
            }
        }
        while let Some(entry) = list.pop() {
            assert_eq!(queue.pop(), Some((entry.time(), entry.event)));
        }
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn standard_heap_keeps_the_order() {
        agrees_with_a_sorted_list(StandardHeap::default());
    }

    #[test]
    fn four_ary_heap_keeps_the_order() {
        agrees_with_a_sorted_list(FourAryHeap::default());
    }

    #[test]
    fn calendar_keeps_the_order() {
        agrees_with_a_sorted_list(Calendar::default());
    }

    #[test]
    fn engine_keeps_the_order() {
        agrees_with_a_sorted_list(EventQueue::new());
        agrees_with_a_sorted_list(EngineLanes::default());
    }
}
