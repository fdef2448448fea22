//! Makes the runs of a sweep on threads.

use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use viaduct_report::{Provenance, Summary, SweepNumbers, SweepRecord};
use viaduct_scenario::{Diagnostics, Study, Sweep};
use viaduct_sim::config::ClusterConfig;
use viaduct_sim::result::Ended;

use super::folder::Journal;
use super::schedule::{Job, Schedule};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::progress::Bar;

/// How often what was appended is made to last.
const BETWEEN_SYNCS: Duration = Duration::from_secs(1);

/// What is shared by the threads.
struct Shared<'a> {
    state: Mutex<State>,
    /// Somebody may find a run to make, or that all is done.
    changed: Condvar,
    bar: &'a Bar,
    interrupt: &'a Interrupt,
    seeds: Seeds,
}

struct State {
    schedule: Schedule,
    journal: Journal,
    failure: Option<Failure>,
    simulated_s: f64,
    runs: u64,
}

/// What making the runs took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Runs made.
    pub(super) runs: u64,
    /// Threads.
    pub(super) threads: usize,
    /// Wall clock, seconds.
    pub(super) wall_s: f64,
    /// Wall clock of the simulations, summed over the threads, seconds.
    pub(super) simulated_s: f64,
    /// Runs asked for and not made.
    pub(super) left: u64,
}

/// The seeds that a sweep gives its cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds {
    /// The first, the same in each cell.
    pub(super) first: u64,
    /// Most of a cell.
    pub(super) max: u32,
}

/// Makes what the schedule asks for, until its end or the user's.
pub(super) fn work(
    sweep: &Sweep,
    schedule: Schedule,
    journal: Journal,
    seeds: Seeds,
    threads: Option<NonZeroUsize>,
    (bar, interrupt): (&Bar, &Interrupt),
) -> Result<Effort, Failure> {
    let started = Instant::now();
    let threads = threads
        .or_else(|| thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get);
    let handle = journal.handle().map_err(Failure::plain)?;
    let shared = Shared {
        state: Mutex::new(State {
            schedule,
            journal,
            failure: None,
            simulated_s: 0.0,
            runs: 0,
        }),
        changed: Condvar::new(),
        bar,
        interrupt,
        seeds,
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut worker = Worker {
                    shared: &shared,
                    sweep: sweep.clone(),
                    study: None,
                };
                worker.run();
            });
        }
        shared.watch(&handle);
    });
    bar.finish();
    let synced = handle.sync_data();
    let state = shared
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = state.failure {
        return Err(failure);
    }
    synced.map_err(|error| cannot_append(&error))?;
    Ok(Effort {
        runs: state.runs,
        threads,
        wall_s: started.elapsed().as_secs_f64(),
        simulated_s: state.simulated_s,
        left: state.schedule.left(),
    })
}

fn cannot_append(error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot write the sweep's journal: {error}"),
        "make room, and go on with `viaduct sweep --resume DIR`: what was written counts",
    )
}

impl Shared<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self, state: &State) -> bool {
        state.failure.is_some() || state.schedule.is_idle() || self.interrupt.is_asked()
    }

    /// Makes what was appended last, now and then, until all is over.
    fn watch(&self, handle: &File) {
        let mut state = self.lock();
        let mut synced = Instant::now();
        while !self.is_over(&state) {
            let waited = self.changed.wait_timeout(state, BETWEEN_SYNCS / 10);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if synced.elapsed() >= BETWEEN_SYNCS {
                drop(state);
                // If it fails here it fails at the end, where it is told.
                let _ = handle.sync_data();
                synced = Instant::now();
                state = self.lock();
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if self.is_over(&state) {
                return None;
            }
            if let Some(job) = state.schedule.next() {
                return Some(job);
            }
            let waited = self.changed.wait_timeout(state, BETWEEN_SYNCS / 10);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn done(&self, job: Job, record: SweepRecord, took: Duration) {
        let mut state = self.lock();
        if let Err(error) = state.journal.append(&record) {
            state.failure.get_or_insert(cannot_append(&error));
        }
        state.simulated_s += took.as_secs_f64();
        state.runs += 1;
        state.schedule.done(job, record);
        drop(state);
        self.changed.notify_all();
    }
}

/// One thread.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    sweep: Sweep,
    /// The cell made last: runs of one cell follow each other.
    study: Option<(u32, Result<Study, String>)>,
}

impl Worker<'_> {
    fn run(&mut self) {
        while let Some(job) = self.shared.next() {
            let Some((record, took)) = self.make(job) else {
                return;
            };
            self.shared.done(job, record, took);
        }
    }

    /// Makes a run, and says how long it simulated; none if the user stopped it.
    fn make(&mut self, job: Job) -> Option<(SweepRecord, Duration)> {
        let known = self
            .study
            .as_ref()
            .is_some_and(|(cell, _)| *cell == job.cell);
        if !known {
            let study = self.sweep.point(job.cell as usize);
            let study = study.map_err(|wrong| in_one_line(&wrong));
            self.study = Some((job.cell, study));
        }
        let Some((_, study)) = &self.study else {
            return None;
        };
        let seed = self.shared.seeds.first + u64::from(job.index);
        let failed = |seed: u64, reason: String| SweepRecord {
            cell: job.cell,
            seed,
            numbers: None,
            reason: Some(reason),
        };
        let study = match study {
            Ok(study) => study,
            Err(reason) => {
                return Some((failed(seed, reason.clone()), Duration::ZERO));
            }
        };
        let mut config = study.config.clone();
        config.run.seed = seed;
        let number = job.cell as usize * self.shared.seeds.max as usize + job.index as usize;
        let started = Instant::now();
        // A run that panics spoils its own row and no other.
        let simulated = catch_unwind(AssertUnwindSafe(|| self.simulate(study, &config, number)));
        let took = started.elapsed();
        let record = match simulated {
            Ok(Ok(Some(numbers))) => SweepRecord {
                cell: job.cell,
                seed,
                numbers: Some(Box::new(numbers)),
                reason: None,
            },
            Ok(Ok(None)) => return None,
            Ok(Err(reason)) => failed(seed, reason),
            Err(_) => failed(seed, "the program failed: please report it".to_owned()),
        };
        Some((record, took))
    }

    fn simulate(
        &self,
        study: &Study,
        config: &ClusterConfig,
        number: usize,
    ) -> Result<Option<SweepNumbers>, String> {
        let shared = self.shared;
        let mut control = |progress: viaduct_sim::Progress| {
            shared.bar.update(number, &progress);
            match shared.interrupt.is_asked() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let result = viaduct_sim::run(config, &mut control).map_err(|error| error.to_string())?;
        if result.ended == Ended::Interrupted {
            return Ok(None);
        }
        shared.bar.run_done(number, result.events);
        let provenance = Provenance {
            study: study.name.clone(),
            version: VERSION.to_owned(),
            wall_s: 0.0,
            peak_rss_bytes: None,
        };
        let summary = Summary::new(&provenance, config, &result);
        Ok(Some(SweepNumbers::new(config, &result, &summary)))
    }
}

/// What is wrong with a point, without the picture of its place.
fn in_one_line(wrong: &Diagnostics) -> String {
    let said = wrong.iter().map(|diagnostic| match diagnostic.help_text() {
        Some(help) => format!("{} (help: {help})", diagnostic.title()),
        None => diagnostic.title().to_owned(),
    });
    said.collect::<Vec<_>>().join("; ")
}
