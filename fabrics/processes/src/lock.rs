//! Locks that cost nothing while one thread uses them.
//!
//! Every work queue is guarded, since any thread may use it, and nearly every work queue is used by
//! one thread. An atomic read-modify-write a call would cost a third of a small message's way. So a
//! lock is *biased*: the thread that uses it takes it by plain loads and stores; another thread
//! first takes the bias away, for which `membarrier` makes the owner's stores visible.

mod biased;

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Duration;

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

pub use self::biased::{BiasedMutex, Guard, OwnGuard};

/// Whether stores of other threads can be made visible without their help; asks once.
pub fn barrier_is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        !cfg!(miri)
            && membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED)
            && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    })
}

/// Makes the stores of all threads of this process visible to this one, and its own to them.
pub fn heavy_barrier() {
    // It succeeded when `barrier_is_available` registered this process.
    let _ = membarrier(MembarrierCommand::PrivateExpedited);
}

/// Keeps what is before it before what is behind it, as far as the compiler goes: whoever relies
/// on the processor as well makes a barrier for both sides. A model has a full fence here and in
/// place of that barrier.
#[inline(always)]
pub fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// Lets time pass in a loop that waits for another thread. One of a lower real-time priority does
/// not get a processor that is only offered.
pub(crate) fn spin(turns: u32) {
    match turns {
        0..100 => std::hint::spin_loop(),
        100..1000 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
}

/// A number that no other living thread has, above those that the lock has for none.
#[inline]
pub fn current_thread() -> u64 {
    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
    {
        let pointer: u64;
        // SAFETY: on x86-64 Linux the word at fs:0 is the thread pointer itself, by the ABI of
        // thread-local storage; reading it touches nothing else.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly, pure));
        }
        pointer
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
    {
        thread_local!(static HERE: u64 = const { 0 });
        HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::biased::REBIAS_AFTER;
    use super::*;

    #[test]
    fn the_first_thread_keeps_the_bias() {
        let lock = BiasedMutex::new(0);
        for _ in 0..10 {
            *lock.lock() += 1;
        }
        assert_eq!(*lock.lock(), 10);
        if barrier_is_available() {
            assert_eq!(lock.owner.load(Ordering::Relaxed), current_thread());
        }
    }

    #[test]
    fn threads_take_turns() {
        let lock = Arc::new(BiasedMutex::new(0_u64));
        let rounds = if cfg!(miri) { 50 } else { 100_000 };
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                std::thread::spawn(move || {
                    for _ in 0..rounds {
                        *lock.lock() += 1;
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(*lock.lock(), 4 * rounds);
    }

    #[test]
    fn a_lock_handed_over_becomes_biased_again() {
        let lock = Arc::new(BiasedMutex::new(0_u64));
        *lock.lock() += 1;
        let other = Arc::clone(&lock);
        std::thread::spawn(move || {
            for _ in 0..u64::from(REBIAS_AFTER) + 2 {
                *other.lock() += 1;
            }
            if barrier_is_available() {
                assert_eq!(other.owner.load(Ordering::Relaxed), current_thread());
            }
        })
        .join()
        .expect("the thread does not panic");
    }
}
