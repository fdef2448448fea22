//! A message as frames: what has not been sent, what was lost, and who looks for its end.

use super::alone::Sizes;
use super::calendar::Kind;
use crate::adapter::NEVER;
use crate::passage::{Crossing, Parts};
use crate::queues::FlowKey;

/// A message on its way; full frames, and the last.
pub(super) type Passage = crate::passage::Passage<Whole, 2>;
pub(super) type Passages = crate::passage::Passages<Whole, 2>;

/// Its frames.
#[derive(Debug)]
pub(super) struct Whole {
    /// The host whose adapter sends it, and the flow it belongs to.
    pub(super) source: u32,
    pub(super) flow: Option<FlowKey>,
    pub(super) sizes: Sizes,
    /// Those that the adapter has not sent yet, and those that it is to send again.
    pub(super) left: u32,
    pub(super) asked: Asked,
    /// Whether it stands in the line of its adapter.
    pub(super) is_lined: bool,
    /// Whether one was lost in a queue: frames that have come before the first such, and whether
    /// one came behind it.
    pub(super) is_lossy: bool,
    pub(super) came: u32,
    pub(super) is_told: bool,
    /// Frames that are lost, and whether the last is. Where frames overtake each other, all others
    /// that have come count above.
    pub(super) missing: u32,
    pub(super) lacks_last: bool,
    /// Whether its frames take ways of their own; if so, the number of the one that the adapter has
    /// chosen last, and of the next.
    pub(super) is_spread: bool,
    pub(super) route: u16,
    pub(super) next_number: u16,
    /// When somebody looks whether its last byte has left, and whether that is there.
    pub(super) gone_look: u64,
    pub(super) end_look: u64,
}

impl Parts for Whole {
    const NONE: Self = Self {
        source: 0,
        flow: None,
        sizes: Sizes {
            count: 0,
            full: 0.0,
            last: 0.0,
            held: [0; 2],
            trimmed: 0.0,
        },
        left: 0,
        asked: Asked {
            first: false,
            last: false,
            others: 0,
        },
        is_lined: true,
        is_lossy: false,
        came: 0,
        is_told: false,
        missing: 0,
        lacks_last: false,
        is_spread: false,
        route: 0,
        next_number: 0,
        gone_look: NEVER,
        end_look: NEVER,
    };

    #[inline]
    fn are_sent(&self) -> bool {
        self.left == 0 && self.asked.next().is_none()
    }
}

/// Frames of a message that are asked for again. No more need be known of them: those that are
/// neither its first nor its last are alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    first: bool,
    last: bool,
    others: u32,
}

impl Asked {
    /// One more.
    pub(super) fn add(&mut self, kind: Kind) {
        match (kind.is_first(), kind.is_last()) {
            (true, _) => self.first = true,
            (_, true) => self.last = true,
            _ => self.others += 1,
        }
    }

    /// Whether the next one is the first of its message, and else whether it is the last.
    fn next(self) -> Option<(bool, bool)> {
        match (self.first, self.others, self.last) {
            (true, ..) => Some((true, false)),
            (_, 1.., _) => Some((false, false)),
            (.., true) => Some((false, true)),
            _ => None,
        }
    }

    fn take(&mut self) {
        match (self.first, self.others) {
            (true, _) => self.first = false,
            (_, 0) => self.last = false,
            _ => self.others -= 1,
        }
    }
}

impl Whole {
    /// Those of a message that begins.
    pub(super) fn of(crossing: &Crossing<'_>, sizes: Sizes) -> Self {
        Self {
            source: crossing.hosts.0,
            flow: crossing.flow,
            sizes,
            left: sizes.count,
            ..Self::NONE
        }
    }

    /// The gap of a frame has come that was lost in a queue.
    pub(super) fn lose(&mut self, kind: Kind) {
        self.is_lossy = true;
        self.missing += 1;
        self.lacks_last |= kind.is_last();
    }

    /// Whether no more frames are to come.
    pub(super) fn have_all_come(&self) -> bool {
        self.came + self.missing == self.sizes.count
    }

    /// Which of them is next: one that is to be sent again, if there is any.
    #[inline]
    pub(super) fn next_kind(&self) -> Kind {
        match self.asked.next() {
            Some((is_first, is_last)) => Kind::new(is_first, is_last || self.sizes.count == 1),
            None => Kind::new(self.left == self.sizes.count, self.left == 1),
        }
    }

    /// Whether that is one that is to be sent again.
    pub(super) fn asks_again(&self) -> bool {
        self.asked.next().is_some()
    }

    /// The adapter has sent that one.
    #[inline]
    pub(super) fn send(&mut self) {
        match self.asked.next() {
            Some(_) => self.asked.take(),
            None => self.left -= 1,
        }
        self.is_lined = !self.are_sent();
    }

    /// Bytes on the link of a frame, or of what is left of it.
    #[inline]
    pub(super) fn bytes(&self, kind: Kind) -> f64 {
        let bytes = self.sizes.bytes(kind.is_last());
        match kind.is_trimmed() {
            true => bytes.min(self.sizes.trimmed),
            false => bytes,
        }
    }

    /// Bytes that it takes in a queue: the headers of others have a place of their own.
    pub(super) fn held(&self, kind: Kind) -> u32 {
        match kind.is_trimmed() {
            true => 0,
            false => self.sizes.held(kind.is_last()),
        }
    }

    /// For how long the adapter's own work holds the rest of it up at least, from now on.
    pub(super) fn rest(&self, full: u64, last: u64) -> u64 {
        match self.left {
            0 => 0,
            left => u64::from(left - 1) * full + last,
        }
    }
}
