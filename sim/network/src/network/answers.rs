//! What a network is given, and what it answers.

use core::ops::Range;

use viaduct_engine::Time;

use crate::fluid::FlowDemand;
use crate::frames::limits::QueueLoss;
use crate::hops::Alone;
use crate::journeys::{FlowName, JourneyId};

/// What is to be carried.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// From which host to which.
    pub ends: (u32, u32),
    /// Of which flow between the two it is: all of one flow take one way.
    pub flow: u32,
    /// Flows of equal numbers and unequal classes take one way, and are not one.
    pub class: u8,
    /// Whether it waits, where it is stored, behind others of its flow that were stored before;
    /// with queues all do.
    pub is_ordered: bool,
    /// Whether it is told to be there after what its flow began before.
    pub landing: Landing,
    /// How many bytes, how fast the ends can go, and the caller's tag.
    pub demand: FlowDemand,
}

/// Whether a message that crosses no bus, and so may be there first, is told to be there after what
/// its flow began before and that crosses one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Landing {
    /// No, nor does any wait for it: it is heard by itself.
    Apart,
    /// No, but those behind it that land in order wait for it.
    Awaited,
    /// Yes.
    InOrder,
}

/// A message has begun to move: over its whole way, or over the next hop of it.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// The caller's tag.
    pub tag: u32,
    /// What [`Network::forward`](crate::Network::forward) takes if it will be stored.
    pub journey: JourneyId,
    /// From a byte's start here to its being at the end of what is crossed at once.
    pub delay: Time,
    /// How long its bytes take here, nobody else there.
    pub unshared: Time,
    /// Whether its first byte is at the receiving adapter after the delay, and goes on as it comes.
    pub has_head: bool,
    /// What its whole way costs, nobody else there; nothing if it goes on.
    pub alone: Alone,
}

/// A message has moved all its bytes over something.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moved {
    /// The caller's tag.
    pub tag: u32,
    /// When: now, or where it crosses queues, when it would have, had each of its bytes been in all
    /// of them at once.
    pub at: Time,
    /// Buses and links that it crossed, by their places on its way.
    pub places: Range<usize>,
    /// Whether the last byte has left the sending adapter with that.
    pub is_gone: bool,
    /// What follows.
    pub next: Next,
    /// A message of the same flow that was stored behind it: it is to go on now.
    pub behind: Option<JourneyId>,
    /// What was lost of it in queues, if anything was.
    pub loss: Option<QueueLoss>,
}

/// What follows when a message has moved over something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Nothing: its last byte is at the receiver as long after [`Moved::at`] as was told.
    There,
    /// Its sender is done with it, and it moves on.
    Onward,
    /// Its head, which had to wait on its way, is at the receiver as long after this time as was
    /// told; the rest moves on.
    Head(Time),
    /// It is stored at a switch, and goes on after some time.
    AtSwitch(JourneyId, Time),
    /// It is in the receiving adapter after some time, its bus still to be crossed: whether it goes
    /// on is the adapter's to say.
    AtAdapter(JourneyId, Time),
}

impl Transfer {
    pub(super) fn flow_name(&self) -> FlowName {
        (self.ends, self.flow)
    }
}

impl Moved {
    /// Over all of its way.
    #[inline]
    pub(super) fn whole(tag: u32, at: Time) -> Self {
        Self {
            tag,
            at,
            places: 0..usize::MAX,
            is_gone: true,
            next: Next::There,
            behind: None,
            loss: None,
        }
    }
}

impl Begun {
    #[inline]
    pub(super) fn whole(tag: u32, alone: Alone) -> Self {
        Self {
            tag,
            journey: JourneyId::NONE,
            delay: alone.delay,
            unshared: alone.moving,
            has_head: true,
            alone,
        }
    }
}
