//! What both sides of a VI have: a work queue, its checks, and how its completions are told.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use viaduct_core::check::{self, Shape};
use viaduct_core::{
    CompletedOperation, MemoryHandle, NicAttributes, Operation, ProtectionTag, Queue,
    ReliabilityLevel, Status, ViAttributes, outcome, protection,
};
use viaduct_provider::{
    AsynchronousError, CONTROL_SEGMENT_BYTES, CompletionEntry, Descriptor, DescriptorHandler, Done,
    Error, ErrorCode, Result, ReturnCode, Segment, ViHandle, control,
};

use crate::completion_queue::CompletionQueue;
use crate::events;
use crate::fork;
use crate::handle::Slot;
use crate::nic::Nic;
use crate::regions::{Placement, ProtectionError, RegionCache};
use crate::wait;
use crate::work_queue::{Entry, Head, WorkQueue, immediate_and_length};

/// One side of a VI. Reached under its lock.
#[derive(Default)]
pub(crate) struct Side {
    /// 0 while no VI lives here.
    pub(crate) handle: u64,
    pub(crate) nic: Option<Arc<Nic>>,
    pub(crate) completion_queue: Option<&'static Slot<CompletionQueue>>,
    pub(crate) queue: WorkQueue,
    pub(crate) level: Option<ReliabilityLevel>,
    pub(crate) max_transfer_bytes: u32,
    pub(crate) tag: Option<ProtectionTag>,
    /// Messages of fewer segments go the short way.
    pub(crate) simple_segments_end: u16,
    /// The epoch of the NIC's region table, kept mapped by `nic`.
    epoch: Epoch,
    pub(crate) descriptors: RegionCache,
    pub(crate) buffers: RegionCache,
    /// Parkers of threads that wait for a completion here.
    pub(crate) waiters: u64,
    notify: VecDeque<DescriptorHandler>,
}

/// Where the epoch of a region table lies: without a NIC one that never changes.
#[derive(Debug)]
struct Epoch(NonNull<AtomicU32>);

impl Default for Epoch {
    fn default() -> Self {
        static NONE: AtomicU32 = AtomicU32::new(0);
        Self(NonNull::from(&NONE))
    }
}

// SAFETY: the epoch is only read, atomically.
unsafe impl Send for Side {}

/// What a completed descriptor is to its consumer.
#[inline(always)]
pub(crate) const fn done((descriptor, status): (NonNull<Descriptor>, Status)) -> Done {
    if status.is_error() {
        Done::Failed(descriptor)
    } else {
        Done::Complete(descriptor)
    }
}

/// A descriptor that was not taken: what the consumer and the error handler are told.
pub(crate) fn dead_vi() -> Error {
    let code = ReturnCode::InvalidParameter;
    fork::refusal(code).unwrap_or_else(|| Error::new(code, "the VI does not exist"))
}

impl Side {
    /// The side of a new VI.
    pub(crate) fn new(
        handle: u64,
        nic: &Arc<Nic>,
        completion_queue: Option<&'static Slot<CompletionQueue>>,
        attributes: &ViAttributes,
    ) -> Self {
        let mut side = Self {
            handle,
            nic: Some(Arc::clone(nic)),
            completion_queue,
            ..Self::default()
        };
        side.queue = WorkQueue::new(nic.attributes.max_descriptors_per_queue);
        side.epoch = Epoch(nic.regions.epoch_word());
        side.set_attributes(attributes);
        side
    }

    /// Changes whenever a range that was found good might not be any more.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u32 {
        // SAFETY: the table lives as long as the NIC, which is held beside the pointer; that of no
        // NIC lives for ever.
        unsafe { self.epoch.0.as_ref() }.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn level(&self) -> ReliabilityLevel {
        self.level.unwrap_or(ReliabilityLevel::Unreliable)
    }

    fn tag_bits(&self) -> u32 {
        self.tag.map_or(0, ProtectionTag::bits)
    }

