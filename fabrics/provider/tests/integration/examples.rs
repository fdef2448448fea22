//! Each example, server and client as two processes: both say the same, and that all was right.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// An example that `cargo test` has built beside this test.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap();
    profile.join("examples").join(name)
}

fn start(name: &str, role: &str, port: &str) -> Child {
    Command::new(example(name))
        .args([role, port])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn both_say(name: &str, expected: &str) {
    let port = format!("{name}-{}", std::process::id());
    let server = start(name, "server", &port);
    let client = start(name, "client", &port);
    for (role, process) in [("client", client), ("server", server)] {
        let output = process.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{role}: {errors}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            expected,
            "{role}: {errors}"
        );
    }
}

#[test]
fn ping_pong() {
    both_say(
        "pingpong",
        "pingpong: 1000 round trips of 64 bytes, data right\n",
    );
}

#[test]
fn a_server_with_a_completion_queue() {
    both_say(
        "cqserver",
        "cqserver: 4 connections, 400 requests, answers right\n",
    );
}

#[test]
fn a_remote_write_with_immediate_data() {
    both_say(
        "rdma_immediate",
        "rdma_immediate: 32768 bytes written, immediate data 1999, data right\n",
    );
}

#[test]
fn a_wrong_argument_is_answered_by_the_usage() {
    let output = Command::new(example("pingpong")).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("pingpong server|client [port]"));
}
