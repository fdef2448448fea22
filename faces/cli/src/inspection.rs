//! What is looked at of a measurement on simulated hosts beside its figures: one message, what
//! messages use, and all of them on a page.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_cluster::record::{Recording, Selection};
use viaduct_cluster::result::RunResult;
use viaduct_cluster::why::{Choice, WhyError};
use viaduct_engine::Time;
use viaduct_measure::LinkRow;
use viaduct_programs::{Simulation, explain};
use viaduct_report::{
    Explained, Provenance, Published, ShownCell, ShownRun, ShownStudy, Summary, count,
    explanation_document, explanation_text, run_page, timeline, violation_words,
};
use viaduct_topology::LinkId;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::picture::try_to_open;
use crate::resources::peak_rss_bytes;
use crate::showing::Commands;
use crate::simulated::Simulated;

/// Messages that a trace has.
const TRACED: u64 = 200;

/// What to look at.
#[derive(Args, Debug, Default)]
pub(crate) struct InspectionArguments {
    /// Say where the time of one message went, on simulated hosts: `slowest`, a number in order of
    /// posting, or a quantile of latency, as in `--why 0.99`
    #[arg(long, value_name = "WHICH")]
    why: Option<Which>,
    /// Write what the first 200 messages use into this file, for ui.perfetto.dev, on simulated
    /// hosts
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write a page about all messages into this file, on simulated hosts: latency, stages, links,
    /// time
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// Which message is explained.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Which(Choice);

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "slowest" {
            return Ok(Self(Choice::Slowest));
        }
        if let Ok(number) = text.parse() {
            return Ok(Self(Choice::Message(number)));
        }
        match text.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(Choice::Quantile(share))),
            _ => {
                Err("`slowest`, the number of a message, or a quantile from 0.0 to 1.0".to_owned())
            }
        }
    }
}

impl InspectionArguments {
    /// The first that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--why", self.why.is_some()),
            ("--trace", self.trace.is_some()),
            ("--report", self.report.is_some()),
        ];
        given
            .iter()
            .find_map(|(name, is_given)| is_given.then_some(*name))
    }

    /// Whether what was run is to be run again, for a message that is explained.
    pub(crate) const fn repeats(&self) -> bool {
        self.why.is_some()
    }

    /// Which messages are to be recorded, if a trace is wanted.
    pub(crate) fn selection(&self) -> Option<Selection> {
        self.trace.is_some().then_some(Selection {
            from: Time::ZERO,
            every: 1,
            count: TRACED,
        })
    }

    /// Whether an account of all messages is wanted.
    pub(crate) const fn wants_account(&self) -> bool {
        self.report.is_some() || self.trace.is_some()
    }

    /// Sees to it that its files can be written: whoever measures wants to know that before.
    ///
    /// # Errors
    ///
    /// When one cannot.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        for path in [&self.trace, &self.report].into_iter().flatten() {
            try_to_open(path).map_err(|error| unable(path, &error))?;
        }
        Ok(())
    }

    /// Looks at what has run: what is to be said of it, as text or as members of the JSON object.
    ///
    /// # Errors
    ///
    /// When there is no such message, or a file cannot be written.
    pub(crate) fn look(
        &self,
        looked: &LookedAt<'_>,
        account: Option<&Account>,
        interrupt: &Interrupt,
        is_json: bool,
    ) -> Result<String, Failure> {
        let mut said = String::new();
        if let Some(Which(choice)) = self.why {
            said += &explained(looked, choice, interrupt, is_json)?;
        }
        if let (Some(path), Some(account)) = (&self.trace, account) {
            let told = account.trace(path)?;
            if !is_json {
                said += &told;
            }
        }
        if let (Some(path), Some(account)) = (&self.report, account) {
            let page = account.page(&looked.subject);
            fs::write(path, page).map_err(|error| unable(path, &error))?;
            if !is_json {
                said += &format!("\n  report   {}\n", path.display());
            }
        }
        Ok(said)
    }
}

fn unable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::plain(format_args!("cannot write `{}`: {error}", path.display()))
}

/// What a page is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What ran.
    pub name: &'a str,
    /// The page's title.
    pub title: &'a str,
    /// What it answers.
    pub question: &'a str,
    /// How it ran, in a line.
    pub settings: &'a str,
}

