//! What carries bytes between adapters: links, switches, and how messages share them.
//!
//! It knows no host, no adapter and no program, and not what a message means. Whoever simulates a
//! cluster says who sends how many bytes to whom and how fast the two ends can go.

pub mod damage;
pub mod fluid;
pub mod hops;
mod journeys;
pub mod links;
mod network;
pub mod outages;
pub mod rate;
mod ways;
pub mod windows;

pub use journeys::JourneyId;
pub use links::{LinkConfig, Sharing, SwitchModel};
pub use network::{Begun, Moved, Network, Next, Transfer};
pub use rate::{Frame, Rate, Switching};
