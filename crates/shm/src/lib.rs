//! The VI Architecture between processes of one machine, over shared memory.
//!
//! [`Shm`] is the fabric. Processes find each other through Unix sockets, and map memory of each
//! other's; a message is written by its sender into memory that its receiver looks at, with no
//! kernel in between.
//!
//! ```text
//!  Vip* / safe interface
//!    vi      post, done, wait             connect    client-server, peer-to-peer
//!    side    a work queue and its checks  link       one a pair of processes
//!    send    descriptor -> slot           service    the thread that hears links
//!    receive slot -> descriptor           rendezvous names -> sockets
//!    channel the memory between the two   host       what a process holds
//!    copy, cma, pool, transfer            regions, shared, segment
//!            ways of the bytes                       registered and shared memory
//! ```
//!
//! Locks are taken in this order: a VI's control, a completion queue's sources, a VI's send side,
//! its receive side, a completion queue's entries.

/// Before a store that peers can see: tests kill a process here. Nothing elsewhere.
macro_rules! kill_point {
    () => {
        #[cfg(test)]
        crate::chaos::point();
    };
}

mod channel;
#[cfg(test)]
mod chaos;
mod cma;
mod completion_queue;
mod connect;
mod copy;
mod counting;
mod deadline;
mod events;
mod fork;
mod handle;
mod host;
mod link;
mod lock;
mod names;
mod nic;
mod notice;
mod pool;
mod receive;
mod refuse;
mod regions;
mod rendezvous;
mod segment;
mod send;
mod service;
mod shared;
mod side;
mod simple;
mod sync;
mod transfer;
mod vi;
mod wait;
mod wire;
mod work_queue;

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use viaduct_fabric::{
    CompletionEntry, CompletionHandler, CompletionQueueHandle, ConnectionHandle, Counts,
    Descriptor, DescriptorHandler, Done, Error, ErrorHandler, IncomingRequest, NicHandle, Provider,
    Result, ReturnCode, ViHandle, ViInformation,
};
use viaduct_via::{
    Address, HostAddress, MemoryAttributes, MemoryHandle, NicAttributes, ProtectionTag,
    RemoteViAttributes, ViAttributes,
};

use crate::host::Host;

/// The shared-memory fabric of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shm(());

impl Shm {
    /// The fabric. Every value is the same one.
    #[must_use]
    pub const fn global() -> &'static Self {
        &Self(())
    }

    /// The names of the devices that [`Provider::open_nic`] knows.
    #[must_use]
    pub const fn devices() -> &'static [&'static str] {
        &nic::DEVICES
    }

    /// The tag of memory that is registered without attributes.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for a NIC that is not open.
    pub fn default_protection_tag(&self, nic: NicHandle) -> Result<ProtectionTag> {
        Ok(nic::find(nic)?.regions.default_tag())
    }

    /// Whether a VI of tag 0 may use every region: for programs that mix tags up. Off by default.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for a NIC that is not open.
    pub fn set_any_tag(&self, nic: NicHandle, enabled: bool) -> Result<()> {
        nic::find(nic)?.regions.set_any_tag(enabled);
        Ok(())
    }
}

// SAFETY: what a peer does is checked before it is used, and what is handed out was posted: see
// `vi/transfer.rs` and `regions.rs`.
unsafe impl Provider for Shm {
    fn open_nic(&self, device: &str) -> Result<NicHandle> {
        nic::open(device)
    }

    fn close_nic(&self, nic: NicHandle) -> Result<()> {
        nic::close(nic)
    }

    fn query_nic(&self, nic: NicHandle) -> Result<(Arc<NicAttributes>, HostAddress)> {
        let nic = nic::find(nic)?;
        Ok((Arc::clone(&nic.attributes), Host::get()?.address()))
    }

    fn create_vi(
        &self,
        nic: NicHandle,
        attributes: &ViAttributes,
        send_completions: Option<CompletionQueueHandle>,
        receive_completions: Option<CompletionQueueHandle>,
    ) -> Result<ViHandle> {
        vi::create(
            &nic::find(nic)?,
            attributes,
            send_completions,
            receive_completions,
        )
    }

    fn destroy_vi(&self, vi: ViHandle) -> Result<()> {
        vi::destroy(vi)
    }

    fn query_vi(&self, vi: ViHandle) -> Result<ViInformation> {
        vi::query(vi)
    }

    fn set_vi_attributes(&self, vi: ViHandle, attributes: &ViAttributes) -> Result<()> {
        vi::set_attributes(vi, attributes)
    }

    fn connect_wait(
        &self,
        nic: NicHandle,
        local: &Address,
        limit: Option<Duration>,
    ) -> Result<IncomingRequest> {
        nic::find(nic)?;
        Host::get()?.connect_wait(nic.bits(), local, limit)
    }

    fn connect_accept(&self, connection: ConnectionHandle, vi: ViHandle) -> Result<()> {
        Host::get()?.connect_accept(connection, &vi::connectable(vi)?)
    }

    fn connect_reject(&self, connection: ConnectionHandle) -> Result<()> {
        Host::get()?.connect_reject(connection)
    }

