//! Buffers: registered memory that travels with its descriptor.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use viaduct_core::MemoryHandle;

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
pub struct Buffer(
    /// One word, so that posting and taking move no more; `None` for a buffer of no bytes.
    Option<Box<Inner>>,
);

struct Inner {
    address: NonNull<u8>,
    length: u32,
    handle: MemoryHandle,
    region: Arc<dyn RegionOwner>,
}

// SAFETY: a buffer owns its bytes as a box does.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer can be read only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of no bytes, which needs no registration: for messages that are only a signal.
    #[must_use]
    pub const fn empty() -> Self {
        Self(None)
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
        Self(Some(Box::new(Inner {
            address,
            length,
            handle,
            region,
        })))
    }

    /// A hold on its memory, wherever the buffer goes and however it ends.
    ///
    /// For interfaces that let others keep views of a buffer's bytes: what they see of one that is
    /// posted or gone is for them to say, but the memory is there.
    #[must_use]
    pub fn hold(&self) -> BufferHold {
        let region = self.0.as_ref().map(|inner| Arc::clone(&inner.region));
        BufferHold(region)
    }

    /// The segment that names the first `length` bytes; not longer than the buffer. `None` for a
    /// buffer of no bytes, which has no region to name.
    #[inline]
    pub(crate) fn segment(&self, length: u32) -> Option<Segment> {
        let inner = self.0.as_deref()?;
        debug_assert!(length <= inner.length);
        Some(Segment {
            address: inner.address.as_ptr().expose_provenance() as u64,
            handle: inner.handle.bits(),
            length,
        })
    }

    /// Bytes, in the unit of descriptors.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        self.0.as_ref().map_or(0, |inner| inner.length)
    }
}

/// Keeps the memory of a [`Buffer`] allocated and registered while it exists.
#[derive(Clone, Debug)]
pub struct BufferHold(#[expect(dead_code, reason = "held")] Option<Arc<dyn RegionOwner>>);

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: `new`'s caller promised initialised bytes that only this buffer reaches.
            Some(inner) => unsafe {
                slice::from_raw_parts(inner.address.as_ptr(), inner.length as usize)
            },
            None => &[],
        }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            // SAFETY: as in `deref`, and the buffer is borrowed alone.
            Some(inner) => unsafe {
                slice::from_raw_parts_mut(inner.address.as_ptr(), inner.length as usize)
            },
            None => &mut [],
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Buffer")
            .field("length", &self.length())
            .field("region", &self.0.as_ref().map(|inner| &inner.region))
            .finish_non_exhaustive()
    }
}
