//! The words by which a slot changes hands, and the marks of sleepers. Tests put other atomics
//! under them.
//!
//! ```text
//! sender    payload; second word; publish: header word     receiver   peek: header word; payload
//!           light barrier; is there a mark?                            mark; heavy barrier; peek
//! ```

use crate::sync::{AtomicU64, Ordering};

/// The lap of a slot's use, never that of the use before; the first is 1, so that zeros are old.
#[inline]
pub(crate) const fn lap(turn: u32) -> u16 {
    turn as u16 ^ 1
}

/// Makes a slot visible, with what was written into it before: its header word comes last.
#[inline(always)]
pub(crate) fn publish(words: [&AtomicU64; 2], values: [u64; 2]) {
    words[1].store(values[1], Ordering::Relaxed);
    words[0].store(values[0], Ordering::Release);
}

/// The header word of a slot, if it has been written in this lap.
#[inline(always)]
pub(crate) fn peek(word: &AtomicU64, lap: u16) -> Option<u64> {
    let word = word.load(Ordering::Acquire);
    (word as u16 == lap).then_some(word)
}
