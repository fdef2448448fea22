//! Networks made in Python: nodes and links one at a time, or as arrays of numbers.
//!
//! A node is one number in Python: that of a host, which is its number in tables and patterns too,
//! or that of a switch and [`SWITCH_FIRST`], so that one is never taken for the other.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use viaduct_scenario::{KeyName, UnitError, key, network_toml, parse_rate, parse_time};
use viaduct_topology::{
    ChainHosts, ClosShape, DragonflyShape, EqualPaths, GraphBuilder, GraphFormat, HostId,
    JellyfishShape, LinkAttributes, Node, Ports, RailShape, SwitchId, Topology, TopologyError,
    TreeShape, UsualLinks,
};

use crate::arrays::numbers;
use crate::errors;
use crate::graph::{FILE as GRAPH_FILE, Graph};
use crate::messages::{FILE as MESSAGES_FILE, Messages};
use crate::study::{self, Study};

/// What a pickled network is read from again: its name in errors, the graph, its format.
type Pickled = (&'static str, String, &'static str);

/// The number of the first switch in Python: more than there can be hosts, and still a 32-bit
/// integer.
const SWITCH_FIRST: i64 = 1 << 30;

/// The file that stands for the network in its scenarios.
const FILE: &str = "network.json";

/// What an array of nodes holds, and how to give it.
const NODES: &str = "ends of links are numbers of nodes";
const NODES_HELP: &str = "give whole numbers, as `hosts` and `switches` return them: an integer \
                          array, a list or a range";

/// A network that Python makes.
#[pyclass(module = "viaduct._native")]
#[derive(Debug)]
pub(crate) struct Network {
    graph: GraphBuilder,
    /// What was made of it, until it is changed.
    made: Option<Made>,
}

/// A network with its routes, and what most of its links have, which stands in the scenario.
#[derive(Clone, Debug)]
struct Made {
    topology: Arc<Topology>,
    usual: UsualLinks,
}

/// A node as Python names it.
#[derive(Debug, FromPyObject)]
enum NodeArgument {
    #[pyo3(transparent)]
    Number(i64),
    #[pyo3(transparent)]
    Name(String),
}

/// Nodes: one for all links, or one a link.
enum Nodes {
    One(Node),
    Many(Vec<i64>),
}

impl Nodes {
    fn len(&self) -> Option<usize> {
        match self {
            Self::One(_) => None,
            Self::Many(numbers) => Some(numbers.len()),
        }
    }

    fn get(&self, index: usize) -> Node {
        match self {
            Self::One(node) => *node,
            Self::Many(numbers) => node_of(numbers[index]),
        }
    }
}

/// The node of a number; one that no network has for numbers beyond all.
fn node_of(number: i64) -> Node {
    let within = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    if number >= SWITCH_FIRST {
        Node::Switch(SwitchId(within(number - SWITCH_FIRST)))
    } else {
        Node::Host(HostId(within(number)))
    }
}

fn switch_number(switch: u32) -> i64 {
    SWITCH_FIRST + i64::from(switch)
}

fn attributes(rate: Option<&str>, latency: Option<&str>) -> PyResult<LinkAttributes> {
    let wrong = |what: &str, text: &str, error: UnitError| {
        let help = error.suggestion;
        let help = help.map(|suggestion| format!("did you mean {suggestion}?"));
        let title = format!("{what} = \"{text}\": {}", error.problem);
        errors::scenario_text(title, help.as_deref())
    };
    let rate = rate.map(|text| parse_rate(text).map_err(|error| wrong("rate", text, error)));
    let latency =
        latency.map(|text| parse_time(text).map_err(|error| wrong("latency", text, error)));
    Ok(LinkAttributes {
        rate_bits_per_second: rate.transpose()?.map(|rate| rate.bits_per_second()),
        latency_picoseconds: latency.transpose()?.map(|time| time.picoseconds()),
    })
}

