//! The library as C programs see it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod abi;
mod arguments;
mod hosts;
mod programs;
mod reference;
mod simulated;
mod support;
mod symbols;
