//! The send side of a VI: from a posted descriptor to a slot that the peer can see.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use viaduct_fabric::ErrorCode;
use viaduct_via::{CompletedOperation, Operation, Queue, ReliabilityLevel, Status, outcome};

use crate::channel::{
    self, COOKIES, Direction, Header, INLINE_BYTES_MAX, Kind, OPAQUE, SLOTS, flag, inline_slots,
};
use crate::cma;
use crate::connect::RemoteEnd;
use crate::copy;
use crate::link::{Link, LinkMessage};
use crate::pool::Chunk;
use crate::regions::remote::RemoteRegionTable;
use crate::regions::{Placement, ProtectionError, RemoteAccess};
use crate::side::Side;
use crate::transfer::{Mechanism, Plan, Reach, Thresholds};
use crate::wait::{Doorbells, SERVICE_MARK};

/// The send side of a VI.
#[derive(Default)]
pub(crate) struct SendSide {
    pub(crate) side: Side,
    pub(crate) out: Option<Outgoing>,
}

/// What a connected VI sends into.
pub(crate) struct Outgoing {
    pub(crate) direction: Direction,
    pub(crate) link: Arc<Link>,
    pub(crate) channel: u32,
    pub(crate) connection: u64,
    pub(crate) remote: RemoteEnd,
    regions: Option<Arc<RemoteRegionTable>>,
    thresholds: Arc<Thresholds>,
    /// The next slot to write.
    next: u32,
    /// Slots that the receiver is known to have used.
    consumed: u32,
    /// Messages sent that take a receive.
    messages: u32,
    /// Receives that the peer is known to have posted.
    credit: u32,
    /// Bytes of the descriptor under way that were handed over.
    offset: u64,
    /// Chunks that the receiver has not used up, with the slot after theirs.
    chunks: VecDeque<(u32, Chunk, Option<ReadPart>)>,
    /// Remote reads under way.
    reads: u32,
    defers: bool,
    /// Whether the peer's receives take parts of messages.
    splits: bool,
    /// Receives that the message under way takes.
    receives: u32,
    /// What `consumed` was when the service thread last looked.
    watched_at: u32,
}

/// Where bytes that a remote read brings into a chunk belong.
#[derive(Clone, Copy, Debug)]
struct ReadPart {
    descriptor: u32,
    offset: u64,
    bytes: u32,
    is_last: bool,
}

/// What came of an attempt to send a descriptor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// It is handed over, or has failed.
    Begun,
    /// It must wait for the receiver.
    Blocked,
    /// It failed in a way that breaks the connection.
    Breaks,
}

/// What a begun descriptor needs to be complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Completes {
    Now,
    /// When the receiver's counter passes the last slot.
    WhenConsumed,
}

impl Outgoing {
    pub(crate) fn new(
        direction: Direction,
        link: Arc<Link>,
        channel: u32,
        connection: u64,
        remote: RemoteEnd,
        thresholds: Arc<Thresholds>,
        defers: bool,
    ) -> Self {
        let regions = remote.regions.clone();
        let splits = remote.attributes.extensions.request_splitting;
        Self {
            direction,
            link,
            channel,
            connection,
            remote,
            regions,
            thresholds,
            next: 0,
            consumed: 0,
            messages: 0,
            credit: 0,
            offset: 0,
            chunks: VecDeque::new(),
            reads: 0,
            defers,
            splits,
            receives: 1,
            watched_at: 0,
        }
    }

    #[inline]
    fn has_credit(&mut self, hint: u32) -> bool {
        if (self.credit.wrapping_sub(self.messages)).cast_signed() > 0 {
            return true;
        }
        self.credit = hint;
        if (self.credit.wrapping_sub(self.messages)).cast_signed() > 0 {
            return true;
        }
        self.credit = self.direction.posted().load(Ordering::Acquire);
        (self.credit.wrapping_sub(self.messages)).cast_signed() > 0
    }

