//! Frames that take ways of their own over trees: the bound of a permutation, even use of all ways.

use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_network::fluid::ResourceId;
use viaduct_network::{
    Arrival, Buffers, CreditLinks, Frame, LinkConfig, Network, Rate, Sharing, SwitchModel,
    Switching,
};
use viaduct_topology::{ClosShape, Detours, DragonflyShape, EqualPaths, LinkId, Topology};

use crate::common::{NO_BUSES, carry_or_lose, transfer};

const FRAME: u32 = 1_000;
/// Picoseconds of a frame on a link.
const SERVICE: u64 = 80_000;
const CABLE: Time = Time::from_picoseconds(1_000_000);

/// Links of 100 Gbit/s and 1 us, with queues of a size.
fn network(topology: &Arc<Topology>, bytes_max: Option<u64>) -> Network {
    network_at(Sharing::Packets, CABLE, topology, bytes_max)
}

/// The same at some level, with other cables.
fn network_at(
    sharing: Sharing,
    cable: Time,
    topology: &Arc<Topology>,
    bytes_max: Option<u64>,
) -> Network {
    let rate = Rate::from_bits_per_second(100e9);
    let links = LinkConfig {
        sharing,
        arrival: Arrival::default(),
        switching: Switching::StoreAndForward,
        rate,
        host_rate: rate,
        propagation: cable,
        host_propagation: cable,
        frame: Frame {
            payload_bytes: FRAME,
            header_bytes: 0,
        },
        buffers: Buffers {
            bytes_max,
            ..Buffers::default()
        },
        credits: CreditLinks::default(),
    };
    let switch = SwitchModel {
        delay: Time::ZERO,
        cut_through_bytes: 0,
    };
    let mut network = Network::new(topology, &links, switch, NO_BUSES, false);
    network.set_seed(1);
    network
}

fn clos(equal_paths: EqualPaths) -> Arc<Topology> {
    let shape = ClosShape {
        radix: 8,
        tiers: 3,
        oversubscription: 1,
        pods: None,
    };
    let clos = Topology::clos(shape).unwrap();
    Arc::new(clos.with_equal_paths(equal_paths))
}

/// When messages of so many frames are there that begin at once, picoseconds.
fn run(network: &mut Network, ends: &[(u32, u32)], frames: u32) -> Vec<u64> {
    let sends = ends.iter().enumerate();
    let sends: Vec<_> = sends
        .map(|(tag, ends)| (0, transfer(*ends, frames * FRAME, tag)))
        .collect();
    let (there, losses) = carry_or_lose(network, &sends);
    assert!(losses.iter().all(Option::is_none));
    there.iter().map(|it| it.0.picoseconds()).collect()
}

/// Each host sends to one, and each is sent to, most of them in another pod.
fn permutation(hosts: u32) -> Vec<(u32, u32)> {
    (0..hosts)
        .map(|host| (host, (host * 5 + hosts / 2 + 1) % hosts))
        .filter(|(source, target)| source != target)
        .collect()
}

#[test]
fn a_permutation_over_a_tree_takes_its_bound_where_frames_take_ways_of_their_own() {
    const FRAMES: u32 = 2_000;
    for equal_paths in [EqualPaths::Spray, EqualPaths::LeastQueued] {
        let topology = clos(equal_paths);
        let hosts = topology.host_count();
        let alone = run(&mut network(&topology, None), &[(0, hosts - 1)], FRAMES)[0];
        // Six links, and each frame is stored in five switches.
        assert_eq!(alone, (u64::from(FRAMES) + 5) * SERVICE + 6_000_000);
        let mut loaded = network(&topology, None);
        let there = run(&mut loaded, &permutation(hosts), FRAMES);
        // A frame meets at most one of each flow of its pod in each of four queues.
        let last = *there.iter().max().unwrap();
        assert!(last <= alone + 4 * 15 * SERVICE, "{last} of {alone}");
        for link in 0..topology.link_count() {
            let most = loaded.queue_max_bytes(ResourceId(link));
            assert!(most <= 16 * u64::from(FRAME), "{link}: {most}");
        }
        // With one way for each flow some share links.
        let topology = clos(EqualPaths::Hash);
        let there = run(&mut network(&topology, None), &permutation(hosts), FRAMES);
        assert!(*there.iter().max().unwrap() > 2 * alone);
    }
}

