//! Protocols of a network interface (NI) with endpoint frames: pure state machines.
#![forbid(unsafe_code)]

pub mod agreement;
mod names;
pub mod residency;
#[cfg(test)]
mod seeds;
pub mod service;

pub use names::{Endpoint, Frame, Peer};
