//! Errors and warnings that point at their place and say what to write instead.
//!
//! Texts that were read (a study, a preset, the `--set` options) are kept beside the messages, so
//! that a message can be shown long after the file was closed.

use core::fmt;
use std::sync::Arc;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::section::Absent;

/// Messages kept in full; of those beyond only the number is kept.
pub const DIAGNOSTICS_MAX: usize = 100;

/// How bad it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Severity {
    /// The input cannot be used.
    Error,
    /// The input can be used, and probably should not.
    Warning,
}

/// A stretch of one of the texts read.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    /// Number of the text in [`Diagnostics`].
    pub(crate) source: usize,
    /// First byte.
    pub(crate) start: usize,
    /// One past the last byte.
    pub(crate) end: usize,
}

/// One message.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    severity: Severity,
    title: String,
    place: Option<Place>,
    label: Option<String>,
    help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub(crate) fn error(title: impl Into<String>) -> Self {
        Self::new(Severity::Error, title.into())
    }

    /// A warning.
    pub(crate) fn warning(title: impl Into<String>) -> Self {
        Self::new(Severity::Warning, title.into())
    }

    fn new(severity: Severity, title: String) -> Self {
        Self {
            severity,
            title,
            place: None,
            label: None,
            help: None,
        }
    }

    /// Points at a place.
    pub(crate) fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Points at a place, if there is one.
    pub(crate) fn at_maybe(mut self, place: Option<Place>) -> Self {
        self.place = place;
        self
    }

    /// Says beside the carets what is wrong there.
    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Says what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Error or warning.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// What is wrong, one line.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What to do about it, if known.
    #[must_use]
    pub fn help_text(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

/// A text that was read.
#[derive(Clone, Debug)]
struct Source {
    name: Arc<str>,
    text: Arc<str>,
}

/// Messages, in the order of the texts they point at.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    sources: Vec<Source>,
    list: Vec<Diagnostic>,
    error_count: usize,
    left_out: usize,
}

impl Diagnostics {
    /// Keeps a text that messages can point at; its number is for [`Place`].
    /// The same text again gets the same number.
    pub(crate) fn add_source(&mut self, name: &str, text: &str) -> usize {
        let known = self
            .sources
            .iter()
            .position(|source| *source.name == *name && *source.text == *text);
        known.unwrap_or_else(|| {
            self.sources.push(Source {
                name: name.into(),
                text: text.into(),
            });
            self.sources.len() - 1
        })
    }

    /// The texts without the messages.
    pub(crate) fn same_sources(&self) -> Self {
        Self {
            sources: self.sources.clone(),
            ..Self::default()
        }
    }

    /// Takes over the messages of a severity from another list, with the texts they point at.
    pub(crate) fn absorb(&mut self, other: &Self, severity: Severity) {
        for diagnostic in other.list.iter().filter(|entry| entry.severity == severity) {
            let mut diagnostic = diagnostic.clone();
            if let Some(place) = &mut diagnostic.place
                && let Some(source) = other.sources.get(place.source)
            {
                place.source = self.add_source(&source.name, &source.text);
            }
            self.push(diagnostic);
        }
        if severity == Severity::Error {
            self.error_count = self.error_count.max(other.error_count);
            self.left_out = self.left_out.max(other.left_out);
        }
    }

