//! Endpoints on simulated interfaces.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod background;
mod faults;
mod large;
mod programs;
mod published;
mod timesharing;
