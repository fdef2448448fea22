//! Measurements between processes of one machine: the programs of `viaduct-measure` over the
//! shared-memory fabric.
//!
//! What is timed is compiled here, with full optimisation. Whoever calls it decides what is
//! measured and starts the processes, and may be compiled as is quickest: nothing here is generic,
//! so nothing of a loop ends up in the caller.
//!
//! # Words
//!
//! - VIs: the two sides of a [`Plan`] ([`initiate`], [`respond`])
//! - endpoints: a process that has some is a [`Side`]; those that answer are a [`Server`], the one
//!   that asks is a [`Client`] (`endpoints.rs`)
#![forbid(unsafe_code)]

mod endpoints;

pub use endpoints::{Client, Server, Side};
use viaduct_measure::{Machine, MeasureError, Meeting, Plan, Row};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_shm::Shm;

/// The device of the fabric.
pub const DEVICE: &str = "shm";

/// Is the side that measures.
///
/// # Errors
///
/// As [`viaduct_measure::initiate`].
pub fn initiate(
    meeting: &Meeting,
    plan: &Plan,
    machine: &Machine,
    on_row: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, MeasureError> {
    viaduct_measure::initiate(Shm::global(), meeting, plan, machine, on_row)
}

/// Is the other side.
///
/// # Errors
///
/// As [`viaduct_measure::respond`].
pub fn respond(
    meeting: &Meeting,
    level: ReliabilityLevel,
    machine: &Machine,
) -> Result<(), MeasureError> {
    viaduct_measure::respond(Shm::global(), meeting, level, machine)
}
