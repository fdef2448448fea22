//! `viaduct measure` of queue pairs on simulated hosts: sends, writes and reads by the rules of
//! perftest.

use std::fmt::Write;
use std::time::Instant;

use serde::Serialize;
use viaduct_engine::Time;
use viaduct_measure::{LinkRow, Origin, busiest};
use viaduct_programs::verbs::measure::{self, MeasureError, Operation};
use viaduct_programs::{Simulation, SimulationError};

use crate::failure::{Exit, Failure};
use crate::inspection::{self, Account};
use crate::interrupt::Interrupt;
use crate::measure::{LevelName, MeasureArguments, ModeName};
use crate::output;
use crate::simulated::Simulated;

/// Which of the tests.
#[derive(Clone, Copy, Debug)]
struct Test {
    operation: Operation,
    is_latency: bool,
}

/// How long one operation takes.
pub(crate) fn latency(arguments: &MeasureArguments, operation: Operation) -> Result<Exit, Failure> {
    let is_latency = true;
    measure(
        arguments,
        Test {
            operation,
            is_latency,
        },
    )
}

/// How many there are in some time.
pub(crate) fn bandwidth(
    arguments: &MeasureArguments,
    operation: Operation,
) -> Result<Exit, Failure> {
    let is_latency = false;
    measure(
        arguments,
        Test {
            operation,
            is_latency,
        },
    )
}

/// Bytes of messages, if nobody says.
const LATENCY_SIZES: [u32; 6] = [2, 64, 256, 1024, 4096, 65_536];
const BANDWIDTH_SIZES: [u32; 6] = [64, 1024, 4096, 16_384, 65_536, 1 << 20];
/// Operations of a row, if nobody says: those of perftest.
const ITERATIONS: u64 = 1000;
const WRITES: u64 = 5000;

/// What is shown of one fabric.
#[derive(Serialize)]
struct Report {
    fabric: String,
    test: &'static str,
    #[serde(flatten)]
    origin: Origin,
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<LinkRow>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Row {
    Latency {
        bytes: u32,
        iterations: u64,
        latency_us: Spread,
    },
    Bandwidth {
        bytes: u32,
        iterations: u64,
        mbyte_s: f64,
        messages_s: f64,
    },
}

#[derive(Serialize)]
struct Spread {
    min: f64,
    median: f64,
    p99: f64,
    max: f64,
}

impl Test {
    const fn name(self) -> &'static str {
        match (self.operation, self.is_latency) {
            (Operation::Send, true) => "send-latency",
            (Operation::Write, true) => "write-latency",
            (Operation::Read, true) => "read-latency",
            (Operation::Send, false) => "send-bandwidth",
            (Operation::Write, false) => "write-bandwidth",
            (Operation::Read, false) => "read-bandwidth",
        }
    }

    /// What the figures are.
    const fn about(self) -> &'static str {
        match (self.operation, self.is_latency) {
            (Operation::Send, true) => {
                "half a round trip of sends: inline up to 236 bytes, each signalled"
            }
            (Operation::Write, true) => {
                "half a round trip of writes, seen in memory: inline up to 220 bytes, each signalled"
            }
            (Operation::Read, true) => "from the post of a read to its completion",
            (Operation::Send, false) => "sends, 128 under way, every hundredth signalled",
            (Operation::Write, false) => "writes, 128 under way, every hundredth signalled",
            (Operation::Read, false) => "reads, 16 under way, every hundredth signalled",
        }
    }

    fn row(
        self,
        simulation: &mut Simulation,
        bytes: u32,
        arguments: &MeasureArguments,
    ) -> RowOrEnd {
        let usual = match (self.operation, self.is_latency) {
            (Operation::Write, false) => WRITES,
            _ => ITERATIONS,
        };
        let iterations = arguments.iterations.unwrap_or(usual);
        if !self.is_latency {
            let span = measure::bandwidth(simulation, self.operation, bytes, iterations)?;
            let messages_s = iterations as f64 / (span.microseconds_f64() * 1e-6);
            return Ok(Row::Bandwidth {
                bytes,
                iterations,
                mbyte_s: messages_s * f64::from(bytes) * 1e-6,
                messages_s,
            });
        }
        let mut spans = measure::latency(simulation, self.operation, bytes, iterations)?;
        spans.sort_unstable();
        let at = |share: f64| {
            let last = spans.len().saturating_sub(1);
            let place = (share * last as f64).round() as usize;
            spans
                .get(place)
                .map_or(0.0, |span: &Time| span.microseconds_f64())
        };
        Ok(Row::Latency {
            bytes,
            iterations,
            latency_us: Spread {
                min: at(0.0),
                median: at(0.5),
                p99: at(0.99),
                max: at(1.0),
            },
        })
    }
}

