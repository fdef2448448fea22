//! `viaduct run`.

use std::path::{Path, PathBuf};

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::result::RunResult;
use viaduct_operations::collective::Algorithm;
use viaduct_report::{
    CellOutcome, DirectoryError, REPORT_FILE, RunDirectory, RunIdentity, StudyOutcome, Summary,
    cell_table, document, run_cells_table, scenario_hash,
};

use crate::arguments::{DisplayArguments, RunArguments};
use crate::describe;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::jobs::{Plan, VERSION};
use crate::output;
use crate::planning::Prepared;
use crate::progress::Bar;
use crate::showing;

/// The folder of run directories that were not placed by `--out`.
pub(crate) const RUNS_FOLDER: &str = "runs";

/// Runs a study or a scenario file.
pub(crate) fn run(arguments: &RunArguments) -> Result<Exit, Failure> {
    let prepared = Prepared::new(&arguments.scenario, &arguments.seeds)?;
    let display = &arguments.display;
    if !display.quiet {
        prepared.print_warnings();
    }
    let place = Place::new(arguments, &prepared);
    // A place that cannot be written is an error before the run, not after it.
    let prepare = |path: PathBuf| prepare(&path, prepared.identity(), arguments.force);
    let directory = place.path(false).map(prepare).transpose()?;
    let interrupt = Interrupt::listen();

    if !display.json {
        output::result(&describe::headline(&prepared.plan))?;
        output::result(&describe::bounds(&prepared.plan))?;
    }
    let (outcome, results) = execute(&prepared.plan, display, &interrupt)?;
    let directory = match place.path(outcome.is_interrupted()) {
        Some(path) if directory.as_ref().is_some_and(|known| known.path() != path) => {
            Some(prepare(path)?)
        }
        _ => directory,
    };
    // Kept before it is shown: a reader that has gone away costs the user nothing.
    let directory = directory.filter(|_| !outcome.cells.is_empty());
    if let Some(directory) = &directory {
        let commands = showing::run_commands(arguments, directory.path());
        let page = showing::page(&prepared, &outcome, &results, commands);
        directory
            .write(prepared.source(), &outcome, &results, Some(&page))
            .map_err(|error| Failure::new(error.to_string(), OUT_HELP))?;
    }
    show(&outcome, display)?;
    if !display.json && !display.quiet {
        let next = next_line(&arguments.scenario.scenario, &prepared.plan, &outcome);
        output::result(&(data_line(directory.as_ref()) + &next))?;
    }
    Ok(judge(&outcome, display))
}

const OUT_HELP: &str = "choose another place with `--out DIR`, or leave nothing with `--no-out`";

const OTHER_RUNS_HELP: &str = "choose another place with `--out DIR`, or replace that run with `--force`, as in \
     `viaduct run --out DIR --force`";

/// Makes sure that a run directory can be written.
pub(crate) fn prepare(
    path: &Path,
    runs: RunIdentity<'_>,
    force: bool,
) -> Result<RunDirectory, Failure> {
    RunDirectory::prepare(path, runs, force).map_err(|error| {
        let help = match error {
            DirectoryError::OtherStudy { .. } | DirectoryError::OtherSettings { .. } => {
                OTHER_RUNS_HELP
            }
            _ => OUT_HELP,
        };
        Failure::new(error.to_string(), help)
    })
}

/// Runs a plan under a progress bar; gives what each run left beside the outcome.
pub(crate) fn execute(
    plan: &Plan,
    display: &DisplayArguments,
    interrupt: &Interrupt,
) -> Result<(StudyOutcome, Vec<RunResult>), Failure> {
    let bar = Bar::new(plan.run_count(), display.quiet);
    plan.run(display.threads, &bar, interrupt)
}

/// Prints the results: the object, or the table.
pub(crate) fn show(outcome: &StudyOutcome, display: &DisplayArguments) -> Result<(), Failure> {
    if display.json {
        return output::result(&document(outcome));
    }
    // The head line was printed before: it says how long the runs would take.
    let stopped = describe::stopped(outcome.summaries());
    if !stopped.is_empty() {
        output::result(&format!("  {stopped}\n"))?;
    }
    match outcome.cells.as_slice() {
        [] => output::result("\nstopped before the first result\n"),
        [cell] if !outcome.is_sweep() => {
            output::result(&format!("\n{}", cell_table(&cell.record())))
        }
        _ => output::result(&format!("\n{}", run_cells_table(outcome))),
    }
}

