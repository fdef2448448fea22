//! What threads compute between their calls: by the processor's time, charged to their clocks. Only
//! where the coordinator asks for it, since it is another in each run.
//!
//! Never less is charged than was computed: of what it takes to read the processor's time, only the
//! least that was ever seen is taken off. What a thread does in a loop that waits for memory is
//! none of it ([`crate::await_memory`]), but for what it had done when it was last looked at.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// Readings of the processor's time of which the shortest is taken.
const TRIES: u32 = 64;

/// Picoseconds of a clock for each nanosecond of computing; 0: it is free.
static PS_PER_NS: AtomicU64 = AtomicU64::new(0);
/// What one reading of the processor's time takes of it at least.
static READING_NS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread's processor time from which on it computes what was not charged.
    static SINCE_NS: Cell<u64> = const { Cell::new(0) };
    /// The same time when a signal's handler last looked at it.
    static LOOKED_NS: Cell<u64> = const { Cell::new(0) };
}

/// This thread's processor time.
fn processor_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let clock = libc::CLOCK_THREAD_CPUTIME_ID;
    // By number: the function of this name shows simulated time.
    // SAFETY: the time has room.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The least processor time that something takes.
pub(crate) fn least_ns(what: impl Fn()) -> u64 {
    let tries = (0..TRIES).map(|_| {
        let begin = processor_ns();
        what();
        processor_ns() - begin
    });
    tries.min().unwrap_or(0)
}

/// Has computing count from here on, in this process.
pub(crate) fn count(ps_per_ns: u64) {
    PS_PER_NS.store(ps_per_ns, Ordering::Relaxed);
    if is_counted() {
        READING_NS.store(least_ns(|| {}), Ordering::Relaxed);
    }
}

pub(crate) fn is_counted() -> bool {
    PS_PER_NS.load(Ordering::Relaxed) > 0
}

/// What was computed up to here counts for nothing.
pub(crate) fn restart() {
    if is_counted() {
        SINCE_NS.set(processor_ns() + READING_NS.load(Ordering::Relaxed));
    }
}

/// What takes so long, and was or is yet to be done, counts for nothing.
pub(crate) fn let_go(ns: u64) {
    SINCE_NS.set(SINCE_NS.get() + ns);
}

/// Picoseconds to be charged for what was computed up to here and was not charged yet.
pub(crate) fn take() -> u64 {
    let now = processor_ns();
    let computed = now.saturating_sub(SINCE_NS.get());
    if computed > 0 {
        SINCE_NS.set(now + READING_NS.load(Ordering::Relaxed));
    }
    computed.saturating_mul(PS_PER_NS.load(Ordering::Relaxed))
}

/// The same up to when this was last called: a thread that computes is looked at.
pub(crate) fn take_to_last_look() -> u64 {
    if !is_counted() {
        return 0;
    }
    let looked = LOOKED_NS.replace(processor_ns());
    let computed = looked.saturating_sub(SINCE_NS.get());
    if computed > 0 {
        SINCE_NS.set(looked);
    }
    computed.saturating_mul(PS_PER_NS.load(Ordering::Relaxed))
}
