//! Hosts, switches, links and routes.

/// Number of a host, from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostId(pub u32);

/// Number of a switch, from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SwitchId(pub u32);

/// Number of a directed link, from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkId(pub u32);

/// What a directed link joins.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum LinkClass {
    /// From a host to its switch.
    HostUp,
    /// From a switch to its host.
    HostDown,
    /// Between switches of a chain, mesh, torus or imported graph.
    Mesh,
    /// Between switches of a tree, away from the hosts.
    TreeUp,
    /// Between switches of a tree, towards the hosts.
    TreeDown,
}

/// A network.
#[derive(Clone, Debug)]
pub struct Topology;

impl Topology {
    /// Hosts.
    #[must_use]
    pub fn host_count(&self) -> u32 {
        0
    }

    /// Switches.
    #[must_use]
    pub fn switch_count(&self) -> u32 {
        0
    }

    /// Directed links.
    #[must_use]
    pub fn link_count(&self) -> u32 {
        0
    }

    /// The class of a link.
    #[must_use]
    pub fn link_class(&self, _link: LinkId) -> LinkClass {
        LinkClass::Mesh
    }

    /// Appends the directed links from `source` to `target`, host links included, in order.
    pub fn route(&self, _source: HostId, _target: HostId, _path: &mut Vec<LinkId>) {}
}
