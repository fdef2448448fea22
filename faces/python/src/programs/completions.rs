//! Where requests of queue pairs complete: in queues of each pair's own, or in one of many pairs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use viaduct_programs::verbs;

use super::aside::Aside;
use super::device::{Queue, refused};
use super::operation::{Kind, Operation};
use super::pair::QueuePair;
use super::state::{HostState, Simulated};

/// Whose completions are waited for.
#[derive(Debug)]
pub(crate) enum Work {
    /// Those of a queue of a queue pair.
    Own {
        pair: Py<QueuePair>,
        is_receive: bool,
    },
    /// Those of many.
    Shared(Py<SharedCompletionQueue>),
}

impl Work {
    fn queue(&self) -> &Queue {
        match self {
            Self::Own { pair, is_receive } => pair.get().queue(*is_receive),
            Self::Shared(shared) => &shared.get().queue,
        }
    }

    /// What it is, after "waits for".
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Own { pair, is_receive } => {
                let what = if *is_receive { "receive" } else { "send" };
                format!("a {what} on {}", pair.get().words())
            }
            Self::Shared(_) => "a completion of one of its queue pairs".to_owned(),
        }
    }

    /// Begins to sleep until something completes, on a simulated host.
    pub(crate) fn wait_aside(
        &self,
        place: &Simulated,
        limit: Option<Duration>,
    ) -> Arc<Aside<verbs::Result<Option<verbs::Completion>>>> {
        let queue = self.queue().clone();
        Aside::call(&place.process, move |process| queue.wait(process, limit))
    }

    /// Sleeps until something completes, for so long at most, between processes.
    pub(crate) fn wait_here(&self, py: Python<'_>, limit: Duration) -> PyResult<Option<Py<PyAny>>> {
        let queue = self.queue();
        let waited = py.detach(|| queue.wait(&Instant::now(), Some(limit)));
        self.taken(py, waited)
    }

    /// Looks once for a completion.
    pub(crate) fn look(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.taken(py, self.queue().take())
    }

    fn taken(
        &self,
        py: Python<'_>,
        taken: verbs::Result<Option<verbs::Completion>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let taken = taken.map_err(|error| refused(&error))?;
        taken
            .map(|completion| self.completed(py, &completion))
            .transpose()
    }

    /// A completion as Python has it; an error where the request failed.
    pub(crate) fn completed(
        &self,
        py: Python<'_>,
        completion: &verbs::Completion,
    ) -> PyResult<Py<PyAny>> {
        match self {
            Self::Own { pair, .. } => pair.get().completed(py, completion),
            Self::Shared(shared) => {
                let (pair, done) = shared.get().host.completed(py, completion)?;
                Ok((pair, done).into_pyobject(py)?.into_any().unbind())
            }
        }
    }
}

/// One place for the completions of many queue pairs; `Host.shared_completion_queue` makes it.
///
/// It is named when a queue pair is made, for its sends, its receives or both. They complete here
/// in place of `QueuePair.send_done` and `QueuePair.receive_done`.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def server(host):
/// ...     queue, region = host.shared_completion_queue(), host.region(16)
/// ...     for _ in range(2):
/// ...         pair = host.queue_pair(receive_completions=queue)
/// ...         pair.post_receive(region)
/// ...         yield pair.accept()
/// ...     heard = []
/// ...     for _ in range(2):
/// ...         pair, done = yield queue.done()
/// ...         heard.append((pair.peer, done.length))
/// ...     return sorted(heard)
/// >>> def client(host):
/// ...     pair = host.queue_pair()
/// ...     yield pair.connect("server")
/// ...     pair.post_send(host.region(8), host.rank)
/// ...     yield pair.send_done()
/// >>> programs = {"server": server, "one": client, "two": client}
/// >>> via.cluster("sim:rnic-gen5", programs).run().returned["server"]
/// [('one', 1), ('two', 2)]
#[pyclass(frozen, name = "SharedCompletionQueue", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct SharedCompletionQueue {
    pub(crate) host: Arc<HostState>,
    pub(crate) queue: Queue,
    depth: u32,
}

impl HostState {
    pub(crate) fn make_completions(
        self: &Arc<Self>,
        depth: u32,
    ) -> PyResult<SharedCompletionQueue> {
        let queue = self.with_device(|device| device.queue(depth))?;
        Ok(SharedCompletionQueue {
            host: Arc::clone(self),
            queue,
            depth,
        })
    }

    /// A completion of any of its queue pairs, and whose it is. An error has that as its
    /// `queue_pair`.
    pub(crate) fn completed(
        &self,
        py: Python<'_>,
        completion: &verbs::Completion,
    ) -> PyResult<(Py<QueuePair>, Py<PyAny>)> {
        let pair = self.pair(py, completion.queue_pair)?;
        match pair.get().completed(py, completion) {
            Ok(done) => Ok((pair, done)),
            Err(error) => {
                error.value(py).setattr("queue_pair", pair)?;
                Err(error)
            }
        }
    }
}

#[pymethods]
impl SharedCompletionQueue {
    /// Wait for the oldest completion.
    ///
    /// Parameters
    /// ----------
    /// timeout : str, float or timedelta, optional
    ///     How long at most.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     Yielded, it gives the queue pair and a `WorkCompletion`; or it raises
    ///     `DescriptorError`, `FlushedError` after an error, both with the queue pair as their
    ///     `queue_pair`, or `TimeLimitError`.
    #[pyo3(signature = (*, timeout = None))]
    fn done(slf: &Bound<'_, Self>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Operation> {
        let kind = Kind::Work(Work::Shared(slf.clone().unbind()));
        Operation::new(kind, timeout)
    }

    fn __repr__(&self) -> String {
        let (depth, host) = (self.depth, &self.host.name);
        format!("<viaduct shared completion queue of {host}, {depth} completions at most>")
    }
}
