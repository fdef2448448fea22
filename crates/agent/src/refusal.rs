//! Errors of the semantics, in the codes of the C interface.

use viaduct_fabric::via::names::NameError;
use viaduct_fabric::via::{
    CompletionQueueError, ConnectError, ConnectFailure, MemoryError, PostError, TagError, ViError,
};
use viaduct_fabric::{Error, ReturnCode};

/// Something with a code and a reason.
pub(crate) trait Refusal: std::fmt::Display {
    fn code(&self) -> ReturnCode;

    /// As the error of an operation.
    fn refuse(&self) -> Error {
        Error::new(self.code(), self.to_string())
    }
}

/// Turns an error of the semantics into one of the operation.
pub(crate) trait OrRefuse<T> {
    fn or_refuse(self) -> viaduct_fabric::Result<T>;
}

impl<T, R: Refusal> OrRefuse<T> for Result<T, R> {
    fn or_refuse(self) -> viaduct_fabric::Result<T> {
        self.map_err(|refusal| refusal.refuse())
    }
}

/// A handle that names nothing that lives.
#[must_use]
pub fn dead(what: &'static str) -> Error {
    Error::new(ReturnCode::InvalidParameter, what)
}

/// No handle is left.
pub(crate) fn full() -> Error {
    Error::new(ReturnCode::Resource, "no handle is left in this fabric")
}

impl Refusal for TagError {
    fn code(&self) -> ReturnCode {
        match self {
            Self::LimitReached { .. } | Self::InUse { .. } => ReturnCode::Resource,
            _ => ReturnCode::InvalidParameter,
        }
    }
}

impl Refusal for MemoryError {
    fn code(&self) -> ReturnCode {
        match self {
            Self::TooManyRegions { .. }
            | Self::TooManyBytes { .. }
            | Self::RegionTooLong { .. } => ReturnCode::Resource,
            Self::InvalidTag => ReturnCode::InvalidPtag,
            Self::InvalidRdmaRead => ReturnCode::InvalidRdmaRead,
            _ => ReturnCode::InvalidParameter,
        }
    }
}

impl Refusal for CompletionQueueError {
    fn code(&self) -> ReturnCode {
        match self {
            Self::LimitReached { .. }
            | Self::TooManyEntries { .. }
            | Self::InUse { .. }
            | Self::EntriesWaiting { .. } => ReturnCode::Resource,
            _ => ReturnCode::InvalidParameter,
        }
    }
}

impl Refusal for ViError {
    fn code(&self) -> ReturnCode {
        match self {
            Self::LimitReached { .. } => ReturnCode::Resource,
            Self::InvalidReliabilityLevel { .. } => ReturnCode::InvalidReliabilityLevel,
            Self::InvalidMaxTransfer { .. } => ReturnCode::InvalidMtu,
            Self::InvalidQualityOfService { .. } => ReturnCode::InvalidQos,
            Self::InvalidTag => ReturnCode::InvalidPtag,
            Self::InvalidRdmaRead => ReturnCode::InvalidRdmaRead,
            Self::InvalidState { .. } => ReturnCode::InvalidState,
            _ => ReturnCode::InvalidParameter,
        }
    }
}

impl Refusal for PostError {
    fn code(&self) -> ReturnCode {
        match self {
            Self::QueueFull { .. } => ReturnCode::Resource,
            _ => ReturnCode::InvalidParameter,
        }
    }
}

impl Refusal for ConnectError {
    fn code(&self) -> ReturnCode {
        match self {
            Self::InvalidState { .. } => ReturnCode::InvalidState,
            Self::ReliabilityDiffers { .. } => ReturnCode::InvalidReliabilityLevel,
            Self::MaxTransferDiffers { .. } => ReturnCode::InvalidMtu,
            Self::QualityOfServiceDiffers { .. } => ReturnCode::InvalidQos,
            Self::RequestWithdrawn => ReturnCode::Timeout,
            _ => ReturnCode::InvalidParameter,
        }
    }
}

impl Refusal for NameError {
    fn code(&self) -> ReturnCode {
        ReturnCode::NameService
    }
}

/// Why a connection that was asked for did not come about.
pub(crate) fn connect_failure(failure: ConnectFailure) -> Error {
    match failure {
        ConnectFailure::TimedOut => {
            Error::new(ReturnCode::Timeout, "no answer came in the time given")
        }
        ConnectFailure::Rejected => Error::new(ReturnCode::Reject, "the server rejected"),
        ConnectFailure::NoMatch => Error::new(
            ReturnCode::NoMatch,
            "nobody waits on that address: ask again when the server does",
        ),
        ConnectFailure::Differs(difference) => difference.refuse(),
        _ => Error::new(
            ReturnCode::NotReachable,
            "no NIC of this process has that host address",
        ),
    }
}
