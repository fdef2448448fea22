//! Memory regions and protection tags: who may touch which bytes.

use core::error::Error;
use core::fmt::{self, Display, Formatter};

use crate::descriptor::DataSegment;
use crate::keys::{MemoryAttributes, MemoryHandle, ProtectionTag};
use crate::protection::{self, AccessError, Region};
use crate::slab::{Key, PACKED_GENERATION_MAX, PACKED_SLOTS_MAX, Slab};

/// Why a protection tag was not created or destroyed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TagError {
    /// The NIC has no more tags: destroy one (`VIP_ERROR_RESOURCE`).
    LimitReached {
        /// The NIC's limit.
        limit: u32,
    },
    /// No live tag of this NIC (`VIP_INVALID_PARAMETER`).
    Unknown,
    /// VIs or regions still use the tag: destroy or move them first (`VIP_ERROR_RESOURCE`).
    InUse {
        /// How many.
        users: u32,
    },
}

impl Display for TagError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitReached { limit } => {
                write!(
                    f,
                    "all {limit} protection tags of the NIC exist: destroy one first"
                )
            }
            Self::Unknown => write!(f, "the protection tag does not exist on this NIC"),
            Self::InUse { users } => {
                write!(
                    f,
                    "the protection tag is used by {users} VIs or memory regions"
                )
            }
        }
    }
}

impl Error for TagError {}

/// Why a memory region was not registered, changed or found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MemoryError {
    /// The NIC has no more regions: deregister one (`VIP_ERROR_RESOURCE`).
    TooManyRegions {
        /// The NIC's limit.
        limit: u32,
    },
    /// Too many bytes are registered: deregister some (`VIP_ERROR_RESOURCE`).
    TooManyBytes {
        /// The NIC's limit.
        limit_bytes: u64,
    },
    /// The region is longer than one region may be (`VIP_ERROR_RESOURCE`).
    RegionTooLong {
        /// The NIC's limit.
        limit_bytes: u64,
    },
    /// The range is empty or passes the end of the address space (`VIP_INVALID_PARAMETER`).
    InvalidRange {
        /// First byte asked for.
        address: u64,
        /// Bytes asked for.
        length: u64,
    },
    /// No live tag of this NIC (`VIP_INVALID_PTAG`).
    InvalidTag,
    /// Remote reads are not supported (`VIP_INVALID_RDMAREAD`).
    InvalidRdmaRead,
    /// No live region of this NIC (`VIP_INVALID_PARAMETER`).
    UnknownHandle,
    /// The handle's region begins elsewhere (`VIP_INVALID_PARAMETER`).
    WrongAddress {
        /// Where it begins.
        registered_address: u64,
    },
}

impl Display for MemoryError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRegions { limit } => {
                write!(
                    f,
                    "all {limit} memory regions of the NIC exist: deregister one first"
                )
            }
            Self::TooManyBytes { limit_bytes } => {
                write!(
                    f,
                    "the NIC registers at most {limit_bytes} bytes in all regions together"
                )
            }
            Self::RegionTooLong { limit_bytes } => {
                write!(f, "a memory region has at most {limit_bytes} bytes")
            }
            Self::InvalidRange { address, length } => write!(
                f,
                "{length} bytes at {address:#x} are no range of addresses: it must hold at least \
                 one byte and end within 64 bits"
            ),
            Self::InvalidTag => write!(f, "the protection tag does not exist on this NIC"),
            Self::InvalidRdmaRead => write!(f, "the NIC does not support remote reads"),
            Self::UnknownHandle => write!(f, "the memory handle names no live region of this NIC"),
            Self::WrongAddress { registered_address } => {
                write!(
                    f,
                    "the region of this handle begins at {registered_address:#x}"
                )
            }
        }
    }
}

impl Error for MemoryError {}

/// How much memory a NIC keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) tags: u32,
    pub(crate) regions: u32,
    pub(crate) region_bytes: u64,
    pub(crate) registered_bytes: u64,
}

/// The regions and tags of one NIC.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MemoryTable {
    regions: Slab<Region, PACKED_GENERATION_MAX>,
    registered_bytes: u64,
    tags: Slab<Tag, PACKED_GENERATION_MAX>,
}

