//! What `viaduct measure --json` wrote, read again: several side by side.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use viaduct_measure::{Comparison, Report, Test};
use viaduct_report::{ShownTest, measurement_page};
use viaduct_scenario::read_text;

use crate::failure::Failure;
use crate::picture;

const HELP: &str = "it is what `viaduct measure latency --on shm --json > measured.json` writes";

/// Lines of one picture: more could not be told apart.
const REPORTS_MAX: usize = 7;

/// Measurements of files, with a name each.
pub(crate) struct Measurements {
    reports: Vec<Report>,
    names: Vec<String>,
}

/// Whether a path is that of a measurement and not of a run directory.
pub(crate) fn is_measurement(path: &Path) -> bool {
    let ending = path.extension();
    ending.is_some_and(|ending| ending.eq_ignore_ascii_case("json")) && !path.is_dir()
}

impl Measurements {
    /// Reads files, each with a report or an array of them.
    pub(crate) fn read(files: &[PathBuf]) -> Result<Self, Failure> {
        let mut reports = Vec::new();
        let mut stems = Vec::new();
        for file in files {
            let shown = file.display();
            let text = read_text(file).map_err(|problem| {
                Failure::new(format!("cannot read `{shown}`: {problem}"), HELP)
            })?;
            let refused = |error: serde_json::Error| {
                let title = format!("`{shown}` holds no measurement: {error}");
                Failure::new(
                    title,
                    format!("{HELP}, or bandwidth, rate or cq in its place"),
                )
            };
            let read: Vec<Report> = match text.trim_start().starts_with('[') {
                true => serde_json::from_str(&text).map_err(refused)?,
                false => vec![serde_json::from_str(&text).map_err(refused)?],
            };
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            stems.extend(read.iter().map(|_| stem.clone().into_owned()));
            reports.extend(read);
        }
        if reports.iter().all(|report| report.rows.is_empty()) {
            return Err(Failure::new("there is no row in these measurements", HELP));
        }
        let names = names(&reports, &stems);
        Ok(Self { reports, names })
    }

    /// The one test that all are of, for a picture.
    fn only_test(&self) -> Result<Test, Failure> {
        let mut tests = self.reports.iter().map(|report| report.test);
        let first = tests.next().unwrap_or(Test::Latency);
        match tests.find(|test| *test != first) {
            Some(other) => Err(Failure::new(
                format!(
                    "these are measurements of {} and of {}: one picture has one of them",
                    first.name(),
                    other.name()
                ),
                "viaduct report shows each on a page; or give files of one test",
            )),
            None => Ok(first),
        }
    }

    /// A picture of one test, one line per measurement, with its numbers.
    pub(crate) fn chart(&self) -> Result<(viaduct_plot::LineChart, String), Failure> {
        let test = self.only_test()?;
        let of_test = self.of(test);
        let chart = picture::chart(&Comparison::named(&of_test.reports, of_test.names.clone()))
            .ok_or_else(|| Failure::plain("there is nothing to draw"))?;
        let mut csv = format!("line,{},{}\n", of_test.variant(), csv_name(test));
        for (name, report) in of_test.names.iter().zip(&of_test.reports) {
            for row in &report.rows {
                let quoted = format!("\"{}\"", name.replace('"', "\"\""));
                csv += &format!("{quoted},{},{}\n", row.variant(), row.figure(test));
            }
        }
        Ok((chart, csv))
    }

