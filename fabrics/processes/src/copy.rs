//! Copying bytes that another process may see.
//!
//! Either side of a copy may lie in memory that a peer writes at the same moment. So no reference
//! to such bytes is formed, nothing here looks at what it copies, and short copies are assembly:
//! the compiler can neither read a byte twice nor merge a copy with what comes before or after. A
//! race makes the bytes arbitrary, and that is all it does.
//!
//! Which copy pays depends on where the lines of the target are. Ordinary stores must first take a
//! line away from the core that has it; streaming stores need not, but leave the line in memory,
//! from where the reader fetches it.

use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Asks for the line at an address ahead of writing it.
#[inline(always)]
pub fn prefetch_line_to_write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which does nothing at an address that is not mapped. As an instruction of its
    // own, since the compiler makes a prefetch for reading of it where the target may lack this
    // one, which then does nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Copies `length` bytes. The ranges may overlap.
///
/// # Safety
///
/// `source` can be read and `target` written for `length` bytes. Other processes may write both;
/// threads of this one reach them by copies of this module or by atomics.
#[inline(always)]
pub unsafe fn copy(target: *mut u8, source: *const u8, length: usize) {
    kill_point!();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if length <= x86::SHORT_BYTES_MAX {
        // SAFETY: as promised by the caller; the length is short.
        unsafe { x86::copy_short(target, source, length) };
        return;
    }
    // SAFETY: as promised by the caller. Not `copy_nonoverlapping`: a program may send a buffer to
    // itself, and whatever becomes of its bytes, this process goes on.
    unsafe { ptr::copy(source, target, length) };
}

/// Copies `length` bytes into lines that another core has read.
///
/// They are asked for a block ahead of the stores: by themselves stores bring in few at a time.
///
/// # Safety
///
/// As [`copy`].
pub unsafe fn copy_ahead(target: *mut u8, source: *const u8, length: usize) {
    let ask = |block: usize| {
        let end = (block + AHEAD_BYTES).min(length);
        for line in (block..end).step_by(LINE_BYTES) {
            prefetch_line_to_write(target.wrapping_add(line));
        }
    };
    ask(0);
    for block in (0..length).step_by(AHEAD_BYTES) {
        ask(block + AHEAD_BYTES);
        let bytes = AHEAD_BYTES.min(length - block);
        // SAFETY: as promised by the caller; `block + bytes <= length`.
        unsafe { copy(target.add(block), source.add(block), bytes) };
    }
}

/// Copies `length` bytes past the caches, and returns when they are visible to other cores.
///
/// The ranges do not overlap, or else the bytes are arbitrary. On a processor without streaming
/// stores, and for less than [`NON_TEMPORAL_BYTES_MIN`] bytes, this is [`copy`].
///
/// # Safety
///
/// As [`copy`].
pub unsafe fn copy_non_temporal(target: *mut u8, source: *const u8, length: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if length >= NON_TEMPORAL_BYTES_MIN {
        let head = target.addr().wrapping_neg() % LINE_BYTES;
        let lines = (length - head) / LINE_BYTES;
        let streamed = head + lines * LINE_BYTES;
        // SAFETY: as promised by the caller: `head + lines * 64 <= length`, and `target + head` is
        // a multiple of 64.
        unsafe {
            copy(target, source, head);
            x86::stream_lines(target.add(head), source.add(head), lines);
            copy(
                target.add(streamed),
                source.add(streamed),
                length - streamed,
            );
        }
        return;
    }
    // SAFETY: as promised by the caller.
    unsafe { copy(target, source, length) };
}

/// Copies `length` bytes, streaming where ordinary stores turn out to be slow.
///
/// The first [`WATCH_BYTES`] of every [`WATCH_STRETCH_BYTES`] are copied by ordinary stores. When
/// that takes more than `ticks_max`, another core has the lines, and the rest of the stretch is
/// streamed. A buffer that its reader left alone is thereby written at the speed of our own caches,
/// and one that was read without taking its lines away one by one.
///
/// # Safety
///
/// As [`copy`].
pub unsafe fn copy_watched(target: *mut u8, source: *const u8, length: usize, ticks_max: u32) {
    for start in (0..length).step_by(WATCH_STRETCH_BYTES) {
        let stretch = WATCH_STRETCH_BYTES.min(length - start);
        // SAFETY: as promised by the caller; `start + stretch <= length`.
        unsafe {
            let (target, source) = (target.add(start), source.add(start));
            if stretch < 2 * WATCH_BYTES {
                copy(target, source, stretch);
                continue;
            }
            let ticks = timed_copy(target, source);
            let (target, source) = (target.add(WATCH_BYTES), source.add(WATCH_BYTES));
            if ticks > ticks_max {
                copy_non_temporal(target, source, stretch - WATCH_BYTES);
            } else {
                copy(target, source, stretch - WATCH_BYTES);
            }
        }
    }
}

