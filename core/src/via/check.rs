//! What a descriptor must be like, and what two ends of a connection must have in common.
//!
//! Pure functions, for every kind of data path. The order of the checks of a descriptor is format,
//! protection, length; the first that fails counts. Protection is in
//! [`protection`](crate::protection).

use crate::address::Address;
use crate::descriptor::Operation;
use crate::keys::MemoryAttributes;
use crate::memory::MemoryError;
use crate::via::attributes::{NicAttributes, ReliabilityLevel, RemoteViAttributes, ViAttributes};
use crate::via::error::{ConnectError, ViError};

/// The parts of a descriptor on which its format depends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// What it asks for.
    pub operation: Operation,
    /// Whether it has immediate data.
    pub has_immediate: bool,
    /// Whether its first segment is a remote address.
    pub has_remote: bool,
    /// Segments, the remote address included.
    pub segments: usize,
}

/// Whether a descriptor of the send queue is well formed.
///
/// Bits of the control word that must be 0 are the concern of whoever reads that word; it makes
/// such a descriptor [`Operation::Illegal`].
#[inline]
#[must_use]
pub fn send_is_well_formed(shape: Shape, nic: &NicAttributes, level: ReliabilityLevel) -> bool {
    let is_legal = match shape.operation {
        Operation::SendReceive => true,
        Operation::RdmaWrite => shape.has_remote,
        Operation::RdmaRead => {
            shape.has_remote && !shape.has_immediate && nic.supports_rdma_read(level)
        }
        Operation::Illegal => false,
    };
    rule!(is_legal && shape.segments <= nic.max_segments_per_descriptor as usize)
}

/// Whether a descriptor of the receive queue is well formed.
#[inline]
#[must_use]
pub fn receive_is_well_formed(operation: Operation, segments: usize, nic: &NicAttributes) -> bool {
    rule!(
        matches!(operation, Operation::SendReceive)
            && segments <= nic.max_segments_per_descriptor as usize
    )
}

/// Whether the length that a descriptor of the send queue states is right: the sum of its data
/// segments, and no more than the VI transfers at once.
#[inline]
#[must_use]
pub fn send_length_is_right(stated_bytes: u32, sum_bytes: u64, max_transfer_bytes: u32) -> bool {
    rule!(u64::from(stated_bytes) == sum_bytes && stated_bytes <= max_transfer_bytes)
}

/// Whether two VIs can be connected: level, largest message and quality of service are equal.
///
/// Tag, remote access and extensions may differ.
///
/// # Errors
/// The first that differs, with the remote end's value.
pub fn ends_match(local: &ViAttributes, remote: &RemoteViAttributes) -> Result<(), ConnectError> {
    rule!(if local.reliability != remote.reliability {
        let remote = remote.reliability;
        Err(ConnectError::ReliabilityDiffers { remote })
    } else if local.max_transfer_bytes != remote.max_transfer_bytes {
        let remote_bytes = remote.max_transfer_bytes;
        Err(ConnectError::MaxTransferDiffers { remote_bytes })
    } else if local.quality_of_service != remote.quality_of_service {
        let remote = remote.quality_of_service;
        Err(ConnectError::QualityOfServiceDiffers { remote })
    } else {
        Ok(())
    })
}

/// Whether a NIC's programs may wait on an address.
///
/// # Errors
/// [`ConnectError::DiscriminatorTooLong`].
pub fn address_is_legal(address: &Address, limit_bytes: u16) -> Result<(), ConnectError> {
    let bytes = address.discriminator.as_bytes().len();
    rule!(if bytes > usize::from(limit_bytes) {
        Err(ConnectError::DiscriminatorTooLong { limit_bytes })
    } else {
        Ok(())
    })
}

/// Whether a connection may be asked for from one address to another: a request needs time.
///
/// # Errors
/// Those of [`address_is_legal`], and [`ConnectError::NoTime`].
pub fn request_is_legal(
    addresses: [&Address; 2],
    limit_bytes: u16,
    has_time: bool,
) -> Result<(), ConnectError> {
    let legal = addresses.map(|address| address_is_legal(address, limit_bytes));
    rule!(legal[0].and(legal[1]).and(if has_time {
        Ok(())
    } else {
        Err(ConnectError::NoTime)
    }))
}

/// Whether a NIC can have a VI with these attributes. The tag is not looked at.
///
/// # Errors
/// The first attribute that the NIC does not support.
pub fn vi_is_supported(vi: &ViAttributes, nic: &NicAttributes) -> Result<(), ViError> {
    let level = vi.reliability;
    let (limit_bytes, count) = (nic.max_transfer_bytes, nic.qualities_of_service);
    rule!(if !nic.reliability_levels.contains(level) {
        Err(ViError::InvalidReliabilityLevel { level })
    } else if vi.max_transfer_bytes > limit_bytes {
        Err(ViError::InvalidMaxTransfer { limit_bytes })
    } else if vi.quality_of_service >= count {
        Err(ViError::InvalidQualityOfService { count })
    } else if vi.rdma_read && !nic.supports_rdma_read(level) {
        Err(ViError::InvalidRdmaRead)
    } else {
        Ok(())
    })
}