fn refused(error: TopologyError) -> PyErr {
    match error {
        TopologyError::Graph { problem, help } => errors::scenario_text(problem, Some(&help)),
        other => errors::scenario_text(other, None),
    }
}

impl Network {
    fn of(topology: Result<Topology, TopologyError>) -> PyResult<Self> {
        let graph = topology.and_then(|topology| GraphBuilder::from_topology(&topology));
        Ok(Self {
            graph: graph.map_err(refused)?,
            made: None,
        })
    }

    fn node(&mut self, argument: &NodeArgument) -> PyResult<Node> {
        match argument {
            NodeArgument::Number(number) => Ok(node_of(*number)),
            NodeArgument::Name(name) => self.graph.find(name).map_err(refused),
        }
    }

    fn nodes(&mut self, argument: &Bound<'_, PyAny>) -> PyResult<Nodes> {
        match argument.extract::<NodeArgument>() {
            Ok(one) => Ok(Nodes::One(self.node(&one)?)),
            Err(_) => Ok(Nodes::Many(numbers(argument, NODES, NODES_HELP)?)),
        }
    }

    fn make(&mut self, py: Python<'_>) -> PyResult<Made> {
        if let Some(made) = &self.made {
            return Ok(made.clone());
        }
        let graph = &mut self.graph;
        let made = py.detach(|| {
            let usual = graph.usual_links();
            let topology = Arc::new(graph.finish_without(usual)?);
            Ok::<_, TopologyError>(Made { topology, usual })
        });
        let made = made.map_err(refused)?;
        self.made = Some(made.clone());
        Ok(made)
    }

    /// The network with all that was said of its links.
    fn whole(&mut self, py: Python<'_>) -> PyResult<Topology> {
        let graph = &mut self.graph;
        py.detach(|| graph.finish()).map_err(refused)
    }
}

#[pymethods]
impl Network {
    #[new]
    fn new(directed: bool, parallel_links: bool) -> Self {
        Self {
            graph: GraphBuilder::new(directed, parallel_links),
            made: None,
        }
    }

    /// Reads the text of a graph, `format` being `list`, `json` or `graphml`.
    #[staticmethod]
    fn read(py: Python<'_>, name: &str, text: &str, format: &str) -> PyResult<Self> {
        let format = match format {
            "list" => GraphFormat::EdgeList,
            "json" => GraphFormat::NodeLinkJson,
            "graphml" => GraphFormat::GraphMl,
            _ => return Err(PyTypeError::new_err("format is list, json or graphml")),
        };
        let read = py.detach(|| GraphBuilder::read(text, format));
        let graph = read.map_err(|error| match error {
            TopologyError::File(error) => {
                let (line, column) = (error.line, error.column);
                let title = format_args!(
                    "{}\n --> {name}:{line}:{column}: {}",
                    error.problem, error.text
                );
                errors::scenario_text(title, Some(&error.help))
            }
            other => refused(other),
        })?;
        Ok(Self { graph, made: None })
    }

    #[staticmethod]
    #[pyo3(signature = (sizes, hosts_per_switch, ports))]
    fn torus(sizes: Vec<u32>, hosts_per_switch: u32, ports: Option<u32>) -> PyResult<Self> {
        Self::of(Topology::torus(&sizes, hosts_per_switch, ports_of(ports)))
    }

    #[staticmethod]
    #[pyo3(signature = (sizes, hosts_per_switch, ports))]
    fn mesh(sizes: Vec<u32>, hosts_per_switch: u32, ports: Option<u32>) -> PyResult<Self> {
        Self::of(Topology::mesh(&sizes, hosts_per_switch, ports_of(ports)))
    }

    #[staticmethod]
    #[pyo3(signature = (switches, hosts, ends_only, ports))]
    fn chain(switches: u32, hosts: u32, ends_only: bool, ports: Option<u32>) -> PyResult<Self> {
        let hosts = match ends_only {
            true => ChainHosts::Ends(hosts),
            false => ChainHosts::EverySwitch(hosts),
        };
        Self::of(Topology::chain(switches, hosts, ports_of(ports)))
    }

