//! The network as the rest of the program sees it.
//!
//! Each kind of network has a file of its own and answers there what follows from its measures:
//! [`crate::generated::Generated`]. Here is what holds for all, and what a graph from a file has
//! besides.

mod make;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clos::Clos;
use crate::dragonfly::Dragonfly;
use crate::dragonfly_plus::DragonflyPlus;
use crate::flow::{Choice, Detours, EqualPaths, FlowKey};
use crate::generated::{Generated, walk};
use crate::graph::Graph;
use crate::grid::Grid;
use crate::hyperx::HyperX;
use crate::leaf_spine::LeafSpine;
use crate::parts::LinkAttributes;
use crate::polar_fly::PolarFly;
use crate::rule::Labels;
use crate::slim_fly::SlimFly;
use crate::tree::Tree;
use crate::{HostId, LinkClass, LinkId, Node, Ports, SwitchId};

pub use plan::Plan;
pub(crate) use plan::described;

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
    /// Of a network that is routed by rule. A graph has its choices in its tables.
    equal_paths: EqualPaths,
    /// What goes to a host by chance first.
    detours: Detours,
    /// Rates of some links, in bits a second, whatever a file says of them.
    rates: BTreeMap<LinkId, f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Grid(Grid),
    Tree(Tree),
    LeafSpine(LeafSpine),
    Clos(Clos),
    Dragonfly(Dragonfly),
    DragonflyPlus(DragonflyPlus),
    HyperX(HyperX),
    SlimFly(Arc<SlimFly>),
    PolarFly(Arc<PolarFly>),
    Graph(Box<Graph>),
}

/// The same expression for each kind of network.
macro_rules! of_each {
    ($kind:expr, $network:ident => $value:expr) => {
        match $kind {
            Kind::Grid($network) => $value,
            Kind::Tree($network) => $value,
            Kind::LeafSpine($network) => $value,
            Kind::Clos($network) => $value,
            Kind::Dragonfly($network) => $value,
            Kind::DragonflyPlus($network) => $value,
            Kind::HyperX($network) => $value,
            Kind::SlimFly($network) => $value,
            Kind::PolarFly($network) => $value,
            Kind::Graph($network) => $value,
        }
    };
}

mod steps;

impl Kind {
    /// What follows a rule; none of a graph.
    pub(crate) fn generated(&self) -> Option<&dyn Generated> {
        Some(match self {
            Self::Grid(network) => network,
            Self::Tree(network) => network,
            Self::LeafSpine(network) => network,
            Self::Clos(network) => network,
            Self::Dragonfly(network) => network,
            Self::DragonflyPlus(network) => network,
            Self::HyperX(network) => network,
            Self::SlimFly(network) => &**network,
            Self::PolarFly(network) => &**network,
            Self::Graph(_) => return None,
        })
    }

    fn graph(&self) -> Option<&Graph> {
        match self {
            Self::Graph(graph) => Some(graph),
            _ => None,
        }
    }
}

impl Topology {
    /// A network of this kind, with nothing of its own.
    pub(crate) fn of(kind: Kind) -> Self {
        let usual = kind.generated().map(Generated::usual_paths);
        Self {
            kind,
            labels: None,
            equal_paths: usual.unwrap_or_default(),
            detours: Detours::Never,
            rates: BTreeMap::new(),
        }
    }

    /// The same without what a graph has of its own.
    pub(crate) fn without_labels(mut self) -> Self {
        self.labels = None;
        self
    }

    /// Hosts.
    #[must_use]
    #[inline]
    pub fn host_count(&self) -> u32 {
        of_each!(&self.kind, network => network.host_count())
    }

    /// Switches.
    #[must_use]
    pub fn switch_count(&self) -> u32 {
        of_each!(&self.kind, network => network.switch_count())
    }

    /// Directed links, those of the hosts included.
    #[must_use]
    pub fn link_count(&self) -> u32 {
        2 * self.host_count() + self.switch_link_count()
    }

