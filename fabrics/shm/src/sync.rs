//! What the protocols between threads and processes stand on.
//!
//! `tests/loom.rs` and `tests/shuttle.rs` compile the same protocols over the atomics of a model
//! checker instead: they take everything that is shared from here.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence, fence,
};
pub(crate) use std::sync::{Mutex, MutexGuard};

pub(crate) use crate::lock::{barrier_is_available, current_thread, heavy_barrier};

/// Keeps what is before it before what is behind it, as far as the compiler goes: whoever relies
/// on the processor as well makes a barrier for both sides. A model has a full fence here and in
/// place of that barrier.
#[inline(always)]
pub(crate) fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// Lets time pass in a loop that waits for another thread.
pub(crate) fn spin(turns: u32) {
    if turns < 100 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
