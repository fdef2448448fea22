//! Whether a run has settled: the end of the initial transient, and backlogs that only grow.

use crate::Moments;

/// Finds where the initial transient of a run ends, in 16 KiB however long the run.
///
/// The samples are kept as means of consecutive batches, of 5 samples at first and twice as many
/// whenever there are 1,024 batches. On them works MSER-5 (White, Cobb and Spratt 2000): cut as
/// many batches from the front as make the standard error of the mean of the rest smallest.
/// MSER trims noise too, so a cut is believed only where it matters and is no accident; see
/// [`Transient::check`].
///
/// Limits: a transient shorter than a thousandth of the run is not seen, nor is a slow one that
/// the run does not leave by half (that is reported as not settled, not as a time).
#[derive(Clone, Debug)]
pub struct Transient {
    batches: Vec<Batch>,
    batch_samples: u64,
    open: Batch,
    open_samples: u64,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    start: u64,
    sum: f64,
}

/// Whether a run was steady from some time on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Steadiness {
    /// Fewer than [`BATCHES_TO_TELL`] batches: too few samples to tell.
    Unknown,
    /// Cutting more would not change the mean by what matters.
    Steady,
    /// The mean is biased by how the run began.
    Transient {
        /// From here on it was steady; none if the first half of the run does not hold the
        /// transient.
        settled_at: Option<u64>,
    },
}

/// The cut that MSER advises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truncation {
    /// The first instant kept; none if more than half would have to be cut.
    pub settled_at: Option<u64>,
    /// Mean of the samples before the cut (of the first half, if more would have to go); none if
    /// nothing is cut.
    pub mean_cut: Option<f64>,
    /// Mean of the samples kept.
    pub mean_kept: f64,
    /// Mean of both.
    pub mean_all: f64,
    /// How many standard errors the two means are apart; 0 if nothing is cut.
    pub distance: f64,
}

impl Transient {
    /// Takes one finite number, in order of time.
    #[inline]
    pub fn record(&mut self, time: u64, sample: f64) {
        debug_assert!(sample.is_finite(), "{sample} is not a sample");
        if self.open_samples == 0 {
            self.open.start = time;
        }
        self.open.sum += sample;
        self.open_samples += 1;
        if self.open_samples == self.batch_samples {
            self.close_batch();
        }
    }

    fn close_batch(&mut self) {
        self.batches.push(self.open);
        self.open.sum = 0.0;
        self.open_samples = 0;
        if self.batches.len() == BATCHES_MAX {
            for pair in 0..BATCHES_MAX / 2 {
                let (first, second) = (self.batches[2 * pair], self.batches[2 * pair + 1]);
                self.batches[pair] = Batch {
                    start: first.start,
                    sum: first.sum + second.sum,
                };
            }
            self.batches.truncate(BATCHES_MAX / 2);
            self.batch_samples *= 2;
        }
    }

    /// Whether the samples from `warmup` on were steady.
    ///
    /// They were not if MSER cuts a part whose mean is more than 4 standard errors from that of
    /// the rest (the error by 16 batch means of the rest), and keeping it moves the mean by more
    /// than 1 %.
    #[must_use]
    pub fn check(&self, warmup: u64) -> Steadiness {
        let Some(truncation) = self.truncation(warmup) else {
            return Steadiness::Unknown;
        };
        let Truncation {
            settled_at,
            mean_kept,
            mean_all,
            distance,
            ..
        } = truncation;
        let bias = (mean_all - mean_kept).abs();
        if distance > DISTANCE_MIN && bias > BIAS_MIN * mean_kept.abs() {
            return Steadiness::Transient { settled_at };
        }
        Steadiness::Steady
    }

    /// What MSER would cut of the samples from `warmup` on; none if there are fewer than
    /// [`BATCHES_TO_TELL`] batches.
    #[must_use]
    pub fn truncation(&self, warmup: u64) -> Option<Truncation> {
        let skipped = self.batches.partition_point(|batch| batch.start < warmup);
        let batches = &self.batches[skipped..];
        if batches.len() < BATCHES_TO_TELL {
            return None;
        }
        let means: Vec<f64> = batches
            .iter()
            .map(|batch| batch.sum / self.batch_samples as f64)
            .collect();
        let advised = mser(&means);
        let within_half = advised <= means.len() / 2;
        let cut = if within_half {
            advised
        } else {
            means.len() / 2
        };
        let (front, rest) = means.split_at(cut);
        let mean_kept = mean(rest);
        Some(Truncation {
            settled_at: within_half.then(|| batches[cut].start),
            mean_cut: (cut > 0).then(|| mean(front)),
            mean_kept,
            mean_all: mean(&means),
            distance: if cut > 0 { distance(front, rest) } else { 0.0 },
        })
    }
}

