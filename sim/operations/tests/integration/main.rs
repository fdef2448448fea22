//! Graphs of operations: files, and runs against sums by hand.

mod goal;
mod loggops;
