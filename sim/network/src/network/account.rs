//! What a network has carried, what is under way in it, and what that takes.

use core::ops::Range;

use viaduct_engine::Time;

use super::{Apart, Network};
use crate::credits::Deadlock;
use crate::fluid::{FlowId, ResourceId};
use crate::followed::Waits;
use crate::frames::limits::QueueCounts;
use crate::journeys::JourneyId;

impl Network {
    /// Credits all links and buses with what they have carried up to now.
    pub fn credit_all(&mut self, now: Time) {
        match &mut self.apart {
            None => self.fluid.credit_all(now),
            Some(Apart::Queues(queues)) => queues.work_out_all(now),
            Some(Apart::Arrived(queues)) => queues.account_all(now),
            Some(Apart::Frames(frames)) => frames.credit_all(now),
            Some(Apart::Credits(credits)) => credits.credit_all(now),
        }
    }

    /// Begins a new account of what links and buses carry.
    pub fn clear_credit(&mut self) {
        match &mut self.apart {
            None => self.fluid.clear_credit(),
            Some(Apart::Queues(queues)) => queues.clear_carried(),
            Some(Apart::Arrived(queues)) => queues.clear_carried(),
            Some(Apart::Frames(frames)) => frames.clear_carried(),
            Some(Apart::Credits(credits)) => credits.clear_carried(),
        }
    }

    /// Bytes credited to a link or bus.
    #[must_use]
    pub fn carried(&self, resource: ResourceId) -> f64 {
        match &self.apart {
            None => self.fluid.carried(resource),
            Some(Apart::Queues(queues)) => queues.carried(resource),
            Some(Apart::Arrived(queues)) => queues.carried(resource),
            Some(Apart::Frames(frames)) => frames.carried(resource),
            Some(Apart::Credits(credits)) => credits.carried(resource),
        }
    }

    /// The rate of a link or bus, bytes a picosecond.
    #[must_use]
    pub fn rate(&self, resource: ResourceId) -> f64 {
        match &self.apart {
            None => self.fluid.rate(resource),
            Some(Apart::Queues(queues)) => queues.rate(resource),
            Some(Apart::Arrived(queues)) => queues.rate(resource),
            Some(Apart::Frames(frames)) => frames.rate(resource),
            Some(Apart::Credits(credits)) => credits.rate(resource),
        }
    }

    /// Most flows that a link or bus ever had at once.
    #[must_use]
    pub fn flows_max(&self, resource: ResourceId) -> u32 {
        match &self.apart {
            None => self.fluid.flows_max(resource),
            Some(Apart::Queues(queues)) => queues.busy_max(resource),
            Some(Apart::Arrived(queues)) => queues.busy_max(resource),
            Some(Apart::Frames(frames)) => frames.frames_max(resource),
            Some(Apart::Credits(credits)) => credits.units_max(resource),
        }
    }

    /// What a link's queue has lost and marked, and how the link has paused until `now`.
    #[must_use]
    pub fn queue_counts(&self, link: ResourceId, now: Time) -> QueueCounts {
        match &self.apart {
            None | Some(Apart::Queues(_) | Apart::Arrived(_) | Apart::Credits(_)) => {
                QueueCounts::default()
            }
            Some(Apart::Frames(frames)) => frames.queue_counts(link, now),
        }
    }

    /// Most bytes of frames that were in a link's queue at once, or of credits that were spent for
    /// a link at once; at `queues` of messages that a link had left to serve while there were
    /// several, in windows that have ended. 0 where flows share links.
    #[must_use]
    pub fn queue_max_bytes(&self, link: ResourceId) -> u64 {
        match &self.apart {
            None => 0,
            Some(Apart::Queues(queues)) => queues.held_max_bytes(link),
            Some(Apart::Arrived(queues)) => queues.held_max_bytes(link),
            Some(Apart::Frames(frames)) => frames.queue_max_bytes(link),
            Some(Apart::Credits(credits)) => credits.held_max_bytes(link),
        }
    }

    /// Whether links have queues, or credits that are spent for them.
    pub(crate) const fn has_queues(&self) -> bool {
        self.apart.is_some()
    }

    /// As [`Network::queue_max_bytes`], since this was last asked; 0 where a queue held no more
    /// than one full frame, or message. A queue may be worked out a little ahead, so that what
    /// comes less than a cable's delay after `now` may count already.
    pub(crate) fn take_queue_max_bytes(&mut self, link: ResourceId, now: Time) -> u64 {
        match &mut self.apart {
            None => 0,
            Some(Apart::Queues(queues)) => queues.take_held_max_bytes(link, now),
            Some(Apart::Arrived(queues)) => queues.take_held_max_bytes(link, now),
            Some(Apart::Frames(frames)) => frames.take_queue_max_bytes(link, now),
            Some(Apart::Credits(credits)) => credits.take_held_max_bytes(link),
        }
    }

