//! What a study shows over a swept key: one picture per quantity, a line for each combination of
//! the other keys' values.

use viaduct_plot::{
    Axis, Format, Interval, LineChart, Look as LineLook, Marks, Notation, Scale, Series,
};
use viaduct_scenario::{axis_number, axis_unit};

use crate::outcome::{FigureRole, StudyOutcome};
use crate::record::{CellRecord, Look, RANKS};
use crate::shown::chosen;

/// Lines of one picture: there are eight colours and four kinds of dashes, and a legend.
const LINES_MAX: usize = 12;

/// A range of values beyond which small ones would lie on one another: along, and up.
const LINEAR_MAX: (f64, f64) = (20.0, 40.0);

/// What is particular about a quantity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Usual,
    /// It grows with the length of the run where more is offered than carried.
    Latency,
    /// At best it is as large as the swept number of ranks.
    SpeedUp,
}

/// A quantity over the swept key.
struct Quantity {
    file: &'static str,
    title: &'static str,
    axis: &'static str,
    /// Of published figures of it.
    path: Option<&'static str>,
    kind: Kind,
    /// Of a cell, among all of them.
    of: fn(&CellRecord<'_>, &[CellRecord<'_>]) -> Option<f64>,
    /// Half of its 95 % interval.
    half_width: fn(&CellRecord<'_>) -> Option<f64>,
}

const QUANTITIES: [Quantity; 9] = [
    Quantity {
        file: "all-operations.svg",
        title: "until all operations have ended",
        axis: "all operations, us",
        path: Some("application.makespan_us"),
        kind: Kind::Usual,
        of: |cell, _| cell.makespan_us(),
        half_width: |cell| cell.half_width(crate::Summary::makespan_us),
    },
    Quantity {
        file: "speed-up.svg",
        title: "speed-up over one rank",
        axis: "speed-up",
        path: None,
        kind: Kind::SpeedUp,
        of: |cell, cells| cell.speed_up(cells),
        half_width: |_| None,
    },
    Quantity {
        file: "slow-down.svg",
        title: "times as long as one copy alone",
        axis: "slow-down",
        path: None,
        kind: Kind::Usual,
        of: |cell, cells| cell.slow_down(cells),
        half_width: |_| None,
    },
    Quantity {
        file: "bus-bandwidth.svg",
        title: "bus bandwidth",
        axis: "bus bandwidth, GB/s",
        path: Some("application.collective.bus_bandwidth_gb_per_s"),
        kind: Kind::Usual,
        of: |cell, _| cell.collective(|it| it.bus_bandwidth_gb_per_s),
        half_width: |cell| cell.half_width(bus_bandwidth),
    },
    Quantity {
        file: "latency-mean.svg",
        title: "mean latency",
        axis: "mean latency, us",
        path: Some("latency_us.mean"),
        kind: Kind::Latency,
        of: |cell, _| cell.mean_us.map(|spread| spread.mean),
        half_width: |cell| cell.mean_us.and_then(|spread| spread.ci95),
    },
    Quantity {
        file: "latency-p99.svg",
        title: "99 % of latencies",
        axis: "p99 latency, us",
        path: Some("latency_us.p99"),
        kind: Kind::Latency,
        of: |cell, _| cell.mean(|run| run.latency_us.p99),
        half_width: |cell| cell.half_width(|run| run.latency_us.p99),
    },
    Quantity {
        file: "carried.svg",
        title: "messages carried",
        axis: "messages/s carried by all hosts",
        path: None,
        kind: Kind::Usual,
        of: |cell, _| cell.mean(|run| run.carried_messages_per_s),
        half_width: |cell| cell.half_width(|run| run.carried_messages_per_s),
    },
    Quantity {
        file: "links.svg",
        title: "busiest link",
        axis: "busiest link, % busy",
        path: None,
        kind: Kind::Usual,
        of: |cell, _| cell.busiest_link().map(|share| share * 100.0),
        half_width: |cell| {
            let busiest = |run: &crate::Summary| Some(run.busiest_links()?.utilisation_max);
            cell.half_width(busiest).map(|share| share * 100.0)
        },
    },
    Quantity {
        file: "dropped.svg",
        title: "messages dropped",
        axis: "messages dropped, %",
        path: None,
        kind: Kind::Usual,
        of: |cell, _| cell.dropped_fraction().map(|share| share * 100.0),
        half_width: |cell| {
            let dropped = |run: &crate::Summary| Some(run.dropped_fraction());
            cell.half_width(dropped).map(|share| share * 100.0)
        },
    },
];

fn bus_bandwidth(run: &crate::Summary) -> Option<f64> {
    let collective = run.application.as_ref()?.collective.as_ref()?;
    Some(collective.bus_bandwidth_gb_per_s)
}

