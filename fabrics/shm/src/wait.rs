//! Waiting without a processor.
//!
//! A thread that waits looks first for a while, then sleeps on a *parker*: a word in a segment that
//! every process this one is linked to has mapped. It leaves the parker's number where the event it
//! waits for will be published, makes that visible with a barrier on all processors, looks once
//! more, and sleeps. So whoever publishes needs one plain load to learn that nobody sleeps, and
//! calls the kernel only when somebody does.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::host::Host;
use rustix::thread::{Timespec, futex};
pub(crate) use viaduct_processes::barrier::{barrier_everywhere, has_barrier};

/// Bytes of the segment that holds the parkers.
pub(crate) const DOORBELL_BYTES: usize = 4096;
const PARKERS: u32 = 64;
const PARKER_BYTES: usize = DOORBELL_BYTES / PARKERS as usize;
/// Taken by whoever finds no other; those who share it are woken together.
const CROWDED: u32 = PARKERS - 1;
/// A mark that no parker has: the service thread is to look.
pub(crate) const SERVICE_MARK: u32 = 1 << 16;
/// A sleeper looks again after this long, whatever happens: a peer may have been stopped, or have
/// spoilt the parkers.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// The same where there is no barrier on all processors, so that a wake-up can be missed.
const LONGEST_SLEEP_WITHOUT_BARRIER: Duration = Duration::from_millis(1);

/// The parkers of one process, as they lie in its segment or in a mapping of a peer's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doorbells {
    base: NonNull<u8>,
}

// SAFETY: every access is atomic.
unsafe impl Send for Doorbells {}
// SAFETY: as above.
unsafe impl Sync for Doorbells {}

impl Doorbells {
    /// # Safety
    ///
    /// `base` has [`DOORBELL_BYTES`] bytes, aligned to 64, mapped while this is used.
    pub(crate) const unsafe fn new(base: NonNull<u8>) -> Self {
        Self { base }
    }

    #[inline]
    fn word(&self, parker: u32) -> &AtomicU32 {
        let at = (parker % PARKERS) as usize * PARKER_BYTES;
        // SAFETY: inside the segment, aligned, only reached atomically.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Wakes whoever sleeps on the parker that left `mark`.
    #[cold]
    pub(crate) fn wake(&self, mark: u32) {
        let word = self.word(mark.wrapping_sub(1));
        kill_point!();
        word.fetch_add(1, Ordering::Release);
        kill_point!();
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }

    /// Wakes every parker whose bit is set.
    #[cold]
    pub(crate) fn wake_all(&self, mut parkers: u64) {
        while parkers != 0 {
            self.wake(parkers.trailing_zeros() + 1);
            parkers &= parkers - 1;
        }
    }
}

/// The parkers of this process; none is slept on before it has a host.
pub(crate) fn doorbells() -> Doorbells {
    #[repr(align(64))]
    struct Unused(
        #[expect(dead_code, reason = "reached through a pointer")] [AtomicU32; DOORBELL_BYTES / 4],
    );
    static UNUSED: Unused = Unused([const { AtomicU32::new(0) }; DOORBELL_BYTES / 4]);
    let base = Host::get().map_or(NonNull::from(&UNUSED).cast(), |host| host.doorbells());
    // SAFETY: either has the bytes and the alignment, for the life of the process.
    unsafe { Doorbells::new(base) }
}

/// A thread's place to sleep, for one wait.
#[derive(Debug)]
pub(crate) struct Parker {
    doorbells: Doorbells,
    number: u32,
    seen: u32,
}

static TAKEN: AtomicU64 = AtomicU64::new(1 << CROWDED);

impl Parker {
    /// A parker of this process.
    pub(crate) fn take(doorbells: Doorbells) -> Self {
        let mut taken = TAKEN.load(Ordering::Relaxed);
        let number = loop {
            let number = taken.trailing_ones();
            if number >= CROWDED {
                break CROWDED;
            }
            match TAKEN.compare_exchange_weak(
                taken,
                taken | 1 << number,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break number,
                Err(now) => taken = now,
            }
        };
        let seen = doorbells.word(number).load(Ordering::Acquire);
        Self {
            doorbells,
            number,
            seen,
        }
    }

    /// What to leave where the event will be published; never 0.
    pub(crate) const fn mark(&self) -> u32 {
        self.number + 1
    }

    /// The same as a bit, for events published within the process.
    pub(crate) const fn bit(&self) -> u64 {
        1 << self.number
    }

