//! The table of a sweep as Parquet: one row per cell and seed.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use super::{SweepAccount, SweepCell, SweepNumbers, SweepRecord};
use crate::ordered::OrderedMap;
use crate::tables::{Kind, Values, write_column};

/// What a row of a sweep's table is.
pub const SWEEP_ROW: &str = "one run: a cell of the sweep and a seed";

/// A column of a sweep's table: one row per cell and seed.
#[derive(Clone, Debug)]
pub struct SweepColumn {
    /// Its name.
    pub name: String,
    /// Its unit, as in [`Column`](crate::Column).
    pub unit: &'static str,
    /// What it says.
    pub meaning: String,
    kind: Kind,
    /// What it holds.
    pub values: Values,
}

/// Real numbers of a run: name, unit, meaning, and where it stands.
type Real = (
    &'static str,
    &'static str,
    &'static str,
    fn(&SweepNumbers) -> Option<f64>,
);

/// Counts of a run.
type Count = (&'static str, &'static str, fn(&SweepNumbers) -> u64);

const REALS: [Real; 17] = [
    ("simulated_s", "s", "simulated time at the end", |run| {
        Some(run.simulated_s)
    }),
    (
        "offered_messages_per_s",
        "1/s",
        "posted after the warm-up, by all processes; null if the run is too short to tell",
        |run| run.offered_messages_per_s,
    ),
    (
        "carried_messages_per_s",
        "1/s",
        "delivered or dropped in the same time",
        |run| run.carried_messages_per_s,
    ),
    (
        "latency_mean_us",
        "us",
        "mean of the measured messages",
        |run| run.latency_us.mean,
    ),
    (
        "latency_ci95_us",
        "us",
        "half width of this run's 95 % confidence interval, by batch means",
        |run| run.latency_us.ci95,
    ),
    (
        "latency_sd_us",
        "us",
        "standard deviation of one message",
        |run| run.latency_us.sd,
    ),
    ("latency_min_us", "us", "smallest", |run| run.latency_us.min),
    ("latency_p50_us", "us", "median", |run| run.latency_us.p50),
    ("latency_p90_us", "us", "90 % are at most this", |run| {
        run.latency_us.p90
    }),
    ("latency_p99_us", "us", "99 % are at most this", |run| {
        run.latency_us.p99
    }),
    ("latency_p999_us", "us", "99.9 % are at most this", |run| {
        run.latency_us.p999
    }),
    ("latency_max_us", "us", "largest", |run| run.latency_us.max),
    (
        "latency_floor_us",
        "us",
        "no message of the smallest size over the shortest path can be faster",
        |run| run.latency_us.floor,
    ),
    (
        "link_utilisation_mean_fraction",
        "0 to 1",
        "mean of the class of links with the busiest one",
        |run| Some(run.links.utilisation_mean),
    ),
    (
        "link_utilisation_max_fraction",
        "0 to 1",
        "the busiest link",
        |run| Some(run.links.utilisation_max),
    ),
    (
        "bus_utilisation_mean_fraction",
        "0 to 1",
        "mean over the hosts' buses",
        |run| Some(run.buses.utilisation_mean),
    ),
    (
        "bus_utilisation_max_fraction",
        "0 to 1",
        "the busiest bus",
        |run| Some(run.buses.utilisation_max),
    ),
];

const COUNTS: [Count; 6] = [
    ("posted_messages", "of the whole run", |run| {
        run.messages.posted
    }),
    ("delivered_messages", "of them received", |run| {
        run.messages.delivered
    }),
    ("dropped_messages", "of them lost", |run| {
        run.messages.dropped
    }),
    (
        "in_flight_messages",
        "of them under way at the end",
        |run| run.messages.in_flight,
    ),
    (
        "measured_messages",
        "delivered of those posted after the warm-up",
        |run| run.latency_us.count,
    ),
    ("events", "handled", |run| run.events),
];

