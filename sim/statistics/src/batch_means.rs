//! The confidence interval of a mean within one run, where samples depend on those before.

use crate::{Estimate, Moments, student_t_975};

/// A mean and its confidence interval from one run of correlated samples, in 8 KiB.
///
/// The run is cut into consecutive batches of equal size; when there are 1,024, neighbours are
/// joined and the size doubles, so a long run has 512 to 1,023. Joined further they are some 100,
/// 50, 25 and 12 batches, and each of these numbers has an interval:
///
/// ```text
/// h_b = G(t) sqrt(S_b^2 / b * (1 + r_b) / (1 - r_b))
/// ```
///
/// with b batches, the variance S_b^2 of their means, the correlation r_b of neighbours (0 if
/// negative, at most 0.9), and the 97.5 % quantile t of Student's distribution with b - 1
/// degrees of freedom. G widens for the skewness of the means (Willink 2005); it and the factor
/// for the correlation are those of N-Skart (Tafazzoli, Steiger and Wilson 2011), of which the
/// wider side is taken. The widest of the four counts: few batches know of long correlations,
/// many batches know the variance well. What a run has not seen at all widens it once more: an
/// event that happens in fewer than 3 of n samples may be missing (the rule of three), so
///
/// ```text
/// h = sqrt(max(h_b)^2 + (3 d / n)^2)
/// ```
///
/// with the sample farthest from the mean at the distance d.
///
/// There is none where it would be wrong too often: [`NoInterval`] says why. Limits: a slow
/// change that is small beside the noise of single samples, and slower than the run is long,
/// cannot be seen in the samples; whoever knows what queues behind them must ask for a run that
/// is long beside the time in which these forget.
#[derive(Clone, Debug)]
pub struct BatchMeans {
    /// Sums of complete batches.
    sums: Vec<f64>,
    batch_samples: u64,
    open_sum: f64,
    open_samples: u64,
    min: f64,
    max: f64,
}

/// Why a run's mean has no interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoInterval {
    /// Fewer samples than [`SAMPLES_FOR_INTERVAL`].
    FewSamples,
    /// Samples depend on those of a fiftieth of the run before: too short a run.
    Correlated,
    /// The samples drift from the first to the last.
    Drift(Drift),
}

/// A straight line through the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The line at the first sample.
    pub first: f64,
    /// The line at the last sample.
    pub last: f64,
    /// The slope over its standard error.
    pub errors: f64,
}

impl Drift {
    /// Whether the run drifts: by a slope of more than 4 standard errors that moves the samples
    /// by more than 2 % of their mean.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.errors.abs() > DRIFT_CERTAIN && self.matters()
    }

    /// Whether it may drift: the slope is more than 2.7 standard errors, as 1 of 100 is that
    /// does not.
    #[must_use]
    pub fn is_likely(&self) -> bool {
        self.errors.abs() > DRIFT_LIKELY && self.matters()
    }

    fn matters(&self) -> bool {
        (self.last - self.first).abs() > DRIFT_MIN * (self.first + self.last).abs() / 2.0
    }
}

impl BatchMeans {
    /// Takes one finite number, in the order of the run.
    #[inline]
    pub fn record(&mut self, sample: f64) {
        debug_assert!(sample.is_finite(), "{sample} is not a sample");
        self.min = self.min.min(sample);
        self.max = self.max.max(sample);
        self.open_sum += sample;
        self.open_samples += 1;
        if self.open_samples == self.batch_samples {
            self.close_batch();
        }
    }

    fn close_batch(&mut self) {
        self.sums.push(self.open_sum);
        (self.open_sum, self.open_samples) = (0.0, 0);
        if self.sums.len() == BATCHES_MAX {
            join_pairs(&mut self.sums, |one, next| one + next);
            self.batch_samples *= 2;
        }
    }

