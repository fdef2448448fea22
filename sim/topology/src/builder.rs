//! Graphs made by a program: nodes and links one at a time, or many at once as arrays.

use std::collections::BTreeMap;

use crate::draft::{NAME_HELP, UNUSED_ATTRIBUTES_MAX, name_problem};
use crate::error::{TopologyError, shortened};
use crate::graph::{GRAPH_HOSTS_MAX, GRAPH_LINKS_MAX, GRAPH_SWITCHES_MAX, limit};
use crate::names::Names;
use crate::parts::{Edge, Edges, Fault, GraphParts, LinkAttributes, assemble};
use crate::{EqualPaths, GraphFormat, HostId, Node, SwitchId, Topology, file, rule};

/// A graph that a program makes.
///
/// Hosts and switches are numbered as they are added. Links lead both ways, in a directed graph
/// from the first node to the second. A graph that is a generated network is routed by its rule
/// (see [`crate::GraphRouting::Rule`]), any other by shortest paths.
///
/// ```
/// use viaduct_topology::{GraphBuilder, LinkAttributes};
///
/// let mut ring = GraphBuilder::default();
/// let switches = ring.add_switches(5, None)?;
/// let hosts = ring.add_hosts(5)?;
/// for index in 0..5 {
///     let next = switches.start + (index + 1) % 5;
///     ring.link(ring.host(hosts.start + index)?, ring.switch(index)?, LinkAttributes::default())?;
///     ring.link(ring.switch(index)?, ring.switch(next)?, LinkAttributes::default())?;
/// }
/// assert_eq!(ring.finish()?.description(), "torus of 5 switches, 1 host a switch");
/// # Ok::<(), viaduct_topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    directed: bool,
    multigraph: bool,
    hosts: Names,
    switches: Names,
    /// Whether a node was given a name.
    has_own_names: bool,
    /// Ports of each switch; 0 where they are not said.
    ports: Vec<u32>,
    links: Vec<[Code; 2]>,
    /// Of each link its place in `attributes`.
    link_attributes: Vec<u32>,
    attributes: Vec<LinkAttributes>,
    /// Places in `attributes`, by the bits of the rate and the latency.
    known_attributes: BTreeMap<(Option<u64>, Option<u64>), u32>,
    unused: BTreeMap<String, u32>,
    index: Index,
    /// The network by rule that it was made of; what it is now is proved in the end.
    described: Option<Box<Topology>>,
    equal_paths: Option<EqualPaths>,
}

/// A node in four bytes.
#[derive(Clone, Copy, Debug)]
struct Code(u32);

impl Code {
    const SWITCH: u32 = 1 << 31;

    fn new(node: Node) -> Self {
        match node {
            Node::Host(host) => Self(host.0),
            Node::Switch(switch) => Self(switch.0 | Self::SWITCH),
        }
    }

    fn node(self) -> Node {
        match self.0 & Self::SWITCH {
            0 => Node::Host(HostId(self.0)),
            _ => Node::Switch(SwitchId(self.0 & !Self::SWITCH)),
        }
    }
}

/// Nodes by name. It follows behind: thousands that are added at once are entered when the first
/// name is asked for.
#[derive(Clone, Debug, Default)]
struct Index {
    nodes: BTreeMap<Box<str>, Node>,
    hosts: u32,
    switches: u32,
}

/// The rates and the latency that most links have, where all of a kind have one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsualLinks {
    /// Of links between switches, bits a second.
    pub switch_rate_bits_per_second: Option<f64>,
    /// Of links between hosts and switches, bits a second.
    pub host_rate_bits_per_second: Option<f64>,
    /// Of all links, picoseconds.
    pub latency_picoseconds: Option<u64>,
}

type Fallible<T> = Result<T, TopologyError>;

fn wrong(problem: impl Into<String>, help: impl Into<String>) -> TopologyError {
    TopologyError::Graph {
        problem: problem.into(),
        help: help.into(),
    }
}

impl GraphBuilder {
    /// An empty graph: whether links lead one way, and whether switches may have several between
    /// them.
    #[must_use]
    pub fn new(directed: bool, multigraph: bool) -> Self {
        Self {
            directed,
            multigraph,
            ..Self::default()
        }
    }

