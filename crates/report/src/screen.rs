//! The table on the screen: what one cell's and a sweep's have in common.

mod cell;
mod sweep;

pub use cell::cell_table;
pub(crate) use cell::headline_rows;
pub use sweep::sweep_table;
pub(crate) use sweep::{CellsTable, cells_table, note};

use comfy_table::{ContentArrangement, Table, presets};

use crate::across::{AcrossSeeds, Spread};
use crate::figure::{decimals, percent, quantity, with_decimals};
use crate::outcome::{CellOutcome, Figure, FigureRole, Published};
use crate::summary::{LatencySummary, Summary};

/// A cell's numbers: of its run, or over its seeds.
pub(crate) struct View<'a> {
    pub(crate) runs: Vec<&'a Summary>,
    pub(crate) mean_us: Option<Spread>,
}

/// A cell as a table of cells sees it.
pub(crate) struct CellView<'a> {
    pub(crate) set: &'a [(String, String)],
    pub(crate) published: &'a Published,
    pub(crate) view: View<'a>,
}

impl<'a> CellView<'a> {
    pub(crate) fn new(cell: &'a CellOutcome) -> Self {
        Self {
            set: &cell.set,
            published: &cell.published,
            view: View::new(cell),
        }
    }
}

impl<'a> View<'a> {
    pub(crate) fn new(cell: &'a CellOutcome) -> Self {
        Self::of(cell.runs.iter().map(|run| &run.summary).collect())
    }

    /// Whether none of its runs was told to be on its way to somewhere else.
    pub(crate) fn is_steady(&self) -> bool {
        let mut states = self.runs.iter().map(|run| run.steady_state.state.as_str());
        !states.any(|state| ["transient", "overloaded"].contains(&state))
    }

    /// Of a cell's runs, one a seed.
    pub(crate) fn of(runs: Vec<&'a Summary>) -> Self {
        let mean_us = match runs.as_slice() {
            [only] => {
                let LatencySummary { mean, ci95, .. } = only.latency_us;
                mean.map(|mean| Spread { mean, ci95 })
            }
            _ => AcrossSeeds::new(runs.iter().copied()).latency_us.mean,
        };
        Self { runs, mean_us }
    }

    /// The mean over the runs that have the number.
    pub(crate) fn mean(&self, of: impl Fn(&Summary) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| of(run)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    pub(crate) fn sum(&self, of: impl Fn(&Summary) -> u64) -> u64 {
        self.runs.iter().map(|run| of(run)).sum()
    }

    pub(crate) fn latency(&self, of: impl Fn(&LatencySummary) -> Option<f64>) -> Option<f64> {
        self.mean(|run| of(&run.latency_us))
    }

    pub(crate) fn link(&self, class: &str) -> Option<(f64, f64)> {
        let mean = self.mean(|run| run.links.value(class).map(|usage| usage.utilisation_mean))?;
        let max = self.mean(|run| run.links.value(class).map(|usage| usage.utilisation_max))?;
        Some((mean, max))
    }

    pub(crate) fn has_switch_links(&self) -> bool {
        ["mesh", "tree_up", "tree_down"]
            .iter()
            .any(|class| self.link(class).is_some())
    }

    pub(crate) fn dropped_fraction(&self) -> f64 {
        self.mean(|run| Some(run.dropped_fraction()))
            .unwrap_or_default()
    }
}

pub(crate) fn plain_table(header: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// Two spaces before each line, three between columns, none at the end.
pub(crate) fn indented(table: &Table) -> String {
    let mut table = table.clone();
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table
        .lines()
        .map(|line| format!("  {}", line.trim_end()).trim_end().to_owned() + "\n")
        .collect()
}

pub(crate) fn spread(Spread { mean, ci95 }: Spread) -> String {
    match ci95 {
        Some(half_width) => {
            let decimals = decimals(mean);
            format!(
                "{} +- {}",
                with_decimals(mean, decimals),
                with_decimals(half_width, decimals)
            )
        }
        None => quantity(mean),
    }
}

/// The mean, with its interval where there is one.
pub(crate) fn mean_text(mean: Option<Spread>) -> String {
    match mean {
        Some(mean @ Spread { ci95: Some(_), .. }) => spread(mean),
        Some(Spread { mean, ci95: None }) => {
            format!("{} ({TOO_SHORT})", quantity(mean))
        }
        None => "-".to_owned(),
    }
}

/// Said where a mean has no interval.
pub(crate) const TOO_SHORT: &str = "too short for an interval";

/// The same of a mean over seeds, whose interval knows nothing of what all runs have in common.
pub(crate) const RUNS_TOO_SHORT: &str = "a run alone is too short for an interval";

pub(crate) fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), quantity)
}

/// What is said beside a figure that is no measure of a prediction.
fn mark(figure: &Figure) -> &'static str {
    match figure.role {
        FigureRole::Given => " (given)",
        FigureRole::Predicted => " (blind)",
        FigureRole::Result | FigureRole::Context => "",
    }
}

/// How figures at a path are written.
pub(crate) fn figure_format(path: &str) -> fn(f64) -> String {
    if is_fraction(path) { percent } else { quantity }
}

pub(crate) fn is_fraction(path: &str) -> bool {
    path.ends_with("fraction") || path.contains("utilisation")
}

/// Where the published figures of some cells stand.
fn sources<'a>(cells: impl Iterator<Item = &'a CellOutcome>) -> String {
    source_lines(cells.flat_map(|cell| &cell.published.sources))
}

/// Where published figures stand, one line each after an empty one, and each place once.
pub(crate) fn source_lines<'a>(all: impl Iterator<Item = &'a String>) -> String {
    let mut sources: Vec<&str> = Vec::new();
    for source in all {
        if !source.is_empty() && !sources.contains(&source.as_str()) {
            sources.push(source);
        }
    }
    let lines: String = sources
        .iter()
        .map(|source| format!("  published: {source}\n"))
        .collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}
