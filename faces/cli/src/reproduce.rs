//! `viaduct reproduce`: published figures beside ours.

use std::fs;

use clap::Args;
use viaduct_report::{
    Comparison, FigureRole, comparison_document, comparison_markdown, comparison_table,
    comparison_verdict, comparisons,
};
use viaduct_scenario::{Preset, list_models, list_studies, load_preset};

use crate::arguments::{DisplayArguments, ScenarioArguments, SeedArguments};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::jobs::{PlannedCell, VERSION};
use crate::output;
use crate::planning::Prepared;
use crate::programs;
use crate::run::{execute, judge};

#[derive(Args, Debug)]
pub(crate) struct ReproduceArguments {
    /// A study's name, a preset's name (am-myrinet and gam-myrinet included), or a file of either
    /// [default: every study and preset with published figures]
    #[arg(value_name = "STUDY|FILE|MODEL")]
    pub(crate) scenario: Option<String>,
    /// Print the table in Markdown and nothing else
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    #[command(flatten)]
    pub(crate) display: DisplayArguments,
}

/// Runs what figures were published for, and compares.
pub(crate) fn reproduce(arguments: &ReproduceArguments) -> Result<Exit, Failure> {
    let display = &arguments.display;
    // A preset is also named as the table names it, and as `measure --on` does.
    let asked = arguments.scenario.as_deref();
    let asked = asked.map(|name| name.strip_prefix("sim:").unwrap_or(name));
    // Each with the name of its hosts: a preset in a file goes by its path.
    let mut presets: Vec<(String, Preset)> = list_models()
        .into_iter()
        .map(|preset| (preset.name.clone(), preset))
        .collect();
    presets.retain(|(name, _)| asked.is_none_or(|asked| asked == name));
    if let Some(path) = asked.filter(|name| name.ends_with(".toml") && !is_study(name)) {
        presets.push((path.to_owned(), load_preset(path)?));
    }
    let named = presets.first().filter(|_| asked.is_some());
    let has_nothing = named.is_some_and(|(_, preset)| preset.published.is_empty());
    presets.retain(|(_, preset)| !preset.published.is_empty());
    let interrupt = Interrupt::listen();
    let plans = match &arguments.scenario {
        Some(_) if !presets.is_empty() => Vec::new(),
        Some(name) if has_nothing => {
            return Err(Failure::new(
                format!("nothing was published for the preset `{name}`"),
                "`viaduct reproduce` shows which studies and presets have figures",
            ));
        }
        Some(name) if name.starts_with("sim:") => {
            return Err(Failure::new(
                format!("no preset is called `{name}`"),
                "`viaduct reproduce` shows which studies and presets have figures",
            ));
        }
        Some(scenario) => {
            let prepared = prepare(scenario)?;
            if prepared.plan.cells.is_empty() {
                let title = format!("`{scenario}` has no published figures to compare with");
                let help = "give each a [[published]] table (see `viaduct keys published`)";
                return Err(Failure::new(title, help));
            }
            vec![prepared]
        }
        None => {
            let names = list_studies().into_iter().map(|(name, ..)| name);
            names
                .map(prepare)
                .filter(|prepared| !matches!(prepared, Ok(it) if it.plan.cells.is_empty()))
                .collect::<Result<_, Failure>>()?
        }
    };
    let mut rows: Vec<Comparison> = Vec::new();
    for prepared in &plans {
        let (outcome, _) = execute(&prepared.plan, display, &interrupt)?;
        let exit = judge(&outcome, display);
        if exit != Exit::Fine {
            return Ok(exit);
        }
        rows.extend(comparisons(&outcome));
    }
    for (hosts, preset) in &presets {
        let found = programs::comparisons(hosts, preset, &interrupt);
        if interrupt.is_asked() {
            return Ok(Exit::Interrupted);
        }
        rows.extend(found?);
    }
    if interrupt.is_asked() {
        return Ok(Exit::Interrupted);
    }
    if display.json {
        output::result(&comparison_document(&rows, VERSION))?;
    } else if arguments.markdown {
        output::result(&comparison_markdown(&rows))?;
    } else {
        let table = comparison_table(&rows);
        output::result(&format!("{table}\n  {}\n", comparison_verdict(&rows)))?;
    }
    if rows.iter().any(Comparison::is_missed) {
        Ok(Exit::TargetMissed)
    } else {
        Ok(Exit::Fine)
    }
}

/// Whether a file is a study: only those say how long they run. One that cannot be read is left to
/// the reader of studies, which says so.
fn is_study(path: &str) -> bool {
    let text = fs::read_to_string(path);
    text.map_or(true, |text| {
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| line.starts_with("[run]") || line.starts_with("run."))
    })
}

/// A study's points that figures were published for, with the study's own seed.
fn prepare(scenario: &str) -> Result<Prepared, Failure> {
    let scenario = ScenarioArguments {
        scenario: scenario.to_owned(),
        overrides: Vec::new(),
    };
    let seeds = SeedArguments {
        seed: None,
        seeds: 1,
    };
    let mut prepared = Prepared::new(&scenario, &seeds)?;
    prepared.plan.cells.retain(is_compared);
    Ok(prepared)
}

fn is_compared(cell: &PlannedCell) -> bool {
    let mut figures = cell.published.figures.values();
    figures.any(|figure| figure.role != FigureRole::Context)
}
