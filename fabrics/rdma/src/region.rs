//! Protection domains, memory regions and address handles.

use std::cell::UnsafeCell;

use viaduct_core::verbs::{AddressAttributes, Result, SharedReceiveAttributes};

use crate::engine::{Key, engine};
use crate::pair::{QueuePair, QueuePairOptions};
use crate::queues::SharedReceiveQueue;

/// A protection domain.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ProtectionDomain {
    pub(crate) key: Key,
}

impl ProtectionDomain {
    /// Opens memory of this program to requests: `length` bytes from `address`, which requests call
    /// by addresses from `iova` on (from 0 with `ZERO_BASED`). `access` has bits of
    /// [`access`](viaduct_core::verbs::flags::access). The key serves local and remote requests.
    ///
    /// # Errors
    ///
    /// EINVAL for REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE, an unknown bit, or a range
    /// past the end of memory; EOPNOTSUPP for on-demand paging and memory windows; ENOMEM when
    /// there are too many regions.
    ///
    /// # Safety
    ///
    /// The memory stays mapped until the region is deregistered, with the permissions that `access`
    /// needs, and the program expects requests to read and write it as `access` lets them.
    pub unsafe fn register_memory(
        &self,
        address: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<MemoryRegion> {
        let mut engine = engine()?;
        let (key, memory_key) = engine
            .objects
            .register_memory(self.key, address, length, iova, access)?;
        engine.share_pages(key);
        Ok(MemoryRegion { key, memory_key })
    }

    /// Memory of this program that is open to requests, zeroed.
    ///
    /// # Errors
    ///
    /// As [`ProtectionDomain::register_memory`].
    pub fn allocate(&self, bytes: usize, access: u32) -> Result<Buffer> {
        let words = bytes.div_ceil(8).max(1);
        let memory: Box<[_]> = (0..words).map(|_| UnsafeCell::new(0_u64)).collect();
        // Requests reach it by its address alone.
        let address = memory.as_ptr().expose_provenance() as u64;
        // SAFETY: the memory stays where it is until the buffer is dropped, which deregisters it
        // first, and nobody has a reference into it.
        let region = unsafe { self.register_memory(address, bytes as u64, address, access)? };
        Ok(Buffer {
            region,
            memory,
            bytes,
        })
    }

    /// Makes a shared receive queue. `cookie` names it in asynchronous events.
    ///
    /// # Errors
    ///
    /// EINVAL for sizes past the device's.
    pub fn create_shared_receive_queue(
        &self,
        attributes: &SharedReceiveAttributes,
        cookie: u64,
    ) -> Result<SharedReceiveQueue> {
        let key = engine()?
            .objects
            .create_shared(self.key, attributes, cookie)?;
        Ok(SharedReceiveQueue { key })
    }

    /// Makes a queue pair, in the state RESET.
    ///
    /// # Errors
    ///
    /// EINVAL for sizes past the device's or objects of another context.
    pub fn create_queue_pair(&self, options: &QueuePairOptions) -> Result<QueuePair> {
        let options = options.map(|queue| queue.key, |shared| shared.key);
        let (key, number) = engine()?.objects.create_pair(self.key, &options)?;
        Ok(QueuePair { key, number })
    }

    /// Makes an address handle.
    ///
    /// # Errors
    ///
    /// EINVAL for another port than 1, for an address without a route on Ethernet, or for a source
    /// past the table of GIDs.
    pub fn create_address_handle(&self, attributes: &AddressAttributes) -> Result<AddressHandle> {
        let key = engine()?.objects.create_address(self.key, attributes)?;
        Ok(AddressHandle { key })
    }

    /// Gives it back.
    ///
    /// # Errors
    ///
    /// EBUSY while something was made in it.
    pub fn deallocate(&self) -> Result<()> {
        engine()?.objects.deallocate_domain(self.key)
    }
}

/// Memory that is open to requests.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct MemoryRegion {
    key: Key,
    memory_key: u32,
}

impl MemoryRegion {
    /// `lkey` and `rkey`. It stays the same when the region is registered again.
    #[must_use]
    pub const fn memory_key(&self) -> u32 {
        self.memory_key
    }

    /// Changes what `flags` (bits of [`reregister`](viaduct_core::verbs::flags::reregister)) name.
    /// `iova` is the new address where the translation changes and nothing else is wanted.
    ///
    /// # Errors
    ///
    /// As for [`ProtectionDomain::register_memory`]; the region is as before then.
    ///
    /// # Safety
    ///
    /// As for [`ProtectionDomain::register_memory`].
    pub unsafe fn reregister(
        &self,
        flags: u32,
        domain: Option<ProtectionDomain>,
        address: u64,
        length: u64,
        access: u32,
    ) -> Result<()> {
        let domain = domain.map(|domain| domain.key);
        let range = (address, length);
        let mut engine = engine()?;
        let key = self.key;
        engine
            .objects
            .reregister_memory(key, flags, domain, range, access)?;
        engine.leave_pages(self.memory_key);
        engine.share_pages(key);
        Ok(())
    }

    /// Closes the memory to requests. When this returns, none of this device's touches it.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn deregister(&self) -> Result<()> {
        let mut engine = engine()?;
        engine.objects.deregister_memory(self.key)?;
        engine.leave_pages(self.memory_key);
        Ok(())
    }
}

/// Memory of a program that is open to requests, until this is dropped. Whoever reads it by its
/// address while a request or a peer writes there reads a mixture.
#[derive(Debug)]
pub struct Buffer {
    region: MemoryRegion,
    memory: Box<[UnsafeCell<u64>]>,
    bytes: usize,
}

// SAFETY: the bytes are reached by their address alone, and by no reference.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Its first byte, as requests call it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.as_ptr().addr() as u64
    }

    /// `lkey` and `rkey`.
    #[must_use]
    pub const fn memory_key(&self) -> u32 {
        self.region.memory_key()
    }

    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A child that was forked has its parent's memory, but not its regions.
        let _ = self.region.deregister();
    }
}

impl From<AddressHandle> for Key {
    fn from(handle: AddressHandle) -> Self {
        handle.key
    }
}

/// Where datagrams go.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct AddressHandle {
    pub(crate) key: Key,
}

impl AddressHandle {
    /// Gives it back. Datagrams that were posted with it still go.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn destroy(&self) -> Result<()> {
        engine()?.objects.destroy_address(self.key)
    }
}
