//! The lists of a study beside its settings: published figures, and the values it runs over.

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::document::{Entry, Raw, Tree, quote};
use crate::keys;
use crate::overrides::{Found, Setter};
use crate::rows::{List, Row};
use crate::schema::PublishedRow;
use crate::section::{Absent, Word};
use crate::settings::{Settings, bad_value};
use crate::value::{LIST_LENGTH_MAX, Value};

/// Most published figures of a study.
pub const PUBLISHED_MAX: usize = 1_000;

/// A published figure, to stand beside a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The result that it stands beside: `latency_us.mean`.
    pub quantity: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Where it is published.
    pub source: String,
    /// What it is for.
    pub role: Role,
    /// How far a reproduction may be off, relative to the figure: 0.05 is 5 %.
    pub tolerance: f64,
    /// What a version predicted before the figure was known: the value, and the version.
    pub blind: Option<(f64, String)>,
    /// What the source's own model says where the figure is measured.
    pub authors_model: Option<f64>,
    /// It belongs only to points at which these keys have these values, as a person writes them.
    pub at: Vec<(String, String)>,
}

/// What a published figure is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// The model was calibrated on it.
    Given,
    /// The model is to predict it.
    Result,
    /// A version predicted it before it was known, and nothing is ever fitted to it: shown beside
    /// that prediction and today's, and not judged.
    Predicted,
    /// It stands there for comparison, such as a wall-clock time of another machine.
    Context,
}

impl Role {
    /// The word that files use.
    #[must_use]
    pub fn word(self) -> &'static str {
        Word::word(self)
    }

    /// How far a reproduction may be off where the row does not say: less where the model was
    /// calibrated on it than where it is to predict it.
    #[must_use]
    pub const fn tolerance(self) -> f64 {
        match self {
            Self::Given => 0.02,
            Self::Result | Self::Predicted | Self::Context => 0.05,
        }
    }
}

impl Published {
    /// Whether the figure belongs to a point with these settings.
    pub(crate) fn holds_for(&self, settings: &Settings) -> bool {
        self.at.iter().all(|(path, wanted)| {
            let value = settings.at_path(path);
            value.is_some_and(|value| value.plain() == *wanted)
        })
    }

    pub(crate) fn to_toml(&self) -> String {
        let value = Value::Real(self.value).to_toml();
        let mut text = format!(
            "\n[[published]]\nquantity = {}\nvalue = {value}\n",
            quote(&self.quantity)
        );
        if !self.at.is_empty() {
            let condition = |(path, wanted): &(String, String)| {
                let value = at_value(path, wanted).map_or(quote(wanted), |value| value.to_toml());
                format!("{} = {value}", quote(path))
            };
            let conditions: Vec<String> = self.at.iter().map(condition).collect();
            text.push_str(&format!("at = {{ {} }}\n", conditions.join(", ")));
        }
        text.push_str(&format!("unit = {}\n", quote(&self.unit)));
        text.push_str(&format!("source = {}\n", quote(&self.source)));
        text.push_str(&format!("role = \"{}\"\n", self.role.word()));
        let optional = |name: &str, value: Option<f64>| {
            value.map_or(String::new(), |value| {
                format!("{name} = {}\n", Value::Real(value).to_toml())
            })
        };
        text.push_str(&optional("authors_model", self.authors_model));
        if let Some((value, version)) = &self.blind {
            text.push_str(&optional("blind", Some(*value)));
            text.push_str(&format!("blind_by = {}\n", quote(version)));
        }
        // What stands for comparison only, or was predicted blind, is not judged.
        if matches!(self.role, Role::Given | Role::Result) {
            let tolerance = Value::Ratio(self.tolerance).to_toml();
            text.push_str(&format!("tolerance = {tolerance}\n"));
        }
        text
    }
}

/// The value of a condition, from how a person writes it.
fn at_value(path: &str, wanted: &str) -> Option<Value> {
    let (_, key) = keys::key_at(path)?;
    crate::settings::default_value(key, wanted)
}

/// Published figures, of a study or of a preset.
pub(crate) const LIST: List = List {
    nouns: ["a published figure", "published figures"],
    rows_max: PUBLISHED_MAX,
};

/// Takes the published figures out of the tree.
pub(crate) fn read(tree: &mut Tree, diagnostics: &mut Diagnostics) -> Vec<Published> {
    let rows = LIST.read(tree, "at", diagnostics).into_iter();
    let figures = rows
        .filter_map(|row| {
            let made = figure(&row, diagnostics);
            diagnostics.tell(made)
        })
        .collect();
    tree.remove("published");
    figures
}

