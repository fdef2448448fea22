//! Figures of clients that do what programs of perftest do, beside those of programs that run in
//! the simulation: the model is the same, and what carries it out is not.

use std::sync::{Arc, Mutex};

use viaduct_calls::SendRequest;
use viaduct_programs::Simulation;
use viaduct_programs::verbs::flags::send;
use viaduct_programs::verbs::measure::{Operation, bandwidth, latency};
use viaduct_programs::verbs::{Completion, QueuePairType, SendOpcode};

use crate::calls::{End, Socket, done, simulation};
use crate::turns::{Ran, compute, now, run, run_without_credit};

pub(crate) type Noted = Arc<Mutex<Vec<u64>>>;

const ROUNDS: u64 = 20;

/// The loop of `ib_send_lat`: half a round trip each, in picoseconds, without the first.
fn send_latencies(bytes: usize) -> Vec<u64> {
    send_latencies_by(0, simulation(2), bytes)
}

/// The same by one of the hosts' adapters.
pub(crate) fn send_latencies_by(adapter: usize, simulation: Simulation, bytes: usize) -> Vec<u64> {
    send_latencies_in(run, adapter, simulation, bytes).0
}

/// How programs are run.
type Runs = fn(Simulation, Vec<Box<dyn FnOnce() + Send>>) -> Ran;

fn send_latencies_in(
    runs: Runs,
    adapter: usize,
    simulation: Simulation,
    bytes: usize,
) -> (Vec<u64>, Ran) {
    let times = Noted::default();
    let (near, far) = Socket::pair();
    let program = |socket: Socket<u32>, is_first: bool| {
        let times = Arc::clone(&times);
        move || {
            let end = End::at(adapter, QueuePairType::Rc, bytes.max(1));
            let peer = socket.exchange(end.pair.number(), &end.context.device());
            end.raise(peer);
            end.receive(bytes, bytes);
            socket.exchange(0, &end.context.device());
            for _ in 0..=ROUNDS {
                if !is_first {
                    done(&end.receives);
                    end.receive(bytes, bytes);
                }
                if is_first {
                    times.lock().unwrap().push(now());
                }
                let elements = [end.element(0, bytes)];
                let inline = if bytes <= 236 { send::INLINE } else { 0 };
                let request = SendRequest::new(0, SendOpcode::Send)
                    .with_elements(&elements)
                    .with_flags(send::SIGNALED | inline);
                // SAFETY: the bytes are those of its memory.
                unsafe { end.pair.post_send(&request) }.unwrap();
                done(&end.sends);
                if is_first {
                    done(&end.receives);
                    end.receive(bytes, bytes);
                }
            }
            if is_first {
                times.lock().unwrap().push(now());
            }
        }
    };
    let programs: Vec<Box<dyn FnOnce() + Send>> =
        vec![Box::new(program(near, true)), Box::new(program(far, false))];
    let ran = runs(simulation, programs);
    let times = times.lock().unwrap();
    let spans = times.windows(2).map(|it| (it[1] - it[0]) / 2);
    (spans.skip(1).collect(), ran)
}

#[test]
fn latencies_of_sends_are_those_of_programs_in_the_simulation() {
    for bytes in [2, 64, 4096, 65_536, 1 << 20] {
        let ours = send_latencies(bytes);
        let theirs = latency(&mut simulation(2), Operation::Send, bytes as u32, ROUNDS).unwrap();
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let apart = ours.abs_diff(theirs.picoseconds());
            assert!(apart <= 20_000, "{bytes} bytes: {ours} ps, {theirs:?}");
        }
        assert_eq!(ours, send_latencies(bytes), "{bytes} bytes, again");
    }
}

/// The loop of `ib_send_bw`: from the first post to the last completion, in picoseconds.
fn send_span(bytes: usize, rounds: u64) -> u64 {
    send_span_in(run, bytes, rounds).0
}

fn send_span_in(runs: Runs, bytes: usize, rounds: u64) -> (u64, Ran) {
    let times = Noted::default();
    let stream = send_stream(0, bytes, rounds, &times);
    let ran = runs(simulation(2), stream.into());
    let times = times.lock().unwrap();
    (times[0], ran)
}

/// Who sends so, and who receives, by one of their hosts' adapters.
pub(crate) fn send_stream(
    adapter: usize,
    bytes: usize,
    rounds: u64,
    times: &Noted,
) -> [Box<dyn FnOnce() + Send>; 2] {
    let (near, far) = Socket::pair();
    let noted = Arc::clone(times);
    let sends = move || {
        let end = End::at(adapter, QueuePairType::Rc, bytes);
        let peer = near.exchange(end.pair.number(), &end.context.device());
        end.raise(peer);
        near.exchange(0, &end.context.device());
        let begin = now();
        let (mut posted, mut completed) = (0, 0);
        while completed < rounds {
            while posted < rounds && posted - completed < 128 {
                posted += 1;
                let is_signaled = posted % 100 == 0 || posted == rounds;
                let elements = [end.element(0, bytes)];
                let request = SendRequest::new(0, SendOpcode::Send)
                    .with_elements(&elements)
                    .with_flags(if is_signaled { send::SIGNALED } else { 0 });
                // SAFETY: nothing is inline.
                unsafe { end.pair.post_send(&request) }.unwrap();
            }
            done(&end.sends);
            completed = (completed + 100).min(rounds);
        }
        noted.lock().unwrap().push(now() - begin);
    };
    let receives = move || {
        let end = End::at(adapter, QueuePairType::Rc, bytes);
        let peer = far.exchange(end.pair.number(), &end.context.device());
        end.raise(peer);
        for _ in 0..512 {
            end.receive(bytes, bytes);
        }
        far.exchange(0, &end.context.device());
        for _ in 0..rounds {
            done(&end.receives);
            end.receive(bytes, bytes);
        }
    };
    [Box::new(sends), Box::new(receives)]
}

