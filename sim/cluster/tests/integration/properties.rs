//! What holds in every run, over random scenarios.

use std::ops::ControlFlow;

use crate::common::{
    another, costly_host, ideal_host, nanoseconds, nic, run, scenario, set_propagation,
};
use proptest::prelude::*;
use viaduct_cluster::adapters::{AdapterChoice, Adapters};
use viaduct_cluster::background::Background;
use viaduct_cluster::config::{Arrivals, BusLoad, ClusterConfig, UNLIMITED};
use viaduct_cluster::faults::{Fault, Links, Slowness};
use viaduct_cluster::why::{Account, Choice, Fate, NAMED_MAX, StageTime, WhyError, explain};
use viaduct_cluster::workload::{Interval, Pattern, SizeDistribution};
use viaduct_core::ReliabilityLevel;
use viaduct_engine::Time;
use viaduct_hardware::Stage;
use viaduct_hardware::{Completion, HostModel, Mechanism, Rate, Switching};
use viaduct_network::{
    Arrival, Buffers, CongestionControl, FlowControl, Frame, Marking, Queueing, Sharing, WhenFull,
};
use viaduct_topology::{ChainHosts, LinkId, Ports, Topology, TreeShape};

fn topology() -> impl Strategy<Value = Topology> {
    let ports = Ports(64);
    prop_oneof![
        (2_u32..6, 1_u32..3).prop_map(move |(switches, hosts)| {
            Topology::chain(switches, ChainHosts::EverySwitch(hosts), ports).expect("a chain")
        }),
        (2_u32..12).prop_map(move |hosts| Topology::single_switch(hosts, ports).expect("a switch")),
        (prop::collection::vec(2_u32..5, 1..4), 1_u32..3).prop_map(move |(dimensions, hosts)| {
            Topology::mesh(&dimensions, hosts, ports).expect("a mesh")
        }),
        (prop::collection::vec(2_u32..6, 1..4), 1_u32..3).prop_map(move |(dimensions, hosts)| {
            Topology::torus(&dimensions, hosts, ports).expect("a torus")
        }),
        (2_u32..4, 1_u32..4).prop_map(move |(arity, levels)| {
            Topology::fat_tree(TreeShape { arity, levels }, ports).expect("a tree")
        }),
    ]
}

/// Shipped hosts, whose adapters carry messages in every way.
const PRESETS: [&str; 8] = [
    "clan-pio",
    "clan-dma",
    "clan",
    "bvia-myrinet",
    "kvia-myrinet",
    "m-via",
    "m-via-jumbo",
    "rnic-gen4",
];

fn preset(name: &str) -> HostModel {
    let programs = viaduct_scenario::load_programs(name, None, 2);
    programs
        .expect("a preset with a link")
        .host
        .common()
        .clone()
}

fn host() -> impl Strategy<Value = HostModel> {
    let forwarding = prop_oneof![
        Just(Switching::CutThrough),
        Just(Switching::StoreAndForward)
    ];
    let presets: Vec<HostModel> = PRESETS.iter().map(|name| preset(name)).collect();
    let kind = prop_oneof![
        1 => Just(ideal_host()),
        2 => Just(costly_host()),
        3 => prop::sample::select(presets),
    ];
    (kind, forwarding, 1_u32..4, any::<bool>()).prop_map(
        |(mut host, forwarding, moving_per_vi, polls)| {
            if let Mechanism::Native(nic) = &mut host.mechanism {
                nic.forwarding = forwarding;
                if host.name != ideal_host().name {
                    nic.moving_per_vi = moving_per_vi;
                }
            }
            if polls {
                host.completion = Completion::Polling;
                host.processor.polling_delay = nanoseconds(130);
            }
            host
        },
    )
}

fn size() -> impl Strategy<Value = SizeDistribution> {
    prop_oneof![
        (0_u32..70_000).prop_map(SizeDistribution::constant),
        (0_u32..100, 100_u32..70_000)
            .prop_map(|(min, max)| SizeDistribution::uniform(min, max).expect("a range")),
    ]
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    prop_oneof![
        4 => (1e6..1e9).prop_map(|mean: f64| {
            Arrivals::Open(Interval::exponential(mean).expect("a mean"))
        }),
        1 => Just(Arrivals::PingPong),
        2 => (1_u32..6).prop_map(Arrivals::Window),
    ]
}

