//! Hosts of several adapters and processors.

use std::sync::Arc;

use viaduct_cluster::adapters::{AdapterChoice, Adapters};
use viaduct_cluster::config::{Arrivals, ClusterConfig, TrafficConfig, UNLIMITED};
use viaduct_cluster::faults::Fault;
use viaduct_cluster::result::RunResult;
use viaduct_cluster::workload::{
    Application, Interval, LocalLink, Pattern, Placement, Protocol, SizeDistribution,
};
use viaduct_engine::Time;
use viaduct_hardware::{HostModel, Rate};
use viaduct_network::Sharing;
use viaduct_operations::collective::{Algorithm, Collective, Request, graph as collective};
use viaduct_operations::{Graph, Operation};
use viaduct_topology::{Ports, RailShape, Topology};

use crate::application::{EAGER, chains, receive, send};
use crate::common::{costly_host, ideal_host, nanoseconds, nic, run, scenario};

const LEVELS: [Sharing; 5] = [
    Sharing::Fluid,
    Sharing::MaxMin,
    Sharing::Queues,
    Sharing::Packets,
    Sharing::Credits,
];

const fn adapters(count: u32, choice: AdapterChoice) -> Adapters {
    Adapters {
        count,
        choice,
        has_own_bus: true,
    }
}

/// Servers with an adapter at each of some leaves, links of 1 Gbit/s.
fn rails(servers: u32, rails: u32, host: HostModel, pattern: Pattern) -> ClusterConfig {
    let shape = RailShape {
        rails,
        servers,
        servers_per_unit: servers,
        spines: 1,
    };
    scenario(Topology::rail(shape).unwrap(), host, pattern)
}

fn on(mut config: ClusterConfig, adapters: Adapters) -> ClusterConfig {
    config.hosts.adapters = adapters;
    config
}

/// A graph on two hosts, of which the links are 1 Gbit/s.
fn graph_on(
    graph: Graph,
    host: HostModel,
    adapters: Adapters,
    (each, local): (u32, Option<LocalLink>),
) -> ClusterConfig {
    let hosts = graph.ranks().div_ceil(each).max(2);
    let mut config = on(
        rails(hosts, adapters.count, host, Pattern::Uniform),
        adapters,
    );
    config.hosts.processes = each;
    config.hosts.prepost = UNLIMITED;
    let protocol = Protocol {
        local,
        adapters,
        ..EAGER
    };
    let made = Application::new(Arc::new(graph), (hosts, each), Placement::Linear, protocol);
    config.run.until = Time::from_seconds_f64(1e6);
    let until = config.run.until;
    config.traffic = TrafficConfig::of_application(Arc::new(made.unwrap()), Time::ZERO, until);
    config
}

fn makespan(config: &ClusterConfig) -> Time {
    run(config).application.unwrap().makespan
}

fn by(operation: Operation, adapter: u8) -> Operation {
    Operation {
        adapter,
        ..operation
    }
}

/// The places whose links a run used, upwards and downwards.
fn used(result: &RunResult) -> (Vec<u32>, Vec<u32>) {
    let places = result.topology.host_count();
    let rows = result.link_rows.iter();
    let links: Vec<u32> = rows
        .filter(|row| row.wire_bytes > 0.0)
        .map(|row| row.link)
        .collect();
    let up = links.iter().copied().filter(|link| *link < places);
    let down = links
        .iter()
        .filter(|link| (places..2 * places).contains(link));
    (up.collect(), down.map(|link| link - places).collect())
}

#[test]
fn a_message_costs_the_same_by_any_adapter_at_every_level() {
    for sharing in LEVELS {
        for host in [ideal_host(), costly_host()] {
            let time = |adapter| {
                let ranks: [&[Operation]; 2] = [
                    &[by(send(5_000, 1), adapter)],
                    &[by(receive(5_000, 0), adapter)],
                ];
                let four = adapters(4, AdapterChoice::Operation);
                let mut config = graph_on(chains(&ranks), host.clone(), four, (1, None));
                config.links.sharing = sharing;
                config.links.frame.payload_bytes = 1_500;
                config.links.frame.header_bytes = 40;
                makespan(&config)
            };
            let first = time(0);
            assert!(first > nanoseconds(40_000));
            for adapter in 1..4 {
                assert_eq!(time(adapter), first, "{sharing:?}, adapter {adapter}");
            }
        }
    }
}

