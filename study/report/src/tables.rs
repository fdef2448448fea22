//! The tables of a run directory and their data dictionary.
//!
//! Each table begins with the columns `cell` and `seed`, so that one file holds all runs of a
//! study; each run is a row group. A sweep's table, with one row per run, is in [`sweep`].

mod sweep;

pub use sweep::{SWEEP_ROW, sweep_columns, sweep_parquet};

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

use parquet::basic::{ConvertedType, Encoding, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use viaduct_cluster::result::{LinkRow, MessageRow, RankRow, RunResult};
use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId, Node};

use crate::OrderedMap;
use crate::outcome::StudyOutcome;
use crate::summary::{class_word, quantile_us, seconds};

/// A table of a run: one file of the run directory.
#[derive(Debug)]
pub struct Table {
    /// Its name, without the extension of the file.
    pub name: &'static str,
    /// What a row is.
    pub row: &'static str,
    /// The columns; in a run directory after `cell` and `seed`.
    pub columns: &'static [Column],
    /// The values of those columns for one run.
    values: fn(&RunResult) -> Vec<Values>,
}

/// One column: the unit is part of the name, save for counts, numbers of things and fractions.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its unit: `us`, `s`, `byte`, `0 to 1`, `count`; `number` and `word` have none.
    pub unit: &'static str,
    /// What it says.
    pub meaning: Cow<'static, str>,
    kind: Kind,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Number,
    Count,
    OptionalCount,
    Real,
    OptionalReal,
    Word,
    OptionalWord,
}

/// The values of a column in one row group: of a run's tables, in one run.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Numbers of things, and small counts.
    Number(Vec<u32>),
    /// Counts.
    Count(Vec<u64>),
    /// Counts that a row may lack.
    OptionalCount(Vec<Option<u64>>),
    /// Quantities.
    Real(Vec<f64>),
    /// Quantities that a row may lack.
    OptionalReal(Vec<Option<f64>>),
    /// One of few words.
    Word(Vec<&'static str>),
    /// Words that are not known before.
    Text(Vec<String>),
    /// Words that a row may lack.
    OptionalText(Vec<Option<String>>),
}

const fn column(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    meaning: &'static str,
) -> Column {
    Column {
        name: Cow::Borrowed(name),
        unit,
        meaning: Cow::Borrowed(meaning),
        kind,
    }
}

/// The columns that every table begins with.
pub(crate) static RUN_COLUMNS: [Column; 2] = [
    column(
        "cell",
        Kind::Number,
        "number",
        "cell of the sweep, from 0 in the order of summary.json",
    ),
    column("seed", Kind::Count, "number", "seed of the run"),
];