    /// How many of the peer's receives a message takes that may be split: as few as hold it. One,
    /// which is then too short, when not enough are posted; or a wait, with flow control.
    fn receives_for(&mut self, bytes: u32) -> Result<u32, Step> {
        let mut room = 0_u64;
        for count in 0..COOKIES {
            let number = self.messages.wrapping_add(count);
            if self.credit.wrapping_sub(number).cast_signed() <= 0 {
                self.credit = self.direction.posted().load(Ordering::Acquire);
            }
            if self.credit.wrapping_sub(number).cast_signed() <= 0 {
                return if self.defers {
                    Err(Step::Blocked)
                } else {
                    Ok(1)
                };
            }
            // A receiver that splits tells the capacity of every receive, but not at once.
            let Some(cookie) = self.direction.read_cookie(number) else {
                return Err(Step::Blocked);
            };
            room += u64::from(cookie.capacity);
            if room >= u64::from(bytes) {
                return Ok(count + 1);
            }
        }
        Ok(1)
    }

    #[inline]
    fn has_room(&mut self, slots: u32) -> bool {
        if SLOTS - self.next.wrapping_sub(self.consumed) >= slots {
            return true;
        }
        self.refresh();
        SLOTS - self.next.wrapping_sub(self.consumed) >= slots
    }

    /// Takes over the receiver's counter, unless it says what cannot be.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        let consumed = self.direction.consumed().load(Ordering::Acquire);
        if self.next.wrapping_sub(consumed) <= self.next.wrapping_sub(self.consumed) {
            self.consumed = consumed;
        }
    }

    fn is_consumed(&self, until: u32) -> bool {
        self.consumed.wrapping_sub(until).cast_signed() >= 0
    }

    /// Publishes the slots of one message or part, and wakes who sleeps for it.
    #[inline]
    fn publish(
        &mut self,
        kind: Kind,
        flags: u8,
        length: u32,
        immediate: u32,
        own_posted: u32,
        slots: u32,
    ) {
        let header = Header {
            kind: kind as u8,
            flags,
            length,
        };
        self.direction
            .publish(self.next, header, immediate, own_posted);
        self.next = self.next.wrapping_add(slots);
        // The look for a sleeper stays behind the publication; see `wait`.
        compiler_fence(Ordering::SeqCst);
        if self.direction.wants_notice() {
            self.notify();
        }
    }

    #[cold]
    fn notify(&self) {
        let mark = self.direction.sleeper().swap(0, Ordering::AcqRel);
        if mark == SERVICE_MARK {
            self.kick();
        } else if mark != 0 {
            // SAFETY: the peer's doorbells are mapped as long as the link lives.
            unsafe { Doorbells::new(self.link.peer_doorbells()) }.wake(mark);
        }
    }

    /// Has the peer's service thread look at this connection.
    #[cold]
    pub(crate) fn kick(&self) {
        self.link.send(&LinkMessage::Kick {
            channel: self.channel,
        });
    }

    /// Whether the receiver has used nothing since this was last asked.
    pub(crate) fn is_stuck(&mut self) -> bool {
        self.refresh();
        let was = std::mem::replace(&mut self.watched_at, self.consumed);
        self.has_unused() && was == self.consumed
    }

    /// Whether the receiver has not used everything.
    pub(crate) fn has_unused(&self) -> bool {
        self.consumed != self.next
    }

    /// Gives chunks back that the receiver has used.
    fn reclaim(&mut self, side: &Side) {
        while let Some(&(until, chunk, read)) = self.chunks.front() {
            if !self.is_consumed(until) {
                return;
            }
            if let Some(part) = read {
                self.take_read(side, chunk, part);
            }
            self.link.chunks.give_back(chunk);
            self.chunks.pop_front();
        }
    }

    /// Moves what a remote read brought to where it belongs.
    fn take_read(&mut self, side: &Side, chunk: Chunk, part: ReadPart) {
        if part.is_last {
            self.reads -= 1;
        }
        let Some(entry) = side.queue.get(part.descriptor) else {
            return;
        };
        let (pool, _) = self.link.outgoing_pool();
        entry.each_piece(part.offset, part.bytes.into(), |target, done, bytes| {
            // SAFETY: the chunk has `part.bytes` bytes; the target was checked when the descriptor
            // was posted and is the provider's until it completes.
            unsafe {
                copy::copy(
                    target,
                    pool.as_ptr().add(chunk.offset as usize + done as usize),
                    bytes,
                )
            };
        });
    }

    /// Chunks are the link's: they go back when the connection ends.
    pub(crate) fn release(&mut self) {
        for (_, chunk, _) in self.chunks.drain(..) {
            self.link.chunks.give_back(chunk);
        }
    }
}