/// Copies `length` bytes, at least [`WATCH_BYTES`], and tells how long so many of them took.
///
/// Those in the middle: whoever reads what lies beside the target has its first lines fetched, too.
///
/// # Safety
///
/// As [`copy`].
#[inline(never)]
pub unsafe fn copy_timing_the_middle(target: *mut u8, source: *const u8, length: usize) -> u32 {
    let timed = (length - WATCH_BYTES) / 2;
    let rest = timed + WATCH_BYTES;
    // SAFETY: as promised by the caller; the three parts are the whole.
    unsafe {
        let ticks = timed_copy(target.add(timed), source.add(timed));
        copy(target, source, timed);
        copy(target.add(rest), source.add(rest), length - rest);
        ticks
    }
}

/// Copies [`WATCH_BYTES`] by ordinary stores and tells how long it took until all were done.
///
/// Ticks are the processor's own; 0 where it has no quick counter.
///
/// # Safety
///
/// As [`copy`], for [`WATCH_BYTES`].
pub unsafe fn timed_copy(target: *mut u8, source: *const u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: as promised by the caller.
        unsafe { x86::timed_copy(target, source, WATCH_BYTES) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        // SAFETY: as promised by the caller.
        unsafe { copy(target, source, WATCH_BYTES) };
        0
    }
}

/// Copies `length` bytes so that the last word becomes visible after all others.
///
/// A program that polls the end of a buffer thereby sees the whole of a remote write: the last 8
/// bytes, or as many of them as are written, are stored in aligned pieces in ascending order. The
/// ranges do not overlap, or else the bytes are arbitrary.
///
/// # Safety
///
/// As [`copy`].
pub unsafe fn copy_last_word_last(
    target: *mut u8,
    source: *const u8,
    length: usize,
    non_temporal: bool,
) {
    if length == 0 {
        return;
    }
    // Bytes of the aligned word that holds the last byte, as far as they are written.
    let last = ((target.addr() + length - 1) % WORD_BYTES + 1).min(length);
    let body = length - last;
    // SAFETY: as promised by the caller; `body + last == length`.
    unsafe {
        if non_temporal {
            copy_non_temporal(target, source, body);
        } else {
            copy(target, source, body);
        }
        let mut word = [0_u8; WORD_BYTES];
        copy(word.as_mut_ptr(), source.add(body), last);
        store_word(target.add(body), &word[..last]);
    }
}

