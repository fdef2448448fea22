//! Memory that is shared from the start.
//!
//! What [`SharedAllocations::allocate`] hands out lies in a [`Segment`] of its own, so that a
//! trusted peer can map it and write or read a message there with one copy and no help of the
//! kernel. The system shares a segment whole or not at all: so a peer never maps more than the
//! allocations that it was told of, and a freed one comes back to nobody.
//!
//! A segment costs a file descriptor. Small allocations beyond [`own_segments_max`] lie in slabs
//! instead, page by page, many to a descriptor. Slabs are shown to nobody: messages reach what lies
//! there as they reach a program's own memory. They are sparse: only pages in use take memory, and
//! freed ones are given back at once.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::link::SEGMENTS_MAX;
use crate::segment::Segment;

/// Names a segment of this process, for the process's life.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct SegmentId(NonZeroU32);

impl SegmentId {
    /// From its number; `None` for 0, which stands for no segment.
    #[inline]
    pub(crate) const fn from_bits(bits: u32) -> Option<Self> {
        match NonZeroU32::new(bits) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The number, never 0.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0.get()
    }
}

/// Where in a segment a range begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Location {
    /// The segment.
    pub(crate) segment: SegmentId,
    /// Bytes from its base.
    pub(crate) offset: u64,
}

/// Why memory was not given back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FreeError {
    /// Nothing that is allocated begins at the address.
    NotAllocated,
    /// Regions are registered in it: deregister them first.
    Registered {
        /// How many.
        regions: u32,
    },
}

impl fmt::Display for FreeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllocated => formatter.write_str(
                "no shared memory begins at this address: give back the address that was allocated",
            ),
            Self::Registered { regions } => write!(
                formatter,
                "the shared memory still has {regions} registered regions: deregister them first",
            ),
        }
    }
}

impl From<FreeError> for viaduct_provider::Error {
    fn from(error: FreeError) -> Self {
        let code = match error {
            FreeError::NotAllocated => viaduct_provider::ReturnCode::InvalidParameter,
            FreeError::Registered { .. } => viaduct_provider::ReturnCode::Resource,
        };
        Self::new(code, error.to_string())
    }
}

/// Called with a segment that is gone, so that peers can be told to unmap it.
type ReleaseHook = Arc<dyn Fn(SegmentId) + Send + Sync>;

/// The shared memory of one process.
///
/// All operations take a lock; none is on the way of a message, because the location of a region
/// is found when it is registered.
#[derive(Default)]
pub(crate) struct SharedAllocations {
    state: Mutex<Allocations>,
    release_hook: OnceLock<ReleaseHook>,
}

#[derive(Default)]
struct Allocations {
    /// Those of one allocation each.
    segments: BTreeMap<SegmentId, Arc<Segment>>,
    slabs: Vec<Slab>,
    /// By first address.
    allocations: BTreeMap<usize, Allocation>,
    last_segment: u32,
}

struct Slab {
    segment: Segment,
    vacant: Runs,
}

#[derive(Clone, Copy)]
struct Allocation {
    /// `None`: in a slab.
    segment: Option<SegmentId>,
    /// Whole pages.
    length: usize,
    /// Regions registered in it.
    regions: u32,
}

/// Keeps an allocation while a region lies in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pin {
    /// Where the region lies for a peer; `None`: nowhere.
    pub(crate) location: Option<Location>,
}

impl SharedAllocations {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets who is told of segments that are gone; the first call counts.
    pub(crate) fn on_release(&self, hook: impl Fn(SegmentId) + Send + Sync + 'static) {
        let _ = self.release_hook.set(Arc::new(hook));
    }

