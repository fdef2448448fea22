//! A monotone priority queue of 128-bit keys: buckets by the highest bit that differs from now.
//!
//! The upper half of a key is a time. Seen from a base time, a key belongs to the level of the
//! highest group of [`DIGIT_BITS`] bits in which its time differs from the base, and there to the
//! bucket of that digit:
//!
//! ```text
//! level 2   [ ][ ][x][ ] ...   one bucket: 4096 ps
//! level 1   [ ][x][x][ ] ...   one bucket: 64 ps
//! level 0   [ ][ ][ ][x] ...   one bucket: 1 ps
//! front     x x x x            sorted: the next to come
//! ```
//!
//! All of level n comes before all of level n + 1, so the least keys are in the first bucket of
//! the lowest level in use. A bucket of a few keys is sorted and becomes the front; a larger one is
//! dealt out to the levels below, with its start as the new base. A key is dealt only until it is
//! among few, so dense and sparse queues need no tuning: about two moves for a thousand pending
//! events, three for a million. (After the radix heap of Ahuja, Mehlhorn, Orlin and Tarjan 1990,
//! with the ladder queue's sorted bottom, Tang, Goh and Thng 2005.)

/// Larger than any key.
pub(crate) const ABSENT: u128 = u128::MAX;

const DIGIT_BITS: u32 = 6;
const BUCKETS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 64_usize.div_ceil(DIGIT_BITS as usize);
/// A bucket up to this size is sorted rather than dealt out.
const SORT_MAX: usize = 40;
/// Small buckets are taken together until the front has so many keys.
const FRONT_MIN: usize = 16;
/// A front that grows beyond this is dealt out again.
const FRONT_MAX: usize = 128;
/// Keys for which a bucket keeps memory of its own. What a crowd of events at one time needs more
/// goes round, or every bucket that the crowd has passed would keep as much.
const OWN_MAX: usize = 64;

#[derive(Debug)]
struct Level {
    /// A bit for each bucket that is not empty.
    occupied: u64,
    buckets: [Vec<u128>; BUCKETS],
}

#[derive(Debug)]
pub(crate) struct RadixQueue {
    /// The next keys in ascending order, from `front_next` on.
    front: Vec<u128>,
    front_next: usize,
    /// Keys of earlier times belong into the front.
    front_limit: u64,
    /// The time from which levels are seen. No key outside the front is earlier.
    base: u64,
    /// A bit for each level that is not empty.
    occupied: u32,
    levels: Box<[Level]>,
    len: usize,
    /// Memory of large buckets that were emptied: whichever becomes large next takes it.
    spare: Vec<Vec<u128>>,
    /// What those had while they were small.
    spare_small: Vec<Vec<u128>>,
}

impl RadixQueue {
    pub(crate) fn new() -> Self {
        let level = || Level {
            occupied: 0,
            buckets: [const { Vec::new() }; BUCKETS],
        };
        Self {
            front: Vec::new(),
            front_next: 0,
            front_limit: 0,
            base: 0,
            occupied: 0,
            levels: (0..LEVELS).map(|_| level()).collect(),
            len: 0,
            spare: Vec::new(),
            spare_small: Vec::new(),
        }
    }

