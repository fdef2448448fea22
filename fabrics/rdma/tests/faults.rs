//! Faults on request: what each does to both sides, and that it does the same again.

#[path = "conformance/station.rs"]
#[allow(dead_code, reason = "shared with the conformance suite")]
mod station;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use station::{ALL, Post, Remote, Station};
use viaduct_rdma::verbs::flags::{attribute, send};
use viaduct_rdma::verbs::{
    AsyncEventType, CompletionStatus, PortState, QueuePairState, QueuePairType, SendOpcode,
};

const CASES: [(&str, fn()); 14] = [
    (
        "a_reliable_connection_hides_loss",
        a_reliable_connection_hides_loss,
    ),
    ("loss_strikes_the_same_again", loss_strikes_the_same_again),
    (
        "a_request_that_is_always_lost_fails",
        a_request_that_is_always_lost_fails,
    ),
    (
        "what_is_lost_unreliably_is_not_received",
        what_is_lost_unreliably_is_not_received,
    ),
    (
        "a_receiver_that_is_not_ready_is_asked_again",
        a_receiver_that_is_not_ready_is_asked_again,
    ),
    (
        "a_receiver_that_is_never_ready_is_given_up",
        a_receiver_that_is_never_ready_is_given_up,
    ),
    (
        "a_queue_pair_breaks_and_another_works",
        a_queue_pair_breaks_and_another_works,
    ),
    (
        "slow_requests_take_their_time",
        slow_requests_take_their_time,
    ),
    (
        "nothing_passes_a_port_that_is_down",
        nothing_passes_a_port_that_is_down,
    ),
    (
        "a_port_goes_down_and_comes_up",
        a_port_goes_down_and_comes_up,
    ),
    (
        "datagrams_to_a_port_that_is_down_are_lost",
        datagrams_to_a_port_that_is_down_are_lost,
    ),
    (
        "a_fault_that_is_no_fault_is_ignored",
        a_fault_that_is_no_fault_is_ignored,
    ),
    (
        "a_side_that_only_waits_hears_of_a_dead_peer_if_asked",
        a_side_that_only_waits_hears_of_a_dead_peer_if_asked,
    ),
    (
        "only_who_waits_for_a_dead_peer_hears_of_it",
        only_who_waits_for_a_dead_peer_hears_of_it,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--station") {
        station::serve();
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|word| !word.starts_with('-'));
    let is_list = arguments.iter().any(|word| word == "--list");
    let mut code = ExitCode::SUCCESS;
    for (name, case) in CASES {
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        if is_list {
            println!("{name}: test");
            continue;
        }
        let is_well = catch_unwind(case).is_ok();
        println!("test {name} ... {}", if is_well { "ok" } else { "FAILED" });
        if !is_well {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// A process with these faults.
fn with(faults: &str) -> Remote {
    Remote::start_with(&[("VIADUCT_RDMA_FAULTS", faults)])
}

/// Timers of a queue pair.
#[derive(Clone, Copy)]
struct Patience {
    timeout: u64,
    retries: u64,
    not_ready_retries: u64,
}

/// Eight milliseconds, seven times.
const PATIENT: Patience = Patience {
    timeout: 11,
    retries: 7,
    not_ready_retries: 7,
};

/// Connects the newest queue pairs of two sides, and tells the key and the address of the memory
/// of the second, and the number of its queue pair.
fn connect(near: &mut Remote, far: &mut Remote, kind: QueuePairType, patience: Patience) -> Peer {
    connect_pair(near, far, kind, patience, [0, 0])
}

/// What a sender knows of its peer.
#[derive(Clone, Copy)]
struct Peer {
    key: u64,
    address: u64,
    number: u64,
}

/// As [`connect`], where the queue pairs have these places at their sides.
fn connect_pair(
    near: &mut Remote,
    far: &mut Remote,
    kind: QueuePairType,
    patience: Patience,
    [near_place, far_place]: [u64; 2],
) -> Peer {
    let kind = u64::from(kind.number());
    let one = near.done("pair", &[kind, 1, 64])[0];
    let two = far.done("pair", &[kind, 1, 64])[0];
    let Patience {
        timeout,
        retries,
        not_ready_retries,
    } = patience;
    let up = |place, peer| {
        [
            place,
            peer,
            u64::from(ALL),
            timeout,
            retries,
            not_ready_retries,
        ]
    };
    far.done("up", &up(far_place, one));
    near.done("up", &up(near_place, two));
    let region = far.done("region", &[u64::from(ALL)]);
    Peer {
        key: region[0],
        address: region[1],
        number: two,
    }
}

/// What a process counted of faults.
struct Counted {
    lost: u64,
    retries: u64,
    not_ready: u64,
    not_ready_retries: u64,
    delayed: u64,
    port_downs: u64,
    broken: u64,
}

fn counted(side: &mut Remote) -> Counted {
    let numbers = side.done("faults", &[]);
    let [
        lost,
        retries,
        not_ready,
        not_ready_retries,
        delayed,
        port_downs,
        broken,
    ] = numbers[..]
    else {
        panic!("seven numbers: {numbers:?}")
    };
    Counted {
        lost,
        retries,
        not_ready,
        not_ready_retries,
        delayed,
        port_downs,
        broken,
    }
}

fn message(request: u64, length: u64) -> Post {
    Post {
        opcode: u64::from(SendOpcode::Send.number()),
        flags: send::SIGNALED,
        request,
        length,
        at: 8 * 1024,
        ..Post::default()
    }
}

const SUCCESS: u64 = CompletionStatus::Success as u64;

/// Two hundred operations of all kinds, sixteen at a time. Tells how many requests were lost.
fn exchange(faults: &str) -> u64 {
    let (mut near, mut far) = (with(faults), with(""));
    let peer = connect(&mut near, &mut far, QueuePairType::Rc, PATIENT);
    let sum = peer.address + 64;
    let (mut sends, mut adds, mut posted) = (0, 0, 0);
    let (mut writes, mut write_bytes, mut reads, mut read_bytes) = (0, 0, 0, 0);
    for round in 0..13 {
        let first = posted;
        for step in 0..16 {
            let request = posted;
            posted += 1;
            let length = [8, 700, 40_000][(round + step) % 3];
            let post = message(request, length);
            let post = match step % 4 {
                0 => {
                    far.receive(sends, 64 * 1024, 300_000);
                    sends += 1;
                    near.set_words(8 * 1024, &[request]);
                    post
                }
                1 => {
                    writes += 1;
                    write_bytes += length;
                    Post {
                        opcode: u64::from(SendOpcode::RdmaWrite.number()),
                        remote: peer.address + 512 * 1024,
                        key: peer.key,
                        ..post
                    }
                }
                2 => {
                    reads += 1;
                    read_bytes += length;
                    Post {
                        opcode: u64::from(SendOpcode::RdmaRead.number()),
                        remote: peer.address + 512 * 1024,
                        at: 256 * 1024,
                        key: peer.key,
                        ..post
                    }
                }
                _ => {
                    adds += 1;
                    Post {
                        opcode: u64::from(SendOpcode::AtomicFetchAndAdd.number()),
                        remote: sum,
                        length: 8,
                        at: 128,
                        key: peer.key,
                        add: 1,
                        ..post
                    }
                }
            };
            near.send(post);
        }
        for request in first..posted {
            let done = near.sent();
            assert_eq!((done.request, done.status), (request, SUCCESS));
        }
    }
    for expected in 0..sends {
        let done = far.received();
        assert_eq!((done.request, done.status), (expected, SUCCESS));
    }
    far.nothing_received();
    assert_eq!(far.words(64, 1), [adds], "each atomic was carried out once");
    far.done("destroy", &[4]);
    assert_eq!(
        far.done("counters", &[]),
        [writes, write_bytes, reads, read_bytes, adds],
        "what a peer did is counted, each once"
    );
    let near = counted(&mut near);
    assert_eq!(near.lost, near.retries);
    assert_eq!(counted(&mut far).lost, 0);
    near.lost
}

fn a_reliable_connection_hides_loss() {
    assert_eq!(exchange("loss=0"), 0);
    assert!(exchange("loss=0.1,seed=7") > 5);
}

fn loss_strikes_the_same_again() {
    let lost = exchange("loss=0.2,seed=1");
    assert_eq!(exchange("loss=0.2,seed=1"), lost);
    let others: Vec<u64> = [2, 3, 4]
        .map(|seed| exchange(&format!("loss=0.2,seed={seed}")))
        .to_vec();
    assert!(others.iter().any(|other| *other != lost), "{others:?}");
}

fn a_request_that_is_always_lost_fails() {
    let (mut near, mut far) = (with("loss=1"), with(""));
    let patience = Patience {
        timeout: 8,
        retries: 3,
        ..PATIENT
    };
    connect(&mut near, &mut far, QueuePairType::Rc, patience);
    far.receive(0, 0, 1024);
    near.send(message(1, 8));
    near.send(message(2, 8));
    let [first, second] = [(); 2].map(|()| near.sent());
    let exceeded = CompletionStatus::RetryExceededError as u64;
    let flushed = CompletionStatus::FlushError as u64;
    assert_eq!((first.request, first.status), (1, exceeded));
    assert_eq!((second.request, second.status), (2, flushed));
    assert_eq!(near.state(), u64::from(QueuePairState::Error.number()));
    far.nothing_received();
    let counted = counted(&mut near);
    assert_eq!(counted.retries, 3);
    assert!(counted.lost >= 4);
}

fn what_is_lost_unreliably_is_not_received() {
    for kind in [QueuePairType::Uc, QueuePairType::Ud] {
        let received: Vec<Vec<u64>> = (0..2).map(|_| unreliable(kind)).collect();
        assert_eq!(received[0], received[1], "the same are lost again");
        assert!((20..60).contains(&received[0].len()), "{received:?}");
    }
}

/// Sends sixty messages of which a quarter is lost, and tells which came.
fn unreliable(kind: QueuePairType) -> Vec<u64> {
    let (mut near, mut far) = (with("loss=0.25,seed=5"), with(""));
    let peer = connect(&mut near, &mut far, kind, PATIENT);
    let head = if kind == QueuePairType::Ud { 40 } else { 0 };
    for request in 0..60 {
        far.receive(request, 4096 * request, 1024);
    }
    for request in 0..60 {
        near.set_words(8 * 1024, &[request]);
        near.send(Post {
            to: if head > 0 { peer.number } else { 0 },
            ..message(request, 8)
        });
        let done = near.sent();
        assert_eq!((done.request, done.status), (request, SUCCESS));
    }
    let lost = counted(&mut near).lost;
    let mut came = Vec::new();
    for request in 0..60 - lost {
        let done = far.received();
        assert_eq!((done.request, done.status), (request, SUCCESS));
        came.extend(far.words(4096 * request + head, 1));
    }
    far.nothing_received();
    assert!(came.is_sorted());
    assert_eq!(counted(&mut near).retries, 0);
    came
}

fn a_receiver_that_is_not_ready_is_asked_again() {
    let refusals: Vec<u64> = (0..2)
        .map(|_| {
            let (mut near, mut far) = (with(""), with("rnr=0.3,seed=3"));
            connect(&mut near, &mut far, QueuePairType::Rc, PATIENT);
            for request in 0..60 {
                far.receive(request, 4096 * request, 1024);
            }
            for request in 0..60 {
                near.send(message(request, 64));
            }
            for request in 0..60 {
                let done = near.sent();
                assert_eq!((done.request, done.status), (request, SUCCESS));
                let done = far.received();
                assert_eq!((done.request, done.status), (request, SUCCESS));
            }
            let refused = counted(&mut far).not_ready;
            assert_eq!(counted(&mut near).not_ready_retries, refused);
            refused
        })
        .collect();
    assert_eq!(refusals[0], refusals[1]);
    assert!(refusals[0] > 5, "{refusals:?}");
}

fn a_receiver_that_is_never_ready_is_given_up() {
    let (mut near, mut far) = (with(""), with("rnr=1"));
    let patience = Patience {
        not_ready_retries: 2,
        ..PATIENT
    };
    connect(&mut near, &mut far, QueuePairType::Rc, patience);
    far.receive(0, 0, 1024);
    near.send(message(1, 8));
    let exceeded = CompletionStatus::ReceiverNotReadyRetryExceededError as u64;
    assert_eq!(near.sent().status, exceeded);
    far.nothing_received();
    assert_eq!(counted(&mut far).not_ready, 3);
}

fn a_queue_pair_breaks_and_another_works() {
    let (mut near, mut far) = (with("qp-error=after:5"), with(""));
    connect(&mut near, &mut far, QueuePairType::Rc, PATIENT);
    for request in 0..10 {
        far.receive(request, 0, 1024);
    }
    near.receive(70, 0, 1024);
    for request in 0..8 {
        near.send(message(request, 8));
    }
    let flushed = CompletionStatus::FlushError as u64;
    let mut succeeded = 0;
    for request in 0..8 {
        let done = near.sent();
        assert_eq!(done.request, request);
        succeeded += u64::from(done.status == SUCCESS);
        assert!([SUCCESS, flushed].contains(&done.status), "{done:?}");
        assert!(request < 5 || done.status == flushed, "{done:?}");
    }
    let done = near.received();
    assert_eq!((done.request, done.status), (70, flushed));
    assert_eq!(near.event(), (AsyncEventType::QueuePairFatal as u64, 100));
    assert_eq!(near.state(), u64::from(QueuePairState::Error.number()));
    assert_eq!(counted(&mut near).broken, 1);
    // What was under way may have come.
    for _ in 0..succeeded {
        assert_eq!(far.received().status, SUCCESS);
    }
    connect_pair(&mut near, &mut far, QueuePairType::Rc, PATIENT, [1, 1]);
    for request in 0..8 {
        far.done("receive", &[1, 20 + request, 0, 1024]);
        let post = message(request, 8);
        near.send(Post { pair: 1, ..post });
        assert_eq!(near.sent().status, SUCCESS);
    }
    assert_eq!(counted(&mut near).broken, 1);
}

fn slow_requests_take_their_time() {
    let (mut near, mut far) = (with("slow=4ms"), with(""));
    let peer = connect(&mut near, &mut far, QueuePairType::Rc, PATIENT);
    far.receive(0, 0, 1024);
    let start = Instant::now();
    near.send(message(0, 8));
    for request in 1..5 {
        near.send(Post {
            opcode: u64::from(SendOpcode::RdmaWrite.number()),
            remote: peer.address,
            key: peer.key,
            ..message(request, 8)
        });
    }
    for request in 0..5 {
        let done = near.sent();
        assert_eq!((done.request, done.status), (request, SUCCESS));
    }
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert_eq!(counted(&mut near).delayed, 5);
}

const DOWN: [u64; 2] = [PortState::Down as u64, 3];
const ACTIVE: [u64; 2] = [PortState::Active as u64, 5];

fn nothing_passes_a_port_that_is_down() {
    for [one, two] in [["port-down=0s..1000s", ""], ["", "port-down=0s..1000s"]] {
        let (mut near, mut far) = (with(one), with(two));
        let patience = Patience {
            timeout: 8,
            retries: 1,
            ..PATIENT
        };
        let peer = connect(&mut near, &mut far, QueuePairType::Rc, patience);
        let ports = [near.done("port", &[]), far.done("port", &[])];
        let expected = [one, two].map(|faults| if faults.is_empty() { ACTIVE } else { DOWN });
        assert_eq!(ports, expected);
        let before = far.words(0, 1);
        near.set_words(8 * 1024, &[77]);
        near.send(Post {
            opcode: u64::from(SendOpcode::RdmaWrite.number()),
            remote: peer.address,
            key: peer.key,
            ..message(1, 8)
        });
        let exceeded = CompletionStatus::RetryExceededError as u64;
        assert_eq!(near.sent().status, exceeded);
        assert_eq!(far.words(0, 1), before);
    }
}

fn a_port_goes_down_and_comes_up() {
    let (mut near, mut far) = (with("port-down=300ms..500ms"), with(""));
    let patience = Patience {
        timeout: 15,
        ..PATIENT
    };
    connect(&mut near, &mut far, QueuePairType::Rc, patience);
    far.receive(0, 0, 1024);
    far.receive(1, 0, 1024);
    near.send(message(0, 8));
    assert_eq!(near.sent().status, SUCCESS);
    assert_eq!(near.event().0, AsyncEventType::PortError as u64);
    // This one may come before the end, or after it.
    near.send(message(1, 8));
    assert_eq!(near.event().0, AsyncEventType::PortActive as u64);
    assert_eq!(near.done("port", &[]), ACTIVE);
    assert_eq!(near.sent().status, SUCCESS);
    assert_eq!(far.received().request, 0);
    assert_eq!(far.received().request, 1);
    assert_eq!(counted(&mut near).port_downs, 1);
}

fn datagrams_to_a_port_that_is_down_are_lost() {
    let (mut near, mut far) = (with(""), with("port-down=0s..1000s"));
    let peer = connect(&mut near, &mut far, QueuePairType::Ud, PATIENT);
    far.receive(0, 0, 1024);
    near.send(Post {
        to: peer.number,
        ..message(1, 8)
    });
    assert_eq!(near.sent().status, SUCCESS);
    far.nothing_received();
    assert_eq!(counted(&mut far).lost, 1);
}

fn a_fault_that_is_no_fault_is_ignored() {
    assert_eq!(exchange("lose=1"), 0);
}

/// One that waits for a peer that has sent something, and is killed then.
fn bereaved(variables: &[(&str, &str)]) -> Remote {
    let (mut near, mut far) = (Remote::start_with(variables), Remote::start());
    let hurry = Patience {
        retries: 0,
        ..PATIENT
    };
    connect(&mut near, &mut far, QueuePairType::Rc, hurry);
    for request in 0..2 {
        near.receive(request, 0, 64);
    }
    far.send(message(0, 8));
    assert_eq!(far.sent().status, SUCCESS);
    assert_eq!(near.received().status, SUCCESS);
    near
}

fn a_side_that_only_waits_hears_of_a_dead_peer_if_asked() {
    let flushed = CompletionStatus::FlushError as u64;
    let mut near = bereaved(&[("VIADUCT_RDMA_REPORT_DEAD_PEERS", "1")]);
    let done = near.received();
    assert_eq!((done.request, done.status), (1, flushed));
    assert_eq!(near.state(), u64::from(QueuePairState::Error.number()));
    // On hardware it hears nothing, until it sends something and nobody acknowledges it.
    let mut near = bereaved(&[]);
    near.nothing_received();
    near.send(message(7, 8));
    let exceeded = CompletionStatus::RetryExceededError as u64;
    assert_eq!(near.sent().status, exceeded);
    assert_eq!(near.received().status, flushed);
}

/// What `--report-dead-peers` does not touch: other peers' queue pairs, unreliable ones, those with
/// sends, and those that do not hear any more.
fn only_who_waits_for_a_dead_peer_hears_of_it() {
    let mut near = Remote::start_with(&[("VIADUCT_RDMA_REPORT_DEAD_PEERS", "1")]);
    let (mut dying, mut living) = (Remote::start(), Remote::start());
    let hurry = Patience {
        retries: 0,
        ..PATIENT
    };
    let (waiting, unreliable, of_living, sending, broken) = (0, 1, 2, 3, 4);
    connect_pair(
        &mut near,
        &mut dying,
        QueuePairType::Rc,
        hurry,
        [waiting, 0],
    );
    connect_pair(
        &mut near,
        &mut dying,
        QueuePairType::Uc,
        hurry,
        [unreliable, 1],
    );
    connect_pair(
        &mut near,
        &mut living,
        QueuePairType::Rc,
        hurry,
        [of_living, 0],
    );
    connect_pair(
        &mut near,
        &mut dying,
        QueuePairType::Rc,
        hurry,
        [sending, 2],
    );
    near.done("shared", &[4]);
    connect_pair(&mut near, &mut dying, QueuePairType::Rc, hurry, [broken, 3]);
    let error = u64::from(QueuePairState::Error.number());
    near.done("modify", &[broken, error, u64::from(attribute::STATE)]);
    let last_reached = AsyncEventType::LastRequestReached as u64;
    assert_eq!(near.event(), (last_reached, 100 + broken));
    // Each has heard of near, and near of each.
    for (peer, pair) in [(&mut dying, waiting), (&mut living, of_living)] {
        for request in 0..2 {
            near.done("receive", &[pair, 10 * pair + request, 0, 64]);
        }
        peer.send(message(0, 8));
        assert_eq!(peer.sent().status, SUCCESS);
        assert_eq!(near.received().status, SUCCESS);
    }
    near.done("receive", &[unreliable, 70, 0, 64]);
    // It finds no receive, and is tried again for ever.
    near.send(Post {
        pair: sending,
        ..message(7, 8)
    });
    near.nothing_sent();
    drop(dying);
    let flushed = CompletionStatus::FlushError as u64;
    let done = near.received();
    assert_eq!((done.request, done.status), (10 * waiting + 1, flushed));
    let done = near.sent();
    let exceeded = CompletionStatus::RetryExceededError as u64;
    assert_eq!((done.request, done.status), (7, exceeded));
    near.nothing_received();
    let ready = u64::from(QueuePairState::ReadyToSend.number());
    let states = [waiting, unreliable, of_living, sending, broken];
    let states = states.map(|pair| near.done("state", &[pair])[0]);
    assert_eq!(states, [error, ready, ready, error, error]);
    assert_eq!(near.done("event", &[0]), [0_u64; 0], "nothing else is told");
    living.send(message(1, 8));
    let done = near.received();
    assert_eq!((done.request, done.status), (10 * of_living + 1, SUCCESS));
}