    /// A graph of the nodes and links of a network, with their names, in its order.
    ///
    /// # Errors
    ///
    /// More nodes or links than a graph may have.
    pub fn from_topology(topology: &Topology) -> Fallible<Self> {
        let directed = topology.is_directed();
        let mut graph = Self::new(directed, topology.is_multigraph());
        graph.check_counts(topology.host_count(), topology.switch_count())?;
        let hosts = (0..topology.host_count()).map(|host| Node::Host(HostId(host)));
        graph.hosts = hosts.map(|host| topology.node_name(host)).collect();
        let switches = (0..topology.switch_count()).map(SwitchId);
        graph.ports = switches
            .clone()
            .map(|switch| topology.switch_ports(switch).unwrap_or(0))
            .collect();
        graph.switches = switches
            .map(|switch| topology.node_name(Node::Switch(switch)))
            .collect();
        graph.has_own_names = true;
        for link in topology.links_as_given() {
            let (from, to) = topology.link_ends(link);
            graph.link(from, to, topology.link_attributes(link))?;
        }
        for (name, count) in topology.unused_attributes() {
            graph.unused.insert(name.clone(), *count);
        }
        if topology.is_routed_by_rule() && !topology.is_recognised() {
            graph.described = Some(Box::new(topology.clone()));
        }
        graph.equal_paths = (topology.has_unusual_paths()).then(|| topology.equal_paths());
        Ok(graph)
    }

    /// Reads a graph from a file, without making routes.
    ///
    /// # Errors
    ///
    /// As for [`crate::parse_graph`].
    pub fn read(text: &str, format: GraphFormat) -> Fallible<Self> {
        let parts = file::read(text, format)?;
        let mut graph = Self::new(parts.directed, parts.multigraph);
        graph.described = parts.described;
        graph.equal_paths = parts.equal_paths;
        graph.hosts = parts.host_names;
        graph.switches = parts.switch_names;
        graph.ports = parts
            .switch_ports
            .iter()
            .map(|ports| ports.unwrap_or(0))
            .collect();
        graph.has_own_names = true;
        graph.unused = parts.unused_attributes.into_iter().collect();
        let hosts = parts.host_switches.len();
        for (host, &switch) in parts.host_switches.iter().enumerate() {
            let (host_node, switch) = (
                Node::Host(HostId(host as u32)),
                Node::Switch(SwitchId(switch)),
            );
            graph.link(host_node, switch, parts.attributes.get(host))?;
            if parts.directed {
                graph.link(switch, host_node, parts.attributes.get(hosts + host))?;
            }
        }
        // Both directions of a link that leads both ways follow one another.
        let step = if parts.directed { 1 } else { 2 };
        for (number, &(from, to)) in parts.links.iter().enumerate().step_by(step) {
            let [from, to] = [from, to].map(|switch| Node::Switch(SwitchId(switch)));
            graph.link(from, to, parts.attributes.get(2 * hosts + number))?;
        }
        Ok(graph)
    }

    /// Gives links what is not said of them.
    pub fn complete_links(&mut self, attributes: LinkAttributes) {
        let kinds = std::mem::take(&mut self.attributes);
        self.known_attributes.clear();
        let completed: Vec<u32> = kinds
            .into_iter()
            .map(|kind| {
                self.kind_of(LinkAttributes {
                    rate_bits_per_second: kind
                        .rate_bits_per_second
                        .or(attributes.rate_bits_per_second),
                    latency_picoseconds: kind
                        .latency_picoseconds
                        .or(attributes.latency_picoseconds),
                })
            })
            .collect();
        for kind in &mut self.link_attributes {
            *kind = completed[*kind as usize];
        }
    }

    /// Hosts so far.
    #[must_use]
    pub fn host_count(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// Switches so far.
    #[must_use]
    pub fn switch_count(&self) -> u32 {
        self.switches.len() as u32
    }

    /// Links so far, each counted once however many ways it leads.
    #[must_use]
    pub fn link_count(&self) -> u32 {
        self.links.len() as u32
    }

    /// Whether links lead one way.
    #[must_use]
    pub fn is_directed(&self) -> bool {
        self.directed
    }

    /// The name of a node of this graph.
    #[must_use]
    pub fn node_name(&self, node: Node) -> &str {
        match node {
            Node::Host(host) => self.hosts.get(host.0),
            Node::Switch(switch) => self.switches.get(switch.0),
        }
    }

    /// The host of a number.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn host(&self, number: u32) -> Fallible<Node> {
        self.existing(Node::Host(HostId(number)))
    }

