//! Hosts, switches, directed links and routes of a cluster's network.
//!
//! A [`Topology`] is generated (chain, mesh, torus, fat tree: nothing is kept per host or link, all
//! is arithmetic). It answers which links a message crosses:
//!
//! ```
//! use viaduct_topology::{HostId, Ports, Topology};
//!
//! // 16x16 switches, 4 hosts at each; a switch has 8 ports.
//! let torus = Topology::torus(&[16, 16], 4, Ports(8))?;
//! assert_eq!((torus.host_count(), torus.switch_count()), (1024, 256));
//!
//! // From a host to the one four hops further in the positive direction of the first dimension.
//! let source = HostId(0);
//! let target = torus.straight_line(source, 0, 4).expect("a torus has no edge");
//! let mut path = Vec::new();
//! torus.route(source, target, &mut path);
//! let names: Vec<String> = path.iter().map(|&link| torus.link_name(link)).collect();
//! assert_eq!(names[0], "n0-0-0 -> s0-0");
//! assert_eq!(names[1], "s0-0 -> s1-0");
//! assert_eq!(names[5], "s4-0 -> n4-0-0");
//! # Ok::<(), viaduct_topology::TopologyError>(())
//! ```

mod divider;
mod error;
mod grid;
mod topology;
mod tree;

pub use error::{FileError, QUOTED_CHARACTERS_MAX, TopologyError};
pub use grid::{ChainHosts, DIMENSIONS_MAX};
pub use topology::Topology;
pub use tree::{LEVELS_MAX, TreeShape};

/// Number of a host, from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostId(pub u32);

/// Number of a switch, from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SwitchId(pub u32);

/// Number of a directed link, from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkId(pub u32);

/// A host or a switch.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Node {
    /// A host.
    Host(HostId),
    /// A switch.
    Switch(SwitchId),
}

/// How many ports each switch has.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ports(pub u32);

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
