//! Programs whose messages have several equally good ways.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_hardware::Rate;
use viaduct_programs::{Process, Simulation};
use viaduct_provider::{Memory, Nic, ReturnCode};
use viaduct_scenario::load_programs;
use viaduct_topology::{EqualPaths, GraphFormat, GraphRouting, parse_graph};

const SPINES: u32 = 4;
/// Hosts at each of the two leaves.
const HOSTS: u32 = 16;
/// What a link between switches moves in 20 ms.
const BYTES: usize = 50_000;

fn receive(process: &Process, vis: u32) {
    let nic = Nic::open(process.fabric(), "sim0").unwrap();
    let connect = |index: u32| {
        let mut vi = nic.vi().build().unwrap();
        let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
        vi.post_receive(buffer).unwrap();
        let place = nic.listen(&index.to_le_bytes());
        place.accept(&mut vi, None).unwrap();
        vi
    };
    let connected: Vec<_> = (0..vis).map(connect).collect();
    for mut vi in connected {
        vi.receive(None).unwrap();
    }
}

fn send(process: &Process, vis: u32) {
    let nic = Nic::open(process.fabric(), "sim0").unwrap();
    let peer = format!("host{}", process.host() + HOSTS);
    let connect = |index: u32| {
        let mut vi = nic.vi().build().unwrap();
        let server = nic.resolve(&peer, &index.to_le_bytes()).unwrap();
        while let Err(error) = vi.connect(&server, None) {
            assert_eq!(error.code(), ReturnCode::NoMatch);
            process.sleep(Duration::from_micros(50));
        }
        vi
    };
    let mut connected: Vec<_> = (0..vis).map(connect).collect();
    for vi in &mut connected {
        let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
        vi.post_send(buffer, BYTES).unwrap();
    }
    for mut vi in connected {
        vi.sent(None).unwrap();
    }
}

/// How long it takes that each of `pairs` hosts at one leaf sends a message over each of `vis` VIs
/// to a host of its own at the other leaf.
fn took(equal_paths: EqualPaths, pairs: u32, vis: u32) -> Duration {
    let mut list = String::from("hosts n*\n");
    for leaf in 0..2 {
        for host in 0..HOSTS {
            list.push_str(&format!("n{} leaf{leaf}\n", leaf * HOSTS + host));
        }
        for spine in 0..SPINES {
            list.push_str(&format!("leaf{leaf} spine{spine}\n"));
        }
    }
    let routing = GraphRouting::ShortestPath(equal_paths);
    let topology = parse_graph(&list, GraphFormat::EdgeList, routing).unwrap();
    let mut config = load_programs("giganet-clan-linux", None, 2).unwrap();
    config.topology = Arc::new(topology);
    config.links.rate = Rate::from_bits_per_second(20e6);
    let mut simulation = Simulation::new(config);
    let end = Arc::new(Mutex::new(Duration::ZERO));
    for pair in 0..pairs {
        let end = Arc::clone(&end);
        simulation.spawn(pair + HOSTS, move |process| {
            receive(&process, vis);
            let mut end = end.lock().unwrap();
            *end = process.now().max(*end);
        });
        simulation.spawn(pair, move |process| send(&process, vis));
    }
    simulation.run().unwrap();
    *end.lock().unwrap()
}

/// Sixteen messages on one link take sixteen times as long as one. On four links they take four
/// times as long, or six where as many share one of them.
fn assert_spread(pairs: u32, vis: u32) {
    let alone = took(EqualPaths::Hash, 1, 1);
    let single = took(EqualPaths::Single, pairs, vis);
    let spread = took(EqualPaths::Hash, pairs, vis);
    assert!(single > alone.mul_f64(15.0), "{alone:?} {single:?}");
    assert!(spread > alone.mul_f64(3.5), "{alone:?} {spread:?}");
    assert!(spread < single.mul_f64(0.6), "{spread:?} {single:?}");
}

#[test]
fn messages_of_many_hosts_are_spread_over_all_spines() {
    assert_spread(16, 1);
}

#[test]
fn the_vis_between_two_hosts_are_spread_over_all_spines() {
    assert_spread(1, 16);
}
