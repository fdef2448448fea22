//! Requests between two simulated hosts whose adapters have VIs: endpoints over a connection of
//! VIs, as between processes of this machine.

pub(super) mod crowd;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use viaduct_am::{Endpoint, Key, Name};
use viaduct_fit::SimulatedHost;
use viaduct_measure::{
    MeasureError, Prober, RequestState, Requests as _, Stoppable, request_handlers, request_options,
};
use viaduct_programs::{Process, SimulatedFabric, Simulation};
use viaduct_vi_carrier::{Identity, Options, Station};

use super::simulated::{OPENING, RequestProgram, Rested, impossible};
use crate::interrupt::Interrupt;
use crate::simulated::Simulated;

/// Nobody else has a name of these endpoints.
const KEY: Key = Key(1);

/// Of simulated time, after which a server takes it that nobody will ask any more: longer than a
/// program waits for a reply.
const SILENCE: Duration = Duration::from_secs(20);

/// A simulated host's end of virtual networks.
type OnHost = Station<SimulatedFabric>;
type End = Endpoint<OnHost, RequestState>;

/// What the two hosts tell each other outside of the network.
struct Told<T> {
    server: Option<Name>,
    outcome: Option<Result<T, MeasureError>>,
}

/// Runs a program that makes requests on the first host, the last one answering; with each burst
/// so often, if that is said.
///
/// # Errors
///
/// Why the program ended without a result.
pub(super) fn measure<T: Send + 'static>(
    hosts: &Simulated,
    repetitions: Option<u32>,
    interrupt: &Interrupt,
    program: &RequestProgram<T>,
) -> Result<T, MeasureError> {
    // One of each is enough where nothing disturbs them: simulated time does not vary.
    let repetitions = repetitions.or((!hosts.is_disturbed()).then_some(1));
    let mut simulation = Simulation::new(hosts.config().clone());
    let told = Arc::new(Mutex::new(Told {
        server: None,
        outcome: None,
    }));
    let its = Arc::clone(&told);
    simulation.spawn(simulation.hosts() - 1, move |process| {
        let answered = answer(&process, &its);
        if let Err(error) = answered {
            lock(&its).outcome.get_or_insert(Err(error));
        }
    });
    let its = Arc::clone(&told);
    let (program, interrupt) = (Arc::clone(program), interrupt.clone());
    simulation.spawn(0, move |process| {
        let found = ask(process, &its, repetitions, interrupt, &program);
        lock(&its).outcome.get_or_insert(found);
    });
    let ran = simulation.run();
    let outcome = lock(&told).outcome.take();
    match (outcome, ran) {
        (Some(outcome), _) => outcome,
        (None, Err(error)) => Err(impossible(error)),
        (None, Ok(_)) => Err(impossible("the program ended without a result")),
    }
}

/// Answers until the other host has its result.
fn answer<T>(process: &Process, told: &Mutex<Told<T>>) -> Result<(), MeasureError> {
    let mut endpoint = endpoint(&station(process, Options::default())?)?;
    lock(told).server = Some(endpoint.name());
    let mut heard_at = process.now();
    while lock(told).outcome.is_none() && process.now() < heard_at + SILENCE {
        if endpoint.poll() > 0 {
            heard_at = process.now();
        } else {
            process.relax();
        }
    }
    Ok(())
}

/// The part of the host that asks.
fn ask<T>(
    process: Process,
    told: &Mutex<Told<T>>,
    repetitions: Option<u32>,
    interrupt: Interrupt,
    program: &RequestProgram<T>,
) -> Result<T, MeasureError> {
    let mut endpoint = endpoint(&station(&process, Options::default())?)?;
    let server = loop {
        let said = lock(told);
        if let Some(server) = said.server {
            break server;
        }
        if said.outcome.is_some() {
            return Err(impossible("the other host has no endpoint"));
        }
        drop(said);
        process.relax();
    };
    endpoint.map(0, &server, KEY).map_err(impossible)?;
    let host = Stoppable {
        host: SimulatedHost(process),
        stop_reason: || interrupt.stop_reason(),
    };
    let mut requests = Rested {
        host: &host,
        prober: Prober::new(endpoint, &host, repetitions),
    };
    // The connection comes about.
    requests.burst(OPENING)?;
    program(&mut requests)
}

/// A host's station, whose peers are answered beside.
fn station(process: &Process, options: Options) -> Result<OnHost, MeasureError> {
    let identity = Identity::new(u128::from(process.host()) + 1);
    let opened = Station::open(process.fabric(), "sim0", identity, options);
    let (station, acceptor) = opened.map_err(impossible)?;
    process.spawn(move |_| acceptor.run());
    Ok(station)
}

fn endpoint(station: &OnHost) -> Result<End, MeasureError> {
    let (handlers, options) = (request_handlers(), request_options(KEY));
    Endpoint::new(station, &handlers, RequestState::default(), options).map_err(impossible)
}

fn lock<T>(told: &Mutex<T>) -> MutexGuard<'_, T> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}
