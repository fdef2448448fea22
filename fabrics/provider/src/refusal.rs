//! Errors of the semantics as those of operations: each has its code of the C interface here, for
//! every fabric.

use viaduct_core::names::NameError;
use viaduct_core::{
    CompletionQueueError, ConnectError, ConnectFailure, MemoryError, PostError, TagError, ViError,
};

use crate::error::{Error, ReturnCode};

impl From<TagError> for Error {
    fn from(error: TagError) -> Self {
        let code = match error {
            TagError::LimitReached { .. } | TagError::InUse { .. } => ReturnCode::Resource,
            _ => ReturnCode::InvalidParameter,
        };
        Self::new(code, error.to_string())
    }
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Self {
        let code = match error {
            MemoryError::TooManyRegions { .. }
            | MemoryError::TooManyBytes { .. }
            | MemoryError::RegionTooLong { .. } => ReturnCode::Resource,
            MemoryError::InvalidTag => ReturnCode::InvalidPtag,
            MemoryError::InvalidRdmaRead => ReturnCode::InvalidRdmaRead,
            _ => ReturnCode::InvalidParameter,
        };
        Self::new(code, error.to_string())
    }
}

impl From<CompletionQueueError> for Error {
    fn from(error: CompletionQueueError) -> Self {
        let code = match error {
            CompletionQueueError::LimitReached { .. }
            | CompletionQueueError::TooManyEntries { .. }
            | CompletionQueueError::InUse { .. }
            | CompletionQueueError::EntriesWaiting { .. } => ReturnCode::Resource,
            _ => ReturnCode::InvalidParameter,
        };
        Self::new(code, error.to_string())
    }
}

impl From<ViError> for Error {
    fn from(error: ViError) -> Self {
        let code = match error {
            ViError::LimitReached { .. } => ReturnCode::Resource,
            ViError::InvalidReliabilityLevel { .. } => ReturnCode::InvalidReliabilityLevel,
            ViError::InvalidMaxTransfer { .. } => ReturnCode::InvalidMtu,
            ViError::InvalidQualityOfService { .. } => ReturnCode::InvalidQos,
            ViError::InvalidTag => ReturnCode::InvalidPtag,
            ViError::InvalidRdmaRead => ReturnCode::InvalidRdmaRead,
            ViError::InvalidState { .. } => ReturnCode::InvalidState,
            _ => ReturnCode::InvalidParameter,
        };
        Self::new(code, error.to_string())
    }
}

impl From<PostError> for Error {
    fn from(error: PostError) -> Self {
        let code = match error {
            PostError::QueueFull { .. } => ReturnCode::Resource,
            _ => ReturnCode::InvalidParameter,
        };
        Self::new(code, error.to_string())
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        let code = match error {
            ConnectError::InvalidState { .. } => ReturnCode::InvalidState,
            ConnectError::ReliabilityDiffers { .. } => ReturnCode::InvalidReliabilityLevel,
            ConnectError::MaxTransferDiffers { .. } => ReturnCode::InvalidMtu,
            ConnectError::QualityOfServiceDiffers { .. } => ReturnCode::InvalidQos,
            ConnectError::RequestWithdrawn => ReturnCode::Timeout,
            _ => ReturnCode::InvalidParameter,
        };
        Self::new(code, error.to_string())
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::new(ReturnCode::NameService, error.to_string())
    }
}

impl From<ConnectFailure> for Error {
    fn from(failure: ConnectFailure) -> Self {
        let (code, reason) = match failure {
            ConnectFailure::TimedOut => (
                ReturnCode::Timeout,
                "the other side did not answer within the time limit, or is gone",
            ),
            ConnectFailure::Rejected => {
                (ReturnCode::Reject, "the other side rejected the connection")
            }
            ConnectFailure::NoMatch => (
                ReturnCode::NoMatch,
                "nobody waits on the remote address: ask again when somebody does",
            ),
            ConnectFailure::Differs(difference) => return difference.into(),
            _ => (
                ReturnCode::NotReachable,
                "this fabric reaches no host of the remote address",
            ),
        };
        Self::new(code, reason)
    }
}
