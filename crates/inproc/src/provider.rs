//! The operations, one by one: lock, look up, do, carry what follows from it, unlock.

use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use viaduct_fabric::via::names::NameTable;
use viaduct_fabric::via::{
    Address, Extensions, HostAddress, MemoryAttributes, MemoryHandle, Nic, NicAttributes,
    ProtectionTag, Queue, RemoteViAttributes, ViAttributes,
};
use viaduct_fabric::{
    CompletionEntry, CompletionHandler, CompletionQueueHandle, ConnectionHandle, Descriptor,
    DescriptorHandler, Done, Error, ErrorHandler, IncomingRequest, NicHandle, Provider, Result,
    ReturnCode, ViHandle, ViInformation,
};

use crate::handlers::work;
use crate::memory::SharedBlock;
use crate::refusal::{OrRefuse, dead};
use crate::shared::Shared;
use crate::state::{Attempt, CompletionQueue, Device, OpenNic, Region, State, Vi, WorkQueue};

/// A fabric inside this process, with one NIC or several.
///
/// Its devices are called `inproc0`, `inproc1` and so on, as are the hosts of its name service.
/// Two fabrics know nothing of each other. Dropping it ends its thread; memory of
/// [`Provider::allocate_shared`] lives until then at the latest.
pub struct InProcess {
    pub(crate) shared: Arc<Shared>,
    names: NameTable,
    /// Calls handlers; started when the first NIC is opened.
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for InProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names.iter().map(|(name, _)| name).collect();
        formatter
            .debug_struct("InProcess")
            .field("devices", &names)
            .finish_non_exhaustive()
    }
}

impl Default for InProcess {
    fn default() -> Self {
        Self::new()
    }
}

impl InProcess {
    /// With one NIC, `inproc0`.
    #[must_use]
    pub fn new() -> Self {
        Self::with_nics(1, NicAttributes::default())
    }

    /// With so many NICs of these attributes. Each is called by its device's name; what the
    /// attributes say of a name is not used.
    #[must_use]
    pub fn with_nics(count: u32, attributes: NicAttributes) -> Self {
        let mut names = NameTable::new();
        let devices = (0..count)
            .map(|index| {
                let name = format!("inproc{index}");
                // Six bytes, as in Ethernet's locally administered range.
                let address = HostAddress::new(0x0200_0000_0001 + u64::from(index));
                // Neither the name nor the address was there before.
                let _ = names.insert(&name, address);
                let attributes = Arc::new(NicAttributes {
                    name: name.as_str().into(),
                    ..attributes.clone()
                });
                Device::new(name, address, Nic::new(attributes.clone()), attributes)
            })
            .collect();
        Self {
            shared: Arc::new(Shared::new(State::new(devices))),
            names,
            worker: Mutex::new(None),
        }
    }

    fn start_worker(&self) -> Result<()> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("viaduct-handlers".to_owned());
            let started = thread.spawn(move || work(&shared)).map_err(|error| {
                let reason = format!("the thread that calls handlers could not start: {error}");
                Error::new(ReturnCode::Resource, reason)
            })?;
            *worker = Some(started);
        }
        Ok(())
    }

    fn change_extensions(
        &self,
        vi: ViHandle,
        change: fn(&mut Extensions, bool),
        to: bool,
    ) -> Result<()> {
        self.shared.operate(None, |state, _| {
            let (vi, device) = state.vi_and_nic(vi)?;
            let mut attributes = device.nic.query_vi(vi.id).or_refuse()?.attributes;
            change(&mut attributes.extensions, to);
            device.nic.set_vi_attributes(vi.id, attributes).or_refuse()
        })
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.shared.close();
        let worker = self
            .worker
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = worker.take()
            && worker.thread().id() != std::thread::current().id()
        {
            // A handler that panicked has said so.
            let _ = worker.join();
        }
    }
}

// SAFETY: `via::Nic` completes each descriptor once, and bytes are moved under the lock that posts,
// completes and deregisters take.
unsafe impl Provider for InProcess {
    fn open_nic(&self, device: &str) -> Result<NicHandle> {
        self.start_worker()?;
        self.shared.operate(None, |state, _| {
            let found = state.devices.iter().position(|d| d.name == device);
            let Some(index) = found else {
                let names: Vec<_> = state.devices.iter().map(|d| d.name.as_str()).collect();
                let reason = format!("no device {device:?}; there is {}", names.join(", "));
                return Err(Error::new(ReturnCode::InvalidParameter, reason));
            };
            let handle = state.next_handle(NicHandle::from_bits);
            state.nics.insert(handle, OpenNic::new(index));
            Ok(handle)
        })
    }

