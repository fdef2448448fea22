//! A queue pair, and what its queues complete.

mod make;
mod request;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use viaduct_programs::verbs::flags::completion;
use viaduct_programs::verbs::{
    self, CompletionStatus, QueuePairAttributes, QueuePairState, QueuePairType, SendOpcode,
};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_provider::{Memory, Nic, Provider};

use super::address::{AnyHandle, PairAddress};
use super::completions::Work;
use super::device::{Queue, refused};
use super::home::locked;
use super::host::check_port;
use super::join::{Join, Joined, NUMBER_BYTES};
use super::meeting::Meeting;
use super::operation::{End, Kind, Operation, port_words};
use super::receives::{Receives, receive_number};
use super::region::{Region, Remote};
use super::state::HostState;
use super::vi::AnyVi;
use super::work::WorkCompletion;
use super::{On, on};
use crate::errors;

pub(crate) use make::PairWish;
use request::Wish;

/// Bytes that each end may tell the other when they connect.
const PRIVATE_BYTES_MAX: usize = 256;
/// Where in its routing header a datagram has the GID of its sender.
const SOURCE_GID: u64 = 8;

/// A queue pair of verbs, on a simulated host or of this process.
pub(crate) type AnyPair = On<verbs::QueuePair, viaduct_rdma::QueuePair>;

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
    pub(crate) host: Arc<HostState>,
    pair: AnyPair,
    kind: QueuePairType,
    attributes: QueuePairAttributes,
    /// The address of its adapter.
    gid: [u8; 16],
    sends: Queue,
    receives: Queue,
    shares_completions: SharesCompletions,
    /// Names it in events.
    pub(crate) cookie: u64,
    /// Receives that wait, its own or those that it shares.
    posted: Arc<Receives>,
    state: Mutex<PairState>,
}

/// Which of its queues are those of others, too.
#[derive(Debug)]
struct SharesCompletions {
    sends: bool,
    receives: bool,
}

#[derive(Debug, Default)]
struct PairState {
    /// The connection over which numbers were told; it stays as long as the queue pair.
    told_over: Option<AnyVi>,
    peer: Option<(Option<String>, String)>,
    next_request: u64,
    /// Sends under way: they hold the memory that they name.
    sends: BTreeMap<u64, (Py<Region>, u32)>,
    /// Ways of datagrams, by the GIDs that they lead to.
    ways: BTreeMap<[u8; 16], AnyHandle>,
}