impl SendSide {
    /// The connection that it sends on.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.out.as_ref().map(|out| out.connection)
    }

    /// Sends what can be sent and completes what is complete, in order.
    ///
    /// `hint` is the peer's count of posted receives as last heard, `own_posted` this VI's.
    #[inline]
    pub(crate) fn progress(&mut self, hint: u32, own_posted: u32) -> Step {
        if self.side.queue.done != self.side.queue.begun {
            self.settle();
        }
        while self.side.queue.begun != self.side.queue.tail {
            match self.transmit(self.side.queue.begun, hint, own_posted) {
                Step::Begun => {}
                step => return step,
            }
        }
        Step::Begun
    }

    /// Whether something waits for the receiver.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.side.queue.done != self.side.queue.tail
    }

    /// Completes begun descriptors, in order, as far as they need nothing more.
    pub(crate) fn settle(&mut self) {
        if let Some(out) = &mut self.out {
            out.refresh();
            out.reclaim(&self.side);
        }
        while self.side.queue.done != self.side.queue.begun {
            let number = self.side.queue.done;
            let Some(entry) = self.side.queue.get(number) else {
                return;
            };
            if entry.awaits {
                let Some(out) = &self.out else { return };
                if !out.is_consumed(entry.sent_until) {
                    return;
                }
            }
            self.complete(number);
        }
    }

    /// Completes descriptor `number`, the oldest pending, with what was found about it.
    #[inline]
    fn complete(&mut self, number: u32) {
        let Some(entry) = self.side.queue.get(number) else {
            return;
        };
        let status = Status::done(entry.completed_operation()) | entry.status;
        self.side.complete(Queue::Send, status, None);
    }

    /// Marks descriptor `number`, the first that was not begun, as begun.
    #[inline]
    fn begin(&mut self, number: u32, completes: Completes, result: Status) -> Step {
        let until = self.out.as_ref().map_or(0, |out| out.next);
        if let Some(out) = &mut self.out {
            out.offset = 0;
        }
        let awaits = completes == Completes::WhenConsumed;
        if let Some(entry) = self.side.queue.get_mut(number) {
            entry.awaits = awaits;
            entry.sent_until = until;
            entry.status = result;
        }
        self.side.queue.begun = number.wrapping_add(1);
        if !awaits && self.side.queue.done == number {
            self.complete(number);
        }
        Step::Begun
    }

    #[inline]
    fn transmit(&mut self, number: u32, hint: u32, own_posted: u32) -> Step {
        self.side.recheck(number);
        let level = self.side.level();
        let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
            return Step::Blocked;
        };
        if entry.fault() != Status::PENDING {
            let outcome = outcome::send_failed(level, entry.fault());
            self.begin(number, Completes::Now, outcome.sender);
            return if outcome.breaks {
                Step::Breaks
            } else {
                Step::Begun
            };
        }
        if entry.has_fence() && out.reads > 0 {
            return Step::Blocked;
        }
        match entry.operation() {
            Operation::SendReceive => self.send(number, hint, own_posted),
            Operation::RdmaWrite => self.rdma_write(number, hint, own_posted),
            _ => self.rdma_read(number, own_posted),
        }
    }

    /// The completion that a message of this level needs.
    const fn completes(level: ReliabilityLevel) -> (Completes, u8) {
        match outcome::completes_when(level) {
            outcome::CompletesWhen::HandedOver => (Completes::Now, 0),
            outcome::CompletesWhen::Placed => (Completes::WhenConsumed, flag::ACKNOWLEDGE),
        }
    }

    /// A message met no posted receive.
    #[cold]
    fn overrun(&mut self, number: u32) -> Step {
        let Some(out) = &self.out else {
            return Step::Blocked;
        };
        if out.defers || out.direction.opened().load(Ordering::Acquire) == 0 {
            return Step::Blocked;
        }
        // The last count that was read may be from before it opened.
        if out.credit != out.direction.posted().load(Ordering::Acquire) {
            return Step::Blocked;
        }
        let outcome = outcome::receive_queue_empty(self.side.level());
        out.link.send(&LinkMessage::Event {
            channel: out.channel,
            code: ErrorCode::ReceiveQueueEmpty as u8,
            operation: CompletedOperation::Receive as u32,
        });
        self.begin(number, Completes::Now, outcome.sender);
        if outcome.breaks {
            Step::Breaks
        } else {
            Step::Begun
        }
    }

    #[inline]
    fn send(&mut self, number: u32, hint: u32, own_posted: u32) -> Step {
        let (completes, acknowledge) = Self::completes(self.side.level());
        let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
            return Step::Blocked;
        };
        if out.offset == 0 && !out.has_credit(hint) {
            return self.overrun(number);
        }
        if out.splits && out.offset == 0 {
            match out.receives_for(entry.bytes) {
                Ok(receives) => out.receives = receives,
                Err(step) => return step,
            }
        }
        let bytes = entry.bytes as usize;
        let mut flags = acknowledge;
        let immediate = if entry.has_immediate() {
            flags |= flag::IMMEDIATE;
            entry.immediate
        } else {
            0
        };
        if bytes <= out.thresholds.inline_bytes() {
            let slots = inline_slots(bytes);
            if !out.has_room(slots) {
                return Step::Blocked;
            }
            let (direction, next) = (out.direction, out.next);
            entry.each_piece(0, bytes as u64, |source, done, piece| {
                // SAFETY: the source was checked when the descriptor was posted; the slots are
                // free, and the whole is at most `INLINE_BYTES_MAX`.
                unsafe { direction.write_inline(next, done as usize, source, piece) };
            });
            if slots > 1 {
                direction.mark_continuation(next, slots);
            }
            out.publish(
                Kind::Inline,
                flags,
                bytes as u32,
                immediate,
                own_posted,
                slots,
            );
            out.messages = out.messages.wrapping_add(1);
            return self.begin(number, completes, Status::PENDING);
        }
        self.send_long(number, flags, immediate, own_posted)
    }

    /// A message that does not go inline.
    fn send_long(&mut self, number: u32, flags: u8, immediate: u32, own_posted: u32) -> Step {
        let (completes, _) = Self::completes(self.side.level());
        let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
            return Step::Blocked;
        };
        if out.offset > 0 {
            return self.send_parts(number, flags, immediate, own_posted);
        }
        if !out.has_room(1) {
            return Step::Blocked;
        }
        let bytes = u64::from(entry.bytes);
        if out.receives > 1 {
            return self.send_parts(number, flags, immediate, own_posted);
        }
        let Some(cookie) = out.direction.read_cookie(out.messages) else {
            return self.send_parts(number, flags, immediate, own_posted);
        };
        if u64::from(cookie.capacity) < bytes {
            out.publish(Kind::TooLong, flags, bytes as u32, immediate, own_posted, 1);
            out.messages = out.messages.wrapping_add(1);
            return self.begin(number, completes, Status::PENDING);
        }
        let target = out.reach(cookie.segment, cookie.address, bytes);
        let plan = out.plan(bytes, &target);
        let is_placed = match (plan.mechanism, target) {
            (Mechanism::Direct, Target::Mapped(target)) => {
                entry.each_piece(0, bytes, |source, done, piece| {
                    // SAFETY: the target range is inside the peer's mapped segment, the source was
                    // checked when the descriptor was posted.
                    unsafe {
                        copy_planned(target.as_ptr().add(done as usize), source, piece, plan)
                    };
                });
                true
            }
            (Mechanism::Copy, Target::Private(address)) => {
                let local = pieces(entry, 0, bytes);
                // SAFETY: the local ranges were checked when the descriptor was posted.
                unsafe { cma::write(out.link.peer_pid(), &readable(&local), &[(address, bytes)]) }
                    .is_ok()
            }
            _ => false,
        };
        if !is_placed {
            return self.send_parts(number, flags, immediate, own_posted);
        }
        out.publish(Kind::Placed, flags, bytes as u32, immediate, own_posted, 1);
        out.messages = out.messages.wrapping_add(1);
        self.begin(number, completes, Status::PENDING)
    }

    /// A message through the pool, a chunk a slot.
    fn send_parts(&mut self, number: u32, flags: u8, immediate: u32, own_posted: u32) -> Step {
        let (completes, _) = Self::completes(self.side.level());
        loop {
            let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
                return Step::Blocked;
            };
            let Some((chunk, bytes)) = out.next_part(&self.side, entry.bytes.into()) else {
                return Step::Blocked;
            };
            out.fill(entry, chunk, bytes);
            let (mut part_flags, end) = (flags, out.offset + bytes);
            if out.offset > 0 {
                part_flags |= flag::CONTINUES;
            }
            if end < u64::from(entry.bytes) {
                part_flags |= flag::MORE;
            }
            out.direction
                .write_words(out.next, [u64::from(chunk.offset) | bytes << 32, 0, 0]);
            out.publish(
                Kind::Pool,
                part_flags,
                entry.bytes,
                immediate,
                own_posted,
                1,
            );
            out.chunks.push_back((out.next, chunk, None));
            out.offset = end;
            if end >= u64::from(entry.bytes) {
                out.messages = out.messages.wrapping_add(out.receives);
                return self.begin(number, completes, Status::PENDING);
            }
        }
    }

    fn rdma_write(&mut self, number: u32, hint: u32, own_posted: u32) -> Step {
        let (completes, acknowledge) = Self::completes(self.side.level());
        let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
            return Step::Blocked;
        };
        let Some(remote) = entry.remote() else {
            return Step::Blocked;
        };
        let (bytes, has_immediate) = (u64::from(entry.bytes), entry.has_immediate());
        let mut flags = acknowledge;
        if has_immediate {
            flags |= flag::IMMEDIATE;
            if out.offset == 0 && !out.has_credit(hint) {
                return self.overrun(number);
            }
        }
        if out.offset > 0 {
            return self.rdma_write_parts(number, flags, own_posted);
        }
        if !out.has_room(1) {
            return Step::Blocked;
        }
        match out.remote_range(remote.handle, remote.address, bytes, RemoteAccess::Write) {
            Verdict::Refused => {
                let immediate = entry.immediate;
                out.publish(
                    Kind::RdmaRefused,
                    flags,
                    bytes as u32,
                    immediate,
                    own_posted,
                    1,
                );
                out.messages = out.messages.wrapping_add(u32::from(has_immediate));
                out.kick();
                return self.begin(number, completes, Status::PENDING);
            }
            Verdict::Unknown => return self.rdma_write_parts(number, flags, own_posted),
            Verdict::Allowed(target) => {
                let plan = out.plan(bytes, &target);
                let is_placed = match target {
                    _ if bytes == 0 => true,
                    Target::Mapped(target) if plan.mechanism != Mechanism::Pool => {
                        let last = entry.segments().filter(|s| s.length > 0).count();
                        let mut seen = 0;
                        entry.each_piece(0, bytes, |source, done, piece| {
                            seen += 1;
                            // SAFETY: inside the peer's mapped segment; the source was checked.
                            unsafe {
                                let target = target.as_ptr().add(done as usize);
                                if seen == last {
                                    copy::copy_last_word_last(
                                        target,
                                        source,
                                        piece,
                                        plan.non_temporal,
                                    );
                                } else {
                                    copy_planned(target, source, piece, plan);
                                }
                            }
                        });
                        true
                    }
                    Target::Private(address) if plan.mechanism != Mechanism::Pool => {
                        // The kernel promises no order: the last word goes in a call of its own.
                        let tail = bytes.min(8);
                        let body = bytes - tail;
                        let pid = out.link.peer_pid();
                        let write = |start: u64, length: u64| {
                            let local = pieces(entry, start, length);
                            // SAFETY: as above.
                            unsafe {
                                cma::write(pid, &readable(&local), &[(address + start, length)])
                            }
                            .is_ok()
                        };
                        (body == 0 || write(0, body)) && write(body, tail)
                    }
                    _ => false,
                };
                if !is_placed {
                    return self.rdma_write_parts(number, flags, own_posted);
                }
            }
        }
        if has_immediate {
            out.publish(
                Kind::RdmaImmediate,
                flags,
                bytes as u32,
                entry.immediate,
                own_posted,
                1,
            );
            out.messages = out.messages.wrapping_add(1);
            return self.begin(number, completes, Status::PENDING);
        }
        // The bytes are in place: nothing is left to wait for at any level.
        self.begin(number, Completes::Now, Status::PENDING)
    }

    /// A remote write whose bytes the target's side places.
    fn rdma_write_parts(&mut self, number: u32, flags: u8, own_posted: u32) -> Step {
        let (completes, _) = Self::completes(self.side.level());
        loop {
            let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
                return Step::Blocked;
            };
            let Some(remote) = entry.remote() else {
                return Step::Blocked;
            };
            let (chunk, bytes) = if entry.bytes == 0 {
                if !out.has_room(1) {
                    return Step::Blocked;
                }
                (
                    Chunk {
                        offset: 0,
                        bytes: 0,
                    },
                    0,
                )
            } else {
                let Some(part) = out.next_part(&self.side, entry.bytes.into()) else {
                    return Step::Blocked;
                };
                out.fill(entry, part.0, part.1);
                part
            };
            let end = out.offset + bytes;
            let mut part_flags = flags;
            if out.offset > 0 {
                part_flags |= flag::CONTINUES;
            }
            if end < u64::from(entry.bytes) {
                part_flags |= flag::MORE;
            }
            let words = [
                u64::from(chunk.offset) | bytes << 32,
                remote.address.wrapping_add(out.offset),
                remote.handle.into(),
            ];
            out.direction.write_words(out.next, words);
            let (length, immediate) = (entry.bytes, entry.immediate);
            out.publish(
                Kind::RdmaWrite,
                part_flags,
                length,
                immediate,
                own_posted,
                1,
            );
            if bytes > 0 {
                out.chunks.push_back((out.next, chunk, None));
            }
            out.offset = end;
            if end >= u64::from(entry.bytes) {
                // The target may make no call at all.
                out.kick();
                let takes_receive = flags & flag::IMMEDIATE != 0;
                out.messages = out.messages.wrapping_add(takes_receive.into());
                return self.begin(number, completes, Status::PENDING);
            }
        }
    }

    fn rdma_read(&mut self, number: u32, own_posted: u32) -> Step {
        let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
            return Step::Blocked;
        };
        let Some(remote) = entry.remote() else {
            return Step::Blocked;
        };
        let bytes = u64::from(entry.bytes);
        if out.offset == 0 {
            if !out.has_room(1) {
                return Step::Blocked;
            }
            match out.remote_range(remote.handle, remote.address, bytes, RemoteAccess::Read) {
                Verdict::Refused => {
                    let flags = flag::READ | flag::ACKNOWLEDGE;
                    out.publish(Kind::RdmaRefused, flags, bytes as u32, 0, own_posted, 1);
                    out.kick();
                    return self.begin(number, Completes::WhenConsumed, Status::PENDING);
                }
                Verdict::Allowed(target) => {
                    let plan = out.plan(bytes, &target);
                    let is_here = match target {
                        _ if bytes == 0 => true,
                        Target::Mapped(source) if plan.mechanism != Mechanism::Pool => {
                            entry.each_piece(0, bytes, |target, done, piece| {
                                // SAFETY: inside the peer's mapped segment; the target was checked.
                                unsafe {
                                    copy::copy(target, source.as_ptr().add(done as usize), piece)
                                };
                            });
                            true
                        }
                        Target::Private(address) if plan.mechanism != Mechanism::Pool => {
                            let local = pieces(entry, 0, bytes);
                            // SAFETY: the local ranges were checked when the descriptor was posted.
                            unsafe { cma::read(out.link.peer_pid(), &local, &[(address, bytes)]) }
                                .is_ok()
                        }
                        _ => false,
                    };
                    if is_here {
                        return self.begin(number, Completes::Now, Status::PENDING);
                    }
                }
                Verdict::Unknown => {}
            }
        }
        self.rdma_read_parts(number, own_posted)
    }

    /// A remote read that the target's side answers.
    fn rdma_read_parts(&mut self, number: u32, own_posted: u32) -> Step {
        loop {
            let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
                return Step::Blocked;
            };
            let Some(remote) = entry.remote() else {
                return Step::Blocked;
            };
            let total = u64::from(entry.bytes).max(1);
            let Some((chunk, bytes)) = out.next_part(&self.side, total) else {
                return Step::Blocked;
            };
            let bytes = bytes.min(u64::from(entry.bytes) - out.offset);
            let words = [
                u64::from(chunk.offset) | bytes << 32,
                remote.address.wrapping_add(out.offset),
                remote.handle.into(),
            ];
            out.direction.write_words(out.next, words);
            if out.offset == 0 {
                out.reads += 1;
            }
            let end = out.offset + bytes;
            let is_last = end >= u64::from(entry.bytes);
            let flags = flag::ACKNOWLEDGE | if is_last { 0 } else { flag::MORE };
            out.publish(Kind::RdmaRead, flags, entry.bytes, 0, own_posted, 1);
            let part = ReadPart {
                descriptor: number,
                offset: out.offset,
                bytes: bytes as u32,
                is_last,
            };
            out.chunks.push_back((out.next, chunk, Some(part)));
            out.offset = end;
            if is_last {
                out.kick();
                return self.begin(number, Completes::WhenConsumed, Status::PENDING);
            }
        }
    }

    /// Ends the connection's part of this side: what is in flight gets `in_flight`, or what the
    /// receiver said of it, and the rest is flushed.
    pub(crate) fn end(&mut self, in_flight: Status) {
        self.settle();
        let Some(mut out) = self.out.take() else {
            self.side.flush(Queue::Send);
            return;
        };
        // The slot after the message that failed, and what its sender is told.
        let outcome = out.direction.outcome().load(Ordering::Acquire);
        let failed_until = outcome as u32;
        let told = Status::from_bits((outcome >> 32) as u32 & Status::ERROR_MASK.bits());
        out.release();
        while self.side.queue.done != self.side.queue.begun {
            let number = self.side.queue.done;
            let Some(entry) = self.side.queue.get_mut(number) else {
                break;
            };
            let is_failed = told != Status::PENDING && entry.sent_until == failed_until;
            if entry.awaits {
                entry.status = if is_failed { told } else { in_flight };
            }
            self.complete(number);
        }
        self.side.flush(Queue::Send);
    }
}