#[test]
fn the_frames_of_a_flow_take_each_way_over_a_tree_as_often() {
    let topology = clos(EqualPaths::Spray);
    let mut network = network(&topology, None);
    // Four aggregation switches, and four core switches above each: three frames on each way, in
    // two messages.
    let ends = (0, topology.host_count() - 1);
    let sends = [25, 23].map(|frames| (0, transfer(ends, frames * FRAME, 0)));
    carry_or_lose(&mut network, &sends);
    network.credit_all(Time::from_milliseconds(1));
    let mut carried: Vec<u64> = (0..topology.link_count())
        .map(|link| network.carried(LinkId(link).into()).round() as u64 / u64::from(FRAME))
        .filter(|frames| *frames > 0)
        .collect();
    carried.sort_unstable();
    // The hosts' links, four up and four down again, sixteen to the core and from there.
    let expected = [vec![3; 32], vec![12; 8], vec![48; 2]].concat();
    assert_eq!(carried, expected);
}

#[test]
fn a_flow_alone_takes_as_long_over_many_ways_as_over_one() {
    for sharing in [Sharing::Packets, Sharing::Credits] {
        let last = |equal_paths| {
            let topology = clos(equal_paths);
            let mut network = network_at(sharing, CABLE, &topology, None);
            run(&mut network, &[(3, 100)], 77)[0]
        };
        let hash = last(EqualPaths::Hash);
        assert_eq!(last(EqualPaths::Spray), hash);
        assert_eq!(last(EqualPaths::LeastQueued), hash);
    }
}

#[test]
fn a_switch_that_looks_at_its_queues_keeps_clear_of_the_full_ones() {
    // One leaf with three hosts, two links up, and three frames at once.
    let topology = Topology::leaf_spine(6, 3, 2).unwrap();
    let waits = |sharing, equal_paths, cable| {
        let topology = Arc::new(topology.clone().with_equal_paths(equal_paths));
        let mut network = network_at(sharing, cable, &topology, None);
        // Messages of one frame: each begins with a way that is drawn.
        let sends: Vec<_> = (0..600_u64)
            .map(|number| {
                let source = (number % 3) as u32;
                let at = number / 3 * SERVICE * 3;
                (at, transfer((source, 3 + source), FRAME, number as usize))
            })
            .collect();
        let (there, _) = carry_or_lose(&mut network, &sends);
        let latencies = there.iter().zip(&sends);
        let latency = |((there, _), (at, _)): (&(Time, Time), &(u64, _))| there.picoseconds() - at;
        latencies.map(latency).sum::<u64>() / 600
    };
    // One of the three waits for one other. By chance it does three times of four, else one waits
    // for one and another one for two: half a frame on average, with a deviation of a fiftieth.
    let unloaded = 4 * SERVICE + 4_000_000;
    for (equal_paths, least, most) in [
        (EqualPaths::LeastQueued, SERVICE / 3, SERVICE / 3),
        (EqualPaths::Spray, SERVICE * 11 / 25, SERVICE * 14 / 25),
    ] {
        let expected = unloaded + least..=unloaded + most;
        let waited = waits(Sharing::Packets, equal_paths, CABLE);
        assert!(expected.contains(&waited), "{equal_paths:?}: {waited}");
        // With credits a frame is in the queue until its credits are back, here before the next
        // three frames come.
        let short = Time::from_picoseconds(10_000);
        let waited = waits(Sharing::Credits, equal_paths, short) + 4 * (1_000_000 - 10_000);
        assert!(
            expected.contains(&waited),
            "credits, {equal_paths:?}: {waited}"
        );
    }
}

#[test]
fn with_credits_a_permutation_over_a_tree_is_done_sooner_by_ways_of_frames() {
    const FRAMES: u32 = 500;
    let last = |equal_paths| {
        let topology = clos(equal_paths);
        let hosts = topology.host_count();
        let mut network = network_at(Sharing::Credits, CABLE, &topology, None);
        let there = run(&mut network, &permutation(hosts), FRAMES);
        assert!(network.deadlock().is_none());
        *there.iter().max().unwrap() as f64 / (u64::from(FRAMES) * SERVICE) as f64
    };
    let (by_queue, spray, hash) = (
        last(EqualPaths::LeastQueued),
        last(EqualPaths::Spray),
        last(EqualPaths::Hash),
    );
    // What is in front of a buffer holds up what is behind it, so that a link carries a bit more
    // than half of its rate (Karol, Hluchyj and Morgan, 1987).
    let told = format!("{by_queue}, {spray}, {hash}");
    assert!(by_queue > 1.0 && by_queue < 1.0 / 0.5, "{told}");
    assert!(by_queue < spray && hash > 2.0 * spray, "{told}");
}

