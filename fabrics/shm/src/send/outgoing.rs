//! What a connected VI sends into: credit, slots, chunks, and where the peer's buffers can be
//! reached.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use viaduct_core::{ViAttributes, check, outcome};
use viaduct_provider::Counts;

use super::Step;
use super::reader::Reader;
use crate::channel::{COOKIES, Direction, FIRST_PAYLOAD_BYTES, Header, Kind, OPAQUE, SLOTS};
use crate::connect::RemoteEnd;
use crate::copy;
use crate::link::{Link, LinkMessage};
use crate::pool::Chunk;
use crate::regions::remote::RemoteRegionTable;
use crate::side::Side;
use crate::sync::light_barrier;
use crate::transfer::{Plan, Reach, Thresholds};
use crate::wait::{Doorbells, SERVICE_MARK};
use crate::work_queue::Entry;

/// What a connected VI sends into.
pub(crate) struct Outgoing {
    pub(crate) direction: Direction,
    pub(crate) link: Arc<Link>,
    pub(crate) channel: u32,
    pub(crate) connection: u64,
    pub(crate) remote: RemoteEnd,
    pub(super) regions: Option<Arc<RemoteRegionTable>>,
    pub(super) thresholds: Arc<Thresholds>,
    /// The next slot to write.
    pub(crate) next: u32,
    /// Slots that the receiver is known to have used.
    pub(super) consumed: u32,
    /// Messages sent that take a receive.
    pub(crate) messages: u32,
    /// Receives that the peer is known to have posted.
    pub(super) credit: u32,
    /// Bytes of the descriptor under way that were handed over.
    pub(super) offset: u64,
    /// Chunks that the receiver has not used up, with the slot after theirs.
    pub(super) chunks: VecDeque<(u32, Chunk, Option<ReadPart>)>,
    /// Remote reads under way.
    pub(super) reads: u32,
    pub(super) defers: bool,
    /// The slot after the last remote write that the target's side places. A later one that this
    /// side placed would overtake it.
    pub(super) placed_there: u32,
    /// What its receiver does with what is placed there.
    pub(super) reader: Reader,
    /// Whether the peer's receives take parts of messages.
    pub(super) splits: bool,
    /// Receives that the message under way takes.
    pub(super) receives: u32,
    /// What `consumed` was when the service thread last looked.
    pub(super) watched_at: u32,
    /// Messages of fewer bytes go the short way: one slot, complete when they are in it.
    pub(crate) simple_bytes_end: u32,
    /// The same where they are complete when their receiver has used the slot.
    pub(crate) acknowledged_bytes_end: u32,
    /// What was done on this connection.
    pub(crate) counts: Counts,
}

/// Where bytes that a remote read brings into a chunk belong.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadPart {
    pub(super) descriptor: u32,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) is_last: bool,
}

/// Where the bytes of a remote range can be reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// In a segment that is mapped here.
    Mapped(NonNull<u8>),
    /// In private memory of the peer, through the kernel.
    Private(u64),
    /// Not from here.
    Nowhere,
}

/// How many bytes a message must have not to go the short way: of fewer, up to `limit`, each length
/// that a send states of its only segment is right.
fn right_bytes_end(limit: u32, max_transfer_bytes: u32) -> u32 {
    let is_right =
        |bytes: &u32| check::send_length_is_right(*bytes, u64::from(*bytes), max_transfer_bytes);
    (0..=limit).take_while(is_right).count() as u32
}

