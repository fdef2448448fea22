//! What the protocols between threads and processes stand on.
//!
//! `tests/loom.rs` and `tests/shuttle.rs` compile the same protocols over the atomics of a model
//! checker instead: they take everything that is shared from here.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

pub(crate) use viaduct_processes::lock::light_barrier;
