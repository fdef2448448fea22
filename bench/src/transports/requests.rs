//! Requests of many connections into one completion queue of ours, between the two processes.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use crate::protocol::Test;
use crate::table::{Row, Samples, Target};
use crate::transports::cell::{Figures, read_figures};
use crate::transports::placement::{Prober, Sample};
use crate::transports::process;

/// Connections, and the millions of requests a second that are wanted, near and far alike.
const WANTED: [(u32, Option<f64>); 3] = [(16, None), (64, None), (1024, Some(5.0))];
/// With the connecting.
const LIMIT: Duration = Duration::from_secs(20);
const MILLISECONDS: &str = "150";

/// Measures each number of connections `repeat` times.
///
/// # Errors
///
/// One line: the program failed, or the cores never lay still.
pub(crate) fn measure(
    program: &str,
    cores: [usize; 2],
    repeat: usize,
    prober: &mut Prober<impl FnMut() -> Result<f64, String>>,
) -> Result<Vec<Row>, String> {
    let mut samples: BTreeMap<_, Samples> = BTreeMap::new();
    for _ in 0..repeat {
        for (count, _) in WANTED {
            let sample = prober.value(|| run(program, cores, count))?;
            let Sample {
                figures, placement, ..
            } = sample;
            let of = samples.entry((placement, count)).or_default();
            of.add(figures.value);
        }
    }
    let rows = samples.iter().map(|((placement, count), samples)| {
        let wanted = WANTED.iter().find(|(known, _)| known == count);
        let target = wanted
            .and_then(|(_, wanted)| *wanted)
            .map_or(Target::None, Target::AtLeast);
        let quantity = format!("{}: requests over {count} connections", placement.word());
        Row::new(quantity, "M/s", target, samples)
    });
    Ok(rows.collect())
}

fn run(program: &str, cores: [usize; 2], count: u32) -> Result<Figures, String> {
    let [first, second] = cores;
    let mut command: Command = process::leashed(program)?;
    command.args(["requests", &count.to_string(), MILLISECONDS]);
    command.arg(format!("{first},{second}"));
    read_figures(Test::Rate, &process::run(&mut command, LIMIT)?)
}
