//! A tree of raw values read by the list of keys: each value typed, defaults filled in.

use viaduct_engine::Time;
use viaduct_sim::config::Rate;

use crate::diagnostics::{DIAGNOSTICS_MAX, Diagnostic, Diagnostics, Place, excerpt, nearest};
use crate::document::{Entry, Node, Raw, Tree};
use crate::keys::{self, Fallback, Key, Table};
use crate::units::UnitError;
use crate::value::{Kind, Value, as_written};

/// One key of the scenario.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) table: &'static Table,
    pub(crate) key: &'static Key,
    /// None where the key does not count, or its fallback is none.
    pub(crate) value: Option<Value>,
    /// Where and how it is given, if it is.
    pub(crate) given: Option<Given>,
}

/// How a value was given.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) place: Place,
    pub(crate) written: String,
}

/// What reading needs to know beside the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// The number of the study's text.
    pub(crate) study_source: usize,
    /// The number of the text of the `--set` options.
    pub(crate) set_source: usize,
    /// The hardware is unknown: do not ask for its keys.
    pub(crate) model_missing: bool,
}

/// All settings, in the order of the list of keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) list: Vec<Setting>,
    /// Optional tables that are there.
    present: Vec<&'static str>,
    /// Headers of tables, for what is missing in them.
    headers: Vec<(&'static str, Place)>,
    /// Tables that are there in another shape or under a slip of their name: that is said once,
    /// and not for each of their keys.
    misshapen: Vec<&'static str>,
    study_source: usize,
}

/// Roots of a study that are no tables of settings.
const OTHER_ROOTS: [&str; 5] = ["published", "fault", "background", "sweep", "files"];

impl Settings {
    /// Reads a tree. What is wrong goes to the diagnostics; its value is then none.
    pub(crate) fn read(tree: &Tree, context: Context, diagnostics: &mut Diagnostics) -> Self {
        let mut settings = Self {
            study_source: context.study_source,
            ..Self::default()
        };
        unknown_roots(tree, diagnostics);
        for table in keys::setting_tables() {
            let entry = tree.at_path(table.name);
            let empty = Tree::default();
            let subtree = match entry.map(|entry| &entry.node.raw) {
                Some(Raw::Table(subtree)) => subtree,
                Some(_) => {
                    diagnostics.extend_not_a_table(table, entry);
                    settings.misshapen.push(table.name);
                    &empty
                }
                None if table.optional => continue,
                None => {
                    if tree
                        .entries
                        .iter()
                        .take(DIAGNOSTICS_MAX)
                        .any(|entry| root_meant(entry) == Some(table.name))
                    {
                        settings.misshapen.push(table.name);
                    }
                    &empty
                }
            };
            if table.optional {
                settings.present.push(table.name);
            }
            if let Some(entry) = entry {
                settings.headers.push((table.name, entry.name_place));
            }
            unknown_keys(table, subtree, diagnostics);
            let reader = Reader {
                table,
                subtree,
                context,
                header: entry.map(|e| e.name_place),
            };
            reader.read(&mut settings, diagnostics);
        }
        settings
    }

    /// Reads one row of a list of tables.
    pub(crate) fn of_row(
        table: &'static Table,
        row: &Tree,
        place: Place,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut settings = Self {
            study_source: place.source,
            headers: vec![(table.name, place)],
            ..Self::default()
        };
        unknown_keys(table, row, diagnostics);
        let reader = Reader {
            table,
            subtree: row,
            context: Context {
                study_source: place.source,
                set_source: usize::MAX,
                model_missing: false,
            },
            header: Some(place),
        };
        reader.read(&mut settings, diagnostics);
        settings
    }

    /// The setting of a key of the list.
    pub(crate) fn find(&self, table: &str, key: &str) -> Option<&Setting> {
        self.list
            .iter()
            .find(|setting| setting.table.name == table && setting.key.name == key)
    }

    /// The value of a key that is a time.
    pub(crate) fn time(&self, table: &str, key: &str) -> Option<Time> {
        match self.value(table, key)? {
            Value::Time(time) => Some(*time),
            _ => None,
        }
    }

    /// The value of a key that is a rate.
    pub(crate) fn rate(&self, table: &str, key: &str) -> Option<Rate> {
        match self.value(table, key)? {
            Value::Rate(rate) => Some(*rate),
            _ => None,
        }
    }

    /// The value of a key.
    pub(crate) fn value(&self, table: &str, key: &str) -> Option<&Value> {
        self.find(table, key)?.value.as_ref()
    }

