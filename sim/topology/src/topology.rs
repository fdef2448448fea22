//! The network as the rest of the program sees it.

use crate::error::TopologyError;
use crate::graph::{EqualPaths, Graph};
use crate::grid::{Grid, Shape};
use crate::leaf_spine::LeafSpine;
use crate::parts::LinkAttributes;
use crate::rule::Labels;
use crate::tree::Tree;
use crate::{ChainHosts, HostId, LinkClass, LinkId, Node, Ports, SwitchId, TreeShape};

/// A network of hosts, switches and directed links, with a route from each host to each other for
/// each flow.
///
/// Numbers are dense, from 0. Links are numbered the links up from the hosts first (link h is that
/// of host h), then the links down to the hosts in the same order, then the links between switches.
/// Methods that take a number expect one of this topology's; another gives a wrong answer or a
/// panic, never undefined behaviour.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    pub(crate) kind: Kind,
    /// Of a graph that is routed by rule: what it has of its own.
    pub(crate) labels: Option<Box<Labels>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Grid(Grid),
    Tree(Tree),
    LeafSpine(LeafSpine),
    Graph(Box<Graph>),
}

/// What makes a generated network, but for the ports of its switches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Plan<'a> {
    /// See [`Topology::single_switch`].
    SingleSwitch {
        /// All hosts.
        hosts: u32,
    },
    /// See [`Topology::chain`].
    Chain {
        /// All switches.
        switches: u32,
        /// Where the hosts are.
        hosts: ChainHosts,
    },
    /// See [`Topology::mesh`].
    Mesh {
        /// Switches in each dimension.
        dimensions: &'a [u32],
        /// Hosts at each.
        hosts_per_switch: u32,
    },
    /// See [`Topology::torus`].
    Torus {
        /// Switches in each dimension.
        dimensions: &'a [u32],
        /// Hosts at each.
        hosts_per_switch: u32,
    },
    /// See [`Topology::fat_tree`].
    FatTree(TreeShape),
    /// See [`Topology::leaf_spine`].
    LeafSpine {
        /// All hosts.
        hosts: u32,
        /// Of a leaf.
        hosts_per_leaf: u32,
        /// Switches of the spine.
        spines: u32,
    },
}

impl Topology {
    /// Switches in a row. Routes go straight.
    ///
    /// Switch i is `s<i>`; its hosts are `n<i>-0`, `n<i>-1` and so on.
    ///
    /// # Errors
    ///
    /// No switch, no host, too few ports, or more of anything than has numbers.
    pub fn chain(switches: u32, hosts: ChainHosts, ports: Ports) -> Result<Self, TopologyError> {
        Self::grid(Shape::Chain, &[switches], hosts, ports)
    }

    /// One switch with `hosts` hosts: switch `s0`, hosts `n0-0`, `n0-1` and so on.
    ///
    /// # Errors
    ///
    /// No host, or more hosts than ports.
    pub fn single_switch(hosts: u32, ports: Ports) -> Result<Self, TopologyError> {
        Self::grid(
            Shape::SingleSwitch,
            &[1],
            ChainHosts::EverySwitch(hosts),
            ports,
        )
    }

    /// A mesh: neighbours in each dimension are joined, the edges are open.
    ///
    /// `dimensions` are the switches in each dimension. Routes correct the first dimension first.
    /// Switch (x, y) is `s<x>-<y>`, its hosts `n<x>-<y>-0` and so on.
    ///
    /// # Errors
    ///
    /// No dimension or an empty one, no host, too few ports (an inner switch needs two for each
    /// dimension, and its hosts), or more of anything than has numbers.
    pub fn mesh(
        dimensions: &[u32],
        hosts_per_switch: u32,
        ports: Ports,
    ) -> Result<Self, TopologyError> {
        Self::grid(
            Shape::Mesh,
            dimensions,
            ChainHosts::EverySwitch(hosts_per_switch),
            ports,
        )
    }

    /// A torus: a mesh whose lines are closed to rings.
    ///
    /// A dimension of size 2 has one pair of links between its two switches, not two; one of size 1
    /// has none. Routes correct the first dimension first and go the shorter way round; when both
    /// ways are equally long, in the positive direction. Names are as in [`Topology::mesh`].
    ///
    /// # Errors
    ///
    /// As for [`Topology::mesh`].
    pub fn torus(
        dimensions: &[u32],
        hosts_per_switch: u32,
        ports: Ports,
    ) -> Result<Self, TopologyError> {
        Self::grid(
            Shape::Torus,
            dimensions,
            ChainHosts::EverySwitch(hosts_per_switch),
            ports,
        )
    }

