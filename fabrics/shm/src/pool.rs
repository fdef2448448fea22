//! The chunks of a pool through which messages go that cannot be placed at once.
//!
//! Half of the pool is cut into large chunks and half into small ones. They are handed out in
//! turn, so that a chunk comes back to its writer after the reader's cache has let it go: a pool
//! that stays in the cache of the other side is the slowest of all.

mod bits;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use self::bits::{give_bit, take_bit};

/// Bytes of a pool.
pub(crate) const POOL_BYTES: usize = 4 << 20;
const LARGE_BYTES: u32 = 64 << 10;
const SMALL_BYTES: u32 = 4 << 10;
const HALF: u32 = POOL_BYTES as u32 / 2;
const LARGE: u32 = HALF / LARGE_BYTES;
const SMALL_WORDS: usize = (HALF / SMALL_BYTES / 64) as usize;

/// A piece of a pool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Chunk {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

/// Which chunks of an outgoing pool are in use. Private to the sending process.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    large: AtomicU64,
    small: [AtomicU64; SMALL_WORDS],
    turn: AtomicU32,
}

impl Chunks {
    /// A chunk for `wanted` bytes, or a part of them; `None` while all are in use.
    pub(crate) fn take(&self, wanted: u64) -> Option<Chunk> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        if wanted > u64::from(SMALL_BYTES)
            && let Some(bit) = take_bit(&self.large, turn % LARGE, LARGE)
        {
            return Some(Chunk {
                offset: bit * LARGE_BYTES,
                bytes: LARGE_BYTES,
            });
        }
        (0..SMALL_WORDS).find_map(|step| {
            let word = (turn as usize / 64 + step) % SMALL_WORDS;
            let bit = take_bit(&self.small[word], turn % 64, 64)?;
            Some(Chunk {
                offset: HALF + (word as u32 * 64 + bit) * SMALL_BYTES,
                bytes: SMALL_BYTES,
            })
        })
    }

    pub(crate) fn give_back(&self, chunk: Chunk) {
        if chunk.offset < HALF {
            let bit = chunk.offset / LARGE_BYTES;
            give_bit(&self.large, bit);
        } else {
            let number = (chunk.offset - HALF) / SMALL_BYTES;
            give_bit(&self.small[number as usize / 64], number % 64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn chunks_do_not_overlap_and_come_back() {
        let chunks = Chunks::default();
        let mut taken = Vec::new();
        while let Some(chunk) = chunks.take(1 << 20) {
            taken.push(chunk);
        }
        let starts: BTreeSet<u32> = taken.iter().map(|chunk| chunk.offset).collect();
        assert_eq!(starts.len(), taken.len());
        let bytes: usize = taken.iter().map(|chunk| chunk.bytes as usize).sum();
        assert_eq!(bytes, POOL_BYTES);
        assert!(chunks.take(1).is_none());
        chunks.give_back(taken[3]);
        assert_eq!(chunks.take(1 << 20), Some(taken[3]));
    }

    #[test]
    fn neighbouring_takes_get_different_chunks() {
        let chunks = Chunks::default();
        let first = chunks.take(100_000);
        if let Some(chunk) = first {
            chunks.give_back(chunk);
        }
        assert_ne!(chunks.take(100_000), first);
    }
}
