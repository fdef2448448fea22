//! The lists of which a graph is made, checked as a whole, wherever its links come from.

use crate::error::TopologyError;
use crate::graph::{GRAPH_LINKS_MAX, limit};
use crate::grid::port_reason;
use crate::names::Names;
use crate::{EqualPaths, HostId, Node, SwitchId, Topology};

/// Rate of a link that has none of its own.
const RATE_NONE: f64 = 0.0;
/// Latency of a link that has none of its own.
const LATENCY_NONE: u64 = u64::MAX;

/// What is said of a link, in final units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkAttributes {
    /// Bits a second.
    pub rate_bits_per_second: Option<f64>,
    /// Picoseconds that a signal takes.
    pub latency_picoseconds: Option<u64>,
}

/// Attributes by number; what no link has takes no memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AttributeColumns {
    len: usize,
    rates: Vec<f64>,
    latencies: Vec<u64>,
}

impl AttributeColumns {
    pub(crate) fn push(&mut self, link: LinkAttributes) {
        fn push<T: Copy>(column: &mut Vec<T>, len: usize, value: Option<T>, none: T) {
            if column.is_empty() && value.is_none() {
                return;
            }
            column.resize(len, none);
            column.push(value.unwrap_or(none));
        }
        push(
            &mut self.rates,
            self.len,
            link.rate_bits_per_second,
            RATE_NONE,
        );
        push(
            &mut self.latencies,
            self.len,
            link.latency_picoseconds,
            LATENCY_NONE,
        );
        self.len += 1;
    }

    pub(crate) fn rate(&self, number: usize) -> Option<f64> {
        let rate = self.rates.get(number).copied();
        rate.filter(|&rate| rate != RATE_NONE)
    }

    pub(crate) fn latency(&self, number: usize) -> Option<u64> {
        let latency = self.latencies.get(number).copied();
        latency.filter(|&latency| latency != LATENCY_NONE)
    }

    pub(crate) fn get(&self, number: usize) -> LinkAttributes {
        LinkAttributes {
            rate_bits_per_second: self.rate(number),
            latency_picoseconds: self.latency(number),
        }
    }

    /// Whether no link has any.
    pub(crate) fn is_empty(&self) -> bool {
        self.rates.is_empty() && self.latencies.is_empty()
    }

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (size_of_val(&*self.rates) + size_of_val(&*self.latencies)) as u64
    }
}

/// A link as it is given: of a directed graph from the first node to the second, else both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) ends: [Node; 2],
    pub(crate) directed: bool,
    pub(crate) attributes: LinkAttributes,
}

/// Where the nodes and links of a graph come from.
pub(crate) trait Edges {
    fn count(&self) -> usize;
    fn edge(&self, number: usize) -> Edge;
    fn name(&self, node: Node) -> String;
    fn is_multigraph(&self) -> bool;
    /// How parallel links are allowed there.
    fn multigraph_help(&self) -> String;
}

/// What is wrong with a graph as a whole.
#[derive(Debug)]
pub(crate) enum Fault {
    /// At an end of an edge.
    Edge {
        edge: usize,
        end: usize,
        problem: String,
        help: String,
    },
    /// At a host, which lacks a link.
    Host {
        host: u32,
        problem: String,
        help: String,
    },
    Other(TopologyError),
}

/// The lists of which a graph is made; whoever makes them has checked the numbers.
#[derive(Debug, Default)]
pub(crate) struct GraphParts {
    pub(crate) directed: bool,
    pub(crate) multigraph: bool,
    pub(crate) host_names: Names,
    pub(crate) switch_names: Names,
    /// Whether a generated network of this shape may give its nodes their names.
    pub(crate) names_are_free: bool,
    /// Ports of each switch, where they are said.
    pub(crate) switch_ports: Vec<Option<u32>>,
    /// The switch of each host.
    pub(crate) host_switches: Vec<u32>,
    /// Source and target switch of each directed link between switches.
    pub(crate) links: Vec<(u32, u32)>,
    /// By link number: up from the hosts, down to them, between switches.
    pub(crate) attributes: AttributeColumns,
    /// Names of attributes that mean nothing here, and how often they were met.
    pub(crate) unused_attributes: Vec<(String, u32)>,
    /// The network by rule that it is said to be.
    pub(crate) described: Option<Box<Topology>>,
    /// How flows choose between its equal ways, if not as is usual there.
    pub(crate) equal_paths: Option<EqualPaths>,
}