/// What is known of a tag.
#[derive(Debug)]
struct Tag {
    /// VIs and regions that have it.
    users: u32,
    /// Whose VIs may use its regions beside its own.
    guest: Option<ProtectionTag>,
}

impl MemoryTable {
    /// Where the first region's entry lies, and its bytes.
    #[inline]
    pub(crate) fn first_region_address(&self) -> (*const u8, usize) {
        self.regions.slot_address(0)
    }

    pub(crate) const fn new() -> Self {
        Self {
            regions: Slab::new(),
            tags: Slab::new(),
            registered_bytes: 0,
        }
    }

    pub(crate) fn create_tag(&mut self, limits: Limits) -> Result<ProtectionTag, TagError> {
        let limit = limits.tags.min(PACKED_SLOTS_MAX);
        if self.tags.len() >= limit {
            return Err(TagError::LimitReached { limit });
        }
        Ok(ProtectionTag(
            self.tags
                .insert(Tag {
                    users: 0,
                    guest: None,
                })
                .pack(),
        ))
    }

    pub(crate) fn destroy_tag(&mut self, tag: ProtectionTag) -> Result<(), TagError> {
        let key = Key::unpack(tag.0).ok_or(TagError::Unknown)?;
        match self.tags.get(key).ok_or(TagError::Unknown)?.users {
            0 => {
                self.tags.remove(key);
                Ok(())
            }
            users => Err(TagError::InUse { users }),
        }
    }

    /// Lets VIs of another tag use the regions of this one, too; none: no longer.
    pub(crate) fn set_guest(
        &mut self,
        tag: ProtectionTag,
        guest: Option<ProtectionTag>,
    ) -> Result<(), TagError> {
        let tag = Key::unpack(tag.0).and_then(|key| self.tags.get_mut(key));
        tag.ok_or(TagError::Unknown)?.guest = guest;
        Ok(())
    }

    /// The tag with which a VI of this one comes to a region: the region's own, if it may use it as
    /// a guest.
    #[inline]
    pub(crate) fn tag_at(&self, region: &Region, tag: ProtectionTag) -> ProtectionTag {
        match region.attributes.tag == tag {
            true => tag,
            false => self.tag_of_guest(region, tag),
        }
    }

    #[cold]
    fn tag_of_guest(&self, region: &Region, tag: ProtectionTag) -> ProtectionTag {
        let own = region.attributes.tag;
        let known = Key::unpack(own.0).and_then(|key| self.tags.get(key));
        match known.is_some_and(|known| known.guest == Some(tag)) {
            true => own,
            false => tag,
        }
    }

    /// Counts one more user of a tag; `None` when the tag is not live.
    pub(crate) fn retain_tag(&mut self, tag: ProtectionTag) -> Option<()> {
        self.tags.get_mut(Key::unpack(tag.0)?)?.users += 1;
        Some(())
    }

    /// Takes back one [`MemoryTable::retain_tag`].
    pub(crate) fn release_tag(&mut self, tag: ProtectionTag) {
        if let Some(tag) = Key::unpack(tag.0).and_then(|key| self.tags.get_mut(key)) {
            tag.users -= 1;
        }
    }

    pub(crate) fn register(
        &mut self,
        address: u64,
        length: u64,
        attributes: MemoryAttributes,
        limits: Limits,
        supported: Result<(), MemoryError>,
    ) -> Result<MemoryHandle, MemoryError> {
        let limit = limits.regions.min(PACKED_SLOTS_MAX);
        if self.regions.len() >= limit {
            return Err(MemoryError::TooManyRegions { limit });
        }
        // The last byte must have an address; the first byte past the region need not.
        if length == 0 || address.checked_add(length - 1).is_none() {
            return Err(MemoryError::InvalidRange { address, length });
        }
        if length > limits.region_bytes {
            return Err(MemoryError::RegionTooLong {
                limit_bytes: limits.region_bytes,
            });
        }
        let registered_bytes = self.registered_bytes.checked_add(length);
        let Some(registered_bytes) = registered_bytes.filter(|b| *b <= limits.registered_bytes)
        else {
            return Err(MemoryError::TooManyBytes {
                limit_bytes: limits.registered_bytes,
            });
        };
        supported?;
        self.retain_tag(attributes.tag)
            .ok_or(MemoryError::InvalidTag)?;
        self.registered_bytes = registered_bytes;
        let key = self.regions.insert(Region {
            address,
            length,
            attributes,
        });
        Ok(MemoryHandle(key.pack()))
    }

