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

use crate::divider::Divider;
use crate::error::TopologyError;
use crate::grid::within;
use crate::{HostId, LinkId, SwitchId};

/// A tree of two levels.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LeafSpine {
    hosts: u32,
    by_leaf: Divider,
    hosts_per_leaf: u32,
    leaves: u32,
    spines: u32,
}

impl LeafSpine {
    pub(crate) fn new(hosts: u32, hosts_per_leaf: u32, spines: u32) -> Result<Self, TopologyError> {
        for (what, count) in [
            ("the number of hosts", hosts),
            ("the number of hosts at a leaf", hosts_per_leaf),
            ("the number of switches of the spine", spines),
        ] {
            if count == 0 {
                return Err(TopologyError::TooSmall {
                    what,
                    count: 0,
                    minimum: 1,
                });
            }
        }
        let leaves = hosts.div_ceil(hosts_per_leaf);
        let (wide_leaves, wide_spines) = (u64::from(leaves), u64::from(spines));
        within("the number of switches", wide_leaves + wide_spines)?;
        let between = wide_leaves.saturating_mul(wide_spines);
        let links = u64::from(hosts).saturating_add(between).saturating_mul(2);
        within("the number of directed links", links)?;
        Ok(Self {
            hosts,
            by_leaf: Divider::new(hosts_per_leaf),
            hosts_per_leaf,
            leaves,
            spines,
        })
    }

    /// Hosts, hosts of a leaf, switches of the spine.
    pub(crate) const fn measures(&self) -> (u32, u32, u32) {
        (self.hosts, self.hosts_per_leaf, self.spines)
    }

    pub(crate) const fn host_count(&self) -> u32 {
        self.hosts
    }

    pub(crate) const fn switch_count(&self) -> u32 {
        self.leaves + self.spines
    }

    pub(crate) const fn switch_link_count(&self) -> u32 {
        2 * self.leaves * self.spines
    }

    /// Whether a link between switches, counted from the first of them, goes up.
    pub(crate) const fn is_up(index: u32) -> bool {
        index.is_multiple_of(2)
    }

    #[inline]
    pub(crate) fn host_switch(&self, host: HostId) -> SwitchId {
        SwitchId(self.by_leaf.quotient(host.0))
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

    /// Ways between the switches of `source` and `target`: one for each switch of the spine.
    pub(crate) fn equal_ways(
        &self,
        source: HostId,
        target: HostId,
        most: usize,
    ) -> Vec<Vec<LinkId>> {
        let (from, to) = (self.host_switch(source), self.host_switch(target));
        if from == to {
            return vec![Vec::new()];
        }
        let spines = (0..self.spines).take(most);
        spines
            .map(|spine| vec![self.link(from, spine, 0), self.link(to, spine, 1)])
            .collect()
    }

    /// Links between the switches of `source` and `target`.
    pub(crate) fn distance(&self, source: HostId, target: HostId) -> u32 {
        2 * u32::from(self.host_switch(source) != self.host_switch(target))
    }

    /// Ends of a link between switches, counted from the first of them.
    pub(crate) fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        let pair = index / 2;
        let leaf = SwitchId(pair / self.spines);
        let spine = SwitchId(self.leaves + pair % self.spines);
        if Self::is_up(index) {
            (leaf, spine)
        } else {
            (spine, leaf)
        }
    }

    /// Ports that a switch needs.
    pub(crate) fn switch_ports(&self, switch: SwitchId) -> u32 {
        if switch.0 < self.leaves {
            self.hosts_per_leaf + self.spines
        } else {
            self.leaves
        }
    }

    pub(crate) fn switch_name(&self, switch: SwitchId) -> String {
        match switch.0.checked_sub(self.leaves) {
            None => format!("leaf{}", switch.0),
            Some(spine) => format!("spine{spine}"),
        }
    }

    pub(crate) fn host_name(host: HostId) -> String {
        format!("host{}", host.0)
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
