//! A C program that was compiled against the system's headers meets the interface.

use crate::support;
use std::process::Command;

#[test]
fn a_program_sees_what_the_interface_promises() {
    let program = support::program("interface", "plain", &[]);
    assert_eq!(support::run_program(&program, &[]), "");
}

/// On a simulated host times follow from what programs and their libraries allocate.
#[test]
fn what_the_library_allocates_is_the_same_in_each_run() {
    let program = support::program("allocations", "allocations", &["-fno-builtin"]);
    let first = support::run_program(&program, &[]);
    assert_ne!(first, "");
    for _ in 0..10 {
        assert_eq!(support::run_program(&program, &[]), first);
    }
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

/// As programs with jemalloc and the like do.
#[test]
fn a_program_with_an_allocator_of_its_own_runs() {
    let program = support::program(
        "interface",
        "allocator",
        &["-DOWN_ALLOCATOR", "-fno-builtin"],
    );
    assert_eq!(support::run_program(&program, &[]), "");
}

/// The debugger stops the library's thread with the program's, and steps into the library.
#[test]
fn a_program_under_gdb_runs_and_stops_in_the_library() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("no gdb on this machine: apt install gdb");
        return;
    }
    let program = support::program("interface", "debugged", &["-DWITHOUT_CANCEL"]);
    let wrapper = [
        "gdb",
        "-q",
        "-nx",
        "-batch",
        "-ex",
        "set debuginfod enabled off",
        "-ex",
        "break ibv_alloc_pd",
        "-ex",
        "run",
        "-ex",
        "info sharedlibrary libibverbs",
        "-ex",
        "delete",
        "-ex",
        "continue",
        "--args",
    ];
    let said = support::run_program(&program, &wrapper);
    let has = |words: &str| said.contains(words);
    assert!(has("ibv_alloc_pd ()") || has("ibv_alloc_pd ("), "{said}");
    assert!(has(&support::libraries().display().to_string()), "{said}");
    assert!(has("exited normally"), "{said}");
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
