//! Curves over the key of a sweep that has the most values: one file per quantity, one line for
//! each combination of the others.

use std::collections::{BTreeMap, BTreeSet};

use viaduct_plot::{Axis, Format, Interval, LineChart, Marks, Notation, Scale, Series};

use super::{SweepAccount, SweepCell};

/// Lines that a reader can tell apart, and a legend that leaves room for them.
const LINES_MAX: usize = 12;

/// A range of values beyond which small ones would lie on one another.
const LINEAR_MAX: f64 = 40.0;

/// A quantity over the swept key.
struct Quantity {
    file: &'static str,
    title: &'static str,
    axis: &'static str,
    /// Whether unstable cells have a point: what they carry is sound, their latency is not.
    has_unstable: bool,
    of: fn(&SweepCell) -> Option<f64>,
    /// Half of its 95 % interval.
    half_width: fn(&SweepCell) -> Option<f64>,
}

const QUANTITIES: [Quantity; 3] = [
    Quantity {
        file: "latency-mean.svg",
        title: "mean latency",
        axis: "mean latency, us",
        has_unstable: false,
        of: |cell| cell.mean_us().map(|spread| spread.mean),
        half_width: |cell| cell.mean_us().and_then(|spread| spread.ci95),
    },
    Quantity {
        file: "latency-p99.svg",
        title: "99 % of latencies",
        axis: "p99 latency, us",
        has_unstable: false,
        of: |cell| cell.mean(|run| run.latency_us.p99),
        half_width: |cell| cell.half_width(|run| run.latency_us.p99),
    },
    Quantity {
        file: "carried.svg",
        title: "messages carried",
        axis: "messages/s carried by all hosts",
        has_unstable: true,
        of: |cell| cell.mean(|run| run.carried_messages_per_s),
        half_width: |cell| cell.half_width(|run| run.carried_messages_per_s),
    },
];

/// Draws what there is to draw: names of files, and their SVG.
#[must_use]
pub fn sweep_curves(account: &SweepAccount) -> Vec<(&'static str, String)> {
    let drawn = curves(account).into_iter();
    drawn
        .map(|curves| {
            let mut chart = curves.chart;
            if !curves.caption.is_empty() {
                chart.title += &format!(" ({})", curves.caption);
            }
            (
                curves.file,
                chart.draw(&curves.marks, Format::PAPER).to_svg(),
            )
        })
        .collect()
}

/// The curves of a quantity.
pub(crate) struct Curves {
    pub(crate) file: &'static str,
    /// What the quantity is.
    pub(crate) title: &'static str,
    pub(crate) chart: LineChart,
    /// Intervals, and which points are of runs that were not steady.
    pub(crate) marks: Marks,
    /// What the marks mean; empty if there are none.
    pub(crate) caption: String,
}

/// What there is to draw: a line of two points at least.
pub(crate) fn curves(account: &SweepAccount) -> Vec<Curves> {
    let Some(along) = along(account) else {
        return Vec::new();
    };
    let all = QUANTITIES.iter().map(|quantity| {
        let (chart, marks) = chart(account, along, quantity);
        let words = [
            (!marks.intervals.is_empty()).then_some("bars: 95 % interval"),
            (!marks.hollow.is_empty()).then_some("empty marks: not steady"),
        ];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        Curves {
            file: quantity.file,
            title: quantity.title,
            chart,
            marks,
            caption: words.join(", "),
        }
    });
    all.filter(|curves| {
        let mut series = curves.chart.series.iter();
        series.any(|series| series.points.len() > 1)
    })
    .collect()
}

/// The key with the most values of those whose values are all numbers.
fn along(account: &SweepAccount) -> Option<usize> {
    let values = |axis: usize| {
        let values: Option<BTreeSet<u64>> = account
            .cells
            .iter()
            .map(|cell| cell.numbers[axis].map(f64::to_bits))
            .collect();
        values.map_or(0, |values| values.len())
    };
    let axes = (0..account.axes.len()).rev();
    axes.max_by_key(|&axis| values(axis))
        .filter(|&axis| values(axis) > 1)
}

