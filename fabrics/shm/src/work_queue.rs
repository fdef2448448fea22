//! A work queue: the descriptors of one side of a VI, in the order of their posting.
//!
//! A descriptor is read once, when it is posted; what later steps need is kept in an entry, since a
//! peer may be able to write the memory in which the descriptor lies. Entries are private, and one
//! is one cache line.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use viaduct_core::{Operation, Status};
use viaduct_provider::{CONTROL_SEGMENT_BYTES, Descriptor, Segment, control};

/// Entries of a queue before it first grows.
const FIRST_ENTRIES: usize = 2;
/// Bytes of one data segment in a descriptor.
const SEGMENT_BYTES: u64 = 16;

/// One posted descriptor.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub(crate) descriptor: NonNull<Descriptor>,
    /// The first data segment.
    pub(crate) first: Segment,
    /// Sum of the data segments; more than fit are a fault on a send and do not count on a receive.
    pub(crate) bytes: u32,
    pub(crate) immediate: u32,
    pub(crate) descriptor_handle: u32,
    /// The region table's epoch at which the ranges were checked.
    pub(crate) epoch: u32,
    /// Segments past the first, and the remote range; most descriptors have none.
    more: Option<Box<More>>,
    /// The slot after the message's last, once it is sent; its receiver's counter passes it. Of a
    /// receive that runs past a region: how many bytes of a message do not.
    pub(crate) sent_until: u32,
    /// Segments in the descriptor, the remote range included.
    segment_count: u16,
    /// The control word.
    control: u16,
    /// While pending, the error bits that it will complete with; then all of its status.
    pub(crate) status: Status,
    /// The error bits found when it was posted, and whatever else makes it no simple one:
    /// `RUNS_PAST`, `HAS_MORE`, `IS_LOST`.
    marks: u16,
    /// Whether it completes only when its receiver has used it.
    pub(crate) awaits: bool,
    /// 0: with those before a word, which is set at once.
    rest: u8,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// The receive runs past a region of its own.
const RUNS_PAST: u16 = 1 << 15;
/// There is more than one segment.
const HAS_MORE: u16 = 1 << 14;
/// Its memory was deregistered: nothing can be written into the descriptor.
const IS_LOST: u16 = 1 << 13;
/// The error bits of a fault.
const FAULT_MASK: u16 = Status::ERROR_MASK.bits() as u16;
const _: () = assert!(FAULT_MASK as u32 == Status::ERROR_MASK.bits());
const _: () = assert!(FAULT_MASK & (RUNS_PAST | HAS_MORE | IS_LOST) == 0);

// SAFETY: the descriptor is the provider's alone until it is handed back, in whatever thread.
unsafe impl Send for Entry {}

/// The rest of a descriptor with more than one segment.
#[derive(Debug)]
struct More {
    /// The second data segment.
    second: Option<Segment>,
    /// Those after it.
    rest: Vec<Segment>,
    /// Target of a remote operation.
    remote: Option<Segment>,
}

/// The words of a descriptor's control segment that say what it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) segment_count: u16,
    pub(crate) control: u16,
}

/// The other words that a send's consumer writes there.
///
/// # Safety
///
/// The control segment is readable.
#[inline(always)]
pub(crate) unsafe fn immediate_and_length(descriptor: NonNull<Descriptor>) -> (u32, u32) {
    // SAFETY: the caller's promise. Each word by itself and once: the consumer has just written
    // them so, and others may write them meanwhile.
    unsafe {
        let head = &raw const (*descriptor.as_ptr()).control;
        let immediate = (&raw const (*head).immediate).read_volatile();
        (immediate, (&raw const (*head).length).read_volatile())
    }
}

impl Head {
    /// # Safety
    ///
    /// The control segment is readable.
    #[inline(always)]
    pub(crate) unsafe fn read(descriptor: NonNull<Descriptor>) -> Self {
        // SAFETY: as above.
        unsafe {
            let head = &raw const (*descriptor.as_ptr()).control;
            Self {
                segment_count: (&raw const (*head).segment_count).read_volatile(),
                control: (&raw const (*head).control).read_volatile(),
            }
        }
    }

