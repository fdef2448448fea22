//! The results of a study: cells, each run with one or more seeds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::CellRecord;
use crate::summary::Summary;

/// The results of a study: its cells with their runs. One run alone is a study of one cell with one
/// seed.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyOutcome {
    /// Name of the study or of the scenario file.
    pub study: String,
    /// Version of the program.
    pub version: String,
    /// Its cells, in order.
    pub cells: Vec<CellOutcome>,
    /// Runs that were asked for and not made: the user stopped the study, or a journal is not full.
    pub runs_not_begun: u64,
    /// What the runs cost; none where they were made at several times or in several places.
    pub cost: Option<Cost>,
}

/// What runs cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Wall clock of all runs together, seconds.
    pub wall_s: f64,
    /// Most memory the process has held, bytes, where the system tells.
    pub peak_rss_bytes: Option<u64>,
}

/// One point of a study's sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct CellOutcome {
    /// Its number, from 0, the last key fastest.
    pub number: u32,
    /// The keys that differ between cells, with this cell's values; empty if nothing is swept.
    pub set: Vec<(String, String)>,
    /// Published figures for this cell.
    pub published: Published,
    /// Its runs in the order of the seeds; empty if none was made yet.
    pub runs: Vec<RunRecord>,
}

/// One run: a line of a sweep's journal, an entry of a summary.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// Number of its cell.
    pub cell: u32,
    /// Its seed.
    pub seed: u64,
    /// Its result, or why it failed.
    pub made: Result<Box<Summary>, String>,
}

/// Published figures by the summary's path: `latency_us.mean`, `links.mesh.utilisation_mean`, ...
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// Figures in the summary's units.
    pub figures: BTreeMap<String, Figure>,
    /// Where they stand, each place once.
    pub sources: Vec<String>,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its value, in the unit of the summary's field.
    pub value: f64,
    /// What it is for.
    pub role: FigureRole,
    /// How far a reproduction may be off, relative to the value: 0.05 is 5 %.
    pub tolerance: f64,
    /// What a version predicted before the figure was known: the value, and the version.
    pub blind: Option<(f64, String)>,
    /// What the source's own model says where the figure is measured.
    pub authors_model: Option<f64>,
}

/// What a published figure is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureRole {
    /// The model was calibrated on it: agreement is no merit.
    Given,
    /// The model is to predict it.
    Result,
    /// A version predicted it before it was known. Shown, not judged.
    Predicted,
    /// It stands there for comparison only.
    Context,
}

impl StudyOutcome {
    /// Whether more than one point was run, or was to be.
    #[must_use]
    pub fn is_sweep(&self) -> bool {
        self.cells.iter().any(|cell| !cell.set.is_empty())
    }

    /// All runs, in the order of cells and seeds.
    pub fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.cells.iter().flat_map(|cell| &cell.runs)
    }

    /// The summaries of all runs that did not fail, in the same order.
    pub fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.runs().filter_map(|run| run.made.as_deref().ok())
    }

    /// Whether the user stopped it before its end.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.runs_not_begun > 0 || self.summaries().any(Summary::is_interrupted)
    }

    /// The run's own digest, or for several runs a hash of all theirs in order: the same whichever
    /// command made them.
    #[must_use]
    pub fn digest(&self) -> String {
        let digest = |run: &RunRecord| match &run.made {
            Ok(summary) => summary.digest.clone(),
            Err(_) => "failed".to_owned(),
        };
        let mut digests: Vec<String> = self.runs().map(digest).collect();
        match digests.len() {
            1 => digests.swap_remove(0),
            _ => content_hash(digests.concat().as_bytes()),
        }
    }
}

impl Published {
    /// The figure at a path.
    #[must_use]
    pub fn value(&self, path: &str) -> Option<f64> {
        self.figures.get(path).map(|figure| figure.value)
    }
}

impl CellOutcome {
    /// One run, which is no point of a sweep.
    #[must_use]
    pub fn of_run(published: Published, summary: Summary) -> Self {
        Self {
            number: 0,
            set: Vec::new(),
            published,
            runs: vec![RunRecord {
                cell: 0,
                seed: summary.seed,
                made: Ok(Box::new(summary)),
            }],
        }
    }

    /// What its runs say together.
    #[must_use]
    pub fn record(&self) -> CellRecord<'_> {
        CellRecord::of_runs(&self.set, &self.published, &self.runs)
    }
}

/// A hash of `bytes` that stays the same in every version, 16 hexadecimal digits: tells texts
/// apart, and a torn line from a whole one.
#[must_use]
pub fn content_hash(bytes: &[u8]) -> String {
    let mut hash = Fnv::default();
    hash.write(bytes);
    format!("{:016x}", hash.value())
}

/// The 64-bit FNV-1a hash: fixed for ever, unlike the standard library's.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Takes in `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The hash of what was taken in.
    pub(crate) fn value(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_matches_its_published_vectors() {
        let hash = |text: &str| {
            let mut hash = Fnv::default();
            hash.write(text.as_bytes());
            hash.value()
        };
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }
}
