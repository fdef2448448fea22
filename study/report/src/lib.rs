//! What a run leaves: the table on the screen, the summary, the tables of the run directory, the
//! page for a browser and pictures for a paper.
//!
//! Everything here is a function of results: it decides nothing about terminals, colours or exit
//! codes. `docs/output.md` is the dictionary of every field and column.
//!
//! ```text
//! RunResult --Summary::new--> Summary --> StudyOutcome --CellRecord--> tables on the screen,
//!     |                                        |                       documents, curves, pages
//!     +---------------tables-------------------+--directory--> scenario, object, *.parquet, page
//! ```
//!
//! One run alone, several seeds and a sweep of thousands of cells are the same types: a
//! [`StudyOutcome`] has cells, a cell has runs, a run has its [`Summary`] or the reason why it
//! failed. What a cell's runs say together is its [`CellRecord`].
//!
//! What is shown of a [`ShownStudy`], which is either an outcome or a run directory read again, is
//! a page ([`run_page`], [`comparison_page`]) or a picture ([`draw`]).
//!
//! One message has an [`Explained`] of its own, and the critical path of an application an
//! [`ExplainedPath`], each as text and as an object.

mod across;
mod cases;
mod directory;
mod document;
mod explanation;
mod figure;
mod flow;
mod former;
mod levels;
mod network;
mod outcome;
mod page;
mod pictures;
mod record;
mod reproduction;
mod screen;
mod shown;
mod summary;
mod tables;
mod timeline;

#[cfg(test)]
mod sample;

/// Keys and values in the order of insertion: a JSON object that people read.
pub type OrderedMap<V> = indexmap::IndexMap<String, V>;

pub use across::{AcrossSeeds, LatencyAcross, LinksAcross, Spread};
pub use cases::{CaseRecord, are_of_studies, cases_document, cases_table};
pub use directory::{
    DirectoryError, PROGRAMS_FILE, REPORT_FILE, RunDirectory, RunIdentity, Source, scenario_file,
    scenario_hash,
};
pub use document::{document, sweep_document};
pub use explanation::{
    Explained, ExplainedPath, critical_path_document, critical_path_text, explanation_document,
    explanation_text,
};
pub use figure::{count, duration, percent, quantity, scaled_count, thousands};
pub use former::{FormerTables, TableError, read_tables};
pub use levels::{
    LEVELS_AGREE_WITHIN, LevelRecord, PairedDifference, PathParts, levels_document, levels_table,
    paths_table,
};
pub use network::{Layout, NETWORK_SVG_NODES_MAX, network_page, network_svg};
pub use outcome::{
    CellOutcome, Cost, Figure, FigureRole, Published, RunRecord, StudyOutcome, content_hash,
};
pub use page::{
    ShownTest, comparison_page, critical_path_page, measurement_page, run_page, sweep_page,
};
pub use pictures::{Drawn, Subject, draw, sweep_curves};
pub use record::{CellRecord, Status};
pub use reproduction::{
    Comparison, comparison_document, comparison_markdown, comparison_table, comparison_verdict,
    comparisons,
};
pub use screen::{cell_table, run_cells_table, sweep_cells_table};
pub use shown::{ShownCell, ShownRun, ShownStudy};
pub use summary::{
    ApplicationSummary, CollectiveSummary, Counts, FrameCounts, JobSummary, LatencySummary,
    Provenance, QueueDepthSummary, RankSpread, SteadySummary, Summary, Usage, WarningSummary,
    violation_words,
};
pub use tables::{Column, SWEEP_ROW, TABLES, Table, Values, sweep_columns, sweep_parquet};
pub use timeline::{critical_path_timeline, timeline};
