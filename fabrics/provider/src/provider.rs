//! The operations of the VI Provider Library, over any fabric.

use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use viaduct_core::{
    Address, ErrorCode, HostAddress, MemoryAttributes, MemoryHandle, NicAttributes, ProtectionTag,
    Queue, RemoteViAttributes, ResourceCode, ViAttributes, ViState,
};

use crate::counts::Counts;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result, ReturnCode};

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(transparent)]
        pub struct $name(NonZeroU64);

        impl $name {
            /// From a foreign number; one that names nothing is refused where it is used. `None`
            /// for 0, which no handle has.
            #[must_use]
            pub const fn from_bits(bits: u64) -> Option<Self> {
                match NonZeroU64::new(bits) {
                    Some(bits) => Some(Self(bits)),
                    None => None,
                }
            }

            /// The number.
            #[must_use]
            pub const fn bits(self) -> u64 {
                self.0.get()
            }
        }
    };
}

handle! {
    /// An open NIC. Two openings of one device are two handles.
    NicHandle
}
handle! {
    /// A VI.
    ViHandle
}
handle! {
    /// A completion queue.
    CompletionQueueHandle
}
handle! {
    /// A connection request that waits for an answer.
    ConnectionHandle
}

/// Something that completions come to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Watched {
    /// A work queue of a VI.
    Vi(ViHandle, Queue),
    /// A completion queue.
    Entries(CompletionQueueHandle),
}

/// What a look at a work queue found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Done {
    /// The oldest descriptor is still pending (`VIP_NOT_DONE`).
    NotDone,
    /// Nothing is posted (`VIP_DESCRIPTOR_ERROR`, no descriptor).
    Empty,
    /// The oldest descriptor completed well, and is taken off the queue (`VIP_SUCCESS`).
    Complete(NonNull<Descriptor>),
    /// The oldest descriptor completed in error, and is taken off the queue
    /// (`VIP_DESCRIPTOR_ERROR`).
    Failed(NonNull<Descriptor>),
}

impl Done {
    /// The descriptor taken, if any.
    #[must_use]
    pub const fn descriptor(self) -> Option<NonNull<Descriptor>> {
        match self {
            Self::Complete(descriptor) | Self::Failed(descriptor) => Some(descriptor),
            Self::NotDone | Self::Empty => None,
        }
    }
}

/// One entry of a completion queue: a descriptor of this work queue has completed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CompletionEntry {
    /// Whose.
    pub vi: ViHandle,
    /// Which of its queues.
    pub queue: Queue,
}

/// What a VI says of itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ViInformation {
    /// Its state.
    pub state: ViState,
    /// Its attributes.
    pub attributes: ViAttributes,
    /// Whether no descriptor is on the send queue.
    pub send_queue_empty: bool,
    /// Whether no descriptor is on the receive queue.
    pub receive_queue_empty: bool,
}

/// A client that waits for accept or reject.
#[derive(Clone, Debug)]
pub struct IncomingRequest {
    /// Answers it.
    pub connection: ConnectionHandle,
    /// The client's own address.
    pub remote: Address,
    /// The client's VI.
    pub attributes: RemoteViAttributes,
}

/// What a NIC's error handler is told (`VIP_ERROR_DESCRIPTOR`).
#[derive(Clone, Copy, Debug)]
pub struct AsynchronousError {
    /// The NIC.
    pub nic: NicHandle,
    /// The VI, if one is concerned.
    pub vi: Option<ViHandle>,
    /// The completion queue, if one is concerned.
    pub completion_queue: Option<CompletionQueueHandle>,
    /// The descriptor, if one is concerned.
    pub descriptor: Option<NonNull<Descriptor>>,
    /// The operation, as in bits 16-18 of a status.
    pub operation: u32,
    /// Which of the handles is meant.
    pub resource: ResourceCode,
    /// What happened.
    pub code: ErrorCode,
}

// SAFETY: the descriptor is told as an address; nothing is reached through it here.
unsafe impl Send for AsynchronousError {}

/// Called for each asynchronous error of a NIC, from a thread of the provider that holds no lock.
pub type ErrorHandler = Arc<dyn Fn(&AsynchronousError) + Send + Sync>;

/// Called once with a completed descriptor that is already off its queue.
pub type DescriptorHandler = Box<dyn FnOnce(NicHandle, ViHandle, NonNull<Descriptor>) + Send>;

