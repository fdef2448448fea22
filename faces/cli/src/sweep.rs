//! `viaduct sweep`: a study over values of its keys, on all cores or a cluster, on after a kill.

mod slurm;

use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use viaduct_report::{
    CellRecord, StudyOutcome, duration, percent, quantity, sweep_cells_table, sweep_document,
};
use viaduct_scenario::{Override, Sweep, parse_ratio};
use viaduct_sweep::{Campaign, Effort, Ledger, PAGE_FILE, SweepPlan};

use crate::arguments::DisplayArguments;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::jobs::Watched;
use crate::output;
use crate::progress::Bar;
use crate::run::{RUNS_FOLDER, file_name, labelled_runs};

#[derive(Args, Debug)]
pub(crate) struct SweepArguments {
    /// A study's name (see `viaduct studies`) or a scenario file
    #[arg(value_name = "STUDY|FILE", required_unless_present = "resume")]
    scenario: Option<String>,
    /// Values of a key: `KEY=A,B,C`, or `KEY=FROM..TO:STEP`, or one; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUES")]
    overrides: Vec<String>,
    /// First seed, the same in each cell [default: the scenario's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Runs of each cell, with this many seeds in a row; with --until-width, at most
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: u32,
    /// Add seeds until the 95 % interval of the mean latency is within this share of the mean on
    /// either side, as in 5%
    #[arg(long, value_name = "SHARE", value_parser = width)]
    until_width: Option<u32>,
    /// Where to leave journal, table and curves [default: runs/STUDY-sweep-HASH]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue a sweep that was stopped or killed; runs that ended are kept
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scenario", "overrides", "seed", "seeds", "until_width", "out"])]
    resume: Option<PathBuf>,
    /// Run nothing: write a job array for Slurm, with these options of sbatch
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    slurm: Option<String>,
    /// Most elements of the job array
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "slurm", value_parser = clap::value_parser!(u32).range(1..))]
    slurm_elements: u32,
    /// Run these cells alone, as in 0..10, and leave their journal: an element of a job array
    #[arg(long, value_name = "FROM..TO", requires = "resume", value_parser = cells)]
    cells: Option<Range<u32>>,
    #[command(flatten)]
    display: DisplayArguments,
}

/// A share in millionths.
fn width(text: &str) -> Result<u32, String> {
    let share = parse_ratio(text).map_err(|error| error.problem)?;
    let millionths = (share * 1e6).round();
    match (1.0..=1e6).contains(&millionths) {
        true => Ok(millionths as u32),
        false => Err("a share above 0 is needed, as in `--until-width 5%`".to_owned()),
    }
}

fn cells(text: &str) -> Result<Range<u32>, String> {
    let ends = text.split_once("..");
    let ends = ends.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match ends {
        Some((from, to)) if from < to => Ok(from..to),
        _ => Err("two numbers are needed, the second larger, as in `--cells 0..10`".to_owned()),
    }
}

/// Runs a sweep, or goes on with one.
pub(crate) fn sweep(arguments: &SweepArguments) -> Result<Exit, Failure> {
    let campaign = match &arguments.resume {
        Some(path) => Campaign::resume(path)?,
        None => begin(arguments)?,
    };
    let path = campaign.path().unwrap_or(Path::new("")).to_owned();
    let begun = Begun { campaign, path };
    let display = &arguments.display;
    if let Some(options) = &arguments.slurm {
        let written = slurm::write(&begun, options, arguments.slurm_elements)?;
        output::result(&written)?;
        return Ok(Exit::Fine);
    }
    if let Some(cells) = &arguments.cells {
        return begun.run_part(cells.clone(), display);
    }
    begun.run(display)
}

fn begin(arguments: &SweepArguments) -> Result<Campaign, Failure> {
    let scenario = arguments.scenario.as_deref().unwrap_or_default();
    let overrides = arguments.overrides.iter();
    let mut overrides: Vec<Override> = overrides
        .map(|text| Override::listed(text.as_str()))
        .collect();
    overrides.extend(arguments.seed.map(Override::seed));
    let mut sweep = Sweep::load(scenario, &overrides)?;
    let plan = SweepPlan::new(&mut sweep, arguments.seeds, arguments.until_width)?;
    let path = arguments.out.clone().unwrap_or_else(|| {
        let name = file_name(plan.study());
        Path::new(RUNS_FOLDER).join(format!("{name}-sweep-{}", plan.hash()))
    });
    Ok(Campaign::in_directory(plan, &path)?)
}

/// A sweep with its directory.
struct Begun {
    campaign: Campaign,
    path: PathBuf,
}

impl Begun {
    fn run_part(&self, cells: Range<u32>, display: &DisplayArguments) -> Result<Exit, Failure> {
        let mut ledger = self.campaign.ledger_of_cells(cells.clone())?;
        let (effort, interrupt) = self.work(&mut ledger, display)?;
        if !display.quiet {
            output::note(&format!(
                "cells {} to {}: {}\n",
                cells.start,
                cells.end - 1,
                effort_text(&effort)
            ));
        }
        Ok(match interrupt.is_asked() {
            true => Exit::Interrupted,
            false => Exit::Fine,
        })
    }

