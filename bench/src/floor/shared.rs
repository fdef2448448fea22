//! Memory that two processes map: all unsafe code of the floor is here.
//!
//! The bytes are reached through raw pointers and atomics only, never through references to plain
//! data, because the other process writes them at any time. Ordering is the callers': each flag
//! that hands bytes over is stored with Release and read with Acquire.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// How bytes are stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stores {
    /// Through the caches.
    Ordinary,
    /// Past the caches, to memory: no line has to be fetched from the other core first.
    NonTemporal,
}

/// A mapping that lives as long as the process needs it.
#[derive(Debug)]
pub(crate) struct Shared {
    base: NonNull<u8>,
    bytes: usize,
}

impl Shared {
    /// Makes memory of `bytes` that another process can map by the descriptor.
    ///
    /// # Errors
    ///
    /// When the system has no memory or no descriptor left.
    pub(crate) fn create(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let memory = memfd_create("viaduct-bench", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, bytes as u64)?;
        let shared = Self::map(&memory, bytes)?;
        Ok((shared, memory))
    }

    /// Maps `bytes` of what [`Shared::create`] made, in this or another process.
    ///
    /// # Errors
    ///
    /// When the descriptor cannot be mapped.
    pub(crate) fn map(memory: impl AsFd, bytes: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so that the mapping overlaps nothing of ours.
        let base = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, memory, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes })
    }

    /// A word at `offset`, which is a multiple of 8.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        let place = self.range(offset, 8).cast::<u64>();
        assert!(place.is_aligned(), "a word at offset {offset}");
        // SAFETY: inside the mapping, aligned, and alive as long as `self`; all processes reach
        // words that are flags through atomics only.
        unsafe { AtomicU64::from_ptr(place) }
    }

    /// Half a word at `offset`, which is a multiple of 4: what a futex waits on.
    #[inline]
    pub(crate) fn half(&self, offset: usize) -> &AtomicU32 {
        let place = self.range(offset, 4).cast::<u32>();
        assert!(place.is_aligned(), "half a word at offset {offset}");
        // SAFETY: as for `word`.
        unsafe { AtomicU32::from_ptr(place) }
    }

    /// Copies `bytes` of `from` into `offset`.
    #[inline]
    pub(crate) fn copy_in(&self, offset: usize, from: &Private, bytes: usize, stores: Stores) {
        assert!(bytes <= from.bytes);
        let to = self.range(offset, bytes);
        match stores {
            // SAFETY: both ranges hold `bytes`; private memory does not overlap the mapping.
            Stores::Ordinary => unsafe { ptr::copy_nonoverlapping(from.base.as_ptr(), to, bytes) },
            Stores::NonTemporal => {
                assert!(to.addr().is_multiple_of(LINE_BYTES) && bytes.is_multiple_of(LINE_BYTES));
                // SAFETY: as above; both begin at a line, and `bytes` is whole lines.
                unsafe { copy_non_temporal(from.base.as_ptr(), to, bytes) };
            }
        }
    }

    /// Reads all of `bytes` at `offset`: the sum of its words.
    #[inline]
    pub(crate) fn sum(&self, offset: usize, bytes: usize) -> u64 {
        let from = self.range(offset, bytes).cast::<u64>();
        assert!(from.is_aligned());
        // SAFETY: inside the mapping and aligned. The writer handed the bytes over before.
        unsafe { sum_words(from, bytes / 8) }
    }

    /// The address of `offset`, when `bytes` from there lie inside.
    #[inline]
    fn range(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "{bytes} bytes at {offset} of {}",
            self.bytes
        );
        // SAFETY: inside the mapping, as was just asserted.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: `base` and `bytes` are the mapping that `map` made, and every reference into it
        // borrowed `self`. A failure leaves it mapped, which harms nobody.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Memory of one process, from the start of a page: what a program sends from.
#[derive(Debug)]
pub(crate) struct Private {
    base: NonNull<u8>,
    bytes: usize,
}

impl Private {
    /// Makes `bytes` of zeroes.
    ///
    /// # Errors
    ///
    /// When the system has no memory left.
    pub(crate) fn create(bytes: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so that the mapping overlaps nothing of ours.
        let base = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE)?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes })
    }

    /// Writes `value` into the first `bytes`.
    pub(crate) fn fill(&mut self, bytes: usize, value: u8) {
        assert!(bytes <= self.bytes);
        // SAFETY: inside the mapping, which this process alone has.
        unsafe { ptr::write_bytes(self.base.as_ptr(), value, bytes) };
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // SAFETY: as for `Shared`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Sums words.
///
/// # Safety
///
/// `count` words can be read at `from`, and nobody writes them meanwhile.
unsafe fn sum_words(from: *const u64, count: usize) -> u64 {
    let mut sum = 0_u64;
    for index in 0..count {
        // SAFETY: inside what the caller promises.
        sum = sum.wrapping_add(unsafe { *from.add(index) });
    }
    sum
}

/// Whether this machine has stores past the caches that we know how to use.
pub(crate) const HAS_NON_TEMPORAL: bool = cfg!(target_arch = "x86_64");

/// Copies whole lines past the caches, and has them in memory before any later store.
///
/// # Safety
///
/// Both ranges hold `bytes`, do not overlap and begin at a line; `bytes` is a multiple of a line.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_non_temporal(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_sfence, _mm_stream_si128};

    let from = from.cast::<__m128i>();
    let to = to.cast::<__m128i>();
    for line in 0..bytes / LINE_BYTES {
        let first = line * 4;
        // SAFETY: four vectors of 16 bytes of a line inside both ranges, aligned as the caller
        // promises. SSE2 is part of every x86-64.
        unsafe {
            let parts = [0, 1, 2, 3].map(|part| _mm_load_si128(from.add(first + part)));
            for (part, vector) in parts.into_iter().enumerate() {
                _mm_stream_si128(to.add(first + part), vector);
            }
        }
    }
    // Such stores are not ordered with others: the flag that follows must not overtake them.
    // SAFETY: SSE is part of every x86-64.
    unsafe { _mm_sfence() };
}

/// Never called: see [`HAS_NON_TEMPORAL`]. An ordinary copy is right everywhere.
///
/// # Safety
///
/// Both ranges hold `bytes` and do not overlap.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_non_temporal(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn two_mappings_show_the_same_bytes() {
        let (shared, memory) = Shared::create(8192).expect("memory");
        let other = Shared::map(&memory, 8192).expect("mapped");
        shared.word(64).store(7, Ordering::Release);
        assert_eq!(other.word(64).load(Ordering::Acquire), 7);
        assert_eq!(other.half(64).load(Ordering::Acquire), 7);
    }

    #[test]
    fn both_kinds_of_copy_carry_every_byte() {
        let (shared, _memory) = Shared::create(16384).expect("memory");
        let mut from = Private::create(4096).expect("memory");
        for (stores, value) in [(Stores::Ordinary, 3), (Stores::NonTemporal, 5)] {
            from.fill(4096, value as u8);
            shared.copy_in(8192, &from, 4096, stores);
            let expected = 0x0101_0101_0101_0101_u64.wrapping_mul(value * 512);
            assert_eq!(shared.sum(8192, 4096), expected);
            assert_eq!(shared.sum(12288, 4096), 0, "past the end of the copy");
            assert_eq!(shared.sum(0, 8192), 0, "before the copy");
        }
    }

    #[test]
    #[should_panic(expected = "8 bytes at 4096 of 4096")]
    fn word_past_the_end_is_refused() {
        let (shared, _memory) = Shared::create(4096).expect("memory");
        shared.word(4096);
    }
}
