//! Graphs from files of any kind, with the routes that are asked for.

use crate::error::TopologyError;
use crate::flow::EqualPaths;
use crate::graph::Graph;
use crate::parts::GraphParts;
use crate::topology::{Kind, Topology};
use crate::{edge_list, graphml, node_link, rule};

/// How a graph is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GraphFormat {
    /// An edge a line, see [`crate::parse_edge_list`].
    EdgeList,
    /// NetworkX node-link JSON.
    NodeLinkJson,
    /// GraphML.
    GraphMl,
}

/// How the routes of a graph are made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GraphRouting {
    /// By the number of links.
    ShortestPath(EqualPaths),
    /// By the rule of the generated network that the graph is: a chain, mesh, torus, fat tree or
    /// single switch, its hosts and switches numbered as the generator numbers them. It takes no
    /// tables, and straight lines and neighbours are known.
    Rule,
}

/// Reads a graph and makes its routes.
///
/// ```
/// use viaduct_topology::{GraphFormat, GraphRouting, parse_graph};
///
/// let ring = "hosts a b c\na x\nb y\nc z\nx y\ny z\nz x\n";
/// let graph = parse_graph(ring, GraphFormat::EdgeList, GraphRouting::Rule)?;
/// assert_eq!(graph.description(), "torus of 3 switches, 1 host a switch");
/// assert_eq!(graph.table_bytes(), 0);
/// # Ok::<(), viaduct_topology::TopologyError>(())
/// ```
///
/// # Errors
///
/// As for [`crate::parse_edge_list`] and the others; and where a rule is asked for, a graph that is
/// no generated network.
pub fn parse_graph(
    text: &str,
    format: GraphFormat,
    routing: GraphRouting,
) -> Result<Topology, TopologyError> {
    Topology::from_parts(read(text, format)?, routing)
}

/// Reads a graph, checked as a whole, without routes.
pub(crate) fn read(text: &str, format: GraphFormat) -> Result<GraphParts, TopologyError> {
    match format {
        GraphFormat::EdgeList => edge_list::read(text),
        GraphFormat::NodeLinkJson => node_link::read(text),
        GraphFormat::GraphMl => graphml::read(text),
    }
}

impl Topology {
    pub(crate) fn from_parts(
        parts: GraphParts,
        routing: GraphRouting,
    ) -> Result<Self, TopologyError> {
        match routing {
            GraphRouting::ShortestPath(equal_paths) => Self::by_shortest_path(parts, equal_paths),
            GraphRouting::Rule => rule::recognise(parts).map_err(|_| TopologyError::NoRule),
        }
    }

    pub(crate) fn by_shortest_path(
        parts: GraphParts,
        equal_paths: EqualPaths,
    ) -> Result<Self, TopologyError> {
        let graph = Graph::new(parts, equal_paths)?;
        Ok(Self::of(Kind::Graph(Box::new(graph))))
    }
}
