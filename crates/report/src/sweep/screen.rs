//! The table of a sweep on the terminal: one row per cell.

use comfy_table::CellAlignment;

use super::{SweepAccount, SweepCell};
use crate::figure::{percent, scaled_count};
use crate::screen::{RUNS_TOO_SHORT, TOO_SHORT, indented, plain_table, shown, spread};

/// A row a cell; ends with a line feed.
#[must_use]
pub fn sweep_cells_table(account: &SweepAccount) -> String {
    let (columns, rows) = cells(account);
    let titles = columns.iter().map(|column| column.title.clone());
    let mut table = plain_table(titles.collect());
    table.add_rows(rows);
    for (index, column) in columns.iter().enumerate() {
        if let (true, Some(shown)) = (column.is_number, table.column_mut(index)) {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    indented(&table)
}

/// A column of the table of cells.
pub(crate) struct CellColumn {
    pub(crate) title: String,
    pub(crate) is_number: bool,
}

/// The columns of the table, and a row for each cell of which a run was made.
pub(crate) fn cells(account: &SweepAccount) -> (Vec<CellColumn>, Vec<Vec<String>>) {
    let any = |holds: fn(&SweepCell) -> bool| account.cells.iter().any(holds);
    let has_buses = any(|cell| cell.runs().any(|run| run.buses.utilisation_mean > 0.0));
    let has_drops = any(|cell| cell.runs().any(|run| run.messages.dropped > 0));
    let has_notes = account.cells.iter().any(|cell| !note(cell).is_empty());
    let column = |title: &str, is_number| CellColumn {
        title: title.to_owned(),
        is_number,
    };
    let keys = account.axes.iter();
    let mut columns: Vec<CellColumn> = keys.map(|(key, _)| column(key, false)).collect();
    let figures = ["seeds", "mean us (95 % CI)", "p99 us", "busiest link %"];
    columns.extend(figures.map(|title| column(title, true)));
    columns.extend(has_buses.then(|| column("bus %", true)));
    columns.extend(has_drops.then(|| column("dropped %", true)));
    columns.extend(has_notes.then(|| column("note", false)));
    let begun = account.cells.iter().filter(|cell| !cell.records.is_empty());
    let row = |cell: &SweepCell| {
        let mut row: Vec<String> = cell.set.iter().map(|(_, value)| value.clone()).collect();
        let is_unstable = cell.is_unstable();
        let steady = |text: String| match is_unstable {
            true => "unstable".to_owned(),
            false => text,
        };
        let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
        row.push(cell.runs().count().to_string());
        let mean = cell.mean_us();
        row.push(steady(mean.map_or_else(|| "-".to_owned(), spread)));
        row.push(match is_unstable {
            true => "-".to_owned(),
            false => shown(cell.mean(|run| run.latency_us.p99)),
        });
        row.push(share(cell.mean(|run| Some(run.links.utilisation_max))));
        if has_buses {
            row.push(share(cell.mean(|run| Some(run.buses.utilisation_mean))));
        }
        if has_drops {
            let dropped = |posted: u64, dropped: u64| dropped as f64 / posted.max(1) as f64;
            let of = |run: &super::SweepNumbers| dropped(run.messages.posted, run.messages.dropped);
            row.push(share(cell.mean(|run| Some(of(run)))));
        }
        if has_notes {
            row.push(note(cell));
        }
        row
    };
    (columns, begun.map(row).collect())
}

fn is_too_short(run: &super::SweepNumbers) -> bool {
    crate::summary::is_too_short(&run.latency_us, &run.steady_state)
}

/// What must be known before a row is believed.
fn note(cell: &SweepCell) -> String {
    let mut notes = Vec::new();
    if let Some(reason) = cell.reason() {
        notes.push(format!("failed: {reason}"));
    }
    if cell.runs().any(|run| !run.violations.is_empty()) {
        notes.push("a check failed".to_owned());
    }
    if cell.is_unstable() {
        let rate = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), scaled_count);
        notes.push(format!(
            "offered {} msg/s, carried {}",
            rate(cell.mean(|run| run.offered_messages_per_s)),
            rate(cell.mean(|run| run.carried_messages_per_s))
        ));
    } else if cell.runs().any(|run| run.steady_state.state == "transient") {
        notes.push("not steady after warm-up".to_owned());
    } else if cell.runs().any(is_too_short) {
        notes.push(match cell.runs().count() {
            1 => TOO_SHORT.to_owned(),
            _ => RUNS_TOO_SHORT.to_owned(),
        });
    }
    notes.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::sample;

    #[test]
    fn a_sweep_with_an_unstable_and_a_failed_cell() {
        insta::assert_snapshot!(sweep_cells_table(&sample::account()));
    }
}
