//! Registered memory: where requests' elements lie, and copies from and to them.

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use viaduct_core::verbs::regions::{self, Regions, find};
use viaduct_core::verbs::{ScatterGatherElement, SendOpcode};
use viaduct_processes::copy::{copy, copy_last_word_last};

/// A piece of this program's memory.
pub(crate) type Piece = (*mut u8, usize);

/// Room for a list of pieces, kept so that it need not be made anew.
#[derive(Debug, Default)]
pub(crate) struct Scratch(pub(crate) Vec<Piece>);

// SAFETY: the addresses are looked at by the thread alone that took the list and filled it.
unsafe impl Send for Scratch {}

/// Where all elements lie; false if a key does not let one through. Those of no bytes are not
/// looked at.
pub(crate) fn pieces(
    regions: &Regions,
    elements: &[ScatterGatherElement],
    domain: u32,
    needed: u32,
    into: &mut Vec<Piece>,
) -> bool {
    into.clear();
    regions::find_all(regions, elements, domain, needed, |address, length| {
        into.push((address as *mut u8, length));
    })
}

/// Calls `visit` for each part of a range of the pieces' bytes.
pub(crate) fn for_range(
    pieces: &[Piece],
    mut offset: usize,
    mut length: usize,
    mut visit: impl FnMut(*mut u8, usize),
) {
    for &(address, bytes) in pieces {
        if offset >= bytes {
            offset -= bytes;
            continue;
        }
        let part = (bytes - offset).min(length);
        if part == 0 {
            return;
        }
        visit(address.wrapping_add(offset), part);
        length -= part;
        offset = 0;
    }
}

/// Changes a word in one step, for the processors of both ends; what it was.
pub(crate) fn atomic(word: &AtomicU64, opcode: SendOpcode, compare_add: u64, swap: u64) -> u64 {
    let order = Ordering::SeqCst;
    if opcode == SendOpcode::AtomicCompareAndSwap {
        match word.compare_exchange(compare_add, swap, order, order) {
            Ok(before) | Err(before) => before,
        }
    } else {
        word.fetch_add(compare_add, order)
    }
}

/// Copies within this process: all of `source` to `target`, its end last.
///
/// # Safety
///
/// All of it is registered memory of the program, which it keeps mapped.
pub(crate) unsafe fn write_all(mut target: *mut u8, source: &[Piece]) {
    let Some((last, before)) = source.split_last() else {
        return;
    };
    for &(address, length) in before {
        // SAFETY: as promised by the caller.
        unsafe { copy(target, address, length) };
        target = target.wrapping_add(length);
    }
    // SAFETY: as above.
    unsafe { copy_last_word_last(target, last.0, last.1, false) };
}

/// Copies within this process: from `source` into `target`.
///
/// # Safety
///
/// As for [`write_all`].
pub(crate) unsafe fn read_all(target: &[Piece], mut source: *const u8) {
    for &(address, length) in target {
        // SAFETY: as promised by the caller.
        unsafe { copy(address, source, length) };
        source = source.wrapping_add(length);
    }
}
