//! Runs the viaduct command and reads its summary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

/// The command under measurement.
#[derive(Clone, Debug)]
pub(crate) struct Viaduct {
    path: PathBuf,
}

/// One run: its summary, and the time from start to end of the process.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) process_s: f64,
    summary: Value,
}

impl Viaduct {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// The program.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a study, or a file, with `settings`, each `key=value`.
    ///
    /// # Errors
    ///
    /// One line: what the command said when it failed, or what its summary lacks.
    pub(crate) fn run(&self, study: &str, settings: &[&str]) -> Result<Run, String> {
        let mut command = Command::new(&self.path);
        command.args(["run", study, "--no-out", "--json", "--quiet"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        self.ended(command)
    }

    /// Has the command simulate clients that contend for one server: the whole figure, with rows of
    /// so many seconds.
    pub(crate) fn contention(&self, seconds: f64) -> Result<Run, String> {
        let mut command = Command::new(&self.path);
        command.args(["measure", "contention", "--on", "sim:am-myrinet", "--json"]);
        command.args(["--clients", "1..24", "--seconds", &seconds.to_string()]);
        self.ended(command)
    }

    fn ended(&self, mut command: Command) -> Result<Run, String> {
        let begin = Instant::now();
        let output = command
            .output()
            .map_err(|error| format!("{} does not run: {error}", self.path.display()))?;
        let process_s = begin.elapsed().as_secs_f64();
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            let first = message.lines().next().unwrap_or_default();
            return Err(format!("failed, {}: {first}", output.status));
        }
        let summary = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("its summary is not JSON: {error}"))?;
        Ok(Run { process_s, summary })
    }
}

impl Run {
    /// A number of the summary, `/` between the names of nested objects.
    ///
    /// # Errors
    ///
    /// When the summary has no such number.
    pub(crate) fn number(&self, path: &str) -> Result<f64, String> {
        self.summary
            .pointer(&format!("/{path}"))
            .and_then(Value::as_f64)
            .ok_or_else(|| format!("the summary has no number at {path}"))
    }
}

/// Processor time of this process's children that have ended, seconds.
pub(crate) fn children_s() -> Result<f64, String> {
    let stat = std::fs::read_to_string("/proc/self/stat");
    let stat = stat.map_err(|_| "the system does not tell the time of a process".to_owned())?;
    // After the name in brackets, which may hold anything: state is field 3, cutime 16, cstime 17.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: Option<Vec<f64>> = fields
        .split_whitespace()
        .skip(13)
        .take(2)
        .map(|field| field.parse().ok())
        .collect();
    let ticks = ticks.filter(|ticks| ticks.len() == 2);
    let ticks = ticks.ok_or("this is no /proc/self/stat that we know")?;
    let a_second = rustix::param::clock_ticks_per_second() as f64;
    Ok((ticks[0] + ticks[1]) / a_second)
}
