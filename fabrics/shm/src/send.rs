//! The send side of a VI: from a posted descriptor to a slot that the peer can see.

mod outgoing;
mod rdma;
mod reader;

use std::sync::atomic::Ordering;
use std::time::Instant;

use viaduct_core::{CompletedOperation, Operation, Queue, ReliabilityLevel, Status, outcome};

pub(crate) use self::outgoing::Outgoing;
use self::outgoing::{Target, copy_planned, pieces, readable};
use self::reader::Look;
use crate::channel::{Kind, flag, inline_slots};
use crate::cma;
use crate::copy;
use crate::link::LinkMessage;
use crate::side::Side;
use crate::simple::Way;
use crate::transfer::{Mechanism, Read};

/// The send side of a VI.
#[derive(Default)]
pub(crate) struct SendSide {
    pub(crate) side: Side,
    pub(crate) out: Option<Outgoing>,
}

/// The result of an attempt to send a descriptor.
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
            let number = self.side.queue.begun;
            match self.transmit_simple(number, hint, own_posted) {
                Way::Sent => continue,
                Way::Waits => return Step::Blocked,
                Way::Long => {}
            }
            match self.transmit(number, hint, own_posted) {
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
        let status = Status::sent(entry.asks_for(), entry.status);
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

    #[inline(never)]
    fn transmit(&mut self, number: u32, hint: u32, own_posted: u32) -> Step {
        self.side.recheck(number, Queue::Send);
        let level = self.side.level();
        let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
            return Step::Blocked;
        };
        if entry.fault() != Status::PENDING {
            let outcome = outcome::send_failed(level, entry.fault());
            if let Some(code) = outcome.event {
                self.side.report(code, None, Queue::Send);
            }
            self.begin(number, Completes::Now, outcome.sender);
            return if outcome.breaks {
                Step::Breaks
            } else {
                Step::Begun
            };
        }
        if entry.has_fence() && out.has_reads() {
            return Step::Blocked;
        }
        match entry.operation() {
            Operation::SendReceive => self.send(number, hint, own_posted),
            Operation::RdmaWrite => self.rdma_write(number, hint, own_posted),
            _ => self.rdma_read(number, own_posted),
        }
    }

    /// The completion that a message of this level needs.
    fn completes(level: ReliabilityLevel) -> (Completes, u8) {
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
        if let Some(code) = outcome.event {
            out.link.send(&LinkMessage::Event {
                channel: out.channel,
                code: code as u8,
                operation: CompletedOperation::Receive as u32,
            });
        }
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
            out.counts.inline += 1;
            out.counts.bytes += bytes as u64;
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
        let mut plan = out.plan(bytes, &target);
        let (thresholds, distance) = (&out.thresholds, out.thresholds.distance());
        let can_tell = entry.is_single() && thresholds.can_tell(bytes as usize, &plan);
        let buffer = (cookie.segment, cookie.address);
        let (look, read) = out.reader.begin(buffer, entry.bytes, can_tell);
        if look == Look::None && thresholds.prefers_pool(bytes as usize, &plan, distance, read) {
            return self.send_parts(number, flags, immediate, own_posted);
        }
        plan.is_ahead = read != Read::No;
        let is_placed = match (plan.mechanism, target) {
            (Mechanism::Direct, Target::Mapped(target)) => {
                let writes = &mut out.counts.data_writes;
                entry.each_piece(0, bytes, |source, done, piece| {
                    *writes += 1;
                    // SAFETY: the target range is inside the peer's mapped segment, the source was
                    // checked when the descriptor was posted. A piece that is timed is the whole,
                    // and long enough.
                    unsafe {
                        let target = target.as_ptr().add(done as usize);
                        if look == Look::Time {
                            let ticks = copy::copy_timing_the_middle(target, source, piece);
                            out.reader.judge(out.thresholds.was_read(ticks));
                        } else {
                            copy_planned(target, source, piece, plan);
                        }
                    };
                });
                out.counts.direct += 1;
                true
            }
            (Mechanism::Copy, Target::Private(address)) => {
                let local = pieces(entry, 0, bytes);
                let start = (look == Look::Time).then(Instant::now);
                // SAFETY: the local ranges were checked when the descriptor was posted.
                let is_copied = unsafe {
                    cma::write(out.link.peer_pid(), &readable(&local), &[(address, bytes)])
                }
                .is_ok();
                if let Some(start) = start {
                    let was_read = out.thresholds.kernel_found_read(bytes, start.elapsed());
                    out.reader.judge(was_read);
                }
                if is_copied {
                    out.counts.copied += 1;
                    out.counts.copies += local.len() as u64;
                }
                is_copied
            }
            _ => false,
        };
        if !is_placed {
            return self.send_parts(number, flags, immediate, own_posted);
        }
        out.counts.bytes += bytes;
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
            out.fill_chunk(entry, chunk, bytes);
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
                out.counts.pooled += 1;
                out.counts.bytes += u64::from(entry.bytes);
                return self.begin(number, completes, Status::PENDING);
            }
        }
    }

    /// Ends the connection's part of this side: what is in flight gets `in_flight`, or what the
    /// receiver said of it, and the rest stays as it is posted.
    pub(crate) fn end(&mut self, in_flight: Status) {
        self.settle();
        let Some(mut out) = self.out.take() else {
            return;
        };
        // The slot after the message that failed, and what its sender is told.
        let outcome = out.direction.outcome().load(Ordering::Acquire);
        let failed_until = outcome as u32;
        let told = Status::from_bits((outcome >> 32) as u32 & Status::ERROR_MASK.bits());
        out.release();
        if let Some(nic) = &self.side.nic {
            nic.counting.keep(out.counts);
        }
        let mut has_failed = false;
        while self.side.queue.done != self.side.queue.begun {
            let number = self.side.queue.done;
            let Some(entry) = self.side.queue.get_mut(number) else {
                break;
            };
            let is_failed = told != Status::PENDING && entry.sent_until == failed_until;
            if entry.awaits {
                entry.status = if is_failed { told } else { in_flight };
                has_failed = true;
            } else if has_failed && entry.status == Status::PENDING {
                // Nothing succeeds behind a failure.
                entry.status = in_flight;
            }
            self.complete(number);
        }
    }
}
