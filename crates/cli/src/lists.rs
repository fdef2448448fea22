//! `viaduct studies`, `models` and `keys`: what the program carries.

use std::fmt::Write as _;

use viaduct_scenario::{Preset, keys_text, list_models, list_studies, load_preset};

use crate::failure::{Exit, Failure};
use crate::output;

/// Lists the studies.
pub(crate) fn studies() -> Result<Exit, Failure> {
    let studies = list_studies();
    let width = studies
        .iter()
        .map(|(name, ..)| name.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for (name, title, question) in &studies {
        let _ = writeln!(text, "{name:width$}   {title}");
        if !question.is_empty() {
            let _ = writeln!(text, "{:width$}   {question}", "");
        }
    }
    text.push_str("\nviaduct run NAME   runs one; viaduct check NAME says first what it costs\n");
    output::result(&text)?;
    Ok(Exit::Fine)
}

/// Lists the presets, or shows one.
pub(crate) fn models(name: Option<&str>) -> Result<Exit, Failure> {
    match name {
        Some(name) => output::result(&preset_text(&load_preset(name)?))?,
        None => {
            let presets = list_models();
            let width = presets
                .iter()
                .map(|preset| preset.name.len())
                .max()
                .unwrap_or_default();
            let mut text = String::new();
            for preset in &presets {
                let _ = writeln!(text, "{:width$}   {}", preset.name, preset.description);
                let _ = writeln!(text, "{:width$}   source: {}", "", preset.source);
            }
            text.push_str(
                "\nviaduct models NAME   shows each number, its source and how sure it is\n",
            );
            output::result(&text)?;
        }
    }
    Ok(Exit::Fine)
}

fn preset_text(preset: &Preset) -> String {
    let mut text = format!(
        "{}: {}\nsource: {}\n",
        preset.name, preset.description, preset.source
    );
    let keys: Vec<String> = preset
        .numbers
        .iter()
        .map(|number| format!("{}.{}", number.table, number.key))
        .collect();
    let key_width = keys.iter().map(String::len).max().unwrap_or_default();
    let value_width = preset
        .numbers
        .iter()
        .map(|number| number.value.len())
        .max()
        .unwrap_or_default();
    for (key, number) in keys.iter().zip(&preset.numbers) {
        let _ = write!(
            text,
            "\n{key:key_width$}   {:value_width$}   {:9}   {}\n{:key_width$}   {}\n",
            number.value,
            number.confidence.word(),
            number.meaning,
            "",
            number.source,
        );
    }
    text
}

/// Lists the keys.
pub(crate) fn keys(table: Option<&str>) -> Result<Exit, Failure> {
    let text = keys_text(table).map_err(Failure::plain)?;
    output::result(&text)?;
    Ok(Exit::Fine)
}