    /// Allocates at least `length` zero bytes, page aligned, present in memory.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a length of 0; what the system says when memory is short.
    pub(crate) fn allocate(&self, length: usize) -> io::Result<NonNull<u8>> {
        let page = rustix::param::page_size();
        let Some(rounded) = length.checked_next_multiple_of(page).filter(|l| *l > 0) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{length} bytes of shared memory cannot be allocated: ask for 1 or more"),
            ));
        };
        let mut state = self.state();
        let (base, segment) = state.reserve(rounded)?;
        let reserved = Allocation {
            segment,
            length: rounded,
            regions: 0,
        };
        if let Err(error) = populate(base, rounded) {
            let gone = state.give_back(base, reserved);
            drop(state);
            self.released(gone);
            return Err(error);
        }
        state.allocations.insert(base.as_ptr() as usize, reserved);
        Ok(base)
    }

    /// Gives memory back. Its pages are returned to the system at once; a peer that still has
    /// them mapped sees zeros.
    ///
    /// # Safety
    ///
    /// `address` is not used any more by this process.
    ///
    /// # Errors
    ///
    /// See [`FreeError`]; the memory stays as it was.
    pub(crate) unsafe fn free(&self, address: NonNull<u8>) -> Result<(), FreeError> {
        let mut state = self.state();
        let key = address.as_ptr() as usize;
        let allocation = *state.allocations.get(&key).ok_or(FreeError::NotAllocated)?;
        if allocation.regions > 0 {
            return Err(FreeError::Registered {
                regions: allocation.regions,
            });
        }
        state.allocations.remove(&key);
        let gone = state.give_back(address, allocation);
        drop(state);
        self.released(gone);
        Ok(())
    }

    /// Where a peer finds a range that is inside one allocation.
    #[cfg(test)]
    pub(crate) fn find(&self, address: u64, length: u64) -> Option<Location> {
        let (_, location) = self.state().find(address, length)?;
        location
    }

    /// Keeps the allocation that holds a range until [`SharedAllocations::unpin`].
    pub(crate) fn pin(&self, address: u64, length: u64) -> Option<Pin> {
        let mut state = self.state();
        let (key, location) = state.find(address, length)?;
        state.allocations.get_mut(&key)?.regions += 1;
        Some(Pin { location })
    }

    /// Takes back one [`SharedAllocations::pin`] of the same range.
    pub(crate) fn unpin(&self, address: u64, length: u64) {
        let mut state = self.state();
        if let Some((key, _)) = state.find(address, length)
            && let Some(allocation) = state.allocations.get_mut(&key)
        {
            allocation.regions = allocation.regions.saturating_sub(1);
        }
    }

    /// A segment, to be sent to a peer; `None` when it is gone.
    pub(crate) fn segment(&self, id: SegmentId) -> Option<Arc<Segment>> {
        self.state().segments.get(&id).cloned()
    }

    /// Allocations that are not freed yet.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.state().allocations.len()
    }

    fn released(&self, segment: Option<SegmentId>) {
        if let (Some(segment), Some(hook)) = (segment, self.release_hook.get()) {
            hook(segment);
        }
    }

    fn state(&self) -> MutexGuard<'_, Allocations> {
        // Nothing in here panics half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SharedAllocations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        formatter
            .debug_struct("SharedAllocations")
            .field("allocations", &state.allocations.len())
            .field("segments", &state.segments.len())
            .finish_non_exhaustive()
    }
}

impl Allocations {
    /// Takes whole pages: a segment of their own, or a part of a slab.
    fn reserve(&mut self, length: usize) -> io::Result<(NonNull<u8>, Option<SegmentId>)> {
        let is_small = length <= SLAB_ALLOCATION_BYTES_MAX;
        if is_small && self.segments.len() >= own_segments_max() {
            return Ok((self.reserve_in_slab(length)?, None));
        }
        match self.add_segment(length) {
            // The program may have used up its descriptors itself.
            Err(_) if is_small => Ok((self.reserve_in_slab(length)?, None)),
            added => added.map(|(base, id)| (base, Some(id))),
        }
    }

    fn add_segment(&mut self, length: usize) -> io::Result<(NonNull<u8>, SegmentId)> {
        let id = self.next_id().ok_or_else(|| {
            io::Error::other("this process has made 2^32 - 1 shared segments: no number is left")
        })?;
        let segment = new_segment("viaduct-shared", length)?;
        let base = segment.base();
        self.last_segment = id.bits();
        self.segments.insert(id, Arc::new(segment));
        Ok((base, id))
    }

