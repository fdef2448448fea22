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
//!
//! # A message's way
//!
//! No step below calls the kernel unless it says so.
//!
//! 1. **Connecting** (`connect.rs`, `connect/handshake.rs`): the waiting end binds a socket whose
//!    name is a digest of its address (`rendezvous.rs`); the asking end connects, both compare
//!    attributes by the core's `check::ends_match`, and the socket becomes their link if they have
//!    none. Memory goes over it as descriptors of sealed memfds (`segment.rs`), and each link
//!    learns whether it is trusted and whether the kernel copies between the two (`cma.rs`). A
//!    connection then is a channel of the link (`link/channels.rs`), zeroed by the end that owns
//!    it.
//! 2. **Posting a receive** (`vi/transfer.rs: post_receive`): the descriptor is read once, checked
//!    (format, then protection: `side.rs`, `regions.rs`), and kept as a private entry of 64 bytes
//!    (`work_queue.rs`), since a peer may be able to write where the descriptor lies.
//!    `ReceiveSide::posted` stores the new count in the channel; for a receive longer than what
//!    goes inline, and on a trusted link, a cookie says before that where its buffer is.
//! 3. **Posting a send** (`post_send`): the same checks; then `SendSide::progress` at once.
//!    `transmit` asks for credit (from the last slot heard, else from the channel) and for room
//!    among the 32 slots. Without credit the level decides (`outcome::receive_queue_empty`), or
//!    flow control waits.
//! 4. **Moving the bytes** (`send.rs: send`, `send_long`; RDMA in `send/rdma.rs`):
//!    `Thresholds::choose` names a mechanism; what is known of the receiver's program
//!    (`send/reader.rs`) may say the pool instead. Inline writes them into slots; direct writes
//!    them into the receiver's buffer by the cookie; copy has the kernel do it; pool cuts them into
//!    chunks. `publish` stores the slot's header last, with release order: the lap in it tells the
//!    receiver that the slot is new. A send completes here, or, at reliable reception, when the
//!    receiver's `consumed` passes its slot.
//! 5. **Waking** (`Outgoing::notify`): one plain load says whether the receiver sleeps. Only then a
//!    parker is woken, or the peer's service thread is kicked over the socket: a system call.
//! 6. **Taking** (`receive.rs: look`): the thread that looks (`receive_done`, a wait, a completion
//!    queue, the service thread) reads the header with acquire order, checks what it says against
//!    the receive and the pool, copies if there is something to copy, and completes the oldest
//!    entry: status and length into the program's descriptor, an entry into its completion queue
//!    (`side.rs`). Every eighth slot, or at once where the sender asks, the count of used slots
//!    goes back.
//! 7. **Done**: `receive_done` hands out the oldest completed descriptor.
//!
//! Most messages have one segment and fit one slot, with nothing else under way. Steps 2, 3, 4 and
//! 6 of those are in `simple.rs`, which does in one pass what the files above do by general rules;
//! what is unusual, or wrong, it leaves untouched for them. A call is tried so first
//! (`post_send_simply`), without a call of another function, and then done in full
//! (`post_send_in_full`).
//!
//! A completion queue with up to 80 connected VIs peeks at the next slot of each. With more it sets
//! tripwires: whoever publishes a slot also sets the channel's bit in an area of the link, and a
//! look finds the VIs with news without touching the others (`notice.rs`,
//! `completion_queue/sources.rs`). A peer's bit is a hint: every millisecond 1,024 VIs in turn are
//! peeked at, which makes up for a missing one. An RDMA that the initiator cannot carry out itself
//! goes through the pool, with a kick: the target's service thread checks and places it.
//!
//! A sleeper leaves its mark, makes it visible on all processors by `membarrier`, looks once more,
//! and sleeps: that is what lets the sender do with a plain load. Where there is no `membarrier`,
//! sleeps are short and locks ordinary.
//!
//! A peer's end is heard by the service thread, from the socket and from a descriptor of its
//! process, or by a program's thread that looks in vain, which asks for it once a millisecond
//! (`service/endings.rs`). `Link::kill` tells each VI (`vi/connected.rs: peer_closed`), which takes
//! what had arrived, completes the rest by the core's `outcome`, and wakes who waits. The memory
//! stays mapped while anybody holds the `Link`. An end of this side (`vi.rs: disconnect`,
//! `break_connection`) takes it, too (`receive.rs: take_arrived`), under the locks under which it
//! leaves: at that moment what a sender was told lies in the slots.
//!
//! A forked child has no mapping of what connections share (`segment.rs`) and finds no handle of
//! its parent's (`fork.rs`).
//!
//! # Who may write what
//!
//! - slots of a direction: written by its sender; read by its receiver
//! - counts (`posted`, `consumed`, `outcome`), cookies, sleeper of a direction: written by its
//!   receiver; a sender clears the sleeper it wakes; read by its sender
//! - notices of a direction: written by its sender sets bits; its receiver clears them, and leaves
//!   its sleeper; read by both
//! - pool of a direction: written by its sender; the answer of an RDMA read: its receiver; read by
//!   its receiver; that answer: its sender
//! - doorbells: written by both: any writer at worst wakes threads for nothing; read by their owner
//! - shared memory of a program: written by its owner, and trusted peers; read by the same
//! - region table: written by its owner alone: it is sealed against other writers; read by trusted
//!   peers
//! - descriptors, work queue entries, everything else: written by their process; read by their
//!   process
//!
//! The system cannot keep two mappers of one page apart, so nothing relies on this list: whatever
//! a peer could have written is read once into a local value, checked, and used. No reference to
//! such bytes is made; they are reached by atomics and by the copies of `copy.rs`, some of which
//! are assembly so that the compiler can neither read a byte twice nor move it. Sizes of segments
//! are sealed, so that no access ends in a signal. `connect/tests/hostile.rs` plays peers that do
//! not keep the rules. What each mode of trust promises is in `docs/shm.md`.
//!
//! # Decisions
//!
//! - **The sender writes, the receiver looks.** A message costs one line that changes hands:
//!   header, credit of the other direction and up to 48 bytes are in it. The receiver tells what it
//!   used at its leisure.
//! - **The lap is in the slot's header**, so that a slot is known to be new without an index of its
//!   own to read.
//! - **Who pays for sleeping is the sleeper**: it makes the barrier on all processors. A sender
//!   that finds nobody asleep pays a load.
//! - **Locks are biased.** Any thread may use any VI, and one does: an atomic read-modify-write in
//!   each call would cost a third of a small message's way. `membarrier` takes the bias away when
//!   another thread comes.
//! - **Thresholds are measured** when the first NIC is opened: streaming stores were five times as
//!   fast on one machine, and never paid on another.
//! - **Trusted by default between processes of one user**: whoever may debug a process may read and
//!   write it anyway.
//! - **One service thread per process**, and one for handlers when there is a first: programs that
//!   poll are disturbed by none.
//! - **A peer maps whole allocations of shared memory, and no others** (`shared.rs`): the system
//!   cannot hand over a part of a segment, and memory that is in use cannot be moved to another, so
//!   each allocation is one from the start and costs a descriptor. When many are taken, more
//!   allocations lie together and are shown to nobody, which costs them the direct way and nothing
//!   else.
//! - **The name of a link's memory is its descriptor**: memfds handed over the socket, so that
//!   nothing is left to clean up.
//!
//! # Words
//!
//! - link: what two processes share: a socket and the memory both map: `Link` (`link.rs`)
//! - line: the socket of a handshake, until it ends or becomes a link: `Line` (`connect/line.rs`)
//! - channel, block: the two directions of one connection, some 5 KiB: `Direction` (`channel.rs`)
//! - transfer queue, slot: a message on its way, one cache line: `Header`, `Kind` (`channel.rs`)
//! - cookie queue, cookie: a posted receive, as its sender may see it: `Cookie` (`channel.rs`)
//! - credit: how many receives the peer has posted: `Outgoing::has_credit`, `Direction::posted`
//!   (`send/outgoing.rs`, `channel.rs`)
//! - mechanism: inline, direct, copy, pool; thresholds: `Mechanism`, `Thresholds` (`transfer.rs`)
//! - sample: a buffer that tells whether its receiver's program reads what is placed there:
//!   `Reader` (`send/reader.rs`)
//! - tripwire, notices: how a completion queue learns which of many VIs have news: `Notices`,
//!   `Sources` (`notice.rs`, `completion_queue/sources.rs`)
//! - chunk of a pool: where a long message passes through: `Chunk`, `Chunks` (`pool.rs`)
//! - parker: where a thread sleeps; doorbells: a process's page of them: `Parker`, `Doorbells`
//!   (`wait.rs`)
//! - segment: sealed memory without a name, mapped by several processes: `Segment` (`segment.rs`)
//! - region table: registered memory, readable by trusted peers: `RegionTable`, `RemoteRegionTable`
//!   (`regions.rs`, `regions/remote.rs`)
//! - biased lock: costs nothing while one thread uses it: `viaduct_processes::lock::BiasedMutex`
//! - service thread: hears links, notices deaths, helps the slow: `Service` (`service.rs`)
//! - host: what a process holds, and which others know: `Host` (`host.rs`)

