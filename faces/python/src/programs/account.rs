//! The account of messages that programs have sent on simulated hosts: what `run.rs` has of
//! studies.

use std::fs;
use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use viaduct_cli::{Account, Subject};
use viaduct_cluster::record::Selection;
use viaduct_engine::Time;
use viaduct_programs::explain;
use viaduct_report::{
    CellOutcome, Explained, Published, TABLES, cell_table, explanation_document, explanation_text,
    timeline,
};

use super::simulated::Setup;
use crate::errors;
use crate::run::{choice_of, refused};
use crate::table::Table;

/// Programs that have run, with the account of their messages.
#[pyclass(frozen, module = "viaduct._native")]
#[derive(Debug)]
pub(crate) struct Accounted {
    name: String,
    setup: Setup,
    account: Account,
    /// The run as the only one of a study.
    cell: CellOutcome,
}

impl Accounted {
    pub(crate) fn new(name: String, setup: Setup, account: Account) -> PyResult<Self> {
        if let Some((title, help)) = account.violation() {
            return Err(errors::run(title, Some(help)));
        }
        let summary = account.summary(&name);
        let cell = CellOutcome::of_run(Published::default(), summary);
        Ok(Self {
            name,
            setup,
            account,
            cell,
        })
    }
}

#[pymethods]
impl Accounted {
    /// The summary, as of a study's run.
    fn summary_json(&self) -> PyResult<String> {
        let record = self.cell.record();
        serde_json::to_string(record.runs[0]).map_err(|error| errors::run(error, None))
    }

    /// The table of `viaduct run`.
    fn text(&self) -> String {
        cell_table(&self.cell.record())
    }

    /// One of the tables of a run directory; none if there is no such table.
    fn table(&self, py: Python<'_>, name: &str) -> Option<Table> {
        let table = TABLES.iter().find(|table| table.name == name)?;
        Some(py.detach(|| Table::new(table, self.account.result())))
    }

    /// Writes a page about all messages.
    fn report(&self, path: PathBuf) -> PyResult<()> {
        let hosts = self.account.config().host_count();
        let page = self.account.page(&Subject {
            name: &self.name,
            title: &format!("Programs over {}", self.name),
            question: "Every message that the programs sent, set-up included.",
            settings: &format!("programs in Python on {hosts} hosts"),
        });
        fs::write(&path, page).map_err(|error| unable(&path, &error))
    }

    /// Runs the programs once more, and writes what their first messages use: how many those are.
    fn trace(&self, py: Python<'_>, path: PathBuf, messages: u64) -> PyResult<usize> {
        let mut simulation = self.setup.simulation();
        simulation.record(Selection {
            from: Time::ZERO,
            every: 1,
            count: messages,
        });
        self.setup.run(py, &mut simulation)?;
        let recording = simulation.recorded();
        let file = timeline(&simulation.configuration(), &recording);
        fs::write(&path, file).map_err(|error| unable(&path, &error))?;
        Ok(recording.messages.len())
    }

    /// Runs the programs twice more, and says where the time of a message went, as text and as
    /// JSON: of the one with this number, else of the one at this quantile, else of the slowest.
    #[pyo3(signature = (message, quantile))]
    fn why(
        &self,
        py: Python<'_>,
        message: Option<u64>,
        quantile: Option<f64>,
    ) -> PyResult<(String, String)> {
        let choice = choice_of(message, quantile);
        let mut failed = None;
        let explained = explain(self.setup.config(), choice, |simulation| {
            let ran = self.setup.run(py, simulation);
            failed = ran.err();
            failed.is_none()
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let explanation = explained.map_err(refused)?;
        let explained = Explained {
            study: &self.name,
            version: env!("CARGO_PKG_VERSION"),
            config: self.account.config(),
            choice,
            explanation: &explanation,
        };
        Ok((
            explanation_text(&explained),
            explanation_document(&explained),
        ))
    }
}

fn unable(path: &std::path::Path, error: &std::io::Error) -> PyErr {
    PyOSError::new_err(format!("cannot write `{}`: {error}", path.display()))
}
