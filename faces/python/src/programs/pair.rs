//! A queue pair, and what its queues complete.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use viaduct_programs::SimulatedFabric;
use viaduct_programs::verbs::flags::{access, completion, send};
use viaduct_programs::verbs::{
    self, Capabilities, CompletionStatus, QueuePairAttributes, QueuePairOptions, QueuePairType,
    ReceiveRequest, SendOpcode, SendRequest,
};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_provider::{Memory, Vi};

use super::aside::Aside;
use super::device::{Queue, refused};
use super::home::{Held, locked};
use super::host::{HostState, Simulated, check_port};
use super::join::{Join, Joined, NUMBER_BYTES};
use super::meeting::Meeting;
use super::operation::{End, Kind, Operation, port_words};
use super::region::{Region, Remote};
use super::work::WorkCompletion;
use crate::errors;

/// Bytes that each end may tell the other when they connect.
const PRIVATE_BYTES_MAX: usize = 256;
/// Remote reads and atomics that are under way at once.
const READS_MAX: u8 = 16;

/// What a queue pair is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairWish<'a> {
    pub(crate) kind: &'a str,
    pub(crate) send_depth: u32,
    pub(crate) receive_depth: u32,
    pub(crate) inline_bytes: u32,
    pub(crate) ack_timeout: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry: u8,
}

impl HostState {
    pub(crate) fn make_pair(
        self: &Arc<Self>,
        py: Python<'_>,
        wish: &PairWish<'_>,
    ) -> PyResult<Py<QueuePair>> {
        let kind = match wish.kind {
            "rc" => QueuePairType::Rc,
            "uc" => QueuePairType::Uc,
            other => {
                return Err(PyValueError::new_err(format!(
                    "kind is \"rc\" (reliable connected) or \"uc\" (unreliable connected), not {other:?}"
                )));
            }
        };
        let attributes = QueuePairAttributes {
            access_flags: access::LOCAL_WRITE
                | access::REMOTE_WRITE
                | access::REMOTE_READ
                | access::REMOTE_ATOMIC,
            timeout: wish.ack_timeout,
            retry_count: wish.retry_count,
            receiver_not_ready_retry: wish.rnr_retry,
            min_receiver_not_ready_timer: 1,
            max_read_atomic: READS_MAX,
            max_destination_read_atomic: READS_MAX,
            // Its peer's number is known when they connect.
            ..QueuePairAttributes::connection(0)
        };
        let (pair, sends, receives) = self.with_device(|_, device| {
            let sends = device.queue(wish.send_depth)?;
            let receives = device.queue(wish.receive_depth)?;
            let pair = device.domain.create_queue_pair(&QueuePairOptions {
                kind,
                capabilities: Capabilities {
                    max_send_requests: wish.send_depth,
                    max_receive_requests: wish.receive_depth,
                    max_send_elements: 1,
                    max_receive_elements: 1,
                    max_inline_bytes: wish.inline_bytes,
                },
                send_queue: sends.queue.clone(),
                receive_queue: receives.queue.clone(),
                shared_receive_queue: None,
                is_every_send_signaled: true,
                cookie: 0,
            })?;
            // It takes receives before it is connected.
            if let Some((step, mask)) = attributes.steps_up(kind).next() {
                pair.modify(&step, mask)?;
            }
            Ok((pair, sends, receives))
        })?;
        let pair = QueuePair {
            host: Arc::clone(self),
            pair,
            kind,
            attributes,
            sends,
            receives,
            state: Mutex::default(),
        };
        let pair = Py::new(py, pair)?;
        locked(&self.pairs).push(pair.clone_ref(py));
        Ok(pair)
    }
}

