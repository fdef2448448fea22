//! A scene as an SVG document.

use std::fmt::Write as _;

use crate::font::FAMILIES;
use crate::scene::{Anchor, Colour, Direction, Outline, Point, Scene, Shape, Text};
use crate::style::hex;

/// The whole document, in the colours of paper.
pub(crate) fn document(scene: &Scene, title: &str) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{FAMILIES}\" fill=\"{}\" role=\"img\">\n\
         <title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
        hex(Colour::Ink.rgb()),
        escaped(title),
        hex(Colour::Paper.rgb())
    );
    shapes(&mut svg, &scene.shapes, Skin::Paper);
    svg + "</svg>\n"
}

/// An element of a page, whose style sheet has the colours.
pub(crate) fn element(scene: &Scene, words: &str) -> String {
    let mut svg = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
        number(scene.width),
        number(scene.height),
        escaped(words)
    );
    shapes(&mut svg, &scene.shapes, Skin::Page);
    svg + "</svg>\n"
}

/// Where colours come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Skin {
    Paper,
    Page,
}

impl Skin {
    fn fill(self, colour: Colour) -> String {
        match self {
            Self::Paper => format!("fill=\"{}\"", hex(colour.rgb())),
            Self::Page => format!("class=\"f{}\"", colour.class()),
        }
    }

    /// Of what has no area.
    fn stroke(self, colour: Colour) -> String {
        match self {
            Self::Paper => format!("fill=\"none\" stroke=\"{}\"", hex(colour.rgb())),
            Self::Page => format!("class=\"s{}\"", colour.class()),
        }
    }

    fn area(self, fill: Colour, edge: Colour) -> String {
        match self {
            Self::Paper => format!("{} stroke=\"{}\"", self.fill(fill), hex(edge.rgb())),
            Self::Page => format!("class=\"f{} s{}\"", fill.class(), edge.class()),
        }
    }
}

fn shapes(svg: &mut String, shapes: &[Shape], skin: Skin) {
    for shape in shapes {
        shape_element(svg, shape, skin);
    }
}

fn shape_element(svg: &mut String, shape: &Shape, skin: Skin) {
    // Writing to a string does not fail.
    let _ = match shape {
        Shape::Line {
            points,
            colour,
            width,
        } => writeln!(
            svg,
            "<polyline points=\"{}\" {} stroke-width=\"{}\" stroke-linejoin=\"round\"/>",
            list(points),
            skin.stroke(*colour),
            number(*width)
        ),
        Shape::Strokes {
            ends,
            colour,
            width,
        } => {
            let moves = ends.iter().map(|[(x1, y1), (x2, y2)]| {
                let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(|at| number(*at));
                format!("M{x1} {y1}L{x2} {y2}")
            });
            writeln!(
                svg,
                "<path d=\"{}\" {} stroke-width=\"{}\"/>",
                moves.collect::<String>(),
                skin.stroke(*colour),
                number(*width)
            )
        }
        Shape::Rectangles {
            places,
            size: (width, height),
            colour,
        } => rectangles(svg, places, (*width, *height), &skin.fill(*colour)),
        Shape::Area {
            outline,
            fill,
            edge,
            edge_width,
        } => {
            let form = match outline {
                Outline::Circle {
                    centre: (x, y),
                    radius,
                } => format!(
                    "circle cx=\"{}\" cy=\"{}\" r=\"{}\"",
                    number(*x),
                    number(*y),
                    number(*radius)
                ),
                Outline::Polygon(corners) => format!("polygon points=\"{}\"", list(corners)),
            };
            writeln!(
                svg,
                "<{form} {} stroke-width=\"{}\"/>",
                skin.area(*fill, *edge),
                number(*edge_width)
            )
        }
        Shape::Text(text) => writeln!(svg, "{}", text_element(text)),
        Shape::Noted { note, shape } => {
            let _ = write!(svg, "<g><title>{}</title>", escaped(note));
            shape_element(svg, shape, skin);
            writeln!(svg, "</g>")
        }
    };
}

fn rectangles(
    svg: &mut String,
    places: &[Point],
    (width, height): Point,
    fill: &str,
) -> std::fmt::Result {
    let (width, height) = (number(width), number(height));
    if let [(x, y)] = places {
        let (x, y) = (number(*x), number(*y));
        return writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {fill}/>"
        );
    }
    // One element for all: a map has some thousand of them.
    let _ = write!(svg, "<g {fill}>");
    for (x, y) in places {
        let (x, y) = (number(*x), number(*y));
        let _ = write!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        );
    }
    writeln!(svg, "</g>")
}

fn text_element(text: &Text) -> String {
    let (x, y) = (number(text.at.0), number(text.at.1));
    let anchor = match text.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let turn = match text.direction {
        Direction::Right => String::new(),
        Direction::Up => format!(" transform=\"rotate(-90 {x} {y})\""),
    };
    format!(
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" text-anchor=\"{anchor}\"{turn}>{}</text>",
        number(text.size),
        escaped(&text.words)
    )
}

fn list(points: &[Point]) -> String {
    let points: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{},{}", number(*x), number(*y)))
        .collect();
    points.join(" ")
}

/// A hundredth of a unit is finer than any eye.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

/// Text as XML has it, which knows no control characters at all.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            letter if letter.is_control() => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(1.0, "1"), (0.126, "0.13"), (-0.001, "0"), (100.0, "100")] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn what_xml_reserves_or_forbids_is_escaped() {
        assert_eq!(escaped("a<b>&\"c\"\u{1b}"), "a&lt;b&gt;&amp;&quot;c&quot;?");
    }
}
