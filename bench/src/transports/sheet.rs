//! The values of a run by transport, cell and placement: tables for people, rows for the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::protocol::Test;
use crate::table::{Samples, shown};
use crate::transports::cell::{Cell, size};
use crate::transports::contestants::Contestant;
use crate::transports::placement::{Placement, Sample};

/// Every value that was kept.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    /// By the place of the contestant in the list.
    values: BTreeMap<(usize, Cell, Placement), Vec<Sample>>,
}

/// One quantity as it is kept in the file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SheetRow {
    transport: String,
    version: String,
    test: &'static str,
    bytes: usize,
    touched: bool,
    placement: Placement,
    unit: &'static str,
    median: f64,
    samples: Vec<Sample>,
}

impl Sheet {
    pub(crate) fn add(&mut self, contestant: usize, cell: Cell, sample: Sample) {
        let key = (contestant, cell, sample.placement);
        self.values.entry(key).or_default().push(sample);
    }

    /// The median of the values in one placement, when there is one.
    pub(crate) fn median(
        &self,
        contestant: usize,
        cell: Cell,
        placement: Placement,
    ) -> Option<f64> {
        let samples = self.values.get(&(contestant, cell, placement))?;
        Some(samples_of(samples, |sample| sample.figures.value).median())
    }

    /// The version that a contestant told.
    fn version(&self, contestant: usize) -> &str {
        let mut samples = self
            .values
            .iter()
            .filter(|((place, _, _), _)| *place == contestant)
            .flat_map(|(_, samples)| samples);
        samples.next().map_or("", |sample| &sample.figures.version)
    }

    /// A contestant as the tables name it.
    pub(crate) fn name(&self, contestants: &[Contestant], contestant: usize) -> String {
        let name = &contestants[contestant].name;
        match (contestants[contestant].group, self.version(contestant)) {
            ("floor", _) | (_, "") => name.clone(),
            (_, version) => format!("{name} {version}"),
        }
    }

    /// One table a placement and kind of cell.
    pub(crate) fn tables(&self, contestants: &[Contestant], cells: &[Cell]) -> String {
        let mut text = String::new();
        for placement in Placement::ALL {
            let lines = self
                .values
                .iter()
                .filter(|((_, _, at), _)| *at == placement)
                .flat_map(|(_, samples)| samples);
            let line_us = samples_of(lines, |sample| sample.line_before_us);
            if line_us.is_empty() {
                continue;
            }
            let (word, line) = (placement.word(), shown(line_us.median()));
            for (what, is_shown) in TABLES {
                let columns: Vec<Cell> = cells
                    .iter()
                    .copied()
                    .filter(|cell| is_shown(*cell))
                    .collect();
                if columns.is_empty() {
                    continue;
                }
                let _ = writeln!(text, "\n{what}; {word} cores (line {line} us)");
                text.push_str(&self.table(contestants, &columns, placement));
            }
        }
        text
    }

    fn table(&self, contestants: &[Contestant], cells: &[Cell], placement: Placement) -> String {
        let mut text = format!("{:<34}", "");
        for cell in cells {
            let _ = write!(text, " {:>16}", heading(*cell));
        }
        text.push('\n');
        for place in 0..contestants.len() {
            let medians: Vec<_> = cells
                .iter()
                .map(|cell| self.median(place, *cell, placement))
                .collect();
            if medians.iter().all(Option::is_none) {
                continue;
            }
            let _ = write!(text, "{:<34}", self.name(contestants, place));
            for median in medians {
                let _ = write!(text, " {:>16}", median.map(shown).unwrap_or_default());
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }

    /// Everything, for the file.
    pub(crate) fn rows(&self, contestants: &[Contestant]) -> Vec<SheetRow> {
        self.values
            .iter()
            .map(|((place, cell, placement), samples)| SheetRow {
                transport: contestants[*place].name.clone(),
                version: self.version(*place).to_owned(),
                test: cell.test.word(),
                bytes: cell.bytes,
                touched: cell.touched,
                placement: *placement,
                unit: cell.unit(),
                median: samples_of(samples, |sample| sample.figures.value).median(),
                samples: samples.clone(),
            })
            .collect()
    }
}

/// A table and the cells that are its columns.
type Table = (&'static str, fn(Cell) -> bool);

const TABLES: &[Table] = &[
    ("half round trip, us, untouched", |cell| {
        cell.test == Test::Latency && !cell.touched
    }),
    ("half round trip, us, touched", |cell| {
        cell.test == Test::Latency && cell.touched
    }),
    ("messages, M/s; one way, GB/s", |cell| {
        cell.test != Test::Latency
    }),
];

fn heading(cell: Cell) -> String {
    match (cell.test, cell.touched) {
        (Test::Bandwidth, true) => format!("{} +touch", size(cell.bytes)),
        (Test::Rate, _) => format!("{} M/s", size(cell.bytes)),
        _ => size(cell.bytes),
    }
}

fn samples_of<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    value: impl Fn(&Sample) -> f64,
) -> Samples {
    let mut values = Samples::default();
    samples
        .into_iter()
        .for_each(|sample| values.add(value(sample)));
    values
}
