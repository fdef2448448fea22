//! Messages that are stored on their way, as others ask for them.

use core::ops::Range;

use super::Network;
use crate::journeys::{Journey, JourneyId};

impl Network {
    /// A stored message goes no further.
    pub fn give_up(&mut self, id: JourneyId) {
        if let Some(landings) = &mut self.landings {
            landings.give_up(self.journeys.get_mut(id).demand.tag);
        }
        self.journeys.remove(id);
    }

    /// Whether a message is held by the receiving adapter, its bus still to be crossed.
    #[must_use]
    pub fn is_at_adapter(&self, id: JourneyId) -> bool {
        self.journeys.get(id).is_some_and(Journey::is_at_adapter)
    }

    /// Whether the last byte of a message has left the adapter that sends it; of one that is not
    /// stored on its way it has not before the message has moved.
    #[must_use]
    pub fn has_left(&self, id: JourneyId) -> bool {
        self.journeys.get(id).is_some_and(Journey::has_left)
    }

    /// The links of a way that a message crosses now: all, unless it is stored between them.
    #[must_use]
    pub fn links_crossed(&self, id: JourneyId) -> Option<Range<usize>> {
        let journey = self.journeys.get(id)?;
        Some(journey.shape.links_of(&(journey.done..journey.hop_end)))
    }
}
