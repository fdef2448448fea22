//! Graphs that are a generated network: recognised by their links, so that they are routed by its
//! rule and need no tables.
//!
//! Hosts and switches must be numbered as the generator numbers them: hosts switch by switch,
//! switches along one dimension after the other, trees level by level. Links may come in any order;
//! they take the generator's numbers. What is recognised is proved link by link.

use crate::grid::{DIMENSIONS_MAX, Grid, Shape};
use crate::names::Names;
use crate::parts::{AttributeColumns, GraphParts};
use crate::topology::{Kind, Topology};
use crate::tree::Tree;
use crate::{ChainHosts, HostId, Node, Ports, SwitchId, TreeShape};

/// What a graph that is routed by rule has of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Labels {
    /// Names of hosts and switches, where they are not those that the rule gives.
    pub(crate) names: Option<(Names, Names)>,
    /// Ports of the switches, where they differ.
    pub(crate) switch_ports: Vec<Option<u32>>,
    /// By link number.
    pub(crate) attributes: AttributeColumns,
    pub(crate) unused_attributes: Vec<(String, u32)>,
}

impl Labels {
    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let names = self.names.iter();
        let names = names.map(|(hosts, switches)| hosts.memory_bytes() + switches.memory_bytes());
        names.sum::<u64>()
            + self.attributes.memory_bytes()
            + size_of_val(&*self.switch_ports) as u64
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The generated network that the parts are, with what they have of their own; the parts if they
/// are none.
pub(crate) fn recognise(mut parts: GraphParts) -> Result<Topology, Box<GraphParts>> {
    let ports = common_ports(&parts.switch_ports);
    let described = parts.described.take();
    let described = described
        .and_then(|network| Some((link_order(&network.kind, &parts)?, network.without_labels())));
    let found = described.or_else(|| {
        candidates(&parts)
            .into_iter()
            .filter_map(|candidate| candidate.kind(ports.unwrap_or(Ports(u32::MAX))))
            .find_map(|kind| Some((link_order(&kind, &parts)?, Topology::of(kind))))
    });
    let Some((order, mut topology)) = found else {
        return Err(Box::new(parts));
    };
    if let Some(equal_paths) = parts.equal_paths {
        topology = topology.with_equal_paths(equal_paths);
    }
    let mut attributes = AttributeColumns::default();
    if !parts.attributes.is_empty() {
        let host_links = 2 * parts.host_switches.len();
        let links = order.iter().map(|&link| host_links + link as usize);
        for link in (0..host_links).chain(links) {
            attributes.push(parts.attributes.get(link));
        }
    }
    let names_are_its_own = parts.names_are_free || names_are_generated(&topology, &parts);
    let labels = Labels {
        names: (!names_are_its_own).then_some((parts.host_names, parts.switch_names)),
        switch_ports: match ports {
            _ if ports_are_its_own(&topology, &parts.switch_ports) => Vec::new(),
            Some(_) => Vec::new(),
            None => std::mem::take(&mut parts.switch_ports),
        },
        attributes,
        unused_attributes: parts.unused_attributes,
    };
    if !labels.is_empty() {
        topology.labels = Some(Box::new(labels));
    }
    Ok(topology)
}

/// The ports that all switches have, where they are said of none or the same of all.
fn common_ports(ports: &[Option<u32>]) -> Option<Ports> {
    let first = ports.first().copied().flatten();
    ports
        .iter()
        .all(|&ports| ports == first)
        .then_some(Ports(first.unwrap_or(u32::MAX)))
}

/// Whether each switch has the ports that it must have.
fn ports_are_its_own(topology: &Topology, ports: &[Option<u32>]) -> bool {
    let mut switches = (0..).map(SwitchId).zip(ports);
    switches.all(|(switch, ports)| ports.is_some() && topology.switch_ports(switch) == *ports)
}

fn names_are_generated(topology: &Topology, parts: &GraphParts) -> bool {
    let hosts = (0..).zip(parts.host_names.iter());
    let switches = (0..).zip(parts.switch_names.iter());
    let nodes = switches
        .map(|(number, name)| (Node::Switch(SwitchId(number)), name))
        .chain(hosts.map(|(number, name)| (Node::Host(HostId(number)), name)));
    let mut nodes = nodes.map(|(node, name)| topology.node_name(node) == name);
    nodes.all(|is_same| is_same)
}

/// A network that a graph may be.
#[derive(Debug)]
enum Candidate {
    Grid(Shape, Vec<u32>, ChainHosts),
    Tree(TreeShape),
}

impl Candidate {
    fn kind(self, ports: Ports) -> Option<Kind> {
        match self {
            Self::Grid(shape, sizes, hosts) => {
                Grid::new(shape, &sizes, hosts, ports).ok().map(Kind::Grid)
            }
            Self::Tree(shape) => Tree::new(shape, ports).ok().map(Kind::Tree),
        }
    }
}

/// The networks that the graph may be, by its numbers and the links of its first switch.
fn candidates(parts: &GraphParts) -> Vec<Candidate> {
    let switches = parts.switch_names.len() as u32;
    let hosts = parts.host_switches.len() as u32;
    if parts.directed || switches == 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut neighbours: Vec<u32> = parts
        .links
        .iter()
        .filter_map(|&(from, to)| (from == 0).then_some(to))
        .collect();
    neighbours.sort_unstable();
    let at_every_switch = hosts.is_multiple_of(switches)
        && (0..)
            .zip(&parts.host_switches)
            .all(|(host, &switch)| host / (hosts / switches) == switch);
    if at_every_switch {
        let each = ChainHosts::EverySwitch(hosts / switches);
        if switches == 1 {
            found.push(Candidate::Grid(Shape::SingleSwitch, vec![1], each));
        }
        for sizes in torus_sizes(&neighbours, switches) {
            found.push(Candidate::Grid(Shape::Torus, sizes, each));
        }
        if let Some(sizes) = mesh_sizes(&neighbours, switches) {
            let shape = if sizes.len() == 1 {
                Shape::Chain
            } else {
                Shape::Mesh
            };
            found.push(Candidate::Grid(shape, sizes, each));
        }
    }
    let half = hosts / 2;
    let at_ends = switches > 1
        && hosts.is_multiple_of(2)
        && (0..)
            .zip(&parts.host_switches)
            .all(|(host, &switch)| switch == if host < half { 0 } else { switches - 1 });
    if at_ends {
        let ends = ChainHosts::Ends(half);
        found.push(Candidate::Grid(Shape::Chain, vec![switches], ends));
    }
    // A k-ary n-tree: its first switch has k hosts.
    let at_first = parts
        .host_switches
        .iter()
        .take_while(|&&switch| switch == 0);
    let arity = at_first.count() as u32;
    if arity >= 2 {
        let levels = hosts.ilog(arity);
        let is_power = arity.checked_pow(levels) == Some(hosts);
        if is_power && u64::from(switches) == u64::from(levels) * u64::from(hosts / arity) {
            found.push(Candidate::Tree(TreeShape { arity, levels }));
        }
    }
    found
}

/// Sizes of tori, at least one ring in them, whose first switch has these neighbours, ascending.
fn torus_sizes(neighbours: &[u32], switches: u32) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    extend_torus(neighbours, 1, switches, &mut Vec::new(), &mut found);
    found.retain(|sizes| sizes.iter().any(|&size| size > 2));
    found
}

