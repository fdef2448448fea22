//! `viaduct sweep`: a study over values of its keys, on all cores or a cluster, on after a kill.

mod curves;
mod folder;
mod schedule;
mod slurm;
mod work;

use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use viaduct_report::{
    SweepAccount, SweepCell, duration, percent, quantity, sweep_cells_table, sweep_document,
    sweep_parquet,
};
use viaduct_scenario::{Override, Sweep, axis_unit, parse_ratio};

use self::folder::{Folder, Records, SweepPlan};
use self::schedule::{Job, Schedule, StopRule};
use self::work::{Effort, Seeds, work};
use crate::arguments::DisplayArguments;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::output;
use crate::progress::Bar;
use crate::run::{RUNS_FOLDER, file_name};

/// The table of a sweep's directory.
const TABLE_FILE: &str = "sweep.parquet";

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
    /// Enough seeds once the 95 % interval of the mean latency is within this share of the mean on
    /// either side, as in 5%
    #[arg(long, value_name = "SHARE", value_parser = width)]
    until_width: Option<u32>,
    /// Where to leave journal, table and curves [default: runs/STUDY-sweep-HASH]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with a sweep that was stopped or killed: what was run is not run again
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
    let begun = match &arguments.resume {
        Some(path) => Begun::again(path)?,
        None => Begun::new(arguments)?,
    };
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

/// A sweep with its directory.
struct Begun {
    folder: Folder,
    plan: SweepPlan,
    sweep: Sweep,
}

impl Begun {
    fn new(arguments: &SweepArguments) -> Result<Self, Failure> {
        let scenario = arguments.scenario.as_deref().unwrap_or_default();
        let overrides = arguments.overrides.iter();
        let mut overrides: Vec<Override> = overrides
            .map(|text| Override::listed(text.as_str()))
            .collect();
        let seed = arguments.seed;
        overrides.extend(seed.map(|seed| Override::fixed(format!("run.seed={seed}"))));
        let mut sweep = Sweep::load(scenario, &overrides)?;
        let cells = sweep.point_count();
        let cells = u32::try_from(cells).map_err(|_| Failure::plain("too many cells"))?;
        let first_seed = first_seed(&mut sweep, cells)?;
        if first_seed.checked_add(u64::from(arguments.seeds)).is_none() {
            let title = format!(
                "there are no {} seeds from {first_seed} on",
                arguments.seeds
            );
            let help = "seeds are numbers up to 2^64 - 1: begin with a smaller one";
            return Err(Failure::new(title, help));
        }
        // A study that is built in names none.
        if sweep.source().file_name == scenario {
            gather_files(&mut sweep);
        }
        let plan = SweepPlan::new(
            sweep.source(),
            cells,
            (first_seed, arguments.seeds),
            arguments.until_width,
        );
        let path = arguments.out.clone().unwrap_or_else(|| {
            let name = file_name(&sweep.source().name);
            Path::new(RUNS_FOLDER).join(format!("{name}-sweep-{}", plan.hash()))
        });
        let folder = Folder::create(&path, &plan)?;
        Ok(Self {
            folder,
            plan,
            sweep,
        })
    }

    fn again(path: &Path) -> Result<Self, Failure> {
        let (folder, plan) = Folder::open(path)?;
        let sweep = Sweep::from_source(plan.source())?;
        if sweep.point_count() != plan.cells as usize {
            let title = format!("`{}` does not say how many cells it has", path.display());
            return Err(Failure::new(
                title,
                "begin the sweep again in another place",
            ));
        }
        Ok(Self {
            folder,
            plan,
            sweep,
        })
    }

    fn seeds(&self) -> Seeds {
        Seeds {
            first: self.plan.first_seed,
            max: self.plan.seeds,
        }
    }

    fn schedule(&self, cells: Range<u32>, records: &Records) -> Schedule {
        let rule = StopRule {
            seeds_max: self.plan.seeds,
            width: self
                .plan
                .until_width_millionths
                .map(|width| f64::from(width) / 1e6),
        };
        let first = self.plan.first_seed;
        let known = cells.clone().flat_map(|cell| {
            records.of(cell).filter_map(move |record| {
                let index = u32::try_from(record.seed.checked_sub(first)?).ok()?;
                Some((Job { cell, index }, record.clone()))
            })
        });
        Schedule::new(rule, cells, known)
    }

    fn run_part(&self, cells: Range<u32>, display: &DisplayArguments) -> Result<Exit, Failure> {
        if cells.end > self.plan.cells {
            let title = format!("there are {} cells, from 0 on", self.plan.cells);
            return Err(Failure::new(
                title,
                "give a part of them, as in `--cells 0..10`",
            ));
        }
        let journal = self.folder.journal(Some(&cells.start.to_string()))?;
        let schedule = self.schedule(cells.clone(), &self.folder.records()?);
        let (effort, interrupt) = self.work(schedule, journal, display)?;
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
        schedule: Schedule,
        journal: folder::Journal,
        display: &DisplayArguments,
    ) -> Result<(Effort, Interrupt), Failure> {
        let interrupt = Interrupt::listen();
        let bar = Bar::new(
            self.plan.cells as usize * self.plan.seeds as usize,
            display.quiet,
        );
        let shown = (&bar, &interrupt);
        let effort = work(
            &self.sweep,
            schedule,
            journal,
            self.seeds(),
            display.threads,
            shown,
        )?;
        Ok((effort, interrupt))
    }

