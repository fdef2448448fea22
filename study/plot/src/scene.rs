//! What is drawn and where, before it is SVG, PDF or pixels.

/// A picture: shapes, the later above the earlier. Lengths are in units, `y` grows downwards.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) shapes: Vec<Shape>,
}

/// A place.
pub(crate) type Point = (f64, f64);

/// What a colour is for; `style` says which it is, on paper and on a screen.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Colour {
    /// Of text and axes.
    Ink,
    /// Of lines that mark a place.
    Muted,
    /// Of lines behind.
    Grid,
    /// Of a part of the picture that is set apart.
    Shade,
    /// Of the sheet.
    Paper,
    /// Of a line by its number.
    Line(usize),
    /// A step of the scale of heat, below `style::HEAT_STEPS`.
    Heat(usize),
}

/// One thing to draw.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// Straight lines from point to point.
    Line {
        points: Vec<Point>,
        colour: Colour,
        width: f64,
    },
    /// Straight lines apart from each other, all alike.
    Strokes {
        ends: Vec<[Point; 2]>,
        colour: Colour,
        width: f64,
    },
    /// Filled rectangles, all alike.
    Rectangles {
        places: Vec<Point>,
        size: Point,
        colour: Colour,
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
    /// A shape with words that a screen shows when it is pointed at.
    Noted { note: String, shape: Box<Self> },
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
