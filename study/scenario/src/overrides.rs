//! `--set key=value`: values given on the command line, over those of the file.

use toml::de::DeTable;

use crate::diagnostics::{Diagnostic, Diagnostics, Place, excerpt, nearest};
use crate::document::{self, Node, Raw, Tree};
use crate::keys::{self, Key, Table};
use crate::range;
use crate::schema::{Links, Run};
use crate::value::LIST_LENGTH_MAX;

/// A value from the command line.
///
/// The key is written in whole (`traffic.size`) or as the end of it that only one key has
/// (`seed`, `nic.doorbell`). The value is TOML, or a text without its quotes: `traffic.size=64 B`.
/// Here alone a message rate needs no `/s`: `traffic.rate=400`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Override {
    text: String,
    swept: bool,
}

impl Override {
    /// One value: `key=value`.
    #[must_use]
    pub fn fixed(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            swept: false,
        }
    }

    /// One value, or values to run over if there are several: `key=value,value`, or a range,
    /// `key=1..100:10`.
    #[must_use]
    pub fn listed(text: impl Into<String>) -> Self {
        let text = text.into();
        let values = text.split_once('=').map_or("", |(_, values)| values);
        let parts = split_list(values);
        let swept = parts.len() > 1 || parts.iter().any(|(_, part)| range::is_range(part));
        Self { text, swept }
    }

    /// The seed of the run.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        Self::fixed(format!("{}={seed}", Run::seed.path()))
    }

    /// Levels of the network to run over.
    #[must_use]
    pub fn levels(levels: &[String]) -> Self {
        Self::swept(format!("{}={}", Links::model.path(), levels.join(",")))
    }

    /// Whether its key counts at some levels of the network alone.
    #[must_use]
    pub fn hangs_on_level(&self) -> bool {
        let name = self.text.split_once('=').map_or("", |(name, _)| name);
        let level = Links::model.path();
        find_key(name.trim()).is_ok_and(|it| it.table.choice_for(it.key, &level, &[]).is_some())
    }

    /// Whether there are values to run over.
    #[must_use]
    pub const fn is_swept(&self) -> bool {
        self.swept
    }

    /// The text, and whether it is swept.
    pub(crate) fn parts(&self) -> (&str, bool) {
        (&self.text, self.swept)
    }

    /// Values to run over, separated by commas: `key=value,value`. A value may be a range,
    /// `1..100:10`, which stands for 1, 11, and so on up to 91.
    #[must_use]
    pub fn swept(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            swept: true,
        }
    }
}

/// An override that was read.
#[derive(Clone, Debug)]
pub(crate) struct Setter {
    pub(crate) path: String,
    pub(crate) name_place: Place,
    /// One value, or those of a sweep.
    pub(crate) values: Vec<Node>,
    pub(crate) swept: bool,
}

impl Setter {
    /// The choice that another one sweeps, with some words of which this one's key counts.
    pub(crate) fn choice_of(&self, axis: &Self) -> Option<&'static str> {
        let (table, key) = keys::key_at(&self.path)?;
        let words = axis.values.iter().filter_map(|node| match &node.raw {
            Raw::Text(word) => Some(word.as_str()),
            _ => None,
        });
        let words: Vec<&str> = words.collect();
        let (choice, counts) = table.choice_for(key, &axis.path, &words)?;
        counts.then_some(choice)
    }
}

/// The name under which messages show the options.
pub(crate) const SOURCE_NAME: &str = "--set";

/// Reads the options; they form one text of one line each, so that messages can point into it. Also
/// returns the number of that text.
pub(crate) fn read(overrides: &[Override], diagnostics: &mut Diagnostics) -> (usize, Vec<Setter>) {
    let lines: Vec<String> = overrides
        .iter()
        .map(|o| o.text.replace(['\n', '\r'], " "))
        .collect();
    let source = diagnostics.add_source(SOURCE_NAME, &lines.join("\n"));
    let mut setters = Vec::new();
    let mut line_start = 0;
    for (line, entry) in lines.iter().zip(overrides) {
        match setter(source, line_start, line, entry.swept) {
            Ok(setter) => setters.push(setter),
            Err(diagnostic) => diagnostics.push(*diagnostic),
        }
        line_start += line.len() + 1;
    }
    (source, setters)
}

