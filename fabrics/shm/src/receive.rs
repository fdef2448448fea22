//! The receive side of a VI: from a slot that the peer wrote to a completed descriptor.
//!
//! What the peer wrote is read once and believed nowhere: lengths are checked against the receive
//! and the pool, remote addresses against the regions of this NIC.

mod told;

use std::ptr::NonNull;
mod remote;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use viaduct_core::outcome::{self, Outcome};
use viaduct_core::protection::{self, RemoteAccess};
use viaduct_core::{CompletedOperation, Operation, Queue, Status, ViAttributes};
use viaduct_provider::{Counts, Descriptor};

use crate::channel::{Direction, Header, INLINE_BYTES_MAX, Kind, SLOTS, Watch, flag, inline_slots};
use crate::copy;
use crate::link::Link;
use crate::side::Side;

/// The receive side of a VI.
#[derive(Default)]
pub(crate) struct ReceiveSide {
    pub(crate) side: Side,
    pub(crate) incoming: Option<Incoming>,
}

/// What a connected VI receives from.
pub(crate) struct Incoming {
    pub(crate) direction: Direction,
    pub(crate) link: Arc<Link>,
    pub(crate) connection: u64,
    /// What the VI lets its peer do.
    attributes: ViAttributes,
    /// Whether a message may take several receives.
    splits: bool,
    /// Receives with fewer bytes are told by no cookie: all that fits goes inline. A sender that
    /// splits counts on every receive.
    pub(crate) cookie_from_bytes: u32,
    /// The next slot to look at.
    pub(crate) next: u32,
    /// Slots that the sender was told are used.
    published: u32,
    /// The queue's number of the connection's receive 0.
    base: u32,
    /// Receives told to the sender.
    pub(crate) posted: u32,
    /// The next receive whose cookie is to be written.
    pub(crate) cookies: u32,
    /// The slot of the last look in vain.
    vain: u32,
    stage: Stage,
    /// What was done on this connection.
    pub(crate) counts: Counts,
}

/// What the next slot is to a receiver.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The first of a message.
    BetweenMessages,
    /// A further part of this message.
    InMessage(Partial),
    /// Nothing: the message in it, or one before it, broke the connection. Until its end other
    /// threads may look, and deal with nothing more.
    Broken,
}

/// How far a message in parts has come.
#[derive(Clone, Copy, Debug)]
struct Partial {
    kind: Kind,
    bytes: u64,
    done: u64,
    /// Why it comes to nothing.
    bad: Option<Taking>,
}

/// What follows from a message that its receives do not take, and how many they are.
#[derive(Clone, Copy, Debug)]
struct Taking {
    outcome: Outcome,
    receives: u32,
}

impl From<Outcome> for Taking {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            receives: 1,
        }
    }
}

/// What a look at the transfer queue came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Look {
    /// Nothing new.
    Nothing,
    /// A slot was dealt with.
    Dealt,
    /// It failed in a way that breaks the connection.
    Breaks,
    /// The peer broke the protocol.
    Garbage,
}

/// So many slots were there at once: then the sender is ahead, and a slot that is further off is
/// asked for before it is read. Earlier that would take lines away which it is about to write.
const IN_A_ROW: u32 = 4;
/// How many slots off, before and after. Millions of 8-byte messages a second, and of requests
/// over 64 connections: 22 to 26 and 7.0; with 2 and 2 19.7 and 7.1, with none before 24 and 5.7.
const SLOTS_AHEAD: [u32; 2] = [2, 4];
/// The same for a program that looks at one VI alone: it is quicker than its sender, so that what
/// it asks for is likely to be what that is about to write. Millions of 8-byte messages a second:
/// 31; with 3 in a row 25, and as above 20.
const IN_A_ROW_ALONE: u32 = 8;
const SLOTS_AHEAD_ALONE: u32 = 4;
/// Slots that are used before the sender is told, when it does not wait for them.
const LAZY_SLOTS: u32 = 8;