    /// A number that no segment had, and that peers find beside those that are there: see
    /// `link::segments`.
    fn next_id(&self) -> Option<SegmentId> {
        let slot = |id: u32| id as usize % SEGMENTS_MAX;
        let is_taken = |id: u32| {
            self.segments
                .keys()
                .any(|other| slot(other.bits()) == slot(id))
        };
        let mut id = self.last_segment.checked_add(1)?;
        while self.segments.len() < SEGMENTS_MAX && is_taken(id) {
            id = id.checked_add(1)?;
        }
        SegmentId::from_bits(id)
    }

    fn reserve_in_slab(&mut self, length: usize) -> io::Result<NonNull<u8>> {
        let page = rustix::param::page_size();
        let in_slab = |slab: &mut Slab| {
            let first = slab.vacant.take(length / page)?;
            slab.segment.range((first * page) as u64, length as u64)
        };
        if let Some(base) = self.slabs.iter_mut().find_map(in_slab) {
            return Ok(base);
        }
        let mut slab = Slab {
            segment: new_segment("viaduct-slab", SLAB_BYTES)?,
            vacant: Runs::of(SLAB_BYTES / page),
        };
        let base = in_slab(&mut slab)
            .ok_or_else(|| io::Error::other("a new slab has no room for a small allocation"))?;
        self.slabs.push(slab);
        Ok(base)
    }

    /// Undoes a reservation; tells the segment that went with it.
    fn give_back(&mut self, base: NonNull<u8>, allocation: Allocation) -> Option<SegmentId> {
        discard(base, allocation.length);
        if let Some(segment) = allocation.segment {
            self.segments.remove(&segment);
            return Some(segment);
        }
        let page = rustix::param::page_size();
        let inside = |slab: &Slab| {
            let offset =
                (base.as_ptr() as usize).checked_sub(slab.segment.base().as_ptr() as usize);
            offset.filter(|offset| *offset < SLAB_BYTES)
        };
        let found = |(place, slab)| Some((place, inside(slab)?));
        let (place, offset) = self.slabs.iter().enumerate().find_map(found)?;
        let slab = &mut self.slabs[place];
        slab.vacant
            .give_back(offset / page, allocation.length / page);
        // One empty slab is kept for the next allocation.
        let empty = |slab: &Slab| slab.vacant.is_whole(SLAB_BYTES / page);
        if empty(slab) && self.slabs.iter().filter(|slab| empty(slab)).count() > 1 {
            self.slabs.remove(place);
        }
        None
    }

    /// The first address of the allocation that holds a range, and where a peer finds the range.
    fn find(&self, address: u64, length: u64) -> Option<(usize, Option<Location>)> {
        let start = usize::try_from(address).ok()?;
        let (key, allocation) = self.allocations.range(..=start).next_back()?;
        let offset = (start - key) as u64;
        let size = allocation.length as u64;
        if length > size || offset > size - length {
            return None;
        }
        let at = |segment| Location { segment, offset };
        Some((*key, allocation.segment.map(at)))
    }
}

/// A segment that is the program's, as if it had mapped it.
fn new_segment(name: &str, length: usize) -> io::Result<Segment> {
    let segment = Segment::create(name, length)?;
    segment.hand_down()?;
    Ok(segment)
}

/// Segments from which on small allocations lie in slabs: a quarter of the descriptors that the
/// process may have open, which leaves most to the program, and as many as peers find at once.
fn own_segments_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let descriptors = limit.current.unwrap_or(u64::MAX);
        (descriptors / 4).min(SEGMENTS_MAX as u64 / 4) as usize
    })
}

/// Runs of vacant pages, none beside another.
#[derive(Debug)]
struct Runs {
    /// By first page: how many.
    vacant: BTreeMap<usize, usize>,
}

impl Runs {
    /// All of `pages` are vacant.
    fn of(pages: usize) -> Self {
        Self {
            vacant: BTreeMap::from([(0, pages)]),
        }
    }

    /// Takes the first run that is long enough.
    fn take(&mut self, pages: usize) -> Option<usize> {
        let mut runs = self.vacant.iter();
        let (first, length) = runs
            .find(|(_, length)| **length >= pages)
            .map(|(first, length)| (*first, *length))?;
        self.vacant.remove(&first);
        if length > pages {
            self.vacant.insert(first + pages, length - pages);
        }
        Some(first)
    }

