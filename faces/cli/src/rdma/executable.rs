//! Whether a program can be helped: it must load its libraries when it starts, and ours among them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use viaduct_processes::capabilities;

use crate::failure::Failure;

/// What is known of a program.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Executable {
    /// The library of a sanitizer, which wants to be loaded before all others.
    pub(super) sanitizer: Option<String>,
}

/// Interpreters of interpreters: Linux follows four.
const SCRIPTS_MAX: u32 = 5;

/// Looks for a program as a shell does, and says why it cannot be helped, if so.
pub(super) fn find(program: &OsStr) -> Result<Executable, Failure> {
    let path = resolve(program, &std::env::var_os("PATH").unwrap_or_default())
        .ok_or_else(|| Failure::plain(format!("there is no program `{}`", program.display())))?;
    look(&path, SCRIPTS_MAX)
}

fn resolve(program: &OsStr, search: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    };
    std::env::split_paths(search)
        .map(|folder| folder.join(program))
        .find(is_program)
}

fn look(path: &Path, scripts: u32) -> Result<Executable, Failure> {
    let unreadable = |error: std::io::Error| match error.kind() {
        // It may be run all the same.
        std::io::ErrorKind::PermissionDenied => Ok(Executable::default()),
        _ => Err(Failure::plain(format!(
            "cannot look at {}: {error}",
            path.display()
        ))),
    };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return unreadable(error),
    };
    let found = match file.metadata() {
        Ok(found) => found,
        Err(error) => return unreadable(error),
    };
    if found.is_dir() {
        return Err(Failure::plain(format!("{} is a folder", path.display())));
    }
    let owner = fs::metadata("/proc/self").ok();
    let is_root = owner.as_ref().is_some_and(|owner| owner.uid() == 0);
    if !is_root && capabilities::are_given_by(path) {
        let reason = "it has capabilities, and for such programs the loader ignores LD_PRELOAD \
                      and LD_LIBRARY_PATH";
        let help = "run it as root, or a copy, which has none (`getcap` shows them)";
        return Err(cannot(path, reason, help));
    }
    let changes_user = found.mode() & 0o4000 != 0
        && owner
            .as_ref()
            .is_none_or(|owner| owner.uid() != found.uid());
    let changes_group = found.mode() & 0o2000 != 0
        && owner
            .as_ref()
            .is_none_or(|owner| owner.gid() != found.gid());
    if changes_user || changes_group {
        let reason = "it is setuid or setgid, and for such programs the loader ignores LD_PRELOAD \
                      and LD_LIBRARY_PATH";
        return Err(cannot(
            path,
            reason,
            "run it as its owner, or a copy without that bit",
        ));
    }
    let mut head = [0; 4];
    let length = read_up_to(&mut file, 0, &mut head);
    if length >= 2 && head.starts_with(b"#!") {
        let mut line = [0; 256];
        let length = read_up_to(&mut file, 2, &mut line);
        let line = line[..length]
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .map(OsStr::from_bytes);
        return match words.next() {
            Some(interpreter) if scripts > 0 => look(Path::new(interpreter), scripts - 1),
            _ => Ok(Executable::default()),
        };
    }
    if head != *b"\x7fELF" {
        // A script without a first line, which a shell runs.
        return Ok(Executable::default());
    }
    elf(path, &mut file)
}

fn cannot(path: &Path, reason: &str, help: &str) -> Failure {
    Failure::new(format!("cannot help {}: {reason}", path.display()), help)
}

/// Reads from a place on; what is behind the end of the file is not there.
fn read_up_to(file: &mut File, from: u64, into: &mut [u8]) -> usize {
    if file.seek(SeekFrom::Start(from)).is_err() {
        return 0;
    }
    let mut length = 0;
    while length < into.len() {
        match file.read(&mut into[length..]) {
            Ok(0) | Err(_) => break,
            Ok(count) => length += count,
        }
    }
    length
}

