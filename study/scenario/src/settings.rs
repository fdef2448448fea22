//! A tree of raw values read by the list of keys: each value typed, defaults filled in.

use viaduct_hardware::Switching;
use viaduct_network::Sharing;

use crate::adapter::{self, Adapter};
use crate::diagnostics::{DIAGNOSTICS_MAX, Diagnostic, Diagnostics, Place, excerpt, nearest};
use crate::document::{Entry, Node, Raw, Tree};
use crate::endpoints::EndpointTables;
use crate::keys::{self, Fallback, Key, Table};
use crate::network_preset;
use crate::schema::{
    Bus, BusLoad, Cpu, Detection, Hosts, Links, MechanismKind, Memory, Model, Network, Run,
    Scheduling, StudyWords, Switches, Traffic,
};
use crate::section::{AnySetting, Given, KeyState, Section, Setting, Source, Word};
use crate::units::UnitError;
use crate::value::{Kind, Value, as_written};

/// What says the same where a key is not used: the key, with which choice, and what does.
const INSTEAD: [(&str, &str, &str); 4] = [
    (
        "size",
        "arrivals = \"collective\"",
        "`bytes` is the length of the vector",
    ),
    (
        "size",
        "arrivals = \"goal\"",
        "the file says how long each message is",
    ),
    (
        "size",
        "arrivals = \"chakra\"",
        "the trace says how long each message is",
    ),
    (
        "size",
        "arrivals = \"simgrid\"",
        "the trace says how long each message is",
    ),
];

/// What reading needs to know beside the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// The number of the study's text.
    pub(crate) study_source: usize,
    /// The number of the text of the `--set` options.
    pub(crate) set_source: usize,
    /// The hardware is unknown: do not ask for its keys.
    pub(crate) model_missing: bool,
    /// The network's preset is unknown: do not ask for keys of links and switches.
    pub(crate) network_missing: bool,
}

/// A typed scenario: the settings of a study, by table.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) study: StudyWords,
    pub(crate) run: Run,
    pub(crate) network: Network,
    pub(crate) switches: Switches,
    pub(crate) links: Links,
    pub(crate) hosts: Hosts,
    pub(crate) hardware: Hardware,
    pub(crate) bus_load: Option<BusLoad>,
    pub(crate) scheduling: Option<Scheduling>,
    pub(crate) traffic: Traffic,
    pub(crate) detection: Option<Detection>,
}

/// The hardware of a host.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    pub(crate) model: Model,
    pub(crate) cpu: Cpu,
    pub(crate) bus: Bus,
    pub(crate) memory: Option<Memory>,
    pub(crate) adapter: Adapter,
}

impl Hardware {
    /// Reads `[hosts.model]` of a tree, into which a preset's numbers have been put.
    pub(crate) fn read(tree: &Tree, context: Context, diagnostics: &mut Diagnostics) -> Self {
        let mut tables = Tables {
            tree,
            context,
            diagnostics,
        };
        let model: Model = tables.read();
        let is_told = tables.context.model_missing;
        if model.mechanism.known() == Some(MechanismKind::Endpoints) {
            // Theirs is in tables of their own.
            for table in [Cpu::table(), Bus::table()] {
                tables.refuse(table, MechanismKind::Endpoints);
            }
            tables.context.model_missing = true;
        }
        let (cpu, bus) = (tables.read(), tables.read());
        tables.context.model_missing = is_told;
        let memory = tables.read_if_there();
        let adapter = tables.adapter(&model.mechanism);
        Self {
            model,
            cpu,
            bus,
            memory,
            adapter,
        }
    }

    /// All its settings, in the order of the list of keys.
    pub(crate) fn list(&self) -> Vec<&dyn AnySetting> {
        let memory = self.memory.as_ref().map(Section::list);
        let (cpu, bus) = match &self.adapter {
            Adapter::Endpoints(_) => (Vec::new(), Vec::new()),
            _ => (self.cpu.list(), self.bus.list()),
        };
        [
            self.model.list(),
            cpu,
            bus,
            memory.unwrap_or_default(),
            self.adapter.list(),
        ]
        .concat()
    }
}

