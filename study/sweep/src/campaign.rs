//! A sweep that is under way: its plan and, if it has one, its directory.

use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use viaduct_cluster::Progress;
use viaduct_report::{
    CellOutcome, Published, StudyOutcome, sweep_curves, sweep_page, sweep_parquet,
};
use viaduct_scenario::{Sweep, SweepAxis};

use crate::VERSION;
use crate::directory::Directory;
use crate::error::SweepError;
use crate::journal::Records;
use crate::ledger::{Ledger, RunCounts, cannot_append};
use crate::make::RunMaker;
use crate::plan::SweepPlan;
use crate::pool::{Effort, Watch, make_runs};
use crate::schedule::Job;

/// The table of a sweep's directory.
pub const TABLE_FILE: &str = "sweep.parquet";

/// The page in a sweep's directory.
pub const PAGE_FILE: &str = "report.html";

/// How often what was appended to a journal is made to last.
const BETWEEN_SYNCS: Duration = Duration::from_secs(1);

/// Who looks on, and makes what the journal got last, now and then.
struct Lasting<'a> {
    watch: &'a dyn Watch,
    journal: Option<File>,
    synced: Mutex<Instant>,
}

impl Watch for Lasting<'_> {
    fn progress(&self, job: Job, progress: &Progress) {
        self.watch.progress(job, progress);
    }

    fn run_done(&self, job: Job, events: u64) {
        self.watch.run_done(job, events);
    }

    fn is_stopped(&self) -> bool {
        self.watch.is_stopped()
    }

    fn look(&self, counts: RunCounts) {
        self.watch.look(counts);
        let Some(journal) = &self.journal else { return };
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if synced.elapsed() >= BETWEEN_SYNCS {
            // If it fails here it fails at the end, where it is told.
            let _ = journal.sync_data();
            *synced = Instant::now();
        }
    }
}

/// A sweep that is under way.
#[derive(Debug)]
pub struct Campaign {
    plan: SweepPlan,
    sweep: Sweep,
    directory: Option<Directory>,
}

impl Campaign {
    /// Begins a sweep that keeps nothing on the disk.
    ///
    /// # Errors
    ///
    /// When the plan cannot be read.
    pub fn in_memory(plan: SweepPlan) -> Result<Self, SweepError> {
        let sweep = plan.read()?;
        Ok(Self {
            plan,
            sweep,
            directory: None,
        })
    }

    /// Begins a sweep in a directory, or goes on with the same one that is there.
    ///
    /// # Errors
    ///
    /// When the plan cannot be read, something else is there, or it cannot be written.
    pub fn in_directory(plan: SweepPlan, path: &Path) -> Result<Self, SweepError> {
        let sweep = plan.read()?;
        let directory = Directory::create(path, &plan)?;
        Ok(Self {
            plan,
            sweep,
            directory: Some(directory),
        })
    }

    /// Goes on with the sweep of a directory.
    ///
    /// # Errors
    ///
    /// When there is none, or one of another version.
    pub fn resume(path: &Path) -> Result<Self, SweepError> {
        let (directory, plan) = Directory::open(path)?;
        let sweep = plan.read()?;
        Ok(Self {
            plan,
            sweep,
            directory: Some(directory),
        })
    }

    /// What is to be run.
    #[must_use]
    pub const fn plan(&self) -> &SweepPlan {
        &self.plan
    }

    /// The keys that it runs over, the first one slowest.
    #[must_use]
    pub fn axes(&self) -> Vec<SweepAxis> {
        self.sweep.axes()
    }

    /// Its directory, if it has one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.directory.as_ref().map(Directory::path)
    }

    /// Puts a file into the directory, whole; without one nothing is written.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), SweepError> {
        let directory = self.directory.as_ref();
        directory.map_or(Ok(()), |directory| directory.replace(name, bytes))
    }

    /// What is to be made of the whole sweep and what was. The journals are this process's alone
    /// until the ledger is dropped.
    ///
    /// # Errors
    ///
    /// When another process runs it, or the directory cannot be read or written.
    pub fn ledger(&self) -> Result<Ledger, SweepError> {
        self.ledger_of(0..self.plan.cells, None)
    }

    /// The same of some cells, with a journal of their own.
    ///
    /// # Errors
    ///
    /// As [`Campaign::ledger`], and when there are no such cells.
    pub fn ledger_of_cells(&self, cells: Range<u32>) -> Result<Ledger, SweepError> {
        if cells.end > self.plan.cells {
            return Err(SweepError::new(
                format!("there are {} cells, from 0 on", self.plan.cells),
                "give a part of them, as in `--cells 0..10`",
            ));
        }
        let part = cells.start.to_string();
        self.ledger_of(cells, Some(&part))
    }

    fn ledger_of(&self, cells: Range<u32>, part: Option<&str>) -> Result<Ledger, SweepError> {
        let Some(directory) = &self.directory else {
            return Ok(Ledger::new(&self.plan, cells, Records::default(), None));
        };
        let journal = directory.journal(part)?;
        let records = directory.records()?;
        Ok(Ledger::new(&self.plan, cells, records, Some(journal)))
    }

    /// Makes what is missing, on threads of this process.
    ///
    /// # Errors
    ///
    /// When the journal cannot be written: what was written counts.
    pub fn work(
        &self,
        ledger: &mut Ledger,
        threads: Option<NonZeroUsize>,
        watch: &dyn Watch,
    ) -> Result<Effort, SweepError> {
        let maker = RunMaker::of(self.sweep.clone(), &self.plan);
        let lasting = Lasting {
            watch,
            journal: ledger.journal_handle()?,
            synced: Mutex::new(Instant::now()),
        };
        let effort = make_runs(ledger, &maker, threads, &lasting)?;
        if let Some(journal) = &lasting.journal {
            journal.sync_data().map_err(|error| cannot_append(&error))?;
        }
        Ok(effort)
    }

    /// All that came of the runs so far.
    #[must_use]
    pub fn outcome(&self, ledger: &Ledger) -> StudyOutcome {
        let cells = (0..self.plan.cells).map(|number| CellOutcome {
            number,
            set: self.sweep.values(number as usize),
            published: Published::default(),
            runs: ledger.records().of(number).cloned().collect(),
        });
        StudyOutcome {
            study: self.plan.study().to_owned(),
            version: VERSION.to_owned(),
            cells: cells.collect(),
            runs_not_begun: ledger.left(),
            cost: None,
        }
    }

    /// Leaves page, table and curves in the directory and names the latter; none without one.
    ///
    /// # Errors
    ///
    /// When they cannot be written.
    pub fn leave(&self, outcome: &StudyOutcome) -> Result<Vec<&'static str>, SweepError> {
        if self.directory.is_none() {
            return Ok(Vec::new());
        }
        let commands = [
            (
                "viaduct sweep --resume .",
                "In the directory of this page: makes the runs that are missing, none twice, and all \
                 of this anew.",
            ),
            (
                "python3 -c \"import polars; print(polars.read_parquet('sweep.parquet'))\"",
                "The table, one row per run; pandas and DuckDB read it, too.",
            ),
        ];
        self.replace(PAGE_FILE, sweep_page(outcome, &commands).as_bytes())?;
        let mut table = Vec::new();
        sweep_parquet(outcome, &mut table).map_err(SweepError::plain)?;
        self.replace(TABLE_FILE, &table)?;
        let mut files = vec![TABLE_FILE];
        for (name, picture) in sweep_curves(outcome) {
            self.replace(name, picture.as_bytes())?;
            files.push(name);
        }
        Ok(files)
    }
}
