//! A host, as the program on it sees it.

use std::sync::Arc;
use std::time::Instant;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use viaduct_programs::verbs::flags::access;
use viaduct_provider::via::ReliabilityLevel;
use viaduct_provider::{Access, Memory};

use super::buffer::Buffer;
use super::completions::SharedCompletionQueue;
use super::home::Held;
use super::operation::{Kind, Operation};
use super::pair::{PairWish, QueuePair};
use super::queue::CompletionQueue;
use super::receives::SharedReceiveQueue;
use super::region::Region;
use super::state::{HostState, Wish};
use super::vi::Vi;
use super::window::Window;
use super::{On, span};
use crate::errors;

/// Bytes of the longest name of a port: with run and host before it, it is no longer than the 32
/// bytes of a discriminator that every fabric has.
const PORT_BYTES_MAX: usize = 16;

/// The name of a port, not too long.
pub(crate) fn check_port(port: &str) -> PyResult<()> {
    match port.len() <= PORT_BYTES_MAX {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "a port's name has at most {PORT_BYTES_MAX} bytes, not {}",
            port.len()
        ))),
    }
}

/// A host, as the program on it sees it: the argument of every program of `cluster`.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def program(host):
/// ...     yield host.compute("3 us")
/// ...     return host.name, host.rank, host.number, host.names, host.is_simulated
/// >>> result = via.cluster("sim:clan-pio@four-hop", {1: program}).run()
/// >>> result.returned["host1"]
/// ('host1', 0, 1, ['host1'], True)
#[pyclass(frozen, name = "Host", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct Host(pub(crate) Arc<HostState>);

#[pymethods]
impl Host {
    /// The name that it has in `cluster`.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Its number in the network.
    #[getter]
    fn number(&self) -> u32 {
        self.0.number()
    }

    /// Its place among the hosts with programs, from 0.
    #[getter]
    fn rank(&self) -> usize {
        self.0.rank()
    }

    /// The hosts with programs, by rank.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0
            .names
            .0
            .iter()
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// How many adapters it has.
    #[getter]
    fn adapters(&self) -> u32 {
        self.0.adapter().1
    }

    /// The number of the adapter that this view of it has, from 0.
    #[getter]
    fn adapter(&self) -> u32 {
        self.0.adapter().0
    }

    /// The same host by another of its adapters: what is made there is of that one.
    ///
    /// Buffers, VIs, queues and regions are of the adapter by which they are made; the processor
    /// is the host's, and so is time. `connect` and `accept` reach the peer's adapter of the same
    /// number. Hosts have several where the study says so (`hosts.adapters`).
    ///
    /// Parameters
    /// ----------
    /// adapter : int
    ///     Its number, from 0: a program has the first unless it asks for another one.
    fn at_adapter(&self, adapter: u32) -> PyResult<Self> {
        self.0.check_turn()?;
        self.0.at_adapter(adapter).map(Self)
    }

    /// Whether time is simulated, or the program is a process of this machine.
    #[getter]
    fn is_simulated(&self) -> bool {
        matches!(self.0.place, On::Simulated(_))
    }

    /// The time since the run began, in microseconds, what was computed included.
    #[getter]
    fn now_us(&self) -> f64 {
        self.0.now().as_nanos() as f64 / 1e3
    }

    /// Register memory for messages.
    ///
    /// Parameters
    /// ----------
    /// bytes : int
    ///     Its length; 0 for descriptors without data.
    fn buffer(&self, bytes: usize) -> PyResult<Buffer> {
        self.0.check_turn()?;
        let buffer = match (&self.0.place, bytes) {
            (_, 0) => Ok(viaduct_provider::Buffer::empty()),
            (On::Simulated(place), _) => place.nic.buffer(bytes, Memory::Private),
            (On::Real(place), _) => place.nic.buffer(bytes, Memory::Shared),
        };
        let buffer = buffer.map_err(errors::refused)?;
        Ok(Buffer::new(buffer, self.0.id, self.0.home()))
    }

    /// Register memory for several buffers at once, as a list.
    ///
    /// Parameters
    /// ----------
    /// count : int
    ///     How many.
    /// bytes : int
    ///     The length of each.
    fn buffers(&self, count: usize, bytes: usize) -> PyResult<Vec<Buffer>> {
        self.0.check_turn()?;
        let buffers = match &self.0.place {
            On::Simulated(place) => place.nic.buffers(count, bytes, Memory::Private),
            On::Real(place) => place.nic.buffers(count, bytes, Memory::Shared),
        };
        let buffers = buffers.map_err(errors::refused)?;
        let ours = |buffer| Buffer::new(buffer, self.0.id, self.0.home());
        Ok(buffers.into_iter().map(ours).collect())
    }

