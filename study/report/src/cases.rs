//! Cases beside each other: studies, or one at several values of its keys, each run with the same
//! seeds; how long the first takes, and how far the others are from it.

use serde::Serialize;

use crate::across::{Spread, spread};
use crate::figure::{decimals, duration, percent, scaled_count, with_decimals};
use crate::levels::PathParts;
use crate::outcome::StudyOutcome;
use crate::record::CellRecord;
use crate::screen::{aligned_table, shown, spread as spread_text};
use crate::summary::Summary;

/// One case, beside the first.
#[derive(Clone, Debug, Serialize)]
pub struct CaseRecord {
    /// Its study.
    pub study: String,
    /// What was set, and to what.
    pub set: Vec<(String, String)>,
    /// Until all operations had ended, microseconds, of a graph of operations alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub makespan_us: Option<Spread>,
    /// Bus bandwidth of a collective that has bytes, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus_bandwidth_gb_per_s: Option<Spread>,
    /// How long a rank of it waited, mean, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_us: Option<Spread>,
    /// Mean latency of its messages, microseconds.
    pub mean_us: Option<Spread>,
    /// 99 % of them take at most this, microseconds.
    pub p99_us: Option<f64>,
    /// Utilisation of the busiest link, 0 to 1.
    pub busiest_link: Option<f64>,
    /// Why a run of it failed, or how it came to a standstill.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Events of all runs.
    pub events: u64,
    /// Wall clock of all runs, one after the other, seconds.
    pub wall_s: f64,
    /// The digest of each run, in the order of the seeds.
    pub digests: Vec<String>,
    /// What the critical path of the first seed's run went to, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_path: Option<PathParts>,
    /// How far it is from the first case; none of that itself.
    pub difference: Option<CaseDifference>,
}

/// How far a case is from the first: time of all operations, or mean latency if there are none.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CaseDifference {
    /// Its runs less those of the first case with the same seeds, microseconds.
    pub mean_us: Spread,
    /// The same over the first case's mean.
    pub relative: f64,
}

/// What cases are compared by.
fn compared(run: &Summary) -> Option<f64> {
    match &run.application {
        Some(application) => application.makespan_us,
        None => run.latency_us.mean,
    }
}

