//! The programs of `viaduct measure`, over fabrics of one process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod programs;
mod requests;
