//! The shared part of a region table: entries that are read without a lock.
//!
//! ```text
//!    0  magic u64 | version u32 | epoch u32 | flags u32 | 0 ...                      64 bytes
//!   64  entry 0: sequence u32 | handle u32 | start u64 | length u64 | tag u32
//!                | rights u32 | segment u32 | 0 u32 | offset u64 | 0 ...             64 bytes
//!  128  entry 1 ...
//! ```
//!
//! An entry is a seqlock: its sequence is odd while it is written, which happens under the table's
//! lock.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use viaduct_core::protection::{self, AccessError, Region, RemoteAccess};
use viaduct_core::{MemoryAttributes, ProtectionTag, ViAttributes};

use super::slots::{SLOTS_MAX, index_of};
use super::{Check, Placement, ProtectionError, sequence};
use crate::shared::SegmentId;

/// The bytes that an access wants, and on whose behalf.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Wanted {
    /// The region's handle, as it stands in the descriptor.
    pub(super) handle: u32,
    /// First byte.
    pub(super) address: u64,
    /// Bytes. None is always allowed, whatever the rest says.
    pub(super) length: u64,
    /// The tag of the VI.
    pub(super) tag: u32,
}

/// The header and the entries of a table, wherever it lies.
///
/// Both consist of atomics only, so a reference to them stays true while another process writes.
#[derive(Debug)]
pub(super) struct Entries {
    header: NonNull<Header>,
    first: NonNull<Entry>,
    pub(super) count: u32,
}

// SAFETY: all that is reached through the pointers are atomics, in memory that outlives the value.
unsafe impl Send for Entries {}
// SAFETY: as for `Send`.
unsafe impl Sync for Entries {}

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Header {
    pub(super) magic: AtomicU64,
    pub(super) version: AtomicU32,
    pub(super) epoch: AtomicU32,
    pub(super) flags: AtomicU32,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Entry {
    pub(super) sequence: AtomicU32,
    pub(super) handle: AtomicU32,
    pub(super) start: AtomicU64,
    pub(super) length: AtomicU64,
    pub(super) tag: AtomicU32,
    pub(super) rights: AtomicU32,
    pub(super) segment: AtomicU32,
    reserved: AtomicU32,
    pub(super) offset: AtomicU64,
}

/// An entry as it was at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    pub(super) handle: u32,
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) tag: u32,
    pub(super) rights: u32,
    pub(super) segment: u32,
    pub(super) offset: u64,
}

impl Entries {
    /// # Safety
    ///
    /// `base` is a multiple of 64 and `length` bytes from it, one entry at least, can be read (and
    /// for [`Entries::write`] written) as long as the value lives; whoever else writes them does so
    /// atomically or is another process.
    pub(super) unsafe fn new(base: NonNull<u8>, length: usize) -> Self {
        Self {
            header: base.cast(),
            // SAFETY: the header's bytes are there.
            first: unsafe { base.add(ENTRY_BYTES) }.cast(),
            count: (length / ENTRY_BYTES - 1).min(SLOTS_MAX as usize) as u32,
        }
    }

    #[inline]
    pub(super) const fn header(&self) -> &Header {
        // SAFETY: see `new`; atomics only.
        unsafe { self.header.as_ref() }
    }

    #[inline]
    const fn entry(&self, index: u32) -> Option<&Entry> {
        if index >= self.count {
            return None;
        }
        // SAFETY: see `new`; atomics only; the index is inside.
        Some(unsafe { self.first.add(index as usize).as_ref() })
    }

    pub(super) fn bump_epoch(&self) {
        // Release: who sees the new epoch sees the entries that it is about.
        self.header().epoch.fetch_add(1, Ordering::Release);
    }

    /// Changes an entry; one writer at a time.
    pub(super) fn write(&self, index: u32, change: impl FnOnce(&Entry)) {
        let Some(entry) = self.entry(index) else {
            return;
        };
        sequence::write(&entry.sequence, || {
            kill_point!();
            change(entry);
            kill_point!();
        });
    }

