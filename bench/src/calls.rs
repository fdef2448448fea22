//! What each call on the way of a message takes, both ends in one thread: no line of cache changes
//! hands, so that this is the library's own part. `peers/viaduct/viaduct.c` makes the calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::table::{Row, Samples, Target};
use crate::transports;

const MESSAGES: &str = "100000";

/// Instructions of each call and of what a program does around it, a few more than were counted
/// when this was written: what is added to a call is noticed.
const INSTRUCTIONS_MAX: &[(&str, f64)] = &[
    ("VipPostRecv", 143.0),
    ("VipPostSend", 240.0),
    ("VipSendDone", 72.0),
    ("VipRecvDone", 185.0),
    ("VipRecvDone in vain", 85.0),
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
    let mut nanoseconds: BTreeMap<String, Samples> = BTreeMap::new();
    let mut instructions = nanoseconds.clone();
    for _ in 0..repeat {
        let output = Command::new(&program).args(["calls", MESSAGES]).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
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
    let rows = INSTRUCTIONS_MAX.iter().flat_map(|(call, limit)| {
        let of = |samples: &BTreeMap<String, Samples>| samples.get(*call).cloned();
        let (time, count) = (of(&nanoseconds), of(&instructions));
        [
            Row::new(*call, "ns", Target::None, &time.unwrap_or_default()),
            Row::new(
                *call,
                "instructions",
                Target::AtMost(*limit),
                &count.unwrap_or_default(),
            ),
        ]
    });
    Ok(rows.collect())
}
