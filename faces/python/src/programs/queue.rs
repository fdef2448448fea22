//! One place to look for the completions of many VIs.

use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::prelude::*;
use viaduct_programs::SimulatedFabric;
use viaduct_shm::Shm;

use super::On;
use super::home::Held;
use super::operation::{Kind, Operation};
use super::state::HostState;
use crate::errors;

pub(crate) type AnyQueue = On<
    Held<viaduct_provider::CompletionQueue<SimulatedFabric>>,
    viaduct_provider::CompletionQueue<Shm>,
>;

/// One place to look for the completions of many VIs; `Host.completion_queue` makes it.
///
/// It is named when a VI is made. What has completed is taken from the VI itself.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def server(host):
/// ...     queue = host.completion_queue(16)
/// ...     for _ in range(2):
/// ...         vi = host.vi(receive_completions=queue)
/// ...         vi.post_receive(host.buffer(8))
/// ...         yield vi.accept()
/// ...     heard = []
/// ...     for _ in range(2):
/// ...         vi, kind = yield queue.done()
/// ...         heard.append((vi.peer, kind, (yield vi.receive_done()).length))
/// ...     return heard
/// >>> def client(host):
/// ...     vi = yield host.connect("server")
/// ...     yield host.sleep(f"{10 * host.rank} us")
/// ...     vi.post_send(host.buffer(host.rank))
/// ...     yield vi.send_done()
/// >>> programs = {"server": server, "one": client, "two": client}
/// >>> sorted(via.cluster("sim:rnic-gen4", programs).run().returned["server"])
/// [('one', 'receive', 1), ('two', 'receive', 2)]
#[pyclass(frozen, name = "CompletionQueue", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    pub(crate) host: Arc<HostState>,
    queue: Mutex<AnyQueue>,
}

impl CompletionQueue {
    pub(crate) const fn new(host: Arc<HostState>, queue: AnyQueue) -> Self {
        Self {
            host,
            queue: Mutex::new(queue),
        }
    }

    /// To be used by the program of its host.
    pub(crate) fn queue(&self) -> PyResult<MutexGuard<'_, AnyQueue>> {
        self.host.check_turn()?;
        self.queue.try_lock().map_err(|_| errors::in_use())
    }
}

#[pymethods]
impl CompletionQueue {
    /// Wait for an entry.
    ///
    /// Parameters
    /// ----------
    /// timeout : str, float or timedelta, optional
    ///     How long at most: a text with its unit, or seconds.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     Yielded, it gives the VI and which of its queues has a completion, `"send"` or
    ///     `"receive"`.
    #[pyo3(signature = (*, timeout = None))]
    fn done(slf: &Bound<'_, Self>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Operation> {
        let kind = Kind::Entry(slf.clone().unbind());
        Operation::new(kind, timeout)
    }

    fn __repr__(&self) -> String {
        format!("<viaduct completion queue of {}>", self.host.name)
    }
}
