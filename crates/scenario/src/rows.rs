//! Lists of tables, `[[name]]`: each row is read by the keys of one table, as tables of settings
//! are.

use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::document::{Raw, Tree};
use crate::keys;
use crate::settings::Settings;
use crate::value::Value;

/// A list that a file may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    /// Its name in the file.
    pub(crate) root: &'static str,
    /// The table of its keys.
    pub(crate) table: &'static str,
    /// What a row is, with its article, and what rows are.
    pub(crate) nouns: [&'static str; 2],
    /// Most rows.
    pub(crate) rows_max: usize,
}

/// A row: its values, by the keys of its table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    table: &'static str,
    pub(crate) place: Place,
    pub(crate) settings: Settings,
}

impl List {
    /// Reads the rows; with each comes what stands at `beside`, a key that the caller reads.
    pub(crate) fn read<'t>(
        &self,
        tree: &'t Tree,
        beside: &str,
        diagnostics: &mut Diagnostics,
    ) -> Vec<(Row, Option<&'t crate::document::Entry>)> {
        let Self {
            root,
            nouns: [one, many],
            rows_max,
            ..
        } = *self;
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
                            list.push((self.row(&own, node.place, diagnostics), row.find(beside)));
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

    /// Reads one row.
    pub(crate) fn row(&self, row: &Tree, place: Place, diagnostics: &mut Diagnostics) -> Row {
        let table = keys::known_table(self.table);
        Row {
            table: self.table,
            place,
            settings: Settings::of_row(table, row, place, diagnostics),
        }
    }
}

impl Row {
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.settings.value(self.table, key)
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    pub(crate) fn choice(&self, key: &str) -> Option<&'static str> {
        match self.value(key)? {
            Value::Choice(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn real(&self, key: &str) -> Option<f64> {
        match self.value(key)? {
            Value::Real(number) | Value::Ratio(number) => Some(*number),
            _ => None,
        }
    }

    /// A number of bytes or of things that has 32 bits.
    pub(crate) fn count(&self, key: &str) -> Option<u32> {
        match self.value(key)? {
            Value::Size(number) | Value::Count(number) => u32::try_from(*number).ok(),
            _ => None,
        }
    }

    pub(crate) fn time(&self, key: &str) -> Option<viaduct_engine::Time> {
        self.settings.time(self.table, key)
    }

    /// Whether the row gives a key, be its value right or wrong.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.settings.place(self.table, key).is_some()
    }

    /// The row as TOML, with each value that holds.
    pub(crate) fn to_toml(&self) -> String {
        let mut text = format!("\n[[{}]]\n", self.table);
        for setting in &self.settings.list {
            if let Some(value) = &setting.value {
                text.push_str(&format!("{} = {}\n", setting.key.name, value.to_toml()));
            }
        }
        text
    }

    /// Where the value of a key stands; else the row.
    pub(crate) fn place_of(&self, key: &str) -> Place {
        self.settings.place(self.table, key).unwrap_or(self.place)
    }
}
