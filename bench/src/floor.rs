//! The physical floor between two cores, written by hand: what every transport stands on.
//!
//! The bench starts itself as the first process, which makes the shared memory and starts itself
//! once more as the second with that memory as its standard input. Both speak `crate::protocol`.

mod copy;
mod line;
mod ring;
mod shared;
mod wake;

use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::protocol::{self, End, Plan, Test};
use copy::Copy;
use line::Line;
use ring::Ring;
use shared::{Shared, Stores};
use wake::Wake;

/// The hidden word for the first process.
pub(crate) const FIRST: &str = "floor";
/// The hidden word for the second.
const SECOND: &str = "floor-second";
/// The kind that the placement of the cores is told by.
pub(crate) const LINE: &str = "line";

/// Which process this is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    First,
    Second,
}

impl Side {
    /// What the first argument of the command asks for, when it is one of the hidden words.
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            FIRST => Some(Self::First),
            SECOND => Some(Self::Second),
            _ => None,
        }
    }
}

/// Runs one process of a floor by the arguments after its hidden word.
///
/// # Errors
///
/// One line: an argument, the system, or a message that came wrong.
pub(crate) fn run(side: Side, arguments: &[String]) -> Result<(), String> {
    let plan = Plan::read(arguments)?;
    let system = |error: io::Error| format!("floor {}: {error}", plan.kind);
    // When the other dies or the bench is stopped, nobody is left to spin for ever.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| system(error.into()))?;
    pin(plan.cores[side as usize]).map_err(system)?;
    let bytes = shared_bytes(&plan)?;
    match side {
        Side::First => {
            let (shared, memory) = Shared::create(bytes).map_err(system)?;
            let mut second = Command::new(std::env::current_exe().map_err(system)?)
                .arg(SECOND)
                .args(plan.arguments())
                .stdin(Stdio::from(memory))
                .stdout(Stdio::null())
                .spawn()
                .map_err(system)?;
            measure(side, shared, &plan)?;
            let status = second.wait().map_err(system)?;
            if status.success() {
                return Ok(());
            }
            Err(format!(
                "floor {}: the second process ended with {status}",
                plan.kind
            ))
        }
        Side::Second => {
            let shared = Shared::map(io::stdin().as_fd(), bytes).map_err(system)?;
            measure(side, shared, &plan)
        }
    }
}

/// Keeps this thread on one core.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

fn shared_bytes(plan: &Plan) -> Result<usize, String> {
    let refused = |what: &str| Err(format!("floor {}: {what}", plan.kind));
    match plan.kind.as_str() {
        LINE | "line-one" | "futex" if plan.bytes != 8 => refused("carries 8 bytes"),
        LINE | "line-one" | "futex" if plan.test != Test::Latency => {
            refused("goes to and fro only")
        }
        LINE | "line-one" => Ok(line::BYTES),
        "futex" => Ok(wake::BYTES),
        "ring" if plan.bytes > ring::PAYLOAD_BYTES => {
            refused(&format!("carries {} bytes at most", ring::PAYLOAD_BYTES))
        }
        "ring" => Ok(ring::BYTES),
        "copy" | "copy-nt" if plan.test == Test::Rate => refused("has no windows"),
        "copy-nt" if !shared::HAS_NON_TEMPORAL => refused("not on this kind of processor"),
        "copy-nt" if !plan.bytes.is_multiple_of(shared::LINE_BYTES) => {
            refused("copies whole lines of 64 bytes")
        }
        "copy" | "copy-nt" => Ok(copy::bytes(plan)),
        _ => refused("KIND is line, line-one, ring, copy, copy-nt or futex"),
    }
}

fn measure(side: Side, shared: Shared, plan: &Plan) -> Result<(), String> {
    let copy = |shared, stores| {
        Copy::new(shared, side, plan, stores).map_err(|error| format!("floor: {error}"))
    };
    match plan.kind.as_str() {
        "line-one" => go(side, Line::one(shared), plan),
        "ring" => go(side, Ring::new(shared, side), plan),
        "futex" => go(side, Wake::new(shared, side), plan),
        "copy" => go(side, copy(shared, Stores::Ordinary)?, plan),
        "copy-nt" => go(side, copy(shared, Stores::NonTemporal)?, plan),
        _ => go(side, Line::two(shared, side), plan),
    }
}

fn go(side: Side, mut end: impl End, plan: &Plan) -> Result<(), String> {
    match side {
        Side::First => {
            let batches = protocol::measure(&mut end, plan)?;
            println!(
                "{}",
                protocol::line(plan, env!("CARGO_PKG_VERSION"), &batches)
            );
            Ok(())
        }
        Side::Second => protocol::answer(&mut end, plan),
    }
}
