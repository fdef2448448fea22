//! Programs that wait without a stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use viaduct_programs::{Outcome, Process, SimulatedFabric, Simulation};
use viaduct_provider::{Memory, Nic, Vi};
use viaduct_scenario::load_programs;

const MESSAGES: u32 = 20;

/// Sends the messages, each after a pause, to host 1.
fn send_all(process: &Process) {
    let nic = Nic::open(process.fabric(), "sim0").unwrap();
    let mut vi = nic.vi().build().unwrap();
    process.sleep(Duration::from_millis(1));
    let address = nic.resolve("host1", b"waiting").unwrap();
    vi.connect(&address, None).unwrap();
    let mut buffer = nic.buffer(64, Memory::Private).unwrap();
    for number in 0..MESSAGES {
        process.sleep(Duration::from_micros(100));
        buffer[0] = number as u8;
        let now_ns = process.now().as_nanos() as u64;
        buffer[8..16].copy_from_slice(&now_ns.to_le_bytes());
        vi.post_send(buffer, 16).unwrap();
        buffer = vi.sent(None).unwrap().buffer;
    }
    process.sleep(Duration::from_millis(1));
}

/// A connected VI with a receive for each message.
fn accept(nic: &Nic<SimulatedFabric>, mut vi: Vi<SimulatedFabric>) -> Vi<SimulatedFabric> {
    for buffer in nic.buffers(MESSAGES as usize, 64, Memory::Private).unwrap() {
        vi.post_receive(buffer).unwrap();
    }
    nic.listen(b"waiting").accept(&mut vi, None).unwrap();
    vi
}

/// The next message is there, and was not left waiting.
fn check(process: &Process, buffer: &[u8], number: u32) {
    assert_eq!(buffer[0], number as u8);
    let sent_ns = u64::from_le_bytes(*buffer[8..].first_chunk().unwrap());
    let took = process.now() - Duration::from_nanos(sent_ns);
    assert!(took < Duration::from_micros(40), "{took:?}");
}

#[test]
fn a_future_is_woken_by_each_message() {
    let outcome = run_async(false);
    // An interrupt a message: the program was asleep each time.
    assert!(
        outcome.counts.wake_ups >= u64::from(MESSAGES),
        "{outcome:?}"
    );
}

#[test]
fn a_future_is_woken_by_each_entry_of_a_completion_queue() {
    let outcome = run_async(true);
    assert!(
        outcome.counts.wake_ups >= u64::from(MESSAGES),
        "{outcome:?}"
    );
}

fn run_async(has_queue: bool) -> Outcome {
    let mut simulation = Simulation::new(load_programs("clan", None, 2).unwrap());
    let taken = Arc::new(AtomicU32::new(0));
    simulation.spawn(0, |process| send_all(&process));
    let counter = Arc::clone(&taken);
    simulation.spawn(1, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let depth = nic.vi().receive_depth(MESSAGES);
        if has_queue {
            let mut queue = nic.completion_queue(64).unwrap();
            let vi = depth.receive_completions(&queue).build().unwrap();
            let mut vi = accept(&nic, vi);
            process.spawn_async(move |process| async move {
                for number in 0..MESSAGES {
                    queue.next_async().await.unwrap();
                    let received = vi.try_receive().unwrap().unwrap();
                    check(&process, &received.buffer, number);
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        } else {
            let mut vi = accept(&nic, depth.build().unwrap());
            process.spawn_async(move |process| async move {
                for number in 0..MESSAGES {
                    let received = vi.receive_async().await.unwrap();
                    check(&process, &received.buffer, number);
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let outcome = simulation.run().unwrap();
    assert_eq!(taken.load(Ordering::Relaxed), MESSAGES);
    outcome
}
