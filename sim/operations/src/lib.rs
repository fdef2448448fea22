//! Applications as graphs of operations: send, receive, compute, and what waits for what.
//!
//! A [`Graph`] has ranks, and each rank operations. An operation may wait until others of its rank
//! have ended, or have started. A send names the receiving rank and a tag, a receive the sending
//! rank and a tag, or any. Traces and collectives all become such a graph, and whoever carries it
//! out drives it with [`Dependencies`] (what is free now) and [`Matching`] (which receive takes
//! which message).
//!
//! - [`goal`] reads and writes GOAL files, text and binary.
//! - [`chakra`] reads Chakra execution traces.
//! - [`simgrid`] reads SimGrid's time-independent traces.
//! - [`loggops`] carries a graph out without a network, by the LogGOPS model.
//! - [`collective`] makes the graphs of collective operations.
//! - [`programs`] makes traces of parallel programs by name.
//! - [`trace`] makes the graph of what ranks do step by step, with collectives by name.
//! - [`jobs`] puts several applications on one cluster.
//! - [`gzip`] unpacks files that are packed.
//! - [`check`] finds cycles, and sends and receives that cannot match.
//!
//! No file is opened here, and nothing depends on a clock, a thread or chance.
//!
//! # Memory
//!
//! An operation takes 24 bytes and each dependency 4; the line that it had in its text 4 more, and
//! so does a label.
//!
//! # Words
//!
//! - operation: a send, a receive or a computation of a rank: [`Operation`], numbered over the
//!   whole graph in order of ranks
//! - dependency: an operation waits for the end or the start of another: [`After`]
//! - processor, adapter: which of its host's an operation uses (GOAL's `cpu` and `nic`)
//! - eager: a send that ends although nobody has posted its receive; rendezvous: one that waits

pub mod chakra;
pub mod check;
pub mod collective;
mod dependencies;
pub mod goal;
mod graph;
pub mod gzip;
pub mod jobs;
pub mod loggops;
mod matching;
mod misfits;
pub mod programs;
pub mod simgrid;
mod stalled;
mod texts;
pub mod trace;

pub use dependencies::{Dependencies, cycle};
pub use graph::{
    ANY, After, Builder, Graph, GraphError, Kind, OPERATIONS_MAX, Operation, OperationId,
    OperationName,
};
pub use matching::Matching;
pub use misfits::Misfits;
pub use stalled::{NAMES_MAX, Stalled};
