//! Lists of tables, `[[name]]`: each row is read by the keys of one table, as tables of settings
//! are.

use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::document::{Entry, Raw, Tree};
use crate::section::Section;
use crate::settings::read_row;
use crate::value::Value;

/// A list that a file may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    /// What a row is, with its article, and what rows are.
    pub(crate) nouns: [&'static str; 2],
    /// Most rows.
    pub(crate) rows_max: usize,
}

/// A row that was read.
#[derive(Clone, Debug)]
pub(crate) struct Row<'t, S> {
    pub(crate) place: Place,
    pub(crate) keys: S,
    /// What stands at a key that the caller reads itself.
    pub(crate) beside: Option<&'t Entry>,
}

impl List {
    /// Reads the rows, but for what stands at `beside`.
    pub(crate) fn read<'t, S: Section>(
        &self,
        tree: &'t Tree,
        beside: &str,
        diagnostics: &mut Diagnostics,
    ) -> Vec<Row<'t, S>> {
        let Self {
            nouns: [one, many],
            rows_max,
        } = *self;
        let root = S::table().root();
        let mut list = Vec::new();
        let Some(entry) = tree.find(root) else {
            return list;
        };
        match &entry.node.raw {
            Raw::Array(nodes) if nodes.len() > rows_max => {
                let title = format!("more than {rows_max} {many}");
                diagnostics.push(Diagnostic::error(title).at(entry.name_place));
            }
            Raw::Array(nodes) => {
                for node in nodes {
                    match &node.raw {
                        Raw::Table(row) => {
                            let mut own = row.clone();
                            own.remove(beside);
                            list.push(Row {
                                place: node.place,
                                keys: read_row(&own, node.place, diagnostics),
                                beside: row.find(beside),
                            });
                        }
                        raw => diagnostics.push(
                            Diagnostic::error(format!("{one} is a table of keys"))
                                .at(node.place)
                                .label(format!("this is {}", raw.noun())),
                        ),
                    }
                }
            }
            _ => diagnostics.push(
                Diagnostic::error(format!("{many} stand in rows"))
                    .at(entry.name_place)
                    .help(format!("write [[{root}]], once for each")),
            ),
        }
        list
    }
}

/// A row as TOML, with each value that holds.
pub(crate) fn to_toml<S: Section>(row: &S) -> String {
    let mut text = format!("\n{}\n", S::table().heading());
    for setting in row.list() {
        if let Some(value) = setting.value() {
            text.push_str(&line(setting.key().name, &value));
        }
    }
    text
}

/// A key and its value as TOML.
pub(crate) fn line(key: &str, value: &Value) -> String {
    format!("{key} = {}\n", value.to_toml())
}
