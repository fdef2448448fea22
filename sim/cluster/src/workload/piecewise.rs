//! A distribution given as a table, linear between its points.

use std::sync::Arc;

use viaduct_engine::Stream;

use super::error::DistributionError;

/// A distribution given by points (value, cumulative probability), linear in between.
///
/// A step (two points of equal value) and a first probability above 0 put weight on one value. A
/// clone shares the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Piecewise {
    table: Arc<Table>,
}

#[derive(Debug, PartialEq)]
struct Table {
    /// The points, probabilities rising from `>= 0` to 1.
    points: Vec<(f64, f64)>,
    /// The first point above each of the bounds of [`GUIDES`] equal parts of 0 to 1: a draw
    /// searches only between its part's two (Chen and Asau 1974).
    guides: Vec<u32>,
    mean: f64,
}

impl Piecewise {
    /// From points whose values and cumulative probabilities both rise; the last probability is 1.
    ///
    /// # Errors
    ///
    /// When there are fewer than 2 or more than [`TABLE_POINTS_MAX`] points, when a value is not
    /// within 0 to `value_max`, when a column falls, or when the last probability is not 1.
    pub fn new(points: Vec<(f64, f64)>, value_max: f64) -> Result<Self, DistributionError> {
        let count = points.len();
        if !(2..=TABLE_POINTS_MAX).contains(&count) {
            return Err(DistributionError::TableLength {
                count,
                max: TABLE_POINTS_MAX,
            });
        }
        let mut before = (0.0, 0.0);
        for (index, &(value, probability)) in points.iter().enumerate() {
            let point = index + 1;
            if !(before.0..=value_max).contains(&value) {
                return Err(DistributionError::TableValue {
                    point,
                    value,
                    max: value_max,
                });
            }
            let last_below_one = point == count && probability != 1.0;
            if !(before.1..=1.0).contains(&probability) || last_below_one {
                return Err(DistributionError::TableProbability {
                    point,
                    value: probability,
                });
            }
            before = (value, probability);
        }
        let mean = points[0].0 * points[0].1
            + points
                .windows(2)
                .map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) / 2.0)
                .sum::<f64>();
        let guides = (0..=GUIDES)
            .map(|part| {
                let bound = part as f64 / GUIDES as f64;
                let above = points.partition_point(|&(_, probability)| probability <= bound);
                above.min(count - 1) as u32
            })
            .collect();
        Ok(Self {
            table: Arc::new(Table {
                points,
                guides,
                mean,
            }),
        })
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.table.mean
    }

    /// The points (value, cumulative probability).
    #[must_use]
    pub fn points(&self) -> &[(f64, f64)] {
        &self.table.points
    }

    /// The smallest value with any weight at or below it.
    #[must_use]
    pub fn min(&self) -> f64 {
        let points = &self.table.points;
        let rises = points
            .iter()
            .position(|&(_, probability)| probability > 0.0);
        match rises {
            Some(0) | None => points[0].0,
            Some(above) => points[above - 1].0,
        }
    }

    /// The largest value with any weight at or above it.
    #[must_use]
    pub fn max(&self) -> f64 {
        let points = &self.table.points;
        let full = points.partition_point(|&(_, probability)| probability < 1.0);
        points[full].0
    }

    /// The value at cumulative probability `probability`, which must lie within 0 up to 1.
    #[inline]
    pub(super) fn quantile(&self, probability: f64) -> f64 {
        let Table { points, guides, .. } = &*self.table;
        let part = (probability * GUIDES as f64) as usize;
        let (first, last) = (guides[part] as usize, guides[part + 1] as usize);
        let above = first + points[first..last].partition_point(|point| point.1 <= probability);
        let Some(below) = above.checked_sub(1) else {
            return points[0].0;
        };
        let (low, high) = (points[below], points[above]);
        low.0 + (high.0 - low.0) * ((probability - low.1) / (high.1 - low.1))
    }

    /// A value drawn from the distribution.
    #[inline]
    pub(super) fn sample(&self, stream: &mut Stream) -> f64 {
        self.quantile(unit(stream.next_u64()))
    }
}

/// The top 53 of 64 random bits as a number from 0 up to 1 exclusive, in steps of 2^-53.
#[inline]
pub(super) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Most points of a table.
pub const TABLE_POINTS_MAX: usize = 1 << 20;

