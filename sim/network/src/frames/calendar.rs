//! When frames come to the queues of switches: by windows, not by time.
//!
//! A frame that begins on a cable is at the next queue a window later at the earliest. So all that
//! comes to a queue in a window is known when the window begins, and within it each queue works
//! alone: nothing has to be put in order but what comes to one queue in one window.

use std::collections::BTreeMap;

use viaduct_engine::{Time, prefetch};

/// A frame that comes to the queue of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Arrival {
    /// When it is there, picoseconds.
    pub(super) time: u64,
    /// When it began on the link of the host that sends it.
    pub(super) sent: u64,
    /// The message.
    pub(super) passage: u32,
    /// The queue, and the link that it comes from.
    pub(super) link: u32,
    pub(super) from: u32,
    /// What says which link is next: the place of the queue on its way, or where its frames take
    /// ways of their own ([`super::spread`]) its number, as far as that has not been used.
    pub(super) route: u16,
    pub(super) kind: Kind,
}

/// Which frame of its message it is, and what has happened to it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Kind(u8);

impl Kind {
    const FIRST: u8 = 1;
    const LAST: u8 = 2;
    const LOST: u8 = 4;
    const MARKED: u8 = 8;
    const TRIMMED: u8 = 16;
    const ENDS: u8 = 32;
    const DETOUR: u8 = 128;
    /// No frame, but what happens to the link: see [`super::pause`].
    pub(super) const LEAVES: Self = Self(64);
    pub(super) const PAUSES: Self = Self(65);
    pub(super) const RESUMES: Self = Self(66);

    #[inline]
    pub(super) fn new(is_first: bool, is_last: bool) -> Self {
        Self(u8::from(is_first) * Self::FIRST + u8::from(is_last) * Self::LAST)
    }

    #[inline]
    pub(super) fn is_first(self) -> bool {
        self.0 & Self::FIRST != 0
    }

    #[inline]
    pub(super) fn is_last(self) -> bool {
        self.0 & Self::LAST != 0
    }

    /// Whether a queue has marked it.
    #[inline]
    pub(super) fn is_marked(self) -> bool {
        self.0 & Self::MARKED != 0
    }

    pub(super) fn marked(self) -> Self {
        Self(self.0 | Self::MARKED)
    }

    /// Whether nothing but its header is left.
    #[inline]
    pub(super) fn is_trimmed(self) -> bool {
        self.0 & Self::TRIMMED != 0
    }

    pub(super) fn trimmed(self) -> Self {
        Self(self.0 | Self::TRIMMED)
    }

    /// Whether no more frames of its message are to come; known where it has come.
    #[inline]
    pub(super) fn ends(self) -> bool {
        self.0 & Self::ENDS != 0
    }

    /// The same frame where it has come, with that.
    #[inline]
    pub(super) fn ending(self, ends: bool) -> Self {
        Self(self.0 | (u8::from(ends) * Self::ENDS))
    }

    /// Whether a gap goes in its place.
    #[inline]
    pub(super) fn is_lost(self) -> bool {
        self.0 & Self::LOST != 0
    }

    /// Whether it goes to the switch of another host first.
    #[inline]
    pub(super) fn is_on_detour(self) -> bool {
        self.0 & Self::DETOUR != 0
    }

    /// The same frame, which does or does not.
    #[inline]
    pub(super) fn on_detour(self, is_on_detour: bool) -> Self {
        Self(self.0 & !Self::DETOUR | (u8::from(is_on_detour) * Self::DETOUR))
    }

    /// Whether it is one, or a gap in the place of one.
    pub(super) fn is_frame(self) -> bool {
        self.rank() == 2
    }

    /// Of what happens at one time, what is first: frames leave, links pause and go on, and then
    /// frames come.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::LEAVES => 0,
            Self::PAUSES | Self::RESUMES => 1,
            _ => 2,
        }
    }

    /// The gap in the place of such a frame.
    pub(super) fn lost(self) -> Self {
        Self(self.0 | Self::LOST)
    }
}

impl Arrival {
    /// What comes before what at one queue; what comes from one link is in order before.
    #[inline]
    pub(super) fn key(&self) -> (u64, u32) {
        (self.time, self.from)
    }
}

/// Windows that are kept by their numbers; what is further ahead is kept by a tree.
const RING: u64 = 256;

