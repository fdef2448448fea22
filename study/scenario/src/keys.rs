//! Every key of a study and of a preset: the one list behind reading, `viaduct keys`, suggestions
//! and the resolved scenario.

use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::document;
use crate::schema::{self, HostGroup, Hosts, Model, PublishedRow};
use crate::section::{KeyName, Section};
use crate::value::Kind;

/// A key.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name in its table.
    pub name: &'static str,
    /// What may stand there.
    pub kind: Kind,
    /// What holds when it is not given.
    pub fallback: Fallback,
    /// The key counts only where these keys of its table have one of these values.
    pub when: Vec<(&'static str, Vec<&'static str>)>,
    /// Keys of its table that may not stand beside it.
    pub excludes: &'static [KeyName],
    /// Where it is given and the choice that it counts with is not, that is chosen: it counts with
    /// one word alone.
    pub(crate) chooses: bool,
    /// What it means, one line.
    pub meaning: &'static str,
}

/// What holds when a key is not given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fallback {
    /// It must be given.
    Required,
    /// This value, written without quotes.
    Value(&'static str),
    /// What these words say.
    Otherwise(&'static str),
}

/// Whether a table must be there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Presence {
    /// Left out, its defaults hold, and keys without one are missing.
    Always,
    /// Leaving it out means something of its own.
    Optional,
    /// A file has any number of it, each a row of a list.
    Rows,
}

/// A table of keys.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name: `traffic`, `hosts.model.nic`.
    pub name: &'static str,
    /// What it is about, one line.
    pub meaning: &'static str,
    pub(crate) presence: Presence,
    /// Its keys, in the order in which they are read and written.
    pub keys: Vec<Key>,
}

impl Table {
    /// The choice at a path, if a key of this table counts with some words of it and not with
    /// others; and whether it may with one of those given.
    pub(crate) fn choice_for(
        &self,
        key: &Key,
        path: &str,
        given: &[&str],
    ) -> Option<(&'static str, bool)> {
        key.when.iter().find_map(|(governing, words)| {
            if path.strip_prefix(self.name) == Some(&format!(".{governing}")) {
                return Some((*governing, given.iter().any(|word| words.contains(word))));
            }
            let mut keys = self.keys.iter();
            let governing = keys.find(|other| other.name == *governing)?;
            self.choice_for(governing, path, given)
        })
    }

    /// Whether it is of the rows of a list.
    pub(crate) fn is_list(&self) -> bool {
        self.presence == Presence::Rows
    }

    /// Its name where it stands in a preset's file: `cpu`, `memory`.
    pub(crate) fn root(&self) -> &'static str {
        crate::section::root(self.name)
    }

    /// How a file heads it: `[traffic]`, `[[fault]]`.
    pub(crate) fn heading(&self) -> String {
        if self.is_list() {
            return format!("[[{}]]", self.root());
        }
        format!("[{}]", self.name)
    }

    /// The key of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Key {
    /// A key that must be given, before its section names it.
    pub(crate) fn new(kind: Kind, meaning: &'static str) -> Self {
        Self {
            name: "",
            kind,
            fallback: Fallback::Required,
            when: Vec::new(),
            excludes: &[],
            chooses: false,
            meaning,
        }
    }

    /// Where the key counts: `pattern = "hot-spot"`; empty if everywhere.
    #[must_use]
    pub fn used_with(&self) -> String {
        let condition = |(key, choices): &(&str, Vec<&str>)| {
            let choices: Vec<String> = choices.iter().map(|c| format!("\"{c}\"")).collect();
            format!("{key} = {}", choices.join(" or "))
        };
        self.when
            .iter()
            .map(condition)
            .collect::<Vec<_>>()
            .join(" and ")
    }

    /// The fallback in words.
    #[must_use]
    pub fn default_text(&self) -> &'static str {
        match self.fallback {
            Fallback::Required => "required",
            Fallback::Value(value) => value,
            Fallback::Otherwise(words) => words,
        }
    }
}

/// All tables of a study, in the order in which they are read and written.
#[must_use]
pub fn tables() -> &'static [&'static Table] {
    &TABLES
}

