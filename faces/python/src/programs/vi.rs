//! A virtual interface, and what its queues complete.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PySlice};
use viaduct_programs::SimulatedFabric;
use viaduct_provider::{CompletionError, Received, Refused, RemoteBuffer, Sent};
use viaduct_shm::Shm;

use super::buffer::Buffer;
use super::home::{Held, locked};
use super::host::check_port;
use super::operation::{End, Kind, Operation, port_words};
use super::state::HostState;
use super::{On, on};
use crate::errors;

pub(crate) type AnyVi = On<Held<viaduct_provider::Vi<SimulatedFabric>>, viaduct_provider::Vi<Shm>>;

/// A virtual interface of a host: a send queue and a receive queue, connected with one peer.
///
/// `Host.vi` makes it. Descriptors of a queue complete in the order in which they were posted.
///
/// Raises
/// ------
/// FabricError
///     What VIA refuses, with its `code`: a post to a full queue, a VI in another state.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def asks(host):
/// ...     vi = host.vi()
/// ...     vi.post_receive(host.buffer(8))
/// ...     yield vi.connect("answers")
/// ...     vi.post_send(host.buffer(3), immediate=41)
/// ...     answer = yield vi.receive_done()
/// ...     return vi.peer, answer.immediate
/// >>> def answers(host):
/// ...     vi = host.vi()
/// ...     vi.post_receive(host.buffer(8))
/// ...     yield vi.accept()
/// ...     question = yield vi.receive_done()
/// ...     vi.post_send(question.buffer, 0, immediate=question.immediate + 1)
/// ...     return vi.peer, question.length
/// >>> via.cluster("sim:rnic-gen4", {"asks": asks, "answers": answers}).run().returned
/// {'asks': ('answers', 42), 'answers': ('asks', 3)}
#[pyclass(frozen, name = "Vi", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct Vi {
    pub(crate) host: Arc<HostState>,
    state: Mutex<ViState>,
    peer: Mutex<Option<Peer>>,
}

/// With whom a VI is connected.
#[derive(Debug)]
pub(crate) struct Peer {
    /// `None` if it is no program of this run.
    pub(crate) name: Option<String>,
    pub(crate) is_accepted: bool,
    pub(crate) port: String,
}

impl Peer {
    /// After "its VI".
    fn words(&self) -> String {
        let way = if self.is_accepted { "from" } else { "to" };
        let name = self.name.as_deref().unwrap_or("a stranger");
        format!("{way} {name}{}", port_words(&self.port))
    }
}

/// What belongs to whoever uses a VI at the moment.
#[derive(Debug)]
pub(crate) struct ViState {
    /// `None` while it is being connected.
    pub(crate) vi: Option<AnyVi>,
    /// Buffers that are posted, the oldest first: they complete in that order.
    sends: VecDeque<Py<Buffer>>,
    receives: VecDeque<Py<Buffer>>,
}

impl ViState {
    /// The VI, unless it is being connected.
    pub(crate) fn vi(&mut self) -> PyResult<&mut AnyVi> {
        self.vi
            .as_mut()
            .ok_or_else(|| errors::fabric("InvalidState", "the VI is being connected".to_owned()))
    }

    /// Sends, remote writes and reads that have not completed.
    pub(crate) fn sends(&self) -> usize {
        self.sends.len()
    }

    pub(crate) fn received(
        &mut self,
        py: Python<'_>,
        result: Result<Received, CompletionError>,
    ) -> PyResult<Py<PyAny>> {
        let is_remote_write = result.as_ref().is_ok_and(Received::is_remote_write);
        let taken = match result {
            Ok(received) => Ok((received.buffer, received.length, received.immediate)),
            Err(error) => Err(error),
        };
        complete(py, &mut self.receives, taken, is_remote_write)
    }

    pub(crate) fn sent(
        &mut self,
        py: Python<'_>,
        result: Result<Sent, CompletionError>,
    ) -> PyResult<Py<PyAny>> {
        let taken = result.map(|sent| (sent.buffer, sent.length, None));
        complete(py, &mut self.sends, taken, false)
    }
}