type RowOrEnd = Result<Row, MeasureError>;

impl Report {
    fn table(&self, test: Test) -> String {
        let mut text = format!("{} over {}: {}\n\n", test.name(), self.fabric, test.about());
        text += if test.is_latency {
            "     bytes     min us  median us     p99 us     max us\n"
        } else {
            "     bytes     MByte/s     Gbit/s   messages/s\n"
        };
        for row in &self.rows {
            let _ = match row {
                Row::Latency {
                    bytes,
                    latency_us: it,
                    ..
                } => writeln!(
                    text,
                    "{bytes:>10} {:>10.3} {:>10.3} {:>10.3} {:>10.3}",
                    it.min, it.median, it.p99, it.max
                ),
                Row::Bandwidth {
                    bytes,
                    mbyte_s,
                    messages_s,
                    ..
                } => writeln!(
                    text,
                    "{bytes:>10} {mbyte_s:>11.1} {:>10.2} {messages_s:>12.0}",
                    mbyte_s * 8e-3
                ),
            };
        }
        text += "\n  simulated time: every run gives these figures again.\n";
        if !self.links.is_empty() {
            let percent = |busy| format!("{busy:.3}");
            text += &format!("  {}\n", busiest(&self.links, percent));
        }
        text
    }
}

/// Says no to what these tests cannot do.
fn check(arguments: &MeasureArguments, test: Test) -> Result<(), Failure> {
    let of_vis = "it is for tests of VIs, as in `viaduct measure latency`";
    let one = "there is one queue pair at each of two hosts";
    let as_perftest = "queue pairs are measured as perftest does";
    let given = [
        ("--connections", !arguments.connections.is_empty(), one),
        ("--load", !arguments.loads.is_empty(), one),
        ("--hosts", arguments.hosts.is_some(), one),
        (
            "--mode",
            arguments.mode != ModeName::Poll,
            "both sides poll",
        ),
        (
            "--level",
            arguments.level != LevelName::Rd,
            "the queue pairs are reliable connections",
        ),
        ("--transfer", arguments.transfer.is_some(), as_perftest),
        ("--touch", arguments.touch, as_perftest),
        ("--private", arguments.private, of_vis),
        ("--cores", arguments.cores.is_some(), "hosts are simulated"),
        ("--counts", arguments.counts, of_vis),
        ("--plot", arguments.plot.is_some(), of_vis),
    ];
    let given = given.into_iter().filter(|(_, is_given, _)| *is_given);
    let mut given = given.map(|(option, _, why)| (option, why));
    let others = [
        arguments.contention.given_but_for(&["--links"]),
        arguments.timesharing.given(),
    ];
    let other = others
        .into_iter()
        .flatten()
        .map(|option| (option, of_vis))
        .next();
    match given.next().or(other) {
        Some((option, why)) => {
            let title = format!("`{option}` means nothing for `{}`", test.name());
            Err(Failure::new(title, why))
        }
        None => Ok(()),
    }
}

/// The simulated hosts of a name, as faults and seeds leave them.
fn subject(name: &str, arguments: &MeasureArguments, test: Test) -> Result<Simulated, Failure> {
    let need = "it needs simulated hosts with an RDMA adapter: --on sim:rnic-gen5; programs of \
                perftest measure this machine's, as in `viaduct rdma -- ib_write_lat`";
    let refused = || {
        Failure::new(
            format!("`{}` cannot be measured on `{name}`", test.name()),
            need,
        )
    };
    let mut hosts = Simulated::named(name, 1).ok_or_else(refused)??;
    if !hosts.has_queue_pairs() {
        return Err(refused());
    }
    if !arguments.faults.is_empty() {
        hosts.suffer(&arguments.faults)?;
    }
    if arguments.no_traffic {
        hosts.silence()?;
    }
    hosts.check()?;
    if let Some(seed) = arguments.seed {
        hosts.draw_from(seed);
    }
    Ok(hosts)
}

