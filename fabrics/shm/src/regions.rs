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

use viaduct_provider::via::protection::{AccessError, RemoteAccess};
use viaduct_provider::via::{
    MemoryAttributes, MemoryHandle, NicAttributes, ProtectionTag, ViAttributes, check,
};
use viaduct_provider::{DESCRIPTOR_ALIGNMENT, Descriptor, Error, Result, ReturnCode};

use self::entries::{
    ENTRY_BYTES, Entries, FLAG_ANY_TAG, MAGIC, RIGHT_TO_READ, RIGHT_TO_WRITE, VERSION, Wanted,
};
use self::slots::{SLOTS_MAX, Slots, index_of};
use self::tags::Tags;
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
            AccessError::RegionForbids | AccessError::EndForbids => Self::NotEnabled,
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
    /// The first address in it at which a descriptor may begin, and how many lie there.
    first_descriptor: u64,
    descriptors: u64,
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
        first_descriptor: 0,
        descriptors: 0,
    };
}

impl RegionCache {
    /// Holds a region that the rule let some bytes of be used, at an epoch.
    fn new(region: (u64, u64), handle: u32, tag: u32, epoch: u32, placement: Placement) -> Self {
        let (start, length) = region;
        // No descriptor begins at 0.
        let before = match start {
            0 => DESCRIPTOR_ALIGNMENT as u64,
            start => start.wrapping_neg() % DESCRIPTOR_ALIGNMENT as u64,
        };
        Self {
            start,
            length,
            handle,
            tag,
            epoch,
            placement,
            first_descriptor: start.wrapping_add(before),
            descriptors: length.saturating_sub(before) / size_of::<Descriptor>() as u64,
        }
    }

    /// Whether the bytes lie in the region held, and nothing has changed since `epoch`. The tag is
    /// that of the last check.
    ///
    /// The rule is `Region::covers` of `viaduct_core::protection`, which said so of the bytes for
    /// which the region came here; this says of others in it what that would, in fewer steps.
    #[inline(always)]
    pub(crate) const fn covers(&self, epoch: u32, handle: u32, address: u64, length: u64) -> bool {
        let end = address.wrapping_sub(self.start).checked_add(length);
        self.handle == handle
            && self.epoch == epoch
            && matches!(end, Some(end) if end <= self.length)
    }

    /// The same of a descriptor with room for two segments, which begins where a descriptor may.
    #[inline(always)]
    pub(crate) const fn covers_descriptor(&self, epoch: u32, handle: u32, address: u64) -> bool {
        // What is no multiple of a descriptor's size becomes a very large number.
        let number = address
            .wrapping_sub(self.first_descriptor)
            .rotate_right(DESCRIPTOR_ALIGNMENT.ilog2());
        self.handle == handle && self.epoch == epoch && number < self.descriptors
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
            let region = (found.start, found.length);
            let (handle, tag) = (wanted.handle, wanted.tag);
            *cache = RegionCache::new(region, handle, tag, epoch, found.placement(0));
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
        check::memory_is_supported(wanted, &self.nic)?;
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
mod tests;
