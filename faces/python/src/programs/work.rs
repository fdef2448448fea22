//! Requests of queue pairs that have completed.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use viaduct_programs::verbs::CompletionOpcode;

use super::address::PairAddress;
use super::region::Region;

/// A request of a queue pair that has completed without an error; `QueuePair.send_done` and
/// `QueuePair.receive_done` give it.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def writes(host):
/// ...     pair, region = host.queue_pair(), host.region(64)
/// ...     region[:5] = b"hello"
/// ...     target = yield pair.connect("owns")
/// ...     pair.post_write(region, target, 5, immediate=9)
/// ...     return repr((yield pair.send_done()))
/// >>> def owns(host):
/// ...     pair, region = host.queue_pair(), host.region(64, remote_write=True)
/// ...     pair.post_receive(region, 0)
/// ...     yield pair.accept(private_data=region.remote())
/// ...     done = yield pair.receive_done()
/// ...     return done.opcode, done.length, done.immediate, bytes(region[:5])
/// >>> via.cluster("sim:rnic-gen4", {"writes": writes, "owns": owns}).run().returned["owns"]
/// ('receive of a write', 5, 9, b'hello')
#[pyclass(frozen, name = "WorkCompletion", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct WorkCompletion {
    pub(crate) request: u64,
    pub(crate) opcode: CompletionOpcode,
    pub(crate) length: u32,
    pub(crate) immediate: Option<u32>,
    pub(crate) region: Option<Py<Region>>,
    pub(crate) source: Option<PairAddress>,
}

/// What a request was.
pub(crate) const fn opcode_words(opcode: CompletionOpcode) -> &'static str {
    match opcode {
        CompletionOpcode::Send => "send",
        CompletionOpcode::RdmaWrite => "write",
        CompletionOpcode::RdmaRead => "read",
        CompletionOpcode::CompareAndSwap => "compare and swap",
        CompletionOpcode::FetchAndAdd => "fetch and add",
        CompletionOpcode::Receive => "receive",
        CompletionOpcode::ReceiveRdmaWithImmediate => "receive of a write",
    }
}

#[pymethods]
impl WorkCompletion {
    /// The number that its post gave.
    #[getter]
    const fn request(&self) -> u64 {
        self.request
    }

    /// What it was: `"send"`, `"write"`, `"read"`, `"compare and swap"`, `"fetch and add"`,
    /// `"receive"` or `"receive of a write"`.
    #[getter]
    const fn opcode(&self) -> &'static str {
        opcode_words(self.opcode)
    }

    /// Bytes that were sent or came; of a datagram that came, with the 40 of its routing header.
    #[getter]
    const fn length(&self) -> u32 {
        self.length
    }

    /// The number that came with it, if one did.
    #[getter]
    const fn immediate(&self) -> Option<u32> {
        self.immediate
    }

    /// The region that was named when it was posted.
    #[getter]
    fn region(&self, py: Python<'_>) -> Option<Py<Region>> {
        self.region.as_ref().map(|region| region.clone_ref(py))
    }

    /// Of a datagram that came: where an answer goes, as `QueuePair.post_send` takes it. It has
    /// this queue pair's Q_Key, since no datagram tells its sender's.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let source = self.source.as_ref()?;
        Some(PyBytes::new(py, &source.to_bytes()))
    }

    fn __repr__(&self) -> String {
        let (request, opcode, length) = (self.request, self.opcode(), self.length);
        format!("<viaduct work completion: request {request}, {opcode}, {length} bytes>")
    }
}
