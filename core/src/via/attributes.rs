//! What NICs, VIs and memory regions are asked for: limits, levels, permissions.

use alloc::boxed::Box;

use crate::keys::{ProtectionTag, Rights};
use crate::memory::Limits;
use crate::time::Timespan;

/// What a NIC can do, fixed for its life and shared by NICs of one kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NicAttributes {
    /// What the NIC is called.
    pub name: Box<str>,
    /// VIs at once.
    pub max_vis: u32,
    /// Descriptors in one work queue, from post until the consumer takes the completion.
    pub max_descriptors_per_queue: u32,
    /// Data segments in one descriptor.
    pub max_segments_per_descriptor: u32,
    /// Bytes of one message; a VI may be given less.
    pub max_transfer_bytes: u32,
    /// Payload bytes of the native frame. For information.
    pub native_mtu_bytes: u32,
    /// Completion queues at once.
    pub max_completion_queues: u32,
    /// Entries of one completion queue.
    pub max_completion_queue_entries: u32,
    /// Protection tags at once, at most 2^20.
    pub max_protection_tags: u32,
    /// Memory regions at once, at most 2^20.
    pub max_memory_regions: u32,
    /// Bytes of one memory region.
    pub max_region_bytes: u64,
    /// Bytes of all memory regions together.
    pub max_registered_bytes: u64,
    /// Bytes of a discriminator.
    pub max_discriminator_bytes: u16,
    /// Levels that VIs may have.
    pub reliability_levels: ReliabilityLevels,
    /// Levels at which remote reads work. Unreliable delivery never counts.
    pub rdma_read_levels: ReliabilityLevels,
    /// Qualities of service, numbered from 0, the default.
    pub qualities_of_service: u16,
    /// How long a connection request that meets no waiter is kept for one to come.
    pub connect_grace: Timespan,
}

impl NicAttributes {
    /// Whether VIs of this level can read remote memory. Unreliable delivery never can.
    #[inline]
    #[must_use]
    pub const fn supports_rdma_read(&self, level: ReliabilityLevel) -> bool {
        level.is_reliable() && self.rdma_read_levels.contains(level)
    }
}

impl Default for NicAttributes {
    /// A software NIC: limits that no ordinary program meets.
    fn default() -> Self {
        Self {
            name: "viaduct".into(),
            max_vis: 1 << 20,
            max_descriptors_per_queue: 1 << 16,
            max_segments_per_descriptor: 252,
            max_transfer_bytes: 1 << 30,
            native_mtu_bytes: 65_536,
            max_completion_queues: 1 << 16,
            max_completion_queue_entries: 1 << 24,
            max_protection_tags: 1 << 20,
            max_memory_regions: 1 << 20,
            max_region_bytes: 1 << 48,
            max_registered_bytes: u64::MAX,
            max_discriminator_bytes: 256,
            reliability_levels: ReliabilityLevels::ALL,
            rdma_read_levels: ReliabilityLevels::RELIABLE,
            qualities_of_service: 1,
            connect_grace: Timespan::ZERO,
        }
    }
}

/// How much a connection promises about delivery.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum ReliabilityLevel {
    /// At most once, loss unnoticed, errors leave the connection alone.
    Unreliable = 0x01,
    /// Exactly once and in order; an error breaks the connection.
    ReliableDelivery = 0x02,
    /// As reliable delivery, and a completed send lies in the target's memory.
    ReliableReception = 0x04,
}

impl ReliabilityLevel {
    /// The level of a number of the C interface; `None` unless it is 1, 2 or 4.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Option<Self> {
        Some(match bits {
            0x01 => Self::Unreliable,
            0x02 => Self::ReliableDelivery,
            0x04 => Self::ReliableReception,
            _ => return None,
        })
    }

    /// Whether an error breaks a connection of this level.
    #[inline]
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Unreliable)
    }
}

/// A set of reliability levels.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct ReliabilityLevels(u8);

impl ReliabilityLevels {
    /// No level.
    pub const NONE: Self = Self(0);
    /// Unreliable delivery alone.
    pub const UNRELIABLE: Self = Self(ReliabilityLevel::Unreliable as u8);
    /// Both reliable levels.
    pub const RELIABLE: Self = Self::NONE
        .with(ReliabilityLevel::ReliableDelivery)
        .with(ReliabilityLevel::ReliableReception);
    /// All three levels.
    pub const ALL: Self = Self::RELIABLE.with(ReliabilityLevel::Unreliable);

