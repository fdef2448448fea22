//! Channels that wait for each other in a ring, and so for ever.
//!
//! The front of a buffer waits for room in one channel. If that has too little, on its way back
//! included, it gets none before the front of its own buffer goes on, which waits for another one.
//! Where this comes back to where it began nothing of it will ever move.

use viaduct_engine::Time;
use viaduct_topology::{Channel, LinkId};

use super::Credits;
use super::channel::NONE;

/// Switches and hosts are worked out so many times before somebody looks whether messages stand
/// still among others that move.
pub(super) const WORKS: u64 = 1 << 16;

/// Messages that will never move again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Deadlock {
    /// When that was found.
    pub at: Time,
    /// The channels whose buffers are full of them: what is in front in each waits for room in the
    /// next, and in the last for room in the first. Links that pause have one channel, 0.
    pub channels: Vec<Channel>,
}

impl Credits {
    /// Looks for channels that wait for each other.
    #[cold]
    pub(super) fn look_for_deadlock(&mut self, now: u64) {
        let mut seen = vec![NONE; self.channels.len()];
        for start in 0..self.channels.len() as u32 {
            let mut at = start;
            while seen[at as usize] == NONE {
                seen[at as usize] = start;
                match self.waits_for(at, now) {
                    Some(next) => at = next,
                    None => break,
                }
                if seen[at as usize] == start {
                    return self.stand_still(at, now);
                }
            }
        }
    }

    /// The channel that the front of a buffer waits for, if credits on their way do not help.
    fn waits_for(&self, channel: u32, now: u64) -> Option<u32> {
        let unit = self.channels[channel as usize].units.front()?;
        let next = &self.channels[unit.next_channel as usize];
        let is_held = next.holder != NONE && next.holder != unit.holder();
        let has_room = next.credits + next.returning >= unit.next_credits;
        (unit.ready <= now && (is_held || !has_room)).then_some(unit.next_channel)
    }

    fn stand_still(&mut self, first: u32, now: u64) {
        let mut channels = Vec::new();
        let mut at = first;
        loop {
            let link = self.channels[at as usize].link;
            channels.push(Channel {
                link: LinkId(link),
                number: at - link * self.settings.channels,
            });
            match self.waits_for(at, now) {
                Some(next) if next != first => at = next,
                _ => break,
            }
        }
        self.deadlock = Some(Box::new(Deadlock {
            at: Time::from_picoseconds(now),
            channels,
        }));
    }
}