/// How some hosts differ from the others, if any do.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Every so many-th host is one of them.
    every: usize,
    factor: u64,
    forwarding: Switching,
    moving_per_vi: u32,
    polls: bool,
    has_bus: bool,
}

fn group() -> impl Strategy<Value = Option<Group>> {
    let forwarding = prop_oneof![
        Just(Switching::CutThrough),
        Just(Switching::StoreAndForward)
    ];
    let group = (
        1_usize..4,
        0_u64..5,
        forwarding,
        1_u32..4,
        any::<bool>(),
        any::<bool>(),
    );
    let group = group.prop_map(
        |(every, factor, forwarding, moving_per_vi, polls, has_bus)| Group {
            every,
            factor,
            forwarding,
            moving_per_vi,
            polls,
            has_bus,
        },
    );
    prop::option::of(group)
}

fn set_apart(config: &mut ClusterConfig, group: Option<Group>) {
    let Some(group) = group else { return };
    let mut host = another(config.host.common(), group.factor.max(1));
    if let Mechanism::Native(nic) = &mut host.mechanism {
        nic.forwarding = group.forwarding;
        nic.moving_per_vi = group.moving_per_vi;
        if !group.has_bus {
            host.bus.rate = Rate::INFINITE;
        }
    }
    if group.polls {
        host.completion = Completion::Polling;
    }
    let hosts = config.topology.host_count();
    config
        .host
        .set_group(hosts, (0..hosts).step_by(group.every), host);
}

fn config() -> impl Strategy<Value = ClusterConfig> {
    let pattern = prop_oneof![
        Just(Pattern::Uniform),
        Just(Pattern::AllToAll),
        Just(Pattern::RandomPermutation),
        Just(Pattern::Incast { target: 0 }),
    ];
    let free = |sharing| Just((sharing, Arrival::Free));
    let sharing = prop_oneof![
        free(Sharing::Fluid),
        free(Sharing::MaxMin),
        free(Sharing::Queues),
        free(Sharing::Packets),
        free(Sharing::Credits),
        Just((Sharing::Queues, Arrival::Limits)),
    ];
    let switching = prop_oneof![
        Just(Switching::CutThrough),
        Just(Switching::StoreAndForward)
    ];
    let payload = prop_oneof![Just(0_u32), 64_u32..4_096];
    let links = (
        (sharing, payload),
        switching,
        0_u32..100,
        0_u64..2_000,
        1e8..2e9,
    );
    let hosts = (1_u32..4, 1_u32..6, 1_u32..6, any::<bool>());
    (
        topology(),
        (host(), group()),
        pattern,
        size(),
        arrivals(),
        links,
        hosts,
        any::<u64>(),
    )
        .prop_map(
            |(topology, (host, group), pattern, size, arrivals, links, hosts, seed)| {
                let mut config = scenario(topology, host, pattern);
                set_apart(&mut config, group);
                config.traffic.size = size;
                config.traffic.arrivals = arrivals;
                (
                    (config.links.sharing, config.links.arrival),
                    config.links.switching,
                ) = (links.0.0, links.1);
                config.links.frame.payload_bytes = links.0.1;
                config.links.frame.header_bytes = links.2;
                // As many as end the rings of these networks.
                config.links.credits.channels = 4;
                config.links.credits.classes = 4;
                if seed % 3 == 0 {
                    config.links.credits.flow_control = FlowControl::Wormhole;
                }
                config.links.propagation = nanoseconds(links.3);
                config.links.host_propagation = nanoseconds(links.3 / 2);
                config.links.host_rate = Rate::from_bits_per_second(links.4);
                config.switch.delay = nanoseconds(links.3 / 3);
                config.switch.cut_through_bytes = links.2;
                config.hosts.processes = hosts.0;
                config.hosts.prepost = hosts.1;
                config.hosts.send_buffers = hosts.2;
                if hosts.3 {
                    config.hosts.bus_load = Some(BusLoad {
                        interval: Interval::exponential(3e7).expect("a mean"),
                        size: SizeDistribution::constant(2_048),
                    });
                }
                config.traffic.stop = Time::from_microseconds(2_000);
                config.run.until = Time::from_microseconds(2_500);
                config.run.drain = seed.is_multiple_of(2);
                config.run.events_max = Some(40_000);
                config.run.seed = seed;
                config
            },
        )
}

