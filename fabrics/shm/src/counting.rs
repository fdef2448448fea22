//! What a NIC counts, beside what its connections do.
//!
//! A connection counts in fields of its two sides, under locks that are held anyway. When it ends
//! its counts come here; who asks for the counts adds those of the connections that live.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use viaduct_provider::Counts;

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

impl Counting {
    /// Keeps what one side of a connection counted, which is over. The side is locked.
    pub(crate) fn keep(&self, counts: Counts) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.0 += counts;
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
