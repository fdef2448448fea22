//! The directory that a run leaves.
//!
//! ```text
//! runs/torus-1024-1f0c9a62/
//!   scenario.toml      the resolved scenario: every key with its value; of a sweep
//!                      scenario-0.toml, scenario-1.toml, ... one a cell
//!   programs.json      in its place: the programs that ran, and on which simulated hosts
//!   output.txt         of such a run: what each host's program printed
//!   summary.json       the study's object, as `--json` prints it
//!   messages.parquet   links.parquet   series.parquet   latency.parquet   ranks.parquet
//!   report.html        the results, for a browser
//! ```
//!
//! It is written beside its place under another name and then renamed, so that it is there whole
//! or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use thiserror::Error;
use viaduct_cluster::result::RunResult;

use crate::document::document;
use crate::outcome::{Fnv, StudyOutcome};
use crate::tables::{TABLES, write_table};

/// The report's file in a run directory.
pub const REPORT_FILE: &str = "report.html";

/// What was run, in the directory of a run of programs.
pub const PROGRAMS_FILE: &str = "programs.json";

/// What programs printed, in the directory of a run of programs.
const OUTPUT_FILE: &str = "output.txt";

/// A place where a run directory can be written; asked for before the run, used after it.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// What programs printed, of a run of programs.
    output: Option<Vec<u8>>,
}

