//! The hold operation: pop one event, schedule one at its time plus a drawn delay; and the same
//! with another event moved each time.

use std::time::Instant;

use viaduct_engine::{EventId, EventQueue, Lane, Stream, StreamKey, Time};

use crate::table::Samples;

/// Mean delay of an event, picoseconds: 10 microseconds, as of a stage of a message.
const DELAY_MEAN: f64 = 1e7;
/// Delays drawn before the clock starts, so that drawing them is not measured.
const DELAYS: usize = 1 << 16;
/// Holds between two readings of the clock.
const HOLDS: usize = 1_000_000;
/// Lanes in use.
const LANES: usize = 8;
/// Constant delays of the stages of a message, picoseconds. A delay belongs to the lane of its
/// remainder: a model knows its lane, and the search for it is not what is measured.
const LANE_DELAYS: [u64; LANES] = [
    448_000, 1_000_001, 3_328_002, 4_296_003, 9_000_004, 12_000_005, 20_000_006, 30_000_007,
];

/// What is measured, in the order in which it is shown.
const KINDS: [(&str, Kind); 4] = [
    ("drawn delays", Kind::Drawn),
    ("eight lanes", Kind::Lanes(LANES)),
    ("one lane", Kind::Lanes(1)),
    ("drawn delays, another event moved", Kind::Moving),
];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Drawn,
    Lanes(usize),
    Moving,
}

/// Nanoseconds of a hold, and whether it has a target.
pub(crate) fn measure(pending: usize, repetitions: usize) -> Vec<(&'static str, bool, Samples)> {
    let mut benches = KINDS.map(|(_, kind)| Bench::new(kind, pending));
    let mut samples = KINDS.map(|_| Samples::default());
    // Interleaved, so that a disturbance of the machine meets each alike.
    for _ in 0..repetitions {
        for (bench, samples) in benches.iter_mut().zip(&mut samples) {
            samples.add(bench.hold_ns());
        }
    }
    let rows = KINDS.into_iter().zip(samples);
    rows.map(|((name, kind), samples)| (name, kind == Kind::Drawn, samples))
        .collect()
}

struct Bench {
    kind: Kind,
    queue: EventQueue<u32>,
    lanes: [Lane; LANES],
    delays: Vec<u64>,
    next_delay: usize,
    /// By event, where events are moved.
    names: Vec<EventId>,
    /// State of a linear congruential generator: which event is moved next.
    next_moved: u32,
}

impl Bench {
    /// A queue of `pending` events, past its first holds.
    fn new(kind: Kind, pending: usize) -> Self {
        let mut queue = EventQueue::new();
        let lanes = std::array::from_fn(|_| queue.add_lane());
        let drawn = exponential_delays();
        let delays = match kind {
            Kind::Lanes(lanes) => {
                let of_lane = |delay: &u64| LANE_DELAYS[*delay as usize % lanes];
                drawn.iter().map(of_lane).collect()
            }
            Kind::Drawn | Kind::Moving => drawn,
        };
        let mut bench = Self {
            kind,
            queue,
            lanes,
            delays,
            next_delay: 0,
            names: vec![EventId::NONE; pending],
            next_moved: 0,
        };
        for event in 0..pending {
            bench.schedule(Time::ZERO, bench.delays[event % DELAYS], event as u32);
        }
        for _ in 0..pending.div_ceil(HOLDS) {
            bench.hold_ns();
        }
        bench
    }

    #[inline(always)]
    fn schedule(&mut self, from: Time, delay: u64, event: u32) {
        let time = from + Time::from_picoseconds(delay);
        match self.kind {
            Kind::Drawn => {
                self.queue.schedule(time, event);
            }
            Kind::Lanes(_) => {
                let lane = self.lanes[delay as usize % LANES];
                self.queue.schedule_in_lane(lane, time, event);
            }
            Kind::Moving => self.names[event as usize] = self.queue.schedule(time, event),
        }
    }

    fn hold_ns(&mut self) -> f64 {
        let begin = Instant::now();
        for _ in 0..HOLDS {
            let Some((time, event)) = self.queue.pop() else {
                break;
            };
            self.schedule(time, self.delays[self.next_delay], event);
            if self.kind == Kind::Moving {
                self.move_another(time);
            }
            self.next_delay = (self.next_delay + 1) % DELAYS;
        }
        begin.elapsed().as_secs_f64() * 1e9 / HOLDS as f64
    }

    fn move_another(&mut self, from: Time) {
        self.next_moved = self
            .next_moved
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        let moved = (u64::from(self.next_moved) * self.names.len() as u64) >> 32;
        let delay = self.delays[(self.next_delay + DELAYS / 2) % DELAYS];
        let time = from + Time::from_picoseconds(delay);
        self.queue.reschedule(self.names[moved as usize], time);
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
