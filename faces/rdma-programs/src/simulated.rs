//! Programs on simulated hosts, by a table of their own: each run twice, with equal figures, beside
//! what `viaduct measure` has of the same hosts.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::is_installed;
use crate::process::Process;

/// The file of `simulated.toml`, which says what its keys mean.
const TABLE: &str = include_str!("../simulated.toml");

/// What the hosts are of rows that say nothing else.
const HOSTS: &str = "sim:rnic-gen5";

/// The study of hosts that have several adapters, and its file in the folder of a run.
const STUDY: (&str, &str) = ("two-rails.toml", include_str!("../two-rails.toml"));

/// How long a run may take: some read the clock millions of times.
const LIMIT: Duration = Duration::from_secs(240);

/// Of the options of a row, so many are run when there is little time.
const SHORT: usize = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    on: Option<String>,
    command: String,
    client: Option<String>,
    ranks: Option<u32>,
    #[serde(default)]
    environment: Vec<String>,
    #[serde(default)]
    each: Vec<String>,
    #[serde(default)]
    figures: Vec<String>,
    beside: Option<Beside>,
    like: Option<Like>,
    #[serde(default)]
    is_long: bool,
    package: Option<String>,
    input: Option<String>,
    output: Option<String>,
}

/// A word of the commands, and what stands in its place in others, whose figures are the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Like {
    word: String,
    other: String,
}

/// What `viaduct measure` has of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beside {
    test: String,
    ours: usize,
    theirs: usize,
    #[serde(default = "one")]
    scale: f64,
    #[serde(default)]
    within: f64,
    #[serde(default)]
    share: f64,
}

const fn one() -> f64 {
    1.0
}

/// The run directory of a row's first run.
const LEFT: &str = "left";

/// One program with its options.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    on: String,
    command: String,
    /// What host 1 runs; none: the command starts programs on all hosts.
    client: Option<String>,
    ranks: Option<u32>,
    environment: Vec<String>,
    /// Bytes of what is measured, where it is compared.
    bytes: String,
    figures: Vec<String>,
    beside: Option<Beside>,
    like: Option<Like>,
    is_short: bool,
    /// The package of Debian that has the program, which may not be there.
    package: Option<String>,
    /// The file that the program reads, and the one that it writes its figures to.
    input: Option<String>,
    output: Option<String>,
}

impl Row {
    /// What it is called.
    pub(crate) fn name(&self) -> String {
        format!("{}: {}", self.on, self.command)
    }

    /// The package that the row needs, if no folder of programs has one of its name.
    pub(crate) fn lacks(&self) -> Option<&str> {
        let package = self.package.as_deref()?;
        (!is_installed(package)).then_some(package)
    }

    /// Whether it is among those that are run when there is little time.
    pub(crate) const fn is_short(&self) -> bool {
        self.is_short
    }
}

/// All rows.
///
/// # Errors
///
/// What is wrong with the table.
pub(crate) fn all() -> Result<Vec<Row>, String> {
    let file: File = toml::from_str(TABLE).map_err(|error| format!("simulated.toml: {error}"))?;
    let mut rows = Vec::new();
    for written in file.row {
        let each = match written.each.is_empty() {
            true => vec![String::new()],
            false => written.each,
        };
        for (place, option) in each.into_iter().enumerate() {
            let on = written
                .on
                .as_deref()
                .unwrap_or(HOSTS)
                .replace("{}", &option);
            let command = written.command.replace("{}", &option);
            let client = match (&written.client, written.ranks) {
                (Some(client), _) => Some(client.replace("{}", &option)),
                (None, Some(_)) => None,
                (None, None) => Some(format!("{command} host0")),
            };
            rows.push(Row {
                on,
                command,
                client,
                ranks: written.ranks,
                environment: written.environment.clone(),
                bytes: option,
                figures: written.figures.clone(),
                beside: written.beside.clone(),
                like: written.like.clone(),
                is_short: place < SHORT && written.package.is_none() && !written.is_long,
                package: written.package.clone(),
                input: written.input.clone(),
                output: written.output.clone(),
            });
        }
    }
    Ok(rows)
}

