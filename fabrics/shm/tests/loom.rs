//! The protocols of the data path under every order that the memory model allows.
//!
//! The files below are those of the library; only what they stand on is loom's. A barrier on all
//! processors (`membarrier`) is modelled as a full fence, and so is the compiler's fence that it
//! is paired with: what the kernel promises of that pair is not proven here. Loom's bytes are its
//! own, so the mapped memory, the futex and the copies are not modelled either: payload is a cell
//! whose unordered use loom reports.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    reason = "each protocol is used in part, the lock is a library's; helpers of tests"
)]

#[path = "../../processes/src/lock/biased.rs"]
mod biased;
#[path = "../src/pool/bits.rs"]
mod bits;
#[path = "../src/regions/sequence.rs"]
mod sequence;
#[path = "../src/channel/slot.rs"]
mod slot;

/// What `crate::sync` is in the library.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    pub(crate) fn barrier_is_available() -> bool {
        true
    }

    pub(crate) fn heavy_barrier() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn light_barrier() {
        fence(Ordering::SeqCst);
    }

    loom::thread_local! {
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
        loom::thread::yield_now();
    }
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use sync::{AtomicU32, AtomicU64, Ordering};

/// Runs a model in every order with at most three threads preempted.
fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

#[test]
fn a_biased_lock_lets_one_thread_in_at_a_time() {
    model(|| {
        let lock = Arc::new(biased::BiasedMutex::new(UnsafeCell::new(0)));
        let enter = |lock: &biased::BiasedMutex<UnsafeCell<i32>>| {
            // SAFETY: the lock is held; loom tells if it did not order this.
            lock.lock().with_mut(|value| unsafe { *value += 1 });
        };
        sync::begin(2);
        // This thread gets the bias.
        enter(&lock);
        let other = lock.clone();
        let thread = thread::spawn(move || {
            sync::begin(3);
            enter(&other);
            enter(&other);
        });
        enter(&lock);
        enter(&lock);
        thread.join().unwrap();
        // SAFETY: as above.
        assert_eq!(lock.lock().with(|value| unsafe { *value }), 5);
    });
}

#[test]
fn two_threads_take_a_bias_away_at_once() {
    model(|| {
        let lock = Arc::new(biased::BiasedMutex::new(UnsafeCell::new(0)));
        sync::begin(2);
        drop(lock.lock());
        let threads: Vec<_> = (3..5)
            .map(|number| {
                let lock = lock.clone();
                thread::spawn(move || {
                    sync::begin(number);
                    // SAFETY: the lock is held.
                    lock.lock().with_mut(|value| unsafe { *value += 1 });
                })
            })
            .collect();
        // SAFETY: the lock is held.
        lock.lock().with_mut(|value| unsafe { *value += 1 });
        for thread in threads {
            thread.join().unwrap();
        }
        // SAFETY: the lock is held.
        assert_eq!(lock.lock().with(|value| unsafe { *value }), 3);
    });
}

/// Slots of the modelled queue; the library has more.
const SLOTS: u32 = 2;

struct Queue {
    words: [[AtomicU64; 2]; SLOTS as usize],
    payload: [UnsafeCell<u32>; SLOTS as usize],
    consumed: AtomicU32,
    sleeper: AtomicU32,
    /// What a sleeper sleeps on.
    parker: AtomicU32,
}

impl Queue {
    fn new() -> Self {
        Self {
            words: [0, 0].map(|_: u32| [AtomicU64::new(0), AtomicU64::new(0)]),
            payload: [UnsafeCell::new(0), UnsafeCell::new(0)],
            consumed: AtomicU32::new(0),
            sleeper: AtomicU32::new(0),
            parker: AtomicU32::new(0),
        }
    }

