//! C programs, each as two processes over the shared library.
//!
//! Those of `tests/c` are in the style of 1999; the others are `examples/c`.

use crate::support;
use std::path::PathBuf;

pub(crate) fn old(name: &str) -> PathBuf {
    let source = support::crate_root().join(format!("tests/c/{name}.c"));
    support::program(name, &[source], false)
}

pub(crate) fn example(name: &str, linked_statically: bool) -> PathBuf {
    let folder = support::crate_root().join("../../examples/c");
    let sources = [folder.join(format!("{name}.c")), folder.join("common.c")];
    let suffix = if linked_statically { "-static" } else { "" };
    support::program(&format!("{name}{suffix}"), &sources, linked_statically)
}

fn server_and_client(program: PathBuf, name: &str) -> [String; 2] {
    support::run_pair(&program, ["server", "client"], &support::port(name), &[])
}

#[test]
fn a_stream_with_credits_and_signals() {
    let bytes: u64 = (0..5000).map(|n| n * 37 % 8193).sum();
    let printed = server_and_client(old("vstream"), "vstream");
    assert_eq!(
        printed,
        [
            format!("vstream server: 5000 messages, {bytes} bytes, 32 receives flushed\n"),
            "vstream client: 626 signals, 32 receives flushed\n".to_owned(),
        ]
    );
}

#[test]
fn a_threaded_server_blocked_in_one_completion_queue() {
    let printed = server_and_client(old("vthreads"), "vthreads");
    assert_eq!(
        printed,
        [
            "vthreads server: 4 clients, 2000 requests\n",
            "vthreads client: 2 clients, 1000 requests\n",
        ]
    );
}

#[test]
fn writes_noticed_by_looking_at_memory() {
    let (program, port) = (old("vput"), support::port("vput"));
    let switch = [("VIADUCT_VIPL_TAG0", "1")];
    let printed = support::run_pair(&program, ["left", "right"], &port, &switch);
    assert_eq!(
        printed,
        [
            "vput left: 2000 messages each way\n",
            "vput right: 2000 messages each way\n",
        ]
    );
}

#[test]
fn a_file_is_copied_by_messages_and_by_writes() {
    // Not a multiple of the blocks, and more of them than the window has.
    let bytes = 100 * 32_768 + 999;
    let data: Vec<u8> = (0..bytes as u32)
        .map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8)
        .collect();
    let program = old("vcopy");
    for (way, parts) in [
        ("send", "101 messages and 0 writes"),
        ("write", "0 messages and 101 writes"),
    ] {
        let file = |end: &str| support::scratch().join(format!("vcopy.{way}.{end}"));
        std::fs::write(file("from"), &data).unwrap();
        let port = support::port(&format!("vcopy {way}"));
        let printed = support::run_pair(
            &program,
            ["receive", way],
            &port,
            &[("VCOPY_FILES", file("").to_str().unwrap())],
        );
        assert_eq!(
            printed,
            [
                format!("vcopy: {bytes} bytes in {parts}\n"),
                format!("vcopy: {bytes} bytes sent\n"),
            ]
        );
        assert!(std::fs::read(file("to")).unwrap() == data, "{way}");
    }
}

#[test]
fn equals_in_a_mesh_hear_of_the_one_that_leaves() {
    let port = support::port("vmesh");
    let printed = support::run_pair(&old("vmesh"), ["even", "odd"], &port, &[]);
    assert_eq!(
        printed,
        [
            "vmesh even: 200 rounds, sums right, rank 3 lost\n",
            "vmesh odd: 200 rounds, sums right, rank 3 lost\n",
        ]
    );
}

#[test]
fn the_examples_print_the_same_at_both_ends() {
    for (name, line) in [
        (
            "pingpong",
            "pingpong: 1000 round trips of 64 bytes, data right\n",
        ),
        (
            "cqserver",
            "cqserver: 4 connections, 400 requests, answers right\n",
        ),
        (
            "rdma_immediate",
            "rdma_immediate: 32768 bytes written, immediate data 1999, data right\n",
        ),
    ] {
        let printed = server_and_client(example(name, false), name);
        assert_eq!(printed, [line, line], "{name}");
    }
}

#[test]
fn the_static_library_talks_to_the_shared_one() {
    let printed = server_and_client(example("pingpong", true), "static");
    let line = "pingpong: 1000 round trips of 64 bytes, data right\n";
    assert_eq!(printed, [line, line]);
}
