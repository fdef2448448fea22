//! The letters: printable ASCII of DejaVu Sans, without hints.

use ttf_parser::{Face, GlyphId};

/// Made by `pyftsubset --unicodes=U+0020-007E --no-hinting --layout-features=` of version 2.37;
/// its licence is beside it.
pub(crate) const FILE: &[u8] = include_bytes!("../font/DejaVuSans-ascii.ttf");

/// What SVG viewers are to look for: the same, or one as wide.
pub(crate) const FAMILIES: &str = "DejaVu Sans, Verdana, sans-serif";

/// The font, read.
pub(crate) struct Font {
    face: Face<'static>,
}

/// One letter of a text.
pub(crate) struct Letter {
    pub(crate) glyph: GlyphId,
    /// How far it is from the start of the text.
    pub(crate) x: f64,
}

impl Font {
    /// Reads the font.
    pub(crate) fn new() -> Self {
        let face = Face::parse(FILE, 0).expect("the font is a part of the program");
        Self { face }
    }

    /// The font itself.
    pub(crate) fn face(&self) -> &Face<'static> {
        &self.face
    }

    /// Units of a text's size for each of the font's own.
    pub(crate) fn scale(&self, size: f64) -> f64 {
        size / f64::from(self.face.units_per_em())
    }

    /// How much room a text takes.
    pub(crate) fn width(&self, words: &str, size: f64) -> f64 {
        let advances = words.chars().map(|letter| self.advance(self.glyph(letter)));
        advances.sum::<f64>() * self.scale(size)
    }

    /// Where each letter of a text stands. One that the font does not have is an empty box.
    pub(crate) fn letters(&self, words: &str, size: f64) -> Vec<Letter> {
        let mut x = 0.0;
        let mut letters = Vec::new();
        for letter in words.chars() {
            let glyph = self.glyph(letter);
            letters.push(Letter { glyph, x });
            x += self.advance(glyph) * self.scale(size);
        }
        letters
    }

    /// The font's own account of a letter's form.
    pub(crate) fn outline(&self, glyph: GlyphId, builder: &mut dyn ttf_parser::OutlineBuilder) {
        // A blank has no form.
        let _ = self.face.outline_glyph(glyph, builder);
    }

    /// A text that takes no more room than it has, without its middle if need be: both ends of a
    /// path tell more.
    pub(crate) fn shortened(&self, words: &str, size: f64, width: f64) -> String {
        if self.width(words, size) <= width {
            return words.to_owned();
        }
        let letters: Vec<char> = words.chars().collect();
        let cut = |kept: usize| {
            let start = letters[..kept.div_ceil(2)].iter();
            let end = letters[letters.len() - kept / 2..].iter();
            start.chain(&['.'; 3]).chain(end).collect::<String>()
        };
        let kept = (0..letters.len())
            .rev()
            .find(|kept| self.width(&cut(*kept), size) <= width);
        cut(kept.unwrap_or_default())
    }

    /// A text in lines that take no more room than they have.
    pub(crate) fn wrapped(&self, words: &str, size: f64, width: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in words.split_whitespace() {
            let word = self.shortened(word, size, width);
            match lines.last_mut() {
                Some(line) if self.width(&format!("{line} {word}"), size) <= width => {
                    line.push(' ');
                    line.push_str(&word);
                }
                _ => lines.push(word),
            }
        }
        lines
    }

    fn glyph(&self, letter: char) -> GlyphId {
        self.face.glyph_index(letter).unwrap_or(GlyphId(0))
    }

    fn advance(&self, glyph: GlyphId) -> f64 {
        f64::from(self.face.glyph_hor_advance(glyph).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printable_letter_is_there() {
        let font = Font::new();
        for letter in ' '..='~' {
            assert_ne!(font.glyph(letter), GlyphId(0), "{letter}");
        }
        assert_eq!(font.glyph('\u{e9}'), GlyphId(0));
    }

    #[test]
    fn a_long_name_keeps_its_ends() {
        let font = Font::new();
        assert_eq!(font.shortened("shm", 12.0, 100.0), "shm");
        let cut = font.shortened("sim:models/of/somebody/else/fast.toml", 12.0, 100.0);
        assert!(
            cut.starts_with("sim:") && cut.ends_with(".toml") && cut.contains("..."),
            "{cut}"
        );
        assert!(font.width(&cut, 12.0) <= 100.0);
        assert_eq!(font.shortened("abc", 12.0, 0.0), "...");
    }

    #[test]
    fn a_long_title_is_wrapped_between_words() {
        let font = Font::new();
        let lines = font.wrapped("one two three four five", 12.0, 80.0);
        assert!(lines.len() > 1, "{lines:?}");
        assert_eq!(lines.join(" "), "one two three four five");
        assert!(lines.iter().all(|line| font.width(line, 12.0) <= 80.0));
    }
}
