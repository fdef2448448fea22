//! Descriptors and bytes where they lie in the consumer's memory: in this process, or by the name
//! of an address elsewhere ([`crate::elsewhere`]). All unsafe code that reaches them is here.
//!
//! Addresses are checked against the registrations before anything here is called; the consumer
//! answers for it, by the contract of `register_memory` and of the posts, that what it registered
//! is there.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::offset_of;
use std::ptr::{
    NonNull, with_exposed_provenance as read_at, with_exposed_provenance_mut as write_at,
};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

use viaduct_provider::via::{
    Completion, DataSegment, Descriptor, MemoryHandle, Operation, RemoteSegment, Segments, Status,
};
use viaduct_provider::{CONTROL_SEGMENT_BYTES, ControlSegment, Segment, control};

use crate::elsewhere::{Elsewhere, MemoryElsewhere, Owner, find};

/// A descriptor in memory, by its address: a multiple of 64.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place(usize);

/// What a consumer says in a control segment.
#[derive(Clone, Copy)]
struct Control {
    segment_count: u16,
    control: u16,
    immediate: u32,
    length: u32,
}

impl Place {
    /// # Safety
    ///
    /// The control segment and the segments that it counts lie at `address`, and are left to the
    /// provider until the descriptor is handed back.
    pub(crate) unsafe fn new(address: usize) -> Self {
        Self(address)
    }

    /// As the agent calls it.
    #[inline]
    pub(crate) fn pointer(self) -> Option<NonNull<viaduct_provider::Descriptor>> {
        NonNull::new(write_at(self.0))
    }

    /// What the consumer has written, word by word: a wide read right after narrow writes would
    /// wait for them.
    #[inline]
    fn control(self) -> Control {
        let from: *const ControlSegment = read_at(self.0);
        // SAFETY: by the promise to `new`; aligned, since the address is a multiple of 64.
        unsafe {
            Control {
                segment_count: (&raw const (*from).segment_count).read_volatile(),
                control: (&raw const (*from).control).read_volatile(),
                immediate: (&raw const (*from).immediate).read_volatile(),
                length: (&raw const (*from).length).read_volatile(),
            }
        }
    }

    /// Segments behind the control segment.
    #[inline]
    pub(crate) fn segment_count(self) -> u16 {
        let from: *const ControlSegment = read_at(self.0);
        // SAFETY: as in `control`.
        unsafe { (&raw const (*from).segment_count).read_volatile() }
    }

    #[inline]
    fn segment(self, index: usize) -> DataSegment {
        let address = self.0 + CONTROL_SEGMENT_BYTES + index * size_of::<Segment>();
        let from: *const Segment = read_at(address);
        // SAFETY: by the promise to `new`, for an index below the count.
        unsafe {
            DataSegment {
                address: (&raw const (*from).address).read_volatile(),
                handle: MemoryHandle::from_bits((&raw const (*from).handle).read_volatile()),
                length: (&raw const (*from).length).read_volatile(),
            }
        }
    }

    /// The descriptor as a value, if it is one of the most usual kind: one segment, no flags.
    #[inline(always)]
    pub(crate) fn load_simple(self, segments_max: u32) -> Option<Descriptor> {
        let value = self.control();
        let is_simple =
            value.segment_count == 1 && value.control == control::SEND_RECEIVE && segments_max > 0;
        is_simple.then(|| Descriptor {
            operation: Operation::SendReceive,
            queue_fence: false,
            immediate: None,
            length: value.length,
            segments: Segments::one(self.segment(0)),
            cookie: self.0 as u64,
        })
    }

    /// The descriptor as a value. With more segments than `segments_max` it is an illegal one:
    /// those are not looked at.
    pub(crate) fn load(self, segments_max: u32) -> Descriptor {
        let value = self.control();
        let count = usize::from(value.segment_count);
        let mut operation = match value.control & control::OPERATION_MASK {
            control::SEND_RECEIVE => Operation::SendReceive,
            control::RDMA_WRITE => Operation::RdmaWrite,
            control::RDMA_READ => Operation::RdmaRead,
            _ => Operation::Illegal,
        };
        let is_remote = matches!(operation, Operation::RdmaWrite | Operation::RdmaRead);
        if value.control & control::RESERVED != 0 || count > segments_max as usize {
            operation = Operation::Illegal;
        }
        let data = |from: usize| -> Vec<DataSegment> {
            (from..count).map(|index| self.segment(index)).collect()
        };
        let segments = if operation == Operation::Illegal || count == 0 {
            Segments::none()
        } else if is_remote {
            let first = self.segment(0);
            let remote = RemoteSegment {
                address: first.address,
                handle: first.handle,
            };
            Segments::with_remote(remote, &data(1))
        } else if count == 1 {
            Segments::one(self.segment(0))
        } else {
            Segments::from_slice(&data(0))
        };
        let has_immediate = value.control & control::IMMEDIATE != 0;
        Descriptor {
            operation,
            queue_fence: value.control & control::QUEUE_FENCE != 0,
            immediate: has_immediate.then_some(value.immediate),
            length: value.length,
            segments,
            cookie: self.0 as u64,
        }
    }

