//! Virtual networks: Active Message endpoints with names, keys and handlers.
//!
//! A [`Station`] is a process's end on any fabric; an [`Endpoint`] is a mailbox on it.

pub use viaduct_am::*;
pub use viaduct_vi_carrier::{Identity, Options as StationOptions, Policy, Route, Station};
