//! Buffers: registered memory that travels with its descriptor.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use viaduct_via::MemoryHandle;

use crate::descriptor::Segment;
use crate::region::RegionOwner;

/// Registered memory for messages, owned by whoever may touch it.
///
/// Posting a buffer gives it to the fabric; its completion gives it back. While a program has it,
/// it is a slice of bytes that nobody else writes: peers have no right to it (for memory that
/// peers read or write, see [`crate::Window`]). What a fabric does about a peer that breaks that
/// rule is the fabric's to say.
///
/// Made by [`crate::Nic::buffers`]; the registration ends with the last buffer of it.
pub struct Buffer {
    address: NonNull<u8>,
    length: u32,
    handle: MemoryHandle,
    /// `None` for a buffer of no bytes.
    region: Option<Arc<dyn RegionOwner>>,
}

// SAFETY: a buffer owns its bytes as a box does.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer can be read only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of no bytes, which needs no registration: for messages that are only a signal.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            address: NonNull::dangling(),
            length: 0,
            handle: MemoryHandle::from_bits(0),
            region: None,
        }
    }

    /// # Safety
    ///
    /// The bytes lie in `region`, which keeps them initialised, and nothing else reaches them.
    pub(crate) unsafe fn new(
        address: NonNull<u8>,
        length: u32,
        handle: MemoryHandle,
        region: Arc<dyn RegionOwner>,
    ) -> Self {
        Self {
            address,
            length,
            handle,
            region: Some(region),
        }
    }

    /// The segment that names the first `length` bytes; not longer than the buffer.
    #[inline]
    pub(crate) fn segment(&self, length: u32) -> Segment {
        debug_assert!(length <= self.length);
        Segment {
            address: self.address.as_ptr().expose_provenance() as u64,
            handle: self.handle.bits(),
            length,
        }
    }

    /// Bytes, in the unit of descriptors.
    #[inline]
    pub(crate) const fn length(&self) -> u32 {
        self.length
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `new`'s caller promised initialised bytes that only this buffer reaches; an
        // empty slice may dangle.
        unsafe { slice::from_raw_parts(self.address.as_ptr(), self.length as usize) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the buffer is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.address.as_ptr(), self.length as usize) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Buffer")
            .field("address", &self.address)
            .field("length", &self.length)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}
