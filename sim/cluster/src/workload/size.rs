//! Bytes of a message.

use std::sync::{Arc, OnceLock};

use viaduct_engine::Stream;

use super::error::DistributionError;
use super::interval::SHAPE_MAX;
use super::message_list::MessageList;
use super::normal::LogNormal;
use super::piecewise::{Piecewise, unit};

/// The distribution of a message's payload bytes.
///
/// Continuous distributions are rounded to the nearest byte and give at least 1 byte.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeDistribution {
    kind: Kind,
    mean_bytes: f64,
    min_bytes: u32,
    max_bytes: u32,
    /// Those of [`Self::mean_of`], once they are asked for.
    draws: Draws,
}

/// Not shown: they follow from the rest.
#[derive(Clone, Default)]
struct Draws(Arc<OnceLock<Vec<u32>>>);

impl PartialEq for Draws {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl core::fmt::Debug for Draws {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.write_str("_")
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Constant,
    Uniform,
    Pareto { lost: f64, inverse_shape: f64 },
    LogNormal(LogNormal),
    Empirical(Piecewise),
    Listed(Arc<MessageList>),
}

impl SizeDistribution {
    /// Always the same; 0 is a message of a descriptor alone.
    #[must_use]
    pub fn constant(bytes: u32) -> Self {
        Self {
            kind: Kind::Constant,
            mean_bytes: f64::from(bytes),
            min_bytes: bytes,
            max_bytes: bytes,
            draws: Draws::default(),
        }
    }

    /// Each whole number of bytes from `min_bytes` to `max_bytes` equally likely, both included.
    ///
    /// # Errors
    ///
    /// When the range falls.
    pub fn uniform(min_bytes: u32, max_bytes: u32) -> Result<Self, DistributionError> {
        if min_bytes > max_bytes {
            return Err(range(min_bytes, max_bytes, 0));
        }
        let mean_bytes = (f64::from(min_bytes) + f64::from(max_bytes)) / 2.0;
        Ok(Self {
            kind: Kind::Uniform,
            mean_bytes,
            min_bytes,
            max_bytes,
            draws: Draws::default(),
        })
    }

    /// Pareto between two bounds: the density falls as size to the power of -(`shape` + 1).
    ///
    /// # Errors
    ///
    /// When the range falls or begins at 0, or the shape is not above 0 and at most a million.
    pub fn pareto(min_bytes: u32, max_bytes: u32, shape: f64) -> Result<Self, DistributionError> {
        if min_bytes == 0 || min_bytes > max_bytes {
            return Err(range(min_bytes, max_bytes, 1));
        }
        if !(shape > 0.0 && shape <= SHAPE_MAX) {
            return Err(DistributionError::Shape {
                value: shape,
                above: 0.0,
                max: SHAPE_MAX,
            });
        }
        if min_bytes == max_bytes {
            return Ok(Self::constant(min_bytes));
        }
        let (low, high) = (f64::from(min_bytes), f64::from(max_bytes));
        // 1 - (low / high)^shape: what a Pareto variable without upper bound has below `high`.
        let lost = -libm::expm1(shape * libm::log(low / high));
        let mean_bytes = low * pareto_moment(1.0, shape, lost, high / low);
        let kind = Kind::Pareto {
            lost,
            inverse_shape: 1.0 / shape,
        };
        Ok(Self {
            kind,
            mean_bytes,
            min_bytes,
            max_bytes,
            draws: Draws::default(),
        })
    }

