//! The libraries for the tests of this crate, as they are installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use viaduct_c_programs::{compiler, run};

/// A folder that belongs to this test binary.
pub(crate) fn scratch() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    let name = test
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let name = name
        .rsplit_once('-')
        .map_or(name.as_str(), |(name, _)| name);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ibverbs-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The folder of the libraries.
pub(crate) fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().expect("a test has a file");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/link-verbs.sh");
        let folder = scratch().join("lib");
        let built = test.parent().expect("a test lies in a folder");
        run(Command::new(script)
            .arg(built)
            .arg(&folder)
            .args(["stand-ins", "ibverbs"]));
        folder
    })
}

/// Compiles a program of `tests/c` against the system's headers, and links it with our library.
/// Each test names its own `file`: another one may run at the same time.
pub(crate) fn program(name: &str, file: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let program = scratch().join(file);
    let mut command = Command::new(compiler(false));
    command
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(flags);
    command.arg(source).arg("-o").arg(&program);
    run(command
        .arg("-L")
        .arg(libraries())
        .args(["-libverbs", "-lpthread"]));
    program
}

/// Runs it with our library, and says what it printed.
pub(crate) fn run_program(program: &Path, wrapper: &[&str]) -> String {
    let mut command = match wrapper.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    run(command.env("LD_LIBRARY_PATH", libraries()))
}
