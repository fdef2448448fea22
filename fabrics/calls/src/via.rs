//! Calls of VIA: what a program asks about VIs, and who asks for it.

mod remote;
mod wire;

use std::time::Duration;

use viaduct_core::{
    Address, ErrorCode, HostAddress, MemoryAttributes, MemoryHandle, ProtectionTag, Queue,
    ViAttributes,
};
use viaduct_provider::{
    CompletionEntry, CompletionQueueHandle, ConnectionHandle, NicHandle, ViHandle,
};

use crate::asking::requests;
use crate::wire::fields;

pub use remote::Remote;

/// What the first adapter of a simulated host is opened by.
pub const FIRST_DEVICE: &str = "sim0";

/// What an adapter of a simulated host is opened by.
#[must_use]
pub fn device(adapter: u32) -> String {
    format!("sim{adapter}")
}

requests! {
    /// What a program asks of the operations of [`viaduct_provider::Provider`], whose arguments
    /// these are; an answer comes when it is carried out. Memory and descriptors are named by the
    /// addresses that the program has for them. A number names a handler among the program's.
    pub enum Request {
        /// Opens a NIC: its handle. Handles of all that the program makes say of which adapter of
        /// its host that is.
        OpenNic { device: String } = 128;
        /// Closes it.
        CloseNic { nic: NicHandle } = 129;
        /// What it can do, and its address.
        QueryNic { nic: NicHandle } = 130;
        /// A VI: its handle.
        CreateVi {
            nic: NicHandle, attributes: ViAttributes,
            completions: (Option<CompletionQueueHandle>, Option<CompletionQueueHandle>),
        } = 131;
        /// Destroys it.
        DestroyVi { vi: ViHandle } = 132;
        /// What it says of itself.
        QueryVi { vi: ViHandle } = 133;
        /// Changes it.
        SetViAttributes { vi: ViHandle, attributes: ViAttributes } = 134;
        /// Waits for a client.
        ConnectWait { nic: NicHandle, local: Address, limit: Option<Duration> } = 135;
        /// Accepts it.
        ConnectAccept { connection: ConnectionHandle, vi: ViHandle } = 136;
        /// Rejects it.
        ConnectReject { connection: ConnectionHandle } = 137;
        /// Asks a server, and waits for its answer: what its VI is.
        ConnectRequest { vi: ViHandle, local: Address, remote: Address, limit: Option<Duration> } = 138;
        /// Ends a connection.
        Disconnect { vi: ViHandle } = 139;
        /// Asks a peer.
        ConnectPeerRequest {
            vi: ViHandle, local: Address, remote: Address, limit: Option<Duration>,
        } = 140;
        /// What the peer's VI is, if it has answered.
        ConnectPeerDone { vi: ViHandle } = 141;
        /// Waits for that.
        ConnectPeerWait { vi: ViHandle } = 142;
        /// A protection tag.
        CreateTag { nic: NicHandle } = 143;
        /// Destroys it.
        DestroyTag { nic: NicHandle, tag: ProtectionTag } = 144;
        /// Registers memory: its handle.
        RegisterMemory {
            nic: NicHandle, address: u64, length: u64, attributes: MemoryAttributes,
        } = 145;
        /// Ends that.
        DeregisterMemory { nic: NicHandle, address: u64, handle: MemoryHandle } = 146;
        /// What it was registered with.
        QueryMemory { nic: NicHandle, address: u64, handle: MemoryHandle } = 147;
        /// Changes that.
        SetMemoryAttributes {
            nic: NicHandle, address: u64, handle: MemoryHandle, attributes: MemoryAttributes,
        } = 148;
        /// Posts a descriptor.
        Post { vi: ViHandle, queue: Queue, descriptor: u64, handle: MemoryHandle } = 149;
        /// Takes the oldest descriptor if it is complete.
        Done { vi: ViHandle, queue: Queue } = 150;
        /// Waits for it.
        Wait { vi: ViHandle, queue: Queue, limit: Option<Duration> } = 151;
        /// Has a handler given it.
        Notify { vi: ViHandle, queue: Queue, handler: u64 } = 152;
        /// A completion queue: its handle.
        CreateQueue { nic: NicHandle, entries: u32 } = 153;
        /// Destroys it.
        DestroyQueue { queue: CompletionQueueHandle } = 154;
        /// Changes its size.
        ResizeQueue { queue: CompletionQueueHandle, entries: u32 } = 155;
        /// Takes the oldest entry, if there is one.
        EntryDone { queue: CompletionQueueHandle } = 156;
        /// Waits for it.
        EntryWait { queue: CompletionQueueHandle, limit: Option<Duration> } = 157;
        /// Has a handler given it.
        EntryNotify { queue: CompletionQueueHandle, handler: u64 } = 158;
        /// The address of a host's name.
        HostByName { nic: NicHandle, name: String, index: u32 } = 159;
        /// The name of an address.
        HostByAddress { nic: NicHandle, address: HostAddress } = 160;
        /// Hosts within so many hops.
        Discover { nic: NicHandle, hops: u32 } = 161;
        /// Whether sends wait for a posted receive.
        SetFlowControl { vi: ViHandle, is_enabled: bool } = 162;
        /// Whether long messages go on in following receives.
        SetRequestSplitting { vi: ViHandle, is_enabled: bool } = 163;
        /// Waits until a handler is to be called: for what. The thread that asks calls them, and
        /// asks again when the last one has returned.
        NextCall = 164;
        /// Has VIs of a tag use every region of the NIC; none: with their own tag alone.
        SetAnyTag { nic: NicHandle, tag: Option<ProtectionTag> } = 165;
    }
}