/// What has run and is looked at.
#[derive(Clone, Copy)]
pub(crate) struct LookedAt<'a> {
    pub(crate) hosts: &'a Simulated,
    pub(crate) subject: Subject<'a>,
    /// Has it run once more.
    pub(crate) repeat: &'a dyn Fn(&mut Simulation),
}

/// Looks at a measurement, which has been made by these settings and is made again by `repeat`.
///
/// # Errors
///
/// As [`InspectionArguments::look`].
pub(crate) fn look_at_measurement(
    arguments: &InspectionArguments,
    (hosts, test, settings): (&Simulated, &str, &str),
    repeat: &dyn Fn(&mut Simulation),
    account: Option<&Account>,
    interrupt: &Interrupt,
    is_json: bool,
) -> Result<String, Failure> {
    let fabric = hosts.name();
    let subject = Subject {
        name: &format!("measure {test} on {fabric}"),
        title: &format!("{test} over {fabric}"),
        question: "Every message that the measuring programs sent, of all sizes, set-up included.",
        settings,
    };
    let looked = LookedAt {
        hosts,
        subject,
        repeat,
    };
    arguments.look(&looked, account, interrupt, is_json)
}

/// All messages of programs that have run, and their links.
#[derive(Debug)]
pub struct Account {
    config: ClusterConfig,
    result: RunResult,
    recording: Recording,
    wall_s: f64,
}

impl Account {
    /// Of a simulation that has run with [`Simulation::keep_account`], and with
    /// [`Simulation::record`] where a trace is wanted, and took so long. To be asked once.
    #[must_use]
    pub fn of(simulation: &Simulation, wall_s: f64) -> Self {
        let recording = simulation.recorded();
        let result = simulation.account();
        let mut config = ClusterConfig::clone(&simulation.configuration());
        // What is said of it is of programs, as long as they took.
        config.run.until = result.simulated;
        config.traffic.arrivals = Arrivals::Window(0);
        Self {
            config,
            result,
            recording,
            wall_s,
        }
    }

    /// The cluster as its run is told of.
    #[must_use]
    pub const fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// What was kept.
    #[must_use]
    pub const fn result(&self) -> &RunResult {
        &self.result
    }

    /// The first check of the run on itself that failed, or how it came to a standstill, and what
    /// helps.
    #[must_use]
    pub fn violation(&self) -> Option<(String, &'static str)> {
        let violation = self.result.violations.first()?;
        Some(violation_words(
            violation,
            self.result.ended.is_standstill(),
        ))
    }

    /// Links that carried anything.
    pub(crate) fn links(&self) -> Vec<LinkRow> {
        // What has crossed a link as a frame was in its queue.
        let has_queues = self
            .result
            .link_rows
            .iter()
            .any(|row| row.queue_max_bytes > 0);
        let has_frames = has_queues && self.config.links.sharing.goes_in_pieces();
        let trims = self
            .result
            .link_rows
            .iter()
            .any(|row| row.frames_trimmed > 0);
        let pauses = self.result.link_rows.iter().any(|row| row.pauses > 0);
        let rows = self.result.link_rows.iter();
        let rows = rows.filter(|row| row.wire_bytes > 0.0).map(|row| LinkRow {
            link: self.result.topology.link_name(LinkId(row.link)),
            packets: None,
            bytes: row.wire_bytes.round() as u64,
            busy_fraction: row.utilisation,
            queue_max_bytes: has_queues.then_some(row.queue_max_bytes),
            frames_lost: has_frames.then_some(row.frames_lost),
            frames_trimmed: trims.then_some(row.frames_trimmed),
            frames_marked: has_frames.then_some(row.frames_marked),
            // Where none pauses there is nothing to tell.
            pauses: pauses.then_some(row.pauses),
            paused_ps: pauses.then_some(row.paused.picoseconds()),
        });
        rows.collect()
    }

    /// The summary, of something that is called so.
    #[must_use]
    pub fn summary(&self, name: &str) -> Summary {
        let provenance = Provenance {
            study: name.to_owned(),
            version: VERSION.to_owned(),
            wall_s: self.wall_s,
            peak_rss_bytes: peak_rss_bytes(),
        };
        Summary::new(&provenance, &self.config, &self.result)
    }

    /// A page about all messages.
    #[must_use]
    pub fn page(&self, subject: &Subject<'_>) -> String {
        self.page_with(subject, &self.summary(subject.name), Vec::new())
    }

