//! The short way of most messages: one segment or none, one slot, nothing unusual.
//!
//! What is unusual, or not as it should be, is left untouched for the long way (`side`, `send`,
//! `receive`), which does and checks the same and more. A step here finds in one look at an entry
//! what takes the long way several, and writes each word once. The calls of a program go it without
//! calling anything, so that they need no stack.

use std::hint::assert_unchecked;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use viaduct_core::{MemoryHandle, Operation, Queue, Status};
use viaduct_provider::{Descriptor, Segment};

use crate::channel::{FIRST_PAYLOAD_BYTES, Header, Kind, flag};
use crate::copy;
use crate::receive::ReceiveSide;
use crate::send::{Outgoing, SendSide};
use crate::side::Side;
use crate::work_queue::{Head, immediate_and_length, segment};

/// Whether somebody waits to be told of the slot of a message that was sent.
type IsWaitedFor = bool;
/// Whether the sender was told of a receive that was posted.
type IsTold = bool;

/// A descriptor that the short way takes, as it was read.
struct Simple {
    descriptor: NonNull<Descriptor>,
    head: Head,
    /// Its data, in the region that was used last.
    segment: Segment,
    /// The region table's epoch at which it was checked.
    epoch: u32,
}

impl Side {
    /// Reads and checks a descriptor, as [`Side::post`] does, for which there is room.
    ///
    /// # Safety
    ///
    /// As [`viaduct_provider::Provider::post_send`].
    #[inline(always)]
    unsafe fn simple(&self, descriptor: *mut Descriptor, handle: u32) -> Option<Simple> {
        let epoch = self.epoch();
        let address = descriptor.addr() as u64;
        if !self.descriptors.covers_descriptor(epoch, handle, address) || !self.queue.has_place() {
            return None;
        }
        // SAFETY: no region covers a descriptor at 0.
        let descriptor = unsafe { NonNull::new_unchecked(descriptor) };
        // SAFETY: registered memory is readable.
        let head = unsafe { Head::read(descriptor) };
        if !head.is_message() || head.segment_count >= self.simple_segments_end {
            return None;
        }
        // SAFETY: the first of the segments that the checked bytes hold.
        let mut data = unsafe { segment(descriptor, 0) };
        // Of none the bytes are none, whatever stands there.
        data.length &= u32::from(head.segment_count).wrapping_neg();
        let (handle, address) = (data.handle, data.address);
        let length = u64::from(data.length);
        if length > 0 && !self.buffers.covers(epoch, handle, address, length) {
            return None;
        }
        Some(Simple {
            descriptor,
            head,
            segment: data,
            epoch,
        })
    }

    /// Puts a receive on the queue that was read and checked just now.
    #[inline(always)]
    fn append_receive(&mut self, handle: u32, simple: &Simple) {
        // SAFETY: there is a place, and the descriptor lies in registered memory.
        unsafe {
            let entry = self.queue.place(self.queue.tail);
            entry.set_receive(simple.descriptor, handle, simple.head, simple.epoch);
            entry.first = simple.segment;
            entry.bytes = simple.segment.length;
            self.queue.append(simple.descriptor, handle);
        }
    }
}

/// How a send on the short way ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// It is sent and complete.
    Sent,
    /// There is no slot for it now.
    Waits,
    /// Nothing was done: the long way is its.
    Long,
}

impl Outgoing {
    /// Puts a message into the next slot. The slot is free. Whether somebody waits to be told.
    ///
    /// # Safety
    ///
    /// `source` has `bytes` readable bytes, fewer than `simple_bytes_end`.
    #[inline(always)]
    unsafe fn put(
        &mut self,
        source: u64,
        bytes: u32,
        immediate: Option<u32>,
        posted: u32,
        flags: u8,
    ) -> IsWaitedFor {
        let payload = self.direction.payload(self.next);
        // SAFETY: the caller's promise; a slot has as many bytes.
        unsafe {
            assert_unchecked(bytes <= FIRST_PAYLOAD_BYTES as u32);
            copy::copy(payload, source as *const u8, bytes as usize);
        }
        let flags = match immediate {
            Some(_) => flags | flag::IMMEDIATE,
            None => flags,
        };
        let immediate = immediate.unwrap_or(0);
        let is_waited_for = self.fill(Kind::Inline, flags, bytes, immediate, posted, 1);
        self.messages = self.messages.wrapping_add(1);
        self.counts.inline += 1;
        self.counts.bytes += u64::from(bytes);
        is_waited_for
    }
}

