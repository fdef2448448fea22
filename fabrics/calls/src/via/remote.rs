//! The operations of VIA, of a host that is elsewhere.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use viaduct_core::{
    Address, HostAddress, MemoryAttributes, MemoryHandle, NicAttributes, ProtectionTag, Queue,
    RemoteViAttributes, ViAttributes,
};
use viaduct_provider::{
    AsynchronousError, CompletionEntry, CompletionHandler, CompletionQueueHandle, ConnectionHandle,
    Descriptor, DescriptorHandler, Done, Error, ErrorHandler, IncomingRequest, NicHandle, Provider,
    Result, ReturnCode, ViHandle, ViInformation,
};

use super::{Failed, Found, Request, Told};
use crate::asking::{self, Line};
use crate::wire::Wire;

/// The adapter of the program's host.
///
/// What waits for something calls it for as long, and nobody else is kept from calling meanwhile:
/// nothing here is locked during a call. Handlers are called by a thread that the first opened NIC
/// has started.
#[derive(Clone, Copy)]
pub struct Remote {
    line: &'static dyn Line,
    state: &'static Mutex<State>,
}

/// What the program has that nobody else needs to know.
#[derive(Default)]
struct State {
    error_handlers: BTreeMap<NicHandle, ErrorHandler>,
    handlers: BTreeMap<u64, Handler>,
    handlers_made: u64,
    /// Memory of [`Provider::allocate_shared`], by address.
    blocks: BTreeMap<usize, Layout>,
    /// Where registered memory lies.
    regions: BTreeMap<(NicHandle, u32), Range<usize>>,
    /// The tags of memory that is registered without attributes.
    default_tags: BTreeMap<NicHandle, ProtectionTag>,
    /// NICs whose VIs may have tag 0: these have the default tag, which may use every region.
    any_tags: BTreeSet<NicHandle>,
    /// Whether there is a thread that calls handlers.
    is_calling: bool,
}

enum Handler {
    Descriptor(DescriptorHandler),
    Entry(CompletionHandler),
}

impl fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Remote").finish_non_exhaustive()
    }
}

fn invalid(reason: &'static str) -> Error {
    Error::new(ReturnCode::InvalidParameter, reason)
}

fn pointer(address: u64) -> Option<NonNull<Descriptor>> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(address as usize))
}

fn address_of<T>(pointer: *mut T) -> u64 {
    pointer.expose_provenance() as u64
}

impl Remote {
    /// The one at the other end. What is kept of it here lives as long as the process.
    #[must_use]
    pub fn at(line: &'static dyn Line) -> Self {
        let state = Box::leak(Box::default());
        Self { line, state }
    }

