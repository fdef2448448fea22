//! The 41 functions of `vipl.h`.
//!
//! `docs/vipl.md` says of each what it does and returns.
//!
//! # Safety
//!
//! Of all functions: a pointer is NULL, which is refused where something must be given, or points
//! to what the header says, in memory that this thread may read, and write where it is an output.
//! Handles may be anything. Memory is used as the operations of
//! [`viaduct_provider::Provider`] say.

#![expect(
    clippy::missing_safety_doc,
    reason = "what all pointers must be is said once, above"
)]

mod completion_queue;
mod connection;
mod management;
mod memory;
mod nic;
mod transfer;
mod vi;

pub use completion_queue::*;
pub use connection::*;
pub use management::*;
pub use memory::*;
pub use nic::*;
pub use transfer::*;
pub use vi::*;
