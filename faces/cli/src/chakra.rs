//! `viaduct chakra`: Chakra execution traces described, and made GOAL files.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use viaduct_operations::chakra::{Groups, Notes, join, read_groups, repeat};
use viaduct_operations::trace::Trace;
use viaduct_scenario::{TraceFiles, read_text, read_trace};

use crate::failure::{Exit, Failure};
use crate::traces::{OptionArguments, describe};

#[derive(Args, Debug)]
pub(crate) struct ChakraArguments {
    #[command(subcommand)]
    command: ChakraCommand,
}

#[derive(Debug, Subcommand)]
enum ChakraCommand {
    /// Say what is in a trace, or what is wrong with it
    Info(TraceArguments),
    /// Write a trace as a GOAL file, each collective by an algorithm
    ToGoal(ToGoalArguments),
}

/// Which traces.
#[derive(Args, Debug)]
struct TraceArguments {
    /// One file for all ranks, a folder with one for each, or what stands before `.0.et`
    trace: PathBuf,
    /// How many ranks do what one file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// A file of process groups, each with its ranks: {"0": [0, 1]}
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct ToGoalArguments {
    #[command(flatten)]
    trace: TraceArguments,
    /// The file to write: a text, or binary if the name ends in `.bin`
    output: PathBuf,
    #[command(flatten)]
    options: OptionArguments,
}

/// Does what is asked of a trace.
pub(crate) fn chakra(arguments: &ChakraArguments) -> Result<Exit, Failure> {
    match &arguments.command {
        ChakraCommand::Info(arguments) => info(arguments),
        ChakraCommand::ToGoal(arguments) => to_goal(arguments),
    }
}

fn wrong(path: &Path, problem: impl core::fmt::Display) -> Failure {
    Failure::new(
        format!("`{}`: {problem}", path.display()),
        "docs/guides/training-step.md says what is read",
    )
}

/// A trace, with what is worth knowing of it and how many nodes it has.
fn read(arguments: &TraceArguments) -> Result<(Trace, Notes, usize), Failure> {
    let path = &arguments.trace;
    let groups = match &arguments.groups {
        None => Groups::default(),
        Some(file) => {
            let text = read_text(file).map_err(|problem| wrong(file, problem))?;
            read_groups(&text).map_err(|problem| wrong(file, problem))?
        }
    };
    let files = read_trace(path).map_err(|problem| wrong(path, problem))?;
    let trace = match &files {
        TraceFiles::One(file) => repeat(file, arguments.ranks.unwrap_or(1), &groups),
        TraceFiles::Ranks(files) => match arguments.ranks {
            Some(ranks) if ranks as usize != files.len() => {
                let there = files.len();
                let problem = format!("--ranks says {ranks}, and there are files of {there}");
                return Err(wrong(path, problem));
            }
            _ => join(files, &groups),
        },
    };
    let trace = trace.map_err(|problem| wrong(path, problem))?;
    Ok((trace, files.notes(), files.nodes()))
}

fn to_goal(arguments: &ToGoalArguments) -> Result<Exit, Failure> {
    let (trace, ..) = read(&arguments.trace)?;
    let path = &arguments.trace.trace;
    let (options, output) = (&arguments.options, &arguments.output);
    options.write_goal(&trace, output, |problem| wrong(path, problem))
}

fn info(arguments: &TraceArguments) -> Result<Exit, Failure> {
    let (trace, notes, nodes) = read(arguments)?;
    let wrong = |problem| wrong(&arguments.trace, problem);
    describe(&trace, ("nodes", nodes), &notes.lines(), wrong)
}
