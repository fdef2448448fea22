//! The table on the screen.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::across::Spread;
use crate::figure::{
    count, decimals, difference, duration, percent, quantity, scaled_count, with_decimals,
};
use crate::outcome::{CellOutcome, Published, StudyOutcome};
use crate::summary::{Counts, LatencySummary, Summary};

/// The table of one cell: a row a quantity, published figures beside ours, then where the mean
/// latency goes. Ends with a line feed.
#[must_use]
pub fn cell_table(cell: &CellOutcome) -> String {
    let ours = match cell.runs.len() {
        1 => "this run (95 % CI)".to_owned(),
        seeds => format!("{seeds} seeds (95 % CI)"),
    };
    let rows = rows(cell);
    let published = rows.iter().any(|row| !row.published.is_empty());
    let compared = published || rows.iter().any(|row| !row.difference.is_empty());
    let mut header = vec!["quantity".to_owned(), ours];
    header.extend(published.then(|| "published".to_owned()));
    header.extend(compared.then(|| if published { "difference" } else { "" }.to_owned()));
    let mut table = plain_table(header);
    for row in rows {
        let mut cells = vec![row.quantity, row.ours];
        cells.extend(published.then_some(row.published));
        cells.extend(compared.then_some(row.difference));
        table.add_row(cells);
    }
    indented(&table)
}

/// The table of a sweep: a row a cell. Ends with a line feed.
#[must_use]
pub fn sweep_table(outcome: &StudyOutcome) -> String {
    let columns = sweep_columns(outcome);
    let keys = outcome
        .cells
        .first()
        .map_or(&[][..], |cell| cell.set.as_slice());
    let header = keys.iter().map(|(key, _)| key.clone());
    let mut table = plain_table(
        header
            .chain(columns.iter().map(|column| column.title.clone()))
            .collect(),
    );
    for cell in &outcome.cells {
        let view = View::new(cell);
        let values = cell.set.iter().map(|(_, value)| value.clone());
        table.add_row(values.chain(columns.iter().map(|column| (column.text)(cell, &view))));
    }
    for (index, column) in columns.iter().enumerate() {
        let column_index = keys.len() + index;
        if let Some(table_column) = table.column_mut(column_index).filter(|_| column.is_number) {
            table_column.set_cell_alignment(CellAlignment::Right);
        }
    }
    indented(&table) + &agreement(outcome)
}

fn plain_table(header: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// Two spaces before each line, three between columns, none at the end.
fn indented(table: &Table) -> String {
    let mut table = table.clone();
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table
        .lines()
        .map(|line| format!("  {}", line.trim_end()).trim_end().to_owned() + "\n")
        .collect()
}

struct Row {
    quantity: String,
    ours: String,
    published: String,
    difference: String,
}

impl Row {
    fn new(quantity: impl Into<String>, ours: impl Into<String>) -> Self {
        Self {
            quantity: quantity.into(),
            ours: ours.into(),
            published: String::new(),
            difference: String::new(),
        }
    }

    /// With the published figure at `path`, shown by `show`.
    fn beside(
        mut self,
        published: &Published,
        path: &str,
        ours: Option<f64>,
        show: fn(f64) -> String,
    ) -> Self {
        if let Some(&figure) = published.figures.get(path) {
            self.published = show(figure);
            self.difference = ours
                .map(|ours| difference(ours, figure))
                .unwrap_or_default();
        }
        self
    }
}

/// A cell's numbers: of its run, or over its seeds.
struct View<'a> {
    runs: Vec<&'a Summary>,
    mean_us: Option<Spread>,
}

impl<'a> View<'a> {
    fn new(cell: &'a CellOutcome) -> Self {
        let runs: Vec<&Summary> = cell.runs.iter().map(|run| &run.summary).collect();
        let mean_us = match runs.as_slice() {
            [only] => {
                let LatencySummary { mean, ci95, .. } = only.latency_us;
                mean.map(|mean| Spread { mean, ci95 })
            }
            _ => cell.across_seeds().latency_us.mean,
        };
        Self { runs, mean_us }
    }

