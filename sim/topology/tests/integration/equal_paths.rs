//! Equally good links: one of them for each flow, or the first for all.

use viaduct_topology::{
    EqualPaths, FindingKind, GraphFormat, GraphRouting, HostId, LinkId, Topology, parse_graph,
};

/// 4 leaves with 4 hosts each, and as many spines.
fn leaf_spine(spines: u32) -> String {
    let mut list = String::from("hosts n*\n");
    for leaf in 0..4 {
        for host in 0..4 {
            list.push_str(&format!("n{leaf}-{host} leaf{leaf}\n"));
        }
        for spine in 0..spines {
            list.push_str(&format!("leaf{leaf} spine{spine}\n"));
        }
    }
    list
}

/// Two switches with three trunks between them.
const TRUNKS: &str = "multigraph\nhosts n*\nn0 a\nn1 a\nn2 b\nn3 b\na b\na b\na b\n";

fn read(list: &str, equal_paths: EqualPaths) -> Topology {
    let routing = GraphRouting::ShortestPath(equal_paths);
    parse_graph(list, GraphFormat::EdgeList, routing).unwrap()
}

fn path(topology: &Topology, source: u32, target: u32, flow: u32) -> Vec<LinkId> {
    let mut path = Vec::new();
    topology.route_flow(HostId(source), HostId(target), flow, &mut path);
    path
}

/// How many of `flows` flows between all pairs of hosts each link between switches carries.
fn loads(topology: &Topology, flows: u32) -> Vec<u32> {
    let first = 2 * topology.host_count();
    let mut loads = vec![0; topology.switch_link_count() as usize];
    for source in 0..topology.host_count() {
        for target in (0..topology.host_count()).filter(|&target| target != source) {
            for flow in 0..flows {
                for link in path(topology, source, target, flow) {
                    if let Some(index) = link.0.checked_sub(first) {
                        loads[index as usize] += 1;
                    }
                }
            }
        }
    }
    loads
}

#[test]
fn flows_are_spread_over_all_spines() {
    let graph = read(&leaf_spine(4), EqualPaths::Hash);
    assert!(graph.has_equal_paths());
    // 4 hosts to 12 others over 4 spines: 12 flows a link, 50 times.
    let loads = loads(&graph, 50);
    let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
    assert!(*least > 500 && *most < 700, "{loads:?}");
}

#[test]
fn a_flow_keeps_its_path_whatever_was_asked_before() {
    let graph = read(&leaf_spine(4), EqualPaths::Hash);
    let first = path(&graph, 0, 15, 7);
    for other in 0..16 {
        path(&graph, other, (other + 5) % 16, other);
    }
    assert_eq!(path(&graph, 0, 15, 7), first);
    assert_eq!(
        path(&read(&leaf_spine(4), EqualPaths::Hash), 0, 15, 7),
        first
    );
    assert_eq!(graph.path_length(HostId(0), HostId(15)), Some(4));
    assert!((0..50).any(|flow| path(&graph, 0, 15, flow) != first));
}

#[test]
fn switches_choose_apart_from_one_another() {
    // A flow that took the second of two links takes either of the next two.
    let list = "hosts n*\nn0 a\nn1 z\na b0\na b1\nb0 m\nb1 m\nm c0\nm c1\nc0 z\nc1 z\n";
    let graph = read(list, EqualPaths::Hash);
    let mut paths: Vec<_> = (0..64).map(|flow| path(&graph, 0, 1, flow)).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), 4);
}

#[test]
fn parallel_trunks_carry_alike() {
    let graph = read(TRUNKS, EqualPaths::Hash);
    // 8 pairs over 6 directed trunks, 300 times.
    for load in loads(&graph, 300) {
        assert!((300..500).contains(&load), "{load}");
    }
    // Tables name the next switch, not the trunk.
    let tables = r#"{"a": {"*": "b"}, "b": {"*": "a"}}"#;
    let by_table = graph.with_tables(tables).unwrap();
    for load in loads(&by_table, 300) {
        assert!((300..500).contains(&load), "{load}");
    }
}

#[test]
fn the_first_of_equal_paths_takes_all_where_that_is_asked_for() {
    for (list, idle) in [(leaf_spine(4), 24), (TRUNKS.to_owned(), 4)] {
        let graph = read(&list, EqualPaths::Single);
        assert!(!graph.has_equal_paths());
        let loads = loads(&graph, 3);
        assert_eq!(loads.iter().filter(|&&load| load == 0).count(), idle);
        let findings = graph.check().findings;
        let found = findings
            .iter()
            .find(|finding| finding.kind == FindingKind::IdlePaths)
            .unwrap();
        assert!(
            found.text.starts_with("equal paths stay idle: of "),
            "{}",
            found.text
        );
        // Spread, nothing is idle.
        let findings = read(&list, EqualPaths::Hash).check().findings;
        let kinds = findings.iter().map(|finding| finding.kind);
        assert!(!kinds.into_iter().any(|kind| kind == FindingKind::IdlePaths));
    }
}

#[test]
fn a_ring_of_waiting_links_is_found_on_any_of_the_equal_paths() {
    // Opposite switches of a ring of 4 have two ways: together they use all links.
    let list = "hosts n*\nn0 a\nn1 b\nn2 c\nn3 d\na b\nb c\nc d\nd a\n";
    let findings = read(list, EqualPaths::Hash).check().findings;
    assert!(
        findings
            .iter()
            .any(|finding| finding.kind == FindingKind::Deadlock)
    );
}