/// Asks for a slot that is read soon, the next and the last that was not there being known.
#[inline(always)]
fn ask_ahead(direction: Direction, next: u32, vain: u32) {
    let ahead = SLOTS_AHEAD[usize::from(next.wrapping_sub(vain) >= IN_A_ROW - 1)];
    direction.prefetch(next.wrapping_add(ahead));
}

impl Incoming {
    pub(crate) fn new(
        direction: Direction,
        link: Arc<Link>,
        connection: u64,
        attributes: &ViAttributes,
        inline_bytes: usize,
    ) -> Self {
        Self {
            direction,
            link,
            connection,
            attributes: *attributes,
            splits: attributes.extensions.request_splitting,
            cookie_from_bytes: match attributes.extensions.request_splitting {
                true => 0,
                false => inline_bytes as u32 + 1,
            },
            next: 0,
            published: 0,
            base: 0,
            posted: 0,
            cookies: 0,
            vain: 0,
            stage: Stage::BetweenMessages,
            counts: Counts::default(),
        }
    }

    /// How to learn of the next slot without the lock.
    #[inline]
    pub(crate) fn watch(&self) -> Watch {
        self.direction.watch(self.next)
    }

    #[inline(always)]
    fn is_between_messages(&self) -> bool {
        matches!(self.stage, Stage::BetweenMessages)
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self, slots: u32, at_once: bool) {
        let next = self.next.wrapping_add(slots);
        self.next = next;
        if at_once || next.wrapping_sub(self.published) >= LAZY_SLOTS {
            self.counts.returns += 1;
            self.tell_consumed();
        }
    }

    #[inline(always)]
    fn tell_consumed(&mut self) {
        self.published = self.next;
        kill_point!();
        self.direction
            .consumed()
            .store(self.next, Ordering::Release);
    }
}

