//! What a graph may mean and no GOAL file says: there receives of any tag take messages of
//! collectives, too, and a receive has exactly the size of what it takes.

use std::collections::BTreeMap;

use crate::graph::{ANY, Graph, Kind, OperationId};

/// What of a graph a GOAL file would say wrongly, and at which operation; none of most graphs.
#[must_use]
pub fn unsayable(graph: &Graph) -> Option<String> {
    if !graph.has_wildcards() {
        return None;
    }
    let mut arriving: Vec<BTreeMap<(u32, u32), (u64, u64)>> =
        (0..graph.ranks()).map(|_| BTreeMap::new()).collect();
    for rank in 0..graph.ranks() {
        for id in graph.of_rank(rank) {
            let send = graph.operation(id);
            if send.kind == Kind::Send {
                let sizes = arriving[send.peer as usize].entry((rank, send.tag));
                let sizes = sizes.or_insert((send.amount, send.amount));
                *sizes = (sizes.0.min(send.amount), sizes.1.max(send.amount));
            }
        }
    }
    let wrong = |id: OperationId, why: &str| Some(format!("{}: {why}", graph.name(id)));
    for (rank, arriving) in (0..graph.ranks()).zip(&arriving) {
        let receives = graph.of_rank(rank).map(|id| (id, graph.operation(id)));
        let receives = receives.filter(|(_, operation)| operation.kind == Kind::Receive);
        let mut of_any = receives.filter(|(_, it)| it.peer == ANY || it.tag == ANY);
        let collectives = arriving.keys().any(|(_, tag)| *tag >= graph.any_tag_end());
        let problem = of_any.find_map(|(id, receive)| {
            if receive.tag == ANY && collectives {
                return wrong(
                    id,
                    "in a GOAL file it would take messages of collectives, too",
                );
            }
            let mut fitting = arriving.iter().filter(|((source, tag), _)| {
                (receive.peer == ANY || receive.peer == *source)
                    && (receive.tag == *tag || receive.tag == ANY)
            });
            let may_differ = fitting.any(|(_, sizes)| *sizes != (receive.amount, receive.amount));
            (graph.receives_are_limits() && may_differ).then(|| {
                wrong(
                    id,
                    "in a GOAL file it has one size, and what it takes several",
                )
            })?
        });
        if problem.is_some() {
            return problem;
        }
    }
    None
}
