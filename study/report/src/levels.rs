//! One study at several levels: what each says, what it cost, and how far each message differs.
//!
//! The levels carry the same messages, posted at the same times, so that they are compared message
//! by message: what chance put into all of them drops out, and a small difference is seen in a
//! short run.

use std::collections::BTreeMap;

use serde::Serialize;
use viaduct_cluster::result::{MessageRow, RunResult};
use viaduct_cluster::why::CriticalPath;
use viaduct_engine::Time;
use viaduct_statistics::BatchMeans;

use crate::across::{Spread, spread};
use crate::explanation::{Part, parts_of_path};
use crate::figure::{duration, percent, quantity, scaled_count, with_decimals};
use crate::outcome::CellOutcome;
use crate::record::CellRecord;
use crate::screen::{aligned_table, mean_text, shown};
use crate::summary::tidy;

pub use viaduct_cluster::levels::AGREE_WITHIN as LEVELS_AGREE_WITHIN;

/// What a study says at one level, beside the first one.
#[derive(Clone, Debug, Serialize)]
pub struct LevelRecord {
    /// The level: a value of `links.model`.
    pub level: String,
    /// When the first of its runs came to a standstill (a deadlock, or operations that wait for
    /// what never comes), microseconds; its figures are of the time before.
    pub standstill_us: Option<f64>,
    /// Until all operations had ended, microseconds, of a graph of operations alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub makespan_us: Option<f64>,
    /// Mean latency, microseconds.
    pub mean_us: Option<Spread>,
    /// Half of all messages take at most this, microseconds.
    pub p50_us: Option<f64>,
    /// 99 % take at most this.
    pub p99_us: Option<f64>,
    /// 99.9 % take at most this.
    pub p999_us: Option<f64>,
    /// Utilisation of the busiest link, 0 to 1.
    pub busiest_link: Option<f64>,
    /// Most flows that a link had at once, in any of the runs; none of interfaces with endpoints,
    /// which do not count them.
    pub link_flows_max: Option<u64>,
    /// Messages lost over messages posted, 0 to 1.
    pub dropped_fraction: Option<f64>,
    /// Events of all runs.
    pub events: u64,
    /// Wall clock of all runs, one after the other, seconds.
    pub wall_s: f64,
    /// The digest of each run, in the order of the seeds.
    pub digests: Vec<String>,
    /// What the critical path of the first seed's run went to, of a graph of operations, if that
    /// was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_path: Option<PathParts>,
    /// How far messages differ from the first level's; none of that level itself, and where no
    /// message was posted by both at one time.
    pub difference: Option<PairedDifference>,
}

/// Latencies of the same messages at two levels, as a sample of messages shows them.
#[derive(Clone, Debug, Serialize)]
pub struct PairedDifference {
    /// Messages compared.
    pub pairs: u64,
    /// Messages of the sample that the other level did not post then, or lost.
    pub unpaired: u64,
    /// Mean of this level's latency less the first one's, microseconds.
    pub mean_us: Spread,
    /// The same over the first level's mean latency of these messages.
    pub relative: f64,
    /// The largest difference of a message in either direction, microseconds.
    pub largest_us: f64,
}

impl PairedDifference {
    /// Whether one level does not stand for the other: their means differ by more than
    /// [`LEVELS_AGREE_WITHIN`].
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.relative.abs() > LEVELS_AGREE_WITHIN
    }

    /// Of runs with the same seeds: messages posted after the warm-up.
    fn new<'a>(
        runs: impl Iterator<Item = (&'a RunResult, &'a RunResult)>,
        warmup: Time,
    ) -> Option<Self> {
        let paired = |(first, own)| Paired::new(first, own, warmup);
        let runs: Vec<Paired> = runs.map(paired).collect();
        let pairs: u64 = runs.iter().map(|run| run.differences.count()).sum();
        let means: Vec<f64> = runs.iter().filter_map(Paired::mean_us).collect();
        let mean_us = match runs.as_slice() {
            [run] => run.differences.estimate().map(|estimate| Spread {
                mean: tidy(estimate.mean),
                ci95: estimate.ci95.map(tidy),
            }),
            _ => spread(means.iter().copied()),
        }?;
        let first_us = runs.iter().map(|run| run.first_sum_us).sum::<f64>() / pairs as f64;
        Some(Self {
            pairs,
            unpaired: runs.iter().map(|run| run.unpaired).sum(),
            mean_us,
            relative: tidy(mean_us.mean / first_us),
            largest_us: tidy(runs.iter().map(|run| run.largest_us).fold(0.0, larger)),
        })
    }
}

