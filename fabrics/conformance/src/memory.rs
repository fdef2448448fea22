//! Memory that a fabric may reach, and descriptors in it. All unsafe code of the suite is here.
//!
//! Blocks belong to the [`Environment`] and outlive every NIC of its side, so a descriptor that a
//! failed case left behind reaches no memory of anybody else. Addresses are kept as numbers:
//! nothing here is a Rust reference that the fabric's writes could break.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::offset_of;
use std::ptr::with_exposed_provenance_mut as pointer;
use std::sync::atomic::{AtomicU32, Ordering};

use viaduct_provider::via::{MemoryAttributes, MemoryHandle};
use viaduct_provider::{
    CONTROL_SEGMENT_BYTES, ControlSegment, DESCRIPTOR_ALIGNMENT, Descriptor, NicHandle, Segment,
    ViHandle, control,
};

use crate::check::{Outcome, Stop};
use crate::environment::Environment;

/// Blocks begin at a multiple of this many bytes: a page, so that page ends can be aimed at.
const BLOCK_ALIGNMENT: usize = 4096;

/// A block of the heap, given back when dropped.
#[derive(Debug)]
pub(crate) struct Allocation {
    address: usize,
    layout: Layout,
}

impl Allocation {
    fn new(length: usize) -> Outcome<Self> {
        let layout = Layout::from_size_align(length.max(1), BLOCK_ALIGNMENT)
            .map_err(|_| Stop::failed(format_args!("the case itself: {length} bytes at once")))?;
        // SAFETY: the layout has at least one byte.
        let block = unsafe { alloc_zeroed(layout) };
        if block.is_null() {
            handle_alloc_error(layout);
        }
        Ok(Self {
            address: block.expose_provenance(),
            layout,
        })
    }
}

impl Allocation {
    /// Whether `length` bytes at `address` lie inside.
    pub(crate) fn covers(&self, address: usize, length: usize) -> bool {
        address
            .checked_sub(self.address)
            .and_then(|offset| offset.checked_add(length))
            .is_some_and(|end| end <= self.layout.size())
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and dropped once. The environment drops it
        // after every NIC is closed, and forgets it when that failed.
        unsafe { dealloc(pointer(self.address), self.layout) };
    }
}

/// A part of a block that lives as long as its side: where it is, and how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Block {
    address: usize,
    length: usize,
}

impl Block {
    /// Zeroed memory at the start of a page.
    pub(crate) fn new(environment: &Environment, length: usize) -> Outcome<Self> {
        let allocation = Allocation::new(length)?;
        let block = Self {
            address: allocation.address,
            length,
        };
        environment.keep(allocation);
        Ok(block)
    }

    /// Memory that the fabric allocated, `length` bytes at `address`, kept until it is freed by
    /// [`free_shared`].
    pub(crate) fn of_fabric(address: usize, length: usize) -> Self {
        Self { address, length }
    }

    /// Its first bytes.
    pub(crate) fn first(self, length: usize) -> Self {
        self.check(0, length);
        Self { length, ..self }
    }

    pub(crate) fn address(self) -> u64 {
        self.address as u64
    }

    pub(crate) fn length(self) -> usize {
        self.length
    }

    pub(crate) fn as_pointer(self) -> *mut u8 {
        pointer(self.address)
    }

    /// Registers it all.
    pub(crate) fn register(
        self,
        environment: &Environment,
        nic: NicHandle,
        attributes: &MemoryAttributes,
    ) -> viaduct_provider::Result<MemoryHandle> {
        // SAFETY: the block lives until every NIC of the side is closed, and longer when that
        // fails.
        unsafe {
            environment
                .provider()
                .register_memory(nic, self.as_pointer(), self.length, attributes)
        }
    }