    /// What a post writes: not complete, and followed by nothing yet.
    #[inline]
    pub(crate) fn store_posted(self, memory: &Elsewhere) {
        self.store_next_address(memory, 0, MemoryHandle::from_bits(0));
        self.store_status(memory, Status::PENDING);
    }

    /// Which descriptor was posted behind this one.
    #[inline]
    pub(crate) fn store_next(self, memory: &Elsewhere, next: Self, handle: MemoryHandle) {
        self.store_next_address(memory, Owner::plain(next.0 as u64), handle);
    }

    #[inline]
    fn store_next_address(self, memory: &Elsewhere, next: u64, handle: MemoryHandle) {
        if let Some(far) = self.far(memory, offset_of!(ControlSegment, next)) {
            let mut bytes = [0; 12];
            bytes[..8].copy_from_slice(&next.to_ne_bytes());
            bytes[8..].copy_from_slice(&handle.bits().to_ne_bytes());
            return far.write(&bytes);
        }
        let to: *mut ControlSegment = write_at(self.0);
        // SAFETY: by the promise to `new`: the descriptor is still the provider's.
        unsafe {
            (&raw mut (*to).next).write_volatile(next);
            (&raw mut (*to).next_handle).write_volatile(handle.bits());
        }
    }

    /// What a completion writes, the status last. Of a send that is the status alone.
    #[inline]
    pub(crate) fn store_completion(
        self,
        memory: &Elsewhere,
        completion: &Completion,
        is_receive: bool,
    ) {
        if is_receive && let Some(far) = self.far(memory, offset_of!(ControlSegment, length)) {
            far.write(&completion.length.to_ne_bytes());
            let place = self.far(memory, offset_of!(ControlSegment, immediate));
            if let (Some(immediate), Some(far)) = (completion.immediate, place) {
                far.write(&immediate.to_ne_bytes());
            }
            return self.store_status(memory, completion.status);
        }
        let to: *mut ControlSegment = write_at(self.0);
        if is_receive {
            // SAFETY: by the promise to `new`: the descriptor is still the provider's.
            unsafe {
                (&raw mut (*to).length).write_volatile(completion.length);
                if let Some(immediate) = completion.immediate {
                    (&raw mut (*to).immediate).write_volatile(immediate);
                }
            }
        }
        self.store_status(memory, completion.status);
    }

    #[inline]
    fn store_status(self, memory: &Elsewhere, status: Status) {
        if let Some(far) = self.far(memory, offset_of!(ControlSegment, status)) {
            return far.write(&status.bits().to_ne_bytes());
        }
        let word: *mut u32 = write_at(self.0 + offset_of!(ControlSegment, status));
        // SAFETY: by the promise to `new`; aligned with the descriptor. Release: pairs with the
        // acquire of a consumer that polls the status, which may then read the rest.
        unsafe { AtomicU32::from_ptr(word) }.store(status.bits(), Ordering::Release);
    }
}

/// A part of a descriptor in the memory of a program elsewhere.
struct Far<'a> {
    memory: &'a dyn MemoryElsewhere,
    owner: Owner,
    address: u64,
}

impl Far<'_> {
    #[cold]
    fn write(&self, bytes: &[u8]) {
        self.memory.write(self.owner, self.address, bytes);
    }
}

impl Place {
    /// What lies so many bytes from here, if this is in the memory of a program elsewhere.
    #[inline]
    fn far(self, elsewhere: &Elsewhere, offset: usize) -> Option<Far<'_>> {
        let (memory, owner, address) = find(elsewhere, self.0 as u64)?;
        Some(Far {
            memory,
            owner,
            address: address + offset as u64,
        })
    }
}

/// A descriptor of a program elsewhere, brought here to be read: once, as the program may change it
/// meanwhile. Its segments are named as the program's memory is.
pub(crate) struct Brought(Vec<u64>);

