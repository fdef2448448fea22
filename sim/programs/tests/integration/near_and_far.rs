//! A message's time is that of its own way, whichever ways were taken before.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_programs::{Process, Simulation};
use viaduct_provider::{Memory, Nic, ReturnCode};
use viaduct_scenario::load_programs;

const BYTES: usize = 64;
const ROUNDS: u32 = 3;
/// Of host 0 of the torus: one at its own switch, and one at the next, whose way is kept in the
/// same place.
const NEAR: u32 = 1;
const FAR: u32 = 65;

fn answer(process: &Process) {
    let nic = Nic::open(process.fabric(), "sim0").unwrap();
    let mut vi = nic.vi().build().unwrap();
    vi.post_receive(nic.buffer(BYTES, Memory::Private).unwrap())
        .unwrap();
    nic.listen(b"far").accept(&mut vi, None).unwrap();
    for _ in 0..ROUNDS {
        let received = vi.receive(None).unwrap();
        vi.post_send(received.buffer, BYTES).unwrap();
        let sent = vi.sent(None).unwrap();
        vi.post_receive(sent.buffer).unwrap();
    }
    process.sleep(Duration::from_millis(100));
}

/// Round trips to each peer in turn, nanoseconds.
fn ask(process: &Process, peers: &[u32]) -> Vec<Vec<u128>> {
    let nic = Nic::open(process.fabric(), "sim0").unwrap();
    let connect = |peer: &u32| {
        let mut vi = nic.vi().build().unwrap();
        let address = nic.resolve(&format!("host{peer}"), b"far").unwrap();
        while let Err(error) = vi.connect(&address, None) {
            assert_eq!(error.code(), ReturnCode::NoMatch);
            process.sleep(Duration::from_micros(100));
        }
        vi
    };
    let mut vis: Vec<_> = peers.iter().map(connect).collect();
    let mut round_trip = |peer: usize| {
        let vi = &mut vis[peer];
        let buffer = || nic.buffer(BYTES, Memory::Private).unwrap();
        vi.post_receive(buffer()).unwrap();
        let begin = process.now();
        vi.post_send(buffer(), BYTES).unwrap();
        vi.receive(None).unwrap();
        let took = process.now() - begin;
        vi.sent(None).unwrap();
        took.as_nanos()
    };
    let mut round = || (0..peers.len()).map(&mut round_trip).collect();
    (0..ROUNDS).map(|_| round()).collect()
}

/// The last of the round trips to each of some peers.
fn last_round_trips(peers: &'static [u32]) -> Vec<u128> {
    let config = load_programs("clan-pio", Some("torus-1024"), 0)
        .unwrap()
        .quiet();
    let mut simulation = Simulation::new(config);
    for peer in peers {
        simulation.spawn(*peer, |process| answer(&process));
    }
    let found = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&found);
    simulation.spawn(0, move |process| {
        *asked.lock().unwrap() = ask(&process, peers);
    });
    simulation.run().unwrap();
    found.lock().unwrap().pop().unwrap()
}

#[test]
fn near_and_far_peers_in_turn_take_their_own_time() {
    let in_turn = last_round_trips(&[NEAR, FAR]);
    let alone = [last_round_trips(&[NEAR]), last_round_trips(&[FAR])].concat();
    assert!(alone[0] < alone[1], "{alone:?}");
    // Whole nanoseconds of one time differ by one at most.
    for (one, other) in in_turn.iter().zip(&alone) {
        assert!(one.abs_diff(*other) <= 1, "{in_turn:?}, alone {alone:?}");
    }
}
