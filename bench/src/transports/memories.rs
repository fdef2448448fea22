//! Library memory beside ordinary memory, for the same program: it must never be the slower one.

use std::time::Duration;

use crate::protocol::Test;
use crate::table::{Row, Samples, Target};
use crate::transports::cell::Cell;
use crate::transports::contestants::{Contestant, Role};
use crate::transports::placement::Prober;

/// Where both go the same way, where two copies through the pool and one into the buffer take about
/// as long, if it is read, and where one copy is the quickest.
const CELLS: [Cell; 8] = [
    Cell::new(Test::Latency, 64, false),
    Cell::new(Test::Latency, 64, true),
    Cell::new(Test::Latency, 1 << 10, true),
    Cell::new(Test::Latency, 4 << 10, true),
    Cell::new(Test::Latency, 16 << 10, true),
    Cell::new(Test::Latency, 64 << 10, true),
    Cell::new(Test::Latency, 1 << 20, true),
    Cell::new(Test::Bandwidth, 4 << 10, true),
];
/// How many times the time of ordinary memory it takes, at most: what two runs of one program may
/// differ by.
const OVER_ORDINARY_MAX: f64 = 1.03;
/// Pairs of runs of a sample: the pages that a run gets move its figures by some hundredths.
const PAIRS: usize = 5;

/// Measures each cell `repeat` times, the two kinds of memory in turn; a sample is the middle one
/// of some ratios.
///
/// A pair of runs that fails is said and left out; a cell without any has an empty row.
pub(crate) fn measure(
    contestants: &[Contestant],
    duration: Duration,
    cores: [usize; 2],
    repeat: usize,
    prober: &mut Prober<impl FnMut() -> Result<f64, String>>,
) -> Vec<Row> {
    let of = |role| contestants.iter().find(|each| each.role == role);
    let (Some(ordinary), Some(library)) = (of(Role::Ours), of(Role::OursLibrary)) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for cell in CELLS {
        let quantity = format!("library memory / ordinary memory, {}", cell.label());
        let mut ratio = || {
            let mut one = |contestant: &Contestant| {
                let sample = prober.value(|| contestant.measure(cell, duration, cores))?;
                Ok::<_, String>(sample.figures.value)
            };
            let (library, ordinary) = (one(library)?, one(ordinary)?);
            // In both cases of times.
            Ok::<_, String>(match cell.is_time() {
                true => library / ordinary,
                false => ordinary / library,
            })
        };
        let mut samples = Samples::default();
        for _ in 0..repeat {
            let mut ratios = Vec::new();
            // One pair whose cores would not lie still is no reason to lose the others.
            for _ in 0..PAIRS {
                match ratio() {
                    Ok(ratio) => ratios.push(ratio),
                    Err(problem) => eprintln!("{quantity}: a pair is left out: {problem}"),
                }
            }
            ratios.sort_by(f64::total_cmp);
            if let Some(middle) = ratios.get(ratios.len() / 2) {
                samples.add(*middle);
            }
        }
        if samples.is_empty() {
            rows.push(Row::missing(&quantity, "no pair of runs was whole"));
            continue;
        }
        rows.push(Row::new(
            quantity,
            "times",
            Target::AtMost(OVER_ORDINARY_MAX),
            &samples,
        ));
    }
    rows
}
