//! Calls that block, for programs that are futures.
//!
//! A program of Python is a future of the simulation. What blocks is called by a program beside it,
//! on a stack of the simulation and without Python.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use viaduct_programs::Process;

use super::home::locked;

/// A call that another program makes, and its result.
pub(crate) struct Aside<T>(Mutex<State<T>>);

struct State<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

impl<T: Send + 'static> Aside<T> {
    /// Has it called on the host of this program.
    pub(crate) fn call(
        process: &Process,
        act: impl FnOnce(&Process) -> T + Send + 'static,
    ) -> Arc<Self> {
        let aside = Arc::new(Self(Mutex::new(State {
            result: None,
            waker: None,
        })));
        let own = Arc::clone(&aside);
        process.spawn_aside(move |process| {
            let result = act(&process);
            let waker = {
                let mut state = locked(&own.0);
                state.result = Some(result);
                state.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        aside
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<T> {
        let mut state = locked(&self.0);
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
