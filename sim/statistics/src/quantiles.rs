//! Quantiles from a histogram whose buckets keep three significant digits.

use hdrhistogram::Histogram;

use crate::Merge;

/// Quantiles of a stream of whole numbers, to three significant digits.
///
/// The caller chooses the unit. Numbers below 2,048 are exact; above, a reading is off by at most
/// 0.05 % and never outside what was taken. Empty it is one word; with samples it grows to the
/// largest: 16 KiB and 8 KiB more for each doubling above 2,048 (about 240 KiB for a range of
/// 1 ns to 1 s in nanoseconds).
#[derive(Clone, Debug, Default)]
pub struct Quantiles(Option<Box<Recorded>>);

#[derive(Clone, Debug)]
struct Recorded {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
}

impl Quantiles {
    /// Takes one number; what is above [`VALUE_MAX`] counts as that.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let value = value.min(VALUE_MAX);
        let recorded = self.0.get_or_insert_with(Recorded::new);
        recorded.min = recorded.min.min(value);
        recorded.max = recorded.max.max(value);
        recorded
            .histogram
            .record(value)
            .expect("a histogram that resizes takes up to 2^62");
    }

    /// How many were taken.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0
            .as_ref()
            .map_or(0, |recorded| recorded.histogram.len())
    }

    /// Whether none was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The number that a share `quantile` (0 to 1) of all does not exceed; none of none.
    ///
    /// 0 and 1 give the exact extremes.
    #[must_use]
    pub fn value_at(&self, quantile: f64) -> Option<u64> {
        let recorded = self.0.as_deref()?;
        if quantile >= 1.0 {
            return Some(recorded.max);
        }
        if quantile <= 0.0 {
            return Some(recorded.min);
        }
        let value = recorded.histogram.value_at_quantile(quantile);
        Some(recorded.middle_of(value))
    }

    /// The share of all that lies in buckets up to the one of `value`; none of none.
    #[must_use]
    pub fn share_up_to(&self, value: u64) -> Option<f64> {
        let recorded = self.0.as_deref()?;
        Some(recorded.histogram.quantile_below(value.min(VALUE_MAX)))
    }

    /// The exact smallest; none of none.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        self.0.as_ref().map(|recorded| recorded.min)
    }

    /// The exact largest; none of none.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.0.as_ref().map(|recorded| recorded.max)
    }

    /// The mean of the buckets' middles, within 0.05 % of the true mean; none of none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.0.as_ref().map(|recorded| recorded.histogram.mean())
    }

    /// The cumulative distribution as (value, share up to it), both rising, the last share 1: at
    /// most `points_max` points, evenly spread over the buckets in use so that the tail keeps its
    /// shape.
    #[must_use]
    pub fn distribution(&self, points_max: usize) -> Vec<(u64, f64)> {
        let Some(recorded) = self.0.as_deref() else {
            return Vec::new();
        };
        let histogram = &recorded.histogram;
        let buckets = histogram.iter_recorded().count();
        let stride = buckets.div_ceil(points_max.max(1));
        let mut points = Vec::with_capacity(buckets.min(points_max));
        let mut up_to = 0;
        for (index, bucket) in histogram.iter_recorded().enumerate() {
            up_to += bucket.count_since_last_iteration();
            // Counted from the end, so that the last bucket is always a point.
            if (buckets - 1 - index).is_multiple_of(stride) && points_max > 0 {
                let value = recorded.middle_of(bucket.value_iterated_to());
                points.push((value, up_to as f64 / histogram.len() as f64));
            }
        }
        if let Some(last) = points.last_mut() {
            last.0 = recorded.max;
        }
        points
    }

    /// Bytes that this takes, its own word included.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let counts = self.0.as_ref().map_or(0, |recorded| {
            size_of::<Recorded>() + recorded.histogram.distinct_values() * size_of::<u64>()
        });
        size_of::<Self>() + counts
    }
}

impl Recorded {
    fn new() -> Box<Self> {
        let histogram = Histogram::new(3).expect("three digits are allowed");
        Box::new(Self {
            histogram,
            min: u64::MAX,
            max: 0,
        })
    }

    /// The middle of the bucket that holds `value`, within what was taken.
    fn middle_of(&self, value: u64) -> u64 {
        self.histogram
            .median_equivalent(value)
            .clamp(self.min, self.max)
    }
}

