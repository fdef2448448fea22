//! Loops of a thread that looks into queues until something is there.
//!
//! Each look is a call that takes a switch to this process and one back. A thread that has looked
//! often in vain with nothing between is taken to be in a loop: an answer then stands for several
//! looks, and the thread is told of a completion as early as by that many calls. If its loop is
//! not over when the answers are, it has looked longer than it would have. A loop may look into
//! some queues in turn: the answer to a look into one of them then stands for looks into the others
//! as well. No such answer is given while something is in one of those. A loop may read a clock
//! between two looks: answers to it stand for fewer looks, since it may end at some time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use viaduct_engine::Time;
use viaduct_programs::verbs::Key;
use viaduct_provider::via::Queue;
use viaduct_provider::{CompletionQueueHandle, ViHandle};

/// Looks in vain into each queue of a loop after which a thread is taken to be in it. Each answer
/// then stands for twice as many as the one before.
const LOOKS_ALONE: u32 = 16;

/// The same at a queue with which the last such loop began and ended with a completion: the answer
/// that follows stands for twice as many looks as that loop took.
const LOOKS_ALONE_KNOWN: u32 = 1;

/// Looks that an answer stands for at most: a program's loop may end by something else.
const LOOKS_AT_ONCE_MAX: u32 = 1 << 11;

/// The same for a loop that does something between two looks, such as reading a clock.
const LOOKS_AT_ONCE_MAX_TIMED: u32 = 1 << 8;

/// What a loop does between two looks takes no longer: less than a call of the system.
const GAP_MAX: Time = Time::from_picoseconds(150_000);

/// Queues that a loop looks into at most.
const QUEUES_MAX: usize = 6;

/// Where a thread looks.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Place {
    /// Into a completion queue of verbs.
    Completions(Key),
    /// Into one of VIA.
    Entries(CompletionQueueHandle),
    /// At the sends of a VI.
    Sends(ViHandle),
    /// At its receives.
    Receives(ViHandle),
}

impl Place {
    pub(crate) const fn of_vi(vi: ViHandle, queue: Queue) -> Self {
        match queue {
            Queue::Send => Self::Sends(vi),
            Queue::Receive => Self::Receives(vi),
        }
    }

    /// The completion queue of verbs that it is.
    pub(crate) const fn completions(self) -> Option<Key> {
        match self {
            Self::Completions(key) => Some(key),
            _ => None,
        }
    }
}

/// What a thread has looked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looks(Arc<Mutex<Thread>>);

#[derive(Debug, Default)]
struct Thread {
    spell: Option<Spell>,
    /// Queues with which the last loop began and ended with a completion, and how long it took.
    known: BTreeMap<Place, Time>,
}

/// Looks in vain into queues in turn, with the same pauses each time.
#[derive(Clone, Debug)]
struct Spell {
    /// In the order in which they were looked into, and how long it took to begin with each look,
    /// which is known of the first when `is_closed`: when it was looked into again.
    queues: Vec<(Place, Time)>,
    is_closed: bool,
    /// Which of them is looked into next, if it is closed.
    place: usize,
    began: Time,
    /// When the first look was over, and the last.
    first: Time,
    until: Time,
    answers: u32,
}

impl Looks {
    fn lock(&self) -> MutexGuard<'_, Thread> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many looks the one stands for that begins at `now`, and into which queues of verbs
    /// beside its own.
    pub(crate) fn next(&self, queue: Place, now: Time) -> (u64, Vec<Place>) {
        let mut thread = self.lock();
        let is_other = |spell: &Spell| spell.queues[0].0.completions().is_none();
        if thread.spell.as_ref().is_some_and(is_other) {
            thread.interrupt();
        }
        thread.next(queue, now)
    }

    /// As [`Looks::next`], of a loop that looks at one place with nothing between.
    pub(crate) fn next_of_one(&self, queue: Place, now: Time) -> u64 {
        let mut thread = self.lock();
        let goes_on = |spell: &Spell| spell.until == now && spell.is_at(queue);
        if !thread.spell.as_ref().is_some_and(goes_on) {
            thread.interrupt();
        }
        thread.next(queue, now).0
    }

    /// The thread does something else.
    pub(crate) fn interrupt(&self) {
        self.lock().interrupt();
    }

    /// What began at `now` was over at `until`, with a completion or in vain.
    pub(crate) fn note(&self, queue: Place, now: Time, until: Time, is_found: bool) {
        self.lock().note(queue, now, until, is_found);
    }
}

