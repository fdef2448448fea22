//! What a graph that came to a stop waits for.

use core::fmt;
use std::collections::BTreeMap;

use crate::dependencies::cycle;
use crate::graph::{ANY, Graph, Kind, OperationId, OperationName};
use crate::matching::Matching;

/// Most names that a list has.
pub const NAMES_MAX: usize = 10;

/// Operations that never ended, and messages that nobody took.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stalled {
    /// Operations that have not ended.
    pub operations: u64,
    /// Receives that no message came for.
    pub receives: u64,
    /// The first of them, by number.
    pub first_receives: Vec<OperationName>,
    /// Messages that no receive took.
    pub messages: u64,
    /// The first of them, by number.
    pub first_messages: Vec<OperationName>,
    /// Messages that were lost.
    pub lost: u64,
    /// The first sends that they are of, by time.
    pub first_lost: Vec<OperationName>,
    /// Operations of one rank that wait for each other in a ring, if any do.
    pub ring: Vec<OperationName>,
    /// Who waits for whom: the rank of each operation waits, at it, for the rank of the next one.
    pub chain: Vec<OperationName>,
    /// Whether the last of the chain waits for the first.
    pub is_ring: bool,
}

impl Stalled {
    /// What is left of a graph of which so many operations have not ended; none if all have, and
    /// every message was taken.
    #[must_use]
    pub fn of(graph: &Graph, matching: &Matching, left: u64) -> Option<Self> {
        let receives = matching.waiting_receives();
        let messages = matching.waiting_messages();
        if left == 0 && messages.is_empty() {
            return None;
        }
        let names = |ids: &[OperationId]| {
            let first = ids.iter().take(NAMES_MAX);
            first.map(|id| graph.name(*id)).collect()
        };
        // Of each rank the first operation at which it waits for another rank.
        let mut waits: BTreeMap<u32, OperationName> = BTreeMap::new();
        for id in receives.iter().chain(&messages) {
            let name = graph.name(*id);
            if name.operation.peer != ANY {
                waits.entry(name.rank).or_insert(name);
            }
        }
        let mut chain: Vec<OperationName> = Vec::new();
        let mut is_ring = false;
        let mut rank = waits.keys().next().copied();
        while let Some(name) = rank.and_then(|rank| waits.get(&rank)) {
            if let Some(place) = chain.iter().position(|it| it.rank == name.rank) {
                chain.drain(..place);
                is_ring = true;
                break;
            }
            rank = Some(name.operation.peer);
            chain.push(name.clone());
        }
        Some(Self {
            operations: left,
            receives: receives.len() as u64,
            first_receives: names(&receives),
            messages: messages.len() as u64,
            first_messages: names(&messages),
            lost: 0,
            first_lost: Vec::new(),
            ring: cycle(graph).filter(|_| left > 0).unwrap_or_default(),
            chain,
            is_ring,
        })
    }
}

impl Stalled {
    /// The same, of a graph of which so many messages were lost, of these sends first.
    #[must_use]
    pub fn with_lost(mut self, graph: &Graph, count: u64, first: &[OperationId]) -> Self {
        self.lost = count;
        self.first_lost = first.iter().map(|id| graph.name(*id)).collect();
        self
    }
}

impl fmt::Display for Stalled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operations {
            0 => formatter.write_str("all operations ended, and not all messages were taken")?,
            1 => formatter.write_str("1 operation never ended")?,
            operations => write!(formatter, "{operations} operations never ended")?,
        }
        for (what, count, names) in [
            (
                "receives that no message came for",
                self.receives,
                &self.first_receives,
            ),
            (
                "messages that no receive took",
                self.messages,
                &self.first_messages,
            ),
            ("messages that were lost", self.lost, &self.first_lost),
        ] {
            if count == 0 {
                continue;
            }
            write!(formatter, "\n  {what}: {count}")?;
            for name in names {
                write!(formatter, "\n    {name}")?;
            }
            if count > names.len() as u64 {
                write!(formatter, "\n    and {} more", count - names.len() as u64)?;
            }
        }
        if !self.ring.is_empty() {
            formatter.write_str("\n  operations that wait for each other in a ring:")?;
            for name in &self.ring {
                write!(formatter, "\n    {name}")?;
            }
        }
        if self.chain.len() > 1 || self.is_ring || !self.chain.is_empty() && !self.ring.is_empty() {
            write!(formatter, "\n  who waits for whom:")?;
            for name in &self.chain {
                let word = match name.operation.kind {
                    Kind::Send => "to take it",
                    _ => "to send it",
                };
                let peer = name.operation.peer;
                write!(formatter, "\n    {name}: waits for rank {peer} {word}")?;
            }
            if self.is_ring {
                write!(formatter, "\n    and so round in a ring")?;
            }
        }
        Ok(())
    }
}
