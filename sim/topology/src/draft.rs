//! What the readers of graph files have in common: collect nodes and edges with their places in the
//! file, then check them as a whole.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{FileError, TopologyError, shortened};
use crate::graph::{GRAPH_HOSTS_MAX, GRAPH_LINKS_MAX, GRAPH_SWITCHES_MAX, limit};
use crate::parts::{Edge, Edges, Fault, GraphParts, LinkAttributes, assemble};
use crate::quantity::{parse_rate, parse_time};
use crate::{HostId, Node, SwitchId};

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

pub(crate) const NAME_HELP: &str = "give each node a short printable name";

/// What is wrong with the name of a node that no message could show.
pub(crate) fn name_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        Some("the name of a node is empty".to_owned())
    } else if name.len() > NAME_BYTES_MAX {
        Some(format!(
            "the name of a node has more than {NAME_BYTES_MAX} bytes"
        ))
    } else if name.chars().any(char::is_control) {
        Some("the name of a node has a control character".to_owned())
    } else {
        None
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
        match name_problem(name) {
            None => Ok(()),
            Some(problem) => Err(self.error(span, problem, NAME_HELP)),
        }
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

    fn find(&self, end: &End) -> Fallible<Node> {
        let node = self.nodes.get(&end.name).ok_or_else(|| {
            let problem = format!("no node is named {}", shortened(&end.name));
            self.error(&end.span, problem, "add the node, or correct the name")
        })?;
        Ok(match node.kind {
            NodeKind::Host => Node::Host(HostId(node.number)),
            NodeKind::Switch => Node::Switch(SwitchId(node.number)),
        })
    }

    /// Checks the whole.
    pub(crate) fn finish(self) -> Fallible<GraphParts> {
        let at_end = self.source.len()..self.source.len();
        if self.hosts.is_empty() {
            let help = "say which nodes are hosts; a host has one link, to a switch";
            return Err(self.error(&at_end, "the graph has no host", help));
        }
        let mut nodes = Vec::with_capacity(self.edges.len());
        for edge in &self.edges {
            let [source, target] = &edge.ends;
            nodes.push([self.find(source)?, self.find(target)?]);
        }
        let linked = LinkedDraft {
            draft: &self,
            nodes,
        };
        let parts = assemble(&linked, self.hosts.len(), self.switches.len());
        let mut parts = parts.map_err(|fault| match fault {
            Fault::Edge {
                edge,
                end,
                problem,
                help,
            } => self.error(&self.edges[edge].ends[end].span, problem, help),
            Fault::Host {
                host,
                problem,
                help,
            } => {
                let span = &self.nodes[&self.hosts[host as usize]].span;
                self.error(span, problem, help)
            }
            Fault::Other(error) => error,
        })?;
        for node in self.nodes.values() {
            if node.kind == NodeKind::Switch {
                parts.switch_ports[node.number as usize] = node.ports;
            }
        }
        parts.host_names = self.hosts.iter().collect();
        parts.switch_names = self.switches.iter().collect();
        parts.check_ports()?;
        parts.unused_attributes = self.unused.into_iter().collect();
        Ok(parts)
    }
}

/// A draft whose edges are joined to its nodes.
struct LinkedDraft<'a> {
    draft: &'a Draft<'a>,
    nodes: Vec<[Node; 2]>,
}

impl Edges for LinkedDraft<'_> {
    fn count(&self) -> usize {
        self.nodes.len()
    }

    fn edge(&self, number: usize) -> Edge {
        let edge = &self.draft.edges[number];
        Edge {
            ends: self.nodes[number],
            directed: edge.directed,
            attributes: edge.attributes,
        }
    }

    fn name(&self, node: Node) -> String {
        match node {
            Node::Host(host) => self.draft.hosts[host.0 as usize].clone(),
            Node::Switch(switch) => self.draft.switches[switch.0 as usize].clone(),
        }
    }

    fn is_multigraph(&self) -> bool {
        self.draft.multigraph
    }

    fn multigraph_help(&self) -> String {
        self.draft.multigraph_help.to_owned()
    }
}
