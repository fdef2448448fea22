//! A scene as an SVG document.

use std::fmt::Write as _;

use crate::font::FAMILIES;
use crate::scene::{Anchor, Colour, Direction, INK, Outline, PAPER, Point, Scene, Shape, Text};

/// The whole document.
pub(crate) fn document(scene: &Scene, title: &str) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{FAMILIES}\" fill=\"{}\" role=\"img\">\n\
         <title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
        hex(INK),
        escaped(title),
        hex(PAPER)
    );
    for shape in &scene.shapes {
        // Writing to a string does not fail.
        let _ = match shape {
            Shape::Line {
                points,
                colour,
                width,
            } => writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" \
                 stroke-linejoin=\"round\"/>",
                list(points),
                hex(*colour),
                number(*width)
            ),
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
                    "<{form} fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"/>",
                    hex(*fill),
                    hex(*edge),
                    number(*edge_width)
                )
            }
            Shape::Text(text) => writeln!(svg, "{}", element(text)),
        };
    }
    svg + "</svg>\n"
}

fn element(text: &Text) -> String {
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

fn hex(Colour(red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
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
