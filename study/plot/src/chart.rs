//! What a chart shows.

use crate::layout;
use crate::picture::{Format, Picture};

/// Lines over one pair of axes.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// What is shown; as many lines as it needs.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub series: Vec<Series>,
}

/// One axis; its range is that of the points.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity and its unit.
    pub title: String,
    /// Where values stand.
    pub scale: Scale,
    /// How values are written.
    pub notation: Notation,
}

/// Where values stand along an axis.
///
/// A logarithmic axis has a place for zero, below its least value and apart from it. Values below
/// zero have none there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scale {
    /// Evenly, from zero on unless a value is below.
    Linear,
    /// By the logarithm, with marks at powers of two.
    Binary,
    /// By the logarithm, with marks at powers of ten and between.
    Decimal,
}

/// How the values of an axis are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notation {
    /// As numbers: `0.5`, `20`, `1,500,000`.
    Plain,
    /// As numbers of bytes: `64 B`, `4 KiB`.
    Bytes,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// As in the legend, which cuts a very long one short.
    pub name: String,
    /// Where it passes, in this order. A point that an axis has no place for is left out.
    pub points: Vec<(f64, f64)>,
}

/// What a chart shows beside its lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// Parts of the x axis that are set apart.
    pub bands: Vec<Band>,
    /// Values on the x axis that have a name; the axis reaches to them.
    pub rules: Vec<Rule>,
    /// How far values on a line may be off.
    pub intervals: Vec<Interval>,
    /// Points that are drawn empty, by line and place in it: what they say is less sure.
    pub hollow: Vec<(usize, usize)>,
    /// How each line looks, by its number; those that are not named are marked lines.
    pub looks: Vec<Look>,
}

/// A part of the x axis that is set apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// What it is; left out where there is no room.
    pub name: String,
}

/// A value on the x axis with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The value.
    pub at: f64,
    /// What it is.
    pub name: String,
}

/// From where to where a value on a line may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Number of the line.
    pub series: usize,
    /// The value's place.
    pub x: f64,
    /// No less than this.
    pub low: f64,
    /// No more than this.
    pub high: f64,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Look {
    /// A line with markers on it, a few of them where there are many points.
    #[default]
    MarkedLine,
    /// A line alone, for curves of many points.
    Line,
    /// A marker a point, and no line.
    Points,
}

impl Marks {
    /// Lines without markers.
    #[must_use]
    pub fn plain(lines: usize) -> Self {
        Self {
            looks: vec![Look::Line; lines],
            ..Self::default()
        }
    }

    pub(crate) fn look(&self, index: usize) -> Look {
        self.looks.get(index).copied().unwrap_or_default()
    }
}

impl LineChart {
    /// Draws it, with what is to be shown beside the lines.
    #[must_use]
    pub fn draw(&self, marks: &Marks, format: Format) -> Picture {
        Picture {
            scene: layout::scene(self, marks, format),
            title: self.title.clone(),
        }
    }

    fn on_paper(&self) -> Picture {
        self.draw(&Marks::default(), Format::PAPER)
    }

    /// As an SVG document. Its text stays text: a viewer without the font takes a similar one.
    #[must_use]
    pub fn to_svg(&self) -> String {
        self.on_paper().to_svg()
    }

    /// As a PNG file, three pixels a unit.
    #[must_use]
    pub fn to_png(&self) -> Vec<u8> {
        self.on_paper().to_png()
    }

    /// As a PDF file of one page.
    #[must_use]
    pub fn to_pdf(&self) -> Vec<u8> {
        self.on_paper().to_pdf()
    }
}
