//! Who sleeps where.
//!
//! One thread at a time, the leader, sleeps in the fabric's completion queue; it takes in what
//! comes, for everybody. Others sleep until the leader wakes them, or until the leader goes and one
//! of them has to follow. Where a thread of this process polls while the leader sleeps, it takes
//! what the leader waits for: so a leader that is not alone looks again every millisecond.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use viaduct_am::{Group, Readiness, Slot, TimedOut, Watch};
use viaduct_provider::{Provider, ReturnCode};

use crate::state::StationState;
use crate::station::Shared;

/// How long a sleeper goes without a look when something may come that does not wake it.
const SLICE: Duration = Duration::from_millis(1);
/// The same for a simulated thread that others cannot wake.
const PAUSE: Duration = Duration::from_micros(50);

/// Those who sleep outside the completion queue.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: Vec<(u64, Watch, Waker)>,
    has_leader: bool,
    user_last: u64,
    has_many_users: bool,
    has_tasks: bool,
}

impl Waiters {
    #[inline]
    pub(crate) fn wake(&self, slot: u32, group: Option<u32>) {
        for (_, watch, waker) in &self.waiting {
            let is_it = match watch {
                Watch::Endpoint(Slot(its)) => *its == slot,
                Watch::Group(Group(its)) => Some(*its) == group,
            };
            if is_it {
                waker.wake_by_ref();
            }
        }
    }

    pub(crate) fn wake_all(&self) {
        for (_, _, waker) in &self.waiting {
            waker.wake_by_ref();
        }
    }

    /// Whether a thread sleeps in the completion queue.
    pub(crate) const fn has_leader(&self) -> bool {
        self.has_leader
    }

    /// Somebody has to look after the completion queue.
    fn hand_over(&self) {
        if let Some((_, _, waker)) = self.waiting.first() {
            waker.wake_by_ref();
        }
    }

    /// Registers a sleeper under its number; again, if it is there.
    fn register(&mut self, id: u64, watch: Watch, waker: Waker) {
        match self.waiting.iter_mut().find(|each| each.0 == id) {
            Some(each) => *each = (id, watch, waker),
            None => self.waiting.push((id, watch, waker)),
        }
    }

    fn unregister(&mut self, id: u64) {
        self.waiting.retain(|each| each.0 != id);
    }

    /// Notes who uses the station.
    #[inline]
    pub(crate) fn note_user(&mut self) {
        let user = USER.with(|user| match user.get() {
            0 => {
                user.set(next_number());
                user.get()
            }
            number => number,
        });
        if user != self.user_last {
            self.has_many_users |= self.user_last != 0;
            self.user_last = user;
        }
    }
}

