//! GOAL files, text and binary: the format of LogGOPSim and ATLAHS.
//!
//! A text has one statement a line:
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 1500
//! l2: send 8b to 1 tag 7
//! l2 requires l1
//! }
//! rank 1 {
//! recv 8b from 0 tag 7
//! }
//! ```
//!
//! `calc` is in nanoseconds. `requires` waits for the end of an operation, `irequires` for its
//! start. A receive from -1 takes messages of any rank, one with tag -1 those with any tag. `cpu`
//! and `nic` name a processor and an adapter of the rank's host.
//!
//! What an operation is called is its label, if that is more than a letter and a number, or else
//! the last comment before it that has a line to itself.
//!
//! Both forms are read rank by rank, so that a long file needs no more memory than its graph.

mod binary;
mod sayable;
mod text;

use thiserror::Error;

pub use binary::{is_binary, read_binary, write_binary};
pub use sayable::unsayable;
pub use text::{parse_text, read_text, write_text};

/// What is wrong with a GOAL file, and where.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{}{problem}", place(*line, *rank))]
pub struct GoalError {
    /// The line of a text, from 1.
    pub line: Option<u32>,
    /// The rank that was read.
    pub rank: Option<u32>,
    /// What is wrong, and what instead.
    pub problem: String,
}

fn place(line: Option<u32>, rank: Option<u32>) -> String {
    let line = line.map(|line| format!("line {line}: "));
    let rank = rank.map(|rank| format!("rank {rank}: "));
    [line, rank].into_iter().flatten().collect()
}
