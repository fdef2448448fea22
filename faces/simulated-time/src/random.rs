//! What UCX takes of the machine.
//!
//! Each of its workers has a number that no other has, and which of two begins a connection follows
//! from it. UCX makes it of the thread's number for the system, the clock, and the address of the
//! machine's network card, so that times would be others in each run, and on each machine. The
//! numbers of processes and threads themselves stay the system's: programs act on real ones by
//! them.

use core::sync::atomic::{AtomicU32, Ordering};

use viaduct_turns::process_number;

/// Numbers that this process has made, and those before it that it was forked from.
static MADE: AtomicU32 = AtomicU32::new(0);

/// In place of UCX's: a number that no other of the run has.
#[unsafe(no_mangle)]
pub extern "C" fn ucs_generate_uuid(_seed: u64) -> u64 {
    let Some(process) = process_number() else {
        return random();
    };
    let made = MADE.fetch_add(1, Ordering::Relaxed);
    mixed(u64::from(process) << 32 | u64::from(made))
}

/// Other numbers for other numbers, all bits of which differ (the end of SplitMix64).
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the bytes are there. So few come whole, or not at all.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
}
