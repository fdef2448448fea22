//! Stock RDMA programs over our libraries, beside what they stand on: our own shared memory, one
//! copy by the kernel, and what UCX has of its own. Each repetition measures both, one after the
//! other on the same cores; what counts is their ratio.

pub(crate) mod kernel_copy;
pub(crate) mod many;
mod programs;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use self::kernel_copy::Way;
use self::programs::{Over, Program};
use crate::table::{Row, Samples, Target};
use crate::transports::{leashed, run};

const CORES: [usize; 2] = [0, 1];
const LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

const SEND_LAT: Program = Program {
    name: "ib_send_lat",
    options: &[],
    arguments: &["-F", "-x", "0", "-s", "8", "-n", "100000"],
};
const WRITE_LAT: Program = Program {
    name: "ib_write_lat",
    options: &[],
    arguments: &["-F", "-x", "0", "-s", "8", "-n", "50000"],
};
/// The same into pages that the peer shares.
const SHARED_WRITE_LAT: Program = Program {
    options: &["--share-memory"],
    ..WRITE_LAT
};
/// Programs of bandwidth, their bytes a message, which way the peer's copy goes.
const BANDWIDTHS: [(Program, usize, Way); 3] = [
    (
        Program {
            name: "ib_write_bw",
            options: &[],
            arguments: &["-F", "-x", "0", "-s", "65536", "-n", "20000"],
        },
        65_536,
        Way::Write,
    ),
    (
        Program {
            name: "ib_read_bw",
            options: &[],
            arguments: &["-F", "-x", "0", "-s", "65536", "-n", "20000"],
        },
        65_536,
        Way::Read,
    ),
    (
        Program {
            name: "ib_send_bw",
            options: &[],
            arguments: &["-F", "-x", "0", "-s", "4096", "-q", "4", "-n", "20000"],
        },
        4096,
        Way::Read,
    ),
];
const UCX: [Program; 2] = [
    Program {
        name: "ucx_perftest",
        options: &[],
        arguments: &["-f", "-v", "-s", "8", "-n", "50000", "-t", "tag_lat"],
    },
    Program {
        name: "ucx_perftest",
        options: &[],
        arguments: &["-f", "-v", "-s", "8", "-n", "50000", "-t", "ucp_am_lat"],
    },
];

/// Times shm's half round trip that a send may take.
const SEND_TIMES_MAX: f64 = 1.3;
/// Microseconds that a write may take more than a copy by the kernel.
const WRITE_MORE_US_MAX: f64 = 0.3;
/// Times shm's half round trip that a write into shared pages may take.
const SHARED_WRITE_TIMES_MAX: f64 = 1.5;
/// Parts of the rate of copies by the kernel that a bandwidth is at least.
const RATE_MIN: f64 = 0.8;
/// Times UCX's own shared memory that UCX over ours may take.
const UCX_TIMES_MAX: f64 = 1.5;

