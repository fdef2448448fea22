//! The lock of a simulation's state, which costs its programs next to nothing.
//!
//! Threads keep each other out by a mutex. The thread that runs the simulation takes it once, for
//! the whole run; its programs, of which one runs at a time, then keep out one another's half-made
//! changes by a flag.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Protects a value.
pub(crate) struct RunLock<T> {
    threads: Mutex<()>,
    /// The token of the thread that holds `threads` for a run; 0 outside runs.
    runner: AtomicUsize,
    /// Whether there is a guard of the value. Belongs to the thread that holds `threads`.
    is_taken: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: the value, and the flag, are reached only by a thread that holds the mutex.
unsafe impl<T: Send> Sync for RunLock<T> {}

/// The value, until this is dropped.
pub(crate) struct Guard<'a, T> {
    lock: &'a RunLock<T>,
    /// Also keeps a guard on its thread.
    _thread: Option<MutexGuard<'a, ()>>,
}

/// While this exists, its thread reaches the value without the mutex, and no other does.
pub(crate) struct Run<'a, T> {
    lock: &'a RunLock<T>,
    _thread: Option<MutexGuard<'a, ()>>,
}

impl<T> RunLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            threads: Mutex::new(()),
            runner: AtomicUsize::new(0),
            is_taken: Cell::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Makes this thread the one that runs the simulation. A thread that does so already goes on.
    pub(crate) fn run(&self) -> Run<'_, T> {
        let thread = (!self.is_runner()).then(|| self.hold());
        self.runner.store(token(), Ordering::Relaxed);
        Run {
            lock: self,
            _thread: thread,
        }
    }

    /// # Panics
    ///
    /// When this thread has a guard already.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let thread = if self.is_runner() {
            None
        } else {
            Some(self.hold())
        };
        // One thread at a time is here: the runner, or whoever holds the mutex.
        assert!(!self.is_taken.replace(true), "the simulation is locked");
        Guard {
            lock: self,
            _thread: thread,
        }
    }

    /// Whether this thread holds the mutex for a run. None but itself stores its token, so that a
    /// relaxed load cannot show it one that is not its own.
    #[inline]
    fn is_runner(&self) -> bool {
        self.runner.load(Ordering::Relaxed) == token()
    }

    #[cold]
    fn hold(&self) -> MutexGuard<'_, ()> {
        // A panic leaves no half-made change behind, short of a defect.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number of this thread that no other has as long as it lives, and not 0.
#[inline]
fn token() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

impl<T> Guard<'_, T> {
    /// Lets go of the value while something else runs on this thread, which runs the simulation.
    ///
    /// # Panics
    ///
    /// When a guard is left behind.
    #[inline]
    pub(crate) fn let_go(&mut self, act: impl FnOnce()) {
        debug_assert!(self._thread.is_none(), "the mutex would be kept");
        // A stack that is dropped in the middle finds its guard as it left it.
        let taken = Taken(&self.lock.is_taken);
        taken.0.set(false);
        act();
        assert!(!taken.0.get(), "the simulation is locked");
    }
}

/// Notes that there is a guard again.
struct Taken<'a>(&'a Cell<bool>);

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(true);
    }
}

impl<T> Drop for Run<'_, T> {
    fn drop(&mut self) {
        // Before the mutex is let go of, if this is the run that took it.
        if self._thread.is_some() {
            self.lock.runner.store(0, Ordering::Relaxed);
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the mutex, and `is_taken` says that this is the only guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.is_taken.set(false);
    }
}

impl<T> fmt::Debug for RunLock<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunLock").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a lock is tested with threads, and they wait for one another"
)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn threads_keep_each_other_out() {
        let lock = Arc::new(RunLock::new(0_u64));
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || {
                    // Every second one runs a simulation, the others look at it from outside.
                    let run = (number % 2 == 0).then(|| lock.run());
                    for _ in 0..1000 {
                        *lock.lock() += 1;
                    }
                    drop(run);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*lock.lock(), 4000);
    }

    #[test]
    fn a_run_keeps_other_threads_out_between_guards() {
        let lock = Arc::new(RunLock::new(0));
        let run = lock.run();
        *lock.lock() = 1;
        let has_seen = Arc::new(AtomicBool::new(false));
        let other = {
            let (lock, has_seen) = (Arc::clone(&lock), Arc::clone(&has_seen));
            thread::spawn(move || {
                let seen = *lock.lock();
                has_seen.store(true, Ordering::SeqCst);
                seen
            })
        };
        thread::sleep(Duration::from_millis(20));
        assert!(!has_seen.load(Ordering::SeqCst), "it saw a run's value");
        *lock.lock() = 2;
        drop(run);
        assert_eq!(other.join().unwrap(), 2);
    }

    #[test]
    fn a_run_within_a_run_ends_with_the_outer_one() {
        let lock = RunLock::new(0);
        let outer = lock.run();
        drop(lock.run());
        assert!(lock.is_runner());
        drop(outer);
        assert!(!lock.is_runner());
    }

    #[test]
    #[should_panic(expected = "the simulation is locked")]
    fn a_second_guard_is_refused() {
        let lock = RunLock::new(0);
        let _run = lock.run();
        let _first = lock.lock();
        let _second = lock.lock();
    }
}
