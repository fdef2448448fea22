//! Links and switches that are exchanged and hosts that reboot, while clients and a server run:
//! nothing is delivered twice, nothing is lost in silence.

use viaduct_cluster::faults::Slowness;
use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_lanai::{Config, Ends, Exchange, Fault, Server, contention, exchange, measure};
use viaduct_network::outages::Links;
use viaduct_topology::{HostId, Node, SwitchId};

const fn ms(milliseconds: u64) -> Time {
    Time::from_milliseconds(milliseconds)
}

const CLIENTS: u16 = 7;

/// What must hold when all is over.
fn check(result: &Exchange, is_all_up: bool) -> Result<(), String> {
    let ends = result.ends.as_ref().ok_or("no book was kept")?;
    if !ends.violations.is_empty() {
        return Err(format!("{:?}", ends.violations));
    }
    let returned = ends.refused + ends.unreachable + ends.rebooted + ends.unanswered;
    let ended = ends.replied + returned + ends.forgotten;
    if ends.open > 0 || ended != ends.requests {
        return Err(format!("requests are lost in silence: {ends:?}"));
    }
    if result.replies.iter().sum::<u64>() != ends.replied {
        return Err(format!("{:?} replies, {ends:?}", result.replies));
    }
    if is_all_up && result.pending > 0 {
        return Err(format!("{} messages hang", result.pending));
    }
    Ok(())
}

/// A cluster and what goes wrong in it, drawn; whether all is up at the end.
fn draw(seed: u64) -> (Config, Server, u32, bool) {
    let mut random = Stream::new(StreamKey {
        seed,
        purpose: 0xfa17,
        entity: 0,
    });
    let mut below = |bound: u64| random.below(bound);
    let mut config = Config::am_myrinet(u32::from(CLIENTS) + 1, 1 + below(8) as u16);
    config.seed = seed;
    // Two leaf switches of four hosts.
    config.network.hosts_a_leaf = 4;
    config.network.lost_per_million = [0, 5_000][below(2) as usize];
    config.network.receive_buffers = [4, 32][below(2) as usize];
    let mut is_all_up = true;
    for _ in 0..1 + below(6) {
        let from = ms(1) + Time::from_microseconds(below(150_000));
        // Shorter than a time-out, as long as one, longer than silence may be.
        let span = [ms(1 + below(3)), ms(50 + below(100)), ms(2_500)][below(3) as usize];
        let is_for_ever = below(12) == 0;
        is_all_up &= !is_for_ever;
        let span = (!is_for_ever).then_some(span);
        let until = span.map(|span| from + span);
        let cable = match below(2) {
            0 => {
                let host = below(8) as u32;
                Links::Between(Node::Host(HostId(host)), switch(host / 4))
            }
            _ => Links::Between(switch(below(2) as u32), spine(&config, below(4) as u32)),
        };
        let switch = match below(2) {
            0 => Links::Of(switch(below(2) as u32)),
            _ => Links::Of(spine(&config, below(4) as u32)),
        };
        let down = |links| Fault::LinksDown { links, from, until };
        let fault = match below(4) {
            0 => down(cable),
            1 => down(switch),
            _ => Fault::Reboot {
                host: below(8) as u32,
                at: from,
                down_for: span,
            },
        };
        config.faults.push(fault);
    }
    let server = [Server::One, Server::SingleThread, Server::MultiThread][below(3) as usize];
    let bytes = [16, 16, 8192][below(3) as usize];
    if seed.is_multiple_of(2) {
        let (host, at) = (below(8) as u32, ms(1 + below(150)));
        let by = match below(3) {
            0 => Slowness::PerMessage(Time::from_microseconds(below(20))),
            _ => Slowness::Factor(0.5 + below(6) as f64),
        };
        config.faults.push(Fault::SlowHost { host, from: at, by });
        if below(2) == 0 {
            is_all_up = false;
            let host = below(8) as u32;
            config.faults.push(Fault::InterfaceDies { host, at });
        }
    }
    (config, server, bytes, is_all_up)
}

fn switch(number: u32) -> Node {
    Node::Switch(SwitchId(number))
}

/// A switch of the spine: they come behind the leaf switches.
fn spine(config: &Config, number: u32) -> Node {
    let leaves = config.hosts.div_ceil(config.network.hosts_a_leaf.into());
    switch(leaves + number)
}

/// Says which seed was run when something panics inside.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}; again: LANAI_SEED={0}", self.0);
        }
    }
}

