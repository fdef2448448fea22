//! Programs on simulated hosts, in simulated time.
//!
//! [`load_programs`] takes a preset of `viaduct models`, and the network of a study or one switch
//! that costs nothing.

pub use viaduct_programs::{Outcome, Process, SimulatedFabric, Simulation, SimulationError};
pub use viaduct_scenario::{ProgramsError, load_programs};
