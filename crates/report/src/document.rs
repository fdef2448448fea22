//! The one JSON object of a study: on stdout with `--json`, in `summary.json` of a run directory.
//!
//! ```text
//! one run        { the summary }
//! several seeds  { frame, "runs": [ summary, ... ], "across_seeds": { ... } }
//! a sweep        { frame, "cells": [ { "set": { key: value }, summary or several seeds }, ... ] }
//! ```

use serde::Serialize;

use crate::across::AcrossSeeds;
use crate::ordered::OrderedMap;
use crate::outcome::{CellOutcome, StudyOutcome};
use crate::summary::{Summary, tidy};

/// The study's object, as text that ends with a line feed.
///
/// # Panics
///
/// Never: the types hold nothing that JSON cannot say.
#[must_use]
pub fn document(outcome: &StudyOutcome) -> String {
    let text = match outcome.cells.as_slice() {
        [cell] if !outcome.is_sweep() && cell.runs.len() == 1 && outcome.runs_not_begun == 0 => {
            serde_json::to_string_pretty(&cell.runs[0].summary)
        }
        [cell] if !outcome.is_sweep() => serde_json::to_string_pretty(&Frame::new(
            outcome,
            Content::Seeds(Box::new(Seeds::new(cell))),
        )),
        cells => {
            let cells = cells.iter().map(Cell::new).collect();
            serde_json::to_string_pretty(&Frame::new(outcome, Content::Cells { cells }))
        }
    };
    text.expect("plain numbers and strings") + "\n"
}

#[derive(Serialize)]
struct Frame<'a> {
    study: &'a str,
    version: &'a str,
    digest: String,
    runs_not_begun: u64,
    wall_s: f64,
    peak_rss_bytes: Option<u64>,
    #[serde(flatten)]
    content: Content<'a>,
}

#[derive(Serialize)]
struct Cell<'a> {
    set: OrderedMap<&'a str>,
    #[serde(flatten)]
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Run(&'a Summary),
    Seeds(Box<Seeds<'a>>),
    Cells { cells: Vec<Cell<'a>> },
}

#[derive(Serialize)]
struct Seeds<'a> {
    runs: Vec<&'a Summary>,
    across_seeds: AcrossSeeds,
}

impl<'a> Frame<'a> {
    fn new(outcome: &'a StudyOutcome, content: Content<'a>) -> Self {
        Self {
            study: &outcome.study,
            version: &outcome.version,
            digest: outcome.digest(),
            runs_not_begun: outcome.runs_not_begun,
            wall_s: tidy(outcome.wall_s),
            peak_rss_bytes: outcome.peak_rss_bytes,
            content,
        }
    }
}

impl<'a> Cell<'a> {
    fn new(cell: &'a CellOutcome) -> Self {
        let content = match cell.runs.as_slice() {
            [run] => Content::Run(&run.summary),
            _ => Content::Seeds(Box::new(Seeds::new(cell))),
        };
        let set = cell
            .set
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str()))
            .collect();
        Self { set, content }
    }
}

impl<'a> Seeds<'a> {
    fn new(cell: &'a CellOutcome) -> Self {
        Self {
            runs: cell.runs.iter().map(|run| &run.summary).collect(),
            across_seeds: cell.across_seeds(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn one_run_is_its_summary() {
        insta::assert_snapshot!(document(&sample::one_run()));
    }

    #[test]
    fn several_seeds_are_wrapped() {
        insta::assert_snapshot!(document(&sample::three_seeds()));
    }

    #[test]
    fn a_sweep_has_cells() {
        let text = document(&sample::sweep());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["cells"][1]["set"]["traffic.size"], "1 KiB");
        assert_eq!(value["cells"][1]["latency_us"]["mean"], 40.9);
        assert_eq!(value["digest"].as_str().unwrap().len(), 16);
    }

    #[test]
    fn a_stopped_set_of_seeds_says_what_is_missing() {
        let mut outcome = sample::one_run();
        outcome.runs_not_begun = 4;
        let value: serde_json::Value = serde_json::from_str(&document(&outcome)).unwrap();
        assert_eq!(value["runs_not_begun"], 4);
        assert_eq!(value["runs"].as_array().unwrap().len(), 1);
    }
}
