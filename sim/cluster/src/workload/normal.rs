//! The normal and log-normal distributions, the same on every machine.

use viaduct_engine::Stream;

use super::error::DistributionError;
use super::piecewise::unit;

/// A log-normal distribution: the logarithm is normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LogNormal {
    /// Mean of the logarithm.
    location: f64,
    /// Deviation of the logarithm.
    deviation: f64,
}

impl LogNormal {
    /// From the mean, above 0, and the coefficient of variation of the variable itself.
    pub(super) fn new(mean: f64, variation: f64) -> Result<Self, DistributionError> {
        if !(variation > 0.0 && variation <= VARIATION_MAX) {
            return Err(DistributionError::Variation {
                value: variation,
                max: VARIATION_MAX,
            });
        }
        let variance = libm::log1p(variation * variation);
        Ok(Self {
            location: libm::log(mean) - variance / 2.0,
            deviation: variance.sqrt(),
        })
    }

    #[inline]
    pub(super) fn sample(&self, stream: &mut Stream) -> f64 {
        libm::exp(self.location + self.deviation * normal(stream))
    }

    /// The mean of the variable when what is above `cap` counts as `cap`.
    pub(super) fn mean_capped(&self, cap: f64) -> f64 {
        let Self {
            location,
            deviation,
        } = *self;
        let distance = (libm::log(cap) - location) / deviation;
        let mean = libm::exp(location + deviation * deviation / 2.0);
        mean * normal_below(distance - deviation) + cap * normal_below(-distance)
    }
}

/// A number drawn from the standard normal distribution.
///
/// Marsaglia's polar method; its second number is dropped, so that a distribution has no state.
#[inline]
fn normal(stream: &mut Stream) -> f64 {
    loop {
        let x = 2.0 * unit(stream.next_u64()) - 1.0;
        let y = 2.0 * unit(stream.next_u64()) - 1.0;
        let square = x * x + y * y;
        if square < 1.0 && square > 0.0 {
            return x * (-2.0 * libm::log(square) / square).sqrt();
        }
    }
}

/// The share of the standard normal distribution below `x`.
pub(super) fn normal_below(x: f64) -> f64 {
    libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2) / 2.0
}

/// The largest coefficient of variation: beyond it a run sees only the tail's absence.
const VARIATION_MAX: f64 = 1_000.0;

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_follows, assert_mean, stream};
    use super::*;

    #[test]
    fn normal_follows_its_distribution() {
        let mut stream = stream(1);
        let drawn: Vec<f64> = (0..200_000).map(|_| normal(&mut stream)).collect();
        assert_mean(&drawn.iter().map(|x| 1e6 * x).collect::<Vec<_>>(), 0.0);
        assert_mean(&drawn.iter().map(|x| 1e6 * x * x).collect::<Vec<_>>(), 1e6);
        assert_follows(drawn, normal_below);
    }

    #[test]
    fn share_below_has_the_known_values() {
        assert_eq!(normal_below(0.0), 0.5);
        assert!((normal_below(1.959_963_984_540_054) - 0.975).abs() < 1e-15);
        assert!((normal_below(-1.0) - 0.158_655_253_931_457_05).abs() < 1e-15);
    }
}