/// The tables of a run; each is a file `<name>.parquet` of its directory.
pub static TABLES: [Table; 6] = [
    Table {
        name: "messages",
        row: "one message of an even sample over the whole run, warm-up included",
        columns: &[
            column(
                "message",
                Kind::Count,
                "number",
                "number of the message in order of posting",
            ),
            column("source_host", Kind::Number, "number", "sending host"),
            column(
                "source_adapter",
                Kind::Number,
                "number",
                "which of its adapters, from 0",
            ),
            column(
                "source",
                Kind::Word,
                "word",
                "the host's name, or that of the adapter's place if it has several",
            ),
            column("target_host", Kind::Number, "number", "receiving host"),
            column(
                "target_adapter",
                Kind::Number,
                "number",
                "which of its adapters, from 0",
            ),
            column(
                "target",
                Kind::Word,
                "word",
                "its name, as that of the source",
            ),
            column("size_bytes", Kind::Count, "byte", "payload"),
            column(
                "operation",
                Kind::Word,
                "word",
                "send, write, write-with-immediate or read",
            ),
            column(
                "posted_us",
                Kind::Real,
                "us",
                "when the application posted it, simulated time",
            ),
            column(
                "latency_us",
                Kind::OptionalReal,
                "us",
                "from post until its receiver has it, of a read until its bytes are there; null if it \
                 was dropped",
            ),
            column(
                "queued_us",
                Kind::Real,
                "us",
                "of which waiting for shares of links and buses",
            ),
            column(
                "stands_for_messages",
                Kind::Count,
                "count",
                "messages that one row stands for",
            ),
        ],
        values: message_values,
    },
    Table {
        name: "links",
        row: "one directed link",
        columns: &[
            column(
                "link",
                Kind::Number,
                "number",
                "number of the link in the topology",
            ),
            column(
                "from",
                Kind::Word,
                "word",
                "name of the host or switch it leaves",
            ),
            column(
                "to",
                Kind::Word,
                "word",
                "name of the host or switch it enters",
            ),
            column(
                "class",
                Kind::Word,
                "word",
                "mesh, host_up, host_down, tree_up or tree_down",
            ),
            column(
                "wire_bytes",
                Kind::Real,
                "byte",
                "carried between warm-up and end, framing included",
            ),
            column(
                "utilisation_fraction",
                Kind::Real,
                "0 to 1",
                "carried over possible between warm-up and end",
            ),
            column("flows_max", Kind::Number, "count", "most flows at once"),
            column(
                "queue_max_bytes",
                Kind::Count,
                "byte",
                "most bytes in its output queue at once; 0 where frames do not go one by one",
            ),
            column(
                "frames_lost",
                Kind::Count,
                "count",
                "frames that found its queue full and were lost, in the whole run",
            ),
            column(
                "frames_trimmed",
                Kind::Count,
                "count",
                "frames that found its queue full and were cut to their headers, in the whole run",
            ),
            column(
                "frames_marked",
                Kind::Count,
                "count",
                "frames that its queue marked, in the whole run",
            ),
            column(
                "pauses",
                Kind::Count,
                "count",
                "how often it was told to pause, in the whole run",
            ),
            column(
                "paused_ps",
                Kind::Count,
                "ps",
                "for how long it has paused, in the whole run",
            ),
        ],
        values: link_values,
    },
    Table {
        name: "series",
        row: "one window of simulated time; windows are equally long",
        columns: &[
            column("end_s", Kind::Real, "s", "the window's end, simulated time"),
            column(
                "posted_messages",
                Kind::Count,
                "count",
                "posted in the window",
            ),
            column(
                "delivered_messages",
                Kind::Count,
                "count",
                "delivered in the window",
            ),
            column(
                "dropped_messages",
                Kind::Count,
                "count",
                "dropped in the window",
            ),
            column(
                "in_flight_messages",
                Kind::Count,
                "count",
                "under way at the window's end",
            ),
            column(
                "latency_mean_us",
                Kind::OptionalReal,
                "us",
                "mean latency of those delivered; null if there were none",
            ),
            column(
                "link_utilisation_mean_fraction",
                Kind::Real,
                "0 to 1",
                "mean over the links between switches",
            ),
            column(
                "link_utilisation_max_fraction",
                Kind::Real,
                "0 to 1",
                "the busiest link between switches",
            ),
        ],
        values: series_values,
    },
    Table {
        name: "queues",
        row: "the queue of one directed link in one window of simulated time, where frames waited, were \
              lost, trimmed or marked, or the link paused; of one window 1,024 queues at most, those that \
              held most",
        columns: &[
            column(
                "end_s",
                Kind::Real,
                "s",
                "the window's end, simulated time, as in series",
            ),
            column(
                "link",
                Kind::Number,
                "number",
                "number of the link in the topology, as in links",
            ),
            column(
                "queue_max_bytes",
                Kind::Count,
                "byte",
                "most bytes in its queue at once; 0 if no more than a full frame was",
            ),
            column(
                "frames_lost",
                Kind::Count,
                "count",
                "frames that found it full and were lost",
            ),
            column(
                "frames_trimmed",
                Kind::Count,
                "count",
                "frames that found it full and were cut to their headers",
            ),
            column(
                "frames_marked",
                Kind::Count,
                "count",
                "frames that it marked",
            ),
            column(
                "pauses",
                Kind::Count,
                "count",
                "how often the link was told to pause",
            ),
            column("paused_ps", Kind::Count, "ps", "for how long it paused"),
        ],
        values: queue_values,
    },
    Table {
        name: "latency",
        row: "one point of the distribution of latency after warm-up",
        columns: &[
            column(
                "quantile_fraction",
                Kind::Real,
                "0 to 1",
                "this share of the messages ...",
            ),
            column("latency_us", Kind::Real, "us", "... took at most this long"),
        ],
        values: latency_values,
    },
    Table {
        name: "ranks",
        row: "one rank of a graph of operations; none without one",
        columns: &[
            column("rank", Kind::Number, "number", "its number"),
            column("host_number", Kind::Number, "number", "its host"),
            column("host", Kind::Word, "word", "its host's name"),
            column(
                "span_us",
                Kind::Real,
                "us",
                "from the start of the traffic to the end of its last operation",
            ),
            column(
                "computing_us",
                Kind::Real,
                "us",
                "for how long its processors computed",
            ),
            column(
                "messaging_us",
                Kind::Real,
                "us",
                "for how long its host's processor worked for its messages",
            ),
            column(
                "waiting_us",
                Kind::Real,
                "us",
                "for how long its first processor did neither",
            ),
            column(
                "longest_wait_rank",
                Kind::OptionalCount,
                "number",
                "the rank that it waited for longest; null: for none",
            ),
            column(
                "longest_wait_us",
                Kind::OptionalReal,
                "us",
                "how long it waited for that rank",
            ),
            column(
                "waited_for_us",
                Kind::Real,
                "us",
                "how long all ranks together waited for it",
            ),
        ],
        values: rank_values,
    },
];