    pub(crate) fn deregister(
        &mut self,
        address: u64,
        handle: MemoryHandle,
    ) -> Result<(), MemoryError> {
        let key = self.region_key(address, handle)?;
        if let Some(region) = self.regions.remove(key) {
            self.registered_bytes -= region.length;
            self.release_tag(region.attributes.tag);
        }
        Ok(())
    }

    pub(crate) fn query(
        &self,
        address: u64,
        handle: MemoryHandle,
    ) -> Result<MemoryAttributes, MemoryError> {
        let key = self.region_key(address, handle)?;
        self.regions
            .get(key)
            .map(|region| region.attributes)
            .ok_or(MemoryError::UnknownHandle)
    }

    pub(crate) fn set_attributes(
        &mut self,
        address: u64,
        handle: MemoryHandle,
        attributes: MemoryAttributes,
        supported: Result<(), MemoryError>,
    ) -> Result<(), MemoryError> {
        let key = self.region_key(address, handle)?;
        supported?;
        self.retain_tag(attributes.tag)
            .ok_or(MemoryError::InvalidTag)?;
        let region = self
            .regions
            .get_mut(key)
            .ok_or(MemoryError::UnknownHandle)?;
        let former = core::mem::replace(&mut region.attributes, attributes);
        self.release_tag(former.tag);
        Ok(())
    }

    /// Whether a VI with `tag` may use every byte of `segments`.
    ///
    /// VIA, memory protection: the handle is live, the bytes lie inside its region, the region's
    /// tag is the VI's. Checked to the byte, not to the page.
    #[inline]
    pub(crate) fn permits(&self, tag: ProtectionTag, segments: &[DataSegment]) -> bool {
        segments.iter().all(|segment| {
            segment.length == 0
                || self.region(segment.handle).is_some_and(|region| {
                    let length = u64::from(segment.length);
                    let tag = self.tag_at(region, tag);
                    region.check_local(tag, segment.address, length).is_ok()
                })
        })
    }

    /// Whether a message of so many bytes may be placed into the `segments` of a receive.
    ///
    /// VIA, memory protection: the bytes that it fills lie inside; see
    /// [`reach`](protection::reach).
    #[inline]
    pub(crate) fn permits_message(
        &self,
        tag: ProtectionTag,
        segments: &[DataSegment],
        bytes: u64,
    ) -> bool {
        self.permits(tag, segments) || self.permits_part(tag, segments, bytes)
    }

    #[cold]
    fn permits_part(&self, tag: ProtectionTag, segments: &[DataSegment], bytes: u64) -> bool {
        let rooms = segments.iter().filter(|segment| segment.length > 0);
        let reach = protection::reach(rooms.map(|segment| {
            let region = self
                .region(segment.handle)
                .ok_or(AccessError::UnknownHandle)?;
            let room = region.room_from(self.tag_at(region, tag), segment.address);
            room.map(|room| (segment.length, room))
        }));
        let posted = segments.iter().map(|segment| u64::from(segment.length));
        reach.is_ok_and(|reach| protection::fits_within(reach, posted.sum(), bytes))
    }

    /// The region of a live handle.
    #[inline]
    pub(crate) fn region(&self, handle: MemoryHandle) -> Option<&Region> {
        self.regions.get(Key::unpack(handle.0)?)
    }

    /// Every region with its handle.
    pub(crate) fn regions(&self) -> impl Iterator<Item = (MemoryHandle, &Region)> {
        let regions = self.regions.iter();
        regions.map(|(key, region)| (MemoryHandle(key.pack()), region))
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.regions.shrink_to_fit();
        self.tags.shrink_to_fit();
    }

