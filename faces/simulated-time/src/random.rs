//! Random numbers that programs draw of the system, and those that UCX makes of it: on simulated
//! hosts the same in each run.
//!
//! The numbers of a process follow from its own number in the run, so that no two processes draw
//! the same ones. What programs read of `/dev/urandom`, or have the processor draw, stays the
//! system's.
//!
//! Each of UCX's workers has a number that no other has, and which of two begins a connection
//! follows from it. UCX makes it of the thread's number for the system, the clock, and the address
//! of the machine's network card, so that times would be others in each run, and on each machine.
//! The numbers of processes and threads themselves stay the system's: programs act on real ones by
//! them.

use core::ffi::{c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use viaduct_turns::process_number;

use crate::real;

/// Numbers that UCX in this process, and in those before it that it was forked from, has made, and
/// those that these processes have drawn.
static MADE: AtomicU32 = AtomicU32::new(0);
static DRAWN: AtomicU32 = AtomicU32::new(0);

/// In place of UCX's: a number that no other of the run has.
#[unsafe(no_mangle)]
pub extern "C" fn ucs_generate_uuid(_seed: u64) -> u64 {
    next_of(&MADE, false).unwrap_or_else(|| {
        let mut bytes = [0; 8];
        // SAFETY: the bytes are there. So few come whole, or not at all.
        unsafe { real::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        u64::from_ne_bytes(bytes)
    })
}

/// Random bytes.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(to: *mut c_void, length: usize, flags: c_uint) -> isize {
    // SAFETY: the caller's arguments.
    let drawn = unsafe { real::getrandom(to, length, flags) };
    if let Ok(length) = usize::try_from(drawn) {
        // SAFETY: so many bytes have been written there.
        unsafe { draw_again(to, length) };
    }
    drawn
}

/// The same by the number of the call, with its result.
///
/// # Safety
///
/// As for that call.
pub(crate) unsafe fn getrandom_by_number(to: c_long, length: c_long, flags: c_long) -> c_long {
    // SAFETY: the caller's arguments, as the call has them.
    unsafe { getrandom(to as *mut c_void, length as usize, flags as c_uint) as c_long }
}

/// Random bytes, all of them or none.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getentropy(to: *mut c_void, length: usize) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { real::getentropy(to, length) };
    if result == 0 {
        // SAFETY: so many bytes have been written there.
        unsafe { draw_again(to, length) };
    }
    result
}

/// A random number.
#[unsafe(no_mangle)]
pub extern "C" fn arc4random() -> u32 {
    // SAFETY: it takes nothing.
    next_of(&DRAWN, true).map_or_else(|| unsafe { real::arc4random() }, |number| number as u32)
}

/// Random bytes.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arc4random_buf(to: *mut c_void, length: usize) {
    // SAFETY: the caller's arguments.
    unsafe { real::arc4random_buf(to, length) };
    // SAFETY: so many bytes have been written there.
    unsafe { draw_again(to, length) };
}

/// A random number below a bound, each as likely; 0 below 0 and 1.
#[unsafe(no_mangle)]
pub extern "C" fn arc4random_uniform(bound: u32) -> u32 {
    if process_number().is_none() {
        // SAFETY: it takes a number.
        return unsafe { real::arc4random_uniform(bound) };
    }
    if bound < 2 {
        return 0;
    }
    // Of all numbers the first few are left out, so that the rest is a multiple of the bound.
    let first = bound.wrapping_neg() % bound;
    loop {
        let number = arc4random();
        if number >= first {
            return number % bound;
        }
    }
}

/// On a simulated host puts the process's own numbers in the place of bytes that were drawn.
///
/// # Safety
///
/// So many bytes can be written there.
unsafe fn draw_again(to: *mut c_void, length: usize) {
    let to: *mut u8 = to.cast();
    let mut done = 0;
    while done < length
        && let Some(number) = next_of(&DRAWN, true)
    {
        let bytes = number.to_ne_bytes();
        let count = bytes.len().min(length - done);
        // SAFETY: they are within what the caller says can be written.
        unsafe { to.add(done).copy_from_nonoverlapping(bytes.as_ptr(), count) };
        done += count;
    }
}

/// The next number of this process, counted here; none outside of a simulation. Those that are
/// drawn are others than those that UCX makes.
fn next_of(count: &AtomicU32, is_drawn: bool) -> Option<u64> {
    let process = process_number()?;
    let number = u64::from(process) << 32 | u64::from(count.fetch_add(1, Ordering::Relaxed));
    Some(mixed(if is_drawn { !number } else { number }))
}

/// Other numbers for other numbers, all bits of which differ (the end of SplitMix64).
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
