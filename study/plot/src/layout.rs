//! Where everything of a chart is: title, legend, axes, lines.

use crate::chart::{LineChart, Look, Marks, Series};
use crate::picture::Format;
use crate::ruler::Ruler;
use crate::scene::{Anchor, Colour, Point, Scene};
use crate::sheet::{
    AXIS_SIZE, Frame, LABEL_GAP, LABEL_SIZE, LINE_HEIGHT, MARGIN, Sample, Sheet, TICK_LENGTH,
};
use crate::style::{hollow_marker, marker};

/// More markers would hide a line.
const MARKERS_MAX: usize = 24;

/// All that is to be drawn.
pub(crate) fn scene(chart: &LineChart, marks: &Marks, format: Format) -> Scene {
    let mut sheet = Sheet::new(format);
    let title_bottom = sheet.title(&chart.title);
    let entries = chart.series.iter().enumerate().map(|(index, series)| {
        let sample = match marks.look(index) {
            Look::MarkedLine => Sample::MarkedLine,
            Look::Line => Sample::Line,
            Look::Points => Sample::Marker,
        };
        (index, sample, series.name.as_str())
    });
    let top = sheet.legend(entries, title_bottom) + 10.0;
    let height = top + format.body_height;
    let bottom = height - MARGIN - AXIS_SIZE * LINE_HEIGHT - LABEL_SIZE * LINE_HEIGHT - 8.0;

    let points = || chart.series.iter().flat_map(|series| &series.points);
    let ends = marks
        .intervals
        .iter()
        .flat_map(|interval| [interval.low, interval.high]);
    let y_values: Vec<f64> = points().map(|point| point.1).chain(ends).collect();
    let label_height = LABEL_SIZE * LINE_HEIGHT + 4.0;
    let y = Ruler::new(&chart.y, &y_values, |_| label_height / (bottom - top));
    let label_widths = y.ticks.iter().map(|tick| sheet.width(&tick.label));
    let label_width_max = label_widths.fold(0.0, f64::max);

    let left = MARGIN + AXIS_SIZE * LINE_HEIGHT + label_width_max + TICK_LENGTH + 8.0;
    let rules = marks.rules.iter().map(|rule| rule.at);
    let x_values: Vec<f64> = points().map(|point| point.0).chain(rules).collect();
    let ruler = |right: f64| {
        Ruler::new(&chart.x, &x_values, |label| {
            (sheet.width(label) + LABEL_GAP) / (right - left)
        })
    };
    let mut right = format.width - MARGIN - 10.0;
    let mut x = ruler(right);
    // A long label at the end of the axis reaches over it.
    let ends = x.ticks.iter().map(|tick| {
        let end = left + tick.at * (right - left) + sheet.width(&tick.label) / 2.0;
        end - (format.width - MARGIN / 2.0)
    });
    let beyond = ends.fold(0.0, f64::max);
    if beyond > 0.0 {
        right -= beyond;
        x = ruler(right);
    }

    let frame = Frame {
        left,
        right,
        top,
        bottom,
    };
    sheet.bands(&frame, &x, marks);
    sheet.grid(&frame, &x, &y);
    sheet.axis_titles(&frame, (&chart.x.title, &chart.y.title), height);
    for interval in &marks.intervals {
        sheet.interval(&frame, (&x, &y), interval);
    }
    for (index, series) in chart.series.iter().enumerate() {
        sheet.series(
            &frame,
            (&x, &y),
            (index, marks.look(index)),
            series,
            &marks.hollow,
        );
    }
    sheet.rules(&frame, &x, marks);
    sheet.into_scene(height)
}

impl Sheet {
    fn series(
        &mut self,
        frame: &Frame,
        (x, y): (&Ruler, &Ruler),
        (index, look): (usize, Look),
        series: &Series,
        hollow: &[(usize, usize)],
    ) {
        let places = series
            .points
            .iter()
            .enumerate()
            .filter_map(|(number, point)| {
                let (x, y) = (x.place(point.0)?, y.place(point.1)?);
                Some((number, (frame.x(x), frame.y(y))))
            });
        let (numbers, places): (Vec<usize>, Vec<Point>) = places.unzip();
        let step = places.len().div_ceil(MARKERS_MAX).max(1);
        let is_hollow = |number: &usize| hollow.contains(&(index, *number));
        let all = numbers.iter().zip(places.iter().copied());
        let markers: Vec<(bool, Point)> = match look {
            // A point that is less sure is never one of those that are left out.
            Look::MarkedLine => all
                .enumerate()
                .map(|(place, (number, at))| (place, is_hollow(number), at))
                .filter(|(place, is_hollow, _)| place % step == 0 || *is_hollow)
                .map(|(_, is_hollow, at)| (is_hollow, at))
                .collect(),
            Look::Points => all.map(|(number, at)| (is_hollow(number), at)).collect(),
            Look::Line => Vec::new(),
        };
        if look != Look::Points {
            self.line(places, Colour::Line(index), 2.0);
        }
        let markers = markers.into_iter();
        let markers = markers.map(|(is_hollow, place)| match is_hollow {
            true => hollow_marker(index, place),
            false => marker(index, place),
        });
        self.shapes.extend(markers);
    }

