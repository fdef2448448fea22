//! Clusters of any size on any network: hosts without endpoints cost nothing.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use allocation_counter::measure;
use viaduct_am::{Carrier, Endpoint, EventMask, HandlerId, Handlers, Key, Name, Options};
use viaduct_engine::Time;
use viaduct_lanai::{Config, FairLinks, HeldLinks, LinkModel, Links, Outcome, Programs, Wiring};
use viaduct_network::{Sharing, Switching};
use viaduct_topology::{Ports, Topology, TreeShape};

const KEY: Key = Key(1);
const ADD: HandlerId = HandlerId::of(1);
const REQUESTS: u64 = 50;

const SHARED: LinkModel = LinkModel::Shared(Sharing::MaxMin, Switching::CutThrough);

/// A cluster in another network than the usual tree.
fn in_network(topology: Topology) -> Config {
    let mut config = Config::am_myrinet(topology.host_count(), 8);
    config.wiring = Some(Wiring {
        topology: Arc::new(topology),
        host_bytes_s: 150e6,
        switch_bytes_s: 150e6,
        propagation: Time::ZERO,
        host_propagation: Time::ZERO,
        switch: Time::from_nanoseconds(300),
        cut_through_bytes: 0,
        buffers: viaduct_network::Buffers::default(),
        credits: viaduct_network::CreditLinks::default(),
    });
    config
}

fn endpoint<C: Carrier>(carrier: &C) -> Endpoint<C, u64> {
    let handlers = Handlers::new(|_: &mut u64, returned| panic!("{:?}", returned.reason))
        .on_request(ADD, |sum: &mut u64, request| {
            *sum += request.words()[0];
            request.echo(ADD, &[]).unwrap();
        })
        .on_reply(ADD, |sum, _| *sum += 1);
    Endpoint::new(carrier, &Arc::new(handlers), 0, Options::new(KEY)).unwrap()
}

/// Clients ask a server; all have one endpoint. Gives what the server added up.
fn ask<N: Links>(config: Config, server: u32, clients: &[u32]) -> (u64, Outcome) {
    let mut programs = Programs::<N>::on_links(config).unwrap();
    let name: Rc<Cell<Option<Name>>> = Rc::default();
    let (ended, sum) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let count = clients.len();
    let (its_name, its_ended, its_sum) = (Rc::clone(&name), Rc::clone(&ended), Rc::clone(&sum));
    programs.spawn(server, move |station| {
        assert_eq!(station.host(), server);
        let mut own = endpoint(&station);
        its_name.set(Some(own.name()));
        while its_ended.get() < count {
            if own.poll() == 0 {
                station.idle();
            }
        }
        its_sum.set(*own.state());
    });
    for &client in clients {
        let (its_name, its_ended) = (Rc::clone(&name), Rc::clone(&ended));
        programs.spawn(client, move |station| {
            let mut own = endpoint(&station);
            own.map(0, &its_name.get().unwrap(), KEY).unwrap();
            for _ in 0..REQUESTS {
                own.request(0, ADD, &[u64::from(client)]).unwrap();
            }
            while *own.state() < REQUESTS {
                own.wait(EventMask::MESSAGE, None).unwrap();
                own.poll();
            }
            its_ended.set(its_ended.get() + 1);
            // The server has to look once more.
            if its_ended.get() == count {
                own.request(0, ADD, &[0]).unwrap();
            }
        });
    }
    let outcome = programs.run().unwrap();
    (sum.get(), outcome)
}

fn expected(clients: &[u32]) -> u64 {
    let each = clients.iter().map(|client| u64::from(*client) * REQUESTS);
    each.sum()
}

#[test]
fn endpoints_anywhere_in_a_hundred_thousand_hosts_reach_each_other() {
    let clients = [1, 65_535, 65_536, 99_999];
    for topology in [
        None,
        Some(Topology::torus(&[32, 32, 25], 4, Ports(16)).unwrap()),
        Some(
            Topology::chain(
                100_000,
                viaduct_topology::ChainHosts::EverySwitch(1),
                Ports(4),
            )
            .unwrap(),
        ),
    ] {
        let config = match topology {
            None => Config::am_myrinet(100_000, 8),
            Some(topology) => in_network(topology),
        };
        let last = config.hosts - 1;
        let clients = clients.map(|client| client.min(last));
        for server in [0, 50_000] {
            let (sum, outcome) = ask::<HeldLinks>(config.clone(), server, &clients);
            assert_eq!(sum, expected(&clients));
            assert_eq!(outcome.totals.returned, 0, "{outcome:?}");
        }
    }
}

