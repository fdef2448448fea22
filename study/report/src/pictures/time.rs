//! Runs over simulated time.

use viaduct_cluster::result::SeriesRow;
use viaduct_plot::{Axis, Band, LineChart, Marks, Notation, Scale, Series};

use super::{Chart, csv_line};
use crate::shown::NamedRun;
use crate::summary::seconds;

/// What is drawn over time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TimeQuantity {
    /// Mean latency of the messages that are delivered.
    Latency,
    /// Messages under way.
    InFlight,
    /// Mean utilisation of links between switches.
    Links,
    /// Messages dropped.
    Dropped,
}

impl TimeQuantity {
    const fn title(self) -> &'static str {
        match self {
            Self::Latency => "mean latency, us",
            Self::InFlight => "messages under way",
            Self::Links => "links between switches, % busy",
            Self::Dropped => "messages dropped a window",
        }
    }

    fn value(self, row: &SeriesRow) -> Option<f64> {
        match self {
            Self::Latency => (row.delivered > 0).then_some(row.latency_mean_us),
            Self::InFlight => Some(row.in_flight as f64),
            Self::Links => Some(row.link_utilisation_mean * 100.0),
            Self::Dropped => Some(row.dropped as f64),
        }
    }
}

/// The unit that so many seconds are told in: how many there are in a second, and its name.
pub(super) fn time_unit(longest_s: f64) -> (f64, &'static str) {
    match longest_s {
        longest if longest < 2e-3 => (1e6, "us"),
        longest if longest < 2.0 => (1e3, "ms"),
        _ => (1.0, "s"),
    }
}

/// One line per run, with the warm-up marked.
pub(crate) fn over_time(runs: &[NamedRun<'_>], quantity: TimeQuantity, study: &str) -> Chart {
    let end = |row: &SeriesRow| seconds(row.end.picoseconds());
    let ends = runs
        .iter()
        .filter_map(|named| named.run.series.last().map(end));
    let longest = ends.fold(0.0, f64::max);
    let (unit, name) = time_unit(longest);
    let mut csv = csv_line([
        "run",
        "end_s",
        "posted_messages",
        "delivered_messages",
        "dropped_messages",
        "in_flight_messages",
        "latency_mean_us",
        "link_utilisation_mean_fraction",
        "link_utilisation_max_fraction",
    ]);
    let mut series = Vec::new();
    for named in runs {
        for row in named.run.series {
            let latency = TimeQuantity::Latency.value(row);
            csv += &csv_line([
                &named.name,
                &end(row).to_string(),
                &row.posted.to_string(),
                &row.delivered.to_string(),
                &row.dropped.to_string(),
                &row.in_flight.to_string(),
                &latency.map_or_else(String::new, |latency| latency.to_string()),
                &row.link_utilisation_mean.to_string(),
                &row.link_utilisation_max.to_string(),
            ]);
        }
        // Afterwards nothing is posted, and what drains is not the load's doing.
        let until = named.cell.config.run.until;
        let points = named.run.series.iter().filter(|row| row.end <= until);
        let points = points.filter_map(|row| Some((end(row) * unit, quantity.value(row)?)));
        let mut points: Vec<(f64, f64)> = points.collect();
        // One window is no line.
        if points.len() < 2 {
            points.clear();
        }
        series.push(Series {
            name: named.name.clone(),
            points,
        });
    }
    let mut marks = Marks::plain(runs.len());
    let warmups = runs.iter().map(|named| named.run.summary.warmup_s);
    let warmup = warmups.fold(0.0, f64::max);
    if warmup > 0.0 {
        marks.bands.push(Band {
            from: 0.0,
            to: warmup * unit,
            name: "warm-up".to_owned(),
        });
    }
    Chart {
        chart: LineChart {
            title: format!(
                "{study}: {} over time",
                quantity.title().split(',').next().unwrap_or_default()
            ),
            x: Axis {
                title: format!("simulated time, {name}"),
                scale: Scale::Linear,
                notation: Notation::Plain,
            },
            y: Axis {
                title: quantity.title().to_owned(),
                scale: Scale::Linear,
                notation: Notation::Plain,
            },
            series,
        },
        marks,
        csv,
    }
}
