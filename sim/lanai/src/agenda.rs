//! What happens next.
//!
//! Nearly all events are wakes: a processor looks at what there is to do. A processor has at most
//! one that matters, the earliest. Most processors wait for somebody most of the time: of 25 hosts
//! with one server some four wakes stand at once, and a new one is as likely before one of them as
//! before another. So a few are looked through for the next, which a processor foresees where it
//! does not a place in a sorted list; those there is no room for are a sorted list, the next at its
//! end. Other events are few, and in a heap. All are in the order of (time, sequence).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use viaduct_engine::Time;

/// Who has at most one wake: a processor of a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wake {
    /// The interface's processor has ended what it did, or something came for it.
    Firmware(u32),
    /// The host's processor has.
    Host(u32),
    /// What a process may do at once on a shared processor is over.
    Slice(u32),
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
        let host = (place / KINDS) as u32;
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
/// Wakes that are looked through, at most; a power of two.
const LOOKED_THROUGH: usize = 8;
/// For 2^24 hosts; 2^38 events are numbered.
const PLACE_BITS: u32 = 26;
/// Hosts, at most.
pub(crate) const HOSTS_MAX: u32 = 1 << (PLACE_BITS - 2);
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
    /// Wakes in no order, as many as `count`: the upper and lower halves of their keys, since a
    /// whole one that was just written would be waited for.
    uppers: [u64; LOOKED_THROUGH],
    lowers: [u64; LOOKED_THROUGH],
    count: usize,
    /// Wakes beyond those, the next one last.
    crowd: Vec<Key>,
    /// Whether each place has a wake.
    stands: Vec<bool>,
    others: BinaryHeap<Reverse<Other<E>>>,
    /// The first of the crowd and of the others.
    beyond: Key,
}

impl<E: Copy> Agenda<E> {
    /// Of no host yet.
    pub(crate) const fn new() -> Self {
        Self {
            now: Time::ZERO,
            sequence: 0,
            fired: 0,
            uppers: [0; LOOKED_THROUGH],
            lowers: [0; LOOKED_THROUGH],
            count: 0,
            crowd: Vec::new(),
            stands: Vec::new(),
            others: BinaryHeap::new(),
            beyond: Key::MAX,
        }
    }

    /// A host more has processors that wake.
    pub(crate) fn add_host(&mut self) {
        // `Config::joined` has seen that each has a place.
        let places = self.stands.len() + KINDS;
        debug_assert!(places <= 1 << PLACE_BITS, "{places} places");
        self.stands.resize(places, false);
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
        self.beyond = self.beyond.min(key);
    }

    /// Has a processor wake at `time`, or now if that is over, in place of when it would.
    #[inline]
    pub(crate) fn wake(&mut self, wake: Wake, time: Time) {
        let place = wake.place();
        if core::mem::replace(&mut self.stands[place], true) {
            self.take_back(place);
        }
        let key = self.key(time) | place as u128;
        if self.count == LOOKED_THROUGH {
            self.make_room();
        }
        let index = self.count % LOOKED_THROUGH;
        self.uppers[index] = (key >> 64) as u64;
        self.lowers[index] = key as u64;
        self.count += 1;
    }

    /// The last of those that are looked through joins the crowd: what waits for long ends there.
    #[cold]
    fn make_room(&mut self) {
        let standing = self.looked_through().enumerate();
        let Some((index, last)) = standing.max_by_key(|(_, key)| *key) else {
            return;
        };
        self.take_out(index);
        let place = self.crowd.partition_point(|other| *other > last);
        self.crowd.insert(place, last);
        self.beyond = self.beyond.min(last);
    }

    #[inline]
    fn looked_through(&self) -> impl Iterator<Item = Key> {
        let halves = self.uppers.iter().zip(&self.lowers).take(self.count);
        halves.map(|(upper, lower)| u128::from(*upper) << 64 | u128::from(*lower))
    }

    /// Takes one of those that are looked through out.
    #[inline]
    fn take_out(&mut self, index: usize) {
        self.count -= 1;
        let (index, last) = (index % LOOKED_THROUGH, self.count % LOOKED_THROUGH);
        self.uppers[index] = self.uppers[last];
        self.lowers[index] = self.lowers[last];
    }

    /// Takes a wake back, if it stands.
    pub(crate) fn withdraw(&mut self, wake: Wake) {
        let place = wake.place();
        if core::mem::replace(&mut self.stands[place], false) {
            self.take_back(place);
        }
    }

    /// The next to happen, if that is not after `limit`.
    #[inline(always)]
    pub(crate) fn pop_until(&mut self, limit: Time) -> Option<(Time, Happening<E>)> {
        let mut wake = Key::MAX;
        let mut place = 0;
        for (index, key) in self.looked_through().enumerate() {
            let is_sooner = key < wake;
            wake = if is_sooner { key } else { wake };
            place = if is_sooner { index } else { place };
        }
        if self.beyond <= wake {
            return self.pop_beyond(limit);
        }
        let time = time_of(wake);
        if time > limit {
            return None;
        }
        self.take_out(place);
        Some((time, self.fire(wake)))
    }

    #[inline(always)]
    fn fire(&mut self, wake: Key) -> Happening<E> {
        self.now = time_of(wake);
        self.fired += 1;
        let wake = Wake::of(wake);
        self.stands[wake.place()] = false;
        Happening::Wake(wake)
    }

    /// The next of the crowd or of the others.
    #[cold]
    fn pop_beyond(&mut self, limit: Time) -> Option<(Time, Happening<E>)> {
        let key = self.beyond;
        let time = time_of(key);
        if key == Key::MAX || time > limit {
            return None;
        }
        let happening = if self.crowd.last() == Some(&key) {
            self.crowd.pop();
            self.fire(key)
        } else {
            let Reverse(other) = self.others.pop()?;
            self.now = time;
            self.fired += 1;
            Happening::Other(other.event)
        };
        self.look_beyond();
        Some((time, happening))
    }

    fn look_beyond(&mut self) {
        let other = self.others.peek().map_or(Key::MAX, |Reverse(it)| it.key);
        self.beyond = self.crowd.last().map_or(other, |wake| other.min(*wake));
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
        let index = self.looked_through().position(|key| is_its(&key));
        if let Some(index) = index {
            self.take_out(index);
        } else if let Some(index) = self.crowd.iter().position(is_its) {
            self.crowd.remove(index);
            self.look_beyond();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use viaduct_engine::{EventQueue, Stream, StreamKey};

    use super::*;

    fn any_wake(random: &mut Stream) -> Wake {
        let host = random.below(20) as u32;
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
            let mut agenda = Agenda::new();
            for _ in 0..20 {
                agenda.add_host();
            }
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
