//! The errors of the semantics in the codes of the interface.

use viaduct_fabric::{Error, ReturnCode};
use viaduct_via::{MemoryError, ViError};

use crate::shared::FreeError;

/// Why a VI was not made or changed.
pub(crate) fn vi(error: ViError) -> Error {
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
    Error::new(code, error.to_string())
}

/// Why memory was not registered or changed.
pub(crate) fn memory(error: MemoryError) -> Error {
    let code = match error {
        MemoryError::InvalidTag => ReturnCode::InvalidPtag,
        MemoryError::InvalidRdmaRead => ReturnCode::InvalidRdmaRead,
        _ => ReturnCode::InvalidParameter,
    };
    Error::new(code, error.to_string())
}

/// Why shared memory was not given back.
pub(crate) fn free(error: FreeError) -> Error {
    let code = match error {
        FreeError::NotAllocated => ReturnCode::InvalidParameter,
        FreeError::Registered { .. } => ReturnCode::Resource,
    };
    Error::new(code, error.to_string())
}
