//! What is wrong with a graph before anybody carries it out.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use crate::dependencies::Dependencies;
use crate::graph::{After, Graph, Kind, OperationId, OperationName};
use crate::misfits::{Misfits, more};
use crate::stalled::NAMES_MAX;

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
    /// The n-th send of one source, target and tag does not fit the n-th receive.
    Sizes(Misfits),
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
            Self::Sizes(misfits) => misfits.fmt(formatter),
        }
    }
}

/// Looks for cycles, for sends and receives without a partner, and for sizes that do not fit.
///
/// Ranks some of whose receives take any are left out of the second and third: what these take
/// shows when the graph is carried out.
#[must_use]
pub fn check(graph: &Graph) -> Vec<Fault> {
    let mut faults: Vec<Fault> = cycle(graph).map(Fault::Cycle).into_iter().collect();
    faults.extend(partners(graph));
    faults
}

/// A ring of operations that wait for each other, if there is one.
#[must_use]
pub fn cycle(graph: &Graph) -> Option<Vec<OperationName>> {
    let mut dependencies = Dependencies::new(graph);
    let all = 0..graph.len() as u32;
    let mut free: Vec<OperationId> = all.clone().filter(|id| dependencies.is_free(*id)).collect();
    let mut done = 0;
    while let Some(id) = free.pop() {
        done += 1;
        for after in [After::Start, After::End] {
            dependencies.happened(graph, id, after, |waiter| free.push(waiter));
        }
    }
    if done == graph.len() {
        return None;
    }
    // Each that is left waits for another that is left: that way lies a ring.
    let is_left = |id: &OperationId| !dependencies.is_free(*id);
    let first = all.clone().find(is_left)?;
    let rank = graph.rank_of(first);
    let mut waited_for: BTreeMap<OperationId, OperationId> = BTreeMap::new();
    for id in graph.of_rank(rank).filter(is_left) {
        for (waiter, _) in graph.waiters(id).filter(|(waiter, _)| is_left(waiter)) {
            waited_for.entry(waiter).or_insert(id);
        }
    }
    let mut way = vec![first];
    let mut seen = BTreeSet::from([first]);
    let ring = loop {
        let next = *waited_for.get(way.last()?)?;
        if !seen.insert(next) {
            let place = way.iter().position(|id| *id == next)?;
            break way.split_off(place);
        }
        way.push(next);
    };
    Some(ring.into_iter().map(|id| graph.name(id)).collect())
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
    for rank in 0..graph.ranks() {
        for id in graph.of_rank(rank) {
            let operation = graph.operation(id);
            let (source, target) = match operation.kind {
                Kind::Compute => continue,
                Kind::Send => (rank, operation.peer),
                Kind::Receive => (operation.peer, rank),
            };
            if !takes_any[target as usize] {
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
    if !misfits.is_empty() {
        faults.push(Fault::Sizes(misfits));
    }
    faults
}