    /// This set and `level`.
    #[must_use]
    pub const fn with(self, level: ReliabilityLevel) -> Self {
        Self(self.0 | level as u8)
    }

    /// Whether `level` is in the set.
    #[must_use]
    pub const fn contains(self, level: ReliabilityLevel) -> bool {
        self.0 & level as u8 != 0
    }

    /// The mask of the C interface.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0 as u16
    }
}

/// What a VI is created with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ViAttributes {
    /// Equal at both ends of a connection.
    pub reliability: ReliabilityLevel,
    /// Largest message in bytes; equal at both ends of a connection.
    pub max_transfer_bytes: u32,
    /// Which memory regions the VI's descriptors may name.
    pub tag: ProtectionTag,
    /// Whether the peer may write memory through this VI.
    pub rdma_write: bool,
    /// Whether the peer may read memory through this VI.
    pub rdma_read: bool,
    /// 0 is the default; equal at both ends of a connection.
    pub quality_of_service: u16,
    /// What goes beyond the VI Architecture; may differ between the ends of a connection.
    pub extensions: Extensions,
}

/// What a VI does beyond the VI Architecture. Nothing by default.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Extensions {
    /// A send, or a remote write with immediate data, waits in its queue until the peer has a
    /// receive posted for it.
    pub flow_control: bool,
    /// A message longer than the receive that it takes goes on in the following ones.
    pub request_splitting: bool,
}

impl Extensions {
    /// None of them.
    pub const NONE: Self = Self {
        flow_control: false,
        request_splitting: false,
    };
}

impl ViAttributes {
    /// Unreliable, no remote access, default quality of service.
    #[must_use]
    pub const fn unreliable(tag: ProtectionTag, max_transfer_bytes: u32) -> Self {
        Self {
            reliability: ReliabilityLevel::Unreliable,
            max_transfer_bytes,
            tag,
            rdma_write: false,
            rdma_read: false,
            quality_of_service: 0,
            extensions: Extensions::NONE,
        }
    }

    /// What the peer is told of these attributes: the tag is ours alone.
    #[must_use]
    pub const fn for_peer(&self) -> RemoteViAttributes {
        RemoteViAttributes {
            reliability: self.reliability,
            max_transfer_bytes: self.max_transfer_bytes,
            rdma_write: self.rdma_write,
            rdma_read: self.rdma_read,
            quality_of_service: self.quality_of_service,
            extensions: self.extensions,
        }
    }
}

/// What one end of a connection tells the other about its VI.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RemoteViAttributes {
    /// Reliability level.
    pub reliability: ReliabilityLevel,
    /// Largest message in bytes.
    pub max_transfer_bytes: u32,
    /// Whether memory may be written through the VI.
    pub rdma_write: bool,
    /// Whether memory may be read through the VI.
    pub rdma_read: bool,
    /// Quality of service.
    pub quality_of_service: u16,
    /// What the peer does beyond the VI Architecture.
    pub extensions: Extensions,
}

impl From<&ViAttributes> for Rights {
    #[inline]
    fn from(vi: &ViAttributes) -> Self {
        Self {
            tag: vi.tag,
            rdma_write: vi.rdma_write,
            rdma_read: vi.rdma_read,
        }
    }
}

impl NicAttributes {
    /// How much memory it keeps.
    pub(crate) fn memory_limits(&self) -> Limits {
        Limits {
            tags: self.max_protection_tags,
            regions: self.max_memory_regions,
            region_bytes: self.max_region_bytes,
            registered_bytes: self.max_registered_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_single_levels_are_levels() {
        assert_eq!(
            ReliabilityLevel::from_bits(1),
            Some(ReliabilityLevel::Unreliable)
        );
        assert_eq!(
            ReliabilityLevel::from_bits(2),
            Some(ReliabilityLevel::ReliableDelivery)
        );
        assert_eq!(
            ReliabilityLevel::from_bits(4),
            Some(ReliabilityLevel::ReliableReception)
        );
        for bits in [0, 3, 5, 6, 7, 8, 0x101] {
            assert_eq!(ReliabilityLevel::from_bits(bits), None);
        }
    }

    #[test]
    fn a_set_holds_what_was_put_into_it() {
        let levels = ReliabilityLevels::UNRELIABLE.with(ReliabilityLevel::ReliableReception);
        assert!(levels.contains(ReliabilityLevel::Unreliable));
        assert!(!levels.contains(ReliabilityLevel::ReliableDelivery));
        assert_eq!(levels.bits(), 5);
    }
}