/// A cell's place on a line.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
    half_width: Option<f64>,
    is_steady: bool,
}

fn chart(account: &SweepAccount, along: usize, quantity: &Quantity) -> (LineChart, Marks) {
    let mut order: Vec<String> = Vec::new();
    let mut lines: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for cell in &account.cells {
        let others = cell
            .set
            .iter()
            .enumerate()
            .filter(|(axis, _)| *axis != along);
        let name: Vec<String> = others
            .map(|(_, (key, value))| format!("{key} = {value}"))
            .collect();
        let name = match name.is_empty() {
            true => account.study.clone(),
            false => name.join(", "),
        };
        if !lines.contains_key(&name) {
            order.push(name.clone());
        }
        let line = lines.entry(name).or_default();
        let is_shown = quantity.has_unstable || !cell.is_unstable();
        if let (Some(x), Some(y), true) = (cell.numbers[along], (quantity.of)(cell), is_shown) {
            line.push(Point {
                x,
                y,
                half_width: (quantity.half_width)(cell).filter(|width| *width > 0.0),
                is_steady: cell.is_steady(),
            });
        }
    }
    let left_out = order.len().saturating_sub(LINES_MAX);
    order.truncate(LINES_MAX);
    let mut marks = Marks::default();
    let series: Vec<Series> = order
        .into_iter()
        .enumerate()
        .map(|(number, name)| {
            let mut points = lines.remove(&name).unwrap_or_default();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            for (place, point) in points.iter().enumerate() {
                if let Some(half_width) = point.half_width {
                    marks.intervals.push(Interval {
                        series: number,
                        x: point.x,
                        // A quantity that is never below zero is not drawn there.
                        low: (point.y - half_width).max(0.0),
                        high: point.y + half_width,
                    });
                }
                if !point.is_steady {
                    marks.hollow.push((number, place));
                }
            }
            let points = points.iter().map(|point| (point.x, point.y)).collect();
            Series { name, points }
        })
        .collect();
    let (key, unit) = &account.axes[along];
    let rest = match left_out {
        0 => String::new(),
        count => format!(" ({count} more lines are in the table)"),
    };
    let range = |of: fn(&(f64, f64)) -> f64| {
        let values = series.iter().flat_map(|series| &series.points).map(of);
        let positive = values.filter(|value| *value > 0.0);
        positive.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        })
    };
    let is_wide = |(least, most): (f64, f64)| most > LINEAR_MAX * least;
    let scale = |is_wide| {
        if is_wide {
            Scale::Decimal
        } else {
            Scale::Linear
        }
    };
    let (x, y) = (range(|point| point.0), range(|point| point.1));
    let x = match *unit {
        Some("bytes") => (format!("{key}, bytes"), Scale::Binary, Notation::Bytes),
        unit => {
            let unit = unit.map_or_else(String::new, unit_words);
            (format!("{key}{unit}"), scale(is_wide(x)), Notation::Plain)
        }
    };
    let y_scale = scale(is_wide(y));
    if y_scale == Scale::Decimal {
        // Zero has a place of its own there, far below.
        marks.intervals.retain(|interval| interval.low > 0.0);
    }
    let chart = LineChart {
        title: format!("{}: {}{rest}", account.study, quantity.title),
        x: Axis {
            title: x.0,
            scale: x.1,
            notation: x.2,
        },
        y: Axis {
            title: quantity.axis.to_owned(),
            scale: y_scale,
            notation: Notation::Plain,
        },
        series,
    };
    (chart, marks)
}

fn unit_words(unit: &str) -> String {
    match unit {
        "us" => ", us".to_owned(),
        "bits_per_s" => ", bit/s".to_owned(),
        "per_s" => ", 1/s".to_owned(),
        "fraction" => ", 0 to 1".to_owned(),
        _ => String::new(),
    }
}
