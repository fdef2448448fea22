//! A C program that was compiled against the system's headers meets the interface.

use crate::support;
use std::process::Command;

#[test]
fn a_program_sees_what_the_interface_promises() {
    let program = support::program("interface", "plain", &[]);
    assert_eq!(support::run_program(&program, &[]), "");
}

/// Of the compiler: its library takes the place of `malloc`. A thread that is cancelled leaves it
/// with a wrong idea of that thread's stack, whatever library the thread waited in.
#[test]
fn a_program_with_address_sanitizer_runs() {
    let program = support::program(
        "interface",
        "sanitized",
        &["-fsanitize=address", "-DWITHOUT_CANCEL"],
    );
    assert_eq!(support::run_program(&program, &[]), "");
}

/// Valgrind runs one thread at a time and knows each byte that was not written.
#[test]
fn a_program_under_valgrind_runs_without_a_complaint() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("no valgrind on this machine: apt install valgrind");
        return;
    }
    let program = support::program("interface", "valgrind", &[]);
    let wrapper = ["valgrind", "-q", "--error-exitcode=9", "--fair-sched=yes"];
    assert_eq!(support::run_program(&program, &wrapper), "");
}
