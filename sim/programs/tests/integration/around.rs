//! Programs amid the traffic of a study, on the same hosts.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_cluster::faults::{Fault, Links};
use viaduct_cluster::result::{LinkRow, MessageCounts, RunResult};
use viaduct_cluster::run;
use viaduct_cluster::why::{Choice, Fate, MessageName};
use viaduct_engine::Time;
use viaduct_network::Sharing;
use viaduct_programs::config::{Around, SimulationConfig};
use viaduct_programs::{Outcome, Process, Simulation, SimulationError, explain};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_provider::{Memory, Nic};
use viaduct_scenario::parse_study_with;

/// Four switches with two hosts each.
const TORUS: &str = "topology = \"torus\"\ndimensions = [2, 2]\nhosts_per_switch = 2";
/// One with sixteen.
const SWITCH: &str = "topology = \"switch\"\nhosts = 16";

/// Bytes of all messages.
const BYTES: usize = 4096;

/// A study whose hosts send to each other, all together so much as a share of what their links can
/// carry.
fn study(network: &str, adapter: &str, load: f64, processes: u32) -> ClusterConfig {
    let rate = load * 100e6 / BYTES as f64 / f64::from(processes);
    let text = format!(
        r#"
[run]
until = "40 ms"
warmup = "2 ms"
[network]
{network}
[links]
rate = "800 Mbit/s"
propagation = "50 ns"
[switches]
delay = "500 ns"
cut_through = "64 B"
[hosts]
nic = "{adapter}"
completion = "polling"
processes = {processes}
prepost = "unlimited"
send_buffers = "unlimited"
[traffic]
pattern = "uniform"
rate = "{rate:.3}/s"
size = "{BYTES} B"
"#
    );
    let study = parse_study_with(&text, &[]).unwrap_or_else(|error| panic!("{error}"));
    study.config
}

/// Programs' hosts in the network of a study, amid its traffic.
fn amid(config: &ClusterConfig) -> SimulationConfig {
    SimulationConfig {
        topology: config.topology.clone(),
        links: config.links.clone(),
        switch: config.switch,
        host: config.host.clone(),
        adapters: config.hosts.adapters,
        processors: config.hosts.processors,
        faults: config.faults.clone(),
        background: config.background.clone(),
        around: Some(Around {
            hosts: config.hosts.clone(),
            traffic: config.traffic.clone(),
            warmup: config.run.warmup,
        }),
        detection: config.detection,
        seed: config.run.seed,
    }
}

/// A simulation in which one program does nothing until a time, or until its host's processor,
/// which the study may have for longer, is free then: when that was, and what was around it.
fn asleep_until(config: SimulationConfig, end: Time) -> (Time, MessageCounts, RunResult) {
    let mut simulation = Simulation::new(config);
    simulation.keep_account(0);
    simulation.spawn(3, move |process| {
        let left = end.saturating_sub(process.time());
        process.sleep(Duration::from_nanos(left.picoseconds() / 1000));
    });
    let outcome = simulation.run().unwrap();
    assert!(outcome.end >= end);
    (outcome.end, simulation.around(), simulation.account())
}

/// What links carried, in whole bytes: the sum is taken in other steps where programs are.
fn carried(rows: &[LinkRow]) -> Vec<(u64, u32)> {
    let rows = rows.iter();
    rows.map(|row| (row.wire_bytes.round() as u64, row.flows_max))
        .collect()
}

/// The study's own run up to a time, and what it was amid a program that sleeps: the same.
fn compare(mut config: ClusterConfig, what: &str) -> MessageCounts {
    let (end, around, amid) = asleep_until(amid(&config), config.run.until);
    (config.run.until, config.run.drain) = (end, false);
    let alone = run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(around, alone.messages, "{what}");
    assert_eq!(
        carried(&amid.link_rows),
        carried(&alone.link_rows),
        "{what}"
    );
    let told = [alone.violations, amid.violations];
    assert!(told.iter().all(Vec::is_empty), "{what}: {told:?}");
    assert_eq!(amid.messages, MessageCounts::default(), "{what}");
    around
}

