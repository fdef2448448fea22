//! A TOML text as a tree in which each value knows its place.

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::diagnostics::{Diagnostic, Diagnostics, Place, excerpt};
use crate::foreign;

/// Longest text that is read, bytes. A resolved scenario may carry a graph of millions of links.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// Errors of syntax that are told: one slip may lead to many, and the first ones say which.
const ERRORS_MAX: usize = 10;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) raw: Raw,
}

/// A value as TOML has it.
#[derive(Clone, Debug)]
pub(crate) enum Raw {
    Text(String),
    /// An integer or float, as written.
    Number(String),
    Boolean(bool),
    Datetime(String),
    Array(Vec<Node>),
    Table(Tree),
}

impl Raw {
    /// What it is, for messages.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Number(_) => "a number",
            Self::Boolean(_) => "true or false",
            Self::Datetime(_) => "a date",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    fn as_table(&self) -> Option<&Tree> {
        match self {
            Self::Table(tree) => Some(tree),
            _ => None,
        }
    }

    fn as_table_mut(&mut self) -> Option<&mut Tree> {
        match self {
            Self::Table(tree) => Some(tree),
            _ => None,
        }
    }
}

/// A table, in the order of its text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) name_place: Place,
    pub(crate) node: Node,
    /// Whether the value was put in place of what the text says.
    pub(crate) overridden: bool,
    /// The choice that is swept and at some of whose words it counts: at others it is no mistake.
    pub(crate) counts_with: Option<&'static str>,
}

impl Tree {
    /// The entry of a name.
    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The value at a path of table names and a key. A row of a list is `name[number]`.
    pub(crate) fn at_path(&self, path: &str) -> Option<&Entry> {
        match path.split_once('.') {
            None => self.find(path),
            Some((first, rest)) => self.table(first)?.at_path(rest),
        }
    }

    /// The table of a name, or a row of a list: `name[number]`.
    fn table(&self, name: &str) -> Option<&Self> {
        let (name, row) = split_row(name);
        match (&self.find(name)?.node.raw, row) {
            (Raw::Array(rows), Some(row)) => rows.get(row)?.raw.as_table(),
            (raw, None) => raw.as_table(),
            (_, Some(_)) => None,
        }
    }

    /// The same, to change it.
    fn table_mut(&mut self, name: &str) -> Option<&mut Self> {
        let (name, row) = split_row(name);
        let entry = self.entries.iter_mut().find(|entry| entry.name == name)?;
        match (&mut entry.node.raw, row) {
            (Raw::Array(rows), Some(row)) => rows.get_mut(row)?.raw.as_table_mut(),
            (raw, None) => raw.as_table_mut(),
            (_, Some(_)) => None,
        }
    }

    /// How many rows a list of tables has.
    pub(crate) fn row_count(&self, name: &str) -> usize {
        match self.find(name).map(|entry| &entry.node.raw) {
            Some(Raw::Array(rows)) => rows.len(),
            _ => 0,
        }
    }

    /// Puts a value at a path, making the tables on the way, but no rows; what is no table there is
    /// replaced.
    pub(crate) fn set(&mut self, path: &str, name_place: Place, node: Node) {
        let (first, rest) = match path.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (path, None),
        };
        let (name, row) = split_row(first);
        let index = self.entries.iter().position(|entry| entry.name == name);
        let index = index.unwrap_or_else(|| {
            let empty = Node {
                place: name_place,
                raw: Raw::Table(Self::default()),
            };
            let name = name.to_owned();
            self.entries.push(Entry {
                name,
                name_place,
                node: empty,
                overridden: false,
                counts_with: None,
            });
            self.entries.len() - 1
        });
        let entry = &mut self.entries[index];
        let Some(rest) = rest else {
            entry.name_place = name_place;
            entry.node = node;
            entry.overridden = true;
            return;
        };
        let place = match (&mut entry.node.raw, row) {
            (Raw::Array(rows), Some(row)) => rows.get_mut(row),
            _ => Some(&mut entry.node),
        };
        let Some(place) = place else { return };
        if !matches!(place.raw, Raw::Table(_)) {
            place.raw = Raw::Table(Self::default());
        }
        if let Raw::Table(tree) = &mut place.raw {
            tree.set(rest, name_place, node);
        }
    }

    /// The value at a path counts with some words of a choice that is swept.
    pub(crate) fn may_count_with(&mut self, path: &str, choice: &'static str) {
        if let Some(entry) = self.at_path_mut(path) {
            entry.counts_with = Some(choice);
        }
    }

    /// Puts a value at a path where the text has none, as if it had it.
    pub(crate) fn add(&mut self, path: &str, name_place: Place, node: Node) {
        self.set(path, name_place, node);
        if let Some(entry) = self.at_path_mut(path) {
            entry.overridden = false;
        }
    }

    fn at_path_mut(&mut self, path: &str) -> Option<&mut Entry> {
        let (first, rest) = match path.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (path, None),
        };
        let mut entries = self.entries.iter_mut();
        let entry = entries.find(|entry| entry.name == first)?;
        let Some(rest) = rest else {
            return Some(entry);
        };
        match &mut entry.node.raw {
            Raw::Table(tree) => tree.at_path_mut(rest),
            _ => None,
        }
    }

    /// Takes a value away.
    pub(crate) fn remove(&mut self, path: &str) {
        match path.split_once('.') {
            None => self.entries.retain(|entry| entry.name != path),
            Some((first, rest)) => {
                if let Some(tree) = self.table_mut(first) {
                    tree.remove(rest);
                }
            }
        }
    }
}