    fn region_key(&self, address: u64, handle: MemoryHandle) -> Result<Key, MemoryError> {
        let key = Key::unpack(handle.0).ok_or(MemoryError::UnknownHandle)?;
        let region = self.regions.get(key).ok_or(MemoryError::UnknownHandle)?;
        if region.address != address {
            return Err(MemoryError::WrongAddress {
                registered_address: region.address,
            });
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        tags: 2,
        regions: 3,
        region_bytes: 1000,
        registered_bytes: 1500,
    };

    fn segment(address: u64, handle: MemoryHandle, length: u32) -> DataSegment {
        DataSegment {
            address,
            handle,
            length,
        }
    }

    #[test]
    fn protection_is_checked_to_the_byte() {
        let mut memory = MemoryTable::new();
        let tag = memory.create_tag(LIMITS).unwrap();
        let other = memory.create_tag(LIMITS).unwrap();
        let handle = memory
            .register(1001, 100, MemoryAttributes::local(tag), LIMITS, Ok(()))
            .unwrap();
        let permits = |address, length| memory.permits(tag, &[segment(address, handle, length)]);
        assert!(permits(1001, 100));
        assert!(permits(1001, 1));
        assert!(permits(1100, 1));
        assert!(!permits(1000, 1), "one byte before");
        assert!(!permits(1001, 101), "one byte past");
        assert!(!permits(1101, 1), "the byte past");
        assert!(!permits(u64::MAX, 2), "wraps");
        assert!(permits(0, 0), "no byte is touched");
        assert!(
            !memory.permits(other, &[segment(1001, handle, 1)]),
            "another tag"
        );
        let dead = MemoryHandle::from_bits(0);
        assert!(!memory.permits(tag, &[segment(1001, dead, 1)]));
        let mixed = [segment(1001, handle, 1), segment(1001, dead, 1)];
        assert!(!memory.permits(tag, &mixed), "every segment counts");
    }

    #[test]
    fn a_region_may_end_at_the_last_address() {
        let mut memory = MemoryTable::new();
        let tag = memory.create_tag(LIMITS).unwrap();
        let start = u64::MAX - 9;
        let local = MemoryAttributes::local(tag);
        let handle = memory.register(start, 10, local, LIMITS, Ok(())).unwrap();
        assert!(memory.permits(tag, &[segment(start, handle, 10)]));
        assert!(!memory.permits(tag, &[segment(start + 1, handle, 10)]));
        let past = memory.register(start, 11, local, LIMITS, Ok(()));
        assert_eq!(
            past,
            Err(MemoryError::InvalidRange {
                address: start,
                length: 11
            })
        );
        let empty = memory.register(start, 0, local, LIMITS, Ok(()));
        assert_eq!(
            empty,
            Err(MemoryError::InvalidRange {
                address: start,
                length: 0
            })
        );
    }

    #[test]
    fn deregistering_needs_the_start_address() {
        // Conformance case 10.
        let mut memory = MemoryTable::new();
        let tag = memory.create_tag(LIMITS).unwrap();
        let handle = memory
            .register(64, 64, MemoryAttributes::local(tag), LIMITS, Ok(()))
            .unwrap();
        let wrong = Err(MemoryError::WrongAddress {
            registered_address: 64,
        });
        assert_eq!(memory.deregister(65, handle), wrong);
        assert!(memory.permits(tag, &[segment(64, handle, 64)]));
        assert_eq!(memory.deregister(64, handle), Ok(()));
        assert!(!memory.permits(tag, &[segment(64, handle, 64)]));
        assert_eq!(
            memory.deregister(64, handle),
            Err(MemoryError::UnknownHandle)
        );
        assert_eq!(memory.query(64, handle), Err(MemoryError::UnknownHandle));
        let again = memory
            .register(64, 64, MemoryAttributes::local(tag), LIMITS, Ok(()))
            .unwrap();
        assert_ne!(again, handle);
        assert!(
            !memory.permits(tag, &[segment(64, handle, 64)]),
            "the dead handle stays dead"
        );
    }

    #[test]
    fn the_same_bytes_registered_twice_have_two_handles() {
        // Conformance case 11.
        let mut memory = MemoryTable::new();
        let tag = memory.create_tag(LIMITS).unwrap();
        let local = MemoryAttributes::local(tag);
        let written = MemoryAttributes {
            rdma_write: true,
            ..local
        };
        let first = memory.register(0, 10, local, LIMITS, Ok(())).unwrap();
        let second = memory.register(0, 10, written, LIMITS, Ok(())).unwrap();
        assert_ne!(first, second);
        assert!(first.bits() != 0 && second.bits() != 0);
        assert_eq!(memory.query(0, first), Ok(local));
        assert_eq!(memory.query(0, second), Ok(written));
        memory.deregister(0, first).unwrap();
        assert!(memory.permits(tag, &[segment(0, second, 10)]));
    }

    #[test]
    fn a_tag_in_use_is_not_destroyed() {
        // Conformance case 12.
        let mut memory = MemoryTable::new();
        let tag = memory.create_tag(LIMITS).unwrap();
        let handle = memory
            .register(0, 1, MemoryAttributes::local(tag), LIMITS, Ok(()))
            .unwrap();
        assert_eq!(memory.destroy_tag(tag), Err(TagError::InUse { users: 1 }));
        memory.deregister(0, handle).unwrap();
        assert_eq!(memory.destroy_tag(tag), Ok(()));
        assert_eq!(memory.destroy_tag(tag), Err(TagError::Unknown));
        let dead = memory.register(0, 1, MemoryAttributes::local(tag), LIMITS, Ok(()));
        assert_eq!(dead, Err(MemoryError::InvalidTag));
    }

    #[test]
    fn a_region_moves_to_another_tag() {
        let mut memory = MemoryTable::new();
        let old = memory.create_tag(LIMITS).unwrap();
        let new = memory.create_tag(LIMITS).unwrap();
        let handle = memory
            .register(0, 8, MemoryAttributes::local(old), LIMITS, Ok(()))
            .unwrap();
        memory
            .set_attributes(0, handle, MemoryAttributes::local(new), Ok(()))
            .unwrap();
        assert!(memory.permits(new, &[segment(0, handle, 8)]));
        assert!(!memory.permits(old, &[segment(0, handle, 8)]));
        assert_eq!(memory.destroy_tag(old), Ok(()));
        let refused = memory.set_attributes(0, handle, MemoryAttributes::local(old), Ok(()));
        assert_eq!(refused, Err(MemoryError::InvalidTag));
        let read = MemoryAttributes {
            rdma_read: true,
            ..MemoryAttributes::local(new)
        };
        assert_eq!(
            memory.set_attributes(0, handle, read, Err(MemoryError::InvalidRdmaRead)),
            Err(MemoryError::InvalidRdmaRead)
        );
        assert_eq!(memory.destroy_tag(new), Err(TagError::InUse { users: 1 }));
    }

    #[test]
    fn limits_hold_at_and_one_past() {
        let mut memory = MemoryTable::new();
        let tag = memory.create_tag(LIMITS).unwrap();
        memory.create_tag(LIMITS).unwrap();
        assert_eq!(
            memory.create_tag(LIMITS),
            Err(TagError::LimitReached { limit: 2 })
        );
        let local = MemoryAttributes::local(tag);
        let long = memory.register(0, 1001, local, LIMITS, Ok(()));
        assert_eq!(long, Err(MemoryError::RegionTooLong { limit_bytes: 1000 }));
        memory.register(0, 1000, local, LIMITS, Ok(())).unwrap();
        let bytes = memory.register(0, 501, local, LIMITS, Ok(()));
        assert_eq!(bytes, Err(MemoryError::TooManyBytes { limit_bytes: 1500 }));
        memory.register(0, 499, local, LIMITS, Ok(())).unwrap();
        memory.register(0, 1, local, LIMITS, Ok(())).unwrap();
        let regions = memory.register(0, 1, local, LIMITS, Ok(()));
        assert_eq!(regions, Err(MemoryError::TooManyRegions { limit: 3 }));
    }
}