    /// An entry as it was at one moment; `None` when there is no such entry, or when it is still
    /// being written after so many attempts.
    ///
    /// Relaxed loads and fences, since only relaxed loads are certain to work on memory that is
    /// mapped for reading.
    #[inline]
    pub(super) fn read(&self, index: u32, attempts: u32) -> Option<Snapshot> {
        let entry = self.entry(index)?;
        let look = || Snapshot {
            handle: entry.handle.load(Ordering::Relaxed),
            start: entry.start.load(Ordering::Relaxed),
            length: entry.length.load(Ordering::Relaxed),
            tag: entry.tag.load(Ordering::Relaxed),
            rights: entry.rights.load(Ordering::Relaxed),
            segment: entry.segment.load(Ordering::Relaxed),
            offset: entry.offset.load(Ordering::Relaxed),
        };
        let mut attempt = 0;
        loop {
            if let Some(found) = sequence::read(&entry.sequence, look) {
                return Some(found);
            }
            attempt += 1;
            if attempt >= attempts {
                return None;
            }
            pause(attempt);
        }
    }

    /// For a VI's own sends and receives.
    #[inline]
    pub(super) fn check(&self, wanted: Wanted, attempts: u32) -> Check<Placement> {
        let Wanted {
            address, length, ..
        } = wanted;
        self.check_by(wanted, attempts, |region, tag| {
            region.check_local(tag, address, length)
        })
    }

    /// For the peer of a VI with these attributes.
    #[inline]
    pub(super) fn check_remote(
        &self,
        wanted: Wanted,
        vi: &ViAttributes,
        access: RemoteAccess,
        attempts: u32,
    ) -> Check<Placement> {
        protection::check_end(vi, access)?;
        let Wanted {
            address, length, ..
        } = wanted;
        self.check_by(wanted, attempts, |region, _| {
            region.check_remote(vi, access, address, length)
        })
    }

    #[inline(always)]
    fn check_by(
        &self,
        wanted: Wanted,
        attempts: u32,
        rule: impl FnOnce(Region, ProtectionTag) -> Result<(), AccessError>,
    ) -> Check<Placement> {
        // VIA: a segment of no bytes names no memory.
        if wanted.length == 0 {
            return Ok(Placement::PRIVATE);
        }
        let found = self.find(wanted.handle, attempts)?;
        rule(
            self.region(&found, wanted.tag),
            ProtectionTag::from_bits(wanted.tag),
        )?;
        Ok(found.placement(wanted.address.wrapping_sub(found.start)))
    }

    /// See [`super::RegionTable::room`].
    pub(super) fn room(&self, handle: u32, address: u64, tag: u32) -> Check<u64> {
        let found = self.find(handle, u32::MAX)?;
        let region = self.region(&found, tag);
        Ok(region.room_from(ProtectionTag::from_bits(tag), address)?)
    }

    /// An entry as the rules see it, for a VI of this tag.
    #[inline(always)]
    fn region(&self, found: &Snapshot, tag: u32) -> Region {
        let tag = if tag == 0 && found.tag != 0 && self.any_tag() {
            tag
        } else {
            found.tag
        };
        Region {
            address: found.start,
            length: found.length,
            attributes: MemoryAttributes {
                tag: ProtectionTag::from_bits(tag),
                rdma_write: found.rights & RIGHT_TO_WRITE != 0,
                rdma_read: found.rights & RIGHT_TO_READ != 0,
            },
        }
    }

    /// The live region of a handle.
    #[inline(always)]
    fn find(&self, handle: u32, attempts: u32) -> Check<Snapshot> {
        let index = index_of(handle);
        if handle < SLOTS_MAX || index >= self.count {
            return Err(ProtectionError::UnknownHandle);
        }
        let found = self
            .read(index, attempts)
            .ok_or(ProtectionError::Unsettled)?;
        if found.handle != handle {
            return Err(ProtectionError::UnknownHandle);
        }
        Ok(found)
    }