    fn work(
        &self,
        ledger: &mut Ledger,
        display: &DisplayArguments,
    ) -> Result<(Effort, Interrupt), Failure> {
        let plan = self.campaign.plan();
        let seeds_max = plan.seeds().max;
        let bar = Bar::new(plan.cells() as usize * seeds_max as usize, display.quiet);
        let interrupt = Interrupt::listen();
        let watched = Watched::new(&bar, &interrupt, (0..plan.cells()).map(|_| seeds_max));
        let effort = self.campaign.work(ledger, display.threads, &watched)?;
        bar.finish();
        Ok((effort, interrupt))
    }

    fn run(&self, display: &DisplayArguments) -> Result<Exit, Failure> {
        let mut ledger = self.campaign.ledger()?;
        if ledger.lines_dropped() > 0 && !display.quiet {
            let title = format!(
                "{} torn lines of the journal are run again",
                ledger.lines_dropped()
            );
            output::message("warning", &title, None);
        }
        if !display.json {
            output::result(&self.headline(ledger.known_count()))?;
        }
        let (effort, interrupt) = self.work(&mut ledger, display)?;
        let outcome = self.campaign.outcome(&ledger);
        let files = self.campaign.leave(&outcome)?;
        if display.json {
            output::result(&sweep_document(&outcome))?;
        } else {
            let path = self.path.display();
            let next = match interrupt.is_asked() {
                true => format!("  next     viaduct sweep --resume {path}\n"),
                false => String::new(),
            };
            output::result(&format!(
                "\n{}\n  sweep    {}; {}\n  report   {path}/{PAGE_FILE}\n  data     {path}/{}\n{next}",
                sweep_cells_table(&outcome),
                effort_text(&effort),
                verdict(&outcome),
                files.join(", "),
            ))?;
        }
        Ok(judge(&outcome, &interrupt))
    }

    fn headline(&self, known: usize) -> String {
        let axes = self.campaign.axes();
        let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).collect();
        let of = match keys.is_empty() {
            true => String::new(),
            false => format!(" of {}", keys.join(" and ")),
        };
        let plan = self.campaign.plan();
        let (first, seeds) = (plan.seeds().first, u64::from(plan.seeds().max));
        let seeds = match (seeds, plan.until_width()) {
            (1, _) => format!("seed {first}"),
            (_, None) => format!("seeds {first} to {}", first + (seeds - 1)),
            (_, Some(width)) => format!(
                "up to {seeds} seeds from {first} on, until the mean is known to {} %",
                percent(width)
            ),
        };
        let known = match known {
            0 => String::new(),
            known => format!(", {known} runs made before"),
        };
        let cells = plan.cells();
        let plural = if cells == 1 { "" } else { "s" };
        format!(
            "{}: {cells} cell{plural}{of}, {seeds}{known}\n",
            plan.study()
        )
    }
}

fn effort_text(effort: &Effort) -> String {
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let runs = effort.runs;
    let offered_s = effort.wall_s * effort.threads as f64;
    let mut text = format!(
        "{runs} run{} on {} thread{}, {}",
        plural(runs),
        effort.threads,
        plural(effort.threads as u64),
        duration(effort.wall_s)
    );
    if runs > 0 && offered_s > 0.0 {
        text += &format!(
            ": simulating {} % of the time, {} ms a run beside it",
            percent(effort.simulated_s / offered_s),
            quantity((offered_s - effort.simulated_s).max(0.0) / runs as f64 * 1e3)
        );
    }
    text
}

fn verdict(outcome: &StudyOutcome) -> String {
    let cells: Vec<CellRecord<'_>> = outcome.cells.iter().map(|cell| cell.record()).collect();
    let count =
        |holds: fn(&CellRecord<'_>) -> bool| cells.iter().filter(|cell| holds(cell)).count();
    let failed = count(|cell| cell.reason.is_some());
    let unstable = count(|cell| cell.is_unstable());
    let left = match outcome.runs_not_begun {
        0 => String::new(),
        left => format!(", {left} runs not made"),
    };
    format!("{failed} failed, {unstable} unstable{left}")
}

/// Runs that are named that must not be used.
const BROKEN_SHOWN_MAX: usize = 5;

fn judge(outcome: &StudyOutcome, interrupt: &Interrupt) -> Exit {
    let broken: Vec<_> = labelled_runs(outcome)
        .filter_map(|(place, summary)| Some((place, summary.told(summary.violations.first()?))))
        .collect();
    for (place, (title, help)) in broken.iter().take(BROKEN_SHOWN_MAX) {
        output::message("error", &format!("{place}{title}"), Some(help));
    }
    if broken.len() > BROKEN_SHOWN_MAX {
        let left = broken.len() - BROKEN_SHOWN_MAX;
        let title =
            format!("{left} more runs failed a check on themselves or came to a standstill");
        output::message("error", &title, Some("the table says which"));
    }
    let has_failed = outcome.runs().any(|run| run.made.is_err());
    if !broken.is_empty() {
        return Exit::AssumptionBroke;
    }
    match (interrupt.is_asked(), has_failed) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::WrongInput,
        (false, false) => Exit::Fine,
    }
}
