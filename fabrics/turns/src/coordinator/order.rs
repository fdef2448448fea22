//! Whose turn is next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::world::{Process, Thread};

/// What a thread has asked for and is done when nothing is before it.
#[derive(Debug)]
pub(super) enum Step {
    /// It goes on.
    Resume,
    /// The world is told.
    Post(Vec<u8>),
    /// The world is asked.
    Call(Vec<u8>),
    /// The world has answered: it goes on.
    Answer(Vec<u8>),
    /// It has ended.
    End,
    /// Its process has ended.
    Gone,
}

/// What a thread waits for beside time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wait {
    /// Nothing.
    Nothing,
    /// An answer of the world.
    World,
    /// Something real, which it has tried in this round ([`Order::next_round`]).
    Foreign { tried: u64 },
    /// What is written into memory.
    Memory,
}

/// In order of this it is the turn of what is to be done.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Key {
    pub(super) at: u64,
    pub(super) thread: Thread,
}

#[derive(Debug)]
struct Pending {
    clock: u64,
    steps: VecDeque<(u64, Step)>,
    wait: Wait,
    /// When it gives up waiting.
    until: Option<u64>,
    key: Option<Key>,
}

/// What is due.
#[derive(Debug)]
pub(super) enum Due {
    Step(Step),
    /// A wait is given up.
    Expired(Wait),
}

/// All threads that do not have the turn.
#[derive(Debug, Default)]
pub(super) struct Order {
    threads: BTreeMap<Thread, Pending>,
    keys: BTreeSet<Key>,
    /// Those that wait for something real, by their clocks.
    foreign: BTreeSet<Key>,
    /// Those that wait for what is written into memory.
    looking: BTreeSet<Thread>,
    round: u64,
}

impl Order {
    /// The thread has given the turn at `clock`, with steps in order of their times, and waits for
    /// something until then, or for nothing.
    pub(super) fn put(
        &mut self,
        thread: Thread,
        clock: u64,
        steps: VecDeque<(u64, Step)>,
        wait: Wait,
        until: Option<u64>,
    ) {
        let pending = Pending {
            clock,
            steps,
            wait,
            until,
            key: None,
        };
        self.remove(thread);
        self.threads.insert(thread, pending);
        self.enter(thread);
    }

    /// Puts the first thing that a thread has to do where it belongs.
    fn enter(&mut self, thread: Thread) {
        let Some(pending) = self.threads.get_mut(&thread) else {
            return;
        };
        let first = pending.steps.front().map(|(at, _)| *at);
        let waits = matches!(pending.wait, Wait::Foreign { .. }) && first.is_none();
        let until = pending.until.map(|until| until.max(pending.clock));
        pending.key = first.or(until).map(|at| Key { at, thread });
        if waits {
            let at = pending.clock;
            self.foreign.insert(Key { at, thread });
        }
        if pending.wait == Wait::Memory && first.is_none() {
            self.looking.insert(thread);
        }
        self.keys.extend(pending.key);
    }

    /// Forgets what a thread waits for and has to do.
    pub(super) fn remove(&mut self, thread: Thread) {
        if let Some(pending) = self.threads.remove(&thread) {
            self.leave(thread, &pending);
        }
    }

    fn leave(&mut self, thread: Thread, pending: &Pending) {
        if let Some(key) = pending.key {
            self.keys.remove(&key);
        }
        self.foreign.remove(&Key {
            at: pending.clock,
            thread,
        });
        self.looking.remove(&thread);
    }

    /// What is first.
    pub(super) fn first(&self) -> Option<Key> {
        self.keys.first().copied()
    }

    /// Takes what is due of the thread that is first.
    pub(super) fn take_first(&mut self) -> Option<(Key, Due)> {
        let key = self.first()?;
        let mut pending = self.threads.remove(&key.thread)?;
        self.leave(key.thread, &pending);
        let due = match pending.steps.pop_front() {
            Some((_, step)) => {
                pending.clock = pending.clock.max(key.at);
                let more = !pending.steps.is_empty() || pending.wait != Wait::Nothing;
                if more {
                    pending.key = None;
                    self.threads.insert(key.thread, pending);
                    self.enter(key.thread);
                }
                Due::Step(step)
            }
            None => Due::Expired(pending.wait),
        };
        Some((key, due))
    }

    /// Has a thread whose call waits go on at `at` with an answer; false: none of it waits.
    pub(super) fn answer(&mut self, thread: Thread, at: u64, answer: Vec<u8>) -> bool {
        let waits = self.threads.get(&thread);
        if waits.is_none_or(|pending| pending.wait != Wait::World) {
            return false;
        }
        let at = waits.map_or(at, |pending| at.max(pending.clock));
        let steps = VecDeque::from([(at, Step::Answer(answer))]);
        self.put(thread, at, steps, Wait::Nothing, None);
        true
    }

    /// Somebody has had the turn: what others wait for may be there.
    pub(super) fn next_round(&mut self) {
        self.round += 1;
    }

    /// Marks what a thread now waits for as tried.
    pub(super) fn tried(&self) -> Wait {
        Wait::Foreign { tried: self.round }
    }

    /// The first of those that wait for something real and have not tried since somebody had the
    /// turn; with `again`, the first behind `after` whether it has or not.
    pub(super) fn to_try(&self, after: Option<Key>, again: bool) -> Option<Key> {
        let mut keys = self.foreign.iter().copied();
        keys.find(|key| {
            let wait = self.threads.get(&key.thread).map(|pending| pending.wait);
            let is_new = wait != Some(self.tried());
            if again {
                after.is_none_or(|after| *key > after)
            } else {
                is_new
            }
        })
    }

