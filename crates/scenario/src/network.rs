//! `[network]` made into a topology.

use std::sync::Arc;

use viaduct_sim::workload::{Pattern, PatternError, Targets};
use viaduct_topology::{
    ChainHosts, EqualPaths, Finding, FindingKind, GraphFormat, GraphRouting, Plan, Ports, Severity,
    SwitchId, Topology, TopologyError, TreeShape, parse_graph,
};

use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::document::quote;
use crate::files::Files;
use crate::settings::Settings;
use crate::value::Value;

/// The topology made last, by the settings that it was made from, with what was found on it: the
/// points of a sweep share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopologyCache {
    last: Option<(String, Arc<Topology>, Vec<Finding>)>,
    /// A pattern that is known to fit a topology.
    fits: Option<(Arc<Topology>, Pattern)>,
}

impl TopologyCache {
    /// Whether the pattern has targets on the topology. The seed decides which, not whether.
    pub(crate) fn fit(
        &mut self,
        pattern: &Pattern,
        topology: &Arc<Topology>,
    ) -> Result<(), PatternError> {
        let known = self
            .fits
            .as_ref()
            .is_some_and(|(known, fitting)| Arc::ptr_eq(known, topology) && fitting == pattern);
        if !known {
            Targets::new(pattern, topology, 0)?;
            self.fits = Some((Arc::clone(topology), pattern.clone()));
        }
        Ok(())
    }
}

/// Makes the topology; none if something is wrong, and then the diagnostics say what.
pub(crate) fn topology(
    settings: &Settings,
    files: &mut Files,
    cache: &mut TopologyCache,
    diagnostics: &mut Diagnostics,
) -> Option<Arc<Topology>> {
    let key = cache_key(settings);
    if cache.last.as_ref().is_none_or(|(last, ..)| *last != key) {
        let made = Network {
            settings,
            files,
            diagnostics,
        }
        .make()?;
        let findings = made.check().findings;
        cache.last = Some((key, made, findings));
    }
    let (_, topology, findings) = cache.last.as_ref()?;
    for finding in findings {
        // That links may wait for each other in a ring holds for every torus and concerns the
        // hardware, not the model; `Topology::check` says it to those who ask.
        if finding.kind == FindingKind::Deadlock {
            continue;
        }
        let diagnostic = match finding.severity {
            Severity::Error => Diagnostic::error(finding.text.clone()),
            Severity::Warning => Diagnostic::warning(finding.text.clone()),
        };
        let place = settings.place_or_table("network", "file");
        diagnostics.push(diagnostic.at(place).help(finding.help));
    }
    Some(Arc::clone(topology))
}

/// The table `[network]` of a study on this network: its measures if they make it, else `file`,
/// whose text is [`Topology::to_node_link_json`].
#[must_use]
pub fn network_toml(network: &Topology, file: &str) -> String {
    let plan = network.plan().filter(|_| network.is_generated());
    let mut toml = match plan {
        None => {
            let routing = match network.is_routed_by_rule() {
                true => "rule",
                false => "shortest-path",
            };
            let file = quote(file);
            return format!(
                "[network]\ntopology = \"graph\"\nfile = {file}\nformat = \"json\"\n\
                 routing = \"{routing}\"\n"
            );
        }
        Some(Plan::SingleSwitch { hosts }) => {
            format!("topology = \"switch\"\nhosts = {hosts}\n")
        }
        Some(Plan::Chain { switches, hosts }) => {
            let (each, ends_only) = match hosts {
                ChainHosts::EverySwitch(each) => (each, false),
                ChainHosts::Ends(each) => (each, true),
            };
            format!(
                "topology = \"chain\"\nswitches = {switches}\nhosts_per_switch = {each}\n\
                 ends_only = {ends_only}\n"
            )
        }
        Some(Plan::Mesh {
            dimensions,
            hosts_per_switch,
        }) => grid_toml("mesh", dimensions, hosts_per_switch),
        Some(Plan::Torus {
            dimensions,
            hosts_per_switch,
        }) => grid_toml("torus", dimensions, hosts_per_switch),
        Some(Plan::FatTree(TreeShape { arity, levels })) => {
            format!("topology = \"fat-tree\"\narity = {arity}\nlevels = {levels}\n")
        }
    };
    toml.insert_str(0, "[network]\n");
    if let Some(ports) = network.switch_ports(SwitchId(0)) {
        toml.push_str(&format!("switch_ports = {ports}\n"));
    }
    toml
}

