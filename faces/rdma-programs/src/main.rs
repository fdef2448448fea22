//! Runs the stock RDMA programs of a distribution over the libraries of this repository, by a table
//! (`rows.toml`), and fails when one of them does not do what its row says.
//!
//! ```text
//! rdma-programs [--viaduct FILE] [--short] [--list] DIRECTORY [WORD]...
//! ```
//!
//! DIRECTORY holds the libraries. Rows whose names hold every WORD are run, with `--short` some of
//! the options of each program only. A row with a known fault is run and named; it does not fail
//! the run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use rayon::prelude::*;

mod process;
mod rows;
mod run;
mod simulated;

use run::Setting;

/// The programs of the table, and what brings them in Debian 12.
const PROGRAMS: [(&str, &str); 13] = [
    ("ibv_rc_pingpong", "ibverbs-utils"),
    ("ib_send_lat", "perftest"),
    ("rping", "rdmacm-utils"),
    ("ucx_perftest", "ucx-utils"),
    ("fi_pingpong", "libfabric-bin"),
    ("qperf", "qperf"),
    ("fio", "fio"),
    ("mpiexec.mpich", "mpich"),
    ("mpicc.mpich", "libmpich-dev"),
    ("mpirun.openmpi", "openmpi-bin"),
    ("mpicc.openmpi", "libopenmpi-dev"),
    ("cc", "gcc"),
    ("ld", "binutils"),
];

fn main() -> ExitCode {
    match told() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rdma-programs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn told() -> Result<bool, String> {
    let mut arguments = std::env::args().skip(1);
    let (mut viaduct, mut is_list, mut is_short, mut words) = (None, false, false, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--viaduct" => viaduct = Some(arguments.next().ok_or("--viaduct needs a file")?),
            "--list" => is_list = true,
            "--short" => is_short = true,
            _ => words.push(argument),
        }
    }
    let mut rows = rows::all()?;
    rows.retain(|row| row.is_short || !is_short);
    let mut simulated = simulated::all()?;
    simulated.retain(|row| row.is_short() || !is_short);
    if is_list {
        rows.iter().for_each(|row| println!("{}", row.name));
        simulated.iter().for_each(|row| println!("{}", row.name()));
        return Ok(true);
    }
    let usage = "usage: rdma-programs [--viaduct FILE] [--short] [--list] DIRECTORY [WORD]...";
    let libraries = words.first().ok_or(usage)?.clone();
    rows.retain(|row| words[1..].iter().all(|word| row.name.contains(word)));
    simulated.retain(|row| words[1..].iter().all(|word| row.name().contains(word)));
    if rows.is_empty() && simulated.is_empty() {
        return Err("no row has all of these words: --list shows them".into());
    }
    check_programs()?;
    let setting = setting(viaduct.as_deref(), &libraries)?;
    let begun = Instant::now();
    let (mut failed, mut known, mut skipped) = (Vec::new(), 0, 0);
    for row in &rows {
        let row_begun = Instant::now();
        let outcome = setting
            .run(row)
            .map_err(|error| format!("{}: {error}", row.name))?;
        let seconds = row_begun.elapsed().as_secs_f64();
        match (&row.fault, outcome.faults.is_empty()) {
            (_, true) => println!("ok     {seconds:5.1} s  {}", row.name),
            (Some(reason), false) => {
                println!("fault  {seconds:5.1} s  {}: {reason}", row.name);
                known += 1;
            }
            (None, false) => {
                println!("FAILED {seconds:5.1} s  {}\n{}", row.name, outcome.told());
                failed.push(row.name.clone());
            }
        }
    }
    // Without the command there is no simulation. Nothing that is simulated depends on how long it
    // takes, so these rows run side by side.
    if let Some(viaduct) = &setting.viaduct {
        let ended: Result<Vec<_>, String> = simulated
            .par_iter()
            .enumerate()
            .map(|(place, row)| {
                let scratch = setting.scratch.join(format!("simulated-{place}"));
                run_simulated(row, viaduct, &setting.programs, &scratch)
            })
            .collect();
        for (row, ended) in simulated.iter().zip(ended?) {
            skipped += usize::from(ended == Ended::Skipped);
            failed.extend((ended == Ended::Failed).then(|| row.name()));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let count = rows.len() + setting.viaduct.as_ref().map_or(0, |_| simulated.len());
    println!(
        "{} of {} rows passed in {seconds:.0} s, {known} have a known fault, {skipped} were skipped",
        count - failed.len() - known - skipped,
        count
    );
    for name in &failed {
        println!("failed: {name}");
    }
    Ok(failed.is_empty())
}

/// How a row on simulated hosts ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ended {
    Passed,
    Failed,
    Skipped,
}

/// Runs a row on simulated hosts in a folder of its own, and says how it ended.
fn run_simulated(
    row: &simulated::Row,
    viaduct: &Path,
    programs: &Path,
    scratch: &Path,
) -> Result<Ended, String> {
    let begun = Instant::now();
    let name = row.name();
    if let Some(package) = row.lacks() {
        println!("skipped          {name}: Debian has it as {package}");
        return Ok(Ended::Skipped);
    }
    let faults = std::fs::create_dir_all(scratch)
        .and_then(|()| simulated::run(row, viaduct, programs, scratch))
        .map_err(|error| format!("{name}: {error}"))?;
    let seconds = begun.elapsed().as_secs_f64();
    if faults.is_empty() {
        println!("ok     {seconds:5.1} s  {name}");
        return Ok(Ended::Passed);
    }
    let faults = faults.join("\n    ");
    println!("FAILED {seconds:5.1} s  {name}\n    {faults}");
    Ok(Ended::Failed)
}

fn setting(viaduct: Option<&str>, libraries: &str) -> Result<Setting, String> {
    let absolute = |path: &str| {
        Path::new(path)
            .canonicalize()
            .map_err(|error| format!("{path}: {error}"))
    };
    let libraries = absolute(libraries)?;
    let scratch = std::env::temp_dir().join(format!("viaduct-rdma-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let programs = scratch.join("programs");
    let source: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    run::build_programs(&source, &libraries, &programs)?;
    Ok(Setting {
        viaduct: viaduct.map(absolute).transpose()?,
        libraries,
        programs,
        scratch,
    })
}

/// Whether a folder of programs has one of this name.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Says in one line what to install.
fn check_programs() -> Result<(), String> {
    let missing: Vec<_> = PROGRAMS
        .iter()
        .filter(|(program, _)| !is_installed(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "programs are missing (Debian: apt install {})",
        missing.join(" ")
    ))
}
