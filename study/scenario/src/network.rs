//! `[network]` made into a topology.

use std::sync::Arc;

use viaduct_cluster::workload::{Pattern, PatternError, Targets};
use viaduct_topology::{
    ChainHosts, ClosShape, Detours, DragonflyShape, EqualPaths, Finding, FindingKind, GraphFormat,
    GraphRouting, JellyfishShape, Ports, RailShape, Severity, SwitchId, Topology, TopologyError,
    TreeShape, parse_graph,
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
    /// A pattern that is known to fit a topology, where so many places are one host.
    fits: Option<(Arc<Topology>, Pattern, u32)>,
}

impl TopologyCache {
    /// Whether the pattern has targets on the topology. The seed decides which, not whether.
    pub(crate) fn fit(
        &mut self,
        pattern: &Pattern,
        topology: &Arc<Topology>,
        adapters: u32,
    ) -> Result<(), PatternError> {
        let is_known = self.fits.as_ref().is_some_and(|(known, fitting, places)| {
            Arc::ptr_eq(known, topology) && fitting == pattern && *places == adapters
        });
        if !is_known {
            Targets::between(pattern, topology, adapters, 0)?;
            self.fits = Some((Arc::clone(topology), pattern.clone(), adapters));
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
    let detours = network.detours().word();
    let Some(plan) = network.plan().filter(|_| network.is_generated()) else {
        let routing = detours.unwrap_or(match network.is_routed_by_rule() {
            true => "rule",
            false => "shortest-path",
        });
        let file = quote(file);
        return format!(
            "[network]\ntopology = \"graph\"\nfile = {file}\nformat = \"json\"\n\
             routing = \"{routing}\"\n"
        );
    };
    let (topology, measures) = plan.words();
    let mut toml = format!("[network]\ntopology = \"{topology}\"\n");
    for (key, value) in measures {
        toml.push_str(&format!("{key} = {value}\n"));
    }
    if network.has_unusual_paths() {
        let word = network.equal_paths().word();
        toml.push_str(&format!("equal_paths = \"{word}\"\n"));
    }
    if let Some(routing) = detours {
        toml.push_str(&format!("routing = \"{routing}\"\n"));
    }
    // The switches of other networks have the ports that they need.
    if network.ports().is_some()
        && let Some(ports) = network.switch_ports(SwitchId(0))
    {
        toml.push_str(&format!("switch_ports = {ports}\n"));
    }
    toml
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
        GraphRouting::ShortestPath(equal_paths) => {
            !graph.is_routed_by_rule() && graph.equal_paths() == equal_paths
        }
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
        let each = settings.hosts_per_switch.optional()?;
        let one_or_more = each.unwrap_or(1);
        let equal_paths = settings.equal_paths.optional()?;
        let made = match shape {
            Shape::Chain => {
                let hosts = match settings.ends_only.get()? {
                    true => ChainHosts::Ends(one_or_more),
                    false => ChainHosts::EverySwitch(one_or_more),
                };
                Topology::chain(settings.switches.get()?, hosts, ports)
            }
            Shape::Switch => Topology::single_switch(settings.hosts.get()?, ports),
            Shape::Mesh => Topology::mesh(&settings.dimensions.get()?, one_or_more, ports),
            Shape::Torus => Topology::torus(&settings.dimensions.get()?, one_or_more, ports),
            Shape::FatTree => {
                let shape = TreeShape {
                    arity: settings.arity.get()?,
                    levels: settings.levels.get()?,
                };
                Topology::fat_tree(shape, ports)
            }
            Shape::LeafSpine => {
                let (hosts, spines) = (settings.hosts.get()?, settings.spines.get()?);
                Topology::leaf_spine(hosts, one_or_more, spines)
            }
            Shape::Clos => Topology::clos(ClosShape {
                radix: settings.radix.get()?,
                tiers: settings.tiers.get()?,
                oversubscription: settings.oversubscription.get()?,
                pods: settings.pods.optional()?,
            }),
            Shape::Rail => Topology::rail(RailShape {
                rails: settings.rails.get()?,
                servers: settings.servers.get()?,
                servers_per_unit: settings.servers_per_unit.get()?,
                spines: settings.spines.get()?,
            }),
            Shape::Dragonfly => {
                let mut shape = DragonflyShape {
                    hosts_per_switch: one_or_more,
                    switches_per_group: settings.switches_per_group.get()?,
                    global_links: settings.global_links.get()?,
                    groups: 0,
                };
                let most = u32::try_from(shape.groups_max()).unwrap_or(u32::MAX);
                shape.groups = settings.groups.optional()?.unwrap_or(most);
                Topology::dragonfly(shape)
            }
            Shape::DragonflyPlus => {
                Topology::dragonfly_plus(settings.radix.get()?, settings.groups.optional()?)
            }
            Shape::HyperX => Topology::hyperx(&settings.dimensions.get()?, one_or_more),
            Shape::SlimFly => Topology::slim_fly(settings.order.get()?, each),
            Shape::PolarFly => Topology::polar_fly(settings.order.get()?, each),
            Shape::Jellyfish => {
                let shape = JellyfishShape {
                    switches: settings.switches.get()?,
                    hosts_per_switch: one_or_more,
                    switch_links: settings.switch_links.get()?,
                    seed: settings.graph_seed.get()?,
                };
                Topology::jellyfish(shape, equal_paths.unwrap_or_default())
            }
            Shape::Graph => return self.graph(),
        };
        let made = made.map_err(|error| {
            let place = self.cause(&error);
            self.wrong(refusal(&error).at(place))
        })?;
        let made = match equal_paths {
            Some(equal_paths) => made.with_equal_paths(equal_paths),
            None => made,
        };
        self.routed(made).map(Arc::new)
    }

    /// With routes up and down, or with detours, if these are asked for.
    fn routed(&mut self, made: Topology) -> Result<Topology, Absent> {
        let routing = &self.settings.routing;
        match routing.optional()? {
            Some(Routing::Valiant) => Ok(made.with_detours(Detours::Always)),
            Some(Routing::UgalLocal) => Ok(made.with_detours(Detours::ByLocalQueues)),
            Some(Routing::UgalGlobal) => Ok(made.with_detours(Detours::ByAllQueues)),
            Some(Routing::UpDown) => {
                let place = routing.place();
                made.with_up_down()
                    .map_err(|error| self.wrong(refusal(&error).at(place)))
            }
            _ => Ok(made),
        }
    }

    /// The setting that an error is about.
    fn cause(&self, error: &TopologyError) -> Place {
        let settings = self.settings;
        let what = match error {
            TopologyError::TooFewPorts { .. } => return settings.switch_ports.place(),
            TopologyError::NoSuchSize { what, .. } | TopologyError::TooLarge { what, .. } => *what,
            _ => "",
        };
        match what {
            "the order of the field" => settings.order.place(),
            "the number of ports of a switch" => settings.radix.place(),
            "the number of tiers" => settings.tiers.place(),
            "the number of pods" => settings.pods.place(),
            "the number of groups" => settings.groups.place(),
            "the number of links of a switch to others" => settings.switch_links.place(),
            _ => settings.topology.place(),
        }
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
        let shortest = GraphRouting::ShortestPath(equal_paths.unwrap_or(EqualPaths::Hash));
        match routing {
            Routing::Rule => {
                let graph = self.routed_graph(GraphRouting::Rule)?;
                Ok(match equal_paths {
                    Some(paths) => Arc::new(Arc::unwrap_or_clone(graph).with_equal_paths(paths)),
                    None => graph,
                })
            }
            Routing::ShortestPath => self.routed_graph(shortest),
            Routing::UpDown | Routing::Valiant | Routing::UgalLocal | Routing::UgalGlobal => {
                let graph = Arc::unwrap_or_clone(self.routed_graph(shortest)?);
                self.routed(graph).map(Arc::new)
            }
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
        let is_tree = matches!(
            shape,
            Shape::FatTree | Shape::LeafSpine | Shape::Clos | Shape::Rail
        );
        let has_it = match self.settings.routing.optional()? {
            None | Some(Routing::Rule) => true,
            Some(Routing::Valiant | Routing::UgalLocal | Routing::UgalGlobal) => true,
            Some(Routing::UpDown) => is_tree || shape == Shape::Jellyfish,
            Some(Routing::ShortestPath) => shape == Shape::Jellyfish,
            Some(Routing::Table) => false,
        };
        // A graph may be routed in each way: whether it has a rule shows when it is read.
        if has_it || shape == Shape::Graph {
            return Ok(());
        }
        let label = format!("a {} routes by rule", shape.word());
        let help = "leave it out, or write \"valiant\", \"ugal-l\" or \"ugal-g\"; other routes need \
                    topology = \"graph\" and its file";
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
        TopologyError::NoSuchSize {
            what,
            size,
            rule,
            nearest,
        } => {
            let nearest: Vec<String> = nearest.iter().map(u64::to_string).collect();
            Diagnostic::error("there is no network of this size")
                .label(format!("{what} is {size}, but {rule}"))
                .help(format!("write {}", nearest.join(" or ")))
        }
        TopologyError::NoRule => Diagnostic::error("the graph has no rule to route by")
            .label("it is no chain, mesh, torus, fat tree or single switch, numbered as these are")
            .help("write \"shortest-path\", or \"table\" and `routes`"),
        _ => Diagnostic::error("no such network").label(error.to_string()),
    }
}
