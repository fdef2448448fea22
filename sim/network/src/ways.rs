//! Ways that are kept, for pairs of hosts that talk again and again. Nothing in a run changes a
//! way, so that keeping it changes no result.

use crate::fluid::{FlowDemand, ResourceId};
use crate::hops::Alone;

/// Places for ways that are kept.
const WAYS_MAX: usize = 1 << 12;

/// Links and buses of the ways that are kept; longer ones are worked out each time.
const WAY_LENGTH_MAX: usize = 8;

/// What a way, and what it costs alone, hangs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WayKey {
    pub(crate) ends: (u32, u32),
    pub(crate) flow: u32,
    pub(crate) demand: FlowDemand,
}

impl WayKey {
    /// The place of a way between two hosts: those of neighbours differ.
    const fn place(&self, places: usize) -> usize {
        let (source, target) = self.ends;
        (source ^ target.rotate_left(6)) as usize & (places - 1)
    }

    fn is_like(&self, other: &Self) -> bool {
        self.ends == other.ends && self.flow == other.flow && self.demand.is_like(&other.demand)
    }
}

/// A way that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    key: WayKey,
    /// More than fit: none.
    length: usize,
    path: [ResourceId; WAY_LENGTH_MAX],
    pub(crate) alone: Alone,
}

impl Way {
    pub(crate) fn new(key: WayKey, path: &[ResourceId], alone: Alone) -> Self {
        let mut way = Self {
            key,
            length: path.len(),
            path: [ResourceId(0); WAY_LENGTH_MAX],
            alone,
        };
        if let Some(places) = way.path.get_mut(..path.len()) {
            places.copy_from_slice(path);
        }
        way
    }

    #[inline]
    pub(crate) fn path(&self) -> &[ResourceId] {
        &self.path[..self.length]
    }
}

/// Ways, each in the place that its ends fall upon.
#[derive(Debug)]
pub(crate) struct Ways {
    /// Empty before the first.
    ways: Vec<Option<Way>>,
    places: usize,
}

impl Ways {
    pub(crate) fn new(hosts: u32) -> Self {
        let pairs = (hosts as usize).saturating_pow(2);
        Self {
            ways: Vec::new(),
            places: pairs.min(WAYS_MAX).next_power_of_two(),
        }
    }

    #[inline]
    pub(crate) fn find(&self, key: &WayKey) -> Option<&Way> {
        let way = self.ways.get(key.place(self.places))?.as_ref()?;
        way.key.is_like(key).then_some(way)
    }

    pub(crate) fn keep(&mut self, way: Way) {
        if way.length > WAY_LENGTH_MAX {
            return;
        }
        if self.ways.is_empty() {
            self.ways = vec![None; self.places];
        }
        let place = way.key.place(self.places);
        self.ways[place] = Some(way);
    }
}
