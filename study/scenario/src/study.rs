//! A study: read, checked, and ready to run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_cluster::workload::ListedMessage;
use viaduct_network::Sharing;
use viaduct_operations::{Graph, goal};
use viaduct_topology::Topology;

use crate::build;
use crate::builtin;
use crate::checks;
use crate::diagnostics::{Diagnostic, Diagnostics, Place, Severity, excerpt, nearest};
use crate::document::{self, Node, Raw, Tree};
use crate::endpoints;
use crate::faults::Disturbances;
use crate::files::{self, Files};
use crate::host_groups::{self, Group};
use crate::keys::{self, Fallback};
use crate::message_list::message_list_csv;
use crate::network::TopologyCache;
use crate::network_preset;
use crate::overrides::{self, Override, Setter};
use crate::preset;
use crate::published::{self, Published, Role};
use crate::schema::{Hosts, StudyWords};
use crate::section::{AnySetting, KeyName, Section, Setting, Word};
use crate::settings::{Context, Settings, default_value};

/// Most points of a sweep.
pub const CELLS_MAX: usize = 10_000;

/// A study, or one point of its sweep.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its name: that of the built-in study or of the file.
    pub name: String,
    /// One line that names it; empty if the file has none.
    pub title: String,
    /// What it answers; empty if the file does not say.
    pub question: String,
    /// Where its set-up and figures come from; empty if the file does not say.
    pub source: String,
    /// What the simulator is told. Of a study with a sweep: its first point, but for what the file
    /// gives beside the sweep.
    pub config: ClusterConfig,
    /// The keys that it runs over, the first one slowest; empty if it is one run.
    pub sweep: Vec<SweepAxis>,
    /// Of a point of a sweep: the swept keys and their values here, in the sweep's order.
    pub point: Vec<(String, String)>,
    /// Published figures, those that do not belong to this point included.
    pub published: Vec<Published>,
    /// What the user should know, never errors; of a study with a sweep, what its points say.
    pub warnings: Diagnostics,
    settings: Settings,
    files: Arc<BTreeMap<String, Arc<str>>>,
    /// The path in whose place a network was handed in; only the whole scenario needs its text.
    handed_in: Option<String>,
    /// The path that stands for a list of messages, or a graph of operations, that was handed in.
    handed_in_list: Option<String>,
    /// Hosts that differ from the others.
    pub(crate) groups: Vec<Group>,
    /// Its faults and background traffic as they were read, as TOML.
    disturbances: String,
    /// The level of its network's preset, if it has one.
    network_level: Option<Sharing>,
    cells: Vec<Self>,
    own_sources: [usize; 2],
}

/// A key that a study runs over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SweepAxis {
    /// The whole path: `traffic.size`.
    pub key: String,
    /// Its values, as a person writes them.
    pub values: Vec<String>,
}

/// A setting that is not its key's default.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// The whole path: `traffic.size`.
    pub key: String,
    /// Its value, as a person writes it.
    pub value: String,
    /// The default, or what holds without the key; none if the key must be given.
    pub default: Option<String>,
    /// What the key means.
    pub meaning: &'static str,
}

impl Study {
    /// Whether the study itself says when its traffic stops.
    pub(crate) const fn stops_traffic(&self) -> bool {
        self.settings.traffic.stop.is_given()
    }

    /// Reads a study: one that is built in, by its name, or a file.
    ///
    /// Overrides are put over the file's values; one that is swept replaces the sweep of its key,
    /// and a fixed one ends it.
    ///
    /// # Errors
    ///
    /// All that is wrong with the study, its overrides and the files it names.
    pub fn load(name_or_path: &str, overrides: &[Override]) -> Result<Self, Diagnostics> {
        if let Some(text) = builtin::study(name_or_path) {
            let file_name = format!("studies/{name_or_path}.toml");
            return Input {
                name: name_or_path,
                file_name: &file_name,
                text,
                overrides,
            }
            // It names no file itself; an override may, as seen from where the command is.
            .load(Files::on_disk(Path::new("")));
        }
        let path = Path::new(name_or_path);
        let text = match files::read_text(path) {
            Ok(text) => text,
            Err(reason) => return Err(no_study(name_or_path, &reason)),
        };
        let name = path
            .file_stem()
            .map_or("study".into(), |stem| stem.to_string_lossy());
        let base = path.parent().unwrap_or(Path::new(""));
        Input {
            name: &name,
            file_name: name_or_path,
            text: &text,
            overrides,
        }
        .load(Files::on_disk(base))
    }

