//! The floor and the peers for two processes on one machine: `viaduct-bench transports`.

mod cell;
mod contestants;
mod mechanisms;
mod memories;
mod perftest;
mod placement;
mod process;
mod requests;
mod sheet;
mod verdicts;

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use viaduct_provider::NEAR_LINE_BELOW_NS;

use crate::table::{self, Row};
use cell::Cell;
use contestants::{Contestant, GROUPS, Places, Skipped};
pub(crate) use perftest::{free_port, listens, median_latency_us};
use placement::Prober;
pub(crate) use process::{LEASHED, Running, become_leashed, leashed, own_program, run};
use sheet::{Sheet, SheetRow};

pub(crate) const USAGE: &str = "\
usage: viaduct-bench transports [--only GROUP[,GROUP]] [--full] [--repeat N]
                                [--milliseconds N] [--cores A,B] [--viaduct PATH] [--out DIR]

  --only GROUPS     floor, viaduct, ucx, libfabric, openmpi, iceoryx2 or sockets
  --full            every size, touched and untouched, and every mode of a peer
  --repeat N        measurements of each value (default 3)
  --milliseconds N  how long one takes (default 40)
  --cores A,B       the cores of the two processes (default 0,1)
  --viaduct PATH    the command, with libvipl.so beside it (default target/release/viaduct)
  --out DIR         where the JSON goes (default bench/results)";

#[derive(Debug)]
struct Options {
    groups: Vec<&'static str>,
    is_full: bool,
    repeat: usize,
    duration: Duration,
    cores: [usize; 2],
    viaduct: PathBuf,
    out: PathBuf,
}

/// The file that a run leaves.
#[derive(Debug, Serialize)]
struct Results {
    unix_s: u64,
    commit: String,
    system: String,
    architecture: String,
    processor: String,
    processors: usize,
    load_before: Option<f64>,
    load_after: Option<f64>,
    cores: [usize; 2],
    near_us_max: f64,
    thrown_away: usize,
    skipped: Vec<Skipped>,
    failed: Vec<Skipped>,
    values: Vec<SheetRow>,
    verdicts: Vec<Row>,
    /// Half round trips by every way of our own.
    mechanisms: Vec<mechanisms::Choice>,
}

/// Runs the command with what follows its word.
///
/// # Errors
///
/// One line: an argument, or a machine that cannot measure. A peer that is missing is a note.
pub(crate) fn command(arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let options = Options::read(arguments).map_err(|error| format!("{error}\n{USAGE}"))?;
    if !cfg!(target_os = "linux") {
        return Err("transports between processes are measured on Linux only".into());
    }
    let build = own_program()?.with_file_name("peers");
    std::fs::create_dir_all(&build)?;
    std::fs::create_dir_all(&options.out)?;
    let load_before = crate::load();
    let (contestants, skipped) = find(&options, &build)?;

    let cells = Cell::all(options.is_full);
    let mut sheet = Sheet::default();
    let mut failed: Vec<((usize, Cell), Skipped)> = Vec::new();
    let mut prober = Prober::new(|| placement::line_us(options.cores));
    // Peers in the inner loop: whatever disturbs the machine for a while meets them all.
    for round in 1..=options.repeat {
        for cell in &cells {
            for (place, contestant) in contestants.iter().enumerate() {
                let is_failed = failed.iter().any(|(key, _)| *key == (place, *cell));
                if is_failed || !contestant.has(*cell) {
                    continue;
                }
                let value =
                    prober.value(|| contestant.measure(*cell, options.duration, options.cores));
                match value {
                    Ok(sample) => sheet.add(place, *cell, sample),
                    Err(note) => {
                        let name = format!("{}, {}", contestant.name, cell.label());
                        println!("{name}: failed: {note}");
                        failed.push(((place, *cell), Skipped { name, note }));
                    }
                }
            }
        }
        println!("round {round} of {} done", options.repeat);
    }
    println!("{}", sheet.tables(&contestants, &cells));
    let mut verdicts = verdicts::verdicts(&sheet, &contestants, &cells);
    if options.groups.contains(&"viaduct") {
        let measured = own_program_in_c(&options.viaduct).and_then(|program| {
            requests::measure(&program, options.cores, options.repeat, &mut prober)
        });
        verdicts.extend(measured.unwrap_or_else(|note| vec![Row::missing("requests", note)]));
        let (duration, cores) = (options.duration, options.cores);
        verdicts.extend(memories::measure(
            &contestants,
            duration,
            cores,
            options.repeat,
            &mut prober,
        ));
    }
    println!("{}", table::heading());
    verdicts.iter().for_each(|row| println!("{}", row.shown()));
    let mechanisms = if options.groups.contains(&"viaduct") {
        let measured = mechanisms::measure(&options.viaduct, options.cores, options.repeat);
        measured.unwrap_or_else(|note| {
            println!("ways of a message: failed: {note}");
            Vec::new()
        })
    } else {
        Vec::new()
    };
    println!("{}", mechanisms::tables(&mechanisms));

    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let results = Results {
        unix_s,
        commit: crate::commit(),
        system: std::env::consts::OS.to_owned(),
        architecture: std::env::consts::ARCH.to_owned(),
        processor: processor(),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        load_before,
        load_after: crate::load(),
        cores: options.cores,
        near_us_max: f64::from(NEAR_LINE_BELOW_NS) / 1e3,
        thrown_away: prober.thrown_away(),
        skipped,
        failed: failed.into_iter().map(|(_, failure)| failure).collect(),
        values: sheet.rows(&contestants),
        verdicts,
        mechanisms,
    };
    let path = options.out.join(format!("transports-{unix_s}.json"));
    std::fs::write(&path, serde_json::to_string_pretty(&results)? + "\n")?;
    println!(
        "{} values thrown away because the cores moved; kept in {}",
        results.thrown_away,
        path.display()
    );
    Ok(())
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let root = crate::root();
        let mut options = Self {
            groups: GROUPS.to_vec(),
            is_full: false,
            repeat: 3,
            duration: Duration::from_millis(40),
            cores: [0, 1],
            viaduct: root.join("target/release/viaduct"),
            out: root.join("bench/results"),
        };
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
            match name.as_str() {
                "--full" => options.is_full = true,
                "--viaduct" => options.viaduct = value()?.into(),
                "--out" => options.out = value()?.into(),
                "--repeat" => options.repeat = count(&name, &value()?)?,
                "--milliseconds" => {
                    let milliseconds = count(&name, &value()?)?;
                    options.duration = Duration::from_millis(milliseconds as u64);
                }
                "--cores" => options.cores = cores(&value()?)?,
                "--only" => options.groups = groups(&value()?)?,
                _ => return Err(format!("unknown argument `{name}`")),
            }
        }
        Ok(options)
    }
}

