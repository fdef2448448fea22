//! What a run leaves: the table on the screen, the summary, the tables of the run directory.
//!
//! Everything here is a function of results: it decides nothing about terminals, colours or exit
//! codes. `docs/output.md` is the dictionary of every field and column.
//!
//! ```text
//! RunResult --Summary::new--> Summary --> StudyOutcome --document--> the object of --json
//!     |                                        |     +----screen----> the table
//!     |                                        |     +-reproduction-> published beside ours
//!     +---------------tables-------------------+----------directory-> scenario, object, *.parquet
//! ```
//!
//! One message has an [`Explained`] of its own, as text and as an object.

mod across;
mod directory;
mod document;
mod explanation;
mod figure;
mod ordered;
mod outcome;
mod reproduction;
mod screen;
mod summary;
mod tables;

#[cfg(test)]
mod sample;

pub use across::{AcrossSeeds, LatencyAcross, LinksAcross};
pub use directory::{DirectoryError, RunDirectory, scenario_file, scenario_hash};
pub use document::document;
pub use explanation::{Explained, explanation_document, explanation_text};
pub use figure::{count, duration, percent, quantity, scaled_count};
pub use ordered::OrderedMap;
pub use outcome::{CellOutcome, Figure, FigureRole, Published, RunOutcome, StudyOutcome};
pub use reproduction::{
    Comparison, comparison_document, comparison_markdown, comparison_table, comparison_verdict,
    comparisons,
};
pub use screen::{cell_table, sweep_table};
pub use summary::{
    Counts, LatencySummary, Provenance, QueueDepthSummary, SteadySummary, Summary, Usage,
    WarningSummary,
};