fn figure(row: &Row<'_, PublishedRow>, diagnostics: &mut Diagnostics) -> Result<Published, Absent> {
    let at = match row.beside {
        Some(entry) => conditions(entry, diagnostics)?,
        None => Vec::new(),
    };
    let row = &row.keys;
    let role = row.role.get()?;
    Ok(Published {
        quantity: row.quantity.get()?,
        value: row.value.get()?,
        unit: row.unit.get()?,
        source: row.source.get()?,
        role,
        tolerance: row.tolerance.optional()?.unwrap_or(role.tolerance()),
        blind: row.blind.optional()?.zip(row.blind_by.optional()?),
        authors_model: row.authors_model.optional()?,
        at,
    })
}

fn conditions(
    entry: &Entry,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<(String, String)>, Absent> {
    let mut list = Vec::new();
    let mut whole = true;
    for (path, condition) in flatten(entry, diagnostics) {
        match keyed(&path, condition, diagnostics) {
            Some(Found { table, key, .. }) => match key.kind.read(&condition.node, false) {
                Ok(value) => list.push((path, value.plain())),
                Err(error) => {
                    diagnostics.push(bad_value(table, key, &condition.node, &error));
                    whole = false;
                }
            },
            None => whole = false,
        }
    }
    whole.then_some(list).ok_or(Absent::Told)
}

/// Keys with dots in them, `"traffic.size"`, and tables, `traffic.size`, mean the same.
fn flatten<'t>(entry: &'t Entry, diagnostics: &mut Diagnostics) -> Vec<(String, &'t Entry)> {
    let mut flat = Vec::new();
    let Raw::Table(tree) = &entry.node.raw else {
        diagnostics.push(
            Diagnostic::error(format!("`{}` is a table of keys", entry.name))
                .at(entry.node.place)
                .label(format!("this is {}", entry.node.raw.noun()))
                .help("for example \"traffic.size\" = ..."),
        );
        return flat;
    };
    let mut open: Vec<(String, &Entry)> = tree
        .entries
        .iter()
        .rev()
        .map(|entry| (entry.name.clone(), entry))
        .collect();
    while let Some((path, entry)) = open.pop() {
        match &entry.node.raw {
            Raw::Table(inner) => {
                let longer = |inner: &'t Entry| (format!("{path}.{}", inner.name), inner);
                open.extend(inner.entries.iter().rev().map(longer));
            }
            _ => flat.push((path, entry)),
        }
    }
    flat
}

fn keyed(path: &str, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Found> {
    match crate::overrides::find_key(path) {
        Ok(found) if found.path == path => Some(found),
        Ok(found) => {
            let title = format!("`{path}` is no whole path of a key");
            let help = format!("write \"{}\"", found.path);
            diagnostics.push(Diagnostic::error(title).at(entry.name_place).help(help));
            None
        }
        Err(diagnostic) => {
            diagnostics.push(diagnostic.at(entry.name_place));
            None
        }
    }
}

/// Takes the sweep out of the tree.
pub(crate) fn read_sweep(tree: &mut Tree, diagnostics: &mut Diagnostics) -> Vec<Setter> {
    let mut axes = Vec::new();
    if let Some(entry) = tree.find("sweep") {
        for (path, axis) in flatten(entry, diagnostics) {
            if keyed(&path, axis, diagnostics).is_none() {
                continue;
            }
            let Raw::Array(values) = &axis.node.raw else {
                diagnostics.push(
                    Diagnostic::error(format!("the sweep of {path} is a list of values"))
                        .at(axis.node.place)
                        .label(format!("this is {}", axis.node.raw.noun()))
                        .help("write [value, value, ...]"),
                );
                continue;
            };
            if values.is_empty() || values.len() > LIST_LENGTH_MAX {
                let title = format!("the sweep of {path} has {} values", values.len());
                diagnostics.push(
                    Diagnostic::error(title)
                        .at(axis.node.place)
                        .label(format!("must be 1 to {LIST_LENGTH_MAX}")),
                );
                continue;
            }
            axes.push(Setter {
                path,
                name_place: axis.name_place,
                values: values.clone(),
                swept: true,
            });
        }
    }
    tree.remove("sweep");
    axes
}