/// Writes a table of all runs as Parquet; `results` has what each left, in their order.
///
/// # Errors
///
/// When the sink cannot be written.
pub(crate) fn write_table<W: Write + Send>(
    table: &Table,
    outcome: &StudyOutcome,
    results: &[RunResult],
    sink: W,
) -> Result<W, ParquetError> {
    let columns: Vec<&Column> = RUN_COLUMNS.iter().chain(table.columns).collect();
    let mut file = begin_file(outcome, table.name, table.row, &columns, sink)?;
    for (run, result) in outcome.runs().zip(results) {
        let values = (table.values)(result);
        let rows = values.first().map_or(0, Values::len);
        let cell = Values::Number(vec![run.cell; rows]);
        let seed = Values::Count(vec![run.seed; rows]);
        let mut group = file.next_row_group()?;
        for values in [cell, seed].into_iter().chain(values) {
            write_column(&mut group, &values)?;
        }
        group.close()?;
    }
    file.into_inner()
}

/// Begins a file of a table.
///
/// It carries its dictionary: `viaduct.row` says what a row is, `viaduct.columns` is a JSON object
/// of unit and meaning by column. Integers are stored as differences, which shrink numbers in
/// order to next to nothing; words and what is constant in a run as a dictionary.
///
/// # Errors
///
/// When the sink cannot be written.
fn begin_file<W: Write + Send>(
    outcome: &StudyOutcome,
    name: &str,
    row: &str,
    columns: &[&Column],
    sink: W,
) -> Result<SerializedFileWriter<W>, ParquetError> {
    let fields = columns.iter().map(|column| column.kind.field(&column.name));
    let fields = fields.collect::<Result<Vec<_>, ParquetError>>()?;
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let dictionary: OrderedMap<serde_json::Value> = columns
        .iter()
        .map(|column| {
            let entry = serde_json::json!({ "unit": column.unit, "meaning": column.meaning });
            (column.name.to_string(), entry)
        })
        .collect();
    let metadata = [
        ("viaduct.study", outcome.study.clone()),
        ("viaduct.version", outcome.version.clone()),
        ("viaduct.digest", outcome.digest()),
        ("viaduct.row", row.to_owned()),
        (
            "viaduct.columns",
            serde_json::to_string(&dictionary).unwrap_or_default(),
        ),
    ];
    let metadata = metadata.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    let mut properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_key_value_metadata(Some(metadata.to_vec()));
    for column in columns {
        let path = ColumnPath::from(&*column.name);
        properties = match column.kind {
            Kind::Number | Kind::Count | Kind::OptionalCount => {
                properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            }
            Kind::Word | Kind::OptionalWord => properties.set_column_dictionary_enabled(path, true),
            Kind::Real | Kind::OptionalReal => properties,
        };
    }
    SerializedFileWriter::new(sink, Arc::new(schema), Arc::new(properties.build()))
}

