//! The operations, one by one: lock, look up, do, carry what follows from it, unlock.

use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use viaduct_provider::via::{
    Address, Extensions, HostAddress, MemoryAttributes, MemoryHandle, NicAttributes, ProtectionTag,
    Queue, RemoteViAttributes, ViAttributes, protection,
};
use viaduct_provider::{
    CompletionEntry, CompletionHandler, CompletionQueueHandle, ConnectionHandle, Counts,
    Descriptor, DescriptorHandler, Done, Error, ErrorHandler, IncomingRequest, NicHandle, Provider,
    Result, ReturnCode, ViHandle, ViInformation, Watched,
};

use crate::agent::{Attempt, CompletionQueue, Farewell, OpenNic, Vi, WorkQueue};
use crate::memory::SharedBlock;
use crate::refusal::{dead, full};
use crate::runtime::{Runtime, Work};

/// The operations of a fabric over the semantics, where a [`Runtime`] carries the messages.
pub struct AgentProvider<R> {
    /// Where it runs.
    pub runtime: R,
}

impl<R: fmt::Debug> fmt::Debug for AgentProvider<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.runtime.fmt(formatter)
    }
}

impl<R: Runtime + Default> AgentProvider<R> {
    /// With the runtime's usual settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<R: Runtime + Default> Default for AgentProvider<R> {
    fn default() -> Self {
        Self {
            runtime: R::default(),
        }
    }
}

impl<R: Runtime> AgentProvider<R> {
    fn change_extensions(
        &self,
        vi: ViHandle,
        change: fn(&mut Extensions, bool),
        to: bool,
    ) -> Result<()> {
        self.runtime.operate(None, |state, _| {
            let (vi, device) = state.vi_and_nic(vi)?;
            let mut attributes = device.nic.query_vi(vi.id)?.attributes;
            change(&mut attributes.extensions, to);
            device
                .nic
                .set_vi_attributes(vi.id, attributes)
                .map_err(Error::from)
        })
    }

    /// Closes a NIC for whoever has opened it and has died: its VIs' peers learn of that, and
    /// requests that it has not answered are left without an answer.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` when it is not open.
    pub fn abandon_nic(&self, nic: NicHandle) -> Result<()> {
        self.close(nic, Farewell::Unsaid)
    }

    /// Has VIs of a tag use every region of its NIC handle; none: no VIs, but with their own tag.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for a NIC that is not open, or a tag of another.
    pub fn set_any_tag(&self, nic: NicHandle, tag: Option<ProtectionTag>) -> Result<()> {
        self.runtime.operate(None, |state, _| {
            let open = state.nic(nic)?;
            if let Some(tag) = tag {
                open.check_tag(tag)?;
            }
            open.any_tag = tag;
            for own in open.tags.clone() {
                state.device(nic)?.nic.set_guest(own, tag)?;
            }
            Ok(())
        })
    }

    fn close(&self, nic: NicHandle, farewell: Farewell) -> Result<()> {
        // A handler of this NIC that runs is let finish, unless it is the one that closes.
        if !self.runtime.is_handler() {
            self.runtime.block(None, |state| {
                let is_running = state.running == Some(nic);
                Ok((!is_running).then_some(()))
            })?;
        }
        // Its VIs' peers learn of the end before the numbers of the VIs are free for others.
        let vis = self
            .runtime
            .access(|state| state.nic(nic).map(drop).map(|()| state.vis_of(nic)))?;
        for vi in vis {
            self.runtime.operate(Some(vi), |state, _| {
                let (vi, device) = state.vi_and_nic(vi)?;
                device.nic.disconnect(vi.id).map_err(Error::from)
            })?;
        }
        // Handlers are dropped without the lock: they may hold anything.
        let gone = self
            .runtime
            .operate(None, |state, _| state.close(nic, farewell))?;
        drop(gone);
        Ok(())
    }
}

// SAFETY: the core's `Nic` completes each descriptor once, and the runtime moves bytes under the
// lock that posts, completes and deregisters take.
unsafe impl<R: Runtime> Provider for AgentProvider<R> {
    fn open_nic(&self, device: &str) -> Result<NicHandle> {
        self.runtime.start()?;
        self.runtime.operate(None, |state, _| {
            let found = state.devices.iter().position(|d| *d.name == *device);
            let Some(index) = found else {
                let names: Vec<_> = state.devices.iter().map(|d| &*d.name).collect();
                let reason = format!("no device {device:?}; there is {}", names.join(", "));
                return Err(Error::new(ReturnCode::InvalidParameter, reason));
            };
            state.nics.insert(OpenNic::new(index)).map_err(|_| full())
        })
    }

    fn close_nic(&self, nic: NicHandle) -> Result<()> {
        self.close(nic, Farewell::Said)
    }

    fn query_nic(&self, nic: NicHandle) -> Result<(Arc<NicAttributes>, HostAddress)> {
        self.runtime.access(|state| {
            let device = state.device(nic)?;
            Ok((device.attributes.clone(), device.address))
        })
    }

