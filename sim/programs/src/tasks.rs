//! Who waits for what: the programs of a simulation, as its clock sees them.

use std::collections::VecDeque;

/// Number of a program, or of a part of one; free numbers are used again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct TaskId(pub(crate) u32);

/// A task as the clock sees it.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    host: u32,
    /// Among those of its host.
    processor: u32,
    /// Counts the task's waits, so that an event for an earlier one is told apart.
    wait: u32,
    is_waiting: bool,
    /// Whether a change on its host ends the wait.
    is_watching: bool,
    /// Whether it is in its host's list of watchers.
    is_listed: bool,
    /// Whether a wait of it keeps the simulation going: handlers' do not.
    is_program: bool,
    is_alive: bool,
}

/// All tasks.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    states: Vec<Task>,
    free: Vec<TaskId>,
    ready: VecDeque<TaskId>,
    programs: u32,
}

impl Tasks {
    /// A new task on a host, ready to run.
    pub(crate) fn add(&mut self, host: u32, processor: u32, is_program: bool) -> TaskId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.states.push(Task::default());
            TaskId(self.states.len() as u32 - 1)
        });
        let state = &mut self.states[id.0 as usize];
        *state = Task {
            host,
            processor,
            wait: state.wait.wrapping_add(1),
            is_program,
            is_alive: true,
            // A former task of this number may still be on its host's list.
            is_listed: false,
            ..Task::default()
        };
        self.programs += u32::from(is_program);
        self.ready.push_back(id);
        id
    }

    /// A task has ended.
    pub(crate) fn remove(&mut self, id: TaskId) {
        let state = &mut self.states[id.0 as usize];
        if !state.is_alive {
            return;
        }
        state.is_alive = false;
        state.is_waiting = false;
        state.wait = state.wait.wrapping_add(1);
        self.programs -= u32::from(state.is_program);
        self.free.push(id);
    }

    /// A host is dead: its programs, and the task that calls its handlers, never run again. Their
    /// numbers are not used again: what they hold is still there.
    pub(crate) fn bury(&mut self, host: u32, handler: Option<TaskId>) {
        for (number, state) in self.states.iter_mut().enumerate() {
            let is_handler = handler.is_some_and(|handler| handler.0 as usize == number);
            if state.is_alive && state.host == host && (state.is_program || is_handler) {
                state.is_alive = false;
                state.is_waiting = false;
                self.programs -= u32::from(state.is_program);
            }
        }
    }

    pub(crate) fn host(&self, id: TaskId) -> u32 {
        self.states[id.0 as usize].host
    }

    pub(crate) fn processor(&self, id: TaskId) -> u32 {
        self.states[id.0 as usize].processor
    }

    /// A task of the pool works for another host from now on.
    pub(crate) fn move_to(&mut self, id: TaskId, host: u32) {
        self.states[id.0 as usize].host = host;
    }

    /// Programs that have not ended.
    pub(crate) const fn programs(&self) -> u32 {
        self.programs
    }

    pub(crate) fn next_ready(&mut self) -> Option<TaskId> {
        loop {
            let id = self.ready.pop_front()?;
            // Its host may have died meanwhile.
            if self.states[id.0 as usize].is_alive {
                return Some(id);
            }
        }
    }

    /// Whether no task could run now.
    pub(crate) fn is_idle(&self) -> bool {
        self.ready.is_empty()
    }

    /// Takes a task off the list of those that can run, if it is the next; `None` if none can run.
    #[inline]
    pub(crate) fn take_if_next(&mut self, id: TaskId) -> Option<bool> {
        let is_next = *self.ready.front()? == id;
        if is_next {
            self.ready.pop_front();
        }
        Some(is_next)
    }

    /// A wait is over without the task's having left its stack.
    pub(crate) fn end_wait_now(&mut self, id: TaskId) {
        self.states[id.0 as usize].is_waiting = false;
    }

    /// A task waits from now on; the number of its wait.
    pub(crate) fn wait(&mut self, id: TaskId, is_watching: bool) -> u32 {
        let state = &mut self.states[id.0 as usize];
        state.wait = state.wait.wrapping_add(1);
        state.is_waiting = true;
        state.is_watching = is_watching;
        state.wait
    }

    /// A wait is over, if it is that one still.
    pub(crate) fn end_wait(&mut self, id: TaskId, wait: u32) {
        let state = &mut self.states[id.0 as usize];
        if state.is_alive && state.is_waiting && state.wait == wait {
            state.is_waiting = false;
            self.ready.push_back(id);
        }
    }

    /// Notes that a task is in its host's list of watchers; false if it was before.
    pub(crate) fn list(&mut self, id: TaskId) -> bool {
        !core::mem::replace(&mut self.states[id.0 as usize].is_listed, true)
    }

    /// Something changed that a watching task may be waiting for; it is off the list.
    pub(crate) fn notice(&mut self, id: TaskId) {
        let state = &mut self.states[id.0 as usize];
        state.is_listed = false;
        if state.is_waiting && state.is_watching {
            state.is_waiting = false;
            self.ready.push_back(id);
        }
    }

    /// A task is to run, whatever it waits for.
    pub(crate) fn wake(&mut self, id: TaskId) {
        let state = &mut self.states[id.0 as usize];
        if state.is_alive && state.is_waiting {
            state.is_waiting = false;
            self.ready.push_back(id);
        }
    }

    /// The hosts, by their first places, of the programs that wait.
    pub(crate) fn waiting_places(&self) -> Vec<u32> {
        self.states
            .iter()
            .filter(|state| state.is_alive && state.is_program && state.is_waiting)
            .map(|state| state.host)
            .collect()
    }
}