#[test]
fn the_bandwidth_of_sends_is_that_of_programs_in_the_simulation() {
    for bytes in [64, 4096, 65_536] {
        let ours = send_span(bytes, 500) as f64;
        let theirs = bandwidth(&mut simulation(2), Operation::Send, bytes as u32, 500).unwrap();
        let theirs = theirs.picoseconds() as f64;
        assert!(
            (ours / theirs - 1.0).abs() < 0.01,
            "{bytes} bytes: {ours} ps, {theirs} ps"
        );
    }
}

#[test]
fn a_post_that_nobody_waits_for_takes_what_one_with_an_answer_takes() {
    let digest = |ran: &Ran| ran.simulation.account().digest;
    for bytes in [2, 4096, 65_536] {
        let (on_credit, ran) = send_latencies_in(run, 0, simulation(2), bytes);
        let (answered, other) = send_latencies_in(run_without_credit, 0, simulation(2), bytes);
        assert_eq!(on_credit, answered, "{bytes} bytes");
        assert_eq!(digest(&ran), digest(&other), "{bytes} bytes");
        // Each round each host posts a send and a receive.
        assert!(u64::from(ran.on_credit) >= 4 * ROUNDS && other.on_credit == 0);
        let (on_credit, ran) = send_span_in(run, bytes, 1000);
        let (answered, other) = send_span_in(run_without_credit, bytes, 1000);
        assert_eq!(on_credit, answered, "{bytes} bytes, a stream");
        assert_eq!(digest(&ran), digest(&other), "{bytes} bytes, a stream");
        // Sends find room when those before them have completed, of which one in a hundred tells.
        assert!(ran.on_credit >= 1990, "{}", ran.on_credit);
    }
}

/// Two that send each other a message and look for both completions, in two queues in turn; the
/// second posts some time later than the first, or before it. When each look was over.
fn exchanges_in(runs: Runs, kind: QueuePairType) -> (Vec<u64>, Ran) {
    let times = Noted::default();
    let (near, far) = Socket::pair();
    let program = |socket: Socket<u32>, is_first: bool| {
        let times = Arc::clone(&times);
        move || {
            let end = End::new(kind, 8);
            let peer = socket.exchange(end.pair.number(), &end.context.device());
            end.raise(peer);
            end.receive(0, 8);
            socket.exchange(0, &end.context.device());
            let mut looks = Vec::new();
            for round in 0..150 {
                // Nobody is told of half of the sends.
                let is_signaled = round % 2 == 0;
                if !is_first {
                    compute(round * 11_000);
                }
                let elements = [end.element(0, 8)];
                let request = SendRequest::new(0, SendOpcode::Send)
                    .with_elements(&elements)
                    .with_flags(send::INLINE | if is_signaled { send::SIGNALED } else { 0 });
                // SAFETY: the bytes are those of its memory.
                unsafe { end.pair.post_send(&request) }.unwrap();
                let (mut sent, mut received) = (!is_signaled, false);
                while !sent || !received {
                    let mut found = [Completion::default()];
                    received |= end.receives.poll(&mut found).unwrap() > 0;
                    looks.push(now());
                    sent |= end.sends.poll(&mut found).unwrap() > 0;
                    looks.push(now());
                }
                end.receive(0, 8);
            }
            times.lock().unwrap().extend(looks);
        }
    };
    let programs: Vec<Box<dyn FnOnce() + Send>> =
        vec![Box::new(program(near, true)), Box::new(program(far, false))];
    let ran = runs(simulation(2), programs);
    let mut times = std::mem::take(&mut *times.lock().unwrap());
    times.sort_unstable();
    (times, ran)
}

#[test]
fn a_look_that_is_known_to_be_in_vain_is_as_one_that_is_asked_for() {
    let digest = |ran: &Ran| ran.simulation.account().digest;
    for kind in [QueuePairType::Rc, QueuePairType::Uc] {
        let (spared, ran) = exchanges_in(run, kind);
        let (asked, other) = exchanges_in(run_without_credit, kind);
        assert_eq!(spared, asked, "{kind:?}");
        assert_eq!(digest(&ran), digest(&other), "{kind:?}");
        assert_eq!(other.spared, 0);
        // Of UC a send may complete as soon as it has left.
        let most = if kind == QueuePairType::Rc { 250 } else { 10 };
        assert!(ran.spared >= most, "{kind:?}: {}", ran.spared);
    }
}

#[test]
fn who_posts_between_two_looks_is_in_no_loop_of_looks() {
    let clock = |runs: Runs| {
        let times = Noted::default();
        let noted = Arc::clone(&times);
        let looks = move || {
            let end = End::new(QueuePairType::Rc, 8);
            end.raise(end.pair.number());
            let begin = now();
            for _ in 0..100 {
                assert_eq!(end.receives.poll(&mut [Completion::default()]), Ok(0));
                end.receive(0, 8);
            }
            noted.lock().unwrap().push(now() - begin);
        };
        runs(simulation(2), vec![Box::new(looks)]);
        let times = times.lock().unwrap();
        times[0]
    };
    assert_eq!(clock(run), clock(run_without_credit));
}