    /// A fat tree, the k-ary n-tree: k^n hosts, n levels of k^(n-1) switches.
    ///
    /// Routes go up to the first level at which source and target have a common switch, then down;
    /// of the k ways up at level l the one is taken whose number is digit l, in base k, of the
    /// target's number. Level 0 has the hosts; switch i of level l is `s<l>-<i>`, host i is `n<i>`.
    ///
    /// # Errors
    ///
    /// An arity below 2, no level, fewer than 2 k ports (k with one level), or more of anything
    /// than has numbers.
    pub fn fat_tree(shape: TreeShape, ports: Ports) -> Result<Self, TopologyError> {
        Ok(Self {
            kind: Kind::Tree(Tree::new(shape, ports)?),
            labels: None,
        })
    }

    /// A tree of two levels: leaves with hosts, each joined to every switch of the spine.
    ///
    /// Names are `host0`, `leaf0`, `spine0` and so on; the last leaf may have fewer hosts than the
    /// others. Routes to host h go over switch h modulo their count of the spine.
    ///
    /// # Errors
    ///
    /// None of something, or more of anything than has numbers.
    pub fn leaf_spine(hosts: u32, hosts_per_leaf: u32, spines: u32) -> Result<Self, TopologyError> {
        let tree = LeafSpine::new(hosts, hosts_per_leaf, spines)?;
        Ok(Self {
            kind: Kind::LeafSpine(tree),
            labels: None,
        })
    }

    /// The same graph with routes from given tables, JSON text: for each switch, for each target
    /// host, the next node.
    ///
    /// ```
    /// # use viaduct_topology::{HostId, parse_edge_list};
    /// let graph = parse_edge_list("hosts n*\nn0 s0\ns0 s1\ns1 n1\n")?;
    /// let graph = graph.with_tables(r#"{"s0": {"n1": "s1"}, "s1": {"*": "s0"}}"#)?;
    /// assert_eq!(graph.path_length(HostId(0), HostId(1)), Some(3));
    /// assert!(!graph.check().has_errors());
    /// # Ok::<(), viaduct_topology::TopologyError>(())
    /// ```
    ///
    /// `*` stands for all hosts that a switch does not name; a host at the switch itself needs no
    /// entry. Loops and holes leave pairs of hosts without a route: [`Topology::check`] tells them.
    ///
    /// # Errors
    ///
    /// A generated topology; JSON that is not understood, a name that the graph does not have, or a
    /// next node that is no neighbour, with its place; tables beyond
    /// [`crate::ROUTE_TABLE_BYTES_MAX`].
    pub fn with_tables(mut self, tables: &str) -> Result<Self, TopologyError> {
        let Kind::Graph(graph) = &mut self.kind else {
            return Err(TopologyError::TablesForGenerated {
                topology: self.description(),
            });
        };
        crate::tables::apply(graph, tables)?;
        Ok(self)
    }

    fn grid(
        shape: Shape,
        sizes: &[u32],
        hosts: ChainHosts,
        ports: Ports,
    ) -> Result<Self, TopologyError> {
        Ok(Self {
            kind: Kind::Grid(Grid::new(shape, sizes, hosts, ports)?),
            labels: None,
        })
    }

    /// Hosts.
    #[must_use]
    pub fn host_count(&self) -> u32 {
        match &self.kind {
            Kind::Grid(grid) => grid.host_count(),
            Kind::Tree(tree) => tree.host_count(),
            Kind::LeafSpine(tree) => tree.host_count(),
            Kind::Graph(graph) => graph.host_count(),
        }
    }

    /// Switches.
    #[must_use]
    pub fn switch_count(&self) -> u32 {
        match &self.kind {
            Kind::Grid(grid) => grid.switch_count(),
            Kind::Tree(tree) => tree.switch_count(),
            Kind::LeafSpine(tree) => tree.switch_count(),
            Kind::Graph(graph) => graph.switch_count(),
        }
    }

    /// Directed links, those of the hosts included.
    #[must_use]
    pub fn link_count(&self) -> u32 {
        2 * self.host_count() + self.switch_link_count()
    }

    /// Directed links between switches.
    #[must_use]
    pub fn switch_link_count(&self) -> u32 {
        match &self.kind {
            Kind::Grid(grid) => grid.switch_link_count(),
            Kind::Tree(tree) => tree.switch_link_count(),
            Kind::LeafSpine(tree) => tree.switch_link_count(),
            Kind::Graph(graph) => graph.switch_link_count(),
        }
    }

