//! Networks that are built, and networks that are read.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cycles;
mod equal_paths;
mod equal_ways;
mod malformed;
mod networkx;
mod properties;
mod published;
