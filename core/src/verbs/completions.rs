//! What a completion queue holds: completions in their order, and for what it tells its channel.

use alloc::collections::VecDeque;

use super::{Completion, CompletionStatus, Key, check};

/// For what a completion queue tells its channel, once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Armed {
    /// Nothing.
    #[default]
    No,
    /// A completion that its sender has marked, or one with an error.
    Solicited,
    /// Any completion.
    All,
}

/// What a completion queue is made with.
#[derive(Clone, Copy, Debug)]
pub struct CompletionQueueOptions<C = Key> {
    /// Completions that find room.
    pub entries: u32,
    /// Names it in events.
    pub cookie: u64,
    /// Where it tells.
    pub channel: Option<C>,
    /// Which vector of completions: 0.
    pub vector: u32,
    /// Whether completions bear the time.
    pub has_timestamps: bool,
    /// Whether an overrun is ignored, so that the newest completions are lost.
    pub ignores_overrun: bool,
}

impl<C> Default for CompletionQueueOptions<C> {
    fn default() -> Self {
        Self {
            entries: 0,
            cookie: 0,
            channel: None,
            vector: 0,
            has_timestamps: false,
            ignores_overrun: false,
        }
    }
}

impl<C> CompletionQueueOptions<C> {
    /// The same with another word for its channel.
    pub fn map<D>(&self, channel: impl FnOnce(&C) -> D) -> CompletionQueueOptions<D> {
        CompletionQueueOptions {
            entries: self.entries,
            cookie: self.cookie,
            channel: self.channel.as_ref().map(channel),
            vector: self.vector,
            has_timestamps: self.has_timestamps,
            ignores_overrun: self.ignores_overrun,
        }
    }
}

/// What follows when a completion comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival {
    /// Nothing.
    Quiet,
    /// The channel is told. The queue is no longer armed.
    Tells,
    /// It found no room, and the queue has ended: an asynchronous event says so.
    Overruns,
}

/// What a completion queue holds.
#[derive(Debug)]
pub struct Completions {
    entries: u32,
    /// The oldest first.
    held: VecDeque<Completion>,
    armed: Armed,
    ignores_overrun: bool,
    has_overrun: bool,
}

impl Completions {
    /// Finds room for so many. One that ignores it when there is none loses what comes then, and
    /// goes on.
    #[must_use]
    pub const fn new(entries: u32, ignores_overrun: bool) -> Self {
        Self {
            entries,
            held: VecDeque::new(),
            armed: Armed::No,
            ignores_overrun,
            has_overrun: false,
        }
    }