    fn connect_request(
        &self,
        vi: ViHandle,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes> {
        Host::get()?.connect_request(&vi::connectable(vi)?, local, remote, limit)
    }

    fn disconnect(&self, vi: ViHandle) -> Result<()> {
        vi::disconnect(vi)
    }

    fn connect_peer_request(
        &self,
        vi: ViHandle,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<()> {
        Host::get()?.connect_peer_request(&vi::connectable(vi)?, local, remote, limit)
    }

    fn connect_peer_done(&self, vi: ViHandle) -> Result<Option<RemoteViAttributes>> {
        vi::find(vi)?;
        Host::get()?.connect_peer_done(vi.bits())
    }

    fn connect_peer_wait(&self, vi: ViHandle) -> Result<RemoteViAttributes> {
        vi::find(vi)?;
        Host::get()?.connect_peer_wait(vi.bits())
    }

    fn create_protection_tag(&self, nic: NicHandle) -> Result<ProtectionTag> {
        nic::find(nic)?.regions.create_tag()
    }

    fn destroy_protection_tag(&self, nic: NicHandle, tag: ProtectionTag) -> Result<()> {
        nic::find(nic)?.regions.destroy_tag(tag)
    }

    unsafe fn register_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        length: usize,
        attributes: &MemoryAttributes,
    ) -> Result<MemoryHandle> {
        nic::find(nic)?
            .regions
            .register(address.addr() as u64, length as u64, attributes)
    }

    fn deregister_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<()> {
        nic::find(nic)?
            .regions
            .deregister(address.addr() as u64, handle)
    }

    fn query_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<MemoryAttributes> {
        nic::find(nic)?.regions.query(address.addr() as u64, handle)
    }

    fn set_memory_attributes(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
        attributes: &MemoryAttributes,
    ) -> Result<()> {
        nic::find(nic)?
            .regions
            .set_attributes(address.addr() as u64, handle, attributes)
    }

    #[inline]
    unsafe fn post_send(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { vi::post_send(vi, descriptor, handle) }
    }

    #[inline]
    unsafe fn post_receive(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { vi::post_receive(vi, descriptor, handle) }
    }

    #[inline]
    fn send_done(&self, vi: ViHandle) -> Result<Done> {
        vi::send_done(vi)
    }

    #[inline]
    fn receive_done(&self, vi: ViHandle) -> Result<Done> {
        vi::receive_done(vi)
    }

    fn send_wait(&self, vi: ViHandle, limit: Option<Duration>) -> Result<Done> {
        vi::send_wait(vi, limit)
    }

    fn receive_wait(&self, vi: ViHandle, limit: Option<Duration>) -> Result<Done> {
        vi::receive_wait(vi, limit)
    }

    fn send_notify(&self, vi: ViHandle, handler: DescriptorHandler) -> Result<()> {
        vi::send_notify(vi, handler)
    }

    fn receive_notify(&self, vi: ViHandle, handler: DescriptorHandler) -> Result<()> {
        vi::receive_notify(vi, handler)
    }

    fn create_completion_queue(
        &self,
        nic: NicHandle,
        entries: u32,
    ) -> Result<CompletionQueueHandle> {
        completion_queue::create(&*nic::find(nic)?, entries)
    }

    fn destroy_completion_queue(&self, queue: CompletionQueueHandle) -> Result<()> {
        completion_queue::destroy(queue)
    }

    fn resize_completion_queue(&self, queue: CompletionQueueHandle, entries: u32) -> Result<()> {
        completion_queue::resize(queue, entries)
    }

    #[inline]
    fn completion_done(&self, queue: CompletionQueueHandle) -> Result<Option<CompletionEntry>> {
        completion_queue::done(queue)
    }

    fn completion_wait(
        &self,
        queue: CompletionQueueHandle,
        limit: Option<Duration>,
    ) -> Result<CompletionEntry> {
        completion_queue::wait(queue, limit)
    }

    fn completion_notify(
        &self,
        queue: CompletionQueueHandle,
        handler: CompletionHandler,
    ) -> Result<()> {
        completion_queue::notify(queue, handler)
    }

    fn set_error_handler(&self, nic: NicHandle, handler: Option<ErrorHandler>) -> Result<()> {
        nic::find(nic)?.set_handler(handler);
        Ok(())
    }

    fn host_by_name(&self, nic: NicHandle, name: &str, index: u32) -> Result<HostAddress> {
        nic::find(nic)?;
        names::Names::from_environment()?.host_by_name(name, index)
    }

    fn host_by_address(&self, nic: NicHandle, address: HostAddress) -> Result<String> {
        nic::find(nic)?;
        names::Names::from_environment()?.host_by_address(address)
    }

    fn discover(&self, nic: NicHandle, _hops: u32) -> Result<Vec<HostAddress>> {
        nic::find(nic)?;
        // Every process of the machine has the machine's address; no other can be reached.
        Ok(vec![Host::get()?.address()])
    }

    fn allocate_shared(&self, nic: NicHandle, length: usize) -> Result<NonNull<u8>> {
        nic::find(nic)?;
        Host::get()?.shared().allocate(length).map_err(|error| {
            Error::new(
                ReturnCode::Resource,
                format!("no shared memory of {length} bytes: {error}"),
            )
        })
    }

    unsafe fn free_shared(&self, nic: NicHandle, address: NonNull<u8>) -> Result<()> {
        nic::find(nic)?;
        // SAFETY: the caller's promise.
        unsafe { Host::get()?.shared().free(address) }.map_err(refuse::free)
    }

    fn set_flow_control(&self, vi: ViHandle, enabled: bool) -> Result<()> {
        vi::set_flow_control(vi, enabled)
    }

    fn set_request_splitting(&self, vi: ViHandle, enabled: bool) -> Result<()> {
        vi::set_request_splitting(vi, enabled)
    }

    fn counts(&self, nic: NicHandle) -> Result<Counts> {
        Ok(vi::counts(&*nic::find(nic)?))
    }
}
