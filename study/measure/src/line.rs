//! How far apart two cores are, by the time a cache line takes between them.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use viaduct_provider::is_near_line;

use crate::machine::pin_to_core;

/// How far apart the cores of the two sides are.
///
/// A virtual machine's cores move between such places every few seconds to minutes, and the same
/// program is several times slower when they are far: only values of one placement compare.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// It seems: two threads of one core.
    Sibling,
    /// Cores that share their last cache.
    Near,
    /// Cores that do not.
    Far,
    /// It changed during the measurement.
    Mixed,
}

impl Placement {
    /// From the line's time.
    #[must_use]
    pub fn of_line(nanoseconds: f64) -> Self {
        const SIBLING_BELOW_NS: f64 = 28.0;

        if nanoseconds < SIBLING_BELOW_NS {
            Self::Sibling
        } else if is_near_line(nanoseconds) {
            Self::Near
        } else {
            Self::Far
        }
    }

    /// From the line's time before and after.
    #[must_use]
    pub fn of_lines(before_ns: f64, after_ns: f64) -> Self {
        let (before, after) = (Self::of_line(before_ns), Self::of_line(after_ns));
        if before == after { before } else { Self::Mixed }
    }

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sibling => "sibling",
            Self::Near => "near",
            Self::Far => "far",
            Self::Mixed => "mixed",
        }
    }
}

/// Two lines, one written by each side, on cache lines (and neighbours) of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

#[derive(Debug, Default)]
struct Court {
    ping: Line,
    pong: Line,
    is_over: AtomicBool,
}

/// Half a round trip of two cache lines between this thread and one on `core`; `None` if that
/// thread does not answer, the core being busy.
pub(crate) fn probe(core: usize) -> Option<f64> {
    const ROUND_TRIPS: u64 = 200;
    const RUNS: u32 = 10;
    const PATIENCE: Duration = Duration::from_millis(100);

    let court = Court::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Unpinned it measures something else, which the caller cannot help.
            let _ = pin_to_core(core);
            answer(&court);
        });
        let started = Instant::now();
        let mut turn = 0;
        let mut is_answered = play(&court, &mut turn, 100, started, PATIENCE);
        // The quickest run: what others do on these cores makes it longer only.
        let mut nanoseconds = f64::INFINITY;
        for _ in 0..RUNS {
            let begin = Instant::now();
            is_answered = is_answered && play(&court, &mut turn, ROUND_TRIPS, started, PATIENCE);
            let run = begin.elapsed().as_secs_f64() * 1e9 / (2 * ROUND_TRIPS) as f64;
            nanoseconds = nanoseconds.min(run);
        }
        // Relaxed: nothing else is read by who sees it.
        court.is_over.store(true, Ordering::Relaxed);
        is_answered.then_some(nanoseconds)
    })
}

fn play(court: &Court, turn: &mut u64, count: u64, started: Instant, patience: Duration) -> bool {
    for _ in 0..count {
        *turn += 1;
        // Release and Acquire pair with `answer`'s; the turn is all that crosses.
        court.ping.0.store(*turn, Ordering::Release);
        let mut looks = 0_u32;
        while court.pong.0.load(Ordering::Acquire) != *turn {
            hint::spin_loop();
            looks += 1;
            if looks.is_multiple_of(1 << 12) {
                if started.elapsed() > patience {
                    return false;
                }
                thread::yield_now();
            }
        }
    }
    true
}

fn answer(court: &Court) {
    let mut seen = 0;
    let mut looks = 0_u32;
    loop {
        let turn = court.ping.0.load(Ordering::Acquire);
        if turn == seen {
            hint::spin_loop();
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(64) && court.is_over.load(Ordering::Relaxed) {
                return;
            }
            if looks.is_multiple_of(1 << 12) {
                thread::yield_now();
            }
            continue;
        }
        seen = turn;
        court.pong.0.store(turn, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_changed_its_place_is_mixed() {
        assert_eq!(Placement::of_lines(50.0, 61.0), Placement::Near);
        assert_eq!(Placement::of_lines(213.0, 195.0), Placement::Far);
        assert_eq!(Placement::of_lines(50.0, 195.0), Placement::Mixed);
        assert_eq!(Placement::of_line(20.0), Placement::Sibling);
    }

    #[test]
    fn a_probe_ends_and_says_something_positive() {
        if let Some(nanoseconds) = probe(0) {
            assert!(nanoseconds > 0.0, "{nanoseconds}");
        }
    }
}
