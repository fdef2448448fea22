//! The table on the screen: what one cell's and that of several cells have in common.

mod cell;
mod cells;

pub use cell::cell_table;
pub(crate) use cell::headline_rows;
pub(crate) use cells::{CellsTable, cells_table};
pub use cells::{run_cells_table, sweep_cells_table};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::across::Spread;
use crate::figure::{decimals, percent, quantity, with_decimals};
use crate::outcome::{Figure, FigureRole, Published};
use crate::record::TOO_SHORT;

pub(crate) fn plain_table(header: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// A table of these columns, each with its title and whether what stands below is a number. Ends
/// with a line feed.
pub(crate) fn aligned_table(
    columns: Vec<(String, bool)>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let (titles, are_numbers): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let mut table = plain_table(titles);
    table.add_rows(rows);
    for (index, is_number) in are_numbers.into_iter().enumerate() {
        if let Some(column) = table.column_mut(index).filter(|_| is_number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    indented(&table)
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

/// Where published figures stand.
fn sources<'a>(published: impl Iterator<Item = &'a Published>) -> String {
    source_lines(published.flat_map(|published| &published.sources))
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