impl Brought {
    /// The one at a place, whose region has `room` bytes from there on, the control segment among
    /// them; none if it lies in this process.
    #[inline]
    pub(crate) fn from(
        place: Place,
        elsewhere: &Elsewhere,
        room: u64,
        segments_max: u32,
    ) -> Option<Self> {
        let far = place.far(elsewhere, 0)?;
        Some(Self::bring(&far, room, segments_max))
    }

    #[cold]
    fn bring(far: &Far<'_>, room: u64, segments_max: u32) -> Self {
        const WORD_BYTES: usize = size_of::<u64>();
        /// As a rule there is one segment.
        const FIRST_BYTES: usize = CONTROL_SEGMENT_BYTES + size_of::<Segment>();

        let mut brought = Self(Vec::new());
        let read_to = |bytes: usize, words: &mut Vec<u64>| {
            let from = words.len();
            words.resize(bytes / WORD_BYTES, 0);
            let mut part = vec![0; bytes - from * WORD_BYTES];
            let address = far.address + (from * WORD_BYTES) as u64;
            far.memory.read(far.owner, address, &mut part);
            for (word, bytes) in words[from..].iter_mut().zip(part.chunks_exact(WORD_BYTES)) {
                *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            }
        };
        let first = if room >= FIRST_BYTES as u64 {
            FIRST_BYTES
        } else {
            CONTROL_SEGMENT_BYTES
        };
        read_to(first, &mut brought.0);
        let count = usize::from(brought.place().segment_count());
        let bytes = CONTROL_SEGMENT_BYTES + count * size_of::<Segment>();
        if count <= segments_max as usize && bytes as u64 <= room && bytes > first {
            read_to(bytes, &mut brought.0);
        }
        // The first segment of a remote operation is of the peer's memory.
        let control = brought.place().control().control;
        let is_remote = control & control::OPERATION_MASK != control::SEND_RECEIVE;
        let segments = brought.0[CONTROL_SEGMENT_BYTES / WORD_BYTES..]
            .chunks_exact_mut(size_of::<Segment>() / WORD_BYTES);
        for segment in segments.skip(usize::from(is_remote)) {
            segment[0] = far.owner.name_written(segment[0]);
        }
        brought
    }

    /// Where it is now, to be read: with the segments that it counts, if the region has room for
    /// so many and they are not too many.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        Place(self.0.as_ptr().expose_provenance())
    }
}

/// Moves `length` bytes from one list of ranges to another, in order.
///
/// The last word becomes visible last: a consumer may poll it and then read what came before.
///
/// # Safety
///
/// Both lists hold that many bytes, in memory that is registered with the right to this access.
pub unsafe fn copy(from: &[DataSegment], to: &[DataSegment], length: usize) {
    let (mut sources, mut targets) = (from.iter(), to.iter());
    let (mut source, mut target) = ((0, 0), (0, 0));
    let mut rest = length;
    while rest > 0 {
        source = refill(source, &mut sources);
        target = refill(target, &mut targets);
        let part = source.1.min(target.1).min(rest);
        if part == 0 {
            // A list is shorter than promised: nothing beyond it is touched.
            return;
        }
        rest -= part;
        // SAFETY: inside both ranges, by the caller's promise.
        unsafe {
            if rest == 0 {
                copy_last(source.0, target.0, part);
            } else {
                read_at::<u8>(source.0).copy_to(write_at(target.0), part);
            }
        }
        source = (source.0 + part, source.1 - part);
        target = (target.0 + part, target.1 - part);
    }
}

/// Appends `length` bytes of a list of ranges to `into`.
///
/// # Safety
///
/// The ranges hold that many bytes, in memory that is registered with the right to this access.
pub unsafe fn gather(from: &[DataSegment], into: &mut Vec<u8>, length: usize) {
    into.reserve(length);
    let mut left = length;
    for segment in from {
        let bytes = left.min(segment.length as usize);
        let end = into.len();
        // SAFETY: the source by the caller's promise; the target was reserved, and has its length
        // when it is written.
        unsafe {
            let source = read_at::<u8>(segment.address as usize);
            let target = into.as_mut_ptr().add(end);
            target.copy_from_nonoverlapping(source, bytes);
            into.set_len(end + bytes);
        }
        left -= bytes;
    }
}