    /// Whether it is a message's, of an operation that a work queue knows.
    #[inline(always)]
    pub(crate) const fn is_message(self) -> bool {
        self.control & (control::RESERVED | control::OPERATION_MASK) == control::SEND_RECEIVE
    }

    #[inline(always)]
    pub(crate) const fn operation(self) -> Operation {
        asked(self.control)
    }

    #[inline(always)]
    pub(crate) const fn has_immediate(self) -> bool {
        self.control & control::IMMEDIATE != 0
    }

    pub(crate) const fn has_fence(self) -> bool {
        self.control & control::QUEUE_FENCE != 0
    }
}

/// What a control word asks for.
#[inline(always)]
const fn asked(word: u16) -> Operation {
    if word & control::RESERVED != 0 {
        return Operation::Illegal;
    }
    operation(word)
}

/// The same of a word in which no reserved bit is set.
#[inline(always)]
const fn operation(word: u16) -> Operation {
    match word & control::OPERATION_MASK {
        control::SEND_RECEIVE => Operation::SendReceive,
        control::RDMA_WRITE => Operation::RdmaWrite,
        control::RDMA_READ => Operation::RdmaRead,
        _ => Operation::Illegal,
    }
}

/// Segment `index` of a descriptor.
///
/// # Safety
///
/// It is readable.
#[inline(always)]
pub(crate) unsafe fn segment(descriptor: NonNull<Descriptor>, index: u32) -> Segment {
    // SAFETY: the caller's promise; segments follow the control segment.
    unsafe {
        let first = descriptor.as_ptr().cast::<u8>().add(CONTROL_SEGMENT_BYTES);
        let at = first.cast::<Segment>().add(index as usize);
        Segment {
            address: (&raw const (*at).address).read_volatile(),
            handle: (&raw const (*at).handle).read_volatile(),
            length: (&raw const (*at).length).read_volatile(),
        }
    }
}

impl Entry {
    const EMPTY: Self = Self {
        descriptor: NonNull::dangling(),
        first: Segment {
            address: 0,
            handle: 0,
            length: 0,
        },
        bytes: 0,
        immediate: 0,
        descriptor_handle: 0,
        epoch: 0,
        more: None,
        sent_until: 0,
        segment_count: 0,
        control: 0,
        status: Status::PENDING,
        marks: 0,
        awaits: false,
        rest: 0,
    };

    /// Takes a descriptor over, all but its immediate data and its segments.
    #[inline(always)]
    pub(crate) fn set(
        &mut self,
        descriptor: NonNull<Descriptor>,
        handle: u32,
        head: Head,
        epoch: u32,
    ) {
        self.set_receive(descriptor, handle, head, epoch);
        self.control = head.control;
        self.first = Segment::default();
        self.bytes = 0;
    }

    /// Takes a receive over, all but its segments: of the control word nothing is asked later.
    #[inline(always)]
    pub(crate) fn set_receive(
        &mut self,
        descriptor: NonNull<Descriptor>,
        handle: u32,
        head: Head,
        epoch: u32,
    ) {
        self.descriptor = descriptor;
        self.descriptor_handle = handle;
        self.segment_count = head.segment_count;
        self.epoch = epoch;
        self.status = Status::PENDING;
        (self.marks, self.awaits, self.rest) = (0, false, 0);
    }

    /// Whether nothing is wrong with it and it has one segment at most.
    #[inline(always)]
    pub(crate) const fn is_simple(&self) -> bool {
        self.marks == 0
    }

    /// Takes its segments over; the sum of the data segments. The format is right.
    ///
    /// # Safety
    ///
    /// Its segments are readable.
    #[inline(always)]
    pub(crate) unsafe fn set_segments(&mut self, operation: Operation) -> u64 {
        let count = u32::from(self.segment_count);
        if count == 1 && matches!(operation, Operation::SendReceive) {
            // SAFETY: the caller's promise.
            self.first = unsafe { segment(self.descriptor, 0) };
            self.bytes = self.first.length;
            return self.bytes.into();
        }
        // SAFETY: the caller's promise.
        unsafe { self.set_many_segments(operation, count) }
    }

