//! Registered memory and protection tags.
//!
//! Each NIC has one [`RegionTable`]. It lies in memory that trusted peers map for reading, so that
//! they can check their remote writes and reads themselves ([`remote::RemoteRegionTable`]). A
//! handle is a generation (12 bits, never 0) and the number of an entry (20 bits). Reading takes no
//! lock. The table is reserved for all regions it may ever hold and takes memory for those that it
//! has held.
//!
//! # Deregistering
//!
//! It waits for nothing. A check that begins after it fails, here and in a peer; a copy that a
//! peer began before may still run for as long as that copy takes. Peers that are not trusted map
//! no table and no memory, so for them access ends with the call.

mod entries;
pub(crate) mod remote;
mod sequence;
mod slots;
mod tags;

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use viaduct_fabric::via::protection::{AccessError, RemoteAccess};
use viaduct_fabric::via::{
    MemoryAttributes, MemoryHandle, NicAttributes, ProtectionTag, ViAttributes, check,
};
use viaduct_fabric::{Error, Result, ReturnCode};

use self::entries::{
    ENTRY_BYTES, Entries, FLAG_ANY_TAG, MAGIC, RIGHT_TO_READ, RIGHT_TO_WRITE, VERSION, Wanted,
};
use self::slots::{SLOTS_MAX, Slots, index_of};
use self::tags::Tags;
use crate::refuse;
use crate::segment::Segment;
use crate::shared::{Pin, SegmentId, SharedAllocations};

/// Why an access is not allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ProtectionError {
    /// The handle names no live region.
    UnknownHandle,
    /// Some of the bytes lie outside the region.
    OutsideRegion,
    /// The region has another tag than the VI.
    WrongTag,
    /// The region does not allow peers to write it, or to read it.
    NotEnabled,
    /// The owner was changing the entry for longer than a change takes; seen by peers only. Let
    /// the owner do the access itself.
    Unsettled,
}

impl From<AccessError> for ProtectionError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::OutOfRange => Self::OutsideRegion,
            AccessError::OtherTag => Self::WrongTag,
            AccessError::RegionForbids | AccessError::ViForbids => Self::NotEnabled,
            _ => Self::UnknownHandle,
        }
    }
}

/// Where bytes that passed a check can be reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Placement {
    /// The segment of the region's owner that holds them; `None`: private memory.
    pub(crate) segment: Option<SegmentId>,
    /// Bytes from the base of that segment. Says nothing for private memory.
    pub(crate) offset: u64,
}

impl Placement {
    /// Private memory, or no byte at all.
    pub(crate) const PRIVATE: Self = Self {
        segment: None,
        offset: 0,
    };
}

/// The region that a work queue used last. Starts empty; belongs to one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionCache {
    start: u64,
    length: u64,
    handle: u32,
    tag: u32,
    epoch: u32,
    placement: Placement,
}

impl RegionCache {
    /// Holds nothing: an empty region covers no byte.
    pub(crate) const EMPTY: Self = Self {
        start: 0,
        length: 0,
        handle: 0,
        tag: 0,
        epoch: 0,
        placement: Placement::PRIVATE,
    };
}

impl RegionCache {
    /// Whether the bytes lie in the region held, and nothing has changed since `epoch`. The tag is
    /// that of the last check.
    ///
    /// The rule is `Region::covers` of `viaduct_via::protection`, which said so of the bytes for
    /// which the region came here; this says of others in it what that would, in fewer steps.
    #[inline(always)]
    pub(crate) const fn covers(&self, epoch: u32, handle: u32, address: u64, length: u64) -> bool {
        let end = address.wrapping_sub(self.start).checked_add(length);
        self.handle == handle
            && self.epoch == epoch
            && matches!(end, Some(end) if end <= self.length)
    }

    /// The same, for a tag.
    #[inline(always)]
    pub(crate) const fn holds(
        &self,
        epoch: u32,
        handle: u32,
        address: u64,
        length: u64,
        tag: u32,
    ) -> bool {
        self.tag == tag && self.covers(epoch, handle, address, length)
    }
}

