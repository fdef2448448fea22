//! The confidence interval of a mean within one run, where samples depend on those before.

use crate::{Estimate, Moments, student_t_975};

/// A mean and its confidence interval from one run of correlated samples, in about 550 bytes.
///
/// The run is cut into consecutive batches of equal size; when there are 64, neighbours are
/// joined and the size doubles, so a long run has 32 to 63 batches. The means of long batches
/// are nearly normal and nearly independent, and Student's t applies to them (Law and Carson
/// 1979; 10 to 30 batches lose little, Schmeiser 1982). What correlation is left between
/// neighbours is estimated and, where positive, widens the interval by the root of
/// (1 + r) / (1 - r), as in Skart (Tafazzoli, Steiger and Wilson 2011).
///
/// Limits: the interval is too narrow when the correlation outlasts a batch, that is a fiftieth
/// of the run, and always when the run holds an initial transient or never settles
/// ([`crate::Transient`]). There is none before [`BATCHES_FOR_INTERVAL`] batches of
/// [`FIRST_BATCH_SAMPLES`] samples.
#[derive(Clone, Debug)]
pub struct BatchMeans {
    /// Sums of complete batches.
    sums: Vec<f64>,
    batch_samples: u64,
    open_sum: f64,
    open_samples: u64,
}

impl BatchMeans {
    /// Takes one finite number, in the order of the run.
    #[inline]
    pub fn record(&mut self, sample: f64) {
        debug_assert!(sample.is_finite(), "{sample} is not a sample");
        self.open_sum += sample;
        self.open_samples += 1;
        if self.open_samples == self.batch_samples {
            self.close_batch();
        }
    }

    fn close_batch(&mut self) {
        self.sums.push(self.open_sum);
        (self.open_sum, self.open_samples) = (0.0, 0);
        if self.sums.len() == BATCHES_MAX {
            for pair in 0..BATCHES_MAX / 2 {
                self.sums[pair] = self.sums[2 * pair] + self.sums[2 * pair + 1];
            }
            self.sums.truncate(BATCHES_MAX / 2);
            self.batch_samples *= 2;
        }
    }

    /// How many were taken.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sums.len() as u64 * self.batch_samples + self.open_samples
    }

    /// The mean of all, and its interval if there are enough batches; none of none.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let sum = self.sums.iter().sum::<f64>() + self.open_sum;
        Some(Estimate {
            mean: sum / count as f64,
            ci95: self.half_width(),
        })
    }

    fn half_width(&self) -> Option<f64> {
        if self.sums.len() < BATCHES_FOR_INTERVAL {
            return None;
        }
        let mut batches = Moments::default();
        let means = || self.sums.iter().map(|sum| sum / self.batch_samples as f64);
        means().for_each(|mean| batches.record(mean));
        let (mean, variance) = (batches.mean()?, batches.variance()?);
        let half = student_t_975(batches.count() - 1) * (variance / batches.count() as f64).sqrt();
        if variance == 0.0 {
            return Some(half);
        }
        let products: f64 = means()
            .zip(means().skip(1))
            .map(|(one, next)| (one - mean) * (next - mean))
            .sum();
        let correlation = products / (variance * (batches.count() - 1) as f64);
        let correlation = correlation.clamp(0.0, CORRELATION_MAX);
        Some(half * ((1.0 + correlation) / (1.0 - correlation)).sqrt())
    }
}

impl Default for BatchMeans {
    fn default() -> Self {
        Self {
            sums: Vec::with_capacity(BATCHES_MAX),
            batch_samples: FIRST_BATCH_SAMPLES,
            open_sum: 0.0,
            open_samples: 0,
        }
    }
}

/// Fewer complete batches than this give no interval.
pub const BATCHES_FOR_INTERVAL: usize = 10;

/// Samples of a batch at the start of a run.
pub const FIRST_BATCH_SAMPLES: u64 = 16;

const BATCHES_MAX: usize = 64;

