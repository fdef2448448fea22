//! What carries messages where flows do not share links.

use viaduct_engine::{EventQueue, Time};

use crate::credits::Credits;
use crate::fluid::{FlowDemand, FlowId};
use crate::frames::Frames;
use crate::frames::alone::Span;
use crate::passage::Crossing;
use crate::queues::Queues;

/// What carries messages where flows do not share links.
#[derive(Debug)]
pub(super) enum Apart {
    /// Each queue by itself.
    Queues(Box<Queues>),
    /// Frame by frame.
    Frames(Box<Frames>),
    /// As credits let them.
    Credits(Box<Credits>),
}

impl Apart {
    /// Whether messages are cut into pieces that go one by one.
    pub(super) const fn cuts(&self) -> bool {
        match self {
            Self::Queues(_) => false,
            Self::Frames(_) | Self::Credits(_) => true,
        }
    }

    /// The pieces of a message begin to move; nothing does where there are none.
    pub(super) fn cross<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        crossing: &Crossing<'_>,
        demand: &FlowDemand,
        span: Span,
    ) -> FlowId {
        match self {
            Self::Queues(_) => FlowId(u32::MAX),
            Self::Frames(frames) => frames.begin(queue, crossing, demand, span),
            Self::Credits(credits) => credits.begin(queue, crossing, demand, span),
        }
    }

    /// Keeps what the pieces of a message meet that begins now, where that is kept.
    pub(super) fn follow(&mut self, flow: FlowId, now: Time) {
        if let Self::Frames(frames) = self {
            frames.follow(flow, now);
        }
    }
}
