//! What is wrong with a graph before anybody carries it out.

use core::fmt;

use crate::dependencies::cycle;
use crate::graph::{Graph, Kind, OperationId, OperationName};
use crate::loggops::{Parameters, replay};
use crate::misfits::{Misfits, more};
use crate::stalled::{NAMES_MAX, Stalled};

/// Something that keeps a graph from coming to its end.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// Operations of a rank that wait for each other in a ring.
    Cycle(Vec<OperationName>),
    /// Sends and receives of one source, target and tag whose numbers differ: those too many.
    Unmatched {
        /// How many there are in all.
        count: u64,
        /// The first of them.
        first: Vec<OperationName>,
    },
    /// Ranks some of whose receives take any, and to which more or fewer messages are sent than
    /// they receive.
    Uneven {
        /// How many there are in all.
        count: u64,
        /// The first of them: the rank, what is sent to it, and its receives.
        first: Vec<(u32, u64, u64)>,
    },
    /// The n-th send of one source, target and tag does not fit the n-th receive.
    Sizes(Misfits),
    /// Ranks wait for each other, though each send has its receive: what is left when all others
    /// have done what they can.
    Stalled(Box<Stalled>),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycle(ring) => {
                formatter.write_str("operations wait for each other in a ring:")?;
                for name in ring {
                    write!(formatter, "\n  {name}")?;
                }
                Ok(())
            }
            Self::Unmatched { count, first } => {
                write!(formatter, "sends or receives without a partner: {count}")?;
                for name in first {
                    write!(formatter, "\n  {name}")?;
                }
                more(formatter, *count, first.len())
            }
            Self::Uneven { count, first } => {
                write!(
                    formatter,
                    "ranks that receive more or fewer messages than are sent to them: {count}"
                )?;
                for (rank, sends, receives) in first {
                    write!(
                        formatter,
                        "\n  rank {rank}: messages {sends}, receives {receives}"
                    )?;
                }
                more(formatter, *count, first.len())
            }
            Self::Sizes(misfits) => misfits.fmt(formatter),
            Self::Stalled(stalled) => stalled.fmt(formatter),
        }
    }
}

/// Looks for cycles, for sends and receives without a partner, for sizes that do not fit, and for
/// ranks that wait for each other whatever is sent eagerly.
///
/// Of ranks some of whose receives take any, messages and receives are counted in place of the
/// second and third, and graphs with such receives are left out of the last: what these take shows
/// when the graph is carried out.
#[must_use]
pub fn check(graph: &Graph) -> Vec<Fault> {
    let mut faults: Vec<Fault> = cycle(graph).map(Fault::Cycle).into_iter().collect();
    faults.extend(partners(graph));
    if faults.is_empty() && !graph.has_wildcards() {
        faults.extend(stalled(graph));
    }
    faults
}

/// What never ends where no send waits for its receive.
fn stalled(graph: &Graph) -> Option<Fault> {
    let eager = Parameters {
        eager_bytes: u64::MAX,
        ..Parameters::default()
    };
    let left = replay(graph, &eager).ok()?.stalled?;
    Some(Fault::Stalled(Box::new(left)))
}

fn partners(graph: &Graph) -> Vec<Fault> {
    let mut takes_any = vec![false; graph.ranks() as usize];
    if graph.has_wildcards() {
        for rank in 0..graph.ranks() {
            takes_any[rank as usize] = graph.of_rank(rank).any(|id| {
                let operation = graph.operation(id);
                let is_any = [operation.peer, operation.tag].contains(&crate::ANY);
                operation.kind == Kind::Receive && is_any
            });
        }
    }
    // Sorted by source, target and tag; of each the sends in order, then the receives.
    let mut ends: Vec<(u32, u32, u32, Kind, OperationId)> = Vec::new();
    let mut numbers = vec![[0_u64; 2]; graph.ranks() as usize];
    for rank in 0..graph.ranks() {
        for id in graph.of_rank(rank) {
            let operation = graph.operation(id);
            let (source, target) = match operation.kind {
                Kind::Compute => continue,
                Kind::Send => (rank, operation.peer),
                Kind::Receive => (operation.peer, rank),
            };
            if takes_any[target as usize] {
                numbers[target as usize][usize::from(operation.kind == Kind::Receive)] += 1;
            } else {
                ends.push((source, target, operation.tag, operation.kind, id));
            }
        }
    }
    ends.sort_unstable();
    let (mut count, mut first) = (0, Vec::new());
    let mut misfits = Misfits::default();
    for group in ends.chunk_by(|a, b| (a.0, a.1, a.2) == (b.0, b.1, b.2)) {
        let sends = group.partition_point(|end| end.3 == Kind::Send);
        let (sends, receives) = group.split_at(sends);
        let both = sends.len().min(receives.len());
        for end in sends[both..].iter().chain(&receives[both..]) {
            count += 1;
            if first.len() < NAMES_MAX {
                first.push(graph.name(end.4));
            }
        }
        for (send, receive) in sends.iter().zip(receives) {
            misfits.look_at(graph, send.4, receive.4);
        }
    }
    let mut faults = Vec::new();
    if count > 0 {
        faults.push(Fault::Unmatched { count, first });
    }
    let uneven = (0..)
        .zip(&numbers)
        .filter(|(_, [sends, receives])| sends != receives);
    let first: Vec<(u32, u64, u64)> = uneven
        .clone()
        .map(|(rank, [sends, receives])| (rank, *sends, *receives))
        .take(NAMES_MAX)
        .collect();
    if !first.is_empty() {
        let count = uneven.count() as u64;
        faults.push(Fault::Uneven { count, first });
    }
    if !misfits.is_empty() {
        faults.push(Fault::Sizes(misfits));
    }
    faults
}
