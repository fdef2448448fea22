//! `viaduct why`: where every picosecond of one message went.

use std::cmp::Reverse;

use clap::Args;
use viaduct_cluster::why::{Choice, Explanation, Fate, WhyError, explain};
use viaduct_report::{Explained, explanation_document, explanation_text};

use crate::arguments::ScenarioArguments;
use crate::describe;
use crate::failure::{Exit, Failure};
use crate::jobs::VERSION;
use crate::output;
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
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress and no warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Which message.
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
}

impl ChoiceArguments {
    fn choice(&self) -> Choice {
        match (self.message, self.quantile) {
            (Some(number), _) => Choice::Message(number),
            (None, Some(quantile)) => Choice::Quantile(quantile),
            (None, None) => Choice::Slowest,
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1 is needed, as in `--quantile 0.99`".to_owned()),
    }
}

/// Runs a study twice and explains one of its messages.
pub(crate) fn why(arguments: &WhyArguments) -> Result<Exit, Failure> {
    let scenario = &arguments.scenario;
    let watched = WatchedRun::new("why", scenario, arguments.seed, 2, arguments.quiet)?;
    let (plan, config) = (watched.plan(), watched.config());
    let choice = arguments.choice.choice();
    let explained = explain(config, choice, &mut |time, progress| {
        watched.follow(time, &progress)
    });
    let explanation = match explained {
        Ok(explanation) => explanation,
        Err(WhyError::Interrupted) => return Ok(Exit::Interrupted),
        Err(error) => return Err(refused(&plan.study, &error)),
    };
    for run in 0..2 {
        watched.bar.run_done(run, explanation.events);
    }
    watched.bar.finish();
    let explained = Explained {
        study: &plan.study,
        version: VERSION,
        config,
        choice,
        explanation: &explanation,
    };
    if arguments.json {
        output::result(&explanation_document(&explained))?;
    } else {
        let headline = describe::headline(plan);
        let next = match arguments.quiet {
            true => String::new(),
            false => next_line(arguments, &explanation),
        };
        output::result(&format!("{headline}{}{next}", explanation_text(&explained)))?;
    }
    for violation in &explanation.violations {
        let title = format!("a check of the run on itself failed: {violation}");
        let help = "do not use these results; this is an error in the program, please report it";
        output::message("error", &title, Some(help));
    }
    Ok(if explanation.violations.is_empty() {
        Exit::Fine
    } else {
        Exit::AssumptionBroke
    })
}

/// The message that was met longest, as one more command.
fn next_line(arguments: &WhyArguments, explanation: &Explanation) -> String {
    let Fate::Delivered(account) = &explanation.fate else {
        return String::new();
    };
    let waits = account.waits.iter().flat_map(|wait| &wait.longest);
    let shared = account.way.places.iter().flat_map(|place| &place.longest);
    let met = waits
        .chain(shared)
        .filter(|overlap| overlap.message.is_some());
    let longest = met.max_by_key(|overlap| (overlap.time, Reverse(overlap.message)));
    let Some(message) = longest.and_then(|overlap| overlap.message) else {
        return String::new();
    };
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
    format!(
        "\n  next     viaduct why {}{set}{} --message {}\n",
        arguments.scenario.scenario,
        seed.unwrap_or_default(),
        message.number
    )
}

fn refused(study: &str, error: &WhyError) -> Failure {
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
        WhyError::Run(error) => Failure::plain(format_args!("{study} cannot be run: {error}")),
        error => Failure::plain(error),
    }
}
