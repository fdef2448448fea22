//! `viaduct measure`: what is asked for, fabric by fabric, and what is shown of it.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use viaduct_cluster::record::Selection;
use viaduct_fit::measure_in;
use viaduct_measure::{Comparison, Mode, Plan, Report, Test, Transfer};
use viaduct_programs::Simulation;
use viaduct_programs::verbs::measure::Operation;
use viaduct_provider::Memory;
use viaduct_provider::via::ReliabilityLevel;
use viaduct_scenario::combinations::Refusal;

use crate::fabrics::Fabric;
use crate::failure::{Exit, Failure};
use crate::inspection::{self, Account, InspectionArguments};
use crate::interrupt::Interrupt;
use crate::output;
use crate::pair::{Cores, Pair};
use crate::picture::PictureFile;
use crate::queue_pairs;
use crate::simulated::{Simulated, no_study, stages_table};
use crate::virtual_networks::{self, ContentionArguments, TimesharingArguments};

/// What to measure, and how.
#[derive(Args, Debug)]
pub(crate) struct MeasureArguments {
    /// latency: half a round trip; bandwidth: messages one way; rate: small messages one way;
    /// cq: many connections into one completion queue. Of virtual networks, requests and replies of
    /// Active Message endpoints: logp: overheads, latency, gap; bulk: 128 to 8192 bytes;
    /// contention: many clients of one server; timesharing: parallel programs that share simulated
    /// hosts. Of queue pairs on simulated hosts with RDMA adapters, by the rules of perftest:
    /// send-latency, write-latency, read-latency, send-bandwidth, write-bandwidth, read-bandwidth
    #[arg(value_name = "TEST")]
    pub(crate) test: TestName,
    /// The fabric: `shm`, or `sim:MODEL[@STUDY]` between simulated hosts, MODEL being a preset of
    /// `viaduct models` or the path of a preset file, STUDY the study in whose network and amid
    /// whose traffic they are; several are measured one after the other and compared. For tests of
    /// virtual networks `shm`, `sim:am-myrinet` or `sim:gam-myrinet`; `logp` and `bulk` take every
    /// simulated adapter
    #[arg(
        long = "on",
        value_name = "FABRIC",
        value_delimiter = ',',
        required = true
    )]
    pub(crate) fabrics: Vec<String>,
    /// Bytes of a message, one row each, as in `--sizes 8,4KiB,1MiB` [default: depends on the test]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    pub(crate) sizes: Vec<Size>,
    /// Connections, one row each, for `cq` [default: 1,16,64,256,1024; with `--load` 64]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(crate) connections: Vec<u32>,
    /// Requests a second that the connections of `cq` offer together, one row each, as in `--load
    /// 50k,100k,200k`; `auto`: around the most that is answered [default: that most]
    #[arg(long = "load", value_name = "REQUESTS/S", value_delimiter = ',')]
    pub(crate) loads: Vec<Load>,
    /// Hosts that the connections of `cq` come from, on simulated hosts, each with its part of them
    /// [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hosts: Option<u32>,
    /// How both sides wait: they poll, or sleep
    #[arg(long, value_enum, default_value_t = ModeName::Poll)]
    pub(crate) mode: ModeName,
    /// The connections' reliability level: unreliable delivery, reliable delivery, or reliable
    /// reception
    #[arg(long, value_enum, default_value_t = LevelName::Rd)]
    pub(crate) level: LevelName,
    /// How the fabric moves bytes [default: the fabric chooses for each message]
    #[arg(long, value_enum)]
    pub(crate) transfer: Option<TransferName>,
    /// Write and read every byte, as an application does
    #[arg(long)]
    pub(crate) touch: bool,
    /// Messages in ordinary memory instead of memory that the fabric shares
    #[arg(long)]
    pub(crate) private: bool,
    /// Round trips or messages in each row [default: as many as fill a third of a second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) iterations: Option<u64>,
    /// The cores of the two sides [default: the first two that this process may use]
    #[arg(long, value_name = "A,B")]
    pub(crate) cores: Option<Cores>,
    /// Say what the first side's NIC did meanwhile: remote writes, copies, wake-ups
    #[arg(long)]
    pub(crate) counts: bool,
    /// A fault on simulated hosts, as in `--fault "loss 0.01 %"`; may be repeated. A wrong one is
    /// answered with all forms. A study may have fault rows instead
    #[arg(long = "fault", value_name = "FAULT")]
    pub(crate) faults: Vec<String>,
    /// Only the network of the STUDY in `sim:MODEL@STUDY`, without its traffic
    #[arg(long)]
    pub(crate) no_traffic: bool,
    /// Seed of random draws on simulated hosts: what faults strike, traffic, phases and grains of
    /// `timesharing` [default: the study's, else 1]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) inspection: InspectionArguments,
    #[command(flatten)]
    pub(crate) contention: ContentionArguments,
    #[command(flatten)]
    pub(crate) timesharing: TimesharingArguments,
    /// Draw one line per fabric into this file, as .svg, .pdf or .png
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Print one JSON object and nothing else; of several fabrics an array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

