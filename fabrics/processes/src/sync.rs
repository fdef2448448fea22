//! What the biased lock stands on.
//!
//! `fabrics/shm/tests/loom.rs` and `shuttle.rs` compile the lock over the atomics of a model
//! checker instead: it takes everything that is shared from here.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};

pub(crate) use crate::lock::{
    barrier_is_available, current_thread, heavy_barrier, light_barrier, spin,
};