    /// Register memory that peers write or read, as `Window` shows.
    ///
    /// Parameters
    /// ----------
    /// bytes : int
    ///     Its length.
    /// access : str
    ///     `"write"`, `"read"` or `"read and write"`: what peers may do.
    #[pyo3(signature = (bytes, *, access = "write"))]
    fn window(&self, bytes: usize, access: &str) -> PyResult<Window> {
        self.0.check_turn()?;
        let access = match access {
            "write" => Access::Write,
            "read" => Access::Read,
            "read and write" => Access::ReadWrite,
            other => {
                return Err(PyValueError::new_err(format!(
                    "access is \"write\", \"read\" or \"read and write\", not {other:?}"
                )));
            }
        };
        let window = match &self.0.place {
            On::Simulated(place) => place
                .nic
                .window(bytes, access, Memory::Private)
                .map(|window| On::Simulated(Held::new(window, self.0.home()))),
            On::Real(place) => place
                .nic
                .window(bytes, access, Memory::Shared)
                .map(On::Real),
        };
        window.map(Window::new).map_err(errors::refused)
    }

    /// Make a completion queue.
    ///
    /// Parameters
    /// ----------
    /// entries : int
    ///     How many completions wait in it at most: as many as its VIs have descriptors posted.
    fn completion_queue(&self, entries: u32) -> PyResult<CompletionQueue> {
        self.0.check_turn()?;
        let queue = match &self.0.place {
            On::Simulated(place) => place
                .nic
                .completion_queue(entries)
                .map(|queue| On::Simulated(Held::new(queue, self.0.home()))),
            On::Real(place) => place.nic.completion_queue(entries).map(On::Real),
        };
        let queue = queue.map_err(errors::refused)?;
        Ok(CompletionQueue::new(Arc::clone(&self.0), queue))
    }

