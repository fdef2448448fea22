//! What a cell's runs say together: what every table, document, curve and page of cells is made
//! of, whichever command made the runs.

use serde::Serialize;

use crate::across::{AcrossSeeds, Spread, spread};
use crate::figure::scaled_count;
use crate::outcome::{Published, RunRecord};
use crate::summary::{ApplicationSummary, CollectiveSummary, LatencySummary, Summary};

/// A cell's numbers: of its run, or over its seeds.
#[derive(Clone, Debug)]
pub struct CellRecord<'a> {
    /// The keys that differ between cells, with this cell's values.
    pub set: &'a [(String, String)],
    /// Published figures for it.
    pub published: &'a Published,
    /// The summaries of its runs that did not fail, in the order of the seeds.
    pub runs: Vec<&'a Summary>,
    /// Why its first run that failed did.
    pub reason: Option<&'a str>,
    /// The mean latency: over the seeds by Student's t, of a single run by its batch means.
    pub mean_us: Option<Spread>,
}

/// How a cell, or a run, ended, if it has begun.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No run was made yet.
    NotBegun,
    /// A run failed.
    Failed,
    /// More was offered than carried.
    Unstable,
    /// Nothing of these.
    Done,
}

impl Status {
    /// Its word in tables and documents.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NotBegun => "not_begun",
            Self::Failed => "failed",
            Self::Unstable => "unstable",
            Self::Done => "done",
        }
    }
}

/// As which command shows cells. `viaduct run` compares each with published figures; `viaduct
/// sweep` may have thousands, and withholds the latency of those that were offered too much.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Look {
    Run,
    Sweep,
}

impl RunRecord {
    /// How it ended, if it has begun.
    #[must_use]
    pub fn status(&self) -> Status {
        match &self.made {
            Err(_) => Status::Failed,
            Ok(summary) if summary.is_unstable => Status::Unstable,
            Ok(_) => Status::Done,
        }
    }
}

/// The key that says between how many ranks a program runs.
pub(crate) const RANKS: &str = "traffic.ranks";
/// That of how many programs run side by side.
pub(crate) const COPIES: &str = "traffic.copies";

/// What is published for a cell of which nobody asks.
static NOTHING: Published = Published {
    figures: std::collections::BTreeMap::new(),
    sources: Vec::new(),
};

impl<'a> CellRecord<'a> {
    /// Of the runs of a cell, in the order of the seeds.
    #[must_use]
    pub fn new(runs: impl Iterator<Item = &'a RunRecord>) -> Self {
        Self::of_runs(&[], &NOTHING, runs)
    }

    pub(crate) fn of_runs(
        set: &'a [(String, String)],
        published: &'a Published,
        runs: impl IntoIterator<Item = &'a RunRecord>,
    ) -> Self {
        let (mut summaries, mut reason) = (Vec::new(), None);
        for run in runs {
            match &run.made {
                Ok(summary) => summaries.push(&**summary),
                Err(failure) => reason = reason.or(Some(&**failure)),
            }
        }
        Self {
            reason,
            ..Self::of(set, published, summaries)
        }
    }

    /// Of runs none of which failed.
    pub(crate) fn of(
        set: &'a [(String, String)],
        published: &'a Published,
        runs: Vec<&'a Summary>,
    ) -> Self {
        let mean_us = match runs.as_slice() {
            [only] => {
                let LatencySummary { mean, ci95, .. } = only.latency_us;
                mean.map(|mean| Spread { mean, ci95 })
            }
            _ => spread(runs.iter().filter_map(|run| run.latency_us.mean)),
        };
        Self {
            set,
            published,
            runs,
            reason: None,
            mean_us,
        }
    }

    /// How it ended, if it has begun.
    #[must_use]
    pub fn status(&self) -> Status {
        match self.reason {
            Some(_) => Status::Failed,
            None if self.runs.is_empty() => Status::NotBegun,
            None if self.is_unstable() => Status::Unstable,
            None => Status::Done,
        }
    }

