//! A generator of Python as a program: resumed with results, or with what was raised.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use pyo3::types::iterator::PySendResult;

use super::On;
use super::home::{Turn, locked};
use super::host::Host;
use super::operation::text_of;
use super::state::HostState;
use super::waiting::Waiting;
use crate::errors;

/// How long Ctrl-C may go unheard.
const SLICE: Duration = Duration::from_millis(50);

/// A program on its host.
pub(crate) struct Program {
    pub(crate) host: Arc<HostState>,
    function: Py<PyAny>,
    state: Mutex<ProgramState>,
}

#[derive(Default)]
struct ProgramState {
    generator: Option<Py<PyIterator>>,
    waiting: Option<Waiting>,
    /// What it returned, when its sends are on their way.
    returned: Option<Py<PyAny>>,
    ended: Option<Duration>,
}

impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Program")
            .field("host", &self.host.name)
            .finish_non_exhaustive()
    }
}

/// Where a program stands after it ran.
enum Step {
    Yielded(Py<PyAny>),
    Returned(Py<PyAny>),
}

impl Program {
    pub(crate) fn new(host: Arc<HostState>, function: Py<PyAny>) -> Arc<Self> {
        Arc::new(Self {
            host,
            function,
            state: Mutex::default(),
        })
    }

    /// What it returned, and when it ended.
    pub(crate) fn take_result(&self) -> Option<(Py<PyAny>, Duration)> {
        let mut state = locked(&self.state);
        let ended = state.ended?;
        Some((state.returned.take()?, ended))
    }

    /// Who waits for what; `None` if it has ended.
    pub(crate) fn words(&self) -> Option<String> {
        let state = locked(&self.state);
        let name = &self.host.name;
        match (&state.ended, &state.waiting, &state.returned) {
            (Some(_), ..) => None,
            (None, Some(waiting), None) => Some(format!("{name} {}", waiting.words())),
            (None, _, Some(_)) => Some(format!("{name} has ended, but not what it sent last")),
            (None, None, None) => Some(format!("{name} has not begun")),
        }
    }

    /// Drops the generator, which runs what it does at its end, and the host's VIs.
    pub(crate) fn drop_all(&self) {
        let (generator, waiting) = {
            let mut state = locked(&self.state);
            (state.generator.take(), state.waiting.take())
        };
        drop(waiting);
        drop(generator);
        self.host.release();
    }

    /// Goes on until it waits or ends, on a simulated host.
    pub(crate) fn poll(&self, py: Python<'_>, context: &mut Context<'_>) -> Poll<PyResult<()>> {
        let _turn = Turn::of(self.host.id);
        let mut state = locked(&self.state);
        if state.returned.is_some() {
            return self.poll_end(py, &mut state, context);
        }
        let mut next = match state.waiting.as_mut() {
            Some(waiting) => match waiting.poll(py, &self.host, context) {
                Poll::Ready(result) => Some(result),
                Poll::Pending => return Poll::Pending,
            },
            None => None,
        };
        loop {
            state.waiting = None;
            match self.step(py, &mut state, next) {
                Ok(Step::Yielded(value)) => match Waiting::of(&self.host, value.bind(py)) {
                    Ok(None) => next = Some(Ok(py.None())),
                    Ok(Some(waiting)) => {
                        match state.waiting.insert(waiting).poll(py, &self.host, context) {
                            Poll::Ready(result) => next = Some(result),
                            Poll::Pending => return Poll::Pending,
                        }
                    }
                    Err(error) => next = Some(Err(error)),
                },
                Ok(Step::Returned(value)) => {
                    state.returned = Some(value);
                    return self.poll_end(py, &mut state, context);
                }
                Err(error) => return Poll::Ready(Err(self.noted(py, error))),
            }
        }
    }

    /// What it sent last goes before its connections end.
    fn poll_end(
        &self,
        py: Python<'_>,
        state: &mut ProgramState,
        context: &mut Context<'_>,
    ) -> Poll<PyResult<()>> {
        for vi in self.host.vis(py) {
            let Ok(mut queues) = vi.get().state() else {
                continue;
            };
            while queues.sends() > 0 {
                let Ok(On::Simulated(each)) = queues.vi() else {
                    break;
                };
                match each.halves().0.poll_sent(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(result) => {
                        let is_taken = result
                            .as_ref()
                            .map_or_else(|error| error.status().is_some(), |_| true);
                        // Nobody waits for its outcome.
                        let _ = queues.sent(py, result);
                        if !is_taken {
                            break;
                        }
                    }
                }
            }
        }
        let On::Simulated(place) = &self.host.place else {
            return Poll::Ready(Err(errors::in_use()));
        };
        if !self
            .host
            .pairs(py)
            .iter()
            .all(|pair| pair.get().has_sent_all(py))
        {
            place.process.watch();
            return Poll::Pending;
        }
        state.ended = Some(self.host.now());
        state.generator = None;
        self.host.release();
        Poll::Ready(Ok(()))
    }