    /// Log-normal of the given mean and coefficient of variation (deviation over mean); what
    /// would be larger than `max_bytes` is cut to it.
    ///
    /// [`Self::mean_bytes`] is the mean with the cut.
    ///
    /// # Errors
    ///
    /// When the mean is not within 1 to `max_bytes`, or the variation not above 0 and at most
    /// 1,000.
    pub fn log_normal(
        mean_bytes: f64,
        variation: f64,
        max_bytes: u32,
    ) -> Result<Self, DistributionError> {
        let max = f64::from(max_bytes);
        if !(1.0..=max).contains(&mean_bytes) {
            return Err(DistributionError::Mean {
                value: mean_bytes,
                min: 1.0,
                max,
            });
        }
        let distribution = LogNormal::new(mean_bytes, variation)?;
        let mean_bytes = distribution.mean_capped(max);
        Ok(Self {
            kind: Kind::LogNormal(distribution),
            mean_bytes,
            min_bytes: 1,
            max_bytes,
            draws: Draws::default(),
        })
    }

    /// From a table of (bytes, cumulative probability), linear in between: a flow-size CDF as
    /// [`parse_size_cdf`](super::parse_size_cdf) reads.
    ///
    /// # Errors
    ///
    /// As [`Piecewise::new`] says, with values up to the largest 32-bit number.
    pub fn empirical(points: Vec<(f64, f64)>) -> Result<Self, DistributionError> {
        let table = Piecewise::new(points, f64::from(u32::MAX))?;
        Ok(Self {
            mean_bytes: table.mean().max(1.0),
            min_bytes: round(table.min(), u32::MAX),
            max_bytes: round(table.max(), u32::MAX),
            kind: Kind::Empirical(table),
            draws: Draws::default(),
        })
    }

    /// The sizes of a list, each message equally likely.
    #[must_use]
    pub fn listed(list: &Arc<MessageList>) -> Self {
        let (min_bytes, max_bytes, mean_bytes) = list.bytes_range();
        if min_bytes == max_bytes {
            return Self::constant(min_bytes);
        }
        Self {
            kind: Kind::Listed(Arc::clone(list)),
            mean_bytes,
            min_bytes,
            max_bytes,
            draws: Draws::default(),
        }
    }

    /// The mean, bytes.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        self.mean_bytes
    }

    /// No message is smaller.
    #[must_use]
    pub fn min_bytes(&self) -> u32 {
        self.min_bytes
    }

    /// No message is larger.
    #[must_use]
    pub fn max_bytes(&self) -> u32 {
        self.max_bytes
    }

    /// Draws the bytes of one message.
    #[inline]
    #[must_use]
    pub fn sample(&self, stream: &mut Stream) -> u32 {
        match &self.kind {
            Kind::Constant => self.min_bytes,
            Kind::Uniform => {
                let values = u64::from(self.max_bytes) - u64::from(self.min_bytes) + 1;
                self.min_bytes + stream.below(values) as u32
            }
            Kind::Pareto {
                lost,
                inverse_shape,
            } => {
                let above = 1.0 - lost * unit(stream.next_u64());
                let bytes = f64::from(self.min_bytes) * libm::pow(above, -inverse_shape);
                round(bytes, self.max_bytes)
            }
            Kind::LogNormal(distribution) => round(distribution.sample(stream), self.max_bytes),
            Kind::Empirical(table) => round(table.sample(stream), self.max_bytes),
            Kind::Listed(list) => list.bytes(stream.below(list.len() as u64) as usize),
        }
    }

    /// The mean of `cost(bytes)` over the sizes: exact if there is one size, otherwise over
    /// 100,000 draws that are the same on every call.
    ///
    /// Where `cost` is about proportional to the size, pass the difference and add the exact
    /// [`Self::mean_bytes`], to be rid of most of the error.
    #[must_use]
    pub fn mean_of(&self, mut cost: impl FnMut(u32) -> f64) -> f64 {
        if matches!(self.kind, Kind::Constant) {
            return cost(self.min_bytes);
        }
        let draws = self.draws.0.get_or_init(|| {
            let mut stream = Stream::new(viaduct_engine::StreamKey {
                seed: 0,
                purpose: 0,
                entity: 0,
            });
            (0..DRAWS).map(|_| self.sample(&mut stream)).collect()
        });
        let sum: f64 = draws.iter().map(|&bytes| cost(bytes)).sum();
        sum / f64::from(DRAWS)
    }

