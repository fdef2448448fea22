//! Sweeps: begun here, made on threads of this process or by whoever has other processors.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use viaduct_report::{sweep_cells_table, sweep_columns, sweep_document};
use viaduct_scenario::{Override, key_at, parse_ratio};
use viaduct_sweep::{Campaign, Job, Ledger, RunCounts, SweepPlan, Watch};

use crate::errors;
use crate::study::Study;
use crate::table::Table;
use crate::watch;

/// A sweep under way: which runs are to be made, and what was made.
#[pyclass(frozen, module = "viaduct._native")]
#[derive(Debug)]
pub(crate) struct Sweep {
    campaign: Campaign,
    ledger: Mutex<Ledger>,
}

impl Sweep {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a sweep is of.
#[derive(FromPyObject)]
enum Subject<'py> {
    Read(Bound<'py, Study>),
    /// A study that is built in, or a file.
    Named(String),
}

/// Every text is as an option `--set` of the command, and has one value or is run over.
fn overrides(settings: Vec<(String, bool)>) -> Vec<Override> {
    let settings = settings.into_iter();
    settings
        .map(|(text, is_swept)| match is_swept {
            true => Override::swept(text),
            false => Override::listed(text),
        })
        .collect()
}

/// The share that a width means, in millionths.
fn width(text: &str) -> PyResult<u32> {
    let share = parse_ratio(text).map_err(|error| PyValueError::new_err(error.problem))?;
    let millionths = (share * 1e6).round();
    match (1.0..=1e6).contains(&millionths) {
        true => Ok(millionths as u32),
        false => Err(PyValueError::new_err(
            "until_width is a share above 0 and up to 1, as in \"5%\" or 0.05",
        )),
    }
}

#[pymethods]
impl Sweep {
    /// The key that a word alone means: one of the traffic if it has it, else whatever ends so.
    #[staticmethod]
    fn key(word: &str) -> String {
        let of_traffic = format!("traffic.{word}");
        match key_at(&of_traffic) {
            Some(_) => of_traffic,
            None => word.to_owned(),
        }
    }

    /// Begins a sweep, or goes on with the one in the directory.
    #[staticmethod]
    #[pyo3(signature = (subject, settings, seeds, until_width, directory))]
    fn begin(
        py: Python<'_>,
        subject: Subject<'_>,
        settings: Vec<(String, bool)>,
        seeds: u32,
        until_width: Option<&str>,
        directory: Option<PathBuf>,
    ) -> PyResult<Self> {
        let until_width = until_width.map(width).transpose()?;
        let settings = overrides(settings);
        let study = match &subject {
            Subject::Read(study) => Ok(study.get()),
            Subject::Named(name) => Err(name.as_str()),
        };
        let begun = py.detach(|| {
            let mut sweep = match study {
                Ok(study) => study.open_sweep(settings)?,
                Err(name) => viaduct_scenario::Sweep::load(name, &settings)?,
            };
            let plan = SweepPlan::new(&mut sweep, seeds, until_width)?;
            let campaign = match directory {
                Some(path) => Campaign::in_directory(plan, &path)?,
                None => Campaign::in_memory(plan)?,
            };
            let ledger = campaign.ledger()?;
            Ok((campaign, Mutex::new(ledger)))
        });
        let (campaign, ledger) = begun.map_err(|error| errors::sweep(&error))?;
        Ok(Self { campaign, ledger })
    }

    /// The plan as text: any process makes its runs from it.
    #[getter]
    fn plan(&self) -> String {
        self.campaign.plan().to_text()
    }

