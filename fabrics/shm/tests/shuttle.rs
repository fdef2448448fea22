//! Two VIs, a completion queue and the threads around them, in random orders with a seed.
//!
//! The lock and the slots are the library's files; the completion queue and its marks are modelled
//! here as `completion_queue` and `vi` do it, since these call the system. Every access is
//! sequentially consistent, and a sleeper never wakes by itself: a lost wake-up is a hang, which
//! shuttle reports. What weaker orders do is for `tests/loom.rs`.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    reason = "each protocol is used in part, the lock is a library's; helpers of tests"
)]

#[path = "../../processes/src/lock/biased.rs"]
mod biased;
#[path = "../src/channel/slot.rs"]
mod slot;

/// What `crate::sync` is in the library.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};

    pub(crate) fn barrier_is_available() -> bool {
        true
    }

    pub(crate) fn heavy_barrier() {}

    pub(crate) fn light_barrier() {}

    shuttle::thread_local! {
        static HERE: std::cell::Cell<u64> = std::cell::Cell::new(0);
    }

    /// Threads say who they are.
    pub(crate) fn begin(number: u64) {
        HERE.with(|here| here.set(number));
    }

    pub(crate) fn current_thread() -> u64 {
        HERE.with(std::cell::Cell::get)
    }

    pub(crate) fn spin(_turns: u32) {
        shuttle::thread::yield_now();
    }
}

use std::collections::VecDeque;

use shuttle::sync::Arc;
use shuttle::thread;

use biased::BiasedMutex;
use sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Slots of the modelled queues; the library's have more.
const SLOTS: u32 = 2;
/// Messages to each VI.
const MESSAGES: u32 = 3;
const VIS: usize = 2;
const WAITERS: usize = 2;

/// A VI's receive side, with what its peer shares.
struct Vi {
    words: [[AtomicU64; 2]; SLOTS as usize],
    consumed: AtomicU32,
    sleeper: AtomicU32,
    /// The next slot, under the lock of the side.
    next: BiasedMutex<u32>,
}

struct Entries {
    waiting: VecDeque<(usize, u32)>,
    waiters: u64,
}

struct CompletionQueue {
    vis: [Vi; VIS],
    entries: BiasedMutex<Entries>,
    /// What each waiter sleeps on.
    parkers: [AtomicU32; WAITERS],
    taken: AtomicU32,
    is_over: AtomicBool,
}

impl Vi {
    fn new() -> Self {
        Self {
            words: [0, 0].map(|_: u32| [AtomicU64::new(0), AtomicU64::new(0)]),
            consumed: AtomicU32::new(0),
            sleeper: AtomicU32::new(0),
            next: BiasedMutex::new(0),
        }
    }
}

