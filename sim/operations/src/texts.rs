//! Texts that many operations have, each kept once.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest label of an operation and longest name of a step that is shown, characters.
const SHOWN_MAX: usize = 48;

/// Texts by number, each of them once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Texts {
    all: Vec<Arc<str>>,
    known: BTreeMap<Arc<str>, u32>,
}

impl Texts {
    /// The number of a text, from 0 in the order in which they came.
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        let number = self.all.len() as u32;
        let text: Arc<str> = text.into();
        self.all.push(Arc::clone(&text));
        self.known.insert(text, number);
        number
    }

    /// The text with a number.
    pub(crate) fn text(&self, number: u32) -> &Arc<str> {
        &self.all[number as usize]
    }

    /// Memory that they hold, bytes.
    pub(crate) fn state_bytes(&self) -> usize {
        let each = 2 * size_of::<Arc<str>>() + size_of::<u32>();
        let texts = self.all.iter().map(|text| text.len());
        texts.sum::<usize>() + self.all.capacity() * each
    }
}

/// A text cut to what a message shows of it.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// A name as one line that a terminal can show: whoever wrote it may have put anything there.
pub(crate) fn one_line(text: &str) -> String {
    let plain = |it: char| if it.is_control() { ' ' } else { it };
    let plain: String = text.chars().map(plain).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    shortened(&words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once() {
        let mut texts = Texts::default();
        let numbers = ["a", "b", "a"].map(|text| texts.number(text));
        assert_eq!(numbers, [0, 1, 0]);
        assert_eq!(&**texts.text(1), "b");
    }

    #[test]
    fn a_name_is_one_line_of_at_most_48_characters() {
        assert_eq!(one_line(" forward\n\u{1b}[31m  1\t"), "forward [31m 1");
        assert_eq!(one_line(&"\u{f6}".repeat(48)), "\u{f6}".repeat(48));
        assert_eq!(one_line(&"\u{f6}".repeat(49)), "\u{f6}".repeat(48) + "...");
        assert_eq!(
            one_line(&one_line(&"a ".repeat(99))),
            one_line(&"a ".repeat(99))
        );
    }
}