/// What goes wrong in a cluster of so many hosts within 2.5 ms.
fn fault(hosts: u32) -> impl Strategy<Value = Fault> {
    let at = |microseconds: u64| Time::from_microseconds(microseconds);
    prop_oneof![
        3 => (0.0..0.05).prop_map(|rate| Fault::Loss { links: Links::All, rate }),
        2 => (0.0..0.05).prop_map(|rate| Fault::Corruption { links: Links::All, rate }),
        3 => (0_u32..2 * hosts, 0_u64..2_000, prop::option::of(1_u64..400)).prop_map(
            move |(link, from, lasts)| Fault::LinkDown {
                links: Links::One(LinkId(link)),
                from: at(from),
                until: lasts.map(|lasts| at(from + lasts)),
            }
        ),
        1 => (0..hosts, 0_u64..2_500).prop_map(move |(host, time)| Fault::HostDies { host, at: at(time) }),
        1 => (0..hosts, 0_u64..2_500).prop_map(move |(host, time)| Fault::NicDies { host, at: at(time) }),
        1 => (0..hosts, 0_u64..2_000, 0.5..4.0).prop_map(move |(host, from, factor)| Fault::SlowHost {
            host,
            from: at(from),
            by: Slowness::Factor(factor),
        }),
        1 => (0..hosts, 0_u64..20).prop_map(move |(host, span)| Fault::SlowHost {
            host,
            from: Time::ZERO,
            by: Slowness::PerMessage(at(span)),
        }),
    ]
}

/// Queues of frames that hold so many, at the level of packets, and drop, trim and mark by a
/// number.
fn buffers(frame: Frame, frames_max: Option<u64>, number: u64) -> Buffers {
    let payload = match frame.payload_bytes {
        0 => 1_000,
        payload => payload,
    };
    let full = u64::from(payload + frame.header_bytes);
    Buffers {
        bytes_max: frames_max.map(|frames| frames * full),
        full: match number % 3 {
            0 => WhenFull::Trim,
            _ => WhenFull::Drop,
        },
        marking: frames_max.map(|_| Marking {
            low_bytes: 0,
            high_bytes: 4 * full,
            probability: 0.5,
            control: match number % 4 {
                0 => CongestionControl::None,
                1 => CongestionControl::Nscc,
                _ => CongestionControl::Dcqcn,
            },
        }),
        ..Buffers::default()
    }
}

/// A scenario whose links may have queues of frames that mark, pause, take turns, or trim what
/// finds no room. None loses a message: what held up one behind a lost one is not always told.
fn queued() -> impl Strategy<Value = ClusterConfig> {
    (
        config(),
        prop::option::of(1_u64..12),
        0_u64..12,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(mut config, frames_max, number, is_fair, pauses)| {
            let buffers = &mut config.links.buffers;
            *buffers = self::buffers(config.links.frame, frames_max, number);
            buffers.full = WhenFull::Trim;
            if is_fair {
                buffers.queueing = Queueing::Fair;
            }
            if pauses && frames_max.is_some() {
                buffers.bytes_max = Some(1 << 20);
                buffers.full = WhenFull::Pause {
                    headroom_bytes: None,
                };
            }
            config
        })
}

