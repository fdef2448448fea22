//! Waits that are given up: a program that armed an asynchronous one and then waits as a blocking
//! one does, and a run that is stopped.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use viaduct_programs::{Process, SimulatedFabric, Simulation, SimulationError};
use viaduct_provider::via::Queue;
use viaduct_provider::{CompletionError, Memory, Nic, ReturnCode, Vi};
use viaduct_scenario::load_programs;

const BYTES: usize = 64;

/// Looks once, and leaves a handler with the fabric.
fn arm(future: impl Future) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(future).as_mut().poll(&mut context).is_pending());
}

fn accept(nic: &Nic<SimulatedFabric>, vi: &mut Vi<SimulatedFabric>) {
    let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
    vi.post_receive(buffer).unwrap();
    nic.listen(b"here").accept(vi, None).unwrap();
}

/// Sends after a millisecond.
fn send_late(process: &Process) {
    let nic = Nic::open(process.fabric(), "sim0").unwrap();
    let mut vi = nic.vi().build().unwrap();
    let server = nic.resolve("host1", b"here").unwrap();
    while let Err(error) = vi.connect(&server, None) {
        assert_eq!(error.code(), ReturnCode::NoMatch);
        process.sleep(Duration::from_micros(50));
    }
    process.sleep(Duration::from_millis(1));
    vi.post_send(nic.buffer(BYTES, Memory::Private).unwrap(), 5)
        .unwrap();
    vi.sent(None).unwrap();
    process.sleep(Duration::from_millis(1));
}

/// What the program on host 1 finds, the other sending to it.
fn found<T: Send + 'static>(program: impl FnOnce(&Process) -> T + Send + 'static) -> T {
    let mut simulation = Simulation::new(load_programs("clan", None, 2).unwrap());
    let found = Arc::new(Mutex::new(None));
    let told = Arc::clone(&found);
    simulation.spawn(1, move |process| {
        *told.lock().unwrap() = Some(program(&process))
    });
    simulation.spawn(0, |process| send_late(&process));
    simulation.run().unwrap();
    found.lock().unwrap().take().unwrap()
}

#[test]
fn a_receive_that_was_awaited_can_be_waited_for() {
    let (early, length) = found(|process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().build().unwrap();
        accept(&nic, &mut vi);
        arm(vi.receive_async());
        let before = process.now();
        let early = vi.receive(Some(Duration::from_micros(100)));
        let waited = process.now() - before;
        assert!(waited >= Duration::from_micros(100), "{waited:?}");
        assert!(waited < Duration::from_micros(200), "{waited:?}");
        let timeout = matches!(early, Err(CompletionError::Fabric(error))
            if error.code() == ReturnCode::Timeout);
        (timeout, vi.receive(None).unwrap().length)
    });
    assert_eq!((early, length), (true, 5));
}

#[test]
fn an_entry_that_was_awaited_can_be_waited_for() {
    let (queue, length) = found(|process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut entries = nic.completion_queue(4).unwrap();
        let mut vi = nic.vi().receive_completions(&entries).build().unwrap();
        accept(&nic, &mut vi);
        arm(entries.next_async());
        let entry = entries.wait(None).unwrap();
        (entry.queue, vi.try_receive().unwrap().unwrap().length)
    });
    assert_eq!((queue, length), (Queue::Receive, 5));
}

#[test]
fn a_program_that_looks_in_a_loop_for_what_nobody_sends_is_stopped() {
    let mut simulation = Simulation::new(load_programs("clan", None, 2).unwrap());
    simulation.spawn(0, |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().build().unwrap();
        // Nobody is ever connected with it. Without an end of its own the test would hang.
        let end = process.now() + Duration::from_secs(60);
        while process.now() < end {
            let _ = vi.try_receive();
            process.sleep(Duration::from_micros(1));
        }
    });
    let looks = Cell::new(0);
    simulation.stop_when(move || looks.replace(looks.get() + 1) >= 1);
    let ended = simulation.run();
    assert!(
        matches!(ended, Err(SimulationError::Stopped { .. })),
        "{ended:?}"
    );
}
