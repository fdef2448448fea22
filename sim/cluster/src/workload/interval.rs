//! Time between two messages.

use viaduct_engine::{Stream, Time};

use super::error::DistributionError;
use super::exponential::exponential;
use super::normal::LogNormal;
use super::piecewise::{Piecewise, unit};

/// The distribution of the time between two messages of a process.
///
/// Means are picoseconds in 64-bit floating point, so that a rate need not be a whole number of
/// picoseconds; each drawn interval is rounded to the nearest picosecond and is at most
/// [`INTERVAL_PICOSECONDS_MAX`].
///
/// ```
/// use viaduct_engine::{Stream, StreamKey};
/// use viaduct_cluster::workload::Interval;
///
/// let interval = Interval::exponential(1e12 / 100.0)?; // 100 messages a second
/// let mut stream = Stream::new(StreamKey { seed: 1, purpose: 0, entity: 0 });
/// let next = interval.sample(&mut stream);
/// assert!(next.picoseconds() > 0);
/// # Ok::<(), viaduct_cluster::workload::DistributionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    kind: Kind,
    mean_picoseconds: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Constant(Time),
    Exponential,
    Uniform { min: f64, width: f64 },
    Pareto { scale: f64, inverse_shape: f64 },
    LogNormal(LogNormal),
    Empirical(Piecewise),
}

impl Interval {
    /// Always the same.
    ///
    /// # Errors
    ///
    /// When the mean is not within 1 to [`INTERVAL_PICOSECONDS_MAX`].
    pub fn constant(mean_picoseconds: f64) -> Result<Self, DistributionError> {
        Self::checked(Kind::Constant(round(mean_picoseconds)), mean_picoseconds)
    }

    /// Exponential: the arrivals are a Poisson process.
    ///
    /// # Errors
    ///
    /// When the mean is not within 1 to [`INTERVAL_PICOSECONDS_MAX`].
    pub fn exponential(mean_picoseconds: f64) -> Result<Self, DistributionError> {
        Self::checked(Kind::Exponential, mean_picoseconds)
    }

    /// Each value from `min` to `max`, in picoseconds, equally likely; the mean is in the middle.
    ///
    /// # Errors
    ///
    /// When the range falls or leaves 0 to [`INTERVAL_PICOSECONDS_MAX`], or its mean is below 1.
    pub fn uniform(min: f64, max: f64) -> Result<Self, DistributionError> {
        let limit = INTERVAL_PICOSECONDS_MAX;
        if !(min >= 0.0 && min <= max && max <= limit) {
            return Err(DistributionError::Range {
                min,
                max,
                floor: 0.0,
                limit,
            });
        }
        Self::checked(
            Kind::Uniform {
                min,
                width: max - min,
            },
            min + (max - min) / 2.0,
        )
    }

    /// Pareto of the given mean: the share of intervals above x falls as x to the power of
    /// -`shape`.
    ///
    /// The shortest interval is `mean * (shape - 1) / shape`. Up to shape 2 the variance is
    /// infinite, and the mean of a run approaches the given one very slowly from below.
    ///
    /// # Errors
    ///
    /// When the shape is not above 1, or the mean not within 1 to [`INTERVAL_PICOSECONDS_MAX`].
    pub fn pareto(mean_picoseconds: f64, shape: f64) -> Result<Self, DistributionError> {
        if !(shape > 1.0 && shape <= SHAPE_MAX) {
            return Err(DistributionError::Shape {
                value: shape,
                above: 1.0,
                max: SHAPE_MAX,
            });
        }
        let scale = mean_picoseconds * ((shape - 1.0) / shape);
        Self::checked(
            Kind::Pareto {
                scale,
                inverse_shape: 1.0 / shape,
            },
            mean_picoseconds,
        )
    }

    /// Log-normal of the given mean and coefficient of variation (deviation over mean).
    ///
    /// # Errors
    ///
    /// When the mean is not within 1 to [`INTERVAL_PICOSECONDS_MAX`], or the variation not above
    /// 0 and at most 1,000.
    pub fn log_normal(mean_picoseconds: f64, variation: f64) -> Result<Self, DistributionError> {
        check_mean(mean_picoseconds)?;
        let distribution = LogNormal::new(mean_picoseconds, variation)?;
        Self::checked(Kind::LogNormal(distribution), mean_picoseconds)
    }

