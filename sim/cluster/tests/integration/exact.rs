//! Latencies that can be worked out by hand.

use crate::common::{costly_host, ideal_host, nanoseconds, nic, run, scenario, set_propagation};
use viaduct_cluster::bounds::load_bounds;
use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_cluster::floor_latency;
use viaduct_cluster::workload::MessageOperation;
use viaduct_cluster::workload::{Interval, Pattern, SizeDistribution};
use viaduct_engine::Time;
use viaduct_hardware::{Completion, HostModel, Rate, Switching};
use viaduct_network::{Arrival, Sharing};
use viaduct_topology::{
    ChainHosts, EqualPaths, GraphFormat, GraphRouting, HostId, Ports, Topology, parse_graph,
};

const SIZES: [u32; 9] = [0, 1, 32, 33, 64, 4_032, 4_033, 32_768, 65_519];

/// Five switches in a row, a host at each end: six links.
fn chain(host: HostModel) -> ClusterConfig {
    let topology = Topology::chain(5, ChainHosts::Ends(1), Ports(8)).expect("a chain");
    let mut config = scenario(topology, host, Pattern::Pairs(vec![(0, 1)]));
    set_propagation(&mut config, nanoseconds(25));
    config.links.frame.header_bytes = 16;
    config.switch.delay = nanoseconds(500);
    config.switch.cut_through_bytes = 64;
    config.traffic.arrivals = Arrivals::Window(1);
    config.run.messages_max = Some(1);
    config
}

/// The latency of one message, in picoseconds.
fn measured(config: &ClusterConfig) -> u64 {
    let result = run(config);
    assert_eq!(result.messages.delivered, 1);
    let latency = result.message_rows[0]
        .latency
        .expect("delivered")
        .picoseconds();
    assert_eq!(
        latency,
        floor_latency(
            config,
            HostId(0),
            HostId(1),
            config.traffic.size.max_bytes(),
            MessageOperation::Send,
        )
        .picoseconds()
    );
    let stages: f64 = result.breakdown.iter().map(|stage| stage.mean_us).sum();
    assert!(
        (stages - latency as f64 * 1e-6).abs() < 1e-9,
        "stages add up to {stages} us"
    );
    latency
}

/// The sum for the costly host on the chain, written out; nanoseconds.
fn by_hand_ns(bytes: u32, store_and_forward: bool) -> f64 {
    let n = f64::from(bytes);
    let wire = n + 16.0;
    let send = 1_000.0 + 300.0 + 400.0 + 600.0 + 900.0;
    let receive = 600.0 + 1_100.0 + 250.0 + 200.0 + 5_000.0 + 2_000.0 + 700.0;
    // Translation at both ends for any data, DMA at both ends beyond what comes inline.
    let data = if bytes > 0 { 300.0 } else { 0.0 } + if bytes > 32 { 1_600.0 } else { 0.0 };
    // 8 ns a byte on a link, and in the NIC, where a page crossing stops both ends; buffers begin
    // 64 bytes into a page. The bus, at 5 ns a byte, never limits.
    let link = 8.0 * wire;
    let pages = ((63.0 + n) / 4_096.0).floor() * 3_000.0;
    let nic = 8.0 * n + if bytes > 0 { pages } else { 0.0 };
    let propagation = 6.0 * 25.0;
    if store_and_forward {
        // The NICs limit the first and the last link; every switch adds its delay.
        let moving = 2.0 * link.max(nic) + 4.0 * link;
        return send + data + moving + 5.0 * 500.0 + propagation + receive;
    }
    let switches = 5.0 * (500.0 + 8.0 * wire.min(64.0));
    send + data + link.max(nic) + switches + propagation + receive
}

