//! An idle process with an open device takes no processor time.

#[path = "conformance/station.rs"]
#[allow(dead_code, reason = "shared with the conformance suite")]
mod station;

use station::{ALL, Local, Post, Station};
use viaduct_rdma::verbs::flags::send;
use viaduct_rdma::verbs::{CompletionStatus, QueuePairType, SendOpcode};

/// `ppoll`, by which the library's thread waits; the third of its arguments is the timeout.
#[cfg(target_arch = "x86_64")]
const PPOLL: &str = "271";

/// What the library's thread is in: the number of a system call and its arguments.
fn call_of_thread() -> Option<Vec<String>> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let of_thread = |thread: std::path::PathBuf| {
        let name = std::fs::read_to_string(thread.join("comm")).ok()?;
        let call = std::fs::read_to_string(thread.join("syscall")).ok()?;
        let words = call.split_whitespace().map(str::to_owned).collect();
        (name.trim() == "viaduct-rdma").then_some(words)
    };
    let mut paths = threads.filter_map(|thread| Some(thread.ok()?.path()));
    paths.find_map(of_thread)
}

/// Waits, however long it takes, until the thread waits without a timeout, when nothing but a
/// packet or a call can wake it.
#[cfg(target_arch = "x86_64")]
fn await_sleep() {
    loop {
        // It gives itself its name when it begins.
        let call = call_of_thread().unwrap_or_default();
        if call.first().is_some_and(|number| number == PPOLL)
            && call.get(3).is_some_and(|timeout| timeout == "0x0")
        {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn its_thread_waits_without_a_timeout_before_and_after_messages() {
    if std::fs::read_to_string("/proc/thread-self/syscall").is_err() {
        println!("skipped: this system does not tell what a thread waits in");
        return;
    }
    let mut side = Local::new();
    await_sleep();
    // Two queue pairs of one process, connected with each other.
    let kind = u64::from(QueuePairType::Rc.number());
    let numbers: Vec<u64> = (0..2)
        .map(|_| side.done("pair", &[kind, 1, 16])[0])
        .collect();
    for (pair, peer) in [(0, numbers[1]), (1, numbers[0])] {
        side.done("up", &[pair, peer, u64::from(ALL), 8, 2, 7]);
    }
    for request in 0..1000 {
        side.receive(request, 64, 64);
        side.post(Post {
            pair: 1,
            opcode: u64::from(SendOpcode::Send.number()),
            flags: send::SIGNALED,
            request,
            length: 8,
            ..Post::default()
        })
        .expect("a message is posted");
        let success = CompletionStatus::Success as u64;
        assert_eq!([side.received().status, side.sent().status], [success; 2]);
    }
    await_sleep();
}
