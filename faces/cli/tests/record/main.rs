//! What must stay: `record.txt` says of each of its commands the seed and digests of what came out.
//!
//! `VIADUCT_RECORD` has a word for each other use: `full` also runs what takes longer than a test
//! may, `accept` writes what comes out into the file in place of comparing it. `VIADUCT_COMMAND` is
//! the command to run, if not that of this build: a build with optimisation gives the same.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;

/// Behind this line stand commands that take longer than a test may.
const FULL: &str = "[full]";

/// Parts of a document that say nothing about a result: of what program it is, and what was asked
/// for.
const OF_THE_PROGRAM: [&str; 2] = ["version", "network_level"];

/// Members that say how long each stage of a message took.
const STAGES: [&str; 2] = ["breakdown_us", "stages_us"];

/// Between a command and what came out.
const ARROW: &str = " -> ";

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record")
}

/// Words of a command, as a shell would take them apart: apostrophes hold words together.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, part) in command.split('\'').enumerate() {
        if place % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// A hash of 64 bits (FNV-1a).
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The values of a document, each on a line with its place.
#[derive(Default)]
struct Values {
    figures: String,
    stages: String,
}

impl Values {
    fn collect(&mut self, value: &Value, place: &str, is_stage: bool) {
        match value {
            Value::Object(members) => {
                // In an order of its own, whatever order the document has.
                let members: BTreeMap<_, _> = members.iter().collect();
                for (name, member) in members {
                    let is_stage = is_stage || STAGES.contains(&name.as_str());
                    if !OF_THE_PROGRAM.contains(&name.as_str()) {
                        self.collect(member, &format!("{place}.{name}"), is_stage);
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.collect(item, &format!("{place}.{index}"), is_stage);
                }
            }
            // A stage that takes no time is not on the message's way.
            _ if is_stage && value.as_f64() == Some(0.0) => {}
            _ if is_stage => writeln!(self.stages, "{place} {value}").unwrap(),
            _ => writeln!(self.figures, "{place} {value}").unwrap(),
        }
    }
}

/// What came out of a command: its exit code where that is not 0, and digests.
fn outcome(viaduct: &Path, command: &str) -> String {
    let output = Command::new(viaduct)
        .args(words(command))
        .arg("--json")
        .current_dir(folder())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut outcome = match output.status.code() {
        Some(0) => String::new(),
        Some(code) => format!("exit {code} "),
        None => "killed ".to_owned(),
    };
    let Ok(document) = serde_json::from_slice::<Value>(&output.stdout) else {
        let error = String::from_utf8_lossy(&output.stderr);
        return format!(
            "{outcome}no document: {}",
            error.lines().next().unwrap_or("")
        );
    };
    let mut values = Values::default();
    values.collect(&document, "", false);
    // Runs have a digest over every message; of a sweep, one over its runs. They also say how long
    // they took, which differs.
    let _ = match document["digest"].as_str() {
        Some(digest) if command.starts_with("run ") => write!(outcome, "digest {digest}"),
        _ => write!(outcome, "figures {:016x}", hash(&values.figures)),
    };
    if !values.stages.is_empty() {
        let _ = write!(outcome, " stages {:016x}", hash(&values.stages));
    }
    outcome
}

fn outcomes(viaduct: &Path, commands: &[&str]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*command, outcome(viaduct, command)));
        }
        done
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let found: BTreeMap<&str, String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(|worker| worker.join().unwrap());
        done.flatten().collect()
    });
    commands
        .iter()
        .map(|command| found[command].clone())
        .collect()
}

/// The command of a line, if it has one, and what it is recorded to give.
fn parts(line: &str) -> Option<(&str, &str)> {
    let is_said = line.is_empty() || line.starts_with('#') || line == FULL;
    (!is_said).then(|| line.split_once(ARROW).unwrap_or((line, "nothing")))
}

#[test]
fn every_run_gives_what_is_recorded() {
    let use_of = variable("VIADUCT_RECORD").unwrap_or_default();
    let has = |word| use_of.split(',').any(|used| used == word);
    let own = PathBuf::from(env!("CARGO_BIN_EXE_viaduct"));
    let viaduct = variable("VIADUCT_COMMAND").map_or(own, |path| fs::canonicalize(path).unwrap());
    let file = folder().join("record.txt");
    let record = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = record.lines().collect();
    let full = lines.iter().position(|line| *line == FULL).unwrap();
    let end = if has("full") { lines.len() } else { full };
    let recorded: Vec<(&str, &str)> = lines[..end].iter().copied().filter_map(parts).collect();
    let commands: Vec<&str> = recorded.iter().map(|(command, _)| *command).collect();
    let found = outcomes(&viaduct, &commands);
    if has("accept") {
        let mut found = commands.iter().zip(&found);
        let mut text = String::new();
        for (place, line) in lines.iter().enumerate() {
            match parts(line)
                .filter(|_| place < end)
                .and_then(|_| found.next())
            {
                Some((command, outcome)) => writeln!(text, "{command}{ARROW}{outcome}").unwrap(),
                None => writeln!(text, "{line}").unwrap(),
            }
        }
        fs::write(&file, text).unwrap();
        return;
    }
    let mut differences = String::new();
    for ((command, was), is) in recorded.iter().zip(&found) {
        if was != is {
            writeln!(differences, "viaduct {command}\n  was {was}\n  is  {is}").unwrap();
        }
    }
    assert!(
        differences.is_empty(),
        "these no longer give what faces/cli/tests/record/record.txt says:\n{differences}\
         If that is meant, say in CHANGELOG.md what was and what is, and accept it: \
         make accept-record"
    );
}

#[test]
fn a_command_stands_in_the_record_once() {
    let record = fs::read_to_string(folder().join("record.txt")).unwrap();
    let mut commands: Vec<&str> = record.lines().filter_map(parts).map(|(it, _)| it).collect();
    let count = commands.len();
    commands.sort_unstable();
    commands.dedup();
    assert_eq!(commands.len(), count);
}

/// Every study, preset and test of `measure` that ships is in the record.
#[test]
fn nothing_that_ships_is_missing_in_the_record() {
    let record = fs::read_to_string(folder().join("record.txt")).unwrap();
    let commands: Vec<Vec<String>> = record
        .lines()
        .filter_map(parts)
        .map(|(command, _)| words(command))
        .collect();
    let has = |wanted: [&str; 2], on: Option<&str>| {
        commands.iter().any(|words| {
            words[..2] == wanted && on.is_none_or(|on| words.iter().any(|word| word == on))
        })
    };
    for (study, ..) in viaduct_scenario::list_studies() {
        assert!(has(["run", study], None), "run {study}");
    }
    for preset in viaduct_scenario::list_models() {
        let on = format!("sim:{}", preset.name);
        // Interfaces with endpoint frames have tests of their own.
        let tests: &[&str] = match preset.name.as_str() {
            "am-myrinet" => &["logp", "bulk", "contention", "timesharing"],
            "gam-myrinet" => &["logp", "bulk"],
            _ => &["latency", "bandwidth", "rate", "cq"],
        };
        for test in tests {
            assert!(
                has(["measure", test], Some(&on)),
                "measure {test} --on {on}"
            );
        }
    }
}
