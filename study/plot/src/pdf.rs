//! A scene as a PDF file.

use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str, TextStr};

use crate::font::{FILE, Font};
use crate::scene::{Anchor, Colour, Direction, Outline, Point, Scene, Shape, Text};

/// Names of the file's objects.
const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const FONT: Ref = Ref::new(5);
const GLYPHS: Ref = Ref::new(6);
const DESCRIPTOR: Ref = Ref::new(7);
const FONT_FILE: Ref = Ref::new(8);
const LETTERS: Ref = Ref::new(9);
const INFO: Ref = Ref::new(10);

const FONT_NAME: Name<'_> = Name(b"DejaVuSans");
/// What the page calls the font.
const FONT_HERE: Name<'_> = Name(b"F");
const SYSTEM: SystemInfo<'_> = SystemInfo {
    registry: Str(b"Adobe"),
    ordering: Str(b"Identity"),
    supplement: 0,
};

/// The whole file. It carries no date: equal scenes are equal bytes.
pub(crate) fn file(scene: &Scene, title: &str) -> Vec<u8> {
    let font = Font::new();
    let mut pdf = Pdf::new();
    pdf.catalog(CATALOG).pages(PAGES);
    pdf.pages(PAGES).kids([PAGE]).count(1);
    let mut page = pdf.page(PAGE);
    page.media_box(Rect::new(0.0, 0.0, scene.width as f32, scene.height as f32));
    page.parent(PAGES).contents(CONTENT);
    page.resources().fonts().pair(FONT_HERE, FONT);
    page.finish();
    pdf.stream(CONTENT, &content(scene, &font));
    write_font(&mut pdf, &font);
    pdf.document_info(INFO).title(TextStr(title));
    pdf.finish()
}

/// The font as it is in the program, its letters by their numbers there, and which they are, so
/// that a reader can search and copy.
fn write_font(pdf: &mut Pdf, font: &Font) {
    let face = font.face();
    pdf.type0_font(FONT)
        .base_font(FONT_NAME)
        .encoding_predefined(Name(b"Identity-H"))
        .descendant_font(GLYPHS)
        .to_unicode(LETTERS);
    // A PDF counts in thousandths of a font's size.
    let scale = 1000.0 / f32::from(face.units_per_em());
    let mut glyphs = pdf.cid_font(GLYPHS);
    glyphs
        .subtype(CidFontType::Type2)
        .base_font(FONT_NAME)
        .system_info(SYSTEM)
        .font_descriptor(DESCRIPTOR)
        .cid_to_gid_map_predefined(Name(b"Identity"));
    let widths = (0..face.number_of_glyphs()).map(|glyph| {
        let advance = face.glyph_hor_advance(ttf_parser::GlyphId(glyph));
        f32::from(advance.unwrap_or_default()) * scale
    });
    glyphs.widths().consecutive(0, widths);
    glyphs.finish();
    let bounds = face.global_bounding_box();
    let [left, bottom, right, top] = [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max]
        .map(|side| f32::from(side) * scale);
    pdf.font_descriptor(DESCRIPTOR)
        .name(FONT_NAME)
        .flags(FontFlags::NON_SYMBOLIC)
        .bbox(Rect::new(left, bottom, right, top))
        .italic_angle(0.0)
        .ascent(f32::from(face.ascender()) * scale)
        .descent(f32::from(face.descender()) * scale)
        .cap_height(f32::from(face.capital_height().unwrap_or_default()) * scale)
        .stem_v(90.0)
        .font_file2(FONT_FILE);
    pdf.stream(FONT_FILE, FILE)
        .pair(Name(b"Length1"), FILE.len() as i32);
    let mut letters = UnicodeCmap::new(Name(b"Letters"), SYSTEM);
    for letter in ' '..='~' {
        if let Some(glyph) = face.glyph_index(letter) {
            letters.pair(glyph.0, letter);
        }
    }
    pdf.cmap(LETTERS, &letters.finish());
}