#[test]
fn two_adapters_carry_twice_as_much_at_the_same_latency() {
    let latency = |count, interval_ns: f64| {
        let pairs = Pattern::Pairs(vec![(0, 1)]);
        let config = rails(2, 2, ideal_host(), pairs);
        let mut config = on(config, adapters(count, AdapterChoice::RoundRobin));
        config.traffic.arrivals = Arrivals::Open(Interval::constant(interval_ns * 1e3).unwrap());
        config.traffic.size = SizeDistribution::constant(1_000);
        let result = run(&config);
        let latency = result.latency.unwrap();
        assert_eq!(latency.min_us, latency.max_us);
        (result.messages.delivered, latency.max_us)
    };
    // A message takes its link for 8,000 ns.
    let (one, alone_us) = latency(1, 8_000.0);
    let (two, both_us) = latency(2, 4_000.0);
    assert_eq!(two, 2 * one + 1);
    assert_eq!(both_us, alone_us);
}

#[test]
fn each_choice_takes_the_adapters_that_it_says() {
    let links = |choice, processes| {
        let pairs = Pattern::Pairs(vec![(1, 0)]);
        let mut config = on(rails(3, 2, costly_host(), pairs), adapters(2, choice));
        config.hosts.processes = processes;
        used(&run(&config))
    };
    // Host 0 has places 0 and 1, host 1 places 2 and 3.
    assert_eq!(
        links(AdapterChoice::RoundRobin, 1),
        (vec![2, 3], vec![0, 1])
    );
    assert_eq!(links(AdapterChoice::Process, 1), (vec![2], vec![0]));
    assert_eq!(links(AdapterChoice::Process, 2), (vec![2, 3], vec![0, 1]));
    assert_eq!(links(AdapterChoice::Peer, 2), (vec![2, 3], vec![0, 1]));
    let by_flow = links(AdapterChoice::Flow, 1);
    assert!(by_flow == (vec![2], vec![0]) || by_flow == (vec![3], vec![1]));
}

#[test]
fn adapters_of_the_two_ends_may_differ_and_be_those_of_the_peer() {
    // From the second process of host 0 to the first one of host 1.
    let links = |choice| {
        let ranks: [&[Operation]; 4] = [&[], &[send(64, 2)], &[receive(64, 1)], &[]];
        let local = Some(LocalLink {
            rate: Rate::from_bits_per_second(1e9),
            latency: Time::ZERO,
        });
        let config = graph_on(
            chains(&ranks),
            costly_host(),
            adapters(2, choice),
            (2, local),
        );
        used(&run(&config))
    };
    assert_eq!(links(AdapterChoice::Process), (vec![1], vec![2]));
    assert_eq!(links(AdapterChoice::Peer), (vec![0], vec![2]));
    assert_eq!(links(AdapterChoice::Operation), (vec![0], vec![2]));
}

#[test]
fn flows_are_spread_by_the_seed_and_stay_where_they_are() {
    let bytes_of = |seed| {
        let config = rails(16, 4, ideal_host(), Pattern::AllToAll);
        let mut config = on(config, adapters(4, AdapterChoice::Flow));
        config.run.seed = seed;
        let result = run(&config);
        let (places, rows) = (result.topology.host_count(), result.link_rows.iter());
        let links = rows.take(places as usize);
        let bytes: Vec<f64> = links.map(|row| row.wire_bytes).collect();
        let all: f64 = bytes.iter().sum();
        for adapter in 0..4 {
            let of_adapter: f64 = bytes.iter().skip(adapter).step_by(4).sum();
            assert!(
                (of_adapter / all - 0.25).abs() < 0.08,
                "{adapter}: {bytes:?}"
            );
        }
        bytes
    };
    assert_eq!(bytes_of(1), bytes_of(1));
    assert_ne!(bytes_of(1), bytes_of(2));
}

