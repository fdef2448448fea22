//! Memory that is registered with a NIC for as long as it exists.

use std::alloc::{self, Layout, LayoutError};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use viaduct_core::{MemoryAttributes, MemoryHandle};

use crate::error::{Error, Result, ReturnCode};
use crate::nic::NicShared;
use crate::provider::Provider;

/// Where memory for messages comes from.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Memory {
    /// From the fabric, which reaches it without a copy between processes.
    #[default]
    Shared,
    /// From this process alone.
    Private,
}

/// Whoever keeps a region registered; dropping the last owner ends it.
pub(crate) trait RegionOwner: fmt::Debug + Send + Sync {}

/// Registered, zeroed memory. Dropped: deregistered, then given back.
pub(crate) struct Region<P: Provider> {
    nic: Arc<NicShared<P>>,
    address: NonNull<u8>,
    length: usize,
    handle: MemoryHandle,
    origin: Origin,
}

#[derive(Clone, Copy)]
enum Origin {
    Shared,
    Private,
}

/// How private memory of so many bytes lies: long ranges on pages of their own.
fn private_layout(length: usize) -> std::result::Result<Layout, LayoutError> {
    const PAGE_BYTES: usize = 4096;

    Layout::from_size_align(length, PAGE_BYTES.min(length.next_power_of_two().max(64)))
}

// SAFETY: the region owns its memory as a box would; who reaches it is decided by what is built
// on it.
unsafe impl<P: Provider> Send for Region<P> {}
// SAFETY: as above; a shared region gives out nothing but its address.
unsafe impl<P: Provider> Sync for Region<P> {}

impl<P: Provider> RegionOwner for Region<P> {}

impl<P: Provider> Region<P> {
    /// Allocates and registers `length` bytes that begin at a multiple of 64.
    pub(crate) fn new(
        nic: &Arc<NicShared<P>>,
        length: usize,
        memory: Memory,
        attributes: &MemoryAttributes,
    ) -> Result<Self> {
        if length == 0 {
            let reason = "memory of 0 bytes cannot be registered; Buffer::empty() needs none";
            return Err(Error::new(ReturnCode::InvalidParameter, reason));
        }
        let (address, origin) = allocate(nic, length, memory)?;
        // SAFETY: the allocation has `length` writable bytes that nobody else uses yet. Zeroing
        // makes them readable as bytes whatever the fabric promises of fresh memory.
        unsafe { address.as_ptr().write_bytes(0, length) };
        // SAFETY: the memory stays until `Drop` has deregistered it, and is leaked if that fails.
        let registered = unsafe {
            nic.fabric
                .register_memory(nic.handle, address.as_ptr(), length, attributes)
        };
        match registered {
            Ok(handle) => Ok(Self {
                nic: Arc::clone(nic),
                address,
                length,
                handle,
                origin,
            }),
            Err(error) => {
                // SAFETY: it was allocated above and nobody has seen it.
                unsafe { free(nic, address, length, origin) };
                Err(error)
            }
        }
    }

    pub(crate) const fn address(&self) -> NonNull<u8> {
        self.address
    }

    pub(crate) const fn handle(&self) -> MemoryHandle {
        self.handle
    }
}

fn allocate<P: Provider>(
    nic: &NicShared<P>,
    length: usize,
    memory: Memory,
) -> Result<(NonNull<u8>, Origin)> {
    match memory {
        Memory::Shared => {
            let address = nic.fabric.allocate_shared(nic.handle, length)?;
            Ok((address, Origin::Shared))
        }
        Memory::Private => {
            let refused = || {
                let reason = format!("{length} bytes of memory cannot be allocated");
                Error::new(ReturnCode::Resource, reason)
            };
            let layout = private_layout(length).map_err(|_| refused())?;
            // SAFETY: `length` is not 0, checked by the only caller.
            let address = unsafe { alloc::alloc(layout) };
            let address = NonNull::new(address).ok_or_else(refused)?;
            Ok((address, Origin::Private))
        }
    }
}

/// # Safety
///
/// The memory came from [`allocate`] with this length and origin, and nothing uses it any more.
unsafe fn free<P: Provider>(
    nic: &NicShared<P>,
    address: NonNull<u8>,
    length: usize,
    origin: Origin,
) {
    match origin {
        // A fabric that does not take its memory back keeps it: a leak harms nobody.
        // SAFETY: as this function's.
        Origin::Shared => drop(unsafe { nic.fabric.free_shared(nic.handle, address) }),
        Origin::Private => {
            // It was allocated so: there is such a layout.
            if let Ok(layout) = private_layout(length) {
                // SAFETY: as this function's.
                unsafe { alloc::dealloc(address.as_ptr(), layout) };
            }
        }
    }
}

impl<P: Provider> Drop for Region<P> {
    fn drop(&mut self) {
        let fabric = &self.nic.fabric;
        let ended = fabric.deregister_memory(self.nic.handle, self.address.as_ptr(), self.handle);
        // Memory that the fabric did not let go of stays: it may still be reached.
        if ended.is_ok() {
            // SAFETY: it was allocated in `new`, and the registration has ended.
            unsafe { free(&self.nic, self.address, self.length, self.origin) };
        }
    }
}

impl<P: Provider> fmt::Debug for Region<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Region")
            .field("address", &self.address)
            .field("length", &self.length)
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}
