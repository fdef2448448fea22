//! A fault in one line: `loss 0.01 %`, `link host 1 down 10 ms..20 ms`.
//!
//! A line becomes the row that a file would have, and is read as one: values, units and messages
//! are the same.

use viaduct_cluster::faults::Fault;
use viaduct_topology::Topology;

use super::fault;
use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::document::{Entry, Node, Raw, Tree};
use crate::settings::read_row;

/// The name under which messages show the options.
const SOURCE_NAME: &str = "--fault";

const HELP: &str = "the forms are `loss 0.01 %`, `corruption 1e-4 on LINKS`, `link LINKS down 10 ms..20 \
                    ms`, `host 1 dies at 5 ms`, `nic 1 dies at 5 ms`, `host 1 slow 2.5 times from 1 \
                    ms`, `host 1 slow 5 us a message`; LINKS is `all`, `host 1` (its cable), \
                    `switch s0` (all of its), `s0 -> s1` or `s0 <-> s1`";

/// Reads faults of one line each, as the command line has them.
///
/// # Errors
///
/// All that is wrong with them: what cannot be read, and what names no host or link of the network.
pub fn read_faults(lines: &[String], topology: &Topology) -> Result<Vec<Fault>, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    let lines: Vec<String> = lines
        .iter()
        .map(|line| line.replace(['\n', '\r'], " "))
        .collect();
    let source = diagnostics.add_source(SOURCE_NAME, &lines.join("\n"));
    let mut faults = Vec::new();
    let mut start = 0;
    for text in &lines {
        let line = Line {
            text,
            source,
            start,
        };
        start += text.len() + 1;
        let place = line.place(text);
        match line.row() {
            Ok(row) => {
                let row = read_row(&row, place, &mut diagnostics);
                let made = fault(&row, place, topology, &mut diagnostics);
                faults.extend(diagnostics.tell(made));
            }
            Err((part, problem)) => {
                let error = Diagnostic::error("a fault that cannot be read");
                diagnostics.push(error.at(line.place(part)).label(problem).help(HELP));
            }
        }
    }
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    Ok(faults)
}

/// A part of the line and what is wrong with it.
type Unread<'a> = (&'a str, &'static str);

struct Line<'a> {
    text: &'a str,
    source: usize,
    /// Where it begins in the source.
    start: usize,
}

impl<'a> Line<'a> {
    /// Where a part of it stands.
    fn place(&self, part: &str) -> Place {
        // Both lie in the line's text.
        let offset = part.as_ptr() as usize - self.text.as_ptr() as usize;
        let start = self.start + offset;
        Place {
            source: self.source,
            start,
            end: start + part.len().max(1),
        }
    }

    /// The row that means the same.
    fn row(&self) -> Result<Tree, Unread<'a>> {
        let text = self.text.trim();
        let (word, rest) = first_word(text);
        match word {
            "loss" | "corruption" => {
                let (rate, links) = optional(rest, "on");
                if rate.is_empty() {
                    return Err((text, "which share of the messages?"));
                }
                let mut values = vec![("kind", word), ("rate", rate)];
                values.extend(links.map(|links| ("links", links)));
                Ok(self.tree(&values))
            }
            "link" | "links" => self.cut(rest),
            "host" | "nic" => self.of_host(word, rest),
            _ => Err((
                text,
                "it begins with none of loss, corruption, link, host, nic",
            )),
        }
    }

    fn cut(&self, rest: &'a str) -> Result<Tree, Unread<'a>> {
        let (links, times) = optional(rest, "down");
        let Some((from, until)) = times.and_then(|times| times.split_once("..")) else {
            return Err((
                rest,
                "when is it down? as in `down 10 ms..20 ms`, or `10 ms..`",
            ));
        };
        if links.is_empty() {
            return Err((rest, "which link is down?"));
        }
        let (from, until) = (from.trim(), until.trim());
        let mut values = vec![("kind", "link-down"), ("links", links)];
        // `..20 ms` is down from the start.
        values.extend((!from.is_empty()).then_some(("from", from)));
        values.extend((!until.is_empty()).then_some(("until", until)));
        Ok(self.tree(&values))
    }

    fn of_host(&self, word: &str, rest: &'a str) -> Result<Tree, Unread<'a>> {
        let (host, rest) = first_word(rest);
        if !host.bytes().all(|byte| byte.is_ascii_digit()) || host.is_empty() {
            return Err((
                if host.is_empty() { self.text } else { host },
                "hosts have numbers, from 0",
            ));
        }
        let (verb, rest) = first_word(rest);
        match (word, verb, first_word(rest)) {
            (_, "dies", ("at", time)) => {
                let kind = if word == "nic" {
                    "nic-dies"
                } else {
                    "host-dies"
                };
                Ok(self.tree(&[("kind", kind), ("host", host), ("at", time)]))
            }
            (_, "dies", _) => Err((verb, "when? as in `dies at 5 ms`")),
            ("host", "slow", _) => {
                let (by, from) = optional(rest, "from");
                let amount = if let Some(factor) = by.strip_suffix("times") {
                    ("factor", factor.trim())
                } else if let Some(span) = by.strip_suffix("a message") {
                    ("per_message", span.trim())
                } else {
                    return Err((verb, "how slow? as in `slow 2 times`, or `5 us a message`"));
                };
                let mut values = vec![("kind", "slow-host"), ("host", host), amount];
                values.extend(from.map(|from| ("from", from)));
                Ok(self.tree(&values))
            }
            _ => Err((
                if verb.is_empty() { host } else { verb },
                "what does it do? it dies; a host may also be slow",
            )),
        }
    }

    fn tree(&self, values: &[(&str, &str)]) -> Tree {
        let entries = values.iter().map(|(name, text)| {
            // What a line does not say itself, its kind, stands for all of it.
            let is_own = self.text.as_bytes().as_ptr_range().contains(&text.as_ptr());
            let place = self.place(if is_own { text } else { self.text });
            let is_number = matches!(*name, "host" | "factor");
            let raw = match is_number {
                true => Raw::Number((*text).to_owned()),
                false => Raw::Text((*text).to_owned()),
            };
            Entry {
                name: (*name).to_owned(),
                name_place: place,
                node: Node { place, raw },
                overridden: false,
                counts_with: None,
            }
        });
        Tree {
            entries: entries.collect(),
        }
    }
}

/// The first word, and the rest without blanks around it.
fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim())
}

/// What stands before a word, and what behind it if the word is there.
fn optional<'a>(text: &'a str, word: &str) -> (&'a str, Option<&'a str>) {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(word)) {
        let (start, end) = (from + at, from + at + word.len());
        let (before, behind) = (&text[..start], &text[end..]);
        let is_word = before.is_empty() || before.ends_with(char::is_whitespace);
        if is_word && (behind.is_empty() || behind.starts_with(char::is_whitespace)) {
            return (before.trim(), Some(behind.trim()));
        }
        from = end;
    }
    (text.trim(), None)
}
