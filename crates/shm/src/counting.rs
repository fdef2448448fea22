//! What a NIC counts, beside what its connections do.
//!
//! A connection counts in fields of its two sides, under locks that are held anyway. When it ends
//! its counts come here; who asks for the counts adds those of the connections that live.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use viaduct_fabric::Counts;

use crate::nic::Nic;
use crate::wait::Parker;

/// The counts of a NIC that no living connection has.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    /// Of connections that are over, and how often some were added.
    past: Mutex<(Counts, u64)>,
    sleeps: AtomicU64,
    wake_ups: AtomicU64,
}

/// What the send side of a connection counts. A message that goes inline changes two of them, or
/// three: together with the receive side's, in few lines, since a NIC may have many connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendCounts {
    pub(crate) inline: u64,
    pub(crate) bytes: u64,
    /// Slots behind the first of an inline message.
    pub(crate) continuations: u64,
    /// Slots published that are not of inline messages.
    pub(crate) other_transfers: u64,
    pub(crate) direct: u64,
    pub(crate) copied: u64,
    pub(crate) pooled: u64,
    pub(crate) data_writes: u64,
    pub(crate) copies: u64,
    pub(crate) chunks: u64,
    pub(crate) notices: u64,
    pub(crate) kicks: u64,
}

impl From<SendCounts> for Counts {
    fn from(counts: SendCounts) -> Self {
        let transfers = counts.inline + counts.other_transfers;
        Self {
            inline: counts.inline,
            direct: counts.direct,
            copied: counts.copied,
            pooled: counts.pooled,
            bytes: counts.bytes,
            transfers,
            slots: transfers + counts.continuations,
            data_writes: counts.data_writes,
            copies: counts.copies,
            chunks: counts.chunks,
            notices: counts.notices,
            kicks: counts.kicks,
            ..Self::default()
        }
    }
}

/// What the receive side of a connection counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiveCounts {
    pub(crate) received: u64,
    pub(crate) indexes: u64,
    pub(crate) returns: u64,
    pub(crate) cookies: u64,
    pub(crate) answers: u64,
    pub(crate) chunks: u64,
}

impl From<ReceiveCounts> for Counts {
    fn from(counts: ReceiveCounts) -> Self {
        Self {
            received: counts.received,
            indexes: counts.indexes,
            returns: counts.returns,
            cookies: counts.cookies,
            answers: counts.answers,
            chunks: counts.chunks,
            ..Self::default()
        }
    }
}

impl Counting {
    /// Keeps what one side of a connection counted, which is over. The side is locked.
    pub(crate) fn keep(&self, counts: impl Into<Counts>) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.0 += counts.into();
        past.1 += 1;
    }

    /// All counts; `living` adds up those of the connections that live, whose sides it locks.
    pub(crate) fn sum(&self, living: impl Fn() -> Counts) -> Counts {
        let past = || *self.past.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (_, before) = past();
            let living = living();
            let (ended, after) = past();
            // A connection that ended in between was seen in both, or in neither.
            if before == after {
                let waits = Counts {
                    sleeps: self.sleeps.load(Ordering::Relaxed),
                    wake_ups: self.wake_ups.load(Ordering::Relaxed),
                    ..Counts::default()
                };
                return living + ended + waits;
            }
        }
    }
}

/// One call that waits: counted once, however often it sleeps.
#[derive(Default)]
pub(crate) struct Asleep {
    nic: Option<Arc<Nic>>,
    is_woken: bool,
}

impl Asleep {
    /// Sleeps on a parker. The NIC is asked for at the first sleep.
    pub(crate) fn sleep(
        &mut self,
        parker: &Parker,
        limit: Option<Duration>,
        nic: impl FnOnce() -> Option<Arc<Nic>>,
    ) {
        if self.nic.is_none() {
            self.nic = nic();
            if let Some(nic) = &self.nic {
                // Relaxed: a number, which guards no other memory.
                nic.counting.sleeps.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.is_woken |= parker.sleep(limit);
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        if let Some(nic) = &self.nic
            && self.is_woken
        {
            nic.counting.wake_ups.fetch_add(1, Ordering::Relaxed);
        }
    }
}
