//! A work queue: descriptors from post to the consumer's taking them back.

use alloc::collections::VecDeque;

use crate::descriptor::{Descriptor, Operation, Segments};
use crate::ids::Queue;
use crate::via::outcome;
use crate::via::status::Status;

/// Names a descriptor that a driver has started. Numbers of one queue never come again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WorkId(u64);

impl WorkId {
    /// The descriptor so many places behind this one in its queue.
    #[must_use]
    pub const fn following(self, places: u64) -> Self {
        Self(self.0.wrapping_add(places))
    }
}

/// A descriptor that the consumer has back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Completion {
    /// The descriptor's cookie.
    pub cookie: u64,
    /// How it ended.
    pub status: Status,
    /// Bytes: of a send what its descriptor said, of a receive what arrived, 0 if nothing did.
    pub length: u32,
    /// Of a receive, the immediate data of the message, if any; of a send always `None`.
    pub immediate: Option<u32>,
}

/// The answer to "is the head of this queue complete?".
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Done {
    /// It was, and has left the queue. Its status tells whether it went well.
    Completed(Completion),
    /// It is still pending.
    NotDone,
    /// The queue is empty, or there is no such VI.
    Empty,
}

impl Done {
    /// The completion, if there is one.
    #[must_use]
    pub const fn completion(self) -> Option<Completion> {
        match self {
            Self::Completed(completion) => Some(completion),
            Self::NotDone | Self::Empty => None,
        }
    }
}

/// A FIFO of descriptors with three marks.
///
/// ```text
/// head = number of slots[0]
///  | complete, to be taken | started, some finished | not started |
///  0                   completed                 started        len
/// ```
///
/// The driver may finish in any order; `completed` moves over finished slots only, so the consumer
/// sees completions in post order. All marks move forwards, one step a descriptor.
///
/// Receives that are posted one like the other are kept once, with their number: the last slot
/// stands for itself and `repeats` more, and has not started as long as there are any. A queue of
/// such receives is read where it was just written, however long it is.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    slots: VecDeque<Slot>,
    head: u64,
    started: u32,
    completed: u32,
    repeats: u32,
}

/// A posted descriptor. A finished receive holds what arrived in place of what was posted.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) descriptor: Descriptor,
    status: Status,
}

impl WorkQueue {
    pub(crate) const fn new() -> Self {
        Self {
            slots: VecDeque::new(),
            head: 0,
            started: 0,
            completed: 0,
            repeats: 0,
        }
    }

    /// Where the descriptor that starts next lies.
    #[inline]
    pub(crate) fn next_address(&self) -> *const u8 {
        let slot = self.slots.get(self.started as usize);
        slot.map_or(core::ptr::null(), |slot| core::ptr::from_ref(slot).cast())
    }

    /// Where the oldest descriptor lies.
    #[inline]
    pub(crate) fn oldest_address(&self) -> *const u8 {
        let slot = self.slots.front();
        slot.map_or(core::ptr::null(), |slot| core::ptr::from_ref(slot).cast())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots.len() + self.repeats as usize
    }

    /// Descriptors that are complete and were not taken.
    pub(crate) const fn completed(&self) -> u32 {
        self.completed
    }

    /// Whether the oldest descriptor is complete.
    #[inline]
    pub(crate) const fn has_completions(&self) -> bool {
        self.completed > 0
    }

    /// Descriptors that wait to be started.
    #[inline]
    pub(crate) fn unstarted(&self) -> u32 {
        self.slots.len() as u32 - self.started + self.repeats
    }

    /// The descriptor that was posted last, if it was not started.
    #[inline]
    pub(crate) fn newest_unstarted(&self) -> Option<&Descriptor> {
        let newest = self.slots.back().filter(|_| self.unstarted() > 0);
        newest.map(|slot| &slot.descriptor)
    }

    /// Every descriptor that was not started, oldest first.
    pub(crate) fn unstarted_slots(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.spread();
        self.slots.range_mut(self.started as usize..)
    }