    /// The switch of a number.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn switch(&self, number: u32) -> Fallible<Node> {
        self.existing(Node::Switch(SwitchId(number)))
    }

    fn existing(&self, node: Node) -> Fallible<Node> {
        let (what, number, count) = match node {
            Node::Host(host) => ("host", host.0, self.host_count()),
            Node::Switch(switch) => ("switch", switch.0, self.switch_count()),
        };
        if number < count {
            return Ok(node);
        }
        let help = match count {
            0 => format!("add a {what} first"),
            _ => format!("there are {count}: numbers are 0 to {}", count - 1),
        };
        Err(wrong(format!("there is no {what} {number}"), help))
    }

    /// The node of a name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn find(&mut self, name: &str) -> Fallible<Node> {
        self.enter_names()?;
        self.index.nodes.get(name).copied().ok_or_else(|| {
            wrong(
                format!("no node is named {}", shortened(name)),
                "add the node, or correct the name",
            )
        })
    }

    /// Adds a host; without a name it is `n` and its number.
    ///
    /// # Errors
    ///
    /// A name that is not printable or there already; more hosts than a graph may have.
    pub fn add_host(&mut self, name: Option<&str>) -> Fallible<HostId> {
        let number = self.host_count();
        self.check_counts(number.saturating_add(1), self.switch_count())?;
        match name {
            None => self.hosts.push(&format!("n{number}")),
            Some(name) => {
                self.enter(name, Node::Host(HostId(number)))?;
                self.hosts.push(name);
            }
        }
        Ok(HostId(number))
    }

    /// Adds hosts, named by their numbers, which are returned.
    ///
    /// # Errors
    ///
    /// More hosts than a graph may have.
    pub fn add_hosts(&mut self, count: u32) -> Fallible<std::ops::Range<u32>> {
        let first = self.host_count();
        self.check_counts(first.saturating_add(count), self.switch_count())?;
        for number in first..first + count {
            self.hosts.push(&format!("n{number}"));
        }
        Ok(first..first + count)
    }

    /// Adds a switch; without a name it is `s` and its number, without ports it has as many as it
    /// takes.
    ///
    /// # Errors
    ///
    /// A name that is not printable or there already; more switches than a graph may have; no
    /// ports.
    pub fn add_switch(&mut self, name: Option<&str>, ports: Option<u32>) -> Fallible<SwitchId> {
        let number = self.switch_count();
        self.check_counts(self.host_count(), number.saturating_add(1))?;
        let ports = checked_ports(ports)?;
        match name {
            None => self.switches.push(&format!("s{number}")),
            Some(name) => {
                self.enter(name, Node::Switch(SwitchId(number)))?;
                self.switches.push(name);
            }
        }
        self.ports.push(ports);
        Ok(SwitchId(number))
    }

    /// Adds switches, named by their numbers, which are returned.
    ///
    /// # Errors
    ///
    /// More switches than a graph may have; no ports.
    pub fn add_switches(
        &mut self,
        count: u32,
        ports: Option<u32>,
    ) -> Fallible<std::ops::Range<u32>> {
        let first = self.switch_count();
        self.check_counts(self.host_count(), first.saturating_add(count))?;
        let ports = checked_ports(ports)?;
        for number in first..first + count {
            self.switches.push(&format!("s{number}"));
            self.ports.push(ports);
        }
        Ok(first..first + count)
    }

    /// Adds a link.
    ///
    /// # Errors
    ///
    /// A node that is not there, or twice the same; more links than a graph may have.
    pub fn link(&mut self, from: Node, to: Node, attributes: LinkAttributes) -> Fallible<()> {
        self.links([(from, to)], attributes)
    }

    /// Adds links of one kind; if one is wrong, none.
    ///
    /// # Errors
    ///
    /// As for [`GraphBuilder::link`]; of several links it says which is wrong.
    pub fn links(
        &mut self,
        ends: impl IntoIterator<Item = (Node, Node)>,
        attributes: LinkAttributes,
    ) -> Fallible<()> {
        let before = self.links.len();
        let result = self.extend_links(ends, before);
        if result.is_err() {
            self.links.truncate(before);
            return result;
        }
        let kind = self.kind_of(attributes);
        self.link_attributes.resize(self.links.len(), kind);
        Ok(())
    }

    fn extend_links(
        &mut self,
        ends: impl IntoIterator<Item = (Node, Node)>,
        before: usize,
    ) -> Fallible<()> {
        let most = u64::from(GRAPH_LINKS_MAX) + 2 * u64::from(GRAPH_HOSTS_MAX);
        let ends = ends.into_iter();
        let several = ends.size_hint().0 > 1;
        for (from, to) in ends {
            let number = self.links.len() - before;
            let in_list = |error| match error {
                TopologyError::Graph { problem, help } if several => TopologyError::Graph {
                    problem: format!("link {number} of the list: {problem}"),
                    help,
                },
                other => other,
            };
            self.existing(from)
                .and_then(|_| self.existing(to))
                .map_err(in_list)?;
            if from == to {
                let problem = format!("a link from {} to itself", self.node_name(from));
                return Err(in_list(wrong(problem, "leave it out")));
            }
            limit("the number of links", self.links.len() as u64 + 1, most)?;
            self.links.push([Code::new(from), Code::new(to)]);
        }
        Ok(())
    }

    /// Notes an attribute that means nothing here; a check of the graph tells it.
    pub fn note_unused(&mut self, owner: &str, attribute: &str) {
        let name = format!("{owner} {}", shortened(attribute));
        if self.unused.len() < UNUSED_ATTRIBUTES_MAX || self.unused.contains_key(&name) {
            let count = self.unused.entry(name).or_insert(0);
            *count = count.saturating_add(1);
        }
    }

    fn kind_of(&mut self, attributes: LinkAttributes) -> u32 {
        let key = (
            attributes.rate_bits_per_second.map(f64::to_bits),
            attributes.latency_picoseconds,
        );
        let next = self.attributes.len() as u32;
        let kind = *self.known_attributes.entry(key).or_insert(next);
        if kind == next {
            self.attributes.push(attributes);
        }
        kind
    }

    fn check_counts(&self, hosts: u32, switches: u32) -> Fallible<()> {
        limit(
            "the number of hosts",
            u64::from(hosts),
            u64::from(GRAPH_HOSTS_MAX),
        )?;
        limit(
            "the number of switches",
            u64::from(switches),
            u64::from(GRAPH_SWITCHES_MAX),
        )
    }

    /// Enters the name of a node that is being added.
    fn enter(&mut self, name: &str, node: Node) -> Fallible<()> {
        if let Some(problem) = name_problem(name) {
            return Err(wrong(problem, NAME_HELP));
        }
        self.enter_names()?;
        self.index.insert(name, node)?;
        match node {
            Node::Host(_) => self.index.hosts += 1,
            Node::Switch(_) => self.index.switches += 1,
        }
        self.has_own_names = true;
        Ok(())
    }

    /// Enters the names of all nodes that are there.
    fn enter_names(&mut self) -> Fallible<()> {
        for host in self.index.hosts..self.host_count() {
            let node = Node::Host(HostId(host));
            self.index.insert(self.hosts.get(host), node)?;
            self.index.hosts = host + 1;
        }
        for switch in self.index.switches..self.switch_count() {
            let node = Node::Switch(SwitchId(switch));
            self.index.insert(self.switches.get(switch), node)?;
            self.index.switches = switch + 1;
        }
        Ok(())
    }

    /// What most links have, where all of their kind have something.
    #[must_use]
    pub fn usual_links(&self) -> UsualLinks {
        let mut counts = [
            vec![0u64; self.attributes.len()],
            vec![0; self.attributes.len()],
        ];
        for (ends, &kind) in self.links.iter().zip(&self.link_attributes) {
            counts[usize::from(is_of_host(ends))][kind as usize] += 1;
        }
        let rate_of = |kind: &LinkAttributes| kind.rate_bits_per_second.map(f64::to_bits);
        let [switch_rate, host_rate] =
            [0, 1].map(|class| usual(&self.attributes, &counts[class], rate_of));
        let all: Vec<u64> = counts[0]
            .iter()
            .zip(&counts[1])
            .map(|(a, b)| a + b)
            .collect();
        UsualLinks {
            switch_rate_bits_per_second: switch_rate.map(f64::from_bits),
            host_rate_bits_per_second: host_rate.map(f64::from_bits),
            latency_picoseconds: usual(&self.attributes, &all, |kind| kind.latency_picoseconds),
        }
    }

    /// The network, checked as a whole, with its routes. Links keep only what is not `usual`.
    ///
    /// # Errors
    ///
    /// No host; a host without or with several links; two links between the same switches, unless
    /// that is allowed; too few ports; names that occur twice; tables beyond
    /// [`crate::ROUTE_TABLE_BYTES_MAX`].
    pub fn finish_without(&mut self, usual: UsualLinks) -> Fallible<Topology> {
        if self.hosts.len() == 0 {
            return Err(wrong("the network has no host", "add hosts and link them"));
        }
        if self.has_own_names {
            // Names by number, given later, may repeat those.
            self.enter_names()?;
        }
        let parts = self.parts(usual)?;
        rule::recognise(parts).or_else(|parts| Topology::by_shortest_path(*parts, EqualPaths::Hash))
    }

    /// The network, checked as a whole, without routes.
    pub(crate) fn parts(&self, usual: UsualLinks) -> Fallible<GraphParts> {
        let rests = [false, true].map(|is_host| {
            let rest = self
                .attributes
                .iter()
                .map(|kind| kind.without(usual, is_host));
            rest.collect::<Vec<_>>()
        });
        let built = Built { graph: self, rests };
        let parts = assemble(&built, self.hosts.len(), self.switches.len());
        let mut parts = parts.map_err(|fault| match fault {
            Fault::Edge { problem, help, .. } | Fault::Host { problem, help, .. } => {
                wrong(problem, help)
            }
            Fault::Other(error) => error,
        })?;
        let ports = self.ports.iter().map(|&ports| (ports > 0).then_some(ports));
        parts.switch_ports = ports.collect();
        parts.host_names = self.hosts.clone();
        parts.switch_names = self.switches.clone();
        parts.names_are_free = !self.has_own_names;
        parts.directed = self.directed;
        parts.unused_attributes = self.unused.clone().into_iter().collect();
        parts.described = self.described.clone();
        parts.equal_paths = self.equal_paths;
        parts.check_ports()?;
        Ok(parts)
    }

    /// The network with all that was said of its links.
    ///
    /// # Errors
    ///
    /// As for [`GraphBuilder::finish_without`].
    pub fn finish(&mut self) -> Fallible<Topology> {
        self.finish_without(UsualLinks::default())
    }
}

