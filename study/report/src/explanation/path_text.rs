//! The text of `viaduct why --critical-path`: where the time went, at whom, and the longest steps.
//!
//! Times are in microseconds with all six decimals, as those of one message: they add up.

use super::path::ExplainedPath;
use super::path_tables::{percent, rank_table, share, step_table};
use super::text::{aligned, bar, counted, exact_us};
use crate::figure::count;
use crate::screen::{CellsTable, aligned_table, plain_table};

/// How many ranks have a row.
const RANKS_SHOWN: usize = 5;

/// How many steps have a row.
const STEPS_SHOWN: usize = 20;

/// The critical path for a terminal. Ends with a line feed.
#[must_use]
pub fn critical_path_text(explained: &ExplainedPath<'_>) -> String {
    let path = explained.path;
    let (ended, operations) = path.operations;
    let ended = match ended == operations {
        true => String::new(),
        false => format!(", of which {} have ended", count(ended)),
    };
    let mut text = format!(
        "  all operations  {} us: {} of {}{ended}\n  critical path   {}{}\n",
        exact_us(path.makespan.picoseconds()),
        counted(operations, "operation"),
        counted(path.ranks.into(), "rank"),
        counted(path.steps.len() as u64, "step"),
        match path.steps.len() {
            0 | 1 => "",
            _ => ", each of which waited for the one before",
        },
    );
    if path.steps.is_empty() {
        return text;
    }
    text += &format!("\n{}", part_table(explained));
    let CellsTable { columns, rows } = rank_table(explained, RANKS_SHOWN);
    text += &format!("\n{}", aligned_table(columns, rows));
    let CellsTable { columns, rows } = step_table(explained, STEPS_SHOWN);
    text += &format!("\n{}", aligned_table(columns, rows));
    match path.steps.len() > STEPS_SHOWN {
        true => text + "  (the longest; --json has all)\n",
        false => text,
    }
}

fn part_table(explained: &ExplainedPath<'_>) -> String {
    let whole = explained.path.makespan;
    let header = ["where", "time, us", "share", ""];
    let mut table = plain_table(header.map(str::to_owned).to_vec());
    for (part, time) in explained.parts() {
        let share = share(time, whole);
        table.add_row(vec![
            part.words(),
            exact_us(time.picoseconds()),
            percent(share),
            bar(share),
        ]);
    }
    table.add_row(vec![
        "all operations".to_owned(),
        exact_us(whole.picoseconds()),
        percent(1.0),
    ]);
    aligned(table, &[1, 2])
}
