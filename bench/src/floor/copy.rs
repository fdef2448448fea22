//! One copy from private memory straight into a buffer that the receiver maps.
//!
//! ```text
//! each way   releases, one line per slot | messages, one line per slot | buffers
//!            the receiver writes          the sender writes            the sender writes
//! ```

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::Ordering;

use crate::floor::Side;
use crate::floor::shared::{LINE_BYTES, Private, Shared, Stores};
use crate::protocol::{ANSWER, DEPTH, End, Plan, Test};

/// Slots in use: the buffers of the bandwidth test, and one for the answer.
const SLOTS: usize = DEPTH + 1;
const RELEASES: usize = 0;
const MESSAGES: usize = SLOTS * LINE_BYTES;
const BUFFERS: usize = 4096;

/// One end: a sender one way and a receiver the other.
#[derive(Debug)]
pub(crate) struct Copy {
    shared: Shared,
    stores: Stores,
    /// In a ping-pong the answer says that the buffer is free.
    is_ping_pong: bool,
    outgoing: usize,
    incoming: usize,
    stride: usize,
    sending: Vec<Private>,
    sent: [u64; SLOTS],
    received: [u64; SLOTS],
}

/// Bytes of a buffer: whole pages, so that two buffers share none.
fn stride(plan: &Plan) -> usize {
    plan.bytes.next_multiple_of(4096)
}

/// Bytes of shared memory that it uses.
pub(crate) fn bytes(plan: &Plan) -> usize {
    2 * way_bytes(plan)
}

fn way_bytes(plan: &Plan) -> usize {
    BUFFERS + SLOTS * stride(plan)
}

impl Copy {
    pub(crate) fn new(shared: Shared, side: Side, plan: &Plan, stores: Stores) -> io::Result<Self> {
        let (outgoing, incoming) = match side {
            Side::First => (0, way_bytes(plan)),
            Side::Second => (way_bytes(plan), 0),
        };
        let sending = (0..SLOTS).map(|_| Private::create(stride(plan)));
        Ok(Self {
            shared,
            stores,
            is_ping_pong: plan.test == Test::Latency,
            outgoing,
            incoming,
            stride: stride(plan),
            sending: sending.collect::<io::Result<_>>()?,
            sent: [0; SLOTS],
            received: [0; SLOTS],
        })
    }

    #[inline]
    fn place(slot: usize) -> usize {
        if slot == ANSWER { DEPTH } else { slot }
    }

    #[inline]
    fn buffer(&self, way: usize, place: usize) -> usize {
        way + BUFFERS + place * self.stride
    }
}

impl End for Copy {
    fn fill(&mut self, slot: usize, bytes: usize, value: u8) {
        self.sending[Self::place(slot)].fill(bytes, value);
    }

    #[inline]
    fn post(&mut self, slot: usize, bytes: usize) {
        let place = Self::place(slot);
        if !self.is_ping_pong {
            let released = self
                .shared
                .word(self.outgoing + RELEASES + place * LINE_BYTES);
            // Acquire: pairs with the Release in `release`; the buffer was read before we write it.
            while released.load(Ordering::Acquire) != self.sent[place] {
                spin_loop();
            }
        }
        // A steering message is shorter than a line.
        let stores = if bytes < LINE_BYTES {
            Stores::Ordinary
        } else {
            self.stores
        };
        let buffer = self.buffer(self.outgoing, place);
        self.shared
            .copy_in(buffer, &self.sending[place], bytes, stores);
        self.sent[place] += 1;
        let flag = self
            .shared
            .word(self.outgoing + MESSAGES + place * LINE_BYTES);
        // Release: pairs with the Acquire in `receive`, which may then read the buffer.
        flag.store(self.sent[place], Ordering::Release);
    }

    fn settle(&mut self, _slot: usize) {}

    fn expect(&mut self, _slot: usize, _bytes: usize) {}

    #[inline]
    fn receive(&mut self, slot: usize, _bytes: usize) {
        let place = Self::place(slot);
        self.received[place] += 1;
        let flag = self
            .shared
            .word(self.incoming + MESSAGES + place * LINE_BYTES);
        while flag.load(Ordering::Acquire) != self.received[place] {
            spin_loop();
        }
    }

    fn sum(&mut self, slot: usize, bytes: usize) -> u64 {
        let buffer = self.buffer(self.incoming, Self::place(slot));
        self.shared.sum(buffer, bytes)
    }

    #[inline]
    fn release(&mut self, slot: usize) {
        if self.is_ping_pong {
            return;
        }
        let place = Self::place(slot);
        let released = self
            .shared
            .word(self.incoming + RELEASES + place * LINE_BYTES);
        // Release: pairs with the Acquire in `post`.
        released.store(self.received[place], Ordering::Release);
    }
}