impl ReceiveSide {
    /// The connection that it receives on.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.incoming.as_ref().map(|incoming| incoming.connection)
    }

    /// The short way of [`ReceiveSide::look`] where no receive is complete: the receive that a
    /// message completed, which is taken, or that there is nothing. `None` where the message is to
    /// go the long way.
    #[inline(always)]
    pub(crate) fn look_simply(
        &mut self,
        credit: &AtomicU32,
    ) -> Option<Option<NonNull<Descriptor>>> {
        let incoming = self.incoming.as_mut()?;
        let (direction, next) = (incoming.direction, incoming.next);
        let Some(header) = direction.peek(next) else {
            incoming.vain = next;
            return Some(None);
        };
        if header.kind != Kind::Inline as u8 || !incoming.is_between_messages() {
            return None;
        }
        if next.wrapping_sub(incoming.vain) >= IN_A_ROW_ALONE {
            direction.prefetch(next.wrapping_add(SLOTS_AHEAD_ALONE));
        }
        let (immediate, peer_posted) = direction.immediate_and_credit(next);
        credit.store(peer_posted, Ordering::Relaxed);
        let immediate = (header.flags & flag::IMMEDIATE != 0).then_some(immediate);
        let taken = self.take_simple::<false>(header, immediate, direction.payload(next));
        taken.map(Some)
    }

    /// Deals with one slot, if there is one. `credit` gets the peer's count of posted receives.
    #[inline(always)]
    pub(crate) fn look(&mut self, credit: &AtomicU32) -> Look {
        let Some(incoming) = &mut self.incoming else {
            return Look::Nothing;
        };
        let (direction, next) = (incoming.direction, incoming.next);
        let Some(header) = direction.peek(next) else {
            incoming.vain = next;
            return Look::Nothing;
        };
        ask_ahead(direction, next, incoming.vain);
        let (immediate, peer_posted) = direction.immediate_and_credit(next);
        credit.store(peer_posted, Ordering::Relaxed);
        let immediate = (header.flags & flag::IMMEDIATE != 0).then_some(immediate);
        if header.kind == Kind::Inline as u8 && incoming.is_between_messages() {
            let payload = direction.payload(next);
            if self
                .take_simple::<true>(header, immediate, payload)
                .is_some()
            {
                return Look::Dealt;
            }
            return self.inline(header, immediate);
        }
        self.look_further(header, immediate)
    }

    #[inline(never)]
    fn look_further(&mut self, header: Header, immediate: Option<u32>) -> Look {
        let Some(incoming) = &self.incoming else {
            return Look::Nothing;
        };
        if matches!(incoming.stage, Stage::Broken) {
            return Look::Nothing;
        }
        let kind = Kind::from_bits(header.kind);
        // A sender refuses what is longer than the VI's messages.
        if header.length > self.side.max_transfer_bytes {
            return Look::Garbage;
        }
        match incoming.stage {
            Stage::InMessage(partial) if Some(partial.kind) != kind => return Look::Garbage,
            _ => {}
        }
        match kind {
            Some(Kind::Placed) => self.placed(header, immediate),
            Some(Kind::TooLong) => {
                // The sender says so: no receive is asked whether it would do.
                let number = self.side.queue.done;
                let level = self.side.level();
                let outcome = if number == self.side.queue.tail {
                    outcome::receive_queue_empty(level)
                } else {
                    self.spoiled(number, header.length.into())
                        .unwrap_or(outcome::message_too_long(level))
                };
                self.fail(outcome, Operation::SendReceive, 1, header)
            }
            Some(Kind::Pool) => self.pool(header, immediate),
            Some(Kind::RdmaWrite) => self.rdma_write(header, immediate),
            Some(Kind::RdmaRead) => self.rdma_read(header),
            Some(Kind::RdmaImmediate) => {
                if protection::check_end(&incoming.attributes, RemoteAccess::Write).is_err() {
                    return Look::Garbage;
                }
                self.rdma_immediate(header, immediate)
            }
            Some(Kind::RdmaRefused) => self.refused(header, immediate),
            Some(Kind::Inline | Kind::Continuation) | None => Look::Garbage,
        }
    }

    /// How many receives a message of so many bytes takes, from the oldest on: one, unless it may
    /// be split.
    #[inline]
    fn receive_for(&mut self, bytes: u64) -> Result<u32, Taking> {
        let number = self.side.queue.done;
        if number == self.side.queue.tail {
            return Err(outcome::receive_queue_empty(self.side.level()).into());
        }
        let room = self
            .side
            .queue
            .get(number)
            .map_or(0, |entry| entry.bytes.into());
        if bytes > room {
            return self.receives_for(bytes);
        }
        match self.spoiled(number, bytes) {
            Some(outcome) => Err(outcome.into()),
            None => Ok(1),
        }
    }

    /// What follows from a receive that is not as it should be for so many bytes.
    #[inline]
    fn spoiled(&mut self, number: u32, bytes: u64) -> Option<Outcome> {
        self.side.recheck(number, Queue::Receive);
        let entry = self.side.queue.get_mut(number)?;
        if entry.is_sound() {
            return None;
        }
        let (reach, posted) = (entry.reach().into(), entry.bytes.into());
        if !protection::fits_within(reach, posted, bytes) {
            // The message takes it, and comes to nothing.
            entry.set_fault(Status::PROTECTION_ERROR);
        }
        let level = self.side.level();
        match self.side.queue.get(number)?.fault() {
            Status::PENDING => None,
            Status::FORMAT_ERROR => Some(outcome::receive_format(level)),
            _ => Some(outcome::receive_protection(level)),
        }
    }

    /// The receives of a message that is longer than the oldest.
    #[cold]
    fn receives_for(&mut self, bytes: u64) -> Result<u32, Taking> {
        let (first, tail) = (self.side.queue.done, self.side.queue.tail);
        let splits = self.incoming.as_ref().is_some_and(|it| it.splits);
        let (mut room, mut count) = (0, 0);
        while room < bytes {
            let number = first.wrapping_add(count);
            if number == tail || count == 1 && !splits {
                // One receive tells of it.
                let outcome = self.spoiled(first, bytes);
                let too_long = outcome::message_too_long(self.side.level());
                return Err(outcome.unwrap_or(too_long).into());
            }
            room += self.bytes_of(number);
            count += 1;
        }
        let (mut left, mut bad) = (bytes, None);
        for number in (0..count).map(|place| first.wrapping_add(place)) {
            bad = bad.or(self.spoiled(number, left));
            left = left.saturating_sub(self.bytes_of(number));
        }
        match bad {
            Some(outcome) => Err(Taking {
                outcome,
                receives: count,
            }),
            None => Ok(count),
        }
    }

    fn bytes_of(&self, number: u32) -> u64 {
        let entry = self.side.queue.get(number);
        entry.map_or(0, |entry| entry.bytes.into())
    }

    /// The receive that a remote write with immediate data takes. Its buffers are not touched, so
    /// that their protection does not matter.
    fn receive_of_write(&mut self) -> Result<(), Taking> {
        let number = self.side.queue.done;
        let level = self.side.level();
        if number == self.side.queue.tail {
            return Err(outcome::receive_queue_empty(level).into());
        }
        let entry = self.side.queue.get(number);
        if entry.is_some_and(|entry| entry.fault() == Status::FORMAT_ERROR) {
            return Err(outcome::receive_format(level).into());
        }
        Ok(())
    }

    /// Copies a part of a message into the receives that it takes.
    #[inline]
    fn scatter(&self, offset: u64, bytes: u64, mut piece: impl FnMut(*mut u8, u64, usize)) {
        let queue = &self.side.queue;
        let Some(entry) = queue.get(queue.done) else {
            return;
        };
        if offset + bytes <= u64::from(entry.bytes) {
            entry.each_piece(offset, bytes, piece);
            return;
        }
        let (mut number, mut skip, mut done) = (queue.done, offset, 0);
        while done < bytes && number != queue.tail {
            let Some(entry) = queue.get(number) else {
                return;
            };
            let room = u64::from(entry.bytes);
            if skip < room {
                let length = (room - skip).min(bytes - done);
                entry.each_piece(skip, length, |target, at, n| piece(target, done + at, n));
                done += length;
                skip = 0;
            } else {
                skip -= room;
            }
            number = number.wrapping_add(1);
        }
    }

    /// Completes the oldest receive well, and with it those before that a split message filled.
    #[inline]
    fn succeed(
        &mut self,
        operation: Operation,
        bytes: u32,
        immediate: Option<u32>,
        slots: u32,
        receives: u32,
        header: Header,
    ) -> Look {
        let status = |has_immediate| Status::received(operation, Status::PENDING, has_immediate);
        let mut left = bytes;
        for _ in 1..receives {
            let room = self
                .side
                .queue
                .get(self.side.queue.done)
                .map_or(0, |entry| entry.bytes);
            let filled = Some((room.min(left), None));
            let status = status(false) | outcome::part_of_split(Status::PENDING, false);
            self.side.complete(Queue::Receive, status, filled);
            left -= room.min(left);
        }
        let status = status(immediate.is_some());
        self.side
            .complete(Queue::Receive, status, Some((left, immediate)));
        if let Some(incoming) = &mut self.incoming {
            incoming.counts.received += 1;
            incoming.advance(slots, header.flags & flag::ACKNOWLEDGE != 0);
            if incoming.cookies != incoming.posted {
                self.write_cookies();
            }
        }
        Look::Dealt
    }

    /// Completes the receives of a message that fails.
    fn complete_failed(&mut self, Taking { outcome, receives }: Taking, operation: Operation) {
        let Some(error) = outcome.receive else {
            return;
        };
        for _ in 0..receives {
            let number = self.side.queue.done;
            if number == self.side.queue.tail {
                break;
            }
            let error = if receives == 1 {
                error
            } else {
                let own = self.spoiled(number, 0).and_then(|outcome| outcome.receive);
                outcome::part_of_split(own.unwrap_or(Status::PENDING), true)
            };
            let status = Status::received(operation, error, false);
            self.side.complete(Queue::Receive, status, Some((0, None)));
        }
    }

    /// Completes the receives of a message that ends in the middle.
    fn complete_under_way(&mut self, partial: Partial, error: Status) {
        let operation = Operation::SendReceive;
        if partial.kind != Kind::Pool {
            return;
        }
        let taking = match partial.bad {
            Some(taking) => Err(taking),
            None => self.receive_for(partial.bytes),
        };
        match taking {
            Ok(receives) => {
                let status = Status::received(operation, error, false);
                for _ in 0..receives {
                    self.side.complete(Queue::Receive, status, Some((0, None)));
                }
            }
            Err(taking) => self.complete_failed(taking, operation),
        }
    }

    /// Lets an incident have its outcome.
    #[cold]
    fn fail(
        &mut self,
        taking: impl Into<Taking>,
        operation: Operation,
        slots: u32,
        header: Header,
    ) -> Look {
        let taking = taking.into();
        self.complete_failed(taking, operation);
        let outcome = taking.outcome;
        if let Some(code) = outcome.event {
            let about = match operation {
                Operation::RdmaRead => CompletedOperation::RdmaRead,
                Operation::RdmaWrite => CompletedOperation::RemoteRdmaWrite,
                _ => CompletedOperation::Receive,
            };
            self.side.report_operation(code, None, about);
        }
        let Some(incoming) = &mut self.incoming else {
            return Look::Nothing;
        };
        if !outcome.breaks {
            incoming.stage = Stage::BetweenMessages;
            incoming.advance(slots, header.flags & flag::ACKNOWLEDGE != 0);
            self.write_cookies();
            return Look::Dealt;
        }
        // The counter stays before this message, or its sender would take it for delivered.
        incoming.stage = Stage::Broken;
        incoming.counts.returns += 1;
        incoming.tell_consumed();
        let until = incoming.next.wrapping_add(slots);
        let told = u64::from(until) | u64::from(outcome.sender.bits()) << 32;
        kill_point!();
        incoming.direction.outcome().store(told, Ordering::Release);
        Look::Breaks
    }

    #[inline(never)]
    fn inline(&mut self, header: Header, immediate: Option<u32>) -> Look {
        let bytes = header.length as usize;
        if bytes > INLINE_BYTES_MAX {
            return Look::Garbage;
        }
        let operation = Operation::SendReceive;
        let slots = inline_slots(bytes);
        let receives = match self.receive_for(bytes as u64) {
            Ok(receives) => receives,
            Err(taking) => return self.fail(taking, operation, slots, header),
        };
        let Some(incoming) = &self.incoming else {
            return Look::Nothing;
        };
        let (direction, next) = (incoming.direction, incoming.next);
        self.scatter(0, bytes as u64, |target, done, piece| {
            // SAFETY: the receives' ranges were checked and are the provider's; the whole is
            // within the payload of the slots.
            unsafe { direction.read_inline(next, done as usize, target, piece) };
        });
        self.succeed(operation, bytes as u32, immediate, slots, receives, header)
    }

    fn placed(&mut self, header: Header, immediate: Option<u32>) -> Look {
        let operation = Operation::SendReceive;
        match self.receive_for(header.length.into()) {
            Ok(1) => self.succeed(operation, header.length, immediate, 1, 1, header),
            Ok(_) => Look::Garbage,
            Err(taking) => self.fail(taking, operation, 1, header),
        }
    }

    fn rdma_immediate(&mut self, header: Header, immediate: Option<u32>) -> Look {
        let operation = Operation::RdmaWrite;
        match self.receive_of_write() {
            Ok(()) => self.succeed(operation, header.length, immediate, 1, 1, header),
            Err(taking) => self.fail(taking, operation, 1, header),
        }
    }

    /// The words of a part, and its range of the pool; `None` for one that cannot be.
    fn part(&self) -> Option<([u64; 3], *mut u8, u64)> {
        let incoming = self.incoming.as_ref()?;
        let words = incoming.direction.read_words(incoming.next);
        let (offset, bytes) = (words[0] & u64::from(u32::MAX), words[0] >> 32);
        let (pool, length) = incoming.link.incoming_pool();
        if offset + bytes > length as u64 {
            return None;
        }
        // SAFETY: inside the pool.
        Some((words, unsafe { pool.as_ptr().add(offset as usize) }, bytes))
    }

    /// The state of the message that this part belongs to; `None` for one that cannot be.
    fn partial(&mut self, kind: Kind, header: Header, part_bytes: u64) -> Option<Partial> {
        let total = u64::from(header.length);
        let stage = self.incoming.as_ref()?.stage;
        let continues = header.flags & flag::CONTINUES != 0;
        let partial = match stage {
            Stage::InMessage(partial) if continues => partial,
            Stage::BetweenMessages if !continues => {
                let bad = match kind {
                    Kind::Pool => self.receive_for(total).err(),
                    _ => None,
                };
                Partial {
                    kind,
                    bytes: total,
                    done: 0,
                    bad,
                }
            }
            _ => return None,
        };
        let is_last = header.flags & flag::MORE == 0;
        let done = partial.done + part_bytes;
        (partial.bytes == total && done <= total && (!is_last || done == total)).then_some(partial)
    }

    /// Keeps the state of a message until its next part.
    fn keep(&mut self, partial: Partial) -> Look {
        if let Some(incoming) = &mut self.incoming {
            incoming.stage = Stage::InMessage(partial);
            incoming.advance(1, true);
        }
        Look::Dealt
    }

    fn pool(&mut self, header: Header, immediate: Option<u32>) -> Look {
        let Some((_, source, bytes)) = self.part() else {
            return Look::Garbage;
        };
        let Some(mut partial) = self.partial(Kind::Pool, header, bytes) else {
            return Look::Garbage;
        };
        // A region may go between two parts; its receive then fails at the last.
        let mut receives = 1;
        if partial.bad.is_none() {
            match self.receive_for(partial.bytes) {
                Ok(count) => receives = count,
                Err(taking) => partial.bad = Some(taking),
            }
        }
        if partial.bad.is_none() {
            self.scatter(partial.done, bytes, |target, done, piece| {
                // SAFETY: the receives were checked; the source is inside the pool.
                unsafe { copy::copy(target, source.add(done as usize), piece) };
            });
        }
        partial.done += bytes;
        if header.flags & flag::MORE != 0 {
            return self.keep(partial);
        }
        if let Some(incoming) = &mut self.incoming {
            incoming.stage = Stage::BetweenMessages;
        }
        let operation = Operation::SendReceive;
        if let Some(taking) = partial.bad {
            return self.fail(taking, operation, 1, header);
        }
        // The chunk goes back to its writer at once.
        let header = Header {
            flags: header.flags | flag::ACKNOWLEDGE,
            ..header
        };
        self.succeed(operation, header.length, immediate, 1, receives, header)
    }

    /// Tells the program that the connection is gone, if that is what follows.
    #[cold]
    pub(crate) fn report_loss(&self, outcome: Outcome) {
        if let Some(code) = outcome.event {
            self.side.report(code, None, Queue::Receive);
        }
    }

    /// Tells the sender of every slot that was used: it asked.
    pub(crate) fn tell_consumed(&mut self) {
        if let Some(incoming) = &mut self.incoming {
            incoming.counts.answers += 1;
            incoming.tell_consumed();
        }
    }

    /// Deals with what lies in the transfer queue now, at the end of a connection: its sender may
    /// have been told that it arrived. False: one of the messages breaks the connection.
    pub(crate) fn take_arrived(&mut self, credit: &AtomicU32) -> bool {
        let is_broken = |it: &Incoming| matches!(it.stage, Stage::Broken);
        if self.incoming.as_ref().is_some_and(is_broken) {
            return false;
        }
        // No more lies there; what comes meanwhile may be left.
        for _ in 0..SLOTS {
            match self.look(credit) {
                Look::Nothing => return true,
                Look::Dealt => {}
                Look::Breaks | Look::Garbage => return false,
            }
        }
        true
    }

    /// Ends the connection's part of this side; what is posted stays so.
    pub(crate) fn end(&mut self, under_way: Status) {
        let stage = self.incoming.as_ref().map(|it| it.stage);
        if let Some(Stage::InMessage(partial)) = stage {
            self.complete_under_way(partial, under_way);
        }
        if let (Some(incoming), Some(nic)) = (self.incoming.take(), &self.side.nic) {
            nic.counting.keep(incoming.counts);
        }
    }
}
