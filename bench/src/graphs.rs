//! Graphs of operations carried out by the LogGOPS model: collectives of many ranks.

use std::error::Error;
use std::time::Instant;

use viaduct_operations::collective::{Collective, Request, graph};
use viaduct_operations::loggops::{Parameters, replay};

use crate::table::{Row, Samples, Target};

const BARRIER_RANKS: u32 = 65_536;
const ALL_TO_ALL_RANKS: u32 = 1_024;
/// Of a barrier that is carried out once: it takes many seconds.
const LARGE_RANKS: u32 = 1 << 20;
/// Five times what LogGOPSim, compiled with -O3, was measured to handle. What it counts as an event
/// is not quite what is counted here.
const EVENTS_PER_S: f64 = 5.0 * 1.3e6;
const MEMORY_MB: f64 = 200.0;
const ALL_TO_ALL_S: f64 = 1.0;
const BYTES_AN_OPERATION: f64 = 48.0;

/// One collective, made and carried out.
struct Carried {
    replay_s: f64,
    whole_s: f64,
    events: u64,
    operations: usize,
    /// Of the graph, and of the simulation beside it.
    bytes: usize,
}

fn carry_out(request: &Request) -> Result<Carried, Box<dyn Error>> {
    let begin = Instant::now();
    let graph = graph(request)?;
    let made = begin.elapsed().as_secs_f64();
    let outcome = replay(&graph, &Parameters::default())?;
    let whole_s = begin.elapsed().as_secs_f64();
    Ok(Carried {
        replay_s: whole_s - made,
        whole_s,
        events: outcome.events,
        operations: graph.len(),
        bytes: graph.state_bytes() + outcome.state_bytes,
    })
}

/// All of it.
pub(crate) fn measure(repeat: usize) -> Vec<Row> {
    let [mut speed, mut memory, mut all_to_all] = [const { Samples::EMPTY }; 3];
    let [mut large, mut an_operation] = [const { Samples::EMPTY }; 2];
    let mut run = || -> Result<(), Box<dyn Error>> {
        for _ in 0..repeat {
            let barrier = Request::usual(Collective::Barrier, BARRIER_RANKS, 0);
            let carried = carry_out(&barrier)?;
            speed.add(carried.events as f64 / carried.replay_s);
            memory.add(carried.bytes as f64 * 1e-6);
            let exchange = Request::usual(Collective::AllToAll, ALL_TO_ALL_RANKS, 1 << 20);
            all_to_all.add(carry_out(&exchange)?.whole_s);
        }
        let barrier = Request::usual(Collective::Barrier, LARGE_RANKS, 0);
        let carried = carry_out(&barrier)?;
        large.add(carried.whole_s);
        an_operation.add(carried.bytes as f64 / carried.operations as f64);
        Ok(())
    };
    if let Err(error) = run() {
        return vec![Row::missing("collectives at loggops", error.to_string())];
    }
    vec![
        Row::new(
            "loggops, barrier of 65,536 ranks, events a wall second",
            "1/s",
            Target::AtLeast(EVENTS_PER_S),
            &speed,
        ),
        Row::new(
            "of it, memory of the graph and of what carries it out",
            "MB",
            Target::AtMost(MEMORY_MB),
            &memory,
        ),
        Row::new(
            "loggops, all-to-all of 1,024 ranks, made and carried out",
            "s",
            Target::Below(ALL_TO_ALL_S),
            &all_to_all,
        ),
        Row::new(
            "loggops, barrier of 1,048,576 ranks, made and carried out",
            "s",
            Target::None,
            &large,
        ),
        Row::new(
            "of it, memory of the graph and of what carries it out, an operation",
            "B",
            Target::AtMost(BYTES_AN_OPERATION),
            &an_operation,
        ),
    ]
}
