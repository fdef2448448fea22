//! Why an operation was refused, in the codes of the C interface.

use std::borrow::Cow;
use std::fmt;

/// The result of an operation on a fabric.
pub type Result<T> = std::result::Result<T, Error>;

/// The codes of `VIP_RETURN` that say that an operation did not succeed.
///
/// Success is `Ok`, `VIP_NOT_DONE` is a value ([`crate::Done::NotDone`] or `None`).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u32)]
pub enum ReturnCode {
    /// A bad handle, pointer or value.
    InvalidParameter = 2,
    /// Resources are exhausted, or the object is still in use.
    Resource = 3,
    /// The time limit passed.
    Timeout = 4,
    /// The peer rejected the connection.
    Reject = 5,
    /// The reliability level is not supported, or differs from the peer's.
    InvalidReliabilityLevel = 6,
    /// The largest transfer is not supported, or differs from the peer's.
    InvalidMtu = 7,
    /// The quality of service is not supported, or differs from the peer's.
    InvalidQos = 8,
    /// No such protection tag.
    InvalidPtag = 9,
    /// Remote reads are asked for and not supported.
    InvalidRdmaRead = 10,
    /// The VI's state does not allow it.
    InvalidState = 12,
    /// The name service failed.
    NameService = 13,
    /// Nobody waits on that address.
    NoMatch = 14,
    /// The remote host cannot be reached.
    NotReachable = 15,
    /// An optional operation that this fabric does not have.
    NotSupported = 16,
}

impl ReturnCode {
    /// Every code, in the order of its value.
    pub const ALL: [Self; 14] = [
        Self::InvalidParameter,
        Self::Resource,
        Self::Timeout,
        Self::Reject,
        Self::InvalidReliabilityLevel,
        Self::InvalidMtu,
        Self::InvalidQos,
        Self::InvalidPtag,
        Self::InvalidRdmaRead,
        Self::InvalidState,
        Self::NameService,
        Self::NoMatch,
        Self::NotReachable,
        Self::NotSupported,
    ];

    /// The code of a number of the C interface; `None` for success, a value, or no code.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|code| *code as u32 == number)
    }
}

/// A refused operation: the code, and a reason for a person.
///
/// One pointer, so that the result of an operation that succeeds travels in a register.
#[derive(Clone, Eq, PartialEq)]
pub struct Error(Box<Refusal>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Refusal {
    code: ReturnCode,
    reason: Cow<'static, str>,
}

impl Error {
    /// From a code and a reason that says what was wrong and what to do instead.
    #[must_use]
    pub fn new(code: ReturnCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Refusal {
            code,
            reason: reason.into(),
        }))
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> ReturnCode {
        self.0.code
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Error")
            .field("code", &self.0.code)
            .field("reason", &self.0.reason)
            .finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.reason)
    }
}

impl std::error::Error for Error {}
