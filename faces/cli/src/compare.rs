//! `viaduct compare`: one study at several levels of its network; or studies, and values of keys,
//! beside each other.

mod cases;

use std::ops::ControlFlow;

use clap::Args;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::why::{WhyError, critical_path};
use viaduct_report::{
    LEVELS_AGREE_WITHIN, LevelRecord, PathParts, levels_document, levels_table, paths_table,
};
use viaduct_scenario::{LEVELS, Override, Study, SweepAxis};

use crate::arguments::{DisplayArguments, ScenarioArguments, SeedArguments};
use crate::describe;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::output;
use crate::planning::Prepared;
use crate::run::{execute, judge};
use crate::why::refused;

#[derive(Args, Debug)]
pub(crate) struct CompareArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Further studies to hold against the first, such as the same on another network
    #[arg(value_name = "STUDY|FILE")]
    more: Vec<String>,
    /// Values of links.model; the others are held against the first [default: all that the
    /// network's preset fits, the study's own first]
    #[arg(long, value_name = "LEVEL,LEVEL", value_delimiter = ',')]
    levels: Vec<String>,
    /// Also say what the application's critical path goes to at each level: of the first seed, in
    /// two more runs a level
    #[arg(long)]
    critical_path: bool,
    #[command(flatten)]
    seeds: SeedArguments,
    #[command(flatten)]
    display: DisplayArguments,
}

/// Runs a study at each level with the same seeds, and shows the differences.
pub(crate) fn compare(arguments: &CompareArguments) -> Result<Exit, Failure> {
    if cases::are_asked_for(arguments) {
        return cases::compare(arguments);
    }
    let display = &arguments.display;
    let levels = levels(arguments)?;
    let levels = Some(Override::levels(&levels));
    let prepared = Prepared::with(&arguments.scenario, &arguments.seeds, levels)?;
    if !display.quiet {
        prepared.print_warnings();
    }
    if arguments.critical_path && prepared.study.config.traffic.application().is_none() {
        return Err(refused(&prepared.plan.study, &WhyError::NoApplication));
    }
    let interrupt = Interrupt::listen();
    if !display.json {
        output::result(&describe::headline(&prepared.plan))?;
    }
    let (outcome, results) = execute(&prepared.plan, display, &interrupt)?;
    let warmup = prepared.study.config.run.warmup;
    let mut records = LevelRecord::of_cells(&outcome.cells, &results, warmup);
    if arguments.critical_path {
        let study = &prepared.plan.study;
        for (record, cell) in records.iter_mut().zip(&prepared.plan.cells) {
            let Some(config) = cell.configs.first() else {
                continue;
            };
            match path_parts(study, config, &interrupt)? {
                Some(parts) => record.critical_path = Some(parts),
                None => return Ok(Exit::Interrupted),
            }
        }
    }
    if display.json {
        output::result(&levels_document(&outcome.study, VERSION, &records))?;
    } else {
        output::result(&format!("\n{}", levels_table(&records)))?;
        if arguments.critical_path {
            let paths = records.iter();
            let paths = paths.map(|it| (it.level.clone(), it.critical_path.as_ref()));
            output::result(&format!("\n{}", paths_table(paths)))?;
        }
    }
    let exit = judge(&outcome, display);
    if !display.quiet {
        warn(&records);
    }
    Ok(exit)
}

/// The levels to compare, each once.
fn levels(arguments: &CompareArguments) -> Result<Vec<String>, Failure> {
    let scenario = &arguments.scenario;
    let texts = scenario.overrides.iter();
    let overrides = texts.map(|text| Override::fixed(text.as_str()));
    // The study's own level may be one at which some of them do not count.
    let whatever_level = overrides.filter(|it| !it.hangs_on_level());
    let overrides: Vec<Override> = whatever_level.collect();
    let study = Study::load(&scenario.scenario, &overrides)?;
    if let Some(SweepAxis { key, .. }) = study.sweep.first() {
        return Err(Failure::new(
            format!("`{}` is run over values of `{key}`", study.name),
            format!("compare levels at one of them: --set {key}=VALUE"),
        ));
    }
    if arguments.levels.is_empty() {
        let own = study.config.links.sharing.name();
        let others = LEVELS.iter().filter(|level| **level != own);
        let others = others.filter(|level| study.fits_level(level));
        return Ok([&own]
            .into_iter()
            .chain(others)
            .map(|level| (*level).to_owned())
            .collect());
    }
    let mut levels: Vec<String> = Vec::new();
    for level in arguments.levels.iter().map(|level| level.trim().to_owned()) {
        if levels.contains(&level) {
            return Err(Failure::new(
                format!("--levels names `{level}` twice"),
                "name each level once, the one that others are held against first",
            ));
        }
        levels.push(level);
    }
    if levels.len() < 2 {
        return Err(Failure::new(
            "--levels names one level: there is nothing to compare",
            format!(
                "name several, with commas between them: {}",
                LEVELS.join(",")
            ),
        ));
    }
    Ok(levels)
}

/// Says which levels do not stand for each other.
fn warn(records: &[LevelRecord]) {
    let Some(first) = records.first() else {
        return;
    };
    for record in records {
        let Some(difference) = record.difference.as_ref().filter(|it| it.is_large()) else {
            continue;
        };
        let title = format!(
            "at `{}` messages take {:.1} % {} than at `{}`",
            record.level,
            difference.relative.abs() * 100.0,
            if difference.relative > 0.0 {
                "longer"
            } else {
                "less time"
            },
            first.level,
        );
        let help = format!(
            "beyond {:.0} % one level cannot stand for the other: docs/models.md says what each \
             leaves out, and docs/levels.md how far they differ",
            LEVELS_AGREE_WITHIN * 100.0,
        );
        output::message("warning", &title, Some(&help));
    }
}

/// What the critical path of a configuration's application goes to; none if the user wants to stop.
fn path_parts(
    study: &str,
    config: &ClusterConfig,
    interrupt: &Interrupt,
) -> Result<Option<PathParts>, Failure> {
    let path = critical_path(config, &mut |_, _| match interrupt.is_asked() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    match path {
        Ok(path) => Ok(Some(PathParts::new(&path))),
        Err(WhyError::Interrupted) => Ok(None),
        Err(error) => Err(refused(study, &error)),
    }
}
