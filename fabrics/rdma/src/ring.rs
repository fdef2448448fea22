//! A direction of a link: packets in lines of 64 bytes, written by one process and taken by
//! another.
//!
//! A packet is a header of 32 bytes and its payload, in as many lines as that takes. The first word
//! of its first line says that it is there: it is stored last, and that of the packet to come is
//! cleared before, since old payload may lie there. It is cleared long before, as a rule: the
//! receiver's processor fetches lines ahead, and to take one back would delay what is stored next.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use viaduct_core::verbs::SendOpcode;
use viaduct_processes::barrier::light_barrier;
use viaduct_processes::copy::copy;

/// Bytes of a line.
pub(crate) const LINE_BYTES: usize = 64;
/// Lines of a ring; a power of two.
const LINES: u64 = 4096;
/// Bytes of its data.
const DATA_BYTES: usize = LINES as usize * LINE_BYTES;
/// Bytes in front of the data.
const CONTROL_BYTES: usize = 4096;
/// Bytes of a ring.
pub(crate) const RING_BYTES: usize = CONTROL_BYTES + DATA_BYTES;
/// Bytes of the header.
const HEADER_BYTES: usize = 32;
/// The longest payload.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 32 * 1024;
/// Lines that are cleared ahead of the packets that may begin there.
const CLEAR_AHEAD: u64 = 16;
/// Says that a packet is there.
const STAMP: u32 = 0x5649_4131;

/// What stands before a payload.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Header {
    /// What it is.
    pub(crate) kind: u8,
    /// Bits of its kind.
    pub(crate) flags: u8,
    /// A small number of its kind.
    pub(crate) code: u16,
    /// Queue pair that it is for.
    pub(crate) target: u32,
    /// Queue pair that it is from.
    pub(crate) source: u32,
    /// Number of the request.
    pub(crate) sequence: u32,
    /// Immediate data, or another word of its kind.
    pub(crate) immediate: u32,
    /// Bytes of the payload.
    pub(crate) length: u32,
    /// Bytes of the whole message, where the kind needs it.
    pub(crate) total: u32,
}

impl Header {
    /// Both ends, as they stand in one word.
    #[inline(always)]
    pub(crate) const fn ends(&self) -> u64 {
        word(self.target, self.source)
    }
}

/// Two numbers in one word of a line.
const fn word(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    base: NonNull<u8>,
}

// SAFETY: memory of a mapping that its users keep; reached by atomics and copies.
unsafe impl Send for Ring {}

impl Ring {
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: offsets used here are inside the control page and aligned.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Lines that the receiver has taken.
    fn head(&self) -> &AtomicU64 {
        // SAFETY: inside the control page and aligned.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast()) }
    }

    /// 1 while the receiver wants to be woken.
    fn attention(&self) -> &AtomicU32 {
        self.word(LINE_BYTES)
    }

    /// What the sender does by itself in the receiver's memory: the words of [`Direct`], and one
    /// that is odd while it does.
    fn direct(&self, index: usize) -> &AtomicU64 {
        // SAFETY: a line of the control page, and aligned.
        unsafe {
            AtomicU64::from_ptr(
                self.base
                    .as_ptr()
                    .add(2 * LINE_BYTES)
                    .cast::<u64>()
                    .add(index),
            )
        }
    }

    fn line(&self, position: u64) -> *mut u8 {
        let at = (position & (LINES - 1)) as usize * LINE_BYTES;
        // SAFETY: inside the data.
        unsafe { self.base.as_ptr().add(CONTROL_BYTES + at) }
    }

    #[inline]
    fn line_word(&self, position: u64, index: usize) -> &AtomicU64 {
        // SAFETY: a word of a line, aligned.
        unsafe { AtomicU64::from_ptr(self.line(position).cast::<u64>().add(index)) }
    }

    /// The two pieces of a range of a packet's bytes.
    fn pieces(&self, position: u64, offset: usize, length: usize) -> [(*mut u8, usize); 2] {
        debug_assert!(length <= DATA_BYTES);
        let start = ((position & (LINES - 1)) as usize * LINE_BYTES + offset) % DATA_BYTES;
        let first = length.min(DATA_BYTES - start);
        // SAFETY: both are inside the data.
        let data = unsafe { self.base.as_ptr().add(CONTROL_BYTES) };
        // SAFETY: `start` is inside the data.
        [(unsafe { data.add(start) }, first), (data, length - first)]
    }
}

