//! The command, run as its users run it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;
mod chakra;
mod command;
mod compare;
mod counts;
mod critical_path;
mod endpoints_over_vis;
mod fit;
mod goal;
mod measure;
mod pictures;
mod rdma;
mod reproduce;
mod simgrid;
mod simulated;
mod support;
mod sweep;
mod timelines;
mod virtual_networks;
mod why;