    /// Puts a descriptor on the queue, with what is wrong with it, as far as that can be known
    /// before it is processed, in its entry.
    ///
    /// # Safety
    ///
    /// As [`viaduct_provider::Provider::post_send`].
    #[inline(always)]
    pub(crate) unsafe fn post(
        &mut self,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
        queue: Queue,
    ) -> Result<()> {
        let epoch = self.epoch();
        if self.queue.is_full() {
            return Err(self.refuse_overrun(queue));
        }
        let tag = self.tag.map_or(0, ProtectionTag::bits);
        let address = descriptor.addr() as u64;
        let Some(descriptor) = NonNull::new(descriptor).filter(|_| address.is_multiple_of(64))
        else {
            return Err(self.refuse_descriptor(descriptor, queue));
        };
        let Some(nic) = &self.nic else {
            return Err(dead_vi());
        };
        let cache = &mut self.descriptors;
        let mut is_registered =
            |bytes| lies_in(nic, cache, epoch, (handle.bits(), address, bytes), tag);
        // Most descriptors have room for two segments, whether they need it or not.
        let has_two = is_registered(size_of::<Descriptor>() as u64);
        if !has_two && !is_registered(CONTROL_SEGMENT_BYTES as u64) {
            return Err(self.refuse_descriptor(descriptor.as_ptr(), queue));
        }
        // SAFETY: registered memory is readable.
        let (head, (immediate, length)) =
            unsafe { (Head::read(descriptor), immediate_and_length(descriptor)) };
        let operation = head.operation();
        let level = self.level.unwrap_or(ReliabilityLevel::Unreliable);
        let is_well_formed = is_well_formed(head, queue, &nic.attributes, level);
        let count = u64::from(head.segment_count);
        if (count > 2 || !has_two)
            && is_well_formed
            && !is_registered(CONTROL_SEGMENT_BYTES as u64 + 16 * count)
        {
            return Err(self.refuse_descriptor(descriptor.as_ptr(), queue));
        }
        let entry = self.queue.next_place();
        entry.set(descriptor, handle.bits(), head, epoch);
        entry.immediate = immediate;
        if is_well_formed {
            // SAFETY: as many segments lie in registered memory.
            let sum = unsafe { entry.set_segments(operation) };
            if !may_touch(nic, &mut self.buffers, epoch, tag, entry) {
                judge(nic, tag, entry, queue);
            } else if matches!(queue, Queue::Send)
                && !check::send_length_is_right(length, sum, self.max_transfer_bytes)
            {
                entry.set_fault(Status::LENGTH_ERROR);
            }
        } else {
            entry.set_fault(Status::FORMAT_ERROR);
        }
        self.queue.push();
        Ok(())
    }

    #[cold]
    fn refuse_overrun(&self, queue: Queue) -> Error {
        self.report(ErrorCode::ViOverrun, None, queue);
        Error::new(
            ReturnCode::Resource,
            "the work queue is full: take a completion, then post again",
        )
    }

    #[cold]
    fn refuse_descriptor(&self, descriptor: *mut Descriptor, queue: Queue) -> Error {
        self.report(ErrorCode::PostDescriptor, NonNull::new(descriptor), queue);
        Error::new(
            ReturnCode::InvalidParameter,
            "a descriptor begins at a multiple of 64 bytes and lies in the region of its handle",
        )
    }

    /// Where the first bytes of a receive of one segment lie for a peer: its shared segment and
    /// offset there.
    pub(crate) fn placement(&mut self, number: u32, bytes: u32) -> Option<Placement> {
        let tag = self.tag_bits();
        let segment = self.queue.get(number)?.first;
        self.nic
            .as_ref()?
            .regions
            .check_cached(
                &mut self.buffers,
                segment.handle,
                segment.address,
                bytes.into(),
                tag,
            )
            .ok()
    }

    /// Looks again at what was checked when descriptor `number` was posted, if regions have changed
    /// since; what it says is in the entry's fault.
    #[inline(always)]
    pub(crate) fn recheck(&mut self, number: u32, queue: Queue) {
        let Some(nic) = &self.nic else { return };
        let epoch = nic.regions.epoch();
        if self
            .queue
            .get(number)
            .is_some_and(|entry| entry.epoch != epoch)
        {
            self.recheck_changed(number, epoch, queue);
        }
    }

    #[cold]
    fn recheck_changed(&mut self, number: u32, epoch: u32, queue: Queue) {
        let tag = self.tag_bits();
        let (Some(nic), Some(entry)) = (&self.nic, self.queue.get_mut(number)) else {
            return;
        };
        entry.epoch = epoch;
        if entry.fault() == Status::PENDING && !may_touch(nic, &mut self.buffers, epoch, tag, entry)
        {
            judge(nic, tag, entry, queue);
        }
        let address = entry.descriptor.as_ptr().addr() as u64;
        let (handle, bytes) = (entry.descriptor_handle, entry.descriptor_bytes());
        // A consumer that deregistered the descriptor's memory may have unmapped it.
        entry.set_lost(nic.regions.check(handle, address, bytes, tag).is_err());
    }

    /// Completes the oldest pending descriptor.
    #[inline]
    pub(crate) fn complete(
        &mut self,
        queue: Queue,
        status: Status,
        received: Option<(u32, Option<u32>)>,
    ) {
        let number = self.queue.done;
        self.recheck(number, queue);
        let Some(entry) = self.queue.get_mut(number) else {
            return;
        };
        if entry.is_lost() {
            entry.status = status;
            let descriptor = entry.descriptor;
            self.report(ErrorCode::CompletionProtection, Some(descriptor), queue);
        } else {
            entry.write_completion(status, received);
        }
        self.queue.done = number.wrapping_add(1);
        if self.queue.begun == number {
            self.queue.begun = self.queue.done;
        }
        self.announce(queue);
    }