fn count(name: &str, text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|count| *count > 0);
    number.ok_or(format!("{name} takes a count from 1, not `{text}`"))
}

fn cores(text: &str) -> Result<[usize; 2], String> {
    let wrong = || format!("--cores takes two different cores such as 0,1, not `{text}`");
    let (first, second) = text.split_once(',').ok_or_else(wrong)?;
    let core = |text: &str| text.parse::<usize>().map_err(|_| wrong());
    let cores = [core(first)?, core(second)?];
    if cores[0] == cores[1] {
        Err(wrong())
    } else {
        Ok(cores)
    }
}

fn groups(text: &str) -> Result<Vec<&'static str>, String> {
    let wanted: Vec<&str> = text.split(',').collect();
    if let Some(unknown) = wanted.iter().find(|word| !GROUPS.contains(word)) {
        return Err(format!(
            "unknown group `{unknown}`; groups: {}",
            GROUPS.join(", ")
        ));
    }
    Ok(GROUPS
        .iter()
        .copied()
        .filter(|group| wanted.contains(group))
        .collect())
}

/// Our own program in C, beside the command; see `peers/viaduct/viaduct.c`.
///
/// # Errors
///
/// One line: what is missing, and how to make it.
pub(crate) fn own_program_in_c(viaduct: &std::path::Path) -> Result<String, String> {
    let build = own_program()?.with_file_name("peers");
    std::fs::create_dir_all(&build).map_err(|error| format!("{}: {error}", build.display()))?;
    contestants::own_program_in_c(&Places {
        viaduct,
        bench: &crate::root().join("bench"),
        build: &build,
        is_full: false,
    })
}

/// Finds and builds who is measured, with a line for each that is not.
fn find(
    options: &Options,
    build: &std::path::Path,
) -> Result<(Vec<Contestant>, Vec<Skipped>), String> {
    let bench = crate::root().join("bench");
    let places = Places {
        viaduct: &options.viaduct,
        bench: &bench,
        build,
        is_full: options.is_full,
    };
    let mut contestants = Vec::new();
    let mut skipped = Vec::new();
    for group in &options.groups {
        let (found, missing) = contestants::find(group, &places)?;
        for Skipped { name, note } in &missing {
            println!("{name}: {note}");
        }
        contestants.extend(found);
        skipped.extend(missing);
    }
    Ok((contestants, skipped))
}

/// The kind of processor, where the system tells it in a file.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or_else(String::new, |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Options, String> {
        Options::read(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn groups_come_in_the_order_of_the_tables() {
        let options = read(&["--only", "sockets,floor", "--cores", "2,5"]).expect("read");
        assert_eq!(options.groups, ["floor", "sockets"]);
        assert_eq!(options.cores, [2, 5]);
    }

    #[test]
    fn wrong_arguments_are_named() {
        assert!(
            read(&["--only", "flor"])
                .unwrap_err()
                .starts_with("unknown group `flor`")
        );
        assert!(
            read(&["--cores", "1,1"])
                .unwrap_err()
                .contains("two different cores")
        );
        assert!(read(&["--repeat", "0"]).unwrap_err().contains("from 1"));
        assert_eq!(read(&["--out"]).unwrap_err(), "--out needs a value");
    }
}
