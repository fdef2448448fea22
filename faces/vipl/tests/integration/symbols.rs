//! The shared library exports what the headers declare, and imports nothing that programs replace.

use crate::support;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What the headers declare: each prototype is a line that begins with its type.
fn declared(header: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(support::include().join(header)).unwrap();
    let prototype = |line: &str| {
        let after = line
            .strip_prefix("VIP_RETURN ")
            .or_else(|| line.strip_prefix("const VIP_CHAR *"))?;
        let (name, _) = after.split_once('(')?;
        Some(name.to_owned())
    };
    text.lines().filter_map(prototype).collect()
}

fn symbols(library: &Path, flag: &str) -> Vec<String> {
    let printed = support::run(Command::new("nm").arg("-D").arg(flag).arg(library));
    let symbol = |line: &str| line.split_whitespace().last().map(str::to_owned);
    printed.lines().filter_map(symbol).collect()
}

#[test]
fn the_header_declares_41_functions() {
    assert_eq!(declared("vipl.h").len(), 41);
}

#[test]
fn exactly_what_the_headers_declare_is_exported_with_a_version() {
    let library = support::library().join("libvipl.so");
    let exported: BTreeSet<String> = symbols(&library, "--defined-only").into_iter().collect();
    let mut expected = BTreeSet::from(["VIPL_1.0".to_owned(), "VIPLX_1.0".to_owned()]);
    expected.extend(
        declared("vipl.h")
            .iter()
            .map(|name| format!("{name}@@VIPL_1.0")),
    );
    expected.extend(
        declared("viplx.h")
            .iter()
            .map(|name| format!("{name}@@VIPLX_1.0")),
    );
    assert_eq!(exported, expected);
}

#[test]
fn the_library_of_cargo_exports_the_same_without_versions() {
    let library = support::archive().with_file_name("libvipl.so");
    let exported: BTreeSet<String> = symbols(&library, "--defined-only").into_iter().collect();
    let mut expected = declared("vipl.h");
    expected.extend(declared("viplx.h"));
    assert_eq!(exported, expected);
}

#[test]
fn nothing_is_imported_that_old_programs_define() {
    let library = support::library().join("libvipl.so");
    let imported = symbols(&library, "--undefined-only");
    assert!(
        imported.len() > 10,
        "nm lists what is imported: {imported:?}"
    );
    for symbol in imported {
        let name = symbol.split('@').next().unwrap_or_default();
        let is_theirs = name.starts_with("sem_")
            || ["post", "err_sys", "err_quit", "err_msg", "die", "error"].contains(&name);
        assert!(!is_theirs, "{name} may be a function of the program");
    }
}

#[test]
fn programs_ask_for_the_major_version() {
    let library = support::library().join("libvipl.so");
    let printed = support::run(Command::new("readelf").arg("-d").arg(library));
    assert!(
        printed.contains("Library soname: [libvipl.so.1]"),
        "{printed}"
    );
}

#[test]
fn what_is_installed_builds_programs_and_can_be_removed() {
    // As a stranger would: install, then ask pkg-config's file for the flags.
    let prefix = support::VIPL.installed();
    for file in [
        "include/vipl.h",
        "include/viplx.h",
        "lib/libvipl.a",
        "lib/libvipl.so.1",
        "lib/pkgconfig/vipl.pc",
        "share/doc/vipl/vipl.md",
        "share/doc/vipl/examples/pingpong.c",
        "share/man/man7/vipl.7",
    ] {
        assert!(prefix.join(file).exists(), "{file} is not installed");
    }
    let overview = std::fs::read_to_string(prefix.join("share/man/man7/vipl.7")).unwrap();
    let mut functions = declared("vipl.h");
    functions.extend(declared("viplx.h"));
    for function in functions {
        let page = prefix.join(format!("share/man/man3/{function}.3"));
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(&format!("{function}(")));
        assert!(
            overview.contains(&format!(".BR {function} (3)")),
            "{function}"
        );
    }
    let pc = std::fs::read_to_string(prefix.join("lib/pkgconfig/vipl.pc")).unwrap();
    assert!(!pc.contains('@'), "{pc}");
    let version = format!("Version: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(pc.contains(&version), "{pc}");

    let examples = prefix.join("share/doc/vipl/examples");
    let sources = [examples.join("pingpong.c"), examples.join("common.c")];
    let _ = support::VIPL.program_of_installed(&prefix, &sources, false);
    if support::has_static_libc() {
        let program = support::VIPL.program_of_installed(&prefix, &sources, true);
        let printed = support::VIPL.run_pair(
            &program,
            ["server", "client"],
            &support::port("installed"),
            &[],
        );
        assert!(
            printed.iter().all(|it| it.contains("data right")),
            "{printed:?}"
        );
    }
    support::VIPL.uninstall(&prefix);
}

#[test]
fn the_static_library_shows_only_the_functions_of_the_headers() {
    let archive = support::VIPL.folder().join("libvipl.a");
    let printed = support::run(
        Command::new("nm")
            .args(["--extern-only", "--defined-only"])
            .arg(&archive),
    );
    let name = |line: &str| line.split(' ').nth(2).map(str::to_owned);
    let names: BTreeSet<String> = printed.lines().filter_map(name).collect();
    let mut functions = declared("vipl.h");
    functions.extend(declared("viplx.h"));
    assert_eq!(names, functions);
}