    /// E\[size^4\] / E\[size^2\]^2: how rare the sizes are that the mean square is made of. 1 if
    /// all are equal; exact for Pareto, of others over the draws of [`Self::mean_of`].
    #[must_use]
    pub fn squares_kurtosis(&self) -> f64 {
        let power = |order: f64| match &self.kind {
            Kind::Pareto {
                lost,
                inverse_shape,
            } => {
                let ratio = f64::from(self.max_bytes) / f64::from(self.min_bytes);
                pareto_moment(order, 1.0 / inverse_shape, *lost, ratio)
            }
            _ => self.mean_of(|bytes| {
                let square = f64::from(bytes) * f64::from(bytes);
                if order > 2.0 { square * square } else { square }
            }),
        };
        let square = power(2.0);
        if square > 0.0 {
            power(4.0) / (square * square)
        } else {
            1.0
        }
    }
}

/// The mean of X to the power of `order` for a Pareto variable between 1 and `ratio`.
fn pareto_moment(order: f64, shape: f64, lost: f64, ratio: f64) -> f64 {
    // shape / lost * (integral of t^(order - shape - 1) from 1 to the ratio); the integral as
    // (e^(b l) - 1) / b with b = order - shape stays exact where b is near 0.
    let (exponent, log_ratio) = (order - shape, libm::log(ratio));
    let integral = match exponent {
        0.0 => log_ratio,
        _ => libm::expm1(exponent * log_ratio) / exponent,
    };
    shape / lost * integral
}

fn range(min_bytes: u32, max_bytes: u32, floor: u32) -> DistributionError {
    DistributionError::Range {
        min: f64::from(min_bytes),
        max: f64::from(max_bytes),
        floor: f64::from(floor),
        limit: f64::from(u32::MAX),
    }
}

/// To the nearest byte, at least 1 and at most `max_bytes`.
#[inline]
fn round(bytes: f64, max_bytes: u32) -> u32 {
    ((bytes + 0.5) as u32).clamp(1, max_bytes.max(1))
}

