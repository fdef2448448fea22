//! The directory of a sweep: what is to be run, and what was.
//!
//! ```text
//! sweep.json        the study with its files, overrides, seeds and stop rule: written first, whole
//! journal*.jsonl    a line a run, appended when it ends: its checksum, a space, a JSON record
//! sweep.parquet     the table, made from the journals
//! *.svg             curves, made from them too
//! array.sh ...      with --slurm
//! ```
//!
//! A kill can cut the last line of a journal short. Such a line is dropped, and its run made again:
//! a run counts once its line is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use viaduct_report::{SweepRecord, content_hash};
use viaduct_scenario::SweepSource;

use crate::failure::Failure;
use crate::jobs::VERSION;

const PLAN_FILE: &str = "sweep.json";
const JOURNAL: &str = "journal";

/// What is to be run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SweepPlan {
    /// Version of the program that all runs are made by.
    pub(super) version: String,
    name: String,
    file_name: String,
    text: String,
    overrides: Vec<(String, bool)>,
    files: BTreeMap<String, String>,
    /// Cells in all.
    pub(super) cells: u32,
    /// The first seed of every cell.
    pub(super) first_seed: u64,
    /// Most seeds of a cell.
    pub(super) seeds: u32,
    /// Half width of the mean latency's interval over the mean at which a cell has enough seeds,
    /// in millionths; none if each cell has all.
    pub(super) until_width_millionths: Option<u32>,
}

impl SweepPlan {
    pub(super) fn new(
        source: SweepSource,
        cells: u32,
        (first_seed, seeds): (u64, u32),
        until_width_millionths: Option<u32>,
    ) -> Self {
        Self {
            version: VERSION.to_owned(),
            name: source.name,
            file_name: source.file_name,
            text: source.text,
            overrides: source.overrides,
            files: source.files,
            cells,
            first_seed,
            seeds,
            until_width_millionths,
        }
    }

    pub(super) fn source(&self) -> SweepSource {
        SweepSource {
            name: self.name.clone(),
            file_name: self.file_name.clone(),
            text: self.text.clone(),
            overrides: self.overrides.clone(),
            files: self.files.clone(),
        }
    }

    /// Eight digits that tell sweeps apart.
    pub(super) fn hash(&self) -> String {
        content_hash(self.text().as_bytes())[..8].to_owned()
    }

    fn text(&self) -> String {
        // Strings and numbers: there is nothing that JSON cannot say.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// A sweep's directory.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the directory, or finds the same sweep in it.
    pub(super) fn create(path: &Path, plan: &SweepPlan) -> Result<Self, Failure> {
        let folder = Self {
            path: path.to_owned(),
        };
        if folder.file(PLAN_FILE).exists() {
            if folder.plan()? != *plan {
                let title = format!("another sweep is in `{}`", path.display());
                let help = format!(
                    "choose another place with `--out DIR`, or go on with it: viaduct sweep \
                     --resume {}",
                    path.display()
                );
                return Err(Failure::new(title, help));
            }
            return Ok(folder);
        }
        fs::create_dir_all(path).map_err(|error| folder.refused("write", &error))?;
        let entries = fs::read_dir(path).map_err(|error| folder.refused("read", &error))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with(".sweep.json.partial") {
                let title = format!("`{}` holds `{name}` and no sweep", path.display());
                return Err(Failure::new(title, "choose another place with `--out DIR`"));
            }
        }
        folder.replace(PLAN_FILE, plan.text().as_bytes())?;
        Ok(folder)
    }

