//! `viaduct why`: where every picosecond of one message went, or of a whole application.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::why::{
    Choice, CriticalPath, Doing, Explanation, Fate, WhyError, critical_path, explain,
};
use viaduct_engine::Time;
use viaduct_report::{
    Explained, ExplainedPath, critical_path_document, critical_path_page, critical_path_text,
    critical_path_timeline, explanation_document, explanation_text, violation_words,
};

use crate::arguments::ScenarioArguments;
use crate::describe;
use crate::failure::{Exit, Failure};
use crate::jobs::VERSION;
use crate::output;
use crate::picture::try_to_open;
use crate::watched::WatchedRun;

#[derive(Args, Debug)]
pub(crate) struct WhyArguments {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArguments,
    #[command(flatten)]
    pub(crate) choice: ChoiceArguments,
    /// Seed of all random streams [default: the scenario's]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Write the critical path as a page for a browser
    #[arg(long, value_name = "FILE", conflicts_with_all = ["message", "slowest", "quantile"])]
    pub(crate) report: Option<PathBuf>,
    /// Write the critical path as a time line for Perfetto's viewer
    #[arg(long, value_name = "FILE", conflicts_with_all = ["message", "slowest", "quantile"])]
    pub(crate) trace: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress and no warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Which message, or that it is the application.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ChoiceArguments {
    /// The message with this number, as in the column `message` of messages.parquet
    #[arg(long, value_name = "N")]
    pub(crate) message: Option<u64>,
    /// The slowest measured message
    #[arg(long)]
    pub(crate) slowest: bool,
    /// The measured message at this quantile of latency, 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) quantile: Option<f64>,
    /// No message, but the application, a graph of operations or a collective: which operations and
    /// messages it waited for, one after the other, from its start to its end
    #[arg(long)]
    pub(crate) critical_path: bool,
}

impl ChoiceArguments {
    /// None if it is the application.
    fn choice(&self) -> Option<Choice> {
        match (self.message, self.quantile, self.critical_path) {
            (Some(number), ..) => Some(Choice::Message(number)),
            (None, Some(quantile), _) => Some(Choice::Quantile(quantile)),
            (None, None, false) => Some(Choice::Slowest),
            (None, None, true) => None,
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1 is needed, as in `--quantile 0.99`".to_owned()),
    }
}

/// What was found out, and how it is told.
struct Told {
    text: String,
    document: String,
    /// Files, which have not been written.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// The number of the message to ask for next.
    next: Option<u64>,
    events: u64,
    is_standstill: bool,
    violations: Vec<String>,
}

/// Runs a study twice and explains one of its messages, or its application.
pub(crate) fn why(arguments: &WhyArguments) -> Result<Exit, Failure> {
    let scenario = &arguments.scenario;
    let watched = WatchedRun::new("why", scenario, arguments.seed, 2, arguments.quiet)?;
    let (study, config) = (&watched.plan().study, watched.config());
    // A place that cannot be written is an error before the run, not after it.
    for path in [&arguments.report, &arguments.trace].into_iter().flatten() {
        try_to_open(path).map_err(|error| unwritable(path, &error))?;
    }
    let told = match arguments.choice.choice() {
        Some(choice) => message(study, config, choice, &watched),
        None => application(arguments, config, &watched),
    };
    let told = match told {
        Ok(told) => told,
        Err(WhyError::Interrupted) => return Ok(Exit::Interrupted),
        Err(error) => return Err(refused(study, &error)),
    };
    for run in 0..2 {
        watched.bar.run_done(run, told.events);
    }
    watched.bar.finish();
    for (path, content) in &told.files {
        fs::write(path, content).map_err(|error| unwritable(path, &error))?;
    }
    if arguments.json {
        output::result(&told.document)?;
    } else {
        let headline = describe::headline(watched.plan());
        let next = told.next.filter(|_| !arguments.quiet);
        let next = next.map_or(String::new(), |number| {
            let command = command(arguments, &format!("--message {number}"));
            format!("\n  next     {command}\n")
        });
        output::result(&format!("{headline}{}{next}", told.text))?;
    }
    for violation in &told.violations {
        let (title, help) = violation_words(violation, told.is_standstill);
        output::message("error", &title, Some(help));
    }
    Ok(if told.violations.is_empty() {
        Exit::Fine
    } else {
        Exit::AssumptionBroke
    })
}

fn message(
    study: &str,
    config: &ClusterConfig,
    choice: Choice,
    watched: &WatchedRun,
) -> Result<Told, WhyError> {
    let explanation = explain(config, choice, &mut |time, progress| {
        watched.follow(time, &progress)
    })?;
    let explained = Explained {
        study,
        version: VERSION,
        config,
        choice,
        explanation: &explanation,
    };
    Ok(Told {
        text: explanation_text(&explained),
        document: explanation_document(&explained),
        files: Vec::new(),
        next: met_longest(&explanation),
        events: explanation.events,
        is_standstill: explanation.ended.is_standstill(),
        violations: explanation.violations,
    })
}

fn application(
    arguments: &WhyArguments,
    config: &ClusterConfig,
    watched: &WatchedRun,
) -> Result<Told, WhyError> {
    let path = critical_path(config, &mut |time, progress| {
        watched.follow(time, &progress)
    })?;
    let explained = ExplainedPath {
        study: &watched.plan().study,
        version: VERSION,
        config,
        path: &path,
    };
    let mut files = Vec::new();
    if let Some(report) = &arguments.report {
        let headline = describe::headline(watched.plan());
        let command = command(arguments, "--critical-path");
        let page = critical_path_page(&explained, headline.trim_end(), &command);
        files.push((report.clone(), page.into_bytes()));
    }
    if let Some(trace) = &arguments.trace {
        files.push((trace.clone(), critical_path_timeline(&explained)));
    }
    Ok(Told {
        text: critical_path_text(&explained),
        document: critical_path_document(&explained),
        files,
        next: waited_longest(&path),
        events: path.events,
        is_standstill: path.ended.is_standstill(),
        violations: path.violations,
    })
}

/// The message of a critical path that was held up longest by others.
fn waited_longest(path: &CriticalPath) -> Option<u64> {
    let waited = path.steps.iter().filter_map(|step| match &step.doing {
        Doing::Message { message, .. } => Some((step.waited(), Reverse(message.number))),
        _ => None,
    });
    let longest = waited.filter(|(waited, _)| *waited > Time::ZERO).max();
    longest.map(|(_, Reverse(number))| number)
}

/// The message that was met longest.
fn met_longest(explanation: &Explanation) -> Option<u64> {
    let Fate::Delivered(account) = &explanation.fate else {
        return None;
    };
    let waits = account.waits.iter().flat_map(|wait| &wait.longest);
    let shared = account.way.places.iter().flat_map(|place| &place.longest);
    let met = waits
        .chain(shared)
        .filter(|overlap| overlap.message.is_some());
    let longest = met.max_by_key(|overlap| (overlap.time, Reverse(overlap.message)));
    longest
        .and_then(|overlap| overlap.message)
        .map(|message| message.number)
}

/// The command that explains something else of the same run.
fn command(arguments: &WhyArguments, choice: &str) -> String {
    let set: String = arguments
        .scenario
        .overrides
        .iter()
        .map(|text| match text.split_once('=') {
            Some((key, value)) => format!(" --set {key}=\"{value}\""),
            None => format!(" --set {text}"),
        })
        .collect();
    let seed = arguments.seed.map(|seed| format!(" --seed {seed}"));
    let (scenario, seed) = (&arguments.scenario.scenario, seed.unwrap_or_default());
    format!("viaduct why {scenario}{set}{seed} {choice}")
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::plain(format_args!("cannot write `{}`: {error}", path.display()))
}

pub(crate) fn refused(study: &str, error: &WhyError) -> Failure {
    match error {
        WhyError::NoSuchMessage { posted: 0, .. } => Failure::plain(error),
        WhyError::NoSuchMessage { posted, .. } => Failure::new(
            error.to_string(),
            format!("numbers are 0 to {}", posted - 1),
        ),
        WhyError::NothingMeasured => Failure::new(
            "no message was measured: none was delivered of those posted after the warm-up",
            "run longer or with a shorter warm-up, or ask for one with `--message N`",
        ),
        WhyError::NoApplication => Failure::new(
            format!("{study} has no critical path: its traffic is no graph of operations"),
            "`traffic.arrivals = \"collective\"`, `\"program\"`, `\"goal\"`, `\"chakra\"` or \
             `\"simgrid\"` makes one; messages are explained with `--slowest`, `--quantile` or `--message`",
        ),
        WhyError::Run(error) => Failure::of_run(study, error),
        error => Failure::plain(error),
    }
}