impl Default for RegionCache {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The regions and protection tags of one NIC.
///
/// Registering and the like take a lock; checks do not.
#[derive(Debug)]
pub(crate) struct RegionTable {
    entries: Entries,
    segment: Segment,
    nic: Arc<NicAttributes>,
    shared: Arc<SharedAllocations>,
    default_tag: ProtectionTag,
    books: Mutex<Books>,
    /// Read by a thread of this process that copies for a peer, from its check to its last byte.
    remote_copies: RwLock<()>,
}

/// What checks do not need.
#[derive(Debug)]
struct Books {
    regions: Slots<Region>,
    tags: Tags,
    registered_bytes: u64,
    any_tag: bool,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    address: u64,
    length: u64,
    attributes: MemoryAttributes,
    pin: Option<Pin>,
}

impl RegionTable {
    /// An empty table within the limits of a NIC, with one tag that nobody destroys.
    ///
    /// # Errors
    ///
    /// What the system says when it has no memory or file descriptor for it.
    pub(crate) fn new(nic: Arc<NicAttributes>, shared: Arc<SharedAllocations>) -> io::Result<Self> {
        let capacity = nic.max_memory_regions.min(REGIONS_MAX);
        let length = (capacity as usize + 1) * ENTRY_BYTES;
        let segment = Segment::create_exported("viaduct-regions", length)?;
        // SAFETY: the segment is page aligned, zero, `length` bytes long, never written by others,
        // and lives in the same value.
        let entries = unsafe { Entries::new(segment.base(), length) };
        entries.header().magic.store(MAGIC, Ordering::Relaxed);
        entries.header().version.store(VERSION, Ordering::Release);
        let mut tags = Tags::new();
        let default_tag = ProtectionTag::from_bits(tags.insert(1));
        Ok(Self {
            entries,
            segment,
            nic,
            shared,
            default_tag,
            books: Mutex::new(Books {
                regions: Slots::new(),
                tags,
                registered_bytes: 0,
                any_tag: false,
            }),
            remote_copies: RwLock::new(()),
        })
    }

    /// The memfd of the table, for [`remote::RemoteRegionTable::map`] in a trusted peer.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.segment.fd()
    }

    /// The tag of regions that are registered without attributes; lives as long as the NIC.
    pub(crate) const fn default_tag(&self) -> ProtectionTag {
        self.default_tag
    }

    /// Whether tag 0 stands for every tag: for old programs that give VIs no tag. Off at first.
    ///
    /// While it is on, a VI may have tag 0 and use any region, and a region registered with tag 0
    /// gets the default tag.
    pub(crate) fn set_any_tag(&self, enabled: bool) {
        let mut books = self.books();
        books.any_tag = enabled;
        let flags = if enabled { FLAG_ANY_TAG } else { 0 };
        self.entries.header().flags.store(flags, Ordering::Relaxed);
        self.entries.bump_epoch();
    }

    /// Makes a tag.
    ///
    /// # Errors
    ///
    /// `Resource` at the NIC's limit.
    pub(crate) fn create_tag(&self) -> Result<ProtectionTag> {
        let mut books = self.books();
        let limit = self.nic.max_protection_tags.min(SLOTS_MAX - 1);
        // The default tag is not counted.
        if books.tags.live() > limit {
            return Err(Error::new(
                ReturnCode::Resource,
                format!("the NIC already has {limit} protection tags: destroy one first"),
            ));
        }
        Ok(ProtectionTag::from_bits(books.tags.insert(0)))
    }

    /// Destroys a tag.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` when it is not alive or the NIC's default, `Resource` while VIs or
    /// regions use it.
    pub(crate) fn destroy_tag(&self, tag: ProtectionTag) -> Result<()> {
        let mut books = self.books();
        if tag == self.default_tag {
            return Err(Error::new(
                ReturnCode::InvalidParameter,
                "the default tag of a NIC goes with the NIC: destroy only tags that were created",
            ));
        }
        match books.tags.users(tag.bits()) {
            None => Err(Error::new(
                ReturnCode::InvalidParameter,
                format!("{:#x} is no live protection tag of this NIC", tag.bits()),
            )),
            Some(0) => {
                books.tags.remove(tag.bits());
                Ok(())
            }
            Some(users) => Err(Error::new(
                ReturnCode::Resource,
                format!(
                    "protection tag {:#x} is used by {users} VIs and memory regions: destroy or \
                     deregister them first",
                    tag.bits(),
                ),
            )),
        }
    }

    /// Counts a VI that uses a tag.
    ///
    /// # Errors
    ///
    /// `InvalidPtag` when the tag is not alive.
    pub(crate) fn retain_tag(&self, tag: ProtectionTag) -> Result<()> {
        self.books().retain_tag(tag)
    }

    /// Takes back one [`RegionTable::retain_tag`].
    pub(crate) fn release_tag(&self, tag: ProtectionTag) {
        self.books().release_tag(tag);
    }

