//! What pictures of all kinds have in common: title, legend, axes, lines and letters.

use crate::font::Font;
use crate::picture::Format;
use crate::ruler::Ruler;
use crate::scene::{Anchor, Colour, Direction, Point, Scene, Shape, Text};
use crate::style::marker;

pub(crate) const MARGIN: f64 = 12.0;

const TITLE_SIZE: f64 = 14.0;
pub(crate) const AXIS_SIZE: f64 = 13.0;
pub(crate) const LABEL_SIZE: f64 = 12.0;
/// From base line to base line, of a font's size.
pub(crate) const LINE_HEIGHT: f64 = 1.3;

pub(crate) const TICK_LENGTH: f64 = 5.0;
const MARK_LENGTH: f64 = 3.0;
/// Between labels at least.
pub(crate) const LABEL_GAP: f64 = 12.0;

/// How an entry of the legend shows what it names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sample {
    Line,
    MarkedLine,
    Marker,
    Bar,
}

/// One line's sample and name in the legend.
struct Entry {
    index: usize,
    sample: Sample,
    name: String,
    width: f64,
}

/// The part of the sheet where lines are.
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl Frame {
    /// From a part of the axis.
    pub(crate) fn x(&self, part: f64) -> f64 {
        self.left + part * (self.right - self.left)
    }

    /// From a part of the axis.
    pub(crate) fn y(&self, part: f64) -> f64 {
        self.bottom - part * (self.bottom - self.top)
    }
}

/// What is being drawn on.
pub(crate) struct Sheet {
    pub(crate) font: Font,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) format: Format,
}