    /// Whether anybody is to be told of a completion.
    #[inline(always)]
    pub(crate) fn has_listeners(&self) -> bool {
        // In one comparison.
        let queue = u64::from(self.completion_queue.is_some());
        queue | self.waiters | self.notify.len() as u64 != 0
    }

    /// Tells of one completion: to the completion queue, or to who waits.
    #[inline(always)]
    pub(crate) fn announce(&mut self, queue: Queue) {
        if self.completion_queue.is_some() {
            self.announce_to_queue(queue);
        } else if self.waiters != 0 || !self.notify.is_empty() {
            self.announce_to_waiters();
        }
    }

    #[inline(never)]
    fn announce_to_queue(&self, queue: Queue) {
        if let Some(completions) = self.completion_queue
            && let Some(vi) = ViHandle::from_bits(self.handle)
        {
            completions.object.push(CompletionEntry { vi, queue });
        }
    }

    #[cold]
    fn announce_to_waiters(&mut self) {
        if self.waiters != 0 {
            wait::doorbells().wake_all(self.waiters);
            self.waiters = 0;
        }
        self.fire();
    }

    /// Gives completed descriptors to armed handlers.
    fn fire(&mut self) {
        while self.queue.head != self.queue.done {
            let Some(handler) = self.notify.pop_front() else {
                return;
            };
            let Some((descriptor, _)) = self.queue.take() else {
                return;
            };
            let (Some(nic), Some(vi)) = (&self.nic, ViHandle::from_bits(self.handle)) else {
                return;
            };
            let nic_handle = nic.handle;
            let descriptor = descriptor.as_ptr().addr();
            events::dispatch(nic_handle.bits(), move || {
                if let Some(descriptor) = NonNull::new(descriptor as *mut Descriptor) {
                    handler(nic_handle, vi, descriptor);
                }
            });
        }
    }

    /// Arms a handler for one completion.
    pub(crate) fn notify(&mut self, handler: DescriptorHandler) -> Result<()> {
        if self.completion_queue.is_some() {
            return Err(bound_to_completion_queue());
        }
        self.notify.push_back(handler);
        self.fire();
        Ok(())
    }

    /// Whether a handler waits for a completion.
    pub(crate) fn is_armed(&self) -> bool {
        !self.notify.is_empty()
    }

    pub(crate) fn set_attributes(&mut self, attributes: &ViAttributes) {
        self.level = Some(attributes.reliability);
        self.max_transfer_bytes = attributes.max_transfer_bytes;
        self.tag = Some(attributes.tag);
        // What was found was found for another tag.
        (self.descriptors, self.buffers) = (RegionCache::EMPTY, RegionCache::EMPTY);
        let nic = self.nic.as_ref();
        self.simple_segments_end = nic.map_or(0, |nic| {
            simple_segments_end(&nic.attributes, attributes.reliability)
        });
    }

    /// Takes the oldest descriptor if it is complete.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Done {
        match self.queue.take() {
            Some(taken) => done(taken),
            None => self.none_complete(),
        }
    }

    /// What is said of a queue without a complete one.
    #[inline(always)]
    pub(crate) const fn none_complete(&self) -> Done {
        if self.queue.is_empty() {
            Done::Empty
        } else {
            Done::NotDone
        }
    }

    /// Completes every pending descriptor as what a disconnect leaves unfinished.
    pub(crate) fn flush(&mut self, queue: Queue) {
        let outcome = outcome::peer_disconnected();
        while self.queue.done != self.queue.tail {
            let Some(entry) = self.queue.get(self.queue.done) else {
                return;
            };
            let status = match (queue, outcome.receive) {
                (Queue::Send, _) => Status::sent(entry.asks_for(), outcome.sender),
                (Queue::Receive, Some(error)) => {
                    Status::received(Operation::SendReceive, error, false)
                }
                (Queue::Receive, None) => return,
            };
            self.complete(queue, status, None);
        }
    }

    /// Tells the NIC's error handler.
    #[cold]
    pub(crate) fn report(
        &self,
        code: ErrorCode,
        descriptor: Option<NonNull<Descriptor>>,
        queue: Queue,
    ) {
        let operation = match queue {
            Queue::Send => CompletedOperation::Send,
            Queue::Receive => CompletedOperation::Receive,
        };
        self.report_operation(code, descriptor, operation);
    }

    /// The same, of a given operation.
    #[cold]
    pub(crate) fn report_operation(
        &self,
        code: ErrorCode,
        descriptor: Option<NonNull<Descriptor>>,
        operation: CompletedOperation,
    ) {
        let Some(nic) = &self.nic else { return };
        nic.report(AsynchronousError {
            nic: nic.handle,
            vi: ViHandle::from_bits(self.handle),
            completion_queue: None,
            descriptor,
            operation: (operation as u32) << 16,
            resource: code.resource(),
            code,
        });
    }
}