/// Remote operations that no packet tells of, since who asked for them carried them out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Direct {
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) atomics: u64,
}

/// The word that is odd while the sender is in the receiver's memory, behind those of [`Direct`].
const UNDER_WAY: usize = 5;

/// Lines that a packet takes.
pub(crate) const fn lines_of(payload: usize) -> u64 {
    (HEADER_BYTES + payload).div_ceil(LINE_BYTES) as u64
}

/// The writing end of a ring.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: Ring,
    tail: u64,
    head_seen: u64,
    /// Up to here, from the tail on, the first words of lines are clear.
    clear: u64,
}

impl Producer {
    /// # Safety
    ///
    /// `base` has [`RING_BYTES`] bytes, aligned to a page, mapped while this is used.
    pub(crate) const unsafe fn new(base: NonNull<u8>) -> Self {
        Self {
            ring: Ring { base },
            tail: 0,
            head_seen: 0,
            clear: LINES,
        }
    }

    /// Lines written so far.
    pub(crate) const fn tail(&self) -> u64 {
        self.tail
    }

    /// Whether the receiver has taken everything up to a count of lines.
    pub(crate) fn is_taken(&mut self, position: u64) -> bool {
        if self.head_seen < position {
            self.look();
        }
        self.head_seen >= position
    }

    /// Whether it is known that the receiver took everything up to a count of lines.
    pub(crate) const fn was_taken(&self, position: u64) -> bool {
        self.head_seen >= position
    }

    #[cold]
    fn look(&mut self) {
        let head = self.ring.head().load(Ordering::Acquire);
        // A receiver that says more than was written, or goes back, is not believed.
        if head <= self.tail && head >= self.head_seen {
            self.head_seen = head;
        }
    }

    /// Whether a packet finds room, the first word of the next one included.
    #[inline(always)]
    pub(crate) fn has_room(&mut self, payload: usize) -> bool {
        let end = self.tail + lines_of(payload) + 1;
        if end - self.head_seen > LINES {
            self.look();
        }
        end - self.head_seen <= LINES
    }

    /// Writes bytes of the next packet's payload.
    ///
    /// # Safety
    ///
    /// `bytes` can be read for `length` bytes, and the packet finds room.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, offset: usize, bytes: *const u8, length: usize) {
        if offset + length <= LINE_BYTES - HEADER_BYTES {
            let line = self.ring.line(self.tail);
            // SAFETY: as promised by the caller; the first line has room for them.
            return unsafe { copy(line.add(HEADER_BYTES + offset), bytes, length) };
        }
        // SAFETY: as promised by the caller.
        unsafe { self.write_far(offset, bytes, length) };
    }

    /// As [`Producer::write`], past the first line.
    ///
    /// # Safety
    ///
    /// As [`Producer::write`].
    #[inline(never)]
    unsafe fn write_far(&self, offset: usize, bytes: *const u8, length: usize) {
        let [(first, count), (second, rest)] =
            self.ring.pieces(self.tail, HEADER_BYTES + offset, length);
        // SAFETY: as promised by the caller; the pieces are `length` bytes of the ring that the
        // receiver has given back.
        unsafe {
            copy(first, bytes, count);
            if rest > 0 {
                copy(second, bytes.add(count), rest);
            }
        }
    }

    /// Lets the receiver see the packet.
    #[inline(always)]
    pub(crate) fn publish(&mut self, header: &Header) {
        let lines = lines_of(header.length as usize);
        let ring = &self.ring;
        let next = self.tail + lines;
        if self.clear <= next {
            ring.line_word(next, 0).store(0, Ordering::Relaxed);
            self.clear = next + 1;
        }
        let kind = u32::from(header.kind) | u32::from(header.flags) << 8;
        let words = [
            header.ends(),
            word(header.sequence, header.immediate),
            word(header.length, header.total),
        ];
        for (index, word) in (1..).zip(words) {
            ring.line_word(self.tail, index)
                .store(word, Ordering::Relaxed);
        }
        let first = word(STAMP, kind | u32::from(header.code) << 16);
        ring.line_word(self.tail, 0).store(first, Ordering::Release);
        self.tail = next;
        if self.clear < next + CLEAR_AHEAD / 2 {
            self.clear_ahead();
        }
    }

    /// Clears lines that packets to come may begin with, as far as the receiver has given them
    /// back.
    #[inline(never)]
    fn clear_ahead(&mut self) {
        let end = (self.tail + CLEAR_AHEAD).min(self.head_seen + LINES);
        for position in self.clear..end {
            self.ring.line_word(position, 0).store(0, Ordering::Relaxed);
        }
        self.clear = self.clear.max(end);
    }

    /// Counts what this end carried out in the receiver's memory.
    pub(crate) fn count_direct(&self, opcode: SendOpcode, bytes: u64) {
        if opcode.is_atomic() {
            return self.add_direct(4, 1);
        }
        let first = if opcode.is_write() { 0 } else { 2 };
        self.add_direct(first, 1);
        self.add_direct(first + 1, bytes);
    }

    fn add_direct(&self, index: usize, count: u64) {
        // Nobody else writes it.
        let word = self.ring.direct(index);
        let before = word.load(Ordering::Relaxed);
        word.store(before.wrapping_add(count), Ordering::Release);
    }

    /// This end is about to look whether it may reach the receiver's memory, and to do so.
    #[inline]
    pub(crate) fn begin_direct(&self) {
        self.add_direct(UNDER_WAY, 1);
        light_barrier();
    }

    /// It has done so, or has not.
    #[inline]
    pub(crate) fn end_direct(&self) {
        self.add_direct(UNDER_WAY, 1);
    }

    /// Whether the receiver wants to be woken for what was published; it is then the caller's to
    /// do.
    #[inline]
    pub(crate) fn takes_attention(&self) -> bool {
        light_barrier();
        let attention = self.ring.attention();
        attention.load(Ordering::Relaxed) != 0 && attention.swap(0, Ordering::AcqRel) != 0
    }
}

