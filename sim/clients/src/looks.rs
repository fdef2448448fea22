//! Loops of a thread that looks into a queue until something is there.
//!
//! Each look is a call that takes a switch to this process and one back. A thread that has looked
//! often in vain with nothing between is taken to be in a loop: an answer then stands for several
//! looks, and the thread is told of a completion as early as by that many calls. If its loop is
//! not over when the answers are, it has looked longer than it would have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use viaduct_engine::Time;
use viaduct_programs::verbs::Key;
use viaduct_provider::via::Queue;
use viaduct_provider::{CompletionQueueHandle, ViHandle};

/// Looks in vain after which a thread is taken to be in a loop. Each answer then stands for twice
/// as many as the one before.
const LOOKS_ALONE: u32 = 16;

/// The same at a queue where the last such loop ended with a completion: the answer that follows
/// stands for twice as many looks as that loop took.
const LOOKS_ALONE_KNOWN: u32 = 1;

/// Looks that an answer stands for at most: a program's loop may end by something else.
const LOOKS_AT_ONCE_MAX: u32 = 1 << 11;

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
}

/// What a thread has looked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looks(Arc<Mutex<Thread>>);

#[derive(Debug, Default)]
struct Thread {
    spell: Option<Spell>,
    /// Queues where the last loop ended with a completion, and how long it took.
    known: BTreeMap<Place, Time>,
}

/// Looks into one queue in vain, with nothing between.
#[derive(Clone, Copy, Debug)]
struct Spell {
    queue: Place,
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

    /// How many looks the one stands for that begins at `now`.
    pub(crate) fn next(&self, queue: Place, now: Time) -> u64 {
        self.lock().next(queue, now)
    }

    /// What began at `now` was over at `until`, with a completion or in vain.
    pub(crate) fn note(&self, queue: Place, now: Time, until: Time, is_found: bool) {
        self.lock().note(queue, now, until, is_found);
    }
}

impl Thread {
    fn next(&mut self, queue: Place, now: Time) -> u64 {
        let Some(spell) = self.spell else { return 1 };
        if spell.queue != queue || spell.until != now {
            self.spell = None;
            // It was not in a loop when it looked so often.
            if spell.answers > LOOKS_ALONE_KNOWN {
                self.known.remove(&spell.queue);
            }
            return 1;
        }
        let known = self.known.get(&queue);
        let alone = known.map_or(LOOKS_ALONE, |_| LOOKS_ALONE_KNOWN);
        if spell.answers < alone {
            return 1;
        }
        let look = (spell.first - spell.began).picoseconds().max(1);
        let usual = known.map_or(1, |length| 2 * length.picoseconds().div_ceil(look));
        let doublings = (spell.answers - alone).min(LOOKS_AT_ONCE_MAX.ilog2());
        let looks = usual.max(2).saturating_mul(1 << doublings);
        looks.min(LOOKS_AT_ONCE_MAX.into())
    }

    fn note(&mut self, queue: Place, now: Time, until: Time, is_found: bool) {
        let spell = self.spell.take();
        if is_found {
            let length = spell.map(|spell| until - spell.began);
            self.known.extend(length.map(|length| (queue, length)));
            return;
        }
        let spell = spell.unwrap_or(Spell {
            queue,
            began: now,
            first: until,
            until,
            answers: 0,
        });
        self.spell = Some(Spell {
            until,
            answers: spell.answers.saturating_add(1),
            ..spell
        });
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
                let looks = self.thread.next(queue, now);
                stood_for.push(looks);
                is_found = self.now + looks * 10 > end;
                self.now = (self.now + looks * 10).min(end.max(self.now));
                let until = Time::from_picoseconds(self.now);
                self.thread.note(queue, now, until, is_found);
            }
            // Something else.
            self.now += 1;
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