/// Roots of a study that are no tables of settings.
const OTHER_ROOTS: [&str; 6] = [
    "host_group",
    "published",
    "fault",
    "background",
    "sweep",
    "files",
];

impl Settings {
    /// Reads a tree. What is wrong goes to the diagnostics.
    pub(crate) fn read(tree: &Tree, context: Context, diagnostics: &mut Diagnostics) -> Self {
        unknown_roots(tree, diagnostics);
        let mut tables = Tables {
            tree,
            context,
            diagnostics,
        };
        let (study, run, network) = (tables.read(), tables.read(), tables.read());
        let (switches, links) = (tables.read(), tables.read());
        let hosts = tables.read();
        let hardware = Hardware::read(tree, context, tables.diagnostics);
        Self {
            study,
            run,
            network,
            switches,
            links,
            hosts,
            hardware,
            bus_load: tables.read_if_there(),
            scheduling: tables.read_if_there(),
            traffic: tables.read(),
            detection: tables.read_if_there(),
        }
    }

    /// All settings, in the order of the list of keys.
    pub(crate) fn list(&self) -> Vec<&dyn AnySetting> {
        let optional = |section: Option<Vec<_>>| section.unwrap_or_default();
        [
            self.study.list(),
            self.run.list(),
            self.network.list(),
            self.switches.list(),
            self.links.list(),
            self.hosts.list(),
            self.hardware.list(),
            optional(self.bus_load.as_ref().map(Section::list)),
            optional(self.scheduling.as_ref().map(Section::list)),
            self.traffic.list(),
            optional(self.detection.as_ref().map(Section::list)),
        ]
        .concat()
    }

    /// The value at a path that a user wrote: `traffic.size`.
    pub(crate) fn at_path(&self, path: &str) -> Option<Value> {
        let (table, key) = path.rsplit_once('.')?;
        let list = self.list();
        let mut found = list.into_iter().filter(|setting| setting.key().name == key);
        found.find(|setting| setting.table().name == table)?.value()
    }
}

/// Reads the tables of a study.
struct Tables<'a> {
    tree: &'a Tree,
    context: Context,
    diagnostics: &'a mut Diagnostics,
}

