//! Programs that are generators of Python, on simulated hosts and between processes.
//!
//! ```text
//! simulated.rs   runs them as futures of one simulation      real.rs    runs one in this process
//!        program.rs     a generator: resumed with results, or with what was raised
//!        operation.rs   what a program yields                waiting.rs  how it comes about
//! host.rs, vi.rs, queue.rs, and bytes.rs: buffer.rs, window.rs   what a program holds
//! pair.rs: device.rs, address.rs, join.rs, receives.rs, region.rs, work.rs   of queue pairs
//! meeting.rs     how ends are connected                aside.rs   calls that block, for programs
//! home.rs        whose turn it is, and where things of a simulation end
//! account.rs     all messages of a simulation: tables, pages, explanations
//! ```
//!
//! What does not wait is done when it is called; what waits is an `Operation`, which the program
//! yields. Nothing of Python runs on a stack of the simulation: programs are its futures.

mod account;
mod address;
mod aside;
mod buffer;
mod bytes;
mod completions;
mod device;
mod events;
mod home;
mod host;
mod join;
mod meeting;
mod operation;
mod pair;
mod program;
mod queue;
mod real;
mod receives;
mod region;
mod simulated;
mod state;
mod vi;
mod waiting;
mod window;
mod work;

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use viaduct_scenario::parse_time;

pub(crate) use account::Accounted;
pub(crate) use buffer::Buffer;
pub(crate) use completions::SharedCompletionQueue;
pub(crate) use host::Host;
pub(crate) use operation::Operation;
pub(crate) use pair::QueuePair;
pub(crate) use queue::CompletionQueue;
pub(crate) use real::run_here;
pub(crate) use receives::SharedReceiveQueue;
pub(crate) use region::Region;
pub(crate) use simulated::run_simulated;
pub(crate) use vi::{Completion, Vi};
pub(crate) use window::Window;
pub(crate) use work::WorkCompletion;

/// Something of a simulated host, or of this machine.
#[derive(Clone, Debug)]
pub(crate) enum On<S, R> {
    Simulated(S),
    Real(R),
}

impl<S, R> On<S, R> {
    pub(crate) const fn simulated(&self) -> Option<&S> {
        match self {
            Self::Simulated(thing) => Some(thing),
            Self::Real(_) => None,
        }
    }

    pub(crate) const fn real(&self) -> Option<&R> {
        match self {
            Self::Simulated(_) => None,
            Self::Real(thing) => Some(thing),
        }
    }
}

/// The same words for both.
macro_rules! on {
    ($any:expr, $it:pat => $body:expr) => {
        match $any {
            $crate::programs::On::Simulated($it) => $body,
            $crate::programs::On::Real($it) => $body,
        }
    };
}
use on;

/// A span of time: a text with its unit, a `timedelta`, or a number of seconds.
fn span(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    if let Ok(text) = value.cast::<PyString>() {
        let time = parse_time(&text.to_cow()?).map_err(|error| {
            let instead = error
                .suggestion
                .map_or(String::new(), |text| format!("; write {text}"));
            PyValueError::new_err(format!("{}{instead}", error.problem))
        })?;
        return Ok(Duration::from_nanos(time.picoseconds() / 1000));
    }
    if let Ok(seconds) = value.extract::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| {
            let text = format!("a span of time is 0 s or longer, not {seconds} s");
            PyValueError::new_err(text)
        });
    }
    value.extract::<Duration>().map_err(|_| {
        let kind = value.get_type();
        let text = format!(
            "a span of time is a text with its unit (\"3 us\"), a number of seconds or a \
             timedelta, not {kind}"
        );
        pyo3::exceptions::PyTypeError::new_err(text)
    })
}

/// A limit that may be missing.
fn limit(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    value.map(span).transpose()
}

/// A span of time in seconds.
#[pyfunction]
pub(crate) fn seconds(time: &Bound<'_, PyAny>) -> PyResult<f64> {
    span(time).map(|time| time.as_secs_f64())
}
