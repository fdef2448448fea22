//! Where tests kill a process: before each store that its peers can see.

use std::sync::atomic::{AtomicU64, Ordering};

/// Points that this process has come by, once it counts them.
pub static POINTS: AtomicU64 = AtomicU64::new(0);
/// The point at which it kills itself; 0: it does not count.
pub static KILL_AT: AtomicU64 = AtomicU64::new(0);

/// A store to shared memory, or a message, is next: a process that shall die here does.
pub fn point() {
    let at = KILL_AT.load(Ordering::Relaxed);
    if at != 0 && POINTS.fetch_add(1, Ordering::Relaxed) + 1 == at {
        // SAFETY: the signal ends this very process; nothing is reached through memory.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
