//! What a chart shows.

use crate::{layout, png, svg};

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

impl LineChart {
    /// As an SVG document. Its text stays text: a viewer without the font takes a similar one.
    #[must_use]
    pub fn to_svg(&self) -> String {
        svg::document(&layout::scene(self), &self.title)
    }

    /// As a PNG file, three pixels a unit.
    #[must_use]
    pub fn to_png(&self) -> Vec<u8> {
        png::file(&layout::scene(self))
    }
}
