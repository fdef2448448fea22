//! The output queue of a link: frames, first come first served.

use std::collections::VecDeque;

use viaduct_engine::prefetch;

#[derive(Debug)]
pub(super) struct Output {
    /// When all that has come is gone.
    free_at: u64,
    /// Bytes of all that has come.
    carried: f64,
    /// Bytes of the frame that came last, until somebody finds that it is gone.
    last: u32,
    /// When the frames that came before it and are here leave, and the bytes of each.
    leaving: VecDeque<(u64, u32)>,
    /// Bytes of all these, when somebody last looked, and the most that there were in this window
    /// of the time series and in those before.
    held: u64,
    held_max: u64,
    held_max_before: u64,
    /// Most frames that were here at once.
    frames_max: u32,
}

impl Output {
    pub(super) const fn new() -> Self {
        Self {
            free_at: 0,
            carried: 0.0,
            last: 0,
            leaving: VecDeque::new(),
            held: 0,
            held_max: 0,
            held_max_before: 0,
            frames_max: 0,
        }
    }

    /// When a frame begins on the link that comes at a time.
    #[inline]
    pub(super) fn start(&self, time: u64) -> u64 {
        time.max(self.free_at)
    }

    /// Bytes of the frames that are here at a time, with all of the one that is leaving.
    #[inline]
    pub(super) fn held_at(&mut self, time: u64) -> u64 {
        while let Some(&(leaves, bytes)) = self.leaving.front()
            && leaves <= time
        {
            self.leaving.pop_front();
            self.held -= u64::from(bytes);
        }
        if self.free_at <= time {
            self.held -= u64::from(core::mem::take(&mut self.last));
        }
        self.held
    }

    /// Bytes that are here at a time, which is now where what comes and leaves is put in order.
    pub(super) fn held_by(&mut self, time: u64, is_ordered: bool) -> u64 {
        match is_ordered {
            true => self.held_now(),
            false => self.held_at(time),
        }
    }

    /// A frame of some bytes, and that takes some, comes at a time: when it begins on the link.
    #[inline]
    pub(super) fn take(&mut self, time: u64, service: u64, (bytes, held): (f64, u32)) -> u64 {
        let start = self.start(time);
        if start == time {
            // Nobody is here: mostly nothing more need be looked at.
            if !self.leaving.is_empty() {
                self.leaving.clear();
            }
            self.held = 0;
        } else {
            self.held_at(time);
            self.leaving.push_back((self.free_at, self.last));
        }
        self.free_at = start + service;
        self.carried += bytes;
        self.last = held;
        self.held += u64::from(held);
        self.held_max = self.held_max.max(self.held);
        self.frames_max = self.frames_max.max(self.leaving.len() as u32 + 1);
        start
    }

    /// As [`Output::take`] where links pause: a frame comes, so that there are some.
    pub(super) fn enter(&mut self, held: u32, frames: u32) {
        self.held += u64::from(held);
        self.held_max = self.held_max.max(self.held);
        self.frames_max = self.frames_max.max(frames);
    }

    /// It begins on the link.
    pub(super) fn begin(&mut self, time: u64, service: u64, bytes: f64) {
        self.free_at = time + service;
        self.carried += bytes;
    }

    /// Bytes that are here where links pause.
    pub(super) fn held_now(&self) -> u64 {
        self.held
    }

    /// It has left.
    pub(super) fn exit(&mut self, held: u32) {
        self.held -= u64::from(held);
    }

    /// Bytes that have left by a time, at a rate. What comes after it and is known already may be
    /// counted as still here, for as long as the link is idle in between: for a window at most.
    pub(super) fn carried(&self, now: u64, rate: f64) -> f64 {
        let ahead = self.free_at.saturating_sub(now) as f64;
        (self.carried - ahead * rate).max(0.0)
    }

    /// Most frames that waited or were on the link at once.
    pub(super) fn frames_max(&self) -> u32 {
        self.frames_max
    }

    /// Most bytes that were here at once.
    pub(super) fn held_max(&self) -> u64 {
        self.held_max.max(self.held_max_before)
    }

    /// A window of the time series ends: most bytes that were here at once in it.
    pub(super) fn take_held_max(&mut self, now: u64) -> u64 {
        let held = self.held_at(now);
        let most = core::mem::replace(&mut self.held_max, held);
        self.held_max_before = self.held_max_before.max(most);
        most
    }

    /// Asks for what a frame that comes needs to know of those that are here.
    #[inline]
    pub(super) fn prefetch(&self) {
        if let (Some(front), Some(back)) = (self.leaving.front(), self.leaving.back()) {
            prefetch(core::ptr::from_ref(front));
            prefetch(core::ptr::from_ref(back).wrapping_add(1));
        }
    }

    pub(super) fn state_bytes(&self) -> usize {
        self.leaving.capacity() * size_of::<(u64, u32)>()
    }
}
