//! Protection domains, memory regions and address handles.

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
        let objects = &mut engine()?.objects;
        let (key, memory_key) = objects.register_memory(self.key, address, length, iova, access)?;
        Ok(MemoryRegion { key, memory_key })
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
        let objects = &mut engine()?.objects;
        objects.reregister_memory(self.key, flags, domain, range, access)
    }

    /// Closes the memory to requests. When this returns, none of this device's touches it.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn deregister(&self) -> Result<()> {
        engine()?.objects.deregister_memory(self.key)
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
