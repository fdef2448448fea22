//! A number of a preset: its value, where it comes from and how sure it is.

use viaduct_engine::Time;
use viaduct_hardware::Rate;

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::document::{Entry, Node, Raw};
use crate::inherit;
use crate::keys::{Key, Table};
use crate::section::KeyName;
use crate::settings::bad_value;
use crate::units::{
    RATE_BITS_MAX, RATE_BITS_MIN, TIME_SECONDS_MAX, format_rate, format_rate_in_bytes, format_size,
    format_time, parse_rate,
};
use crate::value::{Kind, LIST_LENGTH_MAX, Value};

/// How sure a number of a preset is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Confidence {
    /// Measured on the hardware by whoever wrote the source.
    Measured,
    /// Stated by its maker or in a paper.
    Published,
    /// Worked out from measured or published numbers.
    Derived,
    /// Chosen so that the model meets published results.
    Fitted,
    /// Plausible, and no more.
    Assumed,
}

impl Confidence {
    const ALL: [(&'static str, Self); 5] = [
        ("measured", Self::Measured),
        ("published", Self::Published),
        ("derived", Self::Derived),
        ("fitted", Self::Fitted),
        ("assumed", Self::Assumed),
    ];

    /// The word that files use.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, confidence)| *confidence == self)
            .map_or("", |(word, _)| word)
    }
}

/// One number of a preset.
#[derive(Clone, Debug)]
pub struct PresetNumber {
    /// Its table: `cpu`, `bus` or `nic`.
    pub table: &'static str,
    /// Its key.
    pub key: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Its value with unit, as the file has it.
    pub value: String,
    /// Where it comes from.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// The published rows that it was fitted to, as `viaduct reproduce` names them: study, point
    /// and quantity. What a measurement of somebody's own was fitted to has none.
    pub rows: Vec<String>,
    /// What else it may plausibly be, lowest and highest, where the file says so.
    range: Option<[Ranged; 2]>,
    /// What the value means: `0.2 us` is `200 ns`.
    pub(crate) meant: Value,
}

/// An end of a number's range: as the file has it, and what that means.
type Ranged = (String, Value);

impl PresetNumber {
    /// Whether it is the number of a key.
    #[must_use]
    pub fn is(&self, key: KeyName) -> bool {
        self.is_beside(key) && self.key == key.key()
    }

    /// Whether it stands in the table of a key.
    #[must_use]
    pub fn is_beside(&self, key: KeyName) -> bool {
        self.table == key.root()
    }

    /// Whether another has the same value, however it is written: `0.2 us` and `200 ns`.
    #[must_use]
    pub fn has_value_of(&self, other: &Self) -> bool {
        self.meant == other.meant
    }

    /// The number at the low and at the high end of its range, if the file gives one.
    #[must_use]
    pub fn ends(&self) -> Option<[Self; 2]> {
        self.range.clone().map(|ends| {
            ends.map(|(value, meant)| Self {
                value,
                meant,
                ..self.clone()
            })
        })
    }

    /// The number as so many bytes; `None` for what is no size, or a smaller one at most.
    #[must_use]
    pub fn with_bytes(&self, bytes: u64) -> Option<Self> {
        match table_at(self.table)?.find(self.key)?.kind {
            Kind::Size(most) if bytes <= most => Some(Self {
                value: format_size(bytes),
                meant: Value::Size(bytes),
                ..self.clone()
            }),
            _ => None,
        }
    }