impl Tables<'_> {
    fn read_if_there<S: Section>(&mut self) -> Option<S> {
        self.tree.at_path(S::table().name)?;
        Some(self.read())
    }

    /// The table of the adapter's mechanism; one of another mechanism has no effect.
    fn adapter(&mut self, mechanism: &Setting<MechanismKind>) -> Adapter {
        let kind = mechanism.known().unwrap_or(MechanismKind::Native);
        for (other, table) in adapter::tables() {
            if other != kind {
                self.refuse(table, kind);
            }
        }
        match kind {
            MechanismKind::Native => Adapter::Native(self.read()),
            MechanismKind::RemoteWrites => Adapter::RemoteWrites(self.read()),
            MechanismKind::Firmware => Adapter::Firmware(self.read()),
            MechanismKind::Kernel => Adapter::Kernel(self.read()),
            MechanismKind::Rdma => Adapter::Rdma(self.read()),
            MechanismKind::Endpoints => Adapter::Endpoints(EndpointTables {
                endpoints: self.read(),
                interface: self.read(),
                host: self.read(),
                network: self.read(),
                transport: self.read_if_there(),
            }),
        }
    }

    /// A table that says nothing to adapters of a mechanism.
    fn refuse(&mut self, table: &Table, kind: MechanismKind) {
        let entry = self.tree.at_path(table.name);
        if let Some(entry) = entry.filter(|entry| !entry.overridden) {
            let word = kind.word();
            self.diagnostics.push(
                Diagnostic::error(format!("[{}] has no effect here", table.name))
                    .at(entry.name_place)
                    .label(format!("the adapter is of mechanism {word}"))
                    .help("leave the table out, or name a preset of its mechanism in hosts.nic"),
            );
        }
    }

    fn read<S: Section>(&mut self) -> S {
        let table = S::table();
        let entry = self.tree.at_path(table.name);
        let empty = Tree::default();
        let (subtree, is_misshapen) = match entry.map(|entry| (entry, &entry.node.raw)) {
            Some((_, Raw::Table(subtree))) => (subtree, false),
            Some((entry, raw)) => {
                self.diagnostics.push(
                    Diagnostic::error(format!("`{}` is a table of keys", table.name))
                        .at(entry.node.place)
                        .label(format!("this is {}", raw.noun()))
                        .help(match (table.name, raw) {
                            ("hosts.model", Raw::Text(name)) => {
                                let name = excerpt(name);
                                format!("a preset is named in [hosts]: nic = \"{name}\"")
                            }
                            _ => format!("its keys: viaduct keys {}", table.name),
                        }),
                );
                (&empty, true)
            }
            None => {
                let mut entries = self.tree.entries.iter().take(DIAGNOSTICS_MAX);
                let is_slip = entries.any(|entry| root_meant(entry) == Some(table.name));
                (&empty, is_slip || self.is_within_misshapen(table.name))
            }
        };
        let model_missing = self.context.model_missing && table.name.starts_with("hosts.model");
        let mut of_networks = network_preset::tables().into_iter();
        let network_missing =
            self.context.network_missing && of_networks.any(|it| std::ptr::eq(it, table));
        Reader {
            table,
            keys: table.keys.iter(),
            subtree,
            set_source: self.context.set_source,
            around: entry.map_or(whole(self.context.study_source), |entry| entry.name_place),
            is_told: is_misshapen || model_missing || network_missing,
            choices: Vec::new(),
            missing: Vec::new(),
            diagnostics: self.diagnostics,
        }
        .read()
    }
}

impl Tables<'_> {
    /// Whether a table around the one of this name is none in this text, which is said there.
    fn is_within_misshapen(&self, name: &str) -> bool {
        name.match_indices('.').any(|(end, _)| {
            let around = self.tree.at_path(&name[..end]);
            around.is_some_and(|entry| !matches!(entry.node.raw, Raw::Table(_)))
        })
    }
}

/// A text as a whole.
const fn whole(source: usize) -> Place {
    Place {
        source,
        start: 0,
        end: 0,
    }
}

/// Reads one row of a list of tables.
pub(crate) fn read_row<S: Section>(row: &Tree, place: Place, diagnostics: &mut Diagnostics) -> S {
    let table = S::table();
    Reader {
        table,
        keys: table.keys.iter(),
        subtree: row,
        set_source: usize::MAX,
        around: place,
        is_told: false,
        choices: Vec::new(),
        missing: Vec::new(),
        diagnostics,
    }
    .read()
}

/// Reads the keys of one table.
struct Reader<'a> {
    table: &'static Table,
    keys: std::slice::Iter<'static, Key>,
    subtree: &'a Tree,
    set_source: usize,
    /// The head of the table, or the whole text.
    around: Place,
    /// Why the table's keys are not there has been said: it is there in another shape or under a
    /// slip of its name, or its preset is missing.
    is_told: bool,
    /// The words of the choices read so far.
    choices: Vec<(&'static Key, KeyState<&'static str>)>,
    missing: Vec<&'static Key>,
    diagnostics: &'a mut Diagnostics,
}

/// Whether a key counts.
enum Applies {
    Yes,
    No,
    /// What decides it is left out.
    Unknown,
    /// What decides it is wrong.
    Wrong,
}

