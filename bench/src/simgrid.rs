//! The same networks on SimGrid, where it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Our programs on SimGrid, compiled.
#[derive(Clone, Debug)]
pub(crate) struct SimGrid {
    torus: PathBuf,
    burst: PathBuf,
}

/// What it said of messages that begin together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerBurst {
    pub(crate) wall_s: f64,
    pub(crate) last_us: f64,
}

/// What it said of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerRun {
    pub(crate) messages_per_wall_s: f64,
    pub(crate) wall_s: f64,
    pub(crate) mean_us: f64,
    pub(crate) sd_us: f64,
}

impl SimGrid {
    /// Compiles the programs in `peers/simgrid` of `bench` into `directory`.
    ///
    /// # Errors
    ///
    /// One line: what is missing.
    pub(crate) fn compile(bench: &Path, directory: &Path) -> Result<Self, String> {
        Ok(Self {
            torus: compiled(bench, directory, "torus")?,
            burst: compiled(bench, directory, "burst")?,
        })
    }

    /// Has the messages of a list begin together on a `torus` or at a `switch`.
    pub(crate) fn burst(&self, network: &str, list: &Path) -> Result<PeerBurst, String> {
        let summary = summary(Command::new(&self.burst).arg(network).arg(list))?;
        Ok(PeerBurst {
            wall_s: number(&summary, "/wall_s")?,
            last_us: number(&summary, "/latency_us/max")?,
        })
    }

    /// Runs at `rate` messages per second and host for `seconds` of simulated time.
    pub(crate) fn run(&self, rate: f64, seconds: f64) -> Result<PeerRun, String> {
        let rate_and_span = [rate.to_string(), seconds.to_string()];
        let summary = summary(Command::new(&self.torus).args(rate_and_span))?;
        Ok(PeerRun {
            messages_per_wall_s: number(&summary, "/messages_per_wall_s")?,
            wall_s: number(&summary, "/wall_s")?,
            mean_us: number(&summary, "/latency_us/mean")?,
            sd_us: number(&summary, "/latency_us/sd")?,
        })
    }
}

fn compiled(bench: &Path, directory: &Path, name: &str) -> Result<PathBuf, String> {
    let source = bench.join(format!("peers/simgrid/{name}.cpp"));
    let program = directory.join(format!("simgrid-{name}"));
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let output = Command::new(&compiler)
        .args(["-O2", "-std=c++17"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-lsimgrid")
        .output()
        .map_err(|_| "skipped: no C++ compiler (c++, or CXX)".to_owned())?;
    if output.status.success() {
        return Ok(program);
    }
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    if message.contains("simgrid/s4u.hpp") && message.contains("No such file") {
        return Err("skipped: SimGrid is not installed (Debian: libsimgrid-dev)".to_owned());
    }
    let error = message
        .lines()
        .find(|line| line.contains("error"))
        .unwrap_or_default();
    Err(format!(
        "skipped: {} does not compile: {error}",
        source.display()
    ))
}

/// What one of the programs prints.
fn summary(command: &mut Command) -> Result<Value, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{name} does not run: {error}"))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{name}, {}: {error}", output.status))
}

fn number(summary: &Value, path: &str) -> Result<f64, String> {
    let number = summary.pointer(path).and_then(Value::as_f64);
    number.ok_or_else(|| format!("SimGrid's program says nothing of {path}"))
}