    /// Registers memory. The same bytes may be registered again; each handle has its own rights.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for an empty range or one past the end of the address space, `Resource`
    /// at a limit of the NIC, `InvalidRdmaRead` when the NIC has none, `InvalidPtag`.
    pub(crate) fn register(
        &self,
        address: u64,
        length: u64,
        attributes: &MemoryAttributes,
    ) -> Result<MemoryHandle> {
        let mut books = self.books();
        let limit = self.entries.count;
        if books.regions.live >= limit {
            return Err(Error::new(
                ReturnCode::Resource,
                format!("the NIC already has {limit} memory regions: deregister one first"),
            ));
        }
        // The last byte must have an address; the first byte past the region need not.
        if length == 0 || address.checked_add(length - 1).is_none() {
            return Err(Error::new(
                ReturnCode::InvalidParameter,
                format!(
                    "{length} bytes at {address:#x} are no memory region: it has at least one \
                     byte and ends within the address space",
                ),
            ));
        }
        if length > self.nic.max_region_bytes {
            return Err(Error::new(
                ReturnCode::Resource,
                format!(
                    "a memory region of this NIC has at most {} bytes, not {length}: register the \
                     memory in parts",
                    self.nic.max_region_bytes,
                ),
            ));
        }
        let registered_bytes = books
            .registered_bytes
            .checked_add(length)
            .filter(|bytes| *bytes <= self.nic.max_registered_bytes)
            .ok_or_else(|| {
                Error::new(
                    ReturnCode::Resource,
                    format!(
                        "{length} bytes more would pass the {} bytes that this NIC can have \
                         registered: deregister some first",
                        self.nic.max_registered_bytes,
                    ),
                )
            })?;
        let attributes = self.admit(&mut books, attributes)?;
        books.registered_bytes = registered_bytes;
        let region = Region {
            address,
            length,
            attributes,
            pin: self.shared.pin(address, length),
        };
        let handle = books.regions.insert(region);
        self.publish(handle, &region);
        Ok(MemoryHandle::from_bits(handle))
    }

    /// Ends a registration.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` unless `address` is where the live region begins.
    pub(crate) fn deregister(&self, address: u64, handle: MemoryHandle) -> Result<()> {
        let mut books = self.books();
        let region = books.region(address, handle)?;
        books.regions.remove(handle.bits());
        books.registered_bytes -= region.length;
        books.release_tag(region.attributes.tag);
        self.entries.write(index_of(handle.bits()), |entry| {
            entry.handle.store(0, Ordering::Relaxed);
        });
        self.entries.bump_epoch();
        drop(books);
        self.end_remote_copies();
        if region.pin.is_some() {
            self.shared.unpin(region.address, region.length);
        }
        Ok(())
    }

    /// Holds off the end of every region while a thread of this process copies for a peer: to be
    /// taken before the check, and kept until the last byte. Nothing else is waited for meanwhile.
    pub(crate) fn begin_remote_copy(&self) -> RwLockReadGuard<'_, ()> {
        self.remote_copies
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for copies that may have been checked before the tables changed: the program may free
    /// the memory when this returns.
    fn end_remote_copies(&self) {
        let copies = self.remote_copies.write();
        drop(copies.unwrap_or_else(PoisonError::into_inner));
    }

    /// What a region was registered with.
    ///
    /// # Errors
    ///
    /// As [`RegionTable::deregister`].
    pub(crate) fn query(&self, address: u64, handle: MemoryHandle) -> Result<MemoryAttributes> {
        Ok(self.books().region(address, handle)?.attributes)
    }

    /// Changes what a region was registered with.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` as for [`RegionTable::deregister`], `InvalidRdmaRead`, `InvalidPtag`.
    pub(crate) fn set_attributes(
        &self,
        address: u64,
        handle: MemoryHandle,
        attributes: &MemoryAttributes,
    ) -> Result<()> {
        let mut books = self.books();
        let mut region = books.region(address, handle)?;
        let former = region.attributes.tag;
        region.attributes = self.admit(&mut books, attributes)?;
        books.release_tag(former);
        books.regions.replace(handle.bits(), region);
        self.publish(handle.bits(), &region);
        self.entries.bump_epoch();
        drop(books);
        self.end_remote_copies();
        Ok(())
    }

