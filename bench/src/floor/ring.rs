//! A bare ring of 64-byte slots with one producer and one consumer, each way.
//!
//! ```text
//! slot   0        8                     64
//!        sequence | payload, 56 bytes   |
//! ```
//!
//! The flag lies in the slot, so that a message costs one line. The consumer tells how far it is
//! once in [`REPORT`] messages.

use std::hint::spin_loop;
use std::sync::atomic::Ordering;

use crate::floor::Side;
use crate::floor::shared::{LINE_BYTES, Shared};
use crate::protocol::End;

/// Slots of a ring.
const DEPTH: usize = 256;
/// Messages after which a consumer tells the producer.
const REPORT: u64 = 64;
/// A line for the consumer's position, a line apart, then the slots.
const SLOTS_OFFSET: usize = 2 * LINE_BYTES;
const RING_BYTES: usize = SLOTS_OFFSET + DEPTH * LINE_BYTES;
/// Bytes of payload of a slot.
pub(crate) const PAYLOAD_BYTES: usize = LINE_BYTES - 8;
/// Bytes of shared memory that it uses.
pub(crate) const BYTES: usize = 2 * RING_BYTES;

/// One end: the producer of one ring and the consumer of the other.
#[derive(Debug)]
pub(crate) struct Ring {
    shared: Shared,
    outgoing: usize,
    incoming: usize,
    sent: u64,
    /// How far the consumer was when we looked.
    taken: u64,
    received: u64,
    value: u8,
}

impl Ring {
    pub(crate) fn new(shared: Shared, side: Side) -> Self {
        let (outgoing, incoming) = match side {
            Side::First => (0, RING_BYTES),
            Side::Second => (RING_BYTES, 0),
        };
        Self {
            shared,
            outgoing,
            incoming,
            sent: 0,
            taken: 0,
            received: 0,
            value: 0,
        }
    }

    #[inline]
    fn slot(ring: usize, position: u64) -> usize {
        ring + SLOTS_OFFSET + (position as usize % DEPTH) * LINE_BYTES
    }
}

impl End for Ring {
    #[inline]
    fn fill(&mut self, _slot: usize, _bytes: usize, value: u8) {
        self.value = value;
    }

    #[inline]
    fn post(&mut self, _slot: usize, bytes: usize) {
        while self.sent - self.taken >= DEPTH as u64 {
            // Acquire: pairs with the Release in `release`; the slot was read before we write it.
            self.taken = self.shared.word(self.outgoing).load(Ordering::Acquire);
            spin_loop();
        }
        let slot = Self::slot(self.outgoing, self.sent);
        let word = u64::from_ne_bytes([self.value; 8]);
        for offset in (8..8 + bytes).step_by(8) {
            self.shared
                .word(slot + offset)
                .store(word, Ordering::Relaxed);
        }
        self.sent += 1;
        // Release: pairs with the Acquire in `receive`, which may then read the payload.
        self.shared.word(slot).store(self.sent, Ordering::Release);
    }

    fn settle(&mut self, _slot: usize) {}

    fn expect(&mut self, _slot: usize, _bytes: usize) {}

    #[inline]
    fn receive(&mut self, _slot: usize, _bytes: usize) {
        let flag = self.shared.word(Self::slot(self.incoming, self.received));
        self.received += 1;
        while flag.load(Ordering::Acquire) != self.received {
            spin_loop();
        }
    }

    #[inline]
    fn sum(&mut self, _slot: usize, bytes: usize) -> u64 {
        let slot = Self::slot(self.incoming, self.received - 1);
        (8..8 + bytes).step_by(8).fold(0_u64, |sum, offset| {
            sum.wrapping_add(self.shared.word(slot + offset).load(Ordering::Relaxed))
        })
    }

    #[inline]
    fn release(&mut self, _slot: usize) {
        if self.received.is_multiple_of(REPORT) {
            // Release: pairs with the Acquire in `post`.
            self.shared
                .word(self.incoming)
                .store(self.received, Ordering::Release);
        }
    }
}