impl Default for Transient {
    fn default() -> Self {
        Self {
            batches: Vec::new(),
            batch_samples: 5,
            open: Batch { start: 0, sum: 0.0 },
            open_samples: 0,
        }
    }
}

/// Whether a backlog, read at equal spaces of time from the start of a run, grows for as long as
/// the run lasts: more is offered than served.
///
/// Thirds of the run are compared. A backlog that settles grows little in the last third against
/// the one before; one that merely wanders varies as much within a third as between them. A
/// growing one rises by at least 30 % of its last third, about as much from the second third to
/// the last as from the first to the second, and by far more than the noise around the thirds'
/// own slopes. Fewer than 12 readings are never called growing.
#[must_use]
pub fn is_growing(backlog: &[f64]) -> bool {
    let third = backlog.len() / 3;
    if third < 4 {
        return false;
    }
    let parts = [0, 1, 2].map(|part| &backlog[part * third..(part + 1) * third]);
    let [early, middle, late] = parts.map(mean);
    let (first_step, second_step) = (middle - early, late - middle);
    let rises = first_step > 0.0 && second_step > 0.5 * first_step;
    let noise = (parts.map(variance_around_line).iter().sum::<f64>() / 3.0).sqrt();
    rises && late - early > 0.3 * late && late - early > NOISE_MIN * noise
}

/// How many batches to cut so that the standard error of the rest's mean is smallest.
fn mser(means: &[f64]) -> usize {
    // Around the mean of all, so that the sums of squares keep their digits.
    let center = mean(means);
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut best, mut best_error) = (0, f64::INFINITY);
    for (cut, value) in means.iter().enumerate().rev() {
        let value = value - center;
        sum += value;
        squares += value * value;
        let kept = (means.len() - cut) as f64;
        // The last few batches may agree by accident (Hoad, Robinson and Davies 2010).
        if means.len() - cut > LAST_IGNORED {
            let error = (squares - sum * sum / kept) / (kept * kept);
            if error <= best_error {
                (best, best_error) = (cut, error);
            }
        }
    }
    best
}

/// By how many standard errors the means differ; the error is that of the rest, taken from its
/// long-run variance over 16 groups.
fn distance(front: &[f64], rest: &[f64]) -> f64 {
    let group = (rest.len() / GROUPS).max(1);
    let mut groups = Moments::default();
    rest.chunks_exact(group)
        .for_each(|chunk| groups.record(mean(chunk)));
    let long_run = groups.variance().unwrap_or(0.0) * group as f64;
    let error = (long_run * (1.0 / front.len() as f64 + 1.0 / rest.len() as f64)).sqrt();
    let difference = (mean(front) - mean(rest)).abs();
    if difference == 0.0 {
        0.0
    } else {
        difference / error
    }
}

