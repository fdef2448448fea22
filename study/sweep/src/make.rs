//! Makes one run of a sweep: the same line wherever it is made.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use viaduct_cluster::Progress;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::result::Ended;
use viaduct_report::{Provenance, RunRecord, Summary};
use viaduct_scenario::{Diagnostics, Study, Sweep};

use crate::VERSION;
use crate::error::SweepError;
use crate::journal;
use crate::plan::SweepPlan;
use crate::pool::{Made, Maker};
use crate::schedule::Job;

/// Makes runs of one sweep, one after the other. Clones share the network that was made last.
#[derive(Clone, Debug)]
pub struct RunMaker {
    sweep: Sweep,
    first_seed: u64,
    /// The cell read last: runs of one cell follow each other.
    study: Option<(u32, Result<Study, String>)>,
}

/// A run that was made.
#[derive(Clone, Debug)]
pub struct MadeRun {
    /// Its line of a journal: what another process is to be given.
    pub line: String,
    /// Wall clock of the simulation alone.
    pub simulated: Duration,
    /// Events handled.
    pub events: u64,
    /// The line, read again: what whoever reads the journal later sees.
    pub(crate) record: RunRecord,
}

impl RunMaker {
    /// Makes runs of a plan, in any process.
    ///
    /// # Errors
    ///
    /// When the plan's study cannot be read.
    pub fn new(plan: &SweepPlan) -> Result<Self, SweepError> {
        Ok(Self::of(plan.read()?, plan))
    }

    pub(crate) const fn of(sweep: Sweep, plan: &SweepPlan) -> Self {
        Self {
            sweep,
            first_seed: plan.first_seed,
            study: None,
        }
    }

    /// Makes a run, unless `control` breaks it off. A cell that cannot be read or run is a line
    /// with the reason.
    pub fn make(
        &mut self,
        job: Job,
        control: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) -> Option<MadeRun> {
        let is_known = matches!(&self.study, Some((cell, _)) if *cell == job.cell);
        if !is_known {
            let study = self.sweep.point(job.cell as usize);
            let study = study.map_err(|wrong| in_one_line(&wrong));
            self.study = Some((job.cell, study));
        }
        let (_, study) = self.study.as_ref()?;
        let started = Instant::now();
        let seed = self.first_seed + u64::from(job.index);
        let made = match study {
            Ok(study) => {
                let mut config = study.config.clone();
                config.run.seed = seed;
                // A run that panics spoils its own row and no other.
                let made = AssertUnwindSafe(|| simulate(study, &config, control));
                catch_unwind(made)
                    .unwrap_or_else(|_| Err("the program failed: please report it".to_owned()))
            }
            Err(reason) => Err(reason.clone()),
        };
        let simulated = match study {
            Ok(_) => started.elapsed(),
            Err(_) => Duration::ZERO,
        };
        let record = RunRecord {
            cell: job.cell,
            seed,
            made: made.transpose()?.map(Box::new),
        };
        let events = record.made.as_ref().map_or(0, |summary| summary.events);
        // Numbers and texts: there is nothing that JSON cannot say.
        let line = journal::line(&record).ok()?;
        let record = journal::parse(line.trim_end().as_bytes())?;
        Some(MadeRun {
            line,
            simulated,
            events,
            record,
        })
    }
}

impl Maker for RunMaker {
    type Made = MadeRun;

    fn make(
        &mut self,
        job: Job,
        control: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Option<Made<MadeRun>>, SweepError> {
        let made = Self::make(self, job, control);
        Ok(made.map(|run| Made {
            events: run.events,
            simulated: run.simulated,
            kept: run,
        }))
    }
}

/// None if it was broken off.
fn simulate(
    study: &Study,
    config: &ClusterConfig,
    control: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Option<Summary>, String> {
    let result = viaduct_cluster::run(config, &mut |progress| control(&progress));
    let result = result.map_err(|error| error.to_string())?;
    if result.ended == Ended::Interrupted {
        return Ok(None);
    }
    // The line is the same wherever it is made: it says nothing of this machine.
    let provenance = Provenance {
        study: study.name.clone(),
        version: VERSION.to_owned(),
        wall_s: 0.0,
        peak_rss_bytes: None,
    };
    Ok(Some(Summary::new(&provenance, config, &result)))
}

/// What is wrong with a cell, without the picture of its place.
fn in_one_line(wrong: &Diagnostics) -> String {
    let said = wrong.iter().map(|diagnostic| match diagnostic.help_text() {
        Some(help) => format!("{} (help: {help})", diagnostic.title()),
        None => diagnostic.title().to_owned(),
    });
    said.collect::<Vec<_>>().join("; ")
}