    /// The directory of a sweep that was begun.
    pub(super) fn open(path: &Path) -> Result<(Self, SweepPlan), Failure> {
        let folder = Self {
            path: path.to_owned(),
        };
        let plan = folder.plan()?;
        if plan.version != VERSION {
            let title = format!(
                "the sweep in `{}` was begun by version {}, this is version {VERSION}",
                path.display(),
                plan.version
            );
            let help = "results of two versions do not go together: end it with that version, or \
                        begin again in another place";
            return Err(Failure::new(title, help));
        }
        Ok((folder, plan))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn plan(&self) -> Result<SweepPlan, Failure> {
        let path = self.file(PLAN_FILE);
        let help = "give a directory that `viaduct sweep` left";
        let text = fs::read_to_string(&path).map_err(|error| {
            Failure::new(format!("cannot read `{}`: {error}", path.display()), help)
        })?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::new(format!("`{}` is no sweep: {error}", path.display()), help)
        })
    }

    fn refused(&self, what: &str, error: &io::Error) -> Failure {
        Failure::new(
            format!(
                "cannot {what} the directory `{}`: {error}",
                self.path.display()
            ),
            "choose another place with `--out DIR`",
        )
    }

    /// Puts a file into its place, whole.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let partial = self.file(&format!(".{name}.partial-{}", std::process::id()));
        let written = File::create(&partial).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&partial, self.file(name))
        });
        written.map_err(|error| {
            // The error of the write is the one to tell.
            let _ = fs::remove_file(&partial);
            self.refused("write", &error)
        })
    }

    /// All runs that were made, by cell and seed.
    pub(super) fn records(&self) -> Result<Records, Failure> {
        let mut records = Records::default();
        for path in self.journals()? {
            let bytes = fs::read(&path).map_err(|error| self.refused("read", &error))?;
            records.read(&bytes);
        }
        Ok(records)
    }

    fn journals(&self) -> Result<BTreeSet<PathBuf>, Failure> {
        let entries = fs::read_dir(&self.path).map_err(|error| self.refused("read", &error))?;
        let paths = entries.flatten().map(|entry| entry.path());
        Ok(paths.filter(|path| is_journal(path)).collect())
    }

    /// Takes the journal of one part of the sweep, or of all that is left, for this process alone.
    pub(super) fn journal(&self, part: Option<&str>) -> Result<Journal, Failure> {
        // Who goes on with the whole must be the only one.
        let mut held = Vec::new();
        if part.is_none() {
            for path in self.journals()? {
                let file = File::open(&path).map_err(|error| self.refused("read", &error))?;
                self.lock(&file)?;
                held.push(file);
            }
        }
        let whole = self.file(&format!("{JOURNAL}.jsonl"));
        if let (Some(_), Ok(file)) = (part, File::open(whole)) {
            // Whoever goes on with the whole would make this part's runs too.
            self.lock(&file)?;
        }
        let name = match part {
            None => format!("{JOURNAL}.jsonl"),
            Some(part) => format!("{JOURNAL}-{part}.jsonl"),
        };
        let path = self.file(&name);
        drop(held);
        let opened = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path);
        let file = opened.map_err(|error| self.refused("write", &error))?;
        self.lock(&file)?;
        // What a kill left of its last line must not become the head of the next one.
        let bytes = fs::read(&path).map_err(|error| self.refused("read", &error))?;
        let whole = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        if whole < bytes.len() {
            let cut = file.set_len(whole as u64);
            cut.map_err(|error| self.refused("write", &error))?;
        }
        Ok(Journal { file })
    }

    fn lock(&self, file: &File) -> Result<(), Failure> {
        match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                format!(
                    "another process runs the sweep in `{}`",
                    self.path.display()
                ),
                "wait for its end, or end it",
            )),
            // A file system without locks: nobody can be asked.
            Err(TryLockError::Error(_)) => Ok(()),
        }
    }
}

fn is_journal(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let stem = name.as_deref().and_then(|name| name.strip_suffix(".jsonl"));
    stem.is_some_and(|stem| stem == JOURNAL || stem.starts_with("journal-"))
}

/// Lines are appended whole, by one write each.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
}

impl Journal {
    /// Keeps a run.
    pub(super) fn append(&mut self, record: &SweepRecord) -> io::Result<()> {
        self.file.write_all(line(record)?.as_bytes())
    }

    /// Another handle, by which what was appended can be made to last.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

fn line(record: &SweepRecord) -> io::Result<String> {
    let text = serde_json::to_string(record).map_err(io::Error::other)?;
    Ok(format!("{} {text}\n", content_hash(text.as_bytes())))
}

/// Runs that were made.
#[derive(Debug, Default)]
pub(super) struct Records {
    runs: BTreeMap<(u32, u64), SweepRecord>,
    /// Lines that were torn or changed.
    pub(super) lines_dropped: u64,
}

impl Records {
    fn read(&mut self, journal: &[u8]) {
        let mut lines = journal.split(|&byte| byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            // What follows the last line feed is no line; if there is anything, it was torn.
            let is_whole = lines.peek().is_some();
            match parse(line).filter(|_| is_whole) {
                Some(record) => {
                    self.runs
                        .entry((record.cell, record.seed))
                        .or_insert(record);
                }
                None => self.lines_dropped += u64::from(!line.is_empty()),
            }
        }
    }

    /// The runs of a cell in the order of seeds.
    pub(super) fn of(&self, cell: u32) -> impl Iterator<Item = &SweepRecord> {
        self.runs
            .range((cell, 0)..=(cell, u64::MAX))
            .map(|(_, record)| record)
    }

    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }
}

fn parse(line: &[u8]) -> Option<SweepRecord> {
    let (sum, text) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    if content_hash(text.as_bytes()) != sum {
        return None;
    }
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cell: u32, seed: u64) -> SweepRecord {
        SweepRecord {
            cell,
            seed,
            numbers: None,
            reason: Some("it failed\nfor a reason".to_owned()),
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