/// Before a store that peers can see: tests kill a process here. Nothing elsewhere.
macro_rules! kill_point {
    () => {
        #[cfg(test)]
        viaduct_processes::kill_points::point();
    };
}

mod channel;
#[cfg(test)]
mod chaos;
mod completion_queue;
mod connect;
mod counting;
mod events;
mod fork;
mod handle;
mod host;
mod link;
mod meeting;
mod names;
mod nic;
mod notice;
mod pool;
mod receive;
mod regions;
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

use viaduct_core::{
    Address, HostAddress, MemoryAttributes, MemoryHandle, NicAttributes, ProtectionTag,
    RemoteViAttributes, ViAttributes,
};
use viaduct_provider::{
    CompletionEntry, CompletionHandler, CompletionQueueHandle, ConnectionHandle, Counts,
    Descriptor, DescriptorHandler, Done, Error, ErrorHandler, IncomingRequest, NicHandle, Provider,
    Result, ReturnCode, ViHandle, ViInformation,
};

pub use wait::spin_time;

use viaduct_processes::{cma, copy, deadline, rendezvous, segment};

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

/// The calls that a message takes in two halves, for an interface that is called from outside: the
/// short way calls nothing, so that such a function needs no stack for it.
impl Shm {
    /// The short way of [`Provider::post_send`]. `false`: nothing was done, as for a
    /// handle that names nothing.
    ///
    /// # Safety
    ///
    /// Those of [`Provider::post_send`].
    #[inline(always)]
    #[must_use]
    pub unsafe fn post_send_simply(
        self,
        vi: u64,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { vi::post_send_simply(vi, descriptor, handle) }.is_some()
    }