/// Writes the next column of a row group.
///
/// # Errors
///
/// When the sink cannot be written, or the table has no more columns.
fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &Values,
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else {
        return Err(ParquetError::General("more values than columns".to_owned()));
    };
    match values {
        Values::Number(values) => writer.typed::<Int32Type>().write_batch(
            &signed(values, u32::cast_signed),
            None,
            None,
        )?,
        Values::Count(values) => writer.typed::<Int64Type>().write_batch(
            &signed(values, u64::cast_signed),
            None,
            None,
        )?,
        Values::Real(values) => writer
            .typed::<DoubleType>()
            .write_batch(values, None, None)?,
        Values::OptionalReal(values) => {
            let (present, levels) = present(values);
            writer
                .typed::<DoubleType>()
                .write_batch(&present, Some(&levels), None)?
        }
        Values::OptionalCount(values) => {
            let (values, levels) = present(values);
            writer.typed::<Int64Type>().write_batch(
                &signed(&values, u64::cast_signed),
                Some(&levels),
                None,
            )?
        }
        Values::Word(values) => {
            let words: Vec<ByteArray> = values.iter().copied().map(ByteArray::from).collect();
            writer
                .typed::<ByteArrayType>()
                .write_batch(&words, None, None)?
        }
        Values::Text(values) => {
            writer
                .typed::<ByteArrayType>()
                .write_batch(&byte_arrays(values), None, None)?
        }
        Values::OptionalText(values) => {
            let (values, levels) = present(values);
            writer.typed::<ByteArrayType>().write_batch(
                &byte_arrays(&values),
                Some(&levels),
                None,
            )?
        }
    };
    writer.close()
}

/// Parquet stores unsigned integers as the signed ones of the same bits.
fn signed<U: Copy, S>(values: &[U], cast: impl Fn(U) -> S) -> Vec<S> {
    values.iter().copied().map(cast).collect()
}

fn byte_arrays(texts: &[String]) -> Vec<ByteArray> {
    texts.iter().map(|text| ByteArray::from(&**text)).collect()
}

/// The values that there are, and of each row whether there is one.
fn present<T: Clone>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    let levels = values.iter().map(|value| value.is_some().into()).collect();
    (values.iter().flatten().cloned().collect(), levels)
}

impl Table {
    /// The values of each column in one run, in the order of the columns.
    #[must_use]
    pub fn values(&self, result: &RunResult) -> Vec<Values> {
        (self.values)(result)
    }
}

impl Kind {
    /// A column of this kind in a schema.
    fn field(self, name: &str) -> Result<TypePtr, ParquetError> {
        let (physical, converted, repetition) = match self {
            Self::Number => (
                PhysicalType::INT32,
                ConvertedType::UINT_32,
                Repetition::REQUIRED,
            ),
            Self::Count => (
                PhysicalType::INT64,
                ConvertedType::UINT_64,
                Repetition::REQUIRED,
            ),
            Self::OptionalCount => (
                PhysicalType::INT64,
                ConvertedType::UINT_64,
                Repetition::OPTIONAL,
            ),
            Self::Real => (
                PhysicalType::DOUBLE,
                ConvertedType::NONE,
                Repetition::REQUIRED,
            ),
            Self::OptionalReal => (
                PhysicalType::DOUBLE,
                ConvertedType::NONE,
                Repetition::OPTIONAL,
            ),
            Self::Word => (
                PhysicalType::BYTE_ARRAY,
                ConvertedType::UTF8,
                Repetition::REQUIRED,
            ),
            Self::OptionalWord => (
                PhysicalType::BYTE_ARRAY,
                ConvertedType::UTF8,
                Repetition::OPTIONAL,
            ),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_converted_type(converted)
            .build()?;
        Ok(Arc::new(field))
    }
}

impl Values {
    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Number(values) => values.len(),
            Self::Count(values) => values.len(),
            Self::Real(values) => values.len(),
            Self::OptionalReal(values) => values.len(),
            Self::OptionalCount(values) => values.len(),
            Self::Word(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::OptionalText(values) => values.len(),
        }
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn numbers<T>(rows: &[T], of: impl Fn(&T) -> u32) -> Self {
        Self::Number(rows.iter().map(of).collect())
    }