impl MeasureArguments {
    /// The option that asks for links, if it was given.
    pub(crate) fn links(&self) -> Option<&'static str> {
        self.contention.shows_links().then_some("--links")
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum TestName {
    Latency,
    Bandwidth,
    Rate,
    Cq,
    Logp,
    Bulk,
    Contention,
    Timesharing,
    SendLatency,
    WriteLatency,
    ReadLatency,
    SendBandwidth,
    WriteBandwidth,
    ReadBandwidth,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ModeName {
    Poll,
    Block,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum LevelName {
    Ud,
    Rd,
    Rr,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TransferName {
    Auto,
    Inline,
    Pool,
    Direct,
    Copy,
}

impl LevelName {
    pub(crate) const fn level(self) -> ReliabilityLevel {
        match self {
            Self::Ud => ReliabilityLevel::Unreliable,
            Self::Rd => ReliabilityLevel::ReliableDelivery,
            Self::Rr => ReliabilityLevel::ReliableReception,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ud => "ud",
            Self::Rd => "rd",
            Self::Rr => "rr",
        }
    }
}

impl TransferName {
    const fn transfer(self) -> Transfer {
        match self {
            Self::Auto => Transfer::Auto,
            Self::Inline => Transfer::Inline,
            Self::Pool => Transfer::Pool,
            Self::Direct => Transfer::Direct,
            Self::Copy => Transfer::Copy,
        }
    }
}

/// A number of bytes: `8`, `4KiB`, `1 MiB`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Size(pub(crate) u32);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let split = text
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "KiB" | "K" | "k" => 1 << 10,
            "MiB" | "M" => 1 << 20,
            "GiB" | "G" => 1 << 30,
            unit => {
                return Err(format!("`{unit}` is no unit of bytes: B, KiB, MiB or GiB"));
            }
        };
        let bytes = digits.parse::<u64>().ok();
        bytes
            .and_then(|bytes| bytes.checked_mul(factor))
            .and_then(|bytes| u32::try_from(bytes).ok())
            .map(Self)
            .ok_or_else(|| "a number of bytes below 4 GiB is wanted, as in 8 or 4KiB".to_owned())
    }
}

/// An offered load: requests a second, or those around the most that a fabric answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Load {
    Auto,
    Requests(u32),
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let text = text.strip_suffix("/s").unwrap_or(text).trim();
        let (digits, factor) = match text.strip_suffix('k') {
            Some(digits) => (digits, 1000),
            None => text
                .strip_suffix('M')
                .map_or((text, 1), |it| (it, 1_000_000)),
        };
        let number = digits.trim_end().parse::<u32>().ok();
        number
            .and_then(|number| number.checked_mul(factor))
            .filter(|requests_s| *requests_s > 0)
            .map(Self::Requests)
            .ok_or_else(|| "requests a second are wanted, as in 50000 or 50k, or auto".to_owned())
    }
}

/// What is asked of every fabric alike.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The program and its rows.
    pub(crate) plan: Plan,
    /// The plan's level, as the other side is told.
    pub(crate) level: LevelName,
    /// How bytes are to move; as the fabric does usually if not said.
    transfer: Option<Transfer>,
    /// Whether an account of all messages and links is kept, on simulated hosts.
    pub(crate) has_account: bool,
    /// Which messages are recorded, with an account of all.
    pub(crate) recorded: Option<Selection>,
    /// Whether links are told.
    pub(crate) shows_links: bool,
}