fn setter(
    source: usize,
    line_start: usize,
    line: &str,
    swept: bool,
) -> Result<Setter, Box<Diagnostic>> {
    let place = |start: usize, end: usize| Place {
        source,
        start: line_start + start,
        end: line_start + end,
    };
    let whole = place(0, line.len().max(1));
    let parts = line
        .split_once('=')
        .filter(|(name, _)| !name.trim().is_empty());
    let Some((name, values)) = parts else {
        let error = Diagnostic::error("an option --set has the form key=value").at(whole);
        return Err(Box::new(error.help("for example traffic.size=64 B")));
    };
    let name_place = place(0, name.len());
    let Found { path, key, .. } =
        find_key(name.trim()).map_err(|error| Box::new(error.at(name_place)))?;
    let value_start = name.len() + 1;
    let value_node = |start: usize, text: &str| {
        let blank = text.len() - text.trim_start().len();
        let text = text.trim();
        let start = start + blank;
        value(key, text, place(start, start + text.len()))
    };
    let values = if swept {
        let parts = split_list(values);
        if parts.len() > LIST_LENGTH_MAX {
            let error = Diagnostic::error(format!("more than {LIST_LENGTH_MAX} values")).at(whole);
            return Err(Box::new(error));
        }
        let mut nodes = Vec::new();
        for (at, part) in parts {
            let start = value_start + at;
            let range = range::expand(part, LIST_LENGTH_MAX).map_err(|problem| {
                let error = Diagnostic::error(problem).at(place(start, start + part.len()));
                Box::new(error.help("a range is written from..to:step, such as 1..100:10"))
            })?;
            let Some(values) = range else {
                nodes.push(value_node(start, part));
                continue;
            };
            let span = place(start, start + part.len());
            nodes.extend(values.iter().map(|text| value(key, text, span)));
        }
        if nodes.len() > LIST_LENGTH_MAX {
            let error = Diagnostic::error(format!("more than {LIST_LENGTH_MAX} values")).at(whole);
            return Err(Box::new(error));
        }
        nodes
    } else {
        vec![value_node(value_start, values)]
    };
    Ok(Setter {
        path,
        name_place,
        values,
        swept,
    })
}

/// A key that was named.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its whole path, with the row if it is of a list.
    pub(crate) path: String,
    pub(crate) table: &'static Table,
    pub(crate) key: &'static Key,
}

/// The key that a name on the command line means.
pub(crate) fn find_key(name: &str) -> Result<Found, Diagnostic> {
    let found = |path: &str, table, key| Found {
        path: path.to_owned(),
        table,
        key,
    };
    let first = name.split('.').next().unwrap_or_default();
    let (list, row) = document::split_row(first);
    match (keys::key_at(name), keys::list_named(list)) {
        (Some((table, key)), Some(_)) if row.is_some() => return Ok(found(name, table, key)),
        (_, Some(list)) if row.is_none() => {
            let rest = name.strip_prefix(first).unwrap_or_default();
            let title = format!("`{}` does not say which {}", excerpt(name), list.heading());
            let help = format!("write {first}[0]{} for the first", excerpt(rest));
            return Err(Diagnostic::error(title).help(help));
        }
        _ => {}
    }
    let mut candidates = Vec::new();
    for table in keys::setting_tables() {
        for key in &table.keys {
            let path = format!("{}.{}", table.name, key.name);
            if path == name {
                return Ok(found(&path, table, key));
            }
            if path
                .strip_suffix(name)
                .is_some_and(|head| head.ends_with('.'))
            {
                candidates.push(found(&path, table, key));
            }
        }
    }
    if candidates.len() == 1 {
        return Ok(candidates.remove(0));
    }
    if candidates.is_empty() {
        let paths: Vec<String> = keys::setting_tables()
            .flat_map(|table| {
                table
                    .keys
                    .iter()
                    .map(|key| format!("{}.{}", table.name, key.name))
            })
            .collect();
        let whole = nearest(name, paths.iter().map(String::as_str));
        let short = || {
            nearest(
                name,
                paths.iter().filter_map(|path| path.rsplit('.').next()),
            )
        };
        let near = whole.or_else(short);
        let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
        return Err(
            Diagnostic::error(format!("unknown key `{}`", excerpt(name)))
                .help(format!("{near}all keys: viaduct keys")),
        );
    }
    let paths: Vec<&str> = candidates.iter().map(|found| found.path.as_str()).collect();
    Err(
        Diagnostic::error(format!("`{name}` may be one of several keys"))
            .help(format!("write one of {}", paths.join(", "))),
    )
}

