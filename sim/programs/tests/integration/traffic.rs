//! Programs beside generators of traffic on the same links.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::background::Background;
use viaduct_cluster::workload::{Interval, SizeDistribution};
use viaduct_engine::Time;
use viaduct_hardware::Rate;
use viaduct_network::Sharing;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Outcome, Process, Simulation, SimulationError};
use viaduct_provider::{Memory, Nic, ReturnCode};
use viaduct_scenario::load_programs;

const BYTES: usize = 32_000;

/// Transfers of 8 KiB from host 0, half the link's time.
fn others(target: Option<u32>) -> Background {
    Background {
        source: 0,
        target,
        interval: Interval::exponential(131e6).unwrap(),
        size: SizeDistribution::constant(8192),
        from: Time::ZERO,
        until: None,
    }
}

fn serve(process: &Process) {
    let nic = Nic::open(process.fabric(), "sim0").unwrap();
    let mut vi = nic.vi().build().unwrap();
    vi.post_receive(nic.buffer(BYTES, Memory::Private).unwrap())
        .unwrap();
    nic.listen(b"here").accept(&mut vi, None).unwrap();
    for _ in 0..50 {
        let received = vi.receive(None).unwrap();
        vi.post_receive(received.buffer).unwrap();
    }
}

fn send(process: &Process) {
    let nic = Nic::open(process.fabric(), "sim0").unwrap();
    let mut vi = nic.vi().build().unwrap();
    let server = nic.resolve("host1", b"here").unwrap();
    while let Err(error) = vi.connect(&server, None) {
        assert_eq!(error.code(), ReturnCode::NoMatch);
        process.sleep(Duration::from_micros(50));
    }
    let mut buffer = nic.buffer(BYTES, Memory::Private).unwrap();
    for _ in 0..50 {
        vi.post_send(buffer, BYTES).unwrap();
        buffer = vi.sent(None).unwrap().buffer;
        process.sleep(Duration::from_micros(500));
    }
}

/// A simulation that stops after some 400,000 events, a hundred times what a run here takes:
/// generators go on for ever, and so would a run that does not notice its end.
fn bounded(config: SimulationConfig) -> Simulation {
    const LOOKS_MAX: u32 = 100;

    let mut simulation = Simulation::new(config);
    let looks = Cell::new(0);
    simulation.stop_when(move || looks.replace(looks.get() + 1) >= LOOKS_MAX);
    simulation
}

/// 50 messages from host 0 to host 1, and how long they took together.
fn run(traffic: Vec<Background>, seed: u64) -> (Outcome, Duration) {
    let mut config = load_programs("giganet-clan-linux", None, 3).unwrap();
    (config.background, config.seed) = (traffic, seed);
    run_in(config)
}

fn run_in(config: SimulationConfig) -> (Outcome, Duration) {
    let mut simulation = bounded(config);
    let took = Arc::new(Mutex::new(Duration::ZERO));
    let end = Arc::clone(&took);
    simulation.spawn(1, move |process| {
        serve(&process);
        *end.lock().unwrap() = process.now();
    });
    simulation.spawn(0, |process| send(&process));
    let outcome = simulation.run().unwrap();
    let took = *took.lock().unwrap();
    (outcome, took)
}

#[test]
fn others_on_the_link_slow_a_program() {
    let (free, alone) = run(Vec::new(), 1);
    let (shared, beside) = run(vec![others(Some(1))], 1);
    assert_eq!((free.counts.transfers, free.counts.messages), (0, 50));
    assert_eq!(shared.counts.messages, 50);
    assert!(shared.counts.transfers > 100, "{shared:?}");
    // A message alone takes some 300 us of its 800; half the link's time is another's.
    assert!(beside > alone.mul_f64(1.05), "{alone:?} {beside:?}");
}

#[test]
fn a_program_in_a_crowd_is_not_taken_for_stuck() {
    // Five times what the link to host 1 can carry, which alone holds them back: hundreds of
    // transfers share it, and one event.
    let from = |source| Background {
        source,
        interval: Interval::exponential(26e6).unwrap(),
        until: Some(Time::from_milliseconds(5)),
        ..others(Some(1))
    };
    let mut config = load_programs("giganet-clan-linux", None, 3).unwrap();
    config.background = vec![from(0), from(2)];
    config.host.common_mut().bus.rate = Rate::INFINITE;
    for sharing in [Sharing::MaxMin, Sharing::Queues] {
        config.links.sharing = sharing;
        let (outcome, _) = run_in(config.clone());
        assert_eq!(outcome.counts.messages, 50, "{sharing:?}");
        assert!(outcome.counts.transfers > 300, "{sharing:?}: {outcome:?}");
    }
}

#[test]
fn equal_seeds_give_equal_runs_and_others_others() {
    let third = Background {
        source: 2,
        ..others(Some(1))
    };
    let any = || vec![others(None), third.clone()];
    assert_eq!(run(any(), 7), run(any(), 7));
    assert_ne!(run(any(), 7).0.end, run(any(), 8).0.end);
}

#[test]
fn traffic_keeps_to_its_time() {
    let mut early = others(Some(1));
    early.until = Some(Time::from_microseconds(1000));
    let (outcome, _) = run(vec![early], 1);
    assert!((1..30).contains(&outcome.counts.transfers), "{outcome:?}");
}

#[test]
fn programs_that_wait_for_ever_are_stuck_though_others_send() {
    let mut config = load_programs("clan", None, 2).unwrap();
    config.background = vec![others(Some(1))];
    let mut simulation = bounded(config);
    simulation.spawn(1, |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let _ = nic.listen(b"nobody comes").request(None);
    });
    let ended = simulation.run();
    assert!(
        matches!(&ended, Err(SimulationError::Stuck { hosts, .. }) if *hosts == [1]),
        "{ended:?}"
    );
}

#[test]
fn a_generator_that_cannot_be_is_told() {
    let mut config = load_programs("clan", None, 2).unwrap();
    for (traffic, wanted) in [
        (others(Some(0)), "background 0: host 0 sends to itself"),
        (others(Some(2)), "background 0: no host 2: hosts are 0 to 1"),
    ] {
        config.background = vec![traffic];
        let error = config.check_background().unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
}
