//! Studies: hosts, adapters, a network and traffic, and what their messages cost.

use core::ops::ControlFlow;

pub use viaduct_cluster::result::{self, RunResult};
pub use viaduct_cluster::{Progress, RunError, config, run};
pub use viaduct_scenario::{
    Diagnostic, Diagnostics, Override, Study, SweepAxis, list_models, list_studies, parse_study,
    parse_study_on, parse_study_with,
};
pub use viaduct_topology as topology;

/// Simulates a study from its beginning to its end; of a study with a sweep its first point
/// ([`Study::cells`] has all).
///
/// [`run`] does the same from a configuration, tells how far it is, and can be stopped.
///
/// # Errors
///
/// [`RunError`]: it is too large, or a list of messages is of another cluster.
pub fn simulate(study: &Study) -> Result<RunResult, RunError> {
    run(&study.config, &mut |_| ControlFlow::Continue(()))
}
