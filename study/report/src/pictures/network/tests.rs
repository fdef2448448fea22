use viaduct_cluster::result::LinkRow;
use viaduct_engine::Time;
use viaduct_topology::{ChainHosts, LinkClass, Ports, TreeShape, parse_edge_list};

use super::*;

const PORTS: Ports = Ports(64);

/// Each link as busy as its number says.
fn drawn(topology: &Topology) -> Drawing {
    let links = topology.link_count();
    let rows: Vec<LinkRow> = (0..links)
        .map(|link| LinkRow {
            link,
            class: LinkClass::Mesh,
            wire_bytes: 1.0,
            utilisation: f64::from(link + 1) / f64::from(links),
            flows_max: 1,
            queue_max_bytes: 0,
            frames_lost: 0,
            frames_trimmed: 0,
            frames_marked: 0,
            pauses: 0,
            paused: Time::ZERO,
        })
        .collect();
    let drawing = draw_network(topology, &Loads::new(topology, &rows));
    let (width, height) = drawing.map.size;
    let is_inside = |(x, y): (f64, f64)| {
        (-0.01..=width + 0.01).contains(&x) && (-0.01..=height + 0.01).contains(&y)
    };
    for stroke in &drawing.map.strokes {
        assert!(stroke.ends.iter().all(|end| is_inside(*end)), "{stroke:?}");
    }
    for cell in &drawing.map.cells {
        let (x, y) = cell.at;
        let corner = (x + drawing.map.cell_size.0, y + drawing.map.cell_size.1);
        assert!(is_inside(cell.at) && is_inside(corner), "{cell:?}");
    }
    drawing
}

fn value(drawing: &Drawing, what: &str) -> f64 {
    let found = drawing.elements.iter().find(|(place, _)| place == what);
    found
        .unwrap_or_else(|| panic!("{what}: {:?}", drawing.elements))
        .1
}

#[test]
fn a_torus_has_a_line_for_each_link_and_a_square_for_each_switch() {
    let torus = Topology::torus(&[16, 16], 4, PORTS).unwrap();
    let drawing = drawn(&torus);
    // 64 links close rings, in two halves.
    assert_eq!(drawing.map.strokes.len(), 1024 + 64);
    assert_eq!(drawing.map.cells.len(), 256);
    assert_eq!(drawing.elements.len(), 1024 + 256);
    let (link, ..) = switch_links(&torus).next().unwrap();
    let expected = f64::from(link.0 + 1) / f64::from(torus.link_count());
    assert_eq!(value(&drawing, &torus.link_name(link)), expected);
    assert!(drawing.caption.contains("come back on the other side"));
}

#[test]
fn the_two_directions_of_a_pair_are_beside_one_another() {
    let chain = Topology::chain(3, ChainHosts::Ends(2), PORTS).unwrap();
    let drawing = drawn(&chain);
    let ends = |what: &str| {
        let strokes = drawing.map.strokes.iter();
        let mut found = strokes.filter(|stroke| stroke.note.starts_with(what));
        found.next().unwrap().ends
    };
    let (there, back) = (ends("s0 -> s1"), ends("s1 -> s0"));
    assert!(there[0].1 > back[0].1 + 0.1, "{there:?} {back:?}");
    assert!(there[0].0 < there[1].0 && back[0].0 > back[1].0);
    let middle = drawing.map.cells.iter().find(|cell| cell.note == "s1");
    assert_eq!(middle.unwrap().value, None, "it has no host");
}

#[test]
fn large_and_deep_grids_are_maps_of_bounded_size_that_show_the_busiest() {
    let grids = [
        Topology::torus(&[512, 512], 4, PORTS).unwrap(),
        Topology::torus(&[16, 16, 16, 16], 1, PORTS).unwrap(),
        Topology::mesh(&[2; 8], 1, PORTS).unwrap(),
        Topology::chain(50_000, ChainHosts::EverySwitch(1), PORTS).unwrap(),
        Topology::mesh(&[3, 5000], 1, PORTS).unwrap(),
        Topology::mesh(&[2, 2, 40_000], 1, PORTS).unwrap(),
    ];
    for grid in grids {
        let drawing = drawn(&grid);
        let count = drawing.map.cells.len();
        assert!(
            (24..=12_000).contains(&count),
            "{}: {count}",
            grid.description()
        );
        assert!(drawing.map.strokes.is_empty());
        let most = drawing
            .elements
            .iter()
            .map(|(_, value)| *value)
            .fold(0.0, f64::max);
        assert_eq!(most, 1.0, "{}", grid.description());
    }
}

