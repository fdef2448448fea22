//! Why a call of an endpoint was refused.

use std::fmt;

use crate::message::Invalid;
use crate::table::TABLE_ENTRIES_MAX;

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RequestError {
    /// As many requests as the endpoint has credits wait for their replies: poll.
    NoCredit {
        /// How many.
        credits: u32,
    },
    /// The carrier has no room now: poll, or wait for [`crate::EventMask::SPACE`].
    Full,
    /// The carrier has closed; nothing can be sent any more.
    Closed,
    /// Nothing is mapped at this index of the translation table.
    NotMapped {
        /// The index.
        index: usize,
    },
    /// The index is past what a translation table can have.
    IndexTooLarge {
        /// The index.
        index: usize,
    },
    /// The message does not keep the limits.
    Invalid(Invalid),
}

impl RequestError {
    /// Whether the same request can succeed later.
    #[must_use]
    pub const fn is_back_pressure(&self) -> bool {
        matches!(self, Self::NoCredit { .. } | Self::Full)
    }
}

impl From<Invalid> for RequestError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCredit { credits } => {
                write!(
                    formatter,
                    "{credits} requests wait for their replies: poll first"
                )
            }
            Self::Full => formatter.write_str("no room to send now: poll, or wait for space"),
            Self::Closed => formatter.write_str("the carrier of this endpoint has closed"),
            Self::NotMapped { index } => write!(
                formatter,
                "nothing is mapped at index {index} of the translation table: map a name first"
            ),
            Self::IndexTooLarge { index } => write!(
                formatter,
                "index {index} is too large; a translation table has {TABLE_ENTRIES_MAX} entries"
            ),
            Self::Invalid(invalid) => invalid.fmt(formatter),
        }
    }
}

impl std::error::Error for RequestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Invalid(invalid) => Some(invalid),
            _ => None,
        }
    }
}

/// A wait ended without what was waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WaitError {
    /// The time limit passed.
    TimedOut,
    /// The mask was empty: it would have waited for ever.
    EmptyMask,
}

impl fmt::Display for WaitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TimedOut => "nothing happened within the time limit",
            Self::EmptyMask => "the event mask is empty: say what to wait for",
        })
    }
}

impl std::error::Error for WaitError {}
