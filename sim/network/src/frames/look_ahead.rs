//! What is worked out soon is asked for before it is needed: most of it is in no cache.

use viaduct_engine::{prefetch, prefetch_all};

use super::Frames;
use super::calendar::Arrival;

/// So many turns ahead a queue and a message are asked for, and what is known by these.
const FAR: usize = 12;
const NEAR: usize = 6;

impl Frames {
    /// Before the first of the frames that come in a window, by their turns.
    #[inline(always)]
    pub(super) fn look_at_first<'a>(&self, count: usize, arrival: impl Fn(usize) -> &'a Arrival) {
        for turn in 0..count.min(FAR) {
            self.look_at_arrival(arrival(turn));
        }
        for turn in 0..count.min(NEAR) {
            self.look_behind_arrival(arrival(turn));
        }
    }

    /// Before each of them.
    #[inline(always)]
    pub(super) fn look_ahead<'a>(
        &self,
        count: usize,
        turn: usize,
        arrival: impl Fn(usize) -> &'a Arrival,
    ) {
        if turn + FAR < count {
            self.look_at_arrival(arrival(turn + FAR));
        }
        if turn + NEAR < count {
            self.look_behind_arrival(arrival(turn + NEAR));
        }
    }

    /// Its queue and its message.
    #[inline(always)]
    fn look_at_arrival(&self, arrival: &Arrival) {
        prefetch_all(&self.outputs[arrival.link as usize]);
        prefetch_all(&self.passages[arrival.passage as usize]);
    }

    /// What is in the queue, and where the message goes next.
    #[inline(always)]
    fn look_behind_arrival(&self, arrival: &Arrival) {
        self.outputs[arrival.link as usize].prefetch();
        let passage = &self.passages[arrival.passage as usize];
        match passage.way.get(usize::from(arrival.route) + 1) {
            Some(next) => prefetch(core::ptr::from_ref(next)),
            None => prefetch_all(&self.adapters[passage.target]),
        }
    }

    /// Before each of the adapters whose turn it is.
    #[inline(always)]
    pub(super) fn look_ahead_of_adapters(&self, due: &[(u64, u32)]) {
        if let Some((_, host)) = due.get(9) {
            prefetch_all(&self.adapters[*host]);
            prefetch_all(&self.outputs[*host as usize]);
        }
        if let Some((_, host)) = due.get(6) {
            self.adapters[*host].prefetch();
            self.outputs[*host as usize].prefetch();
        }
        if let Some((_, host)) = due.get(3)
            && let Some(flow) = self.adapters[*host].out.flows.front()
        {
            prefetch_all(&self.passages[flow.first as usize]);
        }
    }
}
