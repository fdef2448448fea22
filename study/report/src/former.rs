//! The tables of a run directory, read again.
//!
//! A directory may come from anywhere: what its files say is checked against the scenario beside
//! them before it is used.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use thiserror::Error;
use viaduct_cluster::result::{LinkRow, RankRow, SeriesRow};
use viaduct_engine::Time;
use viaduct_network::{QueueCounts, QueueWindow};
use viaduct_topology::{LinkId, Topology};

/// What pictures need of a run's tables.
#[derive(Clone, Debug, Default)]
pub struct FormerTables {
    /// This share of the measured messages took at most so many microseconds.
    pub latency: Vec<(f64, f64)>,
    /// The run over time.
    pub series: Vec<SeriesRow>,
    /// What its queues held over time.
    pub queues: Vec<QueueWindow>,
    /// Its links.
    pub links: Vec<LinkRow>,
    /// The ranks of its application; none without one.
    pub ranks: Vec<RankRow>,
}

/// A table cannot be read.
#[derive(Debug, Error)]
#[error("cannot read `{}`: {what}", path.display())]
pub struct TableError {
    path: PathBuf,
    what: String,
}

/// Reads the tables of a run directory; `runs` has cell, seed and network of each run, in order.
///
/// # Errors
///
/// When a table is missing, is no such table, or does not fit the runs.
pub fn read_tables(
    directory: &Path,
    runs: &[(usize, u64, &Topology)],
) -> Result<Vec<FormerTables>, TableError> {
    let mut tables = vec![FormerTables::default(); runs.len()];
    let latency = Table::open(directory, "latency", runs)?;
    let series = Table::open(directory, "series", runs)?;
    let links = Table::open(directory, "links", runs)?;
    // Directories that were written before there were applications, or queues over time, have no
    // such table.
    let optional = |name: &str| match directory.join(format!("{name}.parquet")).exists() {
        true => Table::open(directory, name, runs).map(Some),
        false => Ok(None),
    };
    let (queues, ranks) = (optional("queues")?, optional("ranks")?);
    for (index, (run, (.., topology))) in tables.iter_mut().zip(runs).enumerate() {
        run.latency = latency.read(index, latency_rows)?;
        run.series = series.read(index, series_rows)?;
        run.links = links.read(index, |group| link_rows(group, topology))?;
        if let Some(queues) = &queues {
            run.queues = queues.read(index, |group| queue_rows(group, topology))?;
        }
        if let Some(ranks) = &ranks {
            run.ranks = ranks.read(index, |group| rank_rows(group, topology))?;
        }
    }
    Ok(tables)
}

/// Why a table is no good.
type Reason = String;

struct Table {
    path: PathBuf,
    file: SerializedFileReader<File>,
}

impl Table {
    fn open(
        directory: &Path,
        name: &str,
        runs: &[(usize, u64, &Topology)],
    ) -> Result<Self, TableError> {
        let path = directory.join(format!("{name}.parquet"));
        let refused = |what: String| TableError {
            path: path.clone(),
            what,
        };
        let file = File::open(&path).map_err(|error| refused(error.to_string()))?;
        let file = SerializedFileReader::new(file).map_err(|error| refused(error.to_string()))?;
        if file.num_row_groups() != runs.len() {
            let what = format!(
                "it has {} runs, and summary.json {}",
                file.num_row_groups(),
                runs.len()
            );
            return Err(refused(what));
        }
        let table = Self { path, file };
        for (index, (cell, seed, _)) in runs.iter().enumerate() {
            let (cells, seeds) = table.read(index, |group| {
                Ok((group.counts("cell")?, group.counts("seed")?))
            })?;
            let fits = cells.iter().all(|value| *value == *cell as u64);
            if !fits || !seeds.iter().all(|value| value == seed) {
                let what = format!("its runs are not those of summary.json, from run {index} on");
                return Err(table.refused(what));
            }
        }
        Ok(table)
    }

    fn read<T>(
        &self,
        run: usize,
        rows: impl Fn(&Group<'_>) -> Result<T, Reason>,
    ) -> Result<T, TableError> {
        let group = self.file.get_row_group(run);
        let group = group.map_err(|error| self.refused(error.to_string()))?;
        rows(&Group(&*group)).map_err(|what| self.refused(what))
    }

    fn refused(&self, what: String) -> TableError {
        TableError {
            path: self.path.clone(),
            what,
        }
    }
}

/// The rows of one run.
struct Group<'a>(&'a dyn RowGroupReader);