/// Samples by quantity, in the order of the rows, of each placement of the cores.
type Table = BTreeMap<(String, usize), (String, &'static str, Target, Samples)>;

/// All of it.
pub(crate) fn measure(viaduct: &Path, repeat: usize) -> Vec<Row> {
    let mut table = Table::new();
    for _ in 0..repeat {
        if let Err(note) = measure_once(viaduct, &mut table) {
            return vec![Row::missing("verbs", note)];
        }
    }
    let rows = table.into_iter();
    rows.map(|((placement, _), (quantity, unit, target, samples))| {
        Row::new(format!("{placement}: {quantity}"), unit, target, &samples)
    })
    .collect()
}

fn measure_once(viaduct: &Path, table: &mut Table) -> Result<(), String> {
    let (shm_us, placement) = shm(viaduct)?;
    let mut next = 0;
    let mut add = |quantity: String, unit, target, value| {
        let row = table.entry((placement.clone(), next));
        let row = row.or_insert_with(|| (quantity, unit, target, Samples::default()));
        row.3.add(value);
        next += 1;
    };
    let send_us = SEND_LAT.typical_us(viaduct, CORES)?;
    let title = |program: &Program| format!("{} {}", program.name, sizes(program));
    add(title(&SEND_LAT), "us", Target::None, send_us);
    let target = Target::AtMost(SEND_TIMES_MAX);
    let quantity = format!("{} beside shm", title(&SEND_LAT));
    add(quantity, "times", target, send_us / shm_us);
    let shared_us = SHARED_WRITE_LAT.typical_us(viaduct, CORES)?;
    let target = Target::AtMost(SHARED_WRITE_TIMES_MAX);
    let quantity = format!("{} --share-memory beside shm", title(&SHARED_WRITE_LAT));
    add(quantity, "times", target, shared_us / shm_us);
    let copy_us = kernel_copy::microseconds(Way::Write, 8, CORES)?;
    let write_us = WRITE_LAT.typical_us(viaduct, CORES)?;
    let target = Target::AtMost(WRITE_MORE_US_MAX);
    let quantity = format!("{} more than a copy by the kernel", title(&WRITE_LAT));
    add(quantity, "us", target, write_us - copy_us);
    for (program, bytes, way) in &BANDWIDTHS {
        let copy_us = kernel_copy::microseconds(*way, *bytes, CORES)?;
        let rate = program.mebibytes_a_second(viaduct, CORES)? * 1_048_576.0;
        add(
            format!("{} beside copies by the kernel", title(program)),
            "times",
            Target::AtLeast(RATE_MIN),
            rate / (*bytes as f64 / copy_us * 1e6),
        );
    }
    for program in &UCX {
        let own_us = program.median_us(Over::SharedMemory, CORES)?;
        let ours_us = program.median_us(Over::Ours(viaduct), CORES)?;
        let word = program.arguments.last().copied().unwrap_or_default();
        add(
            format!("{} {word} beside its own shared memory", program.name),
            "times",
            Target::AtMost(UCX_TIMES_MAX),
            ours_us / own_us,
        );
    }
    let many = many::measure(CORES)?;
    let pairs = many::PAIRS;
    for (quantity, unit, value) in [
        ("memory of one, both ends", "bytes", many.bytes_a_pair),
        ("connections", "/s", many.connections_s),
        ("requests answered", "/s", many.requests_s),
    ] {
        let quantity = format!("{pairs} queue pairs: {quantity}");
        add(quantity, unit, Target::None, value);
    }
    Ok(())
}

/// The arguments that say how long messages are, and on how many queue pairs.
fn sizes(program: &Program) -> String {
    let pairs = program.arguments.windows(2);
    let shown = pairs.filter(|pair| matches!(pair[0], "-s" | "-q"));
    shown
        .map(|pair| pair.join(" "))
        .collect::<Vec<_>>()
        .join(" ")
}

#[derive(Deserialize)]
struct Measured {
    rows: Vec<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    half_rtt_us: Quantiles,
    placement: String,
}

#[derive(Deserialize)]
struct Quantiles {
    median: f64,
}

/// Half a round trip of 8 bytes over shm, and where the cores lie.
fn shm(viaduct: &Path) -> Result<(f64, String), String> {
    let mut command: Command = leashed(viaduct)?;
    let cores = CORES.map(|core| core.to_string()).join(",");
    command.args([
        "measure", "latency", "--on", "shm", "--sizes", "8", "--json",
    ]);
    command.args(["--cores", &cores]);
    let output = run(&mut command, LIMIT)?;
    let measured: Measured = serde_json::from_str(&output)
        .map_err(|error| format!("viaduct measure printed something else: {error}"))?;
    let row = measured.rows.into_iter().next();
    let row = row.ok_or("viaduct measure printed no row")?;
    Ok((row.half_rtt_us.median, row.placement))
}
