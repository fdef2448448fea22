//! What is known of links beforehand.

use core::ops::Index;
use std::collections::BTreeMap;

use viaduct_engine::Time;

use super::alone::{Forwarding, picoseconds};

/// Those of a network. Most are alike, so that what is known of them stays in the cache.
#[derive(Debug)]
pub(super) struct Cables {
    kind_of: Box<[u32]>,
    kinds: Vec<Cable>,
}

impl Cables {
    /// One after the other.
    pub(super) fn of(cables: impl Iterator<Item = Cable>) -> Self {
        let mut kinds: Vec<Cable> = Vec::new();
        let mut numbers = BTreeMap::new();
        let kind_of = cables.map(|cable| {
            let key = (cable.rate.to_bits(), cable.propagation, cable.switch);
            *numbers.entry(key).or_insert_with(|| {
                kinds.push(cable);
                kinds.len() as u32 - 1
            })
        });
        Self {
            kind_of: kind_of.collect(),
            kinds,
        }
    }

    /// From the start of a frame on a link, which it keeps busy for some time, to its entering the
    /// queue of the next one.
    #[inline]
    pub(super) fn lead(
        &self,
        [link, next]: [u32; 2],
        (bytes, service): (f64, u64),
        forwarding: Forwarding,
    ) -> u64 {
        let kind = self.kind_of[link as usize];
        let cable = &self.kinds[kind as usize];
        if kind == self.kind_of[next as usize] && bytes == cable.full_bytes {
            return cable.full_lead;
        }
        cable.lead(bytes, (service, self[next].service(bytes)), forwarding)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Cable> {
        let kinds = self.kind_of.iter();
        kinds.map(|kind| &self.kinds[*kind as usize])
    }

    pub(super) fn state_bytes(&self) -> usize {
        self.kind_of.len() * size_of::<u32>() + self.kinds.capacity() * size_of::<Cable>()
    }
}

impl Index<u32> for Cables {
    type Output = Cable;

    #[inline]
    fn index(&self, link: u32) -> &Cable {
        &self.kinds[self.kind_of[link as usize] as usize]
    }
}

/// One, and the queue and the switch or adapter at its ends.
#[derive(Debug)]
pub(super) struct Cable {
    /// Bytes a picosecond.
    pub(super) rate: f64,
    /// The cable, and the switch or adapter behind it.
    pub(super) propagation: u64,
    pub(super) switch: u64,
    /// Of full frames: their bytes, for how long one keeps the link busy, and how long a switch
    /// waits for what it needs of it.
    full_bytes: f64,
    full: u64,
    full_cut: u64,
    /// From the start of one to its entering the next queue, where the link behind that is alike.
    full_lead: u64,
}

impl Cable {
    pub(super) fn new(
        rate: f64,
        (propagation, switch): (Time, Time),
        full_bytes: f64,
        forwarding: Forwarding,
    ) -> Self {
        let mut cable = Self {
            rate,
            propagation: propagation.picoseconds(),
            switch: switch.picoseconds(),
            full_bytes,
            full: picoseconds(full_bytes, rate),
            full_cut: forwarding.cut(full_bytes, rate),
            full_lead: 0,
        };
        cable.full_lead = cable.lead(full_bytes, (cable.full, cable.full), forwarding);
        cable
    }

    /// From the start of a frame, which keeps this link busy for some time and the next one for
    /// another, to its entering the queue of that. No cable is crossed in no time at all.
    fn lead(&self, bytes: f64, (service, next): (u64, u64), forwarding: Forwarding) -> u64 {
        let wait = forwarding.wait(self.cut(bytes, forwarding), service, next);
        (self.propagation + self.switch + wait).max(1)
    }

    /// For how long a frame keeps the link busy.
    #[inline]
    pub(super) fn service(&self, bytes: f64) -> u64 {
        if bytes == self.full_bytes {
            self.full
        } else {
            picoseconds(bytes, self.rate)
        }
    }

    /// Whether so many bytes are more than a full frame.
    pub(super) fn is_more_than_full(&self, bytes: u64) -> bool {
        bytes as f64 > self.full_bytes
    }

    /// How long a switch waits for what it needs of a frame.
    #[inline]
    pub(super) fn cut(&self, bytes: f64, forwarding: Forwarding) -> u64 {
        if bytes == self.full_bytes {
            self.full_cut
        } else {
            forwarding.cut(bytes, self.rate)
        }
    }
}
