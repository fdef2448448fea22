//! `viaduct studies` and `keys`: what the program carries.

use std::fmt::Write as _;

use viaduct_scenario::{keys_text, list_studies};

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

/// Lists the keys.
pub(crate) fn keys(table: Option<&str>) -> Result<Exit, Failure> {
    let text = keys_text(table).map_err(Failure::plain)?;
    output::result(&text)?;
    Ok(Exit::Fine)
}