impl Outgoing {
    pub(crate) fn new(
        direction: Direction,
        link: Arc<Link>,
        channel: u32,
        connection: u64,
        remote: RemoteEnd,
        thresholds: Arc<Thresholds>,
        own: &ViAttributes,
    ) -> Self {
        let regions = remote.regions.clone();
        let splits = remote.attributes.extensions.request_splitting;
        let bytes_end = if splits {
            0
        } else {
            let limit = thresholds.inline_bytes().min(FIRST_PAYLOAD_BYTES) as u32;
            right_bytes_end(limit, own.max_transfer_bytes)
        };
        let (simple_bytes_end, acknowledged_bytes_end) =
            match outcome::completes_when(own.reliability) {
                outcome::CompletesWhen::HandedOver => (bytes_end, 0),
                outcome::CompletesWhen::Placed => (0, bytes_end),
            };
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
            defers: own.extensions.flow_control,
            placed_there: 0,
            reader: Reader::default(),
            splits,
            receives: 1,
            watched_at: 0,
            simple_bytes_end,
            acknowledged_bytes_end,
            counts: Counts::default(),
        }
    }

    /// Whether remote reads are under way.
    pub(crate) const fn has_reads(&self) -> bool {
        self.reads > 0
    }

    #[inline(always)]
    pub(crate) fn has_credit(&mut self, hint: u32) -> bool {
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
    pub(super) fn receives_for(&mut self, bytes: u32) -> Result<u32, Step> {
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

    #[inline(always)]
    pub(crate) fn has_room(&mut self, slots: u32) -> bool {
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

    pub(super) fn is_consumed(&self, until: u32) -> bool {
        self.consumed.wrapping_sub(until).cast_signed() >= 0
    }

    /// Publishes the slots of one message or part, and wakes who sleeps for it.
    #[inline(always)]
    pub(crate) fn publish(
        &mut self,
        kind: Kind,
        flags: u8,
        length: u32,
        immediate: u32,
        own_posted: u32,
        slots: u32,
    ) {
        if self.fill(kind, flags, length, immediate, own_posted, slots) {
            self.notify();
        }
    }

    /// The same, but whoever is to be told is left to the caller: whether there is somebody.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        kind: Kind,
        flags: u8,
        length: u32,
        immediate: u32,
        own_posted: u32,
        slots: u32,
    ) -> bool {
        let tripwire = self.direction.tripwire().load(Ordering::Relaxed);
        if tripwire != 0 {
            // What tells of the slot waits until its line has come: both come at once.
            let notices = self.link.outgoing_notices();
            notices.prefetch(tripwire - 1, self.channel);
        }
        let header = Header {
            kind: kind as u8,
            flags,
            length,
        };
        self.direction
            .publish(self.next, header, immediate, own_posted);
        self.next = self.next.wrapping_add(slots);
        self.counts.transfers += 1;
        self.counts.slots += u64::from(slots);
        self.direction.prefetch_write(self.next.wrapping_add(5));
        // The look for a sleeper stays behind the publication; see `wait`.
        light_barrier();
        self.direction.wants_notice()
    }

    /// Tells the receiver's completion queue, and wakes who sleeps.
    #[inline(never)]
    pub(crate) fn notify(&mut self) {
        let tripwire = self.direction.tripwire().load(Ordering::Relaxed);
        if tripwire != 0 {
            self.counts.notices += 1;
            let mark = self
                .link
                .outgoing_notices()
                .post(tripwire - 1, self.channel);
            self.wake(mark);
        }
        if self.direction.sleeper().load(Ordering::Relaxed) != 0 {
            let mark = self.direction.sleeper().swap(0, Ordering::AcqRel);
            self.wake(mark);
        }
    }

    #[inline]
    fn wake(&mut self, mark: u32) {
        if mark == SERVICE_MARK {
            self.kick();
        } else if mark != 0 {
            self.counts.kicks += 1;
            // SAFETY: the peer's doorbells are mapped as long as the link lives.
            unsafe { Doorbells::new(self.link.peer_doorbells()) }.wake(mark);
        }
    }

    /// Has the peer's service thread look at this connection.
    #[cold]
    pub(crate) fn kick(&mut self) {
        self.counts.kicks += 1;
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
    pub(super) fn reclaim(&mut self, side: &Side) {
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
    pub(super) fn take_read(&mut self, side: &Side, chunk: Chunk, part: ReadPart) {
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

    pub(super) fn reach(&self, segment: u32, address: u64, bytes: u64) -> Target {
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
    pub(super) fn plan(&self, bytes: u64, target: &Target) -> Plan {
        let reach = Reach {
            direct: matches!(target, Target::Mapped(_)),
            cma: matches!(target, Target::Private(_)),
        };
        self.thresholds
            .choose(bytes as usize, reach, self.thresholds.distance())
    }

    /// A chunk for the next part of a message, and the part's bytes.
    pub(super) fn next_part(&mut self, side: &Side, total: u64) -> Option<(Chunk, u64)> {
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
    pub(super) fn fill_chunk(&mut self, entry: &Entry, chunk: Chunk, bytes: u64) {
        self.counts.chunks += 1;
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
pub(super) unsafe fn copy_planned(target: *mut u8, source: *const u8, bytes: usize, plan: Plan) {
    // SAFETY: the caller's promise.
    unsafe {
        plan.copy(target, source, bytes);
    }
}

/// The local ranges of a part of a message.
pub(super) fn pieces(entry: &Entry, start: u64, bytes: u64) -> Vec<(*mut u8, usize)> {
    let mut local = Vec::new();
    entry.each_piece(start, bytes, |address, _, length| {
        local.push((address, length))
    });
    local
}

/// The same ranges, to read from.
pub(super) fn readable(local: &[(*mut u8, usize)]) -> Vec<(*const u8, usize)> {
    local
        .iter()
        .map(|(address, length)| (address.cast_const(), *length))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_takes_the_lengths_that_the_rule_calls_right() {
        for (limit, max) in (0..=64).flat_map(|limit| (0..=70).map(move |max| (limit, max))) {
            let end = right_bytes_end(limit, max);
            for (stated, sum) in
                (0..=limit).flat_map(|stated| (0..=limit).map(move |sum| (stated, sum)))
            {
                // As `SendSide::post_simple` asks.
                let is_taken = stated == sum && sum < end;
                let is_right = check::send_length_is_right(stated, sum.into(), max);
                assert_eq!(is_taken, is_right, "{stated} for {sum}, at most {max}");
            }
        }
    }
}