    fn check(self, offset: usize, length: usize) {
        let fits = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.length);
        assert!(
            fits,
            "the case itself: bytes {offset} to {offset} + {length} of a block of {}",
            self.length
        );
    }

    /// Copies bytes out.
    pub(crate) fn read(self, offset: usize, length: usize) -> Vec<u8> {
        self.check(offset, length);
        let mut bytes = vec![0; length];
        let from: *const u8 = pointer::<u8>(self.address + offset);
        // SAFETY: the range lies in the block, and the vector is apart from it.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
        bytes
    }

    /// Copies bytes in.
    pub(crate) fn write(self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: the range lies in the block, and a slice is never inside it.
        unsafe {
            bytes
                .as_ptr()
                .copy_to_nonoverlapping(pointer(self.address + offset), bytes.len());
        }
    }

    /// Sets every byte.
    pub(crate) fn fill(self, byte: u8) {
        // SAFETY: the whole block.
        unsafe { self.as_pointer().write_bytes(byte, self.length) };
    }

    /// Reads an aligned word that somebody else may write at any moment, and all that was written
    /// before it.
    pub(crate) fn poll_word(self, offset: usize) -> u32 {
        self.check(offset, 4);
        let word: *mut u32 = pointer(self.address + offset);
        assert!(word.is_aligned(), "the case itself: a word at {offset}");
        // SAFETY: in the block and aligned. Acquire: pairs with the release by which the fabric
        // places the end of a message.
        unsafe { AtomicU32::from_ptr(word) }.load(Ordering::Acquire)
    }
}

/// Gives back memory of [`viaduct_provider::Provider::allocate_shared`].
pub(crate) fn free_shared(
    environment: &Environment,
    nic: NicHandle,
    block: Block,
) -> viaduct_provider::Result<()> {
    let Some(address) = std::ptr::NonNull::new(block.as_pointer()) else {
        return Ok(());
    };
    // SAFETY: the case has deregistered it and does not touch it any more.
    unsafe { environment.provider().free_shared(nic, address) }
}

/// A place for one descriptor, in registered memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Work {
    block: Block,
    handle: MemoryHandle,
}

impl Work {
    /// Bytes of a descriptor with so many segments, up to the next descriptor.
    pub(crate) const fn bytes(segments: usize) -> usize {
        (CONTROL_SEGMENT_BYTES + segments * size_of::<Segment>())
            .next_multiple_of(DESCRIPTOR_ALIGNMENT)
    }

    /// At `offset` of a block registered as `handle`, with room for `segments`.
    pub(crate) fn at(block: Block, offset: usize, segments: usize, handle: MemoryHandle) -> Self {
        let length = CONTROL_SEGMENT_BYTES + segments * size_of::<Segment>();
        block.check(offset, length);
        Self {
            block: Block {
                address: block.address + offset,
                length,
            },
            handle,
        }
    }

    /// The descriptor at an address that the fabric named; `None` if that is no memory of this
    /// side.
    pub(crate) fn of_side(environment: &Environment, address: u64) -> Option<Self> {
        let address = usize::try_from(address).ok()?;
        environment
            .owns(address, CONTROL_SEGMENT_BYTES)
            .then_some(Self {
                block: Block {
                    address,
                    length: CONTROL_SEGMENT_BYTES,
                },
                handle: MemoryHandle::from_bits(0),
            })
    }

    pub(crate) fn as_pointer(self) -> *mut Descriptor {
        pointer(self.block.address)
    }

    pub(crate) fn address(self) -> u64 {
        self.block.address()
    }

    /// The control segment as it stands.
    pub(crate) fn control(self) -> ControlSegment {
        self.block.check(0, CONTROL_SEGMENT_BYTES);
        let control: *mut ControlSegment = pointer(self.block.address);
        // SAFETY: in the block. A misaligned place is legal here: cases make them.
        unsafe { control.read_unaligned() }
    }

    /// Overwrites the control segment.
    pub(crate) fn set_control(self, value: ControlSegment) {
        self.block.check(0, CONTROL_SEGMENT_BYTES);
        let control: *mut ControlSegment = pointer(self.block.address);
        // SAFETY: as in `control`.
        unsafe { control.write_unaligned(value) };
    }