    #[staticmethod]
    #[pyo3(signature = (hosts, ports))]
    fn single_switch(hosts: u32, ports: Option<u32>) -> PyResult<Self> {
        Self::of(Topology::single_switch(hosts, ports_of(ports)))
    }

    #[staticmethod]
    #[pyo3(signature = (arity, levels, ports))]
    fn fat_tree(arity: u32, levels: u32, ports: Option<u32>) -> PyResult<Self> {
        let shape = TreeShape { arity, levels };
        Self::of(Topology::fat_tree(shape, ports_of(ports)))
    }

    #[staticmethod]
    #[pyo3(signature = (radix, tiers, oversubscription, pods))]
    fn clos(radix: u32, tiers: u32, oversubscription: u32, pods: Option<u32>) -> PyResult<Self> {
        Self::of(Topology::clos(ClosShape {
            radix,
            tiers,
            oversubscription,
            pods,
        }))
    }

    #[staticmethod]
    #[pyo3(signature = (rails, servers, servers_per_unit, spines))]
    fn rail(rails: u32, servers: u32, servers_per_unit: u32, spines: u32) -> PyResult<Self> {
        Self::of(Topology::rail(RailShape {
            rails,
            servers,
            servers_per_unit,
            spines,
        }))
    }

    #[staticmethod]
    #[pyo3(signature = (hosts_per_switch, switches_per_group, global_links, groups))]
    fn dragonfly(
        hosts_per_switch: u32,
        switches_per_group: u32,
        global_links: u32,
        groups: Option<u32>,
    ) -> PyResult<Self> {
        let mut shape = DragonflyShape {
            hosts_per_switch,
            switches_per_group,
            global_links,
            groups: 0,
        };
        let most = u32::try_from(shape.groups_max()).unwrap_or(u32::MAX);
        shape.groups = groups.unwrap_or(most);
        Self::of(Topology::dragonfly(shape))
    }

    #[staticmethod]
    #[pyo3(signature = (radix, groups))]
    fn dragonfly_plus(radix: u32, groups: Option<u32>) -> PyResult<Self> {
        Self::of(Topology::dragonfly_plus(radix, groups))
    }

    #[staticmethod]
    #[pyo3(signature = (sizes, hosts_per_switch))]
    fn hyperx(sizes: Vec<u32>, hosts_per_switch: u32) -> PyResult<Self> {
        Self::of(Topology::hyperx(&sizes, hosts_per_switch))
    }

    #[staticmethod]
    #[pyo3(signature = (order, hosts_per_switch))]
    fn slim_fly(order: u32, hosts_per_switch: Option<u32>) -> PyResult<Self> {
        Self::of(Topology::slim_fly(order, hosts_per_switch))
    }

    #[staticmethod]
    #[pyo3(signature = (order, hosts_per_switch))]
    fn polar_fly(order: u32, hosts_per_switch: Option<u32>) -> PyResult<Self> {
        Self::of(Topology::polar_fly(order, hosts_per_switch))
    }

    #[staticmethod]
    #[pyo3(signature = (switches, hosts_per_switch, switch_links, seed))]
    fn jellyfish(
        switches: u32,
        hosts_per_switch: u32,
        switch_links: u32,
        seed: u64,
    ) -> PyResult<Self> {
        let shape = JellyfishShape {
            switches,
            hosts_per_switch,
            switch_links,
            seed,
        };
        Self::of(Topology::jellyfish(shape, EqualPaths::Hash))
    }

    #[staticmethod]
    #[pyo3(signature = (hosts, hosts_per_switch, spines))]
    fn leaf_spine(hosts: u32, hosts_per_switch: u32, spines: u32) -> PyResult<Self> {
        Self::of(Topology::leaf_spine(hosts, hosts_per_switch, spines))
    }