impl Spell {
    /// Whether a look into this queue at `now` goes on with the loop; it is then the next.
    fn goes_on(&mut self, queue: Place, now: Time) -> bool {
        let gap = now.saturating_sub(self.until);
        if now < self.until || gap > GAP_MAX {
            return false;
        }
        if self.is_closed {
            return self.queues[self.place] == (queue, gap);
        }
        if self.queues[0].0 == queue {
            self.queues[0].1 = gap;
            (self.is_closed, self.place) = (true, 0);
            return true;
        }
        let mut known = self.queues.iter();
        let is_new = !known.any(|(known, _)| *known == queue) && self.queues.len() < QUEUES_MAX;
        if is_new {
            self.queues.push((queue, gap));
        }
        is_new
    }

    /// Whether it looks at this place alone.
    fn is_at(&self, queue: Place) -> bool {
        self.queues.len() == 1 && self.queues[0].0 == queue
    }

    /// Whether it does something between looks.
    fn is_timed(&self) -> bool {
        self.queues.iter().any(|(_, gap)| *gap > Time::ZERO)
    }

    /// The queues beside the next, in the order in which they come.
    fn beside(&self) -> Vec<Place> {
        let (before, from) = self.queues.split_at(self.place);
        let others = from[1..].iter().chain(before);
        others.map(|(queue, _)| *queue).collect()
    }
}

impl Thread {
    fn next(&mut self, queue: Place, now: Time) -> (u64, Vec<Place>) {
        const ALONE: (u64, Vec<Place>) = (1, Vec::new());
        let Some(spell) = &mut self.spell else {
            return ALONE;
        };
        if !spell.goes_on(queue, now) {
            self.interrupt();
            return ALONE;
        }
        if !spell.is_closed {
            return ALONE;
        }
        let queues = spell.queues.len() as u32;
        let known = self.known.get(&spell.queues[0].0);
        let alone = queues * known.map_or(LOOKS_ALONE, |_| LOOKS_ALONE_KNOWN);
        if spell.answers < alone {
            return ALONE;
        }
        let look = (spell.first - spell.began).picoseconds().max(1);
        let usual = known.map_or(1, |length| 2 * length.picoseconds().div_ceil(look));
        let doublings = (spell.answers - alone).min(LOOKS_AT_ONCE_MAX.ilog2());
        let looks = usual.max(2).saturating_mul(1 << doublings);
        let most = match spell.is_timed() {
            true => LOOKS_AT_ONCE_MAX_TIMED,
            false => LOOKS_AT_ONCE_MAX,
        };
        (looks.min(most.into()), spell.beside())
    }

    fn interrupt(&mut self) {
        let Some(spell) = self.spell.take() else {
            return;
        };
        // It was not in a loop when it looked so often.
        if spell.answers > LOOKS_ALONE_KNOWN * spell.queues.len() as u32 {
            self.known.remove(&spell.queues[0].0);
        }
    }

