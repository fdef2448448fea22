//! An open NIC and the memory and VIs on it, by the operations of the fabric.

use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use viaduct_provider::via::{
    Address, HostAddress, MemoryAttributes, MemoryHandle, NicAttributes, ProtectionTag,
    ReliabilityLevel, ViAttributes,
};
use viaduct_provider::{
    CompletionQueueHandle, ErrorHandler, Memory, NicHandle, Provider, ReturnCode, ViHandle,
};

use crate::error::{Doing, MeasureError, Result};
use crate::host::Host;
use crate::patience::PATIENCE;

/// An open NIC; closed when dropped.
#[derive(Debug)]
pub(crate) struct Session<'p, P: Provider> {
    pub(crate) provider: &'p P,
    pub(crate) nic: NicHandle,
    pub(crate) tag: ProtectionTag,
    pub(crate) host: HostAddress,
    pub(crate) attributes: Arc<NicAttributes>,
}

impl<'p, P: Provider> Session<'p, P> {
    pub(crate) fn open(provider: &'p P, device: &str) -> Result<Self> {
        let nic = provider.open_nic(device).doing("opening the NIC")?;
        let (attributes, host) = provider
            .query_nic(nic)
            .doing("asking for the NIC's limits")?;
        // Every row ends with a lost connection: that is no news. Others come with a descriptor.
        let ignore: ErrorHandler = Arc::new(|_| ());
        provider
            .set_error_handler(nic, Some(ignore))
            .doing("setting an error handler")?;
        let tag = provider
            .create_protection_tag(nic)
            .doing("making a protection tag")?;
        Ok(Self {
            provider,
            nic,
            tag,
            host,
            attributes,
        })
    }

    pub(crate) fn create_vi(
        &self,
        level: ReliabilityLevel,
        receive_completions: Option<CompletionQueueHandle>,
    ) -> Result<ViHandle> {
        let mut attributes = ViAttributes::unreliable(self.tag, self.attributes.max_transfer_bytes);
        attributes.reliability = level;
        self.provider
            .create_vi(self.nic, &attributes, None, receive_completions)
            .doing("making a VI")
    }

    /// Asks for a connection until somebody listens.
    pub(crate) fn connect(
        &self,
        vi: ViHandle,
        local: &[u8],
        remote: &Address,
        host: &impl Host,
    ) -> viaduct_provider::Result<()> {
        const PAUSE: Duration = Duration::from_micros(100);

        let local = Address::new(self.host, local);
        let start_ns = host.now_ns();
        loop {
            let asked = self
                .provider
                .connect_request(vi, &local, remote, Some(PATIENCE));
            match asked {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == ReturnCode::NoMatch => {
                    let waited = host.now_ns() - start_ns;
                    if waited > PATIENCE.as_nanos() as u64 || host.stop_reason().is_some() {
                        return Err(error);
                    }
                    host.sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl<P: Provider> Drop for Session<'_, P> {
    fn drop(&mut self) {
        // It takes along whatever else it may say.
        let _ = self.provider.close_nic(self.nic);
    }
}

/// Registered memory; dropped, it is given back.
#[derive(Debug)]
pub(crate) struct Block<'s, P: Provider> {
    session: &'s Session<'s, P>,
    pub(crate) address: NonNull<u8>,
    pub(crate) length: usize,
    pub(crate) handle: MemoryHandle,
    origin: Origin,
}

#[derive(Clone, Copy, Debug)]
enum Origin {
    Shared,
    Private(Layout),
}

impl<'s, P: Provider> Block<'s, P> {
    /// At least one byte, zeroed, at the beginning of a page.
    pub(crate) fn new(session: &'s Session<'s, P>, length: usize, memory: Memory) -> Result<Self> {
        const PAGE_BYTES: usize = 4096;

        let length = length.max(64);
        let too_much = || MeasureError::Impossible {
            reason: format!(
                "{length} bytes of memory cannot be allocated; ask for smaller messages"
            ),
        };
        let (address, origin) = match memory {
            Memory::Shared => {
                let address = session
                    .provider
                    .allocate_shared(session.nic, length)
                    .doing("allocating shared memory (--private does without)")?;
                (address, Origin::Shared)
            }
            Memory::Private => {
                let layout = Layout::from_size_align(length, PAGE_BYTES).map_err(|_| too_much())?;
                // SAFETY: the length is not 0.
                let address = unsafe { alloc::alloc(layout) };
                let address = NonNull::new(address).ok_or_else(too_much)?;
                (address, Origin::Private(layout))
            }
        };
        // SAFETY: fresh memory of that length. Written, so that its pages are there before
        // anything is timed.
        unsafe { address.as_ptr().write_bytes(0, length) };
        let attributes = MemoryAttributes::local(session.tag);
        // SAFETY: it stays until `Drop` deregisters it.
        let handle = unsafe {
            session
                .provider
                .register_memory(session.nic, address.as_ptr(), length, &attributes)
        };
        let handle = handle.doing("registering memory")?;
        Ok(Self {
            session,
            address,
            length,
            handle,
            origin,
        })
    }
}

impl<P: Provider> Drop for Block<'_, P> {
    fn drop(&mut self) {
        let Session { provider, nic, .. } = self.session;
        let ended = provider.deregister_memory(*nic, self.address.as_ptr(), self.handle);
        if ended.is_err() {
            // The fabric may still reach it: it stays.
            return;
        }
        match self.origin {
            // SAFETY: allocated in `new`, and not registered any more.
            Origin::Shared => drop(unsafe { provider.free_shared(*nic, self.address) }),
            // SAFETY: as above.
            Origin::Private(layout) => unsafe { alloc::dealloc(self.address.as_ptr(), layout) },
        }
    }
}