    /// The class of a link.
    #[must_use]
    #[inline]
    pub fn link_class(&self, link: LinkId) -> LinkClass {
        let hosts = self.host_count();
        if link.0 < hosts {
            return LinkClass::HostUp;
        }
        let Some(index) = link.0.checked_sub(2 * hosts) else {
            return LinkClass::HostDown;
        };
        match &self.kind {
            Kind::Grid(_) | Kind::Graph(_) => LinkClass::Mesh,
            Kind::Tree(tree) if tree.is_up(index) => LinkClass::TreeUp,
            Kind::Tree(_) => LinkClass::TreeDown,
            Kind::LeafSpine(_) if LeafSpine::is_up(index) => LinkClass::TreeUp,
            Kind::LeafSpine(_) => LinkClass::TreeDown,
        }
    }

    /// The link from a host to its switch.
    #[must_use]
    #[inline]
    pub fn host_up(&self, host: HostId) -> LinkId {
        LinkId(host.0)
    }

    /// The link from its switch to a host.
    #[must_use]
    #[inline]
    pub fn host_down(&self, host: HostId) -> LinkId {
        LinkId(self.host_count() + host.0)
    }

    /// The switch of a host.
    #[must_use]
    #[inline]
    pub fn host_switch(&self, host: HostId) -> SwitchId {
        match &self.kind {
            Kind::Grid(grid) => grid.host_switch(host),
            Kind::Tree(tree) => tree.host_switch(host),
            Kind::LeafSpine(tree) => tree.host_switch(host),
            Kind::Graph(graph) => graph.host_switch(host),
        }
    }

    /// Appends the directed links from `source` to `target`, host links included, in order: those
    /// of flow 0, as [`Topology::route_flow`] does.
    #[inline]
    pub fn route<L: From<LinkId>>(&self, source: HostId, target: HostId, path: &mut Vec<L>) {
        self.route_flow(source, target, 0, path);
    }

    /// Appends the directed links that a flow takes from `source` to `target`, host links included,
    /// in order.
    ///
    /// The flow's number matters only where [`Topology::has_equal_paths`]: all messages of one flow
    /// take one path. A message of a host to itself goes to its switch and back. Where there is no
    /// way, which only graphs from files can have and [`Topology::check`] reports, nothing is
    /// appended.
    #[inline]
    pub fn route_flow<L: From<LinkId>>(
        &self,
        source: HostId,
        target: HostId,
        flow: u32,
        path: &mut Vec<L>,
    ) {
        path.push(self.host_up(source).into());
        match &self.kind {
            Kind::Grid(grid) => {
                grid.route(grid.host_switch(source), grid.host_switch(target), path);
            }
            Kind::Tree(tree) => tree.route(source, target, path),
            Kind::LeafSpine(tree) => tree.route(source, target, path),
            Kind::Graph(graph) => {
                if !graph.route(source, target, flow, path) {
                    path.pop();
                    return;
                }
            }
        }
        path.push(self.host_down(target).into());
    }

    /// The ways from `source` to `target` that are as good as each other, host links included, at
    /// most `most` of them: for whoever chooses one for each packet, as adapters do that put the
    /// whole route into a packet's head.
    ///
    /// They come in an order that spreads: neighbours in the list part as close to the source as
    /// they can. In a fat tree they differ in the switches that they meet in, and the first is that
    /// of [`Topology::route`]; in a graph they are made of all links that lead closer, or of those
    /// that [`EqualPaths::Single`] and given tables leave. Chains, meshes and tori have one. A
    /// host's way to itself goes to its switch and back; where there is no way, the list is empty.
    #[must_use]
    pub fn equal_ways(&self, source: HostId, target: HostId, most: usize) -> Vec<Vec<LinkId>> {
        let between = match &self.kind {
            Kind::Grid(grid) => {
                let mut path = Vec::new();
                let switches = [source, target].map(|host| grid.host_switch(host));
                grid.route(switches[0], switches[1], &mut path);
                vec![path]
            }
            Kind::Tree(tree) => tree.equal_ways(source, target, most),
            Kind::LeafSpine(tree) => tree.equal_ways(source, target, most),
            Kind::Graph(graph) => graph.equal_ways(source, target, most),
        };
        let with_hosts = |path: Vec<LinkId>| {
            let mut whole = vec![self.host_up(source)];
            whole.extend(path);
            whole.push(self.host_down(target));
            whole
        };
        between.into_iter().take(most).map(with_hosts).collect()
    }

