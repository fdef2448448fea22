//! Lines of a journal, one per run, with a checksum, so that one that was cut short is known.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};

use viaduct_report::{RunRecord, content_hash};

/// The line of a run: its checksum, a space, a JSON record.
pub(crate) fn line(record: &RunRecord) -> io::Result<String> {
    let text = serde_json::to_string(record).map_err(io::Error::other)?;
    Ok(format!("{} {text}\n", content_hash(text.as_bytes())))
}

/// The run of a line without its line feed; none if the line is not whole.
pub(crate) fn parse(line: &[u8]) -> Option<RunRecord> {
    let (sum, text) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    if content_hash(text.as_bytes()) != sum {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Lines are appended whole, by one write each.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
}

impl Journal {
    pub(crate) const fn new(file: File) -> Self {
        Self { file }
    }

    /// Keeps the line of a run.
    pub(crate) fn append(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(line.as_bytes())
    }

    /// Another handle, by which what was appended can be made to last.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

/// Runs that were made.
#[derive(Debug, Default)]
pub(crate) struct Records {
    runs: BTreeMap<(u32, u64), RunRecord>,
    /// Lines that were torn or changed.
    pub(crate) lines_dropped: u64,
}

impl Records {
    pub(crate) fn read(&mut self, journal: &[u8]) {
        let mut lines = journal.split(|&byte| byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            // What follows the last line feed is no line; if there is anything, it was torn.
            let is_whole = lines.peek().is_some();
            match parse(line).filter(|_| is_whole) {
                Some(record) => self.keep(record),
                None => self.lines_dropped += u64::from(!line.is_empty()),
            }
        }
    }

    /// Keeps a run; the first of several of one cell and seed counts.
    pub(crate) fn keep(&mut self, record: RunRecord) {
        self.runs
            .entry((record.cell, record.seed))
            .or_insert(record);
    }

    /// The runs of a cell in the order of seeds.
    pub(crate) fn of(&self, cell: u32) -> impl Iterator<Item = &RunRecord> {
        self.runs
            .range((cell, 0)..=(cell, u64::MAX))
            .map(|(_, record)| record)
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cell: u32, seed: u64) -> RunRecord {
        RunRecord {
            cell,
            seed,
            made: Err("it failed\nfor a reason".to_owned()),
        }
    }

    #[test]
    fn a_line_cut_anywhere_is_dropped_and_the_others_are_kept() {
        let whole = [record(0, 1), record(0, 2), record(1, 1)].map(|record| line(&record).unwrap());
        let text = whole.concat();
        let second = whole[0].len() + whole[1].len();
        for cut in second..text.len() {
            let mut records = Records::default();
            records.read(&text.as_bytes()[..cut]);
            assert_eq!(records.len(), 2, "cut at {cut}");
            assert_eq!(
                records.lines_dropped,
                u64::from(cut > second),
                "cut at {cut}"
            );
        }
        let mut records = Records::default();
        records.read(text.as_bytes());
        assert_eq!((records.len(), records.lines_dropped), (3, 0));
        assert_eq!(records.of(0).count(), 2);
    }

    #[test]
    fn a_changed_line_is_dropped() {
        let text = line(&record(3, 4))
            .unwrap()
            .replace("it failed", "it sailed");
        let mut records = Records::default();
        records.read(text.as_bytes());
        assert_eq!((records.len(), records.lines_dropped), (0, 1));
    }
}
