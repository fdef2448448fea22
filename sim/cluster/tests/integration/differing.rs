//! Hosts that differ: each pays at its own end what its own hardware costs.

use crate::common::{costly_host, nanoseconds, nic, run, scenario, set_propagation};
use viaduct_cluster::bounds::load_bounds;
use viaduct_cluster::config::{Arrivals, ClusterConfig, TrafficConfig};
use viaduct_cluster::workload::{
    Interval, ListedMessage, MessageList, MessageOperation, Pattern, SizeDistribution,
};
use viaduct_cluster::{RunError, floor_latency};
use viaduct_engine::Time;
use viaduct_hardware::{
    BusModel, Completion, HostModel, Mechanism, NicModel, ProcessorModel, Rate, Stage, Switching,
};
use viaduct_network::Sharing;
use viaduct_topology::{ChainHosts, HostId, Ports, Topology};

const LEVELS: [Sharing; 5] = [
    Sharing::Fluid,
    Sharing::MaxMin,
    Sharing::Queues,
    Sharing::Packets,
    Sharing::Credits,
];

/// Another host than the costly one, in each number: its bus is what limits it.
fn modest_host() -> HostModel {
    let mut host = costly_host();
    host.name = "modest".into();
    host.processor = ProcessorModel {
        post: nanoseconds(310),
        reap: nanoseconds(170),
        polling_delay: nanoseconds(90),
        interrupt: nanoseconds(3_000),
        wake_up: nanoseconds(1_300),
    };
    host.completion = Completion::Polling;
    host.bus = BusModel {
        // 12 ns a byte.
        rate: Rate::from_bits_per_second(8e9 / 12.0),
        burst_bytes: 0,
        burst_overhead: Time::ZERO,
        programmed_write: nanoseconds(70),
        read: nanoseconds(230),
        write: nanoseconds(110),
    };
    *nic(&mut host) = NicModel {
        doorbell: nanoseconds(50),
        send_descriptor: nanoseconds(210),
        translate: nanoseconds(40),
        inline_bytes: 64,
        dma_setup: nanoseconds(330),
        moving_per_vi: 3,
        rate: Rate::from_bits_per_second(4e9),
        page_bytes: 1024,
        page_crossing: nanoseconds(700),
        forwarding: Switching::CutThrough,
        receive_match: nanoseconds(190),
        completion: nanoseconds(60),
    };
    host
}

/// Two hosts of each of two models, at the ends of five switches in a row: host 0 and 2 of the
/// first, 1 and 3 of the second; even ones at the beginning.
fn two_models(common: HostModel, odd: HostModel) -> ClusterConfig {
    let topology = Topology::chain(5, ChainHosts::Ends(2), Ports(8)).expect("a chain");
    let mut config = scenario(topology, common, Pattern::Pairs(Vec::new()));
    config.host.set_group(4, [1, 3], odd);
    set_propagation(&mut config, nanoseconds(25));
    config.links.frame.header_bytes = 16;
    config.switch.delay = nanoseconds(500);
    config.switch.cut_through_bytes = 64;
    config
}

/// Hosts at both ends of the row, of all four pairs of models.
const PAIRS: [(u32, u32); 4] = [(0, 2), (0, 3), (1, 2), (1, 3)];

/// The one message that a run carries: its latency, which is its floor but for what adapters do not
/// know yet, and its stages.
fn one(config: &mut ClusterConfig, pair: (u32, u32), bytes: u32) -> (u64, Vec<f64>) {
    let operation = config.traffic.operation;
    let message = ListedMessage {
        time: Time::ZERO,
        source: pair.0,
        target: pair.1,
        bytes,
        operation,
    };
    let list = MessageList::new(&[message], 4, 1).expect("a list");
    config.traffic = TrafficConfig {
        reliability: config.traffic.reliability,
        operation,
        ..TrafficConfig::listed(list.into(), Time::ZERO, Time::from_milliseconds(1))
    };
    let result = run(config);
    assert_eq!(result.messages.delivered, 1);
    let latency = result.message_rows[0].latency.expect("delivered");
    let (source, target) = (HostId(pair.0), HostId(pair.1));
    let floor = floor_latency(config, source, target, bytes, operation);
    match config.host.common().mechanism.is_stateless() {
        true => assert_eq!(
            latency, floor,
            "{pair:?}, {bytes} bytes, {:?}",
            config.links
        ),
        false => assert!(latency >= floor, "{pair:?}"),
    }
    let stages: Vec<f64> = result.breakdown.iter().map(|it| it.mean_us).collect();
    let sum: f64 = stages.iter().sum();
    assert!((sum - latency.microseconds_f64()).abs() < 1e-9);
    (latency.picoseconds(), stages)
}

