//! Makes the runs of a sweep on threads of this process.

use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use viaduct_sim::Progress;

use crate::error::SweepError;
use crate::ledger::{Ledger, RunCounts, cannot_append};
use crate::make::{MadeRun, RunMaker};
use crate::schedule::Job;

/// How often what was appended is made to last.
const BETWEEN_SYNCS: Duration = Duration::from_secs(1);

/// How often the caller's thread looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Who looks on while runs are made.
pub trait Watch: Sync {
    /// A run goes on; called by its thread, often.
    fn progress(&self, _job: Job, _progress: &Progress) {}

    /// A run was made; called by its thread.
    fn run_done(&self, _job: Job, _events: u64) {}

    /// Whether all is to stop; asked often, by all threads.
    fn is_stopped(&self) -> bool;

    /// Ten times a second, and at the end, in the caller's thread.
    fn look(&self, _counts: RunCounts) {}
}

/// What making the runs took.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs made.
    pub runs: u64,
    /// Threads.
    pub threads: usize,
    /// Wall clock, seconds.
    pub wall_s: f64,
    /// Wall clock of the simulations, summed over the threads, seconds.
    pub simulated_s: f64,
    /// Runs asked for and not made.
    pub left: u64,
}

/// What is shared by the threads.
struct Shared<'a> {
    state: Mutex<State<'a>>,
    /// Somebody may find a run to make.
    changed: Condvar,
    /// All is over, for the caller's thread.
    ended: Condvar,
    watch: &'a dyn Watch,
}

struct State<'a> {
    ledger: &'a mut Ledger,
    failure: Option<SweepError>,
    simulated_s: f64,
    runs: u64,
    /// Threads that wait for a run to make.
    waiting: usize,
}

/// Makes what the ledger asks for, until its end or the user's.
pub(crate) fn work(
    maker: &RunMaker,
    ledger: &mut Ledger,
    threads: Option<NonZeroUsize>,
    watch: &dyn Watch,
) -> Result<Effort, SweepError> {
    let started = Instant::now();
    let threads = threads
        .or_else(|| thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get);
    let journal = ledger.journal_handle()?;
    let shared = Shared {
        state: Mutex::new(State {
            ledger,
            failure: None,
            simulated_s: 0.0,
            runs: 0,
            waiting: 0,
        }),
        changed: Condvar::new(),
        ended: Condvar::new(),
        watch,
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| shared.make_runs(maker.clone()));
        }
        shared.look_on(journal.as_ref());
    });
    let synced = journal.map_or(Ok(()), |journal| journal.sync_data());
    let state = shared.state.into_inner();
    let state = state.unwrap_or_else(PoisonError::into_inner);
    watch.look(state.ledger.counts());
    if let Some(failure) = state.failure {
        return Err(failure);
    }
    synced.map_err(|error| cannot_append(&error))?;
    Ok(Effort {
        runs: state.runs,
        threads,
        wall_s: started.elapsed().as_secs_f64(),
        simulated_s: state.simulated_s,
        left: state.ledger.left(),
    })
}

impl<'a> Shared<'a> {
    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self, state: &State<'_>) -> bool {
        state.failure.is_some() || state.ledger.is_idle() || self.watch.is_stopped()
    }

    /// Makes what was appended last, and tells how far it is, now and then, until all is over.
    fn look_on(&self, journal: Option<&File>) {
        let mut state = self.lock();
        let mut synced = Instant::now();
        while !self.is_over(&state) {
            let waited = self.ended.wait_timeout(state, BETWEEN_LOOKS);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let counts = state.ledger.counts();
            drop(state);
            self.watch.look(counts);
            if let Some(journal) = journal.filter(|_| synced.elapsed() >= BETWEEN_SYNCS) {
                // If it fails here it fails at the end, where it is told.
                let _ = journal.sync_data();
                synced = Instant::now();
            }
            state = self.lock();
        }
        drop(state);
        self.changed.notify_all();
    }

    /// One thread.
    fn make_runs(&self, mut maker: RunMaker) {
        let mut last = None;
        while let Some(job) = self.next(last) {
            last = Some(job.cell);
            let made = maker.make(job, &mut |progress| {
                self.watch.progress(job, progress);
                match self.watch.is_stopped() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            match made {
                Some(made) => {
                    self.watch.run_done(job, made.events);
                    self.keep(made);
                }
                None => self.lock().ledger.give_back(job),
            }
        }
        // The caller's thread may wait for the last one.
        self.ended.notify_all();
    }

    fn next(&self, last: Option<u32>) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if self.is_over(&state) {
                return None;
            }
            if let Some(job) = state.ledger.next(last) {
                return Some(job);
            }
            state.waiting += 1;
            let waited = self.changed.wait_timeout(state, BETWEEN_LOOKS);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
    }

    fn keep(&self, made: MadeRun) {
        let mut state = self.lock();
        let kept = state.ledger.keep_read(&made.line, made.record);
        if let Err(failure) = kept {
            state.failure.get_or_insert(failure);
        }
        state.simulated_s += made.simulated.as_secs_f64();
        state.runs += 1;
        let waiting = state.waiting;
        drop(state);
        // A call of the system for each run would show beside short ones.
        if waiting > 0 {
            self.changed.notify_all();
        }
    }
}