    /// Reads what [`Study::resolved_toml`] wrote; no file is opened.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn from_resolved(text: &str) -> Result<Self, Diagnostics> {
        parse_study(text)
    }

    /// How its links are shared, if it says so itself.
    pub(crate) fn given_sharing(&self) -> Option<Sharing> {
        let model = &self.settings.links.model;
        model.is_given().then(|| model.known()).flatten()
    }

    /// Whether its network may be computed at a level, by the preset that it names.
    #[must_use]
    pub fn fits_level(&self, level: &str) -> bool {
        let of_preset = self.network_level;
        of_preset.is_none_or(|it| {
            Sharing::of_word(level).is_none_or(|level| network_preset::fits(it, level))
        })
    }

    /// The points of the sweep, the first key slowest; the study itself if it has no sweep.
    #[must_use]
    pub fn cells(&self) -> Vec<Self> {
        if self.cells.is_empty() {
            vec![self.clone()]
        } else {
            self.cells.clone()
        }
    }

    /// The value of a key, by its whole path, as a person writes it; none where the key does not
    /// count or nothing is set.
    #[must_use]
    pub fn value(&self, path: &str) -> Option<String> {
        Some(self.settings.at_path(path)?.plain())
    }

    /// The published figures that belong to this study, or to this point of its sweep.
    pub fn published_here(&self) -> impl Iterator<Item = &Published> {
        self.published
            .iter()
            .filter(|published| published.holds_for(&self.settings))
            .filter(|published| !self.is_changed_for(published))
    }

    /// Whether the command line changed what the figure was published for.
    ///
    /// How long a run lasts, and its seed, leave results alone; a figure of context, such as a
    /// count of events, belongs to the whole run.
    fn is_changed_for(&self, published: &Published) -> bool {
        let [_, command_line] = self.own_sources;
        let list = self.settings.list().into_iter();
        list.filter(|setting| {
            let given = setting.given();
            given.is_some_and(|given| given.place.source == command_line)
        })
        .any(|setting| {
            let (table, key) = (setting.table().name, setting.key().name);
            let run = &self.settings.run;
            let is_harmless = match published.role {
                Role::Context => is_same(setting, &run.seed),
                Role::Given | Role::Result | Role::Predicted => table == run.seed.table.name,
            };
            let path = format!("{table}.{key}");
            !is_harmless && !published.at.iter().any(|(at, _)| *at == path)
        })
    }

    /// What was given and is not the default, but for the words of `[study]`.
    #[must_use]
    pub fn differences_from_defaults(&self) -> Vec<Difference> {
        let mut differences = Vec::new();
        for setting in self.settings.list() {
            let (Some(value), Some(given)) = (setting.value(), setting.given()) else {
                continue;
            };
            let (table, key) = (setting.table(), setting.key());
            // Numbers of a preset come from its own text.
            if table.name == StudyWords::table().name
                || !self.own_sources.contains(&given.place.source)
            {
                continue;
            }
            let default = match key.fallback {
                Fallback::Value(text) if default_value(key, text).as_ref() == Some(&value) => {
                    continue;
                }
                Fallback::Required => None,
                Fallback::Value(text) | Fallback::Otherwise(text) => Some(text.to_owned()),
            };
            differences.push(Difference {
                key: format!("{}.{}", table.name, key.name),
                value: value.plain(),
                default,
                meaning: key.meaning,
            });
        }
        differences
    }

    /// The whole scenario as TOML: each key with its value, the hardware's numbers in it, and the
    /// files it names. It runs again from this text alone, to the same result. The sweep is left
    /// out: this is one run.
    #[must_use]
    pub fn resolved_toml(&self) -> String {
        let mut text = String::from("# A scenario in full: it runs again from this text alone.\n");
        let (study, hosts) = (&self.settings.study, &self.settings.hosts);
        let mut head = None;
        for setting in self.settings.list() {
            if head != Some(setting.table().name) {
                head = Some(setting.table().name);
                text.push_str(&format!("\n[{}]\n", setting.table().name));
            }
            let line = match setting.value() {
                Some(_) if is_same(setting, &hosts.nic) => document::quote(preset::INLINE),
                Some(value) => value.to_toml(),
                None if is_same(setting, &study.name) => document::quote(&self.name),
                None => continue,
            };
            // Whether somebody set it decides what drops are called: not set it stays. All that a
            // network's preset gives is written out.
            let (links, traffic) = (&self.settings.links, &self.settings.traffic);
            // So it decides whether packets of endpoints share links; no level is asked of those.
            let of_interfaces = self.config.interfaces.is_some();
            let is_comment = is_same(setting, &hosts.prepost) && !hosts.prepost.is_given()
                || of_interfaces && is_same(setting, &links.model) && !links.model.is_given()
                || of_interfaces
                    && is_same(setting, &traffic.reliability)
                    && !traffic.reliability.is_given()
                || is_same(setting, &links.preset);
            let mark = if is_comment { "# " } else { "" };
            text.push_str(&format!("{mark}{} = {line}\n", setting.key().name));
        }
        text.push_str(&host_groups::to_toml(&self.groups));
        text.push_str(&self.disturbances);
        for published in &self.published {
            text.push_str(&published.to_toml());
        }
        let files = self.carried_files();
        if !files.is_empty() {
            text.push_str("\n[files]\n");
        }
        for (path, content) in files {
            text.push_str(&document::quote(&path));
            text.push_str(" = ");
            text.push_str(&document::quote(&content));
            text.push('\n');
        }
        text
    }

    /// The texts of the files that it names, by path, a network that was handed in among them: with
    /// these it is read again where no file can be opened.
    #[must_use]
    pub fn carried_files(&self) -> BTreeMap<String, String> {
        let named = self.files.iter();
        let mut files: BTreeMap<String, String> = named
            .map(|(path, content)| (path.clone(), content.to_string()))
            .collect();
        if let Some(path) = &self.handed_in {
            files.insert(path.clone(), self.config.topology.to_node_link_json());
        }
        match (&self.handed_in_list, &self.config.traffic.arrivals) {
            (Some(path), Arrivals::Listed(list)) => {
                files.insert(path.clone(), message_list_csv(list.messages()));
            }
            (Some(path), Arrivals::Application(application)) => {
                files.insert(path.clone(), goal_text(application.graph()));
            }
            _ => {}
        }
        files
    }
}

