//! `[network]` made into a topology.

use std::sync::Arc;

use viaduct_cluster::workload::{Pattern, PatternError, Targets};
use viaduct_topology::{
    ChainHosts, EqualPaths, Finding, FindingKind, GraphFormat, GraphRouting, Plan, Ports, Severity,
    SwitchId, Topology, TopologyError, TreeShape, parse_graph,
};

use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::document::quote;
use crate::files::Files;
use crate::schema::{self, Routing, Shape};
use crate::section::{Absent, Section, Setting, Word};
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

/// Makes the topology.
pub(crate) fn topology(
    settings: &schema::Network,
    files: &mut Files,
    cache: &mut TopologyCache,
    diagnostics: &mut Diagnostics,
) -> Result<Arc<Topology>, Absent> {
    let key = cache_key(settings);
    let last = cache.last.take().filter(|(last, ..)| *last == key);
    let (_, topology, findings) = cache.last.insert(match last {
        Some(last) => last,
        None => {
            let mut network = Network {
                settings,
                files,
                diagnostics,
            };
            let made = network.make()?;
            let findings = made.check().findings;
            (key, made, findings)
        }
    });
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
        diagnostics.push(diagnostic.at(settings.file.place()).help(finding.help));
    }
    Ok(Arc::clone(topology))
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
        Some(Plan::LeafSpine {
            hosts,
            hosts_per_leaf,
            spines,
        }) => {
            // Its switches have the ports that they need.
            return format!(
                "[network]\ntopology = \"leaf-spine\"\nhosts = {hosts}\n\
                 hosts_per_switch = {hosts_per_leaf}\nspines = {spines}\n"
            );
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

fn cache_key(settings: &schema::Network) -> String {
    let text = |value: Option<Value>| value.map_or(String::new(), |value| value.to_toml());
    let list = settings.list().into_iter();
    list.map(|setting| text(setting.value()))
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
    settings: &'a schema::Network,
    files: &'a mut Files,
    diagnostics: &'a mut Diagnostics,
}

impl Network<'_> {
    /// Keeps an error.
    fn wrong(&mut self, diagnostic: Diagnostic) -> Absent {
        self.diagnostics.push(diagnostic);
        Absent::Told
    }

    fn make(&mut self) -> Result<Arc<Topology>, Absent> {
        let settings = self.settings;
        let shape = settings.topology.get()?;
        self.check_routing(shape)?;
        let ports = Ports(settings.switch_ports.optional()?.unwrap_or(u32::MAX));
        let made = match shape {
            Shape::Chain => {
                let hosts = settings.hosts_per_switch.get()?;
                let hosts = match settings.ends_only.get()? {
                    true => ChainHosts::Ends(hosts),
                    false => ChainHosts::EverySwitch(hosts),
                };
                Topology::chain(settings.switches.get()?, hosts, ports)
            }
            Shape::Switch => Topology::single_switch(settings.hosts.get()?, ports),
            Shape::Mesh => Topology::mesh(
                &settings.dimensions.get()?,
                settings.hosts_per_switch.get()?,
                ports,
            ),
            Shape::Torus => Topology::torus(
                &settings.dimensions.get()?,
                settings.hosts_per_switch.get()?,
                ports,
            ),
            Shape::FatTree => {
                let shape = TreeShape {
                    arity: settings.arity.get()?,
                    levels: settings.levels.get()?,
                };
                Topology::fat_tree(shape, ports)
            }
            Shape::LeafSpine => Topology::leaf_spine(
                settings.hosts.get()?,
                settings.hosts_per_switch.get()?,
                settings.spines.get()?,
            ),
            Shape::Graph => return self.graph(),
        };
        made.map(Arc::new).map_err(|error| {
            let setting = match error {
                TopologyError::TooFewPorts { .. } => settings.switch_ports.place(),
                _ => settings.topology.place(),
            };
            self.wrong(refusal(&error).at(setting))
        })
    }

    /// A graph from its file, with its routes.
    fn graph(&mut self) -> Result<Arc<Topology>, Absent> {
        let settings = self.settings;
        let routing = settings.routing.optional()?;
        let routing = routing.unwrap_or(match settings.routes.optional()? {
            Some(_) => Routing::Table,
            None => Routing::ShortestPath,
        });
        let equal_paths = settings.equal_paths.optional()?;
        if routing == Routing::Rule && equal_paths.is_some() {
            let diagnostic = Diagnostic::error("routes by rule have no equal paths to choose from")
                .at(settings.equal_paths.place())
                .label("a rule gives one way between two hosts")
                .help("leave it out, or write routing = \"shortest-path\"");
            return Err(self.wrong(diagnostic));
        }
        let equal_paths = equal_paths.unwrap_or(EqualPaths::Hash);
        let shortest = GraphRouting::ShortestPath(equal_paths);
        match routing {
            Routing::Rule => self.routed_graph(GraphRouting::Rule),
            Routing::ShortestPath => self.routed_graph(shortest),
            Routing::Table => {
                let graph = Arc::unwrap_or_clone(self.routed_graph(shortest)?);
                let path = settings.routes.get()?;
                let text = self.file(&settings.routes, &path)?;
                let routed = graph.with_tables(&text);
                routed
                    .map(Arc::new)
                    .map_err(|error| self.refused_file(&settings.routes, &path, &text, &error))
            }
        }
    }

    /// The graph that was handed in or is in the file, with routes of this kind.
    fn routed_graph(&mut self, routing: GraphRouting) -> Result<Arc<Topology>, Absent> {
        let settings = self.settings;
        let path = settings.file.get()?;
        let (text, format) = match self.files.graph(&path) {
            Some(graph) if is_routed(&graph, routing) => return Ok(graph),
            // It was made with other routes.
            Some(graph) => (graph.to_node_link_json().into(), GraphFormat::NodeLinkJson),
            None => {
                let format = match settings.format.optional()? {
                    Some(format) => format,
                    None => self.format_by_ending(&path)?,
                };
                (self.file(&settings.file, &path)?, format)
            }
        };
        parse_graph(&text, format, routing)
            .map(Arc::new)
            .map_err(|error| self.refused_file(&settings.file, &path, &text, &error))
    }

    /// How the graph is written, by its file's ending.
    fn format_by_ending(&mut self, path: &str) -> Result<GraphFormat, Absent> {
        let ending = path
            .rsplit_once('.')
            .map_or("", |(_, ending)| ending)
            .to_ascii_lowercase();
        match ending.as_str() {
            "json" => Ok(GraphFormat::NodeLinkJson),
            "graphml" | "xml" => Ok(GraphFormat::GraphMl),
            "txt" | "list" | "edges" | "edgelist" | "csv" | "tsv" => Ok(GraphFormat::EdgeList),
            _ => Err(self.wrong(
                Diagnostic::error("the ending of the file does not say how it is written")
                    .at(self.settings.file.place())
                    .label("known are .txt, .json and .graphml")
                    .help("add `format = \"list\"`, \"json\" or \"graphml\""),
            )),
        }
    }

    fn file(&mut self, setting: &Setting<String>, path: &str) -> Result<Arc<str>, Absent> {
        self.files.text(path).map_err(|reason| {
            self.wrong(
                Diagnostic::error(format!("cannot read the file of `{}`", setting.key.name))
                    .at(setting.place())
                    .label(reason),
            )
        })
    }

    /// An error in a graph's file is shown there.
    fn refused_file(
        &mut self,
        setting: &Setting<String>,
        path: &str,
        text: &str,
        error: &TopologyError,
    ) -> Absent {
        let TopologyError::File(error) = error else {
            let place = match error {
                TopologyError::NoRule => self.settings.routing.place(),
                _ => setting.place(),
            };
            return self.wrong(refusal(error).at(place));
        };
        let source = self.diagnostics.add_source(path, text);
        let place = Place {
            source,
            start: error.span.start,
            end: error.span.end,
        };
        let diagnostic = Diagnostic::error(error.problem.clone()).at(place);
        self.wrong(diagnostic.help(error.help.clone()))
    }

    /// Whether the way in which routes are made is one that the topology has.
    fn check_routing(&mut self, shape: Shape) -> Result<(), Absent> {
        // A graph may be routed in each way: whether it has a rule shows when it is read.
        let routing = self.settings.routing.optional()?;
        if shape == Shape::Graph || matches!(routing, None | Some(Routing::Rule)) {
            return Ok(());
        }
        let label = format!("a {} routes by rule", shape.word());
        let help = "leave it out; other routes need topology = \"graph\" and its file";
        Err(self.wrong(
            Diagnostic::error("this topology has no such routing")
                .at(self.settings.routing.place())
                .label(label)
                .help(help),
        ))
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