    /// Keys in the queue.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn state_bytes(&self) -> usize {
        let keys: usize = self
            .levels
            .iter()
            .flat_map(|level| &level.buckets)
            .chain(&self.spare)
            .chain(&self.spare_small)
            .map(Vec::capacity)
            .sum();
        (keys + self.front.capacity()) * size_of::<u128>() + size_of::<Level>() * LEVELS
    }

    /// The least key, or [`ABSENT`]; shows the next keys to `look_ahead` when they become known.
    #[inline]
    pub(crate) fn least(&mut self, look_ahead: impl FnOnce(&[u128])) -> u128 {
        if let Some(&key) = self.front.get(self.front_next) {
            return key;
        }
        let least = self.load_front();
        look_ahead(&self.front);
        least
    }

    /// The least key, if it is known without more than a look.
    #[inline]
    pub(crate) fn front(&self) -> Option<u128> {
        self.front.get(self.front_next).copied()
    }

    /// Whether all keys are known to be after a time; false where that takes more than a look.
    #[inline]
    pub(crate) fn is_after(&self, time: u64) -> bool {
        match self.front.get(self.front_next) {
            Some(&key) => time_of(key) > time,
            None => self.len == 0,
        }
    }

    /// The key `distance` places behind the least one, if it is among the next to come.
    #[inline]
    pub(crate) fn upcoming(&self, distance: usize) -> Option<u128> {
        self.front.get(self.front_next + distance).copied()
    }

    /// Removes the least key, which the caller has seen.
    #[inline]
    pub(crate) fn remove_least(&mut self) {
        debug_assert!(
            self.front_next < self.front.len(),
            "least() is called first"
        );
        self.front_next += 1;
        self.len -= 1;
    }

    /// Adds a key whose time is not before that of the key removed last.
    #[inline]
    pub(crate) fn insert(&mut self, key: u128) {
        self.len += 1;
        if time_of(key) >= self.front_limit {
            self.deal(key);
            return;
        }
        // Behind all of the front, or before all of it in a place that is free, costs no search.
        match self.front.last() {
            Some(&last) if self.front_next < self.front.len() => {
                if key > last && self.front.len() < FRONT_MAX {
                    self.front.push(key);
                } else if self.front_next > 0 && key < self.front[self.front_next] {
                    self.front_next -= 1;
                    self.front[self.front_next] = key;
                } else {
                    self.insert_front(key);
                }
            }
            _ => {
                self.front.clear();
                self.front_next = 0;
                self.front.push(key);
            }
        }
    }

    /// Keeps the keys that `keep` accepts.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u128) -> bool) {
        self.front.drain(..self.front_next);
        self.front_next = 0;
        self.front.retain(|&key| keep(key));
        self.len = self.front.len();
        for (index, level) in self.levels.iter_mut().enumerate() {
            let mut left = level.occupied;
            while left != 0 {
                let digit = left.trailing_zeros();
                left &= left - 1;
                let bucket = &mut level.buckets[digit as usize];
                bucket.retain(|&key| keep(key));
                self.len += bucket.len();
                if bucket.is_empty() {
                    level.occupied &= !(1 << digit);
                }
            }
            if level.occupied == 0 {
                self.occupied &= !(1 << index);
            }
        }
    }

    fn insert_front(&mut self, key: u128) {
        if self.front.len() - self.front_next >= FRONT_MAX {
            let (first, last) = (
                self.front[self.front_next],
                self.front[self.front.len() - 1],
            );
            // Keys of one time cannot be told apart by dealing.
            if time_of(first) != time_of(last) {
                self.spill_front();
                if time_of(key) >= self.front_limit {
                    return self.deal(key);
                }
            }
        }
        let mut place = self.front.len();
        while place > self.front_next && self.front[place - 1] > key {
            place -= 1;
        }
        if self.front_next > FRONT_MAX {
            self.front.drain(..self.front_next);
            place -= self.front_next;
            self.front_next = 0;
        }
        self.front.insert(place, key);
    }

    /// Deals the front out to the levels, which are empty below the one it came from.
    ///
    /// Keys before the base stay: they were inserted after a look ahead had moved the base.
    fn spill_front(&mut self) {
        let mut keys = core::mem::take(&mut self.front);
        self.front_limit = self.base;
        let from = keys
            .partition_point(|&key| time_of(key) < self.base)
            .max(self.front_next);
        for &key in &keys[from..] {
            self.deal(key);
        }
        keys.truncate(from);
        self.front = keys;
    }

    #[inline]
    fn deal(&mut self, key: u128) {
        let time = time_of(key);
        let level = (63 - ((time ^ self.base) | 1).leading_zeros()) / DIGIT_BITS;
        let digit = (time >> (level * DIGIT_BITS)) as usize % BUCKETS;
        let target = &mut self.levels[level as usize];
        let bucket = &mut target.buckets[digit];
        if bucket.len() == OWN_MAX && bucket.capacity() == OWN_MAX {
            enlarge(bucket, &mut self.spare, &mut self.spare_small);
        }
        bucket.push(key);
        target.occupied |= 1 << digit;
        self.occupied |= 1 << level;
    }

    #[cold]
    fn load_front(&mut self) -> u128 {
        self.front.clear();
        self.front_next = 0;
        while self.occupied != 0 {
            let level_index = self.occupied.trailing_zeros();
            let level = &mut self.levels[level_index as usize];
            let digit = level.occupied.trailing_zeros();
            level.occupied &= !(1 << digit);
            if level.occupied == 0 {
                self.occupied &= !(1 << level_index);
            }
            let shift = level_index * DIGIT_BITS;
            let above = u64::MAX.checked_shl(shift + DIGIT_BITS).unwrap_or(0);
            self.base = self.base & above | u64::from(digit) << shift;
            let bucket = &mut level.buckets[digit as usize];
            if bucket.len() <= SORT_MAX || level_index == 0 {
                if self.front.capacity() > OWN_MAX && bucket.len() <= SORT_MAX {
                    self.front.append(bucket);
                } else {
                    core::mem::swap(&mut self.front, bucket);
                }
                self.front.sort_unstable();
                if self.front.len() < FRONT_MIN {
                    self.gather(level_index);
                }
                self.front_limit = self.base.saturating_add(1 << shift);
                return self.front[0];
            }
            self.front_limit = self.base;
            let mut keys = core::mem::take(bucket);
            for &key in &keys {
                self.deal(key);
            }
            keys.clear();
            // The bucket keeps its memory for the next round, or others get it.
            if keys.capacity() > OWN_MAX {
                self.spare.push(keys);
                keys = self.spare_small.pop().unwrap_or_default();
            }
            self.levels[level_index as usize].buckets[digit as usize] = keys;
        }
        ABSENT
    }

    /// Adds the following buckets of a level to the front, while they and it are small. The last of
    /// them becomes the base: those before it are empty now.
    fn gather(&mut self, level_index: u32) {
        let shift = level_index * DIGIT_BITS;
        let level = &mut self.levels[level_index as usize];
        while level.occupied != 0 && self.front.len() < FRONT_MIN {
            let digit = level.occupied.trailing_zeros();
            let bucket = &mut level.buckets[digit as usize];
            if bucket.len() > SORT_MAX {
                return;
            }
            let from = self.front.len();
            self.front.append(bucket);
            self.front[from..].sort_unstable();
            level.occupied &= !(1 << digit);
            self.base = self.base & !((BUCKETS as u64 - 1) << shift) | u64::from(digit) << shift;
        }
        if level.occupied == 0 {
            self.occupied &= !(1 << level_index);
        }
    }
}

/// Gives a bucket that is to become large the memory of one that was.
#[cold]
fn enlarge(bucket: &mut Vec<u128>, spare: &mut Vec<Vec<u128>>, spare_small: &mut Vec<Vec<u128>>) {
    if let Some(mut large) = spare.pop() {
        large.append(bucket);
        spare_small.push(core::mem::replace(bucket, large));
    }
}

const fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
}
