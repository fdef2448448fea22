//! What a process shows its peers: its queue pairs, and, to its own user's processes, its regions.
//!
//! Both are written by their owner alone: the segments are sealed against other writers.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use viaduct_core::verbs::check::{self, Region};
use viaduct_processes::segment::{Access, Segment};

use crate::limits::{QUEUE_PAIRS_MAX, REGIONS_MAX};

/// A queue pair as its peer sees it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PairEntry {
    /// 1 while it hears.
    pub(crate) hears: AtomicU32,
    /// Its peer.
    pub(crate) peer: AtomicU32,
    /// Its protection domain.
    pub(crate) domain: AtomicU32,
    /// What its peer may do.
    pub(crate) access: AtomicU32,
    /// The number of the request that it expects.
    pub(crate) expected: AtomicU32,
}

/// A region as peers see it.
#[derive(Debug)]
#[repr(C, align(64))]
struct RegionEntry {
    /// Odd while it changes.
    sequence: AtomicU32,
    /// Its key; 0: nothing is here.
    key: AtomicU32,
    domain: AtomicU32,
    access: AtomicU32,
    first: AtomicU64,
    length: AtomicU64,
    address: AtomicU64,
    /// Its pages that are shared: the first one's address, their bytes, and where they lie in the
    /// store of their process.
    shared_address: AtomicU64,
    shared_length: AtomicU64,
    shared_offset: AtomicU64,
}

/// Pages of a process that lie in its store.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Shared {
    /// The first byte, as their process has it.
    pub(crate) address: u64,
    /// Bytes; 0: there are none.
    pub(crate) length: u64,
    /// Where in the store.
    pub(crate) offset: u64,
}

/// Where a peer's bytes lie that it lets this process reach.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Found {
    /// In the peer's memory.
    pub(crate) address: u64,
    /// What the region lets peers do.
    pub(crate) access: u32,
    /// Of the region's pages, those that are shared.
    pub(crate) shared: Shared,
    /// What the region's entry has while all of this holds.
    pub(crate) sequence: u32,
}

/// Bytes of a table of queue pairs.
const PAIRS_BYTES: usize = size_of::<PairEntry>() * QUEUE_PAIRS_MAX as usize;
/// Bytes of a table of regions.
const REGIONS_BYTES: usize = size_of::<RegionEntry>() * (REGIONS_MAX as usize + 1);

/// Queue pairs, one's own or a peer's.
#[derive(Debug)]
pub(crate) struct PairTable(Segment);

impl PairTable {
    pub(crate) fn create() -> io::Result<Self> {
        Segment::create_exported("viaduct-rdma-pairs", PAIRS_BYTES).map(Self)
    }

    pub(crate) fn map(descriptor: OwnedFd) -> io::Result<Self> {
        Segment::map(descriptor, PAIRS_BYTES, Access::Read).map(Self)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    /// The entry of an index.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> &PairEntry {
        let index = (index % QUEUE_PAIRS_MAX) as usize;
        // SAFETY: inside the segment, aligned, of atomics alone; a peer's is only loaded.
        unsafe { &*self.0.base().as_ptr().cast::<PairEntry>().add(index) }
    }
}

/// Regions, one's own or a peer's.
#[derive(Debug)]
pub(crate) struct RegionTable(Segment);

impl RegionTable {
    pub(crate) fn create() -> io::Result<Self> {
        Segment::create_exported("viaduct-rdma-regions", REGIONS_BYTES).map(Self)
    }

