//! Completion queues: one place that tells of completions on many work queues.

use alloc::collections::VecDeque;

use crate::ids::{Queue, ViId};
use crate::slab::Key;

/// Names a live completion queue of one NIC.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CompletionQueueId(pub(crate) Key);

impl CompletionQueueId {
    /// The id as a number, never 0.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// The inverse of [`CompletionQueueId::to_bits`]; `None` for a number that no id has.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Self> {
        Key::from_bits(bits).map(Self)
    }
}

/// Says that the oldest unannounced descriptor of a work queue is complete.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CompletionEntry {
    /// Whose.
    pub vi: ViId,
    /// Which of its queues.
    pub queue: Queue,
}

/// What a completion queue says of itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CompletionQueueInformation {
    /// Entries asked for at creation or resizing.
    pub entries: u32,
    /// Entries that wait to be taken.
    pub entries_waiting: u32,
    /// Most entries that ever waited; above `entries` the consumer asked for too few.
    pub entries_waiting_max: u32,
    /// Work queues bound.
    pub work_queues: u32,
}

#[derive(Debug)]
pub(crate) struct CompletionQueue {
    // VIA leaves an overrun undefined. No entry is lost here: the queue grows past `entries`.
    waiting: VecDeque<CompletionEntry>,
    waiting_max: u32,
    pub(crate) entries: u32,
    pub(crate) work_queues: u32,
}

impl CompletionQueue {
    pub(crate) const fn new(entries: u32) -> Self {
        Self {
            waiting: VecDeque::new(),
            waiting_max: 0,
            entries,
            work_queues: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: CompletionEntry) {
        self.waiting.push_back(entry);
        self.waiting_max = self.waiting_max.max(self.waiting.len() as u32);
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Option<CompletionEntry> {
        self.waiting.pop_front()
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.len() as u32
    }

    /// Forgets the entries of a VI that is going away.
    pub(crate) fn purge(&mut self, vi: ViId) {
        self.waiting.retain(|entry| entry.vi != vi);
    }

    pub(crate) fn information(&self) -> CompletionQueueInformation {
        CompletionQueueInformation {
            entries: self.entries,
            entries_waiting: self.waiting(),
            entries_waiting_max: self.waiting_max,
            work_queues: self.work_queues,
        }
    }
}
