//! The semantics as a driver uses them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod connection;
mod extensions;
mod model;
mod peer;
mod queues;
mod reliability;
mod remote;
mod sizes;
mod transfer;
mod verbs_model;
