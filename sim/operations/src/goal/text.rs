//! The text of a GOAL file.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use super::GoalError;
use crate::graph::{ANY, After, Builder, Graph, Kind, Operation};

/// Longest line: statements are short, and a file without line ends is no text.
const LINE_BYTES_MAX: usize = 1 << 16;

/// Longest piece of a text that a message shows.
const SHOWN_MAX: usize = 40;

/// Reads the text of a GOAL file.
///
/// # Errors
///
/// [`GoalError`]: the line, the rank and what is wrong.
pub fn parse_text(text: &str) -> Result<Graph, GoalError> {
    read_text(&mut text.as_bytes())
}

/// Reads the text of a GOAL file line by line.
///
/// # Errors
///
/// [`GoalError`]: the line, the rank and what is wrong.
pub fn read_text(source: &mut dyn BufRead) -> Result<Graph, GoalError> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = io::Read::take(&mut *source, LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut line);
        match read {
            Ok(0) => return reader.finish(),
            Ok(_) => {}
            Err(error) => return Err(reader.wrong(format!("it cannot be read: {error}"))),
        }
        reader.line += 1;
        if line.len() > LINE_BYTES_MAX {
            return Err(reader.wrong(format!("the line is longer than {LINE_BYTES_MAX} B")));
        }
        let Ok(text) = core::str::from_utf8(&line) else {
            return Err(reader.wrong("it is not a text in UTF-8".to_owned()));
        };
        reader.read(text).map_err(|problem| reader.wrong(problem))?;
    }
}

#[derive(Default)]
struct Reader {
    line: u32,
    builder: Option<Builder>,
    ranks: u32,
    /// The rank that is open.
    rank: Option<u32>,
    /// The next rank that may open.
    next: u32,
    is_in_comment: bool,
    labels: BTreeMap<String, u32>,
    /// The last comment that had a line to itself in this rank.
    heading: String,
}

impl Reader {
    fn wrong(&self, problem: String) -> GoalError {
        GoalError {
            line: Some(self.line.max(1)),
            rank: self.rank,
            problem,
        }
    }

    fn finish(mut self) -> Result<Graph, GoalError> {
        let Some(builder) = self.builder.take() else {
            return Err(self.wrong("the file ends before `num_ranks`".to_owned()));
        };
        if self.is_in_comment {
            return Err(self.wrong("the file ends in a comment: `*/` is missing".to_owned()));
        }
        if self.rank.is_some() {
            return Err(self.wrong("the file ends in this rank: `}` is missing".to_owned()));
        }
        if self.next < self.ranks {
            let (next, ranks) = (self.next, self.ranks);
            return Err(self.wrong(format!(
                "the file ends before rank {next}: num_ranks says that there are {ranks}"
            )));
        }
        Ok(builder.finish())
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let comment = line.trim_start().strip_prefix("//");
        let comment = comment.filter(|_| !self.is_in_comment);
        let without = self.without_comments(line)?;
        let statement = without.trim();
        if statement.is_empty() {
            if let Some(comment) = comment {
                comment.trim().clone_into(&mut self.heading);
            }
            return Ok(());
        }
        let mut words = Words::new(statement);
        let Some(first) = words.next() else {
            return Ok(());
        };
        if self.builder.is_none() {
            if first != "num_ranks" {
                let found = excerpt(first);
                return Err(format!(
                    "the first statement is `num_ranks N`, not `{found}`"
                ));
            }
            let ranks = words.number("the number of ranks", u64::from(u32::MAX) - 1)? as u32;
            if ranks == 0 {
                return Err("there is at least one rank".to_owned());
            }
            self.ranks = ranks;
            self.builder = Some(Builder::new(ranks));
            return words.end();
        }
        match (first, self.rank) {
            ("rank", None) => self.open(words),
            ("}", Some(_)) => {
                self.rank = None;
                self.labels.clear();
                if let Some(builder) = &mut self.builder {
                    builder.next_rank();
                }
                words.end()
            }
            (_, None) => Err(format!(
                "expected `rank {} {{`, not `{}`",
                self.next,
                excerpt(first)
            )),
            (_, Some(rank)) => self.statement(rank, first, words),
        }
    }

