//! Networks by rule against what is published of them: counts, ports, diameter and mean distance,
//! each found by a breadth-first search over their links, which knows nothing of the rule; and
//! routes against that search.

use std::collections::{BTreeMap, VecDeque};

use viaduct_topology::{
    ClosShape, DragonflyShape, EqualPaths, GraphBuilder, GraphFormat, GraphRouting, HostId,
    JellyfishShape, LinkId, Node, Ports, RailShape, SwitchId, Topology, TreeShape, parse_graph,
};

const UNREACHED: u32 = u32::MAX;

/// The switches as a graph, from the ends of the links alone.
struct Switches {
    neighbours: Vec<Vec<u32>>,
    links: BTreeMap<(u32, u32), u32>,
}

impl Switches {
    fn of(topology: &Topology) -> Self {
        let mut neighbours = vec![Vec::new(); topology.switch_count() as usize];
        let mut links = BTreeMap::new();
        for link in 2 * topology.host_count()..topology.link_count() {
            let (Node::Switch(from), Node::Switch(to)) = topology.link_ends(LinkId(link)) else {
                panic!("a link of a host among those between switches");
            };
            assert_ne!(from, to);
            neighbours[from.0 as usize].push(to.0);
            *links.entry((from.0, to.0)).or_default() += 1;
        }
        Self { neighbours, links }
    }