#[test]
fn adapters_share_the_bus_of_their_host_unless_each_has_its_own() {
    let ranks: [&[Operation]; 2] = [
        &[by(send(100_000, 1), 0), by(send(100_000, 1), 1)],
        &[by(receive(100_000, 0), 0), by(receive(100_000, 0), 1)],
    ];
    for sharing in LEVELS {
        let time = |has_own_bus| {
            let mut host = ideal_host();
            // As fast as a link.
            host.bus.rate = Rate::from_bits_per_second(1e9);
            let two = Adapters {
                has_own_bus,
                ..adapters(2, AdapterChoice::Operation)
            };
            let mut config = graph_on(chains(&ranks), host, two, (1, None));
            config.links.sharing = sharing;
            config.links.frame.payload_bytes = 1_500;
            let result = run(&config);
            assert_eq!(result.buses.count, if has_own_bus { 4 } else { 2 });
            result.application.unwrap().makespan
        };
        // Messages take turns in frames or flow by flow, and the time in which one has the bus.
        let (own, shared) = (time(true), time(false));
        assert!(
            (18..=20).contains(&(shared.picoseconds() * 10 / own.picoseconds())),
            "{sharing:?}: {own} {shared}"
        );
    }
}

#[test]
fn an_idle_adapter_takes_nothing_of_the_bus_that_it_shares() {
    for sharing in LEVELS {
        for processes in [1, 2] {
            let digest = |has_own_bus| {
                // A process of three has an adapter of its own: one or two of three are used.
                let three = Adapters {
                    has_own_bus,
                    ..adapters(3, AdapterChoice::Process)
                };
                let mut config = on(rails(5, 3, costly_host(), Pattern::Uniform), three);
                config.links.sharing = sharing;
                config.links.frame.payload_bytes = 1_500;
                config.hosts.processes = processes;
                config.traffic.arrivals = Arrivals::Open(Interval::exponential(2e8).unwrap());
                config.traffic.size = SizeDistribution::uniform(0, 30_000).unwrap();
                config.run.until = Time::from_milliseconds(20);
                config.traffic.stop = config.run.until;
                let result = run(&config);
                assert!(result.messages.delivered > 400, "{sharing:?}");
                result.digest
            };
            match processes {
                1 => assert_eq!(digest(true), digest(false), "{sharing:?}"),
                _ => assert_ne!(digest(true), digest(false), "{sharing:?}"),
            }
        }
    }
}

#[test]
fn a_host_has_one_pool_of_send_buffers() {
    let ranks: [&[Operation]; 2] = [
        &[by(send(1_000, 1), 0), by(send(1_000, 1), 1)],
        &[by(receive(1_000, 0), 0), by(receive(1_000, 0), 1)],
    ];
    let time = |buffers| {
        let two = adapters(2, AdapterChoice::Operation);
        let mut config = graph_on(chains(&ranks), ideal_host(), two, (1, None));
        config.hosts.send_buffers = buffers;
        makespan(&config)
    };
    assert_eq!(time(2), nanoseconds(8_000));
    assert_eq!(time(1), nanoseconds(16_000));
}

#[test]
fn one_processor_posts_by_all_adapters() {
    // Posts of 1,000 ns each, one behind the other, and two adapters to do the rest.
    let ranks: [&[Operation]; 2] = [
        &[by(send(8, 1), 0), by(send(8, 1), 1)],
        &[by(receive(8, 0), 0), by(receive(8, 0), 1)],
    ];
    let two = adapters(2, AdapterChoice::Operation);
    let config = graph_on(chains(&ranks), costly_host(), two, (1, None));
    let rows = run(&config).application.unwrap().ranks;
    let both = rows[0].messaging;
    let one: [&[Operation]; 2] = [&[send(8, 1)], &[receive(8, 0)]];
    let config = graph_on(chains(&one), costly_host(), two, (1, None));
    let rows = run(&config).application.unwrap().ranks;
    assert_eq!(both, rows[0].messaging + rows[0].messaging);
}