    /// The number times a factor, to so many significant digits, at most 15. What is above zero
    /// stays above it, and nothing goes beyond what a file may say. `None` for what is no time,
    /// rate or size, and for a rate without bound.
    #[must_use]
    pub fn scaled(&self, factor: f64, digits: usize) -> Option<Self> {
        let round = |value: f64| {
            let text = format!("{value:.*e}", digits.clamp(1, 15) - 1);
            text.parse::<f64>().unwrap_or(value)
        };
        // Whole picoseconds, or bytes.
        let whole = |count: u64, most: u64| {
            let scaled = round(count as f64 * factor) + 0.5;
            (scaled as u64).max(count.min(1)).min(most)
        };
        let (value, meant) = match &self.meant {
            Value::Time(time) => {
                let time = Time::from_picoseconds(whole(
                    time.picoseconds(),
                    TIME_SECONDS_MAX * 1_000_000_000_000,
                ));
                (format_time(time), Value::Time(time))
            }
            Value::Size(bytes) => {
                let bytes = match table_at(self.table)?.find(self.key)?.kind {
                    Kind::Size(most) => whole(*bytes, most),
                    _ => return None,
                };
                (format_size(bytes), Value::Size(bytes))
            }
            Value::Rate(rate) if !rate.is_infinite() => {
                let bits = (rate.bits_per_second() * factor).clamp(RATE_BITS_MIN, RATE_BITS_MAX);
                let text = if self.value.ends_with("B/s") {
                    format_rate_in_bytes(round(bits / 8.0))
                } else {
                    format_rate(Rate::from_bits_per_second(round(bits)))
                };
                let rate = parse_rate(&text).ok()?;
                (text, Value::Rate(rate))
            }
            _ => return None,
        };
        Some(Self {
            value,
            meant,
            ..self.clone()
        })
    }
}

/// Reads the numbers of a table; one that is missing is an error where `all` must be there.
pub(crate) fn numbers(
    table: &'static Table,
    entry: &Entry,
    all: bool,
    diagnostics: &mut Diagnostics,
) -> Vec<PresetNumber> {
    let mut numbers = Vec::new();
    let short = table.root();
    let Raw::Table(subtree) = &entry.node.raw else {
        return numbers;
    };
    let header = entry.name_place;
    for key in &table.keys {
        let Some(entry) = subtree.find(key.name) else {
            if all {
                diagnostics.push(
                    Diagnostic::error(format!("missing key `{}` in [{short}]", key.name))
                        .at(header)
                        .help(format!(
                            "a preset gives or inherits every number; it is {}",
                            key.meaning
                        )),
                );
            }
            continue;
        };
        let Some((source, confidence, rows)) = provenance(short, entry, diagnostics) else {
            continue;
        };
        let Raw::Table(sourced) = &entry.node.raw else {
            continue;
        };
        let Some(value) = sourced.find("value") else {
            continue;
        };
        match key.kind.read(&value.node, false) {
            Ok(read) => numbers.push(PresetNumber {
                table: short,
                key: key.name,
                meaning: key.meaning,
                value: written(&value.node, &read),
                source,
                confidence,
                rows,
                range: sourced
                    .find("range")
                    .and_then(|range| ends_of(table, key, &read, &range.node, diagnostics)),
                meant: read,
            }),
            Err(error) => diagnostics.push(bad_value(table, key, &value.node, &error)),
        }
    }
    numbers
}

/// The table that a preset's file calls by a name.
fn table_at(root: &str) -> Option<&'static Table> {
    inherit::LIBRARIES
        .into_iter()
        .find_map(|library| library.table_at(root))
}

/// A value as its file has it.
fn written(node: &Node, value: &Value) -> String {
    match &node.raw {
        Raw::Text(text) => text.trim().to_owned(),
        _ => value.plain(),
    }
}

/// Reads the range of a number, which holds its value.
fn ends_of(
    table: &'static Table,
    key: &Key,
    value: &Value,
    node: &Node,
    diagnostics: &mut Diagnostics,
) -> Option<[Ranged; 2]> {
    let name = key.name;
    let Raw::Array(ends) = &node.raw else {
        let title = format!("`range` of `{name}` is a list of two values");
        let help = "write range = [lowest, highest], each as the value is written";
        diagnostics.push(Diagnostic::error(title).at(node.place).help(help));
        return None;
    };
    let [low, high] = &ends[..] else {
        let title = format!(
            "`range` of `{name}` has {} values and needs two",
            ends.len()
        );
        let help = "write range = [lowest, highest]";
        diagnostics.push(Diagnostic::error(title).at(node.place).help(help));
        return None;
    };
    let mut read = |node: &Node| match key.kind.read(node, false) {
        Ok(value) => Some((written(node, &value), value)),
        Err(error) => {
            diagnostics.push(bad_value(table, key, node, &error));
            None
        }
    };
    let (low, high) = (read(low)?, read(high)?);
    let numbers = [&low.1, value, &high.1].map(Value::number);
    let [Some(least), Some(number), Some(most)] = numbers else {
        let title = format!("`{name}` is no number and has no range");
        diagnostics.push(Diagnostic::error(title).at(node.place));
        return None;
    };
    if !(least <= number && number <= most) {
        let title = format!("the value of `{name}` is outside of its range");
        let label = format!("it goes from {} to {}", low.0, high.0);
        let help = "write range = [lowest, highest], with the value between them";
        diagnostics.push(
            Diagnostic::error(title)
                .at(node.place)
                .label(label)
                .help(help),
        );
        return None;
    }
    Some([low, high])
}

