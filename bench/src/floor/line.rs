//! A cache line that goes to and fro: what no exchange between two cores can beat.

use std::hint::spin_loop;
use std::sync::atomic::Ordering;

use crate::floor::Side;
use crate::floor::shared::Shared;
use crate::protocol::End;

/// Bytes of shared memory that it uses.
pub(crate) const BYTES: usize = 4096;
/// Distance of two lines: processors fetch lines in pairs.
const APART: usize = 128;

/// One end of the exchange. A message is a number that grows, above the byte that it carries.
#[derive(Debug)]
pub(crate) struct Line {
    shared: Shared,
    mine: usize,
    theirs: usize,
    /// Steps that went by, both directions together.
    step: u64,
    value: u8,
    came: u8,
}

impl Line {
    /// Each side has a line that it alone writes: what a flag of a ring does.
    pub(crate) fn two(shared: Shared, side: Side) -> Self {
        let (mine, theirs) = match side {
            Side::First => (0, APART),
            Side::Second => (APART, 0),
        };
        Self::new(shared, mine, theirs)
    }

    /// Both sides write the same line in turn.
    pub(crate) fn one(shared: Shared) -> Self {
        Self::new(shared, 0, 0)
    }

    fn new(shared: Shared, mine: usize, theirs: usize) -> Self {
        Self {
            shared,
            mine,
            theirs,
            step: 0,
            value: 0,
            came: 0,
        }
    }
}

impl End for Line {
    #[inline]
    fn fill(&mut self, _slot: usize, _bytes: usize, value: u8) {
        self.value = value;
    }

    #[inline]
    fn post(&mut self, _slot: usize, _bytes: usize) {
        self.step += 1;
        let word = self.step << 8 | u64::from(self.value);
        // Release: pairs with the Acquire in `receive`.
        self.shared.word(self.mine).store(word, Ordering::Release);
    }

    fn settle(&mut self, _slot: usize) {}

    fn expect(&mut self, _slot: usize, _bytes: usize) {}

    #[inline]
    fn receive(&mut self, _slot: usize, _bytes: usize) {
        self.step += 1;
        let word = self.shared.word(self.theirs);
        loop {
            let seen = word.load(Ordering::Acquire);
            if seen >> 8 == self.step {
                self.came = seen as u8;
                return;
            }
            spin_loop();
        }
    }

    fn sum(&mut self, _slot: usize, _bytes: usize) -> u64 {
        u64::from_ne_bytes([self.came; 8])
    }

    fn release(&mut self, _slot: usize) {}
}