/// A quantity drawn.
pub(crate) struct Curve {
    file: &'static str,
    /// What the quantity is.
    pub(crate) title: &'static str,
    pub(crate) chart: LineChart,
    /// Intervals, and which points are of runs that were not steady.
    pub(crate) marks: Marks,
    /// What the marks mean; empty if there are none.
    pub(crate) caption: String,
}

/// The curves of a sweep as files: their names, and their SVG.
#[must_use]
pub fn sweep_curves(outcome: &StudyOutcome) -> Vec<(&'static str, String)> {
    let cells: Vec<CellRecord<'_>> = outcome.cells.iter().map(|cell| cell.record()).collect();
    let drawn = curves(&cells, &outcome.study, Look::Sweep).into_iter();
    drawn
        .map(|curve| {
            let mut chart = curve.chart;
            if !curve.caption.is_empty() {
                chart.title += &format!(" ({})", curve.caption);
            }
            (curve.file, chart.draw(&curve.marks, Format::PAPER).to_svg())
        })
        .collect()
}

/// What there is to draw, a line of two points at least; nothing if no swept key is a quantity.
pub(crate) fn curves(cells: &[CellRecord<'_>], study: &str, look: Look) -> Vec<Curve> {
    let Some(ruler) = Ruler::of_cells(cells) else {
        return Vec::new();
    };
    let over_ranks = cells.iter().any(|cell| cell.set[ruler.key].0 == RANKS);
    let quantities = QUANTITIES.iter();
    let quantities = quantities.filter(|it| it.kind != Kind::SpeedUp || over_ranks);
    let drawn = quantities.filter_map(|quantity| {
        let (chart, marks) = ruler.chart(cells, quantity, study, look);
        // Nothing was dropped anywhere: that is no curve.
        let points = chart.series.iter().flat_map(|series| &series.points);
        let is_flat_zero = points.clone().all(|point| point.1 == 0.0);
        let is_line = chart.series.iter().any(|series| series.points.len() > 1);
        let words = [
            (!marks.intervals.is_empty()).then_some("bars: 95 % interval"),
            (!marks.hollow.is_empty()).then_some("empty marks: not steady"),
        ];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        (is_line && !is_flat_zero).then(|| Curve {
            file: quantity.file,
            title: quantity.title,
            chart,
            marks,
            caption: words.join(", "),
        })
    });
    drawn.collect()
}

/// A cell's place on a line.
struct Point {
    x: f64,
    y: f64,
    half_width: Option<f64>,
    is_steady: bool,
}

/// How the values of a key become places on an axis.
struct Ruler {
    /// Number of the key among the swept ones.
    key: usize,
    axis: Axis,
    /// What a place is divided by to stand on the axis.
    unit: f64,
}

impl Ruler {
    /// Of the key that takes most values, of those whose values are all numbers; of equals the
    /// first.
    fn of_cells(cells: &[CellRecord<'_>]) -> Option<Self> {
        let keys = cells.first()?.set.len();
        let rulers = (0..keys).filter_map(|key| {
            let values = cells.iter().map(|cell| {
                let (name, value) = cell.set.get(key)?;
                axis_number(name, value)
            });
            let mut values: Vec<f64> = values.collect::<Option<_>>()?;
            values.sort_by(f64::total_cmp);
            values.dedup();
            let name = &cells.first()?.set[key].0;
            (values.len() > 1).then(|| (values.len(), Self::new(key, name, &values)))
        });
        let best = rulers.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, ruler)| ruler)
    }

    fn new(key: usize, name: &str, values: &[f64]) -> Self {
        let (words, unit, notation) = match axis_unit(name) {
            Some("bytes") => ("", 1.0, Notation::Bytes),
            Some("us") => (", us", 1.0, Notation::Plain),
            Some("per_s") => (", 1/s", 1.0, Notation::Plain),
            Some("bits_per_s") => (", Mbit/s", 1e6, Notation::Plain),
            Some("fraction") => (", 0 to 1", 1.0, Notation::Plain),
            _ => ("", 1.0, Notation::Plain),
        };
        let is_wide = is_wide(values.iter().copied(), LINEAR_MAX.0);
        let scale = match (is_wide, notation) {
            (true, Notation::Bytes) => Scale::Binary,
            (true, Notation::Plain) => Scale::Decimal,
            (false, _) => Scale::Linear,
        };
        Self {
            key,
            axis: Axis {
                title: format!("{name}{words}"),
                scale,
                notation,
            },
            unit,
        }
    }

    fn place(&self, cell: &CellRecord<'_>) -> Option<f64> {
        let (name, value) = cell.set.get(self.key)?;
        Some(axis_number(name, value)? / self.unit)
    }

    /// The values of the other keys.
    fn line(&self, cell: &CellRecord<'_>) -> String {
        let others = cell.set.iter().enumerate();
        let others = others.filter(|(key, _)| *key != self.key);
        let others = others.map(|(_, (key, value))| format!("{key} = {value}"));
        others.collect::<Vec<_>>().join(", ")
    }

    fn chart(
        &self,
        cells: &[CellRecord<'_>],
        quantity: &Quantity,
        study: &str,
        look: Look,
    ) -> (LineChart, Marks) {
        let mut names: Vec<String> = Vec::new();
        let mut lines: Vec<Vec<Point>> = Vec::new();
        for cell in cells {
            let name = self.line(cell);
            let number = names.iter().position(|known| *known == name);
            let number = number.unwrap_or_else(|| {
                names.push(name);
                lines.push(Vec::new());
                lines.len() - 1
            });
            let is_latency = quantity.kind == Kind::Latency;
            let is_withheld = look == Look::Sweep && is_latency && cell.is_unstable();
            if let (Some(x), Some(y), false) =
                (self.place(cell), (quantity.of)(cell, cells), is_withheld)
            {
                lines[number].push(Point {
                    x,
                    y,
                    half_width: (quantity.half_width)(cell).filter(|width| *width > 0.0),
                    is_steady: cell.is_steady(),
                });
            }
        }
        let numbers: Vec<usize> = (0..lines.len()).collect();
        let shown = chosen(&numbers, LINES_MAX);
        let rest = match lines.len() - shown.len() {
            0 => String::new(),
            count => format!(" ({count} more lines are in the table)"),
        };
        let mut marks = Marks::default();
        let mut series = Vec::new();
        for (number, line) in shown.into_iter().enumerate() {
            let points = &mut lines[line];
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
            let name = match names[line].as_str() {
                "" => study,
                name => name,
            };
            series.push(Series {
                name: name.to_owned(),
                points: points.iter().map(|point| (point.x, point.y)).collect(),
            });
        }
        self.add_published(cells, quantity, (&mut series, &mut marks));
        let heights = series.iter().flat_map(|series| &series.points);
        let scale = match is_wide(heights.map(|point| point.1), LINEAR_MAX.1) {
            // As along, so that the best there can be is a straight line.
            _ if quantity.kind == Kind::SpeedUp => self.axis.scale,
            true => Scale::Decimal,
            false => Scale::Linear,
        };
        if quantity.kind == Kind::SpeedUp && series.iter().any(|line| !line.points.is_empty()) {
            add_best(&mut series, &mut marks);
        }
        if scale == Scale::Decimal {
            // Zero has a place of its own there, far below.
            marks.intervals.retain(|interval| interval.low > 0.0);
        }
        let chart = LineChart {
            title: format!("{study}: {}{rest}", quantity.title),
            x: self.axis.clone(),
            y: Axis {
                title: quantity.axis.to_owned(),
                scale,
                notation: Notation::Plain,
            },
            series,
        };
        (chart, marks)
    }

    fn add_published(
        &self,
        cells: &[CellRecord<'_>],
        quantity: &Quantity,
        (series, marks): (&mut Vec<Series>, &mut Marks),
    ) {
        let published = cells.iter().filter_map(|cell| {
            let figure = cell.published.figures.get(quantity.path?)?;
            let place = self.place(cell)?;
            (figure.role != FigureRole::Context).then_some((place, figure.value))
        });
        let published: Vec<(f64, f64)> = published.collect();
        if published.is_empty() {
            return;
        }
        if let [only] = series.as_mut_slice() {
            only.name = "ours".to_owned();
        }
        marks.looks = vec![LineLook::MarkedLine; series.len()];
        marks.looks.push(LineLook::Points);
        series.push(Series {
            name: "published".to_owned(),
            points: published,
        });
    }
}

/// Adds the line of a speed-up that is as large as the number of ranks.
fn add_best(series: &mut Vec<Series>, marks: &mut Marks) {
    let ranks = series.iter().flat_map(|line| &line.points).map(|it| it.0);
    let mut ranks: Vec<f64> = ranks.collect();
    ranks.sort_by(f64::total_cmp);
    ranks.dedup();
    marks.looks = vec![LineLook::MarkedLine; series.len()];
    marks.looks.push(LineLook::Line);
    series.push(Series {
        name: "as many times as ranks".to_owned(),
        points: ranks.into_iter().map(|rank| (rank, rank)).collect(),
    });
}

/// Whether no value is below zero, and the largest is so many times the smallest above zero.
fn is_wide(values: impl Iterator<Item = f64>, most: f64) -> bool {
    let mut least = f64::INFINITY;
    let mut largest = 0.0_f64;
    for value in values {
        if value < 0.0 {
            return false;
        }
        if value > 0.0 {
            least = least.min(value);
        }
        largest = largest.max(value);
    }
    largest >= most * least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn ruler(name: &str, values: &[&str]) -> (String, Scale, Vec<f64>) {
        let published = crate::Published::default();
        let sets = values
            .iter()
            .map(|value| vec![(name.to_owned(), (*value).to_owned())]);
        let sets: Vec<_> = sets.collect();
        let cells = sets
            .iter()
            .map(|set| CellRecord::of(set, &published, Vec::new()));
        let cells: Vec<_> = cells.collect();
        let ruler = Ruler::of_cells(&cells).unwrap();
        let places = cells.iter().filter_map(|cell| ruler.place(cell)).collect();
        (ruler.axis.title, ruler.axis.scale, places)
    }

    #[test]
    fn values_with_units_have_places_on_an_axis() {
        let (title, scale, places) = ruler("traffic.size", &["64 B", "1 KiB", "65519 B"]);
        assert_eq!((title.as_str(), scale), ("traffic.size", Scale::Binary));
        assert_eq!(places, [64.0, 1024.0, 65_519.0]);
        let (title, scale, places) = ruler("traffic.rate", &["100/s", "400/s"]);
        assert_eq!(
            (title.as_str(), scale),
            ("traffic.rate, 1/s", Scale::Linear)
        );
        assert_eq!(places, [100.0, 400.0]);
        let (title, _, places) = ruler("run.until", &["30 us", "1 ms"]);
        assert_eq!(
            (title.as_str(), places),
            ("run.until, us", vec![30.0, 1000.0])
        );
        let (title, _, places) = ruler("links.rate", &["100 Mbit/s", "1 Gbit/s"]);
        assert_eq!(
            (title.as_str(), places),
            ("links.rate, Mbit/s", vec![100.0, 1000.0])
        );
        let (_, scale, _) = ruler("hosts.prepost", &["1", "64"]);
        assert_eq!(scale, Scale::Decimal);
    }

    #[test]
    fn words_have_no_axis() {
        let mut outcome = sample::grid();
        for cell in &mut outcome.cells {
            cell.set.remove(0);
        }
        assert!(sweep_curves(&outcome).is_empty());
    }

    #[test]
    fn a_sweep_withholds_the_latency_of_unstable_cells_and_a_run_marks_them() {
        let outcome = sample::grid();
        let cells: Vec<_> = outcome.cells.iter().map(|cell| cell.record()).collect();
        let points = |look, file: &str| {
            let drawn = curves(&cells, "x", look);
            let curve = drawn.into_iter().find(|curve| curve.file == file).unwrap();
            (curve.chart.series[0].points.len(), curve.marks.hollow.len())
        };
        assert_eq!(points(Look::Sweep, "latency-mean.svg"), (2, 0));
        assert_eq!(points(Look::Run, "latency-mean.svg"), (3, 1));
        assert_eq!(points(Look::Sweep, "carried.svg"), (3, 1));
    }

    #[test]
    fn a_speed_up_is_drawn_over_ranks_beside_the_best_there_can_be() {
        let mut outcome = sample::grid();
        let alone = outcome.cells.swap_remove(0);
        let cell = |key: &str, value: &str, makespan_us: f64| {
            let mut cell = alone.clone();
            cell.set = vec![(key.to_owned(), value.to_owned())];
            if key != "traffic.bytes" {
                cell.set
                    .push(("traffic.bytes".to_owned(), "1 B".to_owned()));
            }
            cell.runs[0].summary_mut().application = Some(crate::ApplicationSummary {
                makespan_us: Some(makespan_us),
                ..crate::ApplicationSummary::default()
            });
            cell
        };
        let times = [("1", 90.0), ("4", 30.0), ("32", 9.0)];
        outcome.cells = times.map(|(ranks, time)| cell(RANKS, ranks, time)).to_vec();
        let drawn = |outcome: &StudyOutcome| {
            let cells: Vec<_> = outcome.cells.iter().map(|cell| cell.record()).collect();
            let mut drawn = curves(&cells, "x", Look::Sweep).into_iter();
            drawn.find(|curve| curve.file == "speed-up.svg")
        };
        let curve = drawn(&outcome).unwrap();
        let lines = curve.chart.series.iter().map(|line| line.points.clone());
        let ours = vec![(1.0, 1.0), (4.0, 3.0), (32.0, 10.0)];
        let best = vec![(1.0, 1.0), (4.0, 4.0), (32.0, 32.0)];
        assert_eq!(lines.collect::<Vec<_>>(), [ours, best]);
        assert_eq!(curve.chart.y.scale, curve.chart.x.scale);
        // Over another key nobody knows the best.
        let mut bytes = vec![cell("traffic.bytes", "1 B", 1.0)];
        bytes.push(cell("traffic.bytes", "2 B", 2.0));
        outcome.cells = bytes;
        assert!(drawn(&outcome).is_none());
    }
}