    /// The same with a summary that was made, and commands that make it again.
    pub(crate) fn page_with(
        &self,
        subject: &Subject<'_>,
        summary: &Summary,
        commands: Commands,
    ) -> String {
        let published = Published::default();
        let around = match self.result.around.posted {
            0 => String::new(),
            posted => format!(
                ", {} messages of the study's traffic around them",
                count(posted)
            ),
        };
        let run = ShownRun::new(summary, &self.result);
        let mut shown = subject.shown(&self.config, &published, run, commands);
        shown.headline += &around;
        run_page(&shown)
    }

    /// Writes what its first messages used: what is to be said of it.
    fn trace(&self, path: &Path) -> Result<String, Failure> {
        let file = timeline(&self.config, &self.recording);
        fs::write(path, file).map_err(|error| unable(path, &error))?;
        Ok(format!(
            "\n  trace    {}: {} messages, {} uses of hosts and links\n",
            path.display(),
            count(self.recording.messages.len() as u64),
            count(self.recording.uses.len() as u64)
        ))
    }
}

impl Subject<'_> {
    /// A run of it, as pages and pictures want it.
    pub(crate) fn shown<'a>(
        &self,
        config: &'a ClusterConfig,
        published: &'a Published,
        run: ShownRun<'a>,
        commands: Commands,
    ) -> ShownStudy<'a> {
        let hosts = u64::from(config.topology.host_count());
        ShownStudy {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            question: self.question.to_owned(),
            source: String::new(),
            headline: format!("{} hosts, {}", count(hosts), self.settings),
            version: run.summary.version.clone(),
            digest: run.summary.digest.clone(),
            runs_not_begun: 0,
            cells: vec![ShownCell {
                set: &[],
                published,
                config,
                scenario_toml: "",
                runs: vec![run],
            }],
            differences: Vec::new(),
            commands,
        }
    }
}

/// Has it run twice more and explains one of its messages.
fn explained(
    looked: &LookedAt<'_>,
    choice: Choice,
    interrupt: &Interrupt,
    is_json: bool,
) -> Result<String, Failure> {
    let mut config = None;
    let hosts = looked.hosts;
    let explanation = explain(hosts.config(), choice, |simulation| {
        config = Some(simulation.configuration());
        (looked.repeat)(simulation);
        !interrupt.is_asked()
    });
    let (explanation, config) = match (explanation, config) {
        (Ok(explanation), Some(config)) => (explanation, config),
        (Err(WhyError::NoSuchMessage { number, posted }), _) => {
            return Err(Failure::new(
                format!("there is no message {number}: {posted} were posted"),
                format!("numbers are 0 to {}", posted.saturating_sub(1)),
            ));
        }
        (Err(error), _) => return Err(Failure::plain(error)),
        (Ok(_), None) => return Err(Failure::plain("nothing was run")),
    };
    if let Some(violation) = explanation.violations.first() {
        return Err(broken(violation_words(
            violation,
            explanation.ended.is_standstill(),
        )));
    }
    let told = Explained {
        study: hosts.name(),
        version: VERSION,
        config: &config,
        choice,
        explanation: &explanation,
    };
    Ok(match is_json {
        true => format!(",\"why\":{}", explanation_document(&told).trim_end()),
        false => format!("\n{}", explanation_text(&told)),
    })
}

/// A JSON object on a line, with more members.
pub(crate) fn joined(mut object: String, members: &str) -> String {
    if !members.is_empty() {
        object.truncate(object.trim_end().len() - 1);
        object += &format!("{members}}}\n");
    }
    object
}

/// A run failed a check on itself, or came to a standstill.
pub(crate) fn broken((title, help): (String, &'static str)) -> Failure {
    Failure::Broken {
        title,
        help: Some(help.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_named_by_number_place_or_quantile() {
        assert_eq!("slowest".parse(), Ok(Which(Choice::Slowest)));
        assert_eq!("17".parse(), Ok(Which(Choice::Message(17))));
        assert_eq!("0.99".parse(), Ok(Which(Choice::Quantile(0.99))));
        for wrong in ["", "fastest", "-1", "1.5", "p99"] {
            assert!(wrong.parse::<Which>().is_err(), "{wrong}");
        }
    }
}
