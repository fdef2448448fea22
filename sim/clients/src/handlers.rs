//! Handlers of clients: a thread of the client calls them, and asks what for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use viaduct_calls::put_answer;
use viaduct_calls::via::Told;
use viaduct_programs::Process;
use viaduct_provider::{Error, NicHandle};
use viaduct_turns::Thread;

use crate::world::Answers;

/// What handlers of a client are to be called for, and who calls them.
#[derive(Clone, Debug)]
pub(crate) struct Handlers {
    state: Arc<Mutex<State>>,
    answers: Answers,
}

#[derive(Debug, Default)]
struct State {
    told: VecDeque<Told>,
    /// Who calls them, once it has asked.
    caller: Option<Thread>,
    /// It waits for the next.
    is_waiting: bool,
    /// The NIC whose handler it has not returned from.
    running: Option<NicHandle>,
}

impl State {
    fn next(&mut self) -> Option<Vec<u8>> {
        let told = self.told.pop_front()?;
        self.is_waiting = false;
        self.running = match told {
            Told::Error(failed) => Some(failed.nic),
            Told::Descriptor { nic, .. } | Told::Entry { nic, .. } => Some(nic),
            Told::Forgotten { .. } => None,
        };
        let mut bytes = Vec::new();
        put_answer::<_, Error>(&Ok(told), &mut bytes);
        Some(bytes)
    }
}

impl Handlers {
    pub(crate) fn new(answers: Answers) -> Self {
        let state = Arc::default();
        Self { state, answers }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread has returned from the last handler and asks for the next: the answer, if there is
    /// one to call.
    pub(crate) fn ask(&self, caller: Thread) -> Option<Vec<u8>> {
        let mut state = self.lock();
        state.caller = Some(caller);
        state.running = None;
        let next = state.next();
        state.is_waiting = next.is_none();
        next
    }

    /// A handler is to be called: by whoever waits for that, as soon as the host's processor has
    /// told it.
    pub(crate) fn tell(&self, process: &Process, told: Told) {
        // The lock of the simulation is not taken within this one.
        let when = process.time();
        let mut state = self.lock();
        state.told.push_back(told);
        if let (true, Some(caller)) = (state.is_waiting, state.caller)
            && let Some(bytes) = state.next()
        {
            drop(state);
            self.answers.push(caller, when, bytes);
        }
    }

    /// A handler waits for nothing any more. It is forgotten when somebody asks next.
    fn forget(&self, handler: u64) {
        self.lock().told.push_back(Told::Forgotten { handler });
    }

    /// Whether a handler of a NIC runs, and another thread than this one has called it.
    pub(crate) fn is_running(&self, nic: NicHandle, own: Thread) -> bool {
        let state = self.lock();
        state.running == Some(nic) && state.caller != Some(own)
    }

    /// The client has gone.
    pub(crate) fn end(&self) {
        *self.lock() = State::default();
    }
}

/// A handler that a client has given away: forgotten there when it is dropped here.
#[derive(Debug)]
pub(crate) struct Given {
    handlers: Handlers,
    number: u64,
    is_called: bool,
}

impl Given {
    pub(crate) fn new(handlers: &Handlers, number: u64) -> Self {
        Self {
            handlers: handlers.clone(),
            number,
            is_called: false,
        }
    }

    /// It is to be called.
    pub(crate) fn call(mut self, process: &Process, told: impl FnOnce(u64) -> Told) {
        self.is_called = true;
        self.handlers.tell(process, told(self.number));
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if !self.is_called {
            self.handlers.forget(self.number);
        }
    }
}