#[test]
fn a_study_goes_on_beside_an_idle_program_as_it_does_alone() {
    for adapter in [
        "ideal",
        "giganet-clan",
        "clan-dma",
        "bvia-myrinet",
        "m-via",
        "rnic-gen4",
    ] {
        for sharing in [Sharing::Fluid, Sharing::MaxMin, Sharing::Queues] {
            for processes in [1, 2] {
                let mut config = study(TORUS, adapter, 0.3, processes);
                config.links.sharing = sharing;
                let what = format!("{adapter}, {sharing:?}, {processes}");
                let counts = compare(config, &what);
                assert!(counts.delivered > 1000, "{what}: {counts:?}");
            }
        }
    }
}

#[test]
fn a_study_in_which_things_fail_does_so_beside_an_idle_program_too() {
    for adapter in ["giganet-clan", "rnic-gen4"] {
        for reliability in [
            ReliabilityLevel::Unreliable,
            ReliabilityLevel::ReliableDelivery,
            ReliabilityLevel::ReliableReception,
        ] {
            let mut config = study(TORUS, adapter, 0.2, 2);
            config.traffic.reliability = reliability;
            config.faults = vec![
                Fault::Loss {
                    links: Links::All,
                    rate: 0.01,
                },
                Fault::HostDies {
                    host: 5,
                    at: Time::from_milliseconds(20),
                },
            ];
            let counts = compare(config, &format!("{adapter}, {reliability:?}"));
            assert!(counts.dropped > 0, "{adapter}, {reliability:?}: {counts:?}");
        }
    }
}

/// Ping-pong between hosts 0 and 9, each round at some moment of what is around it.
fn ping_pong(simulation: &Simulation, rounds: u32) {
    let play = move |process: &Process, is_first: bool| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().build().unwrap();
        let mut buffer = nic.buffer(BYTES, Memory::Private).unwrap();
        vi.post_receive(nic.buffer(BYTES, Memory::Private).unwrap())
            .unwrap();
        if is_first {
            let server = nic.resolve("host9", b"here").unwrap();
            while vi.connect(&server, None).is_err() {
                process.sleep(Duration::from_micros(50));
            }
        } else {
            nic.listen(b"here").accept(&mut vi, None).unwrap();
        }
        for round in 0..rounds {
            if is_first {
                process.sleep(Duration::from_micros(u64::from(round * 7919 % 2003)));
            }
            for is_to_send in [is_first, !is_first] {
                if is_to_send {
                    vi.post_send(buffer, BYTES).unwrap();
                    buffer = loop {
                        if let Some(sent) = vi.try_sent().unwrap() {
                            break sent.buffer;
                        }
                    };
                } else {
                    let received = loop {
                        if let Some(received) = vi.try_receive().unwrap() {
                            break received;
                        }
                    };
                    vi.post_receive(received.buffer).unwrap();
                }
            }
        }
        process.sleep(Duration::from_millis(1));
    };
    simulation.spawn(0, move |process| play(&process, true));
    simulation.spawn(9, move |process| play(&process, false));
}

/// What a ping-pong of so many rounds in it is told, and how the simulation ended.
fn played(config: &SimulationConfig, rounds: u32) -> (RunResult, Outcome) {
    let mut simulation = Simulation::new(config.clone());
    simulation.keep_account(0);
    ping_pong(&simulation, rounds);
    let outcome = simulation.run().unwrap();
    let told = simulation.account();
    assert_eq!(told.violations, Vec::<String>::new());
    (told, outcome)
}

#[test]
fn a_ping_pong_meets_what_the_study_says_of_its_own_messages() {
    let mut last_us = 0.0;
    for load in [0.05, 0.25, 0.5] {
        let mut config = study(SWITCH, "giganet-clan", load, 1);
        config.run.until = Time::from_milliseconds(400);
        config.traffic.stop = config.run.until;
        let alone = run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
        let study_us = alone.latency.unwrap().mean_us.mean;
        config.traffic.stop = Time::MAX;
        let (told, _) = played(&amid(&config), 250);
        let latency = told.latency.unwrap();
        let (mean_us, count) = (latency.mean_us.mean, latency.count);
        assert_eq!(count, 500);
        // Three standard errors, and 4 % for the load that the ping-pong itself is.
        let around_us = 3.0 * latency.sd_us / (count as f64).sqrt() + 0.04 * study_us;
        assert!(
            (mean_us - study_us).abs() < around_us,
            "load {load}: {mean_us} us, and {study_us} of the study's, within {around_us}"
        );
        assert!(mean_us > 1.02 * last_us, "load {load}: {mean_us} {last_us}");
        last_us = mean_us;
    }
}

