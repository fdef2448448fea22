//! Programs that measure CLAN's own network: a ping-pong of the processors, and a stream by DMA.

use std::sync::{Arc, Mutex, PoisonError};

use viaduct_engine::Time;
use viaduct_hardware::Rate;

use super::{Given, Mapped, RemoteWrites};
use crate::config::SimulationConfig;
use crate::executor::{Simulation, SimulationError};
use crate::process::Process;

/// Round trips, of which the first half is not counted.
const ROUNDS: u32 = 40;

/// Requests of a stream.
const REQUESTS: u32 = 40;

/// From a program's write of so many bytes, one at least, into another host's memory to a program's
/// seeing it there: half a round trip of a ping-pong between the first host and the last, polling.
///
/// `None` for an adapter without remote writes.
///
/// # Errors
///
/// [`SimulationError`], as for any program.
pub fn remote_write_latency(
    config: &SimulationConfig,
    bytes: u32,
) -> Result<Option<Time>, SimulationError> {
    let bytes = bytes.max(1);
    let Some(mut pair) = Pair::new(config, bytes) else {
        return Ok(None);
    };
    let end = |own: Given, other: super::Cookie, is_first: bool, times: Times| {
        move |process: Process| {
            let Some(memory) = mapped(&process, other) else {
                return;
            };
            for round in 1..=ROUNDS {
                let message = vec![round as u8; bytes as usize];
                if is_first {
                    note(&times, &process);
                    let _ = memory.write(0, &message);
                }
                own.poll(None, |seen| (seen.last() == message.last()).then_some(()));
                if !is_first {
                    let _ = memory.write(0, &message);
                }
            }
            if is_first {
                note(&times, &process);
            }
        }
    };
    let times: Times = Arc::default();
    let [first, second] = pair.given;
    let cookies = [first.cookie(), second.cookie()];
    let last = pair.last;
    pair.simulation
        .spawn(0, end(first, cookies[1], true, times.clone()));
    pair.simulation
        .spawn(last, end(second, cookies[0], false, times.clone()));
    pair.simulation.run()?;
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    let from = (ROUNDS / 2) as usize;
    let (Some(begin), Some(end)) = (times.get(from), times.last()) else {
        return Ok(None);
    };
    let rounds = u64::from(ROUNDS / 2);
    let span = *end - *begin;
    Ok(Some(Time::from_picoseconds(
        span.picoseconds() / (2 * rounds),
    )))
}

/// The rate of DMA requests of so many bytes, one at least, one after another, as their receiver
/// sees it.
///
/// `None` for an adapter without remote writes.
///
/// # Errors
///
/// [`SimulationError`], as for any program.
pub fn remote_write_rate(
    config: &SimulationConfig,
    bytes: u32,
) -> Result<Option<Rate>, SimulationError> {
    let bytes = bytes.max(1);
    let Some(mut pair) = Pair::new(config, bytes) else {
        return Ok(None);
    };
    let times: Times = Arc::default();
    let seen = times.clone();
    let [_, target] = pair.given;
    let cookie = target.cookie();
    pair.simulation.spawn(0, move |process| {
        let Some(memory) = mapped(&process, cookie) else {
            return;
        };
        for request in 1..=REQUESTS {
            let _ = memory.post_dma(0, &vec![request as u8; bytes as usize]);
            // The engine never waits for the program.
            memory.poll_dma(4, None);
        }
    });
    pair.simulation.spawn(pair.last, move |process| {
        for request in [1, REQUESTS] {
            target.poll(None, |bytes| {
                (bytes.last() == Some(&(request as u8))).then_some(())
            });
            note(&seen, &process);
        }
    });
    pair.simulation.run()?;
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    let [begin, end] = times[..] else {
        return Ok(None);
    };
    let bits = f64::from(bytes) * 8.0 * f64::from(REQUESTS - 1);
    let seconds = (end - begin).seconds_f64();
    Ok(Some(Rate::from_bits_per_second(bits / seconds)))
}

type Times = Arc<Mutex<Vec<Time>>>;

fn note(times: &Times, process: &Process) {
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
    times.push(process.time());
}

fn mapped(process: &Process, cookie: super::Cookie) -> Option<Mapped> {
    process.remote_writes()?.map(cookie).ok()
}

/// Two hosts, the first and the last of a network, each of which gives memory.
struct Pair {
    simulation: Simulation,
    last: u32,
    given: [Given; 2],
}

impl Pair {
    fn new(config: &SimulationConfig, bytes: u32) -> Option<Self> {
        let simulation = Simulation::new(config.clone());
        let last = simulation.hosts() - 1;
        let give = |host| {
            let network: RemoteWrites = simulation.process(host).remote_writes()?;
            Some(network.give(bytes))
        };
        let given = [give(0)?, give(last)?];
        Some(Self {
            simulation,
            last,
            given,
        })
    }
}
