//! What came of a sweep of many cells and seeds: a few numbers a run, kept while others run.
//!
//! A [`SweepRecord`] is what a run leaves: a line of the sweep's journal, a row of its table. A
//! [`SweepCell`] has the records of one point; all that is shown of it is worked out from them in
//! the order of seeds, so that it is the same wherever and in whichever order they ran.

mod curves;
mod document;
mod parquet;
mod screen;

pub(crate) use curves::curves;
pub use curves::sweep_curves;
pub use document::sweep_document;
pub use parquet::{SWEEP_ROW, SweepColumn, sweep_columns, sweep_parquet};
pub(crate) use screen::cells;
pub use screen::sweep_cells_table;

use serde::{Deserialize, Serialize};
use viaduct_sim::config::ClusterConfig;
use viaduct_sim::result::RunResult;

use crate::across::Spread;
use crate::summary::{Counts, LatencySummary, SteadySummary, Summary, Usage, seconds, tidy};

/// One run of a sweep.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRecord {
    /// Number of the cell, from 0, the last key fastest.
    pub cell: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Its numbers; none if it failed.
    pub numbers: Option<Box<SweepNumbers>>,
    /// Why it failed.
    pub reason: Option<String>,
}

/// The numbers of a run that a sweep keeps. `docs/sweeps.md` is their dictionary.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SweepNumbers {
    /// Hash of every message and the final counts, 16 hexadecimal digits.
    pub digest: String,
    /// As in a summary: `finished`, `message_count`, `event_count`.
    pub ended: String,
    /// Whether the measured part was steady.
    pub steady_state: SteadySummary,
    /// Simulated time at the end, seconds.
    pub simulated_s: f64,
    /// Messages of the whole run.
    pub messages: Counts,
    /// Posted a second of simulated time after the warm-up, by all processes; none of a run that
    /// is too short to tell.
    pub offered_messages_per_s: Option<f64>,
    /// Delivered or dropped a second in the same time.
    pub carried_messages_per_s: Option<f64>,
    /// Whether more was offered than carried, so that latency grows with the length of the run.
    pub is_unstable: bool,
    /// The distribution of latency.
    pub latency_us: LatencySummary,
    /// The class of links with the busiest link.
    pub links: Usage,
    /// The hosts' buses.
    pub buses: Usage,
    /// Events handled.
    pub events: u64,
    /// Checks of the run on itself that failed.
    pub violations: Vec<String>,
}

/// A cell of a sweep and its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepCell {
    /// Its number.
    pub number: u32,
    /// Keys and values, as a person writes them.
    pub set: Vec<(String, String)>,
    /// The same values as numbers, where they are.
    pub numbers: Vec<Option<f64>>,
    /// Its runs in the order of seeds; empty if none was made yet.
    pub records: Vec<SweepRecord>,
}

/// A whole sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepAccount {
    /// Name of the study.
    pub study: String,
    /// Version of the program.
    pub version: String,
    /// The swept keys, with the unit of their numbers, if they have any.
    pub axes: Vec<(String, Option<&'static str>)>,
    /// All cells.
    pub cells: Vec<SweepCell>,
    /// Runs that were wanted and not made.
    pub runs_not_begun: u64,
}

/// A queue that has grown by this share of what was offered, and by more than chance would let
/// it, grows on.
const GROWTH_MAX: f64 = 0.05;

impl SweepNumbers {
    /// What is kept of a run.
    #[must_use]
    pub fn new(config: &ClusterConfig, result: &RunResult, summary: &Summary) -> Self {
        let flow = Flow::of(config, result);
        let busiest = summary.links.iter().map(|(_, usage)| *usage);
        let busiest = busiest.reduce(|a, b| match a.utilisation_max >= b.utilisation_max {
            true => a,
            false => b,
        });
        Self {
            digest: summary.digest.clone(),
            ended: summary.ended.clone(),
            steady_state: summary.steady_state.clone(),
            simulated_s: summary.simulated_s,
            messages: summary.messages,
            offered_messages_per_s: flow.per_second(flow.posted),
            carried_messages_per_s: flow.per_second(flow.left),
            is_unstable: summary.steady_state.state == "overloaded" || flow.grows(),
            latency_us: summary.latency_us.clone(),
            links: busiest.unwrap_or_default(),
            buses: summary.buses,
            events: summary.events,
            violations: summary.violations.clone(),
        }
    }
}

/// What came and went between the warm-up and the end of traffic.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    posted: u64,
    left: u64,
    span_s: f64,
}

impl Flow {
    fn of(config: &ClusterConfig, result: &RunResult) -> Self {
        let mut flow = Self::default();
        let warmup = config.run.warmup.picoseconds();
        let stop = config.run.until.min(config.traffic.stop).picoseconds();
        let (mut begin, mut before) = (None, 0);
        for row in &result.series {
            let end = row.end.picoseconds();
            // Whole windows alone: one that holds the end of the warm-up belongs to neither side.
            if before >= warmup && end <= stop {
                flow.posted += row.posted;
                flow.left += row.delivered + row.dropped;
                flow.span_s = seconds(end - *begin.get_or_insert(before));
            }
            before = end;
        }
        flow
    }

    fn per_second(&self, count: u64) -> Option<f64> {
        (self.span_s > 0.0).then(|| tidy(count as f64 / self.span_s))
    }

    fn grows(&self) -> bool {
        let posted = self.posted as f64;
        let growth = posted - self.left as f64;
        growth > (GROWTH_MAX * posted).max(4.0 * posted.sqrt())
    }
}

