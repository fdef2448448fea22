//! `viaduct rerun`: the scenario of a run directory once more, and whether all came out the same.

use crate::arguments::RerunArguments;
use crate::describe;
use crate::failure::{Exit, Failure};
use crate::former::{Former, warn_of_version};
use crate::interrupt::Interrupt;
use crate::output;
use crate::planning::Prepared;
use crate::rdma;
use crate::run::{execute, judge, labelled_runs, prepare, show};
use crate::showing;

/// Runs a directory's scenario again and compares digests.
pub(crate) fn rerun(arguments: &RerunArguments) -> Result<Exit, Failure> {
    if let Some(order) = rdma::Order::read(&arguments.directory)? {
        return rdma::rerun(&order, arguments);
    }
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
        if run.ended == "interrupted" {
            config.run.events_max = Some(run.events);
        }
    }
    let place = arguments.out.as_deref();
    let new_directory = place
        .map(|path| prepare(path, prepared.identity(), false))
        .transpose()?;
    if !display.quiet {
        warn_of_version(former.runs.iter());
    }
    let interrupt = Interrupt::listen();
    if !display.json {
        output::result(&describe::headline(&prepared.plan))?;
    }
    let (outcome, results) = execute(&prepared.plan, display, &interrupt)?;
    if let Some(directory) = new_directory.filter(|_| !outcome.cells.is_empty()) {
        let commands = showing::rerun_command(directory.path());
        let page = showing::page(&prepared, &outcome, &results, commands);
        directory
            .write(prepared.source(), &outcome, &results, Some(&page))
            .map_err(Failure::plain)?;
    }
    show(&outcome, display)?;
    let exit = judge(&outcome, display);
    if exit != Exit::Fine {
        return Ok(exit);
    }
    let mut differences = 0;
    for ((place, summary), former) in labelled_runs(&outcome).zip(&former.runs) {
        if summary.digest != former.digest {
            differences += 1;
            let (ours, theirs) = (&summary.digest, &former.digest);
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