/// Reads a study's text; nothing else is opened: files that it names must be carried in its
/// `[files]`. What [`Study::resolved_toml`] wrote is read by this.
///
/// # Errors
///
/// All that is wrong with it.
pub fn parse_study(text: &str) -> Result<Study, Diagnostics> {
    parse_study_with(text, &[])
}

/// As [`parse_study`], with overrides put over the text's values.
///
/// # Errors
///
/// All that is wrong with the text and the overrides.
pub fn parse_study_with(text: &str, overrides: &[Override]) -> Result<Study, Diagnostics> {
    let input = Input {
        name: "study",
        file_name: "study.toml",
        text,
        overrides,
    };
    input.load(Files::carried())
}

/// What a program hands in, each in place of the text of the file that has this path: no text is
/// read, and none is made but for [`Study::resolved_toml`].
#[derive(Clone, Debug, Default)]
pub struct HandedIn<'a> {
    /// For `network.file`.
    pub network: Option<(&'a str, Arc<Topology>)>,
    /// For `traffic.file`.
    pub messages: Option<(&'a str, Arc<[ListedMessage]>)>,
    /// For `traffic.file`, too: what has no ring of operations that wait for each other.
    pub graph: Option<(&'a str, Arc<Graph>)>,
    /// Texts of other files, by the path that the study writes; what is not here lies on disk.
    pub files: Option<&'a BTreeMap<String, String>>,
}

/// As [`parse_study_with`], of a study named `name` with what is handed in for it. Other files that
/// it names lie on disk.
///
/// # Errors
///
/// All that is wrong with the text and the overrides.
pub fn parse_study_on(
    name: &str,
    text: &str,
    overrides: &[Override],
    handed_in: HandedIn<'_>,
) -> Result<Study, Diagnostics> {
    let mut files = Files::on_disk(Path::new(""));
    if let Some((path, network)) = handed_in.network {
        files.hand_in(path, network);
    }
    if let Some((path, messages)) = handed_in.messages {
        files.hand_in_messages(path, messages);
    }
    if let Some((path, graph)) = handed_in.graph {
        files.hand_in_application(path, graph);
    }
    for (path, text) in handed_in.files.into_iter().flatten() {
        files.carry(path, text);
    }
    let input = Input {
        name,
        file_name: name,
        text,
        overrides,
    };
    input.load(files)
}

/// A graph as the text of a GOAL file.
fn goal_text(graph: &Graph) -> String {
    let mut text = Vec::new();
    // Memory takes all that is written, and it is ASCII.
    let _ = goal::write_text(graph, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// The built-in studies: name, title and question.
#[must_use]
pub fn list_studies() -> Vec<(&'static str, String, String)> {
    let describe = |&(name, text): &(&'static str, &str)| {
        // Only the words are needed; making a network of a million hosts for them would be slow.
        let mut diagnostics = Diagnostics::default();
        let (_, tree) = document::parse(name, text, &mut diagnostics);
        let tree = tree.unwrap_or_default();
        let words = |key: KeyName| match tree.at_path(&key.path()).map(|entry| &entry.node.raw) {
            Some(Raw::Text(text)) => text.clone(),
            _ => String::new(),
        };
        (name, words(StudyWords::title), words(StudyWords::question))
    };
    builtin::STUDIES.iter().map(describe).collect()
}

/// What to say of a word that is no study that is built in, and no file that can be read.
pub(crate) fn no_study(name: &str, reason: &str) -> Diagnostics {
    let mut diagnostics = Diagnostics::default();
    let path = Path::new(name);
    // What is there was meant, and is no slip in the name of a study.
    if path.exists() {
        let mut error =
            Diagnostic::error(format!("cannot read the study {}: {reason}", excerpt(name)));
        if path.join("summary.json").exists() {
            error = error.help(format!("to run it again: viaduct rerun {}", excerpt(name)));
        }
        diagnostics.push(error);
        return diagnostics;
    }
    let names = || builtin::STUDIES.iter().map(|(name, _)| *name);
    let near =
        nearest(name, names()).map_or(String::new(), |near| format!("did you mean {near}? "));
    let all: Vec<&str> = names().collect();
    diagnostics.push(
        Diagnostic::error(format!("no study {}: {reason}", excerpt(name)))
            .help(format!("{near}built in are {}", all.join(", "))),
    );
    diagnostics
}

/// The text of a study and what is put over it.
pub(crate) struct Input<'a> {
    pub(crate) name: &'a str,
    pub(crate) file_name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) overrides: &'a [Override],
}

/// A study whose text was read, and of which no point was made yet.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) frame: Frame,
    pub(crate) tree: Tree,
    pub(crate) axes: Vec<Setter>,
}

/// What stays the same over the points of a sweep.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) name: String,
    published: Vec<Published>,
    pub(crate) diagnostics: Diagnostics,
    study_source: usize,
    pub(crate) set_source: usize,
    pub(crate) files: Files,
    topologies: TopologyCache,
}