/// What is farther from nothing.
fn larger(one: f64, other: f64) -> f64 {
    if other.abs() > one.abs() { other } else { one }
}

/// The messages of two runs.
struct Paired {
    differences: BatchMeans,
    first_sum_us: f64,
    largest_us: f64,
    unpaired: u64,
}

impl Paired {
    fn new(first: &RunResult, own: &RunResult, warmup: Time) -> Self {
        // In order of posting: batches of neighbours are what an interval is made of.
        let by_number = |run: &RunResult| -> BTreeMap<u64, MessageRow> {
            let rows = run.message_rows.iter();
            let measured = rows.filter(|row| row.posted >= warmup);
            measured.map(|row| (row.message, *row)).collect()
        };
        let (first, own) = (by_number(first), by_number(own));
        let mut paired = Self {
            differences: BatchMeans::default(),
            first_sum_us: 0.0,
            largest_us: 0.0,
            unpaired: 0,
        };
        for (number, row) in &own {
            let twin = first.get(number).filter(|twin| is_same_post(twin, row));
            let latencies = twin.and_then(|twin| twin.latency).zip(row.latency);
            let Some((first, own)) = latencies else {
                paired.unpaired += 1;
                continue;
            };
            let (first_us, own_us) = (first.microseconds_f64(), own.microseconds_f64());
            paired.differences.record(own_us - first_us);
            paired.first_sum_us += first_us;
            paired.largest_us = larger(paired.largest_us, own_us - first_us);
        }
        paired
    }

    fn mean_us(&self) -> Option<f64> {
        self.differences.estimate().map(|estimate| estimate.mean)
    }
}

fn is_same_post(one: &MessageRow, other: &MessageRow) -> bool {
    let post = |row: &MessageRow| (row.source, row.target, row.bytes, row.posted);
    post(one) == post(other)
}

impl LevelRecord {
    /// One for each cell: the cells are a study at one level each, run with the same seeds.
    /// `results` are those of all runs, in their order. The first cell's level is what the others
    /// are held against. Messages posted before `warmup` do not count.
    #[must_use]
    pub fn of_cells(cells: &[CellOutcome], results: &[RunResult], warmup: Time) -> Vec<Self> {
        let mut rest = results;
        let mut first: &[RunResult] = &[];
        let mut records = Vec::new();
        for cell in cells {
            let (own, behind) = rest.split_at(cell.runs.len().min(rest.len()));
            rest = behind;
            let difference = match records.is_empty() {
                true => {
                    first = own;
                    None
                }
                false => PairedDifference::new(first.iter().zip(own), warmup),
            };
            records.push(Self::new(&cell.record(), own, difference));
        }
        records
    }

    fn new(
        cell: &CellRecord<'_>,
        results: &[RunResult],
        difference: Option<PairedDifference>,
    ) -> Self {
        let counting = results.iter().filter(|run| run.interfaces.is_none());
        let links = counting.flat_map(|run| &run.link_rows);
        let level = cell.set.first().map_or("", |(_, level)| level);
        Self {
            level: level.to_owned(),
            standstill_us: standstill_us(results),
            makespan_us: cell.makespan_us(),
            mean_us: cell.mean_us,
            p50_us: cell.latency(|latency| latency.p50),
            p99_us: cell.latency(|latency| latency.p99),
            p999_us: cell.latency(|latency| latency.p999),
            busiest_link: cell.busiest_link(),
            link_flows_max: links.map(|link| u64::from(link.flows_max)).max(),
            dropped_fraction: cell.dropped_fraction(),
            events: results.iter().map(|run| run.events).sum(),
            wall_s: cell.runs.iter().map(|run| run.wall_s).sum(),
            digests: cell.runs.iter().map(|run| run.digest.clone()).collect(),
            critical_path: None,
            difference,
        }
    }
}

/// When the first of some runs stood still.
fn standstill_us(results: &[RunResult]) -> Option<f64> {
    let still = results.iter().filter(|run| run.ended.is_standstill());
    let ends = still.map(|run| run.simulated.microseconds_f64());
    ends.min_by(f64::total_cmp)
}

/// What a critical path went to.
#[derive(Clone, Debug)]
pub struct PathParts(BTreeMap<Part, Time>);

impl PathParts {
    /// That of a path.
    #[must_use]
    pub fn new(path: &CriticalPath) -> Self {
        Self(parts_of_path(path))
    }
}

