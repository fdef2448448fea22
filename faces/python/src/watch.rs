//! What a run does beside running: it reports progress and listens to Python's signals.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use viaduct_cluster::Progress;

/// Short enough for Ctrl-C to feel immediate, long enough for Python to cost nothing.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(50);
const BETWEEN_REPORTS: Duration = Duration::from_millis(200);

/// Called by a run that does not hold Python's lock.
#[derive(Debug)]
pub(crate) struct Watch {
    report: Option<Py<PyAny>>,
    signals_read: Instant,
    reported: Instant,
    stopped_by: Option<PyErr>,
}

impl Watch {
    /// Calls `report(simulated_s, until_s, events)`, if there is one.
    pub(crate) fn new(report: Option<Py<PyAny>>) -> Self {
        let now = Instant::now();
        Self {
            report,
            signals_read: now,
            reported: now,
            stopped_by: None,
        }
    }

    /// Whether the run is to go on.
    pub(crate) fn look(&mut self, progress: &Progress) -> ControlFlow<()> {
        let now = Instant::now();
        if now.duration_since(self.signals_read) < BETWEEN_SIGNALS {
            return ControlFlow::Continue(());
        }
        self.signals_read = now;
        let is_due = now.duration_since(self.reported) >= BETWEEN_REPORTS;
        let report = self.report.as_ref().filter(|_| is_due);
        let looked = Python::attach(|py| {
            // Another thread than Python's first reads no signals.
            py.check_signals()?;
            let Some(report) = report else {
                return Ok(());
            };
            let seconds = |time: u64| time as f64 / 1e12;
            let (now, until) = (progress.now, progress.until);
            let numbers = (
                seconds(now.picoseconds()),
                seconds(until.picoseconds()),
                progress.events,
            );
            report.call1(py, numbers).map(drop)
        });
        if is_due {
            self.reported = now;
        }
        match looked {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.stopped_by = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Fails with what the report raised; Ctrl-C is no failure but an early end.
    pub(crate) fn finish(self, py: Python<'_>) -> PyResult<()> {
        match self.stopped_by {
            Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
            _ => Ok(()),
        }
    }
}
