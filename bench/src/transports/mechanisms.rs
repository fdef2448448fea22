//! Every way of a message's bytes over sizes, and what the adaptive choice loses to the best of
//! them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::transports::process;

/// The sizes of messages, in bytes.
const SIZES: [u32; 9] = [8, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1 << 20];
/// The choice may be this many times slower than the best single way, at most.
pub(crate) const OVER_BEST_MAX: f64 = 1.1;
/// For all sizes of one way.
const LIMIT: Duration = Duration::from_secs(60);
/// Round trips of a size: enough for a median, few enough for the largest.
const ROUND_TRIPS: &str = "2000";

/// Where the messages lie, and the ways that reach there; the first is the choice.
const GROUPS: [(Memory, &[&str]); 2] = [
    (Memory::Shared, &["auto", "inline", "pool", "direct"]),
    (Memory::Private, &["auto", "inline", "pool", "copy"]),
];

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
enum Memory {
    Shared,
    Private,
}

/// Half a round trip by every way, of one size.
#[derive(Debug, Serialize)]
pub(crate) struct Choice {
    memory: Memory,
    touched: bool,
    bytes: u32,
    /// Median of each way's medians, in microseconds.
    half_round_trip_us: BTreeMap<&'static str, f64>,
    /// The choice over the best single way.
    over_best: f64,
}

#[derive(Deserialize)]
struct Measured {
    rows: Vec<MeasuredRow>,
}

#[derive(Deserialize)]
struct MeasuredRow {
    bytes: u32,
    half_rtt_us: Spread,
}

#[derive(Deserialize)]
struct Spread {
    median: f64,
}

/// Measures every way `repeat` times, one after the other in each round, so that whatever disturbs
/// the machine for a while meets them all.
///
/// # Errors
///
/// One line: the command failed.
pub(crate) fn measure(
    viaduct: &Path,
    cores: [usize; 2],
    repeat: usize,
) -> Result<Vec<Choice>, String> {
    let mut samples: BTreeMap<(Memory, bool, u32, &str), Vec<f64>> = BTreeMap::new();
    for _ in 0..repeat {
        for (memory, ways) in GROUPS {
            for touched in [false, true] {
                for way in ways {
                    for (bytes, microseconds) in run(viaduct, cores, memory, touched, way)? {
                        let key = (memory, touched, bytes, *way);
                        samples.entry(key).or_default().push(microseconds);
                    }
                }
            }
        }
    }
    let mut choices = Vec::new();
    for (memory, ways) in GROUPS {
        for touched in [false, true] {
            for bytes in SIZES {
                let median = |way: &&'static str| {
                    let key = (memory, touched, bytes, *way);
                    samples
                        .get(&key)
                        .map(|values| (*way, median(values.clone())))
                };
                let by_way: BTreeMap<&'static str, f64> = ways.iter().filter_map(median).collect();
                let singles = by_way.iter().filter(|(way, _)| **way != "auto");
                let best = singles.map(|(_, us)| *us).fold(f64::INFINITY, f64::min);
                let over_best = by_way.get("auto").map_or(f64::NAN, |us| us / best);
                choices.push(Choice {
                    memory,
                    touched,
                    bytes,
                    half_round_trip_us: by_way,
                    over_best,
                });
            }
        }
    }
    Ok(choices)
}

fn run(
    viaduct: &Path,
    cores: [usize; 2],
    memory: Memory,
    touched: bool,
    way: &str,
) -> Result<Vec<(u32, f64)>, String> {
    let mut command = process::leashed(viaduct)?;
    let sizes = SIZES.map(|bytes| bytes.to_string()).join(",");
    command.args(["measure", "latency", "--on", "shm", "--json"]);
    command.args([
        "--transfer",
        way,
        "--sizes",
        &sizes,
        "--iterations",
        ROUND_TRIPS,
    ]);
    command.args(["--cores", &format!("{},{}", cores[0], cores[1])]);
    if touched {
        command.arg("--touch");
    }
    if memory == Memory::Private {
        command.arg("--private");
    }
    let text = process::run(&mut command, LIMIT)?;
    let measured: Measured = serde_json::from_str(&text)
        .map_err(|error| format!("`viaduct measure --json` printed something else: {error}"))?;
    let rows = measured.rows.into_iter();
    Ok(rows
        .map(|row| (row.bytes, row.half_rtt_us.median))
        .collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The tables, for a person.
pub(crate) fn tables(choices: &[Choice]) -> String {
    let mut text = String::new();
    for (memory, ways) in GROUPS {
        for touched in [false, true] {
            let place = match memory {
                Memory::Shared => "shared memory",
                Memory::Private => "private memory",
            };
            let touch = if touched { "touched" } else { "untouched" };
            text += &format!(
                "\nhalf round trip by every way, us; {place}, {touch}\n{:>9}",
                "bytes"
            );
            for way in ways {
                text += &format!("{way:>10}");
            }
            text += "  auto / best\n";
            let rows = choices
                .iter()
                .filter(|c| c.memory == memory && c.touched == touched);
            for choice in rows {
                text += &format!("{:>9}", choice.bytes);
                for way in ways {
                    let value = choice.half_round_trip_us.get(way);
                    text += &value.map_or(format!("{:>10}", "-"), |us| format!("{us:>10.3}"));
                }
                let over = if choice.over_best > OVER_BEST_MAX {
                    " above"
                } else {
                    ""
                };
                text += &format!("{:>13.2}{over}\n", choice.over_best);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn a_choice_that_loses_is_marked() {
        let choice = |auto| Choice {
            memory: Memory::Shared,
            touched: false,
            bytes: 64,
            half_round_trip_us: BTreeMap::from([("auto", auto), ("pool", 1.0)]),
            over_best: auto,
        };
        assert!(tables(&[choice(1.2)]).contains("1.20 above"));
        assert!(!tables(&[choice(1.05)]).contains("above"));
    }
}