/// The same with some adapters at each host.
fn several_adapters() -> impl Strategy<Value = ClusterConfig> {
    let choice = prop::sample::select(vec![
        AdapterChoice::Flow,
        AdapterChoice::RoundRobin,
        AdapterChoice::Process,
        AdapterChoice::Peer,
    ]);
    let adapters = (2_u32..5, choice, prop::bool::weighted(0.25));
    let with = |(mut config, (count, choice, has_own_bus)): (ClusterConfig, _)| {
        config.hosts.adapters = Adapters {
            count,
            choice,
            has_own_bus,
        };
        if !has_own_bus {
            // Those of one bus are alike.
            config.host = config.host.common().clone().into();
        }
        config
    };
    let has_places = |config: &ClusterConfig| {
        let (places, count) = (config.topology.host_count(), config.hosts.adapters.count);
        places.is_multiple_of(count) && places > count
    };
    let all = (queued(), adapters).prop_map(with);
    all.prop_filter("places for the adapters of two hosts", has_places)
}

/// A scenario in which something goes wrong, at some level of reliability, beside others' traffic.
fn disturbed() -> impl Strategy<Value = ClusterConfig> {
    let level = prop::sample::select(vec![
        ReliabilityLevel::Unreliable,
        ReliabilityLevel::ReliableDelivery,
        ReliabilityLevel::ReliableReception,
    ]);
    config().prop_flat_map(move |config| {
        let hosts = config.topology.host_count();
        let faults = prop::collection::vec(fault(hosts), 0..4);
        let transport_timeout = 1_u64..300;
        let others = (any::<bool>(), 0..hosts, 1e6..1e8);
        // Frames that the queues of switches hold, at the level of packets.
        let buffer = prop::option::of(1_u64..12);
        (
            Just(config),
            level.clone(),
            faults,
            transport_timeout,
            others,
            buffer,
        )
            .prop_map(
                |(mut config, level, faults, timeout, (has_others, source, mean), buffer)| {
                    config.links.buffers = buffers(config.links.frame, buffer, timeout);
                    config.traffic.reliability = level;
                    config.faults = faults;
                    config.detection.transport_timeout = Time::from_microseconds(timeout);
                    config.detection.host_timeout = Time::from_microseconds(2 * timeout);
                    if has_others && config.topology.host_count() > 1 {
                        config.background = vec![Background {
                            source,
                            target: None,
                            interval: Interval::exponential(mean).expect("a mean"),
                            size: SizeDistribution::constant(3_000),
                            from: Time::ZERO,
                            until: None,
                        }];
                    }
                    config
                },
            )
    })
}

/// In about what time the hosts can send so many messages, were their links always busy. The two
/// ways count events unlike while they run, so their work is bounded by time.
fn time_of_messages(config: &ClusterConfig, messages: u32) -> Time {
    let bytes = config.traffic.size.mean_bytes() + f64::from(config.links.frame.header_bytes);
    let seconds = bytes.max(1.0) * 8.0 / config.links.host_rate.bits_per_second();
    let messages_a_host = f64::from(messages) / f64::from(config.topology.host_count());
    nanoseconds((messages_a_host * seconds * 1e9) as u64)
}