    /// As `Outgoing::publish`: payload, words, the look for a mark.
    fn publish(&self, index: u32) {
        let at = (index % SLOTS) as usize;
        // SAFETY: the slot is free; loom tells if that is not so.
        self.payload[at].with_mut(|payload| unsafe { *payload = index });
        let [first, second] = &self.words[at];
        let header = u64::from(slot::lap(index / SLOTS)) | u64::from(index) << 32;
        slot::publish([first, second], [header, u64::from(index) + 7]);
        sync::light_barrier();
        if self.sleeper.load(Ordering::Relaxed) != 0 && self.sleeper.swap(0, Ordering::AcqRel) != 0
        {
            self.parker.fetch_add(1, Ordering::Release);
        }
    }

    /// As `Incoming`: looks at slot `index` and takes it.
    fn take(&self, index: u32) -> bool {
        let at = (index % SLOTS) as usize;
        let Some(word) = slot::peek(&self.words[at][0], slot::lap(index / SLOTS)) else {
            return false;
        };
        assert_eq!(word >> 32, u64::from(index));
        let second = self.words[at][1].load(Ordering::Relaxed);
        assert_eq!(
            second,
            u64::from(index) + 7,
            "the second word of another lap"
        );
        // SAFETY: the slot is published; loom tells if that is not so.
        assert_eq!(self.payload[at].with(|payload| unsafe { *payload }), index);
        self.consumed.store(index + 1, Ordering::Release);
        true
    }
}

#[test]
fn a_slot_is_seen_whole_in_its_lap_and_reused_after() {
    model(|| {
        const MESSAGES: u32 = 4;
        let queue = Arc::new(Queue::new());
        let sender = queue.clone();
        let thread = thread::spawn(move || {
            for index in 0..MESSAGES {
                while index - sender.consumed.load(Ordering::Acquire) >= SLOTS {
                    thread::yield_now();
                }
                sender.publish(index);
            }
        });
        for index in 0..MESSAGES {
            while !queue.take(index) {
                thread::yield_now();
            }
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_sleeper_is_woken_or_sees_the_message() {
    model(|| {
        let queue = Arc::new(Queue::new());
        let sender = queue.clone();
        let thread = thread::spawn(move || {
            sender.publish(0);
            sender.publish(1);
        });
        for index in 0..2 {
            while !queue.take(index) {
                // As `receive_wait`: the mark, what the parker says, the barrier, a last look.
                queue.sleeper.store(1, Ordering::Relaxed);
                let seen = queue.parker.load(Ordering::Acquire);
                sync::heavy_barrier();
                if queue.take(index) {
                    let _ =
                        queue
                            .sleeper
                            .compare_exchange(1, 0, Ordering::Relaxed, Ordering::Relaxed);
                    break;
                }
                // The futex: whoever never changes the word would let it sleep for ever, and loom
                // says so.
                while queue.parker.load(Ordering::Acquire) == seen {
                    thread::yield_now();
                }
            }
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_seqlock_shows_what_was_written_at_one_time() {
    model(|| {
        let shared = Arc::new((AtomicU32::new(0), AtomicU64::new(0), AtomicU64::new(0)));
        let writer = shared.clone();
        let thread = thread::spawn(move || {
            for value in 1..3 {
                sequence::write(&writer.0, || {
                    writer.1.store(value, Ordering::Relaxed);
                    writer.2.store(value, Ordering::Relaxed);
                });
            }
        });
        for _ in 0..2 {
            let found = sequence::read(&shared.0, || {
                let first = shared.1.load(Ordering::Relaxed);
                (first, shared.2.load(Ordering::Relaxed))
            });
            if let Some((first, second)) = found {
                assert_eq!(first, second);
            }
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_chunk_belongs_to_one_thread_at_a_time() {
    model(|| {
        let shared = Arc::new((AtomicU64::new(0), UnsafeCell::new(0)));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        let bit = loop {
                            match bits::take_bit(&shared.0, 0, 1) {
                                Some(bit) => break bit,
                                None => thread::yield_now(),
                            }
                        };
                        // SAFETY: the chunk was taken; loom tells if another thread has it.
                        shared.1.with_mut(|bytes| unsafe { *bytes += 1 });
                        bits::give_bit(&shared.0, bit);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(shared.0.load(Ordering::Relaxed), 0);
    });
}
