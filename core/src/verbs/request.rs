//! What is posted, and what comes back.

use alloc::vec::Vec;

use super::flags::completion;
use super::{
    Capabilities, CompletionOpcode, CompletionStatus, Key, QueuePairType, SendOpcode, responder,
};

/// `struct ibv_sge`, with its layout: a piece of registered memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct ScatterGatherElement {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Local key of its region.
    pub local_key: u32,
}

/// `struct ibv_wc`, with its layout, and what an extended completion queue tells beside it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Completion {
    /// The program's word for the request.
    pub request: u64,
    /// How it ended.
    pub status: CompletionStatus,
    /// What it was; not to be relied on with an error.
    pub opcode: CompletionOpcode,
    /// More about an error; 0.
    pub vendor_error: u32,
    /// Bytes that came.
    pub byte_length: u32,
    /// Immediate data, as the sender gave it (network order by convention).
    pub immediate: u32,
    /// Whose request it was.
    pub queue_pair: u32,
    /// Who sent a datagram.
    pub source_queue_pair: u32,
    /// Bits of [`completion`](super::flags::completion).
    pub flags: u32,
    /// P_Key index.
    pub partition_key_index: u16,
    /// The sender's LID.
    pub source_lid: u16,
    /// Level of service.
    pub service_level: u8,
    /// Low bits of the destination's LID.
    pub destination_path_bits: u8,
    /// When it completed, in nanoseconds of `CLOCK_MONOTONIC`; 0 unless the queue was made to tell.
    pub timestamp: u64,
}

impl Default for Completion {
    fn default() -> Self {
        Self {
            request: 0,
            status: CompletionStatus::Success,
            opcode: CompletionOpcode::Send,
            vendor_error: 0,
            byte_length: 0,
            immediate: 0,
            queue_pair: 0,
            source_queue_pair: 0,
            flags: 0,
            partition_key_index: 0,
            source_lid: 0,
            service_level: 0,
            destination_path_bits: 0,
            timestamp: 0,
        }
    }
}

impl Completion {
    /// That of a receive, which so many bytes came for, of a write or of a message. `ends` are the
    /// numbers of the queue pair and of its peer.
    #[inline]
    #[must_use]
    pub fn received(
        request: u64,
        is_write: bool,
        byte_length: u32,
        immediate: Option<u32>,
        ends: (u32, u32),
    ) -> Self {
        Self {
            request,
            opcode: responder::completed(is_write),
            byte_length,
            immediate: immediate.unwrap_or(0),
            queue_pair: ends.0,
            source_queue_pair: ends.1,
            flags: if immediate.is_some() {
                completion::WITH_IMMEDIATE
            } else {
                0
            },
            ..Self::default()
        }
    }

    /// The same of a datagram.
    #[must_use]
    pub const fn of_datagram(mut self, is_global: bool, service_level: u8) -> Self {
        if is_global {
            self.flags |= completion::GLOBAL_ROUTING_HEADER;
        }
        self.service_level = service_level;
        self
    }
}

/// What a queue pair is made with (`struct ibv_qp_init_attr`).
#[derive(Clone, Copy, Debug)]
pub struct QueuePairOptions<C = Key, S = Key> {
    /// RC, UC or UD.
    pub kind: QueuePairType,
    /// Sizes that are wanted; what it got is told when it is asked.
    pub capabilities: Capabilities,
    /// Where sends complete.
    pub send_queue: C,
    /// Where receives complete.
    pub receive_queue: C,
    /// Where receives come from, unless the queue pair has its own.
    pub shared_receive_queue: Option<S>,
    /// Whether every send completes visibly.
    pub is_every_send_signaled: bool,
    /// Names it in asynchronous events.
    pub cookie: u64,
}

impl<C, S> QueuePairOptions<C, S> {
    /// The same with other words for its queues.
    pub fn map<D, T>(
        &self,
        queue: impl Fn(&C) -> D,
        shared: impl FnOnce(&S) -> T,
    ) -> QueuePairOptions<D, T> {
        QueuePairOptions {
            kind: self.kind,
            capabilities: self.capabilities,
            send_queue: queue(&self.send_queue),
            receive_queue: queue(&self.receive_queue),
            shared_receive_queue: self.shared_receive_queue.as_ref().map(shared),
            is_every_send_signaled: self.is_every_send_signaled,
            cookie: self.cookie,
        }
    }
}