fn run(seed: u64) -> Ends {
    let _replay = Replay(seed);
    let (config, server, bytes, is_all_up) = draw(seed);
    let faults = config.faults.clone();
    let requests = if bytes > 64 { 300 } else { 2_000 };
    let result = exchange(config, server, CLIENTS, bytes, requests);
    if let Err(wrong) = check(&result, is_all_up) {
        panic!("{wrong}\n{server:?}, {bytes} bytes, {faults:?}");
    }
    result.ends.unwrap_or_default()
}

/// A number of the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a test runs is its caller's choice"
)]
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect(name))
}

/// Of seed 115: a long packet is read out of its host's memory for a host that is down, and leaves
/// when that is there again.
#[test]
fn a_packet_may_wait_for_a_host_to_boot() {
    run(115);
}

#[test]
fn every_request_has_its_reply_or_returns_with_a_reason_under_random_faults() {
    // `LANAI_SEED` runs one seed again, `LANAI_SEEDS` more of them.
    if let Some(seed) = number("LANAI_SEED") {
        println!("{:?}", run(seed));
        return;
    }
    let mut all = Ends::default();
    for seed in 0..number("LANAI_SEEDS").unwrap_or(64) {
        let ends = run(seed);
        all.replied += ends.replied;
        all.refused += ends.refused;
        all.unreachable += ends.unreachable;
        all.rebooted += ends.rebooted;
        all.unanswered += ends.unanswered;
        all.forgotten += ends.forgotten;
        all.late_replies += ends.late_replies;
        all.in_doubt += ends.in_doubt;
    }
    let counted = [
        all.replied,
        all.refused,
        all.unreachable,
        all.rebooted,
        all.unanswered,
        all.forgotten,
        all.late_replies,
        all.in_doubt,
    ];
    assert!(counted.iter().all(|count| *count > 0), "{all:?}");
}

/// Replies a second of a run, of which `faults` disturb a part, and how requests ended.
fn rate(server: Server, faults: Vec<Fault>) -> (f64, Ends) {
    let mut config = Config::am_myrinet(8, 8);
    config.network.hosts_a_leaf = 4;
    // A fault that does nothing: what is counted is the same in all runs.
    config.faults = vec![Fault::Reboot {
        host: 7,
        at: ms(3_600_000),
        down_for: None,
    }];
    config.faults.extend(faults);
    let result = contention(config, server, 6, 16, ms(100), ms(1_900));
    let ends = result.ends.unwrap_or_default();
    assert_eq!(ends.violations, [""; 0]);
    (result.messages_s, ends)
}

#[test]
fn a_server_that_rebooted_serves_again_under_another_key() {
    let reboot = Fault::Reboot {
        host: 0,
        at: ms(200),
        down_for: Some(ms(100)),
    };
    for server in [Server::One, Server::SingleThread, Server::MultiThread] {
        let (undisturbed, ends) = rate(server, Vec::new());
        assert_eq!((ends.in_doubt, ends.refused), (0, 0));
        let (with, ends) = rate(server, vec![reboot]);
        // Down for a twentieth; then clients find out, at the latest by an enquiry each.
        let ratio = with / undisturbed;
        assert!(
            (0.7..0.96).contains(&ratio),
            "{server:?}: {ratio}, {ends:?}"
        );
        assert!(ends.in_doubt > 0 && ends.unreachable == 0, "{ends:?}");
    }
}

#[test]
fn a_client_that_rebooted_goes_on_and_hears_no_reply_of_its_earlier_life() {
    let reboot = Fault::Reboot {
        host: 2,
        at: ms(200),
        down_for: Some(ms(100)),
    };
    let (_, ends) = rate(Server::MultiThread, vec![reboot]);
    assert!((1..=32).contains(&ends.forgotten), "{ends:?}");
    assert_eq!((ends.late_replies, ends.in_doubt), (0, 0), "{ends:?}");
}

#[test]
fn a_switch_of_the_spine_that_is_exchanged_delays_and_nothing_returns() {
    let config = Config::am_myrinet(8, 8);
    let down = |from, until| Fault::LinksDown {
        links: Links::Of(spine(&config, 1)),
        from: ms(from),
        until: Some(ms(until)),
    };
    let (undisturbed, _) = rate(Server::MultiThread, Vec::new());
    // One of four routes: channels that were bound to it go to the next.
    let (with, ends) = rate(Server::MultiThread, vec![down(200, 1_900)]);
    assert!(with > 0.95 * undisturbed, "{with} of {undisturbed}");
    assert_eq!((ends.in_doubt, ends.refused, ends.unreachable), (0, 0, 0));
}

