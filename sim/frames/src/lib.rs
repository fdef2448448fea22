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
//!
//! # Words
//!
//! - endpoint, frame; residency, remap (bring to rest, unload, upload), proxy fault: `Endpoint`,
//!   `Frame`; `Residency`, `Step` (`names.rs`, `residency.rs`)
//! - word between driver and interface, with its logical clocks: `ToInterface`, `ToDriver`,
//!   `Stamped` (`agreement.rs`)
//! - turn of an endpoint: weighted round robin: `Service`, `Discipline` (`service.rs`)
//! - logical channel, packet, answer, verdict and reason; incarnation (of a boot); return to
//!   sender: `Transport`, `Packet`, `Answer`, `Verdict`, `Reason`, `ReturnReason` (`transport.rs`,
//!   `transport/packet.rs`)
#![forbid(unsafe_code)]

pub mod agreement;
mod names;
pub mod residency;
#[cfg(test)]
mod seeds;
pub mod service;
pub mod transport;

pub use names::{Endpoint, Frame, Line, Peer};
