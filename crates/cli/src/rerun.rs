//! `viaduct rerun`: the scenario of a run directory once more, and whether all came out the same.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use viaduct_report::{OrderedMap, Summary, scenario_file};

use crate::arguments::RerunArguments;
use crate::describe;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::output;
use crate::planning::{FormerCell, Prepared};
use crate::run::{execute, judge, labelled_runs, prepare, show};

/// Runs a directory's scenario again and compares digests.
pub(crate) fn rerun(arguments: &RerunArguments) -> Result<Exit, Failure> {
    let former = Former::read(&arguments.directory)?;
    let display = &arguments.display;
    let mut prepared = Prepared::again(former.cells)?;
    // A run that was stopped is stopped there again.
    let cells = &mut prepared.plan.cells;
    for (config, run) in cells
        .iter_mut()
        .flat_map(|cell| &mut cell.configs)
        .zip(&former.runs)
    {
        if run.events_at_interrupt.is_some() {
            config.run.events_max = run.events_at_interrupt;
        }
    }
    let new_directory = arguments.out.as_deref().map(prepare).transpose()?;
    let is_other_version = former.runs.iter().any(|run| run.version != VERSION);
    if is_other_version && !display.quiet {
        let versions = &former.runs[0].version;
        let title = format!("the run was made by version {versions}, this is version {VERSION}");
        let help = "results may differ between versions; CHANGELOG.md says where";
        output::message("warning", &title, Some(help));
    }
    let interrupt = Interrupt::listen();
    if !display.json {
        output::result(&describe::headline(&prepared.plan))?;
    }
    let outcome = execute(&prepared.plan, display, &interrupt)?;
    if let Some(directory) = new_directory.filter(|_| !outcome.cells.is_empty()) {
        directory
            .write(&prepared.scenarios, &outcome)
            .map_err(Failure::plain)?;
    }
    show(&outcome, display)?;
    let exit = judge(&outcome, display);
    if exit != Exit::Fine {
        return Ok(exit);
    }
    let mut differences = 0;
    for ((place, run), former) in labelled_runs(&outcome).zip(&former.runs) {
        if run.summary.digest != former.digest {
            differences += 1;
            let (ours, theirs) = (&run.summary.digest, &former.digest);
            let title = format!("{place}digest {ours}, and {theirs} in the directory");
            output::message("error", &title, None);
        }
    }
    if differences > 0 {
        return Ok(Exit::AssumptionBroke);
    }
    if !display.json {
        let digests = match former.runs.len() {
            1 => format!("the same digest, {}", outcome.digest()),
            runs => format!("the same {runs} digests"),
        };
        output::result(&format!("\n  rerun    {digests}\n"))?;
    }
    Ok(Exit::Fine)
}

/// What a run directory says of its runs.
struct Former {
    cells: Vec<FormerCell>,
    /// In the order of cells and seeds.
    runs: Vec<FormerRun>,
}

struct FormerRun {
    digest: String,
    version: String,
    /// The count at which it was interrupted, if it was.
    events_at_interrupt: Option<u64>,
}

const DIRECTORY_HELP: &str = "give a directory that `viaduct run` left";

impl Former {
    fn read(directory: &Path) -> Result<Self, Failure> {
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).map_err(|error| {
                let title = format!("cannot read `{}`: {error}", path.display());
                Failure::new(title, DIRECTORY_HELP)
            })
        };
        let unreadable = |problem: &str| {
            let path = directory.join("summary.json");
            let title = format!("`{}` is no summary of a run: {problem}", path.display());
            Failure::new(title, DIRECTORY_HELP)
        };
        let summary: Value = serde_json::from_str(&read("summary.json")?)
            .map_err(|error| unreadable(&error.to_string()))?;
        let swept = summary.get("cells").and_then(Value::as_array);
        let cells = swept.map_or_else(|| vec![&summary], |cells| cells.iter().collect());
        let mut former = Self {
            cells: Vec::new(),
            runs: Vec::new(),
        };
        for (number, cell) in cells.into_iter().enumerate() {
            let listed = cell.get("runs").and_then(Value::as_array);
            let runs = listed.map_or_else(|| vec![cell], |runs| runs.iter().collect());
            let mut seeds = Vec::new();
            for run in runs {
                let run = Summary::deserialize(run);
                let run = run.map_err(|error| unreadable(&error.to_string()))?;
                seeds.push(run.seed);
                former.runs.push(FormerRun {
                    digest: run.digest,
                    version: run.version,
                    events_at_interrupt: (run.ended == "interrupted").then_some(run.events),
                });
            }
            let set = match cell.get("set") {
                Some(set) => OrderedMap::<String>::deserialize(set)
                    .map_err(|error| unreadable(&error.to_string()))?,
                None => OrderedMap::default(),
            };
            former.cells.push(FormerCell {
                scenario_toml: read(&scenario_file(swept.is_some().then_some(number)))?,
                set: set
                    .iter()
                    .map(|(key, value)| (key.to_owned(), value.clone()))
                    .collect(),
                seeds,
            });
        }
        if former.runs.is_empty() {
            return Err(unreadable("it holds no run"));
        }
        Ok(former)
    }
}