    fn ask<T: Wire>(&self, asked: &Request) -> Result<T> {
        let (mut bytes, mut answer) = (Vec::new(), Vec::new());
        asked.put(&mut bytes);
        self.line.call(asked.name(), &bytes, &mut answer);
        asking::answer(&answer)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one insertion or removal: a panic in between leaves maps whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a handler called when what it waits for has come: `asked` says for what.
    fn expect(&self, handler: Handler, asked: impl FnOnce(u64) -> Request) -> Result<()> {
        let number = {
            let mut state = self.lock();
            state.handlers_made += 1;
            let number = state.handlers_made;
            state.handlers.insert(number, handler);
            number
        };
        let result = self.ask(&asked(number));
        if result.is_err() {
            // Dropped without the lock: it may hold anything.
            let refused = self.lock().handlers.remove(&number);
            drop(refused);
        }
        result
    }

    /// Starts the thread that calls handlers, unless it runs already.
    fn start(&self) -> Result<()> {
        if std::mem::replace(&mut self.lock().is_calling, true) {
            return Ok(());
        }
        let remote = *self;
        let thread = thread::Builder::new().name("viaduct-handlers".to_owned());
        let started = thread.spawn(move || remote.call_handlers());
        started.map(drop).map_err(|error| {
            self.lock().is_calling = false;
            let reason = format!("no thread to call handlers from: {error}");
            Error::new(ReturnCode::Resource, reason)
        })
    }

    /// Calls handlers, for as long as somebody says which.
    fn call_handlers(&self) {
        while let Ok(told) = self.ask(&Request::NextCall) {
            self.call_handler(told);
        }
    }

    fn call_handler(&self, told: Told) {
        match told {
            Told::Error(failed) => {
                // It is looked for now: it may have been replaced meanwhile.
                let handler = self.lock().error_handlers.get(&failed.nic).cloned();
                let error = asynchronous(&failed);
                match handler {
                    Some(handler) => handler(&error),
                    None => eprintln!("viaduct: NIC {}: {}", failed.nic.bits(), failed.code),
                }
            }
            Told::Descriptor {
                handler,
                nic,
                vi,
                address,
            } => {
                let handler = self.lock().handlers.remove(&handler);
                if let (Some(Handler::Descriptor(handler)), Some(descriptor)) =
                    (handler, pointer(address))
                {
                    handler(nic, vi, descriptor);
                }
            }
            Told::Entry {
                handler,
                nic,
                entry,
            } => {
                let handler = self.lock().handlers.remove(&handler);
                if let Some(Handler::Entry(handler)) = handler {
                    handler(nic, entry);
                }
            }
            Told::Forgotten { handler } => {
                let forgotten = self.lock().handlers.remove(&handler);
                drop(forgotten);
            }
        }
    }

    /// Whether VIs of tag 0 may use every region, for programs that mix tags up. Off by default.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for a NIC that is not open.
    pub fn set_any_tag(&self, nic: NicHandle, enabled: bool) -> Result<()> {
        let tag = match enabled {
            true => Some(self.default_protection_tag(nic)?),
            false => None,
        };
        self.ask::<()>(&Request::SetAnyTag { nic, tag })?;
        let mut state = self.lock();
        if enabled {
            state.any_tags.insert(nic);
        } else {
            // Those that have the tag keep it.
            state.any_tags.remove(&nic);
        }
        Ok(())
    }

    /// The tag of memory that is registered without attributes.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for a NIC that is not open.
    pub fn default_protection_tag(&self, nic: NicHandle) -> Result<ProtectionTag> {
        let made = self.lock().default_tags.get(&nic).copied();
        if let Some(tag) = made {
            return Ok(tag);
        }
        let tag = self.create_protection_tag(nic)?;
        Ok(*self.lock().default_tags.entry(nic).or_insert(tag))
    }

    /// The tag of what is made on a NIC with this one: tag 0 is the default one, where VIs may have
    /// it.
    fn tag(&self, nic: NicHandle, asked: ProtectionTag) -> ProtectionTag {
        if asked.bits() != 0 {
            return asked;
        }
        let state = self.lock();
        let default = state.default_tags.get(&nic);
        let default = default.filter(|_| state.any_tags.contains(&nic));
        default.copied().unwrap_or(asked)
    }

    fn done(&self, vi: ViHandle, queue: Queue) -> Result<Done> {
        self.ask(&Request::Done { vi, queue }).map(done)
    }

    fn wait(&self, vi: ViHandle, queue: Queue, limit: Option<Duration>) -> Result<Done> {
        self.ask(&Request::Wait { vi, queue, limit }).map(done)
    }

    fn post(
        &self,
        vi: ViHandle,
        queue: Queue,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        let descriptor = address_of(descriptor);
        self.ask(&Request::Post {
            vi,
            queue,
            descriptor,
            handle,
        })
    }
}

fn done(found: Found) -> Done {
    match found {
        Found::NotDone => Done::NotDone,
        Found::Empty => Done::Empty,
        Found::Descriptor { address, is_error } => match pointer(address) {
            Some(descriptor) if is_error => Done::Failed(descriptor),
            Some(descriptor) => Done::Complete(descriptor),
            None => Done::Empty,
        },
    }
}

fn asynchronous(failed: &Failed) -> AsynchronousError {
    AsynchronousError {
        nic: failed.nic,
        vi: failed.vi,
        completion_queue: failed.completion_queue,
        descriptor: failed.address.and_then(pointer),
        operation: failed.operation,
        resource: failed.code.resource(),
        code: failed.code,
    }
}

// SAFETY: descriptors that are handed out are those that were posted, as whoever carries the calls
// out says of them: it is an agent, and keeps the contract. It reads and writes memory of this
// process where regions are registered, while a call waits or a descriptor is posted.
unsafe impl Provider for Remote {
    fn open_nic(&self, device: &str) -> Result<NicHandle> {
        let device = device.to_owned();
        let nic = self.ask(&Request::OpenNic { device })?;
        if let Err(error) = self.start() {
            let _ = self.close_nic(nic);
            return Err(error);
        }
        Ok(nic)
    }

    fn close_nic(&self, nic: NicHandle) -> Result<()> {
        self.ask::<()>(&Request::CloseNic { nic })?;
        let mut state = self.lock();
        state.regions.retain(|(of, _), _| *of != nic);
        state.default_tags.remove(&nic);
        state.any_tags.remove(&nic);
        let gone = state.error_handlers.remove(&nic);
        drop(state);
        // Without the lock: it may hold anything.
        drop(gone);
        Ok(())
    }

    fn query_nic(&self, nic: NicHandle) -> Result<(Arc<NicAttributes>, HostAddress)> {
        self.ask(&Request::QueryNic { nic })
    }

