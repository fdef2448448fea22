//! Writing a topology as node-link JSON and as GraphML.

use std::fmt::Write as _;

use quick_xml::escape::escape;

use crate::{HostId, LinkId, Node, SwitchId, Topology};

impl Topology {
    /// The topology as NetworkX node-link JSON, as [`crate::parse_node_link_json`] reads it.
    ///
    /// Hosts, switches and the links of a graph keep their order, so that reading gives an equal
    /// graph. A generated topology gives a graph of the same nodes and links; its links between
    /// switches are numbered in another order, and reading it back routes by shortest path, or as
    /// it did with [`crate::GraphRouting::Rule`]: what its links do not tell stands in `graph`.
    /// Given routing tables are not part of it. The text has some 100 bytes for each node and link.
    #[must_use]
    pub fn to_node_link_json(&self) -> String {
        let (directed, multigraph) = (self.is_directed(), self.is_multigraph());
        let graph = self.described();
        let mut json = format!(
            "{{\"directed\": {directed}, \"multigraph\": {multigraph}, \"graph\": {{{graph}}},\n\
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
            let ports = self.switch_ports(switch);
            let ports = ports.map_or(String::new(), |ports| format!(", \"ports\": {ports}"));
            let node = format!("{{\"id\": {name}, \"kind\": \"switch\"{ports}}}");
            push(&mut json, &mut separator, &node);
        }
        json.push_str("],\n\"edges\": [");
        separator = "\n";
        for link in self.links_as_given() {
            push(&mut json, &mut separator, &self.edge(link));
        }
        json.push_str("]}\n");
        json
    }

    /// What it is by rule, as members of JSON, where its links alone do not tell.
    fn described(&self) -> String {
        let Some(plan) = self.plan().filter(|_| !self.is_recognised()) else {
            return String::new();
        };
        let (topology, measures) = plan.words();
        let mut members = format!("\"topology\": \"{topology}\"");
        for (key, value) in measures {
            let _ = write!(members, ", \"{key}\": {value}");
        }
        if self.has_unusual_paths() {
            let _ = write!(
                members,
                ", \"equal_paths\": \"{}\"",
                self.equal_paths().word()
            );
        }
        members
    }

    /// The topology as GraphML, as [`crate::parse_graphml`] reads it; in the same order as
    /// [`Topology::to_node_link_json`].
    #[must_use]
    pub fn to_graphml(&self) -> String {
        let default = match self.is_directed() {
            true => "directed",
            false => "undirected",
        };
        let mut xml = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
        );
        for (owner, name, kind) in GRAPHML_KEYS {
            let _ = writeln!(
                xml,
                "<key id=\"{name}\" for=\"{owner}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>"
            );
        }
        let _ = writeln!(xml, "<graph edgedefault=\"{default}\">");
        for host in (0..self.host_count()).map(HostId) {
            let data = data("kind", Some("host"));
            self.graphml_node(&mut xml, Node::Host(host), &data);
        }
        for switch in (0..self.switch_count()).map(SwitchId) {
            let mut all = data("kind", Some("switch"));
            all += &data("ports", self.switch_ports(switch));
            self.graphml_node(&mut xml, Node::Switch(switch), &all);
        }
        for (number, link) in self.links_as_given().enumerate() {
            // Numbers tell parallel edges apart.
            let id = match self.is_multigraph() {
                true => format!(" id=\"{number}\""),
                false => String::new(),
            };
            let (source, target) = self.link_ends(link);
            let (source, target) = (self.node_name(source), self.node_name(target));
            let (rate, latency) = self.written_attributes(link);
            let _ = writeln!(
                xml,
                "<edge source=\"{}\" target=\"{}\"{id}>{}{}</edge>",
                escape(&source),
                escape(&target),
                data("rate", rate),
                data("latency", latency)
            );
        }
        xml.push_str("</graph>\n</graphml>\n");
        xml
    }

    fn graphml_node(&self, xml: &mut String, node: Node, data: &str) {
        let name = self.node_name(node);
        let _ = writeln!(xml, "<node id=\"{}\">{data}</node>", escape(&name));
    }

    /// The links that are given: each that leads one way, and of those that lead both the first; a
    /// host's two links follow one another.
    pub(crate) fn links_as_given(&self) -> impl Iterator<Item = LinkId> {
        let directed = self.is_directed();
        let hosts = (0..self.host_count()).map(HostId);
        let of_hosts = hosts.flat_map(move |host| {
            let down = directed.then_some(self.host_down(host));
            [self.host_up(host)].into_iter().chain(down)
        });
        let of_switches = (2 * self.host_count()..self.link_count()).map(LinkId);
        of_hosts.chain(of_switches.filter(move |&link| directed || self.is_first_of_pair(link)))
    }

    /// Rate and latency of a link as text, in shortest decimals that are read as the same numbers.
    fn written_attributes(&self, link: LinkId) -> (Option<String>, Option<String>) {
        let rate = self.link_rate_bits_per_second(link);
        let latency = self.link_latency_picoseconds(link);
        (
            rate.map(|rate| format!("{rate} bit/s")),
            latency.map(|latency| format!("{latency} ps")),
        )
    }

    fn edge(&self, link: LinkId) -> String {
        let (source, target) = self.link_ends(link);
        let (source, target) = (self.node_name(source), self.node_name(target));
        let mut edge = format!(
            "{{\"source\": {}, \"target\": {}",
            quoted(&source),
            quoted(&target)
        );
        let (rate, latency) = self.written_attributes(link);
        for (name, value) in [("rate", rate), ("latency", latency)] {
            if let Some(value) = value {
                let _ = write!(edge, ", \"{name}\": \"{value}\"");
            }
        }
        edge.push('}');
        edge
    }
}

/// Attributes of nodes and edges: of which, name, type.
const GRAPHML_KEYS: [(&str, &str, &str); 4] = [
    ("node", "kind", "string"),
    ("node", "ports", "long"),
    ("edge", "rate", "string"),
    ("edge", "latency", "string"),
];

fn data(key: &str, value: Option<impl std::fmt::Display>) -> String {
    value.map_or(String::new(), |value| {
        format!("<data key=\"{key}\">{value}</data>")
    })
}

fn push(json: &mut String, separator: &mut &str, item: &str) {
    json.push_str(separator);
    json.push_str(item);
    *separator = ",\n";
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