#[test]
fn nothing_around_is_as_if_nothing_could_be() {
    let config = study(SWITCH, "giganet-clan", 0.3, 1);
    let quiet = amid(&config).quiet();
    let mut silent = amid(&config);
    let around = silent.around.as_mut().unwrap();
    around.warmup = Time::ZERO;
    // Processes that never send anything.
    around.traffic.stop = Time::ZERO;
    let [quiet, silent] = [quiet, silent].map(|config| played(&config, 50));
    assert_eq!(quiet.1, silent.1);
    assert_eq!(quiet.0.digest, silent.0.digest);
    assert_eq!(silent.0.around, MessageCounts::default());
}

#[test]
fn programs_amid_traffic_repeat_and_all_messages_are_accounted_for() {
    let traffic = |config: &mut ClusterConfig, arrivals| config.traffic.arrivals = arrivals;
    for adapter in ["ideal", "giganet-clan", "clan-pio", "rnic-gen4"] {
        for arrivals in [None, Some(Arrivals::PingPong), Some(Arrivals::Window(2))] {
            let mut config = study(SWITCH, adapter, 0.3, 2);
            if let Some(arrivals) = arrivals {
                traffic(&mut config, arrivals);
            }
            config.traffic.stop = Time::from_milliseconds(6);
            let (told, outcome) = played(&amid(&config), 20);
            let again = played(&amid(&config), 20);
            assert_eq!((told.digest, outcome), (again.0.digest, again.1));
            // The traffic has stopped long before the programs end.
            let around = told.around;
            assert!(around.posted > 400, "{adapter}: {around:?}");
            assert_eq!(around.posted, around.delivered, "{adapter}: {around:?}");
            let own = told.messages;
            assert_eq!((own.posted, own.delivered), (40, 40), "{adapter}: {own:?}");
            let mut other = amid(&config);
            other.seed += 1;
            assert_ne!(played(&other, 20).0.digest, told.digest, "{adapter}");
        }
    }
}

#[test]
fn programs_begin_after_the_warm_up_and_are_stuck_amid_traffic_without_end() {
    for sharing in [Sharing::MaxMin, Sharing::Queues] {
        let mut config = study(SWITCH, "giganet-clan", 0.3, 1);
        config.traffic.stop = Time::MAX;
        config.links.sharing = sharing;
        let mut simulation = Simulation::new(amid(&config));
        let begun = Arc::new(Mutex::new(Time::ZERO));
        let seen = Arc::clone(&begun);
        simulation.spawn(5, move |process| {
            *seen.lock().unwrap() = process.time();
            let nic = Nic::open(process.fabric(), "sim0").unwrap();
            let _ = nic.listen(b"nobody comes").request(None);
        });
        // Where nobody notices, it would go on for ever.
        let looks = Cell::new(0);
        simulation.stop_when(move || looks.replace(looks.get() + 1) > 100);
        let ended = simulation.run();
        assert!(
            matches!(&ended, Err(SimulationError::Stuck { hosts, .. }) if *hosts == [5]),
            "{sharing:?}: {ended:?}"
        );
        assert_eq!(*begun.lock().unwrap(), Time::from_milliseconds(2));
        assert!(simulation.around().delivered > 100);
    }
}

#[test]
fn a_message_of_a_program_is_explained_amid_those_of_the_study() {
    let config = amid(&study(SWITCH, "giganet-clan", 0.6, 2));
    let explanation = explain(&config, Choice::Slowest, |simulation| {
        ping_pong(simulation, 30);
        simulation.run().is_ok()
    })
    .unwrap();
    assert_eq!(explanation.violations, Vec::<String>::new());
    assert_eq!(explanation.messages_posted, 60);
    let is_between = |message: MessageName| {
        let (source, target) = message.hosts(2);
        [(0, 9), (9, 0)].contains(&(source.0, target.0))
    };
    assert!(!explanation.message.is_around && is_between(explanation.message));
    let Fate::Delivered(account) = explanation.fate else {
        panic!("a message that is measured was delivered");
    };
    let waits = account.waits.iter().flat_map(|wait| &wait.longest);
    let shared = account.way.places.iter().flat_map(|place| &place.longest);
    let met: Vec<_> = waits.chain(shared).filter_map(|it| it.message).collect();
    assert!(!met.is_empty() && met.iter().any(|message| message.is_around));
    // All that is not of the study is its own.
    let own = met.iter().filter(|message| !message.is_around);
    assert!(own.copied().all(is_between), "{met:?}");
}
