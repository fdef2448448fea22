//! Runs jobs side by side, and shows what each printed as a whole.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

use crate::Finding;

/// What one job printed, and what it found wrong.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) printed: Vec<u8>,
    pub(crate) findings: Vec<Finding>,
}

/// As many jobs at once as there are processors.
pub(crate) fn workers() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Begins `jobs` in their order, by as many threads as `workers`; what each printed comes when it
/// ends. Answers what they found, in their order.
///
/// # Errors
///
/// When a job could not be run: those that have not begun then are not begun by its thread.
pub(crate) fn side_by_side<Job: Send>(
    jobs: Vec<Job>,
    workers: usize,
    run: impl Fn(&Job) -> io::Result<Ended> + Sync,
) -> io::Result<Vec<Finding>> {
    let waiting: Mutex<VecDeque<(usize, Job)>> = Mutex::new(jobs.into_iter().enumerate().collect());
    let found: Mutex<Vec<(usize, Finding)>> = Mutex::default();
    let poisoned = || io::Error::other("another thread of these jobs panicked");
    let next = || waiting.lock().ok()?.pop_front();
    let work = || -> io::Result<()> {
        while let Some((place, job)) = next() {
            let ended = run(&job)?;
            io::stdout().lock().write_all(&ended.printed)?;
            let mut found = found.lock().map_err(|_| poisoned())?;
            found.extend(ended.findings.into_iter().map(|finding| (place, finding)));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(poisoned())))
    })?;
    let mut found = found.into_inner().map_err(|_| poisoned())?;
    found.sort_by_key(|(place, _)| *place);
    Ok(found.into_iter().map(|(_, finding)| finding).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn jobs_run_at_the_same_time() {
        // Neither ends before the other has begun.
        let both = Barrier::new(2);
        let run = |_: &()| {
            both.wait();
            Ok(Ended::default())
        };
        assert_eq!(side_by_side(vec![(), ()], 2, run).unwrap(), []);
    }

    #[test]
    fn what_is_found_comes_in_the_order_of_the_jobs() {
        // The first ends when the third has begun, so after the second.
        let both = Barrier::new(2);
        let wrong = |job: &&str| Finding::new(*job, "ended");
        let run = |job: &&str| {
            if *job != "second" {
                both.wait();
            }
            let findings = (*job != "third").then(|| wrong(job)).into_iter().collect();
            let printed = Vec::new();
            Ok(Ended { printed, findings })
        };
        let findings = side_by_side(vec!["first", "second", "third"], 2, run).unwrap();
        assert_eq!(findings, ["first", "second"].map(|job| wrong(&job)));
    }
}
