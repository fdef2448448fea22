//! The event queue: events ordered by (time, sequence), moved and cancelled at little cost.
//!
//! Two structures, one order:
//!
//! - A radix queue of 16-byte keys (time, sequence, slot) over a table of slots that hold the
//!   events. Moving an event to a later time writes its slot and leaves the key where it is: when
//!   the old key surfaces it is put back at the event's new time. Moving to an earlier time adds a
//!   key and lets the old one go stale; cancelling lets the key go stale. Stale keys are dropped
//!   when they surface, or all at once when they outnumber the live ones.
//! - Lanes: first-in-first-out rings for events that are scheduled in the order of their times,
//!   as all events of one constant delay are. A lane costs no search. An event that would break a
//!   lane's order goes to the radix queue instead, so a lane is a hint and never changes a result.
//!
//! `docs/benchmarks.md` has alternatives that were measured; `make bench` measures this one.
//!
//! ```
//! use viaduct_engine::{EventQueue, Time};
//!
//! let mut queue = EventQueue::new();
//! queue.schedule(Time::from_nanoseconds(7), 'b');
//! let moved = queue.schedule(Time::from_nanoseconds(3), 'a');
//! queue.reschedule(moved, Time::from_nanoseconds(9));
//! assert_eq!(queue.pop(), Some((Time::from_nanoseconds(7), 'b')));
//! assert_eq!(queue.pop(), Some((Time::from_nanoseconds(9), 'a')));
//! ```

use std::collections::VecDeque;

use crate::Time;
use crate::prefetch::prefetch;
use crate::radix::{ABSENT, RadixQueue};

/// Most events that can be pending outside lanes.
pub const PENDING_MAX: usize = 1 << SLOT_BITS;

/// Most events that one queue can order in its life (2^40, 30 hours at 10 million a second).
pub const SEQUENCE_MAX: u64 = 1 << (64 - SLOT_BITS);

/// Most lanes of a queue.
pub const LANES_MAX: usize = 8;

const SLOT_BITS: u32 = 24;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
/// The keys are cleaned when it holds more stale keys than live ones and more than this.
const STALE_MIN: usize = 1024;
/// Slots asked for at once when the next keys become known.
const PREFETCHED_MAX: usize = 64;

/// Names a scheduled event until it fires or is cancelled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EventId {
    slot: u32,
    generation: u32,
}

impl EventId {
    /// Names no event.
    pub const NONE: Self = Self {
        slot: u32::MAX,
        generation: 0,
    };
}

/// Names a lane of one queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lane(u8);

/// Pending events of type `E`, in the order (time, sequence of scheduling).
///
/// Time never runs backwards: an event scheduled before [`EventQueue::now`] fires now. In steady
/// state nothing is allocated.
#[derive(Debug)]
pub struct EventQueue<E> {
    now: Time,
    sequence: u64,
    keys: RadixQueue,
    slots: Vec<Slot<E>>,
    free_slot: u32,
    stale: usize,
    lanes: Vec<VecDeque<(Key, E)>>,
    /// The key of each lane's head, [`ABSENT`] for an empty lane.
    lane_heads: [Key; LANES_MAX],
    /// The least of them, and where.
    lane_least: Key,
    lane_least_index: usize,
    /// The lane of the event popped last, if it was in one.
    popped_lane: Option<usize>,
    pending: usize,
    pending_max: usize,
    fired: u64,
    /// Until when events may be spared, and until how many have fired.
    spare_until: Time,
    spare_fired: u64,
}

/// Time in the upper half; sequence and slot (or zero in a lane) in the lower.
type Key = u128;

#[derive(Debug)]
struct Slot<E> {
    time: Time,
    /// Sequence and slot number: the lower half of the event's key.
    order: u64,
    /// Lower half of the key that answers for this event; 0 while the slot is free.
    anchor: u64,
    /// That key's time: at most the event's.
    anchor_time: Time,
    generation: u32,
    next_free: u32,
    event: E,
}