    /// How many were taken.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sums.len() as u64 * self.batch_samples + self.open_samples
    }

    /// The mean of all, and its interval if there is one; none of none.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        Some(Estimate {
            mean: self.mean()?,
            ci95: self.half_width().ok(),
        })
    }

    fn mean(&self) -> Option<f64> {
        let count = self.count();
        let sum = self.sums.iter().sum::<f64>() + self.open_sum;
        (count > 0).then(|| sum / count as f64)
    }

    /// Half the width of the mean's 95 % confidence interval.
    ///
    /// # Errors
    ///
    /// [`NoInterval`] where one would be wrong too often.
    pub fn half_width(&self) -> Result<f64, NoInterval> {
        let count = self.count();
        let (Some(mean), true) = (self.mean(), count >= SAMPLES_FOR_INTERVAL) else {
            return Err(NoInterval::FewSamples);
        };
        if self.min == self.max {
            return Ok(0.0);
        }
        if let Some(drift) = self.drift().filter(Drift::is_certain) {
            return Err(NoInterval::Drift(drift));
        }
        let mut means = self.means();
        let (mut widest, mut beta) = (0.0_f64, None);
        while means.len() >= BATCHES_MIN {
            if means.len() < BATCHES_WIDE {
                let batches = Batches::new(&means);
                if batches.correlation > correlation_max(means.len()) {
                    return Err(NoInterval::Correlated);
                }
                let beta = *beta.get_or_insert_with(|| batches.beta());
                widest = widest.max(batches.half_width(beta));
            }
            join_pairs(&mut means, |one, next| (one + next) / 2.0);
        }
        let farthest = (self.max - mean).max(mean - self.min);
        let unseen = UNSEEN * farthest / count as f64;
        Ok((widest * widest + unseen * unseen).sqrt())
    }

    /// The straight line through the means of 32 to 63 batches, by least squares; none of fewer.
    ///
    /// The standard error of its slope is from what is left around the line, widened for the
    /// correlation of neighbours as an interval is.
    #[must_use]
    pub fn drift(&self) -> Option<Drift> {
        let mut means = self.means();
        while means.len() >= 2 * DRIFT_BATCHES {
            join_pairs(&mut means, |one, next| (one + next) / 2.0);
        }
        let count = means.len() as f64;
        if means.len() < DRIFT_BATCHES || self.min == self.max {
            return None;
        }
        let (middle, level) = ((count - 1.0) / 2.0, means.iter().sum::<f64>() / count);
        let (mut products, mut squares) = (0.0, 0.0);
        for (index, mean) in means.iter().enumerate() {
            let offset = index as f64 - middle;
            products += offset * (mean - level);
            squares += offset * offset;
        }
        let slope = products / squares;
        for (index, mean) in means.iter_mut().enumerate() {
            *mean -= slope * (index as f64 - middle);
        }
        let around = Batches::new(&means);
        let variance = around.variance * (count - 1.0) / (count - 2.0) * around.widening();
        let change = slope * (count - 1.0) / 2.0;
        Some(Drift {
            first: level - change,
            last: level + change,
            errors: if slope == 0.0 {
                0.0
            } else {
                slope / (variance / squares).sqrt()
            },
        })
    }

    fn means(&self) -> Vec<f64> {
        let samples = self.batch_samples as f64;
        self.sums.iter().map(|sum| sum / samples).collect()
    }
}

impl Default for BatchMeans {
    fn default() -> Self {
        Self {
            sums: Vec::new(),
            batch_samples: 1,
            open_sum: 0.0,
            open_samples: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }
}

/// What an interval takes from the means of batches.
struct Batches {
    count: f64,
    /// As of a sample: the squares over one less than the count.
    variance: f64,
    /// Of neighbours, from -1 to 1.
    correlation: f64,
    skewness: f64,
}

impl Batches {
    fn new(means: &[f64]) -> Self {
        let mut moments = Moments::default();
        means.iter().for_each(|&mean| moments.record(mean));
        let (mean, variance) = (
            moments.mean().unwrap_or(0.0),
            moments.variance().unwrap_or(0.0),
        );
        let count = means.len() as f64;
        let squares = variance * (count - 1.0);
        let products: f64 = means
            .windows(2)
            .map(|pair| (pair[0] - mean) * (pair[1] - mean))
            .sum();
        let cubes: f64 = means.iter().map(|value| cube(value - mean)).sum();
        let spread = (squares / count).sqrt();
        Self {
            count,
            variance,
            correlation: if squares > 0.0 {
                products / squares
            } else {
                0.0
            },
            skewness: if squares > 0.0 {
                cubes / count / cube(spread)
            } else {
                0.0
            },
        }
    }

