//! The states of a VI.

use core::fmt;

/// The state of a VI, with the numbers of the C interface.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum ViState {
    /// Not connected. Receives can be posted.
    Idle = 0,
    /// Messages can be exchanged.
    Connected = 1,
    /// A connection was asked for.
    ConnectPending = 2,
    /// The connection broke; disconnect to make the VI idle again.
    Error = 3,
}

impl fmt::Display for ViState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Idle => "idle",
            Self::Connected => "connected",
            Self::ConnectPending => "connect-pending",
            Self::Error => "error",
        })
    }
}
