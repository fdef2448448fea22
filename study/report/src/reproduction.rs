//! Published figures beside ours, with a verdict each.
//!
//! Figures of [`FigureRole::Context`] are not compared: they stand for another machine or program.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::figure::difference;
use crate::outcome::{CellOutcome, Figure, FigureRole, StudyOutcome};
use crate::screen::{aligned_table, figure_format, is_fraction, source_lines};
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
    /// What the figure is for.
    pub role: FigureRole,
    /// Whether the difference is within the tolerance; nothing where that is not judged.
    pub is_met: Option<bool>,
    /// What a version predicted before the figure was known.
    pub blind: Option<f64>,
    /// Which version that was.
    pub blind_by: Option<String>,
    /// What the source's own model says where the figure is measured.
    pub authors_model: Option<f64>,
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
    let record = cell.record();
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
            let ours = record.mean(|run| run.number(path));
            let sources = cell.published.sources.clone();
            Comparison::new([study, &point, path], figure, ours, sources)
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

const HEADER: [&str; 10] = [
    "study",
    "point",
    "quantity",
    "published",
    "authors' model",
    "blind",
    "ours",
    "difference",
    "tolerance",
    "verdict",
];

/// Columns of numbers, which stand to the right.
const NUMBERS: std::ops::Range<usize> = 3..9;

/// Columns that are left out where no row has anything to say there.
const RARE: [usize; 2] = [4, 5];

impl Comparison {
    /// A figure beside ours; `names` are the study, its point and the quantity.
    #[must_use]
    pub fn new(names: [&str; 3], figure: &Figure, ours: Option<f64>, sources: Vec<String>) -> Self {
        let [study, point, quantity] = names.map(str::to_owned);
        let difference = ours.and_then(|ours| relative(ours, figure.value));
        let is_near = difference.is_some_and(|off| off.abs() <= figure.tolerance);
        let (blind, blind_by) = figure.blind.clone().unzip();
        Self {
            study,
            point,
            quantity,
            published: figure.value,
            ours: ours.map(tidy),
            difference: difference.map(tidy),
            tolerance: figure.tolerance,
            role: figure.role,
            is_met: (figure.role != FigureRole::Predicted).then_some(is_near),
            blind,
            blind_by,
            authors_model: figure.authors_model,
            sources,
        }
    }

    /// Whether it is judged, and missed.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.is_met == Some(false)
    }

    fn cells(&self) -> [String; 10] {
        let show = figure_format(&self.quantity);
        let unit = if is_fraction(&self.quantity) {
            ", %"
        } else {
            ""
        };
        let beside = |value: Option<f64>| {
            value.map_or_else(String::new, |value| {
                format!("{} ({})", show(value), difference(value, self.published))
            })
        };
        let given = if self.role == FigureRole::Given {
            ", given"
        } else {
            ""
        };
        let (tolerance, verdict) = match (self.is_met, &self.blind_by) {
            (None, Some(version)) => (String::new(), format!("predicted blind by {version}")),
            (None, None) => (String::new(), String::new()),
            (Some(is_met), _) => (
                format!("{} %", tidy(self.tolerance * 100.0)),
                format!("{}{given}", if is_met { "met" } else { "MISSED" }),
            ),
        };
        [
            self.study.clone(),
            self.point.clone(),
            format!("{}{unit}", self.quantity),
            show(self.published),
            beside(self.authors_model),
            beside(self.blind),
            self.ours.map_or_else(|| "-".to_owned(), show),
            self.ours
                .map_or_else(|| "-".to_owned(), |ours| difference(ours, self.published)),
            tolerance,
            verdict,
        ]
    }
}

/// The header and one row each, without the rare columns that are empty; which columns have
/// numbers.
fn rows(comparisons: &[Comparison]) -> (Vec<Vec<String>>, Vec<bool>) {
    let all: Vec<[String; 10]> = comparisons.iter().map(Comparison::cells).collect();
    let is_shown = |column: &usize| {
        !RARE.contains(column) || all.iter().any(|cells| !cells[*column].is_empty())
    };
    let columns: Vec<usize> = (0..HEADER.len()).filter(is_shown).collect();
    let header = HEADER.map(str::to_owned);
    let rows = [&header].into_iter().chain(&all);
    let rows = rows.map(|cells| columns.iter().map(|&at| cells[at].clone()).collect());
    let numbers = columns.iter().map(|column| NUMBERS.contains(column));
    (rows.collect(), numbers.collect())
}

/// The table for a terminal, and where the figures stand. Ends with a line feed.
#[must_use]
pub fn comparison_table(comparisons: &[Comparison]) -> String {
    let (rows, numbers) = rows(comparisons);
    let mut rows = rows.into_iter();
    let titles = rows.next().unwrap_or_default();
    let columns = titles.into_iter().zip(numbers).collect();
    let sources = comparisons.iter().flat_map(|row| &row.sources);
    aligned_table(columns, rows) + &source_lines(sources)
}

