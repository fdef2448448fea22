//! Shared memory of one connection: transfer queues and cookie queues.
//!
//! A block has two directions. A direction carries messages from a *sender* to a *receiver*:
//!
//! ```text
//! line 0        written by the receiver at each post, read by the sender when it runs out
//!               posted: receives posted
//! line 1        written by the receiver when it changes its way of waiting
//!               sleeper: whom to wake; tripwire: which completion queue to tell;
//!               opened: its VI is connected, so that the counts of line 0 are its own
//! line 2        written by the receiver now and then, read by the sender when the slots are full
//!               consumed: slots used; outcome: of a message that failed
//! lines 3..35   the transfer queue: 32 slots, written by the sender
//! lines 35..43  the cookie queue: 16 cookies of posted receives, written by the receiver
//! ```
//!
//! A slot is one cache line: a header word that is written last, immediate data, the count of
//! receives that the sender itself has posted, and 48 bytes of payload. The header holds the lap of
//! the queue, so that a slot is known to be new without a second line.
//!
//! What the peer writes is read once and checked where it is used. Nothing here makes a reference
//! to bytes that the peer can write, other than atomics.

mod slot;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::copy;
use crate::copy::prefetch_line_to_write;

const LINE: usize = 64;
/// Slots of a transfer queue.
pub(crate) const SLOTS: u32 = 32;
/// Cookies of a cookie queue.
pub(crate) const COOKIES: u32 = 16;
const SLOTS_AT: usize = 3 * LINE;
const COOKIES_AT: usize = SLOTS_AT + SLOTS as usize * LINE;
const COOKIE_BYTES: usize = 32;
pub(crate) const DIRECTION_BYTES: usize = COOKIES_AT + COOKIES as usize * COOKIE_BYTES;
/// Bytes of both directions.
pub(crate) const BLOCK_BYTES: usize = 2 * DIRECTION_BYTES;

/// Payload of a message's first slot.
pub(crate) const FIRST_PAYLOAD_BYTES: usize = LINE - 16;
/// Payload of each further slot.
pub(crate) const NEXT_PAYLOAD_BYTES: usize = LINE - 8;
/// Slots that one message may take inline, whatever the thresholds say.
pub(crate) const INLINE_SLOTS: u32 = 16;
/// Most bytes that go inline.
pub(crate) const INLINE_BYTES_MAX: usize =
    FIRST_PAYLOAD_BYTES + (INLINE_SLOTS as usize - 1) * NEXT_PAYLOAD_BYTES;

/// Slots that a message of so many bytes takes inline.
#[inline]
pub(crate) const fn inline_slots(bytes: usize) -> u32 {
    if bytes <= FIRST_PAYLOAD_BYTES {
        1
    } else {
        1 + (bytes - FIRST_PAYLOAD_BYTES).div_ceil(NEXT_PAYLOAD_BYTES) as u32
    }
}

/// What a slot says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A message whose bytes are in the slot and those behind it.
    Inline = 1,
    /// More bytes of the message before.
    Continuation = 2,
    /// A message whose bytes are in the receive's buffer already.
    Placed = 3,
    /// A message, or a part of one, whose bytes are in the pool.
    Pool = 4,
    /// A message longer than the receive that it met: no bytes.
    TooLong = 5,
    /// Bytes in the pool to be written into memory of the receiver.
    RdmaWrite = 6,
    /// Bytes of the receiver's memory wanted in the pool.
    RdmaRead = 7,
    /// A remote write with immediate data whose bytes are in place: takes a receive.
    RdmaImmediate = 8,
    /// A remote write or read that the sender's check refused; told so that it is reported.
    RdmaRefused = 9,
}

impl Kind {
    #[inline]
    pub(crate) const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Inline,
            2 => Self::Continuation,
            3 => Self::Placed,
            4 => Self::Pool,
            5 => Self::TooLong,
            6 => Self::RdmaWrite,
            7 => Self::RdmaRead,
            8 => Self::RdmaImmediate,
            9 => Self::RdmaRefused,
            _ => return None,
        })
    }
}

