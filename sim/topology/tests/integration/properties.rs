//! What holds for every topology, generated or read, against a breadth-first search as oracle.

use std::collections::VecDeque;

use proptest::prelude::*;
use viaduct_topology::{
    ChainHosts, EqualPaths, FindingKind, GraphBuilder, GraphFormat, GraphRouting, HostId,
    LinkClass, LinkId, Node, Ports, SwitchId, Topology, TreeShape, parse_edge_list, parse_graph,
    parse_graphml, parse_node_link_json,
};

const PORTS: Ports = Ports(64);

fn generated() -> impl Strategy<Value = Topology> {
    let sizes = || prop::collection::vec(1u32..6, 1..4);
    let tree = (2u32..5, 1u32..4).prop_map(|(arity, levels)| TreeShape { arity, levels });
    prop_oneof![
        (sizes(), 1u32..4).prop_map(|(sizes, hosts)| Topology::torus(&sizes, hosts, PORTS)),
        (sizes(), 1u32..4).prop_map(|(sizes, hosts)| Topology::mesh(&sizes, hosts, PORTS)),
        tree.prop_map(|shape| Topology::fat_tree(shape, PORTS)),
        (1u32..8, 1u32..4).prop_map(|(n, hosts)| Topology::chain(
            n,
            ChainHosts::EverySwitch(hosts),
            PORTS
        )),
        (1u32..8, 1u32..4).prop_map(|(n, hosts)| Topology::chain(
            n,
            ChainHosts::Ends(hosts),
            PORTS
        )),
        (1u32..40).prop_map(|hosts| Topology::single_switch(hosts, PORTS)),
    ]
    .prop_map(|topology| topology.expect("enough ports"))
}

/// Text of an edge list with random switches and links; not always connected.
fn edge_list() -> impl Strategy<Value = String> {
    let size = (1usize..12, 1usize..10);
    size.prop_flat_map(|(switches, hosts)| {
        let places = prop::collection::vec(0..switches, hosts);
        let pairs = prop::collection::btree_set((0..switches, 0..switches), 0..30);
        let rate = prop::option::of((1u64..100_000, 0u64..100_000_000_000));
        let rates = prop::collection::vec(rate, 30);
        (places, pairs, rates, any::<bool>())
    })
    .prop_map(|(places, pairs, rates, directed)| {
        let mut text = String::from("hosts n*\n");
        if directed {
            text.push_str("directed\n");
        }
        for (host, place) in places.iter().enumerate() {
            text.push_str(&format!("n{host} s{place} latency=\"{host} ns\"\n"));
            if directed {
                text.push_str(&format!("s{place} n{host}\n"));
            }
        }
        for (&(a, b), rate) in pairs.iter().zip(rates) {
            // One edge a pair: undirected ones would be doubled by their reverse.
            if a == b || !directed && pairs.contains(&(b, a)) && a > b {
                continue;
            }
            let rate = rate.map_or(String::new(), |(rate, fraction)| {
                format!(" rate=\"{rate}.{fraction:011} kbit/s\"")
            });
            text.push_str(&format!("s{a} s{b}{rate}\n"));
        }
        text
    })
}

fn any_topology() -> impl Strategy<Value = Topology> {
    let graph = edge_list().prop_map(|text| parse_edge_list(&text).expect("a sound list"));
    prop_oneof![generated(), graph]
}

fn links(topology: &Topology) -> impl Iterator<Item = LinkId> {
    (0..topology.link_count()).map(LinkId)
}

fn hosts(topology: &Topology) -> impl Iterator<Item = HostId> {
    (0..topology.host_count()).map(HostId)
}

/// Links from each switch to others, by `link_ends`.
fn neighbours(topology: &Topology) -> Vec<Vec<SwitchId>> {
    let mut neighbours = vec![Vec::new(); topology.switch_count() as usize];
    for link in links(topology) {
        if let (Node::Switch(source), Node::Switch(target)) = topology.link_ends(link) {
            neighbours[source.0 as usize].push(target);
        }
    }
    neighbours
}