    /// After the mark was left and before the last look.
    pub(crate) fn announce(&mut self) {
        self.seen = self.doorbells.word(self.number).load(Ordering::Acquire);
        barrier_everywhere();
    }

    /// Sleeps until woken, or for `limit`; whether somebody woke it.
    pub(crate) fn sleep(&self, limit: Option<Duration>) -> bool {
        let longest = if has_barrier() {
            LONGEST_SLEEP
        } else {
            LONGEST_SLEEP_WITHOUT_BARRIER
        };
        let limit = limit.map_or(longest, |limit| limit.min(longest));
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        // Any result is a reason to look again.
        let _ = futex::wait(
            self.doorbells.word(self.number),
            futex::Flags::empty(),
            self.seen,
            Some(&limit),
        );
        self.doorbells.word(self.number).load(Ordering::Acquire) != self.seen
    }
}

impl Drop for Parker {
    fn drop(&mut self) {
        if self.number != CROWDED {
            TAKEN.fetch_and(!(1 << self.number), Ordering::Release);
        }
    }
}

/// Looks in vain after which a program asks whether peers have died: about 10 us of polling.
const LOOKS_AN_ASK: u32 = 1024;
/// And after which the processor is offered to others.
const LOOKS_A_YIELD: u32 = 4096;

/// Counts a look in vain. Programs that only look must not keep the processor from the one they
/// wait for, nor the news of its death from themselves. Called without a lock.
#[inline]
pub(crate) fn looked_in_vain(looks: &AtomicU32) {
    let count = looks.load(Ordering::Relaxed).wrapping_add(1);
    looks.store(count, Ordering::Relaxed);
    if count.is_multiple_of(LOOKS_AN_ASK) {
        looked_long_in_vain(count);
    }
}

/// The same, where that leads to nothing; `false`: it does, and nothing was counted.
#[inline(always)]
pub(crate) fn looked_shortly(looks: &AtomicU32) -> bool {
    let count = looks.load(Ordering::Relaxed).wrapping_add(1);
    let is_short = !count.is_multiple_of(LOOKS_AN_ASK);
    if is_short {
        looks.store(count, Ordering::Relaxed);
    }
    is_short
}

#[cold]
fn looked_long_in_vain(count: u32) {
    if let Ok(host) = Host::get() {
        host.hear_endings();
    }
    if count.is_multiple_of(LOOKS_A_YIELD) {
        std::thread::yield_now();
    }
}

/// Looks for a while before a sleep, and gives the processor to others when the look gets long.
#[derive(Debug)]
pub(crate) struct Spin {
    turns: u32,
    end: Option<Instant>,
}

/// Looks between two looks at the clock.
const TURNS_A_CLOCK: u32 = 64;

impl Spin {
    pub(crate) const fn new() -> Self {
        Self {
            turns: 0,
            end: None,
        }
    }

    /// Whether to look again at once.
    #[inline]
    pub(crate) fn again(&mut self) -> bool {
        if self.turns == 0 && spin_time().is_zero() {
            return false;
        }
        self.turns += 1;
        std::hint::spin_loop();
        if !self.turns.is_multiple_of(TURNS_A_CLOCK) {
            return true;
        }
        let now = Instant::now();
        let end = *self.end.get_or_insert_with(|| now + spin_time());
        if now >= end {
            return false;
        }
        // With more spinning threads than processors the one waited for may need this one.
        if self.turns.is_multiple_of(8 * TURNS_A_CLOCK) {
            std::thread::yield_now();
        }
        true
    }
}

/// How long a wait looks before it sleeps, unless `VIADUCT_SPIN_US` says it: about what a wake-up
/// costs.
const SPIN_US: u64 = 20;

/// How long a wait looks before it sleeps.
pub fn spin_time() -> Duration {
    static TIME: OnceLock<Duration> = OnceLock::new();
    *TIME.get_or_init(|| {
        let set = std::env::var_os("VIADUCT_SPIN_US");
        let text = set.as_ref().map(|text| text.to_string_lossy());
        let microseconds = text.map_or(Ok(SPIN_US), |text| {
            text.trim().parse().map_err(|_| text.into_owned())
        });
        Duration::from_micros(microseconds.unwrap_or_else(|text| {
            eprintln!(
                "viaduct: VIADUCT_SPIN_US: \"{text}\" is no number of microseconds: {SPIN_US} is taken"
            );
            SPIN_US
        }))
    })
}