    /// The descriptors that were not started, from a number on.
    #[inline]
    pub(crate) fn unstarted_from(&self, number: u64) -> impl Iterator<Item = &Slot> {
        let first = number.saturating_sub(self.head).max(self.started.into());
        let end = self.slots.len() + self.repeats as usize;
        // An index below 2^32 each: a queue has a number of slots that fits.
        (first as usize..end).filter_map(|index| self.slots.get(index).or(self.slots.back()))
    }

    /// Whether a remote write or read was started and is not finished.
    pub(crate) fn has_remote_work_under_way(&self) -> bool {
        self.slots
            .range(self.completed as usize..self.started as usize)
            .filter(|slot| !slot.status.is_done())
            .any(|slot| slot.descriptor.operation != Operation::SendReceive)
    }

    /// The number that the descriptor posted next will have.
    pub(crate) fn next_posted(&self) -> WorkId {
        WorkId(self.posted())
    }

    /// Descriptors that were ever posted.
    pub(crate) fn posted(&self) -> u64 {
        self.head + self.len() as u64
    }

    /// The oldest of so many descriptors that were posted last.
    pub(crate) fn oldest_of_last(&self, count: u64) -> WorkId {
        WorkId(self.posted().saturating_sub(count))
    }

    /// Whether something was started and is not finished, or waits for something that is not.
    pub(crate) fn has_work_under_way(&self) -> bool {
        self.completed < self.started
    }

    // Always inlined, and an empty slot comes first: so the descriptor is written where it stays.
    // A value handed to the ring lies in memory before, since growing could unwind, and a copy of
    // what was just written field by field stalls the processor.
    #[inline(always)]
    pub(crate) fn push(&mut self, make: impl FnOnce() -> Descriptor) {
        if self.repeats > 0 {
            self.spread();
        }
        if self.slots.len() == self.slots.capacity() {
            self.grow();
        }
        self.slots.push_back(Slot::EMPTY);
        if let Some(slot) = self.slots.back_mut() {
            slot.descriptor = make();
        }
    }

    /// As [`WorkQueue::push`]; a descriptor like the one before it is counted.
    #[inline(always)]
    pub(crate) fn push_or_count(&mut self, make: impl FnOnce() -> Descriptor) {
        let descriptor = make();
        if (self.started as usize) < self.slots.len()
            && let Some(last) = self.slots.back()
            && last.stands_for(&descriptor)
        {
            self.repeats += 1;
            return;
        }
        self.push(|| descriptor);
    }

    /// Gives each descriptor its own slot.
    #[cold]
    fn spread(&mut self) {
        while self.repeats > 0 {
            self.part();
        }
    }

    /// Gives the oldest of those that the last slot stands for a slot of its own.
    #[inline]
    fn part(&mut self) {
        if self.slots.len() == self.slots.capacity() {
            self.grow();
        }
        if let Some(copy) = self.slots.back().map(Slot::copy) {
            self.slots.push_back(copy);
        }
        self.repeats -= 1;
    }

    /// Doubling from one: a queue holds its descriptors and little more.
    #[cold]
    fn grow(&mut self) {
        self.slots.reserve_exact(self.slots.len().max(1));
    }

