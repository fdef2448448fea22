//! The functions of `am.h`, by its sections. The header says of each what it does and returns.
//!
//! # Safety
//!
//! Of all functions: a pointer is NULL, which is refused where something must be given, or points
//! to what the header says, in memory that this thread may read, and write where it is an output.
//! Handles and tokens may be anything.

#![expect(
    clippy::missing_safety_doc,
    reason = "what all pointers must be is said once, above"
)]

mod bundles;
mod endpoints;
mod messages;
mod names;
mod polling;
mod stations;
mod texts;

pub use bundles::*;
pub use endpoints::*;
pub use messages::*;
pub use names::*;
pub use polling::*;
pub use stations::*;
pub use texts::*;
