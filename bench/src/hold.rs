//! The hold operation: pop one event, push one at its time plus a drawn delay; and the same with
//! another event moved each time.

use std::time::Instant;

use viaduct_engine::{EventQueue, Stream, StreamKey};

use crate::rivals::{
    Calendar, EngineLanes, EngineMoving, FourAryHeap, IndexedHeap, LANES, LazyHeap, MovingRival,
    Rival, StandardHeap,
};
use crate::table::Samples;

/// Mean delay of an event, picoseconds: 10 microseconds, as of a stage of a message.
const DELAY_MEAN: f64 = 1e7;
/// Delays drawn before the clock starts, so that drawing them is not measured.
const DELAYS: usize = 1 << 16;
/// Holds between two readings of the clock.
const HOLDS: usize = 1_000_000;
/// Constant delays of the stages of a message, picoseconds; each has a lane.
const LANE_DELAYS: [u64; LANES] = [
    448_000, 1_000_001, 3_328_002, 4_296_003, 9_000_004, 12_000_005, 20_000_006, 30_000_007,
];

/// Nanoseconds of a hold by each queue, in the order in which they are shown.
pub(crate) fn measure(pending: usize, repetitions: usize) -> Vec<(&'static str, Samples)> {
    let delays = exponential_delays();
    let constant: Vec<u64> = delays
        .iter()
        .map(|delay| LANE_DELAYS[*delay as usize % LANES])
        .collect();
    let mut binary = Bench::new(StandardHeap::default(), pending, &delays);
    let mut four_ary = Bench::new(FourAryHeap::default(), pending, &delays);
    let mut calendar = Bench::new(Calendar::default(), pending, &delays);
    let mut engine = Bench::new(EventQueue::new(), pending, &delays);
    let mut lanes = Bench::new(EngineLanes::default(), pending, &constant);
    let one_delay = vec![LANE_DELAYS[0]; DELAYS];
    let mut one_lane = Bench::new(EngineLanes::default(), pending, &one_delay);
    let mut rows = [
        ("binary heap", Samples::default()),
        ("4-ary heap, fused", Samples::default()),
        ("calendar queue", Samples::default()),
        ("engine", Samples::default()),
        ("engine, eight lanes", Samples::default()),
        ("engine, one lane", Samples::default()),
    ];
    // Interleaved, so that a disturbance of the machine meets each alike.
    for _ in 0..repetitions {
        rows[0].1.add(binary.hold_ns(&delays));
        rows[1].1.add(four_ary.hold_ns(&delays));
        rows[2].1.add(calendar.hold_ns(&delays));
        rows[3].1.add(engine.hold_ns(&delays));
        rows[4].1.add(lanes.hold_ns(&constant));
        rows[5].1.add(one_lane.hold_ns(&one_delay));
    }
    rows.into()
}

/// Nanoseconds of a hold with one move of another event, by each queue.
pub(crate) fn measure_moving(pending: usize, repetitions: usize) -> Vec<(&'static str, Samples)> {
    let delays = exponential_delays();
    let mut lazy = MovingBench::new(LazyHeap::default(), pending, &delays);
    let mut indexed = MovingBench::new(IndexedHeap::default(), pending, &delays);
    let mut engine = MovingBench::new(EngineMoving::default(), pending, &delays);
    let mut rows = [
        ("binary heap, stale entries", Samples::default()),
        ("4-ary heap, indexed", Samples::default()),
        ("engine", Samples::default()),
    ];
    for _ in 0..repetitions {
        rows[0].1.add(lazy.hold_ns(&delays));
        rows[1].1.add(indexed.hold_ns(&delays));
        rows[2].1.add(engine.hold_ns(&delays));
    }
    rows.into()
}

struct MovingBench<Q> {
    queue: Q,
    pending: u32,
    next_delay: usize,
    /// State of a linear congruential generator: which event is moved next.
    next_moved: u32,
}

impl<Q: MovingRival> MovingBench<Q> {
    fn new(mut queue: Q, pending: usize, delays: &[u64]) -> Self {
        for event in 0..pending {
            queue.push(delays[event % DELAYS], event as u32);
        }
        let mut bench = Self {
            queue,
            pending: pending as u32,
            next_delay: 0,
            next_moved: 0,
        };
        for _ in 0..pending.div_ceil(HOLDS) {
            bench.hold_ns(delays);
        }
        bench
    }

    fn hold_ns(&mut self, delays: &[u64]) -> f64 {
        let begin = Instant::now();
        for _ in 0..HOLDS {
            let Some((time, event)) = self.queue.pop() else {
                break;
            };
            self.queue.push(time + delays[self.next_delay], event);
            self.next_moved = self
                .next_moved
                .wrapping_mul(1_664_525)
                .wrapping_add(1_013_904_223);
            let moved = (u64::from(self.next_moved) * u64::from(self.pending)) >> 32;
            let delay = delays[(self.next_delay + DELAYS / 2) % DELAYS];
            self.queue.move_to(time + delay, moved as u32);
            self.next_delay = (self.next_delay + 1) % DELAYS;
        }
        begin.elapsed().as_secs_f64() * 1e9 / HOLDS as f64
    }
}

struct Bench<Q> {
    queue: Q,
    next_delay: usize,
}

impl<Q: Rival> Bench<Q> {
    /// A queue of `pending` events, past its first holds.
    fn new(mut queue: Q, pending: usize, delays: &[u64]) -> Self {
        for event in 0..pending {
            queue.push(delays[event % DELAYS], event as u64);
        }
        let mut bench = Self {
            queue,
            next_delay: 0,
        };
        for _ in 0..pending.div_ceil(HOLDS) {
            bench.hold_ns(delays);
        }
        bench
    }

    fn hold_ns(&mut self, delays: &[u64]) -> f64 {
        let begin = Instant::now();
        for _ in 0..HOLDS {
            let Some((time, event)) = self.queue.pop() else {
                break;
            };
            self.queue.push(time + delays[self.next_delay], event);
            self.next_delay = (self.next_delay + 1) % DELAYS;
        }
        begin.elapsed().as_secs_f64() * 1e9 / HOLDS as f64
    }
}

fn exponential_delays() -> Vec<u64> {
    let mut random = Stream::new(StreamKey {
        seed: 1,
        purpose: 0,
        entity: 0,
    });
    let mut uniform = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    (0..DELAYS)
        .map(|_| (-DELAY_MEAN * (-uniform()).ln_1p()) as u64)
        .collect()
}