/// Flags of a slot.
pub(crate) mod flag {
    /// The immediate data counts.
    pub(crate) const IMMEDIATE: u8 = 1;
    /// The sender waits for `consumed`.
    pub(crate) const ACKNOWLEDGE: u8 = 2;
    /// More parts of this message follow in other slots.
    pub(crate) const MORE: u8 = 4;
    /// With [`super::Kind::RdmaRefused`]: it was a read.
    pub(crate) const READ: u8 = 8;
    /// Goes on where the part before ended.
    pub(crate) const CONTINUES: u8 = 16;
}

/// The first words of a slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// Bytes of the message, or of this part where the kind says so.
    pub(crate) length: u32,
}

/// ```text
///  63     32 31   24 23  16 15   0
/// | length  | flags | kind | lap  |
/// ```
#[inline(always)]
const fn header_word(index: u32, header: Header) -> u64 {
    slot::lap(index / SLOTS) as u64
        | (header.kind as u64) << 16
        | (header.flags as u64) << 24
        | (header.length as u64) << 32
}

/// The segment of a cookie that tells a capacity and no place.
pub(crate) const OPAQUE: u32 = u32::MAX;

/// One posted receive, as its sender may see it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Cookie {
    /// Bytes that fit.
    pub(crate) capacity: u32,
    /// The shared segment it lies in; 0: private memory at `address`.
    pub(crate) segment: u32,
    /// Offset in the segment, or virtual address.
    pub(crate) address: u64,
}

/// Asks for the line at an address ahead of reading it.
#[inline]
pub(crate) fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which does nothing at an address that is not mapped.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A slot that is the next to be written, as it was when its receiver last looked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    header: NonNull<u64>,
    seen: u64,
    lap: u16,
}

// SAFETY: as a `Direction`.
unsafe impl Send for Watch {}

impl Watch {
    /// Whether the slot was written since, or before. If others have received meanwhile and the
    /// next slot is another one, then this one was written, too.
    ///
    /// # Safety
    ///
    /// The block is mapped.
    #[inline]
    pub(crate) unsafe fn has_news(&self) -> bool {
        // SAFETY: the caller's promise; only reached atomically.
        let word = unsafe { AtomicU64::from_ptr(self.header.as_ptr()) }.load(Ordering::Acquire);
        word != self.seen || word as u16 == self.lap
    }

    /// Asks for the slot ahead of reading it.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch_line(self.header.as_ptr().cast());
    }
}

/// One direction of a block, seen from either end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direction {
    base: NonNull<u8>,
}

// SAFETY: a view of memory that is shared anyway; every access is atomic or of raw bytes.
unsafe impl Send for Direction {}
// SAFETY: as above.
unsafe impl Sync for Direction {}

impl Direction {
    /// The direction of `block` in which `side` sends.
    ///
    /// # Safety
    ///
    /// `block` has [`BLOCK_BYTES`] bytes, aligned to 64, mapped while the direction is used.
    pub(crate) unsafe fn sent_by(side: u8, block: NonNull<u8>) -> Self {
        // SAFETY: both offsets are inside the block.
        let base = unsafe { block.add(usize::from(side & 1) * DIRECTION_BYTES) };
        Self { base }
    }

