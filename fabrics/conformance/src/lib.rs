//! One suite of cases that every fabric must pass.
//!
//! A case is a claim about a fabric, with one side or two. Sides share nothing but the fabric and
//! what [`Environment`] gives them, so that the same case runs with its sides in two threads
//! ([`run_in_threads`]), in two processes ([`run_in_processes`]), or wherever else somebody makes
//! a [`World`] and a [`Link`] for them ([`run_side`]).
//!
//! A fabric's test of it, in a test target with `harness = false`:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//! use viaduct_conformance::{Fabric, Mode};
//! # fn open() -> Arc<dyn viaduct_provider::Provider> { unimplemented!() }
//!
//! fn main() -> ExitCode {
//!     let fabric = Fabric { name: "mine", devices: &["nic0"], open, harm: None };
//!     viaduct_conformance::main(Some("mine"), &[fabric], &[Mode::Threads, Mode::Processes])
//! }
//! ```

mod case;
mod cases;
mod check;
mod environment;
mod errors;
mod memory;
pub mod mutants;
mod pair;
mod processes;
mod report;
mod runner;
pub mod verbs;
mod world;

pub use case::{Case, Level, Side};
pub use cases::cases;
pub use check::{Outcome, Stop};
pub use environment::{CASE_LIMIT, Environment, LIMIT, Parts, Task};
pub use processes::run_in_processes;
pub use report::{Ending, Filter, Report, SideEnding, Summary, ending_of};
pub use runner::{Fabric, Mode, main, main_with, run_cases, run_in_threads, run_side};
pub use world::{Link, RealWorld, SocketLink, ThreadLink, World};
