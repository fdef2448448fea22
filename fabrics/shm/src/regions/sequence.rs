//! A seqlock: one writer at a time, readers that only read. Tests put other atomics under it.

use crate::sync::{AtomicU32, Ordering, fence};

/// Changes what the sequence guards, by relaxed stores.
#[inline]
pub(crate) fn write(sequence: &AtomicU32, change: impl FnOnce()) {
    let before = sequence.load(Ordering::Relaxed);
    sequence.store(before.wrapping_add(1), Ordering::Relaxed);
    // Release: pairs with the second Acquire fence in `read`: who reads a new field reads an odd
    // sequence afterwards.
    fence(Ordering::Release);
    change();
    // Release: pairs with the first Acquire fence in `read`.
    sequence.store(before.wrapping_add(2), Ordering::Release);
}

/// Looks, by relaxed loads, at what the sequence guards; `None` when it was being changed.
#[inline]
pub(crate) fn read<T>(sequence: &AtomicU32, look: impl FnOnce() -> T) -> Option<T> {
    let before = sequence.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    let found = look();
    fence(Ordering::Acquire);
    let is_whole = before.is_multiple_of(2) && sequence.load(Ordering::Relaxed) == before;
    is_whole.then_some(found)
}
