//! The short way of most messages: one segment or none, one slot, nothing unusual.
//!
//! What is unusual, or not as it should be, is left untouched for the long way (`side`, `send`,
//! `receive`), which does and checks the same and more. A step here finds in one look at an entry
//! what takes the long way several, and writes each word once.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use viaduct_fabric::{Descriptor, Segment};
use viaduct_via::{MemoryHandle, Operation, Queue, Status};

use crate::channel::{FIRST_PAYLOAD_BYTES, Header, Kind, flag};
use crate::copy;
use crate::receive::ReceiveSide;
use crate::send::{Outgoing, SendSide};
use crate::side::Side;
use crate::work_queue::{Head, segment};

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
    /// As [`viaduct_fabric::Provider::post_send`].
    #[inline(always)]
    unsafe fn simple(&self, descriptor: *mut Descriptor, handle: u32) -> Option<Simple> {
        let epoch = self.epoch();
        let address = descriptor.addr() as u64;
        let descriptor = NonNull::new(descriptor)?;
        let bytes = size_of::<Descriptor>() as u64;
        if !address.is_multiple_of(64)
            || !self.descriptors.covers(epoch, handle, address, bytes)
            || !self.queue.has_place(self.max_descriptors)
        {
            return None;
        }
        // SAFETY: registered memory is readable.
        let head = unsafe { Head::read(descriptor) };
        if !head.is_message() || head.segment_count >= self.simple_segments_end {
            return None;
        }
        let mut data = Segment::default();
        if head.segment_count == 1 {
            // SAFETY: the first of the segments that the checked bytes hold.
            data = unsafe { segment(descriptor, 0) };
            let (handle, address) = (data.handle, data.address);
            let length = u64::from(data.length);
            if length > 0 && !self.buffers.covers(epoch, handle, address, length) {
                return None;
            }
        }
        Some(Simple {
            descriptor,
            head,
            segment: data,
            epoch,
        })
    }

    /// Puts a descriptor on the queue.
    #[inline(always)]
    fn append_simple(&mut self, handle: u32, simple: &Simple) {
        self.queue.append(simple.descriptor, handle, |entry| {
            entry.set(simple.descriptor, handle, simple.head, simple.epoch);
            entry.first = simple.segment;
            entry.bytes = simple.segment.length;
        });
    }
}

/// What became of a send on the short way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// It is sent and complete.
    Sent,
    /// It is in the queue.
    Waits,
    /// Nothing was done: the long way is its.
    Long,
}

impl Outgoing {
    /// Puts a message into the next slot. The slot is free.
    ///
    /// # Safety
    ///
    /// `source` has `bytes` readable bytes, fewer than `simple_bytes_end`.
    #[inline(always)]
    unsafe fn put(&mut self, source: u64, bytes: u32, immediate: Option<u32>, posted: u32) {
        let payload = self.direction.payload(self.next);
        // SAFETY: the caller's promise; a slot has as many bytes.
        unsafe { copy::copy(payload, source as *const u8, bytes as usize) };
        let flags = if immediate.is_some() {
            flag::IMMEDIATE
        } else {
            0
        };
        let immediate = immediate.unwrap_or(0);
        self.publish(Kind::Inline, flags, bytes, immediate, posted, 1);
        self.messages = self.messages.wrapping_add(1);
        self.counts.inline += 1;
        self.counts.bytes += u64::from(bytes);
    }
}

impl SendSide {
    /// Posts a descriptor, and sends and completes it if it is the only one.
    ///
    /// # Safety
    ///
    /// As [`viaduct_fabric::Provider::post_send`].
    #[inline(always)]
    pub(crate) unsafe fn post_simple(
        &mut self,
        descriptor: *mut Descriptor,
        memory: MemoryHandle,
        credit: &AtomicU32,
        posted: &AtomicU32,
    ) -> Way {
        let Self {
            side,
            out: Some(out),
        } = self
        else {
            return Way::Long;
        };
        // SAFETY: the caller's promise.
        let Some(simple) = (unsafe { side.simple(descriptor, memory.bits()) }) else {
            return Way::Long;
        };
        let bytes = simple.segment.length;
        if simple.head.length != bytes || bytes >= out.simple_bytes_end {
            return Way::Long;
        }
        if side.queue.done != side.queue.tail {
            side.append_simple(memory.bits(), &simple);
            return Way::Waits;
        }
        // With nothing pending there is nothing to wait for, fence or not.
        if !out.has_credit(credit.load(Ordering::Relaxed)) || !out.has_room(1) {
            return Way::Long;
        }
        let head = simple.head;
        let immediate = head.has_immediate().then_some(head.immediate);
        let posted = posted.load(Ordering::Relaxed);
        // SAFETY: the source was checked just now, and there is room.
        unsafe { out.put(simple.segment.address, bytes, immediate, posted) };
        let status = Status::sent(Operation::SendReceive, Status::PENDING);
        side.queue.push_complete(simple.descriptor, status);
        side.announce(Queue::Send);
        Way::Sent
    }