    /// The oldest descriptor that was not started.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<&mut Slot> {
        // What is about to start no longer stands for others.
        if self.repeats > 0 && self.started as usize + 1 == self.slots.len() {
            self.part();
        }
        self.slots.get_mut(self.started as usize)
    }

    /// Marks the descriptor of [`WorkQueue::next`] as started.
    #[inline]
    pub(crate) fn start(&mut self) -> WorkId {
        debug_assert!(self.repeats == 0 || (self.started as usize) + 1 < self.slots.len());
        let work = WorkId(self.head + u64::from(self.started));
        self.started += 1;
        work
    }

    /// A descriptor that was started and not finished; `None` for any other number.
    #[inline]
    pub(crate) fn under_way(&mut self, work: WorkId) -> Option<&mut Slot> {
        let index = self.index_under_way(work)?;
        self.slots.get_mut(index)
    }

    /// The segments of a descriptor under way; `None` for any other number.
    #[inline]
    pub(crate) fn segments(&self, work: WorkId) -> Option<&Segments> {
        let index = self.index_under_way(work)?;
        self.slots.get(index).map(|slot| &slot.descriptor.segments)
    }

    /// Whether all descriptors before this one are finished.
    #[inline]
    pub(crate) fn is_oldest(&self, work: WorkId) -> bool {
        work.0 == self.head + u64::from(self.completed)
    }

    #[inline]
    fn index_under_way(&self, work: WorkId) -> Option<usize> {
        let index = work
            .0
            .checked_sub(self.head)
            .filter(|i| *i < u64::from(self.started))?;
        let index = index as usize;
        self.slots
            .get(index)
            .filter(|slot| !slot.status.is_done())
            .map(|_| index)
    }

    /// Moves the completion mark over what is finished; says over how many.
    #[inline]
    pub(crate) fn settle(&mut self) -> u32 {
        let before = self.completed;
        while self.completed < self.started
            && self
                .slots
                .get(self.completed as usize)
                .is_some_and(|slot| slot.status.is_done())
        {
            self.completed += 1;
        }
        self.completed - before
    }

    /// Completes everything that is pending, as `under_way` what was started and as flushed what
    /// was not; says how many became visible.
    ///
    /// VIA, flush: in post order, each descriptor once; what had finished keeps its own status.
    pub(crate) fn flush(&mut self, queue: Queue, under_way: Status) -> u32 {
        let disconnected = outcome::peer_disconnected();
        let not_started = match queue {
            Queue::Send => disconnected.sender,
            Queue::Receive => disconnected.receive.unwrap_or(Status::PENDING),
        };
        self.spread();
        let started = (self.started - self.completed) as usize;
        let pending = self.slots.range_mut(self.completed as usize..);
        for (index, slot) in pending.enumerate() {
            let error = if index < started {
                under_way
            } else {
                not_started
            };
            if !slot.status.is_done() {
                slot.give_back(queue, error);
            }
        }
        self.started = self.slots.len() as u32;
        self.settle()
    }

    /// Takes the head, if it is complete.
    #[inline]
    pub(crate) fn take(&mut self) -> Done {
        if self.completed == 0 {
            return if self.slots.is_empty() {
                Done::Empty
            } else {
                Done::NotDone
            };
        }
        let Some(Slot { descriptor, status }) = self.slots.front() else {
            return Done::Empty;
        };
        let has_immediate = status.contains(Status::IMMEDIATE);
        let completion = Completion {
            cookie: descriptor.cookie,
            status: *status,
            length: descriptor.length,
            immediate: descriptor.immediate.filter(|_| has_immediate),
        };
        self.slots.pop_front();
        self.head += 1;
        self.started -= 1;
        self.completed -= 1;
        Done::Completed(completion)
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.slots.shrink_to_fit();
    }
}

impl Slot {
    const EMPTY: Self = Self {
        descriptor: Descriptor {
            operation: Operation::SendReceive,
            queue_fence: false,
            immediate: None,
            length: 0,
            segments: Segments::none(),
            cookie: 0,
        },
        status: Status::PENDING,
    };

    /// Whether a posted descriptor is like this one, which was not started, and owns no memory.
    #[inline(always)]
    fn stands_for(&self, other: &Descriptor) -> bool {
        let own = &self.descriptor;
        // The cookie first: it mostly tells them apart.
        own.cookie == other.cookie
            && own.segments.are_equal_in_place(&other.segments)
            && own.operation == other.operation
            && own.queue_fence == other.queue_fence
            && own.immediate == other.immediate
            && own.length == other.length
            && self.status == Status::PENDING
    }

    /// The same once more, of a slot that stands for others.
    #[inline(always)]
    fn copy(&self) -> Self {
        Self {
            descriptor: Descriptor {
                segments: self.descriptor.segments.copy_in_place(),
                ..self.descriptor
            },
            status: self.status,
        }
    }

    /// Finishes a send: its descriptor stays as it was.
    #[inline]
    pub(crate) fn finish_send(&mut self, error: Status) {
        self.status = Status::sent(self.descriptor.operation, error);
    }