/// A queue pair of a host, connected with one of a peer: sends, remote writes, reads and atomics.
///
/// `Host.queue_pair` makes it. Requests of a queue complete in the order in which they were posted,
/// each with the number that its post gave.
///
/// Raises
/// ------
/// FabricError
///     What verbs refuses, with the name of its error number as `code`: `"EINVAL"` for a post in
///     another state, `"ENOMEM"` for one to a full queue.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def counts(host):
/// ...     pair, region = host.queue_pair(), host.region(8)
/// ...     counter = yield pair.connect("keeps")
/// ...     for _ in range(3):
/// ...         pair.post_fetch_add(region, counter, 5)
/// ...     numbers = []
/// ...     for _ in range(3):
/// ...         numbers.append((yield pair.send_done()).request)
/// ...     pair.post_send(region, 0)
/// ...     yield pair.send_done()
/// ...     return numbers, int.from_bytes(region[:], "little")
/// >>> def keeps(host):
/// ...     pair, counter = host.queue_pair(), host.region(8, remote_atomic=True)
/// ...     pair.post_receive(host.region(8))
/// ...     yield pair.accept(private_data=counter.remote())
/// ...     done = yield pair.receive_done()
/// ...     return done.opcode, int.from_bytes(counter[:], "little")
/// >>> via.cluster("sim:rnic-gen5", {"counts": counts, "keeps": keeps}).run().returned
/// {'counts': ([0, 1, 2], 10), 'keeps': ('receive', 15)}
#[pyclass(frozen, name = "QueuePair", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct QueuePair {
    host: Arc<HostState>,
    pair: verbs::QueuePair,
    kind: QueuePairType,
    attributes: QueuePairAttributes,
    sends: Queue,
    receives: Queue,
    state: Mutex<PairState>,
}

#[derive(Debug, Default)]
struct PairState {
    /// The connection over which numbers were told; it stays as long as the queue pair.
    told_over: Option<Held<Vi<SimulatedFabric>>>,
    peer: Option<(Option<String>, String)>,
    next_request: u64,
    /// Requests under way: they hold the memory that they name.
    sends: BTreeMap<u64, (Py<Region>, u32)>,
    receives: BTreeMap<u64, (Py<Region>, u32)>,
}

