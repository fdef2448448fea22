//! Maps of heat: lines and squares at places of their own, coloured by a value.

use crate::picture::{Format, Picture};
use crate::scene::{Anchor, Colour, Point, Scene, Shape};
use crate::sheet::{LABEL_SIZE, LINE_HEIGHT, MARGIN, Sheet};
use crate::style::{HEAT_STEPS, heat};

/// Lines and squares on a plane of the caller's own measure, `y` downwards, and the scale of their
/// colours, which begins at zero.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// What is shown; as many lines as it needs.
    pub title: String,
    /// Width and height of the plane.
    pub size: (f64, f64),
    /// Lines, all as thick as `stroke_width`.
    pub strokes: Vec<HeatStroke>,
    /// Of the lines, in the plane's measure.
    pub stroke_width: f64,
    /// Rectangles, all of one size.
    pub cells: Vec<HeatCell>,
    /// Of the rectangles, in the plane's measure.
    pub cell_size: (f64, f64),
    /// Words, each where its base line begins or has its middle.
    pub labels: Vec<HeatLabel>,
    /// What the colours say, with its unit.
    pub scale: String,
    /// The value of the hottest colour.
    pub most: f64,
    /// How a value of the scale is written.
    pub write: fn(f64) -> String,
}

/// One line.
#[derive(Clone, Debug)]
pub struct HeatStroke {
    /// From where to where.
    pub ends: [(f64, f64); 2],
    /// Its value; a line without one is drawn as what it is, a line.
    pub value: Option<f64>,
    /// What a screen says when it is pointed at, on maps of few lines.
    pub note: String,
}

/// One rectangle.
#[derive(Clone, Debug)]
pub struct HeatCell {
    /// Its left upper corner.
    pub at: (f64, f64),
    /// Its value; none for a place without one.
    pub value: Option<f64>,
    /// As of a line.
    pub note: String,
}

/// Words on a map.
#[derive(Clone, Debug)]
pub struct HeatLabel {
    /// On the base line.
    pub at: (f64, f64),
    /// What they say.
    pub words: String,
    /// Whether the place is that of their middle, not of their beginning.
    pub is_centred: bool,
}

/// Elements with words of their own; beyond, those of one colour are drawn as one.
const NOTED_MAX: usize = 1_500;
/// Of the width.
const HEIGHT_PART_MAX: f64 = 1.15;
const BAR_HEIGHT: f64 = 10.0;

impl HeatMap {
    /// Draws it; its height follows from the plane's.
    #[must_use]
    pub fn draw(&self, format: Format) -> Picture {
        Picture {
            scene: self.scene(format),
            title: self.title.clone(),
        }
    }

    fn scene(&self, format: Format) -> Scene {
        let mut sheet = Sheet::new(format);
        let top = sheet.title(&self.title) + 4.0;
        let room = format.width - 2.0 * MARGIN;
        let (width, height) = (self.size.0.max(1e-9), self.size.1.max(1e-9));
        let unit = (room / width).min(room * HEIGHT_PART_MAX / height);
        let left = MARGIN + (room - width * unit) / 2.0;
        let place = |(x, y): (f64, f64)| (left + x * unit, top + y * unit);

        let is_noted = self.strokes.len() + self.cells.len() <= NOTED_MAX;
        let stroke_width = self.stroke_width * unit;
        let strokes = self.strokes.iter().map(|stroke| {
            let shape = Shape::Strokes {
                ends: vec![stroke.ends.map(place)],
                colour: self.colour(stroke.value),
                width: stroke_width,
            };
            (shape, &stroke.note)
        });
        sheet.layer(strokes, is_noted);
        let size = (self.cell_size.0 * unit, self.cell_size.1 * unit);
        let cells = self.cells.iter().map(|cell| {
            let shape = Shape::Rectangles {
                places: vec![place(cell.at)],
                size,
                colour: self.colour(cell.value),
            };
            (shape, &cell.note)
        });
        sheet.layer(cells, is_noted);
        for label in &self.labels {
            let anchor = match label.is_centred {
                true => Anchor::Middle,
                false => Anchor::Start,
            };
            sheet.text(label.words.clone(), place(label.at), anchor, LABEL_SIZE);
        }
        let bottom = sheet.scale(self, top + height * unit + 14.0);
        sheet.into_scene(bottom + MARGIN)
    }

    fn colour(&self, value: Option<f64>) -> Colour {
        value.map_or(Colour::Grid, |value| heat(value, self.most))
    }
}

impl Sheet {
    /// Shapes with their words, the cold below the hot.
    fn layer<'a>(&mut self, shapes: impl Iterator<Item = (Shape, &'a String)>, is_noted: bool) {
        let mut shapes: Vec<(Shape, &String)> = shapes.collect();
        shapes.sort_by_key(|(shape, _)| shape_colour(shape));
        for (shape, note) in shapes {
            if is_noted && !note.is_empty() {
                self.shapes.push(Shape::Noted {
                    note: note.clone(),
                    shape: Box::new(shape),
                });
                continue;
            }
            match (self.shapes.last_mut(), shape) {
                (
                    Some(Shape::Strokes { ends, colour, .. }),
                    Shape::Strokes {
                        ends: more,
                        colour: same,
                        ..
                    },
                ) if *colour == same => ends.extend(more),
                (
                    Some(Shape::Rectangles { places, colour, .. }),
                    Shape::Rectangles {
                        places: more,
                        colour: same,
                        ..
                    },
                ) if *colour == same => places.extend(more),
                (_, shape) => self.shapes.push(shape),
            }
        }
    }

    /// The bar of all colours with its values. Gives where it ends.
    fn scale(&mut self, map: &HeatMap, top: f64) -> f64 {
        let width = (self.format.width * 0.6).min(280.0);
        let left = (self.format.width - width) / 2.0;
        let step = width / HEAT_STEPS as f64;
        for index in 0..HEAT_STEPS {
            let at = (left + index as f64 * step, top);
            self.rectangle(at, (step, BAR_HEIGHT), Colour::Heat(index));
        }
        let base = top + BAR_HEIGHT + LABEL_SIZE * 1.1;
        for part in [0.0, 0.5, 1.0] {
            let words = (map.write)(part * map.most);
            let at: Point = (left + part * width, base);
            self.text(words, at, Anchor::Middle, LABEL_SIZE);
        }
        let base = base + LABEL_SIZE * LINE_HEIGHT;
        let room = self.format.width - 2.0 * MARGIN;
        let words = self.font.shortened(&map.scale, LABEL_SIZE, room);
        let middle = (self.format.width / 2.0, base);
        self.text(words, middle, Anchor::Middle, LABEL_SIZE);
        base
    }
}

fn shape_colour(shape: &Shape) -> Option<Colour> {
    match shape {
        Shape::Strokes { colour, .. } | Shape::Rectangles { colour, .. } => Some(*colour),
        _ => None,
    }
}
