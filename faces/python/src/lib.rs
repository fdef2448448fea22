//! The extension module `viaduct._native`: networks, studies, runs, sweeps, tables, programs.
//!
//! It translates; what users meet is the Python package in `python/viaduct`, which gives results
//! their types and names. A run lets other Python threads go on, and asks Python some times a
//! second whether a signal is to be handled.

mod arrays;
mod errors;
mod graph;
mod messages;
mod network;
mod programs;
mod run;
mod study;
mod sweep;
mod table;
mod watch;

use std::ffi::OsString;

use pyo3::prelude::*;

/// The parts of viaduct that are compiled.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::command;
    #[pymodule_export]
    use super::graph::Graph;
    #[pymodule_export]
    use super::messages::Messages;
    #[pymodule_export]
    use super::network::Network;
    #[pymodule_export]
    use super::programs::{
        Accounted, Buffer, Completion, CompletionQueue, Host, Operation, QueuePair, Region,
        SharedCompletionQueue, SharedReceiveQueue, Vi, Window, WorkCompletion, run_here,
        run_simulated, seconds,
    };
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::study::{Study, models, network_models, studies};
    #[pymodule_export]
    use super::sweep::{RunMaker, Sweep};
    #[pymodule_export]
    use super::table::Table;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python packages use")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// Runs the command and gives its exit code.
///
/// `itself` are the words that start the command, `arguments` those after them.
#[pyfunction]
fn command(py: Python<'_>, itself: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| viaduct_cli::main_of(itself, arguments))
}
