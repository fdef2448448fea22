//! Protocols of a network interface (NI) with endpoint frames: pure state machines.
//!
//! A host may have any number of endpoints; its interface holds a few of them, in frames. Four
//! parts that do not know each other, each told what happened, answering what to do:
//!
//! ```text
//!   process --write--> residency <--> agreement (driver) ====== agreement (interface) <-- arrival
//!                                        words over a system endpoint       |
//!                                                                        service: whose turn
//!                                                                           |
//!                                                                       transport <--> network
//! ```
//!
//! - [`residency`]: which endpoints are in frames, faults, the remap service, who has to leave;
//! - [`agreement`]: what driver and interface say to each other, whatever crosses on the way;
//! - [`service`]: whose message is sent next;
//! - [`transport`]: exactly once, or back to the sender with a reason.
//!
//! No I/O, clock, thread or random number of their own: time and streams are handed in, and whoever
//! drives them says what anything costs.
#![forbid(unsafe_code)]

pub mod agreement;
mod names;
pub mod residency;
#[cfg(test)]
mod seeds;
pub mod service;
pub mod transport;

pub use names::{Endpoint, Frame, Peer};