/// The dimension of this stride and those after it: its first switch is joined to that a stride
/// away and, if there are more than two in a line, to the last of the line.
fn extend_torus(
    neighbours: &[u32],
    stride: u32,
    switches: u32,
    sizes: &mut Vec<u32>,
    found: &mut Vec<Vec<u32>>,
) {
    let Some((&first, rest)) = neighbours.split_first() else {
        if stride == switches {
            found.push(sizes.clone());
        }
        return;
    };
    if first != stride || sizes.len() == DIMENSIONS_MAX {
        return;
    }
    let mut attempt = |size: u32, rest: &[u32]| {
        let next = stride.checked_mul(size);
        if let Some(next) = next.filter(|&next| next <= switches) {
            sizes.push(size);
            extend_torus(rest, next, switches, sizes, found);
            sizes.pop();
        }
    };
    attempt(2, rest);
    if let Some((&last, rest)) = rest.split_first()
        && last.is_multiple_of(stride)
        && last / stride > 1
    {
        attempt(last / stride + 1, rest);
    }
}

/// Sizes of the mesh whose first switch has these neighbours, ascending.
fn mesh_sizes(neighbours: &[u32], switches: u32) -> Option<Vec<u32>> {
    if neighbours.first() != Some(&1) || neighbours.len() > DIMENSIONS_MAX {
        return None;
    }
    let next = neighbours.iter().skip(1).chain([&switches]);
    neighbours
        .iter()
        .zip(next)
        .map(|(&stride, &next)| next.is_multiple_of(stride).then_some(next / stride))
        .collect()
}

/// For each link of the candidate that of the graph which joins the same switches; none if the
/// two differ in a host or a link.
fn link_order(candidate: &Kind, parts: &GraphParts) -> Option<Vec<u32>> {
    let network = candidate.generated()?;
    let (links, ends) = (network.switch_link_count(), |link| network.link_ends(link));
    let hosts = (0..).zip(&parts.host_switches);
    let mut hosts = hosts.map(|(host, &switch)| network.host_switch(HostId(host)).0 == switch);
    if links as usize != parts.links.len() || !hosts.all(|is_same| is_same) {
        return None;
    }
    let mut given: Vec<(u32, u32, u32)> = (0..)
        .zip(&parts.links)
        .map(|(link, &(from, to))| (from, to, link))
        .collect();
    given.sort_unstable();
    let mut order: Vec<u32> = (0..links).collect();
    order.sort_unstable_by_key(|&link| ends(link));
    let pairs = order.iter().zip(&given);
    let is_same = |(&link, &(from, to, _)): (&u32, &(u32, u32, u32))| {
        ends(link) == (SwitchId(from), SwitchId(to))
    };
    if !pairs.clone().all(is_same) {
        return None;
    }
    let mut of_candidate = vec![0; links as usize];
    for (&link, &(_, _, of_graph)) in pairs {
        of_candidate[link as usize] = of_graph;
    }
    Some(of_candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_the_first_switch_tell_the_sizes() {
        assert_eq!(torus_sizes(&[1, 15, 16, 240], 256), [[16, 16]]);
        // A line of 2 and one of 3: 2 is no neighbour of the first line.
        assert_eq!(torus_sizes(&[1, 2, 4], 6), [[2, 3]]);
        assert_eq!(torus_sizes(&[1, 2, 3], 6), [[3, 2]]);
        assert_eq!(torus_sizes(&[1, 3], 4), [[4]]);
        assert!(torus_sizes(&[1, 2], 4).is_empty());
        assert!(torus_sizes(&[1, 7], 4).is_empty());
        assert_eq!(mesh_sizes(&[1, 3, 12], 24), Some(vec![3, 4, 2]));
        assert_eq!(mesh_sizes(&[1, 3], 10), None);
        assert_eq!(mesh_sizes(&[2], 4), None);
    }
}
