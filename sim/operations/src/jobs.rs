//! Several applications on one cluster.

use std::collections::BTreeMap;

use crate::graph::{ANY, Builder, Graph, GraphError, Kind};

/// Jobs beside each other, each with its name: the ranks of each behind those of the one before.
/// They know nothing of each other; operations have their job's name before their own.
///
/// # Errors
///
/// [`GraphError`] if there are more operations than can be told apart.
pub fn side_by_side(jobs: &[(String, Graph)]) -> Result<Graph, GraphError> {
    let ranks = jobs.iter().map(|(_, graph)| u64::from(graph.ranks()));
    let ranks = u32::try_from(ranks.sum::<u64>()).map_err(|_| GraphError::TooMany)?;
    let mut builder = Builder::new(ranks);
    for (name, graph) in jobs {
        let first = builder.rank();
        for rank in 0..graph.ranks() {
            let all = graph.of_rank(rank);
            for id in all.clone() {
                let mut operation = graph.operation(id);
                if operation.kind != Kind::Compute && operation.peer != ANY {
                    operation.peer += first;
                }
                builder.set_label(&match graph.label(id) {
                    Some(label) => format!("{name}: {label}"),
                    None => name.clone(),
                });
                builder.add(operation)?;
            }
            for id in all.clone() {
                for (waiter, after) in graph.waiters(id) {
                    builder.require(waiter - all.start, id - all.start, after)?;
                }
            }
            builder.next_rank();
        }
    }
    Ok(builder.finish())
}

/// The ranks of each job, in the order of their first ranks: those that send to each other, or to
/// one that does, are of one job. A rank that no message is from or to is of none.
#[must_use]
pub fn ranks_of_jobs(graph: &Graph) -> Vec<Vec<u32>> {
    // Each leads to a smaller rank of its job, or is the smallest.
    let mut before: Vec<u32> = (0..graph.ranks()).collect();
    let mut has_messages = vec![false; before.len()];
    let first_of = |before: &mut Vec<u32>, rank: u32| {
        let mut first = rank;
        while before[first as usize] != first {
            first = before[first as usize];
            before[rank as usize] = first;
        }
        first
    };
    for rank in 0..graph.ranks() {
        for id in graph.of_rank(rank) {
            let operation = graph.operation(id);
            if operation.kind == Kind::Send {
                let ends = [rank, operation.peer].map(|end| first_of(&mut before, end));
                let [one, other] = ends;
                before[one.max(other) as usize] = one.min(other);
                has_messages[rank as usize] = true;
                has_messages[operation.peer as usize] = true;
            }
        }
    }
    let mut jobs: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for rank in (0..graph.ranks()).filter(|rank| has_messages[*rank as usize]) {
        let first = first_of(&mut before, rank);
        jobs.entry(first).or_default().push(rank);
    }
    jobs.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Operation;

    #[test]
    fn ranks_between_which_messages_go_are_of_one_job() {
        // 0 -> 4 -> 2, 5 -> 1 from any rank; 3 computes.
        let operations = [
            Operation::send(1, 4),
            Operation::receive(1, ANY),
            Operation::receive(1, 4),
            Operation::compute(1),
            Operation::send(1, 2),
            Operation::send(1, 1),
        ];
        let mut builder = Builder::new(6);
        for operation in operations {
            builder.add(operation).unwrap();
            builder.next_rank();
        }
        let graph = builder.finish();
        assert_eq!(ranks_of_jobs(&graph), [vec![0, 2, 4], vec![1, 5]]);
        let jobs = ["a", "b"].map(|name| (name.to_owned(), graph.clone()));
        let joined = side_by_side(&jobs).unwrap();
        let all = [vec![0, 2, 4], vec![1, 5], vec![6, 8, 10], vec![7, 11]];
        assert_eq!(ranks_of_jobs(&joined), all);
    }
}
