//! The fabric inside one process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod completion_queues;
mod limits;
mod loopback;
