//! What came of a study: cells, each run with one or more seeds.

use std::collections::BTreeMap;

use serde::Serialize;
use viaduct_sim::result::RunResult;

use crate::across::AcrossSeeds;
use crate::summary::Summary;

/// A study's runs and what they cost.
///
/// A study without a sweep has one cell whose `set` is empty.
#[derive(Clone, Debug)]
pub struct StudyOutcome {
    /// Name of the study or of the scenario file.
    pub study: String,
    /// Version of the program.
    pub version: String,
    /// The cells that were run, in the order of the study.
    pub cells: Vec<CellOutcome>,
    /// Runs that were not begun because the user stopped the study.
    pub runs_not_begun: u64,
    /// Wall clock of all runs together, seconds.
    pub wall_s: f64,
    /// Most memory the process has held, bytes, where the system tells.
    pub peak_rss_bytes: Option<u64>,
}

/// One point of a study's sweep.
#[derive(Clone, Debug)]
pub struct CellOutcome {
    /// The keys that differ between cells, with this cell's values.
    pub set: Vec<(String, String)>,
    /// Published figures for this cell.
    pub published: Published,
    /// One run a seed, in the order of the seeds; never empty.
    pub runs: Vec<RunOutcome>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Its summary.
    pub summary: Summary,
    /// Its result, for the tables.
    pub result: RunResult,
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

    /// All runs, with the number of their cell.
    pub fn runs(&self) -> impl Iterator<Item = (usize, &RunOutcome)> {
        self.cells
            .iter()
            .enumerate()
            .flat_map(|(cell, outcome)| outcome.runs.iter().map(move |run| (cell, run)))
    }

    /// Whether the user stopped it before its end.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.runs_not_begun > 0
            || self
                .runs()
                .any(|(_, run)| run.summary.ended == "interrupted")
    }

    /// The run's own digest, or for several runs a hash of all theirs in order.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut runs = self.runs();
        match (runs.next(), runs.next()) {
            (Some((_, only)), None) => only.summary.digest.clone(),
            _ => {
                let mut hash = Fnv::default();
                for (_, run) in self.runs() {
                    hash.write(run.summary.digest.as_bytes());
                }
                format!("{:016x}", hash.value())
            }
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
    /// The estimates over this cell's seeds.
    #[must_use]
    pub fn across_seeds(&self) -> AcrossSeeds {
        AcrossSeeds::new(self.runs.iter().map(|run| &run.summary))
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