    fn note(&mut self, queue: Place, now: Time, until: Time, is_found: bool) {
        let spell = self.spell.take();
        if is_found {
            let length = spell.map(|spell| (spell.queues[0].0, until - spell.began));
            self.known.extend(length);
            return;
        }
        let mut spell = spell.unwrap_or(Spell {
            queues: vec![(queue, Time::ZERO)],
            is_closed: false,
            place: 0,
            began: now,
            first: until,
            until,
            answers: 0,
        });
        if spell.is_closed {
            spell.place = (spell.place + 1) % spell.queues.len();
        }
        spell.until = until;
        spell.answers = spell.answers.saturating_add(1);
        self.spell = Some(spell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that looks, each look taking 10.
    #[derive(Default)]
    struct Looking {
        thread: Thread,
        now: u64,
    }

    impl Looking {
        /// Looks until there is something after so long, or so often: looks that answers stood for.
        fn look(&mut self, after: u64, answers: usize) -> Vec<u64> {
            let queue = Place::Completions(Key::from_bits(1));
            let end = self.now + after;
            let mut stood_for = Vec::new();
            let mut is_found = false;
            while !is_found && stood_for.len() < answers {
                let now = Time::from_picoseconds(self.now);
                let (looks, beside) = self.thread.next(queue, now);
                assert!(beside.is_empty());
                stood_for.push(looks);
                is_found = self.now + looks * 10 > end;
                self.now = (self.now + looks * 10).min(end.max(self.now));
                let until = Time::from_picoseconds(self.now);
                self.thread.note(queue, now, until, is_found);
            }
            self.thread.interrupt();
            stood_for
        }
    }

    #[test]
    fn a_loop_is_known_by_its_looks_in_vain() {
        let mut wanted = vec![1; 16];
        wanted.extend((1..=11).map(|doublings| 1 << doublings));
        wanted.push(1 << 11);
        assert_eq!(Looking::default().look(u64::MAX / 2, 28), wanted);
    }

    #[test]
    fn a_loop_that_found_something_is_known_at_its_second_look() {
        let mut looking = Looking::default();
        assert_eq!(looking.look(300, 99).len(), 16 + 4);
        assert_eq!(looking.look(295, 99), [1, 60]);
        // A longer one costs one answer more, and what is there at once one.
        assert_eq!(looking.look(900, 99), [1, 60, 120]);
        assert_eq!(looking.look(0, 99), [1]);
        assert_eq!(looking.look(35, 99), [1, 180]);
    }

    /// Looks into queues in turn, each look taking 10: queues that answers stood for beside it, and
    /// how many looks.
    fn in_turn(thread: &mut Thread, queues: &[u64], answers: usize) -> Vec<(u64, usize)> {
        let mut now = 0;
        let mut stood_for = Vec::new();
        for queue in queues.iter().cycle().take(answers) {
            let queue = Place::Completions(Key::from_bits(*queue));
            let at = Time::from_picoseconds(now);
            let (looks, beside) = thread.next(queue, at);
            assert!(!beside.contains(&queue));
            stood_for.push((looks, beside.len()));
            now += looks * 10;
            thread.note(queue, at, Time::from_picoseconds(now), false);
        }
        stood_for
    }

    #[test]
    fn a_loop_over_some_queues_is_known_when_each_was_looked_into_as_often() {
        for count in 1..=QUEUES_MAX {
            let queues: Vec<u64> = (1..=count as u64).collect();
            let alone = count * LOOKS_ALONE as usize;
            let stood_for = in_turn(&mut Thread::default(), &queues, alone + 2);
            assert!(stood_for[..alone].iter().all(|it| *it == (1, 0)));
            assert_eq!(stood_for[alone..], [(2, count - 1), (4, count - 1)]);
        }
        // More, and such as are not looked into in turn, are looked into one by one.
        for queues in [&[1, 2, 3, 4, 5, 6, 7][..], &[1, 2, 1, 3]] {
            let stood_for = in_turn(&mut Thread::default(), queues, 200);
            assert!(stood_for.iter().all(|it| *it == (1, 0)), "{stood_for:?}");
        }
    }

    #[test]
    fn a_loop_may_read_a_clock_between_its_looks() {
        // So long before each look, in turn, and how many looks answers stand for at last.
        let last = |gaps: &[u64]| {
            let (mut thread, mut now, mut last) = (Thread::default(), 0, 0);
            for (number, gap) in gaps.iter().cycle().take(200).enumerate() {
                let queue = Place::Completions(Key::from_bits(number as u64 % 2 + 1));
                now += gap;
                let at = Time::from_picoseconds(now);
                let looks = thread.next(queue, at).0;
                now += looks * 10;
                thread.note(queue, at, Time::from_picoseconds(now), false);
                last = looks;
            }
            last
        };
        assert_eq!(last(&[0, 0]), u64::from(LOOKS_AT_ONCE_MAX));
        assert_eq!(last(&[25_000, 0]), u64::from(LOOKS_AT_ONCE_MAX_TIMED));
        assert_eq!(last(&[0, 10_000]), u64::from(LOOKS_AT_ONCE_MAX_TIMED));
        // Another time between, or a call of the system.
        assert_eq!(last(&[25_000, 0, 30_000, 0]), 1);
        assert_eq!(last(&[200_000, 0]), 1);
    }

    #[test]
    fn a_loop_over_two_queues_that_found_something_is_known_after_a_look_into_each() {
        let mut thread = Thread::default();
        in_turn(&mut thread, &[1, 2], 40);
        let now = thread.spell.as_ref().unwrap().until;
        let place = |number| Place::Completions(Key::from_bits(number));
        let (first, second) = (place(1), place(2));
        thread.next(first, now);
        thread.note(first, now, now, true);
        let stood_for = in_turn(&mut thread, &[1, 2], 3);
        assert_eq!(stood_for[..2], [(1, 0), (1, 0)]);
        assert!(stood_for[2].0 > 32 && stood_for[2].1 == 1, "{stood_for:?}");
        // Something else, and the loop is not known any more.
        thread.next(second, Time::from_picoseconds(u64::MAX / 2));
        assert_eq!(in_turn(&mut thread, &[1, 2], 3)[2], (1, 0));
    }

    #[test]
    fn a_thread_that_went_on_with_nothing_is_not_taken_to_be_in_a_loop_again() {
        let mut looking = Looking::default();
        looking.look(300, 99);
        assert_eq!(looking.look(1000, 1), [1]);
        assert_eq!(looking.look(1000, 2), [1, 60]);
        assert_eq!(
            looking.look(300, 99)[..17],
            [[1; 16].as_slice(), &[2]].concat()
        );
    }
}
