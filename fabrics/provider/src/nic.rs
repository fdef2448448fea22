//! The NIC: where everything else is made.

use std::fmt;
use std::sync::Arc;

use viaduct_core::{Address, HostAddress, MemoryAttributes, NicAttributes, ProtectionTag};

use crate::buffer::Buffer;
use crate::completion_queue::CompletionQueue;
use crate::counts::Counts;
use crate::error::{Error, Result, ReturnCode};
use crate::listener::Listener;
use crate::provider::{ErrorHandler, NicHandle, Provider};
use crate::reference::Fabric;
use crate::region::{Memory, Region, RegionOwner};
use crate::vi::ViBuilder;
use crate::window::{Access, Window};

/// An open NIC, and one protection tag: its VIs reach the memory that was made on it.
///
/// Open the NIC twice to keep two sets apart. It closes when it and all that was made on it are
/// dropped.
pub struct Nic<P: Provider> {
    shared: Arc<NicShared<P>>,
}

pub(crate) struct NicShared<P: Provider> {
    pub(crate) fabric: Fabric<P>,
    pub(crate) handle: NicHandle,
    pub(crate) tag: ProtectionTag,
    pub(crate) host: HostAddress,
    pub(crate) attributes: Arc<NicAttributes>,
}

impl<P: Provider> Nic<P> {
    /// Opens a NIC of a fabric, given as `&'static P` or `Arc<P>`, by the name of its device.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::InvalidParameter`] for a name that the fabric does not have.
    pub fn open(fabric: impl Into<Fabric<P>>, device: &str) -> Result<Self> {
        let fabric = fabric.into();
        let handle = fabric.open_nic(device)?;
        let prepare = || {
            let (attributes, host) = fabric.query_nic(handle)?;
            Ok((attributes, host, fabric.create_protection_tag(handle)?))
        };
        match prepare() {
            Ok((attributes, host, tag)) => Ok(Self {
                shared: Arc::new(NicShared {
                    fabric,
                    handle,
                    tag,
                    host,
                    attributes,
                }),
            }),
            Err(error) => {
                // The first error is the one to tell.
                let _ = fabric.close_nic(handle);
                Err(error)
            }
        }
    }

    /// Its limits.
    #[must_use]
    pub fn attributes(&self) -> &NicAttributes {
        &self.shared.attributes
    }

    /// Its host.
    #[must_use]
    pub fn host(&self) -> HostAddress {
        self.shared.host
    }

    /// An endpoint of its own host.
    #[must_use]
    pub fn address(&self, discriminator: &[u8]) -> Address {
        Address::new(self.shared.host, discriminator)
    }

    /// An endpoint of a host that the name service knows.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::NameService`] for a name it does not know.
    pub fn resolve(&self, host: &str, discriminator: &[u8]) -> Result<Address> {
        self.resolve_at(host, 0, discriminator)
    }

    /// As [`Nic::resolve`], at the address of another NIC of the host: its first has index 0.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::NameService`] for a name it does not know, or if it has no such address.
    pub fn resolve_at(&self, host: &str, index: u32, discriminator: &[u8]) -> Result<Address> {
        let fabric = &self.shared.fabric;
        let host = fabric.host_by_name(self.shared.handle, host, index)?;
        Ok(Address::new(host, discriminator))
    }

    /// Its handle, for the operations of [`Provider`] that have no safe form.
    #[must_use]
    pub fn handle(&self) -> NicHandle {
        self.shared.handle
    }

    /// What it has counted of its traffic since it was opened.
    ///
    /// # Errors
    ///
    /// As [`Provider::counts`].
    pub fn counts(&self) -> Result<Counts> {
        self.shared.fabric.counts(self.shared.handle)
    }

    /// The tag of its VIs and memory.
    #[must_use]
    pub fn tag(&self) -> ProtectionTag {
        self.shared.tag
    }