/// The sum of a message's stages between two native hosts, written out; nanoseconds.
fn by_hand_ns(
    [sender, receiver]: [&HostModel; 2],
    bytes: u32,
    (is_stored, are_frames): (bool, bool),
) -> f64 {
    let ns = |time: Time| time.picoseconds() as f64 / 1e3;
    let adapter = |host: &HostModel| *host.mechanism.native().expect("a native adapter");
    let (s, r) = (adapter(sender), adapter(receiver));
    let n = f64::from(bytes);
    let data = |nic: &NicModel| {
        let translate = if bytes > 0 { ns(nic.translate) } else { 0.0 };
        let setup = if bytes > nic.inline_bytes {
            ns(nic.dma_setup)
        } else {
            0.0
        };
        translate + setup
    };
    let send = ns(sender.processor.post)
        + ns(sender.bus.programmed_write + s.doorbell)
        + ns(sender.bus.read + s.send_descriptor)
        + data(&s);
    let notice = match receiver.completion {
        Completion::Polling => ns(receiver.processor.polling_delay),
        Completion::Interrupt => ns(receiver.processor.interrupt) + ns(receiver.processor.wake_up),
    };
    let receive = ns(receiver.bus.read + r.receive_match)
        + data(&r)
        + ns(receiver.bus.write + r.completion)
        + notice
        + ns(receiver.processor.reap);
    // The slower adapter sets the pace; each stops at its own pages, 64 bytes into the first.
    let a_byte = |rate: Rate| 8e9 / rate.bits_per_second();
    let stops = |nic: &NicModel| {
        let crossings = ((63.0 + n) / f64::from(nic.page_bytes)).floor();
        if bytes > 0 {
            crossings * ns(nic.page_crossing)
        } else {
            0.0
        }
    };
    let adapters = n * a_byte(s.rate).max(a_byte(r.rate)) + stops(&s) + stops(&r);
    let buses = [sender, receiver].map(|host| n * a_byte(host.bus.dma_rate()));
    let link = 8.0 * (n + 16.0);
    let propagation = 6.0 * 25.0;
    if is_stored {
        let ends: f64 = buses.iter().map(|bus| bus.max(adapters).max(link)).sum();
        return send + ends + 4.0 * link + 5.0 * 500.0 + propagation + receive;
    }
    let moving = match are_frames {
        // A slow bus sends a frame, and then another takes it, each as its bytes come.
        true => buses[0].max(adapters).max(link) - link + link.max(buses[1]),
        false => link.max(adapters).max(buses[0]).max(buses[1]),
    };
    let switches = 5.0 * (500.0 + 8.0 * (n + 16.0).min(64.0));
    send + moving + switches + propagation + receive
}

#[test]
fn one_message_costs_the_sum_of_its_stages_between_all_four_pairs() {
    let mut config = two_models(costly_host(), modest_host());
    for bytes in [0, 1, 32, 33, 64, 65, 961, 4_033, 32_768, 65_519] {
        for switching in [Switching::CutThrough, Switching::StoreAndForward] {
            config.links.switching = switching;
            for pair in PAIRS {
                let hosts = [pair.0, pair.1].map(|host| config.host.of(host).clone());
                let is_stored = switching == Switching::StoreAndForward;
                for sharing in LEVELS {
                    config.links.sharing = sharing;
                    let are_frames = matches!(sharing, Sharing::Packets | Sharing::Credits);
                    let hosts = [&hosts[0], &hosts[1]];
                    let by_hand = by_hand_ns(hosts, bytes, (is_stored, are_frames)) * 1e3;
                    let (measured, _) = one(&mut config, pair, bytes);
                    assert!(
                        (measured as f64 - by_hand).abs() <= 16.0,
                        "{bytes} bytes, {pair:?}, {switching:?}, {sharing:?}: {measured} ps, by \
                         hand {by_hand} ps"
                    );
                }
            }
        }
    }
}

/// A shipped host, and the same with other numbers wherever another host may have them.
fn two_of(name: &str) -> [HostModel; 2] {
    let programs = viaduct_scenario::load_programs(name, None, 2);
    let host = programs
        .expect("a preset with a link")
        .host
        .common()
        .clone();
    let other = crate::common::another(&host, 3);
    [host, other]
}