    #[pyo3(signature = (name))]
    fn add_host(&mut self, name: Option<&str>) -> PyResult<i64> {
        self.made = None;
        let host = self.graph.add_host(name).map_err(refused)?;
        Ok(i64::from(host.0))
    }

    /// Adds hosts and gives the number of the first.
    fn add_hosts(&mut self, count: u32) -> PyResult<i64> {
        self.made = None;
        let hosts = self.graph.add_hosts(count).map_err(refused)?;
        Ok(i64::from(hosts.start))
    }

    #[pyo3(signature = (name, ports))]
    fn add_switch(&mut self, name: Option<&str>, ports: Option<u32>) -> PyResult<i64> {
        self.made = None;
        let switch = self.graph.add_switch(name, ports).map_err(refused)?;
        Ok(switch_number(switch.0))
    }

    /// Adds switches and gives the number of the first.
    #[pyo3(signature = (count, ports))]
    fn add_switches(&mut self, count: u32, ports: Option<u32>) -> PyResult<i64> {
        self.made = None;
        let switches = self.graph.add_switches(count, ports).map_err(refused)?;
        Ok(switch_number(switches.start))
    }

    #[pyo3(signature = (a, b, rate, latency))]
    fn link(
        &mut self,
        a: NodeArgument,
        b: NodeArgument,
        rate: Option<&str>,
        latency: Option<&str>,
    ) -> PyResult<()> {
        let (a, b) = (self.node(&a)?, self.node(&b)?);
        let attributes = attributes(rate, latency)?;
        self.made = None;
        self.graph.link(a, b, attributes).map_err(refused)
    }

    #[pyo3(signature = (a, b, rate, latency))]
    fn links(
        &mut self,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        rate: Option<&str>,
        latency: Option<&str>,
    ) -> PyResult<()> {
        let (a, b) = (self.nodes(a)?, self.nodes(b)?);
        let attributes = attributes(rate, latency)?;
        let count = match (a.len(), b.len()) {
            (Some(one), Some(other)) if one != other => {
                return Err(errors::scenario_text(
                    format_args!("{one} nodes are to be linked with {other}"),
                    Some("give arrays of the same length, or a single node"),
                ));
            }
            (length, other) => length.or(other).unwrap_or(1),
        };
        self.made = None;
        let ends = (0..count).map(|index| (a.get(index), b.get(index)));
        self.graph.links(ends, attributes).map_err(refused)
    }

    /// Gives links what is not said of them.
    #[pyo3(signature = (rate, latency))]
    fn complete_links(&mut self, rate: Option<&str>, latency: Option<&str>) -> PyResult<()> {
        self.made = None;
        self.graph.complete_links(attributes(rate, latency)?);
        Ok(())
    }

    fn note_unused(&mut self, owner: &str, attribute: &str) {
        self.made = None;
        self.graph.note_unused(owner, attribute);
    }

    /// The number of a node by its name.
    fn find(&mut self, name: &str) -> PyResult<i64> {
        Ok(match self.graph.find(name).map_err(refused)? {
            Node::Host(host) => i64::from(host.0),
            Node::Switch(switch) => switch_number(switch.0),
        })
    }

    /// The name of a node by its number.
    fn name_of(&self, number: i64) -> PyResult<String> {
        let node = match node_of(number) {
            Node::Host(host) => self.graph.host(host.0),
            Node::Switch(switch) => self.graph.switch(switch.0),
        };
        Ok(self.graph.node_name(node.map_err(refused)?).to_owned())
    }

    /// Hosts, switches and links so far.
    #[getter]
    fn counts(&self) -> (u32, u32, u32) {
        let graph = &self.graph;
        (graph.host_count(), graph.switch_count(), graph.link_count())
    }

