//! `viaduct rdma --on sim:MODEL`: commands on simulated hosts, in simulated time, and what is to be
//! seen of them.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process;
use std::str::FromStr;
use std::time::Instant;

use clap::Args;
use viaduct_measure::busiest;
use viaduct_programs::Simulation;
use viaduct_report::{
    CellOutcome, Cost, Published, REPORT_FILE, RunDirectory, RunIdentity, Source, StudyOutcome,
    Summary, WarningSummary,
};

use super::RdmaArguments;
use super::commands::{Audience, Commands, Ended};
use super::record::{self, Order};
use crate::arguments::RerunArguments;
use crate::failure::{Exit, Failure};
use crate::former;
use crate::inspection::{self, Account, InspectionArguments, LookedAt, Subject};
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::output;
use crate::run::prepare;
use crate::showing::rerun_command;
use crate::simulated::Simulated;

/// What separates commands.
const SEPARATOR: &str = ":";

/// Messages that the tables of a run directory have as rows.
const MESSAGE_ROWS_MAX: u32 = 100_000;

/// What is for commands on simulated hosts alone.
#[derive(Args, Debug)]
pub(super) struct SimulatedArguments {
    /// Run commands on simulated hosts, in simulated time: sim:MODEL or sim:MODEL@STUDY, as
    /// `viaduct measure` takes them. Commands are separated by `:`, the first is on host 0
    #[arg(long = "on", value_name = "HOSTS")]
    pub(super) on: Option<String>,
    /// With --on: one command starts the others, so many, whose ranks say which host each is on
    #[arg(long, value_name = "NUMBER", requires = "on", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    hosts: Option<u32>,
    /// With --on: only the network of the STUDY in `sim:MODEL@STUDY`, without its traffic
    #[arg(long, requires = "on")]
    no_traffic: bool,
    /// With --on: seed of random draws, of faults and traffic [default: the study's, else 1]
    #[arg(long, value_name = "N", requires = "on")]
    seed: Option<u64>,
    /// With --on: what the programs compute between their calls takes no time (free), or the time
    /// that the processor needs for it, times SCALE (measured, measured:2.5), which is another in
    /// each run: no two are the same [default: free]
    #[arg(long, value_name = "free|measured[:SCALE]", requires = "on")]
    compute: Option<Computing>,
    /// With --on: fail with exit code 2 if times may differ from run to run, of which a warning
    /// tells, such as of a computation that was taken for a wait for memory
    #[arg(long, requires = "on")]
    strict: bool,
    /// With --on: tell how busy links were
    #[arg(long, requires = "on")]
    links: bool,
    #[command(flatten)]
    inspection: InspectionArguments,
    /// With --on: leave a run directory, with a page and tables, which `viaduct rerun` runs again
    #[arg(long, value_name = "DIR", requires = "on")]
    out: Option<PathBuf>,
    /// Replace whatever run is at the place of `--out`: of other commands, or with other settings
    #[arg(long, requires = "out")]
    force: bool,
    /// With --on: fail with exit code 2 if the run has another digest than this one, which an
    /// earlier run printed
    #[arg(long, value_name = "DIGEST", requires = "on")]
    expect: Option<Digest>,
}

impl SimulatedArguments {
    /// An option that was given and has no meaning between processes of this machine.
    pub(super) fn given(&self) -> Option<&'static str> {
        self.inspection.given()
    }
}

/// A digest as runs print it.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Digest(String);

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        match text.len() == 16 && text.chars().all(is_digit) {
            true => Ok(Self(text.to_owned())),
            false => Err("16 hexadecimal digits are wanted, as an earlier run printed".to_owned()),
        }
    }
}

/// What computing takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Computing {
    Free,
    /// The processor's time, times so much.
    Measured(f64),
}

impl Computing {
    const fn scale(self) -> Option<f64> {
        match self {
            Self::Free => None,
            Self::Measured(scale) => Some(scale),
        }
    }
}

impl FromStr for Computing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, scale) = text.split_once(':').unwrap_or((text, "1"));
        match (word, scale.parse()) {
            ("free", _) if text == word => Ok(Self::Free),
            ("measured", Ok(scale)) if (0.001..=1e6).contains(&scale) => Ok(Self::Measured(scale)),
            ("measured", _) => Err("the scale is a number from 0.001 to 1000000".to_owned()),
            _ => Err("`free`, `measured` or `measured:SCALE` is wanted".to_owned()),
        }
    }
}