/// Source and confidence of a number, and the rows that it was fitted to, if it is whole.
fn provenance(
    short: &str,
    entry: &Entry,
    diagnostics: &mut Diagnostics,
) -> Option<(String, Confidence, Vec<String>)> {
    const FORM: &str = "{ value = ..., source = \"...\", confidence = \"...\" }";
    let name = &entry.name;
    let Raw::Table(sourced) = &entry.node.raw else {
        diagnostics.push(
            Diagnostic::error(format!("`{name}` in [{short}] has no source"))
                .at(entry.node.place)
                .label("only a value")
                .help(format!("a number of a preset is written {name} = {FORM}")),
        );
        return None;
    };
    for part in &sourced.entries {
        if !["value", "source", "confidence", "rows", "range"].contains(&part.name.as_str()) {
            diagnostics.push(
                Diagnostic::error(format!("unknown key `{}` in `{name}`", part.name))
                    .at(part.name_place)
                    .help(format!("a number of a preset is written {name} = {FORM}")),
            );
        }
    }
    let mut text = |part: &str| match sourced.find(part) {
        Some(Entry { node, .. }) => match &node.raw {
            Raw::Text(text) if !text.trim().is_empty() => Some((text.clone(), node.place)),
            Raw::Text(_)
            | Raw::Table(_)
            | Raw::Array(_)
            | Raw::Number(_)
            | Raw::Boolean(_)
            | Raw::Datetime(_) => {
                let title =
                    format!("`{part}` of `{name}` in [{short}] is a text that says something");
                diagnostics.push(Diagnostic::error(title).at(node.place));
                None
            }
        },
        None => {
            let title = format!("`{name}` in [{short}] has no {part}");
            diagnostics.push(
                Diagnostic::error(title)
                    .at(entry.name_place)
                    .help(format!("a number of a preset is written {name} = {FORM}")),
            );
            None
        }
    };
    let (source, word) = (text("source"), text("confidence"));
    if sourced.find("value").is_none() {
        let title = format!("`{name}` in [{short}] has no value");
        diagnostics.push(Diagnostic::error(title).at(entry.name_place));
        return None;
    }
    let (word, place) = word?;
    let known = Confidence::ALL.iter().find(|(known, _)| *known == word);
    let Some((_, confidence)) = known else {
        let words: Vec<&str> = Confidence::ALL.iter().map(|(word, _)| *word).collect();
        diagnostics.push(
            Diagnostic::error(format!("how sure `{name}` in [{short}] is, is not said"))
                .at(place)
                .label(format!("one of {}", words.join(", "))),
        );
        return None;
    };
    let rows = match sourced.find("rows") {
        Some(entry) => fitted_rows(name, entry, *confidence, diagnostics)?,
        None => Vec::new(),
    };
    Some((source?.0, *confidence, rows))
}

