//! What is told of programs' messages: how many there were, what they cost, what links carried,
//! and where the time of one of them went.

use std::time::Duration;

use viaduct_cluster::record::Selection;
use viaduct_cluster::result::RunResult;
use viaduct_cluster::why::{Choice, Explanation, Fate};
use viaduct_engine::Time;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Process, Simulation, explain};
use viaduct_provider::{Memory, Nic, ReturnCode};
use viaduct_scenario::{list_models, load_programs};

const MESSAGES: u64 = 60;

/// Long enough to be behind each other on every preset.
const BYTES: usize = 3000;

/// Host 1 takes messages with fewer receives than there are messages, host 0 sends as fast as it
/// can.
fn start(simulation: &Simulation) {
    simulation.spawn(1, |process: Process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().build().unwrap();
        for _ in 0..8 {
            vi.post_receive(nic.buffer(BYTES, Memory::Private).unwrap())
                .unwrap();
        }
        nic.listen(b"account").accept(&mut vi, None).unwrap();
        let patience = Some(Duration::from_millis(20));
        while let Ok(received) = vi.receive(patience) {
            vi.post_receive(received.buffer).unwrap();
        }
    });
    simulation.spawn(0, |process: Process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().build().unwrap();
        let server = nic.resolve("host1", b"account").unwrap();
        while let Err(error) = vi.connect(&server, None) {
            assert_eq!(error.code(), ReturnCode::NoMatch);
            process.sleep(Duration::from_micros(10));
        }
        for _ in 0..MESSAGES {
            let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
            vi.post_send(buffer, BYTES).unwrap();
        }
        process.sleep(Duration::from_millis(10));
        for _ in 0..MESSAGES {
            vi.sent(None).unwrap();
        }
    });
}

fn run(config: &SimulationConfig) -> RunResult {
    let mut simulation = Simulation::new(config.clone());
    simulation.keep_account(1000);
    start(&simulation);
    let outcome = simulation.run().unwrap();
    // Whoever watches changes nothing.
    let mut alone = Simulation::new(config.clone());
    start(&alone);
    assert_eq!(alone.run().unwrap(), outcome);
    simulation.account()
}

fn explained(config: &SimulationConfig, choice: Choice) -> Explanation {
    let run = |simulation: &mut Simulation| {
        start(simulation);
        simulation.run().is_ok()
    };
    explain(config, choice, run).unwrap()
}

fn models() -> Vec<(String, SimulationConfig)> {
    let models = list_models().into_iter().filter(|it| !it.has_endpoints());
    let loaded = models.map(|model| {
        let config = load_programs(&model.name, Some("two-hosts"), 2)
            .unwrap()
            .quiet();
        (model.name, config)
    });
    loaded.collect()
}

#[test]
fn messages_are_conserved_and_their_stages_add_up_on_every_adapter() {
    for (name, config) in models() {
        let told = run(&config);
        // Floors, rates, stages and counts.
        assert_eq!(told.violations, Vec::<String>::new(), "{name}");
        let counts = told.messages;
        assert_eq!(counts.posted, MESSAGES, "{name}");
        let ended = counts.delivered + counts.dropped;
        assert_eq!(ended + counts.in_flight, MESSAGES, "{name}");
        assert!(counts.delivered >= 8, "{name}");
        let latency = told.latency.unwrap();
        assert!(latency.min_us >= latency.floor_us && latency.floor_us >= 0.0);
        let stages: f64 = told.breakdown.iter().map(|stage| stage.mean_us).sum();
        let mean = latency.mean_us.mean;
        assert!(
            (stages - mean).abs() < 1e-6 * mean,
            "{name}: {stages} {mean}"
        );
        let rows = told.message_rows.iter();
        let delivered = rows.filter(|row| row.latency.is_some()).count() as u64;
        assert_eq!(delivered, counts.delivered, "{name}");
        let carried: f64 = told.link_rows.iter().map(|row| row.wire_bytes).sum();
        let least = (2 * counts.delivered * BYTES as u64) as f64;
        assert!(carried >= least, "{name}: {carried} of {least}");
    }
}

#[test]
fn a_run_of_any_length_has_so_many_windows() {
    let (_, config) = models().pop().unwrap();
    let told = run(&config);
    let windows = told.series.len();
    assert!((50..=201).contains(&windows), "{windows}");
    let posted: u64 = told.series.iter().map(|row| row.posted).sum();
    assert_eq!(posted, MESSAGES);
    assert!(told.series.is_sorted_by_key(|row| row.end));
}

#[test]
fn the_time_of_a_message_is_accounted_for_to_the_picosecond() {
    for (name, config) in models() {
        let explanation = explained(&config, Choice::Slowest);
        assert_eq!(explanation.violations, Vec::<String>::new(), "{name}");
        let Fate::Delivered(account) = &explanation.fate else {
            panic!("{name}: the slowest message was not delivered");
        };
        let stages = account.stages.iter().map(|stage| stage.time);
        let sum = stages.fold(Time::ZERO, |sum, time| sum + time);
        assert_eq!(sum, account.latency, "{name}");
        assert!(account.floor <= account.latency, "{name}");
    }
}

#[test]
fn a_message_that_waits_is_told_for_whom() {
    let config = load_programs("giganet-clan", Some("two-hosts"), 2)
        .unwrap()
        .quiet();
    // The second is posted while the first moves, on the same VI.
    let explanation = explained(&config, Choice::Message(1));
    let Fate::Delivered(account) = &explanation.fate else {
        panic!("the second message was not delivered");
    };
    let met = account.waits.iter().flat_map(|wait| &wait.longest);
    let mut met = met.filter_map(|overlap| overlap.message);
    assert!(met.any(|message| message.number == 0));
}

#[test]
fn what_messages_use_is_recorded() {
    let config = load_programs("giganet-clan", Some("two-hosts"), 2)
        .unwrap()
        .quiet();
    let mut simulation = Simulation::new(config);
    simulation.record(Selection {
        from: Time::ZERO,
        every: 1,
        count: 5,
    });
    start(&simulation);
    simulation.run().unwrap();
    let recording = simulation.recorded();
    assert_eq!(recording.messages.len(), 5);
    assert_eq!(recording.under_way, 0);
    assert!(recording.uses.len() >= 5 * 4);
}
