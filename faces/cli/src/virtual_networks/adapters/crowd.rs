//! Contention between simulated hosts whose adapters have VIs: the last host serves, and each
//! client is a host of its own.
//!
//! The server is one program. Several of a simulated host are not switched between while they have
//! work, so that one of many threads would have all of a busy processor.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use viaduct_am::{Bundle, Name};
use viaduct_fit::SimulatedHost;
use viaduct_measure::{
    ClientCounts, ContentionRow, MeasureError, Prober, Requests as _, ServerKind, Stoppable,
    contend,
};
use viaduct_programs::{Process, Simulation};
use viaduct_vi_carrier::Options;

use super::super::contention::Point;
use super::super::crowd::{Served, row};
use super::super::failure_of;
use super::super::simulated::{OPENING, Rested, impossible};
use super::{End, KEY, endpoint, lock, station};
use crate::failure::Failure;
use crate::inspection::{self, Account};
use crate::interrupt::Interrupt;
use crate::simulated::Simulated;

/// From the last client's being there until all begin, so that each has heard of it.
const NOTICE: Duration = Duration::from_micros(100);

/// Of simulated time, after which the others are taken for gone: longer than a program waits for a
/// reply.
const SILENCE: Duration = Duration::from_secs(20);

/// What the hosts tell each other outside of the network.
#[derive(Default)]
struct Told {
    servers: Vec<Name>,
    /// Clients that have had a reply.
    ready: usize,
    /// When they begin.
    begin: Option<Duration>,
    counts: Vec<ClientCounts>,
    served: Option<Served>,
    error: Option<MeasureError>,
    /// Whoever serves ends. A program says so: nobody else is asked while one looks in a loop and
    /// nothing is under way.
    is_over: bool,
}

impl Told {
    fn fail(&mut self, error: MeasureError) {
        self.error.get_or_insert(error);
        self.is_over = true;
    }

    fn count(&mut self, clients: usize) {
        self.is_over |= self.served.is_some() && self.counts.len() == clients;
    }
}

/// A row; of the links, if they are told of, what they carried from the beginning on.
///
/// # Errors
///
/// What went wrong with it.
pub(in super::super) fn measure(
    hosts: &Simulated,
    point: &Point,
    shows_links: bool,
    interrupt: &Interrupt,
) -> Result<ContentionRow, Failure> {
    let clients = usize::from(point.clients);
    let mut simulation = Simulation::new(hosts.config().clone());
    if shows_links {
        simulation.keep_account(0);
    }
    let told = Arc::new(Mutex::new(Told::default()));
    let (its, served) = (Arc::clone(&told), *point);
    simulation.spawn(simulation.hosts() - 1, move |process| {
        if let Err(error) = serve(&process, &its, &served) {
            lock(&its).fail(error);
        }
    });
    for number in 0..point.clients {
        let (its, asked, interrupt) = (Arc::clone(&told), *point, interrupt.clone());
        simulation.spawn(u32::from(number), move |process| {
            match ask(process, &its, number.into(), &asked, interrupt) {
                Ok(counts) => {
                    let mut told = lock(&its);
                    told.counts.push(counts);
                    told.count(clients);
                }
                Err(error) => lock(&its).fail(error),
            }
        });
    }
    let (its, asked) = (Arc::clone(&told), interrupt.clone());
    simulation.stop_when(move || {
        let mut told = lock(&its);
        told.is_over |= asked.is_asked();
        told.is_over
    });
    let started = Instant::now();
    let ran = simulation.run();
    let (counts, served, error) = {
        let mut told = lock(&told);
        told.is_over = true;
        (
            std::mem::take(&mut told.counts),
            told.served.take(),
            told.error.take(),
        )
    };
    let (Some(served), None) = (served, &error) else {
        let error = error.or(ran.err().map(impossible));
        let error = error.unwrap_or_else(|| impossible("the programs ended without a result"));
        return Err(failure_of(error));
    };
    let mut row = row(point, &counts, &served);
    if shows_links {
        let account = Account::of(&simulation, started.elapsed().as_secs_f64());
        if let Some(violation) = account.violation() {
            return Err(inspection::broken(violation));
        }
        row.links = account.links();
    }
    Ok(row)
}