    fn counts<T>(rows: &[T], of: impl Fn(&T) -> u64) -> Self {
        Self::Count(rows.iter().map(of).collect())
    }

    fn reals<T>(rows: &[T], of: impl Fn(&T) -> f64) -> Self {
        Self::Real(rows.iter().map(of).collect())
    }

    fn optional_reals<T>(rows: &[T], of: impl Fn(&T) -> Option<f64>) -> Self {
        Self::OptionalReal(rows.iter().map(of).collect())
    }
}

fn message_values(result: &RunResult) -> Vec<Values> {
    let (rows, adapters) = (&result.message_rows, result.adapters);
    let names = |host: fn(&MessageRow) -> u32| {
        let name = |row: &MessageRow| result.topology.node_name(Node::Host(HostId(host(row))));
        Values::Text(rows.iter().map(name).collect())
    };
    vec![
        Values::counts(rows, |row| row.message),
        Values::numbers(rows, |row| row.source / adapters),
        Values::numbers(rows, |row| row.source % adapters),
        names(|row| row.source),
        Values::numbers(rows, |row| row.target / adapters),
        Values::numbers(rows, |row| row.target % adapters),
        names(|row| row.target),
        Values::counts(rows, |row| u64::from(row.bytes)),
        Values::Word(rows.iter().map(|row| row.operation.name()).collect()),
        Values::reals(rows, |row| microseconds(row.posted.picoseconds())),
        Values::optional_reals(rows, |row| {
            row.latency.map(|time| microseconds(time.picoseconds()))
        }),
        Values::reals(rows, |row| microseconds(row.queued.picoseconds())),
        Values::counts(rows, |_| result.message_stride),
    ]
}

fn link_values(result: &RunResult) -> Vec<Values> {
    let rows = &result.link_rows;
    let names = |end: fn((Node, Node)) -> Node| {
        let topology = &result.topology;
        let name = |row: &LinkRow| topology.node_name(end(topology.link_ends(LinkId(row.link))));
        Values::Text(rows.iter().map(name).collect())
    };
    vec![
        Values::numbers(rows, |row| row.link),
        names(|(from, _)| from),
        names(|(_, to)| to),
        Values::Word(rows.iter().map(|row| class_word(row.class)).collect()),
        Values::reals(rows, |row| row.wire_bytes),
        Values::reals(rows, |row| row.utilisation),
        Values::numbers(rows, |row| row.flows_max),
        Values::counts(rows, |row| row.queue_max_bytes),
        Values::counts(rows, |row| row.frames_lost),
        Values::counts(rows, |row| row.frames_trimmed),
        Values::counts(rows, |row| row.frames_marked),
        Values::counts(rows, |row| row.pauses),
        Values::counts(rows, |row| row.paused.picoseconds()),
    ]
}

fn series_values(result: &RunResult) -> Vec<Values> {
    let rows = &result.series;
    vec![
        Values::reals(rows, |row| seconds(row.end.picoseconds())),
        Values::counts(rows, |row| row.posted),
        Values::counts(rows, |row| row.delivered),
        Values::counts(rows, |row| row.dropped),
        Values::counts(rows, |row| row.in_flight),
        Values::optional_reals(rows, |row| {
            (row.delivered > 0).then_some(row.latency_mean_us)
        }),
        Values::reals(rows, |row| row.link_utilisation_mean),
        Values::reals(rows, |row| row.link_utilisation_max),
    ]
}

fn queue_values(result: &RunResult) -> Vec<Values> {
    let rows = &result.queues;
    vec![
        Values::reals(rows, |row| seconds(row.end.picoseconds())),
        Values::numbers(rows, |row| row.link),
        Values::counts(rows, |row| row.bytes_max),
        Values::counts(rows, |row| row.counts.lost),
        Values::counts(rows, |row| row.counts.trimmed),
        Values::counts(rows, |row| row.counts.marked),
        Values::counts(rows, |row| row.counts.pauses),
        Values::counts(rows, |row| row.counts.paused.picoseconds()),
    ]
}

fn rank_values(result: &RunResult) -> Vec<Values> {
    let application = result.application.as_ref();
    let rows = application.map_or(&[][..], |application| &application.ranks);
    let host = |row: &RankRow| result.topology.node_name(Node::Host(HostId(row.host)));
    let time = |of: fn(&RankRow) -> Time| Values::reals(rows, |row| of(row).microseconds_f64());
    fn longest<T>(rows: &[RankRow], of: fn((u32, Time)) -> T) -> Vec<Option<T>> {
        rows.iter().map(|row| row.longest_wait.map(of)).collect()
    }
    vec![
        Values::numbers(rows, |row| row.rank),
        Values::numbers(rows, |row| row.host / result.adapters),
        Values::Text(rows.iter().map(host).collect()),
        time(|row| row.span),
        time(|row| row.computing),
        time(|row| row.messaging),
        time(|row| row.waiting),
        Values::OptionalCount(longest(rows, |(rank, _)| u64::from(rank))),
        Values::OptionalReal(longest(rows, |(_, wait)| wait.microseconds_f64())),
        time(|row| row.waited_for),
    ]
}

/// Points of the distribution of latency: a share of the messages, and how many microseconds they
/// took at most.
pub(crate) fn latency_points(result: &RunResult) -> Vec<(f64, f64)> {
    match &result.latency {
        Some(latency) => quantiles(latency.count)
            .into_iter()
            .filter_map(|quantile| Some((quantile, quantile_us(latency, quantile)?)))
            .collect(),
        None => Vec::new(),
    }
}

fn latency_values(result: &RunResult) -> Vec<Values> {
    let points = latency_points(result);
    vec![
        Values::reals(&points, |point| point.0),
        Values::reals(&points, |point| point.1),
    ]
}

/// Every half per cent, then ten times finer for each further nine, as far as `count` messages
/// can tell: the tail is where people look.
fn quantiles(count: u64) -> Vec<f64> {
    let mut quantiles: Vec<f64> = (0..=198).map(|step| f64::from(step) / 200.0).collect();
    let mut tail = 1e3;
    while tail <= count as f64 && tail <= 1e7 {
        quantiles.extend((1..=9).map(|step| 1.0 - f64::from(10 - step) / tail));
        tail *= 10.0;
    }
    quantiles.push(1.0);
    quantiles
}

fn microseconds(picoseconds: u64) -> f64 {
    picoseconds as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_as_fine_as_the_count_allows() {
        let few = quantiles(999);
        assert_eq!(few.len(), 200);
        let many = quantiles(870_412);
        assert_eq!(many.len(), 200 + 9 * 3);
        assert!(many.is_sorted_by(|a, b| a < b));
        assert_eq!(many[many.len() - 2], 0.999_99);
    }

    #[test]
    fn a_dimensioned_column_carries_its_unit_in_its_name() {
        for column in TABLES.iter().flat_map(|table| table.columns) {
            let suffix = match column.unit {
                "us" => "_us",
                "s" => "_s",
                "byte" => "_bytes",
                "0 to 1" => "_fraction",
                _ => "",
            };
            assert!(column.name.ends_with(suffix), "{}", column.name);
        }
    }
}
