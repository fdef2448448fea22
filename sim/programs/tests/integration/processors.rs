//! Programs on hosts of several processors: who has which, and what costs time on which.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::adapters::Adapters;
use viaduct_engine::Time;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Process, SimulatedFabric, Simulation};
use viaduct_provider::{Memory, Nic, Received};
use viaduct_scenario::load_programs;

const MODELS: [&str; 7] = [
    "giganet-clan",
    "giganet-clan-linux",
    "clan-pio",
    "clan-dma",
    "m-via",
    "bvia-myrinet",
    "rnic-gen4",
];

/// Two hosts of a preset with two adapters each, and so many processors.
fn hosts(model: &str, processors: Option<u32>) -> SimulationConfig {
    SimulationConfig {
        adapters: Adapters {
            count: 2,
            has_own_bus: true,
            ..Adapters::ONE
        },
        processors,
        ..load_programs(model, None, 4).unwrap()
    }
}

type Times = Arc<Mutex<Vec<Time>>>;
type Vi = viaduct_provider::Vi<SimulatedFabric>;

const ROUNDS: usize = 20;
/// When the rounds of all begin.
const BEGIN: Time = Time::from_picoseconds(50_000_000_000);

fn receive(vi: &mut Vi, polls: bool) -> Received {
    if !polls {
        return vi.receive(None).unwrap();
    }
    loop {
        if let Some(received) = vi.try_receive().unwrap() {
            return received;
        }
    }
}

/// One of two programs that send each other a message in turn, by one of their adapters: when each
/// round was over, if it is who begins.
fn bounce(process: &Process, adapter: u32, (bytes, polls): (usize, bool), times: Option<&Times>) {
    let at = process.at_adapter(adapter).unwrap();
    let nic = Nic::open(at.fabric(), &format!("sim{adapter}")).unwrap();
    let mut vi = nic.vi().receive_depth(64).send_depth(64).build().unwrap();
    let mut buffers = nic
        .buffers(2 * ROUNDS, bytes.max(1), Memory::Private)
        .unwrap();
    for _ in 0..ROUNDS {
        vi.post_receive(buffers.pop().unwrap()).unwrap();
    }
    let service = [adapter as u8];
    match times {
        None => nic
            .listen(&service)
            .accept(&mut vi, None)
            .map(drop)
            .unwrap(),
        Some(_) => {
            let address = nic.resolve_at("host0", adapter, &service).unwrap();
            while vi.connect(&address, None).is_err() {
                process.sleep(Duration::from_micros(100));
            }
        }
    }
    process.sleep_until(BEGIN);
    for buffer in buffers {
        match times {
            Some(times) => {
                vi.post_send(buffer, bytes).unwrap();
                receive(&mut vi, polls);
                times.lock().unwrap().push(process.time());
            }
            None => {
                receive(&mut vi, polls);
                vi.post_send(buffer, bytes).unwrap();
            }
        }
    }
    process.sleep(Duration::from_millis(5));
}

/// The rounds of pairs of programs, each by an adapter of its own.
fn rounds(config: SimulationConfig, pairs: u32, how: (usize, bool)) -> Vec<Vec<Time>> {
    let mut simulation = Simulation::new(config);
    let mut all = Vec::new();
    for adapter in 0..pairs {
        let times = Times::default();
        let noted = Arc::clone(&times);
        simulation.spawn(0, move |process| bounce(&process, adapter, how, None));
        simulation.spawn(1, move |process| {
            bounce(&process, adapter, how, Some(&noted))
        });
        all.push(times);
    }
    simulation.run().unwrap();
    all.iter()
        .map(|times| times.lock().unwrap().clone())
        .collect()
}

#[test]
fn the_only_program_of_a_host_takes_as_long_on_one_processor_of_several() {
    for model in MODELS {
        for how in [(4, true), (4, false), (20_000, true), (20_000, false)] {
            let one = rounds(hosts(model, None), 1, how);
            assert_eq!(one[0].len(), ROUNDS);
            for processors in 1..=3 {
                let several = rounds(hosts(model, Some(processors)), 1, how);
                assert_eq!(several, one, "{model}, {how:?}, {processors} processors");
            }
        }
    }
}

#[test]
fn two_programs_on_two_processors_do_not_hold_each_other_up() {
    for model in MODELS {
        for how in [(4, true), (4, false), (20_000, true), (20_000, false)] {
            let alone = rounds(hosts(model, None), 1, how);
            let two = rounds(hosts(model, Some(2)), 2, how);
            let shared = rounds(hosts(model, Some(1)), 2, how);
            assert_eq!(
                shared,
                rounds(hosts(model, None), 2, how),
                "{model}, {how:?}"
            );
            let is_held_up = shared.iter().any(|times| *times != alone[0]);
            assert!(is_held_up, "{model}, {how:?}");
            // What one takes from its peer does not come later for what the other one does.
            assert_eq!(
                two,
                [alone[0].clone(), alone[0].clone()],
                "{model}, {how:?}"
            );
        }
    }
}

#[test]
fn programs_take_processors_in_turn_and_stay_there() {
    // When each of three programs of a host was done, which compute 100 us each.
    let ends = |processors, is_asynchronous: bool| {
        let mut simulation = Simulation::new(hosts("rnic-gen4", processors));
        let ends = Times::default();
        for _ in 0..3 {
            let ends = Arc::clone(&ends);
            let work = Duration::from_micros(50);
            if is_asynchronous {
                simulation.spawn_async(0, move |process| async move {
                    for _ in 0..2 {
                        process.compute(work);
                        process.sleep_async(Duration::ZERO).await;
                    }
                    ends.lock().unwrap().push(process.time());
                });
            } else {
                simulation.spawn(0, move |process| {
                    process.compute(work);
                    process.compute(work);
                    ends.lock().unwrap().push(process.time());
                });
            }
        }
        simulation.run().unwrap();
        let mut ends: Vec<u64> = ends
            .lock()
            .unwrap()
            .iter()
            .map(|it| it.picoseconds())
            .collect();
        ends.sort_unstable();
        ends.iter().map(|end| end / 1_000_000).collect::<Vec<_>>()
    };
    for is_asynchronous in [false, true] {
        assert_eq!(ends(Some(3), is_asynchronous), [100, 100, 100]);
        // The third shares the processor of the first.
        assert_eq!(ends(Some(2), is_asynchronous)[0], 100);
        assert_eq!(ends(Some(2), is_asynchronous)[2], 200);
        assert_eq!(ends(Some(1), is_asynchronous)[2], 300);
        assert_eq!(ends(None, is_asynchronous), ends(Some(1), is_asynchronous));
    }
}
