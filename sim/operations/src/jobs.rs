//! Several applications on one cluster.

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
