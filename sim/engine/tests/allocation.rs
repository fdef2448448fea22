//! Goal: in steady state an event costs no allocation. Method: count them.

use allocation_counter::measure;
use viaduct_engine::{EventQueue, Stream, StreamKey, Time};

#[test]
fn a_steady_queue_does_not_allocate() {
    const EVENTS: u64 = 1_000_000;
    let mut queue = EventQueue::new();
    let lane = queue.add_lane();
    let mut stream = Stream::new(StreamKey {
        seed: 1,
        purpose: 0,
        entity: 0,
    });
    let mut delay = || Time::from_picoseconds(stream.below(1 << 30));
    let mut timers: Vec<_> = (0..1000)
        .map(|timer| queue.schedule(delay(), timer))
        .collect();
    let mut turn = || {
        let Some((now, timer)) = queue.pop() else {
            panic!("timers never end")
        };
        if timer == u32::MAX {
            return;
        }
        timers[timer as usize] = queue.schedule(now + delay(), timer);
        // A fluid link does this all the time: another event moves, earlier or later.
        let other = timers[(timer as usize + 7) % timers.len()];
        queue.reschedule(other, now + delay());
        queue.schedule_in_lane(lane, now + Time::from_nanoseconds(500), u32::MAX);
    };
    (0..EVENTS).for_each(|_| turn());
    let allocations = measure(|| (0..EVENTS).for_each(|_| turn())).count_total;
    // A bucket that is used for the first time, or holds more than ever, still gets its memory.
    assert!(
        allocations < EVENTS / 1_000,
        "{allocations} allocations in {EVENTS} events"
    );
}