#[derive(Debug)]
pub(super) struct Calendar {
    /// The length of a window, picoseconds.
    width: u64,
    /// Windows before this one are done.
    next: u64,
    next_begin: u64,
    ring: Box<[Vec<Arrival>; RING as usize]>,
    far: BTreeMap<u64, Vec<Arrival>>,
    /// Emptied lists, to be filled again.
    spare: Vec<Vec<Arrival>>,
    count: usize,
}

impl Calendar {
    pub(super) fn new(width: u64) -> Self {
        Self {
            width,
            next: 0,
            next_begin: 0,
            ring: Box::new([const { Vec::new() }; RING as usize]),
            far: BTreeMap::new(),
            spare: Vec::new(),
            count: 0,
        }
    }

    /// The length of a window.
    pub(super) fn width(&self) -> u64 {
        self.width
    }

    /// The window that a time belongs to.
    #[inline]
    pub(super) fn window(&self, time: u64) -> u64 {
        time / self.width
    }

    /// The same of a time that is no earlier than the windows that are not done: mostly soon, so
    /// that short numbers are divided.
    #[inline]
    fn window_ahead(&self, time: u64) -> u64 {
        let ahead = time.saturating_sub(self.next_begin);
        match (u32::try_from(ahead), u32::try_from(self.width)) {
            (Ok(ahead), Ok(width)) => self.next + u64::from(ahead / width),
            _ => self.window(time),
        }
    }

    /// When a window begins.
    #[inline]
    pub(super) fn begin(&self, window: u64) -> Time {
        Time::from_picoseconds(window.saturating_mul(self.width))
    }

    #[inline]
    pub(super) fn push(&mut self, arrival: Arrival) {
        let window = self.window_ahead(arrival.time);
        debug_assert!(window >= self.next, "{} is next: {arrival:?}", self.next);
        self.count += 1;
        let list = if window < self.next + RING {
            &mut self.ring[(window % RING) as usize]
        } else {
            self.far.entry(window).or_default()
        };
        if list.capacity() == 0
            && let Some(spare) = self.spare.pop()
        {
            *list = spare;
        }
        list.push(arrival);
        // What comes next is written there.
        prefetch(list.as_ptr_range().end.wrapping_add(1));
    }

    /// All that comes in a window, that of one link in order; windows before it hold nothing any
    /// more.
    pub(super) fn take(&mut self, window: u64) -> Vec<Arrival> {
        if window >= self.next {
            self.next = window + 1;
            self.next_begin = self.begin(window + 1).picoseconds();
        }
        let mut list = core::mem::take(&mut self.ring[(window % RING) as usize]);
        if let Some(mut far) = self.far.remove(&window) {
            // It was known earlier.
            far.append(&mut list);
            self.keep(core::mem::replace(&mut list, far));
        }
        self.count -= list.len();
        list
    }

    /// Gives a list back.
    pub(super) fn keep(&mut self, mut list: Vec<Arrival>) {
        list.clear();
        if list.capacity() > 0 {
            self.spare.push(list);
        }
    }

    /// The first window that holds something.
    pub(super) fn first(&self) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let near = (self.next..self.next + RING)
            .find(|window| !self.ring[(window % RING) as usize].is_empty());
        let far = self.far.keys().next().copied();
        match (near, far) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }

    pub(super) fn state_bytes(&self) -> usize {
        let lists = self.ring.iter().chain(self.far.values()).chain(&self.spare);
        let held: usize = lists.map(Vec::capacity).sum();
        held * size_of::<Arrival>() + self.ring.len() * size_of::<Vec<Arrival>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_under_way_takes_at_most_64_bytes() {
        // It is in one list, and counted in one queue.
        assert!(size_of::<Arrival>() + size_of::<(u64, u32)>() <= 64);
    }

    #[test]
    fn windows_near_and_far_come_in_order() {
        let mut calendar = Calendar::new(10);
        let times = [3, 9, 25, 10 * RING + 1, 10 * RING + 25, 100 * RING];
        let kind = Kind::new(true, true);
        for time in times {
            calendar.push(Arrival {
                time,
                sent: 0,
                passage: 0,
                link: 0,
                from: 0,
                route: 0,
                kind,
            });
        }
        let mut seen = Vec::new();
        while let Some(window) = calendar.first() {
            let list = calendar.take(window);
            assert!(list.iter().all(|it| it.time / 10 == window));
            seen.extend(list.iter().map(|it| it.time));
            calendar.keep(list);
        }
        assert_eq!(seen, times);
    }
}