/// The taking end of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Consumer {
    ring: Ring,
    position: u64,
    told: u64,
}

impl Consumer {
    /// # Safety
    ///
    /// As [`Producer::new`].
    pub(crate) const unsafe fn new(base: NonNull<u8>) -> Self {
        Self {
            ring: Ring { base },
            position: 0,
            told: 0,
        }
    }

    /// What the sender says that it carried out in this end's memory.
    pub(crate) fn direct(&self) -> Direct {
        let [writes, write_bytes, reads, read_bytes, atomics] =
            [0, 1, 2, 3, 4].map(|index| self.ring.direct(index).load(Ordering::Relaxed));
        Direct {
            writes,
            write_bytes,
            reads,
            read_bytes,
            atomics,
        }
    }

    /// A number that is odd while the sender may be in this end's memory, and changes when it
    /// leaves it.
    pub(crate) fn under_way(&self) -> u64 {
        self.ring.direct(UNDER_WAY).load(Ordering::Acquire)
    }

    /// Lines taken so far.
    pub(crate) const fn position(&self) -> u64 {
        self.position
    }

    /// Whether there is no next packet.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let word = self.ring.line_word(self.position, 0);
        word.load(Ordering::Relaxed) as u32 == 0
    }

    /// The header of the next packet.
    ///
    /// # Errors
    ///
    /// Garbage, where a peer wrote what no peer writes.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Result<Option<Header>, Garbage> {
        let word = |index, order| self.ring.line_word(self.position, index).load(order);
        let first = word(0, Ordering::Acquire);
        match first as u32 {
            0 => return Ok(None),
            STAMP => {}
            _ => return Err(Garbage),
        }
        let [ends, numbers, lengths] = [1, 2, 3].map(|index| word(index, Ordering::Relaxed));
        let header = Header {
            kind: (first >> 32) as u8,
            flags: (first >> 40) as u8,
            code: (first >> 48) as u16,
            target: ends as u32,
            source: (ends >> 32) as u32,
            sequence: numbers as u32,
            immediate: (numbers >> 32) as u32,
            length: lengths as u32,
            total: (lengths >> 32) as u32,
        };
        if header.length as usize > PAYLOAD_BYTES_MAX {
            return Err(Garbage);
        }
        Ok(Some(header))
    }

    /// Copies bytes of the payload.
    ///
    /// # Safety
    ///
    /// `bytes` can be written for `length` bytes. The range is inside the payload.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, offset: usize, bytes: *mut u8, length: usize) {
        if offset + length <= LINE_BYTES - HEADER_BYTES {
            let line = self.ring.line(self.position);
            // SAFETY: as promised by the caller; the first line has them.
            return unsafe { copy(bytes, line.add(HEADER_BYTES + offset), length) };
        }
        // SAFETY: as promised by the caller.
        unsafe { self.read_far(offset, bytes, length) };
    }

    /// As [`Consumer::read`], past the first line.
    ///
    /// # Safety
    ///
    /// As [`Consumer::read`].
    #[inline(never)]
    unsafe fn read_far(&self, offset: usize, bytes: *mut u8, length: usize) {
        let [(first, count), (second, rest)] =
            self.ring
                .pieces(self.position, HEADER_BYTES + offset, length);
        // SAFETY: as promised by the caller; the pieces lie in the ring.
        unsafe {
            copy(bytes, first, count);
            if rest > 0 {
                copy(bytes.add(count), second, rest);
            }
        }
    }

    /// The payload's bytes from `offset` on, as an array.
    pub(crate) fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        // SAFETY: the array is ours; ranges past the payload are still bytes of the ring.
        unsafe { self.read(offset, bytes.as_mut_ptr(), N) };
        bytes
    }

    /// Goes past a packet.
    #[inline(always)]
    pub(crate) fn advance(&mut self, header: &Header) {
        self.position += lines_of(header.length as usize);
    }

    /// Tells the sender how far this end came.
    #[inline(always)]
    pub(crate) fn tell(&mut self) {
        if self.told == self.position {
            return;
        }
        self.told = self.position;
        self.ring.head().store(self.position, Ordering::Release);
    }

    /// Whether this end wants to be woken. Whoever wants to makes a barrier everywhere, and looks
    /// again.
    pub(crate) fn set_attention(&self, is_wanted: bool) {
        self.ring
            .attention()
            .store(u32::from(is_wanted), Ordering::Relaxed);
    }
}