impl QueuePair {
    fn state(&self) -> PyResult<MutexGuard<'_, PairState>> {
        self.host.check_turn()?;
        self.state.try_lock().map_err(|_| errors::in_use())
    }

    const fn queue(&self, is_receive: bool) -> &Queue {
        if is_receive {
            &self.receives
        } else {
            &self.sends
        }
    }

    /// What it is, for a person.
    pub(crate) fn words(&self) -> String {
        match &locked(&self.state).peer {
            None => "a queue pair that is not connected".to_owned(),
            Some((name, port)) => format!(
                "its queue pair with {}{}",
                name.as_deref().unwrap_or("a stranger"),
                port_words(port)
            ),
        }
    }

    fn connection(
        slf: &Bound<'_, Self>,
        host: Option<&str>,
        port: &str,
        private_data: &[u8],
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        check_port(port)?;
        if private_data.len() > PRIVATE_BYTES_MAX {
            return Err(PyValueError::new_err(format!(
                "private data has at most {PRIVATE_BYTES_MAX} bytes, not {}",
                private_data.len()
            )));
        }
        let (end, port) = (
            End::Pair(slf.clone().unbind(), private_data.to_vec()),
            port.to_owned(),
        );
        let kind = match host {
            None => Kind::Accept { end, port },
            Some(name) => Kind::Connect {
                end,
                number: slf.get().host.find(name)?,
                name: name.to_owned(),
                port,
            },
        };
        Operation::new(kind, timeout)
    }

    /// Begins to connect it on a simulated host.
    pub(crate) fn join(
        &self,
        place: &Simulated,
        meeting: Meeting,
        name: Option<&str>,
        private_data: &[u8],
        limit: Option<Duration>,
    ) -> PyResult<Arc<Aside<Joined>>> {
        let bytes = NUMBER_BYTES + PRIVATE_BYTES_MAX;
        let vi = place
            .nic
            .vi()
            .reliability(ReliabilityLevel::ReliableDelivery);
        let vi = vi.build().map_err(errors::refused)?;
        let told = place.nic.buffer(bytes, Memory::Private);
        let telling = place.nic.buffer(bytes, Memory::Private);
        let mut telling = telling.map_err(errors::refused)?;
        let length = NUMBER_BYTES + private_data.len();
        telling[..NUMBER_BYTES].copy_from_slice(&self.pair.number().to_le_bytes());
        telling[NUMBER_BYTES..length].copy_from_slice(private_data);
        let join = Join {
            vi,
            meeting,
            name: name.map(str::to_owned),
            told: told.map_err(errors::refused)?,
            telling,
            length,
            pair: self.pair.clone(),
            kind: self.kind,
            attributes: self.attributes,
            limit,
        };
        let home = Arc::clone(&place.home);
        Ok(Aside::call(&place.process, move |process| {
            let (vi, rank, data) = join.carry_out(process)?;
            Ok((Held::new(vi, Some(home)), rank, data))
        }))
    }

    /// It is connected: what the peer told.
    pub(crate) fn joined(
        &self,
        py: Python<'_>,
        name: Option<&str>,
        port: &str,
        joined: Joined,
    ) -> PyResult<Py<PyAny>> {
        let (vi, rank, data) = joined?;
        let asked = rank.and_then(|rank| self.host.name_of(rank));
        let name = name.or(asked).map(str::to_owned);
        let mut state = self.state()?;
        state.told_over = Some(vi);
        state.peer = Some((name, port.to_owned()));
        Ok(PyBytes::new(py, &data).into_any().unbind())
    }

    /// Begins to sleep until something completes, on a simulated host.
    pub(crate) fn wait_aside(
        &self,
        place: &Simulated,
        is_receive: bool,
        limit: Option<Duration>,
    ) -> Arc<Aside<verbs::Result<Option<verbs::Completion>>>> {
        let queue = self.queue(is_receive).clone();
        Aside::call(&place.process, move |process| queue.wait(process, limit))
    }

    /// Looks once for a completion.
    pub(crate) fn look(&self, py: Python<'_>, is_receive: bool) -> PyResult<Option<Py<PyAny>>> {
        let taken = self.queue(is_receive).take();
        let taken = taken.map_err(|error| refused(&error))?;
        taken
            .map(|completion| self.completed(py, is_receive, &completion))
            .transpose()
    }

    /// A completion as Python has it; an error where the request failed.
    pub(crate) fn completed(
        &self,
        py: Python<'_>,
        is_receive: bool,
        completion: &verbs::Completion,
    ) -> PyResult<Py<PyAny>> {
        let mut state = self.state()?;
        let posted = if is_receive {
            state.receives.remove(&completion.request)
        } else {
            state.sends.remove(&completion.request)
        };
        drop(state);
        if completion.status != CompletionStatus::Success {
            return Err(errors::work_completion(completion));
        }
        let length = match &posted {
            // What was posted; verbs tells the length of what came alone.
            Some((_, length)) if !is_receive => *length,
            _ => completion.byte_length,
        };
        let has_immediate = completion.flags & completion::WITH_IMMEDIATE != 0;
        let completion = WorkCompletion {
            request: completion.request,
            opcode: completion.opcode,
            length,
            immediate: has_immediate.then_some(completion.immediate),
            region: posted.map(|(region, _)| region),
        };
        Ok(Py::new(py, completion)?.into_any())
    }

    /// Whether all sends have completed, when those that have are taken.
    pub(crate) fn has_sent_all(&self, py: Python<'_>) -> bool {
        loop {
            if self.state().is_ok_and(|state| state.sends.is_empty()) {
                return true;
            }
            match self.look(py, false) {
                Ok(None) => return false,
                // Nobody waits for its outcome, unless the queue itself is gone.
                Ok(Some(_)) => {}
                Err(_) if self.pair.state().is_err() => return true,
                Err(_) => {}
            }
        }
    }

    /// The program has ended, and its queue pairs with it.
    pub(crate) fn destroy(&self) {
        // It may be gone already, with its host.
        let _ = self.pair.destroy();
        let vi = locked(&self.state).told_over.take();
        drop(vi);
    }

    /// The bytes that are meant; an error if they are not in the region.
    fn part(
        &self,
        region: &Bound<'_, Region>,
        offset: usize,
        length: Option<usize>,
    ) -> PyResult<(usize, u32)> {
        let region = region.get();
        if region.host() != self.host.id {
            return Err(PyValueError::new_err(
                "the region is registered on another host: take one of the queue pair's host",
            ));
        }
        let all = region.length();
        let length = length.unwrap_or_else(|| all.saturating_sub(offset));
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= all);
        match u32::try_from(length) {
            Ok(length) if is_inside => Ok((offset, length)),
            _ => Err(PyValueError::new_err(format!(
                "{length} bytes from {offset} on are not in a region of {all} bytes"
            ))),
        }
    }

    /// Posts a request to the send queue; its number.
    fn post(&self, region: &Bound<'_, Region>, wish: &Wish<'_, '_>) -> PyResult<u64> {
        let (offset, length) = self.part(region, wish.offset, wish.length)?;
        let mut state = self.state()?;
        let number = state.next_request;
        let elements = [region.get().element(offset, length)];
        let elements: &[_] = if length == 0 { &[] } else { &elements };
        let mut request = SendRequest::new(number, wish.opcode).with_elements(elements);
        if wish.inline {
            request = request.with_flags(send::INLINE);
        }
        if let Some((remote, offset)) = wish.remote {
            let remote = Remote::from_token(remote)?;
            request = request.with_remote(remote.address.wrapping_add(offset), remote.key);
        }
        request.immediate = wish.immediate.unwrap_or_default();
        (request.compare_add, request.swap) = wish.atomic;
        // SAFETY: the element lies in the region, which is there.
        unsafe { self.pair.post_send(&request) }.map_err(|error| refused(&error))?;
        state.next_request += 1;
        state
            .sends
            .insert(number, (region.clone().unbind(), length));
        Ok(number)
    }
}