    /// The line without comments.
    fn without_comments<'a>(&mut self, line: &'a str) -> Result<std::borrow::Cow<'a, str>, String> {
        if !self.is_in_comment && !line.contains('/') {
            return Ok(line.into());
        }
        let (mut rest, mut kept) = (line, String::new());
        loop {
            if self.is_in_comment {
                let Some((_, after)) = rest.split_once("*/") else {
                    return Ok(kept.into());
                };
                self.is_in_comment = false;
                rest = after;
            }
            let Some(slash) = rest.find('/') else {
                return Ok((kept + rest).into());
            };
            kept.push_str(&rest[..slash]);
            rest = &rest[slash..];
            if rest.starts_with("//") {
                return Ok(kept.into());
            }
            if !rest.starts_with("/*") {
                return Err("`/` begins a comment as `//` or `/*`, and nothing else".to_owned());
            }
            // A comment keeps words apart.
            kept.push(' ');
            rest = &rest[2..];
            self.is_in_comment = true;
        }
    }

    fn open(&mut self, mut words: Words<'_>) -> Result<(), String> {
        let number = words.number("the rank", u64::from(u32::MAX) - 1)? as u32;
        let (next, ranks) = (self.next, self.ranks);
        if number >= ranks {
            return Err(format!(
                "there is no rank {number}: num_ranks says that there are {ranks}, 0 to {}",
                ranks - 1
            ));
        }
        if number != next {
            return Err(format!(
                "ranks stand in order: expected rank {next}, found rank {number}"
            ));
        }
        words.expect("{")?;
        self.rank = Some(number);
        self.heading.clear();
        self.next += 1;
        words.end()
    }

    fn statement(&mut self, rank: u32, first: &str, mut words: Words<'_>) -> Result<(), String> {
        let Some(builder) = &mut self.builder else {
            return Ok(());
        };
        let mut label = None;
        let mut word = first;
        if words.takes(":") {
            label = Some(first);
            word = words.expected("`send`, `recv` or `calc`")?;
        } else if let Some(after) = words.peek().and_then(dependency) {
            words.next();
            let other = words.expected("a label")?;
            let place = |label: &str| {
                let place = self.labels.get(label).copied();
                let shown = excerpt(label);
                place.ok_or_else(|| {
                    format!("no operation of rank {rank} before this line has the label `{shown}`")
                })
            };
            let (waiter, other) = (place(first)?, place(other)?);
            let required = builder.require(waiter, other, after);
            required.map_err(|error| error.to_string())?;
            return words.end();
        }
        if let Some(label) = label {
            check_label(label)?;
            if self.labels.contains_key(label) {
                let shown = excerpt(label);
                return Err(format!("rank {rank} has the label `{shown}` already"));
            }
        }
        let operation = operation(word, &mut words)?;
        words.end()?;
        builder.at_line(self.line);
        let word = label.filter(|label| is_word(label));
        builder.set_label(word.unwrap_or(&self.heading));
        let place = builder.add(operation).map_err(|error| error.to_string())?;
        if let Some(label) = label {
            self.labels.insert(label.to_owned(), place);
        }
        Ok(())
    }
}

fn dependency(word: &str) -> Option<After> {
    match word {
        "requires" => Some(After::End),
        "irequires" => Some(After::Start),
        _ => None,
    }
}

fn check_label(label: &str) -> Result<(), String> {
    let mut characters = label.chars();
    let begins = characters.next().is_some_and(|it| it.is_ascii_alphabetic());
    if begins && characters.all(|it| it.is_ascii_alphanumeric() || it == '_') {
        return Ok(());
    }
    let shown = excerpt(label);
    Err(format!(
        "a label is a letter, then letters, digits and `_`, not `{shown}`"
    ))
}

/// Whether a label says something: `l17` does not.
fn is_word(label: &str) -> bool {
    label.bytes().skip(1).any(|it| !it.is_ascii_digit())
}

fn operation(word: &str, words: &mut Words<'_>) -> Result<Operation, String> {
    let mut operation = match word {
        "calc" => Operation::compute(words.number("the time, in nanoseconds,", u64::MAX)?),
        "send" | "recv" => {
            let bytes = words.bytes()?;
            let way = if word == "send" { "to" } else { "from" };
            words.expect(way)?;
            match word {
                "send" => Operation::send(bytes, words.rank_or_tag("the rank", false)?),
                _ => Operation::receive(bytes, words.rank_or_tag("the rank", true)?),
            }
        }
        _ => {
            return Err(format!(
                "expected `send`, `recv`, `calc`, `LABEL requires LABEL` or `}}`, not `{}`",
                excerpt(word)
            ));
        }
    };
    let is_message = operation.kind != Kind::Compute;
    let mut given = [false; 3];
    while let Some(option) = words.next() {
        let place = match option {
            "tag" if is_message => 0,
            "cpu" => 1,
            "nic" if is_message => 2,
            _ => {
                let may = if is_message {
                    "`tag N`, `cpu N` or `nic N`"
                } else {
                    "`cpu N`"
                };
                return Err(format!("expected {may}, not `{}`", excerpt(option)));
            }
        };
        if core::mem::replace(&mut given[place], true) {
            return Err(format!("`{option}` is said twice"));
        }
        match place {
            0 => operation.tag = words.rank_or_tag("the tag", operation.kind == Kind::Receive)?,
            1 => operation.processor = words.number("the processor", u8::MAX.into())? as u8,
            _ => operation.adapter = words.number("the adapter", u8::MAX.into())? as u8,
        }
    }
    Ok(operation)
}