/// Where the bytes of a remote range can be reached.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// In a segment that is mapped here.
    Mapped(NonNull<u8>),
    /// In private memory of the peer, through the kernel.
    Private(u64),
    /// Not from here.
    Nowhere,
}

/// What the initiator can say of a remote operation.
enum Verdict {
    Allowed(Target),
    Refused,
    /// The target's side must check.
    Unknown,
}

impl Outgoing {
    fn reach(&self, segment: u32, address: u64, bytes: u64) -> Target {
        if segment == OPAQUE {
            return Target::Nowhere;
        }
        if segment == 0 {
            return if self.link.cma() {
                Target::Private(address)
            } else {
                Target::Nowhere
            };
        }
        let Some((base, length)) = self.link.peer_segment(segment) else {
            return Target::Nowhere;
        };
        match address.checked_add(bytes) {
            // SAFETY: the range is inside the mapping.
            Some(end) if end <= length as u64 => unsafe {
                Target::Mapped(base.add(address as usize))
            },
            _ => Target::Nowhere,
        }
    }

    #[inline]
    fn plan(&self, bytes: u64, target: &Target) -> Plan {
        let reach = Reach {
            direct: matches!(target, Target::Mapped(_)),
            cma: matches!(target, Target::Private(_)),
        };
        self.thresholds
            .choose(bytes as usize, reach, self.thresholds.distance())
    }