    /// Finishes a receive that a message or a remote write has taken.
    #[inline]
    pub(crate) fn finish_receive(
        &mut self,
        taken_by: Operation,
        error: Status,
        length: u32,
        immediate: Option<u32>,
    ) {
        self.status = Status::received(taken_by, error, immediate.is_some());
        self.descriptor.length = length;
        self.descriptor.immediate = immediate;
    }

    /// Adds bits that mean something to this crate while the descriptor is pending, or to the
    /// consumer afterwards.
    pub(crate) fn note(&mut self, bits: Status) {
        self.status = self.status | bits;
    }

    /// What was noted of a pending descriptor.
    #[inline]
    pub(crate) const fn noted(&self) -> Status {
        self.status
    }

    fn give_back(&mut self, queue: Queue, error: Status) {
        match queue {
            Queue::Send => self.finish_send(error),
            Queue::Receive => self.finish_receive(Operation::SendReceive, error, 0, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::descriptor::DataSegment;
    use crate::keys::MemoryHandle;

    fn queue(count: u64) -> WorkQueue {
        let mut queue = WorkQueue::new();
        (0..count).for_each(|cookie| queue.push(|| Descriptor::send(Segments::none(), cookie)));
        queue
    }

    fn cookies(queue: &mut WorkQueue) -> Vec<(u64, u32)> {
        core::iter::from_fn(|| queue.take().completion())
            .map(|completion| (completion.cookie, completion.status.bits()))
            .collect()
    }

    #[test]
    fn completions_are_seen_in_post_order_whatever_the_order_of_finishing() {
        let mut queue = queue(3);
        let works = [queue.start(), queue.start(), queue.start()];
        assert!(queue.next().is_none());
        queue
            .under_way(works[2])
            .unwrap()
            .finish_send(Status::PENDING);
        assert_eq!(queue.settle(), 0);
        assert_eq!(queue.take(), Done::NotDone);
        queue
            .under_way(works[0])
            .unwrap()
            .finish_send(Status::PENDING);
        assert_eq!(queue.settle(), 1);
        assert_eq!(cookies(&mut queue), [(0, 1)]);
        queue
            .under_way(works[1])
            .unwrap()
            .finish_send(Status::PENDING);
        assert_eq!(queue.settle(), 2);
        assert_eq!(cookies(&mut queue), [(1, 1), (2, 1)]);
        assert_eq!(queue.take(), Done::Empty);
    }

    #[test]
    fn a_number_names_only_work_under_way() {
        let mut queue = queue(2);
        let first = queue.start();
        assert!(
            queue.under_way(WorkId(first.0 + 1)).is_none(),
            "posted, not started"
        );
        queue.under_way(first).unwrap().finish_send(Status::PENDING);
        assert!(queue.under_way(first).is_none(), "finished");
        queue.settle();
        assert!(queue.take().completion().is_some());
        assert!(queue.under_way(first).is_none(), "taken");
        let second = queue.start();
        assert!(second > first);
        assert!(queue.under_way(second).is_some());
        queue.flush(Queue::Send, Status::FLUSHED_ERROR);
        assert!(queue.under_way(second).is_none(), "flushed");
        assert!(queue.under_way(WorkId(7)).is_none(), "not posted");
    }

    #[test]
    fn a_flush_keeps_what_had_finished() {
        let mut queue = queue(4);
        let _pending = queue.start();
        let finished = queue.start();
        queue
            .under_way(finished)
            .unwrap()
            .finish_send(Status::TRANSPORT_ERROR);
        assert_eq!(queue.settle(), 0);
        assert_eq!(queue.flush(Queue::Send, Status::FLUSHED_ERROR), 4);
        let flushed = 0x21;
        assert_eq!(
            cookies(&mut queue),
            [(0, flushed), (1, 0x41), (2, flushed), (3, flushed)]
        );
        assert_eq!(queue.flush(Queue::Send, Status::FLUSHED_ERROR), 0);
    }

    /// A queue that counts like receives does what one does that keeps each.
    #[test]
    fn receives_that_are_counted_behave_as_receives_that_are_kept() {
        let segment = |address| {
            Segments::one(DataSegment {
                address,
                handle: MemoryHandle::from_bits(1 << 20),
                length: 8,
            })
        };
        let kinds = [
            || Descriptor::receive(Segments::none(), 0),
            || Descriptor::receive(Segments::none(), 1),
            || Descriptor::receive(Segments::none(), 0).with_immediate(7),
        ];
        let make = |kind: usize| match kind {
            0..3 => kinds[kind](),
            3 => Descriptor::receive(segment(1), 0),
            4 => Descriptor::receive(segment(2), 0),
            _ => Descriptor::receive(Segments::from_slice(&[segment(1).as_slice()[0]; 2]), 0),
        };
        for seed in 1..200_u64 {
            let mut random = seed;
            let mut draw = |bound: u64| {
                // Knuth's linear congruential generator.
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % bound
            };
            let (mut counting, mut keeping) = (WorkQueue::new(), WorkQueue::new());
            let mut under_way = Vec::new();
            let mut kind = 0;
            for _ in 0..200 {
                match draw(16) {
                    0 => kind = draw(6) as usize,
                    1..7 => {
                        counting.push_or_count(|| make(kind));
                        keeping.push(|| make(kind));
                    }
                    7..10 => {
                        let descriptor = counting.next().map(|slot| slot.descriptor.clone());
                        assert_eq!(
                            descriptor,
                            keeping.next().map(|slot| slot.descriptor.clone())
                        );
                        if descriptor.is_some() {
                            let work = counting.start();
                            assert_eq!(work, keeping.start());
                            under_way.push(work);
                        }
                    }
                    10..12 if !under_way.is_empty() => {
                        let work = under_way.remove(draw(under_way.len() as u64) as usize);
                        for queue in [&mut counting, &mut keeping] {
                            let slot = queue.under_way(work).unwrap();
                            slot.finish_receive(Operation::SendReceive, Status::PENDING, 5, None);
                        }
                        assert_eq!(counting.settle(), keeping.settle());
                    }
                    12..15 => assert_eq!(counting.take(), keeping.take()),
                    15 if draw(8) == 0 => {
                        let flushed = counting.flush(Queue::Receive, Status::FLUSHED_ERROR);
                        assert_eq!(
                            flushed,
                            keeping.flush(Queue::Receive, Status::FLUSHED_ERROR)
                        );
                        under_way.clear();
                    }
                    _ => {
                        let known = counting.posted().saturating_sub(draw(6));
                        let of = |queue: &WorkQueue| {
                            let slots = queue.unstarted_from(known);
                            slots
                                .map(|slot| slot.descriptor.clone())
                                .collect::<Vec<_>>()
                        };
                        assert_eq!(of(&counting), of(&keeping), "seed {seed}");
                    }
                }
                let marks = |queue: &WorkQueue| {
                    let length = (queue.len(), queue.unstarted(), queue.posted());
                    (length, queue.has_completions(), queue.has_work_under_way())
                };
                assert_eq!(marks(&counting), marks(&keeping), "seed {seed}");
            }
            let spread: Vec<_> = counting
                .unstarted_slots()
                .map(|s| s.descriptor.clone())
                .collect();
            let kept: Vec<_> = keeping
                .unstarted_slots()
                .map(|s| s.descriptor.clone())
                .collect();
            assert_eq!(spread, kept, "seed {seed}");
        }
    }

    #[test]
    fn like_receives_take_the_memory_of_one() {
        let mut queue = WorkQueue::new();
        for _ in 0..1_000 {
            queue.push_or_count(|| Descriptor::receive(Segments::none(), 3));
        }
        assert_eq!(
            (queue.len(), queue.unstarted(), queue.slots.capacity()),
            (1_000, 1_000, 1)
        );
        for _ in 0..1_000 {
            assert!(queue.next().is_some());
            let work = queue.start();
            let slot = queue.under_way(work).unwrap();
            slot.finish_receive(Operation::SendReceive, Status::PENDING, 0, None);
            assert_eq!(queue.settle(), 1);
            assert_eq!(queue.take().completion().map(|done| done.cookie), Some(3));
        }
        assert_eq!((queue.take(), queue.slots.capacity()), (Done::Empty, 2));
    }
}
