//! Whose turn it is, and where the things of a simulation end.
//!
//! The state of a simulation belongs to the thread that runs it. Python drops objects wherever it
//! likes: on another thread, or inside a look for signals. What cannot end there is kept until the
//! thread of the simulation next runs a program.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// A lock whose holder may have panicked: what it guards is whole at any time.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The host whose program runs on this thread; 0 if none does.
    static RUNNING: Cell<u64> = const { Cell::new(0) };
}

/// A number of a host that no other has in this process.
pub(crate) fn new_host_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Whether the program of this host runs on this thread.
#[inline]
pub(crate) fn has_turn(host: u64) -> bool {
    RUNNING.get() == host
}

/// While this exists, the program of a host runs.
#[derive(Debug)]
pub(crate) struct Turn(u64);

impl Turn {
    pub(crate) fn of(host: u64) -> Self {
        Self(RUNNING.replace(host))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// Where a simulation runs.
pub(crate) struct Home {
    thread: ThreadId,
    is_running: AtomicBool,
    /// The simulation is between two steps, and its state is not to be touched.
    is_looking: AtomicBool,
    left: Mutex<Vec<Box<dyn Send>>>,
}

impl fmt::Debug for Home {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Home").finish_non_exhaustive()
    }
}

impl Home {
    /// On this thread, running.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            thread: thread::current().id(),
            is_running: AtomicBool::new(true),
            is_looking: AtomicBool::new(false),
            left: Mutex::default(),
        })
    }

    /// Calls what may run anything of Python while the simulation is between two steps.
    pub(crate) fn look<T>(&self, act: impl FnOnce() -> T) -> T {
        self.is_looking.store(true, Ordering::Relaxed);
        let result = act();
        self.is_looking.store(false, Ordering::Relaxed);
        result
    }

    /// Ends what was left elsewhere; called by the thread of the simulation.
    pub(crate) fn clear(&self) {
        let left = std::mem::take(&mut *locked(&self.left));
        drop(left);
    }

    /// The run is over: things may end anywhere from now on.
    pub(crate) fn end(&self) {
        self.is_running.store(false, Ordering::Release);
        self.clear();
    }

    fn may_end_here(&self) -> bool {
        !self.is_running.load(Ordering::Acquire)
            || (self.thread == thread::current().id() && !self.is_looking.load(Ordering::Relaxed))
    }
}

/// A thing of a simulation, which ends where that can be.
pub(crate) struct Held<T: Send + 'static> {
    thing: Option<T>,
    home: Option<Arc<Home>>,
}

impl<T: Send + 'static> Held<T> {
    /// `None` for what is of no simulation and may end anywhere.
    pub(crate) const fn new(thing: T, home: Option<Arc<Home>>) -> Self {
        Self {
            thing: Some(thing),
            home,
        }
    }

    /// The thing itself, for a call that passes it on.
    pub(crate) fn into_inner(mut self) -> T {
        self.thing.take().expect("it is there until it is taken")
    }
}

impl<T: Send + 'static> Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.thing.as_ref().expect("it is there until it is taken")
    }
}

impl<T: Send + 'static> DerefMut for Held<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.thing.as_mut().expect("it is there until it is taken")
    }
}

impl<T: Send + 'static> Drop for Held<T> {
    fn drop(&mut self) {
        let (Some(thing), Some(home)) = (self.thing.take(), self.home.as_ref()) else {
            return;
        };
        if home.may_end_here() {
            drop(thing);
        } else {
            locked(&home.left).push(Box::new(thing));
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Held<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Held").finish_non_exhaustive()
    }
}
