//! The machine this process runs on.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::host::Host;
use crate::line;

/// Keeps the calling thread on one core.
///
/// # Errors
///
/// When the system refuses, for a core that does not exist or is not ours for instance.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).map_err(io::Error::from)
}

/// The cores that this thread may run on, in order.
///
/// # Errors
///
/// What the system says; none is expected.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    let cores = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|core| cores.is_set(*core))
        .collect())
}

/// A [`Host`] that is real. Clones share the reason to stop and the sign of life.
#[derive(Clone, Debug)]
pub struct Machine {
    start: Instant,
    peer_core: Option<usize>,
    /// When the program last looked at the clock.
    last_ns: Arc<AtomicU64>,
    stop_reason: Arc<Mutex<Option<String>>>,
}

impl Machine {
    /// The side whose peer runs on `peer_core`; the line to it is not probed if `None`.
    #[must_use]
    pub fn new(peer_core: Option<usize>) -> Self {
        Self {
            start: Instant::now(),
            peer_core,
            last_ns: Arc::default(),
            stop_reason: Arc::default(),
        }
    }

    /// How long the program has not looked at the clock, which it does all the time unless a call
    /// to the fabric hangs.
    #[must_use]
    pub fn idle(&self) -> Duration {
        // Relaxed: the time is all that is told.
        let last = Duration::from_nanos(self.last_ns.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last)
    }

    /// Has the program end early; the first reason counts.
    pub fn stop(&self, reason: impl Into<String>) {
        let mut stop_reason = self
            .stop_reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        stop_reason.get_or_insert_with(|| reason.into());
    }
}

impl Host for Machine {
    #[inline]
    fn now_ns(&self) -> u64 {
        let now_ns = self.start.elapsed().as_nanos() as u64;
        self.last_ns.store(now_ns, Ordering::Relaxed);
        now_ns
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    fn stop_reason(&self) -> Option<String> {
        let stop_reason = self
            .stop_reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        stop_reason.clone()
    }

    fn line_ns(&self) -> Option<f64> {
        self.peer_core.and_then(line::probe)
    }

    /// The proportional set size: a page that two processes share counts half in each.
    fn memory_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kibibytes * 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_cannot_be_is_refused() {
        assert!(pin_to_core(CpuSet::MAX_CPU).is_err());
        assert!(pin_to_core(CpuSet::MAX_CPU - 1).is_err());
    }

    #[test]
    fn a_thread_can_be_kept_on_a_core_it_has() {
        thread::spawn(|| {
            let core = allowed_cores().unwrap()[0];
            pin_to_core(core).unwrap();
            assert_eq!(allowed_cores().unwrap(), [core]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn looking_at_the_clock_is_a_sign_of_life() {
        let machine = Machine::new(None);
        thread::sleep(Duration::from_millis(20));
        assert!(machine.idle() >= Duration::from_millis(20));
        let now_ns = machine.now_ns();
        let other = machine.clone();
        // `idle` counts from that look, however long ago it is by now.
        assert!(other.idle() + Duration::from_nanos(now_ns) <= machine.start.elapsed());
    }

    #[test]
    fn the_first_reason_to_stop_counts() {
        let machine = Machine::new(None);
        assert_eq!(machine.stop_reason(), None);
        let other = machine.clone();
        other.stop("a");
        other.stop("b");
        assert_eq!(machine.stop_reason().as_deref(), Some("a"));
        assert_eq!(machine.line_ns(), None);
    }

    #[test]
    fn the_memory_of_a_process_is_more_than_a_page() {
        assert!(
            Machine::new(None)
                .memory_bytes()
                .is_none_or(|bytes| bytes > 4096)
        );
    }
}
