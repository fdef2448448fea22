//! Queues whose pending events can be moved, as a fluid link moves the departures of its flows.
//!
//! Events are numbered from 0 and each is pending at most once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use viaduct_engine::{EventId, EventQueue, Time};

/// What such a queue must do to be measured.
pub(crate) trait MovingRival {
    /// Adds `event`, which is not pending, at `time` picoseconds.
    fn push(&mut self, time: u64, event: u32);

    /// Takes the first event with its time.
    fn pop(&mut self) -> Option<(u64, u32)>;

    /// Moves `event`, which is pending, to `time`, behind those already there.
    fn move_to(&mut self, time: u64, event: u32);
}

/// The engine's queue with the name of each event.
#[derive(Debug, Default)]
pub(crate) struct EngineMoving {
    queue: EventQueue<u32>,
    names: Vec<EventId>,
}

impl MovingRival for EngineMoving {
    fn push(&mut self, time: u64, event: u32) {
        let name = self.queue.schedule(Time::from_picoseconds(time), event);
        let index = event as usize;
        self.names
            .resize(self.names.len().max(index + 1), EventId::NONE);
        self.names[index] = name;
    }

    fn pop(&mut self) -> Option<(u64, u32)> {
        self.queue
            .pop()
            .map(|(time, event)| (time.picoseconds(), event))
    }

    fn move_to(&mut self, time: u64, event: u32) {
        self.queue
            .reschedule(self.names[event as usize], Time::from_picoseconds(time));
    }
}

/// A binary heap in which a moved event leaves a stale entry, dropped when it surfaces.
#[derive(Debug, Default)]
pub(crate) struct LazyHeap {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// By event: the sequence of its entry that counts; 0 if none does.
    valid: Vec<u64>,
    sequence: u64,
}

impl MovingRival for LazyHeap {
    fn push(&mut self, time: u64, event: u32) {
        let index = event as usize;
        self.valid.resize(self.valid.len().max(index + 1), 0);
        self.move_to(time, event);
    }

    fn pop(&mut self) -> Option<(u64, u32)> {
        while let Some(Reverse((time, sequence, event))) = self.heap.pop() {
            if self.valid[event as usize] == sequence {
                self.valid[event as usize] = 0;
                return Some((time, event));
            }
        }
        None
    }

    fn move_to(&mut self, time: u64, event: u32) {
        self.sequence += 1;
        self.valid[event as usize] = self.sequence;
        self.heap.push(Reverse((time, self.sequence, event)));
    }
}

/// A 4-ary heap that knows where each event stands and sifts it up or down.
#[derive(Debug, Default)]
pub(crate) struct IndexedHeap {
    entries: Vec<Place>,
    /// By event: its place among the entries.
    places: Vec<u32>,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    key: u128,
    event: u32,
}

impl MovingRival for IndexedHeap {
    fn push(&mut self, time: u64, event: u32) {
        let index = event as usize;
        self.places.resize(self.places.len().max(index + 1), 0);
        let entry = self.entry(time, event);
        self.entries.push(entry);
        self.sift_up(self.entries.len() - 1, entry);
    }

    fn pop(&mut self) -> Option<(u64, u32)> {
        let first = *self.entries.first()?;
        let last = self.entries.pop()?;
        if !self.entries.is_empty() {
            self.sift_down(0, last);
        }
        Some(((first.key >> 64) as u64, first.event))
    }

    fn move_to(&mut self, time: u64, event: u32) {
        let place = self.places[event as usize] as usize;
        let earlier = self.entries[place].key;
        let entry = self.entry(time, event);
        if entry.key < earlier {
            self.sift_up(place, entry);
        } else {
            self.sift_down(place, entry);
        }
    }
}

impl IndexedHeap {
    fn entry(&mut self, time: u64, event: u32) -> Place {
        self.sequence += 1;
        Place {
            key: u128::from(time) << 64 | u128::from(self.sequence),
            event,
        }
    }

    fn put(&mut self, place: usize, entry: Place) {
        self.entries[place] = entry;
        self.places[entry.event as usize] = place as u32;
    }

    fn sift_up(&mut self, mut place: usize, entry: Place) {
        while place > 0 {
            let parent = (place - 1) / 4;
            if self.entries[parent].key <= entry.key {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sift_down(&mut self, mut place: usize, entry: Place) {
        loop {
            let first = 4 * place + 1;
            let children = first..(first + 4).min(self.entries.len());
            let Some(least) = children.min_by_key(|&child| self.entries[child].key) else {
                break;
            };
            if self.entries[least].key >= entry.key {
                break;
            }
            self.put(place, self.entries[least]);
            place = least;
        }
        self.put(place, entry);
    }
}

#[cfg(test)]
mod tests {
    use viaduct_engine::{Stream, StreamKey};

    use super::*;

    /// Goal: as for the other rivals, against a list searched from end to end.
    fn agrees_with_a_list(mut queue: impl MovingRival) {
        let mut random = Stream::new(StreamKey {
            seed: 5,
            purpose: 0,
            entity: 0,
        });
        let mut list: Vec<(u64, u64, u32)> = Vec::new();
        for event in 0..200 {
            let time = random.below(1000);
            queue.push(time, event);
            list.push((time, u64::from(event), event));
        }
        for sequence in 200..20_000 {
            let now = list.iter().map(|entry| entry.0).min().unwrap();
            let time = now + random.below(1000);
            if random.below(2) == 0 {
                let chosen = random.below(list.len() as u64) as usize;
                let event = list[chosen].2;
                queue.move_to(time, event);
                list[chosen] = (time, sequence, event);
            } else {
                let first = (0..list.len()).min_by_key(|&index| list[index]).unwrap();
                let (at, _, event) = list[first];
                assert_eq!(queue.pop(), Some((at, event)));
                queue.push(time, event);
                list[first] = (time, sequence, event);
            }
        }
    }

    #[test]
    fn engine_moves_as_a_list_does() {
        agrees_with_a_list(EngineMoving::default());
    }

    #[test]
    fn lazy_heap_moves_as_a_list_does() {
        agrees_with_a_list(LazyHeap::default());
    }

    #[test]
    fn indexed_heap_moves_as_a_list_does() {
        agrees_with_a_list(IndexedHeap::default());
    }
}
