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
    /// Those that the adapter has not sent yet.
    pub(super) left: u32,
    /// Whether one was lost in a queue: frames that have come before the first such, and whether
    /// one came behind it.
    pub(super) is_lossy: bool,
    pub(super) came: u32,
    pub(super) is_told: bool,
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
        },
        left: 0,
        is_lossy: false,
        came: 0,
        is_told: false,
        gone_look: NEVER,
        end_look: NEVER,
    };

    #[inline]
    fn are_sent(&self) -> bool {
        self.left == 0
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

    /// Which of them is next.
    #[inline]
    pub(super) fn next_kind(&self) -> Kind {
        Kind::new(self.left == self.sizes.count, self.left == 1)
    }

    /// For how long the adapter's own work holds the rest of it up at least, from now on.
    pub(super) fn rest(&self, full: u64, last: u64) -> u64 {
        match self.left {
            0 => 0,
            left => u64::from(left - 1) * full + last,
        }
    }
}
