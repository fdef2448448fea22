//! Where the time of an application went, for a person and for a program.

use indexmap::IndexMap;
use serde::Serialize;
use viaduct_operations::{Graph, Misfits, Stalled};

use crate::report::{aligned, grouped, significant};
use crate::requests::RequestReport;

/// Where the time of a rank went, until its last operation ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RankTimes {
    /// Its number.
    pub rank: u32,
    /// From the beginning of all ranks to the end of its last operation.
    pub span_ps: u64,
    /// For how long it computed.
    pub computing_ps: u64,
    /// For how long it looked for messages, and there were none.
    pub waiting_ps: u64,
    /// Messages of operations that it sent.
    pub messages: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
}

impl RankTimes {
    pub(super) fn of(rank: u32) -> Self {
        Self {
            rank,
            ..Self::default()
        }
    }
}

/// A rank, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct RankRow {
    rank: u32,
    span_us: f64,
    computing_us: f64,
    messaging_us: f64,
    waiting_us: f64,
    messages: u64,
    bytes: u64,
}

/// The result of a graph.
#[derive(Clone, Debug, Serialize)]
pub struct ApplicationRow {
    /// Keys of the study that it is a cell of, and their values.
    pub settings: IndexMap<String, String>,
    /// Ranks that there are.
    pub ranks: u32,
    /// Operations that there are.
    pub operations: u64,
    /// Of these, such that have ended.
    pub ended: u64,
    /// From the beginning of all ranks to the end of the last operation, microseconds.
    pub all_operations_us: f64,
    /// How many times as fast that is as the same on one rank, if that was measured.
    pub speed_up: Option<f64>,
    /// For how much of the time of all ranks they computed.
    pub computing: f64,
    /// For how much they worked for messages.
    pub messaging: f64,
    /// For how much they looked for messages, and there were none.
    pub waiting: f64,
    /// Messages of operations.
    pub messages: u64,
    /// Bytes of these.
    pub bytes: u64,
    #[serde(rename = "of_ranks")]
    rows: Vec<RankRow>,
    /// What has not ended although nothing could happen any more, if anything.
    #[serde(skip)]
    pub stalled: Option<Stalled>,
    /// Sends and receives that matched and whose sizes do not fit.
    #[serde(skip)]
    pub misfits: Misfits,
}

impl ApplicationRow {
    pub(super) fn of(graph: &Graph, times: &[RankTimes]) -> Self {
        let us = |ps: u64| ps as f64 / 1e6;
        let rows = times.iter().map(|it| RankRow {
            rank: it.rank,
            span_us: us(it.span_ps),
            computing_us: us(it.computing_ps),
            messaging_us: us(it.span_ps - it.computing_ps - it.waiting_ps),
            waiting_us: us(it.waiting_ps),
            messages: it.messages,
            bytes: it.sent_bytes,
        });
        let rows: Vec<RankRow> = rows.collect();
        let sum = |part: fn(&RankRow) -> f64| rows.iter().map(part).sum::<f64>();
        let all = sum(|row| row.span_us);
        let share = |part: f64| if all > 0.0 { part / all } else { 0.0 };
        Self {
            settings: IndexMap::new(),
            ranks: graph.ranks(),
            operations: graph.len() as u64,
            ended: 0,
            all_operations_us: rows.iter().map(|row| row.span_us).fold(0.0, f64::max),
            speed_up: None,
            computing: share(sum(|row| row.computing_us)),
            messaging: share(sum(|row| row.messaging_us)),
            waiting: share(sum(|row| row.waiting_us)),
            messages: rows.iter().map(|row| row.messages).sum(),
            bytes: rows.iter().map(|row| row.bytes).sum(),
            rows,
            stalled: None,
            misfits: Misfits::default(),
        }
    }
}

/// What an application took on a fabric.
#[derive(Clone, Debug, Serialize)]
pub struct ApplicationReport {
    /// The study that says what the ranks do.
    pub study: String,
    /// One row for each of its cells.
    pub rows: Vec<ApplicationRow>,
}

/// The key of a study that says how many ranks there are.
const RANKS: &str = "traffic.ranks";

impl ApplicationReport {
    /// Of rows; each learns how many times as fast it is as the one that differs in its one rank.
    #[must_use]
    pub fn new(study: String, mut rows: Vec<ApplicationRow>) -> Self {
        let others = |row: &ApplicationRow| {
            let mut settings = row.settings.clone();
            settings.shift_remove(RANKS);
            settings
        };
        let alone: Vec<(IndexMap<String, String>, f64)> = rows
            .iter()
            .filter(|row| row.ranks == 1 && row.settings.contains_key(RANKS))
            .map(|row| (others(row), row.all_operations_us))
            .collect();
        for row in &mut rows {
            let own = others(row);
            let alone = alone.iter().find(|(settings, _)| *settings == own);
            let speed_up = alone.map(|(_, us)| us / row.all_operations_us);
            row.speed_up = speed_up.filter(|_| row.all_operations_us > 0.0);
        }
        Self { study, rows }
    }

    /// The table of one fabric.
    #[must_use]
    pub fn table(report: &RequestReport<Self>) -> String {
        let Self { study, rows } = &report.figures;
        let has_speed_up = rows.iter().any(|row| row.speed_up.is_some());
        let keys = rows.first().map(|row| row.settings.keys());
        let keys: Vec<&str> = keys.into_iter().flatten().map(String::as_str).collect();
        let mut heads = keys.clone();
        if !keys.contains(&RANKS) {
            heads.push("ranks");
        }
        heads.push("all operations us");
        heads.extend(has_speed_up.then_some("speed-up"));
        heads.extend([
            "computing %",
            "messaging %",
            "waiting %",
            "messages",
            "bytes",
        ]);
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let lines = rows.iter().map(|row| {
            let mut line: Vec<String> = row.settings.values().cloned().collect();
            if !keys.contains(&RANKS) {
                line.push(row.ranks.to_string());
            }
            line.push(match row.all_operations_us {
                us if us >= 1000.0 => grouped(us),
                us => significant(us),
            });
            if has_speed_up {
                line.push(row.speed_up.map_or("-".to_owned(), significant));
            }
            line.extend([row.computing, row.messaging, row.waiting].map(percent));
            line.extend([row.messages, row.bytes].map(|count| grouped(count as f64)));
            line
        });
        let lines: Vec<Vec<String>> = lines.collect();
        format!(
            "application of {study} over {}: each rank a program over an endpoint\n\n{}\n  \
             computing, messaging, waiting: of the time of all ranks, until the last operation of \
             each.\n",
            report.fabric,
            aligned(&heads, &lines)
        )
    }
}