/// What holds of every delivered message's account.
fn check_account(config: &ClusterConfig, account: &Account) -> Result<(), TestCaseError> {
    let sum = |of: fn(&StageTime) -> Time| -> u64 {
        account
            .stages
            .iter()
            .map(|stage| of(stage).picoseconds())
            .sum()
    };
    prop_assert_eq!(sum(|stage| stage.time), account.latency.picoseconds());
    prop_assert_eq!(sum(|stage| stage.alone), account.floor.picoseconds());
    let time_in = |stage: Stage| account.stages[stage as usize].time;
    for wait in &account.waits {
        prop_assert!(wait.messages > 0 && wait.time > Time::ZERO);
        prop_assert_eq!(wait.explained, wait.time, "{:?}", wait);
    }
    let way = &account.way;
    prop_assert_eq!(way.queued, time_in(Stage::Queued));
    prop_assert_eq!(way.moving, time_in(Stage::Transfer) + way.queued);
    let sharing = config.links.sharing;
    let is_fluid = sharing == Sharing::Fluid;
    let is_in_pieces = sharing.goes_in_pieces();
    prop_assert_eq!(way.rest_picoseconds.is_some(), sharing != Sharing::MaxMin);
    prop_assert_eq!(
        way.beside.is_some(),
        is_in_pieces || sharing == Sharing::Queues
    );
    if sharing == Sharing::Queues {
        prop_assert_eq!(way.rest_picoseconds, Some(0), "{:?}", way);
    }
    if let Some(rest) = way.rest_picoseconds {
        // Each place and each hop is rounded; short transactions on buses come on top.
        let rounding = 3 * way.places.len() as i64;
        // Of frames no more is charged than the message took.
        let least = match is_fluid {
            true => 0,
            false => time_in(Stage::Transfer).picoseconds() as i64,
        };
        prop_assert!(rest >= -least - rounding, "{rest} ps are too many: {way:?}");
        let have_no_short = config.host.values().all(|host| {
            let bus = &host.bus;
            [bus.programmed_write, bus.read, bus.write] == [Time::ZERO; 3]
        });
        prop_assert!(
            !have_no_short || rest <= rounding,
            "{rest} ps have no place: {way:?}"
        );
    }
    for place in &way.places {
        prop_assert!(place.shared <= way.moving);
        if is_fluid {
            prop_assert!(place.lost <= Some(place.shared));
        }
        prop_assert_eq!(place.queue.is_some(), is_in_pieces);
        prop_assert!(place.queue.is_none_or(|it| Some(it.paused) <= place.lost));
        prop_assert!(place.longest.len() <= NAMED_MAX);
        let users = place.messages + u64::from(place.device_transfers > 0);
        prop_assert_eq!(users == 0, place.shared == Time::ZERO);
    }
    Ok(())
}

/// What holds of every run, whatever goes wrong in it.
fn check_run(config: &ClusterConfig) -> Result<(), TestCaseError> {
    let first = run(config);
    let again = run(config);
    prop_assert_eq!(first.digest, again.digest);
    prop_assert_eq!(first.messages, again.messages);
    prop_assert_eq!(first.events, again.events);
    let counts = first.messages;
    prop_assert_eq!(
        counts.posted,
        counts.delivered + counts.dropped + counts.in_flight
    );
    let dropped: u64 = first.drops.iter().map(|drops| drops.count).sum();
    prop_assert_eq!(counts.dropped, dropped);
    let mut in_series = (0, 0, 0);
    for row in &first.series {
        in_series.0 += row.posted;
        in_series.1 += row.delivered;
        in_series.2 += row.dropped;
    }
    prop_assert_eq!(in_series, (counts.posted, counts.delivered, counts.dropped));
    let speeds_up = config.faults.iter().any(Fault::speeds_up);
    if let Some(latency) = first.latency.as_ref().filter(|_| !speeds_up) {
        prop_assert!(latency.min_us >= latency.floor_us - 1e-9);
    }
    Ok(())
}

