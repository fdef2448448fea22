//! What carries bytes between adapters: links, switches, and how messages share them.
//!
//! It knows no host, no adapter and no program, and not what a message means. Whoever simulates a
//! cluster says who sends how many bytes to whom and how fast the two ends can go.
//!
//! There are two networks. In [`Network`] messages are flows, which share links until they end. In
//! [`Wormhole`] they are packets, which hold their whole way; the sender chooses it for each
//! packet, a receiver stops its link, and a packet is cut in flight. Both answer with values, and
//! the caller schedules what follows. Links of both are those of a topology, and what is down when
//! is said in [`outages`].

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
pub mod wormhole;

pub use journeys::JourneyId;
pub use links::{LinkConfig, Sharing, SwitchModel};
pub use network::{Begun, Moved, Network, Next, Transfer};
pub use rate::{Frame, Rate, Switching};
pub use wormhole::{Packet, Wormhole, WormholeConfig, WormholeCounts};
