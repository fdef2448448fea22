//! `viaduct measure timesharing`: parallel programs that share the processors of simulated hosts.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use rayon::prelude::*;
use viaduct_engine::Time;
use viaduct_lanai::{
    ParallelProgram, Pattern, Phases, Scheduler, TimeSharing, Wait, Workload, time_share,
};
use viaduct_measure::{
    PatternKind, ProcessorShares, RequestTest, SMALL_BYTES, TimesharingReport, TimesharingRow,
    WaitKind,
};
use viaduct_scenario::parse_time;

use super::contention::Range;
use super::{Interface, Subject, check, check_disturbances, meaningless};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::measure::MeasureArguments;
use crate::output;

/// Hosts, with a process of each program.
const HOSTS: u32 = 16;

/// Programs, at most; four are what was published, and more say little.
const PROGRAMS_MAX: u16 = 16;

/// Rounds of a process, at most.
const ROUNDS_MAX: u64 = 10_000_000;

/// What only `timesharing` is told.
#[derive(Args, Debug)]
pub(crate) struct TimesharingArguments {
    /// Parallel programs of `timesharing`, one row each, as in `2..4` [default: 2..4]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    programs: Vec<Range>,
    /// How waiting processes wait: they spin, block, or spin for `--spin` and then block [default:
    /// spin,block,two-phase]
    #[arg(long = "wait", value_name = "KIND", value_delimiter = ',')]
    waits: Vec<WaitName>,
    /// Turn of a process under the scheduler of each host [default: 10 ms]
    #[arg(long, value_name = "TIME")]
    quantum: Option<Span>,
    /// How long a process looks before it blocks [default: 150 us]
    #[arg(long, value_name = "TIME")]
    spin: Option<Span>,
    /// What a switch from one process to another takes, caches included [default: 50 us]
    #[arg(long, value_name = "TIME")]
    switch: Option<Span>,
    /// What a process computes between two exchanges, one row each [default: 1 ms]
    #[arg(long = "grain", value_name = "TIME", value_delimiter = ',')]
    grains: Vec<Span>,
    /// How much less and more than its grain a process computes, percent, one row each [default: 0]
    #[arg(long = "imbalance", value_name = "PERCENT", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=100))]
    imbalances: Vec<u32>,
    /// With whom a process exchanges requests: the two beside it on a ring, or all others
    /// [default: neighbours]
    #[arg(long = "pattern", value_name = "KIND", value_delimiter = ',')]
    patterns: Vec<PatternName>,
    /// Whether the turns of different hosts end at random times, or at the same time [default:
    /// random]
    #[arg(long, value_name = "KIND")]
    phases: Option<PhasesName>,
}

impl TimesharingArguments {
    /// The first that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--programs", !self.programs.is_empty()),
            ("--wait", !self.waits.is_empty()),
            ("--quantum", self.quantum.is_some()),
            ("--spin", self.spin.is_some()),
            ("--switch", self.switch.is_some()),
            ("--grain", !self.grains.is_empty()),
            ("--imbalance", !self.imbalances.is_empty()),
            ("--pattern", !self.patterns.is_empty()),
            ("--phases", self.phases.is_some()),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(option, _)| option)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum WaitName {
    Spin,
    Block,
    TwoPhase,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PatternName {
    Neighbours,
    All,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum PhasesName {
    Random,
    Aligned,
}

/// A span of time: `10 ms`, `150us`.
#[derive(Clone, Copy, Debug)]
struct Span(Time);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |problem| format!("{problem}: a time is wanted, as in \"10 ms\"");
        parse_time(text.trim())
            .map(Self)
            .map_err(|error| wrong(error.problem))
    }
}

/// One row that is to be measured.
#[derive(Clone, Copy, Debug)]
struct Point {
    programs: u16,
    workload: Workload,
    wait: WaitName,
}

/// What all rows have.
#[derive(Clone, Debug)]
struct Setting {
    interface: Interface,
    frames: u16,
    seed: u64,
    quantum: Time,
    spin: Time,
    switch: Time,
    phases: Phases,
}

impl Setting {
    fn run(
        &self,
        wait: WaitName,
        programs: &[ParallelProgram],
        interrupt: &Interrupt,
    ) -> Option<TimeSharing> {
        let mut config = self.interface.config(HOSTS);
        config.frames = self.frames;
        config.seed = self.seed;
        let scheduler = Scheduler {
            quantum: self.quantum,
            switch: self.switch,
            wait: match wait {
                WaitName::Spin => Wait::Spin,
                WaitName::Block => Wait::Block,
                WaitName::TwoPhase => Wait::TwoPhase(self.spin),
            },
            phases: self.phases,
        };
        time_share(config, scheduler, programs, || interrupt.is_asked())
    }

