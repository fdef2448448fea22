//! Frames and who is in them: which one is free, and which to empty when none is.

use viaduct_engine::Stream;

use crate::names::Frame;

/// Which occupant has to leave when every frame is taken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Policy {
    /// Any, each equally likely: what the published system does.
    #[default]
    Random,
    /// The one that was used longest ago.
    LeastRecentlyUsed,
    /// The next in order that was not used since the hand passed it.
    Clock,
}

const END: u16 = u16::MAX;

/// Most frames of one interface.
pub const FRAMES_MAX: u16 = u16::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Neighbours in the order of use: older, and newer. A free frame: the next free one in
    /// `newer`.
    older: u16,
    newer: u16,
    is_taken: bool,
    was_used: bool,
}

/// Frames with a policy of replacement. Each call is O(1), but a clock's search, which is O(1) over
/// a sequence of calls and at most two rounds in one.
///
/// A frame takes memory when it is first taken.
#[derive(Clone, Debug)]
pub struct Frames {
    policy: Policy,
    count: u16,
    slots: Vec<Slot>,
    /// The first of those that were given back.
    free: u16,
    oldest: u16,
    newest: u16,
    hand: u16,
    taken: u16,
}

impl Frames {
    /// `count` free frames.
    ///
    /// # Panics
    /// If `count` is 0 or above [`FRAMES_MAX`].
    #[must_use]
    pub fn new(count: u16, policy: Policy) -> Self {
        assert!(
            (1..=FRAMES_MAX).contains(&count),
            "an interface has 1 to {FRAMES_MAX} frames, not {count}"
        );
        Self {
            policy,
            count,
            slots: Vec::new(),
            free: END,
            oldest: END,
            newest: END,
            hand: 0,
            taken: 0,
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> u16 {
        self.taken
    }

    /// Takes a free frame, if there is one.
    pub fn take(&mut self) -> Option<Frame> {
        let made = self.slots.len() as u16;
        let index = if let Some(slot) = self.slots.get_mut(usize::from(self.free)) {
            slot.is_taken = true;
            slot.was_used = true;
            core::mem::replace(&mut self.free, slot.newer)
        } else if made < self.count {
            self.slots.push(Slot {
                older: END,
                newer: END,
                is_taken: true,
                was_used: true,
            });
            made
        } else {
            return None;
        };
        self.taken += 1;
        self.append(index);
        Some(Frame::new(index))
    }

    /// Gives a taken frame back.
    ///
    /// # Panics
    /// If it is free.
    pub fn release(&mut self, frame: Frame) {
        let index = frame.index() as u16;
        assert!(self.slots[frame.index()].is_taken, "{frame} is free");
        self.detach(index);
        let slot = &mut self.slots[frame.index()];
        slot.is_taken = false;
        slot.newer = self.free;
        self.free = index;
        self.taken -= 1;
    }

    /// Notes that the occupant of a taken frame was used.
    pub fn touch(&mut self, frame: Frame) {
        let index = frame.index() as u16;
        match self.policy {
            Policy::Random => {}
            Policy::Clock => self.slots[frame.index()].was_used = true,
            Policy::LeastRecentlyUsed => {
                if self.newest != index && self.slots[frame.index()].is_taken {
                    self.detach(index);
                    self.append(index);
                }
            }
        }
    }

    /// Which frame to empty; none while one is free.
    pub fn victim(&mut self, random: &mut Stream) -> Option<Frame> {
        if self.taken < self.count {
            return None;
        }
        Some(Frame::new(match self.policy {
            Policy::Random => random.below(self.slots.len() as u64) as u16,
            Policy::LeastRecentlyUsed => self.oldest,
            Policy::Clock => loop {
                let index = self.hand;
                self.hand = (index + 1) % self.count();
                let slot = &mut self.slots[usize::from(index)];
                if !core::mem::take(&mut slot.was_used) {
                    break index;
                }
            },
        }))
    }

    fn append(&mut self, index: u16) {
        let newest = self.newest;
        let slot = &mut self.slots[usize::from(index)];
        slot.older = newest;
        slot.newer = END;
        match self.slots.get_mut(usize::from(newest)) {
            Some(before) => before.newer = index,
            None => self.oldest = index,
        }
        self.newest = index;
    }

    fn detach(&mut self, index: u16) {
        let Slot { older, newer, .. } = self.slots[usize::from(index)];
        match self.slots.get_mut(usize::from(older)) {
            Some(before) => before.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(usize::from(newer)) {
            Some(after) => after.older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use viaduct_engine::StreamKey;

    fn stream(seed: u64) -> Stream {
        Stream::new(StreamKey {
            seed,
            purpose: 1,
            entity: 0,
        })
    }

    #[test]
    fn least_recently_used_follows_a_list_of_uses() {
        // Goal: the linked order equals a plain list, over random takes, uses and releases.
        let mut random = stream(3);
        let mut frames = Frames::new(5, Policy::LeastRecentlyUsed);
        let mut order: Vec<Frame> = Vec::new();
        for _ in 0..10_000 {
            match random.below(4) {
                0 => match frames.take() {
                    Some(frame) => order.push(frame),
                    None => assert_eq!(order.len(), 5),
                },
                1 if !order.is_empty() => {
                    let place = random.below(order.len() as u64) as usize;
                    frames.release(order.remove(place));
                }
                _ if !order.is_empty() => {
                    let place = random.below(order.len() as u64) as usize;
                    let frame = order.remove(place);
                    order.push(frame);
                    frames.touch(frame);
                }
                _ => {}
            }
            let expected = (order.len() == 5).then(|| order[0]);
            assert_eq!(frames.victim(&mut random), expected);
        }
    }

    #[test]
    fn clock_passes_over_what_was_used() {
        let mut random = stream(0);
        let mut frames = Frames::new(3, Policy::Clock);
        let [a, b, c] = [(); 3].map(|()| frames.take().unwrap());
        // All were used when they came: the hand goes round once and takes the first.
        assert_eq!(frames.victim(&mut random), Some(a));
        frames.touch(b);
        assert_eq!(frames.victim(&mut random), Some(c));
        assert_eq!(frames.victim(&mut random), Some(a));
        assert_eq!(frames.victim(&mut random), Some(b));
    }

    #[test]
    fn random_chooses_every_frame() {
        let mut random = stream(0);
        let mut frames = Frames::new(8, Policy::Random);
        while frames.take().is_some() {}
        let mut seen = [0; 8];
        for _ in 0..8000 {
            seen[frames.victim(&mut random).unwrap().index()] += 1;
        }
        assert!(
            seen.iter().all(|count| (850..1150).contains(count)),
            "{seen:?}"
        );
    }
}