/// The part of the host that serves: it counts what happens there while the clients count.
fn serve(process: &Process, told: &Arc<Mutex<Told>>, point: &Point) -> Result<(), MeasureError> {
    let options = Options {
        frames: point.frames.into(),
        ..Options::default()
    };
    let clients = usize::from(point.clients);
    let station = station(process, options)?;
    let count = match point.server {
        ServerKind::One => 1,
        ServerKind::St | ServerKind::Mt => clients,
    };
    let servers = (0..count).map(|_| endpoint(&station));
    let servers: Vec<End> = servers.collect::<Result<_, _>>()?;
    let names = servers.iter().map(End::name).collect();
    match point.server {
        ServerKind::St => {
            let mut bundle = Bundle::new(&station);
            for server in servers {
                bundle.insert(server);
            }
            let its = Arc::clone(told);
            process.spawn(move |process| {
                while !lock(&its).is_over {
                    if bundle.poll(64) == 0 {
                        process.relax();
                    }
                }
            });
        }
        ServerKind::One | ServerKind::Mt => {
            for mut server in servers {
                let its = Arc::clone(told);
                process.spawn(move |process| {
                    while !lock(&its).is_over {
                        if server.poll() == 0 {
                            process.relax();
                        }
                    }
                });
            }
        }
    }
    lock(told).servers = names;
    wait_for(process, told, |told| (told.ready == clients).then_some(()))?;
    let begin = process.now() + NOTICE;
    lock(told).begin = Some(begin);
    let sleep_until = |time: Duration| process.sleep(time.saturating_sub(process.now()));
    sleep_until(begin + point.warm_up());
    let (before, since) = (station.statistics(), process.now());
    sleep_until(since + point.window);
    let (after, until) = (station.statistics(), process.now());
    let mut told = lock(told);
    told.served = Some(Served {
        connections_made: after.connections_made - before.connections_made,
        found_full: after.found_full - before.found_full,
        window: until - since,
    });
    told.count(clients);
    Ok(())
}

/// The part of a host that asks.
fn ask(
    process: Process,
    told: &Mutex<Told>,
    number: usize,
    point: &Point,
    interrupt: Interrupt,
) -> Result<ClientCounts, MeasureError> {
    let station = station(&process, Options::default())?;
    let mut endpoint = endpoint(&station)?;
    let server = wait_for(&process, told, |told| {
        told.servers
            .get(number % told.servers.len().max(1))
            .copied()
    })?;
    endpoint.map(0, &server, KEY).map_err(impossible)?;
    let host = Stoppable {
        host: SimulatedHost(process.clone()),
        stop_reason: || interrupt.stop_reason(),
    };
    let mut opening = Rested {
        host: &host,
        prober: Prober::new(endpoint, &host, Some(1)),
    };
    // The connection comes about.
    opening.burst(OPENING)?;
    let mut endpoint = opening.prober.into_endpoint();
    lock(told).ready += 1;
    let begin = wait_for(&process, told, |told| told.begin)?;
    process.sleep(begin.saturating_sub(process.now()));
    let (warm_up, window) = (point.warm_up(), point.window);
    // It has its processor for itself, and never sleeps.
    contend(&mut endpoint, &host, point.bytes, warm_up, window, u32::MAX)
}

/// What another host tells, when it does.
fn wait_for<T>(
    process: &Process,
    told: &Mutex<Told>,
    look: impl Fn(&Told) -> Option<T>,
) -> Result<T, MeasureError> {
    let end = process.now() + SILENCE;
    loop {
        let (said, is_over) = {
            let told = lock(told);
            (look(&told), told.is_over)
        };
        if let Some(said) = said {
            return Ok(said);
        }
        if is_over || process.now() > end {
            return Err(impossible("a host has not answered for 20 s"));
        }
        process.relax();
    }
}