#[test]
fn one_message_costs_the_sum_of_its_stages() {
    for bytes in SIZES {
        for switching in [Switching::CutThrough, Switching::StoreAndForward] {
            let mut config = chain(costly_host());
            config.traffic.size = SizeDistribution::constant(bytes);
            config.links.switching = switching;
            let by_hand = by_hand_ns(bytes, switching == Switching::StoreAndForward) * 1e3;
            let all = [
                (Sharing::Fluid, Arrival::Free),
                (Sharing::MaxMin, Arrival::Free),
                (Sharing::Queues, Arrival::Free),
                (Sharing::Queues, Arrival::Limits),
                (Sharing::Packets, Arrival::Free),
                (Sharing::Credits, Arrival::Free),
            ];
            for (sharing, arrival) in all {
                (config.links.sharing, config.links.arrival) = (sharing, arrival);
                let measured = measured(&config) as f64;
                assert!(
                    (measured - by_hand).abs() <= 12.0,
                    "{bytes} bytes, {switching:?}, {sharing:?}, {arrival:?}: {measured} ps, by hand \
                     {by_hand} ps"
                );
            }
        }
    }
}

#[test]
fn a_nic_that_stores_messages_pays_for_its_buses() {
    let bytes = 1_000;
    let mut config = chain(costly_host());
    nic(config.host.common_mut()).forwarding = Switching::StoreAndForward;
    config.traffic.size = SizeDistribution::constant(bytes);
    // The NIC moves bytes at 8 ns, on its bus as on the link: the message is paid twice more.
    let by_hand = by_hand_ns(bytes, false) + 2.0 * 8.0 * f64::from(bytes);
    let measured = measured(&config) as f64;
    assert!(
        (measured - by_hand * 1e3).abs() <= 12.0,
        "{measured} ps, by hand {by_hand} ns"
    );
}

#[test]
fn polling_costs_its_delay_in_place_of_the_interrupt() {
    let mut config = chain(costly_host());
    config.host.common_mut().completion = Completion::Polling;
    config.host.common_mut().processor.polling_delay = nanoseconds(150);
    let by_hand = by_hand_ns(1_000, false) - 7_000.0 + 150.0;
    assert!((measured(&config) as f64 - by_hand * 1e3).abs() <= 12.0);
}

#[test]
fn short_transactions_of_a_bus_without_a_bound_cost_nothing() {
    let mut config = chain(costly_host());
    config.host.common_mut().bus.rate = Rate::INFINITE;
    let with = measured(&config);
    let bus = &mut config.host.common_mut().bus;
    (bus.programmed_write, bus.read, bus.write) = (Time::ZERO, Time::ZERO, Time::ZERO);
    assert_eq!(measured(&config), with);
}

#[test]
fn an_ideal_host_leaves_the_links_alone() {
    let mut config = chain(ideal_host());
    config.links.frame.header_bytes = 0;
    config.switch.cut_through_bytes = 0;
    config.traffic.size = SizeDistribution::constant(1_250);
    // 10 us of bytes, 2.5 us of switches, 0.15 us of cable.
    assert_eq!(measured(&config), 12_650_000);
}

#[test]
fn two_senders_to_one_receiver_get_half_each() {
    let topology = Topology::single_switch(3, Ports(8)).expect("a switch");
    let pattern = Pattern::Pairs(vec![(0, 2), (1, 2)]);
    let mut config = scenario(topology, ideal_host(), pattern);
    config.traffic.arrivals = Arrivals::Window(1);
    config.traffic.stop = Time::from_picoseconds(1);
    let result = run(&config);
    assert_eq!(result.messages.delivered, 2);
    // 1000 bytes at half of 1 Gbit/s.
    assert!(
        result
            .message_rows
            .iter()
            .all(|row| row.latency == Some(nanoseconds(16_000)))
    );
}

