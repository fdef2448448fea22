//! A mean with its uncertainty.

use crate::Moments;

/// A mean with its uncertainty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The point estimate.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; none if there are too few samples.
    pub ci95: Option<f64>,
}

/// The mean over independent runs, with Student's t interval.
///
/// Exact where the runs' results are normally distributed; results of long runs nearly are. With
/// one run there is no interval; with none the mean is not a number.
#[must_use]
pub fn across_seeds(results: &[f64]) -> Estimate {
    let mut moments = Moments::default();
    results.iter().for_each(|&result| moments.record(result));
    let mean = moments.mean().unwrap_or(f64::NAN);
    let ci95 = moments.variance().map(|variance| {
        let runs = moments.count();
        student_t_975(runs - 1) * (variance / runs as f64).sqrt()
    });
    Estimate { mean, ci95 }
}

/// The 97.5 % quantile of Student's t distribution: half of the 95 % interval, in standard
/// errors.
///
/// A table up to 30 degrees of freedom, beyond it the expansion in 1/degrees (Abramowitz and
/// Stegun 1964, 26.7.5); the error is below 1e-6. No degrees of freedom: infinity.
#[must_use]
pub fn student_t_975(degrees: u64) -> f64 {
    match degrees {
        0 => f64::INFINITY,
        1..=30 => TABLE[degrees as usize - 1],
        _ => {
            let z = 1.959_963_984_540_054_f64;
            let square = z * z;
            let terms = [
                z * (square + 1.0) / 4.0,
                z * ((5.0 * square + 16.0) * square + 3.0) / 96.0,
                z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0,
                z * ((((79.0 * square + 776.0) * square + 1482.0) * square - 1920.0) * square
                    - 945.0)
                    / 92_160.0,
            ];
            let inverse = 1.0 / degrees as f64;
            terms
                .iter()
                .rev()
                .fold(0.0, |sum, term| (sum + term) * inverse)
                + z
        }
    }
}

/// For 1 to 30 degrees of freedom.
const TABLE: [f64; 30] = [
    12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004,
    2.262_157, 2.228_139, 2.200_985, 2.178_813, 2.160_369, 2.144_787, 2.131_450, 2.119_905,
    2.109_816, 2.100_922, 2.093_024, 2.085_963, 2.079_614, 2.073_873, 2.068_658, 2.063_899,
    2.059_539, 2.055_529, 2.051_831, 2.048_407, 2.045_230, 2.042_272,
];

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF, StudentsT};

    use super::*;
    use crate::test_random::Random;

    #[test]
    fn student_quantile_is_that_of_another_library() {
        // By the other direction: its inverse is off by 7e-6 for many degrees.
        for degrees in (1..100).chain([150, 1_000, 100_000]) {
            let oracle = StudentsT::new(0.0, 1.0, degrees as f64).unwrap();
            let share = oracle.cdf(student_t_975(degrees));
            assert!((share - 0.975).abs() < 5e-8, "{degrees} degrees: {share}");
        }
        assert_eq!(student_t_975(0), f64::INFINITY);
    }

    #[test]
    fn interval_over_three_runs_is_the_textbooks() {
        // Mean 20, deviation 2, t for 2 degrees 4.302653: 4.302653 * 2 / sqrt(3).
        let Estimate { mean, ci95 } = across_seeds(&[18.0, 20.0, 22.0]);
        assert_eq!(mean, 20.0);
        assert!((ci95.unwrap() - 4.968_275).abs() < 1e-5);
    }

    #[test]
    fn too_few_runs_have_no_interval() {
        assert_eq!(
            across_seeds(&[5.0]),
            Estimate {
                mean: 5.0,
                ci95: None
            }
        );
        assert!(across_seeds(&[]).mean.is_nan());
    }

    #[test]
    fn interval_covers_the_mean_of_normal_results_95_times_in_100() {
        let mut random = Random(11);
        let covered = (0..4_000)
            .filter(|_| {
                let results: [f64; 5] = core::array::from_fn(|_| 3.0 + 2.0 * random.normal());
                let Estimate { mean, ci95 } = across_seeds(&results);
                (mean - 3.0).abs() <= ci95.unwrap()
            })
            .count();
        // 3800 expected, deviation 14.
        assert!((3_745..=3_855).contains(&covered), "{covered} of 4000");
    }
}
