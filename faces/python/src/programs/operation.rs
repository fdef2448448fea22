//! What a program yields: something to wait for.

use std::ffi::CString;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::prelude::*;
use viaduct_engine::Time;
use viaduct_scenario::format_time;

use super::completions::Work;
use super::limit;
use super::pair::QueuePair;
use super::queue::CompletionQueue;
use super::state::HostState;
use super::vi::Vi;

/// What is to be connected.
#[derive(Debug)]
pub(crate) enum End {
    Vi(Py<Vi>),
    /// With what its peer is told.
    Pair(Py<QueuePair>, Vec<u8>),
}

impl End {
    /// The host that it is on, by its adapter.
    pub(crate) fn host(&self) -> &HostState {
        match self {
            Self::Vi(vi) => &vi.get().host,
            Self::Pair(pair, _) => &pair.get().host,
        }
    }
}

/// What is waited for.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Until the clock has reached what the program has computed.
    CatchUp,
    Sleep(Duration),
    Receive(Py<Vi>),
    Send(Py<Vi>),
    Entry(Py<CompletionQueue>),
    /// A request of a queue pair.
    Work(Work),
    /// What an RDMA adapter tells.
    Event,
    Connect {
        end: End,
        name: String,
        number: u32,
        port: String,
    },
    Accept {
        end: End,
        port: String,
    },
    All(Vec<Py<Operation>>),
}

/// Something to wait for: a program yields it and gets its result, once.
///
/// What waits gives one: `Vi.receive_done`, `Host.sleep` and so on. One that is never yielded is
/// warned of.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def program(host):
/// ...     operation = host.sleep("2 us")
/// ...     text = repr(operation)
/// ...     yield operation
/// ...     return text
/// >>> via.cluster("sim:clan-pio", [program]).run().returned["host0"]
/// '<viaduct operation: waits for the end of a sleep of 2 us>'
#[pyclass(frozen, name = "Operation", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) limit: Option<Duration>,
    is_taken: AtomicBool,
}

impl Operation {
    pub(crate) fn new(kind: Kind, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self {
            kind,
            limit: limit(timeout)?,
            is_taken: AtomicBool::new(false),
        })
    }

    /// What has been done already, and need not be yielded.
    pub(crate) const fn done(kind: Kind) -> Self {
        Self {
            kind,
            limit: None,
            is_taken: AtomicBool::new(true),
        }
    }

    /// It is waited for from now on, once.
    pub(crate) fn take(&self) -> PyResult<()> {
        let was_taken = self.is_taken.swap(true, Ordering::Relaxed);
        if was_taken && !matches!(self.kind, Kind::CatchUp) {
            return Err(PyRuntimeError::new_err(format!(
                "{} was yielded before: call its function again",
                self.words()
            )));
        }
        Ok(())
    }

    /// What it is, after "waits for".
    pub(crate) fn words(&self) -> String {
        let mut words = match &self.kind {
            Kind::CatchUp => "its processor".to_owned(),
            Kind::Sleep(time) => format!("the end of a sleep of {}", text_of(*time)),
            Kind::Receive(vi) => format!("a receive on {}", vi.get().words()),
            Kind::Send(vi) => format!("a send on {}", vi.get().words()),
            Kind::Entry(_) => "an entry in a completion queue".to_owned(),
            Kind::Work(work) => work.words(),
            Kind::Event => "an event of its RDMA adapter".to_owned(),
            Kind::Connect { name, port, .. } => {
                format!("{name} to accept its connection{}", port_words(port))
            }
            Kind::Accept { port, .. } => format!("somebody to connect{}", port_words(port)),
            Kind::All(operations) => {
                let each: Vec<String> = operations.iter().map(|each| each.get().words()).collect();
                format!("all of: {}", each.join("; "))
            }
        };
        if let Some(limit) = self.limit {
            let _ = write!(words, " (for {} at most)", text_of(limit));
        }
        words
    }
}

pub(crate) fn text_of(time: Duration) -> String {
    let picoseconds = u64::try_from(time.as_nanos()).map_or(u64::MAX, |ns| ns.saturating_mul(1000));
    format_time(Time::from_picoseconds(picoseconds))
}

pub(crate) fn port_words(port: &str) -> String {
    match port {
        "" => String::new(),
        port => format!(" at port {port:?}"),
    }
}

#[pymethods]
impl Operation {
    fn __repr__(&self) -> String {
        format!("<viaduct operation: waits for {}>", self.words())
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.is_taken.load(Ordering::Relaxed) {
            return;
        }
        Python::attach(|py| {
            // What is being raised while this ends goes on.
            let raised = PyErr::take(py);
            if raised.is_none()
                && let Ok(text) =
                    CString::new(format!("never waited for: {}; yield it", self.words()))
            {
                let category = py.get_type::<PyRuntimeWarning>();
                if let Err(error) = PyErr::warn(py, &category, &text, 1) {
                    error.write_unraisable(py, None);
                }
            }
            if let Some(raised) = raised {
                raised.restore(py);
            }
        });
    }
}