    fn close_nic(&self, nic: NicHandle) -> Result<()> {
        // A handler of this NIC that runs is let finish, unless it is the one that closes.
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let own = worker.as_ref().map(|worker| worker.thread().id());
        drop(worker);
        if own != Some(std::thread::current().id()) {
            self.shared.block(None, |state| {
                let is_running = state.running == Some(nic);
                Ok((!is_running).then_some(()))
            })?;
        }
        // Handlers are dropped without the lock: they may hold anything.
        let gone = self
            .shared
            .operate(None, |state, now| state.close(nic, now))?;
        drop(gone);
        Ok(())
    }

    fn query_nic(&self, nic: NicHandle) -> Result<(Arc<NicAttributes>, HostAddress)> {
        let mut state = self.shared.lock();
        let device = state.device(nic)?;
        Ok((device.attributes.clone(), device.address))
    }

    fn create_vi(
        &self,
        nic: NicHandle,
        attributes: &ViAttributes,
        send_completions: Option<CompletionQueueHandle>,
        receive_completions: Option<CompletionQueueHandle>,
    ) -> Result<ViHandle> {
        self.shared.operate(None, |state, _| {
            state.nic(nic)?.check_tag(attributes.tag)?;
            let mut bound = [None; 2];
            for (id, queue) in bound
                .iter_mut()
                .zip([send_completions, receive_completions])
            {
                if let Some(queue) = queue {
                    let queue = state.completion_queue(queue)?;
                    if queue.nic != nic {
                        return Err(dead("the completion queue belongs to another NIC handle"));
                    }
                    *id = Some(queue.id);
                }
            }
            let device = state.nic(nic)?.device;
            let via = &mut state.devices[device].nic;
            let id = via.create_vi(*attributes, bound[0], bound[1]).or_refuse()?;
            let handle = state.next_handle(ViHandle::from_bits);
            state.devices[device].vi_handles.insert(id, handle);
            state.nic(nic)?.vis.insert(handle);
            state.vis.insert(
                handle,
                Vi {
                    nic,
                    device,
                    id,
                    queues: bound.map(|queue| WorkQueue {
                        is_bound: queue.is_some(),
                        ..WorkQueue::default()
                    }),
                    attempt: Attempt::None,
                },
            );
            Ok(handle)
        })
    }

    fn destroy_vi(&self, vi: ViHandle) -> Result<()> {
        let gone = self.shared.operate(None, |state, _| state.destroy_vi(vi))?;
        drop(gone);
        Ok(())
    }

    fn query_vi(&self, vi: ViHandle) -> Result<ViInformation> {
        self.shared.operate(None, |state, _| {
            let (vi, device) = state.vi_and_nic(vi)?;
            let information = device.nic.query_vi(vi.id).or_refuse()?;
            let is_empty =
                |queue: &WorkQueue| queue.pending.is_empty() && queue.completed.is_empty();
            Ok(ViInformation {
                state: information.state,
                attributes: information.attributes,
                send_queue_empty: is_empty(vi.queue(Queue::Send)),
                receive_queue_empty: is_empty(vi.queue(Queue::Receive)),
            })
        })
    }

    fn set_vi_attributes(&self, vi: ViHandle, attributes: &ViAttributes) -> Result<()> {
        self.shared.operate(None, |state, _| {
            let nic = state.vi(vi)?.nic;
            state.nic(nic)?.check_tag(attributes.tag)?;
            let (vi, device) = state.vi_and_nic(vi)?;
            device.nic.set_vi_attributes(vi.id, *attributes).or_refuse()
        })
    }

    fn connect_wait(
        &self,
        nic: NicHandle,
        local: &Address,
        limit: Option<Duration>,
    ) -> Result<IncomingRequest> {
        self.wait_for_client(nic, local, limit)
    }

    fn connect_accept(&self, connection: ConnectionHandle, vi: ViHandle) -> Result<()> {
        self.accept_client(connection, vi)
    }

    fn connect_reject(&self, connection: ConnectionHandle) -> Result<()> {
        self.reject_client(connection)
    }