    /// A row; none if Ctrl-C was pressed.
    fn row(&self, point: &Point, interrupt: &Interrupt) -> Option<TimesharingRow> {
        let workload = point.workload;
        let program = |number| ParallelProgram { number, workload };
        let programs: Vec<ParallelProgram> = (0..point.programs).map(program).collect();
        let alone = programs.iter().map(|program| {
            let alone = self.run(WaitName::Spin, &[*program], interrupt)?;
            Some(alone.total.seconds_f64())
        });
        let one_by_one_s = alone.sum::<Option<f64>>()?;
        let it = self.run(point.wait, &programs, interrupt)?;
        let together_s = it.total.seconds_f64();
        let first = it.programs.iter().min().copied().unwrap_or_default();
        let of_host_s = |count: u64| count as f64 / (together_s * f64::from(HOSTS));
        Some(TimesharingRow {
            programs: u32::from(point.programs),
            pattern: match workload.pattern {
                Pattern::Neighbours => PatternKind::Neighbours,
                Pattern::All => PatternKind::All,
            },
            grain_us: workload.grain.microseconds_f64(),
            imbalance_percent: workload.imbalance_percent,
            wait: match point.wait {
                WaitName::Spin => WaitKind::Spin,
                WaitName::Block => WaitKind::Block,
                WaitName::TwoPhase => WaitKind::TwoPhase,
            },
            rounds: workload.rounds,
            one_by_one_s,
            together_s,
            ratio: together_s / one_by_one_s,
            first_ratio: first.seconds_f64() / one_by_one_s,
            switches_s: of_host_s(it.switches),
            blocks_s: of_host_s(it.blocks),
            remaps_s: of_host_s(it.totals.remaps),
            shares: ProcessorShares {
                computing: it.shares.computing,
                messages: it.shares.messages,
                spinning: it.shares.spinning,
                kernel: it.shares.kernel,
                switching: it.shares.switching,
                idle: it.shares.idle,
            },
        })
    }
}

/// Measures time sharing.
pub(crate) fn timesharing(arguments: &MeasureArguments) -> Result<Exit, Failure> {
    let test = RequestTest::Timesharing.name();
    check(arguments, test)?;
    check_disturbances(arguments, test)?;
    let others = [
        (
            "--sizes",
            !arguments.sizes.is_empty(),
            "its requests have one size: --bytes 8192",
        ),
        (
            "--iterations",
            arguments.iterations.is_some(),
            "`--seconds` says how long each process computes",
        ),
        (
            "--plot",
            arguments.plot.is_some(),
            "its rows are no line: --json has all numbers",
        ),
        (
            "--cores",
            arguments.cores.is_some(),
            "its hosts are simulated",
        ),
    ];
    if let Some((option, _, why)) = others.into_iter().find(|(_, is_given, _)| *is_given) {
        return Err(meaningless(option, test, why));
    }
    if let Some(option) = arguments
        .contention
        .given_but_for(&["--frames", "--bytes", "--seconds"])
    {
        return Err(meaningless(
            option,
            test,
            "it is for `viaduct measure contention`",
        ));
    }
    let [fabric] = &arguments.fabrics[..] else {
        return Err(Failure::plain(
            "`timesharing` is measured on one fabric: --on sim:am-myrinet",
        ));
    };
    let subject = Subject::named(fabric, test)?;
    let origin = subject.origin();
    let interface = match subject {
        Subject::Simulated(interface) if interface.has_virtual_networks() => *interface,
        _ => {
            return Err(Failure::new(
                format!("`timesharing` cannot be measured on `{fabric}`"),
                "it needs hosts whose schedulers are simulated, and virtual networks: --on \
                 sim:am-myrinet",
            ));
        }
    };
    let setting = setting(arguments, interface)?;
    let (points, seconds) = points(arguments)?;
    if setting.frames < 2 && points.iter().any(|point| point.programs > 1) {
        return Err(Failure::new(
            "`--frames 1`: with one frame the endpoints of two programs push each other out for ever",
            "2 frames are enough for any number of programs, 8 are what was published",
        ));
    }
    let interrupt = Interrupt::listen();
    let rows: Vec<Option<TimesharingRow>> = points
        .par_iter()
        .map(|point| setting.row(point, &interrupt))
        .collect();
    let report = TimesharingReport {
        fabric: fabric.clone(),
        test: RequestTest::Timesharing,
        origin,
        hosts: HOSTS,
        quantum_us: setting.quantum.microseconds_f64(),
        spin_us: setting.spin.microseconds_f64(),
        switch_us: setting.switch.microseconds_f64(),
        is_aligned: setting.phases == Phases::Aligned,
        seconds,
        seed: setting.seed,
        rows: rows.into_iter().flatten().collect(),
    };
    let text = if arguments.json {
        report.to_json() + "\n"
    } else {
        report.table()
    };
    output::result(&text)?;
    Ok(if interrupt.is_asked() {
        Exit::Interrupted
    } else {
        Exit::Fine
    })
}

