//! Programs whose messages are stored at each switch.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::faults::{Fault, Links};
use viaduct_engine::Time;
use viaduct_hardware::{Mechanism, Rate, Switching};
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Process, Simulation, breakdown};
use viaduct_provider::{Memory, Nic};
use viaduct_scenario::load_programs;
use viaduct_topology::{ChainHosts, Node, Ports, SwitchId, Topology};

/// When the message is sent.
const START: Duration = Duration::from_millis(5);
const BYTES: u32 = 50_000;

/// Three switches in a row, a host at each end.
fn config(model: &str, switching: Switching) -> SimulationConfig {
    let mut config = load_programs(model, None, 2).unwrap();
    config.topology = Arc::new(Topology::chain(3, ChainHosts::Ends(1), Ports(8)).unwrap());
    config.links.switching = switching;
    let rate = Rate::from_bits_per_second(400e6);
    (config.links.rate, config.links.host_rate) = (rate, rate);
    config
}

fn receive(process: &Process, sizes: &[u32], there: &Mutex<Vec<Duration>>) {
    let nic = Nic::open(process.fabric(), "sim0").unwrap();
    let mut vi = nic.vi().build().unwrap();
    for _ in sizes {
        let buffer = nic.buffer(BYTES as usize, Memory::Private).unwrap();
        vi.post_receive(buffer).unwrap();
    }
    nic.listen(b"there").accept(&mut vi, None).unwrap();
    for _ in sizes {
        // A message that is lost never comes.
        let Ok(received) = vi.receive(Some(Duration::from_millis(200))) else {
            break;
        };
        drop(received);
        there.lock().unwrap().push(process.now());
    }
}

fn send(process: &Process, sizes: &[u32]) {
    let nic = Nic::open(process.fabric(), "sim0").unwrap();
    let mut vi = nic.vi().build().unwrap();
    process.sleep(Duration::from_millis(1));
    let server = nic.resolve("host1", b"there").unwrap();
    vi.connect(&server, None).unwrap();
    process.sleep(START - process.now());
    for &bytes in sizes {
        let buffer = nic.buffer(bytes as usize, Memory::Private).unwrap();
        vi.post_send(buffer, bytes as usize).unwrap();
    }
    process.sleep(Duration::from_millis(100));
}

/// How long after the first was posted each message was taken.
fn taken(config: SimulationConfig, sizes: &'static [u32]) -> Vec<Duration> {
    let mut simulation = Simulation::new(config);
    let there = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&there);
    simulation.spawn(1, move |process| receive(&process, sizes, &taken));
    simulation.spawn(0, move |process| send(&process, sizes));
    simulation.run().unwrap();
    let there = there.lock().unwrap();
    there.iter().map(|time| *time - START).collect()
}

fn alone(config: &SimulationConfig, bytes: u32) -> Time {
    let stages = breakdown(config, bytes).into_iter();
    stages.fold(Time::ZERO, |sum, (_, time)| sum + time)
}

#[test]
fn a_message_over_switches_that_store_takes_the_sum() {
    for model in ["giganet-clan-linux", "rnic-gen3", "bvia-myrinet", "clan"] {
        let [through, stored] = [Switching::CutThrough, Switching::StoreAndForward].map(|how| {
            let config = config(model, how);
            let expected = alone(&config, BYTES);
            let [taken] = taken(config, &[BYTES])[..] else {
                panic!("{model}: one message");
            };
            (taken, expected)
        });
        let added = (stored.0 - through.0).as_nanos() as u64;
        let expected = (stored.1 - through.1).picoseconds() / 1000;
        // The clock of programs has nanoseconds.
        assert!(added.abs_diff(expected) <= 2, "{model}: {added} {expected}");
        // 50,000 bytes take a millisecond on each of three more links.
        assert!(added > 2_900_000, "{model}: {added}");
    }
}

#[test]
fn short_messages_do_not_overtake_long_ones_that_are_stored() {
    let taken = taken(
        config("giganet-clan-linux", Switching::StoreAndForward),
        &[BYTES, 8, 8],
    );
    assert!(taken.len() == 3 && taken.is_sorted(), "{taken:?}");
    assert!(taken[0] > Duration::from_millis(4), "{taken:?}");
}

/// A link goes down for 100 us, so long after the message was posted; whether the message comes.
fn comes(switching: Switching, link: (u32, u32), after: Duration) -> bool {
    let mut config = config("giganet-clan-linux", switching);
    let from = Time::from_microseconds((START + after).as_micros() as u64);
    config.faults.push(Fault::LinkDown {
        links: Links::OneWay(
            Node::Switch(SwitchId(link.0)),
            Node::Switch(SwitchId(link.1)),
        ),
        from,
        until: Some(from + Time::from_microseconds(100)),
    });
    !taken(config, &[BYTES]).is_empty()
}

#[test]
fn an_outage_loses_what_crosses_the_link_then_and_nothing_else() {
    let stored = Switching::StoreAndForward;
    // A millisecond a hop: the second and third of four links are those between switches.
    let ms = |tenths: u64| Duration::from_micros(100 * tenths);
    assert!(!comes(Switching::CutThrough, (1, 2), ms(5)));
    assert!(comes(Switching::CutThrough, (1, 2), ms(15)));
    for (link, hop) in [((0, 1), 1), ((1, 2), 2)] {
        for crossed in 0..4 {
            let is_hit = crossed == hop;
            let comes = comes(stored, link, ms(10 * crossed + 5));
            assert_eq!(comes, !is_hit, "link {link:?} down on hop {crossed}");
        }
    }
    // The other direction is another link.
    assert!(comes(stored, (1, 0), ms(15)));
}

#[test]
fn hardware_that_stores_in_the_adapter_crosses_its_bus_by_itself() {
    let mut config = config("giganet-clan-linux", Switching::CutThrough);
    let through = alone(&config, BYTES);
    if let Mechanism::Native(nic) = &mut config.host.common_mut().mechanism {
        nic.forwarding = Switching::StoreAndForward;
    }
    let stored = alone(&config, BYTES);
    assert!(
        stored > through + Time::from_microseconds(700),
        "{stored:?}"
    );
    let taken = taken(config, &[BYTES])[0];
    assert!(taken.as_nanos() as u64 > through.picoseconds() / 1000 + 700_000);
}
