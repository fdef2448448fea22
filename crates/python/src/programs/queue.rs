//! One place to look for the completions of many VIs.

use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::prelude::*;
use viaduct_shm::Shm;
use viaduct_simfabric::SimulatedFabric;

use super::On;
use super::home::Held;
use super::host::HostState;
use super::operation::{Kind, Operation};
use crate::errors;

pub(crate) type AnyQueue = On<
    Held<viaduct_fabric::CompletionQueue<SimulatedFabric>>,
    viaduct_fabric::CompletionQueue<Shm>,
>;

/// A completion queue of a host.
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
    /// Waits for an entry: the VI, and which of its queues, `"send"` or `"receive"`.
    #[pyo3(signature = (*, timeout = None))]
    fn done(slf: &Bound<'_, Self>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Operation> {
        let kind = Kind::Entry(slf.clone().unbind());
        Operation::new(kind, timeout)
    }

    fn __repr__(&self) -> String {
        format!("<viaduct completion queue of {}>", self.host.name)
    }
}
