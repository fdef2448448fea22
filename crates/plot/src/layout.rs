//! Where everything of a chart is: title, legend, axes, lines.

use crate::chart::{LineChart, Series};
use crate::font::Font;
use crate::ruler::Ruler;
use crate::scene::{Anchor, Colour, Direction, INK, PAPER, Point, Scene, Shape, Text};
use crate::style::{colour, marker};

/// Of the sheet, in units.
const WIDTH: f64 = 520.0;
/// Between the title with the legend and the bottom edge: their height comes on top.
const BODY_HEIGHT: f64 = 320.0;
const MARGIN: f64 = 12.0;

const TITLE_SIZE: f64 = 14.0;
const AXIS_SIZE: f64 = 13.0;
const LABEL_SIZE: f64 = 12.0;
/// From base line to base line, of a font's size.
const LINE_HEIGHT: f64 = 1.3;

const TICK_LENGTH: f64 = 5.0;
const MARK_LENGTH: f64 = 3.0;
/// Between labels at least.
const LABEL_GAP: f64 = 12.0;
const GRID: Colour = Colour(0xdd, 0xdd, 0xdd);

/// More markers would hide a line.
const MARKERS_MAX: usize = 24;

/// All that is to be drawn.
pub(crate) fn scene(chart: &LineChart) -> Scene {
    let mut sheet = Sheet {
        font: Font::new(),
        shapes: Vec::new(),
    };
    let title_bottom = sheet.title(&chart.title);
    let top = sheet.legend(&chart.series, title_bottom) + 10.0;
    let height = top + BODY_HEIGHT;
    let bottom = height - MARGIN - AXIS_SIZE * LINE_HEIGHT - LABEL_SIZE * LINE_HEIGHT - 8.0;

    let points = || chart.series.iter().flat_map(|series| &series.points);
    let y_values: Vec<f64> = points().map(|point| point.1).collect();
    let label_height = LABEL_SIZE * LINE_HEIGHT + 4.0;
    let y = Ruler::new(&chart.y, &y_values, |_| label_height / (bottom - top));
    let label_widths = y.ticks.iter().map(|tick| sheet.width(&tick.label));
    let label_width_max = label_widths.fold(0.0, f64::max);

    let left = MARGIN + AXIS_SIZE * LINE_HEIGHT + label_width_max + TICK_LENGTH + 8.0;
    let x_values: Vec<f64> = points().map(|point| point.0).collect();
    let ruler = |right: f64| {
        Ruler::new(&chart.x, &x_values, |label| {
            (sheet.width(label) + LABEL_GAP) / (right - left)
        })
    };
    let mut right = WIDTH - MARGIN - 10.0;
    let mut x = ruler(right);
    // A long label at the end of the axis reaches over it.
    let ends = x.ticks.iter().map(|tick| {
        left + tick.at * (right - left) + sheet.width(&tick.label) / 2.0 - (WIDTH - MARGIN / 2.0)
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
    sheet.grid(&frame, &x, &y);
    sheet.axis_titles(&frame, chart, height);
    for (index, series) in chart.series.iter().enumerate() {
        sheet.series(&frame, (&x, &y), index, series);
    }
    Scene {
        width: WIDTH,
        height,
        shapes: sheet.shapes,
    }
}

/// One line's sample and name in the legend.
struct Entry {
    index: usize,
    name: String,
    width: f64,
}

/// The part of the sheet where lines are.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    /// From a part of the axis.
    fn x(&self, part: f64) -> f64 {
        self.left + part * (self.right - self.left)
    }

    /// From a part of the axis.
    fn y(&self, part: f64) -> f64 {
        self.bottom - part * (self.bottom - self.top)
    }
}

struct Sheet {
    font: Font,
    shapes: Vec<Shape>,
}

impl Sheet {
    fn width(&self, label: &str) -> f64 {
        self.font.width(label, LABEL_SIZE)
    }

    /// Gives where it ends.
    fn title(&mut self, title: &str) -> f64 {
        let mut bottom = MARGIN;
        for words in self.font.wrapped(title, TITLE_SIZE, WIDTH - 2.0 * MARGIN) {
            bottom += TITLE_SIZE * LINE_HEIGHT;
            self.text(
                words,
                (WIDTH / 2.0, bottom - 4.0),
                Anchor::Middle,
                TITLE_SIZE,
            );
        }
        bottom
    }

    /// In rows, each in the middle. Gives where it ends.
    fn legend(&mut self, series: &[Series], top: f64) -> f64 {
        const SAMPLE: f64 = 28.0;
        const SAMPLE_GAP: f64 = 6.0;
        const ENTRY_GAP: f64 = 20.0;
        const ROW_HEIGHT: f64 = 18.0;

        let row_width = WIDTH - 2.0 * MARGIN;
        let mut rows: Vec<(f64, Vec<Entry>)> = Vec::new();
        for (index, series) in series.iter().enumerate() {
            let name_width_max = row_width - SAMPLE - SAMPLE_GAP;
            let name = self
                .font
                .shortened(&series.name, LABEL_SIZE, name_width_max);
            let width = SAMPLE + SAMPLE_GAP + self.width(&name);
            match rows.last_mut() {
                Some((used, entries)) if *used + ENTRY_GAP + width <= row_width => {
                    *used += ENTRY_GAP + width;
                    entries.push(Entry { index, name, width });
                }
                _ => rows.push((width, vec![Entry { index, name, width }])),
            }
        }
        let mut bottom = top + 4.0;
        for (row_width, entries) in rows {
            let middle = bottom + ROW_HEIGHT / 2.0;
            let mut x = (WIDTH - row_width) / 2.0;
            for Entry { index, name, width } in entries {
                self.line(vec![(x, middle), (x + SAMPLE, middle)], colour(index), 2.0);
                self.shapes.push(marker(index, (x + SAMPLE / 2.0, middle)));
                let at = (x + SAMPLE + SAMPLE_GAP, middle + LABEL_SIZE * 0.36);
                self.text(name, at, Anchor::Start, LABEL_SIZE);
                x += width + ENTRY_GAP;
            }
            bottom += ROW_HEIGHT;
        }
        bottom
    }

    fn grid(&mut self, frame: &Frame, x: &Ruler, y: &Ruler) {
        for at in x.ticks.iter().map(|tick| frame.x(tick.at)) {
            self.line(vec![(at, frame.bottom), (at, frame.top)], GRID, 1.0);
        }
        for at in y.ticks.iter().map(|tick| frame.y(tick.at)) {
            self.line(vec![(frame.left, at), (frame.right, at)], GRID, 1.0);
        }
        let corner = (frame.left, frame.bottom);
        let axes = vec![(frame.left, frame.top), corner, (frame.right, frame.bottom)];
        self.line(axes, INK, 1.2);

        let below = |at: f64, length: f64| vec![(at, frame.bottom), (at, frame.bottom + length)];
        let beside = |at: f64, length: f64| vec![(frame.left, at), (frame.left - length, at)];
        for part in x.marks.iter().filter(|part| is_on_axis(**part)) {
            self.line(below(frame.x(*part), MARK_LENGTH), INK, 0.8);
        }
        for part in y.marks.iter().filter(|part| is_on_axis(**part)) {
            self.line(beside(frame.y(*part), MARK_LENGTH), INK, 0.8);
        }
        for tick in &x.ticks {
            let at = frame.x(tick.at);
            self.line(below(at, TICK_LENGTH), INK, 1.2);
            let base = frame.bottom + TICK_LENGTH + 3.0 + LABEL_SIZE * 0.8;
            self.text(tick.label.clone(), (at, base), Anchor::Middle, LABEL_SIZE);
        }
        for tick in &y.ticks {
            let at = frame.y(tick.at);
            self.line(beside(at, TICK_LENGTH), INK, 1.2);
            let end = (frame.left - TICK_LENGTH - 4.0, at + LABEL_SIZE * 0.36);
            self.text(tick.label.clone(), end, Anchor::End, LABEL_SIZE);
        }
        if let Some((zero, rest)) = x.gap() {
            self.gap((frame.x((zero + rest) / 2.0), frame.bottom), (1.0, 0.0));
        }
        if let Some((zero, rest)) = y.gap() {
            self.gap((frame.left, frame.y((zero + rest) / 2.0)), (0.0, 1.0));
        }
    }

    /// Two strokes across an axis with nothing between.
    fn gap(&mut self, (x, y): Point, (along_x, along_y): Point) {
        const HALF: f64 = 2.5;
        const LONG: f64 = 5.0;

        let (half_x, half_y) = (along_x * HALF, along_y * HALF);
        self.line(
            vec![(x - half_x, y - half_y), (x + half_x, y + half_y)],
            PAPER,
            2.5,
        );
        for side in [-1.0, 1.0] {
            let (x, y) = (x + side * half_x, y + side * half_y);
            let (long_x, long_y) = (
                along_y * LONG + along_x * HALF / 2.0,
                along_x * LONG + along_y * HALF / 2.0,
            );
            self.line(
                vec![(x - long_x, y + long_y), (x + long_x, y - long_y)],
                INK,
                1.2,
            );
        }
    }

    fn axis_titles(&mut self, frame: &Frame, chart: &LineChart, height: f64) {
        let (width, body) = (frame.right - frame.left, frame.bottom - frame.top);
        let words = self.font.shortened(&chart.x.title, AXIS_SIZE, width);
        let at = (frame.x(0.5), height - MARGIN);
        self.text(words, at, Anchor::Middle, AXIS_SIZE);
        let words = self.font.shortened(&chart.y.title, AXIS_SIZE, body);
        self.shapes.push(Shape::Text(Text {
            words,
            at: (MARGIN + AXIS_SIZE * 0.8, frame.y(0.5)),
            anchor: Anchor::Middle,
            size: AXIS_SIZE,
            direction: Direction::Up,
        }));
    }

    fn series(&mut self, frame: &Frame, (x, y): (&Ruler, &Ruler), index: usize, series: &Series) {
        let places = series.points.iter().filter_map(|point| {
            let (x, y) = (x.place(point.0)?, y.place(point.1)?);
            Some((frame.x(x), frame.y(y)))
        });
        let places: Vec<Point> = places.collect();
        let step = places.len().div_ceil(MARKERS_MAX).max(1);
        let markers: Vec<Point> = places.iter().copied().step_by(step).collect();
        self.line(places, colour(index), 2.0);
        let markers = markers.into_iter().map(|place| marker(index, place));
        self.shapes.extend(markers);
    }

    fn line(&mut self, points: Vec<Point>, colour: Colour, width: f64) {
        self.shapes.push(Shape::Line {
            points,
            colour,
            width,
        });
    }

    fn text(&mut self, words: String, at: Point, anchor: Anchor, size: f64) {
        self.shapes.push(Shape::Text(Text {
            words,
            at,
            anchor,
            size,
            direction: Direction::Right,
        }));
    }
}

fn is_on_axis(part: f64) -> bool {
    (-1e-9..=1.0 + 1e-9).contains(&part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Notation, Scale};

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
            let scene = scene(&chart);
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
