//! The library as C programs see it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod abi;
mod arguments;
mod programs;
mod support;
mod symbols;