    /// The rest of [`Provider::post_send`].
    ///
    /// # Errors
    ///
    /// Those of [`Provider::post_send`].
    ///
    /// # Safety
    ///
    /// Those of [`Provider::post_send`].
    pub unsafe fn post_send_in_full(
        self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { vi::post_send_in_full(vi, descriptor, handle) }
    }

    /// The short way of [`Provider::post_receive`]. `false`: nothing was done, as for a
    /// handle that names nothing.
    ///
    /// # Safety
    ///
    /// Those of [`Provider::post_receive`].
    #[inline(always)]
    #[must_use]
    pub unsafe fn post_receive_simply(
        self,
        vi: u64,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { vi::post_receive_simply(vi, descriptor, handle) }.is_some()
    }

    /// The rest of [`Provider::post_receive`].
    ///
    /// # Errors
    ///
    /// Those of [`Provider::post_receive`].
    ///
    /// # Safety
    ///
    /// Those of [`Provider::post_receive`].
    pub unsafe fn post_receive_in_full(
        self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { vi::post_receive_in_full(vi, descriptor, handle) }
    }

    /// The short way of [`Provider::send_done`]. `None`: nothing was done.
    #[inline(always)]
    #[must_use]
    pub fn send_done_simply(self, vi: u64) -> Option<Done> {
        vi::send_done_simply(vi)
    }

    /// The rest of [`Provider::send_done`].
    ///
    /// # Errors
    ///
    /// Those of [`Provider::send_done`].
    pub fn send_done_in_full(self, vi: ViHandle) -> Result<Done> {
        vi::send_done_in_full(vi)
    }

    /// The short way of [`Provider::receive_done`]. `None`: nothing was done.
    #[inline(always)]
    #[must_use]
    pub fn receive_done_simply(self, vi: u64) -> Option<Done> {
        vi::receive_done_simply(vi)
    }

    /// The rest of [`Provider::receive_done`].
    ///
    /// # Errors
    ///
    /// Those of [`Provider::receive_done`].
    pub fn receive_done_in_full(self, vi: ViHandle) -> Result<Done> {
        vi::receive_done_in_full(vi)
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
        unsafe {
            vi::post_send_simply(vi.bits(), descriptor, handle)
                .map_or_else(|| vi::post_send_in_full(vi, descriptor, handle), Ok)
        }
    }

    #[inline]
    unsafe fn post_receive(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            vi::post_receive_simply(vi.bits(), descriptor, handle)
                .map_or_else(|| vi::post_receive_in_full(vi, descriptor, handle), Ok)
        }
    }

    #[inline]
    fn send_done(&self, vi: ViHandle) -> Result<Done> {
        vi::send_done_simply(vi.bits()).map_or_else(|| vi::send_done_in_full(vi), Ok)
    }

    #[inline]
    fn receive_done(&self, vi: ViHandle) -> Result<Done> {
        vi::receive_done_simply(vi.bits()).map_or_else(|| vi::receive_done_in_full(vi), Ok)
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
        unsafe { Host::get()?.shared().free(address) }.map_err(Error::from)
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
