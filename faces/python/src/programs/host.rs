//! A host, as the program on it sees it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use viaduct_programs::verbs::flags::access;
use viaduct_programs::{Process, SimulatedFabric, device_name};
use viaduct_provider::via::{Address, ReliabilityLevel};
use viaduct_provider::{Access, ErrorCode, ErrorHandler, Memory, Nic, ViHandle};
use viaduct_shm::Shm;

use super::buffer::Buffer;
use super::completions::SharedCompletionQueue;
use super::device::Device;
use super::home::{Held, Home, has_turn, locked, new_host_id};
use super::operation::{Kind, Operation};
use super::pair::{PairWish, QueuePair};
use super::queue::CompletionQueue;
use super::receives::SharedReceiveQueue;
use super::region::Region;
use super::vi::Vi;
use super::window::Window;
use super::{On, span};
use crate::errors;

/// Bytes of the longest name of a port: with run and host before it, it is no longer than the 32
/// bytes of a discriminator that every fabric has.
const PORT_BYTES_MAX: usize = 16;

/// Names of the hosts with programs, and their numbers.
#[derive(Debug)]
pub(crate) struct Names(pub(crate) Vec<(String, u32)>);

/// A host of a simulation.
#[derive(Debug)]
pub(crate) struct Simulated {
    pub(crate) process: Process,
    pub(crate) nic: Held<Nic<SimulatedFabric>>,
    pub(crate) home: Arc<Home>,
}

impl Simulated {
    /// A host by an adapter, whose NIC is opened.
    pub(crate) fn open(process: Process, home: &Arc<Home>) -> PyResult<Self> {
        let name = device_name(process.adapter());
        let nic = Nic::open(process.fabric(), &name).map_err(errors::refused)?;
        let told = Some(quiet_about_ends());
        nic.set_error_handler(told).map_err(errors::refused)?;
        Ok(Self {
            process,
            nic: Held::new(nic, Some(Arc::clone(home))),
            home: Arc::clone(home),
        })
    }
}

/// This process, as a host of a run.
#[derive(Debug)]
pub(crate) struct Real {
    pub(crate) nic: Nic<Shm>,
    pub(crate) started: Instant,
    /// Whose ports are meant, of all runs on this machine.
    pub(crate) run: u64,
}

/// What everything on a host shares that is of one of its adapters.
#[derive(Debug)]
pub(crate) struct HostState {
    /// A number that no other has.
    pub(crate) id: u64,
    /// That of the state by the host's first adapter, which its program has.
    pub(crate) turn: u64,
    pub(crate) name: String,
    rank: usize,
    names: Arc<Names>,
    pub(crate) place: On<Simulated, Real>,
    /// Whether its program looks at its queues again and again, and does not sleep.
    pub(crate) polls: bool,
    /// The host's VIs, until its program has ended: those that it forgets stay connected.
    vis: Mutex<BTreeMap<ViHandle, Py<Vi>>>,
    /// Its queue pairs by their numbers, for as long.
    pub(crate) pairs: Mutex<BTreeMap<u32, Py<QueuePair>>>,
    pub(crate) shared_receives: Mutex<Vec<Py<SharedReceiveQueue>>>,
    /// Its RDMA adapter, if it was needed.
    pub(crate) device: Mutex<Option<Device>>,
    /// The host by its adapters, from the second on, as far as its program has asked for them: of
    /// the state by the first.
    others: Mutex<BTreeMap<u32, Arc<Self>>>,
    /// The state by the first adapter; none: this is it.
    first: Option<Weak<Self>>,
}

impl HostState {
    pub(crate) fn new(
        rank: usize,
        names: Arc<Names>,
        place: On<Simulated, Real>,
        polls: bool,
    ) -> Arc<Self> {
        let id = new_host_id();
        Self::with(id, id, rank, names, place, polls, None)
    }

