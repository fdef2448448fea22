//! `viaduct goal`: GOAL files checked, counted, converted and replayed.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use viaduct_engine::Time;
use viaduct_operations::loggops::{Parameters, replay};
use viaduct_operations::{Graph, Kind, check, goal, jobs};
use viaduct_report::{count, thousands};
use viaduct_scenario::{format_time, parse_rate, parse_size, parse_time};

use crate::describe::counted;
use crate::failure::{Exit, Failure};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct GoalArguments {
    #[command(subcommand)]
    command: GoalCommand,
}

#[derive(Debug, Subcommand)]
enum GoalCommand {
    /// Say what is wrong with a file, with rank and line: exit 1 if anything is
    Check {
        /// A GOAL file, text or binary
        file: PathBuf,
    },
    /// Count the ranks, operations and bytes of a file
    Info {
        /// A GOAL file, text or binary
        file: PathBuf,
    },
    /// Write a file in its binary form
    ToBinary {
        /// A GOAL file, text or binary
        file: PathBuf,
        /// The file to write
        output: PathBuf,
    },
    /// Write a file as a text
    ToText {
        /// A GOAL file, text or binary
        file: PathBuf,
        /// The file to write
        output: PathBuf,
    },
    /// Put files beside each other, as jobs of one cluster: the ranks of each behind those of the
    /// one before
    Join {
        /// GOAL files, text or binary
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The file to write: a text, or binary if its name ends in `.bin`
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Carry a file out without a network, by the LogGOPS model
    Replay(ReplayArguments),
}

#[derive(Args, Debug)]
struct ReplayArguments {
    /// A GOAL file, text or binary
    file: PathBuf,
    #[command(flatten)]
    loggops: LoggopsArguments,
    /// Say when each rank ends
    #[arg(long)]
    ranks: bool,
}

/// The parameters of the LogGOPS model.
#[derive(Args, Debug)]
pub(crate) struct LoggopsArguments {
    /// L: from one processor to the other
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2500 ns")]
    latency: Time,
    /// o: what a message costs the processor at either end
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1500 ns")]
    overhead: Time,
    /// g: between two messages of an adapter
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1000 ns")]
    gap: Time,
    /// G: the same for each byte after the first
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "6 ns")]
    gap_per_byte: Time,
    /// O: what each byte after the first costs the processor
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0 ns")]
    overhead_per_byte: Time,
    /// S: the longest message whose send ends before it is received
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "65535 B")]
    eager: u64,
}

impl LoggopsArguments {
    pub(crate) const fn parameters(&self) -> Parameters {
        Parameters {
            latency: self.latency,
            overhead: self.overhead,
            gap: self.gap,
            gap_per_byte: self.gap_per_byte,
            overhead_per_byte: self.overhead_per_byte,
            eager_bytes: self.eager,
        }
    }
}

fn time(text: &str) -> Result<Time, String> {
    parse_time(text.trim()).map_err(|error| error.problem)
}

/// A rate in bytes, as in `10 GB/s`.
pub(crate) fn bytes_per_second(text: &str) -> Result<u64, String> {
    let rate = parse_rate(text.trim()).map_err(|error| error.problem)?;
    Ok((rate.bits_per_second() / 8.0).round().max(1.0) as u64)
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    parse_size(text.trim()).map_err(|error| error.problem)
}

/// Does what is asked of a file.
pub(crate) fn goal(arguments: &GoalArguments) -> Result<Exit, Failure> {
    match &arguments.command {
        GoalCommand::Check { file } => check_file(file),
        GoalCommand::Info { file } => info(file),
        GoalCommand::ToBinary { file, output } => convert(file, output, goal::write_binary),
        GoalCommand::ToText { file, output } => convert(file, output, goal::write_text),
        GoalCommand::Join { files, to } => join(files, to),
        GoalCommand::Replay(arguments) => replay_file(arguments),
    }
}

/// Reads a file, whichever form it has.
fn read(path: &Path) -> Result<Graph, Failure> {
    let shown = path.display();
    let cannot = |error| Failure::plain(format_args!("cannot read `{shown}`: {error}"));
    let metadata = std::fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err(Failure::plain(format_args!(
            "`{shown}` is no ordinary file"
        )));
    }
    let mut file = File::open(path).map_err(cannot)?;
    let mut first = Vec::new();
    (&mut file)
        .take(8)
        .read_to_end(&mut first)
        .map_err(cannot)?;
    file.rewind().map_err(cannot)?;
    let mut file = BufReader::new(file);
    let graph = match goal::is_binary(&first) {
        true => goal::read_binary(&mut file),
        false => goal::read_text(&mut file),
    };
    graph.map_err(|error| {
        Failure::new(
            format!("`{shown}`: {error}"),
            "docs/guides/goal.md has the form of a GOAL file",
        )
    })
}