/// Links on the shortest way from a switch to each other, by breadth-first search.
fn distances(neighbours: &[Vec<SwitchId>], source: SwitchId) -> Vec<Option<u32>> {
    let mut distances = vec![None; neighbours.len()];
    distances[source.0 as usize] = Some(0);
    let mut queue = VecDeque::from([source]);
    while let Some(switch) = queue.pop_front() {
        let next = distances[switch.0 as usize].map(|distance| distance + 1);
        for neighbour in &neighbours[switch.0 as usize] {
            if distances[neighbour.0 as usize].is_none() {
                distances[neighbour.0 as usize] = next;
                queue.push_back(*neighbour);
            }
        }
    }
    distances
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn routes_are_connected_and_shortest(topology in any_topology()) {
        let neighbours = neighbours(&topology);
        let mut path = vec![LinkId(u32::MAX)];
        for source in hosts(&topology) {
            let distances = distances(&neighbours, topology.host_switch(source));
            for target in hosts(&topology) {
                path.truncate(1);
                topology.route(source, target, &mut path);
                // What was in the path before stays.
                prop_assert_eq!(path[0], LinkId(u32::MAX));
                let route = &path[1..];
                let distance = distances[topology.host_switch(target).0 as usize];
                let length = distance.map(|distance| distance + 2);
                prop_assert_eq!(topology.path_length(source, target), length);
                prop_assert_eq!(route.len() as u32, length.unwrap_or(0));
                let (Some(first), Some(last)) = (route.first(), route.last()) else { continue };
                prop_assert_eq!(*first, topology.host_up(source));
                prop_assert_eq!(*last, topology.host_down(target));
                for pair in route.windows(2) {
                    prop_assert_eq!(topology.link_ends(pair[0]).1, topology.link_ends(pair[1]).0);
                }
            }
        }
    }

    #[test]
    fn links_are_a_bijection_with_their_ends(topology in any_topology()) {
        let mut ends = Vec::new();
        for link in links(&topology) {
            let (source, target) = topology.link_ends(link);
            for node in [source, target] {
                match node {
                    Node::Host(host) => prop_assert!(host.0 < topology.host_count()),
                    Node::Switch(switch) => prop_assert!(switch.0 < topology.switch_count()),
                }
            }
            match topology.link_class(link) {
                LinkClass::HostUp => {
                    let Node::Host(host) = source else { panic!("{source:?}") };
                    prop_assert_eq!(topology.host_up(host), link);
                    prop_assert_eq!(Node::Switch(topology.host_switch(host)), target);
                }
                LinkClass::HostDown => {
                    let Node::Host(host) = target else { panic!("{target:?}") };
                    prop_assert_eq!(topology.host_down(host), link);
                    prop_assert_eq!(Node::Switch(topology.host_switch(host)), source);
                }
                LinkClass::Mesh | LinkClass::TreeUp | LinkClass::TreeDown => {
                    prop_assert!(matches!((source, target), (Node::Switch(_), Node::Switch(_))));
                    prop_assert_ne!(source, target);
                }
            }
            ends.push((source, target));
        }
        let count = ends.len();
        ends.sort_unstable();
        ends.dedup();
        prop_assert_eq!(ends.len(), count);
    }

    #[test]
    fn names_are_unique(topology in any_topology()) {
        let host_names = hosts(&topology).map(|host| topology.node_name(Node::Host(host)));
        let switches = (0..topology.switch_count()).map(|s| Node::Switch(SwitchId(s)));
        let switch_names = switches.map(|switch| topology.node_name(switch));
        let mut names: Vec<String> = host_names.chain(switch_names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), count);
    }

    #[test]
    fn neighbours_of_a_grid_differ_in_one_coordinate(
        sizes in prop::collection::vec(1u32..6, 1..4),
        wraps: bool,
    ) {
        let grid = if wraps { Topology::torus } else { Topology::mesh };
        let grid = grid(&sizes, 1, PORTS).unwrap();
        let mut expected = 0;
        for switch in 0..grid.switch_count() {
            let mut rest = switch;
            let coordinates: Vec<u32> = sizes
                .iter()
                .map(|size| {
                    let coordinate = rest % size;
                    rest /= size;
                    coordinate
                })
                .collect();
            let name = coordinates.iter().map(u32::to_string).collect::<Vec<_>>().join("-");
            prop_assert_eq!(grid.node_name(Node::Switch(SwitchId(switch))), format!("s{name}"));
            let mut stride = 1;
            for (&size, &at) in sizes.iter().zip(&coordinates) {
                for there in 0..size {
                    let around = wraps && at.abs_diff(there) == size - 1;
                    if at.abs_diff(there) == 1 || around && size > 1 {
                        expected += 1;
                        let other = switch - at * stride + there * stride;
                        prop_assert_eq!(
                            grid.path_length(HostId(switch), HostId(other)), Some(3)
                        );
                    }
                }
                stride *= size;
            }
        }
        prop_assert_eq!(grid.switch_link_count(), expected);
    }

    #[test]
    fn straight_lines_agree_with_routes(
        topology in generated(),
        hops in 0u32..9,
        direction in 0u32..8,
    ) {
        for host in hosts(&topology) {
            let Some(target) = topology.straight_line(host, direction, hops) else { continue };
            prop_assert!(direction < topology.directions());
            let size = topology.dimensions().unwrap()[direction as usize / 2];
            // On a ring the way back may be shorter.
            let around = hops % size;
            let is_open = topology.description().starts_with("mesh")
                || topology.description().starts_with("chain");
            let length = if is_open { hops } else { around.min(size - around) };
            prop_assert_eq!(topology.path_length(host, target), Some(length + 2));
            let back = direction ^ 1;
            prop_assert_eq!(topology.straight_line(target, back, hops), Some(host));
            // A chain with hosts at its ends has nobody in between.
            if topology.hosts_per_switch().unwrap() * topology.switch_count()
                == topology.host_count()
            {
                let step = |at: HostId| topology.straight_line(at, direction, 1);
                let mut at = Some(host);
                for _ in 0..hops {
                    at = at.and_then(step);
                }
                prop_assert_eq!(at, Some(target));
            }
        }
    }

    #[test]
    fn straight_lines_end_only_at_edges(sizes in prop::collection::vec(2u32..6, 1..4)) {
        let torus = Topology::torus(&sizes, 2, PORTS).unwrap();
        for host in hosts(&torus) {
            for direction in 0..torus.directions() {
                prop_assert!(torus.straight_line(host, direction, 7).is_some());
            }
            prop_assert_eq!(torus.straight_line(host, torus.directions(), 1), None);
        }
        let mesh = Topology::mesh(&sizes, 2, PORTS).unwrap();
        for direction in 0..mesh.directions() {
            let size = sizes[direction as usize / 2];
            let crossing = |hops| {
                let crosses = |&host: &HostId| mesh.straight_line(host, direction, hops).is_none();
                hosts(&mesh).filter(crosses).count() as u32
            };
            for hops in 0..=size {
                prop_assert_eq!(crossing(hops), mesh.host_count() / size * hops.min(size));
            }
        }
    }

    #[test]
    fn neighbours_are_all_hosts_one_hop_away(topology in generated()) {
        for host in hosts(&topology) {
            let mut found: Vec<HostId> = topology.neighbours(host).collect();
            let count = found.len();
            found.sort_unstable();
            found.dedup();
            prop_assert_eq!(found.len(), count);
            if topology.dimensions().is_none() {
                prop_assert_eq!(count, 0);
                continue;
            }
            let index = |host: HostId| {
                let name = topology.node_name(Node::Host(host));
                name.rsplit('-').next().unwrap().to_owned()
            };
            let expected: Vec<HostId> = hosts(&topology)
                .filter(|&other| topology.path_length(host, other) == Some(3))
                .filter(|&other| index(other) == index(host))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn reading_what_was_written_gives_the_same_graph(text in edge_list()) {
        let graph = parse_edge_list(&text).unwrap();
        let json = graph.to_node_link_json();
        let again = parse_node_link_json(&json).unwrap();
        prop_assert_eq!(again.to_node_link_json(), json);
        for link in links(&graph) {
            prop_assert_eq!(graph.link_name(link), again.link_name(link));
            prop_assert_eq!(
                graph.link_rate_bits_per_second(link), again.link_rate_bits_per_second(link)
            );
            prop_assert_eq!(
                graph.link_latency_picoseconds(link), again.link_latency_picoseconds(link)
            );
        }
        prop_assert_eq!(&graph, &again);
        let xml = graphml(&graph, text.contains("directed"));
        prop_assert_eq!(&parse_graphml(&xml).unwrap(), &graph);
    }

    #[test]
    fn graphml_and_builder_give_the_same_graph(topology in any_topology()) {
        let json = topology.to_node_link_json();
        let graph = parse_node_link_json(&json).unwrap();
        prop_assert_eq!(&parse_graphml(&graph.to_graphml()).unwrap(), &graph);
        let built = GraphBuilder::from_topology(&topology).unwrap().finish().unwrap();
        // Links of what is recognised are turned as the generator turns them.
        if topology.is_routed_by_rule() || !built.is_routed_by_rule() {
            prop_assert_eq!(built.to_node_link_json(), json);
        }
    }

    // The links in any order and either way round, with names and a rate of their own.
    #[test]
    fn a_generated_network_is_recognised_by_its_links(
        topology in generated(),
        order in any::<prop::sample::Index>(),
        named: bool,
        turned: bool,
    ) {
        let mut document: serde_json::Value =
            serde_json::from_str(&topology.to_node_link_json()).unwrap();
        let rename = |name: &str| if named { format!("the {name}") } else { name.to_owned() };
        let name = |value: &serde_json::Value| rename(value.as_str().unwrap()).into();
        for node in document["nodes"].as_array_mut().unwrap() {
            node["id"] = name(&node["id"]);
        }
        let edges = document["edges"].as_array_mut().unwrap();
        let first = order.index(edges.len());
        edges.rotate_left(first);
        for edge in edges.iter_mut() {
            let (from, to) = (name(&edge["source"]), name(&edge["target"]));
            (edge["source"], edge["target"]) = if turned { (to, from) } else { (from, to) };
        }
        edges[0]["rate"] = "5 Mbit/s".into();
        let (source, target) = (edges[0]["source"].clone(), edges[0]["target"].clone());
        let text = document.to_string();
        let again = parse_graph(&text, GraphFormat::NodeLinkJson, GraphRouting::Rule).unwrap();
        prop_assert!(again.is_routed_by_rule());
        prop_assert_eq!(again.table_bytes(), 0);
        // Nothing tells of a dimension with a single switch.
        let sizes = topology.dimensions().unwrap_or_default().iter();
        let seen = sizes.filter(|&&size| size > 1).count().max(1) as u32;
        let directions = topology.dimensions().map_or(0, |_| 2 * seen);
        if topology.switch_count() > 1 {
            prop_assert_eq!(again.directions(), directions);
        }
        for link in links(&topology) {
            let (from, to) = topology.link_ends(link);
            let [from, to] = [from, to].map(|node| rename(&topology.node_name(node)));
            prop_assert_eq!(again.link_name(link), format!("{from} -> {to}"));
            let pair = [from.as_str(), to.as_str()];
            let ends = [source.as_str().unwrap(), target.as_str().unwrap()];
            let rated = pair == ends || pair == [ends[1], ends[0]];
            let rate = again.link_rate_bits_per_second(link);
            prop_assert_eq!(rate, rated.then_some(5e6));
        }
        let some = 1 + topology.host_count() as usize / 20;
        for source in hosts(&topology).step_by(some) {
            for target in hosts(&topology) {
                let (mut here, mut there) = (Vec::<LinkId>::new(), Vec::<LinkId>::new());
                topology.route(source, target, &mut here);
                again.route(source, target, &mut there);
                prop_assert_eq!(here, there);
            }
        }
    }

    #[test]
    fn a_torus_with_an_edge_elsewhere_is_none(
        sizes in prop::collection::vec(3u32..5, 2..4), edge: prop::sample::Index,
    ) {
        let torus = Topology::torus(&sizes, 1, PORTS).unwrap();
        let mut document: serde_json::Value =
            serde_json::from_str(&torus.to_node_link_json()).unwrap();
        let edges = document["edges"].as_array_mut().unwrap();
        let hosts = torus.host_count() as usize;
        let edge = hosts + edge.index(edges.len() - hosts);
        // To the switch that is one on from its target.
        let other = edges[edge]["target"].as_str().unwrap().to_owned();
        let next = edges[hosts..].iter().find(|next| {
            next["source"] == other.as_str() && next["target"] != edges[edge]["source"]
        });
        edges[edge]["target"] = next.unwrap()["target"].clone();
        document["multigraph"] = true.into();
        let text = document.to_string();
        let read = |routing| parse_graph(&text, GraphFormat::NodeLinkJson, routing);
        prop_assert!(read(GraphRouting::ShortestPath(EqualPaths::Hash)).is_ok());
        let error = read(GraphRouting::Rule).unwrap_err().to_string();
        prop_assert!(error.starts_with("the graph is no chain, mesh, torus"), "{}", error);
    }

    #[test]
    fn a_generated_topology_reads_back_with_its_nodes_and_links(topology in generated()) {
        let again = parse_node_link_json(&topology.to_node_link_json()).unwrap();
        prop_assert_eq!(again.host_count(), topology.host_count());
        prop_assert_eq!(again.switch_count(), topology.switch_count());
        let names = |topology: &Topology| {
            let mut names: Vec<String> = links(topology).map(|l| topology.link_name(l)).collect();
            names.sort_unstable();
            names
        };
        prop_assert_eq!(names(&again), names(&topology));
        for (source, target) in hosts(&topology).zip(hosts(&topology).skip(1)) {
            prop_assert_eq!(
                again.path_length(source, target), topology.path_length(source, target)
            );
        }
    }

    // The rule by which generated topologies are judged against the search on a graph whose tables
    // are the generated routes.
    #[test]
    fn deadlocks_by_rule_are_those_by_search(topology in generated()) {
        let graph = parse_node_link_json(&topology.to_node_link_json()).unwrap();
        let graph = graph.with_tables(&tables(&topology)).unwrap();
        let mut path = Vec::new();
        let mut names = |topology: &Topology, source, target| {
            path.clear();
            topology.route(source, target, &mut path);
            path.iter().map(|&link| topology.link_name(link)).collect::<Vec<_>>()
        };
        for source in hosts(&topology) {
            for target in hosts(&topology) {
                // A graph has one route through a switch for a target: true of these rules too,
                // else the tables could not hold them.
                prop_assert_eq!(
                    names(&topology, source, target), names(&graph, source, target)
                );
            }
        }
        let has_cycle = |topology: &Topology| {
            let report = topology.check();
            assert!(!report.has_errors(), "{report}");
            let mut cycles = report.findings.iter().filter(|f| f.kind == FindingKind::Deadlock);
            let cycle = cycles.next().map(|finding| finding.links.clone());
            for (number, &link) in cycle.iter().flatten().enumerate() {
                let cycle = cycle.as_ref().unwrap();
                let next = cycle[(number + 1) % cycle.len()];
                assert_eq!(topology.link_ends(link).1, topology.link_ends(next).0);
            }
            cycle.is_some()
        };
        prop_assert_eq!(has_cycle(&topology), has_cycle(&graph));
    }

    #[test]
    fn reach_errors_appear_exactly_without_a_way(text in edge_list()) {
        let graph = parse_edge_list(&text).unwrap();
        let pairs = hosts(&graph).flat_map(|a| hosts(&graph).map(move |b| (a, b)));
        let broken = pairs.into_iter().any(|(a, b)| graph.path_length(a, b).is_none());
        prop_assert_eq!(graph.check().has_errors(), broken);
    }

    // Tables with arbitrary next neighbours: routes end, and the report says whether all arrive.
    #[test]
    fn any_tables_give_routes_that_end(
        text in edge_list(),
        choices in prop::collection::vec(0usize..9, 200),
    ) {
        let graph = parse_edge_list(&text).unwrap();
        let neighbours = neighbours(&graph);
        let mut choices = choices.into_iter().cycle();
        let mut file = serde_json::Map::new();
        for (switch, next) in neighbours.iter().enumerate() {
            let mut table = serde_json::Map::new();
            for host in hosts(&graph) {
                let choice = choices.next().unwrap();
                if graph.host_switch(host).0 as usize != switch
                    && let Some(&next) = next.get(choice)
                {
                    let next = graph.node_name(Node::Switch(next));
                    table.insert(graph.node_name(Node::Host(host)), next.into());
                }
            }
            let name = graph.node_name(Node::Switch(SwitchId(switch as u32)));
            file.insert(name, table.into());
        }
        let graph = graph.with_tables(&serde_json::Value::from(file).to_string()).unwrap();
        let mut broken = false;
        let mut path: Vec<LinkId> = Vec::new();
        for source in hosts(&graph) {
            for target in hosts(&graph) {
                path.clear();
                graph.route(source, target, &mut path);
                broken |= path.is_empty();
                prop_assert_eq!(graph.path_length(source, target).unwrap_or(0), path.len() as u32);
            }
        }
        prop_assert_eq!(graph.check().has_errors(), broken);
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in "[ -~\n]{0,200}") {
        let _ = parse_edge_list(&text);
        let _ = parse_node_link_json(&text);
        let _ = parse_graphml(&text);
    }

    // Sound files with a piece removed or doubled come nearer to the readers' inner parts.
    #[test]
    fn no_damage_makes_a_reader_panic(
        text in edge_list(),
        start in 0usize..2000,
        length in 0usize..20,
        doubled: bool,
    ) {
        let graph = parse_edge_list(&text).unwrap();
        let json = graph.to_node_link_json();
        let xml = graphml(&graph, text.contains("directed"));
        let damage = |text: &str| {
            let start = start % (text.len() + 1);
            let end = (start + length).min(text.len());
            let piece = if doubled { text[start..end].repeat(2) } else { String::new() };
            format!("{}{piece}{}", &text[..start], &text[end..])
        };
        let _ = parse_edge_list(&damage(&text));
        let _ = parse_node_link_json(&damage(&json));
        let _ = parse_graphml(&damage(&xml));
    }
}

/// A graph as GraphML, written in the order in which its JSON is.
fn graphml(graph: &Topology, directed: bool) -> String {
    let document: serde_json::Value = serde_json::from_str(&graph.to_node_link_json()).unwrap();
    let default = if directed { "directed" } else { "undirected" };
    let mut xml = format!(
        "<?xml version=\"1.0\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
         <key id=\"k\" for=\"node\" attr.name=\"kind\" attr.type=\"string\">\
         <default>switch</default></key>\n\
         <key id=\"r\" for=\"edge\" attr.name=\"rate\" attr.type=\"string\"/>\n\
         <key id=\"l\" for=\"edge\" attr.name=\"latency\" attr.type=\"string\"/>\n\
         <graph edgedefault=\"{default}\">\n"
    );
    for node in document["nodes"].as_array().unwrap() {
        let id = node["id"].as_str().unwrap();
        if node["kind"] == "host" {
            xml.push_str(&format!(
                "<node id=\"{id}\"><data key=\"k\">h&#111;st</data></node>\n"
            ));
        } else {
            xml.push_str(&format!("<node id=\"{id}\"/>\n"));
        }
    }
    for edge in document["edges"].as_array().unwrap() {
        let text = |name: &str| edge[name].as_str().map(str::to_owned);
        let (source, target) = (text("source").unwrap(), text("target").unwrap());
        xml.push_str(&format!("<edge source=\"{source}\" target=\"{target}\">"));
        for (key, value) in [("r", text("rate")), ("l", text("latency"))] {
            if let Some(value) = value {
                xml.push_str(&format!("<data key=\"{key}\">{value}</data>"));
            }
        }
        xml.push_str("</edge>\n");
    }
    xml + "</graph></graphml>\n"
}

/// The routes of a topology as tables.
fn tables(topology: &Topology) -> String {
    let mut file = serde_json::Map::new();
    let mut path = Vec::new();
    for source in hosts(topology) {
        for target in hosts(topology) {
            path.clear();
            topology.route(source, target, &mut path);
            for &link in &path[1..] {
                let (from, to) = topology.link_ends(link);
                let table = file
                    .entry(topology.node_name(from))
                    .or_insert_with(|| serde_json::Map::new().into());
                let next = topology.node_name(to).into();
                table
                    .as_object_mut()
                    .unwrap()
                    .insert(topology.node_name(Node::Host(target)), next);
            }
        }
    }
    serde_json::Value::from(file).to_string()
}
