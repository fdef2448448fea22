//! Descriptors as they lie in memory: the layout of the C interface, to the byte.

/// Descriptors begin at a multiple of this many bytes.
pub const DESCRIPTOR_ALIGNMENT: usize = 64;

/// Bytes of the control segment; data segments follow it.
pub const CONTROL_SEGMENT_BYTES: usize = 32;

/// The first 32 bytes of a descriptor (`VIP_CONTROL_SEGMENT`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ControlSegment {
    /// Written by the provider: address of the descriptor posted next.
    pub next: u64,
    /// Written by the provider: memory handle of that descriptor.
    pub next_handle: u32,
    /// Segments that follow, the address segment included.
    pub segment_count: u16,
    /// The operation and its flags: [`control`].
    pub control: u16,
    /// 0.
    pub reserved: u32,
    /// Four bytes carried with the message. Written by the provider on a receive that has them.
    pub immediate: u32,
    /// Send: bytes of all data segments. Written by the provider on a receive: bytes received.
    pub length: u32,
    /// Written by the provider: 0 while pending, then a [`viaduct_core::Status`].
    pub status: u32,
}

/// A data segment (`VIP_DATA_SEGMENT`), or in front of an RDMA descriptor's data the remote range
/// (`VIP_ADDRESS_SEGMENT`, whose last word is 0).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Segment {
    /// First byte: local address, or the target's address.
    pub address: u64,
    /// The registration that covers the range.
    pub handle: u32,
    /// Bytes; 0 in an address segment.
    pub length: u32,
}

/// A descriptor with room for two segments (`VIP_DESCRIPTOR`, 64 bytes). One with more continues
/// behind it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Descriptor {
    /// What to do, and how it ended.
    pub control: ControlSegment,
    /// The first two segments.
    pub segments: [Segment; 2],
}

/// The bits of [`ControlSegment::control`].
pub mod control {
    /// Send, or receive.
    pub const SEND_RECEIVE: u16 = 0x0000;
    /// Write into the peer's memory.
    pub const RDMA_WRITE: u16 = 0x0001;
    /// Read from the peer's memory.
    pub const RDMA_READ: u16 = 0x0002;
    /// Where the operation lies; all bits set is illegal.
    pub const OPERATION_MASK: u16 = 0x0003;
    /// The immediate data is valid.
    pub const IMMEDIATE: u16 = 0x0004;
    /// Wait for earlier remote reads of this queue.
    pub const QUEUE_FENCE: u16 = 0x0008;
    /// 0.
    pub const RESERVED: u16 = 0xFFF0;
}

const _: () = {
    assert!(size_of::<ControlSegment>() == CONTROL_SEGMENT_BYTES);
    assert!(size_of::<Segment>() == 16);
    assert!(size_of::<Descriptor>() == 64);
};