impl SendSide {
    /// Posts, sends and completes a descriptor before which none is pending. Whoever waits for that
    /// is told when `TELLS`; else it goes the long way. `None`: nothing was done.
    ///
    /// # Safety
    ///
    /// As [`viaduct_provider::Provider::post_send`].
    #[inline(always)]
    pub(crate) unsafe fn post_simple<const TELLS: bool>(
        &mut self,
        descriptor: *mut Descriptor,
        memory: MemoryHandle,
        credit: &AtomicU32,
        posted: &AtomicU32,
    ) -> Option<IsWaitedFor> {
        let (side, out) = (&mut self.side, self.out.as_mut()?);
        // SAFETY: the caller's promise.
        let simple = unsafe { side.simple(descriptor, memory.bits())? };
        // SAFETY: as its head.
        let (immediate, length) = unsafe { immediate_and_length(simple.descriptor) };
        let bytes = simple.segment.length;
        if length != bytes
            || bytes >= out.simple_bytes_end
            || side.queue.done != side.queue.tail
            || !TELLS && side.has_listeners()
        {
            return None;
        }
        // With nothing pending there is nothing to wait for, fence or not.
        if !out.has_credit(credit.load(Ordering::Relaxed)) || !out.has_room(1) {
            return None;
        }
        let immediate = simple.head.has_immediate().then_some(immediate);
        let posted = posted.load(Ordering::Relaxed);
        // SAFETY: the source was checked just now, and there is room.
        let is_waited_for = unsafe { out.put(simple.segment.address, bytes, immediate, posted, 0) };
        let status = Status::sent(Operation::SendReceive, Status::PENDING);
        // SAFETY: as in `append_receive`.
        unsafe { side.queue.push_complete(simple.descriptor, status) };
        if TELLS {
            side.announce(Queue::Send);
        }
        Some(is_waited_for)
    }

    /// Posts and sends a descriptor, before which none waits to be sent; it is complete when its
    /// receiver has used it. `false`: nothing was done.
    ///
    /// # Safety
    ///
    /// As [`viaduct_provider::Provider::post_send`].
    pub(crate) unsafe fn post_acknowledged(
        &mut self,
        descriptor: *mut Descriptor,
        memory: MemoryHandle,
        credit: u32,
        posted: u32,
    ) -> bool {
        let (side, Some(out)) = (&mut self.side, self.out.as_mut()) else {
            return false;
        };
        // SAFETY: the caller's promise.
        let Some(simple) = (unsafe { side.simple(descriptor, memory.bits()) }) else {
            return false;
        };
        // SAFETY: as its head.
        let (immediate, length) = unsafe { immediate_and_length(simple.descriptor) };
        let bytes = simple.segment.length;
        if length != bytes
            || bytes >= out.acknowledged_bytes_end
            || side.queue.begun != side.queue.tail
            || simple.head.has_fence() && out.has_reads()
            || !out.has_credit(credit)
            || !out.has_room(1)
        {
            return false;
        }
        let (source, acknowledge) = (simple.segment.address, flag::ACKNOWLEDGE);
        let sent = simple.head.has_immediate().then_some(immediate);
        // SAFETY: the source was checked just now, and there is room.
        if unsafe { out.put(source, bytes, sent, posted, acknowledge) } {
            out.notify();
        }
        // SAFETY: as in `append_receive`.
        unsafe {
            let entry = side.queue.place(side.queue.tail);
            entry.set(simple.descriptor, memory.bits(), simple.head, simple.epoch);
            (entry.first, entry.bytes, entry.immediate) = (simple.segment, bytes, immediate);
            (entry.awaits, entry.sent_until) = (true, out.next);
            side.queue.append(simple.descriptor, memory.bits());
        }
        side.queue.begun = side.queue.tail;
        true
    }

