//! `viaduct simgrid`: SimGrid's time-independent traces described, and made GOAL files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use viaduct_scenario::read_simgrid_trace;

use crate::failure::{Exit, Failure};
use crate::traces::{OptionArguments, describe};

#[derive(Args, Debug)]
pub(crate) struct SimgridArguments {
    #[command(subcommand)]
    command: SimgridCommand,
}

#[derive(Debug, Subcommand)]
enum SimgridCommand {
    /// Say what is in a trace, or what is wrong with it
    Info(TraceArgument),
    /// Write a trace as a GOAL file, each collective by an algorithm
    ToGoal(ToGoalArguments),
}

/// Which trace.
#[derive(Args, Debug)]
struct TraceArgument {
    /// One file of all ranks, a file that lists those of ranks, or a folder of them
    trace: PathBuf,
}

#[derive(Args, Debug)]
struct ToGoalArguments {
    #[command(flatten)]
    trace: TraceArgument,
    /// The file to write: a text, or binary if the name ends in `.bin`
    output: PathBuf,
    #[command(flatten)]
    options: OptionArguments,
}

/// Does what is asked of a trace.
pub(crate) fn simgrid(arguments: &SimgridArguments) -> Result<Exit, Failure> {
    let (SimgridCommand::Info(trace) | SimgridCommand::ToGoal(ToGoalArguments { trace, .. })) =
        &arguments.command;
    let path = &trace.trace;
    let wrong = |problem: String| {
        Failure::new(
            format!("`{}`: {problem}", path.display()),
            "docs/guides/mpi-program.md says what is read",
        )
    };
    let (trace, notes) = read_simgrid_trace(path).map_err(wrong)?;
    match &arguments.command {
        SimgridCommand::Info(_) => {
            let steps = trace.ranks.iter().map(|steps| steps.len()).sum();
            describe(&trace, ("steps", steps), &notes.lines(), wrong)
        }
        SimgridCommand::ToGoal(arguments) => {
            let (options, output) = (&arguments.options, &arguments.output);
            options.write_goal(&trace, output, wrong)
        }
    }
}