    #[cold]
    unsafe fn set_many_segments(&mut self, operation: Operation, count: u32) -> u64 {
        let descriptor = self.descriptor;
        // SAFETY: the caller's promise.
        let at = |index| unsafe { segment(descriptor, index) };
        let mut next = 0;
        let mut remote = None;
        if !matches!(operation, Operation::SendReceive) {
            remote = Some(at(0));
            next = 1;
        }
        let mut sum = 0;
        if next < count {
            self.first = at(next);
            sum = u64::from(self.first.length);
            next += 1;
        }
        let second = (next < count).then(|| at(next));
        let rest: Vec<Segment> = (next + 1..count).map(at).collect();
        sum += second
            .iter()
            .chain(&rest)
            .map(|segment| u64::from(segment.length))
            .sum::<u64>();
        if remote.is_some() || second.is_some() {
            self.more = Some(Box::new(More {
                second,
                rest,
                remote,
            }));
            self.marks |= HAS_MORE;
        }
        self.bytes = u32::try_from(sum).unwrap_or(u32::MAX);
        sum
    }

    #[cold]
    fn forget_more(&mut self) {
        self.more = None;
    }

    #[inline(always)]
    pub(crate) const fn operation(&self) -> Operation {
        operation(self.control)
    }

    #[inline(always)]
    pub(crate) const fn has_immediate(&self) -> bool {
        self.control & control::IMMEDIATE != 0
    }

    pub(crate) const fn has_fence(&self) -> bool {
        self.control & control::QUEUE_FENCE != 0
    }

    /// What was wrong with it when it was posted.
    #[inline(always)]
    pub(crate) const fn fault(&self) -> Status {
        Status::from_bits((self.marks & FAULT_MASK) as u32)
    }

    #[inline(always)]
    pub(crate) const fn set_fault(&mut self, fault: Status) {
        self.marks = self.marks & (HAS_MORE | IS_LOST) | fault.bits() as u16;
    }

    /// Whether its memory was deregistered: nothing can be written into the descriptor.
    pub(crate) const fn is_lost(&self) -> bool {
        self.marks & IS_LOST != 0
    }

    /// Says so, or the opposite.
    pub(crate) const fn set_lost(&mut self, is_lost: bool) {
        self.marks = self.marks & !IS_LOST | if is_lost { IS_LOST } else { 0 };
    }

    /// Whether it takes any message that is as long as its segments together.
    #[inline(always)]
    pub(crate) const fn is_sound(&self) -> bool {
        self.marks & (FAULT_MASK | RUNS_PAST) == 0
    }

    /// How many bytes of a message a receive without fault takes in before it leaves its regions.
    pub(crate) const fn reach(&self) -> u32 {
        if self.marks & RUNS_PAST == 0 {
            self.bytes
        } else {
            self.sent_until
        }
    }

    /// Says that of a receive.
    pub(crate) const fn set_reach(&mut self, bytes: u32) {
        self.marks |= RUNS_PAST;
        self.sent_until = bytes;
    }

    /// Target of a remote operation.
    pub(crate) fn remote(&self) -> Option<Segment> {
        self.more.as_ref().and_then(|more| more.remote)
    }