    /// Whether flows between the same two hosts may take different paths.
    #[must_use]
    #[inline]
    pub fn has_equal_paths(&self) -> bool {
        matches!(&self.kind, Kind::Graph(graph) if graph.has_equal_paths())
    }

    /// How messages choose between equally good links; none in a network that is routed by rule.
    #[must_use]
    pub fn equal_paths(&self) -> Option<EqualPaths> {
        match &self.kind {
            Kind::Graph(graph) => Some(graph.equal_paths()),
            Kind::Grid(_) | Kind::Tree(_) | Kind::LeafSpine(_) => None,
        }
    }

    /// Links that [`Topology::route`] appends; none if there is no way.
    #[must_use]
    pub fn path_length(&self, source: HostId, target: HostId) -> Option<u32> {
        match &self.kind {
            Kind::Grid(grid) => {
                Some(grid.distance(grid.host_switch(source), grid.host_switch(target)) + 2)
            }
            Kind::Tree(tree) => Some(tree.distance(source, target) + 2),
            Kind::LeafSpine(tree) => Some(tree.distance(source, target) + 2),
            Kind::Graph(graph) => Some(graph.distance(source, target)? + 2),
        }
    }

    /// The nodes that a link leads from and to.
    #[must_use]
    pub fn link_ends(&self, link: LinkId) -> (Node, Node) {
        let hosts = self.host_count();
        if link.0 < hosts {
            let host = HostId(link.0);
            return (Node::Host(host), Node::Switch(self.host_switch(host)));
        }
        let Some(index) = link.0.checked_sub(2 * hosts) else {
            let host = HostId(link.0 - hosts);
            return (Node::Switch(self.host_switch(host)), Node::Host(host));
        };
        let (source, target) = match &self.kind {
            Kind::Grid(grid) => grid.link_ends(index),
            Kind::Tree(tree) => tree.link_ends(index),
            Kind::LeafSpine(tree) => tree.link_ends(index),
            Kind::Graph(graph) => graph.link_ends(index),
        };
        (Node::Switch(source), Node::Switch(target))
    }

    /// The name of a node: generated ones tell the place, those of a file are as given.
    #[must_use]
    pub fn node_name(&self, node: Node) -> String {
        if let Some((hosts, switches)) = self.labels().and_then(|labels| labels.names.as_ref()) {
            return match node {
                Node::Host(host) => hosts.get(host.0).to_owned(),
                Node::Switch(switch) => switches.get(switch.0).to_owned(),
            };
        }
        match (&self.kind, node) {
            (Kind::Grid(grid), Node::Host(host)) => grid.host_name(host),
            (Kind::Grid(grid), Node::Switch(switch)) => grid.switch_name(switch),
            (Kind::Tree(tree), Node::Host(host)) => tree.host_name(host),
            (Kind::Tree(tree), Node::Switch(switch)) => tree.switch_name(switch),
            (Kind::LeafSpine(_), Node::Host(host)) => LeafSpine::host_name(host),
            (Kind::LeafSpine(tree), Node::Switch(switch)) => tree.switch_name(switch),
            (Kind::Graph(graph), Node::Host(host)) => graph.host_name(host).to_owned(),
            (Kind::Graph(graph), Node::Switch(switch)) => graph.switch_name(switch).to_owned(),
        }
    }

    /// The name of a link: `s3-4 -> s4-4`.
    #[must_use]
    pub fn link_name(&self, link: LinkId) -> String {
        let (source, target) = self.link_ends(link);
        format!("{} -> {}", self.node_name(source), self.node_name(target))
    }

    /// The rate that a file gives a link of its own, in bits a second.
    #[must_use]
    pub fn link_rate_bits_per_second(&self, link: LinkId) -> Option<f64> {
        match &self.kind {
            Kind::Grid(_) | Kind::Tree(_) | Kind::LeafSpine(_) => {
                self.labels()?.attributes.rate(link.0 as usize)
            }
            Kind::Graph(graph) => graph.rate(link),
        }
    }

    /// The latency that a file gives a link of its own, in picoseconds.
    #[must_use]
    pub fn link_latency_picoseconds(&self, link: LinkId) -> Option<u64> {
        match &self.kind {
            Kind::Grid(_) | Kind::Tree(_) | Kind::LeafSpine(_) => {
                self.labels()?.attributes.latency(link.0 as usize)
            }
            Kind::Graph(graph) => graph.latency(link),
        }
    }

