//! How lines are told apart.

use crate::scene::{Colour, Outline, PAPER, Point, Shape};

/// Okabe and Ito's colours for all readers, without the yellow, which paper swallows; the order is
/// that of contrast between neighbours.
const COLOURS: [Colour; 7] = [
    Colour(0x00, 0x72, 0xb2),
    Colour(0xd5, 0x5e, 0x00),
    Colour(0x00, 0x9e, 0x73),
    Colour(0xcc, 0x79, 0xa7),
    Colour(0xe6, 0x9f, 0x00),
    Colour(0x56, 0xb4, 0xe9),
    Colour(0x00, 0x00, 0x00),
];

/// Corners around the middle, within a square of side 2; the circle has none. Their number has no
/// common part with that of the colours: 35 lines differ.
const MARKERS: [&[Point]; 5] = [
    &[],
    &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    &[(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
    &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    &[(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)],
];

const MARKER_RADIUS: f64 = 3.6;

/// The colour of a line by its number.
pub(crate) const fn colour(index: usize) -> Colour {
    COLOURS[index % COLOURS.len()]
}

/// The marker of a line by its number, with a rim of paper that parts it from what is below.
pub(crate) fn marker(index: usize, (x, y): Point) -> Shape {
    let corners = MARKERS[index % MARKERS.len()];
    let outline = if corners.is_empty() {
        Outline::Circle {
            centre: (x, y),
            radius: MARKER_RADIUS,
        }
    } else {
        let corner = |(dx, dy): &Point| (x + dx * MARKER_RADIUS, y + dy * MARKER_RADIUS);
        Outline::Polygon(corners.iter().map(corner).collect())
    };
    Shape::Area {
        outline,
        fill: colour(index),
        edge: PAPER,
        edge_width: 0.8,
    }
}