    pub(crate) fn map(descriptor: OwnedFd) -> io::Result<Self> {
        Segment::map(descriptor, REGIONS_BYTES, Access::Read).map(Self)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    fn at(&self, key: u32) -> &RegionEntry {
        let index = (key >> 8) as usize % (REGIONS_MAX as usize + 1);
        // SAFETY: as in `PairTable::at`.
        unsafe { &*self.0.base().as_ptr().cast::<RegionEntry>().add(index) }
    }

    /// Writes an entry; `None` takes it away. Of one's own table.
    pub(crate) fn set(&self, key: u32, region: Option<(&Region, u64)>) {
        self.change(key, |entry| {
            if let Some((region, address)) = region {
                entry.domain.store(region.domain, Ordering::Relaxed);
                entry.access.store(region.access, Ordering::Relaxed);
                entry.first.store(region.first, Ordering::Relaxed);
                entry.length.store(region.length, Ordering::Relaxed);
                entry.address.store(address, Ordering::Relaxed);
            }
            entry.shared_length.store(0, Ordering::Relaxed);
            let key = if region.is_some() { key } else { 0 };
            entry.key.store(key, Ordering::Relaxed);
        });
    }

    /// Says which pages of a region are shared. Of one's own table.
    pub(crate) fn share(&self, key: u32, shared: Shared) {
        self.change(key, |entry| {
            entry
                .shared_address
                .store(shared.address, Ordering::Relaxed);
            entry.shared_length.store(shared.length, Ordering::Relaxed);
            entry.shared_offset.store(shared.offset, Ordering::Relaxed);
        });
    }

    fn change(&self, key: u32, change: impl FnOnce(&RegionEntry)) {
        let entry = self.at(key);
        let sequence = entry.sequence.load(Ordering::Relaxed) | 1;
        entry.sequence.store(sequence, Ordering::Relaxed);
        fence(Ordering::Release);
        change(entry);
        entry
            .sequence
            .store(sequence.wrapping_add(1), Ordering::Release);
    }

    /// Whether an entry is what it was.
    pub(crate) fn is_same(&self, key: u32, sequence: u32) -> bool {
        self.at(key).sequence.load(Ordering::Acquire) == sequence
    }

    /// Where the bytes lie, if the region of the key lets the access through.
    pub(crate) fn find(
        &self,
        key: u32,
        domain: u32,
        needed: u32,
        address: u64,
        length: u64,
    ) -> Option<Found> {
        let entry = self.at(key);
        let sequence = entry.sequence.load(Ordering::Acquire);
        if sequence & 1 != 0 || key == 0 || entry.key.load(Ordering::Relaxed) != key {
            return None;
        }
        let region = Region {
            domain: entry.domain.load(Ordering::Relaxed),
            access: entry.access.load(Ordering::Relaxed),
            first: entry.first.load(Ordering::Relaxed),
            length: entry.length.load(Ordering::Relaxed),
        };
        let start = entry.address.load(Ordering::Relaxed);
        let shared = Shared {
            address: entry.shared_address.load(Ordering::Relaxed),
            length: entry.shared_length.load(Ordering::Relaxed),
            offset: entry.shared_offset.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        if entry.sequence.load(Ordering::Relaxed) != sequence
            || !check::lets_through(&region, domain, needed, address, length)
        {
            return None;
        }
        Some(Found {
            address: start.wrapping_add(address - region.first),
            access: region.access,
            shared,
            sequence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_finds_what_is_open_to_it_and_nothing_else() {
        let ours = RegionTable::create().unwrap();
        let theirs = RegionTable::map(ours.fd().try_clone_to_owned().unwrap()).unwrap();
        let region = Region {
            domain: 2,
            access: 3,
            first: 0x1000,
            length: 64,
        };
        ours.set(0x501, Some((&region, 0x7000)));
        let found = theirs.find(0x501, 2, 2, 0x1008, 8).unwrap();
        assert_eq!((found.address, found.access), (0x7008, 3));
        assert_eq!(found.shared.length, 0);
        let shared = Shared {
            address: 0x7000,
            length: 0x1000,
            offset: 0x3000,
        };
        ours.share(0x501, shared);
        assert!(!theirs.is_same(0x501, found.sequence));
        let found = theirs.find(0x501, 2, 2, 0x1008, 8).unwrap();
        assert_eq!((found.address, found.shared), (0x7008, shared));
        // What is shared is said anew of a region that has become another.
        ours.set(0x501, Some((&region, 0x7000)));
        let found = theirs.find(0x501, 2, 2, 0x1008, 8).unwrap();
        assert_eq!(found.shared.length, 0);
        assert_eq!(theirs.find(0x501, 2, 4, 0x1008, 8), None);
        assert_eq!(theirs.find(0x501, 3, 2, 0x1008, 8), None);
        assert_eq!(theirs.find(0x502, 2, 2, 0x1008, 8), None);
        assert_eq!(theirs.find(0x501, 2, 2, 0x1039, 8), None);
        ours.set(0x501, None);
        assert_eq!(theirs.find(0x501, 2, 2, 0x1008, 8), None);
        assert_eq!(theirs.find(0, 0, 0, 0, 0), None);
    }
}
