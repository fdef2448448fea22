//! Trees of two levels: leaf switches with hosts, each joined to every switch of the spine, by
//! arithmetic.
//!
//! ```text
//! switches                 leaves first, then the spine
//! links between switches   first + 2 * (leaf * spines + spine), and the way down behind it
//! ```
//!
//! Host h is at leaf h / hosts of a leaf; the last leaf may have fewer. Names are `host0`, `leaf0`,
//! `spine0` and so on. A route to a host goes over the switch of the spine whose number is the
//! host's modulo their count, so that all traffic to one host comes down one link.
//!
//! With rails a host stands for an adapter of a server, and the adapters of one number of all
//! servers of a unit are at one leaf: adapter r of server s is host s * rails + r, `n<s>-<r>`, at
//! leaf `leaf<unit>-<r>`.

use crate::divider::Divider;
use crate::error::TopologyError;
use crate::generated::{Generated, Step, at_least_one, hosts_in_words};
use crate::grid::within;
use crate::{EqualPaths, HostId, LinkClass, LinkId, Plan, SwitchId};

/// A tree of two levels.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LeafSpine {
    hosts: u32,
    by_leaf: Divider,
    hosts_per_leaf: u32,
    leaves: u32,
    spines: u32,
    /// 1 without rails.
    rails: u32,
    /// Hosts of a unit: one leaf of each rail.
    by_unit: Divider,
    by_rails: Divider,
}

/// The measures of a network with a rail for each adapter of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RailShape {
    /// Adapters of a server, each a host of its own here, and leaves of a unit.
    pub rails: u32,
    /// Servers, the last unit perhaps not full of them.
    pub servers: u32,
    /// Servers of a unit, and hosts of a leaf.
    pub servers_per_unit: u32,
    /// Switches above the leaves, each joined to all of them.
    pub spines: u32,
}

impl LeafSpine {
    /// Servers with an adapter on each rail.
    pub(crate) fn rail(shape: RailShape) -> Result<Self, TopologyError> {
        let RailShape {
            rails,
            servers,
            servers_per_unit,
            spines,
        } = shape;
        at_least_one("the number of rails", rails)?;
        at_least_one("the number of servers", servers)?;
        at_least_one("the number of servers of a unit", servers_per_unit)?;
        let units = u64::from(servers.div_ceil(servers_per_unit));
        let leaves = within("the number of switches", units * u64::from(rails))?;
        let hosts = u64::from(servers) * u64::from(rails);
        let hosts = within("the number of hosts", hosts)? as u32;
        // Room for all units in full, which their numbers need.
        let of_unit = u64::from(servers_per_unit) * u64::from(rails);
        let of_unit = within("the number of hosts", of_unit)? as u32;
        let mut network = Self::new(hosts, servers_per_unit, spines)?;
        network.leaves = leaves as u32;
        network.rails = rails;
        network.by_unit = Divider::new(of_unit);
        network.by_rails = Divider::new(rails);
        network.check_counts()?;
        Ok(network)
    }

    pub(crate) fn new(hosts: u32, hosts_per_leaf: u32, spines: u32) -> Result<Self, TopologyError> {
        at_least_one("the number of hosts", hosts)?;
        at_least_one("the number of hosts at a leaf", hosts_per_leaf)?;
        at_least_one("the number of switches of the spine", spines)?;
        let network = Self {
            hosts,
            by_leaf: Divider::new(hosts_per_leaf),
            hosts_per_leaf,
            leaves: hosts.div_ceil(hosts_per_leaf),
            spines,
            rails: 1,
            by_unit: Divider::new(hosts_per_leaf),
            by_rails: Divider::new(1),
        };
        network.check_counts()?;
        Ok(network)
    }

    fn check_counts(&self) -> Result<(), TopologyError> {
        let (leaves, spines) = (u64::from(self.leaves), u64::from(self.spines));
        within("the number of switches", leaves + spines)?;
        let between = leaves.saturating_mul(spines);
        let links = u64::from(self.hosts).saturating_add(between);
        within("the number of directed links", links.saturating_mul(2))?;
        Ok(())
    }

    /// Appends the links between the switches of `source` and `target`.
    #[inline]
    pub(crate) fn route<L: From<LinkId>>(&self, source: HostId, target: HostId, path: &mut Vec<L>) {
        let (from, to) = (self.host_switch(source), self.host_switch(target));
        if from != to {
            let spine = target.0 % self.spines;
            path.push(self.link(from, spine, 0).into());
            path.push(self.link(to, spine, 1).into());
        }
    }

