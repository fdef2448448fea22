//! Channels and credits: single flits in a torus, and packets of the 1024-node study.
//!
//! The peers are BookSim2 and SST's merlin. They are not built here: what they were measured to do,
//! on another machine, is quoted.

use std::path::Path;

use crate::command::{Run, Viaduct};
use crate::table::{Row, Samples, Target};

/// BookSim2's torus: a flit a cycle of 1 ns on each link, and two classes of channels.
const TORUS: &str = "\
[run]
until = \"20 us\"
[network]
topology = \"torus\"
dimensions = [8, 8]
[links]
model = \"credits\"
rate = \"512 Gbit/s\"
propagation = \"1 ns\"
frame_payload = \"64 B\"
virtual_channels = 2
channel_buffer = \"512 B\"
[switches]
delay = \"2 ns\"
[hosts]
nic = \"ideal\"
prepost = \"unlimited\"
[traffic]
pattern = \"uniform\"
rate = \"400000000/s\"
size = \"64 B\"
";
/// Switches that a flit visits there, on average: those of 63 other hosts, over 256 / 63 links.
const SWITCHES: f64 = 1.0 + 256.0 / 63.0;
const BOOKSIM: &str = "quoted: booksim2 28f43299, elsewhere";
const BOOKSIM_RATE: f64 = 490_000.0;

/// The study's packets, with adapters that cost nothing.
const STUDY: &[&str] = &[
    "hosts.nic=ideal",
    "links.model=credits",
    "links.frame_payload=1500 B",
    "run.warmup=0 s",
    "run.until=1 s",
];
const MERLIN: &str = "quoted: SST merlin, elsewhere";
const MERLIN_RATE: f64 = 7_480.0;

pub(crate) fn measure(viaduct: &Viaduct, out: &Path, repeat: usize) -> Vec<Row> {
    let repeat = repeat.min(3);
    let flits = "8x8 torus, single flits, 0.4 a cycle and host, credits: flit-hops a second";
    let study = "torus-1024, frames of 1500 B, bare adapters, credits: messages a second";
    let of_flits = write(out).and_then(|file| {
        let speed = speed(viaduct, (&file, &[]), SWITCHES, repeat);
        // What is left of it would grow from run to run.
        let _ = std::fs::remove_file(&file);
        let speed = speed?;
        let target = Target::AtLeast(15.0 * BOOKSIM_RATE);
        Ok(vec![
            Row::new(flits, "1/s", target, &speed),
            Row::quoted(
                "the peer's, of processor time",
                "1/s",
                BOOKSIM_RATE,
                BOOKSIM,
            ),
        ])
    });
    let of_study = speed(viaduct, ("torus-1024", STUDY), 1.0, repeat).map(|speed| {
        let target = Target::AtLeast(6.0 * MERLIN_RATE);
        vec![
            Row::new(study, "1/s", target, &speed),
            Row::quoted("the peer's, of processor time", "1/s", MERLIN_RATE, MERLIN),
        ]
    });
    let or_reason = |name: &str, rows: Result<Vec<Row>, String>| {
        rows.unwrap_or_else(|it| vec![Row::missing(name, it)])
    };
    let mut rows = or_reason(flits, of_flits);
    rows.extend(or_reason(study, of_study));
    rows
}

/// Writes the torus into a file.
fn write(out: &Path) -> Result<String, String> {
    let file = out.join(format!("credits-{}.toml", std::process::id()));
    let unwritten = |error: std::io::Error| format!("{}: {error}", file.display());
    std::fs::create_dir_all(out).map_err(unwritten)?;
    std::fs::write(&file, TORUS).map_err(unwritten)?;
    Ok(file.display().to_string())
}

/// Messages a second of the run itself, each counted so many times.
fn speed(
    viaduct: &Viaduct,
    (study, settings): (&str, &[&str]),
    times: f64,
    repeat: usize,
) -> Result<Samples, String> {
    let mut speed = Samples::EMPTY;
    for _ in 0..repeat {
        let run: Run = viaduct.run(study, settings)?;
        speed.add(times * run.number("messages_per_wall_s")?);
    }
    Ok(speed)
}