    fn connect_request(
        &self,
        vi: ViHandle,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes> {
        self.ask_server(vi, local, remote, limit)
    }

    fn disconnect(&self, vi: ViHandle) -> Result<()> {
        self.shared.operate(Some(vi), |state, _| {
            let (vi, device) = state.vi_and_nic(vi)?;
            device.nic.disconnect(vi.id).or_refuse()?;
            vi.attempt = Attempt::None;
            Ok(())
        })
    }

    fn connect_peer_request(
        &self,
        vi: ViHandle,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<()> {
        self.ask_peer(vi, local, remote, limit)
    }

    fn connect_peer_done(&self, vi: ViHandle) -> Result<Option<RemoteViAttributes>> {
        self.look_for_peer(vi)
    }

    fn connect_peer_wait(&self, vi: ViHandle) -> Result<RemoteViAttributes> {
        self.wait_for_peer(vi)
    }

    fn create_protection_tag(&self, nic: NicHandle) -> Result<ProtectionTag> {
        self.shared.operate(None, |state, _| {
            let tag = state.device(nic)?.nic.create_protection_tag().or_refuse()?;
            state.nic(nic)?.tags.insert(tag);
            Ok(tag)
        })
    }

    fn destroy_protection_tag(&self, nic: NicHandle, tag: ProtectionTag) -> Result<()> {
        self.shared.operate(None, |state, _| {
            if !state.nic(nic)?.tags.contains(&tag) {
                return Err(dead("the protection tag is none of this NIC handle"));
            }
            state
                .device(nic)?
                .nic
                .destroy_protection_tag(tag)
                .or_refuse()?;
            state.nic(nic)?.tags.remove(&tag);
            Ok(())
        })
    }

    unsafe fn register_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        length: usize,
        attributes: &MemoryAttributes,
    ) -> Result<MemoryHandle> {
        self.shared.operate(None, |state, _| {
            state.nic(nic)?.check_tag(attributes.tag)?;
            if address.is_null() {
                return Err(dead("the memory begins at address 0"));
            }
            let address = address.expose_provenance() as u64;
            let length = length as u64;
            let via = &mut state.device(nic)?.nic;
            let handle = via
                .register_memory(address, length, *attributes)
                .or_refuse()?;
            let tag = attributes.tag;
            state.nic(nic)?.regions.insert(
                handle,
                Region {
                    address,
                    length,
                    tag,
                },
            );
            Ok(handle)
        })
    }

    fn deregister_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<()> {
        self.shared.operate(None, |state, _| {
            state.nic(nic)?.check_region(handle)?;
            let via = &mut state.device(nic)?.nic;
            via.deregister_memory(address.addr() as u64, handle)
                .or_refuse()?;
            state.nic(nic)?.regions.remove(&handle);
            Ok(())
        })
    }

    fn query_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<MemoryAttributes> {
        self.shared.operate(None, |state, _| {
            state.nic(nic)?.check_region(handle)?;
            let via = &state.device(nic)?.nic;
            via.query_memory(address.addr() as u64, handle).or_refuse()
        })
    }

    fn set_memory_attributes(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
        attributes: &MemoryAttributes,
    ) -> Result<()> {
        self.shared.operate(None, |state, _| {
            state.nic(nic)?.check_region(handle)?;
            state.nic(nic)?.check_tag(attributes.tag)?;
            let via = &mut state.device(nic)?.nic;
            via.set_memory_attributes(address.addr() as u64, handle, *attributes)
                .or_refuse()?;
            if let Some(region) = state.nic(nic)?.regions.get_mut(&handle) {
                region.tag = attributes.tag;
            }
            Ok(())
        })
    }

    unsafe fn post_send(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        self.post((vi, Queue::Send), descriptor, handle)
    }

    unsafe fn post_receive(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        self.post((vi, Queue::Receive), descriptor, handle)
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
        self.notify(vi, Queue::Send, handler)
    }

    fn receive_notify(&self, vi: ViHandle, handler: DescriptorHandler) -> Result<()> {
        self.notify(vi, Queue::Receive, handler)
    }

    fn create_completion_queue(
        &self,
        nic: NicHandle,
        entries: u32,
    ) -> Result<CompletionQueueHandle> {
        self.shared.operate(None, |state, _| {
            let device = state.nic(nic)?.device;
            let via = &mut state.devices[device].nic;
            let id = via.create_completion_queue(entries).or_refuse()?;
            let handle = state.next_handle(CompletionQueueHandle::from_bits);
            state.nic(nic)?.queues.insert(handle);
            let queue = CompletionQueue {
                nic,
                device,
                id,
                notifies: Default::default(),
            };
            state.completion_queues.insert(handle, queue);
            Ok(handle)
        })
    }

    fn destroy_completion_queue(&self, queue: CompletionQueueHandle) -> Result<()> {
        let gone = self
            .shared
            .operate(None, |state, _| state.destroy_queue(queue))?;
        drop(gone);
        Ok(())
    }

    fn resize_completion_queue(&self, queue: CompletionQueueHandle, entries: u32) -> Result<()> {
        self.shared.operate(None, |state, _| {
            let queue = state.completion_queue(queue)?;
            let (device, id) = (queue.device, queue.id);
            let via = &mut state.devices[device].nic;
            via.resize_completion_queue(id, entries).or_refuse()
        })
    }

    fn completion_done(&self, queue: CompletionQueueHandle) -> Result<Option<CompletionEntry>> {
        self.shared.lock().take_entry(queue)
    }

    fn completion_wait(
        &self,
        queue: CompletionQueueHandle,
        limit: Option<Duration>,
    ) -> Result<CompletionEntry> {
        let found = self.shared.block(limit, |state| state.take_entry(queue))?;
        found.ok_or_else(|| Error::new(ReturnCode::Timeout, "no entry came in the time given"))
    }

    fn completion_notify(
        &self,
        queue: CompletionQueueHandle,
        handler: CompletionHandler,
    ) -> Result<()> {
        self.shared.operate(None, |state, _| {
            state.completion_queue(queue)?.notifies.push_back(handler);
            Ok(())
        })
    }

    fn set_error_handler(&self, nic: NicHandle, handler: Option<ErrorHandler>) -> Result<()> {
        let mut state = self.shared.lock();
        let former = std::mem::replace(&mut state.nic(nic)?.error_handler, handler);
        drop(state);
        // Without the lock: it may hold anything.
        drop(former);
        Ok(())
    }

    fn host_by_name(&self, nic: NicHandle, name: &str, index: u32) -> Result<HostAddress> {
        self.shared.lock().nic(nic)?;
        self.names.address(name, index).or_refuse()
    }

    fn host_by_address(&self, nic: NicHandle, address: HostAddress) -> Result<String> {
        self.shared.lock().nic(nic)?;
        self.names.name(address).map(str::to_owned).or_refuse()
    }

    fn discover(&self, nic: NicHandle, hops: u32) -> Result<Vec<HostAddress>> {
        let mut state = self.shared.lock();
        let own = state.device(nic)?.address;
        // Every other NIC is one hop away.
        let found = state.devices.iter().map(|device| device.address);
        Ok(found
            .filter(|address| hops > 0 || *address == own)
            .collect())
    }

    fn allocate_shared(&self, nic: NicHandle, length: usize) -> Result<NonNull<u8>> {
        let mut state = self.shared.lock();
        state.nic(nic)?;
        let layout = Layout::from_size_align(length.max(1), 4096).map_err(|_| {
            let reason = format!("{length} bytes are more than a process can have at once");
            Error::new(ReturnCode::Resource, reason)
        })?;
        let block = SharedBlock::new(layout).ok_or_else(|| {
            let reason = format!("no {length} bytes of memory are left");
            Error::new(ReturnCode::Resource, reason)
        })?;
        let address = block.address();
        state.blocks.insert(address.addr().get(), block);
        Ok(address)
    }

    unsafe fn free_shared(&self, nic: NicHandle, address: NonNull<u8>) -> Result<()> {
        let mut state = self.shared.lock();
        state.nic(nic)?;
        let start = address.addr().get();
        let Some(block) = state.blocks.get(&start) else {
            return Err(dead("the memory was not allocated by this fabric"));
        };
        let end = (start + block.length()) as u64;
        let regions = state.nics.values().flat_map(|nic| nic.regions.values());
        let overlaps = |region: &Region| {
            region.address < end && region.address + (region.length - 1) >= start as u64
        };
        if regions.into_iter().any(overlaps) {
            let reason = "the memory is registered: deregister it first";
            return Err(Error::new(ReturnCode::Resource, reason));
        }
        state.blocks.remove(&start);
        Ok(())
    }

    fn set_flow_control(&self, vi: ViHandle, enabled: bool) -> Result<()> {
        self.change_extensions(vi, |extensions, to| extensions.flow_control = to, enabled)
    }

    fn set_request_splitting(&self, vi: ViHandle, enabled: bool) -> Result<()> {
        self.change_extensions(
            vi,
            |extensions, to| extensions.request_splitting = to,
            enabled,
        )
    }
}