/// Poisson arrivals over one link at load `load`: many VIs, or one.
fn one_link(
    sharing: Sharing,
    load: f64,
    processes: u32,
    size: SizeDistribution,
    moving_per_vi: u32,
) -> f64 {
    let topology = Topology::single_switch(2, Ports(8)).expect("a switch");
    let mut config = scenario(topology, ideal_host(), Pattern::Pairs(vec![(0, 1)]));
    config.links.sharing = sharing;
    let service_ps = size.mean_bytes() * 8e3;
    let interval = service_ps / load * f64::from(processes);
    config.traffic.arrivals = Arrivals::Open(Interval::exponential(interval).expect("a mean"));
    config.traffic.size = size;
    nic(config.host.common_mut()).moving_per_vi = moving_per_vi;
    config.hosts.processes = processes;
    config.hosts.prepost = 4;
    config.hosts.send_buffers = 10_000;
    config.traffic.stop = Time::from_seconds_f64(2.0);
    config.run.until = Time::from_seconds_f64(2.0);
    let result = run(&config);
    assert_eq!(result.messages.dropped, 0);
    result.latency.expect("messages").mean_us.mean / (service_ps * 1e-6)
}

#[test]
fn many_vis_on_a_link_are_a_processor_sharing_queue() {
    // M/G/1-PS: the mean is E[S] / (1 - load), whatever the distribution of S.
    for (load, tolerance) in [(0.3, 0.02), (0.7, 0.06)] {
        let sizes = [
            SizeDistribution::constant(1_000),
            SizeDistribution::uniform(100, 1_900).expect("a range"),
            SizeDistribution::log_normal(1_000.0, 1.0, 60_000).expect("a distribution"),
        ];
        for size in sizes {
            for sharing in [Sharing::Fluid, Sharing::Queues] {
                let ratio = one_link(sharing, load, 400, size.clone(), u32::MAX);
                let expected = 1.0 / (1.0 - load);
                assert!(
                    (ratio / expected - 1.0).abs() < tolerance,
                    "{size:?} at {load}, {sharing:?}: {ratio}, theory {expected}"
                );
            }
        }
    }
}

#[test]
fn one_vi_is_a_first_come_first_served_queue() {
    // M/D/1: waiting is load / (2 (1 - load)) service times.
    for (load, tolerance) in [(0.3, 0.02), (0.7, 0.06)] {
        // Where each queue is by itself, messages of one VI are in turn in its subqueue.
        let of_links = (Sharing::Fluid, 1);
        let (queues, packets) = ((Sharing::Queues, u32::MAX), (Sharing::Packets, u32::MAX));
        for (sharing, moving) in [of_links, queues, packets] {
            let ratio = one_link(sharing, load, 1, SizeDistribution::constant(1_000), moving);
            let expected = 1.0 + load / (2.0 * (1.0 - load));
            assert!(
                (ratio / expected - 1.0).abs() < tolerance,
                "{load}, {sharing:?}: {ratio}, {expected}"
            );
        }
    }
}

#[test]
fn a_faster_host_link_is_not_the_limit() {
    let mut config = chain(ideal_host());
    config.links.frame.header_bytes = 0;
    config.switch.cut_through_bytes = 0;
    config.links.host_rate = Rate::from_bits_per_second(1e10);
    config.traffic.size = SizeDistribution::constant(1_250);
    assert_eq!(measured(&config), 12_650_000);
}

