//! Networks that a program hands in instead of a file.

use std::sync::Arc;

use viaduct_scenario::{HandedIn, Override, Study, network_toml, parse_study_on};
use viaduct_topology::{
    ChainHosts, GraphBuilder, LinkAttributes, LinkId, Ports, Topology, TreeShape,
};

const REST: &str = "\n[run]\nuntil = \"1 ms\"\n[links]\nrate = \"1 Gbit/s\"\n\
                    [traffic]\npattern = \"uniform\"\nrate = \"1000/s\"\nsize = \"64 B\"\n";

fn study(network: &Topology, set: &[Override]) -> Study {
    let text = network_toml(network, "network.json") + REST;
    let given = HandedIn {
        network: Some(("network.json", Arc::new(network.clone()))),
        ..HandedIn::default()
    };
    parse_study_on("mine", &text, set, given).unwrap()
}

fn generated() -> Vec<Topology> {
    let tree = TreeShape {
        arity: 3,
        levels: 2,
    };
    vec![
        Topology::torus(&[4, 3], 2, Ports(7)).unwrap(),
        Topology::mesh(&[2, 3, 2], 1, Ports(u32::MAX)).unwrap(),
        Topology::chain(4, ChainHosts::Ends(2), Ports(3)).unwrap(),
        Topology::chain(4, ChainHosts::EverySwitch(2), Ports(u32::MAX)).unwrap(),
        Topology::single_switch(5, Ports(8)).unwrap(),
        Topology::fat_tree(tree, Ports(6)).unwrap(),
    ]
}

#[test]
fn a_generated_network_is_said_by_its_measures() {
    for network in generated() {
        let study = study(&network, &[]);
        assert_eq!(*study.config.topology, network);
        assert!(!study.resolved_toml().contains("network.json"));
    }
}

#[test]
fn links_of_hosts_are_as_the_program_has_them_and_not_as_a_preset() {
    let preset = Override::fixed("links.preset=wan-10ms");
    let of_program = study(&generated()[0], std::slice::from_ref(&preset));
    assert_eq!(of_program.value("links.host_rate").unwrap(), "1 Gbit/s");
    // What the program leaves out is the preset's.
    assert_eq!(of_program.value("links.host_propagation").unwrap(), "15 ns");
    let latency = Override::fixed("links.propagation=1us");
    let of_program = study(&generated()[0], &[preset, latency]);
    assert_eq!(of_program.value("links.host_propagation").unwrap(), "1 us");
}

#[test]
fn a_network_with_names_and_rates_runs_again_from_its_text() {
    for network in generated() {
        let mut graph = GraphBuilder::from_topology(&network).unwrap();
        let extra = graph.add_host(Some("a host of its own")).unwrap();
        let rate = LinkAttributes {
            rate_bits_per_second: Some(2e9),
            latency_picoseconds: Some(1),
        };
        let switch = graph.switch(0).unwrap();
        let host = graph.host(extra.0).unwrap();
        graph.link(host, switch, rate).unwrap();
        // One host more is some other network, unless it is a single switch.
        let made = graph.finish();
        let Ok(network) = made else {
            assert!(network.ports().unwrap().0 < u32::MAX, "{made:?}");
            continue;
        };
        let study = study(&network, &[]);
        assert_eq!(*study.config.topology, network);
        let again = Study::from_resolved(&study.resolved_toml()).unwrap();
        assert_eq!(*again.config.topology, network);
        assert_eq!(again.resolved_toml(), study.resolved_toml());
    }
}

#[test]
fn names_leave_the_rule_and_other_routes_can_be_asked_for() {
    let mut graph = GraphBuilder::default();
    for name in ["a", "b", "c"] {
        graph.add_switch(Some(name), None).unwrap();
    }
    graph.add_hosts(3).unwrap();
    for index in 0..3 {
        let (here, next) = (graph.switch(index), graph.switch((index + 1) % 3));
        let (here, next) = (here.unwrap(), next.unwrap());
        let host = graph.host(index).unwrap();
        graph.link(host, here, LinkAttributes::default()).unwrap();
        graph.link(here, next, LinkAttributes::default()).unwrap();
    }
    let ring = graph.finish().unwrap();
    assert!(ring.is_routed_by_rule() && !ring.is_generated());
    let by_rule = study(&ring, &[Override::fixed("traffic.pattern=neighbours")]);
    assert_eq!(by_rule.value("network.routing").as_deref(), Some("rule"));
    assert_eq!(by_rule.config.topology.link_name(LinkId(6)), "a -> b");
    let again = Study::from_resolved(&by_rule.resolved_toml()).unwrap();
    assert_eq!(again.config.topology, by_rule.config.topology);
    let by_path = study(&ring, &[Override::fixed("network.routing=shortest-path")]);
    assert!(!by_path.config.topology.is_routed_by_rule());
    assert!(by_path.config.topology.table_bytes() > 0);
}

#[test]
fn a_network_that_is_handed_in_spreads_its_flows_unless_told_otherwise() {
    // Two switches with three trunks between them.
    let mut graph = GraphBuilder::new(false, true);
    graph.add_switches(2, None).unwrap();
    graph.add_hosts(4).unwrap();
    let [one, other] = [0, 1].map(|number| graph.switch(number).unwrap());
    for host in 0..4 {
        let host_node = graph.host(host).unwrap();
        let switch = if host < 2 { one } else { other };
        graph
            .link(host_node, switch, LinkAttributes::default())
            .unwrap();
    }
    for _ in 0..3 {
        graph.link(one, other, LinkAttributes::default()).unwrap();
    }
    let network = graph.finish().unwrap();
    let spread = study(&network, &[]);
    assert!(spread.config.topology.has_equal_paths());
    let single = study(&network, &[Override::fixed("network.equal_paths=single")]);
    assert!(!single.config.topology.has_equal_paths());
    let again = Study::from_resolved(&single.resolved_toml()).unwrap();
    assert_eq!(again.config.topology, single.config.topology);
}