/// Where correlation between neighbours is stronger, no factor would save the interval.
const CORRELATION_MAX: f64 = 0.9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_random::Random;

    /// Percent of `runs` whose interval holds `mean`.
    fn coverage(mean: f64, runs: u32, mut run: impl FnMut(&mut BatchMeans)) -> f64 {
        let covered = (0..runs)
            .filter(|_| {
                let mut batches = BatchMeans::default();
                run(&mut batches);
                let estimate = batches.estimate().unwrap();
                (estimate.mean - mean).abs() <= estimate.ci95.unwrap()
            })
            .count();
        100.0 * covered as f64 / f64::from(runs)
    }

    #[test]
    fn no_interval_before_ten_batches() {
        let mut batches = BatchMeans::default();
        assert_eq!(batches.estimate(), None);
        for sample in 0..159_u32 {
            batches.record(f64::from(sample));
            assert_eq!(batches.estimate().unwrap().ci95, None);
        }
        batches.record(159.0);
        assert_eq!(batches.estimate().unwrap().mean, 79.5);
        assert!(batches.estimate().unwrap().ci95.is_some());
    }

    #[test]
    fn equal_samples_have_an_interval_of_no_width() {
        let mut batches = BatchMeans::default();
        (0..5_000).for_each(|_| batches.record(7.25));
        assert_eq!(
            batches.estimate(),
            Some(Estimate {
                mean: 7.25,
                ci95: Some(0.0)
            })
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut batches = BatchMeans::default();
        (0..1_000_000).for_each(|sample| batches.record(f64::from(sample % 10)));
        assert_eq!(batches.count(), 1_000_000);
        assert!((BATCHES_MAX / 2..BATCHES_MAX).contains(&batches.sums.len()));
        assert_eq!(batches.sums.capacity(), BATCHES_MAX);
    }

    #[test]
    fn covers_the_mean_of_independent_samples() {
        // 95 % wanted; widening by noise in the correlation adds about 1; 2000 runs, error 0.5.
        let mut random = Random(3);
        let percent = coverage(1.0, 2_000, |batches| {
            (0..3_000).for_each(|_| batches.record(random.exponential()));
        });
        assert!((94.0..98.0).contains(&percent), "{percent} %");
    }

    #[test]
    fn covers_the_mean_of_correlated_samples() {
        // Correlation 0.95 from one to the next: a naive interval is 6 times too narrow and
        // covers the mean 25 times in 100.
        let mut random = Random(5);
        let percent = coverage(10.0, 1_000, |batches| {
            let mut state = random.normal() / (1.0 - 0.95_f64 * 0.95).sqrt();
            for _ in 0..10_000 {
                state = 0.95 * state + random.normal();
                batches.record(10.0 + state);
            }
        });
        assert!((93.0..98.0).contains(&percent), "{percent} %");
    }

    #[test]
    fn covers_the_mean_wait_of_a_queue() {
        // M/M/1 at 70 % load, waits by Lindley's recursion: skewed and correlated. The mean wait
        // is load / (1 - load) services.
        let mut random = Random(9);
        let percent = coverage(0.7 / 0.3, 400, |batches| {
            let mut wait = 0.0_f64;
            for step in 0..40_000 {
                if step >= 2_000 {
                    batches.record(wait);
                }
                wait = (wait + random.exponential() - random.exponential() / 0.7).max(0.0);
            }
        });
        assert!((91.0..98.0).contains(&percent), "{percent} %");
    }

    proptest! {
        #[test]
        fn mean_is_that_of_all_samples(samples in prop::collection::vec(-1e3..1e3_f64, 1..5_000)) {
            let mut batches = BatchMeans::default();
            samples.iter().for_each(|&sample| batches.record(sample));
            let mean = samples.iter().sum::<f64>() / samples.len() as f64;
            prop_assert!((batches.estimate().unwrap().mean - mean).abs() < 1e-9);
            prop_assert_eq!(batches.count(), samples.len() as u64);
        }
    }
}
