//! Generated networks, made from their measures.

use std::sync::Arc;

use crate::clos::{Clos, ClosShape};
use crate::dragonfly::{Dragonfly, DragonflyShape};
use crate::dragonfly_plus::DragonflyPlus;
use crate::error::TopologyError;
use crate::flow::Detours;
use crate::grid::{Grid, Shape, within};
use crate::hyperx::HyperX;
use crate::jellyfish::{self, JellyfishShape};
use crate::leaf_spine::{LeafSpine, RailShape};
use crate::polar_fly::PolarFly;
use crate::slim_fly::SlimFly;
use crate::topology::Kind;
use crate::tree::Tree;
use crate::{ChainHosts, EqualPaths, Ports, Topology, TreeShape, up_down};

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
        Ok(Self::of(Kind::Tree(Tree::new(shape, ports)?)))
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
        Ok(Self::of(Kind::LeafSpine(tree)))
    }

    /// A dragonfly: groups whose switches are all joined to each other, and each group to each
    /// other.
    ///
    /// Switch i of group g is `s<g>-<i>`, its hosts `n<g>-<i>-0` and so on. Of the links of a group
    /// to others each other group gets as many; those that are left over stay unused. Routes go at
    /// most once from group to group.
    ///
    /// # Errors
    ///
    /// None of something, more groups than a group has links and one, or more of anything than has
    /// numbers.
    pub fn dragonfly(shape: DragonflyShape) -> Result<Self, TopologyError> {
        let network = Dragonfly::new(shape)?;
        Ok(Self::of(Kind::Dragonfly(network)))
    }

    /// A dragonfly whose groups are trees of two levels (dragonfly+, megafly), of switches with
    /// `radix` ports, half of them to either side; as many groups as can be joined, if they are not
    /// said.
    ///
    /// Switches are `leaf<g>-<i>` and `spine<g>-<i>`, hosts `n<g>-<leaf>-<i>`.
    ///
    /// # Errors
    ///
    /// An odd number of ports, more groups than can be joined, or more of anything than has
    /// numbers.
    pub fn dragonfly_plus(radix: u32, groups: Option<u32>) -> Result<Self, TopologyError> {
        let network = DragonflyPlus::new(radix, groups)?;
        Ok(Self::of(Kind::DragonflyPlus(network)))
    }

    /// A HyperX: a grid in which all switches of a line are joined to each other. Names are as in
    /// [`Topology::mesh`].
    ///
    /// # Errors
    ///
    /// No dimension or an empty one, no host, or more of anything than has numbers.
    pub fn hyperx(dimensions: &[u32], hosts_per_switch: u32) -> Result<Self, TopologyError> {
        let network = HyperX::new(dimensions, hosts_per_switch)?;
        Ok(Self::of(Kind::HyperX(network)))
    }

    /// A Slim Fly: 2 q x q switches at most two links apart, over a field of q elements, with half
    /// as many hosts as links to others at each, rounded up, if these are not said.
    ///
    /// Switches are `s<side>-<column>-<row>`, hosts `n<side>-<column>-<row>-<i>`.
    ///
    /// # Errors
    ///
    /// An order that is no prime power of the form 4 w - 1, 4 w or 4 w + 1, or is above
    /// [`crate::ORDER_MAX`]; no host.
    pub fn slim_fly(order: u32, hosts_per_switch: Option<u32>) -> Result<Self, TopologyError> {
        let network = SlimFly::new(order, hosts_per_switch)?;
        Ok(Self::of(Kind::SlimFly(Arc::new(network))))
    }

    /// A PolarFly: q q + q + 1 switches at most two links apart, over a field of q elements, with
    /// half as many hosts as links to others at each, rounded up, if these are not said.
    ///
    /// Switches are `s<x>-<y>-<z>`, the points of the projective plane, hosts
    /// `n<x>-<y>-<z>-<i>`.
    ///
    /// # Errors
    ///
    /// An order that is no prime power or is above [`crate::ORDER_MAX`]; no host.
    pub fn polar_fly(order: u32, hosts_per_switch: Option<u32>) -> Result<Self, TopologyError> {
        let network = PolarFly::new(order, hosts_per_switch)?;
        Ok(Self::of(Kind::PolarFly(Arc::new(network))))
    }

    /// A tree of two or three levels of switches with the same number of ports (a folded Clos
    /// network): with two it is a [`Topology::leaf_spine`] whose switches are full, with three what
    /// is sold as a fat tree of k-port switches, k/2 of them to a pod and level.
    ///
    /// Flows are spread over the equal ways. Names of three levels are `edge<pod>-<i>`,
    /// `agg<pod>-<i>`, `core<i>-<j>` and `n<pod>-<edge>-<i>`.
    ///
    /// # Errors
    ///
    /// Ports that cannot be shared so, other than two or three tiers, more pods than ports, or more
    /// of anything than has numbers.
    pub fn clos(shape: ClosShape) -> Result<Self, TopologyError> {
        match shape.tiers {
            3 => Ok(Self::of(Kind::Clos(Clos::new(shape)?))),
            2 => {
                let (up, down) = shape.edge()?;
                let hosts = u64::from(down) * u64::from(shape.pods()?);
                let hosts = within("the number of hosts", hosts)? as u32;
                let tree = Self::leaf_spine(hosts, down, up)?;
                Ok(tree.with_equal_paths(EqualPaths::Hash))
            }
            tiers => Err(TopologyError::NoSuchSize {
                what: "the number of tiers",
                size: u64::from(tiers),
                rule: "a tree of equal switches has two or three".to_owned(),
                nearest: vec![2, 3],
            }),
        }
    }

    /// A network with rails: servers with several adapters, and those of one number of all servers
    /// of a unit at one leaf; above the leaves a spine as in [`Topology::leaf_spine`].
    ///
    /// Each adapter is a host here: adapter r of server s is host s * rails + r, `n<s>-<r>`; leaves
    /// are `leaf<unit>-<r>`. Flows are spread over the switches of the spine.
    ///
    /// # Errors
    ///
    /// None of something, or more of anything than has numbers.
    pub fn rail(shape: RailShape) -> Result<Self, TopologyError> {
        let network = LeafSpine::rail(shape)?;
        Ok(Self::of(Kind::LeafSpine(network)))
    }

    /// The same network with flows that choose so between equal ways; a graph has them in its
    /// tables and stays as it is.
    #[must_use]
    pub fn with_equal_paths(mut self, equal_paths: EqualPaths) -> Self {
        self.equal_paths = equal_paths;
        self
    }

    /// The same graph with routes that go up and then down again, so that links never wait for each
    /// other in a ring; up is away from the hosts. Trees by rule have no other routes.
    ///
    /// # Errors
    ///
    /// A network whose rule has other routes; tables beyond [`crate::ROUTE_TABLE_BYTES_MAX`].
    pub fn with_up_down(mut self) -> Result<Self, TopologyError> {
        match &mut self.kind {
            Kind::Graph(graph) => up_down::apply(graph)?,
            Kind::Tree(_) | Kind::LeafSpine(_) | Kind::Clos(_) => {}
            _ => {
                return Err(TopologyError::TablesForGenerated {
                    topology: self.description(),
                });
            }
        }
        Ok(self)
    }

    /// The same network in which messages, or some of their frames, go to the switch of a host by
    /// chance first, and from there to their target.
    #[must_use]
    pub fn with_detours(mut self, detours: Detours) -> Self {
        self.detours = detours;
        self
    }

    /// A random regular graph (a jellyfish), the same for the same seed, with routes along its
    /// shortest paths, which tables hold.
    ///
    /// Switch i is `s<i>`, its hosts are `n<i>-0`, `n<i>-1` and so on.
    ///
    /// # Errors
    ///
    /// No host, counts between which there is no connected graph, or tables beyond
    /// [`crate::ROUTE_TABLE_BYTES_MAX`].
    pub fn jellyfish(
        shape: JellyfishShape,
        equal_paths: EqualPaths,
    ) -> Result<Self, TopologyError> {
        Self::by_shortest_path(jellyfish::parts(shape)?, equal_paths)
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
        let grid = Grid::new(shape, sizes, hosts, ports)?;
        Ok(Self::of(Kind::Grid(grid)))
    }
}
