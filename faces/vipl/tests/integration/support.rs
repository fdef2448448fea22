//! libvipl for the tests of this crate.

#![allow(dead_code, reason = "each test uses some of it")]

use std::path::{Path, PathBuf};

use viaduct_c_programs::Library;
#[allow(unused_imports, reason = "each test uses some of it")]
pub(crate) use viaduct_c_programs::{compiler, has_static_libc, port, run};

pub(crate) static VIPL: Library = Library::new(
    "vipl",
    env!("CARGO_MANIFEST_DIR"),
    env!("CARGO_TARGET_TMPDIR"),
);

pub(crate) fn crate_root() -> &'static Path {
    VIPL.crate_root()
}

pub(crate) fn include() -> PathBuf {
    VIPL.include()
}

pub(crate) fn archive() -> PathBuf {
    VIPL.archive()
}

pub(crate) fn scratch() -> PathBuf {
    VIPL.scratch()
}

/// A folder with libvipl.so as it is installed.
pub(crate) fn library() -> &'static Path {
    VIPL.folder()
}

pub(crate) fn program(name: &str, sources: &[PathBuf], linked_statically: bool) -> PathBuf {
    VIPL.program(name, "gnu89", sources, linked_statically)
}

pub(crate) fn printed_abi(cxx: bool, standard: &str) -> String {
    VIPL.printed_abi(cxx, standard)
}

/// Runs a program as two processes that log what they are refused.
pub(crate) fn run_pair(
    program: &Path,
    sides: [&str; 2],
    port: &str,
    environment: &[(&str, &str)],
) -> [String; 2] {
    let mut all = vec![("VIADUCT_VIPL_LOG", "1")];
    all.extend(environment);
    VIPL.run_pair(program, sides, port, &all)
}