    /// Directed links between switches.
    #[must_use]
    pub fn switch_link_count(&self) -> u32 {
        of_each!(&self.kind, network => network.switch_link_count())
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
            Kind::Tree(tree) => tree.link_class(index),
            Kind::LeafSpine(tree) => tree.link_class(index),
            Kind::Clos(tree) => tree.link_class(index),
            _ => LinkClass::Mesh,
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
        of_each!(&self.kind, network => network.host_switch(host))
    }

    /// Appends the directed links from `source` to `target`, host links included, in order: those
    /// of flow 0, as [`Topology::route_flow`] does, but without its detour.
    #[inline]
    pub fn route<L: From<LinkId>>(&self, source: HostId, target: HostId, path: &mut Vec<L>) {
        self.route_straight(source, target, 0, path);
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
        if self.detours == Detours::Always && !self.equal_paths().is_by_frame() {
            self.route_around(source, target, flow, path);
        } else {
            self.route_straight(source, target, flow, path);
        }
    }

    #[inline]
    fn route_straight<L: From<LinkId>>(
        &self,
        source: HostId,
        target: HostId,
        flow: u32,
        path: &mut Vec<L>,
    ) {
        path.push(self.host_up(source).into());
        if self.route_between(source, target, flow, path) {
            path.push(self.host_down(target).into());
        } else {
            path.pop();
        }
    }

    /// The host over whose switch a detour goes, by chance: of a flow, or a frame of this number.
    #[must_use]
    pub fn detour_host(&self, source: HostId, target: HostId, number: u32) -> HostId {
        /// No switch has this number: the choice is another than any of theirs.
        const NO_SWITCH: u32 = u32::MAX;

        let key = FlowKey::new(source, target, number);
        HostId(key.choose(NO_SWITCH, self.host_count() as usize) as u32)
    }

    /// Over the switch of a host by chance, which the flow decides; hosts of one switch need none.
    fn route_around<L: From<LinkId>>(
        &self,
        source: HostId,
        target: HostId,
        flow: u32,
        path: &mut Vec<L>,
    ) {
        if self.host_switch(source) == self.host_switch(target) {
            return self.route_straight(source, target, flow, path);
        }
        let over = self.detour_host(source, target, flow);
        let before = path.len();
        path.push(self.host_up(source).into());
        if self.route_between(source, over, flow, path)
            && self.route_between(over, target, flow, path)
        {
            path.push(self.host_down(target).into());
        } else {
            path.truncate(before);
        }
    }

    /// Appends the links between the switches of two hosts; false if there is no way.
    #[inline]
    fn route_between<L: From<LinkId>>(
        &self,
        source: HostId,
        target: HostId,
        flow: u32,
        path: &mut Vec<L>,
    ) -> bool {
        match &self.kind {
            Kind::Grid(grid) if self.equal_paths == EqualPaths::Single => {
                grid.route(grid.host_switch(source), grid.host_switch(target), path);
            }
            Kind::Tree(tree) if self.equal_paths == EqualPaths::Single => {
                tree.route(source, target, path);
            }
            Kind::LeafSpine(tree) if self.equal_paths == EqualPaths::Single => {
                tree.route(source, target, path);
            }
            Kind::Graph(graph) => return graph.route(source, target, flow, path),
            _ => self.route_by_steps(source, target, flow, path),
        }
        true
    }