/// A graph on hosts with links of 1 Gbit/s, whose longer messages are asked for.
fn asked_for(graph: Graph, adapters: Adapters, piece_bytes: u32) -> ClusterConfig {
    let mut config = graph_on(graph, ideal_host(), adapters, (1, None));
    let application = config.traffic.application().unwrap();
    let protocol = Protocol {
        eager_bytes: 1_000,
        piece_bytes,
        ..*application.protocol()
    };
    let (graph, hosts) = (Arc::clone(application.graph()), application.made_for());
    let made = Application::new(graph, hosts, Placement::Linear, protocol).unwrap();
    let until = config.run.until;
    config.traffic = TrafficConfig::of_application(Arc::new(made), Time::ZERO, until);
    config
}

#[test]
fn a_striped_message_takes_the_time_of_its_part_by_one_adapter() {
    // A byte takes 8 ns here; of messages of no bytes each takes a picosecond.
    let asked = Time::from_picoseconds(2);
    for (bytes, piece_bytes) in [(100_000, 1 << 30), (100_000, 7_000), (99_998, 1 << 30)] {
        let graph = || chains(&[&[send(bytes, 1)], &[receive(bytes, 0)]]);
        let one = asked_for(graph(), Adapters::ONE, piece_bytes);
        assert_eq!(makespan(&one), asked + nanoseconds(8 * bytes));
        let four = asked_for(graph(), adapters(4, AdapterChoice::Stripe), piece_bytes);
        let result = run(&four);
        let pieces = bytes.div_ceil(piece_bytes.into()).next_multiple_of(4);
        // One after the other by each adapter, all of them full but the last.
        let part = bytes.div_ceil(pieces) * pieces / 4;
        assert_eq!(
            result.application.as_ref().unwrap().makespan,
            asked + nanoseconds(8 * part)
        );
        assert_eq!(result.messages.delivered, pieces + 2);
        assert_eq!(used(&result), ((0..4).collect(), (4..8).collect()));
    }
}

#[test]
fn a_ring_over_four_rails_takes_a_quarter_of_the_time() {
    let time = |adapters| {
        let request = Request::usual(Collective::AllReduce, 8, 1 << 30);
        let graph = collective(&request).unwrap();
        run(&asked_for(graph, adapters, 1 << 30))
            .application
            .unwrap()
            .makespan
    };
    let (one, four) = (
        time(Adapters::ONE),
        time(adapters(4, AdapterChoice::Stripe)),
    );
    // 14 steps of an eighth of the vector, of which each is asked for in two picoseconds.
    let asked = Time::from_picoseconds(14 * 2);
    assert_eq!(one, asked + nanoseconds(14 * (1 << 27) * 8));
    assert_eq!(four, asked + nanoseconds(14 * (1 << 25) * 8));
}

#[test]
fn hierarchical_rings_over_rails_use_the_adapter_of_each_process() {
    // Groups are the processes of a host, and each has an adapter: a ring between hosts is a rail.
    let request = Request {
        algorithm: Algorithm::Hierarchical,
        group_ranks: 4,
        ..Request::usual(Collective::AllReduce, 16, 1 << 20)
    };
    let time = |choice| {
        let local = Some(LocalLink {
            rate: Rate::INFINITE,
            latency: Time::ZERO,
        });
        let graph = collective(&request).unwrap();
        makespan(&graph_on(
            graph,
            ideal_host(),
            adapters(4, choice),
            (4, local),
        ))
    };
    // Between 4 hosts 6 steps of a quarter of a quarter of the vector, all rails at once.
    let rails = nanoseconds(6 * (1 << 16) * 8);
    assert_eq!(time(AdapterChoice::Process), rails);
    assert_eq!(time(AdapterChoice::Peer), rails);
    // By one adapter all four rings go one beside the other.
    assert_eq!(time(AdapterChoice::Operation), rails.saturating_mul(4));
}