    fn create_vi(
        &self,
        nic: NicHandle,
        attributes: &ViAttributes,
        send_completions: Option<CompletionQueueHandle>,
        receive_completions: Option<CompletionQueueHandle>,
    ) -> Result<ViHandle> {
        let attributes = ViAttributes {
            tag: self.tag(nic, attributes.tag),
            ..*attributes
        };
        self.ask(&Request::CreateVi {
            nic,
            attributes,
            completions: (send_completions, receive_completions),
        })
    }

    fn destroy_vi(&self, vi: ViHandle) -> Result<()> {
        self.ask(&Request::DestroyVi { vi })
    }

    fn query_vi(&self, vi: ViHandle) -> Result<ViInformation> {
        self.ask(&Request::QueryVi { vi })
    }

    fn set_vi_attributes(&self, vi: ViHandle, attributes: &ViAttributes) -> Result<()> {
        let mut attributes = *attributes;
        if attributes.tag.bits() == 0 && !self.lock().any_tags.is_empty() {
            let own = self.query_vi(vi)?.attributes.tag;
            if self.lock().default_tags.values().any(|tag| *tag == own) {
                attributes.tag = own;
            }
        }
        self.ask(&Request::SetViAttributes { vi, attributes })
    }

    fn connect_wait(
        &self,
        nic: NicHandle,
        local: &Address,
        limit: Option<Duration>,
    ) -> Result<IncomingRequest> {
        let local = local.clone();
        self.ask(&Request::ConnectWait { nic, local, limit })
    }

    fn connect_accept(&self, connection: ConnectionHandle, vi: ViHandle) -> Result<()> {
        self.ask(&Request::ConnectAccept { connection, vi })
    }

    fn connect_reject(&self, connection: ConnectionHandle) -> Result<()> {
        self.ask(&Request::ConnectReject { connection })
    }

