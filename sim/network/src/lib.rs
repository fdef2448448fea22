//! What carries bytes between adapters: links, switches, and how messages share them.
//!
//! It knows no host, no adapter and no program, and not what a message means. Whoever simulates a
//! cluster says who sends how many bytes to whom and how fast the two ends can go.
//!
//! There are two kinds of networks. In [`Network`] messages share links: as flows that cross their
//! whole way at once, queue by queue, frame by frame, or as credits let them ([`Sharing`]). In
//! [`Wormhole`] they are packets, which hold their whole way. Both answer with values, and the
//! caller schedules what follows. Links of both are those of a topology, what is down when is said
//! in [`outages`], and what is lost or comes to harm in [`damage`].
//!
//! A workload of packets runs over either: [`PacketNetwork`] is what it needs of a network, and
//! [`SharedLinks`] is [`Network`] behind that boundary.

mod account;
mod adapter;
mod by_host;
mod credits;
pub mod damage;
pub mod fluid;
mod followed;
mod frames;
pub mod hops;
mod journeys;
pub mod links;
mod network;
pub mod outages;
mod packets;
mod passage;
mod ports;
mod queue_windows;
mod queues;
pub mod rate;
mod routes;
mod shared;
mod spread;
mod ways;
pub mod windows;
pub mod wormhole;

pub use by_host::ByHost;
pub use credits::{Arbitration, CREDIT_BYTES, CreditLinks, Deadlock, FlowControl};
pub use followed::{PlaceWait, Waits};
pub use frames::limits::{QueueCounts, QueueLoss};
pub use journeys::JourneyId;
pub use links::{
    Arrival, Buffers, CongestionControl, LinkConfig, Marking, Queueing, SharedMemory, Sharing,
    SwitchModel, WhenFull,
};
pub use network::{Begun, Landing, Moved, Network, Next, Transfer};
pub use packets::{Arrivals, LinkUse, Packet, PacketCounts, PacketNetwork, Parcel};
pub use ports::Ports;
pub use queue_windows::{QUEUES_OF_A_WINDOW_MAX, QueueWindow};
pub use rate::{Frame, Rate, Switching};
pub use routes::Routes;
pub use shared::SharedLinks;
pub use wormhole::{Wormhole, WormholeConfig};
