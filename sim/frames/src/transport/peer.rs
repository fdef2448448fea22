//! What is known of one peer, and how long its answers take.

use viaduct_engine::Time;

use super::{Config, List};
use crate::names::Peer;

/// Picoseconds of one unit of a packet's stamp, as a power of two: 65.5 ns.
const STAMP_SHIFT: u32 = 16;

/// The stamp of a moment: 32 bits, round in 281 s.
pub(super) fn stamp(now: Time) -> u32 {
    (now.picoseconds() >> STAMP_SHIFT) as u32
}

/// Mean and mean deviation of round trips, smoothed as in RFC 6298: by an eighth and a quarter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// In stamp units, times 8.
    mean: u32,
    /// In stamp units, times 4.
    deviation: u32,
    has_sample: bool,
}

impl RoundTrip {
    /// A packet with this stamp was answered.
    #[inline]
    pub(super) fn sample(&mut self, sent: u32, now: Time) {
        // A stamp may be ahead of the clock by the transmissions within one unit.
        let span = (stamp(now).wrapping_sub(sent) as i32).max(0) as u32;
        let span = span.min(1 << 27);
        if !core::mem::replace(&mut self.has_sample, true) {
            self.mean = span * 8;
            self.deviation = span * 2;
            return;
        }
        let error = span.abs_diff(self.mean / 8);
        self.deviation = self.deviation - self.deviation / 4 + error;
        self.mean = self.mean - self.mean / 8 + span;
    }

    pub(super) fn mean(&self) -> Option<Time> {
        self.has_sample
            .then(|| Time::from_picoseconds(u64::from(self.mean / 8) << STAMP_SHIFT))
    }

    /// When an answer is overdue: mean and four deviations, zero before the first answer.
    #[inline]
    pub(super) fn overdue_after(&self) -> Time {
        let units = u64::from(self.mean / 8) + u64::from(self.deviation);
        Time::from_picoseconds(units << STAMP_SHIFT)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PeerState {
    /// Who it is.
    pub(super) peer: Peer,
    /// The highest incarnation that anything told; 0: none.
    pub(super) incarnation: u32,
    /// Channels that carry nothing, as bits.
    pub(super) free_channels: u32,
    /// Where the search for a free channel begins.
    next_channel: u8,
    /// When the first packet was sent of those since its last answer.
    pub(super) silent_since: Option<Time>,
    pub(super) round_trip: RoundTrip,
    /// Messages without a channel: their time has come, and has not.
    pub(super) ready: List,
    pub(super) waiting: List,
}

impl PeerState {
    pub(super) fn new(peer: Peer, config: &Config) -> Self {
        Self {
            peer,
            incarnation: config.incarnation_at_first,
            free_channels: u32::MAX >> (32 - u32::from(config.channels)),
            next_channel: 0,
            silent_since: None,
            round_trip: RoundTrip::default(),
            ready: List::EMPTY,
            waiting: List::EMPTY,
        }
    }

    /// The next free channel in turn, so that messages spread over the routes.
    #[inline]
    pub(super) fn take_channel(&mut self) -> Option<u8> {
        if self.free_channels == 0 {
            return None;
        }
        let from = u32::from(self.next_channel);
        let turned = self.free_channels.rotate_right(from);
        let channel = (turned.trailing_zeros() + from) % 32;
        self.free_channels &= !(1 << channel);
        self.next_channel = ((channel + 1) % 32) as u8;
        Some(channel as u8)
    }
}
