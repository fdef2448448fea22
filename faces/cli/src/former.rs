//! A run directory, read again.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use viaduct_report::{OrderedMap, Summary, scenario_file};
use viaduct_sweep::{PAGE_FILE, TABLE_FILE, holds_sweep};

use crate::failure::Failure;
use crate::jobs::VERSION;
use crate::output;
use crate::planning::FormerCell;

/// What a run directory says of its runs.
pub(crate) struct Former {
    pub(crate) cells: Vec<FormerCell>,
    /// In the order of cells and seeds; never empty.
    pub(crate) runs: Vec<Summary>,
    /// The digest of all of them.
    pub(crate) digest: String,
    /// Runs that were not begun because the user stopped the study.
    pub(crate) runs_not_begun: u64,
}

/// What all forms of a summary have.
#[derive(Deserialize)]
struct Frame {
    digest: String,
    #[serde(default)]
    runs_not_begun: u64,
}

/// The forms of a summary. They are read as types and not as a tree of values, which would lose the
/// order of stages and keys.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Cells { cells: Vec<Cell> },
    Runs(Runs),
}

#[derive(Deserialize)]
struct Cell {
    set: OrderedMap<String>,
    #[serde(flatten)]
    runs: Runs,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Runs {
    Several { runs: Vec<Summary> },
    One(Box<Summary>),
}

/// What to do when a directory is no run directory.
pub(crate) const DIRECTORY_HELP: &str = "give a directory that `viaduct run` left";

/// Reads a file of a run directory.
fn read_file(directory: &Path, name: &str) -> Result<String, Failure> {
    let path = directory.join(name);
    fs::read_to_string(&path).map_err(|error| {
        let title = format!("cannot read `{}`: {error}", path.display());
        Failure::new(title, DIRECTORY_HELP)
    })
}

/// What is wrong with the summary of a run directory.
fn unreadable(directory: &Path, problem: &str) -> Failure {
    let path = directory.join("summary.json");
    let title = format!("`{}` is no summary of a run: {problem}", path.display());
    Failure::new(title, DIRECTORY_HELP)
}

/// The summary in the directory of a run of programs.
pub(crate) fn programs_summary(directory: &Path) -> Result<Summary, Failure> {
    let text = read_file(directory, "summary.json")?;
    serde_json::from_str(&text).map_err(|error| unreadable(directory, &error.to_string()))
}

/// Says so if another version made any of the runs.
pub(crate) fn warn_of_version<'a>(mut runs: impl Iterator<Item = &'a Summary>) {
    if let Some(Summary { version, .. }) = runs.find(|run| run.version != VERSION) {
        let title = format!("the run was made by version {version}, this is version {VERSION}");
        let help = "results may differ between versions; CHANGELOG.md says where";
        output::message("warning", &title, Some(help));
    }
}

impl Former {
    /// Reads summary and scenarios.
    pub(crate) fn read(directory: &Path) -> Result<Self, Failure> {
        let read = |name: &str| read_file(directory, name);
        let unreadable = |problem: &str| unreadable(directory, problem);
        if holds_sweep(directory) {
            let place = directory.display();
            let help = format!(
                "its page is {place}/{PAGE_FILE}, its runs are the rows of {place}/{TABLE_FILE}; \
                 both are made anew by: viaduct sweep --resume {place}"
            );
            return Err(Failure::new(
                format!("`{place}` is a sweep, not a run"),
                help,
            ));
        }
        let text = read("summary.json")?;
        let told = |error: serde_json::Error| unreadable(&error.to_string());
        let frame: Frame = serde_json::from_str(&text).map_err(told)?;
        let content: Content = match serde_json::from_str(&text) {
            Ok(content) => content,
            // Says what is missing, which one of several forms cannot.
            Err(error) => {
                return Err(told(
                    serde_json::from_str::<Summary>(&text)
                        .err()
                        .unwrap_or(error),
                ));
            }
        };
        let is_sweep = matches!(content, Content::Cells { .. });
        let cells = match content {
            Content::Cells { cells } => cells,
            Content::Runs(runs) => vec![Cell {
                set: OrderedMap::default(),
                runs,
            }],
        };
        let mut former = Self {
            cells: Vec::new(),
            runs: Vec::new(),
            digest: frame.digest,
            runs_not_begun: frame.runs_not_begun,
        };
        for (number, cell) in cells.into_iter().enumerate() {
            let runs = match cell.runs {
                Runs::Several { runs } => runs,
                Runs::One(run) => vec![*run],
            };
            if runs.is_empty() {
                return Err(unreadable(&format!("its cell {number} holds no run")));
            }
            let set = cell.set.iter();
            former.cells.push(FormerCell {
                scenario_toml: read(&scenario_file(is_sweep.then_some(number)))?,
                set: set
                    .map(|(key, value)| (key.to_owned(), value.clone()))
                    .collect(),
                seeds: runs.iter().map(|run| run.seed).collect(),
            });
            former.runs.extend(runs);
        }
        if former.runs.is_empty() {
            return Err(unreadable("it holds no run"));
        }
        Ok(former)
    }
}
