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
        let entry = self.at(key);
        let sequence = entry.sequence.load(Ordering::Relaxed) | 1;
        entry.sequence.store(sequence, Ordering::Relaxed);
        fence(Ordering::Release);
        if let Some((region, address)) = region {
            entry.domain.store(region.domain, Ordering::Relaxed);
            entry.access.store(region.access, Ordering::Relaxed);
            entry.first.store(region.first, Ordering::Relaxed);
            entry.length.store(region.length, Ordering::Relaxed);
            entry.address.store(address, Ordering::Relaxed);
        }
        let key = if region.is_some() { key } else { 0 };
        entry.key.store(key, Ordering::Relaxed);
        entry
            .sequence
            .store(sequence.wrapping_add(1), Ordering::Release);
    }

    /// Where the bytes lie in their process, if the region of the key lets the access through.
    pub(crate) fn find(
        &self,
        key: u32,
        domain: u32,
        needed: u32,
        address: u64,
        length: u64,
    ) -> Option<u64> {
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
        fence(Ordering::Acquire);
        if entry.sequence.load(Ordering::Relaxed) != sequence
            || !check::lets_through(&region, domain, needed, address, length)
        {
            return None;
        }
        Some(start.wrapping_add(address - region.first))
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
        assert_eq!(theirs.find(0x501, 2, 2, 0x1008, 8), Some(0x7008));
        assert_eq!(theirs.find(0x501, 2, 4, 0x1008, 8), None);
        assert_eq!(theirs.find(0x501, 3, 2, 0x1008, 8), None);
        assert_eq!(theirs.find(0x502, 2, 2, 0x1008, 8), None);
        assert_eq!(theirs.find(0x501, 2, 2, 0x1039, 8), None);
        ours.set(0x501, None);
        assert_eq!(theirs.find(0x501, 2, 2, 0x1008, 8), None);
        assert_eq!(theirs.find(0, 0, 0, 0, 0), None);
    }
}