#[test]
fn a_receive_that_names_another_adapter_than_its_message_came_by_fails_the_run() {
    let ranks: [&[Operation]; 2] = [&[by(send(8, 1), 1)], &[receive(8, 0)]];
    let two = adapters(2, AdapterChoice::Operation);
    let config = graph_on(chains(&ranks), ideal_host(), two, (1, None));
    let result = viaduct_cluster::run(&config, &mut |_| core::ops::ControlFlow::Continue(()));
    let violations = result.unwrap().violations;
    assert!(
        violations[0].contains("its receive names another"),
        "{violations:?}"
    );
}

#[test]
fn what_no_host_has_is_refused() {
    let refused = |change: fn(&mut ClusterConfig)| {
        let mut config = rails(4, 2, ideal_host(), Pattern::Uniform);
        change(&mut config);
        let result = viaduct_cluster::run(&config, &mut |_| core::ops::ControlFlow::Continue(()));
        result.unwrap_err().to_string()
    };
    let text = refused(|config| config.hosts.adapters.count = 3);
    assert!(text.contains("places for 8 adapters"), "{text}");
    let text = refused(|config| config.hosts.adapters = adapters(2, AdapterChoice::Operation));
    assert!(text.contains("and name none"), "{text}");
    let text = refused(|config| config.hosts.processors = Some(0));
    assert!(text.contains("1 to 1024 processors"), "{text}");

    let two = adapters(2, AdapterChoice::Flow);
    let made = |adapters, by_adapter| {
        let ranks: [&[Operation]; 2] = [&[by(send(8, 1), by_adapter)], &[receive(8, 0)]];
        let protocol = Protocol { adapters, ..EAGER };
        let graph = Arc::new(chains(&ranks));
        let made = Application::new(graph, (2, 1), Placement::Linear, protocol);
        made.unwrap_err().to_string()
    };
    let text = made(adapters(2, AdapterChoice::Operation), 2);
    assert!(
        text.contains("names adapter 2, and each host has 2"),
        "{text}"
    );
    let text = made(two, 1);
    assert!(text.contains("is not \"operation\""), "{text}");
}

#[test]
fn a_pattern_along_the_links_is_between_hosts_whose_adapters_are_at_one_switch() {
    let torus = |places| {
        let network = Topology::torus(&[4, 4], places, Ports(places + 4)).unwrap();
        let config = scenario(network, ideal_host(), Pattern::Neighbours);
        on(config, adapters(2, AdapterChoice::RoundRobin))
    };
    let result = run(&torus(4));
    assert!(result.messages.delivered > 1_000);
    assert_eq!(used(&result).0, (0..64).collect::<Vec<_>>());
    let refused = viaduct_cluster::run(&torus(3), &mut |_| core::ops::ControlFlow::Continue(()));
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("each switch has 3 places"), "{text}");
}

#[test]
fn a_limit_of_processors_is_what_ranks_share() {
    let ranks: [&[Operation]; 2] = [&[Operation::compute(1_000)], &[Operation::compute(1_000)]];
    let time = |processors| {
        let local = Some(LocalLink {
            rate: Rate::INFINITE,
            latency: Time::ZERO,
        });
        let mut config = graph_on(chains(&ranks), ideal_host(), Adapters::ONE, (2, local));
        config.hosts.processors = processors;
        makespan(&config)
    };
    assert_eq!(time(None), nanoseconds(1_000));
    assert_eq!(time(Some(1)), nanoseconds(2_000));
    assert_eq!(time(Some(2)), nanoseconds(1_000));
    assert_eq!(time(Some(7)), nanoseconds(1_000));
}