    /// By what positive correlation multiplies the variance of the mean of all.
    fn widening(&self) -> f64 {
        let correlation = self.correlation.clamp(0.0, CORRELATION_MAX);
        (1.0 + correlation) / (1.0 - correlation)
    }

    /// How skewed the mean of all is: a sixth of the skewness that it would have.
    fn beta(&self) -> f64 {
        self.skewness / (6.0 * self.count.sqrt())
    }

    fn half_width(&self, beta: f64) -> f64 {
        let student = student_t_975(self.count as u64 - 1);
        let skewed = |quantile: f64| {
            let cubed = 1.0 + 6.0 * beta * (quantile - beta);
            ((libm::cbrt(cubed) - 1.0) / (2.0 * beta)).abs()
        };
        let errors = if beta.abs() < BETA_MIN {
            student
        } else {
            skewed(student).max(skewed(-student))
        };
        errors * (self.variance / self.count * self.widening()).sqrt()
    }
}

fn cube(value: f64) -> f64 {
    value * value * value
}

/// Neighbours become one; an odd one at the end is dropped.
fn join_pairs(values: &mut Vec<f64>, join: impl Fn(f64, f64) -> f64) {
    let pairs = values.len() / 2;
    for pair in 0..pairs {
        values[pair] = join(values[2 * pair], values[2 * pair + 1]);
    }
    values.truncate(pairs);
}

/// Neighbours that depend on each other more than this, of so many batches, say that the run is
/// less than some 40 times as long as its samples remember.
fn correlation_max(batches: usize) -> f64 {
    match batches {
        64.. => 0.6,
        32.. => 0.5,
        _ => 1.0,
    }
}

/// Fewer samples than this give no interval.
pub const SAMPLES_FOR_INTERVAL: u64 = 160;

const BATCHES_MAX: usize = 1_024;

/// Intervals are of batches fewer than this and not fewer than the next.
const BATCHES_WIDE: usize = 128;
const BATCHES_MIN: usize = 12;

const DRIFT_BATCHES: usize = 32;
const DRIFT_CERTAIN: f64 = 4.0;
const DRIFT_LIKELY: f64 = 2.7;
const DRIFT_MIN: f64 = 0.02;

/// Where correlation between neighbours is stronger, no factor would save the interval.
const CORRELATION_MAX: f64 = 0.9;

/// Below this the correction for skewness is below rounding.
const BETA_MIN: f64 = 1e-6;

/// What happens in fewer than 3 of n samples is missing in 5 % of runs.
const UNSEEN: f64 = 3.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_random::Random;

    /// Of 200 runs with a seed each: how many have an interval, and how many percent of these
    /// intervals hold `mean`.
    fn intervals(mean: f64, mut run: impl FnMut(&mut Random, &mut BatchMeans)) -> (u32, f64) {
        let (mut shown, mut covered) = (0_u32, 0_u32);
        for seed in 1..=200_u64 {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            (0..10).for_each(|_| {
                random.next();
            });
            let mut batches = BatchMeans::default();
            run(&mut random, &mut batches);
            if let Ok(half_width) = batches.half_width() {
                shown += 1;
                let error = (batches.mean().unwrap() - mean).abs();
                covered += u32::from(error <= half_width);
            }
        }
        (shown, 100.0 * f64::from(covered) / f64::from(shown.max(1)))
    }

    fn independent(
        samples: u32,
        draw: impl Fn(&mut Random) -> f64,
    ) -> impl Fn(&mut Random, &mut BatchMeans) {
        move |random, batches| (0..samples).for_each(|_| batches.record(draw(random)))
    }

    /// Correlation `factor` from one sample to the next, around 100.
    fn autoregressive(samples: u32, factor: f64) -> impl Fn(&mut Random, &mut BatchMeans) {
        move |random, batches| {
            let mut state = random.normal() / (1.0 - factor * factor).sqrt();
            for _ in 0..samples {
                state = factor * state + random.normal();
                batches.record(100.0 + state);
            }
        }
    }