    /// What it is, in words; it is checked as a whole for that.
    fn description(&mut self, py: Python<'_>) -> PyResult<String> {
        Ok(self.make(py)?.topology.description())
    }

    /// Bytes of the network with its routes.
    fn memory_bytes(&mut self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.make(py)?.topology.memory_bytes())
    }

    fn __reduce__(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<(Py<PyAny>, Pickled)> {
        let json = slf.borrow_mut().whole(py)?.to_node_link_json();
        let read = slf.get_type().getattr("read")?.unbind();
        Ok((read, ("a pickled network", json, "json")))
    }

    fn node_link_json(&mut self, py: Python<'_>) -> PyResult<String> {
        Ok(self.whole(py)?.to_node_link_json())
    }

    fn graphml(&mut self, py: Python<'_>) -> PyResult<String> {
        Ok(self.whole(py)?.to_graphml())
    }

    /// A study on it: `text` has the tables but for [network] and [links].
    #[pyo3(signature = (name, text, messages, graph, settings))]
    fn study(
        &mut self,
        py: Python<'_>,
        name: &str,
        text: &str,
        messages: Option<PyRef<'_, Messages>>,
        graph: Option<PyRef<'_, Graph>>,
        settings: Vec<String>,
    ) -> PyResult<Study> {
        let made = match (messages, graph) {
            (Some(messages), _) => study::Made::Messages(MESSAGES_FILE, messages.list()),
            (None, Some(graph)) => study::Made::Graph(GRAPH_FILE, graph.operations(py)?),
            (None, None) => study::Made::Nothing,
        };
        let Made { topology, usual } = self.make(py)?;
        let is_set = |key: KeyName| {
            let mut set = settings
                .iter()
                .filter_map(|setting| setting.split_once('='));
            set.any(|(path, _)| key.is_at(path.trim()))
        };
        if rate_of(&usual, &topology).is_none()
            && !is_set(key::Links::rate)
            && !is_set(key::Links::signal_rate)
            && !is_set(key::Links::preset)
        {
            let which = match topology.switch_link_count() {
                0 => "links",
                _ => "links between switches",
            };
            return Err(errors::scenario_text(
                format_args!("the {which} have no rate"),
                Some(
                    "give rate=\"856 Mbit/s\" where they are added, or \
                     set={\"links.rate\": \"856 Mbit/s\"} for all, or a preset of links and \
                     switches, such as set={\"links.preset\": \"infiniband-edr\"}",
                ),
            ));
        }
        let text = format!(
            "{text}\n{}\n{}",
            network_toml(&topology, FILE),
            links_toml(usual, &topology)
        );
        Study::on_network(py, name, &text, (FILE, topology), made, settings)
    }
}

fn ports_of(ports: Option<u32>) -> Ports {
    Ports(ports.unwrap_or(u32::MAX))
}

/// What `links.rate` is to be: a single switch has hosts' links alone.
fn rate_of(usual: &UsualLinks, topology: &Topology) -> Option<f64> {
    match topology.switch_link_count() {
        0 => usual.host_rate_bits_per_second,
        _ => usual.switch_rate_bits_per_second,
    }
}

/// The table [links] with what most links have.
fn links_toml(usual: UsualLinks, topology: &Topology) -> String {
    let mut toml = String::from("[links]\n");
    let rate = rate_of(&usual, topology);
    let UsualLinks {
        host_rate_bits_per_second: host_rate,
        latency_picoseconds: latency,
        ..
    } = usual;
    if let Some(rate) = rate {
        toml.push_str(&format!("rate = \"{rate} bit/s\"\n"));
    }
    // It follows `rate` where it is not given.
    if let Some(rate) = host_rate.filter(|_| rate != host_rate) {
        toml.push_str(&format!("host_rate = \"{rate} bit/s\"\n"));
    }
    if let Some(latency) = latency {
        toml.push_str(&format!("propagation = \"{latency} ps\"\n"));
    }
    toml
}
