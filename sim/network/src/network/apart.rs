//! What carries messages where flows do not share links.

use viaduct_engine::{EventQueue, Time};

use crate::credits::Credits;
use crate::fluid::{FlowDemand, FlowId};
use crate::followed::Waits;
use crate::frames::Frames;
use crate::frames::alone::Span;
use crate::passage::Crossing;
use crate::queues::arrived::Arrived;
use crate::queues::{Passing, Queues};

/// What carries messages where flows do not share links.
#[derive(Debug)]
pub(super) enum Apart {
    /// Each queue by itself.
    Queues(Box<Queues>),
    /// The same, and no byte is served before it has come.
    Arrived(Box<Arrived>),
    /// Frame by frame.
    Frames(Box<Frames>),
    /// As credits let them.
    Credits(Box<Credits>),
}

impl Apart {
    /// Whether messages are cut into pieces that go one by one.
    pub(super) const fn cuts(&self) -> bool {
        match self {
            Self::Queues(_) | Self::Arrived(_) => false,
            Self::Frames(_) | Self::Credits(_) => true,
        }
    }

    /// What is drawn in switches hangs on a seed.
    pub(super) fn set_seed(&mut self, seed: u64) {
        match self {
            Self::Queues(_) | Self::Arrived(_) => {}
            Self::Frames(frames) => frames.set_seed(seed),
            Self::Credits(credits) => credits.set_seed(seed),
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
            Self::Queues(_) | Self::Arrived(_) => FlowId(u32::MAX),
            Self::Frames(frames) => frames.begin(queue, crossing, demand, span),
            Self::Credits(credits) => credits.begin(queue, crossing, demand, span),
        }
    }

    /// A message begins to go through queues, whole; nothing does where it is cut. Says whether its
    /// head comes to its last queue without having to wait.
    pub(super) fn pass<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        passing: &Passing<'_>,
    ) -> (FlowId, bool) {
        match self {
            Self::Queues(queues) => queues.begin(queue, passing),
            Self::Arrived(queues) => queues.begin(queue, passing),
            Self::Frames(_) | Self::Credits(_) => (FlowId(u32::MAX), false),
        }
    }

    /// To be called before time moves on.
    #[inline]
    pub(super) fn settle<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        if let Self::Arrived(queues) = self {
            queues.settle(queue);
        }
    }

    /// Keeps what the pieces of a message of a host meet that begins now.
    pub(super) fn follow(&mut self, flow: FlowId, host: u32, now: Time) {
        match self {
            // Queues know at its end what it has met.
            Self::Queues(_) | Self::Arrived(_) => {}
            Self::Frames(frames) => frames.follow(flow, now),
            Self::Credits(credits) => credits.follow(flow, host, now),
        }
    }

    /// What the followed message waited for, which has been served now.
    pub(super) fn take_waits(&mut self, flow: FlowId) -> Option<Waits> {
        match self {
            Self::Queues(queues) => Some(queues.waits_of(flow)),
            Self::Arrived(queues) => Some(queues.waits_of(flow)),
            Self::Frames(frames) => frames.take_waits(),
            Self::Credits(credits) => credits.take_waits(),
        }
    }
}