/// Where switches hold back what they need of each message, and links have two rates: what one
/// alone takes by hand, at every level.
#[test]
fn a_fast_link_catches_up_with_what_switches_before_it_held_back() {
    // 1,000 bytes take 2 and 8 us. Six cables and five switches take 2.65 us.
    let (fast, slow) = (4e9, 1e9);
    let fixed = 2_650_000;
    // The rates of hosts and between switches, bytes that are held back, and nanoseconds of it all:
    // of bytes that go one by one, and of a frame.
    for (hosts, between, cut, bytes_ns, frame_ns) in [
        // One fast link and three slow ones hold back 32 + 3 x 128 ns. The last switch does, too,
        // but the last link, which is fast, has caught up long before the last byte comes.
        (fast, slow, 16, 8_416, 8_416),
        // It has not where so much is held back: 1.8 + 4 x 7.2 us, and then its own 2 us.
        (fast, slow, 900, 32_600, 32_600),
        // What is caught up is held back again before a slow link: 128 + 4 x 32 ns. Of a frame so
        // much is that the fast link does not run out of it: 6 us in place of the 128 ns.
        (slow, fast, 16, 8_256, 14_128),
        (slow, slow, 16, 8_640, 8_640),
    ] {
        for (sharing, arrival) in LEVELS {
            let mut config = chain(ideal_host());
            (config.links.sharing, config.links.arrival) = (sharing, arrival);
            config.links.frame.header_bytes = 0;
            config.links.host_rate = Rate::from_bits_per_second(hosts);
            config.links.rate = Rate::from_bits_per_second(between);
            config.switch.cut_through_bytes = cut;
            config.traffic.size = SizeDistribution::constant(1_000);
            let alone = match sharing {
                Sharing::Packets | Sharing::Credits => frame_ns,
                _ => bytes_ns,
            };
            let found = measured(&config) - fixed;
            let level = (sharing, arrival);
            assert_eq!(found, 1_000 * alone, "{level:?} {hosts} {between} {cut}");
        }
    }
}

const LEVELS: [(Sharing, Arrival); 6] = [
    (Sharing::Fluid, Arrival::Free),
    (Sharing::MaxMin, Arrival::Free),
    (Sharing::Queues, Arrival::Free),
    (Sharing::Queues, Arrival::Limits),
    (Sharing::Packets, Arrival::Free),
    (Sharing::Credits, Arrival::Free),
];

/// What a fast link has caught up with is held back again where a slow bus takes it.
#[test]
fn nothing_is_caught_up_with_before_a_slow_bus() {
    for (sharing, arrival) in &LEVELS[..4] {
        let mut host = ideal_host();
        host.bus.rate = Rate::from_bits_per_second(1e9);
        let mut config = chain(host);
        (config.links.sharing, config.links.arrival) = (*sharing, *arrival);
        config.links.frame.header_bytes = 0;
        config.links.host_rate = Rate::from_bits_per_second(4e9);
        config.links.rate = Rate::from_bits_per_second(1e9);
        config.switch.cut_through_bytes = 16;
        config.traffic.size = SizeDistribution::constant(1_000);
        // 8 us for the bytes, 32 + 4 x 128 ns held back, and 2.65 us of cables and switches.
        assert_eq!(measured(&config), 8_544_000 + 2_650_000, "{sharing:?}");
    }
}

/// Two messages share the fast link to their host: what each waits for there, it has not caught up
/// with.
#[test]
fn a_message_is_there_when_its_last_queue_has_served_it() {
    let star = "hosts a b c\na s rate=\"1 Gbit/s\"\nb s rate=\"1 Gbit/s\"\nc s rate=\"2 Gbit/s\"\n";
    for arrival in [Arrival::Free, Arrival::Limits] {
        let topology = parse_graph(
            star,
            GraphFormat::EdgeList,
            GraphRouting::ShortestPath(EqualPaths::Single),
        )
        .unwrap();
        let pairs = Pattern::Pairs(vec![(0, 2), (1, 2)]);
        let mut config = scenario(topology, ideal_host(), pairs);
        set_propagation(&mut config, nanoseconds(1_000));
        (config.links.sharing, config.links.arrival) = (Sharing::Queues, arrival);
        config.links.frame.header_bytes = 0;
        config.switch.delay = Time::ZERO;
        config.switch.cut_through_bytes = 16;
        config.traffic.size = SizeDistribution::constant(1_000);
        config.traffic.arrivals = Arrivals::Open(Interval::constant(1e8).unwrap());
        config.run.until = nanoseconds(150_000);
        config.traffic.stop = config.run.until;
        let result = run(&config);
        // Both heads go on after 16 bytes, 128 ns, each gets 1 Gbit/s, 8 us, and cables take 2 us.
        let latencies = result.message_rows.iter().map(|row| row.latency);
        assert_eq!(
            Vec::from_iter(latencies),
            [Some(nanoseconds(10_128)); 2],
            "{arrival:?}"
        );
    }
}

