//! Writing a topology for NetworkX.

use std::fmt::Write as _;

use crate::topology::Kind;
use crate::{HostId, LinkId, Node, SwitchId, Topology};

impl Topology {
    /// The topology as NetworkX node-link JSON, as [`crate::parse_node_link_json`] reads it.
    ///
    /// Hosts, switches and the links of a graph keep their order, so that reading gives an equal
    /// graph. A generated topology gives a graph of the same nodes and links; its links between
    /// switches are numbered in another order, and reading it back routes by shortest path. Given
    /// routing tables are not part of it. The text has some 100 bytes for each node and link.
    #[must_use]
    pub fn to_node_link_json(&self) -> String {
        let graph = match &self.kind {
            Kind::Graph(graph) => Some(graph),
            Kind::Grid(_) | Kind::Tree(_) => None,
        };
        let directed = graph.is_some_and(|graph| graph.is_directed());
        let multigraph = graph.is_some_and(|graph| graph.is_multigraph());
        let mut json = format!(
            "{{\"directed\": {directed}, \"multigraph\": {multigraph}, \"graph\": {{}},\n\
             \"nodes\": ["
        );
        let mut separator = "\n";
        for host in (0..self.host_count()).map(HostId) {
            let name = quoted(&self.node_name(Node::Host(host)));
            push(
                &mut json,
                &mut separator,
                &format!("{{\"id\": {name}, \"kind\": \"host\"}}"),
            );
        }
        for switch in (0..self.switch_count()).map(SwitchId) {
            let name = quoted(&self.node_name(Node::Switch(switch)));
            let ports = match graph {
                Some(graph) => graph.switch_ports(switch),
                None => self.ports().map(|ports| ports.0),
            };
            let ports = ports.map_or(String::new(), |ports| format!(", \"ports\": {ports}"));
            let node = format!("{{\"id\": {name}, \"kind\": \"switch\"{ports}}}");
            push(&mut json, &mut separator, &node);
        }
        json.push_str("],\n\"edges\": [");
        separator = "\n";
        for host in (0..self.host_count()).map(HostId) {
            push(&mut json, &mut separator, &self.edge(self.host_up(host)));
            if directed {
                push(&mut json, &mut separator, &self.edge(self.host_down(host)));
            }
        }
        for link in (2 * self.host_count()..self.link_count()).map(LinkId) {
            if directed || self.is_first_of_pair(link) {
                push(&mut json, &mut separator, &self.edge(link));
            }
        }
        json.push_str("]}\n");
        json
    }

    /// Whether a link between switches stands for both directions in an undirected graph.
    fn is_first_of_pair(&self, link: LinkId) -> bool {
        match &self.kind {
            // Pairs of links with opposite directions follow one another.
            Kind::Graph(_) => (link.0 - 2 * self.host_count()).is_multiple_of(2),
            Kind::Grid(grid) => grid.is_positive(link.0 - 2 * self.host_count()),
            Kind::Tree(tree) => tree.is_up(link.0 - 2 * self.host_count()),
        }
    }

    fn edge(&self, link: LinkId) -> String {
        let (source, target) = self.link_ends(link);
        let (source, target) = (self.node_name(source), self.node_name(target));
        let mut edge = format!(
            "{{\"source\": {}, \"target\": {}",
            quoted(&source),
            quoted(&target)
        );
        if let Some(rate) = self.link_rate_bits_per_second(link) {
            // Shortest decimal that reads back as the same number.
            let _ = write!(edge, ", \"rate\": \"{rate} bit/s\"");
        }
        if let Some(latency) = self.link_latency_picoseconds(link) {
            let _ = write!(edge, ", \"latency\": \"{latency} ps\"");
        }
        edge.push('}');
        edge
    }
}

fn push(json: &mut String, separator: &mut &str, item: &str) {
    json.push_str(separator);
    json.push_str(item);
    *separator = ",\n";
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
