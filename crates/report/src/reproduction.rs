//! Published figures beside ours, with a verdict each.
//!
//! Figures of [`FigureRole::Context`] are not compared: they stand for another machine or program.

use serde::Serialize;

use crate::figure::difference;
use crate::outcome::{CellOutcome, FigureRole, StudyOutcome};
use crate::screen::{View, figure_format, indented, is_fraction, plain_table, source_lines};
use crate::summary::tidy;

/// A published figure beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The study that was run.
    pub study: String,
    /// The point of its sweep: `traffic.size = 64 B`, or nothing.
    pub point: String,
    /// The summary's path: `latency_us.mean`.
    pub quantity: String,
    /// The figure, in the unit of the summary's field.
    pub published: f64,
    /// Ours, the mean over the seeds; nothing where no run has it.
    pub ours: Option<f64>,
    /// Ours over the published one, less 1.
    pub difference: Option<f64>,
    /// How large the difference may be.
    pub tolerance: f64,
    /// Whether the model was calibrated on it: agreement is no merit then.
    pub is_given: bool,
    /// Whether the difference is within the tolerance.
    pub is_met: bool,
    /// Where the figures of this point stand.
    pub sources: Vec<String>,
}

/// All comparisons of a study, in the order of its points.
#[must_use]
pub fn comparisons(outcome: &StudyOutcome) -> Vec<Comparison> {
    let cells = outcome.cells.iter();
    cells
        .flat_map(|cell| cell_comparisons(&outcome.study, cell))
        .collect()
}

fn cell_comparisons(study: &str, cell: &CellOutcome) -> Vec<Comparison> {
    let view = View::new(cell);
    let point = cell
        .set
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect::<Vec<_>>()
        .join(", ");
    let figures = cell.published.figures.iter();
    figures
        .filter(|(_, figure)| figure.role != FigureRole::Context)
        .map(|(path, figure)| {
            let ours = view.mean(|run| run.number(path));
            let difference = ours.and_then(|ours| relative(ours, figure.value));
            Comparison {
                study: study.to_owned(),
                point: point.clone(),
                quantity: path.clone(),
                published: figure.value,
                ours: ours.map(tidy),
                difference: difference.map(tidy),
                tolerance: figure.tolerance,
                is_given: figure.role == FigureRole::Given,
                is_met: difference.is_some_and(|off| off.abs() <= figure.tolerance),
                sources: cell.published.sources.clone(),
            }
        })
        .collect()
}

/// How far `ours` is off. Beside a published 0 only another 0 is not.
fn relative(ours: f64, published: f64) -> Option<f64> {
    let off = if ours == published {
        0.0
    } else {
        ours / published - 1.0
    };
    off.is_finite().then_some(off)
}

const HEADER: [&str; 8] = [
    "study",
    "point",
    "quantity",
    "published",
    "ours",
    "difference",
    "tolerance",
    "verdict",
];

/// Columns of numbers, which stand to the right.
const NUMBERS: std::ops::Range<usize> = 3..7;

impl Comparison {
    fn cells(&self) -> [String; 8] {
        let show = figure_format(&self.quantity);
        let unit = if is_fraction(&self.quantity) {
            ", %"
        } else {
            ""
        };
        let given = if self.is_given { ", given" } else { "" };
        let verdict = if self.is_met { "met" } else { "MISSED" };
        [
            self.study.clone(),
            self.point.clone(),
            format!("{}{unit}", self.quantity),
            show(self.published),
            self.ours.map_or_else(|| "-".to_owned(), show),
            self.ours
                .map_or_else(|| "-".to_owned(), |ours| difference(ours, self.published)),
            format!("{} %", tidy(self.tolerance * 100.0)),
            format!("{verdict}{given}"),
        ]
    }
}