impl Serialize for PathParts {
    /// As in a critical path by itself: `part`, `time_ps`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row {
            part: &'static str,
            time_ps: u64,
        }
        serializer.collect_seq(self.0.iter().map(|(part, time)| Row {
            part: part.name(),
            time_ps: time.picoseconds(),
        }))
    }
}

/// What the critical paths of levels or cases, each with its name, went to beside each other, one
/// row for each kind of time. Ends with a line feed; nothing where none has a path.
#[must_use]
pub fn paths_table<'a>(named: impl Iterator<Item = (String, Option<&'a PathParts>)>) -> String {
    let paths = named.filter_map(|(name, path)| Some((name, &path?.0)));
    let paths: Vec<(String, &BTreeMap<Part, Time>)> = paths.collect();
    if paths.is_empty() {
        return String::new();
    }
    let mut columns = vec![("critical path, us".to_owned(), false)];
    columns.extend(paths.iter().map(|(name, _)| (name.clone(), true)));
    let mut kinds: Vec<Part> = paths
        .iter()
        .flat_map(|(_, parts)| parts.keys().copied())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let times = |time: &dyn Fn(&BTreeMap<Part, Time>) -> Time| -> Vec<String> {
        let all = paths.iter().map(|(_, parts)| time(parts));
        all.map(|time| quantity(time.microseconds_f64())).collect()
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for kind in kinds {
        let mut row = vec![kind.words()];
        row.extend(times(&|parts| {
            parts.get(&kind).copied().unwrap_or(Time::ZERO)
        }));
        rows.push(row);
    }
    let mut whole = vec!["all operations".to_owned()];
    whole.extend(times(&|parts| {
        let all = parts.values();
        all.fold(Time::ZERO, |sum, time| sum.saturating_add(*time))
    }));
    rows.push(whole);
    aligned_table(columns, rows)
}

/// The table for a terminal: one row per level. Ends with a line feed.
#[must_use]
pub fn levels_table(records: &[LevelRecord]) -> String {
    let Some(first) = records.first() else {
        return String::new();
    };
    let has_drops = records
        .iter()
        .any(|record| record.dropped_fraction > Some(0.0));
    let against = format!("minus {}, us (95 % CI)", first.level);
    let is_application = records.iter().any(|record| record.makespan_us.is_some());
    let mut header = vec!["level"];
    header.extend(is_application.then_some("all operations us"));
    header.extend(["mean us (95 % CI)", &against, "p50 us", "p99 us"]);
    header.extend(["p99.9 us", "busiest link %", "flows on a link"]);
    header.extend(has_drops.then_some("dropped %"));
    header.extend(["events", "wall clock"]);
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
    let rows = records.iter().map(|record| {
        let difference = record.difference.as_ref().map(PairedDifference::text);
        let mut row = vec![record.level.clone()];
        row.extend(is_application.then(|| shown(record.makespan_us)));
        row.push(match is_application {
            true => shown(record.mean_us.map(|spread| spread.mean)),
            false => mean_text(record.mean_us),
        });
        row.push(difference.unwrap_or_else(|| "-".to_owned()));
        row.extend([record.p50_us, record.p99_us, record.p999_us].map(shown));
        row.extend([
            share(record.busiest_link),
            record
                .link_flows_max
                .map_or_else(|| "-".to_owned(), |most| most.to_string()),
        ]);
        row.extend(has_drops.then(|| share(record.dropped_fraction)));
        row.extend([scaled_count(record.events as f64), duration(record.wall_s)]);
        row
    });
    let columns = (0..).zip(header);
    let columns = columns.map(|(number, title)| (title.to_owned(), number > 0));
    aligned_table(columns.collect(), rows) + &pairs_line(records) + &standstill_lines(records)
}

impl PairedDifference {
    /// `+15.4 +- 0.2 (+3.6 %)`.
    fn text(&self) -> String {
        let Spread { mean, ci95 } = self.mean_us;
        let decimals = crate::figure::decimals(ci95.unwrap_or(mean));
        let sign = if mean < 0.0 { "" } else { "+" };
        let interval = ci95.map_or_else(String::new, |half_width| {
            format!(" +- {}", with_decimals(half_width, decimals))
        });
        let relative = self.relative * 100.0;
        format!(
            "{sign}{}{interval} ({relative:+.1} %)",
            with_decimals(mean, decimals)
        )
    }
}

/// Which rows are of the time before a standstill.
fn standstill_lines(records: &[LevelRecord]) -> String {
    let still = records.iter().filter_map(|record| {
        let at = quantity(record.standstill_us?);
        Some(format!(
            "\n  `{}` stood still at {at} us: its row is of the time before\n",
            record.level
        ))
    });
    still.collect()
}

/// What the differences are of.
fn pairs_line(records: &[LevelRecord]) -> String {
    let [first, others @ ..] = records else {
        return String::new();
    };
    let mut differences = others
        .iter()
        .filter_map(|record| record.difference.as_ref());
    let level = &first.level;
    match differences.next() {
        None if others.is_empty() => String::new(),
        // What no level has after that nobody can compare.
        None if records.iter().any(|record| record.standstill_us.is_some()) => String::new(),
        None => "\n  no message was posted at the same time by two levels: what is posted here \
                 depends on what has arrived\n"
            .to_owned(),
        Some(difference) => format!(
            "\n  differences are those of the same {} messages, posted at the same times: latency \
             at each level minus that at `{level}`\n",
            scaled_count(difference.pairs as f64),
        ),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    study: &'a str,
    version: &'a str,
    levels: &'a [LevelRecord],
}

/// One JSON object of all levels, as text that ends with a line feed.
///
/// # Panics
///
/// Never: the types hold nothing that JSON cannot say.
#[must_use]
pub fn levels_document(study: &str, version: &str, levels: &[LevelRecord]) -> String {
    let document = Document {
        study,
        version,
        levels,
    };
    serde_json::to_string_pretty(&document).expect("plain numbers and strings") + "\n"
}

#[cfg(test)]
mod tests {
    use viaduct_cluster::workload::MessageOperation;

    use super::*;
    use crate::sample;

    /// Messages of one host, so many microseconds apart, with these latencies.
    fn run(latencies_us: &[u64]) -> RunResult {
        let mut run = sample::result();
        run.message_rows = (0..)
            .zip(latencies_us)
            .map(|(message, &latency)| MessageRow {
                message,
                source: 0,
                target: 1,
                bytes: 64,
                operation: MessageOperation::Send,
                posted: Time::from_microseconds(10 * message),
                latency: (latency > 0).then(|| Time::from_microseconds(latency)),
                queued: Time::ZERO,
            })
            .collect();
        run
    }

    #[test]
    fn messages_are_compared_one_by_one() {
        let (first, own) = (run(&[5, 9, 4, 6]), run(&[6, 7, 7, 6]));
        let difference = PairedDifference::new([(&first, &own)].into_iter(), Time::ZERO).unwrap();
        assert_eq!((difference.pairs, difference.unpaired), (4, 0));
        // +1, -2, +3 and 0, of 24 in all.
        assert!((difference.mean_us.mean - 0.5).abs() < 1e-9);
        assert!((difference.relative - 2.0 / 24.0).abs() < 1e-9);
        assert_eq!(difference.largest_us, 3.0);
        assert!(!difference.is_large());
        let late = Time::from_microseconds(10);
        let late = PairedDifference::new([(&first, &own)].into_iter(), late).unwrap();
        assert_eq!((late.pairs, late.unpaired), (3, 0));
    }

    #[test]
    fn a_message_that_is_lost_or_posted_at_another_time_has_no_twin() {
        let (first, mut own) = (run(&[5, 0, 5, 5]), run(&[5, 5, 5, 0]));
        own.message_rows[2].posted = Time::from_microseconds(21);
        let difference = PairedDifference::new([(&first, &own)].into_iter(), Time::ZERO).unwrap();
        assert_eq!((difference.pairs, difference.unpaired), (1, 3));
        own.message_rows.remove(0);
        assert!(PairedDifference::new([(&first, &own)].into_iter(), Time::ZERO).is_none());
    }

    #[test]
    fn several_seeds_give_the_interval_of_their_means() {
        let runs = [(run(&[5, 5]), run(&[6, 6])), (run(&[5, 5]), run(&[8, 8]))];
        let pairs = runs.iter().map(|(first, own)| (first, own));
        let difference = PairedDifference::new(pairs, Time::ZERO).unwrap();
        assert!((difference.mean_us.mean - 2.0).abs() < 1e-9);
        // Two means, 1 and 3: Student's t of one degree, 12.706, times one.
        assert!((difference.mean_us.ci95.unwrap() - 12.706_205).abs() < 1e-5);
        assert!(difference.is_large());
    }
}
