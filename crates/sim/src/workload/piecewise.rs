//! A distribution given as a table, linear between its points.

use std::sync::Arc;

use viaduct_engine::Stream;

use super::error::DistributionError;

/// A distribution given by points (value, cumulative probability), linear in between.
///
/// A step (two points of equal value) and a first probability above 0 put weight on one value. A
/// clone shares the table.
#[derive(Clone, Debug)]
pub struct Piecewise {
    table: Arc<Table>,
}

#[derive(Debug)]
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
