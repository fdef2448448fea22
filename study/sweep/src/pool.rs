//! Makes runs on the threads of one pool: those of a sweep, and those of `viaduct run`.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rayon::{Scope, ThreadPoolBuilder};
use viaduct_cluster::Progress;

use crate::error::SweepError;
use crate::ledger::RunCounts;
use crate::schedule::Job;

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

/// Which run is next, and where those go that were made.
pub trait Desk: Send {
    /// What a run leaves.
    type Made;

    /// A run to make now, of the cell `last` if that has one; none if all are under way or made.
    fn next(&mut self, last: Option<u32>) -> Option<Job>;

    /// Keeps what a run left.
    ///
    /// # Errors
    ///
    /// When it cannot be kept; then no other run begins.
    fn keep(&mut self, job: Job, made: Self::Made) -> Result<(), SweepError>;

    /// A run that was under way was not made: it is to be made again.
    fn give_back(&mut self, job: Job);

    /// Runs that could begin now.
    fn ready_count(&self) -> usize;

    /// How far it is.
    fn counts(&self) -> RunCounts;

    /// Most runs that it may come to ask for.
    fn runs_max(&self) -> u64;
}

/// Makes one run after the other; each thread has a clone.
pub trait Maker: Clone + Send + Sync {
    /// What a run leaves.
    type Made: Send;

    /// Makes a run; none if `control` broke it off and nothing of it is kept.
    ///
    /// # Errors
    ///
    /// When no other run is to begin after it.
    fn make(
        &mut self,
        job: Job,
        control: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Option<Made<Self::Made>>, SweepError>;
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Made<T> {
    /// What is kept of it.
    pub kept: T,
    /// Events handled.
    pub events: u64,
    /// Wall clock of the simulation alone.
    pub simulated: Duration,
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
struct Shared<'a, D, M> {
    state: Mutex<Work<'a, D>>,
    /// The last worker has left.
    ended: Condvar,
    maker: &'a M,
    threads: usize,
    watch: &'a dyn Watch,
}

struct Work<'a, D> {
    desk: &'a mut D,
    failure: Option<SweepError>,
    simulated: Duration,
    runs: u64,
    /// Tasks of the pool that make runs, or are about to.
    workers: usize,
}

/// Makes what the desk asks for, until its end or the user's; by default on as many threads as
/// the machine has processors.
///
/// # Errors
///
/// The first failure of a run, or of keeping one; what was kept before it counts.
pub fn make_runs<D: Desk<Made = M::Made>, M: Maker>(
    desk: &mut D,
    maker: &M,
    threads: Option<NonZeroUsize>,
    watch: &dyn Watch,
) -> Result<Effort, SweepError> {
    let started = Instant::now();
    let threads = threads
        .or_else(|| thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get);
    // More would have nothing to do.
    let runs_max = usize::try_from(desk.runs_max()).unwrap_or(usize::MAX);
    let threads = threads.min(runs_max).max(1);
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| {
        let title = format!("cannot start {threads} threads: {error}");
        SweepError::new(title, "give a smaller number with `--threads`")
    })?;
    let shared = Shared {
        state: Mutex::new(Work {
            desk,
            failure: None,
            simulated: Duration::ZERO,
            runs: 0,
            workers: 0,
        }),
        ended: Condvar::new(),
        maker,
        threads,
        watch,
    };
    pool.in_place_scope(|scope| {
        shared.hire(scope);
        shared.look_on();
    });
    let state = shared.state.into_inner();
    let state = state.unwrap_or_else(PoisonError::into_inner);
    let counts = state.desk.counts();
    watch.look(counts);
    match state.failure {
        Some(failure) => Err(failure),
        None => Ok(Effort {
            runs: state.runs,
            threads,
            wall_s: started.elapsed().as_secs_f64(),
            simulated_s: state.simulated.as_secs_f64(),
            left: counts.asked - counts.made,
        }),
    }
}

