//! Parallel programs that share processors: what is told of them.

use serde::Serialize;

use super::RequestTest;
use crate::origin::Origin;
use crate::report::{aligned, grouped, significant};

/// What processes do while they wait for messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitKind {
    /// They look.
    Spin,
    /// They block at once.
    Block,
    /// They look for a while, then block.
    TwoPhase,
}

impl WaitKind {
    /// Its name, as on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Block => "block",
            Self::TwoPhase => "two-phase",
        }
    }
}

/// With whom a process exchanges requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PatternKind {
    /// The two beside it, on a ring.
    Neighbours,
    /// All others of its program.
    All,
}

impl PatternKind {
    /// Its name, as on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Neighbours => "neighbours",
            Self::All => "all",
        }
    }
}

/// Where the time of all processors went, as parts of it; all six are 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProcessorShares {
    /// Programs' own work.
    pub computing: f64,
    /// Taking and posting messages.
    pub messages: f64,
    /// Waiting and looking.
    pub spinning: f64,
    /// Traps, interrupts and the driver.
    pub kernel: f64,
    /// From process to process.
    pub switching: f64,
    /// Nothing to do.
    pub idle: f64,
}

/// The result of programs that ran together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimesharingRow {
    /// How many.
    pub programs: u32,
    /// With whom their processes exchange requests.
    pub pattern: PatternKind,
    /// Mean of what a process computes in a round, microseconds.
    pub grain_us: f64,
    /// It draws evenly between that much of it less and more, percent.
    pub imbalance_percent: u32,
    /// What processes do that wait.
    pub wait: WaitKind,
    /// How often each process computes.
    pub rounds: u32,
    /// Sum of what each takes alone, its processes spinning, seconds.
    pub one_by_one_s: f64,
    /// Until all have ended that began together, seconds.
    pub together_s: f64,
    /// Together over one by one.
    pub ratio: f64,
    /// Until the first program has ended, and the last, over the time one by one.
    pub first_ratio: f64,
    /// From process to process, a second of a host.
    pub switches_s: f64,
    /// Processes that block, a second of a host.
    pub blocks_s: f64,
    /// Endpoints uploaded, a second of a host.
    pub remaps_s: f64,
    /// Of all processors, while they run together.
    pub shares: ProcessorShares,
}

/// The results of time sharing on one fabric.
#[derive(Clone, Debug, Serialize)]
pub struct TimesharingReport {
    /// The fabric's name.
    pub fabric: String,
    /// The program.
    pub test: RequestTest,
    /// Where and when it was measured, and by what.
    #[serde(flatten)]
    pub origin: Origin,
    /// Hosts, with a process of each program.
    pub hosts: u32,
    /// Of a process's turn, microseconds.
    pub quantum_us: f64,
    /// What a process that waits in two phases spins before it blocks, microseconds.
    pub spin_us: f64,
    /// From process to process, microseconds.
    pub switch_us: f64,
    /// Whether turns end at the same times on all hosts.
    pub is_aligned: bool,
    /// What each process computes in all, seconds.
    pub seconds: f64,
    /// Of all draws.
    pub seed: u64,
    /// One row per set-up.
    pub rows: Vec<TimesharingRow>,
}

impl TimesharingReport {
    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers, names and lists: nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The rows for a person.
    #[must_use]
    pub fn table(&self) -> String {
        let heads = [
            "pattern",
            "grain us",
            "imbalance %",
            "wait",
            "programs",
            "one by one s",
            "together s",
            "ratio",
            "switches/s",
            "blocks/s",
            "computing %",
            "spinning %",
            "idle %",
        ];
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let rows = self.rows.iter().map(|row| {
            vec![
                row.pattern.name().to_owned(),
                significant(row.grain_us),
                row.imbalance_percent.to_string(),
                row.wait.name().to_owned(),
                row.programs.to_string(),
                significant(row.one_by_one_s),
                significant(row.together_s),
                format!("{:.3}", row.ratio),
                grouped(row.switches_s),
                grouped(row.blocks_s),
                percent(row.shares.computing),
                percent(row.shares.spinning),
                percent(row.shares.idle),
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let phases = if self.is_aligned {
            "which end at the same times"
        } else {
            "each host's in its own phase"
        };
        format!(
            "time sharing over {}: programs of {} processes on {} hosts, turns of {} us, {phases}; a \
             switch takes {} us,\ntwo-phase spins {} us; each process computes {} s in all\n\n{}\n  \
             one by one: the sum of what each takes alone, spinning. Switches and blocks are those \
             of a host.\n",
            self.fabric,
            self.hosts,
            self.hosts,
            significant(self.quantum_us),
            significant(self.switch_us),
            significant(self.spin_us),
            self.seconds,
            aligned(&heads, &rows)
        )
    }
}