#[test]
fn computations_of_one_rank_share_its_hosts_processors() {
    let time = |processors| {
        let mut builder = viaduct_operations::Builder::new(2);
        for processor in 0..4 {
            let compute = Operation {
                processor,
                ..Operation::compute(1_000)
            };
            builder.add(compute).unwrap();
        }
        builder.next_rank();
        builder.next_rank();
        let graph = builder.finish();
        let mut config = graph_on(graph, ideal_host(), Adapters::ONE, (1, None));
        config.hosts.processors = processors;
        makespan(&config)
    };
    assert_eq!(time(None), nanoseconds(1_000));
    assert_eq!(time(Some(4)), nanoseconds(1_000));
    assert_eq!(time(Some(3)), nanoseconds(2_000));
    assert_eq!(time(Some(2)), nanoseconds(2_000));
    assert_eq!(time(Some(1)), nanoseconds(4_000));
}

#[test]
fn processes_with_a_processor_each_do_not_wait_to_post() {
    let busy = |processors| {
        let mut host = costly_host();
        host.processor.post = nanoseconds(10_000);
        *nic(&mut host) = *nic(&mut ideal_host());
        let mut config = scenario(
            Topology::single_switch(2, Ports(2)).unwrap(),
            host,
            Pattern::Pairs(vec![(0, 1)]),
        );
        config.hosts.processes = 2;
        config.hosts.processors = processors;
        config.traffic.size = SizeDistribution::constant(8);
        // Both processes post at the same times.
        config.traffic.arrivals = Arrivals::Open(Interval::constant(1e8).unwrap());
        run(&config).latency.unwrap()
    };
    let (one, two) = (busy(Some(1)), busy(Some(2)));
    assert_eq!(busy(None).max_us, one.max_us);
    // Of the two that post at one time the second waits for the first.
    assert!(
        one.max_us - two.max_us > 9.0,
        "{} {}",
        one.max_us,
        two.max_us
    );
}

#[test]
fn all_levels_and_choices_keep_what_every_run_must_keep() {
    let choices = [
        AdapterChoice::Flow,
        AdapterChoice::RoundRobin,
        AdapterChoice::Process,
        AdapterChoice::Peer,
    ];
    let buses = [true, false].map(|own| choices.map(|choice| (choice, own)));
    for sharing in LEVELS {
        for (choice, has_own_bus) in buses.into_iter().flatten() {
            let mut config = on(
                rails(5, 3, costly_host(), Pattern::Uniform),
                adapters(3, choice),
            );
            config.hosts.adapters.has_own_bus = has_own_bus;
            config.links.sharing = sharing;
            config.hosts.processes = 2;
            config.hosts.processors = Some(2);
            config.traffic.arrivals = Arrivals::Open(Interval::exponential(1e8).unwrap());
            config.run.until = Time::from_milliseconds(20);
            config.traffic.stop = config.run.until;
            let result = run(&config);
            assert!(result.messages.delivered > 1_000, "{sharing:?} {choice:?}");
            assert_eq!(result.messages.in_flight, 0);
            assert_eq!(result.digest, run(&config).digest);
        }
    }
}

#[test]
fn a_host_dies_with_all_its_adapters() {
    let at = Time::from_milliseconds(50);
    // Host 1 has places 2 and 3: whichever is named, nothing of it comes by either any more.
    for (fault, is_host) in [
        (Fault::HostDies { host: 2, at }, true),
        (Fault::HostDies { host: 3, at }, true),
        (Fault::NicDies { host: 3, at }, false),
    ] {
        let pattern = Pattern::Pairs(vec![(1, 0)]);
        let mut config = on(
            rails(2, 2, ideal_host(), pattern),
            adapters(2, AdapterChoice::RoundRobin),
        );
        config.faults.push(fault);
        let result = run(&config);
        let bytes_of = |place: u32| {
            let rows = result.link_rows.iter();
            rows.filter(|row| row.link == place)
                .map(|row| row.wire_bytes)
                .sum::<f64>()
        };
        let (first, second) = (bytes_of(2), bytes_of(3));
        assert!(second > 0.0, "{fault:?}: {second} bytes by adapter 1");
        match is_host {
            true => assert!(first < 1.5 * second, "{fault:?}: {first}, {second} bytes"),
            false => assert!(first > 1.5 * second, "{fault:?}: {first}, {second} bytes"),
        }
    }
}