impl Index {
    fn insert(&mut self, name: &str, node: Node) -> Fallible<()> {
        if self.nodes.contains_key(name) {
            let problem = format!("there is a node named {name} already");
            return Err(wrong(problem, "give each node a name of its own"));
        }
        self.nodes.insert(name.into(), node);
        Ok(())
    }
}

fn checked_ports(ports: Option<u32>) -> Fallible<u32> {
    match ports {
        Some(0) => Err(wrong(
            "a switch has no ports",
            "give it at least one, or leave `ports` out: then it has as many as it takes",
        )),
        ports => Ok(ports.unwrap_or(0)),
    }
}

fn is_of_host(ends: &[Code; 2]) -> bool {
    ends.iter().any(|end| end.0 & Code::SWITCH == 0)
}

/// What most have, the first of several; none if one has none, or there is none.
fn usual(
    kinds: &[LinkAttributes],
    counts: &[u64],
    value: impl Fn(&LinkAttributes) -> Option<u64>,
) -> Option<u64> {
    let mut totals: Vec<(u64, u64)> = Vec::new();
    for (kind, &count) in kinds.iter().zip(counts) {
        if count == 0 {
            continue;
        }
        let value = value(kind)?;
        match totals.iter_mut().find(|(known, _)| *known == value) {
            Some((_, total)) => *total += count,
            None => totals.push((value, count)),
        }
    }
    let most = totals.iter().map(|&(_, total)| total).max()?;
    let first = totals.iter().find(|&&(_, total)| total == most);
    first.map(|&(value, _)| value)
}

