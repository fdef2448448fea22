//! The distribution of latency.

use viaduct_plot::{Axis, LineChart, Look, Marks, Notation, Rule, Scale, Series};

use super::{Chart, csv_line};
use crate::outcome::FigureRole;
use crate::shown::NamedRun;

/// Points a line: finer than a picture shows.
const POINTS_MAX: usize = 400;

/// The share of messages that took at most so long, beside what was published of it.
pub(crate) fn distribution(runs: &[NamedRun<'_>], study: &str) -> Chart {
    let mut csv = csv_line(["run", "quantile_fraction", "latency_us"]);
    let mut series = Vec::new();
    for named in runs {
        let points = &named.run.latency;
        for (quantile, latency) in points {
            csv += &csv_line([&named.name, &quantile.to_string(), &latency.to_string()]);
        }
        let curve = points
            .iter()
            .map(|(quantile, latency)| (*latency, quantile * 100.0));
        series.push(Series {
            name: named.name.clone(),
            points: thinned(curve.collect()),
        });
    }
    let mut chart = Chart {
        chart: LineChart {
            title: format!("{study}: latency of messages"),
            x: latency_axis(runs),
            y: Axis {
                title: "share of messages, %".to_owned(),
                scale: Scale::Linear,
                notation: Notation::Plain,
            },
            series,
        },
        marks: Marks::plain(runs.len()),
        csv,
    };
    add_published(&mut chart, runs);
    if let [only] = runs
        && let Some(floor) = only.run.summary.latency_us.floor
        && !only.run.latency.is_empty()
    {
        chart.marks.rules.push(Rule {
            at: floor,
            name: "unloaded".to_owned(),
        });
    }
    chart
}

/// The share of messages that took longer, by its logarithm.
pub(crate) fn tail(runs: &[NamedRun<'_>], study: &str) -> Chart {
    let mut csv = csv_line(["run", "slower_fraction", "latency_us"]);
    let mut series = Vec::new();
    for named in runs {
        let points = named
            .run
            .latency
            .iter()
            .filter(|(quantile, _)| *quantile < 1.0);
        let points: Vec<(f64, f64)> = points
            .map(|(quantile, latency)| (*latency, 1.0 - quantile))
            .collect();
        for (latency, slower) in &points {
            csv += &csv_line([&named.name, &slower.to_string(), &latency.to_string()]);
        }
        let curve = points
            .into_iter()
            .map(|(latency, slower)| (latency, slower * 100.0));
        series.push(Series {
            name: named.name.clone(),
            points: thinned(curve.collect()),
        });
    }
    Chart {
        chart: LineChart {
            title: format!("{study}: the slowest messages"),
            x: latency_axis(runs),
            y: Axis {
                title: "share that is slower, %".to_owned(),
                scale: Scale::Decimal,
                notation: Notation::Plain,
            },
            series,
        },
        marks: Marks::plain(runs.len()),
        csv,
    }
}

/// By the logarithm, unless something took no time at all.
fn latency_axis(runs: &[NamedRun<'_>]) -> Axis {
    let mut latencies = runs.iter().flat_map(|named| &named.run.latency);
    let scale = match latencies.all(|(_, latency)| *latency > 0.0) {
        true => Scale::Decimal,
        false => Scale::Linear,
    };
    Axis {
        title: "latency, us".to_owned(),
        scale,
        notation: Notation::Plain,
    }
}

/// Published quantiles as points, a published mean as a line.
fn add_published(chart: &mut Chart, runs: &[NamedRun<'_>]) {
    const QUANTILES: [(&str, f64); 6] = [
        ("latency_us.min", 0.0),
        ("latency_us.p50", 50.0),
        ("latency_us.p90", 90.0),
        ("latency_us.p99", 99.0),
        ("latency_us.p999", 99.9),
        ("latency_us.max", 100.0),
    ];

    let [only] = runs else {
        return;
    };
    if only.run.latency.is_empty() {
        return;
    }
    let figure = |path: &str| {
        let figure = only.cell.published.figures.get(path)?;
        (figure.role != FigureRole::Context).then_some(figure.value)
    };
    let points = QUANTILES
        .iter()
        .filter_map(|(path, share)| Some((figure(path)?, *share)));
    let points: Vec<(f64, f64)> = points.collect();
    if let Some(mean) = figure("latency_us.mean") {
        chart.marks.rules.push(Rule {
            at: mean,
            name: "published mean".to_owned(),
        });
    }
    if !points.is_empty() {
        // A line with a marker in the legend needs its neighbour to have a name too.
        chart.chart.series[0].name = "this run".to_owned();
        chart.marks.looks.push(Look::Points);
        chart.chart.series.push(Series {
            name: "published".to_owned(),
            points,
        });
    }
}

fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    crate::shown::chosen(&points, POINTS_MAX)
}
