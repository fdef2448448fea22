//! What was measured: for a person and for a program.

use std::fmt::{self, Write as _};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize, Serializer};
use viaduct_provider::{Counts, Memory};

use crate::line::Placement;
use crate::links::{LinkRow, busiest};
use crate::origin::Origin;
use crate::plan::{Mode, Plan, Test, Transfer, level_name};

/// The result of one plan on one fabric.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// The fabric's name.
    pub fabric: String,
    /// The program.
    pub test: Test,
    /// How both sides waited.
    pub mode: Mode,
    /// The level: `ud`, `rd` or `rr`.
    pub level: String,
    /// How bytes were to move.
    pub transfer: Transfer,
    /// `shared` or `private`.
    pub memory: String,
    /// Whether every byte was written and read.
    pub touched: bool,
    /// The cores of the two sides.
    #[serde(default)]
    pub cores: Option<[usize; 2]>,
    /// Where and when it was measured, and by what.
    #[serde(flatten)]
    pub origin: Origin,
    /// Of several hosts that ask the same one, how many they are; [`None`] for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_hosts: Option<u32>,
    /// On simulated hosts with faults or background traffic, what these did; [`None`] elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Happened>,
    /// The study's own messages, if the simulated hosts ran amid a study's traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<Around>,
    /// What the links of simulated hosts carried from the first to the last, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkRow>,
    /// One row per size, or per number of connections.
    pub rows: Vec<Row>,
}

/// What faults and background traffic did while programs ran on simulated hosts.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Happened {
    /// Simulated time at the end, microseconds.
    pub simulated_us: f64,
    /// Messages that arrived.
    pub messages: u64,
    /// Messages that did not arrive for a fault, acknowledgements included.
    pub messages_lost: u64,
    /// Messages that arrived corrupt.
    pub messages_corrupted: u64,
    /// Connections that a fault broke.
    pub connections_broken: u64,
    /// Transfers of background traffic that ended.
    pub background_transfers: u64,
}

impl fmt::Display for Happened {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "in {:.1} us {} messages arrived, corrupt {}, lost {}; connections broken {}; \
             background transfers {}",
            self.simulated_us,
            grouped(self.messages as f64),
            grouped(self.messages_corrupted as f64),
            grouped(self.messages_lost as f64),
            self.connections_broken,
            grouped(self.background_transfers as f64)
        )
    }
}

/// How many of a study's own messages were posted, delivered and dropped, from the beginning of the
/// simulation to the end of the measuring programs.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Around {
    /// Simulated time at which the programs began, microseconds.
    pub begun_us: f64,
    /// And at which they ended.
    pub ended_us: f64,
    /// Messages that the study's processes wanted to post.
    pub messages_posted: u64,
    /// That their receivers have taken.
    pub messages_delivered: u64,
    /// That were dropped.
    pub messages_dropped: u64,
    /// Under way at the end.
    pub messages_in_flight: u64,
}

impl fmt::Display for Around {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} messages of the study up to {:.1} us, delivered {}, dropped {}, under way at the \
             end {}; the programs began at {:.1} us",
            grouped(self.messages_posted as f64),
            self.ended_us,
            grouped(self.messages_delivered as f64),
            grouped(self.messages_dropped as f64),
            grouped(self.messages_in_flight as f64),
            self.begun_us
        )
    }
}

/// One row.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Row {
    /// Of [`Test::Latency`].
    Latency(LatencyRow),
    /// Of [`Test::Bandwidth`] and [`Test::Rate`].
    Stream(StreamRow),
    /// Of [`Test::Cq`].
    CompletionQueue(CompletionQueueRow),
}

/// A message to and fro.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LatencyRow {
    /// Bytes of the message.
    pub bytes: u32,
    /// Half the round trip in microseconds, over batches.
    pub half_rtt_us: Spread,
    /// Round trips that were timed.
    pub round_trips: u64,
    /// Round trips of one batch: a quantile is one of batch means unless this is 1.
    pub batch: u64,
    /// On simulated hosts, where the time goes of a message of these bytes that is alone in the
    /// network and polled for; [`None`] elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages_us: Option<Stages>,
    /// What else was seen.
    #[serde(flatten)]
    pub noise: Noise,
}