    #[cold]
    fn any_tag(&self) -> bool {
        self.header().flags.load(Ordering::Relaxed) & FLAG_ANY_TAG != 0
    }
}

impl Snapshot {
    #[inline]
    pub(super) const fn placement(&self, inside: u64) -> Placement {
        Placement {
            segment: SegmentId::from_bits(self.segment),
            // A peer's table may say anything: the sum wraps, and the user of it checks.
            offset: self.offset.wrapping_add(inside),
        }
    }
}

#[cold]
fn pause(attempt: u32) {
    // The writer may share our processor.
    if attempt.is_multiple_of(64) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

pub(super) const ENTRY_BYTES: usize = 64;
pub(super) const TABLE_BYTES_MAX: usize = (SLOTS_MAX as usize + 1) * ENTRY_BYTES;
/// "VIAREGNS", so that a wrong descriptor is noticed.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"VIAREGNS");
pub(super) const VERSION: u32 = 1;
pub(super) const FLAG_ANY_TAG: u32 = 1;
/// What an entry's rights say that peers may do.
pub(super) const RIGHT_TO_WRITE: u32 = 1;
pub(super) const RIGHT_TO_READ: u32 = 2;
/// A change takes some 20 ns, so this is ample; a stopped owner must not stop a peer.
pub(super) const REMOTE_ATTEMPTS: u32 = 256;

const _: () = {
    assert!(size_of::<Entry>() == ENTRY_BYTES);
    assert!(size_of::<Header>() == ENTRY_BYTES);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::slots::SLOT_BITS;

    /// A table on plain memory, as it runs under miri too.
    fn plain(entries: usize) -> (Vec<Entry>, Entries) {
        let memory: Vec<Entry> = (0..=entries).map(|_| Entry::default()).collect();
        let base = NonNull::new(memory.as_ptr().cast_mut()).unwrap().cast();
        // SAFETY: the vector is returned beside and outlives the view in every test.
        let view = unsafe { Entries::new(base, size_of_val(memory.as_slice())) };
        (memory, view)
    }

    #[test]
    fn an_owner_that_stopped_half_way_stops_no_peer() {
        let (_memory, entries) = plain(1);
        let handle = 1 << SLOT_BITS;
        entries.write(0, |entry| {
            entry.handle.store(handle, Ordering::Relaxed);
            entry.start.store(64, Ordering::Relaxed);
            entry.length.store(8, Ordering::Relaxed);
        });
        let wanted = Wanted {
            handle,
            address: 64,
            length: 8,
            tag: 0,
        };
        assert_eq!(entries.check(wanted, 4), Ok(Placement::PRIVATE));
        entries
            .entry(0)
            .unwrap()
            .sequence
            .store(3, Ordering::Relaxed);
        let verdict = entries.check(wanted, 4);
        assert_eq!(verdict, Err(ProtectionError::Unsettled));
        let beyond = Wanted {
            handle: handle + 1,
            ..wanted
        };
        let verdict = entries.check(beyond, 4);
        assert_eq!(verdict, Err(ProtectionError::UnknownHandle));
    }

    #[test]
    fn an_entry_is_never_seen_half_written() {
        let rounds: u64 = if cfg!(miri) { 40 } else { 200_000 };
        let (_memory, entries) = plain(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=rounds {
                    entries.write(0, |entry| {
                        entry.start.store(round, Ordering::Relaxed);
                        entry.length.store(round, Ordering::Relaxed);
                        entry.offset.store(round, Ordering::Relaxed);
                    });
                }
            });
            let mut last = 0;
            while last < rounds {
                let found = entries.read(0, u32::MAX).unwrap();
                assert_eq!((found.start, found.length), (found.offset, found.offset));
                assert!(found.start >= last);
                last = found.start;
            }
        });
    }
}
