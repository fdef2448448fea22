//! What `viaduct chakra` and `viaduct simgrid` have in common: how collectives of a trace are done,
//! and what is in one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use clap::builder::PossibleValuesParser;
use viaduct_operations::collective::{Algorithm, Collective, GROUP_RANKS, PIECES};
use viaduct_operations::trace::{self, ACCELERATOR, HOST, MESSAGES, Options, Trace, Work};
use viaduct_operations::{check, goal};
use viaduct_report::{count, thousands};

use crate::failure::{Exit, Failure};
use crate::goal::{bytes_per_second, write_graph};
use crate::output;

/// How a trace becomes a graph.
#[derive(Args, Debug)]
pub(crate) struct OptionArguments {
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
    /// How many ranks, one after the other, are a group of a hierarchical all-reduce
    #[arg(long, value_name = "N", default_value_t = GROUP_RANKS)]
    group_ranks: u32,
    /// How fast a rank adds what comes in a reduction to what it has, as in "10 GB/s" [default: in
    /// no time]
    #[arg(long, value_name = "RATE", value_parser = bytes_per_second)]
    reduce_rate: Option<u64>,
    /// What times of computations are multiplied by
    #[arg(long, value_name = "FACTOR", value_parser = factor, default_value = "1")]
    compute_scale: f64,
    /// How many operations a processor does, for computations that have no time
    #[arg(long, value_name = "RATE", value_parser = rate)]
    operations_per_second: Option<f64>,
}

fn of(collective: Collective) -> PossibleValuesParser {
    PossibleValuesParser::new(collective.algorithms().iter().map(|it| it.name()))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.trim().parse().ok();
    let factor = factor.filter(|factor: &f64| factor.is_finite() && *factor >= 0.0);
    factor.ok_or_else(|| "a number of at least 0 is expected".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = factor(text).ok().filter(|rate| *rate > 0.0);
    rate.ok_or_else(|| "a number above 0 is expected, as in 2e9".to_owned())
}

impl OptionArguments {
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
            group_ranks: self.group_ranks,
            reduce_bytes_per_second: self.reduce_rate,
            compute_scale: self.compute_scale,
            operations_per_second: self.operations_per_second,
        }
    }

    /// Writes a trace as a GOAL file; `wrong` makes an error of what is wrong with it.
    pub(crate) fn write_goal(
        &self,
        trace: &Trace,
        output: &Path,
        wrong: impl Fn(String) -> Failure,
    ) -> Result<Exit, Failure> {
        let counting = trace.counting();
        if counting > 0 && self.operations_per_second.is_none() {
            let what = format!(
                "{} computations count operations, and have no time",
                count(counting)
            );
            let help = "they take none; --operations-per-second says how long they take";
            output::message("warning", &what, Some(help));
        }
        let graph = trace::graph(trace, &self.options());
        let graph = graph.map_err(|problem| wrong(problem.to_string()))?;
        if let Some(problem) = goal::unsayable(&graph) {
            return Err(wrong(problem));
        }
        write_graph(&graph, output)?;
        Ok(Exit::Fine)
    }
}

/// How often something is done, and with how many bytes in all.
type Sum = (u64, u128);

/// Says what is in a trace of so many steps, each named by a word, and what is worth knowing of it.
pub(crate) fn describe(
    trace: &Trace,
    (word, steps): (&str, usize),
    notes: &[(u64, &'static str)],
    wrong: impl Fn(String) -> Failure,
) -> Result<Exit, Failure> {
    // That collectives fit together is seen when they are carried out.
    let fits = trace::graph(trace, &Options::default());
    let graph = fits.map_err(|problem| wrong(problem.to_string()))?;
    if let Some(fault) = check::check(&graph).first() {
        return Err(wrong(fault.to_string()));
    }
    // By processor: of messages, accelerator and host.
    let mut times = [(0_u64, 0_u128); 3];
    let (mut counted, mut sends, mut receives): (Sum, Sum, Sum) = Default::default();
    let mut collectives: BTreeMap<&str, Sum> = BTreeMap::new();
    for work in trace.ranks.iter().flat_map(|steps| steps.all()) {
        let (sum, amount) = match work {
            Work::Compute {
                nanoseconds,
                processor,
            } => (&mut times[usize::from(processor.min(HOST))], nanoseconds),
            Work::Count { operations, .. } => (&mut counted, operations),
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
            let amount = thousands(&amount.to_string());
            let _ = writeln!(text, "{name:<22} {}, {amount} {unit}", count(times));
        }
    };
    let mut text = format!(
        "{:<22} {}\n{word:<22} {}\n",
        "ranks",
        count(trace.ranks.len() as u64),
        count(steps as u64)
    );
    row(
        &mut text,
        "waits and sleeps",
        times[usize::from(MESSAGES)],
        "ns",
    );
    row(
        &mut text,
        "on accelerators",
        times[usize::from(ACCELERATOR)],
        "ns",
    );
    row(&mut text, "on their hosts", times[usize::from(HOST)], "ns");
    row(&mut text, "computations", counted, "operations");
    row(&mut text, "sends", sends, "B");
    row(&mut text, "receives", receives, "B");
    for (name, sum) in collectives {
        row(&mut text, name, sum, "B");
    }
    for group in &trace.groups {
        let of = format!("process group {}", group.name);
        let _ = writeln!(text, "{of:<22} {} ranks", count(group.members.len() as u64));
    }
    for (times, what) in notes {
        let _ = writeln!(text, "note: {} {what}", count(*times));
    }
    output::result(&text)?;
    Ok(Exit::Fine)
}