/// The rows that a number was fitted to.
fn fitted_rows(
    name: &str,
    entry: &Entry,
    confidence: Confidence,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<String>> {
    let text = |node: &Node| match &node.raw {
        Raw::Text(text) => Some(text.clone()),
        _ => None,
    };
    let rows: Option<Vec<String>> = match &entry.node.raw {
        Raw::Array(nodes) if nodes.len() <= LIST_LENGTH_MAX => nodes.iter().map(text).collect(),
        _ => None,
    };
    if rows.is_some() && confidence == Confidence::Fitted {
        return rows;
    }
    diagnostics.push(
        Diagnostic::error(format!(
            "`rows` of `{name}` name what a number was fitted to"
        ))
        .at(entry.node.place)
        .label(format!("`{name}` is {}", confidence.word()))
        .help(
            "a fitted number may have rows = [\"STUDY, POINT, QUANTITY\"], as `viaduct \
                 reproduce` shows them",
        ),
    );
    None
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::{Preset, load_preset, parse_preset};

    #[test]
    fn a_range_holds_its_value_and_has_two_ends_of_the_same_kind() {
        let read = |range: &str| {
            let text = format!(
                "name = \"x\"\ninherits = \"gam-myrinet\"\n[host]\ndriver = {{ value = \"10 us\", \
                 source = \"s\", confidence = \"assumed\", range = {range} }}\n"
            );
            parse_preset("x.toml", &text).map_err(|diagnostics| diagnostics.to_string())
        };
        let preset = read("[\"2000 ns\", \"50 us\"]").unwrap();
        let ends = number(&preset, "driver").ends().unwrap();
        assert_eq!(ends.clone().map(|end| end.value), ["2000 ns", "50 us"]);
        assert_ne!(ends[0].meant, ends[1].meant);
        assert!(number(&preset, "switch").ends().is_some());
        assert!(number(&preset, "send").ends().is_none());
        for (range, words) in [
            ("[\"20 us\", \"50 us\"]", "outside of its range"),
            ("[\"2 us\"]", "needs two"),
            ("\"2 us\"", "list of two values"),
            ("[\"2 us\", \"50 MB/s\"]", "bad value for `driver`"),
        ] {
            let error = read(range).unwrap_err();
            assert!(error.contains(words), "{range}: {error}");
        }
    }

    fn number(preset: &Preset, key: &str) -> PresetNumber {
        let mut numbers = preset.numbers.iter();
        numbers.find(|number| number.key == key).cloned().unwrap()
    }

    #[test]
    fn a_scaled_number_keeps_its_unit_and_reads_back_the_same() {
        let preset = load_preset("clan-pio").unwrap();
        let scaled = |key: &str, factor, digits| {
            let scaled = number(&preset, key).scaled(factor, digits);
            scaled.map(|number| number.value)
        };
        assert_eq!(scaled("post", 3.0, 4).as_deref(), Some("1.05 us"));
        assert_eq!(
            scaled("write_rate", 1.0 / 3.0, 4).as_deref(),
            Some("28.33 MB/s")
        );
        let link = |it: &&PresetNumber| (it.table, it.key) == ("link", "rate");
        let link = preset.numbers.iter().find(link).unwrap();
        assert_eq!(link.scaled(3333.0, 2).unwrap().value, "5 Tbit/s");
        assert_eq!(scaled("post", 1e-9, 4).as_deref(), Some("1 ps"));
        assert_eq!(scaled("dma_from", 0.5, 9).as_deref(), Some("512 MiB"));
        assert_eq!(scaled("dma_from", 9e9, 9).as_deref(), Some("1 GiB"));
        assert_eq!(scaled("post", 1e18, 9).as_deref(), Some("9000000 s"));
        assert_eq!(scaled("mappings", 3.0, 4), None);
        assert_eq!(scaled("notice", 3.0, 4), None);
        // What is read back is what was meant.
        for number in &preset.numbers {
            if let Some(scaled) = number.scaled(1.2345678, 7) {
                let key = format!("[{}]\n{}", scaled.table, scaled.key);
                let text = format!(
                    "name = \"x\"\ninherits = \"clan-pio\"\n{key} = {{ value = \"{}\", \
                     source = \"s\", confidence = \"fitted\" }}",
                    scaled.value
                );
                let read = parse_preset("x.toml", &text).unwrap();
                let same = |it: &&PresetNumber| (it.table, it.key) == (scaled.table, scaled.key);
                let again = read.numbers.iter().find(same).unwrap();
                assert!(again.has_value_of(&scaled), "{key}: {}", scaled.value);
            }
        }
    }
}
