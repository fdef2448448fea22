//! Hosts, NICs, buses and fluid links on the engine, running the VI Architecture.

pub mod config;
pub mod result;
pub mod workload;