/// Words of a statement: `:`, `{` and `}` are words of their own.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    const fn new(statement: &'a str) -> Self {
        Self { rest: statement }
    }

    fn split(&self) -> Option<(&'a str, &'a str)> {
        let rest = self.rest.trim_start();
        let is_mark = |it: char| matches!(it, ':' | '{' | '}');
        let first = rest.chars().next()?;
        let end = match is_mark(first) {
            true => 1,
            false => rest
                .find(|it: char| it.is_whitespace() || is_mark(it))
                .unwrap_or(rest.len()),
        };
        Some(rest.split_at(end))
    }

    fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.split()?;
        self.rest = rest;
        Some(word)
    }

    fn peek(&self) -> Option<&'a str> {
        self.split().map(|(word, _)| word)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_there = self.peek() == Some(word);
        if is_there {
            self.next();
        }
        is_there
    }

    fn expected(&mut self, what: &str) -> Result<&'a str, String> {
        self.next()
            .ok_or_else(|| format!("the line ends where {what} is expected"))
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        let found = self.expected(&format!("`{word}`"))?;
        if found == word {
            return Ok(());
        }
        Err(format!("expected `{word}`, not `{}`", excerpt(found)))
    }

    fn number(&mut self, what: &str, most: u64) -> Result<u64, String> {
        let word = self.expected(what)?;
        number(word, most).ok_or_else(|| {
            format!(
                "{what} is a whole number of 0 to {most}, not `{}`",
                excerpt(word)
            )
        })
    }

    fn bytes(&mut self) -> Result<u64, String> {
        let word = self.expected("the number of bytes")?;
        let digits = word.strip_suffix('b');
        digits
            .and_then(|digits| number(digits, u64::MAX))
            .ok_or_else(|| {
                format!(
                    "bytes are a whole number with `b`, as in `8b`, not `{}`",
                    excerpt(word)
                )
            })
    }

    /// A rank or a tag; -1 stands for any.
    fn rank_or_tag(&mut self, what: &str, takes_any: bool) -> Result<u32, String> {
        let word = self.expected(what)?;
        if word == "-1" {
            return match takes_any {
                true => Ok(ANY),
                false => Err(format!(
                    "{what} of a send is a number: only a receive takes any"
                )),
            };
        }
        let most = u64::from(u32::MAX) - 1;
        let any = if takes_any { ", or -1 for any" } else { "" };
        number(word, most).map(|it| it as u32).ok_or_else(|| {
            format!(
                "{what} is a whole number of 0 to {most}{any}, not `{}`",
                excerpt(word)
            )
        })
    }

    fn end(&mut self) -> Result<(), String> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(format!(
                "one statement a line: it ends before `{}`",
                excerpt(word)
            )),
        }
    }
}

fn number(word: &str, most: u64) -> Option<u64> {
    let is_plain = !word.is_empty() && word.bytes().all(|it| it.is_ascii_digit());
    let value = word.parse().ok().filter(|_| is_plain)?;
    (value <= most).then_some(value)
}

fn excerpt(text: &str) -> String {
    let shown: String = text
        .chars()
        .take(SHOWN_MAX)
        .flat_map(char::escape_debug)
        .collect();
    match text.chars().nth(SHOWN_MAX) {
        None => shown,
        Some(_) => shown + "...",
    }
}

/// Writes a graph as a GOAL text; it is read again as an equal graph. Labels are comments, each
/// above the operations that have it.
///
/// # Errors
///
/// Those of the file that it is written to.
pub fn write_text(graph: &Graph, target: &mut dyn Write) -> io::Result<()> {
    writeln!(target, "num_ranks {}", graph.ranks())?;
    for rank in 0..graph.ranks() {
        writeln!(target, "rank {rank} {{")?;
        let all = graph.of_rank(rank);
        let label = |id: u32| id - all.start + 1;
        let mut heading = None;
        for id in all.clone() {
            let operation = graph.operation(id);
            if graph.label(id) != heading {
                heading = graph.label(id);
                let comment = heading.map_or(String::new(), |text| format!(" {text}"));
                writeln!(target, "//{comment}")?;
            }
            write!(target, "l{}: ", label(id))?;
            let amount = operation.amount;
            let or_any = |number: u32| match number {
                ANY => -1,
                number => i64::from(number),
            };
            let peer = or_any(operation.peer);
            match operation.kind {
                Kind::Compute => write!(target, "calc {amount}")?,
                Kind::Send => write!(target, "send {amount}b to {peer}")?,
                Kind::Receive => write!(target, "recv {amount}b from {peer}")?,
            }
            if operation.kind != Kind::Compute && operation.tag != 0 {
                write!(target, " tag {}", or_any(operation.tag))?;
            }
            if operation.processor != 0 {
                write!(target, " cpu {}", operation.processor)?;
            }
            if operation.kind != Kind::Compute && operation.adapter != 0 {
                write!(target, " nic {}", operation.adapter)?;
            }
            writeln!(target)?;
        }
        for id in all.clone() {
            for (waiter, after) in graph.waiters(id) {
                let word = match after {
                    After::End => "requires",
                    After::Start => "irequires",
                };
                writeln!(target, "l{} {word} l{}", label(waiter), label(id))?;
            }
        }
        writeln!(target, "}}")?;
    }
    Ok(())
}