impl Group<'_> {
    fn has(&self, name: &str) -> bool {
        let columns = self.0.metadata().schema_descr();
        columns.columns().iter().any(|column| column.name() == name)
    }

    fn column(&self, name: &str) -> Result<(ColumnReader, usize), Reason> {
        let metadata = self.0.metadata();
        let columns = metadata.schema_descr();
        let index = (0..columns.num_columns())
            .find(|index| columns.column(*index).name() == name)
            .ok_or_else(|| format!("it has no column `{name}`"))?;
        let rows = usize::try_from(metadata.num_rows())
            .map_err(|_| "its count of rows is negative".to_owned())?;
        let reader = self.0.get_column_reader(index);
        Ok((reader.map_err(|error| error.to_string())?, rows))
    }

    /// Integers, which are never negative.
    fn counts(&self, name: &str) -> Result<Vec<u64>, Reason> {
        let (reader, rows) = self.column(name)?;
        let told = |error: ParquetError| format!("column `{name}`: {error}");
        match reader {
            ColumnReader::Int32ColumnReader(mut reader) => {
                let mut values = Vec::new();
                reader
                    .read_records(rows, None, None, &mut values)
                    .map_err(told)?;
                complete(name, rows, values.len())?;
                let values = values
                    .into_iter()
                    .map(|value| u64::from(value.cast_unsigned()));
                Ok(values.collect())
            }
            ColumnReader::Int64ColumnReader(mut reader) => {
                let mut values = Vec::new();
                reader
                    .read_records(rows, None, None, &mut values)
                    .map_err(told)?;
                complete(name, rows, values.len())?;
                Ok(values.into_iter().map(i64::cast_unsigned).collect())
            }
            _ => Err(format!("column `{name}` holds no integers")),
        }
    }

    /// Integers, which are never negative; what is null is none.
    fn optional_counts(&self, name: &str) -> Result<Vec<Option<u64>>, Reason> {
        let (reader, rows) = self.column(name)?;
        let ColumnReader::Int64ColumnReader(mut reader) = reader else {
            return Err(format!("column `{name}` holds no integers"));
        };
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let read = reader.read_records(rows, Some(&mut levels), None, &mut values);
        read.map_err(|error| format!("column `{name}`: {error}"))?;
        let values = values.into_iter().map(i64::cast_unsigned).collect();
        with_nulls(name, rows, &levels, values)
    }

    /// Numbers; what is null is none.
    fn reals(&self, name: &str) -> Result<Vec<Option<f64>>, Reason> {
        let (reader, rows) = self.column(name)?;
        let ColumnReader::DoubleColumnReader(mut reader) = reader else {
            return Err(format!("column `{name}` holds no real numbers"));
        };
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let read = reader.read_records(rows, Some(&mut levels), None, &mut values);
        read.map_err(|error| format!("column `{name}`: {error}"))?;
        with_nulls(name, rows, &levels, values)
    }

    fn finite(&self, name: &str) -> Result<Vec<f64>, Reason> {
        let values = self.reals(name)?.into_iter();
        let values: Option<Vec<f64>> = values
            .map(|value| value.filter(|value| value.is_finite()))
            .collect();
        values.ok_or_else(|| format!("column `{name}` holds what is no number"))
    }
}

/// Values in the rows that have one, by the levels of all rows; without levels all have one.
fn with_nulls<T>(
    name: &str,
    rows: usize,
    levels: &[i16],
    values: Vec<T>,
) -> Result<Vec<Option<T>>, Reason> {
    if levels.is_empty() {
        complete(name, rows, values.len())?;
        return Ok(values.into_iter().map(Some).collect());
    }
    complete(name, rows, levels.len())?;
    let mut values = values.into_iter();
    let taken = levels.iter().map(|level| match level {
        0 => None,
        _ => values.next(),
    });
    Ok(taken.collect())
}

fn complete(name: &str, rows: usize, read: usize) -> Result<(), Reason> {
    match rows == read {
        true => Ok(()),
        false => Err(format!("column `{name}` has {read} of {rows} rows")),
    }
}

