//! Figures of clients that do what programs of perftest do, beside those of programs that run in
//! the simulation: the model is the same, and what carries it out is not.

use std::sync::{Arc, Mutex};

use viaduct_calls::SendRequest;
use viaduct_programs::Simulation;
use viaduct_programs::verbs::flags::send;
use viaduct_programs::verbs::measure::{Operation, bandwidth, latency};
use viaduct_programs::verbs::{QueuePairType, SendOpcode};

use crate::calls::{End, Socket, done, simulation};
use crate::turns::{now, run};

pub(crate) type Noted = Arc<Mutex<Vec<u64>>>;

const ROUNDS: u64 = 20;

/// The loop of `ib_send_lat`: half a round trip each, in picoseconds, without the first.
fn send_latencies(bytes: usize) -> Vec<u64> {
    send_latencies_by(0, simulation(2), bytes)
}

/// The same by one of the hosts' adapters.
pub(crate) fn send_latencies_by(adapter: usize, simulation: Simulation, bytes: usize) -> Vec<u64> {
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
    run(simulation, programs);
    let times = times.lock().unwrap();
    let spans = times.windows(2).map(|it| (it[1] - it[0]) / 2);
    spans.skip(1).collect()
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
    let times = Noted::default();
    let stream = send_stream(0, bytes, rounds, &times);
    run(simulation(2), stream.into());
    let times = times.lock().unwrap();
    times[0]
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
