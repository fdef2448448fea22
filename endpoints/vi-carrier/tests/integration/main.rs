//! The carrier over every fabric.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod example;
mod hostile;
mod processes;
mod simulated;
mod stations;