    /// How many times as fast all operations are as between one rank, with all else the same.
    pub(crate) fn speed_up(&self, cells: &[CellRecord<'_>]) -> Option<f64> {
        let own = self.makespan_us()?;
        let alone = self.with_one(cells, RANKS)?.makespan_us()?;
        (own > 0.0).then(|| alone / own)
    }

    /// How many times as long all operations take as those of one copy alone, with all else the
    /// same.
    pub(crate) fn slow_down(&self, cells: &[CellRecord<'_>]) -> Option<f64> {
        let own = self.makespan_us()?;
        let alone = self.with_one(cells, COPIES)?.makespan_us()?;
        (alone > 0.0).then(|| own / alone)
    }

    /// The mean time until all operations had ended, of the runs in which they did.
    pub(crate) fn makespan_us(&self) -> Option<f64> {
        self.mean(Summary::makespan_us)
    }

    /// The one of cells that differs from this one in a key alone, which is 1 there.
    fn with_one<'b>(&self, cells: &'b [CellRecord<'_>], key: &str) -> Option<&'b CellRecord<'b>> {
        let is_it = |other: &&CellRecord<'_>| {
            let mut pairs = other.set.iter().zip(self.set);
            let mut set = other.set.iter();
            set.any(|(its, value)| its == key && value == "1")
                && pairs.all(|(one, two)| one.0 == key || one == two)
        };
        cells.iter().find(is_it)
    }

    /// The mean of a number of the application that its runs carried out, if they did.
    pub(crate) fn application(&self, number: impl Fn(&ApplicationSummary) -> f64) -> Option<f64> {
        self.mean(|run| run.application.as_ref().map(&number))
    }

    /// The same of its collective, if it was one that has bytes.
    pub(crate) fn collective(&self, number: impl Fn(&CollectiveSummary) -> f64) -> Option<f64> {
        self.mean(|run| {
            let application = run.application.as_ref()?;
            application.collective.as_ref().map(&number)
        })
    }

    /// Whether any run was offered more than it carried.
    #[must_use]
    pub fn is_unstable(&self) -> bool {
        self.runs.iter().any(|run| run.is_unstable)
    }

    /// Whether a check of a run on itself failed.
    #[must_use]
    pub fn is_unsound(&self) -> bool {
        let is_sound = |run: &&Summary| run.violations.is_empty() || run.standstill().is_some();
        !self.runs.iter().all(is_sound)
    }

    /// Whether any run came to a standstill.
    pub(crate) fn stands_still(&self) -> bool {
        self.runs.iter().any(|run| run.standstill().is_some())
    }

    /// Whether none of its runs was told to be on its way to somewhere else.
    pub(crate) fn is_steady(&self) -> bool {
        let mut states = self.runs.iter().map(|run| run.steady_state.state.as_str());
        !states.any(|state| ["transient", "overloaded"].contains(&state)) && !self.is_unstable()
    }

    /// The estimates over its seeds.
    pub(crate) fn across_seeds(&self) -> AcrossSeeds {
        AcrossSeeds::new(self.runs.iter().copied())
    }

    /// The mean over the runs that have the number.
    pub(crate) fn mean(&self, of: impl Fn(&Summary) -> Option<f64>) -> Option<f64> {
        self.spread(of).map(|spread| spread.mean)
    }

    /// The same with half of its 95 % interval, which a single run has not.
    pub(crate) fn spread(&self, of: impl Fn(&Summary) -> Option<f64>) -> Option<Spread> {
        spread(self.runs.iter().filter_map(|run| of(run)))
    }

    /// That half alone.
    pub(crate) fn half_width(&self, of: impl Fn(&Summary) -> Option<f64>) -> Option<f64> {
        self.spread(of).and_then(|spread| spread.ci95)
    }

    pub(crate) fn sum(&self, of: impl Fn(&Summary) -> u64) -> u64 {
        self.runs.iter().map(|run| of(run)).sum()
    }

    pub(crate) fn latency(&self, of: impl Fn(&LatencySummary) -> Option<f64>) -> Option<f64> {
        self.mean(|run| of(&run.latency_us))
    }

    pub(crate) fn link(&self, class: &str) -> Option<(f64, f64)> {
        let mean = self.mean(|run| run.links.get(class).map(|usage| usage.utilisation_mean))?;
        let max = self.mean(|run| run.links.get(class).map(|usage| usage.utilisation_max))?;
        Some((mean, max))
    }

    /// How busy the busiest link was, 0 to 1.
    pub(crate) fn busiest_link(&self) -> Option<f64> {
        self.mean(|run| run.busiest_links().map(|usage| usage.utilisation_max))
    }

    pub(crate) fn has_switch_links(&self) -> bool {
        ["mesh", "tree_up", "tree_down"]
            .iter()
            .any(|class| self.link(class).is_some())
    }

    pub(crate) fn dropped_fraction(&self) -> Option<f64> {
        self.mean(|run| Some(run.dropped_fraction()))
    }

    /// What must be known before its numbers are believed.
    pub(crate) fn note(&self, look: Look) -> String {
        let has = |holds: fn(&Summary) -> bool| self.runs.iter().any(|run| holds(run));
        let is_unstable = self.is_unstable();
        let rate = |of: fn(&Summary) -> Option<f64>| {
            self.mean(of)
                .map_or_else(|| "-".to_owned(), |rate| scaled_count(rate) + " msg/s")
        };
        let mut notes = Vec::new();
        notes.extend(self.reason.map(|reason| format!("failed: {reason}")));
        let standstill = self.runs.iter().find_map(|run| run.standstill());
        notes.extend(standstill.map(str::to_owned));
        notes.extend(self.is_unsound().then(|| "a check failed".to_owned()));
        notes.extend(has(Summary::is_interrupted).then(|| "interrupted".to_owned()));
        notes.extend(has(|run| run.drops_unasked).then(|| "MESSAGES LOST".to_owned()));
        notes.extend(is_unstable.then(|| match look {
            Look::Run => "unstable: offered more than served".to_owned(),
            // What stands in place of the mean has said that it is unstable.
            Look::Sweep => format!(
                "offered {}, carried {}",
                rate(|run| run.offered_messages_per_s),
                rate(|run| run.carried_messages_per_s).trim_end_matches(" msg/s")
            ),
        }));
        if has(|run| run.steady_state.state == "transient") && !is_unstable {
            notes.push("not steady after warm-up".to_owned());
        }
        if has(Summary::is_too_short) && !is_unstable {
            notes.push(match self.runs.len() {
                1 => TOO_SHORT.to_owned(),
                _ => RUNS_TOO_SHORT.to_owned(),
            });
        }
        notes.join("; ")
    }
}

/// Said where a mean has no interval.
pub(crate) const TOO_SHORT: &str = "too short for an interval";

/// The same of a mean over seeds, whose interval knows nothing of what all runs have in common.
const RUNS_TOO_SHORT: &str = "a run alone is too short for an interval";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn one_run_has_the_interval_of_its_batches_and_several_that_of_seeds() {
        let mut cell = sample::grid().cells.swap_remove(0);
        // t(0.975, 1 degree of freedom) = 12.7062; half a microsecond between mean and each run.
        let spread = cell.record().mean_us.unwrap();
        assert_eq!(spread.mean, 401.5);
        assert!((spread.ci95.unwrap() - 6.3531).abs() < 1e-4);
        cell.runs.truncate(1);
        assert_eq!(cell.record().mean_us.unwrap().ci95, Some(0.41));
    }

    #[test]
    fn a_cell_has_the_worst_status_of_its_runs() {
        let cells = sample::grid().cells;
        let status = |cell: &crate::CellOutcome| cell.record().status().word();
        let found: Vec<&str> = cells.iter().map(status).collect();
        assert_eq!(found, ["done", "done", "unstable", "failed"]);
        assert_eq!(CellRecord::new([].iter()).status(), Status::NotBegun);
        let mixed = [cells[0].runs[0].clone(), cells[3].runs[0].clone()];
        assert_eq!(CellRecord::new(mixed.iter()).status(), Status::Failed);
        assert_eq!(CellRecord::new(mixed.iter()).runs.len(), 1);
    }
}