impl Task {
    /// A plan at a level, its bytes moved as usual.
    pub(crate) const fn of(plan: Plan, level: LevelName) -> Self {
        Self {
            plan,
            level,
            transfer: None,
            has_account: false,
            recorded: None,
            shows_links: false,
        }
    }

    /// How bytes are to move on a fabric.
    pub(crate) fn transfer(&self, fabric: Fabric) -> Transfer {
        self.transfer.unwrap_or_else(|| fabric.usual_transfer())
    }
}

/// The result of measuring one fabric.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The rows that there are.
    pub(crate) report: Report,
    /// All messages and links, if an account of them was asked for.
    pub(crate) account: Option<Box<Account>>,
    /// Whether there are all.
    pub(crate) ending: Ending,
}

/// How a measurement ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// With all rows.
    Complete,
    /// By Ctrl-C.
    Interrupted,
    /// By itself.
    Failed(Failure),
}

/// Measures.
pub(crate) fn measure(arguments: &MeasureArguments) -> Result<Exit, Failure> {
    let test = match arguments.test {
        TestName::Latency => Test::Latency,
        TestName::Bandwidth => Test::Bandwidth,
        TestName::Rate => Test::Rate,
        TestName::Cq => Test::Cq,
        TestName::Logp => return virtual_networks::logp(arguments),
        TestName::Bulk => return virtual_networks::bulk(arguments),
        TestName::Contention => return virtual_networks::contention(arguments),
        TestName::Timesharing => return virtual_networks::timesharing(arguments),
        TestName::SendLatency => return queue_pairs::latency(arguments, Operation::Send),
        TestName::WriteLatency => return queue_pairs::latency(arguments, Operation::Write),
        TestName::ReadLatency => return queue_pairs::latency(arguments, Operation::Read),
        TestName::SendBandwidth => return queue_pairs::bandwidth(arguments, Operation::Send),
        TestName::WriteBandwidth => return queue_pairs::bandwidth(arguments, Operation::Write),
        TestName::ReadBandwidth => return queue_pairs::bandwidth(arguments, Operation::Read),
    };
    if let Some(option) = arguments.contention.given_but_for(&["--links"]) {
        return Err(Failure::new(
            format!("`{option}` means nothing for `{}`", test.name()),
            "it is for `viaduct measure contention`",
        ));
    }
    if let Some(option) = arguments.timesharing.given() {
        return Err(Failure::new(
            format!("`{option}` means nothing for `{}`", test.name()),
            "it is for `viaduct measure timesharing`",
        ));
    }
    let fabrics = arguments.fabrics.iter();
    let mut fabrics: Vec<Subject> = fabrics
        .map(|name| Subject::named(name, arguments.hosts))
        .collect::<Result<_, _>>()?;
    if !arguments.faults.is_empty() {
        for fabric in &mut fabrics {
            fabric.suffer(&arguments.faults)?;
        }
    }
    if arguments.no_traffic {
        for fabric in &mut fabrics {
            fabric.silence()?;
        }
    }
    for fabric in &fabrics {
        if let Subject::Simulated(hosts) = fabric {
            hosts.check()?;
        }
    }
    if let Some(seed) = arguments.seed {
        for fabric in &mut fabrics {
            fabric.draw_from(seed)?;
        }
    }
    let looked_at = arguments.links().or(arguments.inspection.given());
    if let Some(option) = looked_at
        && let Some(Subject::Real(fabric)) = fabrics.iter().find(|it| it.is_real())
    {
        return Err(Failure::new(
            format!("`{option}` means nothing for `{}`", fabric.name()),
            "messages and links are looked at on simulated hosts: --on sim:clan-pio",
        ));
    }
    if let (Some(option), [_, _, ..]) = (arguments.inspection.given(), &fabrics[..]) {
        return Err(Failure::new(
            format!("`{option}` is about the messages of one fabric"),
            "name one: --on sim:clan-pio",
        ));
    }
    arguments.inspection.prepare()?;
    let mut plan = plan(arguments, test)?;
    if arguments.sizes.is_empty() {
        // The usual sizes, as far as every fabric has messages so long.
        let longest = fabrics.iter().filter_map(Subject::longest_bytes).min();
        plan.sizes
            .retain(|bytes| longest.is_none_or(|longest| *bytes <= longest));
    }
    let mut task = Task {
        plan,
        level: arguments.level,
        transfer: arguments.transfer.map(TransferName::transfer),
        has_account: arguments.links().is_some() || arguments.inspection.wants_account(),
        recorded: arguments.inspection.selection(),
        shows_links: arguments.links().is_some(),
    };
    let picture = arguments.plot.as_deref();
    let picture = picture
        .map(|path| PictureFile::at(path, "--plot"))
        .transpose()?;
    // May begin this process anew: before anything is measured.
    for fabric in &fabrics {
        match fabric {
            Subject::Real(fabric) => fabric.tune(task.transfer(*fabric))?,
            Subject::Simulated(hosts) => hosts.tune(task.transfer)?,
        }
    }
    // Simulated hosts need no core of their own.
    let has_real = fabrics.iter().any(Subject::is_real);
    let pair = has_real.then(|| Pair::on(arguments.cores)).transpose()?;
    let interrupt = Interrupt::listen();
    if arguments.loads == [Load::Auto] {
        match loads_around(&fabrics, &task, pair.as_ref(), &interrupt)? {
            Some(loads) => task.plan.loads_requests_s = loads,
            None => return Ok(Exit::Interrupted),
        }
    }

    let progress = Progress::of(&task.plan, fabrics.len(), arguments.json);
    let (mut reports, mut account) = (Vec::new(), None);
    let mut ending = Ending::Complete;
    for (index, fabric) in fabrics.iter().enumerate() {
        let measured = measure_one(fabric, &task, pair.as_ref(), &interrupt, &mut |done| {
            progress.show(index, done);
        });
        match measured {
            Ok(measured) => {
                reports.push(measured.report);
                account = measured.account;
                ending = measured.ending;
            }
            Err(failure) => ending = Ending::Failed(failure),
        }
        if !matches!(ending, Ending::Complete) {
            break;
        }
    }
    progress.clear();

    let is_complete = matches!(ending, Ending::Complete);
    let mut said = String::new();
    if let ([Subject::Simulated(hosts)], [report], true) = (&fabrics[..], &reports[..], is_complete)
    {
        let repeat = |simulation: &mut Simulation| {
            let asked = interrupt.clone();
            let _ = measure_in(simulation, hosts.plan(&task), move || asked.is_asked());
        };
        said = inspection::look_at_measurement(
            &arguments.inspection,
            (hosts, report.test.name(), &report.settings()),
            &repeat,
            account.as_deref(),
            &interrupt,
            arguments.json,
        )?;
    }
    let show = || {
        let mut text = shown(&reports, fabrics.len() > 1, arguments.json);
        if arguments.json {
            text = inspection::joined(text, &said);
        }
        if let ([Subject::Simulated(hosts)], Test::Latency, false) =
            (&fabrics[..], task.plan.test, arguments.json)
            && is_complete
        {
            text.push_str(&stages_table(hosts, &task.plan.sizes));
        }
        if !arguments.json {
            text.extend(reports.iter().filter_map(Report::counts_table));
            text += &said;
        }
        output::result(&text)
    };
    let draw = || picture.map_or(Ok(()), |picture| picture.draw(&reports));
    match ending {
        Ending::Complete => {
            show()?;
            draw()?;
            Ok(Exit::Fine)
        }
        Ending::Interrupted => {
            show()?;
            draw()?;
            Ok(Exit::Interrupted)
        }
        Ending::Failed(failure) => {
            let has_rows = reports.iter().any(|report| !report.rows.is_empty());
            // A program that asks for faults wants to know what they did.
            let has_faults = reports.iter().any(|report| report.faults.is_some());
            if arguments.json && has_faults || !arguments.json && has_rows {
                show()?;
            }
            Err(failure)
        }
    }
}