    fn with(
        id: u64,
        turn: u64,
        rank: usize,
        names: Arc<Names>,
        place: On<Simulated, Real>,
        polls: bool,
        first: Option<Weak<Self>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            turn,
            name: names.0[rank].0.clone(),
            rank,
            names,
            place,
            polls,
            vis: Mutex::default(),
            pairs: Mutex::default(),
            shared_receives: Mutex::default(),
            device: Mutex::default(),
            others: Mutex::default(),
            first,
        })
    }

    /// The number of its adapter, and how many the host has.
    pub(crate) fn adapter(&self) -> (u32, u32) {
        match &self.place {
            On::Simulated(place) => (place.process.adapter(), place.process.adapters()),
            On::Real(_) => (0, 1),
        }
    }

    /// The same host by one of its adapters, whose NIC is opened when it is first asked for.
    fn at_adapter(self: &Arc<Self>, adapter: u32) -> PyResult<Arc<Self>> {
        let first = match &self.first {
            Some(first) => first.upgrade().ok_or_else(errors::in_use)?,
            None => Arc::clone(self),
        };
        let no_such = || {
            let (_, adapters) = self.adapter();
            let there = match adapters {
                1 => "there is one, number 0".to_owned(),
                _ => format!("there are {adapters}, numbers 0 to {}", adapters - 1),
            };
            PyValueError::new_err(format!("{} has no adapter {adapter}: {there}", self.name))
        };
        if adapter == 0 {
            return Ok(first);
        }
        let On::Simulated(place) = &first.place else {
            return Err(no_such());
        };
        if let Some(known) = locked(&first.others).get(&adapter) {
            return Ok(Arc::clone(known));
        }
        let process = place.process.at_adapter(adapter).ok_or_else(no_such)?;
        let place = Simulated::open(process, &place.home)?;
        let other = Self::with(
            new_host_id(),
            first.turn,
            first.rank,
            Arc::clone(&first.names),
            On::Simulated(place),
            first.polls,
            Some(Arc::downgrade(&first)),
        );
        locked(&first.others).insert(adapter, Arc::clone(&other));
        Ok(other)
    }

    /// The state by each adapter beside this one that its program has asked for.
    fn others(&self) -> Vec<Arc<Self>> {
        locked(&self.others).values().cloned().collect()
    }

    /// Says no to whoever is not the host's program.
    #[inline]
    pub(crate) fn check_turn(&self) -> PyResult<()> {
        if has_turn(self.turn) {
            return Ok(());
        }
        let name = &self.name;
        Err(errors::fabric(
            "InvalidState",
            format!("what belongs to {name} is for the program of {name}, while it runs"),
        ))
    }

    pub(crate) fn home(&self) -> Option<Arc<Home>> {
        match &self.place {
            On::Simulated(place) => Some(Arc::clone(&place.home)),
            On::Real(_) => None,
        }
    }

    /// The time since the run began.
    pub(crate) fn now(&self) -> Duration {
        match &self.place {
            On::Simulated(place) => place.process.now(),
            On::Real(place) => place.started.elapsed(),
        }
    }

    pub(crate) fn vi(&self, py: Python<'_>, handle: ViHandle) -> Option<Py<Vi>> {
        locked(&self.vis).get(&handle).map(|vi| vi.clone_ref(py))
    }

    /// Those of all its adapters.
    pub(crate) fn vis(&self, py: Python<'_>) -> Vec<Py<Vi>> {
        let vis = locked(&self.vis);
        let own = vis.values().map(|vi| vi.clone_ref(py));
        let others = self.others();
        own.chain(others.iter().flat_map(|other| other.vis(py)))
            .collect()
    }

    /// Those of all its adapters.
    pub(crate) fn pairs(&self, py: Python<'_>) -> Vec<Py<QueuePair>> {
        let pairs = locked(&self.pairs);
        let own = pairs.values().map(|pair| pair.clone_ref(py));
        let others = self.others();
        own.chain(others.iter().flat_map(|other| other.pairs(py)))
            .collect()
    }

    /// The queue pair with a number.
    pub(crate) fn pair(&self, py: Python<'_>, number: u32) -> PyResult<Py<QueuePair>> {
        let pairs = locked(&self.pairs);
        let pair = pairs.get(&number).ok_or_else(errors::in_use)?;
        Ok(pair.clone_ref(py))
    }

    /// The program has ended: nothing holds its VIs any more, and its queue pairs are gone.
    pub(crate) fn release(&self) {
        for other in self.others() {
            other.release();
        }
        for pair in std::mem::take(&mut *locked(&self.pairs)).values() {
            pair.get().destroy();
        }
        let shared_receives = std::mem::take(&mut *locked(&self.shared_receives));
        drop(shared_receives);
        let vis = std::mem::take(&mut *locked(&self.vis));
        drop(vis);
    }

    pub(crate) fn make_vi(self: &Arc<Self>, py: Python<'_>, wish: &Wish<'_>) -> PyResult<Py<Vi>> {
        let home = self.home();
        let (handle, vi) = match &self.place {
            On::Simulated(place) => {
                let mut builder = wish.apply(place.nic.vi());
                if let Some(queue) = wish.send_completions
                    && let On::Simulated(queue) = &*queue.get().queue()?
                {
                    builder = builder.send_completions(queue);
                }
                if let Some(queue) = wish.receive_completions
                    && let On::Simulated(queue) = &*queue.get().queue()?
                {
                    builder = builder.receive_completions(queue);
                }
                let vi = builder.build().map_err(errors::refused)?;
                (vi.handle(), On::Simulated(Held::new(vi, home)))
            }
            On::Real(place) => {
                let mut builder = wish.apply(place.nic.vi());
                if let Some(queue) = wish.send_completions
                    && let On::Real(queue) = &*queue.get().queue()?
                {
                    builder = builder.send_completions(queue);
                }
                if let Some(queue) = wish.receive_completions
                    && let On::Real(queue) = &*queue.get().queue()?
                {
                    builder = builder.receive_completions(queue);
                }
                let vi = builder.build().map_err(errors::refused)?;
                (vi.handle(), On::Real(vi))
            }
        };
        let vi = Py::new(py, Vi::new(Arc::clone(self), vi))?;
        locked(&self.vis).insert(handle, vi.clone_ref(py));
        Ok(vi)
    }

    /// Where a port of a host is waited on and asked for: by its adapter of this one's number.
    pub(crate) fn address(&self, number: u32, port: &str) -> PyResult<Address> {
        match &self.place {
            On::Simulated(place) => place
                .nic
                .resolve_at(&format!("host{number}"), self.adapter().0, port.as_bytes())
                .map_err(errors::refused),
            On::Real(place) => {
                let mut name = place.run.to_le_bytes().to_vec();
                name.extend_from_slice(&number.to_le_bytes());
                name.extend_from_slice(port.as_bytes());
                Ok(place.nic.address(&name))
            }
        }
    }

    pub(crate) const fn rank(&self) -> usize {
        self.rank
    }

    /// The name of the host of a rank.
    pub(crate) fn name_of(&self, rank: usize) -> Option<&str> {
        self.names.0.get(rank).map(|(name, _)| name.as_str())
    }

    /// The number of the host that this program runs on.
    pub(crate) fn number(&self) -> u32 {
        self.names.0[self.rank].1
    }

    /// The number of a host by its name.
    pub(crate) fn find(&self, name: &str) -> PyResult<u32> {
        let found = self.names.0.iter().find(|(known, _)| known == name);
        found.map(|(_, number)| *number).ok_or_else(|| {
            let known: Vec<&str> = self.names.0.iter().map(|(name, _)| name.as_str()).collect();
            let more = if known.len() > 8 { ", ..." } else { "" };
            let known = known[..known.len().min(8)].join(", ");
            PyValueError::new_err(format!(
                "no program runs on a host called {name:?}: there are {known}{more}"
            ))
        })
    }
}

