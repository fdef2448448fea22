//! A network as one page for a browser, drawn on a canvas; it opens without a network.

use serde::Serialize;
use viaduct_topology::{HostId, Node, SwitchId, Topology};

use super::escaped;
use super::layout::{Layout, Point};

const PAGE: &str = include_str!("page.html");

/// What the page draws: places in hundredths of a unit, x and y in turn.
#[derive(Serialize)]
struct Data {
    switches: Vec<i64>,
    hosts: Vec<i64>,
    switch_of: Vec<u32>,
    /// Ends of links between switches, two numbers a link.
    links: Vec<u32>,
    /// Those that lead around an edge, as pieces: four coordinates each.
    wrapped: Vec<i64>,
    switch_names: Vec<String>,
    host_names: Vec<String>,
}

/// The page, in text that is one file.
///
/// # Panics
///
/// Never: the types hold nothing that JSON cannot say.
#[must_use]
pub fn network_page(topology: &Topology, layout: &Layout, title: &str) -> String {
    let whole = |value: f64| (value * 100.0).round() as i64;
    let flat = |points: &[Point]| {
        points
            .iter()
            .flat_map(|&(x, y)| [whole(x), whole(y)])
            .collect()
    };
    let plain = layout.links.iter().filter(|line| !line.is_wrapped);
    let wrapped = layout.links.iter().filter(|line| line.is_wrapped);
    let pieces = wrapped.flat_map(|&line| layout.parts(line));
    let data = Data {
        switches: flat(&layout.switches),
        hosts: flat(&layout.hosts),
        switch_of: layout.switch_of.clone(),
        links: plain.flat_map(|line| [line.from, line.to]).collect(),
        wrapped: pieces
            .flat_map(|(from, to)| [from.0, from.1, to.0, to.1].map(whole))
            .collect(),
        switch_names: (0..layout.switches.len() as u32)
            .map(|switch| topology.node_name(Node::Switch(SwitchId(switch))))
            .collect(),
        host_names: (0..layout.hosts.len() as u32)
            .map(|host| topology.node_name(Node::Host(HostId(host))))
            .collect(),
    };
    let data = serde_json::to_string(&data).expect("plain numbers and strings");
    // A name may hold what would end the script.
    let data = data.replace('<', "\\u003c");
    PAGE.replace("@TITLE@", &escaped(title))
        .replacen("@DATA@", &data, 1)
}
