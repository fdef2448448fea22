//! Runs that are kept whole, in memory.

use std::collections::BTreeMap;

use crate::error::SweepError;
use crate::ledger::RunCounts;
use crate::pool::Desk;
use crate::schedule::{Job, Schedule};

/// The runs of some cells, with all that each left.
#[derive(Debug)]
pub struct KeptRuns<T> {
    schedule: Schedule,
    made: BTreeMap<Job, T>,
}

impl<T> KeptRuns<T> {
    /// For so many runs of each cell.
    pub fn new(runs_of_cells: impl IntoIterator<Item = u32>) -> Self {
        Self {
            schedule: Schedule::of_seeds(runs_of_cells),
            made: BTreeMap::new(),
        }
    }

    /// What was made, by cell, in the order of its seeds.
    pub fn into_cells(self) -> BTreeMap<u32, Vec<T>> {
        let mut cells: BTreeMap<u32, Vec<T>> = BTreeMap::new();
        for (job, made) in self.made {
            cells.entry(job.cell).or_default().push(made);
        }
        cells
    }
}

impl<T: Send> Desk for KeptRuns<T> {
    type Made = T;

    fn next(&mut self, last: Option<u32>) -> Option<Job> {
        self.schedule.next(last)
    }

    fn keep(&mut self, job: Job, made: T) -> Result<(), SweepError> {
        self.schedule.done(job, None);
        self.made.insert(job, made);
        Ok(())
    }

    fn give_back(&mut self, job: Job) {
        self.schedule.give_back(job);
    }

    fn ready_count(&self) -> usize {
        self.schedule.ready_count()
    }

    fn counts(&self) -> RunCounts {
        self.schedule.counts()
    }

    fn runs_max(&self) -> u64 {
        self.schedule.runs_max()
    }
}
