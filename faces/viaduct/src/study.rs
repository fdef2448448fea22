//! Studies: hosts, adapters, a network and traffic, and what their messages cost.

use core::ops::ControlFlow;
use std::error::Error;
use std::fmt;

pub use viaduct_cluster::result::{self, RunResult};
pub use viaduct_cluster::{Progress, RunError, config, run};
pub use viaduct_scenario::{
    Diagnostic, Diagnostics, Override, Study, SweepAxis, list_models, list_studies, parse_study,
    parse_study_on, parse_study_with,
};
pub use viaduct_topology as topology;

/// Why a study was not simulated.
#[derive(Debug)]
pub enum StudyError {
    /// The study asks for what runs elsewhere: faults, or traffic beside programs.
    Study(Diagnostics),
    /// It is too large, or a list of messages is of another cluster.
    Run(RunError),
}

/// Simulates a study from its beginning to its end; of a study with a sweep its first point
/// ([`Study::cells`] has all).
///
/// [`run`] does the same from a configuration, tells how far it is, and can be stopped.
///
/// # Errors
///
/// [`StudyError`].
pub fn simulate(study: &Study) -> Result<RunResult, StudyError> {
    study.check_runs().map_err(StudyError::Study)?;
    run(&study.config, &mut |_| ControlFlow::Continue(())).map_err(StudyError::Run)
}

impl fmt::Display for StudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Study(diagnostics) => diagnostics.fmt(f),
            Self::Run(error) => error.fmt(f),
        }
    }
}

impl Error for StudyError {}
