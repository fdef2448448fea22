//! What is drawn and where, before it is SVG or pixels.

/// A picture: shapes, the later above the earlier. Lengths are in units, `y` grows downwards.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) shapes: Vec<Shape>,
}

/// A place.
pub(crate) type Point = (f64, f64);

/// Red, green, blue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Colour(pub(crate) u8, pub(crate) u8, pub(crate) u8);

/// One thing to draw.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// Straight lines from point to point.
    Line {
        points: Vec<Point>,
        colour: Colour,
        width: f64,
    },
    /// A filled area within a line of another colour.
    Area {
        outline: Outline,
        fill: Colour,
        edge: Colour,
        edge_width: f64,
    },
    /// Letters in one line.
    Text(Text),
}

/// What bounds an area.
#[derive(Clone, Debug)]
pub(crate) enum Outline {
    Circle { centre: Point, radius: f64 },
    Polygon(Vec<Point>),
}

/// Letters in one line.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) words: String,
    /// On the base line.
    pub(crate) at: Point,
    pub(crate) anchor: Anchor,
    /// Height of the font.
    pub(crate) size: f64,
    pub(crate) direction: Direction,
}

/// Which part of a text is at its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Which way a text is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Direction {
    Right,
    Up,
}

/// The colour of all text.
pub(crate) const INK: Colour = Colour(0x22, 0x22, 0x22);
/// The colour of the sheet.
pub(crate) const PAPER: Colour = Colour(0xff, 0xff, 0xff);
