//! Who may touch which bytes: the check of one range against what is known of its region.
//!
//! Pure functions, for every kind of data path. Finding the region of a handle is the caller's
//! part; a handle that names no live region is [`AccessError::UnknownHandle`].

use core::error::Error;
use core::fmt;

use crate::keys::{MemoryAttributes, ProtectionTag, Rights};

/// A registered range of memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Region {
    /// First byte.
    pub address: u64,
    /// Bytes, at least one; the last has an address within 64 bits.
    pub length: u64,
    /// Tag and permissions.
    pub attributes: MemoryAttributes,
}

/// What a peer wants to do with memory here.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RemoteAccess {
    /// A remote write.
    Write,
    /// A remote read.
    Read,
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum AccessError {
    /// The handle names no live region of the NIC.
    UnknownHandle,
    /// The region has another protection tag than the VI.
    OtherTag,
    /// A byte lies outside the region.
    OutOfRange,
    /// The region does not offer this to peers.
    RegionForbids,
    /// The VI does not offer this to its peer.
    EndForbids,
}

impl fmt::Display for AccessError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::UnknownHandle => "the memory handle names no live region of this NIC",
            Self::OtherTag => "the region's protection tag is not the VI's",
            Self::OutOfRange => "the range is not inside the region of its handle",
            Self::RegionForbids => "the region is not registered for this remote access",
            Self::EndForbids => "the VI is not enabled for this remote access",
        })
    }
}

impl Error for AccessError {}

impl Region {
    /// Whether every byte of a range lies inside; without a sum that could overflow.
    #[inline]
    #[must_use]
    pub fn covers(&self, address: u64, length: u64) -> bool {
        rule!(
            address >= self.address
                && length <= self.length
                && address - self.address <= self.length - length
        )
    }

    /// Bytes that a VI with `tag` may use from an address inside to the region's end; 0 for an
    /// address outside.
    ///
    /// # Errors
    /// [`AccessError::OtherTag`].
    #[inline]
    pub fn room_from(&self, tag: ProtectionTag, address: u64) -> Result<u64, AccessError> {
        rule!(if self.attributes.tag != tag {
            Err(AccessError::OtherTag)
        } else {
            let offset = address.checked_sub(self.address);
            Ok(offset.map_or(0, |offset| self.length.saturating_sub(offset)))
        })
    }

    /// Whether a VI with `tag` may use a range for its own sends and receives.
    ///
    /// VIA, memory protection: the region's tag is the VI's, and the bytes lie inside; checked to
    /// the byte, not to the page. A range of 0 bytes is not looked at by callers.
    ///
    /// # Errors
    /// [`AccessError::OtherTag`], [`AccessError::OutOfRange`].
    #[inline]
    pub fn check_local(
        &self,
        tag: ProtectionTag,
        address: u64,
        length: u64,
    ) -> Result<(), AccessError> {
        rule!(if self.attributes.tag != tag {
            Err(AccessError::OtherTag)
        } else if !self.covers(address, length) {
            Err(AccessError::OutOfRange)
        } else {
            Ok(())
        })
    }

    /// Whether the peer of a VI with these attributes may touch a range.
    ///
    /// VIA, remote access: both the VI and the region must be enabled for it, besides what a local
    /// access needs.
    ///
    /// # Errors
    /// Any but [`AccessError::UnknownHandle`].
    #[inline]
    pub fn check_remote(
        &self,
        end: impl Into<Rights>,
        access: RemoteAccess,
        address: u64,
        length: u64,
    ) -> Result<(), AccessError> {
        let end = end.into();
        let is_enabled = match access {
            RemoteAccess::Write => self.attributes.rdma_write,
            RemoteAccess::Read => self.attributes.rdma_read,
        };
        let local =
            check_end(end, access).and_then(|()| self.check_local(end.tag, address, length));
        rule!(match local {
            Ok(()) if !is_enabled => Err(AccessError::RegionForbids),
            local => local,
        })
    }
}