/// Draws behind [`SizeDistribution::mean_of`].
const DRAWS: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::super::normal::normal_below;
    use super::super::test_support::{assert_follows, assert_mean, stream};
    use super::*;

    fn samples(sizes: &SizeDistribution, entity: u64) -> Vec<f64> {
        let mut stream = stream(entity);
        let drawn: Vec<u32> = (0..200_000).map(|_| sizes.sample(&mut stream)).collect();
        let within = sizes.min_bytes()..=sizes.max_bytes();
        assert!(drawn.iter().all(|bytes| within.contains(bytes)));
        drawn.into_iter().map(f64::from).collect()
    }

    #[test]
    fn constant_is_constant() {
        let sizes = SizeDistribution::constant(0);
        assert_eq!(
            (sizes.mean_bytes(), sizes.min_bytes(), sizes.max_bytes()),
            (0.0, 0, 0)
        );
        assert_eq!(sizes.sample(&mut stream(1)), 0);
        assert_eq!(sizes.mean_of(|bytes| f64::from(bytes) + 3.0), 3.0);
    }

    #[test]
    fn uniform_draws_both_ends_equally_often() {
        let sizes = SizeDistribution::uniform(64, 67).unwrap();
        let drawn = samples(&sizes, 2);
        for value in [64.0, 65.0, 66.0, 67.0] {
            let count = drawn.iter().filter(|&&bytes| bytes == value).count();
            // 50,000 expected, deviation 194.
            assert!((49_200..50_800).contains(&count), "{value}: {count}");
        }
        assert_mean(&drawn, sizes.mean_bytes());
        assert!(
            SizeDistribution::uniform(0, u32::MAX)
                .unwrap()
                .sample(&mut stream(3))
                > 0
        );
    }

    #[test]
    fn pareto_follows_its_distribution_between_its_bounds() {
        for shape in [0.5, 1.0, 1.2, 3.0] {
            let sizes = SizeDistribution::pareto(10_000, 10_000_000, shape).unwrap();
            let drawn = samples(&sizes, 4);
            assert_mean(&drawn, sizes.mean_bytes());
            let below = |x: f64| 1.0 - libm::pow(1e4 / x, shape);
            assert_follows(drawn, |x| below(x) / below(1e7));
        }
        let near = SizeDistribution::pareto(100, 10_000, 1.0 + 1e-12)
            .unwrap()
            .mean_bytes();
        let at = SizeDistribution::pareto(100, 10_000, 1.0)
            .unwrap()
            .mean_bytes();
        assert!((near - at).abs() < 1e-6, "{near} and {at}");
    }

    #[test]
    fn log_normal_follows_its_distribution_up_to_the_cut() {
        let sizes = SizeDistribution::log_normal(100_000.0, 2.0, 500_000).unwrap();
        let drawn = samples(&sizes, 5);
        assert_mean(&drawn, sizes.mean_bytes());
        assert!(
            sizes.mean_bytes() < 90_000.0,
            "the cut takes more than a tenth"
        );
        let variance = libm::log(5.0);
        let location = libm::log(1e5) - variance / 2.0;
        let share = |x: f64| normal_below((libm::log(x) - location) / variance.sqrt());
        let below: Vec<f64> = drawn.into_iter().filter(|&bytes| bytes < 5e5).collect();
        assert_follows(below, |x| share(x) / share(5e5));
    }

    #[test]
    fn rare_sizes_have_a_large_kurtosis_of_their_squares() {
        let exact = SizeDistribution::pareto(100, 100_000, 1.5).unwrap();
        // 1.5 / 2.5 * 1000^2.5 over (3 * (sqrt(1000) - 1))^2, but for what the bound cuts off.
        let ratio = 1.5 / 2.5 * libm::pow(1000.0, 2.5) / (3.0 * (1000_f64.sqrt() - 1.0)).powi(2);
        assert!((exact.squares_kurtosis() / ratio - 1.0).abs() < 1e-3);
        // Sizes 1 to n: (n^4 / 5) / (n^2 / 3)^2.
        let uniform = SizeDistribution::uniform(1, 10_000).unwrap();
        assert!((uniform.squares_kurtosis() - 1.8).abs() < 0.02);
        assert_eq!(SizeDistribution::constant(4096).squares_kurtosis(), 1.0);
        assert_eq!(SizeDistribution::constant(0).squares_kurtosis(), 1.0);
    }

    #[test]
    fn mean_of_a_cost_is_near_the_exact_one() {
        // Frames of 1,500 bytes for sizes 1 to 15,000: 5.5 on average.
        let sizes = SizeDistribution::uniform(1, 15_000).unwrap();
        let frames = sizes.mean_of(|bytes| f64::from(bytes.div_ceil(1_500)));
        assert!((frames - 5.5).abs() < 0.04, "{frames}");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(SizeDistribution::uniform(2, 1).is_err());
        assert!(SizeDistribution::pareto(0, 1, 1.5).is_err());
        assert!(SizeDistribution::pareto(2, 1, 1.5).is_err());
        assert_eq!(
            SizeDistribution::pareto(7, 7, 1.5).unwrap().mean_bytes(),
            7.0
        );
        for shape in [0.0, -1.0, f64::NAN, 2e6] {
            assert!(SizeDistribution::pareto(1, 10, shape).is_err(), "{shape}");
        }
        for mean in [0.0, 0.9, 101.0, f64::NAN] {
            assert!(
                SizeDistribution::log_normal(mean, 1.0, 100).is_err(),
                "{mean}"
            );
        }
        assert!(SizeDistribution::log_normal(10.0, 0.0, 100).is_err());
        assert!(SizeDistribution::empirical(vec![(0.0, 0.0), (5e9, 1.0)]).is_err());
    }
}
