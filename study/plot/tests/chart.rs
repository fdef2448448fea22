//! Charts as a caller gets them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use tiny_skia::Pixmap;
use viaduct_plot::{
    Axis, Band, BarChart, Bars, Format, HeatCell, HeatLabel, HeatMap, HeatStroke, Interval,
    LineChart, Look, Marks, Notation, Rule, Scale, Series, page_style,
};

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

fn bars(sets: usize) -> BarChart {
    let set = |index: usize| Bars {
        name: if sets == 1 {
            String::new()
        } else {
            format!("set {index}")
        },
        amounts: vec![1.0 + index as f64, 300.0, 0.0, f64::NAN],
        labels: vec!["1 us".to_owned(), "300 us <70 %>".to_owned()],
    };
    BarChart {
        title: "stages".to_owned(),
        x: "us".to_owned(),
        rows: ["post", "transfer & more", "queued", "none"]
            .map(str::to_owned)
            .to_vec(),
        sets: (0..sets).map(set).collect(),
    }
}

fn map(lines: usize) -> HeatMap {
    let stroke = |index: usize| HeatStroke {
        ends: [(index as f64, 0.0), (index as f64 + 0.9, 0.0)],
        value: Some(index as f64 / lines as f64),
        note: format!("link {index} <busy>"),
    };
    HeatMap {
        title: "links".to_owned(),
        size: (lines as f64, 2.0),
        strokes: (0..lines).map(stroke).collect(),
        stroke_width: 0.2,
        cells: vec![HeatCell {
            at: (0.0, 0.5),
            value: None,
            note: "a switch".to_owned(),
        }],
        cell_size: (0.5, 0.5),
        labels: vec![HeatLabel {
            at: (0.0, 1.8),
            words: "hosts".to_owned(),
            is_centred: false,
        }],
        scale: "utilisation, %".to_owned(),
        most: 1.0,
        write: |value| format!("{:.0}", value * 100.0),
    }
}

#[test]
fn bars_have_a_rectangle_each_and_labels_where_one_set_is_shown() {
    let svg = bars(1).draw(Format::PAPER).to_svg();
    let (elements, texts) = parsed(&svg);
    let blue = "#0072b2".to_owned();
    let bars_of = |elements: &[BytesStart<'_>]| {
        let rectangles = elements
            .iter()
            .filter(|element| element.name().as_ref() == "rect" && told(element, "fill") == blue);
        rectangles
            .map(|bar| told(bar, "width").parse::<f64>().unwrap())
            .collect::<Vec<_>>()
    };
    let widths = bars_of(&elements);
    assert_eq!(widths.len(), 2, "what is no positive number has no bar");
    let ratio = widths[1] / widths[0];
    assert!((ratio - 300.0).abs() < 5.0, "{widths:?}");
    for words in ["transfer & more", "300 us <70 %>", "1 us", "stages"] {
        assert!(texts.iter().any(|text| text == words), "{words}: {texts:?}");
    }
    let svg = bars(3).draw(Format::PAPER).to_svg();
    let (elements, texts) = parsed(&svg);
    // The third is the sample of the legend.
    assert_eq!(bars_of(&elements).len(), 3);
    assert!(!texts.iter().any(|text| text == "1 us"), "{texts:?}");
}

#[test]
fn a_map_of_few_lines_says_which_each_is_and_one_of_many_stays_small() {
    let svg = map(10).draw(Format::PAPER).to_svg();
    let (elements, texts) = parsed(&svg);
    let paths = |elements: &[BytesStart<'_>]| {
        let paths = elements
            .iter()
            .filter(|element| element.name().as_ref() == "path");
        paths.count()
    };
    assert_eq!(paths(&elements), 10);
    assert!(
        texts.iter().any(|text| text == "link 7 <busy>"),
        "{texts:?}"
    );
    let svg = map(20_000).draw(Format::PAPER).to_svg();
    let (elements, _) = parsed(&svg);
    assert_eq!(paths(&elements), 16, "one a colour");
    assert!(svg.len() < 1_000_000, "{}", svg.len());
}

#[test]
fn an_element_of_a_page_has_no_colour_of_its_own() {
    let chart = chart(&["one", "two"]);
    let marks = Marks {
        bands: vec![Band {
            from: 0.0,
            to: 64.0,
            name: "warm-up".to_owned(),
        }],
        rules: vec![Rule {
            at: 1024.0,
            name: "floor".to_owned(),
        }],
        intervals: vec![Interval {
            series: 1,
            x: 1024.0,
            low: 0.5,
            high: 700.0,
        }],
        hollow: Vec::new(),
        looks: vec![Look::Line, Look::Points],
    };
    let pictures = [
        chart.draw(&marks, Format::SCREEN),
        bars(2).draw(Format::SCREEN),
        map(5).draw(Format::SCREEN),
    ];
    for picture in pictures {
        let element = picture.to_element("what it \"shows\"");
        let (elements, _) = parsed(&element);
        assert_eq!(
            told(&elements[0], "aria-label"),
            "what it &quot;shows&quot;"
        );
        assert!(!element.contains('#'), "{element}");
        let style = page_style();
        for element in &elements[1..] {
            let classes = element.try_get_attribute("class").unwrap();
            for class in classes.iter().flat_map(|classes| classes.value.split(' ')) {
                assert!(style.contains(&format!(".{class}{{")), "{class}");
            }
        }
    }
}

#[test]
fn marks_stand_beside_the_lines_and_the_axis_reaches_to_them() {
    let mut chart = chart(&["one"]);
    chart.x.scale = Scale::Linear;
    chart.x.notation = Notation::Plain;
    let marks = Marks {
        rules: vec![Rule {
            at: 4e6,
            name: "bound".to_owned(),
        }],
        looks: vec![Look::Points],
        ..Marks::default()
    };
    let svg = chart.draw(&marks, Format::PAPER).to_svg();
    let (elements, texts) = parsed(&svg);
    assert!(texts.iter().any(|text| text == "4,000,000"), "{texts:?}");
    assert!(texts.iter().any(|text| text == "bound"), "{texts:?}");
    let lines = elements.iter().filter(|element| {
        element.name().as_ref() == "polyline" && told(element, "stroke") == "#0072b2"
    });
    assert_eq!(lines.count(), 0, "points alone");
}

#[test]
fn a_pdf_has_its_letters_as_text_and_is_whole() {
    let pdf = chart(&["one", "two"]).to_pdf();
    assert!(pdf.starts_with(b"%PDF-"));
    let text = String::from_utf8_lossy(&pdf);
    assert!(text.trim_end().ends_with("%%EOF"));
    for part in [
        "/FontFile2",
        "/ToUnicode",
        "/MediaBox [0 0 520",
        "Identity-H",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert_eq!(pdf, chart(&["one", "two"]).to_pdf());
    let drawn = [
        bars(2).draw(Format::PAPER).to_pdf(),
        map(5).draw(Format::PAPER).to_pdf(),
    ];
    assert!(drawn.iter().all(|pdf| pdf.starts_with(b"%PDF-")));
}
