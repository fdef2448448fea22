//! What the readers of graph files have in common: collect nodes and edges with their places in the
//! file, then check them as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::error::{FileError, TopologyError, shortened};
use crate::graph::{
    GRAPH_HOSTS_MAX, GRAPH_LINKS_MAX, GRAPH_SWITCHES_MAX, Graph, GraphParts, LinkAttributes, limit,
};
use crate::grid::port_reason;
use crate::quantity::{parse_rate, parse_time};

/// Longest name of a node, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most different attributes that a file may have beside those that are understood.
pub const UNUSED_ATTRIBUTES_MAX: usize = 100;

/// What a node is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NodeKind {
    Host,
    Switch,
}

impl NodeKind {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "host" => Some(Self::Host),
            "switch" => Some(Self::Switch),
            _ => None,
        }
    }
}

struct DraftNode {
    span: Range<usize>,
    kind: NodeKind,
    /// Number among the hosts or the switches.
    number: u32,
    ports: Option<u32>,
}

/// One end of an edge: a node's name and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
}

struct DraftEdge {
    ends: [End; 2],
    directed: bool,
    attributes: LinkAttributes,
}

/// A graph that is being read.
pub(crate) struct Draft<'a> {
    pub(crate) source: &'a str,
    pub(crate) multigraph: bool,
    /// How a file of this kind allows parallel links.
    multigraph_help: &'static str,
    nodes: BTreeMap<String, DraftNode>,
    hosts: Vec<String>,
    switches: Vec<String>,
    edges: Vec<DraftEdge>,
    unused: BTreeMap<String, u32>,
}

type Fallible<T> = Result<T, TopologyError>;

impl<'a> Draft<'a> {
    pub(crate) fn new(source: &'a str, multigraph_help: &'static str) -> Self {
        Self {
            source,
            multigraph: false,
            multigraph_help,
            nodes: BTreeMap::new(),
            hosts: Vec::new(),
            switches: Vec::new(),
            edges: Vec::new(),
            unused: BTreeMap::new(),
        }
    }

    pub(crate) fn error(
        &self,
        span: &Range<usize>,
        problem: impl Into<String>,
        help: impl Into<String>,
    ) -> TopologyError {
        FileError::new(self.source, span.clone(), problem, help).into()
    }

    /// Refuses names that no message could show.
    pub(crate) fn check_name(&self, name: &str, span: &Range<usize>) -> Fallible<()> {
        let problem = if name.is_empty() {
            "the name of a node is empty".to_owned()
        } else if name.len() > NAME_BYTES_MAX {
            format!("the name of a node has more than {NAME_BYTES_MAX} bytes")
        } else if name.chars().any(char::is_control) {
            "the name of a node has a control character".to_owned()
        } else {
            return Ok(());
        };
        Err(self.error(span, problem, "give each node a short printable name"))
    }

    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    pub(crate) fn add_node(
        &mut self,
        name: String,
        span: Range<usize>,
        kind: NodeKind,
        ports: Option<(u32, Range<usize>)>,
    ) -> Fallible<()> {
        self.check_name(&name, &span)?;
        if self.nodes.contains_key(&name) {
            let problem = format!("there is a node named {name} already");
            return Err(self.error(&span, problem, "give each node a name of its own"));
        }
        if let (NodeKind::Host, Some((_, span))) = (kind, &ports) {
            let problem = format!("`ports` is given for the host {name}");
            let help = "leave it out: a host has one link; only switches have ports";
            return Err(self.error(span, problem, help));
        }
        let list = match kind {
            NodeKind::Host => &mut self.hosts,
            NodeKind::Switch => &mut self.switches,
        };
        let number = list.len() as u32;
        list.push(name.clone());
        let (what, most) = match kind {
            NodeKind::Host => ("the number of hosts", GRAPH_HOSTS_MAX),
            NodeKind::Switch => ("the number of switches", GRAPH_SWITCHES_MAX),
        };
        limit(what, list.len() as u64, u64::from(most))?;
        let ports = ports.map(|(ports, _)| ports);
        self.nodes.insert(
            name,
            DraftNode {
                span,
                kind,
                number,
                ports,
            },
        );
        Ok(())
    }