    /// Sends and completes descriptor `number`, the oldest that is not complete.
    #[inline(always)]
    pub(crate) fn transmit_simple(&mut self, number: u32, credit: u32, posted: u32) -> Way {
        let Self {
            side,
            out: Some(out),
        } = self
        else {
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
        unsafe { out.put(entry.first.address, entry.bytes, immediate, posted) };
        entry.write_completion(Status::sent(Operation::SendReceive, Status::PENDING), None);
        side.queue.done = number.wrapping_add(1);
        side.queue.begun = side.queue.done;
        side.announce(Queue::Send);
        Way::Sent
    }
}

impl ReceiveSide {
    /// Posts a receive and tells the sender of it. `false`: nothing was done.
    ///
    /// # Safety
    ///
    /// As [`viaduct_fabric::Provider::post_send`].
    #[inline(always)]
    pub(crate) unsafe fn post_simple(
        &mut self,
        descriptor: *mut Descriptor,
        memory: MemoryHandle,
        own_posted: &AtomicU32,
    ) -> bool {
        let Self {
            side,
            incoming: Some(incoming),
        } = self
        else {
            return false;
        };
        // SAFETY: the caller's promise.
        let Some(simple) = (unsafe { side.simple(descriptor, memory.bits()) }) else {
            return false;
        };
        let bytes = simple.segment.length;
        side.append_simple(memory.bits(), &simple);
        if incoming.cookies != incoming.posted || bytes >= incoming.cookie_from_bytes {
            self.posted(own_posted);
            return true;
        }
        let posted = incoming.posted.wrapping_add(1);
        (incoming.posted, incoming.cookies) = (posted, posted);
        incoming.counts.indexes += 1;
        own_posted.store(posted, Ordering::Relaxed);
        kill_point!();
        incoming.direction.posted().store(posted, Ordering::Release);
        true
    }

    /// Completes the oldest receive with the message of the next slot, whose header was read, and
    /// whose payload lies there.
    /// `false`: nothing was done.
    #[inline(always)]
    pub(crate) fn take_simple(
        &mut self,
        header: Header,
        immediate: Option<u32>,
        payload: *const u8,
    ) -> bool {
        let Self {
            side,
            incoming: Some(incoming),
        } = self
        else {
            return false;
        };
        let (number, bytes) = (side.queue.done, header.length);
        if number == side.queue.tail || bytes > FIRST_PAYLOAD_BYTES as u32 {
            return false;
        }
        let epoch = side.epoch();
        let Some(entry) = side.queue.get_mut(number) else {
            return false;
        };
        if entry.epoch != epoch || !entry.is_simple() || bytes > entry.bytes {
            return false;
        }
        // SAFETY: the receive's only range was checked, has as many bytes, and is the provider's;
        // the slot has them, too.
        unsafe { copy::copy(entry.first.address as *mut u8, payload, bytes as usize) };
        let has_immediate = immediate.is_some();
        let status = Status::received(Operation::SendReceive, Status::PENDING, has_immediate);
        entry.write_completion(status, Some((bytes, immediate)));
        side.queue.done = number.wrapping_add(1);
        side.queue.begun = side.queue.done;
        side.announce(Queue::Receive);
        incoming.counts.received += 1;
        incoming.advance(1, header.flags & flag::ACKNOWLEDGE != 0);
        if incoming.cookies != incoming.posted {
            self.write_cookies();
        }
        true
    }
}
