//! Locks that cost nothing while one thread uses them.
//!
//! Every work queue is guarded, since any thread may use it, and nearly every work queue is used by
//! one thread. An atomic read-modify-write a call would cost a third of a small message's way. So a
//! lock is *biased*: the thread that uses it takes it by plain loads and stores; another thread
//! first takes the bias away, for which `membarrier` makes the owner's stores visible.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

/// No thread: nobody has used the lock yet.
const NOBODY: u64 = 0;
/// No thread: the lock is an ordinary one for now.
const SHARED: u64 = 1;
/// Uses in a row by one thread before it gets the bias back, at first; doubled each time.
const REBIAS_AFTER: u32 = 64;
/// And at most: to take a bias away costs a few microseconds.
const REBIAS_AFTER_MAX: u32 = 4096;

/// A value that one thread at a time reaches, cheapest for the thread that reaches it most.
pub(crate) struct BiasedMutex<T> {
    /// The thread that may take the lock by plain stores.
    owner: AtomicU64,
    /// Whether it has.
    held: AtomicBool,
    contended: Mutex<Bias>,
    value: UnsafeCell<T>,
}

/// When an ordinary lock becomes biased again.
#[derive(Debug)]
struct Bias {
    last: u64,
    uses: u32,
    needed: u32,
}

// SAFETY: the value is reached by one thread at a time, as through a `Mutex`.
unsafe impl<T: Send> Send for BiasedMutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for BiasedMutex<T> {}

impl<T> BiasedMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        let owner = if barrier_is_available() {
            NOBODY
        } else {
            SHARED
        };
        Self {
            owner: AtomicU64::new(owner),
            held: AtomicBool::new(false),
            contended: Mutex::new(Bias {
                last: NOBODY,
                uses: 0,
                needed: REBIAS_AFTER,
            }),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the value. Taking it twice in one thread waits for ever.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let me = current_thread();
        if self.owner.load(Ordering::Relaxed) == me {
            self.held.store(true, Ordering::Relaxed);
            // Pairs with the barrier in `revoke`: either it sees `held`, or this load sees it.
            compiler_fence(Ordering::SeqCst);
            if self.owner.load(Ordering::Acquire) == me {
                return Guard {
                    mutex: self,
                    contended: None,
                };
            }
            self.held.store(false, Ordering::Release);
        }
        self.lock_contended(me)
    }

    #[cold]
    fn lock_contended(&self, me: u64) -> Guard<'_, T> {
        let mut bias = self
            .contended
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match self.owner.load(Ordering::Relaxed) {
            NOBODY => self.owner.store(me, Ordering::Relaxed),
            SHARED => {
                if bias.last == me {
                    bias.uses += 1;
                    if bias.uses >= bias.needed && barrier_is_available() {
                        bias.needed = (2 * bias.needed).min(REBIAS_AFTER_MAX);
                        // It holds `contended` for this use, as whoever takes the bias away must.
                        self.owner.store(me, Ordering::Relaxed);
                    }
                } else {
                    bias.last = me;
                    bias.uses = 1;
                }
            }
            owner if owner == me => {}
            _ => {
                self.revoke();
                bias.last = me;
                bias.uses = 1;
            }
        }
        Guard {
            mutex: self,
            contended: Some(bias),
        }
    }

    /// Makes the lock an ordinary one, and waits until the owner has left.
    fn revoke(&self) {
        self.owner.store(SHARED, Ordering::Relaxed);
        // It succeeded when `barrier_is_available` registered this process.
        let _ = membarrier(MembarrierCommand::PrivateExpedited);
        let mut turns = 0_u32;
        while self.held.load(Ordering::Acquire) {
            turns += 1;
            if turns < 100 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl<T: Default> Default for BiasedMutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for BiasedMutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BiasedMutex")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// The right to reach the value.
pub(crate) struct Guard<'a, T> {
    mutex: &'a BiasedMutex<T>,
    contended: Option<MutexGuard<'a, Bias>>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only way to the value.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.contended.is_none() {
            self.mutex.held.store(false, Ordering::Release);
        }
    }
}

/// Whether stores of other threads can be made visible without their help; asks once.
fn barrier_is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED)
            && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    })
}

/// A number that no other living thread has, above [`SHARED`].
#[inline]
pub(crate) fn current_thread() -> u64 {
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