    /// From a table of (picoseconds, cumulative probability), linear in between.
    ///
    /// # Errors
    ///
    /// As [`Piecewise::new`] says, and when the mean is below 1.
    pub fn empirical(points: Vec<(f64, f64)>) -> Result<Self, DistributionError> {
        let table = Piecewise::new(points, INTERVAL_PICOSECONDS_MAX)?;
        let mean_picoseconds = table.mean();
        Self::checked(Kind::Empirical(table), mean_picoseconds)
    }

    fn checked(kind: Kind, mean_picoseconds: f64) -> Result<Self, DistributionError> {
        check_mean(mean_picoseconds)?;
        Ok(Self {
            kind,
            mean_picoseconds,
        })
    }

    /// The mean, picoseconds.
    #[must_use]
    pub fn mean_picoseconds(&self) -> f64 {
        self.mean_picoseconds
    }

    /// The mean, to the nearest picosecond.
    #[must_use]
    pub fn mean(&self) -> Time {
        round(self.mean_picoseconds)
    }

    /// Whether every interval is the same, and no random number is used up.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        matches!(self.kind, Kind::Constant(_))
    }

    /// Draws one interval.
    #[inline]
    #[must_use]
    pub fn sample(&self, stream: &mut Stream) -> Time {
        match &self.kind {
            Kind::Constant(interval) => *interval,
            Kind::Exponential => round(self.mean_picoseconds * exponential(stream)),
            Kind::Uniform { min, width } => round(min + width * unit(stream.next_u64())),
            Kind::Pareto {
                scale,
                inverse_shape,
            } => {
                // The logarithm of a Pareto variable is exponential.
                round(scale * libm::exp(exponential(stream) * inverse_shape))
            }
            Kind::LogNormal(distribution) => round(distribution.sample(stream)),
            Kind::Empirical(table) => round(table.sample(stream)),
        }
    }
}

/// To the nearest picosecond, at most the limit; the argument is never negative.
#[inline]
fn round(picoseconds: f64) -> Time {
    Time::from_picoseconds((picoseconds.min(INTERVAL_PICOSECONDS_MAX) + 0.5) as u64)
}

/// A mean below one picosecond would round to intervals of zero, and time would stand still.
fn check_mean(value: f64) -> Result<(), DistributionError> {
    if (1.0..=INTERVAL_PICOSECONDS_MAX).contains(&value) {
        return Ok(());
    }
    Err(DistributionError::Mean {
        value,
        min: 1.0,
        max: INTERVAL_PICOSECONDS_MAX,
    })
}

/// The longest interval, 2^61 picoseconds (26 days): adding one to any time of a run cannot
/// overflow.
pub const INTERVAL_PICOSECONDS_MAX: f64 = (1_u64 << 61) as f64;

