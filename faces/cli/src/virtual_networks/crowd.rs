//! Contention between real processes: this process serves, each client is another process of this
//! program.

use std::io::{self, BufRead};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use viaduct_am::{Bundle, EventMask, Name};
use viaduct_measure::{
    Burst, ClientCounts, ContentionRow, LatencySummary, Machine, Prober, Requests, SMALL_BYTES,
    ServerKind, contend,
};
use viaduct_shm::Shm;
use viaduct_statistics::LogHistogram;
use viaduct_vi_carrier::{Station, Statistics};

use super::contention::Point;
use super::failure_of;
use super::real::{End, Other, end_with_starter, endpoint, map, station};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output;

/// What a client's process is told.
#[derive(Args, Debug)]
pub(crate) struct ClientArguments {
    #[arg(long)]
    server: Name,
    #[arg(long)]
    bytes: u32,
    #[arg(long)]
    warm_up_us: u64,
    #[arg(long)]
    window_us: u64,
    #[arg(long)]
    looks: u32,
}

/// Is a client: says `ready` once it has had a reply, waits for a line, then what it counted.
pub(crate) fn be_client(arguments: &ClientArguments) -> Result<Exit, Failure> {
    let station = station(8)?;
    let mut first = endpoint(&station)?;
    map(&mut first, &arguments.server)?;
    let machine = Machine::new(None);
    let mut prober = Prober::new(first, &machine, Some(1));
    let burst = Burst {
        requests: 1,
        bytes: SMALL_BYTES,
        delay_ns: 0,
        is_echoed: false,
    };
    prober.burst(burst).map_err(failure_of)?;
    let mut endpoint = prober.into_endpoint();
    output::result("ready\n")?;
    let mut line = String::new();
    if !io::stdin()
        .lock()
        .read_line(&mut line)
        .is_ok_and(|bytes| bytes > 0)
    {
        return Ok(Exit::Fine);
    }
    end_with_starter();
    let counts = contend(
        &mut endpoint,
        &machine,
        arguments.bytes,
        Duration::from_micros(arguments.warm_up_us),
        Duration::from_micros(arguments.window_us),
        arguments.looks,
    )
    .map_err(failure_of)?;
    // Numbers: nothing in it can fail to be written.
    let json = serde_json::to_string(&counts).unwrap_or_default();
    output::result(&format!("{json}\n"))?;
    Ok(Exit::Fine)
}

/// Serves clients and has them counted.
///
/// # Errors
///
/// When a client fails.
pub(super) fn measure(point: &Point, interrupt: &Interrupt) -> Result<ContentionRow, Failure> {
    let station = station(u32::from(point.frames))?;
    let count = match point.server {
        ServerKind::One => 1,
        ServerKind::St | ServerKind::Mt => usize::from(point.clients),
    };
    let endpoints: Vec<End> = (0..count)
        .map(|_| endpoint(&station))
        .collect::<Result<_, _>>()?;
    let names: Vec<Name> = endpoints.iter().map(End::name).collect();
    let looks = looks_before_sleep(point);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        match point.server {
            ServerKind::One | ServerKind::Mt => {
                for endpoint in endpoints {
                    scope.spawn(|| serve(endpoint, looks, &is_over));
                }
            }
            ServerKind::St => {
                let bundle = (&station, endpoints);
                scope.spawn(|| serve_bundle(bundle.0, bundle.1, looks, &is_over));
            }
        }
        let counted = count_clients(point, &names, &station, looks, interrupt);
        is_over.store(true, Ordering::Relaxed);
        counted
    })
}

/// How long a server sleeps before it looks whether it is over.
const NAP: Duration = Duration::from_millis(20);

/// Looks in vain before somebody sleeps: some where everybody has a core, else none.
fn looks_before_sleep(point: &Point) -> u32 {
    const LOOKS: u32 = 10_000;

    let servers = match point.server {
        ServerKind::One | ServerKind::St => 1,
        ServerKind::Mt => usize::from(point.clients),
    };
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    if usize::from(point.clients) + servers <= cores {
        LOOKS
    } else {
        0
    }
}