/// A point: the values put in place of the tree's.
pub(crate) type Point<'a> = Vec<(&'a Setter, &'a Node)>;

impl Input<'_> {
    /// Reads the text and the overrides: what is swept, and what the points are made from.
    pub(crate) fn open(self, mut files: Files) -> Result<Opened, Diagnostics> {
        let mut diagnostics = Diagnostics::default();
        let (study_source, tree) = document::parse(self.file_name, self.text, &mut diagnostics);
        let (set_source, setters) = overrides::read(self.overrides, &mut diagnostics);
        let Some(mut tree) = tree else {
            return Err(diagnostics);
        };
        carry_files(&mut tree, &mut files, &mut diagnostics);
        let published = published::read(&mut tree, &mut diagnostics);
        let mut axes = published::read_sweep(&mut tree, &mut diagnostics);
        axes.retain(|axis| overrides::has_row(&tree, axis, &mut diagnostics));
        let mut fixed = Vec::new();
        for setter in setters {
            let excluded = keys::excluded_by(&setter.path);
            axes.retain(|axis| axis.path != setter.path && !excluded.contains(&axis.path));
            if !overrides::has_row(&tree, &setter, &mut diagnostics) {
                continue;
            }
            if setter.swept {
                axes.push(setter);
            } else {
                fixed.push(setter);
            }
        }
        for setter in &fixed {
            if let [node] = &setter.values[..] {
                overrides::put(&mut tree, &setter.path, setter.name_place, node.clone());
            }
            let choice = axes.iter().find_map(|axis| setter.choice_of(axis));
            if let Some(choice) = choice {
                tree.may_count_with(&setter.path, choice);
            }
        }
        let cell_count = axes.iter().try_fold(1_usize, |count, axis| {
            count
                .checked_mul(axis.values.len())
                .filter(|&count| count <= CELLS_MAX)
        });
        if let (None, Some(axis)) = (cell_count, axes.last()) {
            let title = format!("the sweep has more than {CELLS_MAX} points");
            diagnostics.push(Diagnostic::error(title).at(axis.name_place));
            return Err(diagnostics);
        }
        let frame = Frame {
            name: self.name.to_owned(),
            published,
            diagnostics,
            study_source,
            set_source,
            files,
            topologies: TopologyCache::default(),
        };
        Ok(Opened { frame, tree, axes })
    }

    fn load(self, files: Files) -> Result<Study, Diagnostics> {
        let Opened {
            mut frame,
            tree,
            axes,
        } = self.open(files)?;
        // A key that is only swept has its first value in the study itself.
        let mut base = Point::new();
        for axis in &axes {
            if let (None, Some(first)) = (tree.at_path(&axis.path), axis.values.first()) {
                base.push((axis, first));
            }
        }
        let study = frame.resolve(&tree, &base);
        let mut cells = Vec::new();
        if study.is_some() {
            for point in points(&axes) {
                cells.extend(frame.resolve(&tree, &point));
            }
        }
        match study {
            Some(mut study) if !frame.diagnostics.has_errors() => {
                study.point.clear();
                if !axes.is_empty() {
                    // Its points are run, it is not.
                    study.warnings = frame.diagnostics.same_sources();
                    for cell in &cells {
                        study.warnings.absorb(&cell.warnings, Severity::Warning);
                    }
                    study.cells = cells;
                }
                let set_source = frame.set_source;
                let plain = |axis: &Setter, node: &Node| value_text(&axis.path, node, set_source);
                study.sweep = axes
                    .iter()
                    .map(|axis| SweepAxis {
                        key: axis.path.clone(),
                        values: axis.values.iter().map(|node| plain(axis, node)).collect(),
                    })
                    .collect();
                Ok(study)
            }
            _ => Err(frame.diagnostics),
        }
    }
}

