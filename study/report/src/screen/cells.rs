//! The table of cells: of a study that `viaduct run` ran over its values, or of a sweep.

use super::{aligned_table, figure_format, is_fraction, mark, shown, sources, spread};
use crate::across::Spread;
use crate::figure::{difference, percent};
use crate::outcome::{Figure, FigureRole, StudyOutcome};
use crate::record::{CellRecord, Look};
use crate::summary::Summary;

/// The table of what `viaduct run` ran: one row per cell, published figures beside ours. Ends with
/// a line feed.
#[must_use]
pub fn run_cells_table(outcome: &StudyOutcome) -> String {
    let cells = records(outcome);
    let published = cells.iter().map(|cell| cell.published);
    text(cells_table(&cells, Look::Run)) + &agreement(&cells) + &sources(published)
}

/// The table of a sweep: one row per cell of which a run was made. Ends with a line feed.
#[must_use]
pub fn sweep_cells_table(outcome: &StudyOutcome) -> String {
    text(cells_table(&records(outcome), Look::Sweep))
}

fn records(outcome: &StudyOutcome) -> Vec<CellRecord<'_>> {
    let begun = outcome.cells.iter().filter(|cell| !cell.runs.is_empty());
    begun.map(|cell| cell.record()).collect()
}

fn text(CellsTable { columns, rows }: CellsTable) -> String {
    aligned_table(columns, rows)
}

/// One row per cell.
pub(crate) struct CellsTable {
    /// Titles, and whether what stands below is a number.
    pub(crate) columns: Vec<(String, bool)>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The swept values of each cell, and its results.
pub(crate) fn cells_table(cells: &[CellRecord<'_>], look: Look) -> CellsTable {
    let numbers = number_columns(cells, look);
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

type CellText<'a> = dyn Fn(&CellRecord<'_>) -> String + 'a;

struct NumberColumn<'a> {
    title: String,
    is_number: bool,
    text: Box<CellText<'a>>,
}

fn number_columns<'a>(cells: &'a [CellRecord<'a>], look: Look) -> Vec<NumberColumn<'a>> {
    let any = |holds: fn(&Summary) -> bool| {
        let mut runs = cells.iter().flat_map(|cell| &cell.runs);
        runs.any(|run| holds(run))
    };
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
    // A latency that grows with the length of the run.
    let is_withheld = move |cell: &CellRecord<'_>| look == Look::Sweep && cell.is_unstable();
    let number = |title: &str, text: Box<CellText<'a>>| NumberColumn {
        title: title.to_owned(),
        is_number: true,
        text,
    };
    let mut columns = Vec::new();
    if look == Look::Sweep {
        columns.push(number(
            "seeds",
            Box::new(|cell| cell.runs.len().to_string()),
        ));
    }
    let has_seeds = cells.iter().any(|cell| cell.runs.len() > 1);
    let titled = |title: &str| match has_seeds {
        true => format!("{title} (95 % CI)"),
        false => title.to_owned(),
    };
    let told = |value: Option<Spread>| value.map_or_else(|| "-".to_owned(), spread);
    if any(|run| run.application.is_some()) {
        let of = move |cell: &CellRecord<'_>| told(cell.spread(Summary::makespan_us));
        columns.push(number(&titled("all operations us"), Box::new(of)));
    }
    if cells.iter().any(|cell| cell.speed_up(cells).is_some()) {
        let of = |cell: &CellRecord<'_>| shown(cell.speed_up(cells));
        columns.push(number("speed-up", Box::new(of)));
    }
    if cells.iter().any(|cell| cell.slow_down(cells).is_some()) {
        let of = |cell: &CellRecord<'_>| shown(cell.slow_down(cells));
        columns.push(number("slow-down", Box::new(of)));
    }
    let has_collective = |run: &Summary| {
        let application = run.application.as_ref();
        application.is_some_and(|it| it.collective.is_some())
    };
    if any(has_collective) {
        let bandwidth = |run: &Summary| {
            let collective = run.application.as_ref()?.collective.as_ref();
            collective.map(|it| it.bus_bandwidth_gb_per_s)
        };
        let of = move |cell: &CellRecord<'_>| told(cell.spread(bandwidth));
        columns.push(number(&titled("bus bandwidth GB/s"), Box::new(of)));
    }
    columns.extend([
        number(
            "mean us (95 % CI)",
            Box::new(move |cell| match cell.mean_us {
                _ if is_withheld(cell) => "unstable".to_owned(),
                Some(mean) => spread(mean),
                None => "-".to_owned(),
            }),
        ),
        number(
            "p99 us",
            Box::new(move |cell| match is_withheld(cell) {
                true => "-".to_owned(),
                false => shown(cell.latency(|latency| latency.p99)),
            }),
        ),
        number(
            "busiest link %",
            Box::new(move |cell| share(cell.busiest_link())),
        ),
    ]);
    if any(|run| run.buses.utilisation_mean > 0.0) {
        let mean = |run: &Summary| Some(run.buses.utilisation_mean);
        columns.push(number(
            "bus %",
            Box::new(move |cell| share(cell.mean(mean))),
        ));
    }
    if any(|run| run.messages.dropped > 0) {
        columns.push(number(
            "dropped %",
            Box::new(move |cell| share(cell.dropped_fraction())),
        ));
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
        columns.push(number(
            &format!("published{name}{unit}"),
            Box::new(move |cell| {
                let figure = cell.published.figures.get(path);
                figure
                    .map(|figure| figure_format(path)(figure.value) + mark(figure))
                    .unwrap_or_default()
            }),
        ));
        columns.push(number(
            "difference",
            Box::new(move |cell| {
                compared(cell, path)
                    .map(|(ours, figure)| difference(ours, figure.value))
                    .unwrap_or_default()
            }),
        ));
    }
    if cells.iter().any(|cell| !cell.note(look).is_empty()) {
        columns.push(NumberColumn {
            title: "note".to_owned(),
            is_number: false,
            text: Box::new(move |cell| cell.note(look)),
        });
    }
    columns
}

/// What a published run cost: shown beside ours, but no measure of agreement.
const COST_PATHS: [&str; 2] = ["events", "wall_s"];

/// Our number and the published one at `path`, where there are both to compare.
fn compared<'a>(cell: &CellRecord<'a>, path: &str) -> Option<(f64, &'a Figure)> {
    let figure = cell.published.figures.get(path)?;
    if COST_PATHS.contains(&path) || figure.role == FigureRole::Context {
        return None;
    }
    Some((cell.mean(|run| run.number(path))?, figure))
}