impl SweepCell {
    /// The numbers of the runs that did not fail.
    pub fn runs(&self) -> impl Iterator<Item = &SweepNumbers> {
        self.records
            .iter()
            .filter_map(|record| record.numbers.as_deref())
    }

    /// Why its first run that failed did.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.records
            .iter()
            .find_map(|record| record.reason.as_deref())
    }

    /// Whether any run was offered more than it carried.
    #[must_use]
    pub fn is_unstable(&self) -> bool {
        self.runs().any(|run| run.is_unstable)
    }

    /// The mean latency, us: over the seeds by Student's t, of a single run by its batch means.
    #[must_use]
    pub fn mean_us(&self) -> Option<Spread> {
        let mut runs = self.runs();
        if let (Some(only), None) = (runs.next(), runs.next()) {
            let LatencySummary { mean, ci95, .. } = only.latency_us;
            return mean.map(|mean| Spread { mean, ci95 });
        }
        crate::across::spread(self.runs().filter_map(|run| run.latency_us.mean))
    }

    /// Whether every run that was measured was steady, as far as is known.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let mut runs = self.runs();
        !runs.any(|run| ["transient", "overloaded"].contains(&run.steady_state.state.as_str()))
            && !self.is_unstable()
    }

    /// Half of the 95 % interval of [`SweepCell::mean`]; none of a single run.
    pub fn half_width(&self, of: impl Fn(&SweepNumbers) -> Option<f64>) -> Option<f64> {
        crate::across::spread(self.runs().filter_map(of)).and_then(|spread| spread.ci95)
    }

    /// The mean over the runs that have the number.
    pub fn mean(&self, of: impl Fn(&SweepNumbers) -> Option<f64>) -> Option<f64> {
        crate::across::spread(self.runs().filter_map(of)).map(|spread| spread.mean)
    }
}

impl SweepAccount {
    /// A hash over all runs in order of cells and seeds.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut text = String::new();
        for record in self.cells.iter().flat_map(|cell| &cell.records) {
            let digest = record
                .numbers
                .as_ref()
                .map_or("failed", |numbers| &numbers.digest);
            text += &format!("{} {} {digest}\n", record.cell, record.seed);
        }
        crate::outcome::content_hash(text.as_bytes())
    }
}

#[cfg(test)]
pub(crate) mod sample {
    use super::*;

    /// Two keys, four cells of two seeds; the last but one unstable, the last failed.
    pub(crate) fn account() -> SweepAccount {
        let cell = |number: u32, load: f64| SweepCell {
            number,
            set: vec![
                ("traffic.rate".to_owned(), format!("{load}/s")),
                ("links.model".to_owned(), "fluid".to_owned()),
            ],
            numbers: vec![Some(load), None],
            records: [1, 2].map(|seed| record(number, seed, load)).to_vec(),
        };
        SweepAccount {
            study: "torus-1024".to_owned(),
            version: "0.1.0".to_owned(),
            axes: vec![
                ("traffic.rate".to_owned(), Some("per_s")),
                ("links.model".to_owned(), None),
            ],
            cells: (0..4)
                .map(|number| cell(number, f64::from(number + 1) * 100.0))
                .collect(),
            runs_not_begun: 0,
        }
    }

    fn record(cell: u32, seed: u64, load: f64) -> SweepRecord {
        let summary = crate::sample::summary();
        let mut latency_us = summary.latency_us.clone();
        latency_us.mean = Some(300.0 + load + seed as f64);
        let numbers = SweepNumbers {
            digest: summary.digest.clone(),
            ended: summary.ended.clone(),
            steady_state: summary.steady_state.clone(),
            simulated_s: summary.simulated_s,
            messages: summary.messages,
            offered_messages_per_s: Some(1024.0 * load),
            carried_messages_per_s: Some(1024.0 * load.min(250.0)),
            is_unstable: load > 250.0,
            latency_us,
            links: Usage {
                count: 1024,
                utilisation_mean: load / 1000.0,
                utilisation_max: load / 900.0,
            },
            buses: summary.buses,
            events: summary.events,
            violations: Vec::new(),
        };
        let has_failed = cell == 3;
        SweepRecord {
            cell,
            seed,
            numbers: (!has_failed).then(|| Box::new(numbers)),
            reason: has_failed.then(|| "no preset `giganet-clam`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_grows_if_it_takes_a_share_of_what_is_offered_and_chance_would_not() {
        let flow = |posted, left| Flow {
            posted,
            left,
            span_s: 2.0,
        };
        assert!(flow(100_000, 94_000).grows());
        assert!(!flow(100_000, 96_000).grows(), "messages under way");
        assert!(!flow(100, 70).grows(), "too few to tell");
        assert!(!flow(0, 0).grows());
        assert_eq!(flow(10, 8).per_second(8), Some(4.0));
        assert_eq!(Flow::default().per_second(8), None);
    }

    #[test]
    fn a_record_is_the_same_after_its_way_through_a_line() {
        for cell in sample::account().cells {
            for record in cell.records {
                let line = serde_json::to_string(&record).unwrap();
                let again: SweepRecord = serde_json::from_str(&line).unwrap();
                assert_eq!(again, record);
            }
        }
    }

    #[test]
    fn one_run_has_the_interval_of_its_batches_and_several_that_of_seeds() {
        let mut cell = sample::account().cells.swap_remove(0);
        // t(0.975, 1 degree of freedom) = 12.7062; half a microsecond between mean and each run.
        let spread = cell.mean_us().unwrap();
        assert_eq!(spread.mean, 401.5);
        assert!((spread.ci95.unwrap() - 6.3531).abs() < 1e-4);
        cell.records.truncate(1);
        assert_eq!(cell.mean_us().unwrap().ci95, Some(0.41));
    }
}
