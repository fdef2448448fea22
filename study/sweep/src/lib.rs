//! Sweeps: a study over values of its keys and over seeds, wherever its runs are made.
//!
//! ```text
//! SweepPlan     what is to be run: text alone, so that any process anywhere can make its runs
//! RunMaker      makes one run of a plan; gives a line, the same wherever it is made
//! Ledger        which run is next, which were made; keeps the lines in a journal if there is one
//! Campaign      a plan with its directory: begins, goes on, works on threads, gives the outcome
//! make_runs     the one pool of threads: takes runs from a desk (a Ledger, or KeptRuns of
//!               `viaduct run`), has them made, and puts them back
//! ```
//!
//! Whoever has other processors takes runs from the ledger, has them made there by a [`RunMaker`]
//! of the same plan, and gives the lines back. Which runs are asked for depends on results alone,
//! so that all ways end with the same [outcome](viaduct_report::StudyOutcome), to the bit.
//!
//! `viaduct sweep` (the command's `sweep.rs`) makes its cells one at a time (`viaduct-scenario`'s
//! `sweep.rs`), so that a wrong cell does not stop the others. A `Schedule` says which runs are
//! wanted, as a function of those made; threads make them and append one line per run to the
//! journal; table and curves are made from the journals alone. What a kill leaves is therefore what
//! a resumed sweep, or the node of a cluster, begins with.

mod campaign;
mod directory;
mod error;
mod journal;
mod kept;
mod ledger;
mod make;
mod plan;
mod pool;
mod schedule;

pub use campaign::{Campaign, PAGE_FILE, TABLE_FILE};
pub use directory::holds_sweep;
pub use error::SweepError;
pub use kept::KeptRuns;
pub use ledger::{Ledger, RunCounts};
pub use make::{MadeRun, RunMaker};
pub use plan::{SeedRange, SweepPlan, last_seed};
pub use pool::{Desk, Effort, Made, Maker, Watch, make_runs};
pub use schedule::Job;

/// The version that results carry: all runs of a sweep are made by one.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
