//! Registered memory that peers write or read at any time.

#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "what PyO3 makes of `__getbuffer__` in `bytes_methods!` is checked as if it stood here"
)]

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use viaduct_programs::SimulatedFabric;
use viaduct_shm::Shm;

use super::bytes::bytes_methods;
use super::home::Held;
use super::{On, on};

type Any = On<Held<viaduct_provider::Window<SimulatedFabric>>, viaduct_provider::Window<Shm>>;

/// Registered memory that peers write or read at any time; `Host.window` makes it.
///
/// It speaks the buffer protocol. Who does not wait for a word that it was written reads a mixture
/// of old bytes and new ones.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def writer(host):
/// ...     vi = host.vi()
/// ...     vi.post_receive(host.buffer(16))
/// ...     yield vi.connect("owner")
/// ...     token = (yield vi.receive_done()).data
/// ...     text = host.buffer(4)
/// ...     text[:] = b"text"
/// ...     vi.post_write(text, token, offset=2, immediate=7)
/// ...     yield vi.send_done()
/// >>> def owner(host):
/// ...     window, message = host.window(8), host.buffer(16)
/// ...     vi = host.vi(rdma_write=True)
/// ...     vi.post_receive(host.buffer(0))
/// ...     yield vi.accept()
/// ...     message[:] = window.remote()
/// ...     vi.post_send(message)
/// ...     done = yield vi.receive_done()
/// ...     return bytes(window), done.immediate, done.is_remote_write
/// >>> via.cluster("sim:rnic-gen4", {"writer": writer, "owner": owner}).run().returned["owner"]
/// (b'\x00\x00text\x00\x00', 7, True)
#[pyclass(frozen, name = "Window", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct Window {
    window: Any,
}

impl Window {
    pub(crate) const fn new(window: Any) -> Self {
        Self { window }
    }

    fn length(&self) -> usize {
        on!(&self.window, window => window.len())
    }

    /// Where its bytes are.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "a buffer has moments at which nobody may look"
    )]
    fn bytes(&self) -> PyResult<(usize, usize)> {
        let address = on!(&self.window, window => window.remote()).address;
        Ok((address as usize, self.length()))
    }
}

bytes_methods!(Window {
    /// Give what a peer needs to reach it: 16 bytes, to be sent in a message.
    fn remote<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let remote = on!(&self.window, window => window.remote());
        PyBytes::new(py, &remote.to_bytes())
    }

    fn __repr__(&self) -> String {
        format!("<viaduct window of {} bytes>", self.length())
    }
});