/// What holds of the accounts of some of a run's messages.
fn check_explained(
    mut config: ClusterConfig,
    share: f64,
    are_buses_for_data: bool,
) -> Result<(), TestCaseError> {
    if are_buses_for_data {
        for host in config.host.values_mut() {
            let bus = &mut host.bus;
            (bus.programmed_write, bus.read, bus.write) = (Time::ZERO, Time::ZERO, Time::ZERO);
        }
    }
    // What a run finds wrong with itself is for the test above.
    let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(())).expect("runs");
    let counts = result.messages;
    let number = (share * counts.posted as f64) as u64;
    let choices = [
        Choice::Slowest,
        Choice::Quantile(share),
        Choice::Message(number),
    ];
    for choice in choices {
        let explanation = match explain(&config, choice, &mut |_, _| ControlFlow::Continue(())) {
            Ok(explanation) => explanation,
            Err(WhyError::NothingMeasured) => {
                prop_assert_eq!(counts.delivered, 0);
                continue;
            }
            Err(WhyError::NoSuchMessage { posted, .. }) => {
                prop_assert_eq!((posted, counts.posted), (0, 0));
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        prop_assert_eq!(&explanation.violations, &result.violations);
        prop_assert_eq!(explanation.digest, result.digest);
        prop_assert_eq!(explanation.messages_measured, counts.delivered);
        if let Choice::Message(number) = choice {
            prop_assert_eq!(explanation.message.number, number);
        }
        if let Fate::Delivered(account) = &explanation.fate {
            check_account(&config, account)?;
        }
    }
    Ok(())
}

proptest! {
    // A failure is made smaller for a minute and no longer: a case may take seconds.
    #![proptest_config(ProptestConfig { cases: 160, max_shrink_time: 60_000, ..ProptestConfig::default() })]

    /// `run` in `common` fails on any violation: conservation, rates, floors, stages, completions.
    #[test]
    fn every_run_keeps_its_invariants_and_repeats(config in config()) {
        check_run(&config)?;
    }

    /// The same where links lose and damage messages, hosts die and connections break.
    #[test]
    fn what_goes_wrong_leaves_no_message_unaccounted(config in disturbed()) {
        check_run(&config)?;
    }

    /// A level of reliability costs nothing but acknowledgements while nothing goes wrong: at
    /// reliable delivery none are awaited.
    #[test]
    fn reliable_delivery_is_as_fast_where_nothing_goes_wrong(config in config()) {
        let mut reliable = config.clone();
        reliable.traffic.reliability = ReliabilityLevel::ReliableDelivery;
        reliable.hosts.prepost = UNLIMITED;
        // A run that ends by a number of events would end at two moments.
        let span = time_of_messages(&reliable, 20_000).min(Time::from_microseconds(500));
        (reliable.traffic.stop, reliable.run.until) = (span, span);
        reliable.run.events_max = None;
        let mut unreliable = reliable.clone();
        unreliable.traffic.reliability = ReliabilityLevel::Unreliable;
        // Where hosts cost nothing, the way of unreliable messages has fewer events.
        let (reliable, unreliable) = (run(&reliable), run(&unreliable));
        prop_assert_eq!(reliable.messages, unreliable.messages);
        prop_assert_eq!(reliable.message_rows, unreliable.message_rows);
        prop_assert_eq!(reliable.breakdown, unreliable.breakdown);
    }

    /// Hosts that cost nothing take a way of their own through the code (`direct.rs`). A limit of
    /// messages moving that no VI reaches brings back the stages, and must change nothing.
    #[test]
    fn the_direct_way_gives_the_same_run(
        config in config(),
        cut_through_bytes in 0_u32..200,
        is_near in any::<bool>(),
    ) {
        let mut direct = config;
        let others = !direct.host.are_alike();
        direct.host = ideal_host().into();
        if others {
            let mut slow = ideal_host();
            nic(&mut slow).rate = Rate::from_bits_per_second(3e8);
            let hosts = direct.topology.host_count();
            direct.host.set_group(hosts, (0..hosts).step_by(2), slow);
        }
        direct.links.switching = Switching::CutThrough;
        direct.switch.cut_through_bytes = cut_through_bytes;
        if is_near {
            set_propagation(&mut direct, Time::ZERO);
            direct.switch.delay = Time::ZERO;
        }
        direct.run.until = time_of_messages(&direct, 20_000).min(Time::from_microseconds(500));
        direct.traffic.stop = direct.run.until;
        direct.run.drain = true;
        direct.run.events_max = None;
        let mut staged = direct.clone();
        for host in staged.host.values_mut() {
            nic(host).moving_per_vi = u32::MAX - 1;
        }
        let (direct, staged) = (run(&direct), run(&staged));
        prop_assert_eq!(direct.digest, staged.digest);
        prop_assert_eq!(direct.events, staged.events);
        prop_assert_eq!(direct.messages, staged.messages);
        prop_assert_eq!(direct.breakdown, staged.breakdown);
        prop_assert_eq!(direct.message_rows, staged.message_rows);
        prop_assert_eq!(direct.drops, staged.drops);
        prop_assert_eq!(direct.depths, staged.depths);
    }

    /// Every picosecond of a message is in one stage, every wait has somebody who was ahead, and
    /// what sharing cost is what the places of the route cost together.
    #[test]
    fn a_message_is_explained_to_the_last_picosecond(
        config in queued(),
        share in 0.0..1.0_f64,
        are_buses_for_data in any::<bool>(),
    ) {
        check_explained(config, share, are_buses_for_data)?;
    }

    /// A connection that is given back is made again when it is used, and nobody can tell.
    #[test]
    fn idle_connections_given_back_change_nothing(config in config(), kept in 0_u32..8) {
        let mut giving_back = config.clone();
        giving_back.run.connections_kept = kept;
        let (config, giving_back) = (run(&config), run(&giving_back));
        prop_assert_eq!(config.digest, giving_back.digest);
        prop_assert_eq!(config.events, giving_back.events);
        prop_assert_eq!(config.messages, giving_back.messages);
        prop_assert_eq!(config.breakdown, giving_back.breakdown);
        prop_assert_eq!(config.message_rows, giving_back.message_rows);
        prop_assert_eq!(config.drops, giving_back.drops);
        prop_assert_eq!(config.depths, giving_back.depths);
    }

    #[test]
    fn another_seed_is_another_run(seed in 1_u64..1_000_000) {
        let topology = Topology::single_switch(4, Ports(8)).expect("a switch");
        let mut config = scenario(topology, costly_host(), Pattern::Uniform);
        config.run.until = Time::from_milliseconds(20);
        config.traffic.stop = config.run.until;
        config.run.seed = seed;
        let one = run(&config);
        config.run.seed = seed + 1;
        prop_assert_ne!(one.digest, run(&config).digest);
    }
}

proptest! {
    // A case is two runs of the one and four of the other.
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_time: 60_000, ..ProptestConfig::default() })]

    /// What holds of every run, and of accounts, holds of hosts of several adapters, whether each
    /// has a bus or all of a host share one.
    #[test]
    fn hosts_of_several_adapters_keep_and_explain_it(
        config in several_adapters(),
        share in 0.0..1.0_f64,
        are_buses_for_data in any::<bool>(),
    ) {
        check_run(&config)?;
        check_explained(config, share, are_buses_for_data)?;
    }
}

