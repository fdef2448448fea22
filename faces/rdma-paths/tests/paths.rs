//! What programs see of adapters that are not there, and that they see all else as it is.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use viaduct_c_programs::{compiler, run};

fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rdma-paths");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The library, as it is installed.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/link-verbs.sh");
        let folder = scratch().join("lib");
        run(Command::new(script)
            .arg(test.parent().unwrap())
            .arg(&folder)
            .arg("paths"));
        folder.join("libviaduct-rdma-paths.so")
    })
}

/// A folder with an adapter. It is written once: a test that reads it must not meet a file
/// that another test has just begun to write.
fn adapter() -> &'static Path {
    static ADAPTER: OnceLock<PathBuf> = OnceLock::new();
    ADAPTER.get_or_init(write_adapter)
}

fn write_adapter() -> PathBuf {
    let folder = scratch().join("shown");
    let files = [
        ("sys/class/infiniband/viaduct0/node_type", "1: CA\n"),
        ("sys/class/infiniband/viaduct0/ports/1/state", "4: ACTIVE\n"),
        ("sys/class/infiniband_verbs/uverbs0/ibdev", "viaduct0\n"),
    ];
    for (file, text) in files {
        let file = folder.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    std::fs::create_dir_all(folder.join("dev/infiniband")).unwrap();
    let device = folder.join("dev/infiniband/uverbs0");
    if !device.exists() {
        std::os::unix::fs::symlink("/dev/null", device).unwrap();
    }
    folder
}

/// What a program prints that is shown the adapter.
fn shown(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", library());
    run(command.env("VIADUCT_RDMA_SYS", adapter()))
}

#[test]
fn ordinary_programs_find_an_adapter() {
    let state = "/sys/class/infiniband/viaduct0/ports/1/state";
    assert_eq!(shown("cat", &[state]), "4: ACTIVE\n");
    assert_eq!(shown("ls", &["/sys/class/infiniband"]), "viaduct0\n");
    assert_eq!(
        shown("ls", &["/sys/class/infiniband_verbs/uverbs0/"]),
        "ibdev\n"
    );
    let kind = shown("stat", &["-L", "-c", "%F", "/dev/infiniband/uverbs0"]);
    assert_eq!(kind, "character special file\n");
    let real = shown("realpath", &["/sys/class/infiniband/viaduct0"]);
    assert!(real.ends_with("/sys/class/infiniband/viaduct0\n"), "{real}");
}

#[test]
fn a_process_below_a_process_finds_it_too() {
    let inner = "sh -c 'cat /sys/class/infiniband/viaduct0/node_type; exit 0'";
    assert_eq!(shown("sh", &["-c", inner]), "1: CA\n");
}

#[test]
fn other_paths_are_left_alone() {
    assert_eq!(shown("cat", &["/proc/self/comm"]), "cat\n");
    let real = shown("realpath", &["/sys/class/net"]);
    assert_eq!(real, "/sys/class/net\n");
}

#[test]
fn without_the_variable_nothing_changes() {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ls /sys/class/infiniband/viaduct0 2>/dev/null || echo none",
    ]);
    command
        .env("LD_PRELOAD", library())
        .env_remove("VIADUCT_RDMA_SYS");
    assert_eq!(run(&mut command), "none\n");
}

#[test]
fn each_function_that_takes_a_path_is_redirected() {
    let source = scratch().join("calls.c");
    std::fs::write(&source, include_str!("c/calls.c")).unwrap();
    let program = scratch().join("calls");
    let mut command = Command::new(compiler(false));
    command.args([
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-D_GNU_SOURCE",
    ]);
    run(command.arg(&source).arg("-o").arg(&program));
    assert_eq!(shown(program.to_str().unwrap(), &[]), "");
}