    /// Whether a remote operation is allowed, and where its range is.
    fn remote_range(&self, handle: u32, address: u64, bytes: u64, access: RemoteAccess) -> Verdict {
        let is_enabled = match access {
            RemoteAccess::Write => self.remote.attributes.rdma_write,
            RemoteAccess::Read => self.remote.attributes.rdma_read,
        };
        if !is_enabled {
            return Verdict::Refused;
        }
        let Some(regions) = &self.regions else {
            return Verdict::Unknown;
        };
        match regions.check_remote(handle, address, bytes, self.remote.tag, access) {
            Err(ProtectionError::Unsettled) => Verdict::Unknown,
            Err(_) => Verdict::Refused,
            Ok(Placement {
                segment: Some(segment),
                offset,
            }) => match self.reach(segment.bits(), offset, bytes) {
                Target::Nowhere => Verdict::Unknown,
                target => Verdict::Allowed(target),
            },
            Ok(_) => match self.reach(0, address, bytes) {
                Target::Nowhere => Verdict::Unknown,
                target => Verdict::Allowed(target),
            },
        }
    }

    /// A chunk for the next part of a message, and the part's bytes.
    fn next_part(&mut self, side: &Side, total: u64) -> Option<(Chunk, u64)> {
        if !self.has_room(1) {
            return None;
        }
        let left = total - self.offset;
        let chunk = match self.link.chunks.take(left) {
            Some(chunk) => chunk,
            None => {
                self.refresh();
                self.reclaim(side);
                self.link.chunks.take(left)?
            }
        };
        Some((chunk, left.min(chunk.bytes.into())))
    }

