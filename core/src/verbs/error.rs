//! Why a call failed.

use alloc::borrow::Cow;
use core::fmt;

/// A number of `errno.h`, and why in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error {
    number: i32,
    reason: Cow<'static, str>,
}

/// What calls answer.
pub type Result<T> = core::result::Result<T, Error>;

/// Numbers of `errno.h` on Linux that calls of verbs answer.
pub mod errno {
    /// Input or output error: a completion queue has overrun.
    pub const EIO: i32 = 5;
    /// Nothing is there yet.
    pub const EAGAIN: i32 = 11;
    /// No room for more.
    pub const ENOMEM: i32 = 12;
    /// Something else uses it.
    pub const EBUSY: i32 = 16;
    /// It makes no sense.
    pub const EINVAL: i32 = 22;
    /// There is no such entry.
    pub const ENODATA: i32 = 61;
    /// It is not offered here.
    pub const EOPNOTSUPP: i32 = 95;
}

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

impl core::error::Error for Error {}

/// EINVAL: it makes no sense.
pub fn invalid(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(errno::EINVAL, reason)
}

/// EOPNOTSUPP: it is not offered.
pub fn unsupported(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(errno::EOPNOTSUPP, reason)
}

/// EBUSY: something else uses it.
pub fn busy(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(errno::EBUSY, reason)
}

/// ENOMEM: there is no room for more.
pub fn full(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(errno::ENOMEM, reason)
}

/// EINVAL of a key that names nothing.
#[cold]
#[must_use]
pub fn gone() -> Error {
    invalid("there is no such object, or not any more")
}