/// Runs a row: what is not as it should be.
///
/// # Errors
///
/// What the system says when a program cannot be started.
pub(crate) fn run(
    row: &Row,
    viaduct: &Path,
    programs: &Path,
    scratch: &Path,
) -> io::Result<Vec<String>> {
    let words = |text: &str| -> Vec<String> {
        let programs = programs.display().to_string();
        let words = text.split(' ');
        words
            .map(|word| word.replace("{programs}", &programs))
            .collect()
    };
    fs::write(scratch.join(STUDY.0), STUDY.1)?;
    let mut figures: Vec<Vec<String>> = Vec::new();
    let ordered = |changed: &dyn Fn(&str) -> String| {
        let mut first = Command::new(viaduct);
        first.args(["rdma", "--on", &row.on, "--out", LEFT, "--force"]);
        if let Some(ranks) = row.ranks {
            first.args(["--hosts", &ranks.to_string()]);
        }
        first.arg("--").args(words(&changed(&row.command)));
        if let Some(client) = &row.client {
            first.arg(":").args(words(&changed(client)));
        }
        first
    };
    // The second compares digests, too.
    let mut again = Command::new(viaduct);
    again.args(["rerun", LEFT]);
    let mut commands = vec![ordered(&str::to_owned), again];
    if let Some(Like { word, other }) = &row.like {
        commands.push(ordered(&|text| text.replace(word, other)));
    }
    for mut command in commands {
        for variable in &row.environment {
            if let Some((name, value)) = variable.split_once('=') {
                command.env(name, value);
            }
        }
        if let Some(input) = &row.input {
            fs::copy(programs.join(input), scratch.join(input))?;
        }
        let output = row.output.as_ref().map(|name| scratch.join(name));
        if let Some(output) = output.as_ref().filter(|output| output.exists()) {
            fs::remove_file(output)?;
        }
        let (has_ended_well, mut printed) = printed(command, scratch)?;
        if !has_ended_well {
            return Ok(vec![format!("it does not end well:\n{printed}")]);
        }
        if let Some(output) = &output {
            printed += &fs::read_to_string(output)?;
        }
        figures.push(figures_of(row, &printed));
    }
    let mut faults = Vec::new();
    // Beside the time at its end.
    if figures[0].len() <= usize::from(!row.figures.is_empty()) {
        faults.push("it prints no figures".to_owned());
    }
    if figures[0] != figures[1] {
        faults.push(format!(
            "two runs differ: {:?}, {:?}",
            figures[0], figures[1]
        ));
    }
    if let Some(other) = figures.get(2) {
        // What a run used has other names, and so another digest.
        let shown = |figures: &[String]| -> Vec<String> {
            let is_shown = |line: &&String| !line.starts_with(&row.on);
            figures.iter().filter(is_shown).cloned().collect()
        };
        let (own, other) = (shown(&figures[0]), shown(other));
        if own != other {
            faults.push(format!("others are not alike: {own:?}, {other:?}"));
        }
    }
    if let Some(beside) = &row.beside {
        let mut lines = figures[0].iter();
        let theirs = match row.ranks {
            Some(_) => lines.find(|line| !line.starts_with(&row.on)),
            None => lines.find(|line| line.starts_with("host1:")),
        };
        let theirs = theirs.and_then(|line| column(unlabelled(line), beside.theirs));
        let mut command = Command::new(viaduct);
        command.args([
            "measure",
            &beside.test,
            "--on",
            &row.on,
            "--sizes",
            &row.bytes,
        ]);
        let (_, measured) = printed(command, scratch)?;
        let mut lines = measured.lines();
        let ours = lines.find(|line| line.split_whitespace().next() == Some(&row.bytes));
        let ours = ours.and_then(|line| column(line, beside.ours));
        match (theirs, ours) {
            (Some(theirs), Some(ours)) => faults.extend(compare(beside, theirs, ours)),
            _ => faults.push(format!(
                "there is nothing to compare: {figures:?}\n{measured}"
            )),
        }
    }
    Ok(faults)
}

/// Runs a command: whether it ended well in time, and what it printed.
fn printed(mut command: Command, scratch: &Path) -> io::Result<(bool, String)> {
    command.env("LC_ALL", "C").current_dir(scratch);
    let mut process = Process::start(command, &scratch.join("simulated"))?;
    let status = process.wait(Instant::now() + LIMIT)?;
    process.kill();
    let has_ended_well = status.is_some_and(|status| status.success());
    Ok((has_ended_well, process.printed()))
}

/// Lines with figures, in the order of hosts: which host's comes first is the system's affair. The
/// time at which the run ended is one for each row.
fn figures_of(row: &Row, printed: &str) -> Vec<String> {
    let is_figure = |line: &&str| {
        let has = |word: &String| line.contains(word.as_str());
        (line.starts_with("host") || row.ranks.is_some()) && row.figures.iter().any(has)
            || line.starts_with(&row.on) && line.contains("us of simulated time")
    };
    let mut lines: Vec<String> = printed
        .lines()
        .filter(is_figure)
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

/// A line without the name of the host in front, if it has one.
fn unlabelled(line: &str) -> &str {
    let (label, rest) = line.split_once(": ").unwrap_or_default();
    if label.starts_with("host") {
        rest
    } else {
        line
    }
}

fn column(line: &str, place: usize) -> Option<f64> {
    line.split_whitespace().nth(place)?.parse().ok()
}

fn compare(beside: &Beside, theirs: f64, ours: f64) -> Option<String> {
    let theirs = theirs * beside.scale;
    // Their figures have two digits behind the point, and are rounded.
    let within = (ours * beside.share).max(beside.within);
    let is_near = (theirs - ours).abs() <= within;
    (!is_near).then(|| {
        let test = &beside.test;
        format!("it prints {theirs}, and `viaduct measure {test}` {ours}: not within {within}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_from_other_lines_and_compared() {
        let rows = all().unwrap();
        let row = rows.iter().find(|row| row.bytes == "4096").unwrap();
        let printed = "host1:  4096    1000   1.60  1.64  1.62  1.63\nhost0: 1000 others\nsim: 1000 \n\
             sim:rnic-gen5: 5.000 us of simulated time, 2 messages, digest 0123\n";
        let figures = figures_of(row, printed);
        assert_eq!(figures.len(), 3);
        assert_eq!(column(&figures[1], 5), Some(1.62));
        let beside = row.beside.as_ref().unwrap();
        assert!(compare(beside, 1.62, 1.628).is_none());
        assert!(compare(beside, 1.60, 1.628).is_some());
    }

    #[test]
    fn what_is_compared_has_bytes_and_a_bound() {
        for row in all().unwrap() {
            if let Some(like) = &row.like {
                assert!(
                    row.client.iter().any(|it| it.contains(&like.word)),
                    "{}",
                    row.command
                );
            }
            if let Some(beside) = &row.beside {
                assert!(row.bytes.parse::<u32>().is_ok(), "{}", row.command);
                assert!(beside.within > 0.0 || beside.share > 0.0, "{}", row.command);
            }
        }
    }
}
