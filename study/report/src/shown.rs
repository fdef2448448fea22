//! What pictures and pages are made of: a study's runs, just made or read from a run directory.

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::result::{LinkRow, RankRow, RunResult, SeriesRow};
use viaduct_network::QueueWindow;
use viaduct_scenario::Difference;

use crate::former::FormerTables;
use crate::outcome::Published;
use crate::record::CellRecord;
use crate::summary::Summary;
use crate::tables::latency_points;

/// A study with its runs.
#[derive(Clone, Debug)]
pub struct ShownStudy<'a> {
    /// Its name; of a comparison that of its run directory.
    pub name: String,
    /// One line that names it; empty if its file has none.
    pub title: String,
    /// What it answers; empty if its file does not say.
    pub question: String,
    /// Where its set-up comes from; empty if its file does not say.
    pub source: String,
    /// Network, traffic, time and seeds in one line.
    pub headline: String,
    /// Version of the program that ran it.
    pub version: String,
    /// The digest of all runs.
    pub digest: String,
    /// Runs that were not begun because the user stopped the study.
    pub runs_not_begun: u64,
    /// Its cells; never empty.
    pub cells: Vec<ShownCell<'a>>,
    /// Settings that are not their keys' defaults.
    pub differences: Vec<Difference>,
    /// How to run it again: commands with what each does.
    pub commands: Vec<(String, String)>,
}

/// A cell with its runs.
#[derive(Clone, Debug)]
pub struct ShownCell<'a> {
    /// The keys that differ between cells, with this cell's values.
    pub set: &'a [(String, String)],
    /// Published figures for it.
    pub published: &'a Published,
    /// What was simulated.
    pub config: &'a ClusterConfig,
    /// The resolved scenario.
    pub scenario_toml: &'a str,
    /// One run per seed; never empty.
    pub runs: Vec<ShownRun<'a>>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct ShownRun<'a> {
    /// Its summary.
    pub summary: &'a Summary,
    /// This share of the measured messages took at most so many microseconds.
    pub latency: Vec<(f64, f64)>,
    /// The run over time.
    pub series: &'a [SeriesRow],
    /// What its queues held over time.
    pub queues: &'a [QueueWindow],
    /// Its links.
    pub links: &'a [LinkRow],
    /// The ranks of its application; none without one.
    pub ranks: &'a [RankRow],
}

impl<'a> ShownRun<'a> {
    /// Of a run that was just made.
    #[must_use]
    pub fn new(summary: &'a Summary, result: &'a RunResult) -> Self {
        Self {
            summary,
            latency: latency_points(result),
            series: &result.series,
            queues: &result.queues,
            links: &result.link_rows,
            ranks: result.application.as_ref().map_or(&[], |it| &it.ranks),
        }
    }

    /// Of a run that was read from a directory.
    #[must_use]
    pub fn former(summary: &'a Summary, tables: &'a FormerTables) -> Self {
        Self {
            summary,
            latency: tables.latency.clone(),
            series: &tables.series,
            queues: &tables.queues,
            links: &tables.links,
            ranks: &tables.ranks,
        }
    }
}

impl ShownCell<'_> {
    /// What its runs say together.
    pub(crate) fn record(&self) -> CellRecord<'_> {
        let summaries = self.runs.iter().map(|run| run.summary).collect();
        CellRecord::of(self.set, self.published, summaries)
    }

    /// `traffic.size = 64 B`; empty for the only cell of a study.
    pub(crate) fn point(&self) -> String {
        let values = self
            .set
            .iter()
            .map(|(key, value)| format!("{key} = {value}"));
        values.collect::<Vec<_>>().join(", ")
    }
}

/// A run with words that tell it from the others.
#[derive(Clone, Debug)]
pub(crate) struct NamedRun<'a> {
    pub(crate) name: String,
    pub(crate) cell: &'a ShownCell<'a>,
    pub(crate) run: &'a ShownRun<'a>,
}

/// A cell with words that tell it from the others.
#[derive(Clone, Debug)]
pub(crate) struct NamedCell<'a> {
    pub(crate) name: String,
    pub(crate) cell: &'a ShownCell<'a>,
}

/// All cells of some studies, in order.
pub(crate) fn named_cells<'a>(studies: &'a [ShownStudy<'a>]) -> Vec<NamedCell<'a>> {
    let cells = studies.iter().flat_map(|study| {
        study.cells.iter().map(move |cell| {
            let place = (studies.len() > 1).then(|| study.name.clone());
            let words: Vec<String> = place.into_iter().chain(nonempty(cell.point())).collect();
            NamedCell {
                name: words.join(": "),
                cell,
            }
        })
    });
    cells.collect()
}

/// All runs of some cells, in order.
pub(crate) fn named_runs<'a>(cells: &[NamedCell<'a>]) -> Vec<NamedRun<'a>> {
    let runs = cells.iter().flat_map(|named| {
        let cell = named.cell;
        cell.runs.iter().map(move |run| {
            let seed = (cell.runs.len() > 1).then(|| format!("seed {}", run.summary.seed));
            let words: Vec<String> = nonempty(named.name.clone())
                .into_iter()
                .chain(seed)
                .collect();
            NamedRun {
                name: words.join(", "),
                cell,
                run,
            }
        })
    });
    runs.collect()
}

fn nonempty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// At most so many of a list, evenly chosen, the first and the last among them.
pub(crate) fn chosen<T: Clone>(list: &[T], most: usize) -> Vec<T> {
    if list.len() <= most {
        return list.to_vec();
    }
    match most {
        0 => Vec::new(),
        1 => vec![list[0].clone()],
        _ => {
            let last = list.len() - 1;
            let numbers = (0..most).map(|index| index * last / (most - 1));
            numbers.map(|number| list[number].clone()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_among_the_chosen() {
        let list: Vec<u32> = (0..100).collect();
        assert_eq!(chosen(&list, 4), [0, 33, 66, 99]);
        assert_eq!(chosen(&list[..3], 4), [0, 1, 2]);
        assert_eq!(chosen(&list, 1), [0]);
        assert!(chosen::<u32>(&[], 4).is_empty());
    }
}