/// Messages one way.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StreamRow {
    /// Bytes of a message.
    pub bytes: u32,
    /// 10^6 bytes a second, of the median batch.
    pub mbyte_s: f64,
    /// Messages a second, of the median batch.
    pub messages_s: f64,
    /// 10^6 bytes a second over the whole time, interruptions included.
    pub mean_mbyte_s: f64,
    /// Messages a second over the whole time.
    pub mean_messages_s: f64,
    /// Messages of one window; two windows are on the way at once.
    pub window: u32,
    /// Messages that were timed.
    pub messages: u64,
    /// On simulated hosts, where the time goes of a message of these bytes that is alone in the
    /// network and polled for; [`None`] elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages_us: Option<Stages>,
    /// What else was seen.
    #[serde(flatten)]
    pub noise: Noise,
}

/// Many connections, one completion queue.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CompletionQueueRow {
    /// Connections, with one request of 32 bytes outstanding each.
    pub connections: u32,
    /// Requests a second that the connections offered together; [`None`] for as many as are
    /// answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_requests_s: Option<u32>,
    /// Requests answered a second, of the median batch.
    pub requests_s: f64,
    /// Memory of a connection, both ends together, without the program's own buffers and
    /// descriptors; `None` where the host cannot say.
    pub bytes_per_connection: Option<u64>,
    /// Requests answered a second over the whole time.
    pub mean_requests_s: f64,
    /// Requests that were timed.
    pub requests: u64,
    /// What else was seen.
    #[serde(flatten)]
    pub noise: Noise,
}

/// Stages of a message's way, in their order, and microseconds: an object in JSON, one key per
/// stage. They add up to half a round trip.
pub type Stages = IndexMap<String, f64>;

/// Least, middle and nearly greatest.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// Half are not above it.
    pub median: f64,
    /// 99 of 100 are not above it.
    pub p99: f64,
}

/// What disturbed a row, or made it quick.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Noise {
    /// Nanoseconds that a cache line takes between the cores, right before.
    pub line_ns_before: Option<f64>,
    /// The same, right after.
    pub line_ns_after: Option<f64>,
    /// What that says of the cores.
    pub placement: Option<Placement>,
    /// The part of the timed time that was lost to interruptions.
    pub lost_fraction: f64,
    /// What the initiator's NIC counted meanwhile, if that was asked for and it counts.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub counts: Option<RowCounts>,
}

/// What the initiator's NIC counted while a row was timed.
#[derive(Clone, Copy, Debug)]
pub struct RowCounts {
    /// Round trips, messages or requests that were timed.
    pub over: u64,
    /// What was counted in all of them.
    pub counts: Counts,
}

impl Serialize for RowCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = self.counts.named();
        let derived = [
            ("over", self.over),
            ("messages", self.counts.messages()),
            ("remote_writes", self.counts.remote_writes()),
            ("dma_requests", self.counts.dma_requests()),
        ];
        serializer.collect_map(derived.into_iter().chain(named))
    }
}

impl Report {
    /// From a plan and its results.
    #[must_use]
    pub fn new(
        fabric: &str,
        plan: &Plan,
        transfer: Transfer,
        cores: Option<[usize; 2]>,
        rows: Vec<Row>,
    ) -> Self {
        Self {
            fabric: fabric.to_owned(),
            test: plan.test,
            mode: plan.mode,
            level: level_name(plan.level).to_owned(),
            transfer,
            memory: match plan.memory {
                Memory::Shared => "shared",
                Memory::Private => "private",
            }
            .to_owned(),
            touched: plan.is_touched,
            cores,
            origin: Origin::default(),
            client_hosts: (plan.asker.of > 1).then_some(plan.asker.of),
            faults: None,
            around: None,
            links: Vec::new(),
            rows,
        }
    }

    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers, names and lists: nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What was done, in a line, to stand above [`Report::table`].
    #[must_use]
    pub fn title(&self) -> String {
        format!(
            "{} over {}: {}\n  {}\n",
            self.test.name(),
            self.fabric,
            self.test.purpose(),
            self.how()
        )
    }

    /// What it was asked for but the test: for a table of several.
    #[must_use]
    pub fn settings(&self) -> String {
        let touched = if self.touched { ", touched" } else { "" };
        let (mode, level) = (self.mode.name(), &self.level);
        format!(
            "{mode}, level {level}, {} memory, transfer {}{touched}",
            self.memory, self.transfer
        )
    }

    /// The settings, in a line.
    pub(crate) fn how(&self) -> String {
        let how = match self.mode {
            Mode::Poll => "both sides poll",
            Mode::Block => "both sides sleep until woken",
        };
        let touched = if self.touched {
            ", every byte written and read"
        } else {
            ""
        };
        let clients = match self.client_hosts {
            Some(count) => format!(", {count} client hosts"),
            None => String::new(),
        };
        let cores = match self.cores {
            Some([first, second]) => format!(", cores {first} and {second}"),
            None => String::new(),
        };
        format!(
            "{how}, level {}, {} memory, transfer {}{touched}{clients}{cores}",
            self.level, self.memory, self.transfer
        )
    }