    fn create_vi(
        &self,
        nic: NicHandle,
        attributes: &ViAttributes,
        send_completions: Option<CompletionQueueHandle>,
        receive_completions: Option<CompletionQueueHandle>,
    ) -> Result<ViHandle> {
        self.runtime.operate(None, |state, _| {
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
            let id = via.create_vi(*attributes, bound[0], bound[1])?;
            let added = state.vis.insert(Vi {
                nic,
                device,
                id,
                queues: bound.map(|queue| WorkQueue {
                    is_bound: queue.is_some(),
                    ..WorkQueue::default()
                }),
                attempt: Attempt::None,
            });
            let Ok(handle) = added else {
                state.devices[device].nic.destroy_vi(id)?;
                return Err(full());
            };
            state.devices[device].remember(id, handle);
            Ok(handle)
        })
    }

    fn destroy_vi(&self, vi: ViHandle) -> Result<()> {
        let gone = self
            .runtime
            .operate(None, |state, _| state.destroy_vi(vi))?;
        drop(gone);
        Ok(())
    }

    fn query_vi(&self, vi: ViHandle) -> Result<ViInformation> {
        self.runtime.operate(None, |state, _| {
            let (vi, device) = state.vi_and_nic(vi)?;
            let information = device.nic.query_vi(vi.id)?;
            let is_empty = |queue: &WorkQueue| queue.posted.is_empty();
            Ok(ViInformation {
                state: information.state,
                attributes: information.attributes,
                send_queue_empty: is_empty(vi.queue(Queue::Send)),
                receive_queue_empty: is_empty(vi.queue(Queue::Receive)),
            })
        })
    }

