//! Runs of clusters that are built in code.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;
mod application;
mod common;
mod critical_path;
mod differing;
mod exact;
mod failures;
mod full_queues;
mod intervals;
mod listed;
mod properties;
mod ranks;
mod receives;
mod remote;
mod series;
mod standstill;
mod why;
