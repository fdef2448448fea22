//! `viaduct trace`: some messages of a run on a time line, for Perfetto's viewer.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use viaduct_cluster::record::{Selection, record};
use viaduct_engine::Time;
use viaduct_report::{count, timeline};
use viaduct_scenario::parse_time;

use crate::arguments::ScenarioArguments;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::picture::try_to_open;
use crate::watched::WatchedRun;

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
    let scenario = &arguments.scenario;
    let watched = WatchedRun::new("trace", scenario, arguments.seed, 1, arguments.quiet)?;
    let (plan, config) = (watched.plan(), watched.config());
    let path = &arguments.output;
    let unable = |error: &std::io::Error| {
        Failure::plain(format_args!("cannot write `{}`: {error}", path.display()))
    };
    // A place that cannot be written is an error before the run, not after it.
    try_to_open(path).map_err(|error| unable(&error))?;
    let selection = Selection {
        from: arguments.from.unwrap_or(config.run.warmup),
        every: arguments.every,
        count: arguments.messages,
    };
    let recording = record(config, selection, &mut |progress| {
        watched.follow(0, &progress)
    });
    let recording = recording.map_err(|error| Failure::of_run(&plan.study, &error))?;
    watched.bar.run_done(0, recording.events);
    watched.bar.finish();
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
    let devices = match recording.device_transfers.len() as u64 {
        0 => String::new(),
        transfers => format!(", {} transfers of other devices", count(transfers)),
    };
    output::result(&format!(
        "{}: {} messages{under_way}, {} uses of hosts and links{devices}, {} bytes in {}\n",
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
