//! The lock, and what it takes to wait: operations run through here.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use viaduct_provider::via::Timestamp;
use viaduct_provider::via::outcome::Harm;
use viaduct_provider::{Result, ViHandle};

use viaduct_agent::Agent;

use crate::carry::Carrier;

/// What the lock protects.
pub(crate) struct Locked {
    pub(crate) agent: Agent,
    harm: Option<Harm>,
    pub(crate) is_closing: bool,
    /// Threads that wait for something to change.
    waiters: u32,
}

impl Locked {
    fn carry(&mut self, now: Timestamp, vi: Option<ViHandle>) {
        let (agent, harm) = (&mut self.agent, self.harm);
        Carrier { agent, harm }.carry(now, vi);
    }
}

/// What the consumer's threads and the provider's own share.
pub(crate) struct Shared {
    state: Mutex<Locked>,
    /// Anything that a blocked operation may wait for.
    changed: Condvar,
    /// A job, or the end.
    job: Condvar,
    origin: Instant,
}

impl Shared {
    pub(crate) fn new(agent: Agent, harm: Option<Harm>) -> Self {
        Self {
            state: Mutex::new(Locked {
                agent,
                harm,
                is_closing: false,
                waiters: 0,
            }),
            changed: Condvar::new(),
            job: Condvar::new(),
            origin: Instant::now(),
        }
    }

    /// Ends the provider's thread when its jobs are done.
    pub(crate) fn close(&self) {
        self.lock().is_closing = true;
        self.job.notify_all();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Locked> {
        // Nothing under the lock panics with half a change made, short of a defect.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the fabric was made. The semantics only compares instants: a unit of its time
    /// is a nanosecond here, so that the clock lasts for centuries.
    pub(crate) fn now(&self) -> Timestamp {
        let nanoseconds = self.origin.elapsed().as_nanos();
        Timestamp::from_picoseconds(u64::try_from(nanoseconds).unwrap_or(u64::MAX - 1))
    }

    /// Wakes whoever may have something to do.
    pub(crate) fn wake(&self, state: &Locked) {
        if state.waiters > 0 {
            self.changed.notify_all();
        }
        if state.agent.has_jobs() {
            self.job.notify_one();
        }
    }

    pub(crate) fn wait_for_job<'a>(&self, state: MutexGuard<'a, Locked>) -> MutexGuard<'a, Locked> {
        self.job.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation: what it does, then what follows from it, also when it is refused.
    pub(crate) fn operate<T>(
        &self,
        vi: Option<ViHandle>,
        act: impl FnOnce(&mut Agent, Timestamp) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let now = self.now();
        state.agent.expire(now);
        let result = act(&mut state.agent, now);
        state.carry(now, vi);
        self.wake(&state);
        result
    }

    /// Looks until there is something to see; `None` when the time is over.
    pub(crate) fn block<T>(
        &self,
        limit: Option<Duration>,
        mut look: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.lock();
        loop {
            let now = self.now();
            state.agent.expire(now);
            state.carry(now, None);
            let seen = look(&mut state.agent);
            self.wake(&state);
            if let Some(seen) = seen? {
                return Ok(Some(seen));
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
            // Whatever is due in the semantics comes about through some thread that waits.
            let due = state.agent.next_timeout().and_then(|due| {
                self.origin
                    .checked_add(Duration::from_nanos(due.picoseconds()))
            });
            let until = match (deadline, due) {
                (Some(deadline), Some(due)) => Some(deadline.min(due)),
                (deadline, due) => deadline.or(due),
            };
            state.waiters += 1;
            state = match until {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let span = until.saturating_duration_since(Instant::now());
                    let waited = self.changed.wait_timeout(state, span);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.waiters -= 1;
        }
    }
}
