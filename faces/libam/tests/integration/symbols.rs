//! The shared library exports what the header declares, and can be installed and used.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use viaduct_c_programs::run;

use crate::support::AM;

/// What the header declares: each prototype is a line that begins with its type.
fn declared() -> BTreeSet<String> {
    let text = std::fs::read_to_string(AM.include().join("am.h")).unwrap();
    let prototype = |line: &str| {
        let after = line
            .strip_prefix("am_error ")
            .or_else(|| line.strip_prefix("const char *"))?;
        let (name, _) = after.split_once('(')?;
        Some(name.to_owned())
    };
    text.lines().filter_map(prototype).collect()
}

fn exported(library: &Path) -> BTreeSet<String> {
    let printed = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library));
    let symbol = |line: &str| line.split_whitespace().last().map(str::to_owned);
    printed.lines().filter_map(symbol).collect()
}

#[test]
fn exactly_what_the_header_declares_is_exported_with_a_version() {
    let mut expected = BTreeSet::from(["AM_1.0".to_owned()]);
    expected.extend(declared().iter().map(|name| format!("{name}@@AM_1.0")));
    assert_eq!(expected.len(), 36);
    assert_eq!(exported(&AM.folder().join("libam.so")), expected);
}

#[test]
fn the_library_of_cargo_exports_the_same_without_versions() {
    assert_eq!(
        exported(&AM.archive().with_file_name("libam.so")),
        declared()
    );
}

#[test]
fn programs_ask_for_the_major_version() {
    let printed = run(Command::new("readelf")
        .arg("-d")
        .arg(AM.folder().join("libam.so")));
    assert!(
        printed.contains("Library soname: [libam.so.1]"),
        "{printed}"
    );
}

#[test]
fn what_is_installed_builds_a_program_and_can_be_removed() {
    // As a stranger would: install, then ask pkg-config's file for the flags.
    let prefix = AM.installed();
    for file in [
        "include/am.h",
        "lib/libam.a",
        "lib/libam.so.1",
        "share/doc/am/virtual-networks.md",
    ] {
        assert!(prefix.join(file).exists(), "{file} is not installed");
    }
    let pc = std::fs::read_to_string(prefix.join("lib/pkgconfig/am.pc")).unwrap();
    assert!(!pc.contains('@'), "{pc}");
    let version = format!("Version: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(pc.contains(&version), "{pc}");
    let sources = [prefix.join("share/doc/am/examples/am_pingpong.c")];
    let _ = AM.program_of_installed(&prefix, &sources, false);
    AM.uninstall(&prefix);
}

#[test]
fn every_function_is_in_the_description() {
    let page = AM.crate_root().join("../../docs/virtual-networks.md");
    let page = std::fs::read_to_string(page).unwrap();
    for name in declared() {
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} is not described"
        );
    }
}
