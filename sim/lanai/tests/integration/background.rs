//! Traffic of others on the same links and buses.

use std::time::Duration;

use viaduct_am::{Endpoint, EventMask, Handlers, Key, Options};
use viaduct_cluster::background::Background;
use viaduct_cluster::workload::{Interval, SizeDistribution};
use viaduct_engine::Time;
use viaduct_lanai::{
    Config, FairLinks, LinkLoad, LinkModel, Links, Programs, Server, contention, exchange,
};
use viaduct_network::{Sharing, Switching};

const BYTES: u32 = 20_000;

/// From one host to another, once a millisecond.
fn transfers(source: u32, target: u32) -> Background {
    Background {
        source,
        target: Some(target),
        interval: Interval::constant(1e9).unwrap(),
        size: SizeDistribution::constant(BYTES),
        from: Time::ZERO,
        until: None,
    }
}

/// What links carried while a host computed for almost eleven milliseconds.
fn alone<N: Links>(config: Config) -> Vec<LinkLoad> {
    let mut programs = Programs::<N>::on_links(config).unwrap();
    programs.spawn(0, |station| station.compute(Duration::from_micros(10_900)));
    programs.run().unwrap().links
}

/// Ten transfers in three parts each cross their ways, of hosts that take part and of others.
#[test]
fn transfers_cross_their_links_whole() {
    for (source, target, ways) in [(0, 1, 2), (1, 7, 4), (6, 0, 4)] {
        let config = Config {
            background: vec![transfers(source, target)],
            watches_links: true,
            ..Config::am_myrinet(8, 8)
        };
        let header = u64::from(config.network.header_bytes);
        let shared = Config {
            model: LinkModel::Shared(Sharing::MaxMin, Switching::CutThrough),
            ..config.clone()
        };
        let held = alone::<viaduct_lanai::HeldLinks>(config);
        let shared = alone::<FairLinks>(shared);
        for loads in [held, shared] {
            assert_eq!(loads.len(), ways, "{loads:?}");
            for load in loads {
                assert_eq!(load.packets, 30, "{load:?}");
                assert_eq!(load.bytes, 10 * (u64::from(BYTES) + 3 * header), "{load:?}");
            }
        }
    }
}

/// What the server's bus and link carry of others is missing to its clients: its bus reads and
/// writes long messages at the same rates.
#[test]
fn requests_share_buses_with_others() {
    let of = |background: Vec<Background>| {
        let config = Config {
            background,
            ..Config::am_myrinet(8, 8)
        };
        let (from, span) = (Time::from_milliseconds(50), Time::from_milliseconds(400));
        contention(config, Server::One, 4, 8192, from, span).mbyte_s
    };
    let usual = of(Vec::new());
    let beside = of(vec![transfers(6, 0)]);
    // 20 MB/s of the bus's, at the rate at which it is written.
    let missing = (usual - beside) / 20.0;
    assert!((0.7..1.1).contains(&missing), "{usual} {beside}");
    assert_eq!(beside, of(vec![transfers(6, 0)]));
    // Elsewhere they disturb nobody.
    assert_eq!(usual, of(vec![transfers(6, 7)]));
}

/// Nothing is lost of the requests, and the end is found though others would go on.
#[test]
fn an_exchange_amid_others_ends() {
    let config = Config {
        background: vec![transfers(0, 1), transfers(2, 0)],
        ..Config::am_myrinet(4, 8)
    };
    let result = exchange(config, Server::One, 3, 8192, 200);
    assert_eq!((result.replies, result.pending), (vec![200; 3], 0));
}

#[test]
fn programs_that_wait_for_ever_are_named_amid_others() {
    let config = Config {
        background: vec![transfers(1, 0)],
        ..Config::am_myrinet(2, 8)
    };
    let mut programs = Programs::new(config).unwrap();
    programs.spawn(1, |station| {
        let handlers = Handlers::new(|_: &mut (), _| {});
        let options = Options::new(Key(1));
        let mut own = Endpoint::new(&station, &handlers.into(), (), options).unwrap();
        own.wait(EventMask::MESSAGE, None).unwrap();
        own.poll();
    });
    let stuck = programs.run().unwrap_err();
    assert_eq!(stuck.hosts, [1]);
}

#[test]
fn sources_that_cannot_be_are_told() {
    let config = Config {
        background: vec![transfers(0, 2)],
        ..Config::am_myrinet(2, 8)
    };
    let error = Programs::new(config).unwrap_err();
    assert!(error.to_string().contains("no host 2"), "{error}");
}
