//! Hosts, NICs, buses and fluid links on the engine, running the VI Architecture.
//!
//! [`run`] takes a [`config::ClusterConfig`] and gives a [`result::RunResult`]. Nothing here reads
//! a clock, a file or the environment: equal configurations give equal results to the bit.

mod accounting;
pub mod bounds;
mod cluster;
pub mod config;
mod connect;
mod connections;
mod direct;
mod error;
mod event;
pub mod fluid;
mod host;
mod interval;
mod look_ahead;
mod message;
pub mod path;
mod receive;
pub mod record;
pub mod result;
mod run;
mod send;
mod stage;
mod trace;
pub mod why;
mod windows;
pub mod workload;

pub use cluster::Progress;
pub use connect::RECEIVES_AT_FIRST;
pub use error::RunError;
pub use path::floor_latency;
pub use run::run;
pub use stage::{STAGES, Stage};
