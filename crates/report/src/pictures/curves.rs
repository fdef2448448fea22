//! What a sweep shows: a quantity over one swept key, a line for each value of the others.

use viaduct_plot::{Axis, Interval, LineChart, Look, Marks, Notation, Scale, Series};
use viaduct_scenario::{parse_frequency, parse_rate, parse_size, parse_time};

use super::{Chart, LINES_MAX, csv_line};
use crate::outcome::FigureRole;
use crate::screen::View;
use crate::shown::{NamedCell, chosen};

/// The charts of a sweep; none if no swept key is a quantity.
pub(crate) fn curves(cells: &[NamedCell<'_>], study: &str) -> Vec<Chart> {
    let Some(ruler) = Measure::of_sweep(cells) else {
        return Vec::new();
    };
    let points: Vec<Point<'_>> = cells
        .iter()
        .filter_map(|named| ruler.point(named))
        .collect();
    let quantities: [Quantity; 4] = [
        Quantity {
            title: "mean latency, us",
            path: Some("latency_us.mean"),
            value: |view| view.mean_us.map(|spread| spread.mean),
            half_width: |view| view.mean_us.and_then(|spread| spread.ci95),
        },
        Quantity {
            title: "p99 of latency, us",
            path: Some("latency_us.p99"),
            value: |view| view.latency(|latency| latency.p99),
            half_width: |_| None,
        },
        Quantity {
            title: "busiest link, % busy",
            path: None,
            value: |view| {
                view.mean(|run| {
                    let links = run.links.iter().map(|(_, usage)| usage.utilisation_max);
                    links.reduce(f64::max).map(|most| most * 100.0)
                })
            },
            half_width: |_| None,
        },
        Quantity {
            title: "messages dropped, %",
            path: None,
            value: |view| Some(view.dropped_fraction() * 100.0).filter(|lost| *lost > 0.0),
            half_width: |_| None,
        },
    ];
    let charts = quantities
        .iter()
        .map(|quantity| ruler.chart(&points, quantity, study));
    charts.filter(|chart| !chart.is_empty()).collect()
}

struct Quantity {
    title: &'static str,
    /// Of published figures of it.
    path: Option<&'static str>,
    value: fn(&View<'_>) -> Option<f64>,
    half_width: fn(&View<'_>) -> Option<f64>,
}

/// A cell's place on the axis.
struct Point<'a> {
    x: f64,
    /// The values of the other keys.
    line: String,
    cell: &'a NamedCell<'a>,
    view: View<'a>,
}

/// How the values of a key become places on an axis.
struct Measure {
    /// Number of the key among the swept ones.
    key: usize,
    axis: Axis,
    read: fn(&str) -> Option<f64>,
}

impl Measure {
    /// Of the key that takes most values.
    fn of_sweep(cells: &[NamedCell<'_>]) -> Option<Self> {
        let keys = cells.first()?.cell.set.len();
        let measures = (0..keys).filter_map(|key| {
            let mut values: Vec<&str> = cells
                .iter()
                .filter_map(|named| Some(named.cell.set.get(key)?.1.as_str()))
                .collect();
            values.sort_unstable();
            values.dedup();
            let name = &cells.first()?.cell.set[key].0;
            let measure = Self::new(key, name, &values)?;
            (values.len() > 1).then_some((values.len(), measure))
        });
        // Of equals the first.
        let best = measures.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, measure)| measure)
    }

    fn new(key: usize, name: &str, values: &[&str]) -> Option<Self> {
        type Reader = (fn(&str) -> Option<f64>, &'static str, Notation);
        const READERS: [Reader; 5] = [
            (|text| text.parse().ok(), "", Notation::Plain),
            (
                |text| Some(parse_size(text).ok()? as f64),
                "",
                Notation::Bytes,
            ),
            (
                |text| Some(parse_time(text).ok()?.picoseconds() as f64 / 1e6),
                ", us",
                Notation::Plain,
            ),
            (|text| parse_frequency(text).ok(), ", 1/s", Notation::Plain),
            (
                |text| Some(parse_rate(text).ok()?.bits_per_second() / 1e6),
                ", Mbit/s",
                Notation::Plain,
            ),
        ];

        let (read, unit, notation) = READERS.into_iter().find(|(read, ..)| {
            values
                .iter()
                .all(|value| read(value).is_some_and(f64::is_finite))
        })?;
        let numbers: Vec<f64> = values.iter().filter_map(|value| read(value)).collect();
        let least = numbers
            .iter()
            .copied()
            .filter(|value| *value > 0.0)
            .fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(0.0, f64::max);
        let is_wide = most / least >= 20.0 && numbers.iter().all(|value| *value >= 0.0);
        let scale = match (is_wide, notation) {
            (true, Notation::Bytes) => Scale::Binary,
            (true, Notation::Plain) => Scale::Decimal,
            (false, _) => Scale::Linear,
        };
        Some(Self {
            key,
            axis: Axis {
                title: format!("{name}{unit}"),
                scale,
                notation,
            },
            read,
        })
    }

    fn point<'a>(&self, named: &'a NamedCell<'a>) -> Option<Point<'a>> {
        let x = (self.read)(&named.cell.set.get(self.key)?.1)?;
        let others = named
            .cell
            .set
            .iter()
            .enumerate()
            .filter(|(key, _)| *key != self.key);
        let others = others.map(|(_, (key, value))| format!("{key} = {value}"));
        Some(Point {
            x,
            line: others.collect::<Vec<_>>().join(", "),
            cell: named,
            view: View::of(named.cell.runs.iter().map(|run| run.summary).collect()),
        })
    }

    fn chart(&self, points: &[Point<'_>], quantity: &Quantity, study: &str) -> Chart {
        let mut lines: Vec<&str> = Vec::new();
        for point in points {
            if !lines.contains(&point.line.as_str()) {
                lines.push(&point.line);
            }
        }
        let lines = chosen(&lines, LINES_MAX);
        let mut csv = csv_line(["line", &self.axis.title, quantity.title, "ci95_half_width"]);
        let (mut series, mut marks) = (Vec::new(), Marks::default());
        for (number, line) in lines.iter().enumerate() {
            let mut list = Vec::new();
            for point in points.iter().filter(|point| point.line == *line) {
                let Some(value) = (quantity.value)(&point.view) else {
                    continue;
                };
                let half_width = (quantity.half_width)(&point.view);
                if let Some(half_width) = half_width {
                    marks.intervals.push(Interval {
                        series: number,
                        x: point.x,
                        low: value - half_width,
                        high: value + half_width,
                    });
                }
                let half_width = half_width.map_or_else(String::new, |width| width.to_string());
                csv += &csv_line([line, &point.x.to_string(), &value.to_string(), &half_width]);
                list.push((point.x, value, point.view.is_steady()));
            }
            list.sort_by(|first, second| first.0.total_cmp(&second.0));
            for (place, (.., is_steady)) in list.iter().enumerate() {
                if !is_steady {
                    marks.hollow.push((number, place));
                }
            }
            let list = list.into_iter().map(|(x, value, _)| (x, value)).collect();
            series.push(Series {
                name: (*line).to_owned(),
                points: list,
            });
        }
        self.add_published(points, quantity, (&mut series, &mut marks));
        Chart {
            chart: LineChart {
                title: format!("{study}: {}", quantity.title),
                x: self.axis.clone(),
                y: Axis {
                    title: quantity.title.to_owned(),
                    scale: Scale::Linear,
                    notation: Notation::Plain,
                },
                series,
            },
            marks,
            csv,
        }
    }

    fn add_published(
        &self,
        points: &[Point<'_>],
        quantity: &Quantity,
        (series, marks): (&mut Vec<Series>, &mut Marks),
    ) {
        let published = points.iter().filter_map(|point| {
            let figure = point.cell.cell.published.figures.get(quantity.path?)?;
            (figure.role != FigureRole::Context).then_some((point.x, figure.value))
        });
        let published: Vec<(f64, f64)> = published.collect();
        if published.is_empty() {
            return;
        }
        if let [only] = series.as_mut_slice() {
            only.name = "ours".to_owned();
        }
        marks.looks = vec![Look::MarkedLine; series.len()];
        marks.looks.push(Look::Points);
        series.push(Series {
            name: "published".to_owned(),
            points: published,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, values: &[&str]) -> Option<(String, Scale, Vec<f64>)> {
        let measure = Measure::new(0, name, values)?;
        let places = values.iter().filter_map(|value| (measure.read)(value));
        Some((measure.axis.title, measure.axis.scale, places.collect()))
    }

    #[test]
    fn values_with_units_have_places_on_an_axis() {
        let (title, scale, places) =
            measured("traffic.size", &["64 B", "1 KiB", "65519 B"]).unwrap();
        assert_eq!((title.as_str(), scale), ("traffic.size", Scale::Binary));
        assert_eq!(places, [64.0, 1024.0, 65_519.0]);
        let (title, scale, places) = measured("traffic.rate", &["100/s", "400/s"]).unwrap();
        assert_eq!(
            (title.as_str(), scale),
            ("traffic.rate, 1/s", Scale::Linear)
        );
        assert_eq!(places, [100.0, 400.0]);
        let (title, _, places) = measured("hosts.x", &["30 us", "1 ms"]).unwrap();
        assert_eq!(
            (title.as_str(), places),
            ("hosts.x, us", vec![30.0, 1000.0])
        );
        let (title, _, places) = measured("links.rate", &["100 Mbit/s", "1 Gbit/s"]).unwrap();
        assert_eq!(
            (title.as_str(), places),
            ("links.rate, Mbit/s", vec![100.0, 1000.0])
        );
        let (_, scale, _) = measured("hosts.prepost", &["1", "64"]).unwrap();
        assert_eq!(scale, Scale::Decimal);
        assert!(measured("links.model", &["fluid", "max-min"]).is_none());
    }
}
