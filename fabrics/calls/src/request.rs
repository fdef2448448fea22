//! What a program asks about queue pairs.

use viaduct_core::verbs::{
    AddressAttributes, CompletionQueueOptions, Key, Limits, QueuePairAttributes, QueuePairOptions,
    ScatterGatherElement, SendOpcode, SharedReceiveAttributes,
};

use crate::asking::requests;
use crate::wire::{Wire, fields};

/// What an adapter of a host is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Description {
    /// The host's number.
    pub host: u32,
    /// How many adapters the host has.
    pub adapters: u32,
    /// Its number among these.
    pub adapter: u32,
    /// Its address, the one of its GIDs.
    pub gid: [u8; 16],
    /// What it has at most.
    pub limits: Limits,
}

/// What asynchronous events are about, if they are acknowledged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owner {
    /// A completion queue.
    Queue(Key),
    /// A queue pair.
    Pair(Key),
    /// A shared receive queue.
    Shared(Key),
}

/// A piece of work for a send queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Send {
    /// The program's word for it.
    pub request: u64,
    /// What to do.
    pub opcode: SendOpcode,
    /// Bits of [`send`](viaduct_core::verbs::flags::send).
    pub flags: u32,
    /// Where the bytes are, or where those of a read or an atomic come.
    pub elements: Vec<ScatterGatherElement>,
    /// The bytes of an inline send, which were taken from its elements.
    pub inline: Vec<u8>,
    /// Immediate data.
    pub immediate: u32,
    /// Where in the peer's memory.
    pub remote_address: u64,
    /// The key of that.
    pub remote_key: u32,
    /// What to compare with, or to add.
    pub compare_add: u64,
    /// What to store if equal.
    pub swap: u64,
    /// Where a datagram goes.
    pub datagram: Option<Datagram>,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Datagram {
    /// Its address handle.
    pub address: Key,
    /// The queue pair.
    pub queue_pair: u32,
    /// Its Q_Key.
    pub queue_key: u32,
}

/// A receive.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Receive {
    /// The program's word for it.
    pub request: u64,
    /// Where the bytes shall lie.
    pub elements: Vec<ScatterGatherElement>,
}

fields! {
    Send {
        request, opcode, flags, elements, inline, immediate, remote_address, remote_key,
        compare_add, swap, datagram,
    }
    Description { host, adapters, adapter, gid, limits }
    Datagram { address, queue_pair, queue_key }
    Receive { request, elements }
}

impl Wire for Owner {
    fn put(&self, into: &mut Vec<u8>) {
        match *self {
            Self::Queue(key) => (0_u8, key),
            Self::Pair(key) => (1, key),
            Self::Shared(key) => (2, key),
        }
        .put(into);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let (kind, key) = <(u8, Key)>::get(from)?;
        Some(match kind {
            0 => Self::Queue(key),
            1 => Self::Pair(key),
            2 => Self::Shared(key),
            _ => return None,
        })
    }
}

requests! {
    /// What a program asks; an answer comes when it is carried out.
    pub enum Request {
        /// What an adapter of the host is, by its number: a [`Description`](crate::Description).
        Describe { adapter: u32 } = 0;
        /// Opens it: the key of its context. Keys of all that the program makes say of which
        /// adapter that is. The first of two sockets, by their numbers in the program, can be read
        /// while asynchronous events wait.
        Open { adapter: u32, sockets: (u32, u32) } = 1;
        /// Closes it.
        Close { context: Key } = 2;
        /// The next asynchronous event.
        NextAsyncEvent { context: Key, waits: bool } = 3;
        /// A protection domain: its key.
        AllocateDomain { context: Key } = 4;
        /// Gives it back.
        DeallocateDomain { domain: Key } = 5;
        /// A completion channel: its key. Sockets as of [`Request::Open`], for its events.
        CreateChannel { context: Key, sockets: (u32, u32) } = 6;
        /// Closes it.
        DestroyChannel { channel: Key } = 7;
        /// The cookie of the next completion queue that tells the channel.
        NextEvent { channel: Key, waits: bool } = 8;
        /// A completion queue: its key, and what a look in vain takes if that is always the same.
        CreateQueue { context: Key, options: CompletionQueueOptions } = 9;
        /// Destroys it when its events are acknowledged.
        DestroyQueue { queue: Key } = 10;
        /// How many completions find room.
        Entries { queue: Key } = 11;
        /// Changes that, and tells it.
        Resize { queue: Key, entries: u32 } = 12;
        /// Has it tell its channel.
        Arm { queue: Key, is_solicited_only: bool } = 13;
        /// Takes so many completions at most.
        Poll { queue: Key, most: u32 } = 14;
        /// Events of its channel have been dealt with.
        Acknowledge { queue: Key, count: u32 } = 15;
        /// Asynchronous events have been dealt with.
        AcknowledgeAsync { owner: Owner, count: u32 } = 16;
        /// Opens memory to requests: its key, and that by which requests name it.
        Register { domain: Key, address: u64, length: u64, iova: u64, access: u32 } = 17;
        /// Changes what flags name of a region.
        Reregister {
            region: Key, flags: u32, domain: Option<Key>, address: u64, length: u64, access: u32,
        } = 18;
        /// Closes memory to requests.
        Deregister { region: Key } = 19;
        /// An address handle: its key.
        CreateAddress { domain: Key, attributes: AddressAttributes } = 20;
        /// Gives it back.
        DestroyAddress { address: Key } = 21;
        /// A shared receive queue: its key.
        CreateShared { domain: Key, attributes: SharedReceiveAttributes, cookie: u64 } = 22;
        /// Changes what a mask names of it.
        ModifyShared { shared: Key, attributes: SharedReceiveAttributes, mask: u32 } = 23;
        /// Its sizes and limit.
        QueryShared { shared: Key } = 24;
        /// Destroys it when its events are acknowledged.
        DestroyShared { shared: Key } = 25;
        /// Posts a receive on it.
        PostShared { shared: Key, receive: Receive } = 26;
        /// A queue pair: its key and its number.
        CreatePair { domain: Key, options: QueuePairOptions } = 27;
        /// Changes what a mask names of it.
        Modify { pair: Key, attributes: QueuePairAttributes, mask: u32 } = 28;
        /// Its attributes, and what it was made with.
        Query { pair: Key } = 29;
        /// Destroys it when its events are acknowledged.
        DestroyPair { pair: Key } = 30;
        /// Posts pieces of work: all of them or none, with one doorbell.
        PostSends { pair: Key, sends: Vec<Send> } = 31;
        /// Posts a receive on it.
        PostReceive { pair: Key, receive: Receive } = 32;
        /// A look into it was in vain, which was known before.
        Looked { queue: Key } = 33;
    }
}