/// Says on stderr what must be known of the runs, and gives the exit code.
pub(crate) fn judge(outcome: &StudyOutcome, display: &DisplayArguments) -> Exit {
    if !display.quiet {
        for (place, summary) in labelled_runs(outcome) {
            for warning in &summary.warnings {
                let title = format!("{place}{}", warning.text);
                output::message("warning", &title, warning.help.as_deref());
            }
        }
    }
    let mut is_sound = true;
    for (place, summary) in labelled_runs(outcome) {
        for violation in &summary.violations {
            is_sound = false;
            let (title, help) = summary.told(violation);
            output::message("error", &format!("{place}{title}"), Some(help));
        }
    }
    if outcome.runs_not_begun > 0 {
        output::note(&format!(
            "note: {} runs were not begun\n",
            outcome.runs_not_begun
        ));
    }
    match (is_sound, outcome.is_interrupted()) {
        (false, _) => Exit::AssumptionBroke,
        (true, true) => Exit::Interrupted,
        (true, false) => Exit::Fine,
    }
}

/// Each run with words that tell it from the others: `traffic.size = 64 B, seed 2: `.
pub(crate) fn labelled_runs(outcome: &StudyOutcome) -> impl Iterator<Item = (String, &Summary)> {
    let label = |cell: &CellOutcome, seed: u64| {
        let set = cell
            .set
            .iter()
            .map(|(key, value)| format!("{key} = {value}"));
        let seed = (cell.runs.len() > 1).then(|| format!("seed {seed}"));
        let words: Vec<String> = set.chain(seed).collect();
        if words.is_empty() {
            String::new()
        } else {
            words.join(", ") + ": "
        }
    };
    outcome.cells.iter().flat_map(move |cell| {
        let runs = cell.record().runs.into_iter();
        runs.map(move |summary| (label(cell, summary.seed), summary))
    })
}

/// Where the run directory goes.
struct Place {
    given: Option<PathBuf>,
    default: Option<PathBuf>,
}

impl Place {
    fn new(arguments: &RunArguments, prepared: &Prepared) -> Self {
        let hash = scenario_hash(&prepared.scenarios, &prepared.seeds, VERSION);
        let name = format!("{}-{hash}", file_name(&prepared.plan.study));
        Self {
            given: arguments.out.clone(),
            default: (!arguments.no_out).then(|| Path::new(RUNS_FOLDER).join(name)),
        }
    }

    /// A run that was stopped does not take the default place of a whole one.
    fn path(&self, is_interrupted: bool) -> Option<PathBuf> {
        let suffix = if is_interrupted { "-interrupted" } else { "" };
        self.given.clone().or_else(|| {
            let path = self.default.as_ref()?;
            Some(PathBuf::from(format!("{}{suffix}", path.display())))
        })
    }
}

/// A study's name as part of a file name.
pub(crate) fn file_name(study: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = study
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .take(64)
        .collect();
    match name.trim_start_matches('.') {
        "" => "run".to_owned(),
        name => name.to_owned(),
    }
}

fn data_line(directory: Option<&RunDirectory>) -> String {
    directory.map_or_else(
        || "\n".to_owned(),
        |directory| {
            format!(
                "\n  report   {}   distribution, stages, links, time, settings\n  data     {}/   \
                 messages, links, series and latency as Parquet, summary.json, scenario.toml\n",
                directory.path().join(REPORT_FILE).display(),
                directory.path().display()
            )
        },
    )
}

/// The second thing a person wants, as one more command.
fn next_line(scenario: &str, plan: &Plan, outcome: &StudyOutcome) -> String {
    let command = match plan.cells.as_slice() {
        [first, .., last] if !first.set.is_empty() => {
            let set: Vec<String> = last
                .set
                .iter()
                .map(|(key, value)| format!(" --set {key}=\"{value}\""))
                .collect();
            format!("{scenario}{}", set.concat())
        }
        [only] if is_application(&only.configs) => match other_algorithm(&only.configs) {
            Some(algorithm) => format!("{scenario} --set traffic.algorithm={algorithm}"),
            None => format!("{scenario} --set traffic.placement=random"),
        },
        _ if outcome.runs().count() == 1 => format!("{scenario} --seeds 5"),
        _ => return String::new(),
    };
    format!("  next     viaduct run {command}\n")
}

fn is_application(configs: &[ClusterConfig]) -> bool {
    let mut all = configs.iter();
    all.any(|config| config.traffic.application().is_some())
}

/// Another way to do the collective that the hosts did.
fn other_algorithm(configs: &[ClusterConfig]) -> Option<Algorithm> {
    let application = configs.first()?.traffic.application()?;
    let request = application.request()?;
    let mut all = request.collective.algorithms().iter().copied();
    all.find(|algorithm| *algorithm != request.algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_name_becomes_a_plain_file_name() {
        assert_eq!(file_name("torus-1024"), "torus-1024");
        assert_eq!(file_name("my torus/2"), "my-torus-2");
        assert_eq!(file_name("../x"), "-x");
        assert_eq!(file_name(".."), "run");
    }
}