/// Gives the oldest buffer of a queue back to Python.
fn complete(
    py: Python<'_>,
    posted: &mut VecDeque<Py<Buffer>>,
    taken: Result<(viaduct_provider::Buffer, usize, Option<u32>), CompletionError>,
    is_remote_write: bool,
) -> PyResult<Py<PyAny>> {
    let mut give_back = |bytes: viaduct_provider::Buffer| {
        // Descriptors complete in the order in which they were posted.
        let buffer = posted.pop_front();
        if let Some(buffer) = &buffer {
            buffer.get().put_back(bytes);
        }
        buffer
    };
    match taken {
        Ok((bytes, length, immediate)) => {
            let completion = Completion {
                buffer: give_back(bytes),
                length,
                immediate,
                is_remote_write,
            };
            Ok(Py::new(py, completion)?.into_any())
        }
        Err(error) => {
            let raised = errors::completion(&error);
            if let CompletionError::Failed { buffer, .. } = error {
                give_back(buffer);
            }
            Err(raised)
        }
    }
}

impl Vi {
    pub(crate) fn new(host: Arc<HostState>, vi: AnyVi) -> Self {
        Self {
            host,
            state: Mutex::new(ViState {
                vi: Some(vi),
                sends: VecDeque::new(),
                receives: VecDeque::new(),
            }),
            peer: Mutex::default(),
        }
    }

    /// To be used by the program of its host.
    pub(crate) fn state(&self) -> PyResult<MutexGuard<'_, ViState>> {
        self.host.check_turn()?;
        self.state.try_lock().map_err(|_| errors::in_use())
    }

    /// The VI comes back from being connected; if it is, with whom.
    pub(crate) fn connected(&self, vi: AnyVi, peer: Option<Peer>) {
        locked(&self.state).vi = Some(vi);
        if peer.is_some() {
            *locked(&self.peer) = peer;
        }
    }

    /// What it is, for a person.
    pub(crate) fn words(&self) -> String {
        match &*locked(&self.peer) {
            None => "a VI that is not connected".to_owned(),
            Some(peer) => format!("its VI {}", peer.words()),
        }
    }

    /// Has it connected, with a host or with whoever asks.
    pub(crate) fn connection(
        &self,
        py: Python<'_>,
        own: &Py<Self>,
        host: Option<&str>,
        port: &str,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        check_port(port)?;
        let (end, port) = (End::Vi(own.clone_ref(py)), port.to_owned());
        let kind = match host {
            None => Kind::Accept { end, port },
            Some(name) => Kind::Connect {
                end,
                number: self.host.find(name)?,
                name: name.to_owned(),
                port,
            },
        };
        Operation::new(kind, timeout)
    }

    /// Posts a buffer, which stays with Python if it is refused.
    fn post(
        &self,
        buffer: &Bound<'_, Buffer>,
        is_receive: bool,
        post: impl FnOnce(&mut AnyVi, viaduct_provider::Buffer) -> Result<(), Refused>,
    ) -> PyResult<()> {
        let mut state = self.state()?;
        let state = &mut *state;
        if buffer.get().host() != self.host.id {
            return Err(PyValueError::new_err(
                "the buffer is registered on another host or adapter: take one of the VI's",
            ));
        }
        let vi = state.vi()?;
        if let Err(Refused {
            error,
            buffer: bytes,
        }) = post(vi, buffer.get().take()?)
        {
            buffer.get().put_back(bytes);
            return Err(errors::refused(error));
        }
        let posted = if is_receive {
            &mut state.receives
        } else {
            &mut state.sends
        };
        posted.push_back(buffer.clone().unbind());
        Ok(())
    }
}

/// How much of a buffer is meant.
fn length_of(buffer: &Bound<'_, Buffer>, length: Option<usize>) -> usize {
    length.unwrap_or_else(|| buffer.get().length())
}

/// A part of a peer's window, from what [`super::Window::remote`] gave.
fn target(token: &Bound<'_, PyAny>, offset: u32, length: usize) -> PyResult<RemoteBuffer> {
    let bytes = PyMemoryView::from(token)
        .and_then(|view| view.call_method0("tobytes"))
        .and_then(|bytes| bytes.extract::<Vec<u8>>())
        .map_err(|_| {
            let text = "the target is what the peer's window.remote() gave: 16 bytes";
            PyTypeError::new_err(text)
        })?;
    let remote = RemoteBuffer::from_bytes(&bytes).ok_or_else(|| {
        let text = format!(
            "the target is what the peer's window.remote() gave: 16 bytes, not {}",
            bytes.len()
        );
        PyValueError::new_err(text)
    })?;
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    remote.part(offset, length).map_err(errors::refused)
}