impl QueuePair {
    fn state(&self) -> PyResult<MutexGuard<'_, PairState>> {
        self.host.check_turn()?;
        self.state.try_lock().map_err(|_| errors::in_use())
    }

    pub(crate) const fn queue(&self, is_receive: bool) -> &Queue {
        if is_receive {
            &self.receives
        } else {
            &self.sends
        }
    }

    /// What it is, for a person.
    pub(crate) fn words(&self) -> String {
        match &locked(&self.state).peer {
            None if self.kind == QueuePairType::Ud => "its queue pair for datagrams".to_owned(),
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
        if slf.get().kind == QueuePairType::Ud {
            return Err(PyValueError::new_err(
                "a queue pair for datagrams connects with nobody: give post_send what the peer's \
                 queue_pair.address() gave",
            ));
        }
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

    fn done(
        slf: &Bound<'_, Self>,
        is_receive: bool,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        let shares = &slf.get().shares_completions;
        if if is_receive {
            shares.receives
        } else {
            shares.sends
        } {
            let what = if is_receive { "receives" } else { "sends" };
            return Err(PyValueError::new_err(format!(
                "its {what} complete in a shared completion queue: yield the done() of that"
            )));
        }
        let pair = slf.clone().unbind();
        Operation::new(Kind::Work(Work::Own { pair, is_receive }), timeout)
    }

    /// What connects it.
    pub(crate) fn join<P: Provider>(
        &self,
        nic: &Nic<P>,
        memory: Memory,
        meeting: Meeting<P>,
        name: Option<&str>,
        private_data: &[u8],
        limit: Option<Duration>,
    ) -> PyResult<Join<P>> {
        let bytes = NUMBER_BYTES + PRIVATE_BYTES_MAX;
        let vi = nic.vi().reliability(ReliabilityLevel::ReliableDelivery);
        let vi = vi.build().map_err(errors::refused)?;
        let told = nic.buffer(bytes, memory);
        let telling = nic.buffer(bytes, memory);
        let mut telling = telling.map_err(errors::refused)?;
        let length = NUMBER_BYTES + private_data.len();
        telling[..NUMBER_BYTES].copy_from_slice(&self.number().to_le_bytes());
        telling[NUMBER_BYTES..length].copy_from_slice(private_data);
        Ok(Join {
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
        })
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

    /// A completion as Python has it; an error where the request failed.
    pub(crate) fn completed(
        &self,
        py: Python<'_>,
        completion: &verbs::Completion,
    ) -> PyResult<Py<PyAny>> {
        let received = receive_number(completion.request);
        let (is_receive, number) = (received.is_some(), received.unwrap_or(completion.request));
        let (region, posted) = if is_receive {
            let posted = self.posted.take(number);
            let address = posted.as_ref().map(|posted| posted.address);
            (posted.map(|posted| posted.region), address)
        } else {
            let posted = self.state()?.sends.remove(&number);
            let length = posted.as_ref().map(|(_, length)| u64::from(*length));
            (posted.map(|(region, _)| region), length)
        };
        if completion.status != CompletionStatus::Success {
            return Err(errors::work_completion(number, completion.status));
        }
        let length = match posted {
            // What was posted; verbs tells the length of what came alone.
            Some(length) if !is_receive => length as u32,
            _ => completion.byte_length,
        };
        let is_datagram = is_receive && self.kind == QueuePairType::Ud;
        let source = match (&region, posted) {
            (Some(region), Some(address)) if is_datagram => {
                let gid = region.get().copied(address + SOURCE_GID);
                gid.map(|gid| PairAddress {
                    gid,
                    number: completion.source_queue_pair,
                    // No header has the sender's.
                    queue_key: self.attributes.queue_key,
                })
            }
            _ => None,
        };
        let has_immediate = completion.flags & completion::WITH_IMMEDIATE != 0;
        let completion = WorkCompletion {
            request: number,
            opcode: completion.opcode,
            length,
            immediate: has_immediate.then_some(completion.immediate),
            region,
            source,
        };
        Ok(Py::new(py, completion)?.into_any())
    }

    /// Whether all sends have completed, when those that have are taken.
    pub(crate) fn has_sent_all(&self, py: Python<'_>) -> bool {
        while self.state().is_ok_and(|state| !state.sends.is_empty()) {
            match self.sends.take() {
                Ok(None) => return false,
                // Nobody waits for its outcome.
                Ok(Some(completion)) => drop(self.host.completed(py, &completion)),
                // The queue is gone: it will say no more.
                Err(_) => return true,
            }
        }
        true
    }

    /// Sleeps until something completes that it may have sent, for so long at most, between
    /// processes: it is nobody's.
    pub(crate) fn wait_for_sends(&self, py: Python<'_>, limit: Duration) {
        let waited = py.detach(|| self.sends.wait(&Instant::now(), Some(limit)));
        if let Ok(Some(completion)) = waited {
            drop(self.host.completed(py, &completion));
        }
    }

    /// An event about it has been dealt with.
    pub(crate) fn acknowledge_event(&self) {
        on!(&self.pair, pair => pair.acknowledge_async_events(1));
    }

    /// The program has ended, and its queue pairs with it.
    pub(crate) fn destroy(&self) {
        // It may be gone already, with its host.
        let _ = on!(&self.pair, pair => pair.destroy());
        let vi = locked(&self.state).told_over.take();
        drop(vi);
    }

    /// Goes on to a state, as verbs says.
    fn step(&self, to: QueuePairState, attributes: &QueuePairAttributes) -> PyResult<()> {
        self.host.check_turn()?;
        for (step, mask) in attributes.steps_up(self.kind) {
            if step.state == to {
                let modified = on!(&self.pair, pair => pair.modify(&step, mask));
                modified.map_err(|error| refused(&error))?;
            }
        }
        Ok(())
    }

    /// The way of a datagram.
    fn way(&self, state: &mut PairState, to: &PairAddress) -> PyResult<AnyHandle> {
        if let Some(way) = state.ways.get(&to.gid) {
            return Ok(way.clone());
        }
        let way = self.host.with_device(|device| to.handle(device))?;
        state.ways.insert(to.gid, way.clone());
        Ok(way)
    }

    /// Posts a request to the send queue; its number.
    fn post(&self, region: &Bound<'_, Region>, wish: &Wish<'_, '_>) -> PyResult<u64> {
        let element = region.get().part(&self.host, wish.offset, wish.length)?;
        let mut state = self.state()?;
        let number = state.next_request;
        let remote = match wish.remote {
            Some((remote, offset)) => Some(Remote::from_token(remote)?.at(offset)),
            None => None,
        };
        let to = wish.to.map(PairAddress::from_token).transpose()?;
        if to.is_some() && self.kind != QueuePairType::Ud {
            return Err(PyValueError::new_err(
                "a queue pair that is connected sends to its peer: leave out `to`",
            ));
        }
        let way = to.as_ref().map(|to| self.way(&mut state, to)).transpose()?;
        let element = [element];
        let posted = match &self.pair {
            On::Simulated(pair) => {
                let way = way.as_ref().and_then(On::simulated);
                let request = wish.request(number, &element, remote, way.zip(to));
                // SAFETY: the element lies in the region, which is there.
                unsafe { pair.post_send(&request) }
            }
            On::Real(pair) => {
                let way = way.as_ref().and_then(On::real).copied();
                let request = wish.request(number, &element, remote, way.zip(to));
                // SAFETY: the element lies in the region, which is there until it completes.
                unsafe { pair.post_send(&request) }
            }
        };
        posted.map_err(|error| refused(&error))?;
        state.next_request += 1;
        let posted = (region.clone().unbind(), element[0].length);
        state.sends.insert(number, posted);
        Ok(number)
    }
}

/// Bytes of what an atomic changes.
const ATOMIC_BYTES: usize = 8;

#[pymethods]
impl QueuePair {
    /// Its number, by which its peer names it.
    #[getter]
    fn number(&self) -> u32 {
        on!(&self.pair, pair => pair.number())
    }

    /// Its state, as verbs calls it: `"RESET"`, `"INIT"`, `"RTR"`, `"RTS"`, `"SQD"`, `"SQE"` or
    /// `"ERR"`.
    #[getter(state)]
    fn state_name(&self) -> PyResult<&'static str> {
        use verbs::QueuePairState as State;

        self.host.check_turn()?;
        let state = on!(&self.pair, pair => pair.state());
        Ok(match state.map_err(|error| refused(&error))? {
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

    /// Give what another program needs to reach it: 24 bytes, with the GID of its adapter, its
    /// number and its Q_Key.
    ///
    /// Programs tell each other by whatever connects them already. Then each takes its queue pair
    /// through `ready_to_receive` and `ready_to_send`, where `connect` and `accept` do all of that;
    /// datagrams name it in `post_send`.
    fn address<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let address = PairAddress {
            gid: self.gid,
            number: self.number(),
            queue_key: self.attributes.queue_key,
        };
        PyBytes::new(py, &address.to_bytes())
    }

    /// Take what a peer sends from now on: the state RTR.
    ///
    /// Parameters
    /// ----------
    /// peer : bytes
    ///     What the peer's `address` gave.
    fn ready_to_receive(&self, peer: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut attributes = self.attributes;
        PairAddress::from_token(peer)?.lead(&mut attributes);
        self.step(QueuePairState::ReadyToReceive, &attributes)?;
        self.state()?.peer = Some((None, String::new()));
        Ok(())
    }

    /// Send from now on: the state RTS. What comes before the peer is in RTR is sent again, if the
    /// queue pair is reliable; otherwise it is lost.
    fn ready_to_send(&self) -> PyResult<()> {
        self.step(QueuePairState::ReadyToSend, &self.attributes)
    }

    /// Post a receive: the next message of the peer that no earlier one takes goes there.
    ///
    /// A datagram comes 40 bytes into it, behind its routing header.
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
        let mut state = self.state()?;
        let number = state.next_request;
        let place = (region, offset, length);
        self.posted.post(
            &self.host,
            number,
            place,
            |request| on!(&self.pair, pair => pair.post_receive(request)),
        )?;
        state.next_request += 1;
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
    /// to : bytes, optional
    ///     Where a datagram goes: what the peer's `QueuePair.address` gave, or
    ///     `WorkCompletion.source`.
    #[pyo3(signature = (
        region, length = None, *, offset = 0, immediate = None, inline = false, to = None
    ))]
    fn post_send(
        &self,
        region: &Bound<'_, Region>,
        length: Option<usize>,
        offset: usize,
        immediate: Option<u32>,
        inline: bool,
        to: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let opcode = match immediate {
            Some(_) => SendOpcode::SendWithImmediate,
            None => SendOpcode::Send,
        };
        let wish = Wish {
            immediate,
            inline,
            to,
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
        Self::done(slf, false, timeout)
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
        Self::done(slf, true, timeout)
    }

    fn __repr__(&self) -> String {
        format!(
            "<viaduct queue pair {} of {}>",
            self.number(),
            self.host.name
        )
    }
}
