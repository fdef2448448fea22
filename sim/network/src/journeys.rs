//! Messages that are stored on their way.
//!
//! Where ordered messages of one flow are stored, they go on one after another, as they came: none
//! overtakes another at a switch.

use std::collections::{BTreeMap, VecDeque};

use viaduct_engine::Time;

use crate::fluid::{FlowDemand, ResourceId};
use crate::hops::Shape;

/// Number of a message that is stored on its way; free numbers are used again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct JourneyId(pub u32);

impl JourneyId {
    /// Of a message that is not stored.
    pub const NONE: Self = Self(u32::MAX);
}

/// The ends of a flow, and its number between them.
pub(crate) type FlowName = ((u32, u32), u32);

/// How far one of them is.
#[derive(Clone, Debug)]
pub(crate) struct Journey {
    pub(crate) path: Vec<ResourceId>,
    pub(crate) shape: Shape,
    /// With the caller's tag.
    pub(crate) demand: FlowDemand,
    /// The hosts that it goes between.
    pub(crate) ends: (u32, u32),
    /// Its flow and the class of that, unless it is alone in its own, and whether it stands in the
    /// lines of the flow.
    pub(crate) flow: Option<(FlowName, u8)>,
    pub(crate) stands_in_line: bool,
    /// Places of the path that it has crossed.
    pub(crate) done: usize,
    /// The end of the hop that it crosses now.
    pub(crate) hop_end: usize,
    /// Of the hop.
    pub(crate) delay: Time,
}

impl Journey {
    /// Whether all but the receiver's bus is crossed.
    pub(crate) fn is_at_adapter(&self) -> bool {
        self.shape.last_bus && self.done + 1 == self.path.len()
    }

    /// Whether what the sending adapter is needed for is crossed.
    pub(crate) fn has_left(&self) -> bool {
        self.shape.leaves(&(0..self.done))
    }
}

/// All of them, by number.
#[derive(Debug, Default)]
pub(crate) struct Journeys {
    journeys: Vec<Journey>,
    free: Vec<JourneyId>,
    /// By flow, and place of the way where a stored message of the flow goes on or is to.
    hops: BTreeMap<(FlowName, usize), Line>,
}

/// Messages of one flow that are stored at one place.
#[derive(Debug)]
struct Line {
    /// Whose turn it is: it moves on, or is about to.
    first: JourneyId,
    behind: VecDeque<JourneyId>,
}

impl Journeys {
    pub(crate) fn insert(
        &mut self,
        path: &[ResourceId],
        shape: Shape,
        demand: FlowDemand,
        ends: (u32, u32),
        flow: Option<(FlowName, u8)>,
        stands_in_line: bool,
    ) -> JourneyId {
        let journey = |path| Journey {
            path,
            shape,
            demand,
            ends,
            flow,
            stands_in_line,
            done: 0,
            hop_end: 0,
            delay: Time::ZERO,
        };
        if let Some(id) = self.free.pop() {
            let place = &mut self.journeys[id.0 as usize];
            let mut kept = core::mem::take(&mut place.path);
            kept.clear();
            kept.extend_from_slice(path);
            *place = journey(kept);
            return id;
        }
        self.journeys.push(journey(path.to_vec()));
        JourneyId(self.journeys.len() as u32 - 1)
    }

    pub(crate) fn get(&self, id: JourneyId) -> Option<&Journey> {
        self.journeys.get(id.0 as usize)
    }

    pub(crate) fn get_mut(&mut self, id: JourneyId) -> &mut Journey {
        &mut self.journeys[id.0 as usize]
    }

    /// Whether a stored message can go on now; if not, it stands behind those of its flow.
    pub(crate) fn take_place(&mut self, id: JourneyId) -> bool {
        let journey = &self.journeys[id.0 as usize];
        let Some((flow, _)) = journey.flow.filter(|_| journey.stands_in_line) else {
            return true;
        };
        let place = (flow, journey.done);
        let line = self.hops.entry(place).or_insert_with(|| Line {
            first: id,
            behind: VecDeque::new(),
        });
        if line.first != id {
            line.behind.push_back(id);
        }
        line.first == id
    }

    /// A message has crossed a hop; which one goes on now that was stored behind it.
    pub(crate) fn leave_place(&mut self, id: JourneyId) -> Option<JourneyId> {
        let journey = &self.journeys[id.0 as usize];
        if journey.done == 0 || !journey.stands_in_line {
            return None;
        }
        let place = (journey.flow?.0, journey.done);
        let line = self.hops.get_mut(&place)?;
        let next = line.behind.pop_front();
        match next {
            Some(next) => line.first = next,
            None => drop(self.hops.remove(&place)),
        }
        next
    }

    pub(crate) fn remove(&mut self, id: JourneyId) {
        self.free.push(id);
    }
}
