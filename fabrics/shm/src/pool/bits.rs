//! The bits that stand for chunks. Tests put other atomics under them.

use crate::sync::{AtomicU64, Ordering};

/// Sets a clear bit of the lowest `count`, the first from `start` on, around the end.
pub(crate) fn take_bit(word: &AtomicU64, start: u32, count: u32) -> Option<u32> {
    let all = if count == 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    };
    let mut taken = word.load(Ordering::Relaxed);
    loop {
        let free = !taken & all;
        if free == 0 {
            return None;
        }
        let later = free & !((1_u64 << start) - 1);
        let bit = if later == 0 { free } else { later }.trailing_zeros();
        match word.compare_exchange_weak(
            taken,
            taken | 1 << bit,
            Ordering::Acquire,
            Ordering::Relaxed,
        ) {
            Ok(_) => return Some(bit),
            Err(now) => taken = now,
        }
    }
}

/// Clears a bit that was taken: what its taker did to the chunk is seen by the next one.
pub(crate) fn give_bit(word: &AtomicU64, bit: u32) {
    word.fetch_and(!(1 << bit), Ordering::Release);
}
