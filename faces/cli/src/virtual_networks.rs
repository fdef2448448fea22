//! `viaduct measure` of virtual networks: requests and replies of Active Message endpoints.

mod adapters;
mod contention;
mod crowd;
mod faults;
mod published;
mod ranges;
mod real;
mod simulated;
mod timesharing;

use std::sync::Arc;

use serde::Serialize;
use viaduct_measure::{
    Bulk, LogP, MeasureError, Origin, RequestReport, RequestTest, bulk as measure_bulk,
    logp as measure_logp,
};
use viaduct_plot::{Axis, LineChart, Notation, Scale, Series};

pub(crate) use self::contention::{ContentionArguments, contention};
pub(crate) use self::crowd::{ClientArguments, be_client};
pub(crate) use self::published::figure_of;
pub(crate) use self::ranges::ranges_text;
pub(crate) use self::real::{ServerArguments, serve};
pub(crate) use self::simulated::Interface;
use self::simulated::RequestProgram;
pub(crate) use self::timesharing::{TimesharingArguments, timesharing};

use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::measure::{LevelName, MeasureArguments, ModeName};
use crate::output;
use crate::pair::Pair;
use crate::picture::PictureFile;
use crate::simulated::Simulated;

/// Bytes of bulk messages, if nobody says.
const BULK_SIZES: [u32; 7] = [128, 256, 512, 1024, 2048, 4096, 8192];

/// What is measured.
#[derive(Clone, Debug)]
enum Subject {
    /// Processes of this machine, over shared memory.
    Shm,
    /// Simulated interfaces.
    Simulated(Box<Interface>),
    /// Simulated hosts whose adapters have VIs.
    Adapters(Box<Simulated>),
}

impl Subject {
    fn named(name: &str, test: &str) -> Result<Self, Failure> {
        if name == "shm" {
            return Ok(Self::Shm);
        }
        if let Some(interface) = Interface::named(name)? {
            return Ok(Self::Simulated(Box::new(interface)));
        }
        match Simulated::named(name, 1) {
            Some(hosts) => Ok(Self::Adapters(Box::new(hosts?))),
            None => Err(Failure::new(
                format!("`{test}` cannot be measured on `{name}`"),
                "it needs Active Message endpoints: --on shm, sim:am-myrinet (virtual networks), \
                 sim:gam-myrinet (the generation before), sim:clan (over VIs), or a file that \
                 inherits one",
            )),
        }
    }

    /// Has faults strike where adapters have VIs, and does as other options say.
    fn disturb(&mut self, arguments: &MeasureArguments) -> Result<(), Failure> {
        match self {
            Self::Adapters(hosts) => disturb(hosts, arguments),
            Self::Shm | Self::Simulated(_) => Ok(()),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Shm => "shm".to_owned(),
            Self::Simulated(interface) => interface.name().to_owned(),
            Self::Adapters(hosts) => hosts.name().to_owned(),
        }
    }

    /// Where and when a measurement that begins now is made.
    fn origin(&self) -> Origin {
        match self {
            Self::Shm => Origin::here(VERSION),
            Self::Simulated(interface) => interface.origin(),
            Self::Adapters(hosts) => hosts.origin(),
        }
    }
}

/// Has faults strike hosts, and does as other options say.
fn disturb(hosts: &mut Simulated, arguments: &MeasureArguments) -> Result<(), Failure> {
    hosts.suffer(&arguments.faults)?;
    if arguments.no_traffic {
        hosts.silence()?;
    }
    if let Some(seed) = arguments.seed {
        hosts.draw_from(seed);
    }
    hosts.check()
}

/// LogP parameters.
pub(crate) fn logp(arguments: &MeasureArguments) -> Result<Exit, Failure> {
    if !arguments.sizes.is_empty() {
        return Err(meaningless("--sizes", "logp", "its requests have 16 bytes"));
    }
    let program: RequestProgram<LogP> = Arc::new(|requests| measure_logp(requests));
    run(
        arguments,
        RequestTest::Logp,
        &program,
        LogP::table,
        signature,
    )
}

