//! What comes back: buffers, with how they ended.

use std::fmt;

use viaduct_core::{CompletedOperation, Status};

use crate::buffer::Buffer;
use crate::error::Error;

/// A received message, or the news of a peer's remote write.
#[derive(Debug)]
pub struct Received {
    /// The buffer that was posted.
    pub buffer: Buffer,
    /// Bytes of the message, or of the remote write.
    pub length: usize,
    /// The four bytes that came with it.
    pub immediate: Option<u32>,
    /// The status word, without an error.
    pub status: Status,
}

impl Received {
    /// The message. Empty after a remote write, whose data went to where the peer chose.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        if self.is_remote_write() {
            return &[];
        }
        // A fabric never fills more than was posted; not a byte outside is shown if it claims so.
        &self.buffer[..self.length.min(self.buffer.len())]
    }

    /// Whether this tells of a peer's remote write with immediate data instead of a message.
    #[must_use]
    pub fn is_remote_write(&self) -> bool {
        self.status.operation() == Some(CompletedOperation::RemoteRdmaWrite)
    }
}

/// A completed send, remote write or remote read.
#[derive(Debug)]
pub struct Sent {
    /// The buffer that was posted; after a remote read, with the data.
    pub buffer: Buffer,
    /// Bytes moved.
    pub length: usize,
    /// The status word, without an error.
    pub status: Status,
}

/// Why no completed descriptor came.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompletionError {
    /// One came, and it had failed: here is its buffer.
    Failed {
        /// The buffer that was posted.
        buffer: Buffer,
        /// What went wrong.
        status: Status,
    },
    /// Nothing is posted on this queue: post first.
    NothingPosted,
    /// The fabric refused: a time limit, a queue that is bound to a completion queue.
    Fabric(Error),
}

impl CompletionError {
    /// The status of a descriptor that failed.
    #[must_use]
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Failed { status, .. } => Some(*status),
            Self::NothingPosted | Self::Fabric(_) => None,
        }
    }

    /// Whether the descriptor was never processed: the connection had ended.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.status()
            .is_some_and(|status| status.contains(Status::FLUSHED_ERROR))
    }
}

impl From<Error> for CompletionError {
    fn from(error: Error) -> Self {
        Self::Fabric(error)
    }
}

impl fmt::Display for CompletionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { status, .. } => {
                formatter.write_str("the descriptor completed in error:")?;
                let mut separator = " ";
                for (bit, text) in ERRORS {
                    if status.contains(bit) {
                        write!(formatter, "{separator}{text}")?;
                        separator = ", ";
                    }
                }
                write!(formatter, " (status {:#010x})", status.bits())
            }
            Self::NothingPosted => formatter.write_str("no descriptor is posted on this queue"),
            Self::Fabric(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for CompletionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Fabric(error) => Some(error),
            Self::Failed { .. } | Self::NothingPosted => None,
        }
    }
}

/// A descriptor was not taken: why, and its buffer.
#[derive(Debug)]
pub struct Refused {
    /// Why; [`crate::ReturnCode::Resource`] when the queue is full.
    pub error: Error,
    /// The buffer that was to be posted.
    pub buffer: Buffer,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

const ERRORS: [(Status, &str); 8] = [
    (Status::FORMAT_ERROR, "malformed descriptor"),
    (Status::PROTECTION_ERROR, "memory that may not be used"),
    (Status::LENGTH_ERROR, "wrong or too great a length"),
    (Status::PARTIAL_ERROR, "moved in part"),
    (Status::FLUSHED_ERROR, "flushed, the connection has ended"),
    (Status::TRANSPORT_ERROR, "lost on the way"),
    (
        Status::RDMA_PROTECTION_ERROR,
        "refused by the target's memory",
    ),
    (
        Status::REMOTE_DESCRIPTOR_ERROR,
        "the peer's receive was missing or bad",
    ),
];
