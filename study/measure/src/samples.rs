//! Times of batches, and what they say.

use crate::report::Spread;

/// How long each batch took, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    nanoseconds: Vec<u64>,
}

impl Samples {
    /// Room for so many; more are taken, but allocate.
    pub(crate) fn with_capacity(batches: usize) -> Self {
        Self {
            nanoseconds: Vec::with_capacity(batches),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, nanoseconds: u64) {
        self.nanoseconds.push(nanoseconds);
    }

    pub(crate) fn total_ns(&self) -> u64 {
        self.nanoseconds.iter().sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.nanoseconds.len()
    }

    /// Least, median and 99th percentile, each times `factor`; zeros if there is no batch.
    pub(crate) fn spread(&self, factor: f64) -> Spread {
        let mut sorted = self.nanoseconds.clone();
        sorted.sort_unstable();
        let at = |numerator: usize, denominator: usize| {
            let index = sorted.len().saturating_sub(1) * numerator / denominator;
            sorted
                .get(index)
                .map_or(0.0, |value| *value as f64 * factor)
        };
        Spread {
            min: at(0, 1),
            median: at(1, 2),
            p99: at(99, 100),
        }
    }

    /// The part of the time that was lost to the system: of every batch that took several
    /// microseconds longer than the median, what was beyond the median.
    pub(crate) fn lost_fraction(&self) -> f64 {
        const EXCESS_NS: f64 = 5000.0;

        let median = self.spread(1.0).median;
        let beyond = self
            .nanoseconds
            .iter()
            .map(|batch| *batch as f64 - median)
            // A batch of large messages varies by itself: half of it more is no interruption.
            .filter(|excess| *excess > EXCESS_NS.max(median / 2.0));
        // The sum of no numbers by `sum` is minus zero: it is added up from plus zero.
        let lost = beyond.fold(0.0, |sum, excess| sum + excess);
        match self.total_ns() {
            0 => 0.0,
            total => lost / total as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(nanoseconds: &[u64]) -> Samples {
        Samples {
            nanoseconds: nanoseconds.to_vec(),
        }
    }

    #[test]
    fn a_spread_is_of_the_sorted_batches() {
        let spread = samples(&(1..=101).rev().collect::<Vec<_>>()).spread(2.0);
        assert_eq!((spread.min, spread.median, spread.p99), (2.0, 102.0, 200.0));
        let none = samples(&[]).spread(1.0);
        assert_eq!((none.min, none.median, none.p99), (0.0, 0.0, 0.0));
    }

    #[test]
    fn only_interruptions_are_lost_time() {
        let nothing = samples(&[1000, 1100, 1000, 4000]).lost_fraction();
        assert_eq!(nothing.to_bits(), 0.0_f64.to_bits());
        let lost = samples(&[1000, 1000, 1000, 101_000]).lost_fraction();
        assert!((lost - 100_000.0 / 104_000.0).abs() < 1e-9, "{lost}");
    }
}