/// A mark for a host that has no link yet.
const UNLINKED: (u32, u32) = (u32::MAX, u32::MAX);

/// Checks links as a whole: each host has one switch, both ways; no link leads back to its own
/// switch; none is there twice, unless that is allowed. Names and ports are left to be filled in.
pub(crate) fn assemble(
    edges: &impl Edges,
    host_count: usize,
    switch_count: usize,
) -> Result<GraphParts, Fault> {
    let mut parts = GraphParts {
        multigraph: edges.is_multigraph(),
        ..GraphParts::default()
    };
    let mut hosts = HostLinks {
        ups: vec![UNLINKED; host_count],
        downs: vec![UNLINKED; host_count],
    };
    // Which edge each link between switches comes from.
    let mut origins: Vec<u32> = Vec::new();
    let at_end = |edge: usize, end: usize, problem: String, help: &str| Fault::Edge {
        edge,
        end,
        problem,
        help: help.to_owned(),
    };
    for number in 0..edges.count() {
        let edge = edges.edge(number);
        let [from, to] = edge.ends;
        parts.directed |= edge.directed;
        if from == to {
            let problem = format!("a link from {} to itself", edges.name(from));
            return Err(at_end(number, 1, problem, "leave it out"));
        }
        let (host, switch, end) = match (from, to) {
            (Node::Host(_), Node::Host(_)) => {
                let (from, to) = (edges.name(from), edges.name(to));
                let problem = format!("a link between the hosts {from} and {to}");
                let help = "put a switch between them: a host has one link, to a switch";
                return Err(at_end(number, 1, problem, help));
            }
            (Node::Host(host), Node::Switch(switch)) => (host, switch, 0),
            (Node::Switch(switch), Node::Host(host)) => (host, switch, 1),
            (Node::Switch(SwitchId(from)), Node::Switch(SwitchId(to))) => {
                let ways = [(from, to), (to, from)];
                for &pair in &ways[..if edge.directed { 1 } else { 2 }] {
                    parts.links.push(pair);
                    origins.push(number as u32);
                }
                continue;
            }
        };
        let up_first = end == 0;
        let both = !edge.directed;
        let is_second = (up_first || both)
            && !HostLinks::attach(&mut hosts.ups, host, switch, number)
            || (!up_first || both) && !HostLinks::attach(&mut hosts.downs, host, switch, number);
        if is_second {
            let problem = format!("a second link of the host {}", edges.name(edge.ends[end]));
            let help = "leave it out, or make the node a switch: a host has one link";
            return Err(at_end(number, end, problem, help));
        }
    }
    if !parts.multigraph
        && let Some(edge) = first_parallel(&parts.links, &origins)
    {
        let [from, to] = edges.edge(edge).ends.map(|node| edges.name(node));
        let problem = format!("a second link between {from} and {to}");
        let help = format!(
            "leave it out, or allow several: {}",
            edges.multigraph_help()
        );
        return Err(at_end(edge, 1, problem, &help));
    }
    let count = parts.links.len() as u64;
    limit(
        "the number of links between switches",
        count,
        u64::from(GRAPH_LINKS_MAX),
    )
    .map_err(Fault::Other)?;
    parts.host_switches = hosts.switches(edges)?;
    let ups = hosts.ups.iter().map(|&(_, edge)| edge);
    let downs = hosts.downs.iter().map(|&(_, edge)| edge);
    for edge in ups.chain(downs).chain(origins) {
        parts.attributes.push(edges.edge(edge as usize).attributes);
    }
    parts.switch_ports = vec![None; switch_count];
    Ok(parts)
}