/// A frame of 94 bytes that came again was the last to come, of a message whose last frame has 14.
#[test]
fn trimmed_frames_that_come_again_are_explained() {
    let topology = Topology::chain(4, ChainHosts::EverySwitch(1), Ports(64)).expect("a chain");
    let mut config = scenario(topology, preset("rnic-gen4"), Pattern::Uniform);
    for host in config.host.values_mut() {
        host.completion = Completion::Polling;
        host.processor.polling_delay = nanoseconds(20);
        let bus = &mut host.bus;
        (bus.programmed_write, bus.read, bus.write) = (Time::ZERO, Time::ZERO, Time::ZERO);
    }
    config.links.sharing = Sharing::Packets;
    config.links.host_rate = Rate::from_bits_per_second(871_255_512.554_964_8);
    set_propagation(&mut config, nanoseconds(803));
    config.links.frame = Frame {
        payload_bytes: 93,
        header_bytes: 1,
    };
    config.links.buffers = Buffers {
        bytes_max: Some(94),
        full: WhenFull::Trim,
        marking: Some(Marking {
            low_bytes: 0,
            high_bytes: 376,
            probability: 0.5,
            control: CongestionControl::None,
        }),
        ..Buffers::default()
    };
    config.switch.delay = nanoseconds(267);
    config.switch.cut_through_bytes = 1;
    config.hosts.prepost = 1;
    config.hosts.send_buffers = 1;
    config.traffic.arrivals = Arrivals::Window(1);
    config.traffic.size = SizeDistribution::constant(6_523);
    config.traffic.stop = Time::from_microseconds(2_000);
    config.run.until = Time::from_microseconds(2_500);
    config.run.events_max = Some(40_000);
    config.run.seed = 5_362_496_502_414_246_392;
    for choice in [Choice::Slowest, Choice::Quantile(0.0), Choice::Message(0)] {
        let explanation = explain(&config, choice, &mut |_, _| ControlFlow::Continue(()));
        let explanation = explanation.expect("a message");
        let Fate::Delivered(account) = &explanation.fate else {
            panic!("it is lost");
        };
        check_account(&config, account).expect("explained");
    }
}