    /// Makes all runs on threads; `report(made, asked)` is called some times a second. Returns
    /// whether it came to the end: Ctrl-C stops it.
    #[pyo3(signature = (threads, report))]
    fn run(
        &self,
        py: Python<'_>,
        threads: Option<NonZeroUsize>,
        report: Option<Py<PyAny>>,
    ) -> PyResult<bool> {
        let watched = Watched {
            report,
            is_stopped: AtomicBool::new(false),
            stopped_by: Mutex::new(None),
        };
        let worked = py.detach(|| self.campaign.work(&mut self.ledger(), threads, &watched));
        worked.map_err(|error| errors::sweep(&error))?;
        let stopped_by = watched.stopped_by.into_inner();
        match stopped_by.unwrap_or_else(PoisonError::into_inner) {
            None => Ok(true),
            Some(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => Ok(false),
            Some(error) => Err(error),
        }
    }

    /// Takes up to so many runs that are to be made now: cell and place of the seed.
    fn take(&self, count: usize) -> Vec<(u32, u32)> {
        let mut ledger = self.ledger();
        let mut last = None;
        let runs = (0..count).map_while(|_| {
            let Job { cell, index } = ledger.next(last)?;
            last = Some(cell);
            Some((cell, index))
        });
        runs.collect()
    }

    /// Keeps runs that were made, by the lines that came of them.
    fn keep(&self, py: Python<'_>, lines: Vec<String>) -> PyResult<()> {
        let kept = py.detach(|| {
            let mut ledger = self.ledger();
            lines.iter().try_for_each(|line| ledger.keep(line))
        });
        kept.map_err(|error| errors::sweep(&error))
    }

    /// Runs made, runs asked for so far, and runs that could begin now.
    fn counts(&self) -> (u64, u64, usize) {
        let ledger = self.ledger();
        let RunCounts { made, asked } = ledger.counts();
        (made, asked, ledger.ready_count())
    }

    /// The result so far: the table, the object of `viaduct sweep --json`, the table of the
    /// screen, and what is wrong with its runs, if anything. Leaves table and curves in the
    /// directory.
    fn outcome(&self, py: Python<'_>) -> PyResult<(Table, String, String, Option<String>)> {
        let left = py.detach(|| {
            let outcome = self.campaign.outcome(&self.ledger());
            self.campaign.leave(&outcome)?;
            Ok((
                Table::of_sweep(sweep_columns(&outcome)),
                sweep_document(&outcome),
                sweep_cells_table(&outcome),
                errors::broken(outcome.summaries()),
            ))
        });
        left.map_err(|error| errors::sweep(&error))
    }
}

/// Asks Python for signals and tells it how far the sweep is.
struct Watched {
    report: Option<Py<PyAny>>,
    is_stopped: AtomicBool,
    stopped_by: Mutex<Option<PyErr>>,
}

impl Watch for Watched {
    fn is_stopped(&self) -> bool {
        // Relaxed: the flag guards no other memory.
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn look(&self, counts: RunCounts) {
        let looked = Python::attach(|py| {
            // Another thread than Python's first reads no signals.
            py.check_signals()?;
            let Some(report) = &self.report else {
                return Ok(());
            };
            report.call1(py, (counts.made, counts.asked)).map(drop)
        });
        if let Err(error) = looked {
            self.is_stopped.store(true, Ordering::Relaxed);
            let mut stopped_by = self
                .stopped_by
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            stopped_by.get_or_insert(error);
        }
    }
}

/// Makes runs of a sweep in whatever process it was made.
#[pyclass(frozen, module = "viaduct._native")]
#[derive(Debug)]
pub(crate) struct RunMaker {
    inner: viaduct_sweep::RunMaker,
}

#[pymethods]
impl RunMaker {
    /// Reads the plan of a sweep.
    #[new]
    fn new(py: Python<'_>, plan: &str) -> PyResult<Self> {
        let inner = py.detach(|| viaduct_sweep::RunMaker::new(&SweepPlan::from_text(plan)?));
        let inner = inner.map_err(|error| errors::sweep(&error))?;
        Ok(Self { inner })
    }

    /// Makes runs, each given by cell and place of the seed: their lines, and the seconds that it
    /// took.
    fn make(&self, py: Python<'_>, runs: Vec<(u32, u32)>) -> PyResult<(Vec<String>, f64)> {
        let started = Instant::now();
        let mut maker = self.inner.clone();
        let mut watch = watch::Watch::new(None);
        let mut lines = Vec::with_capacity(runs.len());
        let is_whole = py.detach(|| {
            runs.into_iter().all(|(cell, index)| {
                let made = maker.make(Job { cell, index }, &mut |progress| watch.look(progress));
                let made = made.map(|made| lines.push(made.line));
                made.is_some()
            })
        });
        watch.finish(py)?;
        match is_whole {
            true => Ok((lines, started.elapsed().as_secs_f64())),
            false => Err(PyKeyboardInterrupt::new_err(())),
        }
    }
}