    /// For how many there is room.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.entries
    }

    /// How many it holds.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether it holds none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether a completion that is put into it and taken out at once leaves it as it was: whoever
    /// looks for one may be handed it without it.
    #[inline]
    #[must_use]
    pub fn is_passed_by(&self) -> bool {
        self.is_empty() && self.armed == Armed::No && !self.has_overrun && self.entries > 0
    }

    /// Whether it holds none and will never again.
    #[inline]
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_overrun && self.is_empty()
    }

    /// For what it tells its channel.
    #[must_use]
    pub const fn armed(&self) -> Armed {
        self.armed
    }

    /// A completion comes.
    #[inline]
    pub fn put(&mut self, completion: Completion, is_solicited: bool) -> Arrival {
        if self.has_overrun {
            return Arrival::Quiet;
        }
        if self.len() >= self.entries as usize {
            self.has_overrun = !self.ignores_overrun;
            return if self.has_overrun {
                Arrival::Overruns
            } else {
                Arrival::Quiet
            };
        }
        let is_error = completion.status != CompletionStatus::Success;
        self.held.push_back(completion);
        if self.armed == Armed::No || !check::tells_channel(self.armed, is_solicited, is_error) {
            return Arrival::Quiet;
        }
        self.armed = Armed::No;
        Arrival::Tells
    }

    /// The oldest.
    #[inline]
    #[must_use]
    pub fn oldest(&self) -> Option<&Completion> {
        self.held.front()
    }

    /// Takes the oldest out.
    #[inline]
    pub fn take(&mut self) -> Option<Completion> {
        self.held.pop_front()
    }

    /// Has it tell its channel of what comes from now on. Returns for what it did.
    pub fn arm(&mut self, is_solicited_only: bool) -> Armed {
        let armed = if check::arms_for_all(self.armed, is_solicited_only) {
            Armed::All
        } else {
            Armed::Solicited
        };
        core::mem::replace(&mut self.armed, armed)
    }

    /// Has it tell nothing. Returns for what it did.
    pub fn disarm(&mut self) -> Armed {
        core::mem::take(&mut self.armed)
    }

    /// Has room for another number of them; false if more are in it.
    #[must_use]
    pub fn resize(&mut self, entries: u32) -> bool {
        let has_room = self.len() <= entries as usize;
        if has_room {
            self.entries = entries;
        }
        has_room
    }

    /// Takes those of a queue pair back, which goes.
    pub fn forget(&mut self, queue_pair: u32) {
        self.held
            .retain(|completion| completion.queue_pair != queue_pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(request: u64, queue_pair: u32) -> Completion {
        Completion {
            request,
            queue_pair,
            ..Completion::default()
        }
    }

    fn taken(queue: &mut Completions) -> alloc::vec::Vec<u64> {
        core::iter::from_fn(|| queue.take())
            .map(|completion| completion.request)
            .collect()
    }

    #[test]
    fn completions_leave_in_the_order_in_which_they_came() {
        let mut queue = Completions::new(8, false);
        for request in 0..5 {
            assert_eq!(queue.put(of(request, 1), false), Arrival::Quiet);
        }
        assert_eq!(queue.take().map(|completion| completion.request), Some(0));
        assert_eq!(queue.put(of(5, 1), false), Arrival::Quiet);
        assert_eq!(queue.len(), 5);
        assert_eq!(taken(&mut queue), [1, 2, 3, 4, 5]);
        assert!(queue.is_empty() && queue.take().is_none());
    }

    #[test]
    fn what_finds_no_room_ends_the_queue_behind_what_is_in_it() {
        let mut queue = Completions::new(2, false);
        queue.put(of(0, 1), false);
        queue.put(of(1, 1), false);
        assert!(!queue.resize(1) && queue.resize(2));
        assert_eq!(queue.put(of(2, 1), false), Arrival::Overruns);
        assert_eq!(queue.put(of(3, 1), false), Arrival::Quiet);
        assert!(!queue.has_ended());
        assert_eq!(taken(&mut queue), [0, 1]);
        assert!(queue.has_ended());
        let mut patient = Completions::new(1, true);
        patient.put(of(0, 1), false);
        assert_eq!(patient.put(of(1, 1), false), Arrival::Quiet);
        assert_eq!(taken(&mut patient), [0]);
        assert_eq!(patient.put(of(2, 1), false), Arrival::Quiet);
        assert_eq!(taken(&mut patient), [2]);
    }

    /// Whoever looks may be handed what comes where a queue would hand it on, and nowhere else.
    #[test]
    fn a_queue_is_passed_by_if_a_completion_would_leave_it_as_it_was() {
        for bits in 0..1 << 5 {
            let has = |bit: u32| bits & 1 << bit != 0;
            let mut queue = Completions::new(u32::from(has(0)), has(1));
            if has(2) {
                queue.put(of(0, 1), false);
            }
            if has(3) {
                // An overrun, of a queue that does not ignore it.
                queue.put(of(1, 1), false);
                queue.put(of(2, 1), false);
                taken(&mut queue);
            }
            if has(4) {
                queue.arm(false);
            }
            let before = alloc::format!("{:?}", (queue.len(), queue.armed, queue.has_overrun));
            let is_passed_by = queue.is_passed_by();
            let arrival = queue.put(of(9, 1), false);
            let handed = queue.take().map(|completion| completion.request);
            let after = alloc::format!("{:?}", (queue.len(), queue.armed, queue.has_overrun));
            let hands_on = arrival == Arrival::Quiet && handed == Some(9) && before == after;
            assert_eq!(is_passed_by, hands_on, "{bits:05b}");
        }
    }

    #[test]
    fn a_queue_pair_takes_its_completions_with_it() {
        let mut queue = Completions::new(8, false);
        for (request, queue_pair) in [(0, 1), (1, 1), (2, 2), (3, 1), (4, 2)] {
            queue.put(of(request, queue_pair), false);
        }
        queue.forget(1);
        assert_eq!(queue.len(), 2);
        assert_eq!(taken(&mut queue), [2, 4]);
    }

    #[test]
    fn a_channel_is_told_once_of_what_it_was_armed_for() {
        let mut queue = Completions::new(8, false);
        assert_eq!(queue.arm(true), Armed::No);
        assert_eq!(queue.put(of(0, 1), false), Arrival::Quiet);
        assert_eq!(queue.put(of(1, 1), true), Arrival::Tells);
        assert_eq!(queue.put(of(2, 1), true), Arrival::Quiet);
        queue.arm(true);
        let failed = Completion {
            status: CompletionStatus::FlushError,
            ..of(3, 1)
        };
        assert_eq!(queue.put(failed, false), Arrival::Tells);
        queue.arm(false);
        // Arming for all stays though arming for solicited ones follows.
        assert_eq!(queue.arm(true), Armed::All);
        assert_eq!(queue.put(of(4, 1), false), Arrival::Tells);
        queue.arm(false);
        assert_eq!((queue.disarm(), queue.armed()), (Armed::All, Armed::No));
        assert_eq!(queue.put(of(5, 1), true), Arrival::Quiet);
    }
}
