//! From runs, just made or read from a directory, to what pages and pictures are made of.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::result::RunResult;
use viaduct_programs::Simulation;
use viaduct_report::{
    FormerTables, Published, ShownCell, ShownRun, ShownStudy, StudyOutcome, Summary, read_tables,
    run_page,
};

use crate::arguments::RunArguments;
use crate::describe;
use crate::failure::Failure;
use crate::former::{DIRECTORY_HELP, Former, programs_summary};
use crate::jobs::VERSION;
use crate::planning::Prepared;
use crate::rdma;

/// Commands with what each does.
pub(crate) type Commands = Vec<(String, String)>;

/// The page of runs that were just made.
pub(crate) fn page(
    prepared: &Prepared,
    outcome: &StudyOutcome,
    results: &[RunResult],
    commands: Commands,
) -> String {
    let mut results = results.iter();
    let runs = outcome.cells.iter().map(|cell| {
        let runs = cell.record().runs.into_iter().zip(results.by_ref());
        let shown = runs.map(|(summary, result)| ShownRun::new(summary, result));
        shown.collect()
    });
    let mut shown = study(prepared, runs, commands);
    add_stop(&mut shown.headline, outcome.summaries());
    shown.version = VERSION.to_owned();
    shown.digest = outcome.digest();
    shown.runs_not_begun = outcome.runs_not_begun;
    run_page(&shown)
}

/// A head says how long the runs would take; this, where they were stopped.
fn add_stop<'a>(headline: &mut String, runs: impl Iterator<Item = &'a Summary>) {
    let stopped = describe::stopped(runs);
    if !stopped.is_empty() {
        *headline += &format!(", {stopped}");
    }
}

/// A study whose cells have these runs; cells at the end may have none, and are left out.
fn study<'a>(
    prepared: &'a Prepared,
    runs: impl Iterator<Item = Vec<ShownRun<'a>>>,
    commands: Commands,
) -> ShownStudy<'a> {
    let cells = prepared
        .plan
        .cells
        .iter()
        .zip(&prepared.scenarios)
        .zip(runs);
    let cells = cells.filter_map(|((cell, scenario_toml), runs)| {
        Some(ShownCell {
            set: &cell.set,
            published: &cell.published,
            config: cell.configs.first()?,
            scenario_toml,
            runs,
        })
    });
    let swept = prepared
        .plan
        .cells
        .first()
        .map_or(&[][..], |cell| &cell.set);
    // A swept key has its values in the table of cells.
    let mut differences = prepared.study.differences_from_defaults();
    differences.retain(|difference| swept.iter().all(|(key, _)| *key != difference.key));
    ShownStudy {
        name: prepared.plan.study.clone(),
        title: prepared.study.title.clone(),
        question: prepared.study.question.clone(),
        source: prepared.study.source.clone(),
        headline: describe::headline(&prepared.plan).trim_end().to_owned(),
        version: String::new(),
        digest: String::new(),
        runs_not_begun: 0,
        cells: cells.collect(),
        differences,
        commands,
    }
}

/// How a run is repeated: what was typed, and from the directory that it left.
pub(crate) fn run_commands(arguments: &RunArguments, directory: &Path) -> Commands {
    let mut command = format!("viaduct run {}", quoted(&arguments.scenario.scenario));
    for text in &arguments.scenario.overrides {
        command += &format!(" --set {}", quoted(text));
    }
    if let Some(seed) = arguments.seeds.seed {
        command += &format!(" --seed {seed}");
    }
    if arguments.seeds.seeds > 1 {
        command += &format!(" --seeds {}", arguments.seeds.seeds);
    }
    let typed = (command, "The command that made this:".to_owned());
    std::iter::once(typed)
        .chain(rerun_command(directory))
        .collect()
}

/// How a run is repeated from its directory.
pub(crate) fn rerun_command(directory: &Path) -> Commands {
    let command = format!("viaduct rerun {}", quoted(&directory.display().to_string()));
    let meaning =
        "The same scenario from this directory alone, and whether all comes out the same:";
    vec![(command, meaning.to_owned())]
}

/// As a shell takes it for one word.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A run directory with its tables.
pub(crate) enum FormerStudy {
    /// Of a study.
    Study(Box<FormerRuns>),
    /// Of programs on simulated hosts.
    Programs(Box<FormerPrograms>),
}

