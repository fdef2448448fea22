//! Estimates over independent seeds.

use serde::Serialize;
use viaduct_statistics::{Estimate, across_seeds};

use crate::OrderedMap;
use crate::summary::{LatencySummary, Summary, Usage, tidy};

/// What several seeds say together: of each number the mean over the runs and the half width of
/// its 95 % confidence interval by Student's t.
#[derive(Clone, Debug, Serialize)]
pub struct AcrossSeeds {
    /// Runs.
    pub count: u64,
    /// Latency.
    pub latency_us: LatencyAcross,
    /// Links, by class.
    pub links: OrderedMap<LinksAcross>,
    /// Buses.
    pub buses: LinksAcross,
    /// Share of the posted messages that was lost, 0 to 1.
    pub dropped_fraction: Option<Spread>,
}

/// Latency over several seeds, microseconds. Absent where no run measured one.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyAcross {
    /// Of the runs' means.
    pub mean: Option<Spread>,
    /// Of the runs' standard deviations.
    pub sd: Option<Spread>,
    /// Of the runs' medians.
    pub p50: Option<Spread>,
    /// Of the runs' 90 % quantiles.
    pub p90: Option<Spread>,
    /// Of the runs' 99 % quantiles.
    pub p99: Option<Spread>,
    /// Of the runs' 99.9 % quantiles.
    pub p999: Option<Spread>,
}

/// A set of servers over several seeds.
#[derive(Clone, Debug, Serialize)]
pub struct LinksAcross {
    /// Of the runs' mean utilisation, 0 to 1.
    pub utilisation_mean: Option<Spread>,
    /// Of the runs' busiest servers' utilisation, 0 to 1.
    pub utilisation_max: Option<Spread>,
}

/// A mean over seeds and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Mean over the runs.
    pub mean: f64,
    /// Half width of the 95 % confidence interval; none for a single run.
    pub ci95: Option<f64>,
}

impl AcrossSeeds {
    /// Gathers the runs of one cell.
    #[must_use]
    pub fn new<'a>(runs: impl Iterator<Item = &'a Summary>) -> Self {
        let runs: Vec<&Summary> = runs.collect();
        let latency = |of: fn(&LatencySummary) -> Option<f64>| {
            spread(runs.iter().filter_map(|run| of(&run.latency_us)))
        };
        let mut links = OrderedMap::default();
        for run in &runs {
            for class in run.links.keys() {
                links
                    .entry(class.clone())
                    .or_insert_with(|| usage(runs.iter().filter_map(|run| run.links.get(class))));
            }
        }
        Self {
            count: runs.len() as u64,
            latency_us: LatencyAcross {
                mean: latency(|latency| latency.mean),
                sd: latency(|latency| latency.sd),
                p50: latency(|latency| latency.p50),
                p90: latency(|latency| latency.p90),
                p99: latency(|latency| latency.p99),
                p999: latency(|latency| latency.p999),
            },
            links,
            buses: usage(runs.iter().map(|run| &run.buses)),
            dropped_fraction: spread(runs.iter().map(|run| run.dropped_fraction())),
        }
    }
}

fn usage<'a>(usages: impl Iterator<Item = &'a Usage> + Clone) -> LinksAcross {
    LinksAcross {
        utilisation_mean: spread(usages.clone().map(|usage| usage.utilisation_mean)),
        utilisation_max: spread(usages.map(|usage| usage.utilisation_max)),
    }
}

pub(crate) fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let values: Vec<f64> = values.collect();
    if values.is_empty() {
        return None;
    }
    let Estimate { mean, ci95 } = across_seeds(&values);
    Some(Spread {
        mean: tidy(mean),
        ci95: ci95.map(tidy),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_interval_is_students_t_over_the_runs() {
        let runs = [380.0, 384.0, 388.0].map(|mean| {
            let mut summary = sample::summary();
            summary.latency_us.mean = Some(mean);
            summary
        });
        let mean = AcrossSeeds::new(runs.iter()).latency_us.mean.unwrap();
        assert_eq!(mean.mean, 384.0);
        // t(0.975, 2 degrees of freedom) = 4.302653; 4 / sqrt(3) = 2.309401.
        assert!((mean.ci95.unwrap() - 9.936_55).abs() < 1e-4, "{mean:?}");
    }

    #[test]
    fn a_seed_that_measured_nothing_does_not_count_as_zero() {
        let measured = sample::summary();
        let mut empty = sample::summary();
        empty.latency_us = LatencySummary::default();
        let across = AcrossSeeds::new([&measured, &empty].into_iter());
        assert_eq!(across.count, 2);
        assert_eq!(
            across.latency_us.mean.unwrap().mean,
            measured.latency_us.mean.unwrap()
        );
        assert!(
            AcrossSeeds::new([&empty].into_iter())
                .latency_us
                .mean
                .is_none()
        );
    }
}