/// Whether a setting is that of this key.
fn is_same<T>(setting: &dyn AnySetting, of: &Setting<T>) -> bool {
    std::ptr::eq(setting.key(), of.key)
}

/// A swept value as a person writes it.
pub(crate) fn value_text(path: &str, node: &Node, set_source: usize) -> String {
    let read = keys::key_at(path)
        .and_then(|(_, key)| key.kind.read(node, node.place.source == set_source).ok());
    read.map_or_else(|| crate::value::as_written(node), |value| value.plain())
}

/// All points of a sweep, the first axis slowest.
fn points(axes: &[Setter]) -> Vec<Point<'_>> {
    let mut points = vec![Point::new()];
    for axis in axes {
        let mut longer = Vec::with_capacity(points.len() * axis.values.len());
        for point in &points {
            for node in &axis.values {
                let mut point = point.clone();
                point.push((axis, node));
                longer.push(point);
            }
        }
        points = longer;
    }
    points
}

impl Frame {
    /// Reads the tree with a point's values in it; errors go to the diagnostics.
    fn resolve(&mut self, tree: &Tree, point: &Point<'_>) -> Option<Study> {
        let mut diagnostics = self.diagnostics.same_sources();
        let study = self.resolve_into(tree, point, &mut diagnostics);
        let failed = diagnostics.has_errors();
        self.diagnostics.absorb(&diagnostics, Severity::Error);
        let mut study = study.filter(|_| !failed)?;
        study.warnings = diagnostics;
        Some(study)
    }

