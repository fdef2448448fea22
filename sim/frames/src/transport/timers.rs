//! Deadlines of channels and messages: a wheel, O(1) to set, to take back and to find the next.

use viaduct_engine::Time;

use crate::names::NONE;

/// Slots of the wheel; a deadline further away waits in the last one and is put in again there.
const SLOTS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// In ticks, rounded up.
    due: u64,
    before: u32,
    after: u32,
    /// [`IDLE`] if it is not set.
    slot: u32,
}

const IDLE: u32 = NONE;

#[derive(Clone, Debug)]
pub(super) struct Timers {
    entries: Vec<Entry>,
    firsts: [u32; SLOTS],
    lasts: [u32; SLOTS],
    /// Slots that have an entry, as bits.
    occupied: u64,
    /// Ticks that are over.
    past: u64,
    tick_shift: u32,
}

impl Timers {
    /// With a tick of at most an eighth of `shortest`, and no keys to begin with.
    pub(super) fn new(shortest: Time) -> Self {
        Self {
            entries: Vec::new(),
            firsts: [NONE; SLOTS],
            lasts: [NONE; SLOTS],
            occupied: 0,
            past: 0,
            tick_shift: (shortest.picoseconds() / 8).max(1).ilog2(),
        }
    }

    /// Makes keys below `keys` usable.
    pub(super) fn reserve(&mut self, keys: u32) {
        let idle = Entry {
            due: 0,
            before: NONE,
            after: NONE,
            slot: IDLE,
        };
        if self.entries.len() < keys as usize {
            self.entries.resize(keys as usize, idle);
        }
    }

    /// Sets the deadline of `key`, in place of one that it has.
    #[inline]
    pub(super) fn set(&mut self, key: u32, deadline: Time, now: Time) {
        self.clear(key);
        if self.occupied == 0 {
            self.past = self.past.max(now.picoseconds() >> self.tick_shift);
        }
        let tick = 1 << self.tick_shift;
        self.entries[key as usize].due = deadline.picoseconds().div_ceil(tick);
        self.insert(key);
    }

    /// The deadline of `key`, in whole ticks, if it has one.
    pub(super) fn deadline(&self, key: u32) -> Option<Time> {
        let entry = self.entries.get(key as usize)?;
        let tick = 1 << self.tick_shift;
        (entry.slot != IDLE).then(|| Time::from_picoseconds(entry.due * tick))
    }

    /// Takes the deadline of `key` back, if it has one.
    #[inline]
    pub(super) fn clear(&mut self, key: u32) {
        // A key that was never set may be above those that are usable.
        let Some(&Entry {
            before,
            after,
            slot,
            ..
        }) = self.entries.get(key as usize)
        else {
            return;
        };
        if slot == IDLE {
            return;
        }
        self.entries[key as usize].slot = IDLE;
        let slot = slot as usize;
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.after = after,
            None => self.firsts[slot] = after,
        }
        match self.entries.get_mut(after as usize) {
            Some(entry) => entry.before = before,
            None => self.lasts[slot] = before,
        }
        if self.firsts[slot] == NONE {
            self.occupied &= !(1 << slot);
        }
    }

    /// No deadline is before this; none if there is no deadline.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        let distance = self.distance()?;
        let tick = self.past + 1 + distance;
        Some(Time::from_picoseconds(tick << self.tick_shift))
    }

    /// A key whose deadline is over; it has none from now on.
    pub(super) fn expired(&mut self, now: Time) -> Option<u32> {
        let over = now.picoseconds() >> self.tick_shift;
        loop {
            let tick = match self.distance() {
                Some(distance) if self.past + 1 + distance <= over => self.past + 1 + distance,
                _ => {
                    self.past = self.past.max(over);
                    return None;
                }
            };
            // Slots before this tick are empty, and stay so while nothing is due before it.
            self.past = tick - 1;
            let key = self.firsts[tick as usize % SLOTS];
            let due = self.entries[key as usize].due;
            self.clear(key);
            if due <= over {
                return Some(key);
            }
            // It was too far away for the wheel: further round, or in this slot's next round.
            self.past = tick;
            self.insert(key);
            self.past = tick - 1;
        }
    }

    #[inline]
    fn insert(&mut self, key: u32) {
        let due = self.entries[key as usize].due;
        let tick = due.clamp(self.past + 1, self.past + SLOTS as u64 - 1);
        let slot = tick as usize % SLOTS;
        let last = self.lasts[slot];
        let entry = &mut self.entries[key as usize];
        entry.slot = slot as u32;
        entry.before = last;
        entry.after = NONE;
        match self.entries.get_mut(last as usize) {
            Some(entry) => entry.after = key,
            None => self.firsts[slot] = key,
        }
        self.lasts[slot] = key;
        self.occupied |= 1 << slot;
    }

    /// From the tick after the past ones to the first that has an entry.
    #[inline]
    fn distance(&self) -> Option<u64> {
        let from = (self.past + 1) as u32 % SLOTS as u32;
        let turned = self.occupied.rotate_right(from);
        (turned != 0).then(|| u64::from(turned.trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::seeds;

    fn explore(seed: u64) {
        // Goal: as a sorted map of deadlines, but for at most one tick.
        let mut random = seeds::stream(seed, 0);
        let shortest = Time::from_picoseconds(8 << random.below(6));
        let tick = 1 << (shortest.picoseconds() / 8).ilog2();
        let mut timers = Timers::new(shortest);
        timers.reserve(20);
        let mut reference: BTreeMap<u32, u64> = BTreeMap::new();
        let mut now = 0;
        for _ in 0..300 {
            let key = random.below(20) as u32;
            match random.below(4) {
                0 | 1 => {
                    let scale = random.below(12);
                    let ahead = random.below(tick << scale);
                    let deadline = Time::from_picoseconds(now + ahead);
                    timers.set(key, deadline, Time::from_picoseconds(now));
                    reference.insert(key, now + ahead);
                }
                2 => {
                    timers.clear(key);
                    reference.remove(&key);
                }
                _ => {
                    let scale = random.below(11);
                    now += random.below(tick << scale);
                    while let Some(key) = timers.expired(Time::from_picoseconds(now)) {
                        let due = reference.remove(&key).expect("it was set");
                        assert!(due <= now, "early");
                    }
                    assert!(reference.values().all(|due| *due + tick > now), "late");
                }
            }
            for key in 0..20 {
                let due = reference.get(&key).map(|due| due.div_ceil(tick) * tick);
                assert_eq!(timers.deadline(key).map(Time::picoseconds), due);
            }
            let least = reference.values().min();
            assert_eq!(timers.next().is_some(), least.is_some());
            if let (Some(next), Some(least)) = (timers.next(), least) {
                let late = next.picoseconds() as i128 - i128::from((*least).max(now));
                assert!(late <= i128::from(tick), "{late} after the deadline");
                assert!(next.picoseconds() > now);
            }
        }
    }

    #[test]
    fn deadlines_come_in_time() {
        seeds::each("transport::timers", 1000, explore);
    }
}
