//! Count, mean, variance and extremes.

use crate::Merge;

/// Count, mean, variance and extremes of a stream of numbers, in 40 bytes.
///
/// Welford's update: no large squares are subtracted, so a small variance around a large mean
/// keeps its digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
    min: f64,
    max: f64,
}

impl Moments {
    /// Takes one finite number.
    #[inline]
    pub fn record(&mut self, sample: f64) {
        debug_assert!(sample.is_finite(), "{sample} is not a sample");
        self.count += 1;
        let distance = sample - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (sample - self.mean);
        self.min = self.min.min(sample);
        self.max = self.max.max(sample);
    }

    /// How many were taken.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; none of none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The unbiased variance; none of fewer than two.
    #[must_use]
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }

    /// The standard deviation, the root of [`Self::variance`].
    #[must_use]
    pub fn standard_deviation(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The smallest; none of none.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest; none of none.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            count: 0,
            mean: 0.0,
            squares: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }
}

impl Merge for Moments {
    /// As if the other's samples had been taken here (Chan, Golub and LeVeque 1979).
    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (here, there) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        self.count += other.count;
        let all = self.count as f64;
        self.mean += distance * (there / all);
        self.squares += other.squares + distance * distance * (here * there / all);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moments_of(samples: &[f64]) -> Moments {
        let mut moments = Moments::default();
        samples.iter().for_each(|&sample| moments.record(sample));
        moments
    }

    #[test]
    fn known_answers() {
        let moments = moments_of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(moments.count(), 8);
        assert_eq!(moments.mean(), Some(5.0));
        assert!((moments.variance().unwrap() - 32.0 / 7.0).abs() < 1e-12);
        assert_eq!((moments.min(), moments.max()), (Some(2.0), Some(9.0)));
    }

    #[test]
    fn nothing_has_no_moments_and_one_no_variance() {
        let mut moments = Moments::default();
        assert_eq!(
            moments
                .mean()
                .or(moments.min())
                .or(moments.max())
                .or(moments.variance()),
            None
        );
        moments.record(3.0);
        assert_eq!((moments.mean(), moments.variance()), (Some(3.0), None));
    }

    #[test]
    fn small_variance_around_a_large_mean_keeps_its_digits() {
        let moments = moments_of(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]);
        assert!((moments.variance().unwrap() - 30.0).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn agree_with_two_passes(samples in prop::collection::vec(-1e6..1e6_f64, 2..200)) {
            let moments = moments_of(&samples);
            let mean = samples.iter().sum::<f64>() / samples.len() as f64;
            let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
            let variance = squares / (samples.len() - 1) as f64;
            prop_assert!((moments.mean().unwrap() - mean).abs() < 1e-6);
            prop_assert!((moments.variance().unwrap() - variance).abs() <= 1e-9 * variance + 1e-9);
        }

        #[test]
        fn merged_parts_are_the_whole(
            samples in prop::collection::vec(-1e6..1e6_f64, 2..200),
            cut in 0.0..1.0,
        ) {
            let (early, late) = samples.split_at((samples.len() as f64 * cut) as usize);
            let mut merged = moments_of(early);
            merged.merge(&moments_of(late));
            let whole = moments_of(&samples);
            prop_assert_eq!(merged.count(), whole.count());
            prop_assert_eq!((merged.min(), merged.max()), (whole.min(), whole.max()));
            prop_assert!((merged.mean().unwrap() - whole.mean().unwrap()).abs() < 1e-6);
            let variance = whole.variance().unwrap();
            prop_assert!((merged.variance().unwrap() - variance).abs() <= 1e-9 * variance + 1e-9);
        }
    }
}
