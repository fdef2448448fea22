//! Why a call failed.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// A number of `errno.h`, and why in words.
#[derive(Clone, Debug)]
pub struct Error {
    number: i32,
    reason: Cow<'static, str>,
}

/// What calls of this crate answer.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `errno.h` with its reason.
    pub fn new(number: i32, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            number,
            reason: reason.into(),
        }
    }

    /// The number of `errno.h`.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        self.number
    }

    /// Why, in words.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        Self::new(number, error.to_string())
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Self {
        io::Error::from(errno).into()
    }
}

impl From<viaduct_core::verbs::Error> for Error {
    fn from(error: viaduct_core::verbs::Error) -> Self {
        Self::new(error.errno(), error.reason().to_owned())
    }
}

pub(crate) fn invalid(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(libc::EINVAL, reason)
}

pub(crate) fn unsupported(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(libc::EOPNOTSUPP, reason)
}

pub(crate) fn busy(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(libc::EBUSY, reason)
}