impl<'a, D: Desk<Made = M::Made>, M: Maker> Shared<'a, D, M> {
    fn lock(&self) -> MutexGuard<'_, Work<'a, D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts as many tasks to work as there are runs for them. The end of a run may bring others:
    /// a cell whose interval is too wide asks for more seeds.
    fn hire<'s>(&'s self, scope: &Scope<'s>) {
        let mut state = self.lock();
        let free = self.threads - state.workers;
        let hired = free.min(state.desk.ready_count());
        state.workers += hired;
        drop(state);
        for _ in 0..hired {
            scope.spawn(|scope| self.work(scope));
        }
    }

    /// Tells how far it is, now and then, until all is over.
    fn look_on(&self) {
        let mut state = self.lock();
        while state.workers > 0 {
            let waited = self.ended.wait_timeout(state, BETWEEN_LOOKS);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let counts = state.desk.counts();
            drop(state);
            self.watch.look(counts);
            state = self.lock();
        }
    }

    /// One task.
    fn work<'s>(&'s self, scope: &Scope<'s>) {
        // Also if a run panics: the caller's thread waits for all to leave.
        let _leaving = Leaving(self);
        let mut maker = self.maker.clone();
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
            self.ended(job, made);
            self.hire(scope);
        }
    }

    fn next(&self, last: Option<u32>) -> Option<Job> {
        let mut state = self.lock();
        match state.failure.is_some() || self.watch.is_stopped() {
            true => None,
            false => state.desk.next(last),
        }
    }

    fn ended(&self, job: Job, made: Result<Option<Made<M::Made>>, SweepError>) {
        if let Ok(Some(made)) = &made {
            self.watch.run_done(job, made.events);
        }
        let mut state = self.lock();
        let kept = made.and_then(|made| match made {
            Some(made) => {
                state.simulated += made.simulated;
                state.runs += 1;
                state.desk.keep(job, made.kept)
            }
            None => {
                state.desk.give_back(job);
                Ok(())
            }
        });
        if let Err(failure) = kept {
            state.failure.get_or_insert(failure);
        }
    }
}

/// A task that is at work until this is dropped.
struct Leaving<'s, 'a, D: Desk<Made = M::Made>, M: Maker>(&'s Shared<'a, D, M>);