/// Above this a Pareto variable is constant to within a part in a million.
pub(super) const SHAPE_MAX: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::super::normal::normal_below;
    use super::super::test_support::{assert_follows, assert_mean, stream};
    use super::*;

    const MEAN: f64 = 1e9;

    fn samples(interval: &Interval, entity: u64) -> Vec<f64> {
        let mut stream = stream(entity);
        (0..200_000)
            .map(|_| interval.sample(&mut stream).picoseconds() as f64)
            .collect()
    }

    #[test]
    fn constant_is_rounded_and_uses_no_random_number() {
        let interval = Interval::constant(1_234.5).unwrap();
        let (mut used, mut fresh) = (stream(1), stream(1));
        assert_eq!(interval.sample(&mut used).picoseconds(), 1_235);
        assert_eq!(used.next_u64(), fresh.next_u64());
        assert!(interval.is_constant() && interval.mean_picoseconds() == 1_234.5);
    }

    #[test]
    fn exponential_follows_its_distribution() {
        let drawn = samples(&Interval::exponential(MEAN).unwrap(), 2);
        assert_mean(&drawn, MEAN);
        assert_follows(drawn, |x| 1.0 - libm::exp(-x / MEAN));
    }

    #[test]
    fn uniform_follows_its_distribution() {
        let interval = Interval::uniform(2e8, 1e9).unwrap();
        assert_eq!(interval.mean_picoseconds(), 6e8);
        let drawn = samples(&interval, 3);
        assert_mean(&drawn, 6e8);
        assert_follows(drawn, |x| (x - 2e8) / 8e8);
    }

    #[test]
    fn pareto_follows_its_distribution() {
        let drawn = samples(&Interval::pareto(MEAN, 2.5).unwrap(), 4);
        assert_mean(&drawn, MEAN);
        let scale = MEAN * 0.6;
        assert_follows(drawn, |x| 1.0 - libm::pow(scale / x, 2.5));
    }

    #[test]
    fn log_normal_follows_its_distribution() {
        let drawn = samples(&Interval::log_normal(MEAN, 1.5).unwrap(), 5);
        assert_mean(&drawn, MEAN);
        let variance = libm::log(1.0 + 2.25);
        let location = libm::log(MEAN) - variance / 2.0;
        assert_follows(drawn, |x| {
            normal_below((libm::log(x) - location) / variance.sqrt())
        });
    }

    #[test]
    fn table_follows_its_distribution() {
        let points = vec![(1e8, 0.0), (2e8, 0.5), (1e9, 0.75), (2e9, 1.0)];
        let interval = Interval::empirical(points.clone()).unwrap();
        // 0.5 * 1.5 + 0.25 * 6 + 0.25 * 15, in 1e8.
        assert_eq!(interval.mean_picoseconds(), 6e8);
        let drawn = samples(&interval, 6);
        assert_mean(&drawn, 6e8);
        assert_follows(drawn, |x| {
            let above = points.partition_point(|point| point.0 <= x).clamp(1, 3);
            let (low, high) = (points[above - 1], points[above]);
            low.1 + (high.1 - low.1) * (x - low.0) / (high.0 - low.0)
        });
    }

    #[test]
    fn equal_streams_draw_equal_intervals_on_every_machine() {
        // Golden values, so that a machine, a compiler or a library that draws otherwise is seen.
        let digest = |interval: Interval| {
            let mut stream = stream(7);
            (0..10_000).fold(0_u64, |digest, _| {
                digest.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    ^ interval.sample(&mut stream).picoseconds()
            })
        };
        assert_eq!(
            digest(Interval::exponential(MEAN).unwrap()),
            16_610_826_993_643_844_275
        );
        assert_eq!(
            digest(Interval::pareto(MEAN, 1.5).unwrap()),
            9_541_246_274_944_494_926
        );
        assert_eq!(
            digest(Interval::log_normal(MEAN, 2.0).unwrap()),
            1_761_584_460_419_590_766
        );
    }

    #[test]
    fn intervals_stay_below_the_limit() {
        let interval = Interval::pareto(INTERVAL_PICOSECONDS_MAX, 1.000_001).unwrap();
        let mut stream = stream(8);
        for _ in 0..100_000 {
            assert!(interval.sample(&mut stream).picoseconds() <= 1 << 61);
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_is_wrong() {
        let not_a_mean = [0.0, -1.0, 0.99, f64::NAN, f64::INFINITY, 2.4e18];
        for mean in not_a_mean {
            let refused = |result: Result<Interval, DistributionError>| {
                matches!(result, Err(DistributionError::Mean { .. }))
            };
            assert!(refused(Interval::constant(mean)), "{mean}");
            assert!(refused(Interval::exponential(mean)), "{mean}");
            assert!(refused(Interval::pareto(mean, 2.0)), "{mean}");
            assert!(refused(Interval::log_normal(mean, 2.0)), "{mean}");
        }
        for shape in [1.0, 0.5, -3.0, f64::NAN, f64::INFINITY] {
            let error = Interval::pareto(MEAN, shape).unwrap_err();
            assert!(matches!(error, DistributionError::Shape { .. }), "{shape}");
        }
        for variation in [0.0, -1.0, f64::NAN, 1_000.1] {
            let error = Interval::log_normal(MEAN, variation).unwrap_err();
            assert!(
                matches!(error, DistributionError::Variation { .. }),
                "{variation}"
            );
        }
        for (min, max) in [
            (2.0, 1.0),
            (-1.0, 5.0),
            (f64::NAN, 5.0),
            (1.0, f64::INFINITY),
        ] {
            let error = Interval::uniform(min, max).unwrap_err();
            assert!(
                matches!(error, DistributionError::Range { .. }),
                "{min} to {max}"
            );
        }
        assert!(Interval::uniform(0.0, 0.0).is_err());
        assert!(Interval::empirical(vec![(0.0, 0.0), (0.5, 1.0)]).is_err());
        assert_eq!(
            Interval::constant(0.0).unwrap_err().to_string(),
            "the mean is 0; it must lie within 1 to 2305843009213694000"
        );
    }
}