/// The mean squared distance from the straight line fitted by least squares.
fn variance_around_line(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let (middle, level) = ((count - 1.0) / 2.0, mean(values));
    let (mut products, mut squares, mut around) = (0.0, 0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let offset = index as f64 - middle;
        products += offset * (value - level);
        squares += offset * offset;
        around += (value - level) * (value - level);
    }
    ((around - products * products / squares) / count).max(0.0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Batches below which nothing is said.
pub const BATCHES_TO_TELL: usize = 40;

const BATCHES_MAX: usize = 1_024;
const LAST_IGNORED: usize = 5;
const GROUPS: usize = 16;
const DISTANCE_MIN: f64 = 4.0;
const BIAS_MIN: f64 = 0.01;
const NOISE_MIN: f64 = 6.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    /// 100 samples of mean 10 and correlation 0.5 a thousand time units, the first `transient`
    /// of them rising to their level.
    fn run(random: &mut Random, samples: u64, transient: f64) -> Transient {
        let mut check = Transient::default();
        let mut state = 0.0;
        for index in 0..samples {
            state = 0.5 * state + random.normal();
            let bias = if transient > 0.0 {
                -8.0 * libm::exp(-3.0 * index as f64 / transient)
            } else {
                0.0
            };
            check.record(index * 10, 10.0 + bias + state);
        }
        check
    }

    #[test]
    fn too_few_samples_tell_nothing() {
        assert_eq!(run(&mut Random(1), 199, 0.0).check(0), Steadiness::Unknown);
        assert_ne!(run(&mut Random(1), 200, 0.0).check(0), Steadiness::Unknown);
        assert_eq!(
            run(&mut Random(1), 10_000, 0.0).check(99_000),
            Steadiness::Unknown
        );
    }

    #[test]
    fn steady_runs_are_called_steady() {
        let mut random = Random(2);
        for samples in [300, 3_000, 30_000] {
            let steady = (0..300)
                .filter(|_| run(&mut random, samples, 0.0).check(0) == Steadiness::Steady)
                .count();
            assert!(steady >= 294, "{steady} of 300 with {samples} samples");
        }
    }

    #[test]
    fn known_transient_is_found_and_a_warmup_as_long_is_enough() {
        // The bias falls by e each 1,000 samples: of 8, 0.4 is left after 3,000.
        let mut random = Random(3);
        for _ in 0..100 {
            let check = run(&mut random, 20_000, 3_000.0);
            let Steadiness::Transient {
                settled_at: Some(time),
            } = check.check(0)
            else {
                panic!("not found: {:?}", check.truncation(0));
            };
            assert!((20_000..60_000).contains(&time), "{time}");
            assert_eq!(check.check(40_000), Steadiness::Steady);
        }
    }

    #[test]
    fn a_run_that_never_settles_has_no_end_of_its_transient() {
        let mut random = Random(4);
        let mut check = Transient::default();
        for index in 0..20_000_u32 {
            check.record(u64::from(index), f64::from(index) * 0.01 + random.normal());
        }
        assert_eq!(check.check(0), Steadiness::Transient { settled_at: None });
    }

    #[test]
    fn equal_samples_are_steady() {
        let mut check = Transient::default();
        (0..5_000).for_each(|time| check.record(time, 331.2));
        assert_eq!(check.check(0), Steadiness::Steady);
    }

    #[test]
    fn memory_is_bounded() {
        let mut check = Transient::default();
        (0..1_000_000).for_each(|time| check.record(time, 1.0));
        assert!((BATCHES_MAX / 2..BATCHES_MAX).contains(&check.batches.len()));
        assert_eq!(check.batches[1].start % check.batch_samples, 0);
    }

    #[test]
    fn cut_is_where_the_standard_error_is_smallest() {
        // Against the definition, two passes for each cut.
        let mut random = Random(5);
        for _ in 0..50 {
            let means: Vec<f64> = (0..80)
                .map(|index| random.normal() + f64::from(40_i32 - index).max(0.0))
                .collect();
            let error = |cut: usize| {
                let kept = &means[cut..];
                let level = mean(kept);
                kept.iter()
                    .map(|value| (value - level).powi(2))
                    .sum::<f64>()
                    / (kept.len() as f64).powi(2)
            };
            let best = (0..75)
                .min_by(|&one, &two| error(one).total_cmp(&error(two)))
                .unwrap();
            assert_eq!(mser(&means), best);
        }
    }

    /// Customers in an M/M/1 queue of service rate 1, read at 200 equal spaces of time.
    fn queue_lengths(random: &mut Random, load: f64, end: f64) -> Vec<f64> {
        let (mut time, mut length, mut readings) = (0.0, 0_u32, Vec::new());
        while readings.len() < 200 {
            let rate = if length > 0 { load + 1.0 } else { load };
            time += random.exponential() / rate;
            while readings.len() < 200 && time > end / 200.0 * (readings.len() + 1) as f64 {
                readings.push(f64::from(length));
            }
            if random.unit() < load / rate {
                length += 1
            } else {
                length -= 1
            }
        }
        readings
    }

    #[test]
    fn overloaded_queue_grows() {
        let mut random = Random(6);
        for load in [1.2, 1.5, 3.0] {
            let growing = (0..100)
                .filter(|_| is_growing(&queue_lengths(&mut random, load, 20_000.0)))
                .count();
            assert!(growing >= 98, "{growing} of 100 at load {load}");
        }
    }

    #[test]
    fn stable_queue_does_not_grow() {
        let mut random = Random(7);
        for load in [0.12, 0.5, 0.8, 0.9] {
            let growing = (0..100)
                .filter(|_| is_growing(&queue_lengths(&mut random, load, 20_000.0)))
                .count();
            assert!(growing <= 1, "{growing} of 100 at load {load}");
        }
    }

    #[test]
    fn growth_is_found_on_a_base_and_after_a_warmup() {
        let mut random = Random(8);
        let mut readings = |from: f64, to: f64| -> Vec<f64> {
            (0..60)
                .map(|step| from + (to - from) * f64::from(step) / 59.0 + 3.0 * random.normal())
                .collect()
        };
        assert!(is_growing(&readings(100.0, 200.0)));
        assert!(!is_growing(&readings(100.0, 105.0)));
        assert!(!is_growing(&readings(200.0, 100.0)));
    }

    #[test]
    fn backlog_that_fills_up_and_stays_does_not_grow() {
        let readings: Vec<f64> = (0..60)
            .map(|step| 100.0 * (1.0 - libm::exp(-f64::from(step) / 12.0)))
            .collect();
        assert!(!is_growing(&readings));
        assert!(!is_growing(&readings[..11]));
        assert!(!is_growing(&[]));
    }
}