/// The last time at which an event can be; [`Time::MAX`] is later than any.
const LAST: Time = Time::from_picoseconds(u64::MAX - 1);

const NO_SLOT: u32 = u32::MAX;

const fn key(time: Time, order: u64) -> Key {
    (time.picoseconds() as u128) << 64 | order as u128
}

const fn time_of(key: Key) -> Time {
    Time::from_picoseconds((key >> 64) as u64)
}

#[cold]
fn too_many_events() -> ! {
    panic!("a queue orders at most {SEQUENCE_MAX} events")
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            now: Time::ZERO,
            sequence: 1,
            keys: RadixQueue::new(),
            slots: Vec::new(),
            free_slot: NO_SLOT,
            stale: 0,
            lanes: Vec::new(),
            lane_heads: [ABSENT; LANES_MAX],
            lane_least: ABSENT,
            lane_least_index: 0,
            popped_lane: None,
            pending: 0,
            pending_max: 0,
            fired: 0,
            spare_until: Time::ZERO,
            spare_fired: 0,
        }
    }

    /// The time of the event that was popped last.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events popped so far.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired
    }

    /// Events waiting.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Most events that waited at once.
    #[must_use]
    pub fn pending_max(&self) -> usize {
        self.pending_max
    }

    /// Memory held by the queue's structures, bytes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.keys.state_bytes()
            + self.slots.capacity() * size_of::<Slot<E>>()
            + self
                .lanes
                .iter()
                .map(|lane| lane.capacity() * size_of::<(Key, E)>())
                .sum::<usize>()
    }

    /// Adds a lane for events that are scheduled in the order of their times.
    ///
    /// # Panics
    /// With more than [`LANES_MAX`] lanes.
    pub fn add_lane(&mut self) -> Lane {
        assert!(
            self.lanes.len() < LANES_MAX,
            "a queue has at most {LANES_MAX} lanes"
        );
        self.lanes.push(VecDeque::new());
        Lane((self.lanes.len() - 1) as u8)
    }

    /// Schedules `event` at `time`.
    ///
    /// # Panics
    /// With [`PENDING_MAX`] events pending or [`SEQUENCE_MAX`] scheduled.
    // Always inlined, as `pop_until`: the event is written where it stays. A copy of what was just
    // written field by field stalls the processor.
    #[inline(always)]
    pub fn schedule(&mut self, time: Time, event: E) -> EventId {
        let time = self.clamp(time);
        let order = self.next_order();
        if self.free_slot == NO_SLOT {
            self.add_slot(event);
        }
        let slot = self.free_slot;
        let order = order | u64::from(slot);
        let entry = &mut self.slots[slot as usize];
        self.free_slot = entry.next_free;
        entry.event = event;
        entry.time = time;
        entry.order = order;
        entry.anchor = order;
        entry.anchor_time = time;
        let generation = entry.generation;
        self.keys.insert(key(time, order));
        self.count_pending();
        EventId { slot, generation }
    }

    /// Schedules `event` at `time` on a lane; it can be neither moved nor cancelled.
    ///
    /// Cheaper than [`EventQueue::schedule`] when `time` is not before the lane's last event;
    /// otherwise the same.
    pub fn schedule_in_lane(&mut self, lane: Lane, time: Time, event: E) {
        let time = self.clamp(time);
        let index = usize::from(lane.0);
        let ring = &mut self.lanes[index];
        if let Some((last, _)) = ring.back() {
            if time_of(*last) > time {
                self.schedule(time, event);
                return;
            }
            let key = key(time, self.sequence << SLOT_BITS);
            ring.push_back((key, event));
        } else {
            let key = key(time, self.sequence << SLOT_BITS);
            ring.push_back((key, event));
            self.lane_heads[index] = key;
            if key < self.lane_least {
                self.lane_least = key;
                self.lane_least_index = index;
            }
        }
        self.next_order();
        self.count_pending();
    }

    /// Moves a pending event to `time`, behind events already scheduled for that time; does
    /// nothing if it has fired or was cancelled. Says whether the event was pending.
    pub fn reschedule(&mut self, id: EventId, time: Time) -> bool {
        let time = self.clamp(time);
        if !self.is_pending(id) {
            return false;
        }
        let order = self.next_order() | u64::from(id.slot);
        let entry = &mut self.slots[id.slot as usize];
        entry.time = time;
        entry.order = order;
        // An anchor that surfaces in time is enough: `settle` puts it back where the event is.
        if time < entry.anchor_time {
            entry.anchor = order;
            entry.anchor_time = time;
            self.keys.insert(key(time, order));
            self.stale += 1;
            self.clean_if_stale();
        }
        true
    }

    /// Takes a pending event back; says whether it was pending.
    pub fn cancel(&mut self, id: EventId) -> bool {
        if !self.is_pending(id) {
            return false;
        }
        self.release_slot(id.slot);
        self.pending -= 1;
        self.stale += 1;
        self.clean_if_stale();
        true
    }

    /// Whether the event has neither fired nor been cancelled.
    #[must_use]
    pub fn is_pending(&self, id: EventId) -> bool {
        self.slots
            .get(id.slot as usize)
            .is_some_and(|entry| entry.generation == id.generation && entry.anchor != 0)
    }

    /// The time of the next event.
    pub fn next_time(&mut self) -> Option<Time> {
        let key_least = self.settle();
        let least = key_least.min(self.lane_least);
        (least != ABSENT).then(|| time_of(least))
    }

    /// Counts an event that was spared, since it was known to do nothing.
    #[inline]
    pub const fn count_spared(&mut self) {
        self.fired += 1;
    }

    /// Moves time on, if nothing is to happen before `time` or then; says whether it did.
    #[inline]
    pub fn advance(&mut self, time: Time) -> bool {
        // No event is before its key: where even a stale key is later, nothing else is to be seen.
        let is_free = self.keys.is_after(time.picoseconds()) && time_of(self.lane_least) > time
            || self.next_time().is_none_or(|next| next > time);
        if is_free && time > self.now {
            self.now = time;
        }
        is_free
    }

    /// Allows [`EventQueue::spare`] until a time, and until so many events have fired.
    pub const fn allow_spare(&mut self, until: Time, fired: u64) {
        (self.spare_until, self.spare_fired) = (until, fired);
    }

    /// What would be the next event may happen without one: time moves on, and the event counts.
    /// False if another may be first, or the caller of all this is to see each.
    #[inline]
    pub fn spare(&mut self, time: Time) -> bool {
        let is_allowed = time <= self.spare_until && self.fired < self.spare_fired;
        let is_spared = is_allowed && self.advance(time);
        if is_spared {
            self.fired += 1;
            self.pending_max = self.pending_max.max(self.pending + 1);
        }
        is_spared
    }

    /// Takes the next event and moves time to it.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.pop_until(Time::MAX)
    }

    /// Takes the next event, if it is not after `limit`, and moves time to it.
    #[inline(always)]
    pub fn pop_until(&mut self, limit: Time) -> Option<(Time, E)> {
        // No event is before its key: where even a stale key is behind the lane's, none is first.
        let key_least = match self.keys.front() {
            Some(front) if self.lane_least < front => front,
            _ => self.settle(),
        };
        let event = if self.lane_least < key_least {
            let time = time_of(self.lane_least);
            if time > limit {
                return None;
            }
            self.now = time;
            self.popped_lane = Some(self.lane_least_index);
            self.pop_lane()
        } else {
            let time = time_of(key_least);
            if key_least == ABSENT || time > limit {
                return None;
            }
            self.now = time;
            self.popped_lane = None;
            let slot = (key_least as u64 & SLOT_MASK) as u32;
            let event = self.slots[slot as usize].event;
            self.keys.remove_least();
            self.release_slot(slot);
            event
        };
        self.pending -= 1;
        self.fired += 1;
        Some((self.now, event))
    }

    /// Whether the event that was popped last was in a lane.
    #[inline]
    #[must_use]
    pub fn popped_from_lane(&self) -> bool {
        self.popped_lane.is_some()
    }

    /// The event `distance` places (from 1) behind the one that was popped last, in the same lane
    /// or among those in none, if it is known; a hint for prefetching: it may be moved, cancelled
    /// or overtaken.
    #[inline]
    #[must_use]
    pub fn upcoming(&self, distance: usize) -> Option<E> {
        if let Some(lane) = self.popped_lane {
            return self.lanes[lane].get(distance - 1).map(|(_, event)| *event);
        }
        let key = self.keys.upcoming(distance - 1)?;
        Some(self.slots[(key as u64 & SLOT_MASK) as usize].event)
    }

    /// Drops stale keys and puts deferred ones back until the least key is an event's own.
    #[inline]
    fn settle(&mut self) -> Key {
        loop {
            let slots = &self.slots;
            let least = self.keys.least(|keys| {
                for key in keys.iter().take(PREFETCHED_MAX) {
                    prefetch(&raw const slots[(*key as u64 & SLOT_MASK) as usize]);
                }
            });
            if least == ABSENT {
                return ABSENT;
            }
            let order = least as u64;
            let entry = &mut self.slots[(order & SLOT_MASK) as usize];
            if entry.anchor != order {
                self.keys.remove_least();
                self.stale -= 1;
            } else if entry.order != order {
                entry.anchor = entry.order;
                entry.anchor_time = entry.time;
                let moved = key(entry.time, entry.order);
                self.keys.remove_least();
                self.keys.insert(moved);
            } else {
                return least;
            }
        }
    }

    #[inline]
    fn pop_lane(&mut self) -> E {
        let index = self.lane_least_index;
        let ring = &mut self.lanes[index];
        let (_, event) = ring.pop_front().expect("the least lane has a head");
        self.lane_heads[index] = ring.front().map_or(ABSENT, |(key, _)| *key);
        // Values rather than branches: which lane is next is hard to predict.
        let (mut least, mut least_index) = (ABSENT, 0);
        for (index, &head) in self.lane_heads[..self.lanes.len()].iter().enumerate() {
            let is_less = head < least;
            least = if is_less { head } else { least };
            least_index = if is_less { index } else { least_index };
        }
        self.lane_least = least;
        self.lane_least_index = least_index;
        event
    }

    /// Not before now, and before [`Time::MAX`].
    fn clamp(&self, time: Time) -> Time {
        time.max(self.now).min(LAST)
    }

    fn next_order(&mut self) -> u64 {
        let sequence = self.sequence;
        if sequence >= SEQUENCE_MAX {
            too_many_events();
        }
        self.sequence += 1;
        sequence << SLOT_BITS
    }

    fn count_pending(&mut self) {
        self.pending += 1;
        self.pending_max = self.pending_max.max(self.pending);
    }

    /// Adds a free slot, the only one; `event` fills it until it is used.
    #[cold]
    fn add_slot(&mut self, event: E) {
        let slot = self.slots.len();
        assert!(
            slot < PENDING_MAX,
            "at most {PENDING_MAX} events are pending at once"
        );
        self.slots.push(Slot {
            time: Time::ZERO,
            order: 0,
            anchor: 0,
            anchor_time: Time::ZERO,
            generation: 0,
            next_free: NO_SLOT,
            event,
        });
        self.free_slot = slot as u32;
    }

    fn release_slot(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.anchor = 0;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next_free = self.free_slot;
        self.free_slot = slot;
    }

    fn clean_if_stale(&mut self) {
        if self.stale > STALE_MIN && self.stale * 2 > self.keys.len() {
            let slots = &self.slots;
            self.keys.retain(|key| {
                let order = key as u64;
                slots[(order & SLOT_MASK) as usize].anchor == order
            });
            self.stale = 0;
        }
    }
}