    /// Changes whenever a check that passed might fail now.
    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.entries.header().epoch.load(Ordering::Acquire)
    }

    /// Whether a VI of this NIC may use some bytes, and where they are. Takes no lock.
    ///
    /// VIA, memory protection: the handle is live, the bytes lie inside its region, to the byte,
    /// and the region's tag is the VI's.
    ///
    /// # Errors
    ///
    /// See [`ProtectionError`].
    #[inline]
    pub(crate) fn check(
        &self,
        handle: u32,
        address: u64,
        length: u64,
        tag: u32,
    ) -> Check<Placement> {
        let wanted = Wanted {
            handle,
            address,
            length,
            tag,
        };
        self.entries.check(wanted, u32::MAX)
    }

    /// How many bytes a VI of this NIC may use from an address on.
    ///
    /// # Errors
    ///
    /// [`ProtectionError::UnknownHandle`], [`ProtectionError::WrongTag`].
    pub(crate) fn room(&self, handle: u32, address: u64, tag: u32) -> Check<u64> {
        self.entries.room(handle, address, tag)
    }

    /// Where the epoch lies, as long as the table lives.
    pub(crate) fn epoch_word(&self) -> NonNull<AtomicU32> {
        NonNull::from(&self.entries.header().epoch)
    }

    /// As [`RegionTable::check`], by comparing alone when the bytes lie in the region that was
    /// found last.
    ///
    /// # Errors
    ///
    /// See [`ProtectionError`].
    #[inline]
    pub(crate) fn check_cached(
        &self,
        cache: &mut RegionCache,
        handle: u32,
        address: u64,
        length: u64,
        tag: u32,
    ) -> Check<Placement> {
        if cache.holds(self.epoch(), handle, address, length, tag) {
            let inside = address.wrapping_sub(cache.start);
            return Ok(Placement {
                segment: cache.placement.segment,
                offset: cache.placement.offset.wrapping_add(inside),
            });
        }
        let wanted = Wanted {
            handle,
            address,
            length,
            tag,
        };
        self.refill(cache, wanted)
    }

    #[cold]
    fn refill(&self, cache: &mut RegionCache, wanted: Wanted) -> Check<Placement> {
        // Read first: a change during the check makes the cache stale, never wrong.
        let epoch = self.epoch();
        let placement = self.entries.check(wanted, u32::MAX)?;
        if wanted.length > 0
            && let Some(found) = self.entries.read(index_of(wanted.handle), u32::MAX)
            && found.handle == wanted.handle
        {
            *cache = RegionCache {
                start: found.start,
                length: found.length,
                handle: wanted.handle,
                tag: wanted.tag,
                epoch,
                placement: found.placement(0),
            };
        }
        Ok(placement)
    }

    /// As [`RegionTable::check`], for an access on behalf of the peer of `vi`.
    ///
    /// # Errors
    ///
    /// See [`ProtectionError`].
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
        self.entries.check_remote(wanted, vi, access, u32::MAX)
    }

    /// Live regions.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u32 {
        self.books().regions.live
    }

    /// Checks attributes and counts their tag.
    fn admit(&self, books: &mut Books, wanted: &MemoryAttributes) -> Result<MemoryAttributes> {
        check::memory_is_supported(wanted, &self.nic).map_err(refuse::memory)?;
        let mut attributes = *wanted;
        if attributes.tag.bits() == 0 && books.any_tag {
            attributes.tag = self.default_tag;
        }
        books.retain_tag(attributes.tag)?;
        Ok(attributes)
    }

    fn publish(&self, handle: u32, region: &Region) {
        let mut rights = 0;
        if region.attributes.rdma_write {
            rights |= RIGHT_TO_WRITE;
        }
        if region.attributes.rdma_read {
            rights |= RIGHT_TO_READ;
        }
        let (segment, offset) = region
            .pin
            .and_then(|pin| pin.location)
            .map_or((0, 0), |l| (l.segment.bits(), l.offset));
        self.entries.write(index_of(handle), |entry| {
            entry.handle.store(handle, Ordering::Relaxed);
            entry.start.store(region.address, Ordering::Relaxed);
            entry.length.store(region.length, Ordering::Relaxed);
            let tag = region.attributes.tag.bits();
            entry.tag.store(tag, Ordering::Relaxed);
            entry.rights.store(rights, Ordering::Relaxed);
            entry.segment.store(segment, Ordering::Relaxed);
            entry.offset.store(offset, Ordering::Relaxed);
        });
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Nothing in here panics half way through a change.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RegionTable {
    fn drop(&mut self) {
        let shared = self.shared.clone();
        let books = self.books();
        for region in books.regions.values().filter(|r| r.pin.is_some()) {
            shared.unpin(region.address, region.length);
        }
    }
}

impl Books {
    fn region(&self, address: u64, handle: MemoryHandle) -> Result<Region> {
        let region = self.regions.get(handle.bits()).ok_or_else(|| {
            Error::new(
                ReturnCode::InvalidParameter,
                format!("{:#x} is no live memory handle of this NIC", handle.bits()),
            )
        })?;
        if region.address != address {
            return Err(Error::new(
                ReturnCode::InvalidParameter,
                format!(
                    "the region of memory handle {:#x} begins at {:#x}, not at {address:#x}: give \
                     the address it was registered with",
                    handle.bits(),
                    region.address,
                ),
            ));
        }
        Ok(region)
    }

    fn retain_tag(&mut self, tag: ProtectionTag) -> Result<()> {
        // Compatibility: tag 0 is no tag, so nothing is counted.
        if tag.bits() == 0 && self.any_tag {
            return Ok(());
        }
        let users = self.tags.users(tag.bits()).ok_or_else(|| {
            Error::new(
                ReturnCode::InvalidPtag,
                format!(
                    "{:#x} is no live protection tag of this NIC: create one, on this NIC handle",
                    tag.bits()
                ),
            )
        })?;
        self.tags.set_users(tag.bits(), users + 1);
        Ok(())
    }

    fn release_tag(&mut self, tag: ProtectionTag) {
        if let Some(users) = self.tags.users(tag.bits()) {
            self.tags.set_users(tag.bits(), users.saturating_sub(1));
        }
    }
}

/// The outcome of a check.
pub(crate) type Check<T> = std::result::Result<T, ProtectionError>;

/// Regions of one NIC at once.
pub(crate) const REGIONS_MAX: u32 = 65_536;

#[cfg(test)]
mod tests {
    use super::remote::RemoteRegionTable;
    use super::*;
    use viaduct_fabric::via::{ReliabilityLevel, ReliabilityLevels, protection};

    fn limits() -> NicAttributes {
        NicAttributes {
            max_protection_tags: 2,
            max_memory_regions: 3,
            max_region_bytes: 1000,
            max_registered_bytes: 1500,
            rdma_read_levels: ReliabilityLevels::NONE.with(ReliabilityLevel::ReliableDelivery),
            ..NicAttributes::default()
        }
    }

    fn table_with(nic: NicAttributes) -> RegionTable {
        RegionTable::new(Arc::new(nic), Arc::new(SharedAllocations::new())).unwrap()
    }

    fn table() -> RegionTable {
        table_with(limits())
    }

    /// Handle, address, length, tag.
    type Range = (MemoryHandle, u64, u64, ProtectionTag);

    fn check(table: &RegionTable, (handle, address, length, tag): Range) -> Check<Placement> {
        table.check(handle.bits(), address, length, tag.bits())
    }

    fn cached(
        table: &RegionTable,
        cache: &mut RegionCache,
        (handle, address, length, tag): Range,
    ) -> Check<Placement> {
        table.check_cached(cache, handle.bits(), address, length, tag.bits())
    }

    /// A VI that its peer may write and read through.
    fn open_vi(tag: ProtectionTag) -> ViAttributes {
        ViAttributes {
            rdma_write: true,
            rdma_read: true,
            ..ViAttributes::unreliable(tag, 0)
        }
    }

    fn for_peer(
        table: &RegionTable,
        (handle, address, length, tag): Range,
        access: RemoteAccess,
    ) -> Check<Placement> {
        table.check_remote(handle.bits(), address, length, &open_vi(tag), access)
    }

    fn code<T: std::fmt::Debug>(result: Result<T>) -> ReturnCode {
        result.unwrap_err().code()
    }

    #[test]
    fn what_a_cache_covers_is_what_the_rule_says() {
        let tag = ProtectionTag::from_bits(1);
        let near = |base: u64| (0..=10).map(move |offset| base.wrapping_add(offset));
        // Where numbers begin, where they end, and where half of them lies behind.
        for base in [0, u64::MAX / 2 - 5, u64::MAX - 10] {
            for (start, length) in near(base).flat_map(|start| (1..=10).map(move |n| (start, n))) {
                if start.checked_add(length - 1).is_none() {
                    continue;
                }
                let cache = RegionCache {
                    start,
                    length,
                    handle: 7,
                    ..RegionCache::EMPTY
                };
                let region = protection::Region {
                    address: start,
                    length,
                    attributes: MemoryAttributes::local(tag),
                };
                let lengths = (0..=11).chain([u64::MAX - 1, u64::MAX]);
                for (address, bytes) in lengths.flat_map(|n| near(base).map(move |at| (at, n))) {
                    assert_eq!(
                        cache.covers(0, 7, address, bytes),
                        region.covers(address, bytes),
                        "{bytes} bytes at {address:#x} of {length} at {start:#x}"
                    );
                }
            }
        }
    }

    #[test]
    fn protection_is_checked_to_the_byte() {
        // Conformance case 38, with and without a cache.
        let table = table();
        let tag = table.create_tag().unwrap();
        let other = table.create_tag().unwrap();
        let local = MemoryAttributes::local(tag);
        let handle = table.register(1001, 100, &local).unwrap();
        let mut cache = RegionCache::EMPTY;
        let mut verdict_of = |handle, address, length, tag| {
            let wanted = (handle, address, length, tag);
            let verdict = check(&table, wanted);
            for _ in 0..2 {
                assert_eq!(cached(&table, &mut cache, wanted), verdict);
            }
            verdict.map(|placement| assert_eq!(placement.segment, None))
        };
        assert_eq!(verdict_of(handle, 1001, 100, tag), Ok(()));
        assert_eq!(verdict_of(handle, 1001, 1, tag), Ok(()));
        assert_eq!(verdict_of(handle, 1100, 1, tag), Ok(()));
        let outside = Err(ProtectionError::OutsideRegion);
        assert_eq!(verdict_of(handle, 1000, 1, tag), outside, "one byte before");
        assert_eq!(verdict_of(handle, 1001, 101, tag), outside, "one byte past");
        assert_eq!(verdict_of(handle, 1101, 1, tag), outside, "the byte past");
        assert_eq!(verdict_of(handle, u64::MAX, 2, tag), outside, "wraps");
        assert_eq!(verdict_of(handle, 1002, u64::MAX, tag), outside, "wraps");
        let wrong_tag = Err(ProtectionError::WrongTag);
        assert_eq!(verdict_of(handle, 1001, 1, other), wrong_tag);
        let none = ProtectionTag::from_bits(0);
        assert_eq!(verdict_of(handle, 1001, 1, none), wrong_tag);
        for dead in [0, 1, handle.bits() + 1, handle.bits() ^ (1 << 20), u32::MAX] {
            let verdict = verdict_of(MemoryHandle::from_bits(dead), 1001, 1, tag);
            assert_eq!(verdict, Err(ProtectionError::UnknownHandle), "{dead:#x}");
            let nothing = verdict_of(MemoryHandle::from_bits(dead), 0, 0, tag);
            assert_eq!(nothing, Ok(()), "no byte is touched");
        }
    }

    #[test]
    fn a_region_may_end_at_the_last_address() {
        let table = table();
        let tag = table.default_tag();
        let local = MemoryAttributes::local(tag);
        let start = u64::MAX - 9;
        let handle = table.register(start, 10, &local).unwrap();
        assert!(check(&table, (handle, start, 10, tag)).is_ok());
        assert!(check(&table, (handle, start + 1, 10, tag)).is_err());
        let refused = ReturnCode::InvalidParameter;
        assert_eq!(code(table.register(start, 11, &local)), refused);
        assert_eq!(code(table.register(start, 0, &local)), refused);
    }

    #[test]
    fn deregistering_needs_the_start_address() {
        // Conformance case 10.
        let table = table();
        let tag = table.create_tag().unwrap();
        let local = MemoryAttributes::local(tag);
        let handle = table.register(64, 64, &local).unwrap();
        let mut cache = RegionCache::EMPTY;
        let inside = (handle, 64, 64, tag);
        let refused = ReturnCode::InvalidParameter;
        assert_eq!(code(table.deregister(65, handle)), refused);
        assert!(cached(&table, &mut cache, inside).is_ok());
        table.deregister(64, handle).unwrap();
        let dead = Err(ProtectionError::UnknownHandle);
        assert_eq!(check(&table, inside), dead);
        assert_eq!(cached(&table, &mut cache, inside), dead, "no stale hit");
        assert_eq!(code(table.deregister(64, handle)), refused);
        assert_eq!(code(table.query(64, handle)), refused);
        let again = table.register(64, 64, &local).unwrap();
        assert_ne!(again, handle);
        assert_eq!(cached(&table, &mut cache, inside), dead);
    }

    #[test]
    fn a_region_does_not_end_while_bytes_are_copied_for_a_peer() {
        let table = table();
        let tag = table.create_tag().unwrap();
        let handle = table
            .register(64, 64, &MemoryAttributes::local(tag))
            .unwrap();
        let has_ended = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let copying = table.begin_remote_copy();
            scope.spawn(|| {
                table.deregister(64, handle).unwrap();
                has_ended.store(1, Ordering::Release);
            });
            // What begins now finds no region; what began before is waited for.
            while check(&table, (handle, 64, 64, tag)).is_ok() {
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(has_ended.load(Ordering::Acquire), 0);
            drop(copying);
        });
        assert_eq!(has_ended.load(Ordering::Acquire), 1);
    }

    #[test]
    fn the_same_bytes_registered_twice_have_two_handles() {
        // Conformance case 11.
        let table = table();
        let tag = table.create_tag().unwrap();
        let local = MemoryAttributes::local(tag);
        let written = MemoryAttributes {
            rdma_write: true,
            ..local
        };
        let first = table.register(0, 10, &local).unwrap();
        let second = table.register(0, 10, &written).unwrap();
        assert_ne!(first, second);
        assert!(first.bits() != 0 && second.bits() != 0);
        assert_eq!(table.query(0, first), Ok(local));
        assert_eq!(table.query(0, second), Ok(written));
        let write = |handle| {
            let wanted = (handle, 0, 10, tag);
            for_peer(&table, wanted, RemoteAccess::Write)
        };
        assert_eq!(write(first), Err(ProtectionError::NotEnabled));
        assert_eq!(write(second), Ok(Placement::PRIVATE));
        table.deregister(0, first).unwrap();
        assert!(write(second).is_ok());
    }

    #[test]
    fn a_tag_in_use_is_not_destroyed() {
        // Conformance cases 8 and 12.
        let table = table();
        let tag = table.create_tag().unwrap();
        let local = MemoryAttributes::local(tag);
        let handle = table.register(0, 1, &local).unwrap();
        table.retain_tag(tag).unwrap();
        assert_eq!(code(table.destroy_tag(tag)), ReturnCode::Resource);
        table.deregister(0, handle).unwrap();
        assert_eq!(code(table.destroy_tag(tag)), ReturnCode::Resource);
        table.release_tag(tag);
        table.destroy_tag(tag).unwrap();
        assert_eq!(code(table.destroy_tag(tag)), ReturnCode::InvalidParameter);
        assert_eq!(code(table.retain_tag(tag)), ReturnCode::InvalidPtag);
        assert_eq!(code(table.register(0, 1, &local)), ReturnCode::InvalidPtag);
        let default = table.destroy_tag(table.default_tag());
        assert_eq!(code(default), ReturnCode::InvalidParameter);
    }

    #[test]
    fn a_region_can_be_moved_to_another_tag() {
        let table = table();
        let tag = table.create_tag().unwrap();
        let other = table.create_tag().unwrap();
        let local = MemoryAttributes::local(tag);
        let handle = table.register(0, 8, &local).unwrap();
        let mut cache = RegionCache::EMPTY;
        let old = (handle, 0, 8, tag);
        assert!(cached(&table, &mut cache, old).is_ok());
        let moved = MemoryAttributes::local(other);
        table.set_attributes(0, handle, &moved).unwrap();
        assert_eq!(table.query(0, handle), Ok(moved));
        let refused = Err(ProtectionError::WrongTag);
        assert_eq!(cached(&table, &mut cache, old), refused);
        let new = (handle, 0, 8, other);
        assert!(cached(&table, &mut cache, new).is_ok());
        table.destroy_tag(tag).unwrap();
        let dead = table.set_attributes(0, handle, &local);
        assert_eq!(code(dead), ReturnCode::InvalidPtag);
        assert_eq!(table.query(0, handle), Ok(moved), "nothing was changed");
        let elsewhere = table.set_attributes(1, handle, &moved);
        assert_eq!(code(elsewhere), ReturnCode::InvalidParameter);
    }

    #[test]
    fn every_limit_holds_and_one_past_it_is_refused() {
        let table = table();
        let local = MemoryAttributes::local(table.default_tag());
        let full = ReturnCode::Resource;
        assert_eq!(code(table.register(0, 1001, &local)), full);
        let first = table.register(0, 1000, &local).unwrap();
        assert_eq!(code(table.register(0, 501, &local)), full);
        table.register(0, 499, &local).unwrap();
        table.register(0, 1, &local).unwrap();
        table.deregister(0, first).unwrap();
        table.register(0, 1, &local).unwrap();
        assert_eq!(code(table.register(0, 1, &local)), full, "three regions");
        assert_eq!(table.count(), 3);
        table.create_tag().unwrap();
        table.create_tag().unwrap();
        assert_eq!(code(table.create_tag()), full);
    }

    #[test]
    fn remote_reads_need_a_nic_that_has_them() {
        // Conformance case 9, the part of memory.
        let with = table();
        let readable = MemoryAttributes {
            rdma_read: true,
            ..MemoryAttributes::local(with.default_tag())
        };
        let handle = with.register(0, 8, &readable).unwrap();
        let wanted = (handle, 0, 8, with.default_tag());
        assert!(for_peer(&with, wanted, RemoteAccess::Read).is_ok());
        let write = for_peer(&with, wanted, RemoteAccess::Write);
        assert_eq!(write, Err(ProtectionError::NotEnabled));
        let without = table_with(NicAttributes {
            rdma_read_levels: ReliabilityLevels::NONE,
            ..limits()
        });
        let refused = without.register(0, 8, &readable);
        assert_eq!(code(refused), ReturnCode::InvalidRdmaRead);
        let local = MemoryAttributes::local(without.default_tag());
        let handle = without.register(0, 8, &local).unwrap();
        let refused = without.set_attributes(0, handle, &readable);
        assert_eq!(code(refused), ReturnCode::InvalidRdmaRead);
    }

    #[test]
    fn tag_0_matches_any_region_when_asked_for() {
        let table = table();
        let none = ProtectionTag::from_bits(0);
        let tag = table.create_tag().unwrap();
        let handle = table.register(0, 8, &MemoryAttributes::local(tag)).unwrap();
        let untagged = MemoryAttributes::local(none);
        let mut cache = RegionCache::EMPTY;
        let wanted = (handle, 0, 8, none);
        assert!(cached(&table, &mut cache, wanted).is_err());
        assert_eq!(code(table.retain_tag(none)), ReturnCode::InvalidPtag);
        assert_eq!(
            code(table.register(0, 8, &untagged)),
            ReturnCode::InvalidPtag
        );
        table.set_any_tag(true);
        assert!(cached(&table, &mut cache, wanted).is_ok());
        table.retain_tag(none).unwrap();
        table.release_tag(none);
        let given = table.register(0, 8, &untagged).unwrap();
        let attributes = table.query(0, given).unwrap();
        assert_eq!(attributes.tag, table.default_tag());
        table.set_any_tag(false);
        assert!(cached(&table, &mut cache, wanted).is_err(), "no stale hit");
    }

    #[test]
    fn shared_memory_is_told_with_its_place() {
        let shared = Arc::new(SharedAllocations::new());
        let nic = NicAttributes::default();
        let table = RegionTable::new(Arc::new(nic), shared.clone()).unwrap();
        let memory = shared.allocate(10_000).unwrap();
        let address = memory.as_ptr() as u64;
        let tag = table.default_tag();
        let local = MemoryAttributes::local(tag);
        let handle = table.register(address + 5, 5000, &local).unwrap();
        let mut cache = RegionCache::EMPTY;
        let wanted = (handle, address + 7, 9, tag);
        let location = shared.find(address + 7, 9).unwrap();
        for _ in 0..2 {
            let placement = cached(&table, &mut cache, wanted).unwrap();
            assert_eq!(placement.segment, Some(location.segment));
            assert_eq!(placement.offset, location.offset);
            assert_eq!(check(&table, wanted), Ok(placement));
        }
        // SAFETY: nobody uses the memory.
        let free = || unsafe { shared.free(memory) };
        assert!(free().is_err(), "still registered");
        drop(table);
        assert_eq!(free(), Ok(()));
    }

    #[test]
    fn a_peer_sees_the_table_as_it_is() {
        // Conformance case 64, the part of memory.
        let table = table();
        let tag = table.create_tag().unwrap();
        let other = table.create_tag().unwrap();
        let descriptor = table.fd().try_clone_to_owned().unwrap();
        let remote = RemoteRegionTable::map(descriptor).unwrap();
        let written = MemoryAttributes {
            rdma_write: true,
            ..MemoryAttributes::local(tag)
        };
        let handle = table.register(100, 10, &written).unwrap();
        let check = |address, length, tag: ProtectionTag, access| {
            remote.check_remote(handle.bits(), address, length, &open_vi(tag), access)
        };
        use ProtectionError::{NotEnabled, OutsideRegion, UnknownHandle, WrongTag};
        use RemoteAccess::{Read, Write};
        assert_eq!(check(100, 10, tag, Write), Ok(Placement::PRIVATE));
        assert_eq!(check(100, 10, tag, Read), Err(NotEnabled));
        assert_eq!(check(100, 11, tag, Write), Err(OutsideRegion));
        assert_eq!(check(100, 10, other, Write), Err(WrongTag));
        let epoch = table.epoch();
        table.deregister(100, handle).unwrap();
        assert_ne!(table.epoch(), epoch);
        assert_eq!(check(100, 10, tag, Write), Err(UnknownHandle));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let segment = Segment::create("viaduct-test", 4096).unwrap();
        let descriptor = segment.fd().try_clone_to_owned().unwrap();
        let error = RemoteRegionTable::map(descriptor).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert!(RemoteRegionTable::map(pipe).is_err());
    }
}