    /// As a rule's choices at each switch say.
    fn route_by_steps<L: From<LinkId>>(
        &self,
        source: HostId,
        target: HostId,
        flow: u32,
        path: &mut Vec<L>,
    ) {
        let choice = match self.equal_paths {
            EqualPaths::Single => Choice::Fixed,
            _ => Choice::Of(FlowKey::new(source, target, flow)),
        };
        let from = self.host_switch(source);
        match &self.kind {
            Kind::Grid(network) => walk(network, from, target, choice, path),
            Kind::Tree(network) => walk(network, from, target, choice, path),
            Kind::LeafSpine(network) => walk(network, from, target, choice, path),
            Kind::Clos(network) => walk(network, from, target, choice, path),
            Kind::Dragonfly(network) => walk(network, from, target, choice, path),
            Kind::DragonflyPlus(network) => walk(network, from, target, choice, path),
            Kind::HyperX(network) => walk(network, from, target, choice, path),
            Kind::SlimFly(network) => walk(&**network, from, target, choice, path),
            Kind::PolarFly(network) => walk(&**network, from, target, choice, path),
            Kind::Graph(_) => {}
        }
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
        let between = of_each!(&self.kind, network => network.equal_ways(source, target, most));
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
        let spreads = match &self.kind {
            Kind::Graph(graph) => graph.has_equal_paths(),
            _ => self.equal_paths != EqualPaths::Single,
        };
        spreads || self.has_detours()
    }

    /// Whether messages go to the switch of a host by chance first, or some of their frames do.
    #[must_use]
    pub fn has_detours(&self) -> bool {
        self.detours != Detours::Never
    }

    /// Which do.
    #[must_use]
    pub fn detours(&self) -> Detours {
        self.detours
    }

    /// Whether the frames of one message take different ways.
    #[must_use]
    pub fn spreads_frames(&self) -> bool {
        self.equal_paths().is_by_frame() || self.detours.are_by_queues()
    }

    /// How messages choose between equally good links.
    #[must_use]
    pub fn equal_paths(&self) -> EqualPaths {
        let graph = self.kind.graph();
        graph.map_or(self.equal_paths, Graph::equal_paths)
    }

    /// Whether its rule chooses otherwise between equally good links where nothing is said.
    #[must_use]
    pub fn has_unusual_paths(&self) -> bool {
        let usual = self.kind.generated().map(Generated::usual_paths);
        usual.is_some_and(|usual| usual != self.equal_paths)
    }

    /// Whether its links tell what it is: [`crate::GraphRouting::Rule`] finds it.
    pub(crate) fn is_recognised(&self) -> bool {
        matches!(self.kind, Kind::Grid(_) | Kind::Tree(_)) && !self.has_unusual_paths()
    }

    /// Links that [`Topology::route`] appends; none if there is no way.
    #[must_use]
    pub fn path_length(&self, source: HostId, target: HostId) -> Option<u32> {
        let between = match &self.kind {
            Kind::Graph(graph) => graph.distance(source, target)?,
            rule => rule.generated()?.distance(source, target),
        };
        Some(between + 2)
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
        let (source, target) = of_each!(&self.kind, network => network.link_ends(index));
        (Node::Switch(source), Node::Switch(target))
    }

