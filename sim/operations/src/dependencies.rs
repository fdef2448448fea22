//! Which operations are free: all that they wait for has happened.

use std::collections::{BTreeMap, BTreeSet};

use viaduct_engine::prefetch;

use crate::graph::{After, Graph, OperationId, OperationName};

/// How much each operation still waits for.
#[derive(Clone, Debug)]
pub struct Dependencies {
    open: Vec<u32>,
}

impl Dependencies {
    /// Those of a graph of which nothing has happened.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        let mut open = vec![0; graph.len()];
        for (id, _) in graph.operations() {
            for (waiter, _) in graph.waiters(id) {
                open[waiter as usize] += 1;
            }
        }
        Self { open }
    }

    /// Whether all that an operation waits for has happened.
    #[inline]
    #[must_use]
    pub fn is_free(&self, id: OperationId) -> bool {
        self.open[id as usize] == 0
    }

    /// An operation has started or ended: calls `freed` with each that waits for nothing any more,
    /// in the order of the graph.
    #[inline]
    pub fn happened(
        &mut self,
        graph: &Graph,
        id: OperationId,
        what: After,
        mut freed: impl FnMut(OperationId),
    ) {
        for (waiter, after) in graph.waiters(id) {
            if after != what {
                continue;
            }
            let open = &mut self.open[waiter as usize];
            *open -= 1;
            if *open == 0 {
                freed(waiter);
            }
        }
    }

    /// A number for a free operation, which needs no count any more. From the first that is kept
    /// there on, [`Self::is_free`] says nothing of it.
    #[inline]
    pub(crate) fn word(&mut self, id: OperationId) -> &mut u32 {
        &mut self.open[id as usize]
    }

    /// Asks for what an operation, and those behind it, wait for.
    #[inline]
    pub(crate) fn prefetch(&self, id: OperationId) {
        prefetch(&raw const self.open[id as usize]);
    }

    /// Memory that it holds, bytes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.open.capacity() * size_of::<u32>()
    }
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