/// Stores at most a word, ascending, in the longest aligned pieces.
///
/// # Safety
///
/// `target` can be written for `bytes.len()` bytes, which cross no multiple of 8.
unsafe fn store_word(mut target: *mut u8, mut bytes: &[u8]) {
    // Release: pairs with the Acquire load of a program that polls the word, so each piece is
    // visible after all that was stored before. Streaming stores were fenced where they were made.
    while let Some(rest) = bytes.first_chunk::<1>() {
        let aligned = |length: usize| target.addr().is_multiple_of(length);
        // SAFETY: the piece is inside what is left, and aligned.
        let stored = unsafe {
            if let Some(piece) = bytes.first_chunk().filter(|_| aligned(8)) {
                let word = AtomicU64::from_ptr(target.cast());
                word.store(u64::from_ne_bytes(*piece), Ordering::Release);
                8
            } else if let Some(piece) = bytes.first_chunk().filter(|_| aligned(4)) {
                let word = AtomicU32::from_ptr(target.cast());
                word.store(u32::from_ne_bytes(*piece), Ordering::Release);
                4
            } else if let Some(piece) = bytes.first_chunk().filter(|_| aligned(2)) {
                let word = AtomicU16::from_ptr(target.cast());
                word.store(u16::from_ne_bytes(*piece), Ordering::Release);
                2
            } else {
                AtomicU8::from_ptr(target).store(rest[0], Ordering::Release);
                1
            }
        };
        bytes = &bytes[stored..];
        // SAFETY: at most one past the bytes that may be written.
        target = unsafe { target.add(stored) };
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_lfence, _mm_loadu_si128, _mm_mfence, _mm_sfence, _mm_stream_si128,
        _mm256_loadu_si256, _mm256_stream_si256, _mm512_loadu_si512, _mm512_stream_si512, _rdtsc,
    };

    use super::LINE_BYTES;

    /// Longer copies are left to the system's `memmove`, which takes 2 ns to find its way.
    pub(super) const SHORT_BYTES_MAX: usize = 64;

    /// Copies at most [`SHORT_BYTES_MAX`] bytes; all loads come before the first store.
    ///
    /// # Safety
    ///
    /// As [`super::copy`].
    #[inline(always)]
    pub(super) unsafe fn copy_short(target: *mut u8, source: *const u8, length: usize) {
        // SAFETY: each block loads and stores the first and the last bytes of the ranges, as many
        // as the branch says there are at least; where they meet, they overlap.
        unsafe {
            if length > 32 {
                asm!(
                    "movups {a}, [{source}]",
                    "movups {b}, [{source} + 16]",
                    "movups {c}, [{source} + {length} - 32]",
                    "movups {d}, [{source} + {length} - 16]",
                    "movups [{target}], {a}",
                    "movups [{target} + 16], {b}",
                    "movups [{target} + {length} - 32], {c}",
                    "movups [{target} + {length} - 16], {d}",
                    source = in(reg) source, target = in(reg) target, length = in(reg) length,
                    a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                    options(nostack, preserves_flags),
                );
            } else if length >= 16 {
                asm!(
                    "movups {a}, [{source}]",
                    "movups {b}, [{source} + {length} - 16]",
                    "movups [{target}], {a}",
                    "movups [{target} + {length} - 16], {b}",
                    source = in(reg) source, target = in(reg) target, length = in(reg) length,
                    a = out(xmm_reg) _, b = out(xmm_reg) _,
                    options(nostack, preserves_flags),
                );
            } else if length >= 8 {
                asm!(
                    "mov {a}, [{source}]",
                    "mov {b}, [{source} + {length} - 8]",
                    "mov [{target}], {a}",
                    "mov [{target} + {length} - 8], {b}",
                    source = in(reg) source, target = in(reg) target, length = in(reg) length,
                    a = out(reg) _, b = out(reg) _,
                    options(nostack, preserves_flags),
                );
            } else if length >= 4 {
                asm!(
                    "mov {a:e}, [{source}]",
                    "mov {b:e}, [{source} + {length} - 4]",
                    "mov [{target}], {a:e}",
                    "mov [{target} + {length} - 4], {b:e}",
                    source = in(reg) source, target = in(reg) target, length = in(reg) length,
                    a = out(reg) _, b = out(reg) _,
                    options(nostack, preserves_flags),
                );
            } else if length > 0 {
                // One to three bytes: the first, the middle, the last.
                asm!(
                    "movzx {a:e}, byte ptr [{source}]",
                    "movzx {b:e}, byte ptr [{source} + {middle}]",
                    "movzx {c:e}, byte ptr [{source} + {length} - 1]",
                    "mov byte ptr [{target}], {a:l}",
                    "mov byte ptr [{target} + {middle}], {b:l}",
                    "mov byte ptr [{target} + {length} - 1], {c:l}",
                    source = in(reg) source, target = in(reg) target, length = in(reg) length,
                    middle = in(reg) length / 2,
                    a = out(reg) _, b = out(reg) _, c = out(reg) _,
                    options(nostack, preserves_flags),
                );
            }
        }
    }

    /// Copies whole lines by the widest streaming stores there are, and waits for them.
    ///
    /// # Safety
    ///
    /// `target` is a multiple of 64 and can be written, `source` read, for `lines` lines; see
    /// [`super::copy`].
    #[inline]
    pub(super) unsafe fn stream_lines(target: *mut u8, source: *const u8, lines: usize) {
        // Each question is one load: the answers are kept in a static of the standard library.
        // SAFETY: as promised by the caller; the processor has what it was asked for. The fence
        // comes before anything else that this thread does.
        unsafe {
            if is_x86_feature_detected!("avx512f") {
                stream_512(target, source, lines);
            } else if is_x86_feature_detected!("avx2") {
                stream_256(target, source, lines);
            } else {
                stream_128(target, source, lines);
            }
            _mm_sfence();
        }
    }

    /// # Safety
    ///
    /// As [`super::copy`].
    pub(super) unsafe fn timed_copy(target: *mut u8, source: *const u8, length: usize) -> u32 {
        // SAFETY: as promised by the caller; every x86-64 has the fences and the counter.
        unsafe {
            // Stores wait in the core's buffer: those made before are not to be counted, those of
            // the copy are.
            _mm_mfence();
            _mm_lfence();
            let start = _rdtsc();
            super::copy(target, source, length);
            _mm_mfence();
            _mm_lfence();
            u32::try_from(_rdtsc().wrapping_sub(start)).unwrap_or(u32::MAX)
        }
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn stream_512(target: *mut u8, source: *const u8, lines: usize) {
        // SAFETY: see `stream_lines`.
        unsafe {
            let grouped = lines - lines % 4;
            for line in (0..grouped).step_by(4) {
                let from = source.add(line * LINE_BYTES);
                let to = target.add(line * LINE_BYTES);
                let a = _mm512_loadu_si512(from.cast());
                let b = _mm512_loadu_si512(from.add(64).cast());
                let c = _mm512_loadu_si512(from.add(128).cast());
                let d = _mm512_loadu_si512(from.add(192).cast());
                _mm512_stream_si512(to.cast(), a);
                _mm512_stream_si512(to.add(64).cast(), b);
                _mm512_stream_si512(to.add(128).cast(), c);
                _mm512_stream_si512(to.add(192).cast(), d);
            }
            for line in grouped..lines {
                let bytes = _mm512_loadu_si512(source.add(line * LINE_BYTES).cast());
                _mm512_stream_si512(target.add(line * LINE_BYTES).cast(), bytes);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn stream_256(target: *mut u8, source: *const u8, lines: usize) {
        // SAFETY: see `stream_lines`.
        unsafe {
            for line in 0..lines {
                let from: *const __m256i = source.add(line * LINE_BYTES).cast();
                let to: *mut __m256i = target.add(line * LINE_BYTES).cast();
                let a = _mm256_loadu_si256(from);
                let b = _mm256_loadu_si256(from.add(1));
                _mm256_stream_si256(to, a);
                _mm256_stream_si256(to.add(1), b);
            }
        }
    }

    unsafe fn stream_128(target: *mut u8, source: *const u8, lines: usize) {
        // SAFETY: see `stream_lines`; every x86-64 has SSE2.
        unsafe {
            for line in 0..lines {
                let from: *const __m128i = source.add(line * LINE_BYTES).cast();
                let to: *mut __m128i = target.add(line * LINE_BYTES).cast();
                let a = _mm_loadu_si128(from);
                let b = _mm_loadu_si128(from.add(1));
                let c = _mm_loadu_si128(from.add(2));
                let d = _mm_loadu_si128(from.add(3));
                _mm_stream_si128(to, a);
                _mm_stream_si128(to.add(1), b);
                _mm_stream_si128(to.add(2), c);
                _mm_stream_si128(to.add(3), d);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn every_width_of_streaming_store_copies_the_lines() {
            #[repr(align(64))]
            struct Lines([u8; 704]);
            let source: Vec<u8> = (0..704_u32).map(|i| (i * 7) as u8).collect();
            type Stream = unsafe fn(*mut u8, *const u8, usize);
            let mut widths: Vec<Stream> = vec![stream_128];
            if is_x86_feature_detected!("avx2") {
                widths.push(stream_256);
            }
            if is_x86_feature_detected!("avx512f") {
                widths.push(stream_512);
            }
            for stream in widths {
                for lines in 0..11 {
                    let mut target = Lines([0; 704]);
                    // SAFETY: aligned, both longer than ten lines, and the width is there.
                    unsafe {
                        stream(target.0.as_mut_ptr(), source.as_ptr(), lines);
                        _mm_sfence();
                    }
                    let (copied, rest) = target.0.split_at(lines * LINE_BYTES);
                    assert_eq!(copied, &source[..lines * LINE_BYTES]);
                    assert!(rest.iter().all(|byte| *byte == 0));
                }
            }
        }
    }
}

/// Less than this is never streamed: aligning the target alone can cost two lines.
pub const NON_TEMPORAL_BYTES_MIN: usize = 256;
/// Bytes of a copy that are timed: short beside what follows, long beside a counter's reading.
pub const WATCH_BYTES: usize = 1024;
/// Bytes for which one timing stands: a reader may have touched the first part of a message only.
pub const WATCH_STRETCH_BYTES: usize = 64 << 10;
/// A block of [`copy_ahead`]. Half round trips of 4 KiB that is read: 1.08 us, of 16 KiB 3.15; with
/// blocks of 512 bytes the same, with ordinary stores alone 1.18 and 3.27.
const AHEAD_BYTES: usize = 1024;
const LINE_BYTES: usize = 64;
const WORD_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: &[usize] = &[
        0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 128, 129, 200,
        255, 256, 257, 319, 320, 511, 1000, 4095, 4096, 4097,
    ];

    /// Copies at many lengths and alignments, and looks at every byte around.
    fn copies(copy: impl Fn(*mut u8, *const u8, usize)) {
        let source: Vec<u8> = (0..5000_u32).map(|i| (i % 251) as u8 + 1).collect();
        let step = if cfg!(miri) { 33 } else { 1 };
        for &length in LENGTHS {
            for to in (0..70).step_by(step) {
                for from in [0, 1, 8, 33] {
                    let mut target = vec![0_u8; length + 200];
                    copy(
                        target.as_mut_ptr().wrapping_add(to),
                        source.as_ptr().wrapping_add(from),
                        length,
                    );
                    assert!(target[..to].iter().all(|byte| *byte == 0));
                    assert_eq!(target[to..to + length], source[from..from + length]);
                    assert!(target[to + length..].iter().all(|byte| *byte == 0));
                }
            }
        }
    }

    #[test]
    fn every_copy_copies_these_bytes_and_no_others() {
        // SAFETY: `copies` gives ranges inside its vectors.
        unsafe {
            copies(|target, source, length| copy(target, source, length));
            copies(|target, source, length| copy_ahead(target, source, length));
            copies(|target, source, length| copy_non_temporal(target, source, length));
            copies(|target, source, length| copy_last_word_last(target, source, length, false));
            copies(|target, source, length| copy_last_word_last(target, source, length, true));
            copies(|target, source, length| copy_watched(target, source, length, 0));
            copies(|target, source, length| copy_watched(target, source, length, u32::MAX));
            copies(|target, source, length| {
                if length < WATCH_BYTES {
                    copy(target, source, length);
                } else {
                    copy_timing_the_middle(target, source, length);
                }
            });
        }
    }

    #[test]
    fn a_watched_copy_of_several_stretches_is_whole() {
        let length = if cfg!(miri) {
            5000
        } else {
            2 * WATCH_STRETCH_BYTES + 1500
        };
        let source: Vec<u8> = (0..length).map(|i| (i % 253) as u8).collect();
        for ticks_max in [0, u32::MAX] {
            let mut target = vec![0_u8; length];
            // SAFETY: both vectors are `length` long.
            unsafe { copy_watched(target.as_mut_ptr(), source.as_ptr(), length, ticks_max) };
            assert!(target == source);
        }
    }

    #[test]
    fn overlapping_ranges_are_moved() {
        for &length in LENGTHS {
            for distance in [1, 5, 16, 64] {
                let bytes: Vec<u8> = (0..length + distance).map(|i| (i * 3) as u8).collect();
                let mut up = bytes.clone();
                let mut down = bytes.clone();
                // SAFETY: both ranges lie inside.
                unsafe {
                    let base = up.as_mut_ptr();
                    copy(base.add(distance), base, length);
                    let base = down.as_mut_ptr();
                    copy(base, base.add(distance), length);
                }
                assert_eq!(up[distance..], bytes[..length]);
                assert_eq!(down[..length], bytes[distance..]);
            }
        }
    }

    #[test]
    fn a_flag_in_the_last_word_is_seen_last() {
        // Conformance case 63, the part of copying: who sees the last word sees all of it.
        let rounds: u64 = if cfg!(miri) { 3 } else { 3000 };
        const WORDS: usize = 100;
        let target: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let seen = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=rounds {
                    while seen.load(Ordering::Acquire) != round - 1 {
                        std::thread::yield_now();
                    }
                    let source = [round; WORDS];
                    let to = target.as_ptr().cast_mut().cast();
                    let bytes = size_of_val(&source);
                    // SAFETY: both are as long; the reader uses atomics.
                    unsafe {
                        copy_last_word_last(to, source.as_ptr().cast(), bytes, round % 2 == 0);
                    }
                }
            });
            for round in 1..=rounds {
                while target[WORDS - 1].load(Ordering::Acquire) != round {
                    std::thread::yield_now();
                }
                let words = target.iter().map(|word| word.load(Ordering::Relaxed));
                assert!(words.into_iter().all(|word| word == round));
                seen.store(round, Ordering::Release);
            }
        });
    }
}
