//! The queue against an obvious one: a sorted map of (time, sequence).

use std::collections::BTreeMap;

use proptest::prelude::*;
use viaduct_engine::{EventId, EventQueue, Lane, Time};

#[derive(Clone, Debug)]
enum Operation {
    Schedule { delay: u64 },
    ScheduleInLane { lane: usize, delay: u64 },
    Reschedule { pick: usize, delay: u64 },
    Cancel { pick: usize },
    Pop { count: usize },
    Peek,
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX / 4),
        0_u64..4,
        0_u64..200,
        0_u64..100_000,
        (0_u32..40).prop_map(|bits| 1 << bits),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => delay().prop_map(|delay| Operation::Schedule { delay }),
        2 => (0_usize..3, delay())
            .prop_map(|(lane, delay)| Operation::ScheduleInLane { lane, delay }),
        3 => (any::<usize>(), delay())
            .prop_map(|(pick, delay)| Operation::Reschedule { pick, delay }),
        1 => any::<usize>().prop_map(|pick| Operation::Cancel { pick }),
        3 => (1_usize..20).prop_map(|count| Operation::Pop { count }),
        1 => Just(Operation::Peek),
    ]
}

/// Does what the queue should, slowly.
#[derive(Default)]
struct Reference {
    now: u64,
    sequence: u64,
    events: BTreeMap<(u64, u64), u32>,
}

impl Reference {
    fn schedule(&mut self, delay: u64, event: u32) -> (u64, u64) {
        self.sequence += 1;
        let key = (
            self.now.saturating_add(delay).min(u64::MAX - 1),
            self.sequence,
        );
        self.events.insert(key, event);
        key
    }

    fn pop(&mut self) -> Option<(u64, u32)> {
        let ((time, _), event) = self.events.pop_first()?;
        self.now = time;
        Some((time, event))
    }
}

struct Pair {
    queue: EventQueue<u32>,
    lanes: Vec<Lane>,
    reference: Reference,
    /// Every event that can be moved: its id, and where the reference keeps it.
    known: Vec<(EventId, (u64, u64), u32)>,
    next_event: u32,
}

impl Pair {
    fn new() -> Self {
        let mut queue = EventQueue::new();
        let lanes = (0..3).map(|_| queue.add_lane()).collect();
        Self {
            queue,
            lanes,
            reference: Reference::default(),
            known: Vec::new(),
            next_event: 0,
        }
    }

    fn apply(&mut self, operation: &Operation) {
        let at = |delay: u64| {
            Time::from_picoseconds(self.queue.now().picoseconds().saturating_add(delay))
        };
        match *operation {
            Operation::Schedule { delay } => {
                let id = self.queue.schedule(at(delay), self.next_event);
                let key = self.reference.schedule(delay, self.next_event);
                self.known.push((id, key, self.next_event));
                self.next_event += 1;
            }
            Operation::ScheduleInLane { lane, delay } => {
                self.queue
                    .schedule_in_lane(self.lanes[lane], at(delay), self.next_event);
                self.reference.schedule(delay, self.next_event);
                self.next_event += 1;
            }
            Operation::Reschedule { pick, delay } if !self.known.is_empty() => {
                let pick = pick % self.known.len();
                let (id, key, event) = self.known[pick];
                let moved = self.queue.reschedule(id, at(delay));
                assert_eq!(moved, self.reference.events.remove(&key).is_some());
                if moved {
                    self.known[pick].1 = self.reference.schedule(delay, event);
                }
            }
            Operation::Cancel { pick } if !self.known.is_empty() => {
                let (id, key, _) = self.known[pick % self.known.len()];
                assert_eq!(
                    self.queue.cancel(id),
                    self.reference.events.remove(&key).is_some()
                );
            }
            Operation::Pop { count } => {
                for _ in 0..count {
                    let popped = self
                        .queue
                        .pop()
                        .map(|(time, event)| (time.picoseconds(), event));
                    assert_eq!(popped, self.reference.pop());
                }
            }
            Operation::Peek => {
                let next = self.reference.events.keys().next().map(|key| key.0);
                assert_eq!(self.queue.next_time().map(Time::picoseconds), next);
            }
            Operation::Reschedule { .. } | Operation::Cancel { .. } => {}
        }
        assert_eq!(self.queue.pending(), self.reference.events.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn events_fire_in_order_of_time_and_sequence(
        operations in prop::collection::vec(operation(), 1..400)
    ) {
        let mut pair = Pair::new();
        for operation in &operations {
            pair.apply(operation);
        }
        pair.apply(&Operation::Pop { count: operations.len() + 1 });
    }
}

#[test]
fn many_moves_leave_no_stale_keys_behind() {
    // Goal: memory stays bounded however often an event is moved to an earlier time and back.
    let mut queue = EventQueue::new();
    let id = queue.schedule(Time::from_picoseconds(2_000_000), ());
    for round in 0..200_000_u64 {
        assert!(queue.reschedule(id, Time::from_picoseconds(1_999_999 - round)));
        assert!(queue.reschedule(id, Time::from_picoseconds(2_000_000)));
    }
    assert!(
        queue.state_bytes() < 200_000,
        "{} bytes",
        queue.state_bytes()
    );
    assert_eq!(queue.pop(), Some((Time::from_picoseconds(2_000_000), ())));
    assert_eq!(queue.pop(), None);
}

#[test]
fn equal_times_fire_in_the_order_of_scheduling() {
    let mut queue = EventQueue::new();
    for event in 0..10_000 {
        queue.schedule(Time::from_nanoseconds(5), event);
    }
    let fired: Vec<u32> = core::iter::from_fn(|| queue.pop())
        .map(|(_, event)| event)
        .collect();
    assert!(fired.is_sorted());
    assert_eq!(fired.len(), 10_000);
}

#[test]
fn an_event_in_the_past_fires_now() {
    let mut queue = EventQueue::new();
    queue.schedule(Time::from_nanoseconds(5), 'a');
    queue.pop();
    queue.schedule(Time::from_nanoseconds(1), 'b');
    assert_eq!(queue.pop(), Some((Time::from_nanoseconds(5), 'b')));
}

#[test]
fn an_event_is_spared_where_nothing_else_is_first_and_it_is_allowed() {
    let at = Time::from_nanoseconds;
    let mut queue = EventQueue::new();
    queue.schedule(at(5), 'a');
    assert!(!queue.spare(at(1)), "nobody has allowed it");
    queue.allow_spare(at(9), 2);
    assert!(queue.spare(at(4)));
    assert_eq!((queue.now(), queue.fired()), (at(4), 1));
    // It counts among those that were pending at once, as it would have been.
    assert_eq!((queue.pending(), queue.pending_max()), (1, 2));
    assert!(!queue.spare(at(5)), "another is at that time");
    assert!(!queue.spare(at(6)), "another is before");
    assert_eq!(queue.pop(), Some((at(5), 'a')));
    assert!(!queue.spare(at(6)), "two have fired");
    queue.allow_spare(at(9), 4);
    assert!(!queue.spare(at(10)), "that is too late");
    assert!(queue.spare(at(9)));
    assert_eq!((queue.now(), queue.fired()), (at(9), 3));
}
