//! Which run is next, and which were made.

use std::fs::File;
use std::ops::Range;

use viaduct_report::RunRecord;

use crate::error::SweepError;
use crate::journal::{self, Journal, Records};
use crate::make::MadeRun;
use crate::plan::SweepPlan;
use crate::pool::Desk;
use crate::schedule::{Job, Schedule, StopRule};

/// The runs of a sweep, or of some of its cells: those to be made, under way, and made.
#[derive(Debug)]
pub struct Ledger {
    schedule: Schedule,
    records: Records,
    first_seed: u64,
    journal: Option<Journal>,
}

/// How far the runs are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RunCounts {
    /// Runs asked for so far; with a width, more may follow.
    pub asked: u64,
    /// Of these, runs made, those found in journals included.
    pub made: u64,
}

impl Ledger {
    pub(crate) fn new(
        plan: &SweepPlan,
        cells: Range<u32>,
        records: Records,
        journal: Option<Journal>,
    ) -> Self {
        let rule = StopRule {
            seeds_max: plan.seeds,
            width: plan.until_width(),
        };
        let first_seed = plan.first_seed;
        let known = cells.clone().flat_map(|cell| {
            records.of(cell).filter_map(move |record| {
                let index = u32::try_from(record.seed.checked_sub(first_seed)?).ok()?;
                Some((Job { cell, index }, record.clone()))
            })
        });
        Self {
            schedule: Schedule::new(rule, cells, known),
            records,
            first_seed,
            journal,
        }
    }

    /// A run to make now, of the cell that the caller's last run was of if that has one; none if
    /// all are under way or made.
    pub fn next(&mut self, last: Option<u32>) -> Option<Job> {
        self.schedule.next(last)
    }

    /// Keeps a run that was made, by its line.
    ///
    /// # Errors
    ///
    /// When the line is not that of a run which was asked for, or the journal cannot be written.
    pub fn keep(&mut self, line: &str) -> Result<(), SweepError> {
        // Another line follows it in the journal.
        let whole = line.strip_suffix('\n');
        let record = whole.and_then(|line| journal::parse(line.as_bytes()));
        record.map_or_else(|| Err(foreign()), |record| self.keep_read(line, record))
    }

    /// As [`Ledger::keep`], of a line that was read already.
    pub(crate) fn keep_read(&mut self, line: &str, record: RunRecord) -> Result<(), SweepError> {
        let index = record.seed.checked_sub(self.first_seed);
        let index = index.and_then(|index| u32::try_from(index).ok());
        let cell = record.cell;
        let job = index.map(|index| Job { cell, index });
        let Some(job) = job.filter(|job| self.schedule.is_under_way(*job)) else {
            return Err(foreign());
        };
        if let Some(journal) = &mut self.journal {
            let kept = journal.append(line);
            kept.map_err(|error| cannot_append(&error))?;
        }
        self.records.keep(record.clone());
        self.schedule.done(job, Some(record));
        Ok(())
    }

    /// A run that was under way was not made: it is to be made again.
    pub fn give_back(&mut self, job: Job) {
        self.schedule.give_back(job);
    }

    /// Runs that could begin now.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        self.schedule.ready_count()
    }

    /// Whether nothing is under way that could ask for more.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.schedule.is_idle()
    }

    /// How far it is.
    #[must_use]
    pub fn counts(&self) -> RunCounts {
        self.schedule.counts()
    }

    /// Runs asked for and not made.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.schedule.left()
    }

    /// Runs that were found when it began and those made since.
    #[must_use]
    pub fn known_count(&self) -> usize {
        self.records.len()
    }

    /// Lines of the journals that were torn or changed: their runs are made again.
    #[must_use]
    pub const fn lines_dropped(&self) -> u64 {
        self.records.lines_dropped
    }

    pub(crate) const fn records(&self) -> &Records {
        &self.records
    }

    /// A handle by which what was kept can be made to last on the disk; none without a directory.
    ///
    /// # Errors
    ///
    /// When the system has no more of them.
    pub fn journal_handle(&self) -> Result<Option<File>, SweepError> {
        let handle = self.journal.as_ref().map(Journal::handle).transpose();
        handle.map_err(|error| cannot_append(&error))
    }
}

impl Desk for Ledger {
    type Made = MadeRun;

    fn next(&mut self, last: Option<u32>) -> Option<Job> {
        self.next(last)
    }

    fn keep(&mut self, _: Job, made: MadeRun) -> Result<(), SweepError> {
        self.keep_read(&made.line, made.record)
    }

    fn give_back(&mut self, job: Job) {
        self.give_back(job);
    }

    fn ready_count(&self) -> usize {
        self.ready_count()
    }

    fn counts(&self) -> RunCounts {
        self.counts()
    }

    fn runs_max(&self) -> u64 {
        self.schedule.runs_max()
    }
}

fn foreign() -> SweepError {
    SweepError::plain("what came back is no run of this sweep that was asked for")
}

pub(crate) fn cannot_append(error: &std::io::Error) -> SweepError {
    SweepError::new(
        format!("cannot write the sweep's journal: {error}"),
        "make room, and go on with `viaduct sweep --resume DIR`: what was written counts",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make::RunMaker;
    use viaduct_scenario::{Override, Sweep};

    fn plan() -> SweepPlan {
        let settings = ["traffic.size=64 B,128 B", "run.until=1 ms"].map(Override::listed);
        let mut sweep = Sweep::load("two-hosts", &settings).unwrap();
        SweepPlan::new(&mut sweep, 2, None).unwrap()
    }

    #[test]
    fn a_plan_is_the_same_after_its_way_as_text_and_one_of_another_version_is_refused() {
        let text = plan().to_text();
        assert_eq!(SweepPlan::from_text(&text).unwrap(), plan());
        let version = format!("\"version\": \"{}\"", crate::VERSION);
        let other = text.replace(&version, "\"version\": \"0.0.1\"");
        let error = SweepPlan::from_text(&other).unwrap_err().to_string();
        assert!(error.contains("begun by version 0.0.1"), "{error}");
    }

    #[test]
    fn runs_are_kept_once_and_others_are_refused() {
        let plan = plan();
        let mut ledger = Ledger::new(&plan, 0..plan.cells, Records::default(), None);
        let mut maker = RunMaker::new(&plan).unwrap();
        let mut line = |job| {
            let made = maker.make(job, &mut |_| std::ops::ControlFlow::Continue(()));
            made.unwrap().line
        };
        let first = ledger.next(None).unwrap();
        let not_asked = line(Job { cell: 1, index: 1 });
        assert!(ledger.keep(&not_asked).is_err(), "nobody makes it");
        let first = line(first);
        let torn = &first[..first.len() - 9];
        assert!(ledger.keep(torn).is_err());
        ledger.keep(&first).unwrap();
        assert!(ledger.keep(&first).is_err(), "it was kept");
        let counts = RunCounts { asked: 4, made: 1 };
        assert_eq!((ledger.counts(), ledger.known_count()), (counts, 1));
        let back = ledger.next(Some(0)).unwrap();
        assert_eq!(back, Job { cell: 0, index: 1 });
        ledger.give_back(back);
        assert_eq!((ledger.ready_count(), ledger.left()), (3, 3));
        while let Some(job) = ledger.next(None) {
            ledger.keep(&line(job)).unwrap();
        }
        assert!(ledger.is_idle());
    }
}