/// What is wanted of a run beside its running.
struct Wanted<'a> {
    inspection: &'a InspectionArguments,
    links: bool,
    out: Option<&'a Path>,
    force: bool,
}

/// How a run went.
enum Outcome {
    /// All commands ended.
    Ran {
        /// Of every message and the final counts.
        digest: String,
        /// Of the first command that failed, else 0.
        code: i32,
        /// Warnings that times may differ from run to run.
        notices: usize,
    },
    /// The user stopped it.
    Stopped,
}

/// Runs commands, the first on host 0 and so on.
pub(super) fn run(name: &str, arguments: &RdmaArguments) -> Result<Exit, Failure> {
    check(arguments)?;
    let given = &arguments.simulated;
    let commands = commands(&arguments.program)?;
    if given.out.is_some()
        && let Some(word) = commands
            .iter()
            .flatten()
            .find(|word| word.to_str().is_none())
    {
        return Err(Failure::new(
            format!("`--out`: `{}` is no text", word.display()),
            "a run directory keeps commands in UTF-8",
        ));
    }
    let mut hosts = record::hosts(name, given.hosts, commands.len() as u32)?;
    if let Some(seed) = given.seed {
        hosts.draw_from(seed);
    }
    let mut order = Order::new(&hosts, given.hosts, !given.no_traffic, &commands);
    order.computing_scale = given.compute.and_then(Computing::scale);
    let wanted = Wanted {
        inspection: &given.inspection,
        links: given.links,
        out: given.out.as_deref(),
        force: given.force,
    };
    let expected = given.expect.as_ref();
    let expected = expected.map(|Digest(digest)| (digest.as_str(), "was expected"));
    let outcome = carry_out(&order, &commands, &wanted)?;
    let exit = judge(&outcome, expected, given.strict);
    Ok(outcome.end(exit))
}

/// Runs the commands of a run directory again, and compares digests.
pub(super) fn rerun(order: &Order, arguments: &RerunArguments) -> Result<Exit, Failure> {
    if arguments.display.json {
        return Err(Failure::new(
            "`--json` means nothing for a run of programs, which print what they print",
            "`--out NEW_DIR` leaves summary.json",
        ));
    }
    let former = former::programs_summary(&arguments.directory)?;
    if !arguments.display.quiet {
        former::warn_of_version([&former].into_iter());
    }
    let wanted = Wanted {
        inspection: &InspectionArguments::default(),
        links: false,
        out: arguments.out.as_deref(),
        force: false,
    };
    let outcome = carry_out(order, &order.commands(), &wanted)?;
    let place = match order.computing_scale {
        Some(_) => "in the directory: computing was measured, which is another in each run",
        None => "in the directory",
    };
    let exit = judge(&outcome, Some((&former.digest, place)), false);
    if exit == Exit::Fine {
        output::result(&format!(
            "\n  rerun    the same digest, {}\n",
            former.digest
        ))?;
    }
    Ok(outcome.end(exit))
}

/// Says no to what has no meaning on simulated hosts.
fn check(arguments: &RdmaArguments) -> Result<(), Failure> {
    let what = "the model says what adapters are";
    let counted = "what crosses is simulated: --links, --report";
    let adapters = &arguments.adapters;
    let given = [
        ("--devices", adapters.devices.is_some(), what),
        ("--link", adapters.link.is_some(), what),
        ("--mtu", adapters.mtu.is_some(), what),
        ("--gids", !adapters.gids.is_empty(), what),
        (
            "--fault",
            !adapters.faults.is_empty(),
            "a study says what goes wrong: --on sim:MODEL@STUDY",
        ),
        ("--report-dead-peers", adapters.report_dead_peers, what),
        ("--share-memory", adapters.share_memory, what),
        ("--stats", arguments.stats, counted),
        ("--require-rdma", arguments.require_rdma, counted),
    ];
    if let Some((option, _, why)) = given.into_iter().find(|(_, is_given, _)| *is_given) {
        let title = format!("`{option}` means nothing with `--on`");
        return Err(Failure::new(title, why));
    }
    let simulated = &arguments.simulated;
    let of_equal_runs = [
        ("--strict", simulated.strict),
        ("--expect", simulated.expect.is_some()),
        ("--why", simulated.inspection.repeats()),
    ];
    match of_equal_runs.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) if matches!(simulated.compute, Some(Computing::Measured(_))) => {
            Err(Failure::new(
                format!("`{option}` is for runs that are the same each time"),
                "leave out `--compute measured`: what computing takes is another in each run",
            ))
        }
        _ => Ok(()),
    }
}