thread_local! {
    /// A number of the thread, from 1; 0 before it has one.
    static USER: Cell<u64> = const { Cell::new(0) };
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A task's number in the list of sleepers: one for what it watches.
const fn task_number(watch: Watch) -> u64 {
    // Threads are numbered from 1.
    match watch {
        Watch::Endpoint(Slot(slot)) => 1 << 62 | slot as u64,
        Watch::Group(Group(group)) => 1 << 63 | group as u64,
    }
}

impl<P: Provider> Shared<P> {
    pub(crate) fn wait(
        &self,
        watch: Watch,
        is_over: &dyn Fn(Readiness) -> bool,
        limit: Option<Duration>,
    ) -> Result<(), TimedOut> {
        let id = next_number();
        let mut left = limit;
        let outcome = loop {
            let mut state = self.lock();
            state.waiters.note_user();
            state.progress(|_| false);
            if is_ready(&state, watch, is_over) {
                break Ok(());
            }
            state.acknowledge_all();
            let is_late = state.settle_late();
            if !state.to_connect.is_empty() {
                drop(state);
                self.connect_waiting();
                state = self.lock();
                if is_ready(&state, watch, is_over) {
                    break Ok(());
                }
            }
            if left == Some(Duration::ZERO) {
                break Err(TimedOut);
            }
            let is_restless = is_late
                || !state.to_connect.is_empty()
                || state.waiters.has_many_users
                || state.waiters.has_tasks;
            let slice = if is_restless { Some(SLICE) } else { None };
            let slice = match (slice, left) {
                (Some(slice), Some(left)) => Some(slice.min(left)),
                (slice, left) => slice.or(left),
            };
            let has_slept = if state.waiters.has_leader {
                self.follow_leader(state, id, watch, slice)
            } else if state.waiters.has_tasks {
                // A task's handler has the queue: what it gets is seen at the next look.
                drop(state);
                let slice = slice.unwrap_or(PAUSE).min(PAUSE);
                self.pause(slice);
                slice
            } else {
                self.lead(state, slice)
            };
            if let Some(left) = &mut left {
                *left = left.saturating_sub(has_slept);
            }
        };
        let mut state = self.lock();
        state.waiters.unregister(id);
        if !state.waiters.has_leader {
            state.waiters.hand_over();
        }
        outcome
    }

    /// Sleeps in the completion queue; for how long in vain.
    fn lead(
        &self,
        mut state: std::sync::MutexGuard<'_, StationState<P>>,
        slice: Option<Duration>,
    ) -> Duration {
        state.waiters.has_leader = true;
        drop(state);
        let outcome = self.fabric.completion_wait(self.completions, slice);
        let mut state = self.lock();
        state.waiters.has_leader = false;
        match outcome {
            Ok(entry) => {
                state.completed(entry);
                Duration::ZERO
            }
            Err(error) if error.code() == ReturnCode::Timeout => slice.unwrap_or_default(),
            Err(_) => {
                // The NIC is gone: there is nothing to wait for but the limit.
                drop(state);
                thread::yield_now();
                slice.unwrap_or_default()
            }
        }
    }

    fn follow_leader(
        &self,
        mut state: std::sync::MutexGuard<'_, StationState<P>>,
        id: u64,
        watch: Watch,
        slice: Option<Duration>,
    ) -> Duration {
        if !self.has_threads {
            drop(state);
            let slice = slice.unwrap_or(PAUSE).min(PAUSE);
            self.pause(slice);
            return slice;
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        state.waiters.register(id, watch, waker);
        drop(state);
        match slice {
            // A thread that is woken early counts its whole slice: a limit is a lower bound of
            // patience only as far as nothing happens.
            Some(slice) => {
                thread::park_timeout(slice);
                slice
            }
            None => {
                thread::park();
                Duration::ZERO
            }
        }
    }

    pub(crate) fn poll_wait(
        &self,
        watch: Watch,
        is_over: &dyn Fn(Readiness) -> bool,
        context: &Context<'_>,
    ) -> Poll<()> {
        let mut state = self.lock();
        let id = task_number(watch);
        state.waiters.has_tasks = true;
        loop {
            state.progress(|_| false);
            if !state.to_connect.is_empty() {
                drop(state);
                self.connect_waiting();
                state = self.lock();
            }
            if is_ready(&state, watch, is_over) {
                state.waiters.unregister(id);
                state.waiters.hand_over();
                return Poll::Ready(());
            }
            state.acknowledge_all();
            let is_late = state.settle_late();
            if is_late || !state.to_connect.is_empty() {
                // Nothing will tell: look again when others have run.
                context.waker().wake_by_ref();
            }
            state.waiters.register(id, watch, context.waker().clone());
            match state.completions.poll_next(context) {
                Poll::Ready(Ok(entry)) => state.completed(entry),
                Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
            }
        }
    }
}

fn is_ready<P: Provider>(
    state: &StationState<P>,
    watch: Watch,
    is_over: &dyn Fn(Readiness) -> bool,
) -> bool {
    if state.is_closed {
        return true;
    }
    match watch {
        Watch::Endpoint(Slot(slot)) => is_over(state.look(slot)),
        Watch::Group(Group(group)) => {
            let line = state.groups.get(group as usize);
            let mut members = line.into_iter().flatten().flatten();
            members.any(|slot| is_over(state.look(*slot)))
        }
    }
}
