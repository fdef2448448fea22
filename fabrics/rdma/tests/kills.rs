//! A peer is killed at random moments, with sends, writes, reads and atomics under way: everything
//! that was posted completes, nobody hangs, and nothing is left behind. What a peer sent before it
//! left is heard.

#[path = "conformance/station.rs"]
#[allow(dead_code, reason = "shared with the conformance suite")]
mod station;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use station::{ALL, Local, Post, Remote, Station};
use viaduct_rdma::verbs::flags::send;
use viaduct_rdma::verbs::{CompletionStatus, QueuePairType, SendOpcode};

/// Rounds, unless `VIADUCT_KILLS` says otherwise.
const ROUNDS: u64 = 40;
/// Sends of a round.
const SENDS: u64 = 24;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|word| word == "--station") {
        station::serve();
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|word| word == "--list") {
        println!("peers_killed_at_any_moment_leave_nothing: test");
        println!("what_a_peer_sent_before_it_left_is_heard: test");
        return ExitCode::SUCCESS;
    }
    leave();
    println!("test what_a_peer_sent_before_it_left_is_heard ... ok");
    let rounds = std::env::var("VIADUCT_KILLS").ok();
    let rounds = rounds.and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut near = Local::new();
    let mut before = None;
    let mut statuses = [0_u64; 22];
    for round in 0..rounds {
        near.renew();
        run(&mut near, &mut random, &mut statuses);
        near.renew();
        // The first rounds make what is kept.
        if round == 4 {
            before = Some(settled(None));
        }
    }
    let after = settled(before);
    let before = before.unwrap_or(after);
    println!(
        "{rounds} kills; completions by status: {statuses:?}; held {before:?}, then {after:?}"
    );
    assert!(
        after.0 <= before.0 && after.1 <= before.1,
        "something is left behind"
    );
    assert!(statuses[CompletionStatus::RetryExceededError as usize] > 0);
    println!("test peers_killed_at_any_moment_leave_nothing ... ok");
    ExitCode::SUCCESS
}

/// A peer sends its first message, and is gone before its link was heard of.
fn leave() {
    let (mut stays, mut leaves) = (Remote::start(), Remote::start());
    let datagrams = QueuePairType::Ud as u64;
    let numbers = [&mut stays, &mut leaves].map(|side| side.done("pair", &[datagrams, 1, 64])[0]);
    for side in [&mut stays, &mut leaves] {
        side.done("up", &[0, 0, u64::from(ALL), 8, 2, 7]);
    }
    stays.receive(5, 0, 4096);
    signal(&stays, libc::SIGSTOP);
    leaves.set_words(0, &[77]);
    leaves.send(Post {
        opcode: u64::from(SendOpcode::Send.number()),
        flags: send::SIGNALED,
        length: 8,
        to: numbers[0],
        ..Post::default()
    });
    assert_eq!(leaves.sent().status, 0);
    drop(leaves);
    signal(&stays, libc::SIGCONT);
    assert_eq!(stays.received().source, numbers[1]);
    assert_eq!(stays.words(40, 1), [77]);
}

fn signal(to: &Remote, signal: i32) {
    // SAFETY: the call takes numbers alone, and the child is not waited for yet.
    assert_eq!(unsafe { libc::kill(to.child.id() as i32, signal) }, 0);
}

/// Descriptors and mappings, when they are as few as `wanted`, or after a while.
fn settled(wanted: Option<(usize, usize)>) -> (usize, usize) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let maps = maps
            .lines()
            .filter(|line| line.contains("viaduct-rdma"))
            .count();
        let now = (descriptors, maps);
        let is_settled = wanted.is_some_and(|(most, more)| now.0 <= most && now.1 <= more);
        if is_settled || Instant::now() > end {
            return now;
        }
        if wanted.is_none() {
            // The end of the last peer is heard by its socket.
            std::thread::sleep(Duration::from_millis(200));
            let again = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
            return (again, maps_now());
        }
        std::thread::yield_now();
    }
}

fn maps_now() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines()
        .filter(|line| line.contains("viaduct-rdma"))
        .count()
}

fn next(random: &mut u64, limit: u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random % limit
}

fn run(near: &mut Local, random: &mut u64, statuses: &mut [u64]) {
    let mut far = Remote::start();
    let one = near.done("pair", &[2, 1, 64])[0];
    let two = far.done("pair", &[2, 1, 64])[0];
    let up = |peer| [0, peer, u64::from(ALL), 8, 2, 7];
    far.done("up", &up(one));
    near.done("up", &up(two));
    let region = far.done("region", &[u64::from(ALL)]);
    for request in 0..1 + next(random, 63) {
        far.receive(request, 0, 300_000);
    }
    let opcodes = [
        SendOpcode::Send,
        SendOpcode::RdmaWrite,
        SendOpcode::RdmaRead,
        SendOpcode::AtomicFetchAndAdd,
        SendOpcode::RdmaWriteWithImmediate,
    ];
    // The end comes from another thread, at any moment of what follows.
    let mut remote = far;
    remote.begin("look", &[10_000]);
    let pause = Duration::from_micros(next(random, 5000));
    let killer = std::thread::spawn(move || {
        let start = Instant::now();
        while start.elapsed() < pause {
            std::hint::spin_loop();
        }
        drop(remote);
    });
    let (mut posted, mut completed) = (0, 0);
    let mut has_failed = false;
    while completed < posted || !has_failed {
        if !has_failed && posted < completed + SENDS {
            let opcode = opcodes[next(random, 5) as usize];
            let is_atomic = opcode == SendOpcode::AtomicFetchAndAdd;
            let length = [8, 64, 4096, 200_000][next(random, 4) as usize];
            near.send(Post {
                opcode: u64::from(opcode.number()),
                flags: send::SIGNALED,
                request: posted,
                length: if is_atomic { 8 } else { length },
                at: 8192,
                remote: region[1] + 1024,
                key: region[0],
                ..Post::default()
            });
            posted += 1;
            if next(random, 4) > 0 {
                continue;
            }
        }
        let done = near.sent();
        assert_eq!(done.request, completed, "completions come in order");
        completed += 1;
        statuses[done.status as usize] += 1;
        has_failed |= done.status != 0;
    }
    killer.join().expect("the killer ends");
    near.nothing_sent();
}