#[pymethods]
impl Vi {
    /// Post a receive: the next message of the peer that no earlier one takes goes there.
    ///
    /// Parameters
    /// ----------
    /// buffer : Buffer
    ///     Of this host; its length is the longest message that fits.
    fn post_receive(&self, buffer: &Bound<'_, Buffer>) -> PyResult<()> {
        self.post(
            buffer,
            true,
            |vi, buffer| on!(vi, vi => vi.post_receive(buffer)),
        )
    }

    /// Post a send.
    ///
    /// Parameters
    /// ----------
    /// buffer : Buffer
    ///     What to send.
    /// length : int, optional
    ///     Only so many of its first bytes.
    /// immediate : int, optional
    ///     Four bytes, as a number, that come with the message.
    #[pyo3(signature = (buffer, length = None, *, immediate = None))]
    fn post_send(
        &self,
        buffer: &Bound<'_, Buffer>,
        length: Option<usize>,
        immediate: Option<u32>,
    ) -> PyResult<()> {
        let length = length_of(buffer, length);
        self.post(buffer, false, |vi, buffer| match immediate {
            Some(word) => on!(vi, vi => vi.post_send_immediate(buffer, length, word)),
            None => on!(vi, vi => vi.post_send(buffer, length)),
        })
    }

    /// Post a write into a peer's window, as `Window` shows.
    ///
    /// Parameters
    /// ----------
    /// buffer : Buffer
    ///     What to write.
    /// target : bytes
    ///     What the peer's `Window.remote` gave.
    /// length : int, optional
    ///     Only so many of the buffer's first bytes.
    /// offset : int
    ///     Where in the window.
    /// immediate : int, optional
    ///     A number of four bytes; the peer's oldest receive then completes with it.
    #[pyo3(signature = (buffer, target, length = None, *, offset = 0, immediate = None))]
    fn post_write(
        &self,
        buffer: &Bound<'_, Buffer>,
        target: &Bound<'_, PyAny>,
        length: Option<usize>,
        offset: u32,
        immediate: Option<u32>,
    ) -> PyResult<()> {
        let length = length_of(buffer, length);
        let remote = self::target(target, offset, length)?;
        self.post(buffer, false, |vi, buffer| match immediate {
            Some(word) => {
                on!(vi, vi => vi.post_write_immediate(buffer, length, remote, word))
            }
            None => on!(vi, vi => vi.post_write(buffer, length, remote)),
        })
    }

    /// Post a read from a peer's window.
    ///
    /// Parameters
    /// ----------
    /// buffer : Buffer
    ///     Where to read to.
    /// source : bytes
    ///     What the peer's `Window.remote` gave; the window has the access `"read"`.
    /// length : int, optional
    ///     So many bytes; otherwise as many as the buffer has.
    /// offset : int
    ///     Where in the window.
    #[pyo3(signature = (buffer, source, length = None, *, offset = 0))]
    fn post_read(
        &self,
        buffer: &Bound<'_, Buffer>,
        source: &Bound<'_, PyAny>,
        length: Option<usize>,
        offset: u32,
    ) -> PyResult<()> {
        let length = length_of(buffer, length);
        let remote = target(source, offset, length)?;
        self.post(
            buffer,
            false,
            |vi, buffer| on!(vi, vi => vi.post_read(buffer, length, remote)),
        )
    }

    /// Wait for the oldest send, write or read to complete.
    ///
    /// Parameters
    /// ----------
    /// timeout : str, float or timedelta, optional
    ///     How long at most.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     Yielded, it gives a `Completion`; or it raises `DescriptorError`, `FlushedError` after
    ///     the connection's end, or `TimeLimitError`.
    #[pyo3(signature = (*, timeout = None))]
    fn send_done(slf: &Bound<'_, Self>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Operation> {
        Operation::new(Kind::Send(slf.clone().unbind()), timeout)
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
        Operation::new(Kind::Receive(slf.clone().unbind()), timeout)
    }

