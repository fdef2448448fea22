//! Speed and memory against targets, beside peers: `make bench`.
//!
//! Each quantity is measured several times; where two are compared their runs alternate. The table
//! goes to the screen as it is made and to a JSON file with every sample.

mod bursts;
mod calls;
mod clients;
mod command;
mod congestion;
mod credits;
mod endpoints;
mod floor;
mod graphs;
mod hold;
mod programs;
mod protocol;
mod rings;
mod simgrid;
mod studies;
mod sweeps;
mod table;
mod transports;
mod verbs;

use std::error::Error;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::command::Viaduct;
use crate::floor::Side;
use crate::simgrid::SimGrid;
use crate::table::{Row, Target};

const USAGE: &str = "\
usage: viaduct-bench [--viaduct PATH] [--only GROUP] [--repeat N] [--out DIR]
       viaduct-bench transports [...]  two processes on one machine: the floor and the peers

  --viaduct PATH  the command to measure (default target/release/viaduct)
  --only GROUP    hold, study, ideal, load, heavy, bursts, congestion, rings, credits,
                  programs, calls, graphs, endpoints, verbs, clients, contention, sweep,
                  scale, million or start
  --repeat N      measurements of each quantity (default 5)
  --out DIR       where the JSON goes (default bench/results)";

/// The groups, in the order in which they are measured.
const GROUPS: &[&str] = &[
    "hold",
    "start",
    "study",
    "ideal",
    "load",
    "heavy",
    "bursts",
    "congestion",
    "rings",
    "credits",
    "programs",
    "calls",
    "graphs",
    "endpoints",
    "verbs",
    "clients",
    "contention",
    "sweep",
    "scale",
    "million",
];

/// Pending events at which a hold has a target.
const HOLD_TARGET_PENDING_MAX: usize = 10_000;
const HOLD_TARGET_NS: f64 = 35.0;

#[derive(Debug)]
struct Options {
    viaduct: PathBuf,
    only: Option<String>,
    repeat: usize,
    out: PathBuf,
}

/// The file that a bench leaves.
#[derive(Debug, Serialize)]
struct Results {
    unix_s: u64,
    commit: String,
    system: String,
    architecture: String,
    processors: usize,
    /// Processes that wanted a processor when the bench began, over the last minute; Linux only.
    load_before: Option<f64>,
    rows: Vec<Row>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(side) = arguments.first().and_then(|word| Side::of(word)) {
        return ended(floor::run(side, &arguments[1..]));
    }
    match arguments.first().map(String::as_str) {
        Some(transports::LEASHED) => return ended(transports::become_leashed(&arguments[1..])),
        Some(endpoints::SERVER) => return ended(endpoints::serve(&arguments[1..])),
        Some(verbs::kernel_copy::TARGET) => {
            return ended(verbs::kernel_copy::be_target(&arguments[1..]));
        }
        Some(verbs::many::ASKING) => return ended(verbs::many::ask(&arguments[1..])),
        Some(verbs::many::ANSWERING) => return ended(verbs::many::answer(&arguments[1..])),
        Some("transports") => {
            return ended(transports::command(arguments.into_iter().skip(1)));
        }
        _ => {}
    }
    let options = match Options::read(arguments.into_iter()) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("error: {message}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    ended(bench(&options))
}

fn ended(result: Result<(), impl Display>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let root = root();
        let mut options = Self {
            viaduct: root.join("target/release/viaduct"),
            only: None,
            repeat: 5,
            out: root.join("bench/results"),
        };
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
            match name.as_str() {
                "--viaduct" => options.viaduct = value()?.into(),
                "--out" => options.out = value()?.into(),
                "--only" => options.only = Some(value()?),
                "--repeat" => {
                    let count = value()?;
                    options.repeat = count
                        .parse()
                        .ok()
                        .filter(|count| *count > 0)
                        .ok_or(format!("--repeat takes a count from 1, not `{count}`"))?;
                }
                _ => return Err(format!("unknown argument `{name}`")),
            }
        }
        if let Some(only) = options
            .only
            .as_deref()
            .filter(|only| !GROUPS.contains(only))
        {
            return Err(format!(
                "unknown group `{only}`; groups: {}",
                GROUPS.join(", ")
            ));
        }
        Ok(options)
    }
}