fn content(scene: &Scene, font: &Font) -> Vec<u8> {
    let mut content = Content::new();
    // From here on `y` grows downwards, as in the scene.
    content.transform([1.0, 0.0, 0.0, -1.0, 0.0, scene.height as f32]);
    content.set_line_join(pdf_writer::types::LineJoinStyle::RoundJoin);
    fill(&mut content, Colour::Paper);
    content.rect(0.0, 0.0, scene.width as f32, scene.height as f32);
    content.fill_nonzero();
    for shape in &scene.shapes {
        draw(&mut content, font, shape);
    }
    content.finish().to_vec()
}

fn draw(content: &mut Content, font: &Font, shape: &Shape) {
    match shape {
        Shape::Line {
            points,
            colour,
            width,
        } => {
            if points.len() > 1 {
                pen(content, *colour, *width);
                line(content, points);
                content.stroke();
            }
        }
        Shape::Strokes {
            ends,
            colour,
            width,
        } => {
            pen(content, *colour, *width);
            for ends in ends {
                line(content, ends);
            }
            content.stroke();
        }
        Shape::Rectangles {
            places,
            size: (width, height),
            colour,
        } => {
            fill(content, *colour);
            for (x, y) in places {
                content.rect(*x as f32, *y as f32, *width as f32, *height as f32);
            }
            content.fill_nonzero();
        }
        Shape::Area {
            outline,
            fill: inside,
            edge,
            edge_width,
        } => {
            fill(content, *inside);
            pen(content, *edge, *edge_width);
            match outline {
                Outline::Circle { centre, radius } => circle(content, *centre, *radius),
                Outline::Polygon(corners) => {
                    line(content, corners);
                    content.close_path();
                }
            }
            content.fill_nonzero_and_stroke();
        }
        Shape::Text(text) => letters(content, font, text),
        Shape::Noted { shape, .. } => draw(content, font, shape),
    }
}

fn letters(content: &mut Content, font: &Font, text: &Text) {
    let width = font.width(&text.words, text.size);
    let back = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => width / 2.0,
        Anchor::End => width,
    };
    let (x, y) = text.at;
    // Letters stand upright in a plane whose `y` grows downwards.
    let matrix = match text.direction {
        Direction::Right => [1.0, 0.0, 0.0, -1.0, (x - back) as f32, y as f32],
        Direction::Up => [0.0, -1.0, -1.0, 0.0, x as f32, (y + back) as f32],
    };
    let glyphs = font.letters(&text.words, text.size).into_iter();
    let numbers: Vec<u8> = glyphs
        .flat_map(|letter| letter.glyph.0.to_be_bytes())
        .collect();
    fill(content, Colour::Ink);
    content
        .begin_text()
        .set_font(FONT_HERE, text.size as f32)
        .set_text_matrix(matrix)
        .show(Str(&numbers))
        .end_text();
}

fn line(content: &mut Content, points: &[Point]) {
    for (index, (x, y)) in points.iter().enumerate() {
        let (x, y) = (*x as f32, *y as f32);
        if index == 0 {
            content.move_to(x, y);
        } else {
            content.line_to(x, y);
        }
    }
}

/// Four arcs, each by the cubic curve that comes closest.
fn circle(content: &mut Content, (x, y): Point, radius: f64) {
    let (x, y, radius) = (x as f32, y as f32, radius as f32);
    let pull = radius * 0.552_285;
    content.move_to(x + radius, y);
    content.cubic_to(x + radius, y + pull, x + pull, y + radius, x, y + radius);
    content.cubic_to(x - pull, y + radius, x - radius, y + pull, x - radius, y);
    content.cubic_to(x - radius, y - pull, x - pull, y - radius, x, y - radius);
    content.cubic_to(x + pull, y - radius, x + radius, y - pull, x + radius, y);
    content.close_path();
}

fn pen(content: &mut Content, colour: Colour, width: f64) {
    let [red, green, blue] = parts(colour);
    content.set_stroke_rgb(red, green, blue);
    content.set_line_width(width as f32);
}

fn fill(content: &mut Content, colour: Colour) {
    let [red, green, blue] = parts(colour);
    content.set_fill_rgb(red, green, blue);
}

fn parts(colour: Colour) -> [f32; 3] {
    colour.rgb().map(|part| f32::from(part) / 255.0)
}
