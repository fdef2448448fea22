//! A futex that one process waits on and the other wakes: what a blocked receiver costs at least.

use std::sync::atomic::Ordering;

use rustix::thread::futex;

use crate::floor::Side;
use crate::floor::shared::Shared;
use crate::protocol::End;

/// Bytes of shared memory that it uses.
pub(crate) const BYTES: usize = 4096;
/// Distance of two lines: processors fetch lines in pairs.
const APART: usize = 128;

/// One end. A message is a number that grows, above the byte that it carries. Nobody spins: the
/// receiver asks the kernel at once, the sender wakes at each message.
#[derive(Debug)]
pub(crate) struct Wake {
    shared: Shared,
    mine: usize,
    theirs: usize,
    sent: u32,
    received: u32,
    value: u8,
    came: u8,
}

/// Bits of the number: above them nothing, below them the byte.
const NUMBER_MASK: u32 = u32::MAX >> 8;

impl Wake {
    pub(crate) fn new(shared: Shared, side: Side) -> Self {
        let (mine, theirs) = match side {
            Side::First => (0, APART),
            Side::Second => (APART, 0),
        };
        Self {
            shared,
            mine,
            theirs,
            sent: 0,
            received: 0,
            value: 0,
            came: 0,
        }
    }
}

impl End for Wake {
    fn fill(&mut self, _slot: usize, _bytes: usize, value: u8) {
        self.value = value;
    }

    fn post(&mut self, _slot: usize, _bytes: usize) {
        self.sent = self.sent.wrapping_add(1) & NUMBER_MASK;
        let word = self.shared.half(self.mine);
        // Release: pairs with the Acquire in `receive`.
        word.store(self.sent << 8 | u32::from(self.value), Ordering::Release);
        // Only a word that is not aligned or not mapped makes it fail; ours is both.
        let _ = futex::wake(word, futex::Flags::empty(), 1);
    }

    fn settle(&mut self, _slot: usize) {}

    fn expect(&mut self, _slot: usize, _bytes: usize) {}

    fn receive(&mut self, _slot: usize, _bytes: usize) {
        self.received = self.received.wrapping_add(1) & NUMBER_MASK;
        let word = self.shared.half(self.theirs);
        loop {
            let seen = word.load(Ordering::Acquire);
            if seen >> 8 == self.received {
                self.came = seen as u8;
                return;
            }
            // It returns when woken, when the word was no longer `seen`, and now and then for
            // nothing: in each case the word says more.
            let _ = futex::wait(word, futex::Flags::empty(), seen, None);
        }
    }

    fn sum(&mut self, _slot: usize, _bytes: usize) -> u64 {
        u64::from_ne_bytes([self.came; 8])
    }

    fn release(&mut self, _slot: usize) {}
}
