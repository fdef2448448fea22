//! The eleven asynchronous errors, with the numbers of the C interface.

use core::fmt;

/// What an asynchronous error is about (`VIP_ERROR_CODE`).
///
/// | error | who notices it |
/// | --- | --- |
/// | `PostDescriptor`, `CompletionProtection` | whoever holds the descriptors' memory |
/// | `Catastrophic` | the driver, that loses the NIC |
/// | all others | the NIC itself, from what its driver tells it |
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum ErrorCode {
    /// A posted descriptor's address or handle is invalid, or it was changed after the post.
    PostDescriptor = 0,
    /// The connection was lost and the VI is in error.
    ConnectionLost = 1,
    /// A message found no receive.
    ReceiveQueueEmpty = 2,
    /// A work queue was full.
    ViOverrun = 3,
    /// A remote write without immediate data failed its protection check here.
    RdmaWriteProtection = 4,
    /// A remote write without immediate data arrived corrupt.
    RdmaWriteData = 5,
    /// A remote write without immediate data was cut short.
    RdmaWriteAbort = 6,
    /// A remote read failed its protection check here.
    RdmaReadProtection = 7,
    /// A completion could not be written: its descriptor's memory is gone.
    CompletionProtection = 8,
    /// The transport failed under a remote operation of this end.
    RdmaTransport = 9,
    /// The NIC is unusable.
    Catastrophic = 10,
}

/// Which handle of an asynchronous error means something (`VIP_RESOURCE_CODE`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum ResourceCode {
    /// The NIC.
    Nic = 0,
    /// A VI.
    Vi = 1,
    /// A completion queue.
    CompletionQueue = 2,
    /// A descriptor.
    Descriptor = 3,
}

impl ErrorCode {
    /// Every error, by number.
    pub const ALL: [Self; 11] = [
        Self::PostDescriptor,
        Self::ConnectionLost,
        Self::ReceiveQueueEmpty,
        Self::ViOverrun,
        Self::RdmaWriteProtection,
        Self::RdmaWriteData,
        Self::RdmaWriteAbort,
        Self::RdmaReadProtection,
        Self::CompletionProtection,
        Self::RdmaTransport,
        Self::Catastrophic,
    ];

    /// The error of a number of the C interface.
    #[must_use]
    pub fn from_bits(bits: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(bits).ok()?).copied()
    }

    /// Which handle means something.
    #[must_use]
    pub const fn resource(self) -> ResourceCode {
        match self {
            Self::PostDescriptor | Self::CompletionProtection => ResourceCode::Descriptor,
            Self::Catastrophic => ResourceCode::Nic,
            _ => ResourceCode::Vi,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::PostDescriptor => "a posted descriptor is invalid or was changed after the post",
            Self::ConnectionLost => "the connection was lost",
            Self::ReceiveQueueEmpty => "a message found no posted receive",
            Self::ViOverrun => "a work queue was full",
            Self::RdmaWriteProtection => "a remote write failed its protection check",
            Self::RdmaWriteData => "a remote write arrived corrupt",
            Self::RdmaWriteAbort => "a remote write was cut short",
            Self::RdmaReadProtection => "a remote read failed its protection check",
            Self::CompletionProtection => "a completion could not be written",
            Self::RdmaTransport => "the transport failed under a remote operation",
            Self::Catastrophic => "the NIC is unusable",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_c_interface() {
        for (number, code) in (0_u32..).zip(ErrorCode::ALL) {
            assert_eq!(code as u32, number);
            assert_eq!(ErrorCode::from_bits(number), Some(code));
        }
        assert_eq!(ErrorCode::from_bits(11), None);
    }
}