impl<D: Desk<Made = M::Made>, M: Maker> Drop for Leaving<'_, '_, D, M> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.workers -= 1;
        if state.workers == 0 {
            self.0.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::kept::KeptRuns;

    /// Runs that leave their own place, once `begun` of them are under way or were made.
    #[derive(Clone)]
    struct Meeting<'a> {
        begun: &'a AtomicU32,
        wanted: u32,
        fails: Option<Job>,
    }

    impl Maker for Meeting<'_> {
        type Made = Job;

        fn make(
            &mut self,
            job: Job,
            _: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
        ) -> Result<Option<Made<Job>>, SweepError> {
            self.begun.fetch_add(1, Ordering::SeqCst);
            let since = Instant::now();
            while self.begun.load(Ordering::SeqCst) < self.wanted {
                if since.elapsed() > Duration::from_secs(20) {
                    return Err(SweepError::plain("nobody else has begun"));
                }
                thread::yield_now();
            }
            if self.fails == Some(job) {
                return Err(SweepError::plain("this run fails"));
            }
            Ok(Some(Made {
                kept: job,
                events: 1,
                simulated: Duration::ZERO,
            }))
        }
    }

    struct Until<'a>(&'a AtomicU32, u32);

    impl Watch for Until<'_> {
        fn is_stopped(&self) -> bool {
            self.0.load(Ordering::SeqCst) >= self.1
        }
    }

    const NOBODY_STOPS: u32 = u32::MAX;

    fn made(
        runs: &[u32],
        threads: usize,
        wanted: u32,
        fails: Option<Job>,
        stopped_at: u32,
    ) -> (Result<Effort, SweepError>, Vec<Vec<Job>>) {
        let begun = AtomicU32::new(0);
        let mut kept = KeptRuns::new(runs.iter().copied());
        let maker = Meeting {
            begun: &begun,
            wanted,
            fails,
        };
        let watch = Until(&begun, stopped_at);
        let effort = make_runs(&mut kept, &maker, NonZeroUsize::new(threads), &watch);
        (effort, kept.into_cells().into_values().collect())
    }

    #[test]
    fn runs_are_made_side_by_side_and_kept_in_their_places() {
        let (effort, cells) = made(&[2, 3], 5, 5, None, NOBODY_STOPS);
        let effort = effort.expect("all five are under way at once");
        assert_eq!((effort.runs, effort.threads, effort.left), (5, 5, 0));
        let job = |cell, index| Job { cell, index };
        let of_first = vec![job(0, 0), job(0, 1)];
        assert_eq!(cells, [of_first, vec![job(1, 0), job(1, 1), job(1, 2)]]);
    }

    #[test]
    fn a_failure_is_told_and_nothing_begins_after_it() {
        let fails = Job { cell: 0, index: 1 };
        let (effort, cells) = made(&[4], 1, 0, Some(fails), NOBODY_STOPS);
        let error = effort.expect_err("a run fails").to_string();
        assert!(error.contains("this run fails"), "{error}");
        assert_eq!(cells, [[Job { cell: 0, index: 0 }]]);
    }

    #[test]
    fn no_more_threads_are_started_than_there_are_runs() {
        let (effort, _) = made(&[2, 1], 1_000_000, 0, None, NOBODY_STOPS);
        assert_eq!(effort.expect("three threads").threads, 3);
    }

    #[test]
    fn what_was_not_begun_when_the_user_stops_is_counted() {
        let (effort, cells) = made(&[4], 1, 0, None, 2);
        assert_eq!(effort.expect("no failure").left, 2);
        assert_eq!(cells[0].len(), 2);
    }

    /// One run, and two more once it has been made, as a width asks for them.
    struct Late(KeptRuns<Job>, KeptRuns<Job>);

    impl Desk for Late {
        type Made = Job;

        fn next(&mut self, last: Option<u32>) -> Option<Job> {
            let first = self.0.next(last);
            let is_made = self.0.counts().made == 1;
            first.or_else(|| is_made.then(|| self.1.next(last)).flatten())
        }

        fn keep(&mut self, job: Job, made: Job) -> Result<(), SweepError> {
            match self.0.counts().made {
                0 => self.0.keep(job, made),
                _ => self.1.keep(job, made),
            }
        }

        fn give_back(&mut self, job: Job) {
            self.1.give_back(job);
        }

        fn ready_count(&self) -> usize {
            match self.0.counts().made {
                0 => self.0.ready_count(),
                _ => self.1.ready_count(),
            }
        }

        fn counts(&self) -> RunCounts {
            self.1.counts()
        }

        fn runs_max(&self) -> u64 {
            3
        }
    }

    #[test]
    fn runs_that_the_end_of_another_brings_are_made_side_by_side() {
        // The first begins alone; each of the others waits for the other one.
        let begun = AtomicU32::new(2);
        let mut late = Late(KeptRuns::new([1]), KeptRuns::new([2]));
        let maker = Meeting {
            begun: &begun,
            wanted: 3,
            fails: None,
        };
        let watch = Until(&begun, NOBODY_STOPS);
        let first = make_runs(&mut late, &Alone(maker), NonZeroUsize::new(2), &watch);
        assert_eq!(first.expect("two threads at work").runs, 3);
    }

    /// The first run does not wait, and the next two wait for two more.
    #[derive(Clone)]
    struct Alone<'a>(Meeting<'a>);

    impl Maker for Alone<'_> {
        type Made = Job;

        fn make(
            &mut self,
            job: Job,
            control: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
        ) -> Result<Option<Made<Job>>, SweepError> {
            let is_first = self.0.begun.load(Ordering::SeqCst) == 2;
            self.0.wanted = if is_first { 3 } else { 5 };
            self.0.make(job, control)
        }
    }
}