/// What is left of a range, or the next range that has bytes.
fn refill<'a>(
    mut range: (usize, usize),
    segments: &mut impl Iterator<Item = &'a DataSegment>,
) -> (usize, usize) {
    while range.1 == 0 {
        let Some(segment) = segments.next() else {
            break;
        };
        range = (segment.address as usize, segment.length as usize);
    }
    range
}

/// Copies the last part of a message so that its last word appears when all else is there.
///
/// # Safety
///
/// As [`copy`].
unsafe fn copy_last(from: usize, to: usize, length: usize) {
    let end = to + length;
    let word_bytes = match length {
        8.. if end.is_multiple_of(8) => 8,
        4.. if end.is_multiple_of(4) => 4,
        _ => 1,
    };
    let before = length - word_bytes;
    // SAFETY: inside both ranges, by the caller's promise; the word is aligned at its target. The
    // last word is read before anything is written, since the ranges may overlap.
    unsafe {
        let mut last = [0; 8];
        read_at::<u8>(from + before).copy_to_nonoverlapping(last.as_mut_ptr(), word_bytes);
        read_at::<u8>(from).copy_to(write_at(to), before);
        // Pairs with the acquire of whoever polls the last word.
        fence(Ordering::Release);
        match word_bytes {
            8 => AtomicU64::from_ptr(write_at(to + before))
                .store(u64::from_ne_bytes(last), Ordering::Release),
            4 => AtomicU32::from_ptr(write_at(to + before)).store(
                u32::from_ne_bytes([last[0], last[1], last[2], last[3]]),
                Ordering::Release,
            ),
            _ => AtomicU8::from_ptr(write_at(to + before)).store(last[0], Ordering::Release),
        }
    }
}

/// Zeroed memory that was allocated for the consumer. Dropped with the fabric at the latest.
#[derive(Debug)]
pub(crate) struct SharedBlock {
    address: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is memory, and nothing is reached through it but by its address.
unsafe impl Send for SharedBlock {}

impl SharedBlock {
    /// `None` when there is no memory. The layout has at least one byte.
    pub(crate) fn new(layout: Layout) -> Option<Self> {
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: the layout has a size.
        let address = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { address, layout })
    }

    pub(crate) const fn address(&self) -> NonNull<u8> {
        self.address
    }

    pub(crate) const fn length(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for SharedBlock {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout. Whoever frees it promises that nothing
        // uses it; when the fabric is dropped, nothing can be registered or posted any more.
        unsafe { dealloc(self.address.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(parts: &mut [&mut [u8]]) -> Vec<DataSegment> {
        parts
            .iter_mut()
            .map(|part| DataSegment {
                address: part.as_mut_ptr().expose_provenance() as u64,
                handle: MemoryHandle::from_bits(1),
                length: part.len() as u32,
            })
            .collect()
    }

    #[test]
    fn bytes_keep_their_order_between_ranges_of_other_sizes() {
        for (from_sizes, to_sizes) in [
            (vec![10], vec![3, 7]),
            (vec![3, 7], vec![10]),
            (vec![1, 0, 9], vec![0, 5, 0, 5]),
            (vec![4, 4, 4], vec![12]),
            (vec![8], vec![20]),
        ] {
            let total: usize = from_sizes.iter().sum();
            let mut source: Vec<u8> = (0..total as u8).collect();
            let mut target = vec![0xFF_u8; to_sizes.iter().sum()];
            let split = |bytes: &mut [u8], sizes: &[usize]| {
                let mut rest = bytes;
                let mut parts = Vec::new();
                for size in sizes {
                    let (part, after) = rest.split_at_mut(*size);
                    parts.push(part);
                    rest = after;
                }
                segments(&mut parts)
            };
            let (from, to) = (
                split(&mut source, &from_sizes),
                split(&mut target, &to_sizes),
            );
            // SAFETY: both lists are made of vectors that live.
            unsafe { copy(&from, &to, total) };
            assert_eq!(target[..total], source[..]);
            assert!(target[total..].iter().all(|byte| *byte == 0xFF));
        }
    }

    #[test]
    fn ranges_that_overlap_are_copied_as_they_were() {
        let mut bytes: Vec<u8> = (0..64).collect();
        let address = bytes.as_mut_ptr().expose_provenance() as u64;
        let range = |offset: u64| {
            [DataSegment {
                address: address + offset,
                handle: MemoryHandle::from_bits(1),
                length: 40,
            }]
        };
        // SAFETY: inside the vector.
        unsafe { copy(&range(0), &range(8), 40) };
        assert_eq!(bytes[8..48], (0..40).collect::<Vec<u8>>()[..]);
    }
}
