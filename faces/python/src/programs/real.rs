//! Runs one program in this process, over shared memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use viaduct_provider::Nic;
use viaduct_shm::Shm;

use super::On;
use super::program::Program;
use super::state::{HostState, Names, Real, quiet_about_ends};
use crate::errors;

/// Runs the program of the host of this rank; what it returned, and the time in microseconds since
/// the run began, which was `elapsed_s` ago. After `limit_s` of the run it fails.
#[pyfunction]
#[pyo3(signature = (run, rank, names, function, elapsed_s, limit_s, polls))]
#[expect(clippy::too_many_arguments, reason = "one call of Python's side")]
pub(crate) fn run_here(
    py: Python<'_>,
    run: u64,
    rank: usize,
    names: Vec<String>,
    function: Py<PyAny>,
    elapsed_s: f64,
    limit_s: f64,
    polls: bool,
) -> PyResult<(Py<PyAny>, f64)> {
    let elapsed = Duration::try_from_secs_f64(elapsed_s).unwrap_or_default();
    let limit = Duration::try_from_secs_f64(limit_s).unwrap_or(Duration::MAX);
    let now = Instant::now();
    let nic = Nic::open(Shm::global(), "shm").map_err(errors::refused)?;
    let told = Some(quiet_about_ends());
    nic.set_error_handler(told).map_err(errors::refused)?;
    let place = Real {
        nic,
        started: now.checked_sub(elapsed).unwrap_or(now),
        run,
    };
    let names = names.into_iter().zip(0_u32..).collect();
    let host = HostState::new(rank, Arc::new(Names(names)), On::Real(place), polls);
    let program = Program::new(Arc::clone(&host), function);
    let result = program.run(py, |py, waiting| {
        py.check_signals()?;
        if host.now() < limit {
            return Ok(());
        }
        let words = format!("{} {}", host.name, waiting.words());
        Err(errors::patience(limit, &words))
    });
    match result {
        Ok(value) => {
            let ended_us = host.now().as_nanos() as f64 / 1e3;
            program.finish(py, limit.saturating_sub(host.now()));
            Ok((value, ended_us))
        }
        Err(error) => {
            program.drop_all();
            Err(error)
        }
    }
}