    fn connect_request(
        &self,
        vi: ViHandle,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes> {
        let (local, remote) = (local.clone(), remote.clone());
        self.ask(&Request::ConnectRequest {
            vi,
            local,
            remote,
            limit,
        })
    }

    fn disconnect(&self, vi: ViHandle) -> Result<()> {
        self.ask(&Request::Disconnect { vi })
    }

    fn connect_peer_request(
        &self,
        vi: ViHandle,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<()> {
        let (local, remote) = (local.clone(), remote.clone());
        self.ask(&Request::ConnectPeerRequest {
            vi,
            local,
            remote,
            limit,
        })
    }

    fn connect_peer_done(&self, vi: ViHandle) -> Result<Option<RemoteViAttributes>> {
        self.ask(&Request::ConnectPeerDone { vi })
    }

    fn connect_peer_wait(&self, vi: ViHandle) -> Result<RemoteViAttributes> {
        self.ask(&Request::ConnectPeerWait { vi })
    }

    fn create_protection_tag(&self, nic: NicHandle) -> Result<ProtectionTag> {
        self.ask(&Request::CreateTag { nic })
    }

    fn destroy_protection_tag(&self, nic: NicHandle, tag: ProtectionTag) -> Result<()> {
        self.ask(&Request::DestroyTag { nic, tag })
    }

    unsafe fn register_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        length: usize,
        attributes: &MemoryAttributes,
    ) -> Result<MemoryHandle> {
        let first = address_of(address);
        let attributes = MemoryAttributes {
            tag: self.tag(nic, attributes.tag),
            ..*attributes
        };
        let handle: MemoryHandle = self.ask(&Request::RegisterMemory {
            nic,
            address: first,
            length: length as u64,
            attributes,
        })?;
        let range = address.addr()..address.addr().saturating_add(length);
        self.lock().regions.insert((nic, handle.bits()), range);
        Ok(handle)
    }

    fn deregister_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<()> {
        let address = address_of(address);
        self.ask::<()>(&Request::DeregisterMemory {
            nic,
            address,
            handle,
        })?;
        self.lock().regions.remove(&(nic, handle.bits()));
        Ok(())
    }

    fn query_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<MemoryAttributes> {
        let address = address_of(address);
        self.ask(&Request::QueryMemory {
            nic,
            address,
            handle,
        })
    }

    fn set_memory_attributes(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
        attributes: &MemoryAttributes,
    ) -> Result<()> {
        let address = address_of(address);
        let attributes = MemoryAttributes {
            tag: self.tag(nic, attributes.tag),
            ..*attributes
        };
        self.ask(&Request::SetMemoryAttributes {
            nic,
            address,
            handle,
            attributes,
        })
    }

    unsafe fn post_send(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        self.post(vi, Queue::Send, descriptor, handle)
    }

    unsafe fn post_receive(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        self.post(vi, Queue::Receive, descriptor, handle)
    }

    fn send_done(&self, vi: ViHandle) -> Result<Done> {
        self.done(vi, Queue::Send)
    }

    fn receive_done(&self, vi: ViHandle) -> Result<Done> {
        self.done(vi, Queue::Receive)
    }

    fn send_wait(&self, vi: ViHandle, limit: Option<Duration>) -> Result<Done> {
        self.wait(vi, Queue::Send, limit)
    }

    fn receive_wait(&self, vi: ViHandle, limit: Option<Duration>) -> Result<Done> {
        self.wait(vi, Queue::Receive, limit)
    }

    fn send_notify(&self, vi: ViHandle, handler: DescriptorHandler) -> Result<()> {
        let queue = Queue::Send;
        self.expect(Handler::Descriptor(handler), |handler| Request::Notify {
            vi,
            queue,
            handler,
        })
    }

    fn receive_notify(&self, vi: ViHandle, handler: DescriptorHandler) -> Result<()> {
        let queue = Queue::Receive;
        self.expect(Handler::Descriptor(handler), |handler| Request::Notify {
            vi,
            queue,
            handler,
        })
    }

    fn create_completion_queue(
        &self,
        nic: NicHandle,
        entries: u32,
    ) -> Result<CompletionQueueHandle> {
        self.ask(&Request::CreateQueue { nic, entries })
    }

    fn destroy_completion_queue(&self, queue: CompletionQueueHandle) -> Result<()> {
        self.ask(&Request::DestroyQueue { queue })
    }

    fn resize_completion_queue(&self, queue: CompletionQueueHandle, entries: u32) -> Result<()> {
        self.ask(&Request::ResizeQueue { queue, entries })
    }

    fn completion_done(&self, queue: CompletionQueueHandle) -> Result<Option<CompletionEntry>> {
        self.ask(&Request::EntryDone { queue })
    }

    fn completion_wait(
        &self,
        queue: CompletionQueueHandle,
        limit: Option<Duration>,
    ) -> Result<CompletionEntry> {
        self.ask(&Request::EntryWait { queue, limit })
    }

    fn completion_notify(
        &self,
        queue: CompletionQueueHandle,
        handler: CompletionHandler,
    ) -> Result<()> {
        self.expect(Handler::Entry(handler), |handler| Request::EntryNotify {
            queue,
            handler,
        })
    }

    fn set_error_handler(&self, nic: NicHandle, handler: Option<ErrorHandler>) -> Result<()> {
        self.query_nic(nic)?;
        let mut state = self.lock();
        let former = match handler {
            Some(handler) => state.error_handlers.insert(nic, handler),
            None => state.error_handlers.remove(&nic),
        };
        drop(state);
        // Without the lock: it may hold anything.
        drop(former);
        Ok(())
    }

    fn host_by_name(&self, nic: NicHandle, name: &str, index: u32) -> Result<HostAddress> {
        let name = name.to_owned();
        self.ask(&Request::HostByName { nic, name, index })
    }

    fn host_by_address(&self, nic: NicHandle, address: HostAddress) -> Result<String> {
        self.ask(&Request::HostByAddress { nic, address })
    }

    fn discover(&self, nic: NicHandle, hops: u32) -> Result<Vec<HostAddress>> {
        self.ask(&Request::Discover { nic, hops })
    }

    fn allocate_shared(&self, nic: NicHandle, length: usize) -> Result<NonNull<u8>> {
        self.query_nic(nic)?;
        let layout = Layout::from_size_align(length.max(1), 4096).map_err(|_| {
            let reason = format!("{length} bytes are more than a process can have at once");
            Error::new(ReturnCode::Resource, reason)
        })?;
        // SAFETY: the layout has a size.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| {
            let reason = format!("no {length} bytes of memory are left");
            Error::new(ReturnCode::Resource, reason)
        })?;
        self.lock().blocks.insert(block.addr().get(), layout);
        Ok(block)
    }

    unsafe fn free_shared(&self, nic: NicHandle, address: NonNull<u8>) -> Result<()> {
        self.query_nic(nic)?;
        let mut state = self.lock();
        let start = address.addr().get();
        let Some(layout) = state.blocks.get(&start).copied() else {
            return Err(invalid("the memory was not allocated by this fabric"));
        };
        let end = start + layout.size();
        let mut regions = state.regions.values();
        if regions.any(|region| region.start < end && region.end > start) {
            let reason = "the memory is registered: deregister it first";
            return Err(Error::new(ReturnCode::Resource, reason));
        }
        state.blocks.remove(&start);
        drop(state);
        // SAFETY: it was allocated with this layout, and the caller says that nothing uses it.
        unsafe { dealloc(address.as_ptr(), layout) };
        Ok(())
    }

    fn set_flow_control(&self, vi: ViHandle, enabled: bool) -> Result<()> {
        let is_enabled = enabled;
        self.ask(&Request::SetFlowControl { vi, is_enabled })
    }

    fn set_request_splitting(&self, vi: ViHandle, enabled: bool) -> Result<()> {
        let is_enabled = enabled;
        self.ask(&Request::SetRequestSplitting { vi, is_enabled })
    }
}
