//! What an RDMA adapter tells without having been asked.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use viaduct_programs::verbs::{self, AsyncElement, AsyncEvent, errno};

use super::aside::Aside;
use super::device::{AnyContext, EINTR, refused};
use super::home::locked;
use super::on;
use super::state::{HostState, Simulated};

/// Sleeps until an event comes; `None` when the time is over.
fn next(context: &AnyContext, limit: Option<Duration>) -> verbs::Result<Option<AsyncEvent>> {
    none_yet(on!(context, context => context.next_async_event(limit)))
}

fn none_yet(event: verbs::Result<AsyncEvent>) -> verbs::Result<Option<AsyncEvent>> {
    match event {
        Err(error) if matches!(error.errno(), errno::EAGAIN | EINTR) => Ok(None),
        event => event.map(Some),
    }
}

impl HostState {
    fn context(&self) -> PyResult<AnyContext> {
        self.with_device(|device| Ok(device.context()))
    }

    /// Begins to sleep until an event comes, on a simulated host.
    pub(crate) fn event_aside(
        &self,
        place: &Simulated,
        limit: Option<Duration>,
    ) -> PyResult<Arc<Aside<verbs::Result<Option<AsyncEvent>>>>> {
        let context = self.context()?;
        Ok(Aside::call(&place.process, move |_| next(&context, limit)))
    }

    /// Sleeps until an event comes, for so long at most, between processes.
    pub(crate) fn event_here(
        &self,
        py: Python<'_>,
        limit: Duration,
    ) -> PyResult<Option<Py<PyAny>>> {
        let context = self.context()?;
        let event = py.detach(|| next(&context, Some(limit)));
        self.taken(py, event)
    }

    /// Looks once for an event.
    pub(crate) fn look_for_event(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let context = self.context()?;
        let event = on!(&context, context => context.try_next_async_event());
        self.taken(py, none_yet(event))
    }

    fn taken(
        &self,
        py: Python<'_>,
        event: verbs::Result<Option<AsyncEvent>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let event = event.map_err(|error| refused(&error))?;
        event.map(|event| self.event(py, &event)).transpose()
    }

    /// An event as Python has it: what it is about, and what happened. It is dealt with then, as
    /// verbs wants to be told before the object can go.
    pub(crate) fn event(&self, py: Python<'_>, event: &AsyncEvent) -> PyResult<Py<PyAny>> {
        let about = match event.element {
            AsyncElement::QueuePair(cookie) => {
                let pairs = self.pairs(py);
                let about = pairs.into_iter().find(|pair| pair.get().cookie == cookie);
                about.map(|pair| {
                    pair.get().acknowledge_event();
                    pair.into_any()
                })
            }
            AsyncElement::SharedReceiveQueue(cookie) => {
                let made = locked(&self.shared_receives);
                made.get(cookie as usize).map(|shared| {
                    on!(&shared.get().queue, queue => queue.acknowledge_async_events(1));
                    shared.clone_ref(py).into_any()
                })
            }
            // Completion queues go with their host alone.
            AsyncElement::CompletionQueue(_) | AsyncElement::Port(_) | AsyncElement::Device => None,
        };
        let what = event.kind.text().to_string_lossy().into_owned();
        Ok((about, what).into_pyobject(py)?.into_any().unbind())
    }
}
