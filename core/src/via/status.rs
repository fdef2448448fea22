//! How a descriptor ended: the status word of a completion.

use core::fmt;
use core::ops::BitOr;

use crate::descriptor::Operation;
use crate::ids::Queue;

/// The status of a descriptor, bit for bit as in the C interface.
///
/// 0 while the descriptor is pending; then [`Status::DONE`], a code for the operation that
/// completed, and an error bit when it failed.
///
/// ```text
///  31      20 19        18..16   15..9  8..1    0
/// | reserved | IMMEDIATE | op    | 0    | error | DONE |
/// ```
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Status(u32);

impl Status {
    /// Not complete.
    pub const PENDING: Self = Self(0);
    /// Complete, good or bad.
    pub const DONE: Self = Self(0x0000_0001);
    /// The local descriptor is malformed.
    pub const FORMAT_ERROR: Self = Self(0x0000_0002);
    /// A local handle, tag or range check failed.
    pub const PROTECTION_ERROR: Self = Self(0x0000_0004);
    /// Send: the length is not the sum of the segments, or above the VI's limit. Receive: the
    /// message is longer than the posted buffers.
    pub const LENGTH_ERROR: Self = Self(0x0000_0008);
    /// The message was sent or arrived in part.
    pub const PARTIAL_ERROR: Self = Self(0x0000_0010);
    /// Never processed: the queue was flushed.
    pub const FLUSHED_ERROR: Self = Self(0x0000_0020);
    /// Loss or corruption that the transport could not repair.
    pub const TRANSPORT_ERROR: Self = Self(0x0000_0040);
    /// A remote memory access was refused at its target.
    pub const RDMA_PROTECTION_ERROR: Self = Self(0x0000_0080);
    /// The remote receive descriptor was bad (reliable reception).
    pub const REMOTE_DESCRIPTOR_ERROR: Self = Self(0x0000_0100);
    /// Every error bit.
    pub const ERROR_MASK: Self = Self(0x0000_01FE);
    /// Where the code of the operation lies.
    pub const OPERATION_MASK: Self = Self(0x0007_0000);
    /// The immediate data of a receive descriptor is valid.
    pub const IMMEDIATE: Self = Self(0x0008_0000);
    /// Extension, request splitting: the message goes on in the next receive. A reserved bit of
    /// the C interface, never set on a VI without that extension.
    pub const CONTINUES: Self = Self(0x0010_0000);

    /// A clean completion of `operation`.
    #[must_use]
    pub const fn done(operation: CompletedOperation) -> Self {
        Self(Self::DONE.0 | ((operation as u32) << OPERATION_SHIFT))
    }

    /// The completion of a descriptor of the send queue; `error` is [`Status::PENDING`] or error
    /// bits.
    #[inline]
    #[must_use]
    pub const fn sent(operation: Operation, error: Self) -> Self {
        Self(Self::done(CompletedOperation::of(operation)).0 | error.0)
    }

    /// The completion of a descriptor of the receive queue that a message, or a peer's remote write
    /// with immediate data, has taken; `error` is [`Status::PENDING`] or error bits.
    ///
    /// Immediate data is delivered by a receive without error only.
    #[inline]
    #[must_use]
    pub const fn received(operation: Operation, error: Self, has_immediate: bool) -> Self {
        let operation = match operation {
            Operation::RdmaWrite => CompletedOperation::RemoteRdmaWrite,
            _ => CompletedOperation::Receive,
        };
        let done = Self::done(operation).0 | error.0;
        if has_immediate && !error.is_error() {
            Self(done | Self::IMMEDIATE.0)
        } else {
            Self(done)
        }
    }

    /// The completion of a descriptor that was never processed; `operation` is what it asks for.
    #[must_use]
    pub const fn flushed(queue: Queue, operation: Operation) -> Self {
        match queue {
            Queue::Send => Self::sent(operation, Self::FLUSHED_ERROR),
            Queue::Receive => Self::received(Operation::SendReceive, Self::FLUSHED_ERROR, false),
        }
    }

    /// From the status word of a descriptor that a fabric has completed.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The number.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether the descriptor is complete, good or bad.
    #[must_use]
    pub const fn is_done(self) -> bool {
        self.0 & Self::DONE.0 != 0
    }