    fn run(&self, display: &DisplayArguments) -> Result<Exit, Failure> {
        let journal = self.folder.journal(None)?;
        let records = self.folder.records()?;
        if records.lines_dropped > 0 && !display.quiet {
            let title = format!(
                "{} torn lines of the journal are run again",
                records.lines_dropped
            );
            output::message("warning", &title, None);
        }
        let schedule = self.schedule(0..self.plan.cells, &records);
        if !display.json {
            output::result(&self.headline(records.len()))?;
        }
        let (effort, interrupt) = self.work(schedule, journal, display)?;
        // The files alone say what was run: what is shown is what a later look at them would show.
        let account = self.account(effort.left)?;
        let mut table = Vec::new();
        sweep_parquet(&account, &mut table).map_err(Failure::plain)?;
        self.folder.replace(TABLE_FILE, &table)?;
        let curves = curves::draw(&account, &self.folder)?;
        if display.json {
            output::result(&sweep_document(&account))?;
        } else {
            let next = match interrupt.is_asked() {
                true => format!(
                    "  next     viaduct sweep --resume {}\n",
                    self.folder.path().display()
                ),
                false => String::new(),
            };
            output::result(&format!(
                "\n{}\n  sweep    {}; {}\n  data     {}/{TABLE_FILE}{curves}\n{next}",
                sweep_cells_table(&account),
                effort_text(&effort),
                verdict(&account),
                self.folder.path().display(),
            ))?;
        }
        Ok(judge(&account, &interrupt))
    }

    fn headline(&self, known: usize) -> String {
        let axes = self.sweep.axes();
        let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).collect();
        let of = match keys.is_empty() {
            true => String::new(),
            false => format!(" of {}", keys.join(" and ")),
        };
        let (first, seeds) = (self.plan.first_seed, u64::from(self.plan.seeds));
        let seeds = match (seeds, self.plan.until_width_millionths) {
            (1, _) => format!("seed {first}"),
            (_, None) => format!("seeds {first} to {}", first + seeds - 1),
            (_, Some(width)) => format!(
                "up to {seeds} seeds from {first} on, until the mean is known to {} %",
                percent(f64::from(width) / 1e6)
            ),
        };
        let known = match known {
            0 => String::new(),
            known => format!(", {known} runs made before"),
        };
        let cells = self.plan.cells;
        let plural = if cells == 1 { "" } else { "s" };
        format!(
            "{}: {cells} cell{plural}{of}, {seeds}{known}\n",
            self.sweep.source().name
        )
    }

    fn account(&self, runs_not_begun: u64) -> Result<SweepAccount, Failure> {
        let records = self.folder.records()?;
        let axes = self.sweep.axes().into_iter().map(|axis| {
            let unit = axis_unit(&axis.key);
            (axis.key, unit)
        });
        let cells = (0..self.plan.cells).map(|number| SweepCell {
            number,
            set: self.sweep.values(number as usize),
            numbers: self.sweep.numbers(number as usize),
            records: records.of(number).cloned().collect(),
        });
        Ok(SweepAccount {
            study: self.sweep.source().name,
            version: VERSION.to_owned(),
            axes: axes.collect(),
            cells: cells.collect(),
            runs_not_begun,
        })
    }
}

/// Makes points until each file that any of them names was read: the directory holds all that the
/// runs need. What is wrong with a point is its row's to say.
fn gather_files(sweep: &mut Sweep) {
    // A file is named by a value: each value once tells whether there are any.
    let mut stride = 1;
    for axis in sweep.axes().iter().rev() {
        for value in 0..axis.values.len() {
            let _ = sweep.point(value * stride);
        }
        stride *= axis.values.len();
    }
    // Which of them a point reads may hang on several values.
    if !sweep.source().files.is_empty() {
        for number in 0..sweep.point_count() {
            let _ = sweep.point(number);
        }
    }
}

/// The seed of the first point that can be read; if none can, what is wrong with the first.
fn first_seed(sweep: &mut Sweep, cells: u32) -> Result<u64, Failure> {
    let mut wrong = None;
    for number in 0..cells {
        match sweep.point(number as usize) {
            Ok(study) => return Ok(study.config.run.seed),
            Err(diagnostics) => wrong = wrong.or(Some(diagnostics)),
        }
    }
    Err(wrong.map_or_else(|| Failure::plain("the sweep has no cell"), Failure::from))
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

fn verdict(account: &SweepAccount) -> String {
    let count =
        |holds: fn(&SweepCell) -> bool| account.cells.iter().filter(|cell| holds(cell)).count();
    let failed = count(|cell| cell.reason().is_some());
    let unstable = count(SweepCell::is_unstable);
    let left = match account.runs_not_begun {
        0 => String::new(),
        left => format!(", {left} runs not made"),
    };
    format!("{failed} failed, {unstable} unstable{left}")
}

fn judge(account: &SweepAccount, interrupt: &Interrupt) -> Exit {
    let is_unsound = account
        .cells
        .iter()
        .flat_map(SweepCell::runs)
        .any(|run| !run.violations.is_empty());
    let has_failed = account.cells.iter().any(|cell| cell.reason().is_some());
    if is_unsound {
        let help = "do not use these results; this is an error in the program, please report it";
        output::message("error", "a check of a run on itself failed", Some(help));
        return Exit::AssumptionBroke;
    }
    match (interrupt.is_asked(), has_failed) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::WrongInput,
        (false, false) => Exit::Fine,
    }
}
