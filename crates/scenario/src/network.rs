//! `[network]` made into a topology.

use std::sync::Arc;

use viaduct_sim::workload::{Pattern, PatternError, Targets};
use viaduct_topology::{
    ChainHosts, Finding, FindingKind, Ports, Severity, Topology, TopologyError, TreeShape,
    parse_edge_list, parse_graphml, parse_node_link_json,
};

use crate::diagnostics::{Diagnostic, Diagnostics, Place};
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
        cache.last = Some((key, Arc::new(made), findings));
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

struct Network<'a> {
    settings: &'a Settings,
    files: &'a mut Files,
    diagnostics: &'a mut Diagnostics,
}

impl Network<'_> {
    fn make(&mut self) -> Option<Topology> {
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
        made.map_err(|error| self.refused(&error)).ok()
    }

    /// A graph from its file, with its routes.
    fn graph(&mut self) -> Option<Topology> {
        let path = self.path("file")?;
        let format = self.format(&path)?;
        let text = self.file("file", &path)?;
        let made = match format {
            "json" => parse_node_link_json(&text),
            "graphml" => parse_graphml(&text),
            _ => parse_edge_list(&text),
        };
        let graph = made
            .map_err(|error| self.refused_file("file", &path, &text, &error))
            .ok()?;
        let by_table = match self.settings.value("network", "routing") {
            Some(Value::Choice(routing)) => *routing == "table",
            _ => self.settings.value("network", "routes").is_some(),
        };
        if !by_table {
            return Some(graph);
        }
        let path = self.path("routes")?;
        let text = self.file("routes", &path)?;
        let routed = graph.with_tables(&text);
        routed
            .map_err(|error| self.refused_file("routes", &path, &text, &error))
            .ok()
    }

    fn path(&self, key: &str) -> Option<String> {
        match self.settings.value("network", key)? {
            Value::Text(path) => Some(path.clone()),
            _ => None,
        }
    }

    /// How the graph is written: as said, else by the file's ending.
    fn format(&mut self, path: &str) -> Option<&'static str> {
        if let Some(Value::Choice(format)) = self.settings.value("network", "format") {
            return Some(format);
        }
        let ending = path
            .rsplit_once('.')
            .map_or("", |(_, ending)| ending)
            .to_ascii_lowercase();
        match ending.as_str() {
            "json" => Some("json"),
            "graphml" | "xml" => Some("graphml"),
            "txt" | "list" | "edges" | "edgelist" | "csv" | "tsv" => Some("list"),
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
        let generated = shape != "graph";
        if generated == (*routing == "rule") {
            return true;
        }
        let label = if generated {
            format!("a {shape} routes by rule")
        } else {
            "a graph has no rule".to_owned()
        };
        let help = if generated {
            "leave it out; other routes need topology = \"graph\" and its file"
        } else {
            "write \"shortest-path\", or \"table\" and `routes`"
        };
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
        _ => Diagnostic::error("no such network").label(error.to_string()),
    }
}