#[test]
fn which_of_many_hosts_have_endpoints_changes_nothing_but_the_way_between_them() {
    // Both are three switches apart, by the same draws: only the number of the server's host is
    // what its streams are keyed by.
    let few = ask::<HeldLinks>(Config::am_myrinet(11, 8), 0, &[10]).1;
    let many = ask::<HeldLinks>(Config::am_myrinet(1_000_000, 8), 0, &[10]).1;
    assert_eq!(few, many);
}

#[test]
fn hosts_without_endpoints_take_no_memory() {
    let bytes = |hosts| {
        let run = || {
            let (sum, _) = ask::<HeldLinks>(Config::am_myrinet(hosts, 8), 0, &[7, 9]);
            assert_eq!(sum, expected(&[7, 9]));
        };
        measure(run).bytes_max
    };
    let (few, many) = (bytes(10), bytes(10_000_000));
    assert!(
        many <= few + 64,
        "{few} bytes of ten hosts, {many} of ten million"
    );
}

/// What is kept of a host whose endpoint has as much under way as it may, to one other.
#[test]
fn a_host_with_an_endpoint_takes_less_than_24_kilobytes() {
    let bytes = |pairs: u32| {
        let run = || {
            let clients: Vec<u32> = (1..=pairs).collect();
            ask::<HeldLinks>(Config::am_myrinet(10_000, 8), 0, &clients);
        };
        measure(run).bytes_max
    };
    let (few, many) = (bytes(10), bytes(60));
    let each = (many - few) / 50;
    // The server's side of each pair is in it; stacks of programs are mapped, not allocated.
    assert!((1_000..24_000).contains(&each), "{each} bytes a host");
}

#[test]
fn endpoints_on_shared_links_reach_each_other_on_every_network() {
    let shape = TreeShape {
        arity: 4,
        levels: 3,
    };
    for (topology, clients) in [
        (None, [3, 4, 999]),
        (
            Some(Topology::torus(&[4, 4], 2, Ports(8)).unwrap()),
            [3, 4, 31],
        ),
        (
            Some(Topology::fat_tree(shape, Ports(8)).unwrap()),
            [3, 4, 63],
        ),
    ] {
        let mut config = match topology {
            None => Config::am_myrinet(1_000, 8),
            Some(topology) => in_network(topology),
        };
        for switching in [Switching::CutThrough, Switching::StoreAndForward] {
            for sharing in [
                Sharing::MaxMin,
                Sharing::Fluid,
                Sharing::Queues,
                Sharing::Packets,
                Sharing::Credits,
            ] {
                config.model = LinkModel::Shared(sharing, switching);
                let (sum, outcome) = ask::<FairLinks>(config.clone(), 0, &clients);
                assert_eq!(sum, expected(&clients));
                assert_eq!(outcome.totals.lost, 0);
                let again = ask::<FairLinks>(config.clone(), 0, &clients).1;
                assert_eq!(outcome, again);
            }
        }
    }
}

/// Nobody shares a link with one message on its way, so that both rules give it the same time, but
/// for how each cuts it to picoseconds.
#[test]
fn a_lone_pair_is_as_fast_by_either_rule() {
    let mut config = Config::am_myrinet(20, 8);
    let held = ask::<HeldLinks>(config.clone(), 0, &[19]).1;
    config.model = SHARED;
    let shared = ask::<FairLinks>(config, 0, &[19]).1;
    let ratio = held.elapsed.as_secs_f64() / shared.elapsed.as_secs_f64();
    assert!((0.99..1.01).contains(&ratio), "{held:?} and {shared:?}");
}

#[test]
fn what_does_not_fit_is_told() {
    let mut config = Config::am_myrinet(20, 8);
    config.model = SHARED;
    let error = Programs::new(config.clone()).unwrap_err().to_string();
    assert!(error.contains("FairLinks"), "{error}");
    config.model = LinkModel::Wormhole;
    let error = Programs::<FairLinks>::on_links(config).unwrap_err();
    assert!(error.to_string().contains("HeldLinks"), "{error}");
    let error = Programs::new(Config::am_myrinet(20_000_000, 8)).unwrap_err();
    let told = "20000000 hosts: interfaces have numbers for 16777216";
    assert!(error.to_string().contains(told), "{error}");
}
