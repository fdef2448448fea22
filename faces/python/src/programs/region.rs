//! Registered memory that requests of queue pairs read and write.

#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "what PyO3 makes of `__getbuffer__` in `bytes_methods!` is checked as if it stood here"
)]

use std::ffi::c_int;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use viaduct_programs::verbs::{Buffer, ScatterGatherElement};

use super::bytes::bytes_methods;
use super::home::Held;

/// A memory region: registered memory of a host, for requests of its queue pairs and of its peers.
///
/// `Host.region` makes it. It speaks the buffer protocol. Peers reach it by what `remote` gives,
/// as far as the region lets them; who does not wait for a word that it was written reads a
/// mixture of old bytes and new ones.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def program(host):
/// ...     region = host.region(8, remote_read=True)
/// ...     region[:5] = b"hello"
/// ...     yield host.sleep("1 us")
/// ...     return bytes(region[:5]), len(region), len(region.remote())
/// >>> via.cluster("sim:rnic-gen4", [program]).run().returned["host0"]
/// (b'hello', 8, 16)
#[pyclass(frozen, name = "Region", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct Region {
    buffer: Held<Buffer>,
    host: u64,
}

/// Where a region of a peer is, as [`Region::remote`] tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) address: u64,
    pub(crate) key: u32,
}

impl Remote {
    /// From what a program was told.
    pub(crate) fn from_token(token: &Bound<'_, PyAny>) -> PyResult<Self> {
        let wrong = |_| {
            PyTypeError::new_err(
                "the remote memory is what the peer's region.remote() gave: 16 bytes",
            )
        };
        let bytes: Vec<u8> = PyMemoryView::from(token)
            .and_then(|view| view.call_method0("tobytes"))
            .and_then(|bytes| bytes.extract())
            .map_err(wrong)?;
        let bytes: [u8; 16] = bytes.as_slice().try_into().map_err(|_| {
            pyo3::exceptions::PyValueError::new_err(format!(
                "the remote memory is what the peer's region.remote() gave: 16 bytes, not {}",
                bytes.len()
            ))
        })?;
        let word = u128::from_le_bytes(bytes);
        Ok(Self {
            address: word as u64,
            key: (word >> 64) as u32,
        })
    }
}

impl Region {
    pub(crate) const fn new(buffer: Held<Buffer>, host: u64) -> Self {
        Self { buffer, host }
    }

    /// The host on which it is registered.
    pub(crate) const fn host(&self) -> u64 {
        self.host
    }

    /// A piece of it; one that ends past the region is refused by the adapter.
    pub(crate) fn element(&self, offset: usize, length: u32) -> ScatterGatherElement {
        self.buffer.element(offset, length)
    }

    pub(crate) fn length(&self) -> usize {
        self.buffer.len()
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "a buffer has moments at which nobody may look"
    )]
    fn bytes(&self) -> PyResult<(usize, usize)> {
        Ok((self.buffer.address() as usize, self.length()))
    }
}

bytes_methods!(Region {
    /// Give what a peer needs to reach it: 16 bytes, with its address, key and length.
    fn remote<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut token = [0; 16];
        token[..8].copy_from_slice(&self.buffer.address().to_le_bytes());
        token[8..12].copy_from_slice(&self.buffer.memory_key().to_le_bytes());
        let length = u32::try_from(self.length()).unwrap_or(u32::MAX);
        token[12..].copy_from_slice(&length.to_le_bytes());
        PyBytes::new(py, &token)
    }

    fn __repr__(&self) -> String {
        format!("<viaduct memory region of {} bytes>", self.length())
    }
});