    /// The rows for a person, with what the columns mean below.
    #[must_use]
    pub fn table(&self) -> String {
        let (heads, cells): (&[&str], Vec<Vec<String>>) = match self.test {
            Test::Latency => (
                &["bytes", "min us", "median us", "p99 us"],
                self.rows.iter().map(Row::cells).collect(),
            ),
            Test::Bandwidth | Test::Rate => (
                &["bytes", "MB/s", "messages/s", "mean MB/s"],
                self.rows.iter().map(Row::cells).collect(),
            ),
            Test::Cq if self.has_loads() => (
                &[
                    "connections",
                    "offered/s",
                    "requests/s",
                    "mean requests/s",
                    "bytes per connection",
                ],
                self.rows.iter().map(Row::cells).collect(),
            ),
            Test::Cq => (
                &[
                    "connections",
                    "requests/s",
                    "mean requests/s",
                    "bytes per connection",
                ],
                self.rows.iter().map(Row::cells).collect(),
            ),
        };
        let noise = ["line ns", "placement", "lost %"];
        if self.is_simulated() {
            let own = heads.len();
            let cells: Vec<Vec<String>> = cells
                .into_iter()
                .map(|row| row.into_iter().take(own).collect())
                .collect();
            let explanation = "\n  simulated time: every run gives these figures again.\n";
            let around = self.around.map(|it| format!("  around: {it}\n"));
            let happened = self.faults.map(|it| format!("  faults: {it}\n"));
            let happened = around.unwrap_or_default() + &happened.unwrap_or_default();
            let links = match self.links.is_empty() {
                true => String::new(),
                false => format!("  {}\n", busiest(&self.links, significant)),
            };
            return aligned(heads, &cells) + explanation + &happened + &links;
        }
        let heads: Vec<&str> = heads.iter().copied().chain(noise).collect();
        aligned(&heads, &cells) + self.explanation()
    }

    /// What the initiator's NIC counted, for each round trip, message or request; `None` if nothing
    /// was counted.
    #[must_use]
    pub fn counts_table(&self) -> Option<String> {
        let counted: Vec<(u32, RowCounts)> = self
            .rows
            .iter()
            .filter_map(|row| Some((row.variant(), row.noise().counts?)))
            .collect();
        let (_, first) = counted.first()?;
        // One line per count, one column per row: names are long, and most rows few.
        let mut lines = vec![(
            "remote_writes",
            counted
                .iter()
                .map(|(_, row)| row.counts.remote_writes())
                .collect(),
        )];
        for (place, (name, _)) in first.counts.named().into_iter().enumerate() {
            let values = counted.iter().map(|(_, row)| row.counts.named()[place].1);
            lines.push((name, values.collect::<Vec<u64>>()));
        }
        let heads = counted.iter().map(|(variant, _)| variant.to_string());
        let heads: Vec<String> = std::iter::once(self.variant().to_owned())
            .chain(heads)
            .collect();
        let cells = lines
            .iter()
            .filter(|(_, values)| values.iter().any(|value| *value > 0));
        let cells = cells.map(|(name, values)| {
            let values = values.iter().zip(&counted);
            let each = values
                .map(|(value, (_, row))| format!("{:.3}", *value as f64 / row.over.max(1) as f64));
            std::iter::once((*name).to_owned()).chain(each).collect()
        });
        let cells: Vec<Vec<String>> = cells.collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let each = match self.test {
            Test::Latency => "a round trip",
            Test::Bandwidth | Test::Rate => "a message",
            Test::Cq => "a request",
        };
        Some(format!(
            "\n  what the first side's NIC did for {each}, over {}:\n\n{}",
            self.fabric,
            aligned(&heads, &cells)
        ))
    }

    /// Whether its rows differ by the offered load.
    #[must_use]
    pub fn has_loads(&self) -> bool {
        let is_loaded = |row: &Row| matches!(row, Row::CompletionQueue(row) if row.offered_requests_s.is_some());
        self.rows.iter().any(is_loaded)
    }