    fn variant(&self) -> &'static str {
        match self.reports.first() {
            Some(report) if report.has_loads() => "offered_requests_s",
            Some(report) if report.test == Test::Cq => "connections",
            _ => "bytes",
        }
    }

    /// Those of a test.
    fn of(&self, test: Test) -> Self {
        let pairs = self.reports.iter().zip(&self.names);
        let pairs = pairs.filter(|(report, _)| report.test == test);
        let (reports, names) = pairs
            .map(|(report, name)| (report.clone(), name.clone()))
            .unzip();
        Self { reports, names }
    }

    /// The page: machines, then each test as a picture and a table.
    pub(crate) fn page(&self) -> Result<String, Failure> {
        let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".to_owned());
        let origins = self.names.iter().zip(&self.reports).map(|(name, report)| {
            let origin = &report.origin;
            let cores = match report.cores {
                Some([first, second]) => format!("{first} and {second}"),
                None => "simulated".to_owned(),
            };
            vec![
                name.clone(),
                report.test.name().to_owned(),
                word(&origin.machine),
                word(&origin.processor),
                cores,
                word(&origin.date),
                word(&origin.version),
                report.settings(),
            ]
        });
        let mut tests = Vec::new();
        for test in [Test::Latency, Test::Bandwidth, Test::Rate, Test::Cq] {
            let of_test = self.of(test);
            if of_test.reports.len() > REPORTS_MAX {
                return Err(Failure::new(
                    format!(
                        "{} measurements are more than a page shows",
                        of_test.reports.len()
                    ),
                    format!("give up to {REPORTS_MAX} of a test"),
                ));
            }
            let comparison = Comparison::named(&of_test.reports, of_test.names.clone());
            let Some(mut chart) = picture::chart(&comparison) else {
                continue;
            };
            chart.title = String::new();
            let (heads, rows) = comparison.cells();
            tests.push(ShownTest {
                id: test.name(),
                title: test.name(),
                chart,
                heads,
                rows,
                note: test.purpose().to_owned(),
            });
        }
        let heads = [
            "measurement",
            "test",
            "machine",
            "processor",
            "cores",
            "date",
            "version",
            "settings",
        ];
        let heads = heads.map(str::to_owned).to_vec();
        let mut kinds: Vec<String> = self.names.clone();
        kinds.dedup();
        let title = format!("Measured: {}", picture::compared(&kinds));
        Ok(measurement_page(&title, (heads, origins.collect()), &tests))
    }
}

/// A name for each: what tells it from the others, be it the fabric, the machine or the file.
fn names(reports: &[Report], stems: &[String]) -> Vec<String> {
    let mut names: Vec<String> = reports.iter().map(|report| report.fabric.clone()).collect();
    // Of one test each name is to stand once.
    let taken = |names: &[String]| {
        let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
        for (name, report) in names.iter().zip(reports) {
            *counts
                .entry((name.clone(), report.test.name()))
                .or_default() += 1;
        }
        counts
            .into_iter()
            .filter(|(_, count)| *count > 1)
            .map(|((name, _), _)| name)
            .collect::<Vec<_>>()
    };
    let ambiguous = taken(&names);
    for (name, report) in names.iter_mut().zip(reports) {
        if let (true, Some(machine)) = (ambiguous.contains(name), &report.origin.machine) {
            *name = format!("{name} on {machine}");
        }
    }
    let ambiguous = taken(&names);
    for (name, stem) in names.iter_mut().zip(stems) {
        if ambiguous.contains(name) {
            *name = format!("{name} ({stem})");
        }
    }
    names
}

const fn csv_name(test: Test) -> &'static str {
    match test {
        Test::Latency => "half_rtt_us",
        Test::Bandwidth => "mbyte_s",
        Test::Rate => "messages_s",
        Test::Cq => "requests_s",
    }
}

#[cfg(test)]
mod tests {
    use viaduct_measure::{Origin, Plan, Transfer};

    use super::*;

    #[test]
    fn measurements_are_named_by_what_differs() {
        let report = |fabric: &str, test: Test, machine: &str| {
            let plan = Plan::usual(test);
            let mut report = Report::new(fabric, &plan, Transfer::Auto, None, Vec::new());
            report.origin = Origin {
                machine: Some(machine.to_owned()),
                ..Origin::default()
            };
            report
        };
        let (latency, rate) = (Test::Latency, Test::Rate);
        let stems = ["one", "two", "three"].map(str::to_owned);
        let named = |reports: [Report; 3]| names(&reports, &stems);
        let all = [
            report("shm", latency, "a"),
            report("shm", rate, "a"),
            report("tcp", rate, "a"),
        ];
        assert_eq!(named(all), ["shm", "shm", "tcp"]);
        let all = [
            report("shm", latency, "a"),
            report("shm", latency, "b"),
            report("tcp", rate, "a"),
        ];
        assert_eq!(named(all), ["shm on a", "shm on b", "tcp"]);
        let all = [
            report("shm", latency, "a"),
            report("shm", latency, "a"),
            report("shm", rate, "a"),
        ];
        assert_eq!(
            named(all),
            ["shm on a (one)", "shm on a (two)", "shm on a (three)"]
        );
    }
}