impl Request {
    /// The bits of the handle that it is about.
    #[must_use]
    pub const fn handle(&self) -> Option<u64> {
        Some(match self {
            Self::CloseNic { nic }
            | Self::QueryNic { nic }
            | Self::CreateVi { nic, .. }
            | Self::ConnectWait { nic, .. }
            | Self::CreateTag { nic }
            | Self::DestroyTag { nic, .. }
            | Self::RegisterMemory { nic, .. }
            | Self::DeregisterMemory { nic, .. }
            | Self::QueryMemory { nic, .. }
            | Self::SetMemoryAttributes { nic, .. }
            | Self::CreateQueue { nic, .. }
            | Self::HostByName { nic, .. }
            | Self::HostByAddress { nic, .. }
            | Self::Discover { nic, .. }
            | Self::SetAnyTag { nic, .. } => nic.bits(),
            Self::DestroyVi { vi }
            | Self::QueryVi { vi }
            | Self::SetViAttributes { vi, .. }
            | Self::ConnectRequest { vi, .. }
            | Self::Disconnect { vi }
            | Self::ConnectPeerRequest { vi, .. }
            | Self::ConnectPeerDone { vi }
            | Self::ConnectPeerWait { vi }
            | Self::Post { vi, .. }
            | Self::Done { vi, .. }
            | Self::Wait { vi, .. }
            | Self::Notify { vi, .. }
            | Self::SetFlowControl { vi, .. }
            | Self::SetRequestSplitting { vi, .. } => vi.bits(),
            Self::ConnectAccept { connection, .. } | Self::ConnectReject { connection } => {
                connection.bits()
            }
            Self::DestroyQueue { queue }
            | Self::ResizeQueue { queue, .. }
            | Self::EntryDone { queue }
            | Self::EntryWait { queue, .. }
            | Self::EntryNotify { queue, .. } => queue.bits(),
            Self::OpenNic { .. } | Self::NextCall => return None,
        })
    }
}

/// What a look at a work queue found. Descriptors are named by their addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// The oldest is still pending.
    NotDone,
    /// Nothing is posted.
    Empty,
    /// It completed, well or in error.
    Descriptor {
        /// Which.
        address: u64,
        /// Whether it completed in error.
        is_error: bool,
    },
}

/// What a handler of a program is called for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told {
    /// The error handler of a NIC.
    Error(Failed),
    /// A handler that waited for a descriptor: by its number.
    Descriptor {
        /// Which.
        handler: u64,
        /// Of which NIC.
        nic: NicHandle,
        /// Of which VI.
        vi: ViHandle,
        /// Which descriptor.
        address: u64,
    },
    /// A handler that waited for an entry.
    Entry {
        /// Which.
        handler: u64,
        /// Of which NIC.
        nic: NicHandle,
        /// What came.
        entry: CompletionEntry,
    },
    /// A handler waits for nothing any more, and is to be forgotten.
    Forgotten {
        /// Which.
        handler: u64,
    },
}

/// An asynchronous error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failed {
    /// The NIC.
    pub nic: NicHandle,
    /// The VI, if one is concerned.
    pub vi: Option<ViHandle>,
    /// The completion queue, if one is concerned.
    pub completion_queue: Option<CompletionQueueHandle>,
    /// The descriptor, if one is concerned.
    pub address: Option<u64>,
    /// The operation, as in bits 16-18 of a status.
    pub operation: u32,
    /// What happened.
    pub code: ErrorCode,
}

fields! {
    Failed { nic, vi, completion_queue, address, operation, code }
}