/// How far a message may run into the data segments of a receive, in bytes from its first.
///
/// VIA, memory protection: bytes are checked where they are placed. So a receive may be posted with
/// a length that runs past its region, and takes every message that ends before: programs keep
/// pools of small buffers and post one length for all. What a message does not fill has to name a
/// region that the VI may use all the same.
///
/// `segments` says of each segment that has bytes its length, and the bytes from its address to the
/// end of its region ([`Region::room_from`]); or why the VI may not use the region. A message of
/// more bytes than all segments together would fill these: see [`fits_within`].
///
/// # Errors
/// The first of `segments`.
pub fn reach<E>(segments: impl IntoIterator<Item = Result<(u32, u64), E>>) -> Result<u64, E> {
    let first = Ok((0, true));
    let reached = segments.into_iter().fold(first, |reached, segment| {
        let (reach, is_open) = reached?;
        let (length, room) = segment?;
        let length = u64::from(length);
        if is_open {
            Ok((reach + room.min(length), room >= length))
        } else {
            Ok((reach, false))
        }
    });
    rule!(reached.map(|(reach, _)| reach))
}

/// Whether what a message fills of a receive of `posted_bytes` lies within its [`reach`].
#[inline]
#[must_use]
pub fn fits_within(reach: u64, posted_bytes: u64, message_bytes: u64) -> bool {
    rule!(message_bytes <= reach || reach >= posted_bytes)
}

/// The VI's part of [`Region::check_remote`]: all there is to check for an access to 0 bytes, whose
/// address and handle are not looked at.
///
/// # Errors
/// [`AccessError::EndForbids`].
#[inline]
pub fn check_end(end: impl Into<Rights>, access: RemoteAccess) -> Result<(), AccessError> {
    let end = end.into();
    let is_enabled = match access {
        RemoteAccess::Write => end.rdma_write,
        RemoteAccess::Read => end.rdma_read,
    };
    rule!(if is_enabled {
        Ok(())
    } else {
        Err(AccessError::EndForbids)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: ProtectionTag = ProtectionTag::from_bits(1 << 20);
    const OTHER: ProtectionTag = ProtectionTag::from_bits(2 << 20);

    #[test]
    fn a_receive_reaches_to_the_first_byte_outside() {
        let reach = |rooms: &[(u32, u64)]| reach(rooms.iter().map(|room| Ok::<_, ()>(*room)));
        assert_eq!(reach(&[]), Ok(0));
        assert_eq!(reach(&[(10, 10), (5, 90)]), Ok(15));
        assert_eq!(reach(&[(10, 9), (5, 90)]), Ok(9), "nothing behind a gap");
        assert_eq!(reach(&[(10, 0), (5, 5)]), Ok(0));
        assert_eq!(reach(&[(10, 10), (5, 0)]), Ok(10));
        let refused = super::reach([Ok((10, 0)), Err("tag"), Ok((1, 1))]);
        assert_eq!(refused, Err("tag"), "what no message reaches counts");
        assert!(fits_within(9, 15, 9) && !fits_within(9, 15, 10));
        assert!(!fits_within(9, 15, 16), "protection comes before length");
        assert!(fits_within(15, 15, 16), "too long is another error");
    }

    #[test]
    fn a_remote_access_needs_both_bits_the_tag_and_the_range() {
        let region = Region {
            address: 1000,
            length: 100,
            attributes: MemoryAttributes {
                rdma_write: true,
                ..MemoryAttributes::local(TAG)
            },
        };
        let end = Rights {
            tag: TAG,
            rdma_write: true,
            rdma_read: true,
        };
        let write = |end: Rights, address, length| {
            region.check_remote(end, RemoteAccess::Write, address, length)
        };
        assert_eq!(write(end, 1000, 100), Ok(()));
        assert_eq!(write(end, 1000, 101), Err(AccessError::OutOfRange));
        assert_eq!(write(end, 999, 1), Err(AccessError::OutOfRange));
        assert_eq!(write(end, u64::MAX, 2), Err(AccessError::OutOfRange));
        let foreign = Rights { tag: OTHER, ..end };
        assert_eq!(write(foreign, 1000, 1), Err(AccessError::OtherTag));
        let closed = Rights {
            rdma_write: false,
            ..end
        };
        assert_eq!(write(closed, 1000, 1), Err(AccessError::EndForbids));
        assert_eq!(
            region.check_remote(end, RemoteAccess::Read, 1000, 1),
            Err(AccessError::RegionForbids)
        );
    }
}