/// What no peer writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Garbage;

#[cfg(test)]
mod tests {
    use viaduct_processes::segment::Segment;

    use super::*;

    #[test]
    fn packets_of_all_lengths_come_in_order_around_the_ring() {
        let segment = Segment::create("viaduct-test", RING_BYTES).unwrap();
        // SAFETY: the segment has the bytes and outlives both.
        let (mut producer, mut consumer) =
            unsafe { (Producer::new(segment.base()), Consumer::new(segment.base())) };
        let bytes: Vec<u8> = (0..PAYLOAD_BYTES_MAX).map(|at| (at * 7) as u8).collect();
        for turn in 0..3000_usize {
            let length = turn * 37 % 3000;
            let header = Header {
                kind: 1,
                sequence: turn as u32,
                length: length as u32,
                ..Header::default()
            };
            assert!(producer.has_room(length));
            // SAFETY: the bytes are ours, and there is room.
            unsafe { producer.write(0, bytes.as_ptr(), length) };
            producer.publish(&header);
            assert_eq!(consumer.peek(), Ok(Some(header)));
            let mut got = vec![0; length];
            // SAFETY: the buffer is ours.
            unsafe { consumer.read(0, got.as_mut_ptr(), length) };
            assert_eq!(got, bytes[..length]);
            consumer.advance(&header);
            assert_eq!(consumer.peek(), Ok(None));
            consumer.tell();
        }
    }

    #[test]
    fn a_full_ring_has_no_room_until_its_receiver_tells() {
        let segment = Segment::create("viaduct-test", RING_BYTES).unwrap();
        // SAFETY: the segment has the bytes and outlives both.
        let (mut producer, mut consumer) =
            unsafe { (Producer::new(segment.base()), Consumer::new(segment.base())) };
        let header = Header {
            kind: 1,
            ..Header::default()
        };
        let mut count = 0;
        while producer.has_room(0) {
            producer.publish(&header);
            count += 1;
        }
        assert_eq!(count, LINES - 1);
        consumer.advance(&header);
        assert!(!producer.has_room(0));
        consumer.tell();
        assert!(producer.has_room(0));
    }
}