/// The table of a name.
#[must_use]
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().copied().find(|table| table.name == name)
}

/// A key by its whole path: `traffic.size`; in a row of a list, `fault[0].at`.
#[must_use]
pub fn key_at(path: &str) -> Option<(&'static Table, &'static Key)> {
    let (name, key) = path.rsplit_once('.')?;
    let table = table_at(name)?;
    Some((table, table.find(key)?))
}

/// The table at a path, where `fault[0]` is a row of a list. The hardware of a group of hosts,
/// `host_group[0].model.nic`, has the keys of that of all hosts.
fn table_at(path: &str) -> Option<&'static Table> {
    let (first, rest) = path
        .split_once('.')
        .map_or((path, None), |(first, rest)| (first, Some(rest)));
    let (list, row) = document::split_row(first);
    if row.is_none() {
        return table(path);
    }
    match rest {
        None => list_named(list),
        Some(rest) if list == HostGroup::table().root() => {
            let hosts = Hosts::table().root();
            table(&format!("{hosts}.{rest}"))
                .filter(|table| table.name.starts_with(Model::table().name))
        }
        Some(_) => None,
    }
}

/// The paths of what may not stand beside the key at a path.
pub(crate) fn excluded_by(path: &str) -> Vec<String> {
    let around = path.rsplit_once('.').map_or("", |(around, _)| around);
    let excludes = key_at(path).map_or(&[][..], |(_, key)| key.excludes);
    let beside = |other: &KeyName| format!("{around}.{}", other.key());
    excludes.iter().map(beside).collect()
}

/// The list of a name whose rows change a run: not that of published figures.
pub(crate) fn list_named(name: &str) -> Option<&'static Table> {
    table(name).filter(|table| table.is_list() && table.name != PublishedRow::table().name)
}

/// Tables that hold settings of a study; lists, and `sweep` and `files`, stand beside them.
pub(crate) fn setting_tables() -> impl Iterator<Item = &'static Table> {
    TABLES
        .iter()
        .copied()
        .filter(|table| !table.is_list() && !table.name.starts_with("preset"))
}

/// What `viaduct keys` and `viaduct keys TABLE` print.
///
/// # Errors
///
/// When there is no such table: a line that says which there are.
pub fn keys_text(only: Option<&str>) -> Result<String, String> {
    let mut text = String::new();
    if let Some(name) = only.map(|name| name.trim_matches(['[', ']'])) {
        let Some(table) = table(name) else {
            let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
            let near = crate::diagnostics::nearest(name, names.iter().copied());
            let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
            return Err(format!(
                "no table `{name}`; {near}tables: {}",
                names.join(", ")
            ));
        };
        write_table(&mut text, table);
        return Ok(text);
    }
    for table in TABLES.iter() {
        if !text.is_empty() {
            text.push('\n');
        }
        write_table(&mut text, table);
    }
    text.push_str(
        "\n[sweep]\n  \"TABLE.KEY\" = [value, ...]: the values that the study runs over\n",
    );
    text.push_str("\n[files]\n  \"PATH\" = text: files that the study names, carried along\n");
    Ok(text)
}

fn write_table(text: &mut String, table: &Table) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "[{}]  {}", table.name, table.meaning);
    let width = table
        .keys
        .iter()
        .map(|key| key.name.len())
        .max()
        .unwrap_or(0);
    for key in &table.keys {
        let _ = writeln!(text, "  {:width$}  {}", key.name, key.meaning);
        let used_with = key.used_with();
        let used = if used_with.is_empty() {
            String::new()
        } else {
            format!("; with {used_with}")
        };
        let kind = key.kind.describe();
        let default = match key.default_text() {
            // A study gives single numbers; a preset gives them all.
            "required" if table.name.starts_with("hosts.model.") => "the preset's",
            "" => "none",
            text => text,
        };
        let _ = writeln!(text, "  {:width$}    {kind}; default: {default}{used}", "");
    }
}

static TABLES: LazyLock<Vec<&'static Table>> = LazyLock::new(schema::list);
