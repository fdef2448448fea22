//! Memory of the peer, as it is mapped here.

use std::collections::BTreeMap;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use crate::segment::{Segment, keep_from_children};
use crate::service::locked;

/// A shared mapping that holds no file descriptor: processes with many peers run out of those
/// first. Forked children do not have it.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the process; no reference to its bytes is formed here.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`; the fields never change.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A second mapping of a segment, which may go then. The segment's seals stay in force.
    pub(crate) fn of(segment: &Segment) -> io::Result<Self> {
        let length = segment.length();
        // SAFETY: a new mapping at an address of the system's choice touches no other memory.
        let base = unsafe {
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(
                ptr::null_mut(),
                length,
                rights,
                MapFlags::SHARED,
                segment.fd(),
                0,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mapping = Self { base, length };
        keep_from_children(base, length)?;
        Ok(mapping)
    }

    /// The first byte.
    pub(crate) const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Lets go of the memory, but not of the addresses: a thread that still writes there writes
    /// into private zero pages and harms nobody.
    fn abandon(&self) -> io::Result<()> {
        // SAFETY: the range is this mapping. It is replaced in one step, and users go through raw
        // pointers and expect nothing of the bytes.
        unsafe {
            rustix::mm::mmap_anonymous(
                self.base.as_ptr().cast(),
                self.length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
            )?;
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping; whoever uses the base keeps the value alive.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// The peer's segments by their numbers, found without a lock.
///
/// A number's low bits choose a slot; of two segments that share one, the later is found. What was
/// found stays readable and writable until the whole is dropped, though perhaps as memory of
/// nobody (see [`Mapping::abandon`]).
#[derive(Debug)]
pub(crate) struct PeerSegments {
    slots: Box<[AtomicPtr<Record>]>,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Record {
    id: u32,
    mapping: Mapping,
}

#[derive(Debug, Default)]
struct Kept {
    /// Every record ever put into a slot, from `Box::into_raw`.
    records: Vec<RecordPointer>,
    /// Of these, those whose memory the peer has not freed, by their numbers.
    live: BTreeMap<u32, RecordPointer>,
    mapped_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct RecordPointer(NonNull<Record>);

// SAFETY: points to a record that the table owns; records are `Send` and `Sync`.
unsafe impl Send for RecordPointer {}

impl PeerSegments {
    pub(crate) fn new() -> Self {
        Self {
            slots: std::iter::repeat_with(AtomicPtr::default)
                .take(SEGMENTS_MAX)
                .collect(),
            kept: Mutex::default(),
        }
    }

    /// Where segment `id` is mapped, and its size.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<(NonNull<u8>, usize)> {
        // Acquire: pairs with the release in `insert`, so that the record is seen whole.
        let record = self.slots[slot_of(id)].load(Ordering::Acquire);
        // SAFETY: records live as long as the table and never change.
        let record = unsafe { record.as_ref()? };
        (record.id == id).then(|| (record.mapping.base(), record.mapping.length()))
    }

    /// Makes a segment known. False when the peer has used up what it may have mapped: the segment
    /// is not found then, which costs speed only.
    pub(crate) fn insert(&self, id: u32, mapping: Mapping) -> bool {
        let mut kept = locked(&self.kept);
        if kept.live.contains_key(&id) {
            // Told twice.
            return true;
        }
        let bytes = kept.mapped_bytes.saturating_add(mapping.length() as u64);
        if bytes > MAPPED_BYTES_MAX || kept.records.len() >= RECORDS_MAX {
            return false;
        }
        kept.mapped_bytes = bytes;
        let record = NonNull::from(Box::leak(Box::new(Record { id, mapping })));
        kept.records.push(RecordPointer(record));
        kept.live.insert(id, RecordPointer(record));
        // Release: pairs with the acquire in `find`.
        self.slots[slot_of(id)].store(record.as_ptr(), Ordering::Release);
        true
    }

    /// Lets go of a segment's memory.
    pub(crate) fn remove(&self, id: u32) {
        let Some(RecordPointer(record)) = locked(&self.kept).live.remove(&id) else {
            return;
        };
        let slot = &self.slots[slot_of(id)];
        let _ = slot.compare_exchange(
            record.as_ptr(),
            ptr::null_mut(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        // SAFETY: records live as long as the table and never change. Without memory for page
        // tables the pages stay until the link goes.
        let _ = unsafe { record.as_ref() }.mapping.abandon();
    }
}

impl Drop for PeerSegments {
    fn drop(&mut self) {
        for RecordPointer(record) in locked(&self.kept).records.drain(..) {
            // SAFETY: it came from `Box::leak`, once, and the table is not used any more.
            drop(unsafe { Box::from_raw(record.as_ptr()) });
        }
    }
}

const fn slot_of(id: u32) -> usize {
    id as usize & (SEGMENTS_MAX - 1)
}

/// Segments of one peer that are found at a time. A power of two.
pub(crate) const SEGMENTS_MAX: usize = 4096;

/// Segments that one peer may announce in the life of a link.
const RECORDS_MAX: usize = 1 << 20;

/// Addresses that one peer may take up in the life of a link; a process has 2^47 bytes of them.
const MAPPED_BYTES_MAX: u64 = 1 << 43;

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(bytes: usize) -> Mapping {
        Mapping::of(&Segment::create("viaduct-test", bytes).unwrap()).unwrap()
    }

    #[test]
    fn segments_are_found_until_they_are_gone() {
        let table = PeerSegments::new();
        assert_eq!(table.find(7), None);
        assert!(table.insert(7, mapping(8192)));
        let (base, length) = table.find(7).unwrap();
        assert_eq!(length, 8192);
        assert_eq!(table.find(7 + SEGMENTS_MAX as u32), None);
        // SAFETY: inside the mapping, which nobody else uses.
        unsafe { base.write(1) };
        table.remove(7);
        assert_eq!(table.find(7), None);
        // SAFETY: the addresses stay until the table goes.
        unsafe {
            assert_eq!(base.read(), 0);
            base.write(2);
        }
    }

    #[test]
    fn of_two_in_one_slot_the_later_is_found() {
        let table = PeerSegments::new();
        let other = 7 + SEGMENTS_MAX as u32;
        assert!(table.insert(7, mapping(4096)));
        assert!(table.insert(other, mapping(4096)));
        assert!(table.find(other).is_some() && table.find(7).is_none());
        table.remove(7);
        assert!(table.find(other).is_some());
    }

    #[test]
    fn a_mapping_holds_no_descriptor_and_no_memory_when_dropped() {
        let segment = Segment::create("viaduct-mapping", 4096).unwrap();
        let mapping = Mapping::of(&segment).unwrap();
        // SAFETY: inside both mappings.
        unsafe {
            mapping.base().write(9);
            assert_eq!(segment.base().read(), 9);
        }
        drop(segment);
        // SAFETY: as before.
        assert_eq!(unsafe { mapping.base().read() }, 9);
        let lines = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines()
                .filter(|l| l.contains("viaduct-mapping"))
                .count()
        };
        assert_eq!(lines(), 1);
        drop(mapping);
        assert_eq!(lines(), 0);
    }
}
