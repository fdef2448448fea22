//! The result of a run.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError};
use pyo3::prelude::*;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::result::RunResult;
use viaduct_cluster::why::{Choice, WhyError, critical_path, explain};
use viaduct_report::{
    CellOutcome, CellRecord, Cost, Explained, ExplainedPath, RunDirectory, RunIdentity, ShownCell,
    ShownRun, ShownStudy, Source, StudyOutcome, Summary, TABLES, cell_table,
    critical_path_document, critical_path_text, explanation_document, explanation_text, run_page,
};

use crate::errors;
use crate::table::Table;
use crate::watch::Watch;

/// A run with its configuration.
#[pyclass(frozen, module = "viaduct._native")]
#[derive(Debug)]
pub(crate) struct Run {
    study: Arc<viaduct_scenario::Study>,
    config: ClusterConfig,
    result: RunResult,
    /// The run as the only one of a study.
    outcome: StudyOutcome,
}

impl Run {
    pub(crate) fn new(
        study: Arc<viaduct_scenario::Study>,
        config: ClusterConfig,
        (summary, result): (Summary, RunResult),
    ) -> Self {
        let cost = Cost {
            wall_s: summary.wall_s,
            peak_rss_bytes: summary.peak_rss_bytes,
        };
        let cell = CellOutcome::of_run(viaduct_cli::published(&study), summary);
        let outcome = StudyOutcome {
            study: study.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cells: vec![cell],
            runs_not_begun: 0,
            cost: Some(cost),
        };
        Self {
            study,
            config,
            result,
            outcome,
        }
    }

    fn cell(&self) -> CellRecord<'_> {
        self.outcome.cells[0].record()
    }

    fn summary(&self) -> &Summary {
        self.cell().runs[0]
    }

    /// The report, one page of HTML.
    fn page(&self, scenario_toml: &str) -> String {
        let summary = self.summary();
        let (simulated_s, seed) = (summary.simulated_s, summary.seed);
        let again = "The same run from this directory, and whether all comes out the same:";
        run_page(&ShownStudy {
            name: summary.study.clone(),
            title: self.study.title.clone(),
            question: self.study.question.clone(),
            source: self.study.source.clone(),
            headline: format!(
                "{}: {} hosts, {} switches, simulated {simulated_s} s, seed {seed}",
                summary.study, summary.hosts, summary.switches
            ),
            version: summary.version.clone(),
            digest: self.outcome.digest(),
            runs_not_begun: 0,
            cells: vec![ShownCell {
                set: &[],
                published: &self.outcome.cells[0].published,
                config: &self.config,
                scenario_toml,
                runs: vec![ShownRun::new(summary, &self.result)],
            }],
            differences: self.study.differences_from_defaults(),
            commands: vec![("viaduct rerun .".to_owned(), again.to_owned())],
        })
    }
}

#[pymethods]
impl Run {
    /// The summary, the object of `viaduct run --json`.
    fn summary_json(&self) -> PyResult<String> {
        serde_json::to_string(self.summary()).map_err(|error| errors::run(error, None))
    }

    /// Checks of the run on itself that failed, or how it came to a standstill, as the command
    /// prints them; none if it is sound.
    fn broken(&self) -> Option<String> {
        errors::broken(std::iter::once(self.summary()))
    }

    /// The table of `viaduct run`.
    fn text(&self) -> String {
        cell_table(&self.cell())
    }

    /// One of the tables of a run directory; none if there is no such table.
    fn table(&self, py: Python<'_>, name: &str) -> Option<Table> {
        let table = TABLES.iter().find(|table| table.name == name)?;
        Some(py.detach(|| Table::new(table, &self.result)))
    }

    /// Writes the run directory, which `viaduct rerun` reads.
    fn save(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        let written = py.detach(|| {
            let scenario = self.study.resolved_toml();
            let page = self.page(&scenario);
            let scenarios = [scenario];
            let source = Source::Scenarios(&scenarios);
            let runs = RunIdentity {
                study: &self.outcome.study,
                source,
                seeds: &[self.summary().seed],
            };
            RunDirectory::prepare(&path, runs, force)?.write(
                source,
                &self.outcome,
                std::slice::from_ref(&self.result),
                Some(&page),
            )
        });
        written.map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Where the time of a message went, as text and as JSON: of the one with this number, else of
    /// the one at this quantile, else of the slowest.
    #[pyo3(signature = (message, quantile, report))]
    fn why(
        &self,
        py: Python<'_>,
        message: Option<u64>,
        quantile: Option<f64>,
        report: Option<Py<PyAny>>,
    ) -> PyResult<(String, String)> {
        let choice = choice_of(message, quantile);
        let mut watch = Watch::new(report);
        let explained = py.detach(|| {
            explain(&self.config, choice, &mut |_, progress| {
                watch.look(&progress)
            })
        });
        watch.finish(py)?;
        let explanation = explained.map_err(refused)?;
        let summary = self.summary();
        let explained = Explained {
            study: &summary.study,
            version: &summary.version,
            config: &self.config,
            choice,
            explanation: &explanation,
        };
        Ok((
            explanation_text(&explained),
            explanation_document(&explained),
        ))
    }

    /// What the application waited for from its start to its end, as text and as JSON.
    #[pyo3(signature = (report))]
    fn critical_path(
        &self,
        py: Python<'_>,
        report: Option<Py<PyAny>>,
    ) -> PyResult<(String, String)> {
        let mut watch = Watch::new(report);
        let path =
            py.detach(|| critical_path(&self.config, &mut |_, progress| watch.look(&progress)));
        watch.finish(py)?;
        let path = path.map_err(refused)?;
        let summary = self.summary();
        let explained = ExplainedPath {
            study: &summary.study,
            version: &summary.version,
            config: &self.config,
            path: &path,
        };
        Ok((
            critical_path_text(&explained),
            critical_path_document(&explained),
        ))
    }
}

/// Which message is meant by a number or a quantile.
pub(crate) const fn choice_of(message: Option<u64>, quantile: Option<f64>) -> Choice {
    match (message, quantile) {
        (Some(number), _) => Choice::Message(number),
        (None, Some(quantile)) => Choice::Quantile(quantile),
        (None, None) => Choice::Slowest,
    }
}

pub(crate) fn refused(error: WhyError) -> PyErr {
    match &error {
        WhyError::Interrupted => PyKeyboardInterrupt::new_err(()),
        WhyError::NoSuchMessage { posted, .. } if *posted > 0 => {
            let help = format!("numbers are 0 to {}", posted - 1);
            errors::run(error, Some(&help))
        }
        WhyError::NothingMeasured => errors::run(
            "no message was measured: none was delivered of those posted after the warm-up",
            Some("run longer or with a shorter warm-up, or ask for one with message=N"),
        ),
        WhyError::NoApplication => errors::run(
            error,
            Some("run a collective or a GOAL file; `why` explains one message"),
        ),
        _ => errors::run(error, None),
    }
}