impl Merge for Quantiles {
    /// As if the other's numbers had been taken here.
    fn merge(&mut self, other: &Self) {
        let Some(there) = other.0.as_deref() else {
            return;
        };
        let here = self.0.get_or_insert_with(Recorded::new);
        here.histogram
            .add(&there.histogram)
            .expect("a histogram that resizes takes up to 2^62");
        here.min = here.min.min(there.min);
        here.max = here.max.max(there.max);
    }
}

/// The largest number that is told apart.
pub const VALUE_MAX: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantiles_of(samples: &[u64]) -> Quantiles {
        let mut quantiles = Quantiles::default();
        samples.iter().for_each(|&sample| quantiles.record(sample));
        quantiles
    }

    #[test]
    fn empty_answers_nothing_and_is_small() {
        let quantiles = Quantiles::default();
        assert_eq!(quantiles.value_at(0.5), None);
        assert_eq!(
            (quantiles.min(), quantiles.max(), quantiles.count()),
            (None, None, 0)
        );
        assert!(quantiles.mean().is_none() && quantiles.share_up_to(7).is_none());
        assert!(quantiles.distribution(10).is_empty() && quantiles.is_empty());
        assert_eq!(quantiles.memory_bytes(), 8);
    }

    #[test]
    fn small_numbers_are_exact() {
        let quantiles = quantiles_of(&(1..=1000).collect::<Vec<_>>());
        assert_eq!(quantiles.value_at(0.5), Some(500));
        assert_eq!(quantiles.value_at(0.99), Some(990));
        assert_eq!(quantiles.value_at(0.0), Some(1));
        assert_eq!(quantiles.value_at(1.0), Some(1000));
        assert_eq!(quantiles.mean(), Some(500.5));
        assert_eq!(quantiles.share_up_to(250), Some(0.25));
    }

    #[test]
    fn largest_numbers_are_taken() {
        let quantiles = quantiles_of(&[0, VALUE_MAX, u64::MAX]);
        assert_eq!(
            (quantiles.min(), quantiles.max()),
            (Some(0), Some(VALUE_MAX))
        );
        assert_eq!(quantiles.count(), 3);
        assert!(
            quantiles.memory_bytes() < 500_000,
            "{}",
            quantiles.memory_bytes()
        );
    }

    #[test]
    fn memory_follows_the_largest_not_the_count() {
        let quantiles = quantiles_of(&(0..200_000).map(|n| n * 5_000).collect::<Vec<_>>());
        assert!(
            quantiles.memory_bytes() < 300_000,
            "{}",
            quantiles.memory_bytes()
        );
    }

    proptest! {
        #[test]
        fn within_a_part_in_two_thousand_of_sorting(
            mut samples in prop::collection::vec(0..1_u64 << 50, 1..300),
            quantile in 0.0..=1.0,
        ) {
            let reading = quantiles_of(&samples).value_at(quantile).unwrap();
            samples.sort_unstable();
            let rank = ((quantile * samples.len() as f64).ceil() as usize).max(1);
            let exact = samples[rank - 1];
            prop_assert!(reading.abs_diff(exact) as f64 <= exact as f64 * 0.0005 + 1.0);
        }

        #[test]
        fn merging_is_recording_everything(
            one in prop::collection::vec(0..1_u64 << 40, 0..100),
            two in prop::collection::vec(0..1_u64 << 40, 0..100),
        ) {
            let mut merged = quantiles_of(&one);
            merged.merge(&quantiles_of(&two));
            let whole = quantiles_of(&[one, two].concat());
            prop_assert_eq!(merged.distribution(usize::MAX), whole.distribution(usize::MAX));
            prop_assert_eq!(merged.count(), whole.count());
        }

        #[test]
        fn distribution_rises_to_one_in_at_most_the_points_asked_for(
            samples in prop::collection::vec(0..1_u64 << 40, 1..300),
            points_max in 1..50_usize,
        ) {
            let points = quantiles_of(&samples).distribution(points_max);
            prop_assert!(!points.is_empty() && points.len() <= points_max);
            prop_assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1));
            let largest = samples.iter().copied().max();
            prop_assert_eq!(points.last().copied(), largest.map(|largest| (largest, 1.0)));
        }
    }
}
