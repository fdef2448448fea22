//! Published figures of programs on a preset's hosts.

use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::document::{Raw, Tree};
use crate::keys;
use crate::published::{PUBLISHED_MAX, Role};
use crate::settings::{bad_value, default_value, unknown_key};
use crate::value::Value;

/// What a published figure of a program was measured with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FigureTest {
    /// Half a round trip of a message.
    Latency,
    /// Messages one way.
    Bandwidth,
    /// Half a round trip of a remote write, without VIA.
    RawLatency,
    /// Remote writes one way, without VIA.
    RawBandwidth,
}

/// A published figure of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The program.
    pub test: FigureTest,
    /// Bytes of its messages.
    pub bytes: u32,
    /// The figure.
    pub value: f64,
    /// Its unit: `us` or `Mbit/s`.
    pub unit: &'static str,
    /// Where it is published.
    pub source: String,
    /// What it is for.
    pub role: Role,
    /// How far a reproduction may be off, relative to the figure.
    pub tolerance: f64,
}

/// The figures of one preset's text.
pub(crate) fn read(tree: &Tree, diagnostics: &mut Diagnostics) -> Vec<Figure> {
    let mut figures = Vec::new();
    let Some(entry) = tree.find("published") else {
        return figures;
    };
    match &entry.node.raw {
        Raw::Array(rows) if rows.len() <= PUBLISHED_MAX => {
            for node in rows {
                match &node.raw {
                    Raw::Table(row) => figures.extend(figure(row, node.place, diagnostics)),
                    raw => diagnostics.push(
                        Diagnostic::error("a published figure is a table of keys")
                            .at(node.place)
                            .label(format!("this is {}", raw.noun())),
                    ),
                }
            }
        }
        _ => diagnostics.push(
            Diagnostic::error("published figures stand in rows")
                .at(entry.name_place)
                .help(format!(
                    "write [[published]], once for each, {PUBLISHED_MAX} at most"
                )),
        ),
    }
    figures
}

fn figure(row: &Tree, place: Place, diagnostics: &mut Diagnostics) -> Option<Figure> {
    let table = keys::known_table("preset.published");
    for entry in &row.entries {
        if table.find(&entry.name).is_none() && !diagnostics.is_full() {
            diagnostics.push(unknown_key(table, &entry.name).at(entry.name_place));
        }
    }
    let mut values: Vec<Option<Value>> = Vec::new();
    for key in &table.keys {
        values.push(match (row.find(key.name), key.fallback) {
            (Some(entry), _) => match key.kind.read(&entry.node, false) {
                Ok(value) => Some(value),
                Err(error) => {
                    diagnostics.push(bad_value(table, key, &entry.node, &error));
                    None
                }
            },
            (None, keys::Fallback::Value(text)) => default_value(key, text),
            (None, _) => {
                let title = format!("missing key `{}` in [[published]]", key.name);
                let help = format!("add it: {}", key.meaning);
                diagnostics.push(Diagnostic::error(title).at(place).help(help));
                None
            }
        });
    }
    let [test, size, value, unit, source, role, tolerance] =
        <[Option<Value>; 7]>::try_from(values).ok()?;
    Some(Figure {
        test: match test? {
            Value::Choice("bandwidth") => FigureTest::Bandwidth,
            Value::Choice("raw-latency") => FigureTest::RawLatency,
            Value::Choice("raw-bandwidth") => FigureTest::RawBandwidth,
            _ => FigureTest::Latency,
        },
        bytes: match size? {
            Value::Size(bytes) => u32::try_from(bytes).ok()?,
            _ => return None,
        },
        value: match value? {
            Value::Real(value) => value,
            _ => return None,
        },
        unit: match unit? {
            Value::Choice(unit) => unit,
            _ => return None,
        },
        source: match source? {
            Value::Text(source) => source,
            _ => return None,
        },
        role: match role? {
            Value::Choice("result") => Role::Result,
            _ => Role::Given,
        },
        tolerance: match tolerance? {
            Value::Ratio(tolerance) => tolerance,
            _ => return None,
        },
    })
}
