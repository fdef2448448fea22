//! The same torus on SimGrid, where it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Our program on SimGrid, compiled.
#[derive(Clone, Debug)]
pub(crate) struct SimGrid {
    program: PathBuf,
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
    /// Compiles `peers/simgrid/torus.cpp` of `bench` into `directory`.
    ///
    /// # Errors
    ///
    /// One line: what is missing.
    pub(crate) fn compile(bench: &Path, directory: &Path) -> Result<Self, String> {
        let source = bench.join("peers/simgrid/torus.cpp");
        let program = directory.join("simgrid-torus");
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
            return Ok(Self { program });
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

    /// Runs at `rate` messages a second a host for `seconds` of simulated time.
    pub(crate) fn run(&self, rate: f64, seconds: f64) -> Result<PeerRun, String> {
        let output = Command::new(&self.program)
            .args([rate.to_string(), seconds.to_string()])
            .output()
            .map_err(|error| format!("simgrid-torus does not run: {error}"))?;
        let summary: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("simgrid-torus, {}: {error}", output.status))?;
        let number = |path: &str| {
            summary
                .pointer(path)
                .and_then(Value::as_f64)
                .ok_or_else(|| format!("simgrid-torus says nothing of {path}"))
        };
        Ok(PeerRun {
            messages_per_wall_s: number("/messages_per_wall_s")?,
            wall_s: number("/wall_s")?,
            mean_us: number("/latency_us/mean")?,
            sd_us: number("/latency_us/sd")?,
        })
    }
}
