//! The page of a sweep: its curves, its cells, and what must be known of them.

use super::run::{curve_figures, table_of};
use super::{Block, Page, Section};
use crate::outcome::StudyOutcome;
use crate::record::{CellRecord, Look};
use crate::screen::cells_table;

/// Rows beyond which the table is a file's business.
const ROWS_MAX: usize = 1000;

pub(super) fn page(outcome: &StudyOutcome, commands: &[(&str, &str)]) -> Page {
    let made = outcome.runs().count();
    let keys = outcome.cells.first().map_or(&[][..], |cell| &cell.set);
    let keys: Vec<&str> = keys.iter().map(|(key, _)| &**key).collect();
    let cells: Vec<CellRecord<'_>> = outcome.cells.iter().map(|cell| cell.record()).collect();
    let commands = commands.iter().map(|(text, meaning)| Block::Command {
        text: (*text).to_owned(),
        meaning: (*meaning).to_owned(),
    });
    let sections = [
        Section::new(
            "warnings",
            "Warnings",
            warnings(&cells, outcome.runs_not_begun),
        ),
        Section::new(
            "curves",
            "Curves",
            curve_figures(&cells, &outcome.study, Look::Sweep),
        ),
        Section::new("cells", "Cells", table(&cells)),
        Section::new("again", "Go on, or look closer", commands.collect()),
    ];
    Page {
        title: format!("{}: a sweep", outcome.study),
        lead: vec![format!(
            "{} cells of {}, {made} runs.",
            outcome.cells.len(),
            match keys.is_empty() {
                true => "the study as it is".to_owned(),
                false => keys.join(" and "),
            }
        )],
        sections: sections.into_iter().flatten().collect(),
        foot: format!("viaduct {}, digest {}", outcome.version, outcome.digest()),
    }
}

fn warnings(cells: &[CellRecord<'_>], left: u64) -> Vec<Block> {
    let count =
        |holds: fn(&CellRecord<'_>) -> bool| cells.iter().filter(|cell| holds(cell)).count();
    let cells = |count: usize, one: &str, more: &str| match count {
        1 => format!("1 cell {one}"),
        _ => format!("{count} cells {more}"),
    };
    let alert = |level, text: String, help: &str| Block::Alert {
        level,
        text,
        help: Some(help.to_owned()),
    };
    let violated = count(|cell| cell.is_unsound());
    let stuck = count(|cell| cell.stands_still());
    let failed = count(|cell| cell.reason.is_some());
    let unstable = count(|cell| cell.is_unstable());
    [
        (violated > 0).then(|| {
            let text = cells(violated, "fails", "fail") + " a check of a run on itself";
            let help = "do not use these results; this is an error in the program";
            alert("error", text, help)
        }),
        (stuck > 0).then(|| {
            let text = cells(stuck, "comes", "come") + " to a standstill";
            let help = "a run of one says who waits for whom";
            alert("error", text, help)
        }),
        (failed > 0).then(|| {
            let text = cells(failed, "failed", "failed");
            alert("warning", text, "the table says why")
        }),
        (unstable > 0).then(|| {
            let text =
                cells(unstable, "is unstable", "are unstable") + ": more was offered than carried";
            let help = "their latency grows with the length of the run, so none is shown";
            alert("warning", text, help)
        }),
        (left > 0).then(|| {
            let text = format!("{left} runs were not made");
            alert("warning", text, "viaduct sweep --resume goes on")
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn table(cells: &[CellRecord<'_>]) -> Vec<Block> {
    let is_begun = |cell: &&CellRecord<'_>| !cell.runs.is_empty() || cell.reason.is_some();
    let begun: Vec<CellRecord<'_>> = cells.iter().filter(is_begun).cloned().collect();
    let shown = &begun[..begun.len().min(ROWS_MAX)];
    let mut blocks = vec![Block::Table(table_of(cells_table(shown, Look::Sweep)))];
    if shown.len() < begun.len() {
        let left_out = begun.len() - shown.len();
        blocks.push(Block::text(format!(
            "{left_out} more cells are in sweep.parquet."
        )));
    }
    blocks
}
