//! Forked children: they open devices of their own, have nothing of their parents', and keep nobody
//! from hearing that a parent is gone.

#[path = "conformance/station.rs"]
#[allow(dead_code, reason = "shared with the conformance suite")]
mod station;

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};

use station::{ALL, Local, Post, Station};
use viaduct_conformance::verbs::WORDS;
use viaduct_processes::held;
use viaduct_rdma::verbs::flags::send;
use viaduct_rdma::verbs::{CompletionStatus, QueuePairType, SendOpcode};

/// Has a process share registered memory.
const SHARES: &str = "VIADUCT_RDMA_SHARE_MEMORY";

const CASES: [(&str, fn()); 4] = [
    // The first one forks before this process has opened a device.
    (
        "a_parent_is_gone_though_its_child_lives",
        a_parent_is_gone_though_its_child_lives,
    ),
    (
        "a_child_talks_with_its_parent",
        a_child_talks_with_its_parent,
    ),
    (
        "a_grandchild_is_as_good_as_a_child",
        a_grandchild_is_as_good_as_a_child,
    ),
    (
        "a_child_has_memory_of_its_own",
        a_child_has_memory_of_its_own,
    ),
];

fn main() -> ExitCode {
    let is_list = std::env::args().any(|word| word == "--list");
    for (name, case) in CASES {
        if is_list {
            println!("{name}: test");
            continue;
        }
        case();
        println!("test {name} ... ok");
    }
    if is_list || std::env::var_os(SHARES).is_some() {
        return ExitCode::SUCCESS;
    }
    if let Err(error) = held::check() {
        println!("not with shared memory: {error}");
        return ExitCode::SUCCESS;
    }
    println!("with shared memory:");
    let program = std::env::current_exe().expect("this program has a path");
    let status = Command::new(program).env(SHARES, "1").status();
    let is_well = status.expect("a process is started").success();
    ExitCode::from(u8::from(!is_well))
}

/// A forked child that does this with its end of a line, and the other end of that.
struct Child {
    number: libc::pid_t,
    line: UnixStream,
}