    /// Keeps a message; one that was kept before, at the same place, is not repeated.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        let known =
            |other: &Diagnostic| other.place == diagnostic.place && other.title == diagnostic.title;
        if self.list.iter().any(known) {
            return;
        }
        if diagnostic.severity == Severity::Error {
            self.error_count += 1;
        }
        if self.list.len() >= DIAGNOSTICS_MAX {
            self.left_out += 1;
            return;
        }
        // Kept in the order of places, those without a place at the end.
        let order = |entry: &Diagnostic| {
            (
                entry.place.is_none(),
                entry.place.map(|place| (place.source, place.start)),
            )
        };
        let index = self
            .list
            .partition_point(|entry| order(entry) <= order(&diagnostic));
        self.list.insert(index, diagnostic);
    }

    /// What was made, or none; why there is none is kept if that was not said yet.
    pub(crate) fn tell<T>(&mut self, made: Result<T, Absent>) -> Option<T> {
        made.map_err(|absent| absent.diagnostic().map(|unsaid| self.push(unsaid)))
            .ok()
    }

    /// Whether further messages would only be counted: finding them can stop.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= DIAGNOSTICS_MAX
    }

    /// Counts errors that are not told.
    pub(crate) fn leave_out(&mut self, errors: usize) {
        self.error_count += errors;
        self.left_out += errors;
    }

    /// Whether there is an error among the messages.
    #[must_use]
    pub const fn has_errors(&self) -> bool {
        self.error_count > 0
    }

    /// Number of errors, those left out counted.
    #[must_use]
    pub const fn error_count(&self) -> usize {
        self.error_count
    }

    /// The messages.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Whether there is no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All messages as text, with colours for a terminal if wanted.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let renderer = renderer.decor_style(DecorStyle::Ascii);
        let mut text = String::new();
        for diagnostic in &self.list {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&self.render_one(&renderer, diagnostic));
            text.push('\n');
        }
        if self.left_out > 0 {
            text.push_str(&format!("\n... and {} more\n", self.left_out));
        }
        text
    }

    fn render_one(&self, renderer: &Renderer, diagnostic: &Diagnostic) -> String {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        // What is listed below the title has a line each.
        let (title, listed) = match diagnostic.title.split_once('\n') {
            Some((title, listed)) => (title, Some(listed)),
            None => (diagnostic.title.as_str(), None),
        };
        let title = level.primary_title(one_line(title));
        let mut group = Group::with_title(title);
        let located = diagnostic
            .place
            .and_then(|place| Some((place, self.sources.get(place.source)?)));
        if let Some((place, source)) = located {
            if place.start == place.end && place.end == 0 {
                group = group.element(Origin::path(source.name.to_string()));
            } else {
                let line = line_around(&source.text, place);
                let mut annotation = AnnotationKind::Primary.span(line.start..line.end);
                if let Some(label) = &diagnostic.label {
                    annotation = annotation.label(one_line(label));
                }
                let snippet = Snippet::source(line.text)
                    .line_start(line.number)
                    .path(source.name.to_string())
                    .annotation(annotation);
                group = group.element(snippet);
            }
        }
        if let Some(listed) = listed {
            let lines = listed.lines().map(|line| one_line(line.trim()));
            let lines = lines.collect::<Vec<_>>().join("\n");
            group = group.element(Level::NOTE.message(lines));
        }
        let help = diagnostic.help.as_ref();
        let help = help.map(|help| Group::with_title(Level::HELP.secondary_title(one_line(help))));
        match help {
            // Without an excerpt between them the two are lines of their own.
            Some(help) if located.is_none() => {
                format!(
                    "{}\n{}",
                    renderer.render(&[group]),
                    renderer.render(&[help])
                )
            }
            Some(help) => renderer.render(&[group, help]),
            None => renderer.render(&[group]),
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// One line of a text, and the part of it to underline.
struct Line<'text> {
    text: &'text str,
    number: usize,
    start: usize,
    end: usize,
}

/// The line in which a place begins; what reaches into further lines is cut.
///
/// Only this line is given to the renderer, so that its cost does not grow with the file.
fn line_around(text: &str, place: Place) -> Line<'_> {
    let start = floor_boundary(text, place.start);
    let bytes = text.as_bytes();
    let line_start = bytes[..start]
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let line_end = bytes[start..].iter().position(|&byte| byte == b'\n');
    let line_end = line_end.map_or(text.len(), |length| start + length);
    let end = floor_boundary(text, place.end).clamp(start, line_end);
    let number = 1 + bytes[..line_start]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count();
    Line {
        text: &text[line_start..line_end],
        number,
        start: start - line_start,
        end: end - line_start,
    }
}

/// The last character boundary at or before a byte.
fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A text without line breaks and control characters: keys and values quoted in messages come
/// from files.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// The longest excerpt of a user's text that a message quotes, in characters.
const EXCERPT_CHARS_MAX: usize = 60;