    pub(crate) fn resolve_into(
        &mut self,
        tree: &Tree,
        point: &Point<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Study> {
        let mut tree = tree.clone();
        for (axis, node) in point {
            overrides::put(&mut tree, &axis.path, axis.name_place, (*node).clone());
        }
        let default_nic = keys::key_at(&Hosts::nic.path());
        let default_nic = default_nic.map_or("", |(_, key)| key.default_text());
        let merged = preset::merge(&mut tree, default_nic, &mut self.files, diagnostics);
        let network = network_preset::merge(&mut tree, &mut self.files, diagnostics);
        let context = Context {
            study_source: self.study_source,
            set_source: self.set_source,
            model_missing: merged.is_none(),
            network_missing: network.is_none(),
        };
        let mut settings = Settings::read(&tree, context, diagnostics);
        let groups = host_groups::read(&tree, context, &mut self.files, diagnostics);
        let config = build::build(
            &mut settings,
            &groups,
            &mut self.files,
            &mut self.topologies,
            diagnostics,
        );
        checks::check(
            &settings,
            &groups,
            config.as_ref(),
            &mut self.topologies,
            diagnostics,
        );
        let mut config = config?;
        let disturbances =
            Disturbances::read(&tree, &settings, &config, &mut self.files, diagnostics);
        if !disturbances.slow_links.is_empty() {
            let slow = disturbances.slow_links.iter().map(|(link, factor)| {
                let rate = config.links.rate_of(&config.topology, *link);
                (*link, rate.bits_per_second() / factor)
            });
            let rates = slow.collect();
            config.topology = Arc::new(Topology::clone(&config.topology).with_link_rates(rates));
        }
        config.faults = disturbances.faults;
        config.background = disturbances.background;
        config.detection = disturbances.detection;
        if let Some(interfaces) = &config.interfaces
            && config.traffic.application().is_some()
            && let Err(refused) = interfaces.check(&config)
        {
            let error = Diagnostic::error("interfaces with endpoints cannot do that");
            let error = error.at(endpoints::place_of(&settings, refused.asked));
            let error = error.label(refused.reason);
            diagnostics.push(match refused.help {
                Some(help) => error.help(help),
                None => error,
            });
        }
        let words = |key: &Setting<String>| key.known().unwrap_or_default();
        let study = &settings.study;
        let own_name = words(&study.name);
        let plain = |(axis, node): &(&Setter, &Node)| {
            (
                axis.path.clone(),
                value_text(&axis.path, node, self.set_source),
            )
        };
        Some(Study {
            name: if own_name.is_empty() {
                self.name.clone()
            } else {
                own_name
            },
            title: words(&study.title),
            question: words(&study.question),
            source: words(&study.source),
            config,
            sweep: Vec::new(),
            point: point.iter().map(plain).collect(),
            published: self.published.clone(),
            warnings: Diagnostics::default(),
            files: Arc::new(self.files.used().clone()),
            handed_in: settings
                .network
                .file
                .known()
                .filter(|path| self.files.graph(path).is_some()),
            handed_in_list: settings.traffic.file.known().filter(|path| {
                self.files.messages(path).is_some()
                    || self.files.handed_in_application(path).is_some()
            }),
            settings,
            disturbances: disturbances.toml,
            network_level: network.flatten(),
            groups,
            cells: Vec::new(),
            own_sources: [self.study_source, self.set_source],
        })
    }
}

/// Takes the texts of [files] out of the tree.
fn carry_files(tree: &mut Tree, files: &mut Files, diagnostics: &mut Diagnostics) {
    let wrong = |place: Place, what: &str| {
        let error = Diagnostic::error("[files] holds texts by path").at(place);
        error.label(format!("this is {what}"))
    };
    if let Some(entry) = tree.find("files") {
        match &entry.node.raw {
            Raw::Table(carried) => {
                for file in &carried.entries {
                    match &file.node.raw {
                        Raw::Text(text) => files.carry(&file.name, text),
                        raw => diagnostics.push(wrong(file.node.place, raw.noun())),
                    }
                }
            }
            raw => diagnostics.push(wrong(entry.node.place, raw.noun())),
        }
    }
    tree.remove("files");
}