/// How far the published figures are, on average and at worst; apart, those that the model was
/// calibrated on, and those that a version predicted blind.
fn agreement(cells: &[CellRecord<'_>]) -> String {
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
    use crate::summary::ApplicationSummary;

    #[test]
    fn a_sweep_with_published_figures() {
        insta::assert_snapshot!(run_cells_table(&sample::sweep()));
    }

    #[test]
    fn a_sweep_of_drops_with_an_unstable_cell() {
        let mut outcome = sample::sweep();
        for (index, cell) in outcome.cells.iter_mut().enumerate() {
            cell.set = vec![("hosts.prepost".to_owned(), (1 << index).to_string())];
            cell.published = Published::default();
            let summary = cell.runs[0].summary_mut();
            summary.messages.dropped = summary.messages.posted >> (3 + index);
            summary.messages.delivered = summary.messages.posted - summary.messages.dropped;
        }
        let summary = outcome.cells[1].runs[0].summary_mut();
        summary.steady_state.state = "overloaded".to_owned();
        summary.is_unstable = true;
        insta::assert_snapshot!(run_cells_table(&outcome));
    }

    #[test]
    fn ranks_have_a_speed_up_over_one_rank_with_all_else_the_same() {
        let mut outcome = sample::sweep();
        let cell = outcome.cells[0].clone();
        let values = [
            ("a", "1", 90.0),
            ("a", "4", 30.0),
            ("b", "1", 80.0),
            ("b", "4", 40.0),
        ];
        outcome.cells = values
            .map(|(program, ranks, makespan_us)| {
                let mut cell = cell.clone();
                cell.published = Published::default();
                let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
                cell.set = vec![
                    pair("traffic.program", program),
                    pair("traffic.ranks", ranks),
                ];
                let summary = cell.runs[0].summary_mut();
                summary.application = Some(ApplicationSummary {
                    makespan_us: Some(makespan_us),
                    ..ApplicationSummary::default()
                });
                cell
            })
            .to_vec();
        let column = |outcome: &StudyOutcome| {
            let table = cells_table(&records(outcome), Look::Sweep);
            let place = table
                .columns
                .iter()
                .position(|(title, _)| title == "speed-up")?;
            let texts = table.rows.into_iter().map(|row| row[place].clone());
            Some(texts.collect::<Vec<_>>())
        };
        assert_eq!(
            column(&outcome).unwrap(),
            ["1.000", "3.000", "1.000", "2.000"]
        );
        outcome.cells.remove(2);
        assert_eq!(column(&outcome).unwrap(), ["1.000", "3.000", "-"]);
        outcome.cells.remove(0);
        assert_eq!(column(&outcome), None);
    }

    #[test]
    fn a_sweep_with_an_unstable_and_a_failed_cell() {
        insta::assert_snapshot!(sweep_cells_table(&sample::grid()));
    }
}