    /// Whether an error bit is set.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 & Self::ERROR_MASK.0 != 0
    }

    /// Whether every bit of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The operation that completed; `None` for a code that means nothing.
    #[must_use]
    pub const fn operation(self) -> Option<CompletedOperation> {
        Some(match (self.0 & Self::OPERATION_MASK.0) >> OPERATION_SHIFT {
            0 => CompletedOperation::Send,
            1 => CompletedOperation::Receive,
            2 => CompletedOperation::RdmaWrite,
            3 => CompletedOperation::RemoteRdmaWrite,
            4 => CompletedOperation::RdmaRead,
            _ => return None,
        })
    }
}

impl BitOr for Status {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Status({:#010x})", self.0)
    }
}

/// Which operation a status is about.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum CompletedOperation {
    /// A message was sent.
    Send = 0,
    /// A message was received.
    Receive = 1,
    /// A remote memory write, at its initiator.
    RdmaWrite = 2,
    /// A receive descriptor was consumed by a peer's remote memory write with immediate data.
    RemoteRdmaWrite = 3,
    /// A remote memory read, at its initiator.
    RdmaRead = 4,
}

impl CompletedOperation {
    /// The code under which an operation completes on a send queue.
    const fn of(operation: Operation) -> Self {
        match operation {
            Operation::SendReceive | Operation::Illegal => Self::Send,
            Operation::RdmaWrite => Self::RdmaWrite,
            Operation::RdmaRead => Self::RdmaRead,
        }
    }
}

const OPERATION_SHIFT: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_completions_have_the_numbers_of_the_c_interface() {
        assert_eq!(Status::done(CompletedOperation::Send).bits(), 0x0000_0001);
        assert_eq!(
            Status::done(CompletedOperation::Receive).bits(),
            0x0001_0001
        );
        let immediate = Status::done(CompletedOperation::Receive) | Status::IMMEDIATE;
        assert_eq!(immediate.bits(), 0x0009_0001);
        assert_eq!(
            Status::done(CompletedOperation::RdmaWrite).bits(),
            0x0002_0001
        );
        let remote = Status::done(CompletedOperation::RemoteRdmaWrite) | Status::IMMEDIATE;
        assert_eq!(remote.bits(), 0x000B_0001);
        assert_eq!(
            Status::done(CompletedOperation::RdmaRead).bits(),
            0x0004_0001
        );
    }

    #[test]
    fn statuses_are_composed_alike_everywhere() {
        let write = Operation::RdmaWrite;
        let none = Status::PENDING;
        assert_eq!(Status::received(write, none, true).bits(), 0x000B_0001);
        let refused = Status::RDMA_PROTECTION_ERROR;
        assert_eq!(Status::received(write, refused, true).bits(), 0x0003_0081);
        assert_eq!(Status::sent(write, refused).bits(), 0x0002_0081);
        let flushed = |queue| Status::flushed(queue, Operation::RdmaRead).bits();
        assert_eq!(flushed(Queue::Send), 0x0004_0021);
        assert_eq!(flushed(Queue::Receive), 0x0001_0021);
    }

    #[test]
    fn the_error_mask_is_the_eight_error_bits() {
        let errors = [
            Status::FORMAT_ERROR,
            Status::PROTECTION_ERROR,
            Status::LENGTH_ERROR,
            Status::PARTIAL_ERROR,
            Status::FLUSHED_ERROR,
            Status::TRANSPORT_ERROR,
            Status::RDMA_PROTECTION_ERROR,
            Status::REMOTE_DESCRIPTOR_ERROR,
        ];
        let all = errors.into_iter().fold(Status::PENDING, BitOr::bitor);
        assert_eq!(all, Status::ERROR_MASK);
        assert!(errors.into_iter().all(Status::is_error));
        assert!(!(Status::DONE | Status::IMMEDIATE).is_error());
    }

    #[test]
    fn the_operation_is_read_back() {
        for operation in [
            CompletedOperation::Send,
            CompletedOperation::Receive,
            CompletedOperation::RdmaWrite,
            CompletedOperation::RemoteRdmaWrite,
            CompletedOperation::RdmaRead,
        ] {
            let status = Status::done(operation) | Status::FLUSHED_ERROR;
            assert_eq!(status.operation(), Some(operation));
        }
        assert_eq!(Status(0x0005_0001).operation(), None);
    }
}
