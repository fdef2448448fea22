//! Faults over simulated hosts: what both ends are told, at each reliability level, on every kind
//! of adapter.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod again;
mod connecting;
mod death;
mod levels;
#[path = "../models/mod.rs"]
mod models;
mod rates;
mod remote;
mod slow;
mod two;