const GUIDES: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn weight_on_single_values_is_kept() {
        // A quarter at 5 exactly, a quarter at 8 exactly, the rest between 8 and 10.
        let table = Piecewise::new(vec![(5.0, 0.25), (8.0, 0.25), (8.0, 0.5), (10.0, 1.0)], 1e3);
        let table = table.unwrap();
        assert_eq!(table.mean(), 5.0 * 0.25 + 8.0 * 0.25 + 9.0 * 0.5);
        assert_eq!((table.min(), table.max()), (5.0, 10.0));
        let values = [0.0, 0.249, 0.25, 0.499, 0.5, 0.75].map(|share| table.quantile(share));
        assert_eq!(values, [5.0, 5.0, 8.0, 8.0, 8.0, 9.0]);
    }

    #[test]
    fn extremes_leave_out_points_without_weight() {
        let points = vec![(0.0, 0.0), (5.0, 0.0), (10.0, 1.0), (20.0, 1.0)];
        let table = Piecewise::new(points, 1e3).unwrap();
        assert_eq!((table.min(), table.max(), table.mean()), (5.0, 10.0, 7.5));
    }

    #[test]
    fn wrong_tables_are_refused() {
        let refused = |points: &[(f64, f64)]| Piecewise::new(points.to_vec(), 100.0).unwrap_err();
        assert_eq!(
            refused(&[(1.0, 1.0)]),
            DistributionError::TableLength {
                count: 1,
                max: TABLE_POINTS_MAX
            }
        );
        let value = |point, value| DistributionError::TableValue {
            point,
            value,
            max: 100.0,
        };
        assert_eq!(refused(&[(0.0, 0.0), (101.0, 1.0)]), value(2, 101.0));
        assert_eq!(refused(&[(5.0, 0.0), (4.0, 1.0)]), value(2, 4.0));
        assert_eq!(refused(&[(-1.0, 0.0), (4.0, 1.0)]), value(1, -1.0));
        assert!(Piecewise::new(vec![(f64::NAN, 0.0), (4.0, 1.0)], 100.0).is_err());
        let probability = |point, value| DistributionError::TableProbability { point, value };
        assert_eq!(refused(&[(0.0, 0.0), (4.0, 0.99)]), probability(2, 0.99));
        assert_eq!(
            refused(&[(0.0, 0.5), (4.0, 0.4), (5.0, 1.0)]),
            probability(2, 0.4)
        );
        assert_eq!(refused(&[(0.0, -0.5), (4.0, 1.0)]), probability(1, -0.5));
        assert_eq!(refused(&[(0.0, 0.0), (4.0, 1.5)]), probability(2, 1.5));
        assert!(Piecewise::new(vec![(0.0, 0.0), (4.0, f64::NAN)], 100.0).is_err());
    }

    #[test]
    fn longest_table_is_taken_and_one_more_refused() {
        let points = |count: usize| {
            (0..count)
                .map(|n| (n as f64, n as f64 / (count - 1) as f64))
                .collect::<Vec<_>>()
        };
        assert!(Piecewise::new(points(TABLE_POINTS_MAX), 1e9).is_ok());
        assert!(Piecewise::new(points(TABLE_POINTS_MAX + 1), 1e9).is_err());
    }

    proptest! {
        #[test]
        fn quantile_agrees_with_a_search_from_the_front(
            steps in prop::collection::vec((0.0..10.0_f64, prop_oneof![Just(0.0), 0.0..1.0_f64]), 2..600),
            shares in prop::collection::vec(0.0..1.0_f64, 20),
        ) {
            let total: f64 = steps.iter().map(|step| step.1).sum::<f64>() + 0.1;
            let (mut value, mut sum) = (0.0, 0.0);
            let mut points = Vec::new();
            for (rise, weight) in steps {
                value += rise;
                sum += weight;
                points.push((value, sum / total));
            }
            points.push((value + 1.0, 1.0));
            let table = Piecewise::new(points.clone(), 1e9).unwrap();
            for share in shares {
                let above = points.iter().position(|point| point.1 > share).unwrap();
                let expected = if above == 0 { points[0].0 } else {
                    let (low, high) = (points[above - 1], points[above]);
                    low.0 + (high.0 - low.0) * ((share - low.1) / (high.1 - low.1))
                };
                prop_assert_eq!(table.quantile(share), expected);
            }
        }
    }
}
