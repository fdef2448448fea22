//! What clients ask of a simulation, over threads of this process: their handles are those that
//! `libibverbs` has, and turns are given in the order of their clocks.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;
mod calls;
mod figures;
mod turns;
mod via;