/// A user's text, cut where it would fill the screen.
pub(crate) fn excerpt(text: &str) -> String {
    if text.chars().count() <= EXCERPT_CHARS_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(EXCERPT_CHARS_MAX - 3).collect();
    format!("{head}...")
}

/// The candidate nearest to what was written, if it is near enough to be meant: by a slip or two,
/// or because it says the same with more words (`channels` for `virtual_channels`), if no other
/// does.
pub(crate) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if written.len() > EXCERPT_CHARS_MAX {
        return None;
    }
    let lower = written.to_ascii_lowercase();
    let mut best: Option<(usize, &str)> = None;
    let mut longer = Vec::new();
    for candidate in candidates {
        let lower_candidate = candidate.to_ascii_lowercase();
        let distance = strsim::osa_distance(&lower, &lower_candidate);
        if distance <= slips(candidate.chars().count().min(lower.len()))
            && best.is_none_or(|(least, _)| distance < least)
        {
            best = Some((distance, candidate));
        }
        if lower_candidate.split('_').any(|word| word == lower) {
            longer.push(candidate);
        }
    }
    match (best, longer.as_slice()) {
        (Some((_, near)), _) => Some(near),
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

/// How many slips may be in a word of so many letters. Two of four would be half of it: that is
/// another word.
const fn slips(letters: usize) -> usize {
    match letters {
        0..=4 => 1,
        letters => 1 + letters / 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_promised_shape() {
        let mut diagnostics = Diagnostics::default();
        let text = format!("{}rate = \"856 MByte/s\"\n", "\n".repeat(13));
        let source = diagnostics.add_source("torus.toml", &text);
        diagnostics.push(
            Diagnostic::error("rate is above what the NIC can inject")
                .at(Place {
                    source,
                    start: 20,
                    end: 33,
                })
                .label("this NIC tops out at 856 Mbit/s")
                .help("did you mean \"856 Mbit/s\"?"),
        );
        let expected = "\
error: rate is above what the NIC can inject
  --> torus.toml:14:8
   |
14 | rate = \"856 MByte/s\"
   |        ^^^^^^^^^^^^^ this NIC tops out at 856 Mbit/s
   |
help: did you mean \"856 Mbit/s\"?
";
        assert_eq!(diagnostics.to_string(), expected);
    }

    #[test]
    fn messages_stand_in_file_order_and_once() {
        let mut diagnostics = Diagnostics::default();
        let source = diagnostics.add_source("a.toml", "one\ntwo\n");
        for start in [4, 0, 4] {
            let place = Place {
                source,
                start,
                end: start + 3,
            };
            diagnostics.push(Diagnostic::error(format!("at {start}")).at(place));
        }
        let titles: Vec<&str> = diagnostics.iter().map(Diagnostic::title).collect();
        assert_eq!(titles, ["at 0", "at 4"]);
    }

    #[test]
    fn beyond_the_limit_only_the_number_is_kept() {
        let mut diagnostics = Diagnostics::default();
        for index in 0..=DIAGNOSTICS_MAX {
            diagnostics.push(Diagnostic::error(format!("{index}")));
        }
        assert_eq!(diagnostics.error_count(), DIAGNOSTICS_MAX + 1);
        assert!(diagnostics.to_string().ends_with("... and 1 more\n"));
    }

    #[test]
    fn nearest_finds_slips_and_rejects_strangers() {
        let keys = ["interval", "size", "pattern"];
        assert_eq!(nearest("intrval", keys), Some("interval"));
        assert_eq!(nearest("szie", keys), Some("size"));
        assert_eq!(nearest("Pattern", keys), Some("pattern"));
        assert_eq!(nearest("bandwidth", keys), None);
        assert_eq!(nearest("file", keys), None);
        let long = ["virtual_channels", "channel_classes", "channel_buffer"];
        assert_eq!(nearest("channels", long), Some("virtual_channels"));
        assert_eq!(nearest("channel", long), None);
    }
}