fn latency_rows(group: &Group<'_>) -> Result<Vec<(f64, f64)>, Reason> {
    let quantiles = group.finite("quantile_fraction")?;
    let latencies = group.finite("latency_us")?;
    Ok(quantiles.into_iter().zip(latencies).collect())
}

fn series_rows(group: &Group<'_>) -> Result<Vec<SeriesRow>, Reason> {
    let ends = group.finite("end_s")?;
    let posted = group.counts("posted_messages")?;
    let delivered = group.counts("delivered_messages")?;
    let dropped = group.counts("dropped_messages")?;
    let in_flight = group.counts("in_flight_messages")?;
    let latency = group.reals("latency_mean_us")?;
    let mean = group.finite("link_utilisation_mean_fraction")?;
    let max = group.finite("link_utilisation_max_fraction")?;
    let rows = (0..ends.len()).map(|row| SeriesRow {
        end: from_seconds(ends[row]),
        posted: posted[row],
        delivered: delivered[row],
        dropped: dropped[row],
        in_flight: in_flight[row],
        latency_mean_us: latency[row].unwrap_or_default(),
        link_utilisation_mean: mean[row],
        link_utilisation_max: max[row],
    });
    Ok(rows.collect())
}

fn link_rows(group: &Group<'_>, topology: &Topology) -> Result<Vec<LinkRow>, Reason> {
    let links = group.counts("link")?;
    let bytes = group.finite("wire_bytes")?;
    let utilisation = group.finite("utilisation_fraction")?;
    let flows_max = group.counts("flows_max")?;
    // Directories that were written before these were counted have no such columns.
    let counted = |name| match group.has(name) {
        true => group.counts(name),
        false => Ok(vec![0; links.len()]),
    };
    let queue_max_bytes = counted("queue_max_bytes")?;
    let frames_lost = counted("frames_lost")?;
    let frames_trimmed = counted("frames_trimmed")?;
    let frames_marked = counted("frames_marked")?;
    let pauses = counted("pauses")?;
    let paused = counted("paused_ps")?;
    let rows = (0..links.len()).map(|row| {
        let link = known_link(links[row], topology)?;
        Ok(LinkRow {
            link,
            class: topology.link_class(LinkId(link)),
            wire_bytes: bytes[row],
            utilisation: utilisation[row],
            flows_max: u32::try_from(flows_max[row]).unwrap_or(u32::MAX),
            queue_max_bytes: queue_max_bytes[row],
            frames_lost: frames_lost[row],
            frames_trimmed: frames_trimmed[row],
            frames_marked: frames_marked[row],
            pauses: pauses[row],
            paused: Time::from_picoseconds(paused[row]),
        })
    });
    rows.collect()
}

fn queue_rows(group: &Group<'_>, topology: &Topology) -> Result<Vec<QueueWindow>, Reason> {
    let ends = group.finite("end_s")?;
    let links = group.counts("link")?;
    let bytes_max = group.counts("queue_max_bytes")?;
    let lost = group.counts("frames_lost")?;
    let trimmed = group.counts("frames_trimmed")?;
    let marked = group.counts("frames_marked")?;
    let pauses = group.counts("pauses")?;
    let paused = group.counts("paused_ps")?;
    let rows = (0..links.len()).map(|row| {
        Ok(QueueWindow {
            end: from_seconds(ends[row]),
            link: known_link(links[row], topology)?,
            bytes_max: bytes_max[row],
            counts: QueueCounts {
                lost: lost[row],
                trimmed: trimmed[row],
                marked: marked[row],
                pauses: pauses[row],
                paused: Time::from_picoseconds(paused[row]),
            },
        })
    });
    rows.collect()
}

/// The number of a link, if the network has it.
fn known_link(number: u64, topology: &Topology) -> Result<u32, Reason> {
    let most = topology.link_count();
    let link = u32::try_from(number).ok().filter(|link| *link < most);
    link.ok_or_else(|| format!("it has a link {number}, and the network {most} links"))
}

