//! Each level of the network against a reference of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod buses;
mod common;
mod credits;
mod dcqcn;
mod fair;
mod limits;
mod nscc;
mod packets;
mod pause;
mod queues;
mod shared;
mod spread;
mod transfers;
mod trim;
mod wormhole;
