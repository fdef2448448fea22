//! The lock itself. Tests put other atomics under it: whatever it shares comes from `crate::sync`.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

use crate::sync::{
    AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, barrier_is_available, current_thread,
    heavy_barrier, light_barrier, spin,
};

/// No thread: nobody has used the lock yet.
const NOBODY: u64 = 0;
/// No thread: the lock is an ordinary one for now.
const SHARED: u64 = 1;
/// Uses in a row by one thread before it gets the bias back, at first; doubled each time.
pub(crate) const REBIAS_AFTER: u32 = 64;
/// And at most: to take a bias away costs a few microseconds.
const REBIAS_AFTER_MAX: u32 = 4096;

/// A value that one thread at a time reaches, cheapest for the thread that reaches it most.
pub struct BiasedMutex<T> {
    /// The thread that may take the lock by plain stores.
    pub(crate) owner: AtomicU64,
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
    /// A lock that nobody has used.
    pub fn new(value: T) -> Self {
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

    /// Waits for the value. Taking it twice in one thread panics or waits for ever.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        match self.lock_own() {
            Some(own) => own.into(),
            None => self.lock_contended(current_thread()),
        }
    }

    /// The value, unless another thread uses it as an ordinary lock, or this one has it already:
    /// for whoever may have interrupted that.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let me = current_thread();
        if self.owner.load(Ordering::Relaxed) == me && self.held.load(Ordering::Relaxed) {
            return None;
        }
        match self.contended.try_lock() {
            Ok(bias) => Some(self.enter(bias, me)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.enter(poisoned.into_inner(), me)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, if this thread has the bias: for a way that takes few steps.
    #[inline(always)]
    pub fn lock_own(&self) -> Option<OwnGuard<'_, T>> {
        let me = current_thread();
        if self.owner.load(Ordering::Relaxed) == me {
            // A second guard of one thread would reach what the first one does.
            assert!(
                !self.held.load(Ordering::Relaxed),
                "the lock is this thread's already"
            );
            self.held.store(true, Ordering::Relaxed);
            // Pairs with the barrier in `revoke`: either it sees `held`, or this load sees it.
            light_barrier();
            if self.owner.load(Ordering::Acquire) == me {
                return Some(OwnGuard(self));
            }
            self.held.store(false, Ordering::Release);
        }
        None
    }

    #[cold]
    fn lock_contended(&self, me: u64) -> Guard<'_, T> {
        let bias = self
            .contended
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.enter(bias, me)
    }

    fn enter<'a>(&'a self, mut bias: MutexGuard<'a, Bias>, me: u64) -> Guard<'a, T> {
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
        heavy_barrier();
        let mut turns = 0_u32;
        while self.held.load(Ordering::Acquire) {
            turns += 1;
            spin(turns);
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
pub struct Guard<'a, T> {
    mutex: &'a BiasedMutex<T>,
    contended: Option<MutexGuard<'a, Bias>>,
}

impl<T> Guard<'_, T> {
    /// Whether [`BiasedMutex::lock_own`] did not give it.
    pub const fn is_shared(&self) -> bool {
        self.contended.is_some()
    }
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

/// The right to reach the value, of the thread that has the bias.
pub struct OwnGuard<'a, T>(&'a BiasedMutex<T>);

impl<T> Deref for OwnGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only way to the value.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for OwnGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<'a, T> From<OwnGuard<'a, T>> for Guard<'a, T> {
    #[inline(always)]
    fn from(own: OwnGuard<'a, T>) -> Self {
        let mutex = own.0;
        std::mem::forget(own);
        Self {
            mutex,
            contended: None,
        }
    }
}

impl<T> Drop for OwnGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

impl<T> fmt::Debug for Guard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for OwnGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OwnGuard").finish_non_exhaustive()
    }
}
