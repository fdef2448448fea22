//! Which networks may stand still where messages are held up, and how many channels end that.

use viaduct_topology::{
    Channel, ClosShape, Detours, DragonflyShape, EqualPaths, FindingKind, GraphFormat,
    GraphRouting, HostId, JellyfishShape, LinkId, Ports, Topology, TreeShape, Waiting, parse_graph,
};

const PORTS: Ports = Ports(64);

/// The fewest channels with which no ring of them waits.
fn channels(topology: &Topology) -> u32 {
    let ends = |&channels: &u32| topology.waiting(channels) == Waiting::Never;
    (1..=6).find(ends).unwrap()
}

#[test]
fn networks_need_the_channels_that_are_known_of_them() {
    let torus = Topology::torus(&[4, 5], 1, PORTS).unwrap();
    let mesh = Topology::mesh(&[4, 5], 1, PORTS).unwrap();
    let tree = TreeShape {
        arity: 3,
        levels: 3,
    };
    let tree = Topology::fat_tree(tree, PORTS).unwrap();
    let clos = Topology::clos(ClosShape {
        radix: 6,
        tiers: 3,
        oversubscription: 2,
        pods: None,
    })
    .unwrap();
    let dragonfly = Topology::dragonfly(DragonflyShape {
        hosts_per_switch: 2,
        switches_per_group: 4,
        global_links: 2,
        groups: 9,
    })
    .unwrap();
    let hyperx = Topology::hyperx(&[3, 3, 3], 1).unwrap();
    for (topology, expected) in [
        // Small rings, in which no way has two links in one direction.
        (Topology::torus(&[3, 3], 1, PORTS).unwrap(), 1),
        // Two with a dateline.
        (torus.clone(), 2),
        (mesh.clone(), 1),
        // In any order of the dimensions it may turn round.
        (mesh.clone().with_equal_paths(EqualPaths::Hash), 4),
        (tree.clone(), 1),
        (tree.clone().with_equal_paths(EqualPaths::Hash), 1),
        (clos, 1),
        // One more behind the link between groups.
        (dragonfly.clone(), 2),
        // One a dimension, or an order of them.
        (hyperx.clone(), 3),
        (hyperx.with_equal_paths(EqualPaths::Single), 1),
        // One a link of a way.
        (Topology::slim_fly(5, None).unwrap(), 2),
        (Topology::polar_fly(3, None).unwrap(), 2),
        // With detours twice as many, one half for each part of the way.
        (torus.clone().with_detours(Detours::Always), 4),
        (torus.with_detours(Detours::ByLocalQueues), 4),
        (mesh.with_detours(Detours::Always), 2),
        (tree.with_detours(Detours::Always), 2),
        (dragonfly.clone().with_detours(Detours::ByLocalQueues), 4),
        (dragonfly.with_detours(Detours::Always), 4),
        (
            Topology::slim_fly(5, None)
                .unwrap()
                .with_detours(Detours::Always),
            4,
        ),
    ] {
        assert_eq!(channels(&topology), expected, "{}", topology.description());
        let report = topology.check();
        let is_told = report
            .findings
            .iter()
            .any(|it| it.kind == FindingKind::Deadlock);
        assert_eq!(is_told, expected > 1, "{report}");
    }
}

#[test]
fn a_ring_of_waiting_channels_is_one_of_routes() {
    let ring = "hosts a b c d e\na v\nb w\nc x\nd y\ne z\nv w\nw x\nx y\ny z\nz v\n";
    let shortest = GraphRouting::ShortestPath(EqualPaths::Single);
    let ring = parse_graph(ring, GraphFormat::EdgeList, shortest).unwrap();
    let networks = [
        ring,
        Topology::torus(&[6], 1, PORTS).unwrap(),
        Topology::slim_fly(3, Some(1)).unwrap(),
    ];
    for topology in networks {
        let Waiting::Ring(found) = topology.waiting(1) else {
            panic!("{}", topology.description());
        };
        assert!(found.len() > 1);
        let next = found.iter().cycle().skip(1);
        for (one, other) in found.iter().zip(next) {
            assert_eq!(
                topology.link_ends(one.link).1,
                topology.link_ends(other.link).0
            );
            assert!(follow_each_other(&topology, *one, *other));
        }
    }
}

/// Whether some route has the two links one after the other.
fn follow_each_other(topology: &Topology, one: Channel, other: Channel) -> bool {
    let hosts = topology.host_count();
    let pairs = (0..hosts).flat_map(|source| (0..hosts).map(move |target| (source, target)));
    let mut pairs = pairs.map(|(source, target)| (HostId(source), HostId(target)));
    pairs.any(|(source, target)| {
        let ways: Vec<Vec<LinkId>> = match topology.has_equal_paths() {
            true => topology.equal_ways(source, target, 100),
            false => {
                let mut way = Vec::new();
                topology.route(source, target, &mut way);
                vec![way]
            }
        };
        let mut ways = ways.iter();
        ways.any(|way| way.windows(2).any(|pair| pair == [one.link, other.link]))
    })
}