    /// Whether a link between switches stands for both directions in an undirected graph.
    pub(crate) fn is_first_of_pair(&self, link: LinkId) -> bool {
        let index = link.0 - 2 * self.host_count();
        match self.kind.generated() {
            Some(network) => network.is_first_of_pair(index),
            // Pairs of links with opposite directions follow one another.
            None => index.is_multiple_of(2),
        }
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
            (Kind::Graph(graph), Node::Host(host)) => graph.host_name(host).to_owned(),
            (Kind::Graph(graph), Node::Switch(switch)) => graph.switch_name(switch).to_owned(),
            (rule, node) => match (rule.generated(), node) {
                (Some(network), Node::Host(host)) => network.host_name(host),
                (Some(network), Node::Switch(switch)) => network.switch_name(switch),
                (None, _) => String::new(),
            },
        }
    }

    /// The name of a link: `s3-4 -> s4-4`.
    #[must_use]
    pub fn link_name(&self, link: LinkId) -> String {
        let (source, target) = self.link_ends(link);
        format!("{} -> {}", self.node_name(source), self.node_name(target))
    }

    /// The same with rates of its own for some links, in bits a second.
    #[must_use]
    pub fn with_link_rates(self, rates: BTreeMap<LinkId, f64>) -> Self {
        Self { rates, ..self }
    }

    /// The rate that a link has of its own, by a file or by [`Topology::with_link_rates`], in bits
    /// a second.
    #[must_use]
    pub fn link_rate_bits_per_second(&self, link: LinkId) -> Option<f64> {
        if let Some(rate) = self.rates.get(&link) {
            return Some(*rate);
        }
        match &self.kind {
            Kind::Graph(graph) => graph.rate(link),
            _ => self.labels()?.attributes.rate(link.0 as usize),
        }
    }

    /// The latency that a file gives a link of its own, in picoseconds.
    #[must_use]
    pub fn link_latency_picoseconds(&self, link: LinkId) -> Option<u64> {
        match &self.kind {
            Kind::Graph(graph) => graph.latency(link),
            _ => self.labels()?.attributes.latency(link.0 as usize),
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
        self.kind.graph().is_some_and(Graph::is_directed)
    }

    /// Whether switches may have several links between them.
    #[must_use]
    pub fn is_multigraph(&self) -> bool {
        match &self.kind {
            Kind::Graph(graph) => graph.is_multigraph(),
            rule => rule.generated().is_some_and(Generated::is_multigraph),
        }
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
        self.kind.graph().map_or(0, Graph::table_bytes)
    }

    /// Bytes that the topology takes in all, tables and names included.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let heap = match &self.kind {
            Kind::Graph(graph) => size_of::<Graph>() as u64 + graph.memory_bytes(),
            rule => rule.generated().map_or(0, Generated::heap_bytes),
        };
        let labels = self.labels().map_or(0, |labels| {
            size_of::<Labels>() as u64 + labels.memory_bytes()
        });
        size_of::<Self>() as u64 + heap + labels
    }

    /// Switches in each dimension of a chain, mesh or torus.
    #[must_use]
    pub fn dimensions(&self) -> Option<&[u32]> {
        self.kind.generated()?.dimensions()
    }

    /// Hosts at a switch that has any, of a chain, mesh, torus or fat tree.
    #[must_use]
    pub fn hosts_per_switch(&self) -> Option<u32> {
        self.kind.generated()?.hosts_per_switch()
    }

    /// Ports of a switch of a generated topology, where all have the same.
    #[must_use]
    pub fn ports(&self) -> Option<Ports> {
        self.kind.generated()?.ports()
    }

    /// Ports of a switch, where they are said.
    #[must_use]
    pub fn switch_ports(&self, switch: SwitchId) -> Option<u32> {
        if let Some(graph) = self.kind.graph() {
            return graph.switch_ports(switch);
        }
        let of_rule = self.kind.generated()?.switch_ports(switch);
        if of_rule.is_some() {
            return of_rule;
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
        self.kind.graph().is_none()
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
        self.is_routed_by_rule()
            && self.rates.is_empty()
            && labels.is_none_or(|labels| labels.attributes.is_empty())
    }

    /// The measures of the generated network that it is, or that rules its routes.
    #[must_use]
    pub fn plan(&self) -> Option<Plan<'_>> {
        Some(self.kind.generated()?.plan())
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
            _ => None,
        }
    }

    /// The corresponding hosts one hop away in each straight direction; none twice.
    pub fn neighbours(&self, host: HostId) -> impl Iterator<Item = HostId> + '_ {
        (0..self.directions())
            .filter(|&direction| match &self.kind {
                Kind::Grid(grid) => !grid.repeats_direction(direction),
                _ => false,
            })
            .filter_map(move |direction| self.straight_line(host, direction, 1))
    }

    /// The topology in words: `torus of 16x16 switches, 4 hosts a switch`.
    #[must_use]
    pub fn description(&self) -> String {
        of_each!(&self.kind, network => network.description())
    }
}
