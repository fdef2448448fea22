//! What happens next.
//!
//! Nearly all events are wakes: a processor looks at what there is to do. A processor has at most
//! one that matters, the earliest. Most processors wait for somebody most of the time: of 25 hosts
//! with one server some four wakes stand at once, and a new one is among the last of them. So they
//! are a sorted list, the next at its end. Other events are few, and in a heap. All are in the
//! order of (time, sequence).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use viaduct_engine::Time;

/// Who has at most one wake: a processor of a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wake {
    /// The interface's processor has ended what it did, or something came for it.
    Firmware(u16),
    /// The host's processor has.
    Host(u16),
    /// What a process may do at once on a shared processor is over.
    Slice(u16),
}

impl Wake {
    const fn place(self) -> usize {
        match self {
            Self::Firmware(host) => host as usize * KINDS,
            Self::Host(host) => host as usize * KINDS + 1,
            Self::Slice(host) => host as usize * KINDS + 2,
        }
    }

    const fn of(key: Key) -> Self {
        let place = (key & PLACE_MASK) as usize;
        let host = (place / KINDS) as u16;
        match place % KINDS {
            0 => Self::Firmware(host),
            1 => Self::Host(host),
            _ => Self::Slice(host),
        }
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Happening<E> {
    Wake(Wake),
    Other(E),
}

/// Time, sequence, and the place of a wake.
type Key = u128;

/// Places a host; a power of two.
const KINDS: usize = 4;
const PLACE_BITS: u32 = 18;
const PLACE_MASK: u128 = (1 << PLACE_BITS) - 1;

const fn time_of(key: Key) -> Time {
    Time::from_picoseconds((key >> 64) as u64)
}

/// An event beside the wakes.
#[derive(Clone, Copy, Debug)]
struct Other<E> {
    key: Key,
    event: E,
}

impl<E> PartialEq for Other<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Other<E> {}

impl<E> PartialOrd for Other<E> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Other<E> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Agenda<E> {
    now: Time,
    sequence: u64,
    fired: u64,
    /// The next one last.
    wakes: Vec<Key>,
    /// Whether each place has a wake.
    stands: Vec<bool>,
    others: BinaryHeap<Reverse<Other<E>>>,
    /// The first of the others.
    other: Key,
}

impl<E: Copy> Agenda<E> {
    /// Of so many hosts.
    pub(crate) fn new(hosts: u16) -> Self {
        Self {
            now: Time::ZERO,
            sequence: 0,
            fired: 0,
            wakes: Vec::new(),
            stands: vec![false; KINDS * usize::from(hosts)],
            others: BinaryHeap::new(),
            other: Key::MAX,
        }
    }

    /// The time of what happened last.
    pub(crate) const fn now(&self) -> Time {
        self.now
    }

    /// How many have happened.
    pub(crate) const fn fired(&self) -> u64 {
        self.fired
    }

    /// An event at `time`, or now if that is over.
    pub(crate) fn schedule(&mut self, time: Time, event: E) {
        let key = self.key(time);
        self.others.push(Reverse(Other { key, event }));
        self.other = self.other.min(key);
    }

    /// Has a processor wake at `time`, or now if that is over, in place of when it would.
    #[inline]
    pub(crate) fn wake(&mut self, wake: Wake, time: Time) {
        let place = wake.place();
        if core::mem::replace(&mut self.stands[place], true) {
            self.take_back(place);
        }
        let key = self.key(time) | place as u128;
        self.wakes.push(key);
        let mut index = self.wakes.len() - 1;
        while index > 0 && self.wakes[index - 1] < key {
            self.wakes[index] = self.wakes[index - 1];
            index -= 1;
        }
        self.wakes[index] = key;
    }

    /// Takes a wake back, if it stands.
    pub(crate) fn withdraw(&mut self, wake: Wake) {
        let place = wake.place();
        if core::mem::replace(&mut self.stands[place], false) {
            self.take_back(place);
        }
    }

    /// The next to happen, if that is not after `limit`.
    #[inline]
    pub(crate) fn pop_until(&mut self, limit: Time) -> Option<(Time, Happening<E>)> {
        let wake = self.wakes.last().copied().unwrap_or(Key::MAX);
        if self.other <= wake {
            return self.pop_other(limit);
        }
        let time = time_of(wake);
        if time > limit {
            return None;
        }
        self.wakes.pop();
        self.now = time;
        self.fired += 1;
        let wake = Wake::of(wake);
        self.stands[wake.place()] = false;
        Some((time, Happening::Wake(wake)))
    }

    #[cold]
    fn pop_other(&mut self, limit: Time) -> Option<(Time, Happening<E>)> {
        let Reverse(Other { key, event }) = *self.others.peek()?;
        let time = time_of(key);
        if time > limit {
            return None;
        }
        self.others.pop();
        self.other = self
            .others
            .peek()
            .map_or(Key::MAX, |Reverse(other)| other.key);
        self.now = time;
        self.fired += 1;
        Some((time, Happening::Other(event)))
    }

    /// Time is `time`, if nothing is to happen before.
    pub(crate) fn advance(&mut self, time: Time) {
        self.now = self.now.max(time);
    }

    #[inline]
    fn key(&mut self, time: Time) -> Key {
        self.sequence += 1;
        let time = time.max(self.now).picoseconds();
        u128::from(time) << 64 | u128::from(self.sequence << PLACE_BITS)
    }

    #[cold]
    fn take_back(&mut self, place: usize) {
        let is_its = |key: &Key| key & PLACE_MASK == place as u128;
        if let Some(index) = self.wakes.iter().rposition(is_its) {
            self.wakes.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use viaduct_engine::{EventQueue, Stream, StreamKey};

    use super::*;

    fn any_wake(random: &mut Stream) -> Wake {
        let host = random.below(20) as u16;
        match random.below(3) {
            0 => Wake::Firmware(host),
            1 => Wake::Host(host),
            _ => Wake::Slice(host),
        }
    }

    #[test]
    fn events_happen_as_in_the_queue_of_the_engine() {
        // Goal: random wakes and events, many at one time, against a queue with cancelled wakes.
        for seed in 0..200 {
            let mut random = Stream::new(StreamKey {
                seed,
                purpose: 0,
                entity: 0,
            });
            let mut agenda = Agenda::new(20);
            let mut queue = EventQueue::new();
            let mut wakes = BTreeMap::new();
            for step in 0..500_u32 {
                let at = agenda.now() + Time::from_picoseconds(random.below(8));
                match random.below(5) {
                    0 => {
                        agenda.schedule(at, step);
                        queue.schedule(at, Happening::Other(step));
                    }
                    1 | 2 => {
                        let wake = any_wake(&mut random);
                        agenda.wake(wake, at);
                        let id = queue.schedule(at, Happening::Wake(wake));
                        if let Some(before) = wakes.insert(wake.place(), id) {
                            queue.cancel(before);
                        }
                    }
                    3 => {
                        let wake = any_wake(&mut random);
                        agenda.withdraw(wake);
                        if let Some(before) = wakes.remove(&wake.place()) {
                            queue.cancel(before);
                        }
                    }
                    _ => {
                        let limit = agenda.now() + Time::from_picoseconds(random.below(6));
                        let expected = queue.pop_until(limit);
                        assert_eq!(agenda.pop_until(limit), expected, "seed {seed}");
                    }
                }
            }
            while let Some(expected) = queue.pop() {
                assert_eq!(agenda.pop_until(Time::MAX), Some(expected), "seed {seed}");
            }
            assert_eq!(agenda.pop_until(Time::MAX), None, "seed {seed}");
            assert_eq!(agenda.fired(), queue.fired(), "seed {seed}");
        }
    }
}
