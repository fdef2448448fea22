//! Errors of operations on what is not there.

use viaduct_provider::{Error, ReturnCode};

/// A handle that names nothing that lives.
#[must_use]
pub fn dead(what: &'static str) -> Error {
    Error::new(ReturnCode::InvalidParameter, what)
}

/// No handle is left.
pub(crate) fn full() -> Error {
    Error::new(ReturnCode::Resource, "no handle is left in this fabric")
}