/// Bandwidth and round trip of bulk messages.
pub(crate) fn bulk(arguments: &MeasureArguments) -> Result<Exit, Failure> {
    let mut sizes: Vec<u32> = arguments.sizes.iter().map(|size| size.0).collect();
    if sizes.is_empty() {
        sizes = BULK_SIZES.to_vec();
    }
    if let Some(bytes) = sizes.iter().find(|bytes| !(1..=8192).contains(*bytes)) {
        return Err(Failure::new(
            format!("`--sizes {bytes}`: a message of an endpoint has 1 to 8192 bytes"),
            "longer ones are several messages: 128 to 8192 bytes are measured if nothing is said",
        ));
    }
    let program: RequestProgram<Bulk> =
        Arc::new(move |requests| measure_bulk(requests, &sizes, &mut |_rows| {}));
    let table = |reports: &[RequestReport<Bulk>]| {
        let tables: Vec<String> = reports.iter().map(Bulk::table).collect();
        tables.join("\n")
    };
    run(arguments, RequestTest::Bulk, &program, table, bandwidth)
}

/// Measures fabric by fabric, and shows the results.
fn run<T: Serialize + Send + 'static>(
    arguments: &MeasureArguments,
    test: RequestTest,
    program: &RequestProgram<T>,
    table: impl Fn(&[RequestReport<T>]) -> String,
    chart: impl Fn(&[RequestReport<T>]) -> LineChart,
) -> Result<Exit, Failure> {
    check(arguments, test.name())?;
    if let Some(option) = arguments.contention.given() {
        return Err(meaningless(
            option,
            test.name(),
            "it is for `viaduct measure contention`",
        ));
    }
    let mut subjects: Vec<Subject> = arguments
        .fabrics
        .iter()
        .map(|name| Subject::named(name, test.name()))
        .collect::<Result<_, _>>()?;
    let is_of_vis = |subject: &Subject| matches!(subject, Subject::Adapters(_));
    if !subjects.iter().all(is_of_vis) {
        check_disturbances(arguments, test.name())?;
    }
    for subject in &mut subjects {
        subject.disturb(arguments)?;
    }
    let picture = arguments.plot.as_deref();
    let picture = picture
        .map(|path| PictureFile::at(path, "--plot"))
        .transpose()?;
    let is_real = |subject: &Subject| matches!(subject, Subject::Shm);
    let has_real = subjects.iter().any(is_real);
    let pair = has_real.then(|| Pair::on(arguments.cores)).transpose()?;
    let repetitions = arguments.iterations.map(|count| {
        // More than 2^32 repetitions of a burst end with nobody there to see it.
        u32::try_from(count).unwrap_or(u32::MAX)
    });
    let interrupt = Interrupt::listen();
    let mut reports = Vec::new();
    let mut exit = Exit::Fine;
    for subject in &subjects {
        let origin = subject.origin();
        let (cores, outcome) = match (subject, &pair) {
            (Subject::Shm, Some(pair)) => (
                Some(pair.cores()),
                real::measure(pair.cores(), repetitions, &interrupt, &**program)?,
            ),
            (Subject::Shm, None) => return Err(Failure::plain("no cores were chosen")),
            (Subject::Simulated(interface), _) => {
                let outcome = interface.measure(&interrupt, program);
                (None, outcome.map_err(failure_of))
            }
            (Subject::Adapters(hosts), _) => {
                let outcome = adapters::measure(hosts, repetitions, &interrupt, program);
                (None, outcome.map_err(failure_of))
            }
        };
        match outcome {
            Ok(figures) => reports.push(RequestReport {
                fabric: subject.name(),
                test,
                cores,
                origin,
                figures,
            }),
            Err(_) if interrupt.is_asked() => {
                exit = Exit::Interrupted;
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    let text = match (arguments.json, &reports[..], subjects.len()) {
        (true, [report], 1) => report.to_json() + "\n",
        (true, reports, _) => {
            let objects: Vec<String> = reports.iter().map(RequestReport::to_json).collect();
            format!("[{}]\n", objects.join(","))
        }
        (false, [], _) => String::new(),
        (false, reports, _) => table(reports),
    };
    output::result(&text)?;
    if let Some(picture) = picture.filter(|_| !reports.is_empty()) {
        picture.draw_chart(&chart(&reports))?;
    }
    Ok(exit)
}

fn failure_of(error: MeasureError) -> Failure {
    match error {
        MeasureError::Impossible { reason } => Failure::plain(reason),
        error => Failure::Broken {
            title: error.to_string(),
            help: None,
        },
    }
}

fn meaningless(option: &str, test: &str, why: &str) -> Failure {
    Failure::new(format!("`{option}` means nothing for `{test}`"), why)
}

/// Says no to what these tests cannot do.
fn check(arguments: &MeasureArguments, test: &str) -> Result<(), Failure> {
    let of_others = arguments.timesharing.given();
    if let Some(option) = of_others.filter(|_| test != RequestTest::Timesharing.name()) {
        return Err(meaningless(
            option,
            test,
            "it is for `viaduct measure timesharing`",
        ));
    }
    if let Some(option) = arguments.inspection.given() {
        return Err(meaningless(
            option,
            test,
            "messages of VIs are looked at, as in `viaduct measure latency`",
        ));
    }
    let fabrics = "endpoints are the same at every setting of the fabric below";
    let given = [
        (
            "--connections",
            !arguments.connections.is_empty(),
            "it has one client",
        ),
        (
            "--load",
            !arguments.loads.is_empty(),
            "it sends as fast as it goes",
        ),
        (
            "--mode",
            arguments.mode != ModeName::Poll,
            "both sides poll",
        ),
        ("--level", arguments.level != LevelName::Rd, fabrics),
        ("--transfer", arguments.transfer.is_some(), fabrics),
        ("--private", arguments.private, fabrics),
        ("--touch", arguments.touch, "payloads are written once"),
        (
            "--counts",
            arguments.counts,
            "`viaduct measure latency --counts` tells what NICs did",
        ),
    ];
    refuse_given(test, given)
}

/// Says no to what only simulated adapters with VIs have around these tests.
fn check_disturbances(arguments: &MeasureArguments, test: &str) -> Result<(), Failure> {
    let given = [
        (
            "--fault",
            !arguments.faults.is_empty() && test != RequestTest::Contention.name(),
            "faults strike hosts with VIs, sim:clan-pio, and `viaduct measure contention --on \
             sim:am-myrinet`",
        ),
        (
            "--no-traffic",
            arguments.no_traffic,
            "interfaces with endpoints and processes never have the traffic of a study around them",
        ),
        (
            "--seed",
            arguments.seed.is_some()
                && [RequestTest::Logp, RequestTest::Bulk]
                    .iter()
                    .any(|other| other.name() == test),
            "nothing of it depends on what is drawn",
        ),
    ];
    refuse_given(test, given)
}

/// Says no to the first option that is given of these, and why.
fn refuse_given<const COUNT: usize>(
    test: &str,
    given: [(&'static str, bool, &str); COUNT],
) -> Result<(), Failure> {
    match given.into_iter().find(|(_, is_given, _)| *is_given) {
        Some((option, _, why)) => Err(meaningless(option, test, why)),
        None => Ok(()),
    }
}

/// The LogP signature: mean interval over the length of the burst.
fn signature(reports: &[RequestReport<LogP>]) -> LineChart {
    let mut series = Vec::new();
    for report in reports {
        let it = &report.figures;
        let named = [
            (report.fabric.clone(), &it.bursts),
            (
                format!(
                    "{}, {:.1} us between, without them",
                    report.fabric, it.delay_us
                ),
                &it.delayed_bursts,
            ),
        ];
        series.extend(named.map(|(name, bursts)| {
            Series {
                name,
                points: bursts
                    .iter()
                    .map(|burst| (f64::from(burst.requests), burst.interval_us))
                    .collect(),
            }
        }));
    }
    LineChart {
        title: "LogP signature: requests of 16 bytes in bursts".to_owned(),
        x: Axis {
            title: "requests of a burst".to_owned(),
            scale: Scale::Binary,
            notation: Notation::Plain,
        },
        y: Axis {
            title: "mean interval, us".to_owned(),
            scale: Scale::Decimal,
            notation: Notation::Plain,
        },
        series,
    }
}

fn bandwidth(reports: &[RequestReport<Bulk>]) -> LineChart {
    let series = reports.iter().map(|report| Series {
        name: report.fabric.clone(),
        points: report
            .figures
            .rows
            .iter()
            .map(|row| (f64::from(row.bytes), row.mbyte_s))
            .collect(),
    });
    LineChart {
        title: "bulk: requests with short replies".to_owned(),
        x: Axis {
            title: "size of a message".to_owned(),
            scale: Scale::Binary,
            notation: Notation::Bytes,
        },
        y: Axis {
            title: "bandwidth, MB/s".to_owned(),
            scale: if reports.len() > 1 {
                Scale::Decimal
            } else {
                Scale::Linear
            },
            notation: Notation::Plain,
        },
        series: series.collect(),
    }
}