impl Source for Reader<'_> {
    fn next_key(&mut self) -> Setting<Value> {
        // A section has as many fields as its table has keys: one list makes both.
        let key = self.keys.next().unwrap_or(&self.table.keys[0]);
        let entry = self.subtree.find(key.name);
        let applies = self.applies(key);
        if let (Some(entry), Applies::No) = (entry, &applies)
            && !self.counts_at_others(key, entry)
            && !self.choice_was_overridden(entry)
        {
            let diagnostic = self.without_effect(key, entry);
            self.diagnostics.push(diagnostic);
        }
        let (state, given) = match (entry, applies) {
            (_, Applies::No) => (KeyState::Unset, None),
            (Some(entry), _) => {
                self.excluded(key, entry);
                let given = Given {
                    place: entry.node.place,
                    written: as_written(&entry.node),
                };
                (self.value(key, entry), Some(given))
            }
            (None, Applies::Yes) => match key.fallback {
                Fallback::Value(text) => {
                    let chosen = self.chosen(key).map(Value::Choice);
                    let value = chosen.or_else(|| default_value(key, text));
                    (value.map_or(KeyState::Unset, KeyState::Value), None)
                }
                Fallback::Otherwise(_) if self.is_told || self.is_meant(key) => {
                    (KeyState::Wrong, None)
                }
                Fallback::Otherwise(_) => (KeyState::Unset, None),
                Fallback::Required => {
                    self.missing.push(key);
                    (KeyState::Wrong, None)
                }
            },
            (None, Applies::Unknown) => (KeyState::Unset, None),
            (None, Applies::Wrong) => (KeyState::Wrong, None),
        };
        if matches!(key.kind, Kind::Choice(_)) {
            let word = match &state {
                KeyState::Value(Value::Choice(word)) => KeyState::Value(*word),
                KeyState::Wrong => KeyState::Wrong,
                _ => KeyState::Unset,
            };
            self.choices.push((key, word));
        }
        Setting::new((self.table, key), state, given, self.around)
    }
}

