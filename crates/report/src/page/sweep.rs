//! The page of a sweep: its curves, its cells, and what must be known of them.

use viaduct_plot::Format;

use super::run::figures;
use super::{Block, Column, Page, Section, Table};
use crate::sweep::{SweepAccount, SweepCell, cells, curves};

/// Rows beyond which the table is a file's business.
const ROWS_MAX: usize = 1000;

pub(super) fn page(account: &SweepAccount, commands: &[(&str, &str)]) -> Page {
    let made: usize = account.cells.iter().map(|cell| cell.records.len()).sum();
    let keys: Vec<&str> = account.axes.iter().map(|(key, _)| &**key).collect();
    let commands = commands.iter().map(|(text, meaning)| Block::Command {
        text: (*text).to_owned(),
        meaning: (*meaning).to_owned(),
    });
    let sections = [
        Section::new("warnings", "Warnings", warnings(account)),
        Section::new("curves", "Curves", pictures(account)),
        Section::new("cells", "Cells", table(account)),
        Section::new("again", "Go on, or look closer", commands.collect()),
    ];
    Page {
        title: format!("{}: a sweep", account.study),
        lead: vec![format!(
            "{} cells of {}, {made} runs.",
            account.cells.len(),
            match keys.is_empty() {
                true => "the study as it is".to_owned(),
                false => keys.join(" and "),
            }
        )],
        sections: sections.into_iter().flatten().collect(),
        foot: format!("viaduct {}, digest {}", account.version, account.digest()),
    }
}

fn warnings(account: &SweepAccount) -> Vec<Block> {
    let count =
        |holds: fn(&SweepCell) -> bool| account.cells.iter().filter(|cell| holds(cell)).count();
    let cells = |count: usize, one: &str, more: &str| match count {
        1 => format!("1 cell {one}"),
        _ => format!("{count} cells {more}"),
    };
    let alert = |level, text: String, help: &str| Block::Alert {
        level,
        text,
        help: Some(help.to_owned()),
    };
    let violated = count(|cell| cell.runs().any(|run| !run.violations.is_empty()));
    let failed = count(|cell| cell.reason().is_some());
    let unstable = count(SweepCell::is_unstable);
    let left = account.runs_not_begun;
    [
        (violated > 0).then(|| {
            let text = cells(violated, "fails", "fail") + " a check of a run on itself";
            let help = "do not use these results; this is an error in the program";
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

fn pictures(account: &SweepAccount) -> Vec<Block> {
    let drawn = curves(account).into_iter().map(|curves| {
        let mut chart = curves.chart;
        chart.title = String::new();
        let element = chart
            .draw(&curves.marks, Format::SCREEN)
            .to_element(curves.title);
        Block::figure(curves.title, element, curves.caption)
    });
    figures(drawn.collect())
}

fn table(account: &SweepAccount) -> Vec<Block> {
    let (columns, mut rows) = cells(account);
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    let columns = columns.into_iter();
    let columns = columns.map(|column| Column::new(column.title, column.is_number));
    let mut blocks = vec![Block::Table(Table {
        columns: columns.collect(),
        rows,
    })];
    if left_out > 0 {
        blocks.push(Block::text(format!(
            "{left_out} more cells are in sweep.parquet."
        )));
    }
    blocks
}