/// Loads around the most that any of the fabrics answers; `None` when the user stops it.
fn loads_around(
    fabrics: &[Subject],
    task: &Task,
    pair: Option<&Pair>,
    interrupt: &Interrupt,
) -> Result<Option<Vec<u32>>, Failure> {
    /// Of that most: the line to it, the bend, and what is beyond.
    const SHARES: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5];

    let mut task = task.clone();
    task.plan.iterations = Some(task.plan.iterations.unwrap_or(50_000).max(1000));
    let mut most: f64 = 0.0;
    for fabric in fabrics {
        let measured = measure_one(fabric, &task, pair, interrupt, &mut |_| {})?;
        match measured.ending {
            Ending::Complete => {}
            Ending::Interrupted => return Ok(None),
            Ending::Failed(failure) => return Err(failure),
        }
        for row in &measured.report.rows {
            most = most.max(row.figure(Test::Cq));
        }
    }
    // Two digits: a round number is as good, and the same again on simulated hosts.
    let step = 10_f64.powf((most / 10.0).max(1.0).log10().floor());
    let mut loads = SHARES.map(|share| ((most * share / step).round() * step).max(1.0) as u32);
    loads.sort_unstable();
    let mut loads = loads.to_vec();
    loads.dedup();
    Ok(Some(loads))
}