    /// The mean over the runs that have the number.
    fn mean(&self, of: impl Fn(&Summary) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| of(run)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn sum(&self, of: impl Fn(&Summary) -> u64) -> u64 {
        self.runs.iter().map(|run| of(run)).sum()
    }

    fn latency(&self, of: impl Fn(&LatencySummary) -> Option<f64>) -> Option<f64> {
        self.mean(|run| of(&run.latency_us))
    }

    fn link(&self, class: &str) -> Option<(f64, f64)> {
        let mean = self.mean(|run| run.links.value(class).map(|usage| usage.utilisation_mean))?;
        let max = self.mean(|run| run.links.value(class).map(|usage| usage.utilisation_max))?;
        Some((mean, max))
    }

    fn dropped_fraction(&self) -> f64 {
        self.mean(|run| Some(run.dropped_fraction()))
            .unwrap_or_default()
    }
}

fn rows(cell: &CellOutcome) -> Vec<Row> {
    let view = View::new(cell);
    let published = &cell.published;
    let mut rows = latency_rows(&view, published);
    rows.extend(usage_rows(&view, published));
    rows.extend(count_rows(&view, published));
    rows.extend(stage_rows(&view));
    rows
}

fn latency_rows(view: &View<'_>, published: &Published) -> Vec<Row> {
    let mean = view.mean_us.map(|spread| spread.mean);
    let sd = view.latency(|latency| latency.sd);
    type Quantile = (&'static str, fn(&LatencySummary) -> Option<f64>);
    let quantiles: [Quantile; 3] = [
        ("latency_us.p50", |latency| latency.p50),
        ("latency_us.p99", |latency| latency.p99),
        ("latency_us.p999", |latency| latency.p999),
    ];
    let ours = quantiles.map(|(_, of)| view.latency(of));
    let figures = quantiles.map(|(path, _)| published.figures.get(path).copied());
    let mut quantile_row = Row::new("p50 / p99 / p99.9, us", ours.map(shown).join(" / "));
    if figures.iter().any(Option::is_some) {
        quantile_row.published = figures.map(shown).join(" / ");
        quantile_row.difference = ours
            .into_iter()
            .zip(figures)
            .map(|pair| match pair {
                (Some(ours), Some(figure)) => difference(ours, figure),
                _ => "-".to_owned(),
            })
            .collect::<Vec<_>>()
            .join(" / ");
    }
    vec![
        Row::new(
            "mean latency, us",
            view.mean_us.map_or_else(|| "-".to_owned(), spread),
        )
        .beside(published, "latency_us.mean", mean, quantity),
        Row::new("standard deviation, us", shown(sd)).beside(
            published,
            "latency_us.sd",
            sd,
            quantity,
        ),
        quantile_row,
    ]
}

/// Links between switches; those to the hosts only where there are no others.
fn usage_rows(view: &View<'_>, published: &Published) -> Vec<Row> {
    let between_switches = [
        ("mesh", "mesh link utilisation, %"),
        ("tree_up", "tree link utilisation upwards, %"),
        ("tree_down", "tree link utilisation downwards, %"),
    ];
    let to_hosts = [
        ("host_up", "host link utilisation, sending, %"),
        ("host_down", "host link utilisation, receiving, %"),
    ];
    let row = |(class, quantity): (&str, &str)| {
        let (mean, max) = view.link(class)?;
        let ours = format!("{} (busiest {})", percent(mean), percent(max));
        let path = format!("links.{class}.utilisation_mean");
        Some(Row::new(quantity, ours).beside(published, &path, Some(mean), percent))
    };
    let mut rows: Vec<Row> = between_switches.into_iter().filter_map(row).collect();
    if rows.is_empty() {
        rows.extend(to_hosts.into_iter().filter_map(row));
    }
    let bus = view
        .mean(|run| Some(run.buses.utilisation_mean))
        .unwrap_or_default();
    let bus_max = view
        .mean(|run| Some(run.buses.utilisation_max))
        .unwrap_or_default();
    if bus > 0.0 {
        let ours = format!("{} (busiest {})", percent(bus), percent(bus_max));
        rows.push(Row::new("bus utilisation, %", ours).beside(
            published,
            "buses.utilisation_mean",
            Some(bus),
            percent,
        ));
    }
    rows
}

fn count_rows(view: &View<'_>, published: &Published) -> Vec<Row> {
    let mut rows = Vec::new();
    let messages = Counts {
        posted: view.sum(|run| run.messages.posted),
        delivered: view.sum(|run| run.messages.delivered),
        dropped: view.sum(|run| run.messages.dropped),
        in_flight: view.sum(|run| run.messages.in_flight),
    };
    if messages.dropped > 0 || published.figures.contains_key("dropped_fraction") {
        let fraction = view.dropped_fraction();
        rows.push(Row::new("messages dropped, %", percent(fraction)).beside(
            published,
            "dropped_fraction",
            Some(fraction),
            percent,
        ));
    }
    rows.push(conservation(messages));
    let wall_s: f64 = view.runs.iter().map(|run| run.wall_s).sum();
    let events = view.sum(|run| run.events);
    let mut cost = Row::new(
        "events, wall clock",
        format!("{}, {}", scaled_count(events as f64), duration(wall_s)),
    );
    cost.published = [
        published.figures.get("events").copied().map(scaled_count),
        published.figures.get("wall_s").copied().map(duration),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ");
    rows.push(cost);
    rows
}

/// Posted = delivered + dropped + in flight; the last two only where there are any.
fn conservation(messages: Counts) -> Row {
    let rest = [
        ("dropped", messages.dropped),
        ("in flight", messages.in_flight),
    ];
    let rest = rest.into_iter().filter(|(_, count)| *count > 0);
    let terms = [("delivered", messages.delivered)]
        .into_iter()
        .chain(rest)
        .collect::<Vec<_>>();
    let names = terms
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(" + ");
    let counts = terms
        .iter()
        .map(|(_, term)| count(*term))
        .collect::<Vec<_>>()
        .join(" + ");
    let sum = terms.iter().map(|(_, term)| term).sum::<u64>();
    let is_conserved = sum == messages.posted;
    let sign = if is_conserved { "=" } else { "/=" };
    let mut row = Row::new(
        format!("messages posted = {names}"),
        format!("{} {sign} {counts}", count(messages.posted)),
    );
    row.difference = if is_conserved {
        "conserved"
    } else {
        "NOT CONSERVED"
    }
    .to_owned();
    row
}

/// Where the mean goes: each stage that takes time, with its share.
fn stage_rows(view: &View<'_>) -> Vec<Row> {
    let Some(first) = view.runs.first() else {
        return Vec::new();
    };
    let stages: Vec<(&str, f64)> = first
        .breakdown_us
        .iter()
        .filter_map(|(stage, _)| {
            let mean = view.mean(|run| run.breakdown_us.value(stage).copied())?;
            (mean > 0.0).then_some((stage, mean))
        })
        .collect();
    let total: f64 = stages.iter().map(|(_, mean)| mean).sum();
    if total <= 0.0 {
        return Vec::new();
    }
    let width = stages
        .iter()
        .map(|(_, mean)| quantity(*mean).len())
        .max()
        .unwrap_or_default();
    let rows = stages.iter().map(|(stage, mean)| {
        let share = format!("{:.1} %", mean / total * 100.0);
        Row::new(
            format!("  {}", stage.replace('_', " ")),
            format!("{:>width$}   {share:>7}", quantity(*mean)),
        )
    });
    [Row::new("where the mean goes, us", "")]
        .into_iter()
        .chain(rows)
        .collect()
}

fn spread(Spread { mean, ci95 }: Spread) -> String {
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

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), quantity)
}

type CellText<'a> = dyn Fn(&CellOutcome, &View<'_>) -> String + 'a;

