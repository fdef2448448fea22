//! Registered memory that requests of queue pairs read and write.

#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "what PyO3 makes of `__getbuffer__` in `bytes_methods!` is checked as if it stood here"
)]

use std::ffi::c_int;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use viaduct_programs::verbs::{Buffer, ScatterGatherElement};

use super::bytes::{self, bytes_methods};
use super::home::Held;
use super::state::HostState;
use super::{On, on};

/// Memory that is open to requests.
pub(crate) type AnyBuffer = On<Held<Buffer>, viaduct_rdma::Buffer>;

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
    buffer: AnyBuffer,
    host: u64,
}

/// Where a region of a peer is, as [`Region::remote`] tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) address: u64,
    pub(crate) key: u32,
}

impl Remote {
    /// So many bytes further.
    pub(crate) const fn at(self, offset: u64) -> Self {
        Self {
            address: self.address.wrapping_add(offset),
            ..self
        }
    }

    /// From what a program was told.
    pub(crate) fn from_token(token: &Bound<'_, PyAny>) -> PyResult<Self> {
        let what = "the remote memory is what the peer's region.remote()";
        let bytes = bytes::token(token, what)?;
        let word = u128::from_le_bytes(bytes);
        Ok(Self {
            address: word as u64,
            key: (word >> 64) as u32,
        })
    }
}

impl Region {
    pub(crate) const fn new(buffer: AnyBuffer, host: u64) -> Self {
        Self { buffer, host }
    }

    /// The bytes of it that a request of a host's queue pair names; an error if they are not in it.
    pub(crate) fn part(
        &self,
        host: &HostState,
        offset: usize,
        length: Option<usize>,
    ) -> PyResult<ScatterGatherElement> {
        if self.host != host.id {
            return Err(PyValueError::new_err(
                "the region is registered on another host or adapter: take one of the queue pair's",
            ));
        }
        let all = self.length();
        let length = length.unwrap_or_else(|| all.saturating_sub(offset));
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= all);
        match u32::try_from(length) {
            Ok(length) if is_inside => Ok(ScatterGatherElement {
                address: self.address() + offset as u64,
                length,
                local_key: self.memory_key(),
            }),
            _ => Err(PyValueError::new_err(format!(
                "{length} bytes from {offset} on are not in a region of {all} bytes"
            ))),
        }
    }

    /// A copy of bytes at an address that [`Region::part`] gave.
    pub(crate) fn copied<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        let offset = address.checked_sub(self.address())?;
        if offset + BYTES as u64 > self.length() as u64 {
            return None;
        }
        // SAFETY: inside of it, and it is there. Where a peer writes meanwhile this is a mixture.
        Some(unsafe { (address as *const [u8; BYTES]).read_volatile() })
    }

    fn address(&self) -> u64 {
        on!(&self.buffer, buffer => buffer.address())
    }

    fn memory_key(&self) -> u32 {
        on!(&self.buffer, buffer => buffer.memory_key())
    }

    pub(crate) fn length(&self) -> usize {
        on!(&self.buffer, buffer => buffer.len())
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "a buffer has moments at which nobody may look"
    )]
    fn bytes(&self) -> PyResult<(usize, usize)> {
        Ok((self.address() as usize, self.length()))
    }
}

bytes_methods!(Region {
    /// Give what a peer needs to reach it: 16 bytes, with its address, key and length.
    fn remote<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut token = [0; 16];
        token[..8].copy_from_slice(&self.address().to_le_bytes());
        token[8..12].copy_from_slice(&self.memory_key().to_le_bytes());
        let length = u32::try_from(self.length()).unwrap_or(u32::MAX);
        token[12..].copy_from_slice(&length.to_le_bytes());
        PyBytes::new(py, &token)
    }

    fn __repr__(&self) -> String {
        format!("<viaduct memory region of {} bytes>", self.length())
    }
});
