use super::*;

/// A program in ELF, as far as it is looked at: these segments, and this text behind them.
fn program(machine: u16, segments: &[(u32, u64, u64)], text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
    bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
    bytes[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
    let start = 64 + 56 * segments.len() as u64;
    for (kind, at, length) in segments {
        let mut entry = [0; 56];
        entry[..4].copy_from_slice(&kind.to_le_bytes());
        entry[8..16].copy_from_slice(&(start + at).to_le_bytes());
        entry[16..24].copy_from_slice(&(start + at).to_le_bytes());
        entry[32..40].copy_from_slice(&length.to_le_bytes());
        bytes.extend(entry);
    }
    bytes.extend(text);
    bytes
}

fn looked_at(name: &str, bytes: &[u8]) -> Result<Executable, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("a file");
    look(&path, SCRIPTS_MAX).map_err(|failure| format!("{failure:?}"))
}

const GLIBC: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";

#[test]
fn a_program_that_loads_libraries_is_helped() {
    let bytes = program(62, &[(SEGMENT_INTERPRETER, 0, GLIBC.len() as u64)], GLIBC);
    assert_eq!(looked_at("dynamic", &bytes), Ok(Executable::default()));
}

#[test]
fn a_static_program_is_told_why_it_is_not() {
    let refused = looked_at("static", &program(62, &[], b"")).unwrap_err();
    assert!(refused.contains("linked statically"), "{refused}");
}

#[test]
fn a_program_for_another_machine_or_library_is_told_why_it_is_not() {
    let bytes = program(183, &[(SEGMENT_INTERPRETER, 0, GLIBC.len() as u64)], GLIBC);
    let refused = looked_at("foreign", &bytes).unwrap_err();
    assert!(refused.contains("another machine than x86-64"), "{refused}");
    let musl = b"/lib/ld-musl-x86_64.so.1\0";
    let bytes = program(62, &[(SEGMENT_INTERPRETER, 0, musl.len() as u64)], musl);
    let refused = looked_at("musl", &bytes).unwrap_err();
    assert!(refused.contains("musl"), "{refused}");
}

#[test]
fn a_script_is_as_good_as_its_interpreter() {
    assert_eq!(
        looked_at("script", b"#!/bin/sh\nexit 0\n"),
        Ok(Executable::default())
    );
    let folder = tempfile::tempdir().expect("a folder");
    let interpreter = folder.path().join("static");
    fs::write(&interpreter, program(62, &[], b"")).expect("a file");
    let script = format!("#! {} -x\n", interpreter.display());
    let refused = looked_at("script", script.as_bytes()).unwrap_err();
    assert!(refused.contains("linked statically"), "{refused}");
}

#[test]
fn the_library_of_a_sanitizer_is_found() {
    let mut text = GLIBC.to_vec();
    let strings_at = text.len() as u64;
    text.extend(b"\0libc.so.6\0libasan.so.8\0");
    let strings_length = text.len() as u64 - strings_at;
    let dynamic_at = text.len() as u64;
    let start = 64 + 56 * 3;
    for (tag, value) in [
        (TAG_NEEDED, 1),
        (TAG_NEEDED, 11),
        (TAG_STRINGS, start + strings_at),
        (TAG_STRINGS_BYTES, strings_length),
    ] {
        text.extend(tag.to_le_bytes());
        text.extend(value.to_le_bytes());
    }
    let length = text.len() as u64;
    let segments = [
        (SEGMENT_INTERPRETER, 0, GLIBC.len() as u64),
        (SEGMENT_LOAD, 0, length),
        (SEGMENT_DYNAMIC, dynamic_at, length - dynamic_at),
    ];
    let found = looked_at("sanitized", &program(62, &segments, &text)).expect("it is helped");
    assert_eq!(found.sanitizer.as_deref(), Some("libasan.so.8"));
}

#[test]
fn a_torn_file_is_no_reason_to_stop() {
    let whole = program(62, &[(SEGMENT_INTERPRETER, 0, GLIBC.len() as u64)], GLIBC);
    for length in 0..whole.len() {
        // Refused or not, but looked at.
        let _ = looked_at("torn", &whole[..length]);
    }
}

#[test]
fn programs_are_looked_for_in_the_path() {
    let found = resolve(OsStr::new("sh"), OsStr::new("/nowhere:/bin"));
    assert_eq!(found, Some(PathBuf::from("/bin/sh")));
    assert_eq!(resolve(OsStr::new("sh"), OsStr::new("/nowhere")), None);
    let given = resolve(OsStr::new("./sh"), OsStr::new("/bin"));
    assert_eq!(given, Some(PathBuf::from("./sh")));
}