impl Sheet {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            font: Font::new(),
            shapes: Vec::new(),
            format,
        }
    }

    pub(crate) fn into_scene(self, height: f64) -> Scene {
        Scene {
            width: self.format.width,
            height,
            shapes: self.shapes,
        }
    }

    pub(crate) fn width(&self, label: &str) -> f64 {
        self.font.width(label, LABEL_SIZE)
    }

    /// Gives where it ends.
    pub(crate) fn title(&mut self, title: &str) -> f64 {
        let mut bottom = MARGIN;
        for words in self
            .font
            .wrapped(title, TITLE_SIZE, self.format.width - 2.0 * MARGIN)
        {
            bottom += TITLE_SIZE * LINE_HEIGHT;
            self.text(
                words,
                (self.format.width / 2.0, bottom - 4.0),
                Anchor::Middle,
                TITLE_SIZE,
            );
        }
        bottom
    }

    /// In rows, each in the middle. Gives where it ends.
    pub(crate) fn legend<'a>(
        &mut self,
        entries: impl Iterator<Item = (usize, Sample, &'a str)>,
        top: f64,
    ) -> f64 {
        const SAMPLE: f64 = 28.0;
        const SAMPLE_GAP: f64 = 6.0;
        const ENTRY_GAP: f64 = 20.0;
        const ROW_HEIGHT: f64 = 18.0;

        let row_width = self.format.width - 2.0 * MARGIN;
        let mut rows: Vec<(f64, Vec<Entry>)> = Vec::new();
        for (index, sample, name) in entries.filter(|(.., name)| !name.is_empty()) {
            let name_width_max = row_width - SAMPLE - SAMPLE_GAP;
            let name = self.font.shortened(name, LABEL_SIZE, name_width_max);
            let width = SAMPLE + SAMPLE_GAP + self.width(&name);
            match rows.last_mut() {
                Some((used, entries)) if *used + ENTRY_GAP + width <= row_width => {
                    *used += ENTRY_GAP + width;
                    entries.push(Entry {
                        index,
                        sample,
                        name,
                        width,
                    });
                }
                _ => rows.push((
                    width,
                    vec![Entry {
                        index,
                        sample,
                        name,
                        width,
                    }],
                )),
            }
        }
        let mut bottom = top + 4.0;
        for (row_width, entries) in rows {
            let middle = bottom + ROW_HEIGHT / 2.0;
            let mut x = (self.format.width - row_width) / 2.0;
            for Entry {
                index,
                sample,
                name,
                width,
            } in entries
            {
                let colour = Colour::Line(index);
                match sample {
                    Sample::Bar => self.rectangle((x + 8.0, middle - 5.0), (20.0, 10.0), colour),
                    Sample::Line | Sample::MarkedLine => {
                        self.line(vec![(x, middle), (x + SAMPLE, middle)], colour, 2.0);
                    }
                    Sample::Marker => {}
                }
                if matches!(sample, Sample::MarkedLine | Sample::Marker) {
                    self.shapes.push(marker(index, (x + SAMPLE / 2.0, middle)));
                }
                let at = (x + SAMPLE + SAMPLE_GAP, middle + LABEL_SIZE * 0.36);
                self.text(name, at, Anchor::Start, LABEL_SIZE);
                x += width + ENTRY_GAP;
            }
            bottom += ROW_HEIGHT;
        }
        bottom
    }

    pub(crate) fn grid(&mut self, frame: &Frame, x: &Ruler, y: &Ruler) {
        for at in x.ticks.iter().map(|tick| frame.x(tick.at)) {
            self.line(vec![(at, frame.bottom), (at, frame.top)], Colour::Grid, 1.0);
        }
        for at in y.ticks.iter().map(|tick| frame.y(tick.at)) {
            self.line(vec![(frame.left, at), (frame.right, at)], Colour::Grid, 1.0);
        }
        let corner = (frame.left, frame.bottom);
        let axes = vec![(frame.left, frame.top), corner, (frame.right, frame.bottom)];
        self.line(axes, Colour::Ink, 1.2);

        let below = |at: f64, length: f64| vec![(at, frame.bottom), (at, frame.bottom + length)];
        let beside = |at: f64, length: f64| vec![(frame.left, at), (frame.left - length, at)];
        for part in x.marks.iter().filter(|part| is_on_axis(**part)) {
            self.line(below(frame.x(*part), MARK_LENGTH), Colour::Ink, 0.8);
        }
        for part in y.marks.iter().filter(|part| is_on_axis(**part)) {
            self.line(beside(frame.y(*part), MARK_LENGTH), Colour::Ink, 0.8);
        }
        for tick in &x.ticks {
            let at = frame.x(tick.at);
            self.line(below(at, TICK_LENGTH), Colour::Ink, 1.2);
            let base = frame.bottom + TICK_LENGTH + 3.0 + LABEL_SIZE * 0.8;
            self.text(tick.label.clone(), (at, base), Anchor::Middle, LABEL_SIZE);
        }
        for tick in &y.ticks {
            let at = frame.y(tick.at);
            self.line(beside(at, TICK_LENGTH), Colour::Ink, 1.2);
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
            Colour::Paper,
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
                Colour::Ink,
                1.2,
            );
        }
    }

    pub(crate) fn axis_titles(&mut self, frame: &Frame, (x, y): (&str, &str), height: f64) {
        let (width, body) = (frame.right - frame.left, frame.bottom - frame.top);
        let words = self.font.shortened(x, AXIS_SIZE, width);
        let at = (frame.x(0.5), height - MARGIN);
        self.text(words, at, Anchor::Middle, AXIS_SIZE);
        let words = self.font.shortened(y, AXIS_SIZE, body);
        self.shapes.push(Shape::Text(Text {
            words,
            at: (MARGIN + AXIS_SIZE * 0.8, frame.y(0.5)),
            anchor: Anchor::Middle,
            size: AXIS_SIZE,
            direction: Direction::Up,
        }));
    }

    pub(crate) fn line(&mut self, points: Vec<Point>, colour: Colour, width: f64) {
        self.shapes.push(Shape::Line {
            points,
            colour,
            width,
        });
    }

    pub(crate) fn rectangle(&mut self, (x, y): Point, (width, height): Point, colour: Colour) {
        self.shapes.push(Shape::Rectangles {
            places: vec![(x, y)],
            size: (width, height),
            colour,
        });
    }

    pub(crate) fn text(&mut self, words: String, at: Point, anchor: Anchor, size: f64) {
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