    /// The data segments, in order.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let more = self.more.as_ref();
        let second = more.and_then(|more| more.second);
        let rest = more.map_or(&[][..], |more| &more.rest);
        std::iter::once(self.first)
            .chain(second)
            .chain(rest.iter().copied())
    }

    /// Whether all bytes lie in the first data segment.
    #[inline(always)]
    pub(crate) fn is_single(&self) -> bool {
        self.more.as_ref().is_none_or(|more| more.second.is_none())
    }

    /// Calls `piece(address, offset from start, bytes)` for the message's bytes from `start` on,
    /// `bytes` of them or as many as there are.
    #[inline(always)]
    pub(crate) fn each_piece(
        &self,
        start: u64,
        bytes: u64,
        mut piece: impl FnMut(*mut u8, u64, usize),
    ) {
        if self.is_single() {
            let length = bytes.min(u64::from(self.first.length).saturating_sub(start));
            if length > 0 {
                piece((self.first.address + start) as *mut u8, 0, length as usize);
            }
            return;
        }
        let mut skip = start;
        let mut done = 0;
        for segment in self.segments() {
            let length = u64::from(segment.length);
            if skip >= length {
                skip -= length;
                continue;
            }
            let take = (length - skip).min(bytes - done);
            if take == 0 {
                break;
            }
            piece((segment.address + skip) as *mut u8, done, take as usize);
            done += take;
            skip = 0;
        }
    }

    /// Bytes of the descriptor itself.
    pub(crate) const fn descriptor_bytes(&self) -> u64 {
        CONTROL_SEGMENT_BYTES as u64 + SEGMENT_BYTES * self.segment_count as u64
    }

    /// What it asks for, well formed or not.
    #[inline(always)]
    pub(crate) const fn asks_for(&self) -> Operation {
        asked(self.control)
    }

    /// Writes the completion into the descriptor, status last.
    #[inline(always)]
    pub(crate) fn write_completion(
        &mut self,
        status: Status,
        received: Option<(u32, Option<u32>)>,
    ) {
        self.status = status;
        let head = self.descriptor.as_ptr().cast::<u8>();
        // SAFETY: the descriptor is the provider's until it is handed back, writable, 64-aligned;
        // length, immediate and status lie at these offsets of the control segment.
        unsafe {
            if let Some((length, immediate)) = received {
                head.add(24).cast::<u32>().write_volatile(length);
                if let Some(immediate) = immediate {
                    head.add(20).cast::<u32>().write_volatile(immediate);
                }
            }
            AtomicU32::from_ptr(head.add(28).cast()).store(status.bits(), Ordering::Release);
        }
    }
}

/// The queue. Numbers count descriptors since the VI was made, and wrap.
///
/// ```text
/// head ... complete, not taken ... done ... begun, not complete ... begun ... waiting ... tail
/// ```
#[derive(Debug)]
pub(crate) struct WorkQueue {
    entries: Vec<Entry>,
    /// The number of entries less one, in a queue that has some.
    mask: u32,
    pub(crate) head: u32,
    pub(crate) done: u32,
    /// On a send queue: the first that was not sent. On a receive queue equal to `done`.
    pub(crate) begun: u32,
    pub(crate) tail: u32,
    /// So many descriptors have a place, and may be posted.
    places: u32,
    /// So many may be posted.
    descriptors_max: u32,
    /// The descriptor that was appended last.
    last: NonNull<Descriptor>,
}

impl Default for WorkQueue {
    fn default() -> Self {
        Self::new(0)
    }
}

impl WorkQueue {
    /// One that takes so many descriptors.
    pub(crate) const fn new(descriptors_max: u32) -> Self {
        Self {
            entries: Vec::new(),
            mask: 0,
            head: 0,
            done: 0,
            begun: 0,
            tail: 0,
            places: 0,
            descriptors_max,
            last: NonNull::dangling(),
        }
    }

    #[inline(always)]
    const fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    /// Whether no more may be posted.
    pub(crate) const fn is_full(&self) -> bool {
        self.len() >= self.descriptors_max
    }

    /// Whether there is one to take.
    #[inline(always)]
    pub(crate) const fn has_complete(&self) -> bool {
        self.head != self.done
    }

    /// Whether one more than there are may be posted, and has a place already.
    #[inline(always)]
    pub(crate) const fn has_place(&self) -> bool {
        self.len() < self.places
    }

    /// The place of descriptor `number`.
    ///
    /// # Safety
    ///
    /// There are places.
    #[inline(always)]
    pub(crate) unsafe fn place(&mut self, number: u32) -> &mut Entry {
        debug_assert!((number & self.mask) as usize <= self.entries.len().wrapping_sub(1));
        // SAFETY: the number of entries, not 0, is a power of two, and `mask` is one less.
        unsafe {
            self.entries
                .get_unchecked_mut((number & self.mask) as usize)
        }
    }

    /// Appends a descriptor that is complete, to a queue in which nothing is pending.
    ///
    /// # Safety
    ///
    /// As [`WorkQueue::append`].
    #[inline(always)]
    pub(crate) unsafe fn push_complete(&mut self, descriptor: NonNull<Descriptor>, status: Status) {
        // SAFETY: there is a place.
        let entry = unsafe { self.place(self.tail) };
        entry.descriptor = descriptor;
        unlink(descriptor);
        entry.write_completion(status, None);
        self.tail = self.tail.wrapping_add(1);
        self.begun = self.tail;
        self.done = self.tail;
    }

