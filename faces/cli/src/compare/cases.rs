//! Studies beside each other, or one at several values of its keys: networks, placements,
//! algorithms.

use viaduct_cluster::why::WhyError;
use viaduct_report::{CaseRecord, are_of_studies, cases_document, cases_table, paths_table};
use viaduct_scenario::Override;

use super::{CompareArguments, path_parts};
use crate::describe;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::output;
use crate::planning::Prepared;
use crate::run::{execute, judge};
use crate::why::refused;

/// Whether that is what is asked for, and not one study at several levels.
pub(super) fn are_asked_for(arguments: &CompareArguments) -> bool {
    let mut texts = arguments.scenario.overrides.iter();
    !arguments.more.is_empty() || texts.any(|text| Override::listed(text.as_str()).is_swept())
}

/// Runs all cases with the same seeds, and shows how far they are from the first.
pub(super) fn compare(arguments: &CompareArguments) -> Result<Exit, Failure> {
    let display = &arguments.display;
    let levels = (!arguments.levels.is_empty()).then(|| Override::levels(&arguments.levels));
    let names = [&arguments.scenario.scenario].into_iter();
    let mut all = Vec::new();
    for name in names.chain(&arguments.more) {
        let texts = arguments.scenario.overrides.iter();
        let overrides = texts.map(|text| Override::listed(text.as_str()));
        let overrides = overrides.chain(levels.clone());
        let prepared = Prepared::of_study(name, &arguments.seeds, overrides)?;
        let has_graph = prepared.study.config.traffic.application().is_some();
        if arguments.critical_path && !has_graph {
            return Err(refused(&prepared.plan.study, &WhyError::NoApplication));
        }
        if !display.quiet {
            prepared.print_warnings();
        }
        all.push(prepared);
    }
    if let [one] = all.as_slice()
        && one.plan.cells.len() < 2
    {
        return Err(Failure::new(
            "there is one case: nothing to compare",
            "name several studies, or several values: --set traffic.placement=linear,random",
        ));
    }
    let interrupt = Interrupt::listen();
    let mut outcomes = Vec::new();
    let mut exit = Exit::Fine;
    for prepared in &all {
        if !display.json {
            output::result(&describe::headline(&prepared.plan))?;
        }
        let (outcome, _) = execute(&prepared.plan, display, &interrupt)?;
        let judged = judge(&outcome, display);
        if judged != Exit::Fine {
            exit = judged;
        }
        outcomes.push(outcome);
    }
    let mut records = CaseRecord::of_studies(&outcomes);
    if arguments.critical_path {
        let cells = all.iter().flat_map(|prepared| {
            let study = &prepared.plan.study;
            prepared.plan.cells.iter().map(move |cell| (study, cell))
        });
        for (record, (study, cell)) in records.iter_mut().zip(cells) {
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
        output::result(&cases_document(VERSION, &records))?;
        return Ok(exit);
    }
    output::result(&format!("\n{}", cases_table(&records)))?;
    if arguments.critical_path {
        let with_study = are_of_studies(&records);
        let paths = records.iter().map(|record| {
            let path = record.critical_path.as_ref();
            (record.name(with_study), path)
        });
        output::result(&format!("\n{}", paths_table(paths)))?;
    }
    Ok(exit)
}