#[test]
fn each_end_pays_what_it_pays_among_its_like() {
    let of_sender = [
        Stage::Post,
        Stage::Software,
        Stage::Doorbell,
        Stage::Descriptor,
    ];
    let of_receiver = [Stage::Notice, Stage::Reap, Stage::Completion];
    let names = [
        "giganet-clan",
        "clan-pio",
        "clan-dma",
        "bvia-myrinet",
        "m-via",
        "rnic-gen4",
    ];
    for name in names {
        let [host, other] = two_of(name);
        let mut config = two_models(host.clone(), other.clone());
        let mut alike = [host, other].map(|host| two_models(host.clone(), host));
        for bytes in [8, 3_000, 30_000] {
            for pair in PAIRS {
                let stages = one(&mut config, pair, bytes).1;
                let group = |host: u32| config.host.group(host);
                let groups = [group(pair.0), group(pair.1)];
                // There the sender's interrupt comes before what completes a message.
                let left_out = usize::from(name == "clan-dma");
                let of_receiver = &of_receiver[..of_receiver.len() - left_out];
                for (end, group) in [of_sender.as_slice(), of_receiver].into_iter().zip(groups) {
                    let own = one(&mut alike[group], pair, bytes).1;
                    for stage in end {
                        assert_eq!(
                            stages[*stage as usize], own[*stage as usize],
                            "{name}, {bytes} bytes, {pair:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_group_of_the_common_hardware_changes_no_bit() {
    let mut config = two_models(costly_host(), costly_host());
    config.traffic.pattern = Pattern::Uniform;
    config.traffic.arrivals = Arrivals::Open(Interval::exponential(3e7).expect("a mean"));
    config.traffic.stop = Time::from_milliseconds(5);
    for sharing in LEVELS {
        config.links.sharing = sharing;
        let with = run(&config);
        let mut without = config.clone();
        without.host = costly_host().into();
        assert_eq!(with.digest, run(&without).digest, "{sharing:?}");
        // One that differs is another run.
        let mut other = config.clone();
        other.host.set_group(4, [2], modest_host());
        assert_ne!(with.digest, run(&other).digest, "{sharing:?}");
    }
}

#[test]
fn a_read_is_asked_by_one_host_and_answered_by_the_other() {
    let mut config = two_models(costly_host(), modest_host());
    config.traffic.operation = MessageOperation::Read;
    config.traffic.reliability = viaduct_core::ReliabilityLevel::ReliableDelivery;
    let [there, back] = [(0, 3), (3, 0)].map(|pair| one(&mut config, pair, 5_000).0);
    // The reader posts; the answer crosses the slow bus either way.
    assert_ne!(there, back);
}

#[test]
fn adapters_that_do_not_understand_each_other_are_refused() {
    let refused = |host: HostModel, other: HostModel| {
        let mut config = two_models(host, other);
        config.traffic.pattern = Pattern::Uniform;
        let run = viaduct_cluster::run(&config, &mut |_| std::ops::ControlFlow::Continue(()));
        match run {
            Err(error @ RunError::Adapters(_)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let [clan, _] = two_of("clan-pio");
    let [myrinet, mut other] = two_of("bvia-myrinet");
    let words = refused(costly_host(), clan.clone());
    assert!(words.contains("other mechanisms"), "{words}");
    if let Mechanism::Firmware(model) = &mut other.mechanism {
        model.packet_bytes += 1;
    }
    let words = refused(myrinet, other);
    assert!(words.contains("packets of other sizes"), "{words}");
    let mut lapped = clan.clone();
    if let Mechanism::RemoteWrites(model) = &mut lapped.mechanism {
        model.slot_bytes += 8;
    }
    let words = refused(clan, lapped);
    assert!(words.contains("slots"), "{words}");
    let [kernel, mut jumbo] = two_of("m-via");
    if let Mechanism::Kernel(model) = &mut jumbo.mechanism {
        model.frame_bytes *= 2;
    }
    let words = refused(kernel, jumbo);
    assert!(words.contains("frames of other sizes"), "{words}");
}

#[test]
fn expected_loads_are_those_of_each_hosts_own_parts() {
    // On a torus all hosts are used alike, and one in four is slow.
    let torus = Topology::torus(&[4, 4], 1, Ports(8)).expect("a torus");
    let mut config = scenario(torus, costly_host(), Pattern::Uniform);
    config.traffic.arrivals = Arrivals::Open(Interval::exponential(1e9).expect("a mean"));
    config.traffic.size = SizeDistribution::constant(1_000);
    let alike = load_bounds(&config).expect("a pattern").expect("open");
    config.host.set_group(16, [3, 7, 11, 15], modest_host());
    let bounds = load_bounds(&config).expect("a pattern").expect("open");
    // Both ends of a message each: data of 12 ns a byte, and short transactions.
    let modest = 2.0 * 12_000.0 + 70.0 + 2.0 * 230.0 + 110.0;
    let costly = 2.0 * 5_000.0 + 300.0 + 2.0 * 600.0 + 200.0;
    let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
    assert!(near(alike.bus.max, costly / 1e6), "{:?}", alike.bus);
    assert!(near(bounds.bus.max, modest / 1e6), "{:?}", bounds.bus);
    let mean = (3.0 * costly + modest) / 4.0 / 1e6;
    assert!(near(bounds.bus.mean, mean), "{:?}", bounds.bus);
    // The costly host's processor is the busier one.
    assert_eq!(bounds.processor.max, alike.processor.max);
    assert!(bounds.processor.mean < alike.processor.mean);
    // A list says who sends: the modest host's bus alone is used by it, and a costly one's.
    let messages: Vec<ListedMessage> = (0..10)
        .map(|number| ListedMessage {
            time: Time::from_microseconds(100 * number),
            source: 3,
            target: 0,
            bytes: 1_000,
            operation: MessageOperation::Send,
        })
        .collect();
    let list = MessageList::new(&messages, 16, 1).expect("a list");
    config.traffic = TrafficConfig::listed(list.into(), Time::ZERO, Time::from_milliseconds(1));
    let listed = load_bounds(&config).expect("a list").expect("a list");
    let list = listed.list.expect("its own time");
    let work = 10.0 * (12_000.0 + 70.0 + 230.0);
    assert_eq!((list.work.picoseconds() as f64 / 1e3).round(), work);
    assert_eq!(list.place, "bus of n3-0-0");
}
