//! The directory of a sweep: what is to be run, and what was.
//!
//! ```text
//! sweep.json        the study with its files, overrides, seeds and stop rule: written first, whole
//! journal*.jsonl    one line per run, appended when it ends: its checksum, a space, a JSON record
//! sweep.parquet     the table, made from the journals
//! report.html       a page with curves and cells, made from them too, as are
//! *.svg             curves
//! array.sh ...      with --slurm
//! ```
//!
//! A kill can cut the last line of a journal short. Such a line is dropped, and its run made again:
//! a run counts once its line is whole.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::SweepError;
use crate::journal::{Journal, Records};
use crate::plan::SweepPlan;

const PLAN_FILE: &str = "sweep.json";
const JOURNAL: &str = "journal";

/// Whether a sweep was begun in the directory.
#[must_use]
pub fn holds_sweep(path: &Path) -> bool {
    path.join(PLAN_FILE).exists()
}

/// A sweep's directory.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Makes the directory, or finds the same sweep in it.
    pub(crate) fn create(path: &Path, plan: &SweepPlan) -> Result<Self, SweepError> {
        let directory = Self {
            path: path.to_owned(),
        };
        if holds_sweep(path) {
            if directory.plan()? != *plan {
                let title = format!("another sweep is in `{}`", path.display());
                let help = format!(
                    "choose another directory, or go on with it: viaduct sweep --resume {}",
                    path.display()
                );
                return Err(SweepError::new(title, help));
            }
            return Ok(directory);
        }
        fs::create_dir_all(path).map_err(|error| directory.refused("write", &error))?;
        let entries = fs::read_dir(path).map_err(|error| directory.refused("read", &error))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with(".sweep.json.partial") {
                let title = format!("`{}` holds `{name}` and no sweep", path.display());
                return Err(SweepError::new(title, "choose another directory"));
            }
        }
        directory.replace(PLAN_FILE, plan.to_text().as_bytes())?;
        Ok(directory)
    }

    /// The directory of a sweep that was begun.
    pub(crate) fn open(path: &Path) -> Result<(Self, SweepPlan), SweepError> {
        let directory = Self {
            path: path.to_owned(),
        };
        let plan = directory.plan()?;
        plan.check_version(&format!("the sweep in `{}`", path.display()))?;
        Ok((directory, plan))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn plan(&self) -> Result<SweepPlan, SweepError> {
        let path = self.file(PLAN_FILE);
        let help = "give a directory that `viaduct sweep` left";
        let text = fs::read_to_string(&path).map_err(|error| {
            SweepError::new(format!("cannot read `{}`: {error}", path.display()), help)
        })?;
        serde_json::from_str(&text).map_err(|error| {
            SweepError::new(format!("`{}` is no sweep: {error}", path.display()), help)
        })
    }

    fn refused(&self, what: &str, error: &io::Error) -> SweepError {
        SweepError::new(
            format!(
                "cannot {what} the directory `{}`: {error}",
                self.path.display()
            ),
            "choose another directory",
        )
    }

    /// Puts a file into its place, whole.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), SweepError> {
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
    pub(crate) fn records(&self) -> Result<Records, SweepError> {
        let mut records = Records::default();
        for path in self.journals()? {
            let bytes = fs::read(&path).map_err(|error| self.refused("read", &error))?;
            records.read(&bytes);
        }
        Ok(records)
    }

    fn journals(&self) -> Result<BTreeSet<PathBuf>, SweepError> {
        let entries = fs::read_dir(&self.path).map_err(|error| self.refused("read", &error))?;
        let paths = entries.flatten().map(|entry| entry.path());
        Ok(paths.filter(|path| is_journal(path)).collect())
    }

    /// Takes the journal of one part of the sweep, or of all that is left, for this process alone.
    pub(crate) fn journal(&self, part: Option<&str>) -> Result<Journal, SweepError> {
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
        Ok(Journal::new(file))
    }

    fn lock(&self, file: &File) -> Result<(), SweepError> {
        match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(SweepError::new(
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