fn setting(arguments: &MeasureArguments, interface: Interface) -> Result<Setting, Failure> {
    let given = &arguments.timesharing;
    let span = |given: Option<Span>, usual_us| {
        given.map_or(Time::from_microseconds(usual_us), |span| span.0)
    };
    let frames = match arguments.contention.frames()[..] {
        [] => 8,
        [frames] => frames,
        _ => {
            return Err(Failure::plain(
                "`timesharing` takes one number of `--frames`",
            ));
        }
    };
    interface.check_hosts(HOSTS)?;
    let setting = Setting {
        interface,
        frames,
        seed: arguments.seed.unwrap_or(1),
        quantum: span(given.quantum, 10_000),
        spin: span(given.spin, 150),
        switch: span(given.switch, 50),
        phases: match given.phases {
            Some(PhasesName::Aligned) => Phases::Aligned,
            Some(PhasesName::Random) | None => Phases::Random,
        },
    };
    if setting.quantum <= setting.switch {
        return Err(Failure::new(
            format!(
                "`--quantum {}`: a turn ends before its process begins, since a switch takes {}",
                setting.quantum, setting.switch
            ),
            "10 ms to 100 ms are usual",
        ));
    }
    if setting.phases == Phases::Aligned && given.waits.iter().any(|it| *it != WaitName::Spin) {
        return Err(Failure::new(
            "`--phases aligned` is for processes that keep the processor while they wait",
            "add --wait spin",
        ));
    }
    Ok(setting)
}

/// The rows, and what each process computes in all.
fn points(arguments: &MeasureArguments) -> Result<(Vec<Point>, f64), Failure> {
    let given = &arguments.timesharing;
    let mut programs: Vec<u16> = given.programs.iter().flat_map(|it| it.numbers()).collect();
    if programs.is_empty() {
        programs = vec![2, 3, 4];
    }
    if let Some(count) = programs.iter().find(|count| **count > PROGRAMS_MAX) {
        return Err(Failure::new(
            format!("`--programs {count}`: at most {PROGRAMS_MAX} share the hosts"),
            "2 to 4 are usual",
        ));
    }
    let or = |given: &[Span], usual| match given {
        [] => vec![usual],
        given => given.iter().map(|it| it.0).collect(),
    };
    let grains = or(&given.grains, Time::from_milliseconds(1));
    let waits = match (&given.waits[..], given.phases) {
        ([], Some(PhasesName::Aligned)) => vec![WaitName::Spin],
        ([], _) => vec![WaitName::Spin, WaitName::Block, WaitName::TwoPhase],
        (waits, _) => waits.to_vec(),
    };
    let patterns = match &given.patterns[..] {
        [] => vec![PatternName::Neighbours],
        patterns => patterns.to_vec(),
    };
    let imbalances = match &given.imbalances[..] {
        [] => vec![0],
        imbalances => imbalances.to_vec(),
    };
    let bytes = arguments.contention.bytes_or(SMALL_BYTES)?;
    let seconds = arguments.contention.seconds_or(1.0)?;
    let mut points = Vec::new();
    for pattern in &patterns {
        for grain in &grains {
            let rounds = Time::from_seconds_f64(seconds).picoseconds() / grain.picoseconds().max(1);
            if !(1..=ROUNDS_MAX).contains(&rounds) {
                return Err(Failure::new(
                    format!("`--grain {grain}` of {seconds} s makes {rounds} rounds"),
                    "1 to 10,000,000 are measured: change --grain or --seconds",
                ));
            }
            for imbalance_percent in &imbalances {
                let workload = Workload {
                    rounds: rounds as u32,
                    grain: *grain,
                    imbalance_percent: *imbalance_percent,
                    pattern: match pattern {
                        PatternName::Neighbours => Pattern::Neighbours,
                        PatternName::All => Pattern::All,
                    },
                    bytes,
                };
                for wait in &waits {
                    points.extend(programs.iter().map(|programs| Point {
                        programs: *programs,
                        workload,
                        wait: *wait,
                    }));
                }
            }
        }
    }
    Ok((points, seconds))
}
