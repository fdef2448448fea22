//! The one JSON object of a study: on stdout with `--json`, in `summary.json` of a run directory.
//!
//! ```text
//! one run        { the summary }
//! several seeds  { frame, "runs": [ summary, ... ], "across_seeds": { ... } }
//! several cells  { frame, "cells": [ { "set": { key: value }, summary or several seeds }, ... ] }
//! a sweep        { frame, "cells": [ { "set": { key: value }, means over its seeds }, ... ] }
//! ```

use serde::Serialize;

use crate::OrderedMap;
use crate::across::{AcrossSeeds, Spread};
use crate::outcome::{CellOutcome, Cost, StudyOutcome};
use crate::record::{CellRecord, Status};
use crate::summary::{Summary, tidy};

/// The object of `viaduct run`, as text that ends with a line feed: every run whole.
///
/// # Panics
///
/// Never: the types hold nothing that JSON cannot say.
#[must_use]
pub fn document(outcome: &StudyOutcome) -> String {
    let text = match outcome.cells.as_slice() {
        [cell] if !outcome.is_sweep() => match Content::of_runs(&cell.record()) {
            Content::Run(summary) if outcome.runs_not_begun == 0 => {
                serde_json::to_string_pretty(summary)
            }
            _ => Frame::text(
                outcome,
                Content::Seeds(Box::new(Seeds::new(&cell.record()))),
            ),
        },
        cells => {
            let cells = cells.iter().map(|cell| Cell {
                set: values(cell),
                content: Content::of_runs(&cell.record()),
            });
            let cells = cells.collect();
            Frame::text(outcome, Content::Cells { cells })
        }
    };
    text.expect("plain numbers and strings") + "\n"
}

/// The object of `viaduct sweep`, as text that ends with a line feed: of each cell the means over
/// its seeds.
///
/// # Panics
///
/// Never, as [`document`].
#[must_use]
pub fn sweep_document(outcome: &StudyOutcome) -> String {
    let cells = outcome.cells.iter().map(Point::new).collect();
    let text = Frame::text(outcome, Content::Points { cells });
    text.expect("plain numbers and strings") + "\n"
}

#[derive(Serialize)]
struct Frame<'a> {
    study: &'a str,
    version: &'a str,
    digest: String,
    runs_not_begun: u64,
    #[serde(flatten)]
    cost: Option<Cost>,
    #[serde(flatten)]
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Run(&'a Summary),
    Seeds(Box<Seeds<'a>>),
    Cells { cells: Vec<Cell<'a>> },
    Points { cells: Vec<Point<'a>> },
}

#[derive(Serialize)]
struct Seeds<'a> {
    runs: Vec<&'a Summary>,
    across_seeds: AcrossSeeds,
}

#[derive(Serialize)]
struct Cell<'a> {
    set: OrderedMap<&'a str>,
    #[serde(flatten)]
    content: Content<'a>,
}

/// A cell of a sweep.
#[derive(Serialize)]
struct Point<'a> {
    cell: u32,
    set: OrderedMap<&'a str>,
    seeds: Vec<u64>,
    status: Status,
    reason: Option<&'a str>,
    latency_mean_us: Option<Spread>,
    latency_p50_us: Option<f64>,
    latency_p99_us: Option<f64>,
    link_utilisation_max_fraction: Option<f64>,
    bus_utilisation_max_fraction: Option<f64>,
    offered_messages_per_s: Option<f64>,
    carried_messages_per_s: Option<f64>,
}

impl<'a> Frame<'a> {
    fn text(outcome: &'a StudyOutcome, content: Content<'a>) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&Self {
            study: &outcome.study,
            version: &outcome.version,
            digest: outcome.digest(),
            runs_not_begun: outcome.runs_not_begun,
            cost: outcome.cost.map(|cost| Cost {
                wall_s: tidy(cost.wall_s),
                ..cost
            }),
            content,
        })
    }
}

/// The values of a cell by key.
fn values(cell: &CellOutcome) -> OrderedMap<&str> {
    let values = cell.set.iter();
    values
        .map(|(key, value)| (key.clone(), value.as_str()))
        .collect()
}

impl<'a> Content<'a> {
    fn of_runs(cell: &CellRecord<'a>) -> Self {
        match cell.runs.as_slice() {
            [run] => Self::Run(run),
            _ => Self::Seeds(Box::new(Seeds::new(cell))),
        }
    }
}

impl<'a> Seeds<'a> {
    fn new(cell: &CellRecord<'a>) -> Self {
        Self {
            runs: cell.runs.clone(),
            across_seeds: cell.across_seeds(),
        }
    }
}

impl<'a> Point<'a> {
    fn new(cell: &'a CellOutcome) -> Self {
        let record = cell.record();
        Self {
            cell: cell.number,
            set: values(cell),
            seeds: cell.runs.iter().map(|run| run.seed).collect(),
            status: record.status(),
            reason: record.reason,
            latency_mean_us: record.mean_us,
            latency_p50_us: record.latency(|latency| latency.p50),
            latency_p99_us: record.latency(|latency| latency.p99),
            link_utilisation_max_fraction: record.busiest_link(),
            bus_utilisation_max_fraction: record.mean(|run| Some(run.buses.utilisation_max)),
            offered_messages_per_s: record.mean(|run| run.offered_messages_per_s),
            carried_messages_per_s: record.mean(|run| run.carried_messages_per_s),
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

    #[test]
    fn the_cells_of_a_sweep_say_what_became_of_them() {
        let text = sweep_document(&sample::grid());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let cells = value["cells"].as_array().unwrap();
        let status: Vec<&str> = cells
            .iter()
            .map(|cell| cell["status"].as_str().unwrap())
            .collect();
        assert_eq!(status, ["done", "done", "unstable", "failed"]);
        assert_eq!(cells[0]["latency_mean_us"]["mean"], 401.5);
        assert!(cells[3]["latency_mean_us"].is_null());
        assert!(value.get("wall_s").is_none(), "made in many places");
    }
}
