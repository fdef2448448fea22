//! Goal: in steady state a message costs no allocation, whatever it passes. Method: count those of
//! a run and of a longer one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use viaduct_engine::Time;
use viaduct_lanai::{Config, Server, contention};

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
fn a_longer_run_allocates_no_more() {
    let run = |milliseconds| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let (warm_up, window) = (Time::ZERO, Time::from_milliseconds(milliseconds));
        // Nine clients and eight frames: remaps and refusals are part of it.
        let config = Config::am_myrinet(10, 8);
        let result = contention(config, Server::MultiThread, 9, 16, warm_up, window);
        assert!(result.window.remaps > 0 && result.window.refusals > 0);
        let requests = result.messages_s * window.seconds_f64();
        (ALLOCATIONS.load(Ordering::Relaxed) - before, requests)
    };
    let (short, longer) = (run(200), run(600));
    let messages = longer.1 - short.1;
    assert!(messages > 30_000.0);
    // Queues that grow once to a new depth may still come.
    let more = longer.0.saturating_sub(short.0);
    assert!(more < 100, "{more} allocations for {messages} messages");
}
