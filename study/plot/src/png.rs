//! A scene as pixels.

use tiny_skia::{
    FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, Transform,
};
use ttf_parser::OutlineBuilder;

use crate::font::Font;
use crate::scene::{Anchor, Colour, Direction, Outline, Point, Scene, Shape, Text};

/// Of one unit of a scene.
const PIXELS: f32 = 3.0;

/// The whole file.
pub(crate) fn file(scene: &Scene) -> Vec<u8> {
    let side = |length: f64| (length * f64::from(PIXELS)).ceil() as u32;
    let mut canvas = Canvas {
        pixels: Pixmap::new(side(scene.width), side(scene.height)).expect("a scene has a size"),
        font: Font::new(),
    };
    canvas.pixels.fill(solid(Colour::Paper));
    for shape in &scene.shapes {
        canvas.draw(shape);
    }
    canvas
        .pixels
        .encode_png()
        .expect("pixels in memory are written to memory")
}

struct Canvas {
    pixels: Pixmap,
    font: Font,
}

impl Canvas {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Line {
                points,
                colour,
                width,
            } => self.stroke(line(points, false), *colour, *width),
            Shape::Strokes {
                ends,
                colour,
                width,
            } => {
                let mut path = PathBuilder::new();
                for [(x1, y1), (x2, y2)] in ends {
                    path.move_to(*x1 as f32, *y1 as f32);
                    path.line_to(*x2 as f32, *y2 as f32);
                }
                self.stroke(path.finish(), *colour, *width);
            }
            Shape::Rectangles {
                places,
                size: (width, height),
                colour,
            } => {
                for (x, y) in places {
                    let [x, y, width, height] = [x, y, width, height].map(|side| *side as f32);
                    let place = Rect::from_xywh(x, y, width, height);
                    self.fill(place.map(PathBuilder::from_rect), *colour);
                }
            }
            Shape::Noted { shape, .. } => self.draw(shape),
            Shape::Area {
                outline,
                fill,
                edge,
                edge_width,
            } => {
                let path = match outline {
                    Outline::Circle {
                        centre: (x, y),
                        radius,
                    } => PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32),
                    Outline::Polygon(corners) => line(corners, true),
                };
                self.fill(path.clone(), *fill);
                self.stroke(path, *edge, *edge_width);
            }
            Shape::Text(text) => {
                let path = self.text(text);
                self.fill(path, Colour::Ink);
            }
        }
    }

    fn fill(&mut self, path: Option<Path>, colour: Colour) {
        if let Some(path) = path {
            let to_pixels = Transform::from_scale(PIXELS, PIXELS);
            let rule = FillRule::Winding;
            self.pixels
                .fill_path(&path, &paint(colour), rule, to_pixels, None);
        }
    }

    fn stroke(&mut self, path: Option<Path>, colour: Colour, width: f64) {
        if let Some(path) = path {
            let to_pixels = Transform::from_scale(PIXELS, PIXELS);
            let stroke = Stroke {
                width: width as f32,
                line_cap: LineCap::Butt,
                line_join: LineJoin::Round,
                ..Stroke::default()
            };
            self.pixels
                .stroke_path(&path, &paint(colour), &stroke, to_pixels, None);
        }
    }

    fn text(&self, text: &Text) -> Option<Path> {
        let width = self.font.width(&text.words, text.size);
        let start = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let mut pen = Pen {
            path: PathBuilder::new(),
            at: text.at,
            direction: text.direction,
            scale: self.font.scale(text.size),
            x: 0.0,
        };
        for letter in self.font.letters(&text.words, text.size) {
            pen.x = start + letter.x;
            self.font.outline(letter.glyph, &mut pen);
        }
        pen.path.finish()
    }
}

/// Writes a text's letters into one path.
struct Pen {
    path: PathBuilder,
    /// Where the text is.
    at: Point,
    direction: Direction,
    /// Of the font's units.
    scale: f64,
    /// Where the letter stands along the text.
    x: f64,
}

impl Pen {
    /// From the font's units, in which `y` grows upwards.
    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        let along = self.x + f64::from(x) * self.scale;
        let above = f64::from(y) * self.scale;
        let (x, y) = match self.direction {
            Direction::Right => (self.at.0 + along, self.at.1 - above),
            Direction::Up => (self.at.0 - above, self.at.1 - along),
        };
        (x as f32, y as f32)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2)) = (self.place(x1, y1), self.place(x2, y2));
        let (x, y) = self.place(x, y);
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

/// `None` for one point, which has no length.
fn line(points: &[Point], is_closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (index, (x, y)) in points.iter().enumerate() {
        if index == 0 {
            path.move_to(*x as f32, *y as f32);
        } else {
            path.line_to(*x as f32, *y as f32);
        }
    }
    if is_closed {
        path.close();
    }
    path.finish()
}

fn paint(colour: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(solid(colour));
    paint
}

fn solid(colour: Colour) -> tiny_skia::Color {
    let [red, green, blue] = colour.rgb();
    tiny_skia::Color::from_rgba8(red, green, blue, u8::MAX)
}