    /// The first byte, for peers that lie.
    #[cfg(test)]
    pub(crate) const fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[inline(always)]
    fn word32(&self, at: usize) -> &AtomicU32 {
        // SAFETY: every `at` of this file is inside the direction and a multiple of 4; the memory
        // is only reached atomically or as raw bytes.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    #[inline(always)]
    fn word64(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as above, with a multiple of 8.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Receives posted since the connection began. Written by the receiver.
    #[inline]
    pub(crate) fn posted(&self) -> &AtomicU32 {
        self.word32(0)
    }

    /// Slots used since the connection began. Written by the receiver.
    #[inline]
    pub(crate) fn consumed(&self) -> &AtomicU32 {
        self.word32(2 * LINE)
    }

    /// The first message that failed at the receiver: its slot after in the low half, and the
    /// status bits that its sender gets in the upper. 0: none.
    #[inline]
    pub(crate) fn outcome(&self) -> &AtomicU64 {
        self.word64(2 * LINE + 8)
    }

    /// The parker of a receiver that sleeps, plus 1.
    #[inline]
    pub(crate) fn sleeper(&self) -> &AtomicU32 {
        self.word32(LINE)
    }

    /// The group of completion queues to tell of arrivals, plus 1; 0: the receiver looks itself.
    #[inline]
    pub(crate) fn tripwire(&self) -> &AtomicU32 {
        self.word32(LINE + 4)
    }

    /// 1 once the receiver's VI is connected. The sender's may be for a while before.
    #[inline]
    pub(crate) fn opened(&self) -> &AtomicU32 {
        self.word32(LINE + 8)
    }

    #[inline(always)]
    fn slot_at(index: u32) -> usize {
        SLOTS_AT + (index % SLOTS) as usize * LINE
    }

    /// The header of slot `index`, if it has been written. What it says is the peer's word.
    #[inline(always)]
    pub(crate) fn peek(&self, index: u32) -> Option<Header> {
        let word = slot::peek(self.word64(Self::slot_at(index)), slot::lap(index / SLOTS))?;
        Some(Header {
            kind: (word >> 16) as u8,
            flags: (word >> 24) as u8,
            length: (word >> 32) as u32,
        })
    }

    /// The immediate data and the sender's count of posted receives, after [`Direction::peek`].
    #[inline(always)]
    pub(crate) fn immediate_and_credit(&self, index: u32) -> (u32, u32) {
        let word = self
            .word64(Self::slot_at(index) + 8)
            .load(Ordering::Relaxed);
        (word as u32, (word >> 32) as u32)
    }

    /// Where the payload of slot `index` lies, as the first slot of a message.
    #[inline(always)]
    pub(crate) fn payload(&self, index: u32) -> *mut u8 {
        // SAFETY: inside the slot.
        unsafe { self.base.as_ptr().add(Self::slot_at(index) + 16) }
    }

    /// Makes slot `index` visible, with what was written into it before.
    #[inline(always)]
    pub(crate) fn publish(&self, index: u32, header: Header, immediate: u32, credit: u32) {
        let at = Self::slot_at(index);
        let second = u64::from(immediate) | u64::from(credit) << 32;
        let words = [self.word64(at), self.word64(at + 8)];
        kill_point!();
        slot::publish(words, [header_word(index, header), second]);
        kill_point!();
    }

    /// Writes bytes into slot `index` and those behind it, from byte `offset` of the payload on.
    ///
    /// # Safety
    ///
    /// `source` has `bytes` readable bytes; offset and bytes fit into [`INLINE_BYTES_MAX`]; the
    /// slots are free.
    #[inline]
    pub(crate) unsafe fn write_inline(
        &self,
        index: u32,
        offset: usize,
        source: *const u8,
        bytes: usize,
    ) {
        // SAFETY: the caller's promise; pieces lie inside slots.
        unsafe {
            self.each_piece(index, offset, bytes, |slot, done, piece| {
                copy::copy(slot, source.add(done), piece)
            })
        };
    }

    /// Reads bytes of slot `index` and those behind it.
    ///
    /// # Safety
    ///
    /// `target` has `bytes` writable bytes; offset and bytes fit into [`INLINE_BYTES_MAX`].
    #[inline]
    pub(crate) unsafe fn read_inline(
        &self,
        index: u32,
        offset: usize,
        target: *mut u8,
        bytes: usize,
    ) {
        // SAFETY: as above.
        unsafe {
            self.each_piece(index, offset, bytes, |slot, done, piece| {
                copy::copy(target.add(done), slot, piece)
            })
        };
    }

    #[inline]
    unsafe fn each_piece(
        &self,
        index: u32,
        offset: usize,
        bytes: usize,
        mut piece: impl FnMut(*mut u8, usize, usize),
    ) {
        if offset + bytes <= FIRST_PAYLOAD_BYTES {
            // SAFETY: inside the first slot.
            piece(unsafe { self.payload(index).add(offset) }, 0, bytes);
            return;
        }
        let mut done = 0;
        while done < bytes {
            let at = offset + done;
            let (slot, start, room) = if at < FIRST_PAYLOAD_BYTES {
                (0, 16 + at, FIRST_PAYLOAD_BYTES - at)
            } else {
                let behind = at - FIRST_PAYLOAD_BYTES;
                let within = behind % NEXT_PAYLOAD_BYTES;
                (
                    1 + behind / NEXT_PAYLOAD_BYTES,
                    8 + within,
                    NEXT_PAYLOAD_BYTES - within,
                )
            };
            let length = room.min(bytes - done);
            let line = Self::slot_at(index.wrapping_add(slot as u32));
            // SAFETY: `start + room` ends with the slot.
            piece(
                unsafe { self.base.as_ptr().add(line + start) },
                done,
                length,
            );
            done += length;
        }
    }

    /// Writes the words of a part: its range of the pool, and a remote address and handle.
    #[inline]
    pub(crate) fn write_words(&self, index: u32, words: [u64; 3]) {
        let at = Self::slot_at(index) + 16;
        for (number, word) in words.into_iter().enumerate() {
            kill_point!();
            self.word64(at + 8 * number).store(word, Ordering::Relaxed);
        }
    }

    /// Reads the words of a part, after [`Direction::peek`].
    #[inline]
    pub(crate) fn read_words(&self, index: u32) -> [u64; 3] {
        let at = Self::slot_at(index) + 16;
        [0, 8, 16].map(|word| self.word64(at + word).load(Ordering::Relaxed))
    }

    /// How to learn of slot `index` without the receive side's lock.
    #[inline]
    pub(crate) fn watch(&self, index: u32) -> Watch {
        let at = Self::slot_at(index);
        // SAFETY: inside the block, so not null.
        let header = unsafe { self.base.add(at) }.cast();
        Watch {
            header,
            seen: self.word64(at).load(Ordering::Relaxed),
            lap: slot::lap(index / SLOTS),
        }
    }

    /// Whether the receiver wants to be told of a message: it sleeps, or waits elsewhere.
    #[inline(always)]
    pub(crate) fn wants_notice(&self) -> bool {
        // Sleeper and tripwire in one load.
        self.word64(LINE).load(Ordering::Relaxed) != 0
    }

    /// Marks the slots behind a message's first as its continuation; before the first is published.
    #[inline]
    pub(crate) fn mark_continuation(&self, index: u32, slots: u32) {
        for behind in 1..slots {
            let at = index.wrapping_add(behind);
            let header = Header {
                kind: Kind::Continuation as u8,
                flags: 0,
                length: 0,
            };
            kill_point!();
            self.word64(Self::slot_at(at))
                .store(header_word(at, header), Ordering::Relaxed);
        }
    }

    /// Tells the sender of receive number `index`, counted from the connection's beginning.
    #[inline]
    pub(crate) fn write_cookie(&self, index: u32, cookie: Cookie) {
        let at = COOKIES_AT + (index % COOKIES) as usize * COOKIE_BYTES;
        kill_point!();
        self.word64(at + 16)
            .store(cookie.address, Ordering::Relaxed);
        kill_point!();
        self.word64(at + 8).store(
            u64::from(cookie.capacity) | u64::from(cookie.segment) << 32,
            Ordering::Relaxed,
        );
        kill_point!();
        self.word32(at)
            .store(index.wrapping_add(1), Ordering::Release);
        kill_point!();
    }

    /// The cookie of receive number `index`, if it was told. What it says is the peer's word.
    #[inline]
    pub(crate) fn read_cookie(&self, index: u32) -> Option<Cookie> {
        let at = COOKIES_AT + (index % COOKIES) as usize * COOKIE_BYTES;
        if self.word32(at).load(Ordering::Acquire) != index.wrapping_add(1) {
            return None;
        }
        let word = self.word64(at + 8).load(Ordering::Relaxed);
        let address = self.word64(at + 16).load(Ordering::Relaxed);
        Some(Cookie {
            capacity: word as u32,
            segment: (word >> 32) as u32,
            address,
        })
    }

    /// Asks for the line of slot `index` ahead of reading it.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        // SAFETY: inside the block.
        prefetch_line(unsafe { self.base.as_ptr().add(Self::slot_at(index)) });
    }

    /// Asks for the line of slot `index` ahead of writing it.
    #[inline(always)]
    pub(crate) fn prefetch_write(&self, index: u32) {
        prefetch_line_to_write(self.slot_line(index));
    }

    /// The line of slot `index`.
    #[inline(always)]
    pub(crate) fn slot_line(&self, index: u32) -> *mut u8 {
        // SAFETY: inside the block.
        unsafe { self.base.as_ptr().add(Self::slot_at(index)) }
    }
}