/// A request to be posted.
struct Wish<'a, 'py> {
    opcode: SendOpcode,
    offset: usize,
    length: Option<usize>,
    remote: Option<(&'a Bound<'py, PyAny>, u64)>,
    immediate: Option<u32>,
    inline: bool,
    atomic: (u64, u64),
}

impl Wish<'_, '_> {
    const fn new(opcode: SendOpcode, offset: usize, length: Option<usize>) -> Self {
        Self {
            opcode,
            offset,
            length,
            remote: None,
            immediate: None,
            inline: false,
            atomic: (0, 0),
        }
    }
}

/// Bytes of what an atomic changes.
const ATOMIC_BYTES: usize = 8;

#[pymethods]
impl QueuePair {
    /// Its number, by which its peer names it.
    #[getter]
    const fn number(&self) -> u32 {
        self.pair.number()
    }

    /// Its state, as verbs calls it: `"RESET"`, `"INIT"`, `"RTR"`, `"RTS"`, `"SQD"`, `"SQE"` or
    /// `"ERR"`.
    #[getter(state)]
    fn state_name(&self) -> PyResult<&'static str> {
        use verbs::QueuePairState as State;

        self.host.check_turn()?;
        let state = self.pair.state().map_err(|error| refused(&error))?;
        Ok(match state {
            State::Reset => "RESET",
            State::Init => "INIT",
            State::ReadyToReceive => "RTR",
            State::ReadyToSend => "RTS",
            State::SendDrained => "SQD",
            State::SendError => "SQE",
            State::Error => "ERR",
        })
    }

    /// The name of the host that it is connected with.
    #[getter]
    fn peer(&self) -> Option<String> {
        locked(&self.state).peer.as_ref()?.0.clone()
    }

    /// Connect with a host whose program waits in `accept`.
    ///
    /// The ends tell each other their numbers over a VI of their own, as RDMA programs do over a
    /// socket.
    ///
    /// Parameters
    /// ----------
    /// host : str
    ///     Its name.
    /// port : str
    ///     Tells several apart, 16 bytes at most.
    /// private_data : bytes
    ///     What the peer is told with it, 256 bytes at most: `Region.remote`, say.
    /// timeout : str, float or timedelta, optional
    ///     How long at most; a second of simulated time if it is not said.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     Yielded, it gives what the peer told, when both ends are ready; or it raises
    ///     `FabricError`.
    #[pyo3(signature = (host, *, port = "", private_data = Cow::default(), timeout = None))]
    fn connect(
        slf: &Bound<'_, Self>,
        host: &str,
        port: &str,
        private_data: Cow<'_, [u8]>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        Self::connection(slf, Some(host), port, &private_data, timeout)
    }

    /// Wait for a queue pair to connect; `peer` says whose did.
    ///
    /// Parameters
    /// ----------
    /// port : str
    ///     Which of this host's.
    /// private_data : bytes
    ///     What the peer is told with it, 256 bytes at most.
    /// timeout : str, float or timedelta, optional
    ///     How long at most.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     As of `connect`.
    #[pyo3(signature = (*, port = "", private_data = Cow::default(), timeout = None))]
    fn accept(
        slf: &Bound<'_, Self>,
        port: &str,
        private_data: Cow<'_, [u8]>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        Self::connection(slf, None, port, &private_data, timeout)
    }

    /// Post a receive: the next message of the peer that no earlier one takes goes there.
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
        let (offset, length) = self.part(region, offset, length)?;
        let mut state = self.state()?;
        let number = state.next_request;
        let elements = [region.get().element(offset, length)];
        let elements: &[_] = if length == 0 { &[] } else { &elements };
        let request = ReceiveRequest {
            request: number,
            elements,
        };
        let posted = self.pair.post_receive(&request);
        posted.map_err(|error| refused(&error))?;
        state.next_request += 1;
        state
            .receives
            .insert(number, (region.clone().unbind(), length));
        Ok(number)
    }

    /// Post a send.
    ///
    /// Parameters
    /// ----------
    /// region : Region
    ///     Where the bytes are.
    /// length : int, optional
    ///     How many; up to the region's end if it is not said.
    /// offset : int
    ///     Where in the region.
    /// immediate : int, optional
    ///     Four bytes, as a number, that come with the message.
    /// inline : bool
    ///     Whether the bytes go with the descriptor, which spares the adapter a fetch: at most as
    ///     many as `inline_bytes` of the queue pair.
    #[pyo3(signature = (region, length = None, *, offset = 0, immediate = None, inline = false))]
    fn post_send(
        &self,
        region: &Bound<'_, Region>,
        length: Option<usize>,
        offset: usize,
        immediate: Option<u32>,
        inline: bool,
    ) -> PyResult<u64> {
        let opcode = match immediate {
            Some(_) => SendOpcode::SendWithImmediate,
            None => SendOpcode::Send,
        };
        let wish = Wish {
            immediate,
            inline,
            ..Wish::new(opcode, offset, length)
        };
        self.post(region, &wish)
    }

    /// Post a write into a peer's region.
    ///
    /// Parameters
    /// ----------
    /// region : Region
    ///     Where the bytes are.
    /// target : bytes
    ///     What the peer's `Region.remote` gave; the region is made with `remote_write`.
    /// length : int, optional
    ///     How many; up to the region's end if it is not said.
    /// offset, target_offset : int
    ///     Where in this region, and where in the peer's.
    /// immediate : int, optional
    ///     A number of four bytes; the peer's oldest receive then completes with it.
    /// inline : bool
    ///     As of `post_send`.
    #[pyo3(signature = (
        region, target, length = None, *, offset = 0, target_offset = 0, immediate = None,
        inline = false
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn post_write(
        &self,
        region: &Bound<'_, Region>,
        target: &Bound<'_, PyAny>,
        length: Option<usize>,
        offset: usize,
        target_offset: u64,
        immediate: Option<u32>,
        inline: bool,
    ) -> PyResult<u64> {
        let opcode = match immediate {
            Some(_) => SendOpcode::RdmaWriteWithImmediate,
            None => SendOpcode::RdmaWrite,
        };
        let wish = Wish {
            remote: Some((target, target_offset)),
            immediate,
            inline,
            ..Wish::new(opcode, offset, length)
        };
        self.post(region, &wish)
    }

    /// Post a read from a peer's region.
    ///
    /// Parameters
    /// ----------
    /// region : Region
    ///     Where to read to.
    /// source : bytes
    ///     What the peer's `Region.remote` gave; the region is made with `remote_read`.
    /// length : int, optional
    ///     How many bytes; up to this region's end if it is not said.
    /// offset, source_offset : int
    ///     Where in this region, and where in the peer's.
    #[pyo3(signature = (region, source, length = None, *, offset = 0, source_offset = 0))]
    fn post_read(
        &self,
        region: &Bound<'_, Region>,
        source: &Bound<'_, PyAny>,
        length: Option<usize>,
        offset: usize,
        source_offset: u64,
    ) -> PyResult<u64> {
        let wish = Wish {
            remote: Some((source, source_offset)),
            ..Wish::new(SendOpcode::RdmaRead, offset, length)
        };
        self.post(region, &wish)
    }

    /// Post an addition to eight bytes of a peer's region, in one step.
    ///
    /// Parameters
    /// ----------
    /// region : Region
    ///     Where the eight bytes go that were there before, in the byte order of the machine.
    /// target : bytes
    ///     What the peer's `Region.remote` gave; the region is made with `remote_atomic`.
    /// add : int
    ///     What is added, modulo 2**64.
    /// offset, target_offset : int
    ///     Where in this region, and where in the peer's, at a multiple of eight.
    #[pyo3(signature = (region, target, add, *, offset = 0, target_offset = 0))]
    fn post_fetch_add(
        &self,
        region: &Bound<'_, Region>,
        target: &Bound<'_, PyAny>,
        add: u64,
        offset: usize,
        target_offset: u64,
    ) -> PyResult<u64> {
        let wish = Wish {
            remote: Some((target, target_offset)),
            atomic: (add, 0),
            ..Wish::new(SendOpcode::AtomicFetchAndAdd, offset, Some(ATOMIC_BYTES))
        };
        self.post(region, &wish)
    }

    /// Post a comparison of eight bytes of a peer's region, which stores others if they are equal,
    /// in one step.
    ///
    /// Parameters
    /// ----------
    /// region : Region
    ///     Where the eight bytes go that were there before, in the byte order of the machine.
    /// target : bytes
    ///     What the peer's `Region.remote` gave; the region is made with `remote_atomic`.
    /// compare, swap : int
    ///     What to compare with, and what to store.
    /// offset, target_offset : int
    ///     Where in this region, and where in the peer's, at a multiple of eight.
    #[pyo3(signature = (region, target, compare, swap, *, offset = 0, target_offset = 0))]
    fn post_compare_swap(
        &self,
        region: &Bound<'_, Region>,
        target: &Bound<'_, PyAny>,
        compare: u64,
        swap: u64,
        offset: usize,
        target_offset: u64,
    ) -> PyResult<u64> {
        let wish = Wish {
            remote: Some((target, target_offset)),
            atomic: (compare, swap),
            ..Wish::new(SendOpcode::AtomicCompareAndSwap, offset, Some(ATOMIC_BYTES))
        };
        self.post(region, &wish)
    }

    /// Wait for the oldest request of the send queue to complete.
    ///
    /// Parameters
    /// ----------
    /// timeout : str, float or timedelta, optional
    ///     How long at most.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     Yielded, it gives a `WorkCompletion`; or it raises `DescriptorError`, `FlushedError`
    ///     after an error, or `TimeLimitError`.
    #[pyo3(signature = (*, timeout = None))]
    fn send_done(slf: &Bound<'_, Self>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Operation> {
        let (pair, is_receive) = (slf.clone().unbind(), false);
        Operation::new(Kind::Work { pair, is_receive }, timeout)
    }

    /// Wait for the oldest receive to complete.
    ///
    /// Parameters
    /// ----------
    /// timeout : str, float or timedelta, optional
    ///     How long at most.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     As of `send_done`.
    #[pyo3(signature = (*, timeout = None))]
    fn receive_done(
        slf: &Bound<'_, Self>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        let (pair, is_receive) = (slf.clone().unbind(), true);
        Operation::new(Kind::Work { pair, is_receive }, timeout)
    }

    fn __repr__(&self) -> String {
        format!(
            "<viaduct queue pair {} of {}>",
            self.number(),
            self.host.name
        )
    }
}