    /// Time in a queue of mean service 1, by Lindley's recursion, from an empty queue on; a tenth
    /// of the samples before is warm-up.
    fn queue(
        samples: u32,
        load: f64,
        service: fn(&mut Random) -> f64,
    ) -> impl Fn(&mut Random, &mut BatchMeans) {
        move |random, batches| {
            let mut wait = 0.0_f64;
            for step in 0..samples + samples / 10 {
                let served = wait + service(random);
                if step >= samples / 10 {
                    batches.record(served);
                }
                wait = (served - random.exponential() / load).max(0.0);
            }
        }
    }

    /// Pareto of shape 1.5 between 1 and 1,000, and its mean.
    fn pareto(random: &mut Random) -> f64 {
        let lost = 1.0 - libm::pow(1_000.0, -1.5);
        libm::pow(1.0 - lost * random.unit(), -1.0 / 1.5)
    }
    const PARETO_MEAN: f64 = 2.905_13;

    /// What every row must show: at least 92 % of the intervals that are printed hold the mean,
    /// and (second column) at least so many of 200 runs have one.
    #[test]
    fn intervals_hold_the_known_mean() {
        let exponential = Random::exponential;
        let lognormal = |random: &mut Random| libm::exp(1.5 * random.normal());
        let rare = |random: &mut Random| if random.unit() < 0.02 { 1_000.0 } else { 1.0 };
        type Row<'a> = (
            &'a str,
            u32,
            f64,
            Box<dyn FnMut(&mut Random, &mut BatchMeans)>,
        );
        let rows: Vec<Row<'_>> = vec![
            (
                "exponential",
                195,
                1.0,
                Box::new(independent(200, exponential)),
            ),
            (
                "exponential",
                195,
                1.0,
                Box::new(independent(3_000, exponential)),
            ),
            (
                "lognormal",
                195,
                libm::exp(1.125),
                Box::new(independent(1_000, lognormal)),
            ),
            (
                "rare and large",
                190,
                20.98,
                Box::new(independent(500, rare)),
            ),
            (
                "Pareto",
                195,
                PARETO_MEAN,
                Box::new(independent(500, pareto)),
            ),
            (
                "Pareto",
                195,
                PARETO_MEAN,
                Box::new(independent(5_000, pareto)),
            ),
            (
                "correlation 0.5",
                190,
                100.0,
                Box::new(autoregressive(500, 0.5)),
            ),
            (
                "correlation 0.9",
                100,
                100.0,
                Box::new(autoregressive(1_000, 0.9)),
            ),
            (
                "correlation 0.9",
                190,
                100.0,
                Box::new(autoregressive(5_000, 0.9)),
            ),
            (
                "correlation 0.99",
                170,
                100.0,
                Box::new(autoregressive(10_000, 0.99)),
            ),
            (
                "correlation -0.7",
                195,
                100.0,
                Box::new(autoregressive(500, -0.7)),
            ),
            (
                "M/M/1 at 0.5",
                180,
                2.0,
                Box::new(queue(1_000, 0.5, exponential)),
            ),
            (
                "M/M/1 at 0.8",
                180,
                5.0,
                Box::new(queue(10_000, 0.8, exponential)),
            ),
            (
                "M/D/1 at 0.8",
                190,
                3.0,
                Box::new(queue(8_000, 0.8, |_| 1.0)),
            ),
            (
                "M/D/1 at 0.9",
                180,
                5.5,
                Box::new(queue(34_000, 0.9, |_| 1.0)),
            ),
        ];
        for (name, shown_min, mean, run) in rows {
            let (shown, percent) = intervals(mean, run);
            assert!(
                shown >= shown_min,
                "{name}: {shown} of 200 have an interval"
            );
            assert!(percent >= 92.0, "{name}: {percent} % of {shown}");
        }
    }

    #[test]
    fn a_run_that_its_samples_remember_has_no_interval() {
        for (samples, factor) in [(300, 0.95), (1_000, 0.99), (2_000, 0.99), (10_000, 0.999)] {
            let (shown, _) = intervals(100.0, autoregressive(samples, factor));
            assert!(shown <= 4, "{shown} of 200 at {factor}, {samples} samples");
        }
        let (shown, _) = intervals(100.0, autoregressive(159, 0.0));
        assert_eq!(shown, 0);
    }

    #[test]
    fn a_drift_is_found_and_noise_is_none() {
        // From 1 to 2, with the deviation of an exponential sample: as large as the mean.
        let mut drifts = 0;
        for seed in 1..=50 {
            let mut random = Random(seed * 7_919);
            let mut batches = BatchMeans::default();
            for step in 0..2_000 {
                batches.record((1.0 + f64::from(step) / 2_000.0) * random.exponential());
            }
            drifts += u32::from(batches.drift().unwrap().is_certain());
            let drift = batches.drift().unwrap();
            assert!((drift.last / drift.first - 2.0).abs() < 1.0, "{drift:?}");
        }
        assert!(drifts >= 49, "{drifts} of 50");
        let (mut certain, mut likely) = (0, 0);
        for seed in 1..=400 {
            let mut random = Random(seed * 7_919);
            let mut batches = BatchMeans::default();
            autoregressive(3_000, 0.8)(&mut random, &mut batches);
            // Around 100 such noise is no 2 %: around 0 everything is.
            let drift = batches.drift().map(|drift| Drift {
                first: drift.first - 100.0,
                last: drift.last - 100.0,
                ..drift
            });
            certain += u32::from(drift.is_some_and(|drift| drift.is_certain()));
            likely += u32::from(drift.is_some_and(|drift| drift.is_likely()));
        }
        assert!(certain <= 1 && likely <= 10, "{certain}, {likely} of 400");
    }

    #[test]
    fn no_interval_before_160_samples() {
        let mut batches = BatchMeans::default();
        assert_eq!(batches.estimate(), None);
        for sample in 0..159_u32 {
            batches.record(f64::from(sample % 7));
            assert_eq!(batches.half_width(), Err(NoInterval::FewSamples));
        }
        batches.record(0.0);
        assert!(batches.estimate().unwrap().ci95.is_some());
    }

    #[test]
    fn equal_samples_have_an_interval_of_no_width() {
        let mut batches = BatchMeans::default();
        (0..5_000).for_each(|_| batches.record(7.25));
        assert_eq!(
            batches.estimate(),
            Some(Estimate {
                mean: 7.25,
                ci95: Some(0.0)
            })
        );
        assert_eq!(batches.drift(), None);
    }

    #[test]
    fn a_joined_batch_is_the_mean_of_its_samples() {
        // 12 batches of independent samples: the textbook's interval, but for the widening.
        let mut random = Random(3);
        let means: Vec<f64> = (0..12).map(|_| random.normal()).collect();
        let batches = Batches::new(&means);
        let mean = means.iter().sum::<f64>() / 12.0;
        let squares: f64 = means.iter().map(|value| (value - mean).powi(2)).sum();
        let textbook = 2.200_985 * (squares / 11.0 / 12.0).sqrt();
        let widening = batches.widening().sqrt();
        assert!((batches.half_width(0.0) - textbook * widening).abs() < 1e-12);
        // Willink's correction: a skewness of 1.2 in 12 means, by hand.
        let beta = 1.2 / (6.0 * 12_f64.sqrt());
        let lower = (libm::cbrt(1.0 + 6.0 * beta * (-2.200_985 - beta)) - 1.0) / (2.0 * beta);
        let ratio = batches.half_width(beta) / batches.half_width(0.0);
        assert!((ratio - lower.abs() / 2.200_985).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut batches = BatchMeans::default();
        (0..1_000_000).for_each(|sample| batches.record(f64::from(sample % 10)));
        assert_eq!(batches.count(), 1_000_000);
        assert!((BATCHES_MAX / 2..BATCHES_MAX).contains(&batches.sums.len()));
        assert_eq!(batches.sums.capacity(), BATCHES_MAX);
    }

    proptest! {
        #[test]
        fn mean_is_that_of_all_samples(samples in prop::collection::vec(-1e3..1e3_f64, 1..5_000)) {
            let mut batches = BatchMeans::default();
            samples.iter().for_each(|&sample| batches.record(sample));
            let mean = samples.iter().sum::<f64>() / samples.len() as f64;
            prop_assert!((batches.estimate().unwrap().mean - mean).abs() < 1e-9);
            prop_assert_eq!(batches.count(), samples.len() as u64);
        }
    }
}