/// What goes to stdout.
fn shown(reports: &[Report], is_comparison: bool, is_json: bool) -> String {
    let comparison = Comparison::new(reports);
    match (reports, is_json) {
        ([report], true) if !is_comparison => report.to_json() + "\n",
        ([report], false) if !is_comparison => format!("{}\n{}", report.title(), report.table()),
        (_, true) => comparison.to_json() + "\n",
        (_, false) => format!("{}\n{}", comparison.title(), comparison.table()),
    }
}

/// What is measured.
#[derive(Debug)]
enum Subject {
    /// A fabric of this machine.
    Real(Fabric),
    /// Hosts that are simulated.
    Simulated(Box<Simulated>),
}

impl Subject {
    fn named(name: &str, hosts: Option<u32>) -> Result<Self, Failure> {
        if let Ok(Some(_)) = virtual_networks::Interface::named(name) {
            return Err(Failure::new(
                format!("`{name}`: {}", Refusal::NO_VIS.reason),
                Refusal::NO_VIS.help,
            ));
        }
        let clients = hosts.unwrap_or(1);
        match (Simulated::named(name, clients), hosts) {
            (Some(hosts), _) => hosts.map(|hosts| Self::Simulated(Box::new(hosts))),
            (None, None) => Fabric::named(name).map(Self::Real),
            (None, Some(_)) => Err(Failure::new(
                format!("`--hosts` means nothing for `{name}`"),
                "several hosts ask simulated ones: --on sim:clan-pio",
            )),
        }
    }
}

impl Subject {
    const fn is_real(&self) -> bool {
        matches!(self, Self::Real(_))
    }

    /// Has faults strike.
    fn suffer(&mut self, lines: &[String]) -> Result<(), Failure> {
        match self {
            Self::Real(fabric) => Err(Failure::new(
                format!("`--fault` means nothing for `{}`", fabric.name()),
                "faults strike simulated hosts: --on sim:clan-pio",
            )),
            Self::Simulated(hosts) => hosts.suffer(lines),
        }
    }

    /// Leaves out the traffic of the study.
    fn silence(&mut self) -> Result<(), Failure> {
        match self {
            Self::Simulated(hosts) => hosts.silence(),
            Self::Real(fabric) => Err(no_study(fabric.name())),
        }
    }

    /// Has all that is drawn follow a seed.
    fn draw_from(&mut self, seed: u64) -> Result<(), Failure> {
        match self {
            Self::Real(fabric) => Err(Failure::new(
                format!("`--seed` means nothing for `{}`", fabric.name()),
                "simulated hosts draw random numbers: --on sim:clan-pio",
            )),
            Self::Simulated(hosts) => {
                hosts.draw_from(seed);
                Ok(())
            }
        }
    }

    /// Bytes of the longest message, where that is known before it is asked.
    fn longest_bytes(&self) -> Option<u32> {
        match self {
            Self::Real(_) => None,
            Self::Simulated(hosts) => hosts.transfer_max_bytes(),
        }
    }
}

/// Measures one fabric in the way of its kind; tells how many rows are done after each.
fn measure_one(
    fabric: &Subject,
    task: &Task,
    pair: Option<&Pair>,
    interrupt: &Interrupt,
    on_row: &mut dyn FnMut(usize),
) -> Result<Measured, Failure> {
    match (fabric, pair) {
        (Subject::Real(fabric), Some(pair)) => pair.measure(*fabric, task, interrupt, on_row),
        (Subject::Real(_), None) => Err(Failure::plain("no cores were chosen")),
        (Subject::Simulated(hosts), _) => Ok(hosts.measure(task, interrupt, on_row)),
    }
}

/// A line on a terminal that says how far it is.
struct Progress {
    /// Of one fabric.
    rows: usize,
    fabrics: usize,
    is_shown: bool,
}