#[test]
fn a_small_tree_stands_on_its_hosts() {
    let shape = TreeShape {
        arity: 4,
        levels: 3,
    };
    let tree = Topology::fat_tree(shape, PORTS).unwrap();
    let drawing = drawn(&tree);
    assert_eq!(drawing.map.strokes.len(), tree.link_count() as usize);
    assert_eq!(drawing.map.cells.len(), 64 + 48);
    let height = |name: &str| {
        let cell = drawing.map.cells.iter().find(|cell| cell.note == name);
        cell.unwrap_or_else(|| panic!("no {name}")).at.1
    };
    let host = height(&tree.node_name(Node::Host(HostId(0))));
    let rows: Vec<f64> = [0, 16, 32]
        .map(|switch| height(&switch_name(&tree, switch)))
        .to_vec();
    assert!(
        host > rows[0] && rows[0] > rows[1] && rows[1] > rows[2],
        "{host} {rows:?}"
    );
}

#[test]
fn a_large_tree_has_rows_of_its_levels() {
    let shape = TreeShape {
        arity: 16,
        levels: 4,
    };
    let tree = Topology::fat_tree(shape, PORTS).unwrap();
    let drawing = drawn(&tree);
    let names: Vec<&str> = drawing
        .map
        .labels
        .iter()
        .map(|label| label.words.as_str())
        .collect();
    assert_eq!(names.len(), 8, "{names:?}");
    for name in ["hosts to level 1", "level 1 to hosts", "level 4 to level 3"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(drawing.map.cells.len(), 8 * 96);
    let most = drawing
        .elements
        .iter()
        .map(|(_, value)| *value)
        .fold(0.0, f64::max);
    assert_eq!(most, 1.0);
}

#[test]
fn one_switch_with_many_hosts_has_a_row_each_way() {
    let star = Topology::single_switch(4_000, Ports(4_000)).unwrap();
    assert_eq!(drawn(&star).map.labels.len(), 2);
    let small = Topology::single_switch(8, PORTS).unwrap();
    assert_eq!(drawn(&small).map.strokes.len(), 16);
}

#[test]
fn a_ring_of_switches_is_a_ring() {
    let mut text = "hosts h*\n".to_owned();
    for switch in 0..12 {
        text += &format!("h{switch} s{switch}\ns{switch} s{}\n", (switch + 1) % 12);
    }
    let ring = parse_edge_list(&text).unwrap();
    let drawing = drawn(&ring);
    assert_eq!(
        (drawing.map.cells.len(), drawing.map.strokes.len()),
        (12, 24)
    );
    assert!(drawing.caption.contains("clockwise"));
}

#[test]
fn a_large_graph_with_links_within_a_level_has_rows() {
    let mut text = "hosts h*\n".to_owned();
    for switch in 0..500 {
        text += &format!("h{switch} s{switch}\ns{switch} s{}\n", (switch + 1) % 500);
    }
    // A line of switches without hosts.
    text += "s0 t0\n";
    for switch in 0..100 {
        text += &format!("t{switch} t{}\n", switch + 1);
    }
    let graph = parse_edge_list(&text).unwrap();
    let drawing = drawn(&graph);
    let labels = &drawing.map.labels;
    assert!(labels.iter().any(|label| label.words == "within level 1"));
    assert!(labels.len() <= 40, "{}", labels.len());
    assert!(drawing.caption.contains("left out"));
}

#[test]
fn levels_of_a_tree_have_names_beside_them() {
    let shape = TreeShape {
        arity: 4,
        levels: 3,
    };
    let drawing = drawn(&Topology::fat_tree(shape, PORTS).unwrap());
    let labels = drawing.map.labels.iter();
    let words: Vec<&str> = labels.map(|label| label.words.as_str()).collect();
    assert_eq!(words, ["hosts", "level 1", "level 2", "level 3"]);
    let ends = drawing.map.strokes.iter().flat_map(|stroke| stroke.ends);
    let least = ends.map(|(x, _)| x).fold(f64::INFINITY, f64::min);
    assert!(least > 11.0, "{least}");
}