    /// Runs it to its end, between processes. `pause` is called while it waits.
    pub(crate) fn run(
        &self,
        py: Python<'_>,
        mut pause: impl FnMut(Python<'_>, &Waiting) -> PyResult<()>,
    ) -> PyResult<Py<PyAny>> {
        let _turn = Turn::of(self.host.id);
        let mut state = locked(&self.state);
        let mut next = None;
        loop {
            match self.step(py, &mut state, next) {
                Ok(Step::Yielded(value)) => match Waiting::of(&self.host, value.bind(py)) {
                    Ok(None) => next = Some(Ok(py.None())),
                    Ok(Some(mut waiting)) => {
                        let result = loop {
                            match waiting.attempt(py, &self.host, SLICE).transpose() {
                                Some(result) => break result,
                                None => pause(py, &waiting)?,
                            }
                        };
                        next = Some(result);
                    }
                    Err(error) => next = Some(Err(error)),
                },
                Ok(Step::Returned(value)) => return Ok(value),
                Err(error) => return Err(self.noted(py, error)),
            }
        }
    }

    /// What it sent last goes before its connections end, if it goes in so long.
    pub(crate) fn finish(&self, py: Python<'_>, limit: Duration) {
        let _turn = Turn::of(self.host.id);
        for vi in self.host.vis(py) {
            let Ok(mut queues) = vi.get().state() else {
                continue;
            };
            while queues.sends() > 0 {
                let Ok(On::Real(each)) = queues.vi() else {
                    break;
                };
                let result = py.detach(|| each.sent(Some(limit)));
                let is_taken = result
                    .as_ref()
                    .map_or_else(|error| error.status().is_some(), |_| true);
                let _ = queues.sent(py, result);
                if !is_taken {
                    break;
                }
            }
        }
        let clock = Instant::now();
        for pair in self.host.pairs(py) {
            let pair = pair.get();
            while !pair.has_sent_all(py) && clock.elapsed() < limit {
                pair.wait_for_sends(py, SLICE.min(limit));
            }
        }
        locked(&self.state).generator = None;
        self.host.release();
    }

    /// Resumes it with what it waited for; starts it if it waited for nothing yet.
    fn step(
        &self,
        py: Python<'_>,
        state: &mut ProgramState,
        next: Option<PyResult<Py<PyAny>>>,
    ) -> PyResult<Step> {
        let Some(generator) = &state.generator else {
            let host = Py::new(py, Host(Arc::clone(&self.host)))?;
            let called = self.function.bind(py).call1((host,))?;
            if called.get_type().name()?.to_string_lossy() == "coroutine" {
                called.call_method0("close")?;
                return Err(PyTypeError::new_err(
                    "a program is a generator: `def` with `yield`, not `async def` with `await`",
                ));
            }
            return match called.cast_into::<PyIterator>() {
                Ok(generator) => {
                    let generator = state.generator.insert(generator.unbind());
                    sent(generator.bind(py), py.None())
                }
                // A function that yields nothing has run, and this is what it returned.
                Err(value) => Ok(Step::Returned(value.into_inner().unbind())),
            };
        };
        let generator = generator.bind(py);
        match next {
            Some(Err(error)) => thrown(generator, &error),
            Some(Ok(value)) => sent(generator, value),
            None => sent(generator, py.None()),
        }
    }

    /// The error with a line that says whose it is.
    fn noted(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let when = text_of(self.host.now());
        let note = format!("in the program of host {}, at {when}", self.host.name);
        // An error without a note is better than none.
        let _ = error.add_note(py, note.as_str());
        error
    }
}

fn sent(generator: &Bound<'_, PyIterator>, value: Py<PyAny>) -> PyResult<Step> {
    Ok(match generator.send(value.bind(generator.py()))? {
        PySendResult::Next(value) => Step::Yielded(value.unbind()),
        PySendResult::Return(value) => Step::Returned(value.unbind()),
    })
}

fn thrown(generator: &Bound<'_, PyIterator>, error: &PyErr) -> PyResult<Step> {
    let py = generator.py();
    match generator.call_method1("throw", (error.value(py),)) {
        Ok(value) => Ok(Step::Yielded(value.unbind())),
        Err(raised) if raised.is_instance_of::<PyStopIteration>(py) => {
            let value = raised.value(py).getattr("value")?;
            Ok(Step::Returned(value.unbind()))
        }
        Err(raised) => Err(raised),
    }
}
