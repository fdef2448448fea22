//! Why a call failed, where the system says so.

use std::io;

use viaduct_core::verbs::Error;

/// What the system says, as calls of this crate answer it.
pub fn of_system(error: impl Into<io::Error>) -> Error {
    let error = error.into();
    let number = error.raw_os_error().unwrap_or(libc::EIO);
    Error::new(number, error.to_string())
}