impl Progress {
    fn of(plan: &Plan, fabrics: usize, is_for_a_program: bool) -> Self {
        Self {
            rows: plan.rows().len(),
            fabrics,
            is_shown: !is_for_a_program && output::is_live(),
        }
    }

    /// After a row of a fabric, the first being 0.
    fn show(&self, fabric: usize, done: usize) {
        if self.is_shown {
            let (done, rows) = (fabric * self.rows + done, self.fabrics * self.rows);
            output::note(&format!("\r  {done} of {rows} rows"));
        }
    }

    fn clear(&self) {
        if self.is_shown {
            output::note("\r                    \r");
        }
    }
}

/// Connections that offer a load, if nobody says how many.
const LOADED_CONNECTIONS: u32 = 64;

fn plan(arguments: &MeasureArguments, test: Test) -> Result<Plan, Failure> {
    if test == Test::Cq && !arguments.sizes.is_empty() {
        return Err(Failure::new(
            "`--sizes` means nothing for `cq`",
            "its requests have 32 bytes; `--connections 1,16,1024` says how many connections",
        ));
    }
    if test != Test::Cq && !arguments.connections.is_empty() {
        return Err(Failure::new(
            format!("`--connections` means nothing for `{}`", test.name()),
            "it uses one connection; `viaduct measure cq` uses many",
        ));
    }
    if test != Test::Cq && arguments.hosts.is_some() {
        return Err(Failure::new(
            format!("`--hosts` means nothing for `{}`", test.name()),
            "it is between two hosts; `viaduct measure cq` can have many that ask one",
        ));
    }
    if test != Test::Cq && !arguments.loads.is_empty() {
        return Err(Failure::new(
            format!("`--load` means nothing for `{}`", test.name()),
            "it sends as fast as it goes; `viaduct measure cq` can offer a load",
        ));
    }
    let loads = arguments.loads.iter().map(|load| match load {
        Load::Auto => None,
        Load::Requests(requests_s) => Some(*requests_s),
    });
    let loads: Option<Vec<u32>> = loads.collect();
    if loads.is_none() && arguments.loads.len() > 1 {
        return Err(Failure::new(
            "`--load` has `auto` beside loads of its own",
            "give `--load auto` alone, or requests a second: --load 50k,100k",
        ));
    }
    if !arguments.loads.is_empty() && arguments.connections.len() > 1 {
        return Err(Failure::new(
            "`--load` has one row per load, and `--connections` more than one number",
            "give one number of connections, as in `--connections 64`",
        ));
    }
    let mut plan = Plan::usual(test);
    if !arguments.loads.is_empty() {
        plan.connections = vec![LOADED_CONNECTIONS];
        plan.loads_requests_s = loads.unwrap_or_default();
    }
    if !arguments.sizes.is_empty() {
        plan.sizes = arguments.sizes.iter().map(|size| size.0).collect();
    }
    if !arguments.connections.is_empty() {
        plan.connections.clone_from(&arguments.connections);
    }
    plan.mode = match arguments.mode {
        ModeName::Poll => Mode::Poll,
        ModeName::Block => Mode::Block,
    };
    plan.level = arguments.level.level();
    plan.is_touched = arguments.touch;
    plan.memory = if arguments.private {
        Memory::Private
    } else {
        Memory::Shared
    };
    plan.iterations = arguments.iterations;
    plan.is_counted = arguments.counts;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_a_second() {
        assert_eq!("auto".parse(), Ok(Load::Auto));
        for text in ["50000", "50k", " 50 k/s", "50000/s"] {
            assert_eq!(text.parse(), Ok(Load::Requests(50_000)), "{text}");
        }
        assert_eq!("2M".parse(), Ok(Load::Requests(2_000_000)));
        for wrong in ["", "0", "-1", "1.5k", "50K", "9999999M", "max", "5 m"] {
            assert!(wrong.parse::<Load>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!("8".parse(), Ok(Size(8)));
        assert_eq!("4KiB".parse(), Ok(Size(4096)));
        assert_eq!("1 MiB".parse(), Ok(Size(1 << 20)));
        assert_eq!("4294967295".parse(), Ok(Size(u32::MAX)));
        for wrong in ["4GiB", "", "KiB", "-1", "4KB", "99999999999999999999"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
