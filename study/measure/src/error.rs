//! Why a measurement ended without a result.

use std::fmt;
use std::time::Duration;

use viaduct_provider::Error;
use viaduct_provider::via::Status;

/// Why a measurement ended without a result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MeasureError {
    /// The fabric refused an operation.
    Refused {
        /// What was being done.
        doing: &'static str,
        /// What the fabric said.
        error: Error,
    },
    /// A descriptor completed in error: the connection broke, or the peer is gone.
    Failed {
        /// What was being done.
        doing: &'static str,
        /// The descriptor's status.
        status: Status,
    },
    /// Nothing happened for so long.
    Stalled {
        /// What was being waited for.
        doing: &'static str,
        /// How long.
        waited: Duration,
    },
    /// A message was not what was sent.
    WrongData {
        /// What differs.
        what: String,
    },
    /// The host wants an end: the peer process has gone, or the user has asked.
    Stopped {
        /// Why.
        reason: String,
    },
    /// A request could not be delivered.
    Returned {
        /// Why.
        reason: viaduct_am::Reason,
    },
    /// The plan asks for what the fabric cannot do.
    Impossible {
        /// What, and what can be done.
        reason: String,
    },
}

impl fmt::Display for MeasureError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { doing, error } => write!(formatter, "{doing}: {error}"),
            Self::Failed { doing, status } => {
                let why = if status.contains(Status::FLUSHED_ERROR) {
                    "the connection has ended"
                } else {
                    "the descriptor completed in error"
                };
                write!(formatter, "{doing}: {why} (status {:#010x})", status.bits())
            }
            Self::Stalled { doing, waited } => write!(
                formatter,
                "{doing}: nothing happened for {:.1} s; the other side hangs or is gone",
                waited.as_secs_f64()
            ),
            Self::WrongData { what } => write!(formatter, "wrong data arrived: {what}"),
            Self::Returned { reason } => write!(formatter, "a request came back: {reason}"),
            Self::Stopped { reason } | Self::Impossible { reason } => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for MeasureError {}

pub(crate) type Result<T> = std::result::Result<T, MeasureError>;

/// Says what was being done when the fabric refused.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> Doing<T> for viaduct_provider::Result<T> {
    #[inline]
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|error| MeasureError::Refused { doing, error })
    }
}
