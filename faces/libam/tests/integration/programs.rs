//! C programs over the shared library, and over the static one.

use std::path::{Path, PathBuf};
use std::process::Command;

use viaduct_c_programs::{compiler, port, run};

use crate::support::AM;

fn example(linked_statically: bool) -> PathBuf {
    let source = AM.crate_root().join("../../examples/c/am_pingpong.c");
    let suffix = if linked_statically { "-static" } else { "" };
    AM.program(
        &format!("am_pingpong{suffix}"),
        "c99",
        &[source],
        linked_statically,
    )
}

fn server_and_client(program: &Path, name: &str) {
    let file = AM.scratch().join(port(name));
    let printed = AM.run_pair(program, ["server", "client"], file.to_str().unwrap(), &[]);
    assert_eq!(
        printed,
        [
            "am_pingpong: the client has left\n",
            "am_pingpong: 1000 round trips\n\
             am_pingpong: the sum of 8192 bytes is 8192\n\
             am_pingpong: one came back: wrong key\n",
        ]
    );
    assert!(!file.exists(), "the server takes the name away");
}

#[test]
fn the_example_asks_and_answers() {
    server_and_client(&example(false), "shared");
}

#[test]
fn the_example_is_linked_with_the_static_library() {
    server_and_client(&example(true), "static");
}

#[test]
fn sleepers_are_woken() {
    let file = AM.scratch().join(port("sleepers"));
    let asleep = [("VIADUCT_SPIN_US", "0")];
    let file = file.to_str().unwrap();
    let printed = AM.run_pair(&example(false), ["server", "client"], file, &asleep);
    assert!(printed[1].contains("1000 round trips"));
}

fn alone(name: &str, standard: &str) -> String {
    let source = AM.crate_root().join(format!("tests/c/{name}.c"));
    let program = AM.program(name, standard, &[source], false);
    run(Command::new(program).env("LD_LIBRARY_PATH", AM.folder()))
}

#[test]
fn threads_share_an_endpoint() {
    assert_eq!(
        alone("threads", "gnu99"),
        "4 threads, 4000 requests, 4000 answers, 0 returned\n"
    );
}

#[test]
fn a_child_of_fork_is_told_so_and_its_parent_goes_on() {
    assert_eq!(
        alone("fork", "gnu99"),
        "the child is refused, the parent goes on\n"
    );
}

#[test]
fn an_exception_of_a_handler_ends_the_program() {
    let program = AM.scratch().join("exception");
    let mut command = Command::new(compiler(true));
    command.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(AM.include());
    command.arg(AM.crate_root().join("tests/c/exception.cc"));
    command.arg("-L").arg(AM.folder()).arg("-lam");
    run(command.arg("-o").arg(&program));
    let ended = Command::new(program)
        .env("LD_LIBRARY_PATH", AM.folder())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(
        !ended.status.success() && printed == "thrown\n",
        "{ended:?}"
    );
}