fn serve(mut endpoint: End, looks: u32, is_over: &AtomicBool) {
    let mut looked = 0;
    // Relaxed: the flag guards no other memory.
    while !is_over.load(Ordering::Relaxed) {
        if endpoint.poll() > 0 {
            looked = 0;
        } else if looked < looks {
            looked += 1;
        } else {
            let _ = endpoint.wait(EventMask::MESSAGE, Some(NAP));
        }
    }
}

fn serve_bundle(station: &Station<Shm>, endpoints: Vec<End>, looks: u32, is_over: &AtomicBool) {
    let mut looked = 0;
    let mut bundle = Bundle::new(station);
    for endpoint in endpoints {
        bundle.insert(endpoint);
    }
    while !is_over.load(Ordering::Relaxed) {
        if bundle.poll(64) > 0 {
            looked = 0;
        } else if looked < looks {
            looked += 1;
        } else {
            let _ = bundle.wait(Some(NAP));
        }
    }
}

fn count_clients(
    point: &Point,
    names: &[Name],
    station: &Station<Shm>,
    looks: u32,
    interrupt: &Interrupt,
) -> Result<ContentionRow, Failure> {
    let mut clients = Vec::new();
    for client in 0..usize::from(point.clients) {
        clients.push(Other::start(&[
            "request-client".to_owned(),
            format!("--server={}", names[client % names.len()]),
            format!("--bytes={}", point.bytes),
            format!("--warm-up-us={}", point.warm_up().as_micros()),
            format!("--window-us={}", point.window.as_micros()),
            format!("--looks={looks}"),
        ])?);
    }
    for client in &mut clients {
        client.line()?;
    }
    for client in &mut clients {
        client.say("go\n")?;
    }
    rest(point.warm_up(), interrupt);
    let (before, since) = (station.statistics(), Instant::now());
    rest(point.window, interrupt);
    let (after, window) = (station.statistics(), since.elapsed());
    if interrupt.is_asked() {
        return Err(Failure::plain("stopped by Ctrl-C"));
    }
    let mut counts: Vec<ClientCounts> = Vec::new();
    for client in &mut clients {
        let line = client.line()?;
        let its = serde_json::from_str(&line).map_err(|error| {
            Failure::plain(format!("a client said `{line}` and no counts: {error}"))
        })?;
        counts.push(its);
    }
    Ok(row(point, &counts, (before, after), window))
}

/// Lets time pass, until Ctrl-C.
fn rest(span: Duration, interrupt: &Interrupt) {
    let start = Instant::now();
    while let Some(left) = span.checked_sub(start.elapsed())
        && !interrupt.is_asked()
    {
        thread::sleep(left.min(NAP));
    }
}

fn row(
    point: &Point,
    counts: &[ClientCounts],
    (before, after): (Statistics, Statistics),
    window: Duration,
) -> ContentionRow {
    let mut latencies_ns = LogHistogram::default();
    for its in counts {
        for (bin, count) in &its.latency_bins {
            latencies_ns.add(*bin, *count);
        }
    }
    let each = || counts.iter().map(ClientCounts::messages_s);
    let messages_s: f64 = each().sum();
    let a_second = |count: u64| count as f64 / window.as_secs_f64();
    ContentionRow {
        server: point.server,
        frames: u32::from(point.frames),
        bytes: point.bytes,
        clients: u32::from(point.clients),
        messages_s,
        mbyte_s: messages_s * f64::from(point.bytes) / 1e6,
        client_min_s: each().fold(f64::INFINITY, f64::min),
        client_max_s: each().fold(0.0, f64::max),
        remaps_s: a_second(after.connections_made - before.connections_made),
        nacks_s: a_second(after.found_full - before.found_full),
        latency_us: LatencySummary::of_ns(&latencies_ns),
        links: Vec::new(),
        ends: None,
    }
}
