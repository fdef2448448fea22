//! What is to be run, as text that any process can read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use viaduct_report::content_hash;
use viaduct_scenario::{Sweep, SweepSource};

use crate::VERSION;
use crate::error::SweepError;

/// What is to be run: the study with the files it names, the values, the seeds.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPlan {
    /// Version of the program that all runs are made by.
    pub(crate) version: String,
    name: String,
    file_name: String,
    text: String,
    overrides: Vec<(String, bool)>,
    files: BTreeMap<String, String>,
    /// Cells in all.
    pub(crate) cells: u32,
    /// The first seed of every cell.
    pub(crate) first_seed: u64,
    /// Most seeds of a cell.
    pub(crate) seeds: u32,
    /// Half width of the mean latency's interval over the mean at which a cell has enough seeds,
    /// in millionths; none if each cell has all.
    pub(crate) until_width_millionths: Option<u32>,
}

/// The seeds that a sweep gives its cells, the same to each: numbers in a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SeedRange {
    /// The first.
    pub first: u64,
    /// Most of a cell.
    pub max: u32,
}

/// The last of some seeds in a row, of one at least.
///
/// # Errors
///
/// When there are not that many numbers.
pub fn last_seed(first: u64, seeds: u32) -> Result<u64, SweepError> {
    let last = first.checked_add(u64::from(seeds.max(1)) - 1);
    last.ok_or_else(|| {
        SweepError::new(
            format!("there are no {seeds} seeds from {first} on"),
            "seeds are numbers up to 2^64 - 1: begin with a smaller one",
        )
    })
}

impl SweepPlan {
    /// Plans `seeds_max` runs of each cell, from the study's own seed on; with a width, as many as
    /// make the interval narrow. Reads all files that the cells name.
    ///
    /// # Errors
    ///
    /// When there is nothing to vary, when no cell can be read, or there are not that many seeds.
    pub fn new(
        sweep: &mut Sweep,
        seeds_max: u32,
        until_width_millionths: Option<u32>,
    ) -> Result<Self, SweepError> {
        if sweep.axes().is_empty() && seeds_max == 1 {
            return Err(SweepError::new(
                "there is nothing to vary: no key has several values, and there is one seed",
                "give a key several values, as in traffic.rate=100,400,800, or a range, as in \
                 1..16:5; or ask for several seeds",
            ));
        }
        let cells = u32::try_from(sweep.point_count());
        let cells = cells.map_err(|_| SweepError::plain("too many cells"))?;
        let first_seed = sweep.seed()?;
        last_seed(first_seed, seeds_max)?;
        sweep.gather_files();
        let source = sweep.source();
        Ok(Self {
            version: VERSION.to_owned(),
            name: source.name,
            file_name: source.file_name,
            text: source.text,
            overrides: source.overrides,
            files: source.files,
            cells,
            first_seed,
            seeds: seeds_max,
            until_width_millionths,
        })
    }

    /// Reads what [`SweepPlan::to_text`] wrote.
    ///
    /// # Errors
    ///
    /// When it is none, or that of another version, whose results do not go together with ours.
    pub fn from_text(text: &str) -> Result<Self, SweepError> {
        let plan: Self = serde_json::from_str(text)
            .map_err(|error| SweepError::plain(format_args!("this is no sweep: {error}")))?;
        plan.check_version("the sweep")?;
        Ok(plan)
    }

    pub(crate) fn check_version(&self, what: &str) -> Result<(), SweepError> {
        if self.version == VERSION {
            return Ok(());
        }
        let begun = &self.version;
        Err(SweepError::new(
            format!("{what} was begun by version {begun}, this is version {VERSION}"),
            "results of two versions do not go together: end it with that version, or begin again \
             in another place",
        ))
    }

    /// The plan as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Strings and numbers: there is nothing that JSON cannot say.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    pub(crate) fn source(&self) -> SweepSource {
        SweepSource {
            name: self.name.clone(),
            file_name: self.file_name.clone(),
            text: self.text.clone(),
            overrides: self.overrides.clone(),
            files: self.files.clone(),
        }
    }

    /// Reads the study again; no file is opened.
    pub(crate) fn read(&self) -> Result<Sweep, SweepError> {
        let sweep = Sweep::from_source(self.source())?;
        if sweep.point_count() != self.cells as usize {
            return Err(SweepError::new(
                format!("`{}` does not say how many cells it has", self.name),
                "begin the sweep again in another place",
            ));
        }
        Ok(sweep)
    }

    /// Name of the study.
    #[must_use]
    pub fn study(&self) -> &str {
        &self.name
    }

    /// Cells in all.
    #[must_use]
    pub const fn cells(&self) -> u32 {
        self.cells
    }

    /// The seeds of each cell.
    #[must_use]
    pub const fn seeds(&self) -> SeedRange {
        SeedRange {
            first: self.first_seed,
            max: self.seeds,
        }
    }

    /// The half width over the mean at which a cell has enough seeds, if there is one.
    #[must_use]
    pub fn until_width(&self) -> Option<f64> {
        let width = self.until_width_millionths;
        width.map(|width| f64::from(width) / 1e6)
    }

    /// Eight digits that tell sweeps apart.
    #[must_use]
    pub fn hash(&self) -> String {
        content_hash(self.to_text().as_bytes())[..8].to_owned()
    }
}