    /// Connect with a host whose program waits in `accept`.
    ///
    /// It asks again where nobody waits yet, for a second of simulated time or ten real ones.
    ///
    /// Parameters
    /// ----------
    /// host : str
    ///     Its name.
    /// port : str
    ///     Tells several apart, 16 bytes at most.
    /// timeout : str, float or timedelta, optional
    ///     How long at most.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     Yielded, it gives the VI, connected; or it raises `FabricError`.
    #[pyo3(signature = (host, *, port = "", timeout = None))]
    fn connect(
        slf: &Bound<'_, Self>,
        host: &str,
        port: &str,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        let own = slf.clone().unbind();
        slf.get()
            .connection(slf.py(), &own, Some(host), port, timeout)
    }

    /// Wait for somebody to connect; `peer` says who did.
    ///
    /// Parameters
    /// ----------
    /// port : str
    ///     Which of this host's.
    /// timeout : str, float or timedelta, optional
    ///     How long at most.
    ///
    /// Returns
    /// -------
    /// Operation
    ///     Yielded, it gives the VI, connected; or it raises `FabricError`.
    #[pyo3(signature = (*, port = "", timeout = None))]
    fn accept(
        slf: &Bound<'_, Self>,
        port: &str,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        let own = slf.clone().unbind();
        slf.get().connection(slf.py(), &own, None, port, timeout)
    }

    /// End the connection; what is posted completes as flushed, at both ends.
    fn disconnect(&self) -> PyResult<()> {
        let mut state = self.state()?;
        on!(state.vi()?, vi => vi.disconnect()).map_err(errors::refused)?;
        *locked(&self.peer) = None;
        Ok(())
    }

    /// The name of the host that it is connected with, also after that one has left.
    ///
    /// None before a connection and after `disconnect`. Between processes it is the name that the
    /// other one gave.
    #[getter]
    fn peer(&self) -> Option<String> {
        locked(&self.peer).as_ref()?.name.clone()
    }

    fn __repr__(&self) -> String {
        match &*locked(&self.peer) {
            None => format!("<viaduct VI of {}, not connected>", self.host.name),
            Some(peer) => format!("<viaduct VI of {} {}>", self.host.name, peer.words()),
        }
    }
}

/// A descriptor that has completed without an error; `Vi.receive_done` gives it.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def sends(host):
/// ...     vi = yield host.connect("receives")
/// ...     yield host.sleep("50 us")
/// ...     vi.post_send(host.buffer(5))
/// ...     return repr((yield vi.send_done()))
/// >>> def receives(host):
/// ...     vi = yield host.accept()
/// ...     vi.post_receive(host.buffer(64))
/// ...     done = yield vi.receive_done()
/// ...     return done.length, len(done.buffer), bytes(done.data), done.immediate
/// >>> via.cluster("sim:rnic-gen4", {"sends": sends, "receives": receives}).run().returned
/// {'sends': '<viaduct completion: 5 bytes>', 'receives': (5, 64, b'\x00\x00\x00\x00\x00', None)}
#[pyclass(frozen, name = "Completion", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct Completion {
    buffer: Option<Py<Buffer>>,
    length: usize,
    immediate: Option<u32>,
    is_remote_write: bool,
}

#[pymethods]
impl Completion {
    /// The buffer that was posted, which is the program's again.
    #[getter]
    fn buffer(&self, py: Python<'_>) -> Option<Py<Buffer>> {
        self.buffer.as_ref().map(|buffer| buffer.clone_ref(py))
    }

    /// Bytes of the message, which may be fewer than the buffer has.
    #[getter]
    const fn length(&self) -> usize {
        self.length
    }

    /// The number that came with it, if one did.
    #[getter]
    const fn immediate(&self) -> Option<u32> {
        self.immediate
    }

    /// Whether it tells of a peer's write with immediate data instead of a message.
    #[getter]
    const fn is_remote_write(&self) -> bool {
        self.is_remote_write
    }

    /// The message as a `memoryview`, without a copy; it shows what the buffer holds later, too.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(buffer) = &self.buffer else {
            return Ok(pyo3::types::PyBytes::new(py, b"").into_any());
        };
        let length = if self.is_remote_write { 0 } else { self.length };
        let length = isize::try_from(length).unwrap_or(isize::MAX);
        let view = PyMemoryView::from(buffer.bind(py).as_any())?;
        view.get_item(PySlice::new(py, 0, length, 1))
    }

    fn __repr__(&self) -> String {
        let immediate = self
            .immediate
            .map_or(String::new(), |word| format!(", immediate {word}"));
        format!("<viaduct completion: {} bytes{immediate}>", self.length)
    }
}