struct SweepColumn<'a> {
    title: String,
    is_number: bool,
    text: Box<CellText<'a>>,
}

fn sweep_columns(outcome: &StudyOutcome) -> Vec<SweepColumn<'_>> {
    let any = |holds: fn(&Summary) -> bool| outcome.runs().any(|(_, run)| holds(&run.summary));
    let number = |title: &str, text: fn(&View<'_>) -> String| SweepColumn {
        title: title.to_owned(),
        is_number: true,
        text: Box::new(move |_, view| text(view)),
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
    for path in outcome
        .cells
        .iter()
        .flat_map(|cell| cell.published.figures.keys())
    {
        if !COST_PATHS.contains(&path.as_str()) && !paths.contains(&path.as_str()) {
            paths.push(path);
        }
    }
    let one_figure = paths.len() == 1;
    for path in paths {
        let is_fraction = path.ends_with("fraction") || path.contains("utilisation");
        let name = if one_figure {
            String::new()
        } else {
            format!(" {path}")
        };
        columns.push(SweepColumn {
            title: format!("published{name}"),
            is_number: true,
            text: Box::new(move |cell, _| {
                let show = if is_fraction { percent } else { quantity };
                cell.published
                    .figures
                    .get(path)
                    .copied()
                    .map(show)
                    .unwrap_or_default()
            }),
        });
        columns.push(SweepColumn {
            title: "difference".to_owned(),
            is_number: true,
            text: Box::new(move |cell, view| {
                compared(cell, view, path)
                    .map(|(ours, figure)| difference(ours, figure))
                    .unwrap_or_default()
            }),
        });
    }
    if outcome
        .cells
        .iter()
        .any(|cell| !note(&View::new(cell)).is_empty())
    {
        columns.push(SweepColumn {
            title: "note".to_owned(),
            is_number: false,
            text: Box::new(|_, view| note(view)),
        });
    }
    columns
}

