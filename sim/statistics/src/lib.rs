//! Estimates from samples, in memory that does not grow with the number of samples.
//!
//! Nothing here knows of simulation, of time's unit or of threads. Equal samples in equal order
//! give equal estimates to the bit on every machine: only IEEE addition, multiplication,
//! division and square root are used, and `libm`.
//!
//! ```
//! use viaduct_statistics::{BatchMeans, Moments, Quantiles};
//!
//! let (mut moments, mut quantiles, mut interval) =
//!     (Moments::default(), Quantiles::default(), BatchMeans::default());
//! for sample in (0..10_000_u64).map(|step| 500 + step * 7919 % 101) {
//!     moments.record(sample as f64);
//!     quantiles.record(sample);
//!     interval.record(sample as f64);
//! }
//! assert_eq!(moments.max(), Some(600.0));
//! assert_eq!(quantiles.value_at(0.5), Some(550));
//! assert!(interval.estimate().is_some_and(|estimate| (estimate.mean - 550.0).abs() < 0.1));
//! ```

mod batch_means;
mod estimate;
mod log_histogram;
mod moments;
mod quantiles;
mod series;
mod steady;

pub use batch_means::{BatchMeans, Drift, NoInterval, SAMPLES_FOR_INTERVAL};
pub use estimate::{Estimate, across_seeds, student_t_975};
pub use log_histogram::{HistogramMode, LogHistogram};
pub use moments::Moments;
pub use quantiles::{Quantiles, VALUE_MAX};
pub use series::{Merge, Series, Window};
pub use steady::{BATCHES_TO_TELL, Steadiness, Transient, Truncation, is_growing};

#[cfg(test)]
mod test_random;
