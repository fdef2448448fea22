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
    Foreign { what: Real, tried: u64 },
    /// What is written into memory.
    Memory,
}

/// What may end a wait for something real.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Real {
    /// Anybody who has had the turn.
    Anybody,
    /// A thread of the same process that has had the turn.
    Process,
    /// What [`Order::has_come`] is told.
    Descriptors,
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
    /// Those of them that anybody's turn may end the wait of, and those that their own process's.
    of_anybody: BTreeSet<Key>,
    of_process: BTreeSet<(Process, Key)>,
    /// Those that are to try again.
    due: BTreeSet<Key>,
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
        let until = pending.until.map(|until| until.max(pending.clock));
        pending.key = first.or(until).map(|at| Key { at, thread });
        if let Wait::Foreign { what, tried } = pending.wait
            && first.is_none()
        {
            let at = pending.clock;
            let key = Key { at, thread };
            self.foreign.insert(key);
            match what {
                Real::Anybody if tried != self.round => self.due.extend([key]),
                Real::Anybody => self.of_anybody.extend([key]),
                Real::Process => self.of_process.extend([(thread.process, key)]),
                Real::Descriptors => {}
            }
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
        let key = Key {
            at: pending.clock,
            thread,
        };
        if self.foreign.remove(&key) {
            self.of_anybody.remove(&key);
            self.of_process.remove(&(thread.process, key));
            self.due.remove(&key);
        }
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

    /// Somebody has had the turn, a thread of a process or none of one: what others wait for may be
    /// there.
    pub(super) fn next_round(&mut self, of: Option<Process>) {
        self.round += 1;
        self.due.append(&mut self.of_anybody);
        let Some(process) = of else { return };
        while let Some(waiting) = self
            .of_process
            .iter()
            .find(|(other, _)| *other == process)
            .copied()
        {
            self.of_process.remove(&waiting);
            self.due.insert(waiting.1);
        }
    }

    /// Counts [`Order::next_round`].
    pub(super) const fn round(&self) -> u64 {
        self.round
    }

    /// Marks what a thread now waits for as tried.
    pub(super) const fn tried(&self, what: Real) -> Wait {
        Wait::Foreign {
            what,
            tried: self.round,
        }
    }

    /// A descriptor has something at which a thread waits: it is to try, unless it has in vain
    /// since somebody had the turn.
    pub(super) fn has_come(&mut self, thread: Thread) {
        let Some(pending) = self.threads.get(&thread) else {
            return;
        };
        let at = pending.clock;
        let key = Key { at, thread };
        let is_new = pending.wait != self.tried(Real::Descriptors);
        if is_new && self.foreign.contains(&key) {
            self.due.insert(key);
        }
    }

    /// The first of those that wait for something real and are to try.
    pub(super) fn to_try(&self) -> Option<Key> {
        self.due.first().copied()
    }

    /// The first behind `after` of those that nothing tells when to try.
    pub(super) fn to_try_blindly(&self, after: Option<Key>) -> Option<Key> {
        let mut keys = self.foreign.iter().copied();
        keys.find(|key| {
            let pending = self.threads.get(&key.thread);
            let is_told = pending.is_some_and(
                |it| matches!(it.wait, Wait::Foreign { what, .. } if what != Real::Anybody),
            );
            !is_told && after.is_none_or(|after| *key > after)
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

    /// Whether a thread of a host goes on at a time that is known, or by what happens in the world.
    pub(super) fn has_others_of(&self, host: u32) -> bool {
        let first = Thread {
            process: Process {
                host,
                number: 0,
                pid: i32::MIN,
            },
            number: 0,
        };
        let behind = self.threads.range(first..);
        let mut of_host = behind.take_while(|(thread, _)| thread.process.host == host);
        of_host.any(|(_, pending)| pending.key.is_some() || pending.wait == Wait::World)
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

    /// The handler of a signal has run in a thread that waits, at `at`: it wakes, tries again or
    /// looks again. One that waits for an answer of the world goes on with that.
    pub(super) fn interrupt(&mut self, thread: Thread, at: u64) {
        let Some(mut pending) = self.threads.remove(&thread) else {
            return;
        };
        self.leave(thread, &pending);
        let at = at.max(pending.clock);
        match (pending.wait, pending.steps.back_mut()) {
            (Wait::Nothing, Some((when, Step::Resume))) => *when = at.min(*when),
            (Wait::Memory, _) => {
                pending.wait = Wait::Nothing;
                pending.steps.push_back((at, Step::Resume));
            }
            _ => {}
        }
        let wait = pending.wait;
        let (clock, tries) = (pending.clock, pending.steps.is_empty());
        self.threads.insert(thread, pending);
        self.enter(thread);
        if matches!(wait, Wait::Foreign { .. }) && tries {
            self.due.insert(Key { at: clock, thread });
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
    fn others_of_a_host_go_on_at_a_time_or_by_the_world() {
        let mut order = Order::default();
        let (one, other) = (thread(1, 1, 0), thread(1, 2, 0));
        order.put(thread(0, 0, 0), 5, resume(5), Wait::Nothing, None);
        order.put(thread(2, 3, 0), 5, resume(5), Wait::Nothing, None);
        assert!(!order.has_others_of(1) && order.has_others_of(0));
        // Who waits for something real goes on when somebody has done something.
        order.put(one, 5, VecDeque::new(), order.tried(Real::Process), None);
        assert!(!order.has_others_of(1));
        for (wait, until) in [(Wait::World, None), (order.tried(Real::Process), Some(9))] {
            order.put(other, 5, VecDeque::new(), wait, until);
            assert!(order.has_others_of(1), "{wait:?}");
        }
        order.remove(other);
        assert!(!order.has_others_of(1));
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
        let real = Real::Anybody;
        order.put(second, 7, VecDeque::new(), order.tried(real), None);
        order.put(first, 8, VecDeque::new(), order.tried(real), None);
        assert!(order.to_try().is_none());
        order.next_round(None);
        let key = order.to_try().unwrap();
        assert_eq!(key.thread, second);
        assert_eq!(order.take_foreign(second), Some((7, None)));
        order.put(second, 7, VecDeque::new(), order.tried(real), None);
        assert_eq!(order.to_try().unwrap().thread, first);
        let again = order.to_try_blindly(None).unwrap();
        assert_eq!(again.thread, second);
        assert_eq!(order.to_try_blindly(Some(again)).unwrap().thread, first);
    }

    #[test]
    fn a_signal_wakes_who_sleeps_and_has_others_try_again() {
        let mut order = Order::default();
        let (asleep, at_socket, looking) = (thread(0, 0, 0), thread(1, 1, 0), thread(2, 2, 0));
        order.put(asleep, 10, resume(900), Wait::Nothing, None);
        order.interrupt(asleep, 50);
        assert_eq!(order.first().map(|key| key.at), Some(50));
        // Not before its own clock, and not after the end of its sleep.
        order.interrupt(asleep, 5);
        assert_eq!(order.first().map(|key| key.at), Some(10));
        order.interrupt(asleep, 5000);
        let (key, due) = order.take_first().unwrap();
        assert!(key.at == 10 && matches!(due, Due::Step(Step::Resume)));
        order.put(
            at_socket,
            20,
            VecDeque::new(),
            order.tried(Real::Descriptors),
            Some(800),
        );
        assert!(order.to_try().is_none());
        order.interrupt(at_socket, 60);
        assert_eq!(order.to_try().unwrap().thread, at_socket);
        assert_eq!(order.take_foreign(at_socket), Some((20, Some(800))));
        order.put(looking, 30, VecDeque::new(), Wait::Memory, None);
        order.interrupt(looking, 70);
        assert_eq!(order.first().map(|key| key.at), Some(70));
        assert!(order.looking(None).is_none());
        order.remove(looking);
        order.put(asleep, 10, VecDeque::new(), Wait::World, None);
        order.interrupt(asleep, 90);
        assert!(order.first().is_none() && order.answer(asleep, 95, Vec::new()));
    }

    #[test]
    fn who_waits_for_its_own_process_or_a_descriptor_tries_when_that_may_be_there() {
        let mut order = Order::default();
        let (at_lock, at_socket) = (thread(0, 0, 0), thread(1, 1, 0));
        let waits = |order: &mut Order, thread, what| {
            order.put(thread, 7, VecDeque::new(), order.tried(what), None);
        };
        waits(&mut order, at_lock, Real::Process);
        waits(&mut order, at_socket, Real::Descriptors);
        order.next_round(Some(at_socket.process));
        order.next_round(None);
        assert!(order.to_try().is_none() && order.to_try_blindly(None).is_none());
        order.next_round(Some(at_lock.process));
        assert_eq!(order.to_try().unwrap().thread, at_lock);
        order.take_foreign(at_lock);
        order.has_come(at_socket);
        assert_eq!(order.to_try().unwrap().thread, at_socket);
        // One that has just tried in vain does so again when somebody has had the turn.
        order.take_foreign(at_socket);
        waits(&mut order, at_socket, Real::Descriptors);
        order.has_come(at_socket);
        assert!(order.to_try().is_none());
        order.next_round(None);
        order.has_come(at_socket);
        order.remove(at_socket);
        assert!(order.to_try().is_none());
    }
}