#[test]
fn a_cable_of_the_server_that_is_down_stops_all_for_so_long() {
    let down = Fault::LinksDown {
        links: Links::Between(Node::Host(HostId(0)), switch(0)),
        from: ms(200),
        until: Some(ms(700)),
    };
    let (undisturbed, _) = rate(Server::One, Vec::new());
    let (with, ends) = rate(Server::One, vec![down]);
    let ratio = with / undisturbed;
    // A quarter of the time, and what back-off adds: 64 ms and as much again at most.
    assert!((0.65..0.755).contains(&ratio), "{ratio}");
    assert_eq!((ends.in_doubt, ends.refused), (0, 0), "{ends:?}");
}

#[test]
fn a_server_that_never_comes_back_leaves_no_request_open() {
    let mut config = Config::am_myrinet(8, 8);
    // All endpoints are in their frames by then.
    config.faults = vec![Fault::Reboot {
        host: 0,
        at: ms(25),
        down_for: None,
    }];
    let result = exchange(config, Server::One, 6, 16, 500);
    assert_eq!(check(&result, false), Ok(()));
    let ends = result.ends.unwrap_or_default();
    assert!(ends.unreachable > 0 && ends.unanswered > 0, "{ends:?}");
}

/// An interface dies and its host goes on: what a client has under way comes back, what it asks for
/// later comes back at once, and nobody else notices; a server's clients find that it is silent.
#[test]
fn an_interface_that_dies_leaves_no_request_open() {
    for host in [0, 3] {
        let mut config = Config::am_myrinet(8, 8);
        config.faults = vec![Fault::InterfaceDies { host, at: ms(25) }];
        let result = exchange(config, Server::One, 6, 16, 500);
        assert_eq!(check(&result, false), Ok(()));
        let ends = result.ends.unwrap_or_default();
        assert_eq!((ends.requests, ends.forgotten), (3_000, 0), "{ends:?}");
        assert!(ends.unreachable > 0, "{ends:?}");
        let own: Vec<u64> = result.replies;
        for (client, replies) in (1..).zip(&own) {
            let is_struck = host == 0 || client == host;
            assert_eq!(*replies < 500, is_struck, "{host}: {own:?}");
        }
        if host == 0 {
            assert!(ends.unanswered > 0, "{ends:?}");
        }
    }
}

/// Of a request and its reply a host's processor has one look that finds it, half of it in vain,
/// one message taken and one posted.
#[test]
fn a_slow_processor_slows_its_part_of_a_round_trip() {
    let of = |faults: Vec<Fault>| {
        let config = Config {
            faults,
            ..Config::am_myrinet(2, 8)
        };
        measure(&config).round_trip_us
    };
    let costs = Config::am_myrinet(2, 8).host;
    let part =
        costs.send + costs.receive + Time::from_picoseconds(costs.poll_frame.picoseconds() / 2);
    let (from, usual) = (Time::ZERO, of(Vec::new()));
    for host in [0, 1] {
        let slow = |by| Fault::SlowHost { host, from, by };
        let added = of(vec![slow(Slowness::Factor(3.0))]) - usual;
        assert!(
            (added - 2.0 * part.microseconds_f64()).abs() < 0.01,
            "{host}: {added}"
        );
        let each = slow(Slowness::PerMessage(Time::from_microseconds(5)));
        let added = of(vec![each]) - usual;
        assert!((added - 5.0).abs() < 0.01, "{host}: {added}");
        // These add up.
        let added = of(vec![each, each, slow(Slowness::Factor(2.0))]) - usual;
        let wanted = part.microseconds_f64() + 20.0;
        assert!((added - wanted).abs() < 0.01, "{host}: {added}");
    }
    // The interface has a processor of its own, and nothing is lost that a transport would miss.
    let mut config = Config::gam_myrinet(2);
    let (by, host) = (Slowness::Factor(2.0), 0);
    config.faults = vec![Fault::SlowHost { host, from, by }];
    assert_eq!(config.check_faults(), Ok(()));
}

#[test]
fn equal_faults_strike_equally() {
    let result = |seed| {
        let (config, server, bytes, _) = draw(seed);
        exchange(config, server, CLIENTS, bytes, 200)
    };
    assert_eq!(result(2), result(2));
}