/// The commands between separators.
fn commands(words: &[OsString]) -> Result<Vec<Vec<OsString>>, Failure> {
    let commands: Vec<&[OsString]> = words.split(|word| word == SEPARATOR).collect();
    if commands.iter().any(|words| words.is_empty()) {
        let help = "as in: viaduct rdma --on sim:rnic-gen5 -- SERVER : CLIENT host0";
        return Err(Failure::new("an empty command beside a `:`", help));
    }
    Ok(commands.into_iter().map(<[OsString]>::to_vec).collect())
}

/// Runs what was ordered, and looks at it as is wanted.
fn carry_out(
    order: &Order,
    commands: &[Vec<OsString>],
    wanted: &Wanted<'_>,
) -> Result<Outcome, Failure> {
    let hosts = order.hosts()?;
    let (name, typed, text) = (order.name(), order.typed(), order.text());
    let seeds = [order.seed];
    let identity = RunIdentity {
        study: &name,
        source: Source::Programs(&text),
        seeds: &seeds,
    };
    wanted.inspection.prepare()?;
    let mut directory = wanted
        .out
        .map(|path| prepare(path, identity, wanted.force))
        .transpose()?;
    let interrupt = Interrupt::listen();
    let commands = Commands::new(order, commands, hosts.config(), &interrupt)?;

    let started = Instant::now();
    let mut simulation = Simulation::new(hosts.config().clone());
    simulation.keep_account(directory.as_ref().map_or(0, |_| MESSAGE_ROWS_MAX));
    if let Some(selection) = wanted.inspection.selection() {
        simulation.record(selection);
    }
    let ended = commands.run(&mut simulation, Audience::User)?;
    let account = Account::of(&simulation, started.elapsed().as_secs_f64());
    let messages = simulation.counts().messages;
    drop(simulation);
    let mut summary = account.summary(&name);
    if let Some(directory) = &mut directory {
        directory.keep_output(commands.output());
    }
    let (time, failed, notices, remarks) = match ended {
        Ended::Whole {
            time,
            failed,
            notices,
            remarks,
        } => (time, failed, notices, remarks),
        Ended::Stopped => return Ok(Outcome::Stopped),
        Ended::Broken(failure) => {
            if let Some(directory) = &directory {
                summary.warnings.push(warning(&failure.title()));
                leave(directory, order, &account, summary)?;
                output::note(&format!("  data     {}/\n", directory.path().display()));
            }
            return Err(failure);
        }
    };
    if let Some(violation) = account.violation() {
        return Err(inspection::broken(violation));
    }
    let told = failed.iter().map(|(_, how)| how);
    let told = told.chain(&notices).chain(&remarks);
    summary.warnings.extend(told.map(|text| warning(text)));
    let digest = summary.digest.clone();
    output::note(&format!(
        "{}: {:.3} us of simulated time, {messages} messages, digest {digest}{}\n",
        order.on,
        time as f64 / 1e6,
        match order.computing_scale {
            Some(_) => ", computing measured: another in each run",
            None => "",
        }
    ));
    let subject = record::subject(&name, &typed);
    let mut said = String::new();
    if wanted.links {
        let percent = |busy| format!("{busy:.3}");
        said += &format!("  {}\n", busiest(&account.links(), percent));
    }
    // Kept before it is looked at, which may fail.
    if let Some(directory) = &directory {
        leave(directory, order, &account, summary)?;
    }
    said += &look(
        &hosts,
        &commands,
        subject,
        wanted.inspection,
        &account,
        &interrupt,
    )?;
    if let Some(directory) = &directory {
        let path = directory.path();
        said += &format!(
            "\n  report   {}\n  data     {}/\n  next     viaduct rerun {}\n",
            path.join(REPORT_FILE).display(),
            path.display(),
            path.display()
        );
    }
    output::result(&said)?;
    Ok(Outcome::Ran {
        digest,
        code: failed.map_or(0, |(code, _)| code),
        notices: notices.len(),
    })
}

