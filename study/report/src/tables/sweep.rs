//! The table of a sweep as Parquet: one row per cell and seed.

use std::io::Write;

use parquet::errors::ParquetError;
use viaduct_scenario::{axis_number, axis_unit};

use super::{Column, Kind, Values, begin_file, write_column};
use crate::outcome::{CellOutcome, RunRecord, StudyOutcome};
use crate::summary::Summary;

/// What a row of a sweep's table is.
pub const SWEEP_ROW: &str = "one run: a cell of the sweep and a seed";

/// Real numbers of a run: name, unit, meaning, and where it stands.
type Real = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Summary) -> Option<f64>,
);

/// Counts of a run.
type Count = (&'static str, &'static str, fn(&Summary) -> u64);

const REALS: [Real; 19] = [
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
        |run| run.busiest_links().map(|usage| usage.utilisation_mean),
    ),
    (
        "link_utilisation_max_fraction",
        "0 to 1",
        "the busiest link",
        |run| run.busiest_links().map(|usage| usage.utilisation_max),
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
    (
        "makespan_us",
        "us",
        "until all operations had ended; null if some have not, and without a graph of operations",
        Summary::makespan_us,
    ),
    (
        "bus_bandwidth_gb_per_s",
        "GB/s",
        "of a collective, as NCCL's tests count it; null of all else",
        |run| {
            let collective = run.application.as_ref()?.collective.as_ref()?;
            Some(collective.bus_bandwidth_gb_per_s)
        },
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
pub fn sweep_parquet<W: Write + Send>(outcome: &StudyOutcome, sink: W) -> Result<W, ParquetError> {
    let (columns, values): (Vec<Column>, Vec<Values>) = sweep_columns(outcome).into_iter().unzip();
    let columns: Vec<&Column> = columns.iter().collect();
    let mut file = begin_file(outcome, "sweep", SWEEP_ROW, &columns, sink)?;
    let mut group = file.next_row_group()?;
    for values in &values {
        write_column(&mut group, values)?;
    }
    group.close()?;
    file.into_inner()
}

/// The columns of the table in order, with their values.
#[must_use]
pub fn sweep_columns(outcome: &StudyOutcome) -> Vec<(Column, Values)> {
    let cells = outcome.cells.iter();
    let rows: Vec<(&CellOutcome, &RunRecord)> = cells
        .flat_map(|cell| cell.runs.iter().map(move |run| (cell, run)))
        .collect();
    let column = |name: &str, unit, meaning: &str, kind, values| {
        let column = Column {
            name: name.to_owned().into(),
            unit,
            meaning: meaning.to_owned().into(),
            kind,
        };
        (column, values)
    };
    let word = str::to_owned;
    let summaries = || rows.iter().map(|(_, run)| run.made.as_deref().ok());
    let words = |of: &dyn Fn(&Summary) -> String| {
        Values::OptionalText(summaries().map(|summary| summary.map(of)).collect())
    };
    let mut columns = vec![
        column(
            "cell",
            "number",
            "cell of the sweep, from 0, the last key fastest",
            Kind::Number,
            Values::numbers(&rows, |(_, run)| run.cell),
        ),
        column(
            "seed",
            "number",
            "seed of the run",
            Kind::Count,
            Values::counts(&rows, |(_, run)| run.seed),
        ),
    ];
    let keys = outcome.cells.first().map_or(&[][..], |cell| &cell.set);
    for (index, (key, _)) in keys.iter().enumerate() {
        let name = key.replace('.', "_");
        let values = rows.iter().map(|(cell, _)| word(&cell.set[index].1));
        columns.push(column(
            &name,
            "word",
            &format!("{key}, as a person writes it"),
            Kind::Word,
            Values::Text(values.collect()),
        ));
        if let Some(unit) = axis_unit(key) {
            columns.push(column(
                &format!("{name}_{unit}"),
                unit,
                &format!("{key} as a number; null if it is none"),
                Kind::OptionalReal,
                Values::optional_reals(&rows, |(cell, _)| axis_number(key, &cell.set[index].1)),
            ));
        }
    }
    let status = rows.iter().map(|(_, run)| word(run.status().word()));
    let reasons = rows.iter().map(|(_, run)| run.made.clone().err());
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
            Values::OptionalText(reasons.collect()),
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
        let values = Values::OptionalCount(summaries().map(|run| run.map(of)).collect());
        columns.push(column(name, "count", meaning, Kind::OptionalCount, values));
    }
    for (name, unit, meaning, of) in REALS {
        let values = Values::OptionalReal(summaries().map(|run| run.and_then(of)).collect());
        columns.push(column(name, unit, meaning, Kind::OptionalReal, values));
    }
    columns
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::sample;

    #[test]
    fn the_table_has_one_row_per_run_and_reads_back() {
        let name = format!("viaduct-sweep-{}.parquet", std::process::id());
        let path = std::env::temp_dir().join(name);
        sweep_parquet(&sample::grid(), std::fs::File::create(&path).unwrap()).unwrap();
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
        for (column, _) in sweep_columns(&sample::grid()) {
            let is_axis = ["traffic_rate", "links_model"]
                .iter()
                .any(|key| column.name.starts_with(key));
            let name = format!("`{}`", column.name);
            assert!(is_axis || page.contains(&name), "{name}");
        }
    }
}