    /// Copies a part of a message into a chunk.
    fn fill(&self, entry: &crate::work_queue::Entry, chunk: Chunk, bytes: u64) {
        let (pool, _) = self.link.outgoing_pool();
        let plan = self.thresholds.choose(
            entry.bytes as usize,
            Reach::default(),
            self.thresholds.distance(),
        );
        entry.each_piece(self.offset, bytes, |source, done, piece| {
            // SAFETY: the chunk has `bytes` bytes in the pool; the source was checked.
            unsafe {
                copy_planned(
                    pool.as_ptr().add(chunk.offset as usize + done as usize),
                    source,
                    piece,
                    plan,
                )
            };
        });
    }
}

#[inline]
unsafe fn copy_planned(target: *mut u8, source: *const u8, bytes: usize, plan: Plan) {
    // SAFETY: the caller's promise.
    unsafe {
        plan.copy(target, source, bytes);
    }
}

/// The local ranges of a part of a message.
fn pieces(entry: &crate::work_queue::Entry, start: u64, bytes: u64) -> Vec<(*mut u8, usize)> {
    let mut local = Vec::new();
    entry.each_piece(start, bytes, |address, _, length| {
        local.push((address, length))
    });
    local
}

/// The same ranges, to read from.
fn readable(local: &[(*mut u8, usize)]) -> Vec<(*const u8, usize)> {
    local
        .iter()
        .map(|(address, length)| (address.cast_const(), *length))
        .collect()
}

const _: () = assert!(INLINE_BYTES_MAX >= channel::FIRST_PAYLOAD_BYTES);