/// A piece of a file, of at most so many bytes.
fn piece(file: &mut File, from: u64, bytes: u64) -> Vec<u8> {
    const PIECE_BYTES_MAX: u64 = 1 << 20;
    let mut piece = vec![0; bytes.min(PIECE_BYTES_MAX) as usize];
    let length = read_up_to(file, from, &mut piece);
    piece.truncate(length);
    piece
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut number = [0; N];
    if let Some(found) = bytes.get(at..at + N) {
        number.copy_from_slice(found);
    }
    number
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(number(bytes, at))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(number(bytes, at))
}

fn string(bytes: &[u8], at: u64) -> OsString {
    let rest = usize::try_from(at)
        .ok()
        .and_then(|at| bytes.get(at..))
        .unwrap_or_default();
    let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    OsString::from_vec(text.to_vec())
}

const SEGMENT_LOAD: u32 = 1;
const SEGMENT_DYNAMIC: u32 = 2;
const SEGMENT_INTERPRETER: u32 = 3;
const TAG_NEEDED: u64 = 1;
const TAG_STRINGS: u64 = 5;
const TAG_STRINGS_BYTES: u64 = 10;

/// Reads what a program in ELF asks of the loader.
fn elf(path: &Path, file: &mut File) -> Result<Executable, Failure> {
    let head = piece(file, 0, 64);
    if head.get(4) != Some(&2) || head.get(5) != Some(&1) || half(&head, 18) != 62 {
        let reason = "it is for another machine than x86-64, and libraries for x86-64 do not load \
                      into it";
        return Err(cannot(path, reason, "use a program for this machine"));
    }
    let (from, size, count) = (long(&head, 32), half(&head, 54), half(&head, 56));
    let size = usize::from(size).max(56);
    let table = piece(file, from, size as u64 * u64::from(count));
    let segments: Vec<_> = table
        .chunks_exact(size)
        .map(|entry| {
            // Kind, place in the file, address, bytes in the file.
            (
                word(entry, 0),
                long(entry, 8),
                long(entry, 16),
                long(entry, 32),
            )
        })
        .collect();
    let of_kind = |kind| {
        segments
            .iter()
            .find(move |segment| segment.0 == kind)
            .copied()
    };
    let Some((_, at, _, bytes)) = of_kind(SEGMENT_INTERPRETER) else {
        let reason = "it is linked statically: it brings its libraries with it, and loads none";
        let help = "link it dynamically (Rust: a target without musl; C: without -static; Go: \
                    CGO_ENABLED=1, and not with `--on`)";
        return Err(cannot(path, reason, help));
    };
    let loader = string(&piece(file, at, bytes), 0);
    if loader.as_bytes().windows(4).any(|part| part == b"musl") {
        let reason = "it is for the C library musl, and these libraries are for glibc";
        return Err(cannot(path, reason, "use a program for glibc"));
    }
    let Some((_, at, _, bytes)) = of_kind(SEGMENT_DYNAMIC) else {
        return Ok(Executable::default());
    };
    let dynamic = piece(file, at, bytes);
    let tags = || {
        dynamic
            .chunks_exact(16)
            .map(|entry| (long(entry, 0), long(entry, 8)))
    };
    let value = |wanted| {
        tags()
            .find(|(tag, _)| *tag == wanted)
            .map(|(_, value)| value)
    };
    let strings = value(TAG_STRINGS)
        .zip(value(TAG_STRINGS_BYTES))
        .and_then(|(address, bytes)| {
            let holds = |segment: &&(u32, u64, u64, u64)| {
                segment.0 == SEGMENT_LOAD && segment.2 <= address && address - segment.2 < segment.3
            };
            let segment = segments.iter().find(holds)?;
            Some(piece(file, segment.1 + (address - segment.2), bytes))
        });
    let strings = strings.unwrap_or_default();
    let sanitizer = tags()
        .filter(|(tag, _)| *tag == TAG_NEEDED)
        .filter_map(|(_, name)| string(&strings, name).into_string().ok())
        .find(|name| {
            ["libasan.so", "libtsan.so", "libhwasan.so"]
                .iter()
                .any(|of| name.starts_with(of))
        });
    Ok(Executable { sanitizer })
}

#[cfg(test)]
mod tests;