impl CompletionQueue {
    fn new() -> Self {
        Self {
            vis: [Vi::new(), Vi::new()],
            entries: BiasedMutex::new(Entries {
                waiting: VecDeque::new(),
                waiters: 0,
            }),
            parkers: [AtomicU32::new(0), AtomicU32::new(0)],
            taken: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    fn wake(&self, parker: u32) {
        self.parkers[parker as usize].fetch_add(1, Ordering::Release);
    }

    fn wake_all(&self, parkers: u64) {
        for parker in 0..WAITERS as u32 {
            if parkers & 1 << parker != 0 {
                self.wake(parker);
            }
        }
    }

    /// The peer of a VI.
    fn send(&self, vi: usize) {
        let vi = &self.vis[vi];
        for index in 0..MESSAGES {
            while index - vi.consumed.load(Ordering::Acquire) >= SLOTS {
                thread::yield_now();
            }
            let [first, second] = &vi.words[(index % SLOTS) as usize];
            let header = u64::from(slot::lap(index / SLOTS)) | u64::from(index) << 32;
            slot::publish([first, second], [header, 0]);
            sync::light_barrier();
            if vi.sleeper.load(Ordering::Relaxed) != 0 {
                let mark = vi.sleeper.swap(0, Ordering::AcqRel);
                if mark != 0 {
                    self.wake(mark - 1);
                }
            }
        }
    }

    fn look(&self) {
        for (number, vi) in self.vis.iter().enumerate() {
            let mut next = vi.next.lock();
            let index = *next;
            let word = &vi.words[(index % SLOTS) as usize][0];
            if let Some(word) = slot::peek(word, slot::lap(index / SLOTS)) {
                assert_eq!(word >> 32, u64::from(index));
                *next += 1;
                vi.consumed.store(index + 1, Ordering::Release);
                // A VI's lock is held while the queue's is taken.
                let mut entries = self.entries.lock();
                entries.waiting.push_back((number, index));
                let waiters = std::mem::take(&mut entries.waiters);
                drop(entries);
                self.wake_all(waiters);
            }
        }
    }

    fn done(&self) -> Option<(usize, u32)> {
        if let Some(entry) = self.entries.lock().waiting.pop_front() {
            return Some(entry);
        }
        self.look();
        self.entries.lock().waiting.pop_front()
    }

    /// As `completion_queue::wait`, for so many turns of a sleep; `None` when all is over.
    fn wait(&self, parker: u32, patience: u32) -> Option<(usize, u32)> {
        let mut left = patience;
        loop {
            if let Some(entry) = self.done() {
                return Some(entry);
            }
            self.entries.lock().waiters |= 1 << parker;
            let mark = parker + 1;
            for vi in &self.vis {
                let _side = vi.next.lock();
                vi.sleeper.store(mark, Ordering::Relaxed);
            }
            let seen = self.parkers[parker as usize].load(Ordering::Acquire);
            sync::heavy_barrier();
            let found = self.done();
            if found.is_none() {
                while self.parkers[parker as usize].load(Ordering::Acquire) == seen
                    && !self.is_over.load(Ordering::Acquire)
                    && left > 0
                {
                    left -= u32::from(patience != u32::MAX);
                    thread::yield_now();
                }
            }
            for vi in &self.vis {
                let _side = vi.next.lock();
                let _ = vi
                    .sleeper
                    .compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
            let others = {
                let mut entries = self.entries.lock();
                entries.waiters &= !(1 << parker);
                std::mem::take(&mut entries.waiters)
            };
            self.wake_all(others);
            if found.is_some() || left == 0 || self.is_over.load(Ordering::Acquire) {
                return found;
            }
        }
    }
}

#[test]
fn every_message_wakes_a_waiter_of_the_completion_queue_and_comes_once() {
    let iterations =
        std::env::var("SHM_SHUTTLE").map_or(20_000, |text| text.parse().unwrap_or(20_000));
    let body = || {
        let queue = Arc::new(CompletionQueue::new());
        let mut threads = Vec::new();
        for vi in 0..VIS {
            let queue = queue.clone();
            threads.push(thread::spawn(move || {
                sync::begin(10 + vi as u64);
                queue.send(vi);
            }));
        }
        for parker in 0..WAITERS as u32 {
            let queue = queue.clone();
            threads.push(thread::spawn(move || {
                sync::begin(20 + u64::from(parker));
                // The second has a time limit, and leaves early: the marks that it took over
                // must not go with it.
                let patience = if parker == 1 { 3 } else { u32::MAX };
                while let Some((vi, _)) = queue.wait(parker, patience) {
                    assert!(vi < VIS);
                    let taken = queue.taken.fetch_add(1, Ordering::AcqRel) + 1;
                    assert!(taken <= MESSAGES * VIS as u32, "a message came twice");
                    if taken == MESSAGES * VIS as u32 {
                        queue.is_over.store(true, Ordering::Release);
                    }
                    if parker == 1 {
                        return;
                    }
                }
            }));
        }
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(queue.taken.load(Ordering::Acquire), MESSAGES * VIS as u32);
    };
    shuttle::check_random(body, iterations);
    // Long stretches of one thread and few switches.
    shuttle::check_pct(body, iterations, 3);
}
