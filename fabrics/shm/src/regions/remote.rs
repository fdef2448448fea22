//! The region table of a peer.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use super::entries::{
    ENTRY_BYTES, Entries, MAGIC, REMOTE_ATTEMPTS, TABLE_BYTES_MAX, VERSION, Wanted,
};
use viaduct_core::ViAttributes;
use viaduct_core::protection::RemoteAccess;

use super::{Check, Placement};
use crate::segment::{Access, Segment};

/// The region table of a peer's NIC, mapped for reading.
///
/// What it says is the peer's word: a [`Placement`] is to be checked against the segment before it
/// is used. A table full of nonsense allows the peer's memory to be touched, and no other.
#[derive(Debug)]
pub(crate) struct RemoteRegionTable {
    entries: Entries,
    /// Keeps the entries mapped.
    _segment: Segment,
}

impl RemoteRegionTable {
    /// Maps the table behind a descriptor that a peer sent.
    ///
    /// # Errors
    ///
    /// `InvalidData` when it is no region table of this version; as [`Segment::map`] otherwise.
    pub(crate) fn map(descriptor: OwnedFd) -> io::Result<Self> {
        let size = rustix::fs::fstat(&descriptor)?.st_size;
        let length = usize::try_from(size).unwrap_or(0).min(TABLE_BYTES_MAX);
        if length < ENTRY_BYTES {
            return Err(foreign("it is shorter than its header"));
        }
        let segment = Segment::map(descriptor, length, Access::Read)?;
        // SAFETY: the segment is page aligned, `length` bytes long, and lives in the same value.
        let entries = unsafe { Entries::new(segment.base(), length) };
        let header = entries.header();
        if header.magic.load(Ordering::Relaxed) != MAGIC {
            return Err(foreign("its first bytes are not those of a region table"));
        }
        if header.version.load(Ordering::Relaxed) != VERSION {
            return Err(foreign("it has another version"));
        }
        Ok(Self {
            entries,
            _segment: segment,
        })
    }

    /// Whether the peer lets some of its bytes be written or read, and where they are. `vi` is the
    /// peer's VI.
    ///
    /// # Errors
    ///
    /// See [`super::ProtectionError`]; its `Unsettled` is no verdict.
    #[inline]
    pub(crate) fn check_remote(
        &self,
        handle: u32,
        address: u64,
        length: u64,
        vi: &ViAttributes,
        access: RemoteAccess,
    ) -> Check<Placement> {
        let wanted = Wanted {
            handle,
            address,
            length,
            tag: vi.tag.bits(),
        };
        self.entries
            .check_remote(wanted, vi, access, REMOTE_ATTEMPTS)
    }
}

fn foreign(reason: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("what a peer sent is no region table: {reason}"),
    )
}
