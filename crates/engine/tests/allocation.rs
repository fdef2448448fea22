//! Goal: in steady state an event costs no allocation. Method: count them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use viaduct_engine::{EventQueue, Stream, StreamKey, Time};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting has no other effect.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above, and `pointer` came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
    let mut before = 0;
    for event in 0..2 * EVENTS {
        if event == EVENTS {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        let Some((now, timer)) = queue.pop() else {
            panic!("timers never end")
        };
        if timer == u32::MAX {
            continue;
        }
        timers[timer as usize] = queue.schedule(now + delay(), timer);
        // A fluid link does this all the time: another event moves, earlier or later.
        let other = timers[(timer as usize + 7) % timers.len()];
        queue.reschedule(other, now + delay());
        queue.schedule_in_lane(lane, now + Time::from_nanoseconds(500), u32::MAX);
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    // A bucket that is used for the first time, or holds more than ever, still gets its memory.
    assert!(
        allocations < EVENTS / 1_000,
        "{allocations} allocations in {EVENTS} events"
    );
}