/// A piece of work for the send queue (`struct ibv_send_wr`).
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a, A = Key> {
    /// The program's word for it.
    pub request: u64,
    /// What to do.
    pub opcode: SendOpcode,
    /// Bits of [`send`](super::flags::send).
    pub flags: u32,
    /// Where the bytes are, or where those of a read or an atomic come.
    pub elements: &'a [ScatterGatherElement],
    /// Immediate data, carried as they are.
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
    pub datagram: Option<DatagramDestination<A>>,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub struct DatagramDestination<A = Key> {
    /// The way.
    pub address: A,
    /// The queue pair.
    pub queue_pair: u32,
    /// Its Q_Key; with the highest bit set, the sender's own.
    pub queue_key: u32,
}

impl<'a, A: Copy> SendRequest<'a, A> {
    /// A request without anything.
    #[must_use]
    pub const fn new(request: u64, opcode: SendOpcode) -> Self {
        Self {
            request,
            opcode,
            flags: 0,
            elements: &[],
            immediate: 0,
            remote_address: 0,
            remote_key: 0,
            compare_add: 0,
            swap: 0,
            datagram: None,
        }
    }

    /// With these bytes.
    #[must_use]
    pub const fn with_elements(mut self, elements: &'a [ScatterGatherElement]) -> Self {
        self.elements = elements;
        self
    }

    /// With these flags.
    #[must_use]
    pub const fn with_flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    /// With this remote memory.
    #[must_use]
    pub const fn with_remote(mut self, address: u64, key: u32) -> Self {
        self.remote_address = address;
        self.remote_key = key;
        self
    }
}

/// A place for what comes (`struct ibv_recv_wr`).
#[derive(Clone, Copy, Debug)]
pub struct ReceiveRequest<'a> {
    /// The program's word for it.
    pub request: u64,
    /// Where the bytes shall lie.
    pub elements: &'a [ScatterGatherElement],
}

/// Elements without memory of their own, while they are few.
#[derive(Clone, Debug)]
pub struct Elements(Held);

#[derive(Clone, Debug)]
enum Held {
    Few([ScatterGatherElement; 2], u8),
    Many(Vec<ScatterGatherElement>),
}

impl Elements {
    /// A copy of these.
    #[inline]
    #[must_use]
    pub fn new(elements: &[ScatterGatherElement]) -> Self {
        let mut few = [ScatterGatherElement::default(); 2];
        match elements {
            [] => {}
            [one] => few[0] = *one,
            [one, two] => few = [*one, *two],
            many => return Self(Held::Many(many.to_vec())),
        }
        Self(Held::Few(few, elements.len() as u8))
    }

    /// All of them.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[ScatterGatherElement] {
        match &self.0 {
            Held::Few(few, count) => few.get(..usize::from(*count)).unwrap_or_default(),
            Held::Many(many) => many,
        }
    }

    /// Their bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        bytes_of(self.as_slice())
    }
}

/// Bytes of elements.
#[inline]
#[must_use]
pub fn bytes_of(elements: &[ScatterGatherElement]) -> u64 {
    // Of one, as most requests have, there is nothing to be summed up.
    if let [one] = elements {
        return u64::from(one.length);
    }
    let lengths = elements.iter().map(|element| element.length);
    lengths.map(u64::from).sum()
}

/// A receive.
#[derive(Clone, Debug)]
pub struct Receive {
    /// The program's word for it.
    pub request: u64,
    /// Where its bytes shall lie.
    pub elements: Elements,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of `struct ibv_wc` in rdma-core v44 to v65 (verbs.h).
    #[test]
    fn a_completion_lies_as_in_c() {
        let offsets = [
            (core::mem::offset_of!(Completion, status), 8),
            (core::mem::offset_of!(Completion, byte_length), 20),
            (core::mem::offset_of!(Completion, queue_pair), 28),
            (core::mem::offset_of!(Completion, flags), 36),
            (core::mem::offset_of!(Completion, source_lid), 42),
            (core::mem::offset_of!(Completion, service_level), 44),
            (core::mem::offset_of!(Completion, timestamp), 48),
        ];
        for (at, expected) in offsets {
            assert_eq!(at, expected);
        }
        assert_eq!(size_of::<ScatterGatherElement>(), 16);
    }
}
