//! Why a command was refused. Each error names the return code of the C interface it becomes.

use core::error::Error;
use core::fmt::{self, Display, Formatter};

use crate::via::attributes::ReliabilityLevel;
use crate::via::state::ViState;

/// Why a completion queue was not created, resized or destroyed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CompletionQueueError {
    /// The NIC has no more completion queues: destroy one (`VIP_ERROR_RESOURCE`).
    LimitReached {
        /// The NIC's limit.
        limit: u32,
    },
    /// More entries than a completion queue may have (`VIP_ERROR_RESOURCE`).
    TooManyEntries {
        /// The NIC's limit.
        limit: u32,
    },
    /// A completion queue needs at least one entry (`VIP_INVALID_PARAMETER`).
    NoEntries,
    /// No live completion queue of this NIC (`VIP_INVALID_PARAMETER`).
    Unknown,
    /// Work queues are bound to it: destroy their VIs first (`VIP_ERROR_RESOURCE`).
    InUse {
        /// How many work queues.
        work_queues: u32,
    },
    /// More entries wait than would fit: take some first (`VIP_ERROR_RESOURCE`).
    EntriesWaiting {
        /// How many wait.
        waiting: u32,
    },
}

impl Display for CompletionQueueError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitReached { limit } => {
                write!(
                    f,
                    "all {limit} completion queues of the NIC exist: destroy one first"
                )
            }
            Self::TooManyEntries { limit } => {
                write!(f, "a completion queue has at most {limit} entries")
            }
            Self::NoEntries => write!(f, "a completion queue has at least one entry"),
            Self::Unknown => write!(f, "the completion queue does not exist on this NIC"),
            Self::InUse { work_queues } => {
                write!(
                    f,
                    "{work_queues} work queues are bound to the completion queue"
                )
            }
            Self::EntriesWaiting { waiting } => {
                write!(
                    f,
                    "{waiting} entries wait in the completion queue: take them first"
                )
            }
        }
    }
}

impl Error for CompletionQueueError {}

/// Why a VI was not created, changed, queried or destroyed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ViError {
    /// The NIC has no more VIs: destroy one (`VIP_ERROR_RESOURCE`).
    LimitReached {
        /// The NIC's limit.
        limit: u32,
    },
    /// The level is not supported (`VIP_INVALID_RELIABILITY_LEVEL`).
    InvalidReliabilityLevel {
        /// What was asked for.
        level: ReliabilityLevel,
    },
    /// Messages that long are not supported (`VIP_INVALID_MTU`).
    InvalidMaxTransfer {
        /// The NIC's limit.
        limit_bytes: u32,
    },
    /// The quality of service is not supported (`VIP_INVALID_QOS`).
    InvalidQualityOfService {
        /// How many there are; they are numbered from 0.
        count: u16,
    },
    /// No live tag of this NIC (`VIP_INVALID_PTAG`).
    InvalidTag,
    /// Remote reads are not supported at this level (`VIP_INVALID_RDMAREAD`).
    InvalidRdmaRead,
    /// No live VI of this NIC (`VIP_INVALID_PARAMETER`).
    Unknown,
    /// No live completion queue of this NIC (`VIP_INVALID_PARAMETER`).
    UnknownCompletionQueue,
    /// Not allowed in this state (`VIP_INVALID_STATE`).
    InvalidState {
        /// The VI's state.
        state: ViState,
    },
}

impl Display for ViError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitReached { limit } => {
                write!(f, "all {limit} VIs of the NIC exist: destroy one first")
            }
            Self::InvalidReliabilityLevel { level } => {
                write!(
                    f,
                    "the NIC does not support the reliability level {level:?}"
                )
            }
            Self::InvalidMaxTransfer { limit_bytes } => {
                write!(
                    f,
                    "the NIC transfers at most {limit_bytes} bytes in one message"
                )
            }
            Self::InvalidQualityOfService { count } => {
                write!(
                    f,
                    "the NIC has {count} qualities of service, numbered from 0"
                )
            }
            Self::InvalidTag => write!(f, "the protection tag does not exist on this NIC"),
            Self::InvalidRdmaRead => write!(f, "the NIC does not support remote reads"),
            Self::Unknown => write!(f, "the VI does not exist on this NIC"),
            Self::UnknownCompletionQueue => {
                write!(f, "the completion queue does not exist on this NIC")
            }
            Self::InvalidState { state } => write!(f, "the VI is in state {state}"),
        }
    }
}