impl Reader<'_> {
    fn read<S: Section>(mut self) -> S {
        unknown_keys(self.table, self.subtree, self.diagnostics);
        let section = S::read(&mut self);
        self.missing();
        section
    }

    /// What the keys that are given choose here, if they agree.
    fn chosen(&self, key: &Key) -> Option<&'static str> {
        let given = self
            .table
            .keys
            .iter()
            .filter(|other| other.chooses && self.subtree.find(other.name).is_some());
        let mut words = given
            .flat_map(|other| &other.when)
            .filter_map(|(governing, words)| {
                (*governing == key.name).then(|| words.first().copied())?
            });
        let first = words.next()?;
        words.all(|word| word == first).then_some(first)
    }

    /// A choice that was read, by its name.
    fn choice(&self, name: &str) -> Option<(&'static Key, KeyState<&'static str>)> {
        let mut choices = self.choices.iter().copied();
        choices.find(|(key, _)| key.name == name)
    }

    fn applies(&self, key: &Key) -> Applies {
        for (governing, words) in &key.when {
            let Some((governing, word)) = self.choice(governing) else {
                continue;
            };
            match word {
                KeyState::Value(word) if words.contains(&word) => {}
                KeyState::Value(_) => return Applies::No,
                // What decides it may itself not count here.
                KeyState::Unset | KeyState::Wrong => {
                    return match (self.applies(governing), word) {
                        (Applies::No, _) => Applies::No,
                        (_, KeyState::Wrong) => Applies::Wrong,
                        _ => Applies::Unknown,
                    };
                }
            }
        }
        Applies::Yes
    }

    /// Whether the key stands in the file while `--set` or a sweep chose another variant of its
    /// table: then it is left over and no mistake.
    fn choice_was_overridden(&self, entry: &Entry) -> bool {
        !entry.overridden
            && self.table.keys.iter().any(|key| {
                (matches!(key.kind, Kind::Choice(_)) || key.chooses)
                    && self
                        .subtree
                        .find(key.name)
                        .is_some_and(|other| other.overridden)
            })
    }

    /// Whether the key does not count because of a choice that is swept, and does at other points.
    fn counts_at_others(&self, key: &Key, entry: &Entry) -> bool {
        let excluding = self.excluding(key).map(|(governing, _)| governing.name);
        entry.counts_with.is_some() && entry.counts_with == excluding
    }

    fn without_effect(&self, key: &Key, entry: &Entry) -> Diagnostic {
        let (condition, used_with) = self
            .excluding(key)
            .map(|(governing, word)| (format!("{} = \"{word}\"", governing.name), key.used_with()))
            .unwrap_or_default();
        let heading = self.table.heading();
        let mut instead = INSTEAD.iter();
        let instead = instead.find(|(name, with, _)| *name == key.name && *with == condition);
        Diagnostic::error(format!("`{}` in {heading} has no effect here", key.name))
            .at(entry.name_place)
            .label(format!("not used with {condition}"))
            .help(match instead {
                Some((.., words)) => format!("leave it out: {words}"),
                None => format!("leave it out, or write {used_with}"),
            })
    }

    /// The choice with which a key is not used, and its word.
    fn excluding(&self, key: &Key) -> Option<(&'static Key, &'static str)> {
        key.when.iter().find_map(|(governing, words)| {
            let (governing, word) = self.choice(governing)?;
            match word {
                KeyState::Value(word) if !words.contains(&word) => Some((governing, word)),
                KeyState::Value(_) => None,
                KeyState::Unset | KeyState::Wrong => self.excluding(governing),
            }
        })
    }

    fn excluded(&mut self, key: &Key, entry: &Entry) {
        for other in key.excludes {
            let Some(other) = self.subtree.find(other.key()) else {
                continue;
            };
            // Said once, at the later of the two.
            if other.name_place < entry.name_place {
                let (name, earlier) = (key.name, &other.name);
                let heading = self.table.heading();
                let title = format!("`{name}` and `{earlier}` in {heading} exclude each other");
                let help = if self.table.name == Links::table().name {
                    "write `rate`, after line coding, or `signal_rate` and `coding`".to_owned()
                } else {
                    format!("leave out `{name}` or `{earlier}`")
                };
                self.diagnostics.push(
                    Diagnostic::error(title)
                        .at(entry.name_place)
                        .label(format!("`{earlier}` stands above"))
                        .help(help),
                );
            }
        }
    }

    fn value(&mut self, key: &'static Key, entry: &Entry) -> KeyState<Value> {
        let node = self.unwrapped(entry);
        let bare_frequency = node.place.source == self.set_source;
        match key.kind.read(node, bare_frequency) {
            Ok(value) => KeyState::Value(value),
            Err(error) => {
                self.diagnostics
                    .push(bad_value(self.table, key, node, &error));
                KeyState::Wrong
            }
        }
    }

    /// The value itself of `{ value = .., source = .., confidence = .. }`, which numbers of the
    /// hardware may be.
    fn unwrapped<'n>(&self, entry: &'n Entry) -> &'n Node {
        match &entry.node.raw {
            Raw::Table(sourced) if self.table.name.starts_with("hosts.model.") => sourced
                .find("value")
                .map_or(&entry.node, |value| &value.node),
            _ => &entry.node,
        }
    }

    /// Whether an entry is a slip in this key, of which is said where it stands.
    fn is_meant(&self, key: &Key) -> bool {
        let mut entries = self.subtree.entries.iter().take(DIAGNOSTICS_MAX);
        entries.any(|entry| key_meant(self.table, entry) == Some(key.name))
    }

    /// Complains of the keys that are due and not there, in one message.
    fn missing(&mut self) {
        if self.is_told {
            return;
        }
        // A slip in a key is said where it stands.
        let meant: Vec<&str> = self
            .subtree
            .entries
            .iter()
            .take(DIAGNOSTICS_MAX)
            .filter_map(|entry| key_meant(self.table, entry))
            .collect();
        let keys = self.missing.iter().copied();
        let keys: Vec<&Key> = keys.filter(|key| !meant.contains(&key.name)).collect();
        let table = self.table.name;
        let heading = self.table.heading();
        let (title, help) = match keys[..] {
            [] => return,
            [key] => (
                format!("missing key `{}` in {heading}", key.name),
                format!("add {}: {}", example(key), key.meaning),
            ),
            _ => {
                let names: Vec<String> = keys.iter().map(|key| format!("`{}`", key.name)).collect();
                let title = format!("missing keys in {heading}: {}", names.join(", "));
                (title, format!("what they mean: viaduct keys {table}"))
            }
        };
        self.diagnostics
            .push(Diagnostic::error(title).at(self.around).help(help));
    }
}