/// The table for a terminal, and where the figures stand. Ends with a line feed.
#[must_use]
pub fn comparison_table(comparisons: &[Comparison]) -> String {
    let mut table = plain_table(HEADER.map(str::to_owned).to_vec());
    for comparison in comparisons {
        table.add_row(comparison.cells());
    }
    for column in NUMBERS {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    let sources = comparisons.iter().flat_map(|row| &row.sources);
    indented(&table) + &source_lines(sources)
}

/// The same table in Markdown, without the sources.
#[must_use]
pub fn comparison_markdown(comparisons: &[Comparison]) -> String {
    let row = |cells: [String; 8]| format!("| {} |\n", cells.join(" | "));
    let mut text = row(HEADER.map(str::to_owned));
    let rules = std::array::from_fn(|column| {
        let rule = if NUMBERS.contains(&column) {
            "---:"
        } else {
            "---"
        };
        rule.to_owned()
    });
    text.push_str(&row(rules));
    for comparison in comparisons {
        text.push_str(&row(comparison.cells()));
    }
    text
}

#[derive(Serialize)]
struct Document<'a> {
    version: &'a str,
    met: usize,
    missed: usize,
    comparisons: &'a [Comparison],
}

/// One JSON object of all comparisons, as text that ends with a line feed.
///
/// # Panics
///
/// Never: the types hold nothing that JSON cannot say.
#[must_use]
pub fn comparison_document(comparisons: &[Comparison], version: &str) -> String {
    let met = comparisons.iter().filter(|row| row.is_met).count();
    let document = Document {
        version,
        met,
        missed: comparisons.len() - met,
        comparisons,
    };
    serde_json::to_string_pretty(&document).expect("plain numbers and strings") + "\n"
}

/// A line that sums up: how many are met, the mean and the worst difference.
#[must_use]
pub fn comparison_verdict(comparisons: &[Comparison]) -> String {
    let met = comparisons.iter().filter(|row| row.is_met).count();
    let off: Vec<f64> = comparisons
        .iter()
        .filter_map(|row| Some(row.difference?.abs() * 100.0))
        .collect();
    let mean = off.iter().sum::<f64>() / (off.len().max(1)) as f64;
    let worst = off.iter().copied().fold(0.0, f64::max);
    format!(
        "{met} of {} figures met; off by {mean:.1} % in the mean, {worst:.1} % at worst",
        comparisons.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn each_figure_has_a_verdict_and_context_has_none() {
        let mut outcome = sample::sweep();
        let figures = &mut outcome.cells[1].published.figures;
        let mut events = figures["latency_us.mean"];
        events.role = FigureRole::Context;
        figures.insert("events".to_owned(), events);
        let list = comparisons(&outcome);
        assert_eq!(list.len(), 2);
        assert_eq!(list[0].point, "traffic.size = 64 B");
        assert!(list[0].is_given && list[0].is_met && !list[1].is_given);
        assert_eq!(list[0].difference, Some(tidy(33.4 / 33.2 - 1.0)));
        insta::assert_snapshot!(comparison_table(&list));
        insta::assert_snapshot!(comparison_markdown(&list));
    }

    #[test]
    fn what_is_off_by_more_than_its_tolerance_is_missed() {
        let mut outcome = sample::sweep();
        for (cell, tolerance) in [(0, 0.006), (1, 0.002)] {
            let figures = &mut outcome.cells[cell].published.figures;
            for figure in figures.values_mut() {
                figure.tolerance = tolerance;
            }
        }
        // 0.60 % and 0.24 % off.
        let list = comparisons(&outcome);
        assert_eq!(list.iter().filter(|row| row.is_met).count(), 0);
        let text = comparison_document(&list, "1");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (value["met"].as_u64(), value["missed"].as_u64()),
            (Some(0), Some(2))
        );
        assert!(comparison_table(&list).contains("MISSED"));
    }

    #[test]
    fn a_figure_that_no_run_has_is_missed() {
        let mut outcome = sample::sweep();
        let figures = &mut outcome.cells[0].published.figures;
        let figure = figures["latency_us.mean"];
        figures.insert("latency_us.no_such".to_owned(), figure);
        let list = comparisons(&outcome);
        assert!(!list[1].is_met);
        assert_eq!(list[1].ours, None);
    }

    #[test]
    fn nothing_is_as_far_off_as_something_beside_nothing() {
        assert_eq!(relative(0.0, 0.0), Some(0.0));
        assert_eq!(relative(1.0, 0.0), None);
        assert!(relative(26.0, 20.0).is_some_and(|off| (off - 0.3).abs() < 1e-12));
    }
}
