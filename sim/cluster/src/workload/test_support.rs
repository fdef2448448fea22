//! What the workload's tests share.

use viaduct_engine::{Stream, StreamKey};

/// A stream of its own for each test.
pub(super) fn stream(entity: u64) -> Stream {
    Stream::new(StreamKey {
        seed: 20,
        purpose: 26,
        entity,
    })
}

/// The Kolmogorov-Smirnov test at 0.1 %: asserts that the samples' distribution is `share_up_to`.
///
/// Rounding to whole numbers must be small against the samples.
pub(super) fn assert_follows(mut samples: Vec<f64>, share_up_to: impl Fn(f64) -> f64) {
    samples.sort_unstable_by(f64::total_cmp);
    let count = samples.len() as f64;
    let distance = samples
        .iter()
        .enumerate()
        .map(|(rank, &sample)| {
            let share = share_up_to(sample);
            (share - rank as f64 / count)
                .abs()
                .max((share - (rank + 1) as f64 / count).abs())
        })
        .fold(0.0, f64::max);
    assert!(distance < 1.95 / count.sqrt(), "{distance} apart");
}

/// Asserts that the samples' mean is `mean` within four standard errors of the samples.
pub(super) fn assert_mean(samples: &[f64], mean: f64) {
    let count = samples.len() as f64;
    let found = samples.iter().sum::<f64>() / count;
    let variance = samples
        .iter()
        .map(|sample| (sample - found).powi(2))
        .sum::<f64>()
        / count;
    let error = (variance / count).sqrt();
    assert!(
        (found - mean).abs() <= 4.0 * error + 0.5,
        "mean {found} (error {error}), not {mean}"
    );
}