/// Whether a descriptor that begins like this is well formed.
#[inline(always)]
fn is_well_formed(head: Head, queue: Queue, nic: &NicAttributes, level: ReliabilityLevel) -> bool {
    let (operation, segments) = (head.operation(), usize::from(head.segment_count));
    match queue {
        Queue::Send => check::send_is_well_formed(
            Shape {
                operation,
                has_immediate: head.has_immediate(),
                has_remote: operation != Operation::SendReceive && segments > 0,
                segments,
            },
            nic,
            level,
        ),
        Queue::Receive => check::receive_is_well_formed(operation, segments, nic),
    }
}

/// How many segments a message must have not to go the short way: of fewer, up to one, each is well
/// formed on either queue.
fn simple_segments_end(nic: &NicAttributes, level: ReliabilityLevel) -> u16 {
    let is_good = |segment_count: &u16| {
        [0, control::IMMEDIATE].into_iter().all(|immediate| {
            let head = Head {
                segment_count: *segment_count,
                control: control::SEND_RECEIVE | immediate,
            };
            [Queue::Send, Queue::Receive]
                .into_iter()
                .all(|queue| is_well_formed(head, queue, nic, level))
        })
    };
    (0..=1).take_while(is_good).count() as u16
}

/// Whether a range (handle, address, bytes) lies in a live region of the VI's tag.
#[inline(always)]
fn lies_in(
    nic: &Nic,
    cache: &mut RegionCache,
    epoch: u32,
    range: (u32, u64, u64),
    tag: u32,
) -> bool {
    let (handle, address, bytes) = range;
    cache.holds(epoch, handle, address, bytes, tag)
        || nic
            .regions
            .check_cached(cache, handle, address, bytes, tag)
            .is_ok()
}

/// Whether every data segment lies in a live region of the VI's tag.
#[inline(always)]
fn may_touch(nic: &Nic, cache: &mut RegionCache, epoch: u32, tag: u32, entry: &Entry) -> bool {
    let mut one = |segment: Segment| {
        let range = (segment.handle, segment.address, segment.length.into());
        segment.length == 0 || lies_in(nic, cache, epoch, range, tag)
    };
    one(entry.first) && (entry.is_single() || entry.segments().skip(1).all(one))
}

/// What is wrong with a descriptor that may not touch all of its data segments: a send sends them
/// all, a receive is filled as far as its message goes.
#[cold]
fn judge(nic: &Nic, tag: u32, entry: &mut Entry, queue: Queue) {
    let one = |segment: Segment| {
        let room = nic.regions.room(segment.handle, segment.address, tag)?;
        Ok::<_, ProtectionError>((segment.length, room))
    };
    let filled = entry.segments().filter(|segment| segment.length > 0);
    match (queue, protection::reach(filled.map(one))) {
        (Queue::Receive, Ok(reach)) => entry.set_reach(reach.try_into().unwrap_or(u32::MAX)),
        _ => entry.set_fault(Status::PROTECTION_ERROR),
    }
}

pub(crate) fn bound_to_completion_queue() -> Error {
    Error::new(
        ReturnCode::InvalidParameter,
        "the work queue is bound to a completion queue: wait there",
    )
}

#[cfg(test)]
mod tests {
    use viaduct_core::ReliabilityLevels;

    use super::*;

    /// Every control word and every number of segments that matters, on NICs that allow few and
    /// many, at each level.
    #[test]
    fn the_short_way_takes_the_messages_that_the_rules_call_well_formed() {
        for segments_max in [0, 1, 2, 252] {
            let nic = NicAttributes {
                max_segments_per_descriptor: segments_max,
                rdma_read_levels: ReliabilityLevels::ALL,
                ..NicAttributes::default()
            };
            for level in [
                ReliabilityLevel::Unreliable,
                ReliabilityLevel::ReliableDelivery,
                ReliabilityLevel::ReliableReception,
            ] {
                let end = simple_segments_end(&nic, level);
                for (control, segment_count) in
                    (0..=u16::MAX).flat_map(|word| (0..=3).map(move |count| (word, count)))
                {
                    let head = Head {
                        segment_count,
                        control,
                    };
                    let is_right = [Queue::Send, Queue::Receive]
                        .into_iter()
                        .all(|queue| is_well_formed(head, queue, &nic, level));
                    let is_message = head.operation() == Operation::SendReceive;
                    let expected = is_right && is_message && segment_count <= 1;
                    let is_taken = head.is_message() && segment_count < end;
                    assert_eq!(is_taken, expected, "{head:?} at {level:?}, {segments_max}");
                }
            }
        }
    }
}
