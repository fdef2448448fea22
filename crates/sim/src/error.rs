//! Why a run cannot begin.

use thiserror::Error;

use crate::workload::PatternError;

/// Why a run cannot begin.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The traffic pattern does not fit the network.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Processes are numbered by 32 bits.
    #[error("hosts times processes exceed 2^32; use fewer processes a host")]
    TooManyProcesses,
}
