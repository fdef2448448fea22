//! What can be wrong with a topology that was asked for or read.

use std::ops::Range;

/// Why a topology could not be made.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A switch has fewer ports than links: give it more ports, or fewer hosts or neighbours.
    #[error(
        "switch {switch} needs {needed} ports ({reason}) but has {available}: \
         raise the ports of a switch to at least {needed}, or attach less to it"
    )]
    TooFewPorts {
        /// Name of the switch; of several, the first of those that need most.
        switch: String,
        /// Ports that its links take.
        needed: u32,
        /// Ports that it has.
        available: u32,
        /// What takes the ports: `4 hosts, 4 switches`.
        reason: String,
    },
    /// A count that must be at least something is smaller.
    #[error("{what} is {count}, but must be at least {minimum}")]
    TooSmall {
        /// Which count.
        what: &'static str,
        /// Its value.
        count: u64,
        /// The smallest value allowed.
        minimum: u64,
    },
    /// A count is beyond a limit of this program.
    #[error("{what}: {count} is more than the limit of {limit}; {help}")]
    TooLarge {
        /// Which count.
        what: &'static str,
        /// Its value; of a product that overflows, the largest number that can be written.
        count: u64,
        /// The largest value allowed.
        limit: u64,
        /// What to do instead.
        help: &'static str,
    },
    /// A network of this kind does not exist in that size.
    #[error(
        "{what}: there is no {size}, since {rule}; nearest are {}",
        listed(nearest)
    )]
    NoSuchSize {
        /// Which size.
        what: &'static str,
        /// Its value.
        size: u64,
        /// Which sizes there are.
        rule: String,
        /// The next that exist, below and above.
        nearest: Vec<u64>,
    },
    /// A file of a graph or of routing tables is not understood.
    #[error(transparent)]
    File(#[from] Box<FileError>),
    /// A graph was to be routed by the rule of a generated network, and is none.
    #[error(
        "the graph is no chain, mesh, torus, fat tree or single switch, or its hosts and switches \
         are not numbered as these are: hosts switch by switch, switches along one dimension after \
         the other, or level by level"
    )]
    NoRule,
    /// A graph that a program makes is wrong as a whole.
    #[error("{problem}; {help}")]
    Graph {
        /// What is wrong, with the names of the nodes.
        problem: String,
        /// What to do instead.
        help: String,
    },
    /// Routing tables were given for a topology that routes by rule.
    #[error(
        "routing tables need a topology read from a file, but this one is generated ({topology}) \
         and routes by rule: export it with to_node_link_json, read it back, then add the tables"
    )]
    TablesForGenerated {
        /// The generated topology in words.
        topology: String,
    },
}

/// A place in a file, what is wrong there and what to write instead.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}, column {column}, at {}: {problem}; {help}", quoted(text))]
pub struct FileError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The same place as byte offsets into the text.
    pub span: Range<usize>,
    /// The offending text, shortened; empty at the end of the file.
    pub text: String,
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub help: String,
}

/// Characters of the offending text that an error repeats.
pub const QUOTED_CHARACTERS_MAX: usize = 60;

/// `4 and 5`.
fn listed(sizes: &[u64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    sizes.join(" and ")
}

fn quoted(text: &str) -> String {
    if text.is_empty() {
        "the end".to_owned()
    } else {
        format!("`{text}`")
    }
}

impl FileError {
    /// An error at `span` of `source`; spans outside the source are cut to it.
    pub(crate) fn new(
        source: &str,
        span: Range<usize>,
        problem: impl Into<String>,
        help: impl Into<String>,
    ) -> Box<Self> {
        let start = floor_boundary(source, span.start);
        let end = floor_boundary(source, span.end).max(start);
        let before = &source[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        Box::new(Self {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
            span: start..end,
            text: shortened(&source[start..end]),
            problem: problem.into(),
            help: help.into(),
        })
    }
}

/// The largest character boundary of `source` that is not beyond `offset`.
fn floor_boundary(source: &str, offset: usize) -> usize {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// The first line of `text`, cut to [`QUOTED_CHARACTERS_MAX`].
pub(crate) fn shortened(text: &str) -> String {
    let first = text.lines().next().unwrap_or("");
    let mut short: String = first
        .chars()
        .take(QUOTED_CHARACTERS_MAX)
        .map(|character| {
            if character.is_control() {
                '?'
            } else {
                character
            }
        })
        .collect();
    if short.len() < text.trim_end().len() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_counts_lines_and_characters() {
        let source = "a b\n\u{e9}\u{e9} c\n";
        let error = FileError::new(source, 9..10, "what", "instead");
        assert_eq!((error.line, error.column, error.text.as_str()), (2, 4, "c"));
        assert_eq!(error.to_string(), "line 2, column 4, at `c`: what; instead");
    }

    #[test]
    fn spans_outside_the_source_are_cut() {
        let error = FileError::new("ab\u{e9}", 3..100, "what", "instead");
        assert_eq!((error.line, error.column, error.span), (1, 3, 2..4));
        let error = FileError::new("", 7..9, "ends early", "instead");
        assert_eq!(
            error.to_string(),
            "line 1, column 1, at the end: ends early; instead"
        );
    }

    #[test]
    fn long_text_is_shortened() {
        assert_eq!(shortened(&"x".repeat(61)), format!("{}...", "x".repeat(60)));
        assert_eq!(shortened("{\n 1}"), "{...");
        assert_eq!(shortened(&"x".repeat(60)), "x".repeat(60));
    }
}