    /// Sends and completes descriptor `number`, the oldest that is not complete.
    #[inline(always)]
    pub(crate) fn transmit_simple(&mut self, number: u32, credit: u32, posted: u32) -> Way {
        let (side, Some(out)) = (&mut self.side, self.out.as_mut()) else {
            return Way::Long;
        };
        let epoch = side.epoch();
        let is_oldest = side.queue.done == number;
        let Some(entry) = side.queue.get_mut(number) else {
            return Way::Long;
        };
        if !is_oldest
            || entry.epoch != epoch
            || !entry.is_simple()
            || !matches!(entry.operation(), Operation::SendReceive)
            || entry.has_fence()
            || entry.bytes >= out.simple_bytes_end
            || !out.has_credit(credit)
        {
            return Way::Long;
        }
        if !out.has_room(1) {
            return Way::Waits;
        }
        let immediate = entry.has_immediate().then_some(entry.immediate);
        // SAFETY: the source was checked when it was posted, and nothing has changed since; there
        // is room.
        if unsafe { out.put(entry.first.address, entry.bytes, immediate, posted, 0) } {
            out.notify();
        }
        entry.write_completion(Status::sent(Operation::SendReceive, Status::PENDING), None);
        side.queue.done = number.wrapping_add(1);
        side.queue.begun = side.queue.done;
        side.announce(Queue::Send);
        Way::Sent
    }
}

impl ReceiveSide {
    /// Posts a receive, and tells the sender of it where that needs no cookie. `None`: nothing was
    /// done.
    ///
    /// # Safety
    ///
    /// As [`viaduct_provider::Provider::post_send`].
    #[inline(always)]
    pub(crate) unsafe fn post_simple(
        &mut self,
        descriptor: *mut Descriptor,
        memory: MemoryHandle,
        own_posted: &AtomicU32,
    ) -> Option<IsTold> {
        let (side, incoming) = (&mut self.side, self.incoming.as_mut()?);
        // SAFETY: the caller's promise.
        let simple = unsafe { side.simple(descriptor, memory.bits())? };
        let bytes = simple.segment.length;
        side.append_receive(memory.bits(), &simple);
        if incoming.cookies != incoming.posted || bytes >= incoming.cookie_from_bytes {
            return Some(false);
        }
        let posted = incoming.posted.wrapping_add(1);
        (incoming.posted, incoming.cookies) = (posted, posted);
        incoming.counts.indexes += 1;
        own_posted.store(posted, Ordering::Relaxed);
        kill_point!();
        incoming.direction.posted().store(posted, Ordering::Release);
        Some(true)
    }

    /// Completes the oldest receive with the message of the next slot, whose header was read, and
    /// whose payload lies there. Whoever waits for that is told when `TELLS`. Else such a message
    /// goes the long way, and so does one after which cookies are to be written; and the receive,
    /// before which none is complete, is taken.
    /// `None`: nothing was done.
    #[inline(always)]
    pub(crate) fn take_simple<const TELLS: bool>(
        &mut self,
        header: Header,
        immediate: Option<u32>,
        payload: *const u8,
    ) -> Option<NonNull<Descriptor>> {
        let (side, incoming) = (&mut self.side, self.incoming.as_mut()?);
        let (number, bytes) = (side.queue.done, header.length);
        if number == side.queue.tail || bytes > FIRST_PAYLOAD_BYTES as u32 {
            return None;
        }
        if !TELLS && (side.has_listeners() || incoming.cookies != incoming.posted) {
            return None;
        }
        let epoch = side.epoch();
        // SAFETY: it is pending.
        let entry = unsafe { side.queue.place(number) };
        if entry.epoch != epoch || !entry.is_simple() || bytes > entry.bytes {
            return None;
        }
        // SAFETY: the receive's only range was checked, has as many bytes, and is the provider's;
        // the slot has them, too.
        unsafe { copy::copy(entry.first.address as *mut u8, payload, bytes as usize) };
        let has_immediate = immediate.is_some();
        let status = Status::received(Operation::SendReceive, Status::PENDING, has_immediate);
        entry.write_completion(status, Some((bytes, immediate)));
        let descriptor = entry.descriptor;
        let next = number.wrapping_add(1);
        (side.queue.done, side.queue.begun) = (next, next);
        if TELLS {
            side.announce(Queue::Receive);
        } else {
            side.queue.head = next;
        }
        incoming.counts.received += 1;
        incoming.advance(1, header.flags & flag::ACKNOWLEDGE != 0);
        if TELLS && incoming.cookies != incoming.posted {
            self.write_cookies();
        }
        Some(descriptor)
    }
}
