//! A sweep of a thousand short cells: how busy it keeps the processors, and what a cell costs
//! beside its simulation.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::command::{Viaduct, children_s};
use crate::table::{Row, Samples, Target};

/// Two hosts that play ping-pong for a millisecond of a processor, with a thousand sizes.
const SETTINGS: [&str; 3] = [SIZES, "run.until=100 ms", "run.messages_max=10000"];
const SIZES: &str = "traffic.size=4 B..4000 B:4 B";
const STUDY: &str = "two-hosts";
const CELLS: f64 = 1_000.0;

const BUSY: &str = "sweep of 1,000 short cells: processors busy";
const BESIDE: &str = "sweep of 1,000 short cells: beside the simulation, a cell";

/// A sweep as it went.
struct Swept {
    /// Processor time of its process over what the processors had to give.
    busy_percent: f64,
    /// Wall clock of all threads that was not spent in simulations, a cell.
    beside_ms: f64,
}

pub(crate) fn measure(viaduct: &Viaduct, out: &Path, repeat: usize) -> Vec<Row> {
    let [mut busy, mut beside] = [const { Samples::EMPTY }; 2];
    for _ in 0..repeat {
        match sweep(viaduct, out) {
            Ok(swept) => {
                busy.add(swept.busy_percent);
                beside.add(swept.beside_ms);
            }
            Err(reason) => return vec![Row::missing(BUSY, reason)],
        }
    }
    vec![
        Row::new(BUSY, "%", Target::AtLeast(90.0), &busy),
        Row::new(BESIDE, "ms", Target::Below(2.0), &beside),
    ]
}

fn sweep(viaduct: &Viaduct, out: &Path) -> Result<Swept, String> {
    let directory = out.join(format!("sweep-{}", std::process::id()));
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let mut command = Command::new(viaduct.path());
    command
        .args(["sweep", STUDY, "--quiet", "--out"])
        .arg(&directory)
        .args(SETTINGS.map(|setting| format!("--set={setting}")));
    let before_s = children_s()?;
    let begin = Instant::now();
    let output = command.output();
    let wall_s = begin.elapsed().as_secs_f64();
    let spent_s = children_s()? - before_s;
    // What is left of it would grow from run to run.
    let _ = std::fs::remove_dir_all(&directory);
    let output = output.map_err(|error| format!("the command does not run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!(
            "failed: {}",
            said.lines().next().unwrap_or_default()
        ));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let effort = Effort::read(&said).ok_or("it did not say how long it simulated")?;
    // What its process does before and after the runs counts as well.
    let around_ms = (wall_s - effort.wall_s).max(0.0) * processors / CELLS * 1e3;
    Ok(Swept {
        busy_percent: 100.0 * spent_s / (wall_s * processors),
        beside_ms: effort.beside_ms + around_ms,
    })
}

/// What a sweep says of itself: `1000 runs on 2 threads, 1.3 s: simulating 96 % of the time, 0.1 ms
/// a run beside it`.
#[derive(Debug, PartialEq)]
struct Effort {
    wall_s: f64,
    beside_ms: f64,
}

impl Effort {
    fn read(said: &str) -> Option<Self> {
        let line = said.lines().find(|line| line.contains(": simulating "))?;
        let (head, tail) = line.split_once(": simulating ")?;
        let wall = head.rsplit_once(", ")?.1;
        let (number, unit) = wall.split_once(' ')?;
        let scale = match unit {
            "s" => 1.0,
            "ms" => 1e-3,
            _ => return None,
        };
        let beside = tail.split_once("time, ")?.1.split_once(" ms")?.0;
        Some(Self {
            wall_s: number.parse::<f64>().ok()? * scale,
            beside_ms: beside.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sweep_says_of_itself_is_read() {
        let said = "x\n  sweep    1000 runs on 2 threads, 850 ms: simulating 96.1 % of the time, \
                    0.066 ms a run beside it; 0 failed\n";
        let wanted = Effort {
            wall_s: 0.85,
            beside_ms: 0.066,
        };
        assert_eq!(Effort::read(said), Some(wanted));
        assert_eq!(
            Effort::read("  sweep    0 runs on 2 threads, 1 s; 0 failed"),
            None
        );
    }
}