    /// Gives back pages that were taken, and joins them with their neighbours.
    fn give_back(&mut self, first: usize, pages: usize) {
        let mut run = (first, pages);
        if let Some((before, length)) = self.vacant.range(..first).next_back()
            && before + length == first
        {
            run = (*before, length + pages);
        }
        if let Some(behind) = self.vacant.remove(&(first + pages)) {
            run.1 += behind;
        }
        self.vacant.insert(run.0, run.1);
    }

    fn is_whole(&self, pages: usize) -> bool {
        self.vacant.get(&0) == Some(&pages)
    }
}

/// Makes every page present: an early error here instead of a signal at the first touch.
fn populate(base: NonNull<u8>, length: usize) -> io::Result<()> {
    let advice = rustix::mm::Advice::LinuxPopulateWrite;
    // SAFETY: the range is inside a segment of this process; populating changes no byte.
    match unsafe { rustix::mm::madvise(base.as_ptr().cast(), length, advice) } {
        // A kernel before 5.14: pages come when they are touched.
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the memory of a range to the system, also under mappings of peers.
fn discard(base: NonNull<u8>, length: usize) {
    // SAFETY: the range is inside a segment of this process, and its user has given it back.
    let removed = unsafe {
        rustix::mm::madvise(
            base.as_ptr().cast(),
            length,
            rustix::mm::Advice::LinuxRemove,
        )
    };
    if removed.is_err() {
        // SAFETY: as above; the bytes must be zero for the next user all the same.
        unsafe { base.write_bytes(0, length) };
    }
}

/// Bytes of one slab: address space, not memory.
const SLAB_BYTES: usize = 64 << 20;
/// Longer allocations have a segment of their own in any case.
const SLAB_ALLOCATION_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: NonNull<u8>) -> u64 {
        address.as_ptr() as u64
    }

    #[test]
    fn every_allocation_is_shared_by_itself_until_descriptors_are_short() {
        let shared = SharedAllocations::new();
        let own: Vec<_> = (0..own_segments_max())
            .map(|_| shared.allocate(5000).unwrap())
            .collect();
        let long = shared.allocate(SLAB_ALLOCATION_BYTES_MAX + 1).unwrap();
        let mut slots = std::collections::BTreeSet::new();
        for address in own.iter().chain([&long]) {
            assert_eq!(at(*address) % rustix::param::page_size() as u64, 0);
            let Location { segment, offset } = shared.find(at(*address), 1).unwrap();
            assert_eq!(offset, 0);
            assert!(slots.insert(segment.bits() as usize % SEGMENTS_MAX));
            let segment = shared.segment(segment).unwrap();
            assert_eq!(segment.range(0, 1), Some(*address));
            assert!(segment.length() < 5000 + 4096 || *address == long);
        }
        // What is left is shared with nobody, and kept while it is registered all the same.
        let slab = shared.allocate(5000).unwrap();
        assert_eq!(shared.find(at(slab), 1), None);
        assert!(shared.pin(at(slab), 5000).unwrap().location.is_none());
        // SAFETY: nobody uses the memory.
        let free = |address| unsafe { shared.free(address) };
        assert_eq!(free(slab), Err(FreeError::Registered { regions: 1 }));
        shared.unpin(at(slab), 5000);
        assert_eq!(free(slab), Ok(()));
        let slab = shared.allocate(1).unwrap();
        free(own[0]).unwrap();
        free(long).unwrap();
        let again = shared.allocate(1).unwrap();
        let segment = shared.find(at(again), 1).unwrap().segment;
        assert!(
            segment.bits() as usize > own.len() + 1,
            "no number comes back"
        );
        assert_eq!(shared.find(at(slab), 1), None, "it stays where it is");
    }

    #[test]
    fn a_range_is_found_when_one_allocation_holds_it() {
        let shared = SharedAllocations::new();
        let page = rustix::param::page_size() as u64;
        let first = at(shared.allocate(100).unwrap());
        assert_eq!(shared.find(first + 7, 20).unwrap().offset, 7);
        assert!(shared.find(first, page).is_some());
        assert_eq!(shared.find(first, page + 1), None, "reaches beyond it");
        assert_eq!(shared.find(first - 1, 1), None);
        assert_eq!(shared.find(u64::MAX, 2), None);
        assert_eq!(shared.find(first, u64::MAX), None);
        let private = 0_u8;
        assert_eq!(shared.find(&raw const private as u64, 1), None);
    }

    #[test]
    fn freed_memory_is_gone_and_new_memory_is_zero() {
        let shared = SharedAllocations::new();
        let address = shared.allocate(8192).unwrap();
        // SAFETY: allocated above, used by nobody else, not used after `free`.
        unsafe {
            assert_eq!(address.read(), 0);
            address.add(8191).write(1);
            shared.free(address).unwrap();
        }
        assert_eq!(shared.find(at(address), 1), None);
        assert_eq!(shared.count(), 0);
        let mut state = shared.state();
        let slab = state.reserve_in_slab(8192).unwrap();
        let allocation = Allocation {
            segment: None,
            length: 8192,
            regions: 0,
        };
        // SAFETY: reserved above.
        unsafe { slab.add(8191).write(1) };
        assert_eq!(state.give_back(slab, allocation), None);
        let again = state.reserve_in_slab(8192).unwrap();
        assert_eq!(again, slab);
        // SAFETY: reserved above.
        assert_eq!(unsafe { again.add(8191).read() }, 0);
    }

    #[test]
    fn registered_memory_is_not_freed() {
        let shared = SharedAllocations::new();
        let address = shared.allocate(4096).unwrap();
        shared.pin(at(address) + 10, 20).unwrap();
        shared.pin(at(address), 4096).unwrap();
        // SAFETY: nobody uses the memory.
        let free = || unsafe { shared.free(address) };
        assert_eq!(free(), Err(FreeError::Registered { regions: 2 }));
        shared.unpin(at(address) + 10, 20);
        assert_eq!(free(), Err(FreeError::Registered { regions: 1 }));
        shared.unpin(at(address), 4096);
        assert_eq!(free(), Ok(()));
        assert_eq!(free(), Err(FreeError::NotAllocated));
    }

    #[test]
    fn a_segment_that_is_gone_is_told() {
        let shared = SharedAllocations::new();
        let told = Arc::new(Mutex::new(Vec::new()));
        let record = told.clone();
        shared.on_release(move |segment| record.lock().unwrap().push(segment));
        let segments = [1, SLAB_ALLOCATION_BYTES_MAX + 1].map(|length| {
            let address = shared.allocate(length).unwrap();
            let segment = shared.find(at(address), 1).unwrap().segment;
            // SAFETY: nobody uses the memory.
            unsafe { shared.free(address) }.unwrap();
            assert!(shared.segment(segment).is_none());
            segment
        });
        assert_eq!(*told.lock().unwrap(), segments);
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        let shared = SharedAllocations::new();
        for length in [0, usize::MAX, usize::MAX / 2] {
            assert!(shared.allocate(length).is_err(), "{length}");
        }
        assert_eq!(shared.count(), 0);
        assert!(shared.state().segments.is_empty());
    }

    #[test]
    fn runs_are_joined_in_any_order_of_return() {
        let mut runs = Runs::of(10);
        let taken: Vec<_> = [1, 2, 3, 4]
            .into_iter()
            .map(|pages| (runs.take(pages).unwrap(), pages))
            .collect();
        assert_eq!(taken, [(0, 1), (1, 2), (3, 3), (6, 4)]);
        assert_eq!(runs.take(1), None);
        for place in [1, 3, 0, 2] {
            let (first, pages) = taken[place];
            runs.give_back(first, pages);
        }
        assert!(runs.is_whole(10), "{runs:?}");
        runs.take(3).unwrap();
        assert!(!runs.is_whole(10));
        assert_eq!(runs.take(8), None, "too long for what is left");
        assert_eq!(runs.take(7), Some(3));
    }
}
