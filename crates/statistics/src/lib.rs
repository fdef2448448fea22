//! Estimates from samples, in bounded memory.

/// A mean with its uncertainty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The point estimate.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; none if there are too few samples.
    pub ci95: Option<f64>,
}

/// A histogram of three significant digits.
#[derive(Clone, Debug)]
pub struct Quantiles(hdrhistogram::Histogram<u64>);