fn fork(child: impl FnOnce(&mut UnixStream)) -> Child {
    let (line, mut other) = UnixStream::pair().expect("a line");
    // SAFETY: the child has one thread, and leaves without what is run at a program's end.
    let number = unsafe { libc::fork() };
    assert!(number >= 0, "a process is forked");
    if number == 0 {
        drop(line);
        let is_well = catch_unwind(AssertUnwindSafe(|| child(&mut other))).is_ok();
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    Child { number, line }
}

impl Child {
    fn ends_well(self) {
        let mut status = 0;
        // SAFETY: a child of this process, which is waited for once.
        let ended = unsafe { libc::waitpid(self.number, &raw mut status, 0) };
        assert_eq!((ended, status), (self.number, 0));
    }
}

fn tell(line: &mut UnixStream, number: u64) {
    line.write_all(&number.to_ne_bytes())
        .expect("the other side listens");
}

fn hear(line: &mut UnixStream) -> u64 {
    let mut bytes = [0; 8];
    line.read_exact(&mut bytes).expect("the other side tells");
    u64::from_ne_bytes(bytes)
}

fn here() -> Local {
    Local::new()
}

/// Makes a queue pair and connects it with that of whoever is at the other end of the line.
fn connect(side: &mut Local, line: &mut UnixStream) {
    let kind = u64::from(QueuePairType::Rc.number());
    tell(line, side.done("pair", &[kind, 1, 16])[0]);
    let peer = hear(line);
    side.done("up", &[0, peer, u64::from(ALL), 8, 2, 7]);
    // Both have come up.
    tell(line, 0);
    hear(line);
}

fn message(request: u64) -> Post {
    Post {
        opcode: u64::from(SendOpcode::Send.number()),
        flags: send::SIGNALED,
        request,
        length: 8,
        ..Post::default()
    }
}

fn a_parent_is_gone_though_its_child_lives() {
    let mut parent = fork(|line| {
        let mut side = here();
        connect(&mut side, line);
        side.receive(0, 0, 64);
        let grandchild = fork(|_| {
            // Until the first process has closed its end of the line. What it says is for the
            // child.
            let mut watched = libc::pollfd {
                fd: line.as_raw_fd(),
                events: 0,
                revents: 0,
            };
            // SAFETY: one descriptor.
            unsafe { libc::poll(&raw mut watched, 1, -1) };
        });
        std::mem::forget(grandchild);
        hear(line);
        std::mem::forget(side);
    });
    let mut near = here();
    connect(&mut near, &mut parent.line);
    near.send(message(1));
    assert_eq!(near.sent().status, CompletionStatus::Success as u64);
    tell(&mut parent.line, 0);
    let line = parent.line.try_clone().expect("a descriptor");
    parent.ends_well();
    near.send(message(2));
    let exceeded = CompletionStatus::RetryExceededError as u64;
    assert_eq!(near.sent().status, exceeded);
    drop(line);
}

/// What a child does whose parent has a queue pair: opens a device, and receives from its parent.
fn receive_from_parent(of_parent: &mut Local, line: &mut UnixStream) {
    assert_eq!(of_parent.call("state", &[0]), Err(libc::EINVAL));
    assert_eq!(of_parent.call("poll-send", &[0]), Err(libc::EINVAL));
    let mut own = here();
    // The handles of the parent name nothing of the child's, either.
    own.done("pair", &[u64::from(QueuePairType::Rc.number()), 1, 16]);
    assert_eq!(of_parent.call("state", &[0]), Err(libc::EINVAL));
    drop(own);
    let mut own = here();
    connect(&mut own, line);
    own.receive(7, 64, 64);
    tell(line, 0);
    assert_eq!(own.received().request, 7);
    assert_eq!(own.words(64, 1), [77]);
    own.send(message(9));
    assert_eq!(own.sent().status, CompletionStatus::Success as u64);
}

fn send_to(near: &mut Local, line: &mut UnixStream) {
    connect(near, line);
    near.receive(3, 64, 64);
    hear(line);
    near.set_words(0, &[77]);
    near.send(message(2));
    assert_eq!(near.sent().status, CompletionStatus::Success as u64);
    assert_eq!(near.received().request, 3);
}

fn a_child_talks_with_its_parent() {
    let mut near = here();
    let mut other = here();
    other.done("pair", &[u64::from(QueuePairType::Rc.number()), 1, 16]);
    let mut child = fork(|line| receive_from_parent(&mut other, line));
    send_to(&mut near, &mut child.line);
    child.ends_well();
    assert_eq!(other.done("state", &[0]), [0], "the parent's lives on");
}

fn a_grandchild_is_as_good_as_a_child() {
    let mut near = here();
    let mut child = fork(|line| {
        let mut own = here();
        own.done("pair", &[u64::from(QueuePairType::Rc.number()), 1, 16]);
        let grandchild = fork(|_| receive_from_parent(&mut own, line));
        grandchild.ends_well();
    });
    send_to(&mut near, &mut child.line);
    child.ends_well();
}

/// Mappings of this process that peers may have, too.
fn shared_mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps can be read");
    let lines = maps.lines();
    lines
        .filter(|line| line.contains("viaduct-rdma-memory"))
        .count()
}

fn a_child_has_memory_of_its_own() {
    let mut near = here();
    let is_sharing = std::env::var_os(SHARES).is_some();
    assert_eq!(shared_mappings() > 0, is_sharing);
    let last = 8 * (WORDS as u64 - 1);
    for turn in 0..3 {
        near.set_words(0, &[turn]);
        near.set_words(last, &[10 + turn]);
        let mut child = fork(|line| {
            assert_eq!(shared_mappings(), 0);
            // The parent has written since.
            hear(line);
            assert_eq!(near.words(0, 1), [turn]);
            assert_eq!(near.words(last, 1), [10 + turn]);
            near.set_words(0, &[77]);
            tell(line, 0);
            hear(line);
            assert_eq!(near.words(0, 1), [77]);
        });
        near.set_words(0, &[20]);
        near.set_words(last, &[21]);
        tell(&mut child.line, 0);
        hear(&mut child.line);
        assert_eq!(near.words(0, 1), [20]);
        near.set_words(0, &[30]);
        tell(&mut child.line, 0);
        child.ends_well();
        assert_eq!(
            (near.words(0, 1), near.words(last, 1)),
            (vec![30], vec![21])
        );
        assert_eq!(shared_mappings() > 0, is_sharing);
    }
}
