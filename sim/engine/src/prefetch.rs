//! A word to the processor about memory that will be read soon.

/// Asks for the cache line at `address`; never faults and never changes a result.
///
/// A large model waits for memory most of its time. Its next events are known, so what they read
/// can be on its way while earlier ones are handled.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it does not read, and any address is allowed.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for all cache lines of `value`.
#[inline(always)]
pub fn prefetch_all<T>(value: &T) {
    prefetch_range(core::ptr::from_ref(value).cast(), size_of::<T>());
}

/// Asks for the cache lines of `bytes` bytes from `start` on.
#[inline(always)]
pub fn prefetch_range(start: *const u8, bytes: usize) {
    const LINE_BYTES: usize = 64;
    let mut offset = 0;
    while offset < bytes {
        prefetch(start.wrapping_add(offset));
        offset += LINE_BYTES;
    }
}