    /// The link of a leaf to a switch of the spine, or the one down beside it.
    fn link(&self, leaf: SwitchId, spine: u32, down: u32) -> LinkId {
        LinkId(2 * self.hosts + 2 * (leaf.0 * self.spines + spine) + down)
    }
}

impl Generated for LeafSpine {
    fn host_count(&self) -> u32 {
        self.hosts
    }

    fn switch_count(&self) -> u32 {
        self.leaves + self.spines
    }

    fn switch_link_count(&self) -> u32 {
        2 * self.leaves * self.spines
    }

    fn link_class(&self, index: u32) -> LinkClass {
        match self.is_first_of_pair(index) {
            true => LinkClass::TreeUp,
            false => LinkClass::TreeDown,
        }
    }

    /// Whether it goes up.
    fn is_first_of_pair(&self, index: u32) -> bool {
        index.is_multiple_of(2)
    }

    #[inline]
    fn host_switch(&self, host: HostId) -> SwitchId {
        if self.rails == 1 {
            return SwitchId(self.by_leaf.quotient(host.0));
        }
        let rail = self.by_rails.split(host.0).1;
        SwitchId(self.by_unit.quotient(host.0) * self.rails + rail)
    }

    fn step_count(&self, at: SwitchId, _goal: SwitchId) -> u32 {
        match at.0 < self.leaves {
            true => self.spines,
            false => 1,
        }
    }

    fn step(&self, at: SwitchId, goal: SwitchId, number: u32) -> Step {
        match at.0.checked_sub(self.leaves) {
            None => Step {
                link: 2 * (at.0 * self.spines + number),
                to: SwitchId(self.leaves + number),
            },
            Some(spine) => Step {
                link: 2 * (goal.0 * self.spines + spine) + 1,
                to: goal,
            },
        }
    }

    /// By the target's number.
    fn fixed_step(&self, _at: SwitchId, target: HostId, count: u32) -> u32 {
        target.0 % count
    }

    fn distance(&self, source: HostId, target: HostId) -> u32 {
        2 * u32::from(self.host_switch(source) != self.host_switch(target))
    }

    fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        let pair = index / 2;
        let leaf = SwitchId(pair / self.spines);
        let spine = SwitchId(self.leaves + pair % self.spines);
        match self.is_first_of_pair(index) {
            true => (leaf, spine),
            false => (spine, leaf),
        }
    }

    fn switch_ports(&self, switch: SwitchId) -> Option<u32> {
        Some(match switch.0 < self.leaves {
            true => self.hosts_per_leaf + self.spines,
            false => self.leaves,
        })
    }

    fn switch_name(&self, switch: SwitchId) -> String {
        match switch.0.checked_sub(self.leaves) {
            None if self.rails > 1 => {
                format!("leaf{}-{}", switch.0 / self.rails, switch.0 % self.rails)
            }
            None => format!("leaf{}", switch.0),
            Some(spine) => format!("spine{spine}"),
        }
    }

    fn host_name(&self, host: HostId) -> String {
        match self.rails {
            1 => format!("host{}", host.0),
            rails => format!("n{}-{}", host.0 / rails, host.0 % rails),
        }
    }

    fn description(&self) -> String {
        if let Plan::Rail(shape) = self.plan() {
            let RailShape {
                rails,
                servers,
                servers_per_unit,
                spines,
            } = shape;
            return format!(
                "{rails} rails of {servers} servers, {servers_per_unit} servers a unit, {spines} \
                 switches above"
            );
        }
        let hosts = hosts_in_words(self.hosts);
        let each = hosts_in_words(self.hosts_per_leaf);
        let spines = self.spines;
        format!("tree of two levels, {hosts}, {each} a leaf, {spines} switches above")
    }

    fn plan(&self) -> Plan<'_> {
        if self.rails > 1 {
            return Plan::Rail(RailShape {
                rails: self.rails,
                servers: self.hosts / self.rails,
                servers_per_unit: self.hosts_per_leaf,
                spines: self.spines,
            });
        }
        Plan::LeafSpine {
            hosts: self.hosts,
            hosts_per_leaf: self.hosts_per_leaf,
            spines: self.spines,
        }
    }

    /// Without rails all traffic to one host comes down one link.
    fn usual_paths(&self) -> EqualPaths {
        match self.rails {
            1 => EqualPaths::Single,
            _ => EqualPaths::Hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        GraphBuilder, HostId, LinkAttributes, LinkClass, LinkId, Node, SwitchId, Topology,
    };

    /// The same tree, link by link.
    fn built(hosts: u32, hosts_per_leaf: u32, spines: u32) -> Topology {
        let mut graph = GraphBuilder::new(false, false);
        let cable = LinkAttributes::default();
        let mut leaves = Vec::new();
        for leaf in 0..hosts.div_ceil(hosts_per_leaf) {
            leaves.push(
                graph
                    .add_switch(Some(&format!("leaf{leaf}")), None)
                    .unwrap(),
            );
        }
        for host in 0..hosts {
            let leaf = leaves[(host / hosts_per_leaf) as usize];
            let host = graph.add_host(Some(&format!("host{host}"))).unwrap();
            graph
                .link(Node::Host(host), Node::Switch(leaf), cable)
                .unwrap();
        }
        let mut above = Vec::new();
        for spine in 0..spines {
            let name = format!("spine{spine}");
            above.push(graph.add_switch(Some(&name), None).unwrap());
        }
        for leaf in leaves {
            for spine in &above {
                graph
                    .link(Node::Switch(leaf), Node::Switch(*spine), cable)
                    .unwrap();
            }
        }
        graph.finish().unwrap()
    }

    #[test]
    fn arithmetic_finds_what_a_graph_has() {
        for (hosts, hosts_per_leaf, spines) in [(1, 5, 4), (5, 5, 4), (23, 5, 4), (9, 2, 3)] {
            let ours = Topology::leaf_spine(hosts, hosts_per_leaf, spines).unwrap();
            let graph = built(hosts, hosts_per_leaf, spines);
            assert_eq!(ours.host_count(), graph.host_count());
            assert_eq!(ours.switch_count(), graph.switch_count());
            assert_eq!(ours.link_count(), graph.link_count());
            for link in (0..ours.link_count()).map(LinkId) {
                assert_eq!(ours.link_ends(link), graph.link_ends(link));
                assert_eq!(ours.link_name(link), graph.link_name(link));
                let (from, to) = ours.link_ends(link);
                let class = match (from, to) {
                    (Node::Host(_), _) => LinkClass::HostUp,
                    (_, Node::Host(_)) => LinkClass::HostDown,
                    (Node::Switch(from), Node::Switch(to)) if from < to => LinkClass::TreeUp,
                    _ => LinkClass::TreeDown,
                };
                assert_eq!(ours.link_class(link), class);
                if link.0 >= 2 * hosts {
                    assert_eq!(ours.is_first_of_pair(link), class == LinkClass::TreeUp);
                }
            }
            for (source, target) in (0..hosts).flat_map(|one| (0..hosts).map(move |it| (one, it))) {
                let ends = (HostId(source), HostId(target));
                assert_eq!(
                    ours.path_length(ends.0, ends.1),
                    graph.path_length(ends.0, ends.1)
                );
                for most in [1, 2, 10] {
                    assert_eq!(
                        ours.equal_ways(ends.0, ends.1, most),
                        graph.equal_ways(ends.0, ends.1, most)
                    );
                }
                let mut route: Vec<LinkId> = Vec::new();
                ours.route(ends.0, ends.1, &mut route);
                let ways = ours.equal_ways(ends.0, ends.1, 10);
                assert!(ways.contains(&route), "{route:?} is none of {ways:?}");
            }
        }
    }

    #[test]
    fn a_large_one_takes_no_memory_and_one_too_large_is_refused() {
        let large = Topology::leaf_spine(100_000_000, 5, 4).unwrap();
        assert!(large.memory_bytes() < 1_000);
        assert_eq!(large.host_switch(HostId(99_999_999)), SwitchId(19_999_999));
        assert!(!large.check().has_errors());
        assert_eq!(large.switch_ports(SwitchId(0)), Some(9));
        let error = Topology::leaf_spine(2_000_000_000, 1, 4).unwrap_err();
        assert!(error.to_string().contains("directed links"), "{error}");
        for (hosts, each, spines) in [(0, 5, 4), (1, 0, 4), (1, 5, 0)] {
            let error = Topology::leaf_spine(hosts, each, spines).unwrap_err();
            assert!(error.to_string().contains("at least 1"), "{error}");
        }
    }
}
