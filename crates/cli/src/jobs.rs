//! Runs cells and seeds on threads.
//!
//! A run knows nothing of the others and its place in the outcome is fixed beforehand, so the
//! outcome is the same for any number of threads.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rayon::iter::{ParallelBridge, ParallelIterator};
use viaduct_report::{CellOutcome, Provenance, Published, RunOutcome, StudyOutcome, Summary};
use viaduct_sim::config::ClusterConfig;

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
    /// One configuration a seed.
    pub(crate) configs: Vec<ClusterConfig>,
}

struct Job<'a> {
    number: usize,
    config: &'a ClusterConfig,
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

    /// Runs everything, `threads` at a time, until the user interrupts.
    ///
    /// # Errors
    ///
    /// When a run cannot begin: its message, with the cell if there are several.
    pub(crate) fn run(
        &self,
        threads: Option<NonZeroUsize>,
        bar: &Bar,
        interrupt: &Interrupt,
    ) -> Result<StudyOutcome, Failure> {
        let started = Instant::now();
        let jobs = self
            .configs()
            .enumerate()
            .map(|(number, config)| Job { number, config });
        let mut runs = self.run_jobs(jobs, threads, bar, interrupt)?;
        bar.finish();

        let mut cells = Vec::new();
        let mut runs_not_begun = 0;
        for cell in &self.cells {
            let rest = runs.split_off(cell.configs.len());
            let begun: Vec<RunOutcome> = std::mem::replace(&mut runs, rest)
                .into_iter()
                .flatten()
                .collect();
            runs_not_begun += (cell.configs.len() - begun.len()) as u64;
            if !begun.is_empty() {
                let (set, published) = (cell.set.clone(), cell.published.clone());
                cells.push(CellOutcome {
                    set,
                    published,
                    runs: begun,
                });
            }
        }
        Ok(StudyOutcome {
            study: self.study.clone(),
            version: VERSION.to_owned(),
            cells,
            runs_not_begun,
            wall_s: started.elapsed().as_secs_f64(),
            peak_rss_bytes: peak_rss_bytes(),
        })
    }

    /// The outcome of each job in order; none for those not begun.
    fn run_jobs<'a>(
        &self,
        jobs: impl Iterator<Item = Job<'a>> + Send,
        threads: Option<NonZeroUsize>,
        bar: &Bar,
        interrupt: &Interrupt,
    ) -> Result<Vec<Option<RunOutcome>>, Failure> {
        let count = self.run_count();
        let threads = threads
            .or_else(|| thread::available_parallelism().ok())
            .map_or(1, NonZeroUsize::get)
            .min(count);
        // One failure is enough: it is the user's to mend before anything else runs.
        let has_failed = AtomicBool::new(false);
        let run_job = |job: Job<'a>| {
            if interrupt.is_asked() || has_failed.load(Ordering::Relaxed) {
                return Ok((job.number, None));
            }
            let outcome = self.run_one(&job, bar, interrupt);
            has_failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
            outcome.map(|outcome| (job.number, Some(outcome)))
        };
        let mut outcomes = if threads <= 1 {
            jobs.map(run_job).collect::<Result<Vec<_>, Failure>>()?
        } else {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.map_err(|error| {
                let title = format!("cannot start {threads} threads: {error}");
                Failure::new(title, "give a smaller number with `--threads`")
            })?;
            // A bridge hands the jobs out in order, so that an interrupt leaves the first ones.
            pool.install(|| {
                jobs.par_bridge()
                    .map(run_job)
                    .collect::<Result<Vec<_>, Failure>>()
            })?
        };
        outcomes.sort_by_key(|(number, _)| *number);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    fn run_one(
        &self,
        job: &Job<'_>,
        bar: &Bar,
        interrupt: &Interrupt,
    ) -> Result<RunOutcome, Failure> {
        let started = Instant::now();
        let mut control = |progress: viaduct_sim::Progress| {
            bar.update(job.number, &progress);
            if interrupt.is_asked() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let result = viaduct_sim::run(job.config, &mut control).map_err(|error| {
            Failure::plain(format_args!("{} cannot be run: {error}", self.study))
        })?;
        let provenance = Provenance {
            study: self.study.clone(),
            version: VERSION.to_owned(),
            wall_s: started.elapsed().as_secs_f64(),
            peak_rss_bytes: peak_rss_bytes(),
        };
        bar.run_done(job.number, result.events);
        let summary = Summary::new(&provenance, job.config, &result);
        Ok(RunOutcome { summary, result })
    }
}