/// Why a run directory cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The system refuses: choose another place.
    #[error("cannot write the run directory `{}`: {source}", path.display())]
    Unwritable {
        /// The directory that was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is something else at the place: choose another, or move it away.
    #[error("`{}` is there and is not a run directory: {what}", path.display())]
    Occupied {
        /// The directory that was asked for.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// There is a run of another study: choose another place, or force it.
    #[error("`{}` holds a run of `{other}`, another study", path.display())]
    OtherStudy {
        /// The directory that was asked for.
        path: PathBuf,
        /// Whose run it holds.
        other: String,
    },
    /// There is a run of the same study with other settings or seeds: the same.
    #[error("`{}` holds a run of `{study}` with other {what}", path.display())]
    OtherSettings {
        /// The directory that was asked for.
        path: PathBuf,
        /// Whose run it holds.
        study: String,
        /// What differs: `settings` or `seeds`.
        what: &'static str,
    },
}

/// What runs are made from, of which their directory has a copy.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The resolved scenario of each cell.
    Scenarios(&'a [String]),
    /// Commands and the simulated hosts that they run on: the text of [`PROGRAMS_FILE`].
    Programs(&'a str),
}

impl<'a> Source<'a> {
    /// Its files, each with what is in it.
    fn files(self, is_sweep: bool) -> Vec<(String, &'a str)> {
        match self {
            Self::Scenarios(texts) => {
                let files = texts.iter().enumerate();
                let files = files
                    .map(|(cell, text)| (scenario_file(is_sweep.then_some(cell)), text.as_str()));
                files.collect()
            }
            Self::Programs(text) => vec![(PROGRAMS_FILE.to_owned(), text)],
        }
    }
}

/// What tells runs apart.
#[derive(Clone, Copy, Debug)]
pub struct RunIdentity<'a> {
    /// Name of the study.
    pub study: &'a str,
    /// What they are made from.
    pub source: Source<'a>,
    /// The seeds of all runs, in their order.
    pub seeds: &'a [u64],
}

/// Eight hexadecimal digits that differ where the resolved scenario, the seeds or the version do.
#[must_use]
pub fn scenario_hash(resolved_toml: &[String], seeds: &[u64], version: &str) -> String {
    let mut hash = Fnv::default();
    for text in resolved_toml {
        hash.write(text.as_bytes());
    }
    for seed in seeds {
        hash.write(&seed.to_le_bytes());
    }
    hash.write(version.as_bytes());
    let value = hash.value();
    format!("{:08x}", (value >> 32) ^ (value & 0xffff_ffff))
}

impl RunDirectory {
    /// Makes sure that a run directory can be written at `path`: creates what is above it, and
    /// looks at what is there. An earlier directory of the same runs will be replaced, one of any
    /// others if that is `forced`.
    ///
    /// # Errors
    ///
    /// If the place cannot be written or holds anything but such a run directory.
    pub fn prepare(
        path: &Path,
        runs: RunIdentity<'_>,
        forced: bool,
    ) -> Result<Self, DirectoryError> {
        let directory = Self {
            path: path.to_owned(),
            output: None,
        };
        directory.check_replaceable()?;
        if !forced {
            directory.check_same(runs)?;
        }
        let refused = |source| directory.unwritable(source);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(refused)?;
        }
        let partial = directory.beside("partial")?;
        fs::create_dir(&partial)
            .and_then(|()| fs::remove_dir(&partial))
            .map_err(refused)?;
        Ok(directory)
    }

    /// Only the same runs are replaced without a word. What does not say whose it is may be.
    fn check_same(&self, runs: RunIdentity<'_>) -> Result<(), DirectoryError> {
        let path = self.path.clone();
        let text = fs::read(self.path.join("summary.json")).unwrap_or_default();
        let Ok(summary) = serde_json::from_slice::<serde_json::Value>(&text) else {
            return Ok(());
        };
        let Some(study) = summary["study"].as_str() else {
            return Ok(());
        };
        let study = study.to_owned();
        if study != runs.study {
            return Err(DirectoryError::OtherStudy { path, other: study });
        }
        let is_same = |is_sweep| {
            let files = runs.source.files(is_sweep);
            let former = |name: &String| fs::read_to_string(self.path.join(name));
            let mut files = files.iter();
            files.all(|(name, text)| former(name).is_ok_and(|former| former == *text))
        };
        let mut seeds = Vec::new();
        gather_seeds(&summary, &mut seeds);
        // Runs that the user stopped are fewer than were asked for.
        let is_stopped = summary["runs_not_begun"].as_u64() > Some(0);
        let same_seeds = match is_stopped {
            true => seeds.iter().all(|seed| runs.seeds.contains(seed)),
            false => seeds == runs.seeds,
        };
        let what = match (is_same(false) || is_same(true), same_seeds) {
            (true, true) => return Ok(()),
            (true, false) => "seeds",
            (false, _) => "settings",
        };
        Err(DirectoryError::OtherSettings { path, study, what })
    }

    /// Has it hold what programs printed, too.
    pub fn keep_output(&mut self, output: Vec<u8>) {
        self.output = Some(output);
    }

    /// Where it will be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the directory and puts it into its place; `results` has what each run left, in their
    /// order; `page` is the report.
    ///
    /// # Errors
    ///
    /// If the system refuses; then nothing is left behind, and what was there still is.
    pub fn write(
        &self,
        source: Source<'_>,
        outcome: &StudyOutcome,
        results: &[RunResult],
        page: Option<&str>,
    ) -> Result<(), DirectoryError> {
        let partial = self.beside("partial")?;
        let written = fs::create_dir(&partial)
            .and_then(|()| write_files(&partial, source, outcome, results, page))
            .and_then(|()| match &self.output {
                Some(output) => fs::write(partial.join(OUTPUT_FILE), output),
                None => Ok(()),
            })
            .and_then(|()| self.replace_by(&partial));
        written.map_err(|source| {
            // The error of the write is the one to tell.
            let _ = fs::remove_dir_all(&partial);
            self.unwritable(source)
        })
    }

    fn replace_by(&self, partial: &Path) -> io::Result<()> {
        if !self.path.exists() {
            return fs::rename(partial, &self.path);
        }
        let former = self.beside("former").map_err(io::Error::other)?;
        fs::rename(&self.path, &former)?;
        fs::rename(partial, &self.path).inspect_err(|_| {
            let _ = fs::rename(&former, &self.path);
        })?;
        fs::remove_dir_all(former)
    }

    /// A hidden name of this process's own in the same folder, so that a rename stays on one file
    /// system.
    fn beside(&self, suffix: &str) -> Result<PathBuf, DirectoryError> {
        let Some(name) = self.path.file_name() else {
            return Err(DirectoryError::Occupied {
                path: self.path.clone(),
                what: "the path ends in no name".to_owned(),
            });
        };
        let name = format!(".{}.{suffix}-{}", name.to_string_lossy(), process::id());
        Ok(self.path.with_file_name(name))
    }

    /// Only what a run wrote may be replaced.
    fn check_replaceable(&self) -> Result<(), DirectoryError> {
        let occupied = |what: String| DirectoryError::Occupied {
            path: self.path.clone(),
            what,
        };
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) if self.path.is_file() => {
                return Err(occupied("it is a file".to_owned()));
            }
            Err(error) => return Err(self.unwritable(error)),
        };
        for entry in entries {
            let name = entry.map_err(|source| self.unwritable(source))?.file_name();
            if !name.to_str().is_some_and(is_run_file) {
                return Err(occupied(format!("it holds `{}`", name.to_string_lossy())));
            }
        }
        Ok(())
    }

    fn unwritable(&self, source: io::Error) -> DirectoryError {
        DirectoryError::Unwritable {
            path: self.path.clone(),
            source,
        }
    }
}