/// The same table in Markdown, without the sources.
#[must_use]
pub fn comparison_markdown(comparisons: &[Comparison]) -> String {
    let (mut rows, numbers) = rows(comparisons);
    let rules = numbers
        .iter()
        .map(|is_number| if *is_number { "---:" } else { "---" });
    rows.insert(1, rules.map(str::to_owned).collect());
    rows.iter()
        .map(|cells| format!("| {} |\n", cells.join(" | ")))
        .collect()
}

#[derive(Serialize)]
struct Document<'a> {
    version: &'a str,
    met: usize,
    missed: usize,
    predicted: usize,
    comparisons: &'a [Comparison],
}

/// One JSON object of all comparisons, as text that ends with a line feed.
///
/// # Panics
///
/// Never: the types hold nothing that JSON cannot say.
#[must_use]
pub fn comparison_document(comparisons: &[Comparison], version: &str) -> String {
    let count = |verdict| {
        let rows = comparisons.iter();
        rows.filter(|row| row.is_met == verdict).count()
    };
    let document = Document {
        version,
        met: count(Some(true)),
        missed: count(Some(false)),
        predicted: count(None),
        comparisons,
    };
    serde_json::to_string_pretty(&document).expect("plain numbers and strings") + "\n"
}

/// What sums up, one line each: how many figures are met, with the mean and the worst difference;
/// then those that a version predicted blind, with its differences and today's.
#[must_use]
pub fn comparison_verdict(comparisons: &[Comparison]) -> String {
    let (judged, predicted): (Vec<&Comparison>, Vec<&Comparison>) =
        comparisons.iter().partition(|row| row.is_met.is_some());
    let today = |rows: &[&Comparison]| off(rows.iter().filter_map(|row| row.difference));
    let mut lines = Vec::new();
    if !judged.is_empty() || predicted.is_empty() {
        let met = judged.iter().filter(|row| !row.is_missed()).count();
        let off = today(&judged);
        lines.push(format!("{met} of {} figures met; {off}", judged.len()));
    }
    let versions = predicted.iter().filter_map(|row| row.blind_by.as_deref());
    for version in versions.collect::<BTreeSet<_>>() {
        let rows = predicted.iter().copied();
        let rows: Vec<&Comparison> = rows
            .filter(|row| row.blind_by.as_deref() == Some(version))
            .collect();
        let then = rows
            .iter()
            .filter_map(|row| relative(row.blind?, row.published));
        lines.push(format!(
            "{} predicted blind by {version}: {}; today {}",
            rows.len(),
            off(then),
            today(&rows),
        ));
    }
    lines.join("\n  ")
}

/// The mean and the worst of differences.
fn off(differences: impl Iterator<Item = f64>) -> String {
    let off: Vec<f64> = differences.map(|off| off.abs() * 100.0).collect();
    let mean = off.iter().sum::<f64>() / (off.len().max(1)) as f64;
    let worst = off.iter().copied().fold(0.0, f64::max);
    format!("off by {mean:.1} % on average, {worst:.1} % at worst")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn each_figure_has_a_verdict_and_context_has_none() {
        let mut outcome = sample::sweep();
        let figures = &mut outcome.cells[1].published.figures;
        let mut events = figures["latency_us.mean"].clone();
        events.role = FigureRole::Context;
        figures.insert("events".to_owned(), events);
        let list = comparisons(&outcome);
        assert_eq!(list.len(), 2);
        assert_eq!(list[0].point, "traffic.size = 64 B");
        assert!(list[0].is_met == Some(true));
        let roles = list.iter().map(|row| row.role);
        assert!(roles.eq([FigureRole::Given, FigureRole::Result]));
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
        assert!(list.iter().all(Comparison::is_missed));
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
        let figure = figures["latency_us.mean"].clone();
        figures.insert("latency_us.no_such".to_owned(), figure);
        let list = comparisons(&outcome);
        assert!(list[1].is_missed());
        assert_eq!(list[1].ours, None);
    }

    #[test]
    fn what_was_predicted_blind_is_shown_however_far_off_and_never_missed() {
        let mut outcome = sample::sweep();
        let figures = &mut outcome.cells[1].published.figures;
        let figure = figures.get_mut("latency_us.mean").unwrap();
        (figure.value, figure.role) = (50.0, FigureRole::Predicted);
        figure.blind = Some((45.0, "0.1.0".to_owned()));
        figure.authors_model = Some(48.0);
        let list = comparisons(&outcome);
        assert!(list[1].is_met.is_none() && !list[1].is_missed());
        assert_eq!((list[1].blind, list[1].ours), (Some(45.0), Some(40.9)));
        let text = comparison_document(&list, "1");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let counts = ["met", "missed", "predicted"].map(|field| value[field].as_u64());
        assert_eq!(counts, [Some(1), Some(0), Some(1)]);
        insta::assert_snapshot!(comparison_markdown(&list));
        insta::assert_snapshot!(comparison_verdict(&list));
    }

    #[test]
    fn nothing_is_as_far_off_as_something_beside_nothing() {
        assert_eq!(relative(0.0, 0.0), Some(0.0));
        assert_eq!(relative(1.0, 0.0), None);
        assert!(relative(26.0, 20.0).is_some_and(|off| (off - 0.3).abs() < 1e-12));
    }
}