    /// What differs from row to row.
    #[must_use]
    pub fn variant(&self) -> &'static str {
        match self.test {
            Test::Latency | Test::Bandwidth | Test::Rate => "bytes",
            Test::Cq if self.has_loads() => "offered/s",
            Test::Cq => "connections",
        }
    }

    /// Whether the sides had simulated hosts instead of cores.
    const fn is_simulated(&self) -> bool {
        self.cores.is_none()
    }

    fn explanation(&self) -> &'static str {
        match self.test {
            Test::Latency => {
                "\n  us: over batches of round trips. line ns: a cache line between the two cores, \
                 before and\n  after; compare only rows of one placement. lost %: time taken by \
                 interruptions.\n"
            }
            Test::Bandwidth | Test::Rate => {
                "\n  MB: 10^6 bytes; the median batch, and the mean with interruptions. line ns: a \
                 cache line\n  between the two cores, before and after; compare only rows of one \
                 placement. lost %: time taken\n  by interruptions.\n"
            }
            Test::Cq => {
                "\n  requests/s: answered, the median batch, and the mean with interruptions. bytes per\n  \
                 connection: memory of both its ends, two VIs, without the program's buffers. line ns: \
                 a cache\n  line between the two cores, before and after; compare only rows of one \
                 placement. lost %: time\n  taken by interruptions.\n"
            }
        }
    }
}

impl Row {
    /// What else was seen.
    #[must_use]
    pub const fn noise(&self) -> &Noise {
        match self {
            Self::Latency(row) => &row.noise,
            Self::Stream(row) => &row.noise,
            Self::CompletionQueue(row) => &row.noise,
        }
    }

    pub(crate) const fn noise_mut(&mut self) -> &mut Noise {
        match self {
            Self::Latency(row) => &mut row.noise,
            Self::Stream(row) => &mut row.noise,
            Self::CompletionQueue(row) => &mut row.noise,
        }
    }

    /// Says where the time of a message of the row's size goes; of no effect where rows have none.
    pub fn set_stages(&mut self, stages_us: Stages) {
        match self {
            Self::Latency(row) => row.stages_us = Some(stages_us),
            Self::Stream(row) => row.stages_us = Some(stages_us),
            Self::CompletionQueue(_) => {}
        }
    }

    /// Adds what another host measured at the same time with its part of a row's connections.
    pub fn add(&mut self, other: &Self) {
        if let (Self::CompletionQueue(row), Self::CompletionQueue(other)) = (self, other) {
            row.requests_s += other.requests_s;
            row.mean_requests_s += other.mean_requests_s;
            row.requests += other.requests;
            row.bytes_per_connection = None;
        }
    }

    /// Bytes of a message, requests a second that are offered, or connections.
    #[must_use]
    pub const fn variant(&self) -> u32 {
        match self {
            Self::Latency(row) => row.bytes,
            Self::Stream(row) => row.bytes,
            Self::CompletionQueue(row) => match row.offered_requests_s {
                Some(offered) => offered,
                None => row.connections,
            },
        }
    }

    /// The one value that says most of a test's row: for [`Test::Latency`] the median in
    /// microseconds, for the others 10^6 bytes, messages or requests a second.
    #[must_use]
    pub fn figure(&self, test: Test) -> f64 {
        match self {
            Self::Latency(row) => row.half_rtt_us.median,
            Self::Stream(row) if test == Test::Rate => row.messages_s,
            Self::Stream(row) => row.mbyte_s,
            Self::CompletionQueue(row) => row.requests_s,
        }
    }

    /// The same, written.
    pub(crate) fn figure_cell(&self, test: Test) -> String {
        match test {
            Test::Latency | Test::Bandwidth => significant(self.figure(test)),
            Test::Rate | Test::Cq => grouped(self.figure(test)),
        }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = match self {
            Self::Latency(row) => vec![
                row.bytes.to_string(),
                significant(row.half_rtt_us.min),
                significant(row.half_rtt_us.median),
                significant(row.half_rtt_us.p99),
            ],
            Self::Stream(row) => vec![
                row.bytes.to_string(),
                significant(row.mbyte_s),
                grouped(row.messages_s),
                significant(row.mean_mbyte_s),
            ],
            Self::CompletionQueue(row) => {
                let connections = std::iter::once(row.connections.to_string());
                let offered = row.offered_requests_s;
                let offered = offered.map(|offered| grouped(f64::from(offered)));
                let others = [
                    grouped(row.requests_s),
                    grouped(row.mean_requests_s),
                    row.bytes_per_connection
                        .map_or_else(|| "-".to_owned(), |bytes| grouped(bytes as f64)),
                ];
                connections.chain(offered).chain(others).collect()
            }
        };
        let noise = self.noise();
        cells.push(match (noise.line_ns_before, noise.line_ns_after) {
            (Some(before), Some(after)) => format!("{before:.0}, {after:.0}"),
            _ => "-".to_owned(),
        });
        cells.push(noise.placement.map_or("-", Placement::name).to_owned());
        cells.push(format!("{:.1}", noise.lost_fraction * 100.0));
        cells
    }
}