impl FormerStudy {
    /// Reads it.
    pub(crate) fn read(directory: &Path) -> Result<Self, Failure> {
        Ok(match rdma::Order::read(directory)? {
            Some(order) => Self::Programs(Box::new(FormerPrograms::read(directory, &order)?)),
            None => Self::Study(Box::new(FormerRuns::read(directory)?)),
        })
    }

    /// As pages and pictures want it, named as its study or otherwise.
    pub(crate) fn shown(&self, name: Option<String>) -> ShownStudy<'_> {
        let mut shown = match self {
            Self::Study(runs) => runs.shown(),
            Self::Programs(programs) => programs.shown(),
        };
        shown.name = name.unwrap_or(shown.name);
        shown
    }
}

/// A run of programs with its tables.
pub(crate) struct FormerPrograms {
    directory: PathBuf,
    name: String,
    typed: String,
    config: Arc<ClusterConfig>,
    published: Published,
    summary: Summary,
    tables: FormerTables,
}

impl FormerPrograms {
    fn read(directory: &Path, order: &rdma::Order) -> Result<Self, Failure> {
        let summary = programs_summary(directory)?;
        let config = Simulation::new(order.hosts()?.config().clone()).configuration();
        let keys = [(0, summary.seed, &*config.topology)];
        let tables = read_tables(directory, &keys)
            .map_err(|error| Failure::new(error.to_string(), DIRECTORY_HELP))?;
        Ok(Self {
            directory: directory.to_owned(),
            name: order.name(),
            typed: order.typed(),
            published: Published::default(),
            tables: tables.into_iter().next().unwrap_or_default(),
            config,
            summary,
        })
    }

    fn shown(&self) -> ShownStudy<'_> {
        let run = ShownRun::former(&self.summary, &self.tables);
        let commands = rerun_command(&self.directory);
        rdma::subject(&self.name, &self.typed).shown(&self.config, &self.published, run, commands)
    }
}

/// The runs of a study, or of several cells of one.
pub(crate) struct FormerRuns {
    directory: PathBuf,
    prepared: Prepared,
    /// Of each cell, its runs.
    runs: Vec<Vec<(Summary, FormerTables)>>,
    digest: String,
    runs_not_begun: u64,
}

impl FormerRuns {
    fn read(directory: &Path) -> Result<Self, Failure> {
        let Former {
            cells,
            runs: summaries,
            digest,
            runs_not_begun,
        } = Former::read(directory)?;
        let prepared = Prepared::again(cells)?;
        let mut keys = Vec::new();
        for (number, cell) in prepared.plan.cells.iter().enumerate() {
            for config in &cell.configs {
                keys.push((number, config.run.seed, &*config.topology));
            }
        }
        let tables = read_tables(directory, &keys)
            .map_err(|error| Failure::new(error.to_string(), DIRECTORY_HELP))?;
        let mut both = summaries.into_iter().zip(tables);
        let runs = prepared.plan.cells.iter();
        let runs = runs.map(|cell| both.by_ref().take(cell.configs.len()).collect());
        Ok(Self {
            directory: directory.to_owned(),
            runs: runs.collect(),
            prepared,
            digest,
            runs_not_begun,
        })
    }

    fn shown(&self) -> ShownStudy<'_> {
        let runs = self.runs.iter().map(|runs| {
            let runs = runs.iter();
            runs.map(|(summary, tables)| ShownRun::former(summary, tables))
                .collect()
        });
        let mut shown = study(&self.prepared, runs, rerun_command(&self.directory));
        let summaries = self.runs.iter().flatten().map(|(summary, _)| summary);
        add_stop(&mut shown.headline, summaries);
        let mut versions = self
            .runs
            .iter()
            .flatten()
            .map(|(summary, _)| &summary.version);
        shown.version = versions.next().cloned().unwrap_or_default();
        shown.digest.clone_from(&self.digest);
        shown.runs_not_begun = self.runs_not_begun;
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_for_a_shell_where_it_must() {
        assert_eq!(quoted("traffic.rate=400/s"), "traffic.rate=400/s");
        assert_eq!(quoted("traffic.size=64 B"), "'traffic.size=64 B'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("$(reboot)"), "'$(reboot)'");
        assert_eq!(quoted(""), "''");
    }
}
