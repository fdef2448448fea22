//! Memory of programs that is open to requests.

use std::cell::UnsafeCell;
use std::fmt;
use std::time::Duration;

use viaduct_provider::via::verbs::flags::reregister;
use viaduct_provider::via::verbs::{Adapter, Key, Result, ScatterGatherElement};

use super::handles::{ProtectionDomain, call};
use crate::cluster::Hosted;
use crate::outside::Owner;
use crate::process::Process;

/// Memory that is open to requests.
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    process: Process,
    key: Key,
    memory_key: u32,
}

/// Memory of a program that is open to requests, until this is dropped.
pub struct Buffer {
    region: MemoryRegion,
    memory: Box<[UnsafeCell<u64>]>,
    bytes: usize,
}

// SAFETY: the adapter and programs reach the bytes under the lock of the simulation alone.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = formatter.debug_struct("Buffer");
        buffer
            .field("region", &self.region)
            .field("bytes", &self.bytes)
            .finish()
    }
}

impl ProtectionDomain {
    /// Opens memory of this program to requests: `length` bytes from `address`, which requests call
    /// by addresses from `iova` on (from 0 with `ZERO_BASED`). `access` has bits of
    /// [`access`](super::flags::access). The key serves local and remote requests.
    ///
    /// # Errors
    ///
    /// EINVAL for REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE, an unknown bit, or a range
    /// past the end of memory; EOPNOTSUPP for on-demand paging; ENOMEM when there are too many
    /// regions.
    ///
    /// # Safety
    ///
    /// The memory stays where it is until the region is deregistered, and the program expects
    /// requests to read and write it as `access` lets them.
    pub unsafe fn register_memory(
        &self,
        address: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<MemoryRegion> {
        let register = |adapter: &mut Adapter| {
            adapter.register_memory(self.key, address, length, iova, access)
        };
        let (key, memory_key) = call(&self.process, register)?;
        self.process.pay_for_registering(length);
        let process = self.process.clone();
        Ok(MemoryRegion {
            process,
            key,
            memory_key,
        })
    }

    /// Memory of this program that is open to requests, zeroed.
    ///
    /// # Errors
    ///
    /// As [`ProtectionDomain::register_memory`].
    pub fn allocate(&self, bytes: usize, access: u32) -> Result<Buffer> {
        let words = bytes.div_ceil(8).max(1);
        let memory: Box<[_]> = (0..words).map(|_| UnsafeCell::new(0_u64)).collect();
        let address = memory.as_ptr().addr() as u64;
        // SAFETY: the memory stays where it is until the buffer is dropped, which deregisters it
        // first, and nobody has a reference into it.
        let region = unsafe { self.register_memory(address, bytes as u64, address, access)? };
        // Requests reach it by its address alone.
        let _ = memory.as_ptr().expose_provenance();
        Ok(Buffer {
            region,
            memory,
            bytes,
        })
    }
}

impl MemoryRegion {
    /// `lkey` and `rkey`. It stays the same when the region is registered again.
    #[must_use]
    pub const fn memory_key(&self) -> u32 {
        self.memory_key
    }

    /// Changes what `flags` (bits of [`reregister`](super::flags::reregister)) name.
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
        domain: Option<&ProtectionDomain>,
        address: u64,
        length: u64,
        access: u32,
    ) -> Result<()> {
        let domain = domain.map(|domain| domain.key);
        call(&self.process, |adapter| {
            adapter.reregister_memory(self.key, flags, domain, (address, length), access)?;
            // Requests call memory of a program elsewhere by the addresses that it has there.
            if flags & reregister::TRANSLATION != 0
                && let Some(state) = adapter.regions.get_mut(self.key)
            {
                state.region.first = Owner::plain(state.region.first);
            }
            Ok(())
        })
    }

    /// That of a key on a host, by whichever of its adapters; of one that names nothing every call
    /// says so.
    #[must_use]
    pub fn of(process: &Process, key: Key) -> Self {
        let process = process.at_adapter_of(key.to_bits());
        let mut cluster = process.lock();
        let adapter = Hosted::adapter(&mut cluster, process.place());
        let region = adapter.regions.get(key);
        let memory_key = region.map_or(0, |region| region.key);
        drop(cluster);
        Self {
            process,
            key,
            memory_key,
        }
    }

    /// By what it is named among those of its host, of all adapters.
    #[must_use]
    pub const fn key(&self) -> Key {
        self.key
    }

    /// Closes the memory to requests.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn deregister(&self) -> Result<()> {
        call(&self.process, |adapter| adapter.deregister_memory(self.key))
    }
}

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

    /// A piece of it, for requests. Where it ends past the buffer requests are refused.
    #[must_use]
    pub fn element(&self, from: usize, length: u32) -> ScatterGatherElement {
        ScatterGatherElement {
            address: self.address() + from as u64,
            length,
            local_key: self.memory_key(),
        }
    }

    fn check(&self, from: usize, length: usize) -> *mut u8 {
        let is_inside = from
            .checked_add(length)
            .is_some_and(|end| end <= self.bytes);
        assert!(
            is_inside,
            "{length} bytes from {from} on are not inside a buffer of {}",
            self.bytes
        );
        self.memory
            .as_ptr()
            .cast::<u8>()
            .wrapping_add(from)
            .cast_mut()
    }

    /// Writes bytes from an offset on.
    ///
    /// # Panics
    ///
    /// Past its end.
    pub fn write(&self, from: usize, bytes: &[u8]) {
        let to = self.check(from, bytes.len());
        let _locked = self.region.process.lock();
        // SAFETY: inside, and under the lock.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Looks at the bytes until there is something to see, in a loop; `None` when the time is over,
    /// or when the program cannot wait. `look` must not use the simulation: it would wait for
    /// itself.
    pub fn poll<T>(
        &self,
        limit: Option<Duration>,
        mut look: impl FnMut(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let start = self.check(0, self.bytes);
        self.region.process.poll_memory(limit, |_| {
            // SAFETY: the buffer's own memory, looked at under the lock, in which nobody writes.
            look(unsafe { std::slice::from_raw_parts(start, self.bytes) })
        })
    }

    /// A copy of bytes from an offset on.
    ///
    /// # Panics
    ///
    /// Past its end.
    #[must_use]
    pub fn read(&self, from: usize, length: usize) -> Vec<u8> {
        let start = self.check(from, length);
        let mut bytes = vec![0; length];
        let _locked = self.region.process.lock();
        // SAFETY: inside, and under the lock.
        unsafe { std::ptr::copy_nonoverlapping(start, bytes.as_mut_ptr(), length) };
        bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let host = self.region.process.place();
        let mut cluster = self.region.process.lock();
        // It may be gone with its context.
        let _ = Hosted::adapter(&mut cluster, host).deregister_memory(self.region.key);
    }
}