    /// Asks for a flow's memory, before its end is handled.
    #[inline]
    pub fn prefetch_flow(&self, flow: FlowId) {
        match &self.apart {
            None => self.fluid.prefetch_flow(flow),
            Some(Apart::Queues(queues)) => queues.prefetch(flow),
            Some(Apart::Arrived(_) | Apart::Frames(_) | Apart::Credits(_)) => {}
        }
    }

    /// Asks for the memory of what a flow crosses; returns its tag.
    #[inline]
    #[must_use]
    pub fn prefetch_path(&self, flow: FlowId) -> u32 {
        self.tag_of(match &self.apart {
            None => self.fluid.prefetch_path(flow),
            Some(Apart::Queues(queues)) => queues.prefetch_path(flow),
            Some(Apart::Arrived(queues)) => queues.tag(flow),
            Some(Apart::Frames(frames)) => frames.tag(flow),
            Some(Apart::Credits(credits)) => credits.tag(flow),
        })
    }

    /// What a flow was tagged with.
    #[inline]
    #[must_use]
    pub fn tag(&self, flow: FlowId) -> u32 {
        self.tag_of(match &self.apart {
            None => self.fluid.tag(flow),
            Some(Apart::Queues(queues)) => queues.tag(flow),
            Some(Apart::Arrived(queues)) => queues.tag(flow),
            Some(Apart::Frames(frames)) => frames.tag(flow),
            Some(Apart::Credits(credits)) => credits.tag(flow),
        })
    }

    #[inline]
    pub(super) fn tag_of(&self, tag: u32) -> u32 {
        if self.is_cut_through {
            return tag;
        }
        let journey = self.journeys.get(JourneyId(tag));
        journey.map_or(tag, |journey| journey.demand.tag)
    }

    /// What moves now: tags, and places of their ways.
    pub fn moving(&self) -> impl Iterator<Item = (u32, Range<usize>)> {
        let (mut queues, mut arrived, mut frames, mut credits) = (None, None, None, None);
        match &self.apart {
            None => {}
            Some(Apart::Queues(its)) => queues = Some(its.active_tags()),
            Some(Apart::Arrived(its)) => arrived = Some(its.active_tags()),
            Some(Apart::Frames(its)) => frames = Some(its.active_tags()),
            Some(Apart::Credits(its)) => credits = Some(its.active_tags()),
        }
        let apart = queues
            .into_iter()
            .flatten()
            .chain(arrived.into_iter().flatten())
            .chain(frames.into_iter().flatten())
            .chain(credits.into_iter().flatten());
        self.fluid.active_tags().chain(apart).map(|tag| {
            let journey = (!self.is_cut_through).then(|| self.journeys.get(JourneyId(tag)));
            match journey.flatten() {
                Some(journey) => (journey.demand.tag, journey.done..journey.hop_end),
                None => (tag, 0..usize::MAX),
            }
        })
    }

    /// Messages that wait for each other for ever, once that is known.
    #[must_use]
    pub fn deadlock(&self) -> Option<&Deadlock> {
        match &self.apart {
            Some(Apart::Credits(credits)) => credits.deadlock(),
            Some(Apart::Frames(frames)) => frames.deadlock(),
            None | Some(Apart::Queues(_) | Apart::Arrived(_)) => None,
        }
    }

    /// Keeps from now on what messages with a tag meet, of the last one that began.
    pub const fn follow(&mut self, tag: u32) {
        self.followed = Some(tag);
    }

    /// What the followed message waited for that has been served last, and was told to have moved
    /// its bytes by a time; none where flows share links.
    pub fn take_waits(&mut self, moved_at: Time) -> Option<Waits> {
        let (mut waits, served_at) = self.waits.take()?;
        waits.in_order += moved_at.saturating_sub(served_at);
        Some(waits)
    }

    /// Memory of all this.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let apart = match &self.apart {
            None => 0,
            Some(Apart::Queues(queues)) => queues.state_bytes(),
            Some(Apart::Arrived(queues)) => queues.state_bytes(),
            Some(Apart::Frames(frames)) => frames.state_bytes(),
            Some(Apart::Credits(credits)) => credits.state_bytes(),
        };
        self.fluid.state_bytes() + apart
    }
}
