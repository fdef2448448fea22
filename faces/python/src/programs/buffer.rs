//! Registered memory that a program reads and writes as bytes, and posts.

#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "what PyO3 makes of `__getbuffer__` in `bytes_methods!` is checked as if it stood here"
)]

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use viaduct_provider::BufferHold;

use super::bytes::bytes_methods;
use super::home::{Held, Home, locked};

/// Memory for messages; posting it gives it to the fabric, its completion gives it back.
///
/// `Host.buffer` makes it. It speaks the buffer protocol, so that NumPy, `memoryview` and `struct`
/// work in the registered memory itself.
///
/// Raises
/// ------
/// BufferError
///     If it is looked into, or posted again, while it is posted.
///
/// Examples
/// --------
/// >>> import viaduct as via
/// >>> def program(host):
/// ...     buffer = host.buffer(8)
/// ...     buffer[:5] = b"hello"
/// ...     yield host.sleep("1 us")
/// ...     return bytes(buffer[:5]), len(buffer), buffer.is_posted
/// >>> via.cluster("sim:clan-pio", [program]).run().returned["host0"]
/// (b'hello', 8, False)
#[pyclass(frozen, name = "Buffer", module = "viaduct")]
#[derive(Debug)]
pub(crate) struct Buffer {
    /// `None` while it is posted.
    buffer: Mutex<Option<Held<viaduct_provider::Buffer>>>,
    address: usize,
    length: usize,
    host: u64,
    home: Option<Arc<Home>>,
    /// Views of the bytes outlive a post, and whatever becomes of it.
    _hold: Held<BufferHold>,
}

impl Buffer {
    pub(crate) fn new(
        mut buffer: viaduct_provider::Buffer,
        host: u64,
        home: Option<Arc<Home>>,
    ) -> Self {
        Self {
            address: buffer.as_mut_ptr().expose_provenance(),
            length: buffer.len(),
            host,
            _hold: Held::new(buffer.hold(), home.clone()),
            buffer: Mutex::new(Some(Held::new(buffer, home.clone()))),
            home,
        }
    }

    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// The host on which it is registered.
    pub(crate) const fn host(&self) -> u64 {
        self.host
    }

    /// To be posted; an error if it is posted.
    pub(crate) fn take(&self) -> PyResult<viaduct_provider::Buffer> {
        let taken = locked(&self.buffer).take();
        taken
            .map(Held::into_inner)
            .ok_or_else(|| posted("it cannot be posted again"))
    }

    /// Where its bytes are; they are the fabric's while it is posted.
    fn bytes(&self) -> PyResult<(usize, usize)> {
        if self.is_posted() {
            return Err(posted("its bytes are the fabric's"));
        }
        Ok((self.address, self.length))
    }

    pub(crate) fn put_back(&self, buffer: viaduct_provider::Buffer) {
        *locked(&self.buffer) = Some(Held::new(buffer, self.home.clone()));
    }
}

fn posted(what: &str) -> PyErr {
    PyBufferError::new_err(format!(
        "the buffer is posted: {what} until its completion was taken"
    ))
}

bytes_methods!(Buffer {
    /// Whether the fabric has it, from its being posted until its completion is taken.
    #[getter]
    fn is_posted(&self) -> bool {
        locked(&self.buffer).is_none()
    }

    fn __repr__(&self) -> String {
        let posted = if self.is_posted() { ", posted" } else { "" };
        format!("<viaduct buffer of {} bytes{posted}>", self.length)
    }
});