/// Measures fabric by fabric, and shows the results.
fn measure(arguments: &MeasureArguments, test: Test) -> Result<Exit, Failure> {
    check(arguments, test)?;
    let looked_at = arguments.links().or(arguments.inspection.given());
    if let Some(option) = looked_at
        && (arguments.fabrics.len() != 1 || arguments.sizes.len() != 1)
    {
        let help = "name one, and one size: --on sim:rnic-gen5 --sizes 4KiB";
        let title = format!("`{option}` is about the messages of one simulation of queue pairs");
        return Err(Failure::new(title, help));
    }
    arguments.inspection.prepare()?;
    let names = arguments.fabrics.iter();
    let subjects: Vec<Simulated> = names
        .map(|name| subject(name, arguments, test))
        .collect::<Result<_, _>>()?;
    let mut sizes: Vec<u32> = arguments.sizes.iter().map(|size| size.0).collect();
    if sizes.is_empty() {
        let usual = if test.is_latency {
            LATENCY_SIZES
        } else {
            BANDWIDTH_SIZES
        };
        sizes = usual.to_vec();
    }
    if let Some(bytes) = sizes.iter().find(|bytes| **bytes > 1 << 30) {
        return Err(Failure::new(
            format!("`--sizes {bytes}`: it is measured up to 1 GiB"),
            "queue pairs carry 2 GiB at once, which both hosts hold twice",
        ));
    }
    let interrupt = Interrupt::listen();
    let (mut reports, mut exit) = (Vec::new(), Exit::Fine);
    let mut said = String::new();
    'fabrics: for hosts in &subjects {
        let mut report = Report {
            fabric: hosts.name().to_owned(),
            test: test.name(),
            origin: hosts.origin(),
            rows: Vec::new(),
            links: Vec::new(),
        };
        for &bytes in &sizes {
            if interrupt.is_asked() {
                exit = Exit::Interrupted;
                reports.push(report);
                break 'fabrics;
            }
            let started = Instant::now();
            let mut simulation = Simulation::new(hosts.config().clone());
            if looked_at.is_some() {
                simulation.keep_account(0);
            }
            if let Some(selection) = arguments.inspection.selection() {
                simulation.record(selection);
            }
            match test.row(&mut simulation, bytes, arguments) {
                Ok(row) => report.rows.push(row),
                Err(error) => {
                    let has_faults = !hosts.config().faults.is_empty();
                    let stuck = matches!(
                        error,
                        MeasureError::Simulation(SimulationError::Stuck { .. })
                    );
                    let help = (has_faults || stuck)
                        .then(|| "faults can break a connection: fewer, or later".to_owned());
                    let title = format!("{}, {bytes} bytes: {error}", hosts.name());
                    return Err(Failure::Broken { title, help });
                }
            }
            if looked_at.is_some() {
                let account = Account::of(&simulation, started.elapsed().as_secs_f64());
                if let Some(violation) = account.violation() {
                    return Err(inspection::broken(violation));
                }
                if arguments.links().is_some() {
                    report.links = account.links();
                }
                let repeat = |simulation: &mut Simulation| {
                    let _ = test.row(simulation, bytes, arguments);
                };
                said = inspection::look_at_measurement(
                    &arguments.inspection,
                    (hosts, test.name(), test.about()),
                    &repeat,
                    Some(&account),
                    &interrupt,
                    arguments.json,
                )?;
            }
        }
        reports.push(report);
    }
    let text = if arguments.json {
        let objects = match &reports[..] {
            [report] if subjects.len() == 1 => serde_json::to_string(report),
            reports => serde_json::to_string(reports),
        };
        inspection::joined(objects.map_err(Failure::plain)? + "\n", &said)
    } else {
        let tables: Vec<String> = reports.iter().map(|report| report.table(test)).collect();
        tables.join("\n") + &said
    };
    output::result(&text)?;
    Ok(exit)
}