#[test]
fn what_is_too_large_is_said_to_be() {
    let large = Topology::hyperx(&[48, 24], 1).unwrap();
    // To some targets the routes turn both ways already.
    assert!(matches!(large.waiting(1), Waiting::Ring(_)));
    assert_eq!(large.waiting(2), Waiting::TooLarge);
    let kinds = |topology: &Topology| -> Vec<FindingKind> {
        topology.check().findings.iter().map(|it| it.kind).collect()
    };
    assert_eq!(kinds(&large), [FindingKind::Deadlock]);
    let in_order = large.with_equal_paths(EqualPaths::Single);
    assert_eq!(kinds(&in_order), [FindingKind::NotChecked]);
}

/// The same links, routed by tables.
fn as_graph(topology: &Topology) -> Topology {
    let json = topology.to_node_link_json();
    let shortest = GraphRouting::ShortestPath(EqualPaths::Hash);
    parse_graph(&json, GraphFormat::NodeLinkJson, shortest).unwrap()
}

#[test]
fn up_and_down_no_links_wait_for_each_other_and_all_hosts_are_reached() {
    let jellyfish = JellyfishShape {
        switches: 20,
        hosts_per_switch: 1,
        switch_links: 4,
        seed: 1,
    };
    // Two switches without hosts that no way joins which goes up and then down.
    let two_tops = "hosts h*\nh0 c\nh1 d\nh2 a\nh3 b\nc r1\nr1 a\na b\nb r2\nr2 d\n";
    let shortest = GraphRouting::ShortestPath(EqualPaths::Hash);
    for (graph, has_ring) in [
        (as_graph(&Topology::torus(&[5, 5], 1, PORTS).unwrap()), true),
        (
            Topology::jellyfish(jellyfish, EqualPaths::Hash).unwrap(),
            true,
        ),
        (as_graph(&Topology::leaf_spine(8, 2, 3).unwrap()), false),
        (
            parse_graph(two_tops, GraphFormat::EdgeList, shortest).unwrap(),
            false,
        ),
    ] {
        assert_eq!(graph.waiting(1) != Waiting::Never, has_ring);
        let lengths = |graph: &Topology| -> Option<u32> {
            let hosts = graph.host_count();
            let pairs = (0..hosts).flat_map(|one| (0..hosts).map(move |it| (one, it)));
            let mut lengths = pairs.map(|(one, it)| graph.path_length(HostId(one), HostId(it)));
            lengths.try_fold(0, |sum, length| Some(sum + length?))
        };
        let shortest = lengths(&graph).unwrap();
        let graph = graph.with_up_down().unwrap();
        assert_eq!(graph.waiting(1), Waiting::Never, "{}", graph.description());
        assert!(!graph.check().has_errors(), "{}", graph.check());
        let length = lengths(&graph).unwrap();
        assert!(
            has_ring && length >= shortest || length == shortest,
            "{length} {shortest}"
        );
    }
    let tree = Topology::leaf_spine(8, 2, 3).unwrap();
    assert!(tree.clone().with_up_down().unwrap() == tree);
    let torus = Topology::torus(&[5, 5], 1, PORTS).unwrap();
    assert!(torus.with_up_down().is_err());
}

/// How many flows each link carries if each host of a group sends `flows` to the next group.
fn loads_to_the_next_group(topology: &Topology, flows: u32) -> Vec<u32> {
    let mut loads = vec![0; topology.link_count() as usize];
    let hosts = topology.host_count();
    for source in 0..hosts {
        let target = HostId((source + 8) % hosts);
        for flow in 0..flows {
            let mut path: Vec<LinkId> = Vec::new();
            topology.route_flow(HostId(source), target, flow, &mut path);
            assert_eq!(path[0], topology.host_up(HostId(source)));
            assert_eq!(*path.last().unwrap(), topology.host_down(target));
            for pair in path.windows(2) {
                assert_eq!(topology.link_ends(pair[0]).1, topology.link_ends(pair[1]).0);
            }
            for link in path {
                loads[link.0 as usize] += 1;
            }
        }
    }
    loads
}

#[test]
fn detours_spread_what_would_all_take_one_link_and_need_more_channels() {
    let dragonfly = Topology::dragonfly(DragonflyShape {
        hosts_per_switch: 2,
        switches_per_group: 4,
        global_links: 2,
        groups: 9,
    })
    .unwrap();
    let first = 2 * dragonfly.host_count() as usize;
    let most = |topology: &Topology| {
        let loads = loads_to_the_next_group(topology, 50);
        loads[first..].iter().copied().max().unwrap()
    };
    // One link has all 8 hosts of a group; with detours each has the 16 ways to and from a group by
    // chance over 8 links.
    assert_eq!(most(&dragonfly), 8 * 50);
    let detoured = dragonfly.clone().with_detours(Detours::Always);
    assert!(detoured.has_equal_paths());
    assert!(most(&detoured) < 8 * 50 / 2, "{}", most(&detoured));
    assert_eq!(channels(&detoured), 4);
    let slim = Topology::slim_fly(3, Some(1)).unwrap();
    assert_eq!(channels(&slim.with_detours(Detours::Always)), 4);
    let graph = as_graph(&dragonfly).with_detours(Detours::Always);
    assert!(most(&graph) < 8 * 50 / 2);
}
