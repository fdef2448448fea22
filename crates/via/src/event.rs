//! What a NIC tells without being asked.

use crate::address::Address;
use crate::attributes::RemoteViAttributes;
use crate::connection::{RequestId, WaitId};
use crate::vi::{Queue, ViId};

/// Something happened that no return value can tell. Taken from
/// [`Nic::poll_event`](crate::Nic::poll_event).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A client asks for a connection; accept or reject it. The wait has ended.
    ConnectionRequested {
        /// The wait that it met.
        wait: WaitId,
        /// The request's name for the answer.
        request: RequestId,
        /// The client's own address.
        client: Address,
        /// The client's VI.
        attributes: RemoteViAttributes,
    },
    /// Nobody asked for a connection in time. The wait has ended.
    WaitTimedOut {
        /// Which wait.
        wait: WaitId,
    },
    /// The server accepted: the VI is connected.
    Connected {
        /// Which VI.
        vi: ViId,
        /// The server's VI.
        attributes: RemoteViAttributes,
    },
    /// The connection asked for did not come about: the VI is idle again, its receives still
    /// posted.
    ConnectFailed {
        /// Which VI.
        vi: ViId,
        /// Why.
        reason: ConnectFailure,
    },
    /// The connection was lost: the VI is in error, its queues flushed (`VIP_ERROR_CONN_LOST`).
    ConnectionLost {
        /// Which VI.
        vi: ViId,
    },
    /// Messages were dropped for want of a posted receive (`VIP_ERROR_RECVQ_EMPTY`).
    ReceiveQueueEmpty {
        /// Which VI.
        vi: ViId,
        /// Messages dropped since this was last told.
        dropped: u32,
    },
    /// A full work queue refused a descriptor, at least once since this was last told
    /// (`VIP_ERROR_VI_OVERRUN`).
    ViOverrun {
        /// Which VI.
        vi: ViId,
        /// Which of its queues.
        queue: Queue,
    },
}

/// Why a connection asked for did not come about.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// Neither accepted nor rejected in time (`VIP_TIMEOUT`).
    TimedOut,
    /// The server rejected (`VIP_REJECT`).
    Rejected,
    /// Nobody waits on that address (`VIP_NO_MATCH`).
    NoMatch,
    /// The host cannot be reached (`VIP_NOT_REACHABLE`).
    NotReachable,
}

impl Event {
    /// The VI it is about, if it is about one.
    #[must_use]
    pub const fn vi(&self) -> Option<ViId> {
        match self {
            Self::ConnectionRequested { .. } | Self::WaitTimedOut { .. } => None,
            Self::Connected { vi, .. }
            | Self::ConnectFailed { vi, .. }
            | Self::ConnectionLost { vi }
            | Self::ReceiveQueueEmpty { vi, .. }
            | Self::ViOverrun { vi, .. } => Some(*vi),
        }
    }
}
