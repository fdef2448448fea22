//! Programs in C over the library as it is installed, and its names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use viaduct_c_programs::{compiler, run};

fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rdmacm-interface");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The folder of both libraries.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/link-verbs.sh");
        let folder = scratch().join("lib");
        let mut command = Command::new(script);
        command.arg(test.parent().unwrap()).arg(&folder);
        run(command.args(["ibverbs", "rdmacm"]));
        folder
    })
}

/// The names of a table of symbols with their versions.
fn listed() -> BTreeSet<String> {
    let table = include_str!("../../symbols/librdmacm.symbols");
    let mut node = "";
    let mut names = BTreeSet::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            node = name.strip_suffix(']').unwrap();
        } else {
            let (_, name) = line.split_once(' ').unwrap();
            names.insert(format!("{name}@{node}"));
        }
    }
    names
}

#[test]
fn all_names_of_the_table_are_exported_and_no_other() {
    let library = libraries().join("librdmacm.so.1");
    let mut command = Command::new("nm");
    command.args(["-D", "--defined-only", "--with-symbol-versions"]);
    let printed = run(command.arg(library));
    let exported: BTreeSet<String> = printed
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(|name| name.replace("@@", "@"))
        .filter(|name| name.contains('@'))
        .collect();
    assert_eq!(exported, listed());
    assert_eq!(exported.len(), 74);
}

#[test]
fn programs_connect_send_and_end_as_the_manual_pages_say() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/connections.c");
    let program = scratch().join("connections");
    let mut command = Command::new(compiler(false));
    command.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
    command
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(libraries());
    run(command.args(["-lrdmacm", "-libverbs", "-lpthread"]));
    let printed = run(Command::new(&program).env("LD_LIBRARY_PATH", libraries()));
    let seen: Vec<_> = printed.lines().collect();
    let wanted = [
        "killed",
        "killed",
        "refused",
        "acknowledged",
        "connected",
        "datagrams",
        "synchronous",
    ];
    assert_eq!(seen, wanted);
    run(Command::new(&program)
        .arg("ending")
        .env("LD_LIBRARY_PATH", libraries()));
}
