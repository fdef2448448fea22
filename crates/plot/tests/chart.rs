//! Charts as a caller gets them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use tiny_skia::Pixmap;
use viaduct_plot::{Axis, LineChart, Notation, Scale, Series};

/// The colours of the first lines.
const COLOURS: [[u8; 3]; 3] = [[0x00, 0x72, 0xb2], [0xd5, 0x5e, 0x00], [0x00, 0x9e, 0x73]];

fn chart(names: &[&str]) -> LineChart {
    let series = names.iter().enumerate().map(|(index, name)| {
        let slower = 3.0 * index as f64 + 1.0;
        let sizes = [0.0, 8.0, 64.0, 1024.0, 16_384.0, 1_048_576.0];
        Series {
            name: (*name).to_owned(),
            points: sizes
                .map(|size| (size, slower * (0.2 + size / 5000.0)))
                .to_vec(),
        }
    });
    LineChart {
        title: "latency".to_owned(),
        x: Axis {
            title: "bytes of a message".to_owned(),
            scale: Scale::Binary,
            notation: Notation::Bytes,
        },
        y: Axis {
            title: "half a round trip, us".to_owned(),
            scale: Scale::Decimal,
            notation: Notation::Plain,
        },
        series: series.collect(),
    }
}

/// Every element that begins, with what it is told, and all text; panics if it is no XML.
fn parsed(svg: &str) -> (Vec<BytesStart<'_>>, Vec<String>) {
    let mut reader = Reader::from_str(svg);
    let (mut elements, mut texts) = (Vec::new(), Vec::new());
    let mut text = String::new();
    loop {
        match reader.read_event().unwrap() {
            Event::Start(element) | Event::Empty(element) => {
                let attributes = element.attributes();
                assert!(attributes.into_iter().all(|attribute| attribute.is_ok()));
                elements.push(element);
                text.clear();
            }
            Event::Text(part) => text.push_str(&part),
            Event::GeneralRef(name) => text.push(match &*name {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                other => panic!("`{other}` stands for nothing"),
            }),
            Event::End(_) => texts.push(std::mem::take(&mut text)),
            Event::Eof => return (elements, texts),
            other => panic!("unexpected: {other:?}"),
        }
    }
}

fn told(element: &BytesStart<'_>, name: &str) -> String {
    let attribute = element.try_get_attribute(name).unwrap().unwrap();
    attribute.value.into_owned()
}

#[test]
fn an_svg_has_a_line_with_all_points_for_each_series() {
    let svg = chart(&["one", "two", "three"]).to_svg();
    let (elements, texts) = parsed(&svg);
    assert_eq!(elements[0].name().as_ref(), "svg");
    for [red, green, blue] in COLOURS {
        let colour = format!("#{red:02x}{green:02x}{blue:02x}");
        let lines = elements.iter().filter(|element| {
            element.name().as_ref() == "polyline" && told(element, "stroke") == colour
        });
        let points: Vec<usize> = lines
            .map(|line| told(line, "points").split(' ').count())
            .collect();
        assert_eq!(points, [2, 6], "in the legend and over the axes: {colour}");
    }
    for words in [
        "latency",
        "bytes of a message",
        "half a round trip, us",
        "one",
        "two",
        "three",
        "0 B",
        "64 KiB",
        "100",
    ] {
        assert!(texts.iter().any(|text| text == words), "{words}: {texts:?}");
    }
}

#[test]
fn everything_of_an_svg_is_on_the_sheet() {
    let svg = chart(&["one", "two"]).to_svg();
    let (elements, _) = parsed(&svg);
    let side = |name| told(&elements[0], name).parse::<f64>().unwrap();
    let (width, height) = (side("width"), side("height"));
    for element in &elements {
        if element.name().as_ref() == "polyline" {
            for point in told(element, "points").split(' ') {
                let (x, y) = point.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!(0.0 <= x && x <= width && 0.0 <= y && y <= height, "{point}");
            }
        }
    }
}

#[test]
fn names_say_nothing_to_a_reader_of_xml() {
    let names = ["<b>&\"quoted\"</b>", "a&b", "bell \u{7}"];
    let mut chart = chart(&names);
    chart.title = "1 < 2 & 3".to_owned();
    let svg = chart.to_svg();
    let (_, texts) = parsed(&svg);
    for words in [names[0], names[1], "bell ?", "1 < 2 & 3"] {
        assert!(texts.iter().any(|text| text == words), "{words}: {texts:?}");
    }
}

#[test]
fn a_png_has_the_colour_of_each_series_and_letters() {
    let png = chart(&["one", "two"]).to_png();
    let pixels = Pixmap::decode_png(&png).unwrap();
    assert_eq!(pixels.width(), 3 * 520);
    let count_within = |colour: [u8; 3], columns: u32, rows: u32| {
        let places = (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y)));
        places
            .filter_map(|(x, y)| pixels.pixel(x, y))
            .filter(|pixel| [pixel.red(), pixel.green(), pixel.blue()] == colour)
            .count()
    };
    let count = |colour| count_within(colour, pixels.width(), pixels.height());
    assert!(count(COLOURS[0]) > 2000 && count(COLOURS[1]) > 2000);
    assert_eq!(count(COLOURS[2]), 0);
    let ink = [0x22, 0x22, 0x22];
    assert!(count_within(ink, pixels.width(), 90) > 200, "the title");
    assert!(
        count_within(ink, 80, pixels.height()) > 200,
        "the y axis's title"
    );
    assert!(count([0xff, 0xff, 0xff]) > 1_000_000, "paper");
}

#[test]
fn equal_charts_are_equal_bytes() {
    let names = ["one", "two", "three"];
    assert_eq!(chart(&names).to_svg(), chart(&names).to_svg());
    assert_eq!(chart(&names).to_png(), chart(&names).to_png());
}

#[test]
fn a_chart_of_nothing_is_a_chart() {
    let mut empty = chart(&[]);
    parsed(&empty.to_svg());
    assert!(empty.to_png().starts_with(b"\x89PNG"));
    empty.title.clear();
    empty.series.push(Series {
        name: String::new(),
        points: vec![(f64::NAN, 1.0), (-1.0, f64::INFINITY)],
    });
    parsed(&empty.to_svg());
    assert!(empty.to_png().starts_with(b"\x89PNG"));
}