    fn set_vi_attributes(&self, vi: ViHandle, attributes: &ViAttributes) -> Result<()> {
        self.runtime.operate(None, |state, _| {
            let nic = state.vi(vi)?.nic;
            state.nic(nic)?.check_tag(attributes.tag)?;
            let (vi, device) = state.vi_and_nic(vi)?;
            device
                .nic
                .set_vi_attributes(vi.id, *attributes)
                .map_err(Error::from)
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
        self.runtime.operate(Some(vi), |state, _| {
            let (vi, device) = state.vi_and_nic(vi)?;
            device.nic.disconnect(vi.id)?;
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
        self.runtime.operate(None, |state, _| {
            let guest = state.nic(nic)?.any_tag;
            let device = state.device(nic)?;
            let tag = device.nic.create_protection_tag()?;
            device.nic.set_guest(tag, guest)?;
            state.nic(nic)?.tags.push(tag);
            Ok(tag)
        })
    }

    fn destroy_protection_tag(&self, nic: NicHandle, tag: ProtectionTag) -> Result<()> {
        self.runtime.operate(None, |state, _| {
            if !state.nic(nic)?.tags.contains(&tag) {
                return Err(dead("the protection tag is none of this NIC handle"));
            }
            state.device(nic)?.nic.destroy_protection_tag(tag)?;
            state.nic(nic)?.tags.retain(|own| *own != tag);
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
        let bytes = length as u64;
        self.runtime.charge(Work::Register { bytes });
        self.runtime.operate(None, |state, _| {
            state.nic(nic)?.check_tag(attributes.tag)?;
            if address.is_null() {
                return Err(dead("the memory begins at address 0"));
            }
            let address = address.expose_provenance() as u64;
            let length = length as u64;
            let via = &mut state.device(nic)?.nic;
            via.register_memory(address, length, *attributes)
                .map_err(Error::from)
        })
    }

    fn deregister_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<()> {
        self.runtime.operate(None, |state, _| {
            state.check_region(nic, handle)?;
            let via = &mut state.device(nic)?.nic;
            via.deregister_memory(address.addr() as u64, handle)
                .map_err(Error::from)
        })
    }

    fn query_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<MemoryAttributes> {
        self.runtime.operate(None, |state, _| {
            state.check_region(nic, handle)?;
            let via = &state.device(nic)?.nic;
            via.query_memory(address.addr() as u64, handle)
                .map_err(Error::from)
        })
    }

    fn set_memory_attributes(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
        attributes: &MemoryAttributes,
    ) -> Result<()> {
        self.runtime.operate(None, |state, _| {
            state.check_region(nic, handle)?;
            state.nic(nic)?.check_tag(attributes.tag)?;
            let via = &mut state.device(nic)?.nic;
            via.set_memory_attributes(address.addr() as u64, handle, *attributes)
                .map_err(Error::from)
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
        self.done(vi, Queue::Send, 1)
    }

    fn receive_done(&self, vi: ViHandle) -> Result<Done> {
        self.done(vi, Queue::Receive, 1)
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
        self.runtime.operate(None, |state, _| {
            let device = state.nic(nic)?.device;
            let via = &mut state.devices[device].nic;
            let id = via.create_completion_queue(entries)?;
            let added = state.completion_queues.insert(CompletionQueue {
                nic,
                device,
                id,
                notifies: Default::default(),
                watcher: None,
            });
            if added.is_err() {
                let via = &mut state.devices[device].nic;
                via.destroy_completion_queue(id)?;
            }
            added.map_err(|_| full())
        })
    }

    fn destroy_completion_queue(&self, queue: CompletionQueueHandle) -> Result<()> {
        let gone = self
            .runtime
            .operate(None, |state, _| state.destroy_queue(queue))?;
        drop(gone);
        Ok(())
    }

    fn resize_completion_queue(&self, queue: CompletionQueueHandle, entries: u32) -> Result<()> {
        self.runtime.operate(None, |state, _| {
            let queue = state.completion_queue(queue)?;
            let (device, id) = (queue.device, queue.id);
            let via = &mut state.devices[device].nic;
            via.resize_completion_queue(id, entries)
                .map_err(Error::from)
        })
    }

    fn completion_done(&self, queue: CompletionQueueHandle) -> Result<Option<CompletionEntry>> {
        self.entry_done(queue, 1)
    }

    fn completion_wait(
        &self,
        queue: CompletionQueueHandle,
        limit: Option<Duration>,
    ) -> Result<CompletionEntry> {
        let watched = Watched::Entries(queue);
        let found = self
            .runtime
            .take(watched, limit, |state| state.take_entry(queue))?;
        found.ok_or_else(|| Error::new(ReturnCode::Timeout, "no entry came in the time given"))
    }

    fn completion_notify(
        &self,
        queue: CompletionQueueHandle,
        handler: CompletionHandler,
    ) -> Result<()> {
        self.runtime.expect(Watched::Entries(queue));
        self.runtime.operate(None, |state, _| {
            state.completion_queue(queue)?.notifies.push_back(handler);
            Ok(())
        })
    }

    fn set_error_handler(&self, nic: NicHandle, handler: Option<ErrorHandler>) -> Result<()> {
        let former = self.runtime.access(|state| {
            let slot = &mut state.nic(nic)?.error_handler;
            Ok::<_, Error>(std::mem::replace(slot, handler))
        })?;
        // Without the lock: it may hold anything.
        drop(former);
        Ok(())
    }

    fn host_by_name(&self, nic: NicHandle, name: &str, index: u32) -> Result<HostAddress> {
        self.runtime.access(|state| state.nic(nic).map(drop))?;
        self.runtime.address(name, index)
    }

    fn host_by_address(&self, nic: NicHandle, address: HostAddress) -> Result<String> {
        self.runtime.access(|state| state.nic(nic).map(drop))?;
        self.runtime.name(address)
    }

    fn discover(&self, nic: NicHandle, hops: u32) -> Result<Vec<HostAddress>> {
        let own = self
            .runtime
            .access(|state| state.device(nic).map(|device| device.address))?;
        Ok(self.runtime.neighbours(own, hops))
    }

    fn allocate_shared(&self, nic: NicHandle, length: usize) -> Result<NonNull<u8>> {
        let layout = Layout::from_size_align(length.max(1), 4096).map_err(|_| {
            let reason = format!("{length} bytes are more than a process can have at once");
            Error::new(ReturnCode::Resource, reason)
        })?;
        let block = SharedBlock::new(layout).ok_or_else(|| {
            let reason = format!("no {length} bytes of memory are left");
            Error::new(ReturnCode::Resource, reason)
        })?;
        self.runtime.access(|state| {
            state.nic(nic)?;
            let address = block.address();
            state.blocks.insert(address.addr().get(), block);
            Ok(address)
        })
    }

    unsafe fn free_shared(&self, nic: NicHandle, address: NonNull<u8>) -> Result<()> {
        self.runtime.access(|state| {
            state.nic(nic)?;
            let start = address.addr().get();
            let Some(block) = state.blocks.get(&start) else {
                return Err(dead("the memory was not allocated by this fabric"));
            };
            let end = (start + block.length()) as u64;
            let mut regions = state.devices.iter().flat_map(|device| device.nic.regions());
            let overlaps = |(_, region): (MemoryHandle, &protection::Region)| {
                region.address < end && region.address + (region.length - 1) >= start as u64
            };
            if regions.any(overlaps) {
                let reason = "the memory is registered: deregister it first";
                return Err(Error::new(ReturnCode::Resource, reason));
            }
            state.blocks.remove(&start);
            Ok(())
        })
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

    fn watch(&self, watched: Watched, waker: &Waker) -> Result<bool> {
        self.runtime.expect(watched);
        let is_there = self.runtime.access(|state| state.watch(watched, waker))?;
        if is_there {
            waker.wake_by_ref();
        }
        Ok(true)
    }

    fn counts(&self, nic: NicHandle) -> Result<Counts> {
        self.runtime.access(|state| state.nic(nic).map(drop))?;
        self.runtime.counts()
    }
}