    /// The status word.
    pub(crate) fn status(self) -> u32 {
        self.control().status
    }

    /// Writes a whole descriptor; its status is left as it was.
    pub(crate) fn set(self, value: ControlSegment, segments: &[Segment]) -> Self {
        let status = self.status();
        self.set_control(ControlSegment { status, ..value });
        for (index, segment) in segments.iter().enumerate() {
            self.set_segment(index, *segment);
        }
        self
    }

    /// Overwrites one segment.
    pub(crate) fn set_segment(self, index: usize, value: Segment) {
        let offset = CONTROL_SEGMENT_BYTES + index * size_of::<Segment>();
        self.block.check(offset, size_of::<Segment>());
        let segment: *mut Segment = pointer(self.block.address + offset);
        // SAFETY: in the block.
        unsafe { segment.write_unaligned(value) };
    }

    /// Makes it a send of all `segments`.
    pub(crate) fn send(self, segments: &[Segment]) -> Self {
        self.operation(control::SEND_RECEIVE, segments, segments)
    }

    /// Makes it a receive into `segments`.
    pub(crate) fn receive(self, segments: &[Segment]) -> Self {
        self.operation(control::SEND_RECEIVE, segments, segments)
    }

    /// Makes it a remote write of all `segments` to `remote`.
    pub(crate) fn rdma_write(self, remote: Segment, segments: &[Segment]) -> Self {
        self.remote(control::RDMA_WRITE, remote, segments)
    }

    /// Makes it a remote read from `remote` into all `segments`.
    pub(crate) fn rdma_read(self, remote: Segment, segments: &[Segment]) -> Self {
        self.remote(control::RDMA_READ, remote, segments)
    }

    /// Adds immediate data.
    pub(crate) fn immediate(self, immediate: u32) -> Self {
        let mut value = self.control();
        value.control |= control::IMMEDIATE;
        value.immediate = immediate;
        self.set_control(value);
        self
    }

    /// Makes it wait for earlier remote reads.
    pub(crate) fn fence(self) -> Self {
        let mut value = self.control();
        value.control |= control::QUEUE_FENCE;
        self.set_control(value);
        self
    }

    /// Says another length than the sum of its segments.
    pub(crate) fn with_length(self, length: u32) -> Self {
        let mut value = self.control();
        value.length = length;
        self.set_control(value);
        self
    }

    fn remote(self, operation: u16, remote: Segment, segments: &[Segment]) -> Self {
        let all: Vec<Segment> = [remote].iter().chain(segments).copied().collect();
        self.operation(operation, &all, segments)
    }

    fn operation(self, operation: u16, all: &[Segment], data: &[Segment]) -> Self {
        let value = ControlSegment {
            segment_count: all.len() as u16,
            control: operation,
            length: data.iter().map(|segment| segment.length).sum(),
            ..ControlSegment::default()
        };
        self.set(value, all)
    }

    /// Posts it as a send.
    pub(crate) fn post_send(
        self,
        environment: &Environment,
        vi: ViHandle,
    ) -> viaduct_provider::Result<()> {
        // SAFETY: the block lives until every NIC of the side is closed, and so do the buffers
        // that a case names; what a case names beyond them the fabric must refuse.
        unsafe {
            environment
                .provider()
                .post_send(vi, self.as_pointer(), self.handle)
        }
    }

    /// Posts it as a receive.
    pub(crate) fn post_receive(
        self,
        environment: &Environment,
        vi: ViHandle,
    ) -> viaduct_provider::Result<()> {
        // SAFETY: as in `post_send`.
        unsafe {
            environment
                .provider()
                .post_receive(vi, self.as_pointer(), self.handle)
        }
    }

    /// Looks at the status as a program does that polls memory.
    pub(crate) fn poll_status(self) -> u32 {
        self.block.poll_word(offset_of!(ControlSegment, status))
    }
}

/// Bytes that look like nothing else, different for each seed.
pub(crate) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state >> 8).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