    /// Where the value of a key stands, if it is given.
    pub(crate) fn place(&self, table: &str, key: &str) -> Option<Place> {
        Some(self.find(table, key)?.given.as_ref()?.place)
    }

    /// Where the value of a key stands; else the head of its table; else the study's text.
    pub(crate) fn place_or_table(&self, table: &str, key: &str) -> Place {
        let header = || {
            self.headers
                .iter()
                .find(|(name, _)| *name == table)
                .map(|(_, place)| *place)
        };
        let whole = Place {
            source: self.study_source,
            start: 0,
            end: 0,
        };
        self.place(table, key).or_else(header).unwrap_or(whole)
    }

    /// Whether an optional table is there.
    pub(crate) fn is_present(&self, table: &str) -> bool {
        self.present.contains(&table)
    }

    /// Whether what a table lacks need not be said.
    pub(crate) fn is_misshapen(&self, table: &str) -> bool {
        self.misshapen.contains(&table)
    }

    /// Says that a key follows from another one that is given, which then no longer counts.
    pub(crate) fn derive(&mut self, table: &str, key: &str, value: Value, from: &str) {
        let given = self
            .find(table, from)
            .and_then(|setting| setting.given.clone());
        self.assign(table, from, None);
        let found = |setting: &&mut Setting| setting.table.name == table && setting.key.name == key;
        if let Some(setting) = self.list.iter_mut().find(found) {
            setting.value = Some(value);
            setting.given = given;
        }
    }

    /// Puts a value that follows from others; it stays marked as not given.
    pub(crate) fn assign(&mut self, table: &str, key: &str, value: Option<Value>) {
        let found = |setting: &&mut Setting| setting.table.name == table && setting.key.name == key;
        if let Some(setting) = self.list.iter_mut().find(found) {
            setting.value = value;
        }
    }
}

impl Diagnostics {
    fn extend_not_a_table(&mut self, table: &Table, entry: Option<&Entry>) {
        let Some(entry) = entry else { return };
        self.push(
            Diagnostic::error(format!("`{}` is a table of keys", table.name))
                .at(entry.node.place)
                .label(format!("this is {}", entry.node.raw.noun()))
                .help(format!("its keys: viaduct keys {}", table.name)),
        );
    }
}

/// Reads the keys of one table.
struct Reader<'a> {
    table: &'static Table,
    subtree: &'a Tree,
    context: Context,
    header: Option<Place>,
}

/// Whether a key counts.
enum Applies {
    Yes,
    No,
    /// What decides it is itself wrong or missing.
    Unknown,
}

