//! A link as its sender sees it, and its channels with their buffers.

use std::collections::VecDeque;

use super::units::Kind;
use crate::frames::alone::picoseconds;

/// Nobody and nothing.
pub(super) const NONE: u32 = u32::MAX;

/// A unit in a channel's buffer at the end of a link, or on its way there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// When it may go on.
    pub(super) ready: u64,
    pub(super) passage: u32,
    /// Its packet, if that takes a way of its own.
    pub(super) packet: u32,
    /// The link and the channel that it goes on by.
    pub(super) next_link: u32,
    pub(super) next_channel: u32,
    /// The place of that on its way.
    pub(super) next_place: u16,
    pub(super) kind: Kind,
    /// The credits that it takes here, and there.
    pub(super) credits: u32,
    pub(super) next_credits: u32,
}

impl Unit {
    pub(super) fn holder(&self) -> u32 {
        holder(self.passage, self.packet)
    }
}

/// Who holds a channel of which a packet is part of the way over: its message, all of whose packets
/// come one after another, or a packet that takes a way of its own.
#[inline]
pub(super) const fn holder(passage: u32, packet: u32) -> u32 {
    /// No message has so high a number.
    const OWN: u32 = 1 << 31;

    match packet {
        NONE => passage,
        packet => packet | OWN,
    }
}

/// A virtual channel of a link.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) link: u32,
    /// Its buffer, first come first served.
    pub(super) units: VecDeque<Unit>,
    /// All that there are, those that the sender has, and those on their way back.
    pub(super) all: u32,
    pub(super) credits: u32,
    pub(super) returning: u32,
    /// The message whose packet is part of the way over, or that packet: [`holder`].
    pub(super) holder: u32,
    /// Whether its sender waits for more credits than there are, on their way included.
    pub(super) is_awaited: bool,
}

impl Channel {
    pub(super) fn new(link: u32, all: u32) -> Self {
        Self {
            link,
            units: VecDeque::new(),
            all,
            credits: all,
            returning: 0,
            holder: NONE,
            is_awaited: false,
        }
    }
}

/// The time that counts, and how far behind its turn.
pub(super) type Rank = (u64, u32);

/// A link from one node to another.
#[derive(Debug)]
pub(super) struct Link {
    /// The nodes that it joins.
    pub(super) from: u32,
    pub(super) to: u32,
    /// Bytes a picosecond.
    pub(super) rate: f64,
    /// From a decision at its beginning to the first bit at its end, and from there to a decision.
    pub(super) crossing: u64,
    pub(super) switch: u64,
    /// From the leaving of a unit's last byte at its end to the use of the credits at its
    /// beginning.
    pub(super) credit: u64,
    /// The units that are met most: their bytes, for how long one keeps the link busy, and how long
    /// the switch behind it waits for what it needs of it.
    usual: [(f64, u64, u64); 2],
    /// When its sender may decide again.
    pub(super) free_at: u64,
    /// When the switch behind it may take the next unit from its buffers.
    pub(super) input_free_at: u64,
    /// Bytes of all that has begun.
    pub(super) carried: f64,
    /// The credits of those who have chosen it by the shortest queue, and wait for it.
    pub(super) chosen: u32,
    /// Credits that go back: when they are there, of which channel, how many.
    pub(super) returning: VecDeque<(u64, u32, u32)>,
    /// Its number among the links into its switch.
    pub(super) port: u32,
    /// The channel after that which was served last, and the port after that whose unit was taken.
    pub(super) turn_of_channel: u32,
    pub(super) turn_of_port: u32,
    /// Who asks for it now: its rank, the least of which goes first, and the channel.
    pub(super) asked: Option<(Rank, u32)>,
    /// Credits that are taken in its buffers, and the most of them in this window of the time
    /// series and in those before; the same of units, in the whole run.
    pub(super) held: u32,
    pub(super) held_max: u32,
    pub(super) held_max_before: u32,
    pub(super) units: u32,
    pub(super) units_max: u32,
}

impl Link {
    pub(super) fn new((from, to): (u32, u32), rate: f64) -> Self {
        Self {
            from,
            to,
            rate,
            crossing: 0,
            switch: 0,
            credit: 0,
            usual: [(f64::NAN, 0, 0); 2],
            free_at: 0,
            input_free_at: 0,
            carried: 0.0,
            chosen: 0,
            returning: VecDeque::new(),
            port: 0,
            turn_of_channel: 0,
            turn_of_port: 0,
            asked: None,
            held: 0,
            held_max: 0,
            held_max_before: 0,
            units: 0,
            units_max: 0,
        }
    }

    /// Sizes that are met most, each with what a switch needs of it.
    pub(super) fn expect(&mut self, sizes: [f64; 2], cut: impl Fn(f64, f64) -> u64) {
        self.usual =
            sizes.map(|bytes| (bytes, picoseconds(bytes, self.rate), cut(bytes, self.rate)));
    }

    /// For how long a unit keeps the link busy.
    #[inline]
    pub(super) fn service(&self, bytes: f64) -> u64 {
        match self.usual.iter().find(|usual| usual.0 == bytes) {
            Some(usual) => usual.1,
            None => picoseconds(bytes, self.rate),
        }
    }

    /// How long the switch behind it waits for what it needs of a unit, where that is known.
    #[inline]
    pub(super) fn usual_cut(&self, bytes: f64) -> Option<u64> {
        let usual = self.usual.iter().find(|usual| usual.0 == bytes);
        usual.map(|usual| usual.2)
    }

    /// Bytes that have left by a time.
    pub(super) fn carried_by(&self, now: u64) -> f64 {
        let ahead = self.free_at.saturating_sub(now) as f64;
        (self.carried - ahead * self.rate).max(0.0)
    }

    /// Credits go back, to be there at a time.
    #[inline]
    pub(super) fn send_back(&mut self, time: u64, channel: u32, credits: u32) {
        self.returning.push_back((time, channel, credits));
        let mut place = self.returning.len() - 1;
        while place > 0 && self.returning[place - 1].0 > time {
            self.returning.swap(place - 1, place);
            place -= 1;
        }
    }
}
