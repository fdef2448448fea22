//! The runs of `viaduct run`: cells and seeds, by the pool that makes those of sweeps.
//!
//! A run knows nothing of the others and its place in the outcome is fixed beforehand, so the
//! outcome is the same for any number of threads.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::time::Instant;

use viaduct_cluster::Progress;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::result::RunResult;
use viaduct_report::{CellOutcome, Cost, Provenance, Published, RunRecord, StudyOutcome, Summary};
use viaduct_sweep::{Job, KeptRuns, Made, Maker, SweepError, Watch, make_runs};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Bar;
use crate::resources::peak_rss_bytes;

/// The version that results carry.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is to be run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Name of the study or of the scenario file.
    pub(crate) study: String,
    /// Its cells.
    pub(crate) cells: Vec<PlannedCell>,
}

/// One point of a sweep.
#[derive(Debug)]
pub(crate) struct PlannedCell {
    /// The keys that differ between cells, with this cell's values.
    pub(crate) set: Vec<(String, String)>,
    /// Published figures for it.
    pub(crate) published: Published,
    /// One configuration per seed.
    pub(crate) configs: Vec<ClusterConfig>,
}

impl Plan {
    /// The configurations of all runs, in order.
    pub(crate) fn configs(&self) -> impl Iterator<Item = &ClusterConfig> {
        self.cells.iter().flat_map(|cell| &cell.configs)
    }

    /// Runs in all.
    pub(crate) fn run_count(&self) -> usize {
        self.configs().count()
    }

    /// Runs everything, `threads` at a time, until the user interrupts. Gives the outcome, and what
    /// each of its runs left, in their order.
    ///
    /// # Errors
    ///
    /// When a run cannot begin: its message, with the cell if there are several.
    pub(crate) fn run(
        &self,
        threads: Option<NonZeroUsize>,
        bar: &Bar,
        interrupt: &Interrupt,
    ) -> Result<(StudyOutcome, Vec<RunResult>), Failure> {
        let started = Instant::now();
        let counts = || self.cells.iter().map(|cell| cell.configs.len() as u32);
        let mut kept = KeptRuns::new(counts());
        let watched = Watched::new(bar, interrupt, counts());
        make_runs(&mut kept, &Simulations(self), threads, &watched)?;
        bar.finish();

        let mut made = kept.into_cells();
        let (mut cells, mut results) = (Vec::new(), Vec::new());
        let mut runs_not_begun = 0;
        for (number, cell) in (0..).zip(&self.cells) {
            let made = made.remove(&number).unwrap_or_default();
            runs_not_begun += (cell.configs.len() - made.len()) as u64;
            let mut runs = Vec::new();
            for (summary, result) in made {
                runs.push(RunRecord {
                    cell: number,
                    seed: summary.seed,
                    made: Ok(summary),
                });
                results.push(result);
            }
            if !runs.is_empty() {
                cells.push(CellOutcome {
                    number,
                    set: cell.set.clone(),
                    published: cell.published.clone(),
                    runs,
                });
            }
        }
        let outcome = StudyOutcome {
            study: self.study.clone(),
            version: VERSION.to_owned(),
            cells,
            runs_not_begun,
            cost: Some(Cost {
                wall_s: started.elapsed().as_secs_f64(),
                peak_rss_bytes: peak_rss_bytes(),
            }),
        };
        Ok((outcome, results))
    }
}

/// Makes the runs of a plan, each with all that came of it.
#[derive(Clone)]
struct Simulations<'a>(&'a Plan);

impl Maker for Simulations<'_> {
    type Made = (Box<Summary>, RunResult);

    fn make(
        &mut self,
        job: Job,
        control: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Option<Made<Self::Made>>, SweepError> {
        let Self(plan) = *self;
        let started = Instant::now();
        let config = &plan.cells[job.cell as usize].configs[job.index as usize];
        let result = viaduct_cluster::run(config, &mut |progress| control(&progress));
        // One failure is enough: it is the user's to mend before anything else runs.
        let result = result.map_err(|error| SweepError::Other {
            title: format!("{} cannot be run: {error}", plan.study),
            help: None,
        })?;
        let simulated = started.elapsed();
        let provenance = Provenance {
            study: plan.study.clone(),
            version: VERSION.to_owned(),
            wall_s: simulated.as_secs_f64(),
            peak_rss_bytes: peak_rss_bytes(),
        };
        let summary = Summary::new(&provenance, config, &result);
        Ok(Some(Made {
            events: result.events,
            simulated,
            kept: (Box::new(summary), result),
        }))
    }
}

/// Shows progress and listens to Ctrl-C.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    bar: &'a Bar,
    interrupt: &'a Interrupt,
    /// Where the runs of each cell begin among all.
    first: Vec<usize>,
}

impl<'a> Watched<'a> {
    /// For so many runs of each cell.
    pub(crate) fn new(
        bar: &'a Bar,
        interrupt: &'a Interrupt,
        runs_of_cells: impl Iterator<Item = u32>,
    ) -> Self {
        let first = runs_of_cells.scan(0, |next, runs| {
            let first = *next;
            *next += runs as usize;
            Some(first)
        });
        Self {
            bar,
            interrupt,
            first: first.collect(),
        }
    }

    fn place(&self, job: Job) -> usize {
        self.first[job.cell as usize] + job.index as usize
    }
}

impl Watch for Watched<'_> {
    fn progress(&self, job: Job, progress: &Progress) {
        self.bar.update(self.place(job), progress);
    }

    fn run_done(&self, job: Job, events: u64) {
        self.bar.run_done(self.place(job), events);
    }

    fn is_stopped(&self) -> bool {
        self.interrupt.is_asked()
    }
}
