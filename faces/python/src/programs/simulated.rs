//! Runs programs on the hosts of one simulation.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use viaduct_cli::Account;
use viaduct_cluster::result::MessageCounts;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Counts, Simulation, SimulationError};
use viaduct_scenario::{ProgramsError, load_programs};

use super::On;
use super::account::Accounted;
use super::home::{Home, locked};
use super::program::Program;
use super::state::{HostState, Names, Simulated};
use crate::errors;

/// Between two moments at which other threads of Python get a turn and signals are heard.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// How the first program that failed did, which ends the run.
#[derive(Default)]
struct Failure {
    has_failed: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Failure {
    fn set(&self, error: PyErr) {
        let mut first = locked(&self.error);
        first.get_or_insert(error);
        self.has_failed.store(true, Ordering::Relaxed);
    }
}

/// What a program returned, and when it ended in microseconds; `None` if its host died.
type Ended = Option<(Py<PyAny>, f64)>;

/// What every program's end was, the end in microseconds, the events, and the counts by name.
type Ran = (Vec<Ended>, f64, u64, Vec<(&'static str, u64)>);

/// Runs programs, given as (name, host, function); what each returned, the end in microseconds, the
/// events, and the counts by name; and the account of their messages, if it is wanted.
#[pyfunction]
#[pyo3(signature = (model, study, programs, seed, polls, traffic, account))]
#[expect(clippy::too_many_arguments, reason = "what a cluster is made of")]
pub(crate) fn run_simulated(
    py: Python<'_>,
    model: &str,
    study: Option<&str>,
    programs: Vec<(String, u32, Py<PyAny>)>,
    seed: Option<u64>,
    polls: bool,
    traffic: bool,
    account: bool,
) -> PyResult<(Ran, Option<Accounted>)> {
    let setup = Setup::new(py, (model, study), programs, seed, polls, traffic)?;
    let mut simulation = setup.simulation();
    if !account {
        return Ok((setup.run(py, &mut simulation)?, None));
    }
    simulation.keep_account(MESSAGE_ROWS_MAX);
    let started = Instant::now();
    let ran = setup.run(py, &mut simulation)?;
    let account = Account::of(&simulation, started.elapsed().as_secs_f64());
    drop(simulation);
    let name = study.map_or_else(
        || format!("sim:{model}"),
        |study| format!("sim:{model}@{study}"),
    );
    Ok((ran, Some(Accounted::new(name, setup, account)?)))
}

/// Messages that an account has as rows.
const MESSAGE_ROWS_MAX: u32 = 100_000;

/// Programs on hosts, to be run as often as it is asked for.
#[derive(Debug)]
pub(crate) struct Setup {
    config: SimulationConfig,
    programs: Vec<(String, u32, Py<PyAny>)>,
    polls: bool,
}

impl Setup {
    fn new(
        py: Python<'_>,
        (model, study): (&str, Option<&str>),
        programs: Vec<(String, u32, Py<PyAny>)>,
        seed: Option<u64>,
        polls: bool,
        traffic: bool,
    ) -> PyResult<Self> {
        let hosts = programs.iter().map(|(_, host, _)| host + 1).max();
        let hosts = hosts.unwrap_or(0).max(2);
        let loaded = py.detach(|| load_programs(model, study, hosts));
        let mut config = loaded.map_err(|error| match error {
            ProgramsError::Wrong(diagnostics) => errors::scenario(&diagnostics),
            other => errors::scenario_text(other, None),
        })?;
        config.seed = seed.unwrap_or(config.seed);
        if !traffic {
            config.around = None;
        }
        config.check_around().map_err(|error| {
            PyValueError::new_err(format!(
                "{model}@{}: {error}: traffic=False leaves them out",
                study.unwrap_or_default()
            ))
        })?;
        let there = config.host_count();
        if let Some((name, host, _)) = programs.iter().find(|(_, host, _)| *host >= there) {
            return Err(PyValueError::new_err(format!(
                "{name} is to run on host {host}: the network has hosts 0 to {}",
                there - 1
            )));
        }
        Ok(Self {
            config,
            programs,
            polls,
        })
    }

    pub(crate) const fn config(&self) -> &SimulationConfig {
        &self.config
    }

    pub(crate) fn simulation(&self) -> Simulation {
        Simulation::new(self.config.clone())
    }

    /// Runs the programs in a simulation in which nothing has run.
    pub(crate) fn run(&self, py: Python<'_>, simulation: &mut Simulation) -> PyResult<Ran> {
        let home = Home::new();
        let programs = self.programs.iter();
        let programs = programs.map(|(name, host, run)| (name.clone(), *host, run.clone_ref(py)));
        let ran = run(py, simulation, &home, programs.collect(), self.polls);
        home.end();
        ran
    }
}

fn run(
    py: Python<'_>,
    simulation: &mut Simulation,
    home: &Arc<Home>,
    programs: Vec<(String, u32, Py<PyAny>)>,
    polls: bool,
) -> PyResult<Ran> {
    let names = programs.iter().map(|(name, host, _)| (name.clone(), *host));
    let names = Arc::new(Names(names.collect()));
    let failure = Arc::new(Failure::default());
    let mut all = Vec::with_capacity(programs.len());
    for (rank, (_, number, function)) in programs.into_iter().enumerate() {
        let process = simulation.process(number);
        let place = On::Simulated(Simulated::open(process, home)?);
        let host = HostState::new(rank, Arc::clone(&names), place, polls);
        let program = Program::new(host, function);
        start(simulation, number, &program, home, &failure);
        all.push(program);
    }
    let stopped = stop_on_signals(simulation, home, &failure);
    let outcome = simulation.run();
    let counts = simulation.counts();
    let (around, has_around) = (simulation.around(), simulation.has_around());
    let stuck = || {
        let waiting: Vec<String> = all.iter().filter_map(|program| program.words()).collect();
        waiting
    };
    let result = match (locked(&failure.error).take(), stopped.take(), outcome) {
        (Some(error), ..) | (None, Some(error), _) => Err(error),
        (None, None, Ok(outcome)) => {
            let result_of = |program: &Arc<Program>| {
                let result = program.take_result();
                result.map(|(value, at)| (value, at.as_nanos() as f64 / 1e3))
            };
            let results = all.iter().map(result_of).collect();
            let end_us = outcome.end.microseconds_f64();
            let mut counted = counted(&outcome.counts);
            if has_around {
                counted.extend(counted_around(around));
            }
            Ok((results, end_us, outcome.events, counted))
        }
        (None, None, Err(SimulationError::Stuck { at, .. })) => Err(errors::deadlock(
            &stuck(),
            at.microseconds_f64(),
            counts.messages,
        )),
        (None, None, Err(error)) => Err(errors::run(error, None)),
    };
    // Generators end while the simulation is there; what they do then finds no turn.
    for program in &all {
        program.drop_all();
    }
    py.check_signals()?;
    result
}

/// Starts a program as a future of the simulation.
fn start(
    simulation: &Simulation,
    number: u32,
    program: &Arc<Program>,
    home: &Arc<Home>,
    failure: &Arc<Failure>,
) {
    let (program, home, failure) = (Arc::clone(program), Arc::clone(home), Arc::clone(failure));
    simulation.spawn_async(number, move |_| {
        poll_fn(move |context| {
            if failure.has_failed.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            home.clear();
            // The thread that runs the simulation has Python already.
            let polled = Python::attach(|py| program.poll(py, context));
            polled.map(|result| {
                if let Err(error) = result {
                    failure.set(error);
                }
            })
        })
    });
}

/// What a look for signals raised.
#[derive(Clone, Default)]
struct Stopped(Rc<RefCell<Option<PyErr>>>);

impl Stopped {
    fn take(&self) -> Option<PyErr> {
        self.0.borrow_mut().take()
    }
}

/// Ends the run when a program has failed, or on Ctrl-C; lets other threads of Python go on.
fn stop_on_signals(
    simulation: &mut Simulation,
    home: &Arc<Home>,
    failure: &Arc<Failure>,
) -> Stopped {
    let stopped = Stopped::default();
    let (own, home, failure) = (stopped.clone(), Arc::clone(home), Arc::clone(failure));
    let looked = Cell::new(Instant::now());
    simulation.stop_when(move || {
        if failure.has_failed.load(Ordering::Relaxed) {
            return true;
        }
        if looked.get().elapsed() < BETWEEN_LOOKS {
            return false;
        }
        looked.set(Instant::now());
        let heard = home.look(|| {
            Python::attach(|py| {
                py.detach(|| ());
                py.check_signals()
            })
        });
        let Err(error) = heard else { return false };
        *own.0.borrow_mut() = Some(error);
        true
    });
    stopped
}

/// What the study around programs has sent.
fn counted_around(counts: MessageCounts) -> [(&'static str, u64); 4] {
    [
        ("study_posted", counts.posted),
        ("study_delivered", counts.delivered),
        ("study_dropped", counts.dropped),
        ("study_in_flight", counts.in_flight),
    ]
}

fn counted(counts: &Counts) -> Vec<(&'static str, u64)> {
    vec![
        ("messages", counts.messages),
        ("remote_writes", counts.remote_writes),
        ("dma_requests", counts.dma_requests),
        ("wake_ups", counts.wake_ups),
        ("lost", counts.lost),
        ("retransmissions", counts.retransmissions),
        ("corrupted", counts.corrupted),
        ("connections_broken", counts.connections_broken),
        ("transfers", counts.transfers),
    ]
}
