use std::collections::BTreeSet;

use viaduct_topology::{Ports, Topology, TreeShape, parse_edge_list};

use super::*;

/// The object that a page draws.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

fn places(layout: &Layout) -> BTreeSet<(i64, i64)> {
    let all = layout.hosts.iter().chain(&layout.switches);
    all.map(|&(x, y)| ((x * 1000.0).round() as i64, (y * 1000.0).round() as i64))
        .collect()
}

#[test]
fn every_network_has_its_nodes_in_different_places_and_all_its_links() {
    let list = "hosts n*\nn0 s0\nn1 s1\nn2 s2\nn3 s3\ns0 s1\ns1 s2\ns2 s0\ns2 s3\n";
    let shape = TreeShape {
        arity: 4,
        levels: 3,
    };
    // Pairs of switches that are joined, by hand.
    let networks = [
        (Topology::torus(&[4, 4], 2, Ports(6)).unwrap(), 32),
        (Topology::mesh(&[3, 3, 3], 1, Ports(7)).unwrap(), 54),
        (Topology::fat_tree(shape, Ports(8)).unwrap(), 2 * 16 * 4),
        (Topology::single_switch(5, Ports(5)).unwrap(), 0),
        (parse_edge_list(list).unwrap(), 4),
    ];
    for (topology, links) in &networks {
        let layout = Layout::new(topology);
        let name = topology.description();
        assert_eq!(layout.links.len(), *links, "{name}");
        assert_eq!(places(&layout).len(), layout.node_count(), "{name}");
        let svg = network_svg(topology, &layout, &name);
        // One of each is in the legend.
        assert_eq!(
            svg.matches("<rect ").count(),
            topology.switch_count() as usize + 1
        );
        assert_eq!(
            svg.matches("<circle ").count(),
            topology.host_count() as usize + 1
        );
        for words in [">switch<", ">host<", ">link, both ways<"] {
            assert!(svg.contains(words), "{words}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

#[test]
fn hosts_of_a_switch_stand_around_it_and_apart_from_those_of_others() {
    // Two spines, four leaves with twelve hosts each.
    let mut list = String::from("hosts n*\n");
    for leaf in 0..4 {
        for host in 0..12 {
            list += &format!("n{leaf}-{host} leaf{leaf}\n");
        }
        list += &format!("leaf{leaf} spine0\nleaf{leaf} spine1\n");
    }
    for topology in [
        parse_edge_list(&list).unwrap(),
        Topology::torus(&[3, 3], 24, Ports(28)).unwrap(),
        Topology::mesh(&[4, 2], 4, Ports(8)).unwrap(),
    ] {
        let layout = Layout::new(&topology);
        let name = topology.description();
        let apart = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).hypot(a.1 - b.1);
        for (host, &at) in layout.hosts.iter().enumerate() {
            let own = layout.switch_of[host] as usize;
            for (switch, &place) in layout.switches.iter().enumerate() {
                let is_nearer = apart(at, layout.switches[own]) < apart(at, place);
                assert!(
                    switch == own || is_nearer,
                    "{name}: host {host}, switch {switch}"
                );
            }
            for (other, &place) in layout.hosts.iter().enumerate().skip(host + 1) {
                // Marks of hosts are 8 of 60 wide.
                let distance = apart(at, place);
                assert!(
                    distance > 8.0 / 60.0,
                    "{name}: hosts {host} and {other}, {distance}"
                );
            }
        }
    }
}

#[test]
fn a_link_around_a_torus_is_drawn_as_two_ends() {
    let layout = Layout::new(&Topology::torus(&[5, 5], 1, Ports(5)).unwrap());
    let wrapped = layout.links.iter().filter(|line| line.is_wrapped).count();
    assert_eq!(wrapped, 10);
    for &line in &layout.links {
        for ((x0, y0), (x1, y1)) in layout.parts(line) {
            assert!((x1 - x0).hypot(y1 - y0) <= 1.001, "{line:?}");
        }
    }
}

#[test]
fn a_page_has_a_hundred_thousand_nodes_and_asks_for_nothing() {
    let topology = Topology::torus(&[160, 125], 4, Ports(8)).unwrap();
    let layout = Layout::new(&topology);
    assert_eq!(layout.node_count(), 100_000);
    let page = network_page(&topology, &layout, "many");
    assert!(page.len() < 6_000_000, "{} bytes", page.len());
    let data = data(&page);
    assert_eq!(data["hosts"].as_array().unwrap().len(), 160_000);
    assert_eq!(data["switch_names"][161], "s1-1");
    let links = data["links"].as_array().unwrap().len() / 2;
    let wrapped = data["wrapped"].as_array().unwrap().len() / 8;
    assert_eq!(links + wrapped, 40_000);
    for outside in ["http:", "https:", "src=", "@import", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_graph_of_fifty_thousand_switches_is_placed() {
    // A binary tree, whose middle is its root, and some links across.
    let mut list = String::from("hosts n*\nn0 s0\nn1 s49999\n");
    for switch in 1..50_000 {
        list += &format!("s{} s{switch}\n", (switch - 1) / 2);
    }
    let topology = parse_edge_list(&list).unwrap();
    let layout = Layout::new(&topology);
    assert_eq!(layout.links.len(), 49_999);
    assert_eq!(places(&layout).len(), layout.node_count());
}

#[test]
fn names_from_a_file_stay_text() {
    let list = "hosts n*\nn0 </script>\nn1 </script>\n";
    let topology = parse_edge_list(list).unwrap();
    let layout = Layout::new(&topology);
    let page = network_page(&topology, &layout, "<b>");
    assert_eq!(page.matches("</script>").count(), 2, "the page's own");
    assert_eq!(data(&page)["switch_names"][0], "</script>");
    let svg = network_svg(&topology, &layout, "<b>");
    assert!(svg.contains("&lt;b&gt;") && !svg.contains("</script>"));
}
