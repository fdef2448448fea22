//! SimGrid's time-independent traces: what the ranks of an MPI program did, one action a line.
//!
//! ```text
//! 0 init
//! 0 compute 2e9
//! 0 send 1 0 1e6
//! 0 finalize
//! ```
//!
//! A line has the rank, an action and what that takes. All ranks are in one file, or each has its
//! own, and a file lists these ([`listed`]). `compute` counts operations, so that a rate says how
//! long it takes; `sleep` is in seconds. Sizes count elements of a type that the line ends with, by
//! SimGrid's number; without one they are bytes, or after `init 1` doubles.
//!
//! - A rank does one action after the other. `isend` and `irecv` begin where they stand; `wait`
//!   ends when the oldest open one of its source, target and tag has ended, `waitall` when all
//!   have. Programs look at requests with `test` as often as they like: it costs nothing here.
//! - Collectives are of all ranks, as SimGrid replays them: a trace does not say of which others.
//!   What a reduction computes follows it.
//! - `alltoallv` goes pairwise; `gatherv` and `scatterv` are messages with the root, `scan` and
//!   `exscan` a chain. Who has nothing for a rank sends it nothing.
//! - A receive takes at most the bytes that it says, as in MPI, or if these are none whatever
//!   comes. A negative source or tag is any.
//! - `sendRecv` is a message each way, with tag 0: a trace does not say its tags.

mod actions;
mod sizes;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use thiserror::Error;

use crate::collective::RANKS_MAX;
use crate::trace::Trace;
use actions::Ranks;

/// A file of a trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceFile<'a> {
    /// Its name, as messages show it.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// What is wrong with a trace, and where.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{}", placed(self))]
pub struct SimgridError {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The rank whose action it is.
    pub rank: Option<u32>,
    /// What is wrong, and what instead.
    pub problem: String,
}

fn placed(error: &SimgridError) -> String {
    let line = error.line.map(|line| format!(", line {line}"));
    let rank = error.rank.map(|rank| format!(", rank {rank}"));
    let [line, rank] = [line, rank].map(Option::unwrap_or_default);
    format!("{}{line}{rank}: {}", error.file, error.problem)
}

/// What is worth knowing of a trace that is read as it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Notes {
    /// Communicators that were made: what is done in them is done by all ranks here.
    pub communicators: u64,
    /// Collectives whose ranks have shares of different sizes: they are done with equal ones.
    pub unequal: u64,
    /// Waits for what no `isend` or `irecv` began, or another wait has waited for.
    pub idle_waits: u64,
}

impl Notes {
    /// Each that there is, as a count and what it counts.
    #[must_use]
    pub fn lines(&self) -> Vec<(u64, &'static str)> {
        let all = [
            (
                self.communicators,
                "communicators were made: collectives in them are of all ranks here",
            ),
            (
                self.unequal,
                "collectives with shares of different sizes: they are done with equal ones",
            ),
            (
                self.idle_waits,
                "waits for what is not open: they take no time",
            ),
        ];
        all.into_iter().filter(|(count, _)| *count > 0).collect()
    }
}

/// A line of a trace, where it stands.
#[derive(Clone, Copy)]
struct Line<'a> {
    file: usize,
    number: u32,
    rank: u32,
    action: &'a str,
    rest: &'a str,
}

/// What is read of a line: none of an empty one or a comment.
fn line(file: usize, number: u32, text: &str) -> Result<Option<Line<'_>>, String> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rank = first.parse().ok().filter(|rank| *rank < RANKS_MAX);
    let rank = rank.ok_or_else(|| {
        let shown = crate::texts::one_line(first);
        format!(
            "a line begins with its rank, 0 to {}, not `{shown}`",
            RANKS_MAX - 1
        )
    })?;
    let rest = rest.trim_start();
    let (action, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if action.is_empty() {
        return Err("the line ends before its action".to_owned());
    }
    Ok(Some(Line {
        file,
        number,
        rank,
        action,
        rest,
    }))
}

/// Names of the files that a file lists, one a line; none if it is a trace itself.
#[must_use]
pub fn listed(text: &str) -> Option<Vec<&str>> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let names: Vec<&str> = lines.collect();
    let first = names.first()?;
    let is_action = first.split_whitespace().nth(1).is_some();
    (!is_action).then_some(names)
}

/// Reads a trace: one file of all ranks, or of each rank its own, in order.
///
/// # Errors
///
/// [`SimgridError`]: the file, the line, the rank and what is wrong.
pub fn read(files: &[TraceFile<'_>]) -> Result<(Trace, Notes), SimgridError> {
    let wrong = |file: usize, line: Option<u32>, rank: Option<u32>, problem: String| SimgridError {
        file: files.get(file).map_or("", |file| file.name).to_owned(),
        line,
        rank,
        problem,
    };
    let all = || {
        (0..).zip(files).flat_map(|(place, file): (usize, _)| {
            (1..)
                .zip(file.text.lines())
                .filter_map(move |(number, text)| {
                    let read = line(place, number, text).transpose()?;
                    Some(read.map_err(|problem| wrong(place, Some(number), None, problem)))
                })
        })
    };
    let mut there = BTreeSet::new();
    for line in all() {
        let Line {
            file, number, rank, ..
        } = line?;
        if files.len() > 1 && rank as usize != file {
            let problem = format!("the file is that of rank {file}, and the line of rank {rank}");
            return Err(wrong(file, Some(number), None, problem));
        }
        there.insert(rank);
    }
    let ranks = match files.len() {
        0 | 1 => there.last().map_or(0, |last| last + 1),
        several => several as u32,
    };
    if ranks == 0 {
        return Err(wrong(0, None, None, "there is no action in it".to_owned()));
    }
    if let Some(missing) = (0..ranks).find(|rank| !there.contains(rank)) {
        let file = if files.len() > 1 { missing as usize } else { 0 };
        let problem = format!(
            "rank {missing} has no action, and there are ranks 0 to {}",
            ranks - 1
        );
        return Err(wrong(file, None, Some(missing), problem));
    }
    let mut reader = Ranks::new(ranks);
    for line in all() {
        let line = line?;
        reader.add(&line).map_err(|problem| {
            let problem = format!("`{}`: {problem}", crate::texts::one_line(line.action));
            wrong(line.file, Some(line.number), Some(line.rank), problem)
        })?;
    }
    reader.finish().map_err(|(rank, line, problem)| {
        let file = if files.len() > 1 { rank as usize } else { 0 };
        wrong(file, Some(line), Some(rank), problem)
    })
}