impl Error for ViError {}

/// Why a descriptor was not taken by a work queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PostError {
    /// No live VI of this NIC (`VIP_INVALID_PARAMETER`).
    UnknownVi,
    /// The queue is full: take a completion, then post again (`VIP_ERROR_RESOURCE`).
    QueueFull {
        /// The NIC's limit.
        limit: u32,
    },
}

impl Display for PostError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVi => write!(f, "the VI does not exist on this NIC"),
            Self::QueueFull { limit } => write!(
                f,
                "the work queue holds {limit} descriptors, its limit: take a completion first"
            ),
        }
    }
}

impl Error for PostError {}

/// Why a command about connections was refused.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ConnectError {
    /// No live VI of this NIC (`VIP_INVALID_PARAMETER`).
    UnknownVi,
    /// No open request of this NIC (`VIP_INVALID_PARAMETER`).
    UnknownRequest,
    /// A request must be given some time (`VIP_INVALID_PARAMETER`).
    NoTime,
    /// The discriminator is longer than the NIC takes (`VIP_INVALID_PARAMETER`).
    DiscriminatorTooLong {
        /// The NIC's limit.
        limit_bytes: u16,
    },
    /// The VI must be idle (`VIP_INVALID_STATE`).
    InvalidState {
        /// The VI's state.
        state: ViState,
    },
    /// The ends differ in reliability level (`VIP_INVALID_RELIABILITY_LEVEL`).
    ReliabilityDiffers {
        /// The other end's.
        remote: ReliabilityLevel,
    },
    /// The ends differ in the largest message (`VIP_INVALID_MTU`).
    MaxTransferDiffers {
        /// The other end's.
        remote_bytes: u32,
    },
    /// The ends differ in quality of service (`VIP_INVALID_QOS`).
    QualityOfServiceDiffers {
        /// The other end's.
        remote: u16,
    },
    /// The client no longer waits (`VIP_TIMEOUT`). The request is gone.
    RequestWithdrawn,
}

impl Display for ConnectError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVi => write!(f, "the VI does not exist on this NIC"),
            Self::UnknownRequest => write!(f, "no open connection request has this name"),
            Self::NoTime => write!(f, "a connection request needs a time limit above zero"),
            Self::DiscriminatorTooLong { limit_bytes } => {
                write!(
                    f,
                    "a discriminator has at most {limit_bytes} bytes on this NIC"
                )
            }
            Self::InvalidState { state } => {
                write!(
                    f,
                    "the VI is in state {state}: only an idle VI can be connected"
                )
            }
            Self::ReliabilityDiffers { remote } => {
                write!(
                    f,
                    "the other end's reliability level is {remote:?}: the VI's must be equal"
                )
            }
            Self::MaxTransferDiffers { remote_bytes } => write!(
                f,
                "the other end's largest message has {remote_bytes} bytes: the VI's must be equal"
            ),
            Self::QualityOfServiceDiffers { remote } => {
                write!(
                    f,
                    "the other end's quality of service is {remote}: the VI's must be equal"
                )
            }
            Self::RequestWithdrawn => write!(f, "the client no longer waits for an answer"),
        }
    }
}

impl Error for ConnectError {}

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
    /// Peer to peer: the VIs do not fit each other (`VIP_INVALID_RELIABILITY_LEVEL`,
    /// `VIP_INVALID_MTU`, `VIP_INVALID_QOS`). Both ends are told.
    Differs(ConnectError),
}