/// What a published run cost: shown beside ours, but no measure of agreement.
const COST_PATHS: [&str; 2] = ["events", "wall_s"];

/// Our number and the published one at `path`, where there are both.
fn compared(cell: &CellOutcome, view: &View<'_>, path: &str) -> Option<(f64, f64)> {
    let figure = *cell.published.figures.get(path)?;
    if COST_PATHS.contains(&path) {
        return None;
    }
    Some((view.mean(|run| run.number(path))?, figure))
}

/// What must be known before a row is believed.
fn note(view: &View<'_>) -> String {
    let has = |holds: fn(&Summary) -> bool| view.runs.iter().any(|run| holds(run));
    let notes = [
        (has(|run| !run.violations.is_empty()), "a check failed"),
        (has(|run| run.ended == "interrupted"), "interrupted"),
        (
            has(|run| run.steady_state.state == "overloaded"),
            "unstable: offered more than served",
        ),
        (
            has(|run| run.steady_state.state == "transient"),
            "not steady after warm-up",
        ),
    ];
    let notes = notes
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, note)| note);
    notes.collect::<Vec<_>>().join(", ")
}

/// How far the cells with a published figure are from it, in the mean and at worst.
fn agreement(outcome: &StudyOutcome) -> String {
    let misses: Vec<f64> = outcome
        .cells
        .iter()
        .flat_map(|cell| {
            let view = View::new(cell);
            let paths = cell.published.figures.keys();
            paths
                .filter_map(|path| compared(cell, &view, path))
                .filter(|(_, figure)| *figure != 0.0)
                .map(|(ours, figure)| (ours / figure - 1.0).abs())
                .collect::<Vec<_>>()
        })
        .collect();
    if misses.is_empty() {
        return String::new();
    }
    let mean = misses.iter().sum::<f64>() / misses.len() as f64;
    let worst = misses.iter().copied().fold(0.0, f64::max);
    format!(
        "\n  {} published figures: {:.1} % off in the mean, {:.1} % at worst\n",
        misses.len(),
        mean * 100.0,
        worst * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn one_run_beside_published_figures() {
        insta::assert_snapshot!(cell_table(&sample::one_run().cells[0]));
    }

    #[test]
    fn several_seeds() {
        insta::assert_snapshot!(cell_table(&sample::three_seeds().cells[0]));
    }

    #[test]
    fn drops_and_messages_under_way_are_terms_of_the_sum() {
        let mut outcome = sample::one_run();
        let summary = &mut outcome.cells[0].runs[0].summary;
        summary.messages = Counts {
            posted: 870_412,
            delivered: 869_196,
            dropped: 1_204,
            in_flight: 12,
        };
        outcome.cells[0].published = Published::default();
        insta::assert_snapshot!(cell_table(&outcome.cells[0]));
    }

    #[test]
    fn a_run_that_measured_nothing() {
        let mut outcome = sample::one_run();
        let summary = &mut outcome.cells[0].runs[0].summary;
        summary.latency_us = LatencySummary::default();
        summary.breakdown_us = crate::OrderedMap::default();
        summary.messages = Counts {
            posted: 1,
            ..Counts::default()
        };
        outcome.cells[0].published = Published::default();
        insta::assert_snapshot!(cell_table(&outcome.cells[0]));
    }

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
