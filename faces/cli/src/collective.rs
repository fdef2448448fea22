//! `viaduct collective`: how long a collective operation takes by the LogGOPS model, or its file.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use viaduct_operations::collective::{Algorithm, Collective, GROUP_RANKS, PIECES, Request, graph};
use viaduct_operations::loggops::replay;
use viaduct_operations::{Graph, Kind};
use viaduct_report::{count, thousands};
use viaduct_scenario::format_time;

use crate::failure::{Exit, Failure};
use crate::goal::{LoggopsArguments, bytes_per_second, size, write_graph};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct CollectiveArguments {
    /// What the ranks do together
    #[arg(value_parser = PossibleValuesParser::new(Collective::ALL.map(Collective::name)))]
    collective: String,
    /// How; without it, as the first of its algorithms does
    #[arg(long, value_parser = PossibleValuesParser::new(Algorithm::ALL.map(Algorithm::name)))]
    algorithm: Option<String>,
    /// Between how many ranks
    #[arg(long, value_name = "N")]
    ranks: u32,
    /// The vector: of an all-gather all that a rank gets, of a reduce-scatter and an all-to-all
    /// all that it has, of a gather and a scatter all that the root gets or has
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1 MiB")]
    bytes: u64,
    /// The rank that has what all get, or gets what all have
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    root: u32,
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
    /// Write a GOAL text instead; a binary file if the name ends in `.bin`
    #[arg(long, value_name = "FILE")]
    goal: Option<PathBuf>,
    #[command(flatten)]
    loggops: LoggopsArguments,
}

/// Says how long a collective takes, or writes it.
pub(crate) fn collective(arguments: &CollectiveArguments) -> Result<Exit, Failure> {
    // The arguments name one that there is.
    let mut all = Collective::ALL.into_iter();
    let collective = all.find(|it| it.name() == arguments.collective);
    let collective = collective.unwrap_or(Collective::Barrier);
    let usual = Request::usual(collective, arguments.ranks, arguments.bytes);
    let named = arguments.algorithm.as_deref();
    let named = named.and_then(|name| Algorithm::ALL.into_iter().find(|it| it.name() == name));
    let request = Request {
        algorithm: named.unwrap_or(usual.algorithm),
        root: arguments.root,
        pieces: arguments.pieces,
        group_ranks: arguments.group_ranks,
        reduce_bytes_per_second: arguments.reduce_rate,
        ..usual
    };
    let graph = graph(&request).map_err(Failure::plain)?;
    if let Some(target) = &arguments.goal {
        write_graph(&graph, target)?;
        return Ok(Exit::Fine);
    }
    let outcome = replay(&graph, &arguments.loggops.parameters()).map_err(Failure::plain)?;
    if let Some(stalled) = &outcome.stalled {
        output::message("error", &stalled.to_string(), None);
        return Ok(Exit::AssumptionBroke);
    }
    let seconds = outcome.end().picoseconds() as f64 * 1e-12;
    let (least, most) = sent(&graph);
    let mut text = format!(
        "algorithm      {}\ntime           {}\nmessages       {}\n",
        request.algorithm,
        thousands(&format_time(outcome.end())),
        count(outcome.messages)
    );
    text.push_str(&match least == most {
        true => format!("a rank sends   {} B\n", count(most)),
        false => format!("a rank sends   {} to {} B\n", count(least), count(most)),
    });
    if collective != Collective::Barrier && seconds > 0.0 {
        let rate = request.bytes as f64 / seconds * 1e-9;
        let bus = rate * collective.bus_factor(request.ranks);
        text.push_str(&format!(
            "bytes / time   {rate:.4} GB/s\nbus bandwidth  {bus:.4} GB/s, as NCCL's tests count it\n"
        ));
    }
    output::result(&text)?;
    Ok(Exit::Fine)
}

/// The least and the most that a rank sends, bytes.
fn sent(graph: &Graph) -> (u64, u64) {
    let of_rank = |rank| {
        let all = graph.of_rank(rank).map(|id| graph.operation(id));
        let sends = all.filter(|operation| operation.kind == Kind::Send);
        sends.map(|operation| operation.amount).sum()
    };
    let all = || (0..graph.ranks()).map(of_rank);
    (all().min().unwrap_or(0), all().max().unwrap_or(0))
}