/// A line to add for a key that is missing.
fn example(key: &Key) -> String {
    let name = key.name;
    match &key.kind {
        Kind::Choice(choices) => format!("`{name} = ...`, one of {}", choices.join(", ")),
        Kind::Time => format!("`{name} = \"10 ms\"` or another time"),
        Kind::Size(_) => format!("`{name} = \"32 KiB\"` or another size"),
        Kind::Count(..) | Kind::CountOrUnlimited(..) => {
            format!("`{name} = 4` or another number")
        }
        Kind::Counts => format!("`{name} = [16, 16]` or other numbers"),
        Kind::Rate | Kind::RateOrInfinite => format!("`{name} = \"856 Mbit/s\"` or another rate"),
        kind => format!("`{name} = ...` ({})", kind.describe()),
    }
}

/// The value of a default of the list of keys.
pub(crate) fn default_value(key: &Key, text: &str) -> Option<Value> {
    let raw = match key.kind {
        Kind::Count(..) | Kind::CountOrUnlimited(..) | Kind::Real => Raw::Number(text.to_owned()),
        Kind::Boolean => Raw::Boolean(text == "true"),
        _ => Raw::Text(text.to_owned()),
    };
    let place = Place {
        source: usize::MAX,
        start: 0,
        end: 0,
    };
    key.kind.read(&Node { place, raw }, false).ok()
}

/// The message of a value that could not be read.
pub(crate) fn bad_value(table: &Table, key: &Key, node: &Node, error: &UnitError) -> Diagnostic {
    let title = format!("bad value for `{}` in {}", key.name, table.heading());
    let diagnostic = Diagnostic::error(title)
        .at(node.place)
        .label(error.problem.clone());
    if let Some(lesson) = lesson(table, key, node) {
        return diagnostic.help(lesson);
    }
    match &error.suggestion {
        Some(suggestion) => diagnostic.help(format!("did you mean {suggestion}?")),
        None => diagnostic,
    }
}

/// What is often meant by a value that stands at the wrong key.
fn lesson(table: &Table, key: &Key, node: &Node) -> Option<String> {
    let Raw::Text(text) = &node.raw else {
        return None;
    };
    let path = format!("{}.{}", table.name, key.name);
    if path == Links::model.path() && Switching::of_word(text).is_some() {
        Some(format!(
            "`model` says how flows share a link, `switching` when they move on: \
             write switching = \"{text}\""
        ))
    } else if path == Links::switching.path() && Sharing::of_word(text).is_some() {
        Some(format!(
            "`switching` says when a message moves on, `model` how flows share a link: \
             write model = \"{text}\""
        ))
    } else {
        None
    }
}

/// Names that may stand at the root of a study.
fn roots() -> impl Iterator<Item = &'static str> {
    let tables = keys::setting_tables().map(|table| table.name);
    tables.filter(|name| !name.contains('.')).chain(OTHER_ROOTS)
}

/// The table that an unknown one at the root is probably meant to be.
fn root_meant(entry: &Entry) -> Option<&'static str> {
    let is_table = matches!(entry.node.raw, Raw::Table(_) | Raw::Array(_));
    if !is_table || roots().any(|root| root == entry.name) {
        return None;
    }
    nearest(&entry.name, roots())
}

