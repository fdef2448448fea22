//! Ways that are as good as each other: each leads from source to target, none comes twice, and
//! there are as many as a count by hand says.

use std::collections::BTreeSet;

use viaduct_topology::{HostId, LinkId, Node, Ports, Topology, TreeShape, parse_edge_list};

/// All ways, each of which was found to lead from link to link, at the shortest length, once.
fn ways(topology: &Topology, source: u32, target: u32) -> Vec<Vec<LinkId>> {
    let (source, target) = (HostId(source), HostId(target));
    let ways = topology.equal_ways(source, target, usize::MAX);
    for way in &ways {
        let ends: Vec<_> = way.iter().map(|link| topology.link_ends(*link)).collect();
        assert_eq!(ends.first().map(|ends| ends.0), Some(Node::Host(source)));
        assert_eq!(ends.last().map(|ends| ends.1), Some(Node::Host(target)));
        assert!(ends.windows(2).all(|two| two[0].1 == two[1].0), "{ends:?}");
        assert_eq!(Some(way.len() as u32), topology.path_length(source, target));
    }
    assert_eq!(ways.iter().collect::<BTreeSet<_>>().len(), ways.len());
    ways
}

#[test]
fn a_fat_tree_has_one_for_each_choice_of_links_up() {
    let shape = TreeShape {
        arity: 3,
        levels: 3,
    };
    let tree = Topology::fat_tree(shape, Ports(6)).expect("ports are enough");
    for source in 0..27 {
        for target in 0..27 {
            let found = ways(&tree, source, target);
            let levels = [3, 9]
                .iter()
                .filter(|size| source / **size != target / **size);
            assert_eq!(found.len(), 3_usize.pow(levels.count() as u32));
            let mut route = Vec::new();
            tree.route(HostId(source), HostId(target), &mut route);
            assert_eq!(found[0], route, "{source} to {target}");
        }
    }
    // The first three part at the first switch.
    let first: BTreeSet<_> = ways(&tree, 0, 26)
        .iter()
        .take(3)
        .map(|way| way[1])
        .collect();
    assert_eq!(first.len(), 3);
}

#[test]
fn a_graph_has_all_that_its_links_make() {
    // Over `a` there are two ways, over `b` one.
    let graph = "hosts n*\nn0 s\ns a\ns b\na c\na d\nb d\nc t\nd t\nt n1\n";
    let graph = parse_edge_list(graph).expect("it is a graph");
    let named = |way: &Vec<LinkId>| -> Vec<String> {
        let switches = way.iter().skip(1).map(|link| topology_name(&graph, *link));
        switches.collect()
    };
    let found: Vec<_> = ways(&graph, 0, 1).iter().map(named).collect();
    let expected = ["s a c t", "s b d t", "s a d t"];
    let expected = expected.map(|way| way.split(' ').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(found, expected);
    assert_eq!(graph.equal_ways(HostId(0), HostId(1), 2).len(), 2);
    assert_eq!(ways(&graph, 0, 0).len(), 1);
}

fn topology_name(topology: &Topology, link: LinkId) -> String {
    topology.node_name(topology.link_ends(link).0)
}

#[test]
fn a_torus_has_the_one_of_its_rule_and_holes_have_none() {
    let torus = Topology::torus(&[4, 4], 1, Ports(5)).expect("ports are enough");
    for target in 0..16 {
        let mut route = Vec::new();
        torus.route(HostId(3), HostId(target), &mut route);
        assert_eq!(ways(&torus, 3, target), [route]);
    }
    let apart = parse_edge_list("hosts n*\nn0 s0\nn1 s1\n").expect("it is a graph");
    assert!(apart.equal_ways(HostId(0), HostId(1), 4).is_empty());
}
