//! A cache line that goes to and fro: what no exchange between two cores can beat.
//!
//! Where a processor spreads its cache over a mesh, the time depends on which part of it a line's
//! address belongs to: 0.10 to 0.17 us were seen between the same two cores. So both sides go on to
//! other lines now and then, and the median of many batches is that of many lines.

use std::hint::spin_loop;
use std::sync::atomic::Ordering;

use crate::floor::Side;
use crate::floor::shared::Shared;
use crate::protocol::End;

/// Distance of two lines: processors fetch lines in pairs.
const APART: usize = 128;
/// A place has a line for each side.
const PLACES: usize = 64;
/// Steps at one place, as a power of two.
const STEPS_EXPONENT: u32 = 9;
/// Bytes of shared memory that it uses.
pub(crate) const BYTES: usize = PLACES * 2 * APART;

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

    /// Where the lines of the step lie that comes next.
    #[inline]
    fn place(&self) -> usize {
        (self.step >> STEPS_EXPONENT) as usize % PLACES * 2 * APART
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
        let line = self.place() + self.mine;
        self.step += 1;
        let word = self.step << 8 | u64::from(self.value);
        // Release: pairs with the Acquire in `receive`.
        self.shared.word(line).store(word, Ordering::Release);
    }

    fn settle(&mut self, _slot: usize) {}

    fn expect(&mut self, _slot: usize, _bytes: usize) {}

    #[inline]
    fn receive(&mut self, _slot: usize, _bytes: usize) {
        let word = self.shared.word(self.place() + self.theirs);
        self.step += 1;
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
