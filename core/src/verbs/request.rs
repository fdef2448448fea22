//! What is posted, and what comes back.

use super::{CompletionOpcode, CompletionStatus};

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