/// Writes the table; equal sweeps give equal bytes.
///
/// # Errors
///
/// When the sink cannot be written.
pub fn sweep_parquet<W: Write + Send>(account: &SweepAccount, sink: W) -> Result<W, ParquetError> {
    let columns = sweep_columns(account);
    let fields = columns
        .iter()
        .map(|column| column.kind.field(&column.name))
        .collect::<Result<Vec<_>, ParquetError>>()?;
    let schema = Type::group_type_builder("sweep")
        .with_fields(fields)
        .build()?;
    let properties = properties(account, &columns);
    let mut file = SerializedFileWriter::new(sink, Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for column in &columns {
        write_column(&mut group, &column.values)?;
    }
    group.close()?;
    file.into_inner()
}

/// The columns of the table, in order.
#[must_use]
pub fn sweep_columns(account: &SweepAccount) -> Vec<SweepColumn> {
    let rows: Vec<(&SweepCell, &SweepRecord)> = account
        .cells
        .iter()
        .flat_map(|cell| cell.records.iter().map(move |record| (cell, record)))
        .collect();
    let column = |name: &str, unit, meaning: &str, kind, values| SweepColumn {
        name: name.to_owned(),
        unit,
        meaning: meaning.to_owned(),
        kind,
        values,
    };
    let word = str::to_owned;
    let words = |of: &dyn Fn(&SweepNumbers) -> String| {
        let values = rows.iter().map(|(_, record)| {
            let numbers = record.numbers.as_deref();
            numbers.map(of)
        });
        Values::OptionalText(values.collect())
    };
    let cells = rows.iter().map(|(cell, _)| cell.number);
    let seeds = rows.iter().map(|(_, record)| record.seed);
    let mut columns = vec![
        column(
            "cell",
            "number",
            "cell of the sweep, from 0, the last key fastest",
            Kind::Number,
            Values::Number(cells.collect()),
        ),
        column(
            "seed",
            "number",
            "seed of the run",
            Kind::Count,
            Values::Count(seeds.collect()),
        ),
    ];
    for (index, (key, unit)) in account.axes.iter().enumerate() {
        let name = key.replace('.', "_");
        let values = rows.iter().map(|(cell, _)| word(&cell.set[index].1));
        columns.push(column(
            &name,
            "word",
            &format!("{key}, as a person writes it"),
            Kind::Word,
            Values::Text(values.collect()),
        ));
        if let Some(unit) = unit {
            let values = rows.iter().map(|(cell, _)| cell.numbers[index]);
            columns.push(column(
                &format!("{name}_{unit}"),
                unit,
                &format!("{key} as a number; null if it is none"),
                Kind::OptionalReal,
                Values::OptionalReal(values.collect()),
            ));
        }
    }
    let status = rows.iter().map(|(_, record)| {
        word(match &record.numbers {
            None => "failed",
            Some(run) if run.is_unstable => "unstable",
            Some(_) => "done",
        })
    });
    let reasons = rows.iter().map(|(_, record)| record.reason.as_deref());
    columns.extend([
        column(
            "status",
            "word",
            "done, unstable (more was offered than carried) or failed",
            Kind::Word,
            Values::Text(status.collect()),
        ),
        column(
            "reason",
            "word",
            "why the run failed; null otherwise, as all that follows is if it did",
            Kind::OptionalWord,
            Values::OptionalText(reasons.map(|reason| reason.map(word)).collect()),
        ),
        column(
            "digest",
            "word",
            "hash of every message and the final counts",
            Kind::OptionalWord,
            words(&|run| run.digest.clone()),
        ),
        column(
            "steady_state",
            "word",
            "as in a summary: steady, transient, overloaded, unknown",
            Kind::OptionalWord,
            words(&|run| run.steady_state.state.clone()),
        ),
    ]);
    for (name, meaning, of) in COUNTS {
        let values = rows.iter().map(|(_, record)| {
            let numbers = record.numbers.as_deref();
            numbers.map(of)
        });
        let values = Values::OptionalCount(values.collect());
        columns.push(column(name, "count", meaning, Kind::OptionalCount, values));
    }
    for (name, unit, meaning, of) in REALS {
        let values = rows
            .iter()
            .map(|(_, record)| record.numbers.as_deref().and_then(of));
        let values = Values::OptionalReal(values.collect());
        columns.push(column(name, unit, meaning, Kind::OptionalReal, values));
    }
    columns
}

fn properties(account: &SweepAccount, columns: &[SweepColumn]) -> WriterProperties {
    let dictionary: OrderedMap<serde_json::Value> = columns
        .iter()
        .map(|column| {
            let entry = serde_json::json!({ "unit": column.unit, "meaning": column.meaning });
            (column.name.clone(), entry)
        })
        .collect();
    let metadata = [
        ("viaduct.study", account.study.clone()),
        ("viaduct.version", account.version.clone()),
        ("viaduct.digest", account.digest()),
        ("viaduct.row", SWEEP_ROW.to_owned()),
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
        let path = ColumnPath::from(column.name.as_str());
        properties = match column.kind {
            Kind::Number | Kind::Count | Kind::OptionalCount => {
                properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            }
            Kind::Word | Kind::OptionalWord => properties.set_column_dictionary_enabled(path, true),
            Kind::Real | Kind::OptionalReal => properties,
        };
    }
    properties.build()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::sweep::sample;

    #[test]
    fn the_table_has_a_row_a_run_and_reads_back() {
        let name = format!("viaduct-sweep-{}.parquet", std::process::id());
        let path = std::env::temp_dir().join(name);
        sweep_parquet(&sample::account(), std::fs::File::create(&path).unwrap()).unwrap();
        let reader = SerializedFileReader::try_from(path.as_path()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let names: Vec<String> = reader
            .metadata()
            .file_metadata()
            .schema_descr()
            .columns()
            .iter()
            .map(|column| column.name().to_owned())
            .collect();
        let at = |name: &str| names.iter().position(|known| known == name).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap())
            .collect();
        assert_eq!(rows.len(), 8);
        assert_eq!(rows[3].get_uint(at("cell")).unwrap(), 1);
        assert_eq!(rows[3].get_ulong(at("seed")).unwrap(), 2);
        assert_eq!(rows[3].get_string(at("traffic_rate")).unwrap(), "200/s");
        assert_eq!(rows[3].get_double(at("traffic_rate_per_s")).unwrap(), 200.0);
        assert_eq!(rows[3].get_double(at("latency_mean_us")).unwrap(), 502.0);
        let status: Vec<&String> = rows
            .iter()
            .step_by(2)
            .map(|row| row.get_string(at("status")).unwrap())
            .collect();
        assert_eq!(status, ["done", "done", "unstable", "failed"]);
        assert!(rows[7].get_double(at("latency_mean_us")).is_err());
        let reason = rows[7].get_string(at("reason")).unwrap();
        assert_eq!(reason, "no preset `giganet-clam`");
        assert!(!names.contains(&"links_model_".to_owned()));
    }

    #[test]
    fn the_page_names_every_column() {
        let page = include_str!("../../../../docs/sweeps.md");
        for column in sweep_columns(&sample::account()) {
            let is_axis = ["traffic_rate", "links_model"]
                .iter()
                .any(|key| column.name.starts_with(key));
            let name = format!("`{}`", column.name);
            assert!(is_axis || page.contains(&name), "{name}");
        }
    }
}