    /// Takes a thread that waits for something real, with its clock and its deadline.
    pub(super) fn take_foreign(&mut self, thread: Thread) -> Option<(u64, Option<u64>)> {
        let pending = self.threads.remove(&thread)?;
        self.leave(thread, &pending);
        Some((pending.clock, pending.until))
    }

    /// Whether somebody waits for what others may do without a call of the world.
    pub(super) fn has_onlookers(&self) -> bool {
        !self.foreign.is_empty() || !self.looking.is_empty()
    }

    /// The first behind `after` of those that wait for what is written into memory.
    pub(super) fn looking(&self, after: Option<Thread>) -> Option<Thread> {
        let mut looking = self.looking.iter().copied();
        looking.find(|thread| after.is_none_or(|after| *thread > after))
    }

    /// Has those threads look again at `at` that wait for what is written into memory of such
    /// processes.
    pub(super) fn look(&mut self, at: u64, is_of: impl Fn(Process) -> bool) {
        let mut after = None;
        while let Some(thread) = self.looking(after) {
            after = Some(thread);
            if is_of(thread.process) {
                let clock = self.threads.get(&thread).map_or(0, |it| it.clock);
                let at = at.max(clock);
                let steps = VecDeque::from([(at, Step::Resume)]);
                self.put(thread, at, steps, Wait::Nothing, None);
            }
        }
    }

    /// Takes a thread that waits for what is written into memory, with its clock.
    pub(super) fn take_looking(&mut self, thread: Thread) -> Option<u64> {
        self.take_foreign(thread).map(|(clock, _)| clock)
    }

    /// Everybody who waits.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Thread, u64)> {
        self.threads
            .iter()
            .map(|(thread, pending)| (*thread, pending.clock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Process;

    fn thread(host: u32, process: u32, number: u32) -> Thread {
        Thread {
            process: Process {
                host,
                number: process,
                pid: 0,
            },
            number,
        }
    }

    fn resume(at: u64) -> VecDeque<(u64, Step)> {
        VecDeque::from([(at, Step::Resume)])
    }

    #[test]
    fn time_is_before_host_process_and_thread() {
        let mut order = Order::default();
        for (at, thread) in [
            (5, thread(1, 3, 0)),
            (5, thread(0, 2, 1)),
            (5, thread(0, 2, 0)),
            (5, thread(0, 4, 0)),
            (4, thread(9, 9, 9)),
        ] {
            order.put(thread, at, resume(at), Wait::Nothing, None);
        }
        let mut seen = Vec::new();
        while let Some((key, _)) = order.take_first() {
            let Thread { process, number } = key.thread;
            seen.push((key.at, process.host, process.number, number));
        }
        let wanted = [
            (4, 9, 9, 9),
            (5, 0, 2, 0),
            (5, 0, 2, 1),
            (5, 0, 4, 0),
            (5, 1, 3, 0),
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn posts_come_before_the_call_behind_them() {
        let mut order = Order::default();
        let steps = VecDeque::from([
            (3, Step::Post(vec![1])),
            (6, Step::Post(vec![2])),
            (9, Step::Call(vec![3])),
        ]);
        order.put(thread(0, 0, 0), 9, steps, Wait::Nothing, None);
        order.put(thread(1, 1, 0), 5, resume(5), Wait::Nothing, None);
        let mut at = Vec::new();
        while let Some((key, _)) = order.take_first() {
            at.push(key.at);
        }
        assert_eq!(at, [3, 5, 6, 9]);
    }

    #[test]
    fn an_answer_ends_a_wait_and_its_deadline() {
        let mut order = Order::default();
        let waiting = thread(0, 0, 0);
        order.put(waiting, 10, VecDeque::new(), Wait::World, Some(50));
        assert_eq!(order.first().map(|key| key.at), Some(50));
        assert!(order.answer(waiting, 30, vec![1]));
        assert!(!order.answer(waiting, 31, vec![2]));
        let (key, due) = order.take_first().unwrap();
        assert!(key.at == 30 && matches!(due, Due::Step(Step::Answer(_))));
        assert!(order.first().is_none());
        order.put(waiting, 40, VecDeque::new(), Wait::World, Some(5));
        let (key, due) = order.take_first().unwrap();
        assert!(key.at == 40 && matches!(due, Due::Expired(Wait::World)));
    }

    #[test]
    fn who_waits_for_something_real_tries_once_a_round() {
        let mut order = Order::default();
        let (first, second) = (thread(0, 0, 0), thread(1, 1, 0));
        order.put(second, 7, VecDeque::new(), order.tried(), None);
        order.put(first, 8, VecDeque::new(), order.tried(), None);
        assert!(order.to_try(None, false).is_none());
        order.next_round();
        let key = order.to_try(None, false).unwrap();
        assert_eq!(key.thread, second);
        assert_eq!(order.take_foreign(second), Some((7, None)));
        order.put(second, 7, VecDeque::new(), order.tried(), None);
        assert_eq!(order.to_try(None, false).unwrap().thread, first);
        let again = order.to_try(None, true).unwrap();
        assert_eq!(again.thread, second);
        assert_eq!(order.to_try(Some(again), true).unwrap().thread, first);
    }
}