    /// Appends a descriptor whose entry is set: marks it as pending and links it behind the one
    /// before.
    ///
    /// # Safety
    ///
    /// There is a place, and the descriptor is as [`viaduct_provider::Provider::post_send`] wants
    /// it.
    #[inline(always)]
    pub(crate) unsafe fn append(&mut self, descriptor: NonNull<Descriptor>, handle: u32) {
        let tail = self.tail;
        unlink(descriptor);
        let head = descriptor.as_ptr().cast::<u8>();
        // SAFETY: both descriptors are the provider's now, writable and aligned to 64: Next,
        // NextHandle and Status lie at 0, 8 and 28.
        unsafe {
            AtomicU32::from_ptr(head.add(28).cast()).store(0, Ordering::Relaxed);
            if tail != self.done {
                let before = self.last.as_ptr().cast::<u8>();
                before.cast::<u64>().write_volatile(head.addr() as u64);
                before.add(8).cast::<u32>().write_volatile(handle);
            }
        }
        self.last = descriptor;
        self.tail = tail.wrapping_add(1);
    }

    /// The place of the next descriptor, which [`WorkQueue::push`] makes part of the queue.
    #[inline(always)]
    pub(crate) fn next_place(&mut self) -> &mut Entry {
        if self.len() as usize == self.entries.len() {
            self.grow();
        }
        // SAFETY: there is one now.
        unsafe { self.place(self.tail) }
    }

    /// Appends what was put into [`WorkQueue::next_place`].
    #[inline]
    pub(crate) fn push(&mut self) {
        let entry = self.next_place();
        let (descriptor, handle) = (entry.descriptor, entry.descriptor_handle);
        // SAFETY: it is the one that was made just now; what it holds was checked.
        unsafe { self.append(descriptor, handle) };
    }

    #[cold]
    fn grow(&mut self) {
        let old = self.entries.len();
        let new = (2 * old).max(FIRST_ENTRIES);
        let mut entries: Vec<Entry> = (0..new).map(|_| Entry::EMPTY).collect();
        let mut number = self.head;
        while number != self.tail {
            let from = &mut self.entries[number as usize & (old - 1)];
            entries[number as usize & (new - 1)] = std::mem::replace(from, Entry::EMPTY);
            number = number.wrapping_add(1);
        }
        self.entries = entries;
        self.mask = new as u32 - 1;
        self.places = self.descriptors_max.min(new as u32);
    }

    /// Entry `number`, one between head and tail.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&Entry> {
        self.entries.get((number & self.mask) as usize)
    }

    /// The same.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Entry> {
        self.entries.get_mut((number & self.mask) as usize)
    }

    /// Takes the oldest if it is complete: the descriptor and its status.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<(NonNull<Descriptor>, Status)> {
        if !self.has_complete() {
            return None;
        }
        // SAFETY: there is one, so there are places.
        let entry = unsafe { self.place(self.head) };
        if entry.more.is_some() {
            entry.forget_more();
        }
        let taken = (entry.descriptor, entry.status);
        self.head = self.head.wrapping_add(1);
        Some(taken)
    }

    /// The same of one that has no more than one segment.
    #[inline(always)]
    pub(crate) fn take_simple(&mut self) -> Option<(NonNull<Descriptor>, Status)> {
        if !self.has_complete() {
            return None;
        }
        // SAFETY: there is one, so there are places.
        let entry = unsafe { self.place(self.head) };
        if entry.more.is_some() {
            return None;
        }
        let taken = (entry.descriptor, entry.status);
        self.head = self.head.wrapping_add(1);
        Some(taken)
    }
}

/// Says in a descriptor that none was posted after it.
#[inline(always)]
fn unlink(descriptor: NonNull<Descriptor>) {
    let head = descriptor.as_ptr().cast::<u8>();
    // SAFETY: as in `append`.
    unsafe {
        head.cast::<u64>().write_volatile(0);
        head.add(8).cast::<u32>().write_volatile(0);
    }
}
