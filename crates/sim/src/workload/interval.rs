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
/// use viaduct_sim::workload::Interval;
///
/// let interval = Interval::exponential(1e12 / 100.0)?; // 100 messages a second
/// let mut stream = Stream::new(StreamKey { seed: 1, purpose: 0, entity: 0 });
/// let next = interval.sample(&mut stream);
/// assert!(next.picoseconds() > 0);
/// # Ok::<(), viaduct_sim::workload::DistributionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Interval {
    kind: Kind,
    mean_picoseconds: f64,
}

#[derive(Clone, Debug)]
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

    /// Pareto of the given mean: the share of intervals above x falls as x to the power of -`shape`.
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
