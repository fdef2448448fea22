//! Programs whose language brings a runtime that goes past the C library: they wait by calls of the
//! system of their own, and would hold the turn in the first.

use core::ffi::{c_int, c_void};
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use libc::{Elf64_Phdr, dl_phdr_info};

/// A note that the linker of Go leaves in what it makes: its name, and its kind.
const GO: &[u8] = b"Go\0\0";
const GO_BUILD: u32 = 4;

/// The program, or a library that it was loaded with, that is written in Go.
pub(crate) fn of_go() -> Option<PathBuf> {
    let mut found: Option<PathBuf> = None;
    // SAFETY: the function is called with what is loaded and the place of the result.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn look(about: *mut dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the system passes what is loaded and stays so while this runs.
    let (segments, name, base) = unsafe {
        let about = &*about;
        let count = usize::from(about.dlpi_phnum);
        let segments = core::slice::from_raw_parts(about.dlpi_phdr, count);
        (segments, CStr::from_ptr(about.dlpi_name), about.dlpi_addr)
    };
    let is_loaded = |note: &Elf64_Phdr| {
        segments.iter().any(|segment| {
            let end = segment.p_vaddr.saturating_add(segment.p_filesz);
            segment.p_type == libc::PT_LOAD
                && segment.p_flags & libc::PF_R != 0
                && segment.p_vaddr <= note.p_vaddr
                && note.p_vaddr.saturating_add(note.p_filesz) <= end
        })
    };
    let notes = segments.iter().filter(|it| it.p_type == libc::PT_NOTE);
    for note in notes.filter(|note| is_loaded(note)) {
        let at = base.wrapping_add(note.p_vaddr) as *const u8;
        // SAFETY: a segment that is loaded and may be read has it.
        let bytes = unsafe { core::slice::from_raw_parts(at, note.p_filesz as usize) };
        if has_note_of_go(bytes) {
            // The program itself has no name here.
            let name = match name.to_bytes() {
                [] => std::env::current_exe().unwrap_or_default(),
                name => PathBuf::from(std::ffi::OsStr::from_bytes(name)),
            };
            // SAFETY: `of_go` has passed it.
            unsafe { *found.cast::<Option<PathBuf>>() = Some(name) };
            return 1;
        }
    }
    0
}

/// Looks through notes, each of which has the lengths of its name and its text, and its kind.
fn has_note_of_go(mut notes: &[u8]) -> bool {
    let padded = |length: u32| (length as usize).next_multiple_of(4);
    while let Some((head, rest)) = notes.split_first_chunk::<12>() {
        let word = |at: usize| {
            let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            u32::from_ne_bytes(bytes)
        };
        if word(8) == GO_BUILD && word(0) as usize == GO.len() && rest.starts_with(GO) {
            return true;
        }
        let Some(behind) = padded(word(0)).checked_add(padded(word(4))) else {
            return false;
        };
        let Some(next) = rest.get(behind..) else {
            return false;
        };
        notes = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, text: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, text.len() as u32, kind] {
            note.extend(word.to_ne_bytes());
        }
        for part in [name, text] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn a_program_in_go_is_known_by_its_note() {
        let other = note(b"GNU\0", 3, b"12345");
        let go = note(GO, GO_BUILD, b"id");
        assert!(has_note_of_go(&go) && has_note_of_go(&[other.clone(), go.clone()].concat()));
        assert!(!has_note_of_go(&other) && !has_note_of_go(&note(GO, 3, b"id")));
        assert!(!has_note_of_go(&note(b"Gopher\0", GO_BUILD, b"")));
        // Lengths that are none.
        let mut wrong = other;
        wrong[..8].fill(0xff);
        wrong.extend(go);
        assert!(!has_note_of_go(&wrong) && !has_note_of_go(&wrong[..11]));
        assert!(of_go().is_none());
    }
}
