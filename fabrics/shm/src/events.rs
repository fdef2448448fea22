//! Handlers of the program, run by a thread that holds no lock.
//!
//! One thread a process, started by the first event. Handlers run in the order in which they came,
//! one at a time, and may call anything. The NIC that a handler belongs to can be drained: what is
//! queued for it is dropped, and a handler that runs is waited for, unless it is the handler that
//! asks.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use crate::service::{locked, spawn};

struct Dispatcher {
    state: Mutex<Calls>,
    /// Something is queued.
    queued: Condvar,
    /// A handler has returned.
    returned: Condvar,
}

struct Calls {
    queue: VecDeque<(u64, Box<dyn FnOnce() + Send>)>,
    running: Option<u64>,
    thread: Option<ThreadId>,
}

static DISPATCHER: Dispatcher = Dispatcher {
    state: Mutex::new(Calls {
        queue: VecDeque::new(),
        running: None,
        thread: None,
    }),
    queued: Condvar::new(),
    returned: Condvar::new(),
};

/// Has a handler of a NIC run soon, by another thread.
pub(crate) fn dispatch(nic: u64, handler: impl FnOnce() + Send + 'static) {
    let mut state = locked(&DISPATCHER.state);
    state.queue.push_back((nic, Box::new(handler)));
    if state.thread.is_none()
        && let Ok(thread) = spawn("viaduct-events", run)
    {
        // Without a thread the handler stays queued, and the next event tries again.
        state.thread = Some(thread.thread().id());
    }
    DISPATCHER.queued.notify_one();
}

/// How many calls wait for their turn.
pub(crate) fn backlog() -> usize {
    locked(&DISPATCHER.state).queue.len()
}

/// Drops what is queued for a NIC and waits until its running handler has returned. Called from a
/// handler, it does not wait.
pub(crate) fn drain(nic: u64) {
    let mut state = locked(&DISPATCHER.state);
    let (dropped, kept) = state.queue.drain(..).partition(|(of, _)| *of == nic);
    state.queue = kept;
    let dropped: VecDeque<_> = dropped;
    if state.thread != Some(thread::current().id()) {
        while state.running == Some(nic) {
            state = DISPATCHER
                .returned
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
    drop(state);
    // What the handlers hold may call us when it goes.
    drop(dropped);
}

fn run() {
    let mut state = locked(&DISPATCHER.state);
    loop {
        let Some((nic, handler)) = state.queue.pop_front() else {
            state = DISPATCHER
                .queued
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.running = Some(nic);
        drop(state);
        // A handler that panics has said why; the others' handlers still run.
        let _ = catch_unwind(AssertUnwindSafe(handler));
        state = locked(&DISPATCHER.state);
        state.running = None;
        DISPATCHER.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn handlers_run_in_order_in_another_thread() {
        let (told, heard) = channel();
        for number in 0..100 {
            let told = told.clone();
            dispatch(1001, move || {
                told.send((number, thread::current().id())).unwrap();
            });
        }
        for number in 0..100 {
            let (came, thread) = heard.recv_timeout(SOON).unwrap();
            assert_eq!(came, number);
            assert_ne!(thread, thread::current().id());
        }
    }

    #[test]
    fn a_drained_nic_has_no_handler_left() {
        let (release, held) = channel::<()>();
        let (told, heard) = channel();
        let running = told.clone();
        dispatch(1002, move || {
            running.send("running").unwrap();
            held.recv().unwrap();
            running.send("returned").unwrap();
        });
        let dropped = told.clone();
        dispatch(1002, move || dropped.send("dropped").unwrap());
        dispatch(1003, move || told.send("other").unwrap());
        assert_eq!(heard.recv_timeout(SOON).unwrap(), "running");
        let drained = thread::spawn(|| drain(1002));
        // The drain is under way or about to be: either way it must not return yet.
        assert!(!drained.is_finished());
        release.send(()).unwrap();
        drained.join().unwrap();
        let rest: Vec<_> = heard.iter().collect();
        assert_eq!(rest.first(), Some(&"returned"));
        assert_eq!(rest.last(), Some(&"other"));
    }

    #[test]
    fn a_handler_drains_its_own_nic_and_a_panic_stops_nobody() {
        let (told, heard) = channel();
        dispatch(1004, || panic!("a handler of the program"));
        dispatch(1004, move || {
            drain(1004);
            told.send(()).unwrap();
        });
        heard.recv_timeout(SOON).unwrap();
    }
}
