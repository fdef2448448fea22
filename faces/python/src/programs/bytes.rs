//! Registered memory as bytes of Python: what a buffer and a window have in common.

use std::ffi::c_int;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// The methods of a class whose objects are bytes, beside its own. `bytes` of the class gives the
/// address and the length, or why nobody may look at them now.
///
/// A class has one block of methods, so they are put together here.
macro_rules! bytes_methods {
    ($class:ident { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            $($own)*

            fn __len__(&self) -> usize {
                self.length()
            }

            fn __getitem__<'py>(
                slf: &Bound<'py, Self>,
                key: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, PyAny>> {
                PyMemoryView::from(slf.as_any())?.get_item(key)
            }

            fn __setitem__(
                slf: &Bound<'_, Self>,
                key: &Bound<'_, PyAny>,
                value: &Bound<'_, PyAny>,
            ) -> PyResult<()> {
                PyMemoryView::from(slf.as_any())?.set_item(key, value)
            }

            /// As the protocol of buffers is written in Python; versions before 3.12 have no name
            /// for it.
            fn __buffer__<'py>(
                slf: &Bound<'py, Self>,
                _flags: c_int,
            ) -> PyResult<Bound<'py, PyMemoryView>> {
                PyMemoryView::from(slf.as_any())
            }

            /// # Safety
            ///
            /// As the protocol of buffers says: `view` may be written.
            unsafe fn __getbuffer__(
                slf: Bound<'_, Self>,
                view: *mut ffi::Py_buffer,
                flags: c_int,
            ) -> PyResult<()> {
                let place = slf.get().bytes()?;
                // SAFETY: as this function's; the memory stays as long as the object that the view
                // keeps. Where peers write it while Python reads, whoever does not wait for a word
                // that it was written reads a mixture of old bytes and new ones, no more.
                unsafe { $crate::programs::bytes::fill(view, slf.as_any(), place, flags) }
            }
        }
    };
}
pub(super) use bytes_methods;

/// Fills a view of bytes that can be written, by their address and length.
///
/// # Safety
///
/// `view` may be written, and the memory stays as long as `exporter`.
pub(super) unsafe fn fill(
    view: *mut ffi::Py_buffer,
    exporter: &Bound<'_, PyAny>,
    (address, length): (usize, usize),
    flags: c_int,
) -> PyResult<()> {
    let address = std::ptr::with_exposed_provenance_mut(address);
    let length = ffi::Py_ssize_t::try_from(length).unwrap_or(ffi::Py_ssize_t::MAX);
    // SAFETY: as this function's; the call takes a reference to the exporter.
    let filled =
        unsafe { ffi::PyBuffer_FillInfo(view, exporter.as_ptr(), address, length, 0, flags) };
    match filled {
        0 => Ok(()),
        _ => Err(PyErr::fetch(exporter.py())),
    }
}

/// What a peer gave to be reached by, as bytes: `what` says of what it is, and who gave it.
pub(crate) fn token<const BYTES: usize>(
    token: &Bound<'_, PyAny>,
    what: &str,
) -> PyResult<[u8; BYTES]> {
    let bytes: Vec<u8> = PyMemoryView::from(token)
        .and_then(|view| view.call_method0("tobytes"))
        .and_then(|bytes| bytes.extract())
        .map_err(|_| PyTypeError::new_err(format!("{what} gave: {BYTES} bytes")))?;
    bytes.as_slice().try_into().map_err(|_| {
        let length = bytes.len();
        PyValueError::new_err(format!("{what} gave: {BYTES} bytes, not {length}"))
    })
}
