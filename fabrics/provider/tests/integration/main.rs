//! The interface as programs use it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod examples;
mod safe_interface;
