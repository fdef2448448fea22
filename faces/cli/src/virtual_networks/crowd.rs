//! Contention between real processes: this process serves, each client is another process of this
//! program.

use std::io::{self, BufRead};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use viaduct_am::Name;
use viaduct_local::{Server, Side};
use viaduct_measure::{ClientCounts, ContentionRow, LatencySummary, ServerKind};
use viaduct_statistics::LogHistogram;

use super::contention::Point;
use super::failure_of;
use super::real::{Other, end_with_starter};
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
    let side = Side::start(8).map_err(failure_of)?;
    let client = side.client(&arguments.server).map_err(failure_of)?;
    let mut client = client.open().map_err(failure_of)?;
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
    let counts = client
        .contend(
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
    let side = Side::start(u32::from(point.frames)).map_err(failure_of)?;
    let count = match point.server {
        ServerKind::One => 1,
        ServerKind::St | ServerKind::Mt => usize::from(point.clients),
    };
    let servers: Vec<Server> = (0..count)
        .map(|_| side.server())
        .collect::<Result<_, _>>()
        .map_err(failure_of)?;
    let names: Vec<Name> = servers.iter().map(Server::name).collect();
    let looks = looks_before_sleep(point);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        match point.server {
            ServerKind::One | ServerKind::Mt => {
                for server in servers {
                    scope.spawn(|| server.serve_until(looks, &is_over));
                }
            }
            ServerKind::St => {
                scope.spawn(|| side.serve_together(servers, looks, &is_over));
            }
        }
        let counted = count_clients(point, &names, &side, looks, interrupt);
        is_over.store(true, Ordering::Relaxed);
        counted
    })
}

/// How long this process sleeps before it looks whether Ctrl-C was pressed.
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

fn count_clients(
    point: &Point,
    names: &[Name],
    side: &Side,
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
    let (before, since) = (side.statistics(), Instant::now());
    rest(point.window, interrupt);
    let (after, window) = (side.statistics(), since.elapsed());
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
    let served = Served {
        connections_made: after.connections_made - before.connections_made,
        found_full: after.found_full - before.found_full,
        window,
    };
    Ok(row(point, &counts, &served))
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

/// What whoever serves over VIs did in the window.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) connections_made: u64,
    /// Messages that found a full queue.
    pub(super) found_full: u64,
    pub(super) window: Duration,
}

/// A row of what clients counted.
pub(super) fn row(point: &Point, counts: &[ClientCounts], served: &Served) -> ContentionRow {
    let mut latencies_ns = LogHistogram::default();
    for its in counts {
        for (bin, count) in &its.latency_bins {
            latencies_ns.add(*bin, *count);
        }
    }
    let each = || counts.iter().map(ClientCounts::messages_s);
    let messages_s: f64 = each().sum();
    let a_second = |count: u64| count as f64 / served.window.as_secs_f64();
    ContentionRow {
        server: point.server,
        frames: u32::from(point.frames),
        bytes: point.bytes,
        clients: u32::from(point.clients),
        messages_s,
        mbyte_s: messages_s * f64::from(point.bytes) / 1e6,
        client_min_s: each().fold(f64::INFINITY, f64::min),
        client_max_s: each().fold(0.0, f64::max),
        remaps_s: a_second(served.connections_made),
        nacks_s: a_second(served.found_full),
        latency_us: LatencySummary::of_ns(&latencies_ns),
        links: Vec::new(),
        ends: None,
    }
}
