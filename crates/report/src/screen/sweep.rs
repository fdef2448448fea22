//! The table of a sweep.

use comfy_table::CellAlignment;

use super::{
    CellView, RUNS_TOO_SHORT, TOO_SHORT, View, figure_format, indented, is_fraction, mark,
    plain_table, shown, sources, spread,
};
use crate::figure::{difference, percent};
use crate::outcome::{Figure, FigureRole, StudyOutcome};
use crate::summary::Summary;

/// The table of a sweep: one row per cell. Ends with a line feed.
#[must_use]
pub fn sweep_table(outcome: &StudyOutcome) -> String {
    let cells: Vec<CellView<'_>> = outcome.cells.iter().map(CellView::new).collect();
    let CellsTable { columns, rows } = cells_table(&cells);
    let mut table = plain_table(columns.iter().map(|(title, _)| title.clone()).collect());
    for row in rows {
        table.add_row(row);
    }
    for (index, (_, is_number)) in columns.iter().enumerate() {
        if let Some(column) = table.column_mut(index).filter(|_| *is_number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    indented(&table) + &agreement(&cells) + &sources(outcome.cells.iter())
}

/// A row a cell.
pub(crate) struct CellsTable {
    /// Titles, and whether what stands below is a number.
    pub(crate) columns: Vec<(String, bool)>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The swept values of each cell and what came of them.
pub(crate) fn cells_table(cells: &[CellView<'_>]) -> CellsTable {
    let numbers = sweep_columns(cells);
    let keys = cells.first().map_or(&[][..], |cell| cell.set);
    let columns = keys.iter().map(|(key, _)| (key.clone(), false));
    let columns = columns.chain(
        numbers
            .iter()
            .map(|column| (column.title.clone(), column.is_number)),
    );
    let rows = cells.iter().map(|cell| {
        let values = cell.set.iter().map(|(_, value)| value.clone());
        let texts = numbers.iter().map(|column| (column.text)(cell));
        values.chain(texts).collect()
    });
    CellsTable {
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

type CellText<'a> = dyn Fn(&CellView<'_>) -> String + 'a;

struct SweepColumn<'a> {
    title: String,
    is_number: bool,
    text: Box<CellText<'a>>,
}

fn sweep_columns<'a>(cells: &'a [CellView<'a>]) -> Vec<SweepColumn<'a>> {
    let any = |holds: fn(&Summary) -> bool| {
        let mut runs = cells.iter().flat_map(|cell| &cell.view.runs);
        runs.any(|run| holds(run))
    };
    let number = |title: &str, text: fn(&View<'_>) -> String| SweepColumn {
        title: title.to_owned(),
        is_number: true,
        text: Box::new(move |cell| text(&cell.view)),
    };
    let mut columns = vec![
        number("mean us (95 % CI)", |view| {
            view.mean_us.map_or_else(|| "-".to_owned(), spread)
        }),
        number("p99 us", |view| shown(view.latency(|latency| latency.p99))),
        number("busiest link %", |view| {
            let busiest = view.mean(|run| {
                run.links
                    .iter()
                    .map(|(_, usage)| usage.utilisation_max)
                    .reduce(f64::max)
            });
            busiest.map_or_else(|| "-".to_owned(), percent)
        }),
    ];
    if any(|run| run.buses.utilisation_mean > 0.0) {
        columns.push(number("bus %", |view| {
            percent(
                view.mean(|run| Some(run.buses.utilisation_mean))
                    .unwrap_or_default(),
            )
        }));
    }
    if any(|run| run.messages.dropped > 0) {
        columns.push(number("dropped %", |view| percent(view.dropped_fraction())));
    }
    let mut paths: Vec<&str> = Vec::new();
    for path in cells.iter().flat_map(|cell| cell.published.figures.keys()) {
        if !COST_PATHS.contains(&path.as_str()) && !paths.contains(&path.as_str()) {
            paths.push(path);
        }
    }
    let one_figure = paths.len() == 1;
    for path in paths {
        let name = if one_figure {
            String::new()
        } else {
            format!(" {path}")
        };
        let unit = if is_fraction(path) { " %" } else { "" };
        columns.push(SweepColumn {
            title: format!("published{name}{unit}"),
            is_number: true,
            text: Box::new(move |cell| {
                let figure = cell.published.figures.get(path);
                figure
                    .map(|figure| figure_format(path)(figure.value) + mark(figure))
                    .unwrap_or_default()
            }),
        });
        columns.push(SweepColumn {
            title: "difference".to_owned(),
            is_number: true,
            text: Box::new(move |cell| {
                compared(cell, path)
                    .map(|(ours, figure)| difference(ours, figure.value))
                    .unwrap_or_default()
            }),
        });
    }
    if cells.iter().any(|cell| !note(&cell.view).is_empty()) {
        columns.push(SweepColumn {
            title: "note".to_owned(),
            is_number: false,
            text: Box::new(|cell| note(&cell.view)),
        });
    }
    columns
}

/// What a published run cost: shown beside ours, but no measure of agreement.
const COST_PATHS: [&str; 2] = ["events", "wall_s"];

/// Our number and the published one at `path`, where there are both to compare.
fn compared<'a>(cell: &CellView<'a>, path: &str) -> Option<(f64, &'a Figure)> {
    let figure = cell.published.figures.get(path)?;
    if COST_PATHS.contains(&path) || figure.role == FigureRole::Context {
        return None;
    }
    Some((cell.view.mean(|run| run.number(path))?, figure))
}

/// What must be known before a row is believed.
pub(crate) fn note(view: &View<'_>) -> String {
    let has = |holds: fn(&Summary) -> bool| view.runs.iter().any(|run| holds(run));
    let notes = [
        (has(|run| !run.violations.is_empty()), "a check failed"),
        (has(|run| run.ended == "interrupted"), "interrupted"),
        (has(|run| run.drops_unasked), "MESSAGES LOST"),
        (
            has(|run| run.steady_state.state == "overloaded"),
            "unstable: offered more than served",
        ),
        (
            has(|run| run.steady_state.state == "transient"),
            "not steady after warm-up",
        ),
        (
            has(Summary::is_too_short),
            match view.runs.len() {
                1 => TOO_SHORT,
                _ => RUNS_TOO_SHORT,
            },
        ),
    ];
    let notes = notes
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, note)| note);
    notes.collect::<Vec<_>>().join(", ")
}

/// How far the published figures are, on average and at worst; apart, those that the model was
/// calibrated on, and those that a version predicted blind.
fn agreement(cells: &[CellView<'_>]) -> String {
    let mut misses = [
        (FigureRole::Result, "published", Vec::new()),
        (
            FigureRole::Given,
            "published and given to the model",
            Vec::new(),
        ),
        (
            FigureRole::Predicted,
            "predicted blind by an earlier version",
            Vec::new(),
        ),
    ];
    for cell in cells {
        for path in cell.published.figures.keys() {
            let Some((ours, figure)) = compared(cell, path) else {
                continue;
            };
            for (role, _, list) in &mut misses {
                if *role == figure.role && figure.value != 0.0 {
                    list.push((ours / figure.value - 1.0).abs());
                }
            }
        }
    }
    let mut text = String::new();
    for (_, what, misses) in misses.iter().filter(|(_, _, misses)| !misses.is_empty()) {
        let mean = misses.iter().sum::<f64>() / misses.len() as f64 * 100.0;
        let worst = misses.iter().copied().fold(0.0, f64::max) * 100.0;
        let figures = if misses.len() == 1 {
            "figure"
        } else {
            "figures"
        };
        text += &format!(
            "  {} {figures} {what}: {mean:.1} % off on average, {worst:.1} % at worst\n",
            misses.len(),
        );
    }
    if text.is_empty() {
        text
    } else {
        format!("\n{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Published;
    use crate::sample;

    #[test]
    fn a_sweep_with_published_figures() {
        insta::assert_snapshot!(sweep_table(&sample::sweep()));
    }

    #[test]
    fn a_sweep_of_drops_with_an_unstable_cell() {
        let mut outcome = sample::sweep();
        for (index, cell) in outcome.cells.iter_mut().enumerate() {
            cell.set = vec![("hosts.prepost".to_owned(), (1 << index).to_string())];
            cell.published = Published::default();
            let summary = &mut cell.runs[0].summary;
            summary.messages.dropped = summary.messages.posted >> (3 + index);
            summary.messages.delivered = summary.messages.posted - summary.messages.dropped;
        }
        outcome.cells[1].runs[0].summary.steady_state.state = "overloaded".to_owned();
        insta::assert_snapshot!(sweep_table(&outcome));
    }
}