fn check_file(file: &Path) -> Result<Exit, Failure> {
    let graph = read(file)?;
    let faults = check::check(&graph);
    for fault in &faults {
        let title = format!("`{}`: {fault}", file.display());
        output::message("error", &title, None);
    }
    if !faults.is_empty() {
        return Ok(Exit::WrongInput);
    }
    let (ranks, operations) = (graph.ranks().into(), graph.len() as u64);
    let any = match graph.has_wildcards() {
        true => {
            "; where receives take any rank or tag they are as many: a replay shows what they take"
        }
        false => "",
    };
    output::result(&format!(
        "{}, {}: no cycle, and every send has its receive{any}\n",
        counted(ranks, "rank"),
        counted(operations, "operation")
    ))?;
    Ok(Exit::Fine)
}

fn info(file: &Path) -> Result<Exit, Failure> {
    let graph = read(file)?;
    let (mut counts, mut bytes, mut computing) = ([0u64; 3], 0u128, 0u128);
    for (_, operation) in graph.operations() {
        let amount = u128::from(operation.amount);
        match operation.kind {
            Kind::Send => (counts[0], bytes) = (counts[0] + 1, bytes + amount),
            Kind::Receive => counts[1] += 1,
            Kind::Compute => (counts[2], computing) = (counts[2] + 1, computing + amount),
        }
    }
    let mut text = format!(
        "ranks          {}\nsends          {}, {} B\nreceives       {}\n\
         computations   {}, {} ns\ndependencies   {}\nprocessors     {} a host\n\
         adapters       {} a host\n",
        count(graph.ranks().into()),
        count(counts[0]),
        thousands(&bytes.to_string()),
        count(counts[1]),
        count(counts[2]),
        thousands(&computing.to_string()),
        count(graph.dependency_count() as u64),
        graph.processors(),
        graph.adapters(),
    );
    if graph.has_wildcards() {
        text.push_str("wildcards      some receives take any rank or tag\n");
    }
    output::result(&text)?;
    Ok(Exit::Fine)
}

/// A form of GOAL files.
type Writer = fn(&Graph, &mut dyn std::io::Write) -> std::io::Result<()>;

fn convert(file: &Path, target: &Path, write: Writer) -> Result<Exit, Failure> {
    write_file(&read(file)?, target, write)?;
    Ok(Exit::Fine)
}

/// Writes files as jobs of one, and says which ranks each has.
fn join(files: &[PathBuf], target: &Path) -> Result<Exit, Failure> {
    let mut jobs = Vec::new();
    let (mut text, mut first) = (String::new(), 0_u64);
    for file in files {
        let stem = file.file_stem().unwrap_or(file.as_os_str());
        let graph = read(file)?;
        let next = first + u64::from(graph.ranks());
        let _ = writeln!(text, "ranks {first} to {}: {}", next - 1, file.display());
        first = next;
        jobs.push((stem.to_string_lossy().into_owned(), graph));
    }
    let all = jobs::side_by_side(&jobs).map_err(Failure::plain)?;
    write_graph(&all, target)?;
    output::result(&text)?;
    Ok(Exit::Fine)
}

/// Writes a graph to a file: a text, or binary if its name ends in `.bin`.
pub(crate) fn write_graph(graph: &Graph, target: &Path) -> Result<(), Failure> {
    let is_binary = target.extension().is_some_and(|it| it == "bin");
    let write: Writer = match is_binary {
        true => goal::write_binary,
        false => goal::write_text,
    };
    write_file(graph, target, write)
}

/// Writes a graph to a file.
fn write_file(graph: &Graph, target: &Path, write: Writer) -> Result<(), Failure> {
    let written = File::create(target).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(graph, &mut file)?;
        file.flush()
    });
    written.map_err(|error| {
        Failure::plain(format_args!("cannot write `{}`: {error}", target.display()))
    })
}

fn replay_file(arguments: &ReplayArguments) -> Result<Exit, Failure> {
    let graph = read(&arguments.file)?;
    let shown = arguments.file.display();
    let parameters = arguments.loggops.parameters();
    let outcome = replay(&graph, &parameters)
        .map_err(|error| Failure::plain(format_args!("`{shown}`: {error}")))?;
    let mut text = String::new();
    if arguments.ranks {
        for (rank, end) in outcome.ends.iter().enumerate() {
            let _ = writeln!(text, "rank {rank:<9} {}", thousands(&format_time(*end)));
        }
    }
    let _ = writeln!(
        text,
        "end            {}\nmessages       {}",
        thousands(&format_time(outcome.end())),
        count(outcome.messages)
    );
    output::result(&text)?;
    if !outcome.misfits.is_empty() {
        output::message("error", &format!("`{shown}`: {}", outcome.misfits), None);
    }
    if let Some(stalled) = &outcome.stalled {
        output::message("error", &format!("`{shown}`: {stalled}"), None);
    }
    Ok(
        match outcome.stalled.is_none() && outcome.misfits.is_empty() {
            true => Exit::Fine,
            false => Exit::AssumptionBroke,
        },
    )
}
