//! The one run whose messages a command looks at: those of `why` and of `trace`.

use std::ops::ControlFlow;

use viaduct_cluster::Progress;
use viaduct_cluster::config::ClusterConfig;

use crate::arguments::{ScenarioArguments, SeedArguments};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::Plan;
use crate::planning::Prepared;
use crate::progress::Bar;

/// A study that is one run of one seed, and those who wait for it.
#[derive(Debug)]
pub(crate) struct WatchedRun {
    prepared: Prepared,
    pub(crate) bar: Bar,
    interrupt: Interrupt,
}

impl WatchedRun {
    /// Reads the study for `command`, which will run it `times` times.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is a sweep of several runs.
    pub(crate) fn new(
        command: &str,
        scenario: &ScenarioArguments,
        seed: Option<u64>,
        times: usize,
        is_quiet: bool,
    ) -> Result<Self, Failure> {
        let prepared = Prepared::new(scenario, &SeedArguments { seed, seeds: 1 })?;
        if !is_quiet {
            prepared.print_warnings();
        }
        if prepared.plan.run_count() != 1 {
            return Err(is_a_sweep(command, &scenario.scenario, &prepared.plan));
        }
        Ok(Self {
            prepared,
            bar: Bar::new(times, is_quiet),
            interrupt: Interrupt::listen(),
        })
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.prepared.plan
    }

    /// What is run.
    ///
    /// # Panics
    ///
    /// Never: there is one run.
    pub(crate) fn config(&self) -> &ClusterConfig {
        let mut configs = self.prepared.plan.configs();
        configs.next().expect("there is one run")
    }

    /// Shows how far the `time`-th of the runs is; breaks off once the user has asked for it.
    pub(crate) fn follow(&self, time: usize, progress: &Progress) -> ControlFlow<()> {
        self.bar.update(time, progress);
        match self.interrupt.is_asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// `command` is about one run, and this is a sweep of several.
fn is_a_sweep(command: &str, scenario: &str, plan: &Plan) -> Failure {
    let set = plan.cells.first().map(|cell| &cell.set);
    let point: String = set
        .into_iter()
        .flatten()
        .map(|(key, value)| format!(" --set {key}=\"{value}\""))
        .collect();
    Failure::new(
        format!(
            "`{scenario}` is a sweep of {} points, and `viaduct {command}` looks at one of them",
            plan.cells.len()
        ),
        format!("choose a point, as in `viaduct {command} {scenario}{point}`"),
    )
}