/// What is to be said of a run, which is repeated, unheard, where that is needed.
fn look(
    hosts: &Simulated,
    commands: &Commands<'_>,
    subject: Subject<'_>,
    inspection: &InspectionArguments,
    account: &Account,
    interrupt: &Interrupt,
) -> Result<String, Failure> {
    let failed = RefCell::new(None);
    let repeat = |simulation: &mut Simulation| match commands.run(simulation, Audience::Nobody) {
        Ok(Ended::Broken(failure)) | Err(failure) => drop(failed.replace(Some(failure))),
        Ok(Ended::Whole { .. } | Ended::Stopped) => {}
    };
    let looked = LookedAt {
        hosts,
        subject,
        repeat: &repeat,
    };
    let said = inspection.look(&looked, Some(account), interrupt, false);
    failed.take().map_or(said, Err)
}

/// What the page and the summary say of what went wrong.
fn warning(text: &str) -> WarningSummary {
    WarningSummary {
        text: text.to_owned(),
        help: None,
    }
}

/// Leaves a run directory.
fn leave(
    directory: &RunDirectory,
    order: &Order,
    account: &Account,
    summary: Summary,
) -> Result<(), Failure> {
    let (name, typed, text) = (order.name(), order.typed(), order.text());
    let command = (order.command(), "The command that made this:".to_owned());
    let commands = std::iter::once(command).chain(rerun_command(directory.path()));
    let subject = record::subject(&name, &typed);
    let page = account.page_with(&subject, &summary, commands.collect());
    let outcome = StudyOutcome {
        study: name,
        version: VERSION.to_owned(),
        cost: Some(Cost {
            wall_s: summary.wall_s,
            peak_rss_bytes: summary.peak_rss_bytes,
        }),
        cells: vec![CellOutcome::of_run(Published::default(), summary)],
        runs_not_begun: 0,
    };
    let results = std::slice::from_ref(account.result());
    directory
        .write(Source::Programs(&text), &outcome, results, Some(&page))
        .map_err(Failure::plain)
}

impl Outcome {
    /// Ends with the exit code of the programs, if one failed; else with this one.
    fn end(&self, exit: Exit) -> Exit {
        match *self {
            // As a shell says it.
            Self::Ran { code, .. } if code != 0 => process::exit(code),
            _ => exit,
        }
    }
}

/// Compares the digest, and says how the command ends if all programs went well.
fn judge(outcome: &Outcome, expected: Option<(&str, &str)>, is_strict: bool) -> Exit {
    let Outcome::Ran {
        digest, notices, ..
    } = outcome
    else {
        return Exit::Interrupted;
    };
    match expected {
        Some((expected, place)) if expected != digest => {
            let title = format!("digest {digest}, and {expected} {place}");
            let help = "the programs, their files, the model or the study differ; or a warning \
                        says why times may";
            output::message("error", &title, Some(help));
            Exit::AssumptionBroke
        }
        _ if is_strict && *notices > 0 => {
            let title = "`--strict`: times may differ from run to run, as the warning says";
            output::message("error", title, None);
            Exit::AssumptionBroke
        }
        _ => Exit::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_is_free_or_measured_times_a_number() {
        assert_eq!("free".parse(), Ok(Computing::Free));
        assert_eq!("measured".parse(), Ok(Computing::Measured(1.0)));
        assert_eq!("measured:2.5".parse(), Ok(Computing::Measured(2.5)));
        for wrong in [
            "",
            "free:1",
            "measured:",
            "measured:0",
            "measured:-1",
            "measured:nan",
            "measured:2x",
            "instructions",
        ] {
            assert!(wrong.parse::<Computing>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_digest_is_16_hexadecimal_digits() {
        let digest = "0123456789abcdef";
        assert_eq!(digest.parse(), Ok(Digest(digest.to_owned())));
        for wrong in [
            "",
            "0123",
            "0123456789abcdeg",
            "0123456789ABCDEF",
            "0x23456789abcdef",
        ] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
