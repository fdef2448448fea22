//! Hosts, switches, directed links and routes of a cluster's network.
//!
//! A [`Topology`] is generated (grids, trees, dragonflies and more: [`Plan`]; nothing is kept per
//! host or link, all is arithmetic) or read from a file or drawn (any graph, routed by tables). It
//! answers which links a message crosses:
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
//!
//! # Graphs from files
//!
//! [`parse_edge_list`], [`parse_node_link_json`] (NetworkX) and [`parse_graphml`] read a graph. A
//! node is a host or a switch; a host has exactly one link, to a switch. An undirected edge stands
//! for two directed links. An edge list says which nodes are hosts:
//!
//! ```
//! let graph = viaduct_topology::parse_edge_list(
//!     "# two switches in a row
//!      hosts n* gateway        # names, or prefixes that end in *; all other nodes are switches
//!      ports 8 s*              # optional: the ports of switches
//!      n0 s0
//!      s0 s1 rate=\"856 Mbit/s\" latency=\"0.5 us\"
//!      s1 n1
//!      s1 gateway",
//! )?;
//! assert_eq!((graph.host_count(), graph.switch_count(), graph.link_count()), (3, 2, 8));
//! # Ok::<(), viaduct_topology::TopologyError>(())
//! ```
//!
//! In JSON and GraphML each node has an attribute `kind`, `host` or `switch`, and may have `ports`;
//! each edge may have `rate` and `latency`. Attributes that mean nothing here are counted and told
//! by [`Topology::check`].
//!
//! A program makes a graph with [`GraphBuilder`], from arrays if it is large. A graph that is one
//! of the generated networks may be routed by its rule: [`GraphRouting`].
//!
//! Routes are shortest paths by the number of links; where several links lead closer to the target,
//! the one with the lowest number is taken, which is the one that comes first in the file. Or they
//! are given: [`Topology::with_tables`].
//!
//! # Words
//!
//! - plan of a generated network; labels: what a graph that is routed by rule has of its own:
//!   `Plan`; `Labels` (`topology/plan.rs`, `rule.rs`)
//! - step: a link between switches on a shortest way: `Step` (`generated.rs`)
//! - detour: over the switch of a host by chance: [`Topology::with_detours`]
//! - channel: of a link, for messages that may hold it up: [`Channel`] (`cycles.rs`)

mod builder;
mod check;
mod clos;
mod cycles;
mod divider;
mod draft;
mod dragonfly;
mod dragonfly_plus;
mod edge_list;
mod error;
mod export;
mod field;
mod file;
mod flow;
mod generated;
mod graph;
mod graphml;
mod grid;
mod groups;
mod hyperx;
mod jellyfish;
mod json;
mod leaf_spine;
mod names;
mod node_link;
mod parts;
mod polar_fly;
mod quantity;
mod rule;
mod slim_fly;
mod tables;
mod topology;
mod tree;
mod up_down;

pub use builder::{GraphBuilder, UsualLinks};
pub use check::{
    CHECK_DEPENDENCIES_MAX, CHECK_ENTRIES_MAX, Finding, FindingKind, NAMES_SHOWN_MAX, Report,
    Severity,
};
pub use clos::ClosShape;
pub use cycles::{CYCLE_PAIRS_MAX, Channel, Waiting};
pub use draft::{NAME_BYTES_MAX, UNUSED_ATTRIBUTES_MAX};
pub use dragonfly::DragonflyShape;
pub use edge_list::parse_edge_list;
pub use error::{FileError, QUOTED_CHARACTERS_MAX, TopologyError};
pub use field::ORDER_MAX;
pub use file::{GraphFormat, GraphRouting, parse_graph};
pub use flow::{Detours, EqualPaths};
pub use graph::{
    GRAPH_DEGREE_MAX, GRAPH_HOSTS_MAX, GRAPH_LINKS_MAX, GRAPH_SWITCHES_MAX, ROUTE_STEPS_MAX,
    ROUTE_TABLE_BYTES_MAX,
};
pub use graphml::parse_graphml;
pub use grid::{ChainHosts, DIMENSIONS_MAX};
pub use jellyfish::JellyfishShape;
pub use leaf_spine::RailShape;
pub use node_link::parse_node_link_json;
pub use parts::LinkAttributes;
pub use topology::{Plan, Topology};
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