/// The checkout: cargo says where this package is.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package
        .and_then(|bench| bench.parent().map(Path::to_owned))
        .unwrap_or_else(|| ".".into())
}

fn bench(options: &Options) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(&options.out)?;
    let viaduct = Viaduct::new(&options.viaduct);
    let simgrid = SimGrid::compile(&root().join("bench"), &options.out);
    if let Err(note) = &simgrid {
        println!("SimGrid beside ours: {note}");
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let load_before = load();
    // One processor must be left for what is measured.
    if let Some(load) = load_before.filter(|load| *load > processors as f64 - 1.0) {
        println!(
            "this machine is busy (load {load} on {processors} processors): expect worse figures"
        );
    }
    println!("{}", table::heading());
    let mut rows = Vec::new();
    for group in GROUPS {
        if options.only.as_deref().is_some_and(|only| only != *group) {
            continue;
        }
        let repeat = options.repeat;
        let measured = match *group {
            "hold" => holds(repeat),
            "start" => studies::start(&viaduct, repeat),
            "study" => studies::study(&viaduct, repeat),
            "ideal" => studies::ideal(&viaduct, simgrid.as_ref(), repeat),
            "load" => studies::load(&viaduct, repeat),
            "heavy" => studies::heavy(&viaduct, simgrid.as_ref(), repeat),
            "bursts" => bursts::measure(&viaduct, simgrid.as_ref(), &options.out, repeat),
            "congestion" => congestion::measure(&viaduct, &options.out, repeat),
            "rings" => rings::measure(&viaduct, &options.out, repeat),
            "credits" => credits::measure(&viaduct, &options.out, repeat),
            "programs" => programs::measure(repeat),
            "calls" => calls::measure(&options.viaduct, repeat),
            "graphs" => graphs::measure(repeat),
            "endpoints" => endpoints::measure(repeat),
            "verbs" => verbs::measure(&options.viaduct, repeat),
            "clients" => clients::measure(&options.viaduct, repeat),
            "contention" => studies::contention(&viaduct, repeat),
            "sweep" => sweeps::measure(&viaduct, &options.out, repeat),
            "scale" => studies::scale(&viaduct, repeat),
            _ => studies::million(&viaduct),
        };
        for row in &measured {
            println!("{}", row.shown());
        }
        rows.extend(measured);
    }
    let missed = rows.iter().filter(|row| row.is_missed()).count();
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let results = Results {
        unix_s,
        commit: commit(),
        system: std::env::consts::OS.to_owned(),
        architecture: std::env::consts::ARCH.to_owned(),
        processors,
        load_before,
        rows,
    };
    let path = options.out.join(format!("{unix_s}.json"));
    std::fs::write(&path, serde_json::to_string_pretty(&results)? + "\n")?;
    println!(
        "{missed} of {} missed; kept in {}",
        results.rows.len(),
        path.display()
    );
    Ok(())
}

/// The load of the last minute, where the system tells it in a file.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// What is measured; empty outside a checkout.
fn commit() -> String {
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(root())
        .output();
    described.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

fn holds(repeat: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for pending in [1_000, 10_000, 1_000_000] {
        for (name, has_target, samples) in hold::measure(pending, repeat) {
            let target = if has_target && pending <= HOLD_TARGET_PENDING_MAX {
                Target::Below(HOLD_TARGET_NS)
            } else {
                Target::None
            };
            let quantity = format!("hold, {pending} pending: {name}");
            rows.push(Row::new(quantity, "ns", target, &samples));
        }
    }
    rows
}
