//! What each call on the way of a message takes, both ends in one thread: no line of cache changes
//! hands, so that this is the library's own part. `peers/viaduct/viaduct.c` makes the calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::table::{Row, Samples, Target};
use crate::transports;

const MESSAGES: &str = "100000";

/// A call and its instructions.
type Limit = (&'static str, f64);

/// Instructions of each call at a level of reliability and of what a program does around it, a few
/// more than were counted when this was written: what is added to a call is noticed.
const INSTRUCTIONS_MAX: [(&str, &str, &[Limit]); 2] = [
    (
        "delivery",
        "",
        &[
            ("VipPostRecv", 143.0),
            ("VipPostSend", 240.0),
            ("VipSendDone", 74.0),
            ("VipRecvDone", 180.0),
            ("VipRecvDone in vain", 86.0),
        ],
    ),
    (
        "reception",
        ", reliable reception",
        &[("VipPostSend", 495.0), ("VipSendDone", 167.0)],
    ),
];

#[derive(Deserialize)]
struct Measured {
    rows: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    call: String,
    ns: f64,
    instructions: f64,
}

/// All of it.
pub(crate) fn measure(viaduct: &Path, repeat: usize) -> Vec<Row> {
    run(viaduct, repeat).unwrap_or_else(|note| vec![Row::missing("calls", note)])
}

fn run(viaduct: &Path, repeat: usize) -> Result<Vec<Row>, String> {
    let program = transports::own_program_in_c(viaduct)?;
    let mut rows = Vec::new();
    for (level, label, limits) in INSTRUCTIONS_MAX {
        let mut nanoseconds: BTreeMap<String, Samples> = BTreeMap::new();
        let mut instructions = nanoseconds.clone();
        for _ in 0..repeat {
            let mut command = Command::new(&program);
            command.args(["calls", MESSAGES, level]);
            let output = command
                .output()
                .map_err(|error| format!("{program}: {error}"))?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
            }
            let measured: Measured = serde_json::from_slice(&output.stdout)
                .map_err(|error| format!("{program} printed something else: {error}"))?;
            for Call {
                call,
                ns,
                instructions: count,
            } in measured.rows
            {
                nanoseconds.entry(call.clone()).or_default().add(ns);
                instructions.entry(call).or_default().add(count);
            }
        }
        for (call, limit) in limits {
            let of = |samples: &BTreeMap<String, Samples>| samples.get(*call).cloned();
            let (time, count) = (of(&nanoseconds), of(&instructions));
            let name = format!("{call}{label}");
            let time = time.unwrap_or_default();
            rows.push(Row::new(name.clone(), "ns", Target::None, &time));
            let (target, count) = (Target::AtMost(*limit), count.unwrap_or_default());
            rows.push(Row::new(name, "instructions", target, &count));
        }
    }
    Ok(rows)
}
