//! Forked children: what their parent had open is not theirs, and they begin anew.
//!
//! The engine is locked while the process forks, so that the child finds it whole: it closes its
//! copies of what tells peers that the parent is gone, and forgets the rest. What its objects point
//! to is not mapped there.

use std::cell::UnsafeCell;
use std::mem;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::*;

/// How long a fork waits for the engine. Nobody holds it so long, but a signal's handler that forks
/// may have interrupted whoever does.
const PATIENCE: Duration = Duration::from_secs(1);

/// Forks since the first ancestor that opened a device.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Whether a child cannot have devices, since the engine was not to be had when it was forked.
static IS_ORPHAN: AtomicBool = AtomicBool::new(false);

/// The lock of the engine, from before a fork to after it.
struct Kept(UnsafeCell<Option<Held>>);

// SAFETY: whoever holds the lock alone looks into it, in the thread that forks.
unsafe impl Sync for Kept {}

static HELD: Kept = Kept(UnsafeCell::new(None));

/// Has forks of this process noticed.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: functions that live as long as the process.
        unsafe { libc::pthread_atfork(Some(prepare), Some(go_on), Some(begin_child)) };
    });
}

/// The first life of objects in this process: handles of its ancestors name none of them.
pub(crate) fn first_life() -> u32 {
    (FORKS.load(Ordering::Relaxed) << 16) | 1
}

/// Why no device can be opened, if so.
pub(crate) fn check() -> Result<()> {
    if IS_ORPHAN.load(Ordering::Relaxed) {
        return Err(Error::new(
            libc::ENODEV,
            "this process was forked in the middle of a call of its parent's, and has no devices",
        ));
    }
    Ok(())
}

extern "C" fn prepare() {
    let Some(engine) = ENGINE.get() else { return };
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(mut guard) = engine.try_lock() {
            if let Some(pages) = guard.as_mut().and_then(|engine| engine.pages.as_mut()) {
                pages.before_fork();
            }
            // SAFETY: the lock is held.
            unsafe { *HELD.0.get() = Some(guard) };
            return;
        }
        std::thread::yield_now();
    }
}

extern "C" fn go_on() {
    // SAFETY: if there is a guard, this thread put it there and holds the lock.
    let mut guard = unsafe { (*HELD.0.get()).take() };
    let engine = guard.as_mut().and_then(|guard| guard.as_mut());
    if let Some(pages) = engine.and_then(|engine| engine.pages.as_mut()) {
        pages.after_fork();
    }
    drop(guard);
}

extern "C" fn begin_child() {
    // SAFETY: the child has this thread alone.
    let Some(mut guard) = (unsafe { (*HELD.0.get()).take() }) else {
        IS_ORPHAN.store(true, Ordering::Relaxed);
        return;
    };
    let Some(mut engine) = guard.take() else {
        return;
    };
    if let Some(pages) = &mut engine.pages {
        close(pages.in_child());
    }
    let sockets = engine.links.iter().flatten();
    let sockets = sockets.filter_map(|link| link.socket.as_ref());
    for socket in sockets.chain(&engine.strangers) {
        close(socket.as_raw_fd());
    }
    close(engine.listener.as_fd().as_raw_fd());
    close(engine.wake.as_raw_fd());
    // Its parts would unmap what is not mapped, and close descriptors that a program may know.
    mem::forget(engine);
    FORKS.fetch_add(1, Ordering::Relaxed);
    IS_TICKING.store(false, Ordering::Relaxed);
    IS_TICK_DUE.store(false, Ordering::Relaxed);
    faults::begin_child();
    counters::begin_child();
}

fn close(descriptor: RawFd) {
    // SAFETY: of an engine that nobody uses any more.
    unsafe { libc::close(descriptor) };
}