impl CaseRecord {
    /// One for each cell of some studies, which were all run with as many seeds from the same on.
    #[must_use]
    pub fn of_studies(studies: &[StudyOutcome]) -> Vec<Self> {
        let cells = studies
            .iter()
            .flat_map(|study| study.cells.iter().map(|cell| (&study.study, cell.record())));
        let cells: Vec<(&String, CellRecord<'_>)> = cells.collect();
        let first = cells.first().map(|(_, cell)| cell.runs.clone());
        let first = first.unwrap_or_default();
        let case = |(place, (study, cell)): (usize, &(&String, CellRecord<'_>))| {
            let difference = (place > 0).then(|| CaseDifference::of(&first, &cell.runs));
            Self::new(study, cell, difference.flatten())
        };
        cells.iter().enumerate().map(case).collect()
    }

    fn new(study: &str, cell: &CellRecord<'_>, difference: Option<CaseDifference>) -> Self {
        let standstill = cell.runs.iter().find_map(|run| run.standstill());
        Self {
            study: study.to_owned(),
            set: cell.set.to_vec(),
            makespan_us: cell.spread(Summary::makespan_us),
            bus_bandwidth_gb_per_s: cell.spread(|run| {
                let collective = run.application.as_ref()?.collective.as_ref();
                collective.map(|it| it.bus_bandwidth_gb_per_s)
            }),
            waiting_us: cell.spread(|run| Some(run.application.as_ref()?.waiting_us.mean)),
            mean_us: cell.mean_us,
            p99_us: cell.latency(|latency| latency.p99),
            busiest_link: cell.busiest_link(),
            note: match (cell.reason, standstill) {
                (Some(reason), _) => format!("failed: {reason}"),
                (None, Some(word)) => word.to_owned(),
                (None, None) => String::new(),
            },
            events: cell.runs.iter().map(|run| run.events).sum(),
            wall_s: cell.runs.iter().map(|run| run.wall_s).sum(),
            digests: cell.runs.iter().map(|run| run.digest.clone()).collect(),
            critical_path: None,
            difference,
        }
    }

    /// Its name in a table whose columns are cases.
    #[must_use]
    pub fn name(&self, with_study: bool) -> String {
        let values = self.set.iter().map(|(_, value)| value.as_str());
        let study = with_study.then_some(self.study.as_str());
        study
            .into_iter()
            .chain(values)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl CaseDifference {
    fn of(first: &[&Summary], own: &[&Summary]) -> Option<Self> {
        let pairs = first.iter().zip(own);
        let pairs = pairs.filter_map(|(first, own)| Some((compared(first)?, compared(own)?)));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let mean_us = spread(pairs.iter().map(|(first, own)| own - first))?;
        let of_first = pairs.iter().map(|(first, _)| first).sum::<f64>() / pairs.len() as f64;
        Some(Self {
            mean_us,
            relative: mean_us.mean / of_first,
        })
    }

    /// `+345.1 +- 2.1 (+40.4 %)`.
    fn text(&self) -> String {
        let Spread { mean, ci95 } = self.mean_us;
        let decimals = decimals(mean);
        let sign = if mean < 0.0 { "" } else { "+" };
        let interval = ci95.map_or_else(String::new, |half_width| {
            format!(" +- {}", with_decimals(half_width, decimals))
        });
        let (mean, relative) = (with_decimals(mean, decimals), self.relative * 100.0);
        format!("{sign}{mean}{interval} ({relative:+.1} %)")
    }
}

/// Whether cases are of several studies.
#[must_use]
pub fn are_of_studies(cases: &[CaseRecord]) -> bool {
    cases.windows(2).any(|pair| pair[0].study != pair[1].study)
}

/// The table for a terminal: one row a case. Ends with a line feed.
#[must_use]
pub fn cases_table(cases: &[CaseRecord]) -> String {
    let mut keys: Vec<&String> = Vec::new();
    for (key, _) in cases.iter().flat_map(|case| &case.set) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let has = |of: fn(&CaseRecord) -> bool| cases.iter().any(of);
    let has_studies = are_of_studies(cases);
    let has_seeds = has(|case| case.digests.len() > 1);
    let is_application = has(|case| case.makespan_us.is_some());
    let is_collective = has(|case| case.bus_bandwidth_gb_per_s.is_some());
    let has_notes = has(|case| !case.note.is_empty());
    let interval = if has_seeds { " (95 % CI)" } else { "" };

    let text = |title: &str| (title.to_owned(), false);
    let number = |title: String| (title, true);
    let mut columns = Vec::new();
    columns.extend(has_studies.then(|| text("study")));
    columns.extend(keys.iter().map(|key| text(key)));
    let minus = format!("minus the first, us{interval}");
    if is_application {
        columns.push(number(format!("all operations us{interval}")));
        columns.push(number(minus.clone()));
        columns.extend(is_collective.then(|| number(format!("bus bandwidth GB/s{interval}"))));
        columns.push(number("a rank waits us".to_owned()));
    }
    // An interval of messages that wait for each other says little of the application.
    let has_latency_interval = has_seeds || !is_application;
    columns.push(number(match has_latency_interval {
        true => "mean us (95 % CI)".to_owned(),
        false => "mean us".to_owned(),
    }));
    columns.extend((!is_application).then(|| number(minus)));
    columns
        .extend(["p99 us", "busiest link %", "events", "wall clock"].map(|it| number(it.into())));
    columns.extend(has_notes.then(|| text("")));

    let dash = || "-".to_owned();
    let spread = |value: Option<Spread>| value.map_or_else(dash, spread_text);
    let rows = cases.iter().map(|case| {
        let value = |key: &&String| {
            let value = case.set.iter().find(|(name, _)| name == *key);
            value.map_or_else(dash, |(_, value)| value.clone())
        };
        let difference = case.difference.map_or_else(dash, |it| it.text());
        let mut row = Vec::new();
        row.extend(has_studies.then(|| case.study.clone()));
        row.extend(keys.iter().map(value));
        if is_application {
            row.extend([spread(case.makespan_us), difference.clone()]);
            row.extend(is_collective.then(|| spread(case.bus_bandwidth_gb_per_s)));
            row.push(shown(case.waiting_us.map(|it| it.mean)));
        }
        row.push(match has_latency_interval {
            true => spread(case.mean_us),
            false => shown(case.mean_us.map(|it| it.mean)),
        });
        row.extend((!is_application).then_some(difference));
        row.push(shown(case.p99_us));
        row.push(case.busiest_link.map_or_else(dash, percent));
        row.extend([scaled_count(case.events as f64), duration(case.wall_s)]);
        row.extend(has_notes.then(|| case.note.clone()));
        row
    });
    let line = match has_seeds {
        true => "\n  differences are between runs with the same seed\n",
        false => "",
    };
    aligned_table(columns, rows) + line
}

#[derive(Serialize)]
struct Document<'a> {
    version: &'a str,
    cases: &'a [CaseRecord],
}

/// One JSON object of all cases, as text that ends with a line feed.
///
/// # Panics
///
/// Never: the types hold nothing that JSON cannot say.
#[must_use]
pub fn cases_document(version: &str, cases: &[CaseRecord]) -> String {
    let document = Document { version, cases };
    serde_json::to_string_pretty(&document).expect("plain numbers and strings") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_case_is_held_against_the_first_seed_by_seed() {
        let mut study = sample::grid();
        study.cells.truncate(2);
        for (cell, latencies) in study.cells.iter_mut().zip([[400.0, 500.0], [440.0, 560.0]]) {
            for (run, latency) in cell.runs.iter_mut().zip(latencies) {
                let summary = run.made.as_mut().unwrap();
                summary.latency_us.mean = Some(latency);
            }
        }
        let cases = CaseRecord::of_studies(&[study.clone(), study]);
        assert_eq!(cases.len(), 4);
        assert!(cases[0].difference.is_none());
        // 40 and 60: Student's t of one degree, 12.706, times ten.
        let difference = cases[1].difference.unwrap();
        assert!((difference.mean_us.mean - 50.0).abs() < 1e-9);
        assert!((difference.mean_us.ci95.unwrap() - 127.062).abs() < 1e-2);
        assert!((difference.relative - 50.0 / 450.0).abs() < 1e-9);
        assert_eq!(difference.text(), "+50.00 +- 127.06 (+11.1 %)");
        assert_eq!(cases[2].difference.unwrap().mean_us.mean, 0.0);
        let table = cases_table(&cases);
        assert!(table.contains("minus the first, us (95 % CI)"), "{table}");
        assert!(!table.contains("study"), "{table}");
    }
}
