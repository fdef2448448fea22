//! Receives that are posted, of a queue pair or of many.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use viaduct_programs::verbs::flags::shared_receive;
use viaduct_programs::verbs::{self, ReceiveRequest, SharedReceiveAttributes};

use super::device::refused;
use super::home::locked;
use super::region::Region;
use super::state::HostState;
use super::{On, on};

/// Tells the requests of receives from those of sends: a completion with an error says its queue
/// pair and its request alone.
const RECEIVE: u64 = 1 << 63;

/// The number of a receive, of what has completed.
pub(crate) const fn receive_number(request: u64) -> Option<u64> {
    if request & RECEIVE == 0 {
        None
    } else {
        Some(request & !RECEIVE)
    }
}

/// A receive that is posted: it holds the memory that it names.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) region: Py<Region>,
    pub(crate) address: u64,
}

/// Those of a queue, by the numbers that their posts gave.
#[derive(Debug, Default)]
pub(crate) struct Receives(Mutex<BTreeMap<u64, Posted>>);

impl Receives {
    /// Posts one by what the queue has for it.
    pub(crate) fn post(
        &self,
        host: &HostState,
        number: u64,
        (region, offset, length): (&Bound<'_, Region>, usize, Option<usize>),
        post: impl FnOnce(&ReceiveRequest<'_>) -> verbs::Result<()>,
    ) -> PyResult<()> {
        let element = region.get().part(host, offset, length)?;
        let elements = [element];
        let request = ReceiveRequest {
            request: number | RECEIVE,
            elements: if element.length == 0 { &[] } else { &elements },
        };
        post(&request).map_err(|error| refused(&error))?;
        let posted = Posted {
            region: region.clone().unbind(),
            address: element.address,
        };
        locked(&self.0).insert(number, posted);
        Ok(())
    }

    /// One has completed.
    pub(crate) fn take(&self, number: u64) -> Option<Posted> {
        locked(&self.0).remove(&number)
    }
}

/// A receive queue of many.
pub(crate) type AnyShared = On<verbs::SharedReceiveQueue, viaduct_rdma::SharedReceiveQueue>;

/// A shared receive queue: receives for whichever of its queue pairs a message comes to first.
///
/// `Host.shared_receive_queue` makes it; it is named when a queue pair is made. A message completes
/// at the queue pair that it came to, in `QueuePair.receive_done`.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def server(host):
/// ...     shared, region = host.shared_receive_queue(), host.region(16)
/// ...     for place in (0, 8):
/// ...         shared.post_receive(region, 8, offset=place)
/// ...     pairs = [host.queue_pair(shared_receive_queue=shared) for _ in range(2)]
/// ...     for pair in pairs:
/// ...         yield pair.accept()
/// ...     done = yield host.all(*[pair.receive_done() for pair in pairs])
/// ...     return sorted((pair.peer, each.length) for pair, each in zip(pairs, done))
/// >>> def client(host):
/// ...     pair = host.queue_pair()
/// ...     yield pair.connect("server")
/// ...     pair.post_send(host.region(8), host.rank)
/// ...     yield pair.send_done()
/// >>> programs = {"server": server, "one": client, "two": client}
/// >>> via.cluster("sim:rnic-gen5", programs).run().returned["server"]
/// [('one', 1), ('two', 2)]
#[pyclass(frozen, name = "SharedReceiveQueue", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct SharedReceiveQueue {
    pub(crate) host: Arc<HostState>,
    pub(crate) queue: AnyShared,
    pub(crate) receives: Arc<Receives>,
    pub(crate) depth: u32,
    next_request: AtomicU64,
}

impl HostState {
    pub(crate) fn make_shared(
        self: &Arc<Self>,
        py: Python<'_>,
        depth: u32,
    ) -> PyResult<Py<SharedReceiveQueue>> {
        let attributes = SharedReceiveAttributes {
            max_requests: depth,
            max_elements: 1,
            limit: 0,
        };
        // Events name it by its place in this list.
        let cookie = locked(&self.shared_receives).len() as u64;
        let queue = self.with_device(|device| {
            Ok(match device {
                On::Simulated(device) => {
                    let domain = &device.domain;
                    On::Simulated(domain.create_shared_receive_queue(&attributes, cookie)?)
                }
                On::Real(device) => {
                    let domain = &device.domain;
                    On::Real(domain.create_shared_receive_queue(&attributes, cookie)?)
                }
            })
        })?;
        let shared = SharedReceiveQueue {
            host: Arc::clone(self),
            queue,
            receives: Arc::default(),
            depth,
            next_request: AtomicU64::new(0),
        };
        let shared = Py::new(py, shared)?;
        locked(&self.shared_receives).push(shared.clone_ref(py));
        Ok(shared)
    }
}

#[pymethods]
impl SharedReceiveQueue {
    /// Post a receive: the next message to one of its queue pairs that no earlier one takes goes
    /// there.
    ///
    /// Parameters
    /// ----------
    /// region : Region
    ///     Of this host.
    /// length : int, optional
    ///     The longest message that fits; up to the region's end if it is not said.
    /// offset : int
    ///     Where in the region.
    #[pyo3(signature = (region, length = None, *, offset = 0))]
    fn post_receive(
        &self,
        region: &Bound<'_, Region>,
        length: Option<usize>,
        offset: usize,
    ) -> PyResult<u64> {
        self.host.check_turn()?;
        // Programs use it on their turns alone, one after the other.
        let number = self.next_request.load(Ordering::Relaxed);
        let place = (region, offset, length);
        self.receives.post(
            &self.host,
            number,
            place,
            |request| on!(&self.queue, queue => queue.post_receive(request)),
        )?;
        self.next_request.store(number + 1, Ordering::Relaxed);
        Ok(number)
    }

    /// Ask for one event (`Host.event`) when fewer receives than this are left.
    ///
    /// It comes once, at once if so few are left already; call this again for another.
    ///
    /// Parameters
    /// ----------
    /// limit : int
    ///     How many receives; 0 asks for none.
    fn set_limit(&self, limit: u32) -> PyResult<()> {
        self.host.check_turn()?;
        let attributes = SharedReceiveAttributes {
            limit,
            ..SharedReceiveAttributes::default()
        };
        let set = on!(&self.queue, queue => {
            queue.modify(&attributes, shared_receive::LIMIT)
        });
        set.map_err(|error| refused(&error))
    }

    fn __repr__(&self) -> String {
        let (depth, host) = (self.depth, &self.host.name);
        format!("<viaduct shared receive queue of {host}, {depth} receives at most>")
    }
}
