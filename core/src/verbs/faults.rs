//! Faults on request: which requests they strike, and when a port is down.
//!
//! Whether a request is struck follows from a seed, its queue pair, its number there and how often
//! it was tried, and from nothing else: a failure repeats.

use alloc::vec::Vec;

/// What shall go wrong.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Faults {
    /// Requests that are lost on the way.
    pub loss: Option<Chance>,
    /// Requests that are told that the receiver is not ready.
    pub not_ready: Option<Chance>,
    /// How long each request waits before it begins.
    pub delay_nanoseconds: Option<u64>,
    /// When the port is down.
    pub port_down: Vec<Period>,
    /// Which queue pair breaks.
    pub breakage: Option<Breakage>,
}

/// How probable it is that a request is struck.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Chance {
    /// Of [`Chance::ALWAYS`] requests so many.
    share: u64,
    seed: u64,
}

/// From `start` on, and before `end`, in nanoseconds since the device was opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Period {
    /// The first moment.
    pub start: u64,
    /// The first moment after it.
    pub end: u64,
}

/// When the queue pair breaks that is about to begin a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Breakage {
    /// Once, when the process has begun so many.
    After(u64),
    /// Again and again, when it has begun so many since the last time.
    Every(u64),
}

/// What a chance is of. Two faults of one seed strike different requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trial {
    /// That a request is lost.
    Loss = 1,
    /// That a receiver is not ready.
    NotReady = 2,
}

impl Chance {
    const ALWAYS: u64 = 1 << 32;

    /// Of `probability`, from 0 to 1; none for another number.
    #[must_use]
    pub fn new(probability: f64, seed: u64) -> Option<Self> {
        (0.0..=1.0).contains(&probability).then_some(Self {
            share: (probability * Self::ALWAYS as f64) as u64,
            seed,
        })
    }

    /// Whether it strikes a request of a queue pair when it is tried for the `attempt`-th time.
    #[must_use]
    pub fn strikes(self, trial: Trial, pair: u32, request: u32, attempt: u32) -> bool {
        let words = [
            trial as u64,
            u64::from(pair),
            u64::from(request),
            u64::from(attempt),
        ];
        let drawn = words.iter().fold(self.seed, |drawn, word| {
            mixed(drawn.wrapping_add(mixed(*word)))
        });
        drawn >> 32 < self.share
    }
}

/// The finish of `SplitMix64`: every bit depends on every other.
const fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

impl Breakage {
    /// Whether it strikes the request before which `begun` have begun.
    #[must_use]
    pub const fn strikes(self, begun: u64) -> bool {
        match self {
            Self::After(count) => begun == count,
            Self::Every(count) => begun > 0 && begun.is_multiple_of(count),
        }
    }
}

impl Faults {
    /// Whether nothing shall go wrong.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the port is down at a moment.
    #[must_use]
    pub fn is_port_down(&self, nanoseconds: u64) -> bool {
        let mut periods = self.port_down.iter();
        periods.any(|period| period.start <= nanoseconds && nanoseconds < period.end)
    }

    /// The first moment after this one at which the port may go down or up.
    #[must_use]
    pub fn next_port_change(&self, nanoseconds: u64) -> Option<u64> {
        let periods = self.port_down.iter();
        let moments = periods.flat_map(|period| [period.start, period.end]);
        moments.filter(|moment| *moment > nanoseconds).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_strikes_as_often_as_it_says_and_the_same_requests_again() {
        let chance = Chance::new(0.01, 7).unwrap();
        let strikes = |chance: Chance, trial, attempt| -> Vec<u32> {
            let requests = 0..100_000;
            requests
                .filter(|request| chance.strikes(trial, 3, *request, attempt))
                .collect()
        };
        let struck = strikes(chance, Trial::Loss, 0);
        assert!((900..1100).contains(&struck.len()), "{}", struck.len());
        assert_eq!(struck, strikes(chance, Trial::Loss, 0));
        for other in [
            strikes(chance, Trial::Loss, 1),
            strikes(chance, Trial::NotReady, 0),
            strikes(Chance::new(0.01, 8).unwrap(), Trial::Loss, 0),
        ] {
            let both = other.iter().filter(|request| struck.contains(request));
            assert!(both.count() < 40);
        }
    }

    #[test]
    fn never_and_always_are_what_they_say() {
        let [never, always] = [0.0, 1.0].map(|chance| Chance::new(chance, 1).unwrap());
        assert!((0..1000).all(|request| !never.strikes(Trial::Loss, 0, request, 0)));
        assert!((0..1000).all(|request| always.strikes(Trial::Loss, 0, request, 0)));
        assert!([-0.1, 1.1, f64::NAN].map(|chance| Chance::new(chance, 1)) == [None; 3]);
    }

    #[test]
    fn a_queue_pair_breaks_once_or_again_and_again() {
        let struck = |breakage: Breakage| -> Vec<u64> {
            (0..10).filter(|begun| breakage.strikes(*begun)).collect()
        };
        assert_eq!(struck(Breakage::After(0)), [0]);
        assert_eq!(struck(Breakage::After(4)), [4]);
        assert_eq!(struck(Breakage::Every(4)), [4, 8]);
    }

    #[test]
    fn a_port_is_down_in_its_periods() {
        let faults = Faults {
            port_down: [(10, 20), (15, 30)]
                .map(|(start, end)| Period { start, end })
                .to_vec(),
            ..Faults::default()
        };
        let down: Vec<u64> = (0..40).filter(|at| faults.is_port_down(*at)).collect();
        assert_eq!(down, (10..30).collect::<Vec<_>>());
        assert_eq!(faults.next_port_change(0), Some(10));
        assert_eq!(faults.next_port_change(10), Some(15));
        assert_eq!(faults.next_port_change(30), None);
        assert!(Faults::default().is_none() && !faults.is_none());
    }
}