/// The name of a table, and which row of a list: `fault[2]` is the third row of `[[fault]]`.
pub(crate) fn split_row(name: &str) -> (&str, Option<usize>) {
    let split = || {
        let (list, row) = name.strip_suffix(']')?.split_once('[')?;
        Some((list, row.parse().ok()?))
    };
    split().map_or((name, None), |(list, row)| (list, Some(row)))
}

/// Reads a TOML text; what is wrong goes to the diagnostics, all of it.
pub(crate) fn parse(
    name: &str,
    text: &str,
    diagnostics: &mut Diagnostics,
) -> (usize, Option<Tree>) {
    if text.len() > TEXT_BYTES_MAX {
        let source = diagnostics.add_source(name, "");
        let title = format!("{} is longer than {TEXT_BYTES_MAX} B", excerpt(name));
        diagnostics.push(Diagnostic::error(title));
        return (source, None);
    }
    let source = diagnostics.add_source(name, text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return (source, Some(tree(source, table.get_ref())));
    }
    if let Some(foreign) = foreign::recognise(text) {
        let place = Place {
            source,
            start: foreign.line.start,
            end: foreign.line.end,
        };
        let error = Diagnostic::error(format!("not TOML: this is {}", foreign.noun));
        diagnostics.push(error.at(place).help(foreign.help));
        return (source, None);
    }
    diagnostics.leave_out(errors.len().saturating_sub(ERRORS_MAX));
    for error in errors.into_iter().take(ERRORS_MAX) {
        let span = error.span().unwrap_or(0..0);
        let place = Place {
            source,
            start: span.start,
            end: span.end,
        };
        let (problem, expected) = match error.message().split_once(", expected ") {
            Some((problem, expected)) => (problem, Some(expected)),
            None => (error.message(), None),
        };
        let mut diagnostic = Diagnostic::error(format!("not TOML: {problem}")).at(place);
        if let Some(expected) = expected {
            diagnostic = diagnostic.label(format!("expected {expected}"));
        }
        let line_start = text
            .get(..span.start)
            .and_then(|head| head.rfind('\n'))
            .map_or(0, |n| n + 1);
        let line = text
            .get(line_start..)
            .and_then(|tail| tail.lines().next())
            .unwrap_or("");
        if let Some(help) = quote_help(line) {
            diagnostic = diagnostic.help(help);
        }
        diagnostics.push(diagnostic);
    }
    (source, None)
}

/// The commonest slip: `until = 10 ms`, without quotes.
fn quote_help(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let value = value.trim();
    let bare = !value.is_empty() && value.len() < 60 && !value.contains(['"', '\'', '[', '{', '#']);
    bare.then(|| {
        format!(
            "quantities and words stand in quotes: {} = \"{value}\"",
            key.trim()
        )
    })
}

fn tree(source: usize, table: &DeTable<'_>) -> Tree {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(name, value)| Entry {
            name: name.get_ref().to_string(),
            name_place: place(source, name),
            node: node(source, value),
            overridden: false,
            counts_with: None,
        })
        .collect();
    // The parser sorts by name; messages follow the file.
    entries.sort_by_key(|entry| entry.name_place.start);
    Tree { entries }
}

/// One value; its span is taken from `value`.
pub(crate) fn node(source: usize, value: &Spanned<DeValue<'_>>) -> Node {
    let raw = match value.get_ref() {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(integer) => Raw::Number(match integer.radix() {
            10 => integer.as_str().to_owned(),
            radix => i128::from_str_radix(integer.as_str(), radix)
                .map_or_else(|_| integer.to_string(), |whole| whole.to_string()),
        }),
        DeValue::Float(float) => Raw::Number(float.as_str().to_owned()),
        DeValue::Boolean(boolean) => Raw::Boolean(*boolean),
        DeValue::Datetime(datetime) => Raw::Datetime(datetime.to_string()),
        DeValue::Array(array) => Raw::Array(nodes(source, array)),
        DeValue::Table(table) => Raw::Table(tree(source, table)),
    };
    Node {
        place: place(source, value),
        raw,
    }
}

fn nodes(source: usize, array: &DeArray<'_>) -> Vec<Node> {
    array.iter().map(|value| node(source, value)).collect()
}

fn place<T>(source: usize, spanned: &Spanned<T>) -> Place {
    let span = spanned.span();
    Place {
        source,
        start: span.start,
        end: span.end,
    }
}

/// Writes a text as a TOML string on one line.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