    /// What a file or a program says of a link.
    #[must_use]
    pub fn link_attributes(&self, link: LinkId) -> LinkAttributes {
        LinkAttributes {
            rate_bits_per_second: self.link_rate_bits_per_second(link),
            latency_picoseconds: self.link_latency_picoseconds(link),
        }
    }

    /// Whether its links are given one way each, as those of a directed graph are.
    #[must_use]
    pub fn is_directed(&self) -> bool {
        matches!(&self.kind, Kind::Graph(graph) if graph.is_directed())
    }

    /// Whether switches may have several links between them.
    #[must_use]
    pub fn is_multigraph(&self) -> bool {
        matches!(&self.kind, Kind::Graph(graph) if graph.is_multigraph())
    }

    /// Attributes of a file that mean nothing here, with how often they were met.
    #[must_use]
    pub fn unused_attributes(&self) -> &[(String, u32)] {
        match (&self.kind, self.labels()) {
            (Kind::Graph(graph), _) => graph.unused_attributes(),
            (_, Some(labels)) => &labels.unused_attributes,
            (_, None) => &[],
        }
    }

    /// Bytes of routing tables: two for each target and switch of a graph, none if generated.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Grid(_) | Kind::Tree(_) | Kind::LeafSpine(_) => 0,
            Kind::Graph(graph) => graph.table_bytes(),
        }
    }

    /// Bytes that the topology takes in all, tables and names included.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let heap = match &self.kind {
            Kind::Grid(grid) => {
                size_of_val(grid.dimensions()) as u64 + size_of_val(grid.sizes()) as u64
            }
            Kind::Tree(tree) => tree.memory_bytes(),
            Kind::LeafSpine(_) => 0,
            Kind::Graph(graph) => size_of::<Graph>() as u64 + graph.memory_bytes(),
        };
        let labels = self.labels().map_or(0, |labels| {
            size_of::<Labels>() as u64 + labels.memory_bytes()
        });
        size_of::<Self>() as u64 + heap + labels
    }

    /// Switches in each dimension of a chain, mesh or torus.
    #[must_use]
    pub fn dimensions(&self) -> Option<&[u32]> {
        match &self.kind {
            Kind::Grid(grid) => Some(grid.sizes()),
            Kind::Tree(_) | Kind::LeafSpine(_) | Kind::Graph(_) => None,
        }
    }

    /// Hosts at a switch that has any, in a generated topology.
    #[must_use]
    pub fn hosts_per_switch(&self) -> Option<u32> {
        match &self.kind {
            Kind::Grid(grid) => Some(grid.hosts_per_switch()),
            Kind::Tree(tree) => Some(tree.shape().arity),
            Kind::LeafSpine(_) | Kind::Graph(_) => None,
        }
    }

    /// Ports of a switch of a generated topology, where all have the same.
    #[must_use]
    pub fn ports(&self) -> Option<Ports> {
        match &self.kind {
            Kind::Grid(grid) => Some(grid.ports()),
            Kind::Tree(tree) => Some(tree.ports()),
            Kind::LeafSpine(_) | Kind::Graph(_) => None,
        }
    }

    /// Ports of a switch, where they are said.
    #[must_use]
    pub fn switch_ports(&self, switch: SwitchId) -> Option<u32> {
        match &self.kind {
            Kind::Graph(graph) => return graph.switch_ports(switch),
            Kind::LeafSpine(tree) => return Some(tree.switch_ports(switch)),
            Kind::Grid(_) | Kind::Tree(_) => {}
        }
        match self.labels().map(|labels| &*labels.switch_ports) {
            Some([]) | None => {
                let ports = self.ports().map(|ports| ports.0);
                ports.filter(|&ports| ports != u32::MAX)
            }
            Some(ports) => ports[switch.0 as usize],
        }
    }

    /// Whether routes follow the rule of a generated network, and no tables.
    #[must_use]
    pub fn is_routed_by_rule(&self) -> bool {
        !matches!(self.kind, Kind::Graph(_))
    }

    /// Whether nothing but its measures and the ports of its switches makes it: a generated
    /// network, or a graph that is one to the last name.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        self.is_routed_by_rule() && self.labels.is_none()
    }

    /// Whether routes follow a rule and no link has a rate or latency of its own: then all links of
    /// a class cost the same.
    #[must_use]
    pub fn are_links_alike(&self) -> bool {
        let labels = self.labels();
        self.is_routed_by_rule() && labels.is_none_or(|labels| labels.attributes.is_empty())
    }

    /// The measures of the generated network that it is, or that rules its routes.
    #[must_use]
    pub fn plan(&self) -> Option<Plan<'_>> {
        Some(match &self.kind {
            Kind::Grid(grid) => {
                let each = grid.hosts_per_switch();
                match grid.shape() {
                    Shape::SingleSwitch => Plan::SingleSwitch { hosts: each },
                    Shape::Chain => Plan::Chain {
                        switches: grid.switch_count(),
                        hosts: match grid.has_hosts_at_ends_only() {
                            true => ChainHosts::Ends(each),
                            false => ChainHosts::EverySwitch(each),
                        },
                    },
                    Shape::Mesh => Plan::Mesh {
                        dimensions: grid.sizes(),
                        hosts_per_switch: each,
                    },
                    Shape::Torus => Plan::Torus {
                        dimensions: grid.sizes(),
                        hosts_per_switch: each,
                    },
                }
            }
            Kind::Tree(tree) => Plan::FatTree(tree.shape()),
            Kind::LeafSpine(tree) => {
                let (hosts, hosts_per_leaf, spines) = tree.measures();
                Plan::LeafSpine {
                    hosts,
                    hosts_per_leaf,
                    spines,
                }
            }
            Kind::Graph(_) => return None,
        })
    }

    pub(crate) fn labels(&self) -> Option<&Labels> {
        self.labels.as_deref()
    }

    /// Straight directions: two for each dimension of a chain, mesh or torus, otherwise none.
    ///
    /// Direction 2 d is the positive one of dimension d, 2 d + 1 the negative.
    #[must_use]
    pub fn directions(&self) -> u32 {
        self.dimensions().map_or(0, |sizes| 2 * sizes.len() as u32)
    }

    /// The corresponding host of the switch that is `hops` switches away in a straight direction.
    ///
    /// The corresponding host has the same number among its switch's hosts. None if there is no
    /// such direction, if a mesh or chain ends before, if the dimension has only one switch, or if
    /// that switch of a chain has no host. Rings of a torus close: where the straight line is
    /// longer than the way back, the route is the way back.
    #[must_use]
    pub fn straight_line(&self, host: HostId, direction: u32, hops: u32) -> Option<HostId> {
        match &self.kind {
            Kind::Grid(grid) => grid.straight_line(host, direction, hops),
            Kind::Tree(_) | Kind::LeafSpine(_) | Kind::Graph(_) => None,
        }
    }

    /// The corresponding hosts one hop away in each straight direction; none twice.
    pub fn neighbours(&self, host: HostId) -> impl Iterator<Item = HostId> + '_ {
        (0..self.directions())
            .filter(|&direction| match &self.kind {
                Kind::Grid(grid) => !grid.repeats_direction(direction),
                Kind::Tree(_) | Kind::LeafSpine(_) | Kind::Graph(_) => false,
            })
            .filter_map(move |direction| self.straight_line(host, direction, 1))
    }

    /// The topology in words: `torus of 16x16 switches, 4 hosts a switch`.
    #[must_use]
    pub fn description(&self) -> String {
        let hosts = |count: u32| match count {
            1 => "1 host".to_owned(),
            _ => format!("{count} hosts"),
        };
        match &self.kind {
            Kind::Grid(grid) => {
                let sizes: Vec<String> = grid.sizes().iter().map(u32::to_string).collect();
                let sizes = sizes.join("x");
                let each = hosts(grid.hosts_per_switch());
                match grid.shape() {
                    Shape::SingleSwitch => format!("one switch with {each}"),
                    Shape::Chain if grid.has_hosts_at_ends_only() => {
                        format!("chain of {sizes} switches, {each} at each end")
                    }
                    Shape::Chain => format!("chain of {sizes} switches, {each} a switch"),
                    Shape::Mesh => format!("mesh of {sizes} switches, {each} a switch"),
                    Shape::Torus => format!("torus of {sizes} switches, {each} a switch"),
                }
            }
            Kind::Tree(tree) => {
                let TreeShape { arity, levels } = tree.shape();
                let count = tree.host_count();
                format!("fat tree of {levels} levels, arity {arity}, {count} hosts")
            }
            Kind::LeafSpine(tree) => {
                let (count, each, spines) = tree.measures();
                let (count, each) = (hosts(count), hosts(each));
                format!("tree of two levels, {count}, {each} a leaf, {spines} switches above")
            }
            Kind::Graph(graph) => {
                let count = hosts(graph.host_count());
                match graph.switch_count() {
                    1 => format!("graph of 1 switch, {count}"),
                    switches => format!("graph of {switches} switches, {count}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DIMENSIONS_MAX;

    fn names(topology: &Topology, source: u32, target: u32) -> Vec<String> {
        let mut path = Vec::new();
        topology.route(HostId(source), HostId(target), &mut path);
        path.iter().map(|&link| topology.link_name(link)).collect()
    }

    #[test]
    fn study_torus_has_its_counts() {
        let torus = Topology::torus(&[16, 16], 4, Ports(8)).unwrap();
        assert_eq!(torus.host_count(), 1024);
        assert_eq!(torus.switch_count(), 256);
        assert_eq!(torus.switch_link_count(), 1024);
        assert_eq!(torus.link_count(), 1024 + 2048);
        assert_eq!(
            torus.description(),
            "torus of 16x16 switches, 4 hosts a switch"
        );
    }

    #[test]
    fn four_hop_chain_goes_straight() {
        let chain = Topology::chain(5, ChainHosts::Ends(1), Ports(2)).unwrap();
        assert_eq!(
            names(&chain, 0, 1),
            [
                "n0-0 -> s0",
                "s0 -> s1",
                "s1 -> s2",
                "s2 -> s3",
                "s3 -> s4",
                "s4 -> n4-0"
            ]
        );
        assert_eq!(
            names(&chain, 1, 0),
            [
                "n4-0 -> s4",
                "s4 -> s3",
                "s3 -> s2",
                "s2 -> s1",
                "s1 -> s0",
                "s0 -> n0-0"
            ]
        );
        assert_eq!(chain.straight_line(HostId(0), 0, 4), Some(HostId(1)));
        assert_eq!(chain.straight_line(HostId(0), 0, 3), None);
        assert_eq!(chain.straight_line(HostId(0), 0, 5), None);
        assert_eq!(chain.straight_line(HostId(1), 1, 4), Some(HostId(0)));
        assert_eq!(chain.directions(), 2);
    }

    #[test]
    fn torus_routes_first_dimension_first_and_the_shorter_way() {
        let torus = Topology::torus(&[5, 4], 1, Ports(5)).unwrap();
        // (0, 0) to (3, 2): two back in x, exactly half in y goes up.
        let target = 3 + 5 * 2;
        assert_eq!(
            names(&torus, 0, target),
            [
                "n0-0-0 -> s0-0",
                "s0-0 -> s4-0",
                "s4-0 -> s3-0",
                "s3-0 -> s3-1",
                "s3-1 -> s3-2",
                "s3-2 -> n3-2-0"
            ]
        );
    }

    #[test]
    fn fat_tree_goes_up_by_the_digits_of_the_target() {
        let tree = Topology::fat_tree(
            TreeShape {
                arity: 2,
                levels: 3,
            },
            Ports(4),
        )
        .unwrap();
        assert_eq!(
            (tree.host_count(), tree.switch_count(), tree.link_count()),
            (8, 12, 48)
        );
        // Host 0 to 5 = binary 101: port 1 at level 0, port 0 at level 1.
        assert_eq!(
            names(&tree, 0, 5),
            [
                "n0 -> s0-0",
                "s0-0 -> s1-1",
                "s1-1 -> s2-1",
                "s2-1 -> s1-3",
                "s1-3 -> s0-2",
                "s0-2 -> n5"
            ]
        );
        assert_eq!(names(&tree, 4, 5), ["n4 -> s0-2", "s0-2 -> n5"]);
        assert_eq!(names(&tree, 3, 3), ["n3 -> s0-1", "s0-1 -> n3"]);
    }

    #[test]
    fn too_few_ports_name_the_switch() {
        let error = |result: Result<Topology, TopologyError>| result.unwrap_err().to_string();
        assert_eq!(
            error(Topology::torus(&[16, 16], 4, Ports(7))),
            "switch s0-0 needs 8 ports (4 hosts, 4 switches) but has 7: \
             raise the ports of a switch to at least 8, or attach less to it"
        );
        assert!(Topology::torus(&[16, 16], 4, Ports(8)).is_ok());
        assert!(
            error(Topology::mesh(&[3, 3], 1, Ports(4)))
                .starts_with("switch s1-1 needs 5 ports (1 host, 4 switches) but has 4")
        );
        assert!(Topology::mesh(&[3, 3], 1, Ports(5)).is_ok());
        assert!(Topology::mesh(&[2, 2], 1, Ports(3)).is_ok());
        assert!(Topology::torus(&[2, 1, 3], 1, Ports(4)).is_ok());
        assert!(Topology::torus(&[2, 1, 3], 1, Ports(3)).is_err());
        assert!(
            error(Topology::chain(5, ChainHosts::Ends(1), Ports(1)))
                .starts_with("switch s0 needs 2 ports (1 host, 1 switch) but has 1")
        );
        assert!(
            error(Topology::single_switch(9, Ports(8)))
                .starts_with("switch s0 needs 9 ports (9 hosts, 0 switches) but has 8")
        );
        let tree = TreeShape {
            arity: 4,
            levels: 2,
        };
        assert!(
            error(Topology::fat_tree(tree, Ports(7)))
                .starts_with("switch s0-0 needs 8 ports (4 hosts, 4 switches) but has 7")
        );
        assert!(
            Topology::fat_tree(
                TreeShape {
                    arity: 4,
                    levels: 1
                },
                Ports(4)
            )
            .is_ok()
        );
    }

    #[test]
    fn counts_beyond_the_numbers_are_refused() {
        let ports = Ports(u32::MAX);
        assert_eq!(
            Topology::torus(&[u32::MAX, u32::MAX, u32::MAX], 1, ports)
                .unwrap_err()
                .to_string(),
            "the number of switches: 18446744073709551615 is more than the limit of 4294967294; \
             make the network smaller: links, switches and hosts have 32-bit numbers"
        );
        assert!(Topology::torus(&[1 << 30], 2, ports).is_err());
        assert!(Topology::single_switch(u32::MAX, ports).is_err());
        assert!(Topology::chain(1 << 31, ChainHosts::Ends(1), ports).is_err());
        assert!(Topology::chain((1 << 31) - 4, ChainHosts::Ends(1), ports).is_ok());
        assert!(
            Topology::fat_tree(
                TreeShape {
                    arity: 2,
                    levels: 32
                },
                ports
            )
            .is_err()
        );
        assert!(
            Topology::fat_tree(
                TreeShape {
                    arity: 2,
                    levels: 31
                },
                ports
            )
            .is_err()
        );
        assert!(
            Topology::fat_tree(
                TreeShape {
                    arity: u32::MAX,
                    levels: 2
                },
                ports
            )
            .is_err()
        );
        assert!(Topology::mesh(&[1; DIMENSIONS_MAX], 1, ports).is_ok());
        assert!(Topology::mesh(&[1; DIMENSIONS_MAX + 1], 1, ports).is_err());
        for sizes in [&[][..], &[0], &[4, 0]] {
            assert!(Topology::mesh(sizes, 1, ports).is_err());
        }
        assert_eq!(
            Topology::mesh(&[2], 0, ports).unwrap_err().to_string(),
            "the number of hosts at a switch is 0, but must be at least 1"
        );
        assert!(
            Topology::fat_tree(
                TreeShape {
                    arity: 1,
                    levels: 2
                },
                ports
            )
            .is_err()
        );
        assert!(
            Topology::fat_tree(
                TreeShape {
                    arity: 2,
                    levels: 0
                },
                ports
            )
            .is_err()
        );
    }

    #[test]
    fn million_hosts_have_their_counts() {
        let torus = Topology::torus(&[512, 512], 4, Ports(8)).unwrap();
        assert_eq!(torus.host_count(), 1 << 20);
        assert_eq!(torus.link_count(), 3 << 20);
        let target = torus.straight_line(HostId(3), 3, 4).unwrap();
        assert_eq!(torus.node_name(Node::Host(target)), "n0-508-3");
        assert_eq!(torus.path_length(HostId(3), target), Some(6));
    }

    #[test]
    fn neighbours_are_corresponding_hosts_and_none_twice() {
        let torus = Topology::torus(&[2, 3, 1], 2, Ports(8)).unwrap();
        let neighbours: Vec<u32> = torus.neighbours(HostId(1)).map(|host| host.0).collect();
        // Host 1 of switch (0, 0): switch (1, 0), then (0, 1) and (0, 2).
        assert_eq!(neighbours, [3, 5, 9]);
        let mesh = Topology::mesh(&[3, 3], 1, Ports(8)).unwrap();
        let neighbours: Vec<u32> = mesh.neighbours(HostId(0)).map(|host| host.0).collect();
        assert_eq!(neighbours, [1, 3]);
        let tree = Topology::fat_tree(
            TreeShape {
                arity: 2,
                levels: 2,
            },
            Ports(4),
        )
        .unwrap();
        assert_eq!(tree.neighbours(HostId(0)).count(), 0);
    }
}