impl Reader<'_> {
    fn read(&self, settings: &mut Settings, diagnostics: &mut Diagnostics) {
        let mut missing = Vec::new();
        for key in &self.table.keys {
            let entry = self.subtree.find(key.name);
            let applies = self.applies(key, settings);
            if let (Some(entry), Applies::No) = (entry, &applies)
                && !self.choice_was_overridden(entry)
            {
                diagnostics.push(self.without_effect(key, entry, settings));
            }
            let (value, given) = match (entry, applies) {
                (_, Applies::No) => (None, None),
                (Some(entry), _) => {
                    self.excluded(key, entry, diagnostics);
                    (self.value(key, entry, diagnostics), Some(given(entry)))
                }
                (None, Applies::Yes) => match key.fallback {
                    Fallback::Value(text) => (default_value(key, text), None),
                    Fallback::Otherwise(_) => (None, None),
                    Fallback::Required => {
                        missing.push(key);
                        (None, None)
                    }
                },
                (None, Applies::Unknown) => (None, None),
            };
            settings.list.push(Setting {
                table: self.table,
                key,
                value,
                given,
            });
        }
        self.missing(&missing, settings, diagnostics);
    }

    fn applies(&self, key: &Key, settings: &Settings) -> Applies {
        for (governing, choices) in &key.when {
            match settings.value(self.table.name, governing) {
                Some(Value::Choice(choice)) if choices.contains(choice) => {}
                Some(_) => return Applies::No,
                // What decides it may itself not count here.
                None => {
                    return match self
                        .table
                        .find(governing)
                        .map(|key| self.applies(key, settings))
                    {
                        Some(Applies::No) => Applies::No,
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
                matches!(key.kind, Kind::Choice(_))
                    && self
                        .subtree
                        .find(key.name)
                        .is_some_and(|other| other.overridden)
            })
    }

    fn without_effect(&self, key: &Key, entry: &Entry, settings: &Settings) -> Diagnostic {
        let condition = self.excluding(key, settings).unwrap_or_default();
        let heading = self.table.heading();
        Diagnostic::error(format!("`{}` in {heading} has no effect here", key.name))
            .at(entry.name_place)
            .label(format!("not used with {condition}"))
            .help(format!("leave it out, or write {}", key.used_with()))
    }

    /// The choice with which a key is not used.
    fn excluding(&self, key: &Key, settings: &Settings) -> Option<String> {
        key.when.iter().find_map(|(governing, choices)| {
            let setting = settings.find(self.table.name, governing)?;
            match &setting.value {
                Some(Value::Choice(choice)) if !choices.contains(choice) => {
                    Some(format!("{governing} = \"{choice}\""))
                }
                Some(_) => None,
                None => self.excluding(setting.key, settings),
            }
        })
    }

    fn excluded(&self, key: &Key, entry: &Entry, diagnostics: &mut Diagnostics) {
        for other in key.excludes {
            let Some(other) = self.subtree.find(other) else {
                continue;
            };
            // Said once, at the later of the two.
            if other.name_place < entry.name_place {
                let (name, earlier) = (key.name, &other.name);
                let table = self.table.name;
                let heading = self.table.heading();
                let title = format!("`{name}` and `{earlier}` in {heading} exclude each other");
                let help = match table {
                    "links" => {
                        "write `rate`, after line coding, or `signal_rate` and `coding`".to_owned()
                    }
                    _ => format!("leave out `{name}` or `{earlier}`"),
                };
                diagnostics.push(
                    Diagnostic::error(title)
                        .at(entry.name_place)
                        .label(format!("`{earlier}` stands above"))
                        .help(help),
                );
            }
        }
    }

    fn value(
        &self,
        key: &'static Key,
        entry: &Entry,
        diagnostics: &mut Diagnostics,
    ) -> Option<Value> {
        let node = self.unwrapped(entry)?;
        let bare_frequency = node.place.source == self.context.set_source;
        match key.kind.read(node, bare_frequency) {
            Ok(value) => Some(value),
            Err(error) => {
                diagnostics.push(bad_value(self.table, key, node, &error));
                None
            }
        }
    }

    /// The value itself of `{ value = .., source = .., confidence = .. }`, which numbers of the
    /// hardware may be.
    fn unwrapped<'n>(&self, entry: &'n Entry) -> Option<&'n Node> {
        match &entry.node.raw {
            Raw::Table(sourced) if self.table.name.starts_with("hosts.model.") => Some(
                sourced
                    .find("value")
                    .map_or(&entry.node, |value| &value.node),
            ),
            _ => Some(&entry.node),
        }
    }

    /// Complains of the keys that are due and not there, in one message.
    fn missing(&self, keys: &[&'static Key], settings: &Settings, diagnostics: &mut Diagnostics) {
        let table = self.table.name;
        let model_missing = self.context.model_missing && table.starts_with("hosts.model");
        if model_missing || settings.is_misshapen(table) {
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
        let keys: Vec<&Key> = keys
            .iter()
            .copied()
            .filter(|key| !meant.contains(&key.name))
            .collect();
        let whole = Place {
            source: self.context.study_source,
            start: 0,
            end: 0,
        };
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
        let place = self.header.unwrap_or(whole);
        diagnostics.push(Diagnostic::error(title).at(place).help(help));
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

fn given(entry: &Entry) -> Given {
    Given {
        place: entry.node.place,
        written: as_written(&entry.node),
    }
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
    match (table.name, key.name, text.as_str()) {
        ("links", "model", "store-and-forward" | "cut-through") => Some(format!(
            "`model` says how flows share a link, `switching` when they move on: \
             write switching = \"{text}\""
        )),
        ("links", "switching", "fluid" | "max-min") => Some(format!(
            "`switching` says when a message moves on, `model` how flows share a link: \
             write model = \"{text}\""
        )),
        _ => None,
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
    let help = match (nearest_in(table, name), home_of(name)) {
        (Some(near), _) => format!("did you mean `{near}`? {all}"),
        (None, Some(home)) => format!("it belongs into [{}]; {all}", home.name),
        (None, None) => all,
    };
    let name = excerpt(name);
    let heading = table.heading();
    Diagnostic::error(format!("unknown key `{name}` in {heading}")).help(help)
}