impl LinkAttributes {
    /// What is not usual.
    fn without(self, usual: UsualLinks, is_of_host: bool) -> Self {
        let usual_rate = match is_of_host {
            true => usual.host_rate_bits_per_second,
            false => usual.switch_rate_bits_per_second,
        };
        let UsualLinks {
            latency_picoseconds: usual_latency,
            ..
        } = usual;
        let Self {
            rate_bits_per_second: rate,
            latency_picoseconds: latency,
        } = self;
        Self {
            rate_bits_per_second: rate.filter(|_| rate != usual_rate),
            latency_picoseconds: latency.filter(|_| latency != usual_latency),
        }
    }
}

/// A graph with what is left of its attributes: of links between switches, then of hosts' links.
struct Built<'a> {
    graph: &'a GraphBuilder,
    rests: [Vec<LinkAttributes>; 2],
}

impl Edges for Built<'_> {
    fn count(&self) -> usize {
        self.graph.links.len()
    }

    fn edge(&self, number: usize) -> Edge {
        let ends = self.graph.links[number];
        let kind = self.graph.link_attributes[number] as usize;
        Edge {
            ends: ends.map(Code::node),
            directed: self.graph.directed,
            attributes: self.rests[usize::from(is_of_host(&ends))][kind],
        }
    }

    fn name(&self, node: Node) -> String {
        self.graph.node_name(node).to_owned()
    }

    fn is_multigraph(&self) -> bool {
        self.graph.multigraph
    }

    fn multigraph_help(&self) -> String {
        "make the network with parallel links".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkId;

    fn rated(rate: f64) -> LinkAttributes {
        LinkAttributes {
            rate_bits_per_second: Some(rate),
            latency_picoseconds: Some(7),
        }
    }

    #[test]
    fn usual_rates_are_told_and_left_out() {
        let mut graph = GraphBuilder::default();
        let switches: Vec<Node> = (0..4)
            .map(|_| Node::Switch(graph.add_switch(None, None).unwrap()))
            .collect();
        for &switch in &switches {
            let host = Node::Host(graph.add_host(None).unwrap());
            graph.link(host, switch, rated(1e9)).unwrap();
        }
        for (pair, rate) in switches.windows(2).zip([2e9, 3e9, 2e9]) {
            graph.link(pair[0], pair[1], rated(rate)).unwrap();
        }
        let usual = graph.usual_links();
        let expected = UsualLinks {
            switch_rate_bits_per_second: Some(2e9),
            host_rate_bits_per_second: Some(1e9),
            latency_picoseconds: Some(7),
        };
        assert_eq!(usual, expected);
        let chain = graph.finish_without(usual).unwrap();
        let rates: Vec<_> = (0..chain.link_count())
            .filter_map(|link| Some((link, chain.link_rate_bits_per_second(LinkId(link))?)))
            .collect();
        // Edge 1 of the chain, both ways.
        assert_eq!(rates, [(10, 3e9), (11, 3e9)]);
        assert_eq!(chain.link_latency_picoseconds(LinkId(0)), None);
        // One link that says nothing keeps the others' as they are.
        let bare = LinkAttributes::default();
        graph.multigraph = true;
        graph.link(switches[0], switches[1], bare).unwrap();
        let usual = graph.usual_links();
        assert_eq!(usual.switch_rate_bits_per_second, None);
        assert_eq!(usual.latency_picoseconds, None);
        assert_eq!(usual.host_rate_bits_per_second, Some(1e9));
    }

    #[test]
    fn mistakes_are_told_with_names() {
        let mut graph = GraphBuilder::default();
        let text = |error: TopologyError| error.to_string();
        assert_eq!(
            text(graph.finish().unwrap_err()),
            "the network has no host; add hosts and link them"
        );
        graph.add_switches(2, Some(2)).unwrap();
        graph.add_host(Some("left")).unwrap();
        assert!(text(graph.add_host(Some("s1")).unwrap_err()).contains("named s1 already"));
        assert!(text(graph.add_host(Some("")).unwrap_err()).contains("is empty"));
        assert!(text(graph.host(1).unwrap_err()).contains("there is no host 1; there are 1"));
        assert!(text(graph.find("right").unwrap_err()).contains("no node is named right"));
        let (left, s0, s1) = (
            graph.find("left").unwrap(),
            graph.find("s0").unwrap(),
            graph.find("s1").unwrap(),
        );
        let plain = LinkAttributes::default();
        assert_eq!(
            text(graph.finish().unwrap_err()),
            "the host left has no link; join it to one switch, both ways"
        );
        let no_host = Node::Host(HostId(9));
        let error = graph.links([(left, s0), (no_host, s1)], plain).unwrap_err();
        assert!(text(error).starts_with("link 1 of the list: there is no host 9"));
        assert_eq!(graph.link_count(), 0);
        graph.link(left, s0, plain).unwrap();
        graph.link(left, s1, plain).unwrap();
        assert!(text(graph.finish().unwrap_err()).contains("a second link of the host left"));
        graph.links.pop();
        graph.link(s0, s1, plain).unwrap();
        graph.link(s1, s0, plain).unwrap();
        assert!(text(graph.finish().unwrap_err()).contains("second link between s1 and s0"));
        graph.links.pop();
        assert_eq!(graph.finish().unwrap().host_count(), 1);
        // A number's name that is somebody's own.
        graph.add_host(Some("n2")).unwrap();
        graph.add_host(None).unwrap();
        assert!(text(graph.finish().unwrap_err()).contains("named n2 already"));
    }
}
