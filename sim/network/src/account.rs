//! What links and buses have carried, as far as somebody has asked.

use crate::fluid::ResourceId;

/// Bytes by resource.
#[derive(Debug)]
pub(crate) struct Account {
    /// When they were asked last, and when the account began.
    seen: Vec<f64>,
    cleared: Vec<f64>,
}

impl Account {
    /// Of so many resources.
    pub(crate) fn of(resources: usize) -> Self {
        Self {
            seen: vec![0.0; resources],
            cleared: vec![0.0; resources],
        }
    }

    /// They have carried so much since the beginning, in their order. What has been told is not
    /// taken back.
    pub(crate) fn credit(&mut self, carried: impl Iterator<Item = f64>) {
        for (seen, carried) in self.seen.iter_mut().zip(carried) {
            *seen = carried.max(*seen);
        }
    }

    /// Begins anew.
    pub(crate) fn clear(&mut self) {
        self.cleared.clone_from(&self.seen);
    }

    /// Of one of them, since it began.
    pub(crate) fn carried(&self, resource: ResourceId) -> f64 {
        let place = resource.0 as usize;
        self.seen[place] - self.cleared[place]
    }
}