/// The file of a resolved scenario: of the only one, or of a sweep's cell.
#[must_use]
pub fn scenario_file(cell: Option<usize>) -> String {
    match cell {
        None => "scenario.toml".to_owned(),
        Some(cell) => format!("scenario-{cell}.toml"),
    }
}

/// The seeds of all runs of a summary, in their order.
fn gather_seeds(summary: &serde_json::Value, seeds: &mut Vec<u64>) {
    seeds.extend(summary["seed"].as_u64());
    for runs in ["cells", "runs"] {
        for run in summary[runs].as_array().into_iter().flatten() {
            gather_seeds(run, seeds);
        }
    }
}

fn is_run_file(name: &str) -> bool {
    let is_table = |stem: &str| TABLES.iter().any(|table| table.name == stem);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let cell = name
        .strip_prefix("scenario-")
        .and_then(|rest| rest.strip_suffix(".toml"));
    matches!(
        name,
        "scenario.toml" | "summary.json" | PROGRAMS_FILE | OUTPUT_FILE | REPORT_FILE
    ) || cell.is_some_and(is_number)
        || name.strip_suffix(".parquet").is_some_and(is_table)
}

fn write_files(
    place: &Path,
    source: Source<'_>,
    outcome: &StudyOutcome,
    results: &[RunResult],
    page: Option<&str>,
) -> io::Result<()> {
    for (name, text) in source.files(outcome.is_sweep()) {
        fs::write(place.join(name), text)?;
    }
    fs::write(place.join("summary.json"), document(outcome))?;
    if let Some(page) = page {
        fs::write(place.join(REPORT_FILE), page)?;
    }
    for table in &TABLES {
        let file = File::create(place.join(format!("{}.parquet", table.name)))?;
        write_table(table, outcome, results, file).map_err(io::Error::other)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Row, RowAccessor};

    use super::*;
    use crate::sample;
    use crate::tables::RUN_COLUMNS;

    /// Those of the samples.
    const RUNS: RunIdentity<'_> = RunIdentity {
        study: "torus-1024",
        source: Source::Scenarios(&[]),
        seeds: &[1],
    };

    /// A folder of the test's own, empty.
    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("viaduct-{test}-{}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(place: &Path) -> Vec<String> {
        let entries = fs::read_dir(place).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn rows(file: &Path) -> Vec<Row> {
        let reader = SerializedFileReader::try_from(file).unwrap();
        reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap())
            .collect()
    }

    #[test]
    fn the_directory_is_complete_and_its_tables_read_back() {
        let folder = folder("complete");
        let place = folder.join("runs/study-1");
        let directory = RunDirectory::prepare(&place, RUNS, false).unwrap();
        let scenarios = ["cell = 0\n".to_owned(), "cell = 1\n".to_owned()];
        directory
            .write(
                Source::Scenarios(&scenarios),
                &sample::sweep(),
                &sample::results(2),
                Some("<p>"),
            )
            .unwrap();
        assert_eq!(
            names(&place),
            [
                "latency.parquet",
                "links.parquet",
                "messages.parquet",
                "queues.parquet",
                "ranks.parquet",
                "report.html",
                "scenario-0.toml",
                "scenario-1.toml",
                "series.parquet",
                "summary.json"
            ]
        );
        assert_eq!(names(&folder.join("runs")), ["study-1"]);

        let messages = rows(&place.join("messages.parquet"));
        assert_eq!(messages.len(), 4, "two rows per run, two runs");
        let first = &messages[0];
        assert_eq!(first.get_uint(0).unwrap(), 0);
        assert_eq!(first.get_ulong(1).unwrap(), 1);
        // Each host has one adapter.
        assert_eq!([4, 7].map(|column| first.get_uint(column).unwrap()), [0, 0]);
        assert_eq!(first.get_string(5).unwrap(), "n0-1");
        assert_eq!(first.get_uint(6).unwrap(), u32::MAX);
        assert_eq!(messages[1].get_string(8).unwrap(), "n0-2");
        assert_eq!(first.get_ulong(9).unwrap(), 32_768);
        assert_eq!(first.get_string(10).unwrap(), "send");
        assert_eq!(first.get_double(11).unwrap(), 9_999_999.999_999);
        assert_eq!(first.get_double(12).unwrap(), 381.250_001);
        assert_eq!(messages[1].get_ulong(2).unwrap(), 1 << 40);
        assert!(
            messages[1].get_double(12).is_err(),
            "a dropped message has no latency"
        );
        assert_eq!(messages[3].get_uint(0).unwrap(), 1, "the second cell");

        let links = rows(&place.join("links.parquet"));
        assert_eq!(links[0].get_string(3).unwrap(), "n0-3");
        assert_eq!(links[0].get_string(4).unwrap(), "s0");
        assert_eq!(links[0].get_string(5).unwrap(), "host_up");
        assert_eq!(links[0].get_double(7).unwrap(), 0.125);

        let series = rows(&place.join("series.parquet"));
        assert_eq!(series[0].get_double(7).unwrap(), 12.5);
        assert!(series[1].get_double(7).is_err(), "no delivery, no mean");

        let latency = rows(&place.join("latency.parquet"));
        let points: Vec<(f64, f64)> = latency
            .iter()
            .map(|row| (row.get_double(2).unwrap(), row.get_double(3).unwrap()))
            .collect();
        let half = points.len() / 2;
        assert!(
            points[..half].is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
            "{points:?}"
        );
        assert_eq!(points[half - 1].0, 1.0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn each_table_carries_its_dictionary() {
        let folder = folder("dictionary");
        let place = folder.join("study-1");
        RunDirectory::prepare(&place, RUNS, false)
            .unwrap()
            .write(
                Source::Scenarios(&[]),
                &sample::one_run(),
                &sample::results(1),
                None,
            )
            .unwrap();
        for table in &TABLES {
            let file = place.join(format!("{}.parquet", table.name));
            let reader = SerializedFileReader::try_from(file.as_path()).unwrap();
            let metadata = reader.metadata().file_metadata();
            let value = |key: &str| {
                let entries = metadata.key_value_metadata().unwrap();
                entries
                    .iter()
                    .find(|entry| entry.key == key)
                    .unwrap()
                    .value
                    .clone()
                    .unwrap()
            };
            assert_eq!(value("viaduct.digest"), "0123456789abcdef");
            let dictionary: serde_json::Value =
                serde_json::from_str(&value("viaduct.columns")).unwrap();
            for column in metadata.schema_descr().columns() {
                let entry = &dictionary[column.name()];
                assert!(entry["unit"].is_string() && entry["meaning"].is_string());
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_earlier_run_is_replaced_and_anything_else_is_not() {
        let folder = folder("replace");
        let place = folder.join("out");
        let directory = RunDirectory::prepare(&place, RUNS, false).unwrap();
        directory
            .write(
                Source::Scenarios(&["first = 1\n".to_owned()]),
                &sample::one_run(),
                &sample::results(1),
                None,
            )
            .unwrap();
        let directory = RunDirectory::prepare(&place, RUNS, false).unwrap();
        directory
            .write(
                Source::Scenarios(&["second = 2\n".to_owned()]),
                &sample::one_run(),
                &sample::results(1),
                None,
            )
            .unwrap();
        assert_eq!(
            fs::read_to_string(place.join("scenario.toml")).unwrap(),
            "second = 2\n"
        );
        assert_eq!(names(&folder), ["out"]);

        let other = RunIdentity {
            study: "two-hosts",
            ..RUNS
        };
        let error = RunDirectory::prepare(&place, other, false).unwrap_err();
        assert!(
            matches!(error, DirectoryError::OtherStudy { .. }),
            "{error}"
        );
        assert!(
            error.to_string().contains("a run of `torus-1024`"),
            "{error}"
        );
        RunDirectory::prepare(&place, other, true).unwrap();

        fs::write(place.join("notes.txt"), "mine").unwrap();
        let error = RunDirectory::prepare(&place, RUNS, false)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("it holds `notes.txt`"), "{error}");
        let error = RunDirectory::prepare(&place.join("notes.txt"), RUNS, false)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("it is a file"), "{error}");
        assert!(RunDirectory::prepare(&place.join("notes.txt/out"), RUNS, false).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_run_with_other_settings_or_seeds_is_replaced_only_by_force() {
        let folder = folder("settings");
        let place = folder.join("out");
        let (settings, others) = (["a = 1\n".to_owned()], ["a = 2\n".to_owned()]);
        let runs = |settings, seeds| RunIdentity {
            source: Source::Scenarios(settings),
            seeds,
            ..RUNS
        };
        let prepare = |runs, forced| {
            let prepared = RunDirectory::prepare(&place, runs, forced);
            prepared.map_err(|error| error.to_string())
        };
        let first = prepare(runs(&settings, &[1]), false).unwrap();
        let one = sample::one_run();
        first
            .write(
                Source::Scenarios(&settings),
                &one,
                &sample::results(1),
                None,
            )
            .unwrap();
        prepare(runs(&settings, &[1]), false).unwrap();
        let told = prepare(runs(&others, &[1]), false).unwrap_err();
        assert!(
            told.ends_with("a run of `torus-1024` with other settings"),
            "{told}"
        );
        let told = prepare(runs(&settings, &[2]), false).unwrap_err();
        assert!(told.ends_with("with other seeds"), "{told}");
        let told = prepare(runs(&settings, &[1, 2]), false).unwrap_err();
        assert!(told.ends_with("with other seeds"), "{told}");
        prepare(runs(&others, &[2]), true).unwrap();

        // Of a sweep each cell has a scenario of its own.
        let cells = [settings[0].clone(), others[0].clone()];
        let twice = [others[0].clone(), others[0].clone()];
        let sweep = prepare(runs(&cells, &[1, 1]), true).unwrap();
        sweep
            .write(
                Source::Scenarios(&cells),
                &sample::sweep(),
                &sample::results(2),
                None,
            )
            .unwrap();
        prepare(runs(&cells, &[1, 1]), false).unwrap();
        assert!(prepare(runs(&twice, &[1, 1]), false).is_err());

        // What was stopped has some of the seeds only.
        let mut stopped = sample::one_run();
        stopped.runs_not_begun = 2;
        let again = prepare(runs(&settings, &[1, 2, 3]), true).unwrap();
        again
            .write(
                Source::Scenarios(&settings),
                &stopped,
                &sample::results(1),
                None,
            )
            .unwrap();
        prepare(runs(&settings, &[1, 2, 3]), false).unwrap();
        assert!(prepare(runs(&settings, &[2, 3]), false).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_run_of_programs_has_them_in_place_of_a_scenario() {
        let folder = folder("programs");
        let place = folder.join("out");
        let runs = |text| RunIdentity {
            source: Source::Programs(text),
            ..RUNS
        };
        let (one, other) = ("{\"commands\": 1}\n", "{\"commands\": 2}\n");
        let directory = RunDirectory::prepare(&place, runs(one), false).unwrap();
        let source = Source::Programs(one);
        directory
            .write(source, &sample::one_run(), &sample::results(1), None)
            .unwrap();
        assert_eq!(fs::read_to_string(place.join(PROGRAMS_FILE)).unwrap(), one);
        assert!(!place.join("scenario.toml").exists());
        RunDirectory::prepare(&place, runs(one), false).unwrap();
        // Neither other programs nor a study take its place without a word.
        assert!(RunDirectory::prepare(&place, runs(other), false).is_err());
        let settings = ["a = 1\n".to_owned()];
        let study = RunIdentity {
            source: Source::Scenarios(&settings),
            ..RUNS
        };
        assert!(RunDirectory::prepare(&place, study, false).is_err());
        RunDirectory::prepare(&place, study, true).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_hash_tells_scenarios_seeds_and_versions_apart() {
        let hash = scenario_hash(&["a = 1".to_owned()], &[1], "0.1.0");
        assert_eq!(hash.len(), 8);
        assert_eq!(hash, scenario_hash(&["a = 1".to_owned()], &[1], "0.1.0"));
        assert_ne!(hash, scenario_hash(&["a = 2".to_owned()], &[1], "0.1.0"));
        assert_ne!(hash, scenario_hash(&["a = 1".to_owned()], &[2], "0.1.0"));
        assert_ne!(hash, scenario_hash(&["a = 1".to_owned()], &[1], "0.2.0"));
    }

    #[test]
    fn the_dictionary_in_the_docs_names_every_column_and_field() {
        let text = include_str!("../../../docs/output.md");
        let is_there = |name: &str| text.contains(&format!("`{name}`"));
        for table in &TABLES {
            for column in RUN_COLUMNS.iter().chain(table.columns) {
                assert!(is_there(&column.name), "{}.{}", table.name, column.name);
            }
        }
        let summary = serde_json::to_value(sample::summary()).unwrap();
        for (field, value) in summary.as_object().unwrap() {
            assert!(is_there(field), "{field}");
            if matches!(
                field.as_str(),
                "messages" | "latency_us" | "steady_state" | "buses"
            ) {
                for inner in value.as_object().unwrap().keys() {
                    assert!(is_there(inner), "{field}.{inner}");
                }
            }
        }
    }
}