/// Of each host the switch and the edge of its link, in each direction.
struct HostLinks {
    ups: Vec<(u32, u32)>,
    downs: Vec<(u32, u32)>,
}

impl HostLinks {
    /// Notes one direction of the link of a host; false if it has one already.
    fn attach(
        links: &mut [(u32, u32)],
        HostId(host): HostId,
        SwitchId(switch): SwitchId,
        edge: usize,
    ) -> bool {
        let link = &mut links[host as usize];
        if *link != UNLINKED {
            return false;
        }
        *link = (switch, edge as u32);
        true
    }

    /// The switch of each host, which it is joined to both ways.
    fn switches(&self, edges: &impl Edges) -> Result<Vec<u32>, Fault> {
        let both = self.ups.iter().zip(&self.downs).enumerate();
        both.map(|(host, (&up, &down))| {
            if up != UNLINKED && up.0 == down.0 {
                return Ok(up.0);
            }
            let host = host as u32;
            let name = edges.name(Node::Host(HostId(host)));
            let switch = |(switch, _): (u32, u32)| edges.name(Node::Switch(SwitchId(switch)));
            let problem = match (up, down) {
                (UNLINKED, UNLINKED) => format!("the host {name} has no link"),
                (UNLINKED, _) => format!("the host {name} has no link to its switch"),
                (_, UNLINKED) => format!("the host {name} has no link from its switch"),
                _ => format!(
                    "the host {name} sends to {} but receives from {}",
                    switch(up),
                    switch(down)
                ),
            };
            Err(Fault::Host {
                host,
                problem,
                help: "join it to one switch, both ways".to_owned(),
            })
        })
        .collect()
    }
}

/// The first edge that repeats a link between switches.
fn first_parallel(links: &[(u32, u32)], origins: &[u32]) -> Option<usize> {
    let mut sorted: Vec<(u32, u32, u32)> = links
        .iter()
        .zip(origins)
        .map(|(&(from, to), &edge)| (from, to, edge))
        .collect();
    sorted.sort_unstable();
    sorted
        .windows(2)
        .filter(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1))
        .map(|pair| pair[1].2 as usize)
        .min()
}

impl GraphParts {
    /// Refuses switches with more links than ports.
    pub(crate) fn check_ports(&self) -> Result<(), TopologyError> {
        let mut hosts = vec![0u32; self.switch_ports.len()];
        let mut outs = hosts.clone();
        let mut ins = hosts.clone();
        for &switch in &self.host_switches {
            hosts[switch as usize] += 1;
        }
        for &(source, target) in &self.links {
            outs[source as usize] += 1;
            ins[target as usize] += 1;
        }
        for (switch, ports) in self.switch_ports.iter().enumerate() {
            // A port carries one link in and one out.
            let neighbours = outs[switch].max(ins[switch]);
            let needed = hosts[switch] + neighbours;
            match *ports {
                Some(available) if available < needed => {
                    return Err(TopologyError::TooFewPorts {
                        switch: self.switch_names.get(switch as u32).to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_what_some_links_have() {
        let mut columns = AttributeColumns::default();
        let of = |rate, latency| LinkAttributes {
            rate_bits_per_second: rate,
            latency_picoseconds: latency,
        };
        let links = [of(None, None), of(None, Some(0)), of(Some(1e9), None)];
        for link in links {
            columns.push(link);
        }
        for (number, link) in links.iter().enumerate() {
            assert_eq!(columns.get(number), *link);
        }
        assert_eq!((columns.rates.len(), columns.latencies.len()), (3, 3));
        let mut plain = AttributeColumns::default();
        plain.push(of(None, None));
        plain.push(of(None, None));
        assert!(plain.is_empty());
        plain.push(of(None, Some(7)));
        assert_eq!((plain.latency(1), plain.latency(2)), (None, Some(7)));
        let mut first = AttributeColumns::default();
        first.push(of(Some(1e9), None));
        first.push(of(None, None));
        assert_eq!((first.rate(0), first.rate(1)), (Some(1e9), None));
    }
}