fn unknown_roots(tree: &Tree, diagnostics: &mut Diagnostics) {
    for entry in &tree.entries {
        if roots().any(|root| root == entry.name) {
            continue;
        }
        if diagnostics.is_full() {
            return;
        }
        let name = excerpt(&entry.name);
        let is_table = matches!(entry.node.raw, Raw::Table(_) | Raw::Array(_));
        let diagnostic = if is_table {
            Diagnostic::error(format!("unknown table [{name}]"))
        } else {
            Diagnostic::error(format!("key `{name}` stands outside any table"))
        };
        let help = match (home_of(&entry.name), root_meant(entry)) {
            (Some(table), _) if !is_table => format!("it belongs into [{}]", table.name),
            (_, Some(near)) => format!("did you mean [{near}]? all tables: viaduct keys"),
            (Some(table), None) => {
                format!("`{name}` is a key of [{}]: viaduct keys {0}", table.name)
            }
            _ => "all tables and keys: viaduct keys".to_owned(),
        };
        diagnostics.push(diagnostic.at(entry.name_place).help(help));
    }
}

/// The only table that has a key of this name.
fn home_of(name: &str) -> Option<&'static Table> {
    let mut tables = keys::setting_tables().filter(|table| table.find(name).is_some());
    let table = tables.next()?;
    tables.next().is_none().then_some(table)
}

/// Tables directly inside a table.
fn subtables(table: &Table) -> impl Iterator<Item = &'static str> {
    keys::tables().iter().filter_map(|other| {
        let rest = other.name.strip_prefix(table.name)?.strip_prefix('.')?;
        (!rest.contains('.')).then_some(rest)
    })
}

/// Whether a table has a key or a table of this name.
fn is_known(table: &Table, name: &str) -> bool {
    table.find(name).is_some() || subtables(table).any(|subtable| subtable == name)
}

/// The key or table that an unknown key of a table is probably meant to be.
fn key_meant(table: &'static Table, entry: &Entry) -> Option<&'static str> {
    if is_known(table, &entry.name) {
        return None;
    }
    nearest_in(table, &entry.name)
}

fn nearest_in(table: &'static Table, name: &str) -> Option<&'static str> {
    nearest(
        name,
        table
            .keys
            .iter()
            .map(|key| key.name)
            .chain(subtables(table)),
    )
}

/// The key whose symbol in papers a name is: "q: elements of the field" is that of `order`.
fn symbol_of(table: &'static Table, name: &str) -> Option<&'static str> {
    let has_symbol =
        |meaning: &str| matches!(meaning.split_once(": "), Some((symbol, _)) if symbol == name);
    let key = table.keys.iter().find(|key| has_symbol(key.meaning))?;
    Some(key.name)
}

/// Complains of the keys that a table does not have.
fn unknown_keys(table: &'static Table, subtree: &Tree, diagnostics: &mut Diagnostics) {
    for entry in subtree
        .entries
        .iter()
        .filter(|entry| !is_known(table, &entry.name))
    {
        // Looking for what was meant takes its time: not for each of a million.
        if diagnostics.is_full() {
            return;
        }
        diagnostics.push(unknown_key(table, &entry.name).at(entry.name_place));
    }
}

/// The message of an unknown key, without a place.
pub(crate) fn unknown_key(table: &'static Table, name: &str) -> Diagnostic {
    let all = format!("all keys: viaduct keys {}", table.name);
    let near = symbol_of(table, name).or_else(|| nearest_in(table, name));
    let help = match (near, home_of(name)) {
        (Some(near), _) => format!("did you mean `{near}`? {all}"),
        (None, Some(home)) => format!("[{}] has a key of this name; {all}", home.name),
        (None, None) => all,
    };
    let name = excerpt(name);
    let heading = table.heading();
    Diagnostic::error(format!("unknown key `{name}` in {heading}")).help(help)
}
