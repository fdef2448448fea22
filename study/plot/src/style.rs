//! Which colours, and how lines are told apart.

use std::fmt::Write as _;

use crate::font::FAMILIES;
use crate::scene::{Colour, Outline, Point, Shape};

/// Red, green, blue.
pub(crate) type Rgb = [u8; 3];

/// Okabe and Ito's colours for all readers, without the yellow, which paper swallows; the order is
/// that of contrast between neighbours.
const LINES: [Rgb; 7] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
    [0x00, 0x00, 0x00],
];

/// The same hues, bright enough for a dark sheet.
const LINES_DARK: [Rgb; 7] = [
    [0x5c, 0xb6, 0xf2],
    [0xff, 0x94, 0x4d],
    [0x36, 0xcf, 0xa3],
    [0xe8, 0xa0, 0xca],
    [0xf5, 0xc2, 0x4a],
    [0x9c, 0xd9, 0xff],
    [0xff, 0xff, 0xff],
];

/// Steps of the scale of heat: more could not be told apart.
pub(crate) const HEAT_STEPS: usize = 16;

/// From nothing to the hottest; what is hot stands out from the sheet.
const HEAT: [Rgb; 5] = [
    [0xf3, 0xea, 0xd3],
    [0xf6, 0xbd, 0x60],
    [0xe2, 0x6d, 0x3d],
    [0xa8, 0x26, 0x46],
    [0x41, 0x0b, 0x3b],
];
const HEAT_DARK: [Rgb; 5] = [
    [0x33, 0x2a, 0x3f],
    [0x70, 0x2a, 0x63],
    [0xc2, 0x3c, 0x51],
    [0xf2, 0x82, 0x3f],
    [0xff, 0xe0, 0x8a],
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

impl Colour {
    /// On paper, and on a light sheet of a screen.
    pub(crate) fn rgb(self) -> Rgb {
        match self {
            Self::Ink => [0x22, 0x22, 0x22],
            Self::Muted => [0x77, 0x77, 0x77],
            Self::Grid => [0xdd, 0xdd, 0xdd],
            Self::Shade => [0xf1, 0xf1, 0xee],
            Self::Paper => [0xff, 0xff, 0xff],
            Self::Line(index) => LINES[index % LINES.len()],
            Self::Heat(step) => blend(&HEAT, step),
        }
    }

    /// On a dark sheet.
    fn rgb_dark(self) -> Rgb {
        match self {
            Self::Ink => [0xe4, 0xe4, 0xe0],
            Self::Muted => [0x9a, 0x9a, 0x9a],
            Self::Grid => [0x3a, 0x3e, 0x45],
            Self::Shade => [0x26, 0x2a, 0x31],
            Self::Paper => [0x16, 0x19, 0x1e],
            Self::Line(index) => LINES_DARK[index % LINES_DARK.len()],
            Self::Heat(step) => blend(&HEAT_DARK, step),
        }
    }

    /// The end of the names of its classes.
    pub(crate) fn class(self) -> String {
        match self {
            Self::Ink => "i".to_owned(),
            Self::Muted => "m".to_owned(),
            Self::Grid => "g".to_owned(),
            Self::Shade => "b".to_owned(),
            Self::Paper => "p".to_owned(),
            Self::Line(index) => format!("l{}", index % LINES.len()),
            Self::Heat(step) => format!("h{step}"),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let named = [Self::Ink, Self::Muted, Self::Grid, Self::Shade, Self::Paper];
        let lines = (0..LINES.len()).map(Self::Line);
        named
            .into_iter()
            .chain(lines)
            .chain((0..HEAT_STEPS).map(Self::Heat))
    }
}

/// The step of a value on a scale that ends at `most`.
pub(crate) fn heat(value: f64, most: f64) -> Colour {
    let part = if most > 0.0 { value / most } else { 0.0 };
    let step = (part.clamp(0.0, 1.0) * HEAT_STEPS as f64) as usize;
    Colour::Heat(step.min(HEAT_STEPS - 1))
}

fn blend(scale: &[Rgb; 5], step: usize) -> Rgb {
    let at = step.min(HEAT_STEPS - 1) as f64 / (HEAT_STEPS - 1) as f64 * 4.0;
    let below = (at as usize).min(3);
    let part = at - below as f64;
    std::array::from_fn(|channel| {
        let (from, to) = (scale[below][channel], scale[below + 1][channel]);
        (f64::from(from) + part * (f64::from(to) - f64::from(from))).round() as u8
    })
}

/// The style sheet of the pictures on a page, light or dark as the reader prefers.
#[must_use]
pub fn page_style() -> String {
    let mut text = format!(
        "svg.plot{{font-family:{FAMILIES};width:100%;height:auto;display:block}}\n\
         svg.plot path,svg.plot polyline{{fill:none;stroke-linejoin:round}}\n"
    );
    let rules = |text: &mut String, rgb: fn(Colour) -> Rgb| {
        for colour in Colour::all() {
            let (class, hex) = (colour.class(), hex(rgb(colour)));
            let _ = writeln!(
                text,
                "svg.plot .f{class}{{fill:{hex}}}svg.plot .s{class}{{stroke:{hex}}}"
            );
        }
        // Letters have the colour of the whole picture.
        let _ = writeln!(text, "svg.plot{{fill:{}}}", hex(rgb(Colour::Ink)));
    };
    rules(&mut text, Colour::rgb);
    text.push_str("@media(prefers-color-scheme:dark){\n");
    rules(&mut text, Colour::rgb_dark);
    text.push_str("}\n");
    text
}

/// As SVG and style sheets have it.
pub(crate) fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// The marker of a line by its number, with a rim of paper that parts it from what is below.
pub(crate) fn marker(index: usize, at: Point) -> Shape {
    Shape::Area {
        outline: outline(index, at),
        fill: Colour::Line(index),
        edge: Colour::Paper,
        edge_width: 0.8,
    }
}

/// The same, empty, for a point that is less sure.
pub(crate) fn hollow_marker(index: usize, at: Point) -> Shape {
    Shape::Area {
        outline: outline(index, at),
        fill: Colour::Paper,
        edge: Colour::Line(index),
        edge_width: 1.6,
    }
}

fn outline(index: usize, (x, y): Point) -> Outline {
    let corners = MARKERS[index % MARKERS.len()];
    if corners.is_empty() {
        Outline::Circle {
            centre: (x, y),
            radius: MARKER_RADIUS,
        }
    } else {
        let corner = |(dx, dy): &Point| (x + dx * MARKER_RADIUS, y + dy * MARKER_RADIUS);
        Outline::Polygon(corners.iter().map(corner).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of white to black, by the rule of the Web Content Accessibility Guidelines.
    fn contrast(first: Rgb, second: Rgb) -> f64 {
        let luminance = |rgb: Rgb| {
            let [red, green, blue] = rgb.map(|channel| {
                let part = f64::from(channel) / 255.0;
                if part <= 0.03928 {
                    part / 12.92
                } else {
                    ((part + 0.055) / 1.055).powf(2.4)
                }
            });
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        let (first, second) = (luminance(first), luminance(second));
        (first.max(second) + 0.05) / (first.min(second) + 0.05)
    }

    #[test]
    fn lines_and_letters_are_read_on_both_sheets() {
        for (rgb, lines) in [
            (Colour::rgb as fn(Colour) -> Rgb, 2.0),
            (Colour::rgb_dark, 4.0),
        ] {
            let paper = rgb(Colour::Paper);
            assert!(contrast(rgb(Colour::Ink), paper) > 7.0);
            for index in 0..LINES.len() {
                let found = contrast(rgb(Colour::Line(index)), paper);
                assert!(found > lines, "line {index}: {found}");
            }
        }
    }

    #[test]
    fn the_hottest_stands_out_most_on_both_sheets() {
        for rgb in [Colour::rgb as fn(Colour) -> Rgb, Colour::rgb_dark] {
            let contrasts: Vec<f64> = (0..HEAT_STEPS)
                .map(|step| contrast(rgb(Colour::Heat(step)), rgb(Colour::Paper)))
                .collect();
            let grows = contrasts.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(grows, "{contrasts:?}");
        }
    }

    #[test]
    fn letters_have_a_colour_in_both_schemes() {
        let style = page_style();
        let (light, dark) = style.split_once("prefers-color-scheme:dark").unwrap();
        assert!(light.contains("svg.plot{fill:#222222}"), "{light}");
        assert!(dark.contains("svg.plot{fill:#e4e4e0}"), "{dark}");
    }

    #[test]
    fn a_value_has_a_step_of_the_scale() {
        assert_eq!(heat(0.0, 0.5), Colour::Heat(0));
        assert_eq!(heat(0.5, 0.5), Colour::Heat(HEAT_STEPS - 1));
        assert_eq!(heat(9.0, 0.5), Colour::Heat(HEAT_STEPS - 1));
        assert_eq!(heat(f64::NAN, 0.5), Colour::Heat(0));
        assert_eq!(heat(0.0, 0.0), Colour::Heat(0));
    }
}