    /// Behind everything, with their names at the top.
    fn bands(&mut self, frame: &Frame, x: &Ruler, marks: &Marks) {
        for band in &marks.bands {
            let (Some(from), Some(to)) = (x.place(band.from), x.place(band.to)) else {
                continue;
            };
            let from = frame.x(from.clamp(0.0, 1.0));
            let to = frame.x(to.clamp(0.0, 1.0));
            let size = (to - from, frame.bottom - frame.top);
            self.rectangle((from, frame.top), size, Colour::Shade);
            if self.width(&band.name) + 4.0 <= frame.right - from {
                let at = (from + 4.0, frame.top + LABEL_SIZE);
                self.text(band.name.clone(), at, Anchor::Start, LABEL_SIZE);
            }
        }
    }

    /// Names stand above one another from the bottom on, each on the side of its line that has more
    /// room.
    fn rules(&mut self, frame: &Frame, x: &Ruler, marks: &Marks) {
        for (index, rule) in marks.rules.iter().enumerate() {
            let Some(part) = x.place(rule.at) else {
                continue;
            };
            let at = frame.x(part);
            let ends = vec![(at, frame.bottom), (at, frame.top)];
            self.line(ends, Colour::Muted, 1.2);
            let base = frame.bottom - 5.0 - LABEL_SIZE * LINE_HEIGHT * index as f64;
            let (from, anchor, room) = if part < 0.5 {
                (at + 4.0, Anchor::Start, frame.right - at)
            } else {
                (at - 4.0, Anchor::End, at - frame.left)
            };
            let words = self.font.shortened(&rule.name, LABEL_SIZE, room - 4.0);
            self.text(words, (from, base), anchor, LABEL_SIZE);
        }
    }

    fn interval(
        &mut self,
        frame: &Frame,
        (x, y): (&Ruler, &Ruler),
        interval: &crate::chart::Interval,
    ) {
        const HALF: f64 = 4.0;

        let places = (
            x.place(interval.x),
            y.place(interval.low),
            y.place(interval.high),
        );
        let (Some(x), Some(low), Some(high)) = places else {
            return;
        };
        let (x, low, high) = (frame.x(x), frame.y(low), frame.y(high));
        let colour = Colour::Line(interval.series);
        for ends in [
            vec![(x, low), (x, high)],
            vec![(x - HALF, low), (x + HALF, low)],
            vec![(x - HALF, high), (x + HALF, high)],
        ] {
            self.line(ends, colour, 1.2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Notation, Scale};
    use crate::font::Font;
    use crate::scene::{Direction, Shape};

    #[test]
    fn a_point_that_is_less_sure_is_drawn_empty() {
        let axis = || Axis {
            title: "x".to_owned(),
            scale: Scale::Linear,
            notation: Notation::Plain,
        };
        let series = Series {
            name: "a line".to_owned(),
            points: (0..50).map(|x| (f64::from(x), f64::from(x))).collect(),
        };
        let chart = LineChart {
            title: "a chart".to_owned(),
            x: axis(),
            y: axis(),
            series: vec![series],
        };
        let marks = Marks {
            hollow: vec![(0, 49)],
            ..Marks::default()
        };
        let empty = |scene: &Scene| {
            let shapes = scene.shapes.iter();
            let areas = shapes.filter(|shape| {
                matches!(
                    shape,
                    Shape::Area {
                        fill: Colour::Paper,
                        edge: Colour::Line(0),
                        ..
                    }
                )
            });
            areas.count()
        };
        // Though not every point of a long line has a mark.
        assert_eq!(empty(&scene(&chart, &marks, Format::PAPER)), 1);
        assert_eq!(empty(&scene(&chart, &Marks::default(), Format::PAPER)), 0);
    }

    #[test]
    fn no_label_of_the_axis_reaches_over_the_sheet() {
        let axis = || Axis {
            title: "requests/s".to_owned(),
            scale: Scale::Linear,
            notation: Notation::Plain,
        };
        for most in [6.0, 6e5, 6e9, 1e12] {
            let series = Series {
                name: "a line".to_owned(),
                points: vec![(0.0, 1.0), (most, 2.0)],
            };
            let chart = LineChart {
                title: "a chart".to_owned(),
                x: axis(),
                y: axis(),
                series: vec![series],
            };
            let scene = scene(&chart, &Marks::default(), Format::PAPER);
            let font = Font::new();
            for shape in &scene.shapes {
                if let Shape::Text(text) = shape
                    && text.anchor == Anchor::Middle
                    && text.direction == Direction::Right
                {
                    let half = font.width(&text.words, text.size) / 2.0;
                    assert!(text.at.0 + half <= scene.width, "{most}: {}", text.words);
                }
            }
        }
    }
}
