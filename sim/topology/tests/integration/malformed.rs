//! Files that are not understood: what each is told, word for word.

use viaduct_topology::{
    GRAPH_DEGREE_MAX, GRAPH_SWITCHES_MAX, HostId, LinkId, NAME_BYTES_MAX, Node, Ports, SwitchId,
    Topology, TopologyError, TreeShape, UNUSED_ATTRIBUTES_MAX, parse_edge_list, parse_graphml,
    parse_node_link_json,
};

fn message(result: Result<Topology, TopologyError>) -> String {
    result.map_or_else(
        |error| error.to_string(),
        |graph| format!("fine: {}", graph.description()),
    )
}

/// Each file, indented, and what its reader says of it.
fn table<T: AsRef<str>>(
    cases: &[T],
    read: impl Fn(&str) -> Result<Topology, TopologyError>,
) -> String {
    let rows = cases.iter().map(|case| {
        let indented: Vec<String> = case
            .as_ref()
            .lines()
            .map(|line| format!("    {line}"))
            .collect();
        format!(
            "{}\n{}\n",
            indented.join("\n"),
            message(read(case.as_ref()))
        )
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn edge_lists() {
    let cases: &[&str] = &[
        "",
        "n0 s0\n",
        "hosts\n",
        "hosts n*\nn0\n",
        "hosts n*\nn0 n1\n",
        "hosts n*\nn0 n0\n",
        "hosts n*\nn0 s0\ns0 s0\n",
        "hosts n*\nn0 s0\nn0 s1\n",
        "hosts n*\nn0 s0\nn0 s0\n",
        "hosts n*\nn0 s0\ns0 s1\ns1 s0\n",
        "hosts n*\ndirected\nn0 s0\n",
        "hosts n*\ndirected\nn0 s0\ns1 n0\n",
        "hosts n* x\nn0 s0\n",
        "hosts n* n*\nn0 s0\n",
        "hosts n*\nports\n",
        "hosts n*\nports many s*\n",
        "hosts n*\nports +8 s*\n",
        "hosts n*\nports 0 s*\n",
        "hosts n*\nports 8\n",
        "hosts n*\nports 8 s*\nports 4 s*\n",
        "hosts n*\nports 8 t*\nn0 s0\n",
        "hosts n*\nports 2 s*\nports 1 s0\nn0 s0\ns0 s1\nn1 s1\n",
        "hosts n*\nn0 s0 rate=100\n",
        "hosts n*\nn0 s0   rate=\"100 Mbps\"  # units\n",
        "hosts n*\nn0 s0 rate=\"100 Mbit/s\n",
        "hosts n*\nn0 s0 latency=0.5us latency=1us\n",
        "hosts n*\nn0 s0 speed=\"100 Mbit/s\"\n",
        "hosts n*\nn0 s0 {'weight': 1}\n",
        "hosts n*\nn0 s*\n",
        "hosts n*\nn0 hosts\n",
        "hosts n*\na=1 s0\n",
    ];
    insta::assert_snapshot!(table(cases, parse_edge_list));
}

#[test]
fn node_link_files() {
    let cases: &[&str] = &[
        "",
        "{",
        "[]",
        "{\"nodes\": []}",
        "{\"nodes\": [], \"edges\": []}",
        "{\"nodes\": {}, \"edges\": []}",
        "{\"nodes\": [1], \"edges\": []}",
        "{\"nodes\": [{\"kind\": \"host\"}], \"edges\": []}",
        "{\"nodes\": [\n  {\"id\": \"a\"}], \"edges\": []}",
        "{\"nodes\": [{\"id\": \"a\", \"kind\": \"router\"}], \"edges\": []}",
        "{\"nodes\": [{\"id\": \"a\", \"kind\": 3}], \"edges\": []}",
        "{\"nodes\": [{\"id\": 1.5, \"kind\": \"host\"}], \"edges\": []}",
        "{\"nodes\": [{\"id\": {}, \"kind\": \"host\"}], \"edges\": []}",
        "{\"nodes\": [{\"id\": \"\", \"kind\": \"host\"}], \"edges\": []}",
        "{\"nodes\": [{\"id\": \"a\\u0007\", \"kind\": \"host\"}], \"edges\": []}",
        "{\"nodes\": [{\"id\": \"a\", \"kind\": \"host\"}, {\"id\": \"a\", \"kind\": \"host\"}], \
         \"edges\": []}",
        "{\"nodes\": [{\"id\": \"a\", \"kind\": \"host\", \"ports\": 1}], \"edges\": []}",
        "{\"nodes\": [{\"id\": \"a\", \"kind\": \"switch\", \"ports\": 1.5}], \"edges\": []}",
        "{\"nodes\": [{\"id\": \"a\", \"kind\": \"host\"}], \"edges\": []}",
        "{\"nodes\": [{\"id\": \"a\", \"kind\": \"host\"}], \"edges\": [{\"source\": \"a\"}]}",
        "{\"nodes\": [{\"id\": \"a\", \"kind\": \"host\"}], \
         \"edges\": [{\"source\": \"a\", \"target\": \"b\"}]}",
        "{\"nodes\": [], \"edges\": [], \"links\": []}",
        "{\"nodes\": [], \"nodes\": [], \"edges\": []}",
        "{\"directed\": 1, \"nodes\": [], \"edges\": []}",
        "{\"nodes\": [{\"id\": 0, \"kind\": \"host\"}, {\"id\": 1, \"kind\": \"switch\"}],\n \
         \"links\": [{\"source\": 0, \"target\": 1, \"rate\": 100}]}",
        "{\"nodes\": [{\"id\": 0, \"kind\": \"host\"}, {\"id\": 1, \"kind\": \"switch\"}],\n \
         \"links\": [{\"source\": 0, \"target\": 1, \"latency\": [1]}]}",
        "{\"nodes\": [{\"id\": 0, \"kind\": \"host\"}, {\"id\": [1, 2], \"kind\": \"switch\"}],\n \
         \"links\": [{\"source\": 0, \"target\": [1, 2], \"latency\": \"1 us\"}]}",
        "{\"nodes\": [\n{\"id\": 0,, \"kind\": \"host\"}], \"edges\": []}",
        "{\"nodes\": [{\"id\": \"a\\ud800\", \"kind\": \"host\"}], \"edges\": []}",
    ];
    insta::assert_snapshot!(table(cases, parse_node_link_json));
}

#[test]
fn graphml_files() {
    let graph = |inside: &str| {
        format!(
            "<graphml><key id=\"k\" for=\"node\" attr.name=\"kind\"/>\
             <key id=\"r\" for=\"edge\" attr.name=\"rate\"/>\
             <graph edgedefault=\"undirected\">\n{inside}</graph></graphml>"
        )
    };
    let cases: &[String] = &[
        String::new(),
        "<html/>".into(),
        "<graphml/>".into(),
        "<graphml>".into(),
        "<graphml><graph edgedefault=\"undirected\">".into(),
        "<graphml><graph></graph></graphml>".into(),
        "<graphml><graph edgedefault=\"undirected\"></graf></graphml>".into(),
        graph(""),
        graph("<node/>"),
        graph("<node id=\"a\"/>"),
        graph("<node id=\"a\" id=\"b\"/>"),
        graph("<node id=\"a\"><data key=\"k\">router</data></node>"),
        graph("<node id=\"a\"><data key=\"k\">host</data><data key=\"k\">host</data></node>"),
        graph("<node id=\"a\"><data key=\"x\">host</data></node>"),
        graph("<node id=\"a\"><data key=\"k\">&who;</data></node>"),
        graph("<node id=\"a\"><graph edgedefault=\"directed\"/></node>"),
        graph("<hyperedge/>"),
        graph("loose"),
        graph("<edge source=\"a\"/>"),
        graph("<edge source=\"a\" target=\"b\" directed=\"maybe\"/>"),
        graph(
            "<node id=\"a\"><data key=\"k\">host</data></node>\
             <node id=\"b\"><data key=\"k\">switch</data></node>\n\
         <edge source=\"a\" target=\"b\"><data key=\"r\">9</data></edge>",
        ),
        "<graphml><graph edgedefault=\"directed\"/><graph edgedefault=\"directed\"/></graphml>"
            .into(),
        format!("<graphml>{}", "<a>".repeat(40)),
        graph(&format!(
            "<node {}/>",
            (0..40).map(|i| format!("a{i}=\"\" ")).collect::<String>()
        )),
    ];
    insta::assert_snapshot!(table(cases, parse_graphml));
}

const RING: &str = "hosts n*\nn0 s0\ns0 s1\ns1 s2\ns2 s0\nn1 s1\nn2 s2\n";

#[test]
fn tables() {
    let graph = parse_edge_list(RING).unwrap();
    let cases = [
        "",
        "{\"s9\": {}}",
        "{\"s0\": []}",
        "{\"s0\": {\"n9\": \"s1\"}}",
        "{\"s0\": {\"n1\": \"n1\"}}",
        "{\"s0\": {\"n0\": \"s1\"}}",
        "{\"s0\": {\"*\": \"n1\"}}",
        "{\"s0\": {\"*\": [1]}}",
        "{\"s0\": {\"n1\": \"s1\", \"n1\": \"s2\"}}",
    ];
    insta::assert_snapshot!(table(&cases, |case| graph.clone().with_tables(case)));
    let torus = Topology::torus(&[4, 4], 1, Ports(5)).unwrap();
    assert_eq!(
        message(torus.with_tables("{}")),
        "routing tables need a topology read from a file, but this one is generated \
         (torus of 4x4 switches, 1 host a switch) and routes by rule: export it with \
         to_node_link_json, read it back, then add the tables"
    );
}

#[test]
fn reports() {
    let mut text = String::new();
    let mut add = |name: &str, topology: Topology| {
        text.push_str(&format!("{name}\n{}\n", topology.check()));
    };
    let given = |tables| {
        parse_edge_list(RING)
            .and_then(|graph| graph.with_tables(tables))
            .unwrap()
    };
    add("ring, empty tables", given("{}"));
    let around = "{\"s0\": {\"*\": \"s1\"}, \"s1\": {\"*\": \"s2\"}, \"s2\": {\"*\": \"s0\"}}";
    add("ring, one way round", given(around));
    add(
        "ring, two switches that send back and forth",
        given(
            "{\"s0\": {\"n2\": \"s1\"}, \"s1\": {\"n2\": \"s0\", \"n0\": \"s0\"}, \
             \"s2\": {\"*\": \"s0\"}}",
        ),
    );
    let list = |text: &str| parse_edge_list(text).unwrap();
    add("ring, shortest paths", list(RING));
    add("two parts", list("hosts n*\nn0 s0\nn1 s1\nn2 s0\n"));
    let many: String = (0..9).map(|host| format!("n{host} s{host}\n")).collect();
    add("nine parts", list(&format!("hosts n*\n{many}")));
    add(
        "one way",
        list("hosts n*\ndirected\nn0 s0\ns0 n0\ns0 s1\nn1 s1\ns1 n1\n"),
    );
    let crossed = "hosts n*\ndirected\nn0 s0\ns0 n0\nn1 s1\ns1 n1\nn2 s2\ns2 n2\n\
                   s0 s1\ns0 s2\ns1 s0\ns2 s0\n";
    let no_way = "{\"s0\": {\"n1\": \"s1\", \"n2\": \"s2\"}, \"s1\": {\"n0\": \"s0\"}, \
                  \"s2\": {\"n0\": \"s0\"}}";
    add(
        "not all with all",
        list(crossed).with_tables(no_way).unwrap(),
    );
    let json = "{\"nodes\": [{\"id\": 0, \"kind\": \"host\", \"pos\": 1}, \
                {\"id\": 1, \"kind\": \"switch\"}], \
                \"edges\": [{\"source\": 0, \"target\": 1, \"weight\": 2}], \"by\": \"hand\"}";
    add("foreign attributes", parse_node_link_json(json).unwrap());
    add(
        "torus 16x16",
        Topology::torus(&[16, 16], 4, Ports(8)).unwrap(),
    );
    add("torus 4x3", Topology::torus(&[4, 3], 4, Ports(8)).unwrap());
    add("torus 3x4", Topology::torus(&[3, 4], 4, Ports(8)).unwrap());
    add("torus 3x3", Topology::torus(&[3, 3], 4, Ports(8)).unwrap());
    add("torus 5", Topology::torus(&[5], 1, Ports(3)).unwrap());
    add("mesh 8x8", Topology::mesh(&[8, 8], 1, Ports(5)).unwrap());
    add(
        "fat tree",
        Topology::fat_tree(
            TreeShape {
                arity: 3,
                levels: 3,
            },
            Ports(6),
        )
        .unwrap(),
    );
    insta::assert_snapshot!(text);
}

#[test]
fn limits_hold_at_the_limit_and_not_one_past_it() {
    let chain = |switches: u32| {
        let links: String = (1..switches)
            .map(|s| format!("s{} s{s}\n", s - 1))
            .collect();
        parse_edge_list(&format!("hosts n*\nn0 s0\n{links}"))
    };
    assert_eq!(
        chain(GRAPH_SWITCHES_MAX).unwrap().switch_count(),
        GRAPH_SWITCHES_MAX
    );
    assert_eq!(
        message(chain(GRAPH_SWITCHES_MAX + 1)),
        "the number of switches: 262145 is more than the limit of 262144; \
         use a smaller graph, or a generated topology, which needs no tables"
    );

    let star = |leaves: u32| {
        let links: String = (0..leaves).map(|leaf| format!("s t{leaf}\n")).collect();
        parse_edge_list(&format!("hosts n*\nn0 s\n{links}"))
    };
    assert_eq!(
        star(GRAPH_DEGREE_MAX).unwrap().switch_link_count(),
        2 * GRAPH_DEGREE_MAX
    );
    assert_eq!(
        message(star(GRAPH_DEGREE_MAX + 1)),
        "the number of links of a switch: 65535 is more than the limit of 65534; \
         use a smaller graph, or a generated topology, which needs no tables"
    );

    let named =
        |length: usize| parse_edge_list(&format!("hosts n*\nn{} s\n", "x".repeat(length - 1)));
    assert!(named(NAME_BYTES_MAX).is_ok());
    assert_eq!(
        message(named(NAME_BYTES_MAX + 1)),
        "line 2, column 1, at `nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...`: \
         the name of a node has more than 255 bytes; give each node a short printable name"
    );

    // A host at each switch: tables of two bytes for each pair of switches.
    let line = |switches: u32| {
        let links: String = (1..switches)
            .map(|s| format!("s{} s{s}\n", s - 1))
            .collect();
        let hosts: String = (0..switches).map(|s| format!("n{s} s{s}\n")).collect();
        parse_edge_list(&format!("hosts n*\n{links}{hosts}"))
    };
    assert_eq!(
        message(line(11_586)),
        "bytes of the routing tables (two for each target and switch): \
         268470792 is more than the limit of 268435456; \
         use a smaller graph, or a generated topology, which needs no tables"
    );
}

#[test]
fn unused_attributes_are_counted_up_to_a_limit() {
    let report = |names: usize| {
        let names: String = (0..names).map(|name| format!("\"x{name}\": 0, ")).collect();
        let json = format!(
            "{{\"nodes\": [{{{names}\"id\": 0, \"kind\": \"host\"}}, \
             {{\"id\": 1, \"kind\": \"switch\"}}], \"edges\": [{{\"source\": 0, \"target\": 1}}]}}"
        );
        parse_node_link_json(&json).unwrap().check().to_string()
    };
    assert!(report(UNUSED_ATTRIBUTES_MAX).contains(" and 95 more;"));
    assert!(report(UNUSED_ATTRIBUTES_MAX + 1).contains(" and 95 more;"));
    assert!(report(UNUSED_ATTRIBUTES_MAX - 1).contains(" and 94 more;"));
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    let depth = 200_000;
    for opening in ["[", "{\"a\":"] {
        let nested = opening.repeat(depth);
        assert!(parse_node_link_json(&nested).is_err());
        assert!(parse_node_link_json(&format!("{{\"nodes\": {nested}")).is_err());
    }
    let closed = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let file = format!("{{\"nodes\": [{{\"id\": {closed}}}], \"edges\": []}}");
    assert!(parse_node_link_json(&file).is_err());
    assert!(parse_graphml(&"<graphml>".repeat(depth)).is_err());
}

#[test]
fn names_of_all_kinds_are_read() {
    let json = "{\"nodes\": [{\"id\": [0, \"a\"], \"kind\": \"switch\"}, \
                {\"id\": 7, \"kind\": \"host\"}, {\"id\": \"\\u00e9\\\"\", \"kind\": \"host\"}], \
                \"links\": [{\"source\": 7, \"target\": [0, \"a\"], \"key\": 0}, \
                {\"source\": \"\\u00e9\\\"\", \"target\": [0, \"a\"], \"rate\": null}]}";
    let graph = parse_node_link_json(json).unwrap();
    assert_eq!(graph.node_name(Node::Switch(SwitchId(0))), "0-a");
    assert_eq!(graph.node_name(Node::Host(HostId(0))), "7");
    assert_eq!(graph.node_name(Node::Host(HostId(1))), "\u{e9}\"");
    assert_eq!(
        parse_node_link_json(&graph.to_node_link_json()).unwrap(),
        graph
    );
}

#[test]
fn first_link_in_the_file_breaks_the_tie() {
    let names = |text: &str| {
        let graph = parse_edge_list(text).unwrap();
        let mut path: Vec<LinkId> = Vec::new();
        graph.route(HostId(0), HostId(1), &mut path);
        path.iter()
            .map(|&link| graph.link_name(link))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let square = "hosts n*\nn0 a\nn1 d\n";
    assert_eq!(
        names(&format!("{square}a b\na c\nb d\nc d\n")),
        "n0 -> a, a -> b, b -> d, d -> n1"
    );
    assert_eq!(
        names(&format!("{square}b d\nc d\nc a\na b\n")),
        "n0 -> a, a -> c, c -> d, d -> n1"
    );
    // Of parallel links the first.
    let graph = parse_edge_list("multigraph\nhosts n*\nn0 a\nn1 b\na b\na b\n").unwrap();
    let mut path: Vec<LinkId> = Vec::new();
    graph.route(HostId(0), HostId(1), &mut path);
    assert_eq!(path, [LinkId(0), LinkId(4), LinkId(3)]);
}

#[test]
fn names_win_over_prefixes_and_longer_prefixes_over_shorter() {
    let rules = "hosts n*\nports 9 s*\nports 2 s1*\nports 3 s12\n";
    let links = "n0 s0\nn1 s1\nn2 s12\ns0 s1\ns1 s12\n";
    assert_eq!(
        message(parse_edge_list(&format!("{rules}{links}"))),
        "switch s1 needs 3 ports (1 host, 2 switches) but has 2: \
         raise the ports of a switch to at least 3, or attach less to it"
    );
    let links = "n0 s0\nn1 s1\nn2 s12\nn3 s12\ns1 s12\n";
    assert!(parse_edge_list(&format!("{rules}{links}")).is_ok());
}

#[test]
fn attributes_belong_to_their_links() {
    let graph = parse_edge_list(
        "hosts n*\nn0 a rate=\"1.06 Gbit/s\"\nn1 b\na b latency=\"0.5 us\" rate=\"856 Mbit/s\"\n",
    )
    .unwrap();
    let rates: Vec<Option<f64>> = (0..6)
        .map(|link| graph.link_rate_bits_per_second(LinkId(link)))
        .collect();
    let (host, mesh) = (Some(1.06e9), Some(856e6));
    assert_eq!(rates, [host, None, host, None, mesh, mesh]);
    let latencies: Vec<Option<u64>> = (0..6)
        .map(|link| graph.link_latency_picoseconds(LinkId(link)))
        .collect();
    assert_eq!(
        latencies,
        [None, None, None, None, Some(500_000), Some(500_000)]
    );
    let plain = parse_edge_list("hosts n*\nn0 a\n").unwrap();
    assert_eq!(plain.link_rate_bits_per_second(LinkId(0)), None);
    // One row for one switch with hosts, a row number for each host, a host for the row.
    assert_eq!(plain.table_bytes(), 2 + 4 + 4);
}
