//! `viaduct trace`: some messages of a run on a time line, for Perfetto's viewer.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use viaduct_engine::Time;
use viaduct_report::{count, timeline};
use viaduct_scenario::parse_time;
use viaduct_sim::record::{Selection, record};

use crate::arguments::{ScenarioArguments, SeedArguments};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output;
use crate::picture::try_to_open;
use crate::planning::Prepared;
use crate::progress::Bar;
use crate::why::is_a_sweep;

#[derive(Args, Debug)]
pub(crate) struct TraceArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// How many messages
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    messages: u64,
    /// Take those posted at this simulated time or later [default: the end of the warm-up]
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Take each N-th of them in order of posting
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// The file, for ui.perfetto.dev or another viewer
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Seed of all random streams [default: the scenario's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Show no progress and no warnings
    #[arg(long, short)]
    quiet: bool,
}

fn time(text: &str) -> Result<Time, String> {
    parse_time(text).map_err(|error| error.problem)
}

/// Runs a study and writes a file of what some of its messages did.
pub(crate) fn trace(arguments: &TraceArguments) -> Result<Exit, Failure> {
    let seeds = SeedArguments {
        seed: arguments.seed,
        seeds: 1,
    };
    let prepared = Prepared::new(&arguments.scenario, &seeds)?;
    if !arguments.quiet {
        prepared.print_warnings();
    }
    let plan = &prepared.plan;
    let [cell] = plan.cells.as_slice() else {
        return Err(is_a_sweep("trace", &arguments.scenario.scenario, plan));
    };
    let Some(config) = cell.configs.first() else {
        return Err(Failure::plain("there is no run"));
    };
    let path = &arguments.output;
    let unable = |error: &std::io::Error| {
        Failure::plain(format_args!("cannot write `{}`: {error}", path.display()))
    };
    // A place that cannot be written is an error before the run, not after it.
    try_to_open(path).map_err(|error| unable(&error))?;
    let interrupt = Interrupt::listen();
    let bar = Bar::new(1, arguments.quiet);
    let selection = Selection {
        from: arguments.from.unwrap_or(config.run.warmup),
        every: arguments.every,
        count: arguments.messages,
    };
    let recording = record(config, selection, &mut |progress| {
        bar.update(0, &progress);
        match interrupt.is_asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let recording = recording
        .map_err(|error| Failure::plain(format_args!("{} cannot be run: {error}", plan.study)))?;
    bar.run_done(0, recording.events);
    bar.finish();
    if recording.messages.is_empty() && !recording.is_interrupted {
        let title = format!("no message posted from {} on has ended", selection.from);
        return Err(Failure::new(title, "begin earlier, with `--from TIME`"));
    }
    let file = timeline(config, &recording);
    fs::write(path, &file).map_err(|error| unable(&error))?;
    let under_way = match recording.under_way {
        0 => String::new(),
        more => format!(", {} more under way at the end left out", count(more)),
    };
    output::result(&format!(
        "{}: {} messages{under_way}, {} uses of hosts and links, {} bytes in {}\n",
        plan.study,
        count(recording.messages.len() as u64),
        count(recording.uses.len() as u64),
        count(file.len() as u64),
        path.display()
    ))?;
    Ok(match recording.is_interrupted {
        true => Exit::Interrupted,
        false => Exit::Fine,
    })
}