    /// Make a VI, not connected yet.
    ///
    /// Parameters
    /// ----------
    /// reliability : str, optional
    ///     `"unreliable"`, `"reliable delivery"` or `"reliable reception"`, the same at both ends.
    /// send_depth, receive_depth : int, optional
    ///     Descriptors that may be posted to a queue at once.
    /// max_transfer_bytes : int, optional
    ///     The longest message.
    /// rdma_write, rdma_read : bool
    ///     Whether the peer may write, or read, windows of this host through it.
    /// flow_control, request_splitting : bool
    ///     Extensions of VIA over CLAN, where the adapter has them.
    /// send_completions, receive_completions : CompletionQueue, optional
    ///     Where completions are told.
    ///
    /// Raises
    /// ------
    /// FabricError
    ///     If the adapter has no such VI, or none left.
    #[pyo3(signature = (
        *, reliability = None, send_depth = None, receive_depth = None, max_transfer_bytes = None,
        rdma_write = false, rdma_read = false, flow_control = false, request_splitting = false,
        send_completions = None, receive_completions = None
    ))]
    #[expect(
        clippy::too_many_arguments,
        clippy::fn_params_excessive_bools,
        reason = "keywords of Python"
    )]
    fn vi(
        &self,
        py: Python<'_>,
        reliability: Option<&str>,
        send_depth: Option<u32>,
        receive_depth: Option<u32>,
        max_transfer_bytes: Option<u32>,
        rdma_write: bool,
        rdma_read: bool,
        flow_control: bool,
        request_splitting: bool,
        send_completions: Option<Py<CompletionQueue>>,
        receive_completions: Option<Py<CompletionQueue>>,
    ) -> PyResult<Py<Vi>> {
        self.0.check_turn()?;
        let wish = Wish {
            reliability: reliability.map(level).transpose()?,
            send_depth,
            receive_depth,
            max_transfer_bytes,
            rdma_write,
            rdma_read,
            flow_control,
            request_splitting,
            send_completions: send_completions.as_ref(),
            receive_completions: receive_completions.as_ref(),
        };
        self.0.make_vi(py, &wish)
    }

    /// Register a memory region for requests of queue pairs, as `Region` shows.
    ///
    /// Of the presets, those with RDMA adapters have them: `rnic-gen3`, `rnic-gen4`, `rnic-gen5`.
    /// Between processes (`shm`) there are always some.
    ///
    /// Parameters
    /// ----------
    /// bytes : int
    ///     Its length.
    /// remote_write, remote_read, remote_atomic : bool
    ///     What peers may do.
    #[pyo3(signature = (
        bytes, *, remote_write = false, remote_read = false, remote_atomic = false
    ))]
    fn region(
        &self,
        bytes: usize,
        remote_write: bool,
        remote_read: bool,
        remote_atomic: bool,
    ) -> PyResult<Region> {
        let rights = [
            (true, access::LOCAL_WRITE),
            (remote_write, access::REMOTE_WRITE),
            (remote_read, access::REMOTE_READ),
            (remote_atomic, access::REMOTE_ATOMIC),
        ];
        let given = rights.into_iter().filter(|(is_given, _)| *is_given);
        let access = given.fold(0, |access, (_, right)| access | right);
        self.0.make_region(bytes, access)
    }

    /// Make a queue pair of verbs, not connected yet; it takes receives already.
    ///
    /// Of the presets, those with RDMA adapters have them: `rnic-gen3`, `rnic-gen4`, `rnic-gen5`.
    /// Between processes (`shm`) there are always some.
    ///
    /// Parameters
    /// ----------
    /// kind : str
    ///     `"rc"`, reliable connected, `"uc"`, unreliable connected, or `"ud"`, unreliable
    ///     datagrams: the same at both ends. One for datagrams is ready at once.
    /// send_depth, receive_depth : int
    ///     Requests that may be posted to a queue at once.
    /// inline_bytes : int
    ///     The longest message that can be posted with `inline`.
    /// ack_timeout : int
    ///     How long a request waits for its acknowledgement before it is sent again: 4.096 us
    ///     times two to this power; 0 is for ever.
    /// retry_count : int
    ///     How often that is done before the request fails, 7 at most.
    /// rnr_retry : int
    ///     How often a peer without a receive is asked again before the request fails; 7 is for
    ///     ever.
    /// queue_key : int
    ///     What a datagram has to name besides the number; its address tells it.
    /// shared_receive_queue : SharedReceiveQueue, optional
    ///     Where its receives come from, in place of a queue of its own.
    /// send_completions, receive_completions : SharedCompletionQueue, optional
    ///     Where its requests complete, in place of queues of its own.
    ///
    /// Raises
    /// ------
    /// FabricError
    ///     With the code `"EOPNOTSUPP"` where the adapter has none, `"EINVAL"` for sizes past its
    ///     own.
    #[pyo3(signature = (
        *, kind = "rc", send_depth = 128, receive_depth = 128, inline_bytes = 0, ack_timeout = 14,
        retry_count = 7, rnr_retry = 6, queue_key = 0, shared_receive_queue = None,
        send_completions = None, receive_completions = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn queue_pair(
        &self,
        py: Python<'_>,
        kind: &str,
        send_depth: u32,
        receive_depth: u32,
        inline_bytes: u32,
        ack_timeout: u8,
        retry_count: u8,
        rnr_retry: u8,
        queue_key: u32,
        shared_receive_queue: Option<&Bound<'_, SharedReceiveQueue>>,
        send_completions: Option<&Bound<'_, SharedCompletionQueue>>,
        receive_completions: Option<&Bound<'_, SharedCompletionQueue>>,
    ) -> PyResult<Py<QueuePair>> {
        let wish = PairWish {
            kind,
            send_depth,
            receive_depth,
            inline_bytes,
            ack_timeout,
            retry_count,
            rnr_retry,
            queue_key,
            shared: shared_receive_queue.map(Bound::get),
            send_completions: send_completions.map(Bound::get),
            receive_completions: receive_completions.map(Bound::get),
        };
        self.0.make_pair(py, &wish)
    }

    /// Make a shared receive queue, as `SharedReceiveQueue` shows.
    ///
    /// Parameters
    /// ----------
    /// depth : int
    ///     Receives that may be posted at once.
    #[pyo3(signature = (*, depth = 128))]
    fn shared_receive_queue(&self, py: Python<'_>, depth: u32) -> PyResult<Py<SharedReceiveQueue>> {
        self.0.make_shared(py, depth)
    }

    /// Make a completion queue for many queue pairs, as `SharedCompletionQueue` shows.
    ///
    /// Parameters
    /// ----------
    /// depth : int
    ///     How many completions wait in it at most: as many as its queue pairs have requests
    ///     posted.
    #[pyo3(signature = (*, depth = 256))]
    fn shared_completion_queue(&self, depth: u32) -> PyResult<SharedCompletionQueue> {
        self.0.make_completions(depth)
    }

    /// Wait for the RDMA adapter to tell something that nobody asked for.
    ///
    /// Parameters
    /// ----------
    /// timeout : str, float or timedelta, optional
    ///     How long at most.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     Yielded, it gives what the event is about, a `QueuePair`, a `SharedReceiveQueue` or
    ///     `None`, and what happened in words: `"shared receive queue limit reached"`, say.
    ///
    /// Examples
    /// --------
    /// >>> import viaduct as via
    /// >>> def server(host):
    /// ...     shared, region = host.shared_receive_queue(), host.region(8)
    /// ...     for _ in range(4):
    /// ...         shared.post_receive(region)
    /// ...     shared.set_limit(3)
    /// ...     pair = host.queue_pair(shared_receive_queue=shared)
    /// ...     yield pair.accept()
    /// ...     about, what = yield host.event()
    /// ...     return about is shared, what
    /// >>> def client(host):
    /// ...     pair, region = host.queue_pair(), host.region(8)
    /// ...     yield pair.connect("server")
    /// ...     for _ in range(2):
    /// ...         pair.post_send(region)
    /// ...         yield pair.send_done()
    /// >>> programs = {"server": server, "client": client}
    /// >>> via.cluster("sim:rnic-gen5", programs).run().returned["server"]
    /// (True, 'shared receive queue limit reached')
    #[pyo3(signature = (*, timeout = None))]
    fn event(&self, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Operation> {
        self.0.check_turn()?;
        Operation::new(Kind::Event, timeout)
    }

    /// Make a VI and connect it, as `Vi.connect` does.
    ///
    /// No receive is posted before.
    #[pyo3(signature = (host, *, port = "", timeout = None))]
    fn connect(
        &self,
        py: Python<'_>,
        host: &str,
        port: &str,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        self.0.check_turn()?;
        let vi = self.0.make_vi(py, &Wish::default())?;
        vi.bind(py)
            .get()
            .connection(py, &vi, Some(host), port, timeout)
    }

    /// Make a VI and wait for somebody to connect, as `Vi.accept` does.
    ///
    /// No receive is posted before.
    #[pyo3(signature = (*, port = "", timeout = None))]
    fn accept(
        &self,
        py: Python<'_>,
        port: &str,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        self.0.check_turn()?;
        let vi = self.0.make_vi(py, &Wish::default())?;
        vi.bind(py).get().connection(py, &vi, None, port, timeout)
    }

    /// Keep the processor busy; to be yielded.
    ///
    /// Parameters
    /// ----------
    /// time : str, float or timedelta
    ///     How long: a text with its unit, or seconds.
    fn compute(&self, py: Python<'_>, time: &Bound<'_, PyAny>) -> PyResult<Operation> {
        self.0.check_turn()?;
        let time = span(time)?;
        match &self.0.place {
            On::Simulated(place) => place.process.compute(time),
            On::Real(_) => py.detach(|| {
                let started = Instant::now();
                while started.elapsed() < time {
                    std::hint::spin_loop();
                }
            }),
        }
        // It has been done: not to yield it is no mistake.
        Ok(Operation::done(Kind::CatchUp))
    }

    /// Let time pass; the processor is free meanwhile.
    ///
    /// Parameters
    /// ----------
    /// time : str, float or timedelta
    ///     How long: a text with its unit, or seconds.
    fn sleep(&self, time: &Bound<'_, PyAny>) -> PyResult<Operation> {
        self.0.check_turn()?;
        Operation::new(Kind::Sleep(span(time)?), None)
    }

    /// Wait for several at once.
    ///
    /// Parameters
    /// ----------
    /// *operations : Operation
    ///     What to wait for.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     Yielded, it gives their results as a list when all are there.
    #[pyo3(signature = (*operations))]
    fn all(&self, operations: Vec<Py<Operation>>) -> PyResult<Operation> {
        if operations.is_empty() {
            let text = "all() of nothing: name the operations to wait for";
            return Err(PyTypeError::new_err(text));
        }
        for operation in &operations {
            operation.get().take()?;
        }
        Operation::new(Kind::All(operations), None)
    }

    fn __repr__(&self) -> String {
        match self.0.adapter() {
            (_, 1) => format!("<viaduct host {}>", self.0.name),
            (adapter, _) => format!("<viaduct host {}, adapter {adapter}>", self.0.name),
        }
    }
}

fn level(name: &str) -> PyResult<ReliabilityLevel> {
    match name {
        "unreliable" => Ok(ReliabilityLevel::Unreliable),
        "reliable delivery" => Ok(ReliabilityLevel::ReliableDelivery),
        "reliable reception" => Ok(ReliabilityLevel::ReliableReception),
        other => Err(PyValueError::new_err(format!(
            "reliability is \"unreliable\", \"reliable delivery\" or \"reliable reception\", not \
             {other:?}"
        ))),
    }
}