/// A table whose columns end below each other.
pub(crate) fn aligned(heads: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(column, head)| {
            let cells = rows.iter().map(|row| row[column].len());
            cells.chain([head.len()]).max().unwrap_or_default()
        })
        .collect();
    let mut text = String::new();
    let mut line = |row: &[&str]| {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    };
    line(heads);
    for row in rows {
        line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

/// Three significant digits, more before the point.
pub(crate) fn significant(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// A whole number in groups of three digits.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            fabric: "shm".to_owned(),
            test: Test::Latency,
            mode: Mode::Poll,
            level: "rd".to_owned(),
            transfer: Transfer::Auto,
            memory: "shared".to_owned(),
            touched: false,
            cores: Some([0, 1]),
            origin: Origin::default(),
            client_hosts: None,
            faults: None,
            around: None,
            links: Vec::new(),
            rows: vec![Row::Latency(LatencyRow {
                bytes: 8,
                half_rtt_us: Spread {
                    min: 0.0771,
                    median: 0.08,
                    p99: 1234.5,
                },
                round_trips: 1000,
                batch: 10,
                stages_us: None,
                noise: Noise {
                    line_ns_before: Some(50.2),
                    line_ns_after: None,
                    placement: None,
                    lost_fraction: 0.0123,
                    counts: None,
                },
            })],
        }
    }

    #[test]
    fn the_object_has_the_promised_shape() {
        let value: serde_json::Value = serde_json::from_str(&report().to_json()).unwrap();
        assert_eq!(value["fabric"], "shm");
        assert_eq!(value["test"], "latency");
        assert_eq!(value["rows"][0]["bytes"], 8);
        assert_eq!(value["rows"][0]["half_rtt_us"]["median"], 0.08);
        assert_eq!(value["rows"][0]["line_ns_before"], 50.2);
        assert_eq!(value["rows"][0]["placement"], serde_json::Value::Null);
        assert!(value["rows"][0].get("stages_us").is_none());
    }

    #[test]
    fn stages_keep_their_order_in_the_object() {
        let mut report = report();
        let stages = [("post", 0.5), ("doorbell", 0.0), ("a", 1.25)];
        let stages = stages.map(|(stage, time)| (stage.to_owned(), time));
        report.rows[0].set_stages(stages.into_iter().collect());
        let json = report.to_json();
        let wanted = r#""stages_us":{"post":0.5,"doorbell":0.0,"a":1.25}"#;
        assert!(json.contains(wanted), "{json}");
        let again: Report = serde_json::from_str(&json).unwrap();
        assert_eq!(again.to_json(), json);
    }

    #[test]
    fn rows_of_all_kinds_are_read_again() {
        let noise =
            r#""line_ns_before":50.5,"line_ns_after":null,"placement":"near","lost_fraction":0.5"#;
        for (test, row) in [
            (
                "rate",
                r#""bytes":8,"mbyte_s":1.5,"messages_s":2.5,"mean_mbyte_s":1.0,"mean_messages_s":2.0,"window":64,"messages":9"#,
            ),
            (
                "cq",
                r#""connections":16,"offered_requests_s":500,"requests_s":1.5,"bytes_per_connection":null,"mean_requests_s":1.25,"requests":7"#,
            ),
        ] {
            let json = format!(
                r#"{{"fabric":"shm","test":"{test}","mode":"poll","level":"rd","transfer":"auto","memory":"shared","touched":false,"cores":[0,1],"machine":"a","version":"0.1.0","rows":[{{{row},{noise}}}]}}"#
            );
            let report: Report = serde_json::from_str(&json).unwrap();
            assert_eq!(report.to_json(), json);
        }
    }

    #[test]
    fn the_table_is_aligned_and_explained() {
        let table = report().table();
        let mut lines = table.lines();
        let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
        assert_eq!(head.len(), row.len(), "{table}");
        assert!(row.contains("0.077") && row.contains("1234") && row.contains("1.2"));
        assert!(table.contains("lost %: time"));
        assert!(table.lines().all(|line| line.len() <= 100), "{table}");
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(0.0), "0");
    }
}