/// Called once with an entry that is already off its completion queue.
pub type CompletionHandler = Box<dyn FnOnce(NicHandle, CompletionEntry) + Send>;

/// A fabric, as a program sees it: the operations of the VI Provider Library.
///
/// Every handle is checked; one that is not alive is [`crate::ReturnCode::InvalidParameter`].
/// A time limit of `None` is infinite. All operations may be called from any thread.
///
/// # Safety
///
/// Programs that hold no unsafe code give buffers away and take them back by what a provider says.
/// So a provider:
///
/// * hands out a descriptor only if it was posted on that work queue and has not been handed out
///   since, and touches neither it nor the memory of its segments from then on;
/// * touches memory of the program only where a descriptor or a remote access that it granted
///   reaches, within regions that are registered at that moment, and says `Ok` to a deregistration
///   or the end of a VI only when no thread of this process does so any more;
/// * gives no two living things of one kind the same handle.
pub unsafe trait Provider: Send + Sync + 'static {
    /// Opens a NIC by the name of its device (`VipOpenNic`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for a name this fabric does not have.
    fn open_nic(&self, device: &str) -> Result<NicHandle>;
    /// Closes it, with everything that was made on it (`VipCloseNic`). Memory of
    /// [`Provider::allocate_shared`] stays, since a program may still use it.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for a dead handle, as everywhere.
    fn close_nic(&self, nic: NicHandle) -> Result<()>;
    /// What the NIC can do, and its address (`VipQueryNic`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn query_nic(&self, nic: NicHandle) -> Result<(Arc<NicAttributes>, HostAddress)>;

    /// Makes a VI, in the idle state (`VipCreateVi`).
    ///
    /// # Errors
    ///
    /// `InvalidReliabilityLevel`, `InvalidMtu`, `InvalidQos`, `InvalidPtag`, `InvalidRdmaRead`,
    /// `Resource`.
    fn create_vi(
        &self,
        nic: NicHandle,
        attributes: &ViAttributes,
        send_completions: Option<CompletionQueueHandle>,
        receive_completions: Option<CompletionQueueHandle>,
    ) -> Result<ViHandle>;
    /// Destroys an idle or broken VI (`VipDestroyVi`).
    ///
    /// # Errors
    ///
    /// `InvalidState` while it is connected or connecting.
    fn destroy_vi(&self, vi: ViHandle) -> Result<()>;
    /// State, attributes, and whether the queues are empty (`VipQueryVi`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn query_vi(&self, vi: ViHandle) -> Result<ViInformation>;
    /// Changes an idle VI's attributes (`VipSetViAttributes`).
    ///
    /// # Errors
    ///
    /// As [`Provider::create_vi`], and `InvalidState` unless it is idle.
    fn set_vi_attributes(&self, vi: ViHandle, attributes: &ViAttributes) -> Result<()>;

    /// Waits for a request to `local` (`VipConnectWait`).
    ///
    /// # Errors
    ///
    /// `Timeout`, `Resource`, `InvalidParameter`.
    fn connect_wait(
        &self,
        nic: NicHandle,
        local: &Address,
        limit: Option<Duration>,
    ) -> Result<IncomingRequest>;
    /// Accepts a request with an idle VI (`VipConnectAccept`).
    ///
    /// # Errors
    ///
    /// `InvalidReliabilityLevel`, `InvalidMtu`, `InvalidQos` when the ends differ: the request
    /// stays open. `InvalidState` unless the VI is idle. `Timeout` when the client gave up.
    fn connect_accept(&self, connection: ConnectionHandle, vi: ViHandle) -> Result<()>;
    /// Rejects a request (`VipConnectReject`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn connect_reject(&self, connection: ConnectionHandle) -> Result<()>;
    /// Asks for a connection and waits for the answer (`VipConnectRequest`).
    ///
    /// # Errors
    ///
    /// `NoMatch` at once when nobody waits, `Timeout`, `Reject`, `InvalidState`, `NotReachable`;
    /// `InvalidParameter` for a limit of zero.
    fn connect_request(
        &self,
        vi: ViHandle,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes>;
    /// Ends the connection and flushes both queues (`VipDisconnect`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn disconnect(&self, vi: ViHandle) -> Result<()>;
    /// Starts a connection between equals: both sides call it with crossed addresses
    /// (`VipConnectPeerRequest`).
    ///
    /// # Errors
    ///
    /// `InvalidState`, `InvalidParameter`, `Resource`.
    fn connect_peer_request(
        &self,
        vi: ViHandle,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<()>;
    /// Whether it has come about; `None` while it has not (`VipConnectPeerDone`).
    ///
    /// # Errors
    ///
    /// `Timeout`, and what differs between the ends; `InvalidState` when none was started.
    fn connect_peer_done(&self, vi: ViHandle) -> Result<Option<RemoteViAttributes>>;
    /// Waits until it has (`VipConnectPeerWait`).
    ///
    /// # Errors
    ///
    /// As [`Provider::connect_peer_done`].
    fn connect_peer_wait(&self, vi: ViHandle) -> Result<RemoteViAttributes>;

    /// Makes a protection tag (`VipCreatePtag`).
    ///
    /// # Errors
    ///
    /// `Resource`.
    fn create_protection_tag(&self, nic: NicHandle) -> Result<ProtectionTag>;
    /// Destroys it (`VipDestroyPtag`).
    ///
    /// # Errors
    ///
    /// `Resource` while a VI or region uses it.
    fn destroy_protection_tag(&self, nic: NicHandle, tag: ProtectionTag) -> Result<()>;
    /// Registers memory (`VipRegisterMem`).
    ///
    /// # Safety
    ///
    /// The range stays mapped, readable and writable until it is deregistered; while a descriptor
    /// or a remote right names it, its bytes are reached by the fabric.
    ///
    /// # Errors
    ///
    /// `InvalidPtag`, `InvalidRdmaRead`, `InvalidParameter`, `Resource`.
    unsafe fn register_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        length: usize,
        attributes: &MemoryAttributes,
    ) -> Result<MemoryHandle>;
    /// Ends a registration (`VipDeregisterMem`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter` unless the address is where the region begins.
    fn deregister_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<()>;
    /// What a region was registered with (`VipQueryMem`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn query_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<MemoryAttributes>;
    /// Changes it (`VipSetMemAttributes`).
    ///
    /// # Errors
    ///
    /// `InvalidPtag`, `InvalidRdmaRead`, `InvalidParameter`.
    fn set_memory_attributes(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
        attributes: &MemoryAttributes,
    ) -> Result<()>;

    /// Puts a descriptor on the send queue (`VipPostSend`).
    ///
    /// A malformed descriptor is taken and completes in error; a misaligned one, or one outside
    /// the region of `handle`, is refused and told to the error handler.
    ///
    /// # Safety
    ///
    /// The descriptor and its segments are readable and writable, and they and the buffers that
    /// they name are left to the fabric until the descriptor is handed back.
    ///
    /// # Errors
    ///
    /// `Resource` when the queue is full.
    unsafe fn post_send(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()>;
    /// Puts a descriptor on the receive queue (`VipPostRecv`).
    ///
    /// # Safety
    ///
    /// As [`Provider::post_send`].
    ///
    /// # Errors
    ///
    /// As [`Provider::post_send`].
    unsafe fn post_receive(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()>;
    /// Takes the oldest completed send (`VipSendDone`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn send_done(&self, vi: ViHandle) -> Result<Done>;
    /// Takes the oldest completed receive (`VipRecvDone`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn receive_done(&self, vi: ViHandle) -> Result<Done>;
    /// Waits for it; never [`Done::NotDone`] (`VipSendWait`).
    ///
    /// # Errors
    ///
    /// `Timeout`; `InvalidParameter` when the queue is bound to a completion queue.
    fn send_wait(&self, vi: ViHandle, limit: Option<Duration>) -> Result<Done>;
    /// Waits for it; never [`Done::NotDone`] (`VipRecvWait`).
    ///
    /// # Errors
    ///
    /// As [`Provider::send_wait`].
    fn receive_wait(&self, vi: ViHandle, limit: Option<Duration>) -> Result<Done>;
    /// Has `handler` called with the next completed send (`VipSendNotify`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter` when the queue is bound to a completion queue.
    fn send_notify(&self, vi: ViHandle, handler: DescriptorHandler) -> Result<()>;
    /// Has `handler` called with the next completed receive (`VipRecvNotify`).
    ///
    /// # Errors
    ///
    /// As [`Provider::send_notify`].
    fn receive_notify(&self, vi: ViHandle, handler: DescriptorHandler) -> Result<()>;

    /// Makes a completion queue (`VipCreateCQ`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for no entries, `Resource` for too many.
    fn create_completion_queue(
        &self,
        nic: NicHandle,
        entries: u32,
    ) -> Result<CompletionQueueHandle>;
    /// Destroys it (`VipDestroyCQ`).
    ///
    /// # Errors
    ///
    /// `Resource` while a VI is bound to it.
    fn destroy_completion_queue(&self, queue: CompletionQueueHandle) -> Result<()>;
    /// Changes how many entries it has (`VipResizeCQ`).
    ///
    /// # Errors
    ///
    /// `Resource` when more wait than would fit.
    fn resize_completion_queue(&self, queue: CompletionQueueHandle, entries: u32) -> Result<()>;
    /// Takes the oldest entry, if there is one (`VipCQDone`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn completion_done(&self, queue: CompletionQueueHandle) -> Result<Option<CompletionEntry>>;
    /// Waits for an entry and takes it (`VipCQWait`).
    ///
    /// # Errors
    ///
    /// `Timeout`.
    fn completion_wait(
        &self,
        queue: CompletionQueueHandle,
        limit: Option<Duration>,
    ) -> Result<CompletionEntry>;
    /// Has `handler` called with the next entry (`VipCQNotify`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn completion_notify(
        &self,
        queue: CompletionQueueHandle,
        handler: CompletionHandler,
    ) -> Result<()>;

    /// Sets the NIC's error handler; `None` brings back the one that logs (`VipErrorCallback`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn set_error_handler(&self, nic: NicHandle, handler: Option<ErrorHandler>) -> Result<()>;
    /// The `index`th address of a host's name (`VipNSGetHostByName`).
    ///
    /// # Errors
    ///
    /// `NameService` for an unknown name or an index past the last.
    fn host_by_name(&self, nic: NicHandle, name: &str, index: u32) -> Result<HostAddress>;
    /// The name of an address (`VipNSGetHostByAddr`).
    ///
    /// # Errors
    ///
    /// `NameService` for an unknown address.
    fn host_by_address(&self, nic: NicHandle, address: HostAddress) -> Result<String>;
    /// The addresses of hosts within so many hops (`VipQuerySystemManagementInfo`).
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    fn discover(&self, nic: NicHandle, hops: u32) -> Result<Vec<HostAddress>>;

    /// Extension: memory that the fabric reaches without a copy between processes, registered with
    /// [`Provider::register_memory`] like any other.
    ///
    /// # Errors
    ///
    /// `Resource`.
    fn allocate_shared(&self, nic: NicHandle, length: usize) -> Result<NonNull<u8>>;
    /// Extension: gives it back, by whatever NIC of the process.
    ///
    /// # Safety
    ///
    /// Nothing uses it any more.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for memory that was not allocated so, `Resource` while it is registered.
    unsafe fn free_shared(&self, nic: NicHandle, address: NonNull<u8>) -> Result<()>;
    /// Extension: whether sends of an idle VI wait for a posted receive instead of overrunning the
    /// peer (flow control).
    ///
    /// # Errors
    ///
    /// `InvalidState` unless it is idle.
    fn set_flow_control(&self, vi: ViHandle, enabled: bool) -> Result<()>;
    /// Extension: whether a message longer than an idle VI's first receive continues in the
    /// following ones (request splitting).
    ///
    /// # Errors
    ///
    /// `InvalidState` unless it is idle.
    fn set_request_splitting(&self, vi: ViHandle, enabled: bool) -> Result<()>;
    /// Extension: has `waker` woken, once, as soon as there is a completion to take; at once if
    /// there is one. It stays where it is, for whoever looks. A later waker takes the place of an
    /// earlier one. `false` from a fabric that knows notify handlers only.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for a handle that names nothing, and for a work queue that is bound to a
    /// completion queue.
    fn watch(&self, _watched: Watched, _waker: &Waker) -> Result<bool> {
        Ok(false)
    }
    /// Extension: what the NIC has counted of its traffic since it was opened.
    ///
    /// Looks at every VI of the NIC, whose threads it may hold up for microseconds: not for the
    /// inside of a loop that is timed.
    ///
    /// # Errors
    ///
    /// `NotSupported` where nothing is counted; `InvalidParameter`.
    fn counts(&self, _nic: NicHandle) -> Result<Counts> {
        Err(Error::new(
            ReturnCode::NotSupported,
            "this fabric does not count its traffic: use shm or a simulated host",
        ))
    }
}