/// What a VI is to be like.
#[derive(Debug, Default)]
pub(crate) struct Wish<'a> {
    reliability: Option<ReliabilityLevel>,
    send_depth: Option<u32>,
    receive_depth: Option<u32>,
    max_transfer_bytes: Option<u32>,
    rdma_write: bool,
    rdma_read: bool,
    flow_control: bool,
    request_splitting: bool,
    send_completions: Option<&'a Py<CompletionQueue>>,
    receive_completions: Option<&'a Py<CompletionQueue>>,
}

impl Wish<'_> {
    fn apply<P: viaduct_provider::Provider>(
        &self,
        mut builder: viaduct_provider::ViBuilder<P>,
    ) -> viaduct_provider::ViBuilder<P> {
        if let Some(level) = self.reliability {
            builder = builder.reliability(level);
        }
        if let Some(depth) = self.send_depth {
            builder = builder.send_depth(depth);
        }
        if let Some(depth) = self.receive_depth {
            builder = builder.receive_depth(depth);
        }
        if let Some(bytes) = self.max_transfer_bytes {
            builder = builder.max_transfer_bytes(bytes);
        }
        builder
            .rdma_write(self.rdma_write)
            .rdma_read(self.rdma_read)
            .flow_control(self.flow_control)
            .request_splitting(self.request_splitting)
    }
}

/// Says on stderr what no descriptor tells of, but for the ends of connections: what is posted on
/// them tells of those.
pub(crate) fn quiet_about_ends() -> ErrorHandler {
    Arc::new(|error| {
        if error.code != ErrorCode::ConnectionLost {
            eprintln!("viaduct: {:?} on VI {:?}", error.code, error.vi);
        }
    })
}

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
        self.0.rank
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
