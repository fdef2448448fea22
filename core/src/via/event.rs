//! What a NIC tells without being asked.

use crate::address::Address;
use crate::ids::{Queue, ViId};
use crate::ids::{RequestId, WaitId};
use crate::via::attributes::RemoteViAttributes;
use crate::via::error::ConnectFailure;
use crate::via::error_code::ErrorCode;

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
    /// Whoever holds the descriptors' memory found a posted one invalid
    /// (`VIP_ERROR_POST_DESC`).
    InvalidDescriptor {
        /// Which VI.
        vi: ViId,
        /// Which of its queues.
        queue: Queue,
        /// The consumer's name for the descriptor.
        cookie: u64,
    },
    /// Whoever holds the descriptors' memory could not write a completion
    /// (`VIP_ERROR_COMP_PROT`).
    CompletionProtection {
        /// Which VI.
        vi: ViId,
        /// Which of its queues.
        queue: Queue,
        /// The consumer's name for the descriptor.
        cookie: u64,
    },
    /// A peer's remote write without immediate data was refused, at least once since this was
    /// last told (`VIP_ERROR_RDMAW_PROT`).
    RdmaWriteProtection {
        /// Which VI.
        vi: ViId,
    },
    /// A peer's remote write without immediate data arrived corrupt (`VIP_ERROR_RDMAW_DATA`).
    RdmaWriteData {
        /// Which VI.
        vi: ViId,
    },
    /// A peer's remote write without immediate data was cut short (`VIP_ERROR_RDMAW_ABORT`).
    RdmaWriteAbort {
        /// Which VI.
        vi: ViId,
    },
    /// A peer's remote read was refused (`VIP_ERROR_RDMAR_PROT`).
    RdmaReadProtection {
        /// Which VI.
        vi: ViId,
    },
    /// The transport failed while a remote write or read of this end was under way
    /// (`VIP_ERROR_RDMA_TRANSPORT`).
    RdmaTransport {
        /// Which VI.
        vi: ViId,
    },
    /// The NIC is unusable (`VIP_ERROR_CATASTROPHIC`).
    Catastrophic,
}

impl Event {
    /// The VI it is about, if it is about one.
    #[must_use]
    pub const fn vi(&self) -> Option<ViId> {
        match self {
            Self::ConnectionRequested { .. } | Self::WaitTimedOut { .. } | Self::Catastrophic => {
                None
            }
            Self::Connected { vi, .. }
            | Self::ConnectFailed { vi, .. }
            | Self::ConnectionLost { vi }
            | Self::ReceiveQueueEmpty { vi, .. }
            | Self::ViOverrun { vi, .. }
            | Self::InvalidDescriptor { vi, .. }
            | Self::CompletionProtection { vi, .. }
            | Self::RdmaWriteProtection { vi }
            | Self::RdmaWriteData { vi }
            | Self::RdmaWriteAbort { vi }
            | Self::RdmaReadProtection { vi }
            | Self::RdmaTransport { vi } => Some(*vi),
        }
    }

    /// The asynchronous error of the C interface that it is, if it is one.
    #[must_use]
    pub const fn error_code(&self) -> Option<ErrorCode> {
        Some(match self {
            Self::ConnectionRequested { .. }
            | Self::WaitTimedOut { .. }
            | Self::Connected { .. }
            | Self::ConnectFailed { .. } => return None,
            Self::ConnectionLost { .. } => ErrorCode::ConnectionLost,
            Self::ReceiveQueueEmpty { .. } => ErrorCode::ReceiveQueueEmpty,
            Self::ViOverrun { .. } => ErrorCode::ViOverrun,
            Self::InvalidDescriptor { .. } => ErrorCode::PostDescriptor,
            Self::CompletionProtection { .. } => ErrorCode::CompletionProtection,
            Self::RdmaWriteProtection { .. } => ErrorCode::RdmaWriteProtection,
            Self::RdmaWriteData { .. } => ErrorCode::RdmaWriteData,
            Self::RdmaWriteAbort { .. } => ErrorCode::RdmaWriteAbort,
            Self::RdmaReadProtection { .. } => ErrorCode::RdmaReadProtection,
            Self::RdmaTransport { .. } => ErrorCode::RdmaTransport,
            Self::Catastrophic => ErrorCode::Catastrophic,
        })
    }
}