    /// `count` buffers of `bytes` bytes each, zeroed, in one registration; each begins at a
    /// multiple of 64.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::InvalidParameter`] for buffers of no bytes or of more than 4 GiB - 1,
    /// [`ReturnCode::Resource`] when there is not so much memory.
    pub fn buffers(&self, count: usize, bytes: usize, memory: Memory) -> Result<Vec<Buffer>> {
        const ALIGNMENT: usize = 64;

        if count == 0 {
            return Ok(Vec::new());
        }
        let (Ok(length), Some(total)) = (
            u32::try_from(bytes),
            bytes
                .checked_next_multiple_of(ALIGNMENT)
                .and_then(|stride| stride.checked_mul(count)),
        ) else {
            let reason = format!("{count} buffers of {bytes} bytes are more than can be had");
            return Err(Error::new(ReturnCode::InvalidParameter, reason));
        };
        let attributes = MemoryAttributes::local(self.shared.tag);
        let region = Arc::new(Region::new(&self.shared, total, memory, &attributes)?);
        let (first, handle) = (region.address(), region.handle());
        let region: Arc<dyn RegionOwner> = region;
        let buffer = |index: usize| {
            // SAFETY: the region has `count` strides.
            let address = unsafe { first.add(index * (total / count)) };
            // SAFETY: a stride is not shorter than `length`; each index is used once; peers have
            // no right to the region.
            unsafe { Buffer::new(address, length, handle, Arc::clone(&region)) }
        };
        Ok((0..count).map(buffer).collect())
    }

    /// One buffer; see [`Nic::buffers`].
    ///
    /// # Errors
    ///
    /// Those of [`Nic::buffers`].
    pub fn buffer(&self, bytes: usize, memory: Memory) -> Result<Buffer> {
        let mut buffers = self.buffers(1, bytes, memory)?;
        Ok(buffers.pop().unwrap_or_else(Buffer::empty))
    }

    /// Memory that peers may reach through VIs that allow it too.
    ///
    /// # Errors
    ///
    /// As [`Nic::buffers`]; [`ReturnCode::InvalidRdmaRead`] if the NIC cannot be read from.
    pub fn window(&self, bytes: usize, access: Access, memory: Memory) -> Result<Window<P>> {
        if u32::try_from(bytes).is_err() {
            let reason = format!("a window of {bytes} bytes is asked for; 4 GiB - 1 can be had");
            return Err(Error::new(ReturnCode::InvalidParameter, reason));
        }
        let mut attributes = MemoryAttributes::local(self.shared.tag);
        attributes.rdma_write = access.is_write();
        attributes.rdma_read = access.is_read();
        let region = Region::new(&self.shared, bytes, memory, &attributes)?;
        Ok(Window::new(region, bytes))
    }

    /// A VI, to be described further.
    pub fn vi(&self) -> ViBuilder<P> {
        ViBuilder::new(Arc::clone(&self.shared))
    }

    /// A queue of completions for up to `entries` of them.
    ///
    /// # Errors
    ///
    /// As [`Provider::create_completion_queue`].
    pub fn completion_queue(&self, entries: u32) -> Result<CompletionQueue<P>> {
        CompletionQueue::new(&self.shared, entries)
    }

    /// Listens for connections to an endpoint of this host.
    #[must_use]
    pub fn listen(&self, discriminator: &[u8]) -> Listener<P> {
        Listener::new(Arc::clone(&self.shared), self.address(discriminator))
    }

    /// Sets what is called for errors that no descriptor tells of; `None` brings back the log.
    ///
    /// # Errors
    ///
    /// As [`Provider::set_error_handler`].
    pub fn set_error_handler(&self, handler: Option<ErrorHandler>) -> Result<()> {
        self.shared
            .fabric
            .set_error_handler(self.shared.handle, handler)
    }
}

impl<P: Provider> Drop for NicShared<P> {
    fn drop(&mut self) {
        // Everything that was made on it is gone: neither can fail for a reason that matters.
        let _ = self.fabric.destroy_protection_tag(self.handle, self.tag);
        let _ = self.fabric.close_nic(self.handle);
    }
}

impl<P: Provider> fmt::Debug for NicShared<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NicShared")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl<P: Provider> fmt::Debug for Nic<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Nic")
            .field("handle", &self.shared.handle)
            .field("host", &self.shared.host)
            .finish_non_exhaustive()
    }
}