    /// Sets the ports of a switch that was added before.
    pub(crate) fn set_ports(&mut self, name: &str, ports: u32) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.ports = Some(ports);
        }
    }

    pub(crate) fn add_edge(
        &mut self,
        ends: [End; 2],
        directed: bool,
        attributes: LinkAttributes,
    ) -> Fallible<()> {
        let most = u64::from(GRAPH_LINKS_MAX) + 2 * u64::from(GRAPH_HOSTS_MAX);
        limit("the number of edges", self.edges.len() as u64 + 1, most)?;
        self.edges.push(DraftEdge {
            ends,
            directed,
            attributes,
        });
        Ok(())
    }

    /// Notes an attribute that means nothing here, to be told to the user.
    pub(crate) fn note_unused(&mut self, owner: &str, attribute: &str) {
        let name = format!("{owner} {}", shortened(attribute));
        if self.unused.len() < UNUSED_ATTRIBUTES_MAX || self.unused.contains_key(&name) {
            let count = self.unused.entry(name).or_insert(0);
            *count = count.saturating_add(1);
        }
    }

    pub(crate) fn parse_kind(&self, text: &str, span: &Range<usize>) -> Fallible<NodeKind> {
        NodeKind::parse(text).ok_or_else(|| {
            let help = "write \"host\" or \"switch\"";
            self.error(span, "the kind of a node is neither host nor switch", help)
        })
    }

    pub(crate) fn parse_ports(&self, text: &str, span: &Range<usize>) -> Fallible<u32> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(ports) if digits && ports > 0 => Ok(ports),
            _ => {
                let problem = "`ports` is no whole number from 1 to 4294967295";
                Err(self.error(
                    span,
                    problem,
                    "write the number of the switch's ports, like 8",
                ))
            }
        }
    }

    /// Takes an attribute of an edge; false if it is not one that is understood.
    pub(crate) fn edge_attribute(
        &self,
        attributes: &mut LinkAttributes,
        name: &str,
        text: &str,
        span: &Range<usize>,
    ) -> Fallible<bool> {
        let result = match name {
            "rate" => parse_rate(text).map(|rate| attributes.rate_bits_per_second = Some(rate)),
            "latency" => parse_time(text).map(|time| attributes.latency_picoseconds = Some(time)),
            _ => return Ok(false),
        };
        match result {
            Ok(()) => Ok(true),
            Err(error) => Err(self.error(span, format!("`{name}`: {}", error.problem), error.help)),
        }
    }

    fn find(&self, end: &End) -> Fallible<&DraftNode> {
        self.nodes.get(&end.name).ok_or_else(|| {
            let problem = format!("no node is named {}", shortened(&end.name));
            self.error(&end.span, problem, "add the node, or correct the name")
        })
    }

    /// Checks the whole and finds its routes.
    pub(crate) fn finish(self) -> Fallible<Graph> {
        let at_end = self.source.len()..self.source.len();
        if self.hosts.is_empty() {
            let help = "say which nodes are hosts; a host has one link, to a switch";
            return Err(self.error(&at_end, "the graph has no host", help));
        }
        let mut parts = GraphParts {
            directed: self.edges.iter().any(|edge| edge.directed),
            multigraph: self.multigraph,
            switch_ports: vec![None; self.switches.len()],
            ..GraphParts::default()
        };
        for node in self
            .nodes
            .values()
            .filter(|node| node.kind == NodeKind::Switch)
        {
            parts.switch_ports[node.number as usize] = node.ports;
        }
        let mut ups = vec![None; self.hosts.len()];
        let mut downs = vec![None; self.hosts.len()];
        let mut pairs = BTreeSet::new();
        for edge in &self.edges {
            let [source, target] = &edge.ends;
            let (from, to) = (self.find(source)?, self.find(target)?);
            if source.name == target.name {
                let problem = format!("a link from {} to itself", source.name);
                return Err(self.error(&target.span, problem, "leave it out"));
            }
            match (from.kind, to.kind) {
                (NodeKind::Host, NodeKind::Host) => {
                    let problem = format!(
                        "a link between the hosts {} and {}",
                        source.name, target.name
                    );
                    let help = "put a switch between them: a host has one link, to a switch";
                    return Err(self.error(&target.span, problem, help));
                }
                (NodeKind::Host, NodeKind::Switch) => {
                    self.attach(&mut ups, from.number, to.number, source, edge)?;
                    if !edge.directed {
                        self.attach(&mut downs, from.number, to.number, source, edge)?;
                    }
                }
                (NodeKind::Switch, NodeKind::Host) => {
                    self.attach(&mut downs, to.number, from.number, target, edge)?;
                    if !edge.directed {
                        self.attach(&mut ups, to.number, from.number, target, edge)?;
                    }
                }
                (NodeKind::Switch, NodeKind::Switch) => {
                    let ways = [(from.number, to.number), (to.number, from.number)];
                    for &pair in &ways[..if edge.directed { 1 } else { 2 }] {
                        if !pairs.insert(pair) && !self.multigraph {
                            let problem = format!(
                                "a second link between {} and {}",
                                source.name, target.name
                            );
                            let help =
                                format!("leave it out, or allow several: {}", self.multigraph_help);
                            return Err(self.error(&target.span, problem, help));
                        }
                        parts.links.push(pair);
                        parts.link_attributes.push(edge.attributes);
                    }
                }
            }
        }
        let links = parts.links.len() as u64;
        limit(
            "the number of links between switches",
            links,
            u64::from(GRAPH_LINKS_MAX),
        )?;
        for (host, name) in self.hosts.iter().enumerate() {
            let span = &self.nodes[name].span;
            let (Some((up, up_attributes)), Some((down, down_attributes))) =
                (ups[host], downs[host])
            else {
                let problem = match (ups[host], downs[host]) {
                    (None, None) => format!("the host {name} has no link"),
                    (None, _) => format!("the host {name} has no link to its switch"),
                    (_, _) => format!("the host {name} has no link from its switch"),
                };
                return Err(self.error(span, problem, "join it to one switch, both ways"));
            };
            if up != down {
                let (up, down) = (&self.switches[up as usize], &self.switches[down as usize]);
                let problem = format!("the host {name} sends to {up} but receives from {down}");
                return Err(self.error(span, problem, "join it to one switch, both ways"));
            }
            parts.host_switches.push(up);
            parts.up_attributes.push(up_attributes);
            parts.down_attributes.push(down_attributes);
        }
        self.check_ports(&parts)?;
        parts.host_names = self.hosts.into_iter().map(String::into_boxed_str).collect();
        parts.switch_names = self
            .switches
            .into_iter()
            .map(String::into_boxed_str)
            .collect();
        parts.unused_attributes = self.unused.into_iter().collect();
        Graph::new(parts)
    }

    /// Notes one direction of the link of a host.
    fn attach(
        &self,
        links: &mut [Option<(u32, LinkAttributes)>],
        host: u32,
        switch: u32,
        end: &End,
        edge: &DraftEdge,
    ) -> Fallible<()> {
        let link = &mut links[host as usize];
        if link.is_some() {
            let problem = format!("a second link of the host {}", end.name);
            let help = "leave it out, or make the node a switch: a host has one link";
            return Err(self.error(&end.span, problem, help));
        }
        *link = Some((switch, edge.attributes));
        Ok(())
    }

    /// Refuses switches with more links than ports.
    fn check_ports(&self, parts: &GraphParts) -> Fallible<()> {
        let mut hosts = vec![0u32; self.switches.len()];
        let mut outs = hosts.clone();
        let mut ins = hosts.clone();
        for &switch in &parts.host_switches {
            hosts[switch as usize] += 1;
        }
        for &(source, target) in &parts.links {
            outs[source as usize] += 1;
            ins[target as usize] += 1;
        }
        for (switch, ports) in parts.switch_ports.iter().enumerate() {
            // A port carries one link in and one out.
            let neighbours = outs[switch].max(ins[switch]);
            let needed = hosts[switch] + neighbours;
            match *ports {
                Some(available) if available < needed => {
                    return Err(TopologyError::TooFewPorts {
                        switch: self.switches[switch].clone(),
                        needed,
                        available,
                        reason: port_reason(hosts[switch], neighbours),
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }
}
