//! Files as NetworkX 3.6.1 writes them. `tests/files` was made by `tests/files/make.py`.

use viaduct_topology::{
    HostId, LinkId, Node, SwitchId, Topology, parse_graphml, parse_node_link_json,
};

fn name_of_switch(graph: &Topology, switch: u32) -> String {
    graph.node_name(Node::Switch(SwitchId(switch)))
}

#[test]
fn a_grid_reads_the_same_from_each_format() {
    let grid = parse_node_link_json(include_str!("../files/networkx-grid.json")).unwrap();
    assert_eq!((grid.host_count(), grid.switch_count()), (9, 9));
    assert_eq!(grid.switch_link_count(), 24);
    assert_eq!(name_of_switch(&grid, 5), "1-2");
    assert_eq!(
        grid.link_rate_bits_per_second(grid.host_up(HostId(4))),
        Some(856e6)
    );
    assert_eq!(
        grid.link_latency_picoseconds(grid.host_down(HostId(4))),
        Some(500_000)
    );
    assert_eq!(grid.path_length(HostId(0), HostId(8)), Some(6));
    // Spread over all shortest paths, messages turn every way.
    let found = grid.check().to_string();
    assert!(found.starts_with("warning: possible deadlock: "), "{found}");
    assert!(
        found.ends_with(
            "warning: attributes without a meaning here: edge weight (1 time); \
             known are kind and ports of nodes, rate and latency of edges\n"
        ),
        "{found}"
    );
    let links = parse_node_link_json(include_str!("../files/networkx-grid-links.json")).unwrap();
    assert_eq!(links, grid);
    // GraphML keeps no order of attributes, but that of nodes and edges.
    let graphml = parse_graphml(include_str!("../files/networkx-grid.graphml")).unwrap();
    assert_eq!(graphml, grid);
}

#[test]
fn directed_edges_join_both_ways() {
    let directed = parse_graphml(include_str!("../files/networkx-directed.graphml")).unwrap();
    let grid = parse_graphml(include_str!("../files/networkx-grid.graphml")).unwrap();
    assert_eq!(directed.link_count(), grid.link_count());
    for source in 0..9 {
        for target in 0..9 {
            assert_eq!(
                directed.path_length(HostId(source), HostId(target)),
                grid.path_length(HostId(source), HostId(target))
            );
        }
    }
}

#[test]
fn parallel_edges_of_a_multigraph_are_links_of_their_own() {
    let json = parse_node_link_json(include_str!("../files/networkx-multi.json")).unwrap();
    let graphml = parse_graphml(include_str!("../files/networkx-multi.graphml")).unwrap();
    for graph in [&json, &graphml] {
        assert_eq!(graph.switch_link_count(), 4);
        let rates: Vec<Option<f64>> = (4..8)
            .map(|link| graph.link_rate_bits_per_second(LinkId(link)))
            .collect();
        assert_eq!(rates, [Some(1e9), Some(1e9), Some(2e9), Some(2e9)]);
    }
    assert_eq!(json, graphml);
}