/// Whether a NIC can have a region with these attributes. The tag is not looked at.
///
/// # Errors
/// [`MemoryError::InvalidRdmaRead`].
pub fn memory_is_supported(
    memory: &MemoryAttributes,
    nic: &NicAttributes,
) -> Result<(), MemoryError> {
    // A region belongs to no level: it is enough that some VI could be read through.
    let some_level = nic.supports_rdma_read(ReliabilityLevel::ReliableDelivery)
        || nic.supports_rdma_read(ReliabilityLevel::ReliableReception);
    rule!(if memory.rdma_read && !some_level {
        Err(MemoryError::InvalidRdmaRead)
    } else {
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ProtectionTag;
    use crate::via::attributes::ReliabilityLevels;

    const RD: ReliabilityLevel = ReliabilityLevel::ReliableDelivery;

    fn nic() -> NicAttributes {
        NicAttributes {
            max_segments_per_descriptor: 3,
            reliability_levels: ReliabilityLevels::ALL,
            rdma_read_levels: ReliabilityLevels::NONE.with(RD),
            ..NicAttributes::default()
        }
    }

    #[test]
    fn a_remote_operation_needs_its_address_segment_and_counts_it() {
        let nic = nic();
        let shape = Shape {
            operation: Operation::RdmaWrite,
            has_immediate: true,
            has_remote: true,
            segments: 3,
        };
        let is_good = |shape, level| send_is_well_formed(shape, &nic, level);
        let ud = ReliabilityLevel::Unreliable;
        assert!(is_good(shape, ud));
        assert!(!is_good(
            Shape {
                segments: 4,
                ..shape
            },
            ud
        ));
        assert!(!is_good(
            Shape {
                has_remote: false,
                ..shape
            },
            ud
        ));
        let read = Shape {
            operation: Operation::RdmaRead,
            has_immediate: false,
            ..shape
        };
        assert!(is_good(read, RD));
        assert!(!is_good(read, ud), "not at this level");
        assert!(!is_good(read, ReliabilityLevel::ReliableReception));
        assert!(!is_good(
            Shape {
                has_immediate: true,
                ..read
            },
            RD
        ));
    }

    #[test]
    fn the_first_difference_of_two_ends_is_told() {
        let local = ViAttributes::unreliable(ProtectionTag::from_bits(1 << 20), 100);
        let same = local.for_peer();
        assert_eq!(ends_match(&local, &same), Ok(()));
        let other = RemoteViAttributes {
            rdma_write: true,
            rdma_read: true,
            ..same
        };
        assert_eq!(ends_match(&local, &other), Ok(()));
        let other = RemoteViAttributes {
            quality_of_service: 3,
            ..same
        };
        assert_eq!(
            ends_match(&local, &other),
            Err(ConnectError::QualityOfServiceDiffers { remote: 3 })
        );
        let other = RemoteViAttributes {
            max_transfer_bytes: 99,
            ..other
        };
        assert_eq!(
            ends_match(&local, &other),
            Err(ConnectError::MaxTransferDiffers { remote_bytes: 99 })
        );
        let other = RemoteViAttributes {
            reliability: RD,
            ..other
        };
        assert_eq!(
            ends_match(&local, &other),
            Err(ConnectError::ReliabilityDiffers { remote: RD })
        );
    }

    #[test]
    fn remote_reads_are_for_levels_that_have_them() {
        let nic = nic();
        let tag = ProtectionTag::from_bits(1 << 20);
        let reads = MemoryAttributes {
            rdma_read: true,
            ..MemoryAttributes::local(tag)
        };
        assert_eq!(memory_is_supported(&reads, &nic), Ok(()));
        let vi = ViAttributes {
            rdma_read: true,
            ..ViAttributes::unreliable(tag, 1)
        };
        assert_eq!(vi_is_supported(&vi, &nic), Err(ViError::InvalidRdmaRead));
        let vi = ViAttributes {
            reliability: RD,
            ..vi
        };
        assert_eq!(vi_is_supported(&vi, &nic), Ok(()));
        let none = NicAttributes {
            rdma_read_levels: ReliabilityLevels::UNRELIABLE,
            ..nic
        };
        assert_eq!(
            memory_is_supported(&reads, &none),
            Err(MemoryError::InvalidRdmaRead)
        );
    }
}