fn rank_rows(group: &Group<'_>, topology: &Topology) -> Result<Vec<RankRow>, Reason> {
    let ranks = group.counts("rank")?;
    let hosts = group.counts("host_number")?;
    let time = |name| -> Result<Vec<Time>, Reason> {
        let values = group.finite(name)?.into_iter();
        Ok(values.map(from_microseconds).collect())
    };
    let spans = time("span_us")?;
    let computing = time("computing_us")?;
    let messaging = time("messaging_us")?;
    let waiting = time("waiting_us")?;
    // Directories that were written before it was counted who waits for whom have no such columns.
    let none = ranks.len();
    let (peers, waits, waited_for) = match group.has("waited_for_us") {
        true => (
            group.optional_counts("longest_wait_rank")?,
            group.reals("longest_wait_us")?,
            time("waited_for_us")?,
        ),
        false => (vec![None; none], vec![None; none], vec![Time::ZERO; none]),
    };
    let most = topology.host_count();
    let rows = (0..ranks.len()).map(|row| {
        let host = u32::try_from(hosts[row]).ok().filter(|host| *host < most);
        let host = host
            .ok_or_else(|| format!("it has a host {}, and the network {most} hosts", hosts[row]))?;
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let wait = peers[row].zip(waits[row]);
        Ok(RankRow {
            rank: number(ranks[row]),
            host,
            span: spans[row],
            computing: computing[row],
            messaging: messaging[row],
            waiting: waiting[row],
            longest_wait: wait.map(|(peer, wait)| (number(peer), from_microseconds(wait))),
            waited_for: waited_for[row],
        })
    });
    rows.collect()
}

fn from_seconds(seconds: f64) -> Time {
    Time::from_picoseconds((seconds * 1e12).round() as u64)
}

fn from_microseconds(microseconds: f64) -> Time {
    Time::from_picoseconds((microseconds * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use viaduct_topology::{ChainHosts, Ports};

    use super::*;
    use crate::directory::{RunDirectory, RunIdentity, Source};
    use crate::sample;

    fn folder(test: &str) -> PathBuf {
        let name = format!("viaduct-former-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn runs() -> RunIdentity<'static> {
        RunIdentity {
            study: "torus-1024",
            source: Source::Scenarios(&[]),
            seeds: &[],
        }
    }

    fn network() -> Topology {
        Topology::chain(2, ChainHosts::EverySwitch(2), Ports(8)).unwrap()
    }

    #[test]
    fn what_was_written_is_read_again() {
        let place = folder("again");
        let outcome = sample::sweep();
        let directory = RunDirectory::prepare(&place, runs(), false).unwrap();
        directory
            .write(
                Source::Scenarios(&[String::new(), String::new()]),
                &outcome,
                &sample::results(2),
                None,
            )
            .unwrap();
        let network = network();
        let runs = [(0, 1, &network), (1, 1, &network)];
        let tables = read_tables(&place, &runs).unwrap();
        let result = &sample::result();
        assert_eq!(tables[1].series, result.series);
        assert_eq!(tables[1].queues, result.queues);
        assert_eq!(tables[1].links, result.link_rows);
        assert_eq!(tables[1].latency, crate::tables::latency_points(result));
        assert!(tables[1].latency.len() > 100);
        assert_eq!(tables[1].ranks, result.application.as_ref().unwrap().ranks);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn tables_that_do_not_fit_are_refused() {
        let place = folder("misfit");
        let directory = RunDirectory::prepare(&place, runs(), false).unwrap();
        directory
            .write(
                Source::Scenarios(&[String::new()]),
                &sample::one_run(),
                &sample::results(1),
                None,
            )
            .unwrap();
        let network = network();
        let tiny = Topology::single_switch(1, Ports(8)).unwrap();
        let told =
            |runs: &[(usize, u64, &Topology)]| read_tables(&place, runs).unwrap_err().to_string();
        assert!(told(&[(0, 1, &network), (1, 1, &network)]).contains("1 runs, and summary.json 2"));
        assert!(told(&[(0, 2, &network)]).contains("not those of summary.json"));
        assert!(told(&[(3, 1, &network)]).contains("not those of summary.json"));
        assert!(told(&[(0, 1, &tiny)]).contains("a link 3, and the network 2 links"));
        fs::copy(place.join("latency.parquet"), place.join("series.parquet")).unwrap();
        assert!(told(&[(0, 1, &network)]).contains("no column `end_s`"));
        fs::write(place.join("links.parquet"), b"PAR1 nothing").unwrap();
        assert!(told(&[(0, 1, &network)]).contains("links.parquet"));
        fs::remove_file(place.join("links.parquet")).unwrap();
        assert!(told(&[(0, 1, &network)]).contains("links.parquet"));
        fs::remove_dir_all(place).unwrap();
    }
}
