//! `viaduct chakra`: Chakra execution traces described, and made GOAL files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use viaduct_operations::chakra::{Groups, Notes, join, read_groups, repeat};
use viaduct_operations::collective::{Algorithm, Collective, PIECES};
use viaduct_operations::trace::{self, HOST, Options, Trace, Work};
use viaduct_report::count;
use viaduct_scenario::{TraceFiles, read_text, read_trace};

use crate::failure::{Exit, Failure};
use crate::goal::write_graph;
use crate::output;

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
    /// How all-reduces are done
    #[arg(long, value_parser = of(Collective::AllReduce))]
    all_reduce: Option<String>,
    /// How all-gathers are done
    #[arg(long, value_parser = of(Collective::AllGather))]
    all_gather: Option<String>,
    /// How reduce-scatters are done
    #[arg(long, value_parser = of(Collective::ReduceScatter))]
    reduce_scatter: Option<String>,
    /// How all-to-alls are done
    #[arg(long, value_parser = of(Collective::AllToAll))]
    all_to_all: Option<String>,
    /// In how many pieces a half goes through a double tree
    #[arg(long, value_name = "N", default_value_t = PIECES)]
    pieces: u32,
    /// What times of computations are multiplied by
    #[arg(long, value_name = "FACTOR", value_parser = factor, default_value = "1")]
    compute_scale: f64,
}

fn of(collective: Collective) -> PossibleValuesParser {
    PossibleValuesParser::new(collective.algorithms().iter().map(|it| it.name()))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.trim().parse().ok();
    let factor = factor.filter(|factor: &f64| factor.is_finite() && *factor >= 0.0);
    factor.ok_or_else(|| "a number of at least 0 is expected".to_owned())
}

impl ToGoalArguments {
    fn options(&self) -> Options {
        let usual = Options::default();
        let algorithm = |named: &Option<String>, usual| {
            let mut all = Algorithm::ALL.into_iter();
            let named = named.as_deref();
            all.find(|it| Some(it.name()) == named).unwrap_or(usual)
        };
        Options {
            all_reduce: algorithm(&self.all_reduce, usual.all_reduce),
            all_gather: algorithm(&self.all_gather, usual.all_gather),
            reduce_scatter: algorithm(&self.reduce_scatter, usual.reduce_scatter),
            all_to_all: algorithm(&self.all_to_all, usual.all_to_all),
            pieces: self.pieces,
            compute_scale: self.compute_scale,
        }
    }
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
    let graph = trace::graph(&trace, &arguments.options());
    let graph = graph.map_err(|problem| wrong(&arguments.trace.trace, problem))?;
    write_graph(&graph, &arguments.output)?;
    Ok(Exit::Fine)
}

/// How often something is done, and with how many bytes in all.
type Sum = (u64, u128);

fn info(arguments: &TraceArguments) -> Result<Exit, Failure> {
    let (trace, notes, nodes) = read(arguments)?;
    // That collectives fit together is seen when they are carried out.
    trace::graph(&trace, &Options::default())
        .map_err(|problem| wrong(&arguments.trace, problem))?;
    let mut times = [(0_u64, 0_u128); 2];
    let (mut sends, mut receives): (Sum, Sum) = Default::default();
    let mut collectives: BTreeMap<&str, Sum> = BTreeMap::new();
    for work in trace.ranks.iter().flat_map(|steps| steps.all()) {
        let (sum, amount) = match work {
            Work::Compute {
                nanoseconds,
                processor,
            } => (&mut times[usize::from(processor == HOST)], nanoseconds),
            Work::Send { bytes, .. } => (&mut sends, bytes),
            Work::Receive { bytes, .. } => (&mut receives, bytes),
            Work::Together(together) => {
                let sum = collectives.entry(together.collective.name()).or_default();
                (sum, together.bytes)
            }
        };
        *sum = (sum.0 + 1, sum.1 + u128::from(amount));
    }
    let row = |text: &mut String, name: &str, (times, amount): Sum, unit: &str| {
        if times > 0 {
            let _ = writeln!(text, "{name:<22} {}, {amount} {unit}", count(times));
        }
    };
    let mut text = format!(
        "{:<22} {}\n{:<22} {}\n",
        "ranks",
        count(trace.ranks.len() as u64),
        "nodes",
        count(nodes as u64)
    );
    row(&mut text, "on accelerators", times[0], "ns");
    row(&mut text, "on their hosts", times[1], "ns");
    row(&mut text, "sends", sends, "B");
    row(&mut text, "receives", receives, "B");
    for (name, sum) in collectives {
        row(&mut text, name, sum, "B");
    }
    for group in &trace.groups {
        let of = format!("process group {}", group.name);
        let _ = writeln!(text, "{of:<22} {} ranks", count(group.members.len() as u64));
    }
    for (times, what) in notes.lines() {
        let _ = writeln!(text, "note: {} {what}", count(times));
    }
    output::result(&text)?;
    Ok(Exit::Fine)
}