    fn distances(&self, start: u32) -> Vec<u32> {
        let mut distances = vec![UNREACHED; self.neighbours.len()];
        distances[start as usize] = 0;
        let mut queue = VecDeque::from([start]);
        while let Some(switch) = queue.pop_front() {
            for &next in &self.neighbours[switch as usize] {
                if distances[next as usize] == UNREACHED {
                    distances[next as usize] = distances[switch as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
        distances
    }

    /// The longest of all shortest ways, and the mean over pairs of different switches.
    fn diameter_and_mean(&self) -> (u32, f64) {
        let count = self.neighbours.len();
        let (mut sum, mut most) = (0u64, 0);
        for start in 0..count as u32 {
            for distance in self.distances(start) {
                assert_ne!(distance, UNREACHED, "not connected");
                sum += u64::from(distance);
                most = most.max(distance);
            }
        }
        (most, sum as f64 / (count * (count - 1)) as f64)
    }

    /// How many switches have so many links to others.
    fn degrees(&self) -> BTreeMap<usize, usize> {
        let mut degrees = BTreeMap::new();
        for neighbours in &self.neighbours {
            *degrees.entry(neighbours.len()).or_default() += 1;
        }
        degrees
    }
}

fn dragonfly(hosts: u32, switches: u32, links: u32, groups: u32) -> Topology {
    Topology::dragonfly(DragonflyShape {
        hosts_per_switch: hosts,
        switches_per_group: switches,
        global_links: links,
        groups,
    })
    .unwrap()
}

fn clos(radix: u32, tiers: u32, oversubscription: u32, pods: Option<u32>) -> Topology {
    Topology::clos(ClosShape {
        radix,
        tiers,
        oversubscription,
        pods,
    })
    .unwrap()
}

fn rail(rails: u32, servers: u32, servers_per_unit: u32, spines: u32) -> Topology {
    Topology::rail(RailShape {
        rails,
        servers,
        servers_per_unit,
        spines,
    })
    .unwrap()
}

/// What a search finds: switches, links between them, diameter, mean distance.
fn assert_graph(topology: &Topology, counts: (u32, u32), diameter: u32, mean: f64) {
    let switches = Switches::of(topology);
    let found = (topology.switch_count(), topology.switch_link_count() / 2);
    assert_eq!(found, counts, "{}", topology.description());
    let (longest, average) = switches.diameter_and_mean();
    assert_eq!(longest, diameter, "{}", topology.description());
    assert!(
        (average - mean).abs() < 5e-6,
        "{}: {average}",
        topology.description()
    );
    for (&(from, to), &count) in &switches.links {
        assert_eq!(
            switches.links.get(&(to, from)),
            Some(&count),
            "a link without its way back"
        );
    }
}

#[test]
fn searches_find_the_published_figures() {
    let slim = |order| Topology::slim_fly(order, None).unwrap();
    assert_graph(&slim(4), (32, 96), 2, 56.0 / 31.0);
    assert_graph(&slim(5), (50, 175), 2, 91.0 / 49.0);
    assert_graph(&slim(7), (98, 539), 2, 1.886_60);
    assert_graph(&dragonfly(2, 4, 2, 9), (36, 90), 3, 2.342_86);
    assert_graph(
        &Topology::hyperx(&[8, 8], 8).unwrap(),
        (64, 448),
        2,
        1.777_78,
    );
    assert_graph(
        &Topology::hyperx(&[4, 4, 4], 4).unwrap(),
        (64, 288),
        3,
        2.285_71,
    );
    assert_graph(
        &Topology::polar_fly(7, None).unwrap(),
        (57, 224),
        2,
        1.859_65,
    );
    assert_graph(
        &Topology::dragonfly_plus(8, None).unwrap(),
        (136, 408),
        5,
        3.107_41,
    );
}

#[test]
fn switches_have_the_published_links() {
    let degrees = |topology: Topology| Switches::of(&topology).degrees();
    for (order, count, degree) in [
        (4, 32, 6),
        (5, 50, 7),
        (7, 98, 11),
        (8, 128, 12),
        (9, 162, 13),
        (11, 242, 17),
        (13, 338, 19),
        (17, 578, 25),
        (19, 722, 29),
    ] {
        let slim = Topology::slim_fly(order, None).unwrap();
        assert_eq!(
            degrees(slim),
            BTreeMap::from([(degree, count)]),
            "order {order}"
        );
    }
    for order in [2, 3, 4, 5, 7, 8, 9, 31] {
        let found = degrees(Topology::polar_fly(order, None).unwrap());
        let order = order as usize;
        // q + 1 points are orthogonal to themselves and have a link less.
        let expected = BTreeMap::from([(order, order + 1), (order + 1, order * order)]);
        assert_eq!(found, expected, "order {order}");
    }
    // 17 groups of 4 leaves with 4 links up and 4 spines with 8.
    let plus = degrees(Topology::dragonfly_plus(8, None).unwrap());
    assert_eq!(plus, BTreeMap::from([(4, 68), (8, 68)]));
}

#[test]
fn sizes_are_the_published_ones() {
    let sizes = |topology: Topology| (topology.host_count(), topology.switch_count());
    for (radix, hosts, switches) in [
        (4, 16, 20),
        (8, 128, 80),
        (16, 1_024, 320),
        (48, 27_648, 2_880),
        (64, 65_536, 5_120),
    ] {
        assert_eq!(sizes(clos(radix, 3, 1, None)), (hosts, switches));
    }
    // 32 leaves with 32 hosts and 8 links up each.
    assert_eq!(sizes(clos(40, 2, 4, Some(32))), (1_024, 32 + 8));
    for (half, hosts, groups) in [
        (2, 72, 9),
        (4, 1_056, 33),
        (8, 16_512, 129),
        (16, 262_656, 513),
    ] {
        let network = dragonfly(half, 2 * half, half, groups);
        assert_eq!(network.switch_ports(SwitchId(0)), Some(4 * half - 1));
        assert_eq!(sizes(network).0, hosts);
    }
    for (radix, hosts) in [(4, 20), (8, 272), (16, 4_160), (32, 65_792)] {
        assert_eq!(
            sizes(Topology::dragonfly_plus(radix, None).unwrap()).0,
            hosts
        );
    }
    for (sizes, hosts, ports) in [(&[8, 8][..], 8, 22), (&[4, 4, 4], 4, 13)] {
        let network = Topology::hyperx(sizes, hosts).unwrap();
        assert_eq!(network.host_count(), 64 * hosts);
        assert_eq!(network.switch_ports(SwitchId(63)), Some(ports));
    }
    assert_eq!(sizes(Topology::slim_fly(17, None).unwrap()), (7_514, 578));
    assert_eq!(sizes(Topology::slim_fly(19, None).unwrap()), (10_830, 722));
    assert_eq!(Topology::polar_fly(31, None).unwrap().switch_count(), 993);
    let rails = rail(8, 32, 32, 32);
    assert_eq!(sizes(rails.clone()), (256, 8 + 32));
    assert_eq!(rails.switch_ports(SwitchId(7)), Some(64));
}

#[test]
fn a_balanced_dragonfly_visits_the_published_mean_of_switches() {
    // A message of a host to itself, too, as the formula has it.
    for half in [1, 2, 3] {
        let network = dragonfly(half, 2 * half, half, 2 * half * half + 1);
        let (p, a, hosts) = (f64::from(half), f64::from(2 * half), network.host_count());
        let others = f64::from(network.switch_count()) / a - 1.0;
        let expected =
            (p + 2.0 * p * (a - 1.0) + (4.0 - 2.0 / a) * a * p * others) / f64::from(hosts);
        let lengths =
            (0..hosts).map(|target| network.path_length(HostId(0), HostId(target)).unwrap() - 1);
        let mean = f64::from(lengths.sum::<u32>()) / f64::from(hosts);
        assert!((mean - expected).abs() < 1e-9, "{mean}, not {expected}");
    }
    assert!((238.0_f64 / 72.0 - 3.305_6).abs() < 1e-4);
}

/// Networks of each kind, small.
fn all() -> Vec<Topology> {
    vec![
        clos(4, 3, 1, None),
        clos(8, 3, 3, None),
        clos(6, 3, 2, Some(3)),
        clos(6, 2, 1, None),
        rail(4, 6, 2, 3),
        rail(3, 5, 2, 2),
        dragonfly(2, 4, 2, 9),
        dragonfly(1, 4, 2, 3),
        dragonfly(1, 2, 3, 2),
        dragonfly(2, 5, 1, 1),
        dragonfly(1, 1, 4, 5),
        dragonfly(1, 3, 2, 6),
        Topology::dragonfly_plus(4, None).unwrap(),
        Topology::dragonfly_plus(6, Some(4)).unwrap(),
        Topology::dragonfly_plus(8, Some(2)).unwrap(),
        Topology::hyperx(&[3, 2, 4], 2).unwrap(),
        Topology::hyperx(&[5], 1).unwrap(),
        Topology::hyperx(&[1, 3], 1).unwrap(),
        Topology::slim_fly(3, None).unwrap(),
        Topology::slim_fly(4, None).unwrap(),
        Topology::slim_fly(5, Some(1)).unwrap(),
        Topology::polar_fly(2, None).unwrap(),
        Topology::polar_fly(3, Some(2)).unwrap(),
        Topology::polar_fly(4, None).unwrap(),
    ]
}

/// Of a dragonfly the group of a switch, by its name: `s3-1` is in group 3.
fn group(topology: &Topology, switch: u32) -> String {
    let name = topology.node_name(Node::Switch(SwitchId(switch)));
    let digits: String = name
        .chars()
        .filter(|it| it.is_ascii_digit() || *it == '-')
        .collect();
    digits.split('-').next().unwrap().to_owned()
}

/// Distances from a switch over ways with at most one link between groups.
fn distances_over_one_global_link(
    topology: &Topology,
    switches: &Switches,
    start: u32,
) -> Vec<u32> {
    let groups: Vec<String> = (0..topology.switch_count())
        .map(|it| group(topology, it))
        .collect();
    let count = switches.neighbours.len();
    // Twice the switches: not yet, and already, in another group.
    let mut distances = vec![UNREACHED; 2 * count];
    distances[start as usize] = 0;
    let mut queue = VecDeque::from([start as usize]);
    while let Some(place) = queue.pop_front() {
        let (switch, has_crossed) = (place % count, place >= count);
        for &next in &switches.neighbours[switch] {
            let crosses = groups[next as usize] != groups[switch];
            if crosses && has_crossed {
                continue;
            }
            let next = next as usize + count * usize::from(crosses || has_crossed);
            if distances[next] == UNREACHED {
                distances[next] = distances[place] + 1;
                queue.push_back(next);
            }
        }
    }
    (0..count)
        .map(|it| distances[it].min(distances[it + count]))
        .collect()
}

#[test]
fn routes_are_as_short_as_a_search_finds() {
    for topology in all() {
        let switches = Switches::of(&topology);
        let is_dragonfly = topology.description().starts_with("dragonfly of");
        for source in (0..topology.host_count()).map(HostId) {
            let from = topology.host_switch(source);
            let distances = match is_dragonfly {
                true => distances_over_one_global_link(&topology, &switches, from.0),
                false => switches.distances(from.0),
            };
            for target in (0..topology.host_count()).map(HostId) {
                let to = topology.host_switch(target);
                let distance = distances[to.0 as usize];
                let what = || format!("{}: {source:?} to {target:?}", topology.description());
                assert_eq!(
                    topology.path_length(source, target),
                    Some(distance + 2),
                    "{}",
                    what()
                );
                let single = topology.clone().with_equal_paths(EqualPaths::Single);
                for (network, flow) in [(&topology, 0), (&topology, 7), (&single, 0)] {
                    let mut path: Vec<LinkId> = Vec::new();
                    network.route_flow(source, target, flow, &mut path);
                    assert_eq!(path.len() as u32, distance + 2, "{}", what());
                    assert_follows(&topology, source, target, &path);
                }
                let ways = topology.equal_ways(source, target, 1_000);
                let mut sorted = ways.clone();
                sorted.sort();
                sorted.dedup();
                assert_eq!(sorted.len(), ways.len(), "a way twice, {}", what());
                for way in &ways {
                    assert_eq!(way.len() as u32, distance + 2, "{}", what());
                    assert_follows(&topology, source, target, way);
                }
                if !is_dragonfly {
                    let count = count_ways(&switches, &distances, to.0);
                    assert_eq!(ways.len(), count.min(1_000), "{}", what());
                }
            }
        }
    }
}

fn assert_follows(topology: &Topology, source: HostId, target: HostId, path: &[LinkId]) {
    let mut at = Node::Host(source);
    for &link in path {
        let (from, to) = topology.link_ends(link);
        assert_eq!(from, at, "{}", topology.description());
        at = to;
    }
    assert_eq!(at, Node::Host(target), "{}", topology.description());
}

/// Shortest ways back from a switch, by distances from the other.
fn count_ways(switches: &Switches, distances: &[u32], from: u32) -> usize {
    if distances[from as usize] == 0 {
        return 1;
    }
    let closer = switches.neighbours[from as usize].iter();
    let closer = closer.filter(|&&next| distances[next as usize] + 1 == distances[from as usize]);
    closer
        .map(|&next| count_ways(switches, distances, next))
        .sum()
}

#[test]
fn a_million_hosts_take_no_memory_and_their_routes_are_found() {
    let networks = [
        (dragonfly(32, 64, 32, 513), 1_050_624),
        (Topology::hyperx(&[32, 32, 32], 32).unwrap(), 1 << 20),
        (clos(162, 3, 1, None), 1_062_882),
    ];
    for (topology, hosts) in networks {
        assert_eq!(topology.host_count(), hosts, "{}", topology.description());
        assert!(
            topology.memory_bytes() < 1_000,
            "{}",
            topology.description()
        );
        for number in 0..2_000u32 {
            let [source, target] = [7_919u64, 104_729]
                .map(|factor| HostId((u64::from(number) * factor % u64::from(hosts)) as u32));
            let mut path = Vec::new();
            topology.route_flow(source, target, number, &mut path);
            assert_follows(&topology, source, target, &path);
            assert_eq!(
                Some(path.len() as u32),
                topology.path_length(source, target)
            );
        }
    }
}

#[test]
fn one_way_for_all_is_one_of_the_equal_ways_and_uses_all_links() {
    for topology in [clos(8, 3, 1, None), clos(6, 2, 1, None)] {
        let topology = topology.with_equal_paths(EqualPaths::Single);
        let mut loads = vec![0; topology.link_count() as usize];
        let hosts = topology.host_count();
        for (source, target) in (0..hosts).flat_map(|one| (0..hosts).map(move |it| (one, it))) {
            let mut path: Vec<LinkId> = Vec::new();
            topology.route(HostId(source), HostId(target), &mut path);
            for link in path {
                loads[link.0 as usize] += 1;
            }
        }
        // Uniform traffic of all pairs: as much on each link of a level.
        let first = 2 * hosts as usize;
        assert!(
            loads[first..].iter().all(|&load| load > 0),
            "{}",
            topology.description()
        );
    }
}

#[test]
fn rails_keep_the_adapters_of_one_number_at_one_leaf() {
    let network = rail(4, 6, 2, 3);
    for host in 0..network.host_count() {
        let (server, adapter) = (host / 4, host % 4);
        let leaf = network.host_switch(HostId(host));
        assert_eq!(leaf, SwitchId(server / 2 * 4 + adapter));
        let names = [Node::Host(HostId(host)), Node::Switch(leaf)].map(|it| network.node_name(it));
        assert_eq!(names[0], format!("n{server}-{adapter}"));
        assert_eq!(names[1], format!("leaf{}-{adapter}", server / 2));
    }
}

#[test]
fn sizes_that_do_not_exist_name_the_nearest() {
    let error = |made: Result<Topology, _>| {
        let error: viaduct_topology::TopologyError = made.unwrap_err();
        error.to_string()
    };
    assert!(error(Topology::slim_fly(6, None)).ends_with("nearest are 5 and 7"));
    assert!(error(Topology::slim_fly(2, None)).ends_with("nearest are 3"));
    assert!(error(Topology::slim_fly(35, None)).ends_with("nearest are 32 and 37"));
    assert!(error(Topology::polar_fly(10, None)).ends_with("nearest are 9 and 11"));
    assert!(error(Topology::dragonfly_plus(7, None)).ends_with("nearest are 6 and 8"));
    let tree = |radix, tiers, oversubscription, pods| {
        let shape = ClosShape {
            radix,
            tiers,
            oversubscription,
            pods,
        };
        error(Topology::clos(shape))
    };
    assert!(tree(7, 3, 1, None).ends_with("nearest are 6 and 8"));
    assert!(tree(16, 3, 4, None).ends_with("nearest are 10 and 20"));
    assert!(tree(8, 4, 1, None).ends_with("nearest are 2 and 3"));
    assert!(tree(8, 3, 1, Some(9)).contains("9 is more than the limit of 8"));
    let many = DragonflyShape {
        hosts_per_switch: 2,
        switches_per_group: 4,
        global_links: 2,
        groups: 10,
    };
    assert!(error(Topology::dragonfly(many)).contains("10 is more than the limit of 9"));
}

fn jellyfish(switches: u32, hosts_per_switch: u32, switch_links: u32, seed: u64) -> Topology {
    let shape = JellyfishShape {
        switches,
        hosts_per_switch,
        switch_links,
        seed,
    };
    Topology::jellyfish(shape, EqualPaths::Hash).unwrap()
}

#[test]
fn random_graphs_are_regular_connected_and_the_same_for_the_same_seed() {
    // All but one of the links that there may be, rings, complete graphs, a single switch.
    for (switches, links) in [
        (20, 4),
        (50, 11),
        (8, 6),
        (9, 8),
        (7, 2),
        (40, 2),
        (2, 1),
        (1, 0),
    ] {
        for seed in 0..5 {
            let network = jellyfish(switches, 3, links, seed);
            let found = Switches::of(&network);
            assert_eq!(network.host_count(), 3 * switches);
            let degrees = BTreeMap::from([(links as usize, switches as usize)]);
            assert_eq!(found.degrees(), degrees);
            assert!(found.links.values().all(|&count| count == 1));
            assert!(!found.distances(0).contains(&UNREACHED), "not connected");
            assert!(network == jellyfish(switches, 3, links, seed));
        }
    }
    assert!(jellyfish(20, 1, 4, 1) != jellyfish(20, 1, 4, 2));
    let refused = |switches, switch_links| {
        let shape = JellyfishShape {
            switches,
            hosts_per_switch: 1,
            switch_links,
            seed: 1,
        };
        Topology::jellyfish(shape, EqualPaths::Hash)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(5, 3).ends_with("nearest are 2 and 4"));
    assert!(refused(6, 1).ends_with("nearest are 2"));
    assert!(refused(6, 6).ends_with("nearest are 5"));
    assert!(refused(100_000, 4).contains("routing tables"));
}

#[test]
fn written_and_read_back_they_are_what_they_were() {
    let mut networks = all();
    networks.push(Topology::leaf_spine(23, 5, 4).unwrap());
    networks.push(
        Topology::polar_fly(3, None)
            .unwrap()
            .with_equal_paths(EqualPaths::Single),
    );
    let shape = TreeShape {
        arity: 2,
        levels: 3,
    };
    let tree = Topology::fat_tree(shape, Ports(u32::MAX)).unwrap();
    networks.push(tree.with_equal_paths(EqualPaths::Hash));
    for network in networks {
        let json = network.to_node_link_json();
        let by_rule = parse_graph(&json, GraphFormat::NodeLinkJson, GraphRouting::Rule).unwrap();
        assert!(
            by_rule == network,
            "{}\n{}",
            network.description(),
            by_rule.description()
        );
        let built = GraphBuilder::from_topology(&network)
            .unwrap()
            .finish()
            .unwrap();
        assert!(
            built == network,
            "{}\n{}",
            network.description(),
            built.description()
        );
        // What is written of the links counts, not what is said of them.
        let other = json
            .replace("\"order\": ", "\"order\": 1")
            .replace("\"groups\": ", "\"groups\": 1");
        let read = parse_graph(&other, GraphFormat::NodeLinkJson, GraphRouting::Rule);
        assert!(other == json || read.is_err(), "{}", network.description());
    }
}