fn grid_toml(shape: &str, dimensions: &[u32], hosts_per_switch: u32) -> String {
    format!(
        "topology = \"{shape}\"\ndimensions = {dimensions:?}\nhosts_per_switch = {hosts_per_switch}\n"
    )
}

fn cache_key(settings: &Settings) -> String {
    let network = settings
        .list
        .iter()
        .filter(|setting| setting.table.name == "network");
    let text = |value: &Option<Value>| value.as_ref().map_or(String::new(), Value::to_toml);
    network
        .map(|setting| text(&setting.value))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Whether a graph has routes of this kind.
fn is_routed(graph: &Topology, routing: GraphRouting) -> bool {
    match routing {
        GraphRouting::Rule => graph.is_routed_by_rule(),
        GraphRouting::ShortestPath(equal_paths) => graph.equal_paths() == Some(equal_paths),
    }
}

struct Network<'a> {
    settings: &'a Settings,
    files: &'a mut Files,
    diagnostics: &'a mut Diagnostics,
}

impl Network<'_> {
    fn make(&mut self) -> Option<Arc<Topology>> {
        let Value::Choice(shape) = self.settings.value("network", "topology")? else {
            return None;
        };
        if !self.routing_fits(shape) {
            return None;
        }
        let ports = Ports(self.count("switch_ports").unwrap_or(u32::MAX));
        let hosts = self.count("hosts_per_switch");
        let made = match *shape {
            "chain" => {
                let ends_only = self.settings.value("network", "ends_only")?;
                let hosts = match ends_only {
                    Value::Boolean(true) => ChainHosts::Ends(hosts?),
                    _ => ChainHosts::EverySwitch(hosts?),
                };
                Topology::chain(self.count("switches")?, hosts, ports)
            }
            "switch" => Topology::single_switch(self.count("hosts")?, ports),
            "mesh" => Topology::mesh(self.dimensions()?, hosts?, ports),
            "torus" => Topology::torus(self.dimensions()?, hosts?, ports),
            "fat-tree" => {
                let shape = TreeShape {
                    arity: self.count("arity")?,
                    levels: self.count("levels")?,
                };
                Topology::fat_tree(shape, ports)
            }
            _ => return self.graph(),
        };
        made.map_err(|error| self.refused(&error))
            .ok()
            .map(Arc::new)
    }

    /// A graph from its file, with its routes.
    fn graph(&mut self) -> Option<Arc<Topology>> {
        let by_routes = self.settings.value("network", "routes").is_some();
        let routing = match self.settings.value("network", "routing") {
            Some(Value::Choice(routing)) => *routing,
            _ if by_routes => "table",
            _ => "shortest-path",
        };
        let equal_paths = match self.settings.value("network", "equal_paths") {
            Some(Value::Choice("single")) => EqualPaths::Single,
            _ => EqualPaths::Hash,
        };
        let graph = self.routed_graph(match routing {
            "rule" => GraphRouting::Rule,
            _ => GraphRouting::ShortestPath(equal_paths),
        })?;
        if routing != "table" {
            return Some(graph);
        }
        let graph = Arc::unwrap_or_clone(graph);
        let path = self.path("routes")?;
        let text = self.file("routes", &path)?;
        let routed = graph.with_tables(&text);
        routed
            .map_err(|error| self.refused_file("routes", &path, &text, &error))
            .ok()
            .map(Arc::new)
    }

    /// The graph that was handed in or is in the file, with routes of this kind.
    fn routed_graph(&mut self, routing: GraphRouting) -> Option<Arc<Topology>> {
        let path = self.path("file")?;
        let (text, format) = match self.files.graph(&path) {
            Some(graph) if is_routed(&graph, routing) => return Some(graph),
            // It was made with other routes.
            Some(graph) => (graph.to_node_link_json().into(), GraphFormat::NodeLinkJson),
            None => {
                let format = self.format(&path)?;
                (self.file("file", &path)?, format)
            }
        };
        parse_graph(&text, format, routing)
            .map_err(|error| self.refused_file("file", &path, &text, &error))
            .ok()
            .map(Arc::new)
    }

    fn path(&self, key: &str) -> Option<String> {
        match self.settings.value("network", key)? {
            Value::Text(path) => Some(path.clone()),
            _ => None,
        }
    }

    /// How the graph is written: as said, else by the file's ending.
    fn format(&mut self, path: &str) -> Option<GraphFormat> {
        if let Some(Value::Choice(format)) = self.settings.value("network", "format") {
            return Some(match *format {
                "json" => GraphFormat::NodeLinkJson,
                "graphml" => GraphFormat::GraphMl,
                _ => GraphFormat::EdgeList,
            });
        }
        let ending = path
            .rsplit_once('.')
            .map_or("", |(_, ending)| ending)
            .to_ascii_lowercase();
        match ending.as_str() {
            "json" => Some(GraphFormat::NodeLinkJson),
            "graphml" | "xml" => Some(GraphFormat::GraphMl),
            "txt" | "list" | "edges" | "edgelist" | "csv" | "tsv" => Some(GraphFormat::EdgeList),
            _ => {
                self.diagnostics.push(
                    Diagnostic::error("the ending of the file does not say how it is written")
                        .at(self.settings.place_or_table("network", "file"))
                        .label("known are .txt, .json and .graphml")
                        .help("add `format = \"list\"`, \"json\" or \"graphml\""),
                );
                None
            }
        }
    }

    fn file(&mut self, key: &str, path: &str) -> Option<Arc<str>> {
        match self.files.text(path) {
            Ok(text) => Some(text),
            Err(reason) => {
                self.diagnostics.push(
                    Diagnostic::error(format!("cannot read the file of `{key}`"))
                        .at(self.settings.place_or_table("network", key))
                        .label(reason),
                );
                None
            }
        }
    }

    /// An error in a graph's file is shown there.
    fn refused_file(&mut self, key: &str, path: &str, text: &str, error: &TopologyError) {
        let TopologyError::File(error) = error else {
            let key = match error {
                TopologyError::NoRule => "routing",
                _ => key,
            };
            let place = self.settings.place_or_table("network", key);
            self.diagnostics.push(refusal(error).at(place));
            return;
        };
        let source = self.diagnostics.add_source(path, text);
        let place = Place {
            source,
            start: error.span.start,
            end: error.span.end,
        };
        let diagnostic = Diagnostic::error(error.problem.clone()).at(place);
        self.diagnostics.push(diagnostic.help(error.help.clone()));
    }

    fn count(&self, key: &str) -> Option<u32> {
        match self.settings.value("network", key)? {
            Value::Count(count) => u32::try_from(*count).ok(),
            _ => None,
        }
    }

    fn dimensions(&self) -> Option<&[u32]> {
        match self.settings.value("network", "dimensions")? {
            Value::Counts(dimensions) => Some(dimensions),
            _ => None,
        }
    }

    /// Whether the way in which routes are made is one that the topology has.
    fn routing_fits(&mut self, shape: &str) -> bool {
        let Some(Value::Choice(routing)) = self.settings.value("network", "routing") else {
            return true;
        };
        // A graph may be routed in each way: whether it has a rule shows when it is read.
        if shape == "graph" || *routing == "rule" {
            return true;
        }
        let label = format!("a {shape} routes by rule");
        let help = "leave it out; other routes need topology = \"graph\" and its file";
        self.diagnostics.push(
            Diagnostic::error("this topology has no such routing")
                .at(self.settings.place_or_table("network", "routing"))
                .label(label)
                .help(help),
        );
        false
    }

    fn refused(&mut self, error: &TopologyError) {
        let key = match error {
            TopologyError::TooFewPorts { .. } => "switch_ports",
            _ => "topology",
        };
        let place = self.settings.place_or_table("network", key);
        self.diagnostics.push(refusal(error).at(place));
    }
}

/// The message of a topology that cannot be made, without its place.
fn refusal(error: &TopologyError) -> Diagnostic {
    match error {
        TopologyError::TooFewPorts {
            switch,
            needed,
            available,
            reason,
        } => Diagnostic::error("a switch has too few ports")
            .label(format!(
                "{switch} needs {needed} ({reason}), not {available}"
            ))
            .help(format!(
                "write switch_ports = {needed}, or attach less to a switch"
            )),
        TopologyError::TooLarge {
            what,
            count,
            limit,
            help,
        } => Diagnostic::error("the network is too large")
            .label(format!("{what}: {count}; the limit is {limit}"))
            .help((*help).to_owned()),
        TopologyError::TooSmall {
            what,
            count,
            minimum,
        } => Diagnostic::error("the network is too small")
            .label(format!("{what} is {count}"))
            .help(format!("it must be at least {minimum}")),
        TopologyError::NoRule => Diagnostic::error("the graph has no rule to route by")
            .label("it is no chain, mesh, torus, fat tree or single switch, numbered as these are")
            .help("write \"shortest-path\", or \"table\" and `routes`"),
        _ => Diagnostic::error("no such network").label(error.to_string()),
    }
}