#[test]
fn messages_that_wait_for_a_buffer_keep_their_numbers() {
    for host in [costly_host(), ideal_host()] {
        let topology = Topology::single_switch(4, Ports(8)).expect("a switch");
        let mut config = scenario(topology, host, Pattern::Uniform);
        config.hosts.send_buffers = 1;
        let interval = Interval::exponential(1e7).expect("a mean");
        config.traffic.arrivals = Arrivals::Open(interval);
        config.traffic.stop = Time::from_microseconds(500);
        config.run.until = config.traffic.stop;
        let mut rows = run(&config).message_rows;
        let waited = rows.iter().filter(|row| row.latency.is_some()).count();
        assert!(waited > 100, "{waited} messages");
        rows.sort_by_key(|row| row.message);
        let numbers: Vec<u64> = rows.iter().map(|row| row.message).collect();
        assert_eq!(numbers, (0..rows.len() as u64).collect::<Vec<_>>());
        assert!(rows.is_sorted_by_key(|row| row.posted));
    }
}

#[test]
fn a_ring_that_is_routed_by_rule_may_have_a_slow_link() {
    let ring = "hosts a b c d e\na v\nb w\nc x\nd y\ne z\n\
                v w\nw x\nx y rate=\"100 Mbit/s\"\ny z\nz v\n";
    let topology = parse_graph(ring, GraphFormat::EdgeList, GraphRouting::Rule).unwrap();
    let mut config = scenario(topology, ideal_host(), Pattern::Uniform);
    config.traffic.arrivals = Arrivals::Open(Interval::constant(1e9).unwrap());
    config.run.until = nanoseconds(100_000_000);
    let result = run(&config);
    assert!(result.messages.delivered >= 490);
    let saturation = load_bounds(&config).unwrap().unwrap().saturation.unwrap();
    assert!(
        ["link x -> y", "link y -> x"].contains(&&*saturation.place),
        "{}",
        saturation.place
    );
}

/// The utilisation of the link from host 0, by messages of 8 us posted every 10 us from 0 on, and
/// the simulated time, in microseconds.
fn used(until_us: u64, change: impl Fn(&mut ClusterConfig)) -> (f64, f64) {
    let topology = Topology::single_switch(2, Ports(2)).expect("a switch");
    let mut config = scenario(topology, ideal_host(), Pattern::Pairs(vec![(0, 1)]));
    config.traffic.size = SizeDistribution::constant(1_000);
    config.traffic.arrivals = Arrivals::Open(Interval::constant(1e7).expect("a mean"));
    config.run.until = Time::from_microseconds(until_us);
    config.traffic.stop = config.run.until;
    change(&mut config);
    let result = run(&config);
    let used = result.link_rows[0].utilisation;
    (used, result.simulated.microseconds_f64())
}

#[test]
fn utilisation_is_of_the_time_that_was_simulated() {
    // Posted at 10, 20, 30 and 40 us; the last one is under way at 45 us, and 100 us on a cable.
    let (drained, until) = used(45, |config| set_propagation(config, nanoseconds(100_000)));
    assert!((drained - 29.0 / 45.0).abs() < 1e-9, "{drained}");
    assert_eq!(until, 45.0);
    // Nothing happens from 38 us to 39 us.
    let (cut, until) = used(39, |config| config.run.drain = false);
    assert!((cut - 24.0 / 39.0).abs() < 1e-9, "{cut}");
    assert_eq!(until, 39.0);
    // The second message is there at 28 us.
    let (counted, until) = used(1_000, |config| config.run.messages_max = Some(2));
    assert!((counted - 16.0 / 28.0).abs() < 1e-9, "{counted}");
    assert_eq!(until, 28.0);
}
