//! Chakra execution traces: what ranks of a training step did, one file a rank.
//!
//! [`read_rank`] reads the file of one rank: the stream of Protocol Buffers that PyTorch's traces
//! are converted to, plain or by gzip, or the JSON form that Chakra's feeder reads. [`join`] makes
//! the files of all ranks a [`Trace`].
//!
//! What of a node counts:
//!
//! - A computation or an access of memory takes its recorded time, or where it has only a number of
//!   operations (`num_ops`) as long as these take, on the accelerator, or if it is
//!   a CPU operator on the host of that.
//! - A send or receive is a message of `comm_size` bytes to `comm_dst`, or from `comm_src`, with
//!   `comm_tag`.
//! - A collective with a `comm_type` is done between the ranks of its process group. One without,
//!   if it is a CPU operator, is the computation that launches it.
//! - Metadata may describe process groups.
//!
//! A node waits for its `data_deps`, which may stand behind it; ids that the file does not have
//! count as done, and so do its `ctrl_deps`: they say who called whom. `comm_size` is what a rank
//! puts in, so that an all-gather or a gather of p ranks brings p times as much. A broadcast,
//! a reduction, a gather and a scatter name no root: it is the lowest rank of the group.

mod json;
mod nodes;
mod protobuf;
mod ranks;
#[cfg(test)]
mod tests;

use core::fmt;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use thiserror::Error;

use crate::collective::Collective;
use crate::gzip;
use crate::texts::shortened;
use crate::trace::Trace;

pub use json::write_json;
pub use nodes::RankFile;
pub use ranks::{Groups, read_groups};

/// What is wrong with the file of a rank.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{problem}")]
pub struct ChakraError {
    /// What is wrong and where, and what instead.
    pub problem: String,
}

impl ChakraError {
    fn new(problem: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
        }
    }
}

/// What is worth knowing of a trace that is read as it is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Notes {
    /// Dependencies on ids that are not in the file: they count as done.
    pub absent: u64,
    /// Dependencies on nodes that stand behind.
    pub forward: u64,
    /// Operators that launch a collective: only the kernel sends anything.
    pub launches: u64,
    /// Collectives, sends and receives of no bytes.
    pub empty: u64,
    /// Collectives with a root, which is the lowest rank of its group.
    pub rooted: u64,
    /// Computations that have a number of operations and no time.
    pub untimed: u64,
}

impl Notes {
    /// Adds those of another rank.
    pub fn add(&mut self, other: &Self) {
        self.absent += other.absent;
        self.forward += other.forward;
        self.launches += other.launches;
        self.empty += other.empty;
        self.rooted += other.rooted;
        self.untimed += other.untimed;
    }

    /// Each that there is, as a count and what it counts.
    #[must_use]
    pub fn lines(&self) -> Vec<(u64, &'static str)> {
        let all = [
            (
                self.absent,
                [
                    "dependency on a node that is not there: it counts as done",
                    "dependencies on nodes that are not there: they count as done",
                ],
            ),
            (
                self.forward,
                [
                    "dependency on a node that stands behind",
                    "dependencies on nodes that stand behind",
                ],
            ),
            (
                self.launches,
                [
                    "operator that launches a collective: only kernels send",
                    "operators that launch a collective: only kernels send",
                ],
            ),
            (
                self.empty,
                [
                    "collective or message of no bytes",
                    "collectives and messages of no bytes",
                ],
            ),
            (
                self.rooted,
                [
                    "collective whose root is the lowest rank of the group",
                    "collectives whose root is the lowest rank of the group",
                ],
            ),
            (
                self.untimed,
                [
                    "computation with a number of operations (num_ops) and no time",
                    "computations with a number of operations (num_ops) and no time",
                ],
            ),
        ];
        let there = all.into_iter().filter(|(count, _)| *count > 0);
        there
            .map(|(count, [one, many])| (count, if count == 1 { one } else { many }))
            .collect()
    }
}

/// Reads the file of a rank.
///
/// # Errors
///
/// [`ChakraError`]: which node, and what is wrong.
pub fn read_rank(source: &mut dyn Read) -> Result<RankFile, ChakraError> {
    let mut source = BufReader::new(source);
    let first = source.fill_buf().map_err(|error| unreadable(&error))?;
    if first.is_empty() {
        return Err(ChakraError::new(
            "the file is empty: a trace begins with its metadata",
        ));
    }
    if first.starts_with(&gzip::FIRST) {
        let mut plain = BufReader::new(flate2::bufread::MultiGzDecoder::new(source));
        return read_plain(&mut plain);
    }
    read_plain(&mut source)
}

fn read_plain(source: &mut dyn BufRead) -> Result<RankFile, ChakraError> {
    let first = source.fill_buf().map_err(|error| unreadable(&error))?;
    if first.is_empty() {
        return Err(ChakraError::new(
            "the file by gzip is empty: a trace begins with its metadata",
        ));
    }
    // A stream may begin with `{` as the length of its metadata; what follows is no JSON then.
    let mut visible = first.iter().filter(|byte| !byte.is_ascii_whitespace());
    let (one, two) = (visible.next(), visible.next());
    match (one, two) {
        (Some(b'{'), Some(b'"' | b'}')) => json::read(source),
        _ => protobuf::read(source),
    }
}

fn unreadable(error: &std::io::Error) -> ChakraError {
    ChakraError::new(gzip::problem(error))
}

/// A collective, by the number that Chakra gives it.
const fn collective(comm_type: u64) -> Option<Collective> {
    Some(match comm_type {
        0 => Collective::AllReduce,
        1 => Collective::Reduce,
        2 => Collective::AllGather,
        3 => Collective::Gather,
        4 => Collective::Scatter,
        5 => Collective::Broadcast,
        6 => Collective::AllToAll,
        7 | 8 => Collective::ReduceScatter,
        9 => Collective::Barrier,
        _ => return None,
    })
}

/// Why files of ranks are no trace together.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{}{problem}", of_rank(*rank))]
pub struct JoinError {
    /// The rank whose file it is.
    pub rank: Option<u32>,
    /// What is wrong, and what instead.
    pub problem: String,
}

fn of_rank(rank: Option<u32>) -> String {
    rank.map(|rank| format!("rank {rank}: "))
        .unwrap_or_default()
}

/// The files of all ranks, in order, as a trace; process groups by `groups`, where those have one,
/// or by the files.
///
/// # Errors
///
/// [`JoinError`]: the rank, the node and what is wrong.
pub fn join(files: &[Arc<RankFile>], groups: &Groups) -> Result<Trace, JoinError> {
    ranks::join(files, groups)
}

/// The file of one rank as what each of so many ranks does.
///
/// # Errors
///
/// [`JoinError`] if it sends or receives, or has process groups of some ranks only.
pub fn repeat(file: &RankFile, ranks: u32, groups: &Groups) -> Result<Trace, JoinError> {
    ranks::repeat(file, ranks, groups)
}

/// Names of process groups, to the ranks in each; no ranks stand for all.
pub(crate) type GroupRanks = BTreeMap<String, Vec<u32>>;

/// How a node is named in messages.
#[derive(Clone, Copy)]
struct NodeName<'a>(u64, &'a str);

impl fmt::Display for NodeName<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "node {}", self.0)?;
        match self.1.is_empty() {
            true => Ok(()),
            false => {
                write!(formatter, " `{}`", shortened(self.1).escape_debug())
            }
        }
    }
}