#[test]
fn equal_seeds_give_equal_ways_and_others_others() {
    let topology = clos(EqualPaths::Spray);
    let ends = permutation(topology.host_count());
    let of = |seed| {
        let mut network = network(&topology, None);
        network.set_seed(seed);
        run(&mut network, &ends, 40)
    };
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
}

/// A dragonfly of nine groups of eight hosts, each two groups of which have one link between them.
fn dragonfly(detours: Detours, equal_paths: EqualPaths) -> Arc<Topology> {
    let shape = DragonflyShape {
        hosts_per_switch: 2,
        switches_per_group: 4,
        global_links: 2,
        groups: 9,
    };
    let topology = Topology::dragonfly(shape).unwrap();
    let topology = topology.with_detours(detours);
    Arc::new(topology.with_equal_paths(equal_paths))
}

/// Each host sends to one of the next group.
fn to_the_next_group(hosts: u32) -> Vec<(u32, u32)> {
    (0..hosts).map(|host| (host, (host + 8) % hosts)).collect()
}

#[test]
fn traffic_that_all_wants_one_link_goes_around_it() {
    const FRAMES: u64 = 1_000;
    // How long all frames of a host take on its link, so often, until the last host is done.
    let times = |detours, equal_paths| {
        let topology = dragonfly(detours, equal_paths);
        let ends = to_the_next_group(topology.host_count());
        let there = run(&mut network(&topology, None), &ends, FRAMES as u32);
        let last = there.into_iter().max().unwrap();
        last as f64 / (FRAMES * SERVICE) as f64
    };
    for equal_paths in [EqualPaths::Spray, EqualPaths::LeastQueued] {
        // Eight hosts of a group share one link: 1/8 of their rate, and what the way takes.
        let shortest = times(Detours::Never, equal_paths);
        assert!((8.0..8.1).contains(&shortest), "{shortest}");
        // Over two links between groups in place of one each frame finds half the rate at most.
        let detours = times(Detours::Always, equal_paths);
        assert!((2.0 * 7.0 / 8.0..2.2).contains(&detours), "{detours}");
        let by_all = times(Detours::ByAllQueues, equal_paths);
        assert!(by_all < 1.25 * detours, "{by_all}");
        // The first switch sees the queue of a link between groups only if that is its own.
        let by_local = times(Detours::ByLocalQueues, equal_paths);
        assert!(by_all < by_local && by_local < shortest / 2.0, "{by_local}");
    }
    // Flows that each take one detour meet on some links.
    assert!(times(Detours::Always, EqualPaths::Hash) > 4.0);
}

#[test]
fn traffic_that_is_even_takes_few_detours() {
    // The mean time of frames that each host sends to any other, at a load of its link in percent.
    let mean = |detours, load: u64| {
        let topology = dragonfly(detours, EqualPaths::Spray);
        let hosts = u64::from(topology.host_count());
        let mut network = network(&topology, None);
        let interval = SERVICE * 100 / load;
        let sends: Vec<_> = (0..hosts * 200)
            .map(|number| {
                let (source, round) = (number % hosts, number / hosts);
                let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                let target = (source + 1 + mixed % (hosts - 1)) % hosts;
                let at = round * interval + (mixed >> 8) % interval;
                let ends = (source as u32, target as u32);
                (at, transfer(ends, FRAME, number as usize))
            })
            .collect();
        let (there, _) = carry_or_lose(&mut network, &sends);
        let latency = |((there, _), (at, _)): (&(Time, Time), &(u64, _))| there.picoseconds() - at;
        let all: u64 = there.iter().zip(&sends).map(latency).sum();
        all as f64 / sends.len() as f64
    };
    for load in [20, 50] {
        let shortest = mean(Detours::Never, load);
        for detours in [Detours::ByLocalQueues, Detours::ByAllQueues] {
            assert!(mean(detours, load) < 1.02 * shortest);
        }
        assert!(mean(Detours::Always, load) > 1.4 * shortest);
    }
}