/// Whether the study has the row that a setter names, if it names one; if not, that is said.
pub(crate) fn has_row(tree: &Tree, setter: &Setter, diagnostics: &mut Diagnostics) -> bool {
    let first = setter.path.split('.').next().unwrap_or_default();
    let (list, row) = document::split_row(first);
    let count = tree.row_count(list);
    if row.is_none_or(|row| row < count) {
        return true;
    }
    let help = match count {
        0 => format!("write a [[{list}]] into the study: only what stands there can be changed"),
        1 => format!("its only one is {list}[0]"),
        _ => format!("they are {list}[0] to {list}[{}]", count - 1),
    };
    let title = format!("the study has no {first}");
    diagnostics.push(Diagnostic::error(title).at(setter.name_place).help(help));
    false
}

/// A value as TOML where it is, else as text.
pub(crate) fn value(key: &Key, text: &str, place: Place) -> Node {
    let bare = |text: &str| Node {
        place,
        raw: Raw::Text(text.to_owned()),
    };
    if key.kind.is_text() && !text.starts_with(['"', '\'']) {
        return bare(text);
    }
    // Brackets nest at most as deep as TOML lets them, so this is bounded.
    let toml = format!("v = {text}");
    let Ok(table) = DeTable::parse(&toml) else {
        return bare(text);
    };
    let mut values = table.get_ref().iter();
    let (Some((name, value)), None) = (values.next(), values.next()) else {
        return bare(text);
    };
    if name.get_ref() != "v" {
        return bare(text);
    }
    let mut node = document::node(place.source, value);
    move_by(&mut node, place);
    node
}

/// Gives a value of the command line, and what is in it, the place of the whole.
fn move_by(node: &mut Node, place: Place) {
    node.place = place;
    match &mut node.raw {
        Raw::Array(list) => list.iter_mut().for_each(|inner| move_by(inner, place)),
        Raw::Table(Tree { entries }) => {
            for entry in entries {
                entry.name_place = place;
                move_by(&mut entry.node, place);
            }
        }
        _ => {}
    }
}

/// Splits at the commas outside brackets and quotes; each part with its start.
fn split_list(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut depth, mut quote) = (0, 0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push((start, &text[start..at]));
                start = at + 1;
            }
            (None, _) => {}
        }
    }
    parts.push((start, &text[start..]));
    parts
}

/// Puts a value into the tree and takes away what may not stand beside it.
pub(crate) fn put(tree: &mut Tree, path: &str, name_place: Place, node: Node) {
    for other in keys::excluded_by(path) {
        tree.remove(&other);
    }
    tree.set(path, name_place, node);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_whole_path_or_its_only_end() {
        let path = |name: &str| find_key(name).map(|found| found.path);
        assert_eq!(path("traffic.size").expect("whole"), "traffic.size");
        assert_eq!(path("seed").expect("end"), "run.seed");
        assert_eq!(path("nic").expect("end"), "hosts.nic");
        assert_eq!(path("nic.rate").expect("end"), "hosts.model.nic.rate");
        assert!(path("rate").is_err());
        assert!(path("ate").is_err());
    }

    #[test]
    fn lists_split_outside_brackets_and_quotes() {
        let parts = |text| {
            split_list(text)
                .into_iter()
                .map(|(_, part)| part)
                .collect::<Vec<_>>()
        };
        assert_eq!(parts("1 B,64 B"), ["1 B", "64 B"]);
        assert_eq!(parts("[16, 16],[4, 4]"), ["[16, 16]", "[4, 4]"]);
        assert_eq!(parts("\"a,b\",c"), ["\"a,b\"", "c"]);
    }
}
